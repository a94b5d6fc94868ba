//! The checker against trying all serial orders, on thousands of small histories.

mod check_support;

use std::collections::BTreeMap;

use check_support::{Numbers, PLAIN, SESSION, STRICT, Txn, history, operations};
use noonmark_workloads::check::{Options, Verdict, check};
use noonmark_workloads::history::{Key, MicroOp, Model, Outcome, Value};

#[derive(Clone, Default)]
struct State {
    lists: BTreeMap<Key, Vec<Value>>,
    registers: BTreeMap<Key, Value>,
}

impl State {
    fn list(&self, key: Key) -> Vec<Value> {
        self.lists.get(&key).cloned().unwrap_or_default()
    }

    fn scan(&self, low: Key, high: Key) -> Vec<(Key, Value)> {
        self.registers.range(low..=high).map(|(&key, &value)| (key, value)).collect()
    }

    /// Takes a step; a read with what it now sees in it.
    fn step(&mut self, op: &MicroOp) -> MicroOp {
        match *op {
            MicroOp::Append { key, value } => self.lists.entry(key).or_default().push(value),
            MicroOp::Write { key, value: Some(value) } => _ = self.registers.insert(key, value),
            MicroOp::Write { key, value: None } => _ = self.registers.remove(&key),
            MicroOp::ReadList { key, .. } => {
                return MicroOp::ReadList { key, list: Some(self.list(key)) };
            }
            MicroOp::ReadRegister { key, .. } => {
                return MicroOp::ReadRegister { key, value: self.registers.get(&key).copied() };
            }
            MicroOp::Scan { low, high, .. } => {
                return MicroOp::Scan { low, high, found: Some(self.scan(low, high)) };
            }
        }
        op.clone()
    }
}

/// Whether some serial order of the committed transactions, and of any of those of unknown
/// outcome, explains every committed read and keeps to the order asked.
fn is_serializable(txns: &[Txn], options: Options) -> bool {
    fn go(txns: &[Txn], options: Options, done: u32, state: &State) -> bool {
        let left = |number: usize| done & (1 << number) == 0;
        let is_ok = |number: usize| txns[number].outcome == Outcome::Ok;
        if (0..txns.len()).all(|number| !left(number) || !is_ok(number)) {
            return true;
        }
        (0..txns.len()).any(|number| {
            let txn = &txns[number];
            if !left(number) || txn.outcome == Outcome::Fail {
                return false;
            }
            // A committed one that must come before is still to come.
            let too_early = (0..txns.len()).any(|other| {
                let first = &txns[other];
                left(other)
                    && is_ok(other)
                    && (options.session && first.process == txn.process && first.finish_ns <= txn.start_ns
                        || options.strict && first.finish_ns < txn.start_ns)
                    && other != number
            });
            let mut state = state.clone();
            let explained = txn.ops.iter().all(|op| {
                // In an unknown outcome `null` may be any value.
                let unread =
                    txn.outcome == Outcome::Info && matches!(op, MicroOp::ReadRegister { value: None, .. });
                state.step(op) == *op || unread
            });
            !too_early && explained && go(txns, options, done | 1 << number, &state)
        })
    }
    // One of unknown outcome after which one of its process ran, or that was left out before,
    // may follow any time later; only what ended for certain holds others back.
    go(txns, options, 0, &State::default())
}

#[derive(Clone, Copy)]
struct Shape {
    model: Model,
    scans: bool,
    deletes: bool,
    unique: bool,
    /// Registers are read before they are written.
    reads_first: bool,
}

