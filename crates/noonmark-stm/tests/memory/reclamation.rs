//! What is allocated and freed inside transactions: each once, none too early, none forgotten, under every control.

use crate::support::for_each_control as for_each_deferred_control;
use crate::support::for_each_control as for_each_starvation_free_control;
use crate::support::for_each_control;
use crate::support::run::{Run, RunHere, on_threads};
use noonmark_stm::{
    Boxed, DcotlSf, Interrupted, Look, Memory, Own, Settings, StarvationFree, Structure, TField, THashMap,
    TLink, TMap, TQueue, TRavlMap, TRbMap, TRef, TRoot, TSkipMap, TZipMap, Threads, TwoPlSf, World,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

type TCell<T, W> = noonmark_stm::TCell<T, W>;
type TVar<T, W> = noonmark_stm::TVar<T, W>;

/// Counts how many there are, and can tell whether it has been freed: its contents are then spoiled.
#[derive(Debug)]
struct Counted {
    alive: Arc<AtomicI64>,
    value: u64,
    copy: AtomicU64,
}

impl Counted {
    fn new(alive: &Arc<AtomicI64>, value: u64) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted { alive: alive.clone(), value, copy: AtomicU64::new(value) }
    }

    fn checked(&self) -> u64 {
        assert_eq!(self.copy.load(Ordering::Relaxed), self.value, "read after it was freed");
        self.value
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(&self.alive, self.checked())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.checked();
        self.copy.store(u64::MAX, Ordering::Relaxed);
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

struct CalledOff;

impl From<Interrupted> for CalledOff {
    fn from(_: Interrupted) -> Self {
        CalledOff
    }
}

fn values_are_freed_once_and_not_too_early<W: World>() {
    const ROUNDS: u64 = 5_000;
    let alive = Arc::new(AtomicI64::new(0));
    let cells: Vec<TCell<Counted, W>> = (0..4).map(|_| TCell::new_in(Counted::new(&alive, 0))).collect();
    on_threads(4, &|thread| {
        for round in 0..ROUNDS {
            match thread {
                0 | 1 => W::run(&mut |tx| {
                    // All the same, at every moment; written twice, the first of which is never seen.
                    let next = cells[0].read(tx)?.checked() + 1;
                    for cell in &cells {
                        cell.set(tx, Counted::new(&alive, u64::MAX / 2))?;
                        cell.set(tx, Counted::new(&alive, next))?;
                    }
                    Ok(())
                }),
                2 => {
                    let _: Result<(), CalledOff> = W::try_run(&mut |tx| {
                        cells[round as usize % 4].set(tx, Counted::new(&alive, 7))?;
                        Err(CalledOff)
                    });
                }
                _ => W::look(&mut |tx| {
                    let first = cells[0].read(tx)?;
                    let others = cells.iter().map(|cell| cell.read(tx));
                    for other in others.collect::<Result<Vec<_>, _>>()? {
                        assert_eq!(other.checked(), first.checked());
                    }
                    Ok(())
                }),
            }
        }
    });
    assert_eq!(cells[0].load().checked(), 2 * ROUNDS);
    drop(cells);
    settle::<W>();
    assert_eq!(alive.load(Ordering::Relaxed), 0, "none is left, and none was freed twice");
}

/// Boxed values in maps: of entries that are replaced, taken out, called off, or never committed.
fn values_in_maps_are_freed_once_and_not_too_early<W: World, S>(map: TMap<S>)
where
    S: Structure<Key = u64, Value = Boxed<Counted>, World = W> + Look<u64>,
{
    const ROUNDS: u64 = 3_000;
    let alive = Arc::new(AtomicI64::new(0));
    on_threads(4, &|thread| {
        for round in 0..ROUNDS {
            // Some that all want, and some of one's own.
            let key = if round % 3 == 0 { round % 11 } else { round * 7 % 100 * 4 + thread };
            match (thread + round) % 5 {
                0 | 1 => W::run(&mut |tx| {
                    let before = map.insert(tx, key, Counted::new(&alive, round))?;
                    before.map(Counted::checked);
                    map.insert(tx, key + 1, Counted::new(&alive, round)).map(drop)
                }),
                2 => {
                    let _: Result<(), CalledOff> = W::try_run(&mut |tx| {
                        map.insert(tx, key, Counted::new(&alive, 7))?;
                        map.insert(tx, key, Counted::new(&alive, 8))?;
                        map.remove(tx, &(key + 1))?;
                        Err(CalledOff)
                    });
                }
                3 => W::run(&mut |tx| {
                    let removed = map.remove(tx, &key)?;
                    removed.map(Counted::checked);
                    Ok(())
                }),
                _ => W::look(&mut |tx| {
                    for entry in map.iter(tx) {
                        entry?.1.checked();
                    }
                    Ok(())
                }),
            }
        }
    });
    settle::<W>();
    assert_eq!(alive.load(Ordering::Relaxed), W::look(&mut |tx| map.len(tx)) as i64);
    drop(map);
    assert_eq!(alive.load(Ordering::Relaxed), 0, "none is left, and none was freed twice");
}

fn values_in_ravl_maps<W: World>() {
    values_in_maps_are_freed_once_and_not_too_early::<W, _>(TRavlMap::new_in());
}

fn values_in_red_black_maps<W: World>() {
    values_in_maps_are_freed_once_and_not_too_early::<W, _>(TRbMap::new_in());
}

fn values_in_zip_maps<W: World>() {
    values_in_maps_are_freed_once_and_not_too_early::<W, _>(TZipMap::new_in());
}

fn values_in_skip_maps<W: World>() {
    values_in_maps_are_freed_once_and_not_too_early::<W, _>(TSkipMap::new_in());
}

fn items_in_queues<W: World>() {
    let alive = Arc::new(AtomicI64::new(0));
    let queue = TQueue::<Counted, W>::new_in();
    on_threads(4, &|thread| {
        for round in 0..3_000 {
            match (thread + round) % 4 {
                0 => W::run(&mut |tx| queue.push(tx, Counted::new(&alive, round))),
                1 => W::run(&mut |tx| {
                    let popped = queue.pop(tx)?;
                    popped.as_ref().map(Counted::checked);
                    Ok(())
                }),
                2 => {
                    let _: Result<(), CalledOff> = W::try_run(&mut |tx| {
                        queue.push(tx, Counted::new(&alive, 7))?;
                        queue.pop(tx)?;
                        Err(CalledOff)
                    });
                }
                _ => W::look(&mut |tx| {
                    queue.peek(tx)?.map(Counted::checked);
                    Ok(())
                }),
            }
        }
    });
    settle::<W>();
    assert_eq!(alive.load(Ordering::Relaxed), W::look(&mut |tx| queue.len(tx)) as i64);
    drop(queue);
    assert_eq!(alive.load(Ordering::Relaxed), 0, "none is left, and none was freed twice");
}

fn values_in_hash_maps<W: World>() {
    values_in_maps_are_freed_once_and_not_too_early::<W, _>(THashMap::<_, _, W>::new_in());
    values_in_maps_are_freed_once_and_not_too_early::<W, _>(THashMap::<_, _, W>::with_buckets_in(16));
}

/// Lets what waits at the desks be freed: one transaction after another at each.
fn settle<W: World>() {
    let mut sessions: Vec<_> = (0..16).map(|_| W::session()).collect();
    for _ in 0..4 {
        for session in &mut sessions {
            session.collect();
        }
    }
    assert!(sessions.iter_mut().all(|session| session.garbage() == 0));
}

struct Item<W: World> {
    counted: Counted,
    count: TField<u64>,
    next: TLink<Item<W>, W>,
}

/// A stack of nodes; its length is kept beside.
struct Stack<W: World> {
    first: TRoot<Item<W>, W>,
    len: TVar<u64, W>,
}

impl<W: World> Drop for Stack<W> {
    fn drop(&mut self) {
        // SAFETY: the stack's nodes, each reached by one link.
        unsafe { self.first.free_all(|item, free| free(&mut item.next)) };
    }
}

fn nodes_are_freed_once_and_not_too_early<W: World>() {
    const ROUNDS: u64 = 5_000;
    let alive = Arc::new(AtomicI64::new(0));
    let stack = Stack::<W> { first: TRoot::new_in(), len: TVar::new_in(0) };
    on_threads(4, &|thread| {
        for round in 0..ROUNDS {
            match (thread + round) % 3 {
                0 => W::run(&mut |tx| {
                    let item = Item {
                        counted: Counted::new(&alive, round),
                        count: TField::new(0),
                        next: TLink::none(),
                    };
                    let item = TRef::alloc(tx, item);
                    item.link(tx, |item| &item.next, stack.first.get(tx)?)?;
                    stack.first.set(tx, Some(item))?;
                    stack.len.update(tx, |len| len + 1).map(drop)
                }),
                1 => W::run(&mut |tx| {
                    let Some(first) = stack.first.get(tx)? else { return Ok(()) };
                    first.counted.checked();
                    stack.first.set(tx, first.follow(tx, |item| &item.next)?)?;
                    stack.len.update(tx, |len| len - 1)?;
                    // SAFETY: nothing leads to it any more.
                    unsafe { first.free(tx) };
                    Ok(())
                }),
                _ => {
                    let (seen, len) = W::run(&mut |tx| {
                        let (mut seen, mut at) = (0, stack.first.get(tx)?);
                        while let Some(item) = at {
                            item.counted.checked();
                            seen += 1;
                            if seen == 3 {
                                let count = item.get(tx, |item| &item.count)?;
                                item.set(tx, |item| &item.count, count + 1)?;
                            }
                            at = item.follow(tx, |item| &item.next)?;
                        }
                        Ok((seen, stack.len.get(tx)?))
                    });
                    assert_eq!(seen, len);
                }
            }
        }
    });
    settle::<W>();
    assert_eq!(alive.load(Ordering::Relaxed), stack.len.load() as i64);
    drop(stack);
    assert_eq!(alive.load(Ordering::Relaxed), 0, "none is left, and none was freed twice");
}

fn a_branch_that_is_undone_keeps_what_may_still_be_looked_at<W: World>() {
    let alive = Arc::new(AtomicI64::new(0));
    let cell = TCell::<Counted, W>::new_in(Counted::new(&alive, 1));
    W::run(&mut |tx| {
        let mut seen = None;
        tx.or_else(
            |tx| {
                cell.set(tx, Counted::new(&alive, 2))?;
                seen = Some(cell.read(tx)?);
                tx.retry()
            },
            |tx| {
                assert_eq!(cell.read(tx)?.checked(), 1);
                Ok(())
            },
        )?;
        assert_eq!(seen.map(Counted::checked), Some(2));
        Ok(())
    });
    assert_eq!(alive.load(Ordering::Relaxed), 1);
    assert_eq!(cell.load().checked(), 1);
}

fn what_a_branch_frees_that_is_undone_is_not_freed<W: World>() {
    let alive = Arc::new(AtomicI64::new(0));
    let [before, cell] = [1, 2].map(|value| TCell::<Counted, W>::new_in(Counted::new(&alive, value)));
    let count = TVar::<u64, W>::new_in(0);
    for _ in 0..100 {
        W::run(&mut |tx| {
            // What the transaction has done and freed itself is not undone with the branch.
            count.update(tx, |count| count + 1)?;
            before.set(tx, Counted::new(&alive, 3))?;
            tx.or_else(
                |tx| {
                    cell.set(tx, Counted::new(&alive, 4))?;
                    before.set(tx, Counted::new(&alive, 5))?;
                    tx.retry()
                },
                |tx| {
                    assert_eq!((before.read(tx)?.checked(), cell.read(tx)?.checked()), (3, 2));
                    Ok(())
                },
            )
        });
    }
    settle::<W>();
    assert_eq!(alive.load(Ordering::Relaxed), 2);
    assert_eq!((before.load().checked(), cell.load().checked(), count.load()), (3, 2, 100));
    drop((before, cell));
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

/// Runs a transaction when it is dropped.
struct Notes<W: World> {
    dropped: Arc<TVar<u64, W>>,
    note: fn(&TVar<u64, W>),
}

impl<W: World> Drop for Notes<W> {
    fn drop(&mut self) {
        (self.note)(&self.dropped);
    }
}

fn note<W: World>(dropped: &TVar<u64, W>) {
    W::run(&mut |tx| dropped.update(tx, |count| count + 1));
}

fn note_irrevocably<W: World>(dropped: &TVar<u64, W>)
where
    W::Control: StarvationFree,
{
    W::irrevocably(|tx| dropped.update(tx, |count| count + 1));
}

/// Whatever ends a transaction, it holds nothing any more that they want who run when it frees.
fn dropping_runs_transactions<W: World>(note: fn(&TVar<u64, W>), set: fn(&TCell<Notes<W>, W>, Notes<W>)) {
    const ROUNDS: u64 = 200;
    let dropped = Arc::new(TVar::<u64, W>::new_in(0));
    let new = || Notes { dropped: dropped.clone(), note };
    let cell = TCell::<Notes<W>, W>::new_in(new());
    for _ in 0..ROUNDS {
        set(&cell, new());
    }
    // What is not committed is dropped, too.
    for _ in 0..ROUNDS {
        let called_off: Result<(), CalledOff> = W::try_run(&mut |tx| {
            cell.set(tx, new())?;
            Err(CalledOff)
        });
        assert!(called_off.is_err());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            W::run(&mut |tx| {
                cell.set(tx, new())?;
                if true {
                    panic!("in the closure");
                }
                Ok(())
            })
        }));
        assert!(panicked.is_err());
        W::run(&mut |tx| {
            tx.or_else(
                |tx| {
                    cell.set(tx, new())?;
                    tx.retry()
                },
                |_| Ok(()),
            )
        });
    }
    drop(cell);
    // Each thread of one transaction works at whatever desk it finds, and leaves there what is still too young.
    for _ in 0..4 {
        // Where there is one desk only, nobody may keep it.
        drop(W::session());
    }
    let kept = Arc::strong_count(&dropped) as u64 - 1;
    assert_eq!(dropped.load() + kept, 1 + 4 * ROUNDS);
    assert!(kept <= ROUNDS, "{kept} of them are not freed");
}

