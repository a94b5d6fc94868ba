//! Recorded transactions: lists or registers in transactional memory, all attempts and what each of them read.
//!
//! What the user of a transactional memory sees is more than what commits: a closure sees what it reads also in an attempt of which
//! nothing comes. So each attempt is a transaction of the history: `ok` if it committed, `fail` if it met a conflict or was called
//! off, with everything that it had read by then. After the run the history is checked to be opaque
//! ([`crate::check::Options::opaque`]).
//!
//! A few keys are hot, so that nearly every two transactions meet, and new ones take their place, so that lists stay
//! short. Some transactions only read, some are called off by their user after they have written; and now and then a worker gives its
//! processor away in the midst of one, which is what makes attempts overlap where workers outnumber cores.
//! Registers are read before they are written, so that the order of their versions can be told from what was read.
//!
//! A list is sixteen words in place, so that there are some steps between its first word and its last, in which somebody may come.
//!
//! # In a fixed table
//!
//! A closure sees values when they have been confirmed to belong together ([`noonmark_stm::TFixed`]); attempts that fail after that are
//! recorded, too. Under TicToc, which is not opaque, only what commits is judged, and not in real time, since it is not
//! strict.
//!
//! # What it does not do
//!
//! It does not run for so many seconds: a history is kept in memory, some hundred bytes a step, and the number of keys is made for
//! that of the transactions. Nor does it measure anything that is worth comparing: looking at the clock takes longer than reading.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use noonmark_stm::{Control, Interrupted, Reads, Session, TFixed, TVar, TicToc, World, Writes};

use super::names::Preset;
use super::spec::Settings;
use super::stage::{self, Counted, Work};
use crate::history::{Key, MicroOp, Model, Outcome, Process, Recorder, Value};
use crate::random::Random;
use crate::report::{Progress, RunReport};
use crate::verdict::{self, Promise};
use crate::workload::{RunError, Seat};

/// The most transactions of a run.
pub const TRANSACTIONS_MAX: u64 = 10_000_000;
/// How many keys are hot at a time.
const HOT: u64 = 4;
/// After how many transactions the next key becomes hot: each is for some sixty, which put about as many elements into a list as
/// there is room for.
const TRANSACTIONS_PER_KEY: u64 = 16;
/// Elements of a list.
const LENGTH: usize = 15;
/// The number of elements, and the elements.
type List = [i64; LENGTH + 1];
/// Places of a transaction in a fixed table.
const PLACES: usize = 3;

/// That the settings are those of a recorded run.
pub(super) fn check(settings: &Settings) -> Result<(), RunError> {
    let wrong = |what: String| Err(RunError::Setting(what));
    match settings.length.transactions {
        Some(1..=TRANSACTIONS_MAX) if settings.length.seconds.is_none() && settings.warm_up_s == 0.0 => {
            Ok(())
        }
        Some(1..=TRANSACTIONS_MAX) => {
            wrong("a recorded run ends after so many transactions, not seconds".into())
        }
        _ => wrong(format!("a recorded run is of 1 to {TRANSACTIONS_MAX} transactions")),
    }
}

fn elements(list: &List) -> Vec<Value> {
    list[1..].iter().take(list[0] as usize).copied().map(Value).collect()
}

/// With a new element, if there is room.
fn longer(mut list: List, value: i64) -> Option<List> {
    let len = list[0] as usize;
    *list.get_mut(len + 1)? = value;
    list[0] += 1;
    Some(list)
}

/// What all transactions of a run have in common.
struct Common {
    model: Model,
    /// What was written last. Values are unique, and those that registers begin with come first.
    last_value: AtomicI64,
    /// Transactions that have begun: says which keys are hot.
    begun: AtomicU64,
    keys: usize,
}

impl Common {
    fn new(settings: &Settings) -> Self {
        let transactions = settings.length.transactions.unwrap_or(0);
        let keys = (transactions / TRANSACTIONS_PER_KEY + HOT) as usize + PLACES;
        let model = if settings.preset == Preset::Append { Model::Lists } else { Model::Registers };
        Common { model, last_value: AtomicI64::new(keys as i64), begun: AtomicU64::new(0), keys }
    }

    fn new_value(&self) -> i64 {
        // Relaxed: all that is wanted is that none comes twice.
        self.last_value.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The first of the keys that are hot now.
    fn first_hot(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed) / TRANSACTIONS_PER_KEY
    }

    /// What the registers begin with is somebody's, too.
    fn beginning(&self, process: u64) -> Option<Recorder> {
        (self.model == Model::Registers).then(|| {
            let mut recorder = Recorder::new(Process(process), "txn");
            recorder.begin(0);
            let write = |key| MicroOp::Write { key: Key(key), value: Some(Value(key)) };
            (0..self.keys as i64).for_each(|key| recorder.op(write(key)));
            recorder.finish(Outcome::Ok, 1);
            recorder
        })
    }

