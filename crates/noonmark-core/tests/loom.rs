//! The base under loom: small models, every interleaving, stale reads included.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p noonmark-core --release --test loom
//! ```
//!
//! Each model runs twice: see `noonmark_core::sync` on sequentially consistent accesses under loom.
//! Where a model bounds the preemptions (the switches away from a thread that could go on), it says
//! so; the others explore everything.
//!
//! A test that cannot fail proves nothing. Each model therefore comes with the weakenings that it was
//! seen to catch: those that can be written from outside are tests themselves, which must panic; those
//! inside the crate stand in the model's comment as *planted*; `scripts/loom-mutants` tries them one by
//! one.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use noonmark_core::sync::{AtomicU64, Ordering, check_both_ways, fence, thread};
use noonmark_core::*;
use std::sync::Arc;
use std::task::{Poll, Waker};

fn slot(index: usize) -> SlotId {
    SlotId::new(index).unwrap()
}

fn txn(index: usize) -> TxnId {
    TxnId::new(slot(index), 1)
}

fn version(ticks: u64) -> Word {
    Word::version(Timestamp::new(ticks), SlotId::NOBODY, false)
}

// ---------------------------------------------------------------------------------- the version word

/// Two that want the write lock of one version: one gets it, and what it wrote without atomics is seen
/// by the next one.
///
/// *Planted*: `unlock_unwatched` relaxed; `try_lock` relaxed on success and failure.
#[test]
fn the_write_lock_excludes() {
    struct Group {
        word: VersionWord,
        value: UnsafeCell<u64>,
    }
    // SAFETY: the value is touched under the lock only, which is what the model checks.
    unsafe impl Send for Group {}
    // SAFETY: as above.
    unsafe impl Sync for Group {}

    fn add_one(group: &Group, who: usize) {
        let mut seen = group.word.load();
        loop {
            if seen.is_locked() {
                thread::yield_now();
                seen = group.word.load();
                continue;
            }
            match group.word.try_lock(seen, txn(who)) {
                Ok(()) => break,
                Err(now) => seen = now,
            }
        }
        // SAFETY: we hold the lock.
        group.value.with_mut(|value| unsafe { *value += 1 });
        group.word.unlock_unwatched(version(seen.time().ticks() + 1));
    }

    check_both_ways(None, || {
        let group = Arc::new(Group { word: VersionWord::new(version(1)), value: UnsafeCell::new(0) });
        let other = {
            let group = group.clone();
            thread::spawn(move || add_one(&group, 1))
        };
        add_one(&group, 0);
        other.join().unwrap();
        assert_eq!(group.word.load(), version(3));
        // SAFETY: the other thread is over.
        assert_eq!(group.value.with(|value| unsafe { *value }), 2);
    });
}

/// A value of two words under a version word.
struct TwoWords {
    word: VersionWord,
    value: [AtomicU64; 2],
}

impl TwoWords {
    fn new() -> Self {
        TwoWords { word: VersionWord::new(version(1)), value: [AtomicU64::new(1), AtomicU64::new(1)] }
    }

    fn copy(&self) -> [u64; 2] {
        [self.value[0].load(Ordering::Relaxed), self.value[1].load(Ordering::Relaxed)]
    }

    fn install(&self, value: u64) {
        self.value[0].store(value, Ordering::Relaxed);
        self.value[1].store(value, Ordering::Relaxed);
    }
}

fn seqlock(fence_before_install: bool, fence_before_second_look: bool) {
    check_both_ways(None, move || {
        let group = Arc::new(TwoWords::new());
        let writer = {
            let group = group.clone();
            thread::spawn(move || {
                group.word.try_lock(version(1), txn(1)).unwrap();
                if fence_before_install {
                    group.word.fence_before_install();
                }
                group.install(2);
                group.word.unlock_unwatched(version(2));
            })
        };
        let first = group.word.load();
        let value = group.copy();
        if fence_before_second_look {
            fence(Ordering::Acquire);
        }
        let second = group.word.load_after_fence();
        if !first.is_locked() && first == second {
            assert_eq!(value, [first.time().ticks(); 2], "a copy that is not the version's value");
        }
        writer.join().unwrap();
    });
}

