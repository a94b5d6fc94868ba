//! The order of the versions of a list: its longest read tells it.
//!
//! A list only grows, so each read must be the beginning of the longest one, whose elements
//! stand in the order of their appends. Appends that no read shows come after all that it
//! shows, in an order that is not known among themselves and that no read could depend on; so
//! with lists nothing is left open: the history is serializable exactly if there is neither a
//! bad read nor a cycle.
//!
//! Source: Elle (VLDB 2020), §4.2.2. Departure: unread appends are ordered after the read ones.

use std::collections::HashMap;

use super::access::{Accesses, NONE, Read};
use super::graph::{EdgeKind, GraphBuilder};
use super::report::{AnomalyKind, Findings};
use super::words;
use crate::history::{Outcome, Value};

/// The longest read of `key` that counts, the earliest if there are several.
pub(super) fn longest<'a>(accesses: &'a Accesses<'_>, committed: &[bool], key: u32) -> Option<&'a Read> {
    let reads = accesses.reads_of(key).iter().rev();
    reads.filter(|read| committed[read.transaction as usize]).max_by_key(|read| accesses.list(read).len())
}

/// Adds what the reads and appends of `key` tell. Returns whether its appends have one order.
pub(super) fn infer(
    accesses: &Accesses<'_>,
    committed: &[bool],
    key: u32,
    graph: &mut GraphBuilder,
    findings: &mut Findings,
) -> bool {
    let longest = longest(accesses, committed, key);
    let trace: &[Value] = longest.map_or(&[], |read| accesses.list(read));
    if let Some(longest) = longest {
        check_elements(accesses, longest, findings);
    }
    let order = Order::new(accesses, committed, key, trace);

    for pair in order.known.windows(2) {
        graph.add(pair[0].1, pair[1].1, EdgeKind::Ww, key);
    }
    if let Some(&(_, last)) = order.known.last() {
        for &unread in &order.unread {
            graph.add(last, unread, EdgeKind::Ww, key);
        }
    }

    let mut readers_of_all = Vec::new();
    // The lengths at which transactions read that also append.
    let mut updates = Vec::new();
    for read in accesses.reads_of(key) {
        if !committed[read.transaction as usize] {
            continue;
        }
        let list = accesses.list(read);
        if list != &trace[..list.len()] {
            check_elements(accesses, read, findings);
            let longest = longest.map_or(read, |longest| longest);
            let transactions = [read.transaction, longest.transaction];
            findings.add(AnomalyKind::IncompatibleOrder, &transactions, || {
                words::incompatible(accesses, read, longest)
            });
            continue;
        }
        let own = order.appenders.binary_search_by_key(&read.transaction, |&(who, _)| who);
        if let Ok(own) = own {
            let (_, first_own) = order.appenders[own];
            if first_own < list.len() {
                findings.add(AnomalyKind::Internal, &[read.transaction], || {
                    words::own_future(accesses, read, trace[first_own])
                });
                continue;
            }
            updates.push((list.len(), read.transaction));
        }
        let next = order.known.partition_point(|&(place, _)| place < list.len());
        if let Some(&(place, before)) = next.checked_sub(1).and_then(|at| order.known.get(at)) {
            graph.add(before, read.transaction, EdgeKind::Wr, key);
            if place + 1 == list.len() && before != read.transaction && !order.is_last[place] {
                findings.add(AnomalyKind::G1b, &[read.transaction, before], || {
                    words::intermediate(accesses, read, before, Some(trace[place]))
                });
            }
        }
        match order.known.get(next) {
            Some(&(_, after)) => graph.add(read.transaction, after, EdgeKind::Rw, key),
            None => readers_of_all.push((read.transaction, EdgeKind::Rw)),
        }
    }
    graph.fan(&readers_of_all, &order.unread, key);
    lost_updates(accesses, key, updates, findings);
    order.unread.len() < 2
}

/// The appends of one list, as its longest read shows them.
struct Order {
    /// The places of the longest read whose appender may count, each with the appender.
    known: Vec<(usize, u32)>,
    /// For each place whether its appender put nothing in this list afterwards.
    is_last: Vec<bool>,
    /// Who appended what no read shows; sorted, distinct.
    unread: Vec<u32>,
    /// All that appended and count, sorted, each with its first place; past the end if unread.
    appenders: Vec<(u32, usize)>,
}

impl Order {
    fn new(accesses: &Accesses<'_>, committed: &[bool], key: u32, trace: &[Value]) -> Self {
        let mut places = HashMap::with_capacity(trace.len());
        for (place, value) in trace.iter().enumerate() {
            places.entry(*value).or_insert(place);
        }
        let mut known = Vec::with_capacity(trace.len());
        let mut is_last = vec![true; trace.len()];
        let mut unread = Vec::new();
        let mut appenders = Vec::new();
        for write in accesses.writes_of(key) {
            if !committed[write.transaction as usize] {
                continue;
            }
            let place = write.value.and_then(|value| places.get(&value)).copied();
            match place {
                Some(place) => {
                    known.push((place, write.transaction));
                    is_last[place] = write.last;
                }
                None => unread.push(write.transaction),
            }
            appenders.push((write.transaction, place.unwrap_or(usize::MAX)));
        }
        known.sort_unstable();
        unread.dedup();
        appenders.sort_unstable();
        appenders.dedup_by_key(|&mut (who, _)| who);
        Self { known, is_last, unread, appenders }
    }
}

/// Reports elements that nobody appended, that an aborted transaction did, or that are there
/// twice.
fn check_elements(accesses: &Accesses<'_>, read: &Read, findings: &mut Findings) {
    let mut places = HashMap::new();
    for &value in accesses.list(read) {
        if places.insert(value, ()).is_some() {
            findings.add(AnomalyKind::DuplicateElements, &[read.transaction], || {
                words::duplicate(accesses, read, value)
            });
            continue;
        }
        let writer =
            accesses.writes_of_value(read.key, Some(value)).next().map_or(NONE, |write| write.transaction);
        if writer == NONE {
            findings
                .add(AnomalyKind::GarbageRead, &[read.transaction], || words::garbage(accesses, read, value));
        } else if accesses.transaction(writer).outcome == Outcome::Fail {
            findings.add(AnomalyKind::G1a, &[read.transaction, writer], || {
                words::aborted(accesses, read, writer, value)
            });
        }
    }
}

/// Reports each version that several transactions read and overwrote. `updates` holds each
/// transaction that read and wrote the key with what stands for the version that it read.
pub(super) fn lost_updates<V: Ord>(
    accesses: &Accesses<'_>,
    key: u32,
    mut updates: Vec<(V, u32)>,
    findings: &mut Findings,
) {
    updates.sort_unstable();
    for same in updates.chunk_by(|a, b| a.0 == b.0) {
        if same.len() > 1 {
            let transactions: Vec<u32> = same.iter().map(|&(_, who)| who).collect();
            findings.add(AnomalyKind::LostUpdate, &transactions, || {
                words::lost_update(accesses, key, &transactions)
            });
        }
    }
}
