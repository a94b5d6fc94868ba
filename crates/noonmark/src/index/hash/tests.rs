//! Tests of the hash index.

use super::super::test_records::*;
use super::*;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;

fn seen_version(lookup: Lookup) -> u64 {
    match lookup {
        Lookup::Absent(seen) => seen.version,
        Lookup::Found(_) => panic!("found"),
    }
}

fn found(lookup: Lookup) -> Option<RecordPtr> {
    match lookup {
        Lookup::Found(record) => Some(record),
        Lookup::Absent(_) => None,
    }
}

/// Frees what is left. The index stays where it is until then: what is retired goes back to it.
fn finish(index: &mut HashIndex, mut limbo: Limbo, epochs: Epochs) {
    limbo.abandon(&epochs);
    drop(epochs);
    index.for_each_elsewhere(free_record);
}

#[test]
fn agrees_with_a_map() {
    for (name, class, draw) in key_kinds() {
        let length = draw(&mut Dice(0)).len();
        for (hint, shape) in
            [(1, None), (0, None), (0, shape(length)), (1, shape(length)), (1500, shape(length))]
        {
            let (mut index, epochs, mut limbo) =
                (HashIndex::new(class, hint, shape), Epochs::new(1), Limbo::new());
            assert_eq!(index.direct.is_some(), shape.is_some() && class == KeyClass::Fixed8);
            epochs.pin(slot(0));
            let mut model: HashMap<Vec<u8>, RecordPtr> = HashMap::new();
            let mut dice = Dice(7);
            for turn in 0..30_000u64 {
                let key = draw(&mut dice);
                // Growing and shrinking in turn.
                let removals = if turn / 5000 % 2 == 0 { 3 } else { 7 };
                if dice.below(10) < removals {
                    let expected = model.remove(&key);
                    if let Some(record) = expected {
                        assert!(index.remove(&key, record, turn, 0, &mut limbo, &epochs), "{name}");
                        assert!(!index.remove(&key, record, 0, 0, &mut limbo, &epochs), "{name}");
                        retire(&index, record, &mut limbo, &epochs);
                    }
                } else {
                    match index.get_or_insert(
                        &key,
                        &mut limbo,
                        &epochs,
                        || {},
                        |_, memory| make(&key, memory),
                    ) {
                        Inserted::Existing(record) => assert_eq!(model.get(&key), Some(&record), "{name}"),
                        Inserted::New(record, change) => {
                            assert!(model.insert(key.clone(), record).is_none(), "{name}");
                            assert_eq!(change.after, change.before + 2);
                        }
                    }
                }
                let probe = draw(&mut dice);
                assert_eq!(found(index.get(&probe)), model.get(&probe).copied(), "{name} {probe:?}");
                if turn % 64 == 0 {
                    epochs.unpin(slot(0));
                    epochs.pin(slot(0));
                }
            }
            let keys: Vec<Vec<u8>> = (0..100).map(|_| draw(&mut dice)).collect();
            let mut many = [None; 100];
            index.find_many(|at| &keys[at], &mut many, |_| {});
            for (key, found) in keys.iter().zip(many) {
                assert_eq!(found, model.get(key).copied(), "{name}");
            }
            let mut all = HashSet::new();
            index.for_each(|record| assert!(all.insert(record)));
            assert_eq!(all, model.values().copied().collect::<HashSet<_>>(), "{name}");
            finish(&mut index, limbo, epochs);
        }
    }
}

#[test]
fn long_keys_that_differ_in_their_last_byte_are_told_apart() {
    let (mut index, epochs, mut limbo) =
        (HashIndex::new(KeyClass::Bytes, 1, None), Epochs::new(1), Limbo::new());
    let keys: Vec<Vec<u8>> = (0..20u8).map(|last| [vec![9; 65_535], vec![last]].concat()).collect();
    for key in &keys {
        index.get_or_insert(key, &mut limbo, &epochs, || {}, |_, memory| make(key, memory));
    }
    for key in &keys {
        assert_eq!(found(index.get(key)).map(key_of), Some(&key[..]));
    }
    assert!(found(index.get(&keys[0][..65_535])).is_none());
    finish(&mut index, limbo, epochs);
}

