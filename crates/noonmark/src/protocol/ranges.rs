//! `ranges`: timestamp ranges that shrink at the conflict, after Lomet et al. [Sundial §2.1, Appendix].
//!
//! As under `dynamic` a transaction has a range of possible commit times. But two that conflict settle at once, when the
//! later of the two comes to the cell, which of them is before the other, and shrink both ranges so that they are disjoint;
//! at the commit there is nothing left to look at, and any time of the range will do.
//!
//! Beside the data: the last read and write times of the cell (the latter is its version); its *current writer*, one at
//! most; its *current readers*, a bit for each slot (`marks.rs`). For each slot: the range (`range.rs`).
//!
//! - *Read*: become a current reader. If there is a current writer, come before it: what is read is the version that it
//!   will replace. The range begins at the write time, or later.
//! - *Write*: become the current writer; have the current readers come before. The range begins after the read
//!   and write times of those who are gone.
//! - *Commit*: at the earliest time that is left. The version word is locked only now, to install.
//!
//! Who cannot come before another (its range begins no earlier than the other's ends) has two ways:
//!
//! | who comes | finds | then |
//! |---|---|---|
//! | reader | a current writer that must be before it | waits until it is gone, and reads what it has left |
//! | writer | a current writer | waits until it is gone |
//! | writer | a current reader that must be after it | aborts: only the reader's abort would help |
//!
//! Waits are wait-die (the older waits, the younger aborts), so nobody waits in a circle. (At a server of a cluster the younger waits, too, for
//! whoever has prepared: who waits for whom is said there.)
//!
//! # Departures
//!
//! Sundial's authors made two changes to the protocol when they compared it [Sundial, Appendix], and so do we.
//! *A single version*: a second writer of a cell has no version of its own to write beside the first one's, so there is
//! one current writer, and a reader cannot go back to a version before the one that is there. *The clock*: the original
//! draws the beginning of a range from a clock that everybody reads, and Sundial's form from synchronized ones; both say
//! where to split a range that has no end. Here a range begins at the session's last commit time, and one without end is split a
//! little after its beginning ([`RANGE_ROOM_DEFAULT`](crate::RANGE_ROOM_DEFAULT)): logical times need no clock, and none is a bottleneck.
//!
//! A commit-time update, which reads nothing, becomes the current writer, and parts from the current readers, only when it
//! is sealed.
//!
//! # Why the commit needs no look at others
//!
//! Let R read a version and W replace it. If R was marked when W, which had become the current writer, looked, W parted the
//! two; if it was not, R finds W as the current writer, and parts the two, or finds the version replaced ("mark, then
//! look for a writer" against "become the writer, then look for marks", all sequentially consistent); or R was gone, and
//! W's range begins after the read time that it left. From the parting on R's range is before W's, since ranges only
//! shrink (`range.rs`).
//!
//! # Across databases
//!
//! A transaction that spans several has a range in each, and parts it from others' where it meets them. Before it commits, each is frozen ([`Rules::rely`],
//! [`crate::timing`]), and it commits at a time that is in all of them. Nothing else differs: a frozen range is one that does not move any
//! more, and [`part`] knows those. A writer has no reader left to push then, having met all of them.
//!
//! In a database in *momentary* order (see [`crate::order`]) there are no ranges to shrink: readers are optimistic, and
//! writers keep each other out from their first write on.
//!
//! What it does not do: keep old versions, or detect deadlocks that ages prevent.

use super::swiss::{Younger, drop_intent, meet_holder, take_intent};
use super::{
    Conflict, CopyValue, Held, Hold, Me, Order, Rules, Seen, What, lock_version, marks, read_optimistically,
};
use crate::planted::Bug;
use crate::range::part;
use crate::record::Cell;
use noonmark_core::{Access, Host, Readers, Step, Timestamp, VersionWord, WaitFor, Word};

pub(crate) struct Ranges;

const READ: &str = "ranges: read";
const WRITE: &str = "ranges: write";
/// A current reader must be after the writer that comes.
const PART: &str = "ranges: part";

/// Words beside read time and marks: the current writer.
const OWN: usize = 1;

/// The current readers.
fn readers(cell: Cell<'_>) -> Readers<'_> {
    marks::readers(cell, OWN)
}

/// The current writer, in the format of a version word: the word of a new record, zero, is free.
fn writer<'a>(cell: Cell<'a>) -> &'a VersionWord {
    VersionWord::from_atomic(&cell.aux[1])
}

