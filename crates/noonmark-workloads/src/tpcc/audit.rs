//! The twelve consistency conditions of [TPC-C 3.3.2], worked out from rows in any store.
//!
//! An [`Audit`] is told every row of the tables concerned, once, districts before orders, and then answers each
//! condition with its wording and whether it holds. It knows nothing of stores and transactions, so that what
//! it must catch can be put before it by hand.
//!
//! Departures from the letter, each for a database that has been run and not only loaded:
//!
//! - Condition 2 equates `D_NEXT_O_ID - 1` with the greatest `NO_O_ID` too. A district without open orders has
//!   none, and is held to the first equation alone; so does condition 3, as the standard says itself.
//! - Condition 11 (`orders - new orders = 2100`) is true of the initial database only. Each delivery takes one
//!   row from NEW-ORDER and raises one `C_DELIVERY_CNT`, so what is checked is that the difference has grown
//!   by exactly the sum of those. On an initial database this is the standard's condition.
//! - Rows that refer to nothing (an order line without its order, a payment of no customer) fail the condition
//!   that they would have entered, instead of vanishing in a join.
//!
//! - Where order numbers are drawn from a sequence ([`OrderNumbers`]), `D_NEXT_O_ID` stays as it was, and numbers are lost: conditions
//!   2 and 3 are left out.
//!
//! The standard states no condition of STOCK, though its rows are the most often changed of all. One is added:
//! each stock has given what the order lines since the population took from it, to the piece.
//!
//! Invariant: every amount is kept in cents, as integers, so that equality means equality.
//!
//! What it does not do: it never looks at texts or items.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::OrderNumbers;
use super::population::Scale;
use super::schema::*;

/// One condition, and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its number in [TPC-C 3.3.2], 1 to 12; 0 for what the standard does not list.
    pub number: u8,
    /// What it says.
    pub wording: &'static str,
    /// How often it is violated, and the first violation in words; `None` when it holds.
    pub violated: Option<(u64, String)>,
}

impl Finding {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.violated.is_none()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => write!(f, "besides: ")?,
            number => write!(f, "3.3.2.{number}: ")?,
        }
        match &self.violated {
            None => write!(f, "{}: holds", self.wording),
            Some((count, first)) => write!(f, "{}: VIOLATED {count} times, first by {first}", self.wording),
        }
    }
}

/// What the conditions say, by number.
const WORDINGS: [&str; 12] = [
    "W_YTD is the sum of its districts' D_YTD",
    "D_NEXT_O_ID - 1 is the greatest O_ID and the greatest NO_O_ID of the district",
    "a district's NO_O_IDs have no gaps",
    "the O_OL_CNTs of a district's orders add up to its order lines",
    "an order has no carrier exactly if it has a row in NEW-ORDER",
    "an order has O_OL_CNT lines",
    "an order line has no delivery date exactly if its order has no carrier",
    "W_YTD is the sum of what HISTORY says was paid at the warehouse",
    "D_YTD is the sum of what HISTORY says was paid in the district",
    "C_BALANCE is what was delivered to the customer less what HISTORY says he paid",
    "a district's orders outnumber its new orders by the delivered of the population and those since",
    "C_BALANCE + C_YTD_PAYMENT is what was delivered to the customer",
];

#[derive(Default)]
struct WarehouseFacts {
    /// `None`: rows refer to a warehouse that is not there.
    ytd_cents: Option<i64>,
    districts_ytd_cents: i64,
    paid_cents: i64,
}

#[derive(Default)]
struct DistrictFacts {
    /// `D_NEXT_O_ID` and `D_YTD`; `None`: rows refer to a district that is not there.
    row: Option<(u32, i64)>,
    paid_cents: i64,
    /// Facts of order `o_id` at place `o_id`, as far as `D_NEXT_O_ID` says that there can be orders.
    orders: Vec<OrderFacts>,
    /// Those beyond.
    strays: BTreeMap<u32, OrderFacts>,
    open_count: u64,
    open_least: u32,
    open_greatest: u32,
    deliveries: u64,
}

#[derive(Clone, Default)]
struct OrderFacts {
    exists: bool,
    open: bool,
    carrier_id: u8,
    ol_cnt: u8,
    c_id: u32,
    lines: u32,
    lines_delivered: u32,
    delivered_cents: i64,
}

