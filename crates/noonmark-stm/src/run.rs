//! The driver: runs closures until they commit.
//!
//! An attempt goes through these steps, whatever the control:
//!
//! 1. *Begin*, when the control lets it. The control looks at the clock; the slot is pinned to an epoch, with the sequentially consistent fence that
//!    readers need ([`crate::control::deferred`]).
//! 2. *Run* the closure.
//! 3. *Validate.* From here on it is sure to commit. This is the one place where what it has written can be handed on
//!    before others see it (to a log, say); a durable memory (§6) would do so here.
//! 4. *Release* the locks, with the time of the commit, and wake those who wait for a change.
//! 5. *Settle*: unpin, clear the desk, retire what was freed.
//!
//! What nobody refers to any more is freed when the whole transaction is over, and has given back the ticket and the slot, unless
//! that is a session's: to free it runs code of the users' (their `Drop`), which may run transactions, and would wait for what this
//! one holds. (Or between two attempts, if it has become too much: [`DUE_MAX`].) What the closure of a failed attempt answered is dropped
//! between two attempts, too: the ticket is given back by then, the slot is not.
//!
//! If anything prevents the commit, what was written is undone between 2 and 4, and a conflict leads back to 1. So does
//! a panic in the closure lead to an undoing, and goes on.
//!
//! After some failed attempts a transaction takes the ticket and is irrevocable, if the control knows that (§5).
//!
//! Most transactions are short, and take one attempt. What they cost is instructions: the memory that the next one waits for is
//! fetched while this one still waits, as far as the processor looks ahead (`docs/cost-of-a-memory-transaction.md`). So the first
//! attempt is straight code where the transaction is written ([`run`]), and whatever follows from a failure is called.
//! An attempt that has only read, under a control that need not validate that, has nothing to let go of, to clear or to
//! retire: it unpins, and is over.
//!
//! # Waiting for a change
//!
//! A transaction that calls `retry` has read something that does not suit it. It is validated as if it were to commit
//! (or what it waits for might have happened already), undone and released. Then it *leaves a waker for each lock that it
//! has read, marks each, if it has not changed, and sleeps*; whoever takes a marked lock remembers the mark and *wakes when
//! he lets go*, unless he undoes what he did. A lock that has changed, or that somebody holds for writing, cannot be marked:
//! the closure runs again, after some turns, and more each time that this happens.
//!
//! An irrevocable attempt does not sleep: it lets go, and the transaction begins anew as a speculative one. That it holds
//! something for reading keeps nobody else from sleeping.
//!
//! What it does not do: it does not bound the attempts under a control that is not starvation-free, and gives none a
//! deadline.

use crate::control::{Conflict, Control, Ending};
use crate::desk::{Cause, Desk};
use crate::memory::{Memory, Seat};
use crate::planted::Bug;
use crate::transaction::{Interrupted, Irrevocable, Snapshot, Tx, wait_to_begin};
use crate::world::{StarvationFree, World};
use noonmark_core::{Host, Peg, WaitFor, Work};
use std::mem::ManuallyDrop;
use std::task::Poll;

/// A closure, whichever handle it takes.
trait Body<'env, W: World, T, E> {
    /// Whether it only reads, and nothing of what it reads is logged.
    const IS_VIEW: bool;

    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control, W::Host>) -> Result<T, E>
    where
        'env: 'tx;
}

struct Update<F>(F);

impl<'env, W: World, T, E, F> Body<'env, W, T, E> for Update<F>
where
    F: for<'tx> FnMut(Tx<'tx, 'env, W>) -> Result<T, E>,
{
    const IS_VIEW: bool = false;

    #[inline(always)]
    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control, W::Host>) -> Result<T, E>
    where
        'env: 'tx,
    {
        (self.0)(Tx::new(desk))
    }
}

struct View<F>(F);

impl<'env, W: World, T, E, F> Body<'env, W, T, E> for View<F>
where
    F: for<'tx> FnMut(Snapshot<'tx, 'env, W>) -> Result<T, E>,
{
    const IS_VIEW: bool = true;

    #[inline(always)]
    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control, W::Host>) -> Result<T, E>
    where
        'env: 'tx,
    {
        (self.0)(Snapshot::new(desk))
    }
}

