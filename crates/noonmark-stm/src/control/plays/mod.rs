//! Every interleaving of a few small transactions, rule by rule, and whether it was opaque.
//!
//! A [`Play`] is a few threads with a few transactions each, on a few variables, of which several may share a lock. It is
//! run once for each order in which the threads' steps can come: to begin, to read or write one variable, to end. A
//! read is two steps, as others may do something between the copy and the look at the lock word: that is where
//! readers go wrong. Attempts that are interrupted begin anew; an irrevocable one that is told to wait is asked again when
//! somebody else has moved.
//!
//! What each attempt has read is kept, and in the end there must be *one* order of those that committed, with none before
//! another that was over when it began, such that each of them has read what those before it left, and each of the
//! others, too, what some of them had left at a moment at which it ran. That is opacity (§4).
//!
//! What it does not do: it knows nothing of weak memory (loom does), and runs no closures (shuttle does).

use super::{Conflict, Control, Ending};
use crate::desk::{Common, Desk};
use crate::lines::Spot;
use crate::planted::Bug;
use noonmark_core::sync::{AtomicU64, Ordering};
use noonmark_core::{Epochs, SlotId, Step, Threads};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// One operation on a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Read(usize),
    Write(usize),
}

/// How a transaction runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Speculative,
    /// Reads without logging; it must not write.
    View,
    Irrevocable,
    /// Undone by its user in the end.
    Cancelled,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Script {
    pub kind: Kind,
    pub ops: Vec<Op>,
}

/// What is asked of each order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Promise {
    /// See the module's page.
    Opaque,
    /// One order of those that committed, whenever they ran; and nothing of the others.
    Serializable,
}

/// See the module's page.
#[derive(Clone, Debug)]
pub struct Play {
    pub promise: Promise,
    /// The lock of each variable.
    pub locks: Vec<usize>,
    pub threads: Vec<Vec<Script>>,
    pub bug: Option<Bug>,
    /// Whether others may move before a copy, too: for controls that look at the lock before they copy.
    pub before_copies: bool,
    /// How many steps are interleaved; what is left then goes on without.
    pub steps_max: usize,
}

/// What all orders together came to.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    pub orders: usize,
    /// The first order in which the promise was broken, told.
    pub failure: Option<String>,
    pub restarts: usize,
    /// The highest time that the clock showed.
    pub clock_max: u64,
}

/// What one attempt did.
#[derive(Clone, Debug)]
struct Attempt {
    began: usize,
    ended: usize,
    is_committed: bool,
    /// Operations and what they read or wrote.
    trace: Vec<(Op, u64)>,
}

struct Thread<C: Control> {
    desk: Desk<C>,
    script: Cell<usize>,
    /// 0: to begin.
    at: Cell<usize>,
    began: Cell<usize>,
    trace: RefCell<Vec<(Op, u64)>>,
    /// Told to wait, and nobody has moved since.
    is_blocked: Cell<bool>,
    /// In the midst of a read.
    is_amidst: Cell<bool>,
}

struct Stage<'a, C: Control> {
    play: &'a Play,
    locks: Vec<C::Lock>,
    cells: Vec<AtomicU64>,
    threads: Vec<Thread<C>>,
    epochs: Epochs,
    attempts: RefCell<Vec<Attempt>>,
    clock: Cell<usize>,
    next_value: Cell<u64>,
    restarts: Cell<usize>,
    /// Who goes first when no more orders are tried: the one after him who was interrupted last.
    turn: Cell<usize>,
    /// Who is irrevocable.
    ticket: Cell<Option<usize>>,
    /// What was chosen so far, of how many; and how far it has been followed.
    choices: RefCell<Vec<(usize, usize)>>,
    chosen: Cell<usize>,
}

impl<'a, C: Control> Stage<'a, C> {
    fn new(play: &'a Play, choices: Vec<(usize, usize)>) -> Self {
        let common = Common::new(Threads::default(), 0);
        #[cfg(feature = "planted-bugs")]
        let common = common.plant(play.bug);
        let common = Arc::new(common);
        let threads = (0..play.threads.len())
            .map(|index| Thread {
                // From 1 on: slot 0 is also what stands in the lock of what nobody has written.
                desk: Desk::new(SlotId::new(index + 1).unwrap(), common.clone()),
                script: Cell::new(0),
                at: Cell::new(0),
                began: Cell::new(0),
                trace: RefCell::default(),
                is_blocked: Cell::new(false),
                is_amidst: Cell::new(false),
            })
            .collect();
        Stage {
            play,
            locks: (0..=play.locks.iter().copied().max().unwrap_or(0)).map(|_| Default::default()).collect(),
            cells: play.locks.iter().map(|_| AtomicU64::new(0)).collect(),
            threads,
            epochs: Epochs::new(1),
            attempts: RefCell::default(),
            clock: Cell::new(0),
            next_value: Cell::new(1),
            restarts: Cell::new(0),
            turn: Cell::new(0),
            ticket: Cell::new(None),
            choices: RefCell::new(choices),
            chosen: Cell::new(0),
        }
    }

