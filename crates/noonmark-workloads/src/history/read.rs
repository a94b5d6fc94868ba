//! Reading: lines to operations, operations to transactions, each breach with its line.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead, Read};

use thiserror::Error;

use super::{History, Key, MicroOp, Model, Operation, OperationKind, Outcome, Process, Transaction, Value};

/// The longest line that is read: a file that has no lines is not read into memory whole.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Why a file is no history that can be checked. Mend the recorder or the file: reading it
/// again will not help.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The file could not be read on.
    #[error("line {line}: {source}")]
    Io {
        /// The line that could not be read.
        line: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// The line is no operation map.
    #[error("line {line}, column {column}: {message}")]
    Malformed {
        /// The line.
        line: u64,
        /// The byte at which it stopped making sense, from 1; 0 where that is not known.
        column: usize,
        /// What was expected there.
        message: String,
    },
    /// The line's `index` does not rise.
    #[error("line {line}: index {index} follows index {previous}; indexes must rise")]
    IndexDoesNotRise {
        /// The line.
        line: u64,
        /// Its index.
        index: u64,
        /// The index of the line before.
        previous: u64,
    },
    /// A process goes back in time.
    #[error("line {line}: process {process} is at {time_ns} ns, but was at {previous_ns} ns already")]
    TimeFalls {
        /// The line.
        line: u64,
        /// The process.
        process: Process,
        /// The time of the line.
        time_ns: u64,
        /// The time of the process's line before.
        previous_ns: u64,
    },
    /// A transaction ends that never began.
    #[error("line {line}: process {process} completes a transaction that it never invoked")]
    CompletionWithoutInvoke {
        /// The line of the completion.
        line: u64,
        /// The process.
        process: Process,
    },
    /// A process begins a transaction before the last one ended.
    #[error("line {line}: process {process} invokes a transaction while that of line {open_line} is open")]
    StillOpen {
        /// The line of the second invocation.
        line: u64,
        /// The process.
        process: Process,
        /// The line of the first.
        open_line: u64,
    },
    /// A completion lists other steps than its invocation.
    #[error("line {line}: the completion lists other micro-operations than its invoke on line {invoke_line}")]
    OtherSteps {
        /// The line of the completion.
        line: u64,
        /// The line of the invocation.
        invoke_line: u64,
    },
    /// Lists and registers in one history.
    #[error(
        "line {line} uses {} but line {other_line} uses {}: a history is of one kind",
        plural(*model), plural(*other)
    )]
    MixedModels {
        /// The line that differs.
        line: u64,
        /// What it uses.
        model: Model,
        /// The first line that showed what the history is of.
        other_line: u64,
        /// What that line uses.
        other: Model,
    },
    /// Two appends of one value to one list: a read could not tell them apart.
    #[error(
        "line {line} appends {value} to key {key}, which line {other_line} does already; appended values must be unique within their key"
    )]
    AppendedTwice {
        /// The line of the second append.
        line: u64,
        /// The list.
        key: Key,
        /// The value.
        value: Value,
        /// The line of the first append.
        other_line: u64,
    },
    /// More transactions than the checker can number.
    #[error("line {line}: a history holds at most {} transactions", u32::MAX / 4)]
    TooManyTransactions {
        /// The first line too many.
        line: u64,
    },
}

fn plural(model: Model) -> &'static str {
    match model {
        Model::Lists => "lists",
        Model::Registers => "registers",
    }
}

/// The operations of a file, one at a time, each with its line from 1. Blank lines are skipped, and those of
/// the process `nemesis`.
/// After an error it ends.
#[derive(Debug)]
pub struct HistoryReader<R> {
    input: R,
    line: u64,
    buffer: Vec<u8>,
    broken: bool,
}

impl<R: BufRead> HistoryReader<R> {
    /// Reads `input` from where it stands.
    pub fn new(input: R) -> Self {
        Self { input, line: 0, buffer: Vec::new(), broken: false }
    }

    fn next_operation(&mut self) -> Result<Option<(u64, Operation)>, HistoryError> {
        loop {
            self.line += 1;
            let line = self.line;
            self.buffer.clear();
            let read = (&mut self.input)
                .take(LINE_BYTES_MAX + 1)
                .read_until(b'\n', &mut self.buffer)
                .map_err(|source| HistoryError::Io { line, source })?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 > LINE_BYTES_MAX {
                let message = format!("a line of more than {} MiB is no operation", LINE_BYTES_MAX >> 20);
                return Err(HistoryError::Malformed { line, column: 0, message });
            }
            if self.buffer.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(self.buffer.trim_ascii_end()) {
                Ok(operation) => return Ok(Some((line, operation))),
                Err(_) if is_of_the_nemesis(&self.buffer) => {}
                Err(error) => return Err(malformed(line, &error)),
            }
        }
    }
}

