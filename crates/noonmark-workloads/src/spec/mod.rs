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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RunReport;
    use crate::tpcc::population::Scale;

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
                    for access in [Access::OneByOne, Access::MultiGet] {
                        let workload = small(workload, "default");
                        let spec =
                            Spec { index: Some(index), access, ..spec(workload, protocol.clone(), 4000) };
                        let report = ran(&spec);
                        assert_eq!(report.consistent, Some(true), "{:?}", report.consistency);
                    }
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
        let too_long = |spec: &mut Spec| {
            spec.workload = small("append", "default");
            spec.length = Length::transactions(1 << 60);
        };
        assert!(refused(too_long).contains("record fewer"));
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
