//! Real-time figures of share-nothing workers, and the same transactions on one engine, in the same process.
//!
//!     cargo run --release -p noonmark-cluster --example workers -- [protocol=sundial] [workers=1,2] [threads=1] [clients=1,16]
//!         [shares=0,100] [accesses=4] [access=together|one-by-one] [rows=100000] [milliseconds=1000]
//!
//! A transaction reads, changes and writes `accesses` rows, drawn evenly. They are all of one worker; or, of as many transactions in a
//! hundred as `shares` says, one half of one worker and the other half of another one. `clients` of them run at the same time on each of
//! `threads` threads, one transaction after another each; beside them there is a thread for each of the `workers`. So a line is only worth
//! comparing with another if the machine has a core for each of those threads.
//!
//! - *committed/s*: in all, while the clock ran; the rows are there before, and it has been running for a tenth of that time.
//! - *engine*: the same transactions by [`noonmark::Session`]s, one on each of as many threads as there are workers, in a plain
//!   [`noonmark::Database`] under the same protocol: what the work costs without messages.
//! - *share*: the cluster's throughput by that of the engine.
//! - *requests*: messages to workers for each commit. There are as many answers.
//! - *aborts*: attempts that met a conflict, for a hundred commits.
//! - *mean*: time from one commit of a client to its next. With one client it is what a transaction takes; with more on a thread, its turn
//!   among them is included.
//!
//! `together` asks for all rows of a transaction at once, with one message to each worker; `one-by-one` with one for each row. The
//! engine does likewise: `update_many`, or `update` for each.
//!
//! In the end the sum of all rows must be that of all changes which have committed, or it fails.

use noonmark::{Abort, Database, IndexKind, Protocol, TableOptions};
use noonmark_cluster::client::{Client, ClusterAbort, Table};
use noonmark_cluster::cluster::Cluster;
use noonmark_cluster::executor::{block_on, block_on_all};
use noonmark_cluster::partition::Partitioning;
use noonmark_cluster::workers::WorkerLink;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What a client allocates a worker frees, and the other way round.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

/// So many rows are put in, or summed up, by one transaction.
const BATCH_ROWS: u64 = 100;

/// What transactions are like.
#[derive(Clone, Copy, Debug)]
struct Spec {
    protocol: Protocol,
    accesses: usize,
    together: bool,
    rows: u64,
    measured: Duration,
    workers: u64,
    /// Of a hundred transactions, those that are of two workers.
    share: u64,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ z >> 31) * u128::from(limit)) >> 64) as u64
    }
}

impl Spec {
    /// Rows of each worker.
    fn of_each(&self) -> u64 {
        self.rows / self.workers
    }

    /// Draws the keys of a transaction, all different.
    fn draw(&self, random: &mut Random, keys: &mut Vec<u64>) {
        let first = random.below(self.workers);
        let second = match self.workers > 1 && random.below(100) < self.share {
            true => (first + 1 + random.below(self.workers - 1)) % self.workers,
            false => first,
        };
        keys.clear();
        while keys.len() < self.accesses {
            let worker = if keys.len().is_multiple_of(2) { first } else { second };
            let key = worker * self.of_each() + random.below(self.of_each());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }

    fn batches(&self) -> impl Iterator<Item = std::ops::Range<u64>> + use<> {
        let rows = self.rows;
        (0..rows).step_by(BATCH_ROWS as usize).map(move |from| from..rows.min(from + BATCH_ROWS))
    }
}

/// What was counted, up to some moment or between two.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    commits: u64,
    aborts: u64,
    messages: u64,
}

/// What a run has come to while the clock ran.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    counts: Counts,
    per_s: f64,
}

impl std::ops::AddAssign for Found {
    fn add_assign(&mut self, other: Found) {
        self.counts.commits += other.counts.commits;
        self.counts.aborts += other.counts.aborts;
        self.counts.messages += other.counts.messages;
        self.per_s += other.per_s;
    }
}

/// Tells everybody when it is warm, and when it is over.
struct Clock {
    is_warm: AtomicBool,
    is_over: AtomicBool,
}

impl Clock {
    const fn new() -> Self {
        Clock { is_warm: AtomicBool::new(false), is_over: AtomicBool::new(false) }
    }

    fn run(&self, measured: Duration) {
        thread::sleep(measured / 10);
        // Relaxed: nothing hangs on when it is seen.
        self.is_warm.store(true, Ordering::Relaxed);
        thread::sleep(measured);
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// One that runs transactions, and looks at the clock before each.
struct Watch<'c> {
    clock: &'c Clock,
    warm: Option<(Instant, Counts)>,
}

impl<'c> Watch<'c> {
    fn new(clock: &'c Clock) -> Self {
        Watch { clock, warm: None }
    }