#[test]
fn absence_is_noted_with_the_version_and_times_of_its_shard() {
    let (mut index, epochs, mut limbo) =
        (HashIndex::new(KeyClass::Fixed8, 0, None), Epochs::new(1), Limbo::new());
    let key = 5u64.to_be_bytes();
    let Lookup::Absent(before) = index.get(&key) else { panic!("found in an empty index") };
    assert_eq!((before.version, before.wts, before.rts), (0, 0, 0));
    // Nothing changes: neither does the version.
    assert_eq!(seen_version(index.get(&key)), before.version);
    // SAFETY: the index lives.
    let stamp = unsafe { before.stamp.as_ref() };
    stamp.rts.fetch_max(44, Ordering::SeqCst);
    let mut calls = 0;
    let inserted = index.get_or_insert(
        &key,
        &mut limbo,
        &epochs,
        || {},
        |stamp, _| {
            calls += 1;
            assert_eq!(stamp.version.load(Ordering::SeqCst) & 1, 1, "latched");
            assert_eq!(stamp.rts.load(Ordering::SeqCst), 44);
            make_record(&key)
        },
    );
    let Inserted::New(record, change) = inserted else { panic!("was there") };
    assert_eq!((change.stamp, change.before), (before.stamp, before.version));
    assert!(change.split_off.is_none());
    assert_eq!(stamp.version.load(Ordering::SeqCst), change.after);
    let again = index.get_or_insert(&key, &mut limbo, &epochs, || {}, |_, _| panic!("made twice"));
    assert!(matches!(again, Inserted::Existing(there) if there == record));
    assert_eq!((calls, stamp.version.load(Ordering::SeqCst)), (1, change.after));
    // Another record under the same key is not the one to be removed.
    let other = make_record(&key);
    assert!(!index.remove(&key, other, 99, 99, &mut limbo, &epochs));
    assert_eq!(stamp.version.load(Ordering::SeqCst), change.after);
    assert!(index.remove(&key, record, 50, 60, &mut limbo, &epochs));
    let Lookup::Absent(after) = index.get(&key) else { panic!("found") };
    assert_eq!((after.wts, after.rts), (50, 60));
    assert!(after.version > change.after);
    free_record(other);
    free_record(record);
    finish(&mut index, limbo, epochs);
}

#[test]
fn a_panic_while_making_leaves_the_shard_as_it_was() {
    let (mut index, epochs, mut limbo) =
        (HashIndex::new(KeyClass::Bytes, 0, None), Epochs::new(1), Limbo::new());
    let before = seen_version(index.get(b"k"));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        index.get_or_insert(b"k", &mut limbo, &epochs, || {}, |_, _| std::panic::resume_unwind(Box::new(())))
    }));
    assert!(outcome.is_err());
    assert_eq!(seen_version(index.get(b"k")), before);
    finish(&mut index, limbo, epochs);
}

#[test]
fn hashes_spread_over_shards_and_lines() {
    type Keys = fn(u64) -> Vec<u8>;
    let kinds: [(&str, bool, Keys); 7] = [
        ("sequential", true, |n| n.to_be_bytes().to_vec()),
        ("sequential u32", true, |n| (n as u32).to_be_bytes().to_vec()),
        ("by the thousand", true, |n| (n * 1000).to_be_bytes().to_vec()),
        ("by a power of two", true, |n| (n << 32).to_be_bytes().to_vec()),
        ("names", false, |n| format!("user:{n:08}").into_bytes()),
        ("pairs", false, |n| [(n >> 8).to_be_bytes(), (n & 255).to_be_bytes()].concat()),
        ("little-endian", true, |n| n.to_le_bytes().to_vec()),
    ];
    for (name, short, key) in kinds {
        check_spread(name, short, key);
    }
    for shift in (0..=48).step_by(if cfg!(miri) { 48 } else { 3 }) {
        check_spread(&format!("shifted by {shift}"), true, |n| (n << shift).to_be_bytes().to_vec());
    }
}

