//! Nodes: what linked structures are made of, allocated and freed inside transactions.
//!
//! A node is a struct of one's own behind one lock: [`TField`]s, [`TBox`]es and [`TLink`]s, which change, and whatever else,
//! which does not (a key, say). A [`TRef`] refers to a node for as long as the transaction lasts; a [`TRoot`] is where a structure
//! begins. Reading a link gives a `TRef`, by which the next node is read.
//!
//! ```
//! use noonmark_stm::{Global, TField, TLink, TRef, TRoot, atomically};
//!
//! struct Item { name: &'static str, count: TField<u32>, next: TLink<Item> }
//!
//! struct List { first: TRoot<Item> }
//!
//! impl Drop for List {
//!     fn drop(&mut self) {
//!         // SAFETY: the nodes are this list's, each reached by one link.
//!         unsafe { self.first.free_all(|item, free| free(&mut item.next)) };
//!     }
//! }
//!
//! let list = List { first: TRoot::new() };
//! atomically(|tx| {
//!     for name in ["one", "two"] {
//!         let first = list.first.get(tx)?;
//!         let item = TRef::alloc(tx, Item { name, count: TField::new(0), next: TLink::none() });
//!         item.link(tx, |item| &item.next, first)?;
//!         list.first.set(tx, Some(item))?;
//!     }
//!     Ok(())
//! });
//! atomically(|tx| {
//!     let mut at = list.first.get(tx)?;
//!     while let Some(item) = at {
//!         let count = item.get(tx, |item| &item.count)?;
//!         item.set(tx, |item| &item.count, count + item.name.len() as u32)?;
//!         at = item.follow(tx, |item| &item.next)?;
//!     }
//!     Ok(())
//! });
//! // Takes the first one out.
//! atomically(|tx| {
//!     let Some(first) = list.first.get(tx)? else { return Ok(()) };
//!     let next = first.follow(tx, |item| &item.next)?;
//!     list.first.set(tx, next)?;
//!     // SAFETY: nothing leads to it any more.
//!     unsafe { first.free(tx) };
//!     Ok(())
//! });
//! ```
//!
//! # Why a reference is good
//!
//! As for [`TCell`](crate::TCell): only a link whose read stood is followed; whoever takes a node out retires it after his
//! commit; and who has found it before is pinned. A new node, allocated in an attempt that does not commit, was
//! never found by anybody else. So a doomed reader, who goes on through nodes that were taken out long ago, touches no freed
//! memory. Nor can a new node be linked by anybody but the attempt that has made it: a `TRef` is of one attempt, and so is whatever
//! a link is made of. (If it was made in a branch that was undone, and is linked all the same, it stays.)
//!
//! That a node, once freed, is not reached *later* is not something that types could see to: [`TRef::free`] is `unsafe`,
//! and says what its caller promises. It is a promise about the structure, as in any sequential code.
//!
//! What need not be done: a node that is taken out need not be locked. Who relied on its being there has read the link that
//! led to it, and that has changed.
//!
//! This is one of the few modules with `unsafe`.
//!
//! What it does not do: it owns nothing. A structure frees its nodes when it is dropped ([`TRoot::free_all`]), or leaks them.

use crate::cell::TBox;
use crate::desk::Block;
use crate::place::Place;
use crate::plain::Plain;
use crate::transaction::{Interrupted, Reads, SpotOf, Writes, lock_for_writing, read};
use crate::var::Header;
use crate::world::{Global, World};
use noonmark_core::{Host, Work};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A node in memory.
#[repr(C)]
struct Node<N, W: World> {
    header: Header<W>,
    content: N,
}

/// An address as it lies in a link: 0 for none.
type Address = usize;

/// In place of an address, in roots only: leads nowhere yet. No node has this address, or one with this bit.
const UNSET: Address = 1;

/// A plain value in a node.
#[derive(Debug)]
#[repr(transparent)]
pub struct TField<T: Plain>(T::Cells);

impl<T: Plain> TField<T> {
    /// In a node that is yet to be made.
    pub fn new(value: T) -> Self {
        TField(T::cells(value.into_words()))
    }

    /// What it is, to its only owner.
    pub fn get_mut(&mut self) -> T {
        T::from_words(T::load(&self.0))
    }
}

