//! The initial population of [TPC-C 4.3.3.1]: each row as a function of a seed and its key.
//!
//! Nothing here stores anything. Since a row depends on the seed and its own key alone, rows can be made in any
//! order and by many threads, and one seed always gives one database, to the bit.
//!
//! A [`Scale`] below the standard's shrinks tables for tests. The rules that depend on a table's size shrink
//! with it: `W_YTD` and `D_YTD` stay the sum of the first payments, three orders of ten stay open, and there
//! are never more last names than customers in a district.
//!
//! What it does not do: the standard's column *dates* are not those of the wall clock (see [`EPOCH_MS`]).

use super::dice::{Constants, Dice, last_name};
use super::schema::*;
use crate::workload::RunError;

/// The date of the population, in milliseconds since 1970: 2010-02-11, the day of the standard's revision 5.11.
/// Nothing is computed from dates, and a fixed one lets one seed give one database.
pub const EPOCH_MS: i64 = 1_265_846_400_000;

/// What each customer has paid before the run [TPC-C 4.3.3.1].
pub const FIRST_PAYMENT_CENTS: i64 = 10_00;

/// How large the database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses, each of ten districts.
    pub warehouses: u16,
    /// Customers in a district, and as many orders [TPC-C 4.3.3.1: 3,000].
    pub customers: u32,
    /// Items, and as many stocks in a warehouse [TPC-C 4.3.3.1: 100,000].
    pub items: u32,
}

impl Scale {
    /// The standard's, for so many warehouses.
    pub const fn standard(warehouses: u16) -> Scale {
        Scale { warehouses, customers: 3000, items: 100_000 }
    }

    /// The same scale, if a database of it can be made and run.
    pub fn checked(self) -> Result<Scale, RunError> {
        let at_least = |least: u32, what: &str, given: u32| {
            if given >= least {
                return Ok(());
            }
            Err(RunError::Setting(format!("TPC-C needs at least {least} {what}, not {given}")))
        };
        at_least(1, "warehouse", self.warehouses.into())?;
        at_least(10, "customers in a district", self.customers)?;
        at_least(100, "items", self.items)?;
        Ok(self)
    }

    /// The last order of the population that is delivered; those above it are open (2,100 of 3,000).
    pub const fn delivered(self) -> u32 {
        self.customers / 10 * 7
    }

    /// How many last names there are: the standard's thousand, or fewer with fewer customers.
    pub const fn last_names(self) -> u32 {
        if self.customers < 1000 { self.customers } else { 1000 }
    }

    /// How many rows there are before the run; order lines at their mean of ten an order.
    pub fn rows_about(self) -> u64 {
        self.tables_about().iter().map(|&(rows, _)| rows).sum()
    }

    /// About how many bytes they take: rows, keys, headers and index entries.
    pub fn bytes_about(self) -> u64 {
        /// Record header, timestamps, key, and its share of the index: what a row takes beside its columns.
        const BESIDE: u64 = 96;
        let customers = u64::from(self.warehouses) * u64::from(DISTRICTS) * u64::from(self.customers);
        let by_name = (customers, size_of::<super::tables::NameKey>());
        let by_customer = (customers, size_of::<super::tables::OrderByCustomerKey>());
        let all = self.tables_about().into_iter().chain([by_name, by_customer]);
        all.map(|(rows, row_bytes)| rows * (row_bytes as u64 + BESIDE)).sum()
    }

    /// For each table, how many rows it has and the bytes of one.
    fn tables_about(self) -> [(u64, usize); 9] {
        let (warehouses, items) = (u64::from(self.warehouses), u64::from(self.items));
        let districts = warehouses * u64::from(DISTRICTS);
        let customers = districts * u64::from(self.customers);
        let open = districts * u64::from(self.customers - self.delivered());
        [
            (warehouses, size_of::<Warehouse>()),
            (districts, size_of::<District>()),
            (customers, size_of::<Customer>()),
            (customers, size_of::<History>()),
            (open, size_of::<NewOrder>()),
            (customers, size_of::<Order>()),
            (customers * 10, size_of::<OrderLine>()),
            (items, size_of::<Item>()),
            (warehouses * items, size_of::<Stock>()),
        ]
    }

    /// All warehouses.
    pub fn warehouse_ids(self) -> std::ops::RangeInclusive<u16> {
        1..=self.warehouses
    }
}

/// All districts of a warehouse.
pub fn district_ids() -> std::ops::RangeInclusive<u8> {
    1..=DISTRICTS
}

/// Which kind of row a generator is for.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Kind {
    Item = 1,
    Warehouse,
    District,
    Customer,
    History,
    Permutation,
    Order,
    OrderLine,
    Stock,
}

