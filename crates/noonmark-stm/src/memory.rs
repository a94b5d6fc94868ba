//! A transactional memory: the clock, the desks, and whatever else transactions share.
//!
//! There is one memory for each [`World`], and variables of one world are known to no other. So what a transaction
//! reads, and who locks what, is always in terms of one clock and one set of slots, and the type system sees to it:
//! a variable needs not say which memory it belongs to, and takes no room for it.
//!
//! What it does not do: it does not know what variables there are, nor where.

use crate::control::{Conflict, Control};
use crate::desk::{Common, Desk};
use crate::place::Place;
#[cfg(feature = "planted-bugs")]
use crate::planted::Bug;
use crate::ticket::TicketLock;
use crate::world::World;
use noonmark_core::sync::{CachePadded, Ordering, fence};
use noonmark_core::{Epochs, Host, Peg, SlotId, Slots, Step, WaitingRoom};
use std::sync::Arc;

/// How a memory is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// How many transactions can run at a time, at most 1024; a thread that finds none free waits. (Under [`TwoPlSf`](crate::TwoPlSf) each slot
    /// that has ever read takes 128 KiB for its row of the read indicator.) One that [waits for a change](crate::Tx::retry) keeps its slot, and so does a
    /// [`Session`](crate::Session): have more slots than threads that may all wait, or whoever could wake them finds none.
    /// 128 unless told otherwise.
    pub slots: usize,
    /// After how many failed attempts a transaction becomes irrevocable, under controls that know this: `K` in §5
    /// and §7.2; under [`TwoPlSf`](crate::TwoPlSf) only those count that it has lost to irrevocable ones. 10 unless told otherwise, as in the paper. One that [waits for a change](crate::Tx::retry) counts anew from there on: it
    /// did come to its end, and did not like what it saw.
    pub attempts_max: u32,
    /// How the memory is broken, for tests of tests.
    #[doc(hidden)]
    #[cfg(feature = "planted-bugs")]
    pub bug: Option<Bug>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            slots: 128,
            attempts_max: 10,
            #[cfg(feature = "planted-bugs")]
            bug: None,
        }
    }
}

impl Settings {
    /// With so many slots.
    #[must_use]
    pub fn slots(self, slots: usize) -> Self {
        Settings { slots, ..self }
    }

    /// With so many attempts before a transaction becomes irrevocable.
    #[must_use]
    pub fn attempts_max(self, attempts_max: u32) -> Self {
        Settings { attempts_max, ..self }
    }

    /// Broken on purpose.
    #[doc(hidden)]
    #[must_use]
    #[cfg(feature = "planted-bugs")]
    pub fn plant(self, bug: Bug) -> Self {
        Settings { bug: Some(bug), ..self }
    }
}

/// What has happened in a memory so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Transactions that committed.
    pub commits: u64,
    /// Attempts that met a conflict and were made again.
    pub conflicts: u64,
    /// Transactions that their user called off.
    pub cancels: u64,
    /// Attempts that waited for a change of what they had read.
    pub sleeps: u64,
    /// Attempts that were irrevocable.
    pub irrevocable: u64,
    /// The most attempts that one transaction took, since the beginning or since [`Memory::forget_attempts_max`].
    pub attempts_max: u64,
    /// What the clock shows: how often it was advanced, and 1.
    pub clock: u64,
    conflicts_by_kind: [u64; Conflict::KINDS],
}

impl Statistics {
    /// Attempts that met this kind of conflict.
    pub fn conflicts_of(&self, kind: Conflict) -> u64 {
        self.conflicts_by_kind[kind.index()]
    }
}

struct Desks<C: Control, H: Host>(Box<[CachePadded<Desk<C, H>>]>);

// SAFETY: a desk is used by whoever holds its slot, and nobody else: `Office::desk` is the only way to one, but for its
// counts, which are atomics.
unsafe impl<C: Control, H: Host> Sync for Desks<C, H> {}

/// How often one collects until all is old enough, if nobody is at work: one grace period is two epochs, and each time one passes.
const COLLECTIONS: usize = 3;

/// How often somebody looks for a free slot before he sleeps in between.
const CLAIM_TURNS: u32 = 1_000;

