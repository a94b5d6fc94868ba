//! Protocols: rules about one cell, and nothing else.
//!
//! A protocol says how to read a cell, how to get the right to write it, how to *validate* at a
//! commit time what was read, how to let go. The transaction calls the rules in this order:
//!
//! 1. while executing: [`Rules::read`], [`Rules::update`] (a read that a write will follow),
//!    [`Rules::write`] (a write without a read);
//! 2. [`Rules::seal`] for each cell to be written: after this, it is locked, and its version known;
//! 3. the commit time: at or after the version of everything read, and at or after
//!    [`Rules::write_bound`] of everything written; where transactions have ranges, also out of its range, after
//!    [`Rules::leave_room`] and [`Rules::come_after`] for each cell to be written (see [`crate::timing`]);
//! 4. [`Rules::validate`] for each cell that was read, at the commit time;
//! 5. if all hold: [`Rules::hide`], the values are written, and [`Rules::publish`] lets each cell go with its new
//!    version, or, after [`Rules::keep`], with the old one if it was only to be validated; otherwise [`Rules::release`] lets it go with the old one;
//! 6. [`Rules::release_read`] for each cell that was read.
//!
//! Seal and validate are rounds of their own: a transaction validates nothing before it has sealed
//! everything. Merging them loses serializability under every optimistic protocol (two transactions
//! that each read what the other writes both validate before the other has sealed), unless what is read
//! is locked when it is looked at: that is [`Rules::seal_read`], which `f1` has.
//!
//! Rules answer [`Step`]: they never wait, and know neither tables nor threads.
//!
//! **To add a protocol**: one file here with an `impl Rules`, and one line in the list below. All that others
//! must know of it they ask through [`Rules`] and [`Protocol`].

use crate::begin_times::BeginTimes;
use crate::kept::Kept;
use crate::lines;
use crate::planted::{Bug, Planted};
use crate::range::{Range, Ranges as RangesOfSlots};
use crate::record::Cell;
use noonmark_core::{
    Access, Age, Host, SlotId, Slots, Step, Timestamp, TxnId, WaitFor, WaitingRoom, Word, Wound,
};

// `mod file { Name = "name on the command line" => its rules }`: a family is a file, and its first
// member stands for it in the tour.
protocols! {
    mod occ {
        /// Optimistic: validated at commit [Granularity §3].
        Occ = "occ" => occ::Occ,
    }
    mod tictoc {
        /// Optimistic, with read times that stretch: commits at a logical time [DistTicToc §1.2, 2.4.1].
        TicToc = "tictoc" => tictoc::TicToc,
    }
    mod two_phase {
        /// Two-phase locking; the older waits, the younger aborts [Sundial §6.2].
        TwoPhaseWaitDie = "two-phase-wait-die" => two_phase::TwoPhase<two_phase::WaitDie>,
        /// Two-phase locking; the older makes the younger abort, the younger waits.
        TwoPhaseWoundWait = "two-phase-wound-wait" => two_phase::TwoPhase<two_phase::WoundWait>,
        /// Two-phase locking; whoever meets a lock aborts [Granularity §3.2].
        TwoPhaseNoWait = "two-phase-no-wait" => two_phase::TwoPhase<two_phase::NoWait>,
    }
    mod swiss {
        /// Optimistic reads, eager writes; of two writers the older wins [Granularity §3.2].
        Swiss = "swiss" => swiss::Swiss,
    }
    mod adaptive {
        /// Optimistic or locked reads, as each record's history says [Granularity §3.2].
        Adaptive = "adaptive" => adaptive::Adaptive,
    }
    mod f1 {
        /// Optimistic reads; at commit all that was read and is written is locked [Sundial §6.2].
        F1 = "f1" => f1::F1,
    }
    mod sundial {
        /// Optimistic reads, with leases that are renewed at commit; eager writes; commits at a logical time
        /// [Sundial §3].
        Sundial = "sundial" => sundial::Sundial,
    }
    mod fixed {
        /// Multiversion timestamp ordering: at the time of its begin. In databases of its own [Dynamic §III.B].
        Fixed = "fixed" => fixed::Fixed,
    }
    mod dynamic {
        /// MaaT: ranges of commit times, which those who commit push aside [Dynamic §IV to VI].
        Dynamic = "dynamic" => dynamic::Dynamic,
    }
    mod ranges {
        /// Ranges of commit times, made disjoint where two conflict, after Lomet et al. [Sundial §2.1, Appendix].
        Ranges = "ranges" => ranges::Ranges,
    }
}