    /// One of so many: as before, or the first.
    fn choose(&self, among: usize) -> usize {
        if among <= 1 || self.chosen.get() >= self.play.steps_max {
            return 0;
        }
        let mut choices = self.choices.borrow_mut();
        let index = self.chosen.replace(self.chosen.get() + 1);
        if index == choices.len() {
            choices.push((0, among));
        }
        assert_eq!(choices[index].1, among, "the play does not repeat");
        choices[index].0
    }

    fn can_move(&self, index: usize) -> bool {
        let thread = &self.threads[index];
        let Some(script) = self.play.threads[index].get(thread.script.get()) else { return false };
        let waits_for_ticket = script.kind == Kind::Irrevocable
            && thread.at.get() == 0
            && self.ticket.get().is_some_and(|holder| holder != index);
        !thread.is_blocked.get() && !thread.is_amidst.get() && !waits_for_ticket
    }

    fn movers(&self) -> Vec<usize> {
        let count = self.threads.len();
        (0..count).map(|i| (self.turn.get() + i) % count).filter(|&index| self.can_move(index)).collect()
    }

    /// Runs to the end of all scripts.
    fn run(&self) {
        loop {
            let movers = self.movers();
            if movers.is_empty() {
                break;
            }
            self.step(movers[self.choose(movers.len())]);
        }
        for (index, thread) in self.threads.iter().enumerate() {
            assert_eq!(thread.script.get(), self.play.threads[index].len(), "a deadlock: {:?}", self.told());
        }
    }

    fn now(&self) -> usize {
        self.clock.replace(self.clock.get() + 1)
    }

    fn moved(&self) {
        for thread in &self.threads {
            thread.is_blocked.set(false);
        }
    }

    fn step(&self, index: usize) {
        let thread = &self.threads[index];
        let script = &self.play.threads[index][thread.script.get()];
        let at = thread.at.get();
        if at == 0 {
            if !matches!(C::may_begin(&thread.desk), Step::Ready(())) {
                thread.is_blocked.set(true);
                return;
            }
            self.moved();
            if script.kind == Kind::Irrevocable {
                self.ticket.set(Some(index));
            }
            thread.began.set(self.now());
            thread.desk.begin(script.kind == Kind::Irrevocable, index);
            C::begin(&thread.desk, script.kind == Kind::Irrevocable);
            thread.at.set(1);
        } else if let Some(&op) = script.ops.get(at - 1) {
            let answer = match op {
                Op::Read(var) => self.read(index, var, script.kind != Kind::View),
                Op::Write(var) => C::write(&thread.desk, self.lock(var)).map(|()| {
                    let value = self.next_value.replace(self.next_value.get() + 1);
                    thread.desk.store::<u64>(self.lock(var), &self.cells[var], value);
                    value
                }),
            };
            match answer {
                Step::Ready(value) => {
                    self.moved();
                    thread.trace.borrow_mut().push((op, value));
                    thread.at.set(at + 1);
                }
                Step::Busy(_) | Step::Wait(..) => thread.is_blocked.set(true),
                Step::Die(conflict) | Step::Abort(conflict) => self.restart(index, conflict),
            }
        } else if script.kind == Kind::Cancelled {
            self.end(index, Ending::Cancel);
        } else {
            match C::validate(&thread.desk) {
                Ok(()) => self.end(index, Ending::Commit),
                Err(conflict) => self.restart(index, conflict),
            }
        }
    }