    fn seen(&self, key: usize, words: &List) -> MicroOp {
        let key = Key(key as i64);
        match self.model {
            Model::Lists => MicroOp::ReadList { key, list: Some(elements(words)) },
            Model::Registers => MicroOp::ReadRegister { key, value: Some(Value(words[0])) },
        }
    }

    /// With something new, and what that is to be called; nothing where a list is full.
    fn changed(&self, key: usize, words: List) -> Option<(List, MicroOp)> {
        let (key, value) = (Key(key as i64), self.new_value());
        match self.model {
            Model::Lists => {
                let op = MicroOp::Append { key, value: Value(value) };
                longer(words, value).map(|list| (list, op))
            }
            Model::Registers => {
                // All words are the same, so that what is torn shows.
                let op = MicroOp::Write { key, value: Some(Value(value)) };
                Some(([value; LENGTH + 1], op))
            }
        }
    }

    /// What a place holds at the beginning.
    fn first(&self, key: usize) -> List {
        match self.model {
            Model::Lists => [0; LENGTH + 1],
            Model::Registers => [key as i64; LENGTH + 1],
        }
    }
}

/// A worker's history.
struct Attempts {
    recorder: Recorder,
    epoch: Instant,
    /// When the attempt under way took its last step, if it has taken any.
    last_ns: Option<u64>,
}

impl Attempts {
    fn new(process: usize, epoch: Instant) -> Self {
        Attempts { recorder: Recorder::new(Process(process as u64), "txn"), epoch, last_ns: None }
    }

    /// Later than what the registers begin with.
    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64 + 2
    }

    /// An attempt begins: if there was one under way, nothing has come of it.
    fn begin(&mut self) {
        self.begin_at(self.now_ns());
    }

    /// As [`Attempts::begin`]: it began then, or later.
    fn begin_at(&mut self, start_ns: u64) {
        if let Some(last_ns) = self.last_ns.take() {
            self.recorder.finish(Outcome::Fail, last_ns);
        }
        self.recorder.begin(start_ns);
    }

    fn did(&mut self, op: MicroOp) {
        self.recorder.op(op);
        self.last_ns = Some(self.now_ns());
    }

    fn end(&mut self, outcome: Outcome) {
        self.last_ns = None;
        self.recorder.finish(outcome, self.now_ns());
    }
}

/// One step of a transaction.
#[derive(Clone, Copy)]
struct Step {
    key: usize,
    writes: bool,
    /// Whether the processor is given away before it.
    yields: bool,
}

fn draw_steps(common: &Common, random: &mut Random, steps: &mut Vec<Step>) {
    let first = common.first_hot();
    steps.clear();
    steps.extend((0..random.between(2, 4)).map(|_| Step {
        key: ((first + random.below(HOT)) as usize).min(common.keys - 1),
        writes: random.happens(0.4),
        yields: random.happens(0.1),
    }));
}

/// What the share of transactions is that only read; and of those, beside all others, that are called off.
const VIEW_SHARE: f64 = 0.25;
const CALLED_OFF_SHARE: f64 = 0.1;

struct CalledOff;

impl From<Interrupted> for CalledOff {
    fn from(_: Interrupted) -> Self {
        CalledOff
    }
}

/// A worker on variables.
struct OnVariables<'a, W: World> {
    common: &'a Common,
    vars: &'a [TVar<List, W>],
    session: Session<W>,
    random: Random,
    attempts: Attempts,
    steps: Vec<Step>,
}

