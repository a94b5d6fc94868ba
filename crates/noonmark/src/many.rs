//! Keys that are known together, looked up together.

use crate::index::{ABREAST, prefetch, tag_of};
use crate::key::{Key, KeyBytes};
use crate::record::{LINE_WORDS, Layout, RecordPtr};
use crate::table::{TableCore, TableRef};
use noonmark_core::TxnId;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

/// How many keys are looked up at once: enough to keep the memory busy, few enough to stay in the first
/// level cache until they are used.
pub(crate) const BATCH: usize = ABREAST;

/// Keys of a fixed size up to this many bytes are put side by side, without a [`KeyBytes`] each.
const SHORT_BYTES: usize = 16;

/// Rows that a transaction has looked up together, by [`Transaction::look_up`](crate::Transaction::look_up).
///
/// Nothing of them has been read. That a row was found does not say that it is there when it is read, and one
/// that was not is looked up again.
#[derive(Debug)]
pub struct FoundRows<'s, 'k, K> {
    keys: &'k [K],
    /// Their records, if they are at most [`BATCH`].
    few: [Option<RecordPtr>; BATCH],
    /// Their records otherwise.
    many: Vec<Option<RecordPtr>>,
    /// Whose rows they are; `None`: nobody has looked.
    table: Option<TableRef>,
    /// Who has looked them up: it is pinned since.
    txn: TxnId,
    /// They do not outlive their transaction, so that no other can have its id.
    of: PhantomData<&'s ()>,
}

impl<'k, K: Key> FoundRows<'_, 'k, K> {
    /// The rows of the table under these keys, for a transaction that is pinned; without a table, none.
    #[inline]
    pub(crate) fn look_up(
        table: Option<&TableCore>,
        keys: &'k [K],
        groups: Range<usize>,
        txn: TxnId,
    ) -> Self {
        let (mut few, mut many) = ([None; BATCH], Vec::new());
        let find = |keys| table.map_or([None; BATCH], |table| look_up(table, keys, groups.clone()));
        if keys.len() <= BATCH {
            few = find(keys);
        } else {
            keys.chunks(BATCH).for_each(|keys| many.extend_from_slice(&find(keys)[..keys.len()]));
        }
        FoundRows { keys, few, many, table: table.map(TableRef::new), txn, of: PhantomData }
    }

    /// The keys that were looked up.
    pub fn keys(&self) -> &'k [K] {
        self.keys
    }

    /// Some of them, by their places among the keys.
    ///
    /// # Panics
    /// If there are not so many, as slices do.
    #[inline(always)]
    pub fn slice(&self, range: Range<usize>) -> FoundSlice<'_, K> {
        let records = if self.keys.len() <= BATCH { &self.few[..] } else { &self.many };
        let (keys, records) = (&self.keys[range.clone()], &records[range]);
        FoundSlice { keys, records, table: self.table, txn: self.txn }
    }
}

/// Some of the rows that were looked up.
#[derive(Clone, Copy, Debug)]
pub struct FoundSlice<'f, K> {
    keys: &'f [K],
    records: &'f [Option<RecordPtr>],
    table: Option<TableRef>,
    txn: TxnId,
}

mod sealed {
    #[allow(private_interfaces, reason = "the trait cannot be named outside the crate")]
    pub trait Known<K> {
        /// The keys.
        fn keys(&self) -> &[K];

        /// What this transaction has found under them in this table, if it has looked.
        #[inline(always)]
        fn found(
            &self,
            table: crate::table::TableRef,
            txn: noonmark_core::TxnId,
        ) -> Option<&[Option<crate::record::RecordPtr>]> {
            let _ = (table, txn);
            None
        }
    }
}
pub(crate) use sealed::Known;

/// Keys that are known together: side by side, or a [`slice`](FoundRows::slice) of rows that the transaction has
/// looked up already.
pub trait KnownKeys<K: Key>: Known<K> {}

impl<K: Key> Known<K> for &[K] {
    #[inline(always)]
    fn keys(&self) -> &[K] {
        self
    }
}
impl<K: Key> KnownKeys<K> for &[K] {}

impl<K: Key, const N: usize> Known<K> for &[K; N] {
    #[inline(always)]
    fn keys(&self) -> &[K] {
        *self
    }
}
impl<K: Key, const N: usize> KnownKeys<K> for &[K; N] {}