/// Desks, and who has which.
pub(crate) struct Office<C: Control, H: Host> {
    slots: Slots,
    common: Arc<Common<C, H>>,
    desks: Desks<C, H>,
}

impl<C: Control, H: Host> Office<C, H> {
    /// With a table of so many locks, and random numbers from this host's seed.
    pub(crate) fn new(settings: Settings, table: usize, host: H) -> Self {
        let count = settings.slots.clamp(1, C::SLOTS_MAX);
        let common = Common::new(host, table);
        #[cfg(feature = "planted-bugs")]
        let common = common.plant(settings.bug);
        let common = Arc::new(common);
        let desks = (0..count)
            .filter_map(SlotId::new)
            .map(|slot| CachePadded(Desk::new(slot, common.clone()).with_seed(common.host.seed())))
            .collect();
        Office { slots: Slots::new(count), common, desks: Desks(desks) }
    }

    /// Who runs the attempts.
    #[inline(always)]
    pub(crate) fn host(&self) -> &H {
        &self.common.host
    }

    /// How many desks there are.
    pub(crate) fn count(&self) -> usize {
        self.slots.count()
    }

    /// A slot for the caller; waits until one is free.
    ///
    /// # Panics
    /// See [`Memory::seat`].
    #[inline]
    pub(crate) fn claim(&self, epochs: &Epochs) -> SlotId {
        let hint = self.host().caller_hint();
        match self.slots.claim(hint) {
            Some(slot) if slot.index() == self.slots.preferred(hint) => slot,
            other => self.claim_other(epochs, hint, other),
        }
    }

    /// A slot that is not the preferred one: this one, if it could be claimed.
    #[cold]
    #[inline(never)]
    fn claim_other(&self, epochs: &Epochs, hint: usize, mut claimed: Option<SlotId>) -> SlotId {
        let mut turn = 0;
        loop {
            if let Some(slot) = claimed.take().or_else(|| self.slots.claim(hint)) {
                let preferred = self.slots.preferred(hint);
                if slot.index() != preferred && self.is_at_work(hint, preferred, epochs) {
                    self.slots.get(slot).release();
                    begun_inside_another();
                }
                return slot;
            }
            if turn < CLAIM_TURNS {
                self.host().spin(turn);
            } else {
                if turn == CLAIM_TURNS {
                    // None will ever be free if he has the last one himself.
                    self.refuse_inside_another(None, epochs);
                }
                self.host().sleep_ns(20_000);
            }
            turn = turn.saturating_add(1);
        }
    }

