//! Real threads: what must hold at every moment, and what must hold in the end, under every control.

use crate::support::for_each_control as for_each_deferred_control;
use crate::support::for_each_control as for_each_starvation_free_control;
use crate::support::for_each_control as for_each_control_that_starves;
use crate::support::for_each_control as for_each_control_that_falls_back;
use crate::support::for_each_control;
use crate::support::run::on_threads;
use noonmark_stm::{Control, Interrupted, Reads, TRavlMap, World};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

type TVar<T, W> = noonmark_stm::TVar<T, W>;

/// So many, as long as a test should be short.
const ROUNDS: u64 = 10_000;

fn no_attempt_ever_sees_two_that_differ<W: World>() {
    let (x, y) = (TVar::<u64, W>::new_in(0), TVar::<u64, W>::new_in(0));
    on_threads(4, &|thread| {
        for _ in 0..ROUNDS {
            if thread < 2 {
                // Not at the commit: while it runs, in an attempt that may be doomed.
                W::atomically(|tx| {
                    let both = (x.get(tx)?, y.get(tx)?);
                    assert_eq!(both.0, both.1);
                    y.set(tx, both.0 + 1)?;
                    x.set(tx, both.0 + 1)
                });
            } else {
                let both = W::view(|tx| {
                    let both = (x.get(tx)?, y.get(tx)?);
                    assert_eq!(both.0, both.1);
                    Ok(both)
                });
                assert_eq!(both.0, both.1);
            }
        }
    });
    assert_eq!((x.load(), y.load()), (2 * ROUNDS, 2 * ROUNDS), "no update is lost");
}

fn a_value_of_many_words_is_never_torn<W: World>() {
    let value = TVar::<[u64; 7], W>::new_in([0; 7]);
    on_threads(3, &|thread| {
        for round in 0..ROUNDS {
            if thread == 0 {
                let words = W::view(|tx| value.get(tx));
                assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
            } else {
                // Overwritten, not having been read.
                W::atomically(|tx| value.set(tx, [round * 2 + thread; 7]));
            }
        }
    });
}

fn write_skew_is_refused<W: World>() {
    let on_call = [TVar::<u64, W>::new_in(1), TVar::new_in(1)];
    for _ in 0..ROUNDS / 10 {
        on_threads(2, &|thread| {
            W::atomically(|tx| {
                let (mine, other) = (&on_call[thread as usize], &on_call[1 - thread as usize]);
                if other.get(tx)? == 1 { mine.set(tx, 0) } else { Ok(()) }
            });
        });
        let left = W::view(|tx| Ok(on_call[0].get(tx)? + on_call[1].get(tx)?));
        assert_eq!(left, 1, "one of the two stays");
        on_call.iter().for_each(|one| one.store(1));
    }
}

struct CalledOff;

impl From<Interrupted> for CalledOff {
    fn from(_: Interrupted) -> Self {
        CalledOff
    }
}

fn what_is_called_off_is_never_seen<W: World>() {
    let vars: Vec<TVar<u64, W>> = (0..4).map(|_| TVar::new_in(0)).collect();
    on_threads(4, &|thread| {
        for _ in 0..ROUNDS {
            if thread < 2 {
                let _: Result<(), CalledOff> = W::try_atomically(|tx| {
                    for var in &vars {
                        var.set(tx, 7)?;
                    }
                    Err(CalledOff)
                });
            } else {
                let seen = W::atomically(|tx| vars.iter().map(|var| var.get(tx)).sum::<Result<u64, _>>());
                assert_eq!(seen, 0);
            }
        }
    });
}

fn the_bank_neither_makes_money_nor_loses_any<W: World>() {
    const ACCOUNTS: u64 = 20;
    let accounts: Vec<TVar<i64, W>> = (0..ACCOUNTS).map(|_| TVar::new_in(100)).collect();
    on_threads(4, &|thread| {
        let mut session = W::session();
        for round in 0..ROUNDS {
            if thread == 3 && round % 10 == 0 {
                let total = session.view(|tx| accounts.iter().map(|a| a.get(tx)).sum::<Result<i64, _>>());
                assert_eq!(total, 100 * ACCOUNTS as i64);
            }
            let (from, to) = (round * 7 + thread, round * 13 + thread * 5 + 1);
            session.atomically(|tx| {
                accounts[(from % ACCOUNTS) as usize].update(tx, |balance| balance - 1)?;
                accounts[(to % ACCOUNTS) as usize].update(tx, |balance| balance + 1)
            });
        }
    });
    assert_eq!(accounts.iter().map(TVar::load).sum::<i64>(), 100 * ACCOUNTS as i64);
}