mod marks;

/// In what order a database's transactions are serialized; see [`crate::order`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By the moment at which a transaction has all its write locks and all it read is current.
    /// Strict: a transaction comes after all that had committed before it began.
    Momentary,
    /// By commit time, which need not follow real time: more schedules commit. Only for databases
    /// whose tables all have protocols that carry read times (`tictoc`, `sundial`, `dynamic` and `ranges`).
    Logical,
    /// By the time at which it began. Strict. Only for databases all of whose tables are of a protocol that keeps versions
    /// (`fixed`), and such tables take no other.
    Beginning,
    /// Not serializable: *snapshot isolation*. As [`Order::Beginning`], but for this: who writes what was read later than it
    /// began commits at a later time, though what it has read may not hold until then. No update is lost; but two
    /// transactions that each read what the other writes may both commit. Only if the builder says so.
    Snapshot,
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Order::Momentary => "momentary",
            Order::Logical => "logical",
            Order::Beginning => "beginning",
            Order::Snapshot => "snapshot",
        })
    }
}

/// The transaction on whose behalf a rule is asked.
pub(crate) struct Me<'a, H> {
    pub txn: TxnId,
    pub host: &'a H,
    pub slots: &'a Slots,
    pub room: &'a WaitingRoom,
    /// The ranges of commit times, for those protocols that have them.
    pub ranges: &'a RangesOfSlots,
    /// When transactions began, for those protocols that keep versions.
    pub begin_times: &'a BeginTimes,
    pub order: Order,
    pub planted: Planted,
    /// The cell that the rule is about, for the host's book of cache lines.
    pub place: Place,
    /// It is asked again, having found something locked, or changed under it.
    pub asks_again: bool,
    /// It is asked by one who has waited, and whom others may wait behind.
    pub has_waited: bool,
}

/// Which cell: told to the host in logical terms only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub table: crate::table::TableRef,
    pub record: crate::record::RecordPtr,
    /// Offset of the version word, in words.
    pub at: u32,
}

impl Place {
    /// A number that no other cell has while its record is there.
    pub(crate) fn name(&self) -> u64 {
        self.record.as_ptr().addr() as u64 + u64::from(self.at) * 8
    }
}

impl<H> Clone for Me<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Me<'_, H> {}

impl<H: Host> Me<'_, H> {
    fn slot(&self) -> SlotId {
        self.txn.slot()
    }

    /// The rule is about to touch the cell.
    #[inline(always)]
    fn touch(&self, access: Access) {
        self.host.touch(|| self.place.line(), access);
    }

    /// The rule is about to touch what a slot says of its transaction.
    #[inline(always)]
    fn touch_slot(&self, slot: SlotId, access: Access) {
        self.host.touch(|| lines::slot(slot), access);
    }

    /// When this transaction began; at the end of time, if it has no time.
    fn begin_time(&self) -> Timestamp {
        self.begin_times.of(self.slot()).unwrap_or(Timestamp::MAX)
    }

    /// The transaction's own range of commit times.
    fn range(&self) -> &Range {
        self.ranges.get(self.slot())
    }

    fn age(&self) -> Age {
        self.slots.get(self.slot()).age()
    }

    pub(crate) fn is_older_than(&self, other: TxnId) -> bool {
        self.touch_slot(other.slot(), Access::Read);
        self.age().is_older_than(self.slots.age_of(other))
    }

    /// Makes another transaction abort, and wakes it if it waits.
    fn wound(&self, other: TxnId) {
        self.touch_slot(other.slot(), Access::ReadModifyWrite);
        self.slots.note_wound(other, self.txn, self.place.name());
        if let Wound::Told(Some(waits_for)) = self.slots.wound(other) {
            self.room.rouse(waits_for, other.slot());
        }
    }

    /// Has taken what others may wait for, and may have waited himself.
    #[inline(always)]
    fn has_taken(self, on: WaitFor) {
        if self.has_waited {
            let _ = self.room.take(on, self.slot());
        }
    }

    /// What this transaction holds of what it has waited for, if that has been [handed to it](noonmark_core::room) meanwhile, so that it finds the word held by
    /// itself.
    fn takes_over(self, word: Word, on: WaitFor) -> Option<Hold> {
        if self.has_waited && word.is_held_by(self.txn) {
            self.room.take(on, self.slot()).map(Hold::handed)
        } else {
            None
        }
    }
}

