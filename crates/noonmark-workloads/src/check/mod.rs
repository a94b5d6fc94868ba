//! Is this history serializable? And if not, why not?
//!
//! The checker knows a history and nothing of the engine that made it. It infers, key by key,
//! which version each read saw and which version followed which, draws from that who must have
//! come before whom, and looks for somebody who must come before himself. What it finds it
//! names in Adya's terms and explains with the transactions, keys and values that force it.
//!
//! ```text
//! history ─ access ─ what each transaction took from others and left to others
//!              │
//!        lists, registers ─ bad reads; ww, wr and rw edges, key by key
//!              │         order ─ edges of sessions and of real time, where asked
//!              │         lives ─ edges between those that found a deleted key and those that did not
//!              │         blind ─ edges between who wrote a key without reading it, and who read it
//!            graph ─ strongly connected components
//!              │
//!      cycle, words ─ a short cycle of each, its name, and why
//!           witness ─ or a serial order that explains every read
//! ```
//!
//! # What counts
//!
//! Committed transactions count. One of unknown outcome counts if a transaction that counts
//! read something it wrote; if none did, leaving it out of the serial order is always right. An
//! aborted one counts only as what must not have been read. The reads of aborted transactions
//! are judged where opacity is asked (see `opacity.rs`).
//!
//! # Soundness and completeness
//!
//! Every edge is forced: it holds in each serial order that could explain the history. So an
//! anomaly is never false. With lists nothing is missed either: without an anomaly there is
//! such an order. With registers the order of versions may not be known (see `registers.rs`);
//! then the verdict is [`Verdict::Proved`] if an order that explains all reads was found, and
//! [`Verdict::Undecided`] if not. Write registers with unique values, and after reading them;
//! then nearly everything is known, however often they are deleted and put back (see `lives.rs`). What else follows of the order of transactions, `blind.rs` finds.
//!
//! # Names
//!
//! A cycle of the weakest class is searched first, so a name says how weak an isolation would
//! already forbid the history: G0 (writes alone), G1c (and reads of them), G-single (exactly
//! one anti-dependency, of an item or a predicate), G2-item (more of them), G2 (more of them,
//! one of a predicate, that is: a scan did not find what another put there). `-process` and
//! `-realtime` say that only the order of sessions or of real time closes the cycle.
//!
//! Sources: Adya, *Weak Consistency* (MIT 1999); Kingsbury and Alvaro, *Elle* (VLDB 2020).
//! Departures: the scan and its predicate edges; each serializable verdict comes with a run
//! that shows it (`witness.rs`); `null` may be several versions, told apart by what else is known
//! (`lives.rs`); a G-single may be of a predicate.
//!
//! # What this does not do
//!
//! It does not search all orders of registers
//! that were written without being read, and it does not read parts of a history: all of it is
//! in memory.

mod access;
mod blind;
mod cycle;
mod graph;
mod lists;
mod lives;
mod opacity;
mod order;
mod reach;
mod registers;
mod report;
mod witness;
mod words;

use access::Accesses;
use blind::Blind;
use graph::{EdgeKind, Graph, GraphBuilder, Kinds};
use lives::Lives;
use reach::Reach;
use registers::Source;
use report::Findings;

pub use report::{Anomaly, AnomalyKind, EdgeCounts, Needs, Report, Verdict};

use crate::history::{History, Model, Outcome};

/// Rounds of conclusions from conclusions, in each order asked. Where they are more, some are missed.
const ROUNDS_MAX: usize = 200;

/// What is asked of a history beyond serializability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// The serial order keeps to the order of each process.
    pub session: bool,
    /// The serial order keeps to real time; this includes the order of each process.
    pub strict: bool,
    /// The history is opaque: aborted attempts, too, saw what there was at one moment of their time. This includes
    /// strictness.
    pub opaque: bool,
}

/// Decides whether `history` is serializable, in the order that `options` ask.
#[must_use]
pub fn check(history: &History, options: &Options) -> Report {
    let strict = options.strict || options.opaque;
    let options = Options { session: options.session || strict, strict, ..*options };
    let mut findings = Findings::default();
    if !options.opaque {
        return judge(history, options, findings);
    }
    let attempts = opacity::as_readers(history, &mut findings);
    let count = |outcome| history.transactions().iter().filter(|t| t.outcome == outcome).count();
    Report {
        transactions: history.transactions().len(),
        ok: count(Outcome::Ok),
        fail: count(Outcome::Fail),
        ..judge(&attempts, options, findings)
    }
}