/// A closure that is called again and again, and what it answered last. What calls it is the same code for all closures of a world ([`run_on`]): there is one
/// first attempt for each closure, where it is written, and one of all others together.
struct Repeated<'b, B, T, E> {
    body: &'b mut B,
    answer: Option<Result<T, E>>,
}

/// The same, whatever it answers.
trait Repeat<'env, W: World> {
    /// Whether it has a value; which is kept.
    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control, W::Host>) -> bool
    where
        'env: 'tx;

    /// Drops what it answered, of an attempt that failed.
    fn drop_answer(&mut self);
}

impl<'env, W: World, T, E, B: Body<'env, W, T, E>> Repeat<'env, W> for Repeated<'_, B, T, E> {
    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control, W::Host>) -> bool
    where
        'env: 'tx,
    {
        self.answer.insert(self.body.call(desk)).is_ok()
    }

    fn drop_answer(&mut self) {
        self.answer = None;
    }
}

impl<'env, W: World> Body<'env, W, (), ()> for dyn Repeat<'env, W> + '_ {
    // (A view that is not taken for one leaves no less behind.)
    const IS_VIEW: bool = false;

    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control, W::Host>) -> Result<(), ()>
    where
        'env: 'tx,
    {
        if Repeat::call(self, desk) { Ok(()) } else { Err(()) }
    }
}

/// Runs at most once.
struct Once<F>(Option<F>);

impl<'env, W: World, T, F> Body<'env, W, T, Interrupted> for Once<F>
where
    F: for<'tx> FnOnce(Irrevocable<'tx, 'env, W>) -> Result<T, Interrupted>,
{
    const IS_VIEW: bool = false;

    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control, W::Host>) -> Result<T, Interrupted>
    where
        'env: 'tx,
    {
        match self.0.take() {
            Some(body) => body(Irrevocable::new(desk)),
            None => Err(Interrupted(())),
        }
    }
}

#[inline(always)]
pub(crate) fn atomically<'env, W: World, T>(
    seat: &mut Seat<W>,
    body: impl for<'tx> FnMut(Tx<'tx, 'env, W>) -> Result<T, Interrupted>,
) -> T {
    run(seat, Update(body))
}

#[inline(always)]
pub(crate) fn try_atomically<'env, W: World, T, E: From<Interrupted>>(
    seat: &mut Seat<W>,
    body: impl for<'tx> FnMut(Tx<'tx, 'env, W>) -> Result<T, E>,
) -> Result<T, E> {
    let mut body = Update(body);
    match try_first(seat, &mut body) {
        Ok(answer) => answer,
        Err(failed) => run_after(seat, body, failed),
    }
}

#[inline(always)]
pub(crate) fn view<'env, W: World, T>(
    seat: &mut Seat<W>,
    body: impl for<'tx> FnMut(Snapshot<'tx, 'env, W>) -> Result<T, Interrupted>,
) -> T {
    run(seat, View(body))
}

/// Runs a transaction: the first attempt in line, which is the only one that most transactions take, and the others out of
/// line. The closure is handed on to those by value, so that the first one can have it in registers.
#[inline(always)]
fn run<'env, W: World, T, B: Body<'env, W, T, Interrupted>>(seat: &mut Seat<W>, mut body: B) -> T {
    match try_first(seat, &mut body) {
        Ok(Ok(value)) => value,
        Ok(Err(interrupted)) => refuse_of_another(interrupted),
        Err(failed) => insist(seat, body, failed),
    }
}

/// The attempts after the first, if that did begin and failed, until one has a value.
#[cold]
#[inline(never)]
fn insist<'env, W: World, T, B: Body<'env, W, T, Interrupted>>(
    seat: &mut Seat<W>,
    body: B,
    failed: Option<Failed>,
) -> T {
    run_after(seat, body, failed).unwrap_or_else(|interrupted| refuse_of_another(interrupted))
}

/// The closure has handed on an interruption that was none of its own attempt's, which therefore was called off: it has no value, and
/// to run it once more would most likely lead to the same.
#[cold]
#[inline(never)]
fn refuse_of_another(Interrupted(()): Interrupted) -> ! {
    panic!("a transaction handed on the interruption of another one, or of an attempt before")
}

