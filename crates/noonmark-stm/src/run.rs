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
//! If anything prevents the commit, what was written is undone between 2 and 4, and a conflict leads back to 1. So does
//! a panic in the closure lead to an undoing, and goes on.
//!
//! After some failed attempts a transaction takes the ticket and is irrevocable, if the control knows that (§5).
//!
//! # Waiting for a change
//!
//! A transaction that calls `retry` has read something that does not suit it. It is validated as if it were to commit
//! (or what it waits for might have happened already), undone and released. Then it *leaves a waker for each lock that it
//! has read, marks each, if it has not changed, and sleeps*; whoever takes a marked lock remembers the mark and *wakes when
//! he lets go*. A lock that has changed cannot be marked, and the closure runs again at once.
//!
//! An irrevocable attempt does not sleep: it lets go, and the transaction begins anew as a speculative one.
//!
//! What it does not do: it does not bound the attempts under a control that is not starvation-free, and gives none a
//! deadline.

use crate::control::{Conflict, Control, Ending};
use crate::desk::{Cause, Desk};
use crate::memory::{Memory, Seat};
use crate::transaction::{Interrupted, Irrevocable, Snapshot, Tx, wait_to_begin};
use crate::world::{StarvationFree, World};
use noonmark_core::{Host, WaitFor};
use std::task::Poll;

/// A closure, whichever handle it takes.
trait Body<'env, W: World, T, E> {
    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control>) -> Result<T, E>
    where
        'env: 'tx;
}

struct Update<F>(F);

impl<'env, W: World, T, E, F> Body<'env, W, T, E> for Update<F>
where
    F: for<'tx> FnMut(Tx<'tx, 'env, W>) -> Result<T, E>,
{
    #[inline(always)]
    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control>) -> Result<T, E>
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
    #[inline(always)]
    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control>) -> Result<T, E>
    where
        'env: 'tx,
    {
        (self.0)(Snapshot::new(desk))
    }
}

/// Runs at most once.
struct Once<F>(Option<F>);

impl<'env, W: World, T, F> Body<'env, W, T, Interrupted> for Once<F>
where
    F: for<'tx> FnOnce(Irrevocable<'tx, 'env, W>) -> Result<T, Interrupted>,
{
    fn call<'tx>(&mut self, desk: &'tx Desk<W::Control>) -> Result<T, Interrupted>
    where
        'env: 'tx,
    {
        match self.0.take() {
            Some(body) => body(Irrevocable::new(desk)),
            None => Err(Interrupted(())),
        }
    }
}

pub(crate) fn atomically<'env, W: World, T>(
    seat: &mut Seat<W>,
    mut body: impl for<'tx> FnMut(Tx<'tx, 'env, W>) -> Result<T, Interrupted>,
) -> T {
    loop {
        // An interruption of another transaction may have been handed on: that is no reason to end.
        if let Ok(value) = run(seat, Update(&mut body), false) {
            return value;
        }
    }
}

pub(crate) fn try_atomically<'env, W: World, T, E: From<Interrupted>>(
    seat: &mut Seat<W>,
    body: impl for<'tx> FnMut(Tx<'tx, 'env, W>) -> Result<T, E>,
) -> Result<T, E> {
    run(seat, Update(body), false)
}

pub(crate) fn view<'env, W: World, T>(
    seat: &mut Seat<W>,
    mut body: impl for<'tx> FnMut(Snapshot<'tx, 'env, W>) -> Result<T, Interrupted>,
) -> T {
    loop {
        if let Ok(value) = run(seat, View(&mut body), false) {
            return value;
        }
    }
}

pub(crate) fn irrevocably<'env, W: World, T>(
    seat: &mut Seat<W>,
    body: impl for<'tx> FnOnce(Irrevocable<'tx, 'env, W>) -> Result<T, Interrupted>,
) -> T
where
    W::Control: StarvationFree,
{
    match run(seat, Once(Some(body)), true) {
        Ok(value) => value,
        Err(Interrupted(())) => {
            panic!("an irrevocable transaction handed on the interruption of another transaction")
        }
    }
}

