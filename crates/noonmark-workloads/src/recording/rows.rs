//! The handles of tables and column groups: each operation is done, and told.
//!
//! A handle knows the spaces of the groups that it reads and writes; its values are rows or single groups, which
//! are rows of one group. So tables and column groups share all of this.
//!
//! Where a table has secondary indexes, an operation that may change an entry works out the entries before and
//! after, by reading what the index is made of, as the store within does to keep the index; see `index.rs`.
//!
//! What it does not do: number keys (the journal does), or note anything that was refused.

use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, Range, RangeBounds};

use noonmark::{Key as _, KeyBytes};

use super::Recording;
use super::index::{Entries, Indexes};
use super::slate::{self, Slate};
use crate::history::{Key, Value};
use crate::stamp::{Stamped, WriteId};
use crate::store::{
    Column, Field, Found, GROUPS_MAX, Group, Number, Rows, Scan, Store, StoreGroup, StoreKey, StoreRow, Table,
};

/// A place, while it is put together: a space, then a key's bytes.
pub(super) fn place(space: u16, key: &[u8]) -> KeyBytes {
    let mut bytes = KeyBytes::new();
    bytes.push(&space.to_be_bytes());
    bytes.push(key);
    bytes
}

/// How far a range was read.
pub(super) struct Extent {
    /// Before the first and behind the last key, as bytes: the upper end is not included.
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
    scan: Scan,
    rows: usize,
    broken: bool,
}

impl Extent {
    pub(super) fn new(low: Option<Vec<u8>>, high: Option<Vec<u8>>, scan: Scan) -> Self {
        Extent { low, high, scan, rows: 0, broken: false }
    }

    /// One more was found; `first` and `after` are the bytes just before and just after it. Whoever stops there has
    /// read no further.
    pub(super) fn found(&mut self, first: Vec<u8>, after: Vec<u8>, flow: ControlFlow<()>) -> ControlFlow<()> {
        self.rows += 1;
        self.broken = flow.is_break() || self.scan.limit.is_some_and(|limit| self.rows >= limit);
        if self.broken {
            match self.scan.reverse {
                true => self.low = Some(first),
                false => self.high = Some(after),
            }
        }
        flow
    }

    /// Notes the range down, in one space.
    pub(super) fn tell(&self, slate: &mut Slate, space: u16, found: Vec<(Key, Value)>) {
        if self.scan.limit == Some(0) {
            return;
        }
        let low = place(space, self.low.as_deref().unwrap_or_default());
        let high = match &self.high {
            Some(high) => place(space, high),
            None => place(space + 1, &[]),
        };
        slate.scan(low.as_slice(), high.as_slice(), found);
    }
}

/// The bytes just after a key's own: no other key comes between.
fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

fn bytes_of<K: StoreKey>(key: &K) -> Vec<u8> {
    key.with_bytes(<[u8]>::to_vec)
}

/// A table or a column group of it: `V` is what is read and written, `T` the handle within.
pub struct RecordingRows<S: Store, V, T: Rows<S>> {
    pub(super) rows: T,
    /// One for each column group.
    pub(super) spaces: Range<u16>,
    /// The table's secondary indexes.
    pub(super) kept: Indexes<S, T::Key>,
    value: PhantomData<fn() -> V>,
}

impl<S: Store, V, T: Rows<S>> Clone for RecordingRows<S, V, T> {
    fn clone(&self) -> Self {
        RecordingRows::new(self.rows.clone(), self.spaces.clone(), self.kept.clone())
    }
}

impl<S: Store, V, T: Rows<S>> RecordingRows<S, V, T> {
    pub(super) fn new(rows: T, spaces: Range<u16>, kept: Indexes<S, T::Key>) -> Self {
        RecordingRows { rows, spaces, kept, value: PhantomData }
    }

    /// Notes one step for each of the groups.
    fn tell(&self, key: &T::Key, mut step: impl FnMut(&mut Slate, usize, &[u8])) {
        slate::with(|slate| {
            key.with_bytes(|key| {
                for (group, space) in self.spaces.clone().enumerate() {
                    step(slate, group, place(space, key).as_slice());
                }
            });
        });
    }