pub(crate) fn irrevocably<'env, W: World, T>(
    seat: &mut Seat<W>,
    body: impl for<'tx> FnOnce(Irrevocable<'tx, 'env, W>) -> Result<T, Interrupted>,
) -> T
where
    W::Control: StarvationFree,
{
    let unfinished = Unfinished::at(seat);
    let answer = repeat(seat, &mut Once(Some(body)), Record::default(), true);
    unfinished.went_well();
    answer.unwrap_or_else(|interrupted| refuse_of_another(interrupted))
}

/// An attempt under way: undone when dropped, which is when the closure panics.
///
/// Of the seat it has copies of its own of what every attempt needs, which no store of the closure's can seem to change.
struct Attempt<'a, W: World> {
    seat: &'a Seat<W>,
    desk: &'a Desk<W::Control, W::Host>,
    peg: Peg<'static>,
}

impl<'a, W: World> Attempt<'a, W> {
    #[inline(always)]
    fn begin(seat: &'a Seat<W>, is_irrevocable: bool) -> Self {
        let attempt = Attempt { seat, desk: seat.desk(), peg: seat.peg };
        attempt.desk.host().work(Work::MemoryAttempt);
        attempt.desk.begin(is_irrevocable, seat.memory.host().caller_hint());
        W::Control::begin(attempt.desk, is_irrevocable);
        // With the fence that comes between the look at the clock and the first read.
        attempt.peg.pin();
        attempt
    }

    #[inline(always)]
    fn desk(&self) -> &'a Desk<W::Control, W::Host> {
        self.desk
    }

    #[inline(always)]
    fn release(&self, ending: Ending) {
        W::Control::release(self.desk, ending, |on| self.seat.memory.room.wake(on));
    }

    /// What was validated counts from here on.
    #[inline(always)]
    fn commit(self) {
        // (Where views leave nothing to let go of, neither do others that have only read.)
        let has_only_read = W::Control::VIEWS_LEAVE_NOTHING && self.desk.held.is_empty();
        if !has_only_read || self.desk.is_irrevocable() {
            self.release(Ending::Commit);
        }
        self.settle(true);
        self.desk().counts.commits.add_one();
        std::mem::forget(self);
    }

    /// As [`Attempt::commit`], of an attempt that has logged nothing, under a control that then has nothing to let go of.
    #[inline(always)]
    fn leave(self) {
        self.peg.unpin();
        self.desk().leave();
        self.desk().counts.commits.add_one();
        std::mem::forget(self);
    }

    /// Undoes, and lets go.
    fn undo(&self, ending: Ending) {
        self.desk().undo();
        self.release(ending);
        self.settle(false);
    }

    /// Its closure is over, and was not interrupted: tries to commit. `is_view`: it has only read, and logged nothing.
    #[inline(always)]
    fn conclude(self, is_view: bool) -> Result<(), Failed> {
        if is_view && W::Control::VIEWS_LEAVE_NOTHING {
            self.leave();
            return Ok(());
        }
        match W::Control::validate(self.desk()) {
            Ok(()) => {
                self.commit();
                Ok(())
            }
            Err(conflict) => Err(self.restart(conflict)),
        }
    }

    /// Ends what met a conflict.
    #[cold]
    #[inline(never)]
    fn restart(self, conflict: Conflict) -> Failed {
        self.undo(Ending::Restart(conflict));
        self.desk().counts.conflicts[conflict.index()].add_one();
        std::mem::forget(self);
        Failed::Conflict
    }

    /// Ends what its user called off.
    #[cold]
    #[inline(never)]
    fn cancel(self) {
        self.undo(Ending::Cancel);
        self.desk().counts.cancels.add_one();
        std::mem::forget(self);
    }

    /// Ends what was interrupted.
    #[cold]
    #[inline(never)]
    fn fail(self, cause: Cause) -> Failed {
        match cause {
            Cause::Conflict(conflict) => self.restart(conflict),
            Cause::Retry if self.desk().is_irrevocable() => {
                self.undo(Ending::Cancel);
                std::mem::forget(self);
                Failed::LetGo
            }
            Cause::Retry => match W::Control::validate(self.desk()) {
                Ok(()) => {
                    if self.sleep() {
                        Failed::Slept
                    } else {
                        Failed::Changed
                    }
                }
                Err(conflict) => self.restart(conflict),
            },
        }
    }

    #[inline(always)]
    fn settle(&self, is_committed: bool) {
        self.peg.unpin();
        self.desk().settle(is_committed, &self.seat.memory.epochs);
    }

    /// Undoes and lets go, and sleeps until something that was read has changed; whether it slept.
    #[cold]
    fn sleep(self) -> bool {
        let Seat { memory, peg, .. } = *self.seat;
        let desk = self.desk();
        assert!(
            !desk.reads.is_empty(),
            "`retry` in a transaction that has read nothing would sleep for ever"
        );
        memory.refuse_inside_another(desk.slot);
        desk.undo();
        self.release(Ending::Cancel);
        // Only keys from here on: when the slot is unpinned, a lock may be freed, by somebody who changes what
        // leads to it and thereby wakes us.
        let awaited: Vec<WaitFor> = desk.reads.iter().map(|read| W::Control::awaited(read.entry)).collect();
        let mut is_first_look = true;
        let slept = memory.host().block_on(None, |waker| {
            if !std::mem::take(&mut is_first_look) {
                return Poll::Ready(true);
            }
            for &on in &awaited {
                memory.room.register(on, desk.slot, waker);
            }
            let unchanged = desk.reads.iter().all(|read| W::Control::watch(desk, read));
            // Not to keep others from freeing memory while this one sleeps.
            peg.unpin();
            if unchanged { Poll::Pending } else { Poll::Ready(false) }
        });
        for &on in &awaited {
            memory.room.leave(on, desk.slot);
        }
        // Without a deadline there is an answer.
        let slept = slept.unwrap_or(false);
        if slept {
            desk.counts.sleeps.add_one();
        }
        desk.settle(false, &memory.epochs);
        std::mem::forget(self);
        slept
    }
}

