//! Writing: one line at a time, or many workers that each keep their own and meet at the end.
//!
//! A [`Recorder`] belongs to one worker thread and only pushes to vectors, so that recording
//! does not bring threads into step that would not meet otherwise; [`merge_recorders`] sorts
//! what they kept by time and numbers it.
//!
//! What this does not do: read a clock. The caller says when, on one clock for all workers;
//! in the simulator it is the virtual one. Lines of equal time stand invocation first where
//! their process allows it; the checker takes equal times as overlapping.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io::{self, Write};

use super::{MicroOp, Operation, OperationKind, Outcome, Process};

/// Writes operations as lines and numbers them.
#[derive(Debug)]
pub struct HistoryWriter<W> {
    output: W,
    next_index: u64,
}

impl<W: Write> HistoryWriter<W> {
    /// Writes to `output`, which should be buffered.
    pub fn new(output: W) -> Self {
        Self { output, next_index: 0 }
    }

    /// A transaction begins; what `ops` have read, if anything, is left out.
    ///
    /// # Errors
    /// As the output.
    pub fn invoke(
        &mut self,
        process: Process,
        time_ns: u64,
        f: &'static str,
        ops: &[MicroOp],
    ) -> io::Result<()> {
        let value = ops.iter().map(MicroOp::unread).collect();
        self.line(OperationKind::Invoke, process, time_ns, f, value).map(|_| ())
    }

    /// The open transaction of `process` ends; `ops` hold what it read.
    ///
    /// # Errors
    /// As the output.
    pub fn complete(
        &mut self,
        process: Process,
        time_ns: u64,
        f: &'static str,
        outcome: Outcome,
        ops: Vec<MicroOp>,
    ) -> io::Result<()> {
        self.line(outcome.into(), process, time_ns, f, ops).map(|_| ())
    }

    fn line(
        &mut self,
        kind: OperationKind,
        process: Process,
        time_ns: u64,
        f: &'static str,
        value: Vec<MicroOp>,
    ) -> io::Result<()> {
        let f = Cow::Borrowed(f);
        let operation = Operation { index: self.next_index, kind, process, time_ns, f, value };
        serde_json::to_writer(&mut self.output, &operation)?;
        self.output.write_all(b"\n")?;
        self.next_index += 1;
        Ok(())
    }

    /// How many lines were written.
    pub fn lines(&self) -> u64 {
        self.next_index
    }

