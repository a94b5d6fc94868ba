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

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::lock_api::RawRwLock as _;
use parking_lot::{Mutex, RawRwLock};

use crate::store::{
    Conflicts, Counts, Failure, Group, Index, Number, Part, Rows, Scan, Scope, Session, Store, StoreError,
    StoreKey, StoreRow, Table, TableSpec, TxnResult,
};

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

/// What is touched only under a table's lock.
struct Contents<K, R> {
    rows: BTreeMap<K, R>,
    /// What the running transaction found under each key it changed, in the order of the changes. Empty when
    /// the lock is free.
    undo: Vec<(K, Option<R>)>,
    indexes: Vec<Arc<dyn KeptIndex<K, R>>>,
}

struct LockedTable<K, R> {
    /// Unique in the process; locks are taken in this order.
    number: u64,
    name: String,
    lock: RawRwLock,
    contents: UnsafeCell<Contents<K, R>>,
}

// SAFETY: `contents` is read only under the lock and written only under it held exclusively; keys and rows are
// themselves Send and Sync, and the kept indexes are.
unsafe impl<K: StoreKey, R: StoreRow> Sync for LockedTable<K, R> {}
// SAFETY: it owns what it holds, all of which is Send.
unsafe impl<K: StoreKey, R: StoreRow> Send for LockedTable<K, R> {}

impl<K: StoreKey, R: StoreRow> LockedTable<K, R> {
    fn missing(&self, key: &K) -> MutexAbort {
        MutexAbort::Missing { table: self.name.clone(), key: format!("{key:?}") }
    }

    /// The contents, to be read.
    #[inline]
    fn read<'t>(&'t self, tx: &'t MutexTxn<'_>) -> Result<&'t Contents<K, R>, MutexAbort> {
        if tx.holds(self.number).is_none() {
            return Err(MutexAbort::OutOfScope { table: self.name.clone(), access: "reading" });
        }
        // SAFETY: the transaction holds this very table's lock (numbers are unique) for as long as it lives;
        // the borrow of the transaction keeps it from being used for writing meanwhile.
        Ok(unsafe { &*self.contents.get() })
    }

    /// The contents, to be changed.
    #[inline]
    fn write<'t>(&'t self, tx: &'t mut MutexTxn<'_>) -> Result<&'t mut Contents<K, R>, MutexAbort> {
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
    fn keep_indexes(indexes: &[Arc<dyn KeptIndex<K, R>>], key: &K, before: Option<&R>, after: Option<&R>) {
        for index in indexes {
            // SAFETY: whoever changes rows holds the table's lock exclusively, which the index shares.
            unsafe { index.changed(key, before, after) };
        }
    }

    /// Changes a row that is there; `None` when it is not.
    #[inline]
    fn change(&mut self, key: &K, change: impl FnOnce(&mut R)) -> Option<()> {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Shared,
    Exclusive,
}

