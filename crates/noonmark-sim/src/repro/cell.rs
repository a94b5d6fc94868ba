//! One run: a workload with all its choices, one protocol, one granularity, so many cores.

use super::{
    Rules, Sharing, Short, Spanning, Variant, WarehouseTotal, Workload, sharing, spanning, warehouses,
};
use crate::cores::Limit;
use crate::experiment::{self, ExperimentError, Measured};
use crate::network::ycsb::ClusterMeasured;
use crate::{Picoseconds, VirtualCores, memory};
use noonmark::{Database, Policy, Protocol};
use noonmark_workloads::engine::EngineStore;
use noonmark_workloads::report::{ByPhase, GIVEN_UP, Latency, Lines, Phases, RunReport};
use noonmark_workloads::stm::Contender;
use noonmark_workloads::store::{Granularity, IndexKind, StoreError};
use noonmark_workloads::tpcc::population::Scale;
use noonmark_workloads::tpcc::request;
use noonmark_workloads::tpcc::schema::Split;
use noonmark_workloads::tpcc::{Options, OrderNumbers, Totals, Tpcc, Updates};
use noonmark_workloads::workload::RunError;
use noonmark_workloads::ycsb::{
    DynamicRows, EvenOddRows, Keys, Mix, TransactionWorkload, TransactionsSpec, WholeRows,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// [Granularity §4.3].
const WAREHOUSES: u16 = 8;
/// What is given up as getting nowhere: some hundred times what a run takes.
const STEPS_MAX: u64 = 20_000_000_000;

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The workload, with its choices.
    pub variant: Variant,
    /// The protocol of all its tables, or the control of its memory.
    pub protocol: Rules,
    /// What a timestamp covers.
    pub granularity: Granularity,
    /// Workers, each on a core of its own.
    pub cores: usize,
}

impl Cell {
    /// With what its rules change of the workload: what its report tells of.
    pub(super) fn with(&self, workload: Workload) -> Cell {
        Cell { variant: Variant { workload, ..self.variant.clone() }, ..self.clone() }
    }
}

/// How large runs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows of YCSB in Granularity's form, and in Sundial's on one server.
    pub rows: u64,
    /// Rows of each server of a cluster of YCSB in Sundial's form.
    pub rows_a_server: u64,
    /// Rows of YCSB in Dynamic's form.
    pub contended_rows: u64,
    /// Customers in a district of TPC-C.
    pub customers: u32,
    /// Items of TPC-C.
    pub items: u32,
    /// Keys of structures in transactional memory.
    pub memory_keys: u64,
    /// Virtual time before measuring.
    pub warm_up_ps: Picoseconds,
    /// Virtual time that is measured.
    pub measured_ps: Picoseconds,
}

impl Size {
    /// As large as in the paper; for four virtual milliseconds, in which 128 cores commit some thousands to some ten thousands.
    pub const FULL: Size = Size {
        rows: 10_000_000,
        rows_a_server: 10_000_000,
        contended_rows: 100_000,
        customers: 3_000,
        items: 100_000,
        memory_keys: 1_000_000,
        warm_up_ps: 1_000_000_000,
        measured_ps: 4_000_000_000,
    };

    /// Smaller tables where they are large, and so more contention; for one virtual millisecond.
    pub const QUICK: Size = Size {
        rows: 100_000,
        rows_a_server: 5_000,
        contended_rows: 100_000,
        customers: 300,
        items: 10_000,
        memory_keys: 100_000,
        warm_up_ps: 200_000_000,
        measured_ps: 1_000_000_000,
    };

    /// In words, as far as it concerns a workload.
    pub fn in_words(&self, workload: &Workload) -> String {
        let ms = |ps: Picoseconds| ps as f64 / 1e9;
        let data = match workload {
            Workload::Ycsb { .. } | Workload::Leased(_) => format!("{} rows", self.rows),
            Workload::Spanning(spanning) => {
                let slower = spanning.servers.site.slower();
                let [measured, before] = [self.measured_ps, self.warm_up_ps].map(|ps| ms(ps * slower));
                let rows = self.spanning_rows(spanning);
                return format!(
                    "{rows} rows a server; {measured} ms of virtual time, after {before} ms of warming up"
                );
            }
            Workload::Warehouses(warehouses) => {
                let Scale { customers, items, .. } = warehouses.scale(self);
                let slower = warehouses.servers.site.slower();
                let [measured, before] = [self.measured_ps, self.warm_up_ps].map(|ps| ms(ps * slower));
                return format!(
                    "{customers} customers a district and {items} items; {measured} ms of virtual time, after {before} ms of warming up"
                );
            }
            Workload::Contended(_) => format!("{} rows", self.contended_rows),
            Workload::Sharing(sharing) => {
                let times = [self.measured_ps, self.warm_up_ps].map(|ps| ms(ps * Sharing::SLOWER));
                let ([measured, before], rows) = (times, self.sharing_rows(sharing));
                return format!(
                    "{rows} rows; {measured} ms of virtual time, after {before} ms of warming up"
                );
            }
            Workload::Memory(short) => format!("{} keys", short.bench(self.memory_keys).keys),
            Workload::Tpcc { .. } => format!(
                "{WAREHOUSES} warehouses of {} customers a district and {} items",
                self.customers, self.items
            ),
        };
        let (measured, before) = (ms(self.measured_ps), ms(self.warm_up_ps));
        format!("{data}; {measured} ms of virtual time, after {before} ms of warming up")
    }

