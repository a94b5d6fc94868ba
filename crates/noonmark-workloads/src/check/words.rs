//! Anomalies in plain words.
//!
//! A transaction is called `T3 (process 2, line 17)` where it is first named, the line being
//! that of its completion, and `T3` from then on. What a sentence claims is looked up again in
//! the history, so that the graph need not carry it.

use std::fmt::Write as _;

use super::access::{Accesses, Contradiction, Internal, Read, Seen};
use super::cycle::Step;
use super::graph::EdgeKind;
use super::{lists, registers};
use crate::history::{History, MicroOp, Model, TransactionId, Value, list_text};

/// A transaction where it is first named.
fn full(history: &History, number: u32) -> String {
    let transaction = &history.transactions()[number as usize];
    let id = TransactionId(number);
    format!("{id} (process {}, line {})", transaction.process, transaction.line)
}

fn short(number: u32) -> TransactionId {
    TransactionId(number)
}

fn value_text(value: Option<Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), |value| value.to_string())
}

pub(super) fn internal(history: &History, internal: &Internal<'_>) -> String {
    let who = full(history, internal.transaction);
    let key = internal.key;
    match &internal.what {
        Contradiction::List { before, own, list } => {
            let mut text = format!("{who} read key {key} as {}", list_text(list));
            if let Some(before) = before {
                _ = write!(text, ", having read {} before", list_text(before));
            }
            if !own.is_empty() {
                _ = write!(text, ", having itself appended {}", list_text(own));
            }
            text
        }
        Contradiction::Register { wrote, expected, value } => {
            let having = match (wrote, expected) {
                (true, None) => "itself deleted it".to_owned(),
                (true, Some(value)) => format!("itself written {value}"),
                (false, expected) => format!("read it as {}", value_text(*expected)),
            };
            format!("{who} read key {key} as {}, having {having}", value_text(*value))
        }
        Contradiction::Scan { low, high, twice } => {
            let how = if *twice { "twice" } else { "which lies outside" };
            format!("{who} scanned keys {low} to {high} and found key {key} {how}")
        }
    }
}

/// What an external read saw, as in `read key 5 as [1 2]`.
fn saw(accesses: &Accesses<'_>, read: &Read) -> String {
    let key = accesses.keys[read.key as usize];
    match read.seen {
        Seen::List { .. } => format!("read key {key} as {}", list_text(accesses.list(read))),
        Seen::Register(None) if read.predicate => {
            let scan = accesses.transaction(read.transaction).ops.iter().find_map(|op| match op {
                MicroOp::Scan { low, high, found: Some(_) } if (*low..=*high).contains(&key) => {
                    Some((low, high))
                }
                _ => None,
            });
            match scan {
                Some((low, high)) => {
                    format!("scanned keys {low} to {high} and found no key {key}")
                }
                None => format!("found no key {key}"),
            }
        }
        Seen::Register(None) => format!("found no key {key}"),
        Seen::Register(Some(value)) => format!("read key {key} as {value}"),
    }
}

fn reader(accesses: &Accesses<'_>, read: &Read) -> String {
    format!("{} {}", full(accesses.history, read.transaction), saw(accesses, read))
}