impl<W: World> Drop for Attempt<'_, W> {
    #[inline(always)]
    fn drop(&mut self) {
        // By value, so that the attempt needs no place in memory.
        abandon(self.seat);
    }
}

/// Ends the attempt of a closure that has panicked.
#[cold]
#[inline(never)]
fn abandon<W: World>(seat: &Seat<W>) {
    ManuallyDrop::new(Attempt { seat, desk: seat.desk(), peg: seat.peg }).undo(Ending::Cancel);
}

/// A transaction between two of its attempts, when users' code runs: what its last attempt was released with is for the next one. Given up
/// when dropped, which is by a panic.
struct Unfinished<W: World> {
    memory: &'static Memory<W>,
    desk: &'static Desk<W::Control, W::Host>,
}

impl<W: World> Unfinished<W> {
    fn at(seat: &Seat<W>) -> Self {
        Unfinished { memory: seat.memory, desk: seat.desk() }
    }

    /// What might panic is over.
    fn went_well(self) {
        std::mem::forget(self);
    }

    /// Drops what is of no use.
    #[cold]
    fn drop<T>(seat: &Seat<W>, of_no_use: T) {
        let unfinished = Unfinished::at(seat);
        drop(of_no_use);
        unfinished.went_well();
    }
}

impl<W: World> Drop for Unfinished<W> {
    fn drop(&mut self) {
        W::Control::give_up(self.desk, |on| self.memory.room.wake(on));
    }
}

/// How much a transaction keeps that is to be freed when it is over.
const DUE_MAX: usize = 1_024;

/// From among how many turns a number of them is drawn: 2 to the power of this, at most. That is longer than most transactions take;
/// less would not keep those apart that are longer. (Loom, which tries each turn, has no such transactions.)
const DOUBLINGS_MAX: u32 = if cfg!(loom) { 4 } else { 12 };

/// Gives others some time, after so many conflicts: a number of turns drawn by chance, from among twice as many each time. After
/// the first it is one turn or none, as most conflicts are with what is over.
///
/// Whatever the conflict: what an attempt undoes is newer, too, than what it found. So those who want the same could end each other
/// for ever without ever meeting a lock, if they went on at the same pace.
#[cold]
pub(crate) fn step_back<C: Control, H: Host>(desk: &Desk<C, H>, failures: u32) {
    let turns = desk.random() % (1 << failures.min(DOUBLINGS_MAX));
    for turn in 0..turns as u32 {
        desk.host().spin(turn);
    }
}

