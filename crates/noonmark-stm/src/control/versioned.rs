//! The rivals that advance the clock when they commit: what TL2, TinySTM and ORec have in common.
//!
//! A transaction may read what was written at its time or before. When it commits it gets a time after its own, and
//! leaves that with its locks. The rivals differ in where that time comes from, and in what becomes of a transaction
//! that meets a newer value: [`Rival`].
//!
//! All write in place, under a lock, with an undo log, as the paper's implementations do (§2, §7: *pessimistic writes*).
//! The original TL2 writes at its commit; what that saves, locks held for a shorter time, it pays for with a search of its
//! write set at each read.
//!
//! # Why a reader's copy is good
//!
//! *Without a look at the word before the copy* (TL2): as under [`super::deferred`], by two fences. A writer looks at the clock after
//! its fence, sees `c`, and leaves a time after `c`. A reader that accepts this time has looked at the clock when
//! it showed more than `c`, before its own fence. So the writer's fence came first, and the copy is not from before.
//!
//! *With one* (TinySTM, ORec): the word was unlocked before the copy, and is the same after it; and no word comes back, as
//! times only grow. This allows to leave what was undone with a time that is only one later than before, at which
//! the value is the same: an undoing advances no clock.
//!
//! What it does not do: none of these is starvation-free, and none knows irrevocable transactions.

use super::clock::Clock;
use super::lock_word::{Held, Limit, Lock, LockWord, Mark};
use super::{Conflict, Control, Ending};
use crate::desk::Desk;
use crate::lines::{Noted, Spot};
use crate::log::Lent;
use crate::planted::Bug;
use noonmark_core::sync::{Ordering, fence};
use noonmark_core::{Access, Host, SlotId, Step, WaitFor};
use std::cell::Cell;
use std::marker::PhantomData;

/// In what they differ.
pub trait Rival: Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Whether a reader looks at the word before it copies, too.
    const LOOKS_FIRST: bool;
    /// Whether a transaction that meets a newer value tries to move its own time on.
    const EXTENDS: bool;

    /// All is locked and written: the time of the commit, after `began`; and whether what was read must be validated. A
    /// sequentially consistent fence has been passed.
    fn commit_time(clock: &Clock, host: &impl Host, began: u64) -> (u64, bool);

    /// All is undone: the time to leave with all locks, of which the newest had this one before; `None`: each with the time
    /// after the one that it had. Asked once for all of them. A sequentially consistent fence has been passed.
    fn undo_time(clock: &Clock, host: &impl Host, newest: u64) -> Option<u64>;

    /// An attempt ends because it met this time, which is after its own.
    fn met(clock: &Clock, host: &impl Host, time: u64);
}

/// A rival's control.
#[derive(Clone, Copy, Debug)]
pub struct Versioned<R>(PhantomData<R>);

/// What is kept of an attempt.
#[derive(Debug)]
pub struct Local {
    /// After the attempt's time.
    limit: Cell<Limit>,
    /// The time of the commit, once it is sure.
    commit_time: Cell<u64>,
    /// The newer time that a conflict was about, or 0.
    met: Cell<u64>,
}

/// Lends the lock to the attempt.
#[inline(always)]
fn lend(lock: &Lock) -> Lent<Lock> {
    // SAFETY: whoever calls a rule holds the lock for the lifetime of the attempt (`'tx`, see
    // `crate::transaction`); and this goes into the logs of the desk only.
    unsafe { Lent::new(lock) }
}

impl<R: Rival> Versioned<R> {
    #[inline(always)]
    fn log_read<H: Host>(me: &Desk<Self, H>, lock: Spot<'_, Lock, H>) {
        let lent = lend(&lock);
        if me.reads.last().is_none_or(|last| last.entry != lent) {
            me.log_read(lock, lent);
        }
    }

    #[cold]
    fn conflict<H: Host>(me: &Desk<Self, H>, word: LockWord, locked: Conflict, newer: Conflict) -> Conflict {
        if word.is_written() {
            locked
        } else {
            me.local.met.set(word.time());
            newer
        }
    }

