//! The tables of the hash index, and the lines that they are made of.
//!
//! ```text
//! line    | tag 0 | tag 1 | tag 2 | tag 3 | record 0 | record 1 | record 2 | record 3 |   64 bytes
//! word    | address of the first line                        | shift, the low 6 bits  |
//! ```
//!
//! A *pair* (the tag that stands for a key, and its record) lies in the first line, from its home
//! on and round, that had room for it. Two invariants, for whoever holds the shard's latch or sees
//! its version unchanged:
//!
//! 1. The pairs of a line stand without a gap from its beginning; a place without a record is free.
//! 2. All lines from a pair's home up to its own, without that, are full. So a search ends in the
//!    first line with room, and nearly always in the home line.
//!
//! An insertion keeps the second one: it takes the first line with room. A removal may break it
//! only if the line that it leaves was full, and then only for pairs behind that line which passed
//! it on their way from home. So the lines behind it are looked through, as far as the first one
//! with room, which nobody passed. If no such pair is met, there is none. If one is, it moves into
//! the room: all lines that it still passes lay before that room, and were full. The line with room
//! is now the one that the pair came from, where the same question is asked again, unless that one
//! had room before: then nobody passed it. The room goes forward only, and since a table is at most
//! three quarters full, some line ahead has room, where this ends.
//!
//! A line is searched without a branch: four comparisons, each of which may put its record in the
//! place of what was found so far. They go from the last to the first, so that what an old pair left
//! behind in a free place loses to the pair that there is. Which place a key has cannot be
//! predicted; that it is found, and in its home line, can be.
//!
//! What a table does not do: it knows nothing of latches and versions. Its callers hold the shard's
//! latch to change it, and readers believe what they read by the shard's version.

use super::hashing::Hashed;
use noonmark_core::Garbage;
use noonmark_core::sync::{AtomicU64, Ordering};
use std::hint::select_unpredictable;
use std::marker::PhantomData;

/// Pairs in one line.
pub(super) const PAIRS: usize = 4;

/// Four places for pairs: a cache line.
///
/// All its loads and stores are relaxed: readers believe what they read only if the shard's version
/// has not changed since they loaded it, with an acquire load, which then comes after all stores to
/// the pairs and to the records; changes are made under the shard's latch.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Line {
    /// Keys or hashes. Of a free place: anything.
    tags: [AtomicU64; PAIRS],
    /// Records; zero is a free place.
    records: [AtomicU64; PAIRS],
}

impl Line {
    #[inline(always)]
    fn tag(&self, place: usize) -> u64 {
        self.tags[place].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn record(&self, place: usize) -> u64 {
        self.records[place].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set(&self, place: usize, tag: u64, record: u64) {
        self.tags[place].store(tag, Ordering::Relaxed);
        self.records[place].store(record, Ordering::Relaxed);
    }

    /// Whether a place is free. If so, no search goes on to the next line.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.record(PAIRS - 1) == 0
    }

    /// The first record in the line with this tag, or zero.
    #[inline(always)]
    pub(super) fn search(&self, tag: u64) -> u64 {
        (0..PAIRS)
            .rev()
            .fold(0, |found, place| select_unpredictable(self.tag(place) == tag, self.record(place), found))
    }

    /// All pairs, as tag and record.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..PAIRS).map(|place| (self.tag(place), self.record(place))).take_while(|(_, record)| *record != 0)
    }

    /// Puts a pair into the first free place, if there is one; whether there was.
    fn push(&self, tag: u64, record: u64) -> bool {
        let free = (0..PAIRS).find(|place| self.record(*place) == 0);
        if let Some(place) = free {
            self.set(place, tag, record);
        }
        free.is_some()
    }

    /// Takes the pair out of a place; the last one goes there.
    fn take(&self, place: usize) {
        let last = (place..PAIRS).take_while(|place| self.record(*place) != 0).last().unwrap_or(place);
        self.set(place, self.tag(last), self.record(last));
        self.records[last].store(0, Ordering::Relaxed);
    }
}

/// A table: a power of two of lines, in one word. The address of the first has, in the six bits
/// that its alignment leaves, what a hash is shifted by to get the number of its home line, less
/// [`MORE`].
#[derive(Clone, Copy)]
pub(super) struct Table<'a>(u64, PhantomData<&'a [Line]>);

/// What a hash is shifted by after it has been shifted by what the word says: a shift by a whole
/// word's bits, for a table of one line, is none to a processor. In a line's address, this shift
/// and the multiplication by its size are one mask.
const MORE: u32 = 6;
/// The bits of a word that are not the address.
const SHIFT: u64 = 63;

