//! The hash index: points, without order.
//!
//! The high bits of a key's hash choose one of a fixed number of *shards*. A shard is one cache
//! line: its stamp, how many records it holds, and where its *table* is: an array, a power of two
//! long, of pairs (key or hash, record), with linear probing from where the low bits of the hash
//! point. Four pairs share a line, so that a lookup costs the shard's line (a small directory, which
//! stays in cache), one line of the table, and the record's.
//!
//! ```text
//! shards        +-----------------------------+-------+-------------+
//! [hash's high] | version      wts       rts  | count | table, log2 |
//!               +-----------------------------+-------+------|------+
//! table         +-----+--------+-----+--------+-----+--------v
//! [hash's low]  | key | record | key | record | ... |     64 bytes a line
//!               +-----+--------+-----+--------+-----+
//! ```
//!
//! Keys of at most 8 bytes stand in the table themselves, and a lookup reads no record. For others
//! the hash stands there, and the record's key decides.
//!
//! - A pair is read under the shard's version and believed only if that did not change: pairs move
//!   when one before them is removed (backward shift, so that there are no tombstones to clean up)
//!   and when the table grows or shrinks.
//! - A table is at most three quarters full, and at least an eighth unless it is small: 21 to 43
//!   bytes a record while growing. It is copied under the shard's latch; the old one is retired.
//! - Absence is the shard's: an insertion bumps the version of all keys that might be in its shard.
//!   More shards make such false conflicts rarer; their number never changes.
//!
//! The hash is a folded multiplication, chosen to be fast and to spread sequential numbers and
//! strings. It is the same in every run, as a simulated run must be, and does *not* withstand
//! somebody who chooses keys that collide; such keys make a shard slow, never wrong.
//!
//! What it does not do: order, shrink the directory, or grow a large shard in steps (whoever
//! inserts the record that makes a shard grow copies all of that shard).

use super::{
    ABREAST, Inserted, KeyClass, Lookup, NodeChange, NodeStamp, head, prefetch, prefetch_record, record_of,
    word_of,
};
use crate::record::RecordPtr;
use noonmark_core::sync::{AtomicU64, AtomicUsize, Ordering};
use noonmark_core::{Epochs, Garbage, Limbo};
use std::ptr::NonNull;

/// Shards of a table of which nothing is known: 64 KiB.
const SHARDS_DEFAULT: usize = 1 << 10;
/// Fewest and most shards.
const SHARDS_MIN: usize = 1 << 6;
const SHARDS_MAX: usize = 1 << 10;
/// Records to a shard that the capacity hint is divided by.
const PER_SHARD: usize = 64;

/// A key or hash, and a record; zero is no record.
#[derive(Debug, Default)]
struct Pair {
    tag: AtomicU64,
    record: AtomicU64,
}

/// Pairs in one line.
const PAIRS: usize = 4;

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct PairLine([Pair; PAIRS]);

/// A table: its lines, a power of two of them.
#[derive(Clone, Copy)]
struct Table<'a>(&'a [PairLine]);

impl<'a> Table<'a> {
    /// The table in a shard's word: its address with, in the six bits that its alignment leaves,
    /// one more than the logarithm of its number of lines. Zero is no table.
    ///
    /// # Safety
    /// The word was read from a shard by somebody who is pinned for `'a`, or owns the index.
    #[inline(always)]
    unsafe fn of_word(word: u64) -> Option<Table<'a>> {
        let lines = 1usize << ((word & 63) as u32).checked_sub(1)?;
        let first = std::ptr::with_exposed_provenance::<PairLine>((word & !63) as usize);
        // SAFETY: words that are not zero are made in `new`; a table is freed a grace period after
        // its word was overwritten.
        Some(Table(unsafe { std::slice::from_raw_parts(first, lines) }))
    }

    /// Makes a table; returns it with its word.
    fn new(lines: usize) -> (Table<'a>, u64) {
        debug_assert!(lines.is_power_of_two());
        let fresh: Box<[PairLine]> = (0..lines).map(|_| PairLine::default()).collect();
        let first = Box::into_raw(fresh).cast::<PairLine>();
        let word = first.expose_provenance() as u64 | u64::from(lines.trailing_zeros() + 1);
        // SAFETY: as in `of_word`; it is freed by `free` only.
        (Table(unsafe { std::slice::from_raw_parts(first, lines) }), word)
    }

    /// Frees the table at `first` with this many lines.
    ///
    /// # Safety
    /// It came from `new`, and nobody refers to it.
    unsafe fn free(first: *mut u8, lines: usize) {
        let table = std::ptr::slice_from_raw_parts_mut(first.cast::<PairLine>(), lines);
        // SAFETY: `new` took it from a box of this length.
        drop(unsafe { Box::from_raw(table) });
    }

    fn garbage(self) -> Garbage {
        // SAFETY: `free` undoes `new`; atomics may be dropped on any thread.
        unsafe { Garbage::new(self.0.as_ptr().cast_mut().cast(), self.0.len(), Self::free) }
    }

    fn bytes(self) -> usize {
        size_of_val(self.0)
    }

    #[inline(always)]
    fn mask(self) -> usize {
        self.0.len() * PAIRS - 1
    }

    /// The pair at this place, counted round.
    #[inline(always)]
    fn pair(self, place: usize) -> &'a Pair {
        let place = place & self.mask();
        &self.0[place / PAIRS].0[place % PAIRS]
    }
}