/// A copy between two equal looks is the value of that version.
///
/// *Planted*: `unlock_unwatched` relaxed; `load` relaxed; `fence_before_install`
/// without its fence.
#[test]
fn a_copy_between_equal_looks_is_whole() {
    seqlock(true, true);
}

/// The lock's own orderings do not keep the new value from being seen before the lock.
#[test]
#[should_panic(expected = "a copy that is not the version's value")]
fn the_writer_needs_its_fence() {
    seqlock(false, true);
}

/// Nor does the second look stay behind the copy by itself.
#[test]
#[should_panic(expected = "a copy that is not the version's value")]
fn the_reader_needs_its_fence() {
    seqlock(true, false);
}

/// Two read-modify-writes, each validated by nothing but the compare-and-swap that locks: none is lost,
/// none is based on a torn copy.
///
/// *Planted*: `unlock_unwatched` relaxed; `load` relaxed.
#[test]
fn a_copy_is_validated_by_the_lock() {
    fn add_one(group: &TwoWords, who: usize) -> bool {
        let seen = group.word.load();
        let [a, b] = group.copy();
        if seen.is_locked() || group.word.try_lock(seen, txn(who)).is_err() {
            return false;
        }
        assert_eq!([a, b], [seen.time().ticks(); 2], "a copy that is not the version's value");
        group.word.fence_before_install();
        group.install(a + 1);
        group.word.unlock_unwatched(version(seen.time().ticks() + 1));
        true
    }
    check_both_ways(None, || {
        let group = Arc::new(TwoWords::new());
        let other = {
            let group = group.clone();
            thread::spawn(move || add_one(&group, 1))
        };
        let ours = add_one(&group, 0);
        let done = 1 + u64::from(ours) + u64::from(other.join().unwrap());
        assert!(done > 1, "at least one of them finds the version unlocked");
        assert_eq!((group.word.load(), group.copy()), (version(done), [done; 2]));
    });
}

// ------------------------------------------------------------------------------- the Dekker patterns

/// How the one who has published something looks at the version word.
type Look = fn(&VersionWord) -> Word;

fn readers_against_writer(look: Look) {
    check_both_ways(None, move || {
        let word = Arc::new(VersionWord::new(version(1)));
        let indicator = Arc::new([AtomicU64::new(0)]);
        let reader = {
            let (word, indicator) = (word.clone(), indicator.clone());
            thread::spawn(move || {
                Readers::new(&*indicator).enter(slot(1));
                !look(&word).is_locked()
            })
        };
        word.try_lock(version(1), txn(0)).unwrap();
        let alone = Readers::new(&*indicator).others(slot(0)).next().is_none();
        assert!(!(reader.join().unwrap() && alone), "both are in");
    });
}

/// Never both a reader inside and a writer that saw no reader.
///
/// *Planted*: `enter` with acquire and release; `try_lock` with acquire and release; `others` with an
/// acquire load; `load_seq_cst` with acquire.
#[test]
fn readers_and_writer_see_each_other() {
    readers_against_writer(VersionWord::load_seq_cst);
}

/// An acquire load may be answered from before the entering.
#[test]
#[should_panic(expected = "both are in")]
fn an_acquire_load_may_miss_the_writer_of_a_readers_group() {
    readers_against_writer(VersionWord::load);
}

fn read_time_against_writer(look: Look) {
    check_both_ways(None, move || {
        let word = Arc::new(VersionWord::new(version(1)));
        let read_time = Arc::new(AtomicU64::new(1));
        let reader = {
            let (word, read_time) = (word.clone(), read_time.clone());
            thread::spawn(move || {
                read_time.fetch_max(5, Ordering::SeqCst);
                look(&word) == version(1)
            })
        };
        word.try_lock(version(1), txn(0)).unwrap();
        let write_time = read_time.load(Ordering::SeqCst) + 1;
        word.unlock_unwatched(version(write_time));
        let read_at_5 = reader.join().unwrap();
        assert!(!(read_at_5 && write_time <= 5), "overwritten at {write_time}, read at 5");
    });
}

