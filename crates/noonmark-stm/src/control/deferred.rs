//! Deferred Clock Transactional Locking: what is common to its four variants (Algorithms 1 and 2).
//!
//! A transaction notes the clock when it begins. It may read what was last written *before* that time, and what it
//! has itself written last. It writes in place, under a lock, and when it commits its locks are left with the
//! clock's time, *without advancing it*. So the next transaction that meets what was written may find a time that
//! is not before its own, though it was over when it began; it then restarts, and it, not the writer, advances the
//! clock. Who meets nobody advances nothing: disjoint transactions, one after the other or side by side, share
//! one time (§3.1).
//!
//! The variants differ in what may be read and locked ([`Variant`]; Algorithms 3 and 4), and in whether a
//! transaction that has failed too often runs irrevocably (§5).
//!
//! # Why a reader's copy is good
//!
//! There is a sequentially consistent fence in a reader between its look at the clock and its first copy, and one in a
//! writer between its last store (or the undoing of it) and its look at the clock. Say a reader began at time `r`, and
//! finds a word that a writer left unlocked with a time `c < r`. The writer looked at the clock when it showed
//! `c`, and the reader when it showed more, so the writer's fence comes before the reader's. Therefore:
//!
//! 1. The reader's copy, made after its fence, is not older than what the writer left; nor is it a value that the
//!    writer wrote and then replaced or undid. The paper's reader does not look at the word before it copies, and this
//!    is why it need not.
//! 2. Whatever else that writer wrote, the reader finds locked or later: nothing that it has read since its fence
//!    can be from before.
//!
//! And if the copy holds a value of a writer that came later, then the reader finds that writer's lock (see
//! [`super::lock_word`]). So all that is read was committed before the attempt began, and not replaced until it was read
//! the last time: opacity (§4), without validating anything again while the attempt runs.
//!
//! *What one's own slot has left last* may be read at any time of the clock (§3.1): it was committed (or undone) by a
//! transaction that was over when this one began, and whoever wrote it before that had all his locks when he let this
//! one go.
//!
//! # Departures from the listings
//!
//! - The lock is taken from the word that was checked, the read bit is unlocked whoever wrote last, and more: see
//!   [`super::lock_word`].
//! - `restartTxn` adds one to the clock, whoever else has done so since. Here the clock is advanced past the time that
//!   was in the way, and if it is already, not at all: when many meet the same write, one of them advances.
//! - The time that an undone write is left with is read after a fence, and not what the addition answered: that is right
//!   also when the clock is not advanced (DCOTL's write conflicts, and a transaction that its user calls off).
//!   It is never the time from before: a reader may have copied what was undone.
//! - The ticket of the irrevocable transaction is taken before the attempt begins, not between its look at the clock and
//!   its first read, and is released last, after all locks.
//! - An irrevocable transaction can be rolled back all the same, by its user: it has an undo log like any other.
//!
//! # What it does not do
//!
//! It does not wait: an irrevocable transaction that must is told so ([`Step::Busy`]), and the ticket is
//! the driver's ([`crate::run`]).

use super::clock::Clock;
use super::lock_word::{Held, Left, Limit, Lock, LockWord, Mark};
use super::{Conflict, Control, Ending};
use crate::desk::Desk;
use crate::lines::{Noted, Spot};
use crate::log::Lent;
use crate::planted::Bug;
use noonmark_core::sync::{Ordering, fence};
use noonmark_core::{Access, Host, SlotId, Step, WaitFor};
use std::cell::Cell;

/// In what the four differ.
pub trait Variant: Sized + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Whether there are irrevocable transactions, so that two may hold one lock word at a time (§5).
    const IS_IRREVOCABLE: bool;
    /// Whether a conflict that a write has met advances the clock, too.
    const WRITES_ADVANCE: bool;

    /// Whether a transaction of this slot that began at the limit's time may read what has this word
    /// (`isReadConsistent`).
    fn is_read_consistent(word: LockWord, limit: Limit, slot: SlotId) -> bool;

    /// Whether it may write it (`isWriteConsistent`), if nobody has it locked for reading.
    fn is_write_consistent(word: LockWord, limit: Limit, slot: SlotId) -> bool;
}

