//! Serial runs must pass, in the strictest sense; with one read changed they must not.
//!
//! Not every changed read is a contradiction: a transaction that read an older list may simply
//! have come earlier. Each change here is chosen so that no order can explain it, and says why.

mod check_support;

use std::collections::HashMap;

use check_support::{Numbers, PLAIN, SESSION, STRICT, Steps, Txn, history, serial_run};
use noonmark_workloads::check::{Options, Verdict, check};
use noonmark_workloads::history::{Key, MicroOp, Outcome, Value};

const NEVER_WRITTEN: Value = Value(-1);

#[test]
fn serial_runs_are_strictly_serializable() {
    for steps in [Steps::Lists, Steps::Registers, Steps::Scans, Steps::Deletes] {
        for seed in 0..20 {
            let history = history(&serial_run(steps, 1000, seed));
            for options in [PLAIN, SESSION, STRICT] {
                let report = check(&history, &options);
                assert_eq!(report.verdict, Verdict::Proved, "{steps:?} {seed}\n{report}");
                if steps != Steps::Lists {
                    // Else a register checker that infers nothing would pass.
                    assert!(report.edges.rw > 300 && report.edges.ww > 300, "{report}");
                    assert!(report.ambiguous_reads == 0 || steps == Steps::Deletes);
                    assert!(report.edges.lives > 100 || steps != Steps::Deletes);
                }
            }
        }
    }
}

/// A key written without being read, whose readers begin after the next write has ended: the
/// proof must let each version's readers go first, though nothing in the graph says so.
#[test]
fn blind_writes_with_slow_readers_are_proved() {
    let mut txns = Vec::new();
    for round in 0..200 {
        let (key, value) = (Key(1), Some(Value(round as i64)));
        let mut add = |start_ns, finish_ns, op| {
            let process = txns.len() as u64;
            let outcome = Outcome::Ok;
            txns.push(Txn { process, start_ns, finish_ns, outcome, ops: vec![op] });
        };
        add(10 * round, 10 * round + 1, MicroOp::Write { key, value });
        add(10 * round + 12, 10 * round + 15, MicroOp::ReadRegister { key, value });
    }
    let report = check(&history(&txns), &PLAIN);
    assert_eq!(report.verdict, Verdict::Proved, "{report}");
    assert_eq!(report.keys_partly_ordered, 1);
}

/// Where a step stands.
type Place = (usize, usize);

/// All reads of committed transactions that stand before any other step on their key, so that
/// it is no internal matter what they saw.
fn first_reads(run: &[Txn]) -> Vec<Place> {
    let mut places = Vec::new();
    for (number, txn) in run.iter().enumerate() {
        if txn.outcome != Outcome::Ok {
            continue;
        }
        for (place, op) in txn.ops.iter().enumerate() {
            let key = match op {
                MicroOp::ReadList { key, .. } | MicroOp::ReadRegister { key, .. } => *key,
                _ => continue,
            };
            if txn.ops[..place].iter().all(|other| !touches(other, key)) {
                places.push((number, place));
            }
        }
    }
    places
}

fn touches(op: &MicroOp, wanted: Key) -> bool {
    match op {
        MicroOp::Append { key, .. }
        | MicroOp::ReadList { key, .. }
        | MicroOp::Write { key, .. }
        | MicroOp::ReadRegister { key, .. } => *key == wanted,
        MicroOp::Scan { low, high, .. } => (*low..=*high).contains(&wanted),
    }
}

/// Who wrote which value of which key, and committed for certain.
fn writers(run: &[Txn]) -> HashMap<(Key, Value), usize> {
    let mut writers = HashMap::new();
    for (number, txn) in run.iter().enumerate().filter(|(_, txn)| txn.outcome == Outcome::Ok) {
        for op in &txn.ops {
            if let MicroOp::Append { key, value } | MicroOp::Write { key, value: Some(value) } = op {
                writers.insert((*key, *value), number);
            }
        }
    }
    writers
}

fn writes(txn: &Txn, wanted: Key) -> bool {
    txn.ops
        .iter()
        .any(|op| matches!(op, MicroOp::Append { key, .. } | MicroOp::Write { key, .. } if *key == wanted))
}

/// Changes the read at `place` of a copy of `run`, later reads of the same transaction and key
/// staying as they are.
fn changed(run: &[Txn], place: Place, op: MicroOp) -> Vec<Txn> {
    let mut run = run.to_vec();
    run[place.0].ops[place.1] = op;
    run
}

fn must_be_rejected(run: &[Txn], options: Options, why: &str) {
    let report = check(&history(run), &options);
    assert!(!report.is_ok(), "{why}: {report}");
}