/// TicToc's extension: raise the read time, then look for a writer; take the lock, then look at the read
/// time. Never does a version be read at a time at which it is overwritten already.
///
/// *Planted*: `try_lock` with acquire and release; `load_seq_cst` with acquire.
#[test]
fn read_time_and_writer_see_each_other() {
    read_time_against_writer(VersionWord::load_seq_cst);
}

/// An acquire load may be answered from before the read time was raised.
#[test]
#[should_panic(expected = "overwritten at")]
fn an_acquire_load_may_miss_the_writer_of_an_extended_read() {
    read_time_against_writer(VersionWord::load);
}

/// A row whose lease ends in a word that its writer seals.
struct Leased {
    word: VersionWord,
    lease: AtomicU64,
    value: AtomicU64,
}

/// Above all times.
const SEALED: u64 = 1 << 63;

/// What a writer does once he has sealed.
#[derive(Clone, Copy, PartialEq)]
enum Writer {
    /// Hides the version, and replaces it and its value.
    Replaces,
    /// The same, but does not hide it.
    ReplacesInSight,
    /// Replaces the version only.
    Deletes,
    /// The same, but takes the seal away first.
    DeletesUnsealed,
}

fn lease_against_writer(writer: Writer) {
    check_both_ways(None, move || {
        let row = Arc::new(Leased {
            word: VersionWord::new(version(1)),
            lease: AtomicU64::new(1),
            value: AtomicU64::new(1),
        });
        let reader = {
            let row = row.clone();
            thread::spawn(move || {
                let seen = row.word.load();
                let value = row.value.load(Ordering::Relaxed);
                fence(Ordering::Acquire);
                if seen.is_locked() || row.word.load_after_fence() != seen {
                    return None;
                }
                let before = row.lease.fetch_max(5, Ordering::AcqRel);
                let renewed = row.word.load() == seen && before & SEALED == 0;
                Some((seen, value, if renewed { 5 } else { seen.time().ticks() }))
            })
        };
        row.lease.fetch_or(SEALED, Ordering::AcqRel);
        let write_time = (row.lease.load(Ordering::SeqCst) & !SEALED) + 1;
        if writer == Writer::Replaces {
            row.word.lock_unwatched(txn(0));
        }
        if matches!(writer, Writer::Replaces | Writer::ReplacesInSight) {
            row.value.store(2, Ordering::Relaxed);
        }
        let unseal = || {
            let lease = row.lease.load(Ordering::Relaxed);
            row.lease.store(lease & !SEALED, Ordering::Release);
        };
        if writer == Writer::DeletesUnsealed {
            unseal();
        }
        row.word.unlock_unwatched(version(write_time));
        if writer != Writer::DeletesUnsealed {
            unseal();
        }
        let Some((seen, value, at)) = reader.join().unwrap() else { return };
        if seen == version(1) {
            assert!(write_time > at, "overwritten at {write_time}, read at {at}");
        }
        if matches!(writer, Writer::Replaces | Writer::ReplacesInSight) {
            assert_eq!(value == 1, seen == version(1), "a value of another version");
        }
    });
}

/// Sundial's renewal: the lease is raised by the step that finds the seal, and the version looked at afterwards. A writer seals, hides the
/// version while its value is replaced, shows the new one, and takes the seal away. Never is a version overwritten at a time at which it
/// was read, and never is a value read that is not of its version.
///
/// *Planted*: `lock_unwatched` without its fence; `unlock_unwatched` relaxed.
#[test]
fn a_lease_is_renewed_or_sealed() {
    for writer in [Writer::Replaces, Writer::Deletes] {
        lease_against_writer(writer);
    }
}

/// Who finds no seal any more must find the new version.
#[test]
#[should_panic(expected = "overwritten at")]
fn the_version_is_replaced_before_its_seal_is_taken_away() {
    lease_against_writer(Writer::DeletesUnsealed);
}

#[test]
#[should_panic(expected = "a value of another version")]
fn a_version_is_hidden_while_its_value_is_replaced() {
    lease_against_writer(Writer::ReplacesInSight);
}

// --------------------------------------------------------------------------------- the waiting room

struct Waited {
    word: VersionWord,
    room: WaitingRoom,
    host: Threads,
}