    /// About how many bytes a run takes.
    pub fn bytes(&self, workload: &Workload) -> u64 {
        match workload {
            Workload::Ycsb { .. } | Workload::Leased(_) => self.rows.saturating_mul(180),
            Workload::Spanning(spanning) => {
                let all = self.spanning_rows(spanning).saturating_mul(spanning.servers.count.into());
                all.min(spanning.asked_for_about(self)).saturating_mul(1_400)
            }
            // (Some experiments have more warehouses than their variant says, and fewer rows for it.)
            Workload::Warehouses(warehouses) => {
                warehouses.scale(self).bytes_about().saturating_mul(u64::from(warehouses.fewer_rows.max(1)))
            }
            Workload::Sharing(sharing) => self.sharing_rows(sharing).saturating_mul(400),
            // The versions before are kept for a while, too.
            Workload::Contended(_) => self.contended_rows.saturating_mul(360),
            Workload::Tpcc { .. } => self.scale().bytes_about(),
            Workload::Memory(short) => short.bench(self.memory_keys).bytes(),
        }
    }

    /// Rows of one kilobyte, of each server.
    pub(super) fn spanning_rows(&self, spanning: &Spanning) -> u64 {
        let as_in_the_paper = (self.rows_a_server / u64::from(spanning.fewer_rows.max(1))).max(100);
        spanning.rows.map_or(as_in_the_paper, u64::from)
    }

    /// Of all workers together.
    pub(super) fn sharing_rows(&self, sharing: &Sharing) -> u64 {
        (self.rows / 10 / u64::from(sharing.fewer_rows.max(1))).max(100)
    }

    fn scale(&self) -> Scale {
        Scale { warehouses: WAREHOUSES, customers: self.customers, items: self.items }
    }
}

/// Runs it. What comes out is a function of the arguments.
///
/// # Errors
/// [`ExperimentError`]; above all if there is not the memory, or if there are more workers than the machine has cores.
pub fn run(cell: &Cell, size: &Size, seed: u64) -> Result<RunReport, ExperimentError> {
    match (cell.protocol, &cell.variant.workload) {
        (_, Workload::Spanning(spanning)) => spanning::run(cell, spanning, size, seed),
        (_, Workload::Warehouses(warehouses)) => warehouses::run(cell, warehouses, size, seed),
        (_, Workload::Sharing(sharing)) => sharing::run(cell, sharing, size, seed),
        (Rules::Engine(protocol), _) => in_engine(cell, protocol, size, seed),
        (Rules::Memory(contender), Workload::Memory(short)) => in_memory(cell, short, contender, size, seed),
        _ => Err(unfit(cell)),
    }
}

/// The rules are not for such a workload.
pub(super) fn unfit(cell: &Cell) -> ExperimentError {
    let Cell { protocol, variant, .. } = cell;
    RunError::Setting(format!("{} does not run {:?}", protocol.name(), variant.workload)).into()
}

/// How a cell is run.
pub(super) fn plan_of(cell: &Cell, size: &Size, seed: u64, requests: usize) -> experiment::Plan {
    experiment::Plan {
        workers: cell.cores,
        warm_up_ps: size.warm_up_ps,
        measured_ps: size.measured_ps,
        steps_max: STEPS_MAX,
        seed,
        requests,
    }
}

fn in_memory(
    cell: &Cell,
    short: &Short,
    contender: Contender,
    size: &Size,
    seed: u64,
) -> Result<RunReport, ExperimentError> {
    let Variant { placement, machine, .. } = &cell.variant;
    let cores = VirtualCores::new(*machine, seed).placed(*placement);
    let bench = short.bench(size.memory_keys);
    // Operations are short, and those that come round again find their lines near.
    let measured = memory::run(&cores, contender, &bench, &plan_of(cell, size, seed, 1 << 14))?;
    let parameters = BTreeMap::from([("keys".to_owned(), bench.keys.to_string())]);
    Ok(report(cell, "stm", seed, parameters, measured))
}