    fn lock(&self, var: usize) -> Spot<'_, C::Lock, Threads> {
        Spot::of(&self.locks[self.play.locks[var]])
    }

    fn read(&self, index: usize, var: usize, tracked: bool) -> Step<u64, Conflict> {
        let thread = &self.threads[index];
        C::read(&thread.desk, self.lock(var), tracked, || {
            if self.play.before_copies {
                self.amidst(thread);
            }
            let copy = self.cells[var].load(Ordering::Relaxed);
            // Others may move between the copy and the look at the lock.
            self.amidst(thread);
            copy
        })
    }

    /// Others move, in the midst of this thread's read.
    fn amidst(&self, thread: &Thread<C>) {
        thread.is_amidst.set(true);
        loop {
            let movers = self.movers();
            let choice = self.choose(movers.len() + 1);
            if choice == 0 {
                break;
            }
            self.step(movers[choice - 1]);
        }
        thread.is_amidst.set(false);
    }

    fn restart(&self, index: usize, conflict: Conflict) {
        let script = &self.play.threads[index][self.threads[index].script.get()];
        assert!(
            script.kind != Kind::Irrevocable,
            "an irrevocable transaction was interrupted: {}",
            self.told()
        );
        self.restarts.set(self.restarts.get() + 1);
        self.turn.set((index + 1) % self.threads.len());
        assert!(self.restarts.get() < 100, "a livelock, each running alone: {}", self.told());
        self.end(index, Ending::Restart(conflict));
    }

    fn end(&self, index: usize, ending: Ending) {
        self.moved();
        let thread = &self.threads[index];
        if ending != Ending::Commit {
            thread.desk.undo();
        }
        C::release(&thread.desk, ending, |_| ());
        thread.desk.settle(ending == Ending::Commit, &self.epochs);
        if self.ticket.get() == Some(index) {
            self.ticket.set(None);
        }
        thread.at.set(0);
        if !matches!(ending, Ending::Restart(_)) {
            thread.script.set(thread.script.get() + 1);
        }
        self.attempts.borrow_mut().push(Attempt {
            began: thread.began.get(),
            ended: self.now(),
            is_committed: ending == Ending::Commit,
            trace: thread.trace.take(),
        });
    }

    fn told(&self) -> String {
        self.attempts.borrow().iter().map(|attempt| format!("{attempt:?}\n")).collect()
    }

    /// Whether there is an order as was promised.
    fn is_kept(&self) -> bool {
        let attempts = self.attempts.borrow();
        let (committed, others): (Vec<_>, Vec<_>) = attempts.iter().partition(|a| a.is_committed);
        let final_state: Vec<u64> = self.cells.iter().map(|cell| cell.load(Ordering::Relaxed)).collect();
        let is_opaque = self.play.promise == Promise::Opaque;
        extend(&mut Vec::new(), &committed, &others, &final_state, is_opaque)
    }
}

/// The state that it leaves, if it has read this one.
fn applied(attempt: &Attempt, state: &[u64]) -> Option<Vec<u64>> {
    let mut after = state.to_vec();
    for &(op, value) in &attempt.trace {
        match op {
            Op::Read(var) if after[var] != value => return None,
            Op::Read(_) => {}
            Op::Write(var) => after[var] = value,
        }
    }
    Some(after)
}

/// Whether the order that begins like this can be completed.
fn extend(
    order: &mut Vec<usize>,
    committed: &[&Attempt],
    others: &[&Attempt],
    final_state: &[u64],
    is_opaque: bool,
) -> bool {
    if order.len() == committed.len() {
        let mut states = vec![vec![0; final_state.len()]];
        for &index in order.iter() {
            let state = &states[states.len() - 1];
            let Some(after) = applied(committed[index], state) else { return false };
            states.push(after);
        }
        return states[states.len() - 1] == final_state
            && others.iter().filter(|_| is_opaque).all(|other| {
                (0..=order.len()).any(|count| {
                    let (before, after) = order.split_at(count);
                    after.iter().all(|&index| committed[index].ended > other.began)
                        && before.iter().all(|&index| committed[index].began < other.ended)
                        && applied(other, &states[count]).is_some()
                })
            });
    }
    (0..committed.len()).any(|next| {
        let may_come = !order.contains(&next)
            && (0..committed.len()).all(|other| {
                let is_over = is_opaque && committed[other].ended < committed[next].began;
                other == next || order.contains(&other) || !is_over
            });
        may_come && {
            order.push(next);
            let is_good = extend(order, committed, others, final_state, is_opaque);
            order.pop();
            is_good
        }
    })
}

impl Play {
    pub fn new(locks: &[usize], threads: &[&[(Kind, &[Op])]]) -> Self {
        let script = |&(kind, ops): &(Kind, &[Op])| Script { kind, ops: ops.to_vec() };
        Play {
            promise: Promise::Opaque,
            locks: locks.to_vec(),
            threads: threads.iter().map(|scripts| scripts.iter().map(script).collect()).collect(),
            bug: None,
            before_copies: false,
            steps_max: 16,
        }
    }

    /// Runs it in every order, until one breaks the promise.
    pub fn run<C: Control>(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut choices = Vec::new();
        loop {
            let stage = Stage::<C>::new(self, choices);
            stage.run();
            outcome.orders += 1;
            outcome.restarts += stage.restarts.get();
            outcome.clock_max = outcome.clock_max.max(C::time(stage.threads[0].desk.shared()));
            if !stage.is_kept() {
                outcome.failure = Some(format!("{} {self:?}\n{}", C::NAME, stage.told()));
                return outcome;
            }
            // The next order: the last choice that was not the last one of its kind is the next one.
            choices = stage.choices.into_inner();
            while choices.last().is_some_and(|&(chosen, among)| chosen + 1 == among) {
                choices.pop();
            }
            match choices.last_mut() {
                Some((chosen, _)) => *chosen += 1,
                None => return outcome,
            }
        }
    }
}

mod tests;