/// Becomes the current writer. If there is one in the way, the older waits, the younger aborts.
fn become_writer(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<(), Conflict> {
    take_intent(WRITE, me, cell, &cell.aux[1], Younger::IsLeftAlone, hold)
}

/// Of the current writer: has the current readers come before it, and comes after those who are gone.
fn come_after_readers(me: Me<'_, impl Host>, cell: Cell<'_>) -> Step<(), Conflict> {
    if me.order == Order::Momentary {
        return Step::Ready(());
    }
    me.touch(Access::Read);
    for slot in readers(cell).others(me.slot()) {
        me.touch_slot(slot, Access::ReadModifyWrite);
        if !part(me.ranges.get(slot), me.range(), me.ranges.room()) {
            return Step::Abort(Conflict { rule: PART, what: What::ReadLocked { by: slot } });
        }
    }
    me.touch(Access::Read);
    let range = me.range();
    // Nobody else replaces the version from here on. (A lock on it is that of an install that this transaction has not
    // seen the end of: the seal sees to what it leaves.)
    let version = cell.word.load();
    let written = if version.is_locked() { Timestamp::ZERO } else { version.time() };
    // It has not decided on its time yet.
    let _ = range.push_from(marks::read_until(cell).max(written).next());
    if range.has_room() { Step::Ready(()) } else { Step::Abort(Conflict::no_time(WRITE, range)) }
}

/// Of a marked reader: comes before the current writer, or waits for it.
fn come_before_writer(me: Me<'_, impl Host>, cell: Cell<'_>) -> Step<(), Conflict> {
    me.touch(Access::Read);
    // Sequentially consistent: after the mark.
    let word = writer(cell).load_seq_cst();
    // Who has waited for it may find it handed to himself: he has no use for it, and gives it back.
    let Some(holder) = word.owner().filter(|holder| *holder != me.txn) else { return Step::Ready(()) };
    if me.planted.is(Bug::WriterNotMet) {
        return Step::Ready(());
    }
    me.touch_slot(holder.slot(), Access::ReadModifyWrite);
    if part(me.range(), me.ranges.get(holder.slot()), me.ranges.room()) {
        return Step::Ready(());
    }
    let on = WaitFor::release_of(&cell.aux[1]).to_share();
    meet_holder(READ, me, word, on, &cell.aux[1], Younger::IsLeftAlone).map(|_| ())
}

fn cease_to_write(me: Me<'_, impl Host>, cell: Cell<'_>) {
    drop_intent(me, &cell.aux[1]);
}

impl Rules for Ranges {
    const KEEPS_READ_TIMES: bool = true;
    const HAS_AGES: bool = true;
    const OLDER_WAITS: bool = true;
    const WAITS_IN_LINE: bool = true;
    const LOCKS_READS: bool = true;
    const HAS_RANGES: bool = true;
    const WRITES_EARLY: bool = true;

    fn aux_words(slots: usize) -> usize {
        marks::words(slots, OWN)
    }

    fn init(cell: Cell<'_>, read_until: Timestamp) {
        marks::init(cell, read_until);
    }

    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
        if me.order == Order::Momentary {
            return read_optimistically(READ, me, cell, copy);
        }
        // A writer that is about to install is not to be come before: what it leaves is there soon.
        me.touch(Access::Read);
        let word = cell.word.load();
        if word.is_locked() {
            return Step::Busy(Conflict::locked(READ, word));
        }
        me.touch(Access::ReadModifyWrite);
        let newly = readers(cell).enter(me.slot());
        let step = come_before_writer(me, cell).and_then(|()| marks::read(READ, me, cell, copy, None));
        if newly && !matches!(step, Step::Ready(_)) {
            // Whoever is not granted the read does not rely on it.
            marks::unmark(me, readers(cell));
        }
        step
    }

    fn update(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        hold: &mut Hold,
        copy: &mut impl CopyValue,
    ) -> Step<Seen, Conflict> {
        become_writer(me, cell, hold)
            .and_then(|()| come_after_readers(me, cell))
            .and_then(|()| read_optimistically(WRITE, me, cell, copy))
    }

    fn write(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<(), Conflict> {
        become_writer(me, cell, hold).and_then(|()| come_after_readers(me, cell))
    }

    fn seal(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Option<Word>,
        hold: &mut Hold,
    ) -> Step<(), Conflict> {
        // An update at commit comes to the cell only now. (So does who takes an absent record out of its index; that has
        // looked at the version, changes nothing, and leaves a record with marks alone.)
        let is_late = !hold.intent && seen.is_none();
        let taken = if hold.intent { Step::Ready(()) } else { become_writer(me, cell, hold) };
        taken
            .and_then(|()| if is_late { come_after_readers(me, cell) } else { Step::Ready(()) })
            .and_then(|()| lock_version("ranges: seal", me, cell, seen, hold))
    }

    fn write_bound(cell: Cell<'_>, prev: Word) -> Timestamp {
        marks::read_until(cell).max(prev.time()).next()
    }

    fn rely(me: Me<'_, impl Host>, cell: Cell<'_>, seen: Seen, own: Option<Word>) -> Step<(), Conflict> {
        marks::rely("ranges: validate", me, cell, readers(cell), seen, own)
    }

    #[inline(always)]
    fn validate(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Seen,
        own: Option<Word>,
        at: Timestamp,
    ) -> Step<(), Conflict> {
        marks::validate("ranges: validate", me, cell, readers(cell), seen, own, at)
    }

    fn keep(cell: Cell<'_>, at: Timestamp) {
        marks::keep(cell, at);
    }

    fn publish(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word) {
        me.touch(Access::Write);
        cell.word.unlock_unwatched(next);
        cease_to_write(me, cell);
    }

    fn release(me: Me<'_, impl Host>, cell: Cell<'_>, hold: Hold) {
        if let Some(prev) = hold.prev {
            me.touch(Access::Write);
            cell.word.unlock_unwatched(prev);
        }
        if hold.intent {
            cease_to_write(me, cell);
        }
    }

    fn release_read(me: Me<'_, impl Host>, cell: Cell<'_>) {
        marks::unmark(me, readers(cell));
    }

    fn reclaim_bound(me: Me<'_, impl Host>, cell: Cell<'_>, prev: Word) -> Result<Timestamp, Held> {
        marks::reclaim_bound(me, cell, readers(cell), prev)
    }
}
