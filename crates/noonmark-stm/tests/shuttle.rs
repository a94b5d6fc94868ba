//! Whole transactions under random schedules: every atomic access is a place where another thread may run.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle cargo test -p noonmark-stm --release --test shuttle
//! ```
//!
//! What holds is the same as in `threads.rs`; here it is a few transactions in very many schedules, half of them random and
//! half with a few preemptions in unlikely places (PCT). That nobody waits for ever shuttle sees to itself. Each schedule
//! has a memory of its own. Planted bugs show that the tests can fail.

#![cfg(shuttle)]

use noonmark_stm::{Bug, Dcotl, DcotlSf, Dctl, DctlSf, InTable, Interrupted, Memory, Opaque, Own, Place};
use noonmark_stm::{Settings, Threads, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf, World};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type TVar<T, W> = noonmark_stm::TVar<T, W>;

/// A world whose memory is that of the schedule under way on this thread of the system, which runs all threads of
/// the schedule.
struct Fresh<C, P>(PhantomData<(C, P)>);

std::thread_local! {
    static MEMORY: std::cell::Cell<*const ()> = const { std::cell::Cell::new(std::ptr::null()) };
}

// SAFETY: set before a schedule begins, and kept to its end, when no variable is left: `on_schedules` sees to it. Each test is
// a thread of the system, and uses one world.
unsafe impl<C: Opaque, P: Place> World for Fresh<C, P> {
    type Control = C;
    type Host = Threads;
    type Place = P;

    fn memory() -> &'static Memory<Self> {
        // SAFETY: as above.
        unsafe { &*MEMORY.get().cast::<Memory<Self>>() }
    }
}

fn settings() -> Settings {
    Settings::default().slots(5).attempts_max(3)
}

/// Runs it on so many schedules; whether it held on all of them.
fn holds_on<W: World<Host = Threads>>(
    schedules: usize,
    settings: Settings,
    test: impl Fn() + Send + Sync + 'static,
) -> bool {
    let test = Arc::new(test);
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let test = test.clone();
        catch_unwind(AssertUnwindSafe(|| {
            Runner::new(scheduler, Config::new()).run(move || {
                let memory: *mut Memory<W> =
                    Box::into_raw(Box::new(Memory::<W>::new(settings, Threads::default())));
                MEMORY.set(memory.cast_const().cast());
                test();
                // SAFETY: all threads have been joined, and the variables were theirs and the test's. (After a failure it
                // is leaked.)
                drop(unsafe { Box::from_raw(memory) });
            });
        }))
        .is_ok()
    };
    run(Box::new(RandomScheduler::new(schedules))) && run(Box::new(PctScheduler::new(3, schedules)))
}