/// The rows of the initial database.
#[derive(Clone, Debug)]
pub struct Population {
    scale: Scale,
    seed: u64,
    constants: Constants,
}

impl Population {
    /// The population of a scale and a seed.
    pub fn new(scale: Scale, seed: u64) -> Self {
        Population { scale, seed, constants: Constants::of(seed) }
    }

    /// Its scale.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    fn dice(&self, kind: Kind, key: u64) -> Dice {
        Dice::at(self.seed, kind as u64, key)
    }

    /// A row of ITEM, `i_id` from 1.
    pub fn item(&self, i_id: ItemKey) -> Item {
        let mut dice = self.dice(Kind::Item, u64::from(i_id));
        Item {
            im_id: dice.uniform(1, 10_000),
            name: dice.a_string(14, 24),
            price_cents: dice.uniform(1_00, 100_00),
            data: dice.data_string(26, 50),
        }
    }

    /// A row of WAREHOUSE.
    pub fn warehouse(&self, w_id: WarehouseKey) -> Warehouse {
        let mut dice = self.dice(Kind::Warehouse, u64::from(w_id));
        let paid = i64::from(self.scale.customers) * i64::from(DISTRICTS) * FIRST_PAYMENT_CENTS;
        let info = WarehouseInfo {
            name: dice.a_string(6, 10),
            street_1: dice.a_string(10, 20),
            street_2: dice.a_string(10, 20),
            city: dice.a_string(10, 20),
            state: dice.a_string(2, 2),
            zip: dice.zip(),
            tax_e4: dice.uniform(0, 2000),
        };
        (info, WarehouseYtd { ytd_cents: paid })
    }

    /// A row of DISTRICT.
    pub fn district(&self, (w_id, d_id): DistrictKey) -> District {
        let mut dice = self.dice(Kind::District, place(w_id, d_id, 0));
        let info = DistrictInfo {
            name: dice.a_string(6, 10),
            street_1: dice.a_string(10, 20),
            street_2: dice.a_string(10, 20),
            city: dice.a_string(10, 20),
            state: dice.a_string(2, 2),
            zip: dice.zip(),
        };
        let orders = DistrictOrders { tax_e4: dice.uniform(0, 2000), next_o_id: self.scale.customers + 1 };
        (info, orders, DistrictYtd { ytd_cents: i64::from(self.scale.customers) * FIRST_PAYMENT_CENTS })
    }

    /// A row of CUSTOMER, `c_id` from 1. The first thousand bear the thousand last names, the others `NURand`'s.
    pub fn customer(&self, (w_id, d_id, c_id): CustomerKey) -> Customer {
        let mut dice = self.dice(Kind::Customer, place(w_id, d_id, c_id));
        let names = self.scale.last_names();
        let name = if c_id <= names {
            c_id - 1
        } else {
            dice.non_uniform(255, self.constants.last_load, 0, names - 1)
        };
        let info = CustomerInfo {
            first: dice.a_string(8, 16),
            middle: *b"OE",
            last: last_name(name),
            street_1: dice.a_string(10, 20),
            street_2: dice.a_string(10, 20),
            city: dice.a_string(10, 20),
            state: dice.a_string(2, 2),
            zip: dice.zip(),
            phone: dice.n_string(16, 16),
            since_ms: EPOCH_MS,
            credit: if dice.percent(10) { *b"BC" } else { *b"GC" },
            credit_lim_cents: 50_000_00,
            discount_e4: dice.uniform(0, 5000),
        };
        let account = CustomerAccount {
            balance_cents: -FIRST_PAYMENT_CENTS,
            ytd_payment_cents: FIRST_PAYMENT_CENTS,
            payment_cnt: 1,
            delivery_cnt: 0,
        };
        (info, account, CustomerData { data: dice.a_string(300, 500) })
    }

    /// The row of HISTORY of a customer's first payment, with its key.
    pub fn history(&self, (w_id, d_id, c_id): CustomerKey) -> (HistoryKey, History) {
        let mut dice = self.dice(Kind::History, place(w_id, d_id, c_id));
        let districts_before = (u32::from(w_id) - 1) * u32::from(DISTRICTS) + u32::from(d_id) - 1;
        let number = districts_before * self.scale.customers + c_id - 1;
        let row = History {
            c_id,
            c_d_id: d_id,
            c_w_id: w_id,
            d_id,
            w_id,
            date_ms: EPOCH_MS,
            amount_cents: FIRST_PAYMENT_CENTS,
            data: dice.a_string(12, 24),
        };
        ((0, number), row)
    }

    /// A row of STOCK, `i_id` from 1.
    pub fn stock(&self, (w_id, i_id): StockKey) -> Stock {
        let mut dice = self.dice(Kind::Stock, place(w_id, 0, i_id));
        let level =
            StockLevel { quantity: dice.uniform(10, 100) as i32, ytd: 0, order_cnt: 0, remote_cnt: 0 };
        let dist = std::array::from_fn(|_| dice.a_string(24, 24));
        (level, StockInfo { dist, data: dice.data_string(26, 50) })
    }

    /// Who made the orders of a district: the customer of order `o_id` at `o_id - 1`, each customer once.
    pub fn order_customers(&self, (w_id, d_id): DistrictKey) -> Vec<u32> {
        let mut customers: Vec<u32> = (1..=self.scale.customers).collect();
        self.dice(Kind::Permutation, place(w_id, d_id, 0)).shuffle(&mut customers);
        customers
    }

    /// A row of ORDER, `o_id` from 1, made by customer `c_id`.
    pub fn order(&self, (w_id, d_id, o_id): OrderKey, c_id: u32) -> Order {
        let mut dice = self.dice(Kind::Order, place(w_id, d_id, o_id));
        let carrier_id = dice.uniform(1, 10) as u8;
        let entry = OrderEntry {
            c_id,
            entry_ms: EPOCH_MS,
            ol_cnt: dice.uniform(5, LINES_MAX as u32) as u8,
            all_local: true,
        };
        (entry, OrderCarrier { carrier_id: if self.is_open(o_id) { 0 } else { carrier_id } })
    }

    /// Whether an order of the population has a row in NEW-ORDER.
    pub fn is_open(&self, o_id: u32) -> bool {
        o_id > self.scale.delivered()
    }

    /// A row of ORDER-LINE, `ol_number` from 1.
    pub fn order_line(&self, (w_id, d_id, o_id, ol_number): OrderLineKey) -> OrderLine {
        let key = (place(w_id, d_id, o_id) << 4) | u64::from(ol_number);
        let mut dice = self.dice(Kind::OrderLine, key);
        let open = self.is_open(o_id);
        let amount_cents = i64::from(dice.uniform(1, 9_999_99));
        OrderLine {
            i_id: dice.uniform(1, self.scale.items),
            supply_w_id: w_id,
            delivery_ms: Narrow::new(if open { 0 } else { EPOCH_MS }),
            quantity: 5,
            amount_cents: Narrow::new(if open { amount_cents } else { 0 }),
            dist_info: dice.a_string(24, 24),
        }
    }
}