/// What is kept of an attempt.
#[derive(Debug)]
pub struct Local {
    /// Before which time a value must have been written for the attempt to read it: `tl_readTS`. [`Limit::NOTHING`]
    /// while it is irrevocable, so that no read is granted at once.
    limit: Cell<Limit>,
    /// How words look that this slot has left, which are its own to read, however new. [`Left::BY_NOBODY`] while it is
    /// irrevocable. **Invariant**: between attempts it is the slot's.
    own: Cell<Left>,
    /// The time that the clock must be past for the next attempt not to meet the same again.
    in_the_way: Cell<u64>,
}

impl Local {
    /// Notes what was in the way, for the conflict.
    #[cold]
    fn meets(&self, word: LockWord, locked: Conflict, newer: Conflict) -> Conflict {
        if word.is_written() || word.is_read() {
            // His commit will leave the time that the clock then shows, at least this one.
            self.in_the_way.set(self.limit.get().time());
            locked
        } else {
            self.in_the_way.set(word.time());
            newer
        }
    }
}

/// Lends the lock to the attempt.
#[inline(always)]
fn lend(lock: &Lock) -> Lent<Lock> {
    // SAFETY: whoever calls a rule holds the lock for the lifetime of the attempt (`'tx`, see
    // `crate::transaction`); and this goes into the logs of the desk only.
    unsafe { Lent::new(lock) }
}

impl<V: Variant> Control for V {
    const NAME: &'static str = V::NAME;
    const IS_IRREVOCABLE: bool = V::IS_IRREVOCABLE;
    const VIEWS_LEAVE_NOTHING: bool = true;

    type Lock = Lock;
    type Shared = Clock;
    type Local = Local;
    type Read = Lent<Lock>;
    type Held = Held;

    fn local(slot: SlotId) -> Local {
        Local { limit: Cell::new(Limit::NOTHING), own: Cell::new(Left::by(slot)), in_the_way: Cell::new(0) }
    }

    /// `beginTxn`, lines 11 to 13.
    #[inline(always)]
    fn begin<H: Host>(me: &Desk<Self, H>, is_irrevocable: bool) {
        if is_irrevocable {
            me.local.limit.set(Limit::NOTHING);
            me.local.own.set(Left::BY_NOBODY);
        } else {
            me.local.limit.set(Limit::before(me.shared().now(me.host())));
        }
    }

