//! Workers as coroutines, and who of them runs next.
//!
//! A worker runs until it must wait: for its turn, because it is about to do something that others can see and the
//! clock of another is behind its own; or for somebody to wake it. Whoever is behind runs next. Between two such points a
//! worker runs alone, whatever it does.
//!
//! **Ties** are broken by numbers drawn from the seed, and workers begin at times drawn from it, so that they do not march
//! in step, which no real cores do.
//!
//! **Limits.** A run that has come to its limit is over: whoever waits then is told that his time is up, and whoever asks
//! ([`crate::VirtualCores::is_over`]) should come to an end. It is drained, not dropped: each worker goes on until it
//! returns, and frees what it has.
//!
//! **Nobody left to wake.** If all workers wait to be woken, none of them ever will be. That is a lost wake-up, or a
//! deadlock, and an error of the run: they are told that their time is up, so that they end, and the run says who waited.
//!
//! What it does not do: it knows no host and no line.

use crate::lines::LineCounts;
use crate::machine::Picoseconds;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use noonmark_core::prefetch;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ptr::NonNull;

/// A worker's stack. Transactions are shallow; what is not touched takes no memory.
const STACK_BYTES: usize = 256 << 10;

/// How long a run may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Virtual time after which it is over.
    pub until_ps: Picoseconds,
    /// How often workers may touch lines, all together, before it is over: for those that get nowhere.
    pub steps: u64,
}

impl Default for Limits {
    /// None to speak of: a hundred virtual days.
    fn default() -> Self {
        Limits { until_ps: 8_640_000_000_000_000_000, steps: u64::MAX }
    }
}

/// What ended a run before its workers did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::until_ps`].
    Time,
    /// [`Limits::steps`].
    Steps,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// When the last worker ended.
    pub ended_ps: Picoseconds,
    /// How often workers touched lines, or otherwise did something that others could see.
    pub steps: u64,
    /// How often another worker went on than the one before.
    pub switches: u64,
    /// What became of the lines.
    pub lines: LineCounts,
    /// The limit that ended the run, if one did.
    pub limit: Option<Limit>,
}

/// Why there is no report of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// More workers than the machine has cores.
    #[error("{workers} workers, on a machine of {cores} cores")]
    TooManyWorkers {
        /// How many were to run.
        workers: usize,
        /// How many can.
        cores: usize,
    },
    /// A run within a run.
    #[error("a run is under way on these cores already")]
    UnderWay,
    /// No memory for the stacks.
    #[error("no memory for the workers' stacks: {0}")]
    Stacks(String),
    /// All that had not ended waited to be woken, by nobody.
    #[error("workers {0:?} waited to be woken, and nobody was left to wake them")]
    NobodyLeft(Vec<usize>),
}

/// Why a worker does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// It does, or it is in line.
    Ready,
    /// It waits to be woken. If it has a deadline, it is in line for that, too.
    Asleep,
    /// It has returned.
    Ended,
}

/// A place in line: the time, a random number for those of the same time, and the worker, in one number, as they are compared
/// all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u128);

impl Place {
    /// Behind all others, and nobody's.
    const NOWHERE: Place = Place(u128::MAX);

    fn new(at_ps: Picoseconds, tie: u32, worker: usize) -> Self {
        // As many workers as there is memory for their stacks.
        Place(u128::from(at_ps) << 64 | u128::from(tie) << 32 | (worker as u32) as u128)
    }

    fn at_ps(self) -> Picoseconds {
        (self.0 >> 64) as u64
    }

    fn worker(self) -> usize {
        self.0 as u32 as usize
    }
}

#[derive(Debug)]
struct Worker {
    clock_ps: Picoseconds,
    mode: Mode,
    /// Somebody has woken it since it last began to wait.
    is_woken: bool,
    /// Where it is in line: what else is there of it is out of date.
    place: Place,
    /// Where its stack ended when it was last suspended, more or less.
    stack_at: usize,
    /// When it looks, if it looks again and again at what it watches.
    looks: Looks,
}