impl<H: Host> Me<'_, H> {
    /// Before a wait, in a database in which transactions wait in both directions of age: makes the
    /// other one abort if it is younger. Then whoever the older waits for lets go, whatever he
    /// waits for himself, and the younger wait for the older only: nobody waits in a circle.
    #[cold]
    pub(crate) fn wound_younger(&self, conflict: Conflict) {
        let holder = match conflict.what {
            What::Locked { by } => Some(by),
            What::ReadLocked { by } => self.slots.running(by),
            _ => None,
        };
        if let Some(holder) = holder
            && self.is_older_than(holder)
        {
            self.wound(holder);
        }
    }
}

/// Copies a value as it is in memory just then, over what it copied before. What was copied counts only if the
/// rule that it was given to grants. (Not a closure: those are not always inlined.)
pub(crate) trait CopyValue {
    /// Copies it.
    fn copy(&mut self);
    /// Copies one that was replaced.
    fn copy_kept(&mut self, kept: &Kept);
}

/// Of a read that only wants to know the version.
impl CopyValue for () {
    #[inline(always)]
    fn copy(&mut self) {}

    fn copy_kept(&mut self, _: &Kept) {}
}

/// A version as it was read: what a validation needs to know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The version: never a locked word.
    pub word: Word,
    /// The version holds until the later of its own time and this one; for ever, as far as this transaction is concerned, if
    /// it has locked it.
    pub until: Timestamp,
}

impl Seen {
    /// A version of which no more is known.
    #[inline(always)]
    pub(crate) fn at(word: Word) -> Self {
        Seen { word, until: Timestamp::ZERO }
    }
}

/// What a transaction holds of a cell that it writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hold {
    /// The version that was there when the version word was locked; `None`: not locked.
    pub prev: Option<Word>,
    /// The right to be the next writer, which only some protocols take early.
    pub intent: bool,
}

impl Hold {
    /// What somebody holds to whom this word was handed: the lock of a version, or the right to be the next writer.
    pub(crate) fn handed(word: Word) -> Self {
        match word == Word::FREE {
            true => Hold { prev: None, intent: true },
            false => Hold { prev: Some(word), intent: false },
        }
    }
}

/// A record cannot leave its index, nor be given other cells, as somebody holds something of it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// One of them, if that is known.
    pub by: Option<SlotId>,
}

impl Held {
    /// Unless there is nobody.
    fn by_none(mut those: impl Iterator<Item = SlotId>) -> Result<(), Held> {
        those.next().map_or(Ok(()), |by| Err(Held { by: Some(by) }))
    }
}

/// Why a rule could not grant something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// Protocol and rule, as in `tictoc: validate`.
    pub rule: &'static str,
    pub what: What,
}

/// What stood in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Read at one version, and another is there now.
    Replaced { read: Word, now: Word },
    /// Locked for writing.
    Locked { by: TxnId },
    /// Locked for reading.
    ReadLocked { by: SlotId },
    /// No commit time is left between what must come before and what must come after.
    NoTime { earliest: Timestamp, latest: Timestamp },
    /// It would have been written at a time at which a later version is there already.
    Later { began: Timestamp, version: Word },
    /// It would have been written before it was read.
    ReadLater { began: Timestamp, read: Timestamp },
    /// An older transaction wanted what this one held.
    Wounded { by: TxnId },
    /// Keys came or went in an index node that was relied on.
    NodeChanged,
    /// The table has been given an index since the transaction began to change a row of it.
    IndexMade,
    /// The row's timestamps have been split, or put together.
    Regrouped,
    /// The record has left its index, or been given other cells: look the key up again. Never shown while executing.
    Reclaimed,
}