#[derive(Default)]
struct CustomerFacts {
    /// `C_BALANCE` and `C_YTD_PAYMENT`; `None`: rows refer to a customer who is not there.
    row: Option<(i64, i64)>,
    paid_cents: i64,
    delivered_cents: i64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Taken {
    pieces: u32,
    lines: u32,
    remote: u32,
}

#[derive(Default)]
struct StockFacts {
    /// What the row says was taken; `None`: order lines refer to a stock that is not there.
    row: Option<Taken>,
    by_lines: Taken,
}

/// The facts gathered so far.
pub struct Audit {
    scale: Scale,
    order_numbers: OrderNumbers,
    warehouses: BTreeMap<WarehouseKey, WarehouseFacts>,
    districts: BTreeMap<DistrictKey, DistrictFacts>,
    customers: HashMap<CustomerKey, CustomerFacts>,
    stocks: HashMap<StockKey, StockFacts>,
    history_rows: u64,
}

/// What has come to the database since its population.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Rows of ORDER.
    pub orders: u64,
    /// Rows of HISTORY.
    pub payments: u64,
    /// Deliveries that customers' `C_DELIVERY_CNT` tell of.
    pub deliveries: u64,
}

/// Gathers violations of one condition.
#[derive(Default)]
struct Violations {
    count: u64,
    first: String,
}

impl Violations {
    fn check(&mut self, holds: bool, words: impl FnOnce() -> String) {
        if !holds {
            if self.count == 0 {
                self.first = words();
            }
            self.count += 1;
        }
    }
}

impl DistrictFacts {
    fn order(&mut self, o_id: u32) -> &mut OrderFacts {
        if (o_id as usize) < self.orders.len() {
            &mut self.orders[o_id as usize]
        } else {
            self.strays.entry(o_id).or_default()
        }
    }

    /// All orders of which anything is known, by number.
    fn orders(&self) -> impl Iterator<Item = (u32, &OrderFacts)> {
        let strays = self.strays.iter().map(|(&o_id, order)| (o_id, order));
        self.orders.iter().enumerate().map(|(o_id, order)| (o_id as u32, order)).chain(strays)
    }
}

impl Audit {
    /// An audit of a database of this scale, of which nothing has been told yet.
    pub fn new(scale: Scale, order_numbers: OrderNumbers) -> Self {
        Audit {
            scale,
            order_numbers,
            warehouses: BTreeMap::new(),
            districts: BTreeMap::new(),
            customers: HashMap::new(),
            stocks: HashMap::new(),
            history_rows: 0,
        }
    }

    /// A row of WAREHOUSE.
    pub fn warehouse(&mut self, w_id: WarehouseKey, row: &WarehouseYtd) {
        self.warehouses.entry(w_id).or_default().ytd_cents = Some(row.ytd_cents);
    }

    /// A row of DISTRICT. Districts come before orders.
    pub fn district(&mut self, key: DistrictKey, orders: &DistrictOrders, ytd: &DistrictYtd) {
        /// Orders that get a place of their own; a district that claims more is corrupt or enormous, and only
        /// pays with the speed of its audit.
        const ORDERS_MAX: u32 = 1 << 28;
        let facts = self.districts.entry(key).or_default();
        facts.row = Some((orders.next_o_id, ytd.ytd_cents));
        if orders.next_o_id <= ORDERS_MAX {
            facts.orders.resize(orders.next_o_id as usize, OrderFacts::default());
        }
        self.warehouses.entry(key.0).or_default().districts_ytd_cents += ytd.ytd_cents;
    }

    /// A row of CUSTOMER.
    pub fn customer(&mut self, key: CustomerKey, account: &CustomerAccount) {
        self.customers.entry(key).or_default().row = Some((account.balance_cents, account.ytd_payment_cents));
        self.districts.entry((key.0, key.1)).or_default().deliveries += u64::from(account.delivery_cnt);
    }

    /// A row of HISTORY.
    pub fn history(&mut self, row: &History) {
        self.history_rows += 1;
        self.warehouses.entry(row.w_id).or_default().paid_cents += row.amount_cents;
        self.districts.entry((row.w_id, row.d_id)).or_default().paid_cents += row.amount_cents;
        self.customers.entry((row.c_w_id, row.c_d_id, row.c_id)).or_default().paid_cents += row.amount_cents;
    }

    /// A row of NEW-ORDER.
    pub fn new_order(&mut self, (w_id, d_id, o_id): OrderKey) {
        let facts = self.districts.entry((w_id, d_id)).or_default();
        facts.open_least = if facts.open_count == 0 { o_id } else { facts.open_least.min(o_id) };
        facts.open_greatest = facts.open_greatest.max(o_id);
        facts.open_count += 1;
        facts.order(o_id).open = true;
    }

    /// A row of ORDER.
    pub fn order(&mut self, (w_id, d_id, o_id): OrderKey, (entry, carrier): &Order) {
        let facts = self.districts.entry((w_id, d_id)).or_default().order(o_id);
        facts.exists = true;
        facts.carrier_id = carrier.carrier_id;
        facts.ol_cnt = entry.ol_cnt;
        facts.c_id = entry.c_id;
    }

