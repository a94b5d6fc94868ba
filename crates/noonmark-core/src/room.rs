//! The waiting room: where transactions that must wait leave their wakers.
//!
//! Keyed by what is waited for. Only the slow path comes here: a holder that lets go learns from a
//! flag in the word it clears whether anybody waits at all.
//!
//! The order that loses no wake-up: the waiter *registers, then flags the word, then looks again*;
//! the holder *changes the word, and if the flag was set, wakes*. If the look finds the word
//! unchanged, the flag was in before the change, so the holder sees it and finds the waker.
//!
//! All waiters for one thing are woken together and look again; who gets it is settled by the rule
//! that they run again, by age where the protocol has ages.

use crate::step::WaitFor;
use crate::sync::{CachePadded, Mutex};
use crate::time::SlotId;
use std::task::Waker;

const SHARDS: usize = 64;

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
        // A panic cannot happen while a shard is locked (the wakers are called outside), so a
        // poisoned one is as good as any.
        let mut waiters = shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        f(&mut waiters)
    }

    /// Leaves a waker; a slot's earlier one for the same thing is replaced.
    pub fn register(&self, on: WaitFor, slot: SlotId, waker: &Waker) {
        self.with_shard(on, |waiters| match waiters.iter_mut().find(|w| w.on == on && w.slot == slot) {
            Some(waiter) => waiter.waker.clone_from(waker),
            None => waiters.push(Waiter { on, slot, waker: waker.clone() }),
        });
    }

    /// Takes a slot's waker back.
    pub fn leave(&self, on: WaitFor, slot: SlotId) {
        let waiter = self.with_shard(on, |waiters| {
            let index = waiters.iter().position(|w| w.on == on && w.slot == slot)?;
            Some(waiters.swap_remove(index))
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