impl What {
    /// The slot of the transaction that holds what was asked for, and will let go of it.
    pub(crate) fn holder(self) -> Option<SlotId> {
        match self {
            What::Locked { by } => Some(by.slot()),
            What::ReadLocked { by } => Some(by),
            _ => None,
        }
    }
}

impl Conflict {
    /// What a locked word means for whoever cannot go on because of it.
    fn locked(rule: &'static str, word: Word) -> Self {
        let what = word.owner().map_or(What::Reclaimed, |by| What::Locked { by });
        Conflict { rule, what }
    }

    /// A range of commit times is empty.
    pub(crate) fn no_time(rule: &'static str, range: &Range) -> Self {
        let (earliest, latest) = (range.lower().time, range.upper().time);
        Conflict { rule, what: What::NoTime { earliest, latest } }
    }

    /// A version that was read is not the current one any more.
    fn not_current(rule: &'static str, read: Word, now: Word) -> Self {
        if now.is_locked() {
            Self::locked(rule, now)
        } else {
            Conflict { rule, what: What::Replaced { read, now } }
        }
    }
}

/// The rules of a protocol; see the module for when each is called.
pub(crate) trait Rules {
    /// Whether it keeps read times, so that a database of such tables can be in logical order.
    const KEEPS_READ_TIMES: bool = false;
    /// Whether its transactions have ages, and may be wounded.
    const HAS_AGES: bool = false;
    /// Whether the older waits for the younger without making it abort.
    const OLDER_WAITS: bool = false;
    /// Whether the younger waits for the older.
    const YOUNGER_WAITS: bool = false;
    /// Whether those who wait stand in line for what they wait for ([`noonmark_core::room`]), and are passed a bounded number of times.
    const WAITS_IN_LINE: bool = false;
    /// Whether its transactions have ranges of commit times ([`crate::range`]).
    const HAS_RANGES: bool = false;
    /// Whether reads leave something behind that [`Rules::release_read`] takes away.
    const LOCKS_READS: bool = false;
    /// Whether versions that are replaced are kept for those that began before ([`crate::kept`]), and transactions have a time at
    /// which they began ([`crate::begin_times`]). Its last word beside the version word is the kept versions'.
    const KEEPS_VERSIONS: bool = false;
    /// Whether its tables may extend leases while a transaction executes, and keep write times ([`crate::table::Leases`]): the words
    /// for those are the last ones of a cell.
    const HAS_LEASES: bool = false;
    /// Whether what was read, and will not be written, is sealed before what will be written.
    const SEALS_READS: bool = false;
    /// Whether what a transaction has locked to write it is locked in the version word: then a word that is as it was read says that
    /// this transaction has not locked it.
    const LOCKS_IN_WORD: bool = false;
    /// Whether [`Rules::write`] is not always ready: some right is taken there, which others may have.
    const WRITES_EARLY: bool = false;

    /// How many words it keeps beside a version word, in a database with this many slots.
    fn aux_words(slots: usize) -> usize;

    /// A new record, absent at time zero, may be written only after `read_until`.
    fn init(cell: Cell<'_>, read_until: Timestamp) {
        let _ = (cell, read_until);
    }

    /// Reads: when ready, what was copied belongs to the version that is returned.
    fn read(me: Me<'_, impl Host>, cell: Cell<'_>, copy: &mut impl CopyValue) -> Step<Seen, Conflict>;

    /// Where there are [leases](Rules::HAS_LEASES): extends that of a version which was just read, if the version is there still. What is
    /// known of it then.
    fn extend(me: Me<'_, impl Host>, cell: Cell<'_>, seen: Seen, at: Timestamp) -> Seen {
        let _ = (me, cell, at);
        seen
    }

