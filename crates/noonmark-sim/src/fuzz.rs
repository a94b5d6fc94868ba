//! Small workloads under many schedules, and what their histories show.
//!
//! Everything about a case is drawn from its seed: the protocols of its tables, their index and granularity, the order that the
//! database promises, how many workers there are and what they do, with how much patience, and how they are scheduled. A few hot keys are
//! appended to, read, written, deleted, put in again and scanned, by their own index or by a secondary one, so that nearly every two transactions meet. What the
//! engine answered is a history, and the checker looks for a serial order of it: in the order of each session, and in
//! real time where the protocols promise it.
//!
//! A case that fails is made smaller: fewer transactions, fewer workers, as long as the same seed still fails with them. What is
//! left is told as the checker tells it.
//!
//! What it does not do: search for schedules by what they cover; each is drawn by itself.

use crate::cores::{Limits, SimulationError};
use crate::experiment::make_workers;
use crate::pricing::Schedule;
use crate::{Machine, VirtualCores};
use noonmark::{Builder, Database, Leases, Order, PASSES_MAX_DEFAULT, Policy, Protocol};
use noonmark_workloads::bank::Updates;
use noonmark_workloads::engine::EngineStore;
use noonmark_workloads::random::Random;
use noonmark_workloads::recorded::{Kind, Recorded, RecordedSpec};
use noonmark_workloads::store::{Failure, Granularity, IndexKind, Store};
use noonmark_workloads::workload::{RunError, Share, Workload};
use std::cell::RefCell;
use std::fmt;
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
    /// Draws a case, of these protocols.
    fn draw(seed: u64, protocols: &[Protocol]) -> Self;

    /// Runs it.
    ///
    /// # Errors
    /// [`RunError`] if it could not be run at all.
    fn run(&self) -> Result<Verdict, RunError>;

    /// The same with fewer transactions, or fewer that run them.
    fn smaller(&self) -> Vec<Self>;

    /// What it is a case of, by which cases are counted.
    fn kinds(&self) -> Vec<&'static str>;

    /// The smallest case that it could be made into that still fails, judged by `fails`.
    fn shrink(self, fails: impl Fn(&Self) -> bool) -> Self {
        let mut case = self;
        while let Some(smaller) = case.smaller().into_iter().find(&fails) {
            case = smaller;
        }
        case
    }
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
    /// There is none, or somebody waited for nobody.
    Broken(String),
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
        let setting = |error: &dyn fmt::Display| RunError::Setting(error.to_string());
        let cores = VirtualCores::scheduled(self.schedule, self.seed);
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
        // after as many looks as it is patient for; and, of what does nothing but wait a second and look, a million seconds.
        let steps = (self.workers * self.transactions) as u64 * 40_000;
        let limits = Limits { steps, until_ps: 1_000_000_000_000_000_000 };
        let ended = RefCell::new((Vec::new(), 0, None));
        let report = cores.run(
            limits,
            workers.into_iter().map(|mut worker| {
                let (store, workload, cores, ended) = (&store, &workload, &cores, &ended);
                move || {
                    let mut session = match store.session() {
                        Ok(session) => session,
                        Err(error) => return ended.borrow_mut().2 = Some(error.to_string()),
                    };
                    for _ in 0..self.transactions {
                        if cores.is_over() {
                            break;
                        }
                        match workload.execute(&mut session, &mut worker) {
                            Ok(()) => ended.borrow_mut().1 += 1,
                            Err(Failure::Rollback) => {}
                            Err(Failure::Abort(abort)) if abort.is_retryable() => {}
                            Err(Failure::Abort(abort)) => {
                                ended.borrow_mut().2.get_or_insert(abort.to_string());
                            }
                        }
                    }
                    ended.borrow_mut().0.push(worker);
                }
            }),
        );
        let report = match report {
            Ok(report) => report,
            Err(SimulationError::NobodyLeft(workers)) => {
                return Ok(Verdict::Broken(format!(
                    "workers {workers:?} waited, and nobody was left to wake them"
                )));
            }
            Err(error) => return Err(setting(&error)),
        };
        let (mut workers, committed, error) = ended.into_inner();
        if let Some(error) = error {
            return Ok(Verdict::Broken(format!("a transaction failed for good: {error}")));
        }
        if let Some(limit) = report.limit {
            return Ok(Verdict::Broken(format!(
                "the run came to its limit ({limit:?}) after {committed} commits"
            )));
        }
        let conditions = workload.check(&mut loader, &mut workers)?;
        Ok(match conditions.into_iter().find(|condition| !condition.holds) {
            Some(condition) => Verdict::Broken(condition.words),
            None => Verdict::Holds { committed, steps: report.steps },
        })
    }
}

impl Seeded for Case {
    fn draw(seed: u64, protocols: &[Protocol]) -> Self {
        Case::draw(seed, protocols)
    }

    fn run(&self) -> Result<Verdict, RunError> {
        Case::run(self)
    }

    fn smaller(&self) -> Vec<Self> {
        let workers = fewer(self.workers).map(|workers| Case { workers, ..self.clone() });
        let transactions = fewer(self.transactions).map(|transactions| Case { transactions, ..self.clone() });
        workers.chain(transactions).collect()
    }

    fn kinds(&self) -> Vec<&'static str> {
        let mut kinds = vec![self.kind.name()];
        kinds.extend(self.is_strict().then_some("strict"));
        kinds
    }
}

/// Counts that are less, but not zero.
pub(crate) fn fewer(count: usize) -> impl Iterator<Item = usize> {
    [count / 2, count * 3 / 4, count - 1].into_iter().filter(|fewer| *fewer > 0)
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocols: Vec<&str> = self.protocols.iter().map(|protocol| protocol.name()).collect();
        let schedule = match self.schedule {
            Schedule::Machine(machine) => format!("as on {}", machine.name),
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