/// One number for a place within a warehouse: 16 bits of warehouse, 4 of district, 32 of what is in it.
fn place(w_id: u16, d_id: u8, number: u32) -> u64 {
    (u64::from(w_id) << 36) | (u64::from(d_id) << 32) | u64::from(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Scale = Scale { warehouses: 2, customers: 30, items: 100 };

    fn population() -> Population {
        Population::new(Scale::standard(1), 42)
    }

    #[test]
    fn one_seed_gives_one_database_and_another_seed_another() {
        let (one, same, other) = (population(), population(), Population::new(Scale::standard(1), 43));
        assert_eq!(one.customer((1, 3, 77)), same.customer((1, 3, 77)));
        assert_eq!(one.stock((1, 99_999)), same.stock((1, 99_999)));
        assert_ne!(one.stock((1, 99_999)), other.stock((1, 99_999)));
        assert_ne!(one.order_customers((1, 1)), one.order_customers((1, 2)));
    }

    #[test]
    fn tpcc_4_3_3_1_a_tenth_of_items_and_stocks_is_original() {
        let population = population();
        let items = (1..=100_000).filter(|&i| is_original(&population.item(i).data)).count();
        let stocks = (1..=100_000).filter(|&i| is_original(&population.stock((1, i)).1.data)).count();
        // 10,000 expected, deviation 95.
        assert!((9_600..10_400).contains(&items), "{items}");
        assert!((9_600..10_400).contains(&stocks), "{stocks}");
    }

    #[test]
    fn tpcc_4_3_3_1_columns_stay_within_their_ranges() {
        let population = population();
        for i in 1..2000 {
            let item = population.item(i);
            assert!((1..=10_000).contains(&item.im_id) && (1_00..=100_00).contains(&item.price_cents));
            assert!(text(&item.name).len() >= 14 && text(&item.data).len() >= 26);
            let (level, info) = population.stock((1, i));
            assert!((10..=100).contains(&level.quantity) && level.ytd == 0);
            assert!(info.dist.iter().all(|dist| text(dist).len() == 24));
        }
        let (warehouse, w_ytd) = population.warehouse(1);
        let (_, district, d_ytd) = population.district((1, 10));
        assert!(warehouse.tax_e4 <= 2000 && district.tax_e4 <= 2000);
        assert_eq!((w_ytd.ytd_cents, d_ytd.ytd_cents), (300_000_00, 30_000_00));
        assert_eq!(district.next_o_id, 3001);
    }

    #[test]
    fn tpcc_4_3_3_1_customers_bear_every_last_name_and_a_tenth_has_bad_credit() {
        let population = population();
        let customers: Vec<Customer> = (1..=3000).map(|c| population.customer((1, 1, c))).collect();
        for (number, (info, ..)) in customers.iter().take(1000).enumerate() {
            assert_eq!(info.last, last_name(number as u32));
        }
        let bad = customers.iter().filter(|(info, ..)| info.credit == *b"BC").count();
        assert!((230..370).contains(&bad), "{bad}: 300 expected, deviation 16");
        for (info, account, data) in &customers {
            assert!(info.discount_e4 <= 5000 && info.credit_lim_cents == 50_000_00 && info.middle == *b"OE");
            assert_eq!((account.balance_cents, account.ytd_payment_cents), (-10_00, 10_00));
            assert!(text(&data.data).len() >= 300);
        }
        // The other two thousand are spread by NURand: over more names than a few, and not evenly.
        let mut seconds = vec![0; 1000];
        for (info, ..) in &customers[1000..] {
            let name = (0..1000).find(|&n| last_name(n) == info.last).expect("one of the thousand");
            seconds[name as usize] += 1;
        }
        assert!(*seconds.iter().max().expect("not empty") >= 8);
        assert!(seconds.iter().filter(|&&n| n > 0).count() > 500);
    }

    #[test]
    fn tpcc_4_3_3_1_orders_are_made_by_a_permutation_of_the_customers() {
        let population = population();
        let mut customers = population.order_customers((1, 4));
        assert_ne!(customers, (1..=3000).collect::<Vec<_>>());
        customers.sort_unstable();
        assert_eq!(customers, (1..=3000).collect::<Vec<_>>());
    }

    #[test]
    fn tpcc_4_3_3_1_the_last_900_orders_are_open() {
        let population = population();
        let mut lines = 0;
        for o_id in 1..=3000 {
            let (order, OrderCarrier { carrier_id }) = population.order((1, 2, o_id), 5);
            let line = population.order_line((1, 2, o_id, 1));
            assert!((5..=15).contains(&order.ol_cnt));
            lines += u32::from(order.ol_cnt);
            if o_id < 2101 {
                assert!((1..=10).contains(&carrier_id));
                assert_eq!((line.amount_cents.get(), line.delivery_ms.get()), (0, order.entry_ms));
            } else {
                assert_eq!((carrier_id, line.delivery_ms.get()), (0, 0));
                assert!((1..=9_999_99).contains(&line.amount_cents.get()));
            }
        }
        assert!((29_000..31_000).contains(&lines), "{lines}");
    }

    #[test]
    fn first_payments_have_keys_of_their_own() {
        let population = Population::new(SMALL, 1);
        let mut keys = std::collections::BTreeSet::new();
        for w_id in SMALL.warehouse_ids() {
            for d_id in district_ids() {
                for c_id in 1..=SMALL.customers {
                    keys.insert(population.history((w_id, d_id, c_id)).0);
                }
            }
        }
        assert_eq!(keys.len(), 2 * 10 * 30);
        assert_eq!(keys.last(), Some(&(0, 599)));
    }

    #[test]
    fn tpcc_4_3_3_1_the_standard_has_its_rows() {
        let a_warehouse = 1 + 10 + 30_000 * 3 + 9_000 + 300_000 + 100_000;
        assert_eq!(Scale::standard(1).rows_about(), 100_000 + a_warehouse);
        assert_eq!(Scale::standard(8).rows_about(), 100_000 + 8 * a_warehouse);
        // Rows as large as the standard has them at least: 305 bytes of stock, 655 of customer, and so on.
        assert!(Scale::standard(1).bytes_about() > 100_000 * 305 + 30_000 * 655);
    }

    #[test]
    fn scales_that_cannot_be_are_refused() {
        assert!(SMALL.checked().is_ok());
        for bad in
            [Scale { warehouses: 0, ..SMALL }, Scale { customers: 9, ..SMALL }, Scale { items: 1, ..SMALL }]
        {
            assert!(bad.checked().is_err());
        }
        let refused = Scale { items: 1, ..SMALL }.checked();
        assert!(refused.is_err_and(|error| error.to_string() == "TPC-C needs at least 100 items, not 1"));
    }
}
