//! What runs the workers of a benchmark of transactional memory, and measures them.
//!
//! Beside the [driver](crate::driver) of the other workloads, for one reason: here an operation takes 50 to 1000 ns, and a look at the
//! clock after each would be a fifth of what is measured, and the same fifth for a structure without synchronization and for one with. So
//! a worker looks twice for every [`BATCH`] operations: before and after the first of them, which is the sample of the latencies. Commits are all
//! counted.
//!
//! Operations of one thread overlap, if the processor can: it begins the next one while the one before waits for memory. So it does for independent
//! operations in any program, as far as they are near each other, and it does so more for what has no synchronization, since fences and
//! locks end it. [`Pace::Serial`] lets each begin when the one before has ended, and so tells what one costs by itself.
//!
//! A worker is made in its own thread, draws its requests, settles and waits for the others; only then does the clock start. So a
//! worker may hold what belongs to its thread (a lock, a guard).
//!
//! What a control counts (conflicts, the clock) is looked at when the measurement begins and after the last worker has ended: exact for runs of so
//! many transactions without a warm-up, and a batch a thread more or less otherwise.
//!
//! What it does not do: load, or check what should hold afterwards.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use noonmark_stm::{Conflict, Statistics};
use parking_lot::Mutex;

use crate::driver::{Length, Plan, check_plan, clock_ns, new_histogram, spawn};
use crate::random::Random;
use crate::report::{Phase, Progress};
use crate::workload::{Condition, RunError, Seat, Share};

/// Operations between two looks at whether to go on.
pub const BATCH: u64 = 64;
/// Time between two reports.
const TICK: Duration = Duration::from_millis(120);
/// Time between two looks at whether something is done that may be done soon.
const NAP: Duration = Duration::from_micros(500);

/// Who does the operations of one thread.
pub trait Work {
    /// What it hands back, to be checked.
    type Tally: Send;

    /// Does once what would be another thing the first time: reads, for one, what another thread has written while it loaded.
    fn settle(&mut self) {}

    /// Does one operation.
    fn execute(&mut self);

    /// Ends.
    fn tally(self) -> Self::Tally;
}

/// A workload with its data, apart from who runs it: threads ([`measure`]), or virtual cores elsewhere.
pub trait Play: Sync {
    /// Who does the operations of one thread.
    type Worker<'a>: Work<Tally = Self::Tally>
    where
        Self: 'a;
    /// What a worker hands back.
    type Tally: Send;

    /// One of the workers, made where it will work.
    fn worker(&self, seat: Seat) -> Self::Worker<'_>;

    /// What the control has counted so far.
    fn counted(&self) -> Counted;

    /// A run is about to be measured.
    fn begin(&self);

    /// What should hold after a run, in which the workers did this. Nothing else runs.
    fn check(&self, tallies: &[Self::Tally]) -> Vec<Condition>;
}

/// How operations of one thread follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as they can.
    #[default]
    Free,
    /// Each begins when the one before has ended: they do not overlap within the processor.
    Serial,
}

impl Pace {
    /// Between two operations.
    #[inline(always)]
    fn step(self) {
        if self == Pace::Serial {
            wait_for_loads();
        }
    }
}

/// Nothing that comes later begins before all that came earlier has ended, stores to memory excepted.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn wait_for_loads() {
    // SAFETY: every processor of this kind has the instruction (SSE2), and it does nothing but wait.
    unsafe { std::arch::x86_64::_mm_lfence() };
}

/// The same, as far as a look at the clock sees to it, which takes longer.
#[cfg(not(target_arch = "x86_64"))]
fn wait_for_loads() {
    std::hint::black_box(Instant::now());
}

/// What a control has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Attempts that met a conflict, by its kind.
    pub conflicts: Vec<(&'static str, u64)>,
    /// Attempts that were irrevocable, where the control knows that.
    pub irrevocable: Option<u64>,
    /// How often its clock has been advanced, if it has one.
    pub clock: Option<u64>,
    /// The most attempts that one transaction took.
    pub attempts_max: u64,
}

impl Counted {
    /// As a transactional memory has it.
    pub fn of(statistics: Statistics, has_clock: bool, falls_back: bool) -> Self {
        const KINDS: [(Conflict, &str); 5] = [
            (Conflict::ReadLocked, "read, locked"),
            (Conflict::ReadNewer, "read, newer"),
            (Conflict::WriteLocked, "write, locked"),
            (Conflict::WriteNewer, "write, newer"),
            (Conflict::Changed, "changed before the commit"),
        ];
        Counted {
            conflicts: KINDS.map(|(kind, name)| (name, statistics.conflicts_of(kind))).to_vec(),
            irrevocable: falls_back.then_some(statistics.irrevocable),
            clock: has_clock.then_some(statistics.clock),
            attempts_max: statistics.attempts_max,
        }
    }

