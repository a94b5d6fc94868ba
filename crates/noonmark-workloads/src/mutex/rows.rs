//! What a transaction does to the rows of a table of the baseline, and to one column group of them.
//!
//! What it does not do: anything without the lock, for which each operation asks its transaction.

use std::collections::btree_map::Entry;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, Range, RangeBounds};
use std::sync::Arc;

use super::scope::MutexTxn;
use super::table::{Contents, LockedTable};
use super::{MutexAbort, MutexStore};
use crate::store::{Column, Field, Group, Number, Part, Rows, Scan, Store, StoreKey, StoreRow, Table};

/// Which part of a row a handle is for. Not for use outside; it appears in the names of the handles.
pub trait Projection<R>: Send + Sync + 'static {
    /// The part.
    type Value: Clone + Send + Sync + 'static;
    /// The part, to be read.
    fn of(row: &R) -> &Self::Value;
    /// The part, to be changed.
    fn of_mut(row: &mut R) -> &mut Self::Value;
}

/// The projection that is the whole row.
pub struct Whole;

/// The projection on column group `I`.
pub struct PartOf<const I: usize>;

impl<R: StoreRow> Projection<R> for Whole {
    type Value = R;
    #[inline(always)]
    fn of(row: &R) -> &R {
        row
    }
    #[inline(always)]
    fn of_mut(row: &mut R) -> &mut R {
        row
    }
}

impl<R: Part<I>, const I: usize> Projection<R> for PartOf<I> {
    type Value = R::Group;
    #[inline(always)]
    fn of(row: &R) -> &R::Group {
        row.part()
    }
    #[inline(always)]
    fn of_mut(row: &mut R) -> &mut R::Group {
        row.part_mut()
    }
}

/// A handle of a table ([`MutexTable`]) or of one of its column groups ([`MutexGroup`]).
pub struct MutexRows<K, R, P> {
    pub(super) table: Arc<LockedTable<K, R>>,
    part: PhantomData<fn() -> P>,
}

impl<K, R, P> MutexRows<K, R, P> {
    pub(super) fn new(table: Arc<LockedTable<K, R>>) -> Self {
        MutexRows { table, part: PhantomData }
    }
}

/// A table of the baseline.
pub type MutexTable<K, R> = MutexRows<K, R, Whole>;
/// A column group of a table of the baseline.
pub type MutexGroup<K, R, const I: usize> = MutexRows<K, R, PartOf<I>>;

impl<K, R, P> Clone for MutexRows<K, R, P> {
    fn clone(&self) -> Self {
        MutexRows::new(self.table.clone())
    }
}

/// The bounds as `BTreeMap::range` takes them, or `None` where it would panic: nothing can lie between them.
pub(super) fn sound_bounds<K: Ord>(bounds: &impl RangeBounds<K>) -> Option<(Bound<&K>, Bound<&K>)> {
    let (start, end) = (bounds.start_bound(), bounds.end_bound());
    let sound = match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start <= end,
        (Bound::Included(start), Bound::Excluded(end))
        | (Bound::Excluded(start), Bound::Included(end))
        | (Bound::Excluded(start), Bound::Excluded(end)) => start < end,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
    };
    sound.then_some((start, end))
}

/// Calls `each` on what `items` yields, from either end, up to the limit.
#[inline]
pub(super) fn walk<I: DoubleEndedIterator>(
    mut items: I,
    scan: Scan,
    mut each: impl FnMut(I::Item) -> ControlFlow<()>,
) {
    let mut left = scan.limit.unwrap_or(usize::MAX);
    while left > 0 {
        let item = if scan.reverse { items.next_back() } else { items.next() };
        let Some(item) = item else { return };
        if each(item).is_break() {
            return;
        }
        left -= 1;
    }
}

impl<K: StoreKey, R: StoreRow, P: Projection<R>> Rows<MutexStore> for MutexRows<K, R, P> {
    type Key = K;
    type Value = P::Value;

    #[inline]
    fn get(&self, tx: &mut MutexTxn<'_>, key: &K) -> Result<Option<P::Value>, MutexAbort> {
        Ok(self.table.read(tx)?.rows.get(key).map(|row| P::of(row).clone()))
    }

    #[inline]
    fn need(&self, tx: &mut MutexTxn<'_>, key: &K) -> Result<P::Value, MutexAbort> {
        self.get(tx, key)?.ok_or_else(|| self.table.missing(key))
    }

    #[inline]
    fn update(
        &self,
        tx: &mut MutexTxn<'_>,
        key: &K,
        change: impl FnOnce(&mut P::Value),
    ) -> Result<(), MutexAbort> {
        let changed = self.table.write(tx)?.change(key, |row| change(P::of_mut(row)));
        changed.ok_or_else(|| self.table.missing(key))
    }

