//! The version word of a column group, which is also its write lock.
//!
//! ```text
//!            63     62       61 .. 12          11 .. 0
//! unlocked   0    absent   time of writing    slot of the writer
//! locked     1    waiters  sequence number    slot of the holder
//! ```
//!
//! One word, so that taking the write lock *is* the check that the version is still the one that
//! was read: a compare-and-swap from the version seen to the id of the transaction. The version
//! is not lost meanwhile: the holder keeps it and puts it back if it aborts.
//!
//! Transitions, and who makes them:
//!
//! ```text
//! version v ──try_lock──▶ held by t ──unlock(version w > v)──▶ version w     (t commits)
//!                             │  ▲ └──unlock(version v)──▶ version v         (t aborts)
//!                  mark_waiters│  │
//!                             ▼  │
//!                    held by t, waiters: unlock answers that somebody must be woken
//!                    held by t, waiters ──hand_over──▶ held by u, waiters  (u has waited for long)
//! absent v ──try_lock──▶ held by t ──unlock(RECLAIMED)──▶ of no use any more
//!                             ▲                                 │
//!                             └────────────try_revive───────────┘   (where a record gets its cells back)
//! ```
//!
//! A committed version's time only ever grows, so two versions of one group that are equal as words
//! are the same version: no ABA. This asks two things of the holder: a holder that commits leaves a
//! later time than it found, and one that has begun to install no longer puts the old version back.
//!
//! # Which memory orderings, and why
//!
//! *The value beside the word* is a seqlock. A writer does
//!
//! ```text
//! try_lock; fence_before_install; relaxed stores of the value (or a release store of a pointer); unlock
//! ```
//!
//! and a reader, which tries again if the two looks differ or the first is locked,
//!
//! ```text
//! load; relaxed loads of the value; fence(Acquire); load_after_fence
//! ```
//!
//! A reader that copies even one word of the new value must find the lock, or what came after it, at
//! its second look. The orderings of `try_lock` do not see to that: they keep *earlier* accesses of
//! the writer from sinking below the lock, and later ones from rising above its load, but not above
//! its store; a weakly ordered machine may show the new value before the lock. What does is the pair
//! of a release fence between the lock and the stores and an acquire fence between the copy and the
//! second look. On x86 both cost nothing.
//!
//! *A copy that is validated by `try_lock`* (read-modify-write) needs neither the second look nor the
//! acquire fence: if the compare-and-swap finds the version of the first look, then whoever wrote any
//! later value took the lock after us, and its acquire saw our release.
//!
//! *Looks that decide against another word* are one half of a Dekker pattern, "I have published mine,
//! now what is yours": they take [`VersionWord::load_seq_cst`], as [`VersionWord::load`] may be
//! answered from before the publication. There are two: a reader that has [entered](crate::Readers)
//! and looks for a write lock, and a logical reader that has raised the read time and looks for a
//! write lock. The writer's halves are `try_lock`, and then a sequentially consistent load of the
//! readers, or of the read time.
//!
//! *Waiting* needs no more than the order of the word's own changes and the waiting room's mutex: see
//! [`crate::room`].
//!
//! # What it does not do
//!
//! It does not wait, it does not know who may take the lock from whom, and it does not notice a
//! version that is put back after an install has begun.

use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::{SLOT_BITS, SlotId, TIME_BITS, Timestamp, TxnId};

const LOCKED: u64 = 1 << 63;
const FLAG: u64 = 1 << 62;

/// One state of a [`VersionWord`]: a version, or a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word(u64);

impl Word {
    /// The record was taken out of its index for good; look the key up again.
    pub const RECLAIMED: Word = Word(LOCKED | ((1 << SLOT_BITS) - 1));

    /// All zero: an unlocked word that no commit ever writes. Free, where the word is not a version.
    pub const FREE: Word = Word(0);

    /// Free, where the word is not a version; and somebody waits for it in line.
    pub const AWAITED: Word = Word(FLAG);

    /// A committed version.
    #[inline]
    pub const fn version(time: Timestamp, writer: SlotId, absent: bool) -> Self {
        Word((absent as u64) << 62 | time.ticks() << SLOT_BITS | writer.index() as u64)
    }

    #[inline]
    const fn held(by: TxnId) -> Self {
        Word(LOCKED | by.bits())
    }

