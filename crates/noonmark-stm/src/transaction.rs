//! Handles: what a closure gets, to read and write by.
//!
//! There are three, all `Copy`, all a pointer to the desk: [`Tx`] reads and writes, [`Snapshot`] only reads,
//! [`Irrevocable`] is never interrupted. What can be done with which is said by [`Reads`] and [`Writes`], which
//! variables and maps ask for.
//!
//! # The lifetimes
//!
//! An attempt logs the addresses of locks and words, and goes back to them when it ends. So whatever it touches must last
//! until then. `'tx` stands for the time until the attempt has ended, and every operation borrows its
//! variable for `'tx`. The closure must work for any `'tx`, hence cannot have anything of its own that lasts so
//! long; what it borrows from outside lasts for `'env`, which is known to be longer. (The same device as in
//! [`std::thread::scope`].) In the other direction, what is read by reference comes out with the lifetime `'tx`: it
//! can be used, and looked through for more variables, but not carried out of the closure.
//!
//! Handles are neither `Send` nor `Sync`.
//!
//! # Waiting in the midst of an attempt
//!
//! Where a control says *busy*, it is asked again: some turns, and then the attempt ends; an irrevocable one asks for as
//! long as it takes. Where it says *wait*, it is asked some turns, in which most are over for whom it waits, and then
//! the thread sleeps. The order that loses no wake-up is that of the waiting room: it *registers, then asks once more, and the
//! rule marks what it looked at*; and whoever lets go finds the mark.
//!
//! What it does not do: a handle decides nothing; it asks the control.

use crate::control::{Conflict, Control};
use crate::desk::{Cause, Desk};
use crate::lines::Spot;
use crate::memory::begun_inside_another;
use crate::place::Place;
use crate::plain::Plain;
use crate::world::{Global, World};
use noonmark_core::{Access, Host, Step, WaitFor, WaitingRoom, Work};
use std::marker::PhantomData;
use std::task::Poll;

/// An operation cannot go on: the transaction must be run again, or waits. Hand it on, with `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an operation that was interrupted did nothing: hand it on, with `?`"]
pub struct Interrupted(pub(crate) ());

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the transaction was interrupted, and must be run again")
    }
}

impl std::error::Error for Interrupted {}

/// How often a speculative attempt asks again where a control says *busy*.
const BUSY_TURNS: u32 = 128;

/// How often an attempt asks again where a control says *wait*, before it sleeps. The model checkers have better things to
/// do than to spin.
const WAIT_TURNS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 256 };

/// Neither `Send` nor `Sync`, and no longer or shorter than it says.
type Marker<'tx, 'env, W> = PhantomData<(*mut (), &'tx mut &'tx (), &'env mut &'env (), W)>;

macro_rules! handle {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        pub struct $name<'tx, 'env: 'tx, W: World = Global> {
            desk: &'tx Desk<W::Control, W::Host>,
            marker: Marker<'tx, 'env, W>,
        }

        impl<W: World> Clone for $name<'_, '_, W> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<W: World> Copy for $name<'_, '_, W> {}

        impl<W: World> std::fmt::Debug for $name<'_, '_, W> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("slot", &self.desk.slot).finish_non_exhaustive()
            }
        }

        impl<'tx, W: World> $name<'tx, '_, W> {
            #[inline(always)]
            pub(crate) fn new(desk: &'tx Desk<W::Control, W::Host>) -> Self {
                $name { desk, marker: PhantomData }
            }
        }
    };
}

handle! {
    /// A transaction that reads and writes. In the signature of a function: `tx: Tx<'tx, '_>`.
    ///
    /// ```
    /// use noonmark_stm::{Interrupted, TVar, Tx, atomically};
    ///
    /// fn transfer<'tx>(
    ///     tx: Tx<'tx, '_>,
    ///     from: &'tx TVar<i64>,
    ///     to: &'tx TVar<i64>,
    ///     amount: i64,
    /// ) -> Result<(), Interrupted> {
    ///     from.set(tx, from.get(tx)? - amount)?;
    ///     to.set(tx, to.get(tx)? + amount)
    /// }
    ///
    /// let (alice, bob) = (TVar::new(100), TVar::new(0));
    /// atomically(|tx| transfer(tx, &alice, &bob, 30));
    /// assert_eq!((alice.load(), bob.load()), (70, 30));
    /// ```
    Tx
}

