//! What the engine sees of the virtual cores: a host.
//!
//! Whoever touches a line first lets those go on whose clocks are behind; then the line is charged to his clock; then he
//! touches it, at once. So all touches happen in the order of the clocks, and what one core has begun to fetch, another
//! gets only when the transfer to the first has ended.
//!
//! Outside a run (while tables are filled, say) nothing is charged, and nobody waits.

use crate::cores::{self, Clocks, Limits, Report, SimulationError, Timed};
use crate::lines::LineCounts;
use crate::machine::Machine;
use crate::pricing::{Pricing, Schedule};
use crate::turns::{Event, Noted};
use noonmark_core::{Access, Host, Line, Numbered, Work};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Wake, Waker};

/// On which cores of a machine workers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Socket by socket, as cores are numbered: few workers share one socket.
    #[default]
    Filled,
    /// The first on the first socket, the second on the second, and round again.
    Spread,
}

impl Placement {
    /// The core of a worker.
    fn core_of(self, worker: usize, machine: &Machine) -> usize {
        let (sockets, cores) = (usize::from(machine.sockets), usize::from(machine.cores_per_socket));
        match self {
            Placement::Filled => worker,
            Placement::Spread => worker % sockets * cores + worker / sockets,
        }
    }
}

/// Cores of a simulated machine. A handle: clones are of the same cores.
#[derive(Clone)]
pub struct VirtualCores {
    schedule: Schedule,
    placement: Placement,
    state: Arc<Mutex<State>>,
}

/// What all cores share.
struct State {
    clocks: Clocks,
    pricing: Pricing,
    /// Of each worker.
    seen: Vec<Seen>,
    /// Who has gone on, and what has happened, if that is to be noted.
    noted: Option<Noted>,
}

/// What a worker has touched since his last turn of a spin.
#[derive(Clone, Copy)]
enum Seen {
    Nothing,
    /// One line, once, to read it.
    Line(Line),
    More,
}

/// A run, and what its cores share.
struct Run {
    /// Where that lies otherwise.
    of: *const Mutex<State>,
    /// Whether prices depend on what is touched.
    knows_lines: bool,
    /// Whether it is noted who goes on.
    notes_turns: bool,
    /// On which core each worker is.
    core_of: Vec<usize>,
    state: RefCell<State>,
}

thread_local! {
    /// The run that is under way on this thread.
    static UNDER_WAY: Cell<Option<NonNull<Run>>> = const { Cell::new(None) };
}

/// The run of these cores, if it is this thread that runs them.
#[inline]
fn under_way(shared: &Mutex<State>) -> Option<&Run> {
    let run = UNDER_WAY.get()?;
    // SAFETY: whoever has set it unsets it before it goes (`UnderWay`), on this thread, and outlives all workers, who are the only ones
    // that are suspended while they have it.
    let run = unsafe { run.as_ref() };
    std::ptr::eq(run.of, shared).then_some(run)
}

