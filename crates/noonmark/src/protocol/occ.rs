//! `occ`: optimistic concurrency control [Granularity §3].
//!
//! Beside the data: nothing but the version word.
//!
//! - *Read*: version, value, version again; remember the version. No shared memory is written.
//! - *Seal*: lock what is to be written. A cell that was read is locked by a compare-and-swap from
//!   the version that was read, which is its validation too. Whoever finds a lock asks again a
//!   bounded number of times instead of detecting deadlocks.
//! - *Validate*: what was read is current and not locked by others.
//!
//! The transaction takes place between its last lock and its first check: at that moment everything
//! that it read is current, and nobody else may change it. So the order is momentary, and strict.

use super::{Conflict, CopyValue, Hold, Me, Rules, Seen, check_current, lock_version, read_optimistically};
use crate::record::Cell;
use noonmark_core::{Access, Host, Step, Timestamp, Word};

pub(crate) struct Occ;

impl Rules for Occ {
    const LOCKS_IN_WORD: bool = true;

    fn aux_words(_slots: usize) -> usize {
        0
    }

    #[inline(always)]
    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
        read_optimistically("occ: read", me, cell, copy)
    }

    #[inline(always)]
    fn seal(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Option<Word>,
        hold: &mut Hold,
    ) -> Step<(), Conflict> {
        lock_version("occ: seal", me, cell, seen, hold)
    }

    #[inline(always)]
    fn validate(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Seen,
        own: Option<Word>,
        _: Timestamp,
    ) -> Step<(), Conflict> {
        check_current("occ: validate", me, cell, seen.word, own)
    }

    #[inline(always)]
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
}
