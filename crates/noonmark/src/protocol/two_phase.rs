//! `two-phase`: strict two-phase locking [Granularity §3.2; Sundial §6.2], in three variants.
//!
//! Beside the data: the read indicator, one bit a slot; the write lock is the version word.
//!
//! - *Read*: enter the read indicator, then look for a write lock; leave again if there is one.
//! - *Write*: take the write lock, then look for readers. Holding the lock already, the writer keeps
//!   new readers out while it waits for the old ones, so it does not starve.
//! - *Seal*: locks what was not locked while executing: commit-time updates, which read nothing, may
//!   take their lock late, and hold it briefly.
//! - *Validate*: nothing to do; locks are kept until the end.
//!
//! When a lock is in the way:
//!
//! | variant | I am older | I am younger | cannot deadlock since |
//! |---|---|---|---|
//! | no-wait | abort | abort | nobody waits |
//! | wait-die | wait | abort | the older waits for the younger only |
//! | wound-wait | the holder must abort; wait until it has | wait | the younger waits for the older only, or for one that is about to let go |
//!
//! Of those who wait for a write lock one is called when it is let go, or several who want to read ([`noonmark_core::WaitingRoom`]). If
//! all were woken, then under wound-wait whoever came first would be made to abort by whoever came second and was older, and so on: on one hot row
//! many cores got a hundredth of what one gets alone.
//!
//! A lock that is let go while somebody waits for it in line is *awaited*: the read indicator says so, and whoever takes it marks it at once, so that the line is counted
//! past, and has the lock handed over in the end. Who has waited to read, and has the write lock handed to him, enters the read indicator under
//! it, and lets it go.
//!
//! In a database that has tables of both waiting variants, each alone would not do: the older could wait
//! for the younger in one and be waited for in the other. There whoever waits for a younger one makes it
//! abort, in tables of wait-die, too (see `Me::wound_younger`).
//!
//! Ages are kept across retries, so each transaction is the oldest one day. Two that both read a
//! cell and both want to write it (an upgrade) meet at the write lock: one has it and looks for
//! readers, the other is a reader and looks for the lock, and the ages decide as above.
//!
//! Under wait-die a writer that finds an older reader aborts even if that reader is only on its way
//! out after having seen the lock: rare, and safe.

use super::{Conflict, CopyValue, Held, Hold, Me, Rules, Seen, What};
use crate::planted::Bug;
use crate::record::Cell;
use noonmark_core::{Access, Host, LetGo, Readers, Step, Timestamp, TxnId, WaitFor, Word};
use std::marker::PhantomData;

pub(crate) struct TwoPhase<V>(PhantomData<V>);

/// What to do about a holder.
pub(crate) enum Answer {
    Abort,
    Wait,
}

/// How a variant settles conflicts.
pub(crate) trait Variant {
    const HAS_AGES: bool;
    const OLDER_WAITS: bool = false;
    const YOUNGER_WAITS: bool = false;
    const READ: &'static str;
    const WRITE: &'static str;
    fn answer(me: Me<'_, impl Host>, holder: TxnId) -> Answer;
}

/// Whoever meets a lock aborts.
pub(crate) struct NoWait;
/// The older waits, the younger aborts.
pub(crate) struct WaitDie;
/// The older wounds and waits, the younger waits.
pub(crate) struct WoundWait;

impl Variant for NoWait {
    const HAS_AGES: bool = false;
    const READ: &'static str = "two-phase-no-wait: read";
    const WRITE: &'static str = "two-phase-no-wait: write";
    fn answer(_: Me<'_, impl Host>, _: TxnId) -> Answer {
        Answer::Abort
    }
}

impl Variant for WaitDie {
    const HAS_AGES: bool = true;
    const OLDER_WAITS: bool = true;
    const READ: &'static str = "two-phase-wait-die: read";
    const WRITE: &'static str = "two-phase-wait-die: write";
    fn answer(me: Me<'_, impl Host>, holder: TxnId) -> Answer {
        let waits = me.is_older_than(holder) || me.planted.is(Bug::YoungerWaits);
        if waits { Answer::Wait } else { Answer::Abort }
    }
}

impl Variant for WoundWait {
    const HAS_AGES: bool = true;
    const YOUNGER_WAITS: bool = true;
    const READ: &'static str = "two-phase-wound-wait: read";
    const WRITE: &'static str = "two-phase-wound-wait: write";
    fn answer(me: Me<'_, impl Host>, holder: TxnId) -> Answer {
        if me.is_older_than(holder) && !me.planted.is(Bug::NobodyWounded) {
            me.wound(holder);
        }
        Answer::Wait
    }
}

impl<V: Variant> TwoPhase<V> {
    /// What to answer to somebody who met a write lock.
    #[cold]
    #[inline(never)]
    fn met_lock(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        rule: &'static str,
        word: Word,
        on: WaitFor,
    ) -> Conflicted {
        let conflict = Conflict::locked(rule, word);
        let Some(holder) = word.owner() else { return Conflicted::Abort(conflict) };
        if let Answer::Abort = V::answer(me, holder) {
            return Conflicted::Abort(conflict);
        }
        me.touch(Access::ReadModifyWrite);
        // The mark fails if the word has changed since; then look again.
        match cell.word.mark_waiters(word) {
            true => Conflicted::Wait(on, conflict),
            false => Conflicted::Busy(conflict),
        }
    }

