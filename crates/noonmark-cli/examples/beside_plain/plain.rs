//! The structures of the maps, for one thread: the same nodes without locks, the same algorithms without transactions.
//!
//! Two things that transactions cannot do without can be added: room for the locks (`L`, a word that nobody looks at), and, by [`Pinned`],
//! the fence of each transaction.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What is compared.
pub trait Plain {
    fn get(&mut self, key: u64) -> Option<u64>;
    /// Tells whether there was none.
    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool;
    fn remove(&mut self, key: u64) -> Option<u64>;
}

type Link<N> = Option<NonNull<N>>;

/// What a lookup needs comes first: what lies in a second line of the cache is asked for when the first has come, as late as the next node.
#[derive(Default)]
#[repr(C)]
struct TreeNode<L> {
    _lock: L,
    key: u64,
    children: [Link<TreeNode<L>>; 2],
    value: u64,
    rank: i64,
}

/// A relaxed AVL tree.
#[derive(Default)]
pub struct PlainRavl<L> {
    /// **Invariant**: leads to nodes that are this tree's, each by one link.
    root: Link<TreeNode<L>>,
    /// Room for the path of the operation under way: nodes, and on which side each goes on.
    path: Vec<(NonNull<TreeNode<L>>, usize)>,
}

/// # Safety
/// The link leads to a node of the tree that the caller holds.
unsafe fn rank<L>(link: Link<TreeNode<L>>) -> i64 {
    // SAFETY: promised by the caller.
    link.map_or(-1, |node| unsafe { node.as_ref() }.rank)
}

impl<L> PlainRavl<L> {
    /// Makes the path that to a key, or to where it would be; answers what is there.
    fn find(&mut self, key: u64) -> Link<TreeNode<L>> {
        self.path.clear();
        let mut at = self.root;
        while let Some(node) = at {
            // SAFETY: a node of this tree.
            let node_ref = unsafe { node.as_ref() };
            if node_ref.key == key {
                break;
            }
            let side = usize::from(key > node_ref.key);
            self.path.push((node, side));
            at = node_ref.children[side];
        }
        at
    }

    /// Makes the last step of the path lead elsewhere.
    fn lead(&mut self, to: Link<TreeNode<L>>) {
        match self.path.last() {
            // SAFETY: a node of this tree, which is borrowed alone.
            Some(&(mut node, side)) => unsafe { node.as_mut() }.children[side] = to,
            None => self.root = to,
        }
    }
}

impl<L: Default> Plain for PlainRavl<L> {
    fn get(&mut self, key: u64) -> Option<u64> {
        let mut at = self.root;
        while let Some(node) = at {
            // SAFETY: a node of this tree.
            let node = unsafe { node.as_ref() };
            if node.key == key {
                return Some(node.value);
            }
            at = node.children[usize::from(key > node.key)];
        }
        None
    }

    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool {
        if self.find(key).is_some() {
            return false;
        }
        let leaf = Box::new(TreeNode { key, value, ..Default::default() });
        let mut node = NonNull::from(Box::leak(leaf));
        self.lead(Some(node));
        let mut node_rank = 0;
        // SAFETY: all are nodes of this tree, and no two of these are the same.
        unsafe {
            while let Some((mut parent, side)) = self.path.pop() {
                let other = 1 - side;
                if parent.as_ref().rank != node_rank {
                    break;
                }
                if node_rank - rank(parent.as_ref().children[other]) == 1 {
                    node_rank += 1;
                    parent.as_mut().rank = node_rank;
                    node = parent;
                    continue;
                }
                let top = match node.as_ref().children[other] {
                    Some(mut inner) if node_rank - inner.as_ref().rank == 1 => {
                        node.as_mut().children[other] = inner.as_ref().children[side];
                        parent.as_mut().children[side] = inner.as_ref().children[other];
                        inner.as_mut().children[side] = Some(node);
                        inner.as_mut().children[other] = Some(parent);
                        inner.as_mut().rank = node_rank;
                        node.as_mut().rank = node_rank - 1;
                        inner
                    }
                    inner => {
                        parent.as_mut().children[side] = inner;
                        node.as_mut().children[other] = Some(parent);
                        node
                    }
                };
                parent.as_mut().rank = node_rank - 1;
                self.lead(Some(top));
                break;
            }
        }
        true
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        let node = self.find(key)?;
        // SAFETY: all are nodes of this tree. The node is made of a box, and no link leads to it any more when that is
        // dropped.
        unsafe {
            let replacement = match node.as_ref().children {
                [Some(left), Some(right)] => {
                    let (mut above, mut successor) = (None, right);
                    while let Some(next) = successor.as_ref().children[0] {
                        above = Some(successor);
                        successor = next;
                    }
                    if let Some(mut above) = above {
                        above.as_mut().children[0] = successor.as_ref().children[1];
                        successor.as_mut().children[1] = Some(right);
                    }
                    successor.as_mut().children[0] = Some(left);
                    successor.as_mut().rank = node.as_ref().rank;
                    Some(successor)
                }
                [only, None] | [None, only] => only,
            };
            self.lead(replacement);
            Some(Box::from_raw(node.as_ptr()).value)
        }
    }
}

