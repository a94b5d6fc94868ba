//! What runs a workload and measures it.
//!
//! A run is: check that the rows fit into memory; load them by as many threads as will work; draw every
//! worker's requests; start the workers; let them warm up; measure; stop; check what should hold.
//!
//! What is timed and how:
//!
//! - A worker reads the clock once a transaction: the end of one is the beginning of the next. So a latency
//!   includes every attempt, the back-off between them, taking the request from its ring, and the driver's own
//!   bookkeeping (one histogram entry and two plain stores); the cost of reading the clock, measured when the run
//!   starts, is in [`Measured::clock_ns`]. It is the processor's counter where that is steady ([`quanta`]): a look at the
//!   system's clock waits for all loads before it, and was a fifth of a hot counter's transaction. That one transaction's last steps and the
//!   next one's first may be told apart a few nanoseconds off is the price; none is counted twice.
//! - Requests are drawn before the workers start, into a ring for each that is gone round; see
//!   [`Ring`](crate::workload::Ring). The ring's length is in [`Plan::requests`].
//! - The workers switch from warming up to measuring when they see the phase change, between two transactions.
//!   Each counts what it finished in its own measured time; the seconds are those of the coordinator.
//! - Threads are not pinned. How far two cores are apart is measured when the run starts ([`Measured::hop_ns`]).
//!
//! The coordinator sleeps between its reports. What it reads of a worker (commits and aborts so far) lies on a
//! cache line of the worker's own, to which the worker does plain stores.
//!
//! What it does not do: repeat runs or compare them, or write anything down.

pub(crate) mod hop;
pub mod memory;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quanta::Clock;

use crate::alloc::{self, Allocated};
use crate::random::Random;
use crate::report::{Phase, Progress};
use crate::store::{Conflicts, Failure, Session, Store};
use crate::workload::{Condition, RunError, Seat, Share, Workload};

/// How long the measured part lasts: until the first of the limits that are given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Length {
    /// So many seconds.
    pub seconds: Option<f64>,
    /// So many transactions in all, shared out among the threads.
    pub transactions: Option<u64>,
}

impl Length {
    /// So many seconds.
    pub fn seconds(seconds: f64) -> Self {
        Length { seconds: Some(seconds), transactions: None }
    }

    /// So many transactions.
    pub fn transactions(transactions: u64) -> Self {
        Length { seconds: None, transactions: Some(transactions) }
    }
}

/// How a workload is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Worker threads.
    pub threads: usize,
    /// How long to measure.
    pub length: Length,
    /// Seconds of warming up before that.
    pub warm_up_s: f64,
    /// Where all random numbers come from.
    pub seed: u64,
    /// Requests that each worker draws ahead.
    pub requests: usize,
    /// Whether to count allocations.
    pub count_allocations: bool,
}

