//! One run of `noonmark bench workers`.
//!
//! Whoever runs transactions looks at the clock before each: when it is warm he notes what he has counted so far, and when it is over he stops, and
//! tells what has been added since. The clock is this thread, which shows how it gets along meanwhile.

use super::args::Access;
use super::{Clients, WorkersRun};
use crate::error::Failure;
use hdrhistogram::Histogram;
use noonmark::{Abort, ConflictReport, Database, IndexKind, TableOptions};
use noonmark_cluster::client::{Client, ClusterAbort, Table};
use noonmark_cluster::cluster::Cluster;
use noonmark_cluster::executor::{block_on, block_on_all};
use noonmark_cluster::partition::{Partitioning, ServerId};
use noonmark_cluster::workers::WorkerLink;
use noonmark_workloads::random::Random;
use noonmark_workloads::report::{Latency, Phase, Progress, RunReport};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// So many rows are put in, or summed up, by one transaction.
const BATCH_ROWS: u64 = 100;
/// The display hears of so many transactions together.
const TOLD_TOGETHER: u64 = 64;
/// How often the display is told.
const TICK: Duration = Duration::from_millis(150);
/// Warming up takes no longer than this.
const WARM_UP_MAX_S: f64 = 0.25;
/// The longest latency that is told apart: a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Performs the run.
pub fn run(run: &WorkersRun, listen: &mut dyn FnMut(&Progress)) -> Result<RunReport, Failure> {
    let found = match run.clients {
        Some(clients) => on_cluster(run, clients, listen)?,
        None => on_engine(run, listen)?,
    };
    found.report(run)
}

impl WorkersRun {
    /// Draws the keys of a transaction, all different: of one worker, or one half of another's. The one is that at which it runs, if it does.
    fn draw(&self, at: Option<u16>, random: &mut Random, keys: &mut Vec<u64>) {
        let workers = u64::from(self.workers);
        let first = at.map_or_else(|| random.below(workers), u64::from);
        let second = match random.below(100) < u64::from(self.across_percent) {
            true => (first + 1 + random.below(workers - 1)) % workers,
            false => first,
        };
        keys.clear();
        while keys.len() < self.accesses {
            let worker = if keys.len().is_multiple_of(2) { first } else { second };
            let key = worker * self.rows_of_each() + random.below(self.rows_of_each());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }

    fn batches(&self) -> impl Iterator<Item = std::ops::Range<u64>> + use<> {
        let rows = self.rows;
        (0..rows).step_by(BATCH_ROWS as usize).map(move |from| from..rows.min(from + BATCH_ROWS))
    }

    fn warm_up_s(&self) -> f64 {
        WARM_UP_MAX_S.min(self.seconds / 2.0)
    }
}

/// What was counted, up to some moment or between two.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    commits: u64,
    messages: u64,
}

/// Tells everybody when it is warm, and when it is over.
#[derive(Default)]
struct Clock {
    is_warm: AtomicBool,
    is_over: AtomicBool,
    /// Commits since it is warm, about.
    committed: AtomicU64,
}

impl Clock {
    /// Runs it, and looks at the conflicts when it is warm and when it is over: those of the time between.
    fn run(
        &self,
        run: &WorkersRun,
        conflicts: &dyn Fn() -> BTreeMap<String, u64>,
        listen: &mut dyn FnMut(&Progress),
    ) -> BTreeMap<String, u64> {
        self.wait(Phase::WarmUp, run.warm_up_s(), listen);
        let before = conflicts();
        // Relaxed: nothing hangs on when it is seen.
        self.is_warm.store(true, Ordering::Relaxed);
        self.wait(Phase::Running, run.seconds, listen);
        let mut since = conflicts();
        self.is_over.store(true, Ordering::Relaxed);
        for (rule, count) in &mut since {
            *count -= before.get(rule).copied().unwrap_or(0).min(*count);
        }
        since.retain(|_, count| *count > 0);
        since
    }

    fn wait(&self, phase: Phase, total_s: f64, listen: &mut dyn FnMut(&Progress)) {
        let (began, mut before) = (Instant::now(), (0.0, 0));
        loop {
            let elapsed_s = began.elapsed().as_secs_f64();
            let committed = self.committed.load(Ordering::Relaxed);
            let recent_per_s = (committed - before.1) as f64 / (elapsed_s - before.0).max(1e-9);
            before = (elapsed_s, committed);
            listen(&Progress { phase, elapsed_s, total_s, committed, aborted: 0, recent_per_s });
            if elapsed_s >= total_s {
                return;
            }
            thread::sleep(TICK.min(Duration::from_secs_f64(total_s - elapsed_s)));
        }
    }
}