/// An attempt under way: undone when dropped, which is when the closure panics.
struct Attempt<'a, W: World> {
    memory: &'static Memory<W>,
    desk: &'a Desk<W::Control>,
}

impl<'a, W: World> Attempt<'a, W> {
    #[inline(always)]
    fn begin(memory: &'static Memory<W>, desk: &'a Desk<W::Control>, is_irrevocable: bool) -> Self {
        desk.begin(is_irrevocable, memory.host.caller_hint());
        W::Control::begin(desk);
        // With the fence that comes between the look at the clock and the first read.
        memory.epochs.pin(desk.slot);
        Attempt { memory, desk }
    }

    #[inline(always)]
    fn release(&self, ending: Ending) {
        W::Control::release(self.desk, ending, |on| self.memory.room.wake(on));
    }

    #[inline(always)]
    fn end(self, ending: Ending) {
        if ending != Ending::Commit {
            self.desk.undo();
        }
        self.release(ending);
        self.settle(ending == Ending::Commit);
        std::mem::forget(self);
    }

    #[inline(always)]
    fn settle(&self, is_committed: bool) {
        self.memory.epochs.unpin(self.desk.slot);
        self.desk.settle(is_committed, &self.memory.epochs);
    }

    /// Undoes and lets go, and sleeps until something that was read has changed.
    #[cold]
    fn sleep(self) {
        let Attempt { memory, desk } = self;
        assert!(
            !desk.reads.is_empty(),
            "`retry` in a transaction that has read nothing would sleep for ever"
        );
        desk.undo();
        self.release(Ending::Cancel);
        // Only keys from here on: when the slot is unpinned, a lock may be freed, by somebody who changes what
        // leads to it and thereby wakes us.
        let awaited: Vec<WaitFor> = desk.reads.iter().map(W::Control::awaited).collect();
        let mut is_first_look = true;
        memory.host.block_on(None, |waker| {
            if !std::mem::take(&mut is_first_look) {
                return Poll::Ready(());
            }
            for &on in &awaited {
                memory.room.register(on, desk.slot, waker);
            }
            let unchanged = desk.reads.iter().all(|read| W::Control::watch(desk, read));
            // Not to keep others from freeing memory while this one sleeps.
            memory.epochs.unpin(desk.slot);
            if unchanged { Poll::Pending } else { Poll::Ready(()) }
        });
        for &on in &awaited {
            memory.room.leave(on, desk.slot);
        }
        desk.settle(false, &memory.epochs);
        std::mem::forget(self);
    }
}

impl<W: World> Drop for Attempt<'_, W> {
    #[cold]
    fn drop(&mut self) {
        self.desk.undo();
        self.release(Ending::Cancel);
        self.settle(false);
    }
}

/// Gives others some time, after a conflict.
#[cold]
pub(crate) fn step_back(host: &impl Host, conflict: Conflict, failures: u32) {
    if conflict.is_held() {
        for turn in 0..1 << failures.min(7) {
            host.spin(turn);
        }
    }
}

