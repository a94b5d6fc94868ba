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
//! *In turn* ([`WaitingRoom::let_go`]). Where one alone can have what all wait for, to wake all is worse than useless: each
//! looks, at lines that the one who gets it is in need of; and under rules by which the older makes the younger abort, whoever is
//! first to get it loses it to one who is second and older, again and again. So one is *called*, the oldest or the youngest, or as many as
//! come next and will share it; the others sleep on. What has to be seen to is that the call goes on:
//!
//! - Whoever comes looks, as if he had been called ([`WaitingRoom::line_up`]).
//! - Who is called and **takes** what he waited for says so ([`WaitingRoom::take`]), and marks his own lock if others wait.
//! - Who is called and finds another there has marked *that* one's lock, and waits again ([`WaitingRoom::settle`]).
//! - Who is called and goes away without either ([`WaitingRoom::leave_line`]), as he need not have it to himself, or has given up, has
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
//! # Who is passed too often has it handed to him
//!
//! Until he who was called comes for it, anybody may take what is free. That is as it should be: it would lie idle until he has woken. But he may
//! not come for long, on a machine with more threads than cores for tens of milliseconds; and then may be too late again. So those who stand in
//! line are counted past ([`WaitingRoom::let_go`]): what is let go while somebody is in line stays marked as *awaited*, so that he who takes it
//! marks his lock in turn, and comes here, too, when he lets go. From the time on at which somebody has been passed
//! [`PASSES_MAX`] times, what is let go is **handed over**: to the oldest, who is its holder then before he has woken. He finds it in
//! his hands when he looks; who goes away without having taken it gives it back ([`WaitingRoom::leave_line`]).
//!
//! *So nobody is passed more often than that, and once more for each who stands in line with him and is older.* It has to be the oldest. All others may
//! wait for the older or, under rules by which only the older wait, are to abort: they are called all together then, and look. To anybody else it
//! could not be handed behind the back of those who are older and asleep, as they would have to make him abort, or wait for him
//! though they are waited for by him.
//!
//! What it does not do: it does not know whether what is waited for has happened. A waker may be woken
//! for nothing; one that is no longer wanted should be taken back.

use crate::step::WaitFor;
use crate::sync::{AtomicBool, CachePadded, Mutex, Ordering};
use crate::time::{Age, SlotId, TxnId};
use crate::word::{MaybeWord, Word};
use std::task::Waker;

/// How often what somebody stands in line for may go to others, until it is handed over, unless another number is asked for.
pub const PASSES_MAX: u32 = 10_000;

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
    /// Who it is handed to; nobody, if he does not stand in line.
    txn: Option<TxnId>,
    /// How often it was let go since he lined up.
    passed: u32,
    /// It has been handed over, and was left like this.
    handed: MaybeWord,
}

/// What becomes of what is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// It is free.
    Free,
    /// It is free, and somebody stands in line for it: whoever takes it is to mark his lock.
    Awaited,
    /// It is this one's.
    HandedTo(TxnId),
}

impl Waiter {
    fn waits_for(&self, on: WaitFor) -> bool {
        self.on.place() == on.place()
    }

    fn is(&self, on: WaitFor, slot: SlotId) -> bool {
        self.waits_for(on) && self.slot == slot
    }

    /// Calls him; his waker, if he sleeps. Who looks finds out when he [settles](WaitingRoom::settle).
    fn call(&mut self) -> Option<Waker> {
        match std::mem::replace(&mut self.call, Call::Unheard) {
            Call::Answered => Some(self.waker.clone()),
            Call::Heard | Call::Unheard => None,
        }
    }
}

/// Wakers of those that wait, by what they wait for.
pub struct WaitingRoom {
    shards: Box<[CachePadded<Mutex<Vec<Waiter>>>]>,
    oldest_first: AtomicBool,
    passes_max: u32,
}

impl Default for WaitingRoom {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitingRoom {
    /// An empty room.
    pub fn new() -> Self {
        Self::with_passes_max(PASSES_MAX)
    }

    /// An empty room, in which what somebody stands in line for may go to others so often.
    pub fn with_passes_max(passes_max: u32) -> Self {
        let shards = (0..SHARDS).map(|_| CachePadded(Mutex::new(Vec::new()))).collect();
        WaitingRoom { shards, oldest_first: AtomicBool::new(false), passes_max }
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
        self.come(on, slot, None, Age::YOUNGEST, waker, Call::Answered);
    }

