//! Ranges of possible commit times: one a slot, shared, and only ever made smaller.
//!
//! `dynamic` [Dynamic §IV] and `ranges` [Sundial §2.1, Appendix] give a transaction no commit time but a *range* of
//! them, and order two transactions that conflict by making their ranges disjoint. So a range is changed by its
//! own transaction and by others, at any time, until the transaction has chosen:
//!
//! ```text
//!            63       62 .. 50   49 .. 0
//! lower   decided        0       the earliest time at which it may commit
//! upper    open          0       the latest
//!
//! open ──decide──▶ decided: if it commits at all, then from `lower` on ──settle──▶ settled: at that time, and no other
//!                                                                      ──freeze──▶ settled: until `upper`, and no later
//! ```
//!
//! On one machine a transaction settles for a single time. One that spans several *freezes* a range in each, and commits at a
//! time that is in all of them [Sundial §5.2]. The width of it is a choice: in a wide one the others' times are sooner included, a narrow
//! one leaves those room who must come after it.
//!
//! # Invariants
//!
//! 1. From [`Ranges::begin`] to the next one, `lower` never falls and an open `upper` never rises. So what has been
//!    made disjoint stays so, and two who change the same range at once need no agreement.
//! 2. What is decided, or settled, does not change. Whoever wants to move a bound is told the time instead, and must
//!    live with it. *It is one atomic step of one word, so that no push is lost between the choice and its
//!    announcement*: a push of `upper` either comes before the settling, which then honours it, or finds the time.
//! 3. Nothing here is wrong if a transaction gives up after it has settled: others keep away from a time at
//!    which nobody committed. That costs them room, and nothing else.
//! 4. A slot is found by others through a mark or a lock that its transaction has left on a cell, after
//!    [`Ranges::begin`]. Who finds an old mark too late changes the range of the slot's next transaction: that
//!    costs room, too.
//!
//! One word cannot hold two times of fifty bits. Two do, since no step needs both: who decides fixes `lower`
//! first, and then there is but one time left that a push of `upper` can allow or not. The decided state is worth a bit
//! since it tells others at once what the time will be, so that nobody waits for the settling. The flags are placed so
//! that *decided* is above every lower bound and *settled* below every open upper bound: then pushing is one
//! `fetch_max` or `fetch_min`, and leaves what is fixed as it is.
//!
//! All read-modify-writes are sequentially consistent: they take part in "I have published mine, now what is
//! yours" together with marks and locks (see [`crate::protocol`], *marks*). On x86 they are that strong anyway.
//!
//! What it does not do: it knows no cell and no protocol, and it never waits.

use noonmark_core::sync::{AtomicU64, CachePadded, Ordering};
use noonmark_core::{SlotId, Timestamp};

const FLAG: u64 = 1 << 63;

/// So many ticks of room are left, unless [told otherwise](crate::Builder::range_room), where there is room without end, to a transaction
/// that must come before another: it may still meet what others commit before that.
///
/// Any number is right. With 0 a transaction that is pushed once can commit at a single time; the larger, the faster
/// logical time passes, of which there are 2^50 ticks.
pub const RANGE_ROOM_DEFAULT: u64 = 16;

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub time: Timestamp,
    /// It does not move any more: the commit time is in what is left, if there will be one.
    pub fixed: bool,
}

/// The possible commit times of the transaction in one slot. See the module's page.
#[derive(Debug)]
pub(crate) struct Range {
    lower: AtomicU64,
    upper: AtomicU64,
    /// The frontier that the transaction reads at, if it leaves no marks. Nobody else's business.
    reads_at: AtomicU64,
}

/// A transaction reads at no frontier.
const NO_FRONTIER: u64 = u64::MAX;

impl Range {
    fn new() -> Self {
        Range {
            lower: AtomicU64::new(0),
            upper: AtomicU64::new(FLAG | Timestamp::MAX.ticks()),
            reads_at: AtomicU64::new(NO_FRONTIER),
        }
    }

    /// Of its own transaction: the frontier as it was when the transaction began, if it leaves no marks.
    #[inline]
    pub(crate) fn reads_at(&self) -> Option<Timestamp> {
        // Relaxed: nobody else writes it, or looks.
        let at = self.reads_at.load(Ordering::Relaxed);
        (at != NO_FRONTIER).then(|| Timestamp::new(at))
    }

