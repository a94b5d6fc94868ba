//! The papers' experiments, on virtual cores: what is run, and what the papers say of it.
//!
//! An [`Experiment`] is data: the workload with every choice that its paper leaves open ([`Variant`]), what varies along its
//! plot ([`Axis`]), what the paper's text says came out ([`Claim`]), and which choices are changed, one at a time, to see what hangs
//! on them ([`Alternative`]).
//! [`Plan::cells`] are the runs that some experiments take, each once; [`run`] is one of them; and [`conclude`] puts the
//! paper's words beside what has come out.
//!
//! **Nothing is tuned to agree.** Variants were written down before any figure was looked at: they are what the paper's text says,
//! and where it says nothing, what the program that its authors published does; the machine's constants are in
//! [`machine`](crate::machine), older still. What does not come out is reported like what does.
//!
//! Read [`granularity`], [`dynamic`], [`sundial`], [`slow_clocks`], [`cluster`], [`cluster_ranges`] and [`disttictoc`] for the experiments, `cell.rs` for one run, `claim.rs` for how words become comparisons.
//!
//! What it does not do: it prints nothing, and measures no real time.

mod axis;
mod cell;
mod claim;
pub mod cluster;
pub mod cluster_cache;
pub mod cluster_clocks;
pub mod cluster_ranges;
pub mod cluster_tpcc;
mod cost;
pub mod disttictoc;
pub mod dynamic;
pub mod granularity;
mod site;
pub mod slow_clocks;
pub mod splitting;
pub mod sundial;
mod warehouses;
mod words;

pub use axis::{Axis, Points};
pub use cell::{Cell, Size, run};
pub use claim::{At, Claim, Test};
pub use cost::{Cost, Part};
pub use site::Site;
pub use warehouses::ItemsBy;

use crate::memory::Bench;
use crate::network::disttictoc::WorkingSet;
use crate::{Machine, Picoseconds, Placement};
use noonmark::{Leases, Protocol};
use noonmark_workloads::report::{Change, Failures, Reproduction, RunReport};
use noonmark_workloads::stm::{Contender, Structure};
use noonmark_workloads::store::Granularity;
use noonmark_workloads::tpcc::{Homes, Items, OrderNumbers};

/// All experiments, by paper, in the order of their figures.
pub fn all() -> impl Iterator<Item = &'static Experiment> + Clone {
    let of_sundial = cluster::ALL.iter().chain(cluster_cache::ALL).chain(cluster_clocks::ALL);
    let clusters = of_sundial.chain(cluster_ranges::ALL).chain(cluster_tpcc::ALL).chain(disttictoc::ALL);
    let papers = granularity::ALL.iter().chain(dynamic::ALL).chain(sundial::ALL).chain(clusters);
    papers.chain(slow_clocks::ALL).chain(splitting::ALL)
}

/// An experiment of a paper: one figure, or one half of it.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What it is called on a command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where it is shown.
    pub figure: &'static str,
    /// What is run, with what the paper leaves open.
    pub variant: Variant,
    /// What of it varies along the plot.
    pub axis: Axis,
    /// Where it is run, in the order of the plot.
    pub points: Points,
    /// What a timestamp covers in it.
    pub granularity: Granularity,
    /// Whether the other granularities are run too, because the paper's text compares the two.
    pub compares: bool,
    /// The protocols in it, or the controls of the transactional memory.
    pub protocols: &'static [Rules],
    /// What the paper's text says of it.
    pub claims: &'static [Claim],
    /// How failed attempts are counted.
    pub failures: Failures,
    /// The kinds of failed attempts that the paper tells apart.
    pub kinds: &'static [&'static Kind],
    /// What is changed, one at a time.
    pub alternatives: &'static [Alternative],
    /// What the alternatives are run with.
    pub ablated: &'static [(Rules, Granularity)],
    /// What of the paper's experiment is not in it, and what that changes.
    pub left_out: &'static [(&'static str, &'static str)],
}

/// By whose rules transactions are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// A protocol's, in the engine.
    Engine(Protocol),
    /// Those of `sundial`, at servers that keep copies of each other's rows.
    Copying(Reuse),
    /// Those of `dynamic`, at servers that freeze all commit times from the first on, as MaaT does [Sundial §5.2].
    Freezing,
    /// Those of `ranges`, whose ranges begin at the time of the server's clock [Sundial, Appendix].
    Clocked,
    /// Those of `sundial`, at servers that come by TPC-C's items like this.
    Items(ItemsBy),
    /// Those of `sundial` as they are printed: what is prepared is read in any case, the younger of two writers is refused, leases are extended at
    /// commit only, and nobody's from its writer's first access on.
    Printed,
    /// Those of `tictoc` at workers that share nothing: what a transaction reads and writes in one set or in two, and how many workers.
    Sets(WorkingSet, Workers),
    /// A control's, in transactional memory. Granularities are nothing to it.
    Memory(Contender),
}

/// How many workers that share nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// As the variant has it.
    Varied,
    /// 1.
    One,
    /// 2.
    Two,
    /// 3.
    Three,
}

impl Workers {
    /// In a variant of so many.
    fn count(self, varied: u16) -> u16 {
        match self {
            Workers::Varied => varied,
            Workers::One => 1,
            Workers::Two => 2,
            Workers::Three => 3,
        }
    }
}

