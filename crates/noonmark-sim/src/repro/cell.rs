//! One run: a workload with all its choices, one protocol, one granularity, so many cores.

use super::{
    Reuse, Rules, Sharing, Short, Site, Spanning, Variant, WarehouseTotal, Warehouses, Workload, warehouses,
};
use crate::cores::Limit;
use crate::experiment::{self, ExperimentError, Measured};
use crate::network::disttictoc::{DistTicTocSpec, WorkingSet};
use crate::network::store::ClusterSpec;
use crate::network::ycsb::{ClusterMeasured, YcsbSpec};
use crate::network::{self, Conditions};
use crate::{Picoseconds, VirtualCores, memory};
use noonmark::{Database, Policy, Protocol};
use noonmark_cluster::cache::{CacheCounts, CacheOptions, ReusePolicy};
use noonmark_cluster::client::Policy as ClusterPolicy;
use noonmark_cluster::coordinator::RESEND_AFTER_DEFAULT_NS;
use noonmark_cluster::table_lease::TableLeases;
use noonmark_workloads::engine::EngineStore;
use noonmark_workloads::report::{
    ByPhase, GIVEN_UP, Latency, Lines, Phases, Reproduction, RunReport, Traffic,
};
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
/// About what a copy of a row of a cluster's YCSB takes.
const ROW_BYTES: u64 = 1_150;
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

