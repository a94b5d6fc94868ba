//! Worlds: which transactions and variables belong together.
//!
//! A world is a type that stands for one [`Memory`]: a control, a host, a place for locks. It is a parameter of every
//! variable, [`Global`] unless told otherwise, so that a transaction of one world cannot touch a variable of another: that
//! does not compile. Programs that want one transactional memory never see it. Others name a control
//! (`TVar<u64, Global<Dctl>>`), or make a world of their own with [`world!`](crate::world).
//!
//! What it does not do: worlds cannot be made at run time.

use crate::control::tinystm::TinyStm;
use crate::control::tl2::{Tl2Gv4, Tl2Gv5};
use crate::control::two_pl_sf::TwoPlSf;
use crate::control::{Control, Opaque};
use crate::control::{dcotl::Dcotl, dcotl_sf::DcotlSf, dctl::Dctl, dctl_sf::DctlSf};
use crate::memory::Memory;
use crate::place::{Own, Place};
use crate::run::{self, Session};
use crate::transaction::{Interrupted, Irrevocable, Snapshot, Tx};
use noonmark_core::{Host, Threads};
use std::convert::Infallible;
use std::marker::PhantomData;

/// A transactional memory, as a type.
///
/// # Safety
/// [`World::memory`] answers the same memory as long as any variable of this world exists.
pub unsafe trait World: Sized + Send + Sync + 'static {
    /// The concurrency control.
    type Control: Opaque;
    /// Who runs the transactions.
    type Host: Host;
    /// Where locks live.
    type Place: Place;

    /// The memory.
    fn memory() -> &'static Memory<Self>;

    /// As [`atomically`].
    fn atomically<'env, T>(body: impl for<'tx> FnMut(Tx<'tx, 'env, Self>) -> Result<T, Interrupted>) -> T {
        run::atomically(&mut Self::memory().seat(), body)
    }

    /// As [`try_atomically`].
    ///
    /// # Errors
    /// The closure's own.
    fn try_atomically<'env, T, E: From<Interrupted>>(
        body: impl for<'tx> FnMut(Tx<'tx, 'env, Self>) -> Result<T, E>,
    ) -> Result<T, E> {
        run::try_atomically(&mut Self::memory().seat(), body)
    }

    /// As [`view`].
    fn view<'env, T>(body: impl for<'tx> FnMut(Snapshot<'tx, 'env, Self>) -> Result<T, Interrupted>) -> T {
        run::view(&mut Self::memory().seat(), body)
    }

    /// As [`irrevocably`].
    fn irrevocably<'env, T>(
        body: impl for<'tx> FnOnce(Irrevocable<'tx, 'env, Self>) -> Result<T, Interrupted>,
    ) -> T
    where
        Self::Control: StarvationFree,
    {
        run::irrevocably(&mut Self::memory().seat(), body)
    }

    /// Frees what transactions of this world have freed, as far as nobody can be looking at it any more: all of it, if no transaction
    /// is under way and no session open.
    ///
    /// It is not needed for memory to stay bounded, but each slot keeps some dozens of values, of whatever size, that its last transactions have replaced
    /// or removed, until transactions there free more; and their `Drop` is not run before. (A [`Session`] frees what it can when it ends.)
    ///
    /// The room that a slot's transactions have needed for their logs stays with the slot as long as the world does: 4 MiB after one that has read
    /// 200,000 entries.
    ///
    /// ```
    /// use noonmark_stm::{Global, TCell, World, atomically};
    /// use std::sync::Arc;
    ///
    /// let (old, new) = (Arc::new(1), Arc::new(2));
    /// let cell = TCell::new(old.clone());
    /// atomically(|tx| cell.set(tx, new.clone()));
    /// Global::<noonmark_stm::DcotlSf>::collect();
    /// assert_eq!(Arc::strong_count(&old), 1);
    /// ```
    ///
    /// # Panics
    /// In the midst of a transaction of the same world.
    fn collect() {
        Self::memory().collect();
    }

    /// A desk of one's own, for many transactions. It holds one of the world's slots until it ends.
    ///
    /// Transactions that do not go by a session, also those that the holder of this one runs himself, each need another slot, and wait for
    /// one: for ever, if all slots are held by sessions whose holders wait likewise.
    fn session() -> Session<Self> {
        Session::new(Self::memory().seat())
    }
}

