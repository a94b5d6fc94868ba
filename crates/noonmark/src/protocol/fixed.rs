//! `fixed`: multiversion timestamp ordering, as CockroachDB had it [Dynamic §III.B].
//!
//! A transaction draws its time when it begins, and takes place at that time, whatever it meets. What does not fit in
//! there aborts, and begins again, later: that is the rigidity that `dynamic` was made to do away with.
//!
//! Beside the data: `rts`, the latest time at which somebody read what is in the cell now (the paper's timestamp
//! cache); the version of what is in the cell, which says so while the version word is locked,
//! too; and the versions before ([`crate::kept`]).
//!
//! - *Read* at time `t`: the version of time `t`. If it is the current one, raise `rts` to `t` first.
//! - *Write*: lock the cell: the *intent*. It is refused if the cell was written, or read, later than `t`.
//! - *An intent is in the way* of whoever wants to write, and of whoever wants to read at a later time; who
//!   reads at an earlier time reads what is under it. One of the two must go, as the paper has it: the older makes the
//!   younger abort and waits until it has; the younger aborts. The paper's priorities are ages here, kept
//!   over retries, so that everybody has the highest one day. An owner who has passed its commit point is waited for
//!   by looking again: it is no longer uncommitted, only on its way out.
//! - *Seal*: lock what is not locked yet: commit-time updates.
//! - *Validate*: nothing to do. What was read at `t` stays so: who would replace it at or before `t` finds `rts`.
//!
//! The intent is refused *after* it is placed: lock, then look at `rts`; a reader raises `rts`, then looks for
//! the lock. All four are sequentially consistent, as in `tictoc`: either the writer sees the reader's time, or
//! the reader meets the intent. A reader under an intent raises `rts`, too: its owner, who is later, does not mind;
//! but if it aborts, another may come who is earlier.
//!
//! The order is that of the times, which come from one clock: strict. A row that is read, but not written, makes nobody abort,
//! save by the intent of an older transaction; and an index node only if its keys change while it is being
//! looked at.
//!
//! # The weaker level
//!
//! In a database in [snapshot order](Order::Snapshot) a writer who finds a later `rts` does not abort: it commits at a time of
//! its own, later than all reads, while what it has read holds at its begin. Whoever finds a later *version* aborts all
//! the same: of two who change one row the first one wins. That is snapshot isolation: it never shows a state that
//! was not, loses no update, and lets two transactions that each read what the other writes both commit.

use super::{Conflict, CopyValue, Held, Hold, Me, Order, Rules, Seen, What};
use crate::planted::Bug;
use crate::record::Cell;
use noonmark_core::sync::{AtomicU64, Ordering, fence};
use noonmark_core::{Access, Host, SlotId, Step, Timestamp, TxnId, VersionWord, WaitFor, Word};

pub(crate) struct Fixed;

const READ: &str = "fixed: read";
const WRITE: &str = "fixed: write";

/// The latest time at which the version that is in the cell was read; also by who read what is under an intent.
fn rts<'a>(cell: Cell<'a>) -> &'a AtomicU64 {
    &cell.aux[0]
}

/// The version of what is in the cell: that which the version word shows unless it is locked; or, before who has it
/// locked lets go, the next one. Never locked.
fn current<'a>(cell: Cell<'a>) -> &'a VersionWord {
    VersionWord::from_atomic(&cell.aux[1])
}

/// Says that what is in the cell was read at this time.
fn raise(me: Me<'_, impl Host>, cell: Cell<'_>, at: Timestamp) {
    me.touch(Access::Read);
    if rts(cell).load(Ordering::SeqCst) < at.ticks() {
        me.touch(Access::ReadModifyWrite);
        rts(cell).fetch_max(at.ticks(), Ordering::SeqCst);
    }
}

