//! `TicToc` (Yu, Pavlo, Sánchez and Devadas, SIGMOD 2016): no clock at all; each transaction computes when it happened.
//!
//! A version is *valid from* the time at which it was written *to* the latest at which somebody read it and committed. A
//! transaction that commits picks the first time that is after the last read of all that it overwrites, and not before
//! anything that it has read was written; then it sees to it that all that it has read is valid at that time,
//! by moving the end of its validity, if the version is still there. So two that touch different things share nothing, and
//! one may come before another that has committed earlier.
//!
//! # It is not opaque
//!
//! What an attempt has read is known to belong together only at its commit; meanwhile it may be two values that no state ever
//! had together. Code that sees such values may loop for ever, divide by zero, or follow a link into
//! nowhere. So it is no control for a [`World`](crate::World), which wants [`Opaque`](crate::Opaque) ones: no closure that
//! reads as it goes, no nodes, no maps. It runs [`TFixed`](crate::TFixed), whose transactions name what they
//! touch before they begin, and whose closures see it only when it has been *confirmed*: by the same rule by which it
//! commits.
//!
//! Nor is it strict: it is serializable in the order of the times, and the time of a transaction may be before that of one
//! that was over when it began, if they have nothing in common. It takes four transactions to notice.
//!
//! # Departures
//!
//! - Writes are made in place, under a lock taken when the write is made, with an undo log, as by all controls here. What is
//!   undone is left as if it had been written anew, just after its last read: for somebody may have copied what was undone,
//!   and must find another word.
//! - While a word is locked, it names its holder in place of the length of its validity, which the holder remembers.
//!
//! What it does not do: it does not wait, and nobody waits for a change of what it has read.

use super::{Conflict, Control, Ending};
use crate::desk::Desk;
use crate::lines::{Noted, Spot};
use crate::log::Lent;
use crate::planted::Bug;
use noonmark_core::sync::{AtomicU64, Ordering, fence};
use noonmark_core::{Access, Host, SlotId, Step, WaitFor};
use std::cell::Cell;

/// Times computed at the commit; not opaque: see `control/tictoc.rs`. For [`TFixed`](crate::TFixed) only.
///
/// It is the control of no world, be it one of one's own or not:
///
/// ```compile_fail,E0277
/// use noonmark_stm::{Memory, Own, Settings, Threads, TicToc, world};
/// world! {
///     pub struct Torn: TicToc, Threads, Own = Memory::new(Settings::default(), Threads::default());
/// }
/// ```
///
/// ```compile_fail,E0277
/// use noonmark_stm::{Global, TVar, TicToc};
/// let torn = TVar::<u64, Global<TicToc>>::new_in(1);
/// ```
///
/// So there are no closures that read as they go, no nodes, and no maps:
///
/// ```compile_fail,E0277
/// use noonmark_stm::{Global, TicToc, World};
/// Global::<TicToc>::atomically(|_| Ok(()));
/// ```
///
/// ```compile_fail,E0277
/// use noonmark_stm::{Global, TRavlMap, TicToc};
/// fn find(map: &TRavlMap<u64, u64, Global<TicToc>>) {}
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TicToc;

/// The state of a lock.
///
/// ```text
///   63        62 .. 48                                47 .. 0
///   locked    for how long the version was valid;     from when on it was valid
///             while locked: the holder's slot
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word(u64);

const LOCKED: u64 = 1 << 63;
const LENGTH_SHIFT: u32 = 48;
const LENGTH_MAX: u64 = (1 << 15) - 1;
const TIME_MAX: u64 = (1 << LENGTH_SHIFT) - 1;

impl Word {
    fn valid(from: u64, to: u64) -> Word {
        assert!(to < TIME_MAX, "the times of this transactional memory have come to their end");
        // Where the validity is too long to be written down, it begins later: whoever has read it before that does
        // not recognize it, and begins anew.
        let from = from.max(to.saturating_sub(LENGTH_MAX));
        Word((to - from) << LENGTH_SHIFT | from)
    }

    fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    fn is_locked_by(self, slot: SlotId) -> bool {
        self.0 >> LENGTH_SHIFT == (LOCKED >> LENGTH_SHIFT) | slot.index() as u64
    }

    fn from(self) -> u64 {
        self.0 & TIME_MAX
    }

    /// Of an unlocked word.
    fn to(self) -> u64 {
        debug_assert!(!self.is_locked());
        self.from() + (self.0 >> LENGTH_SHIFT)
    }

    fn locked_by(self, slot: SlotId) -> Word {
        Word(LOCKED | (slot.index() as u64) << LENGTH_SHIFT | self.from())
    }
}

/// The lock of one object.
#[derive(Debug)]
pub struct Lock(AtomicU64);

impl Default for Lock {
    fn default() -> Self {
        // Valid from 0 to 0.
        Lock(AtomicU64::new(0))
    }
}

impl Lock {
    fn load(&self) -> Word {
        // Acquire: what the last holder wrote comes before what is read after this.
        Word(self.0.load(Ordering::Acquire))
    }
}

/// What is kept of an attempt.
#[derive(Debug, Default)]
pub struct Local {
    /// When it happened, once it is sure to commit.
    commit_time: Cell<u64>,
}

/// A version that was read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    lock: Lent<Lock>,
    seen: Word,
}

/// A lock that was taken.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    lock: Lent<Lock>,
    before: Word,
}

/// Lends the lock to the attempt.
fn lend(lock: &Lock) -> Lent<Lock> {
    // SAFETY: whoever calls a rule holds the lock until the attempt has ended; and this goes into the logs of the
    // desk only.
    unsafe { Lent::new(lock) }
}

/// How often a rule looks again when a word has changed under its eyes.
const LOOKS: usize = 3;

impl Control for TicToc {
    const NAME: &'static str = "TicToc";
    const IS_IRREVOCABLE: bool = false;

    type Lock = Lock;
    type Shared = ();
    type Local = Local;
    type Read = Read;
    type Held = Held;

    fn local(_: SlotId) -> Self::Local {
        Default::default()
    }

    fn begin<H: Host>(_: &Desk<Self, H>, _: bool) {}

