//! What servers say to each other: plain data, with a size on the wire.
//!
//! Everything is between a *coordinator*, which carries a transaction, and a *participant*, which has a part of the rows. The coordinator
//! asks, one [`Request`] at a time of each participant, numbered from 1 on; the participant answers each. Either may be lost, late,
//! doubled or overtaken by another: a request is sent again until it is answered, and is carried out once.
//!
//! # What must have reached stable storage before a message leaves
//!
//! Nothing logs yet. When it does, this is the order [Sundial Figure 3, its stars]:
//!
//! | message | must be stable before |
//! |---|---|
//! | answer to [`Step::Prepare`], [`StepOutcome::Yes`] | the participant's writes and the commit time: it will have to commit them, whatever happens to it |
//! | answer to [`Step::Commit`], [`StepOutcome::Committed`] | the same, and that it has committed |
//! | [`Decision::Commit`] | that the coordinator has decided so; from here on the user may be told |
//! | answer to [`Decision::Commit`] | that it has been installed: the coordinator may forget the decision |
//! | [`Decision::Abort`], and answers that refuse | nothing: what nobody knows anything of has aborted |

use crate::partition::{ServerId, TableId};
use noonmark::branch::{Standing, Values};
use noonmark::{AbortKind, Age, Timestamp};
use std::ops::{Bound, Range};

/// Somebody who runs transactions one after another: a worker of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId {
    /// The server that it runs at.
    pub server: ServerId,
    /// Its number there.
    pub worker: u16,
}

impl std::fmt::Display for ClientId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.server.number(), self.worker)
    }
}

/// One attempt of a transaction, in the whole cluster.
///
/// **Invariant**: a client's numbers go up, and it begins an attempt only after the one before has been decided. So whoever hears of a
/// later attempt knows that the earlier ones will ask for nothing more, but to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// Whose.
    pub client: ClientId,
    /// Which of its attempts, from 1 on.
    pub sequence: u64,
}

impl std::fmt::Display for AttemptId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.client, self.sequence)
    }
}

/// Something to be done with the rows of one server.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Read column groups of a row.
    Read {
        /// Of this table.
        table: TableId,
        /// Under this key.
        key: Vec<u8>,
        /// These groups.
        groups: Range<usize>,
        /// The transaction will write them.
        to_write: bool,
    },
    /// Give column groups of a row that is there new values.
    Write {
        /// Of this table.
        table: TableId,
        /// Under this key.
        key: Vec<u8>,
        /// These groups.
        groups: Range<usize>,
        /// Their values.
        values: Values,
    },
    /// Put a row in.
    Insert {
        /// Into this table.
        table: TableId,
        /// Under this key.
        key: Vec<u8>,
        /// Of all groups.
        values: Values,
        /// Whether in place of one that is there.
        replace: bool,
    },
    /// Take a row away.
    Delete {
        /// Out of this table.
        table: TableId,
        /// Under this key.
        key: Vec<u8>,
    },
    /// Read column groups of the rows of a range.
    Scan {
        /// Of this table.
        table: TableId,
        /// From here.
        lower: Bound<Vec<u8>>,
        /// To here.
        upper: Bound<Vec<u8>>,
        /// These groups.
        groups: Range<usize>,
        /// From the greatest key to the least.
        reverse: bool,
        /// At most so many.
        limit: usize,
    },
}

impl Operation {
    /// The table that it is about.
    pub fn table(&self) -> TableId {
        match self {
            Operation::Read { table, .. }
            | Operation::Write { table, .. }
            | Operation::Insert { table, .. }
            | Operation::Delete { table, .. }
            | Operation::Scan { table, .. } => *table,
        }
    }
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// What was read; `None`: there is no such row.
    Row(Option<Values>),
    /// Whether there was a row to write or delete, or none where one was to be put in.
    Done(bool),
    /// The rows of a range, in the order that was asked for.
    Rows(Vec<(Vec<u8>, Values)>),
}

