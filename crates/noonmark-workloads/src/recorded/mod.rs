//! Workloads made for the checker: `append`, `register` and `scan`.
//!
//! A few hot keys, so that nearly every two transactions meet; each retired for a fresh one after some sixty
//! writes, so that lists stay short, and rows are inserted all the time; reads before writes, so that the order
//! of a register's versions can be told from what was read; some transactions that call themselves off; deletes,
//! often followed by another insert of the same key; and now and then a
//! worker gives its processor away in the middle of a transaction, which is what
//! makes transactions overlap where workers outnumber cores. The keys are spread over as many tables as the run
//! mixes protocols, two of them to a row, each in a column group of its own: see `keys.rs`.
//!
//! What is recorded is what a user of the database would see: the values that the engine returned in the attempt
//! that ended the call. Attempts that the engine ran again unseen are not recorded; a call that ends without
//! committing (called off, or given up after so many attempts) is a `fail`. A write is recorded before it is
//! handed to the engine: should it fail, and leak all the same, the checker knows the value.
//!
//! After the run the history is merged, written to a file where one is asked for, and checked.
//!
//! | step | `append` | `register` | `scan` |
//! |---|---|---|---|
//! | read | the list | the register | the register |
//! | write | one more value at the end | a new value | a new value |
//! | delete (of the row: of two keys) | – | one write in seven | one write in four or five |
//! | scan | – | – | the registers around a key, upwards or from the end down |
//!
//! Where it is asked for, scans go by a secondary index of the rows, whose keys have all that the registers hold: they see nothing but its
//! entries. And where that is asked for, a transaction looks up the rows of all its keys together when it begins, and what it has found then stands
//! for them in its reads and updates, whatever was put in or deleted since.
//!
//! What it does not do: judge (that is [`crate::check`]), or run long: a history is kept in memory, some hundred
//! bytes a step, so it ends after so many transactions.

mod keys;
mod steps;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::bank::Updates;
use crate::history::{MicroOp, Outcome, Process, Recorder};
use crate::random::Random;
use crate::store::{Appends, Failure, Granularity, IndexKind, Session, Store, TxnResult};
use crate::verdict::{self, Promise};
use crate::workload::{Condition, Ring, RunError, Seat, Share, Workload};
use keys::Keys;
use steps::{Drawn, Step, StepKind};

/// Which of the three it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Lists that are appended to.
    Append,
    /// Registers that are read and written.
    Register,
    /// Registers that are scanned too.
    Scan,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Append => "append",
            Kind::Register => "register",
            Kind::Scan => "scan",
        }
    }
}

/// The settings of a recorded workload.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedSpec {
    /// Which of the three.
    pub kind: Kind,
    /// Tables that the keys are spread over.
    pub tables: usize,
    /// Keys in use at a time.
    pub hot_keys: u64,
    /// Writes after which a key is retired.
    pub writes_per_key: u64,
    /// The most steps of a transaction.
    pub steps_max: u64,
    /// The probability that a transaction calls itself off.
    pub rollback_share: f64,
    /// The probability that a worker gives its processor away before a step.
    pub yield_share: f64,
    /// Attempts after which a call gives up.
    pub attempts_max: u32,
    /// How lists are appended to.
    pub updates: Updates,
    /// Whether registers are scanned by a secondary index.
    pub by_index: bool,
    /// Whether a transaction looks up all of its keys together before it reads the first.
    pub together: bool,
    /// Whether the history must be serializable in real time, as strict protocols promise, or only in the order
    /// of each session.
    pub strict: bool,
    /// Where to write the history.
    pub history: Option<PathBuf>,
}

impl RecordedSpec {
    /// The usual settings.
    pub fn new(kind: Kind) -> Self {
        RecordedSpec {
            kind,
            tables: 1,
            hot_keys: 5,
            writes_per_key: 60,
            steps_max: 5,
            rollback_share: 0.03,
            yield_share: 0.05,
            attempts_max: 20,
            updates: Updates::Plain,
            by_index: false,
            together: false,
            strict: false,
            history: None,
        }
    }

