//! The order of the versions of a register, as far as it can be inferred.
//!
//! A read tells which version it saw where only one write can be behind it; a transaction that
//! then wrote the register made the next version. The absent state comes before all versions.
//! That orders fully a register that is always read before it is written. Versions made
//! without a read have no known order, but that they come after the absent state and, where
//! strict order is asked, what real time says of them: a write that began after another ended
//! made the later version, and one that ended before a read began made no later version than
//! the read saw.
//!
//! A value written twice, and above all `null` once there are deletes, could come from several
//! writes (and `null` from the initial state): such a read is taken to say nothing about order
//! here. Which `null` it was, `lives.rs` finds out from everything else, where it can; what is
//! missed for the rest, `witness.rs` may still prove right, and the report says how many such
//! reads there are. So nothing false is reported.
//!
//! Source: Elle (VLDB 2020), §4.2.3 and §6.

use super::access::{Accesses, Read, Seen};
use super::graph::{EdgeKind, GraphBuilder, Tree};
use super::lists::lost_updates;
use super::report::{AnomalyKind, Findings};
use super::words;
use crate::history::Outcome;

/// Which version a read saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Source {
    /// The absent state before all writes.
    Initial,
    /// What this transaction wrote last.
    Written(u32),
    /// One of several.
    Ambiguous,
    /// None that it may see; reported.
    Bad,
}

/// What stands behind a read, if the history is serializable; or the write that it must not
/// have seen.
enum Origin {
    Good(Source),
    Intermediate(u32),
    Aborted(u32),
    Own,
    Garbage,
}

fn origin(accesses: &Accesses<'_>, read: &Read) -> Origin {
    let Seen::Register(value) = read.seen else {
        return Origin::Good(Source::Ambiguous);
    };
    let fails = |who: u32| accesses.transaction(who).outcome == Outcome::Fail;
    let mut live = None;
    let mut dead = None;
    let mut own = false;
    for write in accesses.writes_of_value(read.key, value) {
        if write.transaction == read.transaction {
            own = true;
        } else if fails(write.transaction) {
            dead = dead.or(Some(Origin::Aborted(write.transaction)));
        } else if !write.last {
            dead = Some(Origin::Intermediate(write.transaction));
        } else if live.replace(write.transaction).is_some() {
            return Origin::Good(Source::Ambiguous);
        }
    }
    match (live, dead, value) {
        (Some(_), _, None) => Origin::Good(Source::Ambiguous),
        (None, _, None) => Origin::Good(Source::Initial),
        (Some(writer), _, Some(_)) => Origin::Good(Source::Written(writer)),
        (None, Some(dead), Some(_)) => dead,
        (None, None, Some(_)) if own => Origin::Own,
        (None, None, Some(_)) => Origin::Garbage,
    }
}

/// The transaction whose write a read must have seen, unless the history is bad anyway.
pub(super) fn writer_behind(accesses: &Accesses<'_>, read: &Read) -> Option<u32> {
    match origin(accesses, read) {
        Origin::Good(Source::Written(writer)) | Origin::Intermediate(writer) => Some(writer),
        _ => None,
    }
}

/// Which version a read saw; says so if it must not have.
fn source(accesses: &Accesses<'_>, read: &Read, findings: &mut Findings) -> Source {
    let value = match read.seen {
        Seen::Register(value) => value,
        Seen::List { .. } => None,
    };
    match (origin(accesses, read), value) {
        (Origin::Good(source), _) => return source,
        (Origin::Intermediate(writer), value) => {
            findings.add(AnomalyKind::G1b, &[read.transaction, writer], || {
                words::intermediate(accesses, read, writer, value)
            });
        }
        (Origin::Aborted(writer), Some(value)) => {
            findings.add(AnomalyKind::G1a, &[read.transaction, writer], || {
                words::aborted(accesses, read, writer, value)
            });
        }
        (Origin::Own, Some(value)) => {
            findings
                .add(AnomalyKind::Internal, &[read.transaction], || words::own_future(accesses, read, value));
        }
        (Origin::Garbage, Some(value)) => {
            findings
                .add(AnomalyKind::GarbageRead, &[read.transaction], || words::garbage(accesses, read, value));
        }
        (Origin::Aborted(_) | Origin::Own | Origin::Garbage, None) => {}
    }
    Source::Bad
}

