//! When transactions began: one clock for all, and the time of each that runs.
//!
//! For databases in which a transaction takes place at the time at which it began ([`crate::Order::Beginning`]).
//!
//! # Invariants
//!
//! 1. No two transactions have the same time, and one that begins after another has ended has a later one.
//! 2. The *frontier* never falls, and whoever runs, or will, has a time that is not before it. So what was
//!    replaced at or before the frontier is seen by nobody any more.
//!
//! For the second, a transaction that begins says first that its time will not be before what the clock shows, and
//! draws its time then. Whoever works out the frontier looks at the clock first, and at the slots then. All four are
//! sequentially consistent: either the slot is seen, or the time is drawn after the look at the clock.
//!
//! A transaction that spans databases brings its time from elsewhere. There the first invariant is its coordinator's business; for the
//! second, the frontier trails the clock, and who would begin before the clock's trail is refused.

use noonmark_core::sync::{AtomicU64, CachePadded, Ordering};
use noonmark_core::{SlotId, Timestamp};

/// Nobody runs in the slot.
const NONE: u64 = u64::MAX;
/// Who draws a multiple of this works out the frontier: that takes a look at every slot.
const ADVANCE_EVERY: u64 = if cfg!(shuttle) { 2 } else { 64 };

/// See the module's page.
#[derive(Debug)]
pub(crate) struct BeginTimes {
    /// The latest time that was drawn, or brought.
    clock: CachePadded<AtomicU64>,
    /// By how much the frontier trails the clock at least: nothing, where no times are brought.
    trail: AtomicU64,
    /// By slot: the time of who runs there, or an earlier one while it is being drawn, or [`NONE`].
    running: Box<[CachePadded<AtomicU64>]>,
    frontier: CachePadded<AtomicU64>,
}

impl BeginTimes {
    pub(crate) fn new(slots: usize) -> Self {
        BeginTimes {
            clock: CachePadded(AtomicU64::new(0)),
            trail: AtomicU64::new(0),
            running: (0..slots).map(|_| CachePadded(AtomicU64::new(NONE))).collect(),
            frontier: CachePadded(AtomicU64::new(0)),
        }
    }

    /// A transaction begins in a slot: its time. Also whether the slots should be looked at.
    pub(crate) fn begin(&self, slot: SlotId) -> (Timestamp, bool) {
        let running = &self.running[slot.index()];
        running.store(self.clock.load(Ordering::SeqCst), Ordering::SeqCst);
        let time = self.draw();
        // Release: who finds a lock of this transaction finds its time, or that it has ended.
        running.store(time.ticks(), Ordering::Release);
        (time, time.ticks().is_multiple_of(ADVANCE_EVERY))
    }

    /// A transaction begins in a slot that takes place at this time, wherever it has that from; the frontier trails the latest of such
    /// times by so much. Whether the slots should be looked at; `None`: it is too late for this time, and has not begun.
    pub(crate) fn begin_at(&self, slot: SlotId, time: Timestamp, trail: u64) -> Option<bool> {
        // Relaxed: it never changes while transactions run.
        self.trail.store(trail, Ordering::Relaxed);
        let running = &self.running[slot.index()];
        running.store(time.ticks(), Ordering::SeqCst);
        self.clock.fetch_max(time.ticks(), Ordering::SeqCst);
        let earliest = self.trail();
        if time.ticks() < earliest {
            self.end(slot);
            return None;
        }
        Some(earliest - self.frontier().ticks().min(earliest) > ADVANCE_EVERY.max(trail / 16))
    }

    /// Nobody will begin before this time.
    fn trail(&self) -> u64 {
        self.clock.load(Ordering::SeqCst).saturating_sub(self.trail.load(Ordering::Relaxed))
    }

    /// It has ended, and reads nothing any more.
    pub(crate) fn end(&self, slot: SlotId) {
        self.running[slot.index()].store(NONE, Ordering::Release);
    }

