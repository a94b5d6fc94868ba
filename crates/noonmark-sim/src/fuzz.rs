//! Small workloads under many schedules, and what their histories show.
//!
//! Everything about a case is drawn from its seed: the protocols of its tables, their index and granularity, the order that the
//! database promises, how many workers there are and what they do, with how much patience, and how they are scheduled. A few hot keys are
//! appended to, read, written, deleted, put in again and scanned, by their own index or by a secondary one, so that nearly every two transactions meet. What the
//! engine answered is a history, and the checker looks for a serial order of it: in the order of each session, and in
//! real time where the protocols promise it.
//!
//! A case that fails is made smaller: fewer transactions, fewer workers, as long as the same seed still fails with them, in the same way. Then its schedule is taken for what it
//! is, a list of turns, and made shorter as long as the bug shows ([`crate::turns`]). What is left is told turn by turn, and as the checker tells it.
//!
//! What it does not do: search for schedules by what they cover; each is drawn by itself. Nor is a schedule made shorter in which a bug shows only
//! because of how late it is: time is another where turns are told.

use crate::cores::{Limits, Report, SimulationError};
use crate::experiment::make_workers;
use crate::pricing::Schedule;
use crate::turns::{Noted, Turns};
use crate::{Machine, VirtualCores};
use noonmark::{Builder, Database, Leases, Order, PASSES_MAX_DEFAULT, Policy, Protocol};
use noonmark_core::Host;
use noonmark_workloads::bank::Updates;
use noonmark_workloads::engine::EngineStore;
use noonmark_workloads::history::TransactionId;
use noonmark_workloads::random::Random;
use noonmark_workloads::recorded::{Kind, Recorded, RecordedSpec, RecordedWorker};
use noonmark_workloads::store::{Failure, Granularity, IndexKind, Store};
use noonmark_workloads::workload::{RunError, Share, Workload};
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::Duration;

/// One case of the fuzzer.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What it was drawn from.
    pub seed: u64,
    /// The protocols of its tables, in turn.
    pub protocols: Vec<Protocol>,
    /// Which workload.
    pub kind: Kind,
    /// Appended to plainly, or at commit.
    pub updates: Updates,
    /// The index of its tables.
    pub index: IndexKind,
    /// Their granularity.
    pub granularity: Granularity,
    /// How many workers.
    pub workers: usize,
    /// How many transactions each of them runs.
    pub transactions: usize,
    /// Of how many steps at most.
    pub steps_max: u64,
    /// Keys in use at a time.
    pub hot_keys: u64,
    /// Writes after which a key is retired: where they are few, many rows are put in, and leaves split.
    pub writes_per_key: u64,
    /// From how many deleted rows on sessions try to reclaim them.
    pub reclaim_from: usize,
    /// Whether scans go by a secondary index.
    pub by_index: bool,
    /// Whether a transaction looks up all of its keys together before it reads the first.
    pub together: bool,
    /// What its tables do besides under `sundial`.
    pub leases: Leases,
    /// Whether transactions that only read read at a frontier, under `dynamic`.
    pub read_frontier: bool,
    /// How often who stands in line is passed.
    pub passes_max: u32,
    /// After how many failed attempts a transaction runs alone, if ever.
    pub escape_after: Option<u32>,
    /// How long a transaction may take.
    pub deadline: Option<Duration>,
    /// How workers are scheduled.
    pub schedule: Schedule,
}

/// A case of a fuzzer, which follows from its seed.
pub trait Seeded: fmt::Display + Sized {
    /// Whether it is of clusters.
    const ON_CLUSTERS: bool;

    /// Draws a case, of these protocols.
    fn draw(seed: u64, protocols: &[Protocol]) -> Self;

    /// Runs it.
    ///
    /// # Errors
    /// [`RunError`] if it could not be run at all.
    fn run(&self) -> Result<Verdict, RunError>;

    /// How many run transactions, and how many each of them.
    fn size(&self) -> (usize, usize);

    /// The same of another size.
    fn sized(&self, size: (usize, usize)) -> Self;

    /// What it is a case of, by which cases are counted.
    fn kinds(&self) -> Vec<&'static str>;

