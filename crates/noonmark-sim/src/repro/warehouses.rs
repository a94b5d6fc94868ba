//! TPC-C on servers of a cluster: what is left open, and one run.
//!
//! What it does not do: say what a paper says; see [`cluster_tpcc`](super::cluster_tpcc).

use super::cell::{Cell, Size, count_then_as_later, pause_max, phases, plan_of, report, shorter, unfit};
use super::{Leased, Reuse, Rules, Site, Warehouses, words};
use crate::Picoseconds;
use crate::experiment::{self, ExperimentError};
use crate::network::Conditions;
use crate::network::store::ClusterSpec;
use crate::network::tpcc::{self, ItemsAt};
use noonmark::{Leases, Protocol};
use noonmark_cluster::cache::{CacheCounts, CacheOptions, ReusePolicy};
use noonmark_cluster::client::Policy;
use noonmark_cluster::table_lease::TableLeases;
use noonmark_workloads::report::{Reproduction, RunReport, Traffic};
use noonmark_workloads::store::{Granularity, IndexKind};
use noonmark_workloads::tpcc::population::Scale;
use noonmark_workloads::tpcc::request::Mix;
use noonmark_workloads::tpcc::schema::Split;
use noonmark_workloads::tpcc::{Access, Homes, Items, Options, OrderNumbers, Taking, Updates};

/// How TPC-C's items are come by, under `sundial` [Sundial §6.4.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemsBy {
    /// Each server has them all.
    Copies,
    /// They are spread, and asked for.
    Asking,
    /// They are spread, and servers keep copies.
    Cache,
    /// The same, and whole tables have leases.
    CacheAndTableLeases,
}

impl ItemsBy {
    /// What reports call it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            ItemsBy::Copies => "sundial, items at each server",
            ItemsBy::Asking => "sundial, items asked for",
            ItemsBy::Cache => "sundial, items cached",
            ItemsBy::CacheAndTableLeases => "sundial, items cached, table leases",
        }
    }
}

impl Warehouses {
    /// What is under `sundial` is as in the paper, without what is ours: see [`Rules::Printed`].
    pub(super) fn be_as_printed(&mut self) {
        self.reads_prepared = true;
        self.refuses_younger = true;
        self.lends = false;
        self.leases = Leases::default();
    }

    /// How large it is.
    pub(super) fn scale(&self, size: &Size) -> Scale {
        let fewer = self.fewer_rows.max(1);
        Scale {
            warehouses: self.servers.saturating_mul(self.a_server),
            customers: (size.customers / fewer).max(10),
            items: (size.items / fewer).max(100),
        }
    }

    /// How many times longer a run is than one on virtual cores.
    pub(super) fn slower() -> Picoseconds {
        Site::Room.slower()
    }

    pub(super) fn in_words(&self) -> Vec<(&'static str, String)> {
        let Warehouses { servers, a_server, latency_us, io_threads, .. } = *self;
        let us = |ns: u32| f64::from(ns) / 1_000.0;
        let mut words = vec![
            ("servers", servers.to_string()),
            (Reproduction::WAREHOUSES, a_server.to_string()),
            ("transactions", "all five, 45 : 43 : 4 : 4 : 4".to_owned()),
            (
                "rows whose keys are known together",
                words::either(
                    self.together,
                    "asked for together, with one message to each server",
                    "asked for one by one",
                ),
            ),
            (
                "a payment",
                match (self.by_groups, self.adds_totals) {
                    (false, _) => "takes each row at once, to be written",
                    (true, false) => {
                        "reads the warehouse, the district and the customer, and changes them then"
                    }
                    (true, true) => {
                        "reads the warehouse, the district and the customer, and adds to the totals at commit"
                    }
                }
                .to_owned(),
            ),
            words::pause(self.backoff_round_trips, self.backoff_max_us),
            words::ages(self.new_ages),
            words::abort_buffer(0),
            words::asked(self.asks_everybody),
            words::told(self.waits_until_told),
            (
                "whoever waits for another",
                format!("is refused after {} µs, and run again like any that has failed", self.wait_max_us),
            ),
            (
                "a message is on its way",
                format!("for {latency_us} µs, a sixth more or less; 10 Gbit/s a server"),
            ),
            (
                "a message takes",
                format!(
                    "{} µs of the sender's output thread, as much of the receiver's input thread; of either a server has {io_threads}",
                    us(self.handling_ns)
                ),
            ),
            (
                "an access takes",
                format!(
                    "{} µs, of its own worker at home, of the input thread elsewhere",
                    us(self.access_ns)
                ),
            ),
            (
                "room for copies",
                format!("{} % of all items at a server", f64::from(self.cache_permille) / 10.0),
            ),
            words::prepared(self.reads_prepared),
            words::younger(self.refuses_younger),
            words::lending(self.lends),
            ("whole tables", "have leases where a protocol's name says so".to_owned()),
            words::votes(self.vote_percent),
            words::replaced_then(self.then_is_later),
        ];
        let leased = Leased { distinct: false, overwrites: false, leases: self.leases, skew: 0 };
        words.extend(leased.in_words().into_iter().take(2));
        words
    }
}

/// About what a copy of a row of ITEM takes.
const ITEM_BYTES: u64 = 250;