    /// Reads on behalf of a transaction that can commit only from `earliest()` on. Where there are [leases](Rules::HAS_LEASES) it is asked to wait for
    /// what will be gone by then.
    #[inline(always)]
    fn read_from(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        earliest: impl Fn() -> Timestamp,
        copy: &mut impl CopyValue,
    ) -> Step<Seen, Conflict> {
        let _ = earliest;
        Self::read(me, cell, copy)
    }

    /// Reads what the transaction will write. May lock: then `hold` says so.
    #[inline(always)]
    fn update(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        hold: &mut Hold,
        copy: &mut impl CopyValue,
    ) -> Step<Seen, Conflict> {
        let _ = hold;
        Self::read(me, cell, copy)
    }

    /// The transaction will write this, unread. May lock: then `hold` says so.
    #[inline(always)]
    fn write(me: Me<'_, impl Host>, cell: Cell<'_>, hold: &mut Hold) -> Step<(), Conflict> {
        let _ = (me, cell, hold);
        Step::Ready(())
    }

    /// Locks for writing, if it is not locked yet; if a version was read, only that version. When
    /// ready, `hold.prev` is the version that is locked: nobody else replaces it, nor relies on it at a time that is not known
    /// by then. (It may be read yet: see [`Rules::hide`].) After any other answer the caller
    /// releases what `hold` says, or asks again with it.
    fn seal(me: Me<'_, impl Host>, cell: Cell<'_>, seen: Option<Word>, hold: &mut Hold)
    -> Step<(), Conflict>;

    /// Locks what was read, so that it stays as it is until [`Rules::release_read`], if it still is the version
    /// that was read. In place of [`Rules::validate`], for what is only read, where [reads are
    /// sealed](Rules::SEALS_READS).
    fn seal_read(me: Me<'_, impl Host>, cell: Cell<'_>, seen: Seen) -> Step<(), Conflict> {
        let _ = (me, cell, seen);
        Step::Ready(())
    }

    /// The earliest time at which a new version may follow the one that this transaction locked.
    #[inline(always)]
    fn write_bound(cell: Cell<'_>, prev: Word) -> Timestamp {
        let _ = cell;
        prev.time().next()
    }

    /// Where transactions have ranges, of a cell that is sealed: the earliest commit time, from `at` on, that leaves some
    /// time to those who rely on what is replaced here and have not committed yet. A wish.
    fn leave_room(me: Me<'_, impl Host>, cell: Cell<'_>, at: Timestamp) -> Timestamp {
        let _ = (me, cell);
        at
    }

    /// Where transactions have ranges, of a cell that is sealed: has those who rely on what is replaced here come before
    /// `at`. The earliest commit time, from `at` on, that is after all of them.
    fn come_after(me: Me<'_, impl Host>, cell: Cell<'_>, at: Timestamp) -> Timestamp {
        let _ = (me, cell);
        at
    }

    /// Where transactions have ranges, of what was read, once the range is frozen and before the commit time is known: sees to it that
    /// whoever replaces it comes after the whole range. Refused if somebody has replaced it that need not have. `own` as for
    /// [`Rules::validate`].
    fn rely(me: Me<'_, impl Host>, cell: Cell<'_>, seen: Seen, own: Option<Word>) -> Step<(), Conflict> {
        let _ = (me, cell, seen, own);
        Step::Ready(())
    }

    /// Whether what was read holds at the commit time. `own` is the version that this transaction
    /// itself has locked there, if it has.
    fn validate(
        me: Me<'_, impl Host>,
        cell: Cell<'_>,
        seen: Seen,
        own: Option<Word>,
        at: Timestamp,
    ) -> Step<(), Conflict>;

    /// A sealed cell is let go as it was found, by a transaction that relied on what it held at the
    /// commit time: the next version comes after that. Called before [`Rules::publish`].
    fn keep(cell: Cell<'_>, at: Timestamp) {
        let _ = (cell, at);
    }

    /// The value of a sealed cell is about to be replaced, or its record to leave the index: where to seal does not lock the version word, that
    /// is locked now, so that nobody reads it.
    #[inline(always)]
    fn hide(me: Me<'_, impl Host>, cell: Cell<'_>) {
        let _ = (me, cell);
    }