/// One that runs transactions, and looks at the clock before each.
struct Watch {
    clock: Arc<Clock>,
    warm: Option<(Instant, Counts)>,
    /// When the transaction began that is under way.
    began: Option<Instant>,
    /// Transactions that the clock has not been told of.
    untold: u64,
    latency_ns: Histogram<u64>,
}

impl Watch {
    fn new(clock: &Arc<Clock>) -> Result<Self, Failure> {
        let latency_ns = Histogram::new_with_max(LATENCY_NS_MAX, 3);
        let latency_ns = latency_ns.map_err(|error| Failure::run(error.to_string()))?;
        Ok(Watch { clock: clock.clone(), warm: None, began: None, untold: 0, latency_ns })
    }

    /// One transaction is over, and the next one may begin, unless it is over.
    fn goes_on(&mut self, counts: impl Fn() -> Counts) -> bool {
        let now = Instant::now();
        if let (Some(_), Some(began)) = (self.warm, self.began) {
            let ns = u64::try_from((now - began).as_nanos()).unwrap_or(u64::MAX);
            self.latency_ns.saturating_record(ns);
            self.untold += 1;
            // Seldom, as all threads write that line.
            if self.untold == TOLD_TOGETHER {
                self.clock.committed.fetch_add(std::mem::take(&mut self.untold), Ordering::Relaxed);
            }
        }
        if self.warm.is_none() && self.clock.is_warm.load(Ordering::Relaxed) {
            self.warm = Some((now, counts()));
        }
        self.began = Some(now);
        !self.clock.is_over.load(Ordering::Relaxed)
    }

    fn found(self, counts: Counts) -> Found {
        let mut found =
            Found { latency_ns: Some(self.latency_ns), all_commits: counts.commits, ..Found::default() };
        if let Some((since, before)) = self.warm {
            found.seconds = since.elapsed().as_secs_f64();
            found.commits = counts.commits - before.commits;
            found.messages = counts.messages - before.messages;
        }
        found
    }
}

/// What a run has come to while the clock ran.
#[derive(Default)]
struct Found {
    commits: u64,
    /// Also before it was warm.
    all_commits: u64,
    messages: u64,
    /// Of whoever took longest.
    seconds: f64,
    latency_ns: Option<Histogram<u64>>,
    conflicts: BTreeMap<String, u64>,
    /// The sum of all rows in the end.
    sum: i64,
}

impl Found {
    fn add(&mut self, other: Found) {
        self.commits += other.commits;
        self.all_commits += other.all_commits;
        self.messages += other.messages;
        self.seconds = self.seconds.max(other.seconds);
        match (&mut self.latency_ns, other.latency_ns) {
            // Of the same kind, so that there is room for all.
            (Some(mine), Some(theirs)) => drop(mine.add(theirs)),
            (mine, theirs) => *mine = mine.take().or(theirs),
        }
    }

    fn report(self, run: &WorkersRun) -> Result<RunReport, Failure> {
        let Found { commits, all_commits, messages, seconds, latency_ns, conflicts, sum, .. } = self;
        let latency_ns = latency_ns.ok_or_else(|| Failure::run("nobody has run any transaction"))?;
        let quantile_us = |quantile: f64| latency_ns.value_at_quantile(quantile) as f64 / 1e3;
        let changes = all_commits * run.accesses as u64;
        let holds = i64::try_from(changes) == Ok(sum);
        let condition = match holds {
            true => format!("the sum of all rows is that of all changes: {sum}"),
            false => format!("{changes} changes have committed, and the sum of all rows is {sum}"),
        };
        let parameters = BTreeMap::from([
            ("rows".into(), run.rows.to_string()),
            ("accesses".into(), run.accesses.to_string()),
            ("seed".into(), run.seed.to_string()),
            ("warm-up".into(), format!("{} s", run.warm_up_s())),
        ]);
        let aborted: u64 = conflicts.values().sum();
        Ok(RunReport {
            workload: "workers".into(),
            preset: run.preset(),
            protocol: run.who(),
            access: match run.access {
                Access::Together => "together".into(),
                Access::OneByOne => "one-by-one".into(),
            },
            threads: run.workers.into(),
            seconds,
            committed: commits,
            committed_per_s: if seconds > 0.0 { commits as f64 / seconds } else { 0.0 },
            aborts: conflicts,
            retries_per_commit: aborted as f64 / commits.max(1) as f64,
            latency_us: Latency {
                p50: quantile_us(0.5),
                p99: quantile_us(0.99),
                p999: quantile_us(0.999),
                max: latency_ns.max() as f64 / 1e3,
            },
            consistent: Some(holds),
            consistency: vec![condition],
            requests: run.clients.map(|_| messages),
            parameters,
            ..RunReport::default()
        })
    }
}