#[inline(always)]
fn run<'env, W: World, T, E, B: Body<'env, W, T, E>>(
    seat: &mut Seat<W>,
    mut body: B,
    must_not_fail: bool,
) -> Result<T, E> {
    let memory = seat.memory;
    let desk = seat.desk();
    let mut failures = 0;
    loop {
        let falls_back = W::Control::FALLS_BACK && failures >= memory.attempts_max;
        let is_irrevocable = W::Control::IS_IRREVOCABLE && must_not_fail || falls_back;
        // Dropped last, also by a panic: the next one begins when all locks are released.
        let _ticket = is_irrevocable.then(|| {
            desk.counts.irrevocable.add_one();
            memory.ticket.take(&memory.host, &memory.room, desk.slot)
        });
        wait_to_begin::<W>(desk);
        let attempt = Attempt::begin(memory, desk, is_irrevocable);
        let answer = body.call(desk);
        let conflict = match desk.cause() {
            None => match answer {
                Ok(value) => match W::Control::validate(desk) {
                    Ok(()) => {
                        attempt.end(Ending::Commit);
                        desk.counts.commits.add_one();
                        desk.counts.attempts_max.raise(u64::from(failures) + 1);
                        return Ok(value);
                    }
                    Err(conflict) => conflict,
                },
                Err(error) => {
                    attempt.end(Ending::Cancel);
                    desk.counts.cancels.add_one();
                    return Err(error);
                }
            },
            Some(Cause::Conflict(conflict)) => conflict,
            Some(Cause::Retry) => {
                if is_irrevocable {
                    attempt.end(Ending::Cancel);
                    failures = 0;
                    continue;
                }
                match W::Control::validate(desk) {
                    Ok(()) => {
                        attempt.sleep();
                        desk.counts.sleeps.add_one();
                        failures = 0;
                        continue;
                    }
                    Err(conflict) => conflict,
                }
            }
        };
        attempt.end(Ending::Restart(conflict));
        desk.counts.conflicts[conflict.index()].add_one();
        failures = failures.saturating_add(1);
        step_back(&memory.host, conflict, failures);
    }
}

/// A desk of one's own, for many transactions: spares each of them looking for one.
///
/// As it is borrowed for each transaction, it cannot run one inside another.
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
        atomically(&mut self.0, body)
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
        try_atomically(&mut self.0, body)
    }

    /// As [`view`](crate::view).
    #[inline]
    pub fn view<'env, T>(
        &mut self,
        body: impl for<'tx> FnMut(Snapshot<'tx, 'env, W>) -> Result<T, Interrupted>,
    ) -> T {
        view(&mut self.0, body)
    }

    /// As [`irrevocably`](crate::irrevocably).
    pub fn irrevocably<'env, T>(
        &mut self,
        body: impl for<'tx> FnOnce(Irrevocable<'tx, 'env, W>) -> Result<T, Interrupted>,
    ) -> T
    where
        W::Control: StarvationFree,
    {
        irrevocably(&mut self.0, body)
    }

    /// Frees what is old enough of what transactions of this session have freed.
    pub fn collect(&mut self) {
        let memory = self.0.memory;
        self.0.desk().collect(&memory.epochs);
    }

    /// How much of what transactions of this session have freed is still kept, because somebody may be looking at it.
    pub fn garbage(&mut self) -> usize {
        self.0.desk().garbage()
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
    use crate::{Dcotl, DcotlSf, Dctl, DctlSf, Global, TVar, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A transaction that has written what it has read, and then waits, sleeps: what it undoes is no change.
    fn whoever_waits_sleeps_whatever_it_has_written<W: World>() {
        let (var, runs) = (TVar::<u64, W>::new_in(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                W::atomically(|tx| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    if var.update(tx, |value| value + 1)? == 1 { tx.retry() } else { Ok(()) }
                });
            });
            let host = &W::memory().host;
            let mut turn = 0;
            while W::memory().room.count() == 0 {
                host.spin(turn);
                turn += 1;
            }
            // Long enough for many more, if it did not sleep.
            (0..20_000).for_each(|turn| host.spin(turn));
            var.store(1);
        });
        assert_eq!(var.load(), 2);
        assert!(runs.load(Ordering::Relaxed) < 10, "{runs:?} runs: it did not sleep");
    }

    #[test]
    fn whoever_waits_sleeps() {
        whoever_waits_sleeps_whatever_it_has_written::<Global<Dctl>>();
        whoever_waits_sleeps_whatever_it_has_written::<Global<Dcotl>>();
        whoever_waits_sleeps_whatever_it_has_written::<Global<DctlSf>>();
        whoever_waits_sleeps_whatever_it_has_written::<Global<DcotlSf>>();
        whoever_waits_sleeps_whatever_it_has_written::<Global<Tl2Gv4>>();
        whoever_waits_sleeps_whatever_it_has_written::<Global<Tl2Gv5>>();
        whoever_waits_sleeps_whatever_it_has_written::<Global<TinyStm>>();
        whoever_waits_sleeps_whatever_it_has_written::<Global<TwoPlSf>>();
    }
}
