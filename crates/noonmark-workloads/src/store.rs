//! The seam between workloads and what they run on.
//!
//! A workload writes each of its transactions once, against the traits here. Two things implement them: the
//! engine, and the baseline that a user would write first (a lock round a `BTreeMap` for each table, in
//! [`mutex`](crate::mutex)). All dispatch is static and every method on the engine's side is one inlined call,
//! so measuring through this seam costs the engine nothing.
//!
//! The shape, in reading order:
//!
//! - A [`Store`] makes tables and sessions. It is a cheap handle.
//! - [`Rows`] is what a transaction does with existing rows, whole ([`Store::Table`]) or one column group of
//!   them ([`Store::Group`]). Operations are methods of the handle and take the transaction, as in
//!   `accounts.update(tx, &key, |a| a.balance -= 5)?`.
//! - [`Table`] adds what concerns whole rows only: insert, upsert, delete.
//! - [`Group`] adds commit-time updates, which concern one column group only. A row that is a single group has
//!   it as its group 0.
//! - [`Index`] is a secondary index, kept by the store.
//! - A [`Session`] runs closures as transactions, again after a conflict, until they commit, roll back by
//!   themselves ([`Failure::Rollback`]) or fail for good.
//! - A [`Scope`] names the tables that a kind of transaction touches. The engine ignores it; the baseline takes
//!   the locks of those tables, in a fixed order, before the closure runs.
//!
//! ```
//! use noonmark_workloads::store::{Failure, Rows, Scope, Session, Store, Table, TableSpec, TxnResult};
//!
//! struct Accounts<S: Store> {
//!     table: S::Table<u64, i64>,
//!     transfer: S::Scope,
//! }
//!
//! impl<S: Store> Accounts<S> {
//!     fn new(store: &S) -> Result<Self, noonmark_workloads::store::StoreError> {
//!         let table = store.table(&TableSpec::new("accounts"))?;
//!         let transfer = store.scope().writes::<u64, i64>(&table);
//!         Ok(Accounts { table, transfer })
//!     }
//!
//!     fn transfer(&self, session: &mut S::Session, from: u64, to: u64, amount: i64) -> TxnResult<S, ()> {
//!         session.run(&self.transfer, |tx| {
//!             if self.table.need(tx, &from)? < amount {
//!                 return Err(Failure::Rollback);
//!             }
//!             self.table.update(tx, &from, |balance| *balance -= amount)?;
//!             self.table.update(tx, &to, |balance| *balance += amount)?;
//!             Ok(())
//!         })
//!     }
//! }
//!
//! let store = noonmark_workloads::mutex::MutexStore::new();
//! let accounts = Accounts::new(&store)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: choose protocols (a store is made with one), pick random numbers, or keep histories.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{ControlFlow, Range, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::stamp::{Stamped, WriteId};

/// What can be a key of a table here: the engine's keys, ordered as values too.
pub trait StoreKey: noonmark::Key + Ord + Send + Sync {}
impl<T: noonmark::Key + Ord + Send + Sync> StoreKey for T {}

/// What can be a row: one column group, or a tuple of up to four.
pub trait StoreRow: noonmark::Row + Clone + Send + Sync {
    /// The row of a run that is [recorded](crate::recording): each group with the number of its write.
    type Stamped: StoreRow;

    /// The row as this write makes it.
    fn stamped(self, id: WriteId) -> Self::Stamped;

    /// The row, and which write made each of its groups; the places of groups that it has not got are 0.
    fn unstamped(row: Self::Stamped) -> (Self, [WriteId; GROUPS_MAX]);
}

/// The most column groups that a row can have here.
pub const GROUPS_MAX: usize = 4;

impl<G: StoreGroup> StoreRow for G {
    type Stamped = Stamped<G>;

    fn stamped(self, id: WriteId) -> Stamped<G> {
        Stamped { id, value: self }
    }

    fn unstamped(row: Stamped<G>) -> (G, [WriteId; GROUPS_MAX]) {
        (row.value, [row.id, 0, 0, 0])
    }
}