fn verb(accesses: &Accesses<'_>) -> &'static str {
    match accesses.history.model() {
        Model::Lists => "appended",
        Model::Registers => "wrote",
    }
}

pub(super) fn duplicate(accesses: &Accesses<'_>, read: &Read, value: Value) -> String {
    format!("{}, which holds {value} twice", reader(accesses, read))
}

pub(super) fn garbage(accesses: &Accesses<'_>, read: &Read, value: Value) -> String {
    format!("{}, but nobody ever {} {value}", reader(accesses, read), verb(accesses))
}

pub(super) fn aborted(accesses: &Accesses<'_>, read: &Read, writer: u32, value: Value) -> String {
    let writer = full(accesses.history, writer);
    let verb = verb(accesses);
    format!("{}, but {value} was {verb} by {writer}, which aborted", reader(accesses, read))
        .replace("was wrote", "was written")
}

pub(super) fn own_future(accesses: &Accesses<'_>, read: &Read, value: Value) -> String {
    let verb = verb(accesses);
    format!("{}, before it itself {verb} that {value}", reader(accesses, read))
}

pub(super) fn intermediate(
    accesses: &Accesses<'_>,
    read: &Read,
    writer: u32,
    value: Option<Value>,
) -> String {
    let last = accesses
        .writes_of(read.key)
        .iter()
        .find(|write| write.transaction == writer && write.last)
        .map_or_else(String::new, |write| match write.value {
            Some(last) => format!(" {last}"),
            None => " the delete".to_owned(),
        });
    format!(
        "{}, but {} went on from {} to{last}: what was read is no version that it left",
        reader(accesses, read),
        full(accesses.history, writer),
        value_text(value),
    )
}

pub(super) fn incompatible(accesses: &Accesses<'_>, read: &Read, longest: &Read) -> String {
    format!(
        "{} and {}: neither continues the other, and a list only grows at its end",
        reader(accesses, read),
        reader(accesses, longest),
    )
}

pub(super) fn lost_update(accesses: &Accesses<'_>, key: u32, transactions: &[u32]) -> String {
    let names: Vec<String> = transactions.iter().take(8).map(|&who| full(accesses.history, who)).collect();
    let names = names.join(" and ");
    let first = transactions.first().and_then(|&who| read_by(accesses, who, key));
    let what = first.map_or_else(String::new, |read| saw(accesses, read));
    format!("{names} each {what} and overwrote that: one update was lost")
}

/// Transactions that each put a key where they had found none, and that nobody deleted again.
pub(super) fn put_twice(accesses: &Accesses<'_>, key: u32, transactions: &[u32]) -> String {
    let names: Vec<String> = transactions.iter().take(8).map(|&who| full(accesses.history, who)).collect();
    let names = names.join(" and ");
    let key = accesses.keys[key as usize];
    format!("{names} each found no key {key} and put one there, which nobody deleted: one update was lost")
}

fn read_by<'a>(accesses: &'a Accesses<'_>, who: u32, key: u32) -> Option<&'a Read> {
    let reads = accesses.reads_of(key);
    let place = reads.partition_point(|read| read.transaction < who);
    reads.get(place).filter(|read| read.transaction == who)
}

/// The values that a transaction gave a key, in its order.
fn given(accesses: &Accesses<'_>, who: u32, key: u32) -> Vec<Option<Value>> {
    let writes = accesses.writes_of(key).iter();
    writes.filter(|write| write.transaction == who).map(|write| write.value).collect()
}

/// As in `wrote 7` or `deleted it`.
fn wrote(value: Option<Value>, it: &str) -> String {
    match value {
        Some(value) => format!("wrote {value}{it}"),
        None => format!("deleted{it}"),
    }
}

/// A cycle, one sentence a step.
pub(super) fn cycle(accesses: &Accesses<'_>, committed: &[bool], steps: &[Step]) -> String {
    let mut named: Vec<u32> = Vec::new();
    let mut text = String::new();
    for step in steps {
        let mut name = |who: u32| {
            if named.contains(&who) {
                short(who).to_string()
            } else {
                named.push(who);
                full(accesses.history, who)
            }
        };
        let [from, to] = [step.from, step.to].map(&mut name);
        let sentence = match step.kind {
            EdgeKind::Process => {
                let process = accesses.transaction(step.to).process;
                format!("{from} ran before {to} in process {process}")
            }
            EdgeKind::RealTime => format!(
                "{from} ended at {} ns, before {to} began at {} ns",
                accesses.transaction(step.from).finish_ns.unwrap_or(0),
                accesses.transaction(step.to).start_ns,
            ),
            _ => match accesses.history.model() {
                Model::Lists => list_step(accesses, committed, step, &from, &to),
                Model::Registers => register_step(accesses, step, &from, &to),
            },
        };
        _ = write!(text, "{sentence}; ");
    }
    let first = steps.first().map_or(0, |step| step.from);
    _ = write!(text, "so {} must come before itself", short(first));
    text
}

fn list_step(accesses: &Accesses<'_>, committed: &[bool], step: &Step, from: &str, to: &str) -> String {
    let key = accesses.keys[step.key as usize];
    let longest = lists::longest(accesses, committed, step.key);
    let trace = longest.map_or(&[][..], |read| accesses.list(read));
    // Where each value of a transaction stands in the longest read; past its end if unread.
    let places = |who: u32| {
        given(accesses, who, step.key).into_iter().flatten().map(move |value| {
            let place = trace.iter().position(|&other| other == value);
            (place.unwrap_or(usize::MAX), value)
        })
    };
    match step.kind {
        EdgeKind::Wr => {
            let read = read_by(accesses, step.to, step.key);
            let list = read.map_or(&[][..], |read| accesses.list(read));
            let last = places(step.from).filter(|&(place, _)| place < list.len()).max();
            let value = value_text(last.map(|(_, value)| value));
            format!("{from} appended {value} to key {key}, which {to} read as {}", list_text(list))
        }
        EdgeKind::Rw | EdgeKind::RwByTime => {
            let read = read_by(accesses, step.from, step.key);
            let list = read.map_or(&[][..], |read| accesses.list(read));
            let next = places(step.to).filter(|&(place, _)| place >= list.len()).min();
            let value = value_text(next.map(|(_, value)| value));
            format!("{from} read key {key} as {}, to which {to} appended {value}", list_text(list))
        }
        _ => {
            let pair = places(step.from)
                .flat_map(|first| places(step.to).map(move |then| (first, then)))
                .filter(|(first, then)| first.0 < then.0)
                .min_by_key(|(first, then)| then.0 - first.0);
            let [first, then] = match pair {
                Some(((_, first), (_, then))) => [Some(first), Some(then)],
                None => [None, None],
            }
            .map(value_text);
            format!("{from} appended {first} to key {key} before {to} appended {then}")
        }
    }
}

fn register_step(accesses: &Accesses<'_>, step: &Step, from: &str, to: &str) -> String {
    let key = accesses.keys[step.key as usize];
    let last = |who| given(accesses, who, step.key).last().copied().flatten();
    let read = read_by(accesses, step.from, step.key);
    let seen = read.map_or_else(String::new, |read| saw(accesses, read));
    match step.kind {
        EdgeKind::Ww => {
            let first = wrote(last(step.from), &format!(" to key {key}"));
            let then = wrote(last(step.to), "");
            format!("{from} {first}, which {to} read and then {then}")
        }
        EdgeKind::Wr => {
            format!("{from} {}, which {to} read", wrote(last(step.from), &format!(" to key {key}")))
        }
        EdgeKind::WwByTime => {
            let [first, then] = [step.from, step.to].map(|who| wrote(last(who), ""));
            format!(
                "{from} {first} to key {key} and ended before a transaction began that still read what {to} wrote ({then})"
            )
        }
        EdgeKind::RwByTime | EdgeKind::RwPredicateByTime => {
            let behind = read.and_then(|read| registers::writer_behind(accesses, read));
            let behind = behind.map_or_else(String::new, |who| short(who).to_string());
            format!(
                "{from} {seen}, written by {behind}, after whose end {to} began and {}",
                wrote(last(step.to), "")
            )
        }
        // Of a key that is not only written after it was read: see `blind.rs`.
        kind if kind.is_life()
            && given(accesses, step.from, step.key).last().is_some_and(Option::is_some) =>
        {
            let [first, then] =
                [wrote(last(step.from), &format!(" to key {key}")), wrote(last(step.to), " there")];
            format!("{from} {first} before {to} {then}, as who comes after the one read what the other left")
        }
        kind if kind.is_life()
            && given(accesses, step.from, step.key).is_empty()
            && read.is_some_and(|read| read.seen != Seen::Register(None)) =>
        {
            format!(
                "{from} {seen}, and {to}, which comes after who left that, {}",
                wrote(last(step.to), " there")
            )
        }
        kind if kind.is_life() => {
            let deleted = read.is_some_and(|read| read.seen != Seen::Register(None));
            let puts = last(step.to).is_some();
            match (deleted, puts) {
                (true, true) => format!("{from} deleted key {key} before {to} put it there anew"),
                (true, false) => {
                    let read = read_by(accesses, step.to, step.key);
                    let seen = read.map_or_else(String::new, |read| saw(accesses, read));
                    format!("{from} deleted key {key} before {to}, which follows who put it there, {seen}")
                }
                (false, _) => {
                    format!("{from} {seen}, before {to}, whose key is not deleted by then, put it there")
                }
            }
        }
        _ => format!("{from} {seen}, and {to} then {}", wrote(last(step.to), " there")),
    }
}
