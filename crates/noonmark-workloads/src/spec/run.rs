//! A run: the store and the tables that its settings ask for, driven, and written down as a report.

use std::collections::BTreeMap;

use crate::bank::{Bank, BankSpec, Updates};
use crate::counter::Counter;
use crate::driver::hop::HOP;
use crate::driver::{Measured, Plan, drive};
use crate::engine::EngineStore;
use crate::mutex::MutexStore;
use crate::queue::Queue;
use crate::recorded::Recorded;
use crate::recording::{Recording, Watched};
use crate::report::{Latency, Progress, RunReport};
use crate::store::{Appends, Granularity, IndexKind, Store};
use crate::tpcc::schema::Split;
use crate::tpcc::{self, Tpcc};
use crate::workload::{RunError, Workload};
use crate::ycsb::properties::{InsertOrder, RequestDistribution};
use crate::ycsb::{
    CoreSpec, CoreWorkload, DynamicRows, EvenOddRows, FieldRow, Keys, Mix, Rows1k, Shape,
    TransactionWorkload, TransactionsSpec,
};

use super::{Access, RowShape, Spec, TpccSpec, WorkloadSpec};

/// Runs it, telling `progress` how it is getting along some eight times a second.
pub fn run(spec: &Spec, progress: &mut dyn FnMut(&Progress)) -> Result<RunReport, RunError> {
    let spec = spec.settled()?;
    let protocols = spec.protocol.protocols();
    if protocols.is_empty() {
        return run_with(MutexStore::new(), &spec, progress);
    }
    // The workers' sessions, or the loaders', and one more for the check.
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let store = EngineStore::new(protocols, spec.threads.max(at_once) + 2)?.row_hint(spec.row_hint);
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
            Keys::Contention { transactions_percent, rows_percent, .. } => {
                parameters.push(("contention", format!("{transactions_percent}:{rows_percent}")));
            }
        }
        if spec.insert_order == InsertOrder::Hashed {
            parameters.push(("insert order", "hashed".into()));
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
                Granularity::Splitting => Split::Itself,
            },
            apart: self.spec.groups == Granularity::Fine,
            totals: match self.spec.updates {
                Updates::Plain => tpcc::Updates::Plain.into(),
                Updates::CommitTime => tpcc::Updates::CommitTime.into(),
            },
            access: match self.spec.access {
                Access::OneByOne => tpcc::Access::OneByOne,
                Access::MultiGet => tpcc::Access::MultiGet,
            },
            points: self.index,
            ..tpcc::Options::default()
        };
        let workload = Tpcc::create(self.store, options)?;
        let parameters = workload.parameters();
        let mut report = self.drive(&workload, &[])?;
        report.parameters.extend(parameters);
        if self.index == IndexKind::Hash {
            // Some of its tables are scanned, and have an order whatever was asked for.
            report.index = "hash and ordered".into();
        }
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
        if let Some(hop_ns) = measured.hop_ns {
            parameters.insert(HOP.into(), format!("{hop_ns:.0} ns"));
        }
        if !spec.row_hint {
            parameters.insert("row hint".into(), "no".into());
        }
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
                Granularity::Splitting => "splitting".into(),
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
            clock_increments: None,
            irrevocable: None,
            requests: None,
            consistent: (!measured.conditions.is_empty())
                .then(|| measured.conditions.iter().all(|condition| condition.holds)),
            consistency: measured.conditions.iter().map(|condition| condition.words.clone()).collect(),
            allocations_per_commit: measured.allocated.map(|allocated| per_commit(allocated.allocations)),
            bytes_per_commit: measured.allocated.map(|allocated| per_commit(allocated.bytes)),
            parameters,
            hottest: measured.conflicts.hottest.clone(),
            lines: None,
            traffic: None,
            phases: None,
        }
    }
}
