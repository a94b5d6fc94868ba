//! `f1`: optimistic reads, and at commit a lock on everything that was touched [Sundial §6.2].
//!
//! Beside the data: the version word, which is the write lock, and a read indicator, which holds the read
//! locks. Both are taken at commit only, and held until the end of it.
//!
//! - *Read*: as `occ`. While a transaction executes it locks nothing.
//! - *Seal*, reads first: what was read is locked for reading, and is still the version that was read; then
//!   what is to be written is locked for writing, if it was read at the version that was read, and has no
//!   reader that is locking too.
//! - *Validate*: nothing is left to do. What is locked was looked at when it was locked, and cannot have changed.
//! - *Publish*, then let go of the read locks.
//!
//! # Why one round is enough
//!
//! The rule of [`crate::protocol`], that a transaction validates nothing before it has sealed everything, is
//! for protocols that do not lock what they read: two transactions that each read what the other writes could
//! both look before the other has locked. Here the look leaves a lock behind. Whoever comes second, to write
//! what was looked at, finds the reader (both steps are sequentially consistent: a reader *enters, then looks
//! for a write lock*, a writer *locks, then looks for readers*), so that one of them gives up. The transaction
//! takes place when it has its last lock: all that it read is current then. So the order is momentary, and
//! strict, and it goes with other momentary tables as `two-phase` does, whose reads are locked longer.
//!
//! That is what F1 buys with its read locks: among servers, one message does what takes `occ` two. On
//! one machine a second round costs nothing, and what is left is the price: each read is two atomic writes at
//! commit, and a transaction that only reads keeps writers out for a moment.
//!
//! # Departures
//!
//! - F1 gives up if it does not get a lock. So does a reader here that finds a writer, who is about to replace
//!   what was read, and a writer that finds a reader: were it to ask again until the reader has gone, two
//!   transactions that each read what the other writes would both ask until their patience ends, each time that
//!   they meet. A writer that finds a writer does ask again, a bounded number of times, as under `occ`. Nobody
//!   waits otherwise, so nobody waits in a circle.
//! - What was read, and then written, gets its write lock only. Were it locked for reading first, two
//!   transactions that add to one row would each keep the other from its write lock.
//! - Who writes nothing in such tables takes his read locks in the validation round, after his write locks
//!   elsewhere.

use super::{
    Conflict, CopyValue, Held, Hold, Me, Rules, Seen, What, check_current, lock_version, read_optimistically,
};
use crate::record::Cell;
use noonmark_core::{Access, Host, Readers, Step, Timestamp, Word};

pub(crate) struct F1;

fn readers<'a>(cell: Cell<'a>) -> Readers<'a> {
    Readers::new(cell.aux)
}

impl Rules for F1 {
    const LOCKS_READS: bool = true;
    const SEALS_READS: bool = true;

    fn aux_words(slots: usize) -> usize {
        Readers::words_for(slots)
    }

    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
        read_optimistically("f1: read", me, cell, copy)
    }

    fn seal_read(me: Me<'_, impl Host>, cell: Cell<'_>, seen: Seen) -> Step<(), Conflict> {
        if readers(cell).contains(me.slot()) {
            // Locked at the version that was read, and so at that of each read of it that came later.
            return Step::Ready(());
        }
        // Enter, then look. If this refuses, the transaction is over, and lets go of the lock.
        me.touch(Access::ReadModifyWrite);
        readers(cell).enter(me.slot());
        check_current("f1: lock read", me, cell, seen.word, None)
    }

    fn seal(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Option<Word>,
        hold: &mut Hold,
    ) -> Step<(), Conflict> {
        const RULE: &str = "f1: lock write";
        let locked =
            if hold.prev.is_some() { Step::Ready(()) } else { lock_version(RULE, me, cell, seen, hold) };
        locked.and_then(|()| {
            me.touch(Access::Read);
            match readers(cell).others(me.slot()).next() {
                None => Step::Ready(()),
                Some(by) => Step::Abort(Conflict { rule: RULE, what: What::ReadLocked { by } }),
            }
        })
    }

    fn validate(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Seen,
        own: Option<Word>,
        _: Timestamp,
    ) -> Step<(), Conflict> {
        // Of what is written, or would be, and was read: what is only read is sealed.
        check_current("f1: validate", me, cell, seen.word, own)
    }

    fn publish(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word) {
        me.touch(Access::Write);
        cell.word.unlock_unwatched(next);
    }

    fn release(me: Me<'_, impl Host>, cell: Cell<'_>, hold: Hold) {
        if let Some(prev) = hold.prev {
            me.touch(Access::Write);
            cell.word.unlock_unwatched(prev);
        }
    }

    fn release_read(me: Me<'_, impl Host>, cell: Cell<'_>) {
        if readers(cell).contains(me.slot()) {
            me.touch(Access::ReadModifyWrite);
            // Nobody ever waits for readers here but by asking again.
            let _ = readers(cell).leave(me.slot());
        }
    }

    fn reclaim_bound(me: Me<'_, impl Host>, cell: Cell<'_>, prev: Word) -> Result<Timestamp, Held> {
        Held::by_none(readers(cell).others(me.slot())).map(|()| prev.time())
    }
}
