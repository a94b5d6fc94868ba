//! `sundial`: leases in logical time for those who read, locks for those who write [Sundial §3].
//!
//! Beside the data: the *lease*, from `wts` (in the version word) to `rts` (one word), both as `tictoc` has
//! them; and the *intent*, the word that names the one transaction that may write next, as `swiss` has it.
//!
//! - *Read* (§3.3.1, Algorithm 1): `wts`, `rts` and value, as a consistent triple. That somebody else is about to
//!   write does not matter: the reader may commit before him. Unless it is too late for that.
//! - *Write* (§3.3.1): take the intent at once, by wait-die: the older transaction waits for the younger one,
//!   the younger one aborts. Reads and writes conflict optimistically, writes and writes do not, since of two
//!   read-modify-writes of one row one is lost anyway (§3.2).
//! - *Seal*: fix the lease's end, which only the holder of the intent may.
//! - *Commit time* (§3.3.2): at least `wts` of everything read, and after the lease of everything written.
//! - *Validate* (§3.3.2, Algorithm 2): a lease that lasts until the commit time needs no look. Otherwise it is
//!   renewed, which works if the version still is the current one and nobody is installing another.
//! - *Publish* (§3.3.3, Algorithm 3): the lease of the new version is the commit time alone; then let go of
//!   the intent.
//!
//! Index nodes have leases, too (§3.4): those of [`crate::index`], which every logical database keeps.
//! The cache of remote rows (§4) has no meaning on one machine.
//!
//! # The tuple's lock is three things here
//!
//! In the paper one lock does two things for as long as the writer executes: it keeps other writers
//! out, and it keeps the lease as it was when the lock was taken, since `commit_ts` was raised above `rts` then
//! (Algorithm 1, line 24). So a reader whose lease must be renewed aborts if somebody is merely going to write
//! (Algorithm 2, line 13; case (c) of §5.1). And what the listings call atomic (to read the triple, to renew a
//! lease, to install) stands under a latch.
//!
//! Here the *intent* keeps the other writers out, from the first access to the end. The *seal*, a bit beside `rts`, keeps the lease as it is,
//! from the moment at which the whole write set is known. And the version word is *locked*, which hides the version, while its
//! value is replaced and no longer. So until the seal a lease can be renewed over the head of the writer, who will commit after it; of
//! case (c) only the seal is left. What is sealed can be read until it is replaced: at a server of a cluster that is for as long as messages
//! take.
//!
//! A renewal is atomic since it raises `rts` by the same step of one word that finds the seal: whoever raises it first is seen by the writer, and
//! whoever comes later leaves it as it was, the bit being above all times. That it was the lease of the version that was read is
//! looked at afterwards: a writer who lets go changes the version first, then takes the seal away.
//!
//! Whoever reads what is sealed, and cannot commit within its lease, waits for what comes after it: nobody will extend that lease for him. Only
//! the one who has sealed it may, at a server, and does once, when he votes: to just before the time that he has agreed to,
//! as he will commit no earlier. So case (c) is what is prepared, and nobody is in the way who commits before it. (To do as the paper has
//! it is a [choice](crate::branch::Branch::lend) of the experiments.)
//!
//! With the intent held the version cannot change, so a read-modify-write reads after taking it and cannot
//! lose its update; nor is its read in need of a lease, since it writes the row at the commit time itself.
//!
//! # Nobody waits in a circle
//!
//! Only the older waits, for the younger, and for intents alone; everything else is asked again a bounded number of
//! times. (The answer for the younger is [`Step::Die`]: a server of a cluster knows of others whether they have prepared, and has him wait
//! for those, who wait for nobody and are over soon. That is not in the paper.) `two-phase-wait-die` and
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
//! - The lock word hides `wts`: while somebody installs, a lease that has been renewed far enough by another reader in
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
//!   and so holds for the same reason: whoever replaces the version does so later. If the version is not
//!   there any more, or sealed, the lease is as it was read, and the validation sees to it.
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
//! In a database in *momentary* order (see [`crate::order`]) validation is that of `occ`, as for `tictoc`, and to seal is to lock the version
//! word. With
//! `tictoc` tables it shares a logical one: both keep, of each version, a time at which it was written and a time
//! until which it holds, raise the second, and commit above it. What a transaction must do to a
//! cell to be placed at its commit time is the same, whichever of the two it is of.

