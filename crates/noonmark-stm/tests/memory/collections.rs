//! Queues, counters and owned values with many at work, under every control.

use crate::support::for_each_control as for_each_control_without_doubts;
use crate::support::for_each_control;
use crate::support::run::{Run, RunHere, on_threads};
use noonmark_core::sync::Mutex;
use noonmark_stm::{Interrupted, World};

type TQueue<T, W> = noonmark_stm::TQueue<T, W>;
type TCounter<W> = noonmark_stm::TCounter<W>;
type TOwned<T, W> = noonmark_stm::TOwned<T, W>;

fn a_queue_is_first_in_first_out<W: World>() {
    let queue = TQueue::<String, W>::new_in();
    let mut model = std::collections::VecDeque::new();
    for step in 0..400u64 {
        let (pushes, pops) = (step % 7, step * 5 % 6);
        W::run(&mut |tx| {
            for number in 0..pushes {
                queue.push(tx, format!("{step} {number}"))?;
            }
            Ok(())
        });
        model.extend((0..pushes).map(|number| format!("{step} {number}")));
        let seen = W::look(&mut |tx| Ok((queue.len(tx)?, queue.is_empty(tx)?, queue.peek(tx)?.cloned())));
        assert_eq!(seen, (model.len() as u64, model.is_empty(), model.front().cloned()));
        // What is called off stays in.
        let called_off: Result<(), Option<Interrupted>> = W::try_run(&mut |tx| {
            queue.pop(tx)?;
            queue.push(tx, "never".to_string())?;
            Err(None)
        });
        assert_eq!(called_off, Err(None));
        for _ in 0..pops {
            assert_eq!(W::run(&mut |tx| queue.pop(tx)), model.pop_front());
        }
        // All of it at once, out and in again.
        if step % 50 == 49 {
            let all = W::run(&mut |tx| {
                let mut all = Vec::new();
                while let Some(item) = queue.pop(tx)? {
                    all.push(item);
                }
                assert!(queue.is_empty(tx)? && queue.len(tx)? == 0 && queue.peek(tx)?.is_none());
                all.iter().try_for_each(|item| queue.push(tx, item.clone()))?;
                Ok(all)
            });
            assert_eq!(all, model.iter().cloned().collect::<Vec<_>>());
        }
    }
}

/// What each producer puts in comes out once, in his order; whoever finds nothing waits.
fn a_queue_hands_on_each_item_once_in_order<W: World>() {
    const EACH: u64 = 2_000;
    let (queue, popped) = (TQueue::<(u64, u64), W>::new_in(), TCounter::<W>::new_in());
    let taken = Mutex::new(Vec::new());
    on_threads(4, &|thread| {
        if thread < 2 {
            for number in 0..EACH {
                W::run(&mut |tx| queue.push(tx, (thread, number)));
            }
            return;
        }
        let mut own = Vec::new();
        for _ in 0..EACH {
            own.push(W::run(&mut |tx| {
                let Some(item) = queue.pop(tx)? else { return tx.retry() };
                popped.add(tx, 1)?;
                Ok(item)
            }));
        }
        taken.lock().unwrap().push(own);
    });
    let taken: Vec<Vec<(u64, u64)>> = taken.into_inner().unwrap();
    for consumer in &taken {
        for producer in 0..2 {
            let numbers: Vec<_> = consumer.iter().filter(|item| item.0 == producer).collect();
            assert!(numbers.is_sorted(), "out of order");
        }
    }
    let mut all: Vec<_> = taken.concat();
    all.sort_unstable();
    let expected: Vec<_> = (0..2).flat_map(|producer| (0..EACH).map(move |n| (producer, n))).collect();
    assert_eq!(all, expected);
    assert_eq!((popped.load(), W::look(&mut |tx| queue.len(tx))), (2 * EACH as i64, 0));
}

/// Exact for whoever reads it, whatever else is about: here as much is taken away as is put in, in each transaction.
fn a_counter_is_exact<W: World>() {
    const EACH: i64 = 3_000;
    let (left, right) = (TCounter::<W>::new_in(), TCounter::<W>::new_in());
    on_threads(3, &|thread| {
        for number in 0..EACH {
            W::run(&mut |tx| {
                left.add(tx, number)?;
                right.add(tx, -number)?;
                left.add(tx, 1)
            });
            if number % 20 == thread as i64 {
                let (left, right) = W::look(&mut |tx| Ok((left.get(tx)?, right.get(tx)?)));
                let additions = left + right;
                assert!((0..=3 * EACH).contains(&additions), "{additions} additions");
            }
            if number % 100 == thread as i64 {
                // And undone, it is as it was.
                let called_off: Result<(), Option<Interrupted>> = W::try_run(&mut |tx| {
                    left.add(tx, 1_000_000)?;
                    Err(None)
                });
                assert_eq!(called_off, Err(None));
            }
        }
    });
    let total = 3 * EACH * (EACH - 1) / 2;
    assert_eq!((left.load(), right.load()), (total + 3 * EACH, -total));
}

/// Nobody meets anybody.
fn additions_do_not_conflict<W: World>() {
    let (counter, last) = (TCounter::<W>::new_in(), TOwned::<[u64; 2], W>::new_in([0; 2]));
    let earlier = W::memory().statistics();
    // All at a time, or one could get the slot of another that has ended.
    let sessions: Vec<_> = (0..4).map(|_| W::session()).collect();
    std::thread::scope(|scope| {
        let begin = |(thread, mut session): (u64, noonmark_stm::Session<W>)| {
            let (counter, last) = (&counter, &last);
            scope.spawn(move || {
                for number in 0..2_000 {
                    session.run(&mut |tx| {
                        counter.add(tx, 1)?;
                        let [_, before] = last.get(tx)?;
                        assert_eq!(before, number, "nobody else writes it");
                        last.set(tx, [thread, number + 1])
                    });
                }
            })
        };
        let threads: Vec<_> = (0..).zip(sessions).map(begin).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let now = W::memory().statistics();
    assert_eq!((now.commits - earlier.commits, now.conflicts - earlier.conflicts), (8_000, 0));
    assert_eq!(counter.load(), 8_000);
    let mut written = Vec::new();
    W::look(&mut |tx| {
        written.clear();
        last.for_each(tx, |part| {
            if part[1] > 0 {
                written.push(part)
            }
        })
    });
    written.sort_unstable();
    assert_eq!(written, [[0, 2_000], [1, 2_000], [2, 2_000], [3, 2_000]]);
}

for_each_control! {
    [dctl, dcotl, dctl_sf, dcotl_sf, tl2_gv4, tl2_gv5, tinystm, two_pl_sf] in table [dcotl_sf, tl2_gv4]:
    a_queue_is_first_in_first_out,
    a_queue_hands_on_each_item_once_in_order,
    a_counter_is_exact,
}

/// Where objects share no locks.
mod without_doubts {
    use super::*;

    for_each_control_without_doubts! {
        [dctl, dcotl, dctl_sf, dcotl_sf, tl2_gv4, tl2_gv5, tinystm] in table []:
        additions_do_not_conflict,
    }
}

#[test]
fn an_item_takes_as_many_bytes_as_the_docs_say() {
    assert_eq!(TQueue::<u64, noonmark_stm::Global>::ITEM_BYTES, 32);
}
