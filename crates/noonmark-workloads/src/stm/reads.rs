//! Transactions that read sixteen variables.
//!
//! A transaction reads sixteen random ones of many and adds up what it finds. A share of them, unless it is 0, moves one from the
//! first of the sixteen to the second besides.
//!
//! Invariant, checked after every run: the sum over all variables is what it was.
//!
//! What it does not do: look for the variables in a structure.

use super::spec::Settings;
use super::stage::{self, Counted, Work};
use crate::driver::memory;
use crate::report::{Progress, RunReport};
use crate::workload::{Condition, Ring, RunError, Seat};

/// How many variables a transaction reads.
pub const READS: usize = 16;
/// What is in each at the beginning.
pub const START: u64 = 1000;

/// Variables, numbered from 0.
pub trait Variables: Sync {
    /// What a thread uses them by.
    type Session<'a>: VariablesSession
    where
        Self: 'a;

    /// About how many bytes a variable takes.
    const VARIABLE_BYTES: u64 = 16;

    /// A session for the calling thread.
    fn session(&self) -> Self::Session<'_>;

    /// The sum of all, which wraps around. Nothing else runs.
    fn audit(&self) -> u64;

    /// What its control has counted so far.
    fn counted(&self) -> Counted {
        Counted::default()
    }

    /// A run is about to be measured.
    fn begin(&self) {}
}

/// Which variables a transaction reads.
pub type Which = [u32; READS];

/// How a thread uses variables. Sums wrap around.
pub trait VariablesSession {
    /// The sum of these, at one moment.
    fn sum(&mut self, of: &Which) -> u64;

    /// The same; and takes one from the first and adds one to the second, which may be the same.
    fn sum_and_move(&mut self, of: &Which) -> u64;
}

struct Worker<S> {
    session: S,
    requests: Ring<Request>,
    sum: u64,
}

#[derive(Clone, Copy)]
struct Request {
    of: Which,
    is_update: bool,
}

impl<S: VariablesSession> Work for Worker<S> {
    type Tally = ();

    #[inline]
    fn execute(&mut self) {
        let request = self.requests.take_one();
        let sum = if request.is_update {
            self.session.sum_and_move(&request.of)
        } else {
            self.session.sum(&request.of)
        };
        self.sum = self.sum.wrapping_add(sum);
    }

    fn tally(self) {
        // What is added up must be read.
        std::hint::black_box(self.sum);
    }
}

/// Runs it on so many variables, each of which is [`START`].
pub fn run<V: Variables + Send>(
    settings: &Settings,
    name: &str,
    make: impl FnOnce(usize) -> V + Send,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    memory::check(settings.keys.saturating_mul(V::VARIABLE_BYTES))?;
    let variables = stage::load(settings.keys, progress, |_| make(settings.keys as usize))?;
    variables.begin();
    let share = f64::from(settings.updates_percent) / 100.0;
    let worker = |seat| {
        let Seat { mut random, requests, .. } = seat;
        let draw = || Request {
            of: std::array::from_fn(|_| random.below(settings.keys) as u32),
            is_update: random.happens(share),
        };
        // Each request is sixteen times as large as those of the others.
        Worker { session: variables.session(), requests: Ring::of(requests / READS, 1, draw), sum: 0 }
    };
    let measured =
        stage::measure(&settings.plan(), settings.pace, worker, &|| variables.counted(), progress)?;
    let sum = START.wrapping_mul(settings.keys);
    let conditions = vec![Condition::equal("the sum of all variables", variables.audit(), sum)];
    Ok(settings.report(name, &measured, conditions))
}