    /// All conflicts.
    pub fn aborted(&self) -> u64 {
        self.conflicts.iter().map(|(_, count)| count).sum()
    }

    /// What has been counted since.
    #[must_use]
    pub fn since(mut self, before: &Counted) -> Counted {
        for (now, then) in self.conflicts.iter_mut().zip(&before.conflicts) {
            now.1 = now.1.saturating_sub(then.1);
        }
        let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        self.irrevocable = less(self.irrevocable, before.irrevocable);
        self.clock = less(self.clock, before.clock);
        self
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Measured<T> {
    /// Seconds that were measured.
    pub seconds: f64,
    /// Operations that were done in them, each a transaction that committed.
    pub committed: u64,
    /// Latencies in nanoseconds, of one operation in [`BATCH`].
    pub latency_ns: Histogram<u64>,
    /// What the control counted in that time.
    pub counted: Counted,
    /// What a look at the clock costs, which is part of every latency.
    pub clock_ns: f64,
    /// What the workers handed back; the warm-up is in it.
    pub tallies: Vec<T>,
}

const PREPARING: u8 = 0;
const WARMING_UP: u8 = 1;
const MEASURING: u8 = 2;
const STOPPING: u8 = 3;

/// A worker's own cache lines, two because processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Done(AtomicU64);

struct Stage {
    phase: AtomicU8,
    /// Workers that are ready, or gone.
    ready: AtomicU64,
    /// Workers that have not ended.
    working: AtomicU64,
    done: Vec<Done>,
}

impl Stage {
    fn is(&self, phase: u8) -> bool {
        // Relaxed, here and elsewhere: a phase orders nothing, and may be seen a little late. What workers hand back travels by
        // their threads' joins.
        self.phase.load(Ordering::Relaxed) == phase
    }

    fn committed(&self) -> u64 {
        self.done.iter().map(|done| done.0.load(Ordering::Relaxed)).sum()
    }
}

/// Says that a worker has left, also by a panic.
struct Leaving<'a> {
    stage: &'a Stage,
    is_ready: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.is_ready {
            self.stage.ready.fetch_add(1, Ordering::Relaxed);
        }
        self.stage.working.fetch_sub(1, Ordering::Relaxed);
        if std::thread::panicking() {
            self.stage.phase.store(STOPPING, Ordering::Relaxed);
        }
    }
}

struct Finished<T> {
    committed: u64,
    latency_ns: Histogram<u64>,
    tally: T,
}

/// Runs something in a thread of its own, and says meanwhile how many of so many are done.
pub fn load<T: Send>(
    total: u64,
    progress: &mut dyn FnMut(&Progress),
    job: impl FnOnce(&AtomicU64) -> T + Send,
) -> Result<T, RunError> {
    let (mut job, mut loaded) = (Some(job), None);
    let mut once = |done: &AtomicU64| loaded = job.take().map(|job| job(done));
    load_with(total, progress, &mut once)?;
    loaded.ok_or(RunError::Panic)
}

/// Once for all that is loaded, since it is compiled for each.
fn load_with(
    total: u64,
    progress: &mut dyn FnMut(&Progress),
    job: &mut (dyn FnMut(&AtomicU64) + Send),
) -> Result<(), RunError> {
    let (done, start) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        let done = &done;
        let loading = spawn(scope, move || job(done))?;
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
        let mut last = start;
        while !loading.is_finished() {
            std::thread::sleep(NAP);
            if last.elapsed() >= TICK {
                report();
                last = Instant::now();
            }
        }
        report();
        loading.join().map_err(|_| RunError::Panic)
    })
}