/// Looks at what cores share: under the lock; or, if it is this thread that runs them, where their state lies meanwhile. A lock
/// in each step would keep the processor from fetching anything ahead.
#[inline]
fn with<R>(shared: &Mutex<State>, look: impl FnOnce(&mut State) -> R) -> R {
    match under_way(shared) {
        Some(run) => look(&mut run.state.borrow_mut()),
        None => look(&mut lock(shared)),
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A run is under way on this thread: until dropped, it has what its cores share, and keeps the lock. Other threads wait for its end.
struct UnderWay<'a> {
    kept: MutexGuard<'a, State>,
    run: NonNull<Run>,
}

impl<'a> UnderWay<'a> {
    fn begin(shared: &'a Mutex<State>, core_of: Vec<usize>) -> Result<Self, SimulationError> {
        if UNDER_WAY.get().is_some() {
            return Err(SimulationError::UnderWay);
        }
        let mut kept = lock(shared);
        // Nobody sees what lies there meanwhile.
        let nothing =
            State { clocks: Clocks::new(0), pricing: Pricing::Messages, seen: Vec::new(), noted: None };
        let mut state = std::mem::replace(&mut *kept, nothing);
        state.pricing.begin();
        state.seen = vec![Seen::More; core_of.len()];
        let (knows_lines, notes_turns) = (state.pricing.knows_lines(), state.noted.is_some());
        let run = Run { of: shared, knows_lines, notes_turns, core_of, state: RefCell::new(state) };
        let run = NonNull::from(Box::leak(Box::new(run)));
        UNDER_WAY.set(Some(run));
        Ok(UnderWay { kept, run })
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        UNDER_WAY.set(None);
        // SAFETY: leaked when it was made; all workers have ended, and nobody else finds it any more.
        let run = unsafe { Box::from_raw(self.run.as_ptr()) };
        *self.kept = run.state.into_inner();
    }
}

impl State {
    /// Whoever runs takes a step, which is noted where that is asked for.
    fn note(&mut self) {
        if let (Some(noted), Some(worker)) = (&mut self.noted, self.clocks.running()) {
            noted.turns.add(worker, 1);
        }
    }
}

impl Run {
    /// Whoever runs touches a line, when all have gone on that are behind.
    fn touch(&self, line: Option<Line>, access: Access) {
        let mut state = self.state.borrow_mut();
        let State { clocks, pricing, .. } = &mut *state;
        let Some(worker) = clocks.running() else { return };
        let core = self.core_of[worker];
        if let Some(next) = clocks.must_let_go_first() {
            // (While they do, what will be read of this one's line comes into the cache.)
            pricing.foresee(core, line);
            drop(state);
            cores::suspend(Some(next));
            state = self.state.borrow_mut();
        }
        state.note();
        let State { clocks, pricing, seen, .. } = &mut *state;
        seen[worker] = match (seen[worker], line) {
            (Seen::Nothing, Some(line)) if access == Access::Read => Seen::Line(line),
            _ => Seen::More,
        };
        let done_ps = pricing.access(core, line, access, clocks);
        clocks.set_now(done_ps);
    }

    /// Lets the looks of whoever spins pass that are in vain, `turns` at most: how many turns have passed. `None`: that is not known.
    fn look_on(&self, turns: u32) -> Option<u32> {
        let mut state = self.state.borrow_mut();
        let State { clocks, pricing, seen, .. } = &mut *state;
        let worker = clocks.running()?;
        let Seen::Line(line) = std::mem::replace(&mut seen[worker], Seen::Nothing) else { return None };
        // (Each of them is noted.)
        if turns < 2 || self.notes_turns {
            return None;
        }
        let look_ps = pricing.watch(worker, self.core_of[worker], line)?;
        let pause_ps = pricing.pause_ps(clocks);
        let next = clocks.look_on(clocks.now_ps() + pause_ps, pause_ps + look_ps, turns);
        drop(state);
        if next.is_some() {
            cores::suspend(next);
        }
        let State { clocks, pricing, .. } = &mut *self.state.borrow_mut();
        let in_vain = clocks.looks_in_vain();
        pricing.stop_watching(worker, in_vain);
        Some(in_vain + 1)
    }
}

impl Timed for VirtualCores {
    #[inline]
    fn clocks<R>(&self, look: impl FnOnce(&mut Clocks) -> R) -> R {
        self.with(|state| look(&mut state.clocks))
    }

    fn start_ps(&self, worker: usize, now_ps: u64, random: u64) -> u64 {
        self.with(|state| state.pricing.start_ps(worker, now_ps, random))
    }
}

impl VirtualCores {
    /// All cores of a machine. What happens on them follows from this seed.
    pub fn new(machine: Machine, seed: u64) -> Self {
        Self::scheduled(Schedule::Machine(machine), seed)
    }

    /// Cores whose steps are priced like this.
    pub fn scheduled(schedule: Schedule, seed: u64) -> Self {
        let mut clocks = Clocks::new(seed);
        let pricing = Pricing::new(schedule.clone(), || clocks.random());
        VirtualCores {
            schedule,
            placement: Placement::Filled,
            state: Arc::new(Mutex::new(State { clocks, pricing, seen: Vec::new(), noted: None })),
        }
    }

    /// The same cores; their workers on others of them. Where there is no machine it is all the same.
    pub fn placed(self, placement: Placement) -> Self {
        VirtualCores { placement, ..self }
    }

    /// The same cores: from here on it is noted who goes on, and what happens.
    pub fn note_turns(self) -> Self {
        self.with(|state| state.noted = Some(Noted::default()));
        self
    }

    /// What has been noted; none of it is left.
    pub fn take_noted(&self) -> Noted {
        self.with(|state| state.noted.as_mut().map(std::mem::take)).unwrap_or_default()
    }

    /// How their steps are priced.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Runs workers, each on a core of its own, until all have returned.
    ///
    /// What they do must depend on nothing but what they are given and what the host tells them, if the run is to
    /// repeat: not on addresses, nor on the time of day, nor on the order of a hash map with a random seed. They must not
    /// wait for each other but by way of the host: a lock that is held while a line is touched is held for ever.
    ///
    /// # Errors
    /// [`SimulationError`] if the machine has fewer cores, if a run is under way, or if workers waited for nobody.
    ///
    /// # Panics
    /// If a worker does: its panic goes on.
    pub fn run<F: FnOnce()>(
        &self,
        limits: Limits,
        workers: impl IntoIterator<Item = F>,
    ) -> Result<Report, SimulationError> {
        let workers: Vec<F> = workers.into_iter().collect();
        let (wanted, cores) = (workers.len(), self.schedule.cores());
        if wanted > cores {
            return Err(SimulationError::TooManyWorkers { workers: wanted, cores });
        }
        let core_of = |worker| match &self.schedule {
            Schedule::Machine(machine) => self.placement.core_of(worker, machine),
            Schedule::Random | Schedule::Priorities { .. } | Schedule::Turns(_) | Schedule::Messages => {
                worker
            }
        };
        let _under_way = UnderWay::begin(&self.state, (0..wanted).map(core_of).collect())?;
        self.take_line_counts();
        let mut report = cores::run(self, limits, workers)?;
        report.lines = self.take_line_counts();
        Ok(report)
    }

    /// Whether the run has come to one of its limits, or nobody was left to wake those who waited: whoever runs should end.
    pub fn is_over(&self) -> bool {
        self.clocks(|clocks| clocks.is_over())
    }

    /// What time it is for whoever asks, in picoseconds.
    pub fn now_ps(&self) -> u64 {
        self.clocks(|clocks| clocks.now_ps())
    }

    /// What the lines have seen since this was last asked, or since the run began.
    pub(crate) fn take_line_counts(&self) -> LineCounts {
        self.with(|state| state.pricing.take_counts())
    }

    /// Looks at what all cores share, for a moment: nobody may be suspended in it.
    fn with<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        with(&self.state, look)
    }

    /// How long it takes to wake somebody.
    fn wake_ps(&self) -> u64 {
        self.with(|state| state.pricing.wake_ps())
    }

    /// Lets so much time pass for whoever runs, and those go on whose clocks are behind then.
    fn advance(&self, duration_ps: u64) {
        let next = self.with(|state| {
            state.note();
            let State { clocks, pricing, .. } = state;
            clocks.set_now(pricing.pass(duration_ps, clocks));
            clocks.must_let_go_first()
        });
        if next.is_some() {
            cores::suspend(next);
        }
    }
}