fn dropping_may_run_transactions<W: World>() {
    dropping_runs_transactions::<W>(note, |cell, value| {
        // (Given away in the first attempt: there is no other.)
        let mut value = Some(value);
        W::run(&mut |tx| value.take().map_or(Ok(()), |value| cell.set(tx, value)));
    });
    let mut session = W::session();
    let dropped = Arc::new(TVar::<u64, W>::new_in(0));
    let new = || Notes { dropped: dropped.clone(), note: note::<W> };
    let cell = TCell::<Notes<W>, W>::new_in(new());
    for _ in 0..200 {
        session.run(&mut |tx| cell.set(tx, new()));
    }
    drop(cell);
    (0..4).for_each(|_| session.collect());
    assert_eq!(dropped.load(), 201);
}

/// There is one ticket: whoever frees has given it back.
fn dropping_may_run_irrevocable_transactions<W: World>()
where
    W::Control: StarvationFree,
{
    dropping_runs_transactions::<W>(note_irrevocably, |cell, value| W::irrevocably(|tx| cell.set(tx, value)));
}

/// There is one slot: whoever frees has given it back.
#[test]
fn dropping_may_run_transactions_where_there_is_one_slot() {
    noonmark_stm::world! {
        struct One: DcotlSf, Threads, Own = Memory::new(Settings::default().slots(1), Threads::default());
        struct OneOfPlSf: TwoPlSf, Threads, Own = Memory::new(Settings::default().slots(1), Threads::default());
    }
    dropping_runs_transactions::<One>(note, |cell, value| One::irrevocably(|tx| cell.set(tx, value)));
    dropping_runs_transactions::<OneOfPlSf>(note_irrevocably, |cell, value| {
        OneOfPlSf::irrevocably(|tx| cell.set(tx, value));
    });
}