    /// The same, by one who has an age, stands in line, and will look next: he is called, and owes an answer.
    pub fn line_up(&self, on: WaitFor, txn: TxnId, age: Age, waker: &Waker) {
        self.come(on, txn.slot(), Some(txn), age, waker, Call::Heard);
    }

    fn come(&self, on: WaitFor, slot: SlotId, txn: Option<TxnId>, age: Age, waker: &Waker, call: Call) {
        let waker = waker.clone();
        let replaced = self.with_shard(on, |waiters| match waiters.iter_mut().find(|w| w.is(on, slot)) {
            Some(waiter) => {
                (waiter.on, waiter.age, waiter.call) = (on, age, call);
                Some(std::mem::replace(&mut waiter.waker, waker))
            }
            None => {
                let handed = MaybeWord::NONE;
                waiters.push(Waiter { on, slot, age, waker, call, txn, passed: 0, handed });
                None
            }
        });
        drop(replaced);
    }

    /// Answers: has looked, and waits for another holder, whose lock is marked. False: has been called again meanwhile, and looks once more; nobody
    /// will wake him. (Where [all have been woken](Self::wake) meanwhile, he has been, too.)
    pub fn settle(&self, on: WaitFor, slot: SlotId) -> bool {
        self.with_shard(on, |waiters| match waiters.iter_mut().find(|w| w.is(on, slot)) {
            Some(waiter) if waiter.call == Call::Unheard => {
                waiter.call = Call::Heard;
                false
            }
            Some(waiter) => {
                waiter.call = Call::Answered;
                true
            }
            None => true,
        })
    }

    /// Answers: has taken what he waited for, or has found it in his hands. What it was when it was let go, if it has been handed to him.
    pub fn take(&self, on: WaitFor, slot: SlotId) -> Option<Word> {
        self.with_shard(on, |waiters| {
            let waiter = waiters.iter_mut().find(|w| w.is(on, slot))?;
            waiter.call = Call::Answered;
            std::mem::replace(&mut waiter.handed, MaybeWord::NONE).get()
        })
    }

    /// Takes a slot's waker back, of one who [registered](Self::register).
    pub fn leave(&self, on: WaitFor, slot: SlotId) {
        let handed = self.leave_line(on, slot);
        debug_assert!(handed.is_none(), "handed to one who does not stand in line");
    }

    /// Takes the waker back of one who [lined up](Self::line_up). If he was called, and has not answered, and came first, whoever comes first now is
    /// called.
    ///
    /// What it was when it was let go, if it has been handed to him and he has not [taken](Self::take) it: it is his, and he is to let it go.
    #[must_use = "what is in nobody's hands is waited for in vain"]
    pub fn leave_line(&self, on: WaitFor, slot: SlotId) -> Option<Word> {
        let (waiter, next) = self.with_shard(on, |waiters| {
            let Some(index) = waiters.iter().position(|w| w.is(on, slot)) else {
                return (None, Vec::new());
            };
            // Not `swap_remove`: the others keep their order.
            let waiter = waiters.remove(index);
            let rank = self.rank();
            let came_first = waiters.iter().filter(|w| w.waits_for(on)).all(|w| rank(&waiter) < rank(w));
            let goes_on = came_first && waiter.call != Call::Answered && waiter.handed == MaybeWord::NONE;
            (Some(waiter), if goes_on { self.next(on, waiters) } else { Vec::new() })
        });
        let handed = waiter.and_then(|waiter| waiter.handed.get());
        next.into_iter().for_each(Waker::wake);
        handed
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
        let mut wakers: Vec<Waker> = first.call().into_iter().collect();
        if first.on.shares() {
            let slot = first.slot;
            let alone = waiters.iter().filter(|w| w.waits_for(on) && !w.on.shares()).map(rank).min();
            let shares = |w: &&mut Waiter| {
                w.waits_for(on)
                    && w.on.shares()
                    && w.slot != slot
                    && alone.is_none_or(|alone| rank(w) < alone)
            };
            wakers.extend(waiters.iter_mut().filter(shares).filter_map(Waiter::call));
        }
        wakers
    }

