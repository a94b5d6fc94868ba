//! [`TRavlMap`]: an ordered map, a relaxed AVL tree (Sen, Tarjan and Kim, *Deletion Without Rebalancing in Binary Search
//! Trees*, 2016; §7.2 of the paper).
//!
//! Each node has a *rank*, a leaf when it is inserted 0; where there is no node the rank is -1.
//!
//! - **Invariant**: a node's rank is greater than those of its children.
//! - **Invariant**: the keys of a left subtree are less than the node's, those of a right one greater.
//!
//! An insertion can violate the first, where the new node's parent is a leaf; going up, it promotes, or rotates once or
//! twice and is done. A deletion does not rebalance at all: it takes the node out, or puts its successor in its place, with its
//! rank. So deletions write little, and near the node, which is what makes the tree good for transactions. The height is at
//! most 1.44 times the binary logarithm of the number of *insertions* so far, whatever was deleted.
//!
//! A key does not change in its node, so comparing takes no lock, and a key may be of any type. A value is plain, and
//! changes in place.
//!
//! What it does not do: it does not get flatter when much is deleted and little inserted; it does not count.

use crate::node::{TField, TLink, TRef, TRoot};
use crate::plain::Plain;
use crate::transaction::{Interrupted, Reads, Writes};
use crate::world::{Global, World};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

/// No path is longer: the height with 2^64 insertions.
const HEIGHT_MAX: usize = 96;

struct Node<K: Key, V: Plain, W: World> {
    key: K,
    value: TField<V>,
    rank: TField<i64>,
    left: TLink<Node<K, V, W>, W>,
    right: TLink<Node<K, V, W>, W>,
}

/// What a key must be: ordered, and fit to be looked at and dropped by any thread.
pub trait Key: Ord + Send + Sync + 'static {}

impl<K: Ord + Send + Sync + 'static> Key for K {}

type Ref<'tx, K, V, W> = TRef<'tx, Node<K, V, W>, W>;
type Link<'tx, K, V, W> = Option<Ref<'tx, K, V, W>>;
type Answer<T> = Result<T, Interrupted>;
/// A node, and on which side a path goes on from it.
type Turn<'tx, K, V, W> = (Ref<'tx, K, V, W>, Side);
/// A node that was looked for, and the path that leads there.
type Found<'tx, K, V, W> = (Link<'tx, K, V, W>, Path<'tx, K, V, W>);

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// An ordered map in transactional memory.
///
/// 48 bytes an entry, for a key and a value of eight bytes each, and what the allocator adds.
///
/// ```
/// use noonmark_stm::{TRavlMap, atomically, view};
///
/// let (waiting, served) = (TRavlMap::<u32, u64>::new(), TRavlMap::<u32, u64>::new());
/// atomically(|tx| {
///     for number in 0..10 {
///         waiting.insert(tx, number, 0)?;
///     }
///     Ok(())
/// });
/// // Moves the first from one map to the other: nobody ever sees it in both, or in neither.
/// let moved = atomically(|tx| {
///     let Some((number, value)) = waiting.pop_first(tx)? else { return tx.retry() };
///     served.insert(tx, number, value + 1)?;
///     Ok(number)
/// });
/// assert_eq!(moved, 0);
/// let between = view(|tx| waiting.range(tx, 3..=5).map(|entry| Ok(*entry?.0)).collect::<Result<Vec<_>, _>>());
/// assert_eq!(between, [3, 4, 5]);
/// ```
pub struct TRavlMap<K: Key, V: Plain, W: World = Global> {
    root: TRoot<Node<K, V, W>, W>,
}

impl<K: Key, V: Plain> TRavlMap<K, V> {
    /// An empty map of the [`Global`] world.
    pub fn new() -> Self {
        Self::new_in()
    }
}

impl<K: Key, V: Plain, W: World> Default for TRavlMap<K, V, W> {
    fn default() -> Self {
        Self::new_in()
    }
}

impl<K: Key, V: Plain, W: World> std::fmt::Debug for TRavlMap<K, V, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TRavlMap").finish_non_exhaustive()
    }
}

