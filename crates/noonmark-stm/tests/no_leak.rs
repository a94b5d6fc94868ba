//! Memory, by counts: a million nodes and values come and go in every structure, while others read and are doomed, and in the end
//! the program has as many bytes as before.
//!
//! The program's allocator counts live bytes, of all threads; so the tests run one after another ([`alone`]), each does its work
//! twice, and the second time must leave nothing: what the first time leaves are the logs and lists of the memory itself, which
//! have grown to what the work takes. They may yet grow, when a desk is worked at for the first time, or more waits at one moment
//! than ever before; then it is done again, as often as lists that are full of room can grow so. What leaks leaves something each
//! time; [`SLACK_BYTES`] is less than a thousandth of what came and went.
#![cfg(not(any(loom, shuttle)))]

use noonmark_core::{Garbage, room_for};
use noonmark_stm::{
    Boxed, DcotlSf, Dctl, Host, Interrupted, Look, Memory, Own, Settings, Structure, TCell, TField, THashMap,
    TLink, TMap, TQueue, TRavlMap, TRbMap, TRef, TRoot, TSkipMap, TZipMap, Threads, TinyStm, Tl2Gv5, TwoPlSf,
    World, world,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that the program has allocated and not freed; and how often it has allocated.
static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is handed on to the system's allocator unchanged (the rest is the trait's own, made of these two);
// counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: counts; who compares two readings has joined the threads between them.
        LIVE_BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the logs of a memory may grow by.
const SLACK_BYTES: isize = 16 << 10;
const SLOTS: usize = 8;
/// What lists of what waits to be freed keep of their room: one at each desk, and one that all share.
const ROOM_BYTES: usize = (SLOTS + 1) * room_for(0) * size_of::<(u64, Garbage)>();
/// How often it is done again, at most: each time that leaves more than the slack, some of that room is new.
const TIMES_MAX: usize = 2 + ROOM_BYTES / SLACK_BYTES as usize;
/// Allocations of each kind of work in the two times, at least; and as many are freed.
const ALLOCATIONS_EACH: u64 = 1_000_000;

/// Keeps other tests of this program from allocating meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets what waits at the desks be freed: one transaction after another at each.
fn settle<W: World>() {
    let mut sessions: Vec<_> = (0..SLOTS).map(|_| W::session()).collect();
    for _ in 0..4 {
        sessions.iter_mut().for_each(|session| session.collect());
    }
    assert!(sessions.iter_mut().all(|session| session.garbage() == 0));
}

/// Does it until so much has been allocated, again and again: once it must leave nothing.
fn leaves_nothing<W: World>(name: &str, work: impl Fn(u64)) {
    let mut left = Vec::new();
    for time in 0..TIMES_MAX {
        let (begin, live) = (ALLOCATIONS.load(Ordering::Relaxed), LIVE_BYTES.load(Ordering::Relaxed));
        let mut round = 0;
        while ALLOCATIONS.load(Ordering::Relaxed) - begin < ALLOCATIONS_EACH / 2 {
            work(round);
            round += 1;
        }
        settle::<W>();
        left.push(LIVE_BYTES.load(Ordering::Relaxed) - live);
        if time > 0 && left[time] < SLACK_BYTES {
            return;
        }
    }
    panic!("{name}: bytes left by {} allocations, each time: {left:?}", ALLOCATIONS_EACH / 2);
}

struct CalledOff;

impl From<Interrupted> for CalledOff {
    fn from(_: Interrupted) -> Self {
        CalledOff
    }
}

/// A value that tells whether it has been freed: it is then spoiled.
#[derive(Debug)]
struct Sealed(u64, AtomicU64);

impl Sealed {
    fn new(value: u64) -> Self {
        Sealed(value, AtomicU64::new(!value))
    }

    fn checked(&self) -> u64 {
        assert_eq!(self.1.load(Ordering::Relaxed), !self.0, "read after it was freed");
        self.0
    }
}

impl Clone for Sealed {
    fn clone(&self) -> Self {
        Sealed::new(self.checked())
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        self.checked();
        self.1.store(self.0, Ordering::Relaxed);
    }
}

/// Two that change, and one that reads slowly, so that most of what it has in its hand is taken away meanwhile.
fn churned(changes: impl Fn(u64) + Sync, reads: impl Fn() + Sync) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changing: Vec<_> = (0..2)
            .map(|thread| {
                let changes = &changes;
                scope.spawn(move || (0..4_000).for_each(|step| changes(step * 2 + thread)))
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                reads();
            }
        });
        let ended: Vec<_> = changing.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
}

