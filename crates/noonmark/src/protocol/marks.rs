//! Marks of readers, and read times: what `dynamic` and `ranges` both keep of those who read a cell.
//!
//! Beside the data:
//!
//! ```text
//! | read time | (the protocol's own words) | who reads: one bit a slot |
//! ```
//!
//! A *mark* says: I have read the version that is here, and have no commit time yet. It blocks nobody. Whoever
//! replaces the version sees to it that those who are marked come before (`dynamic` at its commit, [`come_after`]; `ranges`
//! when the two meet); whoever has ended has left
//! its commit time in the *read time* instead, and no mark. So of all who ever read a version, its replacement finds
//! each in one of the two, and that is all that the validation of a read needs ([`validate`]): it looks at no version.
//!
//! # Why nobody is missed
//!
//! - A reader *marks, then looks for a lock*; a writer *locks, then looks for marks*. All four are sequentially
//!   consistent: either the writer finds the mark, or the reader finds the lock, and the version after it.
//! - A reader *settles for its time, raises the read time, then takes its mark away*; a writer *looks at the marks,
//!   then at the times of those who are marked, then at the read time*. If it finds no mark, it finds the read
//!   time raised. If it finds one, the times of that slot are the reader's, or those of the slot's next transaction, and
//!   then (by the release in [`Ranges::begin`](crate::range::Ranges::begin)) the read time is raised as well.
//! - A range changes in single atomic steps: pushed before it is settled, a reader keeps to it; after, the writer is
//!   told the time and comes after it.

use super::{Conflict, CopyValue, Held, Me, Order, Seen, check_current};
use crate::lines;
use crate::planted::Bug;
use crate::record::Cell;
use noonmark_core::sync::{AtomicU64, Ordering, fence};
use noonmark_core::{Access, Host, Readers, Step, Timestamp, Word};

/// How many words read time and marks take, together with so many of the protocol's own.
pub(super) fn words(slots: usize, own: usize) -> usize {
    1 + own + Readers::words_for(slots)
}