    /// Takes the write lock, and then the right to write: when no reader is left.
    fn lock(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<(), Conflict> {
        let readers = Readers::new(cell.aux);
        if hold.prev.is_none() {
            me.touch(Access::Read);
            let word = cell.word.load();
            let on = WaitFor::release_of(cell.word);
            if !word.is_locked() {
                me.touch(Access::ReadModifyWrite);
                if let Err(found) = cell.word.try_lock(word, me.txn) {
                    let conflict = Conflict::not_current(V::WRITE, word, found);
                    return Step::Busy(conflict);
                }
                hold.prev = Some(word);
                me.has_taken(on);
                if V::HAS_AGES && readers.is_awaited() && !me.planted.is(Bug::QueueForgotten) {
                    // Who wants it is asleep until it is let go, if it is not the transaction itself.
                    me.touch(Access::ReadModifyWrite);
                    cell.word.mark_waiters(cell.word.load());
                }
            } else if let Some(held) = me.takes_over(word, on) {
                *hold = held;
            } else {
                return Self::met_lock(me, cell, V::WRITE, word, on).into();
            }
        }
        // From here on the lock is ours, and this part may be run again after a wait.
        let mut marked = false;
        loop {
            let mut in_the_way = None;
            me.touch(Access::Read);
            for slot in readers.others(me.slot()) {
                // A slot without a transaction is on its way out.
                let Some(reader) = me.slots.running(slot) else {
                    in_the_way = Some(slot);
                    continue;
                };
                match V::answer(me, reader) {
                    Answer::Abort => {
                        return Step::Abort(Conflict { rule: V::WRITE, what: What::ReadLocked { by: slot } });
                    }
                    Answer::Wait => in_the_way = Some(slot),
                }
            }
            match in_the_way {
                None => {
                    readers.clear_waiters();
                    // Whoever comes to read from here on finds the lock, and leaves.
                    hold.intent = true;
                    return Step::Ready(());
                }
                // Marked, and somebody is still there: he will wake us.
                Some(by) if marked => {
                    let conflict = Conflict { rule: V::WRITE, what: What::ReadLocked { by } };
                    return Step::Wait(WaitFor::release_of(&cell.aux[0]), conflict);
                }
                Some(_) => {
                    me.touch(Access::ReadModifyWrite);
                    readers.mark_waiters();
                    marked = true;
                }
            }
        }
    }

    /// Lets go of a lock that others wait for.
    #[cold]
    #[inline(never)]
    fn let_go_to_others(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word) {
        if me.planted.is(Bug::LostWakeup) {
            return cell.word.unlock_unwatched(next);
        }
        me.room.let_go(WaitFor::release_of(cell.word), next, |become_of| {
            Readers::new(cell.aux).set_awaited(become_of == LetGo::Awaited);
            match become_of {
                LetGo::Free | LetGo::Awaited => cell.word.unlock_unwatched(next),
                LetGo::HandedTo(txn) => cell.word.hand_over(txn),
            }
        });
    }
}

/// The part of a [`Step`] that is not *ready*.
enum Conflicted {
    Busy(Conflict),
    Wait(WaitFor, Conflict),
    Abort(Conflict),
}

impl<T> From<Conflicted> for Step<T, Conflict> {
    fn from(conflicted: Conflicted) -> Self {
        match conflicted {
            Conflicted::Busy(c) => Step::Busy(c),
            Conflicted::Wait(on, c) => Step::Wait(on, c),
            Conflicted::Abort(c) => Step::Abort(c),
        }
    }
}

/// What is locked cannot change: the version now is the version at commit.
fn stable(word: Word, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
    copy.copy();
    Step::Ready(Seen { word, until: Timestamp::MAX })
}

impl<V: Variant> Rules for TwoPhase<V> {
    const HAS_AGES: bool = V::HAS_AGES;
    const OLDER_WAITS: bool = V::OLDER_WAITS;
    const YOUNGER_WAITS: bool = V::YOUNGER_WAITS;
    const WAITS_IN_LINE: bool = V::OLDER_WAITS || V::YOUNGER_WAITS;
    const LOCKS_READS: bool = true;
    const WRITES_EARLY: bool = true;

