//! `tictoc`: commit times worked out from the data [DistTicToc §1.2, §2.4.1; Granularity §3.2].
//!
//! Beside the data: `wts`, the time at which the version was written (in the version word), and
//! `rts`, a time until which nobody will replace it (one word; the 128-bit form, which Granularity
//! §3.2 found better than squeezing both into 64). The word of `rts` is only ever raised, so that the
//! version holds until the larger of the two.
//!
//! - *Read*: `wts`, `rts` and value, as a consistent triple.
//! - *Seal*: lock the write set.
//! - *Commit time*: at least `wts` of everything read, and above `rts` of everything written.
//! - *Validate* at the commit time: a version that holds until then needs no look. Otherwise stretch
//!   `rts` to the commit time, which works if the version still is the current one and nobody else
//!   has locked it.
//! - *Write*: `wts` becomes the commit time.
//!
//! The atomic section of the listing (DistTicToc Figure 2, step 3: check `wts` and the lock, and
//! raise `rts`) is two steps here, of which the order matters: *raise, then look*. A writer *locks,
//! then reads `rts`*. All four are sequentially consistent, so that either the writer commits above
//! the raised `rts`, or the reader sees the lock and aborts. (A plain store of `rts` would lower it
//! under another reader's feet.) The same argument makes [`Rules::read`] load `rts` and look at the
//! version again sequentially consistently: a reader may find an `rts` that somebody raised too late
//! for the writer to see, and must then see the writer's lock. On x86 these loads cost nothing.
//!
//! The listing aborts a reader that finds a lock if `rts <= commit time`; with equality the version
//! holds already, so `<` is enough, as in its outer condition.
//!
//! In a database in *momentary* order (see [`crate::order`]) validation is that of `occ`: the order of
//! commit times must not differ from the order of moments that its other tables keep.

use super::{Conflict, CopyValue, Held, Hold, Me, Order, Rules, Seen, check_current, lock_version};
use crate::planted::Bug;
use crate::record::Cell;
use noonmark_core::sync::{AtomicU64, Ordering, fence};
use noonmark_core::{Access, Host, Step, Timestamp, Word};

pub(crate) struct TicToc;

/// `rts`: the first word beside the version, of `sundial` too, whose leases work in the same way.
#[inline(always)]
pub(super) fn rts<'a>(cell: Cell<'a>) -> &'a AtomicU64 {
    &cell.aux[0]
}

/// A new record may be written only after this time.
pub(super) fn init_lease(cell: Cell<'_>, read_until: Timestamp) {
    // Relaxed: nobody else knows the record yet.
    rts(cell).store(read_until.ticks(), Ordering::Relaxed);
}

/// Until when the version that this transaction has locked holds.
#[inline(always)]
fn lease_end(cell: Cell<'_>, prev: Word) -> Timestamp {
    // Sequentially consistent: the lock comes before, see above.
    Timestamp::new(rts(cell).load(Ordering::SeqCst)).max(prev.time())
}

/// Reads `wts`, `rts` and value, as a consistent triple: the word of `rts` as it is.
#[inline(always)]
pub(super) fn read_lease(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    copy: &mut impl CopyValue,
) -> Step<(Word, u64), Conflict> {
    me.touch(Access::Read);
    let word = cell.word.load();
    if word.is_locked() {
        return Step::Busy(Conflict::locked(rule, word));
    }
    let rts = rts(cell).load(Ordering::SeqCst);
    copy.copy();
    // As in `read_optimistically`; the load is stronger for the reason given above.
    fence(Ordering::Acquire);
    me.touch(Access::Read);
    let again = cell.word.load_seq_cst();
    if again != word {
        return Step::Busy(Conflict::not_current(rule, word, again));
    }
    Step::Ready((word, rts))
}

impl Rules for TicToc {
    const LOCKS_IN_WORD: bool = true;
    const KEEPS_READ_TIMES: bool = true;

    fn aux_words(_slots: usize) -> usize {
        1
    }

    fn init(cell: Cell<'_>, read_until: Timestamp) {
        init_lease(cell, read_until);
    }

    #[inline(always)]
    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
        read_lease("tictoc: read", me, cell, copy)
            .map(|(word, rts)| Seen { word, until: Timestamp::new(rts).max(word.time()) })
    }

    #[inline(always)]
    fn seal(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Option<Word>,
        hold: &mut Hold,
    ) -> Step<(), Conflict> {
        lock_version("tictoc: seal", me, cell, seen, hold)
    }

    #[inline(always)]
    fn write_bound(cell: Cell<'_>, prev: Word) -> Timestamp {
        lease_end(cell, prev).next()
    }

    #[inline(always)]
    fn validate(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Seen,
        own: Option<Word>,
        at: Timestamp,
    ) -> Step<(), Conflict> {
        const RULE: &str = "tictoc: validate";
        if me.order == Order::Momentary || own.is_some() {
            // What this transaction writes itself, it replaces at the commit time: the version that
            // it read must be the one that it locked.
            return check_current(RULE, me, cell, seen.word, own);
        }
        if at <= seen.until {
            return Step::Ready(());
        }
        me.touch(Access::Read);
        let now = cell.word.load();
        if now != seen.word {
            // Raising would be in vain.
            return Step::Abort(Conflict::not_current(RULE, seen.word, now));
        }
        me.touch(Access::ReadModifyWrite);
        rts(cell).fetch_max(at.ticks(), Ordering::SeqCst);
        if me.planted.is(Bug::LookBeforeRaise) {
            return Step::Ready(());
        }
        check_current(RULE, me, cell, seen.word, None)
    }

    fn keep(cell: Cell<'_>, at: Timestamp) {
        // Relaxed: under the lock. The next writer's lock acquires its release.
        rts(cell).fetch_max(at.ticks(), Ordering::Relaxed);
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

    fn reclaim_bound(_: Me<'_, impl Host>, cell: Cell<'_>, prev: Word) -> Result<Timestamp, Held> {
        Ok(lease_end(cell, prev))
    }
}
