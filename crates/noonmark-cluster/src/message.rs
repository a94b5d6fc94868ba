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
//! | the same, [`StepOutcome::Range`] | the participant's writes and the range; and that of what it has read: others have been told to come after it |
//! | answer to [`Step::Commit`], [`StepOutcome::Committed`] | the same, and that it has committed |
//! | [`Decision::Commit`] | that the coordinator has decided so; from here on the user may be told |
//! | answer to [`Decision::Commit`] | that it has been installed: the coordinator may forget the decision |
//! | [`Decision::Abort`], and answers that refuse | nothing: what nobody knows anything of has aborted |

use crate::partition::{ServerId, TableId};
use noonmark::branch::{KeptScan, Lease, Node, PlainUpdate, Standing, Values};
use noonmark::{AbortKind, Age, Timestamp};
use std::ops::{Bound, Range};
use std::sync::Arc;

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
        /// What for.
        purpose: Purpose,
    },
    /// Look whether column groups of a row, of which the transaction has read a copy, still are of the versions that were copied. If not,
    /// the transaction is over. Otherwise it is as if they had been read here.
    Check {
        /// Of this table.
        table: TableId,
        /// Under this key.
        key: Vec<u8>,
        /// These groups.
        groups: Range<usize>,
        /// When the version of each was written.
        written: Vec<Timestamp>,
    },
    /// Look whether an index node, of which the transaction has read a copy, still is as it was. If not, the transaction is over. Otherwise
    /// it is as if it had been read here.
    CheckNode {
        /// Of this table.
        table: TableId,
        /// As it was.
        node: Arc<Node>,
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
    /// Change a column group of a row that is there, without reading it.
    Update {
        /// Of this table.
        table: TableId,
        /// Under this key.
        key: Vec<u8>,
        /// This group.
        group: usize,
        /// How.
        update: PlainUpdate,
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
    /// Read column groups of the rows of a range; none, of the entries of a secondary index.
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
        /// To be kept for later transactions: the answer tells the leases of the rows, and the index nodes that they are in.
        keep: bool,
    },
}

/// What something is read for.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// To be read.
    Read,
    /// To be read, and kept for later transactions: the answer says when the versions were written, and for how long they hold.
    Keep,
    /// The same; but there is a copy already, of versions that were written at these times, so that the values need not be sent if those
    /// are current.
    Confirm(Vec<Timestamp>),
    /// To be written.
    Write,
}

impl Operation {
    /// Whether it changes rows, or is about to.
    pub fn writes(&self) -> bool {
        match self {
            Operation::Read { purpose, .. } => *purpose == Purpose::Write,
            Operation::Check { .. } | Operation::CheckNode { .. } | Operation::Scan { .. } => false,
            Operation::Write { .. }
            | Operation::Update { .. }
            | Operation::Insert { .. }
            | Operation::Delete { .. } => true,
        }
    }