    fn tell_read(&self, key: &T::Key, ids: Option<&[WriteId; GROUPS_MAX]>) {
        self.tell(key, |slate, group, place| slate.read(place, ids.map(|ids| ids[group])));
    }

    fn tell_write(&self, key: &T::Key, id: Option<WriteId>) {
        self.tell(key, |slate, _, place| slate.write(place, id));
    }

    fn tell_update(&self, key: &T::Key, found: &[WriteId; GROUPS_MAX], id: WriteId) {
        self.tell(key, |slate, group, place| {
            slate.read(place, Some(found[group]));
            slate.write(place, Some(id));
        });
    }

    /// Does what may change entries of secondary indexes, and tells how they changed.
    fn keeping_indexes<A>(
        &self,
        tx: &mut S::Txn<'_>,
        key: &T::Key,
        change: impl FnOnce(&mut S::Txn<'_>) -> Result<A, S::Abort>,
    ) -> Result<A, S::Abort> {
        let kept = self.kept.read();
        if !kept.iter().any(|index| index.depends_on(&self.spaces)) {
            return change(tx);
        }
        let before = Entries::of(&kept, &self.spaces, tx, key)?;
        let answer = change(tx)?;
        let after = Entries::of(&kept, &self.spaces, tx, key)?;
        before.tell_change(&after);
        Ok(answer)
    }
}

impl<S, V, T> Rows<Recording<S>> for RecordingRows<S, V, T>
where
    S: Store,
    V: StoreRow,
    T: Rows<S, Value = V::Stamped>,
{
    type Key = T::Key;
    type Value = V;

    fn get(&self, tx: &mut S::Txn<'_>, key: &T::Key) -> Result<Option<V>, S::Abort> {
        let row = self.rows.get(tx, key)?.map(V::unstamped);
        self.tell_read(key, row.as_ref().map(|(_, ids)| ids));
        Ok(row.map(|(row, _)| row))
    }

    fn need(&self, tx: &mut S::Txn<'_>, key: &T::Key) -> Result<V, S::Abort> {
        let (row, ids) = V::unstamped(self.rows.need(tx, key)?);
        self.tell_read(key, Some(&ids));
        Ok(row)
    }

    fn update(&self, tx: &mut S::Txn<'_>, key: &T::Key, change: impl FnOnce(&mut V)) -> Result<(), S::Abort> {
        let mut change = Some(change);
        self.update_by(tx, key, &mut |row| change.take().into_iter().for_each(|change| change(row)))
    }

    fn write(&self, tx: &mut S::Txn<'_>, key: &T::Key, value: V) -> Result<bool, S::Abort> {
        let id = slate::new_id();
        self.keeping_indexes(tx, key, |tx| {
            let is_there = self.rows.write(tx, key, value.stamped(id))?;
            if is_there {
                self.tell_write(key, Some(id));
            } else {
                self.tell_read(key, None);
            }
            Ok(is_there)
        })
    }

    fn look_up<'a, 'k>(&self, tx: &mut S::Txn<'a>, keys: &'k [T::Key]) -> S::Found<'a, 'k, T::Key> {
        self.rows.look_up(tx, keys)
    }

    fn get_found(
        &self,
        tx: &mut S::Txn<'_>,
        found: &S::Found<'_, '_, T::Key>,
        some: Range<usize>,
        mut each: impl FnMut(usize, Option<V>),
    ) -> Result<(), S::Abort> {
        let keys = &found.keys()[some.clone()];
        self.rows.get_found(tx, found, some, |at, stamped| self.see(&keys[at], at, stamped, &mut each))
    }

    fn update_found(
        &self,
        tx: &mut S::Txn<'_>,
        found: &S::Found<'_, '_, T::Key>,
        some: Range<usize>,
        mut each: impl FnMut(usize, &mut V),
    ) -> Result<(), S::Abort> {
        let keys = &found.keys()[some.clone()];
        if self.changes_indexes() {
            return self.update_in_turn(tx, keys, &mut each);
        }
        self.rows.update_found(tx, found, some, |at, stamped| self.change(&keys[at], at, stamped, &mut each))
    }

    fn get_many(
        &self,
        tx: &mut S::Txn<'_>,
        keys: &[T::Key],
        mut each: impl FnMut(usize, Option<V>),
    ) -> Result<(), S::Abort> {
        self.get_each(tx, keys, &mut each)
    }

    fn update_many(
        &self,
        tx: &mut S::Txn<'_>,
        keys: &[T::Key],
        mut each: impl FnMut(usize, &mut V),
    ) -> Result<(), S::Abort> {
        self.update_each(tx, keys, &mut each)
    }

    fn range(
        &self,
        tx: &mut S::Txn<'_>,
        bounds: impl RangeBounds<T::Key>,
        scan: Scan,
        mut each: impl FnMut(T::Key, V) -> ControlFlow<()>,
    ) -> Result<(), S::Abort> {
        let low = match bounds.start_bound() {
            Bound::Included(key) => Some(bytes_of(key)),
            Bound::Excluded(key) => Some(after(bytes_of(key))),
            Bound::Unbounded => None,
        };
        let high = match bounds.end_bound() {
            Bound::Included(key) => Some(after(bytes_of(key))),
            Bound::Excluded(key) => Some(bytes_of(key)),
            Bound::Unbounded => None,
        };
        let bounds = (bounds.start_bound().cloned(), bounds.end_bound().cloned());
        self.range_by(tx, bounds, Extent::new(low, high, scan), &mut each)
    }
}

/// What takes closures, with closures that are not told apart: a recorded run need not be fast, and so each of these
/// is compiled once for a table instead of once for each transaction that calls it.
impl<S, V, T> RecordingRows<S, V, T>
where
    S: Store,
    V: StoreRow,
    T: Rows<S, Value = V::Stamped>,
{
    fn update_by(
        &self,
        tx: &mut S::Txn<'_>,
        key: &T::Key,
        change: &mut dyn FnMut(&mut V),
    ) -> Result<(), S::Abort> {
        let id = slate::new_id();
        let mut found = [0; GROUPS_MAX];
        self.keeping_indexes(tx, key, |tx| {
            self.rows.update(tx, key, |stamped| found = changed(stamped, id, change))?;
            self.tell_update(key, &found, id);
            Ok(())
        })
    }

    fn get_each(
        &self,
        tx: &mut S::Txn<'_>,
        keys: &[T::Key],
        each: &mut dyn FnMut(usize, Option<V>),
    ) -> Result<(), S::Abort> {
        self.rows.get_many(tx, keys, |at, stamped| self.see(&keys[at], at, stamped, each))
    }

    /// Tells of one of several rows that are read together.
    fn see(
        &self,
        key: &T::Key,
        at: usize,
        stamped: Option<V::Stamped>,
        each: &mut dyn FnMut(usize, Option<V>),
    ) {
        let row = stamped.map(V::unstamped);
        self.tell_read(key, row.as_ref().map(|(_, ids)| ids));
        each(at, row.map(|(row, _)| row));
    }

    fn update_each(
        &self,
        tx: &mut S::Txn<'_>,
        keys: &[T::Key],
        each: &mut dyn FnMut(usize, &mut V),
    ) -> Result<(), S::Abort> {
        if self.changes_indexes() {
            return self.update_in_turn(tx, keys, each);
        }
        self.rows.update_many(tx, keys, |at, stamped| self.change(&keys[at], at, stamped, each))
    }

    /// Whether an update may change an entry of an index: entries are worked out row by row.
    fn changes_indexes(&self) -> bool {
        self.kept.read().iter().any(|index| index.depends_on(&self.spaces))
    }

    fn update_in_turn(
        &self,
        tx: &mut S::Txn<'_>,
        keys: &[T::Key],
        each: &mut dyn FnMut(usize, &mut V),
    ) -> Result<(), S::Abort> {
        let mut rows = keys.iter().enumerate();
        rows.try_for_each(|(at, key)| self.update_by(tx, key, &mut |row| each(at, row)))
    }

    /// Changes one of several rows that are updated together, and tells of it.
    fn change(&self, key: &T::Key, at: usize, stamped: &mut V::Stamped, each: &mut dyn FnMut(usize, &mut V)) {
        let id = slate::new_id();
        let found = changed(stamped, id, &mut |row: &mut V| each(at, row));
        self.tell_update(key, &found, id);
    }

    fn range_by(
        &self,
        tx: &mut S::Txn<'_>,
        bounds: (Bound<T::Key>, Bound<T::Key>),
        mut extent: Extent,
        each: &mut dyn FnMut(T::Key, V) -> ControlFlow<()>,
    ) -> Result<(), S::Abort> {
        let mut found: Vec<(Vec<u8>, [WriteId; GROUPS_MAX])> = Vec::new();
        self.rows.range(tx, bounds, extent.scan, |key, stamped| {
            let (row, ids) = V::unstamped(stamped);
            let bytes = bytes_of(&key);
            let flow = extent.found(bytes.clone(), after(bytes.clone()), each(key, row));
            found.push((bytes, ids));
            flow
        })?;
        slate::with(|slate| {
            for (group, space) in self.spaces.clone().enumerate() {
                let pair = |(key, ids): &(Vec<u8>, [WriteId; GROUPS_MAX])| {
                    (slate.key(place(space, key).as_slice()), Value(ids[group]))
                };
                let found = found.iter().map(pair).collect();
                extent.tell(slate, space, found);
            }
        });
        Ok(())
    }
}

/// Changes a row, which becomes what write `id` made; answers what it was.
fn changed<V: StoreRow>(
    stamped: &mut V::Stamped,
    id: WriteId,
    change: &mut dyn FnMut(&mut V),
) -> [WriteId; GROUPS_MAX] {
    let (mut row, found) = V::unstamped(stamped.clone());
    change(&mut row);
    *stamped = row.stamped(id);
    found
}

impl<S, V, T> Table<Recording<S>> for RecordingRows<S, V, T>
where
    S: Store,
    V: StoreRow,
    T: Table<S, Value = V::Stamped>,
{
    fn insert(&self, tx: &mut S::Txn<'_>, key: &T::Key, row: V) -> Result<bool, S::Abort> {
        let id = slate::new_id();
        let is_new = self.keeping_indexes(tx, key, |tx| {
            let is_new = self.rows.insert(tx, key, row.stamped(id))?;
            if is_new {
                self.tell_read(key, None);
                self.tell_write(key, Some(id));
            }
            Ok(is_new)
        })?;
        if !is_new {
            // It found a row, and so depends on whoever made it: look who that was.
            self.get(tx, key)?;
        }
        Ok(is_new)
    }

    fn upsert(&self, tx: &mut S::Txn<'_>, key: &T::Key, row: V) -> Result<(), S::Abort> {
        let id = slate::new_id();
        self.keeping_indexes(tx, key, |tx| {
            self.rows.upsert(tx, key, row.stamped(id))?;
            self.tell_write(key, Some(id));
            Ok(())
        })
    }

    fn delete(&self, tx: &mut S::Txn<'_>, key: &T::Key) -> Result<bool, S::Abort> {
        self.keeping_indexes(tx, key, |tx| {
            let was_there = self.rows.delete(tx, key)?;
            if was_there {
                self.tell_write(key, None);
            } else {
                self.tell_read(key, None);
            }
            Ok(was_there)
        })
    }
}

impl<S, G, T> Group<Recording<S>> for RecordingRows<S, G, T>
where
    S: Store,
    G: StoreGroup,
    T: Group<S, Value = Stamped<G>>,
{
    fn add<N: Number + Field>(
        &self,
        tx: &mut S::Txn<'_>,
        key: &T::Key,
        column: Column<G, N>,
        delta: N,
    ) -> Result<(), S::Abort> {
        self.apply(tx, key, move |value| {
            let field = column.field()(value);
            *field = field.plus(delta);
        })
    }

    fn apply(
        &self,
        tx: &mut S::Txn<'_>,
        key: &T::Key,
        change: impl Fn(&mut G) + Copy + Send + 'static,
    ) -> Result<(), S::Abort> {
        let id = slate::new_id();
        self.keeping_indexes(tx, key, |tx| {
            self.tell(key, |slate, _, place| slate.update_at_commit(place, id));
            self.rows.apply(tx, key, move |stamped: &mut Stamped<G>| {
                change(&mut stamped.value);
                slate::applied(id, stamped.id);
                stamped.id = id;
            })
        })
    }
}
