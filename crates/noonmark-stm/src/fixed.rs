//! [`TFixed`]: a table of variables, whose transactions name what they touch before they begin.
//!
//! Code in a [`World`](crate::World) reads as it goes, so its control must be opaque: what it has read so far belongs
//! together, whatever becomes of the attempt. Here a transaction is a list of places and a function from what is there
//! to what will be. The function is called when all has been read *and confirmed*: so also a control that finds out only
//! at the commit what belongs together can serve, as [`TicToc`](crate::TicToc), and nobody is shown what never was.
//!
//! All controls can: so that they can be compared where the structure is fixed, as in the paper's experiments with
//! disjoint writes.
//!
//! ```
//! use noonmark_stm::TFixed;
//!
//! let accounts: TFixed<i64> = TFixed::new([100, 50, 0]);
//! accounts.update([0, 2], |[from, to]| [from - 30, to + 30])?;
//! assert_eq!(accounts.read([0, 1, 2])?, [70, 50, 30]);
//! assert!(accounts.read([3]).is_err());
//! # Ok::<(), noonmark_stm::NoSuchPlace>(())
//! ```
//!
//! # How an attempt goes
//!
//! As in [`crate::run`], with one step more: *read* all, *confirm*, call the function, *write* all, *validate*, *release*. The
//! function may run several times. If it panics, nothing has happened.
//!
//! What it does not do: nobody waits for a change, and a table does not grow. Transactions of two tables are two transactions. A
//! function that begins another one of its own table is refused, by a panic.

use crate::control::tictoc::TicToc;
use crate::control::{Conflict, Control, Ending};
use crate::desk::{Cause, Desk};
use crate::memory::{Office, Settings, Statistics};
use crate::place::{Own, OwnHeader, Place};
use crate::plain::Plain;
use crate::run::{is_suspicious, step_back};
use crate::ticket::TicketLock;
use crate::transaction::{Interrupted, settle_at};
use noonmark_core::{Access, Epochs, Host, SlotId, Step, Threads, WaitingRoom, Work};

/// There is no such place in the table. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchPlace {
    /// Which.
    pub place: usize,
    /// How many there are.
    pub len: usize,
}

impl std::fmt::Display for NoSuchPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no place {} in a table of {}", self.place, self.len)
    }
}

impl std::error::Error for NoSuchPlace {}

/// A lock, and what it guards.
#[repr(C)]
struct Var<T: Plain, C: Control, H: Host> {
    header: OwnHeader<C, H>,
    cells: T::Cells,
}

/// A table of variables of one type, fixed in number: see `fixed.rs`.
pub struct TFixed<T: Plain, C: Control = TicToc, H: Host = Threads> {
    vars: Box<[Var<T, C, H>]>,
    room: WaitingRoom,
    ticket: TicketLock,
    attempts_max: u32,
    /// Nothing is freed; but a pin has the fence that readers need.
    epochs: Epochs,
    office: Office<C, H>,
}

impl<T: Plain, C: Control> TFixed<T, C> {
    /// With these values.
    pub fn new(values: impl IntoIterator<Item = T>) -> Self {
        Self::with(Settings::default(), Threads::default(), values)
    }
}

impl<T: Plain, C: Control, H: Host> TFixed<T, C, H> {
    /// With these values, set up like this, on this host.
    pub fn with(settings: Settings, host: H, values: impl IntoIterator<Item = T>) -> Self {
        let var = |value: T| Var { header: Default::default(), cells: T::cells(value.into_words()) };
        let office = Office::new(settings, 0, host);
        TFixed {
            vars: values.into_iter().map(var).collect(),
            room: WaitingRoom::new(),
            ticket: TicketLock::default(),
            attempts_max: settings.attempts_max,
            epochs: Epochs::new(office.count()),
            office,
        }
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.vars.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.vars.is_empty()
    }

    /// What is in these places at one moment.
    ///
    /// # Errors
    /// If one of them is not there.
    pub fn read<const N: usize>(&self, places: [usize; N]) -> Result<[T; N], NoSuchPlace> {
        self.run(places, |values| (values, false))
    }

    /// Makes what is in these places what the function makes of it, at one moment, and answers that. A place
    /// that is named twice becomes what is made of it last.
    ///
    /// # Errors
    /// If one of them is not there.
    pub fn update<const N: usize>(
        &self,
        places: [usize; N],
        mut change: impl FnMut([T; N]) -> [T; N],
    ) -> Result<[T; N], NoSuchPlace> {
        self.run(places, |values| (change(values), true))
    }

    /// What has happened so far. Each number is exact when nothing runs.
    pub fn statistics(&self) -> Statistics {
        self.office.statistics()
    }

