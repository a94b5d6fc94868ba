//! Tests of the ordered index.

use super::super::test_records::*;
use super::super::{NodeSeen, Ordering as Memory};
use super::*;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicBool;

fn found(lookup: Lookup) -> Option<RecordPtr> {
    match lookup {
        Lookup::Found(record) => Some(record),
        Lookup::Absent(_) => None,
    }
}

/// Frees what is left, of an index without memory of its own.
fn finish(mut index: OrderedIndex, limbo: &mut Limbo, epochs: &Epochs) {
    check(&index);
    index.for_each(free_record);
    limbo.abandon(epochs);
}

/// The same of any. It stays where it is until then: what is retired goes back to it.
fn finish_in_place(index: &mut OrderedIndex, mut limbo: Limbo, epochs: Epochs) {
    check(index);
    limbo.abandon(&epochs);
    drop(epochs);
    index.for_each_elsewhere(free_record);
}

fn scan(
    index: &OrderedIndex,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    reverse: bool,
) -> (Vec<NodeSeen>, Vec<RecordPtr>) {
    let (mut stamps, mut records) = (Vec::new(), Vec::new());
    index.scan(lower, upper, reverse, |seen, batch| {
        stamps.push(seen);
        records.extend_from_slice(batch);
        ControlFlow::Continue(())
    });
    (stamps, records)
}

/// Whether everything that was seen is still so.
fn holds(stamps: &[NodeSeen]) -> bool {
    // SAFETY: the tests that call this are pinned, or retire nothing.
    stamps.iter().all(|seen| unsafe { seen.stamp.as_ref() }.version.load(Memory::SeqCst) == seen.version)
}

/// The invariants of the tree, while nobody changes it. Returns how many records there are.
fn check(index: &OrderedIndex) -> usize {
    by_class!(index, tree => check_tree(tree))
}

fn check_tree<C: Compared>(tree: &Tree<C>) -> usize {
    let mut bytes = 0;
    let mut records = 0;
    let mut previous: Option<Vec<u8>> = None;
    // Node, level, fences from above.
    let root = tree.begin().expect("nobody changes it").0;
    let (mut empty, mut filled) = (0, 0);
    let mut waiting = vec![(root.address(), root.header().level, fence::Fence::NONE, fence::Fence::NONE)];
    while let Some((address, level, lower, upper)) = waiting.pop() {
        // SAFETY: nobody changes the tree.
        let node = unsafe { Node::at(address) }.expect("a child");
        let header = node.header();
        bytes += node.memory_bytes();
        assert_eq!(header.level, level, "depth");
        assert_eq!(header.stamp.version.load(Memory::SeqCst) & 1, 0, "latched");
        assert_eq!((header.lower(), header.upper()), (lower, upper), "fences");
        // Full bytes to compare with; a short fence is a head.
        // SAFETY: as above.
        let is_below = |fence: fence::Fence, key: &[u8]| unsafe { fence.compare::<C>(key) }.is_le();
        if level > 0 {
            let (mut fences, mut children) = (Vec::new(), Vec::new());
            node.inner().append_to(&mut fences, &mut children);
            assert_eq!(fences.len() + 1, children.len());
            for (at, fence) in fences.iter().enumerate() {
                assert!(!fence.is_none());
                bytes += fence.memory_bytes::<C>();
                // SAFETY: as above.
                let probe = unsafe { fence::Probe::fence::<C>(*fence) };
                let version = header.stamp.version.load(Memory::SeqCst);
                assert_eq!(node.inner().rank::<C>(probe, version, true), Some(at + 1), "separators in order");
                assert_eq!(node.inner().rank::<C>(probe, version, false), Some(at));
            }
            let all = [&[lower][..], &fences, &[upper]].concat();
            for (at, child) in children.iter().enumerate().rev() {
                waiting.push((*child, level - 1, all[at], all[at + 1]));
            }
        } else {
            let mut here = Vec::new();
            node.leaf().append_to(&mut here);
            assert_eq!(here.len(), header.count());
            // But for what lies between groups.
            let may_be_empty = C::SHORT && !lower.is_none() || lower.is_none() && upper.is_none();
            assert!(!here.is_empty() || may_be_empty, "an empty leaf");
            if here.is_empty() {
                empty += 1
            } else {
                filled += 1
            }
            for record in here {
                let key = key_of(record).to_vec();
                assert!(previous.as_ref().is_none_or(|previous| *previous < key), "keys in order");
                assert!(lower.is_none() || is_below(lower, &key), "below its leaf");
                assert!(upper.is_none() || !is_below(upper, &key), "above its leaf");
                assert_eq!(found(tree.get(&key, &mut Finger::default())), Some(record));
                previous = Some(key);
                records += 1;
            }
        }
    }
    assert!(empty <= filled + 1, "{empty} leaves are empty, and {filled} are not");
    assert_eq!(tree.bytes.load(Memory::SeqCst), bytes, "memory accounted for");
    records
}

