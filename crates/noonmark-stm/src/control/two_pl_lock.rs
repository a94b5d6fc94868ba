//! The lock of 2PLSF: one word, who holds it for writing, and who has read it.
//!
//! Who *has* it for reading is not in it, but in the rows of the readers ([`super::read_rows`]). The word says in whose rows to look: it keeps
//! a record of who has read since it was last taken for writing ([`Record`]), which is at least those who have it, and those who have come since. Why
//! that is so, and why two who come at once see each other, is said in `two_pl_sf.rs`.
//!
//! The record has a bit for each of [`GROUPS`] groups of slots. As long as there are no more slots than that in use, each is a group of its own.
//!
//! What it does not do: it decides nothing about who waits for whom.

use noonmark_core::sync::{AtomicU64, Ordering};
use noonmark_core::{SlotId, WaitFor};

/// What the word of a lock says.
///
/// ```text
///   63 .. 37                  36 .. 13                 12 .. 2                 1              0
///   commits that wrote this   groups on record for     the holder's slot + 1,  somebody wants somebody waits
///                             having read it           or 0: free              the lock       for a change
/// ```
///
/// The commits are counted to 2^27, and then from 0 again: whoever waits for a change would miss as many commits between his reading and
/// his looking again, if they were just as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u64);

pub const WATCHED: u64 = 1;
const WANTED: u64 = 1 << 1;
const HOLDER_SHIFT: u32 = 2;
const HOLDER: u64 = 0x7ff << HOLDER_SHIFT;
const RECORD_SHIFT: u32 = 13;
/// How many groups of slots a record knows. (Two under the model checkers, so that slots share them.)
pub const GROUPS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 24 };
const RECORD: u64 = ((1 << GROUPS) - 1) << RECORD_SHIFT;
pub const VERSION_SHIFT: u32 = RECORD_SHIFT + GROUPS as u32;
pub const VERSION: u64 = !0 << VERSION_SHIFT;

/// Groups of slots, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record(u64);

impl Record {
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it means this slot alone, as long as none beyond the first [`GROUPS`] has a row. (A slot beyond them is on it as one of the first is,
    /// so it never is alone.)
    #[inline(always)]
    pub fn is_only(self, slot: SlotId) -> bool {
        slot.index() < GROUPS && self.0 == 1 << slot.index()
    }

    /// The slots that it may mean, of the first so many.
    pub fn slots(self, count: usize) -> impl Iterator<Item = SlotId> {
        let groups = (0..GROUPS).filter(move |group| self.0 & 1 << group != 0);
        groups.flat_map(move |group| (group..count).step_by(GROUPS)).filter_map(SlotId::new)
    }
}

impl Word {
    pub fn holder(self) -> Option<SlotId> {
        ((self.0 & HOLDER) >> HOLDER_SHIFT).checked_sub(1).and_then(|index| SlotId::new(index as usize))
    }

    #[inline(always)]
    pub fn is_free(self) -> bool {
        self.0 & HOLDER == 0
    }

    #[inline(always)]
    pub fn is_held_by(self, slot: SlotId) -> bool {
        self.0 & HOLDER == (slot.index() as u64 + 1) << HOLDER_SHIFT
    }

    #[inline(always)]
    pub fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }

    /// In the hands of this slot, and nobody on record: for those who were he looks.
    #[inline(always)]
    pub fn taken_by(self, slot: SlotId) -> Word {
        Word(self.0 & !(HOLDER | RECORD) | (slot.index() as u64 + 1) << HOLDER_SHIFT)
    }

    /// Who is on record.
    #[inline(always)]
    pub fn record(self) -> Record {
        Record((self.0 & RECORD) >> RECORD_SHIFT)
    }

    #[inline(always)]
    fn bit_of(slot: SlotId) -> u64 {
        1 << (RECORD_SHIFT + (slot.index() % GROUPS) as u32)
    }

    /// Whether this slot is on record.
    #[inline(always)]
    pub fn covers(self, slot: SlotId) -> bool {
        self.0 & Word::bit_of(slot) != 0
    }

    /// Whether this slot, which has entered its row, has the lock for reading.
    #[inline(always)]
    pub fn lets_read(self, slot: SlotId) -> bool {
        self.is_free() && self.covers(slot) || self.is_held_by(slot)
    }

    /// With this slot on record.
    #[inline(always)]
    pub fn read_by(self, slot: SlotId) -> Word {
        Word(self.0 | Word::bit_of(slot))
    }

    /// When the holder has let go, who puts these back on record, as he has not seen all of them leave.
    #[inline(always)]
    fn released(self, has_changed: bool, still: Record) -> Word {
        let kept = self.0 & !(HOLDER | WANTED) | still.0 << RECORD_SHIFT;
        // Who waits for a change sleeps on if there is none.
        Word(if has_changed { (kept & !WATCHED).wrapping_add(1 << VERSION_SHIFT) } else { kept })
    }
}

/// The lock of one object: a word. Who has it for reading is in the [rows](super::read_rows).
#[derive(Debug)]
pub struct Lock(pub AtomicU64);

impl Default for Lock {
    fn default() -> Self {
        Lock(AtomicU64::new(0))
    }
}

impl Lock {
    /// *Sequentially consistent*: the reader's half of the Dekker pattern; and so it acquires what the last holder wrote.
    #[inline(always)]
    pub fn look(&self) -> Word {
        Word(self.0.load(Ordering::SeqCst))
    }

