//! [`TCell`]: a variable that holds a value of any type, behind a pointer; and [`TBox`], the same as a part of a node.
//!
//! The value is immutable: to change it is to allocate a new one, and to retire the old one when the change has committed.
//! So reading it costs no copy: the reader gets a reference that lasts as long as his attempt, whatever becomes of the
//! value meanwhile. What is found through it (a `TVar` in an `Arc` in a `Vec`) can be used in the same transaction.
//!
//! # Why a reference is good
//!
//! A reader follows an address only when the read of it stood: then somebody committed it, or the reader's own attempt
//! wrote it. In the first case whoever replaces it retires it after his commit, and the reader was pinned before he found it;
//! so it is freed after the reader's attempt at the earliest. In the second it is freed when the attempt ends and has not
//! committed; or, if the attempt replaces it once more and commits, it is retired. The closure is over by then.
//!
//! Values are freed by whoever comes along, at some later time: hence `Send` and `'static`. They are read by several at a
//! time: hence `Sync`.
//!
//! This is one of the few modules with `unsafe`.
//!
//! What it does not do: it does not compare; setting a value that equals the old one is a change.

use crate::desk::Block;
use crate::place::Place;
use crate::plain::Plain;
use crate::transaction::{Interrupted, Reads, SpotOf, Writes, lock_for_writing, read};
use crate::var::Header;
use crate::world::{Global, World};
use noonmark_core::Access;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The cells and words of an address are those of a number.
type Address = usize;

/// A transactional variable for a value of any type that threads may share.
///
/// Eight bytes for the lock, eight for the address, and the value on the heap.
///
/// ```
/// use noonmark_stm::{TCell, TVar, atomically};
/// use std::sync::Arc;
///
/// let names = TCell::new(vec!["Ada".to_string()]);
/// atomically(|tx| names.update(tx, |names| names.push("Grace".into())));
/// // By reference, for as long as the transaction lasts:
/// let letters = atomically(|tx| Ok(names.read(tx)?.iter().map(|name| name.len()).sum::<usize>()));
/// assert_eq!(letters, 8);
///
/// // Variables inside of values:
/// let scores = TCell::new(vec![Arc::new(TVar::new(1)), Arc::new(TVar::new(2))]);
/// let total = atomically(|tx| {
///     let mut total = 0;
///     for score in scores.read(tx)? {
///         total += score.update(tx, |score| score * 10)?;
///     }
///     Ok(total)
/// });
/// assert_eq!(total, 30);
/// ```
///
/// A reference cannot leave the transaction:
///
/// ```compile_fail,E0521
/// use noonmark_stm::{TCell, atomically};
/// let name = TCell::new("Ada".to_string());
/// let mut outside = None;
/// atomically(|tx| {
///     outside = Some(name.read(tx)?);
///     Ok(())
/// });
/// ```
#[repr(C)]
pub struct TCell<T: Send + Sync + 'static, W: World = Global> {
    header: Header<W>,
    value: TBox<T>,
    world: PhantomData<fn() -> W>,
}

/// A value of any type that threads may share, on the heap, as a part of a node, whose lock guards it: see
/// [`TRef::read`](crate::TRef::read) and [`TRef::put`](crate::TRef::put). It is dropped with the node.
#[repr(transparent)]
pub struct TBox<T: Send + Sync + 'static> {
    /// The address of a `Box<T>` that was given up by `Box::into_raw`, never null. It is this one's: whoever replaces it
    /// sees to its being freed.
    address: <Address as Plain>::Cells,
    owns: PhantomData<T>,
}