/// A link from a node to another one of the same kind, or to none.
///
/// What leads to a node is written by [`TRef::link`] only, in a transaction. A link that could be made outside of a node, and be
/// kept, would lead to what is not there any more when the attempt that has made the node is undone:
///
/// ```compile_fail,E0624
/// use noonmark_stm::{TLink, TRef, atomically};
/// struct Item { next: TLink<Item> }
/// let mut kept = None;
/// atomically(|tx| {
///     let item = TRef::alloc(tx, Item { next: TLink::none() });
///     kept = Some(TLink::to(Some(item)));
///     Ok(())
/// });
/// ```
#[repr(transparent)]
pub struct TLink<N, W: World = Global> {
    /// Zero, or the address of a `Node<N, W>` that was made by [`TRef::alloc`]; in a root also [`UNSET`].
    address: <Address as Plain>::Cells,
    leads_to: PhantomData<fn() -> (N, W)>,
}

impl<N: Send + Sync + 'static, W: World> TLink<N, W> {
    /// To no node.
    pub fn none() -> Self {
        Self::to(None)
    }

    /// To this one, which the attempt has found, for a node that it is about to make; it must not be kept elsewhere.
    pub(crate) fn to(node: Option<TRef<'_, N, W>>) -> Self {
        TLink { address: Address::cells(address_of(node).into_words()), leads_to: PhantomData }
    }
}

impl<N, W: World> std::fmt::Debug for TLink<N, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TLink").finish_non_exhaustive()
    }
}

/// Links of a node, as many as it is made with, in an allocation of their own. Its lock guards them all.
pub(crate) struct TLinks<N, W: World>(Box<[TLink<N, W>]>);

impl<N: Send + Sync + 'static, W: World> TLinks<N, W> {
    /// So many, to no node.
    pub(crate) fn none(count: usize) -> Self {
        TLinks((0..count).map(|_| TLink::none()).collect())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<N, W: World> std::fmt::Debug for TLinks<N, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TLinks").finish_non_exhaustive()
    }
}

fn address_of<N, W: World>(node: Option<TRef<'_, N, W>>) -> Address {
    node.map_or(0, |node| std::ptr::from_ref(node.node).expose_provenance())
}

/// The node at an address that was read, which is not [`UNSET`].
///
/// # Safety
/// The read stood, in an attempt that lasts for `'tx`: see the module's page.
#[inline(always)]
unsafe fn node_at<'tx, N, W: World>(address: Address) -> Option<TRef<'tx, N, W>> {
    let pointer = NonNull::new(std::ptr::with_exposed_provenance_mut::<Node<N, W>>(address))?;
    // SAFETY: promised by the caller: it is a node, and not freed before the attempt ends. It is only ever shared.
    Some(TRef { node: unsafe { pointer.as_ref() }, attempt: PhantomData })
}

/// A reference to a node, for as long as the transaction lasts.
///
/// What does not change in a node can be read through it directly.
///
/// It is of one attempt, and no other one can link it, not even one that runs in the midst of the first, at a desk of its own:
/// the node may be one that goes away with that.
///
/// ```compile_fail,E0521
/// use noonmark_stm::{DcotlSf, Global, TLink, TRef, TRoot, World};
/// struct Item { next: TLink<Item> }
/// let root = TRoot::<Item>::new();
/// let (mut outer, mut inner) = (Global::<DcotlSf>::session(), Global::<DcotlSf>::session());
/// outer.atomically(|tx| {
///     let item = TRef::alloc(tx, Item { next: TLink::none() });
///     inner.atomically(|tx| root.set(tx, Some(item)));
///     Ok(())
/// });
/// ```
pub struct TRef<'tx, N, W: World = Global> {
    node: &'tx Node<N, W>,
    /// **Invariant**: of the attempt of exactly this lifetime.
    attempt: PhantomData<fn(&'tx ()) -> &'tx ()>,
}

impl<N, W: World> Clone for TRef<'_, N, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N, W: World> Copy for TRef<'_, N, W> {}

/// The same node.
impl<N, W: World> PartialEq for TRef<'_, N, W> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.node, other.node)
    }
}

impl<N, W: World> Eq for TRef<'_, N, W> {}

impl<N: std::fmt::Debug, W: World> std::fmt::Debug for TRef<'_, N, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TRef").field(&self.node.content).finish()
    }
}

impl<N, W: World> std::ops::Deref for TRef<'_, N, W> {
    type Target = N;
    #[inline(always)]
    fn deref(&self) -> &N {
        &self.node.content
    }
}