handle! {
    /// A transaction that only reads. Writing does not compile:
    ///
    /// ```compile_fail,E0277
    /// use noonmark_stm::{TVar, view};
    /// let a = TVar::new(1);
    /// view(|tx| a.set(tx, 2));
    /// ```
    Snapshot
}

handle! {
    /// A transaction that runs once. Waiting for a change does not compile:
    ///
    /// ```compile_fail,E0599
    /// use noonmark_stm::{TVar, irrevocably};
    /// irrevocably(|tx| tx.retry::<()>());
    /// ```
    Irrevocable
}

/// For this crate only: the way from a handle to its desk.
mod sealed {
    use super::*;

    pub trait Handle<'tx, W: World>: Copy {
        /// Whether what is read must be logged.
        const TRACKED: bool;

        fn desk(self) -> &'tx Desk<W::Control, W::Host>;
    }

    impl<'tx, W: World> Handle<'tx, W> for Tx<'tx, '_, W> {
        const TRACKED: bool = true;
        #[inline(always)]
        fn desk(self) -> &'tx Desk<W::Control, W::Host> {
            self.desk
        }
    }

    impl<'tx, W: World> Handle<'tx, W> for Snapshot<'tx, '_, W> {
        const TRACKED: bool = false;
        #[inline(always)]
        fn desk(self) -> &'tx Desk<W::Control, W::Host> {
            self.desk
        }
    }

    impl<'tx, W: World> Handle<'tx, W> for Irrevocable<'tx, '_, W> {
        const TRACKED: bool = true;
        #[inline(always)]
        fn desk(self) -> &'tx Desk<W::Control, W::Host> {
            self.desk
        }
    }
}

/// A handle that can read: [`Tx`], [`Snapshot`] or [`Irrevocable`].
pub trait Reads<'tx, W: World>: sealed::Handle<'tx, W> {}

/// A handle that can write: [`Tx`] or [`Irrevocable`].
pub trait Writes<'tx, W: World>: Reads<'tx, W> {}

impl<'tx, W: World> Reads<'tx, W> for Tx<'tx, '_, W> {}
impl<'tx, W: World> Reads<'tx, W> for Snapshot<'tx, '_, W> {}
impl<'tx, W: World> Reads<'tx, W> for Irrevocable<'tx, '_, W> {}
impl<'tx, W: World> Writes<'tx, W> for Tx<'tx, '_, W> {}
impl<'tx, W: World> Writes<'tx, W> for Irrevocable<'tx, '_, W> {}

impl<'tx, W: World> Tx<'tx, '_, W> {
    /// Gives up for now: undoes what was written, sleeps until something that was read has changed, and runs the closure
    /// again.
    ///
    /// ```
    /// use noonmark_stm::{TVar, atomically};
    ///
    /// let stock = TVar::new(0);
    /// std::thread::scope(|scope| {
    ///     let buyer = scope.spawn(|| atomically(|tx| match stock.get(tx)? {
    ///         0 => tx.retry(),
    ///         left => stock.set(tx, left - 1),
    ///     }));
    ///     atomically(|tx| stock.set(tx, 5));
    ///     buyer.join().unwrap();
    /// });
    /// assert_eq!(stock.load(), 4);
    /// ```
    ///
    /// # Errors
    /// Always: hand it on.
    ///
    /// # Panics
    /// The transaction does, when it has read nothing, or only parts of its own ([`TOwned::get`](crate::TOwned::get)), which nobody else changes: it
    /// would sleep for ever.
    pub fn retry<T>(self) -> Result<T, Interrupted> {
        self.desk.interrupt(Cause::Retry);
        Err(Interrupted(()))
    }

    /// Runs the first branch; if that calls [`Tx::retry`], undoes what it has written and runs the second. If both do, the
    /// transaction sleeps until something that either has read changes.
    ///
    /// A conflict in a branch is none of the other's business: the whole transaction runs again. A panic in a branch undoes nothing by itself:
    /// if the closure catches it and goes on, what the branch has written before counts.
    ///
    /// ```
    /// use noonmark_stm::{TVar, atomically};
    ///
    /// let (left, right) = (TVar::new(0), TVar::new(7));
    /// let taken = atomically(|tx| {
    ///     tx.or_else(
    ///         |tx| if left.get(tx)? == 0 { tx.retry() } else { left.replace(tx, 0) },
    ///         |tx| if right.get(tx)? == 0 { tx.retry() } else { right.replace(tx, 0) },
    ///     )
    /// });
    /// assert_eq!((taken, right.load()), (7, 0));
    /// ```
    ///
    /// # Errors
    /// What the branch that was run last answered.
    pub fn or_else<T, E>(
        self,
        first: impl FnOnce(Self) -> Result<T, E>,
        second: impl FnOnce(Self) -> Result<T, E>,
    ) -> Result<T, E> {
        // An interruption that the closure has kept back is not this one's to forget.
        let was_interrupted = self.desk.cause().is_some();
        let savepoint = self.desk.savepoint();
        let answer = first(self);
        if was_interrupted || self.desk.cause() != Some(Cause::Retry) {
            return answer;
        }
        drop(answer);
        self.desk.undo_to(savepoint);
        self.desk.resume();
        second(self)
    }
}

