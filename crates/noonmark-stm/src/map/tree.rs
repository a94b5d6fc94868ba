//! Binary search trees, but for how they are balanced.
//!
//! - **Invariant**: the keys of a left subtree are less than the node's, those of a right one greater.
//!
//! A [`Balance`] says what a node remembers for it (a rank, a colour), how a new leaf is linked in, and how a node is taken out.
//! It knows no keys: it is given the [`Path`] on which the key was looked for, and on which side that goes on from each
//! node.
//!
//! What it does not do: nodes do not know their parents. A link upwards would be one more to write at each rotation, in nodes that
//! otherwise need not be touched.

use super::value::Value;
use super::{Answer, Given, Key, Look, NodeOf, Ordered, Sealed, Stored, Structure, is_before};
use crate::node::{TField, TLink, TRef, TRoot};
use crate::plain::Plain;
use crate::transaction::{Reads, Writes};
use crate::world::World;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::Bound;

/// How a tree is kept flat. Sealed: see [`TRavlMap`](crate::TRavlMap) and its kin.
pub trait Balance: Sealed + Sized + Send + Sync + 'static {
    /// What the maps are called.
    const NAME: &'static str;
    /// What a node remembers.
    #[doc(hidden)]
    type Mark: Send + Sync + 'static;

    /// That of a new node. `draw` answers a random number.
    #[doc(hidden)]
    fn new_mark(draw: impl FnOnce() -> u64) -> Self::Mark;

    /// Links in a new node, which was looked for on this path.
    #[doc(hidden)]
    fn link<'tx, N, X>(
        pen: Pen<'tx, N, X>,
        path: &mut Path<'tx, N>,
        node: TRef<'tx, N, N::World>,
    ) -> Answer<()>
    where
        N: Branching<Mark = Self::Mark>,
        X: Writes<'tx, N::World>;

    /// Takes out the node to which the path leads.
    #[doc(hidden)]
    fn unlink<'tx, N, X>(
        pen: Pen<'tx, N, X>,
        path: &mut Path<'tx, N>,
        node: TRef<'tx, N, N::World>,
    ) -> Answer<()>
    where
        N: Branching<Mark = Self::Mark>,
        X: Writes<'tx, N::World>;

    /// Panics unless its invariants hold.
    #[doc(hidden)]
    fn check<'tx, N, X>(pen: Pen<'tx, N, X>) -> Answer<()>
    where
        N: Branching<Mark = Self::Mark>,
        X: Reads<'tx, N::World>;
}

/// As a number it is the link's place in its node.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    /// Where the key goes on that is looked for, from a node with another one.
    ///
    /// By arithmetic and not by a branch, which would be guessed wrong at every second node.
    #[inline(always)]
    fn right_if(is_greater: bool) -> Side {
        if is_greater { Side::Right } else { Side::Left }
    }

    pub(super) fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// A node as a balance sees it.
#[doc(hidden)]
pub trait Branching: Send + Sync + Sized + 'static {
    type World: World;
    type Mark;

    fn mark(&self) -> &Self::Mark;
    /// Where it leads, on the left and on the right.
    fn links(&self) -> &[TLink<Self, Self::World>; 2];
}

type Ref<'tx, N> = TRef<'tx, N, <N as Branching>::World>;

/// Where a link is: at a node, on this side, or (none) at the root.
pub(super) type Turn<'tx, N> = (Ref<'tx, N>, Side);

/// A tree's root and a transaction: what it takes to change links.
#[doc(hidden)]
pub struct Pen<'tx, N: Branching, X> {
    root: &'tx TRoot<N, N::World>,
    pub(super) tx: X,
}

impl<N: Branching, X: Copy> Clone for Pen<'_, N, X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N: Branching, X: Copy> Copy for Pen<'_, N, X> {}

impl<N: Branching, X> std::fmt::Debug for Pen<'_, N, X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pen").finish_non_exhaustive()
    }
}