/// For each commit.
pub(super) fn phases(found: &ClusterMeasured) -> Phases {
    let commits = found.measured.committed.max(1) as f64;
    let (us, each) = (|ns: u64| ns as f64 / 1e3 / commits, |count: u64| count as f64 / commits);
    let (times, bytes) = (found.times, found.phase_bytes);
    Phases {
        time_us: ByPhase {
            execution: us(times.execution_ns),
            prepare: us(times.prepare_ns),
            commit: us(times.commit_ns),
            failed: us(times.failed_ns),
        },
        paused_us: us(times.paused_ns),
        bytes: ByPhase {
            execution: each(bytes.execution),
            prepare: each(bytes.prepare),
            commit: each(bytes.commit),
            failed: each(bytes.failed),
        },
    }
}

fn in_engine(cell: &Cell, protocol: Protocol, size: &Size, seed: u64) -> Result<RunReport, ExperimentError> {
    let Variant { workload, busy_turns, backs_off, placement, machine } = &cell.variant;
    let cores = VirtualCores::new(*machine, seed).placed(*placement);
    let builder =
        Database::builder().host(cores.clone()).max_sessions(cell.cores + 1).busy_turns_max(*busy_turns);
    let builder =
        builder.read_frontier(matches!(workload, Workload::Contended(contended) if contended.read_frontier));
    let db = builder.build().map_err(|error| {
        let reason = error.to_string();
        ExperimentError::Run(RunError::Store(StoreError::Session { reason }))
    })?;
    let default = Policy::default();
    // The papers' programs have no escape: whoever loses goes on.
    let policy = Policy {
        escape_after: None,
        backoff_min: if *backs_off { default.backoff_min } else { Duration::ZERO },
        backoff_max: if *backs_off { default.backoff_max } else { Duration::ZERO },
        ..default
    };
    let store = EngineStore::of(db, &[protocol]).policy(policy);
    let plan = plan_of(cell, size, seed, 1024);
    let (measured, name, parameters) = match workload {
        Workload::Ycsb { ascending, parts_columns, writes_percent } => {
            let spec = TransactionsSpec {
                rows: size.rows,
                parts_columns: *parts_columns,
                mix: Mix::EachReads { share: 1.0 - f64::from(*writes_percent) / 100.0 },
                distinct: *ascending,
                ascending: *ascending,
                ..TransactionsSpec::granularity()
            };
            let (index, groups) = (IndexKind::Hash, cell.granularity);
            let workload = TransactionWorkload::<_, EvenOddRows<_>>::new(&store, spec, index, groups, seed)?;
            let parameters = BTreeMap::from([("rows".to_owned(), size.rows.to_string())]);
            (experiment::run(&cores, &store, &workload, &plan)?, "ycsb", parameters)
        }
        Workload::Contended(contended) => {
            let spec = TransactionsSpec {
                rows: size.contended_rows,
                keys: Keys::Contention {
                    transactions_percent: f64::from(contended.contention_percent),
                    rows_percent: f64::from(100 - contended.contention_percent),
                    by_operation: contended.by_operation,
                },
                mix: Mix::Whole {
                    read_only_share: f64::from(contended.read_only_percent) / 100.0,
                    writes: 2,
                },
                distinct: contended.distinct,
                overwrites: contended.overwrites,
                skips_read_only: !contended.reads_run && protocol == Protocol::Dynamic,
                ..TransactionsSpec::dynamic()
            };
            let (index, groups) = (IndexKind::Hash, cell.granularity);
            let workload = TransactionWorkload::<_, DynamicRows<_>>::new(&store, spec, index, groups, seed)?;
            let parameters = BTreeMap::from([("rows".to_owned(), size.contended_rows.to_string())]);
            (experiment::run(&cores, &store, &workload, &plan)?, "ycsb", parameters)
        }
        Workload::Leased(leased) => {
            let spec = TransactionsSpec {
                rows: size.rows,
                distinct: leased.distinct,
                overwrites: leased.overwrites,
                keys: Keys::Zipfian { theta: f64::from(leased.skew) / 100.0 },
                ..TransactionsSpec::sundial()
            };
            let store = store.leases(leased.leases);
            let (index, groups) = (IndexKind::Hash, cell.granularity);
            let workload =
                TransactionWorkload::<_, WholeRows<_, 10, 10>>::new(&store, spec, index, groups, seed)?;
            let parameters = BTreeMap::from([("rows".to_owned(), size.rows.to_string())]);
            (experiment::run(&cores, &store, &workload, &plan)?, "ycsb", parameters)
        }
        Workload::Tpcc { warehouse_total, adds_district_total, order_numbers, items, homes } => {
            let updates = |at_commit| if at_commit { Updates::CommitTime } else { Updates::Plain };
            let options = Options {
                scale: size.scale(),
                seed,
                mix: request::Mix::Granularity,
                split: match (warehouse_total.is_under_the_rows(), cell.granularity) {
                    (_, Granularity::Fine) if *warehouse_total == WarehouseTotal::AsGranularity => {
                        Split::Fine
                    }
                    (true, Granularity::Coarse) => Split::Coarse,
                    (true, Granularity::Fine) => Split::Paper,
                    (false, Granularity::Coarse) => Split::Warehouse,
                    (false, Granularity::Fine) => Split::Fine,
                    (_, Granularity::Splitting) => Split::Itself,
                },
                totals: Totals {
                    warehouse: updates(matches!(
                        warehouse_total,
                        WarehouseTotal::CommitTime | WarehouseTotal::AsGranularity
                    )),
                    district: updates(*adds_district_total),
                },
                order_numbers: *order_numbers,
                items: *items,
                homes: *homes,
                ..Options::default()
            };
            let workload = Tpcc::create(&store, options)?;
            let mut parameters = workload.parameters();
            if *order_numbers == OrderNumbers::Sequence {
                parameters.insert("order numbers".to_owned(), "from a sequence".to_owned());
            }
            (experiment::run(&cores, &store, &workload, &plan)?, "tpcc", parameters)
        }
        Workload::Memory(_) | Workload::Spanning(_) | Workload::Sharing(_) | Workload::Warehouses(_) => {
            return Err(unfit(cell));
        }
    };
    Ok(report(cell, name, seed, parameters, measured))
}

