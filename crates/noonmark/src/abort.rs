//! Aborts that explain themselves.
//!
//! An [`Abort`] is the error of every operation of a transaction. It says what could not be granted,
//! where, by which rule, and who was on the other side; that nothing was applied; and whether trying
//! again can help.

use crate::protocol::{Conflict, What};
use noonmark_core::{SlotId, Slots, Timestamp, TxnId, Word};
use std::fmt;
use std::sync::Arc;

/// What explanations say of a table.
#[derive(Debug)]
pub(crate) struct TableInfo {
    pub name: String,
    /// The names of its column groups.
    pub groups: Vec<&'static str>,
    /// Whether all groups are under one timestamp.
    pub coarse: bool,
    /// A key, as its type's `Debug` shows it.
    pub show_key: fn(&[u8]) -> String,
}

impl TableInfo {
    /// `accounts[42].balance`; without the group if there is but one, or if all are one.
    pub(crate) fn place(&self, key: Option<&[u8]>, cell: Option<usize>) -> String {
        let key = key.map(|key| (self.show_key)(key)).unwrap_or_default();
        match cell {
            _ if key.is_empty() => self.name.clone(),
            Some(cell) if !self.coarse && self.groups.len() > 1 => match self.groups.get(cell) {
                Some(group) => format!("{}[{key}].{group}", self.name),
                None => format!("{}[{key}]", self.name),
            },
            _ => format!("{}[{key}]", self.name),
        }
    }
}

/// Why a transaction did not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbortKind {
    /// Another transaction was in the way: try again. [`Session::transact`](crate::Session::transact)
    /// does.
    Conflict,
    /// The row that was to be read or changed is not there. Insert it, or ask with `get`.
    Missing,
    /// The deadline of the [`Policy`](crate::Policy) passed; the last conflict is told. Try again later,
    /// or allow more time.
    Deadline,
    /// The attempts of the [`Policy`](crate::Policy) are used up; the last conflict is told. Try again
    /// later, or allow more.
    Attempts,
    /// The key is longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX), or not as long as its type says that all are; or
    /// the value is longer than 4 GiB, or has other column groups than its type says.
    TooLong,
    /// The table belongs to another database than the transaction.
    ForeignTable,
    /// The table's index is not ordered: make the table with [`IndexKind::Ordered`](crate::IndexKind).
    NotOrdered,
    /// All sessions of the database are in use, until the deadline of the [`Policy`](crate::Policy) if there was one:
    /// end some, or allow more when building it.
    TooManySessions,
    /// The transaction went on after an operation had failed, or after a panic in a closure that an operation was
    /// given. An error of an operation ends the transaction: return it.
    Continued,
    /// Another transaction has what this one wants, and will let go of it: only from a
    /// [`Branch`](crate::branch::Branch), which may be asked the same again. Nothing has ended.
    Held,
    /// Code of the user's that a server ran for the transaction has panicked: the closure of a secondary index, or what reads the row
    /// for it. Only from a [`Branch`](crate::branch::Branch); elsewhere the panic goes on to whoever called. The
    /// explanation has the index and the panic's message: mend the closure, or do not write rows that it cannot take.
    Panicked,
    /// The database has come to the end of logical time (2^50 commits in a row on one row): move the
    /// data to a new one.
    EndOfTime,
}

/// A transaction could not go on, or could not commit. Nothing of it was applied.
pub struct Abort(Box<Inner>);

pub(crate) struct Inner {
    pub kind: AbortKind,
    pub table: Option<Arc<TableInfo>>,
    /// `None`: it was about no key.
    pub key: Option<Vec<u8>>,
    pub cell: Option<usize>,
    pub cause: Option<Cause>,
    /// What there is to say of one that is no conflict.
    pub detail: Option<Detail>,
    /// How many attempts there were, once the transaction has been given up.
    pub attempts: u32,
}

/// What there is to say of an abort that is no conflict.
#[derive(Clone, Debug)]
pub(crate) enum Detail {
    /// The closure of this index has panicked with this message.
    Panicked { index: String, message: String },
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detail::Panicked { index, message } => {
                write!(f, "what works out the keys of index {index} has panicked ({message})")
            }
        }
    }
}