/// What was replaced is dropped when somebody asks for it, or when the session ends that replaced it: not only when more follows.
#[test]
fn what_was_replaced_goes_when_a_session_ends_or_somebody_asks() {
    noonmark_stm::world! {
        struct Asked: DcotlSf, Threads, Own = Memory::new(Settings::default(), Threads::default());
        struct AskedPlSf: TwoPlSf, Threads, Own = Memory::new(Settings::default(), Threads::default());
    }
    fn replaced<W: World>() {
        let alive = Arc::new(AtomicI64::new(0));
        let cell = TCell::<Counted, W>::new_in(Counted::new(&alive, 0));
        for round in 1..=20 {
            W::run(&mut |tx| cell.set(tx, Counted::new(&alive, round)));
        }
        assert!(alive.load(Ordering::Relaxed) > 1, "some are retired together");
        W::collect();
        assert_eq!(alive.load(Ordering::Relaxed), 1);
        let mut session = W::session();
        for round in 1..=20 {
            session.run(&mut |tx| cell.set(tx, Counted::new(&alive, round)));
        }
        drop(session);
        assert_eq!(alive.load(Ordering::Relaxed), 1);
        let inside = catch_unwind(AssertUnwindSafe(|| {
            W::run(&mut |_| {
                W::collect();
                Ok(())
            });
        }));
        assert!(inside.is_err(), "not in the midst of a transaction");
    }
    replaced::<Asked>();
    replaced::<AskedPlSf>();
}