    /// That the settings go together.
    pub fn check(&self) -> Result<(), RunError> {
        let wrong = |what: String| Err(RunError::Setting(what));
        if self.tables == 0 || self.tables > 1000 {
            return wrong(format!("1 to 1000 tables are wanted, not {}", self.tables));
        }
        if self.hot_keys == 0 || self.hot_keys > 10_000 {
            return wrong(format!("1 to 10000 hot keys are wanted, not {}", self.hot_keys));
        }
        if self.writes_per_key == 0 || self.steps_max == 0 || self.steps_max > 1000 || self.attempts_max == 0
        {
            let what =
                "a key takes at least one write, a transaction 1 to 1000 steps and at least one attempt";
            return wrong(what.into());
        }
        for share in [self.rollback_share, self.yield_share] {
            if !(0.0..=1.0).contains(&share) {
                return wrong(format!("a share must be from 0 to 1, not {share}"));
            }
        }
        if self.by_index && self.kind != Kind::Scan {
            return wrong("nothing would be found by the secondary index: only scan scans".into());
        }
        if self.updates == Updates::CommitTime && self.kind != Kind::Append {
            return wrong("commit-time updates of registers would not be read: only append has them".into());
        }
        Ok(())
    }
}

/// The lists that there are before a run with commit-time appends, which need a row to append to.
const LISTS_MADE: u64 = 20_000;

/// What a worker keeps.
pub struct RecordedWorker {
    requests: Ring<Drawn>,
    recorder: Recorder,
    epoch: Instant,
    steps: Vec<Step>,
    /// The rows of the steps' keys, by their tables, where they are looked up together.
    rows: Vec<Vec<u64>>,
}

impl RecordedWorker {
    /// From here on `listener` is told of each step of each attempt: a read when it has been done, a write when it is about to be.
    pub fn listen(&mut self, listener: impl FnMut(&MicroOp) + Send + 'static) {
        self.recorder.listen(listener);
    }
}

/// What the keys hold: lists or registers.
enum Held<S: Store> {
    Lists(Keys<S, Vec<u8>>),
    Registers(Keys<S, i64>),
}

/// A hot slot's own cache lines.
#[repr(align(128))]
struct Slot {
    /// Writes drawn in it so far: says which key it stands for now, and makes values unique.
    writes: AtomicU64,
}

/// A recorded workload on a store.
pub struct Recorded<S: Store> {
    spec: RecordedSpec,
    held: Held<S>,
    scope: S::Scope,
    /// Of transactions that only read.
    reading: S::Scope,
    slots: Vec<Slot>,
}

impl<S: Store> Recorded<S> {
    /// Makes its tables. Scans want an ordered index.
    pub fn new(
        store: &S,
        spec: RecordedSpec,
        index: IndexKind,
        granularity: Granularity,
    ) -> Result<Self, RunError> {
        spec.check()?;
        if spec.kind == Kind::Scan && index == IndexKind::Hash && !spec.by_index {
            return Err(RunError::Setting("a hash index has no order to scan: take an ordered one".into()));
        }
        let (name, tables) = (spec.kind.name(), spec.tables);
        let (held, [scope, reading]) = match spec.kind {
            Kind::Append => {
                let (keys, scope) = Keys::new(store, name, tables, index, granularity)?;
                (Held::Lists(keys), scope)
            }
            Kind::Register | Kind::Scan => {
                let (mut keys, scope) = Keys::new(store, name, tables, index, granularity)?;
                if spec.by_index {
                    keys.index(store)?;
                }
                (Held::Registers(keys), scope)
            }
        };
        let slots = (0..spec.hot_keys).map(|_| Slot { writes: AtomicU64::new(0) }).collect();
        Ok(Recorded { spec, held, scope, reading, slots })
    }

    /// The key that stands in a slot after so many writes.
    fn key(&self, slot: u16, writes: u64) -> u64 {
        u64::from(slot) + self.spec.hot_keys * (writes / self.spec.writes_per_key)
    }

    /// Turns slots into keys and draws the values to write.
    fn resolve(&self, drawn: &Drawn, steps: &mut Vec<Step>) {
        steps.clear();
        // Relaxed: all that is wanted of the count is that no write gets a number twice.
        for (slot, kind) in drawn.steps() {
            let Some(Slot { writes }) = self.slots.get(usize::from(slot)) else { continue };
            let writes = if kind == StepKind::Write {
                writes.fetch_add(1, Ordering::Relaxed)
            } else {
                writes.load(Ordering::Relaxed)
            };
            let key = self.key(slot, writes);
            let value = (writes % self.spec.writes_per_key) as i64 + 1;
            if matches!(kind, StepKind::Write | StepKind::Delete) && self.spec.kind != Kind::Append {
                steps.push(Step { kind: StepKind::Read, key, value });
            }
            steps.push(Step { kind, key, value });
        }
        // Reads first, each once.
        steps.sort_by_key(|step| matches!(step.kind, StepKind::Write | StepKind::Delete));
        let mut at = 0;
        while at < steps.len() {
            let Step { kind, key, .. } = steps[at];
            if kind == StepKind::Read
                && steps[..at].iter().any(|step| step.kind == StepKind::Read && step.key == key)
            {
                steps.remove(at);
            } else {
                at += 1;
            }
        }
    }
}