/// Times at which somebody looks.
#[derive(Clone, Copy, Debug)]
struct Looks {
    first_ps: Picoseconds,
    every_ps: Picoseconds,
}

impl Looks {
    /// How many of them are before this time.
    fn before(self, at_ps: Picoseconds) -> u64 {
        at_ps.saturating_sub(self.first_ps).div_ceil(self.every_ps)
    }

    /// When the one is after so many.
    fn after(self, looks: u64) -> Picoseconds {
        self.first_ps.saturating_add(looks.saturating_mul(self.every_ps))
    }
}

/// Asks for what whoever goes on where his stack ends will need first.
fn ask_for_stack(stack_at: usize) {
    let first = (stack_at & !63).wrapping_sub(128);
    for line in 0..12 {
        prefetch(std::ptr::without_provenance(first.wrapping_add(64 * line)));
    }
}

/// Who is in line, and the clocks.
#[derive(Debug)]
pub(crate) struct Clocks {
    workers: Vec<Worker>,
    /// By clock, then by a random number: who goes on next. Places that are out of date are passed over.
    line: BinaryHeap<Reverse<Place>>,
    running: Option<usize>,
    /// When those are over that have no clock: before, between and after runs.
    idle_ps: Picoseconds,
    limits: Limits,
    /// The limit that the run has come to.
    limit: Option<Limit>,
    /// Nobody was left to wake these.
    stranded: Vec<usize>,
    steps: u64,
    /// How many there had been when time was last put off ([`Clocks::puts_off`]).
    put_off_at: u64,
    switches: u64,
    random: u64,
}

impl Clocks {
    pub(crate) fn new(seed: u64) -> Self {
        Clocks {
            workers: Vec::new(),
            line: BinaryHeap::new(),
            running: None,
            idle_ps: 0,
            limits: Limits::default(),
            limit: None,
            stranded: Vec::new(),
            steps: 0,
            put_off_at: u64::MAX,
            switches: 0,
            random: seed,
        }
    }

    /// The next random number (SplitMix64).
    pub(crate) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Who runs, if anybody does.
    pub(crate) fn running(&self) -> Option<usize> {
        self.running
    }

    /// What time it is for whoever runs.
    pub(crate) fn now_ps(&self) -> Picoseconds {
        self.running.map_or(self.idle_ps, |worker| self.workers[worker].clock_ps)
    }

    /// The time of whoever is furthest ahead, of those that have not ended.
    pub(crate) fn last_ps(&self) -> Picoseconds {
        let clocks =
            self.workers.iter().filter(|worker| worker.mode != Mode::Ended).map(|worker| worker.clock_ps);
        clocks.max().unwrap_or(self.idle_ps).max(self.now_ps())
    }

    /// Puts the clock of whoever runs forward to this time.
    pub(crate) fn set_now(&mut self, now_ps: Picoseconds) {
        match self.running {
            Some(worker) => self.workers[worker].clock_ps = self.workers[worker].clock_ps.max(now_ps),
            None => self.idle_ps = self.idle_ps.max(now_ps),
        }
    }

    /// Whoever runs is about to do something that others can see: who goes on instead, if anybody is behind. Then this one is in line, and
    /// is to be suspended.
    #[inline]
    pub(crate) fn must_let_go_first(&mut self) -> Option<usize> {
        let worker = self.running?;
        self.steps += 1;
        let now_ps = self.workers[worker].clock_ps;
        if now_ps >= self.limits.until_ps || self.steps >= self.limits.steps {
            self.come_to_limit(now_ps);
        }
        self.skip_outdated();
        if self.line.peek().is_none_or(|Reverse(first)| first.at_ps() > now_ps) {
            return None;
        }
        let own = self.place(worker, now_ps);
        let next = self.change_places(worker, own);
        if next.is_none() {
            self.workers[worker].place = Place::NOWHERE;
        }
        next
    }

