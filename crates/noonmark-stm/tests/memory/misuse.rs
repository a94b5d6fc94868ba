//! What nobody should do, and safe code can: it may go wrong for whoever does it, but memory stays sound.

use crate::support::for_each_control;
use crate::support::run::{Run, RunHere};
use noonmark_stm::{
    Boxed, Interrupted, Look, StarvationFree, Structure, TField, THashMap, TLink, TMap, TRavlMap, TRbMap,
    TRef, TRoot, TSkipMap, TVar, TZipMap, World,
};
use std::cell::Cell;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

/// Counts how many there are, and tells when it is looked at or dropped after it was dropped.
struct Counted {
    alive: Arc<AtomicI64>,
    is_whole: AtomicU64,
}

impl Counted {
    fn new(alive: &Arc<AtomicI64>) -> Self {
        alive.fetch_add(1, Relaxed);
        Counted { alive: alive.clone(), is_whole: AtomicU64::new(7) }
    }

    fn check(&self) {
        assert_eq!(self.is_whole.load(Relaxed), 7, "looked at after it was freed");
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.check();
        self.is_whole.store(0, Relaxed);
        self.alive.fetch_sub(1, Relaxed);
    }
}

/// Frees what is old enough, wherever it lies.
fn settle<W: World>() {
    let mut sessions: Vec<_> = (0..16).map(|_| W::session()).collect();
    for _ in 0..4 {
        sessions.iter_mut().for_each(|session| session.collect());
    }
}

/// A closure that changes an entry may change the map itself: also take that very entry out.
fn in_the_midst_of_an_update<W: World, S>(map: TMap<S>)
where
    S: Structure<Key = u64, Value = Boxed<Counted>, World = W> + Look<u64>,
{
    let alive = Arc::new(AtomicI64::new(0));
    let fill = || {
        W::run(&mut |tx| (0..40).try_for_each(|key| map.insert(tx, key, Counted::new(&alive)).map(drop)));
    };
    for key in 0..40 {
        // Takes it out twice.
        fill();
        W::run(&mut |tx| {
            map.update(tx, key, |_| {
                let _ = map.remove(tx, &key);
                None
            })
            .map(drop)
        });
        assert_eq!(W::look(&mut |tx| map.check(tx)).0, 39);
        // Takes it and its neighbours out, and makes it something else.
        fill();
        W::run(&mut |tx| {
            map.update(tx, key, |_| {
                for other in [key, key ^ 1, key ^ 2, key ^ 8] {
                    let _ = map.remove(tx, &other);
                }
                Some(Counted::new(&alive))
            })
            .map(drop)
        });
        let (left, _) = W::look(&mut |tx| map.check(tx));
        assert_eq!(left, 40 - [key ^ 1, key ^ 2, key ^ 8].iter().filter(|other| **other < 40).count());
        // Puts it in, where there was none.
        W::run(&mut |tx| map.remove(tx, &key).map(drop));
        W::run(&mut |tx| {
            map.update(tx, key, |_| {
                let _ = map.insert(tx, key, Counted::new(&alive));
                Some(Counted::new(&alive))
            })
            .map(drop)
        });
        assert_eq!(W::look(&mut |tx| map.check(tx)).0, left);
    }
    settle::<W>();
    assert_eq!(alive.load(Relaxed), W::look(&mut |tx| map.len(tx)) as i64);
    drop(map);
    assert_eq!(alive.load(Relaxed), 0);
}

fn updates_in_a_ravl_map<W: World>() {
    in_the_midst_of_an_update(TRavlMap::<u64, Boxed<Counted>, W>::new_in());
}

fn updates_in_a_red_black_map<W: World>() {
    in_the_midst_of_an_update(TRbMap::<u64, Boxed<Counted>, W>::new_in());
}

fn updates_in_a_zip_map<W: World>() {
    in_the_midst_of_an_update(TZipMap::<u64, Boxed<Counted>, W>::new_in());
}

fn updates_in_a_skip_map<W: World>() {
    in_the_midst_of_an_update(TSkipMap::<u64, Boxed<Counted>, W>::new_in());
}

fn updates_in_hash_maps<W: World>() {
    in_the_midst_of_an_update(THashMap::<u64, Boxed<Counted>, W>::new_in());
    in_the_midst_of_an_update(THashMap::<u64, Boxed<Counted>, W>::with_buckets_in(4));
}

/// A key that is compared as it likes.
struct Moody {
    key: u64,
    counted: Counted,
}