/// Up to five transactions of up to three steps (and the reads before writes, where asked) on
/// two keys, run step by step among each other on one state, or nearly one after another.
fn random_txns(numbers: &mut Numbers, shape: Shape) -> Vec<Txn> {
    let count = 2 + numbers.below(4) as usize;
    let mut next_value = 0;
    let mut txns: Vec<Txn> = (0..count)
        .map(|_| {
            let mut ops = Vec::new();
            for _ in 0..1 + numbers.below(3) {
                let key = Key(1 + numbers.below(2) as i64);
                next_value += 1;
                let value = Value(if shape.unique { next_value } else { 1 + numbers.below(2) as i64 });
                match (shape.model, numbers.one_in(2)) {
                    (Model::Lists, true) => ops.push(MicroOp::ReadList { key, list: None }),
                    (Model::Lists, false) => {
                        ops.push(MicroOp::Append { key, value: Value(next_value) });
                    }
                    (Model::Registers, true) if shape.scans && numbers.one_in(2) => {
                        let (low, high) = *numbers.pick(&[(1, 1), (1, 2), (2, 2), (0, 9)]);
                        ops.push(MicroOp::Scan { low: Key(low), high: Key(high), found: None });
                    }
                    (Model::Registers, true) => {
                        ops.push(MicroOp::ReadRegister { key, value: None });
                    }
                    (Model::Registers, false) => {
                        if shape.reads_first {
                            ops.push(MicroOp::ReadRegister { key, value: None });
                        }
                        let delete = shape.deletes && numbers.one_in(3);
                        let value = (!delete).then_some(value);
                        ops.push(MicroOp::Write { key, value });
                    }
                }
            }
            let outcome = match numbers.below(10) {
                0 => Outcome::Fail,
                1 => Outcome::Info,
                _ => Outcome::Ok,
            };
            Txn { process: numbers.below(3), start_ns: 0, finish_ns: 0, outcome, ops }
        })
        .collect();

    // One step at a time of one of those under way; a process has one under way.
    let mut state = State::default();
    let mut done = vec![0; count];
    let mut clock_ns = 0;
    let stay = 1 + numbers.below(6);
    let mut at = 0;
    while (0..count).any(|number| done[number] < txns[number].ops.len()) {
        if numbers.one_in(stay) || done[at] == txns[at].ops.len() {
            at = numbers.below(count as u64) as usize;
        }
        let busy = (0..count).any(|other| {
            other != at
                && txns[other].process == txns[at].process
                && (1..txns[other].ops.len()).contains(&done[other])
        });
        if done[at] == txns[at].ops.len() || busy {
            at = (at + 1) % count;
            continue;
        }
        clock_ns += 1;
        let txn = &mut txns[at];
        if done[at] == 0 {
            // Often the lives of transactions touch or overlap where their steps do not.
            txn.start_ns = clock_ns;
        }
        let takes_effect = txn.outcome != Outcome::Fail || numbers.one_in(4);
        let op = &mut txn.ops[done[at]];
        *op = if takes_effect { state.step(op) } else { state.clone().step(op) };
        if numbers.one_in(30) {
            perturb(op, numbers);
        }
        done[at] += 1;
        clock_ns += numbers.below(2);
        txn.finish_ns = clock_ns;
    }
    for txn in &mut txns {
        // The absence that a transaction of unknown outcome read is a `null` that says nothing,
        // so that it wrote blindly as far as anyone can tell.
        let absent = |op: &MicroOp| matches!(op, MicroOp::ReadRegister { value: None, .. });
        if shape.reads_first && txn.outcome == Outcome::Info && txn.ops.iter().any(absent) {
            txn.outcome = Outcome::Ok;
        }
    }
    txns
}

/// Makes a read see something else.
fn perturb(op: &mut MicroOp, numbers: &mut Numbers) {
    match op {
        MicroOp::ReadList { list: Some(list), .. } => _ = list.pop(),
        MicroOp::ReadRegister { value, .. } => {
            *value = (!numbers.one_in(3)).then(|| Value(1 + numbers.below(8) as i64));
        }
        MicroOp::Scan { found: Some(found), .. } => _ = found.pop(),
        _ => {}
    }
}

#[derive(Debug, Default)]
struct Tally {
    serializable: u32,
    proved: u32,
    bad: u32,
    found: u32,
}