/// When copies are read [Sundial §4.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Always reuse.
    Always,
    /// Always request.
    Never,
    /// Hybrid.
    Voted,
}

impl Rules {
    /// What reports call them.
    pub fn name(self) -> &'static str {
        match self {
            Rules::Engine(protocol) => protocol.name(),
            Rules::Copying(Reuse::Always) => "sundial, always reuse",
            Rules::Copying(Reuse::Never) => "sundial, always request",
            Rules::Copying(Reuse::Voted) => "sundial, hybrid",
            Rules::Freezing => "dynamic, frozen without end",
            Rules::Clocked => "ranges, by clocks",
            Rules::Items(items) => items.name(),
            Rules::Printed => "sundial, as printed",
            Rules::Sets(WorkingSet::Combined, Workers::Varied) => "tictoc, one set",
            Rules::Sets(WorkingSet::Combined, Workers::One) => "tictoc, 1 worker",
            Rules::Sets(WorkingSet::Combined, Workers::Two) => "tictoc, 2 workers",
            Rules::Sets(WorkingSet::Combined, Workers::Three) => "tictoc, 3 workers",
            Rules::Sets(WorkingSet::Apart, Workers::Varied) => "tictoc, two sets",
            Rules::Sets(WorkingSet::Apart, Workers::One) => "tictoc, two sets, 1 worker",
            Rules::Sets(WorkingSet::Apart, Workers::Two) => "tictoc, two sets, 2 workers",
            Rules::Sets(WorkingSet::Apart, Workers::Three) => "tictoc, two sets, 3 workers",
            Rules::Memory(contender) => contender.name(),
        }
    }

    /// What reports call this granularity: nothing where there is none.
    pub fn groups(self, granularity: Granularity) -> &'static str {
        match (self, granularity) {
            (Rules::Memory(_), _) => "",
            (_, Granularity::Coarse) => "coarse",
            (_, Granularity::Fine) => "fine",
            (_, Granularity::Splitting) => "splitting",
        }
    }
}

/// A kind of failed attempts.
#[derive(Debug)]
pub struct Kind {
    /// What the paper calls it, in short.
    pub words: &'static str,
    /// The rules of ours that fail in this way.
    pub rules: &'static [&'static str],
}

/// A workload, and what its paper leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The workload.
    pub workload: Workload,
    /// How often an attempt looks again that finds another in the midst of its commit.
    pub busy_turns: u32,
    /// Whether whoever has failed pauses for a random time before the next attempt.
    pub backs_off: bool,
    /// On which cores workers run.
    pub placement: Placement,
    /// Of which machine.
    pub machine: Machine,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// [Granularity §3.3]'s form of YCSB.
    Ycsb {
        /// Whether a transaction's keys are all different, and gone through upwards.
        ascending: bool,
        /// Whether reads are of the even columns, and writes of the odd ones.
        parts_columns: bool,
        /// How many of the operations are writes.
        writes_percent: u8,
    },
    /// [Dynamic §VII.A]'s form of YCSB.
    Contended(Contended),
    /// [Sundial §6.1]'s form of YCSB.
    Leased(Leased),
    /// The same on servers of a cluster.
    Spanning(Spanning),
    /// All of TPC-C on servers of a cluster [Sundial §6.1].
    Warehouses(Warehouses),
    /// [DistTicToc §2.2]'s, at workers that share nothing.
    Sharing(Sharing),
    /// New-Order, Payment and Order-Status [Granularity §3.3].
    Tpcc {
        /// `W_YTD`.
        warehouse_total: WarehouseTotal,
        /// Whether `D_YTD` is added to at commit, without having been read.
        adds_district_total: bool,
        /// Where order numbers come from.
        order_numbers: OrderNumbers,
        /// Which items are ordered.
        items: Items,
        /// Which warehouses workers are at home in.
        homes: Homes,
    },
    /// The transactional memory's, of [SlowClocks §7].
    Memory(Short),
}

/// Transactions of one operation, in transactional memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// On what.
    pub structure: Structure,
    /// How many of a hundred operations change something.
    pub updates_percent: u8,
    /// Whether words of records are written without having been read.
    pub overwrites: bool,
    /// By how much the number of keys is divided.
    pub divides_keys_by: u64,
    /// Whether a core has filled the structure, whose lines then lie in the shared cache; if not, all are in memory.
    pub is_filled_by_a_core: bool,
}

impl Short {
    /// What is run, where there are usually so many keys.
    fn bench(&self, keys: u64) -> Bench {
        let Short { structure, updates_percent, overwrites, divides_keys_by, is_filled_by_a_core } = *self;
        let keys = (keys / divides_keys_by).max(2);
        Bench { structure, keys, updates_percent, overwrites, is_filled_by_a_core }
    }

