//! A direct-address table in front of an index: records that lie where their keys say.
//!
//! ```text
//! segment   [ words   | 0 | 1 | 2 | free | 4 | ...                       8 bytes a place: whose record lies there
//!             marks   | 1 | 1 | 1 | 0 | 1 | ...                          1 byte a place: the same in short
//!             records | record 0 | record 1 | record 2 | - | record 4 | ... ]
//! ```
//!
//! Whoever reads a row through a table of pairs, or a tree, waits for memory twice, one after the other: for the line
//! that says where the record is, and for the record. Where keys have one length of at most 8 bytes, the second wait
//! need not follow the first: *places*, each as large as a record, lie side by side, and which of them is a key's
//! follows from the key alone. If its record lies there, a lookup is a comparison with what is said of the place; the
//! processor need not wait for its outcome before it asks for the record.
//!
//! A key is read as a *number*. How many places there are depends on whether anybody knows how many rows to expect:
//!
//! - *Nobody does*: the places grow with the rows. They lie in *segments*: one of numbers below [`FIRST`], made with the first row,
//!   and one for each power of two from there on, of the numbers that have so many bits; that is made when somebody comes for a
//!   place in it and the table has three quarters as many rows as it has places. So keys that count up from zero all
//!   have a place, in segments of at most 8/3 as many places as rows; of keys that come in any order, a quarter comes too
//!   early. Keys beyond, scattered ones above all, have none. The key's highest bit does not count: it tells numbers with a sign from each other.
//! - *Somebody does*: there is one segment, of as many places as rows were expected, at most twice as many. A key's place is its number's low bits, shifted round
//!   by an amount that its high half decides: keys that count up fill the places without a gap, from wherever they begin; so do
//!   pairs whose second part counts up, one run for each first part, and the runs begin far from each other (multiples of the golden ratio). Scattered
//!   keys meet by chance: with as many keys as places, 63 in a hundred have theirs, with half as many 79.
//!
//! A key whose place is another's, or that has none, has its record elsewhere, and is found as if there were no places. (In a hash index only
//! such a key has a pair in its shard's table; an ordered one has all keys in its leaves, for scans and for keys that are not there.)
//!
//! A place is *free*, or *taken* (somebody makes a record there, or one lay there and somebody may still read
//! it), or it holds a record and its word is the key's number. The first two are words that no key of the place has.
//! A number stands there exactly while the record is linked. What tells a key from others of its place are the bits of its low half
//! that do not say where the place is, and its high half. Where both are below 16 (but not both 15) and the low half is below 2^28, they stand in the place's *mark*, too (plus one), as long
//! as the record is linked: so it is of keys without a sign that count up from zero, and of pairs whose first part is a small number. (Without the hint, of all that have a place.) Lookups of such keys need
//! not look at the word: marks of a million rows stay in the second-level cache, words do not.
//! Word and mark change under the latch of the key's
//! node (its shard, or its leaf), whose stamp therefore guards absence here as well. A place is given back when the record's memory would be
//! freed, a grace period after it was unlinked. Where a key's place is never changes, and a segment lasts as long as its table.
//!
//! What it does not do: shrink. Pages of a segment that nobody touches take no memory; those of rows that have gone do. If the memory cannot
//! be had, or records differ in length, there are no places.

use super::{RecordShape, prefetch};
use crate::record::RecordPtr;
use noonmark_core::sync::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, CachePadded, Ordering};
use std::alloc::{self, Layout as Block};
use std::ptr::{self, NonNull};

/// The places of the first segment of a table that grows.
const FIRST: usize = 16;
/// How many zeros its largest number begins with.
const FIRST_ZEROS: u32 = (FIRST as u64 - 1).leading_zeros();
/// The fewest places: each has four numbers of places to choose words from that no key of its own has.
const PLACES_MIN: usize = 4;
/// Places of a segment at the most: its memory is asked for at once.
const PLACES_MAX: usize = 1 << 32;
/// What one number of a high half turns the places by: the golden ratio's part behind the point, times 2^64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bits of a mark for the high half of a number, and as many for what tells it from others of its place with the same high half.
const MARK_BITS: u32 = 4;
/// One in so many rows of a table that grows is counted: who inserts others shares no line with anybody.
const COUNTED: usize = 16;