    /// Lets go of what others wait for in line: `leave` makes it what it is to be, and was [marked](crate::VersionWord::mark_waiters) until then.
    /// Whoever comes next is called. `word` is what it is left as, and is kept for the one to whom it is handed over; if that is
    /// [of no use any more](Word::RECLAIMED), it is handed to nobody.
    pub fn let_go(&self, on: WaitFor, word: Word, leave: impl FnOnce(LetGo)) {
        let called = self.with_shard(on, |waiters| {
            let (mut awaited, mut is_due) = (false, false);
            for waiter in waiters.iter_mut().filter(|w| w.waits_for(on)) {
                awaited = true;
                is_due |= waiter.txn.is_some() && waiter.passed >= self.passes_max;
                waiter.passed = waiter.passed.saturating_add(1);
            }
            if is_due && !word.is_reclaimed() {
                let stand = waiters.iter_mut().filter(|w| w.waits_for(on));
                let oldest =
                    stand.filter_map(|w| w.txn.map(|txn| (txn, w))).min_by_key(|(_, w)| w.age.bits());
                if let Some((txn, oldest)) = oldest {
                    oldest.handed = Some(word).into();
                    leave(LetGo::HandedTo(txn));
                    return self.called_to_hand_over(on, waiters, txn.slot());
                }
            }
            leave(if awaited { LetGo::Awaited } else { LetGo::Free });
            self.next(on, waiters)
        });
        called.into_iter().for_each(Waker::wake);
    }

    /// Those who are to know that it has been handed to this one: he himself; and all others, if they may not wait for one who is older.
    fn called_to_hand_over(&self, on: WaitFor, waiters: &mut [Waiter], to: SlotId) -> Vec<Waker> {
        let may_wait = self.oldest_first.load(Ordering::Relaxed);
        let told = waiters.iter_mut().filter(|w| w.waits_for(on) && (w.slot == to || !may_wait));
        told.filter_map(Waiter::call).collect()
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
    use std::sync::Arc;

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

    fn txn(index: usize) -> TxnId {
        TxnId::new(slot(index), 1)
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
            room.line_up(wait(who, on), txn(who), Age::new(who as u64, slot(who)), &waker);
            assert!(room.settle(on, slot(who)));
        }
        (room, on, move || std::mem::take(&mut *woken.lock().unwrap()))
    }

    /// Begins to look, having been called.
    fn looks(room: &WaitingRoom, on: WaitFor, who: usize) {
        room.line_up(on, txn(who), Age::new(who as u64, slot(who)), Waker::noop());
    }