    fn in_words(&self) -> Vec<(&'static str, String)> {
        let before = match self.is_filled_by_a_core {
            true => {
                "put in by one of the cores, so that they lie in the cache that all share when the run begins"
            }
            false => "put in by nobody, so that all lines are in memory when the run begins",
        };
        let mut words = vec![("structure", self.structure.name().to_owned())];
        if self.structure.is_map() {
            words.push(("updates", format!("{} %, insertions and removals in turn", self.updates_percent)));
            words.push(("keys that are there before", format!("half of all, in random order; {before}")));
        } else {
            let update = if self.overwrites {
                "writes a word without reading it"
            } else {
                "reads a word and writes it, one more"
            };
            words.push(("an update", update.to_owned()));
            words.push(("keys", format!("all are there; {before}")));
        }
        if self.divides_keys_by > 1 {
            words.push(("keys, fewer", format!("divided by {}", self.divides_keys_by)));
        }
        words.push(("threads", "each on a core of its own".to_owned()));
        words.push((
            "irrevocable",
            "after 10 failed attempts, under controls that know that, but for K-sweeps".to_owned(),
        ));
        words
    }
}

/// Transactions of five operations, all reads or the last two of them writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contended {
    /// The x of a contention ratio x:y, in percent; y is what is left.
    pub contention_percent: u8,
    /// How many of the transactions only read.
    pub read_only_percent: u8,
    /// Whether x is of the operations, each of which draws its side, rather than of the transactions.
    pub by_operation: bool,
    /// Whether a transaction's keys are all different.
    pub distinct: bool,
    /// Whether a write overwrites without reading.
    pub overwrites: bool,
    /// Whether transactions that only read are run under `dynamic`, too; if not, they are counted and take no time.
    pub reads_run: bool,
    /// Whether those read at a frontier under `dynamic`, and leave no marks.
    pub read_frontier: bool,
}

/// Transactions of sixteen operations, each of them a read nine times out of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    /// Whether a transaction's keys are all different.
    pub distinct: bool,
    /// Whether a write overwrites without reading.
    pub overwrites: bool,
    /// What the table does besides under `sundial`.
    pub leases: Leases,
    /// The exponent of the power law that rows are read and written by, in hundredths.
    pub skew: u16,
}

/// Transactions of sixteen operations, each of them a read nine times out of ten and at home nine times out of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spanning {
    /// How many servers.
    pub servers: u16,
    /// Where they are.
    pub site: Site,
    /// How many times fewer rows each has than where there are few servers.
    pub fewer_rows: u32,
    /// So many instead, whatever the [size](Size) is.
    pub rows: Option<u32>,
    /// Whether the rows of a transaction are asked for all together, with one message to each server.
    pub together: bool,
    /// Whoever has failed pauses for a random time below this.
    pub backoff_max_us: u32,
    /// Or below so many round trips, if any.
    pub backoff_round_trips: u8,
    /// How many transactions that have failed a worker keeps aside while it runs others; none: it pauses with them.
    pub abort_buffer: u8,
    /// Whether each attempt has an age of its own.
    pub new_ages: bool,
    /// Whether every server where something is locked is asked to prepare, though it could have no objection.
    pub asks_everybody: bool,
    /// Whether a commit ends when every server that is prepared knows of it.
    pub waits_until_told: bool,
    /// How long somebody may be kept waiting for another, at least: longer where servers are far apart.
    pub wait_max_us: u32,
    /// How long a message is on its way, about.
    pub latency_us: u32,
    /// How long an input thread takes for each message.
    pub handling_ns: u32,
    /// How long an output thread does.
    pub sending_ns: u32,
    /// How many of either a server has.
    pub io_threads: u8,
    /// How long an access takes.
    pub access_ns: u32,
    /// What the table does besides under `sundial`.
    pub leases: Leases,
    /// How many of a thousand accesses are writes.
    pub writes_permille: u16,
    /// How many of a hundred are to another server.
    pub remote_percent: u8,
    /// The exponent of the power law that rows are read by, in hundredths.
    pub reads_skew: u16,
    /// That of the one that they are written by.
    pub writes_skew: u16,
    /// Where servers keep copies: how many thousandths of one server's rows they may come to.
    pub cache_permille: u16,
    /// And whether whole tables have leases.
    pub leases_tables: bool,
    /// Where reuse is voted on: how many percent of the votes must be for it.
    pub vote_percent: u8,
    /// Whether what is prepared is read in any case, under `sundial`.
    pub reads_prepared: bool,
    /// Whether the younger of two is refused though the other has prepared, where it would be kept waiting: not under two-phase locking, which refuses it at once.
    pub refuses_younger: bool,
    /// Whether leases of what somebody is going to write can be renewed for as long as that is safe, under `sundial`.
    pub lends: bool,
    /// How far the clocks of the servers are apart, for protocols that go by them.
    pub clocks_apart_us: u32,
    /// Whether what was replaced at the commit time itself is counted as if it had been later: case (a) of Sundial's Figure 12, not (b).
    pub then_is_later: bool,
    /// Where transactions have ranges of commit times: how many ticks of them are frozen when they are prepared.
    pub frozen_ticks: u64,
    /// There, how many ticks of room are left to one that must come before another.
    pub range_room: u64,
    /// Whether transactions begin at the time of their server's clock, and no earlier.
    pub begins_by_clock: bool,
    /// Which repetition it is, from 0 on: each has a seed of its own.
    pub repetition: u8,
}