/// A line is left free behind so many records that take an even number of them.
const APART: usize = 16;
/// What the places of a segment are aligned to, and the most that records are.
const ALIGN: usize = 64;
/// What memory is asked for with, if it is aligned by hand: most allocators then have pages that are zero already, and need not touch them.
const ASKED_ALIGN: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct DirectTable {
    /// The bits of a number that say where its place is.
    counts: u64,
    /// What a tag is shifted by to get the key's number.
    shift: u32,
    /// What a product with [`GOLDEN`] is shifted by to get as many bits as a place's index has.
    turn: u32,
    /// What a number is shifted by to get the bits of its low half that tell it from others of its place.
    apart: u32,
    /// The bits of a number that are all zero if it has a mark.
    far: u64,
    /// Nobody knows how many rows there will be. Otherwise the first segment is the only one, and all bits count.
    grows: bool,
    spacing: Spacing,
    /// By how many zeros a number of its own begins with.
    segments: [Segment; 64],
    /// How many rows there are of those of which one in [`COUNTED`] is counted, in a table that grows.
    counted: CachePadded<AtomicUsize>,
}

/// Some places, in one block of memory: first the words, then the marks, then the places, as many of each.
#[derive(Debug, Default)]
struct Segment {
    /// Where the places begin, aligned. Null until the segment is made.
    places: AtomicPtr<u8>,
    /// Where the marks begin. Null until somebody begins to make the segment; then it stays.
    marks: AtomicPtr<AtomicU8>,
    /// How many places there are is a power of two, and one more than this; or there never are any, if this is zero.
    mask: u64,
}

/// How far the places of a segment are from each other.
///
/// Where records take an even number of lines, a cache that has a power of two of sets would keep the same line of all records, such as one
/// that few transactions look at, in the same part of its sets. So a line is left free behind [`APART`] of them.
#[derive(Clone, Copy, Debug)]
struct Spacing {
    /// Bytes from one place to the next, if they could lie anywhere.
    bytes: usize,
    /// The bits of an offset that count: places begin where records may.
    aligned: usize,
}

impl Spacing {
    fn of(record: Block) -> Spacing {
        let is_even = record.size().is_multiple_of(2 * ALIGN);
        let spread = if is_even { ALIGN / APART } else { 0 };
        Spacing { bytes: record.size() + spread, aligned: !(record.align() - 1) }
    }

    /// Where a place begins, in bytes behind the first.
    #[inline(always)]
    fn offset(self, at: usize) -> usize {
        (at * self.bytes) & self.aligned
    }

    /// The other way round: which place begins there.
    fn at(self, offset: usize) -> usize {
        (offset + !self.aligned) / self.bytes
    }

    /// The bytes of a place.
    fn size(self) -> usize {
        self.bytes & self.aligned
    }
}

/// What a place takes beside the record.
const BESIDE_BYTES: usize = size_of::<AtomicU64>() + size_of::<AtomicU8>();

/// A place in a segment that is made.
#[derive(Clone, Copy)]
struct Place<'a> {
    segment: &'a Segment,
    mark: &'a AtomicU8,
    record: RecordPtr,
    /// Its number in its segment.
    at: usize,
}

impl<'a> Place<'a> {
    /// Its word.
    #[inline(always)]
    fn word(self) -> &'a AtomicU64 {
        // Relaxed: set before there was a place.
        let words_end = self.segment.marks.load(Ordering::Relaxed).cast::<AtomicU64>();
        // SAFETY: the segment's words end where its marks begin, and are as many as there are places, of which this is one; they
        // live as long as the table, and all access to them is atomic.
        unsafe { &*words_end.sub(self.segment.places() - self.at) }
    }
}

impl Segment {
    fn of(places: usize) -> Segment {
        Segment { mask: places as u64 - 1, ..Segment::default() }
    }

    fn places(&self) -> usize {
        self.mask as usize + 1
    }

    fn block(&self, spacing: Spacing) -> Option<Block> {
        let bytes = spacing.bytes.checked_add(BESIDE_BYTES)?.checked_mul(self.places())?;
        Block::from_size_align(bytes.checked_add(ALIGN)?, ASKED_ALIGN).ok()
    }

