//! The read indicator: which slots hold a read lock on a column group.
//!
//! One bit a slot, 62 slots a word; the top bit of each word says that a writer waits for readers
//! to leave. Readers of different words do not meet; a writer looks at all words.
//!
//! The second bit of the first word belongs to the [version word](crate::word), which has none to spare: the write lock is free, and somebody
//! waits for it in line ([`Readers::set_awaited`]).
//!
//! The protocol with the [version word](crate::word) is Dekker's: a reader *enters, then looks for a
//! write lock* (by [`VersionWord::load_seq_cst`](crate::VersionWord::load_seq_cst)); a writer *takes
//! the write lock, then looks for readers*. All four steps are sequentially consistent, so at least
//! one sees the other; if both do, the reader leaves again.
//!
//! A writer that waits for readers to leave *registers in the waiting room, marks, and looks again*;
//! a reader *leaves, and if it finds the mark, wakes*. Both change one word in atomic steps, so that
//! either the leaving finds the mark or the look finds the reader gone; no ordering beyond that is
//! asked for.
//!
//! What it does not do: it counts nothing. A slot is in or out; a transaction that reads a group
//! twice enters once, and must know that it leaves once.

use crate::sync::{AtomicU64, Ordering};
use crate::time::SlotId;

const WAITERS: u64 = 1 << 63;
const AWAITED: u64 = 1 << 62;
const SLOTS_PER_WORD: usize = 62;

/// A view of the words of one read indicator.
#[derive(Clone, Copy, Debug)]
pub struct Readers<'a>(&'a [AtomicU64]);

impl<'a> Readers<'a> {
    /// How many words an indicator for this many slots takes.
    pub const fn words_for(slots: usize) -> usize {
        slots.div_ceil(SLOTS_PER_WORD)
    }

    /// The indicator in these words, all zero at first.
    #[inline]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Readers(words)
    }

    #[inline]
    fn place(slot: SlotId) -> (usize, u64) {
        (slot.index() / SLOTS_PER_WORD, 1 << (slot.index() % SLOTS_PER_WORD))
    }

    /// Enters; false if the slot was in already (and stays in once).
    ///
    /// *Sequentially consistent*: the reader's half of the Dekker pattern.
    #[inline]
    pub fn enter(&self, slot: SlotId) -> bool {
        let (word, bit) = Self::place(slot);
        self.0[word].fetch_or(bit, Ordering::SeqCst) & bit == 0
    }

    /// Whether the slot is in. *Relaxed*: only the slot's own transaction asks, of itself.
    #[inline]
    pub fn contains(&self, slot: SlotId) -> bool {
        let (word, bit) = Self::place(slot);
        self.0[word].load(Ordering::Relaxed) & bit != 0
    }

    /// Leaves, and tells whether a writer waits for readers to leave and must be woken.
    ///
    /// *Release*: the reader's copies come before whatever a writer does that finds it gone.
    #[inline]
    #[must_use = "those who wait must be woken"]
    pub fn leave(&self, slot: SlotId) -> bool {
        let (word, bit) = Self::place(slot);
        self.0[word].fetch_and(!bit, Ordering::Release) & WAITERS != 0
    }

    /// The slots that are in, except one. Each word is looked at when the iterator comes to it.
    ///
    /// *Sequentially consistent*: the writer's half of the Dekker pattern; and so an acquire of what
    /// those did who have left.
    #[inline]
    pub fn others(&self, except: SlotId) -> impl Iterator<Item = SlotId> + 'a {
        let (own_word, own_bit) = Self::place(except);
        self.0.iter().enumerate().flat_map(move |(index, word)| {
            let mut bits = word.load(Ordering::SeqCst) & !(WAITERS | AWAITED);
            if index == own_word {
                bits &= !own_bit;
            }
            std::iter::from_fn(move || {
                if bits == 0 {
                    return None;
                }
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                SlotId::new(index * SLOTS_PER_WORD + bit)
            })
        })
    }

    /// Asks those who are in to say so when they leave. The caller has registered in the waiting
    /// room before, and looks once more at [`Readers::others`] after.
    ///
    /// *Relaxed*: the look after is of the same words. See the module's page.
    pub fn mark_waiters(&self) {
        for word in self.0 {
            word.fetch_or(WAITERS, Ordering::Relaxed);
        }
    }

    /// Takes the request back. Only the holder of the write lock marks, so nobody else's request
    /// can be lost. *Relaxed*, for the same reason: holders come one after the other.
    pub fn clear_waiters(&self) {
        for word in self.0 {
            if word.load(Ordering::Relaxed) & WAITERS != 0 {
                word.fetch_and(!WAITERS, Ordering::Relaxed);
            }
        }
    }

    /// Says whether somebody waits in line for the write lock that its holder is about to let go of.
    ///
    /// *Relaxed*: whoever takes the lock next has acquired its release.
    pub fn set_awaited(&self, awaited: bool) {
        let word = &self.0[0];
        match (word.load(Ordering::Relaxed) & AWAITED != 0, awaited) {
            (false, true) => _ = word.fetch_or(AWAITED, Ordering::Relaxed),
            (true, false) => _ = word.fetch_and(!AWAITED, Ordering::Relaxed),
            _ => (),
        }
    }

    /// Whether somebody waited in line for the write lock when it was let go. For its holder. *Relaxed*, as above.
    #[inline(always)]
    pub fn is_awaited(&self) -> bool {
        self.0[0].load(Ordering::Relaxed) & AWAITED != 0
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn readers_are_known_by_slot() {
        let words: Vec<AtomicU64> = (0..Readers::words_for(130)).map(|_| AtomicU64::new(0)).collect();
        assert_eq!(words.len(), 3);
        let readers = Readers::new(&words);
        let slots: Vec<SlotId> = [0, 61, 62, 129].map(|i| SlotId::new(i).unwrap()).to_vec();
        for &s in &slots {
            assert!(readers.enter(s));
            assert!(!readers.enter(s));
        }
        assert_eq!(readers.others(SlotId::new(1).unwrap()).collect::<Vec<_>>(), slots);
        assert_eq!(readers.others(slots[2]).collect::<Vec<_>>(), [slots[0], slots[1], slots[3]]);
        readers.mark_waiters();
        assert!(readers.leave(slots[3]));
        readers.clear_waiters();
        readers.set_awaited(true);
        assert!(readers.is_awaited() && !readers.leave(slots[0]));
        assert_eq!(readers.others(slots[2]).collect::<Vec<_>>(), [slots[1]]);
        readers.set_awaited(false);
        assert!(!readers.is_awaited());
        assert!(!readers.contains(slots[0]) && readers.contains(slots[1]));
    }
}
