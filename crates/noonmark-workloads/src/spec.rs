//! One run, from its settings to its report.
//!
//! A [`Spec`] says everything about a run; [`run`] makes the store and the workload's tables, drives it, and
//! writes the [`RunReport`]. [`WorkloadSpec::named`] knows the presets by the names that a command line uses.
//!
//! Defaults that depend on the workload: point workloads take a hash index, those that scan an ordered one. A
//! setting that a workload has no use for is refused rather than ignored: a report that says `commit-time` was
//! a run with commit-time updates.
//!
//! What it does not do: read files or arguments, or print anything.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use noonmark::Protocol;

use crate::bank::{Bank, BankSpec, Updates};
use crate::counter::{Counter, CounterSpec};
use crate::driver::{Length, Measured, Plan, check_plan, drive};
use crate::engine::EngineStore;
use crate::mutex::MutexStore;
use crate::queue::{Queue, QueueSpec};
use crate::recorded::{Kind, Recorded, RecordedSpec};
use crate::recording::{Recording, Watched};
use crate::report::{Latency, Progress, RunReport};
use crate::store::{Appends, Granularity, IndexKind, Store};
use crate::tpcc::population::Scale;
use crate::tpcc::request::Mix as TpccMix;
use crate::tpcc::schema::Split;
use crate::tpcc::{self, Tpcc};
use crate::workload::{RunError, Workload};
use crate::ycsb::properties::RequestDistribution;
use crate::ycsb::{
    CoreSpec, CoreWorkload, DynamicRows, EvenOddRows, FieldRow, Keys, Mix, Rows1k, Shape,
    TransactionWorkload, TransactionsSpec, core_spec,
};

/// What the workload runs on.
///
/// As text: `mutex`, a protocol's name, several joined by `+`, or `mixed` for all of them. `two-phase` alone is
/// the wait-die form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolChoice {
    /// The baseline: a map with a lock round it for each table.
    Mutex,
    /// The engine, under one of its protocols.
    Engine(Protocol),
    /// The engine, with tables that take these protocols in turn. Two at least, each once.
    Mixed(Vec<Protocol>),
}

/// The name of a mix of all protocols.
pub const MIXED: &str = "mixed";

impl ProtocolChoice {
    /// The baseline and each protocol alone, the baseline last.
    pub fn all() -> impl Iterator<Item = ProtocolChoice> {
        let protocols = Protocol::ALL.iter().copied().map(ProtocolChoice::Engine);
        protocols.chain([ProtocolChoice::Mutex])
    }

    /// The protocols that tables take in turn; none is the baseline.
    pub fn protocols(&self) -> &[Protocol] {
        match self {
            ProtocolChoice::Mutex => &[],
            ProtocolChoice::Engine(protocol) => std::slice::from_ref(protocol),
            ProtocolChoice::Mixed(protocols) => protocols,
        }
    }

    /// Whether transactions are serialized in real time. Where all tables keep read times, they commit at
    /// logical times, in the order of each session.
    pub fn is_strict(&self) -> bool {
        *self == ProtocolChoice::Mutex || !self.protocols().iter().all(|protocol| protocol.keeps_read_times())
    }
}

impl fmt::Display for ProtocolChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolChoice::Mutex => f.write_str("mutex"),
            ProtocolChoice::Engine(protocol) => f.write_str(protocol.name()),
            ProtocolChoice::Mixed(protocols) if protocols == Protocol::ALL => f.write_str(MIXED),
            ProtocolChoice::Mixed(protocols) => {
                let names: Vec<&str> = protocols.iter().map(|protocol| protocol.name()).collect();
                f.write_str(&names.join("+"))
            }
        }
    }
}

impl FromStr for ProtocolChoice {
    type Err = RunError;

    fn from_str(name: &str) -> Result<Self, RunError> {
        if name == "mutex" {
            return Ok(ProtocolChoice::Mutex);
        }
        if name == MIXED {
            return Ok(ProtocolChoice::Mixed(Protocol::ALL.to_vec()));
        }
        let mut protocols = Vec::new();
        for part in name.split('+').map(str::trim) {
            let protocol = match part {
                "mutex" => {
                    let what =
                        format!("{name}: mutex is not one of the engine's protocols, and mixes with none");
                    return Err(RunError::Setting(what));
                }
                "two-phase" => Protocol::TwoPhaseWaitDie,
                part => Protocol::from_str(part).map_err(|_| {
                    let names: Vec<String> = Self::all().map(|choice| choice.to_string()).collect();
                    let names = names.join(", ");
                    RunError::Setting(format!(
                        "there is no protocol '{part}': choose among {names}; joined by + they share one \
                         database, and {MIXED} is all but mutex"
                    ))
                })?,
            };
            if protocols.contains(&protocol) {
                return Err(RunError::Setting(format!("{name}: {protocol} is there twice")));
            }
            protocols.push(protocol);
        }
        Ok(match protocols[..] {
            [protocol] => ProtocolChoice::Engine(protocol),
            _ => ProtocolChoice::Mixed(protocols),
        })
    }
}