impl<L> Drop for PlainRavl<L> {
    fn drop(&mut self) {
        let mut left: Vec<_> = self.root.into_iter().collect();
        while let Some(node) = left.pop() {
            // SAFETY: a node of this tree, made of a box, found by its one link.
            let node = unsafe { Box::from_raw(node.as_ptr()) };
            left.extend(node.children.into_iter().flatten());
        }
    }
}

#[repr(C)]
struct ChainNode<L> {
    _lock: L,
    key: u64,
    value: u64,
    next: Option<Box<ChainNode<L>>>,
}

#[derive(Default)]
#[repr(C)]
struct Bucket<L> {
    _lock: L,
    first: Option<Box<ChainNode<L>>>,
}

/// Chains in a fixed number of buckets.
pub struct PlainHash<L> {
    buckets: Vec<Bucket<L>>,
}

impl<L: Default> PlainHash<L> {
    /// The number is a power of two.
    pub fn new(buckets: usize) -> Self {
        PlainHash { buckets: (0..buckets).map(|_| Bucket::default()).collect() }
    }

    /// The same hash as the transactional map's.
    fn bucket(&self, key: u64) -> usize {
        use std::hash::{BuildHasher, BuildHasherDefault};
        let hasher = BuildHasherDefault::<noonmark_stm::Folding>::new();
        hasher.hash_one(key) as usize & (self.buckets.len() - 1)
    }
}

impl<L: Default> Plain for PlainHash<L> {
    fn get(&mut self, key: u64) -> Option<u64> {
        let mut at = &self.buckets[self.bucket(key)].first;
        while let Some(node) = at {
            if node.key == key {
                return Some(node.value);
            }
            at = &node.next;
        }
        None
    }

    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool {
        if self.get(key).is_some() {
            return false;
        }
        let bucket = self.bucket(key);
        let next = self.buckets[bucket].first.take();
        self.buckets[bucket].first = Some(Box::new(ChainNode { _lock: L::default(), key, value, next }));
        true
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        let bucket = self.bucket(key);
        let mut at = &mut self.buckets[bucket].first;
        while at.as_ref().is_some_and(|node| node.key != key) {
            at = &mut at.as_mut()?.next;
        }
        let node = at.take()?;
        *at = node.next;
        Some(node.value)
    }
}

/// A plain structure each of whose operations tells others that it is under way, as a transaction is pinned to an epoch.
pub struct Pinned<P>(pub P, AtomicU64);

impl<P> Pinned<P> {
    pub fn new(plain: P) -> Self {
        Pinned(plain, AtomicU64::new(0))
    }

    #[inline(always)]
    fn pinned<T>(&mut self, operation: impl FnOnce(&mut P) -> T) -> T {
        // The orderings are those of `noonmark_core::Epochs`; here nobody looks.
        self.1.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        let answer = operation(&mut self.0);
        self.1.store(0, Ordering::Release);
        answer
    }
}

impl<P: Plain> Plain for Pinned<P> {
    fn get(&mut self, key: u64) -> Option<u64> {
        self.pinned(|plain| plain.get(key))
    }

    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool {
        self.pinned(|plain| plain.insert_if_absent(key, value))
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        self.pinned(|plain| plain.remove(key))
    }
}