    /// The smallest case that it could be made into that still fails, judged by `fails`.
    fn shrink(self, fails: impl Fn(&Self) -> bool) -> Self {
        let mut case = self;
        let smaller = |(workers, transactions)| {
            let fewer_workers = fewer(workers).map(move |workers| (workers, transactions));
            fewer_workers.chain(fewer(transactions).map(move |transactions| (workers, transactions)))
        };
        while let Some(smaller) = smaller(case.size()).map(|size| case.sized(size)).find(&fails) {
            case = smaller;
        }
        case
    }

    /// The smallest case, in the shortest schedule.
    fn shortest(self, fails: impl Fn(&Self) -> bool) -> Self {
        self.shrink(fails)
    }

    /// The same in this schedule, where there is one that can be told.
    fn told(&self, _turns: Turns) -> Option<Self> {
        None
    }

    /// The schedule, if one was told.
    fn turns(&self) -> Option<&Turns> {
        None
    }

    /// What happens turn by turn, in words, if a schedule was told.
    fn story(&self) -> Option<String> {
        None
    }
}

/// What is wrong with a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its history is not what it must be, or what it left behind.
    Outcome,
    /// Somebody waited for nobody.
    Stranded,
    /// It came to no end.
    Endless,
    /// A transaction failed for good.
    Failed,
    /// Something panicked.
    Panicked,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// There is such an order.
    Holds {
        /// Transactions that committed.
        committed: u64,
        /// Steps of the schedule.
        steps: u64,
    },
    /// There is none, or something else is wrong: what, and in words.
    Broken(Fault, String),
}

impl Verdict {
    /// What is wrong, if anything is.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Verdict::Holds { .. } => None,
            Verdict::Broken(fault, _) => Some(*fault),
        }
    }
}

/// A case that has been run, and what was noted of it.
struct Ran {
    verdict: Verdict,
    noted: Noted,
}

thread_local! {
    /// What the first panic of a case said, where panics of this thread are caught.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a case. If anything in it panics, that is what is wrong with it: what the panic says goes into the verdict, and is not printed.
pub(crate) fn caught(run: impl FnOnce() -> Result<Verdict, RunError>) -> Result<Verdict, RunError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match CAUGHT.take() {
            // Nobody catches it here: as it was before.
            None => before(panic),
            Some(first) if first.is_empty() => CAUGHT.set(Some(panic.to_string().replace('\n', " "))),
            first => CAUGHT.set(first),
        }));
    });
    CAUGHT.set(Some(String::new()));
    let verdict = catch_unwind(AssertUnwindSafe(run));
    let words = CAUGHT.take().unwrap_or_default();
    verdict.unwrap_or(Ok(Verdict::Broken(Fault::Panicked, words)))
}

impl Case {
    /// Draws a case, of these protocols.
    pub fn draw(seed: u64, protocols: &[Protocol]) -> Self {
        // From numbers of their own, so that all else is drawn as it was without them.
        let mut random = Random::new(seed, u64::MAX);
        let leases = Leases {
            extended_by: [None, Some(0), Some(3)][random.below(3) as usize],
            write_times: [0, 1, 3][random.below(3) as usize],
        };
        let read_frontier = random.below(2) == 0;
        let (by_index, together) = (random.below(3) == 0, random.below(3) == 0);
        let passes_max = [0, 1, 3, PASSES_MAX_DEFAULT][random.below(4) as usize];
        // What takes three transactions or more to go wrong is rare where few are under way.
        let is_large = random.below(32) == 0;
        let mut random = Random::new(seed, 0);
        let mut pick = |below: u64| random.below(below);
        let some = protocols.len() as u64;
        // One protocol in two cases of three; otherwise two or three, mixed.
        let tables = if some < 2 { 1 } else { [1, 1, 1, 1, 2, 3][pick(6) as usize] };
        let mut protocols: Vec<Protocol> = (0..tables).map(|_| protocols[pick(some) as usize]).collect();
        if protocols.iter().any(|protocol| !protocol.mixes_with(protocols[0])) {
            protocols.truncate(1);
        }
        let kind = [Kind::Append, Kind::Register, Kind::Scan, Kind::Scan][pick(4) as usize];
        let index = match kind {
            Kind::Scan => IndexKind::Ordered,
            _ => [IndexKind::Hash, IndexKind::Ordered][pick(2) as usize],
        };
        let updates = match kind {
            Kind::Append => [Updates::Plain, Updates::CommitTime][pick(2) as usize],
            _ => Updates::Plain,
        };
        let granularity = [Granularity::Fine, Granularity::Coarse][pick(2) as usize];
        let workers = 2 + pick(5) as usize;
        let transactions = 4 + pick(28) as usize;
        let schedule = match pick(5) {
            0 => Schedule::Machine(Machine::GRANULARITY),
            1 | 2 => Schedule::Random,
            _ => Schedule::Priorities {
                changes: 1 + pick(6) as usize,
                steps: (workers * transactions) as u64 * 60,
            },
        };
        let case = Case {
            seed,
            protocols,
            kind,
            updates,
            index,
            granularity,
            workers,
            transactions,
            steps_max: [3, 5, 12][pick(3) as usize],
            hot_keys: 2 + pick(4),
            writes_per_key: [1, 3, 20, 60][pick(4) as usize],
            reclaim_from: [1, 32][pick(2) as usize],
            by_index: by_index && kind == Kind::Scan,
            together,
            leases,
            read_frontier,
            passes_max,
            escape_after: [Some(1), Some(3), Some(20), None][pick(4) as usize],
            deadline: [None, None, Some(Duration::from_micros(20))][pick(3) as usize],
            schedule,
        };
        let case = if kind == Kind::Scan && pick(4) == 0 { case.growing() } else { case };
        let case = if is_large { Case { workers: 8, transactions: 60, ..case } } else { case };
        let splits = pick(3) == 0 && !case.protocols[0].keeps_versions();
        if splits { Case { granularity: Granularity::Splitting, ..case } } else { case }
    }

