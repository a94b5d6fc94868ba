//! Histories: what every transaction that a user saw asked for, and what it got.
//!
//! A run can record its history, and [`crate::check`] decides from the history alone, knowing
//! nothing of the engine, whether the run was serializable. The file holds the operation maps
//! that Jepsen's Elle reads, one JSON object a line, so that a tool which we did not write can
//! check us too:
//!
//! ```text
//! {"index":0,"type":"invoke","process":3,"time":1200,"f":"txn","value":[["r",5,null],["append",5,7]]}
//! {"index":1,"type":"ok","process":3,"time":1900,"f":"txn","value":[["r",5,[1,2]],["append",5,7]]}
//! ```
//!
//! | micro-operation | meaning |
//! |---|---|
//! | `["append", k, v]` | put `v` at the end of list `k` |
//! | `["r", k, [v, …]]` | list `k` was read |
//! | `["w", k, v]`, `["w", k, null]` | register `k` was written; was deleted |
//! | `["r", k, v]`, `["r", k, null]` | register `k` was read; was absent |
//! | `["scan", [low, high], [[k, v], …]]` | all registers from `low` to `high`, both included; none, where `low` is the greater |
//!
//! A history is of lists or of registers, never of both ([`Model`]); the micro-operations say
//! which. `null` in the place of a read is the empty list or the absent register in an `ok`,
//! *not read yet* in an `invoke`, and *unknown* in a `fail` or an `info`.
//!
//! Invariants, which [`History`] holds and the reader reports a breach of with its line:
//!
//! - a process has at most one open transaction; each completion follows its own `invoke` and
//!   lists the same micro-operations, with the reads filled in; lines of type `info` and the process `"nemesis"` are passed over;
//! - `index` rises from line to line; `time` never falls within a process;
//! - no two appends put the same value in the same list.
//!
//! Sources: Kingsbury and Alvaro, *Elle: Inferring Isolation Anomalies from Experimental
//! Observations* (VLDB 2020), §3 for the operations, §6 for the format. The scan is ours.
//!
//! What this module does not do: it judges nothing ([`crate::check`] does), it knows keys and
//! values only as integers of 64 bits, and it keeps a history in memory while it is checked.

mod json;
mod read;
mod write;

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

pub use read::{HistoryBuilder, HistoryError, HistoryReader};
pub use write::{HistoryWriter, Recorder, merge_recorders};

/// The name of a list or a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub i64);

/// What is appended to a list or written to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Value(pub i64);

/// A client that runs one transaction at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Process(pub u64);

/// The place of a transaction among the invocations of its history, from 0; shown as `T17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u32);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", self.0)
    }
}

/// The `type` of an operation map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// A transaction begins.
    Invoke,
    /// It committed.
    Ok,
    /// It aborted, and left nothing behind.
    Fail,
    /// Nobody knows whether it committed.
    Info,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It committed.
    Ok,
    /// It aborted, and left nothing behind.
    Fail,
    /// Nobody knows: it may have committed, may yet commit, or never will.
    Info,
}

impl From<Outcome> for OperationKind {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::Ok,
            Outcome::Fail => Self::Fail,
            Outcome::Info => Self::Info,
        }
    }
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MicroOp {
    /// Put `value` at the end of list `key`.
    Append {
        /// The list.
        key: Key,
        /// The new last element; unique within its list.
        value: Value,
    },
    /// Read list `key`.
    ReadList {
        /// The list.
        key: Key,
        /// What it held; `None` is as `null` in the module's words.
        list: Option<Vec<Value>>,
    },
    /// Write register `key`, or delete it.
    Write {
        /// The register.
        key: Key,
        /// The new value, `None` for a delete.
        value: Option<Value>,
    },
    /// Read register `key`.
    ReadRegister {
        /// The register.
        key: Key,
        /// What it held; `None` is as `null` in the module's words.
        value: Option<Value>,
    },
    /// Read all registers from `low` to `high`.
    Scan {
        /// The first key of the range.
        low: Key,
        /// The last key of the range, included.
        high: Key,
        /// The registers that were there; `None` is *not read*.
        found: Option<Vec<(Key, Value)>>,
    },
}

/// Of a long list the last elements shown.
const LIST_SHOWN: usize = 8;

/// A list in words.
pub(crate) fn list_text(list: &[Value]) -> String {
    let mut text = String::from("[");
    let hidden = list.len().saturating_sub(LIST_SHOWN);
    if hidden > 0 {
        _ = write!(text, "{hidden} more … ");
    }
    for (place, value) in list[hidden..].iter().enumerate() {
        let space = if place > 0 { " " } else { "" };
        _ = write!(text, "{space}{value}");
    }
    text.push(']');
    text
}