/// How a transaction's keys are handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Each with its operation.
    #[default]
    OneByOne,
    /// All reads together, then all writes together.
    MultiGet,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::OneByOne => "one-by-one",
            Access::MultiGet => "multi-get",
        })
    }
}

/// The rows of a transactional YCSB variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowShape {
    /// Ten columns of ten bytes, even and odd ones apart.
    EvenOdd,
    /// 1 KB in one group.
    Rows1k,
    /// Eight bytes.
    Words,
}

/// A workload and its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadSpec {
    /// YCSB's core workload.
    YcsbCore(CoreSpec),
    /// A paper's transactional variant of YCSB.
    YcsbTransactions {
        /// The rows.
        rows: RowShape,
        /// The transactions.
        spec: TransactionsSpec,
    },
    /// [DistTicToc §2.2]'s money-moving form of YCSB: the bank with string keys.
    YcsbMoney(BankSpec),
    /// Transfers between accounts.
    Bank(BankSpec),
    /// Hot counters.
    Counter(CounterSpec),
    /// A queue of orders.
    Queue(QueueSpec),
    /// A workload whose history is recorded and checked.
    Recorded(RecordedSpec),
    /// TPC-C.
    Tpcc(TpccSpec),
}

/// What of TPC-C is a setting here; the run has the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpccSpec {
    /// How large it is.
    pub scale: Scale,
    /// Which transactions are run.
    pub mix: TpccMix,
    /// Which rows have more than one timestamp where groups are fine.
    pub fine_split: Split,
}

/// The presets of YCSB by name.
pub const YCSB_PRESETS: [&str; 11] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "granularity",
    "sundial",
    "disttictoc-read",
    "disttictoc-money",
    "dynamic",
];

impl WorkloadSpec {
    /// A workload and a preset of it by name: [`YCSB_PRESETS`] of `ycsb`; `full`, `granularity` and `half` of
    /// `tpcc`; `default` of the others.
    pub fn named(workload: &str, preset: &str) -> Result<Self, RunError> {
        let spec = match (workload, preset) {
            ("ycsb", _) => return Self::ycsb(preset),
            ("tpcc", _) => return Self::tpcc(preset),
            ("bank", "default") => WorkloadSpec::Bank(BankSpec::classic()),
            ("counter", "default") => WorkloadSpec::Counter(CounterSpec::default()),
            ("queue", "default") => WorkloadSpec::Queue(QueueSpec::default()),
            ("append", "default") => WorkloadSpec::Recorded(RecordedSpec::new(Kind::Append)),
            ("register", "default") => WorkloadSpec::Recorded(RecordedSpec::new(Kind::Register)),
            ("scan", "default") => WorkloadSpec::Recorded(RecordedSpec::new(Kind::Scan)),
            ("bank" | "counter" | "queue" | "append" | "register" | "scan", _) => {
                return Err(RunError::Setting(format!("{workload} has no preset {preset}")));
            }
            _ => {
                let known = "ycsb, tpcc, bank, counter, queue, append, register, scan";
                return Err(RunError::Setting(format!("workload {workload}: one of {known} is wanted")));
            }
        };
        Ok(spec)
    }

    fn ycsb(preset: &str) -> Result<Self, RunError> {
        let spec = match preset {
            "granularity" => WorkloadSpec::YcsbTransactions {
                rows: RowShape::EvenOdd,
                spec: TransactionsSpec::granularity(),
            },
            "sundial" => {
                WorkloadSpec::YcsbTransactions { rows: RowShape::Rows1k, spec: TransactionsSpec::sundial() }
            }
            "dynamic" => {
                WorkloadSpec::YcsbTransactions { rows: RowShape::Words, spec: TransactionsSpec::dynamic() }
            }
            "disttictoc-read" => WorkloadSpec::YcsbCore(CoreSpec {
                field_bytes: 10,
                read: 1.0,
                update: 0.0,
                request_distribution: RequestDistribution::Uniform,
                ..CoreSpec::default()
            }),
            "disttictoc-money" => WorkloadSpec::YcsbMoney(BankSpec::disttictoc()),
            letter if letter.chars().count() == 1 => {
                let spec = letter.chars().next().and_then(core_spec).map(WorkloadSpec::YcsbCore);
                return spec.ok_or_else(|| Self::no_such_preset(preset));
            }
            _ => return Err(Self::no_such_preset(preset)),
        };
        Ok(spec)
    }