    /// The same, of tables that grow all the time: each write is of a new row, and leaves split under scans.
    pub fn growing(self) -> Self {
        Case {
            kind: Kind::Scan,
            updates: Updates::Plain,
            index: IndexKind::Ordered,
            workers: 3,
            transactions: 120,
            steps_max: 3,
            hot_keys: 3,
            writes_per_key: 1,
            ..self
        }
    }

    /// Whether the database promises an order in real time.
    fn is_strict(&self) -> bool {
        !self.protocols.iter().all(|protocol| protocol.keeps_read_times())
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`RunError`] if it could not be run at all.
    pub fn run(&self) -> Result<Verdict, RunError> {
        self.run_on(|builder| builder)
    }

    /// The same, on a database that was built in a special way.
    ///
    /// # Errors
    /// As [`Case::run`].
    pub fn run_on(
        &self,
        build: impl FnOnce(Builder<VirtualCores>) -> Builder<VirtualCores>,
    ) -> Result<Verdict, RunError> {
        let cores = VirtualCores::scheduled(self.schedule.clone(), self.seed);
        Ok(self.run_noted(cores, build)?.verdict)
    }

    /// The same; its schedule is taken as a list of turns, and that made as short as it can be while `fails` still says that the case does. As it is, if the list
    /// alone does not make it fail.
    ///
    /// # Errors
    /// As [`Case::run`].
    pub fn shorten_on(
        self,
        build: impl FnOnce(Builder<VirtualCores>) -> Builder<VirtualCores>,
        fails: impl Fn(&Self) -> bool,
    ) -> Result<Self, RunError> {
        let cores = VirtualCores::scheduled(self.schedule.clone(), self.seed).note_turns();
        let turns = self.run_noted(cores, build)?.noted.turns;
        let told = |turns: &Turns| Case { schedule: Schedule::Turns(turns.clone()), ..self.clone() };
        if !fails(&told(&turns)) {
            return Ok(self);
        }
        Ok(told(&turns.shrink(|turns| fails(&told(turns)))))
    }

    fn run_noted(
        &self,
        cores: VirtualCores,
        build: impl FnOnce(Builder<VirtualCores>) -> Builder<VirtualCores>,
    ) -> Result<Ran, RunError> {
        let verdict = caught(|| self.run_within(&cores, build))?;
        Ok(Ran { verdict, noted: cores.take_noted() })
    }