impl<S: Appends> Workload<S> for Recorded<S> {
    type Worker = RecordedWorker;

    fn rows(&self) -> u64 {
        if self.spec.updates == Updates::CommitTime { LISTS_MADE } else { 0 }
    }

    fn load_bytes(&self) -> u64 {
        Workload::<S>::rows(self) * 128
    }

    fn load(&self, session: &mut S::Session, share: Share, loaded: &dyn Fn(u64)) -> Result<(), RunError> {
        let Held::Lists(keys) = &self.held else { return Ok(()) };
        for key in share.of(Workload::<S>::rows(self)) {
            // A row is made for the first of its two keys.
            if keys.sibling(key) < key {
                continue;
            }
            let made = session.run(&self.scope, |tx| Ok(keys.insert(tx, key, Vec::new())?));
            made.map_err(|failure| RunError::transaction("making lists", failure))?;
            loaded(1);
        }
        Ok(())
    }

    fn worker(&self, seat: Seat) -> Result<RecordedWorker, RunError> {
        let Seat { mut random, requests, number, epoch, .. } = seat;
        let requests = Ring::of(requests, 1, || Drawn::new(&self.spec, &mut random));
        let recorder = Recorder::new(Process(number as u64), "txn");
        Ok(RecordedWorker { requests, recorder, epoch, steps: Vec::new(), rows: Vec::new() })
    }

    fn execute(&self, session: &mut S::Session, worker: &mut RecordedWorker) -> TxnResult<S, ()> {
        let RecordedWorker { requests, recorder, epoch, steps, rows } = worker;
        let drawn = requests.take_one();
        self.resolve(drawn, steps);
        let now_ns = || epoch.elapsed().as_nanos() as u64;
        recorder.begin(now_ns());
        let writes = |step: &Step| matches!(step.kind, StepKind::Write | StepKind::Delete);
        let scope = if steps.iter().any(writes) { &self.scope } else { &self.reading };
        if self.spec.together {
            let keys = steps.iter().filter(|step| step.kind != StepKind::Scan).map(|step| step.key);
            match &self.held {
                Held::Lists(held) => held.rows_of(keys, rows),
                Held::Registers(held) => held.rows_of(keys, rows),
            }
        }
        let ended = session.run_up_to(self.spec.attempts_max, scope, |tx| {
            recorder.restart();
            let found = match &self.held {
                _ if !self.spec.together => Vec::new(),
                Held::Lists(keys) => keys.look_up(tx, rows),
                Held::Registers(keys) => keys.look_up(tx, rows),
            };
            for (at, step) in steps.iter().enumerate() {
                if drawn.yields_before(at) {
                    std::thread::yield_now();
                }
                match &self.held {
                    Held::Lists(keys) => {
                        let at_commit = self.spec.updates == Updates::CommitTime && step.key < LISTS_MADE;
                        steps::list_step::<S>(tx, keys, &found, at_commit, step, recorder)?;
                    }
                    Held::Registers(keys) => steps::register_step::<S>(tx, keys, &found, step, recorder)?,
                }
            }
            if drawn.rolls_back { Err(Failure::Rollback) } else { Ok(()) }
        });
        let outcome = if ended.is_ok() { Outcome::Ok } else { Outcome::Fail };
        recorder.finish(outcome, now_ns());
        ended
    }

    fn check(
        &self,
        _session: &mut S::Session,
        workers: &mut Vec<RecordedWorker>,
    ) -> Result<Vec<Condition>, RunError> {
        let recorders = workers.drain(..).map(|worker| worker.recorder).collect();
        Ok(verdict::of(recorders, self.spec.history.as_deref(), Promise::in_real_time(self.spec.strict))?
            .into_iter()
            .collect())
    }
}

