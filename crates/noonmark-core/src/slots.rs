//! The transactions under way, by slot: how others find out about, and abort, whoever holds a lock.
//!
//! ```text
//! status:   63 .. 2  sequence number     1 .. 0  idle, running, wounded, committing
//! ```
//!
//! A transaction begins (*running*) and ends (*idle*) by plain stores to its own line. Others may
//! *wound* it while it runs, by compare-and-swap, naming its sequence number so that a wound never
//! hits the slot's next transaction; past its commit point (*committing*) it cannot be wounded.
//!
//! A victim that waits must be woken, or it would sleep through its wound. So it *says what it waits
//! for and registers in the [waiting room](crate::room), then looks for a wound, then sleeps*; the
//! other *wounds, then looks for what the victim waits for, then wakes*. All looks and sayings are
//! sequentially consistent: at least one sees the other.
//!
//! What it does not do: it keeps no list of what a transaction holds, and nothing here outlives the
//! process. A transaction that was wounded must find out for itself, and let go.

use crate::sync::{AtomicBool, AtomicU64, CachePadded, Ordering};
use crate::time::{Age, SlotId, Timestamp, TxnId};

const IDLE: u64 = 0;
const RUNNING: u64 = 1;
const WOUNDED: u64 = 2;
const COMMITTING: u64 = 3;

/// As many bits of a sequence number as a [`TxnId`] has, so that both wrap together.
#[inline]
const fn status(sequence: u64, state: u64) -> u64 {
    (sequence & Timestamp::MAX.ticks()) << 2 | state
}

/// How many of a slot's last commits can still be told by their time.
#[cfg(not(loom))]
const REMEMBERED: usize = 64;
/// Loom tracks each atomic: few enough to explore.
#[cfg(loom)]
const REMEMBERED: usize = 2;

/// One slot of a database.
#[derive(Debug)]
pub struct Slot {
    /// Held by a session. Taken by compare-and-swap, given back by a store.
    in_use: AtomicBool,
    /// See the module's diagram. Written by the holder, and by those who wound it.
    status: AtomicU64,
    /// When the transaction first began, or [`Age::YOUNGEST`] if its protocol has no ages.
    age: AtomicU64,
    /// The [`crate::WaitFor`] that the transaction waits for, or 0.
    waiting_for: AtomicU64,
    /// Who wanted the transaction that runs here to abort, last, and over what: a hint, for people.
    wounded_by: AtomicU64,
    wounded_over: AtomicU64,
    /// Whether the transaction was begun by hand, so that nobody knows when it will end. Written by the
    /// holder before it begins.
    open_ended: AtomicBool,
    /// Low halves of the commit time and the sequence number of the last writing commits, so that an
    /// abort can name the transaction that wrote a version. A hint, for people: it is overwritten by
    /// later commits, and a time that differs by a multiple of 2^32 is taken for the same.
    recent: [AtomicU64; REMEMBERED],
}

