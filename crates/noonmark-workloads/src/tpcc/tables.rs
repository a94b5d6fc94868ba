//! The nine tables in a store: their handles, their two secondary indexes, and the loading of the population.
//!
//! Which index a table has follows from how it is reached. WAREHOUSE, DISTRICT, CUSTOMER, ITEM and STOCK are
//! reached by key only; theirs may be chosen ([`Options::points`](super::Options)). ORDER, NEW-ORDER, ORDER-LINE
//! and HISTORY are ordered: by ranges the oldest new order, the lines of orders and (after a run) everything is
//! found. Two secondary indexes, kept by the store, each of one column group that no transaction changes:
//!
//! ```text
//! customers by name     (w, d, C_LAST, C_FIRST)  ->  (w, d, c)    Payment, Order-Status
//! orders by customer    (w, d, c, o)             ->  (w, d, o)    Order-Status
//! ```
//!
//! What it does not do: it makes rows but knows nothing of what is in them; see
//! [`population`](super::population).

use std::ops::ControlFlow;
use std::sync::Arc;

use super::population::{Population, Scale, district_ids};
use super::schema::*;
use super::{Options, OrderNumbers};
use crate::store::{
    Failure, Granularity, Index, IndexKind, Scan, Scope, Sequence, Session, Store, Table, TableSpec,
    TxnResult,
};
use crate::workload::{RunError, Share};

/// The key of the customers by name: `C_W_ID`, `C_D_ID`, `C_LAST`, `C_FIRST`.
pub type NameKey = (u16, u8, [u8; 16], [u8; 16]);
/// The key of the orders by customer: `O_W_ID`, `O_D_ID`, `O_C_ID`, `O_ID`.
pub type OrderByCustomerKey = (u16, u8, u32, u32);

/// How many rows one transaction of the loading inserts: enough that a transaction's own cost does not count,
/// few enough that its write set stays in the cache.
const ROWS_PER_LOAD: usize = 64;

/// The handles of all tables, groups and indexes in one store. Made once; cloned for each worker.
#[derive(Clone)]
pub struct Tables<S: Store> {
    /// WAREHOUSE.
    pub warehouse: S::Table<WarehouseKey, Warehouse>,
    /// Its columns that are read.
    pub warehouse_info: S::Group<WarehouseKey, Warehouse, 0>,
    /// Its year-to-date total.
    pub warehouse_ytd: S::Group<WarehouseKey, Warehouse, 1>,
    /// DISTRICT.
    pub district: S::Table<DistrictKey, District>,
    /// Its name and address.
    pub district_info: S::Group<DistrictKey, District, 0>,
    /// Its order number and tax.
    pub district_orders: S::Group<DistrictKey, District, 1>,
    /// Its year-to-date total.
    pub district_ytd: S::Group<DistrictKey, District, 2>,
    /// CUSTOMER.
    pub customer: S::Table<CustomerKey, Customer>,
    /// Who the customer is.
    pub customer_info: S::Group<CustomerKey, Customer, 0>,
    /// What the customer owes and has done.
    pub customer_account: S::Group<CustomerKey, Customer, 1>,
    /// What is noted of payments by bad credit.
    pub customer_data: S::Group<CustomerKey, Customer, 2>,
    /// Customers by name.
    pub customer_by_name: S::Index<NameKey, CustomerKey, Customer>,
    /// HISTORY.
    pub history: S::Table<HistoryKey, History>,
    /// NEW-ORDER.
    pub new_order: S::Table<OrderKey, NewOrder>,
    /// ORDER.
    pub order: S::Table<OrderKey, Order>,
    /// What was ordered.
    pub order_entry: S::Group<OrderKey, Order, 0>,
    /// Who delivers it.
    pub order_carrier: S::Group<OrderKey, Order, 1>,
    /// Orders by customer.
    pub order_by_customer: S::Index<OrderByCustomerKey, OrderKey, Order>,
    /// ORDER-LINE.
    pub order_line: S::Table<OrderLineKey, OrderLine>,
    /// ITEM.
    pub item: S::Table<ItemKey, Item>,
    /// STOCK.
    pub stock: S::Table<StockKey, Stock>,
    /// What New-Order changes of it.
    pub stock_level: S::Group<StockKey, Stock, 0>,
    /// What is only read of it.
    pub stock_info: S::Group<StockKey, Stock, 1>,
    /// Where order numbers are drawn from, district by district, if not from the districts' rows.
    order_numbers: Option<Arc<[Sequence]>>,
    /// What each of the transactions touches.
    pub(super) scopes: Scopes<S>,
}