impl<K: Key, V: Plain, W: World> Drop for TRavlMap<K, V, W> {
    fn drop(&mut self) {
        // SAFETY: all nodes are this map's, and it gives out no references to them that outlast a transaction which
        // borrows it. It is a tree.
        unsafe {
            self.root.free_all(|node, free| {
                free(&mut node.left);
                free(&mut node.right);
            });
        }
    }
}

#[inline(always)]
fn child<'tx, X, K, V, W>(tx: X, node: Ref<'tx, K, V, W>, side: Side) -> Answer<Link<'tx, K, V, W>>
where
    X: Reads<'tx, W>,
    K: Key,
    V: Plain,
    W: World,
{
    match side {
        Side::Left => node.follow(tx, |node| &node.left),
        Side::Right => node.follow(tx, |node| &node.right),
    }
}

#[inline(always)]
fn set_child<'tx, X, K, V, W>(
    tx: X,
    node: Ref<'tx, K, V, W>,
    side: Side,
    to: Link<'tx, K, V, W>,
) -> Answer<()>
where
    X: Writes<'tx, W>,
    K: Key,
    V: Plain,
    W: World,
{
    match side {
        Side::Left => node.link(tx, |node| &node.left, to),
        Side::Right => node.link(tx, |node| &node.right, to),
    }
}

/// The rank of what a link leads to.
fn rank<'tx, X, K, V, W>(tx: X, link: Link<'tx, K, V, W>) -> Answer<i64>
where
    X: Reads<'tx, W>,
    K: Key,
    V: Plain,
    W: World,
{
    match link {
        Some(node) => node.get(tx, |node| &node.rank),
        None => Ok(-1),
    }
}

fn add_to_rank<'tx, X, K, V, W>(tx: X, node: Ref<'tx, K, V, W>, add: i64) -> Answer<()>
where
    X: Writes<'tx, W>,
    K: Key,
    V: Plain,
    W: World,
{
    let rank = node.get(tx, |node| &node.rank)?;
    node.set(tx, |node| &node.rank, rank + add)
}

/// The nodes from the root to some place, and on which side each goes on.
struct Path<'tx, K: Key, V: Plain, W: World> {
    steps: [Option<Turn<'tx, K, V, W>>; HEIGHT_MAX],
    len: usize,
}

impl<'tx, K: Key, V: Plain, W: World> Path<'tx, K, V, W> {
    fn new() -> Self {
        Path { steps: [None; HEIGHT_MAX], len: 0 }
    }

    fn push(&mut self, node: Ref<'tx, K, V, W>, side: Side) {
        self.steps[self.len] = Some((node, side));
        self.len += 1;
    }

    fn pop(&mut self) -> Option<Turn<'tx, K, V, W>> {
        self.len = self.len.checked_sub(1)?;
        self.steps[self.len]
    }

    fn last(&self) -> Option<Turn<'tx, K, V, W>> {
        self.steps[self.len.checked_sub(1)?]
    }
}

impl<K: Key, V: Plain, W: World> TRavlMap<K, V, W> {
    /// An empty map of any world.
    pub fn new_in() -> Self {
        TRavlMap { root: TRoot::new_in() }
    }

