//! The hash index: points, without order.
//!
//! The low bits of a key's hash choose one of a fixed number of *shards*. A shard is one cache
//! line: its stamp, how many records it holds, and where its *table* is: a power of two of lines of
//! four places, of which the high bits of the hash choose the key's *home line*. Keys of at most 8
//! bytes stand in the table themselves, and a lookup reads no record. For others the hash stands
//! there, and the record's key decides.
//!
//! ```text
//! shards        +-----------------------------+-------+--------------+
//! [hash's low]  | version      wts       rts  | count | table, shift |
//!               +-----------------------------+-------+------|-------+
//! table         +------------------------+-----------------------v---+
//! [hash's high] | key | key | key | key  | record | record | ...     |   64 bytes a line
//!               +------------------------+---------------------------+
//! ```
//!
//! - A lookup touches the shard's line (a small directory, which stays in cache), one line of the
//!   table, and the record's. It is made for processors that begin the next lookups while one waits
//!   for memory: some 45 instructions, and no branch in them depends on what was waited for except
//!   whether the home line has the key, which it nearly always does (see [`table`], also for what
//!   happens to the pairs for which there is no room at home).
//! - A line is read under the shard's version and believed only if that did not change: pairs move
//!   when one before them is removed (there are no tombstones to clean up) and when the table grows
//!   or shrinks.
//! - A table is at most three quarters full, and at least a quarter unless it is small: 21 to 43
//!   bytes a record while growing, 64 at most when it was larger, with 12 in a hundred records beyond their home line when it is
//!   fullest, 6 on average (`few_records_lie_beyond_their_home_line`). It is copied under the
//!   shard's latch; the old one is retired.
//! - Absence is the shard's: an insertion bumps the version of all keys that might be in its shard.
//!   More shards make such false conflicts rarer; their number never changes.
//!
//! The hash (see [`hashing`]) is chosen to be fast and to spread sequential numbers and strings. It
//! is the same in every run, as a simulated run must be, and does *not* withstand somebody who
//! chooses keys that collide; such keys make a shard slow, never wrong.
//!
//! What it does not do: order, shrink the directory, or grow a large shard in steps (whoever
//! inserts the record that makes a shard grow copies all of that shard).

mod hashing;
mod table;

use super::direct::DirectTable;
use super::{
    ABREAST, Inserted, KeyClass, Latch, Lookup, NodeChange, NodeStamp, RecordShape, equal, head, prefetch,
    prefetch_record, record_of, tag_of, word_of,
};
use crate::record::RecordPtr;
use hashing::{Hashed, Long, Short};
use noonmark_core::sync::{AtomicU64, AtomicUsize, Ordering};
use noonmark_core::{Epochs, Limbo};
use std::ptr::NonNull;
use table::{Line, Table};

/// Shards of a table of which nothing is known: 64 KiB.
const SHARDS_DEFAULT: usize = 1 << 10;
/// Fewest and most shards.
const SHARDS_MIN: usize = 1 << 6;
const SHARDS_MAX: usize = 1 << 10;
/// Records to a shard that the capacity hint is divided by.
const PER_SHARD: usize = 64;

/// One shard: one line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Shard {
    stamp: NodeStamp,
    /// See [`Table`]. Changes only under the latch.
    table: AtomicU64,
    /// How many records its table has. Changes only under the latch.
    count: AtomicUsize,
}

impl Shard {
    /// The shard's table.
    ///
    /// # Safety
    /// The caller is pinned for `'a`, or owns the index.
    #[inline(always)]
    unsafe fn table<'a>(&self) -> Table<'a> {
        // Acquire: the table's first contents, stored before its word was, are seen.
        // SAFETY: passed on.
        unsafe { Table::of_word(self.table.load(Ordering::Acquire)) }
    }
}

/// An index from keys to records, in no order.
#[derive(Debug)]
pub(crate) struct HashIndex {
    class: KeyClass,
    /// A power of two of them.
    shards: Box<[Shard]>,
    /// The bits of a hash that say which shard: one less than how many there are, times [`SHARD_AT`].
    mask: u64,
    /// The table of shards that have none yet: one line that stays empty.
    no_table: u64,
    /// Bytes in tables.
    table_bytes: AtomicUsize,
    /// For keys that are numbers, and records of one shape: those that lie where their keys say. They have no pair in their
    /// shard's table, and its stamp is theirs too.
    direct: Option<DirectTable>,
}

