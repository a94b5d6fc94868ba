//! The lock word and the clock under loom: small models, every interleaving, stale values included.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p noonmark-stm --release --lib loom
//! ```
//!
//! Rules are called at desks, without epochs: the fence of the pin stands in the models. Each model comes with the weakenings
//! that it was seen to catch, as tests that must panic where they can be written from outside, and as *planted* where
//! they stand in the code; `scripts/loom-mutants` tries those one by one.
//!
//! Loads take turns here ([`check_every_order`]), or loom would try next to no orders: every lock is taken by a step from
//! a word that was loaded, and every value stored over one that was loaded, for the log. Where a model bounds the
//! preemptions (the switches away from a thread that could go on), it says so: two are what the failures that
//! we know take.

use super::lock_word::{Lock, LockWord, Mark};
use super::{Conflict, Control, Ending};
use crate::desk::{Common, Desk};
use crate::lines::Spot;
use crate::log::Lent;
use crate::transaction::settle_at;
use crate::{Dcotl, DcotlSf, Dctl, DctlSf, TicToc, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf};
use noonmark_core::sync::{AtomicU64, Ordering, check_every_order, fence, thread};
use noonmark_core::{Epochs, SlotId, Step, Threads, WaitingRoom};
use std::sync::Arc;

fn slot(index: usize) -> SlotId {
    SlotId::new(index).unwrap()
}

/// Two variables, each with a lock of its own.
struct Two<C: Control> {
    common: Arc<Common<C>>,
    locks: [C::Lock; 2],
    cells: [AtomicU64; 2],
    epochs: Epochs,
}

impl<C: Control> Two<C> {
    fn new() -> Arc<Self> {
        let common = Common::new(Threads::default(), 0);
        Arc::new(Two {
            common: Arc::new(common),
            locks: Default::default(),
            cells: [AtomicU64::new(0), AtomicU64::new(0)],
            epochs: Epochs::new(1),
        })
    }

    fn desk(&self, index: usize) -> Desk<C> {
        Desk::new(slot(index), self.common.clone())
    }

    fn read(&self, desk: &Desk<C>, index: usize, tracked: bool) -> Option<u64> {
        let load = || self.cells[index].load(Ordering::Relaxed);
        match C::read(desk, Spot::of(&self.locks[index]), tracked, load) {
            Step::Ready(value) => Some(value),
            _ => None,
        }
    }

    /// One attempt to write both; whether it committed.
    fn write_both(&self, desk: &Desk<C>, value: u64, is_called_off: bool) -> bool {
        desk.begin(false, 0);
        C::begin(desk, false);
        fence(Ordering::SeqCst);
        for index in 0..2 {
            match C::write(desk, Spot::of(&self.locks[index])) {
                Step::Ready(()) => desk.store::<u64>(Spot::of(&self.locks[index]), &self.cells[index], value),
                Step::Busy(conflict)
                | Step::Wait(_, conflict)
                | Step::Die(conflict)
                | Step::Abort(conflict) => {
                    return self.end(desk, Ending::Restart(conflict));
                }
            }
        }
        if is_called_off {
            return self.end(desk, Ending::Cancel);
        }
        match C::validate(desk) {
            Ok(()) => self.end(desk, Ending::Commit),
            Err(conflict) => self.end(desk, Ending::Restart(conflict)),
        }
    }

    fn end(&self, desk: &Desk<C>, ending: Ending) -> bool {
        if ending != Ending::Commit {
            desk.undo();
        }
        C::release(desk, ending, |_| ());
        desk.settle(ending == Ending::Commit, &self.epochs);
        ending == Ending::Commit
    }

    /// One attempt to read both, at a clock that somebody may just have advanced.
    fn read_both(&self, desk: &Desk<C>, with_fence: bool) -> Option<(u64, u64)> {
        desk.begin(false, 1);
        C::begin(desk, false);
        if with_fence {
            // That of the pin.
            fence(Ordering::SeqCst);
        }
        let (first, second) = (self.read(desk, 0, false), self.read(desk, 1, false));
        self.end(desk, Ending::Cancel);
        Some((first?, second?))
    }
}

/// Who advances the clock, as somebody does who meets a conflict elsewhere.
trait Advance: Control {
    fn advance(shared: &Self::Shared);
}

macro_rules! advance {
    ($($control:ty),*) => { $(
        impl Advance for $control {
            fn advance(shared: &Self::Shared) {
                let host = &Threads::default();
                shared.advance_past(host, shared.now(host));
            }
        }
    )* };
}

