//! One transaction after another, under every control: what operations do, and what comes of errors and panics.

use crate::support::{for_each_control, for_each_control as for_each_deferred_control};
use noonmark_stm::{Interrupted, World};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

type TVar<T, W> = noonmark_stm::TVar<T, W>;

#[derive(Debug, PartialEq)]
enum Error {
    Mine(u64),
    Interrupted,
}

impl From<Interrupted> for Error {
    fn from(_: Interrupted) -> Self {
        Error::Interrupted
    }
}

fn reads_its_own_writes<W: World>() {
    let (a, b) = (TVar::<u64, W>::new_in(1), TVar::<[u64; 3], W>::new_in([1, 2, 3]));
    let seen = W::atomically(|tx| {
        a.set(tx, 5)?;
        let first = a.replace(tx, 6)?;
        let second = b.update(tx, |[x, y, z]| [z, y, x + first])?;
        Ok((first, a.get(tx)?, second, b.get(tx)?))
    });
    assert_eq!(seen, (5, 6, [3, 2, 6], [3, 2, 6]));
    assert_eq!((a.load(), b.load()), (6, [3, 2, 6]));
    b.store([0; 3]);
    assert_eq!((a.into_inner(), b.into_inner()), (6, [0; 3]));
}

fn an_error_undoes_and_comes_out<W: World>() {
    let vars: Vec<TVar<u64, W>> = (0..10).map(TVar::new_in).collect();
    let answer = W::try_atomically(|tx| {
        for var in &vars {
            var.update(tx, |value| value + 100)?;
            var.update(tx, |value| value * 2)?;
        }
        Err::<(), _>(Error::Mine(vars[3].get(tx)?))
    });
    assert_eq!(answer, Err(Error::Mine(206)));
    assert_eq!(vars.iter().map(TVar::load).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    // And everything has been let go.
    assert_eq!(W::try_atomically(|tx| vars[3].update(tx, |v| v + 1).map_err(Error::from)), Ok(4));
}

fn a_panic_undoes_and_goes_on<W: World>() {
    let var = TVar::<u64, W>::new_in(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        W::atomically(|tx| {
            var.set(tx, 2)?;
            if var.get(tx)? == 2 {
                panic!("in the closure");
            }
            Ok(())
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(var.load(), 1);
    W::atomically(|tx| var.update(tx, |value| value + 1));
    assert_eq!(var.load(), 2);
}

fn an_interruption_that_is_kept_back_commits_nothing<W: World>() {
    let (var, other) = (TVar::<u64, W>::new_in(0), TVar::<u64, W>::new_in(0));
    let (mut attempts, is_over) = (0, AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Somebody must change what was read, or the transaction would sleep for ever.
        scope.spawn(|| {
            for value in 1.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                other.store(value);
            }
        });
        W::atomically(|tx| {
            if attempts < 2 {
                other.get(tx)?;
            }
            var.set(tx, attempts + 1)?;
            attempts += 1;
            if attempts < 3 {
                // Called off, and the closure does as if nothing were.
                let _: Result<(), Interrupted> = tx.or_else(|tx| tx.retry(), |tx| tx.retry());
            }
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!((attempts, var.load()), (3, 3));
}

fn an_interruption_that_is_kept_back_outlasts_a_branch<W: World>() {
    let (var, other) = (TVar::<u64, W>::new_in(0), TVar::<u64, W>::new_in(0));
    let is_over = AtomicBool::new(false);
    let mut attempts = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for value in 1.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                other.store(value);
            }
        });
        W::atomically(|tx| {
            other.get(tx)?;
            attempts += 1;
            if attempts < 3 {
                // Called off, and nobody listens; what is called off after that is a branch, in which there is another way.
                let _: Result<(), Interrupted> = tx.retry();
                let _: Result<(), Interrupted> = tx.or_else(|tx| tx.retry(), |_| Ok(()));
            }
            let _ = var.set(tx, attempts);
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
    });
    // (Or more, if the other thread comes in between.)
    assert!(attempts >= 3, "{attempts}");
    assert_eq!(var.load(), attempts);
}

fn a_transaction_inside_another_is_refused<W: World>() {
    let var = TVar::<u64, W>::new_in(0);
    let refused = catch_unwind(AssertUnwindSafe(|| {
        W::atomically(|tx| {
            var.set(tx, 1)?;
            Ok(var.load())
        })
    }));
    let message = refused.unwrap_err();
    let message = message.downcast_ref::<&str>().copied().unwrap_or_default();
    assert!(message.contains("inside another"), "{message}");
    assert_eq!(var.load(), 0);
    // Also where the outer one only reads; and when it has ended, one way or the other, there is none.
    let refused = catch_unwind(AssertUnwindSafe(|| W::view(|tx| Ok(var.get(tx)? + var.load()))));
    assert!(refused.is_err());
    assert_eq!(W::view(|tx| var.get(tx)) + var.load(), 0);
    // A session that lies idle is not in the midst of one.
    let mut session = W::session();
    session.atomically(|tx| var.set(tx, 7));
    assert_eq!(var.load(), 7);
    drop(session);
    W::atomically(|tx| var.set(tx, 8));
}

fn the_second_branch_finds_nothing_of_the_first<W: World>() {
    let (a, b) = (TVar::<u64, W>::new_in(1), TVar::<u64, W>::new_in(2));
    let seen = W::atomically(|tx| {
        a.set(tx, 10)?;
        tx.or_else(
            |tx| {
                a.set(tx, 20)?;
                b.set(tx, 30)?;
                tx.retry()
            },
            |tx| tx.or_else(|tx| tx.retry(), |tx| Ok((a.get(tx)?, b.get(tx)?))),
        )
    });
    assert_eq!((seen, a.load(), b.load()), ((10, 2), 10, 2));
}

fn one_thread_advances_nothing<W: World>() {
    let vars: Vec<TVar<u64, W>> = (0..100).map(TVar::new_in).collect();
    let before = W::memory().statistics().clock;
    let mut session = W::session();
    for round in 0..1000 {
        session.atomically(|tx| {
            vars[round % 100].update(tx, |value| value + 1)?;
            vars[round * 7 % 100].update(tx, |value| value + 1)
        });
    }
    assert_eq!(W::memory().statistics().clock, before, "consecutive transactions of one slot");
}

for_each_control! {
    [dctl, dcotl, dctl_sf, dcotl_sf, tl2_gv4, tl2_gv5, tinystm, two_pl_sf] in table [dctl, dcotl_sf, tinystm, two_pl_sf]:
    reads_its_own_writes,
    an_error_undoes_and_comes_out,
    a_panic_undoes_and_goes_on,
    an_interruption_that_is_kept_back_commits_nothing,
    an_interruption_that_is_kept_back_outlasts_a_branch,
    a_transaction_inside_another_is_refused,
    the_second_branch_finds_nothing_of_the_first,
}

mod deferred {
    use super::*;

    for_each_deferred_control! {
        [dctl, dcotl, dctl_sf, dcotl_sf] in table [dcotl]:
        // Where others have left their times in the table, it may have to.
        afresh one_thread_advances_nothing,
    }
}