    /// `stmRead`, of an old word, or one that this slot has left, or could read when it locked it.
    #[inline(always)]
    fn read_now<H: Host, R: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Lock, H>,
        tracked: bool,
        load: impl Fn() -> R,
    ) -> Option<R> {
        let copy = load();
        me.touch(lock.line(), Access::Read);
        // The copy comes before the look at the word.
        fence(Ordering::Acquire);
        let word = lock.load_after_fence();
        // What this slot has left last is its own to read, however new: mostly it wrote it in the transaction before.
        let is_held = || tracked && word.is_held_as(me.local.own.get());
        // (Both are looked at, as one branch: of data that this slot changes now and then, which of them holds cannot be guessed.)
        if word.is_older_than(me.local.limit.get()) | word.is_as(me.local.own.get()) || is_held() {
            if tracked {
                log_read(me, lock);
            }
            return Some(copy);
        }
        None
    }

    /// `stmRead`, of anything else: somebody's lock, or something new.
    fn read_on<H: Host, R: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Lock, H>,
        tracked: bool,
        load: impl Fn() -> R,
    ) -> Step<R, Conflict> {
        if me.is_irrevocable() {
            return read_alone(me, lock).map(|()| load());
        }
        let copy = load();
        me.touch(lock.line(), Access::Read);
        fence(Ordering::Acquire);
        let word = lock.load_after_fence();
        if V::is_read_consistent(word, me.local.limit.get(), me.slot)
            || me.has_planted(Bug::SkipPostValidation)
        {
            if tracked {
                log_read(me, lock);
            }
            Step::Ready(copy)
        } else {
            Step::Abort(me.local.meets(word, Conflict::ReadLocked, Conflict::ReadNewer))
        }
    }

    /// `stmWrite`, up to where it writes: of what is locked already, or could be read.
    #[inline(always)]
    fn write_now<H: Host>(me: &Desk<Self, H>, lock: Spot<'_, Lock, H>) -> bool {
        me.touch(lock.line(), Access::Read);
        let seen = lock.load();
        if seen.is_written_by(me.slot) {
            return true;
        }
        // (While it is irrevocable, none is.)
        let is_good = seen.is_older_than(me.local.limit.get()) || seen.is_as(me.local.own.get());
        is_good && !seen.is_read() && take(me, lock, seen, true)
    }

    /// `stmWrite`, up to where it writes, of anything else.
    fn write_on<H: Host>(me: &Desk<Self, H>, lock: Spot<'_, Lock, H>) -> Step<(), Conflict> {
        let slot = me.slot;
        me.touch(lock.line(), Access::Read);
        let seen = lock.load();
        if seen.is_written_by(slot) {
            return Step::Ready(());
        }
        if me.is_irrevocable() {
            return write_alone(me, lock, seen);
        }
        let limit = me.local.limit.get();
        if seen.is_written() || seen.is_read() || !V::is_write_consistent(seen, limit, slot) {
            return Step::Abort(me.local.meets(seen, Conflict::WriteLocked, Conflict::WriteNewer));
        }
        let is_consistent = V::is_read_consistent(seen, limit, slot) || me.has_planted(Bug::AlwaysConsistent);
        if take(me, lock, seen, is_consistent) {
            Step::Ready(())
        } else {
            me.local.in_the_way.set(limit.time());
            Step::Abort(Conflict::WriteLocked)
        }
    }

    /// `commitTxn`, up to where it is sure to commit.
    #[inline]
    fn validate<H: Host>(me: &Desk<Self, H>) -> Result<(), Conflict> {
        if me.held.is_empty() {
            // All was read as of one time: see the module's page. (An irrevocable transaction has it locked.)
            return Ok(());
        }
        // Between the locks and what is looked at now, so that of two transactions that each read what the other
        // writes one sees the other; and between the values and the clock: see the module's page.
        fence(Ordering::SeqCst);
        if me.is_irrevocable() || me.has_planted(Bug::SkipValidation) {
            return Ok(());
        }
        let (slot, limit) = (me.slot, me.local.limit.get());
        for lock in me.reads.iter() {
            me.touch(lock.line, Access::Read);
            let word = lock.load_after_fence();
            if !(word.is_older_than(limit) || V::is_read_consistent(word, limit, slot)) {
                return Err(me.local.meets(word, Conflict::Changed, Conflict::Changed));
            }
        }
        Ok(())
    }

    /// The rest of `commitTxn`, and `restartTxn`.
    #[inline]
    fn release<H: Host>(me: &Desk<Self, H>, ending: Ending, mut wake: impl FnMut(WaitFor)) {
        let slot = me.slot;
        if !me.held.is_empty() {
            if ending != Ending::Commit {
                // The undoing comes before the look at the clock. (At a commit, `validate` had the fence.)
                fence(Ordering::SeqCst);
            }
            let time = me.shared().now_after_fence(me.host());
            let is_undone = ending != Ending::Commit;
            let keeps_time =
                me.has_planted(if is_undone { Bug::UndoKeepsTime } else { Bug::CommitKeepsTime });
            let is_irrevocable = me.is_irrevocable();
            for held in me.held.iter() {
                let time = if keeps_time { held.before.time() } else { time };
                if is_irrevocable {
                    me.touch(held.line, Access::Write);
                    Lock::release_alone(held.entry, time, slot, Mark::of(ending));
                } else {
                    let access = if V::IS_IRREVOCABLE { Access::ReadModifyWrite } else { Access::Write };
                    me.touch(held.line, access);
                    Lock::release(held.entry, time, slot, V::IS_IRREVOCABLE, Mark::of(ending));
                }
                if held.before.is_watched() && !is_undone && !me.has_planted(Bug::SkipWakes) {
                    wake(held.lock.as_awaited());
                }
            }
        }
        if me.is_irrevocable() {
            for lock in me.reads.iter() {
                me.touch(lock.line, Access::ReadModifyWrite);
                lock.read_unlock();
            }
            me.local.own.set(Left::by(slot));
        }
        if let Ending::Restart(conflict) = ending {
            let by_write = matches!(conflict, Conflict::WriteLocked | Conflict::WriteNewer);
            if V::WRITES_ADVANCE || !by_write {
                me.shared().advance_past(me.host(), me.local.in_the_way.get());
            }
        }
    }

    fn awaited(read: Lent<Lock>) -> WaitFor {
        read.as_awaited()
    }

    fn watch<H: Host>(me: &Desk<Self, H>, read: Noted<Lent<Lock>, H>) -> bool {
        loop {
            me.touch(read.line, Access::Read);
            let seen = read.load();
            if seen.is_written() || !V::is_read_consistent(seen, me.local.limit.get(), me.slot) {
                return false;
            }
            // What came between may be another's mark, or the bit of the irrevocable transaction, and no change.
            me.touch(read.line, Access::ReadModifyWrite);
            if read.watch(seen) {
                return true;
            }
        }
    }

    fn time(shared: &Clock) -> u64 {
        shared.time()
    }
}

