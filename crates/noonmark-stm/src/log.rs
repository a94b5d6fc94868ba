//! What an attempt remembers: append-only logs that are written through a shared reference.
//!
//! The handle of a transaction is copied freely ([`Tx`](crate::Tx) is `Copy`), so what an attempt logs lies
//! behind a shared reference. A [`Log`] hands out copies and never references to its entries, and runs
//! no code of others while it is at work: so that no two references to its insides ever meet.
//!
//! A [`Lent`] is an address that an attempt may use until it ends: of a lock, or of a word. Whoever lends it
//! holds it for the lifetime `'tx` of the attempt (see [`crate::transaction`]); logs are cleared before
//! that ends.
//!
//! This is one of the few modules with `unsafe`.
//!
//! What it does not do: logs shrink no more; a desk keeps the largest that it has needed.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::ptr::NonNull;

/// A list that grows at its end. Not `Sync`: one attempt at a time writes it.
#[derive(Debug)]
pub struct Log<T>(UnsafeCell<Vec<T>>);

impl<T> Default for Log<T> {
    fn default() -> Self {
        Log(UnsafeCell::new(Vec::new()))
    }
}

impl<T: Copy> Log<T> {
    /// Appends an entry.
    #[inline(always)]
    pub fn push(&self, entry: T) {
        // SAFETY: not `Sync`, and the reference ends with this call, in which no other code runs: `T` is
        // `Copy`, so there is nothing to drop.
        unsafe { (*self.0.get()).push(entry) }
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        // SAFETY: as in `push`.
        unsafe { (*self.0.get()).len() }
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last one.
    #[inline(always)]
    pub fn last(&self) -> Option<T> {
        // SAFETY: as in `push`; what comes back is a copy.
        unsafe { (*self.0.get()).last().copied() }
    }

    /// Takes the last one off.
    #[inline(always)]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: as in `push`.
        unsafe { (*self.0.get()).pop() }
    }

    /// Forgets all but the first so many.
    #[inline(always)]
    pub fn truncate(&self, len: usize) {
        // SAFETY: as in `push`; `T` is `Copy`, so nothing is dropped.
        unsafe { (*self.0.get()).truncate(len) }
    }

    /// Forgets all.
    #[inline(always)]
    pub fn clear(&self) {
        // SAFETY: as in `truncate`.
        unsafe { (*self.0.get()).clear() }
    }

    /// Copies of the entries. The log may grow meanwhile; what is added is seen, too.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            // SAFETY: as in `push`; what comes back is a copy.
            let entry = unsafe { &*self.0.get() }.get(at).copied();
            at += 1;
            entry
        })
    }
}

/// A shared reference for as long as the attempt lasts that it was lent to.
#[derive(Debug)]
pub struct Lent<T>(NonNull<T>);

impl<T> Clone for Lent<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Lent<T> {}

impl<T> PartialEq for Lent<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Lent<T> {
    /// Lends it.
    ///
    /// # Safety
    /// What it refers to outlives the attempt, and this is kept nowhere but in the logs of that attempt, which are
    /// cleared before the attempt ends.
    #[inline(always)]
    pub unsafe fn new(what: &T) -> Self {
        Lent(NonNull::from(what))
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: promised at `new`.
        unsafe { self.0.as_ref() }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_order_and_may_grow_under_its_reader() {
        let log = Log::default();
        assert!(log.is_empty());
        log.push(0);
        let mut seen = Vec::new();
        for entry in log.iter() {
            seen.push(entry);
            if entry < 100 {
                log.push(entry + 1);
            }
        }
        assert_eq!(seen, (0..=100).collect::<Vec<_>>());
        log.truncate(3);
        assert_eq!((log.len(), log.last(), log.pop(), log.pop()), (3, Some(2), Some(2), Some(1)));
        assert_eq!(log.iter().collect::<Vec<_>>(), [0]);
    }
}