use super::swiss::{Younger, drop_intent, take_intent};
use super::tictoc::{init_lease, read_lease, rts};
use super::{Conflict, CopyValue, Held, Hold, Me, Order, Rules, Seen, What, check_current, lock_version};
use crate::planted::{Bug, Planted};
use crate::record::Cell;
use noonmark_core::sync::{AtomicU64, Ordering as Atomic};
use noonmark_core::{Access, Host, Step, Timestamp, VersionWord, Word};
use std::cmp::Ordering;

pub(crate) struct Sundial;

const READ: &str = "sundial: read";
const RENEW: &str = "sundial: renew";

/// Beside `rts`, above all times: the version is sealed, and its lease ends when it ends.
const SEALED: u64 = 1 << 63;

/// The time that is in the word of `rts`.
#[inline(always)]
fn rts_of(word: u64) -> Timestamp {
    Timestamp::new(word & !SEALED)
}

/// Until when a version holds that nobody else can seal: this transaction has sealed it, or has not asked yet.
#[inline(always)]
fn lease_end(cell: Cell<'_>, version: Word) -> Timestamp {
    // Sequentially consistent: in momentary order the lock comes before.
    rts_of(rts(cell).load(Atomic::SeqCst)).max(version.time())
}

/// Seals the version, which stays to be read. Only under the intent.
#[inline(always)]
fn seal_lease(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    seen: Option<Word>,
    hold: &mut Hold,
) -> Step<(), Conflict> {
    me.touch(Access::Read);
    // It stays what it is: others change it under the intent only.
    let now = cell.word.load();
    match seen {
        _ if now.is_locked() => Step::Busy(Conflict::locked(rule, now)),
        Some(read) if read != now => Step::Abort(Conflict { rule, what: What::Replaced { read, now } }),
        _ => {
            me.touch(Access::ReadModifyWrite);
            // Acquire: whoever has raised it comes before what follows here, and so before the commit time. Release: whoever finds the seal in
            // `raise` has seen what this transaction has sealed before.
            rts(cell).fetch_or(SEALED, Atomic::AcqRel);
            hold.prev = Some(now);
            Step::Ready(())
        }
    }
}

/// Takes the seal away, if there is one. The version has been replaced before, or stays.
#[inline(always)]
fn unseal(cell: Cell<'_>) {
    // Relaxed: nobody else changes a word with the seal.
    let word = rts(cell).load(Atomic::Relaxed);
    if word & SEALED != 0 {
        // Release: whoever finds the seal gone finds the version that was left.
        rts(cell).store(word & !SEALED, Atomic::Release);
    }
}

/// Extends the lease of the current version to this time; if that is sealed it stays as it is, and it is said until when it lasts. Which version
/// that was is for the caller to look at afterwards.
fn raise(me: Me<'_, impl Host>, cell: Cell<'_>, at: Timestamp) -> Result<(), Timestamp> {
    me.touch(Access::ReadModifyWrite);
    // Acquire: see `unseal`. Release: who seals it later has seen this, and all that this transaction has sealed before.
    let before = rts(cell).fetch_max(at.ticks(), Atomic::AcqRel);
    if before & SEALED == 0 { Ok(()) } else { Err(rts_of(before)) }
}

/// A sealed version holds until then, and no longer: who can commit only later waits for what comes after it.
#[cold]
#[inline(never)]
fn read_sealed(cell: Cell<'_>, word: Word, until: Timestamp, earliest: Timestamp) -> Step<Seen, Conflict> {
    if earliest <= until {
        return Step::Ready(Seen { word, until });
    }
    match met_seal(READ, cell, word) {
        Step::Abort(conflict) => Step::Busy(conflict),
        step => step,
    }
}