/// Compares on many histories; the verdicts must never be wrong, only undecided.
fn compare(shape: Shape, options: Options, histories: u64, seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut numbers = Numbers(seed);
    for _ in 0..histories {
        let txns = random_txns(&mut numbers, shape);
        let report = check(&history(&txns), &options);
        let serializable = is_serializable(&txns, options);
        let told = || {
            let lines: Vec<String> = operations(&txns)
                .iter()
                .map(|operation| serde_json::to_string(operation).expect("JSON"))
                .collect();
            format!("{}\n{report}", lines.join("\n"))
        };
        match report.verdict {
            Verdict::Proved => assert!(serializable, "passed though bad: {}", told()),
            Verdict::Violated => assert!(!serializable, "rejected though good: {}", told()),
            _ => {}
        }
        tally.serializable += u32::from(serializable);
        tally.bad += u32::from(!serializable);
        tally.proved += u32::from(report.verdict == Verdict::Proved);
        tally.found += u32::from(report.verdict == Verdict::Violated);
    }
    // Both sorts must be common, or the comparison says little.
    assert!(u64::from(tally.bad.min(tally.serializable)) > histories / 10, "{tally:?}");
    println!("{tally:?}");
    tally
}

const LISTS: Shape =
    Shape { model: Model::Lists, scans: false, deletes: false, unique: true, reads_first: false };
const REGISTERS: Shape = Shape { model: Model::Registers, ..LISTS };

#[test]
fn lists_are_decided_exactly() {
    for (seed, options) in [(1, PLAIN), (2, SESSION), (3, STRICT)] {
        let tally = compare(LISTS, options, 6000, seed);
        assert_eq!((tally.proved, tally.found), (tally.serializable, tally.bad));
    }
}

#[test]
fn registers_read_before_they_are_written_are_decided_exactly() {
    let shape = Shape { reads_first: true, ..REGISTERS };
    for (seed, options) in [(4, PLAIN), (5, SESSION), (6, STRICT)] {
        for scans in [false, true] {
            let tally = compare(Shape { scans, ..shape }, options, 4000, seed);
            assert_eq!((tally.proved, tally.found), (tally.serializable, tally.bad));
        }
    }
}

/// What may be missed is a bad history whose contradiction hangs on a choice: each order of
/// the blind writes, or each write that may be behind a read, is contradicted by another fact.
/// Among so few transactions the order of the writes follows from the rest.
#[test]
fn registers_written_blindly_are_never_judged_wrongly() {
    for (seed, options) in [(7, PLAIN), (8, SESSION), (9, STRICT)] {
        for scans in [false, true] {
            let tally = compare(Shape { scans, ..REGISTERS }, options, 4000, seed);
            assert!(tally.found * 100 > tally.bad * 99, "{tally:?}");
            assert!(tally.proved * 100 > tally.serializable * 99, "{tally:?}");
        }
    }
}

#[test]
fn deletes_and_values_written_twice_are_never_judged_wrongly() {
    for (seed, options) in [(10, PLAIN), (11, SESSION), (12, STRICT)] {
        for unique in [false, true] {
            let shape = Shape { scans: true, deletes: true, unique, ..REGISTERS };
            let tally = compare(shape, options, 4000, seed);
            assert!(tally.found * 100 > tally.bad * 94, "{tally:?}");
            assert!(tally.proved * 100 > tally.serializable * 99, "{tally:?}");
        }
    }
}

/// Keys that come and go, each write after a read: what is missed is where several orders of the lives of a key
/// are possible one by one, and none of them together with those of another.
#[test]
fn deletes_after_reads_are_decided_nearly_always() {
    for (seed, options) in [(13, PLAIN), (14, SESSION), (15, STRICT)] {
        for scans in [false, true] {
            let shape = Shape { scans, deletes: true, reads_first: true, ..REGISTERS };
            let tally = compare(shape, options, 6000, seed);
            assert!(tally.found * 100 >= tally.bad * 99, "{tally:?}");
            assert!(tally.proved * 100 >= tally.serializable * 99, "{tally:?}");
        }
    }
}