/// Some turns, and more the more often it has come to this.
fn spin_longer(host: &impl Host, times: u32) {
    for turn in 0..1 << times.min(7) {
        host.spin(turn);
    }
}

/// The first attempt, if it may begin at once; how it failed, if it did begin.
#[inline(always)]
fn try_first<'env, W: World, T, E, B: Body<'env, W, T, E>>(
    seat: &mut Seat<W>,
    body: &mut B,
) -> Result<Result<T, E>, Option<Failed>> {
    // (Whoever gives up at once is irrevocable from the start.)
    if seat.is_ready() { try_once(seat, body, false, Unfinished::drop).map_err(Some) } else { Err(None) }
}

/// Whether who has failed as often looks whether it is himself who is in his way: whether he is in the midst of another attempt, or
/// commits others in the midst of this one.
pub(crate) fn is_suspicious(failures: u32) -> bool {
    failures > 0 && failures.is_multiple_of(8)
}

/// How an attempt ended that is to be followed by another one.
#[derive(Clone, Copy)]
enum Failed {
    /// It met one.
    Conflict,
    /// It slept until something that it has read had changed.
    Slept,
    /// It would have slept, but something that it has read has changed, or somebody is about to change it.
    Changed,
    /// It would have slept, but was irrevocable.
    LetGo,
}

/// How a transaction has fared so far.
#[derive(Clone, Copy, Default)]
struct Record {
    /// Attempts that met a conflict since the last sleep.
    failures: u32,
    /// Attempts in a row that would have slept, and could not.
    sleepless: u32,
    /// The last one was irrevocable, and would have slept: the next one is not, or it never would.
    must_speculate: bool,
}

/// One attempt, from its beginning to its end. What the closure answered is of no use if it failed: that has a `Drop` of the users', too.
#[inline(always)]
fn try_once<'env, W: World, T, E, B: Body<'env, W, T, E> + ?Sized>(
    seat: &mut Seat<W>,
    body: &mut B,
    is_irrevocable: bool,
    of_no_use: impl FnOnce(&Seat<W>, Result<T, E>),
) -> Result<Result<T, E>, Failed> {
    let attempt = Attempt::begin(seat, is_irrevocable);
    let answer = body.call(attempt.desk());
    match (attempt.desk().cause(), answer) {
        (None, Ok(value)) => match attempt.conclude(B::IS_VIEW && !is_irrevocable) {
            Ok(()) => Ok(Ok(value)),
            Err(failed) => {
                of_no_use(seat, Ok(value));
                Err(failed)
            }
        },
        (None, Err(error)) => {
            attempt.cancel();
            Ok(Err(error))
        }
        (Some(cause), answer) => {
            let failed = attempt.fail(cause);
            of_no_use(seat, answer);
            Err(failed)
        }
    }
}

/// The attempts after the first, if that did begin and failed.
#[cold]
#[inline(never)]
fn run_after<'env, W: World, T, E, B: Body<'env, W, T, E>>(
    seat: &mut Seat<W>,
    mut body: B,
    failed: Option<Failed>,
) -> Result<T, E> {
    let unfinished = Unfinished::at(seat);
    let record = failed.map_or_else(Record::default, |failed| after(seat, failed, Record::default()));
    let answer = repeat(seat, &mut body, record, false);
    unfinished.went_well();
    answer
}

/// [`run_on`], of this closure.
fn repeat<'env, W: World, T, E, B: Body<'env, W, T, E>>(
    seat: &mut Seat<W>,
    body: &mut B,
    record: Record,
    must_not_fail: bool,
) -> Result<T, E> {
    let mut body = Repeated { body, answer: None };
    run_on(seat, &mut body, record, must_not_fail);
    match body.answer {
        Some(answer) => answer,
        None => unreachable!("an attempt that has committed, or was called off, has answered"),
    }
}