impl Waited {
    /// Held by the transaction of slot 0.
    fn held() -> Arc<Self> {
        let word = VersionWord::new(version(1));
        word.try_lock(version(1), txn(0)).unwrap();
        Arc::new(Waited { word, room: WaitingRoom::new(), host: Threads::default() })
    }

    fn on(&self) -> WaitFor {
        WaitFor::release_of(&self.word)
    }

    fn let_go(&self, next: Word) {
        if self.word.unlock(next) {
            self.room.wake(self.on());
        }
    }

    fn wait_for_unlock(&self, who: usize) -> Word {
        let poll = |waker: &Waker| {
            loop {
                let seen = self.word.load();
                if !seen.is_locked() {
                    self.room.leave(self.on(), slot(who));
                    return Poll::Ready(seen);
                }
                self.room.register(self.on(), slot(who), waker);
                if self.word.mark_waiters(seen) {
                    return Poll::Pending;
                }
            }
        };
        self.host.block_on(None, poll).unwrap()
    }
}

/// One waits, one lets go: the wait ends, and nobody is left in the room. (A lost wake-up is a deadlock,
/// which loom reports.)
///
/// *Planted*: `mark_waiters` true though the word has changed; `unlock` in two steps, a load and a store;
/// `wake` that wakes nobody.
#[test]
fn no_wake_up_is_lost() {
    check_both_ways(None, || {
        let waited = Waited::held();
        let waiter = {
            let waited = waited.clone();
            thread::spawn(move || waited.wait_for_unlock(1))
        };
        waited.let_go(version(2));
        assert_eq!(waiter.join().unwrap(), version(2));
        assert_eq!(waited.room.count(), 0);
    });
}

/// Two wait: the second may find the mark of the first, from before it has registered itself.
///
/// *Planted*: `mark_waiters` trusting the mark in `seen` without another look.
#[test]
fn a_mark_seen_before_registering_is_not_trusted() {
    check_both_ways(None, || {
        let waited = Waited::held();
        let waiters = [1, 2].map(|who| {
            let waited = waited.clone();
            thread::spawn(move || waited.wait_for_unlock(who))
        });
        waited.let_go(version(2));
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), version(2));
        }
        assert_eq!(waited.room.count(), 0);
    });
}

/// The lock goes from hand to hand: each of two waiters takes it when it is free and lets it go again. At
/// most four preemptions.
///
/// *Planted*: as for the model above.
#[test]
fn the_lock_goes_from_hand_to_hand() {
    fn take_and_let_go(waited: &Waited, who: usize) {
        loop {
            let seen = waited.wait_for_unlock(who);
            if waited.word.try_lock(seen, txn(who)).is_ok() {
                waited.let_go(version(seen.time().ticks() + 1));
                return;
            }
        }
    }
    check_both_ways(Some(4), || {
        let waited = Waited::held();
        let waiters = [1, 2].map(|who| {
            let waited = waited.clone();
            thread::spawn(move || take_and_let_go(&waited, who))
        });
        waited.let_go(version(2));
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!((waited.word.load(), waited.room.count()), (version(4), 0));
    });
}

/// What a waiter does once what it waits for is free.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    TakesIt,
    GoesAway,
}

/// What transactions stand in line for.
struct InLine {
    intent: VersionWord,
    room: WaitingRoom,
    host: Threads,
    /// How often it was taken: touched by its holder only, which is what the models check.
    taken: UnsafeCell<u64>,
}

// SAFETY: see `taken`.
unsafe impl Send for InLine {}
// SAFETY: as above.
unsafe impl Sync for InLine {}

impl InLine {
    /// Held by the transaction of slot 0.
    fn held(passes_max: u32) -> Arc<Self> {
        let intent = VersionWord::new(Word::FREE);
        intent.try_take(Word::FREE, txn(0)).unwrap();
        let room = WaitingRoom::with_passes_max(passes_max);
        Arc::new(InLine { intent, room, host: Threads::default(), taken: UnsafeCell::new(0) })
    }

    fn on(&self) -> WaitFor {
        WaitFor::release_of(&self.intent)
    }