    fn aux_words(slots: usize) -> usize {
        Readers::words_for(slots)
    }

    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
        let readers = Readers::new(cell.aux);
        me.touch(Access::ReadModifyWrite);
        // Who finds it locked does not enter: the writer would find him, though he does not stay, and many who come again
        // and again would keep him waiting.
        let word = cell.word.load();
        let on = WaitFor::release_of(cell.word).to_share();
        if let Some(Hold { prev: Some(prev), .. }) = me.takes_over(word, on) {
            // Enters before he lets go: whoever locks it next finds him.
            readers.enter(me.slot());
            let read = stable(prev, copy);
            Self::publish(me, cell, prev);
            return read;
        }
        if word.is_locked() && !readers.contains(me.slot()) {
            return Self::met_lock(me, cell, V::READ, word, on).into();
        }
        let newly = readers.enter(me.slot());
        me.touch(Access::Read);
        let word = cell.word.load_seq_cst();
        if !word.is_locked() {
            let read = stable(word, copy);
            if me.planted.is(Bug::ReadUnlockedEarly) {
                Self::release_read(me, cell);
            }
            return read;
        }
        // A read lock that was held before a writer came stays valid: the writer waits for us. But
        // the version is in the writer's hands, so the caller must look it up where it read first;
        // it is simplest to let the ages decide as for anybody else.
        if newly {
            me.touch(Access::ReadModifyWrite);
            if readers.leave(me.slot()) {
                me.room.wake(WaitFor::release_of(&cell.aux[0]));
            }
        }
        Self::met_lock(me, cell, V::READ, word, on).into()
    }

    fn update(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        hold: &mut Hold,
        copy: &mut impl CopyValue,
    ) -> Step<Seen, Conflict> {
        Self::lock(me, cell, hold).and_then(|()| stable(hold.prev.unwrap_or(Word::RECLAIMED), copy))
    }

    fn write(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<(), Conflict> {
        Self::lock(me, cell, hold)
    }

    fn seal(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Option<Word>,
        hold: &mut Hold,
    ) -> Step<(), Conflict> {
        let locked = if hold.intent { Step::Ready(()) } else { Self::lock(me, cell, hold) };
        match locked {
            // A read lock protects what was read, so that this cannot be; a cheap second net.
            Step::Ready(()) if seen.is_some_and(|read| hold.prev != Some(read)) => {
                let read = seen.unwrap_or(Word::RECLAIMED);
                let now = hold.prev.unwrap_or(Word::RECLAIMED);
                Step::Abort(Conflict { rule: V::WRITE, what: What::Replaced { read, now } })
            }
            step => step,
        }
    }

    fn validate(
        _: Me<'_, impl Host>,
        _: Cell<'_>,
        _: Seen,
        _: Option<Word>,
        _: Timestamp,
    ) -> Step<(), Conflict> {
        Step::Ready(())
    }

    fn publish(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word) {
        me.touch(Access::ReadModifyWrite);
        if !cell.word.try_unlock(me.txn, next) {
            Self::let_go_to_others(me, cell, next);
        }
    }

    fn release(me: Me<'_, impl Host>, cell: Cell<'_>, hold: Hold) {
        if let Some(prev) = hold.prev {
            Readers::new(cell.aux).clear_waiters();
            Self::publish(me, cell, prev);
        }
    }

    fn release_read(me: Me<'_, impl Host>, cell: Cell<'_>) {
        let readers = Readers::new(cell.aux);
        if readers.contains(me.slot()) {
            me.touch(Access::ReadModifyWrite);
            if readers.leave(me.slot()) && !me.planted.is(Bug::LostReaderWakeup) {
                me.room.wake(WaitFor::release_of(&cell.aux[0]));
            }
        }
    }

    fn reclaim_bound(me: Me<'_, impl Host>, cell: Cell<'_>, prev: Word) -> Result<Timestamp, Held> {
        Held::by_none(Readers::new(cell.aux).others(me.slot())).map(|()| prev.time())
    }
}