/// What each of the transactions touches.
#[derive(Clone)]
pub(super) struct Scopes<S: Store> {
    pub(super) new_order: S::Scope,
    pub(super) payment: S::Scope,
    pub(super) order_status: S::Scope,
    pub(super) delivery: S::Scope,
    pub(super) stock_level: S::Scope,
    /// All tables, read.
    pub(super) audit: S::Scope,
    /// All tables, changed.
    pub(super) load: S::Scope,
}

impl<S: Store> Tables<S> {
    /// Makes the tables in a store that has none of their names yet.
    pub fn create(store: &S, options: &Options) -> Result<Self, RunError> {
        let Scale { warehouses, customers, items } = options.scale;
        let (warehouses, customers, items) = (u64::from(warehouses), u64::from(customers), u64::from(items));
        let districts = warehouses * u64::from(DISTRICTS);
        let spec = |name: &str, index, granularity, rows| {
            TableSpec::new(name).index(index).granularity(granularity).expected_rows(rows)
        };
        let points = options.points;
        // These grow for as long as orders come, so that nobody knows how many rows they will have.
        let ordered = |name: &str| spec(name, IndexKind::Ordered, Granularity::Coarse, 0);
        let (of_warehouse, of_others) = match options.split {
            Split::Coarse => (Granularity::Coarse, Granularity::Coarse),
            Split::Warehouse => (Granularity::Fine, Granularity::Coarse),
            Split::Paper => (Granularity::Coarse, Granularity::Fine),
            Split::Fine => (Granularity::Fine, Granularity::Fine),
            Split::Itself => (Granularity::Splitting, Granularity::Splitting),
        };

        // Few rows, of which most transactions read what others do not write.
        let warehouse = spec("warehouse", points, of_warehouse, warehouses).apart(options.apart);
        let warehouse = store.table(&warehouse)?;
        let district = store.table(&spec("district", points, of_others, districts).apart(options.apart))?;
        let customer = store.table(&spec("customer", points, of_others, districts * customers))?;
        let history = store.table(&ordered("history"))?;
        let new_order = store.table(&ordered("new_order"))?;
        let order = store.table(&ordered("order"))?;
        let order_line = store.table(&ordered("order_line"))?;
        let item = store.table(&spec("item", points, Granularity::Coarse, items))?;
        let stock = store.table(&spec("stock", points, Granularity::Coarse, warehouses * items))?;
        let customer_by_name = store.group_index::<_, _, _, 0>(&customer, "customer_by_name", name_key)?;
        let order_by_customer =
            store.group_index::<_, _, _, 0>(&order, "order_by_customer", order_by_customer_key)?;

        let scopes = Scopes {
            new_order: store
                .scope()
                .reads(&warehouse)
                .writes(&district)
                .reads(&customer)
                .writes(&new_order)
                .writes(&order)
                .writes(&order_line)
                .reads(&item)
                .writes(&stock),
            payment: store.scope().writes(&warehouse).writes(&district).writes(&customer).writes(&history),
            order_status: store.scope().reads(&customer).reads(&order).reads(&order_line),
            delivery: store.scope().writes(&customer).writes(&new_order).writes(&order).writes(&order_line),
            stock_level: store.scope().reads(&district).reads(&order_line).reads(&stock),
            audit: store
                .scope()
                .reads(&warehouse)
                .reads(&district)
                .reads(&customer)
                .reads(&history)
                .reads(&new_order)
                .reads(&order)
                .reads(&order_line)
                .reads(&stock),
            load: store
                .scope()
                .writes(&warehouse)
                .writes(&district)
                .writes(&customer)
                .writes(&history)
                .writes(&new_order)
                .writes(&order)
                .writes(&order_line)
                .writes(&item)
                .writes(&stock),
        };
        let first = u64::from(options.scale.customers) + 1;
        let sequences = || (0..districts).map(|district| Sequence::new(district, first)).collect();
        Ok(Tables {
            order_numbers: (options.order_numbers == OrderNumbers::Sequence).then(sequences),
            warehouse_info: store.group(&warehouse),
            warehouse_ytd: store.group(&warehouse),
            district_info: store.group(&district),
            district_orders: store.group(&district),
            district_ytd: store.group(&district),
            customer_info: store.group(&customer),
            customer_account: store.group(&customer),
            customer_data: store.group(&customer),
            order_entry: store.group(&order),
            order_carrier: store.group(&order),
            stock_level: store.group(&stock),
            stock_info: store.group(&stock),
            warehouse,
            district,
            customer,
            customer_by_name,
            history,
            new_order,
            order,
            order_by_customer,
            order_line,
            item,
            stock,
            scopes,
        })
    }