    fn run_within(
        &self,
        cores: &VirtualCores,
        build: impl FnOnce(Builder<VirtualCores>) -> Builder<VirtualCores>,
    ) -> Result<Verdict, RunError> {
        let setting = |error: &dyn fmt::Display| RunError::Setting(error.to_string());
        let order = match self.protocols[0].keeps_versions() {
            true => Order::Beginning,
            false if self.is_strict() => Order::Momentary,
            false => Order::Logical,
        };
        let builder = Database::builder()
            .host(cores.clone())
            .max_sessions(self.workers + 1)
            .order(order)
            .reclaim_from(self.reclaim_from)
            .read_frontier(self.read_frontier)
            .passes_max(self.passes_max)
            .split_after(1)
            .look_at_splits_every(6)
            .whole_after(Duration::ZERO);
        let db = build(builder).build().map_err(|error| setting(&error))?;
        let policy = Policy { escape_after: self.escape_after, deadline: self.deadline, ..Policy::default() };
        let store = EngineStore::of(db, &self.protocols).policy(policy).leases(self.leases);
        let store = store.row_hint(self.seed.is_multiple_of(2));
        let spec = RecordedSpec {
            tables: self.protocols.len(),
            hot_keys: self.hot_keys,
            writes_per_key: self.writes_per_key,
            steps_max: self.steps_max,
            yield_share: 0.0,
            updates: self.updates,
            by_index: self.by_index,
            together: self.together,
            strict: self.is_strict(),
            ..RecordedSpec::new(self.kind)
        };
        let workload = Recorded::new(&store, spec, self.index, self.granularity)?;
        let mut loader = store.session()?;
        workload.load(&mut loader, Share { index: 0, count: 1 }, &|_| ())?;
        let workers = make_workers(&workload, self.workers, self.seed, self.transactions)?;
        // Of what gets nowhere, no more than this: several times what a transaction takes that fails in all of its attempts, each
        // after as many looks as it is patient for; and, of what does nothing but wait a second and look, ten thousand seconds.
        let steps = (self.workers * self.transactions) as u64 * 40_000;
        let limits = Limits { steps, until_ps: 10_000_000_000_000_000 };
        let ended = RefCell::new(Ended::default());
        let report = cores.run(
            limits,
            workers.into_iter().map(|mut worker| {
                let (store, workload, ended) = (&store, &workload, &ended);
                move || {
                    let mut session = match store.session() {
                        Ok(session) => session,
                        Err(error) => return ended.borrow_mut().error = Some(error.to_string()),
                    };
                    let told_to = cores.clone();
                    worker.listen(move |op| told_to.tell(|| op.to_string()));
                    for _ in 0..self.transactions {
                        if cores.is_over() {
                            break;
                        }
                        // (The checker numbers them in the same order.)
                        let id = TransactionId(ended.borrow_mut().begin());
                        cores.tell(|| id.to_string());
                        let outcome = match workload.execute(&mut session, &mut worker) {
                            Ok(()) => {
                                ended.borrow_mut().committed += 1;
                                "commits"
                            }
                            Err(Failure::Rollback) => "calls itself off",
                            Err(Failure::Abort(abort)) => {
                                if !abort.is_retryable() {
                                    ended.borrow_mut().error.get_or_insert(abort.to_string());
                                }
                                "gives up"
                            }
                        };
                        cores.tell(|| format!("{id} {outcome}"));
                    }
                    ended.borrow_mut().workers.push(worker);
                }
            }),
        );
        let Ended { mut workers, committed, error, .. } = ended.into_inner();
        Ok(match (report, error) {
            (Err(SimulationError::NobodyLeft(workers)), _) => {
                let words = format!("workers {workers:?} waited, and nobody was left to wake them");
                Verdict::Broken(Fault::Stranded, words)
            }
            (Err(error), _) => return Err(setting(&error)),
            (Ok(_), Some(error)) => {
                Verdict::Broken(Fault::Failed, format!("a transaction failed for good: {error}"))
            }
            (Ok(Report { limit: Some(limit), .. }), None) => {
                let words = format!("the run came to its limit ({limit:?}) after {committed} commits");
                Verdict::Broken(Fault::Endless, words)
            }
            (Ok(Report { steps, .. }), None) => {
                let conditions = workload.check(&mut loader, &mut workers)?;
                match conditions.into_iter().find(|condition| !condition.holds) {
                    Some(condition) => Verdict::Broken(Fault::Outcome, condition.words),
                    None => Verdict::Holds { committed, steps },
                }
            }
        })
    }
}

/// What workers leave behind.
#[derive(Default)]
struct Ended {
    workers: Vec<RecordedWorker>,
    committed: u64,
    /// Why a transaction failed for good.
    error: Option<String>,
    /// How many transactions have begun.
    begun: u32,
}