/// Tries each change on some of the reads that allow it; each must be tried often.
fn each_change_is_found(
    steps: Steps,
    options: Options,
    why: &str,
    change: impl Fn(&[Txn], Place, &mut Numbers) -> Option<MicroOp>,
) {
    let mut tried = 0;
    for seed in 0..5 {
        let run = serial_run(steps, 400, 1000 + seed);
        let mut numbers = Numbers(seed);
        let mut places = first_reads(&run);
        while tried < 30 * (seed + 1) && !places.is_empty() {
            let place = places.swap_remove(numbers.below(places.len() as u64) as usize);
            if let Some(op) = change(&run, place, &mut numbers) {
                must_be_rejected(&changed(&run, place, op), options, why);
                tried += 1;
            }
        }
    }
    assert!(tried >= 100, "{why}: only {tried} reads allowed it");
}

fn list_at(run: &[Txn], place: Place) -> Option<(Key, Vec<Value>)> {
    match &run[place.0].ops[place.1] {
        MicroOp::ReadList { key, list: Some(list) } => Some((*key, list.clone())),
        _ => None,
    }
}

/// Whether a committed transaction other than `but` read `part` and more, or just it.
fn others_saw(run: &[Txn], but: usize, key: Key, part: &[Value]) -> bool {
    run.iter().enumerate().any(|(number, txn)| {
        number != but
            && txn.outcome == Outcome::Ok
            && txn.ops.iter().any(|op| {
                matches!(op, MicroOp::ReadList { key: k, list: Some(list) }
                    if *k == key && list.starts_with(part))
            })
    })
}

#[test]
fn a_list_with_an_element_that_nobody_appended() {
    each_change_is_found(Steps::Lists, PLAIN, "garbage", |run, place, numbers| {
        let (key, mut list) = list_at(run, place)?;
        if list.is_empty() {
            list.push(NEVER_WRITTEN);
        } else {
            let at = numbers.below(list.len() as u64) as usize;
            list[at] = NEVER_WRITTEN;
        }
        Some(MicroOp::ReadList { key, list: Some(list) })
    });
}

#[test]
fn a_list_without_one_of_its_first_elements() {
    // Others saw the list as it was, so an element is missing amid what was there.
    each_change_is_found(Steps::Lists, PLAIN, "a hole", |run, place, numbers| {
        let (key, mut list) = list_at(run, place)?;
        if list.len() < 2 || !others_saw(run, place.0, key, &list) {
            return None;
        }
        list.remove(numbers.below(list.len() as u64 - 1) as usize);
        Some(MicroOp::ReadList { key, list: Some(list) })
    });
}

#[test]
fn a_list_with_two_elements_swapped() {
    each_change_is_found(Steps::Lists, PLAIN, "other order", |run, place, numbers| {
        let (key, mut list) = list_at(run, place)?;
        if list.len() < 2 || !others_saw(run, place.0, key, &list) {
            return None;
        }
        let at = numbers.below(list.len() as u64 - 1) as usize;
        list.swap(at, at + 1);
        Some(MicroOp::ReadList { key, list: Some(list) })
    });
}

#[test]
fn a_list_with_an_element_twice() {
    each_change_is_found(Steps::Lists, PLAIN, "duplicate", |run, place, numbers| {
        let (key, mut list) = list_at(run, place)?;
        if list.is_empty() {
            return None;
        }
        list.push(list[numbers.below(list.len() as u64) as usize]);
        Some(MicroOp::ReadList { key, list: Some(list) })
    });
}

#[test]
fn an_update_of_a_list_that_missed_the_one_before() {
    // The reader appends to the list, after the element that it now did not see: others saw
    // both. So it came after that element's append, and before.
    each_change_is_found(Steps::Lists, PLAIN, "a lost update", |run, place, _| {
        let (key, list) = list_at(run, place)?;
        let (_, shorter) = list.split_last()?;
        let own = run[place.0].ops.iter().find_map(|op| match op {
            MicroOp::Append { key: k, value } if *k == key => Some(*value),
            _ => None,
        })?;
        let mut both = list.clone();
        both.push(own);
        others_saw(run, place.0, key, &both).then(|| MicroOp::ReadList { key, list: Some(shorter.to_vec()) })
    });
}

#[test]
fn a_list_older_than_the_reader() {
    // Only strict order forbids it: the append that is not seen was over when the read began.
    each_change_is_found(Steps::Lists, STRICT, "stale", |run, place, _| {
        let (key, list) = list_at(run, place)?;
        let (last, shorter) = list.split_last()?;
        let writer = *writers(run).get(&(key, *last))?;
        (run[writer].finish_ns < run[place.0].start_ns)
            .then(|| MicroOp::ReadList { key, list: Some(shorter.to_vec()) })
    });
}