impl<'tx, N: Branching, X: Reads<'tx, N::World>> Pen<'tx, N, X> {
    #[inline(always)]
    pub(super) fn child(self, node: Ref<'tx, N>, side: Side) -> Answer<Option<Ref<'tx, N>>> {
        node.follow(self.tx, |node| &node.links()[side as usize])
    }

    #[inline(always)]
    pub(super) fn follow(self, at: Option<Turn<'tx, N>>) -> Answer<Option<Ref<'tx, N>>> {
        match at {
            Some((node, side)) => self.child(node, side),
            None => self.root.get(self.tx),
        }
    }

    /// What a node's mark says, if it is one that changes.
    #[inline(always)]
    pub(super) fn mark<T: Plain>(self, node: Ref<'tx, N>) -> Answer<T>
    where
        N: Branching<Mark = TField<T>>,
    {
        node.get(self.tx, N::mark)
    }

    /// Calls a closure with each node, its parent, and its depth from 1.
    pub(super) fn visit(
        self,
        mut visit: impl FnMut(Ref<'tx, N>, Option<Turn<'tx, N>>, usize) -> Answer<()>,
    ) -> Answer<()> {
        let mut stack: Vec<_> = self.follow(None)?.map(|node| (node, None, 1)).into_iter().collect();
        while let Some((node, parent, depth)) = stack.pop() {
            visit(node, parent, depth)?;
            for side in [Side::Left, Side::Right] {
                stack.extend(self.child(node, side)?.map(|below| (below, Some((node, side)), depth + 1)));
            }
        }
        Ok(())
    }
}

impl<'tx, N: Branching, X: Writes<'tx, N::World>> Pen<'tx, N, X> {
    #[inline(always)]
    pub(super) fn set_child(self, node: Ref<'tx, N>, side: Side, to: Option<Ref<'tx, N>>) -> Answer<()> {
        node.link(self.tx, |node| &node.links()[side as usize], to)
    }

    /// Makes a link lead elsewhere.
    #[inline(always)]
    pub(super) fn set_link(self, at: Option<Turn<'tx, N>>, to: Option<Ref<'tx, N>>) -> Answer<()> {
        match at {
            Some((node, side)) => self.set_child(node, side, to),
            None => self.root.set(self.tx, to),
        }
    }

    /// Makes a link lead elsewhere, and locks nothing if it does already.
    pub(super) fn lead(self, at: Option<Turn<'tx, N>>, to: Option<Ref<'tx, N>>) -> Answer<()> {
        if self.follow(at)? == to { Ok(()) } else { self.set_link(at, to) }
    }

    pub(super) fn set_mark<T: Plain>(self, node: Ref<'tx, N>, mark: T) -> Answer<()>
    where
        N: Branching<Mark = TField<T>>,
    {
        node.set(self.tx, N::mark, mark)
    }
}

/// The nodes from the root to some place, and on which side each goes on.
///
/// The first ones in place: as many as a flat tree of a billion entries has.
#[doc(hidden)]
pub struct Path<'tx, N: Branching> {
    near: [Option<Ref<'tx, N>>; PATH_NEAR],
    /// On which side it goes on from each of those, a bit for each: 0 for left. Others are 0.
    near_sides: u32,
    far: Vec<Turn<'tx, N>>,
    len: usize,
}

const PATH_NEAR: usize = u32::BITS as usize;

impl<N: Branching> std::fmt::Debug for Path<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Path").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<N: Branching> Default for Path<'_, N> {
    #[inline(always)]
    fn default() -> Self {
        Path { near: [None; PATH_NEAR], near_sides: 0, far: Vec::new(), len: 0 }
    }
}

impl<'tx, N: Branching> Path<'tx, N> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> Option<Turn<'tx, N>> {
        if index >= self.len {
            return None;
        }
        match self.near.get(index) {
            Some(node) => node.map(|node| (node, Side::right_if(self.near_sides >> index & 1 != 0))),
            None => self.far.get(index - PATH_NEAR).copied(),
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, node: Ref<'tx, N>, side: Side) {
        let mut steps = Steps::of(self);
        steps.push(node, side);
        steps.end();
    }

    #[cold]
    #[inline(never)]
    fn push_far(&mut self, node: Ref<'tx, N>, side: Side) {
        self.far.push((node, side));
    }

    /// Puts another node in the place of one, which goes on on the same side.
    pub(super) fn replace(&mut self, index: usize, node: Ref<'tx, N>) {
        if index >= self.len {
        } else if index < PATH_NEAR {
            self.near[index] = Some(node);
        } else {
            self.far[index - PATH_NEAR].0 = node;
        }
    }

    #[inline(always)]
    pub(super) fn last(&self) -> Option<Turn<'tx, N>> {
        self.get(self.len.wrapping_sub(1))
    }

    pub(super) fn pop(&mut self) -> Option<Turn<'tx, N>> {
        let last = self.last()?;
        self.len -= 1;
        self.far.truncate(self.len.saturating_sub(PATH_NEAR));
        if self.len < PATH_NEAR {
            self.near_sides &= !(1 << self.len);
        }
        Some(last)
    }
}