/// In words, as in `read 5 as [1 2]`.
impl fmt::Display for MicroOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append { key, value } => write!(f, "append {value} to {key}"),
            Self::ReadList { key, list: Some(list) } => write!(f, "read {key} as {}", list_text(list)),
            Self::Write { key, value: Some(value) } => write!(f, "write {value} to {key}"),
            Self::Write { key, value: None } => write!(f, "delete {key}"),
            Self::ReadRegister { key, value: Some(value) } => write!(f, "read {key} as {value}"),
            Self::ReadRegister { key, value: None } => write!(f, "find no {key}"),
            Self::ReadList { key, list: None } => write!(f, "read {key}"),
            Self::Scan { low, high, found } => {
                write!(f, "scan {low} to {high}")?;
                let Some(found) = found else { return Ok(()) };
                let found: Vec<String> = found.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(f, " and find {{{}}}", found.join(", "))
            }
        }
    }
}

impl MicroOp {
    /// The same step before it was run: a read loses what it read.
    #[must_use]
    pub fn unread(&self) -> Self {
        match *self {
            Self::ReadList { key, .. } => Self::ReadList { key, list: None },
            Self::ReadRegister { key, .. } => Self::ReadRegister { key, value: None },
            Self::Scan { low, high, .. } => Self::Scan { low, high, found: None },
            ref write => write.clone(),
        }
    }

    /// Whether `other` asks for the same, whatever either of them read.
    fn asks_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::ReadList { key: a, .. } | Self::ReadRegister { key: a, .. },
                Self::ReadList { key: b, .. } | Self::ReadRegister { key: b, .. },
            ) => a == b,
            (Self::Scan { low, high, .. }, Self::Scan { low: l, high: h, .. }) => (low, high) == (l, h),
            (write, other) => write == other,
        }
    }
}

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// The place of the line in its history; rises from line to line.
    pub index: u64,
    /// Whether a transaction begins here or how it ended.
    #[serde(rename = "type")]
    pub kind: OperationKind,
    /// Who ran it.
    pub process: Process,
    /// When, on one clock for the whole history.
    #[serde(rename = "time")]
    pub time_ns: u64,
    /// What kind of transaction it is; the checker does not look at it.
    pub f: Cow<'static, str>,
    /// Its steps. A `fail` or `info` may leave them out (`null`): those of the `invoke` count.
    #[serde(default, deserialize_with = "json::steps_or_null")]
    pub value: Vec<MicroOp>,
}

/// What the keys of a history are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Lists that grow at the end; their reads give the order of all versions.
    Lists,
    /// Registers that are overwritten; the order of versions must be inferred.
    Registers,
}

/// An invocation and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Who ran it.
    pub process: Process,
    /// When it was invoked.
    pub start_ns: u64,
    /// When it was known to have ended; `None` for [`Outcome::Info`], which may take effect later.
    pub finish_ns: Option<u64>,
    /// How it ended; an invocation that the history never completes is [`Outcome::Info`].
    pub outcome: Outcome,
    /// The line of its completion, or of its invocation if it has none; from 1.
    pub line: u64,
    /// Its steps, as completed. The reads of a [`Outcome::Fail`] are kept: an aborted attempt
    /// saw them, which a check of opacity wants to know.
    pub ops: Vec<MicroOp>,
}

/// All transactions of a run, in the order of their invocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// What the keys are. All `ops` agree with it: reads of a list are [`MicroOp::ReadList`].
    model: Model,
    /// At most `u32::MAX - 1` of them, so that a [`TransactionId`] names each.
    transactions: Vec<Transaction>,
}

impl History {
    /// What the keys are.
    #[must_use]
    pub fn model(&self) -> Model {
        self.model
    }

    /// The transactions in the order of their invocations; [`TransactionId`] is the place here.
    #[must_use]
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    /// The same model with other transactions, which agree with it.
    pub(crate) fn with(&self, transactions: Vec<Transaction>) -> Self {
        History { model: self.model, transactions }
    }

    /// Reads a whole history, to be checked.
    ///
    /// # Errors
    /// The first line that breaks an invariant of this module, or cannot be read.
    pub fn read(input: impl std::io::BufRead) -> Result<Self, HistoryError> {
        let mut builder = HistoryBuilder::default();
        for operation in HistoryReader::new(input) {
            let (line, operation) = operation?;
            builder.push(line, operation)?;
        }
        builder.finish()
    }

    /// Makes a history of operations in memory, as if each were a line.
    ///
    /// # Errors
    /// As [`History::read`], the first operation being line 1.
    pub fn from_operations(operations: impl IntoIterator<Item = Operation>) -> Result<Self, HistoryError> {
        let mut builder = HistoryBuilder::default();
        for (line, operation) in (1..).zip(operations) {
            builder.push(line, operation)?;
        }
        builder.finish()
    }
}