/// Reads, and tells.
fn look<'tx, W: World, X: Reads<'tx, W>>(
    tx: X,
    (common, vars): (&Common, &'tx [TVar<List, W>]),
    step: Step,
    attempts: &mut Attempts,
) -> Result<List, Interrupted> {
    if step.yields {
        std::thread::yield_now();
    }
    let words = vars[step.key].get(tx)?;
    attempts.did(common.seen(step.key, &words));
    Ok(words)
}

/// All steps of a transaction.
fn go<'tx, W: World, X: Writes<'tx, W>>(
    tx: X,
    on: (&Common, &'tx [TVar<List, W>]),
    steps: &[Step],
    attempts: &mut Attempts,
) -> Result<(), Interrupted> {
    for &step in steps {
        let words = look(tx, on, step, attempts)?;
        if step.writes
            && let Some((words, op)) = on.0.changed(step.key, words)
        {
            // Before it is handed over: should it fail, and leak all the same, the checker knows the value.
            attempts.did(op);
            on.1[step.key].set(tx, words)?;
        }
    }
    Ok(())
}

impl<W: World> Work for OnVariables<'_, W> {
    type Tally = Recorder;

    fn execute(&mut self) {
        let OnVariables { common, vars, session, random, attempts, steps } = self;
        let on = (*common, *vars);
        draw_steps(common, random, steps);
        if random.happens(CALLED_OFF_SHARE) {
            let called_off: Result<(), CalledOff> = session.try_atomically(|tx| {
                attempts.begin();
                go(tx, on, steps, attempts)?;
                Err(CalledOff)
            });
            // (There is no other way out of it.)
            attempts.end(if called_off.is_ok() { Outcome::Info } else { Outcome::Fail });
        }
        if random.happens(VIEW_SHARE) {
            session.view(|tx| {
                attempts.begin();
                steps.iter().try_for_each(|&step| look(tx, on, step, attempts).map(drop))
            });
        } else {
            session.atomically(|tx| {
                attempts.begin();
                go(tx, on, steps, attempts)
            });
        }
        attempts.end(Outcome::Ok);
    }

    fn tally(self) -> Recorder {
        self.attempts.recorder
    }
}

/// Runs it on variables of a world, and has its history judged. Worlds that are broken are refused, which is a condition of the report
/// that does not hold.
///
/// # Errors
/// As [`super::run`].
pub fn run_in<W: World>(
    settings: &Settings,
    name: &str,
    counted: &(dyn Fn() -> Counted + Sync),
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    check(settings)?;
    let common = Common::new(settings);
    let vars: Vec<TVar<List, W>> = (0..common.keys).map(|key| TVar::new_in(common.first(key))).collect();
    let worker = |Seat { number, random, epoch, .. }| OnVariables {
        common: &common,
        vars: &vars,
        session: W::session(),
        random,
        attempts: Attempts::new(number, epoch),
        steps: Vec::new(),
    };
    let measured = stage::measure(&settings.plan(), settings.pace, worker, counted, progress)?;
    conclude(settings, name, &common, measured, Promise::Opaque)
}

/// A worker on a fixed table.
struct OnTable<'a, C: Control> {
    common: &'a Common,
    table: &'a TFixed<List, C>,
    random: Random,
    attempts: Attempts,
    steps: Vec<Step>,
}

impl<C: Control> Work for OnTable<'_, C> {
    type Tally = Recorder;

    fn execute(&mut self) {
        let OnTable { common, table, random, attempts, steps } = self;
        draw_steps(common, random, steps);
        let step = steps[0];
        // Different ones: what is made of a place that is named twice is not told by steps.
        let places: [usize; PLACES] = std::array::from_fn(|nth| (step.key + nth * nth) % common.keys);
        // The closure comes when all has been read: an attempt began after the one before it, and that is all that is known.
        let mut since_ns = attempts.now_ns();
        let done = table.update(places, |mut all| {
            attempts.begin_at(since_ns);
            places.iter().zip(&all).for_each(|(&key, words)| attempts.did(common.seen(key, words)));
            if step.yields {
                std::thread::yield_now();
            }
            if step.writes
                && let Some((words, op)) = common.changed(places[0], all[0])
            {
                attempts.did(op);
                all[0] = words;
            }
            since_ns = attempts.last_ns.unwrap_or(since_ns);
            all
        });
        // No place is outside of the table.
        attempts.end(if done.is_ok() { Outcome::Ok } else { Outcome::Info });
    }

    fn tally(self) -> Recorder {
        self.attempts.recorder
    }
}

/// The same on a fixed table.
pub fn run_fixed<C: Control>(
    settings: &Settings,
    name: &str,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    check(settings)?;
    let common = Common::new(settings);
    let table: TFixed<List, C> = TFixed::new((0..common.keys).map(|key| common.first(key)));
    let worker = |Seat { number, random, epoch, .. }| OnTable {
        common: &common,
        table: &table,
        random,
        attempts: Attempts::new(number, epoch),
        steps: Vec::new(),
    };
    let counted = || Counted::of(table.statistics(), C::NAME != TicToc::NAME, C::IS_IRREVOCABLE);
    let measured = stage::measure(&settings.plan(), settings.pace, worker, &counted, progress)?;
    let promise = if C::NAME == TicToc::NAME { Promise::Serializable } else { Promise::Opaque };
    conclude(settings, name, &common, measured, promise)
}

fn conclude(
    settings: &Settings,
    name: &str,
    common: &Common,
    mut measured: stage::Measured<Recorder>,
    promise: Promise,
) -> Result<RunReport, RunError> {
    let mut recorders = std::mem::take(&mut measured.tallies);
    recorders.extend(common.beginning(settings.threads as u64));
    let verdict = verdict::of(recorders, settings.history.as_deref(), promise)?;
    Ok(settings.report(name, &measured, verdict.into_iter().collect()))
}