/// Gives others some time, as this kind of failure has it; answers the record with it.
#[cold]
fn after<W: World>(seat: &Seat<W>, failed: Failed, record: Record) -> Record {
    if seat.desk().due_count() > DUE_MAX {
        seat.free();
    }
    match failed {
        Failed::Slept => Record::default(),
        Failed::LetGo => Record { must_speculate: true, ..Record::default() },
        Failed::Changed => {
            let sleepless = record.sleepless.saturating_add(1);
            spin_longer(seat.memory.host(), sleepless);
            // It is not interrupted by conflicts: it looks again and again, and would as an irrevocable one.
            Record { sleepless, ..Record::default() }
        }
        Failed::Conflict => {
            let failures = record.failures.saturating_add(1);
            step_back(seat.desk(), failures);
            Record { failures, must_speculate: false, ..record }
        }
    }
}

/// Attempts after so many failures, until one succeeds or is called off.
#[inline(never)]
fn run_on<'env, W: World>(
    seat: &mut Seat<W>,
    body: &mut (dyn Repeat<'env, W> + '_),
    mut record: Record,
    must_not_fail: bool,
) {
    let memory = seat.memory;
    loop {
        let failures = record.failures;
        let has_tried = W::Control::falls_back(seat.desk(), failures, memory.attempts_max);
        let falls_back = has_tried && !record.must_speculate;
        if falls_back && !seat.desk().has_planted(Bug::FallBackInSilence) {
            // What it has as a speculative one.
            W::Control::give_up(seat.desk(), |on| memory.room.wake(on));
        }
        let is_irrevocable = W::Control::IS_IRREVOCABLE && must_not_fail || falls_back;
        let is_suspicious = is_suspicious(failures);
        if is_irrevocable || is_suspicious {
            memory.refuse_inside_another(seat.desk().slot);
        }
        let elsewhere = is_suspicious.then(|| memory.commits_elsewhere(seat.desk().slot));
        // Dropped when all locks are released, also by a panic: then the next one begins.
        let ticket = is_irrevocable.then(|| {
            let desk = seat.desk();
            desk.counts.irrevocable.add_one();
            memory.ticket.take(memory.host(), &memory.room, desk.slot)
        });
        wait_to_begin::<W>(seat.desk());
        let ended = try_once(seat, body, is_irrevocable, |_, _| ());
        drop(ticket);
        match ended {
            Ok(answer) => {
                if answer.is_ok() && failures > 0 {
                    seat.desk().counts.attempts_max.raise(u64::from(failures) + 1);
                }
                return;
            }
            Err(failed) => {
                body.drop_answer();
                memory.refuse_one_inside(seat.desk().slot, elsewhere);
                record = after(seat, failed, record);
            }
        }
    }
}

/// A desk of one's own, for many transactions: spares each of them looking for one.
///
/// As it is borrowed for each transaction, it cannot run one inside another. (Two sessions of one world can, and should not: see
/// [`atomically`](crate::atomically).) It has a slot of its world for as long as it is there, of which there are
/// [so many](crate::Settings::slots).
///
/// ```
/// use noonmark_stm::{Global, TVar, World};
///
/// let count = TVar::new(0);
/// let mut session = Global::<noonmark_stm::DcotlSf>::session();
/// for _ in 0..10 {
///     session.atomically(|tx| count.update(tx, |count| count + 1));
/// }
/// assert_eq!(session.view(|tx| count.get(tx)), 10);
/// ```
pub struct Session<W: World>(Seat<W>);

/// The seat of a session, for one transaction: when that is over, or its closure has panicked, what is due is freed.
struct Sitting<'a, W: World>(&'a mut Seat<W>);

impl<W: World> Drop for Sitting<'_, W> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.desk().due_count() > 0 {
            self.0.free();
        }
    }
}

impl<W: World> Session<W> {
    pub(crate) fn new(seat: Seat<W>) -> Self {
        Session(seat)
    }