    /// Makes it, unless somebody else does, or the memory is not to be had.
    #[cold]
    fn make(&self, spacing: Spacing) {
        let Some(block) = self.block(spacing) else { return };
        // SAFETY: no block is empty: there are places, and words.
        let Some(words) = NonNull::new(unsafe { alloc::alloc_zeroed(block) }) else { return };
        let words = words.cast::<AtomicU64>();
        // All others are free at zero, and no mark says anything.
        // SAFETY: there is one word at least, and nobody else knows it.
        unsafe { words.as_ref() }.store(free(0), Ordering::Relaxed);
        // SAFETY: behind the words there are as many bytes.
        let marks = unsafe { words.add(self.places()).cast::<AtomicU8>() };
        // Relaxed: nobody looks at it until it is seen where the places begin.
        let first = self.marks.compare_exchange(
            ptr::null_mut(),
            marks.as_ptr(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if first.is_err() {
            // SAFETY: allocated above with this layout, and shown to nobody.
            return unsafe { alloc::dealloc(words.as_ptr().cast(), block) };
        }
        // SAFETY: behind the marks, with as many bytes to spare as it takes to align them.
        let places = unsafe { marks.add(self.places()).cast::<u8>() };
        let aligned = places.as_ptr().map_addr(|address| address.next_multiple_of(ALIGN));
        // Release: whoever finds the places finds them, the words and the marks, zeroed.
        self.places.store(aligned, Ordering::Release);
    }

    /// A place of it, if it is made: the one that this says of the segment's mask, which must leave no more than that.
    #[inline(always)]
    fn place(&self, spacing: Spacing, at: impl FnOnce(u64) -> u64) -> Option<Place<'_>> {
        // Acquire: it was zeroed before.
        let places = NonNull::new(self.places.load(Ordering::Acquire))?;
        // Relaxed: set before the places were.
        // SAFETY: and never to null.
        let marks = unsafe { NonNull::new_unchecked(self.marks.load(Ordering::Relaxed)) };
        let at = at(self.mask) as usize;
        debug_assert!(at < self.places());
        // SAFETY: there are more marks and places than that, for as long as the table lives; all access to marks is atomic.
        let (mark, record) = unsafe { (marks.add(at).as_ref(), places.add(spacing.offset(at))) };
        Some(Place { segment: self, mark, record: RecordPtr::new(record.cast()), at })
    }
}

/// A number of which so many bits are set, the lowest ones.
const fn low_bits(count: u32) -> u64 {
    (1 << count) - 1
}

/// The word of a free place: the number of a key whose place is another.
fn free(at: usize) -> u64 {
    u64::from(at == 0)
}

/// The word of a taken place: likewise.
fn taken(at: usize) -> u64 {
    2 + u64::from(at == 2)
}

impl DirectTable {
    /// Places for about so many rows, or for as many as there will be if nobody knows (0); `None` if they are too many, or if the memory is not to be had.
    pub(super) fn new(rows: usize, shape: RecordShape) -> Option<DirectTable> {
        if rows > PLACES_MAX || shape.block.align() > ALIGN {
            return None;
        }
        let grows = rows == 0;
        let places = rows.max(PLACES_MIN).checked_next_power_of_two()?;
        let segment = |zeros: u32| match zeros {
            0 if !grows => Segment::of(places),
            32..=FIRST_ZEROS if grows => Segment::of((1 << (63 - zeros)).max(FIRST)),
            _ => Segment::default(),
        };
        // The bits of a low half below which it has a mark.
        let marked = places.trailing_zeros() + MARK_BITS;
        let table = DirectTable {
            counts: match 8 * shape.key_bytes {
                bits @ 1.. if grows => !(1 << (bits - 1)),
                _ => u64::MAX,
            },
            // The tag of a key of no bytes is zero, whatever it is shifted by.
            shift: u64::BITS - 8 * shape.key_bytes.max(1) as u32,
            turn: 64 - places.trailing_zeros(),
            // In a table that grows all numbers of a segment begin alike, but for the highest bit.
            apart: if grows {
                (8 * shape.key_bytes).saturating_sub(1) as u32
            } else {
                places.trailing_zeros()
            },
            far: if grows { 0 } else { !(low_bits(MARK_BITS) << 32 | low_bits(marked.min(32 - MARK_BITS))) },
            grows,
            spacing: Spacing::of(shape.block),
            segments: std::array::from_fn(|zeros| segment(zeros as u32)),
            counted: CachePadded(AtomicUsize::new(0)),
        };
        if !grows {
            table.segments[0].make(table.spacing);
            table.find(0)?;
        }
        Some(table)
    }

    /// Whether the key with this tag has a place, or may have one some day. One that counts up from far beyond has none in a table that grows.
    #[inline(always)]
    pub(super) fn reaches(&self, tag: u64) -> bool {
        !self.grows || self.number(tag) & self.counts < PLACES_MAX as u64
    }

