//! `swiss`: optimistic reads, eager writes, and a contention manager [Granularity §3.2].
//!
//! Beside the data: the *intent*, a word that names the one transaction that may write next.
//!
//! - *Read*: as `occ`. An intent does not keep readers out: the version word stays unlocked until its
//!   writer seals, so a reader that commits first comes before the writer.
//! - *Write*: take the intent at once. Two writers of one cell thus meet while they execute, not when
//!   all work is done, and the longer-running one wins: the older transaction makes the younger one
//!   abort and waits for the intent; the younger aborts itself.
//! - *Seal*: lock the version word, which only the holder of the intent may.
//! - *Validate*: as `occ`.
//!
//! With the intent held, the version cannot change, so a read-modify-write reads after taking the
//! intent and cannot lose its update.
//!
//! Waiting cannot deadlock: only the older waits, for a younger one that has been told to abort or is
//! past its commit point. Of several who wait the oldest is called when the intent is let go, and the others, who are younger, sleep on: that
//! is no circle either, as nobody waits for a younger one and leaves it alone. (Where others do, it is the youngest who is called;
//! see [`noonmark_core::WaitingRoom`].) SwissTM gives transactions a place in the order of ages only at their tenth
//! write; here each has its age from its first attempt, which spares short transactions that retry
//! from starving behind long ones that keep coming.

use super::{Conflict, CopyValue, Hold, Me, Rules, Seen, check_current, lock_version, read_optimistically};
use crate::planted::Bug;
use crate::record::Cell;
use noonmark_core::sync::AtomicU64;
use noonmark_core::{Access, Host, LetGo, Step, Timestamp, VersionWord, WaitFor, Word};

pub(crate) struct Swiss;

const WRITE: &str = "swiss: write";

/// The intent, in the format of a version word: the word of a new record, zero, is free.
fn intent<'a>(cell: Cell<'a>) -> &'a AtomicU64 {
    &cell.aux[0]
}

/// What the older of two writers does about the younger one before it waits.
pub(super) enum Younger {
    /// Makes it abort.
    IsWounded,
    /// Leaves it alone.
    IsLeftAlone,
}

/// Takes the intent: the right to be the next writer of a cell. The younger of two writers aborts, the older
/// waits. (Of `sundial`, too.)
#[inline(always)]
pub(super) fn take_intent(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    intent: &AtomicU64,
    younger: Younger,
    hold: &mut Hold,
) -> Step<(), Conflict> {
    if hold.intent {
        return Step::Ready(());
    }
    let word_of = VersionWord::from_atomic(intent);
    me.touch(Access::Read);
    let word = word_of.load();
    if word.is_locked() {
        *hold = match meet_holder(rule, me, word, WaitFor::release_of(intent), intent, younger) {
            Step::Ready(held) => held,
            other => return other.map(|_| ()),
        };
    } else {
        me.touch(Access::ReadModifyWrite);
        // Who wants it is asleep until it is let go, if it is not the transaction itself: the mark stays.
        let taken = match me.planted.is(Bug::QueueForgotten) {
            true => word_of.try_lock(word, me.txn),
            false => word_of.try_take(word, me.txn),
        };
        if let Err(found) = taken {
            return Step::Busy(Conflict::locked(rule, found));
        }
        hold.intent = true;
        me.has_taken(WaitFor::release_of(intent));
    }
    let version = cell.word.load();
    match version.is_reclaimed() {
        true => Step::Abort(Conflict::locked(rule, version)),
        false => Step::Ready(()),
    }
}

/// Somebody has the intent, by this word. It is somebody else, unless it has been handed over: then it is held.
#[cold]
#[inline(never)]
pub(super) fn meet_holder(
    rule: &'static str,
    me: Me<'_, impl Host>,
    word: Word,
    on: WaitFor,
    intent: &AtomicU64,
    younger: Younger,
) -> Step<Hold, Conflict> {
    if let Some(held) = me.takes_over(word, on) {
        return Step::Ready(held);
    }
    let word_of = VersionWord::from_atomic(intent);
    let conflict = Conflict::locked(rule, word);
    if !word.owner().is_some_and(|holder| me.is_older_than(holder)) {
        return match younger {
            Younger::IsLeftAlone => Step::Die(conflict),
            Younger::IsWounded => Step::Abort(conflict),
        };
    }
    if let (Younger::IsWounded, Some(holder)) = (younger, word.owner()) {
        me.wound(holder);
    }
    me.touch(Access::ReadModifyWrite);
    if word_of.mark_waiters(word) { Step::Wait(on, conflict) } else { Step::Busy(conflict) }
}

/// Lets go of the intent, and has one of those who wait for it called.
pub(super) fn drop_intent(me: Me<'_, impl Host>, intent: &AtomicU64) {
    me.touch(Access::ReadModifyWrite);
    let word_of = VersionWord::from_atomic(intent);
    if !word_of.try_unlock(me.txn, Word::FREE) {
        me.room.let_go(WaitFor::release_of(intent), Word::FREE, |next| match next {
            LetGo::Free => word_of.unlock_unwatched(Word::FREE),
            LetGo::Awaited => word_of.unlock_unwatched(Word::AWAITED),
            LetGo::HandedTo(txn) => word_of.hand_over(txn),
        });
    }
}

impl Swiss {
    #[inline(never)]
    fn take_intent(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<(), Conflict> {
        take_intent(WRITE, me, cell, intent(cell), Younger::IsWounded, hold)
    }
}

impl Rules for Swiss {
    const HAS_AGES: bool = true;
    const WAITS_IN_LINE: bool = true;
    const WRITES_EARLY: bool = true;

    fn aux_words(_slots: usize) -> usize {
        1
    }

    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
        read_optimistically("swiss: read", me, cell, copy)
    }

    fn update(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        hold: &mut Hold,
        copy: &mut impl CopyValue,
    ) -> Step<Seen, Conflict> {
        Self::take_intent(me, cell, hold).and_then(|()| Self::read(me, cell, copy))
    }

    fn write(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<(), Conflict> {
        Self::take_intent(me, cell, hold)
    }

    fn seal(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Option<Word>,
        hold: &mut Hold,
    ) -> Step<(), Conflict> {
        let taken = if hold.intent { Step::Ready(()) } else { Self::take_intent(me, cell, hold) };
        taken.and_then(|()| lock_version("swiss: seal", me, cell, seen, hold))
    }

    fn validate(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Seen,
        own: Option<Word>,
        _: Timestamp,
    ) -> Step<(), Conflict> {
        check_current("swiss: validate", me, cell, seen.word, own)
    }

    fn publish(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word) {
        me.touch(Access::Write);
        cell.word.unlock_unwatched(next);
        drop_intent(me, intent(cell));
    }

    fn release(me: Me<'_, impl Host>, cell: Cell<'_>, hold: Hold) {
        if let Some(prev) = hold.prev {
            me.touch(Access::Write);
            cell.word.unlock_unwatched(prev);
        }
        if hold.intent {
            drop_intent(me, intent(cell));
        }
    }
}
