//! What it costs to touch a line, and so who goes on when.
//!
//! Whoever is behind goes on; so prices decide the schedule. Those of a [`Machine`] make it the one that
//! the machine would have. Others make schedules in which bugs show:
//!
//! - *At random*: each step takes a random time, mostly short, sometimes as long as hundreds of others. Any two steps may come in
//!   either order, and now and then a worker is held up for as long as another takes for a whole transaction.
//! - *By priorities* (after Burckhardt, Kothari, Musuvathi and Nagarakatte, *A randomized scheduler with probabilistic guarantees
//!   of finding bugs*, ASPLOS 2010): the workers have priorities, and the first of those that can run does, until it ends or waits; at a few steps,
//!   drawn ahead, whoever runs becomes the last. A bug that takes `d` such changes of who runs is found by any one of
//!   `n` workers in `k` steps with a probability of at least `1 / (n * k^(d - 1))`, which is far more than by chance if `d` is
//!   small, as it nearly always is. In terms of clocks: a priority is a head start that no run uses up, and to become the last is to
//!   lose all of it.
//! - *As told*: a list of turns, to see a schedule again, or one that is shorter. Each turn is a slot of time, in which only its worker is; when all have
//!   been, the workers go on one after the other, each until it ends or waits.
//!
//! What it does not do: it moves no clock.

use crate::cores::Clocks;
use crate::lines::{LineCounts, Lines};
use crate::machine::{Machine, Picoseconds};
use crate::turns::Turns;
use noonmark_core::{Access, Line, Work};

/// A head start by one priority, where a step takes a picosecond: more than a run of the fuzzer has steps.
const HEAD_START_PS: Picoseconds = 10_000_000;

/// From one turn that is told to the next, where a step takes a picosecond: more than a run of the fuzzer has steps.
const TURN_PS: Picoseconds = 10_000_000;

/// How steps are priced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// As on this machine.
    Machine(Machine),
    /// At random.
    Random,
    /// By priorities, which change so often within so many steps.
    Priorities {
        /// How often whoever runs becomes the last.
        changes: usize,
        /// Within so many steps, about as many as the run has.
        steps: u64,
    },
    /// As told.
    Turns(Turns),
    /// Of workers that share no memory, and have messages from each other: their time is what they say it is.
    Messages,
}

impl Schedule {
    /// As many workers as it is for.
    pub fn cores(&self) -> usize {
        match self {
            Schedule::Machine(machine) => machine.cores(),
            Schedule::Random | Schedule::Priorities { .. } | Schedule::Turns(_) => 64,
            Schedule::Messages => usize::MAX,
        }
    }
}

pub(crate) enum Pricing {
    Machine(Machine, Box<Lines>),
    Random,
    Priorities {
        /// The steps at which whoever runs becomes the last, the last one first.
        changes: Vec<u64>,
        steps: u64,
    },
    Turns(Told),
    Messages,
}

/// Turns that are told, and how far workers are with theirs.
pub(crate) struct Told {
    turns: Turns,
    /// When the first one begins.
    began_ps: Picoseconds,
    /// Of each worker which turn it is in, or comes to next, and how many steps are left of it. Behind the last: it has none left.
    at: Vec<(usize, u64)>,
}

impl Told {
    /// A worker has come to its next turn from this one on: when that begins.
    fn come_to(&mut self, worker: usize, from: usize) -> Picoseconds {
        let turns = self.turns.as_slice();
        let next = self.turns.next_of(worker, from);
        let (turn, steps) = next.map_or((turns.len(), 0), |next| (next, turns[next].steps));
        self.at[worker] = (turn, steps);
        let slot = if next.is_some() { turn } else { turn + worker };
        self.began_ps + TURN_PS * slot as u64
    }

    /// A worker begins: when its first turn does.
    fn begin(&mut self, worker: usize, began_ps: Picoseconds) -> Picoseconds {
        self.began_ps = began_ps;
        self.at.resize(self.at.len().max(worker + 1), (0, 0));
        self.come_to(worker, 0)
    }

    fn has_turns_left(&self, worker: usize) -> bool {
        self.at.get(worker).is_some_and(|(turn, _)| *turn < self.turns.as_slice().len())
    }

    /// A worker takes a step: when its next is due.
    fn step(&mut self, worker: usize, now_ps: Picoseconds) -> Picoseconds {
        let (turn, steps) = self.at[worker];
        if !self.has_turns_left(worker) {
            return now_ps + 1;
        }
        self.at[worker].1 = steps - 1;
        let due_ps = if steps > 1 { 0 } else { self.come_to(worker, turn + 1) };
        due_ps.max(now_ps + 1)
    }

    /// When a worker goes on that is woken, `last_ps` being when the last of them is due: when its turn comes. (Whoever has taken
    /// the last step of a turn is ahead of those whom that step wakes.)
    fn goes_on_ps(&self, worker: usize, last_ps: Picoseconds) -> Picoseconds {
        match self.has_turns_left(worker) {
            true => self.began_ps + TURN_PS * self.at[worker].0 as u64,
            false => last_ps + TURN_PS,
        }
    }
}

impl Pricing {
    pub(crate) fn new(schedule: Schedule, mut random: impl FnMut() -> u64) -> Self {
        match schedule {
            Schedule::Machine(machine) => {
                Pricing::Machine(machine, Box::new(Lines::new(machine, machine.cores())))
            }
            Schedule::Random => Pricing::Random,
            Schedule::Messages => Pricing::Messages,
            Schedule::Turns(turns) => Pricing::Turns(Told { turns, began_ps: 0, at: Vec::new() }),
            Schedule::Priorities { changes, steps } => {
                let mut changes: Vec<u64> = (0..changes).map(|_| random() % steps.max(1)).collect();
                changes.sort_unstable_by(|a, b| b.cmp(a));
                Pricing::Priorities { changes, steps: 0 }
            }
        }
    }