    /// To one who may hold it, and asks himself.
    #[inline(always)]
    pub fn own(&self) -> Word {
        // Relaxed: if it names the caller, the caller wrote it; if not, he goes on to look properly.
        Word(self.0.load(Ordering::Relaxed))
    }

    /// Takes it from what was seen, for reading or for writing.
    #[inline(always)]
    pub fn change(&self, seen: Word, next: Word) -> bool {
        // Sequentially consistent: either half of the Dekker pattern. It acquires what the last holder wrote.
        self.0.compare_exchange(seen.0, next.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Marks the word as wanted, if it still is `seen`: then its release wakes.
    pub fn want(&self, seen: Word) -> bool {
        // Relaxed: the order of changes of this one word is enough, see `noonmark_core::WaitingRoom`.
        // A word that is marked already is looked at once more all the same.
        self.0.compare_exchange(seen.0, seen.0 | WANTED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Lets go of it, as one who has written it or not; these may still have it for reading. Whether anybody must be woken.
    #[inline(always)]
    pub fn release(&self, has_changed: bool, still: Record) -> bool {
        let mut seen = self.own();
        loop {
            let next = seen.released(has_changed, still);
            // Release: the values come before. Others may have set marks, which this takes off, or put themselves on record.
            match self.0.compare_exchange(seen.0, next.0, Ordering::Release, Ordering::Relaxed) {
                Ok(before) => return before & !next.0 & (WANTED | WATCHED) != 0,
                Err(now) => seen = Word(now),
            }
        }
    }

    pub fn key(&self) -> WaitFor {
        WaitFor::release_of(self)
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::super::read_rows::SLOTS;
    use super::*;

    fn slot(index: usize) -> SlotId {
        SlotId::new(index).unwrap()
    }

    const NOBODY: Record = Record(0);

    #[test]
    fn a_lock_is_a_word() {
        assert_eq!(size_of::<Lock>(), 8);
    }

    #[test]
    fn what_a_word_says_is_kept_apart() {
        for (holder, reader) in [(0, 5), (5, 0), (SLOTS - 1, SLOTS - 2), (7, 7)] {
            let (holder, reader) = (slot(holder), slot(reader));
            let read = Word(3 << VERSION_SHIFT | WATCHED).read_by(reader);
            assert!(read.is_free() && read.lets_read(reader) && read.read_by(reader) == read);
            assert!(read.record().slots(SLOTS).any(|slot| slot == reader));
            assert_eq!(read.covers(holder), holder == reader);
            let word = read.taken_by(holder);
            assert_eq!((word.holder(), word.version()), (Some(holder), 3));
            assert_eq!(word.0 & (WATCHED | WANTED), WATCHED);
            assert!(word.is_held_by(holder) && !word.is_held_by(slot((holder.index() + 1) % SLOTS)));
            assert!(word.lets_read(holder) && word.record().is_empty());
            assert_eq!(word.lets_read(reader), holder == reader);
        }
    }

    #[test]
    fn a_record_means_all_slots_of_its_groups() {
        let record = Word(0).read_by(slot(2)).read_by(slot(GROUPS + 5)).record();
        let meant = |count: usize| record.slots(count).map(SlotId::index).collect::<Vec<_>>();
        assert_eq!(meant(GROUPS), [2, 5]);
        assert_eq!(meant(GROUPS + 3), [2, GROUPS + 2, 5]);
        assert_eq!(meant(2), []);
        assert_eq!(meant(SLOTS).len(), 2 * SLOTS / GROUPS + 1);
        assert!(!record.is_only(slot(2)));
        let one = Word(0).read_by(slot(5)).record();
        assert_eq!(one, Word(0).read_by(slot(GROUPS + 5)).record());
        assert!(one.is_only(slot(5)) && !one.is_only(slot(GROUPS + 5)));
    }

    #[test]
    fn who_comes_while_it_is_held_is_on_record_afterwards() {
        let (holder, reader) = (slot(4), slot(5));
        for has_changed in [true, false] {
            let lock = Lock(AtomicU64::new(Word(VERSION).read_by(holder).0));
            assert!(lock.change(lock.own(), lock.own().taken_by(holder)));
            assert!(lock.want(lock.own()));
            assert!(lock.release(has_changed, NOBODY), "somebody wants it");
            assert!(lock.own().record().is_empty() && lock.own().is_free());
            // Versions go round.
            assert_eq!(lock.own().version() == 0, has_changed);
            assert!(lock.change(lock.own(), Word(lock.own().0 | WATCHED).taken_by(reader)));
            assert!(lock.change(lock.own(), lock.own().read_by(holder)));
            assert_eq!(lock.release(has_changed, NOBODY), has_changed, "somebody waits for a change");
            assert!(lock.own().lets_read(holder));
            assert_eq!(lock.own().0 & WATCHED != 0, !has_changed);
        }
    }

    #[test]
    fn who_has_not_seen_all_readers_leave_puts_them_back_on_record() {
        let lock = Lock(AtomicU64::new(Word(0).read_by(slot(1)).0));
        let seen = lock.own();
        assert!(lock.change(seen, seen.taken_by(slot(2))));
        assert!(!lock.release(false, seen.record()));
        assert_eq!(lock.own(), seen);
    }
}
