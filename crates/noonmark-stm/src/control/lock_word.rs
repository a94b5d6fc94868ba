//! The lock word: version, write lock and read lock of an object in one (Algorithm 5, Figure 5).
//!
//! ```text
//!   63         62          61 .. 12     11 .. 2             1           0
//!   written    consistent  timestamp    slot that wrote     read by     watched
//!   (locked)               of the last  last, or that       the irre-
//!                          commit       holds the lock      vocable
//! ```
//!
//! The fields that forbid an optimistic read stand at the top and those that do not at the bottom, so that *unlocked,
//! and older than this transaction* is one comparison: [`LockWord::is_older_than`].
//!
//! Transitions, and who makes them:
//!
//! ```text
//! unlocked ──try_lock (compare-and-swap from the word that was checked)──▶ written, by a speculative transaction
//! written  ──release (subtracts the holder's own fields)──▶ unlocked, new timestamp
//! any      ──read_lock (sets one bit)──▶ the same, and no new speculative lock
//! read, not written ──write_lock_alone (swap)──▶ read and written, by the irrevocable transaction
//! read, written by it ──release_alone (store)──▶ unlocked, new timestamp
//! read     ──read_unlock (clears one bit)──▶ the same without
//! not written ──watch (compare-and-swap)──▶ watched; the next lock takes the mark, and its release wakes, or puts
//!                                           the mark back if what was written is undone
//! ```
//!
//! # Departures from Algorithm 5
//!
//! - `tryWriteLock` loads the word that it then swaps, while `stmWrite` has checked another load: between the two
//!   somebody can lock, write and unlock, and the update is lost. Here the word that was checked is handed to
//!   [`Lock::try_lock`].
//! - `unlock` returns at once when the slot is another's; but a word that was only read-locked names the *last
//!   writer*, so the read bit would stay for ever. Here a transaction remembers what it locked, and
//!   [`Lock::read_unlock`] clears the bit, whosever slot stands beside it.
//! - The speculative unlock subtracts `sl - compose(UNLOCKED, tid, ts)`, where `sl` may hold the read bit that an
//!   irrevocable transaction has just set, which would be subtracted with the rest. Here the difference is
//!   made of the holder's own fields only.
//! - The irrevocable transaction sets the read bit with an *or*, not an *add*: twice is once. (Adding it twice
//!   would carry into the slot.)
//! - `writeLock` stores a word that is composed of the timestamp as it was before the wait, and drops the read bit.
//!   Here it keeps the bit and takes the timestamp as it is. While the bit is set and the word unlocked nobody but
//!   the one irrevocable transaction changes the word, but for the mark of those who wait, so it is a swap that
//!   takes the mark along.
//! - A slot takes 10 bits and a timestamp 50 (the paper leaves it open), and there is a bit for those who wait for
//!   a change.
//!
//! # Which memory orderings, and why
//!
//! *The value beside the word.* A writer locks, passes a release fence, and stores the value, relaxed; a reader
//! copies the value, relaxed, passes an acquire fence, and looks at the word. If the copy holds even one word of the
//! writer, the fences synchronize, and the reader finds the lock or what came after it. There is no look before
//! the copy. So the copy may be *older* than the word that is found after it; that this word then is not older than
//! the reader is up to the clock: see [`crate::control::deferred`].
//!
//! *What the value leads to.* A node has plain parts, which its maker writes before he links it, perhaps long after he has
//! got the lock, and hence after its fence. So the look at the word acquires, and what is found by way of the copy is
//! read after it. (That the time in the word is before the reader's says, by the clock's fences, that it was written before
//! the reader began; but such fences order atomic accesses only. On x86-64 it costs nothing.)
//!
//! *Whoever gets the lock sees the value of whoever had it before*: the compare-and-swap acquires what the release
//! released. The same for the irrevocable transaction, whose look after the wait acquires.
//!
//! What it does not do: it does not wait, and does not know the clock.

