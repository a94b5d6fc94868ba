//! What the checker found, as data and in words.

use std::collections::BTreeMap;
use std::fmt;

use super::Options;
use crate::history::{Model, TransactionId};

/// Of each kind of anomaly this many are explained; all are counted.
const EXPLAINED_PER_KIND: usize = 8;

/// Which order beyond the data a cycle needs; with [`Needs::Nothing`] the history is not even
/// serializable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Needs {
    /// None.
    Nothing,
    /// That of the transactions of one process.
    Session,
    /// That of transactions of which one ended before the other began.
    RealTime,
}

/// What is wrong. Those of Adya's bear his names (*Weak Consistency*, MIT 1999, §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AnomalyKind {
    /// A transaction read what contradicts its own earlier reads or writes.
    Internal,
    /// A value was read that nobody wrote.
    GarbageRead,
    /// A list holds a value twice that was appended once.
    DuplicateElements,
    /// Two reads of a list, neither of which continues the other.
    IncompatibleOrder,
    /// A committed transaction read what an aborted one wrote.
    G1a,
    /// A transaction read what another wrote and overwrote itself.
    G1b,
    /// Two transactions read the same version of a key, and both overwrote it.
    LostUpdate,
    /// A cycle of writes.
    G0(Needs),
    /// A cycle of writes and reads of what was written.
    G1c(Needs),
    /// A cycle with exactly one anti-dependency, of an item or of a predicate.
    GSingle(Needs),
    /// A cycle with two or more anti-dependencies, all of items.
    G2Item(Needs),
    /// A cycle with two or more anti-dependencies, at least one of a predicate (a phantom).
    G2(Needs),
}

impl fmt::Display for AnomalyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, needs) = match *self {
            Self::Internal => ("internal", Needs::Nothing),
            Self::GarbageRead => ("garbage read", Needs::Nothing),
            Self::DuplicateElements => ("duplicate elements", Needs::Nothing),
            Self::IncompatibleOrder => ("incompatible order", Needs::Nothing),
            Self::G1a => ("G1a", Needs::Nothing),
            Self::G1b => ("G1b", Needs::Nothing),
            Self::LostUpdate => ("lost update", Needs::Nothing),
            Self::G0(needs) => ("G0", needs),
            Self::G1c(needs) => ("G1c", needs),
            Self::GSingle(needs) => ("G-single", needs),
            Self::G2Item(needs) => ("G2-item", needs),
            Self::G2(needs) => ("G2", needs),
        };
        let suffix = match needs {
            Needs::Nothing => "",
            Needs::Session => "-process",
            Needs::RealTime => "-realtime",
        };
        f.pad(&format!("{name}{suffix}"))
    }
}

/// One thing that is wrong, explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// What it is.
    pub kind: AnomalyKind,
    /// Why, in plain words.
    pub explanation: String,
    /// The transactions in it; for a cycle in its order.
    pub transactions: Vec<TransactionId>,
}

/// How far the checker came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// There is an anomaly: no serial order explains the history.
    Violated,
    /// A serial order was found and run: every read comes out as recorded.
    Proved,
    /// Neither: no anomaly follows from what could be inferred, but some versions of registers
    /// have no known order and no serial order was found by trying.
    Undecided,
}

/// How many edges of each kind were inferred; where many transactions come before many others
/// they are counted as drawn, after saving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeCounts {
    /// Of two writes.
    pub ww: usize,
    /// From a write to its read.
    pub wr: usize,
    /// From a read to the write that overwrote what it saw.
    pub rw: usize,
    /// From a scan to the write of a key that it did not find.
    pub rw_predicate: usize,
    /// About when a key was there that was deleted and put back.
    pub lives: usize,
    /// Within a process.
    pub process: usize,
    /// By real time.
    pub real_time: usize,
}