/// How large runs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows of YCSB in Granularity's form, and in Sundial's.
    pub rows: u64,
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
                let (measured, before) = (
                    ms(self.measured_ps * spanning.site.slower()),
                    ms(self.warm_up_ps * spanning.site.slower()),
                );
                let rows = self.spanning_rows(spanning);
                return format!(
                    "{rows} rows a server; {measured} ms of virtual time, after {before} ms of warming up"
                );
            }
            Workload::Warehouses(warehouses) => {
                let Scale { customers, items, .. } = warehouses.scale(self);
                let times = [self.measured_ps, self.warm_up_ps].map(|ps| ms(ps * Warehouses::slower()));
                let [measured, before] = times;
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
                self.spanning_rows(spanning).saturating_mul(u64::from(spanning.servers) * 1_200)
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
    fn spanning_rows(&self, spanning: &Spanning) -> u64 {
        let as_many_as_fit = (self.rows / 20 / u64::from(spanning.fewer_rows.max(1))).max(100);
        spanning.rows.map_or(as_many_as_fit, u64::from)
    }

    /// Of all workers together.
    fn sharing_rows(&self, sharing: &Sharing) -> u64 {
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
        (Rules::Engine(protocol), Workload::Spanning(spanning)) => {
            on_servers(cell, spanning, ClusterSpec::new(spanning.servers, protocol), None, size, seed)
        }
        (Rules::Copying(reuse), Workload::Spanning(spanning)) => {
            let cluster = ClusterSpec::new(spanning.servers, Protocol::Sundial);
            on_servers(cell, spanning, cluster, Some(reuse), size, seed)
        }
        (Rules::Freezing, Workload::Spanning(spanning)) => {
            let freezing = Spanning { frozen_ticks: u64::MAX, ..*spanning };
            let cluster = ClusterSpec::new(spanning.servers, Protocol::Dynamic);
            let variant = Variant { workload: Workload::Spanning(freezing), ..cell.variant.clone() };
            let cell = Cell { variant, ..cell.clone() };
            on_servers(&cell, &freezing, cluster, None, size, seed)
        }
        (Rules::Clocked, Workload::Spanning(spanning)) => {
            let clocked = Spanning { begins_by_clock: true, ..*spanning };
            let cluster = ClusterSpec::new(spanning.servers, Protocol::Ranges);
            let variant = Variant { workload: Workload::Spanning(clocked), ..cell.variant.clone() };
            let cell = Cell { variant, ..cell.clone() };
            on_servers(&cell, &clocked, cluster, None, size, seed)
        }
        (Rules::Printed, Workload::Warehouses(warehouses)) => {
            let mut printed = *warehouses;
            printed.be_as_printed();
            let variant = Variant { workload: Workload::Warehouses(printed), ..cell.variant.clone() };
            warehouses::run(&Cell { variant, ..cell.clone() }, &printed, size, seed)
        }
        (_, Workload::Warehouses(warehouses)) => warehouses::run(cell, warehouses, size, seed),
        (Rules::Printed, Workload::Spanning(spanning)) => {
            let mut printed = *spanning;
            printed.be_as_printed();
            let cluster = ClusterSpec::new(spanning.servers, Protocol::Sundial);
            // (So that its report says what was run.)
            let variant = Variant { workload: Workload::Spanning(printed), ..cell.variant.clone() };
            let cell = Cell { variant, ..cell.clone() };
            on_servers(&cell, &printed, cluster, None, size, seed)
        }
        (Rules::Sets(set, workers), Workload::Sharing(sharing)) => {
            let sharing = Sharing { workers: workers.count(sharing.workers), ..*sharing };
            at_workers(cell, &sharing, Protocol::TicToc, set, size, seed)
        }
        (Rules::Engine(protocol), Workload::Sharing(sharing)) => {
            at_workers(cell, sharing, protocol, WorkingSet::Combined, size, seed)
        }
        (Rules::Engine(protocol), _) => in_engine(cell, protocol, size, seed),
        (Rules::Memory(contender), Workload::Memory(short)) => in_memory(cell, short, contender, size, seed),
        (
            Rules::Memory(_)
            | Rules::Copying(_)
            | Rules::Freezing
            | Rules::Clocked
            | Rules::Printed
            | Rules::Sets(..)
            | Rules::Items(_),
            _,
        ) => Err(unfit(cell)),
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

/// On servers of a cluster: so many workers on each as the cell has cores.
fn on_servers(
    cell: &Cell,
    spanning: &Spanning,
    cluster: ClusterSpec,
    reuse: Option<Reuse>,
    size: &Size,
    seed: u64,
) -> Result<RunReport, ExperimentError> {
    let rows = size.spanning_rows(spanning);
    let cache = |reuse| CacheOptions {
        bytes_max: (rows * ROW_BYTES * u64::from(spanning.cache_permille) / 1_000) as usize,
        reuse: match reuse {
            Reuse::Always => ReusePolicy::Always,
            Reuse::Never => ReusePolicy::Never,
            Reuse::Voted => ReusePolicy::Voted(f64::from(spanning.vote_percent) / 100.0),
        },
        ..CacheOptions::default()
    };
    let latency_ns = u64::from(spanning.latency_us) * 1_000;
    let latency = spanning.site.latency(latency_ns);
    let between_ns = spanning.site.between_ns(spanning.servers);
    let farthest_ns = between_ns.iter().flatten().copied().max().unwrap_or(0);
    let pairs = between_ns.iter().flatten().filter(|ns| **ns > 0);
    let mean_ns = pairs.clone().sum::<u64>() / (pairs.count() as u64).max(1);
    let cluster = ClusterSpec {
        leases: spanning.leases,
        cache: reuse.filter(|_| spanning.cache_permille > 0).map(cache),
        reads_prepared: spanning.reads_prepared,
        refuses_younger: spanning.refuses_younger,
        lends: spanning.lends,
        clock_skew_ns: u64::from(spanning.clocks_apart_us) * 1_000,
        frozen_ticks: spanning.frozen_ticks,
        range_room: spanning.range_room,
        begins_by_clock: spanning.begins_by_clock,
        table_leases: spanning.leases_tables.then(TableLeases::default),
        policy: ClusterPolicy {
            attempts_max: None,
            backoff_max: pause_max(
                spanning.backoff_round_trips,
                spanning.backoff_max_us,
                latency_ns + mean_ns,
            ),
            backoff_round_trips: None,
            // The papers know of none.
            escape_after: None,
        },
        new_ages: spanning.new_ages,
        asks_everybody: spanning.asks_everybody,
        waits_until_told: spanning.waits_until_told,
        conditions: Conditions {
            latency: latency.clone(),
            handling_ns: spanning.handling_ns.into(),
            sending_ns: spanning.sending_ns.into(),
            io_threads: spanning.io_threads.into(),
            access_ns: spanning.access_ns.into(),
            pairs: between_ns
                .into_iter()
                .map(|to| to.into_iter().map(|more_ns| latency.clone().and_ns(more_ns)).collect())
                .collect(),
            ..Conditions::quiet()
        },
        // What takes long in the world is not yet lost.
        wait_max_ns: (u64::from(spanning.wait_max_us) * 1_000).max(50 * farthest_ns),
        resend_after_ns: RESEND_AFTER_DEFAULT_NS.max(10 * farthest_ns),
        ..cluster
    };
    let spec = YcsbSpec {
        rows,
        accesses: 16,
        writes_permille: spanning.writes_permille,
        remote_percent: spanning.remote_percent,
        reads_theta: f64::from(spanning.reads_skew) / 100.0,
        writes_theta: f64::from(spanning.writes_skew) / 100.0,
        together: spanning.together,
        abort_buffer: spanning.abort_buffer.into(),
    };
    let seed = seed.wrapping_add(spanning.repetition.into());
    let plan = plan_of(cell, size, seed, 0);
    let plan = experiment::Plan {
        warm_up_ps: plan.warm_up_ps * spanning.site.slower() / shorter(spanning.servers),
        measured_ps: plan.measured_ps * spanning.site.slower() / shorter(spanning.servers),
        ..plan
    };
    let mut found = network::ycsb::run(cluster, spec, &plan)?;
    if spanning.then_is_later {
        count_then_as_later(&mut found.measured.conflicts.rules);
    }
    let mut parameters = BTreeMap::from([
        ("rows".to_owned(), spec.rows.to_string()),
        (Reproduction::WORKERS.to_owned(), cell.cores.to_string()),
        (Reproduction::SERVERS.to_owned(), spanning.servers.to_string()),
    ]);
    if reuse.is_some() {
        let CacheCounts { reused, requested, missed, current, stale, evicted } = found.cache;
        parameters.insert(
            "copies".to_owned(),
            format!(
                "{reused} read, {requested} asked about, {missed} not there; {current} found to be current, {stale} stale; {evicted} evicted"
            ),
        );
    }
    let traffic = Traffic { messages: found.messages, bytes: found.bytes };
    let phases = phases(&found);
    let report = report(cell, "ycsb", seed, parameters, found.measured);
    let threads = cell.cores * usize::from(spanning.servers);
    Ok(RunReport { threads, lines: None, traffic: Some(traffic), phases: Some(phases), ..report })
}

/// Who has failed pauses no longer than this: so many round trips of messages that are on their way for so long, if any, or so many microseconds.
pub(super) fn pause_max(round_trips: u8, most_us: u32, latency_ns: u64) -> Duration {
    match round_trips {
        0 => Duration::from_micros(most_us.into()),
        trips => Duration::from_nanos(u64::from(trips) * 2 * latency_ns),
    }
}

/// How many times shorter a run is on more servers than 32, which get through as many transactions in less time.
pub(super) fn shorter(servers: u16) -> Picoseconds {
    Picoseconds::from(servers / 32).max(1)
}

/// Counts what was replaced at the commit time itself as if it had been later.
pub(super) fn count_then_as_later(rules: &mut BTreeMap<String, u64>) {
    if let Some(then) = rules.remove("sundial: renew, replaced then") {
        *rules.entry("sundial: renew, replaced later".to_owned()).or_default() += then;
    }
}

/// At workers that share nothing, which are before as many clients as the cell has cores.
fn at_workers(
    cell: &Cell,
    sharing: &Sharing,
    protocol: Protocol,
    working_set: WorkingSet,
    size: &Size,
    seed: u64,
) -> Result<RunReport, ExperimentError> {
    let access_ns = u64::from(sharing.access_ns);
    let cluster = ClusterSpec {
        policy: ClusterPolicy {
            attempts_max: None,
            backoff_max: Duration::from_micros(sharing.backoff_max_us.into()),
            backoff_round_trips: None,
            escape_after: None,
        },
        conditions: Conditions {
            latency: Site::Room.latency(sharing.latency_ns.into()),
            handling_ns: sharing.handling_ns.into(),
            access_ns,
            row_ns: Some(access_ns),
            server_ns: Some(sharing.server_ns.unwrap_or(0).into()),
            // (Memory's.)
            bytes_per_us: 10_000,
            ..Conditions::quiet()
        },
        wait_max_ns: u64::from(sharing.wait_max_us) * 1_000,
        ..ClusterSpec::new(sharing.workers, protocol)
    };
    let spec = DistTicTocSpec {
        rows: size.sharing_rows(sharing),
        accounts: (sharing.accounts > 0).then_some(sharing.accounts.into()),
        together: sharing.together,
        working_set,
    };
    let plan = plan_of(cell, size, seed, 0);
    let plan = experiment::Plan {
        warm_up_ps: plan.warm_up_ps * Sharing::SLOWER,
        measured_ps: plan.measured_ps * Sharing::SLOWER,
        ..plan
    };
    let found = network::disttictoc::run(cluster, spec, &plan)?;
    let phases = phases(&found);
    let traffic = Traffic { messages: found.messages, bytes: found.bytes };
    let workload = if sharing.accounts > 0 { "bank" } else { "ycsb" };
    let parameters = BTreeMap::from([(Reproduction::CLIENTS.to_owned(), cell.cores.to_string())]);
    let mut report = report(cell, workload, seed, parameters, found.measured);
    // (The protocol may have said how many.)
    report.parameters.insert(Reproduction::NODES.to_owned(), sharing.workers.to_string());
    report.parameters.insert("rows".to_owned(), format!("{}, drawn evenly", spec.rows));
    Ok(RunReport { lines: None, traffic: Some(traffic), phases: Some(phases), ..report })
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