fn check_spread(name: &str, short: bool, key: impl Fn(u64) -> Vec<u8>) {
    const KEYS: u64 = 1 << 16;
    let mut shards = vec![0u32; 1024];
    let mut places = vec![0u32; 1 << 16];
    for n in 0..KEYS {
        let key = key(n);
        let hash = if short { Short::hash(&key).0 } else { Long::hash(&key).0 };
        let shard = (hash / SHARD_AT) & 1023;
        shards[shard as usize] += 1;
        // The lines of tables of 64, shard by shard: both ends of the hash together.
        places[(shard << 6 | hash >> 58) as usize] += 1;
    }
    // Random: 64 a shard with a deviation of 8; 36.8 % of lines empty.
    let (least, most) = (shards.iter().min().unwrap(), shards.iter().max().unwrap());
    assert!(*least > 24 && *most < 112, "{name}: {least} to {most} keys to a shard");
    let empty = places.iter().filter(|count| **count == 0).count();
    assert!((15_000..25_000).contains(&empty), "{name}: {empty} of 65536 lines empty");
    // Fewer than that share of lines overflow: 1.9 % of them would have 4 or more.
    let full = places.iter().filter(|count| **count >= 4).count();
    assert!(full < 1600, "{name}: {full} of 65536 lines full");
}

/// Hashes that leave few homes, at the ends of the table and in its middle.
struct Hostile;

