//! The baseline that a user would write first: a `BTreeMap` for each table with one lock round it.
//!
//! A transaction takes the locks of the tables that its [`Scope`] names, in the order in
//! which the tables were made, before its closure runs, and keeps them to the end. So it is serializable (it is
//! strict two-phase locking on whole tables), cannot deadlock, and never conflicts: the closure runs once.
//! Tables that a scope only reads are locked for sharing, all others exclusively. That, the typed map, and an
//! undo log kept with each table (so that nothing is allocated for a transaction once the logs have grown) are
//! what a careful person would do; anything cleverer would be another design.
//!
//! Invariants:
//!
//! - A table's rows, undo log and indexes are only touched while its lock is held, by the transaction that
//!   holds it; every access looks its table up in the scope first.
//! - A table's undo log is empty whenever its lock is free.
//! - A transaction that is dropped without having committed, be it by a panic, is undone before it unlocks.
//!
//! What it does not do: conflict, retry, wait with a limit, or keep statistics of rows.

mod index;
mod rows;
mod scope;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::store::{
    Appends, Conflicts, Counts, Failure, Found, Part, Rows, Scope, Session, Store, StoreError, StoreKey,
    StoreRow, TableSpec, TxnResult,
};
use index::{Entries, Extract};
use table::LockedTable;

pub use index::MutexIndex;
pub use rows::{MutexGroup, MutexRows, MutexTable, PartOf, Projection, Whole};
pub use scope::{MutexScope, MutexTxn};

/// Why an operation failed. None of these is mended by running the transaction again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MutexAbort {
    /// A row that had to be there was not.
    #[error("table {table} has no row {key}")]
    Missing {
        /// The table.
        table: String,
        /// The key, as `Debug` shows it.
        key: String,
    },
    /// The transaction touched a table in a way that its scope does not name: add it to the scope.
    #[error("the transaction's scope does not name table {table} for {access}")]
    OutOfScope {
        /// The table.
        table: String,
        /// `reading` or `changing`.
        access: &'static str,
    },
}

/// The baseline store. Cloning it makes another handle.
#[derive(Clone, Default)]
pub struct MutexStore {
    names: Arc<Mutex<Vec<String>>>,
}

impl MutexStore {
    /// A store without tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an index of a table that has no rows yet.
    fn add_index<X: StoreKey, K: StoreKey, R: StoreRow>(
        &self,
        table: &MutexTable<K, R>,
        name: &str,
        extract: Extract<X, K, R>,
    ) -> Result<MutexIndex<X, K, R>, StoreError> {
        let entries = Arc::new(Entries::new(extract));
        let scope = self.scope().writes::<K, R>(table);
        let mut tx = MutexTxn::begin(&scope);
        let failed = |reason: String| StoreError::Table { name: table.table.name.clone(), reason };
        let contents = table.table.write(&mut tx).map_err(|abort| failed(abort.to_string()))?;
        if !contents.rows.is_empty() {
            return Err(failed(format!("it has rows already, too late for index {name}")));
        }
        contents.indexes.push(entries.clone());
        Ok(MutexIndex { table: table.table.clone(), entries })
    }
}

/// Runs transactions on the baseline.
#[derive(Debug, Default)]
pub struct MutexSession {
    counts: Counts,
    attempts_max: u64,
}

impl Session<MutexStore> for MutexSession {
    #[inline]
    fn run<T>(
        &mut self,
        scope: &MutexScope,
        mut body: impl FnMut(&mut MutexTxn<'_>) -> TxnResult<MutexStore, T>,
    ) -> TxnResult<MutexStore, T> {
        self.attempts_max = 1;
        let mut tx = MutexTxn::begin(scope);
        let result = body(&mut tx);
        tx.committed = result.is_ok();
        drop(tx);
        match &result {
            Ok(_) => self.counts.commits += 1,
            Err(Failure::Rollback) => self.counts.user_rollbacks += 1,
            Err(Failure::Abort(_)) => {}
        }
        result
    }

    #[inline]
    fn run_up_to<T>(
        &mut self,
        _attempts_max: u32,
        scope: &MutexScope,
        body: impl FnMut(&mut MutexTxn<'_>) -> TxnResult<MutexStore, T>,
    ) -> TxnResult<MutexStore, T> {
        self.run(scope, body)
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn take_attempts_max(&mut self) -> u64 {
        std::mem::take(&mut self.attempts_max)
    }
}

/// Numbers tables in the order in which they are made.
static TABLES_MADE: AtomicU64 = AtomicU64::new(0);

/// A map has no rows that could be found ahead of their reading.
impl<K: StoreKey> Found<K> for &[K] {
    fn keys(&self) -> &[K] {
        self
    }
}

impl Store for MutexStore {
    type Table<K: StoreKey, R: StoreRow> = MutexTable<K, R>;
    type Group<K: StoreKey, R: Part<I>, const I: usize> = MutexGroup<K, R, I>;
    type Index<X: StoreKey, K: StoreKey, R: StoreRow> = MutexIndex<X, K, R>;
    type Scope = MutexScope;
    type Session = MutexSession;
    type Txn<'a> = MutexTxn<'a>;
    type Found<'a, 'k, K: StoreKey> = &'k [K];
    type Abort = MutexAbort;

    fn table<K: StoreKey, R: StoreRow>(&self, spec: &TableSpec) -> Result<MutexTable<K, R>, StoreError> {
        let name = spec.name.clone();
        let mut names = self.names.lock();
        if names.contains(&name) {
            return Err(StoreError::Table { name, reason: "it exists already".into() });
        }
        names.push(name.clone());
        // Relaxed: only uniqueness is asked of the number.
        let number = TABLES_MADE.fetch_add(1, Ordering::Relaxed);
        Ok(MutexRows::new(Arc::new(LockedTable::new(number, name))))
    }

    fn group<K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &MutexTable<K, R>,
    ) -> MutexGroup<K, R, I> {
        MutexRows::new(table.table.clone())
    }

    fn index<X: StoreKey, K: StoreKey, R: StoreRow>(
        &self,
        table: &MutexTable<K, R>,
        name: &str,
        extract: impl Fn(&K, &R) -> X + Send + Sync + 'static,
    ) -> Result<MutexIndex<X, K, R>, StoreError> {
        self.add_index(table, name, Box::new(extract))
    }

    fn group_index<X: StoreKey, K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &MutexTable<K, R>,
        name: &str,
        extract: impl Fn(&K, &R::Group) -> X + Send + Sync + 'static,
    ) -> Result<MutexIndex<X, K, R>, StoreError> {
        self.add_index(table, name, Box::new(move |key, row: &R| extract(key, row.part())))
    }

    fn scope(&self) -> MutexScope {
        MutexScope::default()
    }

    fn session(&self) -> Result<MutexSession, StoreError> {
        Ok(MutexSession::default())
    }

    fn conflicts(&self) -> Conflicts {
        Conflicts::default()
    }

    fn is_conflict(_: &MutexAbort) -> bool {
        false
    }
}

impl Appends for MutexStore {
    #[inline]
    fn append<K: StoreKey, R: Part<I, Group = Vec<u8>>, const I: usize>(
        tx: &mut MutexTxn<'_>,
        group: &MutexGroup<K, R, I>,
        key: &K,
        bytes: &[u8],
    ) -> Result<(), MutexAbort> {
        group.update(tx, key, |list| list.extend_from_slice(bytes))
    }
}