/// Which shard, say the bits of a hash from this one on. (In a shard's address, the division by it
/// and the multiplication by a shard's size are one mask.) Tables take theirs from the other end.
const SHARD_AT: u64 = 64;

/// Calls the method for the class of the index's keys.
macro_rules! by_class {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self.class {
            KeyClass::Fixed8 => $self.$method::<Short>($($argument),*),
            KeyClass::Fixed16 | KeyClass::Bytes => $self.$method::<Long>($($argument),*),
        }
    };
}

/// A key on its way through the index, among others.
#[derive(Clone, Copy)]
struct Abreast<'a> {
    shard: &'a Shard,
    line: &'a Line,
    /// The shard's version when the line was found; odd if there was none to rely on.
    version: u64,
    tag: u64,
}

impl HashIndex {
    /// An empty index for keys of this class, of which there may be about `capacity_hint` (0 if
    /// nobody knows), and whose records are of this shape if they are all of one.
    pub fn new(class: KeyClass, capacity_hint: usize, shape: Option<RecordShape>) -> Self {
        let shards = match capacity_hint {
            0 => SHARDS_DEFAULT,
            _ => (capacity_hint / PER_SHARD).clamp(SHARDS_MIN, SHARDS_MAX).next_power_of_two(),
        };
        let no_table = Table::new(1);
        let shard = || Shard {
            stamp: NodeStamp::default(),
            table: AtomicU64::new(no_table.word()),
            count: AtomicUsize::new(0),
        };
        HashIndex {
            class,
            shards: (0..shards).map(|_| shard()).collect(),
            mask: (shards as u64 - 1) * SHARD_AT,
            no_table: no_table.word(),
            table_bytes: AtomicUsize::new(0),
            direct: match (class, shape) {
                (KeyClass::Fixed8, Some(shape)) => DirectTable::new(capacity_hint, shape),
                _ => None,
            },
        }
    }

    /// The record under a key, or the shard that has none.
    #[inline(always)]
    pub fn get(&self, key: &[u8]) -> Lookup {
        match self.class {
            KeyClass::Fixed8 => match self.get_direct(head(key, 0)) {
                Some(record) => Lookup::Found(record),
                None => self.find::<Short>(key),
            },
            KeyClass::Fixed16 | KeyClass::Bytes => self.get_long(key),
        }
    }

    /// The record with this tag, if it lies where its key says.
    #[inline(always)]
    fn get_direct(&self, tag: u64) -> Option<RecordPtr> {
        self.direct.as_ref()?.get(tag)
    }

    /// Out of the way of short keys.
    #[inline(never)]
    fn get_long(&self, key: &[u8]) -> Lookup {
        self.find::<Long>(key)
    }

    /// The number of the shard that a key is in. For a host that wants to know which lines are touched.
    #[cold]
    pub fn shard_of(&self, key: &[u8]) -> u64 {
        by_class!(self.shard_number(key))
    }

    fn shard_number<C: Hashed>(&self, key: &[u8]) -> u64 {
        (C::hash(key).0 & self.mask) / SHARD_AT
    }

    /// The number of the line in which a lookup of a key begins, unlike that of any other line; `None`: its record lies
    /// where the key says. For a host that wants to know which lines are touched.
    #[cold]
    pub fn place_of(&self, key: &[u8]) -> Option<u64> {
        if self.class == KeyClass::Fixed8
            && let Some(record) = self.get_direct(head(key, 0))
        {
            // Of many cores on one, others go on before it is read.
            prefetch_record(record);
            return None;
        }
        Some(by_class!(self.line_number(key)))
    }

    fn line_number<C: Hashed>(&self, key: &[u8]) -> u64 {
        let (hash, _) = C::hash(key);
        // SAFETY: callers are pinned.
        let table = unsafe { self.shard(hash).table() };
        self.shard_number::<C>(key) << 32 | table.home_number(hash) as u64
    }

    #[inline(always)]
    fn shard(&self, hash: u64) -> &Shard {
        // SAFETY: the mask leaves no number that is not below the number of shards.
        unsafe { self.shards.get_unchecked(((hash & self.mask) / SHARD_AT) as usize) }
    }

