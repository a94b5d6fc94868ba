//! The waiting room: where transactions that must wait leave their wakers.
//!
//! Keyed by what is waited for. Only the slow path comes here: a holder that lets go learns from a
//! flag in the word it clears whether anybody waits at all.
//!
//! The order that loses no wake-up: the waiter *registers, then marks the word as it last saw it*,
//! which fails if the word has changed; the holder *changes the word, and if the mark was set,
//! wakes*. Say the marking succeeds. Then the holder's change comes later, finds the mark, and goes to
//! the room. It either finds the waker there, or has been there before the waker came; but in that
//! case the room's mutex has put the change before the marking, which would have failed.
//!
//! All waiters for one thing are woken together, in the order in which they came, and look again; who
//! gets it is settled by the rule that they run again, by age where the protocol has ages. The order
//! depends on nothing else (what a key hashes to is an accident of addresses), so that a simulated
//! run repeats.
//!
//! What it does not do: it does not know whether what is waited for has happened. A waker may be woken
//! for nothing; one that is no longer wanted should be taken back.

use crate::step::WaitFor;
use crate::sync::{CachePadded, Mutex};
use crate::time::SlotId;
use std::task::Waker;

#[cfg(not(loom))]
const SHARDS: usize = 64;
/// Loom tracks each mutex: few enough to explore.
#[cfg(loom)]
const SHARDS: usize = 2;

struct Waiter {
    on: WaitFor,
    slot: SlotId,
    waker: Waker,
}

/// Wakers of those that wait, by what they wait for.
pub struct WaitingRoom {
    shards: Box<[CachePadded<Mutex<Vec<Waiter>>>]>,
}

impl Default for WaitingRoom {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitingRoom {
    /// An empty room.
    pub fn new() -> Self {
        WaitingRoom { shards: (0..SHARDS).map(|_| CachePadded(Mutex::new(Vec::new()))).collect() }
    }

    fn with_shard<R>(&self, on: WaitFor, f: impl FnOnce(&mut Vec<Waiter>) -> R) -> R {
        // Fibonacci hashing: the places waited for are aligned, so their low bits say nothing.
        let hash = (on.key() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shard = &self.shards[(hash >> 58) as usize % SHARDS];
        // Nothing panics while a shard is locked (wakers are cloned, called and dropped outside), so
        // a poisoned one is as good as any.
        let mut waiters = shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        f(&mut waiters)
    }

    /// Leaves a waker; a slot's earlier one for the same thing is replaced.
    pub fn register(&self, on: WaitFor, slot: SlotId, waker: &Waker) {
        let waker = waker.clone();
        let replaced =
            self.with_shard(on, |waiters| match waiters.iter_mut().find(|w| w.on == on && w.slot == slot) {
                Some(waiter) => Some(std::mem::replace(&mut waiter.waker, waker)),
                None => {
                    waiters.push(Waiter { on, slot, waker });
                    None
                }
            });
        drop(replaced);
    }

    /// Takes a slot's waker back.
    pub fn leave(&self, on: WaitFor, slot: SlotId) {
        let waiter = self.with_shard(on, |waiters| {
            let index = waiters.iter().position(|w| w.on == on && w.slot == slot)?;
            // Not `swap_remove`: the others keep their order.
            Some(waiters.remove(index))
        });
        drop(waiter);
    }

    /// Wakes all who wait for this; their wakers are used up.
    pub fn wake(&self, on: WaitFor) {
        let woken: Vec<Waiter> =
            self.with_shard(on, |waiters| waiters.extract_if(.., |w| w.on == on).collect());
        for waiter in woken {
            waiter.waker.wake();
        }
    }

    /// How many wait, over all. For tests and statistics.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|s| s.lock().unwrap_or_else(|p| p.into_inner()).len()).sum()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Notes who was woken.
    struct Noting(usize, Arc<Mutex<Vec<usize>>>);

    impl std::task::Wake for Noting {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    fn slot(index: usize) -> SlotId {
        SlotId::new(index).unwrap()
    }

    #[test]
    fn those_who_wait_are_woken_once_in_the_order_in_which_they_came() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let waker = |who| Waker::from(Arc::new(Noting(who, woken.clone())));
        let room = WaitingRoom::new();
        // Enough other places that many share a shard with the one of interest.
        let places: Vec<u64> = (0..1000).collect();
        let on = WaitFor::release_of(&places[500]);
        for who in 0..4 {
            for place in &places {
                room.register(WaitFor::release_of(place), slot(who), &waker(who));
            }
        }
        assert_eq!(room.count(), 4000);
        for place in places.iter().filter(|&&p| p != 500) {
            room.leave(WaitFor::release_of(place), slot(0));
            room.leave(WaitFor::release_of(place), slot(0));
        }
        assert_eq!(room.count(), 4 + 999 * 3);
        room.wake(on);
        assert_eq!(std::mem::take(&mut *woken.lock().unwrap()), [0, 1, 2, 3]);
        room.wake(on);
        assert_eq!(*woken.lock().unwrap(), []);
        assert_eq!(room.count(), 999 * 3);
    }

    #[test]
    fn a_later_waker_replaces_the_earlier_one() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let waker = |who| Waker::from(Arc::new(Noting(who, woken.clone())));
        let room = WaitingRoom::new();
        let on = WaitFor::release_of(&room);
        room.register(on, slot(1), &waker(10));
        room.register(on, slot(2), &waker(20));
        room.register(on, slot(1), &waker(11));
        assert_eq!(room.count(), 2);
        room.leave(on, slot(2));
        room.wake(on);
        assert_eq!((*woken.lock().unwrap()).as_slice(), [11]);
        assert_eq!((room.count(), Arc::strong_count(&woken)), (0, 1), "no waker is kept");
    }
}
