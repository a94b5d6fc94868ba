//! What each transaction read from others and left to others, key by key.
//!
//! The steps of a transaction are walked once, with what it must itself expect of each key in
//! mind. A read of what it read or wrote before is compared with that and goes no further; the
//! first read of a key that it has not written is *external*: some other transaction, or the
//! initial state, is behind it. The read of a list after appends to it is external without
//! the own elements at its end. A scan is an external read of every key in its range: of those
//! it found, with their value; of all others that the history ever writes, as absent.
//!
//! Keys are numbered in their order, so that a range of keys is a range of numbers.

use std::collections::HashMap;
use std::ops::Range;

use crate::history::{History, Key, MicroOp, Model, Outcome, Transaction, Value};

/// No write, no transaction.
pub(super) const NONE: u32 = u32::MAX;

/// What a read saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The first `len` elements of what the list read at `op` holds.
    List { op: u32, len: u32 },
    /// The value of a register, `None` for absent.
    Register(Option<Value>),
}

/// An external read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) transaction: u32,
    pub(super) key: u32,
    pub(super) seen: Seen,
    /// Whether a scan found the key absent.
    pub(super) predicate: bool,
}

/// A write or an append.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) transaction: u32,
    pub(super) key: u32,
    /// `None` for a delete.
    pub(super) value: Option<Value>,
    /// Whether its transaction wrote the key no more.
    pub(super) last: bool,
    /// Another write of the same value to the same key, or [`NONE`].
    next_same: u32,
}

/// A read that contradicts what its own transaction read or wrote before. Reported only if the
/// transaction counts, which is not known yet when it is walked.
#[derive(Debug)]
pub(super) struct Internal<'h> {
    pub(super) transaction: u32,
    pub(super) key: Key,
    pub(super) what: Contradiction<'h>,
}

#[derive(Debug)]
pub(super) enum Contradiction<'h> {
    /// The list is not what was read before and what was appended since.
    List { before: Option<&'h [Value]>, own: Vec<Value>, list: &'h [Value] },
    /// The register is not what was read or, if it `wrote`, written before.
    Register { wrote: bool, expected: Option<Value>, value: Option<Value> },
    /// The scan found the key twice, or outside its range.
    Scan { low: Key, high: Key, twice: bool },
}

/// All external reads and all writes of a history.
#[derive(Debug)]
pub(super) struct Accesses<'h> {
    pub(super) history: &'h History,
    /// The key of each number, in order.
    pub(super) keys: Vec<Key>,
    /// Of transactions that did not abort, or of all; sorted by key, then transaction.
    pub(super) reads: Vec<Read>,
    /// Of all transactions; sorted by key, then transaction, then step.
    pub(super) writes: Vec<Write>,
    /// Of the same.
    pub(super) internal: Vec<Internal<'h>>,
    /// Places in `reads` by transaction, and where those of each transaction begin.
    reads_by_transaction: Vec<u32>,
    transaction_offsets: Vec<u32>,
    /// The reads and writes of key `n` lie between offsets `n` and `n + 1`.
    read_offsets: Vec<u32>,
    write_offsets: Vec<u32>,
    /// The first write of a value to a key.
    by_value: HashMap<(u32, Option<Value>), u32>,
}

/// What the transaction at hand must expect of a key.
#[derive(Clone, Debug)]
struct Local {
    /// The transaction for which the rest holds, plus one.
    stamp: u32,
    /// Lists: the external read, if there was one.
    base: Option<(u32, u32)>,
    /// Lists: what it appended itself.
    own: Vec<Value>,
    /// Registers: what it read or wrote.
    value: Option<Option<Value>>,
    /// Its last write, in the order of walking.
    last_write: u32,
}

impl<'h> Accesses<'h> {
    pub(super) fn new(history: &'h History) -> Self {
        Self::of(history, false)
    }

    /// Those of aborted attempts, too, if asked: where it is known what they read.
    pub(super) fn of(history: &'h History, with_aborted: bool) -> Self {
        let keys = all_keys(history);
        let mut walk = Walk::new(history, &keys);
        walk.with_aborted = with_aborted;
        for number in 0..history.transactions().len() as u32 {
            walk.transaction(number);
        }
        let Walk { mut reads, mut writes, internal, .. } = walk;
        reads.sort_by_key(|read| (read.key, read.transaction));
        writes.sort_by_key(|write| write.key);
        let read_offsets = offsets(keys.len(), reads.iter().map(|read| read.key));
        let write_offsets = offsets(keys.len(), writes.iter().map(|write| write.key));
        let transactions = history.transactions().len();
        let transaction_offsets = offsets(transactions, reads.iter().map(|read| read.transaction));
        let mut next = transaction_offsets.clone();
        let mut reads_by_transaction = vec![0; reads.len()];
        for (place, read) in (0..).zip(&reads) {
            let next = &mut next[read.transaction as usize];
            reads_by_transaction[*next as usize] = place;
            *next += 1;
        }
        let mut by_value = HashMap::with_capacity(writes.len());
        for number in (0..writes.len() as u32).rev() {
            let write = &mut writes[number as usize];
            let first = by_value.insert((write.key, write.value), number);
            write.next_same = first.unwrap_or(NONE);
        }
        Self {
            history,
            keys,
            reads,
            writes,
            internal,
            reads_by_transaction,
            transaction_offsets,
            read_offsets,
            write_offsets,
            by_value,
        }
    }