impl<'tx, N: Send + Sync + 'static, W: World> TRef<'tx, N, W> {
    /// What a node takes, its lock included.
    pub(crate) const BYTES: usize = size_of::<Node<N, W>>();

    /// A new node, which goes away if the attempt does not commit. If it does, whoever has linked it sees to its
    /// being freed some day.
    #[inline]
    pub fn alloc<X: Writes<'tx, W>>(tx: X, content: N) -> Self {
        let node = NonNull::from(Box::leak(Box::new(Node::<N, W> { header: Default::default(), content })));
        tx.desk().host().work(Work::MemoryNode);
        tx.desk().allocated(Block::of_box(node));
        // SAFETY: it was just allocated, and is not freed before the attempt ends.
        let new = TRef { node: unsafe { node.as_ref() }, attempt: PhantomData };
        tx.desk().touch_new(new.lock(tx).object(), &new.node.content);
        new
    }

    /// Frees the node, if the transaction commits, and not before nobody can be looking at it any more.
    ///
    /// # Safety
    /// If the transaction commits, then no later one finds a link to this node, and nobody else frees it.
    #[inline]
    pub unsafe fn free<X: Writes<'tx, W>>(self, tx: X) {
        let (desk, node) = (tx.desk(), NonNull::from(self.node));
        desk.host().work(Work::MemoryNode);
        desk.keep(node);
        // SAFETY: promised by the caller. It was made of a box, by `alloc`.
        unsafe { desk.freed(Block::of_box(node)) };
    }

    /// What is in it, for as long as the transaction lasts. (By `Deref`, it is for as long as this reference.)
    #[inline(always)]
    pub fn content(self) -> &'tx N {
        &self.node.content
    }

    #[inline(always)]
    fn lock<X: Reads<'tx, W>>(self, tx: X) -> SpotOf<'tx, W> {
        W::Place::lock(&self.node.header, &tx.desk().common)
    }

    /// A part of the content, which this node's lock guards.
    #[inline(always)]
    fn part<F>(self, of: impl for<'n> FnOnce(&'n N) -> &'n F) -> &'tx F {
        let content = &self.node.content;
        let part = of(content);
        // A closure could answer a part of something else, which another lock guards. (Known when compiled, mostly.)
        let offset = (std::ptr::from_ref(part) as usize).wrapping_sub(std::ptr::from_ref(content) as usize);
        assert!(
            size_of::<F>() <= size_of::<N>() && offset <= size_of::<N>() - size_of::<F>(),
            "a part of another node"
        );
        part
    }

    /// What one of its fields is.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline(always)]
    pub fn get<X: Reads<'tx, W>, T: Plain>(
        self,
        tx: X,
        of: impl for<'n> FnOnce(&'n N) -> &'n TField<T>,
    ) -> Result<T, Interrupted> {
        let cells = &self.part(of).0;
        read::<W, X, T>(tx, self.lock(tx), cells)
    }

    /// Makes one of its fields something else.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn set<X: Writes<'tx, W>, T: Plain>(
        self,
        tx: X,
        of: impl for<'n> FnOnce(&'n N) -> &'n TField<T>,
        value: T,
    ) -> Result<(), Interrupted> {
        let cells = &self.part(of).0;
        let words = value.into_words();
        let lock = self.lock(tx);
        lock_for_writing::<W, X>(tx, lock)?;
        tx.desk().store::<T>(lock, cells, words);
        Ok(())
    }

    /// What is in one of its boxes, by reference.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline(always)]
    pub fn read<X: Reads<'tx, W>, T: Send + Sync + 'static>(
        self,
        tx: X,
        of: impl for<'n> FnOnce(&'n N) -> &'n TBox<T>,
    ) -> Result<&'tx T, Interrupted> {
        self.part(of).read::<W, X>(tx, self.lock(tx))
    }

    /// Puts something else into one of its boxes.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn put<X: Writes<'tx, W>, T: Send + Sync + 'static>(
        self,
        tx: X,
        of: impl for<'n> FnOnce(&'n N) -> &'n TBox<T>,
        value: T,
    ) -> Result<(), Interrupted> {
        self.part(of).set::<W, X>(tx, self.lock(tx), value)
    }

    /// Where one of its links leads.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline(always)]
    pub fn follow<X: Reads<'tx, W>, M: Send + Sync + 'static>(
        self,
        tx: X,
        of: impl for<'n> FnOnce(&'n N) -> &'n TLink<M, W>,
    ) -> Result<Option<TRef<'tx, M, W>>, Interrupted> {
        self.follow_part(tx, self.lock(tx), self.part(of))
    }

    /// Where the `index`th of its links leads.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline(always)]
    pub(crate) fn follow_nth<X: Reads<'tx, W>, M: Send + Sync + 'static>(
        self,
        tx: X,
        of: impl for<'n> FnOnce(&'n N) -> &'n TLinks<M, W>,
        index: usize,
    ) -> Result<Option<TRef<'tx, M, W>>, Interrupted> {
        let links = &self.part(of).0;
        self.follow_part(tx, self.lock(tx).with_links(links.as_ptr()), &links[index])
    }

    #[inline(always)]
    fn follow_part<X: Reads<'tx, W>, M: Send + Sync + 'static>(
        self,
        tx: X,
        lock: SpotOf<'tx, W>,
        link: &'tx TLink<M, W>,
    ) -> Result<Option<TRef<'tx, M, W>>, Interrupted> {
        let address = read::<W, X, Address>(tx, lock, &link.address)?;
        // SAFETY: the read stood.
        Ok(unsafe { node_at(address) })
    }

    /// Makes one of its links lead elsewhere.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline(always)]
    pub fn link<X: Writes<'tx, W>, M: Send + Sync + 'static>(
        self,
        tx: X,
        of: impl for<'n> FnOnce(&'n N) -> &'n TLink<M, W>,
        to: Option<TRef<'tx, M, W>>,
    ) -> Result<(), Interrupted> {
        self.link_part(tx, self.lock(tx), self.part(of), to)
    }

    /// Makes the `index`th of its links lead elsewhere.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub(crate) fn link_nth<X: Writes<'tx, W>, M: Send + Sync + 'static>(
        self,
        tx: X,
        of: impl for<'n> FnOnce(&'n N) -> &'n TLinks<M, W>,
        index: usize,
        to: Option<TRef<'tx, M, W>>,
    ) -> Result<(), Interrupted> {
        let links = &self.part(of).0;
        self.link_part(tx, self.lock(tx).with_links(links.as_ptr()), &links[index], to)
    }

    #[inline(always)]
    fn link_part<X: Writes<'tx, W>, M: Send + Sync + 'static>(
        self,
        tx: X,
        lock: SpotOf<'tx, W>,
        link: &'tx TLink<M, W>,
        to: Option<TRef<'tx, M, W>>,
    ) -> Result<(), Interrupted> {
        lock_for_writing::<W, X>(tx, lock)?;
        set_link(tx, lock, link, to);
        Ok(())
    }
}