advance!(Dctl, Dcotl, DcotlSf, Tl2Gv4, Tl2Gv5, TinyStm);

/// What others than the one who loads, and stores over what he has loaded, may find before and after him. Without turns
/// loom 0.7.2 runs the model once.
#[test]
fn a_store_after_a_load_is_tried_on_both_sides_of_another_load() {
    let seen = Arc::new(std::sync::Mutex::new([false; 2]));
    let inside = seen.clone();
    check_every_order(None, move || {
        let word = Arc::new(AtomicU64::new(0));
        let other = {
            let word = word.clone();
            thread::spawn(move || {
                let before = word.load(Ordering::Relaxed);
                word.store(before + 1, Ordering::Relaxed);
            })
        };
        inside.lock().unwrap()[word.load(Ordering::Relaxed) as usize] = true;
        other.join().unwrap();
    });
    assert_eq!(*seen.lock().unwrap(), [true; 2]);
}

/// A reader, a writer, and one who advances the clock: the reader sees both writes or none.
fn snapshots<C: Advance>(with_fence: bool, is_called_off: bool) {
    check_every_order(Some(2), move || {
        let two = Two::<C>::new();
        let writer = {
            let two = two.clone();
            thread::spawn(move || {
                let desk = two.desk(1);
                two.write_both(&desk, 7, is_called_off);
            })
        };
        let other = {
            let two = two.clone();
            thread::spawn(move || C::advance(&two.common.shared))
        };
        let desk = two.desk(2);
        if let Some((first, second)) = two.read_both(&desk, with_fence) {
            assert_eq!(first, second, "a state that there never was");
            assert!(!is_called_off || first == 0, "what was called off");
        }
        writer.join().unwrap();
        other.join().unwrap();
    });
}

/// *Planted*: the release fence in `Lock::try_lock`; the acquire fence in `read`; the fence in `validate`.
#[test]
fn a_reader_sees_all_of_a_commit_or_nothing() {
    snapshots::<Dctl>(true, false);
    snapshots::<DcotlSf>(true, false);
}

/// *Planted*: the acquire fence in `read`; the fence in `validate`.
#[test]
fn a_reader_sees_all_of_a_commit_or_nothing_under_tl2() {
    snapshots::<Tl2Gv4>(true, false);
    snapshots::<Tl2Gv5>(true, false);
}

/// It needs no fence of the pin: who commits advances the clock, so with a time comes all that was committed at it.
///
/// *Planted*: the acquire fence in `read`.
#[test]
fn a_reader_sees_all_of_a_commit_or_nothing_under_tinystm() {
    snapshots::<TinyStm>(false, false);
}

#[test]
#[should_panic(expected = "a state that there never was")]
fn without_the_fence_of_the_pin_a_reader_may_see_half() {
    snapshots::<Dctl>(false, false);
}

#[test]
#[should_panic(expected = "a state that there never was")]
fn without_the_fence_of_the_pin_a_reader_may_see_half_under_tl2() {
    snapshots::<Tl2Gv5>(false, false);
}

/// *Planted*: the fence in `release`, before the look at the clock; the acquire in TinySTM's first look.
#[test]
fn a_reader_sees_nothing_of_what_is_called_off() {
    snapshots::<Dcotl>(true, true);
    snapshots::<Tl2Gv5>(true, true);
    snapshots::<TinyStm>(true, true);
}

/// One overwrites and commits, another overwrites and is called off: what he puts back is what he found, and that must be
/// what was there.
fn undoing<C: Control>() {
    check_every_order(Some(2), || {
        let two = Two::<C>::new();
        let writer = {
            let two = two.clone();
            thread::spawn(move || two.write_both(&two.desk(1), 7, false))
        };
        two.write_both(&two.desk(2), 9, true);
        let has_committed = writer.join().unwrap();
        let values = [0, 1].map(|index: usize| two.cells[index].load(Ordering::Relaxed));
        assert_eq!(values, if has_committed { [7, 7] } else { [0, 0] });
    });
}

/// *Planted*: `load` relaxed, and the compare-and-swap with it.
#[test]
fn what_is_undone_leaves_what_was_there() {
    undoing::<Dcotl>();
    undoing::<DcotlSf>();
    undoing::<Tl2Gv5>();
    undoing::<TicToc>();
}