/// One shard: one line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Shard {
    stamp: NodeStamp,
    /// See [`Table::of_word`]. Changes only under the latch.
    table: AtomicU64,
    /// How many records. Changes only under the latch.
    count: AtomicUsize,
}

/// How keys of a class are hashed and told apart.
trait Hashed {
    /// The hash of a key, and the tag that stands in the table for it.
    fn hash(key: &[u8]) -> (u64, u64);
    /// The hash that belongs to a tag.
    fn hash_of_tag(tag: u64) -> u64;
    /// Whether equal tags mean equal keys.
    const EXACT: bool;
}

/// Keys of at most 8 bytes, all equally long.
struct Short;
/// All others.
struct Long;

/// Multiplies and folds the halves of the product: each bit of the input reaches the middle of the
/// product, and folding brings the middle to both ends.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// Odd, half of their bits set, without pattern: the fractional parts of the roots of 2 and 3.
const ROOT_2: u64 = 0x6a09_e667_f3bc_c909;
const ROOT_3: u64 = 0xbb67_ae85_84ca_a73b;

impl Hashed for Short {
    const EXACT: bool = true;
    #[inline(always)]
    fn hash(key: &[u8]) -> (u64, u64) {
        debug_assert!(key.len() <= 8);
        let tag = head(key, 0);
        (Self::hash_of_tag(tag), tag)
    }
    #[inline(always)]
    fn hash_of_tag(tag: u64) -> u64 {
        fold(fold(tag ^ ROOT_3, ROOT_2), ROOT_3)
    }
}

impl Hashed for Long {
    const EXACT: bool = false;
    #[inline(always)]
    fn hash(key: &[u8]) -> (u64, u64) {
        let mut hash = ROOT_3 ^ key.len() as u64;
        let mut words = key.chunks_exact(8);
        for word in &mut words {
            hash = fold(hash ^ head(word, 0), ROOT_2);
        }
        hash = fold(hash ^ head(words.remainder(), 0), ROOT_2);
        hash = fold(hash, ROOT_3);
        (hash, hash)
    }
    #[inline(always)]
    fn hash_of_tag(tag: u64) -> u64 {
        tag
    }
}

/// An index from keys to records, in no order.
#[derive(Debug)]
pub(crate) struct HashIndex {
    class: KeyClass,
    /// A power of two of them.
    shards: Box<[Shard]>,
    /// What the hash is shifted by to get a shard's number.
    shift: u32,
    /// Bytes in tables.
    table_bytes: AtomicUsize,
}

/// Calls the method for the class of the index's keys.
macro_rules! by_class {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self.class {
            KeyClass::Fixed8 => $self.$method::<Short>($($argument),*),
            KeyClass::Fixed16 | KeyClass::Bytes => $self.$method::<Long>($($argument),*),
        }
    };
}

