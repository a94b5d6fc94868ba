//! Proof that a history is serializable: an order, and the run that shows it.
//!
//! That no cycle was found says only that none follows from what could be inferred. So an order
//! of all transactions is built along the graph and the history is run in it, one transaction
//! after another, on a plain map: if each read comes out as recorded, the history *is*
//! serializable, whatever the checker may have got wrong on the way. The run knows nothing of
//! versions, sources and edges.
//!
//! Building the order is greedy. A transaction may run once all before it in the graph have, the
//! versions that it read are the current ones, and no other transaction has still to read the
//! versions that it overwrites. With lists the graph alone suffices. With registers written
//! blindly a wrong choice may leave no transaction that could run; then the order is begun anew
//! with other preferences, a few times: who ended first, who began first, then any.
//!
//! What this does not do: go back on a choice. To decide such histories for certain is
//! NP-complete (Papadimitriou, *The Serializability of Concurrent Database Updates*, 1979).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::access::{Accesses, Read, Seen};
use super::graph::Graph;
use super::registers::Source;
use crate::history::{History, Key, MicroOp, Model, Outcome, Value};

/// An attempt at an order may try each transaction this often, on average.
const TRIES_EACH: usize = 20;
/// Attempts at an order with different preferences.
const ATTEMPTS: u64 = 64;
/// Tries of a transaction in all attempts, of which the first is made in any case.
const TRIES_ALL: usize = 5_000_000;

/// Whether a serial order of the committed transactions that keeps to `graph` was found and
/// explains every read.
pub(super) fn proves(accesses: &Accesses<'_>, committed: &[bool], sources: &[Source], graph: &Graph) -> bool {
    let mut tries = 0;
    for attempt in 0..ATTEMPTS {
        let mut schedule = Schedule::new(accesses, sources, graph, attempt);
        let order = schedule.run(committed);
        if order.is_some_and(|order| explains(accesses.history, &order)) {
            return true;
        }
        tries += schedule.tries;
        if tries > TRIES_ALL || accesses.history.model() == Model::Lists {
            break;
        }
    }
    false
}

/// The state of a register while an order is built.
#[derive(Clone, Copy)]
struct Current {
    source: Source,
    value: Option<Value>,
    /// How many have still to read it, of those known to have read this version.
    pending: u32,
}

struct Schedule<'a, 'h> {
    accesses: &'a Accesses<'h>,
    sources: &'a [Source],
    graph: &'a Graph,
    /// Registers only; empty for lists, which need no more than the graph.
    current: Vec<Current>,
    readers: HashMap<(u32, Source), u32>,
    /// The last write of each key by each transaction, as places in the writes.
    writes: Vec<Vec<u32>>,
    /// Transactions that wait for a change of the key.
    parked: Vec<Vec<u32>>,
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    /// Says which transactions to prefer.
    attempt: u64,
    /// How often a transaction or junction was tried.
    tries: usize,
}

impl<'a, 'h> Schedule<'a, 'h> {
    fn new(accesses: &'a Accesses<'h>, sources: &'a [Source], graph: &'a Graph, attempt: u64) -> Self {
        let mut schedule = Self {
            accesses,
            sources,
            graph,
            current: Vec::new(),
            readers: HashMap::new(),
            writes: Vec::new(),
            parked: Vec::new(),
            ready: BinaryHeap::new(),
            attempt,
            tries: 0,
        };
        if accesses.history.model() == Model::Lists {
            return schedule;
        }
        for (read, &source) in accesses.reads.iter().zip(sources) {
            if known(source) {
                *schedule.readers.entry((read.key, source)).or_default() += 1;
            }
        }
        let initial = |key| Current {
            source: Source::Initial,
            value: None,
            pending: schedule.readers.get(&(key, Source::Initial)).copied().unwrap_or(0),
        };
        schedule.current = (0..accesses.keys.len() as u32).map(initial).collect();
        schedule.parked = vec![Vec::new(); accesses.keys.len()];
        schedule.writes = vec![Vec::new(); accesses.history.transactions().len()];
        for (place, write) in (0..).zip(&accesses.writes) {
            // The delete of what was absent makes no new absence: who read the old one may come later.
            let nothing = write.value.is_none() && accesses.found_nothing(write.transaction, write.key);
            if write.last && !nothing {
                schedule.writes[write.transaction as usize].push(place);
            }
        }
        schedule
    }