    /// The earliest time.
    #[inline]
    pub(crate) fn lower(&self) -> Bound {
        let lower = self.lower.load(Ordering::SeqCst);
        Bound { time: Timestamp::new(lower & !FLAG), fixed: lower & FLAG != 0 }
    }

    /// The latest time.
    #[inline]
    pub(crate) fn upper(&self) -> Bound {
        let upper = self.upper.load(Ordering::SeqCst);
        Bound { time: Timestamp::new(upper & !FLAG), fixed: upper & FLAG == 0 }
    }

    /// Whether there is a time left.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.lower().time <= self.upper().time
    }

    /// Not before this time. If the time is decided already: which it is.
    #[inline]
    pub(crate) fn push_from(&self, time: Timestamp) -> Result<(), Timestamp> {
        let lower = self.lower();
        if !lower.fixed && lower.time >= time {
            return Ok(());
        }
        let lower = self.lower.fetch_max(time.ticks(), Ordering::SeqCst);
        if lower & FLAG == 0 { Ok(()) } else { Err(Timestamp::new(lower & !FLAG)) }
    }

    /// Before this time, which is not [`Timestamp::ZERO`]. If it is settled already: the latest time that it may be.
    #[inline]
    pub(crate) fn push_before(&self, time: Timestamp) -> Result<(), Timestamp> {
        // (Whoever is after nobody writes nothing, and will not commit after all.)
        let latest = Timestamp::new(time.ticks().saturating_sub(1));
        let upper = self.upper();
        if !upper.fixed && upper.time <= latest {
            return Ok(());
        }
        let upper = self.upper.fetch_min(FLAG | latest.ticks(), Ordering::SeqCst);
        if upper & FLAG != 0 { Ok(()) } else { Err(Timestamp::new(upper)) }
    }

    /// Of its own transaction: chooses the earliest time, which is not before `earliest`; from here on nobody moves
    /// it. If it was decided before, that time, which may be earlier.
    pub(crate) fn decide(&self, earliest: Timestamp) -> Timestamp {
        // Only others push concurrently, and only upwards.
        let _ = self.push_from(earliest);
        Timestamp::new(self.lower.fetch_or(FLAG, Ordering::SeqCst) & !FLAG)
    }

    /// Of its own transaction: settles for the time that it has decided on. False: others have not left it that.
    #[must_use]
    pub(crate) fn settle(&self, at: Timestamp) -> bool {
        let upper = self.upper.fetch_min(at.ticks(), Ordering::SeqCst);
        upper == at.ticks() || upper >= FLAG | at.ticks()
    }

    /// Of its own transaction, once: decides on times from `earliest` on, and settles for what others have left of them up to `latest`.
    /// Which those are; `None` if others have left none.
    #[must_use]
    pub(crate) fn freeze(&self, earliest: Timestamp, latest: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let from = self.decide(earliest);
        let mut upper = self.upper.load(Ordering::SeqCst);
        loop {
            let until = Timestamp::new(upper & !FLAG).min(latest);
            if until < from {
                return None;
            }
            match self.upper.compare_exchange(upper, until.ticks(), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some((from, until)),
                Err(now) => upper = now,
            }
        }
    }
}

/// Makes two ranges disjoint: the reader's before the writer's, which leaves it so much room if there is room without end. False: that
/// cannot be, and nothing was changed for it.
///
/// One of the two is the caller's own; the other's transaction goes on meanwhile. Either is only shrunk so far that
/// something is left of both, as both were when they were looked at.
pub(crate) fn part(reader: &Range, writer: &Range, room: u64) -> bool {
    loop {
        let (earliest, latest) = (reader.lower(), reader.upper());
        let (from, to) = (writer.lower(), writer.upper());
        // Asked again below: somebody has fixed one of the ends since they were looked at. That happens to each end
        // once.
        if from.fixed {
            return earliest.time < from.time
                && match reader.push_before(from.time) {
                    Ok(()) => true,
                    Err(settled) => settled < from.time,
                };
        }
        if latest.fixed {
            if latest.time >= to.time {
                return false;
            }
            match writer.push_from(latest.time.next()) {
                Ok(()) => return true,
                Err(_) => continue,
            }
        }
        if latest.time < from.time {
            return true;
        }
        // The writer's earliest time to be: after the reader's earliest, and where both are left some.
        let first = from.time.max(earliest.time.next());
        let last = to.time.min(latest.time.next());
        if first > last || earliest.time == Timestamp::MAX {
            return false;
        }
        let half = (last.ticks() - first.ticks()) / 2;
        let split = Timestamp::new(first.ticks() + half.min(room));
        if reader.push_before(split).is_ok() && writer.push_from(split).is_ok() {
            return true;
        }
    }
}

