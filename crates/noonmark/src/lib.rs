//! Serializable transactions in memory, for data that many want at once.
//!
//! Any number of threads read and write typed tables; what commits is equivalent to some serial order of the
//! transactions, ranges included. The concurrency control is chosen for each table.
//!
//! # A first transaction
//!
//! ```
//! use noonmark::{Abort, Database};
//!
//! noonmark::column_group! {
//!     /// What an account holds.
//!     #[derive(Clone, Debug)]
//!     pub struct Account { pub balance: i64, pub changes: u32 }
//! }
//!
//! let db = Database::in_memory();
//! let accounts = db.table::<u64, Account>("accounts")?;
//! db.transact(|tx| {
//!     tx.insert(&accounts, 1, Account { balance: 100, changes: 0 })?;
//!     tx.insert(&accounts, 2, Account { balance: 0, changes: 0 })
//! })?;
//!
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| {
//!             let mut session = db.session()?;
//!             for _ in 0..10 {
//!                 session.transact(|tx| {
//!                     for (account, change) in [(1, -1), (2, 1)] {
//!                         tx.update(&accounts, account, |a| {
//!                             a.balance += change;
//!                             a.changes += 1;
//!                         })?;
//!                     }
//!                     Ok(())
//!                 })?;
//!             }
//!             Ok::<(), Abort>(())
//!         });
//!     }
//! });
//! assert_eq!(db.view(|tx| tx.need(&accounts, 2))?.balance, 40);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reading order
//!
//! - [`Database`] makes tables and sessions. [`Database::transact`] runs one transaction, from anywhere; a
//!   [`Session`] runs one after another, without allocating.
//! - [`Table`] is a handle to a table, [`ColumnGroup`] to one column group of it, [`SecondaryIndex`] to an index of
//!   it. Rows are made of values that implement [`Group`], by [`column_group!`]; keys are [`Key`]s. How a table
//!   is made is said by [`TableOptions`]: protocol, index, granularity.
//! - [`Transaction`] has the operations: [`get`](Transaction::get) and [`need`](Transaction::need),
//!   [`update`](Transaction::update) and [`write`](Transaction::write), [`insert`](Transaction::insert),
//!   [`upsert`](Transaction::upsert) and [`delete`](Transaction::delete), [`range`](Transaction::range) and
//!   [`range_by`](Transaction::range_by); [`get_many`](Transaction::get_many) and
//!   [`update_many`](Transaction::update_many) for keys that are known together, and
//!   [`look_up`](Transaction::look_up) if they are touched in parts; [`add`](Transaction::add),
//!   [`min`](Transaction::min), [`max`](Transaction::max), [`append`](Transaction::append) and
//!   [`apply`](Transaction::apply), which change a row without reading it.
//! - [`Abort`] is the error of every operation, and explains itself. [`Session::try_transact`] takes closures with
//!   errors of their own. [`Policy`] says how often and how long a transaction is tried.
//! - [`Database::conflicts`] counts which rules fail, where, and on which keys.
//!
//! # What is guaranteed
//!
//! - *Serializable*, whatever the tables' protocols, mixed ones too: see [`order`]. (But for [`Order::Snapshot`], which must be
//!   asked for.)
//! - *Strict*, too, in a database in [momentary order](Order::Momentary), or in that of [beginnings](Order::Beginning) (all tables
//!   `fixed`): so in every one whose tables are not all among `tictoc`, `sundial`, `dynamic` and `ranges`: a transaction comes after all that had committed before it began. In [logical
//!   order](Order::Logical) a session's transactions are in order, and nothing else follows real time.
//! - *All or nothing*: an [`Abort`] says that nothing was applied.
//! - *Not durable*: a database is gone with its last handle.
//! - *Not opaque*: before it is run again, a closure may see values that no committed state had together: under
//!   every protocol whose reads are not locked, and under all where a row that it looked for was not there (what is not
//!   there is not locked, but validated). Nothing that it makes of them commits or is returned. It must not
//!   loop for ever on them, though. A panic in it rolls the transaction back.
//!
//! # Column groups
//!
//! A row is one group or a tuple of up to eight. Each group has a version and a lock of its own (unless the table
//! is [coarse](Granularity::Coarse)): transactions that use different groups of one row do not meet. Put together
//! what changes together.
//!
//! ```
//! # use noonmark::{Abort, Database};
//! noonmark::column_group! {
//!     #[derive(Clone, Debug)]
//!     struct Product { price_cents: u32 }
//!     #[derive(Clone, Debug)]
//!     struct Stock { pieces: u32 }
//! }
//! let db = Database::in_memory();
//! let items = db.table::<u32, (Product, Stock)>("items")?;
//! let (product, stock) = (items.group::<0>(), items.group::<1>());
//! db.transact(|tx| {
//!     tx.insert(&items, 7, (Product { price_cents: 250 }, Stock { pieces: 3 }))?;
//!     tx.update(&stock, 7, |s| s.pieces -= 1)?; // meets nobody who only changes prices
//!     assert_eq!(tx.need(&product, 7)?.price_cents, 250);
//!     Ok(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threads
//!
//! [`Database`], [`Table`], [`ColumnGroup`] and [`SecondaryIndex`] are `Send`, `Sync` and cheap to clone.
//! [`Session`] and [`Transaction`] are `Send`, not `Sync`: they may move between threads, also in the midst of a
//! transaction. Nothing is kept in thread-locals. A transaction that must wait blocks the thread that runs it.
//!
//! Do not run one transaction inside the closure of another: the inner one may wait for, or lose to, what the
//! outer one holds, for ever.
//!
//! # What it does not do
//!
//! Write to disk, keep old versions, evict rows, drop tables, or lend references to values.

mod abort;
mod begin_times;
pub mod branch;
mod cells;
mod commit;
mod conflicts;
mod context;
mod database;
mod gate;
mod group;
mod index;
mod kept;
mod key;
mod lines;
mod many;
mod node_set;
mod operations;
pub mod order;
mod planted;
mod policy;
mod protocol;
mod range;
mod reclaim;
mod record;
mod scan;
mod secondary;
mod session;
mod splitting;
mod table;
mod timing;
mod transaction;
mod typed;
mod update;
mod write_set;

pub use abort::{Abort, AbortKind};
pub use commit::Commit;
pub use conflicts::{ConflictReport, RuleConflicts};
pub use context::SessionStatistics;
pub use database::{
    BUSY_TURNS_DEFAULT, BuildError, Builder, Database, PASSES_MAX_DEFAULT, SESSIONS_DEFAULT, SESSIONS_MAX,
    SchemaError, TooManySessions,
};
#[doc(hidden)]
pub use group::Plain;
pub use group::{
    Column, Field, GROUPS_MAX, Group, HasColumns, HasGroup, Row, RowReader, RowWriter, Size, columns,
};
pub use key::{AsKey, KEY_BYTES_MAX, Key, KeyBytes};
pub use many::{FoundRows, FoundSlice, KnownKeys};
pub use noonmark_core::{Age, Host, SlotId, Threads, Timestamp, TxnId};
#[cfg(feature = "planted-bugs")]
#[doc(hidden)]
pub use planted::Bug;
pub use policy::Policy;
pub use protocol::{Order, Protocol, UnknownProtocol};
pub use range::RANGE_ROOM_DEFAULT;
pub use scan::{Scan, SecondaryScan};
pub use session::Session;
pub use table::{Granularity, IndexKind, Leases, SECONDARIES_MAX, TableOptions, WRITE_TIMES_MAX};
pub use transaction::{ReadTransaction, Transaction};
pub use typed::{ColumnGroup, GroupTarget, SecondaryIndex, Table, Target};
pub use update::{Fold, Number, PlainNumber};

/// The README's examples, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
