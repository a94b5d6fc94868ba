//! Maps with others at work, under every control: each answers as a `BTreeMap` would, keeps its invariants, and is whole at
//! every moment. (What one thread sees alone: `maps_model.rs`.)

use crate::support::for_each_control;
use crate::support::numbers::Numbers;
use crate::support::run::{Run, RunHere, on_threads};
use noonmark_core::sync::Mutex;
use noonmark_stm::{Look, Structure, THashMap, TMap, TRavlMap, TRbMap, TSkipMap, TZipMap, World};
use std::collections::BTreeMap;

/// Each thread has keys of its own, and a model of what becomes of them; what they share is the structure.
fn storm<S>(map: &TMap<S>)
where
    S: Structure<Key = u64, Value = u64> + Look<u64>,
{
    const THREADS: u64 = 4;
    const KEYS: u64 = 60;
    const TRANSACTIONS: u64 = 4_000;
    let models = Mutex::new(Vec::new());
    on_threads(THREADS, &|thread| {
        let model = storm_of_one(map, thread, THREADS, KEYS, TRANSACTIONS);
        models.lock().unwrap().extend(model);
    });
    let mut models = models.into_inner().unwrap();
    let (count, longest) = S::World::look(&mut |tx| map.check(tx));
    assert_eq!(count, models.len());
    assert!(longest <= 64, "{longest} links to an entry, of {count}");
    let mut entries = S::World::look(&mut |tx| {
        map.iter(tx).map(|entry| entry.map(|(key, value)| (*key, value))).collect::<Result<Vec<_>, _>>()
    });
    entries.sort_unstable();
    models.sort_unstable();
    assert_eq!(entries, models);
}

fn storm_of_one<S>(map: &TMap<S>, thread: u64, threads: u64, keys: u64, transactions: u64) -> Vec<(u64, u64)>
where
    S: Structure<Key = u64, Value = u64> + Look<u64>,
{
    let (mut numbers, mut model) = (Numbers(thread), BTreeMap::new());
    let mut session = S::World::session();
    for number in 0..transactions {
        // In some phases it grows, in others it shrinks.
        let is_growing = number % 400 < 200;
        let key = numbers.below(keys) * threads + thread;
        let other = numbers.below(keys) * threads + thread;
        let kind = numbers.below(10);
        match (kind, is_growing) {
            (0..=5, true) | (0..=1, false) => {
                let answers = session
                    .run(&mut |tx| Ok((map.insert(tx, key, number)?, map.insert(tx, other, number + 1)?)));
                assert_eq!(answers, (model.insert(key, number), model.insert(other, number + 1)));
            }
            (6..=7, true) | (2..=7, false) => {
                let answers = session.run(&mut |tx| Ok((map.remove(tx, &key)?, map.remove(tx, &other)?)));
                assert_eq!(answers, (model.remove(&key), model.remove(&other)));
            }
            (8, _) => {
                // Somewhere else, and out again at once.
                let before = session.run(&mut |tx| {
                    let before = map.update(tx, key, |value| Some(value.unwrap_or(number) + 1))?;
                    map.insert(tx, u64::MAX - thread, number)?;
                    assert_eq!(map.remove(tx, &(u64::MAX - thread))?, Some(number));
                    Ok(before)
                });
                assert_eq!(before, model.get(&key).copied());
                model.insert(key, before.unwrap_or(number) + 1);
            }
            _ => {
                let seen = session.look(&mut |tx| Ok((map.get(tx, &key)?, map.contains_key(tx, &other)?)));
                assert_eq!(seen, (model.get(&key).copied(), model.contains_key(&other)));
            }
        }
    }
    model.into_iter().collect()
}

/// Closures that go on after an error do no harm: what they do then comes to nothing, and to an end.
fn reckless<S>(map: &TMap<S>)
where
    S: Structure<Key = u64, Value = u64> + Look<u64>,
{
    const KEYS: u64 = 24;
    on_threads(4, &|thread| {
        let (mut numbers, mut session) = (Numbers(thread), S::World::session());
        for _ in 0..1_500 {
            let keys: [u64; 6] = std::array::from_fn(|_| numbers.below(KEYS));
            session.run(&mut |tx| {
                for pair in keys.chunks(2) {
                    let _ = map.remove(tx, &pair[0]);
                    let _ = map.insert(tx, pair[1], thread);
                    let _ = map.update(tx, pair[0], |value| value.map(|value| value + 1));
                }
                // In an attempt that is doomed, of what is half done; but it ends.
                let _ = map.iter(tx).count();
                Ok(())
            });
        }
    });
    S::World::look(&mut |tx| map.check(tx));
}