/// A table of whatever types, as a scope and a transaction's end see it.
trait Lockable: Send + Sync {
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

/// An index as its table sees it.
trait KeptIndex<K, R>: Send + Sync {
    /// A row came, went or changed.
    ///
    /// # Safety
    /// The caller holds the table's lock exclusively.
    unsafe fn changed(&self, key: &K, before: Option<&R>, after: Option<&R>);
}

/// Works out an entry's secondary key.
type Extract<X, K, R> = Box<dyn Fn(&K, &R) -> X + Send + Sync>;

struct Entries<X, K, R> {
    extract: Extract<X, K, R>,
    /// Primary keys by secondary key, each list in ascending order and never empty. Under the table's lock.
    entries: UnsafeCell<BTreeMap<X, Vec<K>>>,
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
        let entries = Arc::new(Entries { extract, entries: UnsafeCell::new(BTreeMap::new()) });
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
    table: Arc<LockedTable<K, R>>,
    part: PhantomData<fn() -> P>,
}

/// A table of the baseline.
pub type MutexTable<K, R> = MutexRows<K, R, Whole>;
/// A column group of a table of the baseline.
pub type MutexGroup<K, R, const I: usize> = MutexRows<K, R, PartOf<I>>;

impl<K, R, P> Clone for MutexRows<K, R, P> {
    fn clone(&self) -> Self {
        MutexRows { table: self.table.clone(), part: PhantomData }
    }
}

/// A secondary index of the baseline.
pub struct MutexIndex<X, K, R> {
    table: Arc<LockedTable<K, R>>,
    entries: Arc<Entries<X, K, R>>,
}

impl<X, K, R> Clone for MutexIndex<X, K, R> {
    fn clone(&self) -> Self {
        MutexIndex { table: self.table.clone(), entries: self.entries.clone() }
    }
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
    committed: bool,
}

impl<'a> MutexTxn<'a> {
    #[inline]
    fn begin(scope: &'a MutexScope) -> Self {
        for (_, mode, table) in &scope.tables {
            table.lock(*mode);
        }
        MutexTxn { scope, committed: false }
    }