    pub(super) fn transaction(&self, number: u32) -> &'h Transaction {
        &self.history.transactions()[number as usize]
    }

    /// The places in `reads` of those of `key`.
    pub(super) fn places_of(&self, key: u32) -> Range<usize> {
        let key = key as usize;
        self.read_offsets[key] as usize..self.read_offsets[key + 1] as usize
    }

    pub(super) fn reads_of(&self, key: u32) -> &[Read] {
        &self.reads[self.places_of(key)]
    }

    /// The places in `reads` of those of a transaction.
    pub(super) fn places_by(&self, transaction: u32) -> &[u32] {
        let transaction = transaction as usize;
        let offsets = &self.transaction_offsets;
        &self.reads_by_transaction[offsets[transaction] as usize..offsets[transaction + 1] as usize]
    }

    /// Whether a transaction's external read found no such register.
    pub(super) fn found_nothing(&self, transaction: u32, key: u32) -> bool {
        let reads = self.reads_of(key);
        let place = reads.partition_point(|read| read.transaction < transaction);
        reads
            .get(place)
            .is_some_and(|read| read.transaction == transaction && read.seen == Seen::Register(None))
    }

    pub(super) fn writes_of(&self, key: u32) -> &[Write] {
        let key = key as usize;
        &self.writes[self.write_offsets[key] as usize..self.write_offsets[key + 1] as usize]
    }

    /// All writes of `value` to `key`.
    pub(super) fn writes_of_value(&self, key: u32, value: Option<Value>) -> impl Iterator<Item = &Write> {
        let mut next = self.by_value.get(&(key, value)).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let write = self.writes.get(next as usize)?;
            next = write.next_same;
            Some(write)
        })
    }

    /// The elements that an external read of a list saw.
    pub(super) fn list(&self, read: &Read) -> &'h [Value] {
        let Seen::List { op, len } = read.seen else {
            return &[];
        };
        match &self.transaction(read.transaction).ops[op as usize] {
            MicroOp::ReadList { list: Some(list), .. } => &list[..len as usize],
            _ => &[],
        }
    }
}

/// For each group where its part of the rows begins, and the end of the last.
fn offsets(groups: usize, rows: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut offsets = vec![0; groups + 1];
    for group in rows {
        offsets[group as usize + 1] += 1;
    }
    for group in 0..groups {
        offsets[group + 1] += offsets[group];
    }
    offsets
}