#[test]
fn agrees_with_a_map() {
    let hints = |length| [(1500, None), (0, shape(length)), (1, shape(length)), (1500, shape(length))];
    let cases = key_kinds().into_iter().flat_map(|(name, class, draw)| {
        hints(draw(&mut Dice(0)).len()).map(|(hint, shape)| (name, class, draw, hint, shape))
    });
    for (name, class, draw, hint, shape) in cases {
        let (mut index, epochs, mut limbo) =
            (OrderedIndex::new(class, hint, shape), Epochs::new(1), Limbo::new());
        assert_eq!(index.direct.is_some(), shape.is_some() && class == KeyClass::Fixed8);
        epochs.pin(slot(0));
        let mut finger = Finger::default();
        let mut model: BTreeMap<Vec<u8>, RecordPtr> = BTreeMap::new();
        let mut dice = Dice(11);
        for turn in 0..30_000u64 {
            let key = draw(&mut dice);
            // Growing and shrinking in turn.
            let removals = if turn / 5000 % 2 == 0 { 2 } else { 9 };
            if dice.below(10) < removals {
                // Something near the key, so that most removals find something.
                let near = model.range(key..).next().map(|(key, record)| (key.clone(), *record));
                if let Some((key, record)) = near {
                    model.remove(&key);
                    assert!(index.remove(&key, record, turn, 0, &mut limbo, &epochs), "{name}");
                    assert!(!index.remove(&key, record, 0, 0, &mut limbo, &epochs), "{name}");
                    retire(&index, record, &mut limbo, &epochs);
                }
            } else {
                match index.get_or_insert(&key, &mut finger, || {}, |_, memory| make(&key, memory)) {
                    Inserted::Existing(record) => assert_eq!(model.get(&key), Some(&record), "{name}"),
                    Inserted::New(record, change) => {
                        assert!(model.insert(key.clone(), record).is_none(), "{name}");
                        assert_eq!(change.after, change.before + 2);
                    }
                }
            }
            let probe = draw(&mut dice);
            assert_eq!(found(index.get(&probe, &mut finger)), model.get(&probe).copied(), "{name} {probe:?}");
            if turn % 50 == 0 {
                let (mut low, mut high) = (draw(&mut dice), draw(&mut dice));
                if low > high {
                    std::mem::swap(&mut low, &mut high);
                }
                let low_bound = some_bound(&low, &mut dice);
                let high_bound = some_bound(&high, &mut dice);
                let mut expected: Vec<_> = if is_both_excluded(low_bound, high_bound) {
                    Vec::new()
                } else {
                    model.range::<[u8], _>((low_bound, high_bound)).map(|(_, record)| *record).collect()
                };
                let (_, records) = scan(&index, low_bound, high_bound, false);
                assert_eq!(records, expected, "{name} {low_bound:?} {high_bound:?}");
                let (_, records) = scan(&index, low_bound, high_bound, true);
                expected.reverse();
                assert_eq!(records, expected, "{name}, down, {low_bound:?} {high_bound:?}");
            }
            if turn % 1000 == 999 {
                assert_eq!(check(&index), model.len(), "{name}");
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
        let mut all = Vec::new();
        index.for_each(|record| all.push(record));
        assert_eq!(all, model.values().copied().collect::<Vec<_>>(), "{name}");
        // Down to nothing: one leaf is left.
        for (key, record) in model {
            assert!(index.remove(&key, record, 0, 0, &mut limbo, &epochs), "{name}");
            retire(&index, record, &mut limbo, &epochs);
        }
        let tree_bytes =
            |index: &OrderedIndex| index.memory_bytes() - index.direct.as_ref().map_or(0, DirectTable::bytes);
        assert_eq!(tree_bytes(&index), tree_bytes(&OrderedIndex::new(class, hint, shape)), "{name}");
        finish_in_place(&mut index, limbo, epochs);
    }
}

/// One of the three bounds that a key can make.
fn some_bound<'a>(key: &'a [u8], dice: &mut Dice) -> Bound<&'a [u8]> {
    match dice.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

/// What the standard map refuses to be asked.
fn is_both_excluded(low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    matches!((low, high), (Bound::Excluded(low), Bound::Excluded(high)) if low == high)
}

#[test]
fn large_trees_grow_and_shrink_from_either_end() {
    type Order = (&'static str, fn(u64) -> u64);
    let orders: [Order; 3] = [
        ("up", |n| n),
        ("down", |n| 1_000_000 - n),
        ("scattered", |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    ];
    for (name, key) in orders {
        for (class, tail) in
            [(KeyClass::Fixed8, &b""[..]), (KeyClass::Fixed16, b"suffix"), (KeyClass::Bytes, b"")]
        {
            let (index, epochs, mut limbo) =
                (OrderedIndex::new(class, 0, None), Epochs::new(1), Limbo::new());
            let key = |n: u64| [&key(n).to_be_bytes()[..], tail].concat();
            for n in 0..40_000u64 {
                index.get_or_insert(&key(n), &mut Finger::default(), || {}, |_, _| make_record(&key(n)));
            }
            assert_eq!(check(&index), 40_000);
            if name == "up" {
                // Leaves are full: little more than a head and a record for each.
                let limit = if class == KeyClass::Fixed8 { 21 } else { 27 };
                assert!(index.memory_bytes() / 40_000 < limit, "{class:?} {}", index.memory_bytes() / 40_000);
            }
            for n in 0..40_000u64 {
                let record = found(index.get(&key(n), &mut Finger::default())).expect("inserted");
                assert!(index.remove(&key(n), record, 0, 0, &mut limbo, &epochs));
                retire_record(record, &mut limbo, &epochs);
                if n % 4000 == 0 {
                    assert_eq!(check(&index), 39_999 - n as usize, "{name}");
                }
            }
            assert_eq!(index.memory_bytes(), OrderedIndex::new(class, 0, None).memory_bytes(), "{name}");
            finish(index, &mut limbo, &epochs);
        }
    }
}

#[test]
fn long_keys_that_differ_in_their_last_bytes_are_kept_in_order() {
    let (index, epochs, mut limbo) =
        (OrderedIndex::new(KeyClass::Bytes, 0, None), Epochs::new(1), Limbo::new());
    let mut keys: Vec<Vec<u8>> =
        (0..200u16).map(|last| [&[9; 65_534][..], &last.to_be_bytes()].concat()).collect();
    keys.extend((0..200).map(|len| vec![9; len * 300]));
    for key in keys.iter().rev() {
        index.get_or_insert(key, &mut Finger::default(), || {}, |_, _| make_record(key));
    }
    keys.sort();
    let (_, records) = scan(&index, Bound::Unbounded, Bound::Unbounded, false);
    assert!(records.iter().map(|record| key_of(*record)).eq(keys.iter().map(|key| &key[..])));
    finish(index, &mut limbo, &epochs);
}

#[test]
fn a_queue_needs_no_more_than_its_content() {
    for class in [KeyClass::Fixed8, KeyClass::Bytes] {
        let (index, epochs, mut limbo) = (OrderedIndex::new(class, 0, None), Epochs::new(1), Limbo::new());
        let key = |n: u64| n.to_be_bytes();
        let mut most = 0;
        for n in 0..1_000_000u64 {
            index.get_or_insert(&key(n), &mut Finger::default(), || {}, |_, _| make_record(&key(n)));
            if let Some(old) = n.checked_sub(1000) {
                let record = found(index.get(&key(old), &mut Finger::default())).expect("inserted");
                assert!(index.remove(&key(old), record, n, n, &mut limbo, &epochs));
                retire_record(record, &mut limbo, &epochs);
                most = most.max(index.memory_bytes());
            }
        }
        // Some 50 to 60 leaves of 384 bytes, and 2 or 3 inner nodes of 1088 or 1592.
        assert!(most < 50_000, "{class:?} {most}");
        assert!(limbo.len() < 1000);
        finish(index, &mut limbo, &epochs);
    }
}

#[test]
fn a_panic_while_making_leaves_the_tree_as_it_was() {
    let (index, epochs, mut limbo) =
        (OrderedIndex::new(KeyClass::Fixed8, 0, None), Epochs::new(1), Limbo::new());
    // With room, and without.
    for n in 0..=node::LEAF_KEYS as u64 {
        let key = n.to_be_bytes();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            index.get_or_insert(
                &key,
                &mut Finger::default(),
                || {},
                |_, _| std::panic::resume_unwind(Box::new(())),
            )
        }));
        assert!(outcome.is_err());
        assert_eq!(check(&index), n as usize);
        index.get_or_insert(&key, &mut Finger::default(), || {}, |_, _| make_record(&key));
    }
    finish(index, &mut limbo, &epochs);
}

