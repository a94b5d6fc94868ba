//! What becomes of a recorded run: its history is written where asked, checked, and the verdict is a condition
//! like any other that is checked after a run.
//!
//! What it does not do: judge ([`crate::check`] does).

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use crate::check::{self, Verdict};
use crate::history::{History, HistoryWriter, Recorder, merge_recorders};
use crate::workload::{Condition, RunError};

/// What a history must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Serializable in some order.
    Serializable,
    /// In one that keeps that of each session.
    Session,
    /// In one that keeps real time.
    Strict,
    /// As well, and what aborted attempts read was there at one moment.
    Opaque,
}

impl Promise {
    /// In real time, or only in the order of each session.
    pub(crate) fn in_real_time(strict: bool) -> Self {
        if strict { Promise::Strict } else { Promise::Session }
    }

    fn options(self) -> check::Options {
        check::Options {
            session: self != Promise::Serializable,
            strict: matches!(self, Promise::Strict | Promise::Opaque),
            opaque: self == Promise::Opaque,
        }
    }

    /// After *the history is*.
    fn words(self) -> &'static str {
        match self {
            Promise::Serializable => "serializable",
            Promise::Session => "serializable in the order of each session",
            Promise::Strict => "serializable in the order of real time",
            Promise::Opaque => "opaque",
        }
    }
}

/// Writes the history of these recorders to a file, if there is one, and checks it. `None` if nothing was recorded.
pub(crate) fn of(
    recorders: Vec<Recorder>,
    path: Option<&Path>,
    promise: Promise,
) -> Result<Option<Condition>, RunError> {
    if recorders.iter().all(|recorder| recorder.attempts() == 0) {
        return Ok(None);
    }
    let unread = |error: &dyn std::fmt::Display| RunError::transaction("reading the recorded history", error);
    let history = match path {
        Some(path) => {
            let failed = |source: std::io::Error| RunError::History { path: path.to_owned(), source };
            let file = BufWriter::new(File::create(path).map_err(failed)?);
            merge_recorders(recorders, HistoryWriter::new(file)).map_err(failed)?;
            // What is in the file is what is checked.
            History::read(BufReader::new(File::open(path).map_err(failed)?))
        }
        None => {
            let text = merge_recorders(recorders, HistoryWriter::new(Vec::new())).map_err(|e| unread(&e))?;
            History::read(text.as_slice())
        }
    };
    let history = history.map_err(|error| unread(&error))?;
    let report = check::check(&history, &promise.options());
    let what = promise.words();
    let counts = format!("{} committed, {} failed", report.ok, report.fail);
    let verdict = match report.verdict {
        Verdict::Violated => format!("the history is not {what}: {report}"),
        Verdict::Proved => format!("the history is {what} ({counts}; an order was found)"),
        Verdict::Undecided => {
            format!("the history shows no sign of not being {what} ({counts}; no order was found)")
        }
    };
    Ok(Some(Condition::that(report.is_ok(), verdict)))
}