    /// The caller is about to wait for others, at this desk if he has one, and had better not be the one for whom he waits.
    ///
    /// # Panics
    /// If he is in the midst of an attempt at another desk.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_inside_another(&self, desk: Option<SlotId>, epochs: &Epochs) {
        if self.is_inside_another(desk, epochs) {
            begun_inside_another();
        }
    }

    /// Whether the caller is in the midst of an attempt, at another desk than this.
    pub(crate) fn is_inside_another(&self, desk: Option<SlotId>, epochs: &Epochs) -> bool {
        let hint = self.host().caller_hint();
        let mut others = (0..self.count()).filter(|other| desk.is_none_or(|desk| desk.index() != *other));
        others.any(|other| self.is_at_work(hint, other, epochs))
    }

    /// How many transactions have committed at the desks at which the caller was the last to begin one, but for this desk. As long as
    /// he begins none, that does not grow.
    #[cold]
    #[inline(never)]
    pub(crate) fn commits_elsewhere(&self, desk: SlotId) -> u64 {
        let hint = self.host().caller_hint();
        let others =
            (0..self.count()).filter(|other| *other != desk.index()).map(|other| &self.desks.0[other]);
        let count = |other: &CachePadded<Desk<C, H>>| {
            // The count first: whoever has added to it had begun there before ([`Count::add_one`]).
            let commits = other.counts.commits.get();
            other.is_worked_by(hint).then_some(commits)
        };
        others.filter_map(count).sum()
    }

    /// The attempt of the caller at this desk has failed. Before it there had been so many [commits](Office::commits_elsewhere) of
    /// his at the others, if he has looked.
    ///
    /// # Panics
    /// If there are more now: if it was they who were in its way, they would be each time.
    #[inline]
    pub(crate) fn refuse_one_inside(&self, desk: SlotId, elsewhere: Option<u64>) {
        if elsewhere.is_some_and(|before| self.commits_elsewhere(desk) > before) {
            begun_inside_another();
        }
    }

    /// Whether this caller is in the midst of an attempt at this desk: somebody is, and it was he who began the last one there.
    fn is_at_work(&self, hint: usize, desk: usize, epochs: &Epochs) -> bool {
        let is_pinned = SlotId::new(desk).is_some_and(|slot| epochs.is_pinned(slot));
        // Acquire: whoever pins a slot has set his name to its desk before, so the name that is found is that of whoever pinned it,
        // or of somebody later. (What he himself has done he sees: if it is his name, then it is not an old pin of his.)
        fence(Ordering::Acquire);
        is_pinned && self.desks.0[desk].is_worked_by(hint)
    }

    /// This slot, if it is free.
    fn claim_this(&self, slot: usize) -> Option<SlotId> {
        let claimed = self.slots.claim(slot)?;
        if claimed.index() != slot {
            self.leave(claimed);
            return None;
        }
        Some(claimed)
    }

    /// Gives a slot back.
    #[inline(always)]
    pub(crate) fn leave(&self, slot: SlotId) {
        self.slots.get(slot).release();
    }

    /// The desk of a slot that the caller has claimed, and not given back.
    #[inline(always)]
    pub(crate) fn desk(&self, slot: SlotId) -> &Desk<C, H> {
        &self.desks.0[slot.index()]
    }

    /// What has happened at all of them.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut sum = Statistics { clock: C::time(&self.common.shared), ..Statistics::default() };
        for desk in &self.desks.0 {
            let counts = &desk.counts;
            sum.commits += counts.commits.get();
            sum.cancels += counts.cancels.get();
            sum.sleeps += counts.sleeps.get();
            sum.irrevocable += counts.irrevocable.get();
            sum.attempts_max = sum.attempts_max.max(counts.attempts_max.get());
            for (sum, count) in sum.conflicts_by_kind.iter_mut().zip(&counts.conflicts) {
                *sum += count.get();
            }
        }
        sum.conflicts = sum.conflicts_by_kind.iter().sum();
        sum.attempts_max = sum.attempts_max.max(u64::from(sum.commits > 0));
        sum
    }
}

/// See the module's page.
pub struct Memory<W: World> {
    pub(crate) epochs: Epochs,
    pub(crate) room: WaitingRoom,
    pub(crate) ticket: TicketLock,
    pub(crate) attempts_max: u32,
    office: Office<W::Control, W::Host>,
}

impl<W: World> Memory<W> {
    /// A memory on this host, for the [`World`] to keep.
    pub fn new(settings: Settings, host: W::Host) -> Self {
        let office = Office::new(settings, W::Place::TABLE, host);
        Memory {
            epochs: Epochs::new(office.count()),
            room: WaitingRoom::new(),
            ticket: TicketLock::default(),
            attempts_max: settings.attempts_max,
            office,
        }
    }

    /// What has happened so far. Each number is exact when nothing runs.
    pub fn statistics(&self) -> Statistics {
        self.office.statistics()
    }

    /// From now on [`Statistics::attempts_max`] is of transactions that commit later: the one number that is no difference of two
    /// looks. (One that commits at this moment may be of either time.)
    pub fn forget_attempts_max(&self) {
        for desk in &self.office.desks.0 {
            desk.counts.attempts_max.forget();
        }
    }

    /// Frees what transactions have freed, wherever nobody is at work, as far as it is old enough: all of it, if nobody is at work anywhere.
    ///
    /// # Panics
    /// In the midst of a transaction of the same world.
    pub(crate) fn collect(&'static self) {
        self.office.refuse_inside_another(None, &self.epochs);
        for slot in (0..self.slots()).filter_map(|slot| self.office.claim_this(slot)) {
            self.seat_at(slot).collect();
        }
    }

    /// Who runs the transactions.
    #[inline(always)]
    pub(crate) fn host(&self) -> &W::Host {
        self.office.host()
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.office.count()
    }

    /// As [`Office::refuse_inside_another`], for the desk of this slot.
    #[cold]
    pub(crate) fn refuse_inside_another(&self, slot: SlotId) {
        self.office.refuse_inside_another(Some(slot), &self.epochs);
    }

