//! `dynamic`: MaaT, dynamic timestamp allocation [Dynamic §IV to VI; Sundial §5.2, §6.2].
//!
//! A transaction has a range of possible commit times instead of one, and soft locks (marks that block nobody) tell
//! who else is about. It is fitted in where the others leave it room, and aborts only when there is none.
//!
//! Beside the data: the last committed read time and write time of the cell (the latter is its version) [Dynamic
//! §V.B, *timestamp cache*], and the soft read locks, a bit for each slot [Dynamic §V.B, *soft lock cache*; here
//! `marks.rs`]. For each slot: the range (`range.rs`) [Dynamic §V.B, *transaction record*].
//!
//! - *Begin*: all times from the session's floor on [Dynamic §IV: 0 to infinity].
//! - *Read*: place the soft read lock; read; the lower bound becomes at least the write time [Dynamic §VI.A].
//! - *Write*: nothing before the commit. *Seal* takes the place of the soft write lock: see below.
//! - *Validate* [Dynamic §IV, §VI.A], in three parts:
//!   1. *The bounds*: at or after the write time of everything read, and after the read and write times of
//!      everything written, all committed ones.
//!   2. *The running readers of my writes* are pushed below the time to be ([`Rules::come_after`]); those that have
//!      their time already are come after.
//!   3. *Commit* at the lower bound, if nobody has pushed the upper one below it meanwhile.
//! - *Install*, then let go of the locks. The read time of what was read becomes the commit time.
//!
//! # Where the paper's validation does not hold
//!
//! §VI.A takes the lower bounds of those whom the transaction must commit before, and the upper bounds of those whom
//! it must commit after. A running transaction has the bounds 0 and infinity, so that literally *any* running one in either
//! queue aborts it; and if bounds are only collapsed at the commit, two that read and write one key both
//! find the other gone and one update is lost. What holds is MaaT's idea: *push the others*. Whoever validates first
//! picks a time, and moves the running ones to the side of it on which they must be. So the queues need not be
//! collected while executing: marks are looked at when they are needed, and hold whoever came since.
//!
//! Two that validate at once must see each other. They do so by the one word in which a range is settled: my push of a
//! reader's upper bound either comes before it settles, and it keeps to it, or finds its time, and I come after.
//! I push before I settle myself, and settling is a step on a word that others push in the same way; so
//! whatever others have asked of me until then is in it, and those who come later find my time. What I pushed at a time that
//! I then do not get costs others room, and nothing else. Take two of which each reads what the other writes: each
//! pushes the other below its own time. Only one can have settled before it was pushed; the other aborts (or both do, if both
//! pushes came first).
//!
//! # Where there is a lock after all
//!
//! MaaT's writes are soft to the end: two validated writers of one key may install in either order, and the one with
//! the earlier time skips its install. The engine asks for more: a sealed cell is locked, since the value beside its version
//! is changed in place, its presence decides whether the row exists, and commit-time updates must be
//! applied to what is there, not skipped. So the write lock is taken at the seal and kept through the install; a reader
//! that meets it comes again, and two writers of one cell install in the order of their times. What the paper's soft
//! write lock is for, others learn otherwise: a transaction that validates must be before the *running* writers of what
//! it read, and each of those reads the cell's read time (which says so) once it has the lock, and not before.
//!
//! # Improved, in the sense of Sundial §6.2
//!
//! Sundial's authors improved MaaT by fewer messages, by many threads a partition, and by better garbage
//! collection. Here a range is in one place, so nothing is sent or intersected; each cell and each range is its own small
//! critical section, of single atomic steps; and marks are bits that their owners take away, so there are no queues to collect.
//! Sundial §5.2 and Figure 12 blame most of MaaT's aborts on frozen ranges: a transaction in its commit holds all times from
//! some x on, and whoever conflicts aborts. Here a range that does not move any more is a single time, so that others may go
//! before or after it. And of the times that it may have, a writer chooses one that leaves some room to the readers
//! that it pushes ([`Rules::leave_room`]); the paper's choice, the lower bound, would leave a reader that has
//! just begun nothing but times that are past.
//!
//! In a database in *momentary* order (see [`crate::order`]) nobody travels, marks are of no use, and this is `occ`.
//!
//! # The read frontier
//!
//! Dynamic §VII.A leaves to future work what would spare transactions that only read their marks: a *read frontier*, the latest
//! time below which nothing commits any more, kept up continuously, at which they read. With versions kept one could read at any such time;
//! here there is one version of a cell, and it is of use to a reader at the frontier if it is not younger than that.
//! So the frontier is a read time of the whole database ([`crate::range::Ranges`]), and readers raise it, as
//! nobody else knows which times are worth it:
//!
//! - *Begin*: load the frontier, F.
//! - *Read*: no mark. What is not locked, and not younger than F, holds until F.
//! - *Commit*: at F, without another look, if nothing was younger. Otherwise at the time of the youngest, T: raise the
//!   frontier to T, then look once more at all that was read. If it is there, unlocked, it holds until T.
//! - *Who replaces something* commits after the frontier, as it is once all that he replaces is locked.
//!
//! A writer who has chosen his time before the frontier was raised above it, and has not installed yet, is the one to fear. He has had
//! all of it locked since before he chose: whoever has loaded the higher frontier looks after that, and finds the lock, or
//! what was installed.
//!
//! What was read for nothing is run again with marks, which keep its place for it. An option
//! ([`Builder::read_frontier`](crate::Builder::read_frontier)): decision 42 has its figures.
//!
//! What it does not do: wait for anybody, or let readers see the version before the one that is being installed.

