//! Tests of the direct-address table.

use super::super::head;
use super::super::{ABREAST, test_records::*};
use super::*;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Each word that a place may have says what it should, whatever the number of places and the keys.
#[test]
fn places_hold_the_records_of_their_own_keys_only() {
    for rows in [0, 1, 4, 8, 9, 64, 1000] {
        for key_bytes in 0..=8 {
            let table = DirectTable::new(rows, shape(key_bytes).expect("a shape")).expect("little memory");
            let mut dice = Dice(rows as u64);
            let (mut linked, mut times) = (HashMap::new(), 0);
            for _ in 0..2000 {
                let number = if dice.below(2) == 0 { dice.below(8) } else { dice.next() };
                let key = &number.to_be_bytes()[8 - key_bytes..];
                let tag = head(key, 0);
                match linked.get(&tag) {
                    Some(record) => {
                        assert_eq!(table.get(tag), Some(*record));
                        assert!(table.take(tag).is_none());
                        if dice.below(2) == 0 {
                            assert!(table.unlink(tag, *record) && !table.unlink(tag, *record));
                            // Until it is given back, nobody takes the place.
                            assert!(table.get(tag).is_none() && table.take(tag).is_none());
                            // SAFETY: nobody else knows it.
                            assert!(unsafe { table.give_back(*record) });
                            linked.remove(&tag);
                        }
                    }
                    None => {
                        assert!(table.get(tag).is_none());
                        if let Some(memory) = table.take(tag) {
                            // SAFETY: of this shape, and nobody else's.
                            let record = unsafe {
                                assert_eq!(memory.cast::<[u64; 2]>().read(), [0, 0], "zeroed");
                                make_record_at(memory, key)
                            };
                            assert!(table.get(tag).is_none(), "not linked yet");
                            table.link(tag);
                            linked.insert(tag, record);
                            times += 1;
                        }
                    }
                }
                let records: HashSet<_> = table.records().collect();
                assert_eq!(records, linked.values().copied().collect::<HashSet<_>>());
                // Those that are there, and one that may not be: all together as one by one.
                let mut tags: Vec<u64> = linked.keys().copied().take(ABREAST - 1).collect();
                tags.extend((dice.below(2) == 0).then_some(tag));
                let (mut found, asked) = (vec![None; tags.len()], RefCell::new(HashSet::new()));
                let all = table.find_many(tags.iter().copied(), &mut found, |record| {
                    asked.borrow_mut().insert(record);
                });
                assert_eq!(found, tags.iter().map(|tag| table.get(*tag)).collect::<Vec<_>>());
                assert_eq!(all, found.iter().all(Option::is_some));
                assert!(found.iter().flatten().all(|record| asked.borrow().contains(record)));
            }
            assert!(times > 2, "{rows} rows, {key_bytes} bytes: {times}");
        }
    }
}

/// Dense keys each have a place of their own, pairs too; scattered ones as chance has it.
#[test]
fn keys_that_count_up_fill_the_places() {
    const ROWS: u64 = 1 << 12;
    let share = |key_bytes: usize, keys: u64, number: fn(u64) -> u64| {
        let table =
            DirectTable::new(ROWS as usize, shape(key_bytes).expect("a shape")).expect("little memory");
        let placed = |n: &u64| table.take(head(&number(*n).to_be_bytes()[8 - key_bytes..], 0)).is_some();
        (0..keys).filter(placed).count() as f64 / keys as f64
    };
    for key_bytes in 2..=8 {
        assert_eq!(share(key_bytes, ROWS, |n| n), 1.0, "{key_bytes} bytes");
    }
    assert_eq!(share(8, ROWS, |n| n + 123_456_789_012), 1.0);
    // Pairs of four bytes each, and three, of which the last ones count up.
    assert_eq!(share(8, ROWS, |n| 77 << 32 | n), 1.0);
    assert!(share(8, ROWS, |n| (n >> 10) << 32 | n & 1023) > 0.75);
    assert!(share(7, ROWS, |n| 1 << 40 | (n / 410) << 32 | (n % 410)) > 0.7);
    let scattered: fn(u64) -> u64 = |n| Dice(n).next();
    assert!((share(8, ROWS, scattered) - 0.632).abs() < 0.02);
    assert!((share(8, ROWS / 2, scattered) - 0.787).abs() < 0.02);
}

/// A table that nobody expects rows of.
fn growing(key_bytes: usize) -> DirectTable {
    DirectTable::new(0, shape(key_bytes).expect("a shape")).expect("no memory yet")
}

/// Puts rows with these keys in; whether each has come to a place of its own.
fn put_in(table: &DirectTable, numbers: impl IntoIterator<Item = u64>, key_bytes: usize) -> Vec<bool> {
    let tags = numbers.into_iter().map(|number| head(&number.to_be_bytes()[8 - key_bytes..], 0));
    let placed = tags.map(|tag| {
        let taken = table.take(tag);
        table.came(tag);
        if taken.is_some() {
            table.link(tag);
        }
        taken.is_some()
    });
    placed.collect()
}