    /// Lets go of a sealed cell; what is in it now is version `next`.
    fn publish(me: Me<'_, impl Host>, cell: Cell<'_>, next: Word);

    /// Lets go of whatever is held, and leaves the cell as it was.
    fn release(me: Me<'_, impl Host>, cell: Cell<'_>, hold: Hold);

    /// The transaction is over, and no longer relies on what it read here. May be called more than
    /// once, and for a cell that was not granted.
    fn release_read(me: Me<'_, impl Host>, cell: Cell<'_>) {
        let _ = (me, cell);
    }

    /// Of a record that the caller has sealed and wants to take out of its index: the latest time
    /// at which somebody relied on its absence; or who holds something here yet.
    fn reclaim_bound(me: Me<'_, impl Host>, cell: Cell<'_>, prev: Word) -> Result<Timestamp, Held> {
        let _ = (me, cell);
        Ok(prev.time())
    }
}

/// *Momentary* validation, the same under every protocol: what was read is the current version, and
/// nobody else has locked it.
///
/// The transaction sealed its writes by sequentially consistent compare-and-swaps before it comes
/// here; the sequentially consistent load keeps the check after them. Without that, two
/// transactions that each read what the other writes could both miss the other's lock.
#[inline(always)]
fn check_current(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    seen: Word,
    own: Option<Word>,
) -> Step<(), Conflict> {
    me.touch(Access::Read);
    let now = cell.word.load_seq_cst();
    let passes = |now: Word| now == seen || own == Some(seen);
    if passes(now) || me.planted.is(Bug::LocksIgnored) && now.is_locked() && !now.is_reclaimed() {
        Step::Ready(())
    } else {
        Step::Abort(Conflict::not_current(rule, seen, own.unwrap_or(now)))
    }
}

/// The optimistic read: version, value, version again.
#[inline(always)]
fn read_optimistically(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    copy: &mut impl CopyValue,
) -> Step<Seen, Conflict> {
    me.touch(Access::Read);
    let word = cell.word.load();
    if word.is_locked() {
        return Step::Busy(Conflict::locked(rule, word));
    }
    copy.copy();
    // The copy comes before the second look. Pairs with `fence_before_install`: whoever copied a
    // word of a later version sees its lock, or more, in the second look.
    noonmark_core::sync::fence(noonmark_core::sync::Ordering::Acquire);
    me.touch(Access::Read);
    let again = cell.word.load_after_fence();
    if again != word {
        return Step::Busy(Conflict::not_current(rule, word, again));
    }
    Step::Ready(Seen::at(word))
}

/// Locks a version word the optimistic way: the version that was read, or any.
#[inline(always)]
fn lock_version(
    rule: &'static str,
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    seen: Option<Word>,
    hold: &mut Hold,
) -> Step<(), Conflict> {
    let now = match seen {
        // Straight to the compare-and-swap: it is the check.
        Some(word) if !me.asks_again => word,
        // Not where it has failed before: it would take the line from whoever is about to let go.
        _ => {
            me.touch(Access::Read);
            cell.word.load()
        }
    };
    let found = if now.is_locked() || seen.is_some_and(|read| read != now) {
        now
    } else {
        me.touch(Access::ReadModifyWrite);
        let Err(found) = cell.word.try_lock(now, me.txn) else {
            hold.prev = Some(now);
            return Step::Ready(());
        };
        found
    };
    match seen {
        _ if found.is_locked() => Step::Busy(Conflict::locked(rule, found)),
        Some(read) => Step::Abort(Conflict { rule, what: What::Replaced { read, now: found } }),
        None => Step::Busy(Conflict { rule, what: What::Replaced { read: now, now: found } }),
    }
}