#[test]
fn a_change_of_keys_in_a_range_is_seen_at_its_stamps_and_no_other() {
    for (name, class, draw) in key_kinds() {
        let (index, epochs, mut limbo) = (OrderedIndex::new(class, 0, None), Epochs::new(1), Limbo::new());
        epochs.pin(slot(0));
        let mut dice = Dice(5);
        let mut seen_changes = 0;
        for turn in 0..4000u64 {
            let (mut low, mut high) = (draw(&mut dice), draw(&mut dice));
            if low > high {
                std::mem::swap(&mut low, &mut high);
            }
            let reverse = dice.below(2) == 0;
            let (mut stamps, records) = scan(&index, Bound::Included(&low), Bound::Included(&high), reverse);
            assert!(!stamps.is_empty(), "{name}");
            assert!(holds(&stamps), "{name}: nothing has changed");
            // A lookup changes nothing.
            let absent = draw(&mut dice);
            let looked_up = index.get(&absent, &mut Finger::default());
            assert!(holds(&stamps), "{name}");
            // An insertion, here or elsewhere.
            let key = draw(&mut dice);
            let within = low <= key && key <= high;
            if let Inserted::New(record, change) =
                index.get_or_insert(&key, &mut Finger::default(), || {}, |_, _| make_record(&key))
            {
                assert!(!within || !holds(&stamps), "{name}: a phantom");
                if absent == key {
                    let Lookup::Absent(seen) = looked_up else { panic!("{name}: was not there") };
                    assert!(!holds(&[seen]), "{name}");
                }
                // Whoever made the change himself goes on.
                let mut touched = false;
                for seen in &mut stamps {
                    if seen.stamp == change.stamp {
                        assert_eq!(seen.version, change.before);
                        seen.version = change.after;
                        touched = true;
                    }
                }
                assert!(touched || !within, "{name}");
                if touched {
                    stamps.extend(change.split_off);
                    seen_changes += 1;
                }
                assert!(holds(&stamps), "{name}: only the change that is known of");
                // The range is what it was, and the new record.
                let (again, records_again) =
                    scan(&index, Bound::Included(&low), Bound::Included(&high), reverse);
                assert_eq!(records_again.len(), records.len() + usize::from(within), "{name}");
                assert!(again.iter().all(|new| stamps.iter().any(|old| old.stamp == new.stamp)), "{name}");
                assert_eq!(records_again.contains(&record), within);
            } else {
                assert!(holds(&stamps), "{name}: nothing was inserted");
            }
            // A removal, now and then.
            if turn % 3 == 0
                && let Some(record) = records.first()
            {
                let (stamps, _) = scan(&index, Bound::Included(&low), Bound::Included(&high), reverse);
                let key = key_of(*record);
                assert!(index.remove(key, *record, turn, turn, &mut limbo, &epochs));
                assert!(!holds(&stamps), "{name}: an unseen removal");
                let (after, _) = scan(&index, Bound::Included(key), Bound::Included(key), reverse);
                assert!(after.iter().all(|seen| seen.wts >= turn && seen.rts >= turn), "{name}");
                retire_record(*record, &mut limbo, &epochs);
            }
        }
        assert!(seen_changes > 0 || class == KeyClass::Fixed8, "{name}");
        finish(index, &mut limbo, &epochs);
    }
}