    /// What was read has not changed, if that can be told. Nobody else has it, and it is no newer than the attempt.
    fn is_unchanged<H: Host>(me: &Desk<Self, H>) -> Result<(), LockWord> {
        let limit = me.local.limit.get();
        for lock in me.reads.iter() {
            me.touch(lock.line, Access::Read);
            let word = lock.load_after_fence();
            // What this attempt has locked was no newer when it did, or its slot's own.
            if !(word.is_older_than(limit) || word.is_written_by(me.slot)) {
                return Err(word);
            }
        }
        Ok(())
    }

    /// Moves the attempt's time on to the clock's, if nothing that it has read has changed (LSA's extension).
    #[cold]
    fn extend<H: Host>(me: &Desk<Self, H>, tracked: bool) -> bool {
        // A transaction that logs nothing cannot tell what it has read.
        if !R::EXTENDS || !tracked {
            return false;
        }
        let now = me.shared().now(me.host());
        // As when an attempt begins: between the look at the clock and what is read from now on.
        fence(Ordering::SeqCst);
        let is_unchanged = Self::is_unchanged(me).is_ok();
        if is_unchanged {
            me.local.limit.set(Limit::before(now + 1));
        }
        is_unchanged
    }
}

impl<R: Rival> Control for Versioned<R> {
    const NAME: &'static str = R::NAME;
    const IS_IRREVOCABLE: bool = false;
    const VIEWS_LEAVE_NOTHING: bool = true;

    type Lock = Lock;
    type Shared = Clock;
    type Local = Local;
    type Read = Lent<Lock>;
    type Held = Held;

    fn local(_: SlotId) -> Local {
        Local { limit: Cell::new(Limit::NOTHING), commit_time: Cell::new(0), met: Cell::new(0) }
    }

    #[inline(always)]
    fn begin<H: Host>(me: &Desk<Self, H>, _: bool) {
        me.local.limit.set(Limit::before(me.shared().now(me.host()) + 1));
        me.local.met.set(0);
    }