/// Makes a link lead elsewhere, under its lock.
#[inline(always)]
fn set_link<'tx, W: World, X: Writes<'tx, W>, N>(
    tx: X,
    lock: SpotOf<'tx, W>,
    link: &'tx TLink<N, W>,
    to: Option<TRef<'tx, N, W>>,
) {
    let desk = tx.desk();
    if let Some(to) = to {
        desk.keep(NonNull::from(to.node));
    }
    desk.store::<Address>(lock, &link.address, address_of(to).into_words());
}

/// Where a linked structure begins: a link with a lock of its own.
#[repr(C)]
pub struct TRoot<N, W: World = Global> {
    header: Header<W>,
    link: TLink<N, W>,
}

impl<N: Send + Sync + 'static> TRoot<N> {
    /// Of an empty structure of the [`Global`] world.
    pub fn new() -> Self {
        Self::new_in()
    }
}

impl<N: Send + Sync + 'static> Default for TRoot<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N: Send + Sync + 'static, W: World> TRoot<N, W> {
    /// Of an empty structure of any world.
    pub fn new_in() -> Self {
        TRoot { header: Default::default(), link: TLink::none() }
    }

    /// Of a structure that is not there yet: it leads nowhere, and can tell that from being empty.
    pub(crate) fn unset() -> Self {
        let link = TLink { address: Address::cells(UNSET.into_words()), leads_to: PhantomData };
        TRoot { header: Default::default(), link }
    }

    /// Whether it leads somewhere, if it is set, at a glance: nothing follows from it for a transaction.
    pub(crate) fn glance(&self) -> Option<bool> {
        let address = Address::from_words(Address::load(&self.link.address));
        (address != UNSET).then_some(address != 0)
    }