pub(super) fn report(
    cell: &Cell,
    workload: &str,
    seed: u64,
    mut parameters: BTreeMap<String, String>,
    measured: Measured,
) -> RunReport {
    parameters.insert("seed".to_owned(), seed.to_string());
    parameters.extend(cell.variant.in_words().into_iter().map(|(name, value)| (name.to_owned(), value)));
    let given_up = match (measured.limit, measured.stuck) {
        (Some(Limit::Time), _) => Some("all, when twice the time was over".to_owned()),
        (Some(Limit::Steps), _) => Some("all, when they had touched too many lines".to_owned()),
        (None, 0) => None,
        (None, 1) => Some("one transaction".to_owned()),
        (None, stuck) => Some(format!("{stuck} transactions")),
    };
    parameters.extend(given_up.map(|words| (GIVEN_UP.to_owned(), words)));
    // What is the engine's to say.
    let engine = |words: &str| match cell.protocol {
        Rules::Memory(_) => String::new(),
        _ => words.to_owned(),
    };
    // The least that so many of them took at most.
    let quantile_us = |quantile: f64| {
        let rank = (quantile * measured.latencies_ns.len() as f64).ceil() as usize;
        measured.latencies_ns.get(rank.saturating_sub(1)).map_or(0.0, |&ns| ns as f64 / 1e3)
    };
    let lines = measured.lines;
    RunReport {
        workload: workload.into(),
        preset: match cell.variant.workload {
            Workload::Sharing(_) => "disttictoc".into(),
            Workload::Contended(_) => "dynamic".into(),
            Workload::Leased(_) | Workload::Spanning(_) | Workload::Warehouses(_) => "sundial".into(),
            Workload::Ycsb { .. } | Workload::Tpcc { .. } => "granularity".into(),
            Workload::Memory(_) => "slow-clocks".into(),
        },
        protocol: cell.protocol.name().into(),
        groups: cell.protocol.groups(cell.granularity).into(),
        index: engine(if matches!(workload, "ycsb" | "bank") { "hash" } else { "hash and ordered" }),
        updates: engine("plain"),
        access: engine("one-by-one"),
        threads: cell.cores,
        seconds: measured.seconds,
        committed: measured.committed,
        committed_per_s: measured.per_s(),
        user_rollbacks: measured.user_rollbacks,
        retries_per_commit: if measured.committed == 0 {
            0.0
        } else {
            measured.aborted as f64 / measured.committed as f64
        },
        latency_us: Latency {
            p50: quantile_us(0.5),
            p99: quantile_us(0.99),
            p999: quantile_us(0.999),
            max: quantile_us(1.0),
        },
        attempts_max: measured.attempts_max,
        clock_increments: measured.clock_increments,
        irrevocable: measured.irrevocable,
        consistent: (!measured.conditions.is_empty())
            .then(|| measured.conditions.iter().all(|condition| condition.holds)),
        consistency: measured
            .conditions
            .iter()
            .filter(|condition| !condition.holds)
            .map(|condition| condition.words.clone())
            .collect(),
        aborts: measured.conflicts.rules,
        hottest: measured.conflicts.hottest.into_iter().take(8).collect(),
        parameters,
        lines: Some(Lines {
            hits: lines.hits,
            near: lines.near,
            far: lines.far,
            memory: lines.memory,
            queued_us: lines.queued_ps as f64 / 1e6,
        }),
        ..RunReport::default()
    }
}