impl Moody {
    fn new(key: u64, alive: &Arc<AtomicI64>) -> Self {
        Moody { key, counted: Counted::new(alive) }
    }
}

thread_local! { static MOOD: Cell<u64> = const { Cell::new(0) }; }

impl Ord for Moody {
    fn cmp(&self, other: &Self) -> Ordering {
        [self, other].into_iter().for_each(|key| key.counted.check());
        let (mood, order) = (MOOD.get(), self.key.cmp(&other.key));
        if mood == 0 || order == Ordering::Equal {
            return order;
        }
        // SplitMix64.
        MOOD.set(mood.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut z = mood;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        if z >> 61 == 0 { order.reverse() } else { order }
    }
}

impl PartialOrd for Moody {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Moody {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Moody {}

/// Whatever the keys say of their order, what is taken out of a map is not found there any more.
fn keys_without_an_order<W: World, S>(map: TMap<S>)
where
    S: Structure<Key = Moody, Value = Boxed<Counted>, World = W> + Look<Moody>,
{
    let alive = Arc::new(AtomicI64::new(0));
    MOOD.set(1);
    for round in 0..3_000u64 {
        let key = |number: u64| Moody::new(number % 101, &alive);
        W::run(&mut |tx| map.insert(tx, key(round * 7), Counted::new(&alive)).map(drop));
        W::run(&mut |tx| map.remove(tx, &key(round * 36)).map(drop));
        W::look(&mut |tx| {
            map.get(tx, &key(round * 3))?.map(Counted::check);
            for entry in map.iter(tx) {
                entry?.1.check();
            }
            Ok(())
        });
    }
    MOOD.set(0);
    settle::<W>();
    assert_eq!(alive.load(Relaxed), 2 * W::look(&mut |tx| map.len(tx)) as i64);
    drop(map);
    assert_eq!(alive.load(Relaxed), 0);
}

fn moody_keys_in_a_ravl_map<W: World>() {
    keys_without_an_order(TRavlMap::<Moody, Boxed<Counted>, W>::new_in());
}

fn moody_keys_in_a_red_black_map<W: World>() {
    keys_without_an_order(TRbMap::<Moody, Boxed<Counted>, W>::new_in());
}

fn moody_keys_in_a_zip_map<W: World>() {
    keys_without_an_order(TZipMap::<Moody, Boxed<Counted>, W>::new_in());
}

fn moody_keys_in_a_skip_map<W: World>() {
    keys_without_an_order(TSkipMap::<Moody, Boxed<Counted>, W>::new_in());
}

struct Item<W: World> {
    counted: Counted,
    count: TField<u64>,
    next: TLink<Item<W>, W>,
}

struct List<W: World>(TRoot<Item<W>, W>);

impl<W: World> Drop for List<W> {
    fn drop(&mut self) {
        // SAFETY: the list's nodes, each reached by one link.
        unsafe { self.0.free_all(|item, free| free(&mut item.next)) };
    }
}

struct CalledOff;

impl From<Interrupted> for CalledOff {
    fn from(_: Interrupted) -> Self {
        CalledOff
    }
}

/// A node that was made in a branch that was undone, and is linked all the same, stays.
fn a_node_of_a_branch_that_was_undone<W: World>() {
    let alive = Arc::new(AtomicI64::new(0));
    let list = List::<W>(TRoot::new_in());
    let new = |count| Item { counted: Counted::new(&alive), count: TField::new(count), next: TLink::none() };
    for is_called_off in [true, false] {
        let answer: Result<(), CalledOff> = W::try_run(&mut |tx| {
            let kept = Cell::new(None);
            tx.or_else(
                |tx| {
                    TRef::alloc(tx, new(1));
                    let node = TRef::alloc(tx, new(2));
                    node.set(tx, |item| &item.count, 3)?;
                    kept.set(Some(node));
                    tx.retry()
                },
                |tx| {
                    let first = TRef::alloc(tx, new(4));
                    first.link(tx, |item| &item.next, kept.get())?;
                    list.0.set(tx, Some(first))
                },
            )?;
            if is_called_off { Err(CalledOff) } else { Ok(()) }
        });
        assert_eq!(answer.is_err(), is_called_off);
    }
    settle::<W>();
    let counts = W::look(&mut |tx| {
        let (mut counts, mut at) = (Vec::new(), list.0.get(tx)?);
        while let Some(item) = at {
            item.counted.check();
            counts.push(item.get(tx, |item| &item.count)?);
            at = item.follow(tx, |item| &item.next)?;
        }
        Ok(counts)
    });
    // As it was made: what the branch has set is undone.
    assert_eq!((counts, alive.load(Relaxed)), (vec![4, 2], 2));
    drop(list);
    assert_eq!(alive.load(Relaxed), 0);
}

/// That of a transaction inside another one.
fn is_refused<T>(inner: impl FnOnce() -> T) {
    let refused = catch_unwind(AssertUnwindSafe(inner)).err().expect("it is refused");
    let message = refused.downcast_ref::<&str>().copied().unwrap_or_default();
    assert!(message.contains("inside another"), "{message}");
}

/// Whoever has two sessions can begin a transaction in the midst of another; if it would wait for that one, it is refused.
fn a_session_inside_another<W: World>() {
    let (var, other) = (TVar::<u64, W>::new_in(0), TVar::<u64, W>::new_in(0));
    let (mut first, mut second) = (W::session(), W::session());
    for _ in 0..2 {
        first.run(&mut |tx| {
            var.set(tx, 1)?;
            is_refused(|| second.run(&mut |tx| var.update(tx, |value| value + 10)));
            is_refused(|| second.run(&mut |tx| if other.get(tx)? == 0 { tx.retry() } else { Ok(()) }));
            var.set(tx, 2)
        });
        std::mem::swap(&mut first, &mut second);
    }
    assert_eq!(second.run(&mut |tx| var.update(tx, |value| value + 10)), 12);
}

/// One that changes what the other has read, and so would have it run again for ever, is refused, too.
fn a_session_that_interrupts_another<W: World>() {
    let (var, other) = (TVar::<u64, W>::new_in(0), TVar::<u64, W>::new_in(0));
    let (mut first, mut second) = (W::session(), W::session());
    is_refused(|| {
        first.run(&mut |tx| {
            var.get(tx)?;
            second.run(&mut |tx| var.update(tx, |value| value + 1));
            var.get(tx)?;
            other.set(tx, 1)
        })
    });
    is_refused(|| {
        first.look(&mut |tx| {
            let before = var.get(tx)?;
            second.run(&mut |tx| var.update(tx, |value| value + 1));
            Ok((before, var.get(tx)?))
        })
    });
    assert_eq!(other.load(), 0);
    assert_eq!(first.run(&mut |tx| other.update(tx, |value| value + 1)), 1);
}

/// A closure that hands on an interruption which is not of its own attempt would most likely do so each time.
fn an_interruption_of_another<W: World>() {
    let var = TVar::<u64, W>::new_in(0);
    let mut stray = None;
    W::run(&mut |tx| {
        tx.or_else(
            |tx| {
                stray = tx.retry::<()>().err();
                Err(stray.unwrap())
            },
            |_| Ok(()),
        )
    });
    let stray = stray.unwrap();
    let refused = catch_unwind(AssertUnwindSafe(|| {
        W::run(&mut |tx| {
            var.set(tx, 1)?;
            Err::<(), _>(stray)
        })
    }));
    let message = refused.unwrap_err();
    let message = message.downcast_ref::<&str>().copied().unwrap_or_default();
    assert!(message.contains("interruption of another"), "{message}");
    // It is an error as any other to those who have errors.
    let called_off: Result<(), CalledOff> = W::try_run(&mut |tx| {
        var.set(tx, 1)?;
        Err(stray)?
    });
    assert!(called_off.is_err());
    assert_eq!(var.load(), 0);
}

/// Also where there is no other desk to work at.
fn a_transaction_inside_the_only_one<W: World>() {
    let var = TVar::<u64, W>::new_in(0);
    let others: Vec<_> = (1..16).map(|_| W::session()).collect();
    W::run(&mut |tx| {
        is_refused(|| var.load());
        var.set(tx, 1)
    });
    drop(others);
    assert_eq!(var.load(), 1);
}

thread_local! {
    /// How many hashes there will be before one that panics; 0: none will.
    static HASHES_LEFT: Cell<u32> = const { Cell::new(0) };
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Unhashable(u64);

impl std::hash::Hash for Unhashable {
    fn hash<S: std::hash::Hasher>(&self, state: &mut S) {
        let left = HASHES_LEFT.get();
        HASHES_LEFT.set(left.saturating_sub(1));
        if left == 1 {
            std::panic::resume_unwind(Box::new("no hash"));
        }
        self.0.hash(state);
    }
}

/// A closure may catch a panic of a key's `Hash`, and commit what there is by then: what had been in the map before is in it still.
fn hashing_may_panic<W: World>() {
    for hashes in 1..60 {
        let map = THashMap::<Unhashable, u64, W>::new_in();
        let buckets = || W::look(&mut |tx| map.buckets(tx));
        // Until there are more buckets: the new ones are set up by those who come next.
        let (few, mut committed) = (buckets(), 0);
        while buckets() == few {
            W::run(&mut |tx| map.insert(tx, Unhashable(committed), committed));
            committed += 1;
        }
        HASHES_LEFT.set(hashes);
        for key in committed..committed + 30 {
            W::run(&mut |tx| {
                catch_unwind(AssertUnwindSafe(|| map.insert(tx, Unhashable(key), key).map(drop)))
                    .unwrap_or(Ok(()))
            });
        }
        HASHES_LEFT.set(0);
        for key in 0..committed {
            assert_eq!(
                W::look(&mut |tx| map.get(tx, &Unhashable(key))),
                Some(key),
                "a panic after {hashes} hashes"
            );
        }
    }
}

/// What is done at a comparison, and after how many more one panics.
type Event = (Box<dyn FnOnce()>, u32);

thread_local! {
    /// At the next one of this thread's.
    static COMPARISON: Cell<Option<Event>> = const { Cell::new(None) };
    static COMPARISONS_LEFT: Cell<u32> = const { Cell::new(0) };
}

/// A key at whose comparison other things happen.
struct Eventful(u64, Counted);

impl Ord for Eventful {
    fn cmp(&self, other: &Self) -> Ordering {
        self.1.check();
        other.1.check();
        let left = COMPARISONS_LEFT.replace(COMPARISONS_LEFT.get().saturating_sub(1));
        if left == 1 {
            std::panic::resume_unwind(Box::new("not to be compared"));
        }
        if let Some((event, left)) = COMPARISON.take() {
            event();
            COMPARISONS_LEFT.set(left);
        }
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Eventful {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Eventful {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Eventful {}

/// While one looks for a key, another adds chains: then the first has a place to look for that it has not got. A panic of a comparison
/// then leaves the map as it was, also to a closure that catches it and commits.
fn comparing_may_panic_in_new_chains<W: World>()
where
    W::Control: StarvationFree,
{
    let (mut caught, mut taken_out) = (0, 0);
    for round in 0..200 {
        let alive = Arc::new(AtomicI64::new(0));
        let map = Arc::new(TSkipMap::<Eventful, Boxed<Counted>, W>::new_in());
        let key = |key: u64| Eventful(key, Counted::new(&alive));
        W::run(&mut |tx| map.insert(tx, key(10), Counted::new(&alive)).map(drop));
        // Puts in what comes before the one that is compared with, or takes out what another has put in after it.
        let is_insertion = round % 2 == 0;
        let (others, by_another, left) = (map.clone(), alive.clone(), if is_insertion { 1 } else { 2 });
        let event = move || {
            let put_in = move || {
                for number in 20..if is_insertion { 60 } else { 21 } {
                    let key = || Eventful(number, Counted::new(&by_another));
                    W::run(&mut |tx| others.insert(tx, key(), Counted::new(&by_another)).map(drop));
                }
            };
            std::thread::spawn(put_in).join().unwrap();
        };
        COMPARISON.set(Some((Box::new(event), left)));
        let is_done = W::irrevocably(|tx| {
            let change = || match is_insertion {
                true => map.insert(tx, key(5), Counted::new(&alive)).map(drop),
                false => map.remove(tx, &key(20)).map(drop),
            };
            Ok(catch_unwind(AssertUnwindSafe(change)).map(|done| done.unwrap()).is_ok())
        });
        let happened = COMPARISON.take().is_none();
        COMPARISONS_LEFT.set(0);
        assert!(happened);
        caught += u32::from(!is_done);
        taken_out += u32::from(is_done && !is_insertion);
        settle::<W>();
        let others = if is_insertion { 40 } else { 1 };
        let expected =
            1 + if is_insertion { others + usize::from(is_done) } else { others - usize::from(is_done) };
        assert_eq!(W::look(&mut |tx| map.check(tx)).0, expected);
        assert_eq!(alive.load(Relaxed), 2 * expected as i64);
        drop(map);
        assert_eq!(alive.load(Relaxed), 0);
    }
    // In a fifth of the hundred insertions, by chance: in none, once in a thousand million runs.
    assert!(caught > 0, "nothing that could have gone wrong");
    assert_eq!(taken_out, 100, "to take something out, nothing is compared with once it is found");
}

/// Whoever catches the panic with which a transaction inside another one is refused gets nothing more out of its attempt: it is
/// in the midst of a rule. (Under two-phase locking, where it would wait.)
fn a_refusal_that_is_caught<W: World>() {
    for does_write in [false, true] {
        let (var, count) = (TVar::<u64, W>::new_in(0), TVar::<u64, W>::new_in(0));
        let (mut outer, mut inner) = (W::session(), W::session());
        outer.run(&mut |tx| {
            if does_write {
                var.get(tx).map(drop)?
            } else {
                var.set(tx, 1)?
            };
            is_refused(|| {
                inner.run(&mut |tx| {
                    let refused = catch_unwind(AssertUnwindSafe(|| match does_write {
                        true => var.set(tx, 2),
                        false => var.get(tx).map(drop),
                    }));
                    if let Ok(answer) = refused {
                        return answer;
                    }
                    if does_write {
                        let _ = count.set(tx, 7);
                    } else if let Ok(before) = count.get(tx) {
                        let add_one = || W::run(&mut |tx| count.update(tx, |count| count + 1));
                        std::thread::scope(|scope| scope.spawn(add_one).join().unwrap());
                        let _ = count.set(tx, before + 1);
                        panic!("what it goes on to read it has not got");
                    }
                    Ok(())
                })
            });
            Ok(())
        });
        assert_eq!((var.load(), count.load()), (u64::from(!does_write), 0));
    }
}

/// Whoever loses a conflict under two-phase locking draws a number that it keeps until it is over: also when that is a panic between two
/// of its attempts.
#[test]
fn a_number_goes_with_a_transaction_that_panics_between_attempts() {
    noonmark_stm::world! {
        struct Here: noonmark_stm::TwoPlSf, noonmark_stm::Threads, noonmark_stm::Own = noonmark_stm::Memory::new(
            noonmark_stm::Settings::default(),
            noonmark_stm::Threads::default(),
        );
    }
    struct Explosive(bool);
    impl Drop for Explosive {
        fn drop(&mut self) {
            if self.0 {
                std::panic::resume_unwind(Box::new("dropped"));
            }
        }
    }
    let var = TVar::<u64, Here>::new_in(0);
    let mut session = Here::session();
    // It loses to irrevocable ones, so many of them, one after another: each has written, and ends when it has lost.
    for losses in [1, 1, 2, 2] {
        let before = Here::memory().statistics();
        let (has_written, has_lost) = (Barrier::new(2), Barrier::new(2));
        let mut attempts = 0;
        let loser = || {
            session.run(&mut |tx| {
                attempts += 1;
                has_written.wait();
                let _ = var.get(tx);
                has_lost.wait();
                Ok(Explosive(attempts == losses))
            })
        };
        std::thread::scope(|scope| {
            let loser = scope.spawn(|| catch_unwind(AssertUnwindSafe(loser)).is_err());
            for loss in 1..=losses {
                Here::irrevocably(|tx| {
                    var.set(tx, loss)?;
                    has_written.wait();
                    has_lost.wait();
                    Ok(())
                });
            }
            assert!(loser.join().unwrap(), "it has panicked");
        });
        assert_eq!(
            Here::memory().statistics().clock - before.clock,
            1,
            "one number for each transaction that loses"
        );
    }
}

mod two_phase {
    use super::*;

    for_each_control! { [two_pl_sf] in table [two_pl_sf]: a_refusal_that_is_caught, }
}

mod starvation_free {
    use super::*;

    for_each_control! {
        [dctl_sf, dcotl_sf, two_pl_sf] in table [dcotl_sf]:
        comparing_may_panic_in_new_chains,
    }
}

for_each_control! {
    [dctl, dcotl_sf, tl2_gv4, tinystm, two_pl_sf] in table [dcotl]:
    updates_in_a_ravl_map,
    updates_in_a_red_black_map,
    updates_in_a_zip_map,
    updates_in_a_skip_map,
    updates_in_hash_maps,
    moody_keys_in_a_ravl_map,
    moody_keys_in_a_red_black_map,
    moody_keys_in_a_zip_map,
    moody_keys_in_a_skip_map,
    a_node_of_a_branch_that_was_undone,
    a_session_inside_another,
    a_session_that_interrupts_another,
    an_interruption_of_another,
    a_transaction_inside_the_only_one,
    hashing_may_panic,
}