/// Transactions at workers that share nothing: reads of one row, or transfers between accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// How many workers.
    pub workers: u16,
    /// Accounts of a transfer; 0: transactions read one row.
    pub accounts: u16,
    /// How many times fewer rows there are than usually.
    pub fewer_rows: u32,
    /// Whether a transfer's accounts are asked for all together.
    pub together: bool,
    /// Whoever has failed pauses for a random time below this.
    pub backoff_max_us: u32,
    /// How long a message is on its way, about.
    pub latency_ns: u32,
    /// How long a worker takes for each message.
    pub handling_ns: u32,
    /// How long the network server takes for each, if there is one.
    pub server_ns: Option<u32>,
    /// How long an access takes, and each row at each round of the commit.
    pub access_ns: u32,
    /// How long somebody may be kept waiting for another.
    pub wait_max_us: u32,
}

impl Sharing {
    /// How many times longer a run is than one on virtual cores: a transaction takes so much longer.
    pub(super) const SLOWER: Picoseconds = 10;

    fn in_words(&self) -> Vec<(&'static str, String)> {
        let Sharing {
            workers, accounts, together, backoff_max_us, latency_ns, server_ns, wait_max_us, ..
        } = *self;
        let us = |ns: u32| f64::from(ns) / 1_000.0;
        let together = match together {
            true => "asked for all together, with one message to each worker",
            false => "asked for one by one",
        };
        vec![
            (Axis::NODES, workers.to_string()),
            (
                "a transaction",
                match accounts {
                    0 => "reads one row of ten fields of ten bytes".into(),
                    count => {
                        format!("moves money between {count} accounts, {together}, and writes all of them")
                    }
                },
            ),
            ("rows", "drawn evenly".into()),
            (
                "whoever has failed",
                match backoff_max_us {
                    0 => "is run again at once, with its age".into(),
                    most => format!(
                        "pauses for a random time below {most} µs, and keeps its age; its client pauses with it"
                    ),
                },
            ),
            ("a waiter waits", format!("for {wait_max_us} µs at most")),
            ("a message is on its way", format!("for {} µs, a sixth more or less", us(latency_ns))),
            (Axis::MESSAGES, format!("{} µs of the worker", us(self.handling_ns))),
            (
                "the network server",
                match server_ns {
                    None => "is none: clients put messages into the queues of workers".into(),
                    Some(ns) => format!("is one thread, and takes {} µs for each message", us(ns)),
                },
            ),
            (
                "an access takes",
                format!(
                    "{} µs of the worker, and each row as much at each round of the commit",
                    us(self.access_ns)
                ),
            ),
        ]
    }
}

/// The transactions of TPC-C, each at the server of its warehouse, and at others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warehouses {
    /// How many servers.
    pub servers: u16,
    /// How many warehouses each has.
    pub a_server: u16,
    /// How many times fewer customers and items there are than where there are few warehouses.
    pub fewer_rows: u32,
    /// Whether rows whose keys are known together are asked for together, with one message to each server.
    pub together: bool,
    /// Whether a payment reads the groups of its rows that it only reads first, and then changes the others.
    pub by_groups: bool,
    /// Whether it then adds to the totals of the warehouse and the district at commit, without reading them.
    pub adds_totals: bool,
    /// Whoever has failed pauses for a random time below this.
    pub backoff_max_us: u32,
    /// Or below so many round trips, if any.
    pub backoff_round_trips: u8,
    /// Whether each attempt has an age of its own.
    pub new_ages: bool,
    /// Whether every server where something is locked is asked to prepare, though it could have no objection.
    pub asks_everybody: bool,
    /// Whether a commit ends when every server that is prepared knows of it.
    pub waits_until_told: bool,
    /// For how long a server holds an answer back at most, while others have what is wanted.
    pub wait_max_us: u32,
    /// How long a message is on its way, about.
    pub latency_us: u32,
    /// How long a server's input thread takes for each message, and its output thread.
    pub handling_ns: u32,
    /// How many of either a server has.
    pub io_threads: u8,
    /// How long an access takes.
    pub access_ns: u32,
    /// What tables do besides under `sundial`.
    pub leases: Leases,
    /// Where servers keep copies: how many thousandths of all items they may come to.
    pub cache_permille: u16,
    /// Whether what is prepared is read in any case, under `sundial`.
    pub reads_prepared: bool,
    /// Whether the younger of two is refused though the other has prepared, under protocols that leave that to servers.
    pub refuses_younger: bool,
    /// Whether leases of what somebody is going to write can be renewed for as long as that is safe, under `sundial`.
    pub lends: bool,
    /// Where reuse is voted on: how many percent of the votes must be for it.
    pub vote_percent: u8,
    /// Whether what was replaced at the commit time itself is counted as if it had been later: case (a) of Sundial's Figure 12, not (b).
    pub then_is_later: bool,
}

impl Workload {
    /// A message takes so long at either end; whether there are any.
    fn take_for_messages(&mut self, ns: u32) -> bool {
        match self {
            Workload::Spanning(spanning) => spanning.take_for_messages(ns),
            Workload::Warehouses(Warehouses { handling_ns, .. })
            | Workload::Sharing(Sharing { handling_ns, .. }) => {
                *handling_ns = ns;
            }
            Workload::Ycsb { .. }
            | Workload::Contended(_)
            | Workload::Leased(_)
            | Workload::Tpcc { .. }
            | Workload::Memory(_) => return false,
        }
        true
    }

