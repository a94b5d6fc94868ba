//! Collections under random schedules: a few operations of two or three threads, in very many orders of their steps.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle cargo test -p noonmark-stm --release --test shuttle_maps
//! ```
//!
//! A map that grows begins with one bucket here, and doubles as soon as a chain has two entries.

#![cfg(shuttle)]

mod schedules;

use noonmark_stm::{
    Dcotl, DcotlSf, Dctl, DctlSf, Look, Opaque, Structure, TCounter, THashMap, TMap, TQueue, TRavlMap,
    TRbMap, TSkipMap, TZipMap, TinyStm, Tl2Gv4, World,
};
use schedules::{Fresh, on_schedules, together};
use std::sync::Arc;

const SCHEDULES: usize = 700;

/// Two insert what is not there, and a third moves something and looks for what is there all along.
fn nothing_is_lost<S>(map: TMap<S>)
where
    S: Structure<Key = u64, Value = u64> + Look<u64>,
{
    let map = Arc::new(map);
    S::World::atomically(|tx| map.insert(tx, 100, 0).map(drop));
    let insert = |keys: [u64; 3]| -> Box<dyn FnOnce() + Send> {
        let map = map.clone();
        Box::new(move || {
            for key in keys {
                assert_eq!(S::World::atomically(|tx| map.insert(tx, key, key)), None);
            }
            assert_eq!(S::World::atomically(|tx| map.remove(tx, &keys[1])), Some(keys[1]));
        })
    };
    let look = {
        let map = map.clone();
        Box::new(move || {
            for key in [200, 201] {
                S::World::atomically(|tx| {
                    assert!(map.remove(tx, &100)?.is_some() != map.remove(tx, &(key - 1))?.is_some());
                    map.insert(tx, key, 0)
                });
                assert_eq!(
                    S::World::view(|tx| Ok(map.iter(tx).filter(|e| !matches!(e, Ok((1..100, _)))).count())),
                    1
                );
            }
        })
    };
    together(vec![insert([1, 2, 3]), insert([11, 12, 13]), look]);
    assert_eq!(S::World::view(|tx| map.check(tx)).0, 5);
    for key in [1, 3, 11, 13, 201] {
        assert!(S::World::view(|tx| map.contains_key(tx, &key)), "{key} is lost");
    }
}

/// Two that go on after errors: what they do then comes to nothing, and to an end.
fn errors_do_no_harm<S>(map: TMap<S>)
where
    S: Structure<Key = u64, Value = u64> + Look<u64>,
{
    let map = Arc::new(map);
    S::World::atomically(|tx| (0..5).try_for_each(|key| map.insert(tx, key * 2, 0).map(drop)));
    let reckless = |keys: [u64; 4]| -> Box<dyn FnOnce() + Send> {
        let map = map.clone();
        Box::new(move || {
            for key in keys {
                S::World::atomically(|tx| {
                    let _ = map.remove(tx, &key);
                    let _ = map.insert(tx, key + 1, key);
                    let _ = map.remove(tx, &(key + 2));
                    let _ = map.iter(tx).count();
                    Ok(())
                });
            }
        })
    };
    together(vec![reckless([0, 2, 4, 6]), reckless([4, 0, 6, 2])]);
    let (entries, _) = S::World::view(|tx| map.check(tx));
    let all = S::World::view(|tx| map.iter(tx).map(|entry| Ok(*entry?.0)).collect::<Result<Vec<_>, _>>());
    assert_eq!(entries, all.len());
}

fn errors_do_no_harm_to_any<C: Opaque>() {
    on_schedules::<C>(SCHEDULES, || errors_do_no_harm(THashMap::<_, _, Fresh<C>>::new_in()));
    on_schedules::<C>(SCHEDULES, || errors_do_no_harm(TSkipMap::<_, _, Fresh<C>>::new_in()));
    on_schedules::<C>(SCHEDULES, || errors_do_no_harm(TRavlMap::<_, _, Fresh<C>>::new_in()));
    on_schedules::<C>(SCHEDULES, || errors_do_no_harm(TRbMap::<_, _, Fresh<C>>::new_in()));
    on_schedules::<C>(SCHEDULES, || errors_do_no_harm(TZipMap::<_, _, Fresh<C>>::new_in()));
}

fn on_all_maps<C: Opaque>() {
    on_schedules::<C>(SCHEDULES, || nothing_is_lost(THashMap::<_, _, Fresh<C>>::new_in()));
    on_schedules::<C>(SCHEDULES, || nothing_is_lost(TSkipMap::<_, _, Fresh<C>>::new_in()));
    on_schedules::<C>(SCHEDULES, || nothing_is_lost(TRavlMap::<_, _, Fresh<C>>::new_in()));
    on_schedules::<C>(SCHEDULES, || nothing_is_lost(TRbMap::<_, _, Fresh<C>>::new_in()));
    on_schedules::<C>(SCHEDULES, || nothing_is_lost(TZipMap::<_, _, Fresh<C>>::new_in()));
}

/// Items come out once, and whoever waits is woken; each counts what he does.
fn a_queue_and_its_counter<C: Opaque>() {
    on_schedules::<C>(SCHEDULES, || {
        let queue = Arc::new((TQueue::<u64, Fresh<C>>::new_in(), TCounter::<Fresh<C>>::new_in()));
        let produce = |item: u64| -> Box<dyn FnOnce() + Send> {
            let shared = queue.clone();
            Box::new(move || {
                let (queue, there) = &*shared;
                for item in [item, item + 1] {
                    Fresh::<C>::atomically(|tx| {
                        there.add(tx, 1)?;
                        queue.push(tx, item)
                    });
                }
            })
        };
        let consume = {
            let shared = queue.clone();
            Box::new(move || {
                let (queue, there) = &*shared;
                let mut all = Vec::new();
                for _ in 0..4 {
                    all.push(Fresh::<C>::atomically(|tx| {
                        let Some(item) = queue.pop(tx)? else { return tx.retry() };
                        there.add(tx, -1)?;
                        Ok(item)
                    }));
                    let seen = Fresh::<C>::view(|tx| Ok((queue.len(tx)? as i64, there.get(tx)?)));
                    assert_eq!(seen.0, seen.1, "as many as were counted");
                }
                assert!(all.iter().filter(|item| **item < 10).is_sorted(), "{all:?}");
                all.sort_unstable();
                assert_eq!(all, [1, 2, 11, 12]);
            })
        };
        together(vec![produce(1), produce(11), consume]);
    });
}

macro_rules! on_each_control {
    ($($name:ident: $control:ty;)*) => { $(
        mod $name {
            use super::*;

            #[test]
            fn nothing_is_lost_from_maps() {
                on_all_maps::<$control>();
            }

            #[test]
            fn errors_that_are_not_handed_on_do_no_harm() {
                errors_do_no_harm_to_any::<$control>();
            }

            #[test]
            fn a_queue_and_its_counter() {
                super::a_queue_and_its_counter::<$control>();
            }
        }
    )* };
}

on_each_control! {
    dctl: Dctl;
    dcotl: Dcotl;
    dctl_sf: DctlSf;
    dcotl_sf: DcotlSf;
    tl2_gv4: Tl2Gv4;
    tinystm: TinyStm;
}
