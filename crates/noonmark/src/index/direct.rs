//! A direct-address table in front of an index: records that lie where their keys say.
//!
//! ```text
//! numbers   | 0 | 1 | 2 | - | 4 | ...                 8 bytes a place: whose record lies there
//! records   | record 0 | record 1 | record 2 | free | record 4 | ...
//! ```
//!
//! Whoever reads a row through a table of pairs, or a tree, waits for memory twice, one after the other: for the line
//! that says where the record is, and for the record. Where about how many rows there will be is known
//! ahead, and their keys have one length of at most 8 bytes, the second wait need not follow the first: so many
//! *places*, each as large as a record, lie side by side, and which of them is a key's follows from the key alone.
//! If its record lies there, a lookup is a comparison with the number of the place; the processor need not wait for its
//! outcome before it asks for the record.
//!
//! A key is read as a *number*, and its place is the number's low bits, shifted round by an amount that its
//! high half decides: keys that count up fill the places without a gap; so do pairs whose second part counts up, one
//! run for each first part, and the runs begin far from each other (multiples of the golden ratio). Scattered
//! keys meet by chance: with as many keys as places, 63 in a hundred have theirs, with half as many 79.
//! A key whose place is another's has its record elsewhere, and is found as if there were no places. (In a hash index only
//! such a key has a pair in its shard's table; an ordered one has all keys in its leaves, for scans and for keys that are not there.)
//!
//! A place is *free*, or *taken* (somebody makes a record there, or one lay there and somebody may still read
//! it), or it holds a record and its word is the key's number. The first two are words that no key of the place has.
//! A number stands there exactly while the record is linked: both change under the latch of the key's
//! node (its shard, or its leaf), whose stamp therefore guards absence here as well. A place is given back when the record's memory would be
//! freed, a grace period after it was unlinked.
//!
//! What it does not do: grow. The places are those that were expected, at most twice as many; pages of them that
//! nobody touches take no memory. If the memory cannot be had, or records differ in length, there are no places.

use super::{RecordShape, prefetch};
use crate::record::RecordPtr;
use noonmark_core::sync::{AtomicU64, Ordering};
use std::alloc::{self, Layout as Block};
use std::ptr::NonNull;

/// The fewest places: each has four numbers of places to choose words from that no key of its own has.
const PLACES_MIN: usize = 4;
/// The most: their memory is asked for at once.
const PLACES_MAX: usize = 1 << 32;
/// What one number of a high half turns the places by: the golden ratio's part behind the point, times 2^64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// See the module.
#[derive(Debug)]
pub(super) struct DirectTable {
    /// A word for each place.
    numbers: NonNull<AtomicU64>,
    /// As many places, of `stride` bytes.
    records: NonNull<u8>,
    /// One less than how many places there are, which is a power of two.
    mask: u64,
    /// Bytes from one place to the next.
    stride: usize,
    /// Alignment of a record.
    align: usize,
    /// What a tag is shifted by to get the key's number.
    shift: u32,
    /// What a product with [`GOLDEN`] is shifted by to get as many bits as a place's index has.
    turn: u32,
}

// SAFETY: the memory is the table's own, and all that is shared of it is atomic or guarded as records are.
unsafe impl Send for DirectTable {}
// SAFETY: as above.
unsafe impl Sync for DirectTable {}

impl DirectTable {
    /// Places for about so many rows; `None` if nobody knows how many, if they are too many, or if the memory is not
    /// to be had.
    pub(super) fn new(rows: usize, shape: RecordShape) -> Option<DirectTable> {
        if rows == 0 || rows > PLACES_MAX {
            return None;
        }
        let places = rows.max(PLACES_MIN).checked_next_power_of_two()?;
        let stride = shape.block.size();
        let numbers = Self::zeroed(Block::array::<u64>(places).ok()?)?.cast::<AtomicU64>();
        let records = Block::from_size_align(stride.checked_mul(places)?, shape.block.align())
            .ok()
            .and_then(Self::zeroed);
        let table = DirectTable {
            numbers,
            records: records.unwrap_or(NonNull::dangling()),
            mask: places as u64 - 1,
            stride: if records.is_some() { stride } else { 0 },
            align: shape.block.align(),
            shift: 64 - 8 * shape.key_bytes as u32,
            turn: 64 - places.trailing_zeros(),
        };
        // All others are free at zero.
        table.numbers()[0].store(Self::free(0), Ordering::Relaxed);
        records.map(|_| table)
    }

    fn zeroed(block: Block) -> Option<NonNull<u8>> {
        // SAFETY: no block is empty: there are places, and records have headers.
        NonNull::new(unsafe { alloc::alloc_zeroed(block) })
    }

    fn places(&self) -> usize {
        self.mask as usize + 1
    }

    #[inline(always)]
    fn numbers(&self) -> &[AtomicU64] {
        // SAFETY: so many were allocated, zeroed, for as long as the table lives; all access to them is atomic.
        unsafe { std::slice::from_raw_parts(self.numbers.as_ptr(), self.places()) }
    }

    /// The word of a free place: the number of a key whose place is another.
    fn free(place: usize) -> u64 {
        u64::from(place == 0)
    }