use super::Ending;
use crate::log::Lent;
use noonmark_core::sync::{AtomicU64, Ordering, fence};
use noonmark_core::{SlotId, WaitFor};

const WRITTEN: u64 = 1 << 63;
const CONSISTENT: u64 = 1 << 62;
const TIME_SHIFT: u32 = 12;
/// The last time that can be written down, and the one at which the memory is used up.
pub const TIME_MAX: u64 = (1 << 50) - 1;
const TIME: u64 = TIME_MAX << TIME_SHIFT;
const SLOT_SHIFT: u32 = 2;
/// How many slots a word can name.
pub const SLOTS_MAX: usize = 1 << 10;
const SLOT: u64 = (SLOTS_MAX as u64 - 1) << SLOT_SHIFT;
const READ: u64 = 1 << 1;
const WATCHED: u64 = 1;

/// One state of a [`Lock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWord(u64);

/// What a word must be less than to be unlocked and older than some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(u64);

impl Limit {
    /// No word is below this one.
    pub const NOTHING: Limit = Limit(0);

    /// Of unlocked words with times before this one.
    #[inline(always)]
    pub const fn before(time: u64) -> Self {
        Limit(time << TIME_SHIFT)
    }

    /// The time.
    #[inline(always)]
    pub const fn time(self) -> u64 {
        self.0 >> TIME_SHIFT
    }
}

/// How words look that a slot has left, if they are not locked for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left(u64);

impl Left {
    /// No word looks like this.
    pub const BY_NOBODY: Left = Left(u64::MAX);

    /// By this slot.
    #[inline(always)]
    pub const fn by(slot: SlotId) -> Self {
        Left((slot.index() as u64) << SLOT_SHIFT)
    }
}

impl LockWord {
    /// Of what nobody has ever written.
    pub const NEW: LockWord = LockWord(0);

    #[inline(always)]
    const fn unlocked(time: u64, slot: SlotId) -> Self {
        LockWord(time << TIME_SHIFT | (slot.index() as u64) << SLOT_SHIFT)
    }

    /// Not locked for writing, and last written before the limit's time.
    #[inline(always)]
    pub const fn is_older_than(self, limit: Limit) -> bool {
        self.0 < limit.0
    }

    /// Locked for writing.
    #[inline(always)]
    pub const fn is_written(self) -> bool {
        self.0 & WRITTEN != 0
    }

    /// Locked for writing by the slot that leaves words like these, which could have read it when it took the lock.
    #[inline(always)]
    pub const fn is_held_as(self, left: Left) -> bool {
        self.0 & (WRITTEN | CONSISTENT | SLOT) == WRITTEN | CONSISTENT | left.0
    }

    /// Locked for writing by this slot.
    #[inline(always)]
    pub const fn is_written_by(self, slot: SlotId) -> bool {
        self.0 & (WRITTEN | SLOT) == WRITTEN | (slot.index() as u64) << SLOT_SHIFT
    }

    /// Not locked for writing, and last written by this slot.
    #[inline(always)]
    pub const fn is_left_by(self, slot: SlotId) -> bool {
        self.is_as(Left::by(slot))
    }

    /// Not locked for writing, and last written by this slot.
    #[inline(always)]
    pub const fn is_as(self, left: Left) -> bool {
        self.0 & (WRITTEN | SLOT) == left.0
    }

    /// Of a word that is locked for writing: its holder could have read it when it took the lock (§3.2).
    #[inline(always)]
    pub const fn is_consistent(self) -> bool {
        self.0 & CONSISTENT != 0
    }

    /// Locked for reading by the irrevocable transaction.
    #[inline(always)]
    pub const fn is_read(self) -> bool {
        self.0 & READ != 0
    }

    /// Somebody waits for a change.
    #[inline(always)]
    pub const fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    /// When it was last written.
    #[inline(always)]
    pub const fn time(self) -> u64 {
        (self.0 & TIME) >> TIME_SHIFT
    }

