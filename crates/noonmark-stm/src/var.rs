//! [`TVar`]: a variable that holds a small plain value in place.
//!
//! A lock word (unless the world keeps locks in a table), and the words of the value. Nothing is allocated, and a value of
//! any number of words is always read as a whole: the words and the lock word beside them are looked at as
//! [`crate::control::lock_word`] says.
//!
//! What it does not do: it holds nothing that must be dropped. That is [`TCell`](crate::TCell).

use crate::place::Place;
use crate::plain::Plain;
use crate::transaction::{Interrupted, Reads, Writes, lock_for_writing, lock_own, read};
use crate::world::{Global, World};
use noonmark_core::Access;
use std::marker::PhantomData;

/// What an object of this world begins with.
pub(crate) type Header<W> = <<W as World>::Place as Place>::Header<<W as World>::Control, <W as World>::Host>;

/// A transactional variable for a small [`Plain`] value, in place.
///
/// Eight bytes for the lock, and eight for each scalar of the value.
///
/// ```
/// use noonmark_stm::{TVar, atomically, view};
///
/// let position = TVar::new((0i64, 0i64));
/// atomically(|tx| position.update(tx, |(x, y)| (x + 1, y - 1)));
/// assert_eq!(view(|tx| position.get(tx)), (1, -1));
/// ```
#[repr(C)]
pub struct TVar<T: Plain, W: World = Global> {
    header: Header<W>,
    cells: T::Cells,
    world: PhantomData<fn() -> W>,
}

impl<T: Plain> TVar<T> {
    /// A variable of the [`Global`] world.
    pub fn new(value: T) -> Self {
        Self::new_in(value)
    }
}

impl<T: Plain, W: World> TVar<T, W> {
    /// A variable of any world.
    pub fn new_in(value: T) -> Self {
        TVar { header: Header::<W>::default(), cells: T::cells(value.into_words()), world: PhantomData }
    }

    /// What it is.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn get<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<T, Interrupted> {
        let lock = W::Place::lock(&self.header, &tx.desk().common);
        read::<W, X, T>(tx, lock, &self.cells)
    }

    /// Makes it something else.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn set<'tx, X: Writes<'tx, W>>(&'tx self, tx: X, value: T) -> Result<(), Interrupted> {
        let words = value.into_words();
        let desk = tx.desk();
        let lock = W::Place::lock(&self.header, &desk.common);
        lock_for_writing::<W, X>(tx, lock)?;
        desk.store::<T>(lock, &self.cells, words);
        Ok(())
    }

    /// Makes it something else, and answers what it was.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn replace<'tx, X: Writes<'tx, W>>(&'tx self, tx: X, value: T) -> Result<T, Interrupted> {
        let before = self.get(tx)?;
        self.set(tx, value)?;
        Ok(before)
    }

    /// Makes it what the closure makes of it, and answers that.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn update<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        change: impl FnOnce(T) -> T,
    ) -> Result<T, Interrupted> {
        let after = change(self.get(tx)?);
        self.set(tx, after)?;
        Ok(after)
    }

    /// What it is, in a transaction of its own.
    pub fn load(&self) -> T {
        W::view(|tx| self.get(tx))
    }

    /// Makes it something else, in a transaction of its own.
    pub fn store(&self, value: T) {
        W::atomically(|tx| self.set(tx, value));
    }

    /// What it is, to the only one who writes it, who needs no look at the lock: see [`crate::owned`].
    #[inline(always)]
    pub(crate) fn load_own<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> T {
        let desk = tx.desk();
        desk.touch_part(W::Place::lock(&self.header, &desk.common).object(), &self.cells, Access::Read);
        T::from_words(T::load(&self.cells))
    }

    /// Its lock.
    #[cfg(all(test, not(loom), not(shuttle)))]
    pub(crate) fn lock<'a>(
        &'a self,
        common: &'a crate::desk::Common<W::Control, W::Host>,
    ) -> crate::transaction::SpotOf<'a, W> {
        W::Place::lock(&self.header, common)
    }

    /// Makes it something else, by the only one who writes it: see [`crate::owned`].
    #[inline(always)]
    pub(crate) fn store_own<'tx, X: Writes<'tx, W>>(&'tx self, tx: X, value: T) -> Result<(), Interrupted> {
        let desk = tx.desk();
        let lock = W::Place::lock(&self.header, &desk.common);
        lock_own::<W, X>(tx, lock)?;
        desk.store::<T>(lock, &self.cells, value.into_words());
        Ok(())
    }

    /// What it is, to its only owner.
    pub fn into_inner(self) -> T {
        T::from_words(T::load(&self.cells))
    }
}

impl<T: Plain + Default, W: World> Default for TVar<T, W> {
    fn default() -> Self {
        Self::new_in(T::default())
    }
}

/// Says that it is a variable, and not what is in it: that takes a transaction, and this may be called inside one.
impl<T: Plain, W: World> std::fmt::Debug for TVar<T, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TVar").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::{Dctl, TwoPlSf};
    use std::mem::size_of;

    #[test]
    fn a_variable_takes_its_words_and_a_lock() {
        assert_eq!(size_of::<TVar<u64>>(), 16);
        assert_eq!(size_of::<TVar<bool, Global<Dctl>>>(), 16);
        assert_eq!(size_of::<TVar<(u64, [i32; 3])>>(), 40);
        assert_eq!(size_of::<TVar<u64, Global<TwoPlSf>>>(), 16);
    }
}
