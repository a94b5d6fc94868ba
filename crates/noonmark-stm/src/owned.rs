//! [`TOwned`]: a value for each slot, which only whoever holds that slot writes (§6 of the paper).
//!
//! A thread that writes the same data again and again (a counter's part, a free list, statistics) meets nobody there. The paper
//! has an annotation for such data: a read returns what is there, and looks at no lock afterwards; a write takes the lock
//! without asking whether what it overwrites is older than the attempt. It leaves to the programmer that really only one thread
//! writes.
//!
//! Here it is so by construction. A transaction works at the desk of a slot, one transaction of a slot at a time. A `TOwned` has a
//! part for each slot, and an operation reaches for that of the slot it runs at: [`TOwned::get`] and [`TOwned::set`] cannot
//! name another. All parts can be read by anybody, by [`TOwned::for_each`], and that is a read like any other.
//!
//! # What must hold
//!
//! - *A part is written by attempts of its own slot only.* Therefore what an attempt finds in its part is what its slot's
//!   last committed transaction left there, or what it has written itself, whatever the clock says. It cannot change
//!   while the attempt runs; so it need not be looked at again, nor logged, and it is consistent with whatever else the attempt
//!   reads: what the slot did last was over when the attempt began.
//! - *Who holds the slot next sees what the last holder wrote*: slots are claimed and released with acquire and release, in the
//!   base crate.
//! - *The lock is taken all the same*, for those who read all parts. A write can still find it taken for reading by an irrevocable
//!   transaction, which is a conflict as elsewhere. Whether what is overwritten is older than the attempt is not asked, where the part has a lock of
//!   its own: under the deferred controls a word that one's own slot has left last passes that comparison in any case, under
//!   TL2 and TinySTM it need not. (A lock of a table may guard what others write.)
//!
//! A part is a slot's and not a thread's: threads come and go. Who wants to keep his part keeps a
//! [`Session`](crate::Session). Who does not may find himself at another slot next time, when his own is taken; so a
//! value should be one that makes sense when it is put together from all parts.
//!
//! Parts lie in cache lines of their own.
//!
//! What it does not do: it has a part for each slot of the world, used or not: 128 bytes for each, for a small value. And it is a value of
//! its own: fields of nodes, or variables that now one thread writes and now another, cannot be declared to be owned, as they can in the paper, where it is
//! the programmer's word that is taken for it.

use crate::plain::Plain;
use crate::transaction::{Interrupted, Reads, Writes};
use crate::var::TVar;
use crate::world::{Global, World};
use noonmark_core::sync::CachePadded;

/// A value for each slot, that is, for each transaction that can run at a time. Whoever runs reads and writes his own one without
/// meeting anybody; all of them can be read together.
///
/// ```
/// use noonmark_stm::{TOwned, atomically, view};
///
/// let longest = TOwned::<u64>::new(0);
/// std::thread::scope(|scope| {
///     for length in [3, 9, 5] {
///         let longest = &longest;
///         scope.spawn(move || atomically(|tx| longest.set(tx, longest.get(tx)?.max(length))));
///     }
/// });
/// let all = view(|tx| {
///     let mut all = 0;
///     longest.for_each(tx, |part| all = all.max(part))?;
///     Ok(all)
/// });
/// assert_eq!(all, 9);
/// ```
pub struct TOwned<T: Plain, W: World = Global> {
    /// **Invariant**: the part with a slot's index is written by attempts of that slot only.
    parts: Box<[CachePadded<TVar<T, W>>]>,
}

impl<T: Plain> TOwned<T> {
    /// Of the [`Global`] world, all parts the same.
    pub fn new(value: T) -> Self {
        Self::new_in(value)
    }
}

impl<T: Plain, W: World> TOwned<T, W> {
    /// Of any world, all parts the same.
    pub fn new_in(value: T) -> Self {
        let parts = (0..W::memory().slots()).map(|_| CachePadded(TVar::new_in(value))).collect();
        TOwned { parts }
    }

    #[inline(always)]
    fn own<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> &'tx TVar<T, W> {
        &self.parts[tx.desk().slot.index()]
    }

    /// What this slot's part is.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn get<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<T, Interrupted> {
        // Nobody else writes it: see the module's page.
        Ok(self.own(tx).load_own(tx))
    }

    /// Makes this slot's part something else.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn set<'tx, X: Writes<'tx, W>>(&'tx self, tx: X, value: T) -> Result<(), Interrupted> {
        self.own(tx).store_own(tx, value)
    }

    /// Calls a closure with each part.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn for_each<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        mut each: impl FnMut(T),
    ) -> Result<(), Interrupted> {
        self.parts.iter().try_for_each(|part| part.0.get(tx).map(&mut each))
    }
}

/// Says that it is a variable, and not what is in it: that takes a transaction, and this may be called inside one.
impl<T: Plain, W: World> std::fmt::Debug for TOwned<T, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TOwned").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::place::Place;
    use crate::{Dcotl, DcotlSf, Dctl, InTable, Memory, Settings, Threads, TinyStm, Tl2Gv4, Tl2Gv5};

    #[test]
    fn a_part_takes_what_the_docs_say() {
        assert_eq!(size_of::<CachePadded<TVar<i64>>>(), 128);
        assert_eq!(TOwned::<i64>::new(0).parts.len(), 128);
    }

    fn share_lock<'tx, W: World>(tx: impl Reads<'tx, W>, one: &TVar<u64, W>, other: &TVar<u64, W>) -> bool {
        let [one, other] = [one, other].map(|var| std::ptr::from_ref(&*var.lock(&tx.desk().common)));
        one == other
    }

    /// A variable whose lock in the table is a part's, too: what another wrote there since it was read is not overwritten.
    fn a_part_may_share_its_lock<W: World>() {
        let part = TOwned::<u64, W>::new_in(0);
        // Several times as many as there are locks.
        let vars: Vec<TVar<u64, W>> = (0..8 * W::Place::TABLE).map(|_| TVar::new_in(0)).collect();
        let (mut one, mut other) = (W::session(), W::session());
        let sharing = one.view(|tx| Ok(vars.iter().find(|var| share_lock(tx, var, part.own(tx)))));
        let var = sharing.expect("one of so many");
        let mut attempts = 0;
        one.atomically(|tx| {
            attempts += 1;
            let seen = var.get(tx)?;
            if attempts == 1 {
                other.atomically(|tx| var.set(tx, 5));
            }
            part.set(tx, seen)?;
            var.set(tx, seen + 1)
        });
        assert_eq!((var.load(), attempts), (6, 2), "{}", W::Control::NAME);
    }

    #[test]
    fn what_shares_a_lock_with_a_part_is_not_lost() {
        macro_rules! in_tables {
            ($($name:ident: $control:ty),*) => {
                $(
                    crate::world! {
                        struct $name: $control, Threads, InTable =
                            Memory::new(Settings::default().slots(4), Threads::default());
                    }
                    a_part_may_share_its_lock::<$name>();
                )*
            };
        }
        in_tables!(A: Dctl, B: Dcotl, C: DcotlSf, D: Tl2Gv4, E: Tl2Gv5, F: TinyStm);
    }
}
