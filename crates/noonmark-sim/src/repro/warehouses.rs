//! TPC-C on servers of a cluster: what is left open, and one run.
//!
//! What it does not do: say what a paper says; see [`cluster_tpcc`](super::cluster_tpcc).

use super::cell::{Cell, Size, plan_of, unfit};
use super::{Rules, Servers, Workload};
use crate::experiment::ExperimentError;
use crate::network::tpcc::{self, ItemsAt, TpccSpec};
use noonmark_workloads::report::{Reproduction, RunReport};
use noonmark_workloads::store::{Granularity, IndexKind};
use noonmark_workloads::tpcc::population::Scale;
use noonmark_workloads::tpcc::request::Mix;
use noonmark_workloads::tpcc::schema::Split;
use noonmark_workloads::tpcc::{Access, Homes, Items, Options, OrderNumbers, Taking, Updates};
use std::collections::BTreeMap;

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

/// The transactions of TPC-C, each at the server of its warehouse, and at others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warehouses {
    /// On which servers.
    pub servers: Servers,
    /// How many warehouses each has.
    pub a_server: u16,
    /// How many times fewer customers and items there are than where there are few warehouses.
    pub fewer_rows: u32,
    /// Whether a payment reads the groups of its rows that it only reads first, and then changes the others.
    pub by_groups: bool,
    /// Whether it then adds to the totals of the warehouse and the district at commit, without reading them.
    pub adds_totals: bool,
    /// Where servers keep copies: how many thousandths of all items they may come to.
    pub cache_permille: u16,
}

impl Warehouses {
    /// How large it is.
    pub(super) fn scale(&self, size: &Size) -> Scale {
        let fewer = self.fewer_rows.max(1);
        Scale {
            warehouses: self.servers.count.saturating_mul(self.a_server),
            customers: (size.customers / fewer).max(10),
            items: (size.items / fewer).max(100),
        }
    }

    pub(super) fn in_words(&self) -> Vec<(&'static str, String)> {
        let Warehouses { servers, a_server, fewer_rows: _, by_groups, adds_totals, cache_permille } = *self;
        let payment = match (by_groups, adds_totals) {
            (false, _) => "takes each row at once, to be written",
            (true, false) => "reads the warehouse, the district and the customer, and changes them then",
            (true, true) => {
                "reads the warehouse, the district and the customer, and adds to the totals at commit"
            }
        };
        let mut words = servers.in_words();
        words.extend([
            (Reproduction::WAREHOUSES, a_server.to_string()),
            ("transactions", "all five, 45 : 43 : 4 : 4 : 4".to_owned()),
            ("a payment", payment.to_owned()),
            ("room for copies", format!("{} % of all items at a server", f64::from(cache_permille) / 10.0)),
        ]);
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
    let Some((servers, protocol, reuse)) = warehouses.servers.under(cell.protocol) else {
        return Err(unfit(cell));
    };
    let cell = &cell.with(Workload::Warehouses(Warehouses { servers, ..*warehouses }));
    let items = match cell.protocol {
        Rules::Items(ItemsBy::Asking | ItemsBy::Cache | ItemsBy::CacheAndTableLeases) => ItemsAt::Hashed,
        _ => ItemsAt::EachServer,
    };
    let scale = warehouses.scale(size);
    let copies_bytes = u64::from(scale.items) * ITEM_BYTES * u64::from(warehouses.cache_permille) / 1_000;
    let options = Options {
        scale,
        seed,
        mix: Mix::Full,
        split: match cell.granularity {
            Granularity::Coarse => Split::Coarse,
            Granularity::Fine => Split::Fine,
            Granularity::Splitting => Split::Itself,
        },
        apart: false,
        totals: if warehouses.adds_totals { Updates::CommitTime } else { Updates::Plain }.into(),
        taking: if warehouses.by_groups { Taking::Groups } else { Taking::Rows },
        order_numbers: OrderNumbers::Column,
        items: Items::NonUniform,
        homes: Homes::InTurn,
        access: if servers.together { Access::MultiGet } else { Access::OneByOne },
        points: IndexKind::Hash,
    };
    let plan = servers.longer(plan_of(cell, size, seed, 256));
    let spec = TpccSpec { options, items, abort_buffer: servers.abort_buffer.into() };
    let found = tpcc::run(servers.spec(protocol, reuse, copies_bytes), spec, &plan)?;
    let parameters = BTreeMap::from([
        ("customers per district".to_owned(), scale.customers.to_string()),
        ("items".to_owned(), scale.items.to_string()),
        (Reproduction::WAREHOUSES.to_owned(), warehouses.a_server.to_string()),
    ]);
    Ok(servers.report(cell, "tpcc", seed, parameters, found))
}