/// The answer of [`super::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was asked.
    pub options: Options,
    /// What the keys are.
    pub model: Model,
    /// How far the checker came.
    pub verdict: Verdict,
    /// The first few anomalies of each kind, the plainest kinds first.
    pub anomalies: Vec<Anomaly>,
    /// How many there are of each kind.
    pub totals: BTreeMap<AnomalyKind, usize>,
    /// Transactions in all.
    pub transactions: usize,
    /// Those that committed.
    pub ok: usize,
    /// Those that aborted.
    pub fail: usize,
    /// Those of unknown outcome.
    pub info: usize,
    /// Those of unknown outcome that must have committed, as their writes were read.
    pub info_committed: usize,
    /// Keys in all.
    pub keys: usize,
    /// What was inferred.
    pub edges: EdgeCounts,
    /// Reads of registers that could have come from several writes, and so say nothing.
    pub ambiguous_reads: usize,
    /// Keys of which some writes have no known order among them.
    pub keys_partly_ordered: usize,
}

impl Report {
    /// Whether no anomaly was found; [`Report::verdict`] says whether there is none.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.totals.is_empty()
    }
}

/// Thousands apart, as in `100,000`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = match self.model {
            Model::Lists => "lists",
            Model::Registers => "registers",
        };
        write!(
            f,
            "history   {} transactions on {} {model}: {} ok, {} fail, {} info",
            grouped(self.transactions),
            grouped(self.keys),
            grouped(self.ok),
            grouped(self.fail),
            grouped(self.info),
        )?;
        if self.info_committed > 0 {
            write!(f, " ({} seen to have committed)", grouped(self.info_committed))?;
        }
        let EdgeCounts { ww, wr, rw, rw_predicate, lives, process, real_time } = self.edges;
        write!(f, "\nedges     {} ww, {} wr, {} rw", grouped(ww), grouped(wr), grouped(rw))?;
        let others = [
            ("predicate rw", rw_predicate),
            ("concluded", lives),
            ("process", process),
            ("real-time", real_time),
        ];
        for (name, count) in others.into_iter().filter(|&(_, count)| count > 0) {
            write!(f, ", {} {name}", grouped(count))?;
        }
        // Appends in no known order are those that nobody read: they hide nothing.
        let open = self.keys_partly_ordered > 0 || self.ambiguous_reads > 0;
        if self.model == Model::Registers && open {
            write!(
                f,
                "\nunknown   the order of some writes on {} keys; the write behind {} reads",
                grouped(self.keys_partly_ordered),
                grouped(self.ambiguous_reads),
            )?;
        }
        let property = match self.options {
            Options { opaque: true, .. } => "opaque",
            Options { strict: true, .. } => "strictly serializable",
            Options { session: true, .. } => "serializable in session order",
            Options { .. } => "serializable",
        };
        match self.verdict {
            Verdict::Proved => write!(
                f,
                "\nverdict   {property}: run in one serial order, every read comes out as recorded"
            )?,
            Verdict::Undecided => write!(
                f,
                "\nverdict   no anomaly found, not proved {property}: the order of some writes is not known, and no serial order was found by trying"
            )?,
            Verdict::Violated => {
                write!(f, "\nverdict   NOT {property}:")?;
                let mut separator = " ";
                for (kind, count) in &self.totals {
                    write!(f, "{separator}{} {kind}", grouped(*count))?;
                    separator = ", ";
                }
                for anomaly in &self.anomalies {
                    write!(f, "\n\n{}\n  {}", anomaly.kind, anomaly.explanation)?;
                }
                let explained = self.anomalies.len();
                let all: usize = self.totals.values().sum();
                if all > explained {
                    write!(f, "\n\n… and {} more", grouped(all - explained))?;
                }
            }
        }
        writeln!(f)
    }
}

/// Collects anomalies, putting only the first few of each kind into words.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) anomalies: Vec<Anomaly>,
    pub(super) totals: BTreeMap<AnomalyKind, usize>,
}

impl Findings {
    pub(super) fn add(&mut self, kind: AnomalyKind, transactions: &[u32], explain: impl FnOnce() -> String) {
        let total = self.totals.entry(kind).or_default();
        *total += 1;
        if *total <= EXPLAINED_PER_KIND {
            let transactions = transactions.iter().copied().map(TransactionId).collect();
            self.anomalies.push(Anomaly { kind, explanation: explain(), transactions });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.totals.is_empty()
    }
}