/// A conflict, with names instead of slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause {
    pub rule: &'static str,
    pub what: Explained,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Explained {
    Replaced { read: Timestamp, now: Timestamp, by: Writer },
    Locked { by: TxnId },
    ReadLocked { by: Writer },
    Wounded { by: TxnId },
    NoTime { earliest: Timestamp, latest: Timestamp },
    Later { began: Timestamp, written: Timestamp, by: Writer },
    ReadLater { began: Timestamp, read: Timestamp },
    NodeChanged,
    IndexMade,
    Regrouped,
    Vanished,
}

/// Who wrote a version, as far as it is still known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writer {
    Transaction(TxnId),
    Slot(SlotId),
    Nobody,
}

impl Writer {
    pub(crate) fn of(word: Word, slots: &Slots) -> Self {
        match slots.writer_of(word.writer(), word.time()) {
            Some(txn) => Writer::Transaction(txn),
            None if word.writer() == SlotId::NOBODY => Writer::Nobody,
            None => Writer::Slot(word.writer()),
        }
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Writer::Transaction(txn) => write!(f, "transaction {txn}"),
            Writer::Slot(slot) => write!(f, "an earlier transaction of slot {slot}"),
            Writer::Nobody => f.write_str("nobody"),
        }
    }
}

impl Cause {
    pub(crate) fn of(conflict: Conflict, slots: &Slots) -> Self {
        let what = match conflict.what {
            What::Replaced { read, now } => {
                Explained::Replaced { read: read.time(), now: now.time(), by: Writer::of(now, slots) }
            }
            What::Locked { by } => Explained::Locked { by },
            What::ReadLocked { by } => {
                Explained::ReadLocked { by: slots.running(by).map_or(Writer::Slot(by), Writer::Transaction) }
            }
            What::Wounded { by } => Explained::Wounded { by },
            What::NoTime { earliest, latest } => Explained::NoTime { earliest, latest },
            What::Later { began, version } => {
                Explained::Later { began, written: version.time(), by: Writer::of(version, slots) }
            }
            What::ReadLater { began, read } => Explained::ReadLater { began, read },
            What::NodeChanged => Explained::NodeChanged,
            What::IndexMade => Explained::IndexMade,
            What::Regrouped => Explained::Regrouped,
            What::Reclaimed => Explained::Vanished,
        };
        Cause { rule: conflict.rule, what }
    }
}

impl Abort {
    pub(crate) fn new(inner: Inner) -> Self {
        Abort(Box::new(inner))
    }

    pub(crate) fn plain(kind: AbortKind) -> Self {
        Abort::new(Inner { kind, table: None, key: None, cell: None, cause: None, detail: None, attempts: 0 })
    }

    pub(crate) fn at(kind: AbortKind, table: &Arc<TableInfo>, key: Option<&[u8]>) -> Self {
        Abort::new(Inner {
            kind,
            table: Some(table.clone()),
            key: key.map(<[u8]>::to_vec),
            cell: None,
            cause: None,
            detail: None,
            attempts: 0,
        })
    }

    /// Another transaction is in the way for now; see [`AbortKind::Held`].
    #[cold]
    pub(crate) fn held(cause: Cause, table: &Arc<TableInfo>, key: &[u8], cell: usize) -> Self {
        Abort::new(Inner {
            kind: AbortKind::Held,
            table: Some(table.clone()),
            key: Some(key.to_vec()),
            cell: Some(cell),
            cause: Some(cause),
            detail: None,
            attempts: 0,
        })
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    pub(crate) fn inner_mut(&mut self) -> &mut Inner {
        &mut self.0
    }

    /// What kind of abort it is; says what to do about it.
    pub fn kind(&self) -> AbortKind {
        self.0.kind
    }

    /// Whether the same transaction may succeed if it is tried again as it is.
    pub fn is_retryable(&self) -> bool {
        use AbortKind::{Attempts, Conflict, Deadline, TooManySessions};
        matches!(self.0.kind, Conflict | Deadline | Attempts | TooManySessions)
    }

    /// The protocol and rule that did not grant something, as in `tictoc: validate`; empty if it was
    /// no conflict.
    pub fn rule(&self) -> &'static str {
        self.0.cause.map_or("", |cause| cause.rule)
    }