    /// Whether a transaction holds the write lock (or the record is [reclaimed](Self::RECLAIMED)).
    #[inline]
    pub const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether the record has left its index for good.
    #[inline]
    pub const fn is_reclaimed(self) -> bool {
        self.0 == Self::RECLAIMED.0
    }

    /// Who holds the write lock.
    #[inline]
    pub const fn owner(self) -> Option<TxnId> {
        if self.is_locked() && !self.is_reclaimed() { Some(TxnId::from_bits(self.0)) } else { None }
    }

    /// Whether `txn` holds the write lock.
    #[inline]
    pub const fn is_held_by(self, txn: TxnId) -> bool {
        self.0 & !FLAG == LOCKED | txn.bits()
    }

    /// Of a version: the key has no value at this version. Meaningless while locked.
    #[inline]
    pub const fn is_absent(self) -> bool {
        self.0 & FLAG != 0
    }

    /// Of a version: when it was written. Meaningless while locked.
    #[inline]
    pub const fn time(self) -> Timestamp {
        Timestamp::new(self.0 >> SLOT_BITS & ((1 << TIME_BITS) - 1))
    }

    /// Of a version: the slot of the transaction that wrote it. Meaningless while locked.
    #[inline]
    pub const fn writer(self) -> SlotId {
        SlotId::from_bits(self.0)
    }
}

/// A [`Word`], or none, in the room of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaybeWord(u64);

impl MaybeWord {
    /// No word.
    // No state of a word: locked by a transaction in a slot that is nobody's, and not reclaimed.
    pub const NONE: MaybeWord = MaybeWord(u64::MAX);

    /// The word, if there is one.
    #[inline(always)]
    pub const fn get(self) -> Option<Word> {
        if self.0 == Self::NONE.0 { None } else { Some(Word(self.0)) }
    }
}

impl From<Option<Word>> for MaybeWord {
    #[inline(always)]
    fn from(word: Option<Word>) -> Self {
        word.map_or(Self::NONE, |word| MaybeWord(word.0))
    }
}

/// A version and write lock in one atomic word.
#[derive(Debug)]
#[repr(transparent)]
pub struct VersionWord(AtomicU64);

impl VersionWord {
    /// Starts in this state.
    pub fn new(word: Word) -> Self {
        VersionWord(AtomicU64::new(word.0))
    }

    /// The word in an atomic that other words lie beside.
    #[inline(always)]
    pub fn from_atomic(word: &AtomicU64) -> &Self {
        // SAFETY: `VersionWord` is a transparent wrapper of it.
        unsafe { &*std::ptr::from_ref(word).cast::<VersionWord>() }
    }