/// What the closure of an irrevocable attempt answered that comes to nothing is dropped when the ticket has been given back: its `Drop` may
/// want it.
#[test]
fn an_answer_of_no_use_is_dropped_without_the_ticket() {
    noonmark_stm::world! {
        struct AtOnce: DcotlSf, Threads, Own = Memory::new(Settings::default().attempts_max(0), Threads::default());
    }
    struct Opens<'a>(&'a TVar<u64, AtOnce>);
    impl Drop for Opens<'_> {
        fn drop(&mut self) {
            AtOnce::irrevocably(|tx| self.0.set(tx, 1));
        }
    }
    struct NotYet<'a>(#[expect(dead_code, reason = "for its drop")] Option<Opens<'a>>);
    impl From<Interrupted> for NotYet<'_> {
        fn from(_: Interrupted) -> Self {
            NotYet(None)
        }
    }
    let gate = TVar::<u64, AtOnce>::new_in(0);
    let seen: Result<u64, NotYet<'_>> = AtOnce::try_atomically(|tx| match gate.get(tx)? {
        0 => tx.retry().map_err(|_| NotYet(Some(Opens(&gate)))),
        open => Ok(open),
    });
    assert!(matches!(seen, Ok(1)));
}

/// Some panic when they are dropped.
struct Panicking {
    _counted: Counted,
    panics: bool,
}

