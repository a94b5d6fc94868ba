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
//! Read [`granularity`], [`dynamic`], [`sundial`], [`slow_clocks`], [`cluster`] and those that it names, and [`disttictoc`] for the experiments, `cell.rs` for one run, `claim.rs` for what words become, and `judge.rs` for whether it holds.
//!
//! What it does not do: it prints nothing, and measures no real time.

mod axis;
mod cell;
mod choices;
mod claim;
pub mod cluster;
pub mod cluster_aborts;
pub mod cluster_cache;
pub mod cluster_clocks;
pub mod cluster_ranges;
pub mod cluster_tpcc;
pub mod cluster_ycsb;
mod cost;
pub mod disttictoc;
pub mod dynamic;
pub mod granularity;
mod judge;
mod plan;
mod servers;
mod sharing;
mod site;
pub mod slow_clocks;
mod spanning;
pub mod splitting;
pub mod sundial;
mod warehouses;

pub use axis::{Axis, Points};
pub use cell::{Cell, Size, run};
pub use claim::{At, Claim, Test};
pub use cost::{Cost, Part};
pub use plan::{Plan, Setting, conclude};
pub use servers::{Servers, TwoPhaseCommit};
pub use sharing::Sharing;
pub use site::Site;
pub use spanning::Spanning;
pub use warehouses::{ItemsBy, Warehouses};

use crate::memory::Bench;
use crate::network::disttictoc::WorkingSet;
use crate::{Machine, Placement};
use noonmark::{Leases, Protocol};
use noonmark_workloads::report::Failures;
use noonmark_workloads::stm::{Contender, Structure};
use noonmark_workloads::store::Granularity;
use noonmark_workloads::tpcc::{Homes, Items, OrderNumbers};

/// All experiments, by paper, in the order of their figures.
pub fn all() -> impl Iterator<Item = &'static Experiment> + Clone {
    let of_sundial = cluster_ycsb::ALL
        .iter()
        .chain(cluster_aborts::ALL)
        .chain(cluster_cache::ALL)
        .chain(cluster_clocks::ALL);
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

impl Workload {
    /// A message takes so long at either end; whether there are any.
    fn take_for_messages(&mut self, ns: u32) -> bool {
        match self {
            Workload::Spanning(Spanning { servers, .. })
            | Workload::Warehouses(Warehouses { servers, .. }) => {
                servers.take_for_messages(ns);
            }
            Workload::Sharing(sharing) => sharing.handling_ns = ns,
            Workload::Ycsb { .. }
            | Workload::Contended(_)
            | Workload::Leased(_)
            | Workload::Tpcc { .. }
            | Workload::Memory(_) => return false,
        }
        true
    }

    /// The servers of its cluster, if it is of one.
    pub fn servers(&self) -> Option<&Servers> {
        match self {
            Workload::Spanning(Spanning { servers, .. })
            | Workload::Warehouses(Warehouses { servers, .. }) => Some(servers),
            _ => None,
        }
    }

    fn servers_mut(&mut self) -> Option<&mut Servers> {
        match self {
            Workload::Spanning(Spanning { servers, .. })
            | Workload::Warehouses(Warehouses { servers, .. }) => Some(servers),
            _ => None,
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
    fn in_words(&self) -> Vec<(&'static str, String)> {
        let mut words = Vec::from(leases_in_words(self.leases));
        words.extend([
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
        ]);
        words
    }
}

/// What a table does besides under `sundial`.
fn leases_in_words(leases: Leases) -> [(&'static str, String); 2] {
    let Leases { extended_by, write_times } = leases;
    let extended = match extended_by {
        None => "renewed at commit".into(),
        Some(0) => "extended when a row is read, too".into(),
        Some(by) => format!("extended when a row is read, too, by {by} ticks more"),
    };
    let kept = match write_times {
        0 => "the current version's".into(),
        before => format!("the current version's, and of {before} before"),
    };
    [("leases", extended), ("write times kept", kept)]
}

/// One or the other, in words.
fn either(is: bool, so: &str, otherwise: &str) -> String {
    if is { so } else { otherwise }.to_owned()
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