/// A path while it grows: what each step changes is kept in registers, and each step is one store to memory.
struct Steps<'a, 'tx, N: Branching> {
    path: &'a mut Path<'tx, N>,
    sides: u32,
    len: usize,
}

impl<'a, 'tx, N: Branching> Steps<'a, 'tx, N> {
    #[inline(always)]
    fn of(path: &'a mut Path<'tx, N>) -> Self {
        Steps { sides: path.near_sides, len: path.len, path }
    }

    #[inline(always)]
    fn push(&mut self, node: Ref<'tx, N>, side: Side) {
        match self.path.near.get_mut(self.len) {
            Some(near) => {
                *near = Some(node);
                self.sides |= (side as u32) << self.len;
            }
            None => self.path.push_far(node, side),
        }
        self.len += 1;
    }

    #[inline(always)]
    fn end(self) {
        (self.path.near_sides, self.path.len) = (self.sides, self.len);
    }
}

/// A node of a tree.
#[doc(hidden)]
#[derive(Debug)]
pub struct Node<K: Key, V: Value, B: Balance, W: World> {
    key: K,
    value: V::Stored,
    mark: B::Mark,
    links: [TLink<Node<K, V, B, W>, W>; 2],
}

impl<K: Key, V: Value, B: Balance, W: World> Branching for Node<K, V, B, W> {
    type World = W;
    type Mark = B::Mark;

    #[inline(always)]
    fn mark(&self) -> &B::Mark {
        &self.mark
    }
    #[inline(always)]
    fn links(&self) -> &[TLink<Self, W>; 2] {
        &self.links
    }
}

/// A binary search tree, for [`TMap`](crate::TMap).
pub struct Tree<K: Key, V: Value, B: Balance, W: World> {
    root: TRoot<Node<K, V, B, W>, W>,
    balance: PhantomData<B>,
}

impl<K: Key, V: Value, B: Balance, W: World> Default for Tree<K, V, B, W> {
    fn default() -> Self {
        Tree { root: TRoot::new_in(), balance: PhantomData }
    }
}

impl<K: Key, V: Value, B: Balance, W: World> std::fmt::Debug for Tree<K, V, B, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(B::NAME).finish_non_exhaustive()
    }
}

impl<K: Key, V: Value, B: Balance, W: World> Drop for Tree<K, V, B, W> {
    fn drop(&mut self) {
        // SAFETY: all nodes are this tree's, and it gives out no references to them that outlast a transaction which
        // borrows it. It is a tree.
        unsafe {
            self.root.free_all(|node, free| {
                node.links.iter_mut().for_each(free);
            });
        }
    }
}

impl<K: Key, V: Value, B: Balance, W: World> Tree<K, V, B, W> {
    #[inline(always)]
    fn pen<'tx, X>(&'tx self, tx: X) -> Pen<'tx, Node<K, V, B, W>, X> {
        Pen { root: &self.root, tx }
    }
}

impl<K: Key, V: Value, B: Balance, W: World> Sealed for Tree<K, V, B, W> {}

impl<K: Key + Ord, V: Value, B: Balance, W: World> Structure for Tree<K, V, B, W> {
    const NAME: &'static str = B::NAME;
    type Key = K;
    type Value = V;
    type World = W;
    type Node = Node<K, V, B, W>;
    type Place<'tx> = Path<'tx, Node<K, V, B, W>>;
    /// Nodes whose left side is done with, and which are not: the next one on top.
    type Cursor<'tx> = Vec<NodeOf<'tx, Self>>;

    #[inline(always)]
    fn key(node: &Self::Node) -> &K {
        &node.key
    }

    #[inline(always)]
    fn value(node: &Self::Node) -> &Stored<Self> {
        &node.value
    }