    /// The number of the key with this tag.
    #[inline(always)]
    fn number(&self, tag: u64) -> u64 {
        tag >> (self.shift % u64::BITS)
    }

    /// The segment of a number, in a table that grows.
    #[inline(always)]
    fn segment(&self, number: u64) -> &Segment {
        let zeros = (number & self.counts | (FIRST as u64 - 1)).leading_zeros();
        // SAFETY: fewer than 64, as some bits are taken to be set.
        unsafe { self.segments.get_unchecked(zeros as usize) }
    }

    /// A number's place, if it has one.
    #[inline(always)]
    fn find(&self, number: u64) -> Option<Place<'_>> {
        if self.grows {
            return self.segment(number).place(self.spacing, |mask| number & mask);
        }
        let turned = (number >> 32).wrapping_mul(GOLDEN) >> self.turn;
        self.segments[0].place(self.spacing, |mask| number.wrapping_add(turned) & mask)
    }

    /// The mark of a place where the record of the key with this number is linked; zero if it has none. No other number of the place has the same.
    #[inline(always)]
    fn mark(&self, number: u64) -> u8 {
        if number & self.far != 0 {
            return 0;
        }
        // The high half goes into the upper bits; of the low one nothing comes there. (In a table that grows something may, and what tells two numbers of a place
        // apart, the first bit of both, goes into the lower ones.)
        let high = (number >> (32 - MARK_BITS)) as u8;
        let low = (number >> (self.apart % u64::BITS) & low_bits(MARK_BITS)) as u8;
        // The greatest has none.
        high.wrapping_add(low).wrapping_add(1)
    }

    /// Whether the record of the key with this number is linked in this place, which is the number's.
    #[inline(always)]
    fn is_linked(&self, place: Place<'_>, number: u64) -> bool {
        // Acquire: what was written to the record before it was linked is seen.
        match self.mark(number) {
            0 => place.word().load(Ordering::Acquire) == number,
            mark => place.mark.load(Ordering::Acquire) == mark,
        }
    }

    /// The record of the key with this tag, if it is linked here.
    #[inline(always)]
    pub(super) fn get(&self, tag: u64) -> Option<RecordPtr> {
        let number = self.number(tag);
        let place = self.find(number)?;
        self.is_linked(place, number).then_some(place.record)
    }

    /// The records of the keys with these tags that are linked here: whether all are. All that is read is asked for
    /// before any of it is; and `soon` is called with where each record is, if it is here.
    #[inline(always)]
    pub(super) fn find_many(
        &self,
        tags: impl Iterator<Item = u64> + Clone,
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) -> bool {
        for tag in tags.clone() {
            let number = self.number(tag);
            let Some(place) = self.find(number) else { continue };
            match self.mark(number) {
                0 => prefetch(ptr::from_ref(place.word()).cast()),
                _ => prefetch(ptr::from_ref(place.mark).cast()),
            }
            soon(place.record);
        }
        let mut all = true;
        // Where a place is takes fewer instructions to work out again than to keep.
        for (found, tag) in found.iter_mut().zip(tags) {
            *found = self.get(tag);
            all &= found.is_some();
        }
        all
    }

