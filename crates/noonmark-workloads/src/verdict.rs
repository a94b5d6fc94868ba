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

/// Writes the history of these recorders to a file, if there is one, and checks it: in real time, or only in the
/// order of each session. `None` if nothing was recorded.
pub(crate) fn of(
    recorders: Vec<Recorder>,
    path: Option<&Path>,
    strict: bool,
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
    let report = check::check(&history, &check::Options { session: true, strict, ..Default::default() });
    let order = if strict { "real time" } else { "each session" };
    let counts = format!("{} committed, {} failed", report.ok, report.fail);
    let verdict = match report.verdict {
        Verdict::Violated => format!("the history is not serializable in the order of {order}: {report}"),
        Verdict::Proved => {
            format!("the history is serializable in the order of {order} ({counts}; an order was found)")
        }
        Verdict::Undecided => {
            format!("the history shows no anomaly in the order of {order} ({counts}; no order was found)")
        }
    };
    Ok(Some(Condition::that(report.is_ok(), verdict)))
}