    #[inline(always)]
    fn read_now<H: Host, T: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Lock, H>,
        tracked: bool,
        load: impl Fn() -> T,
    ) -> Option<T> {
        let first = if R::LOOKS_FIRST {
            me.touch(lock.line(), Access::Read);
            Some(lock.load())
        } else {
            None
        };
        let copy = load();
        me.touch(lock.line(), Access::Read);
        // The copy comes before the look at the word.
        fence(Ordering::Acquire);
        let word = lock.load_after_fence();
        if word.is_older_than(me.local.limit.get()) && first.is_none_or(|first| first == word) {
            if tracked {
                Self::log_read(me, lock);
            }
            return Some(copy);
        }
        None
    }

    fn read_on<H: Host, T: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Lock, H>,
        tracked: bool,
        load: impl Fn() -> T,
    ) -> Step<T, Conflict> {
        loop {
            me.touch(lock.line(), Access::Read);
            let first = lock.load();
            let copy = load();
            me.touch(lock.line(), Access::Read);
            fence(Ordering::Acquire);
            let word = lock.load_after_fence();
            let is_good = word.is_written_by(me.slot)
                || (word.is_older_than(me.local.limit.get()) && (!R::LOOKS_FIRST || first == word))
                || me.has_planted(Bug::SkipPostValidation);
            if is_good {
                if tracked {
                    Self::log_read(me, lock);
                }
                return Step::Ready(copy);
            }
            let conflict = Self::conflict(me, word, Conflict::ReadLocked, Conflict::ReadNewer);
            // Locked by another, or changed while it was copied, or newer: only the last may be mended.
            let is_newer = !word.is_written() && !word.is_older_than(me.local.limit.get());
            if !is_newer || !Self::extend(me, tracked) || !word.is_older_than(me.local.limit.get()) {
                return Step::Abort(conflict);
            }
        }
    }

    #[inline]
    fn write_on<H: Host>(me: &Desk<Self, H>, lock: Spot<'_, Lock, H>) -> Step<(), Conflict> {
        me.touch(lock.line(), Access::Read);
        let seen = lock.load();
        if seen.is_written_by(me.slot) {
            return Step::Ready(());
        }
        if !seen.is_older_than(me.local.limit.get()) {
            let conflict = Self::conflict(me, seen, Conflict::WriteLocked, Conflict::WriteNewer);
            if seen.is_written() || !Self::extend(me, true) || !seen.is_older_than(me.local.limit.get()) {
                return Step::Abort(conflict);
            }
        }
        me.touch(lock.line(), Access::ReadModifyWrite);
        match lock.try_lock(lend(&lock), seen, me.slot, true) {
            Some(held) => {
                me.log_held(lock, held);
                Step::Ready(())
            }
            None => Step::Abort(Conflict::WriteLocked),
        }
    }

    /// The slot's last commit may have a time that is after this attempt's (under GV5 it always has).
    #[inline]
    fn write_own<H: Host>(me: &Desk<Self, H>, lock: Spot<'_, Lock, H>) -> Step<(), Conflict> {
        me.touch(lock.line(), Access::Read);
        let seen = lock.load();
        if seen.is_written_by(me.slot) {
            return Step::Ready(());
        }
        me.touch(lock.line(), Access::ReadModifyWrite);
        match lock.try_lock(lend(&lock), seen, me.slot, true) {
            Some(held) => {
                me.log_held(lock, held);
                Step::Ready(())
            }
            // Somebody has set his mark, as nobody else writes.
            None => Step::Busy(Conflict::WriteLocked),
        }
    }

    #[inline]
    fn validate<H: Host>(me: &Desk<Self, H>) -> Result<(), Conflict> {
        if me.held.is_empty() {
            return Ok(());
        }
        // Between the locks and what is validated, and between the values and the clock.
        fence(Ordering::SeqCst);
        let (time, must_validate) = R::commit_time(me.shared(), me.host(), me.local.limit.get().time() - 1);
        me.local.commit_time.set(time);
        if must_validate && !me.has_planted(Bug::SkipValidation) {
            Self::is_unchanged(me)
                .map_err(|word| Self::conflict(me, word, Conflict::Changed, Conflict::Changed))?;
        }
        Ok(())
    }

    #[inline]
    fn release<H: Host>(me: &Desk<Self, H>, ending: Ending, mut wake: impl FnMut(WaitFor)) {
        let is_undone = ending != Ending::Commit;
        let mut time_of_all = Some(me.local.commit_time.get());
        if is_undone && !me.held.is_empty() {
            fence(Ordering::SeqCst);
            let newest = me.held.iter().map(|held| held.before.time()).max();
            time_of_all = R::undo_time(me.shared(), me.host(), newest.unwrap_or(0));
        }
        let keeps_time = me.has_planted(if is_undone { Bug::UndoKeepsTime } else { Bug::CommitKeepsTime });
        for held in me.held.iter() {
            let before = held.before.time();
            let time = if keeps_time { before } else { time_of_all.unwrap_or(before + 1) };
            me.touch(held.line, Access::Write);
            Lock::release(held.entry, time, me.slot, false, Mark::of(ending));
            if held.before.is_watched() && !is_undone && !me.has_planted(Bug::SkipWakes) {
                wake(held.lock.as_awaited());
            }
        }
        if matches!(ending, Ending::Restart(_)) && me.local.met.get() > 0 {
            R::met(me.shared(), me.host(), me.local.met.get());
        }
    }

    fn awaited(read: Lent<Lock>) -> WaitFor {
        read.as_awaited()
    }

    fn watch<H: Host>(me: &Desk<Self, H>, read: Noted<Lent<Lock>, H>) -> bool {
        loop {
            me.touch(read.line, Access::Read);
            let seen = read.load();
            // What the attempt had locked itself was unchanged when it was undone, and has a new time since.
            if !(seen.is_older_than(me.local.limit.get()) || seen.is_left_by(me.slot)) {
                return false;
            }
            // What came between may be another's mark, and no change.
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

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use crate::{
        Dcotl, DcotlSf, Dctl, DctlSf, Interrupted, Memory, Own, Settings, TVar, Threads, TinyStm, Tl2Gv4,
        Tl2Gv5, World, world,
    };

    /// How often the clock is advanced by one who is called off, and by one whom a conflict ends and who then commits, after
    /// eight writes each.
    fn advances<W: World>() -> [u64; 2] {
        struct CalledOff;
        impl From<Interrupted> for CalledOff {
            fn from(_: Interrupted) -> Self {
                CalledOff
            }
        }
        let clock = || W::memory().statistics().clock;
        let vars: Vec<TVar<u64, W>> = (0..9).map(|_| TVar::new_in(0)).collect();
        // With the clock's present time, where a commit leaves that.
        W::atomically(|tx| vars.iter().try_for_each(|var| var.set(tx, 1)));
        // Whoever meets a time of the future (GV5) has then advanced the clock to it.
        let look = || W::view(|tx| vars.iter().try_for_each(|var| var.get(tx).map(drop)));
        look();
        let begin = clock();
        let called_off: Result<(), CalledOff> = W::try_atomically(|tx| {
            vars[..8].iter().try_for_each(|var| var.set(tx, 2))?;
            Err(CalledOff)
        });
        assert!(called_off.is_err());
        let by_calling_off = clock() - begin;
        look();
        // Two desks of one thread: the other one's transaction comes into the midst of the first attempt.
        let (mut mine, mut other) = (W::session(), W::session());
        let (begin, mut attempts) = (clock(), 0);
        mine.atomically(|tx| {
            attempts += 1;
            vars[8].get(tx)?;
            vars[..8].iter().try_for_each(|var| var.set(tx, var.get(tx)? + 1))?;
            if attempts == 1 {
                other.atomically(|tx| vars[8].set(tx, 7));
            }
            Ok(())
        });
        // Before anybody looks again.
        let by_conflict = clock() - begin;
        assert_eq!((attempts, vars[0].load(), vars[8].load()), (2, 2, 7));
        [by_calling_off, by_conflict]
    }

    /// As the table at [`Control`](crate::Control) has it: who undoes eight writes draws at most one time.
    #[test]
    fn an_undoing_advances_the_clock_once() {
        world! {
            struct A: Tl2Gv4, Threads, Own = Memory::new(Settings::default().slots(8), Threads::default());
            struct B: Tl2Gv5, Threads, Own = Memory::new(Settings::default().slots(8), Threads::default());
            struct C: TinyStm, Threads, Own = Memory::new(Settings::default().slots(8), Threads::default());
            struct D: Dctl, Threads, Own = Memory::new(Settings::default().slots(8), Threads::default());
            struct E: Dcotl, Threads, Own = Memory::new(Settings::default().slots(8), Threads::default());
            struct F: DctlSf, Threads, Own = Memory::new(Settings::default().slots(8), Threads::default());
            struct G: DcotlSf, Threads, Own = Memory::new(Settings::default().slots(8), Threads::default());
        }
        // The undoing; and the other's commit, the attempt to commit, the undoing, the commit.
        assert_eq!(advances::<A>(), [1, 4]);
        // A commit is at the clock's next time; who meets that advances it.
        assert_eq!(advances::<B>(), [0, 1]);
        // The values had the clock's present time; at the second undoing they have an older one.
        assert_eq!(advances::<C>(), [1, 3]);
        // Nobody who undoes; but whoever has met a conflict, unless the clock is past it: under DCTL the other one, too, who writes
        // what is as new as the clock.
        assert_eq!([advances::<D>(), advances::<F>()], [[0, 2]; 2]);
        assert_eq!([advances::<E>(), advances::<G>()], [[0, 1]; 2]);
    }
}
