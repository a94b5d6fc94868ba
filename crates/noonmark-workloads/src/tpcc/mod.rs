//! TPC-C, revision 5.11: an order-entry business of warehouses, districts and customers, and the five
//! transactions of its terminals, over any [`Store`].
//!
//! Reading order: [`schema`] (tables, keys, column groups and which of them have timestamps of their own),
//! [`population`] (the initial rows), [`request`] (what terminals ask for), [`tables`] (handles in a store, and
//! loading), one file for each transaction, [`audit`] (the standard's consistency conditions).
//!
//! [`Tpcc`] is the [`Workload`] that the driver runs:
//!
//! ```
//! use noonmark_workloads::driver::{Length, Plan, drive};
//! use noonmark_workloads::mutex::MutexStore;
//! use noonmark_workloads::tpcc::{Options, Tpcc, population::Scale};
//!
//! let store = MutexStore::new();
//! let scale = Scale { warehouses: 1, customers: 30, items: 100 };
//! let tpcc = Tpcc::create(&store, Options { scale, ..Options::default() })?;
//! let plan = Plan {
//!     threads: 2,
//!     length: Length::transactions(500),
//!     warm_up_s: 0.0,
//!     seed: 1,
//!     requests: 100,
//!     count_allocations: false,
//! };
//! let measured = drive(&store, &tpcc, &plan, &mut |_| {})?;
//! assert_eq!(measured.committed + measured.user_rollbacks, 500);
//! assert!(measured.conditions.iter().all(|condition| condition.holds));
//! # Ok::<(), noonmark_workloads::workload::RunError>(())
//! ```
//!
//! Departures from the standard, all of them: no keying and think times and no terminals (workers ask as fast as
//! they are answered, each at home in one warehouse, its districts drawn evenly); deliveries are run at once
//! instead of queued; dates come with the requests instead of from the wall clock; nothing is made durable. So
//! figures from here are transactions a second, never tpmC.
//!
//! [Granularity §3.3] runs three of the five in the standard's proportion: [`Mix::Granularity`].
//!
//! What it does not do: measure. The driver has the clock; this counts only what a clock cannot tell.

#![allow(
    clippy::inconsistent_digit_grouping,
    reason = "cents stand apart from what they are the hundredth part of: 10_00 is ten dollars"
)]

pub mod audit;
mod check;
mod delivery;
pub mod dice;
mod new_order;
mod order_status;
mod payment;
pub mod population;
pub mod request;
pub mod schema;
mod stock_level;
pub mod tables;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use dice::{Constants, Dice};
use population::{Population, Scale};
use request::{Kind, Mix, Requests};
use schema::Split;
use tables::Tables;

pub use delivery::DeliveryAnswer;
pub use new_order::{LineAnswer, NewOrderAnswer};
pub use order_status::OrderStatusAnswer;
pub use payment::PaymentAnswer;
pub use stock_level::Met;
pub use worker::{RequestId, Tally, Worker};

use crate::report::OWN_LINES;
use crate::store::{IndexKind, Store, TxnResult};
use crate::workload::{Condition, RunError, Seat, Share, Workload};

/// How the year-to-date totals are raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Updates {
    /// Read, changed and written.
    Plain,
    /// By commit-time updates, without having been read.
    CommitTime,
}

/// How the total of each table is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Totals {
    /// `W_YTD`.
    pub warehouse: Updates,
    /// `D_YTD`.
    pub district: Updates,
}

impl From<Updates> for Totals {
    /// Both alike.
    fn from(updates: Updates) -> Self {
        Totals { warehouse: updates, district: updates }
    }
}

/// How Payment takes the rows that it changes: the warehouse's, the district's and the customer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Taking {
    /// By column groups: what is only read first, then what is changed. Rows whose groups have one timestamp are so read before they
    /// are asked for to be written.
    Groups,
    /// Each at once, to be written. [`Totals`] say nothing then.
    Rows,
}