fn share(placed: &[bool]) -> f64 {
    placed.iter().filter(|placed| **placed).count() as f64 / placed.len() as f64
}

fn places_made(table: &DirectTable) -> usize {
    table.bytes() / BESIDE_BYTES
}

/// Numbers in an order of chance.
fn shuffled(numbers: std::ops::Range<u64>) -> Vec<u64> {
    let (mut numbers, mut dice) = (numbers.collect::<Vec<_>>(), Dice(5));
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, dice.below(at as u64 + 1) as usize);
    }
    numbers
}

#[test]
fn places_grow_with_keys_that_count_up() {
    const ROWS: u64 = 100_000;
    let signed: u64 = 1 << 63;
    for first in [0, 1, signed, signed + 1] {
        let table = growing(8);
        let placed = put_in(&table, first..first + ROWS, 8);
        assert_eq!(share(&placed), 1.0, "from {first}");
        assert_eq!(places_made(&table), 1 << 17);
    }
    for (key_bytes, first) in [(1, 0), (1, 128), (2, 0), (2, 1 << 15), (3, 1), (4, 0), (4, 1 << 31)] {
        let rows = ROWS.min(1 << (8 * key_bytes - 1));
        let placed = put_in(&growing(key_bytes), first..first + rows - 1, key_bytes);
        assert_eq!(share(&placed), 1.0, "{key_bytes} bytes from {first}");
    }
    // With one number in ten left out, too.
    let placed = put_in(&growing(8), (0..ROWS).filter(|number| number % 10 != 7), 8);
    assert_eq!(share(&placed), 1.0);
}

#[test]
fn keys_in_any_order_mostly_come_in_time() {
    const ROWS: u64 = 1 << 17;
    let share = share(&put_in(&growing(8), shuffled(0..ROWS), 8));
    assert!((share - 0.75).abs() < 0.01, "{share}");
    // Two who load a half each, in turn.
    let halves = (0..ROWS / 2).flat_map(|number| [number, number + ROWS / 2]);
    let of_halves = self::share(&put_in(&growing(8), halves, 8));
    assert!((of_halves - 0.8125).abs() < 0.01, "{of_halves}");
}

/// However keys come, and whoever goes: there are never more than 8/3 as many places as there have been rows at once.
#[test]
fn places_are_bounded_by_rows() {
    const ROWS: u64 = 50_000;
    let bound = |rows: u64| (rows as usize).div_ceil(3) * 8 + 64;
    let orders: [(&str, Vec<u64>); 5] = [
        ("every second", (0..ROWS).map(|number| 2 * number).collect()),
        ("every thousandth", (0..ROWS).map(|number| 1000 * number).collect()),
        ("from above", (0..ROWS).rev().collect()),
        ("scattered", (0..ROWS).map(|number| Dice(number).next()).collect()),
        ("far from zero", (1 << 24..(1 << 24) + ROWS).collect()),
    ];
    for (name, numbers) in orders {
        let table = growing(8);
        put_in(&table, numbers, 8);
        let places = places_made(&table);
        assert!(places <= bound(ROWS), "{name}: {places}");
        let is_near = ["every second", "from above"].contains(&name);
        assert!(is_near || places <= 2 * FIRST, "{name}: {places}");
    }
    // A queue: what comes in front goes behind, so that so many are there at any time.
    let table = growing(8);
    for number in 0..20 * ROWS {
        let key = |number: u64| head(&number.to_be_bytes(), 0);
        put_in(&table, [number], 8);
        if let Some(oldest) = number.checked_sub(ROWS) {
            let record = table.get(key(oldest));
            table.went(key(oldest));
            if let Some(record) = record {
                assert!(table.unlink(key(oldest), record));
                // SAFETY: nobody else knows it.
                assert!(unsafe { table.give_back(record) });
            }
        }
    }
    assert!(places_made(&table) <= bound(ROWS), "{}", places_made(&table));
}

/// A mark says the same as the word, of keys of which what tells them from others of their place is little; of others it says nothing, and the word does. Keys that
/// share a place are told apart either way.
#[test]
fn a_mark_tells_what_the_word_does() {
    for log in [4, 6, 13, 20, 22] {
        marks_tell_what_words_do(1 << log);
    }
}