impl<'a> Table<'a> {
    /// The table in a shard's word.
    ///
    /// # Safety
    /// The word was read from a shard by somebody who is pinned for `'a`, or owns the index: all
    /// such words come from [`Table::new`], and a table is freed a grace period after its word was
    /// overwritten.
    #[inline(always)]
    pub(super) unsafe fn of_word(word: u64) -> Table<'a> {
        Table(word, PhantomData)
    }

    /// Makes an empty table.
    pub(super) fn new(lines: usize) -> Table<'a> {
        assert!(lines.is_power_of_two());
        let fresh: Box<[Line]> = (0..lines).map(|_| Line::default()).collect();
        let first = Box::into_raw(fresh).cast::<Line>().expose_provenance() as u64;
        Table(first | u64::from(u64::BITS - MORE - lines.trailing_zeros()), PhantomData)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn first(self) -> *const Line {
        std::ptr::with_exposed_provenance((self.0 & !SHIFT) as usize)
    }

    /// How many lines there are.
    pub(super) fn lines(self) -> usize {
        1 << (u64::BITS - MORE - (self.0 & SHIFT) as u32)
    }

    /// How many pairs would fill it.
    pub(super) fn places(self) -> usize {
        self.lines() * PAIRS
    }

    pub(super) fn bytes(self) -> usize {
        self.lines() * size_of::<Line>()
    }

    /// The number of the home line.
    #[inline(always)]
    pub(super) fn home_number(self, hash: u64) -> usize {
        (hash >> (self.0 & SHIFT) >> MORE) as usize
    }

    /// The home line of a hash.
    #[inline(always)]
    pub(super) fn home(self, hash: u64) -> &'a Line {
        // SAFETY: the two shifts leave as many bits as the logarithm of the number of lines, which
        // live during `'a`; all that changes in them is atomic.
        unsafe { &*self.first().add(self.home_number(hash)) }
    }

    fn mask(self) -> usize {
        self.lines() - 1
    }

    /// The line with this number, counted round.
    fn line(self, number: usize) -> &'a Line {
        // SAFETY: as in `home`; the mask is one less than the number of lines.
        unsafe { &*self.first().add(number & self.mask()) }
    }

    /// The lines in which a pair with this hash may lie. Bounded even if, halfway through somebody's
    /// change, no line has room.
    pub(super) fn lines_from_home(self, hash: u64) -> impl Iterator<Item = &'a Line> {
        let mut passed_all = false;
        let home = self.home_number(hash);
        (home..=home + self.mask())
            .map(move |number| self.line(number))
            .take_while(move |line| !std::mem::replace(&mut passed_all, line.has_room()))
    }

    /// All pairs, as tag and record.
    pub(super) fn pairs(self) -> impl Iterator<Item = (u64, u64)> {
        (0..self.lines()).flat_map(move |number| self.line(number).pairs())
    }

    /// Puts in a pair. Under the latch, or before the table is published; some line has room.
    pub(super) fn put<C: Hashed>(self, tag: u64, record: u64) {
        let mut number = self.home_number(C::hash_of_tag(tag));
        while !self.line(number).push(tag, record) {
            number += 1;
        }
    }

    /// Takes out the pair with this record and this hash, under the latch; whether it was there.
    pub(super) fn take_out<C: Hashed>(self, hash: u64, record: u64) -> bool {
        let mut number = self.home_number(hash);
        let place = loop {
            let line = self.line(number);
            match (0..PAIRS).find(|place| line.record(*place) == record) {
                Some(place) => break place,
                None if line.has_room() => return false,
                None => number += 1,
            }
        };
        self.take_at::<C>(number, place);
        true
    }

    /// Takes the pair out of a place, and brings forward those behind it that would no longer be
    /// found: see the module's invariants.
    fn take_at<C: Hashed>(self, number: usize, place: usize) {
        let (mut roomy, mut was_full) = (number, !self.line(number).has_room());
        self.line(roomy).take(place);
        let mut next = roomy;
        while was_full {
            next += 1;
            let line = self.line(next);
            let from_home = |tag| next.wrapping_sub(self.home_number(C::hash_of_tag(tag))) & self.mask();
            let passed = line.pairs().position(|(tag, _)| from_home(tag) >= (next - roomy) & self.mask());
            was_full = !line.has_room();
            if let Some(place) = passed {
                self.line(roomy).push(line.tag(place), line.record(place));
                line.take(place);
                roomy = next;
            }
        }
    }

    /// Freeing the table, later.
    pub(super) fn garbage(self) -> Garbage {
        // SAFETY: `free_lines` undoes `new`; atomics may be dropped on any thread.
        unsafe { Garbage::new(self.first().cast_mut().cast(), self.lines(), free_lines) }
    }

    /// Frees the table now.
    ///
    /// # Safety
    /// Nobody refers to it, nor will.
    pub(super) unsafe fn free(self) {
        // SAFETY: passed on.
        unsafe { free_lines(self.first().cast_mut().cast(), self.lines()) }
    }

    /// For tests: whether the invariants hold, and how many pairs lie beyond their home line.
    #[cfg(test)]
    pub(super) fn check<C: Hashed>(self) -> usize {
        let mut strays = 0;
        for number in 0..self.lines() {
            let line = self.line(number);
            let pairs: Vec<_> = line.pairs().collect();
            assert!((pairs.len()..PAIRS).all(|place| line.record(place) == 0), "a gap");
            for (tag, _) in pairs {
                let mut passed = self.home_number(C::hash_of_tag(tag));
                strays += usize::from(passed != number);
                while passed & self.mask() != number {
                    assert!(!self.line(passed).has_room(), "a pair behind a line with room");
                    passed += 1;
                }
            }
        }
        strays
    }
}

/// Frees the lines of a table.
///
/// # Safety
/// They come from [`Table::new`], and nobody refers to them.
unsafe fn free_lines(first: *mut u8, lines: usize) {
    // SAFETY: `new` took them from a box of this length.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(first.cast::<Line>(), lines)) });
}
