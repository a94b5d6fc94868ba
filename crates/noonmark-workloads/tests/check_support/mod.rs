//! Histories in few lines, histories of serial runs, and numbers that repeat.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use noonmark_workloads::check::{AnomalyKind, Options, Report, check};
use noonmark_workloads::history::{History, Key, MicroOp, Operation, OperationKind, Outcome, Process, Value};

/// SplitMix64.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// A transaction before it is put into lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Txn {
    pub process: u64,
    pub start_ns: u64,
    pub finish_ns: u64,
    pub outcome: Outcome,
    pub ops: Vec<MicroOp>,
}

/// The lines of some transactions by time; what begins at a moment stands before what ends.
pub fn operations(txns: &[Txn]) -> Vec<Operation> {
    let mut lines = Vec::new();
    for (number, txn) in txns.iter().enumerate() {
        let unread = txn.ops.iter().map(MicroOp::unread).collect();
        let begin = (txn.start_ns, false, number);
        lines.push((begin, txn.process, OperationKind::Invoke, unread));
        let end = (txn.finish_ns, true, number);
        lines.push((end, txn.process, txn.outcome.into(), txn.ops.clone()));
    }
    lines.sort_by_key(|line| line.0);
    (0..)
        .zip(lines)
        .map(|(index, ((time_ns, ..), process, kind, value))| Operation {
            index,
            kind,
            process: Process(process),
            time_ns,
            f: Cow::Borrowed("txn"),
            value,
        })
        .collect()
}

pub fn history(txns: &[Txn]) -> History {
    History::from_operations(operations(txns)).expect("a history")
}

/// One transaction a line, `ok [ops]` or `ok p0 1-4 [ops]`; without process and times it has a
/// process of its own and overlaps all others of its sort.
pub fn script(text: &str) -> Vec<Txn> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    (0..)
        .zip(lines)
        .map(|(number, line)| {
            let (head, ops) = line.split_at(line.find('[').expect("steps"));
            let head: Vec<&str> = head.split_whitespace().collect();
            let outcome = match head[0] {
                "ok" => Outcome::Ok,
                "fail" => Outcome::Fail,
                "info" => Outcome::Info,
                other => panic!("outcome {other}"),
            };
            let process = head.get(1).map_or(1000 + number, |p| p[1..].parse().expect("process"));
            let (start_ns, finish_ns) = head.get(2).map_or((100, 200), |times| {
                let (start, finish) = times.split_once('-').expect("times");
                (start.parse().expect("start"), finish.parse().expect("finish"))
            });
            let ops = serde_json::from_str(ops).expect(ops);
            Txn { process, start_ns, finish_ns, outcome, ops }
        })
        .collect()
}

pub const PLAIN: Options = Options { session: false, strict: false, opaque: false };
pub const SESSION: Options = Options { session: true, strict: false, opaque: false };
pub const STRICT: Options = Options { session: false, strict: true, opaque: false };
pub const OPAQUE: Options = Options { session: false, strict: false, opaque: true };

pub fn report(text: &str, options: Options) -> Report {
    check(&history(&script(text)), &options)
}

/// The kinds of anomaly in a script, without order.
pub fn kinds(text: &str, options: Options) -> Vec<AnomalyKind> {
    report(text, options).totals.into_keys().collect()
}

/// What a serial run is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Steps {
    Lists,
    Registers,
    Scans,
    /// Scans of registers that are often deleted and put back.
    Deletes,
}

/// A run of `count` transactions one after another, told as if they had overlapped: each may
/// begin before and end after its moment. Strictly serializable by construction. Writes follow
/// reads of the key, values are unique, nothing is deleted but where asked; each key is retired
/// after some sixty writes.
pub fn serial_run(steps: Steps, count: usize, seed: u64) -> Vec<Txn> {
    const HOT_KEYS: u64 = 4;
    const WRITES_PER_KEY: u64 = 60;
    let mut numbers = Numbers(seed);
    let mut lists: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
    let mut registers: BTreeMap<i64, Value> = BTreeMap::new();
    let mut next_value = 1;
    let mut writes = 0;
    let mut free_from: Vec<u64> = Vec::new();
    let mut txns = Vec::new();
    for moment in 1..=count as u64 {
        let mut ops = Vec::new();
        let outcome = match numbers.below(20) {
            0 => Outcome::Fail,
            // What is deleted by one of unknown outcome says nothing.
            1 if steps != Steps::Deletes => Outcome::Info,
            _ => Outcome::Ok,
        };
        let takes_effect = outcome == Outcome::Ok || outcome == Outcome::Info && numbers.one_in(2);
        let (lists_before, registers_before) = (lists.clone(), registers.clone());
        for _ in 0..1 + numbers.below(4) {
            let first = (writes / WRITES_PER_KEY) as i64;
            let key = first + numbers.below(HOT_KEYS) as i64;
            let value = Value(next_value);
            let wants_write = numbers.one_in(2);
            match steps {
                Steps::Lists => {
                    let list = lists.entry(key).or_default();
                    ops.push(MicroOp::ReadList { key: Key(key), list: Some(list.clone()) });
                    if wants_write {
                        list.push(value);
                        ops.push(MicroOp::Append { key: Key(key), value });
                    }
                }
                Steps::Registers | Steps::Scans | Steps::Deletes => {
                    if matches!(steps, Steps::Scans | Steps::Deletes) && numbers.one_in(2) {
                        let low = key - numbers.below(3) as i64;
                        let high = key + numbers.below(3) as i64;
                        let found =
                            registers.range(low..=high).map(|(&key, &value)| (Key(key), value)).collect();
                        ops.push(MicroOp::Scan { low: Key(low), high: Key(high), found: Some(found) });
                    } else {
                        let value = registers.get(&key).copied();
                        ops.push(MicroOp::ReadRegister { key: Key(key), value });
                        let deletes = steps == Steps::Deletes && numbers.one_in(3);
                        if wants_write && deletes {
                            registers.remove(&key);
                            ops.push(MicroOp::Write { key: Key(key), value: None });
                        } else if wants_write {
                            registers.insert(key, Value(next_value));
                            ops.push(MicroOp::Write { key: Key(key), value: Some(Value(next_value)) });
                        }
                    }
                }
            }
            if wants_write {
                next_value += 1;
                writes += 1;
            }
        }
        if !takes_effect {
            (lists, registers) = (lists_before, registers_before);
        }
        let at_ns = 1000 + 10 * moment;
        let start_ns = at_ns - numbers.below(40);
        let finish_ns = at_ns + numbers.below(40);
        let free = free_from.iter().position(|&free| free < start_ns);
        let process = free.unwrap_or_else(|| {
            free_from.push(0);
            free_from.len() - 1
        });
        free_from[process] = finish_ns;
        txns.push(Txn { process: process as u64, start_ns, finish_ns, outcome, ops });
    }
    txns
}
