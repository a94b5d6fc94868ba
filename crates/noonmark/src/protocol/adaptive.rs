//! `adaptive`: optimistic where it is calm, locked where it is not [Granularity §3.2].
//!
//! Beside the data: the *heat* of the cell, and a read indicator.
//!
//! ```text
//!                  failed validations, locks met: heat rises by HEAT_OF_CONFLICT
//!   optimistic  ────────────────────────────────────────────────────▶  pessimistic
//!   heat < HOT  ◀────────────────────────────────────────────────────  heat >= HOT
//!                  each write that commits: heat falls by one
//! ```
//!
//! - *Read*, optimistic: as `occ`. Pessimistic: enter the read indicator, then look for a write lock;
//!   leave again and give up if there is one.
//! - *Update* (a read that a write will follow), optimistic: as `occ`. Pessimistic: seal at once.
//! - *Seal*: lock the version word; give up if there are readers in the indicator, or, in a hot cell, another's lock.
//! - *Validate*: what was read is current and not locked by others: true anyway for whoever is in the
//!   indicator.
//!
//! A writer heeds the indicator whatever the heat, and every read is validated whichever way it was
//! made. So the heat is only advice: it may be read and written carelessly, change at any time, and
//! be wrong, without any schedule becoming possible that `occ` forbids. Granularity uses a lock whose
//! mode is part of its state; there a change of mode has to be fought out between readers and
//! writers.
//!
//! Nobody waits for a lock that is held while its holder executes: where a cell is hot, whoever meets a lock gives up, and a
//! writer that meets a reader gives up anywhere. Were either to ask again, two transactions that each hold
//! what the other wants, be it only that both have read the row that both are to write, would ask until their patience
//! ends, and keep all that they have locked from the others meanwhile. (Of the mode with locks the paper only says that it is
//! strict, and of locks under all protocols that nobody waits for them.) Where it is calm, locks are held
//! during commits only, and whoever meets one asks again a bounded number of times, as under `occ`.

use super::{
    Conflict, CopyValue, Held, Hold, Me, Rules, Seen, What, check_current, lock_version, read_optimistically,
};
use crate::record::Cell;
use noonmark_core::sync::Ordering;
use noonmark_core::{Access, Host, Readers, Step, Timestamp, Word};

pub(crate) struct Adaptive;

/// From this heat on, readers lock.
const HOT: u64 = 64;
/// What a conflict adds.
const HEAT_OF_CONFLICT: u64 = 16;
/// It gets no hotter than this, so that calm returns in time.
const HEAT_MAX: u64 = 512;

impl Adaptive {
    fn readers(cell: Cell<'_>) -> Readers<'_> {
        Readers::new(&cell.aux[1..])
    }

    /// Relaxed, as everything about the heat: it is advice.
    fn is_hot(cell: Cell<'_>) -> bool {
        cell.aux[0].load(Ordering::Relaxed) >= HOT
    }

    fn heat_up(me: Me<'_, impl Host>, cell: Cell<'_>) {
        me.touch(Access::Write);
        let heat = cell.aux[0].load(Ordering::Relaxed);
        cell.aux[0].store((heat + HEAT_OF_CONFLICT).min(HEAT_MAX), Ordering::Relaxed);
    }

    fn cool_down(cell: Cell<'_>) {
        let heat = cell.aux[0].load(Ordering::Relaxed);
        if heat > 0 {
            cell.aux[0].store(heat - 1, Ordering::Relaxed);
        }
    }
}

impl Rules for Adaptive {
    const LOCKS_READS: bool = true;

    fn aux_words(slots: usize) -> usize {
        1 + Readers::words_for(slots)
    }

    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
        const RULE: &str = "adaptive: read";
        if !Self::is_hot(cell) {
            return read_optimistically(RULE, me, cell, copy);
        }
        me.touch(Access::Read);
        let word = cell.word.load();
        if word.is_locked() {
            // Not even entered, as a writer that finds a reader gives up.
            return Step::Abort(Conflict::locked(RULE, word));
        }
        me.touch(Access::ReadModifyWrite);
        let newly = Self::readers(cell).enter(me.slot());
        me.touch(Access::Read);
        let word = cell.word.load_seq_cst();
        if word.is_locked() {
            if newly {
                me.touch(Access::ReadModifyWrite);
                // Nobody ever waits for readers here.
                let _ = Self::readers(cell).leave(me.slot());
            }
            return Step::Abort(Conflict::locked(RULE, word));
        }
        // No writer installs before this slot has left the indicator.
        copy.copy();
        Step::Ready(Seen::at(word))
    }

    /// A hot cell is locked at once, so that nobody overwrites it between the read and the commit.
    fn update(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        hold: &mut Hold,
        copy: &mut impl CopyValue,
    ) -> Step<Seen, Conflict> {
        if hold.prev.is_none() && !Self::is_hot(cell) {
            // Not by `read`: what is entered there is left only for cells in the read set.
            return read_optimistically("adaptive: read", me, cell, copy);
        }
        Self::seal(me, cell, None, hold).and_then(|()| {
            let word = hold.prev.unwrap_or(Word::RECLAIMED);
            copy.copy();
            Step::Ready(Seen::at(word))
        })
    }

    fn seal(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Option<Word>,
        hold: &mut Hold,
    ) -> Step<(), Conflict> {
        const RULE: &str = "adaptive: seal";
        if hold.prev.is_some() {
            // There was no reader when it was locked, and who has come since finds the lock and leaves.
            return Step::Ready(());
        }
        match lock_version(RULE, me, cell, seen, hold) {
            Step::Ready(()) => {}
            Step::Abort(conflict) => {
                Self::heat_up(me, cell);
                return Step::Abort(conflict);
            }
            Step::Busy(conflict) if matches!(conflict.what, What::Locked { .. }) && Self::is_hot(cell) => {
                return Step::Abort(conflict);
            }
            step => return step,
        }
        me.touch(Access::Read);
        match Self::readers(cell).others(me.slot()).next() {
            None => Step::Ready(()),
            Some(by) => Step::Abort(Conflict { rule: RULE, what: What::ReadLocked { by } }),
        }
    }

    fn validate(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Seen,
        own: Option<Word>,
        _: Timestamp,
    ) -> Step<(), Conflict> {
        let step = check_current("adaptive: validate", me, cell, seen.word, own);
        if !matches!(step, Step::Ready(())) {
            Self::heat_up(me, cell);
        }
        step
    }

    fn publish(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word) {
        me.touch(Access::Write);
        Self::cool_down(cell);
        cell.word.unlock_unwatched(next);
    }

    fn release(me: Me<'_, impl Host>, cell: Cell<'_>, hold: Hold) {
        if let Some(prev) = hold.prev {
            me.touch(Access::Write);
            cell.word.unlock_unwatched(prev);
        }
    }

    fn release_read(me: Me<'_, impl Host>, cell: Cell<'_>) {
        let readers = Self::readers(cell);
        if readers.contains(me.slot()) {
            me.touch(Access::ReadModifyWrite);
            let _ = readers.leave(me.slot());
        }
    }

    fn reclaim_bound(me: Me<'_, impl Host>, cell: Cell<'_>, prev: Word) -> Result<Timestamp, Held> {
        Held::by_none(Self::readers(cell).others(me.slot())).map(|()| prev.time())
    }
}
