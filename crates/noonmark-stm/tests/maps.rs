//! Maps against a model, alone and with others at work, under every control.
#![cfg(not(any(loom, shuttle)))]

mod support;

use noonmark_stm::{TRavlMap, World};
use std::collections::BTreeMap;
use support::for_each_control;

/// SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn a_ravl_map_does_what_a_btree_map_does<W: World>() {
    for seed in 0..4 {
        let mut numbers = Numbers(seed);
        let keys = [10, 100, 1000, 5][seed as usize];
        let (map, mut model) = (TRavlMap::<u64, u64, W>::new_in(), BTreeMap::new());
        let mut session = W::session();
        for step in 0..4_000 {
            let (key, value) = (numbers.below(keys), step);
            match numbers.below(12) {
                0..=3 => {
                    let before = session.atomically(|tx| map.insert(tx, key, value));
                    assert_eq!(before, model.insert(key, value));
                }
                4..=6 => {
                    assert_eq!(session.atomically(|tx| map.remove(tx, &key)), model.remove(&key));
                }
                7 => {
                    let change =
                        |value: Option<u64>| value.filter(|value| value % 3 > 0).map(|value| value + 1);
                    let before = session.atomically(|tx| map.update(tx, key, change));
                    assert_eq!(before, model.get(&key).copied());
                    match change(before) {
                        Some(after) => model.insert(key, after),
                        None => model.remove(&key),
                    };
                }
                8 => {
                    let end = key + numbers.below(keys);
                    let seen = session.view(|tx| {
                        map.range(tx, key..end)
                            .map(|entry| entry.map(|(k, v)| (*k, v)))
                            .collect::<Result<Vec<_>, _>>()
                    });
                    let expected: Vec<_> = model.range(key..end).map(|(k, v)| (*k, *v)).collect();
                    assert_eq!(seen, expected);
                }
                9 => {
                    let ends = session.view(|tx| {
                        let first = map.first_key_value(tx)?.map(|(k, v)| (*k, v));
                        Ok((first, map.last_key_value(tx)?.map(|(k, v)| (*k, v))))
                    });
                    let own = |entry: Option<(&u64, &u64)>| entry.map(|(k, v)| (*k, *v));
                    assert_eq!(ends, (own(model.first_key_value()), own(model.last_key_value())));
                }
                10 if step % 5 == 0 => {
                    assert_eq!(session.atomically(|tx| map.pop_first(tx)), model.pop_first());
                    assert_eq!(session.atomically(|tx| map.pop_last(tx)), model.pop_last());
                }
                _ => {
                    let seen = session.view(|tx| Ok((map.get(tx, &key)?, map.contains_key(tx, &key)?)));
                    assert_eq!(seen, (model.get(&key).copied(), model.contains_key(&key)));
                }
            }
            if step % 100 == 0 {
                let (count, _) = session.view(|tx| map.check(tx));
                let seen = session.view(|tx| Ok((map.len(tx)?, map.is_empty(tx)?)));
                assert_eq!((count, seen), (model.len(), (model.len(), model.is_empty())));
            }
        }
    }
}

fn a_ravl_map_is_flat<W: World>() {
    let map = TRavlMap::<u64, u64, W>::new_in();
    let mut session = W::session();
    // In order, and from both ends: what makes a tree without balance a list.
    for key in 0..2_000 {
        session.atomically(|tx| {
            map.insert(tx, 10_000 + key, key)?;
            map.insert(tx, 10_000 - key, key)
        });
    }
    let (count, height) = session.view(|tx| map.check(tx));
    assert_eq!(count, 3_999);
    assert!(height <= 18, "{height}: more than 1.44 times the logarithm of the insertions");
}

/// Entries move between two maps; whoever looks sees each in one of them.
fn what_moves_between_maps_is_always_in_one<W: World>() {
    const KEYS: u64 = 200;
    let maps = [TRavlMap::<u64, u64, W>::new_in(), TRavlMap::<u64, u64, W>::new_in()];
    W::atomically(|tx| (0..KEYS).try_for_each(|key| maps[0].insert(tx, key, key * 10).map(drop)));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let maps = &maps;
            scope.spawn(move || {
                let mut numbers = Numbers(thread);
                let mut session = W::session();
                for _ in 0..3_000 {
                    let key = numbers.below(KEYS);
                    if thread == 3 {
                        let (left, right) =
                            session.view(|tx| Ok((maps[0].get(tx, &key)?, maps[1].get(tx, &key)?)));
                        assert_eq!(left.xor(right), Some(key * 10));
                    } else {
                        session.atomically(|tx| {
                            let from = usize::from(maps[0].contains_key(tx, &key)?) ^ 1;
                            let Some(value) = maps[from].remove(tx, &key)? else { panic!("in neither") };
                            assert_eq!(maps[from ^ 1].insert(tx, key, value)?, None, "in both");
                            Ok(())
                        });
                    }
                }
                let total = session.view(|tx| Ok(maps[0].len(tx)? + maps[1].len(tx)?));
                assert_eq!(total as u64, KEYS);
            });
        }
    });
    let counts = W::view(|tx| Ok(maps[0].check(tx)?.0 + maps[1].check(tx)?.0));
    assert_eq!(counts as u64, KEYS);
}

for_each_control! {
    [dctl, dcotl, dctl_sf, dcotl_sf, tl2_gv4, tl2_gv5, tinystm] in table [dcotl_sf]:
    a_ravl_map_does_what_a_btree_map_does,
    a_ravl_map_is_flat,
    what_moves_between_maps_is_always_in_one,
}