fn marks_tell_what_words_do(places: u64) {
    let tag = |number: u64| head(&number.to_be_bytes(), 0);
    let table =
        DirectTable::new(places as usize, shape(8).expect("a shape")).expect("its pages are not touched");
    // The number of this high half whose low half is the so many-th of those of place 5.
    let of_place_5 = |high: u64, apart: u64| {
        let of_zero = table.find(high << 32).expect("it has one").at as u64;
        high << 32 | (apart * places + (5 + places - of_zero) % places)
    };
    let highs = [0, 1, 2, 7, 8, 14, 15, 16, 17, 255, 256, 257, 1 << 20, u64::from(u32::MAX)];
    let aparts = [0, 1, 2, 7, 8, 14, 15, 16, 17, 254, 255, 256, 1 << 20, (1 << 22) - 1, 1 << 22, 1 << 25];
    let numbers: Vec<(u64, bool)> = highs
        .iter()
        .flat_map(|high| aparts.map(|apart| (*high, apart)))
        .filter(|(_, apart)| *apart < (1 << 32) / places)
        .map(|(high, apart)| (of_place_5(high, apart), high < 16 && apart < 16 && (high, apart) != (15, 15)))
        .collect();
    for (number, has_mark) in &numbers {
        assert_eq!(table.mark(*number) != 0, *has_mark, "{number:x}");
        let memory = table.take(tag(*number)).expect("it is free");
        // SAFETY: of this shape, and nobody else's.
        let record = unsafe { make_record_at(memory, &number.to_be_bytes()) };
        table.link(tag(*number));
        let place = table.find(*number).expect("it has one");
        assert_eq!((place.at, place.word().load(Ordering::Relaxed)), (5, *number));
        assert_eq!(place.mark.load(Ordering::Relaxed), table.mark(*number));
        for (other, _) in &numbers {
            assert_eq!(
                table.get(tag(*other)),
                (other == number).then_some(record),
                "{other:x} for {number:x}"
            );
        }
        assert!(table.unlink(tag(*number), record) && table.get(tag(*number)).is_none());
        // SAFETY: nobody else knows it.
        assert!(unsafe { table.give_back(record) });
    }
}

/// In a table that grows, too, no two keys of a place have the same mark: numbers with a sign and without.
#[test]
fn marks_of_a_growing_table_tell_signs_apart() {
    for key_bytes in 1..=8 {
        let table = growing(key_bytes);
        let sign = 1_u64 << (8 * key_bytes - 1);
        for bit in 0..(8 * key_bytes as u32 - 1).min(32) {
            for number in [1 << bit, (1 << bit) + ((1 << bit) >> 1), (2 << bit) - 1] {
                let marks = [number, number | sign].map(|number| table.mark(number));
                assert!(marks[0] != marks[1] || marks == [0, 0], "{key_bytes} bytes, {number:x}");
            }
        }
    }
}

/// Two who come for the first place of a segment at once make one segment.
#[test]
fn a_segment_is_made_once() {
    const ROUNDS: u64 = 200;
    for _ in 0..ROUNDS {
        let table = growing(8);
        let barrier = std::sync::Barrier::new(2);
        let of_one = |odd: u64| {
            barrier.wait();
            put_in(&table, (0..64).map(|number| 2 * number + odd), 8)
        };
        let placed = std::thread::scope(|scope| {
            let one = scope.spawn(|| of_one(0));
            let placed_of_two = of_one(1);
            [one.join().expect("no panic"), placed_of_two].concat()
        });
        let linked = table.records().collect::<HashSet<_>>().len();
        assert_eq!(linked, placed.iter().filter(|placed| **placed).count());
        for at in 0..128_u64 {
            let is_placed = placed[(at % 2 * 64 + at / 2) as usize];
            assert_eq!(table.get(head(&at.to_be_bytes(), 0)).is_some(), is_placed, "{at}");
        }
    }
}

/// Records follow each other without a gap but for one in 16, and each line of them is in all sets of a cache alike, if that has a power of two of them.
#[test]
fn lines_of_records_are_in_all_sets() {
    const SETS: usize = 1024;
    for size in [16, 32, 64, 128, 192, 256, 320, 512, 1024, 2048] {
        let record = Block::from_size_align(size, size.min(ALIGN)).expect("a block");
        let spacing = Spacing::of(record);
        assert_eq!(spacing.size(), size);
        let mut sets = vec![0; SETS];
        for at in 0..64 * SETS {
            let offset = spacing.offset(at);
            assert!(offset.is_multiple_of(record.align()) && spacing.at(offset) == at);
            let gap = spacing.offset(at + 1) - offset - size;
            assert!(gap == 0 || gap == ALIGN && at % APART == APART - 1, "{gap} bytes behind {at}");
            sets[offset / ALIGN % SETS] += 1;
        }
        let of = |more: fn(usize, usize) -> bool| {
            sets.iter().copied().reduce(|a, b| if more(a, b) { a } else { b })
        };
        let (most, fewest) = (of(|a, b| a > b), of(|a, b| a < b));
        assert_eq!(most, fewest, "{size} bytes");
    }
}