/// Wakes one worker.
struct Bell {
    state: Arc<Mutex<State>>,
    worker: usize,
    after_ps: u64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        with(&self.state, |State { clocks, pricing, .. }| {
            let woken_ps = clocks.now_ps() + self.after_ps;
            clocks.wake(self.worker, pricing.goes_on_ps(self.worker, woken_ps, clocks));
        });
    }
}

impl Host for VirtualCores {
    type Label = Numbered;

    #[inline]
    fn touch<L: Into<Option<Line>>>(&self, line: impl Fn() -> L, access: Access) {
        // Outside of runs nothing is charged.
        let Some(run) = under_way(&self.state) else { return };
        match run.knows_lines {
            // What is no line of the model costs nothing, and others need not go first.
            true => match line().into() {
                Some(line) => run.touch(Some(line), access),
                // (Where turns are told, it is a step like any other.)
                None if run.notes_turns => run.state.borrow_mut().note(),
                None => {}
            },
            false => run.touch(None, access),
        }
    }

    #[inline]
    fn work(&self, work: Work) {
        if let Some(run) = under_way(&self.state) {
            let State { clocks, pricing, .. } = &mut *run.state.borrow_mut();
            clocks.set_now(clocks.now_ps() + pricing.work_ps(work));
        }
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        let Some(run) = under_way(&self.state).filter(|run| run.notes_turns) else { return };
        let what = what();
        let State { clocks, noted, .. } = &mut *run.state.borrow_mut();
        if let (Some(Noted { turns, events }), Some(worker)) = (noted, clocks.running()) {
            events.push(Event { worker, turn: turns.place_of(worker), what });
        }
    }

