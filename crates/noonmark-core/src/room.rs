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
//! There are two ways to be woken.
//!
//! *All together* ([`WaitingRoom::wake`]), in the order in which they came; they look again, and who
//! gets it is settled by the rule that they run again.
//!
//! *In turn* ([`WaitingRoom::call`]). Where one alone can have what all wait for, to wake all is worse than useless: each
//! looks, at lines that the one who gets it is in need of; and under rules by which the older makes the younger abort, whoever is
//! first to get it loses it to one who is second and older, again and again. So one is *called*, the oldest or the youngest, or as many as
//! come next and will share it; the others sleep on. What has to be seen to is that the call goes on:
//!
//! - Whoever comes looks, as if he had been called ([`WaitingRoom::line_up`]).
//! - Who is called and **takes** what he waited for says so ([`WaitingRoom::take`]), and marks his own lock if others wait.
//! - Who is called and finds another there has marked *that* one's lock, and waits again ([`WaitingRoom::settle`]).
//! - Who is called and goes away without either ([`WaitingRoom::leave`]), as he need not have it to himself, or has given up, has
//!   **the next one called**: who comes first now, if he has not been called yet.
//!
//! So, *of those who wait the first has seen who holds it, and has marked the lock; or has been called, and has not answered; or
//! stands behind who holds it, who took it when he was first himself, and marked it*. It has to be the first: that somebody is called who was first
//! when he was called, and is not any more, does not do. He may take it, and be one whom the first would have to make abort.
//!
//! Those who sleep on have not looked at the holder that came after the one that they had looked at. Rules by
//! which only the older may wait call the youngest: if he may wait for the new holder, so may all the others, who are older; and if he
//! may not, he goes away, and the next one looks. Rules by which the older makes the younger abort call the oldest: if
//! anybody has to make the new holder abort, he has to. He who gets it from the queue is rightly waited for by all the others, either
//! way.
//!
//! Which of the two it is goes for the whole room ([`WaitingRoom::call_the_oldest_first`]). Where nobody waits for a younger one but he makes it
//! abort, it is the oldest: that the younger wait for the older does no harm then. The same where rules of both kinds come together, as
//! all make the younger abort there. It is the youngest only where the older wait for the younger and leave them alone: there
//! a younger one that slept on behind an older one could be whom that one waits for elsewhere.
//!
//! The order depends on nothing but ages and who came when (what a key hashes to is an accident of addresses), so that a simulated
//! run repeats.
//!
//! What it does not do: it does not know whether what is waited for has happened. A waker may be woken
//! for nothing; one that is no longer wanted should be taken back. Nor does it keep anybody from taking what is free before he
//! who was called comes for it: that would cost a look at the room where nobody waits.

use crate::step::WaitFor;
use crate::sync::{AtomicBool, CachePadded, Mutex, Ordering};
use crate::time::{Age, SlotId};
use std::task::Waker;

#[cfg(not(loom))]
const SHARDS: usize = 64;
/// Loom tracks each mutex: few enough to explore.
#[cfg(loom)]
const SHARDS: usize = 2;

/// What a waiter has been told, and has answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Called, and has not begun to look since.
    Unheard,
    /// Looks now.
    Heard,
    /// Has looked, and sleeps.
    Answered,
}

struct Waiter {
    on: WaitFor,
    slot: SlotId,
    age: Age,
    waker: Waker,
    call: Call,
}

impl Waiter {
    fn waits_for(&self, on: WaitFor) -> bool {
        self.on.place() == on.place()
    }

    fn is(&self, on: WaitFor, slot: SlotId) -> bool {
        self.waits_for(on) && self.slot == slot
    }
}

/// Wakers of those that wait, by what they wait for.
pub struct WaitingRoom {
    shards: Box<[CachePadded<Mutex<Vec<Waiter>>>]>,
    oldest_first: AtomicBool,
}

impl Default for WaitingRoom {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitingRoom {
    /// An empty room.
    pub fn new() -> Self {
        let shards = (0..SHARDS).map(|_| CachePadded(Mutex::new(Vec::new()))).collect();
        WaitingRoom { shards, oldest_first: AtomicBool::new(false) }
    }