/// Conflicts by rule.
fn by_rule(reports: impl IntoIterator<Item = ConflictReport>) -> BTreeMap<String, u64> {
    let mut rules = BTreeMap::new();
    for conflict in reports.into_iter().flat_map(|report| report.by_rule) {
        *rules.entry(conflict.rule.to_string()).or_default() += conflict.count;
    }
    rules
}

fn loading(done: u64, total: u64, began: Instant, listen: &mut dyn FnMut(&Progress)) {
    let elapsed_s = began.elapsed().as_secs_f64();
    let phase = Phase::Loading { done, total };
    listen(&Progress { phase, elapsed_s, total_s: 0.0, committed: 0, aborted: 0, recent_per_s: 0.0 });
}

/// Nobody but a bug makes a thread panic.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> Result<T, Failure> {
    thread.join().map_err(|_| Failure::run("a thread has panicked"))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::run(error.to_string())
}

/// What one client runs.
struct Runner {
    run: Arc<WorkersRun>,
    table: Table<u64, i64>,
    /// The worker at which it runs, if it does.
    at: Option<u16>,
    random: Random,
}

/// One client's transactions, until the clock says that it is over.
async fn run_client(
    runner: Runner,
    mut watch: Watch,
    mut client: Client<WorkerLink>,
) -> Result<Found, ClusterAbort> {
    let Runner { run, table, at, mut random } = runner;
    let counts_of = |client: &Client<WorkerLink>| {
        let counts = client.counts();
        Counts { commits: counts.commits, messages: counts.messages }
    };
    let (mut keys, mut changed) = (Vec::new(), Vec::new());
    while watch.goes_on(|| counts_of(&client)) {
        run.draw(at, &mut random, &mut keys);
        changed.clear();
        changed.extend(keys.iter().map(|key| (*key, true)));
        client
            .transact(async |tx| {
                if run.access == Access::Together {
                    return tx.access_many(&table, &changed, |_, row| *row += 1).await;
                }
                for key in &keys {
                    tx.update(&table, *key, |row| *row += 1).await?;
                }
                Ok::<(), ClusterAbort>(())
            })
            .await?;
    }
    let counts = counts_of(&client);
    Ok(watch.found(counts))
}

fn on_cluster(
    run: &WorkersRun,
    clients: Clients,
    listen: &mut dyn FnMut(&Progress),
) -> Result<Found, Failure> {
    let branches = usize::from(clients.count).clamp(16, noonmark::SESSIONS_MAX);
    let cluster = Cluster::builder().workers(run.workers).branches_max(branches).build().map_err(failed)?;
    let options = TableOptions::new().protocol(run.protocol).index(IndexKind::Hash);
    let bounds =
        (1..u64::from(run.workers)).map(|worker| (worker * run.rows_of_each()).to_be_bytes().to_vec());
    let partitioning = Partitioning::Ranges(bounds.collect());
    let table = cluster.create_table::<u64, i64>("rows", options, partitioning).map_err(failed)?;
    let began = Instant::now();
    for keys in run.batches() {
        loading(keys.start, run.rows, began, listen);
        let put = block_on(cluster.transact(async |tx| {
            for key in keys.clone() {
                tx.insert(&table, key, 0).await?;
            }
            Ok::<(), ClusterAbort>(())
        }));
        put.map_err(failed)?;
    }
    let clock = Arc::new(Clock::default());
    let conflicts = || by_rule(cluster.statistics().into_iter().map(|server| server.conflicts));
    let runner = |number: u16, at| {
        let random = Random::new(run.seed, number.into());
        Runner { run: Arc::new(run.clone()), table: table.clone(), at, random }
    };
    let mut found = match clients.threads {
        0 => at_the_workers(&cluster, clients.count, runner, &clock, &mut || {
            clock.run(run, &conflicts, listen)
        })?,
        _ => on_threads(&cluster, clients, runner, &clock, &mut || clock.run(run, &conflicts, listen))?,
    };
    for keys in run.batches() {
        let keys: Vec<u64> = keys.collect();
        let sum = block_on(cluster.transact(async |tx| {
            Ok::<i64, ClusterAbort>(tx.get_many(&table, &keys).await?.into_iter().flatten().sum())
        }));
        found.sum += sum.map_err(failed)?;
    }
    Ok(found)
}