    fn now_ns(&self) -> u64 {
        self.now_ps() / 1_000
    }

    fn seed(&self) -> u64 {
        self.clocks(Clocks::random)
    }

    fn spin(&self, _: u32) {
        let put_off = self.with(|state| {
            let State { clocks, pricing, .. } = state;
            let pause_ps = pricing.pause_ps(clocks);
            match pricing.knows_lines() && clocks.puts_off() {
                // Whoever spins looks at a line next, and others go on before that.
                true => {
                    clocks.set_now(clocks.now_ps() + pause_ps);
                    state.note();
                    None
                }
                false => Some(pause_ps),
            }
        });
        if let Some(pause_ps) = put_off {
            self.advance(pause_ps);
        }
    }

    fn spin_on(&self, turn: u32, end: u32) -> u32 {
        match under_way(&self.state).and_then(|run| run.look_on(end.saturating_sub(turn))) {
            Some(passed) => turn + passed,
            None => {
                self.spin(turn);
                turn + 1
            }
        }
    }

    fn block_on<T>(&self, deadline_ns: Option<u64>, mut poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
        let until_ps = deadline_ns.map(|deadline_ns| deadline_ns.saturating_mul(1_000));
        let worker = self.clocks(|clocks| clocks.running());
        let state = self.state.clone();
        // A worker outside a run has nobody who could wake it.
        let bell = Bell { state, worker: worker.unwrap_or(usize::MAX), after_ps: self.wake_ps() };
        let waker = Waker::from(Arc::new(bell));
        loop {
            let (is_late, was_over) = self.clocks(|clocks| {
                clocks.forget_wakes();
                (until_ps.is_some_and(|until_ps| clocks.now_ps() >= until_ps), clocks.is_over())
            });
            if let Poll::Ready(value) = poll(&waker) {
                return Some(value);
            }
            if was_over {
                // Whoever asks again and again is to let others come to an end, however far ahead their clocks are.
                let behind_ps = self.clocks(|clocks| clocks.last_ps() - clocks.now_ps());
                self.advance(behind_ps + 1);
                return None;
            }
            if is_late || worker.is_none() {
                return None;
            }
            if self.clocks(|clocks| clocks.fall_asleep(until_ps)) {
                cores::suspend(None);
            } else {
                // Woken since it began to look: by another, or even by what it did itself when it looked. That takes as
                // long as any wake-up, or whoever wakes himself would look for ever, and nobody else go on.
                self.advance(self.wake_ps());
            }
        }
    }

    fn is_over(&self) -> bool {
        VirtualCores::is_over(self)
    }

    fn sleep_ns(&self, duration_ns: u64) {
        self.advance(duration_ns.saturating_mul(1_000));
    }

    fn caller_hint(&self) -> usize {
        // Who runs outside a run is nobody's neighbour.
        self.clocks(|clocks| clocks.running()).unwrap_or(self.schedule.cores())
    }
}

impl std::fmt::Debug for VirtualCores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualCores").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}