    /// A row of ORDER-LINE.
    pub fn order_line(&mut self, (w_id, d_id, o_id, _): OrderLineKey, row: &OrderLine) {
        let facts = self.districts.entry((w_id, d_id)).or_default().order(o_id);
        facts.lines += 1;
        if row.delivery_ms.get() != 0 {
            facts.lines_delivered += 1;
            facts.delivered_cents += row.amount_cents.get();
        }
        // The population has as many orders as customers, and has taken nothing for them.
        if o_id > self.scale.customers {
            let taken = &mut self.stocks.entry((row.supply_w_id, row.i_id)).or_default().by_lines;
            taken.pieces = taken.pieces.wrapping_add(u32::from(row.quantity));
            taken.lines = taken.lines.wrapping_add(1);
            taken.remote = taken.remote.wrapping_add(u32::from(row.supply_w_id != w_id));
        }
    }

    /// A row of STOCK.
    pub fn stock(&mut self, key: StockKey, level: &StockLevel) {
        let &StockLevel { ytd, order_cnt, remote_cnt, .. } = level;
        self.stocks.entry(key).or_default().row =
            Some(Taken { pieces: ytd, lines: order_cnt, remote: remote_cnt });
    }

    /// What has come since the population; less than nothing counts as nothing.
    pub fn growth(&self) -> Growth {
        let Scale { warehouses, customers, .. } = self.scale;
        let before = u64::from(warehouses) * u64::from(DISTRICTS) * u64::from(customers);
        let orders =
            |district: &DistrictFacts| district.orders().filter(|(_, order)| order.exists).count() as u64;
        Growth {
            orders: self.districts.values().map(orders).sum::<u64>().saturating_sub(before),
            payments: self.history_rows.saturating_sub(before),
            deliveries: self.districts.values().map(|district| district.deliveries).sum(),
        }
    }

    /// The twelve conditions, or those of them that can hold, in the standard's order, and the one of STOCK.
    pub fn finish(mut self) -> Vec<Finding> {
        let mut found: [Violations; 12] = Default::default();
        self.add_deliveries_to_customers();
        self.warehouses(&mut found);
        self.districts(&mut found);
        self.customers(&mut found);
        let answer = |(index, violations): (usize, Violations)| Finding {
            number: index as u8 + 1,
            wording: WORDINGS[index],
            violated: (violations.count > 0).then_some((violations.count, violations.first)),
        };
        let stock = Finding {
            number: 0,
            wording: "S_YTD, S_ORDER_CNT and S_REMOTE_CNT are what order lines took from the stock",
            violated: self.stocks(),
        };
        let numbers_are_lost = self.order_numbers == OrderNumbers::Sequence;
        let can_hold = |finding: &Finding| !(numbers_are_lost && matches!(finding.number, 2 | 3));
        found.into_iter().enumerate().map(answer).filter(can_hold).chain([stock]).collect()
    }

    fn stocks(&self) -> Option<(u64, String)> {
        let bad = self.stocks.iter().filter(|(_, facts)| facts.row != Some(facts.by_lines));
        let count = bad.clone().count() as u64;
        let (&(w_id, i_id), facts) = bad.min_by_key(|&(key, _)| *key)?;
        let words = |taken: Taken| {
            format!("{} pieces in {} lines, {} remote", taken.pieces, taken.lines, taken.remote)
        };
        let row = facts.row.map_or("no row".to_owned(), words);
        Some((count, format!("item {i_id} of warehouse {w_id}: {row} against {}", words(facts.by_lines))))
    }

    fn add_deliveries_to_customers(&mut self) {
        for (&(w_id, d_id), district) in &self.districts {
            for (_, order) in district.orders() {
                if order.delivered_cents != 0 {
                    self.customers.entry((w_id, d_id, order.c_id)).or_default().delivered_cents +=
                        order.delivered_cents;
                }
            }
        }
    }

    fn warehouses(&self, found: &mut [Violations; 12]) {
        let [first, .., eighth, _, _, _, _] = found;
        for w_id in self.scale.warehouse_ids() {
            first
                .check(self.warehouses.contains_key(&w_id), || format!("warehouse {w_id}, which is missing"));
        }
        for (w_id, facts) in &self.warehouses {
            let ytd = facts.ytd_cents;
            first.check(ytd == Some(facts.districts_ytd_cents), || {
                format!("warehouse {w_id}: {} against {}", money(ytd), money(Some(facts.districts_ytd_cents)))
            });
            eighth.check(ytd == Some(facts.paid_cents), || {
                format!("warehouse {w_id}: {} against {}", money(ytd), money(Some(facts.paid_cents)))
            });
        }
    }

