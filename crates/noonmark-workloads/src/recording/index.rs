//! Secondary indexes: which entries a transaction added and took away, and which it read.
//!
//! An entry is a key of the history by itself, in a space of its index: the bytes of the secondary key, then those
//! of the primary one, in the order of the index. What it holds is that it is there.
//!
//! What it does not do: keep the index. The store within does, and it is what is being checked: entries are told
//! from the rows, as they should be, and read from the index, as they are.

use std::ops::{Bound, ControlFlow, Range, RangeBounds};
use std::sync::Arc;

use noonmark::KeyBytes;
use parking_lot::RwLock;

use super::Recording;
use super::rows::{Extent, RecordingRows, place};
use super::slate;
use crate::history::Value;
use crate::store::{Index, Rows, Scan, Store, StoreKey, StoreRow, Table};

/// What an entry holds.
const PRESENT: i64 = 1;

/// Works out the entry of a row as it is now, `None` if there is no row.
type EntryOf<S, K> = Box<
    dyn Fn(&mut <S as Store>::Txn<'_>, &K) -> Result<Option<KeyBytes>, <S as Store>::Abort> + Send + Sync,
>;

/// An index that a table has.
pub struct Kept<S: Store, K> {
    space: u16,
    /// The spaces of the groups that it is made of.
    made_of: Range<u16>,
    entry: EntryOf<S, K>,
}

/// The indexes of a table, which all its handles share.
pub(super) type Indexes<S, K> = Arc<RwLock<Vec<Kept<S, K>>>>;

impl<S: Store, K: StoreKey> Kept<S, K> {
    /// Whether a change of these groups may change an entry.
    pub(super) fn depends_on(&self, spaces: &Range<u16>) -> bool {
        self.made_of.start < spaces.end && spaces.start < self.made_of.end
    }
}

/// The bytes of an entry.
fn entry_bytes<X: StoreKey, K: StoreKey>(secondary: &X, primary: &K) -> KeyBytes {
    let mut bytes = KeyBytes::new();
    secondary.write_delimited(&mut bytes);
    primary.write_delimited(&mut bytes);
    bytes
}

/// The entries of one row, in the indexes that an operation may change.
pub(super) struct Entries(Vec<(u16, Option<KeyBytes>)>);

impl Entries {
    pub(super) fn of<S: Store, K: StoreKey>(
        kept: &[Kept<S, K>],
        spaces: &Range<u16>,
        tx: &mut S::Txn<'_>,
        key: &K,
    ) -> Result<Self, S::Abort> {
        let affected = kept.iter().filter(|index| index.depends_on(spaces));
        let entries = affected.map(|index| Ok((index.space, (index.entry)(tx, key)?)));
        Ok(Entries(entries.collect::<Result<_, S::Abort>>()?))
    }

    /// Notes what was taken away and what was added.
    pub(super) fn tell_change(&self, after: &Entries) {
        for ((space, before), (_, after)) in self.0.iter().zip(&after.0) {
            if before.as_ref().map(KeyBytes::as_slice) == after.as_ref().map(KeyBytes::as_slice) {
                continue;
            }
            slate::with(|slate| {
                if let Some(before) = before {
                    slate.write(place(*space, before.as_slice()).as_slice(), None);
                }
                if let Some(after) = after {
                    slate.write(place(*space, after.as_slice()).as_slice(), Some(PRESENT));
                }
            });
        }
    }
}

impl<S: Store> Recording<S> {
    /// Takes an index of a table into the record; `rows` is what it is made of, in these spaces.
    pub(super) fn keep<X, K, R, I, T>(
        &self,
        index: I,
        table: &RecordingRows<S, R, S::Table<K, R::Stamped>>,
        rows: &T,
        made_of: Range<u16>,
        name: &str,
        key_of: impl Fn(&K, T::Value) -> X + Send + Sync + 'static,
    ) -> RecordingIndex<I>
    where
        X: StoreKey,
        K: StoreKey,
        R: StoreRow,
        I: Index<S, Secondary = X, Primary = K>,
        T: Rows<S, Key = K>,
        S::Table<K, R::Stamped>: Table<S, Key = K>,
    {
        let space = self.journal.add_spaces::<(X, K)>(name, [None]).start;
        let rows = rows.clone();
        let entry: EntryOf<S, K> = Box::new(move |tx, key| {
            let row = rows.get(tx, key)?;
            Ok(row.map(|row| entry_bytes(&key_of(key, row), key)))
        });
        table.kept.write().push(Kept { space, made_of, entry });
        RecordingIndex { index, space: Arc::new(space) }
    }
}

/// A secondary index whose reads are recorded.
#[derive(Clone)]
pub struct RecordingIndex<I> {
    index: I,
    space: Arc<u16>,
}

impl<S: Store, I: Index<S>> Index<Recording<S>> for RecordingIndex<I> {
    type Secondary = I::Secondary;
    type Primary = I::Primary;

    fn range(
        &self,
        tx: &mut S::Txn<'_>,
        bounds: impl RangeBounds<I::Secondary>,
        scan: Scan,
        mut each: impl FnMut(I::Secondary, I::Primary) -> ControlFlow<()>,
    ) -> Result<(), S::Abort> {
        let low = match bounds.start_bound() {
            Bound::Included(key) => Some(begun(key)),
            Bound::Excluded(key) => match after_all(begun(key)) {
                Some(low) => Some(low),
                // Nothing comes after it, so nothing is read.
                None => return self.index.range(tx, bounds, scan, each),
            },
            Bound::Unbounded => None,
        };
        let high = match bounds.end_bound() {
            Bound::Included(key) => after_all(begun(key)),
            Bound::Excluded(key) => Some(begun(key)),
            Bound::Unbounded => None,
        };
        let mut extent = Extent::new(low, high, scan);
        let mut found = Vec::new();
        self.index.range(tx, bounds, scan, |secondary, primary| {
            let entry = entry_bytes(&secondary, &primary).as_slice().to_vec();
            let mut after = entry.clone();
            after.push(0);
            found.push(entry.clone());
            extent.found(entry, after, each(secondary, primary))
        })?;
        slate::with(|slate| {
            let space = *self.space;
            let pair = |entry: &Vec<u8>| (slate.key(place(space, entry).as_slice()), Value(PRESENT));
            let found = found.iter().map(pair).collect();
            extent.tell(slate, space, found);
        });
        Ok(())
    }
}

/// The bytes that every entry of a secondary key begins with.
fn begun<X: StoreKey>(secondary: &X) -> Vec<u8> {
    let mut bytes = KeyBytes::new();
    secondary.write_delimited(&mut bytes);
    bytes.as_slice().to_vec()
}

/// The first bytes after all that begin with these; `None` if there are none.
fn after_all(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return Some(prefix);
        }
    }
    None
}