    /// What it is now. *Acquire*: whoever sees a version sees the value that was installed with it.
    ///
    /// Not for a look that must come after something that this thread has just published: see
    /// [`VersionWord::load_seq_cst`].
    #[inline(always)]
    pub fn load(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// What it is now, for one who has just published something by a sequentially consistent
    /// read-modify-write (entered the readers, or raised the read time) and relies on it that a
    /// writer either is found here, locked, or finds what was published.
    ///
    /// *Sequentially consistent*: an acquire load after a read-modify-write of another word may be
    /// answered from before it, in the language and on machines with a weaker acquire load
    /// (`ldapr`). On x86 the same instruction as [`VersionWord::load`].
    #[inline(always)]
    pub fn load_seq_cst(&self) -> Word {
        Word(self.0.load(Ordering::SeqCst))
    }

    /// What it is now, for the second look of a reader that has copied the value and has passed an
    /// acquire fence: the fence orders the copy before this load, so *relaxed* is enough.
    #[inline(always)]
    pub fn load_after_fence(&self) -> Word {
        Word(self.0.load(Ordering::Relaxed))
    }

    /// Takes the write lock if the word still is `seen`, an unlocked version. Otherwise: what it is
    /// instead.
    ///
    /// Call [`VersionWord::fence_before_install`] between this and the first store of a new value.
    ///
    /// *Sequentially consistent*: the lock is one half of two Dekker patterns. The other halves are
    /// a logical reader that raises the read time and then looks for a lock, and a reader that
    /// enters the [read indicator](crate::readers) and then looks for a lock; at least one of each
    /// pair sees the other. On x86 every read-modify-write is that strong anyway.
    #[inline(always)]
    pub fn try_lock(&self, seen: Word, by: TxnId) -> Result<(), Word> {
        debug_assert!(!seen.is_locked());
        self.0
            .compare_exchange(seen.0, Word::held(by).0, Ordering::SeqCst, Ordering::Acquire)
            .map(|_| ())
            .map_err(Word)
    }

    /// Takes a word that is not a version if it still is `seen`, [free](Word::FREE) or [awaited](Word::AWAITED). Whether somebody waits stays as it is.
    /// Otherwise: what it is instead.
    ///
    /// *Sequentially consistent*, as [`VersionWord::try_lock`].
    #[inline(always)]
    pub fn try_take(&self, seen: Word, by: TxnId) -> Result<(), Word> {
        debug_assert!(seen.0 & !FLAG == 0);
        self.0
            .compare_exchange(seen.0, Word::held(by).0 | seen.0, Ordering::SeqCst, Ordering::Acquire)
            .map(|_| ())
            .map_err(Word)
    }

    /// Takes the write lock of a word that is [`Word::RECLAIMED`]; false if it is not. Whoever does lets it go as a version
    /// later than all before, or as it was.
    ///
    /// *Sequentially consistent*, as [`VersionWord::try_lock`].
    pub fn try_revive(&self, by: TxnId) -> bool {
        let held = Word::held(by).0;
        self.0.compare_exchange(Word::RECLAIMED.0, held, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Locks a version that nobody else can lock or replace meanwhile, as that is settled by another word, before its value is replaced.
    ///
    /// *Release*, as [`VersionWord::fence_before_install`]: whoever sees a word of the new value sees the lock, or more.
    #[inline(always)]
    pub fn lock_unwatched(&self, by: TxnId) {
        self.0.store(Word::held(by).0, Ordering::Relaxed);
        self.fence_before_install();
    }

    /// Orders the lock before the value that is about to be installed, for readers that copy the
    /// value meanwhile. See the module's page; nothing but a barrier to the compiler on x86.
    #[inline(always)]
    pub fn fence_before_install(&self) {
        fence(Ordering::Release);
    }

    /// Tells the holder that somebody waits, if the word still is `seen`, a locked state. False:
    /// it has changed; look again before waiting. The waiter has registered itself in the waiting
    /// room before.
    ///
    /// *Relaxed* is enough: if the holder emptied the room before this waiter registered, then the
    /// room's mutex puts its unlocking before this, which therefore does not find `seen`; and if it
    /// did so after, it woke the waiter. That it empties the room at all follows from the order of
    /// changes of this one word. The same holds if the mark was set already, but not for a mark that
    /// was seen *before* the waiter registered: so the word is looked at here once more.
    #[inline]
    pub fn mark_waiters(&self, seen: Word) -> bool {
        debug_assert!(seen.owner().is_some());
        if seen.0 & FLAG != 0 {
            return self.0.load(Ordering::Relaxed) == seen.0;
        }
        match self.0.compare_exchange(seen.0, seen.0 | FLAG, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            // Another waiter was faster. Still the same holder, and marked.
            Err(now) => now == seen.0 | FLAG,
        }
    }

    /// Lets go, leaving `next`; for protocols under which nobody ever waits for this word.
    ///
    /// *Release*: the value written under the lock is visible to whoever sees `next`.
    #[inline(always)]
    pub fn unlock_unwatched(&self, next: Word) {
        self.0.store(next.0, Ordering::Release);
    }

    /// Lets go, leaving `next`, unless somebody waits; then it stays as it is.
    ///
    /// *Release*, as above. That it cannot miss the mark of a waiter is due to its being one atomic step, whatever the ordering.
    #[inline(always)]
    #[must_use = "it may still be held"]
    pub fn try_unlock(&self, by: TxnId, next: Word) -> bool {
        self.0.compare_exchange(Word::held(by).0, next.0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Makes another transaction the holder, by the one who holds it. Marked, as others may wait as well.
    ///
    /// *Release*, as above; though the new holder goes through the waiting room's mutex, too, before he makes use of it.
    pub fn hand_over(&self, to: TxnId) {
        self.0.store(Word::held(to).0 | FLAG, Ordering::Release);
    }

    /// Lets go, leaving `next`, and tells whether somebody waits and must be woken.
    ///
    /// *Release*, as above. That it cannot miss the mark of a waiter is due to its being one atomic
    /// step, whatever the ordering.
    #[inline]
    #[must_use = "those who wait must be woken"]
    pub fn unlock(&self, next: Word) -> bool {
        self.0.swap(next.0, Ordering::Release) & FLAG != 0
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn words_carry_what_they_are_made_of() {
        let slot = SlotId::new(77).unwrap();
        let w = Word::version(Timestamp::MAX, slot, true);
        assert!(!w.is_locked() && w.is_absent());
        assert_eq!((w.time(), w.writer()), (Timestamp::MAX, slot));
        let txn = TxnId::new(slot, 5531);
        let cell = VersionWord::new(w);
        cell.try_lock(w, txn).unwrap();
        let held = cell.load();
        assert_eq!(held.owner(), Some(txn));
        assert!(held.is_held_by(txn) && !held.is_held_by(TxnId::new(slot, 5532)));
        assert!(cell.mark_waiters(held) && cell.mark_waiters(cell.load()));
        assert!(cell.load().is_held_by(txn));
        assert!(cell.unlock(w));
        assert_eq!(cell.load(), w);
        assert_eq!(Word::RECLAIMED.owner(), None);
        assert_eq!(txn.to_string(), "77/5531");
        for word in [None, Some(Word::FREE), Some(w), Some(held), Some(Word::RECLAIMED)] {
            assert_eq!(MaybeWord::from(word).get(), word);
        }
    }

    #[test]
    fn a_stale_look_gets_neither_the_lock_nor_the_mark() {
        let [a, b] = [1, 2].map(|i| TxnId::new(SlotId::new(i).unwrap(), 8));
        let old = Word::version(Timestamp::ZERO, SlotId::NOBODY, true);
        let new = Word::version(Timestamp::new(1), a.slot(), false);
        let cell = VersionWord::new(old);
        cell.try_lock(old, a).unwrap();
        let held = cell.load_seq_cst();
        assert_eq!(cell.try_lock(old, b), Err(held));
        assert!(cell.mark_waiters(held) && cell.mark_waiters(held), "the second waiter finds the mark");
        let marked = cell.load();
        assert!(marked != held && marked.owner() == Some(a));
        assert!(cell.unlock(new));
        assert!(!cell.mark_waiters(held) && !cell.mark_waiters(marked));
        assert_eq!((cell.load(), cell.try_lock(old, b)), (new, Err(new)));
        cell.try_lock(new, b).unwrap();
        assert!(!cell.mark_waiters(marked), "another holder");
        assert!(!cell.unlock(Word::RECLAIMED), "nobody waits");
        assert!(cell.load().is_reclaimed() && cell.load().is_locked());
    }

    #[test]
    fn a_mark_stays_from_hand_to_hand() {
        let [a, b] = [1, 2].map(|i| TxnId::new(SlotId::new(i).unwrap(), 8));
        let cell = VersionWord::new(Word::FREE);
        cell.try_take(Word::FREE, a).unwrap();
        assert_eq!(cell.try_take(Word::FREE, b), Err(cell.load()));
        assert!(cell.try_unlock(a, Word::FREE), "nobody waits");
        cell.try_take(Word::FREE, a).unwrap();
        assert!(cell.mark_waiters(cell.load()) && !cell.try_unlock(a, Word::AWAITED));
        cell.hand_over(b);
        assert!(cell.load().is_held_by(b) && !cell.try_unlock(b, Word::AWAITED), "marked");
        cell.unlock_unwatched(Word::AWAITED);
        assert!(!cell.load().is_locked() && cell.load().owner().is_none());
        cell.try_take(Word::AWAITED, a).unwrap();
        assert!(cell.load().is_held_by(a) && !cell.try_unlock(a, Word::FREE), "still marked");
    }

    #[test]
    fn what_was_there_from_the_start_is_not_reclaimed() {
        let absent = Word::version(Timestamp::ZERO, SlotId::NOBODY, true);
        assert!(absent.is_absent() && !absent.is_reclaimed() && absent.owner().is_none());
        assert_eq!(absent.writer(), SlotId::NOBODY);
    }
}