    fn let_go(&self, who: usize) {
        if !self.intent.try_unlock(txn(who), Word::FREE) {
            self.room.let_go(self.on(), Word::FREE, |how| match how {
                LetGo::Free => self.intent.unlock_unwatched(Word::FREE),
                LetGo::Awaited => self.intent.unlock_unwatched(Word::AWAITED),
                LetGo::HandedTo(txn) => self.intent.hand_over(txn),
            });
        }
    }

    fn count(&self) {
        // SAFETY: the caller holds it.
        self.taken.with_mut(|taken| unsafe { *taken += 1 });
    }

    /// Waits in line, as a transaction does, and does what it does then.
    fn wait(&self, who: usize, then: Then) {
        let age = Age::new(who as u64, slot(who));
        let poll = |waker: &Waker| {
            self.room.line_up(self.on(), txn(who), age, waker);
            loop {
                let seen = self.intent.load();
                if seen.is_held_by(txn(who)) {
                    if then == Then::TakesIt {
                        assert_eq!(self.room.take(self.on(), slot(who)), Some(Word::FREE));
                    }
                    return Poll::Ready(then == Then::TakesIt);
                } else if seen.is_locked() {
                    if self.intent.mark_waiters(seen) && self.room.settle(self.on(), slot(who)) {
                        return Poll::Pending;
                    }
                } else if then == Then::GoesAway {
                    return Poll::Ready(false);
                } else if self.intent.try_take(seen, txn(who)).is_ok() {
                    assert_eq!(self.room.take(self.on(), slot(who)), None);
                    return Poll::Ready(true);
                }
            }
        };
        let has_it = self.host.block_on(None, poll).unwrap();
        if has_it {
            self.count();
        }
        let handed = self.room.leave_line(self.on(), slot(who)).is_some();
        if has_it || handed {
            self.let_go(who);
        }
    }

    /// It was taken so often, and nobody is left.
    fn assert_over(&self, taken: u64) {
        // SAFETY: all are through.
        assert_eq!(self.taken.with(|taken| unsafe { *taken }), taken);
        assert!(!self.intent.load().is_locked());
        assert_eq!(self.room.count(), 0);
    }
}

/// Of two who wait one is called; the other one's turn comes when the first lets go, or has gone away: also where what is let go is handed over at
/// once. At most three preemptions.
///
/// *Planted*: `let_go` that finds nobody in line; `leave_line` that calls nobody, or gives back nothing; `try_take` that forgets the mark.
#[test]
fn one_after_the_other_has_its_turn() {
    for (first, passes_max) in
        [Then::TakesIt, Then::GoesAway].into_iter().flat_map(|then| [(then, 0), (then, 9)])
    {
        check_both_ways(Some(3), move || {
            let line = InLine::held(passes_max);
            let waiters = [(1, Then::TakesIt), (2, first)].map(|(who, then)| {
                let line = line.clone();
                thread::spawn(move || line.wait(who, then))
            });
            line.let_go(0);
            for waiter in waiters {
                waiter.join().unwrap();
            }
            line.assert_over(1 + u64::from(first == Then::TakesIt));
        });
    }
}

/// The same, and somebody takes what is free before the one who was called comes for it, and so calls him again while he looks. At most
/// three preemptions.
///
/// *Planted*: who is called while he looks has answered that when he settles; `try_unlock` relaxed.
#[test]
fn a_call_that_comes_while_one_looks_is_heard() {
    check_both_ways(Some(3), || {
        let line = InLine::held(9);
        let waiters = [(1, Then::TakesIt), (2, Then::GoesAway)].map(|(who, then)| {
            let line = line.clone();
            thread::spawn(move || line.wait(who, then))
        });
        line.let_go(0);
        let seen = line.intent.load();
        let barged_in = !seen.is_locked() && line.intent.try_take(seen, txn(0)).is_ok();
        if barged_in {
            line.count();
            line.let_go(0);
        }
        for waiter in waiters {
            waiter.join().unwrap();
        }
        line.assert_over(1 + u64::from(barged_in));
    });
}