    fn goes_on(&mut self, counts: impl Fn() -> Counts) -> bool {
        if self.warm.is_none() && self.clock.is_warm.load(Ordering::Relaxed) {
            self.warm = Some((Instant::now(), counts()));
        }
        !self.clock.is_over.load(Ordering::Relaxed)
    }

    fn found(&self, counts: Counts) -> Found {
        let Some((since, before)) = self.warm else { return Found::default() };
        let counts = Counts {
            commits: counts.commits - before.commits,
            aborts: counts.aborts - before.aborts,
            messages: counts.messages - before.messages,
        };
        Found { counts, per_s: counts.commits as f64 / since.elapsed().as_secs_f64() }
    }
}

/// One client's transactions, until the clock says that it is over: what there was of it, and how many committed in all.
async fn run_client(
    spec: &Spec,
    clock: &Clock,
    mut client: Client<WorkerLink>,
    table: &Table<u64, i64>,
    seed: u64,
) -> Result<(Found, u64), ClusterAbort> {
    let counts_of = |client: &Client<WorkerLink>| {
        let counts = client.counts();
        Counts { commits: counts.commits, aborts: counts.aborts, messages: counts.messages }
    };
    let (mut random, mut keys, mut changed) = (Random(seed), Vec::new(), Vec::new());
    let mut watch = Watch::new(clock);
    while watch.goes_on(|| counts_of(&client)) {
        spec.draw(&mut random, &mut keys);
        changed.clear();
        changed.extend(keys.iter().map(|key| (*key, true)));
        client
            .transact(async |tx| {
                if spec.together {
                    return tx.access_many(table, &changed, |_, row| *row += 1).await;
                }
                for key in &keys {
                    tx.update(table, *key, |row| *row += 1).await?;
                }
                Ok::<(), ClusterAbort>(())
            })
            .await?;
    }
    let counts = counts_of(&client);
    Ok((watch.found(counts), counts.commits))
}

fn on_cluster(spec: &Spec, threads: u64, clients: u64) -> Result<Found, Failure> {
    let cluster = Cluster::builder()
        .workers(u16::try_from(spec.workers)?)
        .branches_max(usize::try_from(threads * clients)?.clamp(16, 1000))
        .build()?;
    let options = TableOptions::new().protocol(spec.protocol).index(IndexKind::Hash);
    let bounds = (1..spec.workers).map(|worker| (worker * spec.of_each()).to_be_bytes().to_vec()).collect();
    let table = cluster.create_table::<u64, i64>("rows", options, Partitioning::Ranges(bounds))?;
    for keys in spec.batches() {
        block_on(cluster.transact(async |tx| {
            for key in keys.clone() {
                tx.insert(&table, key, 0).await?;
            }
            Ok::<(), ClusterAbort>(())
        }))?;
    }
    let clock = Clock::new();
    let (mut found, mut commits) = (Found::default(), 0);
    thread::scope(|scope| {
        let mut started = Vec::new();
        for thread in 0..threads {
            let mine = (0..clients).map(|_| cluster.client()).collect::<Result<Vec<_>, _>>()?;
            let (table, clock) = (&table, &clock);
            started.push(scope.spawn(move || {
                let seeds = (0..).map(|number| thread << 32 | number);
                let runs = mine.into_iter().zip(seeds);
                block_on_all(runs.map(|(client, seed)| run_client(spec, clock, client, table, seed)))
            }));
        }
        clock.run(spec.measured);
        for thread in started {
            for run in thread.join().map_err(|_| "a client has panicked")? {
                let (of_client, commits_of_client) = run?;
                found += of_client;
                commits += commits_of_client;
            }
        }
        Ok::<(), Failure>(())
    })?;
    let mut sum = 0;
    for keys in spec.batches() {
        let keys: Vec<u64> = keys.collect();
        sum += block_on(cluster.transact(async |tx| {
            Ok::<i64, ClusterAbort>(tx.get_many(&table, &keys).await?.into_iter().flatten().sum())
        }))?;
    }
    let changes = commits * spec.accesses as u64;
    if sum != changes as i64 {
        return Err(format!("{changes} changes have committed, and the rows say {sum}").into());
    }
    Ok(found)
}

fn on_engine(spec: &Spec) -> Result<Found, Failure> {
    let database = Database::in_memory();
    let options = TableOptions::new().protocol(spec.protocol).index(IndexKind::Hash);
    let table = database.create_table::<u64, i64>("rows", options)?;
    for keys in spec.batches() {
        database.transact(|tx| keys.clone().try_for_each(|key| tx.insert(&table, key, 0).map(|_| ())))?;
    }
    let clock = Clock::new();
    let run = |seed: u64| {
        let mut session = database.session()?;
        let counts_of = |session: &noonmark::Session| {
            let counts = session.statistics();
            Counts { commits: counts.commits, aborts: counts.aborts, messages: 0 }
        };
        let (mut random, mut keys) = (Random(seed), Vec::new());
        let mut watch = Watch::new(&clock);
        while watch.goes_on(|| counts_of(&session)) {
            spec.draw(&mut random, &mut keys);
            session.transact(|tx| {
                if spec.together {
                    return tx.update_many(&table, &keys, |_, row| *row += 1);
                }
                keys.iter().try_for_each(|key| tx.update(&table, *key, |row| *row += 1))
            })?;
        }
        Ok::<Found, Abort>(watch.found(counts_of(&session)))
    };
    thread::scope(|scope| {
        let run = &run;
        let started: Vec<_> =
            (0..spec.workers).map(|thread| scope.spawn(move || run(thread << 32))).collect();
        clock.run(spec.measured);
        let mut sum = Found::default();
        for thread in started {
            sum += thread.join().map_err(|_| "a session has panicked")??;
        }
        Ok(sum)
    })
}

fn numbers(list: &str) -> Result<Vec<u64>, Failure> {
    list.split(',').map(|number| Ok(number.parse()?)).collect()
}

fn main() -> Result<(), Failure> {
    let mut spec = Spec {
        protocol: Protocol::Sundial,
        accesses: 4,
        together: true,
        rows: 100_000,
        measured: Duration::from_secs(1),
        workers: 1,
        share: 0,
    };
    let (mut workers, mut threads, mut clients, mut shares) =
        (vec![1, 2], vec![1], vec![1, 16], vec![0, 100]);
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("protocol", name)) => spec.protocol = name.parse()?,
            Some(("accesses", number)) => spec.accesses = number.parse()?,
            Some(("access", "together")) => spec.together = true,
            Some(("access", "one-by-one")) => spec.together = false,
            Some(("rows", number)) => spec.rows = number.parse()?,
            Some(("milliseconds", number)) => spec.measured = Duration::from_millis(number.parse()?),
            Some(("workers", list)) => workers = numbers(list)?,
            Some(("threads", list)) => threads = numbers(list)?,
            Some(("clients", list)) => clients = numbers(list)?,
            Some(("shares", list)) => shares = numbers(list)?,
            _ => return Err(format!("nothing is called {argument:?}; see the head of this example").into()),
        }
    }
    let most = workers.iter().max().copied().unwrap_or(1);
    if workers.contains(&0) || spec.rows / most < 2 * spec.accesses as u64 {
        return Err(
            "there is one worker at least, and each wants twice as many rows as a transaction has".into()
        );
    }
    println!(
        "{}: {} of {} rows read, changed and written {}; {} cores",
        spec.protocol,
        spec.accesses,
        spec.rows,
        if spec.together { "together" } else { "one by one" },
        thread::available_parallelism()?
    );
    println!(
        "{:>7} {:>7} {:>7} {:>6}  {:>11} {:>11} {:>6} {:>8} {:>6} {:>11}",
        "workers",
        "threads",
        "clients",
        "two, %",
        "committed/s",
        "engine",
        "share",
        "requests",
        "aborts",
        "mean"
    );
    for &workers in &workers {
        for &share in shares.iter().filter(|share| workers > 1 || **share == 0) {
            spec = Spec { workers, share, ..spec };
            let engine = on_engine(&spec)?;
            for (&threads, &clients) in
                threads.iter().flat_map(|threads| clients.iter().map(move |clients| (threads, clients)))
            {
                let found = on_cluster(&spec, threads, clients)?;
                let commits = found.counts.commits.max(1) as f64;
                println!(
                    "{workers:7} {threads:7} {:7} {share:6}  {:11.0} {:11.0} {:6.3} {:8.2} {:6.2} {:8.1} us",
                    threads * clients,
                    found.per_s,
                    engine.per_s,
                    found.per_s / engine.per_s,
                    found.counts.messages as f64 / commits,
                    100.0 * found.counts.aborts as f64 / commits,
                    1e6 * (threads * clients) as f64 / found.per_s,
                );
            }
        }
    }
    Ok(())
}