    /// As [`Office::is_inside_another`], for the desk of this slot.
    #[cold]
    pub(crate) fn is_inside_another(&self, slot: SlotId) -> bool {
        self.office.is_inside_another(Some(slot), &self.epochs)
    }

    /// As [`Office::commits_elsewhere`].
    #[cold]
    pub(crate) fn commits_elsewhere(&self, slot: SlotId) -> u64 {
        self.office.commits_elsewhere(slot)
    }

    /// As [`Office::refuse_one_inside`].
    #[inline]
    pub(crate) fn refuse_one_inside(&self, slot: SlotId, elsewhere: Option<u64>) {
        self.office.refuse_one_inside(slot, elsewhere);
    }

    /// A desk for the caller; waits until one is free.
    ///
    /// # Panics
    /// If the caller is in the midst of a transaction, as far as that is noticed here: when it works at the desk that its
    /// hint leads to, which is so unless that one was taken. (Else it is noticed before it would wait for itself:
    /// [`Office::refuse_inside_another`].)
    #[inline]
    pub(crate) fn seat(&'static self) -> Seat<W> {
        self.seat_at(self.office.claim(&self.epochs))
    }

    /// The desk of a slot that has just been claimed.
    #[inline(always)]
    fn seat_at(&'static self, slot: SlotId) -> Seat<W> {
        let is_patient = !W::Control::FALLS_BACK || self.attempts_max > 0;
        Seat { memory: self, desk: self.office.desk(slot), peg: self.epochs.peg(slot), is_patient }
    }
}

#[cold]
pub(crate) fn begun_inside_another() -> ! {
    panic!(
        "a transaction began inside another one of the same world: hand on the handle of the outer one instead"
    )
}

impl<W: World> std::fmt::Debug for Memory<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory")
            .field("control", &W::Control::NAME)
            .field("slots", &self.office.count())
            .finish_non_exhaustive()
    }
}

impl<W: World> Drop for Memory<W> {
    fn drop(&mut self) {
        for desk in &self.office.desks.0 {
            // What waits to be freed goes with the epochs.
            desk.abandon(&self.epochs);
        }
    }
}

/// The right to work at a desk, and the way to all that an attempt needs.
pub(crate) struct Seat<W: World> {
    pub(crate) memory: &'static Memory<W>,
    /// **Invariant**: the desk of a slot that has been claimed for this seat alone.
    desk: &'static Desk<W::Control, W::Host>,
    /// That slot's.
    pub(crate) peg: Peg<'static>,
    /// Whether the first attempt is speculative.
    is_patient: bool,
}

// SAFETY: a desk is `Send`, and it is used by way of this seat only, which is not `Sync`.
unsafe impl<W: World> Send for Seat<W> {}

impl<W: World> Seat<W> {
    #[inline(always)]
    pub(crate) fn desk(&self) -> &'static Desk<W::Control, W::Host> {
        self.desk
    }

    /// Whether an attempt that is not irrevocable may begin at once.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        self.is_patient && matches!(W::Control::may_begin(self.desk), Step::Ready(()))
    }
}

impl<W: World> Drop for Seat<W> {
    #[inline]
    fn drop(&mut self) {
        if self.desk.due_count() > 0 {
            return self.leave_and_free();
        }
        self.memory.office.leave(self.desk.slot);
    }
}

impl<W: World> Seat<W> {
    /// Leaves, and then frees what is due: not with a slot in hand that a user's `Drop` may wait for.
    #[cold]
    #[inline(never)]
    fn leave_and_free(&self) {
        let due = self.desk.take_due();
        self.memory.office.leave(self.desk.slot);
        drop(due);
    }

    /// What has been freed here is due, as far as it is old enough: if nobody is at work, that is all.
    #[cold]
    pub(crate) fn collect(&self) {
        for _ in 0..COLLECTIONS {
            if self.desk.garbage() > 0 {
                self.desk.collect(&self.memory.epochs);
            }
        }
    }

    /// Frees what is due, and stays.
    #[cold]
    #[inline(never)]
    pub(crate) fn free(&self) {
        drop(self.desk.take_due());
    }
}
