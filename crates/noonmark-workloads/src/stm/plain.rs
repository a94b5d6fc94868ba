//! Structures without any synchronization: what transactions are measured by.
//!
//! [`PlainRavl`] is the relaxed AVL tree of `noonmark-stm`, and `plain_hash.rs` its hash map with fixed buckets: the same nodes without locks, the same
//! algorithms without transactions, as well as they can be made for one thread. Nodes come from the allocator one by one, as there; the
//! path to a node is remembered in a buffer that is kept.
//!
//! They compete through the traits of many threads: a session is the guard of a mutex, taken once for a whole run, so that no
//! operation pays for it. A second thread would wait for the first one to end.
//!
//! This module has `unsafe` in it: nodes are linked by bare pointers. **Invariant** of all of it: a link leads to a node that was made of a
//! box, belongs to the tree that it is found in, and is led to by no other link.
//!
//! What it does not do: it is no use for anything but as a measure.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::churn::{Audit, Map, MapSession};
use super::reads::{START, Variables, VariablesSession, Which};
use super::records::{Records, RecordsSession, WORDS};

/// Something for one thread, in the clothes of something for many.
pub(super) struct Alone<P>(Mutex<P>);

impl<P> Alone<P> {
    pub fn new(plain: P) -> Self {
        Alone(Mutex::new(plain))
    }
}

/// What a map for one thread can do.
pub(super) trait PlainMap: Send {
    fn get(&self, key: u64) -> Option<u64>;
    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool;
    fn remove(&mut self, key: u64) -> bool;
    fn audit(&self) -> Audit;
}

impl<P: PlainMap> Map for Alone<P> {
    type Session<'a>
        = MutexGuard<'a, P>
    where
        P: 'a;

    fn session(&self) -> MutexGuard<'_, P> {
        self.0.lock()
    }

    fn audit(&self) -> Audit {
        self.0.lock().audit()
    }
}

impl<P: PlainMap> MapSession for MutexGuard<'_, P> {
    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        (**self).get(key)
    }

    #[inline]
    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool {
        (**self).insert_if_absent(key, value)
    }

    #[inline]
    fn remove(&mut self, key: u64) -> bool {
        (**self).remove(key)
    }
}

type Link = Option<NonNull<Node>>;

struct Node {
    key: u64,
    value: u64,
    rank: i64,
    children: [Link; 2],
}

/// A relaxed AVL tree: insertions keep it balanced by ranks, removals leave it as it is.
#[derive(Default)]
pub(super) struct PlainRavl {
    root: Link,
    /// The path of the operation under way, from the root: nodes, and on which side each goes on. Empty between operations.
    path: Vec<(NonNull<Node>, usize)>,
}

// SAFETY: all that its links lead to is its own.
unsafe impl Send for PlainRavl {}

/// The rank of what a link leads to.
///
/// # Safety
/// The caller holds the tree.
unsafe fn rank(link: Link) -> i64 {
    // SAFETY: a node of the tree.
    link.map_or(-1, |node| unsafe { node.as_ref() }.rank)
}

impl PlainRavl {
    /// Makes the path that to a key, or to where it would be; answers what is there.
    fn find(&mut self, key: u64) -> Link {
        self.path.clear();
        let mut at = self.root;
        while let Some(node) = at {
            // SAFETY: a node of this tree.
            let found = unsafe { node.as_ref() };
            if found.key == key {
                break;
            }
            let side = usize::from(key > found.key);
            self.path.push((node, side));
            at = found.children[side];
        }
        at
    }

    /// Leads the last step of the path to something else.
    fn lead_to(&mut self, to: Link) {
        match self.path.last_mut() {
            // SAFETY: a node of this tree, which is borrowed alone.
            Some((node, side)) => unsafe { node.as_mut() }.children[*side] = to,
            None => self.root = to,
        }
    }