impl Hashed for Hostile {
    const EXACT: bool = true;
    fn hash(_: &[u8]) -> (u64, u64) {
        unreachable!("only tags are hashed here")
    }
    fn hash_of_tag(tag: u64) -> u64 {
        match tag % 8 {
            0..3 => u64::MAX,
            3..5 => u64::MAX - (u64::MAX >> 3),
            5 => 0,
            6 => u64::MAX / 2,
            _ => tag.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }
}

/// The two invariants of lines hold after each change, and nothing is lost, whatever the hashes are.
#[test]
fn lines_agree_with_a_map_under_hostile_hashes() {
    for lines in [1, 2, 4, 8, 32] {
        let table = Table::new(lines);
        let mut model: HashMap<u64, u64> = HashMap::new();
        let mut dice = Dice(lines as u64);
        let most = table.places() * 3 / 4;
        let mut strays = 0;
        for turn in 0..(if cfg!(miri) { 500 } else { 20_000 }) {
            let tag = dice.below(most as u64 * 2);
            // Full for a while, then nearly empty.
            let wanted = if turn / 512 % 2 == 0 { most } else { most / 4 };
            match model.remove(&tag) {
                Some(record) if model.len() + 1 >= wanted || dice.below(4) == 0 => {
                    assert!(table.take_out::<Hostile>(Hostile::hash_of_tag(tag), record));
                    assert!(!table.take_out::<Hostile>(Hostile::hash_of_tag(tag), record));
                }
                Some(record) => {
                    model.insert(tag, record);
                }
                None if model.len() < wanted => {
                    // Records are only numbers to a table.
                    table.put::<Hostile>(tag, turn + 1);
                    model.insert(tag, turn + 1);
                }
                None => {}
            }
            strays += table.check::<Hostile>();
            assert_eq!(table.pairs().collect::<HashMap<_, _>>(), model, "{lines} lines, turn {turn}");
            for tag in 0..most as u64 * 2 {
                let hash = Hostile::hash_of_tag(tag);
                let pairs: Vec<_> = table.lines_from_home(hash).flat_map(Line::pairs).collect();
                let found = pairs.iter().find(|(there, _)| *there == tag).map(|(_, record)| *record);
                assert_eq!(found, model.get(&tag).copied(), "{lines} lines, turn {turn}, tag {tag}");
                // What the home line says without a branch is so.
                let at_home = table.home(hash).search(tag);
                assert!(at_home == 0 || Some(at_home) == found);
            }
        }
        assert!(lines == 1 || strays > 0, "lines overflow");
        // SAFETY: nobody refers to it.
        unsafe { table.free() };
    }
}

#[test]
fn few_records_lie_beyond_their_home_line() {
    let (mut index, epochs, mut limbo) =
        (HashIndex::new(KeyClass::Fixed8, 1, None), Epochs::new(1), Limbo::new());
    let mut worst = 0.0f64;
    let mut sum = 0.0;
    // Through all fillings from three eighths to three quarters.
    for n in 0..98_304u64 {
        let key = n.to_be_bytes();
        index.get_or_insert(&key, &mut limbo, &epochs, || {}, |_, memory| make(&key, memory));
        if n % 1024 == 1023 && n >= 49_152 {
            // SAFETY: the index lives.
            let strays: usize =
                index.shards.iter().map(|shard| unsafe { shard.table() }.check::<Short>()).sum();
            let share = strays as f64 / n as f64;
            worst = worst.max(share);
            sum += share / 48.0;
        }
    }
    // As the module's essay says.
    assert!(sum < 0.07 && worst < 0.18, "{sum:.3} {worst:.3}");
    finish(&mut index, limbo, epochs);
}

#[test]
fn memory_is_bounded_by_what_is_there() {
    let (mut index, epochs, mut limbo) =
        (HashIndex::new(KeyClass::Fixed8, 1, None), Epochs::new(1), Limbo::new());
    let empty = index.memory_bytes();
    let key = |n: u64| n.to_be_bytes();
    for n in 0..100_000u64 {
        index.get_or_insert(&key(n), &mut limbo, &epochs, || {}, |_, memory| make(&key(n), memory));
    }
    let full = index.memory_bytes();
    assert!((16 * 100_000..44 * 100_000).contains(&(full - empty)), "{}", full - empty);
    for n in 0..100_000u64 {
        let Lookup::Found(record) = index.get(&key(n)) else { panic!("lost") };
        assert!(index.remove(&key(n), record, 1, 1, &mut limbo, &epochs));
        retire(&index, record, &mut limbo, &epochs);
        // A quarter full, or two lines each: what was large for a while becomes small again.
        let left = 100_000 - n as usize - 1;
        assert!(index.memory_bytes() - empty <= 64 * left + 64 * 2 * 64, "{left} left");
    }
    assert!(index.memory_bytes() - empty <= 64 * 2 * 64, "{}", index.memory_bytes() - empty);
    finish(&mut index, limbo, epochs);
}

#[test]
fn threads_that_insert_remove_and_read_agree() {
    const WRITERS: usize = 3;
    const TURNS: u64 = if cfg!(miri) { 300 } else { 40_000 };
    for (class, rows, shape, key) in [
        (KeyClass::Fixed8, 1, None, (|n: u64| n.to_be_bytes().to_vec()) as fn(u64) -> Vec<u8>),
        // Half of the keys have places of their own.
        (KeyClass::Fixed8, 1000, shape(8), |n| n.to_be_bytes().to_vec()),
        // They race for a few.
        (KeyClass::Fixed8, 16, shape(8), |n| n.to_be_bytes().to_vec()),
        (KeyClass::Bytes, 1, None, |n| format!("customer:{n}").into_bytes()),
    ] {
        let (mut index, epochs) = (HashIndex::new(class, rows, shape), Epochs::new(WRITERS + 1));
        let done = AtomicBool::new(false);
        // Keys below 64 stay; the writers own the ones above by remainder, and race for a few.
        let mut limbo = Limbo::new();
        for n in 0..64 {
            index.get_or_insert(&key(n), &mut limbo, &epochs, || {}, |_, memory| make(&key(n), memory));
        }
        limbo.abandon(&epochs);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (index, epochs) = (&index, &epochs);
                    scope.spawn(move || {
                        let mut limbo = Limbo::new();
                        let mut dice = Dice(writer as u64);
                        let mut mine = HashSet::new();
                        for turn in 0..TURNS {
                            epochs.pin(slot(writer));
                            let n = 100 + dice.below(500) * WRITERS as u64 + writer as u64;
                            let bytes = key(n);
                            let there = found(index.get(&bytes));
                            assert_eq!(there.is_some(), mine.contains(&n));
                            match there {
                                Some(record) => {
                                    assert_eq!(key_of(record), bytes);
                                    assert!(index.remove(&bytes, record, turn, turn, &mut limbo, epochs));
                                    retire(index, record, &mut limbo, epochs);
                                    mine.remove(&n);
                                }
                                None => {
                                    let new = index.get_or_insert(
                                        &bytes,
                                        &mut limbo,
                                        epochs,
                                        || {},
                                        |_, memory| make(&bytes, memory),
                                    );
                                    assert!(matches!(new, Inserted::New(..)));
                                    mine.insert(n);
                                }
                            }
                            // One of ten keys that all race for: whoever unlinks it, retires it.
                            let bytes = key(70 + dice.below(10));
                            match index.get_or_insert(
                                &bytes,
                                &mut limbo,
                                epochs,
                                || {},
                                |_, memory| make(&bytes, memory),
                            ) {
                                Inserted::New(..) => {}
                                Inserted::Existing(record) => {
                                    assert_eq!(key_of(record), bytes);
                                    if index.remove(&bytes, record, 0, 0, &mut limbo, epochs) {
                                        retire(index, record, &mut limbo, epochs);
                                    }
                                }
                            }
                            epochs.unpin(slot(writer));
                        }
                        limbo.abandon(epochs);
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                let mut dice = Dice(99);
                let mut many = [None; 64];
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    epochs.pin(slot(WRITERS));
                    let n = dice.below(64);
                    assert_eq!(found(index.get(&key(n))).map(key_of), Some(&key(n)[..]));
                    let keys: Vec<_> = (0..64).map(key).collect();
                    index.find_many(|at| &keys[at], &mut many, |_| {});
                    for (n, found) in many.iter().enumerate() {
                        assert_eq!(found.map(key_of), Some(&keys[n][..]));
                    }
                    epochs.unpin(slot(WRITERS));
                }
            });
            for writer in writers {
                writer.join().expect("a writer failed");
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            reader.join().expect("the reader failed");
        });
        finish(&mut index, Limbo::new(), epochs);
    }
}