impl Drop for Panicking {
    fn drop(&mut self) {
        if self.panics && !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("in a drop"));
        }
    }
}

/// A `Drop` that panics keeps nothing else from being freed, and nothing from being committed.
fn dropping_may_panic<W: World>() {
    let alive = Arc::new(AtomicI64::new(0));
    let new = |number, panics| Panicking { _counted: Counted::new(&alive, number), panics };
    let (cell, var) = (TCell::<Panicking, W>::new_in(new(0, false)), TVar::<u64, W>::new_in(0));
    let map = TRavlMap::<u64, Boxed<Panicking>, W>::new_in();
    let mut panics = 0;
    for round in 1..=1_000 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            W::run(&mut |tx| {
                cell.set(tx, new(round, round % 3 == 0))?;
                map.insert(tx, round % 50, new(round, round % 7 == 0))?;
                if round % 5 == 0 {
                    map.remove(tx, &(round % 49))?;
                }
                var.set(tx, round)
            });
        }));
        panics += u32::from(caught.is_err());
        let caught = catch_unwind(AssertUnwindSafe(|| {
            W::run(&mut |tx| {
                tx.or_else(
                    |tx| {
                        cell.set(tx, new(0, true))?;
                        map.insert(tx, round % 50, new(0, true))?;
                        tx.retry()
                    },
                    |tx| var.update(tx, |value| value + 1).map(drop),
                )
            });
        }));
        panics += u32::from(caught.is_err());
        assert_eq!(
            W::look(&mut |tx| Ok((cell.read(tx)?._counted.checked(), var.get(tx)?))),
            (round, round + 1)
        );
    }
    assert!(panics > 1_000, "{panics} panics came out");
    W::look(&mut |tx| map.check(tx).map(drop));
    let _ = catch_unwind(AssertUnwindSafe(|| W::run(&mut |tx| cell.set(tx, new(0, false)))));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(map))).is_err());
    let mut sessions: Vec<_> = (0..16).map(|_| W::session()).collect();
    for _ in 0..4 {
        for session in &mut sessions {
            let _ = catch_unwind(AssertUnwindSafe(|| session.collect()));
        }
    }
    assert_eq!(alive.load(Ordering::Relaxed), 1, "only what is in the cell is left");
}

for_each_control! {
    [dctl, dcotl, dctl_sf, dcotl_sf, tl2_gv4, tl2_gv5, tinystm, two_pl_sf] in table [dctl, dcotl_sf, tinystm, two_pl_sf]:
    values_are_freed_once_and_not_too_early,
    values_in_ravl_maps,
    values_in_red_black_maps,
    values_in_zip_maps,
    values_in_skip_maps,
    values_in_hash_maps,
    items_in_queues,
    nodes_are_freed_once_and_not_too_early,
    a_branch_that_is_undone_keeps_what_may_still_be_looked_at,
    what_a_branch_frees_that_is_undone_is_not_freed,
}

/// Where one thread meets no conflict: a value that is dropped in the closure, because it could not be set, may run none, and if it
/// panics then the closure does.
mod deferred {
    use super::*;

    for_each_deferred_control! {
        [dctl, dcotl, dctl_sf, dcotl_sf] in table []:
        dropping_may_run_transactions,
        dropping_may_panic,
    }

    mod where_locks_are_shared {
        use super::*;

        for_each_deferred_control! {
            [] in table [dcotl]:
            // Where others have left their times in the table, one thread may meet a conflict.
            afresh dropping_may_run_transactions,
            afresh dropping_may_panic,
        }
    }
}

mod starvation_free {
    use super::*;

    for_each_starvation_free_control! {
        [dctl_sf, dcotl_sf, two_pl_sf] in table [dcotl_sf]:
        dropping_may_run_irrevocable_transactions,
    }
}
