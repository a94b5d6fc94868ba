//! [`TCounter`]: a number to which many add at a time.
//!
//! One variable would make every two transactions that add to it conflict. A counter has a part for each slot
//! ([`TOwned`]); whoever adds changes his own part, and it is counted when somebody asks. So additions of different
//! threads never conflict, and advance no clock; and whoever reads the counter conflicts with all who add, as he must, for
//! what he reads is exact.
//!
//! What it does not do: it gives out no numbers. Whoever wants the next number must read, and be alone.

use crate::owned::TOwned;
use crate::transaction::{Interrupted, Reads, Writes};
use crate::world::{Global, World};

/// A number to which many add at a time, without conflicts, and which is exact when it is read. 128 bytes for each slot of the
/// world (16 KiB in the [`Global`] one): for a few counters in a program, not one in each object.
///
/// ```
/// use noonmark_stm::{TCounter, TRavlMap, atomically, view};
///
/// // A map that knows how many entries it has.
/// let (map, len) = (TRavlMap::<u64, u64>::new(), TCounter::new());
/// std::thread::scope(|scope| {
///     for thread in 0..4u64 {
///         let (map, len) = (&map, &len);
///         scope.spawn(move || {
///             for key in 0..100 {
///                 atomically(|tx| match map.insert(tx, key * 2 + thread, 0)? {
///                     Some(_) => Ok(()),
///                     None => len.add(tx, 1),
///                 });
///             }
///         });
///     }
/// });
/// let (counted, there) = view(|tx| Ok((len.get(tx)?, map.len(tx)?)));
/// assert_eq!(counted, there as i64);
/// ```
pub struct TCounter<W: World = Global>(TOwned<i64, W>);

impl TCounter {
    /// A counter of the [`Global`] world, at 0.
    pub fn new() -> Self {
        Self::new_in()
    }
}

impl<W: World> TCounter<W> {
    /// A counter of any world, at 0.
    pub fn new_in() -> Self {
        TCounter(TOwned::new_in(0))
    }

    /// Adds to it. (At the ends of what it can hold, it goes round.)
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn add<'tx, X: Writes<'tx, W>>(&'tx self, tx: X, number: i64) -> Result<(), Interrupted> {
        self.0.set(tx, self.0.get(tx)?.wrapping_add(number))
    }

    /// What it is.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn get<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<i64, Interrupted> {
        let mut sum = 0i64;
        self.0.for_each(tx, |part| sum = sum.wrapping_add(part))?;
        Ok(sum)
    }

    /// What it is, in a transaction of its own.
    pub fn load(&self) -> i64 {
        W::view(|tx| self.get(tx))
    }
}

impl<W: World> Default for TCounter<W> {
    fn default() -> Self {
        Self::new_in()
    }
}

/// Says that it is a counter, and not what it is at: that takes a transaction, and this may be called inside one.
impl<W: World> std::fmt::Debug for TCounter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TCounter").finish_non_exhaustive()
    }
}
