//! Timestamps, transaction ids and slots: the names of things.
//!
//! A *slot* is a small number that one transaction at a time holds while it runs. Lock words and
//! read indicators name holders by slot, because slots fit in a few bits; a slot and a sequence
//! number together are a [`TxnId`], which no other transaction of the database ever has. Whoever
//! holds a lock is thus named by its transaction, never by a thread or an address.

use std::fmt;

/// Bits of a slot number in every packed word.
pub const SLOT_BITS: u32 = 12;
/// Bits of a logical time, and of a transaction's sequence number, in every packed word.
pub const TIME_BITS: u32 = 50;

/// A point of logical time: at most `2^50 - 1`, so that it shares a word with a slot and two flags.
///
/// At ten million ticks a second this lasts 3.5 years; [`Timestamp::next`] says when it is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Before everything.
    pub const ZERO: Timestamp = Timestamp(0);
    /// The last time that can be written down.
    pub const MAX: Timestamp = Timestamp((1 << TIME_BITS) - 1);

    /// The time with this number, or the last one there is if the number is beyond it.
    #[inline]
    pub const fn new(ticks: u64) -> Self {
        if ticks > Self::MAX.0 { Self::MAX } else { Timestamp(ticks) }
    }

    /// The number of ticks since [`Timestamp::ZERO`].
    #[inline]
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// The next time; saturates at [`Timestamp::MAX`], at which no write may commit.
    #[inline]
    pub const fn next(self) -> Self {
        Timestamp::new(self.0 + 1)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which of the database's slots a transaction runs in: below `2^12 - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(u16);

impl SlotId {
    /// Held by nobody: stands in words that belong to no running transaction (see
    /// [`crate::word::Word::RECLAIMED`]) and as the writer of what was there from the start.
    pub const NOBODY: SlotId = SlotId((1 << SLOT_BITS) - 1);
    /// How many slots there can be at most.
    pub const LIMIT: usize = Self::NOBODY.0 as usize;

    /// The slot with this number, if there can be one.
    #[inline]
    pub const fn new(index: usize) -> Option<Self> {
        if index < Self::LIMIT { Some(SlotId(index as u16)) } else { None }
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        SlotId((bits & ((1 << SLOT_BITS) - 1)) as u16)
    }

    /// Its number.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One attempt of one transaction, unique in its database: a slot and a sequence number within it.
///
/// Written `slot/sequence`, as in *transaction 7/5531*.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId(u64);

impl TxnId {
    /// Transaction number `sequence` (below `2^50`; higher bits are dropped) of a slot.
    #[inline]
    pub const fn new(slot: SlotId, sequence: u64) -> Self {
        TxnId((sequence & Timestamp::MAX.0) << SLOT_BITS | slot.0 as u64)
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        TxnId(bits & ((1 << (SLOT_BITS + TIME_BITS)) - 1))
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The next transaction of the same slot.
    #[inline]
    pub const fn next(self) -> Self {
        TxnId::new(self.slot(), self.sequence() + 1)
    }

    /// The slot that it runs in.
    #[inline]
    pub const fn slot(self) -> SlotId {
        SlotId::from_bits(self.0)
    }

    /// Its number among the transactions of its slot.
    #[inline]
    pub const fn sequence(self) -> u64 {
        self.0 >> SLOT_BITS
    }
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.slot(), self.sequence())
    }
}

impl fmt::Debug for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxnId({self})")
    }
}

/// When a transaction first began, for protocols that let the older one win: smaller is older.
///
/// Kept across the retries of one transaction, so that it becomes the oldest in the end. Unique:
/// the low bits are a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Age(u64);

impl Age {
    /// Younger than every transaction that has an age.
    pub const YOUNGEST: Age = Age(u64::MAX);

    /// The age of a transaction that began `now_ns` nanoseconds into the host's time (which is cut
    /// to 52 bits: 52 days' worth of nanoseconds) in `slot`.
    #[inline]
    pub const fn new(now_ns: u64, slot: SlotId) -> Self {
        Age(now_ns << SLOT_BITS | slot.0 as u64)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Age(bits)
    }

    /// Whether this one began before the other.
    #[inline]
    pub const fn is_older_than(self, other: Age) -> bool {
        self.0 < other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saturates_at_its_end() {
        assert_eq!(Timestamp::new(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.next(), Timestamp::MAX);
        assert_eq!(Timestamp::new(Timestamp::MAX.ticks() - 1).next(), Timestamp::MAX);
        assert_eq!(Timestamp::ZERO.next().ticks(), 1);
    }

    #[test]
    fn slots_end_before_nobody() {
        assert_eq!(SlotId::new(SlotId::LIMIT), None);
        assert_eq!(SlotId::new(usize::MAX), None);
        let last = SlotId::new(SlotId::LIMIT - 1).unwrap();
        assert!(last < SlotId::NOBODY);
        assert_eq!(SlotId::from_bits(u64::MAX), SlotId::NOBODY);
    }

    #[test]
    fn sequence_numbers_wrap_within_their_slot() {
        let slot = SlotId::new(9).unwrap();
        let last = TxnId::new(slot, (1 << TIME_BITS) - 1);
        assert_eq!((last.slot(), last.sequence()), (slot, (1 << TIME_BITS) - 1));
        assert_eq!(TxnId::new(slot, 1 << TIME_BITS), TxnId::new(slot, 0));
        assert_eq!(TxnId::from_bits(u64::MAX).bits() >> (SLOT_BITS + TIME_BITS), 0, "the flags stay clear");
        assert_eq!(format!("{last} {last:?}"), "9/1125899906842623 TxnId(9/1125899906842623)");
    }

    #[test]
    fn ages_are_ordered_by_beginning_then_by_slot() {
        let [a, b] = [1, 2].map(|i| SlotId::new(i).unwrap());
        assert!(Age::new(5, b).is_older_than(Age::new(6, a)));
        assert!(Age::new(5, a).is_older_than(Age::new(5, b)));
        assert!(!Age::new(5, a).is_older_than(Age::new(5, a)));
        assert!(Age::new(u64::MAX, b).is_older_than(Age::YOUNGEST));
    }
}