impl HashIndex {
    /// An empty index for keys of this class, of which there may be about `capacity_hint` (0 if
    /// nobody knows).
    pub fn new(class: KeyClass, capacity_hint: usize) -> Self {
        let shards = match capacity_hint {
            0 => SHARDS_DEFAULT,
            _ => (capacity_hint / PER_SHARD).clamp(SHARDS_MIN, SHARDS_MAX).next_power_of_two(),
        };
        HashIndex {
            class,
            shards: (0..shards).map(|_| Shard::default()).collect(),
            shift: u64::BITS - shards.trailing_zeros(),
            table_bytes: AtomicUsize::new(0),
        }
    }

    /// The record under a key, or the shard that has none.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Lookup {
        by_class!(self.get_as(key))
    }

    #[inline(always)]
    fn get_as<C: Hashed>(&self, key: &[u8]) -> Lookup {
        let (hash, tag) = C::hash(key);
        self.find::<C>(key, hash, tag)
    }

    #[inline(always)]
    fn shard(&self, hash: u64) -> &Shard {
        // The shift leaves a number below the number of shards.
        &self.shards[(hash >> self.shift) as usize]
    }

    #[inline(always)]
    fn find<C: Hashed>(&self, key: &[u8], hash: u64, tag: u64) -> Lookup {
        let shard = self.shard(hash);
        'again: loop {
            let Some(version) = shard.stamp.begin() else {
                unreachable!("a shard never leaves its index");
            };
            // Acquire: the table's first contents, stored before its word was, are seen.
            // SAFETY: callers are pinned.
            let table = unsafe { Table::of_word(shard.table.load(Ordering::Acquire)) };
            if let Some(table) = table {
                // Bounded: halfway through somebody's change there may be no free place.
                for step in 0..=table.mask() {
                    let pair = table.pair((hash as usize).wrapping_add(step));
                    // Relaxed: believed only if the version has not changed since `begin`, whose
                    // acquire load then comes after all stores to the pair and to the record.
                    let record = pair.record.load(Ordering::Relaxed);
                    let Some(record) = record_of(record) else { break };
                    if pair.tag.load(Ordering::Relaxed) == tag {
                        if !shard.stamp.is_still(version) {
                            continue 'again;
                        }
                        // SAFETY: the caller is pinned, and the record was linked at `version`.
                        if C::EXACT || unsafe { record.key() } == key {
                            return Lookup::Found(record);
                        }
                    }
                }
            }
            if let Some(seen) = shard.stamp.seen(version) {
                return Lookup::Absent(seen);
            }
        }
    }

    /// The records of keys `0..count`, or the shards without them, appended to `out` in their
    /// order. The cache misses of up to [`ABREAST`] keys overlap.
    pub fn get_many<'k>(&self, keys: impl Fn(usize) -> &'k [u8], count: usize, out: &mut Vec<Lookup>) {
        by_class!(self.get_many_as(keys, count, out));
    }

    fn get_many_as<'k, C: Hashed>(
        &self,
        keys: impl Fn(usize) -> &'k [u8],
        count: usize,
        out: &mut Vec<Lookup>,
    ) {
        out.reserve(count);
        let mut hashes = [(0, 0); ABREAST];
        for first in (0..count).step_by(ABREAST) {
            let abreast = ABREAST.min(count - first);
            for (at, slot) in hashes[..abreast].iter_mut().enumerate() {
                *slot = C::hash(keys(first + at));
                prefetch(std::ptr::from_ref(self.shard(slot.0)).cast());
            }
            for (hash, _) in &hashes[..abreast] {
                // Relaxed: only an address to ask for; nothing is read through it.
                let word = self.shard(*hash).table.load(Ordering::Relaxed);
                if let Some(log) = ((word & 63) as u32).checked_sub(1) {
                    let line = (*hash as usize / PAIRS) & ((1usize << log) - 1);
                    prefetch(std::ptr::without_provenance(
                        (word & !63) as usize + line * size_of::<PairLine>(),
                    ));
                }
            }
            if !C::EXACT {
                // The records must be read to tell keys apart: ask for them all before any is.
                for (hash, tag) in &hashes[..abreast] {
                    if let Some(record) = self.first_with_tag(*hash, *tag) {
                        prefetch_record(record);
                    }
                }
            }
            for (at, (hash, tag)) in hashes[..abreast].iter().enumerate() {
                out.push(self.find::<C>(keys(first + at), *hash, *tag));
            }
        }
    }

    /// A record that may be the one with this tag: an address to ask for, nothing more.
    #[inline(always)]
    fn first_with_tag(&self, hash: u64, tag: u64) -> Option<RecordPtr> {
        // Acquire: as in `find`. SAFETY: callers are pinned.
        let table = unsafe { Table::of_word(self.shard(hash).table.load(Ordering::Acquire)) }?;
        for step in 0..=table.mask() {
            let pair = table.pair((hash as usize).wrapping_add(step));
            // Relaxed: a guess.
            let record = record_of(pair.record.load(Ordering::Relaxed))?;
            if pair.tag.load(Ordering::Relaxed) == tag {
                return Some(record);
            }
        }
        None
    }

    /// The record under the key, or the one that `make` makes, which is called at most once, with
    /// the shard latched, and not if there is one already.
    pub fn get_or_insert(
        &self,
        key: &[u8],
        limbo: &mut Limbo,
        epochs: &Epochs,
        make: impl FnOnce(&NodeStamp) -> RecordPtr,
    ) -> Inserted {
        by_class!(self.get_or_insert_as(key, limbo, epochs, make))
    }

    fn get_or_insert_as<C: Hashed>(
        &self,
        key: &[u8],
        limbo: &mut Limbo,
        epochs: &Epochs,
        make: impl FnOnce(&NodeStamp) -> RecordPtr,
    ) -> Inserted {
        let (hash, tag) = C::hash(key);
        let shard = self.shard(hash);
        let latch = loop {
            let seen = match self.find::<C>(key, hash, tag) {
                Lookup::Found(record) => return Inserted::Existing(record),
                Lookup::Absent(seen) => seen,
            };
            // At the version at which the key was absent: it still is.
            if let Some(latch) = shard.stamp.try_latch(seen.version) {
                break latch;
            }
        };
        // Should `make` panic, the latch is dropped and nothing has changed.
        let record = make(&shard.stamp);
        // Relaxed, here and below: under the latch.
        let count = shard.count.load(Ordering::Relaxed) + 1;
        // SAFETY: the caller is pinned.
        let (table, old) = match unsafe { Table::of_word(shard.table.load(Ordering::Relaxed)) } {
            None => (self.replace::<C>(shard, None, 1), None),
            Some(table) if count * 4 > (table.mask() + 1) * 3 => {
                (self.replace::<C>(shard, Some(table), table.0.len() * 2), Some(table))
            }
            Some(table) => (table, None),
        };
        put(table, hash, tag, word_of(record));
        shard.count.store(count, Ordering::Relaxed);
        let before = latch.before;
        let after = latch.changed();
        // Not under the latch: retiring may free what is old.
        if let Some(old) = old {
            limbo.retire(epochs, old.garbage());
        }
        let change = NodeChange { stamp: NonNull::from(&shard.stamp), before, after, split_off: None };
        Inserted::New(record, change)
    }

    /// Gives a latched shard a table of another size, with the same pairs.
    fn replace<'a, C: Hashed>(&self, shard: &'a Shard, old: Option<Table<'a>>, lines: usize) -> Table<'a> {
        let (table, word) = Table::new(lines);
        for pair in old.iter().flat_map(|old| old.0).flat_map(|line| &line.0) {
            // Relaxed: under the latch.
            let record = pair.record.load(Ordering::Relaxed);
            if record != 0 {
                let tag = pair.tag.load(Ordering::Relaxed);
                put(table, C::hash_of_tag(tag), tag, record);
            }
        }
        // Relaxed: a statistic.
        self.table_bytes.fetch_add(table.bytes(), Ordering::Relaxed);
        self.table_bytes.fetch_sub(old.map_or(0, Table::bytes), Ordering::Relaxed);
        // Release: whoever finds the table finds the pairs in it.
        shard.table.store(word, Ordering::Release);
        table
    }

    /// Unlinks exactly this record, if it is there: the shard's times are raised to at least `wts`
    /// and `rts` under the latch. Does not free it. Whether it was there.
    pub fn remove(
        &self,
        key: &[u8],
        record: RecordPtr,
        wts: u64,
        rts: u64,
        limbo: &mut Limbo,
        epochs: &Epochs,
    ) -> bool {
        by_class!(self.remove_as(key, record, wts, rts, limbo, epochs))
    }

    fn remove_as<C: Hashed>(
        &self,
        key: &[u8],
        record: RecordPtr,
        wts: u64,
        rts: u64,
        limbo: &mut Limbo,
        epochs: &Epochs,
    ) -> bool {
        let (hash, _) = C::hash(key);
        let shard = self.shard(hash);
        let Some(latch) = shard.stamp.latch() else {
            unreachable!("a shard never leaves its index");
        };
        // Relaxed, here and below: under the latch. SAFETY: the caller is pinned.
        let Some(table) = (unsafe { Table::of_word(shard.table.load(Ordering::Relaxed)) }) else {
            return false;
        };
        let word = word_of(record);
        let mut place = hash as usize;
        loop {
            match table.pair(place).record.load(Ordering::Relaxed) {
                0 => return false,
                there if there == word => break,
                _ => place = place.wrapping_add(1),
            }
        }
        // A validator raises `rts` without the latch.
        shard.stamp.rts.fetch_max(rts, Ordering::SeqCst);
        shard.stamp.wts.fetch_max(wts, Ordering::Relaxed);
        take_out::<C>(table, place);
        let count = shard.count.load(Ordering::Relaxed) - 1;
        shard.count.store(count, Ordering::Relaxed);
        let sparse = table.0.len() > 2 && count * 8 < table.mask() + 1;
        if sparse {
            self.replace::<C>(shard, Some(table), table.0.len() / 2);
        }
        latch.changed();
        if sparse {
            limbo.retire(epochs, table.garbage());
        }
        true
    }

    /// Visits every record.
    pub fn for_each(&mut self, mut visit: impl FnMut(RecordPtr)) {
        for shard in &self.shards {
            // Relaxed: we are the owner. SAFETY: likewise.
            let table = unsafe { Table::of_word(shard.table.load(Ordering::Relaxed)) };
            for pair in table.iter().flat_map(|table| table.0).flat_map(|line| &line.0) {
                if let Some(record) = record_of(pair.record.load(Ordering::Relaxed)) {
                    visit(record);
                }
            }
        }
    }

    /// How many bytes the index takes, without what waits to be freed.
    pub fn memory_bytes(&self) -> usize {
        // Relaxed: a statistic.
        size_of_val(&*self.shards) + self.table_bytes.load(Ordering::Relaxed)
    }
}