    #[inline]
    fn read_on<H: Host, R: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Lock, H>,
        _: bool,
        load: impl Fn() -> R,
    ) -> Step<R, Conflict> {
        for _ in 0..LOOKS {
            me.touch(lock.line(), Access::Read);
            let first = lock.load();
            if first.is_locked_by(me.slot) {
                return Step::Ready(load());
            }
            if first.is_locked() {
                return Step::Abort(Conflict::ReadLocked);
            }
            let copy = load();
            me.touch(lock.line(), Access::Read);
            // The copy comes before the second look. Relaxed after the fence: if the copy holds a word that somebody
            // has written since, his release fence makes this find his lock, or what came after.
            fence(Ordering::Acquire);
            let seen = Word(lock.lock().0.load(Ordering::Relaxed));
            // The same version; it may have become valid for longer.
            let is_same = !seen.is_locked() && seen.from() == first.from();
            if is_same || me.has_planted(Bug::SkipPostValidation) {
                me.log_read(lock, Read { lock: lend(&lock), seen: if is_same { seen } else { first } });
                return Step::Ready(copy);
            }
        }
        Step::Abort(Conflict::ReadNewer)
    }

    #[inline]
    fn write_on<H: Host>(me: &Desk<Self, H>, lock: Spot<'_, Lock, H>) -> Step<(), Conflict> {
        for _ in 0..LOOKS {
            me.touch(lock.line(), Access::Read);
            let before = lock.load();
            if before.is_locked_by(me.slot) {
                return Step::Ready(());
            }
            if before.is_locked() {
                return Step::Abort(Conflict::WriteLocked);
            }
            let locked = before.locked_by(me.slot).0;
            me.touch(lock.line(), Access::ReadModifyWrite);
            // Acquire: what the last holder wrote comes before.
            if lock.lock().0.compare_exchange(before.0, locked, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                // The lock comes before the values that are about to be stored.
                fence(Ordering::Release);
                me.log_held(lock, Held { lock: lend(&lock), before });
                return Step::Ready(());
            }
        }
        Step::Abort(Conflict::WriteLocked)
    }

    fn confirm<H: Host>(me: &Desk<Self, H>) -> Result<(), Conflict> {
        Self::validate(me)
    }

    /// No fence: of two that each read what the other writes, either one moves the end of a validity before the other
    /// locks the word, who then finds it there; or he finds the lock. Both are steps on one word.
    fn validate<H: Host>(me: &Desk<Self, H>) -> Result<(), Conflict> {
        let after_reads = me.held.iter().map(|held| held.before.to() + 1);
        let after_writes = me.reads.iter().map(|read| read.seen.from());
        let time = after_reads.chain(after_writes).max().unwrap_or(0);
        me.local.commit_time.set(time);
        if me.has_planted(Bug::SkipValidation) {
            return Ok(());
        }
        me.reads.iter().try_for_each(|read| stay_valid(me, read, time))
    }

    fn release<H: Host>(me: &Desk<Self, H>, ending: Ending, _: impl FnMut(WaitFor)) {
        for held in me.held.iter() {
            let Held { lock, before } = held.entry;
            let time = match ending {
                Ending::Commit if me.has_planted(Bug::CommitKeepsTime) => before.from(),
                Ending::Commit => me.local.commit_time.get(),
                _ if me.has_planted(Bug::UndoKeepsTime) => before.from(),
                _ => before.to() + 1,
            };
            me.touch(held.line, Access::Write);
            // A store: nobody else changes a locked word. Release: the values come before.
            lock.0.store(Word::valid(time, time).0, Ordering::Release);
        }
    }

    fn awaited(read: Read) -> WaitFor {
        WaitFor::release_of(&*read.lock)
    }

    /// Nobody waits.
    fn watch<H: Host>(_: &Desk<Self, H>, _: Noted<Read, H>) -> bool {
        false
    }

    /// There is no clock: it stands still.
    fn time((): &()) -> u64 {
        1
    }
}

/// Sees to it that what was read is valid at this time.
fn stay_valid<H: Host>(me: &Desk<TicToc, H>, read: Noted<Read, H>, time: u64) -> Result<(), Conflict> {
    if time <= read.seen.to() {
        return Ok(());
    }
    me.touch(read.line, Access::Read);
    // Relaxed: whether the version is the same is told by the word alone, and no value is read after this.
    let mut word = Word(read.lock.0.load(Ordering::Relaxed));
    loop {
        if word.from() != read.seen.from() {
            return Err(Conflict::Changed);
        }
        if word.is_locked() {
            // One's own lock: the version is there until the commit, which comes after its last read.
            return if word.is_locked_by(me.slot) { Ok(()) } else { Err(Conflict::Changed) };
        }
        if time <= word.to() {
            return Ok(());
        }
        let longer = Word::valid(word.from(), time).0;
        me.touch(read.line, Access::ReadModifyWrite);
        // Release: what was read, was read before; acquire on the writer's side, who writes after it.
        match read.lock.0.compare_exchange(word.0, longer, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return Ok(()),
            Err(now) => word = Word(now),
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_validity_is_written_down_as_far_as_there_is_room() {
        let slot = SlotId::new(1023).unwrap();
        for (from, to, begins) in [(0, 0, 0), (3, 9, 3), (7, 7 + LENGTH_MAX, 7), (7, 8 + LENGTH_MAX, 8)] {
            let word = Word::valid(from, to);
            assert_eq!((word.from(), word.to(), word.is_locked()), (begins, to, false));
            let locked = word.locked_by(slot);
            assert!(locked.is_locked_by(slot) && !locked.is_locked_by(SlotId::new(0).unwrap()));
            assert_eq!(locked.from(), begins);
        }
    }

    #[test]
    #[should_panic(expected = "have come to their end")]
    fn times_end_with_a_clear_word() {
        Word::valid(0, TIME_MAX);
    }
}