/// Keys of one shard that all have their homes in the same part of its table, so that pairs are
/// brought forward all the time: a key that stays is never missed, one that never was never found.
#[test]
fn readers_miss_nothing_while_crowded_lines_change() {
    const TURNS: usize = if cfg!(miri) { 100 } else { 60_000 };
    let (mut index, epochs) = (HashIndex::new(KeyClass::Fixed8, 1, None), Epochs::new(3));
    let crowded: Vec<[u8; 8]> = (0u64..)
        .map(u64::to_be_bytes)
        .filter(|key| {
            let hash = Short::hash(key).0;
            hash & index.mask == 0 && hash >> 62 == 3
        })
        .take(72)
        .collect();
    // A third stays, a third comes and goes, a third never comes.
    let (stay, others) = crowded.split_at(24);
    let (come, never) = others.split_at(24);
    let mut limbo = Limbo::new();
    for (stays, comes) in stay.iter().zip(come) {
        index.get_or_insert(comes, &mut limbo, &epochs, || {}, |_, memory| make(comes, memory));
        index.get_or_insert(stays, &mut limbo, &epochs, || {}, |_, memory| make(stays, memory));
    }
    // SAFETY: the index lives.
    assert!(unsafe { index.shards[0].table() }.check::<Short>() > 24, "crowded");
    limbo.abandon(&epochs);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut limbo, mut dice) = (Limbo::new(), Dice(4));
            for _ in 0..TURNS {
                epochs.pin(slot(0));
                let key = &come[dice.below(24) as usize];
                match index.get_or_insert(key, &mut limbo, &epochs, || {}, |_, memory| make(key, memory)) {
                    Inserted::New(..) => {}
                    Inserted::Existing(record) => {
                        assert!(index.remove(key, record, 0, 0, &mut limbo, &epochs));
                        retire(&index, record, &mut limbo, &epochs);
                    }
                }
                epochs.unpin(slot(0));
            }
            limbo.abandon(&epochs);
        });
        let read = |reader: usize| {
            let (index, epochs, done, crowded) = (&index, &epochs, &done, &crowded);
            scope.spawn(move || {
                let mut dice = Dice(reader as u64);
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    epochs.pin(slot(reader));
                    let at = dice.below(24) as usize;
                    assert_eq!(found(index.get(&stay[at])).map(key_of), Some(&stay[at][..]));
                    assert!(found(index.get(&never[at])).is_none());
                    if let Some(record) = found(index.get(&come[at])) {
                        assert_eq!(key_of(record), come[at]);
                    }
                    let mut many = vec![None; crowded.len()];
                    index.find_many(|at| &crowded[at], &mut many, |_| {});
                    for (at, found) in many.iter().enumerate() {
                        let key = found.map(key_of);
                        assert!(key.is_none_or(|key| key == crowded[at]));
                        assert!((24..48).contains(&at) || key.is_some() == (at < 24), "{at}");
                    }
                    epochs.unpin(slot(reader));
                }
            })
        };
        let readers = [1, 2].map(read);
        writer.join().expect("the writer failed");
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("a reader failed"));
    });
    // SAFETY: the index lives.
    unsafe { index.shards[0].table() }.check::<Short>();
    finish(&mut index, Limbo::new(), epochs);
}