fn register_at(run: &[Txn], place: Place) -> Option<(Key, Option<Value>)> {
    match run[place.0].ops[place.1] {
        MicroOp::ReadRegister { key, value } => Some((key, value)),
        _ => None,
    }
}

/// What a register held before the version that `run[reader]` read, and who overwrote that.
fn version_before(run: &[Txn], key: Key, value: Option<Value>) -> Option<(Option<Value>, usize)> {
    let writer = *writers(run).get(&(key, value?))?;
    let before = run[writer].ops.iter().find_map(|op| match op {
        MicroOp::ReadRegister { key: k, value } if *k == key => Some(*value),
        MicroOp::Scan { low, high, found: Some(found) } if (*low..=*high).contains(&key) => {
            Some(found.iter().find(|(k, _)| *k == key).map(|(_, value)| *value))
        }
        _ => None,
    })?;
    Some((before, writer))
}

#[test]
fn a_register_with_a_value_that_nobody_wrote() {
    each_change_is_found(Steps::Registers, PLAIN, "garbage", |run, place, _| {
        let (key, _) = register_at(run, place)?;
        Some(MicroOp::ReadRegister { key, value: Some(NEVER_WRITTEN) })
    });
}

#[test]
fn an_update_of_a_register_that_missed_the_one_before() {
    // Reader and overwriter both read the same version and wrote the next.
    each_change_is_found(Steps::Registers, PLAIN, "a lost update", |run, place, _| {
        let (key, value) = register_at(run, place)?;
        let (before, _) = version_before(run, key, value)?;
        writes(&run[place.0], key).then_some(MicroOp::ReadRegister { key, value: before })
    });
}

#[test]
fn a_register_older_than_the_reader() {
    each_change_is_found(Steps::Registers, STRICT, "stale", |run, place, _| {
        let (key, value) = register_at(run, place)?;
        let (before, overwriter) = version_before(run, key, value)?;
        (run[overwriter].finish_ns < run[place.0].start_ns)
            .then_some(MicroOp::ReadRegister { key, value: before })
    });
}

