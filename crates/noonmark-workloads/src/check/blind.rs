//! Registers that are written without being read: which of their versions came first, where it follows from the order of transactions.
//!
//! Of two transactions that write a key, the later makes the later version. So what is known of their order tells of their versions, and the
//! other way round:
//!
//! ```text
//!   R read what A wrote, and B wrote the same key:
//!
//!   A comes before B   ⇒  R comes before B, which overwrote what R read
//!   B comes before R   ⇒  B comes before A, or R would have read what B wrote
//! ```
//!
//! "Comes before" is a path in the graph, as in `lives.rs`, whose names for what rests on such a conclusion hold here, too; and each conclusion may allow others.
//!
//! Of the writers of a key only those are looked at that stand near A or near R in a serial order of the graph: others are conclusions missed, never wrong ones.
//!
//! The rules are the saturation of Biswas and Enea, *On the Complexity of Checking Transactional Consistency* (OOPSLA 2019), §4, which is not enough to decide
//! serializability, for which one must choose.
//!
//! What this does not do: choose. Where two orders remain possible, `witness.rs` tries one.

use super::access::Accesses;
use super::graph::{Edge, EdgeKind};
use super::reach::Reach;
use super::registers::Source;

/// So many writers are looked at before A, after A, before R and after R.
const NEAR: usize = 64;

/// What one transaction read of another.
#[derive(Clone, Copy, Debug)]
struct Reading {
    writer: u32,
    reader: u32,
    predicate: bool,
}

#[derive(Debug)]
struct KeyWrites {
    key: u32,
    writers: Vec<u32>,
    readings: Vec<Reading>,
}

/// The registers whose versions are to be told apart.
#[derive(Debug, Default)]
pub(super) struct Blind {
    keys: Vec<KeyWrites>,
}

impl Blind {
    /// Those of these keys that several transactions wrote, and somebody read.
    pub(super) fn new(
        accesses: &Accesses<'_>,
        committed: &[bool],
        sources: &[Source],
        keys: impl Iterator<Item = u32>,
    ) -> Self {
        let of_key = |key| {
            let counts = |who: u32| committed[who as usize];
            let writes =
                accesses.writes_of(key).iter().filter(|write| write.last && counts(write.transaction));
            let writers: Vec<u32> = writes.map(|write| write.transaction).collect();
            let read = |place: usize| match (sources[place], accesses.reads[place]) {
                (Source::Written(writer), read) if counts(read.transaction) => {
                    Some(Reading { writer, reader: read.transaction, predicate: read.predicate })
                }
                _ => None,
            };
            let readings: Vec<Reading> = accesses.places_of(key).filter_map(read).collect();
            (writers.len() > 1 && !readings.is_empty()).then_some(KeyWrites { key, writers, readings })
        };
        Self { keys: keys.filter_map(of_key).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// One round of the module's rules: what follows of these paths, as edges of `kind`.
    pub(super) fn conclude(&mut self, reach: &Reach, kind: EdgeKind, edges: &mut Vec<Edge>) {
        for KeyWrites { key, writers, readings } in &mut self.keys {
            writers.sort_unstable_by_key(|&writer| reach.place(writer));
            let near = |who: u32| {
                let at = writers.partition_point(|&writer| reach.place(writer) < reach.place(who));
                &writers[at.saturating_sub(NEAR)..(at + NEAR).min(writers.len())]
            };
            for &Reading { writer, reader, predicate } in readings.iter() {
                for &other in near(writer).iter().chain(near(reader)) {
                    if other == writer || other == reader {
                        continue;
                    }
                    if reach.comes_before(writer, other) && !reach.comes_before(reader, other) {
                        let kind = if predicate { kind.of_predicate() } else { kind };
                        edges.push(Edge { from: reader, to: other, kind, key: *key });
                    } else if reach.comes_before(other, reader) && !reach.comes_before(other, writer) {
                        edges.push(Edge { from: other, to: writer, kind, key: *key });
                    }
                }
            }
        }
    }
}