    #[inline]
    fn put_in<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        path: &mut Self::Place<'tx>,
        key: K,
        value: Given<Self>,
    ) -> Answer<()> {
        let node = TRef::alloc(
            tx,
            Node {
                key,
                value: V::store(value),
                mark: B::new_mark(|| tx.desk().random()),
                links: [TLink::none(), TLink::none()],
            },
        );
        B::link(self.pen(tx), path, node)
    }

    #[inline]
    fn take_out<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        path: &mut Self::Place<'tx>,
        node: NodeOf<'tx, Self>,
    ) -> Answer<()> {
        B::unlink(self.pen(tx), path, node)
    }

    fn begin<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<Self::Cursor<'tx>> {
        self.seek(tx, Bound::Unbounded)
    }

    fn next<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        cursor: &mut Self::Cursor<'tx>,
    ) -> Answer<Option<NodeOf<'tx, Self>>> {
        let Some(node) = cursor.pop() else { return Ok(None) };
        let pen = self.pen(tx);
        let mut at = pen.child(node, Side::Right)?;
        while let Some(below) = at {
            cursor.push(below);
            at = pen.child(below, Side::Left)?;
        }
        Ok(Some(node))
    }

    /// Nodes may have changed places, up and down.
    #[cold]
    fn resume<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        cursor: &mut Self::Cursor<'tx>,
        last: NodeOf<'tx, Self>,
    ) -> Answer<()> {
        *cursor = self.seek(tx, Bound::Excluded(&last.content().key))?;
        Ok(())
    }

    fn check<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<usize> {
        let mut height = 0;
        let pen = self.pen(tx);
        pen.visit(|_, _, depth| {
            height = height.max(depth);
            Ok(())
        })?;
        let (mut cursor, mut before) = (self.begin(tx)?, None);
        while let Some(node) = self.next(tx, &mut cursor)? {
            let key = &node.content().key;
            assert!(before.is_none_or(|before| before < key), "keys out of order");
            before = Some(key);
        }
        B::check(pen)?;
        Ok(height)
    }
}

impl<K, V, B, W, Q> Look<Q> for Tree<K, V, B, W>
where
    K: Key + Ord + Borrow<Q>,
    V: Value,
    B: Balance,
    W: World,
    Q: Ord + ?Sized + 'static,
{
    #[inline]
    fn find<'tx, X: Reads<'tx, W>>(&'tx self, tx: X, key: &Q) -> Answer<Option<NodeOf<'tx, Self>>> {
        let pen = self.pen(tx);
        let mut at = pen.follow(None)?;
        while let Some(node) = at {
            let order = key.cmp(node.key.borrow());
            if order == Ordering::Equal {
                break;
            }
            at = pen.child(node, Side::right_if(order == Ordering::Greater))?;
        }
        Ok(at)
    }

    #[inline]
    fn find_place<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        key: &Q,
        path: &mut Self::Place<'tx>,
    ) -> Answer<Option<NodeOf<'tx, Self>>> {
        let pen = self.pen(tx);
        let mut at = pen.follow(None)?;
        let mut steps = Steps::of(path);
        while let Some(node) = at {
            let order = key.cmp(node.key.borrow());
            if order == Ordering::Equal {
                break;
            }
            let side = Side::right_if(order == Ordering::Greater);
            steps.push(node, side);
            at = pen.child(node, side)?;
        }
        steps.end();
        Ok(at)
    }
}

impl<K: Key + Ord, V: Value, B: Balance, W: World> Ordered for Tree<K, V, B, W> {
    fn seek<'tx, X: Reads<'tx, W>>(&'tx self, tx: X, start: Bound<&K>) -> Answer<Self::Cursor<'tx>> {
        let (mut cursor, pen) = (Vec::new(), self.pen(tx));
        let mut at = pen.follow(None)?;
        while let Some(node) = at {
            let side = Side::right_if(is_before(&node.content().key, start));
            if side == Side::Left {
                cursor.push(node);
            }
            at = pen.child(node, side)?;
        }
        Ok(cursor)
    }

    fn last<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<Option<NodeOf<'tx, Self>>> {
        let pen = self.pen(tx);
        let (mut last, mut at) = (None, pen.follow(None)?);
        while let Some(node) = at {
            last = at;
            at = pen.child(node, Side::Right)?;
        }
        Ok(last)
    }
}