/// Where New-Order has the number of its order from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderNumbers {
    /// From `D_NEXT_O_ID`, which it reads and raises [TPC-C 2.4.2.2].
    Column,
    /// From a [`Sequence`](crate::store::Sequence) of the district, before it begins: the district's row is only read. Numbers of orders that are
    /// rolled back are lost, so that conditions 2 and 3 of [TPC-C 3.3.2] cannot hold, and are not checked; and there
    /// is no Stock-Level, which finds the last orders by `D_NEXT_O_ID`.
    Sequence,
}

/// Which items are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Items {
    /// Some far more often than others, by `NURand` [TPC-C 2.4.1.5].
    NonUniform,
    /// Each as often as any other.
    Uniform,
}

/// Which warehouse a worker is at home in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Homes {
    /// The first worker in the first, the second in the second, and round again.
    InTurn,
    /// The first so many workers in the first, the next in the second: as many in each, as far as that goes.
    Blocks,
}

impl Homes {
    /// The home of a worker, of so many in all.
    fn of(self, worker: usize, workers: usize, warehouses: u16) -> u16 {
        let all = usize::from(warehouses);
        let home = match self {
            Homes::InTurn => worker % all,
            // With fewer workers than warehouses those in between have none.
            Homes::Blocks => (worker * all / workers.max(1)).min(all - 1),
        };
        home as u16 + 1
    }
}

/// How rows are reached whose keys are known together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// One after another.
    OneByOne,
    /// Together.
    MultiGet,
}

/// What a run is to be like.
#[derive(Clone, Debug)]
pub struct Options {
    /// How large the database is.
    pub scale: Scale,
    /// What decides every random draw.
    pub seed: u64,
    /// Which transactions are run.
    pub mix: Mix,
    /// Which rows have more than one timestamp.
    pub split: Split,
    /// Whether what has a timestamp of its own in a warehouse or a district lies on a line of its own. No paper says so.
    pub apart: bool,
    /// How the year-to-date totals are raised.
    pub totals: Totals,
    /// How Payment takes the rows that it changes.
    pub taking: Taking,
    /// Where order numbers come from.
    pub order_numbers: OrderNumbers,
    /// Which items are ordered.
    pub items: Items,
    /// Where workers are at home.
    pub homes: Homes,
    /// How rows are reached whose keys are known together.
    pub access: Access,
    /// The index of the tables that are reached by key only.
    pub points: IndexKind,
}

impl Default for Options {
    /// The full mix on one warehouse of the standard's size, split finely, with nothing special.
    fn default() -> Self {
        Options {
            scale: Scale::standard(1),
            seed: 1,
            mix: Mix::Full,
            split: Split::Fine,
            apart: false,
            totals: Updates::Plain.into(),
            taking: Taking::Groups,
            order_numbers: OrderNumbers::Column,
            items: Items::NonUniform,
            homes: Homes::InTurn,
            access: Access::OneByOne,
            points: IndexKind::Hash,
        }
    }
}

/// TPC-C in one store.
pub struct Tpcc<S: Store> {
    options: Options,
    population: Population,
    constants: Constants,
    tables: Tables<S>,
    /// Workers so far: each has a number of its own, which is the first part of its history keys.
    terminals: AtomicU32,
}

impl<S: Store> Tpcc<S> {
    /// Makes the tables, empty, in a store that has none of their names.
    pub fn create(store: &S, options: Options) -> Result<Self, RunError> {
        let scale = options.scale.checked()?;
        let stock_levels = options.mix.cards()[Kind::StockLevel as usize];
        if options.order_numbers == OrderNumbers::Sequence && stock_levels > 0 {
            let what = "Stock-Level finds orders by D_NEXT_O_ID: it cannot be in a mix whose order numbers are drawn \
                        from a sequence";
            return Err(RunError::Setting(what.into()));
        }
        let tables = Tables::create(store, &options)?;
        Ok(Tpcc {
            population: Population::new(scale, options.seed),
            constants: Constants::of(options.seed),
            tables,
            terminals: AtomicU32::new(0),
            options,
        })
    }

    /// What it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Its tables.
    pub fn tables(&self) -> &Tables<S> {
        &self.tables
    }