    /// Runs a transaction; the function tells what is to be written, and whether.
    fn run<const N: usize>(
        &self,
        places: [usize; N],
        mut change: impl FnMut([T; N]) -> ([T; N], bool),
    ) -> Result<[T; N], NoSuchPlace> {
        let len = self.len();
        if let Some(&place) = places.iter().find(|place| **place >= len) {
            return Err(NoSuchPlace { place, len });
        }
        let vars = places.map(|place| &self.vars[place]);
        let seat = Seat { table: self, slot: self.office.claim(&self.epochs) };
        let desk = self.office.desk(seat.slot);
        let mut failures = 0;
        loop {
            let is_irrevocable = C::falls_back(desk, failures, self.attempts_max);
            if is_irrevocable {
                // What it has as a speculative one.
                C::give_up(desk, |on| self.room.wake(on));
            }
            let is_suspicious = is_suspicious(failures);
            if is_irrevocable || is_suspicious {
                self.office.refuse_inside_another(Some(desk.slot), &self.epochs);
            }
            let elsewhere = is_suspicious.then(|| self.office.commits_elsewhere(desk.slot));
            let _ticket = is_irrevocable.then(|| {
                desk.counts.irrevocable.add_one();
                self.ticket.take(desk.host(), &self.room, desk.slot)
            });
            self.wait_to_begin(desk);
            let attempt = Attempt::begin(self, desk, is_irrevocable);
            match attempt.go(&vars, &mut change) {
                Ok(values) => {
                    attempt.end(Ending::Commit);
                    desk.counts.commits.add_one();
                    if failures > 0 {
                        desk.counts.attempts_max.raise(u64::from(failures) + 1);
                    }
                    return Ok(values);
                }
                Err(conflict) => {
                    attempt.end(Ending::Restart(conflict));
                    desk.counts.conflicts[conflict.index()].add_one();
                    self.office.refuse_one_inside(desk.slot, elsewhere);
                    failures = failures.saturating_add(1);
                    step_back(desk, failures);
                }
            }
        }
    }

    fn settle<R>(&self, desk: &Desk<C, H>, ask: impl FnMut() -> Step<R, Conflict>) -> Result<R, Interrupted> {
        settle_at(desk, ask, || {
            (!self.office.is_inside_another(Some(desk.slot), &self.epochs)).then_some(&self.room)
        })
    }

    /// Waits until the next attempt may begin.
    fn wait_to_begin(&self, desk: &Desk<C, H>) {
        let room = || {
            // No attempt is under way that could be interrupted.
            self.office.refuse_inside_another(Some(desk.slot), &self.epochs);
            Some(&self.room)
        };
        // No rule says that an attempt may never begin.
        let _ = settle_at(desk, || C::may_begin(desk), room);
    }
}

impl<T: Plain, C: Control, H: Host> std::fmt::Debug for TFixed<T, C, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TFixed").field("control", &C::NAME).field("len", &self.len()).finish_non_exhaustive()
    }
}

/// The right to work at a desk of the table.
struct Seat<'a, T: Plain, C: Control, H: Host> {
    table: &'a TFixed<T, C, H>,
    slot: SlotId,
}

impl<T: Plain, C: Control, H: Host> Drop for Seat<'_, T, C, H> {
    fn drop(&mut self) {
        // Perhaps between two attempts, where a transaction inside another one is refused. Else there is nothing to give up.
        if std::thread::panicking() {
            C::give_up(self.table.office.desk(self.slot), |on| self.table.room.wake(on));
        }
        self.table.office.leave(self.slot);
    }
}

/// An attempt under way: undone when dropped, which is when the function panics.
struct Attempt<'a, T: Plain, C: Control, H: Host> {
    table: &'a TFixed<T, C, H>,
    desk: &'a Desk<C, H>,
}

impl<'a, T: Plain, C: Control, H: Host> Attempt<'a, T, C, H> {
    fn begin(table: &'a TFixed<T, C, H>, desk: &'a Desk<C, H>, is_irrevocable: bool) -> Self {
        desk.host().work(Work::MemoryAttempt);
        desk.begin(is_irrevocable, desk.host().caller_hint());
        C::begin(desk, is_irrevocable);
        // With the fence that comes between the look at the clock and the first read.
        table.epochs.pin(desk.slot);
        Attempt { table, desk }
    }

    /// Up to where it is sure to commit.
    fn go<const N: usize>(
        &self,
        vars: &[&Var<T, C, H>; N],
        change: &mut impl FnMut([T; N]) -> ([T; N], bool),
    ) -> Result<[T; N], Conflict> {
        let (table, desk) = (self.table, self.desk);
        let words = vars.map(|var| {
            let lock = Own::lock(&var.header, &desk.common);
            let load = || {
                desk.touch_part(lock.object(), &var.cells, Access::Read);
                T::load(&var.cells)
            };
            // What is copied after an interruption is not looked at.
            desk.host().work(Work::MemoryLoggedRead);
            let copy = || table.settle(desk, || C::read(desk, lock, true, load));
            if desk.cause().is_none() { copy().unwrap_or_else(|_| load()) } else { load() }
        });
        self.not_interrupted()?;
        C::confirm(desk)?;
        let (values, is_change) = change(words.map(T::from_words));
        if is_change {
            for (var, value) in vars.iter().zip(values) {
                let lock = Own::lock(&var.header, &desk.common);
                desk.host().work(Work::MemoryWrite);
                // A refusal has left its cause.
                if table.settle(desk, || C::write(desk, lock)).is_ok() {
                    desk.store::<T>(lock, &var.cells, value.into_words());
                }
                self.not_interrupted()?;
            }
        }
        C::validate(desk)?;
        Ok(values)
    }

    fn not_interrupted(&self) -> Result<(), Conflict> {
        match self.desk.cause() {
            Some(Cause::Conflict(conflict)) => Err(conflict),
            // Nobody calls `retry` here.
            Some(Cause::Retry) | None => Ok(()),
        }
    }

    fn end(self, ending: Ending) {
        self.leave(ending);
        std::mem::forget(self);
    }

    fn leave(&self, ending: Ending) {
        if ending != Ending::Commit {
            self.desk.undo();
        }
        C::release(self.desk, ending, |on| self.table.room.wake(on));
        self.table.epochs.unpin(self.desk.slot);
        self.desk.settle(ending == Ending::Commit, &self.table.epochs);
    }
}

impl<T: Plain, C: Control, H: Host> Drop for Attempt<'_, T, C, H> {
    #[cold]
    fn drop(&mut self) {
        self.leave(Ending::Cancel);
    }
}