/// Times never get lost: whatever is split or joined, each place in the key space keeps at least the
/// times of the removals and validations that it has seen.
#[test]
fn times_are_inherited_by_splits_and_joins() {
    const SPACE: u64 = 4000;
    let (index, epochs, mut limbo) =
        (OrderedIndex::new(KeyClass::Fixed8, 0, None), Epochs::new(1), Limbo::new());
    let mut floors = vec![(0u64, 0u64); SPACE as usize];
    let mut dice = Dice(3);
    for turn in 1..60_000u64 {
        let n = dice.below(SPACE);
        let key = n.to_be_bytes();
        let grow = turn / 8000 % 2 == 0;
        match index.get(&key, &mut Finger::default()) {
            Lookup::Found(record) if !grow => {
                assert!(index.remove(&key, record, turn, 0, &mut limbo, &epochs));
                retire_record(record, &mut limbo, &epochs);
                floors[n as usize].0 = turn;
            }
            Lookup::Absent(seen) => {
                let (wts, rts) = floors[n as usize];
                assert!(seen.wts >= wts && seen.rts >= rts, "{n}: {seen:?}, expected {wts} {rts}");
                if grow {
                    index.get_or_insert(
                        &key,
                        &mut Finger::default(),
                        || {},
                        |stamp, _| {
                            assert!(stamp.rts.load(Memory::SeqCst) >= rts);
                            make_record(&key)
                        },
                    );
                } else {
                    // SAFETY: nothing is freed before the next turn.
                    unsafe { seen.stamp.as_ref() }.rts.fetch_max(turn, Memory::SeqCst);
                    floors[n as usize].1 = turn;
                }
            }
            Lookup::Found(_) => {}
        }
    }
    finish(index, &mut limbo, &epochs);
}