    fn find<'tx, Q, X>(&'tx self, tx: X, key: &Q) -> Answer<Link<'tx, K, V, W>>
    where
        Q: Ord + ?Sized,
        K: Borrow<Q>,
        X: Reads<'tx, W>,
    {
        let mut at = self.root.get(tx)?;
        while let Some(node) = at {
            at = match key.cmp(node.key.borrow()) {
                Ordering::Less => node.follow(tx, |node| &node.left)?,
                Ordering::Greater => node.follow(tx, |node| &node.right)?,
                Ordering::Equal => break,
            };
        }
        Ok(at)
    }

    /// The node of a key, if there is one, and the path to it, or to where it would be.
    fn find_path<'tx, Q, X>(&'tx self, tx: X, key: &Q) -> Answer<Found<'tx, K, V, W>>
    where
        Q: Ord + ?Sized,
        K: Borrow<Q>,
        X: Reads<'tx, W>,
    {
        let mut path = Path::new();
        let mut at = self.root.get(tx)?;
        while let Some(node) = at {
            let side = match key.cmp(node.key.borrow()) {
                Ordering::Less => Side::Left,
                Ordering::Greater => Side::Right,
                Ordering::Equal => break,
            };
            path.push(node, side);
            at = child(tx, node, side)?;
        }
        Ok((at, path))
    }

    /// Makes the link at the end of a path lead elsewhere.
    fn set_link<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        parent: Option<Turn<'tx, K, V, W>>,
        to: Link<'tx, K, V, W>,
    ) -> Answer<()> {
        match parent {
            Some((parent, side)) => set_child(tx, parent, side, to),
            None => self.root.set(tx, to),
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on. So for all other operations.
    pub fn get<'tx, Q, X>(&'tx self, tx: X, key: &Q) -> Answer<Option<V>>
    where
        Q: Ord + ?Sized,
        K: Borrow<Q>,
        X: Reads<'tx, W>,
    {
        match self.find(tx, key)? {
            Some(node) => node.get(tx, |node| &node.value).map(Some),
            None => Ok(None),
        }
    }

    /// Whether there is a key.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn contains_key<'tx, Q, X>(&'tx self, tx: X, key: &Q) -> Answer<bool>
    where
        Q: Ord + ?Sized,
        K: Borrow<Q>,
        X: Reads<'tx, W>,
    {
        Ok(self.find(tx, key)?.is_some())
    }

    /// Gives a key a value, and answers the one that it had.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn insert<'tx, X: Writes<'tx, W>>(&'tx self, tx: X, key: K, value: V) -> Answer<Option<V>> {
        let (found, path) = self.find_path(tx, &key)?;
        if let Some(node) = found {
            let before = node.get(tx, |node| &node.value)?;
            node.set(tx, |node| &node.value, value)?;
            return Ok(Some(before));
        }
        self.insert_at(tx, path, key, value)?;
        Ok(None)
    }

    /// Makes the value of a key what the closure makes of it, `None` standing for no entry; answers what it was.
    ///
    /// ```
    /// use noonmark_stm::{TRavlMap, atomically, view};
    /// let words = TRavlMap::<String, u64>::new();
    /// for word in ["to", "be", "or", "not", "to", "be"] {
    ///     atomically(|tx| words.update(tx, word.to_string(), |count| Some(count.unwrap_or(0) + 1)));
    /// }
    /// assert_eq!(view(|tx| words.get(tx, "be")), Some(2));
    /// ```
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn update<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        key: K,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Answer<Option<V>> {
        let (found, path) = self.find_path(tx, &key)?;
        let before = match found {
            Some(node) => Some(node.get(tx, |node| &node.value)?),
            None => None,
        };
        match (found, change(before)) {
            (Some(node), Some(after)) => node.set(tx, |node| &node.value, after)?,
            (Some(node), None) => self.take_out(tx, path, node)?,
            (None, Some(after)) => self.insert_at(tx, path, key, after)?,
            (None, None) => {}
        }
        Ok(before)
    }

    /// Removes a key, and answers its value.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn remove<'tx, Q, X>(&'tx self, tx: X, key: &Q) -> Answer<Option<V>>
    where
        Q: Ord + ?Sized,
        K: Borrow<Q>,
        X: Writes<'tx, W>,
    {
        let (Some(node), path) = self.find_path(tx, key)? else { return Ok(None) };
        let value = node.get(tx, |node| &node.value)?;
        self.take_out(tx, path, node)?;
        Ok(Some(value))
    }

    /// A new leaf at the end of the path, and what it takes for the ranks.
    fn insert_at<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        mut path: Path<'tx, K, V, W>,
        key: K,
        value: V,
    ) -> Answer<()> {
        let leaf = TRef::alloc(
            tx,
            Node {
                key,
                value: TField::new(value),
                rank: TField::new(0),
                left: TLink::none(),
                right: TLink::none(),
            },
        );
        self.set_link(tx, path.last(), Some(leaf))?;
        // `node`'s rank may be its parent's.
        let (mut node, mut node_rank) = (leaf, 0);
        while let Some((parent, side)) = path.pop() {
            if rank(tx, Some(parent))? != node_rank {
                break;
            }
            let sibling = child(tx, parent, side.other())?;
            if node_rank - rank(tx, sibling)? == 1 {
                // Promotes the parent, which may now have its own parent's rank.
                node_rank += 1;
                parent.set(tx, |node| &node.rank, node_rank)?;
                node = parent;
                continue;
            }
            let inner = child(tx, node, side.other())?;
            match inner {
                Some(inner) if node_rank - rank(tx, Some(inner))? == 1 => {
                    // The inner child comes between the two.
                    set_child(tx, node, side.other(), child(tx, inner, side)?)?;
                    set_child(tx, parent, side, child(tx, inner, side.other())?)?;
                    set_child(tx, inner, side, Some(node))?;
                    set_child(tx, inner, side.other(), Some(parent))?;
                    add_to_rank(tx, inner, 1)?;
                    add_to_rank(tx, node, -1)?;
                    add_to_rank(tx, parent, -1)?;
                    self.set_link(tx, path.last(), Some(inner))?;
                }
                _ => {
                    set_child(tx, parent, side, inner)?;
                    set_child(tx, node, side.other(), Some(parent))?;
                    add_to_rank(tx, parent, -1)?;
                    self.set_link(tx, path.last(), Some(node))?;
                }
            }
            break;
        }
        Ok(())
    }

    /// Takes out the node at the end of the path.
    fn take_out<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        path: Path<'tx, K, V, W>,
        node: Ref<'tx, K, V, W>,
    ) -> Answer<()> {
        let (left, right) = (child(tx, node, Side::Left)?, child(tx, node, Side::Right)?);
        let replacement = match (left, right) {
            (Some(_), Some(right)) => {
                // Its successor comes in its place, with its rank: the leftmost node on the right.
                let (mut above, mut successor) = (None, right);
                while let Some(next) = child(tx, successor, Side::Left)? {
                    above = Some(successor);
                    successor = next;
                }
                if let Some(above) = above {
                    set_child(tx, above, Side::Left, child(tx, successor, Side::Right)?)?;
                    set_child(tx, successor, Side::Right, Some(right))?;
                }
                set_child(tx, successor, Side::Left, left)?;
                let rank = node.get(tx, |node| &node.rank)?;
                successor.set(tx, |node| &node.rank, rank)?;
                Some(successor)
            }
            (only, None) | (None, only) => only,
        };
        self.set_link(tx, path.last(), replacement)?;
        // SAFETY: the one link to it leads elsewhere now, and whoever reads the map from now on does not find it. Only the
        // transaction that takes it out frees it: another one that did so too would conflict with this one.
        unsafe { node.free(tx) };
        Ok(())
    }

    fn end<'tx, X: Reads<'tx, W>>(&'tx self, tx: X, side: Side) -> Answer<Link<'tx, K, V, W>> {
        let mut last = None;
        let mut at = self.root.get(tx)?;
        while let Some(node) = at {
            last = Some(node);
            at = child(tx, node, side)?;
        }
        Ok(last)
    }

    fn entry<'tx, X: Reads<'tx, W>>(tx: X, link: Link<'tx, K, V, W>) -> Answer<Option<(&'tx K, V)>> {
        match link {
            Some(node) => Ok(Some((&node.content().key, node.get(tx, |node| &node.value)?))),
            None => Ok(None),
        }
    }

    /// The first entry.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn first_key_value<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<Option<(&'tx K, V)>> {
        Self::entry(tx, self.end(tx, Side::Left)?)
    }

    /// The last entry.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn last_key_value<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<Option<(&'tx K, V)>> {
        Self::entry(tx, self.end(tx, Side::Right)?)
    }

    /// Removes the first entry.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn pop_first<'tx, X: Writes<'tx, W>>(&'tx self, tx: X) -> Answer<Option<(K, V)>>
    where
        K: Clone,
    {
        let Some((key, _)) = self.first_key_value(tx)? else { return Ok(None) };
        Ok(self.remove(tx, key)?.map(|value| (key.clone(), value)))
    }

    /// Removes the last entry.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn pop_last<'tx, X: Writes<'tx, W>>(&'tx self, tx: X) -> Answer<Option<(K, V)>>
    where
        K: Clone,
    {
        let Some((key, _)) = self.last_key_value(tx)? else { return Ok(None) };
        Ok(self.remove(tx, key)?.map(|value| (key.clone(), value)))
    }

    /// The entries whose keys are in a range, in order. What is inserted or removed while it goes on (by the same
    /// transaction) may or may not be seen.
    pub fn range<'tx, X: Reads<'tx, W>, R: RangeBounds<K>>(
        &'tx self,
        tx: X,
        range: R,
    ) -> Range<'tx, K, V, W, X, R> {
        Range { tx, range, stack: Vec::new(), begin: Some(self) }
    }

    /// All entries, in order.
    pub fn iter<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Range<'tx, K, V, W, X, std::ops::RangeFull> {
        self.range(tx, ..)
    }

    /// How many entries there are: it goes through all of them.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn len<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<usize> {
        self.iter(tx).try_fold(0, |len, entry| entry.map(|_| len + 1))
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn is_empty<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<bool> {
        Ok(self.root.get(tx)?.is_none())
    }

    /// Looks whether the invariants hold; answers how many entries there are, and the height.
    ///
    /// # Panics
    /// If they do not.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[doc(hidden)]
    pub fn check<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<(usize, usize)> {
        let (mut count, mut height) = (0, 0);
        let mut before: Option<&K> = None;
        for entry in self.iter(tx) {
            let (key, _) = entry?;
            assert!(before.is_none_or(|before| before < key), "keys out of order");
            before = Some(key);
        }
        let mut stack: Vec<_> = self.root.get(tx)?.map(|node| (node, 1)).into_iter().collect();
        while let Some((node, depth)) = stack.pop() {
            count += 1;
            height = height.max(depth);
            for side in [Side::Left, Side::Right] {
                let below = child(tx, node, side)?;
                assert!(
                    rank(tx, Some(node))? > rank(tx, below)?,
                    "a rank that is not greater than a child's"
                );
                stack.extend(below.map(|below| (below, depth + 1)));
            }
        }
        Ok((count, height))
    }
}

