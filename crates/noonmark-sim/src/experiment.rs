//! A workload on virtual cores: what the driver of the benchmarks does in real time, in virtual time.
//!
//! The rows are loaded for nothing, by nobody's clock. Then each worker runs transactions of the workload, one after another, in
//! a session of its own; those that end within the measured time count. What is measured begins after a warm-up, in
//! which the caches fill and queues form.
//!
//! What it does not do: it knows no paper and no plot.

use crate::cores::{Limit, Limits};
use crate::{LineCounts, Picoseconds, SimulationError, VirtualCores};
use noonmark_workloads::driver::memory;
use noonmark_workloads::engine::EngineStore;
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
    /// Latencies of the transactions that ended in them, in nanoseconds, sorted.
    pub latencies_ns: Vec<u32>,
    /// What the lines saw in them.
    pub lines: LineCounts,
    /// How often workers touched lines, in the whole run.
    pub steps: u64,
    /// The limit that ended the run early, if one did: the figures are of what was done by then.
    pub limit: Option<Limit>,
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

/// What a worker did within the measured time.
#[derive(Default)]
struct Tally {
    committed: u64,
    user_rollbacks: u64,
    attempts_max: u64,
    latencies_ns: Vec<u32>,
}

/// The conflicts by the time that measuring began, and by the time that it ended, with what the lines saw in between: taken by
/// whoever comes there first.
#[derive(Default)]
struct Watch {
    before: OnceCell<Conflicts>,
    after: OnceCell<(Conflicts, LineCounts)>,
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
    let began_ps = cores.now_ps();
    let from_ps = began_ps + plan.warm_up_ps;
    let until_ps = from_ps + plan.measured_ps;
    let total = RefCell::new(Tally::default());
    let failed = Cell::new(None);
    let finished = RefCell::new(Vec::new());
    let watch = Watch::default();
    let body = |worker: W::Worker| {
        let (total, failed, finished, watch) = (&total, &failed, &finished, &watch);
        move || {
            let (worker, tally) = match work(cores, store, workload, worker, from_ps..until_ps, watch) {
                Ok(done) => done,
                Err(error) => return failed.set(Some(error)),
            };
            finished.borrow_mut().push(worker);
            let mut total = total.borrow_mut();
            total.committed += tally.committed;
            total.user_rollbacks += tally.user_rollbacks;
            total.attempts_max = total.attempts_max.max(tally.attempts_max);
            total.latencies_ns.extend(tally.latencies_ns);
        }
    };
    // Twice the time: whoever has a transaction under way may end it.
    let limits = Limits { until_ps: 2 * (plan.warm_up_ps + plan.measured_ps), steps: plan.steps_max };
    let report = cores.run(limits, workers.into_iter().map(body))?;
    if let Some(error) = failed.take() {
        return Err(error.into());
    }
    let Tally { committed, user_rollbacks, attempts_max, mut latencies_ns } = total.into_inner();
    latencies_ns.sort_unstable();
    let (mut conflicts, lines) =
        watch.after.into_inner().unwrap_or_else(|| (store.conflicts(), report.lines));
    let before = watch.before.into_inner().unwrap_or_else(|| conflicts.clone());
    for (rule, count) in &mut conflicts.rules {
        *count -= before.rules.get(rule).copied().unwrap_or(0);
    }
    conflicts.rules.retain(|_, count| *count > 0);
    let mut workers = finished.into_inner();
    let conditions = workload.check(&mut loader, &mut workers)?;
    Ok(Measured {
        seconds: plan.measured_ps as f64 / 1e12,
        committed,
        user_rollbacks,
        aborted: conflicts.rules.values().sum(),
        conflicts,
        attempts_max,
        latencies_ns,
        lines,
        steps: report.steps,
        limit: report.limit,
        conditions,
    })
}

/// The workers of a run, with their requests.
pub(crate) fn make_workers<W: Workload<EngineStore<VirtualCores>>>(
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

fn work<W: Workload<EngineStore<VirtualCores>>>(
    cores: &VirtualCores,
    store: &EngineStore<VirtualCores>,
    workload: &W,
    mut worker: W::Worker,
    measured: std::ops::Range<Picoseconds>,
    watch: &Watch,
) -> Result<(W::Worker, Tally), RunError> {
    let mut session = store.session()?;
    let mut tally = Tally::default();
    let mut began_ps = cores.now_ps();
    while began_ps < measured.end && !cores.is_over() {
        let outcome = workload.execute(&mut session, &mut worker);
        let ended_ps = cores.now_ps();
        if ended_ps >= measured.start {
            watch.before.get_or_init(|| {
                cores.take_line_counts();
                store.conflicts()
            });
        }
        if ended_ps >= measured.end {
            watch.after.get_or_init(|| (store.conflicts(), cores.take_line_counts()));
        }
        if measured.contains(&ended_ps) {
            match &outcome {
                Ok(()) => tally.committed += 1,
                Err(Failure::Rollback) => tally.user_rollbacks += 1,
                Err(Failure::Abort(_)) => {}
            }
            let latency_ns = (ended_ps - began_ps) / 1_000;
            tally.latencies_ns.push(u32::try_from(latency_ns).unwrap_or(u32::MAX));
        }
        if let Err(Failure::Abort(abort)) = outcome
            && !EngineStore::<VirtualCores>::is_conflict(&abort)
        {
            return Err(RunError::transaction("a transaction of the workload", abort));
        }
        began_ps = ended_ps;
    }
    tally.attempts_max = session.take_attempts_max();
    Ok((worker, tally))
}
