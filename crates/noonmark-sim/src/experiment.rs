//! A workload on virtual cores: what the driver of the benchmarks does in real time, in virtual time.
//!
//! The rows are loaded for nothing, by nobody's clock. Then each worker runs transactions of the workload, one after another, in
//! a session of its own; those that end within the measured time count. What is measured begins after a warm-up, in
//! which the caches fill and queues form.
//!
//! What it does not do: it knows no paper and no plot, and of the transactional memory nothing ([`crate::memory`] does).

use crate::cores::{Limit, Limits, Report};
use crate::{LineCounts, Picoseconds, SimulationError, VirtualCores};
use noonmark_workloads::driver::memory;
use noonmark_workloads::engine::{EngineSession, EngineStore};
use noonmark_workloads::random::Random;
use noonmark_workloads::store::{Conflicts, Failure, Session, Store};
use noonmark_workloads::workload::{Condition, RunError, Seat, Share, Workload};
use std::cell::{Cell, OnceCell, RefCell};

/// How a workload is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Workers, each on a core of its own.
    pub workers: usize,
    /// Virtual time before measuring.
    pub warm_up_ps: Picoseconds,
    /// Virtual time that is measured.
    pub measured_ps: Picoseconds,
    /// How often workers may touch lines, all together, before the run is given up.
    pub steps_max: u64,
    /// Where all random numbers come from.
    pub seed: u64,
    /// Requests that each worker draws ahead.
    pub requests: usize,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Virtual seconds that were measured.
    pub seconds: f64,
    /// Transactions that committed in them.
    pub committed: u64,
    /// Transactions that called themselves off in them.
    pub user_rollbacks: u64,
    /// Attempts that ended in a conflict in them.
    pub aborted: u64,
    /// Those attempts by rule; and the keys that most conflicts of the whole run were about.
    pub conflicts: Conflicts,
    /// The most attempts that one transaction took.
    pub attempts_max: u64,
    /// How often the clock of the transactional memory was advanced in them, where its control has one.
    pub clock_increments: Option<u64>,
    /// Attempts in them that were irrevocable, where a control of the transactional memory knows that.
    pub irrevocable: Option<u64>,
    /// Latencies of the transactions that ended in them, in nanoseconds, sorted.
    pub latencies_ns: Vec<u64>,
    /// What the lines saw in them.
    pub lines: LineCounts,
    /// How often workers touched lines, in the whole run.
    pub steps: u64,
    /// The limit that ended the run early, if one did: the figures are of what was done by then.
    pub limit: Option<Limit>,
    /// Transactions that were under way before the measured time began, and given up after its end: in all of it they got nowhere.
    pub stuck: u64,
    /// What was checked after the run.
    pub conditions: Vec<Condition>,
}

impl Measured {
    /// Committed transactions a virtual second.
    pub fn per_s(&self) -> f64 {
        self.committed as f64 / self.seconds
    }

    /// Of all attempts, those that ended in a conflict.
    pub fn abort_share(&self) -> f64 {
        let attempts = self.aborted + self.committed + self.user_rollbacks;
        if attempts == 0 { 0.0 } else { self.aborted as f64 / attempts as f64 }
    }
}

/// Why a run did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The workload has failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The simulation has.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// What is run: transactions, by workers, one after another.
pub(crate) trait Job {
    /// Who will run them.
    type Worker;
    /// He, on his core.
    type Seated;
    /// What is counted of all of them together.
    type Counts: Clone;

    /// A worker comes to his core.
    fn begin(&self, worker: Self::Worker) -> Result<Self::Seated, RunError>;

    /// Runs a transaction.
    fn execute(&self, seated: &mut Self::Seated) -> Result<Outcome, RunError>;

    /// A transaction has ended; if it was within the measured time, it counts. Says when it began, if its worker has run others meanwhile.
    fn note_end(&self, _seated: &mut Self::Seated, _counts: bool) -> Option<Picoseconds> {
        None
    }

    /// A worker leaves.
    fn end(&self, seated: Self::Seated) -> Left;

    /// What has been counted so far.
    fn counts(&self) -> Self::Counts;
}

/// What a worker says as he leaves.
pub(crate) struct Left {
    /// How many attempts one transaction of his took at most.
    pub(crate) attempts_max: u64,
    /// When those began that he had put aside, and now gives up.
    pub(crate) aside_since_ps: Vec<Picoseconds>,
}