/// A step of the commit, after the operations of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// None: the transaction goes on.
    Execute,
    /// Lock all that is to be written.
    Seal,
    /// Seal, validate, and stand ready to commit at this time.
    Prepare {
        /// The commit time.
        at: Timestamp,
    },
    /// Commit, if that can be: nobody else has a say.
    Commit {
        /// The commit time.
        at: Timestamp,
        /// Or a later one.
        or_later: bool,
    },
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// There was none.
    Executed,
    /// Everything is locked; it may be written from this time on.
    Sealed(Timestamp),
    /// It can commit at that time, and nobody but the coordinator will make it abort.
    Yes,
    /// Not at that time; perhaps from this one on. Everything stays as it is.
    Later(Timestamp),
    /// It has committed at this time.
    Committed(Timestamp),
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It has committed at this time.
    Commit(Timestamp),
    /// It has not.
    Abort,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Operations, one after another, and a step.
    Work(Vec<Operation>, Step),
    /// To end.
    End(Decision),
}

/// A coordinator to a participant.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// For whom.
    pub attempt: AttemptId,
    /// The transaction's age, which all its attempts have.
    pub age: Age,
    /// It takes place no earlier than this.
    pub floor: Timestamp,
    /// Which request of this attempt to this participant, from 1 on.
    pub number: u32,
    /// What.
    pub ask: Ask,
}

/// Why a participant has ended its part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where.
    pub server: ServerId,
    /// What kind of abort it is.
    pub kind: AbortKind,
    /// The rule that refused.
    pub rule: String,
    /// The explanation.
    pub words: String,
    /// Who was on the other side, if that is known.
    pub other: Option<AttemptId>,
}

impl Refusal {
    /// What was read to be written was not there when it was.
    pub(crate) fn lost_row(server: ServerId) -> Self {
        Refusal {
            server,
            kind: AbortKind::Conflict,
            rule: "cluster: write".into(),
            words: "a row that was read to be written is gone; nothing was applied, retry is safe".into(),
            other: None,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {}: {}", self.server, self.words)?;
        match self.other {
            Some(other) => write!(f, " (the other one is attempt {other} of the cluster)"),
            None => Ok(()),
        }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// What came of each operation, and of the step; what there is to know now.
    Worked(Vec<Outcome>, StepOutcome, Standing),
    /// Nothing is left of the transaction here.
    Refused(Refusal),
    /// It has ended as was decided.
    Ended,
}

/// A participant to a coordinator.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// To whom.
    pub attempt: AttemptId,
    /// By whom.
    pub from: ServerId,
    /// To which request.
    pub number: u32,
    /// What.
    pub reply: Reply,
}

/// Bytes of what every message has: who to whom, for which attempt, its number and kind, and the transport's own.
const HEADER_BYTES: usize = 48;

/// Something that has a size on the wire.
pub trait WireSize {
    /// How many bytes it takes.
    fn wire_bytes(&self) -> usize;
}

impl WireSize for Operation {
    fn wire_bytes(&self) -> usize {
        // Kind, table, groups or flags, and the length of each part of variable size.
        match self {
            Operation::Read { key, .. } | Operation::Delete { key, .. } => 8 + key.len(),
            Operation::Write { key, values, .. } | Operation::Insert { key, values, .. } => {
                12 + key.len() + values.len_bytes()
            }
            Operation::Scan { lower, upper, .. } => {
                let bytes = |bound: &Bound<Vec<u8>>| match bound {
                    Bound::Included(key) | Bound::Excluded(key) => 3 + key.len(),
                    Bound::Unbounded => 1,
                };
                12 + bytes(lower) + bytes(upper)
            }
        }
    }
}

impl WireSize for Outcome {
    fn wire_bytes(&self) -> usize {
        match self {
            Outcome::Row(values) => 5 + values.as_ref().map_or(0, Values::len_bytes),
            Outcome::Done(_) => 2,
            Outcome::Rows(rows) => {
                5 + rows.iter().map(|(key, values)| 6 + key.len() + values.len_bytes()).sum::<usize>()
            }
        }
    }
}

impl WireSize for Request {
    fn wire_bytes(&self) -> usize {
        // Age and floor.
        HEADER_BYTES
            + 16
            + match &self.ask {
                Ask::Work(operations, _) => 10 + operations.iter().map(WireSize::wire_bytes).sum::<usize>(),
                Ask::End(_) => 9,
            }
    }
}

impl WireSize for Answer {
    fn wire_bytes(&self) -> usize {
        HEADER_BYTES
            + match &self.reply {
                // The step's outcome, and two times and the flags of the standing.
                Reply::Worked(outcomes, ..) => {
                    9 + 17 + outcomes.iter().map(WireSize::wire_bytes).sum::<usize>()
                }
                Reply::Refused(refusal) => 16 + refusal.rule.len() + refusal.words.len(),
                Reply::Ended => 1,
            }
    }
}