    /// Whoever runs gets in line at this place: who goes on instead. `None`: nobody comes before him, and he is not in line.
    #[inline]
    fn change_places(&mut self, worker: usize, own: Place) -> Option<usize> {
        // The first one's place is taken, which is half the work of leaving the line and getting in.
        let first = match self.line.peek_mut() {
            Some(mut first) if first.0 < own => std::mem::replace(&mut *first, Reverse(own)).0,
            _ => return None,
        };
        // While that one goes on, the stack of the one after him comes into the cache.
        self.workers[worker].stack_at = std::ptr::from_ref(&own).addr();
        if let Some(&Reverse(then)) = self.line.peek() {
            ask_for_stack(self.workers[then.worker()].stack_at);
        }
        Some(self.go_on(first))
    }

    /// All are to end, and wait no more.
    #[cold]
    fn come_to_limit(&mut self, now_ps: Picoseconds) {
        if self.limit.is_none() {
            self.limit = Some(if now_ps >= self.limits.until_ps { Limit::Time } else { Limit::Steps });
            self.rouse();
        }
    }

    /// Time is about to pass for whoever runs: whether it is early enough to let others go on at the next step. So it is once between
    /// two steps: who has taken none since is on his way to none.
    pub(crate) fn puts_off(&mut self) -> bool {
        std::mem::replace(&mut self.put_off_at, self.steps) != self.steps
    }

    /// Whoever is first in line then is there.
    fn skip_outdated(&mut self) {
        while let Some(&Reverse(first)) = self.line.peek()
            && self.workers[first.worker()].place != first
        {
            self.line.pop();
        }
    }

    /// A new place for a worker.
    fn place(&mut self, worker: usize, at_ps: Picoseconds) -> Place {
        let place = Place::new(at_ps, self.random() as u32, worker);
        self.workers[worker].place = place;
        place
    }

    /// Gets in line, to go on when nobody's clock is before this time.
    fn line_up(&mut self, worker: usize, at_ps: Picoseconds) {
        let place = self.place(worker, at_ps);
        self.line.push(Reverse(place));
    }

    /// Whoever runs gets in line to look, after this time and then at intervals, so often at most, at what he saw before: until somebody changes it
    /// ([`Clocks::call`]) only the last look is one at which anything happens. Who goes on instead, if anybody is before that; then he is to be suspended.
    pub(crate) fn look_on(
        &mut self,
        first_ps: Picoseconds,
        every_ps: Picoseconds,
        looks_max: u32,
    ) -> Option<usize> {
        let worker = self.running?;
        let looks = Looks { first_ps, every_ps: every_ps.max(1) };
        self.workers[worker].looks = looks;
        self.skip_outdated();
        let own = self.place(worker, looks.after(u64::from(looks_max) - 1));
        let next = self.change_places(worker, own);
        if next.is_none() {
            self.go_on(own);
        }
        next
    }

    /// Whoever runs changes what a worker looks at: that worker goes on at his next look.
    pub(crate) fn call(&mut self, worker: usize) {
        let looks = self.workers[worker].looks;
        let at_ps = looks.after(looks.before(self.now_ps()));
        if at_ps < self.workers[worker].place.at_ps() {
            self.line_up(worker, at_ps);
        }
    }

    /// How often whoever runs has looked in vain since he said that he would look, up to now. They were steps.
    pub(crate) fn looks_in_vain(&mut self) -> u32 {
        let Some(worker) = self.running else { return 0 };
        let Worker { looks, clock_ps, .. } = self.workers[worker];
        let in_vain = looks.before(clock_ps);
        self.steps += in_vain;
        in_vain as u32
    }