impl Plan {
    /// About as many transactions as two cores of today commit in such a run, at most: what is touched is an estimate.
    fn transactions_at_most(&self) -> u64 {
        let Length { seconds, transactions } = self.length;
        let by_time =
            seconds.map(|seconds| ((seconds + self.warm_up_s) * RATE_MAX * self.threads as f64) as u64);
        by_time.into_iter().chain(transactions).min().unwrap_or(0)
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Measured<W> {
    /// Seconds that were measured.
    pub seconds: f64,
    /// Transactions that committed in them.
    pub committed: u64,
    /// Transactions that called themselves off in them.
    pub user_rollbacks: u64,
    /// Transactions that were given up after as many attempts as they were allowed.
    pub given_up: u64,
    /// Attempts that ended in a conflict in them.
    pub aborted: u64,
    /// The same by rule, with the hottest keys of the whole run.
    pub conflicts: Conflicts,
    /// The most attempts that one transaction took.
    pub attempts_max: u64,
    /// Latencies in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// What the workers allocated, where it was counted.
    pub allocated: Option<Allocated>,
    /// What reading the clock costs, which is part of every latency.
    pub clock_ns: f64,
    /// What a cache line took from one core to another just before the run, if it has several threads and the machine several cores.
    pub hop_ns: Option<f64>,
    /// What was checked after the run.
    pub conditions: Vec<Condition>,
    /// The workers, for what they kept.
    pub workers: Vec<W>,
}

/// The longest latency that is told from longer ones.
const LATENCY_NS_MAX: u64 = 1_000_000_000_000;
/// Time between two reports.
const TICK: Duration = Duration::from_millis(120);
/// Transactions a second and thread, of those that leave memory behind: more than any that was measured (268 thousand).
const RATE_MAX: f64 = 300_000.0;
/// More threads than this are a mistake rather than a wish; the engine has sessions for some more than that.
pub const THREADS_MAX: usize = 1000;

/// A worker's own cache lines, two because processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Tally {
    committed: AtomicU64,
    aborted: AtomicU64,
}

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const STOPPING: u8 = 2;

/// What coordinator and workers share.
struct Stage {
    phase: AtomicU8,
    /// Workers that still run.
    working: AtomicU64,
    tallies: Vec<Tally>,
}

struct Finished<W> {
    worker: W,
    committed: u64,
    user_rollbacks: u64,
    given_up: u64,
    aborted: u64,
    attempts_max: u64,
    latency_ns: Histogram<u64>,
    allocated: Allocated,
}

/// Runs a workload that has made its tables on the store.
pub fn drive<S: Store, W: Workload<S>>(
    store: &S,
    workload: &W,
    plan: &Plan,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Measured<W::Worker>, RunError> {
    check_plan(plan)?;
    memory::check(workload.load_bytes())?;
    memory::touch(plan.transactions_at_most().saturating_mul(workload.growth_bytes()));
    load(store, workload, plan.threads, progress)?;
    let epoch = Instant::now();
    let mut workers = make_workers::<S, W>(workload, plan, epoch)?;
    let clock = Clock::new();
    let clock_ns = clock_ns(|| clock.raw());
    let hop_ns = if plan.threads > 1 { hop::hop_ns() } else { None };
    let mut measured = measure(store, workload, plan, &mut workers, progress)?;
    measured.clock_ns = clock_ns;
    measured.hop_ns = hop_ns;
    let mut session = store.session()?;
    measured.conditions = workload.check(&mut session, &mut measured.workers)?;
    // The failed ones first; otherwise as the workload has them.
    measured.conditions.sort_by_key(|condition| condition.holds);
    Ok(measured)
}

/// That a plan can be carried out.
pub fn check_plan(plan: &Plan) -> Result<(), RunError> {
    let wrong = |what: String| Err(RunError::Setting(what));
    if plan.threads == 0 || plan.threads > THREADS_MAX {
        return wrong(format!("threads must be from 1 to {THREADS_MAX}, not {}", plan.threads));
    }
    match plan.length {
        Length { seconds: None, transactions: None } => {
            return wrong("a run needs an end: seconds, or a number of transactions".into());
        }
        Length { seconds: Some(seconds), .. } if !(seconds > 0.0 && seconds <= 1e6) => {
            return wrong(format!("seconds must be more than 0 and at most a million, not {seconds}"));
        }
        Length { transactions: Some(0), .. } => {
            return wrong("there must be at least one transaction to run".into());
        }
        _ => {}
    }
    if !(plan.warm_up_s >= 0.0 && plan.warm_up_s <= 1e6) {
        return wrong(format!("warm-up seconds must be from 0 to a million, not {}", plan.warm_up_s));
    }
    if plan.count_allocations && !alloc::is_installed() {
        return wrong("this program's allocator does not count allocations".into());
    }
    Ok(())
}

/// What reading a clock costs.
pub(crate) fn clock_ns<T>(read: impl Fn() -> T) -> f64 {
    const READINGS: u32 = 10_000;
    let start = Instant::now();
    for _ in 0..READINGS {
        std::hint::black_box(read());
    }
    start.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

fn load<S: Store, W: Workload<S>>(
    store: &S,
    workload: &W,
    threads: usize,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), RunError> {
    let total = workload.rows();
    let threads = threads.min(std::thread::available_parallelism().map_or(1, usize::from)).max(1) as u64;
    let done = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let done = &done;
        let loaders = (0..threads)
            .map(|index| {
                spawn(scope, move || {
                    let mut session = store.session()?;
                    // Relaxed: a figure to show.
                    let loaded = |rows| {
                        done.fetch_add(rows, Ordering::Relaxed);
                    };
                    workload.load(&mut session, Share { index, count: threads }, &loaded)
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut report = || {
            progress(&Progress {
                phase: Phase::Loading { done: done.load(Ordering::Relaxed).min(total), total },
                elapsed_s: start.elapsed().as_secs_f64(),
                total_s: 0.0,
                committed: 0,
                aborted: 0,
                recent_per_s: 0.0,
            });
        };
        let mut waited = Duration::ZERO;
        while !loaders.iter().all(ScopedJoinHandle::is_finished) {
            let nap = if waited < TICK { Duration::from_millis(1) } else { TICK };
            std::thread::sleep(nap);
            waited += nap;
            if waited >= TICK {
                report();
            }
        }
        report();
        join_all(loaders).map(drop)
    })
}

fn make_workers<S: Store, W: Workload<S>>(
    workload: &W,
    plan: &Plan,
    epoch: Instant,
) -> Result<Vec<W::Worker>, RunError> {
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut workers = Vec::with_capacity(plan.threads);
    let numbers: Vec<usize> = (0..plan.threads).collect();
    for some in numbers.chunks(at_once) {
        let made: Result<Vec<W::Worker>, RunError> = std::thread::scope(|scope| {
            let making = some
                .iter()
                .map(|&number| {
                    let seat = Seat {
                        number,
                        count: plan.threads,
                        random: Random::new(plan.seed, number as u64 + 1),
                        requests: plan.requests,
                        epoch,
                    };
                    spawn(scope, move || workload.worker(seat))
                })
                .collect::<Result<_, _>>()?;
            join_all(making)
        });
        workers.extend(made?);
    }
    Ok(workers)
}

/// Starts a thread in a scope, which waits for it. An error if the system has no room for one more.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, RunError> {
    std::thread::Builder::new().spawn_scoped(scope, body).map_err(RunError::Threads)
}

/// What threads of a scope answer: all of them, or the first error. Each is waited for, also after one that failed: a scope hands on
/// the panic of a thread that nobody has joined. A panic is told before any other error, which may have come from it.
fn join_all<T>(threads: Vec<ScopedJoinHandle<'_, Result<T, RunError>>>) -> Result<Vec<T>, RunError> {
    let answers: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    if answers.iter().any(Result::is_err) {
        return Err(RunError::Panic);
    }
    answers.into_iter().flatten().collect()
}

fn measure<S: Store, W: Workload<S>>(
    store: &S,
    workload: &W,
    plan: &Plan,
    workers: &mut Vec<W::Worker>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Measured<W::Worker>, RunError> {
    let quota = |number: usize| match plan.length.transactions {
        None => u64::MAX,
        Some(all) => {
            let share = Share { index: number as u64, count: plan.threads as u64 }.of(all);
            share.end - share.start
        }
    };
    let stage = Stage {
        phase: AtomicU8::new(if plan.warm_up_s > 0.0 { WARMING_UP } else { MEASURING }),
        working: AtomicU64::new(plan.threads as u64),
        tallies: (0..plan.threads).map(|_| Tally::default()).collect(),
    };
    // All sessions first: it is all of them or none.
    let sessions = (0..plan.threads).map(|_| store.session()).collect::<Result<Vec<_>, _>>()?;
    let before = store.conflicts();
    let _switch = AllocationSwitch::new(plan.count_allocations);
    let (seconds, conflicts, finished) = std::thread::scope(|scope| {
        let stage = &stage;
        let running: Result<Vec<_>, RunError> = workers
            .drain(..)
            .zip(sessions)
            .enumerate()
            .map(|(number, (worker, session))| {
                let quota = quota(number);
                spawn(scope, move || work(workload, session, worker, quota, stage, &stage.tallies[number]))
            })
            .collect();
        // Relaxed: those that have been started may see it a little late.
        let running = running.inspect_err(|_| stage.phase.store(STOPPING, Ordering::Relaxed))?;
        let (seconds, conflicts) = coordinate(store, plan, stage, before, progress);
        Ok::<_, RunError>((seconds, conflicts, join_all(running)?))
    })?;
    let mut measured = Measured {
        seconds,
        committed: 0,
        user_rollbacks: 0,
        given_up: 0,
        aborted: 0,
        conflicts,
        attempts_max: 0,
        latency_ns: new_histogram()?,
        allocated: plan.count_allocations.then(Allocated::default),
        clock_ns: 0.0,
        hop_ns: None,
        conditions: Vec::new(),
        workers: Vec::new(),
    };
    for finished in finished {
        measured.committed += finished.committed;
        measured.user_rollbacks += finished.user_rollbacks;
        measured.given_up += finished.given_up;
        measured.aborted += finished.aborted;
        measured.attempts_max = measured.attempts_max.max(finished.attempts_max);
        let added = measured.latency_ns.add(&finished.latency_ns);
        added.map_err(|error| RunError::Setting(error.to_string()))?;
        if let Some(allocated) = &mut measured.allocated {
            *allocated += finished.allocated;
        }
        measured.workers.push(finished.worker);
    }
    Ok(measured)
}

/// Counts allocations while it lives.
struct AllocationSwitch(bool);

impl AllocationSwitch {
    fn new(on: bool) -> Self {
        if on {
            alloc::set_counting(true);
        }
        AllocationSwitch(on)
    }
}

impl Drop for AllocationSwitch {
    fn drop(&mut self) {
        if self.0 {
            alloc::set_counting(false);
        }
    }
}

pub(crate) fn new_histogram() -> Result<Histogram<u64>, RunError> {
    Histogram::new_with_max(LATENCY_NS_MAX, 3).map_err(|error| RunError::Setting(error.to_string()))
}

/// Says that a worker has left, however it left: by an error or a panic too.
struct Leaving<'a>(&'a Stage);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        // Relaxed: the results travel by the thread's join.
        self.0.working.fetch_sub(1, Ordering::Relaxed);
        if std::thread::panicking() {
            self.0.phase.store(STOPPING, Ordering::Relaxed);
        }
    }
}

fn work<S: Store, W: Workload<S>>(
    workload: &W,
    mut session: S::Session,
    mut worker: W::Worker,
    quota: u64,
    stage: &Stage,
    tally: &Tally,
) -> Result<Finished<W::Worker>, RunError> {
    let _leaving = Leaving(stage);
    let mut latency_ns = new_histogram()?;
    // Calibrated when the run started.
    let clock = Clock::new();
    let (mut committed, mut user_rollbacks, mut given_up) = (0_u64, 0_u64, 0_u64);
    let failed = |reason: &dyn std::fmt::Display| {
        // The others are to stop too: there will be no result.
        stage.phase.store(STOPPING, Ordering::Relaxed);
        RunError::transaction("a transaction of the workload", reason)
    };
    // Relaxed throughout: the phase orders nothing, and a worker may see it a little late.
    while stage.phase.load(Ordering::Relaxed) == WARMING_UP {
        match workload.execute(&mut session, &mut worker) {
            Ok(()) | Err(Failure::Rollback) => {}
            Err(Failure::Abort(abort)) if S::is_conflict(&abort) => {}
            Err(Failure::Abort(abort)) => return Err(failed(&abort)),
        }
    }
    let before = session.counts();
    session.take_attempts_max();
    let allocated_before = alloc::on_this_thread();
    let mut left = quota;
    let mut last = clock.raw();
    while left > 0 && stage.phase.load(Ordering::Relaxed) == MEASURING {
        match workload.execute(&mut session, &mut worker) {
            Ok(()) => committed += 1,
            Err(Failure::Rollback) => user_rollbacks += 1,
            Err(Failure::Abort(abort)) if S::is_conflict(&abort) => given_up += 1,
            Err(Failure::Abort(abort)) => return Err(failed(&abort)),
        }
        left -= 1;
        let now = clock.raw();
        latency_ns.saturating_record(clock.delta_as_nanos(last, now));
        last = now;
        tally.committed.store(committed, Ordering::Relaxed);
        tally.aborted.store(session.counts().aborts - before.aborts, Ordering::Relaxed);
    }
    let allocated = alloc::on_this_thread() - allocated_before;
    let counts = session.counts();
    Ok(Finished {
        worker,
        committed,
        user_rollbacks,
        given_up,
        aborted: counts.aborts - before.aborts,
        attempts_max: session.take_attempts_max(),
        latency_ns,
        allocated,
    })
}

/// Moves the phases on, and reports. Answers the measured seconds and the conflicts in them.
fn coordinate<S: Store>(
    store: &S,
    plan: &Plan,
    stage: &Stage,
    mut before: Conflicts,
    progress: &mut dyn FnMut(&Progress),
) -> (f64, Conflicts) {
    let mut last = (Instant::now(), 0_u64);
    let mut wait = |phase: Phase, start: Instant, total_s: Option<f64>| {
        last = (start, 0);
        loop {
            let elapsed_s = start.elapsed().as_secs_f64();
            if total_s.is_some_and(|total_s| elapsed_s >= total_s) {
                return;
            }
            let stopping = stage.phase.load(Ordering::Relaxed) == STOPPING;
            if stopping || stage.working.load(Ordering::Relaxed) == 0 {
                return;
            }
            let left = total_s.map_or(TICK, |total_s| Duration::from_secs_f64(total_s - elapsed_s));
            // A run of so many transactions may be over at any moment: look often.
            let often = phase == Phase::Running && plan.length.transactions.is_some();
            let nap = if often { Duration::from_millis(1) } else { TICK }.min(left);
            std::thread::sleep(nap);
            let now = Instant::now();
            let since = (now - last.0).as_secs_f64();
            if since < TICK.as_secs_f64() * 0.9 {
                continue;
            }
            let sum = |of: fn(&Tally) -> &AtomicU64| -> u64 {
                stage.tallies.iter().map(|tally| of(tally).load(Ordering::Relaxed)).sum()
            };
            let committed = sum(|tally| &tally.committed);
            progress(&Progress {
                phase,
                elapsed_s: start.elapsed().as_secs_f64(),
                total_s: total_s.unwrap_or(0.0),
                committed,
                aborted: sum(|tally| &tally.aborted),
                recent_per_s: committed.saturating_sub(last.1) as f64 / since,
            });
            last = (now, committed);
        }
    };
    if plan.warm_up_s > 0.0 {
        wait(Phase::WarmUp, Instant::now(), Some(plan.warm_up_s));
        before = store.conflicts();
        // A worker that failed has set the phase to stopping, and it must stay so.
        let _ = stage.phase.compare_exchange(WARMING_UP, MEASURING, Ordering::Relaxed, Ordering::Relaxed);
    }
    let start = Instant::now();
    wait(Phase::Running, start, plan.length.seconds);
    stage.phase.store(STOPPING, Ordering::Relaxed);
    let seconds = start.elapsed().as_secs_f64();
    let mut conflicts = store.conflicts();
    for (rule, count) in &mut conflicts.rules {
        *count = count.saturating_sub(before.rules.get(rule).copied().unwrap_or(0));
    }
    conflicts.rules.retain(|_, count| *count > 0);
    (seconds, conflicts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a thread does whose place in line decides when it ends: the first panics, the others after it.
    fn failing(answers: &[Option<Result<u32, ()>>]) -> Result<Vec<u32>, RunError> {
        let failed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let failed = &failed;
            let threads = (0..).zip(answers).map(|(place, answer)| {
                scope.spawn(move || {
                    while failed.load(Ordering::Relaxed) < place {
                        std::thread::yield_now();
                    }
                    failed.fetch_add(1, Ordering::Relaxed);
                    match answer {
                        Some(answer) => answer.map_err(|()| RunError::Setting("this".into())),
                        None => std::panic::resume_unwind(Box::new("on purpose")),
                    }
                })
            });
            join_all(threads.collect())
        })
    }

    #[test]
    fn several_workers_that_panic_are_one_error() {
        assert!(matches!(failing(&[Some(Ok(1)), Some(Ok(2))]).as_deref(), Ok([1, 2])));
        assert!(matches!(failing(&[None, None, Some(Ok(3)), None]), Err(RunError::Panic)));
        assert!(matches!(failing(&[Some(Err(())), None, None]), Err(RunError::Panic)));
        assert!(matches!(failing(&[Some(Ok(1)), Some(Err(())), Some(Err(()))]), Err(RunError::Setting(_))));
    }
}