/// A control that knows irrevocable transactions, and lets none starve: the attempts of any are bounded by
/// [`Settings::attempts_max`](crate::Settings::attempts_max), under [`TwoPlSf`] by that and as many more as there are others at once.
pub trait StarvationFree: Control {}

impl StarvationFree for DctlSf {}
impl StarvationFree for DcotlSf {}
impl StarvationFree for TwoPlSf {}

/// The world that is there from the start, one for each control.
#[derive(Clone, Copy, Debug)]
pub struct Global<C = DcotlSf>(PhantomData<C>);

/// Declares worlds.
///
/// ```
/// use noonmark_stm::{Dctl, InTable, Memory, Settings, TVar, Threads, World, world};
///
/// world! {
///     /// Variables without locks of their own, for few threads.
///     pub struct Grid: Dctl, Threads, InTable = Memory::new(Settings::default().slots(8), Threads::default());
/// }
///
/// let cell = TVar::<u64, Grid>::new_in(7);
/// assert_eq!(size_of_val(&cell), 8);
/// Grid::atomically(|tx| cell.update(tx, |value| value + 1));
/// assert_eq!(cell.load(), 8);
/// ```
#[macro_export]
macro_rules! world {
    ($($(#[$meta:meta])* $visibility:vis struct $name:ident:
        $control:ty, $host:ty, $place:ty = $memory:expr;)*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;

        // SAFETY: the memory is a static.
        unsafe impl $crate::World for $name {
            type Control = $control;
            type Host = $host;
            type Place = $place;

            #[inline]
            fn memory() -> &'static $crate::Memory<Self> {
                static MEMORY: ::std::sync::LazyLock<$crate::Memory<$name>> =
                    ::std::sync::LazyLock::new(|| $memory);
                &MEMORY
            }
        }
    )* };
}

macro_rules! global {
    ($($control:ty),*) => { $(
        // SAFETY: the memory is a static.
        unsafe impl World for Global<$control> {
            type Control = $control;
            type Host = Threads;
            type Place = Own;

            #[inline]
            fn memory() -> &'static Memory<Self> {
                static MEMORY: std::sync::LazyLock<Memory<Global<$control>>> =
                    std::sync::LazyLock::new(|| Memory::new(Default::default(), Threads::default()));
                &MEMORY
            }
        }
    )* };
}

global!(Dctl, Dcotl, DctlSf, DcotlSf, Tl2Gv4, Tl2Gv5, TinyStm, TwoPlSf);

/// Runs a transaction, again and again until it commits.
///
/// The closure may run several times, so it should have no effect of its own that matters if it does. It never sees
/// two values that no committed state had together, not even in an attempt that will not commit. An operation that
/// cannot go on answers [`Interrupted`]: hand it on, with `?`. (If the closure does not, it runs again all the same.)
///
/// When the closure panics, what it has written is undone, and the panic goes on.
///
/// # What not to do inside
///
/// Whatever cannot be run again or taken back: input and output, sending messages, locking mutexes (see
/// [`irrevocably`]). Another transaction of the same world (also [`TVar::load`](crate::TVar::load), and whatever is run when the
/// closure drops a value): it would not be part of this one, could not see what this one has written, if it wanted what this
/// one has locked would wait for ever, and if it wrote what this one has read would have it run again for ever; so it panics, at
/// once as a rule, at the latest before it would wait, or when this one has come to nothing nine times because of it. To answer something whose `Drop` runs transactions: should the attempt come to nothing, it is dropped
/// while the slot is still held, and waits for ever if all others wait likewise. Long work, while others wait for what was written. That variables live as
/// long as the transaction, that handles do not leave it, and that it stays on its thread, is seen to by the types.
///
/// What the transaction frees may well run transactions when it is dropped: that is done when it is over. If a `Drop` panics then,
/// the panic comes out of here, after all else has been freed, and the transaction has committed.
///
/// # Panics
/// If the closure, or a `Drop` of what is freed, does; and if the closure hands on an interruption that is not of its own attempt: of
/// another world's transaction, inside which it runs, say. ([`try_atomically`] answers that one, as any other error.)
///
/// ```
/// use noonmark_stm::{TVar, atomically};
///
/// let (a, b) = (TVar::new(10), TVar::new(0));
/// atomically(|tx| {
///     let x = a.get(tx)?;
///     a.set(tx, x - 1)?;
///     b.set(tx, b.get(tx)? + 1)
/// });
/// assert_eq!((a.load(), b.load()), (9, 1));
/// ```
///
/// A variable that is made inside does not live long enough:
///
/// ```compile_fail,E0597
/// use noonmark_stm::{TVar, atomically};
/// atomically(|tx| {
///     let a = TVar::new(10);
///     a.get(tx)
/// });
/// ```
pub fn atomically<'env, T>(body: impl for<'tx> FnMut(Tx<'tx, 'env>) -> Result<T, Interrupted>) -> T {
    Global::atomically(body)
}