    fn with_shard<R>(&self, on: WaitFor, f: impl FnOnce(&mut Vec<Waiter>) -> R) -> R {
        // Fibonacci hashing: the places waited for are aligned, so their low bits say nothing.
        let hash = (on.place() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shard = &self.shards[(hash >> 58) as usize % SHARDS];
        // Nothing panics while a shard is locked (wakers are called and dropped outside), so
        // a poisoned one is as good as any.
        let mut waiters = shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        f(&mut waiters)
    }

    /// Whether from now on the oldest is called, whatever is waited for, or the youngest; until this is said, the youngest is. If
    /// that changes, all who wait are called: who came first may not do so any more.
    pub fn call_the_oldest_first(&self, oldest_first: bool) {
        // Relaxed: whoever calls in a shard after this has been there sees it, by the shard's mutex.
        if self.oldest_first.swap(oldest_first, Ordering::Relaxed) == oldest_first {
            return;
        }
        for shard in &self.shards {
            let mut waiters = shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            waiters.iter_mut().for_each(|waiter| waiter.call = Call::Unheard);
            let called: Vec<Waker> = waiters.iter().map(|waiter| waiter.waker.clone()).collect();
            drop(waiters);
            called.into_iter().for_each(Waker::wake);
        }
    }

    /// Leaves a waker; a slot's earlier one for the same thing is replaced.
    pub fn register(&self, on: WaitFor, slot: SlotId, waker: &Waker) {
        self.line_up(on, slot, Age::YOUNGEST, waker);
    }

    /// The same, by one who has an age, and will look next: he is called, and owes an answer.
    pub fn line_up(&self, on: WaitFor, slot: SlotId, age: Age, waker: &Waker) {
        let (waker, call) = (waker.clone(), Call::Heard);
        let replaced = self.with_shard(on, |waiters| match waiters.iter_mut().find(|w| w.is(on, slot)) {
            Some(waiter) => {
                (waiter.on, waiter.age, waiter.call) = (on, age, call);
                Some(std::mem::replace(&mut waiter.waker, waker))
            }
            None => {
                waiters.push(Waiter { on, slot, age, waker, call });
                None
            }
        });
        drop(replaced);
    }

    /// Answers: has looked, and waits for another holder, whose lock is marked. False: has been called again meanwhile, and is to look once more.
    pub fn settle(&self, on: WaitFor, slot: SlotId) -> bool {
        self.with_shard(on, |waiters| match waiters.iter_mut().find(|w| w.is(on, slot)) {
            Some(waiter) if waiter.call == Call::Unheard => false,
            Some(waiter) => {
                waiter.call = Call::Answered;
                true
            }
            None => false,
        })
    }

    /// Answers: has taken what he waited for. Whether others wait for it, so that the lock is to be marked.
    #[must_use = "others sleep until what they wait for is let go by one who knows of them"]
    pub fn take(&self, on: WaitFor, slot: SlotId) -> bool {
        self.with_shard(on, |waiters| {
            let mut others = false;
            for waiter in waiters.iter_mut().filter(|w| w.waits_for(on)) {
                if waiter.slot == slot {
                    waiter.call = Call::Answered;
                } else {
                    others = true;
                }
            }
            others
        })
    }

    /// Takes a slot's waker back. If it was called, and has not answered, and came first, whoever comes first now is called.
    pub fn leave(&self, on: WaitFor, slot: SlotId) {
        let (waiter, next) = self.with_shard(on, |waiters| {
            let Some(index) = waiters.iter().position(|w| w.is(on, slot)) else {
                return (None, Vec::new());
            };
            // Not `swap_remove`: the others keep their order.
            let waiter = waiters.remove(index);
            let rank = self.rank();
            let came_first = waiters.iter().filter(|w| w.waits_for(on)).all(|w| rank(&waiter) < rank(w));
            let goes_on = came_first && waiter.call != Call::Answered;
            (Some(waiter), if goes_on { self.next(on, waiters) } else { Vec::new() })
        });
        drop(waiter);
        next.into_iter().for_each(Waker::wake);
    }

    /// In which order waiters are called: the one with the least number first.
    fn rank(&self) -> impl Fn(&Waiter) -> u64 + Copy + use<> {
        let oldest_first = self.oldest_first.load(Ordering::Relaxed);
        move |waiter| if oldest_first { waiter.age.bits() } else { !waiter.age.bits() }
    }

    /// Calls those who come next, if they have not been called. Their wakers.
    fn next(&self, on: WaitFor, waiters: &mut [Waiter]) -> Vec<Waker> {
        let rank = self.rank();
        let Some(first) = waiters.iter_mut().filter(|w| w.waits_for(on)).min_by_key(|w| rank(w)) else {
            return Vec::new();
        };
        if first.call == Call::Unheard {
            // He will look at things as they are now.
            return Vec::new();
        }
        first.call = Call::Unheard;
        let mut wakers = vec![first.waker.clone()];
        if first.on.shares() {
            let slot = first.slot;
            let alone = waiters.iter().filter(|w| w.waits_for(on) && !w.on.shares()).map(rank).min();
            let shares = |w: &&mut Waiter| {
                w.waits_for(on)
                    && w.on.shares()
                    && w.slot != slot
                    && alone.is_none_or(|alone| rank(w) < alone)
            };
            for waiter in waiters.iter_mut().filter(shares) {
                if waiter.call != Call::Unheard {
                    waiter.call = Call::Unheard;
                    wakers.push(waiter.waker.clone());
                }
            }
        }
        wakers
    }

    /// Calls whoever comes next of those who wait for this, or those who will share it.
    pub fn call(&self, on: WaitFor) {
        let called = self.with_shard(on, |waiters| self.next(on, waiters));
        called.into_iter().for_each(Waker::wake);
    }

    /// Wakes one who waits for this, whoever is next: he is to look again, for a reason of his own.
    pub fn rouse(&self, on: WaitFor, slot: SlotId) {
        let waker =
            self.with_shard(on, |waiters| waiters.iter().find(|w| w.is(on, slot)).map(|w| w.waker.clone()));
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Wakes all who wait for this; their wakers are used up.
    pub fn wake(&self, on: WaitFor) {
        let woken: Vec<Waiter> =
            self.with_shard(on, |waiters| waiters.extract_if(.., |w| w.waits_for(on)).collect());
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

    /// Waiters 1, 2 and so on, in the order of their ages: who is called, one call after the other.
    fn in_turn(
        oldest_first: bool,
        wait: impl Fn(usize, WaitFor) -> WaitFor,
    ) -> (WaitingRoom, WaitFor, impl FnMut() -> Vec<usize>) {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let room = WaitingRoom::new();
        room.call_the_oldest_first(oldest_first);
        let on = WaitFor::release_of(&woken);
        for who in [3, 1, 4, 2] {
            let waker = Waker::from(Arc::new(Noting(who, woken.clone())));
            room.line_up(wait(who, on), slot(who), Age::new(who as u64, slot(who)), &waker);
            assert!(room.settle(on, slot(who)));
        }
        (room, on, move || std::mem::take(&mut *woken.lock().unwrap()))
    }

    /// Begins to look, having been called.
    fn looks(room: &WaitingRoom, on: WaitFor, who: usize) {
        room.line_up(on, slot(who), Age::new(who as u64, slot(who)), Waker::noop());
    }

    #[test]
    fn the_oldest_or_the_youngest_is_called_and_the_next_one_when_he_goes_away() {
        for oldest_first in [true, false] {
            let (room, on, mut woken) = in_turn(oldest_first, |_, on| on);
            let order = if oldest_first { [1, 2, 3, 4] } else { [4, 3, 2, 1] };
            room.call(on);
            room.call(on);
            assert_eq!(woken(), [order[0]], "once, until he has looked");
            looks(&room, on, order[0]);
            room.leave(on, slot(order[0]));
            assert_eq!(woken(), [order[1]]);
            room.leave(on, slot(order[3]));
            assert_eq!(woken(), [], "who was not called has nothing to hand on");
            room.leave(on, slot(order[1]));
            assert_eq!(woken(), [order[2]], "unheard, it is handed on, too");
            room.leave(on, slot(order[2]));
            assert_eq!((room.count(), woken()), (0, vec![]));
        }
    }

    #[test]
    fn who_takes_it_and_who_waits_for_another_have_answered() {
        let (room, on, mut woken) = in_turn(true, |_, on| on);
        room.call(on);
        looks(&room, on, 1);
        assert!(room.settle(on, slot(1)));
        room.leave(on, slot(1));
        assert_eq!(woken(), [1]);
        room.call(on);
        looks(&room, on, 2);
        room.call(on);
        assert!(!room.settle(on, slot(2)), "called again while he looked, which he is to answer");
        assert_eq!(woken(), [2]);
        looks(&room, on, 2);
        assert!(room.take(on, slot(2)), "others wait");
        room.leave(on, slot(2));
        assert_eq!(woken(), []);
        room.leave(on, slot(3));
        room.call(on);
        looks(&room, on, 4);
        assert!(!room.take(on, slot(4)));
    }

    #[test]
    fn those_who_share_are_called_together_and_the_last_of_them_hands_on() {
        let (room, on, mut woken) = in_turn(true, |who, on| if who == 3 { on } else { on.to_share() });
        room.call(on);
        assert_eq!(woken(), [1, 2], "not the fourth, who is behind one who will not share");
        looks(&room, on.to_share(), 1);
        room.leave(on, slot(1));
        assert_eq!(woken(), []);
        room.leave(on, slot(2));
        assert_eq!(woken(), [3]);
    }

    /// One of those in [`whoever_comes_first_sees_who_holds_it`].
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Doing {
        Nothing,
        /// Has lined up, and is about to look.
        Looks,
        /// Has marked the lock, and is about to settle.
        Marked,
        /// The same, and has settled.
        Sleeps,
        /// Has taken it, and is about to leave.
        Took,
        Holds,
        /// Need not have it, or may not wait for who holds it.
        Leaves,
    }

    /// Who has it, in [`whoever_comes_first_sees_who_holds_it`].
    struct Lock {
        holder: usize,
        is_marked: bool,
        is_wounded: bool,
    }

    /// Six who wait, take, barge in, share, give up and let go at random, a step of one of them at a time, under wound-wait and under
    /// wait-die. Whoever sleeps and has to make the holder abort, or to abort himself, is behind one who is awake, unless it is done already; and
    /// while it is free somebody who waits is awake.
    ///
    /// *Planted*: a `leave` that has nobody called while somebody else is; one that takes who looks for one who has seen it all; who comes anew
    /// is not called; who is called while he looks has answered that when he settles.
    #[test]
    fn whoever_comes_first_sees_who_holds_it() {
        for seed in 0..1000 {
            random_waits(seed, seed % 2 == 0, 500);
        }
    }

    fn random_waits(seed: u64, oldest_first: bool, steps: usize) {
        const WAITERS: usize = 6;
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = move |limit: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 33) as usize % limit
        };
        let woken = Arc::new(Mutex::new(Vec::new()));
        let room = WaitingRoom::new();
        room.call_the_oldest_first(oldest_first);
        let on = WaitFor::release_of(&woken);
        let mut doing = [Doing::Nothing; WAITERS];
        let (mut began, mut shares, mut awake) = ([0; WAITERS], [false; WAITERS], [false; WAITERS]);
        let age = |began: &[u64; WAITERS], who: usize| Age::new(began[who], slot(who));
        let before = |began: &[u64; WAITERS], a: usize, b: usize| {
            age(began, a).is_older_than(age(began, b)) == oldest_first && a != b
        };
        let mut lock: Option<Lock> = None;
        for step in 1..=steps {
            let who = below(WAITERS);
            let line_up = |began: &[u64; WAITERS], shares: bool| {
                let on = if shares { on.to_share() } else { on };
                let waker = Waker::from(Arc::new(Noting(who, woken.clone())));
                room.line_up(on, slot(who), age(began, who), &waker);
                Doing::Looks
            };
            doing[who] = match doing[who] {
                Doing::Nothing => {
                    // Half of them begin anew; the others are older than most by now.
                    if below(2) == 0 || began[who] == 0 {
                        began[who] = step as u64;
                    }
                    shares[who] = below(2) == 0;
                    if lock.is_none() && !shares[who] {
                        lock = Some(Lock { holder: who, is_marked: false, is_wounded: false });
                        Doing::Holds
                    } else {
                        line_up(&began, shares[who])
                    }
                }
                Doing::Looks => match &mut lock {
                    Some(lock) if oldest_first || !before(&began, who, lock.holder) => {
                        lock.is_marked = true;
                        lock.is_wounded |= before(&began, who, lock.holder);
                        Doing::Marked
                    }
                    Some(_) => Doing::Leaves,
                    None if shares[who] => Doing::Leaves,
                    None => {
                        let is_marked = room.take(on, slot(who));
                        lock = Some(Lock { holder: who, is_marked, is_wounded: false });
                        Doing::Took
                    }
                },
                Doing::Marked => {
                    room.settle(on, slot(who));
                    Doing::Sleeps
                }
                Doing::Sleeps if below(20) > 0 => match std::mem::take(&mut awake[who]) {
                    true => line_up(&began, shares[who]),
                    false => Doing::Sleeps,
                },
                Doing::Sleeps | Doing::Leaves => {
                    room.leave(on, slot(who));
                    awake[who] = false;
                    Doing::Nothing
                }
                Doing::Took => {
                    room.leave(on, slot(who));
                    awake[who] = false;
                    Doing::Holds
                }
                Doing::Holds => {
                    if lock.take().is_some_and(|lock| lock.is_marked) {
                        room.call(on);
                    }
                    Doing::Nothing
                }
            };
            woken.lock().unwrap().drain(..).for_each(|who| awake[who] = true);
            let waits = |who: &usize| !matches!(doing[*who], Doing::Nothing | Doing::Holds | Doing::Took);
            let waiting: Vec<usize> = (0..WAITERS).filter(waits).collect();
            let sleeps = |who: usize| doing[who] == Doing::Sleeps && !awake[who];
            let late = match &lock {
                None => {
                    waiting.iter().all(|&who| sleeps(who)).then_some(&waiting).and_then(|all| all.first())
                }
                Some(lock) if lock.is_wounded => None,
                Some(lock) => waiting.iter().find(|&&who| {
                    let is_told = |&other: &usize| before(&began, other, who) && !sleeps(other);
                    before(&began, who, lock.holder) && sleeps(who) && !waiting.iter().any(is_told)
                }),
            };
            assert_eq!(late, None, "seed {seed}, step {step}: {doing:?}, began {began:?}, awake {awake:?}");
        }
    }

    #[test]
    fn who_is_roused_looks_and_the_next_one_is_called_if_he_came_first() {
        let (room, on, mut woken) = in_turn(false, |_, on| on);
        room.rouse(on, slot(2));
        looks(&room, on, 2);
        room.leave(on, slot(2));
        assert_eq!(woken(), [2], "the fourth comes first, and has answered");
        room.rouse(on, slot(4));
        looks(&room, on, 4);
        room.leave(on, slot(4));
        assert_eq!(woken(), [4, 3]);
        room.wake(on);
        assert_eq!((woken().len(), room.count()), (2, 0));
    }

    #[test]
    fn all_are_called_once_others_come_first() {
        let (room, on, mut woken) = in_turn(false, |_, on| on);
        room.call_the_oldest_first(true);
        assert_eq!(woken(), [3, 1, 4, 2]);
        room.call_the_oldest_first(true);
        assert_eq!(woken(), []);
        for who in 1..=4 {
            assert!(!room.settle(on, slot(who)));
            looks(&room, on, who);
            assert!(room.settle(on, slot(who)));
        }
        room.call(on);
        assert!(room.settle(on, slot(4)) && !room.settle(on, slot(1)));
    }
}
