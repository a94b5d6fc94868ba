//! [`TQueue`]: first in, first out.
//!
//! A chain of nodes from the first to the last. What is put in does not change, so it needs no lock and may be of any type that
//! threads share.
//!
//! - **Invariant**: both roots lead nowhere, or `first` leads to a chain that ends at the node to which `last` leads.
//! - **Invariant**: nodes in a chain are numbered, each by one more than the one before it.
//!
//! So the length is known from the two ends. A push and a pop meet only where there is but one item, or none; two pushes meet,
//! and two pops do, as they must in a queue.
//!
//! What it does not do: it is not bounded. (Look at `len` in the transaction that pushes, and `retry`.)

use crate::node::{TLink, TRef, TRoot};
use crate::transaction::{Interrupted, Reads, Writes};
use crate::world::{Global, World};

struct Item<T: Send + Sync + 'static, W: World> {
    number: u64,
    value: T,
    next: TLink<Item<T, W>, W>,
}

/// A queue. 32 bytes an item of eight bytes, and what the allocator adds.
///
/// ```
/// use noonmark_stm::{Interrupted, TQueue, Tx, atomically};
///
/// // Pops, and waits for an item if there is none.
/// fn take<'tx>(tx: Tx<'tx, '_>, queue: &'tx TQueue<String>) -> Result<String, Interrupted> {
///     match queue.pop(tx)? {
///         Some(item) => Ok(item),
///         None => tx.retry(),
///     }
/// }
///
/// let (urgent, normal) = (TQueue::new(), TQueue::new());
/// let taken = std::thread::scope(|scope| {
///     let worker = scope.spawn(|| {
///         // From whichever has one, the urgent ones first.
///         let next = || atomically(|tx| tx.or_else(|tx| take(tx, &urgent), |tx| take(tx, &normal)));
///         [next(), next()]
///     });
///     atomically(|tx| {
///         normal.push(tx, "sweep".to_string())?;
///         urgent.push(tx, "put out the fire".to_string())
///     });
///     worker.join().unwrap()
/// });
/// assert_eq!(taken, ["put out the fire", "sweep"]);
/// ```
pub struct TQueue<T: Send + Sync + 'static, W: World = Global> {
    first: TRoot<Item<T, W>, W>,
    last: TRoot<Item<T, W>, W>,
}

impl<T: Send + Sync + 'static> TQueue<T> {
    /// An empty queue of the [`Global`] world.
    pub fn new() -> Self {
        Self::new_in()
    }
}

impl<T: Send + Sync + 'static, W: World> TQueue<T, W> {
    /// What an item takes: its node, with the lock, without what the allocator adds and what the item has on the heap.
    pub const ITEM_BYTES: usize = TRef::<'static, Item<T, W>, W>::BYTES;

    /// An empty queue of any world.
    pub fn new_in() -> Self {
        TQueue { first: TRoot::new_in(), last: TRoot::new_in() }
    }

    /// Puts an item in, after all others.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn push<'tx, X: Writes<'tx, W>>(&'tx self, tx: X, value: T) -> Result<(), Interrupted> {
        let last = self.last.get(tx)?;
        let number = last.map_or(0, |last| last.number.wrapping_add(1));
        let item = Some(TRef::alloc(tx, Item { number, value, next: TLink::none() }));
        match last {
            Some(last) => last.link(tx, |item| &item.next, item)?,
            None => self.first.set(tx, item)?,
        }
        self.last.set(tx, item)
    }

    /// Takes the first item out, if there is one. Others may still be looking at it, so what comes out is a copy.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn pop<'tx, X: Writes<'tx, W>>(&'tx self, tx: X) -> Result<Option<T>, Interrupted>
    where
        T: Clone,
    {
        let Some(first) = self.first.get(tx)? else { return Ok(None) };
        let next = first.follow(tx, |item| &item.next)?;
        // Before anything is changed: that is users' code.
        let value = first.value.clone();
        self.first.set(tx, next)?;
        if next.is_none() {
            self.last.set(tx, None)?;
        }
        // SAFETY: the root led to it, and the last one if it was the last; neither does any more. Only the transaction
        // that takes it out frees it: another one that did so too would conflict with this one.
        unsafe { first.free(tx) };
        Ok(Some(value))
    }

    /// The first item, if there is one.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn peek<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<Option<&'tx T>, Interrupted> {
        Ok(self.first.get(tx)?.map(|first| &first.content().value))
    }

    /// How many items there are. Whoever asks conflicts with all who push or pop.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn len<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<u64, Interrupted> {
        Ok(match (self.first.get(tx)?, self.last.get(tx)?) {
            (Some(first), Some(last)) => last.number.wrapping_sub(first.number) + 1,
            _ => 0,
        })
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn is_empty<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<bool, Interrupted> {
        Ok(self.first.get(tx)?.is_none())
    }
}

impl<T: Send + Sync + 'static, W: World> Default for TQueue<T, W> {
    fn default() -> Self {
        Self::new_in()
    }
}

impl<T: Send + Sync + 'static, W: World> Drop for TQueue<T, W> {
    fn drop(&mut self) {
        // SAFETY: all nodes are this queue's, and it gives out no references to them that outlast a transaction which
        // borrows it. Each is in the chain once; where the other root leads is of no interest any more.
        unsafe { self.first.free_all(|item, free| free(&mut item.next)) };
    }
}

/// Says that it is a queue, and not what is in it: that takes a transaction, and this may be called inside one.
impl<T: Send + Sync + 'static, W: World> std::fmt::Debug for TQueue<T, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TQueue").finish_non_exhaustive()
    }
}