    /// The table in which it happened, if it was in one.
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_ref().map(|info| info.name.as_str())
    }

    /// The key, as its type's `Debug` shows it, if there was one.
    pub fn key(&self) -> Option<String> {
        let (info, key) = (self.0.table.as_ref()?, self.0.key.as_ref()?);
        Some((info.show_key)(key))
    }

    /// The column group, if the table has several with timestamps of their own, and it was about one of them.
    pub fn column_group(&self) -> Option<&str> {
        let info = self.0.table.as_ref()?;
        let what = self.0.cause.map(|cause| cause.what);
        if matches!(what, Some(Explained::NodeChanged | Explained::IndexMade)) {
            return None;
        }
        if info.coarse || info.groups.len() < 2 { None } else { info.groups.get(self.0.cell?).copied() }
    }

    /// The transaction on the other side, as far as it is known.
    pub fn other(&self) -> Option<TxnId> {
        match self.0.cause?.what {
            Explained::Replaced { by: Writer::Transaction(txn), .. }
            | Explained::Later { by: Writer::Transaction(txn), .. }
            | Explained::ReadLocked { by: Writer::Transaction(txn) }
            | Explained::Locked { by: txn }
            | Explained::Wounded { by: txn } => Some(txn),
            _ => None,
        }
    }

    /// How many attempts were made, if the transaction was given up after several.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        match (&inner.table, inner.cause) {
            (Some(info), Some(Cause { what: Explained::NodeChanged, .. })) => {
                write!(f, "{}, near: ", info.place(inner.key.as_deref(), None))?;
            }
            (Some(info), _) => write!(f, "{}: ", info.place(inner.key.as_deref(), inner.cell))?,
            (None, _) => {}
        }
        if let Some(cause) = inner.cause {
            match cause.what {
                Explained::Replaced { read, now, by } => {
                    write!(f, "read at time {read}, replaced at {now} by {by} before this one could commit")?;
                }
                Explained::Locked { by } => write!(f, "locked by transaction {by}")?,
                Explained::ReadLocked { by } => write!(f, "being read, under a lock, by {by}")?,
                Explained::Wounded { by } => {
                    write!(f, "held, when transaction {by}, which is older, wanted it")?
                }
                Explained::NoTime { earliest: Timestamp::MAX, .. } => f.write_str(
                    "others leave no commit time: somebody relies for all time to come on what this one would replace",
                )?,
                Explained::NoTime { earliest, latest } => write!(
                    f,
                    "others leave no commit time: what came before asks for {earliest} or later, what comes after for \
                     {latest} or earlier"
                )?,
                Explained::Later { began, written, by } => {
                    write!(f, "this one began at time {began}, and {by} has written at {written}")?;
                }
                Explained::ReadLater { began, read } => {
                    write!(
                        f,
                        "this one began at time {began}, and somebody has read at {read} what it would replace"
                    )?;
                }
                Explained::NodeChanged => {
                    f.write_str("keys came or went where this one had looked and found none")?;
                }
                Explained::IndexMade => f.write_str("the table was given an index meanwhile")?,
                Explained::Regrouped => {
                    f.write_str("the row's timestamp was split, or put together again, meanwhile")?;
                }
                Explained::Vanished => f.write_str("deleted before this one could commit")?,
            }
            write!(f, " ({})", cause.rule)?;
        }
        if let Some(detail) = &inner.detail {
            write!(f, "{detail}")?;
        }
        let ending = match inner.kind {
            AbortKind::Conflict => "; nothing was applied, retry is safe",
            AbortKind::Deadline => "; the deadline has passed, nothing was applied",
            AbortKind::Attempts => "; no attempts are left, nothing was applied",
            AbortKind::Missing => "no such row; nothing was applied",
            AbortKind::TooLong => {
                "the key or the value is too long, or not one of the table's types; nothing was applied"
            }
            AbortKind::ForeignTable => "the table belongs to another database; nothing was applied",
            AbortKind::NotOrdered => "the table's index has no order, so no ranges; nothing was applied",
            AbortKind::TooManySessions => "all sessions of the database are in use; nothing was applied",
            AbortKind::Continued => {
                "the transaction went on after one of its operations had failed; nothing was applied"
            }
            AbortKind::Held => "; nothing has ended, ask again once it has",
            AbortKind::Panicked => "; nothing was applied",
            AbortKind::EndOfTime => "logical time is at its end; nothing was applied",
        };
        // One that did not get as far as a table has nothing to say before it.
        let said = inner.table.is_some() || inner.cause.is_some();
        f.write_str(if said { ending } else { ending.trim_start_matches("; ") })?;
        if inner.attempts > 1 {
            write!(f, " (after {} attempts)", inner.attempts)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Abort({:?}: {self})", self.0.kind)
    }
}

impl std::error::Error for Abort {}