impl Left {
    /// Nothing put aside.
    pub(crate) fn nothing(attempts_max: u64) -> Self {
        Left { attempts_max, aside_since_ps: Vec::new() }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    CalledOff,
    /// It did not come through, and was given up.
    Failed,
}

/// What all workers did within the measured time.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) committed: u64,
    pub(crate) user_rollbacks: u64,
    pub(crate) attempts_max: u64,
    pub(crate) stuck: u64,
    /// Sorted.
    pub(crate) latencies_ns: Vec<u64>,
}

/// What was done within the measured time, and what was counted when it began and when it ended.
pub(crate) struct Done<C> {
    pub(crate) tally: Tally,
    pub(crate) before: C,
    pub(crate) after: C,
    pub(crate) lines: LineCounts,
    pub(crate) report: Report,
}

/// The counts by the time that measuring began, and by the time that it ended, with what the lines saw in between: taken by
/// whoever comes there first.
struct Watch<C> {
    before: OnceCell<C>,
    after: OnceCell<(C, LineCounts)>,
}

/// Runs a workload that has made its tables on a store of these cores.
///
/// # Errors
/// [`ExperimentError`] if the rows do not fit into memory, if there are more workers than cores, or if a transaction fails
/// otherwise than by a conflict.
pub fn run<W: Workload<EngineStore<VirtualCores>>>(
    cores: &VirtualCores,
    store: &EngineStore<VirtualCores>,
    workload: &W,
    plan: &Plan,
) -> Result<Measured, ExperimentError> {
    memory::check(workload.load_bytes())?;
    let mut loader = store.session().map_err(RunError::from)?;
    workload.load(&mut loader, Share { index: 0, count: 1 }, &|_| ())?;
    let workers = make_workers(workload, plan.workers, plan.seed, plan.requests)?;
    // What ends after the measured time goes into no figure, so that whoever would go on failing is not waited for. A little longer,
    // as what is counted by rule is told from what comes after by the first to end.
    let run_ps = plan.warm_up_ps + plan.measured_ps;
    let store = &store.clone().until_ns((cores.now_ps() + run_ps + run_ps / 64) / 1_000);
    let job = OfWorkload { store, workload, finished: RefCell::default() };
    let Done { tally, before, after: mut conflicts, lines, report } = measure(cores, &job, workers, plan)?;
    for (rule, count) in &mut conflicts.rules {
        *count -= before.rules.get(rule).copied().unwrap_or(0);
    }
    conflicts.rules.retain(|_, count| *count > 0);
    let conditions = workload.check(&mut loader, &mut job.finished.into_inner())?;
    Ok(Measured {
        seconds: plan.measured_ps as f64 / 1e12,
        committed: tally.committed,
        user_rollbacks: tally.user_rollbacks,
        aborted: conflicts.rules.values().sum(),
        conflicts,
        attempts_max: tally.attempts_max,
        clock_increments: None,
        irrevocable: None,
        latencies_ns: tally.latencies_ns,
        lines,
        steps: report.steps,
        limit: report.limit,
        stuck: tally.stuck,
        conditions,
    })
}

/// Has workers run transactions until the measured time is over.
pub(crate) fn measure<J: Job>(
    cores: &VirtualCores,
    job: &J,
    workers: Vec<J::Worker>,
    plan: &Plan,
) -> Result<Done<J::Counts>, ExperimentError> {
    measure_by(cores, job, workers, plan, |limits, bodies| cores.run(limits, bodies))
}