/// Random numbers for tests and requests share one source; nothing here draws any other way.
fn draw_steps(spec: &RecordedSpec, random: &mut Random) -> Vec<(u16, StepKind)> {
    let count = random.between(1, spec.steps_max);
    let mut steps: Vec<(u16, StepKind)> = (0..count)
        .map(|_| {
            let slot = random.below(spec.hot_keys) as u16;
            let dice = random.below(100);
            let kind = match spec.kind {
                Kind::Append if dice < 50 => StepKind::Read,
                Kind::Append => StepKind::Write,
                Kind::Register if dice < 46 => StepKind::Read,
                Kind::Register if dice < 92 => StepKind::Write,
                Kind::Scan if dice < 30 => StepKind::Scan,
                Kind::Scan if dice < 46 => StepKind::Read,
                Kind::Scan if dice < 88 => StepKind::Write,
                _ => StepKind::Delete,
            };
            (slot, kind)
        })
        .collect();
    // One write or delete of a slot is enough for a transaction.
    let mut written = Vec::new();
    steps.retain(|(slot, kind)| {
        let writes = matches!(kind, StepKind::Write | StepKind::Delete);
        let again = writes && spec.kind != Kind::Append && written.contains(slot);
        if writes {
            written.push(*slot);
        }
        !again
    });
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Length, Plan, drive};
    use crate::history::History;
    use crate::mutex::MutexStore;

    fn plan(transactions: u64) -> Plan {
        Plan {
            threads: 4,
            length: Length::transactions(transactions),
            warm_up_s: 0.0,
            seed: 1,
            requests: 2000,
            count_allocations: false,
        }
    }

    fn run(spec: RecordedSpec) -> Vec<Condition> {
        let store = MutexStore::new();
        let workload = Recorded::new(&store, spec, IndexKind::Ordered, Granularity::Fine).unwrap();
        let measured = drive(&store, &workload, &plan(6000), &mut |_| {}).unwrap();
        assert!(measured.user_rollbacks > 0);
        assert_eq!(measured.committed + measured.user_rollbacks, 6000);
        measured.conditions
    }

    #[test]
    fn histories_of_the_locked_map_are_strictly_serializable() {
        for kind in [Kind::Append, Kind::Register, Kind::Scan] {
            for tables in [1, 3] {
                let conditions = run(RecordedSpec { strict: true, tables, ..RecordedSpec::new(kind) });
                assert!(conditions[0].holds, "{}", conditions[0].words);
                assert!(conditions[0].words.contains("an order was found"), "{}", conditions[0].words);
            }
        }
        let conditions =
            run(RecordedSpec { strict: true, tables: 2, by_index: true, ..RecordedSpec::new(Kind::Scan) });
        assert!(conditions[0].holds, "{}", conditions[0].words);
        let spec = RecordedSpec { updates: Updates::CommitTime, ..RecordedSpec::new(Kind::Append) };
        let conditions = run(spec);
        assert!(conditions[0].holds, "{}", conditions[0].words);
    }

    #[test]
    fn the_history_goes_to_the_file_and_keys_are_retired() {
        let path = std::env::temp_dir().join(format!("noonmark-append-{}.jsonl", std::process::id()));
        let spec = RecordedSpec { history: Some(path.clone()), ..RecordedSpec::new(Kind::Append) };
        let (hot_keys, writes_per_key) = (spec.hot_keys, spec.writes_per_key);
        run(spec);
        let text = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let history = History::read(text.as_slice()).unwrap();
        assert_eq!(history.transactions().len(), 6000);
        let mut writes = std::collections::BTreeMap::<i64, u64>::new();
        for transaction in history.transactions() {
            for op in &transaction.ops {
                if let crate::history::MicroOp::Append { key, .. } = op {
                    *writes.entry(key.0).or_default() += 1;
                }
            }
        }
        assert!(writes.len() as u64 > 3 * hot_keys, "{}", writes.len());
        assert!(writes.values().all(|count| *count <= writes_per_key));
    }

    #[test]
    fn a_lost_update_is_found() {
        // Two transactions that both read the empty list and append, neither seeing the other: recorded as if
        // an engine had done so.
        use crate::history::{Key, MicroOp, Value};
        let store = MutexStore::new();
        let spec = RecordedSpec::new(Kind::Append);
        let workload = Recorded::new(&store, spec, IndexKind::Ordered, Granularity::Fine).unwrap();
        let worker = |process: u64, value: i64| {
            let mut recorder = Recorder::new(Process(process), "txn");
            recorder.begin(1);
            recorder.op(MicroOp::ReadList { key: Key(1), list: Some(vec![]) });
            recorder.op(MicroOp::Append { key: Key(1), value: Value(value) });
            recorder.finish(Outcome::Ok, 10);
            recorder.begin(20);
            recorder.op(MicroOp::ReadList { key: Key(1), list: Some(vec![Value(1), Value(2)]) });
            recorder.finish(Outcome::Ok, 30);
            let random = Random::new(1, process);
            let seat = Seat { number: 0, count: 2, random, requests: 1, epoch: Instant::now() };
            RecordedWorker { recorder, ..Workload::<MutexStore>::worker(&workload, seat).unwrap() }
        };
        let mut workers = vec![worker(0, 1), worker(1, 2)];
        let conditions = workload.check(&mut store.session().unwrap(), &mut workers).unwrap();
        assert!(!conditions[0].holds, "{}", conditions[0].words);
    }
}