/// Under TicToc it is what commits that is whole: read, and then validated.
///
/// *Planted*: the two fences, of the reader and of the writer; the acquire in the first look.
#[test]
fn a_reader_that_commits_has_seen_all_or_nothing_under_tictoc() {
    for is_called_off in [false, true] {
        check_every_order(Some(3), move || {
            let two = Two::<TicToc>::new();
            let writer = {
                let two = two.clone();
                thread::spawn(move || two.write_both(&two.desk(1), 7, is_called_off))
            };
            let desk = two.desk(2);
            desk.begin(false, 2);
            let values = [0, 1].map(|index| two.read(&desk, index, true));
            let is_good = TicToc::validate(&desk).is_ok();
            two.end(&desk, if is_good { Ending::Commit } else { Ending::Cancel });
            if let ([Some(first), Some(second)], true) = (values, is_good) {
                assert_eq!(first, second, "a state that there never was");
                assert!(!is_called_off || first == 0, "what was called off");
            }
            writer.join().unwrap();
        });
    }
}

/// Two that read what the other writes: not both commit.
fn write_skew<C: Control>() {
    check_every_order(Some(2), || {
        let two = Two::<C>::new();
        let run = |two: &Two<C>, mine: usize| {
            let desk = two.desk(mine + 1);
            desk.begin(false, mine);
            C::begin(&desk, false);
            fence(Ordering::SeqCst);
            let is_good = two.read(&desk, 1 - mine, true) == Some(0)
                && matches!(C::write(&desk, Spot::of(&two.locks[mine])), Step::Ready(()))
                && {
                    desk.store::<u64>(Spot::of(&two.locks[mine]), &two.cells[mine], 1);
                    C::validate(&desk).is_ok()
                };
            two.end(&desk, if is_good { Ending::Commit } else { Ending::Cancel });
        };
        let other = {
            let two = two.clone();
            thread::spawn(move || run(&two, 1))
        };
        run(&two, 0);
        other.join().unwrap();
        let values = [0, 1].map(|index: usize| two.cells[index].load(Ordering::Relaxed));
        assert_ne!(values, [1, 1]);
    });
}

/// *Planted*: the fence in `validate`.
#[test]
fn of_two_that_read_what_the_other_writes_one_commits() {
    write_skew::<Dctl>();
    write_skew::<DcotlSf>();
    write_skew::<Tl2Gv4>();
    write_skew::<Tl2Gv5>();
    write_skew::<TinyStm>();
    write_skew::<TicToc>();
}

/// An irrevocable transaction, which reads one variable and adds to the other, beside a speculative one, which adds to
/// both.
fn irrevocable<C: Control<Lock = Lock>>() {
    check_every_order(Some(3), || {
        let two = Two::<C>::new();
        let speculative = {
            let two = two.clone();
            thread::spawn(move || {
                let desk = two.desk(1);
                desk.begin(false, 1);
                C::begin(&desk, false);
                fence(Ordering::SeqCst);
                let is_good = (0..2).all(|index| {
                    let Some(value) = two.read(&desk, index, true) else { return false };
                    assert!(value == 0 || index == 0 && value == 10, "what was never committed");
                    let is_locked = matches!(C::write(&desk, Spot::of(&two.locks[index])), Step::Ready(()));
                    if is_locked {
                        desk.store::<u64>(Spot::of(&two.locks[index]), &two.cells[index], value + 1);
                    }
                    is_locked
                }) && C::validate(&desk).is_ok();
                two.end(&desk, if is_good { Ending::Commit } else { Ending::Cancel })
            })
        };
        let desk = two.desk(2);
        desk.begin(true, 2);
        C::begin(&desk, true);
        fence(Ordering::SeqCst);
        let wait_for = |mut ask: Box<dyn FnMut() -> Option<u64> + '_>| loop {
            match ask() {
                Some(value) => return value,
                None => thread::yield_now(),
            }
        };
        // The second one is only read.
        let second = wait_for(Box::new(|| two.read(&desk, 1, true)));
        wait_for(Box::new(|| {
            matches!(C::write(&desk, Spot::of(&two.locks[0])), Step::Ready(())).then_some(0)
        }));
        let first = wait_for(Box::new(|| two.read(&desk, 0, true)));
        desk.store::<u64>(Spot::of(&two.locks[0]), &two.cells[0], first + 10);
        assert_eq!(first, second, "a state that there never was");
        assert!(C::validate(&desk).is_ok());
        two.end(&desk, Ending::Commit);
        let has_committed = u64::from(speculative.join().unwrap());
        let values = [0, 1].map(|index: usize| two.cells[index].load(Ordering::Relaxed));
        assert_eq!(values, [10 + has_committed, has_committed]);
        for lock in &two.locks {
            let word = lock.load();
            assert!(!word.is_read() && !word.is_written(), "a lock that stays");
        }
    });
}