    /// Raises ranks from a new leaf upwards, and ends with a rotation if it takes one.
    fn balance(&mut self, leaf: NonNull<Node>) {
        let mut node = leaf;
        let mut node_rank = 0;
        // SAFETY: all are nodes of this tree, which is borrowed alone; those that are changed at a time are a node, its parent and one of its
        // children, and so not the same.
        unsafe {
            while let Some((mut parent, side)) = self.path.pop() {
                let other = 1 - side;
                if parent.as_ref().rank != node_rank {
                    return;
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
                self.lead_to(Some(top));
                return;
            }
        }
    }

    /// All nodes, in no order.
    fn nodes(&self) -> impl Iterator<Item = NonNull<Node>> {
        let mut left: Vec<_> = self.root.into_iter().collect();
        std::iter::from_fn(move || {
            let node = left.pop()?;
            // SAFETY: a node of this tree, whose links are read before the caller gets it.
            left.extend(unsafe { node.as_ref() }.children.into_iter().flatten());
            Some(node)
        })
    }

    /// What is wrong with it.
    fn fault(&self) -> Option<String> {
        // SAFETY: nodes of this tree.
        let faulty = |node: NonNull<Node>| unsafe {
            let node = node.as_ref();
            let sides = [(0, std::cmp::Ordering::Less), (1, std::cmp::Ordering::Greater)];
            sides.into_iter().any(|(side, order)| {
                node.children[side].is_some_and(|child| child.as_ref().key.cmp(&node.key) != order)
                    || rank(node.children[side]) >= node.rank
            })
        };
        // SAFETY: as above.
        self.nodes().find(|node| faulty(*node)).map(|node| format!("at key {}", unsafe { node.as_ref() }.key))
    }
}

impl PlainMap for PlainRavl {
    #[inline]
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

    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool {
        if self.find(key).is_some() {
            return false;
        }
        let leaf = NonNull::from(Box::leak(Box::new(Node { key, value, rank: 0, children: [None; 2] })));
        self.lead_to(Some(leaf));
        self.balance(leaf);
        true
    }

    fn remove(&mut self, key: u64) -> bool {
        let Some(node) = self.find(key) else { return false };
        // SAFETY: all are nodes of this tree, which is borrowed alone.
        let instead = unsafe {
            match node.as_ref().children {
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
            }
        };
        self.lead_to(instead);
        // SAFETY: it was made of a box, and no link leads to it any more.
        drop(unsafe { Box::from_raw(node.as_ptr()) });
        true
    }

    fn audit(&self) -> Audit {
        // SAFETY: nodes of this tree.
        let keys = self.nodes().map(|node| unsafe { node.as_ref() }.key);
        Audit { fault: self.fault(), ..Audit::of(keys) }
    }
}

impl Drop for PlainRavl {
    fn drop(&mut self) {
        // SAFETY: nodes of this tree, made of boxes; each comes once, and after its links were read.
        self.nodes().for_each(|node| drop(unsafe { Box::from_raw(node.as_ptr()) }));
    }
}

/// Records of twelve words, found by a tree.
pub(super) struct PlainRecords {
    index: PlainRavl,
    words: Vec<[u64; WORDS]>,
}

impl PlainRecords {
    pub fn new(keys: &[u32], done: &AtomicU64) -> Alone<Self> {
        let mut index = PlainRavl::default();
        for (number, key) in keys.iter().enumerate() {
            index.insert_if_absent(u64::from(*key), number as u64);
            done.store(number as u64 + 1, Ordering::Relaxed);
        }
        Alone::new(PlainRecords { index, words: vec![[0; WORDS]; keys.len()] })
    }
}

impl Records for Alone<PlainRecords> {
    type Session<'a> = MutexGuard<'a, PlainRecords>;

    fn session(&self) -> MutexGuard<'_, PlainRecords> {
        self.0.lock()
    }

    fn audit(&self) -> u64 {
        self.0.lock().words.iter().flatten().sum()
    }
}

