//! Secondary indexes of the baseline, which share the lock of their table.
//!
//! What it does not do: index rows that were there before it (an index is made of an empty table).

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{ControlFlow, RangeBounds};
use std::sync::Arc;

use super::rows::{sound_bounds, walk};
use super::scope::MutexTxn;
use super::table::LockedTable;
use super::{MutexAbort, MutexStore};
use crate::store::{Index, Scan, StoreKey, StoreRow};

/// An index as its table sees it.
pub(super) trait KeptIndex<K, R>: Send + Sync {
    /// A row came, went or changed.
    ///
    /// # Safety
    /// The caller holds the table's lock exclusively.
    unsafe fn changed(&self, key: &K, before: Option<&R>, after: Option<&R>);
}

/// Works out an entry's secondary key.
pub(super) type Extract<X, K, R> = Box<dyn Fn(&K, &R) -> X + Send + Sync>;

pub(super) struct Entries<X, K, R> {
    extract: Extract<X, K, R>,
    /// Primary keys by secondary key, each list in ascending order and never empty. Under the table's lock.
    entries: UnsafeCell<BTreeMap<X, Vec<K>>>,
}

impl<X, K, R> Entries<X, K, R> {
    /// The index of an empty table.
    pub(super) fn new(extract: Extract<X, K, R>) -> Self {
        Entries { extract, entries: UnsafeCell::new(BTreeMap::new()) }
    }
}

// SAFETY: `entries` is read only under the table's lock and written only under it held exclusively.
unsafe impl<X: StoreKey, K: StoreKey, R: StoreRow> Sync for Entries<X, K, R> {}
// SAFETY: it owns what it holds, all of which is Send.
unsafe impl<X: StoreKey, K: StoreKey, R: StoreRow> Send for Entries<X, K, R> {}

impl<X: StoreKey, K: StoreKey, R: StoreRow> KeptIndex<K, R> for Entries<X, K, R> {
    unsafe fn changed(&self, key: &K, before: Option<&R>, after: Option<&R>) {
        let before = before.map(|row| (self.extract)(key, row));
        let after = after.map(|row| (self.extract)(key, row));
        if before == after {
            return;
        }
        // SAFETY: the caller holds the table's lock exclusively.
        let entries = unsafe { &mut *self.entries.get() };
        if let Some(before) = before
            && let Entry::Occupied(mut entry) = entries.entry(before)
        {
            if let Ok(at) = entry.get().binary_search(key) {
                entry.get_mut().remove(at);
            }
            if entry.get().is_empty() {
                entry.remove();
            }
        }
        if let Some(after) = after {
            let keys = entries.entry(after).or_default();
            if let Err(at) = keys.binary_search(key) {
                keys.insert(at, key.clone());
            }
        }
    }
}

/// A secondary index of the baseline.
pub struct MutexIndex<X, K, R> {
    pub(super) table: Arc<LockedTable<K, R>>,
    pub(super) entries: Arc<Entries<X, K, R>>,
}

impl<X, K, R> Clone for MutexIndex<X, K, R> {
    fn clone(&self) -> Self {
        MutexIndex { table: self.table.clone(), entries: self.entries.clone() }
    }
}

impl<X: StoreKey, K: StoreKey, R: StoreRow> Index<MutexStore> for MutexIndex<X, K, R> {
    type Secondary = X;
    type Primary = K;

    #[inline]
    fn range(
        &self,
        tx: &mut MutexTxn<'_>,
        bounds: impl RangeBounds<X>,
        scan: Scan,
        mut each: impl FnMut(X, K) -> ControlFlow<()>,
    ) -> Result<(), MutexAbort> {
        self.table.read(tx)?;
        let Some(bounds) = sound_bounds(&bounds) else { return Ok(()) };
        // SAFETY: the check above has shown that the transaction holds the table's lock, which the index
        // shares; the borrow of the transaction keeps it from being used for writing meanwhile.
        let entries = unsafe { &*self.entries.entries.get() };
        let pairs =
            entries.range(bounds).flat_map(|(secondary, keys)| keys.iter().map(move |key| (secondary, key)));
        walk(pairs, scan, |(secondary, key)| each(secondary.clone(), key.clone()));
        Ok(())
    }
}
