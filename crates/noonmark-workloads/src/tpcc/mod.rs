//! TPC-C, revision 5.11: an order-entry business of warehouses, districts and customers, and the five
//! transactions of its terminals, over any [`Store`].
//!
//! Reading order: [`schema`] (tables, keys, column groups and which of them have timestamps of their own),
//! [`population`] (the initial rows), [`request`] (what terminals ask for), [`tables`] (handles in a store, and
//! loading), one file for each transaction, [`audit`] (the standard's consistency conditions).
//!
//! A run, as a driver does it:
//!
//! ```
//! use noonmark_workloads::mutex::MutexStore;
//! use noonmark_workloads::tpcc::{Options, Tpcc, population::Scale, request::Mix};
//!
//! let store = MutexStore::new();
//! let scale = Scale { warehouses: 1, customers: 30, items: 100 };
//! let tpcc = Tpcc::create(&store, Options { scale, mix: Mix::Full, ..Options::default() })?;
//! tpcc.load(2, &mut |_done, _total| {})?;
//! let mut worker = tpcc.worker(0, 100)?;
//! for _ in 0..200 {
//!     worker.run_next()?;
//! }
//! assert!(tpcc.check()?.iter().all(|condition| condition.holds()));
//! # Ok::<(), noonmark_workloads::tpcc::TpccError>(())
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

pub mod audit;
mod check;
mod delivery;
mod new_order;
mod order_status;
mod payment;
pub mod population;
pub mod random;
pub mod request;
pub mod schema;
mod stock_level;
pub mod tables;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use audit::Condition;
use population::{Population, Scale, ScaleError};
use request::{Mix, Requests};
use schema::Split;
use tables::Tables;

pub use delivery::DeliveryAnswer;
pub use new_order::{LineAnswer, NewOrderAnswer};
pub use order_status::OrderStatusAnswer;
pub use payment::PaymentAnswer;
pub use worker::{Ended, Tally, Worker};

use crate::store::{IndexKind, Store, StoreError};

/// How the year-to-date totals are raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Updates {
    /// Read, changed and written.
    Plain,
    /// By commit-time updates, without having been read.
    CommitTime,
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
    /// How the year-to-date totals are raised.
    pub updates: Updates,
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
            updates: Updates::Plain,
            access: Access::OneByOne,
            points: IndexKind::Hash,
        }
    }
}

/// The workload cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TpccError {
    /// No database can have this scale: choose another.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// The store refused a table or a session.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The population is there already: load it once, into a store of its own.
    #[error("the tables of TPC-C have rows already")]
    AlreadyLoaded,
    /// There have been more workers on this database than history keys can tell apart.
    #[error("a TPC-C database can have {} workers in its life", u16::MAX)]
    TooManyWorkers,
    /// A transaction failed for good.
    #[error("{doing}: {reason}")]
    Transaction {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        reason: String,
    },
}

impl TpccError {
    fn transaction(doing: &'static str, reason: impl std::fmt::Display) -> Self {
        TpccError::Transaction { doing, reason: reason.to_string() }
    }
}

/// TPC-C in one store.
pub struct Tpcc<S: Store> {
    store: S,
    options: Options,
    tables: Tables<S>,
    shared: Arc<Shared>,
}

/// What the workers of one database share. Nothing of it is touched by a transaction that goes well.
#[derive(Debug, Default)]
struct Shared {
    /// Workers so far: each has a number of its own, which is the first part of its history keys.
    terminals: AtomicU32,
    /// Committed transactions that found a row where they inserted one.
    duplicates: AtomicU64,
}

impl<S: Store> Tpcc<S> {
    /// Makes the tables, empty, in a store that has none of their names.
    pub fn create(store: &S, options: Options) -> Result<Self, TpccError> {
        options.scale.checked()?;
        let tables = Tables::create(store, &options)?;
        Ok(Tpcc { store: store.clone(), options, tables, shared: Arc::default() })
    }

    /// What it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Its tables.
    pub fn tables(&self) -> &Tables<S> {
        &self.tables
    }

    /// Loads the population with so many threads; tells `progress` of rows done and rows in all.
    pub fn load(&self, threads: usize, progress: &mut dyn FnMut(u64, u64)) -> Result<(), TpccError> {
        let population = Population::new(self.options.scale, self.options.seed);
        self.tables.load(&self.store, &population, threads, progress)
    }

    /// A worker at home in one of the warehouses (`index`, counted round), with so many requests drawn ahead;
    /// it begins again with the first after the last.
    pub fn worker(&self, index: usize, requests: usize) -> Result<Worker<S>, TpccError> {
        let Options { scale, mix, seed, .. } = self.options;
        // Relaxed: the number is all that is handed out; nothing else is published with it.
        let terminal = self.shared.terminals.fetch_add(1, Ordering::Relaxed) + 1;
        let terminal = u16::try_from(terminal).map_err(|_| TpccError::TooManyWorkers)?;
        let w_id = (index % usize::from(scale.warehouses)) as u16 + 1;
        // Drawn by the terminal, not the index: a second generation of workers does not repeat the first's.
        let requests = Requests::draw(scale, mix, seed, usize::from(terminal), w_id, requests.max(1));
        Ok(Worker::new(self, terminal, w_id, self.store.session()?, requests))
    }

    /// The consistency conditions, on a database at rest: the standard's twelve, one of STOCK, and that no
    /// transaction found a row where it inserted one.
    pub fn check(&self) -> Result<Vec<Condition>, TpccError> {
        let mut session = self.store.session()?;
        let mut conditions = check::check(&self.tables, &mut session, self.options.scale)?;
        // Relaxed: the workers have been joined, which orders their counting before this.
        let duplicates = self.shared.duplicates.load(Ordering::Relaxed);
        conditions.push(Condition {
            number: 0,
            wording: "no committed transaction found a row where it inserted one",
            violated: (duplicates > 0).then(|| (duplicates, "a New-Order or a Payment".to_owned())),
        });
        Ok(conditions)
    }

    /// The parameters of the run, for its report.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        let Options { scale, seed, mix, split, .. } = &self.options;
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
        parameters
    }
}