    /// Two-phase commit is as it is printed; whether there is any.
    fn commit_as_printed(&mut self) -> bool {
        match self {
            Workload::Spanning(Spanning { asks_everybody, waits_until_told, .. })
            | Workload::Warehouses(Warehouses { asks_everybody, waits_until_told, .. }) => {
                (*asks_everybody, *waits_until_told) = (true, true);
                true
            }
            _ => false,
        }
    }

    /// Each server has so many rows; whether that is for the setting to say.
    fn take_rows(&mut self, rows: u32) -> bool {
        match self {
            Workload::Spanning(spanning) => spanning.rows = Some(rows),
            _ => return false,
        }
        true
    }
}

impl Spanning {
    /// A message takes so long at either end.
    fn take_for_messages(&mut self, ns: u32) {
        (self.handling_ns, self.sending_ns) = (ns, ns);
    }

    /// What is under `sundial` is as in the paper, without what is ours: see [`Rules::Printed`].
    fn be_as_printed(&mut self) {
        self.reads_prepared = true;
        self.refuses_younger = true;
        self.lends = false;
        self.leases = Leases::default();
    }

    fn in_words(&self) -> Vec<(&'static str, String)> {
        let Spanning {
            servers,
            site,
            fewer_rows: _,
            rows: _,
            together,
            backoff_max_us,
            backoff_round_trips,
            abort_buffer,
            new_ages,
            asks_everybody,
            waits_until_told,
            wait_max_us,
            latency_us,
            handling_ns,
            sending_ns,
            io_threads,
            access_ns,
            leases,
            writes_permille,
            remote_percent,
            reads_skew,
            writes_skew,
            cache_permille,
            leases_tables,
            vote_percent,
            reads_prepared,
            refuses_younger,
            lends,
            clocks_apart_us,
            then_is_later,
            frozen_ticks,
            range_room,
            begins_by_clock,
            repetition: _,
        } = *self;
        let share = |permille: u16| format!("{} %", f64::from(permille) / 10.0);
        let skew = |skew: u16| format!("{}", f64::from(skew) / 100.0);
        let either = |is: bool, so: &str, otherwise: &str| if is { so } else { otherwise }.to_owned();
        let us = |ns: u32| f64::from(ns) / 1_000.0;
        let of_crowded = |permille| {
            let times = site::CROWDED.iter().find(|point| point.0 == permille).map_or(1.0, |point| point.1);
            f64::from(latency_us) * times
        };
        let leased = Leased { distinct: true, overwrites: false, leases, skew: reads_skew };
        let mut words = vec![
            ("servers", servers.to_string()),
            (
                "a transaction's rows",
                either(
                    together,
                    "asked for all together, with one message to each server",
                    "asked for one by one",
                ),
            ),
            words::pause(backoff_round_trips, backoff_max_us),
            words::ages(new_ages),
            words::abort_buffer(abort_buffer),
            words::asked(asks_everybody),
            words::told(waits_until_told),
            (
                "a waiter waits",
                format!("for {} ms at most, or for 25 round trips", f64::from(wait_max_us) / 1e3),
            ),
            (
                "a message is on its way",
                match site {
                    Site::Room => format!("for {latency_us} µs, a sixth more or less; 10 Gbit/s a server"),
                    Site::Crowded => format!(
                        "for {latency_us} µs mostly, one in ten for {} µs or longer, one in a hundred for {} µs, one in a thousand for {} µs, and none for more than {} µs; 10 Gbit/s a server",
                        of_crowded(900),
                        of_crowded(990),
                        of_crowded(999),
                        of_crowded(1_000),
                    ),
                    Site::World => {
                        let (least, most) = site.round_trips_ms();
                        format!(
                            "for {latency_us} µs, and half of a round trip of {least} to {most} ms; 10 Gbit/s a server"
                        )
                    }
                },
            ),
            (
                Axis::MESSAGES,
                format!(
                    "{} µs of the sender's output thread, and {} µs of the receiver's input thread; of either a server has {io_threads}",
                    us(sending_ns),
                    us(handling_ns)
                ),
            ),
            (
                "an access takes",
                format!("{} µs, of its own worker at home, of the input thread elsewhere", us(access_ns)),
            ),
            (Axis::WRITES, share(writes_permille)),
            ("accesses to other servers", format!("{remote_percent} %")),
            (Axis::SKEW, skew(reads_skew)),
            (Axis::WRITES_SKEW, skew(writes_skew)),
            (Axis::CACHE, share(cache_permille)),
            (Axis::CLOCKS, format!("{clocks_apart_us} µs")),
            words::prepared(reads_prepared),
            words::younger(refuses_younger),
            words::lending(lends),
            (
                "whole tables",
                either(leases_tables, "have leases where they are seldom written", "have no leases"),
            ),
            words::votes(vote_percent),
            words::replaced_then(then_is_later),
        ];
        words.extend(leased.in_words().into_iter().take(2));
        let begin = either(
            begins_by_clock,
            "at the time of their server's clock",
            "after the last commit that their client knows of",
        );
        let frozen = match frozen_ticks {
            u64::MAX => "all from the first on".to_owned(),
            ticks => format!("{ticks} ticks"),
        };
        words.push((
            "ranges of commit times",
            format!(
                "begin {begin}; who must come before another is left {range_room} ticks of room, if there is no end to it; who is prepared has \
                 frozen {frozen}, or fewer"
            ),
        ));
        words
    }
}