/// As [`check`], with what has been found already.
fn judge(history: &History, options: Options, mut findings: Findings) -> Report {
    let accesses = Accesses::new(history);
    let committed = committed(&accesses);
    let transactions = committed.len() as u32;
    for internal in &accesses.internal {
        if committed[internal.transaction as usize] {
            findings
                .add(AnomalyKind::Internal, &[internal.transaction], || words::internal(history, internal));
        }
    }

    let mut builder = GraphBuilder::new(transactions);
    let mut sources = vec![Source::Ambiguous; accesses.reads.len()];
    let mut ordered = vec![true; accesses.keys.len()];
    for key in 0..accesses.keys.len() as u32 {
        ordered[key as usize] = match history.model() {
            Model::Lists => lists::infer(&accesses, &committed, key, &mut builder, &mut findings),
            Model::Registers => registers::infer(
                &accesses,
                &committed,
                key,
                options.strict,
                &mut sources,
                &mut builder,
                &mut findings,
            ),
        };
    }
    if options.session {
        order::sessions(&accesses, &committed, &mut builder);
    }
    if options.strict {
        order::real_time(&accesses, &committed, &mut builder);
    }

    let mut lives = match history.model() {
        Model::Lists => Lives::default(),
        Model::Registers => Lives::new(&accesses, &committed, &sources, &mut findings),
    };
    let unordered = (0..).zip(&ordered).filter(|&(key, ordered)| !ordered && !lives.tells_of(key));
    let mut blind = Blind::new(&accesses, &committed, &sources, unordered.map(|(key, _)| key));
    let mut none = Blind::default();
    let mut graph = settle(&accesses, &options, &mut lives, &mut none, builder.build(), &mut sources);
    lives.tell_ordered(&sources, &mut ordered);
    find_cycles(&accesses, &committed, &graph, &mut findings);
    let mut is_proved = findings.is_empty() && witness::proves(&accesses, &committed, &sources, &graph);
    // Most histories are decided without what follows of blind writes, which takes longest.
    if findings.is_empty() && !is_proved && !blind.is_empty() {
        graph = settle(&accesses, &options, &mut lives, &mut blind, graph, &mut sources);
        find_cycles(&accesses, &committed, &graph, &mut findings);
        is_proved = findings.is_empty() && witness::proves(&accesses, &committed, &sources, &graph);
    }

    let verdict = match (findings.is_empty(), is_proved) {
        (false, _) => Verdict::Violated,
        (true, true) => Verdict::Proved,
        (true, false) => Verdict::Undecided,
    };
    let ambiguous = |(read, source): &(&access::Read, &Source)| {
        history.model() == Model::Registers
            && **source == Source::Ambiguous
            && committed[read.transaction as usize]
    };
    let ambiguous_reads = accesses.reads.iter().zip(&sources).filter(ambiguous).count();
    let count = |outcome| history.transactions().iter().filter(|t| t.outcome == outcome).count();
    let ok = count(Outcome::Ok);
    findings.anomalies.sort_by_key(|anomaly| anomaly.kind);
    Report {
        options,
        model: history.model(),
        verdict,
        anomalies: findings.anomalies,
        totals: findings.totals,
        transactions: committed.len(),
        ok,
        fail: count(Outcome::Fail),
        info: count(Outcome::Info),
        info_committed: committed.iter().filter(|&&committed| committed).count() - ok,
        keys: accesses.keys.len(),
        edges: count_edges(&graph),
        ambiguous_reads,
        keys_partly_ordered: ordered.iter().filter(|ordered| !**ordered).count(),
    }
}

/// Adds an anomaly for each component of the graph.
fn find_cycles(accesses: &Accesses<'_>, committed: &[bool], graph: &Graph, findings: &mut Findings) {
    let mut allowance = cycle::ALLOWANCE_EDGES;
    for mut component in graph.components(Kinds::of(&EdgeKind::ALL)) {
        component.sort_unstable();
        let cycle = cycle::shortest(graph, committed.len() as u32, &component, &mut allowance);
        // A component without a cycle would be a mistake here; it must not pass for no anomaly.
        let cycle = cycle.unwrap_or_default();
        let members: Vec<u32> = cycle.iter().map(|step| step.from).collect();
        findings.add(cycle::classify(&cycle), &members, || words::cycle(accesses, committed, &cycle));
    }
}