macro_rules! row_of_tuple {
    ($($name:ident . $index:tt),+) => {
        impl<$($name: StoreGroup),+> StoreRow for ($($name,)+) {
            type Stamped = ($(Stamped<$name>,)+);

            fn stamped(self, id: WriteId) -> Self::Stamped {
                ($(Stamped { id, value: self.$index },)+)
            }

            fn unstamped(row: Self::Stamped) -> (Self, [WriteId; GROUPS_MAX]) {
                let mut ids = [0; GROUPS_MAX];
                $(ids[$index] = row.$index.id;)+
                (($(row.$index.value,)+), ids)
            }
        }
    };
}
row_of_tuple!(A.0);
row_of_tuple!(A.0, B.1);
row_of_tuple!(A.0, B.1, C.2);
row_of_tuple!(A.0, B.1, C.2, D.3);

/// One column group of a row. Structs become groups by [`column_group!`](crate::column_group).
pub trait StoreGroup: noonmark::Group + noonmark::HasGroup<0, Group = Self> + Clone + Send + Sync {}

/// A row that has a column group number `I`, of the type that the engine says
/// ([`noonmark::HasGroup::Group`]).
pub trait Part<const I: usize>:
    StoreRow<Stamped = <Self as Part<I>>::StampedRow> + noonmark::HasGroup<I, Group: StoreGroup>
{
    /// [`StoreRow::Stamped`], which has such a group too.
    type StampedRow: Part<I> + noonmark::HasGroup<I, Group = Stamped<<Self as noonmark::HasGroup<I>>::Group>>;
    /// The group within the row.
    fn part(&self) -> &Self::Group;
    /// The group within the row, to be changed.
    fn part_mut(&mut self) -> &mut Self::Group;
}

impl<G: StoreGroup> Part<0> for G {
    type StampedRow = Stamped<G>;
    #[inline(always)]
    fn part(&self) -> &G {
        self
    }
    #[inline(always)]
    fn part_mut(&mut self) -> &mut G {
        self
    }
}

macro_rules! part_of_tuple {
    ($index:tt of $($name:ident),+ is $part:ident) => {
        impl<$($name: StoreGroup),+> Part<$index> for ($($name,)+) {
            type StampedRow = ($(Stamped<$name>,)+);
            #[inline(always)]
            fn part(&self) -> &$part {
                &self.$index
            }
            #[inline(always)]
            fn part_mut(&mut self) -> &mut $part {
                &mut self.$index
            }
        }
    };
}

part_of_tuple!(0 of A is A);
part_of_tuple!(0 of A, B is A);
part_of_tuple!(1 of A, B is B);
part_of_tuple!(0 of A, B, C is A);
part_of_tuple!(1 of A, B, C is B);
part_of_tuple!(2 of A, B, C is C);
part_of_tuple!(0 of A, B, C, D is A);
part_of_tuple!(1 of A, B, C, D is B);
part_of_tuple!(2 of A, B, C, D is C);
part_of_tuple!(3 of A, B, C, D is D);

macro_rules! plain_groups {
    ($($group:ty),+) => { $(impl StoreGroup for $group {})+ };
}
plain_groups!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64, bool, Vec<u8>, String);
impl<F: noonmark::Field + Copy + Send + Sync, const N: usize> StoreGroup for [F; N] {}

/// Declares structs that are column groups, by the engine's macro of this name.
#[macro_export]
macro_rules! column_group {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident { $($body:tt)* })+) => {
        $(
            noonmark::column_group! { $(#[$meta])* $vis struct $name { $($body)* } }
            impl $crate::store::StoreGroup for $name {}
        )+
    };
}

pub use noonmark::{Column, Field, Granularity, IndexKind, Number, columns};

/// What a workload asks of a table.
#[derive(Clone, Debug)]
pub struct TableSpec {
    /// The table's name, unique in its store.
    pub name: String,
    /// Its index; ordered unless told otherwise. The baseline is always ordered.
    pub index: IndexKind,
    /// Its granularity; fine unless told otherwise. The baseline has none.
    pub granularity: Granularity,
    /// Whether its column groups lie on lines of their own, for few rows that many write. The baseline's do not.
    pub apart: bool,
    /// How many rows it will hold, as far as is known: so much room is made for them ahead.
    pub expected_rows: u64,
}

impl TableSpec {
    /// An ordered, fine-grained table of unknown size.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        TableSpec {
            name,
            index: IndexKind::Ordered,
            granularity: Granularity::Fine,
            apart: false,
            expected_rows: 0,
        }
    }

    /// With this index.
    pub fn index(mut self, index: IndexKind) -> Self {
        self.index = index;
        self
    }

    /// With this granularity.
    pub fn granularity(mut self, granularity: Granularity) -> Self {
        self.granularity = granularity;
        self
    }

    /// With its column groups on lines of their own, or not.
    pub fn apart(mut self, apart: bool) -> Self {
        self.apart = apart;
        self
    }

    /// For about this many rows.
    pub fn expected_rows(mut self, rows: u64) -> Self {
        self.expected_rows = rows;
        self
    }
}