/// Runs it, so many workers on each server as the cell has cores.
pub(super) fn run(
    cell: &Cell,
    warehouses: &Warehouses,
    size: &Size,
    seed: u64,
) -> Result<RunReport, ExperimentError> {
    use ItemsBy::{Asking, Cache, CacheAndTableLeases, Copies};
    let engine = |protocol| ClusterSpec::new(warehouses.servers, protocol);
    let (cluster, items, reuse) = match cell.protocol {
        Rules::Engine(protocol) => (engine(protocol), ItemsAt::EachServer, None),
        Rules::Freezing => {
            let cluster = ClusterSpec { frozen_ticks: u64::MAX, ..engine(Protocol::Dynamic) };
            (cluster, ItemsAt::EachServer, None)
        }
        Rules::Copying(reuse) => (engine(Protocol::Sundial), ItemsAt::EachServer, Some(reuse)),
        Rules::Items(Copies) => (engine(Protocol::Sundial), ItemsAt::EachServer, None),
        Rules::Items(Asking) => (engine(Protocol::Sundial), ItemsAt::Hashed, None),
        Rules::Items(Cache | CacheAndTableLeases) => {
            (engine(Protocol::Sundial), ItemsAt::Hashed, Some(Reuse::Voted))
        }
        Rules::Printed => (engine(Protocol::Sundial), ItemsAt::EachServer, None),
        Rules::Memory(_) | Rules::Clocked | Rules::Sets(..) => return Err(unfit(cell)),
    };
    let scale = warehouses.scale(size);
    let cache = |reuse| CacheOptions {
        bytes_max: (u64::from(scale.items) * ITEM_BYTES * u64::from(warehouses.cache_permille) / 1_000)
            as usize,
        reuse: match reuse {
            Reuse::Always => ReusePolicy::Always,
            Reuse::Never => ReusePolicy::Never,
            Reuse::Voted => ReusePolicy::Voted(f64::from(warehouses.vote_percent) / 100.0),
        },
        ..CacheOptions::default()
    };
    let latency_ns = u64::from(warehouses.latency_us) * 1_000;
    let cluster = ClusterSpec {
        leases: warehouses.leases,
        cache: reuse.map(cache),
        reads_prepared: warehouses.reads_prepared,
        refuses_younger: warehouses.refuses_younger,
        lends: warehouses.lends,
        table_leases: (cell.protocol == Rules::Items(CacheAndTableLeases)).then(TableLeases::default),
        policy: Policy {
            attempts_max: None,
            backoff_max: pause_max(warehouses.backoff_round_trips, warehouses.backoff_max_us, latency_ns),
            backoff_round_trips: None,
            escape_after: None,
        },
        new_ages: warehouses.new_ages,
        asks_everybody: warehouses.asks_everybody,
        waits_until_told: warehouses.waits_until_told,
        wait_max_ns: u64::from(warehouses.wait_max_us) * 1_000,
        conditions: Conditions {
            latency: Site::Room.latency(latency_ns),
            handling_ns: warehouses.handling_ns.into(),
            sending_ns: warehouses.handling_ns.into(),
            io_threads: warehouses.io_threads.into(),
            access_ns: warehouses.access_ns.into(),
            ..Conditions::quiet()
        },
        ..cluster
    };
    let options = Options {
        scale,
        seed,
        mix: Mix::Full,
        split: match cell.granularity {
            Granularity::Coarse => Split::Coarse,
            Granularity::Fine => Split::Fine,
            Granularity::Splitting => Split::Itself,
        },
        totals: if warehouses.adds_totals { Updates::CommitTime } else { Updates::Plain }.into(),
        taking: if warehouses.by_groups { Taking::Groups } else { Taking::Rows },
        order_numbers: OrderNumbers::Column,
        items: Items::NonUniform,
        homes: Homes::InTurn,
        access: if warehouses.together { Access::MultiGet } else { Access::OneByOne },
        points: IndexKind::Hash,
    };
    let plan = plan_of(cell, size, seed, 256);
    let plan = experiment::Plan {
        warm_up_ps: plan.warm_up_ps * Warehouses::slower() / shorter(warehouses.servers),
        measured_ps: plan.measured_ps * Warehouses::slower() / shorter(warehouses.servers),
        ..plan
    };
    let mut found = tpcc::run(cluster, options, items, &plan)?;
    if warehouses.then_is_later {
        count_then_as_later(&mut found.measured.conflicts.rules);
    }
    let traffic = Traffic { messages: found.messages, bytes: found.bytes };
    let mut parameters = std::collections::BTreeMap::from([
        ("customers per district".to_owned(), scale.customers.to_string()),
        ("items".to_owned(), scale.items.to_string()),
        (Reproduction::WAREHOUSES.to_owned(), warehouses.a_server.to_string()),
        (Reproduction::WORKERS.to_owned(), cell.cores.to_string()),
        (Reproduction::SERVERS.to_owned(), warehouses.servers.to_string()),
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
    let phases = phases(&found);
    let report = report(cell, "tpcc", seed, parameters, found.measured);
    let threads = cell.cores * usize::from(warehouses.servers);
    Ok(RunReport { threads, lines: None, traffic: Some(traffic), phases: Some(phases), ..report })
}