/// Entries move between two maps; whoever looks sees each in one of them.
fn moves<W, S, R>(left: &TMap<S>, right: &TMap<R>)
where
    W: World,
    S: Structure<Key = u64, Value = u64, World = W> + Look<u64>,
    R: Structure<Key = u64, Value = u64, World = W> + Look<u64>,
{
    const KEYS: u64 = 100;
    W::run(&mut |tx| (0..KEYS).try_for_each(|key| left.insert(tx, key, key * 10).map(drop)));
    on_threads(4, &|thread| {
        let mut numbers = Numbers(thread);
        let mut session = W::session();
        for _ in 0..4_000 {
            let key = numbers.below(KEYS);
            if thread == 3 {
                let (left, right) = session.look(&mut |tx| Ok((left.get(tx, &key)?, right.get(tx, &key)?)));
                assert_eq!(left.xor(right), Some(key * 10));
            } else {
                session.run(&mut |tx| {
                    let before = match left.remove(tx, &key)? {
                        Some(value) => right.insert(tx, key, value)?,
                        None => match right.remove(tx, &key)? {
                            Some(value) => left.insert(tx, key, value)?,
                            None => panic!("in neither"),
                        },
                    };
                    assert_eq!(before, None, "in both");
                    Ok(())
                });
            }
        }
        let total = session.look(&mut |tx| Ok(left.len(tx)? + right.len(tx)?));
        assert_eq!(total as u64, KEYS);
    });
    let counts = W::look(&mut |tx| Ok(left.check(tx)?.0 + right.check(tx)?.0));
    assert_eq!(counts as u64, KEYS);
}

/// Many insert new entries, so that the map doubles again and again under them.
fn a_map_grows_under_its_writers<W: World>() {
    const THREADS: u64 = 4;
    const EACH: u64 = 1_500;
    let map = THashMap::<u64, u64, W>::new_in();
    on_threads(THREADS, &|thread| {
        let mut session = W::session();
        for number in 0..EACH {
            let key = number * THREADS + thread;
            assert_eq!(session.run(&mut |tx| map.insert(tx, key, number)), None);
            let back = number / 2 * THREADS + thread;
            assert_eq!(session.look(&mut |tx| map.get(tx, &back)), Some(number / 2));
        }
    });
    let (entries, buckets) = W::look(&mut |tx| Ok((map.check(tx)?.0 as u64, map.buckets(tx)? as u64)));
    assert_eq!(entries, THREADS * EACH);
    assert!(buckets * 2 >= entries && buckets <= entries * 3, "{buckets} buckets for {entries} entries");
}

macro_rules! on_each_map {
    ($($name:ident: $make:expr;)*) => { $(
        fn $name<W: World>() {
            storm(&$make);
            reckless(&$make);
        }
    )* };
}

on_each_map! {
    storm_on_a_ravl_map: TRavlMap::<u64, u64, W>::new_in();
    storm_on_a_red_black_map: TRbMap::<u64, u64, W>::new_in();
    storm_on_a_zip_map: TZipMap::<u64, u64, W>::new_in();
    storm_on_a_skip_map: TSkipMap::<u64, u64, W>::new_in();
    storm_on_a_hash_map_that_grows: THashMap::<u64, u64, W>::new_in();
    storm_on_a_hash_map_with_long_chains: THashMap::<u64, u64, W>::with_buckets_in(32);
}

fn moves_between_a_ravl_and_a_hash_map<W: World>() {
    moves::<W, _, _>(&TRavlMap::new_in(), &THashMap::<_, _, W>::new_in());
}

fn moves_between_a_red_black_and_a_zip_map<W: World>() {
    moves::<W, _, _>(&TRbMap::new_in(), &TZipMap::new_in());
}

fn moves_between_a_skip_and_a_ravl_map<W: World>() {
    moves::<W, _, _>(&TSkipMap::new_in(), &TRavlMap::new_in());
}

for_each_control! {
    [dctl, dcotl, dctl_sf, dcotl_sf, tl2_gv4, tl2_gv5, tinystm, two_pl_sf] in table [dcotl_sf]:
    storm_on_a_ravl_map,
    storm_on_a_red_black_map,
    storm_on_a_zip_map,
    storm_on_a_skip_map,
    storm_on_a_hash_map_that_grows,
    storm_on_a_hash_map_with_long_chains,
    moves_between_a_ravl_and_a_hash_map,
    moves_between_a_red_black_and_a_zip_map,
    moves_between_a_skip_and_a_ravl_map,
    a_map_grows_under_its_writers,
}