    /// The parameters of the run, for its report.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        let Options { scale, seed, mix, split, apart, .. } = &self.options;
        let mut parameters = BTreeMap::new();
        let mut put = |name: &str, value: String| parameters.insert(name.to_owned(), value);
        put("warehouses", scale.warehouses.to_string());
        if *scale != Scale::standard(scale.warehouses) {
            put("customers per district", scale.customers.to_string());
            put("items", scale.items.to_string());
        }
        put("seed", seed.to_string());
        put("mix", mix.to_string());
        put("timestamps", split.in_words().to_owned());
        if *apart {
            put(OWN_LINES, "groups of warehouses and districts".to_owned());
        }
        parameters
    }

    /// Runs one of the worker's requests, which may have been run before, and given up.
    ///
    /// # Errors
    /// As [`Workload::execute`].
    pub fn execute_request(
        &self,
        session: &mut S::Session,
        worker: &mut Worker,
        request: RequestId,
    ) -> TxnResult<S, ()> {
        worker.run(request, &self.tables, &self.options, session)
    }

    /// What every worker together has counted.
    fn total(workers: &[Worker]) -> Tally {
        workers.iter().fold(Tally::default(), |sum, worker| sum.plus(worker.tally()))
    }
}

impl<S: Store> Workload<S> for Tpcc<S> {
    type Worker = Worker;

    fn rows(&self) -> u64 {
        self.options.scale.rows_about()
    }

    fn load_bytes(&self) -> u64 {
        self.options.scale.bytes_about()
    }

    fn growth_bytes(&self) -> u64 {
        // Of a New-Order, which is about half of each mix: an order, its entry by customer, ten lines. Of a Payment: a
        // line of history.
        1000
    }

    fn load(&self, session: &mut S::Session, share: Share, loaded: &dyn Fn(u64)) -> Result<(), RunError> {
        self.tables.load(session, &self.population, share, loaded)
    }

    /// A worker at home in one of the warehouses.
    fn worker(&self, seat: Seat) -> Result<Worker, RunError> {
        let Options { scale, mix, items, homes, .. } = self.options;
        // Relaxed: the number is all that is handed out; nothing else is published with it.
        let terminal = self.terminals.fetch_add(1, Ordering::Relaxed) + 1;
        let terminal = u16::try_from(terminal).map_err(|_| {
            RunError::Setting(format!("a TPC-C database can have {} workers in its life", u16::MAX))
        })?;
        let w_id = homes.of(seat.number, seat.count, scale.warehouses);
        let dice = Dice::from(seat.random);
        let requests = Requests::draw(scale, mix, items, self.constants, dice, w_id, seat.requests.max(1));
        Ok(Worker::new(terminal, w_id, requests))
    }

    fn execute(&self, session: &mut S::Session, worker: &mut Worker) -> TxnResult<S, ()> {
        let request = worker.next_request();
        self.execute_request(session, worker, request)
    }

    /// The standard's twelve conditions, as far as they can hold, one of STOCK, and what the workers' tallies say.
    fn check(&self, session: &mut S::Session, workers: &mut Vec<Worker>) -> Result<Vec<Condition>, RunError> {
        let (findings, growth) =
            check::check(&self.tables, session, self.options.scale, self.options.order_numbers)?;
        let mut conditions: Vec<Condition> =
            findings.iter().map(|finding| Condition::that(finding.holds(), finding.to_string())).collect();
        let tally = Self::total(workers);
        let entered = tally.committed[Kind::NewOrder as usize];
        let paid = tally.committed[Kind::Payment as usize];
        let equal = |what: &str, found: u64, expected: u64| Condition::equal(what, found, expected);
        conditions.extend([
            equal("besides: the number of orders since the population", growth.orders, entered),
            equal("besides: the number of payments since the population", growth.payments, paid),
            equal("besides: the number of orders delivered since", growth.deliveries, tally.delivered),
            equal("besides: the number of rows inserted where there was one", tally.duplicates, 0),
        ]);
        Ok(conditions)
    }
}