/// The ranges of all slots.
#[derive(Debug)]
pub(crate) struct Ranges {
    of_slots: Box<[CachePadded<Range>]>,
    /// The read frontier: a read time of all cells of the database. It only grows.
    ///
    /// **Invariant**: whoever replaces a version loads it when all that he replaces is locked, and commits later than that
    /// ([`crate::timing`]). So *load it, or raise it, then look*, and what is not locked then holds until the frontier that was loaded,
    /// or raised to. All four are sequentially consistent: either the reader finds the lock, or the writer finds the frontier.
    frontier: Option<CachePadded<AtomicU64>>,
    room: u64,
}

impl Ranges {
    /// So many; with a read frontier, or none; and so much room for who must come before another.
    pub(crate) fn new(slots: usize, has_frontier: bool, room: u64) -> Self {
        Ranges {
            of_slots: (0..slots).map(|_| CachePadded(Range::new())).collect(),
            frontier: has_frontier.then(|| CachePadded(AtomicU64::new(0))),
            room,
        }
    }

    /// So many ticks of room are left to a transaction that must come before another.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        self.room
    }

    /// Whether there is a read frontier.
    #[inline]
    pub(crate) fn has_frontier(&self) -> bool {
        self.frontier.is_some()
    }

    /// The read frontier, if there is one: whoever has locked what he will replace commits after it.
    #[inline]
    pub(crate) fn frontier(&self) -> Option<Timestamp> {
        self.frontier.as_ref().map(|frontier| Timestamp::new(frontier.load(Ordering::SeqCst)))
    }

    /// Raises the read frontier to this time, if it is not there yet.
    pub(crate) fn raise_frontier(&self, to: Timestamp) {
        if let Some(frontier) = &self.frontier {
            frontier.fetch_max(to.ticks(), Ordering::SeqCst);
        }
    }

    /// That of one slot.
    #[inline(always)]
    pub(crate) fn get(&self, slot: SlotId) -> &Range {
        &self.of_slots[slot.index()]
    }

    /// A transaction begins in a slot: it has all times from `floor` on. None of its marks is on any cell.
    pub(crate) fn begin(&self, slot: SlotId, floor: Timestamp) {
        let range = self.get(slot);
        // Release: who finds this range by a late look at the mark of the transaction before sees the read times that it
        // raised. (Who finds it by a mark of this one sees it anyway: the mark comes after.)
        range.lower.store(floor.ticks(), Ordering::Release);
        range.upper.store(FLAG | Timestamp::MAX.ticks(), Ordering::Release);
        range.reads_at.store(NO_FRONTIER, Ordering::Relaxed);
    }

    /// The transaction that has begun in a slot reads at the frontier, if there is one, and commits no earlier.
    pub(crate) fn begin_at_frontier(&self, slot: SlotId) {
        if let Some(frontier) = self.frontier() {
            let range = self.get(slot);
            range.reads_at.store(frontier.ticks(), Ordering::Relaxed);
            let _ = range.push_from(frontier);
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    fn at(ticks: u64) -> Timestamp {
        Timestamp::new(ticks)
    }

    fn range(lower: u64, upper: u64) -> Range {
        let range = Range::new();
        range.push_from(at(lower)).unwrap();
        range.push_before(at(upper).next()).unwrap();
        range
    }

    fn ends(range: &Range) -> (u64, u64) {
        (range.lower().time.ticks(), range.upper().time.ticks())
    }

    #[test]
    fn bounds_only_shrink_and_what_is_fixed_stays() {
        let range = range(5, 20);
        assert_eq!((range.push_from(at(3)), range.push_before(at(30))), (Ok(()), Ok(())));
        assert_eq!((range.push_from(at(7)), range.push_before(at(19))), (Ok(()), Ok(())));
        assert_eq!(ends(&range), (7, 18));
        assert_eq!(range.decide(at(9)), at(9));
        assert_eq!((range.push_from(at(3)), range.push_from(at(12))), (Err(at(9)), Err(at(9))));
        // It may still be denied its time, or not.
        assert_eq!(range.push_before(at(11)), Ok(()));
        assert!(range.settle(at(9)));
        assert_eq!((range.push_before(at(11)), range.push_before(at(2))), (Err(at(9)), Err(at(9))));
        assert_eq!(ends(&range), (9, 9));
        // Deciding and settling again says the same.
        assert_eq!((range.decide(at(11)), range.settle(at(9))), (at(9), true));
        assert_eq!(ends(&range), (9, 9));
    }

    #[test]
    fn a_push_that_comes_before_the_settling_is_honoured() {
        let range = range(5, 20);
        assert_eq!(range.decide(at(8)), at(8));
        assert_eq!(range.push_before(at(8)), Ok(()));
        assert!(!range.has_room());
        assert!(!range.settle(at(8)));
    }

    #[test]
    fn what_is_frozen_is_what_others_have_left() {
        let range = range(5, 20);
        assert_eq!(range.freeze(at(8), at(40)), Some((at(8), at(20))));
        assert_eq!((range.push_from(at(9)), range.push_before(at(9))), (Err(at(8)), Err(at(20))));
        assert_eq!(ends(&range), (8, 20));
        let without_end = Range::new();
        assert_eq!(without_end.freeze(at(3), Timestamp::MAX), Some((at(3), Timestamp::MAX)));
        assert_eq!(without_end.push_before(at(1000)), Err(Timestamp::MAX));
        let pushed = Range::new();
        pushed.push_before(at(3)).unwrap();
        assert_eq!(pushed.freeze(at(3), at(9)), None);
    }

    #[test]
    fn a_new_transaction_has_all_times_from_its_floor() {
        let ranges = Ranges::new(2, false, RANGE_ROOM_DEFAULT);
        let slot = SlotId::new(1).unwrap();
        let range = ranges.get(slot);
        let _ = (range.decide(at(4)), range.settle(at(4)));
        ranges.begin(slot, at(3));
        assert_eq!(ends(range), (3, Timestamp::MAX.ticks()));
        assert!(!range.lower().fixed && !range.upper().fixed && range.has_room());
    }

    /// All small ranges in all states: those that are told to be parted are, something is left of both if there was, and
    /// who is not parted could not be.
    #[test]
    fn parting_leaves_both_what_it_can() {
        let states = |lower: u64, upper: u64| {
            let open = range(lower, upper);
            let decided = range(lower, upper);
            decided.decide(at(lower));
            let settled = range(lower, upper);
            assert!(settled.decide(at(lower)) == at(lower) && settled.settle(at(lower)));
            [open, decided, settled]
        };
        for [a, b, c, d] in (0..6_u64.pow(4)).map(|n| [n % 6, n / 6 % 6, n / 36 % 6, n / 216]) {
            if a > b || c > d {
                continue;
            }
            for reader in 0..3 {
                for writer in 0..3 {
                    let (reader, writer) = (&states(a, b)[reader], &states(c, d)[writer]);
                    let latest_writer = if writer.lower().fixed { c } else { d };
                    let could = a < latest_writer;
                    let parted = part(reader, writer, RANGE_ROOM_DEFAULT);
                    assert_eq!(parted, could, "{reader:?} {writer:?}");
                    if parted {
                        let from = writer.lower().time;
                        assert!(reader.upper().time < from, "{reader:?} {writer:?}");
                    }
                    assert!(reader.has_room() && writer.has_room(), "{reader:?} {writer:?}");
                }
            }
        }
        let (reader, writer) = (Range::new(), Range::new());
        assert!(part(&reader, &writer, 16));
        assert_eq!((ends(&reader).1, ends(&writer).0), (16, 17));
        let (reader, writer) = (Range::new(), Range::new());
        assert!(part(&reader, &writer, 0));
        assert_eq!((ends(&reader), ends(&writer).0), ((0, 0), 1));
    }
}
