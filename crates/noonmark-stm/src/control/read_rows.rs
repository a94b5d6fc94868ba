//! Read indicators in rows: who reads what, where no two readers write the same line.
//!
//! Readers of one object that mark its lock all write the line of that lock, and take it from each other, though none of
//! them is in another's way. So the indicator is a matrix of bits, as in 2PLSF: *each slot has a row of its own, and a lock
//! a place that is the same in all rows*. A reader sets and clears bits of its own row, which nobody else writes. A writer
//! looks at the place of its lock in the rows of others.
//!
//! ```text
//!             places:  0 ......... 63  64 ....... 127
//!   row of slot 0      ..1..1........  .............    slot 0 reads two locks
//!   row of slot 1      .....1........  ............1    and slot 1 reads two, one of them the same
//! ```
//!
//! # Where a lock has its place
//!
//! A lock lies in its object, and has no number. Its place is made of its address: neighbours have neighbouring bits, so that what lies
//! together in memory lies together in the row, 4 KiB of locks and what they guard to a line of it. Locks that are 8 MiB apart, or a multiple of that,
//! have the same place, or would, if the higher bits did not turn the order of the lower ones. So *two locks may share a place*,
//! as objects that hash alike share a lock in the paper. A bit thus says that its slot may read any of them. A writer
//! that waits for it waits for longer than it must, for a reader of something else: one of 2^20 places each. For what is
//! right this changes nothing, as long as a reader never takes a bit that it finds set for the sign that it holds this lock.
//! (The locks of a table are no more than there are places, and share none.)
//!
//! Under a host that is told of lines, the place is made of the object's number, so that a run repeats: eight bits to
//! an object, as it has a line of its own there.
//!
//! # Who has a row
//!
//! A row is made when its slot first reads, and then says so: it raises the number of rows that writers look at. That is
//! one step in one order with their looks ([`Rows::make`]), so that whoever does not see the row has been seen by its slot.
//!
//! A row takes [`ROW_BYTES`], however many objects there are.
//!
//! What it does not do: it does not say who may read. That is `two_pl_sf.rs`, with the Dekker pattern that the orderings are for.

use super::lock_word::SLOTS_MAX;
use crate::lines::{LINE_BYTES, Space};
use noonmark_core::sync::{AtomicU64, AtomicUsize, CachePadded, Ordering};
use noonmark_core::{Access, Host, Line, SlotId};
use std::sync::{Arc, OnceLock};

/// How many slots can have a row. (Few under the model checkers, which make them anew for each run.)
pub const SLOTS: usize = if cfg!(any(loom, shuttle)) { 8 } else { SLOTS_MAX };

/// How many places there are. (Two under the model checkers: neighbours have different ones, and most others share one.)
const PLACES_LOG2: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 20 };
const WORDS: usize = if PLACES_LOG2 > 6 { 1 << (PLACES_LOG2 - 6) } else { 1 };

const _: () = assert!(WORDS <= 1 << Place::WORD_BITS);

/// How much memory a row takes.
pub const ROW_BYTES: usize = WORDS * 8;

/// How many lines that is.
const ROW_LINES: u64 = (ROW_BYTES as u64).div_ceil(LINE_BYTES as u64);

/// The place of a lock in each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    word: u32,
    bit: u64,
}

impl Place {
    /// How many bits the number of a word takes.
    pub const WORD_BITS: u32 = 14;

    /// That of the lock with this number: neighbours in memory have neighbouring numbers.
    #[inline(always)]
    pub fn of(number: u64) -> Place {
        // The higher half of the product depends on all bits of what is multiplied. (Loom's models must take the same course each time, wherever
        // in memory their locks are.)
        let block = if cfg!(loom) { 0 } else { number >> PLACES_LOG2 };
        let turned = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = (number ^ turned) & ((1 << PLACES_LOG2) - 1);
        Place { word: (place >> 6) as u32, bit: 1 << (place & 63) }
    }

    /// The number of its word in a row.
    #[inline(always)]
    pub fn word(self) -> u32 {
        self.word
    }
}

/// The bits of one slot, which nobody else writes.
#[derive(Clone, Debug)]
pub struct Row(Arc<[AtomicU64; WORDS]>);

impl Row {
    fn new() -> Row {
        // On the heap from the start: it may be longer than a stack has room for.
        let words: Arc<[AtomicU64]> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        Row(words.try_into().unwrap_or_else(|_| unreachable!("as many words as were made")))
    }

    #[inline(always)]
    fn word(&self, word: u32) -> &AtomicU64 {
        &self.0[word as usize % WORDS]
    }

    /// Whether the slot has set this bit. *Relaxed*: only the slot itself asks.
    #[inline(always)]
    pub fn has(&self, place: Place) -> bool {
        self.word(place.word).load(Ordering::Relaxed) & place.bit != 0
    }

    /// Sets it. *Sequentially consistent*: the reader's half of the Dekker pattern.
    #[inline(always)]
    pub fn enter(&self, place: Place) {
        let word = self.word(place.word);
        // A store is enough, as nobody else writes the word.
        word.store(word.load(Ordering::Relaxed) | place.bit, Ordering::SeqCst);
    }

