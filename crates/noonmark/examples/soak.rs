//! Inserts and deletes at constant size, for as long as you like, with the memory that the process has.
//!
//!     cargo run --release -p noonmark --example soak -- [MINUTES]
//!
//! Two threads take the oldest order of a queue and add one at its end, with values of different lengths; two
//! delete and insert rows under random keys of a hash table, one of them with each transaction in a session of its
//! own. Every few seconds it prints the resident memory and how many rounds there have been. It fails (exit
//! status 1) if the most that was resident in the last four fifths of the time is more than 10 % and 8 MiB above the
//! most in the first fifth: what the allocator is still learning to reuse is allowed for, a leak is not.
//!
//! Resident memory is read from /proc, so this wants Linux.

#![allow(clippy::disallowed_methods, reason = "an endurance run lives by the system's clock")]

use noonmark::{Abort, Database, IndexKind, Protocol, Session, Table, TableOptions};
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WAITING: u64 = 100_000;
const ROWS: u64 = 100_000;
const QUEUE_THREADS: u64 = 2;
const ROW_THREADS: u64 = 2;
const LOOK_EVERY: Duration = Duration::from_secs(5);
const SLACK_BYTES: u64 = 8 << 20;

/// What the rounds count, and when they end.
struct Stage {
    rounds: AtomicU64,
    stop: AtomicBool,
}

impl Stage {
    fn goes_on(&self) -> bool {
        // Relaxed: a count and a flag; the threads are joined before anything depends on them.
        self.rounds.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; (number * 7 % 200) as usize]
}

/// Takes the oldest row, adds one.
fn queue_worker(db: &Database, queue: &Table<u64, Vec<u8>>, thread: u64, stage: &Stage) -> Result<(), Abort> {
    let mut session = db.session()?;
    let mut end = WAITING + thread;
    while stage.goes_on() {
        session.transact(|tx| {
            let oldest = tx.range(queue, ..).limit(1).collect()?;
            oldest.first().map_or(Ok(false), |(key, _)| tx.delete(queue, *key))
        })?;
        session.transact(|tx| tx.insert(queue, end, value(end)))?;
        end += QUEUE_THREADS;
    }
    Ok(())
}

/// Deletes a row of its own, inserts another; the first of these threads through sessions that pass.
fn row_worker(db: &Database, rows: &Table<u64, Vec<u8>>, thread: u64, stage: &Stage) -> Result<(), Abort> {
    let mut session: Option<Session> = if thread == 0 { None } else { Some(db.session()?) };
    let mut random = 0x9e37_79b9_7f4a_7c15_u64 + thread;
    let mut keys: Vec<u64> = (thread..ROWS).step_by(ROW_THREADS as usize).collect();
    while stage.goes_on() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = (random >> 33) as usize % keys.len();
        // Below ROWS are the first ones' keys; the last bits tell the threads apart.
        let (old, new) = (keys[place], ROWS + (random >> 8) / ROW_THREADS * ROW_THREADS + thread);
        let mut change = |tx: &mut noonmark::Transaction<'_>| {
            let inserted = tx.insert(rows, new, value(new))?;
            if inserted {
                tx.delete(rows, old)?;
            }
            Ok(inserted)
        };
        let inserted = match &mut session {
            Some(session) => session.transact(&mut change)?,
            None => db.transact(&mut change)?,
        };
        if inserted {
            keys[place] = new;
        }
    }
    Ok(())
}

/// Resident memory of this process.
fn resident_bytes() -> Result<u64, Box<dyn Error + Send + Sync>> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| format!("cannot read /proc/self/status: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib =
        line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    Ok(kib.ok_or("/proc/self/status does not say how much memory is resident")? * 1024)
}

fn soak(minutes: f64) -> Result<bool, Box<dyn Error + Send + Sync>> {
    let db = Database::in_memory();
    let queue = db.create_table::<u64, Vec<u8>>("queue", TableOptions::new().protocol(Protocol::TicToc))?;
    let options = TableOptions::new().protocol(Protocol::Occ).index(IndexKind::Hash);
    let rows = db.create_table::<u64, Vec<u8>>("rows", options)?;
    let mut session = db.session()?;
    for key in 0..WAITING {
        session.transact(|tx| tx.insert(&queue, key, value(key)))?;
    }
    for key in 0..ROWS {
        session.transact(|tx| tx.insert(&rows, key, value(key)))?;
    }
    drop(session);
    let stage = Stage { rounds: AtomicU64::new(0), stop: AtomicBool::new(false) };
    let length = Duration::from_secs_f64(minutes * 60.0);
    let (first_most, later_most) = thread::scope(|scope| {
        let (db, queue, rows, stage) = (&db, &queue, &rows, &stage);
        let queues = (0..QUEUE_THREADS).map(|t| scope.spawn(move || queue_worker(db, queue, t, stage)));
        let mut workers: Vec<_> = queues.collect();
        workers.extend((0..ROW_THREADS).map(|t| scope.spawn(move || row_worker(db, rows, t, stage))));
        let began = Instant::now();
        let (mut first_most, mut later_most) = (0, 0);
        println!("{:>8} {:>14} {:>12}", "seconds", "rounds", "resident MiB");
        let watched: Result<(), Box<dyn Error + Send + Sync>> = loop {
            let elapsed = began.elapsed();
            if elapsed >= length || workers.iter().any(|worker| worker.is_finished()) {
                break Ok(());
            }
            thread::sleep(LOOK_EVERY.min(length - elapsed).min(length / 20));
            let bytes = match resident_bytes() {
                Ok(bytes) => bytes,
                Err(error) => break Err(error),
            };
            let most = if began.elapsed() <= length / 5 { &mut first_most } else { &mut later_most };
            *most = bytes.max(*most);
            let rounds = stage.rounds.load(Ordering::Relaxed);
            println!(
                "{:>8.0} {rounds:>14} {:>12.1}",
                began.elapsed().as_secs_f64(),
                bytes as f64 / f64::from(1 << 20)
            );
        };
        stage.stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().map_err(|_| "a worker panicked")??;
        }
        watched.map(|()| (first_most, later_most))
    })?;
    let bound = first_most + first_most / 10 + SLACK_BYTES;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "at most {:.1} MiB in the first fifth, {:.1} MiB later; allowed: {:.1} MiB",
        mib(first_most),
        mib(later_most),
        mib(bound)
    );
    Ok(later_most <= bound)
}

fn main() -> ExitCode {
    let minutes = match std::env::args().nth(1).map(|text| text.parse::<f64>()) {
        None => 10.0,
        Some(Ok(minutes)) if minutes > 0.0 && minutes <= 100_000.0 => minutes,
        Some(_) => {
            eprintln!("soak: minutes must be a number above 0");
            return ExitCode::from(2);
        }
    };
    match soak(minutes) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("soak: memory has grown");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}