/// What `W_YTD` is, be timestamps coarse or fine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarehouseTotal {
    /// A column of its row, under the row's timestamp: read, changed and written.
    Plain,
    /// The same, under a timestamp of its own.
    Split,
    /// Under a timestamp of its own, and added to at commit, without having been read.
    CommitTime,
    /// The same, but under its row's timestamp where rows have one.
    AsGranularity,
}

impl WarehouseTotal {
    /// Whether it is under the timestamp of its row, where rows have one.
    fn is_under_the_rows(self) -> bool {
        matches!(self, WarehouseTotal::Plain | WarehouseTotal::AsGranularity)
    }
}

/// One choice made otherwise.
#[derive(Debug)]
pub struct Alternative {
    /// In words.
    pub words: &'static str,
    /// Makes it.
    pub change: fn(&mut Variant),
}

impl Variant {
    /// What the paper leaves open, and what is chosen here.
    pub fn in_words(&self) -> Vec<(&'static str, String)> {
        let mut words: Vec<(&'static str, String)> = Vec::new();
        match &self.workload {
            // What follows below is of the engine.
            Workload::Memory(short) => return short.in_words(),
            Workload::Spanning(spanning) => return spanning.in_words(),
            Workload::Warehouses(warehouses) => return warehouses.in_words(),
            Workload::Sharing(sharing) => return sharing.in_words(),
            Workload::Ycsb { ascending, parts_columns, writes_percent } => {
                words.push(("operations", format!("{writes_percent} % writes")));
                words.push((
                    "columns",
                    match parts_columns {
                        false => "any are read, and any are written".into(),
                        true => "the even ones are read, the odd ones written".into(),
                    },
                ));
                words.push((
                    "a transaction's keys",
                    match ascending {
                        false => "as they are drawn".into(),
                        true => "all different, upwards".into(),
                    },
                ));
            }
            Workload::Contended(contended) => words.extend(contended.in_words()),
            Workload::Leased(leased) => words.extend(leased.in_words()),
            Workload::Tpcc { warehouse_total, adds_district_total, order_numbers, items, homes } => {
                words.push((
                    "the warehouse's total",
                    match warehouse_total {
                        WarehouseTotal::Plain => "read, changed and written under the row's timestamp".into(),
                        WarehouseTotal::Split => {
                            "read, changed and written under a timestamp of its own".into()
                        }
                        WarehouseTotal::CommitTime => {
                            "added to at commit, under a timestamp of its own".into()
                        }
                        WarehouseTotal::AsGranularity => {
                            "added to at commit, under its row's timestamp where rows have one".into()
                        }
                    },
                ));
                words.push((
                    "the district's total",
                    match adds_district_total {
                        false => "read, changed and written".into(),
                        true => "added to at commit".into(),
                    },
                ));
                words.push((
                    "order numbers",
                    match order_numbers {
                        OrderNumbers::Column => "read and raised in the district's row".into(),
                        OrderNumbers::Sequence => "drawn from a counter outside of the transaction".into(),
                    },
                ));
                words.push((
                    "items",
                    match items {
                        Items::NonUniform => "by NURand, as in the standard".into(),
                        Items::Uniform => "uniform".into(),
                    },
                ));
                words.push((
                    "warehouses",
                    match (homes, self.placement) {
                        (Homes::Blocks, Placement::Filled) => "each the home of neighbouring cores".into(),
                        (Homes::InTurn, Placement::Filled) => {
                            "each the home of cores on all sockets in use".into()
                        }
                        (Homes::InTurn, Placement::Spread) => "each pinned to a socket".into(),
                        (Homes::Blocks, Placement::Spread) => "each the home of cores on all sockets".into(),
                    },
                ));
            }
        }
        words.push(("looks at what is being committed", format!("{} before giving up", self.busy_turns)));
        words.push((
            "after a conflict",
            match self.backs_off {
                false => "run again at once".into(),
                true => {
                    "run again after a random pause of up to 0.5 µs, doubled each time up to 50 µs".into()
                }
            },
        ));
        words.push((
            "cores",
            match self.placement {
                Placement::Filled => "socket after socket".into(),
                Placement::Spread => "of all sockets in turn".into(),
            },
        ));
        words
    }
}

impl Contended {
    fn in_words(&self) -> [(&'static str, String); 6] {
        let Contended { contention_percent: x, read_only_percent, .. } = *self;
        let either = |is: bool, so: &str, otherwise: &str| if is { so } else { otherwise }.to_owned();
        [
            (Axis::CONTENTION, format!("{x}:{}", 100 - x)),
            (Axis::READ_ONLY, format!("{read_only_percent} %")),
            (
                "a contention ratio x:y",
                either(
                    self.by_operation,
                    "x % of the operations are on y % of the rows",
                    "x % of the transactions stay within y % of the rows, the others without",
                ),
            ),
            (
                "a transaction's keys",
                either(self.distinct, "all different", "as they are drawn; kept when run again"),
            ),
            (
                "a write",
                either(self.overwrites, "overwrites without reading", "reads the row that it changes"),
            ),
            (
                "transactions that only read",
                either(
                    self.reads_run,
                    "are run and counted like the others, under both protocols",
                    "are counted, but not run under dynamic",
                ),
            ),
        ]
    }
}

impl Leased {
    fn in_words(&self) -> [(&'static str, String); 6] {
        let either = |is: bool, so: &str, otherwise: &str| if is { so } else { otherwise }.to_owned();
        let Leases { extended_by, write_times } = self.leases;
        [
            (
                "leases",
                match extended_by {
                    None => "renewed at commit".into(),
                    Some(0) => "extended when a row is read, too".into(),
                    Some(by) => format!("extended when a row is read, too, by {by} ticks more"),
                },
            ),
            (
                "write times kept",
                match write_times {
                    0 => "the current version's".into(),
                    before => format!("the current version's, and of {before} before"),
                },
            ),
            ("a transaction's keys", either(self.distinct, "sixteen different ones", "as they are drawn")),
            (
                "a write",
                either(self.overwrites, "overwrites without reading", "reads the row that it changes"),
            ),
            (
                "what was replaced at the commit time itself",
                "is in case (b), as in the paper's figure; in its §5.1 it is in case (a)".into(),
            ),
            (Axis::SKEW, format!("{}, and of writes the same", f64::from(self.skew) / 100.0)),
        ]
    }
}

/// Some experiments, and how they are to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which.
    pub experiments: Vec<&'static Experiment>,
    /// On how many cores, ascending, where that is what varies; as many as each experiment has for itself, if there are none.
    pub cores: Vec<usize>,
    /// With how many workers a server, ascending, where that is what varies, in the same way.
    pub workers: Vec<usize>,
    /// What is set otherwise than the experiments have it.
    pub setting: Setting,
    /// Whether a few points of each plot are enough.
    pub few: bool,
    /// How large.
    pub size: Size,
    /// Where all random numbers come from.
    pub seed: u64,
    /// Whether choices are changed, too.
    pub ablates: bool,
}

/// What experiments on servers of a cluster, or at workers that share nothing, are run with in place of what they have: what their figures hang on
/// most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// So many workers a server, where something else varies.
    pub workers: Option<usize>,
    /// A message takes so long of a thread, at either end, where something else varies.
    pub message_ns: Option<u32>,
    /// So many rows of YCSB a server.
    pub rows: Option<u32>,
    /// Two-phase commit is as it is printed: every server where something is locked is asked to prepare, and a commit ends when all have been told.
    pub commits_as_printed: bool,
}

impl Setting {
    /// As much of it as is of an experiment.
    pub fn of(self, experiment: &Experiment) -> Setting {
        let workers = self.workers.filter(|&count| experiment.axis.with_workers(count).is_some());
        let has_messages = |ns| experiment.variant.workload.clone().take_for_messages(ns);
        let varies_them = matches!(experiment.axis, Axis::Messages { .. });
        let message_ns = self.message_ns.filter(|&ns| !varies_them && has_messages(ns));
        let rows = self.rows.filter(|&rows| experiment.variant.workload.clone().take_rows(rows));
        let commits_as_printed =
            self.commits_as_printed && experiment.variant.workload.clone().commit_as_printed();
        Setting { workers, message_ns, rows, commits_as_printed }
    }