/// A store could not do what a workload set it up for. There is nothing to retry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A table could not be made or opened.
    #[error("table {name}: {reason}")]
    Table {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A session could not be opened.
    #[error("no session: {reason}")]
    Session {
        /// Why not.
        reason: String,
    },
}

/// How a transaction ended, if not by committing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<A> {
    /// The store gave up on it: too many attempts, or an error that no retry mends.
    Abort(A),
    /// The transaction's own code called it off; its effects are undone, and it was not run again.
    Rollback,
}

impl<A> From<A> for Failure<A> {
    #[inline(always)]
    fn from(abort: A) -> Self {
        Failure::Abort(abort)
    }
}

impl<A: fmt::Display> fmt::Display for Failure<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Abort(abort) => abort.fmt(f),
            Failure::Rollback => f.write_str("rolled back by the transaction itself"),
        }
    }
}

impl<A: std::error::Error> std::error::Error for Failure<A> {}

/// What a transaction's closure answers.
pub type TxnResult<S, T> = Result<T, Failure<<S as Store>::Abort>>;

/// What a session has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions called off by their own code.
    pub user_rollbacks: u64,
    /// Attempts that ended in a conflict.
    pub aborts: u64,
}

/// Numbers drawn outside of all transactions, each of them once: what databases call a sequence. What a transaction
/// has drawn that did not commit is lost.
#[derive(Debug)]
pub struct Sequence {
    /// Which of a workload's sequences, for a host that wants to know.
    number: u64,
    next: AtomicU64,
}

impl Sequence {
    /// The sequence of this number among the workload's own, from `first` on.
    pub fn new(number: u64, first: u64) -> Self {
        Sequence { number, next: AtomicU64::new(first) }
    }

    /// Its number among the workload's own.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Draws the next. (Relaxed: that nobody else draws the same is all that is promised.)
    pub fn draw(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// What a store knows of its conflicts, since it was made.
#[derive(Clone, Debug, Default)]
pub struct Conflicts {
    /// How many attempts ended by each rule.
    pub rules: BTreeMap<String, u64>,
    /// The keys that most conflicts were about, in words, the hottest first.
    pub hottest: Vec<String>,
}

/// Something that holds tables and runs transactions. Cloning it makes another handle.
pub trait Store: Clone + Send + Sync + Sized + 'static {
    /// A table's handle.
    type Table<K: StoreKey, R: StoreRow>: Table<Self, Key = K, Value = R>;
    /// The handle of one column group of a table.
    type Group<K: StoreKey, R: Part<I>, const I: usize>: Group<Self, Key = K, Value = R::Group>;
    /// A secondary index's handle.
    type Index<X: StoreKey, K: StoreKey, R: StoreRow>: Index<Self, Secondary = X, Primary = K>;
    /// The tables that a kind of transaction touches.
    type Scope: Scope<Self>;
    /// Runs transactions, one at a time.
    type Session: Session<Self>;
    /// A running transaction.
    type Txn<'a>;
    /// Rows that a transaction has looked up together.
    type Found<'a, 'k, K: StoreKey>: Found<K>;
    /// Why an operation or a transaction failed.
    type Abort: std::error::Error + Send + Sync + 'static;

    /// Makes a table.
    fn table<K: StoreKey, R: StoreRow>(&self, spec: &TableSpec) -> Result<Self::Table<K, R>, StoreError>;

    /// The handle of column group `I` of a table: make it once and keep it.
    fn group<K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &Self::Table<K, R>,
    ) -> Self::Group<K, R, I>;