    #[test]
    fn the_oldest_or_the_youngest_is_called_and_the_next_one_when_he_goes_away() {
        for oldest_first in [true, false] {
            let (room, on, mut woken) = in_turn(oldest_first, |_, on| on);
            let order = if oldest_first { [1, 2, 3, 4] } else { [4, 3, 2, 1] };
            let_go(&room, on);
            let_go(&room, on);
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
        let_go(&room, on);
        looks(&room, on, 1);
        assert!(room.settle(on, slot(1)));
        room.leave(on, slot(1));
        assert_eq!(woken(), [1]);
        let_go(&room, on);
        looks(&room, on, 2);
        let_go(&room, on);
        assert!(!room.settle(on, slot(2)), "called again while he looked, which he is to answer");
        assert_eq!(woken(), [2], "once");
        assert_eq!(room.take(on, slot(2)), None, "he has taken it himself");
        room.leave(on, slot(2));
        assert_eq!(woken(), []);
        room.leave(on, slot(3));
        let_go(&room, on);
        looks(&room, on, 4);
        assert!(room.settle(on, slot(4)));
    }

    /// How it was let go.
    fn let_go(room: &WaitingRoom, on: WaitFor) -> LetGo {
        let mut how = None;
        room.let_go(on, Word::FREE, |next| how = Some(next));
        how.unwrap()
    }

    #[test]
    fn who_is_passed_too_often_has_it_handed_to_him() {
        for oldest_first in [true, false] {
            let (mut room, on, mut woken) = in_turn(oldest_first, |_, on| on);
            room.passes_max = 2;
            for _ in 0..2 {
                assert_eq!(let_go(&room, on), LetGo::Awaited);
            }
            assert_eq!(woken(), [if oldest_first { 1 } else { 4 }], "called once");
            assert_eq!(let_go(&room, on), LetGo::HandedTo(txn(1)), "the oldest");
            // The others may wait for him, or are all to look, who has not been called yet.
            assert_eq!(woken(), if oldest_first { vec![] } else { vec![3, 1, 2] });
            assert_eq!(room.take(on, slot(1)), Some(Word::FREE));
            assert_eq!(room.take(on, slot(1)), None, "once");
            room.leave(on, slot(1));
            assert_eq!(let_go(&room, on), LetGo::HandedTo(txn(2)), "passed as often");
            assert_eq!(room.leave_line(on, slot(2)), Some(Word::FREE), "he goes away, and has it");
            room.register(on, slot(5), Waker::noop());
            room.leave(on, slot(3));
            room.leave(on, slot(4));
            for _ in 0..5 {
                assert_eq!(
                    let_go(&room, on),
                    LetGo::Awaited,
                    "who does not stand in line has nothing handed to him"
                );
            }
            room.leave(on, slot(5));
            assert_eq!(let_go(&room, on), LetGo::Free);
        }
    }

    #[test]
    fn what_is_of_no_use_is_handed_to_nobody() {
        let (mut room, on, mut woken) = in_turn(true, |_, on| on);
        room.passes_max = 0;
        room.let_go(on, Word::RECLAIMED, |next| assert_eq!(next, LetGo::Awaited));
        assert_eq!(woken(), [1]);
    }

    #[test]
    fn those_who_share_are_called_together_and_the_last_of_them_hands_on() {
        let (room, on, mut woken) = in_turn(true, |who, on| if who == 3 { on } else { on.to_share() });
        let_go(&room, on);
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
    /// while it is free somebody who waits is awake. Once somebody has been passed as often as may be, it goes to nobody who is younger than he.
    ///
    /// *Planted*: what is handed over is the first's, not the oldest's; the others are not called then under wait-die; who goes away does not
    /// give back what he had not taken; a `leave` that has nobody called while somebody else is; one that takes who looks for one who has seen it all; who comes anew
    /// is not called; who is called while he looks has answered that when he settles.
    #[test]
    fn whoever_comes_first_sees_who_holds_it() {
        for seed in 0..2000 {
            let mut crowd = Crowd::new(seed, seed % 2 == 0, [0, 1, 3, 10][seed as usize / 2 % 4]);
            for step in 1..=500 {
                crowd.step(step);
                assert_eq!(crowd.late(), None, "seed {seed}, step {step}: {crowd}");
            }
        }
    }

    const CROWD: usize = 6;

    struct Crowd {
        room: WaitingRoom,
        on: WaitFor,
        woken: Arc<Mutex<Vec<usize>>>,
        random: u64,
        oldest_first: bool,
        passes_max: u32,
        doing: [Doing; CROWD],
        began: [u64; CROWD],
        shares: [bool; CROWD],
        awake: [bool; CROWD],
        /// How often it was let go since he lined up.
        passed: [u32; CROWD],
        lock: Option<Lock>,
        /// Whoever takes it finds that somebody stands in line.
        is_awaited: bool,
    }

    impl std::fmt::Display for Crowd {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{:?}, began {:?}, awake {:?}", self.doing, self.began, self.awake)
        }
    }

    impl Crowd {
        fn new(seed: u64, oldest_first: bool, passes_max: u32) -> Self {
            let woken = Arc::new(Mutex::new(Vec::new()));
            let room = WaitingRoom::with_passes_max(passes_max);
            room.call_the_oldest_first(oldest_first);
            Crowd {
                room,
                on: WaitFor::release_of(&woken),
                woken,
                random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
                oldest_first,
                passes_max,
                doing: [Doing::Nothing; CROWD],
                began: [0; CROWD],
                shares: [false; CROWD],
                awake: [false; CROWD],
                passed: [0; CROWD],
                lock: None,
                is_awaited: false,
            }
        }

        fn below(&mut self, limit: usize) -> usize {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            (self.random >> 33) as usize % limit
        }

        fn age(&self, who: usize) -> Age {
            Age::new(self.began[who], slot(who))
        }

        /// Whether he is called before this other one.
        fn is_before(&self, who: usize, other: usize) -> bool {
            who != other && self.age(who).is_older_than(self.age(other)) == self.oldest_first
        }

        fn waits(&self, who: usize) -> bool {
            !matches!(self.doing[who], Doing::Nothing | Doing::Holds | Doing::Took)
        }

        fn sleeps(&self, who: usize) -> bool {
            self.doing[who] == Doing::Sleeps && !self.awake[who]
        }

        fn line_up(&self, who: usize) -> Doing {
            let on = if self.shares[who] { self.on.to_share() } else { self.on };
            let waker = Waker::from(Arc::new(Noting(who, self.woken.clone())));
            self.room.line_up(on, txn(who), self.age(who), &waker);
            Doing::Looks
        }

        fn let_go(&mut self, by: usize) {
            let Some(lock) = self.lock.take() else { panic!("not held: {self}") };
            self.is_awaited = false;
            if !lock.is_marked {
                return;
            }
            let line: Vec<usize> = (0..CROWD).filter(|&who| who != by && self.waits(who)).collect();
            let is_due = line.iter().any(|&who| self.passed[who] >= self.passes_max);
            let how = let_go(&self.room, self.on);
            if let LetGo::HandedTo(to) = how {
                let holder = to.slot().index();
                assert!(
                    !line.iter().any(|&who| self.age(who).is_older_than(self.age(holder))),
                    "{how:?}: {self}"
                );
                self.lock = Some(Lock { holder, is_marked: true, is_wounded: false });
            }
            assert_eq!(is_due, self.lock.is_some(), "{how:?}: {self}");
            self.is_awaited = how == LetGo::Awaited;
            line.into_iter().for_each(|who| self.passed[who] += 1);
        }

        fn step(&mut self, step: u64) {
            let who = self.below(CROWD);
            let doing = self.doing[who];
            self.doing[who] = match doing {
                Doing::Nothing => {
                    // Half of them begin anew; the others are older than most by now.
                    if self.below(2) == 0 || self.began[who] == 0 {
                        self.began[who] = step;
                    }
                    self.shares[who] = self.below(2) == 0;
                    if self.lock.is_none() && !self.shares[who] {
                        let is_marked = self.is_awaited;
                        self.lock = Some(Lock { holder: who, is_marked, is_wounded: false });
                        Doing::Holds
                    } else {
                        self.passed[who] = 0;
                        self.line_up(who)
                    }
                }
                Doing::Looks => match self.lock.as_ref().map(|lock| lock.holder) {
                    // Whoever shares goes away with what he has been handed, and lets go of it.
                    None if self.shares[who] => Doing::Leaves,
                    Some(holder) if holder == who && self.shares[who] => Doing::Leaves,
                    Some(holder) if holder == who => {
                        assert!(self.room.take(self.on, slot(who)).is_some(), "{self}");
                        Doing::Took
                    }
                    None => {
                        assert_eq!(self.room.take(self.on, slot(who)), None, "{self}");
                        let is_marked = self.is_awaited;
                        self.lock = Some(Lock { holder: who, is_marked, is_wounded: false });
                        Doing::Took
                    }
                    Some(holder) if self.oldest_first || !self.is_before(who, holder) => {
                        let is_wounded = self.is_before(who, holder);
                        if let Some(lock) = &mut self.lock {
                            lock.is_marked = true;
                            lock.is_wounded |= is_wounded;
                        }
                        Doing::Marked
                    }
                    Some(_) => Doing::Leaves,
                },
                Doing::Marked => {
                    if self.room.settle(self.on, slot(who)) {
                        Doing::Sleeps
                    } else {
                        Doing::Looks
                    }
                }
                Doing::Sleeps if self.below(20) > 0 => match std::mem::take(&mut self.awake[who]) {
                    true => self.line_up(who),
                    false => Doing::Sleeps,
                },
                Doing::Sleeps | Doing::Leaves => {
                    let handed = self.room.leave_line(self.on, slot(who));
                    assert_eq!(
                        handed.is_some(),
                        self.lock.as_ref().is_some_and(|lock| lock.holder == who),
                        "{self}"
                    );
                    if handed.is_some() {
                        self.let_go(who);
                    }
                    self.awake[who] = false;
                    Doing::Nothing
                }
                Doing::Took => {
                    assert_eq!(self.room.leave_line(self.on, slot(who)), None, "{self}");
                    self.awake[who] = false;
                    Doing::Holds
                }
                Doing::Holds => {
                    self.let_go(who);
                    Doing::Nothing
                }
            };
            let woken = std::mem::take(&mut *self.woken.lock().unwrap());
            woken.into_iter().for_each(|who| self.awake[who] = true);
        }

        /// Somebody who sleeps, and for whose sake somebody should be awake.
        fn late(&self) -> Option<usize> {
            let mut waiting = (0..CROWD).filter(|&who| self.waits(who));
            match &self.lock {
                None if waiting.clone().all(|who| self.sleeps(who)) => waiting.next(),
                None => None,
                Some(lock) if lock.is_wounded => None,
                // Once he has what he was handed, or gives it back.
                Some(lock) if self.waits(lock.holder) => self.sleeps(lock.holder).then_some(lock.holder),
                Some(lock) => waiting.clone().find(|&who| {
                    let is_told = |other: usize| self.is_before(other, who) && !self.sleeps(other);
                    self.is_before(who, lock.holder) && self.sleeps(who) && !waiting.clone().any(is_told)
                }),
            }
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
        assert!(room.settle(on, slot(1)), "he has been woken");
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
        let_go(&room, on);
        assert!(room.settle(on, slot(4)) && !room.settle(on, slot(1)));
    }
}
