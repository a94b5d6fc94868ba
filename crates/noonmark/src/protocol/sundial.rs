//! `sundial`: leases in logical time for those who read, locks for those who write [Sundial §3].
//!
//! Beside the data: the *lease*, from `wts` (in the version word) to `rts` (one word), both as `tictoc` has
//! them; and the *intent*, the word that names the one transaction that may write next, as `swiss` has it.
//!
//! - *Read* (§3.3.1, Algorithm 1): `wts`, `rts` and value, as a consistent triple. That somebody else is about to
//!   write does not matter: the reader may commit before him.
//! - *Write* (§3.3.1): take the intent at once, by wait-die: the older transaction waits for the younger one,
//!   the younger one aborts. Reads and writes conflict optimistically, writes and writes do not, since of two
//!   read-modify-writes of one row one is lost anyway (§3.2).
//! - *Seal*: lock the version word, which only the holder of the intent may.
//! - *Commit time* (§3.3.2): at least `wts` of everything read, and after the lease of everything written.
//! - *Validate* (§3.3.2, Algorithm 2): a lease that lasts until the commit time needs no look. Otherwise it is
//!   renewed, which works if the version still is the current one and nobody is installing another.
//! - *Publish* (§3.3.3, Algorithm 3): the lease of the new version is the commit time alone; then let go of
//!   the intent.
//!
//! Index nodes have leases, too (§3.4): those of [`crate::index`], which every logical database keeps.
//! The cache of remote rows (§4) has no meaning on one machine.
//!
//! # The tuple's lock is two locks here
//!
//! In the paper one lock does two things for as long as the writer executes: it keeps other writers
//! out, and it keeps the lease as it was when the lock was taken, since `commit_ts` was raised above `rts` then
//! (Algorithm 1, line 24). So a reader whose lease must be renewed aborts if somebody is merely going to write
//! (Algorithm 2, line 13; case (c) of §5.1). And what the listings call atomic (to read the triple, to renew a
//! lease, to install) stands under a latch.
//!
//! Here the intent keeps the other writers out, and the version word, which is locked from the seal to the
//! end of the install, is the latch. `rts` is looked at when the word has been locked, not before. So until then a
//! lease can be renewed over the head of the writer, who will commit after it: of case (c) only the seal is left. As
//! under `tictoc`, *raise, then look* and *lock, then read `rts`*, all four sequentially consistent, make
//! the renewal atomic.
//!
//! At a server of a cluster a transaction is sealed while messages go round. There the version is not locked: it can be read, for as long
//! as its lease lasts, which readers extend no more ([`seal_readably`]). The one who has sealed it does once, when he votes: to just before the
//! time that he has agreed to, as he will commit no earlier. So case (c) is what is prepared, and nobody is in the way who commits
//! before it. (To do as the paper has it is a [choice](crate::branch::Branch::lend) of the experiments.)
//!
//! With the intent held the version cannot change, so a read-modify-write reads after taking it and cannot
//! lose its update; nor is its read in need of a lease, since it writes the row at the commit time itself.
//!
//! # Nobody waits in a circle
//!
//! Only the older waits, for the younger, and for intents alone; everything else is asked again a bounded number of
//! times. (At a server of a cluster the younger is *busy*, not refused, and what that means is said there: he waits
//! for whoever has prepared, who waits for nobody and is over soon. That is not in the paper.) `two-phase-wait-die` and
//! `swiss` wait in the same direction. In a database in which the younger wait for the older as well
//! (`two-phase-wound-wait`), whoever waits for a younger one makes it abort, also here: see `Me::wound_younger`. Ages are kept across retries, so each transaction is the oldest one day; it may
//! still lose to writers of what it has only read, which is what the [gate](crate::gate) is for.
//!
//! # Mends, and what else is otherwise than printed
//!
//! - A `write()` that finds another `wts` than was read aborts (Algorithm 1, line 21) and lets go of its lock
//!   (in print it keeps it, and the cached copy, and fails for ever). A rule here is not told what was read
//!   before: a row that was read, and is then written, is read again with the intent held, and
//!   that both reads are of one version is looked at in the validation. Nothing is kept of an attempt that
//!   fails.
//! - Updating a cached row (Algorithm 3, lines 5 and 6) and leases of whole tables (§4.3) are not here.
//! - The lock word hides `wts` (but not at servers): while somebody installs, a lease that has been renewed far enough by another reader in
//!   the meantime cannot be told from one that was not (Algorithm 2 could), and the reader aborts.
//! - A commit-time update takes the intent when it is sealed, not while executing. So an older transaction may wait with
//!   cells locked; whoever meets those gives up after a while.
//! - Leases are beside the records, not in a table of their own for those in use (§5.3): decision 27.
//!
//! # What §5.1 leaves for later
//!
//! Two options of a table ([`Leases`](crate::Leases)), off unless asked for: decision 32 has the figures.
//!
//! - *Leases are extended while executing*: when a version has been read, its lease is extended to the earliest time at which
//!   the transaction may still commit (not before what it has read, after the leases of what it will write, and not before
//!   its session's last commit), and by some ticks more if the table says so. It is a renewal like that at the commit,
//!   *raise, then look*, and so holds for the same reason: whoever replaces the version does so later. If the version is not
//!   there any more, the lease is as it was read, and the validation sees to it.
//! - *Write times are kept*, of the last versions of a cell. What was read may have been replaced, or be about to be: if
//!   the version that followed it was written after the commit time, the read holds. Between the two nobody has written, and
//!   nobody will, as writers only ever commit after the current version; so there is no lease to extend. While the one who
//!   replaces it has it locked, his time is not known: the older transaction looks again, the younger one aborts, so that
//!   no two look at each other's locks until their patience is over.
//!
//! What is known of a cell's versions ends with the cell: in a record that has left its index, and where timestamps split
//! themselves, in a row that has been regrouped. The row may be written through other cells, then, and this one be
//! taken into use again.
//!
//! In a database in *momentary* order (see [`crate::order`]) validation is that of `occ`, as for `tictoc`. With
//! `tictoc` tables it shares a logical one: both keep, of each version, a time at which it was written and a time
//! until which it holds, raise the second in the same way, and commit above it. What a transaction must do to a
//! cell to be placed at its commit time is the same, whichever of the two it is of.