/// Changes what scans found: `change` gets the run, the scan's transaction, its range and
/// results, and what could be wrong with a key in it.
fn each_changed_scan_is_found(
    options: Options,
    why: &str,
    change: impl Fn(&[Txn], usize, Key, Key, &mut Vec<(Key, Value)>) -> bool,
) {
    let mut tried = 0;
    for seed in 0..5 {
        let run = serial_run(Steps::Scans, 400, 2000 + seed);
        for (number, txn) in run.iter().enumerate() {
            if txn.outcome != Outcome::Ok {
                continue;
            }
            for (place, op) in txn.ops.iter().enumerate() {
                let MicroOp::Scan { low, high, found: Some(found) } = op else {
                    continue;
                };
                let (low, high, mut found) = (*low, *high, found.clone());
                if tried < 30 * (seed + 1) && change(&run, number, low, high, &mut found) {
                    let op = MicroOp::Scan { low, high, found: Some(found) };
                    must_be_rejected(&changed(&run, (number, place), op), options, why);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried >= 100, "{why}: only {tried} scans allowed it");
}

#[test]
fn a_scan_that_found_what_nobody_wrote() {
    each_changed_scan_is_found(PLAIN, "garbage", |_, _, low, _, found| {
        found.retain(|&(key, _)| key != low);
        found.push((low, NEVER_WRITTEN));
        true
    });
}

#[test]
fn a_scan_that_found_a_key_outside_or_twice() {
    each_changed_scan_is_found(PLAIN, "outside", |_, _, _, high, found| {
        found.push((Key(high.0 + 1), Value(1)));
        true
    });
    each_changed_scan_is_found(PLAIN, "twice", |_, _, _, _, found| {
        let first = found.first().copied();
        found.extend(first);
        first.is_some()
    });
}

#[test]
fn a_scan_that_missed_a_key_long_there() {
    // Nothing is ever deleted, and whoever wrote what was there had ended before the scan.
    each_changed_scan_is_found(STRICT, "a phantom", |run, scanner, _, _, found| {
        let writers = writers(run);
        let gone = found.iter().position(|entry| {
            writers.get(entry).is_some_and(|&writer| run[writer].finish_ns < run[scanner].start_ns)
        });
        gone.map(|gone| found.remove(gone)).is_some()
    });
}

#[test]
fn a_scan_that_missed_a_key_its_transaction_knew() {
    // It found another key, written by one who had read the missing key, or wrote it too; it is
    // enough that the scanner itself reads or writes the key elsewhere: both cannot be.
    each_changed_scan_is_found(PLAIN, "internal", |run, scanner, _, _, found| {
        let ops = &run[scanner].ops;
        let gone = found.iter().position(|&(key, _)| {
            ops.iter().any(|op| matches!(op, MicroOp::ReadRegister { key: k, .. } if *k == key))
        });
        gone.map(|gone| found.remove(gone)).is_some()
    });
}

/// When a key was there: who put it there, and who deleted it, as places in the run.
fn lives(run: &[Txn]) -> Vec<(Key, usize, usize)> {
    let mut there = HashMap::new();
    let mut lives = Vec::new();
    for (number, txn) in run.iter().enumerate().filter(|(_, txn)| txn.outcome == Outcome::Ok) {
        for op in &txn.ops {
            match *op {
                MicroOp::Write { key, value: Some(_) } => _ = there.entry(key).or_insert(number),
                MicroOp::Write { key, value: None } => {
                    lives.extend(there.remove(&key).map(|first| (key, first, number)));
                }
                _ => {}
            }
        }
    }
    lives
}

#[test]
fn a_read_or_scan_that_found_nothing_while_the_key_was_there() {
    // Only in real time: else it may have come earlier, or later.
    let (mut reads, mut scans) = (0, 0);
    for seed in 0..4 {
        let run = serial_run(Steps::Deletes, 400, 3000 + seed);
        for (key, first, end) in lives(&run) {
            for number in first + 1..end {
                let txn = &run[number];
                let within = run[first].finish_ns < txn.start_ns && txn.finish_ns < run[end].start_ns;
                if txn.outcome != Outcome::Ok
                    || !within
                    || txn.ops.iter().filter(|op| touches(op, key)).count() != 1
                {
                    continue;
                }
                let place = txn.ops.iter().position(|op| touches(op, key)).expect("counted");
                let op = match &txn.ops[place] {
                    MicroOp::ReadRegister { .. } if reads < 40 => {
                        reads += 1;
                        MicroOp::ReadRegister { key, value: None }
                    }
                    MicroOp::Scan { low, high, found: Some(found) } if scans < 40 => {
                        scans += 1;
                        let found = found.iter().copied().filter(|(other, _)| *other != key).collect();
                        MicroOp::Scan { low: *low, high: *high, found: Some(found) }
                    }
                    _ => continue,
                };
                must_be_rejected(&changed(&run, (number, place), op), STRICT, "absent amid a life");
            }
        }
    }
    assert!(reads >= 20 && scans >= 20, "{reads} {scans}");
}

#[test]
fn a_scan_that_found_a_key_long_deleted() {
    let mut tried = 0;
    for seed in 0..4 {
        let run = serial_run(Steps::Deletes, 400, 4000 + seed);
        for (key, _, end) in lives(&run) {
            let last = run[end].ops.iter().find_map(|op| match *op {
                MicroOp::ReadRegister { key: k, value } if k == key => value,
                _ => None,
            });
            let Some(last) = last else { continue };
            let later = run.iter().enumerate().skip(end + 1).find_map(|(number, txn)| {
                let after = txn.outcome == Outcome::Ok && txn.start_ns > run[end].finish_ns;
                let place = txn.ops.iter().position(|op| touches(op, key))?;
                match &txn.ops[place] {
                    MicroOp::Scan { low, high, found: Some(found) }
                        if after && found.iter().all(|(other, _)| *other != key) =>
                    {
                        let mut found = found.clone();
                        found.push((key, last));
                        Some(((number, place), MicroOp::Scan { low: *low, high: *high, found: Some(found) }))
                    }
                    _ => None,
                }
            });
            if let Some((place, op)) = later
                && tried < 60
            {
                must_be_rejected(&changed(&run, place, op), STRICT, "a resurrected row");
                tried += 1;
            }
        }
    }
    assert!(tried >= 40, "{tried}");
}

#[test]
fn a_delete_that_was_dropped() {
    // The key is put back as if it had not been there: one life runs into the next.
    let mut tried = 0;
    for seed in 0..4 {
        let run = serial_run(Steps::Deletes, 400, 5000 + seed);
        let lives = lives(&run);
        for (at, &(key, _, end)) in lives.iter().enumerate() {
            let again = lives[at + 1..].iter().any(|&(other, first, _)| other == key && first > end);
            let place = run[end]
                .ops
                .iter()
                .position(|op| matches!(op, MicroOp::Write { key: k, value: None } if *k == key));
            let once =
                run[end].ops.iter().filter(|op| matches!(op, MicroOp::Write { key: k, .. } if *k == key));
            let (Some(place), 1, true) = (place, once.count(), again && tried < 60) else { continue };
            let mut run = run.clone();
            // Nor does its own transaction look again.
            run[end].ops.truncate(place);
            must_be_rejected(&run, STRICT, "a dropped delete");
            tried += 1;
        }
    }
    assert!(tried >= 40, "{tried}");
}