use super::{
    Conflict, CopyValue, Held, Hold, Me, Order, Rules, Seen, lock_version, marks, read_optimistically,
};
use crate::record::Cell;
use noonmark_core::{Access, Host, Readers, Step, Timestamp, Word};

pub(crate) struct Dynamic;

const READ: &str = "dynamic: read";

/// The soft read locks.
fn readers(cell: Cell<'_>) -> Readers<'_> {
    marks::readers(cell, 0)
}

impl Rules for Dynamic {
    const KEEPS_READ_TIMES: bool = true;
    const LOCKS_READS: bool = true;
    const HAS_RANGES: bool = true;

    fn aux_words(slots: usize) -> usize {
        marks::words(slots, 0)
    }

    fn init(cell: Cell<'_>, read_until: Timestamp) {
        marks::init(cell, read_until);
    }

    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
        if me.order == Order::Momentary {
            return read_optimistically(READ, me, cell, copy);
        }
        let frontier = me.range().reads_at();
        let mut newly = false;
        if frontier.is_none() {
            // Most that is locked stays so for a moment: no mark before it is worth one.
            me.touch(Access::Read);
            let word = cell.word.load();
            if word.is_locked() {
                return Step::Busy(Conflict::locked(READ, word));
            }
            me.touch(Access::ReadModifyWrite);
            newly = readers(cell).enter(me.slot());
        }
        let step = marks::read(READ, me, cell, copy, frontier);
        if newly && !matches!(step, Step::Ready(_)) {
            // Whoever is not granted the read does not rely on it.
            marks::unmark(me, readers(cell));
        }
        step
    }

    /// Without a mark: the seal takes the version that was read, or none.
    fn update(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        _: &mut Hold,
        copy: &mut impl CopyValue,
    ) -> Step<Seen, Conflict> {
        let step = read_optimistically(READ, me, cell, copy);
        match (step, me.order) {
            (Step::Ready(seen), Order::Logical) => marks::follow(READ, me, seen.word).map(|()| seen),
            (step, _) => step,
        }
    }

    fn seal(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Option<Word>,
        hold: &mut Hold,
    ) -> Step<(), Conflict> {
        lock_version("dynamic: seal", me, cell, seen, hold)
    }

    fn write_bound(cell: Cell<'_>, prev: Word) -> Timestamp {
        marks::read_until(cell).max(prev.time()).next()
    }

    fn leave_room(me: Me<'_, impl Host>, cell: Cell<'_>, at: Timestamp) -> Timestamp {
        marks::leave_room(me, cell, readers(cell), at)
    }

    fn come_after(me: Me<'_, impl Host>, cell: Cell<'_>, at: Timestamp) -> Timestamp {
        marks::come_after(me, cell, readers(cell), at)
    }

    fn rely(me: Me<'_, impl Host>, cell: Cell<'_>, seen: Seen, own: Option<Word>) -> Step<(), Conflict> {
        marks::rely("dynamic: validate", me, cell, readers(cell), seen, own)
    }

    #[inline(always)]
    fn validate(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Seen,
        own: Option<Word>,
        at: Timestamp,
    ) -> Step<(), Conflict> {
        // (To raise the frontier to the end of time would leave nobody any.)
        if me.range().reads_at().is_some() && own.is_none() && at < Timestamp::MAX {
            std::hint::cold_path();
            return marks::validate_unmarked("dynamic: frontier", me, cell, seen, at);
        }
        marks::validate("dynamic: validate", me, cell, readers(cell), seen, own, at)
    }

    fn keep(cell: Cell<'_>, at: Timestamp) {
        marks::keep(cell, at);
    }

    fn publish(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word) {
        me.touch(Access::Write);
        cell.word.unlock_unwatched(next);
    }

    fn release(me: Me<'_, impl Host>, cell: Cell<'_>, hold: Hold) {
        if let Some(prev) = hold.prev {
            Self::publish(me, cell, prev);
        }
    }

    fn release_read(me: Me<'_, impl Host>, cell: Cell<'_>) {
        if me.range().reads_at().is_none() {
            marks::unmark(me, readers(cell));
        }
    }

    fn reclaim_bound(me: Me<'_, impl Host>, cell: Cell<'_>, prev: Word) -> Result<Timestamp, Held> {
        marks::reclaim_bound(me, cell, readers(cell), prev)
    }
}