use super::swiss::{Younger, drop_intent, take_intent};
use super::tictoc::{
    extend_lease, extend_own_lease, init_lease, is_sealed, lease_end, read_lease, renew_lease, seal_readably,
    unseal,
};
use super::{Conflict, CopyValue, Hold, Me, Order, Rules, Seen, What, lock_version};
use crate::planted::{Bug, Planted};
use crate::record::Cell;
use noonmark_core::sync::{AtomicU64, Ordering as Atomic};
use noonmark_core::{Access, Host, Step, Timestamp, VersionWord, Word};
use std::cmp::Ordering;

pub(crate) struct Sundial;

/// The intent: the second word beside the version. The first is `rts`.
fn intent<'a>(cell: Cell<'a>) -> &'a AtomicU64 {
    &cell.aux[1]
}

/// When the current version was written, and those before it, the latest first, as [`WriteTime`] has them; none, or two at least.
fn write_times<'a>(cell: Cell<'a>) -> &'a [AtomicU64] {
    &cell.aux[2..]
}

/// When a version was written, as it is kept: zero if that is not known, else the time and one more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WriteTime(u64);

impl WriteTime {
    const UNKNOWN: WriteTime = WriteTime(0);

    fn of(time: Timestamp) -> Self {
        WriteTime(time.ticks() + 1)
    }

    /// If it is known.
    fn time(self) -> Option<Timestamp> {
        self.0.checked_sub(1).map(Timestamp::new)
    }

    fn load(word: &AtomicU64) -> Self {
        // Acquire: see `replaced_at`.
        WriteTime(word.load(Atomic::Acquire))
    }

    fn store(self, word: &AtomicU64) {
        // Release: see `replaced_at`.
        word.store(self.0, Atomic::Release);
    }
}

/// When the version that was written at this time was replaced, if it was and that is still known.
///
/// Writers move the times down one by one, the last ones first, and put the new one in front. So whoever finds a time in an
/// entry finds that of the version before, or of a later one, in the next entry, whatever is moved meanwhile; and if it
/// is that of the version in question, the entry before it, unless that is no later, was of the version that replaced it.
fn replaced_at(planted: Planted, cell: Cell<'_>, written: Timestamp) -> Option<Timestamp> {
    let written = WriteTime::of(written);
    let mut times = write_times(cell).iter().map(WriteTime::load);
    let newest = times.next()?;
    let mut after = newest;
    for time in times {
        if time == written && after > written {
            return if planted.is(Bug::VersionsSkipped) { newest } else { after }.time();
        }
        after = time;
    }
    None
}

/// Keeps the time of the version that is about to take the place of the one that this transaction has locked, if it is
/// another one.
///
/// A cell that is given up may be taken into use again, after its row has been written through other cells
/// ([`crate::splitting`]): what is known of its versions then says nothing about the row.
fn keep_write_time(planted: Planted, cell: Cell<'_>, next: Word) {
    let times = write_times(cell);
    let Some(newest) = times.first() else { return };
    if next.is_reclaimed() {
        if !planted.is(Bug::TimesOfOldCells) {
            times.iter().rev().for_each(|time| WriteTime::UNKNOWN.store(time));
        }
        return;
    }
    let next = WriteTime::of(next.time());
    if WriteTime::load(newest) == next {
        return;
    }
    for to in (1..times.len()).rev() {
        WriteTime::load(&times[to - 1]).store(&times[to]);
    }
    next.store(newest);
}