/// All keys of the history, in order.
fn all_keys(history: &History) -> Vec<Key> {
    let mut keys = Vec::new();
    for op in history.transactions().iter().flat_map(|transaction| &transaction.ops) {
        match op {
            MicroOp::Append { key, .. }
            | MicroOp::ReadList { key, .. }
            | MicroOp::Write { key, .. }
            | MicroOp::ReadRegister { key, .. } => keys.push(*key),
            MicroOp::Scan { found, .. } => {
                keys.extend(found.iter().flatten().map(|&(key, _)| key));
            }
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

struct Walk<'h, 'k> {
    history: &'h History,
    keys: &'k [Key],
    internal: Vec<Internal<'h>>,
    numbers: HashMap<Key, u32>,
    /// The keys that someone may have written, in order: only of these does absence tell.
    written: Vec<u32>,
    locals: Vec<Local>,
    reads: Vec<Read>,
    writes: Vec<Write>,
    /// Whether the reads of aborted attempts are looked at.
    with_aborted: bool,
    /// For each key the last scan that found it, by a number of the scan's own.
    found_in: Vec<u32>,
    scans: u32,
}

impl<'h, 'k> Walk<'h, 'k> {
    fn new(history: &'h History, keys: &'k [Key]) -> Self {
        let numbers: HashMap<Key, u32> = keys.iter().copied().zip(0..).collect();
        let mut written = Vec::new();
        if history.model() == Model::Registers {
            for transaction in history.transactions() {
                for op in &transaction.ops {
                    if let MicroOp::Write { key, .. } = op
                        && transaction.outcome != Outcome::Fail
                    {
                        written.push(numbers[key]);
                    }
                }
            }
            written.sort_unstable();
            written.dedup();
        }
        let fresh = Local { stamp: 0, base: None, own: Vec::new(), value: None, last_write: NONE };
        Self {
            history,
            keys,
            internal: Vec::new(),
            numbers,
            written,
            locals: vec![fresh; keys.len()],
            reads: Vec::new(),
            writes: Vec::new(),
            with_aborted: false,
            found_in: vec![0; keys.len()],
            scans: 0,
        }
    }

    fn transaction(&mut self, number: u32) {
        let transaction = &self.history.transactions()[number as usize];
        for (place, op) in (0..).zip(&transaction.ops) {
            let reads_count = self.with_aborted || transaction.outcome != Outcome::Fail;
            match op {
                MicroOp::Append { key, value } => {
                    let key = self.numbers[key];
                    self.local(number, key).own.push(*value);
                    self.write(number, key, Some(*value));
                }
                MicroOp::Write { key, value } => {
                    let key = self.numbers[key];
                    self.local(number, key).value = Some(*value);
                    self.write(number, key, *value);
                }
                MicroOp::ReadList { key, list: Some(list) } if reads_count => {
                    let key = self.numbers[key];
                    self.read_list(number, key, place, list);
                }
                // In an aborted attempt, or an unknown outcome, `null` is no read.
                MicroOp::ReadRegister { key, value }
                    if reads_count && (value.is_some() || transaction.outcome == Outcome::Ok) =>
                {
                    let key = self.numbers[key];
                    self.read_register(number, key, *value, false);
                }
                MicroOp::Scan { low, high, found: Some(found) } if reads_count => {
                    self.scan(number, *low, *high, found);
                }
                _ => {}
            }
        }
    }

    fn local(&mut self, transaction: u32, key: u32) -> &mut Local {
        let local = &mut self.locals[key as usize];
        if local.stamp != transaction + 1 {
            local.stamp = transaction + 1;
            local.base = None;
            local.own.clear();
            local.value = None;
            local.last_write = NONE;
        }
        local
    }

    fn write(&mut self, transaction: u32, key: u32, value: Option<Value>) {
        let number = self.writes.len() as u32;
        let before = std::mem::replace(&mut self.local(transaction, key).last_write, number);
        if let Some(before) = self.writes.get_mut(before as usize) {
            before.last = false;
        }
        self.writes.push(Write { transaction, key, value, last: true, next_same: NONE });
    }

    fn read_list(&mut self, transaction: u32, key: u32, op: u32, list: &'h [Value]) {
        let ops = &self.history.transactions()[transaction as usize].ops;
        let local = self.local(transaction, key);
        let outside = list.len().wrapping_sub(local.own.len());
        let own_at_end = list.get(outside..) == Some(&local.own[..]);
        let before = match local.base {
            None => None,
            Some((op, len)) => match &ops[op as usize] {
                MicroOp::ReadList { list: Some(before), .. } => before.get(..len as usize),
                _ => None,
            },
        };
        let as_before = before.is_none_or(|before| list.get(..outside) == Some(before));
        if !own_at_end || !as_before {
            let what = Contradiction::List { before, own: local.own.clone(), list };
            let key = self.keys[key as usize];
            self.internal.push(Internal { transaction, key, what });
        } else if local.base.is_none() {
            let len = outside as u32;
            local.base = Some((op, len));
            self.reads.push(Read { transaction, key, seen: Seen::List { op, len }, predicate: false });
        }
    }

    fn read_register(&mut self, transaction: u32, key: u32, value: Option<Value>, predicate: bool) {
        let local = self.local(transaction, key);
        match local.value {
            None => {
                local.value = Some(value);
                let seen = Seen::Register(value);
                self.reads.push(Read { transaction, key, seen, predicate });
            }
            Some(expected) if expected != value => {
                let what = Contradiction::Register { wrote: local.last_write != NONE, expected, value };
                let key = self.keys[key as usize];
                self.internal.push(Internal { transaction, key, what });
            }
            Some(_) => {}
        }
    }

    fn scan(&mut self, transaction: u32, low: Key, high: Key, found: &[(Key, Value)]) {
        self.scans += 1;
        for &(key, value) in found {
            let number = self.numbers[&key];
            let twice = self.found_in[number as usize] == self.scans;
            if twice || key < low || key > high {
                let what = Contradiction::Scan { low, high, twice };
                self.internal.push(Internal { transaction, key, what });
                continue;
            }
            self.found_in[number as usize] = self.scans;
            self.read_register(transaction, number, Some(value), false);
        }
        let first = self.written.partition_point(|&number| self.keys[number as usize] < low);
        for place in first..self.written.len() {
            let number = self.written[place];
            if self.keys[number as usize] > high {
                break;
            }
            if self.found_in[number as usize] != self.scans {
                self.read_register(transaction, number, None, true);
            }
        }
    }
}