    /// As [`atomically`](crate::atomically).
    #[inline]
    pub fn atomically<'env, T>(
        &mut self,
        body: impl for<'tx> FnMut(Tx<'tx, 'env, W>) -> Result<T, Interrupted>,
    ) -> T {
        atomically(Sitting(&mut self.0).0, body)
    }

    /// As [`try_atomically`](crate::try_atomically).
    ///
    /// # Errors
    /// The closure's own.
    #[inline]
    pub fn try_atomically<'env, T, E: From<Interrupted>>(
        &mut self,
        body: impl for<'tx> FnMut(Tx<'tx, 'env, W>) -> Result<T, E>,
    ) -> Result<T, E> {
        try_atomically(Sitting(&mut self.0).0, body)
    }

    /// As [`view`](crate::view).
    #[inline]
    pub fn view<'env, T>(
        &mut self,
        body: impl for<'tx> FnMut(Snapshot<'tx, 'env, W>) -> Result<T, Interrupted>,
    ) -> T {
        view(Sitting(&mut self.0).0, body)
    }

    /// As [`irrevocably`](crate::irrevocably).
    pub fn irrevocably<'env, T>(
        &mut self,
        body: impl for<'tx> FnOnce(Irrevocable<'tx, 'env, W>) -> Result<T, Interrupted>,
    ) -> T
    where
        W::Control: StarvationFree,
    {
        irrevocably(Sitting(&mut self.0).0, body)
    }

    /// Frees what is old enough of what transactions of this session have freed: all of it, if it is called some three times while nobody
    /// is in the midst of a transaction. A session that ends does so by itself.
    pub fn collect(&mut self) {
        let sitting = Sitting(&mut self.0);
        sitting.0.desk().collect(&sitting.0.memory.epochs);
    }

    /// How much of what transactions of this session have freed is still kept, because somebody may be looking at it.
    pub fn garbage(&mut self) -> usize {
        self.0.desk().garbage()
    }
}

impl<W: World> Drop for Session<W> {
    fn drop(&mut self) {
        // (In the midst of another transaction nothing is freed: `Drop`s of the users' may run transactions, and would be inside.)
        if !self.0.memory.is_inside_another(self.0.desk().slot) {
            self.0.collect();
        }
    }
}