    /// Takes the place of the key with this tag, if it is free: zeroed memory for its record.
    pub(super) fn take(&self, tag: u64) -> Option<NonNull<u64>> {
        if !self.reaches(tag) {
            return None;
        }
        let number = self.number(tag);
        let place = self.find(number).or_else(|| {
            self.grow(self.segment(number));
            self.find(number)
        })?;
        // Acquire: whoever gave it back had zeroed it. Others may try to take it, under other latches.
        let (free, taken) = (free(place.at), taken(place.at));
        place.word().compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed).ok()?;
        NonNull::new(place.record.as_ptr())
    }

    /// Makes a segment that somebody comes for, if there are so many rows.
    #[cold]
    fn grow(&self, segment: &Segment) {
        // Relaxed: about as many will do, and rather more than fewer.
        let rows = (self.counted.load(Ordering::Relaxed) + 1).saturating_mul(COUNTED);
        let is_due = segment.places() <= FIRST || rows >= segment.places() / 4 * 3;
        if self.grows && segment.mask != 0 && is_due {
            segment.make(self.spacing);
        }
    }

    /// Links the record that was made in the place that was taken for this tag. Under the node's latch.
    pub(super) fn link(&self, tag: u64) {
        let number = self.number(tag);
        if let Some(place) = self.find(number) {
            // Release, both: the record's contents come before.
            place.word().store(number, Ordering::Release);
            place.mark.store(self.mark(number), Ordering::Release);
        }
    }

    /// Unlinks this record, if it is the one that is linked for this tag; whether it was. Under the node's latch.
    pub(super) fn unlink(&self, tag: u64, record: RecordPtr) -> bool {
        let number = self.number(tag);
        let Some(place) = self.find(number) else { return false };
        // Relaxed, here and below: under the latch; and as in the tables, the stamp and the grace period speak for it.
        let found = place.record == record && place.word().load(Ordering::Relaxed) == number;
        if found {
            place.mark.store(0, Ordering::Relaxed);
            place.word().store(taken(place.at), Ordering::Relaxed);
        }
        found
    }

    /// A row with this key has come, to its place or elsewhere.
    pub(super) fn came(&self, tag: u64) {
        if self.is_counted(tag) {
            // Relaxed: a count.
            self.counted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A row that had come has gone.
    pub(super) fn went(&self, tag: u64) {
        if self.is_counted(tag) {
            // Relaxed: a count.
            self.counted.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Multiples of the golden ratio lie evenly, so that of numbers that count up one in [`COUNTED`] does, nearly; others by chance. Numbers that no segment is for
    /// make none necessary.
    fn is_counted(&self, tag: u64) -> bool {
        let number = self.number(tag) & self.counts;
        self.grows && self.reaches(tag) && number.wrapping_mul(GOLDEN) < u64::MAX / COUNTED as u64
    }

    /// Whether a record lies here.
    pub(super) fn has(&self, record: RecordPtr) -> bool {
        self.place_of(record).is_some()
    }

    /// The segments that there are, or may be some day.
    fn segments(&self) -> &[Segment] {
        if self.grows { &self.segments[32..=FIRST_ZEROS as usize] } else { &self.segments[..1] }
    }

    /// The place of a record, if it lies here.
    fn place_of(&self, record: RecordPtr) -> Option<Place<'_>> {
        let address = record.as_ptr().addr();
        self.segments().iter().find_map(|segment| {
            let first = segment.place(self.spacing, |_| 0)?;
            let at = self.spacing.at(address.checked_sub(first.record.as_ptr().addr())?);
            if at < segment.places() { segment.place(self.spacing, |_| at as u64) } else { None }
        })
    }

    /// Makes the place of a record free, if the record lies here; whether it does.
    ///
    /// # Safety
    /// Nobody refers to the record any more, and nobody can find it.
    pub(super) unsafe fn give_back(&self, record: RecordPtr) -> bool {
        let Some(place) = self.place_of(record) else { return false };
        // SAFETY: the place is the caller's alone, and its memory is as many bytes of this table's.
        unsafe { record.as_ptr().cast::<u8>().write_bytes(0, self.spacing.size()) };
        // Release: it is zeroed before somebody takes it.
        place.word().store(free(place.at), Ordering::Release);
        true
    }

    /// All places of segments that are made.
    fn places(&self) -> impl Iterator<Item = Place<'_>> {
        let of = |segment: &Segment| if segment.mask == 0 { 0 } else { segment.places() as u64 };
        self.segments
            .iter()
            .flat_map(move |segment| (0..of(segment)).map_while(|at| segment.place(self.spacing, |_| at)))
    }

    /// All records that are linked.
    pub(super) fn records(&self) -> impl Iterator<Item = RecordPtr> {
        let is_linked = |place: &Place<'_>| {
            // Acquire: as in `is_linked`.
            let number = place.word().load(Ordering::Acquire);
            self.find(number).is_some_and(|own| own.record == place.record)
        };
        self.places().filter(is_linked).map(|place| place.record)
    }

    /// The memory set aside for words and marks; what records take is theirs.
    pub(super) fn bytes(&self) -> usize {
        let made = self.segments().iter().filter(|segment| segment.place(self.spacing, |_| 0).is_some());
        made.map(|segment| segment.places() * BESIDE_BYTES).sum()
    }
}

impl Drop for DirectTable {
    fn drop(&mut self) {
        for segment in self.segments() {
            let marks = segment.marks.load(Ordering::Relaxed);
            // The sums were done when it was made.
            if let (false, Some(block)) = (marks.is_null(), segment.block(self.spacing)) {
                let words = marks.cast::<AtomicU64>().wrapping_sub(segment.places());
                // SAFETY: allocated in `make` with this layout: the words come first. Nobody is left. Records hold nothing of their
                // own that the table's owner has not freed.
                unsafe { alloc::dealloc(words.cast(), block) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