    /// Flushes, and gives the output back.
    ///
    /// # Errors
    /// As the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

#[derive(Debug)]
struct Attempt {
    start_ns: u64,
    /// `None` only for the last one, if the run ended before it did.
    finish: Option<(Outcome, u64)>,
    /// The end of its steps in `Recorder::ops`; they start where those before end.
    ops_end: usize,
}

/// Who is told at once of what a [`Recorder`] keeps.
struct Listener(Box<dyn FnMut(&MicroOp) + Send>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// What one worker ran, kept until the run is over.
///
/// ```
/// # use noonmark_workloads::history::{Key, MicroOp, Outcome, Process, Recorder, Value};
/// let mut recorder = Recorder::new(Process(0), "txn");
/// recorder.begin(100);
/// recorder.op(MicroOp::ReadList { key: Key(5), list: Some(vec![Value(1)]) });
/// recorder.op(MicroOp::Append { key: Key(5), value: Value(2) });
/// recorder.finish(Outcome::Ok, 180);
/// assert_eq!(recorder.attempts(), 1);
/// ```
#[derive(Debug)]
pub struct Recorder {
    process: Process,
    f: &'static str,
    attempts: Vec<Attempt>,
    /// The steps of all attempts, and after them those of the open one.
    ops: Vec<MicroOp>,
    /// When the open attempt began.
    open_start_ns: Option<u64>,
    listener: Option<Listener>,
}

impl Recorder {
    /// The recorder of a worker that is the only one named `process`.
    #[must_use]
    pub fn new(process: Process, f: &'static str) -> Self {
        Self { process, f, attempts: Vec::new(), ops: Vec::new(), open_start_ns: None, listener: None }
    }

    /// From here on `listener` is told of each step, also of attempts that will be forgotten.
    pub fn listen(&mut self, listener: impl FnMut(&MicroOp) + Send + 'static) {
        self.listener = Some(Listener(Box::new(listener)));
    }

    fn ops_end(&self) -> usize {
        self.attempts.last().map_or(0, |attempt| attempt.ops_end)
    }

    /// A transaction begins at `start_ns`.
    pub fn begin(&mut self, start_ns: u64) {
        self.restart();
        self.open_start_ns = Some(start_ns);
    }

    /// The engine runs the open transaction again, which its user does not see: the steps are
    /// forgotten, the start stays.
    pub fn restart(&mut self) {
        self.ops.truncate(self.ops_end());
    }

    /// The open transaction took a step.
    pub fn op(&mut self, op: MicroOp) {
        if let Some(Listener(listener)) = &mut self.listener {
            listener(&op);
        }
        self.ops.push(op);
    }

    /// The open transaction ended.
    pub fn finish(&mut self, outcome: Outcome, finish_ns: u64) {
        let start_ns = self.open_start_ns.take().unwrap_or(finish_ns);
        let finish = Some((outcome, finish_ns));
        self.attempts.push(Attempt { start_ns, finish, ops_end: self.ops.len() });
    }

    /// The attempts for good; one still open, which may have had effects, stays without an end.
    fn close(mut self) -> Self {
        if let Some(start_ns) = self.open_start_ns.take() {
            self.attempts.push(Attempt { start_ns, finish: None, ops_end: self.ops.len() });
        }
        self
    }

    /// The steps of all transactions, one after another.
    pub(crate) fn ops(&self) -> &[MicroOp] {
        &self.ops
    }

    /// The same with each step made into another, or left out. A transaction that has none left is left out too,
    /// unless it is to be kept.
    pub(crate) fn rewritten(
        self,
        keep_empty: bool,
        mut rewrite: impl FnMut(MicroOp) -> Option<MicroOp>,
    ) -> Recorder {
        let mut rewritten = Recorder { attempts: Vec::new(), ops: Vec::new(), ..self };
        let mut ops = self.ops.into_iter();
        let mut ops_start = 0;
        for attempt in self.attempts {
            let steps = ops.by_ref().take(attempt.ops_end - ops_start);
            ops_start = attempt.ops_end;
            let before = rewritten.ops.len();
            rewritten.ops.extend(steps.filter_map(&mut rewrite));
            let ops_end = rewritten.ops.len();
            if keep_empty || ops_end > before {
                rewritten.attempts.push(Attempt { ops_end, ..attempt });
            }
        }
        rewritten
    }

    /// How many transactions have ended.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.attempts.len()
    }
}

/// A recorder while it is merged: its attempts go by, invocation and completion in turn.
struct Cursor {
    process: Process,
    f: &'static str,
    attempts: std::vec::IntoIter<Attempt>,
    ops: std::vec::IntoIter<MicroOp>,
    ops_start: usize,
    open: Option<(Outcome, u64, Vec<MicroOp>)>,
}

impl Cursor {
    /// The time of the next line, and whether it is a completion.
    fn next_line(&self) -> Option<(u64, bool)> {
        match &self.open {
            Some((_, finish_ns, _)) => Some((*finish_ns, true)),
            None => self.attempts.as_slice().first().map(|attempt| (attempt.start_ns, false)),
        }
    }
}

/// Writes all that `recorders` kept as one history, by time, and gives the output back.
///
/// # Errors
/// As the output.
pub fn merge_recorders<W: Write>(
    recorders: impl IntoIterator<Item = Recorder>,
    mut writer: HistoryWriter<W>,
) -> io::Result<W> {
    let mut cursors: Vec<Cursor> = recorders
        .into_iter()
        .map(Recorder::close)
        .map(|recorder| Cursor {
            process: recorder.process,
            f: recorder.f,
            attempts: recorder.attempts.into_iter(),
            ops: recorder.ops.into_iter(),
            ops_start: 0,
            open: None,
        })
        .collect();
    let mut next: BinaryHeap<_> = cursors
        .iter()
        .enumerate()
        .filter_map(|(place, cursor)| Some(Reverse((cursor.next_line()?, place))))
        .collect();
    while let Some(Reverse((_, place))) = next.pop() {
        let cursor = &mut cursors[place];
        let (process, f) = (cursor.process, cursor.f);
        if let Some((outcome, finish_ns, ops)) = cursor.open.take() {
            writer.complete(process, finish_ns, f, outcome, ops)?;
        } else if let Some(attempt) = cursor.attempts.next() {
            let count = attempt.ops_end - cursor.ops_start;
            cursor.ops_start = attempt.ops_end;
            let ops: Vec<MicroOp> = cursor.ops.by_ref().take(count).collect();
            writer.invoke(process, attempt.start_ns, f, &ops)?;
            cursor.open = attempt.finish.map(|(outcome, finish_ns)| (outcome, finish_ns, ops));
        }
        if let Some(line) = cursor.next_line() {
            next.push(Reverse((line, place)));
        }
    }
    writer.finish()
}