impl Slot {
    fn new() -> Self {
        Slot {
            in_use: AtomicBool::new(false),
            status: AtomicU64::new(IDLE),
            age: AtomicU64::new(Age::YOUNGEST.bits()),
            waiting_for: AtomicU64::new(0),
            wounded_by: AtomicU64::new(0),
            wounded_over: AtomicU64::new(0),
            open_ended: AtomicBool::new(false),
            recent: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Takes the slot for a session, if it is free. *Acquire*: sees all that its last holder left.
    #[inline]
    pub fn try_claim(&self) -> bool {
        // The load spares the line of a slot that is taken; it may be stale, and then misses a slot
        // that has just become free.
        !self.in_use.load(Ordering::Relaxed)
            && self.in_use.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the slot back. *Release*: the next holder sees all that this one left.
    #[inline]
    pub fn release(&self) {
        debug_assert!(self.in_use.load(Ordering::Relaxed), "a slot is given back by its holder, once");
        self.in_use.store(false, Ordering::Release);
    }

    /// The last sequence number that was used here; a new session goes on from it.
    pub fn sequence(&self) -> u64 {
        self.status.load(Ordering::Relaxed) >> 2
    }

    /// Says whether the transaction that is about to begin here may stay open for any time.
    pub fn set_open_ended(&self, open_ended: bool) {
        // Relaxed: the store of `begin` publishes it.
        self.open_ended.store(open_ended, Ordering::Relaxed);
    }

    /// Whether the transaction that runs here may stay open for any time.
    pub fn is_open_ended(&self) -> bool {
        self.open_ended.load(Ordering::Relaxed)
    }

    /// A transaction with this sequence number begins. *Release*: its age is seen with it.
    #[inline]
    pub fn begin(&self, sequence: u64) {
        self.status.store(status(sequence, RUNNING), Ordering::Release);
    }

    /// It has ended, one way or the other, and holds nothing any more.
    #[inline]
    pub fn end(&self, sequence: u64) {
        self.status.store(status(sequence, IDLE), Ordering::Release);
    }

    /// Sets the age of the transaction that runs here, before it begins.
    ///
    /// An age that were only set at the first conflict could be published too late: two transactions
    /// would each take the other for the younger, and wait for each other. Set before the first lock
    /// is taken, it is seen by whoever sees the lock.
    #[inline]
    pub fn set_age(&self, age: Age) {
        self.age.store(age.bits(), Ordering::Release);
    }

    /// The age of the transaction that runs here.
    #[inline]
    pub fn age(&self) -> Age {
        Age::from_bits(self.age.load(Ordering::Acquire))
    }

    /// Whether somebody older wants the transaction that runs here to abort.
    #[inline]
    pub fn is_wounded(&self) -> bool {
        self.status.load(Ordering::SeqCst) & 3 == WOUNDED
    }

    /// Of a transaction that is wounded: by whom, and over what, as he named it. With several who wanted it to abort, the two
    /// may be of different ones.
    pub fn wounded_by(&self) -> (TxnId, u64) {
        // Acquire: whoever sees the wound sees what was noted before it.
        (TxnId::from_bits(self.wounded_by.load(Ordering::Acquire)), self.wounded_over.load(Ordering::Acquire))
    }

    /// Passes the commit point, after which no wound counts. False: it was wounded before.
    ///
    /// This and the wound are compare-and-swaps from the same state, so exactly one succeeds.
    #[inline]
    pub fn try_commit(&self, sequence: u64) -> bool {
        self.status
            .compare_exchange(
                status(sequence, RUNNING),
                status(sequence, COMMITTING),
                Ordering::SeqCst,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Says what the transaction waits for: a [`crate::WaitFor::key`], or 0 for nothing.
    ///
    /// *Sequentially consistent*: one half of a Dekker pattern with [`Slots::wound`]. The waiter
    /// says so and registers in the waiting room, in either order, and looks for a wound after both.
    pub fn set_waiting_for(&self, key: u64) {
        self.waiting_for.store(key, Ordering::SeqCst);
    }

    /// Remembers that a transaction of this slot committed writes at this time.
    #[inline]
    pub fn remember_commit(&self, time: Timestamp, sequence: u64) {
        let entry = (time.ticks() & 0xffff_ffff) << 32 | sequence & 0xffff_ffff;
        // Release: whoever sees the entry sees that the slot has come as far as this sequence number.
        self.recent[time.ticks() as usize % REMEMBERED].store(entry, Ordering::Release);
    }
}

/// What became of a wound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wound {
    /// The transaction will abort at its next step. If it waits, it must be woken where it does.
    Told(Option<crate::WaitFor>),
    /// It is past its commit point, or over; it lets go by itself.
    TooLate,
}

/// All slots of a database.
#[derive(Debug)]
pub struct Slots(Box<[CachePadded<Slot>]>);

impl Slots {
    /// This many of them, at most [`SlotId::LIMIT`].
    pub fn new(count: usize) -> Self {
        Slots((0..count.min(SlotId::LIMIT)).map(|_| CachePadded(Slot::new())).collect())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// One of them.
    #[inline]
    pub fn get(&self, slot: SlotId) -> &Slot {
        &self.0[slot.index()]
    }

    /// A free one, looked for from `hint` on, now claimed.
    #[inline]
    pub fn claim(&self, hint: usize) -> Option<SlotId> {
        let first = self.preferred(hint);
        match self.0.get(first) {
            Some(slot) if slot.try_claim() => SlotId::new(first),
            _ => self.claim_after(first),
        }
    }

    /// The one from which [`Slots::claim`] looks; 0 if there are none.
    #[inline]
    pub fn preferred(&self, hint: usize) -> usize {
        let count = self.0.len();
        // Most hints are small, and a division is not.
        if hint < count { hint } else { hint.checked_rem(count).unwrap_or(0) }
    }

    #[cold]
    fn claim_after(&self, first: usize) -> Option<SlotId> {
        let count = self.0.len();
        (first + 1..count).chain(0..first).find(|&i| self.0[i].try_claim()).and_then(SlotId::new)
    }

    /// The transaction that runs in a slot, if one does.
    pub fn running(&self, slot: SlotId) -> Option<TxnId> {
        let status = self.0.get(slot.index())?.status.load(Ordering::SeqCst);
        (status & 3 != IDLE).then(|| TxnId::new(slot, status >> 2))
    }

    /// Whether a transaction has passed its commit point, and is not over yet.
    pub fn has_committed(&self, txn: TxnId) -> bool {
        let committing = status(txn.sequence(), COMMITTING);
        self.0.get(txn.slot().index()).is_some_and(|slot| slot.status.load(Ordering::SeqCst) == committing)
    }

    /// The age of a transaction, as far as it still runs. If it is over, this may be the age of the
    /// slot's next one, which does no harm: whoever goes by it and waits finds that the lock was let
    /// go, and whoever goes by it and wounds names a transaction that is over.
    pub fn age_of(&self, txn: TxnId) -> Age {
        self.0.get(txn.slot().index()).map_or(Age::YOUNGEST, |slot| slot.age())
    }

    /// Says, before a wound, who wants what of the transaction, for it to tell.
    pub fn note_wound(&self, txn: TxnId, by: TxnId, over: u64) {
        let slot = self.get(txn.slot());
        // Relaxed: the wound, sequentially consistent, publishes them.
        slot.wounded_by.store(by.bits(), Ordering::Relaxed);
        slot.wounded_over.store(over, Ordering::Relaxed);
    }

    /// Tells a transaction to abort.
    pub fn wound(&self, txn: TxnId) -> Wound {
        let slot = self.get(txn.slot());
        let running = status(txn.sequence(), RUNNING);
        let wounded = status(txn.sequence(), WOUNDED);
        match slot.status.compare_exchange(running, wounded, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {}
            // Somebody else's wound; but whether they have woken the victim yet, we cannot know.
            Err(now) if now == wounded => {}
            Err(_) => return Wound::TooLate,
        }
        let key = slot.waiting_for.load(Ordering::SeqCst);
        Wound::Told((key != 0).then(|| crate::WaitFor::from_key(key as usize)))
    }

    /// The transaction of `slot` that committed writes at `time`, if it is remembered.
    pub fn writer_of(&self, slot: SlotId, time: Timestamp) -> Option<TxnId> {
        let slot_state = self.0.get(slot.index())?;
        let entry = slot_state.recent[time.ticks() as usize % REMEMBERED].load(Ordering::Acquire);
        if entry == 0 || entry >> 32 != time.ticks() & 0xffff_ffff {
            return None;
        }
        // The entry holds 32 bits of the sequence number; the rest is the slot's current one, or
        // the one before if the low part has wrapped since.
        let now = slot_state.sequence();
        let low = entry & 0xffff_ffff;
        let candidate = now & !0xffff_ffff | low;
        let sequence = if candidate > now { candidate.checked_sub(1 << 32)? } else { candidate };
        Some(TxnId::new(slot, sequence))
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_wound_hits_only_the_transaction_it_names() {
        let slots = Slots::new(2);
        let id = slots.claim(1).unwrap();
        assert_eq!(id.index(), 1);
        let slot = slots.get(id);
        slot.begin(5);
        assert_eq!(slots.running(id), Some(TxnId::new(id, 5)));
        assert_eq!(slots.wound(TxnId::new(id, 4)), Wound::TooLate);
        assert!(!slot.is_wounded());
        assert_eq!(slots.wound(TxnId::new(id, 5)), Wound::Told(None));
        assert!(slot.is_wounded() && !slot.try_commit(5));
        slot.end(5);
        slot.begin(6);
        assert!(!slots.has_committed(TxnId::new(id, 6)));
        assert!(!slot.is_wounded() && slot.try_commit(6));
        assert!(slots.has_committed(TxnId::new(id, 6)) && !slots.has_committed(TxnId::new(id, 5)));
        assert_eq!(slots.wound(TxnId::new(id, 6)), Wound::TooLate);
    }

    #[test]
    fn commits_are_remembered_by_time() {
        let slots = Slots::new(1);
        let id = slots.claim(0).unwrap();
        assert!(slots.claim(0).is_none());
        let slot = slots.get(id);
        slot.begin((1 << 32) + 3);
        slot.remember_commit(Timestamp::new(118), (1 << 32) + 2);
        assert_eq!(slots.writer_of(id, Timestamp::new(118)), Some(TxnId::new(id, (1 << 32) + 2)));
        assert_eq!(slots.writer_of(id, Timestamp::new(118 + 64)), None);
        slot.remember_commit(Timestamp::new(119), 0xffff_fff0);
        assert_eq!(slots.writer_of(id, Timestamp::new(119)), Some(TxnId::new(id, 0xffff_fff0)));
    }

    #[test]
    fn the_writer_of_a_version_is_told_across_the_wrap_of_what_is_remembered() {
        let slots = Slots::new(1);
        let id = slots.claim(0).unwrap();
        let slot = slots.get(id);
        // The low half of the sequence number wraps between the commit and the question.
        slot.begin(0xffff_ffff);
        slot.remember_commit(Timestamp::new(7), 0xffff_ffff);
        slot.end(0xffff_ffff);
        slot.begin(1 << 32);
        assert_eq!(slots.writer_of(id, Timestamp::new(7)), Some(TxnId::new(id, 0xffff_ffff)));
        // Another time in the same place, and times that nobody wrote.
        slot.remember_commit(Timestamp::new(7 + 64), 1 << 32);
        assert_eq!(slots.writer_of(id, Timestamp::new(7)), None);
        assert_eq!(slots.writer_of(id, Timestamp::ZERO), None);
        assert_eq!(slots.writer_of(SlotId::NOBODY, Timestamp::new(7)), None);
        // A number that the slot has not come to is no transaction's.
        let fresh = Slots::new(1);
        fresh.get(id).remember_commit(Timestamp::new(7), 3);
        assert_eq!(fresh.writer_of(id, Timestamp::new(7)), None);
    }

    #[test]
    fn sequence_numbers_wrap_with_the_ids() {
        let slots = Slots::new(1);
        let id = slots.claim(0).unwrap();
        let slot = slots.get(id);
        let beyond = (1 << crate::time::TIME_BITS) + 4;
        slot.begin(beyond);
        assert_eq!((slot.sequence(), slots.running(id)), (4, Some(TxnId::new(id, beyond))));
        assert_eq!(slots.wound(TxnId::new(id, beyond)), Wound::Told(None));
        slot.end(beyond);
        slot.begin(beyond + 1);
        assert!(slot.try_commit(beyond + 1));
    }

    #[test]
    fn slots_are_claimed_from_the_hint_on_and_given_back() {
        let slots = Slots::new(3);
        let claimed: Vec<_> = (0..4).map(|_| slots.claim(2).map(SlotId::index)).collect();
        assert_eq!(claimed, [Some(2), Some(0), Some(1), None]);
        slots.get(SlotId::new(0).unwrap()).release();
        assert_eq!(slots.claim(usize::MAX), SlotId::new(0));
        assert_eq!(Slots::new(0).claim(0), None);
        assert_eq!(Slots::new(usize::MAX).count(), SlotId::LIMIT);
        assert_eq!([0, 2, 3, 10].map(|hint| slots.preferred(hint)), [0, 2, 0, 1]);
        assert_eq!(slots.running(SlotId::NOBODY), None);
        assert_eq!(slots.age_of(TxnId::new(SlotId::NOBODY, 0)), Age::YOUNGEST);
    }

    #[test]
    fn a_wound_tells_where_the_victim_waits() {
        let slots = Slots::new(1);
        let id = slots.claim(0).unwrap();
        let slot = slots.get(id);
        slot.begin(1);
        let on = crate::WaitFor::release_of(&slots);
        slot.set_waiting_for(on.key() as u64);
        let txn = TxnId::new(id, 1);
        assert_eq!(slots.wound(txn), Wound::Told(Some(on)));
        assert_eq!(slots.wound(txn), Wound::Told(Some(on)), "whoever wounds too may have to wake");
        slot.set_waiting_for(0);
        assert_eq!(slots.wound(txn), Wound::Told(None));
        slot.end(1);
        assert_eq!((slots.wound(txn), slots.running(id)), (Wound::TooLate, None));
    }
}