    fn districts(&self, found: &mut [Violations; 12]) {
        let [_, c2, c3, c4, c5, c6, c7, _, c9, _, c11, _] = found;
        for (&(w_id, d_id), facts) in &self.districts {
            let here = || format!("district {d_id} of warehouse {w_id}");
            let next = facts.row.map(|(next_o_id, _)| u64::from(next_o_id));
            let (mut orders, mut greatest, mut ol_cnts, mut lines) = (0u64, 0, 0u64, 0u64);
            for (o_id, order) in facts.orders() {
                let this = || format!("order {o_id} of {}", here());
                orders += u64::from(order.exists);
                if order.exists {
                    greatest = greatest.max(o_id);
                }
                ol_cnts += u64::from(order.ol_cnt);
                lines += u64::from(order.lines);
                let undelivered = order.exists && order.carrier_id == 0;
                c5.check(order.open == undelivered, || {
                    format!("{}: carrier {}, open: {}", this(), order.carrier_id, order.open)
                });
                c6.check(order.lines == u32::from(order.ol_cnt), || {
                    format!("{}: {} against {} lines", this(), order.ol_cnt, order.lines)
                });
                let lines_due = if undelivered { 0 } else { order.lines };
                c7.check(order.lines_delivered == lines_due, || {
                    format!("{}: {} of {} lines delivered", this(), order.lines_delivered, order.lines)
                });
            }
            let open_greatest = (facts.open_count > 0).then_some(u64::from(facts.open_greatest));
            c2.check(
                next == Some(u64::from(greatest) + 1)
                    && open_greatest.is_none_or(|o_id| Some(o_id + 1) == next),
                || {
                    let open = open_greatest.map_or("none".to_owned(), |o_id| o_id.to_string());
                    let next = next.map_or("none".to_owned(), |next| next.to_string());
                    format!("{}: next {next}, greatest order {greatest}, greatest open {open}", here())
                },
            );
            let span = if facts.open_count == 0 { 0 } else { facts.open_greatest - facts.open_least + 1 };
            c3.check(u64::from(span) == facts.open_count, || {
                format!(
                    "{}: {} rows between {} and {}",
                    here(),
                    facts.open_count,
                    facts.open_least,
                    facts.open_greatest
                )
            });
            c4.check(ol_cnts == lines, || format!("{}: {ol_cnts} against {lines}", here()));
            let ytd = facts.row.map(|(_, ytd_cents)| ytd_cents);
            c9.check(ytd == Some(facts.paid_cents), || {
                format!("{}: {} against {}", here(), money(ytd), money(Some(facts.paid_cents)))
            });
            let due = u64::from(self.scale.delivered()) + facts.deliveries;
            c11.check(orders == facts.open_count + due, || {
                format!("{}: {orders} orders, {} new orders, {due} delivered", here(), facts.open_count)
            });
        }
    }

    fn customers(&self, found: &mut [Violations; 12]) {
        let [.., c10, _, c12] = found;
        // In the keys' order, so that the first violation is the same one every time.
        let violated = |facts: &CustomerFacts| {
            let delivered = Some(facts.delivered_cents);
            let tenth =
                facts.row.map(|(balance, _)| balance) == delivered.map(|cents| cents - facts.paid_cents);
            let twelfth = facts.row.map(|(balance, ytd)| balance + ytd) == delivered;
            (!tenth, !twelfth)
        };
        let mut bad: Vec<_> =
            self.customers.iter().filter(|(_, facts)| violated(facts) != (false, false)).collect();
        bad.sort_unstable_by_key(|&(key, _)| *key);
        for ((w_id, d_id, c_id), facts) in bad {
            let (tenth, twelfth) = violated(facts);
            let words = || {
                let (balance, ytd) = facts.row.unzip();
                format!(
                    "customer {c_id} of district {d_id} of warehouse {w_id}: balance {}, paid in all {}, \
                     by HISTORY {}, delivered {}",
                    money(balance),
                    money(ytd),
                    money(Some(facts.paid_cents)),
                    money(Some(facts.delivered_cents))
                )
            };
            c10.check(!tenth, words);
            c12.check(!twelfth, words);
        }
    }
}

/// An amount in words; a row that is not there has none.
fn money(cents: Option<i64>) -> String {
    match cents {
        Some(cents) => {
            let sign = if cents < 0 { "-" } else { "" };
            let cents = cents.unsigned_abs();
            format!("{sign}{}.{:02}", cents / 100, cents % 100)
        }
        None => "no row".to_owned(),
    }
}