/// The version that was read is sealed.
#[cold]
fn met_seal<T>(rule: &'static str, cell: Cell<'_>, seen: Word) -> Step<T, Conflict> {
    match VersionWord::from_atomic(intent(cell)).load().owner() {
        Some(by) => Step::Abort(Conflict { rule, what: What::Locked { by } }),
        // He has let go since.
        None => Step::Busy(Conflict::not_current(rule, seen, cell.word.load())),
    }
}

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
    /// Renews the lease of the version that was read [Algorithm 2].
    #[inline(always)]
    fn renew(me: Me<'_, impl Host>, cell: Cell<'_>, seen: Word, at: Timestamp) -> Step<(), Conflict> {
        let is_it = |now: Word| now == seen || me.planted.is(Bug::RenewBlindly) && !now.is_locked();
        me.touch(Access::Read);
        let now = cell.word.load();
        if !is_it(now) {
            // Raising would be in vain.
            return Step::Abort(Conflict::not_current(RENEW, seen, now));
        }
        let raised = raise(me, cell, at);
        me.touch(Access::Read);
        let now = cell.word.load();
        match raised {
            _ if !is_it(now) => Step::Abort(Conflict::not_current(RENEW, seen, now)),
            Err(end) if end < at && !me.planted.is(Bug::RenewSealed) => met_seal(RENEW, cell, seen),
            _ => Step::Ready(()),
        }
    }

    /// The older waits, the younger dies: but see above.
    // (A call, as whoever had it in itself would copy `me` for the case that somebody is met.)
    #[inline(never)]
    fn take_intent(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<(), Conflict> {
        take_intent("sundial: write", me, cell, intent(cell), Younger::IsLeftAlone, hold)
    }
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
    const WAITS_IN_LINE: bool = true;
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
        Self::read_from(me, cell, || Timestamp::ZERO, copy)
    }

    #[inline(always)]
    fn read_from(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        earliest: impl Fn() -> Timestamp,
        copy: &mut impl CopyValue,
    ) -> Step<Seen, Conflict> {
        read_lease(READ, me, cell, copy).and_then(|(word, rts)| match rts & SEALED {
            0 => Step::Ready(Seen { word, until: Timestamp::new(rts).max(word.time()) }),
            _ => read_sealed(cell, word, rts_of(rts).max(word.time()), earliest()),
        })
    }

    fn extend(me: Me<'_, impl Host>, cell: Cell<'_>, seen: Seen, at: Timestamp) -> Seen {
        if at <= seen.until || raise(me, cell, at).is_err() {
            return seen;
        }
        me.touch(Access::Read);
        match cell.word.load() == seen.word || me.planted.is(Bug::ExtendBlindly) {
            true => Seen { until: at, ..seen },
            false => seen,
        }
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

    #[inline(always)]
    fn seal(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Option<Word>,
        hold: &mut Hold,
    ) -> Step<(), Conflict> {
        const RULE: &str = "sundial: seal";
        let taken = if hold.intent { Step::Ready(()) } else { Self::take_intent(me, cell, hold) };
        taken.and_then(|()| match me.order {
            Order::Logical => seal_lease(RULE, me, cell, seen, hold),
            _ => lock_version(RULE, me, cell, seen, hold),
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
        if me.order != Order::Logical || own.is_some() {
            // What this transaction writes itself, it replaces at the commit time: the version that
            // it read must be the one that it sealed.
            return check_current(RENEW, me, cell, seen.word, own);
        }
        if at <= seen.until {
            return Step::Ready(());
        }
        match Self::renew(me, cell, seen.word, at) {
            Step::Abort(conflict) => not_renewed(me, cell, seen, at, conflict),
            step => step,
        }
    }

    fn keep(cell: Cell<'_>, at: Timestamp) {
        // Relaxed: under the intent, and the seal or the lock. The next writer's intent acquires its release.
        let word = rts(cell).load(Atomic::Relaxed);
        rts(cell).fetch_max(at.ticks() | word & SEALED, Atomic::Relaxed);
    }

    #[inline(always)]
    fn hide(me: Me<'_, impl Host>, cell: Cell<'_>) {
        me.touch(Access::Write);
        cell.word.lock_unwatched(me.txn);
    }

    #[inline(always)]
    fn publish(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word) {
        me.touch(Access::Write);
        if !write_times(cell).is_empty() {
            keep_write_time(me.planted, cell, next);
        }
        cell.word.unlock_unwatched(next);
        unseal(cell);
        drop_intent(me, intent(cell));
    }

    fn release(me: Me<'_, impl Host>, cell: Cell<'_>, hold: Hold) {
        if let Some(prev) = hold.prev {
            me.touch(Access::Write);
            cell.word.unlock_unwatched(prev);
            unseal(cell);
        }
        if hold.intent {
            drop_intent(me, intent(cell));
        }
    }

    fn reclaim_bound(_: Me<'_, impl Host>, cell: Cell<'_>, prev: Word) -> Result<Timestamp, Held> {
        Ok(lease_end(cell, prev))
    }
}