    #[inline(always)]
    const fn held_by(self, slot: SlotId, is_consistent: bool) -> Self {
        let consistent = if is_consistent { CONSISTENT } else { 0 };
        LockWord(self.0 & TIME | (slot.index() as u64) << SLOT_SHIFT | WRITTEN | consistent)
    }
}

/// What the holder of a lock remembers of it.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The lock.
    pub lock: Lent<Lock>,
    /// What it was before, the mark of those who wait included.
    pub before: LockWord,
    /// What it has been made.
    word: LockWord,
}

impl Held {
    /// The word that its release leaves, but for the bit of the irrevocable transaction.
    #[inline(always)]
    fn left(self, time: u64, slot: SlotId, mark: Mark) -> LockWord {
        let word = LockWord::unlocked(time, slot);
        match mark {
            Mark::Answered => word,
            Mark::Kept => LockWord(word.0 | self.before.0 & WATCHED),
        }
    }
}

/// What becomes of the mark of those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Something has changed: they are woken.
    Answered,
    /// All is as before: they sleep on.
    Kept,
}

impl Mark {
    /// That of an attempt that ends like this.
    #[inline(always)]
    pub fn of(ending: Ending) -> Self {
        if ending == Ending::Commit { Mark::Answered } else { Mark::Kept }
    }
}

/// The lock of one object, or of all whose addresses are mapped to it.
#[derive(Debug)]
#[repr(transparent)]
pub struct Lock(AtomicU64);

impl Default for Lock {
    fn default() -> Self {
        Lock(AtomicU64::new(LockWord::NEW.0))
    }
}

impl Lock {
    /// The look of a reader that has copied the value, and of the validation, after a fence.
    #[inline(always)]
    pub fn load_after_fence(&self) -> LockWord {
        // The fence orders it after the copy, or after the locks of one's own. Acquire: what is plain in a node that the
        // value leads to was written before the word was released; see the module's page.
        LockWord(self.0.load(Ordering::Acquire))
    }

    /// The look of one who goes on to read what the word guards, or to lock it.
    #[inline(always)]
    pub fn load(&self) -> LockWord {
        // Acquire: what the last holder wrote comes before what is read after this.
        LockWord(self.0.load(Ordering::Acquire))
    }

    /// Takes the write lock, if the word still is `seen`, which is not locked in either way.
    ///
    /// The mark of those who wait is taken along: whoever holds the lock wakes them.
    #[inline(always)]
    pub fn try_lock(
        &self,
        lent: Lent<Lock>,
        seen: LockWord,
        slot: SlotId,
        is_consistent: bool,
    ) -> Option<Held> {
        debug_assert!(!seen.is_written() && !seen.is_read());
        let word = seen.held_by(slot, is_consistent);
        // Acquire: see the module's page. The order with other words (the clock, what is validated) is
        // made by the fence at the commit.
        let swapped = self.0.compare_exchange(seen.0, word.0, Ordering::Acquire, Ordering::Relaxed);
        swapped.is_ok().then(|| {
            // The lock comes before the values that are about to be stored.
            fence(Ordering::Release);
            Held { lock: lent, before: seen, word }
        })
    }

    /// Lets go of what a speculative transaction holds, leaving this time. `shared`: an irrevocable transaction
    /// may set its bit meanwhile.
    #[inline(always)]
    pub fn release(held: Held, time: u64, slot: SlotId, shared: bool, mark: Mark) {
        let next = held.left(time, slot, mark);
        // Release: the values come before. (So they do by the fence that whoever commits or undoes has passed; this
        // does not rely on it.) A word that others may change in the meantime is changed in one step,
        // and only in its holder's own fields: all but the read bit, which is in neither operand.
        if shared {
            held.lock.0.fetch_sub(held.word.0.wrapping_sub(next.0), Ordering::Release);
        } else {
            held.lock.0.store(next.0, Ordering::Release);
        }
    }