/// What was in the cell at this time, which is before the version that is there now.
fn read_kept(me: Me<'_, impl Host>, cell: Cell<'_>, at: Timestamp, copy: &mut impl CopyValue) -> Seen {
    me.touch(Access::Read);
    match cell.kept_at(at) {
        Some(kept) => {
            copy.copy_kept(kept);
            Seen::at(kept.version)
        }
        // Before there was anything.
        None => Seen::at(Word::version(Timestamp::ZERO, SlotId::NOBODY, true)),
    }
}

/// Reads what is under the intent of somebody who is later.
fn read_under(
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    intent: Word,
    at: Timestamp,
    copy: &mut impl CopyValue,
) -> Step<Seen, Conflict> {
    let version = current(cell).load();
    let newest = cell.newest_kept();
    if version.time() > at {
        return Step::Ready(read_kept(me, cell, at, copy));
    }
    if newest.is_some_and(|newest| newest.version == version) {
        // It is as good as replaced: by whom? Who had the intent may have let go since, and begun anew in his slot, and somebody have it who is earlier than
        // this transaction, and whose version it must read. If it is still his, what his slot said was of him, as it was looked at in between.
        let now = cell.word.load_seq_cst();
        if now.owner() != intent.owner() && !me.planted.is(Bug::IntentMistaken) {
            return Step::Busy(Conflict::not_current(READ, version, now));
        }
        return Step::Ready(read_kept(me, cell, at, copy));
    }
    if !me.planted.is(Bug::ReadUnderIntentUnseen) {
        raise(me, cell, at);
    }
    copy.copy();
    // Whoever copied a word of the next version finds that this one is kept.
    fence(Ordering::Acquire);
    me.touch(Access::Read);
    let now = cell.word.load_seq_cst();
    if now.owner() == intent.owner() && cell.is_newest_kept(newest) {
        Step::Ready(Seen::at(version))
    } else {
        Step::Busy(Conflict::not_current(READ, version, now))
    }
}

/// What to do about an intent that is in the way.
fn met_intent<T>(
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    rule: &'static str,
    word: Word,
    owner: TxnId,
) -> Step<T, Conflict> {
    let conflict = Conflict::locked(rule, word);
    if me.slots.has_committed(owner) {
        return Step::Busy(conflict);
    }
    if !me.is_older_than(owner) {
        return Step::Abort(conflict);
    }
    me.wound(owner);
    me.touch(Access::ReadModifyWrite);
    // The mark fails if the word has changed since; then look again.
    match cell.word.mark_waiters(word) {
        true => Step::Wait(WaitFor::release_of(cell.word), conflict),
        false => Step::Busy(conflict),
    }
}

