//! Inserts and deletes at constant size, for as long as you like, with the memory that the process has.
//!
//!     cargo run --release -p noonmark --example soak -- [MINUTES]
//!
//! Two threads take the oldest order of a queue and add one at its end, with values of different lengths; two
//! delete and insert rows under random keys of a hash table, one of them with each transaction in a session of its
//! own. Every few seconds it prints how many rounds there have been, the memory that is allocated and not freed, and the
//! memory that is resident.
//!
//! While threads run, what is allocated comes and goes with what waits to be freed: the more, the longer one of them is
//! put aside in the midst of a transaction by a busy machine. So after a fifth of the time and at the end the threads
//! stop, what waits is freed, and what is still allocated then is compared, the indexes apart. It fails (exit status 1) if
//! the rows and all the rest have grown by more than 1 MiB: a leak of one byte in ten rounds is seen in some
//! minutes. It fails if the indexes take more than is documented (docs/memory.md) for that many entries. It fails, too, if the
//! most that was resident in the last four fifths is more than 10 % above the most in the first fifth, 8 MiB, and
//! what waited to be freed at most: what the allocator is still learning to reuse is allowed for.
//!
//! `scripts/soak` has the system's allocator keep one arena for all threads. With an arena for each, what a thread
//! has allocated lies in its own, and each of them grows until it has room for the rows that its thread had inserted when
//! it was ahead of the others: up to all rows in each (docs/memory.md).
//!
//! Resident memory is read from /proc, so this wants Linux.

#![allow(clippy::disallowed_methods, reason = "an endurance run lives by the system's clock")]

use noonmark::{Abort, Database, IndexKind, Protocol, Session, Table, TableOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WAITING: u64 = 100_000;
const ROWS: u64 = 100_000;
const QUEUE_THREADS: u64 = 2;
const ROW_THREADS: u64 = 2;
const LOOK_EVERY: Duration = Duration::from_secs(5);
const SETTLED_SLACK_BYTES: u64 = 1 << 20;
const RESIDENT_SLACK_BYTES: u64 = 8 << 20;
/// The most that an entry of an index takes [docs/memory.md]: in order, in groups of one; hashed, after it was larger.
const ORDERED_ENTRY_BYTES: u64 = 40;
const HASHED_ENTRY_BYTES: u64 = 64;
/// So many small transactions free what others left waiting.
const SETTLING_ROUNDS: u64 = 1000;

/// Bytes that the program has allocated and not freed.
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

/// The most that these have been since somebody looked.
static LIVE_BYTES_MOST: AtomicI64 = AtomicI64::new(0);

/// Counts what is to be allocated.
fn count(bytes: usize) {
    // Relaxed here and below: counts, and nothing hangs on their order.
    let live = LIVE_BYTES.fetch_add(bytes as i64, Ordering::Relaxed) + bytes as i64;
    // Seldom more than there has been: looking is cheaper than storing.
    if live > LIVE_BYTES_MOST.load(Ordering::Relaxed) {
        LIVE_BYTES_MOST.fetch_max(live, Ordering::Relaxed);
    }
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is handed on to the system's allocator unchanged (`realloc` is the trait's own, made of
// the others); counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as promised by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(address, layout) }
    }
}

/// Memory, in bytes: at one moment, or the most of each.
#[derive(Clone, Copy, Default)]
struct Memory {
    live: u64,
    /// The most that was live since the look before.
    live_most: u64,
    resident: u64,
}

impl Memory {
    fn now() -> Result<Memory, Box<dyn Error + Send + Sync>> {
        let live = LIVE_BYTES.load(Ordering::Relaxed);
        let live_most = LIVE_BYTES_MOST.swap(live, Ordering::Relaxed);
        Ok(Memory {
            live: live.max(0) as u64,
            live_most: live_most.max(0) as u64,
            resident: resident_bytes()?,
        })
    }

    fn most(self, other: Memory) -> Memory {
        Memory {
            live: self.live.max(other.live),
            live_most: self.live_most.max(other.live_most),
            resident: self.resident.max(other.resident),
        }
    }
}

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

/// What one thread does, again and again.
trait Worker: Send {
    fn work(&mut self, db: &Database, stage: &Stage) -> Result<(), Abort>;
}

/// Takes the oldest row, adds one.
struct QueueWorker {
    queue: Table<u64, Vec<u8>>,
    /// The next key: those of the other threads are between.
    end: u64,
}

impl Worker for QueueWorker {
    fn work(&mut self, db: &Database, stage: &Stage) -> Result<(), Abort> {
        let mut session = db.session()?;
        while stage.goes_on() {
            let queue = &self.queue;
            session.transact(|tx| {
                let oldest = tx.range(queue, ..).limit(1).collect()?;
                oldest.first().map_or(Ok(false), |(key, _)| tx.delete(queue, *key))
            })?;
            session.transact(|tx| tx.insert(queue, self.end, value(self.end)))?;
            self.end += QUEUE_THREADS;
        }
        Ok(())
    }
}

/// Deletes a row of its own, inserts another.
struct RowWorker {
    rows: Table<u64, Vec<u8>>,
    thread: u64,
    random: u64,
    keys: Vec<u64>,
}