impl<W: World> std::fmt::Debug for Session<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("memory", self.0.memory).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::{
        Dcotl, DcotlSf, Dctl, DctlSf, Memory, Own, Settings, TVar, Threads, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf,
    };
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// Waits until so many sleep, and then for long enough for many more attempts, if one of them did not.
    fn watch_them_sleep<W: World>(sleepers: usize) {
        let host = W::memory().host();
        let mut turn = 0;
        while W::memory().room.count() < sleepers {
            host.spin(turn);
            turn += 1;
        }
        (0..20_000).for_each(|turn| host.spin(turn));
    }

    /// What an attempt that waits undoes is no change, neither to itself nor to others who wait for the same.
    fn whoever_waits_sleeps_whatever_it_has_written<W: World>() {
        const WAITING: usize = 3;
        let (var, runs) = (TVar::<u64, W>::new_in(0), AtomicU64::new(0));
        let before = W::memory().statistics();
        std::thread::scope(|scope| {
            let threads = [0; WAITING].map(|_| {
                scope.spawn(|| {
                    W::atomically(|tx| {
                        runs.fetch_add(1, Ordering::Relaxed);
                        if var.update(tx, |value| value + 1)? == 1 { tx.retry() } else { Ok(()) }
                    });
                })
            });
            watch_them_sleep::<W>(WAITING);
            var.store(1);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let after = W::memory().statistics();
        assert_eq!(var.load(), 1 + WAITING as u64);
        let (runs, sleeps) = (runs.into_inner(), after.sleeps - before.sleeps);
        assert!(runs < 100, "{runs} runs: they did not sleep");
        assert!(
            sleeps >= WAITING as u64 && sleeps + WAITING as u64 <= runs,
            "{sleeps} sleeps in {runs} runs"
        );
    }

    /// Each test has memories of its own: what happens there is counted.
    macro_rules! worlds {
        ($($name:ident: $control:ty;)*) => { crate::world! { $(
            struct $name: $control, Threads, Own = Memory::new(Settings::default().slots(8), Threads::default());
        )* } };
    }

    #[test]
    fn whoever_waits_sleeps() {
        worlds! { A: Dctl; B: Dcotl; C: DctlSf; D: DcotlSf; E: Tl2Gv4; F: Tl2Gv5; G: TinyStm; H: TwoPlSf; }
        whoever_waits_sleeps_whatever_it_has_written::<A>();
        whoever_waits_sleeps_whatever_it_has_written::<B>();
        whoever_waits_sleeps_whatever_it_has_written::<C>();
        whoever_waits_sleeps_whatever_it_has_written::<D>();
        whoever_waits_sleeps_whatever_it_has_written::<E>();
        whoever_waits_sleeps_whatever_it_has_written::<F>();
        whoever_waits_sleeps_whatever_it_has_written::<G>();
        whoever_waits_sleeps_whatever_it_has_written::<H>();
    }

    /// While an irrevocable transaction holds for reading what another waits for, that one sleeps; and if it is then written, it is
    /// woken.
    fn whoever_waits_sleeps_beside_an_irrevocable_transaction<W: World>()
    where
        W::Control: StarvationFree,
    {
        for writes in [false, true] {
            let (var, runs) = (TVar::<u64, W>::new_in(0), AtomicU64::new(0));
            let sleeps = W::memory().statistics().sleeps;
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let mut threads = Vec::new();
                    W::irrevocably(|tx| {
                        assert_eq!(var.get(tx)?, 0);
                        threads.push(scope.spawn(|| {
                            W::atomically(|tx| {
                                runs.fetch_add(1, Ordering::Relaxed);
                                if var.get(tx)? == 0 { tx.retry() } else { Ok(()) }
                            });
                        }));
                        watch_them_sleep::<W>(1);
                        if writes { var.set(tx, 1) } else { Ok(()) }
                    });
                    if !writes {
                        watch_them_sleep::<W>(1);
                        var.store(1);
                    }
                    threads.into_iter().for_each(|thread| thread.join().unwrap());
                });
                thread.join().unwrap();
            });
            let (runs, sleeps) = (runs.into_inner(), W::memory().statistics().sleeps - sleeps);
            assert!(runs < 10, "{runs} runs: it did not sleep");
            assert!((1..runs).contains(&sleeps), "{sleeps} sleeps in {runs} runs");
        }
    }

    /// The second waits for the end of the first, though they have nothing to do with each other.
    fn one_is_irrevocable_at_a_time<W: World>()
    where
        W::Control: StarvationFree,
    {
        let (x, y, has_begun) =
            (TVar::<u64, W>::new_in(0), TVar::<u64, W>::new_in(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            W::irrevocably(|tx| {
                threads.push(scope.spawn(|| {
                    W::irrevocably(|tx| {
                        has_begun.store(true, Ordering::SeqCst);
                        y.set(tx, 1)
                    });
                }));
                // He sleeps, or has begun.
                let mut turn = 0;
                while W::memory().room.count() == 0 && !has_begun.load(Ordering::SeqCst) {
                    W::memory().host().spin(turn);
                    turn += 1;
                }
                assert!(!has_begun.load(Ordering::SeqCst));
                x.set(tx, 1)
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert_eq!((x.load(), y.load(), has_begun.into_inner()), (1, 1, true));
    }

    #[test]
    fn whoever_would_be_irrevocable_waits_for_his_turn() {
        worlds! { A: DctlSf; B: DcotlSf; C: TwoPlSf; }
        one_is_irrevocable_at_a_time::<A>();
        one_is_irrevocable_at_a_time::<B>();
        one_is_irrevocable_at_a_time::<C>();
    }

    #[test]
    fn whoever_waits_sleeps_though_another_reads_and_lets_nobody_write() {
        worlds! { A: DctlSf; B: DcotlSf; C: TwoPlSf; }
        whoever_waits_sleeps_beside_an_irrevocable_transaction::<A>();
        whoever_waits_sleeps_beside_an_irrevocable_transaction::<B>();
        whoever_waits_sleeps_beside_an_irrevocable_transaction::<C>();
    }

    /// With `K` of 0 every transaction is irrevocable at once, and one that waits must not be.
    #[test]
    fn whoever_is_irrevocable_at_once_sleeps_too() {
        crate::world! {
            struct Hasty: DcotlSf, Threads, Own =
                Memory::new(Settings::default().attempts_max(0), Threads::default());
        }
        whoever_waits_sleeps_whatever_it_has_written::<Hasty>();
    }
}