/// The same, where `run` is who runs them on these cores, perhaps besides others.
pub(crate) fn measure_by<'j, J: Job>(
    cores: &'j VirtualCores,
    job: &'j J,
    workers: Vec<J::Worker>,
    plan: &Plan,
    run: impl FnOnce(Limits, Vec<Box<dyn FnOnce() + '_>>) -> Result<Report, SimulationError>,
) -> Result<Done<J::Counts>, ExperimentError> {
    let began_ps = cores.now_ps();
    let from_ps = began_ps + plan.warm_up_ps;
    let until_ps = from_ps + plan.measured_ps;
    let total = RefCell::new(Tally::default());
    let failed = Cell::new(None);
    let watch = Watch { before: OnceCell::new(), after: OnceCell::new() };
    let body = |worker: J::Worker| {
        let (total, failed, watch) = (&total, &failed, &watch);
        move || {
            let tally = match work(cores, job, worker, from_ps..until_ps, watch) {
                Ok(tally) => tally,
                Err(error) => return failed.set(Some(error)),
            };
            let mut total = total.borrow_mut();
            total.committed += tally.committed;
            total.user_rollbacks += tally.user_rollbacks;
            total.stuck += tally.stuck;
            total.attempts_max = total.attempts_max.max(tally.attempts_max);
            total.latencies_ns.extend(tally.latencies_ns);
        }
    };
    // Twice the time: for jobs that do not end by themselves.
    let limits = Limits { until_ps: 2 * (plan.warm_up_ps + plan.measured_ps), steps: plan.steps_max };
    let bodies = workers.into_iter().map(|worker| Box::new(body(worker)) as Box<dyn FnOnce() + '_>);
    let report = run(limits, bodies.collect())?;
    if let Some(error) = failed.take() {
        return Err(error.into());
    }
    let mut tally = total.into_inner();
    tally.latencies_ns.sort_unstable();
    let (after, lines) = watch.after.into_inner().unwrap_or_else(|| (job.counts(), report.lines));
    let before = watch.before.into_inner().unwrap_or_else(|| after.clone());
    Ok(Done { tally, before, after, lines, report })
}

fn work<J: Job>(
    cores: &VirtualCores,
    job: &J,
    worker: J::Worker,
    measured: std::ops::Range<Picoseconds>,
    watch: &Watch<J::Counts>,
) -> Result<Tally, RunError> {
    let mut seated = job.begin(worker)?;
    let mut tally = Tally::default();
    let mut began_ps = cores.now_ps();
    while began_ps < measured.end && !cores.is_over() {
        let outcome = job.execute(&mut seated)?;
        let ended_ps = cores.now_ps();
        if ended_ps >= measured.start {
            watch.before.get_or_init(|| {
                cores.take_line_counts();
                job.counts()
            });
        }
        if ended_ps >= measured.end {
            watch.after.get_or_init(|| (job.counts(), cores.take_line_counts()));
        }
        let since_ps = job.note_end(&mut seated, measured.contains(&ended_ps)).unwrap_or(began_ps);
        if measured.contains(&ended_ps) {
            match outcome {
                Outcome::Committed => tally.committed += 1,
                Outcome::CalledOff => tally.user_rollbacks += 1,
                Outcome::Failed => {}
            }
            tally.latencies_ns.push((ended_ps - since_ps) / 1_000);
        } else if outcome == Outcome::Failed && since_ps < measured.start {
            tally.stuck += 1;
        }
        began_ps = ended_ps;
    }
    let Left { attempts_max, aside_since_ps } = job.end(seated);
    tally.attempts_max = attempts_max;
    tally.stuck += aside_since_ps.iter().filter(|&&since_ps| since_ps < measured.start).count() as u64;
    Ok(tally)
}

/// A workload of the engine.
struct OfWorkload<'a, W: Workload<EngineStore<VirtualCores>>> {
    store: &'a EngineStore<VirtualCores>,
    workload: &'a W,
    /// The workers that have left.
    finished: RefCell<Vec<W::Worker>>,
}

impl<W: Workload<EngineStore<VirtualCores>>> Job for OfWorkload<'_, W> {
    type Worker = W::Worker;
    type Seated = (EngineSession<VirtualCores>, W::Worker);
    type Counts = Conflicts;

    fn begin(&self, worker: W::Worker) -> Result<Self::Seated, RunError> {
        Ok((self.store.session()?, worker))
    }

    fn execute(&self, (session, worker): &mut Self::Seated) -> Result<Outcome, RunError> {
        match self.workload.execute(session, worker) {
            Ok(()) => Ok(Outcome::Committed),
            Err(Failure::Rollback) => Ok(Outcome::CalledOff),
            Err(Failure::Abort(abort)) if EngineStore::<VirtualCores>::is_conflict(&abort) => {
                Ok(Outcome::Failed)
            }
            Err(Failure::Abort(abort)) => Err(RunError::transaction("a transaction of the workload", abort)),
        }
    }

    fn end(&self, (mut session, worker): Self::Seated) -> Left {
        self.finished.borrow_mut().push(worker);
        Left::nothing(session.take_attempts_max())
    }

    fn counts(&self) -> Conflicts {
        self.store.conflicts()
    }
}

/// The workers of a run, with their requests.
pub(crate) fn make_workers<S: noonmark_workloads::store::Store, W: Workload<S>>(
    workload: &W,
    count: usize,
    seed: u64,
    requests: usize,
) -> Result<Vec<W::Worker>, RunError> {
    // For workloads that record; it goes into no figure. All run on this thread, so the order of its readings is that
    // in which things happen.
    let epoch = std::time::Instant::now();
    let seat =
        |number: usize| Seat { number, count, random: Random::new(seed, number as u64 + 1), requests, epoch };
    (0..count).map(|number| workload.worker(seat(number))).collect()
}