/// Takes the lock from the word that was checked, and from no other; tells whether it could.
#[inline(always)]
fn take<V: Variant, H: Host>(
    me: &Desk<V, H>,
    lock: Spot<'_, Lock, H>,
    seen: LockWord,
    is_consistent: bool,
) -> bool {
    me.touch(lock.line(), Access::ReadModifyWrite);
    let now = if me.has_planted(Bug::TakeAnyWord) { lock.load() } else { seen };
    let seen = if now.is_written() || now.is_read() { seen } else { now };
    let held = lock.try_lock(lend(&lock), seen, me.slot, is_consistent);
    held.map(|held| me.log_held(lock, held)).is_some()
}

/// Logs a read, once if it comes several times in a row.
#[inline(always)]
fn log_read<V: Variant, H: Host>(me: &Desk<V, H>, lock: Spot<'_, Lock, H>) {
    let lent = lend(&lock);
    if me.reads.last().is_none_or(|last| last.entry != lent) {
        me.log_read(lock, lent);
    }
}

/// The irrevocable transaction locks for reading: sets the bit once, and then asks until the writer has gone, who is
/// the last one.
fn read_alone<V: Variant, H: Host>(me: &Desk<V, H>, lock: Spot<'_, Lock, H>) -> Step<(), Conflict> {
    me.touch(lock.line(), Access::Read);
    let mut word = lock.load();
    if word.is_written_by(me.slot) {
        return Step::Ready(());
    }
    if !word.is_read() {
        me.touch(lock.line(), Access::ReadModifyWrite);
        lock.read_lock();
        // Only what this one has set it unlocks.
        me.log_read(lock, lend(&lock));
        me.touch(lock.line(), Access::Read);
        word = lock.load();
    }
    if word.is_written() { Step::Busy(Conflict::ReadLocked) } else { Step::Ready(()) }
}

/// The irrevocable transaction locks for writing: as for reading, and then alone.
#[cold]
fn write_alone<V: Variant, H: Host>(
    me: &Desk<V, H>,
    lock: Spot<'_, Lock, H>,
    seen: LockWord,
) -> Step<(), Conflict> {
    debug_assert!(!seen.is_written_by(me.slot));
    match read_alone(me, lock) {
        Step::Ready(()) => {
            me.touch(lock.line(), Access::Read);
            let seen = lock.load();
            me.touch(lock.line(), Access::ReadModifyWrite);
            me.log_held(lock, lock.write_lock_alone(lend(&lock), seen, me.slot));
            Step::Ready(())
        }
        _ => Step::Busy(Conflict::WriteLocked),
    }
}