    /// Makes a secondary index of a table that has no rows yet. Many rows may have one secondary key.
    fn index<X: StoreKey, K: StoreKey, R: StoreRow>(
        &self,
        table: &Self::Table<K, R>,
        name: &str,
        extract: impl Fn(&K, &R) -> X + Send + Sync + 'static,
    ) -> Result<Self::Index<X, K, R>, StoreError>;

    /// The same of one column group, so that writing the row's other groups costs the index nothing.
    fn group_index<X: StoreKey, K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &Self::Table<K, R>,
        name: &str,
        extract: impl Fn(&K, &R::Group) -> X + Send + Sync + 'static,
    ) -> Result<Self::Index<X, K, R>, StoreError>;

    /// A scope of no tables, to be added to.
    fn scope(&self) -> Self::Scope;

    /// Opens a session.
    fn session(&self) -> Result<Self::Session, StoreError>;

    /// The conflicts so far.
    fn conflicts(&self) -> Conflicts;

    /// Whether this failure is a conflict, so that running the transaction again may help.
    fn is_conflict(abort: &Self::Abort) -> bool;
}

/// A store with commit-time appends. Apart from [`Store`], as a recording has none: bytes at the end of a value
/// leave no room for the number of their write.
pub trait Appends: Store {
    /// Adds bytes at the end of a group of bytes at commit time, without reading it; the row must be there.
    fn append<K: StoreKey, R: Part<I, Group = Vec<u8>>, const I: usize>(
        tx: &mut Self::Txn<'_>,
        group: &Self::Group<K, R, I>,
        key: &K,
        bytes: &[u8],
    ) -> Result<(), Self::Abort>;
}

/// Rows that a transaction has looked up together.
pub trait Found<K> {
    /// The keys that were looked up.
    fn keys(&self) -> &[K];
}