    /// Where the numbers of a district's orders are drawn from, if not from its row.
    pub(super) fn order_numbers(&self, w_id: u16, d_id: u8) -> Option<&Sequence> {
        let district = (usize::from(w_id) - 1) * usize::from(DISTRICTS) + usize::from(d_id) - 1;
        self.order_numbers.as_ref().and_then(|sequences| sequences.get(district))
    }

    /// The customer whom a last name means: of those of the district who bear it, in the order of their first
    /// names, the one in the middle, rounded up [TPC-C 2.5.2.2]. `found` is room to work in.
    pub(super) fn customer_named(
        &self,
        tx: &mut S::Txn<'_>,
        (w_id, d_id): DistrictKey,
        last: [u8; 16],
        found: &mut Vec<u32>,
    ) -> TxnResult<S, u32> {
        found.clear();
        let bounds = (w_id, d_id, last, [0; 16])..=(w_id, d_id, last, [u8::MAX; 16]);
        self.customer_by_name.range(tx, bounds, Scan::ALL, |_, (_, _, c_id)| {
            found.push(c_id);
            ControlFlow::Continue(())
        })?;
        // One-based, the middle of n is n / 2 rounded up: zero-based (n - 1) / 2. Nobody of that name: none.
        let middle = found.len().checked_sub(1).map(|last| last / 2);
        middle.and_then(|at| found.get(at).copied()).ok_or(Failure::Rollback)
    }

    /// Loads a share of the population; tells `loaded` of rows that have come.
    pub fn load(
        &self,
        session: &mut S::Session,
        population: &Population,
        share: Share,
        loaded: &dyn Fn(u64),
    ) -> Result<(), RunError> {
        let mut loader = Loader { tables: self, session, population, loaded };
        // Dealt round, not cut in two: chunks of one kind are equally long, and each kind is to be shared.
        for (chunk, dealt_to) in Chunk::all(population.scale()).iter().zip((0..share.count).cycle()) {
            if dealt_to == share.index {
                loader.load(chunk)?;
            }
        }
        Ok(())
    }
}

fn name_key(&(w_id, d_id, _): &CustomerKey, info: &CustomerInfo) -> NameKey {
    (w_id, d_id, info.last, info.first)
}

fn order_by_customer_key(&(w_id, d_id, o_id): &OrderKey, order: &OrderEntry) -> OrderByCustomerKey {
    (w_id, d_id, order.c_id, o_id)
}

/// A part of the population that one thread loads.
enum Chunk {
    Items { first: u32, last: u32 },
    Warehouse(u16),
    Stock { w_id: u16, first: u32, last: u32 },
    Customers { w_id: u16, d_id: u8 },
    Orders { w_id: u16, d_id: u8 },
}