/// Adds what the reads and writes of `key` tell, and puts the source of each read in its place
/// of `sources`. Returns whether its versions have one order.
pub(super) fn infer(
    accesses: &Accesses<'_>,
    committed: &[bool],
    key: u32,
    by_time: bool,
    sources: &mut [Source],
    graph: &mut GraphBuilder,
    findings: &mut Findings,
) -> bool {
    let writers: Vec<u32> = accesses
        .writes_of(key)
        .iter()
        .filter(|write| write.last && committed[write.transaction as usize])
        .map(|write| write.transaction)
        .collect();
    let mut readers = Vec::new();
    // Each writer that read a known version, with that version; then the other writers.
    let mut updates = Vec::new();
    for place in accesses.places_of(key) {
        let read = accesses.reads[place];
        if !committed[read.transaction as usize] {
            continue;
        }
        let source = source(accesses, &read, findings);
        sources[place] = source;
        if let Source::Ambiguous | Source::Bad = source {
            continue;
        }
        let kind = if read.predicate { EdgeKind::RwPredicate } else { EdgeKind::Rw };
        readers.push((source, (read.transaction, kind)));
        if writers.binary_search(&read.transaction).is_ok() {
            updates.push((source, read.transaction));
        }
        if let Source::Written(writer) = source {
            graph.add(writer, read.transaction, EdgeKind::Wr, key);
        }
    }
    readers.sort_unstable();
    updates.sort_unstable();
    let mut updaters: Vec<u32> = updates.iter().map(|&(_, who)| who).collect();
    updaters.sort_unstable();
    // The versions that follow no known version: those of blind writes, and of those after the
    // absent state.
    let roots: Vec<u32> = {
        let from_absence = updates.iter().filter(|(source, _)| *source == Source::Initial);
        let blind = writers.iter().filter(|who| updaters.binary_search(who).is_err());
        let mut roots: Vec<u32> = from_absence.map(|(_, who)| who).chain(blind).copied().collect();
        roots.sort_unstable();
        roots
    };

    for group in readers.chunk_by(|a, b| a.0 == b.0) {
        let source = group[0].0;
        let sources: Vec<(u32, EdgeKind)> = group.iter().map(|&(_, reader)| reader).collect();
        if source == Source::Initial {
            graph.fan(&sources, &roots, key);
            continue;
        }
        let next = updates.partition_point(|&(other, _)| other < source);
        let next: Vec<u32> =
            updates[next..].iter().take_while(|&&(other, _)| other == source).map(|&(_, who)| who).collect();
        graph.fan(&sources, &next, key);
        if let Source::Written(writer) = source {
            for &next in &next {
                graph.add(writer, next, EdgeKind::Ww, key);
            }
        }
    }
    lost_updates(accesses, key, updates, findings);
    let ordered = roots.len() < 2;
    if by_time && !ordered {
        infer_by_time(accesses, key, &writers, &readers, graph);
    }
    ordered
}

/// What real time adds about the versions of `key`. `readers` are sorted by their source.
fn infer_by_time(
    accesses: &Accesses<'_>,
    key: u32,
    writers: &[u32],
    readers: &[(Source, (u32, EdgeKind))],
    graph: &mut GraphBuilder,
) {
    let start_ns = |who: u32| accesses.transaction(who).start_ns;
    let mut by_start: Vec<(u64, u32)> = writers.iter().map(|&who| (start_ns(who), who)).collect();
    by_start.sort_unstable();
    let mut by_finish: Vec<(u64, u32)> =
        writers.iter().filter_map(|&who| Some((accesses.transaction(who).finish_ns?, who))).collect();
    by_finish.sort_unstable();
    let starters: Vec<u32> = by_start.iter().map(|&(_, who)| who).collect();
    let finishers: Vec<u32> = by_finish.iter().map(|&(_, who)| who).collect();
    let later = Tree::outward(graph, &starters);
    let earlier = Tree::inward(graph, &finishers);
    for group in readers.chunk_by(|a, b| a.0 == b.0) {
        let Source::Written(writer) = group[0].0 else {
            continue;
        };
        let finish_ns = accesses.transaction(writer).finish_ns;
        if let Some(finish_ns) = finish_ns {
            // Who began after the write had ended overwrote what the readers saw.
            let first = by_start.partition_point(|&(start_ns, _)| start_ns <= finish_ns);
            for &(_, (reader, kind)) in group {
                let add = |node| graph.add(reader, node, kind.by_time(), key);
                without(&by_start, first, starters.len(), (start_ns(reader), reader), &later, add);
            }
        }
        // Who ended before a reader began wrote before what the reader saw.
        let last_start_ns = group.iter().map(|&(_, (who, _))| start_ns(who)).max().unwrap_or(0);
        let end = by_finish.partition_point(|&(finish_ns, _)| finish_ns < last_start_ns);
        let own = (finish_ns.unwrap_or(u64::MAX), writer);
        let add = |node| graph.add(node, writer, EdgeKind::WwByTime, key);
        without(&by_finish, 0, end, own, &earlier, add);
    }
}

/// Covers the stretch from `low` to `high` of a sorted row, but for `own` if it is there.
fn without(
    row: &[(u64, u32)],
    low: usize,
    high: usize,
    own: (u64, u32),
    tree: &Tree<'_>,
    mut add: impl FnMut(u32),
) {
    match row.binary_search(&own) {
        Ok(own) if (low..high).contains(&own) => {
            tree.cover(low, own, &mut add);
            tree.cover(own + 1, high, &mut add);
        }
        _ => tree.cover(low, high, &mut add),
    }
}