fn writer_waits_for_readers(look_again: bool) {
    check_both_ways(None, move || {
        struct Shared {
            indicator: [AtomicU64; 1],
            value: UnsafeCell<u64>,
            room: WaitingRoom,
        }
        // SAFETY: the value is touched by readers that are in and by a writer that saw them leave,
        // which is what the model checks.
        unsafe impl Send for Shared {}
        // SAFETY: as above.
        unsafe impl Sync for Shared {}

        let shared = Arc::new(Shared {
            indicator: [AtomicU64::new(0)],
            value: UnsafeCell::new(1),
            room: WaitingRoom::new(),
        });
        for who in [1, 2] {
            Readers::new(&shared.indicator).enter(slot(who));
        }
        let readers = [1, 2].map(|who| {
            let shared = shared.clone();
            thread::spawn(move || {
                // SAFETY: we are in.
                assert_eq!(shared.value.with(|value| unsafe { *value }), 1);
                if Readers::new(&shared.indicator).leave(slot(who)) {
                    shared.room.wake(WaitFor::release_of(&shared.indicator));
                }
            })
        });

        let (in_there, on) = (Readers::new(&shared.indicator), WaitFor::release_of(&shared.indicator));
        let gone = || in_there.others(slot(0)).next().is_none();
        let poll = |waker: &Waker| {
            if gone() {
                return Poll::Ready(());
            }
            shared.room.register(on, slot(0), waker);
            in_there.mark_waiters();
            if look_again && gone() { Poll::Ready(()) } else { Poll::Pending }
        };
        Threads::default().block_on(None, poll).unwrap();
        shared.room.leave(on, slot(0));
        in_there.clear_waiters();
        // SAFETY: all readers have left.
        shared.value.with_mut(|value| unsafe { *value = 2 });
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(shared.indicator[0].load(Ordering::Relaxed), 0);
        assert_eq!(shared.room.count(), 0);
    });
}

/// A writer waits until the last reader has left, and then writes.
///
/// *Planted*: `leave` relaxed; `leave` never telling of the mark.
#[test]
fn the_last_reader_wakes_the_writer() {
    writer_waits_for_readers(true);
}

/// The mark may come after the last reader has left.
#[test]
#[should_panic(expected = "deadlock")]
fn the_writer_must_look_again_after_marking() {
    writer_waits_for_readers(false);
}

// ------------------------------------------------------------------------------------------- slots

/// Two sessions want the only slot: they have it one after the other, and the second sees what the first
/// left.
///
/// *Planted*: `release` relaxed; `try_claim` relaxed; `try_claim` with a load and a store.
#[test]
fn a_slot_has_one_holder() {
    struct Shared {
        slots: Slots,
        left: UnsafeCell<u64>,
    }
    // SAFETY: `left` is touched by the slot's holder only, which is what the model checks.
    unsafe impl Send for Shared {}
    // SAFETY: as above.
    unsafe impl Sync for Shared {}

    fn session(shared: &Shared) -> bool {
        let Some(id) = shared.slots.claim(0) else { return false };
        // SAFETY: we hold the slot.
        shared.left.with_mut(|left| unsafe { *left += 1 });
        shared.slots.get(id).release();
        true
    }

    check_both_ways(None, || {
        let shared = Arc::new(Shared { slots: Slots::new(1), left: UnsafeCell::new(0) });
        let other = {
            let shared = shared.clone();
            thread::spawn(move || session(&shared))
        };
        let ours = session(&shared);
        let theirs = other.join().unwrap();
        assert!(ours || theirs);
        assert!(session(&shared), "free again");
        // SAFETY: the other thread is over.
        let left = shared.left.with(|left| unsafe { *left });
        assert_eq!(left, 1 + u64::from(ours) + u64::from(theirs));
    });
}