    fn tpcc(preset: &str) -> Result<Self, RunError> {
        let Some(mix) = TpccMix::ALL.into_iter().find(|mix| mix.to_string() == preset) else {
            let names: Vec<String> = TpccMix::ALL.iter().map(TpccMix::to_string).collect();
            let what = format!("preset {preset}: one of {} is wanted", names.join(", "));
            return Err(RunError::Setting(what));
        };
        // [Granularity §3.4] splits districts and customers, not warehouses.
        let fine_split = if mix == TpccMix::Granularity { Split::Paper } else { Split::Fine };
        Ok(WorkloadSpec::Tpcc(TpccSpec { scale: Scale::standard(1), mix, fine_split }))
    }

    fn no_such_preset(preset: &str) -> RunError {
        RunError::Setting(format!("preset {preset}: one of {} is wanted", YCSB_PRESETS.join(", ")))
    }

    /// The workload's name, as in a report.
    pub fn name(&self) -> &'static str {
        match self {
            WorkloadSpec::YcsbCore(_)
            | WorkloadSpec::YcsbTransactions { .. }
            | WorkloadSpec::YcsbMoney(_) => "ycsb",
            WorkloadSpec::Bank(_) => "bank",
            WorkloadSpec::Counter(_) => "counter",
            WorkloadSpec::Queue(_) => "queue",
            WorkloadSpec::Recorded(spec) => spec.kind.name(),
            WorkloadSpec::Tpcc(_) => "tpcc",
        }
    }

    /// Sets how many warehouses there are, where that is a setting.
    pub fn set_warehouses(&mut self, warehouses: u16) -> Result<(), RunError> {
        match self {
            WorkloadSpec::Tpcc(spec) => {
                spec.scale.warehouses = warehouses;
                Ok(())
            }
            other => Err(RunError::Setting(format!("{} has no warehouses", other.name()))),
        }
    }

    /// Sets how many rows there are, where that is a setting.
    pub fn set_rows(&mut self, rows: u64) -> Result<(), RunError> {
        match self {
            WorkloadSpec::YcsbCore(spec) => spec.record_count = rows,
            WorkloadSpec::YcsbTransactions { spec, .. } => spec.rows = rows,
            WorkloadSpec::YcsbMoney(spec) | WorkloadSpec::Bank(spec) => spec.accounts = rows,
            WorkloadSpec::Counter(spec) => spec.counters = rows,
            WorkloadSpec::Queue(spec) => spec.waiting = rows,
            WorkloadSpec::Recorded(spec) => spec.hot_keys = rows,
            WorkloadSpec::Tpcc(_) => {
                let what = "tpcc has as many rows as its warehouses have: set those";
                return Err(RunError::Setting(what.into()));
            }
        }
        Ok(())
    }

    /// Sets the skew, where that is a setting; 0 is uniform.
    pub fn set_theta(&mut self, theta: f64) -> Result<(), RunError> {
        match self {
            WorkloadSpec::YcsbCore(spec) if theta == 0.0 => {
                spec.request_distribution = RequestDistribution::Uniform;
            }
            WorkloadSpec::YcsbCore(spec) => {
                spec.theta = theta;
                if spec.request_distribution != RequestDistribution::Latest {
                    spec.request_distribution = RequestDistribution::Zipfian;
                }
            }
            WorkloadSpec::YcsbTransactions { spec, .. } => spec.keys = Keys::Zipfian { theta },
            WorkloadSpec::YcsbMoney(spec) | WorkloadSpec::Bank(spec) => spec.theta = theta,
            other => return Err(RunError::Setting(format!("{} has no skew to set", other.name()))),
        }
        Ok(())
    }

    /// Whether it scans, so that its tables must be ordered.
    pub fn scans(&self) -> bool {
        match self {
            WorkloadSpec::YcsbCore(spec) => spec.scan > 0.0,
            WorkloadSpec::Queue(_) => true,
            WorkloadSpec::Recorded(spec) => spec.kind == Kind::Scan,
            _ => false,
        }
    }

    /// How many tables it has; `None`: as many as it is asked for.
    fn tables(&self) -> Option<usize> {
        match self {
            WorkloadSpec::Recorded(_) => None,
            WorkloadSpec::Tpcc(_) => Some(tpcc::schema::TABLES),
            _ => Some(1),
        }
    }

    /// Takes over how values are updated and keys handed over, if it can.
    fn set_manner(&mut self, updates: Updates, access: Access) -> Result<(), RunError> {
        let multi_get = access == Access::MultiGet;
        match self {
            WorkloadSpec::YcsbTransactions { spec, .. } if updates == Updates::Plain => {
                spec.multi_get = multi_get;
            }
            WorkloadSpec::YcsbMoney(spec) | WorkloadSpec::Bank(spec) => {
                spec.updates = updates;
                spec.multi_get = multi_get;
                // What is not read cannot be refused.
                spec.overdraft |= updates == Updates::CommitTime;
            }
            WorkloadSpec::Counter(spec) if !multi_get => spec.updates = updates,
            WorkloadSpec::Recorded(spec) if !multi_get => spec.updates = updates,
            // The run has them.
            WorkloadSpec::Tpcc(_) => {}
            _ if updates == Updates::Plain && !multi_get => {}
            other => {
                let what = format!("{} has no form with {updates} updates and {access} access", other.name());
                return Err(RunError::Setting(what));
            }
        }
        Ok(())
    }
}