    /// The irrevocable transaction forbids new speculative locks.
    #[inline]
    pub fn read_lock(&self) {
        // Acquire: with a word that is unlocked comes what its last holder wrote.
        self.0.fetch_or(READ, Ordering::Acquire);
    }

    /// And allows them again. *Release*: what it has read, it read before.
    #[inline]
    pub fn read_unlock(&self) {
        self.0.fetch_and(!READ, Ordering::Release);
    }

    /// The irrevocable transaction, which has locked it for reading and found it unlocked since, locks it for writing.
    #[inline]
    pub fn write_lock_alone(&self, lent: Lent<Lock>, seen: LockWord, slot: SlotId) -> Held {
        debug_assert!(seen.is_read() && !seen.is_written());
        let word = LockWord(seen.held_by(slot, true).0 | READ);
        // One step, as somebody may set his mark meanwhile: see the module's page. Relaxed, with a fence that puts it before
        // the values.
        let before = LockWord(self.0.swap(word.0, Ordering::Relaxed));
        debug_assert_eq!(before.0 | WATCHED, seen.0 | WATCHED);
        fence(Ordering::Release);
        Held { lock: lent, before, word }
    }

    /// Lets go of what the irrevocable transaction holds, for reading too, leaving this time.
    #[inline]
    pub fn release_alone(held: Held, time: u64, slot: SlotId, mark: Mark) {
        // Release: the values come before. Nobody else changes the word.
        held.lock.0.store(held.left(time, slot, mark).0, Ordering::Release);
    }