/// A wound and the commit point: exactly one of them counts; and the next transaction of the slot is
/// never hit.
///
/// *Planted*: `try_commit` with a load and a store; `wound` without the sequence number.
#[test]
fn a_wound_or_the_commit_but_not_both() {
    check_both_ways(None, || {
        let slots = Arc::new(Slots::new(2));
        slots.get(slot(1)).begin(1);
        let victim = {
            let slots = slots.clone();
            thread::spawn(move || {
                let own = slots.get(slot(1));
                let committed = own.try_commit(1);
                own.end(1);
                own.begin(2);
                assert!(!own.is_wounded());
                (committed, own.try_commit(2))
            })
        };
        let wound = slots.wound(txn(1));
        let (committed, next_committed) = victim.join().unwrap();
        assert!(next_committed, "the slot's next transaction was hit");
        match wound {
            Wound::Told(_) => assert!(!committed),
            // It had begun before the wound, so too late means that it had passed its commit point.
            Wound::TooLate => assert!(committed),
        }
        assert_eq!(slots.running(slot(1)), Some(TxnId::new(slot(1), 2)));
    });
}

/// The order in which a victim gets ready to sleep.
#[derive(Clone, Copy)]
enum GetReady {
    SayThenRegister,
    RegisterThenSay,
    LookBeforeRegistering,
    LookBeforeSaying,
}

fn wound_a_sleeper(order: GetReady) {
    check_both_ways(None, move || {
        let shared = Arc::new((Slots::new(2), WaitingRoom::new(), 0_u64));
        shared.0.get(slot(1)).begin(1);
        let victim = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (slots, room, place) = &*shared;
                let (own, on) = (slots.get(slot(1)), WaitFor::release_of(place));
                let poll = |waker: &Waker| {
                    let say = || own.set_waiting_for(on.key() as u64);
                    let register = || room.register(on, slot(1), waker);
                    let wounded = match order {
                        GetReady::SayThenRegister => {
                            say();
                            register();
                            own.is_wounded()
                        }
                        GetReady::RegisterThenSay => {
                            register();
                            say();
                            own.is_wounded()
                        }
                        GetReady::LookBeforeRegistering => {
                            say();
                            let wounded = own.is_wounded();
                            register();
                            wounded
                        }
                        GetReady::LookBeforeSaying => {
                            register();
                            let wounded = own.is_wounded();
                            say();
                            wounded
                        }
                    };
                    if wounded { Poll::Ready(()) } else { Poll::Pending }
                };
                Threads::default().block_on(None, poll).unwrap();
                own.set_waiting_for(0);
                room.leave(on, slot(1));
            })
        };
        match shared.0.wound(txn(1)) {
            Wound::Told(Some(on)) => shared.1.rouse(on, slot(1)),
            Wound::Told(None) => {}
            Wound::TooLate => panic!("it runs, and never commits"),
        }
        victim.join().unwrap();
        assert_eq!(shared.1.count(), 0);
    });
}

/// What the victim waits for never comes, but the wound does.
///
/// *Planted*: `set_waiting_for` with a release store; `is_wounded` with an acquire load; in `wound`, an
/// acquire load of what is waited for, or the wound itself with acquire and release.
#[test]
fn no_victim_sleeps_through_its_wound() {
    wound_a_sleeper(GetReady::SayThenRegister);
    wound_a_sleeper(GetReady::RegisterThenSay);
}

/// The waker may come too late to be woken.
#[test]
#[should_panic(expected = "deadlock")]
fn a_victim_must_look_after_it_has_registered() {
    wound_a_sleeper(GetReady::LookBeforeRegistering);
}

/// The one who wounds may not know yet where to wake.
#[test]
#[should_panic(expected = "deadlock")]
fn a_victim_must_look_after_it_has_said_what_it_waits_for() {
    wound_a_sleeper(GetReady::LookBeforeSaying);
}

// ------------------------------------------------------------------------------------------ epochs

/// Something that can be found, and be freed. Freeing marks it: a read of what is freed shows, and so
/// does (by loom's cell) a read that is not ordered before the freeing.
struct Thing {
    freed: UnsafeCell<bool>,
}

// SAFETY: the cell is read under a pin and written when nobody is left that could read it, which is
// what the models check.
unsafe impl Send for Thing {}
// SAFETY: as above.
unsafe impl Sync for Thing {}

struct Things {
    epochs: Epochs,
    /// Index of the thing that can be found, plus one; 0: none.
    findable: AtomicU64,
    thing: Thing,
}