/// Everything about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// What is run.
    pub workload: WorkloadSpec,
    /// What that is called, as in a report.
    pub preset: String,
    /// What it runs on.
    pub protocol: ProtocolChoice,
    /// Worker threads.
    pub threads: usize,
    /// How long to measure. Recorded runs end after [`RECORDED_TRANSACTIONS`] unless told otherwise.
    pub length: Length,
    /// Seconds of warming up before. Recorded runs have none.
    pub warm_up_s: f64,
    /// What a timestamp covers.
    pub groups: Granularity,
    /// The index of the tables; unless told otherwise a hash for points, an ordered one for scans.
    pub index: Option<IndexKind>,
    /// How values are changed.
    pub updates: Updates,
    /// How keys are handed over.
    pub access: Access,
    /// Where all random numbers come from.
    pub seed: u64,
    /// Requests that each worker draws ahead; unless told otherwise some tens of thousands.
    pub requests: Option<usize>,
    /// Whether to count allocations.
    pub count_allocations: bool,
    /// Where to write the history of the run, which is checked too. The recorded workloads have one anyway; for
    /// all others it means that the run is [recorded](crate::recording), and slower for it.
    pub history: Option<PathBuf>,
}

/// Transactions of a recorded run unless told otherwise; a tenth of them for the queue.
pub const RECORDED_TRANSACTIONS: u64 = 100_000;

impl Spec {
    /// A run of a workload for two seconds, after half a second of warming up, on one thread.
    pub fn new(workload: WorkloadSpec, preset: impl Into<String>, protocol: ProtocolChoice) -> Self {
        Spec {
            workload,
            preset: preset.into(),
            protocol,
            threads: 1,
            length: Length::seconds(2.0),
            warm_up_s: 0.5,
            groups: Granularity::Fine,
            index: None,
            updates: Updates::Plain,
            access: Access::OneByOne,
            seed: 1,
            requests: None,
            count_allocations: false,
            history: None,
        }
    }
}

impl WorkloadSpec {
    /// That its settings go together.
    fn check(&self) -> Result<(), RunError> {
        match self {
            WorkloadSpec::YcsbCore(spec) => {
                spec.check().map_err(|error| RunError::Setting(error.to_string()))
            }
            WorkloadSpec::YcsbTransactions { spec, .. } => spec.check(),
            WorkloadSpec::YcsbMoney(spec) | WorkloadSpec::Bank(spec) => spec.check(),
            WorkloadSpec::Counter(spec) => spec.check(),
            WorkloadSpec::Queue(spec) => spec.check(),
            WorkloadSpec::Recorded(spec) => spec.check(),
            WorkloadSpec::Tpcc(spec) => spec.scale.checked().map(drop),
        }
    }
}

impl Spec {
    /// That the settings go together, as far as can be told without making anything.
    pub fn check(&self) -> Result<(), RunError> {
        self.settled().map(drop)
    }

    /// The same run with everything said that depends on something else.
    fn settled(&self) -> Result<Spec, RunError> {
        let mut spec = self.clone();
        spec.workload.set_manner(spec.updates, spec.access)?;
        if let WorkloadSpec::Recorded(recorded) = &mut spec.workload {
            recorded.strict = spec.protocol.is_strict();
            recorded.tables = spec.protocol.protocols().len().max(1);
            recorded.history = spec.history.clone();
        }
        if spec.history.is_some() || matches!(spec.workload, WorkloadSpec::Recorded(_)) {
            spec.length.transactions.get_or_insert(match spec.workload {
                // Its scans pass every order that was ever taken: the history grows with the square.
                WorkloadSpec::Queue(_) => RECORDED_TRANSACTIONS / 10,
                _ => RECORDED_TRANSACTIONS,
            });
            spec.warm_up_s = 0.0;
        }
        if let WorkloadSpec::YcsbCore(core) = &spec.workload
            && spec.length == Length::default()
            && core.operation_count > 0
        {
            spec.length.transactions = Some(core.operation_count);
        }
        spec.workload.check()?;
        if let (Some(tables), mixed) = (spec.workload.tables(), spec.protocol.protocols().len())
            && mixed > tables
        {
            let what = match tables {
                1 => "has one table, which takes one protocol".to_owned(),
                _ => format!("has {tables} tables, which take at most as many protocols"),
            };
            let name = spec.workload.name();
            return Err(RunError::Setting(format!("{}: {name} {what}", spec.protocol)));
        }
        check_plan(&spec.plan())?;
        if spec.workload.scans() && spec.index == Some(IndexKind::Hash) {
            let what =
                format!("{} scans: a hash index has no order, take an ordered one", spec.workload.name());
            return Err(RunError::Setting(what));
        }
        Ok(spec)
    }