    /// Whoever runs will wait to be woken, unless he has been since he last said that he would look: whether he
    /// does.
    pub(crate) fn fall_asleep(&mut self, until_ps: Option<Picoseconds>) -> bool {
        let Some(worker) = self.running else { return false };
        if std::mem::take(&mut self.workers[worker].is_woken) {
            return false;
        }
        // Who waits for a while, looks, and waits again may do so for ever, and take no step.
        let now_ps = self.workers[worker].clock_ps;
        if now_ps >= self.limits.until_ps {
            self.come_to_limit(now_ps);
        }
        if self.is_over() {
            return false;
        }
        self.workers[worker].mode = Mode::Asleep;
        if let Some(until_ps) = until_ps {
            let at_ps = until_ps.max(self.workers[worker].clock_ps);
            self.line_up(worker, at_ps);
        } else {
            self.workers[worker].place = Place::NOWHERE;
        }
        true
    }

    /// Whoever runs will look whether what he waits for is there: who wakes him from here on has not done so in vain.
    pub(crate) fn forget_wakes(&mut self) {
        if let Some(worker) = self.running {
            self.workers[worker].is_woken = false;
        }
    }

    /// Wakes a worker: it goes on at this time.
    pub(crate) fn wake(&mut self, worker: usize, at_ps: Picoseconds) {
        let Some(sleeper) = self.workers.get_mut(worker) else { return };
        match sleeper.mode {
            Mode::Asleep => {
                sleeper.mode = Mode::Ready;
                sleeper.clock_ps = sleeper.clock_ps.max(at_ps);
                let at_ps = sleeper.clock_ps;
                self.line_up(worker, at_ps);
            }
            Mode::Ready => sleeper.is_woken = true,
            Mode::Ended => {}
        }
    }

    /// Takes whoever is next out of the line, and lets him run. `None`: nobody is in it.
    fn next(&mut self) -> Option<usize> {
        self.skip_outdated();
        let Reverse(first) = self.line.pop()?;
        Some(self.go_on(first))
    }

    /// Whoever had this place in line runs.
    #[inline]
    fn go_on(&mut self, first: Place) -> usize {
        let worker = first.worker();
        let next = &mut self.workers[worker];
        next.clock_ps = next.clock_ps.max(first.at_ps());
        next.mode = Mode::Ready;
        // What lines up again has a new place; what is left in line is none of its own.
        next.place = Place::NOWHERE;
        if self.running != Some(worker) {
            self.switches += 1;
        }
        self.running = Some(worker);
        worker
    }

    /// Whether nobody is to wait any more, and all are to end.
    pub(crate) fn is_over(&self) -> bool {
        self.limit.is_some() || !self.stranded.is_empty()
    }

    /// All that sleep go on, to find that their time is up. Who they were.
    fn rouse(&mut self) -> Vec<usize> {
        let asleep = |worker: &usize| matches!(self.workers[*worker].mode, Mode::Asleep);
        let roused: Vec<usize> = (0..self.workers.len()).filter(asleep).collect();
        for &worker in &roused {
            self.workers[worker].mode = Mode::Ready;
            let at_ps = self.workers[worker].clock_ps;
            self.line_up(worker, at_ps);
        }
        roused
    }
}

/// What is suspended and resumed. Whoever is suspended says who goes on, if he has looked.
type Yield = Yielder<(), Option<usize>>;
type Body = Coroutine<(), Option<usize>, (), DefaultStack>;

thread_local! {
    /// Where the worker that runs on this thread is suspended.
    static YIELDER: Cell<Option<NonNull<Yield>>> = const { Cell::new(None) };
}

/// Suspends the worker that runs on this thread, until it is its turn again. `next` goes on, or whoever is first in line.
pub(crate) fn suspend(next: Option<usize>) {
    let Some(yielder) = YIELDER.get() else { return };
    // SAFETY: it lives as long as the coroutine that set it, on whose stack we are: whenever a coroutine is resumed
    // its own is set, and when it is left, none is.
    unsafe { yielder.as_ref() }.suspend(next);
    YIELDER.set(Some(yielder));
}

/// Who has clocks, and prices what goes by them.
pub(crate) trait Timed {
    /// Looks at the clocks, for a moment: nobody may be suspended in it.
    fn clocks<R>(&self, look: impl FnOnce(&mut Clocks) -> R) -> R;