#[test]
fn threads_that_insert_remove_and_scan_agree() {
    const WRITERS: u64 = 3;
    const TURNS: u64 = if cfg!(miri) { 200 } else { 40_000 };
    for (class, hint, key) in [
        (KeyClass::Fixed8, 0, (|n: u64| n.to_be_bytes().to_vec()) as fn(u64) -> Vec<u8>),
        // Each key has its place, or half of them have another's.
        (KeyClass::Fixed8, 6000, |n| n.to_be_bytes().to_vec()),
        (KeyClass::Fixed8, 3000, |n| n.to_be_bytes().to_vec()),
        (KeyClass::Fixed16, 0, |n| u128::from(n).to_be_bytes().to_vec()),
        (KeyClass::Bytes, 0, |n| format!("a rather long prefix:{n:06}").into_bytes()),
    ] {
        let (mut index, epochs) =
            (OrderedIndex::new(class, hint, shape(key(0).len())), Epochs::new(WRITERS as usize + 2));
        let done = AtomicBool::new(false);
        let mut limbo = Limbo::new();
        // Each tenth key stays; others are the writers', by remainder, and one in ten is raced for.
        for n in (0..6000).step_by(10) {
            index.get_or_insert(&key(n), &mut Finger::default(), || {}, |_, memory| make(&key(n), memory));
        }
        limbo.abandon(&epochs);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (index, epochs) = (&index, &epochs);
                    scope.spawn(move || {
                        let mut limbo = Limbo::new();
                        let mut dice = Dice(writer);
                        let mut mine = HashSet::new();
                        let mut finger = Finger::default();
                        let slot = slot(writer as usize);
                        for turn in 0..TURNS {
                            epochs.pin(slot);
                            finger.lift();
                            // In phases: all insert, all remove, so that leaves come and go.
                            let grow = turn / 4000 % 2 == 0;
                            let n = dice.below(600) * 10 + 1 + writer;
                            let bytes = key(n);
                            let there = found(index.get(&bytes, &mut finger));
                            assert_eq!(there.is_some(), mine.contains(&n));
                            match there {
                                Some(record) if !grow => {
                                    assert_eq!(key_of(record), bytes);
                                    assert!(index.remove(&bytes, record, turn, turn, &mut limbo, epochs));
                                    retire(index, record, &mut limbo, epochs);
                                    mine.remove(&n);
                                }
                                None if grow => {
                                    let new = index.get_or_insert(
                                        &bytes,
                                        &mut finger,
                                        || {},
                                        |_, memory| make(&bytes, memory),
                                    );
                                    assert!(matches!(new, Inserted::New(..)));
                                    mine.insert(n);
                                }
                                _ => {}
                            }
                            // Whoever unlinks it, retires it.
                            let bytes = key(dice.below(600) * 10 + 9);
                            if grow {
                                index.get_or_insert(
                                    &bytes,
                                    &mut finger,
                                    || {},
                                    |_, memory| make(&bytes, memory),
                                );
                            } else if let Some(record) = found(index.get(&bytes, &mut finger)) {
                                assert_eq!(key_of(record), bytes);
                                if index.remove(&bytes, record, 0, 0, &mut limbo, epochs) {
                                    retire(index, record, &mut limbo, epochs);
                                }
                            }
                            if turn % 500 == 0 {
                                let (_, records) = scan(index, Bound::Unbounded, Bound::Unbounded, false);
                                let all: HashSet<_> = records.iter().map(|it| key_of(*it)).collect();
                                assert!(mine.iter().all(|n| all.contains(&key(*n)[..])), "lost");
                            }
                            epochs.unpin(slot);
                        }
                        limbo.abandon(epochs);
                    })
                })
                .collect();
            let begin = |scanner| {
                let (index, epochs, done) = (&index, &epochs, &done);
                scope.spawn(move || {
                    let mut dice = Dice(99 + scanner);
                    let slot = slot((WRITERS + scanner) as usize);
                    let mut held = 0;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        epochs.pin(slot);
                        let low = dice.below(6000);
                        let high = low + dice.below(600);
                        let (first, last) = (key(low), key(high));
                        let bounds = (Bound::Included(&first[..]), Bound::Included(&last[..]));
                        let (stamps, mut records) = scan(index, bounds.0, bounds.1, scanner == 1);
                        if scanner == 1 {
                            records.reverse();
                        }
                        let keys: Vec<_> = records.iter().map(|record| key_of(*record)).collect();
                        assert!(keys.is_sorted_by(|a, b| a < b), "sorted, each once");
                        assert!(keys.iter().all(|key| *key >= &first[..] && *key <= &last[..]));
                        for stays in (low.next_multiple_of(10)..=high.min(5999)).step_by(10) {
                            assert!(keys.binary_search(&&key(stays)[..]).is_ok(), "{stays} is missing");
                        }
                        // No phantom: what holds is a snapshot.
                        let (_, mut again) = scan(index, bounds.0, bounds.1, scanner == 1);
                        if scanner == 1 {
                            again.reverse();
                        }
                        if holds(&stamps) {
                            held += 1;
                            assert_eq!(records, again, "a phantom");
                        }
                        let keys: Vec<_> = (0..40).map(|_| key(dice.below(600) * 10)).collect();
                        let mut many = [None; 40];
                        index.find_many(|at| &keys[at], &mut many, |_| {});
                        for (key, found) in keys.iter().zip(many) {
                            assert_eq!(found.map(key_of), Some(&key[..]));
                        }
                        epochs.unpin(slot);
                    }
                    held
                })
            };
            let scanners = [0, 1].map(begin);
            for writer in writers {
                writer.join().expect("a writer failed");
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            for scanner in scanners {
                scanner.join().expect("a scanner failed");
            }
        });
        finish_in_place(&mut index, Limbo::new(), epochs);
    }
}