    fn index(&self) -> IndexKind {
        let usual = if self.workload.scans() { IndexKind::Ordered } else { IndexKind::Hash };
        self.index.unwrap_or(usual)
    }

    fn plan(&self) -> Plan {
        // More would be memory for nothing, where workers are many; fewer, and a cache would keep them.
        let usual = ((1 << 18) / self.threads.max(1)).clamp(1 << 13, 1 << 16);
        Plan {
            threads: self.threads,
            length: self.length,
            warm_up_s: self.warm_up_s,
            seed: self.seed,
            requests: self.requests.unwrap_or(usual),
            count_allocations: self.count_allocations,
        }
    }
}

/// Runs it, telling `progress` how it is getting along some eight times a second.
pub fn run(spec: &Spec, progress: &mut dyn FnMut(&Progress)) -> Result<RunReport, RunError> {
    let spec = spec.settled()?;
    let protocols = spec.protocol.protocols();
    if protocols.is_empty() {
        return run_with(MutexStore::new(), &spec, progress);
    }
    // The workers' sessions, or the loaders', and one more for the check.
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let store = EngineStore::new(protocols, spec.threads.max(at_once) + 2)?;
    run_with(store, &spec, progress)
}

/// Runs it on a store, recorded if there is a history to write and the workload does not record itself.
fn run_with<S: Appends>(
    store: S,
    spec: &Spec,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    match &spec.workload {
        WorkloadSpec::Recorded(recorded) => {
            let index = spec.index();
            let workload = Recorded::new(&store, recorded.clone(), index, spec.groups)?;
            let mut running =
                Running { store: &store, driver: &AsItIs, spec, plan: spec.plan(), index, progress };
            let parameters = [
                ("hot keys", recorded.hot_keys.to_string()),
                ("writes per key", recorded.writes_per_key.to_string()),
                ("attempts allowed", recorded.attempts_max.to_string()),
            ];
            running.drive(&workload, &parameters)
        }
        _ if spec.history.is_some() => run_on(&Recording::new(store), &WithHistory, spec, progress),
        _ => run_on(&store, &AsItIs, spec, progress),
    }
}