    /// When a worker may begin, at the earliest, of a run that begins now.
    fn start_ps(&self, worker: usize, now_ps: Picoseconds, random: u64) -> Picoseconds;
}

/// Runs workers until all have ended. `Ok`: when the last one ended, with steps and switches; a panic of a worker is
/// handed on.
pub(crate) fn run<T: Timed, F: FnOnce()>(
    timed: &T,
    limits: Limits,
    bodies: Vec<F>,
) -> Result<Report, SimulationError> {
    let mut workers: Vec<Body> = Vec::with_capacity(bodies.len());
    for body in bodies {
        let stack =
            DefaultStack::new(STACK_BYTES).map_err(|error| SimulationError::Stacks(error.to_string()))?;
        // A coroutine begins with what it closes over on its stack, where there is not room for all that a workload may keep.
        let body = Box::new(body);
        let start = move |yielder: &Yield, ()| {
            YIELDER.set(Some(NonNull::from(yielder)));
            body();
        };
        // SAFETY: the coroutine borrows what the body borrows, and does not outlive this call: the vector is dropped
        // before it returns, however it does, and with it each coroutine that has not ended, which unwinds its stack.
        workers.push(unsafe { Coroutine::with_stack_unchecked(stack, start) });
    }
    let began_ps = timed.clocks(|clocks| {
        (clocks.limits, clocks.limit, clocks.steps, clocks.switches) = (limits, None, 0, 0);
        clocks.put_off_at = u64::MAX;
        clocks.limits.until_ps = limits.until_ps.saturating_add(clocks.idle_ps);
        clocks.idle_ps
    });
    for worker in 0..workers.len() {
        let random = timed.clocks(Clocks::random);
        let at_ps = timed.start_ps(worker, began_ps, random);
        timed.clocks(|clocks| {
            clocks.workers.push(Worker {
                clock_ps: at_ps,
                mode: Mode::Ready,
                is_woken: false,
                place: Place::NOWHERE,
                stack_at: 0,
                looks: Looks { first_ps: 0, every_ps: 1 },
            });
            clocks.line_up(worker, at_ps);
        });
    }
    let _left = Left(timed);
    let mut left = workers.len();
    let mut next = None;
    while left > 0 {
        let first_in_line = |clocks: &mut Clocks| {
            let next = clocks.next();
            if next.is_none() {
                clocks.stranded = clocks.rouse();
            }
            next
        };
        let Some(worker) = next.take().or_else(|| timed.clocks(first_in_line)) else { continue };
        // Panics if the worker does. The others are unwound when the vector is dropped.
        let result = workers[worker].resume(());
        YIELDER.set(None);
        match result {
            CoroutineResult::Yield(then) => next = then,
            CoroutineResult::Return(()) => {
                left -= 1;
                timed.clocks(|clocks| clocks.workers[worker].mode = Mode::Ended);
            }
        }
    }
    timed.clocks(|clocks| {
        if !clocks.stranded.is_empty() {
            return Err(SimulationError::NobodyLeft(clocks.stranded.clone()));
        }
        let ended_ps = clocks.workers.iter().map(|worker| worker.clock_ps).max().unwrap_or(clocks.idle_ps);
        Ok(Report {
            ended_ps,
            steps: clocks.steps,
            switches: clocks.switches,
            lines: LineCounts::default(),
            limit: clocks.limit,
        })
    })
}

/// Nobody runs any more: when dropped, however the run ended.
struct Left<'a, T: Timed>(&'a T);

impl<T: Timed> Drop for Left<'_, T> {
    fn drop(&mut self) {
        YIELDER.set(None);
        self.0.clocks(|clocks| {
            let ended_ps = clocks.workers.iter().map(|worker| worker.clock_ps).max();
            clocks.idle_ps = clocks.idle_ps.max(ended_ps.unwrap_or(0));
            clocks.workers.clear();
            clocks.line.clear();
            clocks.stranded.clear();
            clocks.running = None;
        });
    }
}