#[test]
fn heads_are_counted_as_they_compare() {
    fn check<const N: usize>() {
        for count in 0..=N {
            // Even numbers, then places without a head; the last even number may be the greatest head.
            for top in [0, u64::MAX - 2 * N as u64] {
                let heads: [u64; N] =
                    std::array::from_fn(|at| if at < count { top + 2 * at as u64 + 1 } else { u64::MAX });
                let words = heads.map(noonmark_core::sync::AtomicU64::new);
                for probe in (0..=2 * N as u64 + 1).map(|step| top.saturating_add(step)) {
                    let below = heads.iter().filter(|head| **head < probe).count();
                    let up_to = heads.iter().filter(|head| **head <= probe).count();
                    assert_eq!(node::count_below(&words, probe, false), below, "{N} {count} {probe}");
                    assert_eq!(node::count_below(&words, probe, true), up_to, "{N} {count} {probe}");
                }
            }
        }
    }
    check::<{ node::LEAF_KEYS }>();
    check::<{ node::INNER_KEYS }>();
    // Of other sizes, the search is right as well.
    check::<1>();
    check::<5>();
    check::<6>();
    check::<7>();
    check::<16>();
    check::<31>();
    check::<40>();
}

/// Queues side by side, in one index: each grows at its end, and is taken from at its beginning. Whoever looks for the
/// oldest of one is not told of what is put into another.
#[test]
fn groups_grow_without_being_seen_from_the_next() {
    const GROUPS: u64 = 20;
    for waiting in [3, 40, 200] {
        let (index, epochs, mut limbo) =
            (OrderedIndex::new(KeyClass::Fixed8, 0, None), Epochs::new(1), Limbo::new());
        let key = |group: u64, n: u64| (group << 40 | n).to_be_bytes();
        for group in 0..GROUPS {
            for n in 0..waiting {
                index.get_or_insert(
                    &key(group, n),
                    &mut Finger::default(),
                    || {},
                    |_, _| make_record(&key(group, n)),
                );
            }
        }
        let oldest = |group: u64| {
            let mut seen = Vec::new();
            let (lower, upper) = (key(group, 0), key(group, u64::from(u32::MAX)));
            index.scan(Bound::Included(&lower), Bound::Included(&upper), false, |node, records| {
                seen.push(node);
                if records.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            seen
        };
        let mut disturbed = 0;
        for turn in 0..200 {
            for group in 0..GROUPS - 1 {
                let seen = oldest(group + 1);
                let newest = key(group, waiting + turn);
                index.get_or_insert(&newest, &mut Finger::default(), || {}, |_, _| make_record(&newest));
                let is_still = |node: &super::super::NodeSeen| {
                    // SAFETY: nothing that is retired is freed before the limbo is abandoned.
                    unsafe { node.stamp.as_ref() }.is_still(node.version)
                };
                disturbed += usize::from(!seen.iter().all(is_still));
                let first = key(group, turn);
                let record = found(index.get(&first, &mut Finger::default())).expect("waiting");
                assert!(index.remove(&first, record, 0, 0, &mut limbo, &epochs));
                retire_record(record, &mut limbo, &epochs);
            }
        }
        assert_eq!(check(&index) as u64, GROUPS * waiting);
        // Once for each group, when what lies behind its end becomes a leaf. Short queues share leaves.
        let bound = if waiting < 20 { usize::MAX } else { 2 * GROUPS as usize };
        assert!(disturbed <= bound, "{waiting} waiting: disturbed {disturbed} times in 3800");
        finish(index, &mut limbo, &epochs);
    }
}