/// How a workload is driven.
trait Driver<S: Store> {
    fn drive<W: Workload<S>>(
        &self,
        store: &S,
        workload: &W,
        spec: &Spec,
        plan: &Plan,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Measured<W::Worker>, RunError>;
}

/// Without a recording.
struct AsItIs;

impl<S: Store> Driver<S> for AsItIs {
    fn drive<W: Workload<S>>(
        &self,
        store: &S,
        workload: &W,
        _: &Spec,
        plan: &Plan,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Measured<W::Worker>, RunError> {
        drive(store, workload, plan, progress)
    }
}

/// Recorded, with the history written and checked.
struct WithHistory;

impl<S: Store> Driver<Recording<S>> for WithHistory {
    fn drive<W: Workload<Recording<S>>>(
        &self,
        store: &Recording<S>,
        workload: &W,
        spec: &Spec,
        plan: &Plan,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Measured<W::Worker>, RunError> {
        let (history, strict) = (spec.history.clone(), spec.protocol.is_strict());
        drive(store, &Watched { workload, store, history, strict }, plan, progress)
    }
}

/// One run while it is put together.
struct Running<'a, S: Store, D: Driver<S>> {
    store: &'a S,
    driver: &'a D,
    spec: &'a Spec,
    plan: Plan,
    index: IndexKind,
    progress: &'a mut dyn FnMut(&Progress),
}

fn run_on<S: Store>(
    store: &S,
    driver: &impl Driver<S>,
    spec: &Spec,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    let index = spec.index();
    let groups = spec.groups;
    let mut running = Running { store, driver, spec, plan: spec.plan(), index, progress };
    match &spec.workload {
        WorkloadSpec::YcsbCore(core) => match core.field_count.saturating_mul(core.field_bytes) {
            // The usual sizes lie in arrays, as a program that knows its rows would have them.
            1000 => running.core::<[u8; 1000]>(core),
            100 => running.core::<[u8; 100]>(core),
            _ => running.core::<Vec<u8>>(core),
        },
        WorkloadSpec::YcsbTransactions { rows, spec } => match rows {
            RowShape::EvenOdd => running.transactions::<EvenOddRows<S>>(spec),
            RowShape::Rows1k => running.transactions::<Rows1k<S>>(spec),
            RowShape::Words => running.transactions::<DynamicRows<S>>(spec),
        },
        WorkloadSpec::YcsbMoney(bank) => {
            running.drive(&Bank::<S, String>::new(store, bank.clone(), index, groups)?, &of_bank(bank))
        }
        WorkloadSpec::Bank(bank) => {
            running.drive(&Bank::<S, u64>::new(store, bank.clone(), index, groups)?, &of_bank(bank))
        }
        WorkloadSpec::Counter(counter) => {
            let parameters = [("rows", counter.counters.to_string())];
            running.drive(&Counter::new(store, counter.clone(), index)?, &parameters)
        }
        WorkloadSpec::Queue(queue) => {
            let parameters = [("rows", queue.waiting.to_string()), ("adds", queue.adds_share.to_string())];
            running.drive(&Queue::new(store, queue.clone(), index)?, &parameters)
        }
        // See `run_with`.
        WorkloadSpec::Recorded(_) => {
            Err(RunError::Setting(format!("{} records itself", spec.workload.name())))
        }
        WorkloadSpec::Tpcc(spec) => running.tpcc(spec),
    }
}

fn of_bank(bank: &BankSpec) -> [(&'static str, String); 3] {
    [
        ("rows", bank.accounts.to_string()),
        ("theta", bank.theta.to_string()),
        ("accounts per transfer", bank.touched.to_string()),
    ]
}

impl<S: Store, D: Driver<S>> Running<'_, S, D> {
    fn core<R: FieldRow>(&mut self, core: &CoreSpec) -> Result<RunReport, RunError> {
        let workload = CoreWorkload::<S, R>::new(self.store, core.clone(), self.index, self.spec.seed)?;
        let mut parameters = vec![
            ("rows", core.record_count.to_string()),
            ("fields", format!("{} of {} bytes", core.field_count, core.field_bytes)),
            ("distribution", core.request_distribution.to_string()),
        ];
        if matches!(core.request_distribution, RequestDistribution::Zipfian | RequestDistribution::Latest) {
            parameters.push(("theta", core.theta.to_string()));
        }
        self.drive(&workload, &parameters)
    }

    fn transactions<H: Shape<S>>(&mut self, spec: &TransactionsSpec) -> Result<RunReport, RunError> {
        let (index, groups, seed) = (self.index, self.spec.groups, self.spec.seed);
        let workload = TransactionWorkload::<S, H>::new(self.store, spec.clone(), index, groups, seed)?;
        let mut parameters =
            vec![("rows", spec.rows.to_string()), ("operations", spec.operations.to_string())];
        match spec.keys {
            Keys::Zipfian { theta } => parameters.push(("theta", theta.to_string())),
            Keys::Contention { transactions_percent, rows_percent } => {
                parameters.push(("contention", format!("{transactions_percent}:{rows_percent}")));
            }
        }
        match spec.mix {
            Mix::EachReads { share } => parameters.push(("reads", share.to_string())),
            Mix::Whole { read_only_share, .. } => {
                parameters.push(("read-only transactions", read_only_share.to_string()));
            }
        }
        self.drive(&workload, &parameters)
    }

    fn tpcc(&mut self, tpcc: &TpccSpec) -> Result<RunReport, RunError> {
        let options = tpcc::Options {
            scale: tpcc.scale,
            seed: self.spec.seed,
            mix: tpcc.mix,
            split: match self.spec.groups {
                Granularity::Fine => tpcc.fine_split,
                Granularity::Coarse => Split::Coarse,
            },
            updates: match self.spec.updates {
                Updates::Plain => tpcc::Updates::Plain,
                Updates::CommitTime => tpcc::Updates::CommitTime,
            },
            access: match self.spec.access {
                Access::OneByOne => tpcc::Access::OneByOne,
                Access::MultiGet => tpcc::Access::MultiGet,
            },
            points: self.index,
        };
        let workload = Tpcc::create(self.store, options)?;
        let parameters = workload.parameters();
        let mut report = self.drive(&workload, &[])?;
        report.parameters.extend(parameters);
        Ok(report)
    }

    fn drive<W: Workload<S>>(
        &mut self,
        workload: &W,
        parameters: &[(&str, String)],
    ) -> Result<RunReport, RunError> {
        let measured = self.driver.drive(self.store, workload, self.spec, &self.plan, self.progress)?;
        let mut report = self.report(&measured);
        report.parameters.extend(parameters.iter().map(|(name, value)| ((*name).into(), value.clone())));
        Ok(report)
    }

    fn report<W>(&self, measured: &Measured<W>) -> RunReport {
        let spec = self.spec;
        let per_commit = |count: u64| {
            if measured.committed == 0 { 0.0 } else { count as f64 / measured.committed as f64 }
        };
        let quantile_us = |quantile: f64| measured.latency_ns.value_at_quantile(quantile) as f64 / 1e3;
        let mut parameters = BTreeMap::from([
            ("seed".into(), spec.seed.to_string()),
            ("requests drawn ahead".into(), format!("{} a thread", self.plan.requests)),
            ("warm-up".into(), format!("{} s", spec.warm_up_s)),
            ("clock".into(), format!("{:.0} ns a reading", measured.clock_ns)),
        ]);
        if measured.given_up > 0 {
            parameters.insert("given up".into(), measured.given_up.to_string());
        }
        RunReport {
            workload: spec.workload.name().into(),
            preset: spec.preset.clone(),
            protocol: spec.protocol.to_string(),
            groups: match spec.groups {
                Granularity::Fine => "fine".into(),
                Granularity::Coarse => "coarse".into(),
            },
            index: match self.index {
                IndexKind::Hash => "hash".into(),
                IndexKind::Ordered => "ordered".into(),
            },
            updates: spec.updates.to_string(),
            access: spec.access.to_string(),
            threads: spec.threads,
            seconds: measured.seconds,
            committed: measured.committed,
            committed_per_s: measured.committed as f64 / measured.seconds,
            user_rollbacks: measured.user_rollbacks,
            aborts: measured.conflicts.rules.clone(),
            retries_per_commit: per_commit(measured.aborted),
            latency_us: Latency {
                p50: quantile_us(0.5),
                p99: quantile_us(0.99),
                p999: quantile_us(0.999),
                max: measured.latency_ns.max() as f64 / 1e3,
            },
            attempts_max: measured.attempts_max,
            consistent: (!measured.conditions.is_empty())
                .then(|| measured.conditions.iter().all(|condition| condition.holds)),
            consistency: measured.conditions.iter().map(|condition| condition.words.clone()).collect(),
            allocations_per_commit: measured.allocated.map(|allocated| per_commit(allocated.allocations)),
            bytes_per_commit: measured.allocated.map(|allocated| per_commit(allocated.bytes)),
            parameters,
            hottest: measured.conflicts.hottest.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(workload: &str, preset: &str) -> WorkloadSpec {
        let mut spec = WorkloadSpec::named(workload, preset).unwrap();
        match &mut spec {
            WorkloadSpec::Counter(_) | WorkloadSpec::Recorded(_) => {}
            WorkloadSpec::Queue(queue) => queue.waiting = 20,
            other => other.set_rows(200).unwrap(),
        }
        spec
    }

    fn ran(spec: &Spec) -> RunReport {
        let mut phases = 0;
        let report = run(spec, &mut |_| phases += 1).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
        assert!(phases > 0);
        assert_ne!(report.consistent, Some(false), "{spec:?}: {:?}", report.consistency);
        let given_up: u64 = report.parameters.get("given up").map_or(0, |count| count.parse().unwrap());
        assert_eq!(report.committed + report.user_rollbacks + given_up, spec.length.transactions.unwrap());
        report
    }

    fn spec(workload: WorkloadSpec, protocol: ProtocolChoice, transactions: u64) -> Spec {
        Spec {
            threads: 4,
            length: Length::transactions(transactions),
            warm_up_s: 0.0,
            requests: Some(1000),
            ..Spec::new(workload, "test", protocol)
        }
    }

    #[test]
    fn every_ycsb_preset_runs_on_everything() {
        for protocol in ProtocolChoice::all() {
            for preset in YCSB_PRESETS {
                let report = ran(&spec(small("ycsb", preset), protocol.clone(), 1000));
                assert_eq!(report.protocol, protocol.to_string());
                assert!(report.latency_us.max >= report.latency_us.p50);
            }
        }
    }

    #[test]
    fn ycsb_s_rows_can_be_coarse_ordered_and_had_together() {
        for protocol in ProtocolChoice::all() {
            for preset in ["granularity", "sundial", "dynamic", "disttictoc-money"] {
                let spec = Spec {
                    groups: Granularity::Coarse,
                    index: Some(IndexKind::Ordered),
                    access: Access::MultiGet,
                    ..spec(small("ycsb", preset), protocol.clone(), 1000)
                };
                let report = ran(&spec);
                assert_eq!((report.groups.as_str(), report.index.as_str()), ("coarse", "ordered"));
                assert_eq!(report.access, "multi-get");
            }
        }
    }

    #[test]
    fn the_small_workloads_keep_their_invariants_on_everything_either_way() {
        for protocol in ProtocolChoice::all() {
            for updates in [Updates::Plain, Updates::CommitTime] {
                for workload in ["bank", "counter", "queue"] {
                    if workload == "queue" && updates == Updates::CommitTime {
                        continue;
                    }
                    let spec = Spec { updates, ..spec(small(workload, "default"), protocol.clone(), 4000) };
                    let report = ran(&spec);
                    assert_eq!(report.consistent, Some(true), "{:?}", report.consistency);
                }
            }
        }
    }

    #[test]
    fn tpcc_runs_on_everything_either_way() {
        let manners = [
            (Updates::Plain, Access::OneByOne, Granularity::Coarse),
            (Updates::CommitTime, Access::MultiGet, Granularity::Fine),
        ];
        for protocol in ProtocolChoice::all() {
            for (updates, access, groups) in manners {
                let mut workload = WorkloadSpec::named("tpcc", "full").unwrap();
                let WorkloadSpec::Tpcc(tpcc) = &mut workload else { panic!("tpcc was asked for") };
                tpcc.scale = Scale { warehouses: 1, customers: 30, items: 100 };
                let spec = Spec { updates, access, groups, ..spec(workload, protocol.clone(), 1000) };
                let report = ran(&spec);
                assert_eq!(report.consistent, Some(true), "{:?}", report.consistency);
            }
        }
    }

    #[test]
    fn recorded_histories_are_serializable_on_everything() {
        for protocol in ProtocolChoice::all() {
            for workload in ["append", "register", "scan"] {
                for index in [IndexKind::Ordered, IndexKind::Hash] {
                    if workload == "scan" && index == IndexKind::Hash {
                        continue;
                    }
                    let spec = Spec {
                        index: Some(index),
                        ..spec(small(workload, "default"), protocol.clone(), 4000)
                    };
                    let report = ran(&spec);
                    assert_eq!(report.consistent, Some(true), "{:?}", report.consistency);
                }
            }
            let spec =
                Spec { updates: Updates::CommitTime, ..spec(small("append", "default"), protocol, 4000) };
            assert_eq!(ran(&spec).consistent, Some(true));
        }
    }

    #[test]
    fn databases_that_mix_protocols_run_what_has_tables_for_them() {
        for mix in [MIXED, "occ+tictoc", "two-phase+two-phase-wound-wait"] {
            let mix: ProtocolChoice = mix.parse().unwrap();
            for workload in ["append", "register", "scan"] {
                for groups in [Granularity::Coarse, Granularity::Fine] {
                    let workload = small(workload, "default");
                    let report = ran(&Spec { groups, ..spec(workload, mix.clone(), 3000) });
                    assert_eq!(report.consistent, Some(true), "{mix}: {:?}", report.consistency);
                    assert_eq!(report.protocol, mix.to_string());
                }
            }
            let mut workload = WorkloadSpec::named("tpcc", "full").unwrap();
            let WorkloadSpec::Tpcc(tpcc) = &mut workload else { panic!("tpcc was asked for") };
            tpcc.scale = Scale { warehouses: 1, customers: 30, items: 100 };
            assert_eq!(ran(&spec(workload, mix.clone(), 1000)).consistent, Some(true));
            let one_table = spec(small("bank", "default"), mix.clone(), 10).check().unwrap_err();
            assert!(one_table.to_string().contains("one table"), "{one_table}");
        }
    }

    #[test]
    fn settings_without_a_use_are_refused() {
        let refused = |change: fn(&mut Spec)| {
            let mut spec = spec(small("ycsb", "a"), ProtocolChoice::Mutex, 10);
            assert!(spec.check().is_ok());
            change(&mut spec);
            run(&spec, &mut |_| {}).unwrap_err().to_string()
        };
        assert!(refused(|spec| spec.updates = Updates::CommitTime).contains("no form with commit-time"));
        assert!(refused(|spec| spec.access = Access::MultiGet).contains("multi-get"));
        assert!(refused(|spec| spec.threads = 0).contains("threads"));
        assert!(refused(|spec| spec.length = Length::seconds(f64::NAN)).contains("seconds"));
        assert!(refused(|spec| spec.length = Length::transactions(0)).contains("at least one"));
        assert!(refused(|spec| spec.workload.set_rows(u64::MAX / 2000).unwrap()).contains("memory"));
        assert!(
            refused(|spec| {
                spec.workload = small("ycsb", "e");
                spec.index = Some(IndexKind::Hash);
            })
            .contains("ordered")
        );
        assert!(WorkloadSpec::named("ycsb", "z").unwrap_err().to_string().contains("granularity"));
        assert!(WorkloadSpec::named("tpc", "x").unwrap_err().to_string().contains("one of ycsb"));
        assert!("occc".parse::<ProtocolChoice>().unwrap_err().to_string().contains("tictoc"));
    }

    #[test]
    fn the_same_seed_gives_the_same_transactions_on_one_thread() {
        let report = |protocol| {
            let spec = Spec { threads: 1, ..spec(small("bank", "default"), protocol, 5000) };
            let report = ran(&spec);
            (report.committed, report.user_rollbacks)
        };
        let mutex = report(ProtocolChoice::Mutex);
        assert!(mutex.1 > 0);
        for protocol in ProtocolChoice::all() {
            assert_eq!(report(protocol.clone()), mutex, "{protocol}");
        }
    }
}