    /// A time that is later than all that were drawn before.
    pub(crate) fn draw(&self) -> Timestamp {
        Timestamp::new((self.clock.fetch_add(1, Ordering::SeqCst) + 1).min(Timestamp::MAX.ticks()))
    }

    /// The time of the transaction that runs in a slot; `None` if none does, or none that has a time. Exact for who knows that
    /// it has begun, and has not ended after the look.
    #[inline]
    pub(crate) fn of(&self, slot: SlotId) -> Option<Timestamp> {
        match self.running.get(slot.index()).map(|running| running.load(Ordering::SeqCst)) {
            None | Some(NONE) => None,
            Some(time) => Some(Timestamp::new(time)),
        }
    }

    /// The frontier, as it was worked out last.
    pub(crate) fn frontier(&self) -> Timestamp {
        Timestamp::new(self.frontier.load(Ordering::Acquire))
    }

    /// Works out the frontier: a look at each slot.
    pub(crate) fn advance(&self) -> Timestamp {
        let trail = self.trail();
        let times = self.running.iter().map(|running| running.load(Ordering::SeqCst));
        let earliest = times.fold(trail, u64::min);
        Timestamp::new(self.frontier.fetch_max(earliest, Ordering::AcqRel).max(earliest))
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_is_where_the_earliest_began() {
        let times = BeginTimes::new(3);
        let slot = |index| SlotId::new(index).unwrap();
        assert_eq!((times.advance(), times.of(slot(0))), (Timestamp::ZERO, None));
        let (first, _) = times.begin(slot(0));
        let (second, _) = times.begin(slot(1));
        assert_eq!((first.ticks(), second.ticks(), times.of(slot(1))), (1, 2, Some(second)));
        assert_eq!(times.advance(), first);
        times.end(slot(0));
        assert_eq!((times.frontier(), times.advance()), (first, second));
        let (third, _) = times.begin(slot(2));
        times.end(slot(1));
        assert_eq!(times.advance(), third);
        times.end(slot(2));
        assert_eq!((times.advance(), times.draw().ticks(), times.advance().ticks()), (third, 4, 4));
    }

    #[test]
    fn a_time_that_is_brought_is_not_before_the_trail() {
        let times = BeginTimes::new(2);
        let (slot, other) = (SlotId::new(0).unwrap(), SlotId::new(1).unwrap());
        let at = Timestamp::new;
        assert_eq!(times.begin_at(slot, at(1_000), 300), Some(true));
        assert_eq!(times.advance(), at(700), "others may come who are earlier");
        assert_eq!(times.begin_at(other, at(700), 300), Some(false));
        times.end(slot);
        assert_eq!(times.begin_at(slot, at(1_200), 300), Some(true));
        assert_eq!(times.advance(), at(700), "somebody runs there");
        times.end(other);
        assert_eq!(times.begin_at(other, at(899), 300), None);
        assert_eq!((times.of(other), times.advance()), (None, at(900)));
        assert_eq!(times.begin(other).0, at(1_201), "who draws a time comes after all");
    }

    /// Threads that begin and end, beside one that works out the frontier: nobody is ever before it.
    #[test]
    fn nobody_runs_before_the_frontier() {
        let times = &BeginTimes::new(4);
        std::thread::scope(|scope| {
            let begin = |index| {
                scope.spawn(move || {
                    let slot = SlotId::new(index).unwrap();
                    let mut last = Timestamp::ZERO;
                    for _ in 0..20_000 {
                        let (time, _) = times.begin(slot);
                        assert!(time > last);
                        assert!(times.frontier() <= time);
                        assert!(times.advance() <= time);
                        last = time;
                        times.end(slot);
                    }
                })
            };
            let mut threads: Vec<_> = (0..3).map(begin).collect();
            threads.push(scope.spawn(|| {
                let mut last = Timestamp::ZERO;
                for _ in 0..20_000 {
                    let frontier = times.advance();
                    assert!(frontier >= last);
                    last = frontier;
                }
            }));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