    /// When a worker may begin, at the earliest, of a run that begins now.
    pub(crate) fn start_ps(&mut self, worker: usize, now_ps: Picoseconds, random: u64) -> Picoseconds {
        match self {
            // Within a microsecond, so that they do not march in step.
            Pricing::Machine(..) | Pricing::Random | Pricing::Messages => now_ps + random % 1_000_000,
            Pricing::Priorities { .. } => now_ps + random % 1_000 * HEAD_START_PS,
            Pricing::Turns(told) => told.begin(worker, now_ps),
        }
    }

    /// Whether prices depend on what is touched.
    pub(crate) fn knows_lines(&self) -> bool {
        matches!(self, Pricing::Machine(..))
    }

    /// Whoever runs will touch a line, when others have gone on that are behind: what is known of it will be read.
    #[inline]
    pub(crate) fn foresee(&self, core: usize, line: Option<Line>) {
        if let Pricing::Machine(_, lines) = self
            && let Some(line) = line
        {
            lines.foresee(core, line);
        }
    }

    /// Whoever runs touches a line: when he has done so.
    #[inline]
    pub(crate) fn access(
        &mut self,
        core: usize,
        line: Option<Line>,
        access: Access,
        clocks: &mut Clocks,
    ) -> Picoseconds {
        let now_ps = clocks.now_ps();
        match self {
            Pricing::Machine(_, lines) => {
                let Some(line) = line else { return now_ps };
                let done_ps = lines.access(core, line, access, now_ps);
                while let Some(worker) = lines.next_to_call() {
                    clocks.call(worker);
                }
                done_ps
            }
            Pricing::Random => {
                let random = clocks.random();
                // One in sixteen is held up for the time of some hundred others.
                let longest_ps = if random & 15 == 0 { 200_000 } else { 1_000 };
                now_ps + 1 + (random >> 4) % longest_ps
            }
            Pricing::Priorities { changes, steps } => {
                *steps += 1;
                if changes.last().is_some_and(|&change| change <= *steps) {
                    changes.pop();
                    return clocks.last_ps() + HEAD_START_PS;
                }
                now_ps + 1
            }
            Pricing::Turns(told) => told.step(core, now_ps),
            Pricing::Messages => now_ps,
        }
    }

    /// What it takes to compute something.
    pub(crate) fn work_ps(&self, work: Work) -> Picoseconds {
        match self {
            Pricing::Machine(machine, _) => machine.work_ps(work),
            Pricing::Random | Pricing::Priorities { .. } | Pricing::Turns(_) | Pricing::Messages => 0,
        }
    }

    /// A turn of a spin.
    pub(crate) fn pause_ps(&self, clocks: &Clocks) -> Picoseconds {
        match self {
            Pricing::Machine(machine, _) => machine.pause_ps,
            Pricing::Random | Pricing::Messages => 1_000,
            // Whoever spins waits for somebody, who is to go on first.
            Pricing::Priorities { .. } => clocks.last_ps() - clocks.now_ps() + 1,
            Pricing::Turns(_) => clocks.last_ps() - clocks.now_ps() + TURN_PS,
        }
    }

    /// Whoever runs does nothing for so long: until when.
    pub(crate) fn pass(&mut self, duration_ps: Picoseconds, clocks: &Clocks) -> Picoseconds {
        let now_ps = clocks.now_ps();
        match (self, clocks.running()) {
            // Where it is told who goes on, that is a step like any other.
            (Pricing::Turns(told), Some(worker)) if told.has_turns_left(worker) => told.step(worker, now_ps),
            _ => now_ps.saturating_add(duration_ps),
        }
    }

    /// A run begins.
    pub(crate) fn begin(&mut self) {
        if let Pricing::Machine(_, lines) = self {
            lines.forget_watches();
        }
    }

    /// Whoever runs will look at a line again and again: what a look takes, if nobody is to see it, and it is the same until somebody writes
    /// the line, of which [`Clocks::call`] tells.
    pub(crate) fn watch(&mut self, worker: usize, core: usize, line: Line) -> Option<Picoseconds> {
        match self {
            Pricing::Machine(_, lines) => lines.watch(worker, core, line),
            Pricing::Random | Pricing::Priorities { .. } | Pricing::Turns(_) | Pricing::Messages => None,
        }
    }

    /// He does not any more, and has looked so often in vain.
    pub(crate) fn stop_watching(&mut self, worker: usize, in_vain: u32) {
        if let Pricing::Machine(_, lines) = self {
            lines.stop_watching(worker, u64::from(in_vain));
        }
    }

    /// How long it takes to wake somebody.
    pub(crate) fn wake_ps(&self) -> Picoseconds {
        match self {
            Pricing::Machine(machine, _) => machine.near_ps,
            Pricing::Random | Pricing::Priorities { .. } | Pricing::Turns(_) | Pricing::Messages => 1,
        }
    }

    /// When a worker goes on who is woken at this time.
    pub(crate) fn goes_on_ps(&self, worker: usize, woken_ps: Picoseconds, clocks: &Clocks) -> Picoseconds {
        match self {
            Pricing::Turns(told) => told.goes_on_ps(worker, clocks.last_ps()),
            _ => woken_ps,
        }
    }

    /// What the lines have seen since they were last asked.
    pub(crate) fn take_counts(&mut self) -> LineCounts {
        match self {
            Pricing::Machine(_, lines) => lines.take_counts(),
            Pricing::Random | Pricing::Priorities { .. } | Pricing::Turns(_) | Pricing::Messages => {
                LineCounts::default()
            }
        }
    }
}