    /// The experiment with it.
    fn applied_to(self, experiment: &Experiment) -> Experiment {
        let Setting { workers, message_ns, rows, commits_as_printed } = self.of(experiment);
        let mut experiment = experiment.clone();
        if let Some(axis) = workers.and_then(|count| experiment.axis.with_workers(count)) {
            experiment.axis = axis;
        }
        if let Some(ns) = message_ns {
            experiment.variant.workload.take_for_messages(ns);
        }
        if let Some(rows) = rows {
            experiment.variant.workload.take_rows(rows);
        }
        if commits_as_printed {
            experiment.variant.workload.commit_as_printed();
        }
        experiment
    }

    /// Behind a title.
    fn in_words(self) -> String {
        let workers =
            self.workers.map_or_else(String::new, |count| format!("; with {count} workers a server"));
        let us = |ns: u32| f64::from(ns) / 1_000.0;
        let message =
            self.message_ns.map_or_else(String::new, |ns| format!("; with messages that take {} µs", us(ns)));
        let rows = self.rows.map_or_else(String::new, |count| format!("; with {count} rows a server"));
        let commit = if self.commits_as_printed { "; with two-phase commit as it is printed" } else { "" };
        workers + &message + &rows + commit
    }
}

impl Plan {
    /// Where an experiment is run, in the order of its plot.
    fn points(&self, experiment: &Experiment) -> &[usize] {
        match experiment.axis {
            Axis::Cores if !self.cores.is_empty() => &self.cores,
            Axis::Workers if !self.workers.is_empty() => &self.workers,
            _ if self.few => experiment.points.few,
            _ => experiment.points.all,
        }
    }

    /// The runs that these experiments take, each once. The last points of each experiment first, the greatest ones, so that
    /// those that run beside each other end together.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        let mut add = |cell: Cell| {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        };
        for experiment in &self.experiments {
            let experiment = self.setting.applied_to(experiment);
            for &point in self.points(&experiment).iter().rev() {
                experiment.cells(point).for_each(&mut add);
            }
            for (_, cell) in self.ablation(&experiment) {
                add(cell);
            }
        }
        cells
    }