    #[inline]
    fn holds(&self, number: u64) -> Option<Mode> {
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

impl Store for MutexStore {
    type Table<K: StoreKey, R: StoreRow> = MutexTable<K, R>;
    type Group<K: StoreKey, R: Part<I>, const I: usize> = MutexGroup<K, R, I>;
    type Index<X: StoreKey, K: StoreKey, R: StoreRow> = MutexIndex<X, K, R>;
    type Scope = MutexScope;
    type Session = MutexSession;
    type Txn<'a> = MutexTxn<'a>;
    type Abort = MutexAbort;

    fn table<K: StoreKey, R: StoreRow>(&self, spec: &TableSpec) -> Result<MutexTable<K, R>, StoreError> {
        let name = spec.name.clone();
        let mut names = self.names.lock();
        if names.contains(&name) {
            return Err(StoreError::Table { name, reason: "it exists already".into() });
        }
        names.push(name.clone());
        let contents = Contents { rows: BTreeMap::new(), undo: Vec::new(), indexes: Vec::new() };
        let table = Arc::new(LockedTable {
            // Relaxed: only uniqueness is asked of it.
            number: TABLES_MADE.fetch_add(1, Ordering::Relaxed),
            name,
            lock: RawRwLock::INIT,
            contents: UnsafeCell::new(contents),
        });
        Ok(MutexRows { table, part: PhantomData })
    }

    fn group<K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &MutexTable<K, R>,
    ) -> MutexGroup<K, R, I> {
        MutexRows { table: table.table.clone(), part: PhantomData }
    }

    fn index<X: StoreKey, K: StoreKey, R: StoreRow>(
        &self,
        table: &MutexTable<K, R>,
        name: &str,
        extract: fn(&K, &R) -> X,
    ) -> Result<MutexIndex<X, K, R>, StoreError> {
        self.add_index(table, name, Box::new(extract))
    }

    fn group_index<X: StoreKey, K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &MutexTable<K, R>,
        name: &str,
        extract: fn(&K, &R::Group) -> X,
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

/// The bounds as `BTreeMap::range` takes them, or `None` where it would panic: nothing can lie between them.
fn sound_bounds<K: Ord>(bounds: &impl RangeBounds<K>) -> Option<(Bound<&K>, Bound<&K>)> {
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
fn walk<I: DoubleEndedIterator>(mut items: I, scan: Scan, mut each: impl FnMut(I::Item) -> ControlFlow<()>) {
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
    fn add<N: Number>(
        &self,
        tx: &mut MutexTxn<'_>,
        key: &K,
        field: fn(&mut R::Group) -> &mut N,
        delta: N,
    ) -> Result<(), MutexAbort> {
        self.update(tx, key, |group| {
            let field = field(group);
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

#[cfg(test)]
mod tests {
    use super::*;

    crate::column_group! {
        #[derive(Clone, Copy, Debug, PartialEq)]
        struct Person {
            name: [u8; 3],
            age: u32,
        }
    }

    type People = MutexTable<u64, (Person, i64)>;

    fn people(store: &MutexStore) -> (People, MutexScope) {
        let table: People = store.table(&TableSpec::new("people")).unwrap();
        let scope = store.scope().writes::<u64, (Person, i64)>(&table);
        (table, scope)
    }

    fn all(table: &People, session: &mut MutexSession, scope: &MutexScope) -> Vec<(u64, (Person, i64))> {
        let rows = session.run(scope, |tx| {
            let mut rows = Vec::new();
            table.range(tx, .., Scan::ALL, |key, row| {
                rows.push((key, row));
                ControlFlow::Continue(())
            })?;
            Ok(rows)
        });
        rows.unwrap()
    }

    const ANN: Person = Person { name: *b"ann", age: 30 };
    const BOB: Person = Person { name: *b"bob", age: 40 };

    #[test]
    fn a_rollback_undoes_every_kind_of_change_and_the_indexes() {
        let store = MutexStore::new();
        let (table, scope) = people(&store);
        let by_name = store.index(&table, "by_name", |_, row: &(Person, i64)| row.0.name).unwrap();
        let money = store.group::<_, _, 1>(&table);
        let mut session = store.session().unwrap();
        let names = |session: &mut MutexSession| {
            let found = session.run(&scope, |tx| {
                let mut found = Vec::new();
                by_name.range(tx, .., Scan::ALL, |name, key| {
                    found.push((name, key));
                    ControlFlow::Continue(())
                })?;
                Ok(found)
            });
            found.unwrap()
        };
        session
            .run(&scope, |tx| {
                assert!(table.insert(tx, &1, (ANN, 5))?);
                assert!(table.insert(tx, &2, (BOB, 7))?);
                assert!(!table.insert(tx, &2, (ANN, 9))?);
                Ok(())
            })
            .unwrap();
        let before = all(&table, &mut session, &scope);
        assert_eq!(before, vec![(1, (ANN, 5)), (2, (BOB, 7))]);
        assert_eq!(names(&mut session), vec![(*b"ann", 1), (*b"bob", 2)]);
        let ended = session.run(&scope, |tx| {
            table.update(tx, &1, |row| row.0.name = *b"zoe")?;
            money.add(tx, &1, |money| money, 100)?;
            table.delete(tx, &2)?;
            table.insert(tx, &2, (ANN, 0))?;
            table.upsert(tx, &3, (BOB, 1))?;
            assert_eq!(money.need(tx, &1)?, 105);
            Err::<(), _>(Failure::Rollback)
        });
        assert_eq!(ended, Err(Failure::Rollback));
        assert_eq!(all(&table, &mut session, &scope), before);
        assert_eq!(names(&mut session), vec![(*b"ann", 1), (*b"bob", 2)]);
        session.run(&scope, |tx| Ok(table.update(tx, &2, |row| row.0.name = *b"ann")?)).unwrap();
        assert_eq!(names(&mut session), vec![(*b"ann", 1), (*b"ann", 2)]);
        assert_eq!(session.counts().user_rollbacks, 1);
    }

    #[test]
    fn a_panic_undoes_and_unlocks() {
        let store = MutexStore::new();
        let (table, scope) = people(&store);
        let mut session = store.session().unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = session.run(&scope, |tx| {
                table.insert(tx, &1, (ANN, 5))?;
                if table.get(tx, &1)?.is_some() {
                    panic!("on purpose");
                }
                Ok(())
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(all(&table, &mut session, &scope), vec![]);
    }

    #[test]
    fn what_the_scope_does_not_name_is_refused() {
        let store = MutexStore::new();
        let (table, _) = people(&store);
        let mut session = store.session().unwrap();
        let none = store.scope();
        let read = session.run(&none, |tx| Ok(table.get(tx, &1)?));
        assert!(matches!(read, Err(Failure::Abort(MutexAbort::OutOfScope { access: "reading", .. }))));
        let reads = store.scope().reads::<u64, (Person, i64)>(&table);
        let write = session.run(&reads, |tx| Ok(table.delete(tx, &1)?));
        assert!(matches!(write, Err(Failure::Abort(MutexAbort::OutOfScope { access: "changing", .. }))));
        let both = reads.writes::<u64, (Person, i64)>(&table).reads::<u64, (Person, i64)>(&table);
        assert_eq!(session.run(&both, |tx| Ok(table.delete(tx, &1)?)), Ok(false));
        let missing = session.run(&both, |tx| Ok(table.need(tx, &1)?)).unwrap_err();
        assert_eq!(missing.to_string(), "table people has no row 1");
    }

    #[test]
    fn ranges_take_any_bounds_either_way() {
        let store = MutexStore::new();
        let table: MutexTable<u64, u64> = store.table(&TableSpec::new("numbers")).unwrap();
        let scope = store.scope().writes::<u64, u64>(&table);
        let mut session = store.session().unwrap();
        let mut keys = |bounds: (Bound<u64>, Bound<u64>), scan: Scan| {
            let keys = session.run(&scope, |tx| {
                for key in [1, 2, 3, 5, 8] {
                    table.upsert(tx, &key, key)?;
                }
                let mut keys = Vec::new();
                table.range(tx, bounds, scan, |key, _| {
                    keys.push(key);
                    ControlFlow::Continue(())
                })?;
                Ok(keys)
            });
            keys.unwrap()
        };
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(keys((Included(2), Excluded(8)), Scan::ALL), [2, 3, 5]);
        assert_eq!(keys((Unbounded, Included(5)), Scan::last(2)), [5, 3]);
        assert_eq!(keys((Excluded(2), Unbounded), Scan::first(1)), [3]);
        assert_eq!(keys((Included(5), Included(2)), Scan::ALL), [0; 0]);
        assert_eq!(keys((Excluded(5), Excluded(5)), Scan::ALL), [0; 0]);
        assert_eq!(keys((Unbounded, Unbounded), Scan::first(0)), [0; 0]);
    }

    #[test]
    fn transfers_of_four_threads_between_two_tables_keep_the_total() {
        let store = MutexStore::new();
        let from: MutexTable<u64, i64> = store.table(&TableSpec::new("from")).unwrap();
        let to: MutexTable<u64, i64> = store.table(&TableSpec::new("to")).unwrap();
        // Named in different orders on purpose: the locks are taken in one order all the same.
        let there = store.scope().writes::<u64, i64>(&from).writes::<u64, i64>(&to);
        let back = store.scope().writes::<u64, i64>(&to).writes::<u64, i64>(&from);
        let mut session = store.session().unwrap();
        session
            .run(&there, |tx| {
                from.insert(tx, &0, 1000)?;
                to.insert(tx, &0, 0)?;
                Ok(())
            })
            .unwrap();
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let (from, to, store) = (&from, &to, &store);
                let (scope, step) = if thread % 2 == 0 { (&there, 1) } else { (&back, -1) };
                threads.spawn(move || {
                    let mut session = store.session().unwrap();
                    for turn in 0..500 {
                        let ended = session.run(scope, |tx| {
                            from.update(tx, &0, |balance| *balance -= step)?;
                            if turn % 5 == 0 {
                                return Err(Failure::Rollback);
                            }
                            to.update(tx, &0, |balance| *balance += step)?;
                            Ok(())
                        });
                        assert_eq!(ended.is_err(), turn % 5 == 0);
                    }
                });
            }
        });
        let sums = session.run(&there, |tx| Ok((from.need(tx, &0)?, to.need(tx, &0)?)));
        assert_eq!(sums.unwrap(), (1000, 0));
    }
}