/// A place for one, handed on by waiting: a lost wake-up would hang.
fn those_who_wait_are_woken<W: World>() {
    let (there, back) = (TVar::<Option<u64>, W>::new_in(None), TVar::<Option<u64>, W>::new_in(None));
    let before = W::memory().statistics();
    let pass = |from: &TVar<Option<u64>, W>, to: &TVar<Option<u64>, W>, end: u64| {
        loop {
            let value = W::atomically(|tx| {
                let Some(value) = from.replace(tx, None)? else { return tx.retry() };
                to.set(tx, Some(value + 1))?;
                Ok(value)
            });
            if value + 2 >= end {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = [
            scope.spawn(|| pass(&there, &back, 2 * ROUNDS)),
            scope.spawn(|| pass(&back, &there, 2 * ROUNDS)),
        ];
        there.store(Some(0));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert!(W::memory().statistics().sleeps > before.sleeps);
}

fn either_of_two_wakes_one_who_waits_for_both<W: World>() {
    let sources = [TVar::<u64, W>::new_in(0), TVar::<u64, W>::new_in(0)];
    let taken = TVar::<u64, W>::new_in(0);
    const EACH: u64 = 500;
    std::thread::scope(|scope| {
        let mut threads = Vec::from(sources.each_ref().map(|source| {
            scope.spawn(|| {
                for _ in 0..EACH {
                    W::atomically(|tx| match source.get(tx)? {
                        0 => source.set(tx, 1),
                        _ => tx.retry(),
                    });
                }
            })
        }));
        threads.push(scope.spawn(|| {
            for _ in 0..2 * EACH {
                W::atomically(|tx| {
                    let take = |source: usize| match sources[source].get(tx)? {
                        0 => tx.retry(),
                        _ => sources[source].set(tx, 0),
                    };
                    tx.or_else(|_| take(0), |_| take(1))?;
                    taken.update(tx, |taken| taken + 1)
                });
            }
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(taken.load(), 2 * EACH);
}

fn disjoint_threads_meet_no_conflict<W: World>() {
    let vars: Vec<TVar<u64, W>> = (0..4 * 64).map(|_| TVar::new_in(0)).collect();
    let before = W::memory().statistics();
    on_threads(4, &|thread| {
        let mut session = W::session();
        for round in 0..ROUNDS {
            session.atomically(|tx| vars[(thread * 64 + round % 64) as usize].update(tx, |v| v + 1));
        }
    });
    let after = W::memory().statistics();
    assert_eq!(after.commits - before.commits, 4 * ROUNDS);
    // With a table, two may share a lock by chance.
    if size_of::<TVar<u64, W>>() > 8 {
        assert_eq!((after.conflicts, after.clock), (before.conflicts, before.clock));
    }
}

/// `K`, as it is unless told otherwise.
const ATTEMPTS_MAX: u64 = 10;
/// Who has not come through in fewer attempts starves.
const ENOUGH: u64 = 5 * ATTEMPTS_MAX;
const WRITERS: u64 = 8;
const ENTRIES: u64 = 500;

fn sum_of_all<'tx, W: World>(
    tx: impl Reads<'tx, W>,
    map: &'tx TRavlMap<u64, u64, W>,
    half_way: impl Fn(),
) -> Result<u64, Interrupted> {
    let mut sum = 0;
    for (nth, entry) in (0..).zip(map.iter(tx)) {
        if nth == ENTRIES / 2 {
            half_way();
        }
        sum += entry?.1;
    }
    Ok(sum)
}

/// How many attempts it takes to read a whole map, and to write a variable where `writes`, while eight threads write the map. Half-way through
/// each attempt the reader waits until every writer has changed both what has been read and what has not: so what it
/// reads was never there together. From attempt `keeps_out` on it may keep writers out, and waits for some time only. At [`ENOUGH`] it gives up.
#[expect(clippy::disallowed_methods, reason = "it lets the threads of this test go on, and simulates none")]
fn attempts_beside_eight_writers<W: World>(writes: bool, keeps_out: u64) -> u64 {
    let map = TRavlMap::<u64, u64, W>::new_in();
    W::atomically(|tx| (0..ENTRIES).try_for_each(|key| map.insert(tx, key, 0).map(drop)));
    let sum = TVar::<u64, W>::new_in(0);
    let (commits, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let half_way = |attempt: u64| {
        // One transaction of each may have been over before, and be counted only now.
        let enough = commits.load(Ordering::Relaxed) + 2 * WRITERS;
        let turns_max = if attempt < keeps_out { u64::MAX } else { 10_000 };
        let turns = (0..turns_max).take_while(|_| commits.load(Ordering::Relaxed) < enough);
        turns.for_each(|_| thread::yield_now());
    };
    let mut attempts = 0;
    thread::scope(|scope| {
        let begin = |writer| {
            let (map, commits, is_over) = (&map, &commits, &is_over);
            scope.spawn(move || {
                let mut session = W::session();
                let mut key = writer;
                while !is_over.load(Ordering::Relaxed) {
                    key = (key + 7) % (ENTRIES / 2);
                    session.atomically(|tx| {
                        map.insert(tx, key, key)?;
                        map.insert(tx, ENTRIES / 2 + key, key).map(drop)
                    });
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let threads: Vec<_> = (0..WRITERS).map(begin).collect();
        let mut next_attempt = || {
            attempts += 1;
            attempts
        };
        if writes {
            W::atomically(|tx| match next_attempt() {
                ENOUGH => Ok(()),
                attempt => sum.set(tx, sum_of_all(tx, &map, || half_way(attempt))?),
            });
        } else {
            W::view(|tx| match next_attempt() {
                ENOUGH => Ok(0),
                attempt => sum_of_all(tx, &map, || half_way(attempt)),
            });
        }
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    attempts
}

/// §5: whoever would starve is let through, after `K` failed attempts and one more; under two-phase locking he makes way once for each who is
/// older.
fn a_long_transaction_commits_in_time<W: World>()
where
    W::Control: noonmark_stm::StarvationFree,
{
    for writes in [true, false] {
        if W::Control::FALLS_BACK {
            assert_eq!(attempts_beside_eight_writers::<W>(writes, ATTEMPTS_MAX + 1), ATTEMPTS_MAX + 1);
        } else {
            let attempts = attempts_beside_eight_writers::<W>(writes, 1);
            assert!(attempts <= WRITERS + 1, "{attempts} attempts");
        }
    }
}

/// What cannot fail proves nothing: the same transaction starves where nothing is done about it.
fn a_long_transaction_starves<W: World>() {
    for writes in [true, false] {
        assert_eq!(attempts_beside_eight_writers::<W>(writes, u64::MAX), ENOUGH);
    }
}

/// What an irrevocable attempt has read nobody changes before it is over, whatever its desk has been used for before, and however it has come
/// to be irrevocable.
fn what_an_irrevocable_transaction_has_read_stays<W: World>()
where
    W::Control: noonmark_stm::StarvationFree,
{
    for (is_own, falls_back) in [(false, false), (true, false), (false, true), (true, true)] {
        let (x, y) = (TVar::<u64, W>::new_in(1), TVar::<u64, W>::new_in(0));
        let (mut one, mut other) = (W::session(), W::session());
        if is_own {
            one.atomically(|tx| x.set(tx, 1));
        }
        assert_eq!(one.view(|tx| x.get(tx)), 1);
        // The other may try as often as he likes.
        let mut others_turn = || {
            let mut attempts = 0;
            let refused = other.try_atomically(|tx| {
                attempts += 1;
                if attempts > 5 { Err(CalledOff) } else { Ok(x.update(tx, |value| value + 10)?) }
            });
            assert!(refused.is_err(), "own {is_own}, by falling back {falls_back}");
        };
        if falls_back {
            let mut attempts = 0;
            one.atomically(|tx| {
                attempts += 1;
                let held = y.get(tx)?;
                if attempts <= ATTEMPTS_MAX {
                    // (Of the same thread it would be refused, in the end.)
                    on_threads(1, &|_| {
                        W::atomically(|tx| y.update(tx, |value| value + 1));
                    });
                    return y.set(tx, held);
                }
                let value = x.get(tx)?;
                others_turn();
                x.set(tx, value + 1)
            });
            assert_eq!(attempts, ATTEMPTS_MAX + 1);
        } else {
            one.irrevocably(|tx| {
                let value = x.get(tx)?;
                others_turn();
                x.set(tx, value + 1)
            });
        }
        assert_eq!(x.load(), 2);
    }
}

fn an_irrevocable_transaction_runs_once<W: World>()
where
    W::Control: noonmark_stm::StarvationFree,
{
    let (x, y) = (TVar::<u64, W>::new_in(0), TVar::<u64, W>::new_in(0));
    on_threads(4, &|thread| {
        for _ in 0..ROUNDS / 4 {
            let mut runs = 0;
            if thread < 2 {
                W::irrevocably(|tx| {
                    runs += 1;
                    assert_eq!(x.get(tx)?, y.get(tx)?);
                    x.update(tx, |value| value + 1)?;
                    y.update(tx, |value| value + 1)
                });
                assert_eq!(runs, 1);
            } else {
                W::atomically(|tx| {
                    assert_eq!(y.get(tx)?, x.get(tx)?);
                    y.update(tx, |value| value + 1)?;
                    x.update(tx, |value| value + 1)
                });
            }
        }
    });
    let total = 4 * (ROUNDS / 4);
    assert_eq!((x.load(), y.load()), (total, total));
}

/// Irrevocable transactions keep coming, and want the same in the other order: whoever they interrupt is one of them in his turn.
fn attempts_are_bounded_beside_irrevocable_ones<W: World>()
where
    W::Control: noonmark_stm::StarvationFree,
{
    let vars: Vec<TVar<u64, W>> = (0..16).map(|_| TVar::new_in(0)).collect();
    let (is_done, committed, most) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    on_threads(4, &|thread| {
        if thread > 0 {
            while !is_done.load(Ordering::Relaxed) {
                W::irrevocably(|tx| {
                    vars.iter().rev().try_for_each(|var| var.update(tx, |value| value + 1).map(drop))
                });
                committed.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        for _ in 0..ROUNDS / 4 {
            let mut attempts = 0;
            W::atomically(|tx| {
                attempts += 1;
                vars.iter().try_for_each(|var| var.update(tx, |value| value + 1).map(drop))
            });
            most.fetch_max(attempts, Ordering::Relaxed);
            committed.fetch_add(1, Ordering::Relaxed);
        }
        is_done.store(true, Ordering::Relaxed);
    });
    // (All others go before it from the first, so it loses to no other kind.)
    let bound = u64::from(noonmark_stm::Settings::default().attempts_max) + 1;
    assert!((1..=bound).contains(&most.load(Ordering::Relaxed)), "{most:?} attempts");
    let total = committed.into_inner();
    assert!(vars.iter().all(|var| var.load() == total));
}

fn an_irrevocable_transaction_that_panics_keeps_nothing_locked<W: World>()
where
    W::Control: noonmark_stm::StarvationFree,
{
    let [read, written] = [1, 2].map(|value| Arc::new(TVar::<u64, W>::new_in(value)));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        W::irrevocably(|tx| {
            let value = read.get(tx)?;
            written.set(tx, value)?;
            if true {
                panic!("in the closure");
            }
            Ok(())
        });
    }));
    assert!(panicked.is_err());
    let (done, is_done) = mpsc::channel();
    let [own_read, own_written] = [&read, &written].map(Arc::clone);
    // Not in a scope, which would wait for ever for whoever waits for ever.
    thread::spawn(move || {
        let mut attempts = 0;
        W::atomically(|tx| {
            attempts += 1;
            own_read.update(tx, |value| value + 10)
        });
        W::irrevocably(|tx| own_written.update(tx, |value| value + 10));
        done.send(attempts)
    });
    // The next irrevocable transaction would take over a lock that was left behind, and clear it away.
    assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(1), "attempts");
    assert_eq!((read.load(), written.load()), (11, 12));
}

for_each_control! {
    [dctl, dcotl, dctl_sf, dcotl_sf, tl2_gv4, tl2_gv5, tinystm, two_pl_sf] in table [dctl, dcotl_sf, tinystm, two_pl_sf]:
    no_attempt_ever_sees_two_that_differ,
    a_value_of_many_words_is_never_torn,
    write_skew_is_refused,
    what_is_called_off_is_never_seen,
    the_bank_neither_makes_money_nor_loses_any,
    those_who_wait_are_woken,
    either_of_two_wakes_one_who_waits_for_both,
}

mod deferred {
    use super::*;

    for_each_deferred_control! {
        [dctl, dcotl, dctl_sf, dcotl_sf] in table [dcotl]:
        disjoint_threads_meet_no_conflict,
    }
}

mod starvation_free {
    use super::*;

    for_each_starvation_free_control! {
        [dctl_sf, dcotl_sf, two_pl_sf] in table [dcotl_sf]:
        a_long_transaction_commits_in_time,
        an_irrevocable_transaction_runs_once,
        attempts_are_bounded_beside_irrevocable_ones,
        // Should it fail, somebody waits for ever, maybe with the ticket. And it counts attempts, of which one comes to nothing where
        // others have left their times in the table.
        afresh an_irrevocable_transaction_that_panics_keeps_nothing_locked,
    }
}

mod starving {
    use super::*;

    for_each_control_that_starves! {
        [dctl, dcotl, tl2_gv4, tl2_gv5, tinystm] in table [dcotl]:
        a_long_transaction_starves,
    }
}

mod falling_back {
    use super::*;

    // (Under two-phase locking the other one waits, and would wait for ever for one of his own thread.)
    for_each_control_that_falls_back! {
        [dctl_sf, dcotl_sf] in table [dcotl_sf]:
        // To the desk that it begins at no lock has ever belonged, not even in the table.
        afresh what_an_irrevocable_transaction_has_read_stays,
    }
}