/// Makes of a control's answer what an operation answers; where it is *busy*, asks again.
#[inline(always)]
pub(crate) fn settle<W: World, R>(
    desk: &Desk<W::Control, W::Host>,
    ask: impl FnMut() -> Step<R, Conflict>,
) -> Result<R, Interrupted> {
    settle_at(desk, ask, || {
        let memory = W::memory();
        (!memory.is_inside_another(desk.slot)).then_some(&memory.room)
    })
}

/// As [`settle`], of whatever has this waiting room, which is asked for before each sleep; none, if the caller would be the one for whom
/// he waits.
#[inline(always)]
pub(crate) fn settle_at<'a, C: Control, H: Host, R>(
    desk: &Desk<C, H>,
    mut ask: impl FnMut() -> Step<R, Conflict>,
    room: impl Fn() -> Option<&'a WaitingRoom>,
) -> Result<R, Interrupted> {
    match ask() {
        Step::Ready(granted) => Ok(granted),
        Step::Busy(_) | Step::Wait(..) => ask_again(room, desk, ask),
        Step::Die(conflict) | Step::Abort(conflict) => Err(interrupted(desk, conflict)),
    }
}

#[cold]
fn interrupted<C: Control, H: Host>(desk: &Desk<C, H>, conflict: Conflict) -> Interrupted {
    desk.interrupt(Cause::Conflict(conflict));
    Interrupted(())
}

/// Somebody is about to let go, or must be waited for.
#[cold]
fn ask_again<'a, C: Control, H: Host, R>(
    room: impl Fn() -> Option<&'a WaitingRoom>,
    desk: &Desk<C, H>,
    mut ask: impl FnMut() -> Step<R, Conflict>,
) -> Result<R, Interrupted> {
    let mut turn = 0;
    loop {
        let answer = match ask() {
            Step::Wait(on, conflict) if turn >= WAIT_TURNS => {
                let Some(room) = room() else {
                    // The rule is half done, and stays so: whoever catches the panic inside the closure gets nothing more out of the attempt.
                    desk.interrupt(Cause::Conflict(conflict));
                    begun_inside_another()
                };
                sleep(room, desk, on, &mut ask)
            }
            answer => answer,
        };
        match answer {
            Step::Ready(granted) => return Ok(granted),
            Step::Busy(conflict) if turn >= BUSY_TURNS && !C::IS_PATIENT && !desk.is_irrevocable() => {
                return Err(interrupted(desk, conflict));
            }
            Step::Busy(_) | Step::Wait(..) => {}
            Step::Die(conflict) | Step::Abort(conflict) => return Err(interrupted(desk, conflict)),
        }
        desk.host().spin(turn);
        turn = turn.saturating_add(1);
    }
}

/// Sleeps until the answer is another one.
fn sleep<C: Control, H: Host, R>(
    room: &WaitingRoom,
    desk: &Desk<C, H>,
    on: WaitFor,
    mut ask: impl FnMut() -> Step<R, Conflict>,
) -> Step<R, Conflict> {
    desk.set_goes_to_sleep(true);
    let answer = desk.host().block_on(None, |waker| {
        room.register(on, desk.slot, waker);
        match ask() {
            Step::Wait(still_on, _) if still_on == on => Poll::Pending,
            answer => Poll::Ready(answer),
        }
    });
    desk.set_goes_to_sleep(false);
    room.leave(on, desk.slot);
    // Without a deadline there is an answer.
    answer.unwrap_or_else(ask)
}