/// Has the workers of a workload work as planned.
pub fn measure_play<P: Play>(
    plan: &Plan,
    pace: Pace,
    play: &P,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Measured<P::Tally>, RunError> {
    play.begin();
    measure(plan, pace, |seat| play.worker(seat), &|| play.counted(), progress)
}

/// Has workers work as planned. `make` is called in each worker's thread.
pub fn measure<W: Work>(
    plan: &Plan,
    pace: Pace,
    make: impl Fn(Seat) -> W + Sync,
    counted: &(dyn Fn() -> Counted + Sync),
    progress: &mut dyn FnMut(&Progress),
) -> Result<Measured<W::Tally>, RunError> {
    check_plan(plan)?;
    let slots: Vec<Mutex<Option<Finished<W::Tally>>>> = (0..plan.threads).map(|_| Mutex::new(None)).collect();
    let histograms = (0..plan.threads).map(|_| new_histogram().map(Some).map(Mutex::new));
    let histograms = histograms.collect::<Result<Vec<_>, _>>()?;
    let clock_ns = clock_ns(Instant::now);
    let work = |seat: Seat, stage: &Stage| {
        let number = seat.number;
        let Some(latency_ns) = histograms[number].lock().take() else { return };
        let Done(done) = &stage.done[number];
        let finished = work(|| make(seat), pace, quota(plan, number), latency_ns, stage, done);
        *slots[number].lock() = Some(finished);
    };
    let (seconds, counted) = work_with(plan, &work, counted, progress)?;
    let (mut committed, mut latency_ns, mut tallies) = (0, new_histogram()?, Vec::new());
    for slot in slots {
        let finished = slot.into_inner().ok_or(RunError::Panic)?;
        committed += finished.committed;
        latency_ns.add(&finished.latency_ns).map_err(|error| RunError::Setting(error.to_string()))?;
        tallies.push(finished.tally);
    }
    Ok(Measured { seconds, committed, latency_ns, counted, clock_ns, tallies })
}

/// Once for all that work, since it is compiled for each. Answers the measured seconds, and what was counted in them.
fn work_with(
    plan: &Plan,
    work: &(dyn Fn(Seat, &Stage) + Sync),
    counted: &dyn Fn() -> Counted,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(f64, Counted), RunError> {
    let stage = Stage {
        phase: AtomicU8::new(PREPARING),
        ready: AtomicU64::new(0),
        working: AtomicU64::new(plan.threads as u64),
        done: (0..plan.threads).map(|_| Done::default()).collect(),
    };
    let epoch = Instant::now();
    let (seconds, before) = std::thread::scope(|scope| {
        let stage = &stage;
        let running: Result<Vec<_>, RunError> = (0..plan.threads)
            .map(|number| {
                let random = Random::new(plan.seed, number as u64 + 1);
                let seat = Seat { number, count: plan.threads, random, requests: plan.requests, epoch };
                spawn(scope, move || work(seat, stage))
            })
            .collect();
        // Relaxed: those that have been started may see it a little late.
        let running = running.inspect_err(|_| stage.phase.store(STOPPING, Ordering::Relaxed))?;
        let measured = coordinate(plan, stage, counted, progress);
        // All of them, also after one that panicked: a scope hands on the panic of a thread that nobody has joined.
        let panicked = running.into_iter().map(|worker| worker.join()).filter(Result::is_err).count();
        if panicked > 0 { Err(RunError::Panic) } else { Ok(measured) }
    })?;
    Ok((seconds, counted().since(&before)))
}

/// How many operations a worker does at most.
fn quota(plan: &Plan, number: usize) -> u64 {
    match plan.length.transactions {
        None => u64::MAX,
        Some(all) => {
            let share = Share { index: number as u64, count: plan.threads as u64 }.of(all);
            share.end - share.start
        }
    }
}

fn work<W: Work>(
    make: impl FnOnce() -> W,
    pace: Pace,
    quota: u64,
    mut latency_ns: Histogram<u64>,
    stage: &Stage,
    done: &AtomicU64,
) -> Finished<W::Tally> {
    let mut leaving = Leaving { stage, is_ready: false };
    let mut worker = make();
    worker.settle();
    leaving.is_ready = true;
    stage.ready.fetch_add(1, Ordering::Relaxed);
    while stage.is(PREPARING) {
        std::thread::sleep(NAP);
    }
    while stage.is(WARMING_UP) {
        for _ in 0..BATCH {
            worker.execute();
            pace.step();
        }
    }
    let mut committed = 0;
    while committed < quota && stage.is(MEASURING) {
        let batch = BATCH.min(quota - committed);
        let begin = Instant::now();
        worker.execute();
        latency_ns.saturating_record(begin.elapsed().as_nanos() as u64);
        for _ in 1..batch {
            pace.step();
            worker.execute();
        }
        committed += batch;
        done.store(committed, Ordering::Relaxed);
    }
    Finished { committed, latency_ns, tally: worker.tally() }
}

/// Moves the phases on, and reports. Answers the measured seconds, and what had been counted before them.
fn coordinate(
    plan: &Plan,
    stage: &Stage,
    counted: &dyn Fn() -> Counted,
    progress: &mut dyn FnMut(&Progress),
) -> (f64, Counted) {
    while stage.ready.load(Ordering::Relaxed) < plan.threads as u64 {
        std::thread::sleep(NAP);
    }
    // A worker that panicked has set the phase to stopping, and it must stay so.
    let advance = |from: u8, to: u8| {
        let _ = stage.phase.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    };
    let mut before = counted();
    if plan.warm_up_s > 0.0 {
        advance(PREPARING, WARMING_UP);
        wait(plan, stage, (Phase::WarmUp, Some(plan.warm_up_s)), &Counted::default, progress);
        before = counted();
        advance(WARMING_UP, MEASURING);
    } else {
        advance(PREPARING, MEASURING);
    }
    let start = Instant::now();
    let so_far = || counted().since(&before);
    wait(plan, stage, (Phase::Running, plan.length.seconds), &so_far, progress);
    stage.phase.store(STOPPING, Ordering::Relaxed);
    (start.elapsed().as_secs_f64(), before)
}

/// Waits until a phase is over, and reports.
fn wait(
    plan: &Plan,
    stage: &Stage,
    (phase, total_s): (Phase, Option<f64>),
    counted: &dyn Fn() -> Counted,
    progress: &mut dyn FnMut(&Progress),
) {
    let Length { transactions, .. } = plan.length;
    let start = Instant::now();
    let mut last = (start, 0_u64);
    loop {
        let elapsed_s = start.elapsed().as_secs_f64();
        let over = total_s.is_some_and(|total_s| elapsed_s >= total_s);
        if over || stage.is(STOPPING) || stage.working.load(Ordering::Relaxed) == 0 {
            return;
        }
        let left = total_s.map_or(TICK, |total_s| Duration::from_secs_f64(total_s - elapsed_s));
        // A run of so many transactions may be over at any moment: look often.
        let often = phase == Phase::Running && transactions.is_some();
        std::thread::sleep(if often { NAP } else { TICK }.min(left));
        let now = Instant::now();
        let since = (now - last.0).as_secs_f64();
        if since < TICK.as_secs_f64() * 0.9 {
            continue;
        }
        let committed = stage.committed();
        progress(&Progress {
            phase,
            elapsed_s: start.elapsed().as_secs_f64(),
            total_s: total_s.unwrap_or(0.0),
            committed,
            aborted: counted().aborted(),
            recent_per_s: committed.saturating_sub(last.1) as f64 / since,
        });
        last = (now, committed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Adding<'a>(&'a AtomicU64, u64);

    impl Work for Adding<'_> {
        type Tally = u64;

        fn execute(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.1 += 1;
        }

        fn tally(self) -> u64 {
            self.1
        }
    }

    fn plan(threads: usize, length: Length, warm_up_s: f64) -> Plan {
        Plan { threads, length, warm_up_s, seed: 1, requests: 1, count_allocations: false }
    }

    #[test]
    fn so_many_operations_are_so_many() {
        let sum = AtomicU64::new(0);
        let plan = plan(3, Length::transactions(1000), 0.0);
        let measured =
            measure(&plan, Pace::Free, |_| Adding(&sum, 0), &Counted::default, &mut |_| ()).unwrap();
        assert_eq!((measured.committed, sum.into_inner()), (1000, 1000));
        assert_eq!(measured.tallies.iter().sum::<u64>(), 1000);
        // One of each batch that was begun, by each worker.
        assert_eq!(measured.latency_ns.len(), 3 * 334_u64.div_ceil(BATCH));
    }

    #[test]
    fn the_warm_up_is_not_measured_but_in_what_is_handed_back() {
        let sum = AtomicU64::new(0);
        let plan = plan(2, Length::seconds(0.02), 0.02);
        let measured =
            measure(&plan, Pace::Free, |_| Adding(&sum, 0), &Counted::default, &mut |_| ()).unwrap();
        let all = sum.into_inner();
        assert!(measured.committed > 0 && measured.committed < all);
        assert_eq!(measured.tallies.iter().sum::<u64>(), all);
    }

    #[test]
    fn a_worker_that_panics_ends_the_run() {
        struct Failing;
        impl Work for Failing {
            type Tally = ();
            fn execute(&mut self) {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            fn tally(self) {}
        }
        let plan = plan(2, Length::seconds(100.0), 0.0);
        let failed = measure(&plan, Pace::Free, |_| Failing, &Counted::default, &mut |_| ());
        assert!(matches!(failed, Err(RunError::Panic)));
    }

    #[test]
    fn what_was_counted_before_is_left_out() {
        let at = |conflicts, clock| Counted {
            conflicts: vec![("read", conflicts)],
            irrevocable: None,
            clock: Some(clock),
            attempts_max: 3,
        };
        let since = at(5, 20).since(&at(2, 8));
        assert_eq!((since.aborted(), since.clock, since.irrevocable), (3, Some(12), None));
    }
}