/// Existing rows, or one column group of them.
pub trait Rows<S: Store>: Clone + Send + Sync + 'static {
    /// The key that finds a row.
    type Key: StoreKey;
    /// What is read and written: the row, or the group.
    type Value: Clone + Send + Sync + 'static;

    /// Reads; `None` when the row is absent, which is a read too.
    fn get(&self, tx: &mut S::Txn<'_>, key: &Self::Key) -> Result<Option<Self::Value>, S::Abort>;

    /// Reads a row that must be there.
    fn need(&self, tx: &mut S::Txn<'_>, key: &Self::Key) -> Result<Self::Value, S::Abort>;

    /// Reads, changes and writes a row that must be there.
    fn update(
        &self,
        tx: &mut S::Txn<'_>,
        key: &Self::Key,
        change: impl FnOnce(&mut Self::Value),
    ) -> Result<(), S::Abort>;

    /// Overwrites without reading; `false` when the row is absent.
    fn write(&self, tx: &mut S::Txn<'_>, key: &Self::Key, value: Self::Value) -> Result<bool, S::Abort>;

    /// Looks up rows that will be read or changed soon: brings them near, if the store can, and reads nothing.
    fn look_up<'a, 'k>(&self, tx: &mut S::Txn<'a>, keys: &'k [Self::Key]) -> S::Found<'a, 'k, Self::Key>;

    /// Reads some of the rows that were looked up, in this table or another group of it.
    fn get_found(
        &self,
        tx: &mut S::Txn<'_>,
        found: &S::Found<'_, '_, Self::Key>,
        some: Range<usize>,
        each: impl FnMut(usize, Option<Self::Value>),
    ) -> Result<(), S::Abort>;

    /// Reads, changes and writes some of the rows that were looked up, likewise; all must be there.
    fn update_found(
        &self,
        tx: &mut S::Txn<'_>,
        found: &S::Found<'_, '_, Self::Key>,
        some: Range<usize>,
        each: impl FnMut(usize, &mut Self::Value),
    ) -> Result<(), S::Abort>;

    /// Reads rows whose keys are known together.
    fn get_many(
        &self,
        tx: &mut S::Txn<'_>,
        keys: &[Self::Key],
        each: impl FnMut(usize, Option<Self::Value>),
    ) -> Result<(), S::Abort>;

    /// Reads, changes and writes rows whose keys are known together; all must be there.
    fn update_many(
        &self,
        tx: &mut S::Txn<'_>,
        keys: &[Self::Key],
        each: impl FnMut(usize, &mut Self::Value),
    ) -> Result<(), S::Abort>;

    /// Reads rows in key order, upwards unless `scan` says otherwise, until `each` breaks.
    fn range(
        &self,
        tx: &mut S::Txn<'_>,
        bounds: impl RangeBounds<Self::Key>,
        scan: Scan,
        each: impl FnMut(Self::Key, Self::Value) -> ControlFlow<()>,
    ) -> Result<(), S::Abort>;
}

/// Whole rows.
pub trait Table<S: Store>: Rows<S> {
    /// Adds a row; `false` when there is one already.
    fn insert(&self, tx: &mut S::Txn<'_>, key: &Self::Key, row: Self::Value) -> Result<bool, S::Abort>;

    /// Adds a row or overwrites it.
    fn upsert(&self, tx: &mut S::Txn<'_>, key: &Self::Key, row: Self::Value) -> Result<(), S::Abort>;

    /// Removes a row; `false` when there was none.
    fn delete(&self, tx: &mut S::Txn<'_>, key: &Self::Key) -> Result<bool, S::Abort>;
}

/// One column group, which can be updated at commit time: without having been read.
pub trait Group<S: Store>: Rows<S> {
    /// Adds to one field of a row that must be there.
    fn add<N: Number + Field>(
        &self,
        tx: &mut S::Txn<'_>,
        key: &Self::Key,
        column: Column<Self::Value, N>,
        delta: N,
    ) -> Result<(), S::Abort>;

    /// Applies a change that commutes with every other that is applied to the same fields.
    fn apply(
        &self,
        tx: &mut S::Txn<'_>,
        key: &Self::Key,
        change: impl Fn(&mut Self::Value) + Copy + Send + 'static,
    ) -> Result<(), S::Abort>;
}

/// A secondary index.
pub trait Index<S: Store>: Clone + Send + Sync + 'static {
    /// The key that the index is ordered by.
    type Secondary: StoreKey;
    /// The key of the rows.
    type Primary: StoreKey;

    /// Reads entries in the order of their secondary keys (then of their primary ones), until `each` breaks.
    fn range(
        &self,
        tx: &mut S::Txn<'_>,
        bounds: impl RangeBounds<Self::Secondary>,
        scan: Scan,
        each: impl FnMut(Self::Secondary, Self::Primary) -> ControlFlow<()>,
    ) -> Result<(), S::Abort>;
}

/// How a range is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// From the end downwards.
    pub reverse: bool,
    /// At most so many.
    pub limit: Option<usize>,
}

impl Scan {
    /// Upwards, all of it.
    pub const ALL: Scan = Scan { reverse: false, limit: None };

    /// The first so many.
    pub const fn first(limit: usize) -> Scan {
        Scan { reverse: false, limit: Some(limit) }
    }

    /// The last so many, the last one first.
    pub const fn last(limit: usize) -> Scan {
        Scan { reverse: true, limit: Some(limit) }
    }
}

/// The tables that a kind of transaction touches; made once for each kind.
pub trait Scope<S: Store>: Clone + Send + Sync + 'static {
    /// Together with this table, which is only read.
    fn reads<K: StoreKey, R: StoreRow>(self, table: &S::Table<K, R>) -> Self;

    /// Together with this table, which is read and changed.
    fn writes<K: StoreKey, R: StoreRow>(self, table: &S::Table<K, R>) -> Self;
}

/// Runs transactions, one at a time. Two sessions run side by side.
pub trait Session<S: Store>: Send {
    /// Runs the closure as a transaction until it commits or fails for good.
    fn run<T>(
        &mut self,
        scope: &S::Scope,
        body: impl FnMut(&mut S::Txn<'_>) -> TxnResult<S, T>,
    ) -> TxnResult<S, T>;

    /// The same, but gives up after so many attempts that ended in conflicts.
    fn run_up_to<T>(
        &mut self,
        attempts_max: u32,
        scope: &S::Scope,
        body: impl FnMut(&mut S::Txn<'_>) -> TxnResult<S, T>,
    ) -> TxnResult<S, T>;

    /// Draws a number from a sequence, outside of any transaction.
    fn draw(&mut self, sequence: &Sequence) -> u64 {
        sequence.draw()
    }

    /// What it has counted.
    fn counts(&self) -> Counts;

    /// The most attempts that one transaction took since this was last asked.
    fn take_attempts_max(&mut self) -> u64;
}
