//! A table of the baseline: its rows, its undo log and its indexes under one lock.
//!
//! What holds is said in the module above. The lock is a raw one, since a transaction holds it from its beginning
//! to its end and not for the length of a borrow; so the two ways to the contents, [`LockedTable::read`] and
//! [`LockedTable::write`], ask the transaction for it each time.
//!
//! What it does not do: take or give back its lock by itself (the scope does).

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RawRwLock;
use parking_lot::lock_api::RawRwLock as _;

use super::MutexAbort;
use super::index::KeptIndex;
use super::scope::{Lockable, Mode, MutexTxn};
use crate::store::{StoreKey, StoreRow};

/// What is touched only under a table's lock.
pub(super) struct Contents<K, R> {
    pub(super) rows: BTreeMap<K, R>,
    /// What the running transaction found under each key it changed, in the order of the changes. Empty when
    /// the lock is free.
    pub(super) undo: Vec<(K, Option<R>)>,
    pub(super) indexes: Vec<Arc<dyn KeptIndex<K, R>>>,
}

pub(super) struct LockedTable<K, R> {
    /// Unique in the process; locks are taken in this order.
    pub(super) number: u64,
    pub(super) name: String,
    lock: RawRwLock,
    contents: UnsafeCell<Contents<K, R>>,
}

// SAFETY: `contents` is read only under the lock and written only under it held exclusively; keys and rows are
// themselves Send and Sync, and the kept indexes are.
unsafe impl<K: StoreKey, R: StoreRow> Sync for LockedTable<K, R> {}
// SAFETY: it owns what it holds, all of which is Send.
unsafe impl<K: StoreKey, R: StoreRow> Send for LockedTable<K, R> {}

impl<K: StoreKey, R: StoreRow> LockedTable<K, R> {
    /// An empty table.
    pub(super) fn new(number: u64, name: String) -> Self {
        let contents = Contents { rows: BTreeMap::new(), undo: Vec::new(), indexes: Vec::new() };
        LockedTable { number, name, lock: RawRwLock::INIT, contents: UnsafeCell::new(contents) }
    }

    pub(super) fn missing(&self, key: &K) -> MutexAbort {
        MutexAbort::Missing { table: self.name.clone(), key: format!("{key:?}") }
    }

    /// The contents, to be read.
    #[inline]
    pub(super) fn read<'t>(&'t self, tx: &'t MutexTxn<'_>) -> Result<&'t Contents<K, R>, MutexAbort> {
        if tx.holds(self.number).is_none() {
            return Err(MutexAbort::OutOfScope { table: self.name.clone(), access: "reading" });
        }
        // SAFETY: the transaction holds this very table's lock (numbers are unique) for as long as it lives;
        // the borrow of the transaction keeps it from being used for writing meanwhile.
        Ok(unsafe { &*self.contents.get() })
    }

    /// The contents, to be changed.
    #[inline]
    pub(super) fn write<'t>(
        &'t self,
        tx: &'t mut MutexTxn<'_>,
    ) -> Result<&'t mut Contents<K, R>, MutexAbort> {
        if tx.holds(self.number) != Some(Mode::Exclusive) {
            return Err(MutexAbort::OutOfScope { table: self.name.clone(), access: "changing" });
        }
        // SAFETY: as in `read`, and the lock is held exclusively; the exclusive borrow of the transaction
        // makes this the only reference.
        Ok(unsafe { &mut *self.contents.get() })
    }
}

impl<K: StoreKey, R: StoreRow> Contents<K, R> {
    /// Tells the indexes of a change. With none, which is common, it costs one comparison.
    #[inline]
    pub(super) fn keep_indexes(
        indexes: &[Arc<dyn KeptIndex<K, R>>],
        key: &K,
        before: Option<&R>,
        after: Option<&R>,
    ) {
        for index in indexes {
            // SAFETY: whoever changes rows holds the table's lock exclusively, which the index shares.
            unsafe { index.changed(key, before, after) };
        }
    }

    /// Changes a row that is there; `None` when it is not.
    #[inline]
    pub(super) fn change(&mut self, key: &K, change: impl FnOnce(&mut R)) -> Option<()> {
        let row = self.rows.get_mut(key)?;
        self.undo.push((key.clone(), Some(row.clone())));
        change(row);
        if !self.indexes.is_empty() {
            let before = self.undo.last().and_then(|(_, before)| before.as_ref());
            Self::keep_indexes(&self.indexes, key, before, Some(row));
        }
        Some(())
    }

    fn roll_back(&mut self) {
        while let Some((key, before)) = self.undo.pop() {
            match before {
                Some(row) => {
                    Self::keep_indexes(&self.indexes, &key, self.rows.get(&key), Some(&row));
                    self.rows.insert(key, row);
                }
                None => {
                    let after = self.rows.remove(&key);
                    Self::keep_indexes(&self.indexes, &key, after.as_ref(), None);
                }
            }
        }
    }
}

impl<K: StoreKey, R: StoreRow> Lockable for LockedTable<K, R> {
    fn lock(&self, mode: Mode) {
        match mode {
            Mode::Shared => self.lock.lock_shared(),
            Mode::Exclusive => self.lock.lock_exclusive(),
        }
    }

    unsafe fn finish(&self, commit: bool) {
        // SAFETY: the caller holds the lock exclusively and has no other reference.
        let contents = unsafe { &mut *self.contents.get() };
        if commit {
            contents.undo.clear();
        } else {
            contents.roll_back();
        }
    }

    unsafe fn unlock(&self, mode: Mode) {
        // SAFETY: the caller holds the lock in this mode.
        unsafe {
            match mode {
                Mode::Shared => self.lock.unlock_shared(),
                Mode::Exclusive => self.lock.unlock_exclusive(),
            }
        }
    }
}