    /// A lookup as it nearly always goes: nobody is changing the shard, and the record is in the
    /// home line. Nothing else is looked at, and no branch depends on where in the line it is.
    #[inline(always)]
    fn find<C: Hashed>(&self, key: &[u8]) -> Lookup {
        let (hash, tag) = C::hash(key);
        let shard = self.shard(hash);
        if let Some(version) = shard.stamp.begin_now() {
            // SAFETY: callers are pinned.
            let line = unsafe { shard.table() }.home(hash);
            if let Some(record) = Self::in_line::<C>(shard, version, line, tag, key) {
                return Lookup::Found(record);
            }
        }
        self.search::<C>(key, hash, tag)
    }

    /// The record under the key, if it is the first with its tag in this line, which belonged to
    /// the shard at this version, and the shard is still at it.
    #[inline(always)]
    fn in_line<C: Hashed>(
        shard: &Shard,
        version: u64,
        line: &Line,
        tag: u64,
        key: &[u8],
    ) -> Option<RecordPtr> {
        let record = record_of(line.search(tag))?;
        // SAFETY: callers are pinned, and the record was linked at `version`.
        (shard.stamp.is_still(version) && (C::EXACT || equal(unsafe { record.key() }, key))).then_some(record)
    }

    /// A lookup that waits for whoever changes the shard, and goes through all lines in which the
    /// key may be.
    #[cold]
    #[inline(never)]
    fn search<C: Hashed>(&self, key: &[u8], hash: u64, tag: u64) -> Lookup {
        let shard = self.shard(hash);
        'again: loop {
            let Some(version) = shard.stamp.begin() else {
                unreachable!("a shard never leaves its index");
            };
            // Somebody may have put it in since the caller looked: it is absent at this version or not at all.
            if C::EXACT
                && let Some(record) = self.get_direct(tag)
            {
                return Lookup::Found(record);
            }
            // SAFETY: callers are pinned.
            let table = unsafe { shard.table() };
            for (there, record) in table.lines_from_home(hash).flat_map(Line::pairs) {
                if there == tag
                    && let Some(record) = record_of(record)
                {
                    if !shard.stamp.is_still(version) {
                        continue 'again;
                    }
                    // SAFETY: the caller is pinned, and the record was linked at `version`.
                    if C::EXACT || equal(unsafe { record.key() }, key) {
                        return Lookup::Found(record);
                    }
                }
            }
            if let Some(seen) = shard.stamp.seen(version) {
                return Lookup::Absent(seen);
            }
        }
    }

    /// The records under the first keys, as many as `found` has room for; `None` where there is none. The
    /// cache misses of up to [`ABREAST`] keys overlap. Calls `soon` with the address of each record as early as it can be
    /// guessed: it may be no record's, or another's.
    pub fn find_many<'k>(
        &self,
        keys: impl Fn(usize) -> &'k [u8],
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) {
        let mut first = 0;
        for found in found.chunks_mut(ABREAST) {
            let keys = |at| keys(first + at);
            if !self.find_many_direct((0..found.len()).map(|at| tag_of(keys(at))), found, &soon) {
                self.find_many_beyond(keys, found, &soon);
            }
            first += found.len();
        }
    }

    /// The same of at most [`ABREAST`] keys, by their tags, where it is known at once: whether all were found.
    #[inline(always)]
    pub fn find_many_direct(
        &self,
        tags: impl Iterator<Item = u64> + Clone,
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) -> bool {
        self.direct.as_ref().is_some_and(|direct| direct.find_many(tags, found, soon))
    }

    /// The same of at most [`ABREAST`] for those that are not found yet, in the tables of their shards.
    pub fn find_many_beyond<'k>(
        &self,
        keys: impl Fn(usize) -> &'k [u8],
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) {
        by_class!(self.find_many_as(keys, found, soon));
    }

    #[inline(always)]
    fn find_many_as<'k, C: Hashed>(
        &self,
        keys: impl Fn(usize) -> &'k [u8],
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) {
        let shard = &self.shards[0];
        // SAFETY: callers are pinned.
        let line = unsafe { shard.table() }.home(0);
        let mut places = [Abreast { shard, line, version: 1, tag: 0 }; ABREAST];
        let places = &mut places[..found.len()];
        // Shards are few, and in a cache: only lines of tables are asked for ahead.
        for (at, (place, found)) in places.iter_mut().zip(&*found).enumerate() {
            if found.is_some() {
                continue;
            }
            let (hash, tag) = C::hash(keys(at));
            let shard = self.shard(hash);
            // Before the table, as in `find`.
            let version = shard.stamp.begin_now().unwrap_or(1);
            // SAFETY: callers are pinned.
            let line = unsafe { shard.table() }.home(hash);
            prefetch(std::ptr::from_ref(line).cast());
            *place = Abreast { shard, line, version, tag };
        }
        if !C::EXACT {
            // The records must be read to tell keys apart: ask for them all before any is.
            for place in &*places {
                if let Some(record) = record_of(place.line.search(place.tag)) {
                    prefetch_record(record);
                }
            }
        }
        for (at, (place, found)) in places.iter().zip(found).enumerate() {
            if found.is_some() {
                continue;
            }
            let key = keys(at);
            *found = match place.version & 1 {
                0 => Self::in_line::<C>(place.shard, place.version, place.line, place.tag, key),
                _ => None,
            };
            if found.is_none() {
                let (hash, tag) = C::hash(key);
                *found = self.search::<C>(key, hash, tag).record();
            }
            if let Some(record) = *found {
                soon(record);
            }
        }
    }

    /// The record under the key, or the one that `make` makes, which is called at most once, with
    /// the shard latched, and not if there is one already; in this zeroed memory, if it is given some. If not, `prepare` has been
    /// called before, without a latch, perhaps more than once or in vain.
    pub fn get_or_insert(
        &self,
        key: &[u8],
        limbo: &mut Limbo,
        epochs: &Epochs,
        prepare: impl FnMut(),
        make: impl FnOnce(&NodeStamp, Option<NonNull<u64>>) -> RecordPtr,
    ) -> Inserted {
        by_class!(self.get_or_insert_as(key, limbo, epochs, prepare, make))
    }

    fn get_or_insert_as<C: Hashed>(
        &self,
        key: &[u8],
        limbo: &mut Limbo,
        epochs: &Epochs,
        mut prepare: impl FnMut(),
        make: impl FnOnce(&NodeStamp, Option<NonNull<u64>>) -> RecordPtr,
    ) -> Inserted {
        let (hash, tag) = C::hash(key);
        let shard = self.shard(hash);
        let mut taken = None;
        let latch = loop {
            let seen = match self.get(key) {
                Lookup::Found(record) => {
                    if let Some(memory) = taken {
                        // SAFETY: nobody but us knows of the place.
                        unsafe { self.take_back(RecordPtr::new(memory)) };
                    }
                    return Inserted::Existing(record);
                }
                Lookup::Absent(seen) => seen,
            };
            taken = taken.or_else(|| self.direct.as_ref()?.take(tag));
            if taken.is_none() {
                prepare();
            }
            // At the version at which the key was absent: it still is.
            if let Some(latch) = shard.stamp.try_latch(seen.version) {
                break latch;
            }
        };
        // Should `make` panic, the latch is dropped, and at most a place is lost.
        let record = make(&shard.stamp, taken);
        if let Some(direct) = &self.direct {
            direct.came(tag);
            if taken.is_some() {
                direct.link(tag);
                return Self::inserted(shard, latch, record);
            }
        }
        // Relaxed, here and below: under the latch.
        let count = shard.count.load(Ordering::Relaxed) + 1;
        // SAFETY: the caller is pinned.
        let old = unsafe { shard.table() };
        let table = if old.word() == self.no_table {
            self.replace::<C>(shard, old, 1)
        } else if count * 4 > old.places() * 3 {
            self.replace::<C>(shard, old, old.lines() * 2)
        } else {
            old
        };
        table.put::<C>(tag, word_of(record));
        shard.count.store(count, Ordering::Relaxed);
        let inserted = Self::inserted(shard, latch, record);
        // Not under the latch: retiring may free what is old.
        if table.word() != old.word() {
            self.retire(old, limbo, epochs);
        }
        inserted
    }

    /// Lets go of a shard that a record was put into.
    fn inserted(shard: &Shard, latch: Latch<'_>, record: RecordPtr) -> Inserted {
        let before = latch.before;
        let after = latch.changed();
        let change = NodeChange { stamp: NonNull::from(&shard.stamp), before, after, split_off: None };
        Inserted::New(record, change)
    }

    /// Gives a latched shard a table of another size, with the same pairs.
    fn replace<'a, C: Hashed>(&self, shard: &'a Shard, old: Table<'a>, lines: usize) -> Table<'a> {
        let table = Table::new(lines);
        for (tag, record) in old.pairs() {
            table.put::<C>(tag, record);
        }
        // Relaxed: a statistic.
        self.table_bytes.fetch_add(table.bytes(), Ordering::Relaxed);
        // Release: whoever finds the table finds the pairs in it.
        shard.table.store(table.word(), Ordering::Release);
        table
    }

    /// Retires a table that has been replaced.
    fn retire(&self, old: Table<'_>, limbo: &mut Limbo, epochs: &Epochs) {
        if old.word() != self.no_table {
            // Relaxed: a statistic.
            self.table_bytes.fetch_sub(old.bytes(), Ordering::Relaxed);
            limbo.retire(epochs, old.garbage());
        }
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
        let (hash, tag) = C::hash(key);
        let shard = self.shard(hash);
        let Some(latch) = shard.stamp.latch() else {
            unreachable!("a shard never leaves its index");
        };
        // SAFETY: the caller is pinned.
        let table = unsafe { shard.table() };
        let was_direct = self.direct.as_ref().is_some_and(|direct| direct.unlink(tag, record));
        if !was_direct && !table.take_out::<C>(hash, word_of(record)) {
            return false;
        }
        if let Some(direct) = &self.direct {
            direct.went(tag);
        }
        // A validator raises `rts` without the latch.
        shard.stamp.rts.fetch_max(rts, Ordering::SeqCst);
        // Relaxed, here and below: under the latch.
        shard.stamp.wts.fetch_max(wts, Ordering::Relaxed);
        let count = shard.count.load(Ordering::Relaxed) - usize::from(!was_direct);
        shard.count.store(count, Ordering::Relaxed);
        let sparse = table.lines() > 2 && count * 4 < table.places();
        if sparse {
            self.replace::<C>(shard, table, table.lines() / 2);
        }
        latch.changed();
        if sparse {
            self.retire(table, limbo, epochs);
        }
        true
    }

    /// Whether the record's memory is the index's own, which takes it back then. Any other is its maker's.
    ///
    /// # Safety
    /// Nobody refers to the record any more, and the index has forgotten it.
    pub unsafe fn take_back(&self, record: RecordPtr) -> bool {
        // SAFETY: passed on.
        self.direct.as_ref().is_some_and(|direct| unsafe { direct.give_back(record) })
    }

    /// Visits every record.
    pub fn for_each(&mut self, mut visit: impl FnMut(RecordPtr)) {
        self.direct.iter().flat_map(DirectTable::records).for_each(&mut visit);
        self.for_each_elsewhere(visit);
    }

    /// Visits every record whose memory is not the index's own.
    pub fn for_each_elsewhere(&mut self, mut visit: impl FnMut(RecordPtr)) {
        for shard in &self.shards {
            // SAFETY: we are the owner.
            for (_, record) in unsafe { shard.table() }.pairs() {
                if let Some(record) = record_of(record) {
                    visit(record);
                }
            }
        }
    }

    /// How many bytes the index takes, without what waits to be freed.
    pub fn memory_bytes(&self) -> usize {
        // Relaxed: a statistic.
        let direct = self.direct.as_ref().map_or(0, DirectTable::bytes);
        size_of_val(&*self.shards) + direct + self.table_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for HashIndex {
    fn drop(&mut self) {
        for shard in &self.shards {
            // SAFETY: we are the owner.
            let table = unsafe { shard.table() };
            if table.word() != self.no_table {
                // SAFETY: each shard has its own; nobody is left.
                unsafe { table.free() };
            }
        }
        // SAFETY: `new` made it; nobody is left.
        unsafe { Table::of_word(self.no_table).free() };
    }
}

#[cfg(test)]
mod tests;