impl<K: Key> Known<K> for &Vec<K> {
    #[inline(always)]
    fn keys(&self) -> &[K] {
        self
    }
}
impl<K: Key> KnownKeys<K> for &Vec<K> {}

#[allow(private_interfaces, reason = "the trait cannot be named outside the crate")]
impl<K: Key> Known<K> for FoundSlice<'_, K> {
    #[inline(always)]
    fn keys(&self) -> &[K] {
        self.keys
    }

    #[inline(always)]
    fn found(&self, table: TableRef, txn: TxnId) -> Option<&[Option<RecordPtr>]> {
        (self.table == Some(table) && self.txn == txn).then_some(self.records)
    }
}
impl<K: Key> KnownKeys<K> for FoundSlice<'_, K> {}

/// Looks up at most [`BATCH`] keys, stage by stage, and prefetches the cells of these groups in the
/// records that are found. `None` where there is none, which is not noted.
#[inline]
fn look_up<K: Key>(table: &TableCore, keys: &[K], groups: Range<usize>) -> [Option<RecordPtr>; BATCH] {
    let mut found = [None; BATCH];
    let keys = &keys[..keys.len().min(BATCH)];
    let wanted = &mut found[..keys.len()];
    let lines = lines_of(&table.layout, &groups);
    let soon = |record| prefetch_lines(record, lines.clone());
    match K::FIXED_BYTES {
        Some(bytes) if bytes <= SHORT_BYTES => {
            let all_fit = Cell::new(true);
            let check = |key: &[u8]| all_fit.set(all_fit.get() && key.len() == bytes);
            // In most tables of short keys a tag is all that is asked for.
            let tag = |key: &[u8]| {
                check(key);
                tag_of(key)
            };
            let tags = keys.iter().map(|key| key.with_bytes(tag));
            if !table.index.find_many_direct(tags, wanted, soon) {
                let mut short = [[0; SHORT_BYTES]; BATCH];
                for (to, key) in short.iter_mut().zip(keys) {
                    key.with_bytes(|key| {
                        check(key);
                        let bytes = key.len().min(bytes);
                        to[..bytes].copy_from_slice(&key[..bytes]);
                    });
                }
                table.index.find_many_beyond(|index| &short[index % BATCH][..bytes], wanted, soon);
            }
            // One that is not as long as its type says is under none of the keys that there are.
            if !all_fit.get() {
                return [None; BATCH];
            }
        }
        _ => {
            let long: [KeyBytes; BATCH] =
                std::array::from_fn(|index| keys.get(index).map_or_else(KeyBytes::new, KeyBytes::of::<K>));
            table.index.find_many(|index| long[index % BATCH].as_slice(), wanted, soon);
        }
    }
    found
}

/// What is under one batch of keys, of which the first is number `first` of all: taken from what the transaction
/// has found, or else looked up and left in `room`.
#[inline(always)]
pub(crate) fn found_in<'f, K: Key>(
    known: Option<&'f [Option<RecordPtr>]>,
    first: usize,
    table: &TableCore,
    keys: &[K],
    groups: Range<usize>,
    room: &'f mut Option<[Option<RecordPtr>; BATCH]>,
) -> &'f [Option<RecordPtr>] {
    match known {
        Some(known) => &known[first..first + keys.len()],
        None => &room.insert(look_up(table, keys, groups))[..keys.len()],
    }
}

/// Begins to bring the cells of these groups into the cache.
#[inline(always)]
pub(crate) fn prefetch_groups(record: RecordPtr, layout: &Layout, groups: &Range<usize>) {
    prefetch_lines(record, lines_of(layout, groups));
}

/// The lines of a record on which the cells of these groups are.
#[inline(always)]
fn lines_of(layout: &Layout, groups: &Range<usize>) -> Range<usize> {
    let last = layout.group(groups.end - 1);
    let begin = layout.group(groups.start).cell_at as usize;
    let end = last.at as usize + last.size.words();
    // Records larger than half a line begin on one.
    begin / LINE_WORDS..end.div_ceil(LINE_WORDS)
}

#[inline(always)]
fn prefetch_lines(record: RecordPtr, lines: Range<usize>) {
    let line = |number: usize| record.as_ptr().wrapping_add(number * LINE_WORDS).cast();
    // There is one at least, and seldom more than two.
    prefetch(line(lines.start));
    for number in lines.start + 1..lines.end {
        prefetch(line(number));
    }
}
