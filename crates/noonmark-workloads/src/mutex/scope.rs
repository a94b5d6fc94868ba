//! The tables that a transaction locks, and the transaction that holds them.
//!
//! What it does not do: lock a table later than at the beginning, or let one go before the end.

use std::sync::Arc;

use super::MutexStore;
use super::rows::MutexTable;
use crate::store::{Scope, StoreKey, StoreRow};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Shared,
    Exclusive,
}

/// A table of whatever types, as a scope and a transaction's end see it.
pub(super) trait Lockable: Send + Sync {
    fn lock(&self, mode: Mode);

    /// Keeps or undoes what the transaction did.
    ///
    /// # Safety
    /// The caller holds the lock exclusively, and no reference into the table is alive.
    unsafe fn finish(&self, commit: bool);

    /// # Safety
    /// The caller holds the lock in this mode, and no reference into the table is alive.
    unsafe fn unlock(&self, mode: Mode);
}

/// The tables that a kind of transaction locks.
#[derive(Clone, Default)]
pub struct MutexScope {
    /// By ascending number, each once.
    tables: Vec<(u64, Mode, Arc<dyn Lockable>)>,
}

impl MutexScope {
    fn with<K: StoreKey, R: StoreRow>(mut self, table: &MutexTable<K, R>, mode: Mode) -> Self {
        let number = table.table.number;
        match self.tables.binary_search_by_key(&number, |(number, _, _)| *number) {
            Ok(at) if mode == Mode::Exclusive => self.tables[at].1 = Mode::Exclusive,
            Ok(_) => {}
            Err(at) => self.tables.insert(at, (number, mode, table.table.clone())),
        }
        self
    }
}

impl Scope<MutexStore> for MutexScope {
    fn reads<K: StoreKey, R: StoreRow>(self, table: &MutexTable<K, R>) -> Self {
        self.with(table, Mode::Shared)
    }

    fn writes<K: StoreKey, R: StoreRow>(self, table: &MutexTable<K, R>) -> Self {
        self.with(table, Mode::Exclusive)
    }
}

/// A running transaction: it holds the locks of its scope until it is dropped.
pub struct MutexTxn<'a> {
    scope: &'a MutexScope,
    /// Whether it is to be kept when it ends.
    pub(super) committed: bool,
}

impl<'a> MutexTxn<'a> {
    #[inline]
    pub(super) fn begin(scope: &'a MutexScope) -> Self {
        for (_, mode, table) in &scope.tables {
            table.lock(*mode);
        }
        MutexTxn { scope, committed: false }
    }

    #[inline]
    pub(super) fn holds(&self, number: u64) -> Option<Mode> {
        self.scope.tables.iter().find(|(held, _, _)| *held == number).map(|(_, mode, _)| *mode)
    }
}

impl Drop for MutexTxn<'_> {
    #[inline]
    fn drop(&mut self) {
        // All is decided before anything is unlocked, so that nobody sees half of a transaction.
        for (_, mode, table) in &self.scope.tables {
            if *mode == Mode::Exclusive {
                // SAFETY: `begin` locked it exclusively, and references into it borrow this transaction.
                unsafe { table.finish(self.committed) };
            }
        }
        for (_, mode, table) in self.scope.tables.iter().rev() {
            // SAFETY: `begin` locked it in this mode, and references into it borrow this transaction.
            unsafe { table.unlock(*mode) };
        }
    }
}