impl<T: Send + Sync + 'static> TBox<T> {
    /// In a node that is yet to be made.
    pub fn new(value: T) -> Self {
        TBox { address: Address::cells(expose(value).into_words()), owns: PhantomData }
    }

    /// What it is, by reference.
    #[inline(always)]
    pub(crate) fn read<'tx, W: World, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        lock: SpotOf<'tx, W>,
    ) -> Result<&'tx T, Interrupted> {
        let address = read::<W, X, Address>(tx, lock, &self.address)?;
        tx.desk().touch_behind(lock.object(), &self.address, Access::Read);
        // SAFETY: see the module's page: the read stood, so it is the address of a value that is not freed before the
        // attempt ends; and nobody changes it, as all that is ever lent of it is shared.
        Ok(unsafe { pointer::<T>(address).as_ref() })
    }

    /// Makes it something else.
    pub(crate) fn set<'tx, W: World, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        lock: SpotOf<'tx, W>,
        value: T,
    ) -> Result<(), Interrupted> {
        lock_for_writing::<W, X>(tx, lock)?;
        let desk = tx.desk();
        desk.touch_behind(lock.object(), &self.address, Access::Allocate);
        let address = expose(value);
        desk.allocated(Block::of_box(pointer::<T>(address)));
        // The lock is ours, so this is what the attempt would read: what was committed last, or its own.
        let before = Address::from_words(Address::load(&self.address));
        desk.store::<Address>(lock, &self.address, address.into_words());
        // SAFETY: if the attempt commits, the address is in no cell any more; and this cell, whose it was, has another.
        unsafe { desk.freed(Block::of_box(pointer::<T>(before))) };
        Ok(())
    }

    /// What it is, to its only owner.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: borrowed alone: no transaction is under way that has found it here, as it would borrow this.
        unsafe { pointer::<T>(Address::from_words(Address::load(&self.address))).as_mut() }
    }
}

impl<T: Send + Sync + 'static> Drop for TBox<T> {
    fn drop(&mut self) {
        let address = Address::from_words(Address::load(&self.address));
        // SAFETY: the address is this one's. No attempt is under way that uses this, as it would borrow it for
        // longer; one that has found it through something that is now freed has ended, or that would not be freed.
        drop(unsafe { Box::from_raw(pointer::<T>(address).as_ptr()) });
    }
}

/// Says that it is a variable, and not what is in it.
impl<T: Send + Sync + 'static> std::fmt::Debug for TBox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TBox").finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> TCell<T> {
    /// A variable of the [`Global`] world.
    pub fn new(value: T) -> Self {
        Self::new_in(value)
    }
}

/// Gives up a box for its address.
fn expose<T>(value: T) -> Address {
    Box::into_raw(Box::new(value)).expose_provenance()
}

/// The box's address as a pointer.
fn pointer<T>(address: Address) -> NonNull<T> {
    debug_assert!(address != 0, "a cell holds the address of a box");
    // SAFETY: a cell's address is that of a box, never null.
    unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) }
}

impl<T: Send + Sync + 'static, W: World> TCell<T, W> {
    /// A variable of any world.
    pub fn new_in(value: T) -> Self {
        TCell { header: Header::<W>::default(), value: TBox::new(value), world: PhantomData }
    }

    fn lock<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> SpotOf<'tx, W> {
        W::Place::lock(&self.header, &tx.desk().common)
    }

    /// What it is, by reference.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn read<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<&'tx T, Interrupted> {
        self.value.read::<W, X>(tx, self.lock(tx))
    }

    /// What it is, as a copy.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn get<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<T, Interrupted>
    where
        T: Clone,
    {
        self.read(tx).cloned()
    }

    /// Makes it something else.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn set<'tx, X: Writes<'tx, W>>(&'tx self, tx: X, value: T) -> Result<(), Interrupted> {
        self.value.set::<W, X>(tx, self.lock(tx), value)
    }

    /// Changes a copy of it, and makes it that.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn update<'tx, X: Writes<'tx, W>, R>(
        &'tx self,
        tx: X,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Interrupted>
    where
        T: Clone,
    {
        let mut value = self.get(tx)?;
        let answer = change(&mut value);
        self.set(tx, value)?;
        Ok(answer)
    }

    /// A copy of what it is, in a transaction of its own.
    pub fn load(&self) -> T
    where
        T: Clone,
    {
        W::view(|tx| self.get(tx))
    }

    /// What it is, to its only owner.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default + Send + Sync + 'static, W: World> Default for TCell<T, W> {
    fn default() -> Self {
        Self::new_in(T::default())
    }
}

/// Says that it is a variable, and not what is in it: that takes a transaction, and this may be called inside one.
impl<T: Send + Sync + 'static, W: World> std::fmt::Debug for TCell<T, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TCell").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::TwoPlSf;

    #[test]
    fn a_cell_takes_what_the_docs_say() {
        assert_eq!(size_of::<TCell<String>>(), 16);
        assert_eq!(size_of::<TCell<[u64; 100], Global<TwoPlSf>>>(), 16);
    }
}