    /// The key of the row that it is about, if it is about one.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Operation::Read { key, .. }
            | Operation::Check { key, .. }
            | Operation::Write { key, .. }
            | Operation::Update { key, .. }
            | Operation::Insert { key, .. }
            | Operation::Delete { key, .. } => Some(key),
            Operation::CheckNode { .. } | Operation::Scan { .. } => None,
        }
    }

    /// The table that it is about.
    pub fn table(&self) -> TableId {
        match self {
            Operation::Read { table, .. }
            | Operation::Check { table, .. }
            | Operation::CheckNode { table, .. }
            | Operation::Write { table, .. }
            | Operation::Update { table, .. }
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
    /// What was read to be kept; no lease if the transaction itself has written some of it.
    Copy(Values, Option<Lease>),
    /// There is no row to be kept, as this index node says, which may be.
    Absent(Node),
    /// What there is a copy of is current, and holds for so long.
    Current(Lease),
    /// Whether there was a row to write, update or delete, or none where one was to be put in; what was to be looked at is current.
    Done(bool),
    /// The rows of a range, in the order that was asked for.
    Rows(Vec<(Vec<u8>, Values)>),
    /// The same, to be kept.
    Kept(KeptScan),
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
        /// Or a later one, until this: what is read elsewhere holds until then.
        until: Timestamp,
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
    /// It can commit at any of these times, from the first to the last, which are at or after that time, and nobody but the coordinator
    /// will make it abort. Of a transaction that has a range of commit times.
    Range(Timestamp, Timestamp),
    /// Not at that time; perhaps from this one on. Everything stays as it is.
    Later(Timestamp),
    /// It has committed at this time.
    Committed(Timestamp),
}

impl StepOutcome {
    /// Whether a participant that stands for this, and has answered that, has nothing to wait for. A range with an end is left behind in
    /// what was read, whether the transaction commits or not.
    pub(crate) fn is_left_behind(self, standing: &Standing) -> bool {
        matches!(self, StepOutcome::Range(_, until) if until < Timestamp::MAX && !standing.has_writes)
    }
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

impl Ask {
    /// Whether there are commit-time updates among the operations.
    pub(crate) fn updates(&self) -> bool {
        let is_update = |operation: &Operation| matches!(operation, Operation::Update { .. });
        matches!(self, Ask::Work(operations, _) if operations.iter().any(is_update))
    }
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
    /// The transaction commits, and nothing that it asks for from here on, of any participant, is in need of a lock that another may have:
    /// so it waits for nobody, but to be told how it ends, and whoever waits for it does not wait in a circle.
    pub is_past_waiting: bool,
    /// The transaction has failed so often that it is let through: see [`participant`](crate::participant).
    pub escapes: bool,
    /// What.
    pub ask: Ask,
}

/// The rule by which a coordinator aborts a transaction whose row is not there.
const LOST_ROW: &str = "cluster: write";

/// Why a participant has ended its part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where.
    pub server: ServerId,
    /// What kind of abort it is.
    pub kind: AbortKind,
    /// The rule that refused.
    pub rule: String,
    /// The table in which it happened, if it was in one.
    pub table: Option<String>,
    /// The key, as its type's `Debug` shows it, if it was about one.
    pub key: Option<String>,
    /// The column group, if the table has several with timestamps of their own, and it was about one of them.
    pub column_group: Option<String>,
    /// The explanation. Table, key and column group stand in it, too, so that where they do is all that travels of them.
    pub words: String,
    /// Who was on the other side, if that is known.
    pub other: Option<AttemptId>,
    /// Rows of which the transaction had read copies that are not current any more.
    pub stale: Vec<(TableId, Vec<u8>)>,
}

impl Refusal {
    /// One that is about no row.
    pub(crate) fn of(server: ServerId, kind: AbortKind, rule: &str, words: impl Into<String>) -> Self {
        Refusal {
            server,
            kind,
            rule: rule.into(),
            table: None,
            key: None,
            column_group: None,
            words: words.into(),
            other: None,
            stale: Vec::new(),
        }
    }

    /// The ranges of commit times that are frozen in different places have none in common: this one's is over before.
    pub(crate) fn no_common_time(server: ServerId, until: Timestamp, at: Timestamp) -> Self {
        let words = format!(
            "the commit time could have been {until} at the latest, and at another server {at} at the earliest; nothing was applied, \
             retry is safe"
        );
        Refusal::of(server, AbortKind::Conflict, "cluster: ranges", words)
    }

    /// What was to be written was not there when it was: it has been read to be written, or taken to be there.
    pub(crate) fn lost_row(server: ServerId) -> Self {
        let words = "a row that was to be written is not there; nothing was applied, retry is safe";
        Refusal::of(server, AbortKind::Conflict, LOST_ROW, words)
    }

    /// Whether it is that.
    pub(crate) fn is_lost_row(&self) -> bool {
        self.rule == LOST_ROW
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

/// What holds for a whole table of one server [Sundial §4.3].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLease {
    /// How many transactions that wrote it have been installed.
    ///
    /// The paper has the time of the last one. But two transactions may commit at one time, and a copy from between them would then be
    /// taken for one from after them.
    pub writes: u64,
    /// Nobody will write any of its rows there at this time or an earlier one.
    pub until: Timestamp,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// What was asked for.
    Worked(Work),
    /// Nothing is left of the transaction here.
    Refused(Refusal),
    /// It has ended as was decided.
    Ended,
}

/// What was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// What came of each operation.
    pub outcomes: Vec<Outcome>,
    /// And of the step.
    pub step: StepOutcome,
    /// What there is to know of the transaction's part now.
    pub standing: Standing,
    /// What holds for the tables of which something was read to be kept, or was looked at.
    pub tables: Vec<(TableId, TableLease)>,
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

/// Bytes of a table's number and its lease.
const TABLE_LEASE_BYTES: usize = 18;

/// Something that has a size on the wire.
pub trait WireSize {
    /// How many bytes it takes.
    fn wire_bytes(&self) -> usize;
}

impl WireSize for Operation {
    fn wire_bytes(&self) -> usize {
        // Kind, table, groups or flags, and the length of each part of variable size.
        match self {
            Operation::Read { key, purpose: Purpose::Confirm(written), .. }
            | Operation::Check { key, written, .. } => 9 + key.len() + 8 * written.len(),
            Operation::CheckNode { node, .. } => 3 + node.wire_bytes(),
            Operation::Read { key, .. } | Operation::Delete { key, .. } => 8 + key.len(),
            Operation::Write { key, values, .. } | Operation::Insert { key, values, .. } => {
                12 + key.len() + values.len_bytes()
            }
            Operation::Update { key, update, .. } => 8 + key.len() + update.len_bytes(),
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

impl WireSize for Lease {
    fn wire_bytes(&self) -> usize {
        1 + 8 * (self.written.len() + 1)
    }
}

impl WireSize for Node {
    fn wire_bytes(&self) -> usize {
        16 + self.len_bytes()
    }
}

impl WireSize for Outcome {
    fn wire_bytes(&self) -> usize {
        match self {
            Outcome::Row(values) => 5 + values.as_ref().map_or(0, Values::len_bytes),
            Outcome::Copy(values, lease) => {
                6 + values.len_bytes() + lease.as_ref().map_or(0, WireSize::wire_bytes)
            }
            Outcome::Absent(node) => 1 + node.wire_bytes(),
            Outcome::Current(lease) => 1 + lease.wire_bytes(),
            Outcome::Done(_) => 2,
            Outcome::Rows(rows) => {
                5 + rows.iter().map(|(key, values)| 6 + key.len() + values.len_bytes()).sum::<usize>()
            }
            Outcome::Kept(KeptScan { rows, nodes }) => {
                let lease = |lease: &Option<Lease>| lease.as_ref().map_or(0, WireSize::wire_bytes);
                let row =
                    |(key, values, of): &(Vec<u8>, Values, _)| 7 + key.len() + values.len_bytes() + lease(of);
                7 + rows.iter().map(row).sum::<usize>() + nodes.iter().map(Node::wire_bytes).sum::<usize>()
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
                // The step's outcome, and two times and the flags of the standing; one more if there is a latest one.
                Reply::Worked(Work { outcomes, tables, step, standing }) => {
                    let step = if let StepOutcome::Range(..) = step { 17 } else { 9 };
                    let latest = if standing.latest < Timestamp::MAX { 8 } else { 0 };
                    step + 17
                        + latest
                        + outcomes.iter().map(WireSize::wire_bytes).sum::<usize>()
                        + tables.len() * TABLE_LEASE_BYTES
                }
                Reply::Refused(refusal) => {
                    let stale = refusal.stale.iter().map(|(_, key)| 4 + key.len()).sum::<usize>();
                    // (Rule, table, key and column group stand in the words. To say where takes less than the rule once more.)
                    16 + refusal.rule.len() + refusal.words.len() + stale
                }
                Reply::Ended => 1,
            }
    }
}
