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
//!
//! What it does not do: it moves no clock.

use crate::cores::Clocks;
use crate::lines::{LineCounts, Lines};
use crate::machine::{Machine, Picoseconds};
use noonmark_core::{Access, Line, Work};

/// A head start by one priority, where a step takes a picosecond: more than a run of the fuzzer has steps.
const HEAD_START_PS: Picoseconds = 10_000_000;

/// How steps are priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Of workers that share no memory, and have messages from each other: their time is what they say it is.
    Messages,
}

impl Schedule {
    /// As many workers as it is for.
    pub fn cores(&self) -> usize {
        match self {
            Schedule::Machine(machine) => machine.cores(),
            Schedule::Random | Schedule::Priorities { .. } => 64,
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
    Messages,
}

impl Pricing {
    pub(crate) fn new(schedule: Schedule, mut random: impl FnMut() -> u64) -> Self {
        match schedule {
            Schedule::Machine(machine) => {
                Pricing::Machine(machine, Box::new(Lines::new(machine, machine.cores())))
            }
            Schedule::Random => Pricing::Random,
            Schedule::Messages => Pricing::Messages,
            Schedule::Priorities { changes, steps } => {
                let mut changes: Vec<u64> = (0..changes).map(|_| random() % steps.max(1)).collect();
                changes.sort_unstable_by(|a, b| b.cmp(a));
                Pricing::Priorities { changes, steps: 0 }
            }
        }
    }

    /// When a worker may begin, at the earliest.
    pub(crate) fn start_ps(&self, random: u64) -> Picoseconds {
        match self {
            // Within a microsecond, so that they do not march in step.
            Pricing::Machine(..) | Pricing::Random | Pricing::Messages => random % 1_000_000,
            Pricing::Priorities { .. } => random % 1_000 * HEAD_START_PS,
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
            Pricing::Messages => now_ps,
        }
    }

    /// What it takes to compute something.
    pub(crate) fn work_ps(&self, work: Work) -> Picoseconds {
        match self {
            Pricing::Machine(machine, _) => machine.work_ps(work),
            Pricing::Random | Pricing::Priorities { .. } | Pricing::Messages => 0,
        }
    }

    /// A turn of a spin.
    pub(crate) fn pause_ps(&self, clocks: &Clocks) -> Picoseconds {
        match self {
            Pricing::Machine(machine, _) => machine.pause_ps,
            Pricing::Random | Pricing::Messages => 1_000,
            // Whoever spins waits for somebody, who is to go on first.
            Pricing::Priorities { .. } => clocks.last_ps() - clocks.now_ps() + 1,
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
            Pricing::Random | Pricing::Priorities { .. } | Pricing::Messages => None,
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
            Pricing::Random | Pricing::Priorities { .. } | Pricing::Messages => 1,
        }
    }

    /// What the lines have seen since they were last asked.
    pub(crate) fn take_counts(&mut self) -> LineCounts {
        match self {
            Pricing::Machine(_, lines) => lines.take_counts(),
            Pricing::Random | Pricing::Priorities { .. } | Pricing::Messages => LineCounts::default(),
        }
    }
}