impl Things {
    fn new(slots: usize) -> Arc<Self> {
        Arc::new(Things {
            epochs: Epochs::new(slots),
            findable: AtomicU64::new(1),
            thing: Thing { freed: UnsafeCell::new(false) },
        })
    }

    /// Looks for the thing under a pin, and reads it.
    fn read(&self, who: usize) {
        self.epochs.pin(slot(who));
        if self.findable.load(Ordering::Acquire) == 1 {
            // SAFETY: pinned.
            let freed = self.thing.freed.with(|freed| unsafe { *freed });
            assert!(!freed, "read what was freed");
        }
        self.epochs.unpin(slot(who));
    }

    /// Unlinks the thing and retires it.
    fn unlink(&self, limbo: &mut Limbo) {
        /// # Safety
        /// `thing` is a [`Thing`] that is there.
        // SAFETY: the caller's, who retires one once.
        unsafe fn free(thing: *mut u8, _: usize) {
            // SAFETY: the thing outlives the model's threads; that nobody reads it is checked.
            unsafe { (*thing.cast::<Thing>()).freed.with_mut(|freed| *freed = true) }
        }
        self.findable.store(0, Ordering::Release);
        let pointer = std::ptr::from_ref(&self.thing).cast_mut().cast();
        // SAFETY: unlinked above; `free` marks it, once.
        limbo.retire(&self.epochs, unsafe { Garbage::new(pointer, 0, free) });
    }
}

/// What a reader finds under its pin is not freed before it lets go; also if it pins several times.
///
/// *Planted*: no fence in `pin`; a grace of one epoch; `unpin` relaxed; the pins scanned relaxed; the
/// pin's store relaxed (found by the second pin: who sees it must see that reads under the first are
/// over).
#[test]
fn what_is_found_under_a_pin_stays() {
    check_both_ways(None, || {
        let things = Things::new(1);
        let reader = {
            let things = things.clone();
            thread::spawn(move || {
                things.read(0);
                things.epochs.pin(slot(0));
                things.epochs.unpin(slot(0));
            })
        };
        let mut limbo = Limbo::new();
        things.unlink(&mut limbo);
        limbo.collect(&things.epochs);
        limbo.collect(&things.epochs);
        limbo.abandon(&things.epochs);
        reader.join().unwrap();
    });
}

/// The same with another session that advances the epoch meanwhile, so that pins are stale and attempts
/// to advance overlap. At most three preemptions.
///
/// *Planted*: no fence in `try_advance`; no fence in `retire`; no fence in `pin`; a grace of one epoch; in
/// `try_advance`, the compare-and-swap relaxed.
#[test]
fn what_is_found_under_a_stale_pin_stays() {
    check_both_ways(Some(3), || {
        let things = Things::new(1);
        let reader = {
            let things = things.clone();
            thread::spawn(move || things.read(0))
        };
        let other = {
            let things = things.clone();
            thread::spawn(move || {
                let mut limbo = Limbo::new();
                limbo.collect(&things.epochs);
                limbo.collect(&things.epochs);
            })
        };
        let mut limbo = Limbo::new();
        things.unlink(&mut limbo);
        limbo.collect(&things.epochs);
        limbo.collect(&things.epochs);
        limbo.abandon(&things.epochs);
        reader.join().unwrap();
        other.join().unwrap();
    });
}

/// What an ended session leaves behind waits as long as everything else, also if whoever frees it
/// has an old idea of the epoch. At most three preemptions.
///
/// *Planted*: a grace of one epoch.
#[test]
fn orphans_wait_as_long_as_others() {
    check_both_ways(Some(3), || {
        let things = Things::new(1);
        let reader = {
            let things = things.clone();
            thread::spawn(move || things.read(0))
        };
        let ended = {
            let things = things.clone();
            thread::spawn(move || {
                let mut limbo = Limbo::new();
                limbo.collect(&things.epochs);
                things.unlink(&mut limbo);
                limbo.abandon(&things.epochs);
            })
        };
        let mut limbo = Limbo::new();
        limbo.collect(&things.epochs);
        limbo.collect(&things.epochs);
        limbo.abandon(&things.epochs);
        reader.join().unwrap();
        ended.join().unwrap();
    });
}