    /// Marks a word as watched, if it still is `seen`, which is not locked for writing: its holder relies on it that nobody
    /// marks it. Whoever marks has left a waker in the room before.
    pub fn watch(&self, seen: LockWord) -> bool {
        debug_assert!(!seen.is_written());
        // Relaxed: who changes the word finds the mark, by the order of changes of this one word, and goes to
        // the room. It finds the waker there, whose coming is ordered before by the mutex of the room: or else it
        // has been there earlier, and so changed the word before this, which does not find `seen`.
        let next = seen.0 | WATCHED;
        // A word that is marked already is looked at once more all the same.
        self.0.compare_exchange(seen.0, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// What those wait for who wait for a change of it.
    pub fn as_awaited(&self) -> WaitFor {
        WaitFor::release_of(self)
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    fn slot(index: usize) -> SlotId {
        SlotId::new(index).unwrap()
    }

    fn lend(lock: &Lock) -> Lent<Lock> {
        // SAFETY: the tests keep their locks longer than what they make of them.
        unsafe { Lent::new(lock) }
    }

    #[test]
    fn one_comparison_tells_what_may_be_read() {
        let limit = Limit::before(7);
        assert!(LockWord::NEW.is_older_than(limit) && !LockWord::NEW.is_older_than(Limit::NOTHING));
        let last = slot(SLOTS_MAX - 1);
        for (time, older) in [(6, true), (7, false), (8, false), (TIME_MAX, false)] {
            let word = LockWord::unlocked(time, last);
            assert_eq!((word.is_older_than(limit), word.time()), (older, time));
            assert_eq!(LockWord(word.0 | READ | WATCHED).is_older_than(limit), older);
            assert!(!word.held_by(slot(0), false).is_older_than(limit));
            assert!(word.is_left_by(last) && !word.is_left_by(slot(1)) && !word.is_written_by(last));
        }
        assert_eq!(limit.time(), 7);
    }

    #[test]
    fn a_lock_is_taken_from_the_word_that_was_checked_only() {
        let lock = Lock::default();
        let seen = lock.load();
        let held = lock.try_lock(lend(&lock), seen, slot(5), true).unwrap();
        let word = lock.load();
        assert!(word.is_written_by(slot(5)) && !word.is_left_by(slot(5)) && word.is_consistent());
        Lock::release(held, 9, slot(5), true, Mark::Answered);
        // Unlocked again, but not what was seen: this is where the listing loses an update.
        assert!(lock.try_lock(lend(&lock), seen, slot(6), true).is_none());
        assert!(lock.load().is_left_by(slot(5)));
        assert_eq!(lock.load().time(), 9);
    }

    #[test]
    fn a_speculative_release_leaves_the_read_bit() {
        for (time, by) in [(0, 0), (1, 5), (TIME_MAX, SLOTS_MAX - 1)] {
            let lock = Lock::default();
            let held = lock.try_lock(lend(&lock), lock.load(), slot(by), time % 2 == 1).unwrap();
            lock.read_lock();
            assert!(lock.load().is_read() && lock.load().is_written_by(slot(by)));
            Lock::release(held, time, slot(by), true, Mark::Answered);
            let word = lock.load();
            assert!(word.is_read() && word.is_left_by(slot(by)) && word.time() == time);
            lock.read_unlock();
            assert_eq!(lock.load(), LockWord::unlocked(time, slot(by)));
        }
    }

    #[test]
    fn a_read_lock_goes_though_another_wrote_last() {
        let lock = Lock::default();
        Lock::release(
            lock.try_lock(lend(&lock), lock.load(), slot(3), true).unwrap(),
            4,
            slot(3),
            true,
            Mark::Answered,
        );
        let before = lock.load();
        lock.read_lock();
        lock.read_lock();
        assert!(lock.load().is_read() && lock.load().is_left_by(slot(3)));
        lock.read_unlock();
        assert_eq!(lock.load(), before, "locked twice, unlocked once, and nothing carried");
    }

    #[test]
    fn the_irrevocable_lock_keeps_the_time_and_forbids_others_until_it_goes() {
        let lock = Lock::default();
        Lock::release(
            lock.try_lock(lend(&lock), lock.load(), slot(3), true).unwrap(),
            4,
            slot(3),
            true,
            Mark::Answered,
        );
        lock.read_lock();
        let held = lock.write_lock_alone(lend(&lock), lock.load(), slot(8));
        let word = lock.load();
        assert!(word.is_read() && word.is_written_by(slot(8)) && word.time() == 4);
        Lock::release_alone(held, 6, slot(8), Mark::Answered);
        assert_eq!(lock.load(), LockWord::unlocked(6, slot(8)));
    }

    #[test]
    fn a_mark_stays_beside_the_read_bit_and_through_an_undoing() {
        let lock = Lock::default();
        lock.read_lock();
        let read = lock.load();
        assert!(lock.watch(read), "nobody writes");
        // Marked since the look.
        let held = lock.write_lock_alone(lend(&lock), read, slot(8));
        assert!(held.before.is_watched() && !lock.load().is_watched());
        Lock::release_alone(held, 3, slot(8), Mark::Kept);
        let marked = lock.load();
        assert!(marked.is_watched() && !marked.is_read() && marked.time() == 3);
        let held = lock.try_lock(lend(&lock), marked, slot(1), true).unwrap();
        lock.read_lock();
        Lock::release(held, 4, slot(1), true, Mark::Kept);
        let marked = lock.load();
        assert!(marked.is_watched() && marked.is_read() && marked.is_left_by(slot(1)) && marked.time() == 4);
    }

    #[test]
    fn a_lock_takes_the_mark_of_those_who_wait() {
        let lock = Lock::default();
        let seen = lock.load();
        assert!(lock.watch(seen) && !lock.watch(seen));
        let marked = lock.load();
        assert!(marked.is_watched() && lock.watch(marked));
        let held = lock.try_lock(lend(&lock), marked, slot(1), true).unwrap();
        assert!(!lock.watch(marked), "it is no longer what was seen");
        Lock::release(held, 2, slot(1), true, Mark::Answered);
        assert!(held.before.is_watched() && !lock.load().is_watched());
    }
}