/// Waits until the next attempt may begin.
#[inline(always)]
pub(crate) fn wait_to_begin<W: World>(desk: &Desk<W::Control, W::Host>) {
    let memory = W::memory();
    let room = || {
        // No attempt is under way that could be interrupted.
        memory.refuse_inside_another(desk.slot);
        Some(&memory.room)
    };
    // No rule says that an attempt may never begin.
    let _ = settle_at(desk, || W::Control::may_begin(desk), room);
}

/// A lock of this world, and where it is.
pub(crate) type SpotOf<'a, W> = Spot<'a, <<W as World>::Control as Control>::Lock, <W as World>::Host>;

/// Copies a value.
#[inline(always)]
fn load<W: World, T: Plain>(
    desk: &Desk<W::Control, W::Host>,
    lock: SpotOf<'_, W>,
    cells: &T::Cells,
) -> T::Words {
    desk.touch_part(lock.object(), cells, Access::Read);
    T::load(cells)
}

/// Reads a value that a lock guards.
#[inline(always)]
pub(crate) fn read<'tx, W: World, X: Reads<'tx, W>, T: Plain>(
    tx: X,
    lock: SpotOf<'tx, W>,
    cells: &T::Cells,
) -> Result<T, Interrupted> {
    let desk = tx.desk();
    desk.host().work(if X::TRACKED { Work::MemoryLoggedRead } else { Work::MemoryRead });
    match W::Control::read_now(desk, lock, X::TRACKED, || load::<W, T>(desk, lock, cells)) {
        Some(words) => Ok(T::from_words(words)),
        None => Ok(T::from_words(read_on::<W, T>(desk, lock, X::TRACKED, cells)?)),
    }
}

/// What is not granted at once. Out of line, and called with few words, so that where something is read there is little
/// but the look at its lock.
#[cold]
#[inline(never)]
fn read_on<W: World, T: Plain>(
    desk: &Desk<W::Control, W::Host>,
    lock: SpotOf<'_, W>,
    tracked: bool,
    cells: &T::Cells,
) -> Result<T::Words, Interrupted> {
    // (What has been interrupted may still read what is granted at once.)
    if desk.cause().is_some() {
        return Err(Interrupted(()));
    }
    settle::<W, T::Words>(desk, || {
        W::Control::read_on(desk, lock, tracked, || load::<W, T>(desk, lock, cells))
    })
}

/// Gets the right to write what a lock guards.
#[inline(always)]
pub(crate) fn lock_for_writing<'tx, W: World, X: Writes<'tx, W>>(
    tx: X,
    lock: SpotOf<'tx, W>,
) -> Result<(), Interrupted> {
    let desk = tx.desk();
    desk.host().work(Work::MemoryWrite);
    // What has been interrupted writes nothing more, whatever the closure does with the error: two changes half done, one
    // after the other, could make a ring of a structure that neither makes one of alone.
    if desk.cause().is_none() && W::Control::write_now(desk, lock) {
        Ok(())
    } else {
        write_on::<W>(desk, lock)
    }
}

/// As [`lock_for_writing`], where nobody but this slot writes what the lock guards.
#[inline(always)]
pub(crate) fn lock_own<'tx, W: World, X: Writes<'tx, W>>(
    tx: X,
    lock: SpotOf<'tx, W>,
) -> Result<(), Interrupted> {
    let desk = tx.desk();
    // A lock of a table may guard what others write.
    if W::Place::TABLE > 0 {
        return lock_for_writing::<W, X>(tx, lock);
    }
    if desk.cause().is_some() {
        return Err(Interrupted(()));
    }
    desk.host().work(Work::MemoryWrite);
    settle::<W, ()>(desk, || W::Control::write_own(desk, lock))
}

/// What is not granted at once.
#[cold]
#[inline(never)]
fn write_on<W: World>(desk: &Desk<W::Control, W::Host>, lock: SpotOf<'_, W>) -> Result<(), Interrupted> {
    if desk.cause().is_some() {
        return Err(Interrupted(()));
    }
    settle::<W, ()>(desk, || W::Control::write_on(desk, lock))
}