/// Makes the enum of protocols and `with_protocol!`, which calls a rule of the chosen one.
macro_rules! protocols {
    ($(mod $file:ident { $($(#[$doc:meta])* $name:ident = $text:literal => $rules:ty),* $(,)? })*) => {
        $(mod $file;)*

        /// The concurrency control of a table, chosen when the table is created. The README says when to
        /// take which.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Protocol {
            $($(
                #[doc = concat!("`", $text, "`.\n")]
                $(#[$doc])*
                $name,
            )*)*
        }

        impl Protocol {
            /// All of them.
            pub const ALL: &'static [Protocol] = &[$($(Protocol::$name),*),*];

            /// Its name, as on the command line.
            pub const fn name(self) -> &'static str {
                match self { $($(Protocol::$name => $text),*),* }
            }

            /// The family that it is of. The first of [`Protocol::ALL`] that is of a family stands for it
            /// where one is enough.
            pub const fn family(self) -> &'static str {
                match self { $($(Protocol::$name => stringify!($file)),*),* }
            }

            /// Whether it keeps read times, so that a database whose tables all do can be in
            /// [logical order](Order::Logical).
            pub const fn keeps_read_times(self) -> bool {
                with_protocol!(self, P => P::KEEPS_READ_TIMES)
            }

            /// Whether transactions may wait for each other in line under it: whoever does is passed [a bounded number of
            /// times](crate::Builder::passes_max) by others who come in before he has woken.
            pub const fn waits_in_line(self) -> bool {
                with_protocol!(self, P => P::WAITS_IN_LINE)
            }

            /// Whether one database can have tables of both.
            pub const fn mixes_with(self, other: Protocol) -> bool {
                self.keeps_versions() == other.keeps_versions()
            }

            /// Those of which one database can have tables together.
            pub fn all_that_mix() -> Vec<Protocol> {
                Self::ALL.iter().copied().filter(|protocol| !protocol.keeps_versions()).collect()
            }

            pub(crate) const fn has_ages(self) -> bool {
                with_protocol!(self, P => P::HAS_AGES)
            }

            pub(crate) const fn older_waits(self) -> bool {
                with_protocol!(self, P => P::OLDER_WAITS)
            }

            pub(crate) const fn younger_waits(self) -> bool {
                with_protocol!(self, P => P::YOUNGER_WAITS)
            }

            pub(crate) const fn writes_early(self) -> bool {
                with_protocol!(self, P => P::WRITES_EARLY)
            }

            pub(crate) const fn has_ranges(self) -> bool {
                with_protocol!(self, P => P::HAS_RANGES)
            }

            /// Whether it keeps the versions that are replaced: then its tables go with no others, and the database is
            /// in the order of [beginnings](Order::Beginning).
            pub const fn keeps_versions(self) -> bool {
                with_protocol!(self, P => P::KEEPS_VERSIONS)
            }

            pub(crate) const fn has_leases(self) -> bool {
                with_protocol!(self, P => P::HAS_LEASES)
            }

            pub(crate) const fn locks_reads(self) -> bool {
                with_protocol!(self, P => P::LOCKS_READS)
            }

            pub(crate) fn aux_words(self, slots: usize) -> usize {
                with_protocol!(self, P => P::aux_words(slots))
            }
        }

        impl std::str::FromStr for Protocol {
            type Err = UnknownProtocol;
            fn from_str(name: &str) -> Result<Self, UnknownProtocol> {
                match name {
                    $($($text => Ok(Protocol::$name),)*)*
                    _ => Err(UnknownProtocol(name.to_owned())),
                }
            }
        }

        /// `with_protocol!(protocol, P => expression)`: the expression with `P` the rules.
        macro_rules! with_protocol {
            ($protocol:expr, $p:ident => $body:expr) => {
                match $protocol {
                    $($($crate::protocol::Protocol::$name => {
                        type $p = $crate::protocol::rules::$name;
                        $body
                    })*)*
                }
            };
        }

        /// The rules, by protocol.
        pub(crate) mod rules {
            use super::*;
            $($(pub(crate) type $name = $rules;)*)*
        }
    };
}
use protocols;
#[allow(clippy::single_component_path_imports, reason = "it makes the macro visible to the crate")]
pub(crate) use with_protocol;

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// No protocol has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no protocol is called {0:?}; there are {names}", names = Protocol::ALL.iter().map(|p| p.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownProtocol(String);