/// Entries in order. Each is a `Result`: hand the error on.
pub struct Range<'tx, K: Key, V: Plain, W: World, X, R> {
    tx: X,
    range: R,
    /// Nodes whose left side is done with, and which are in the range or before it: the next one on top.
    stack: Vec<Ref<'tx, K, V, W>>,
    /// The map, until the first entry is asked for.
    begin: Option<&'tx TRavlMap<K, V, W>>,
}

impl<K: Key, V: Plain, W: World, X, R> std::fmt::Debug for Range<'_, K, V, W, X, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range").finish_non_exhaustive()
    }
}

impl<'tx, K: Key, V: Plain, W: World, X: Reads<'tx, W>, R: RangeBounds<K>> Range<'tx, K, V, W, X, R> {
    /// Whether a key comes before the range.
    fn is_before(&self, key: &K) -> bool {
        match self.range.start_bound() {
            Bound::Included(start) => key < start,
            Bound::Excluded(start) => key <= start,
            Bound::Unbounded => false,
        }
    }

    /// Whether a key comes after the range.
    fn is_after(&self, key: &K) -> bool {
        match self.range.end_bound() {
            Bound::Included(end) => key > end,
            Bound::Excluded(end) => key >= end,
            Bound::Unbounded => false,
        }
    }

    /// Goes down to the first node of a subtree that is not before the range.
    fn descend(&mut self, mut at: Link<'tx, K, V, W>) -> Answer<()> {
        while let Some(node) = at {
            at = if self.is_before(&node.key) {
                child(self.tx, node, Side::Right)?
            } else {
                self.stack.push(node);
                child(self.tx, node, Side::Left)?
            };
        }
        Ok(())
    }

    fn step(&mut self) -> Answer<Option<(&'tx K, V)>> {
        if let Some(map) = self.begin.take() {
            let root = map.root.get(self.tx)?;
            self.descend(root)?;
        }
        let Some(node) = self.stack.pop() else { return Ok(None) };
        if self.is_after(&node.key) {
            self.stack.clear();
            return Ok(None);
        }
        let right = child(self.tx, node, Side::Right)?;
        self.descend(right)?;
        TRavlMap::entry(self.tx, Some(node))
    }
}

impl<'tx, K: Key, V: Plain, W: World, X: Reads<'tx, W>, R: RangeBounds<K>> Iterator
    for Range<'tx, K, V, W, X, R>
{
    type Item = Answer<(&'tx K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