/// Clients on threads of their own, while the clock runs.
fn on_threads(
    cluster: &Cluster,
    clients: Clients,
    runner: impl Fn(u16, Option<u16>) -> Runner,
    clock: &Arc<Clock>,
    run_clock: &mut dyn FnMut() -> BTreeMap<String, u64>,
) -> Result<Found, Failure> {
    // Those of one thread are a row of numbers with gaps, so that all threads have as many, or one more.
    let mut groups = Vec::new();
    for thread in 0..clients.threads {
        let mut group = Vec::new();
        for number in (thread..clients.count).step_by(clients.threads.into()) {
            group.push((runner(number, None), Watch::new(clock)?, cluster.client().map_err(failed)?));
        }
        groups.push(group);
    }
    thread::scope(|scope| {
        let start = |group: Vec<_>| {
            scope.spawn(move || {
                let run_of = |(runner, watch, client)| run_client(runner, watch, client);
                block_on_all(group.into_iter().map(run_of))
            })
        };
        let started: Vec<_> = groups.into_iter().map(start).collect();
        let mut found = Found { conflicts: run_clock(), ..Found::default() };
        for thread in started {
            for of_client in joined(thread)? {
                found.add(of_client.map_err(failed)?);
            }
        }
        Ok(found)
    })
}

/// Clients at the workers, as many at each, or one more, while the clock runs.
fn at_the_workers(
    cluster: &Cluster,
    count: u16,
    runner: impl Fn(u16, Option<u16>) -> Runner,
    clock: &Arc<Clock>,
    run_clock: &mut dyn FnMut() -> BTreeMap<String, u64>,
) -> Result<Found, Failure> {
    let mut tasks = Vec::new();
    for number in 0..count {
        let at = number % cluster.workers();
        let (runner, watch) = (runner(number, Some(at)), Watch::new(clock)?);
        let program = |client| run_client(runner, watch, client);
        tasks.push(cluster.spawn_at(ServerId::new(at), program).map_err(failed)?);
    }
    let mut found = Found { conflicts: run_clock(), ..Found::default() };
    for task in tasks {
        found.add(block_on(task).map_err(failed)?.map_err(failed)?);
    }
    Ok(found)
}

fn on_engine(run: &WorkersRun, listen: &mut dyn FnMut(&Progress)) -> Result<Found, Failure> {
    let database = Database::in_memory();
    let options = TableOptions::new().protocol(run.protocol).index(IndexKind::Hash);
    let table = database.create_table::<u64, i64>("rows", options).map_err(failed)?;
    let began = Instant::now();
    for keys in run.batches() {
        loading(keys.start, run.rows, began, listen);
        let put =
            database.transact(|tx| keys.clone().try_for_each(|key| tx.insert(&table, key, 0).map(|_| ())));
        put.map_err(failed)?;
    }
    let clock = Arc::new(Clock::default());
    let of_session = |number: u16| {
        let mut session = database.session().map_err(failed)?;
        let counts_of =
            |session: &noonmark::Session| Counts { commits: session.statistics().commits, messages: 0 };
        let (mut random, mut keys) = (Random::new(run.seed, number.into()), Vec::new());
        let mut watch = Watch::new(&clock)?;
        while watch.goes_on(|| counts_of(&session)) {
            run.draw(None, &mut random, &mut keys);
            let done: Result<(), Abort> = session.transact(|tx| {
                if run.access == Access::Together {
                    return tx.update_many(&table, &keys, |_, row| *row += 1);
                }
                keys.iter().try_for_each(|key| tx.update(&table, *key, |row| *row += 1))
            });
            done.map_err(failed)?;
        }
        Ok::<Found, Failure>(watch.found(counts_of(&session)))
    };
    let mut found = Found::default();
    thread::scope(|scope| {
        let of_session = &of_session;
        let started: Vec<_> =
            (0..run.workers).map(|number| scope.spawn(move || of_session(number))).collect();
        found.conflicts = clock.run(run, &|| by_rule([database.conflicts()]), listen);
        for thread in started {
            found.add(joined(thread)??);
        }
        Ok::<(), Failure>(())
    })?;
    let sum = database.view(|tx| {
        let mut sum = 0;
        for key in 0..run.rows {
            sum += tx.get(&table, key)?.unwrap_or(0);
        }
        Ok(sum)
    });
    found.sum = sum.map_err(failed)?;
    Ok(found)
}