impl Ended {
    /// The number of a transaction that begins.
    fn begin(&mut self) -> u32 {
        self.begun += 1;
        self.begun - 1
    }
}

impl Seeded for Case {
    const ON_CLUSTERS: bool = false;

    fn draw(seed: u64, protocols: &[Protocol]) -> Self {
        Case::draw(seed, protocols)
    }

    fn run(&self) -> Result<Verdict, RunError> {
        Case::run(self)
    }

    fn size(&self) -> (usize, usize) {
        (self.workers, self.transactions)
    }

    fn sized(&self, (workers, transactions): (usize, usize)) -> Self {
        Case { workers, transactions, ..self.clone() }
    }

    fn shortest(self, fails: impl Fn(&Self) -> bool) -> Self {
        let smaller = self.shrink(&fails);
        smaller.clone().shorten_on(|builder| builder, fails).unwrap_or(smaller)
    }

    fn told(&self, turns: Turns) -> Option<Self> {
        Some(Case { schedule: Schedule::Turns(turns), ..self.clone() })
    }

    fn turns(&self) -> Option<&Turns> {
        match &self.schedule {
            Schedule::Turns(turns) => Some(turns),
            _ => None,
        }
    }

    fn story(&self) -> Option<String> {
        self.turns()?;
        let cores = VirtualCores::scheduled(self.schedule.clone(), self.seed).note_turns();
        Some(self.run_noted(cores, |builder| builder).ok()?.noted.story())
    }

    fn kinds(&self) -> Vec<&'static str> {
        let mut kinds = vec![self.kind.name()];
        kinds.extend(self.is_strict().then_some("strict"));
        kinds
    }
}

/// Counts that are less, but not zero.
fn fewer(count: usize) -> impl Iterator<Item = usize> {
    [count / 2, count * 3 / 4, count - 1].into_iter().filter(|fewer| *fewer > 0)
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocols: Vec<&str> = self.protocols.iter().map(|protocol| protocol.name()).collect();
        let schedule = match &self.schedule {
            Schedule::Machine(machine) => format!("as on {}", machine.name),
            Schedule::Turns(turns) if turns.as_slice().len() == 1 => "in 1 turn".into(),
            Schedule::Turns(turns) => format!("in {} turns", turns.as_slice().len()),
            Schedule::Random | Schedule::Messages => "at random".into(),
            Schedule::Priorities { changes, .. } => format!("by priorities, {changes} changes"),
        };
        write!(
            f,
            "seed {}: {}, {} workers of {} transactions, under {} ({:?}, {:?}), scheduled {schedule}",
            self.seed,
            self.kind.name(),
            self.workers,
            self.transactions,
            protocols.join("+"),
            self.index,
            self.granularity,
        )?;
        if self.by_index {
            write!(f, ", by a secondary index")?;
        }
        if self.together {
            write!(f, ", keys looked up together")?;
        }
        let Leases { extended_by, write_times } = self.leases;
        if self.protocols.contains(&Protocol::Sundial) && self.leases != Leases::default() {
            let by = extended_by.map_or("not extended".into(), |by| format!("extended by {by}"));
            write!(f, ", leases {by}, {write_times} write times kept")?;
        }
        if self.read_frontier && self.protocols.contains(&Protocol::Dynamic) {
            write!(f, ", with a read frontier")?;
        }
        if self.passes_max < PASSES_MAX_DEFAULT
            && self.protocols.iter().any(|protocol| protocol.waits_in_line())
        {
            write!(f, ", passed {} times at most", self.passes_max)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is noted of a run, when told, is that run again; but for what depends on how late it is, and on when who was woken has
    /// looked, which is no step.
    #[test]
    fn a_schedule_that_is_told_is_the_one_that_was_noted() {
        let mut same = 0;
        for seed in 0..300 {
            let case = Case { deadline: None, ..Case::draw(seed, Protocol::ALL) };
            let run = |case: &Case| {
                let cores = VirtualCores::scheduled(case.schedule.clone(), seed).note_turns();
                let mut noted = case.run_noted(cores, |builder| builder).unwrap().noted;
                // The engine's own numbers are by who asked for a session first.
                noted.events.retain(|event| !event.what.contains('/'));
                noted
            };
            let first = run(&case);
            let again = case.told(first.turns.clone()).unwrap();
            same += u64::from(first.story() == run(&again).story());
        }
        assert!(same >= 270, "{same} of 300");
    }
}