/// Runs each of these on a thread of the schedule.
fn together(runs: Vec<Box<dyn Fn() + Send>>) {
    let threads: Vec<_> = runs.into_iter().map(|run| shuttle::thread::spawn(run)).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

struct CalledOff;

impl From<Interrupted> for CalledOff {
    fn from(_: Interrupted) -> Self {
        CalledOff
    }
}

/// Two variables that are always equal, or the second of which is what the first was.
struct Pair<W: World>([TVar<u64, W>; 3]);

impl<W: World> Pair<W> {
    fn new() -> Arc<Self> {
        Arc::new(Pair([TVar::new_in(0), TVar::new_in(0), TVar::new_in(0)]))
    }

    fn add_one(&self) {
        let [x, y, _] = &self.0;
        W::atomically(|tx| {
            let (a, b) = (x.get(tx)?, y.get(tx)?);
            assert_eq!(a, b, "seen by an attempt that writes");
            y.set(tx, a + 1)?;
            x.set(tx, a + 1)
        });
    }

    fn look(&self) {
        let [x, y, _] = &self.0;
        W::view(|tx| {
            let (a, b) = (x.get(tx)?, y.get(tx)?);
            assert_eq!(a, b, "seen by an attempt that reads");
            Ok(())
        });
    }

    fn call_off(&self) {
        let [x, y, _] = &self.0;
        let _: Result<(), CalledOff> = W::try_atomically(|tx| {
            x.set(tx, 100)?;
            y.set(tx, 200)?;
            Err(CalledOff)
        });
    }

    /// Overwrites, not having read.
    fn overwrite(&self, value: u64) {
        let [x, y, z] = &self.0;
        W::atomically(|tx| {
            x.set(tx, value)?;
            z.set(tx, value)?;
            y.set(tx, value)
        });
    }
}

fn updates_and_views<W: World>() {
    let pair = Pair::<W>::new();
    let (a, b, c) = (pair.clone(), pair.clone(), pair.clone());
    together(vec![
        Box::new(move || (0..2).for_each(|_| a.add_one())),
        Box::new(move || b.add_one()),
        Box::new(move || (0..2).for_each(|_| c.look())),
    ]);
    assert_eq!(pair.0[0].load(), 3, "no update is lost");
}

fn what_is_called_off<W: World>() {
    let pair = Pair::<W>::new();
    let (a, b, c) = (pair.clone(), pair.clone(), pair.clone());
    together(vec![
        Box::new(move || (0..2).for_each(|_| a.call_off())),
        Box::new(move || b.add_one()),
        Box::new(move || {
            c.look();
            c.add_one();
        }),
    ]);
    assert_eq!((pair.0[0].load(), pair.0[1].load()), (2, 2));
}

/// Of two that add to one variable neither is lost. (Where each adds to two, the second tells what has been lost at the first.)
fn adding<W: World>() {
    let pair = Pair::<W>::new();
    let add = |pair: Arc<Pair<W>>| {
        move || {
            W::atomically(|tx| pair.0[0].update(tx, |count| count + 1));
        }
    };
    together(vec![Box::new(add(pair.clone())), Box::new(add(pair.clone()))]);
    assert_eq!(pair.0[0].load(), 2);
}

fn overwriting<W: World>() {
    let pair = Pair::<W>::new();
    let (a, b, c) = (pair.clone(), pair.clone(), pair.clone());
    together(vec![
        Box::new(move || a.overwrite(10)),
        Box::new(move || {
            b.overwrite(20);
            b.look();
        }),
        Box::new(move || {
            c.look();
            c.add_one();
        }),
    ]);
    assert!([10, 11, 20, 21].contains(&pair.0[0].load()));
}

fn write_skew<W: World>() {
    let pair = Pair::<W>::new();
    let on_call = |pair: Arc<Pair<W>>, mine: usize| {
        move || {
            W::atomically(|tx| if pair.0[1 - mine].get(tx)? == 0 { pair.0[mine].set(tx, 1) } else { Ok(()) });
        }
    };
    together(vec![Box::new(on_call(pair.clone(), 0)), Box::new(on_call(pair.clone(), 1))]);
    assert_eq!(pair.0[0].load() + pair.0[1].load(), 1);
}

/// Hands a value on, and waits for it. A lost wake-up is a deadlock, which shuttle reports.
fn waiting<W: World>() {
    let pair = Pair::<W>::new();
    let (a, b, c) = (pair.clone(), pair.clone(), pair.clone());
    let take = |pair: Arc<Pair<W>>| {
        move || {
            let [x, y, z] = &pair.0;
            W::atomically(|tx| {
                tx.or_else(
                    |tx| if x.get(tx)? == 0 { tx.retry() } else { x.set(tx, 0) },
                    |tx| if y.get(tx)? == 0 { tx.retry() } else { y.set(tx, 0) },
                )?;
                z.update(tx, |taken| taken + 1)
            });
        }
    };
    together(vec![
        Box::new(take(a)),
        Box::new(take(b)),
        Box::new(move || {
            W::atomically(|tx| c.0[0].set(tx, 1));
            W::atomically(|tx| c.0[1].set(tx, 1));
        }),
    ]);
    assert_eq!([0, 1, 2].map(|index: usize| pair.0[index].load()), [0, 0, 2]);
}

fn irrevocable<W: World>()
where
    W::Control: noonmark_stm::StarvationFree,
{
    let pair = Pair::<W>::new();
    let (a, b, c) = (pair.clone(), pair.clone(), pair.clone());
    let once = |pair: Arc<Pair<W>>| {
        move || {
            let mut runs = 0;
            W::irrevocably(|tx| {
                let [x, y, _] = &pair.0;
                runs += 1;
                let (a, b) = (x.get(tx)?, y.get(tx)?);
                assert_eq!(a, b);
                x.set(tx, a + 1)?;
                y.set(tx, a + 1)
            });
            assert_eq!(runs, 1);
        }
    };
    together(vec![
        Box::new(once(a)),
        Box::new(once(b)),
        Box::new(move || {
            c.add_one();
            c.look();
        }),
    ]);
    assert_eq!((pair.0[0].load(), pair.0[1].load()), (3, 3));
}

/// However many irrevocable transactions come, another one commits in as many attempts as it takes to become one itself, after three
/// failures, and those that it loses to what is merely older: one for each other thread.
fn beside_irrevocable_ones<W: World>()
where
    W::Control: noonmark_stm::StarvationFree,
{
    let pair = Pair::<W>::new();
    let (a, b, c) = (pair.clone(), pair.clone(), pair.clone());
    let twice = |pair: Arc<Pair<W>>| {
        move || {
            for _ in 0..2 {
                W::irrevocably(|tx| {
                    let [x, y, _] = &pair.0;
                    y.update(tx, |value| value + 1)?;
                    x.update(tx, |value| value + 1)
                });
            }
        }
    };
    together(vec![
        Box::new(twice(a)),
        Box::new(twice(b)),
        Box::new(move || {
            let mut attempts = 0;
            W::atomically(|tx| {
                let [x, y, _] = &c.0;
                attempts += 1;
                x.update(tx, |value| value + 1)?;
                y.update(tx, |value| value + 1)
            });
            assert!(attempts <= 3 + 2 + 1, "{attempts} attempts");
        }),
    ]);
    assert_eq!((pair.0[0].load(), pair.0[1].load()), (5, 5));
}

/// Two that are irrevocable as soon as they have lost to an irrevocable one: somebody may sleep until one of them is over, who by then is not what
/// he was.
fn falling_back_while_awaited<W: World>()
where
    W::Control: noonmark_stm::StarvationFree,
{
    let pair = Pair::<W>::new();
    let (a, b, c) = (pair.clone(), pair.clone(), pair.clone());
    let once = |pair: Arc<Pair<W>>, [first, second]: [usize; 2]| {
        move || {
            W::atomically(|tx| {
                pair.0[first].update(tx, |value| value + 1)?;
                pair.0[second].update(tx, |value| value + 1)
            });
        }
    };
    together(vec![
        Box::new(move || {
            W::irrevocably(|tx| {
                let [x, y, _] = &a.0;
                x.update(tx, |value| value + 1)?;
                y.update(tx, |value| value + 1)
            });
        }),
        Box::new(once(b, [0, 1])),
        Box::new(once(c, [1, 0])),
    ]);
    assert_eq!((pair.0[0].load(), pair.0[1].load()), (3, 3));
}

const SCHEDULES: usize = 15_000;

macro_rules! on_schedules {
    ($($name:ident: $control:ty, [$($test:ident),*];)*) => { $(
        mod $name {
            use super::*;
            $(
                #[test]
                fn $test() {
                    assert!(holds_on::<Fresh<$control, Own>>(SCHEDULES, settings(), super::$test::<Fresh<$control, Own>>));
                    // Few locks in all, so that variables share them.
                    type Shared = Fresh<$control, InTable>;
                    assert!(holds_on::<Shared>(SCHEDULES / 3, settings(), super::$test::<Shared>));
                }
            )*
        }
    )* };
}

on_schedules! {
    dctl: Dctl, [adding, updates_and_views, what_is_called_off, overwriting, write_skew, waiting];
    dcotl: Dcotl, [adding, updates_and_views, what_is_called_off, overwriting, write_skew, waiting];
    tl2_gv4: Tl2Gv4, [adding, updates_and_views, what_is_called_off, overwriting, write_skew, waiting];
    tl2_gv5: Tl2Gv5, [adding, updates_and_views, what_is_called_off, overwriting, write_skew, waiting];
    tinystm: TinyStm, [adding, updates_and_views, what_is_called_off, overwriting, write_skew, waiting];
    two_pl_sf: TwoPlSf, [adding, updates_and_views, what_is_called_off, overwriting, write_skew, waiting, irrevocable, beside_irrevocable_ones];
    dctl_sf: DctlSf, [adding, updates_and_views, what_is_called_off, overwriting, write_skew, waiting, irrevocable, beside_irrevocable_ones];
    dcotl_sf: DcotlSf, [adding, updates_and_views, what_is_called_off, overwriting, write_skew, waiting, irrevocable, beside_irrevocable_ones];
}

#[test]
fn who_falls_back_wakes_those_that_waited_for_what_it_was() {
    fn holds<C: Opaque + noonmark_stm::StarvationFree>(bug: Option<Bug>) -> bool {
        let settings = settings().attempts_max(1);
        let settings = bug.map_or(settings, |bug| settings.plant(bug));
        holds_on::<Fresh<C, Own>>(4 * SCHEDULES, settings, falling_back_while_awaited::<Fresh<C, Own>>)
    }
    assert!(holds::<TwoPlSf>(None));
    assert!(holds::<DctlSf>(None));
    assert!(holds::<DcotlSf>(None));
    assert!(!holds::<TwoPlSf>(Some(Bug::FallBackInSilence)));
}

/// A test that cannot fail proves nothing.
#[test]
fn planted_bugs_are_found() {
    type Here = Fresh<DcotlSf, Own>;
    let found = |bug, test: fn()| !holds_on::<Here>(20 * SCHEDULES, settings().plant(bug), test);
    assert!(found(Bug::SkipPostValidation, updates_and_views::<Here>));
    assert!(found(Bug::SkipValidation, write_skew::<Here>));
    assert!(found(Bug::CommitKeepsTime, updates_and_views::<Here>));
    assert!(found(Bug::UndoKeepsTime, what_is_called_off::<Here>));
    assert!(found(Bug::AlwaysConsistent, updates_and_views::<Here>));
    assert!(found(Bug::TakeAnyWord, adding::<Here>));
    assert!(found(Bug::SkipWakes, waiting::<Here>));
    type Locking = Fresh<TwoPlSf, Own>;
    let found = |bug, test: fn()| !holds_on::<Locking>(20 * SCHEDULES, settings().plant(bug), test);
    assert!(found(Bug::SkipPostValidation, updates_and_views::<Locking>));
    assert!(found(Bug::SkipReaders, updates_and_views::<Locking>));
    assert!(found(Bug::SkipRecord, updates_and_views::<Locking>));
    assert!(found(Bug::DrawInSilence, write_skew::<Locking>));
    assert!(found(Bug::CommitKeepsTime, waiting::<Locking>));
    assert!(found(Bug::SkipWakes, waiting::<Locking>));
}