/// The marks of a cell; the protocol has so many words of its own before them.
#[inline]
pub(super) fn readers(cell: Cell<'_>, own: usize) -> Readers<'_> {
    Readers::new(&cell.aux[1 + own..])
}

#[inline]
fn read_time(cell: Cell<'_>) -> &AtomicU64 {
    &cell.aux[0]
}

/// The latest time at which somebody relied on the version, or on the one before.
///
/// *Sequentially consistent*: after the look at the marks.
#[inline]
pub(super) fn read_until(cell: Cell<'_>) -> Timestamp {
    Timestamp::new(read_time(cell).load(Ordering::SeqCst))
}

/// A new record may be written only after this time.
pub(super) fn init(cell: Cell<'_>, read_until: Timestamp) {
    // Relaxed: nobody else knows the record yet.
    read_time(cell).store(read_until.ticks(), Ordering::Relaxed);
}

/// Somebody who has the cell locked relied on it at this time.
pub(super) fn keep(cell: Cell<'_>, at: Timestamp) {
    // Relaxed: under the lock. The next writer's lock acquires its release.
    read_time(cell).fetch_max(at.ticks(), Ordering::Relaxed);
}

/// What this transaction has read puts it at or after the version. Refused if no time is left to it: it need not
/// go on.
#[inline]
pub(super) fn follow(rule: &'static str, me: Me<'_, impl Host>, version: Word) -> Step<(), Conflict> {
    let range = me.range();
    // Of a transaction that has decided on its time (it looks once more at what it relies on), the commit finds
    // out.
    let _ = range.push_from(version.time());
    if range.has_room() { Step::Ready(()) } else { Step::Abort(Conflict::no_time(rule, range)) }
}

/// Version, value, version again: the version, which is the value's.
///
/// The first look is sequentially consistent, after the mark, or after the look at the read frontier; the second is that of
/// [`read_optimistically`](super::read_optimistically).
#[inline(always)]
fn read_after(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    copy: &mut impl CopyValue,
) -> Step<Word, Conflict> {
    me.touch(Access::Read);
    let word = cell.word.load_seq_cst();
    if word.is_locked() {
        return Step::Busy(Conflict::locked(rule, word));
    }
    copy.copy();
    fence(Ordering::Acquire);
    me.touch(Access::Read);
    let again = cell.word.load_after_fence();
    if again != word {
        return Step::Busy(Conflict::not_current(rule, word, again));
    }
    Step::Ready(word)
}

/// The read of one who has marked, and in no writer's way; or of one who leaves no mark, and has loaded the read frontier before. For him
/// what is not locked holds until that frontier, if it is not younger; whoever replaces it finds that frontier, or a later one, once he has it
/// locked.
#[inline(always)]
pub(super) fn read(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    copy: &mut impl CopyValue,
    frontier: Option<Timestamp>,
) -> Step<Seen, Conflict> {
    match (read_after(rule, me, cell, copy), frontier) {
        (Step::Ready(word), None) => follow(rule, me, word).map(|()| Seen::at(word)),
        (Step::Ready(word), Some(until)) => Step::Ready(Seen { word, until }),
        (step, _) => step.map(Seen::at),
    }
}

/// What was read without a mark holds at the commit time if that is the frontier that it was read at; otherwise the frontier is raised to it,
/// and what was read must be there yet.
#[inline(always)]
pub(super) fn validate_unmarked(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    seen: Seen,
    at: Timestamp,
) -> Step<(), Conflict> {
    if at <= seen.until {
        return Step::Ready(());
    }
    me.host.touch(|| lines::FRONTIER, Access::Read);
    if me.ranges.frontier().is_some_and(|frontier| frontier < at) {
        me.host.touch(|| lines::FRONTIER, Access::ReadModifyWrite);
        me.ranges.raise_frontier(at);
    }
    if me.planted.is(Bug::FrontierRaisedBlindly) {
        return Step::Ready(());
    }
    check_current(rule, me, cell, seen.word, None)
}

/// The earliest time, from `at` on, that leaves something to those who are marked and still run: they come before
/// it, and so may still meet what others commit before it. See [`Rules::leave_room`](super::Rules::leave_room).
pub(super) fn leave_room(
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    readers: Readers<'_>,
    at: Timestamp,
) -> Timestamp {
    me.touch(Access::Read);
    let room_for = |at: Timestamp, slot| {
        me.touch_slot(slot, Access::Read);
        let (earliest, latest) = (me.ranges.get(slot).lower(), me.ranges.get(slot).upper());
        let needs = match (earliest.fixed, latest.fixed) {
            _ if !latest.fixed && latest.time < at => at,
            (_, true) => latest.time.next(),
            (true, false) => earliest.time.next(),
            (false, false) => Timestamp::new(earliest.time.next().ticks().saturating_add(me.ranges.room())),
        };
        at.max(needs)
    };
    let marked = readers.others(me.slot()).fold(at, room_for);
    marked.max(read_until(cell).next())
}

/// Has those who are marked come before `at`, and answers from when on this transaction comes after all who have a
/// time already. See [`Rules::come_after`](super::Rules::come_after).
pub(super) fn come_after(
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    readers: Readers<'_>,
    at: Timestamp,
) -> Timestamp {
    let mut earliest = at;
    me.touch(Access::Read);
    for slot in readers.others(me.slot()) {
        if me.planted.is(Bug::ReadersNotPushed) {
            continue;
        }
        me.touch_slot(slot, Access::ReadModifyWrite);
        if let Err(settled) = me.ranges.get(slot).push_before(at) {
            earliest = earliest.max(settled.next());
        }
    }
    me.touch(Access::Read);
    earliest.max(read_until(cell).next())
}

/// Takes this transaction's mark away, if it is there.
pub(super) fn unmark(me: Me<'_, impl Host>, readers: Readers<'_>) {
    if readers.contains(me.slot()) {
        me.touch(Access::ReadModifyWrite);
        // Nobody waits for marks to go.
        let _ = readers.leave(me.slot());
    }
}

/// What was read holds at the commit time, which has been settled: whoever has replaced it, or will, comes after. What
/// is left to do is to leave the time behind. (A part of its caller, which would copy `me` in order to call it.)
#[inline(always)]
pub(super) fn validate(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    readers: Readers<'_>,
    seen: Seen,
    own: Option<Word>,
    at: Timestamp,
) -> Step<(), Conflict> {
    if me.order == Order::Momentary || own.is_some() {
        // What this transaction writes itself, it replaces at the commit time: the version that it read must be the
        // one that it locked.
        return check_current(rule, me, cell, seen.word, own);
    }
    let is_marked = readers.contains(me.slot());
    if me.planted.is(Bug::MarkLeftEarly) {
        unmark(me, readers);
    }
    me.touch(Access::Read);
    // (Whoever replaces a version comes after its own time anyway.)
    if seen.word.time() < at && read_until(cell) < at {
        me.touch(Access::ReadModifyWrite);
        read_time(cell).fetch_max(at.ticks(), Ordering::SeqCst);
    }
    if is_marked {
        return Step::Ready(());
    }
    // Read in order to be written, without a mark, by one that ends without writing: as `tictoc`, which raises the
    // read time, then looks.
    check_current(rule, me, cell, seen.word, None)
}

/// As [`Rules::rely`](super::Rules::rely): who is marked, and frozen, is come after.
pub(super) fn rely(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    readers: Readers<'_>,
    seen: Seen,
    own: Option<Word>,
) -> Step<(), Conflict> {
    if own.is_some() {
        return check_current(rule, me, cell, seen.word, own);
    }
    // What is not read to be written is read with a mark, which stays to the end.
    debug_assert!(readers.contains(me.slot()));
    Step::Ready(())
}

/// As [`Rules::reclaim_bound`](super::Rules::reclaim_bound). A mark keeps the record: what takes its place would not find it.
pub(super) fn reclaim_bound(
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    readers: Readers<'_>,
    prev: Word,
) -> Result<Timestamp, Held> {
    Held::by_none(readers.others(me.slot())).map(|()| read_until(cell).max(prev.time()))
}