/// Puts a pair into the first free place from where its hash points. Under the latch, or before the
/// table is published; the table has a free place.
fn put(table: Table<'_>, hash: u64, tag: u64, record: u64) {
    let mut place = hash as usize;
    // Relaxed, all three: readers believe the pair by the shard's version only.
    while table.pair(place).record.load(Ordering::Relaxed) != 0 {
        place = place.wrapping_add(1);
    }
    table.pair(place).tag.store(tag, Ordering::Relaxed);
    table.pair(place).record.store(record, Ordering::Relaxed);
}

/// Empties a place, and moves up those behind it that would no longer be found. Under the latch.
fn take_out<C: Hashed>(table: Table<'_>, place: usize) {
    let mask = table.mask();
    let mut hole = place;
    let mut next = place;
    loop {
        next = next.wrapping_add(1);
        // Relaxed, all: under the latch; readers believe pairs by the shard's version only.
        let record = table.pair(next).record.load(Ordering::Relaxed);
        if record == 0 {
            break;
        }
        let tag = table.pair(next).tag.load(Ordering::Relaxed);
        let home = C::hash_of_tag(tag) as usize;
        // It may move into the hole unless its home lies behind the hole.
        if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
            table.pair(hole).tag.store(tag, Ordering::Relaxed);
            table.pair(hole).record.store(record, Ordering::Relaxed);
            hole = next;
        }
    }
    table.pair(hole).record.store(0, Ordering::Relaxed);
}

impl Drop for HashIndex {
    fn drop(&mut self) {
        for shard in &self.shards {
            // Relaxed: we are the owner. SAFETY: likewise, and the table is freed once.
            if let Some(table) = unsafe { Table::of_word(shard.table.load(Ordering::Relaxed)) } {
                // SAFETY: it came from `Table::new`; nobody is left.
                unsafe { Table::free(table.0.as_ptr().cast_mut().cast(), table.0.len()) };
            }
        }
    }
}

#[cfg(test)]
#[path = "hash_tests.rs"]
mod tests;