/// Whether the line tells what was done to the system under test, as Jepsen writes it among the transactions.
fn is_of_the_nemesis(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Whose {
        process: String,
        r#type: String,
    }
    // (It never says how a transaction has ended.)
    serde_json::from_slice(line)
        .is_ok_and(|Whose { process, r#type }| process == "nemesis" && r#type == "info")
}

/// The parser saw one line only, so its own line number means nothing to the reader.
fn malformed(line: u64, error: &serde_json::Error) -> HistoryError {
    let mut message = error.to_string();
    if let Some(place) = message.rfind(" at line ") {
        message.truncate(place);
    }
    HistoryError::Malformed { line, column: error.column(), message }
}

impl<R: BufRead> Iterator for HistoryReader<R> {
    type Item = Result<(u64, Operation), HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken {
            return None;
        }
        let next = self.next_operation();
        self.broken = next.is_err();
        next.transpose()
    }
}

/// What is known of a process while its lines go by.
#[derive(Debug)]
struct ProcessState {
    time_ns: u64,
    /// The place of the open transaction in `HistoryBuilder::transactions`.
    open: Option<usize>,
}

/// Pairs invocations with completions and holds the invariants of [`super`].
#[derive(Debug, Default)]
pub struct HistoryBuilder {
    transactions: Vec<Transaction>,
    processes: HashMap<Process, ProcessState>,
    /// The line of each append.
    appended: HashMap<(Key, Value), u64>,
    /// What the history is of, and the line that showed it.
    model: Option<(Model, u64)>,
    last_index: Option<u64>,
}

impl HistoryBuilder {
    /// Takes the next operation, which stands on `line`.
    ///
    /// # Errors
    /// The invariant that it breaks.
    pub fn push(&mut self, line: u64, operation: Operation) -> Result<(), HistoryError> {
        let Operation { index, kind, process, time_ns, value: ops, .. } = operation;
        if let Some(previous) = self.last_index.filter(|&previous| previous >= index) {
            return Err(HistoryError::IndexDoesNotRise { line, index, previous });
        }
        self.last_index = Some(index);
        for op in &ops {
            self.learn_model(line, op)?;
        }
        let state = self.processes.entry(process).or_insert(ProcessState { time_ns: 0, open: None });
        if time_ns < state.time_ns {
            let previous_ns = state.time_ns;
            return Err(HistoryError::TimeFalls { line, process, time_ns, previous_ns });
        }
        state.time_ns = time_ns;
        let outcome = match kind {
            OperationKind::Invoke => {
                if let Some(open) = state.open {
                    let open_line = self.transactions[open].line;
                    return Err(HistoryError::StillOpen { line, process, open_line });
                }
                state.open = Some(self.transactions.len());
                return self.invoke(line, process, time_ns, ops);
            }
            OperationKind::Ok => Outcome::Ok,
            OperationKind::Fail => Outcome::Fail,
            OperationKind::Info => Outcome::Info,
        };
        let open = state.open.take().ok_or(HistoryError::CompletionWithoutInvoke { line, process })?;
        let transaction = &mut self.transactions[open];
        let left_out = ops.is_empty() && outcome != Outcome::Ok;
        if !left_out {
            let same = ops.len() == transaction.ops.len()
                && ops.iter().zip(&transaction.ops).all(|(a, b)| a.asks_the_same(b));
            if !same {
                let invoke_line = transaction.line;
                return Err(HistoryError::OtherSteps { line, invoke_line });
            }
            transaction.ops = ops;
        }
        transaction.line = line;
        transaction.outcome = outcome;
        transaction.finish_ns = (outcome != Outcome::Info).then_some(time_ns);
        Ok(())
    }

    fn invoke(
        &mut self,
        line: u64,
        process: Process,
        start_ns: u64,
        mut ops: Vec<MicroOp>,
    ) -> Result<(), HistoryError> {
        if self.transactions.len() >= u32::MAX as usize / 4 {
            return Err(HistoryError::TooManyTransactions { line });
        }
        for op in &mut ops {
            *op = op.unread();
            if let MicroOp::Append { key, value } = *op {
                match self.appended.entry((key, value)) {
                    Entry::Vacant(vacant) => _ = vacant.insert(line),
                    Entry::Occupied(first) => {
                        let other_line = *first.get();
                        return Err(HistoryError::AppendedTwice { line, key, value, other_line });
                    }
                }
            }
        }
        let outcome = Outcome::Info;
        self.transactions.push(Transaction { process, start_ns, finish_ns: None, outcome, line, ops });
        Ok(())
    }

    fn learn_model(&mut self, line: u64, op: &MicroOp) -> Result<(), HistoryError> {
        let model = match op {
            MicroOp::Append { .. } | MicroOp::ReadList { .. } => Model::Lists,
            MicroOp::ReadRegister { value: None, .. } => return Ok(()),
            MicroOp::Write { .. } | MicroOp::ReadRegister { .. } | MicroOp::Scan { .. } => Model::Registers,
        };
        match self.model {
            None => self.model = Some((model, line)),
            Some((other, other_line)) if other != model => {
                return Err(HistoryError::MixedModels { line, model, other_line, other });
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// The history, transactions still open taken as of unknown outcome.
    ///
    /// # Errors
    /// None at present; a later invariant may need the whole history to be judged.
    pub fn finish(mut self) -> Result<History, HistoryError> {
        let model = self.model.map_or(Model::Registers, |(model, _)| model);
        if model == Model::Lists {
            for transaction in &mut self.transactions {
                let known = transaction.outcome == Outcome::Ok;
                for op in &mut transaction.ops {
                    if let MicroOp::ReadRegister { key, value: None } = *op {
                        *op = MicroOp::ReadList { key, list: None };
                    }
                    if let MicroOp::ReadList { list: list @ None, .. } = op
                        && known
                    {
                        *list = Some(Vec::new());
                    }
                }
            }
        }
        Ok(History { model, transactions: self.transactions })
    }
}