/// The Dekker of a validator and an inserter: either the inserter's record starts at the
/// validator's time, or the validator sees that the shard has changed.
#[test]
fn an_insert_and_a_validation_never_miss_each_other() {
    const ROUNDS: u64 = if cfg!(miri) { 30 } else { 20_000 };
    let (mut index, epochs) = (HashIndex::new(KeyClass::Fixed8, 1, None), Epochs::new(2));
    let barrier = std::sync::Barrier::new(2);
    let noted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let validator = scope.spawn(|| {
            let mut outcomes = Vec::new();
            for round in 1..=ROUNDS {
                epochs.pin(slot(0));
                let Lookup::Absent(seen) = index.get(&7u64.to_be_bytes()) else { panic!("there") };
                barrier.wait();
                // SAFETY: pinned.
                let stamp = unsafe { seen.stamp.as_ref() };
                stamp.rts.fetch_max(round, Ordering::SeqCst);
                outcomes.push(stamp.version.load(Ordering::SeqCst) == seen.version);
                epochs.unpin(slot(0));
                barrier.wait();
                // The inserter cleans up.
                barrier.wait();
            }
            outcomes
        });
        let inserter = scope.spawn(|| {
            let (mut limbo, mut starts) = (Limbo::new(), Vec::new());
            for _ in 1..=ROUNDS {
                epochs.pin(slot(1));
                barrier.wait();
                let key = 7u64.to_be_bytes();
                let inserted = index.get_or_insert(
                    &key,
                    &mut limbo,
                    &epochs,
                    || {},
                    |stamp, _| {
                        noted.store(stamp.rts.load(Ordering::SeqCst), Ordering::Relaxed);
                        make_record(&key)
                    },
                );
                starts.push(noted.load(Ordering::Relaxed));
                barrier.wait();
                let Inserted::New(record, _) = inserted else { panic!("there") };
                assert!(index.remove(&key, record, 0, 0, &mut limbo, &epochs));
                retire(&index, record, &mut limbo, &epochs);
                epochs.unpin(slot(1));
                barrier.wait();
            }
            limbo.abandon(&epochs);
            starts
        });
        let (outcomes, starts) = (validator.join().expect("failed"), inserter.join().expect("failed"));
        for (round, (valid, start)) in outcomes.iter().zip(starts).enumerate() {
            assert!(!valid || start > round as u64, "round {round}: both missed the other");
        }
    });
    finish(&mut index, Limbo::new(), epochs);
}