impl Sundial {
    /// The older waits, the younger dies: but see above.
    fn take_intent(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<(), Conflict> {
        take_intent("sundial: write", me, cell, intent(cell), Younger::IsLeftAlone, hold)
    }
}

/// Whether what is sealed can be read until it is replaced, as in the paper: where a transaction stays sealed for as long as messages
/// take.
fn seals_readably<H: Host>(me: Me<'_, H>) -> bool {
    H::DEFERS && me.order == Order::Logical
}

/// Tells why a lease could not be renewed to this time: the three cases of §5.1, by the names of rules. Where the version was
/// replaced at this very time, the text there has it in case (a), Figure 12 in case (b): it is a name of its own here.
#[cold]
fn of_its_case(conflict: Conflict, at: Timestamp) -> Conflict {
    let rule = match conflict.what {
        What::Replaced { now, .. } => match now.time().cmp(&at) {
            Ordering::Greater => "sundial: renew, replaced later",
            Ordering::Equal => "sundial: renew, replaced then",
            Ordering::Less => "sundial: renew, replaced before",
        },
        What::Locked { .. } => "sundial: renew, locked",
        _ => conflict.rule,
    };
    Conflict { rule, ..conflict }
}

/// The lease of what was read could not be renewed to this time. But where write times are kept, the version may be known to have
/// held until later.
#[cold]
fn not_renewed(
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    seen: Seen,
    at: Timestamp,
    conflict: Conflict,
) -> Step<(), Conflict> {
    let conflict = of_its_case(conflict, at);
    if me.order != Order::Logical || write_times(cell).is_empty() {
        return Step::Abort(conflict);
    }
    me.touch(Access::Read);
    match (replaced_at(me.planted, cell, seen.word.time()), conflict.what) {
        // Nobody will ever write it at an earlier time: there is no lease to renew.
        (Some(replaced), _) if at < replaced => Step::Ready(()),
        // Once he has written it, it will be known. Only the older looks again, for the reason for which only he waits.
        (None, What::Locked { by }) if me.is_older_than(by) => Step::Busy(conflict),
        _ => Step::Abort(conflict),
    }
}

impl Rules for Sundial {
    const HAS_LEASES: bool = true;
    const KEEPS_READ_TIMES: bool = true;
    const HAS_AGES: bool = true;
    const OLDER_WAITS: bool = true;
    const WRITES_EARLY: bool = true;

    fn aux_words(_slots: usize) -> usize {
        2
    }

    fn init(cell: Cell<'_>, read_until: Timestamp) {
        init_lease(cell, read_until);
        if let Some(newest) = write_times(cell).first() {
            WriteTime::of(cell.word.load().time()).store(newest);
        }
    }

    #[inline(always)]
    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict> {
        read_lease("sundial: read", me, cell, copy)
    }

    fn extend(me: Me<'_, impl Host>, cell: Cell<'_>, seen: Seen, at: Timestamp) -> Seen {
        extend_lease(me, cell, seen, at)
    }

    fn is_about_to_go(me: Me<'_, impl Host>, cell: Cell<'_>) -> Option<Conflict> {
        let by = || Conflict::locked("sundial: read", VersionWord::from_atomic(intent(cell)).load());
        is_sealed(me, cell).then(by)
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
        Self::take_intent(me, cell, hold).and_then(|()| match seals_readably(me) {
            true => seal_readably("sundial: seal", cell, seen, hold),
            false => lock_version("sundial: seal", me, cell, seen, hold),
        })
    }

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
        if seals_readably(me) && own.is_none() && at > seen.until && is_sealed(me, cell) {
            let by = Conflict::locked("sundial: renew", VersionWord::from_atomic(intent(cell)).load());
            if cell.word.load() == seen.word && !me.planted.is(Bug::RenewSealed) {
                // (It may hold for longer by now: until just before it will be replaced.)
                return match lease_end(cell, seen.word) >= at {
                    true => Step::Ready(()),
                    false => not_renewed(me, cell, seen, at, by),
                };
            }
        }
        match renew_lease("sundial: renew", me, cell, seen, own, at) {
            Step::Abort(conflict) if own.is_none() => not_renewed(me, cell, seen, at, conflict),
            step => step,
        }
    }

    fn keep(cell: Cell<'_>, at: Timestamp) {
        extend_own_lease(cell, at);
    }

    fn publish(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word) {
        me.touch(Access::Write);
        if !write_times(cell).is_empty() {
            keep_write_time(me.planted, cell, next);
        }
        cell.word.unlock_unwatched(next);
        unseal(me, cell);
        drop_intent(me, intent(cell));
    }

    fn release(me: Me<'_, impl Host>, cell: Cell<'_>, hold: Hold) {
        if let Some(prev) = hold.prev {
            me.touch(Access::Write);
            cell.word.unlock_unwatched(prev);
            unseal(me, cell);
        }
        if hold.intent {
            drop_intent(me, intent(cell));
        }
    }

    fn reclaim_bound(_: Me<'_, impl Host>, cell: Cell<'_>, prev: Word) -> Option<Timestamp> {
        Some(lease_end(cell, prev))
    }
}