impl Worker for RowWorker {
    fn work(&mut self, db: &Database, stage: &Stage) -> Result<(), Abort> {
        let (rows, thread) = (&self.rows, self.thread);
        // The first of these threads has a session for each transaction.
        let mut session: Option<Session> = if thread == 0 { None } else { Some(db.session()?) };
        while stage.goes_on() {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = (self.random >> 33) as usize % self.keys.len();
            // Below ROWS are the first ones' keys; the last bits tell the threads apart.
            let (old, new) =
                (self.keys[place], ROWS + (self.random >> 8) / ROW_THREADS * ROW_THREADS + thread);
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
                self.keys[place] = new;
            }
        }
        Ok(())
    }
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

/// Lets the workers run for some time; the most memory that there was.
fn run(
    db: &Database,
    workers: &mut [Box<dyn Worker>],
    rounds: &mut u64,
    length: Duration,
) -> Result<Memory, Box<dyn Error + Send + Sync>> {
    let stage = Stage { rounds: AtomicU64::new(*rounds), stop: AtomicBool::new(false) };
    let most = thread::scope(|scope| {
        let stage = &stage;
        let running: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(move || worker.work(db, stage))).collect();
        let began = Instant::now();
        let mut most = Memory::default();
        let watched: Result<(), Box<dyn Error + Send + Sync>> = loop {
            let elapsed = began.elapsed();
            if elapsed >= length || running.iter().any(|worker| worker.is_finished()) {
                break Ok(());
            }
            thread::sleep(LOOK_EVERY.min(length - elapsed).min(length / 5));
            let memory = match Memory::now() {
                Ok(memory) => memory,
                Err(error) => break Err(error),
            };
            most = memory.most(most);
            tell(stage.rounds.load(Ordering::Relaxed), memory);
        };
        stage.stop.store(true, Ordering::Relaxed);
        for worker in running {
            worker.join().map_err(|_| "a worker panicked")??;
        }
        watched.map(|()| most)
    })?;
    *rounds = stage.rounds.into_inner();
    Ok(most)
}

/// What is allocated when nothing waits to be freed any more.
fn settle(db: &Database, rounds: u64) -> Result<Memory, Box<dyn Error + Send + Sync>> {
    let table = db.table::<u64, Vec<u8>>("settling")?;
    let mut session = db.session()?;
    for round in 0..SETTLING_ROUNDS {
        session.transact(|tx| tx.upsert(&table, 0, value(round)))?;
        session.transact(|tx| tx.delete(&table, 0))?;
    }
    drop(session);
    let memory = Memory::now()?;
    tell(rounds, memory);
    println!("^ nothing runs, nothing waits to be freed");
    Ok(memory)
}

fn tell(rounds: u64, memory: Memory) {
    let Memory { live, live_most, resident } = memory;
    println!("{rounds:>14} {:>14.1} {:>14.1} {:>13.1}", mib(live), mib(live_most), mib(resident));
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
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for thread in 0..QUEUE_THREADS {
        workers.push(Box::new(QueueWorker { queue: queue.clone(), end: WAITING + thread }));
    }
    for thread in 0..ROW_THREADS {
        let keys = (thread..ROWS).step_by(ROW_THREADS as usize).collect();
        let random = 0x9e37_79b9_7f4a_7c15_u64 + thread;
        workers.push(Box::new(RowWorker { rows: rows.clone(), thread, random, keys }));
    }
    let length = Duration::from_secs_f64(minutes * 60.0);
    println!("{:>14} {:>14} {:>14} {:>13}", "rounds", "allocated MiB", "at most MiB", "resident MiB");
    let mut rounds = 0;
    let first_most = run(&db, &mut workers, &mut rounds, length / 5)?;
    let first = settle(&db, rounds)?;
    let first_indexes = (queue.index_bytes() + rows.index_bytes()) as u64;
    let later_most = run(&db, &mut workers, &mut rounds, length - length / 5)?;
    let later = settle(&db, rounds)?;
    let later_indexes = (queue.index_bytes() + rows.index_bytes()) as u64;
    let told = |what: &str, first: u64, later: u64, allowed: u64| {
        let (first, later, allowed_mib) = (mib(first), mib(later), mib(allowed));
        println!(
            "{what}: {first:.1} MiB in the first fifth, {later:.1} MiB later; allowed: {allowed_mib:.1} MiB"
        );
        later <= allowed_mib
    };
    let (first_rest, later_rest) =
        (first.live.saturating_sub(first_indexes), later.live.saturating_sub(later_indexes));
    let rest = told("rows and all the rest", first_rest, later_rest, first_rest + SETTLED_SLACK_BYTES);
    let entries_bytes = WAITING * ORDERED_ENTRY_BYTES + ROWS * HASHED_ENTRY_BYTES;
    let indexes = told("indexes", first_indexes, later_indexes, entries_bytes);
    let waited = later_most.live_most.saturating_sub(later.live);
    let allowed = first_most.resident + first_most.resident / 10 + RESIDENT_SLACK_BYTES + waited;
    let resident = told("resident, at most", first_most.resident, later_most.resident, allowed);
    Ok(rest && indexes && resident)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
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