    /// The runs in which one choice is changed, by alternative; those of the variant as it is come first. At the last point
    /// of the plot.
    fn ablation(&self, experiment: &Experiment) -> Vec<(&'static str, Cell)> {
        let Some(&point) = self.points(experiment).last().filter(|_| self.ablates) else { return Vec::new() };
        let (as_it_is, cores) = experiment.at(point);
        let changed = experiment.alternatives.iter().map(|alternative| {
            let mut variant = as_it_is.clone();
            (alternative.change)(&mut variant);
            (alternative.words, variant)
        });
        let mut cells = Vec::new();
        for (words, variant) in std::iter::once(("as above", as_it_is.clone())).chain(changed) {
            for &(protocol, granularity) in experiment.ablated {
                cells.push((words, Cell { variant: variant.clone(), protocol, granularity, cores }));
            }
        }
        cells
    }
}

impl Experiment {
    /// What reports call its granularity.
    fn groups(&self) -> &'static str {
        self.protocols.first().map_or("", |rules| rules.groups(self.granularity))
    }

    /// The granularities that are run: that of its figure first.
    fn granularities(&self) -> impl Iterator<Item = Granularity> {
        let others: &[Granularity] = match self.granularity {
            _ if !self.compares => &[],
            Granularity::Coarse => &[Granularity::Fine],
            Granularity::Fine => &[Granularity::Coarse],
            Granularity::Splitting => &[Granularity::Fine, Granularity::Coarse],
        };
        std::iter::once(self.granularity).chain(others.iter().copied())
    }

    /// What is run at a point of the plot, and on how many cores.
    fn at(&self, point: usize) -> (Variant, usize) {
        let mut variant = self.variant.clone();
        let cores = self.axis.move_to(point, &mut variant);
        (variant, cores)
    }

    /// The runs of a point of the plot.
    fn cells(&self, point: usize) -> impl Iterator<Item = Cell> {
        let (variant, cores) = self.at(point);
        self.granularities().flat_map(move |granularity| {
            let variant = variant.clone();
            self.protocols.iter().map(move |&protocol| Cell {
                variant: variant.clone(),
                protocol,
                granularity,
                cores,
            })
        })
    }
}

/// An experiment by its name.
pub fn named(name: &str) -> Option<&'static Experiment> {
    all().find(|experiment| experiment.name == name)
}

/// What came of an experiment: what its paper says, beside these runs.
pub fn conclude(plan: &Plan, experiment: &Experiment, runs: &[(Cell, RunReport)]) -> Reproduction {
    let setting = plan.setting.of(experiment);
    let experiment = &setting.applied_to(experiment);
    let found = |wanted: &Cell| runs.iter().find(|(cell, _)| cell == wanted).map(|(_, run)| run);
    let points = plan.points(experiment);
    let mut own: Vec<(usize, RunReport)> = Vec::new();
    for &point in points {
        for cell in experiment.cells(point) {
            own.extend(found(&cell).map(|run| (point, run.clone())));
        }
    }
    let mut changes: Vec<Change> = Vec::new();
    for (words, cell) in plan.ablation(experiment) {
        let Some(run) = found(&cell) else { continue };
        match changes.last_mut().filter(|change| change.words == words) {
            Some(change) => change.runs.push(run.clone()),
            None => changes.push(Change { words: words.into(), runs: vec![run.clone()] }),
        }
    }
    let results =
        claim::Results { runs: &own, protocols: experiment.protocols, points, axis: experiment.axis };
    let findings = experiment.claims.iter().map(|claim| claim.judge(&results)).collect();
    let mut choices = own_words(experiment.variant.in_words());
    experiment.axis.mark(&mut choices);
    let left_out = experiment.left_out.iter();
    Reproduction {
        name: experiment.name.into(),
        title: format!("{}{}", experiment.title, setting.in_words()),
        figure: experiment.figure.into(),
        groups: experiment.groups().into(),
        machine: match &experiment.variant.workload {
            Workload::Spanning(_) | Workload::Warehouses(_)
                if matches!(experiment.axis, Axis::Servers { .. }) =>
            {
                "servers of a cluster".into()
            }
            Workload::Spanning(spanning) => format!("{} servers", spanning.servers),
            Workload::Warehouses(warehouses) => format!("{} servers", warehouses.servers),
            Workload::Sharing(_) => "workers that share nothing".into(),
            _ => experiment.variant.machine.name.into(),
        },
        seed: plan.seed,
        size: plan.size.in_words(&experiment.variant.workload),
        axis: experiment.axis.name().into(),
        failures: experiment.failures,
        kinds: experiment
            .kinds
            .iter()
            .map(|kind| (kind.words.into(), kind.rules.iter().map(|&rule| rule.into()).collect()))
            .collect(),
        agrees_if: claim::AGREES_IF.into(),
        choices,
        left_out: left_out.map(|&(what, changes)| (what.to_owned(), changes.to_owned())).collect(),
        findings,
        runs: own.into_iter().map(|(_, run)| run).collect(),
        changes,
    }
}

fn own_words(words: Vec<(&'static str, String)>) -> Vec<(String, String)> {
    words.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