fn map<W: World, S>(name: &str, make: impl Fn() -> TMap<S>)
where
    S: Structure<Key = u64, Value = Boxed<Sealed>, World = W> + Look<u64>,
{
    let host = Threads::default();
    leaves_nothing::<W>(name, |_| {
        let map = make();
        churned(
            |step| {
                let key = step.wrapping_mul(0x9e37_79b9) % 64;
                match step % 8 {
                    0..3 => W::atomically(|tx| map.insert(tx, key, Sealed::new(key)).map(drop)),
                    3 => {
                        let _: Result<(), CalledOff> = W::try_atomically(|tx| {
                            map.insert(tx, key, Sealed::new(key))?;
                            map.remove(tx, &(key + 1))?;
                            Err(CalledOff)
                        });
                    }
                    _ => W::atomically(|tx| map.remove(tx, &key).map(drop)),
                }
            },
            || {
                // With a log, and without.
                W::atomically(|tx| {
                    for key in 0..8 {
                        if let Some(value) = map.get(tx, &(key * 8))? {
                            host.spin(63);
                            assert_eq!(value.checked(), key * 8);
                        }
                    }
                    Ok(())
                });
                W::view(|tx| {
                    for entry in map.iter(tx) {
                        let (key, value) = entry?;
                        assert_eq!(value.checked(), *key);
                    }
                    Ok(())
                });
            },
        );
    });
}

fn maps<W: World>() {
    map::<W, _>("ravl", TRavlMap::new_in);
    map::<W, _>("red-black", TRbMap::new_in);
    map::<W, _>("zip", TZipMap::new_in);
    map::<W, _>("skip", TSkipMap::new_in);
    map::<W, _>("hash", || THashMap::<_, _, W>::with_buckets_in(16));
    map::<W, _>("hash that grows", THashMap::<_, _, W>::new_in);
}

struct Item<W: World> {
    value: Sealed,
    count: TField<u64>,
    next: TLink<Item<W>, W>,
}

struct Stack<W: World>(TRoot<Item<W>, W>);

impl<W: World> Drop for Stack<W> {
    fn drop(&mut self) {
        // SAFETY: the stack's nodes, each reached by one link.
        unsafe { self.0.free_all(|item, free| free(&mut item.next)) };
    }
}

fn nodes<W: World>() {
    let host = Threads::default();
    leaves_nothing::<W>("nodes", |_| {
        let stack = Stack::<W>(TRoot::new_in());
        churned(
            |step| {
                W::atomically(|tx| {
                    let first = stack.0.get(tx)?;
                    match first.filter(|_| step % 3 != 0) {
                        None => {
                            let (value, count) = (Sealed::new(step), TField::new(0));
                            let item = TRef::alloc(tx, Item { value, count, next: TLink::none() });
                            item.link(tx, |item| &item.next, first)?;
                            stack.0.set(tx, Some(item))
                        }
                        Some(first) => {
                            stack.0.set(tx, first.follow(tx, |item| &item.next)?)?;
                            // SAFETY: nothing leads to it any more.
                            unsafe { first.free(tx) };
                            Ok(())
                        }
                    }
                });
            },
            || {
                W::atomically(|tx| {
                    let mut at = stack.0.get(tx)?;
                    while let Some(item) = at {
                        // What it has in its hand is freed by others meanwhile, or would be.
                        host.spin(63);
                        item.value.checked();
                        item.get(tx, |item| &item.count)?;
                        at = item.follow(tx, |item| &item.next)?;
                    }
                    Ok(())
                });
            },
        );
    });
}

fn values_and_queues<W: World>() {
    let host = Threads::default();
    leaves_nothing::<W>("cells", |_| {
        let cells: Vec<TCell<Sealed, W>> = (0..4).map(|_| TCell::new_in(Sealed::new(1))).collect();
        churned(
            |step| {
                W::atomically(|tx| {
                    cells[step as usize % 4].set(tx, Sealed::new(step))?;
                    cells[step as usize / 2 % 4].set(tx, Sealed::new(step))
                });
            },
            || {
                W::atomically(|tx| {
                    for cell in &cells {
                        let value = cell.read(tx)?;
                        host.spin(63);
                        value.checked();
                    }
                    Ok(())
                });
            },
        );
    });
    leaves_nothing::<W>("queue", |_| {
        let queue = TQueue::<Sealed, W>::new_in();
        churned(
            |step| {
                if step % 4 < 2 {
                    W::atomically(|tx| queue.push(tx, Sealed::new(step)));
                } else {
                    W::atomically(|tx| {
                        queue.pop(tx).map(|popped| popped.as_ref().map_or(0, Sealed::checked))
                    });
                }
            },
            || {
                W::atomically(|tx| {
                    let first = queue.peek(tx)?;
                    host.spin(63);
                    first.map(Sealed::checked);
                    Ok(())
                });
            },
        );
    });
}

macro_rules! controls {
    ($($name:ident: $control:ty;)*) => { $(
        mod $name {
            use super::*;

            world! {
                struct Here: $control, Threads, Own =
                    Memory::new(Settings::default().slots(SLOTS), Threads::default());
            }

            #[test]
            fn maps_leave_nothing() {
                let _alone = alone();
                maps::<Here>();
            }

            #[test]
            fn nodes_leave_nothing() {
                let _alone = alone();
                nodes::<Here>();
            }

            #[test]
            fn values_and_queues_leave_nothing() {
                let _alone = alone();
                values_and_queues::<Here>();
            }
        }
    )* };
}

controls! {
    dctl: Dctl;
    dcotl_sf: DcotlSf;
    tl2_gv5: Tl2Gv5;
    tinystm: TinyStm;
    two_pl_sf: TwoPlSf;
}