/// Places the intent, if it is not there yet: the version that it replaces.
fn lock(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<Word, Conflict> {
    if let Some(prev) = hold.prev {
        return Step::Ready(prev);
    }
    let at = me.begin_time();
    me.touch(Access::Read);
    let word = cell.word.load();
    if word.is_locked() {
        return match word.owner() {
            Some(owner) if me.begin_times.of(owner.slot()).is_some() => {
                met_intent(me, cell, WRITE, word, owner)
            }
            // Reclaimed, or somebody is about to; or he has just ended.
            _ => Step::Busy(Conflict::locked(WRITE, word)),
        };
    }
    if word.time() > at {
        return Step::Abort(Conflict { rule: WRITE, what: What::Later { began: at, version: word } });
    }
    me.touch(Access::ReadModifyWrite);
    if let Err(found) = cell.word.try_lock(word, me.txn) {
        return Step::Busy(Conflict::not_current(WRITE, word, found));
    }
    hold.prev = Some(word);
    let read = Timestamp::new(rts(cell).load(Ordering::SeqCst));
    if read > at && me.order != Order::Snapshot && !me.planted.is(Bug::ReadsForgotten) {
        return Step::Abort(Conflict { rule: WRITE, what: What::ReadLater { began: at, read } });
    }
    Step::Ready(word)
}

impl Rules for Fixed {
    const HAS_AGES: bool = true;
    const KEEPS_VERSIONS: bool = true;
    const WRITES_EARLY: bool = true;

    /// `rts`, the version, and the versions before.
    fn aux_words(_slots: usize) -> usize {
        3
    }

    fn init(cell: Cell<'_>, read_until: Timestamp) {
        // Relaxed: nobody else knows the record yet.
        rts(cell).store(read_until.ticks(), Ordering::Relaxed);
        current(cell).unlock_unwatched(cell.word.load());
    }

    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
        let at = me.begin_time();
        me.touch(Access::Read);
        let word = cell.word.load();
        if word.is_locked() {
            let Some(owner) = word.owner() else { return Step::Busy(Conflict::locked(READ, word)) };
            me.touch_slot(owner.slot(), Access::Read);
            return match me.begin_times.of(owner.slot()) {
                Some(began) if began > at => read_under(me, cell, word, at, copy),
                Some(_) => met_intent(me, cell, READ, word, owner),
                // Somebody is about to reclaim it; or he has just ended.
                None => Step::Busy(Conflict::locked(READ, word)),
            };
        }
        if word.time() > at {
            return Step::Ready(read_kept(me, cell, at, copy));
        }
        raise(me, cell, at);
        copy.copy();
        // As in `read_optimistically`; the load is stronger for the reason given above.
        fence(Ordering::Acquire);
        me.touch(Access::Read);
        let again = cell.word.load_seq_cst();
        if again != word && !me.planted.is(Bug::IntentNotMet) {
            return Step::Busy(Conflict::not_current(READ, word, again));
        }
        Step::Ready(Seen::at(word))
    }

    fn update(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        hold: &mut Hold,
        copy: &mut impl CopyValue,
    ) -> Step<Seen, Conflict> {
        lock(me, cell, hold).and_then(|prev| {
            copy.copy();
            Step::Ready(Seen::at(prev))
        })
    }

    fn write(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<(), Conflict> {
        lock(me, cell, hold).and_then(|_| Step::Ready(()))
    }

    fn seal(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Option<Word>,
        hold: &mut Hold,
    ) -> Step<(), Conflict> {
        lock(me, cell, hold).and_then(|prev| match seen {
            // `rts` protects what was read, so that this cannot be but for who reclaims; a cheap second net.
            Some(read) if read != prev => {
                Step::Abort(Conflict { rule: WRITE, what: What::Replaced { read, now: prev } })
            }
            _ => Step::Ready(()),
        })
    }

    /// After the last who read it. Only in snapshot order may that be later than this transaction began.
    fn write_bound(cell: Cell<'_>, prev: Word) -> Timestamp {
        Timestamp::new(rts(cell).load(Ordering::SeqCst)).max(prev.time()).next()
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

    /// What was locked, and is let go as it was, was read.
    fn keep(cell: Cell<'_>, at: Timestamp) {
        // Relaxed: under the lock. The next writer's lock acquires its release.
        rts(cell).fetch_max(at.ticks(), Ordering::Relaxed);
    }

    fn publish(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word) {
        me.touch(Access::ReadModifyWrite);
        // Release: whoever finds this version finds the one before among those that are kept.
        current(cell).unlock_unwatched(next);
        if cell.word.unlock(next) {
            me.room.wake(WaitFor::release_of(cell.word));
        }
    }

    fn release(me: Me<'_, impl Host>, cell: Cell<'_>, hold: Hold) {
        if let Some(prev) = hold.prev {
            Self::publish(me, cell, prev);
        }
    }

    /// Only when nobody is left who may see what was there before.
    fn reclaim_bound(me: Me<'_, impl Host>, cell: Cell<'_>, prev: Word) -> Result<Timestamp, Held> {
        let read = Timestamp::new(rts(cell).load(Ordering::SeqCst));
        let times = me.begin_times;
        let nobody = times.frontier() >= prev.time() || times.advance() >= prev.time();
        if nobody { Ok(read.max(prev.time())) } else { Err(Held { by: None }) }
    }
}