impl Chunk {
    fn all(scale: Scale) -> Vec<Chunk> {
        const ITEMS: u32 = 10_000;
        let parts =
            || (1..=scale.items).step_by(ITEMS as usize).map(|i| (i, (i + ITEMS - 1).min(scale.items)));
        let mut chunks: Vec<Chunk> = parts().map(|(first, last)| Chunk::Items { first, last }).collect();
        for w_id in scale.warehouse_ids() {
            chunks.push(Chunk::Warehouse(w_id));
            chunks.extend(parts().map(|(first, last)| Chunk::Stock { w_id, first, last }));
            chunks.extend(district_ids().map(|d_id| Chunk::Customers { w_id, d_id }));
            chunks.extend(district_ids().map(|d_id| Chunk::Orders { w_id, d_id }));
        }
        chunks
    }
}

/// Loads chunks with one session.
struct Loader<'a, S: Store> {
    tables: &'a Tables<S>,
    session: &'a mut S::Session,
    population: &'a Population,
    loaded: &'a dyn Fn(u64),
}

impl<S: Store> Loader<'_, S> {
    /// Loads a chunk.
    fn load(&mut self, chunk: &Chunk) -> Result<(), RunError> {
        let (tables, population) = (self.tables, self.population);
        let customers = population.scale().customers;
        match *chunk {
            Chunk::Items { first, last } => {
                self.rows(&tables.item, (first..=last).map(|i_id| (i_id, population.item(i_id))))
            }
            Chunk::Warehouse(w_id) => {
                self.rows(&tables.warehouse, std::iter::once((w_id, population.warehouse(w_id))))
            }
            Chunk::Stock { w_id, first, last } => {
                let keys = (first..=last).map(|i_id| (w_id, i_id));
                self.rows(&tables.stock, keys.map(|key| (key, population.stock(key))))
            }
            Chunk::Customers { w_id, d_id } => {
                let district = (w_id, d_id);
                let keys = (1..=customers).map(|c_id| (w_id, d_id, c_id));
                self.rows(&tables.district, std::iter::once((district, population.district(district))))?;
                self.rows(&tables.customer, keys.clone().map(|key| (key, population.customer(key))))?;
                self.rows(&tables.history, keys.map(|key| population.history(key)))
            }
            Chunk::Orders { w_id, d_id } => {
                let by = population.order_customers((w_id, d_id));
                let orders = by.iter().zip(1..).map(|(&c_id, o_id)| {
                    let key = (w_id, d_id, o_id);
                    (key, population.order(key, c_id))
                });
                let open = (1..=customers).filter(|&o_id| population.is_open(o_id));
                let open = open.map(|o_id| ((w_id, d_id, o_id), NewOrder { open: 1 }));
                let lines = orders.clone().flat_map(|((w_id, d_id, o_id), (order, _))| {
                    (1..=order.ol_cnt).map(move |number| {
                        let key = (w_id, d_id, o_id, number);
                        (key, population.order_line(key))
                    })
                });
                self.rows(&tables.order, orders.clone())?;
                self.rows(&tables.new_order, open)?;
                self.rows(&tables.order_line, lines)
            }
        }
    }

    /// Inserts rows, some in each transaction.
    fn rows<T: Table<S>>(
        &mut self,
        table: &T,
        rows: impl Iterator<Item = (T::Key, T::Value)>,
    ) -> Result<(), RunError> {
        let mut rows = rows.peekable();
        let mut batch = Vec::with_capacity(ROWS_PER_LOAD);
        while rows.peek().is_some() {
            batch.clear();
            batch.extend(rows.by_ref().take(ROWS_PER_LOAD));
            let inserted = self.session.run(&self.tables.scopes.load, |tx| {
                for (key, row) in &batch {
                    if !table.insert(tx, key, row.clone())? {
                        return Err(Failure::Rollback);
                    }
                }
                Ok(())
            });
            match inserted {
                Ok(()) => (self.loaded)(batch.len() as u64),
                Err(Failure::Rollback) => {
                    return Err(RunError::transaction("loading TPC-C", "there are rows already"));
                }
                Err(Failure::Abort(abort)) => return Err(RunError::transaction("loading TPC-C", abort)),
            }
        }
        Ok(())
    }
}