    fn run(&mut self, committed: &[bool]) -> Option<Vec<u32>> {
        let transactions = committed.len() as u32;
        let mut before = vec![0_u32; self.graph.nodes() as usize];
        for edge in self.graph.edges() {
            before[edge.to as usize] += 1;
        }
        for node in 0..self.graph.nodes() {
            let counts = committed.get(node as usize).is_none_or(|&committed| committed);
            if counts && before[node as usize] == 0 {
                self.make_ready(node);
            }
        }
        let wanted = committed.iter().filter(|&&committed| committed).count();
        let mut order = Vec::with_capacity(wanted);
        let tries_max = TRIES_EACH * (self.graph.nodes() as usize + 1);
        while let Some(Reverse((_, node))) = self.ready.pop() {
            self.tries += 1;
            if self.tries > tries_max {
                return None;
            }
            if node < transactions {
                if let Some(key) = self.waits_for(node) {
                    self.parked[key as usize].push(node);
                    continue;
                }
                self.execute(node);
                order.push(node);
            }
            for edge in self.graph.out(node) {
                let before = &mut before[edge.to as usize];
                *before -= 1;
                if *before == 0 {
                    self.make_ready(edge.to);
                }
            }
        }
        (order.len() == wanted).then_some(order)
    }

    fn make_ready(&mut self, node: u32) {
        let transaction = self.accesses.history.transactions().get(node as usize);
        let preference = match (transaction, self.attempt) {
            (None, _) => 0,
            (Some(transaction), 0) => transaction.finish_ns.unwrap_or(transaction.start_ns),
            (Some(transaction), 1) => transaction.start_ns,
            // Any order that differs from one attempt to the next and repeats.
            (Some(_), attempt) => {
                let mixed = (u64::from(node) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (attempt << 1));
                (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
            }
        };
        self.ready.push(Reverse((preference, node)));
    }

    fn reads(&self, transaction: u32) -> impl Iterator<Item = (&'a Read, Source)> + use<'a, 'h> {
        let (accesses, sources) = (self.accesses, self.sources);
        let places = accesses.places_by(transaction).iter();
        places.map(|&place| (&accesses.reads[place as usize], sources[place as usize]))
    }

    /// A key that must change before `transaction` can run.
    fn waits_for(&self, transaction: u32) -> Option<u32> {
        if self.current.is_empty() {
            return None;
        }
        for (read, source) in self.reads(transaction) {
            let current = self.current[read.key as usize];
            let right = if known(source) {
                current.source == source
            } else {
                read.seen == Seen::Register(current.value)
            };
            if !right {
                return Some(read.key);
            }
        }
        self.writes[transaction as usize].iter().map(|&place| self.accesses.writes[place as usize].key).find(
            |&key| {
                let own = self
                    .reads(transaction)
                    .filter(|(read, source)| read.key == key && known(*source))
                    .count() as u32;
                self.current[key as usize].pending > own
            },
        )
    }

    fn execute(&mut self, transaction: u32) {
        if self.current.is_empty() {
            return;
        }
        for (read, source) in self.reads(transaction) {
            if known(source) {
                let current = &mut self.current[read.key as usize];
                current.pending -= 1;
                if current.pending <= 1 {
                    self.wake(read.key);
                }
            }
        }
        for place in std::mem::take(&mut self.writes[transaction as usize]) {
            let write = self.accesses.writes[place as usize];
            let source = Source::Written(transaction);
            let pending = self.readers.get(&(write.key, source)).copied().unwrap_or(0);
            self.current[write.key as usize] = Current { source, value: write.value, pending };
            self.wake(write.key);
        }
    }

    fn wake(&mut self, key: u32) {
        for node in std::mem::take(&mut self.parked[key as usize]) {
            self.make_ready(node);
        }
    }
}

fn known(source: Source) -> bool {
    matches!(source, Source::Initial | Source::Written(_))
}

/// Runs the transactions in `order`: whether every read comes out as recorded.
fn explains(history: &History, order: &[u32]) -> bool {
    let mut lists: HashMap<Key, Vec<Value>> = HashMap::new();
    let mut registers: BTreeMap<Key, Value> = BTreeMap::new();
    for &number in order {
        let transaction = &history.transactions()[number as usize];
        for op in &transaction.ops {
            let right = match op {
                MicroOp::Append { key, value } => {
                    lists.entry(*key).or_default().push(*value);
                    true
                }
                MicroOp::ReadList { key, list } => {
                    let there = lists.get(key).map_or(&[][..], Vec::as_slice);
                    list.as_ref().is_none_or(|list| list == there)
                }
                MicroOp::Write { key, value: Some(value) } => {
                    registers.insert(*key, *value);
                    true
                }
                MicroOp::Write { key, value: None } => {
                    registers.remove(key);
                    true
                }
                MicroOp::ReadRegister { key, value } => {
                    let unread = value.is_none() && transaction.outcome == Outcome::Info;
                    unread || registers.get(key) == value.as_ref()
                }
                MicroOp::Scan { low, high, found } => found.as_ref().is_none_or(|found| {
                    let mut found = found.clone();
                    found.sort_unstable();
                    let in_range = registers.range(*low..).take_while(|(key, _)| *key <= high);
                    in_range.map(|(&key, &value)| (key, value)).eq(found)
                }),
            };
            if !right {
                return false;
            }
        }
    }
    true
}