    /// Clears this word: its slot reads nothing any more. *Release*: its copies come before whatever a writer does that finds it gone.
    #[inline(always)]
    pub fn leave(&self, word: u32) {
        self.word(word).store(0, Ordering::Release);
    }

    /// Whether no bit is set.
    #[cfg(all(test, not(loom), not(shuttle)))]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }
}

/// The rows of all slots.
#[derive(Debug)]
pub struct Rows {
    /// **Invariant**: the number of the last slot that has a row, and 1; or more.
    count: CachePadded<AtomicUsize>,
    rows: Box<[OnceLock<Row>]>,
}

impl Default for Rows {
    fn default() -> Self {
        Rows { count: CachePadded(AtomicUsize::new(0)), rows: (0..SLOTS).map(|_| OnceLock::new()).collect() }
    }
}

/// The line of the number of rows.
const COUNT_LINE: Line = Space::Readers.line(0);

/// The line on which a word of a slot's row lies.
#[inline(always)]
pub fn line_of(slot: SlotId, word: u32) -> Line {
    let nth = u64::from(word) * 8 / LINE_BYTES as u64;
    Space::Readers.line(1 + slot.index() as u64 * ROW_LINES + nth)
}

impl Rows {
    /// The row of a slot, which asks for its own.
    #[cold]
    pub fn make(&self, host: &impl Host, slot: SlotId) -> Row {
        let row = self.rows[slot.index()].get_or_init(Row::new).clone();
        host.touch(|| COUNT_LINE, Access::ReadModifyWrite);
        // Sequentially consistent, and a change in any case, if only to the same number: so a writer whose look at the number comes
        // before it has taken the word before the slot looks at that; and one whose look comes after it sees the row.
        self.count.fetch_max(slot.index() + 1, Ordering::SeqCst);
        row
    }

    /// How many of the slots, from the first on, may have a row. *Sequentially consistent*: see [`Rows::make`].
    #[inline]
    pub fn count(&self, host: &impl Host) -> usize {
        host.touch(|| COUNT_LINE, Access::Read);
        self.count.load(Ordering::SeqCst)
    }

    /// Whether another slot reads something that has this place. *Sequentially consistent*: the writer's half of the Dekker
    /// pattern; and so an acquire of what the slot did before it left.
    #[inline]
    pub fn reads(&self, host: &impl Host, slot: SlotId, place: Place) -> bool {
        self.rows[slot.index()].get().is_some_and(|row| {
            host.touch(|| line_of(slot, place.word), Access::Read);
            row.word(place.word).load(Ordering::SeqCst) & place.bit != 0
        })
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use noonmark_core::Threads;
    use std::collections::HashSet;

    fn slot(index: usize) -> SlotId {
        SlotId::new(index).unwrap()
    }

    #[test]
    fn a_row_takes_as_many_bytes_as_the_docs_say() {
        assert_eq!(ROW_BYTES, 128 << 10);
        assert_eq!(size_of::<[AtomicU64; WORDS]>(), ROW_BYTES);
    }

    #[test]
    fn neighbours_have_places_of_their_own_on_one_line() {
        let block = 0x7f12_3456_7000_u64 >> 3 & !511;
        let places: Vec<Place> = (block..block + 512).map(Place::of).collect();
        let lines: HashSet<Line> = places.iter().map(|place| line_of(slot(3), place.word)).collect();
        assert_eq!(lines.len(), 1);
        let apart: HashSet<_> = places.iter().map(|place| (place.word, place.bit)).collect();
        assert_eq!(apart.len(), 512);
        // Of a table, or of any run of as many locks, two never share one.
        let all: HashSet<_> =
            (0..1 << PLACES_LOG2).map(Place::of).map(|place| (place.word, place.bit)).collect();
        assert_eq!(all.len(), 1 << PLACES_LOG2);
    }

    #[test]
    fn what_is_far_apart_shares_places_by_chance_only() {
        let distances = (1..64).map(|blocks| blocks << PLACES_LOG2);
        let same = distances.filter(|distance| Place::of(1000) == Place::of(1000 + distance)).count();
        assert!(same <= 1, "{same}");
    }

    #[test]
    fn a_writer_sees_who_is_in_and_nobody_else() {
        let (rows, host) = (Rows::default(), Threads::default());
        let (here, there) = (Place::of(5), Place::of(6));
        assert_eq!(rows.count(&host), 0);
        assert!(!rows.reads(&host, slot(4), here), "it has no row");
        let row = rows.make(&host, slot(4));
        assert_eq!(rows.count(&host), 5);
        rows.make(&host, slot(1));
        assert_eq!(rows.count(&host), 5);
        row.enter(here);
        assert!(row.has(here) && !row.has(there));
        row.enter(there);
        assert!(rows.reads(&host, slot(4), here) && rows.reads(&host, slot(4), there));
        assert!(!rows.reads(&host, slot(1), here));
        row.leave(here.word());
        assert!(!rows.reads(&host, slot(4), there) && row.is_empty(), "they lie in one word");
    }
}
