//! The structures of the maps, for one thread: the same nodes without locks, the same algorithms without transactions.

use std::ptr::NonNull;

/// What is compared.
pub trait Plain {
    fn get(&self, key: u64) -> Option<u64>;
    fn insert(&mut self, key: u64, value: u64) -> Option<u64>;
    fn remove(&mut self, key: u64) -> Option<u64>;
}

type Link<N> = Option<NonNull<N>>;

struct TreeNode {
    key: u64,
    value: u64,
    rank: i64,
    children: [Link<TreeNode>; 2],
}

/// A relaxed AVL tree.
#[derive(Default)]
pub struct PlainRavl {
    /// **Invariant**: leads to nodes that are this tree's, each by one link.
    root: Link<TreeNode>,
}

/// # Safety
/// The link leads to a node of the tree that the caller holds.
unsafe fn rank(link: Link<TreeNode>) -> i64 {
    // SAFETY: promised by the caller.
    link.map_or(-1, |node| unsafe { node.as_ref() }.rank)
}

impl PlainRavl {
    /// The path to a key, or to where it would be: nodes, and on which side each goes on.
    fn find(&self, key: u64, path: &mut Vec<(NonNull<TreeNode>, usize)>) -> Link<TreeNode> {
        let mut at = self.root;
        while let Some(node) = at {
            // SAFETY: a node of this tree.
            let node_ref = unsafe { node.as_ref() };
            if node_ref.key == key {
                break;
            }
            let side = usize::from(key > node_ref.key);
            path.push((node, side));
            at = node_ref.children[side];
        }
        at
    }

    fn set_link(&mut self, at: Option<&(NonNull<TreeNode>, usize)>, to: Link<TreeNode>) {
        match at {
            // SAFETY: a node of this tree, which is borrowed alone.
            Some(&(mut node, side)) => unsafe { node.as_mut() }.children[side] = to,
            None => self.root = to,
        }
    }
}

impl Plain for PlainRavl {
    fn get(&self, key: u64) -> Option<u64> {
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

    fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
        let mut path = Vec::with_capacity(64);
        if let Some(mut node) = self.find(key, &mut path) {
            // SAFETY: a node of this tree.
            return Some(std::mem::replace(&mut unsafe { node.as_mut() }.value, value));
        }
        let leaf = Box::new(TreeNode { key, value, rank: 0, children: [None; 2] });
        let mut node = NonNull::from(Box::leak(leaf));
        self.set_link(path.last(), Some(node));
        let mut node_rank = 0;
        // SAFETY: all are nodes of this tree, and no two of these are the same.
        unsafe {
            while let Some((mut parent, side)) = path.pop() {
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
                self.set_link(path.last(), Some(top));
                break;
            }
        }
        None
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        let mut path = Vec::with_capacity(64);
        let node = self.find(key, &mut path)?;
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
            self.set_link(path.last(), replacement);
            Some(Box::from_raw(node.as_ptr()).value)
        }
    }
}

impl Drop for PlainRavl {
    fn drop(&mut self) {
        let mut left: Vec<_> = self.root.into_iter().collect();
        while let Some(node) = left.pop() {
            // SAFETY: a node of this tree, made of a box, found by its one link.
            let node = unsafe { Box::from_raw(node.as_ptr()) };
            left.extend(node.children.into_iter().flatten());
        }
    }
}

struct ChainNode {
    key: u64,
    value: u64,
    next: Option<Box<ChainNode>>,
}

/// Chains in a fixed number of buckets.
pub struct PlainHash {
    buckets: Vec<Option<Box<ChainNode>>>,
}

impl PlainHash {
    /// The number is a power of two.
    pub fn new(buckets: usize) -> Self {
        PlainHash { buckets: (0..buckets).map(|_| None).collect() }
    }

    /// The same hash as the transactional map's.
    fn bucket(&self, key: u64) -> usize {
        use std::hash::{BuildHasher, BuildHasherDefault};
        let hasher = BuildHasherDefault::<noonmark_stm::Folding>::new();
        hasher.hash_one(key) as usize & (self.buckets.len() - 1)
    }
}

impl Plain for PlainHash {
    fn get(&self, key: u64) -> Option<u64> {
        let mut at = &self.buckets[self.bucket(key)];
        while let Some(node) = at {
            if node.key == key {
                return Some(node.value);
            }
            at = &node.next;
        }
        None
    }

    fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
        let bucket = self.bucket(key);
        let mut at = self.buckets[bucket].as_mut();
        while let Some(node) = at {
            if node.key == key {
                return Some(std::mem::replace(&mut node.value, value));
            }
            at = node.next.as_mut();
        }
        let next = self.buckets[bucket].take();
        self.buckets[bucket] = Some(Box::new(ChainNode { key, value, next }));
        None
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        let bucket = self.bucket(key);
        let mut at = &mut self.buckets[bucket];
        while at.as_ref().is_some_and(|node| node.key != key) {
            at = &mut at.as_mut()?.next;
        }
        let node = at.take()?;
        *at = node.next;
        Some(node.value)
    }
}