/// *Planted*: `release` by a store; `load` relaxed; the bit not cleared when another wrote last.
#[test]
fn an_irrevocable_transaction_is_alone_with_what_it_touches() {
    irrevocable::<DctlSf>();
    irrevocable::<DcotlSf>();
}

/// Two transactions under two-phase locking, which read one variable and write the other, crosswise: so that each may
/// have to wait for, or make way for, the other. Neither waits for ever, and each sees all of the other or nothing.
///
/// *Planted*: `release` relaxed.
#[test]
fn under_two_phase_locking_the_older_goes_first() {
    check_every_order(Some(3), || {
        let two = Two::<TwoPlSf>::new();
        let run = |two: &Two<TwoPlSf>, mine: usize| {
            let desk = two.desk(mine);
            loop {
                while !matches!(TwoPlSf::may_begin(&desk), Step::Ready(())) {
                    thread::yield_now();
                }
                desk.begin(false, mine);
                TwoPlSf::begin(&desk, false);
                let load = || two.cells[1 - mine].load(Ordering::Relaxed);
                let value = patiently(|| TwoPlSf::read(&desk, Spot::of(&two.locks[1 - mine]), true, load));
                let is_locked = patiently(|| TwoPlSf::write(&desk, Spot::of(&two.locks[mine]))).is_some();
                if let (Some(value), true) = (value, is_locked) {
                    desk.store::<u64>(Spot::of(&two.locks[mine]), &two.cells[mine], value + 1);
                    two.end(&desk, Ending::Commit);
                    return;
                }
                two.end(&desk, Ending::Restart(Conflict::WriteLocked));
            }
        };
        let other = {
            let two = two.clone();
            thread::spawn(move || run(&two, 1))
        };
        run(&two, 0);
        other.join().unwrap();
        let values = [0, 1].map(|index: usize| two.cells[index].load(Ordering::Relaxed));
        assert!(values == [1, 2] || values == [2, 1], "one came first, and the other saw it: {values:?}");
    });
}

/// Slots 1 and, if there are `many`, 2 have read the first variable, so that they are on record, and one of them comes again, or slot 3, which
/// has no row yet; a writer comes at the same time. The one who reads sees all of what is written or nothing.
fn reader_and_writer(many: bool, reader: usize) {
    check_every_order(Some(3), move || {
        let two = Two::<TwoPlSf>::new();
        let mut desks = [1, 2, 3].map(|index: usize| two.desk(index));
        for desk in &desks[..1 + usize::from(many)] {
            desk.begin(false, 0);
            TwoPlSf::begin(desk, false);
            assert_eq!((two.read(desk, 0, true), two.read(desk, 1, true)), (Some(0), Some(0)));
            assert!(two.end(desk, Ending::Commit));
        }
        desks.swap(0, reader - 1);
        let [desk, ..] = desks;
        let reader = {
            let two = two.clone();
            thread::spawn(move || {
                desk.begin(false, 1);
                TwoPlSf::begin(&desk, false);
                let values = [0, 1].map(|index: usize| {
                    let load = || two.cells[index].load(Ordering::Relaxed);
                    patiently(|| TwoPlSf::read(&desk, Spot::of(&two.locks[index]), true, load))
                });
                two.end(&desk, Ending::Restart(Conflict::ReadLocked));
                if let [Some(first), Some(second)] = values {
                    assert_eq!(first, second, "a state that there never was");
                }
            })
        };
        let desk = two.desk(4);
        desk.begin(false, 2);
        TwoPlSf::begin(&desk, false);
        let has_all = (0..2).all(|index: usize| {
            let is_locked = patiently(|| TwoPlSf::write(&desk, Spot::of(&two.locks[index]))).is_some();
            if is_locked {
                desk.store::<u64>(Spot::of(&two.locks[index]), &two.cells[index], 7);
            }
            is_locked
        });
        two.end(&desk, if has_all { Ending::Commit } else { Ending::Restart(Conflict::WriteLocked) });
        reader.join().unwrap();
    });
}

/// *Planted*: `enter` no stronger than release; `look` and `reads` no stronger than acquire; `change` no stronger than both; `leave`
/// relaxed.
#[test]
fn a_reader_on_record_and_a_writer_see_each_other() {
    reader_and_writer(false, 1);
}

/// *Planted*: the number of rows raised, or looked at, by a step that is not sequentially consistent.
#[test]
fn one_of_many_readers_and_a_writer_see_each_other() {
    reader_and_writer(true, 2);
    reader_and_writer(true, 3);
}