/// Adds what follows of keys that were deleted, or written without being read, each edge with the least order that it needs.
fn settle(
    accesses: &Accesses<'_>,
    options: &Options,
    lives: &mut Lives,
    blind: &mut Blind,
    mut graph: Graph,
    sources: &mut [Source],
) -> Graph {
    if lives.is_empty() && blind.is_empty() {
        return graph;
    }
    let stages = [
        (true, EdgeKind::Life),
        (options.session, EdgeKind::LifeBySession),
        (options.strict, EdgeKind::LifeByTime),
    ];
    for (_, stage) in stages.into_iter().filter(|&(asked, _)| asked) {
        let known = |kind: &EdgeKind| {
            (stage != EdgeKind::Life || !kind.needs_session())
                && (stage == EdgeKind::LifeByTime || !kind.needs_time())
        };
        let kinds = Kinds::of(&EdgeKind::ALL.into_iter().filter(known).collect::<Vec<_>>());
        for _ in 0..ROUNDS_MAX {
            let reach = Reach::new(&graph, kinds, |node| {
                let transaction = accesses.history.transactions().get(node as usize);
                transaction.map(|transaction| transaction.finish_ns.unwrap_or(transaction.start_ns))
            });
            // A cycle: nothing that follows of it would be worth knowing.
            let Some(reach) = reach else { return graph };
            let mut edges = Vec::new();
            lives.conclude(&reach, stage, &mut edges);
            blind.conclude(&reach, stage, &mut edges);
            // What lies too far apart for a path to be known is concluded again and again.
            let before = graph.edges().len();
            graph = graph.and(edges);
            if graph.edges().len() == before {
                lives.tell_sources(&reach, sources);
                break;
            }
        }
    }
    graph
}

fn count_edges(graph: &Graph) -> EdgeCounts {
    let mut counts = EdgeCounts::default();
    for edge in graph.edges() {
        match edge.kind {
            EdgeKind::Ww | EdgeKind::WwByTime => counts.ww += 1,
            EdgeKind::Wr => counts.wr += 1,
            EdgeKind::Rw | EdgeKind::RwByTime => counts.rw += 1,
            EdgeKind::RwPredicate | EdgeKind::RwPredicateByTime => counts.rw_predicate += 1,
            kind if kind.is_life() => counts.lives += 1,
            EdgeKind::Process => counts.process += 1,
            EdgeKind::RealTime => counts.real_time += 1,
            _ => {}
        }
    }
    counts
}

/// Which transactions count: those that committed, and those of unknown outcome whose writes
/// one that counts has read.
fn committed(accesses: &Accesses<'_>) -> Vec<bool> {
    let transactions = accesses.history.transactions();
    let mut committed: Vec<bool> = transactions.iter().map(|t| t.outcome == Outcome::Ok).collect();
    let is_info = |who: u32| transactions[who as usize].outcome == Outcome::Info;
    let mut has_info_write = vec![false; accesses.keys.len()];
    for write in accesses.writes.iter().filter(|write| is_info(write.transaction)) {
        has_info_write[write.key as usize] = true;
    }
    let mut open: Vec<u32> = (0..).zip(&committed).filter(|(_, c)| **c).map(|(n, _)| n).collect();
    let mut writers = Vec::new();
    while let Some(reader) = open.pop() {
        for &place in accesses.places_by(reader) {
            let read = &accesses.reads[place as usize];
            if !has_info_write[read.key as usize] {
                continue;
            }
            match accesses.history.model() {
                Model::Lists => writers.extend(accesses.list(read).iter().filter_map(|value| {
                    let mut writes = accesses.writes_of_value(read.key, Some(*value));
                    writes.next().map(|write| write.transaction)
                })),
                Model::Registers => writers.extend(registers::writer_behind(accesses, read)),
            }
            for writer in writers.drain(..) {
                if is_info(writer) && !std::mem::replace(&mut committed[writer as usize], true) {
                    open.push(writer);
                }
            }
        }
    }
    committed
}