    /// The word of a taken place: likewise.
    fn taken(place: usize) -> u64 {
        2 + u64::from(place == 2)
    }

    /// The number of the key with this tag.
    #[inline(always)]
    fn number(&self, tag: u64) -> u64 {
        // A key of no bytes has the number 0.
        tag.checked_shr(self.shift).unwrap_or(0)
    }

    /// The place of the key with this number.
    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        let turned = (number >> 32).wrapping_mul(GOLDEN) >> self.turn;
        (number.wrapping_add(turned) & self.mask) as usize
    }

    #[inline(always)]
    fn record_at(&self, place: usize) -> RecordPtr {
        debug_assert!(place < self.places());
        // SAFETY: the place is one of those that were allocated.
        RecordPtr::new(unsafe { self.records.add(place * self.stride) }.cast())
    }

    #[inline(always)]
    fn word(&self, place: usize) -> &AtomicU64 {
        debug_assert!(place < self.places());
        // SAFETY: places are masked.
        unsafe { self.numbers().get_unchecked(place) }
    }

    /// The record of the key with this tag, if it is linked here.
    #[inline(always)]
    pub(super) fn get(&self, tag: u64) -> Option<RecordPtr> {
        let number = self.number(tag);
        let place = self.place(number);
        // Acquire: what was written to the record before it was linked is seen.
        (self.word(place).load(Ordering::Acquire) == number).then(|| self.record_at(place))
    }

    /// Begins to bring what [`DirectTable::get`] reads into the cache, and says where the record is, if it is here.
    #[inline(always)]
    pub(super) fn prefetch(&self, tag: u64) -> RecordPtr {
        let place = self.place(self.number(tag));
        prefetch(std::ptr::from_ref(self.word(place)).cast());
        self.record_at(place)
    }

    /// Takes the place of the key with this tag, if it is free: zeroed memory for its record.
    pub(super) fn take(&self, tag: u64) -> Option<NonNull<u64>> {
        let place = self.place(self.number(tag));
        // Acquire: whoever gave it back had zeroed it. Others may try to take it, under other latches.
        let word = self.word(place);
        word.compare_exchange(Self::free(place), Self::taken(place), Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        NonNull::new(self.record_at(place).as_ptr())
    }

    /// Links the record that was made in the place that was taken for this tag. Under the node's latch.
    pub(super) fn link(&self, tag: u64) {
        let number = self.number(tag);
        // Release: the record's contents come before.
        self.word(self.place(number)).store(number, Ordering::Release);
    }

    /// Unlinks this record, if it is the one that is linked for this tag; whether it was. Under the node's latch.
    pub(super) fn unlink(&self, tag: u64, record: RecordPtr) -> bool {
        let found = self.get(tag) == Some(record);
        if found {
            let place = self.place(self.number(tag));
            // Relaxed: as in the tables, the stamp and the grace period speak for it.
            self.word(place).store(Self::taken(place), Ordering::Relaxed);
        }
        found
    }

    /// Whether a record lies here.
    pub(super) fn has(&self, record: RecordPtr) -> bool {
        self.place_of(record).is_some()
    }

    /// The place of a record, if it lies here.
    fn place_of(&self, record: RecordPtr) -> Option<usize> {
        let offset = (record.as_ptr().addr()).checked_sub(self.records.addr().get())?;
        let place = offset / self.stride;
        (place < self.places()).then_some(place)
    }

    /// Makes the place of a record free, if the record lies here; whether it does.
    ///
    /// # Safety
    /// Nobody refers to the record any more, and nobody can find it.
    pub(super) unsafe fn give_back(&self, record: RecordPtr) -> bool {
        let Some(place) = self.place_of(record) else { return false };
        // SAFETY: the place is the caller's alone, and its memory is `stride` bytes of this table's.
        unsafe { record.as_ptr().cast::<u8>().write_bytes(0, self.stride) };
        // Release: it is zeroed before somebody takes it.
        self.word(place).store(Self::free(place), Ordering::Release);
        true
    }

    /// All records that are linked.
    pub(super) fn records(&self) -> impl Iterator<Item = RecordPtr> {
        // Acquire: as in `get`.
        let numbers = self.numbers().iter().map(|word| word.load(Ordering::Acquire)).enumerate();
        numbers.filter(|&(place, number)| self.place(number) == place).map(|(place, _)| self.record_at(place))
    }

    /// The memory set aside for numbers; what records take is theirs.
    pub(super) fn bytes(&self) -> usize {
        self.places() * size_of::<AtomicU64>()
    }
}

impl Drop for DirectTable {
    fn drop(&mut self) {
        // The sums were done when the blocks were made.
        let (Ok(numbers), Ok(records)) = (
            Block::array::<u64>(self.places()),
            Block::from_size_align(self.places() * self.stride, self.align),
        ) else {
            return;
        };
        // SAFETY: allocated in `new` with these layouts; nobody is left. Records hold nothing of their own that the
        // table's owner has not freed.
        unsafe {
            alloc::dealloc(self.numbers.as_ptr().cast(), numbers);
            if self.stride != 0 {
                alloc::dealloc(self.records.as_ptr(), records);
            }
        }
    }
}
