//! One run, from its settings to its report.
//!
//! A [`Spec`] says everything about a run; [`run`] makes the store and the workload's tables, drives it, and
//! writes the [`RunReport`](crate::report::RunReport). [`WorkloadSpec::named`] knows the presets by the names that a command line uses.
//!
//! Defaults that depend on the workload: point workloads take a hash index, those that scan an ordered one. A
//! setting that a workload has no use for is refused rather than ignored: a report that says `commit-time` was
//! a run with commit-time updates.
//!
//! What it does not do: read files or arguments, or print anything.
//!
//! Each workload is compiled for each store, protocol and kind of row, which takes minutes; so its tests are in `tests/by_name.rs`, and the crate's unit
//! tests are compiled without it.

mod choice;
mod run;
mod workloads;

pub use choice::{Access, MIXED, ProtocolChoice};
pub use run::run;
pub use workloads::{RowShape, TpccSpec, WorkloadSpec, YCSB_PRESETS};

use std::path::PathBuf;

use crate::bank::Updates;
use crate::driver::{Length, Plan, check_plan, memory};
use crate::store::{Granularity, IndexKind};
use crate::workload::RunError;

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
    /// Whether tables are told how many rows to expect. The baseline's do not ask.
    pub row_hint: bool,
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
            row_hint: true,
            seed: 1,
            requests: None,
            count_allocations: false,
            history: None,
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
            memory::check_history(spec.length.transactions.unwrap_or(0))?;
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
            && (tables == 1 || spec.protocol != ProtocolChoice::Mixed(noonmark::Protocol::all_that_mix()))
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
        // More would be memory for nothing, where workers are many, and time to draw them; fewer, and a cache would keep them.
        let usual = ((1 << 18) / self.threads.max(1)).clamp(1 << 10, 1 << 16);
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