    #[inline]
    fn write(&self, tx: &mut MutexTxn<'_>, key: &K, value: P::Value) -> Result<bool, MutexAbort> {
        Ok(self.table.write(tx)?.change(key, |row| *P::of_mut(row) = value).is_some())
    }

    #[inline]
    fn look_up<'a, 'k>(
        &self,
        _: &mut <MutexStore as Store>::Txn<'a>,
        keys: &'k [K],
    ) -> <MutexStore as Store>::Found<'a, 'k, K> {
        keys
    }

    #[inline]
    fn get_found(
        &self,
        tx: &mut MutexTxn<'_>,
        found: &&[K],
        some: Range<usize>,
        each: impl FnMut(usize, Option<P::Value>),
    ) -> Result<(), MutexAbort> {
        self.get_many(tx, &found[some], each)
    }

    #[inline]
    fn update_found(
        &self,
        tx: &mut MutexTxn<'_>,
        found: &&[K],
        some: Range<usize>,
        each: impl FnMut(usize, &mut P::Value),
    ) -> Result<(), MutexAbort> {
        self.update_many(tx, &found[some], each)
    }

    #[inline]
    fn get_many(
        &self,
        tx: &mut MutexTxn<'_>,
        keys: &[K],
        mut each: impl FnMut(usize, Option<P::Value>),
    ) -> Result<(), MutexAbort> {
        let contents = self.table.read(tx)?;
        for (at, key) in keys.iter().enumerate() {
            each(at, contents.rows.get(key).map(|row| P::of(row).clone()));
        }
        Ok(())
    }

    #[inline]
    fn update_many(
        &self,
        tx: &mut MutexTxn<'_>,
        keys: &[K],
        mut each: impl FnMut(usize, &mut P::Value),
    ) -> Result<(), MutexAbort> {
        let contents = self.table.write(tx)?;
        for (at, key) in keys.iter().enumerate() {
            let changed = contents.change(key, |row| each(at, P::of_mut(row)));
            changed.ok_or_else(|| self.table.missing(key))?;
        }
        Ok(())
    }

    #[inline]
    fn range(
        &self,
        tx: &mut MutexTxn<'_>,
        bounds: impl RangeBounds<K>,
        scan: Scan,
        mut each: impl FnMut(K, P::Value) -> ControlFlow<()>,
    ) -> Result<(), MutexAbort> {
        let contents = self.table.read(tx)?;
        if let Some(bounds) = sound_bounds(&bounds) {
            walk(contents.rows.range(bounds), scan, |(key, row)| each(key.clone(), P::of(row).clone()));
        }
        Ok(())
    }
}

impl<K: StoreKey, R: StoreRow> Table<MutexStore> for MutexTable<K, R> {
    #[inline]
    fn insert(&self, tx: &mut MutexTxn<'_>, key: &K, row: R) -> Result<bool, MutexAbort> {
        let contents = self.table.write(tx)?;
        let Entry::Vacant(entry) = contents.rows.entry(key.clone()) else { return Ok(false) };
        contents.undo.push((key.clone(), None));
        let row = entry.insert(row);
        Contents::keep_indexes(&contents.indexes, key, None, Some(row));
        Ok(true)
    }

    #[inline]
    fn upsert(&self, tx: &mut MutexTxn<'_>, key: &K, row: R) -> Result<(), MutexAbort> {
        let contents = self.table.write(tx)?;
        let before = contents.rows.insert(key.clone(), row);
        Contents::keep_indexes(&contents.indexes, key, before.as_ref(), contents.rows.get(key));
        contents.undo.push((key.clone(), before));
        Ok(())
    }

    #[inline]
    fn delete(&self, tx: &mut MutexTxn<'_>, key: &K) -> Result<bool, MutexAbort> {
        let contents = self.table.write(tx)?;
        let Some(before) = contents.rows.remove(key) else { return Ok(false) };
        Contents::keep_indexes(&contents.indexes, key, Some(&before), None);
        contents.undo.push((key.clone(), Some(before)));
        Ok(true)
    }
}

impl<K: StoreKey, R: Part<I>, const I: usize> Group<MutexStore> for MutexGroup<K, R, I> {
    #[inline]
    fn add<N: Number + Field>(
        &self,
        tx: &mut MutexTxn<'_>,
        key: &K,
        column: Column<R::Group, N>,
        delta: N,
    ) -> Result<(), MutexAbort> {
        self.update(tx, key, |group| {
            let field = column.field()(group);
            *field = field.plus(delta);
        })
    }

    #[inline]
    fn apply(
        &self,
        tx: &mut MutexTxn<'_>,
        key: &K,
        change: impl Fn(&mut R::Group) + Copy + Send + 'static,
    ) -> Result<(), MutexAbort> {
        self.update(tx, key, change)
    }
}