/// A writer sleeps until a reader has left. A lost wake-up is a deadlock, which loom reports.
///
/// *Planted*: the reader's step relaxed; the writer's.
#[test]
fn a_reader_that_leaves_wakes_the_writer() {
    check_every_order(None, || {
        let two = Two::<TwoPlSf>::new();
        let room = Arc::new(WaitingRoom::new());
        let reader = two.desk(1);
        reader.begin(false, 1);
        TwoPlSf::begin(&reader, false);
        assert_eq!(two.read(&reader, 0, true), Some(0));
        let reader = {
            let (two, room) = (two.clone(), room.clone());
            thread::spawn(move || {
                TwoPlSf::release(&reader, Ending::Commit, |on| room.wake(on));
                reader.settle(true, &two.epochs);
            })
        };
        let desk = two.desk(2);
        desk.begin(false, 2);
        TwoPlSf::begin(&desk, false);
        let ask = || TwoPlSf::write(&desk, Spot::of(&two.locks[0]));
        assert!(settle_at(&desk, ask, || Some(&room)).is_ok(), "the reader has drawn no number");
        two.end(&desk, Ending::Commit);
        reader.join().unwrap();
        assert_eq!(room.count(), 0);
    });
}

/// Asks until the answer is to go on, or not to.
fn patiently<R>(mut ask: impl FnMut() -> Step<R, Conflict>) -> Option<R> {
    loop {
        match ask() {
            Step::Ready(granted) => return Some(granted),
            Step::Die(_) | Step::Abort(_) => return None,
            Step::Busy(_) | Step::Wait(..) => thread::yield_now(),
        }
    }
}

/// The sequence lock of Algorithm 5: a speculative writer who lets go while the irrevocable transaction comes.
///
/// *Planted*: `release` by a store, or relaxed; `load` relaxed.
#[test]
fn the_irrevocable_transaction_waits_for_the_last_writer_and_keeps_the_next_one_out() {
    check_every_order(None, || {
        let lock = Arc::new((Lock::default(), AtomicU64::new(0)));
        let speculative = {
            let lock = lock.clone();
            thread::spawn(move || {
                for time in 1..3 {
                    let seen = lock.0.load();
                    if seen.is_written() || seen.is_read() {
                        continue;
                    }
                    // SAFETY: the lock outlives the thread.
                    let lent = unsafe { Lent::new(&lock.0) };
                    let Some(held) = lock.0.try_lock(lent, seen, slot(1), true) else { continue };
                    let value = lock.1.load(Ordering::Relaxed);
                    lock.1.store(value + 1, Ordering::Relaxed);
                    Lock::release(held, time, slot(1), true, Mark::Answered);
                }
            })
        };
        lock.0.read_lock();
        let mut seen = lock.0.load();
        while seen.is_written() {
            thread::yield_now();
            seen = lock.0.load();
        }
        let first = lock.1.load(Ordering::Relaxed);
        assert_eq!(first, seen.time().min(2), "as many as have been released");
        // SAFETY: the lock outlives this.
        let held = lock.0.write_lock_alone(unsafe { Lent::new(&lock.0) }, seen, slot(2));
        lock.1.store(first + 10, Ordering::Relaxed);
        assert_eq!(lock.1.load(Ordering::Relaxed), first + 10, "nobody else writes");
        Lock::release_alone(held, 5, slot(2), Mark::Answered);
        speculative.join().unwrap();
        let word = lock.0.load();
        assert!(word != LockWord::NEW && !word.is_read() && !word.is_written());
        assert!(lock.1.load(Ordering::Relaxed) >= 10);
    });
}

/// One who waits marks what he has read while the irrevocable transaction, which has locked it for reading, goes on to write it:
/// he is woken, or he knows that he came too late.
///
/// *Planted*: `write_lock_alone` by a store.
#[test]
fn a_mark_beside_the_read_bit_is_not_lost() {
    check_every_order(None, || {
        let lock = Arc::new(Lock::default());
        let watcher = {
            let lock = lock.clone();
            thread::spawn(move || {
                let seen = lock.load();
                seen.time() == 0 && !seen.is_written() && lock.watch(seen)
            })
        };
        lock.read_lock();
        // SAFETY: the lock outlives this.
        let held = lock.write_lock_alone(unsafe { Lent::new(&lock) }, lock.load(), slot(2));
        Lock::release_alone(held, 5, slot(2), Mark::Answered);
        let is_marked = watcher.join().unwrap();
        assert_eq!(held.before.is_watched(), is_marked, "a sleeper whom nobody wakes");
        assert!(!lock.load().is_watched());
    });
}