/// As [`atomically`], for a closure with errors of its own: when it answers one, what it has written is undone.
///
/// The error is one that could have come from running the closure alone: what led to it was a committed state.
///
/// ```
/// use noonmark_stm::{Interrupted, TVar, try_atomically};
///
/// #[derive(Debug, PartialEq)]
/// enum Declined { Poor { balance: i64 }, Interrupted(Interrupted) }
/// impl From<Interrupted> for Declined {
///     fn from(interrupted: Interrupted) -> Self { Declined::Interrupted(interrupted) }
/// }
///
/// let (from, to) = (TVar::new(20), TVar::new(0));
/// let declined = try_atomically(|tx| {
///     to.update(tx, |balance| balance + 30)?;
///     let balance = from.update(tx, |balance| balance - 30)?;
///     if balance < 0 { return Err(Declined::Poor { balance }) }
///     Ok(())
/// });
/// assert_eq!(declined, Err(Declined::Poor { balance: -10 }));
/// assert_eq!((from.load(), to.load()), (20, 0));
/// ```
///
/// # Errors
/// The closure's own.
pub fn try_atomically<'env, T, E: From<Interrupted>>(
    body: impl for<'tx> FnMut(Tx<'tx, 'env>) -> Result<T, E>,
) -> Result<T, E> {
    Global::try_atomically(body)
}

/// Runs a transaction that only reads. It logs nothing, and has nothing to validate in the end: all that it reads is
/// from one moment, that at which it began.
///
/// ```
/// use noonmark_stm::{TVar, view};
///
/// let accounts = [TVar::new(10), TVar::new(20)];
/// let total = view(|tx| accounts.iter().map(|account| account.get(tx)).sum::<Result<u64, _>>());
/// assert_eq!(total, 30);
/// ```
pub fn view<'env, T>(body: impl for<'tx> FnMut(Snapshot<'tx, 'env>) -> Result<T, Interrupted>) -> T {
    Global::view(body)
}

/// Runs a transaction once, for code that must not run twice (§5). It waits its turn, as only one is irrevocable at a
/// time; from then on no conflict interrupts it, and what it has done counts when the closure is over.
///
/// Operations answer a `Result` as in any other transaction, and it is never an error. There is no `retry`.
///
/// ```
/// use noonmark_stm::{TVar, irrevocably};
///
/// let next = TVar::new(1u64);
/// let number = irrevocably(|tx| {
///     let number = next.get(tx)?;
///     println!("the number is {number}");
///     next.set(tx, number + 1)?;
///     Ok(number)
/// });
/// assert_eq!((number, next.load()), (1, 2));
/// ```
pub fn irrevocably<'env, T>(
    body: impl for<'tx> FnOnce(Irrevocable<'tx, 'env>) -> Result<T, Interrupted>,
) -> T {
    Global::irrevocably(body)
}

/// The error of a closure that has none of its own.
impl From<Infallible> for Interrupted {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