impl RecordsSession for MutexGuard<'_, PlainRecords> {
    #[inline]
    fn add(&mut self, key: u64, word: usize) {
        if let Some(record) = self.index.get(key) {
            self.words[record as usize][word] += 1;
        }
    }
}

/// Words, found by their numbers.
pub(super) struct PlainWords(Vec<u64>);

impl PlainWords {
    pub fn new(count: usize, start: u64) -> Alone<Self> {
        Alone::new(PlainWords(vec![start; count]))
    }

    /// As variables are.
    pub fn variables(count: usize) -> Alone<Self> {
        Self::new(count, START)
    }
}

impl Records for Alone<PlainWords> {
    type Session<'a> = MutexGuard<'a, PlainWords>;
    const RECORD_BYTES: u64 = 8;

    fn session(&self) -> MutexGuard<'_, PlainWords> {
        self.0.lock()
    }

    fn audit(&self) -> u64 {
        self.0.lock().0.iter().sum()
    }
}

impl RecordsSession for MutexGuard<'_, PlainWords> {
    #[inline]
    fn add(&mut self, key: u64, _: usize) {
        self.0[key as usize] += 1;
    }
}

impl Variables for Alone<PlainWords> {
    type Session<'a> = MutexGuard<'a, PlainWords>;

    fn session(&self) -> MutexGuard<'_, PlainWords> {
        self.0.lock()
    }

    fn audit(&self) -> u64 {
        self.0.lock().0.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

impl VariablesSession for MutexGuard<'_, PlainWords> {
    #[inline]
    fn sum(&mut self, of: &Which) -> u64 {
        of.iter().fold(0, |sum, number| sum.wrapping_add(self.0[*number as usize]))
    }

    #[inline]
    fn sum_and_move(&mut self, of: &Which) -> u64 {
        let sum = self.sum(of);
        let [from, to, ..] = of.map(|number| number as usize);
        self.0[from] = self.0[from].wrapping_sub(1);
        self.0[to] = self.0[to].wrapping_add(1);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::super::plain_hash::PlainHash;
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    fn is_as_a_model(mut map: impl PlainMap, keys: u64) {
        let mut model = BTreeMap::new();
        let mut random = Random::new(keys, 0);
        for value in 0..20_000 {
            let key = random.below(keys);
            match random.below(3) {
                0 => {
                    let is_new = !model.contains_key(&key);
                    model.entry(key).or_insert(value);
                    assert_eq!(map.insert_if_absent(key, value), is_new);
                }
                1 => assert_eq!(map.remove(key), model.remove(&key).is_some()),
                _ => assert_eq!(map.get(key), model.get(&key).copied()),
            }
            if value % 1000 == 0 {
                assert_eq!(map.audit(), Audit::of(model.keys().copied()));
            }
        }
    }

    #[test]
    fn plain_maps_are_maps() {
        for keys in [3, 50, 5000] {
            is_as_a_model(PlainRavl::default(), keys);
            is_as_a_model(PlainHash::with_buckets(64), keys);
        }
    }

    #[test]
    fn a_tree_filled_in_order_is_not_deep() {
        let mut tree = PlainRavl::default();
        (0..100_000).for_each(|key| assert!(tree.insert_if_absent(key, key)));
        assert!(!tree.insert_if_absent(7, 8) && tree.get(7) == Some(7));
        // SAFETY: the root is a node of this tree.
        let depth_at_most = unsafe { rank(tree.root) };
        assert!((16..=25).contains(&depth_at_most), "{depth_at_most}");
    }

    #[test]
    fn a_broken_tree_is_found_broken() {
        let mut tree = PlainRavl::default();
        (0..10).for_each(|key| assert!(tree.insert_if_absent(key, key)));
        assert_eq!(tree.audit().fault, None);
        // SAFETY: the root is a node of this tree, which has another one on its right.
        unsafe { tree.root.unwrap().as_mut().children[1].unwrap().as_mut().key = 0 };
        assert!(tree.audit().fault.is_some());
    }
}