    #[inline(always)]
    fn lock<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> SpotOf<'tx, W> {
        W::Place::lock(&self.header, &tx.desk().common)
    }

    /// The first node.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline(always)]
    pub fn get<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<Option<TRef<'tx, N, W>>, Interrupted> {
        // SAFETY: the read stood.
        Ok(unsafe { node_at(self.address(tx)? & !UNSET) })
    }

    /// The first node, or none, if it is set.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline(always)]
    pub(crate) fn get_if_set<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
    ) -> Result<Option<Option<TRef<'tx, N, W>>>, Interrupted> {
        let address = self.address(tx)?;
        // SAFETY: the read stood.
        Ok((address != UNSET).then(|| unsafe { node_at(address) }))
    }

    #[inline(always)]
    fn address<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<Address, Interrupted> {
        read::<W, X, Address>(tx, self.lock(tx), &self.link.address)
    }

    /// Makes it another one, or none.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn set<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        to: Option<TRef<'tx, N, W>>,
    ) -> Result<(), Interrupted> {
        let lock = self.lock(tx);
        lock_for_writing::<W, X>(tx, lock)?;
        set_link(tx, lock, &self.link, to);
        Ok(())
    }

    /// Frees all nodes, now: for a structure that is dropped. `links` calls its second argument on each link of a node. If the `Drop` of
    /// something in a node panics, the others are freed all the same.
    ///
    /// # Safety
    /// The structure is the caller's alone: no transaction is under way that knows a node of it, and none finds one later. Each
    /// node is reached by one link only.
    pub unsafe fn free_all(&mut self, links: impl FnMut(&mut N, &mut dyn FnMut(&mut TLink<N, W>))) {
        /// What has been found and is not freed yet. Dropped early by a panic, it goes on.
        struct Rest<N, W: World, F: FnMut(&mut N, &mut dyn FnMut(&mut TLink<N, W>))> {
            found: Vec<NonNull<Node<N, W>>>,
            links: F,
        }

        impl<N, W: World, F: FnMut(&mut N, &mut dyn FnMut(&mut TLink<N, W>))> Rest<N, W, F> {
            fn free(&mut self) {
                let Rest { found, links } = self;
                while let Some(node) = found.pop() {
                    // SAFETY: a node, made of a box by `TRef::alloc`; promised to be found once, and nobody else's.
                    let mut node = unsafe { Box::from_raw(node.as_ptr()) };
                    links(&mut node.content, &mut |link| found.extend(take(link)));
                }
            }
        }

        impl<N, W: World, F: FnMut(&mut N, &mut dyn FnMut(&mut TLink<N, W>))> Drop for Rest<N, W, F> {
            fn drop(&mut self) {
                self.free();
            }
        }

        fn take<N, W: World>(link: &mut TLink<N, W>) -> Option<NonNull<Node<N, W>>> {
            let address = Address::from_words(Address::load(&link.address));
            link.address = Address::cells(0usize.into_words());
            if address <= UNSET { None } else { NonNull::new(std::ptr::with_exposed_provenance_mut(address)) }
        }
        Rest { found: take(&mut self.link).into_iter().collect(), links }.free();
    }
}

impl<N, W: World> std::fmt::Debug for TRoot<N, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TRoot").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::{atomically, view};

    struct Item {
        value: TField<u64>,
        next: TLink<Item>,
    }

    #[test]
    fn a_link_takes_a_word_and_a_root_two() {
        assert_eq!(size_of::<TLink<Item>>(), 8);
        assert_eq!(size_of::<TRoot<Item>>(), 16);
    }

    #[test]
    #[should_panic(expected = "a part of another node")]
    fn a_part_of_another_node_is_refused() {
        static ANOTHER: std::sync::LazyLock<Item> =
            std::sync::LazyLock::new(|| Item { value: TField::new(2), next: TLink::none() });
        let root = TRoot::<Item>::new();
        atomically(|tx| {
            let one = TRef::alloc(tx, Item { value: TField::new(1), next: TLink::none() });
            root.set(tx, None)?;
            one.get(tx, |_| &ANOTHER.value)
        });
    }

    #[test]
    fn a_structure_is_read_by_its_links() {
        let mut root = TRoot::<Item>::new();
        for value in 0..10 {
            atomically(|tx| {
                let first = root.get(tx)?;
                let item = TRef::alloc(tx, Item { value: TField::new(value), next: TLink::none() });
                item.link(tx, |item| &item.next, first)?;
                root.set(tx, Some(item))
            });
        }
        let values = view(|tx| {
            let (mut values, mut at) = (Vec::new(), root.get(tx)?);
            while let Some(item) = at {
                values.push(item.get(tx, |item| &item.value)?);
                at = item.follow(tx, |item| &item.next)?;
            }
            Ok(values)
        });
        assert_eq!(values, (0..10).rev().collect::<Vec<_>>());
        let mut freed = 0;
        // SAFETY: the list is this test's, and no transaction is under way.
        unsafe {
            root.free_all(|item, free| {
                freed += 1;
                free(&mut item.next);
            });
        }
        assert_eq!(freed, 10);
    }
}
