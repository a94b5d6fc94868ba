//! The ordered index: points and ranges, a B+tree with optimistic lock coupling.
//!
//! Leis, Haubenschild, Neumann: *Optimistic Lock Coupling* (IEEE Data Engineering Bulletin 42(1),
//! 2019): a reader goes down from the root without writing anything, and at each step looks again at
//! the version of the node above, after it has read that of the node below; so when it arrives it
//! knows a leaf and a version at which that leaf was the one for its key. A writer does the same and
//! then takes the latch of the leaf at that version. What it finds changed, it begins anew.
//!
//! Invariants, for whoever holds the latches or sees the versions unchanged:
//!
//! - All leaves are equally deep. Each node has two *fences*, its least key and the least key of the
//!   next one of its level, and all keys in or under it lie between; siblings share theirs. There
//!   are no links between siblings: a scan goes down again from the fence that it arrived at.
//! - Whatever changes the keys or fences of a leaf changes its version, so a version seen is a
//!   promise about the whole space between its fences.
//! - A leaf that is split passes its times on to the new one; a leaf that is joined to another
//!   raises the other's. A node that has left the tree is latched for ever ([`super::GONE`]).
//! - Latches are taken from above and from the left, each by one attempt: who fails lets go of
//!   everything and begins anew. So nobody waits who holds one.
//!
//! Departures from the paper and from textbook trees:
//!
//! - A node splits where the new key goes if that is behind all others, so that keys that come in
//!   order fill their leaves.
//! - Nodes are joined late: a leaf when it is empty, or when it has few records left and its
//!   neighbour room for them (see `shrink`); an inner node likewise, when a removal passes it; a root
//!   with one child gives way to it. An inner node that is down to one child takes some from its
//!   neighbour, so that an empty leaf can always be joined. A queue thus needs no more than its
//!   content, and a tree that was emptied is one leaf.
//! - Nothing recurses: a change that needs one above makes that one, and begins anew.
//!
//! What it does not do: count ranges, find by position, or load in bulk.

mod change;
mod fence;
mod node;
mod scan;

use super::direct::DirectTable;
use super::{ABREAST, Inserted, KeyClass, Lookup, NodeStamp, RecordShape, head, tag_of};
use crate::record::RecordPtr;
use fence::{Compared, Fence, Fixed, Free, Probe, Short};
use node::{Header, Node, prefetch_inner, prefetch_leaf};
use noonmark_core::sync::{AtomicPtr, AtomicUsize, Ordering};
use noonmark_core::{Epochs, Limbo};
pub(crate) use scan::WholeLeaf;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::ptr::NonNull;

/// An index from keys to records, in the order of the keys' bytes.
#[derive(Debug)]
pub(crate) struct OrderedIndex {
    tree: ByClass,
    /// For keys that are numbers, and records of one shape: those that lie where their keys say. They are in the tree, too; but
    /// who looks for one of them need not go down.
    direct: Option<DirectTable>,
}

#[derive(Debug)]
enum ByClass {
    Short(Tree<Short>),
    Fixed(Tree<Fixed>),
    Free(Tree<Free>),
}

/// The same call, whatever the class of the keys is.
macro_rules! by_class {
    ($self:ident, $tree:ident => $call:expr) => {
        match &$self.tree {
            ByClass::Short($tree) => $call,
            ByClass::Fixed($tree) => $call,
            ByClass::Free($tree) => $call,
        }
    };
}

impl OrderedIndex {
    /// An empty index for keys of this class, of which there may be about `capacity_hint` (0 if nobody knows), and whose records
    /// are of this shape if they are all of one.
    pub fn new(class: KeyClass, capacity_hint: usize, shape: Option<RecordShape>) -> Self {
        OrderedIndex {
            tree: match class {
                KeyClass::Fixed8 => ByClass::Short(Tree::new()),
                KeyClass::Fixed16 => ByClass::Fixed(Tree::new()),
                KeyClass::Bytes => ByClass::Free(Tree::new()),
            },
            direct: match (class, shape) {
                (KeyClass::Fixed8, Some(shape)) => DirectTable::new(capacity_hint, shape),
                _ => None,
            },
        }
    }

    /// The record under a key, or the leaf that has none.
    #[inline]
    pub fn get(&self, key: &[u8], finger: &mut Finger) -> Lookup {
        match self.get_direct(key) {
            Some(record) => Lookup::Found(record),
            None => by_class!(self, tree => tree.get(key, finger)),
        }
    }

    /// The record under a key, if it lies where the key says.
    #[inline(always)]
    pub fn get_direct(&self, key: &[u8]) -> Option<RecordPtr> {
        self.direct.as_ref()?.get(head(key, 0))
    }

    /// A number for the leaf that a key is in: what `hash` makes of the least key that belongs there. For a host that
    /// wants to know which lines are touched.
    #[cold]
    pub fn leaf_of(&self, key: &[u8], hash: fn(&[u8]) -> u64) -> u64 {
        by_class!(self, tree => tree.leaf_of(key, hash))
    }

    /// The records under the first keys, as many as `found` has room for; `None` where there is none. The
    /// cache misses of up to [`ABREAST`] keys overlap. Calls `soon` with the address of each record as early as it can be
    /// guessed: it may be no record's, or another's.
    pub fn find_many<'k>(
        &self,
        keys: impl Fn(usize) -> &'k [u8],
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) {
        let mut first = 0;
        for found in found.chunks_mut(ABREAST) {
            let keys = |at| keys(first + at);
            if !self.find_many_direct((0..found.len()).map(|at| tag_of(keys(at))), found, &soon) {
                self.find_many_beyond(keys, found, &soon);
            }
            first += found.len();
        }
    }

    /// The same of at most [`ABREAST`], in the tree.
    pub fn find_many_beyond<'k>(
        &self,
        keys: impl Fn(usize) -> &'k [u8],
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) {
        by_class!(self, tree => tree.find_group(keys, found));
        found.iter().flatten().for_each(|record| soon(*record));
    }

    /// The same of at most [`ABREAST`] keys, by their tags, where it is known at once: whether all were found.
    #[inline(always)]
    pub fn find_many_direct(
        &self,
        tags: impl Iterator<Item = u64> + Clone,
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) -> bool {
        self.direct.as_ref().is_some_and(|direct| direct.find_many(tags, found, soon))
    }

    /// The record under the key, or the one that `make` makes, which is called at most once, with
    /// the leaf latched, and not if there is one already: in the memory that it is given, if it is given some, or else in its own. In that
    /// case `prepare` is called before that, without a latch, perhaps more than once or in vain.
    pub fn get_or_insert(
        &self,
        key: &[u8],
        finger: &mut Finger,
        mut prepare: impl FnMut(),
        make: impl FnOnce(&NodeStamp, Option<NonNull<u64>>) -> RecordPtr,
    ) -> Inserted {
        let tag = head(key, 0);
        let Some(direct) = self.direct.as_ref().filter(|direct| direct.reaches(tag)) else {
            return by_class!(self, tree => tree.get_or_insert(key, finger, prepare, |stamp| make(stamp, None)));
        };
        if let Some(record) = direct.get(tag) {
            return Inserted::Existing(record);
        }
        let taken = Cell::new(None);
        let prepare = || {
            taken.set(taken.get().or_else(|| direct.take(tag)));
            if taken.get().is_none() {
                prepare();
            }
        };
        let make = |stamp: &NodeStamp| {
            // Should `make` panic, at most a place is lost.
            let taken = taken.take();
            let record = make(stamp, taken);
            direct.came(tag);
            if taken.is_some() {
                direct.link(tag);
            }
            record
        };
        let inserted = by_class!(self, tree => tree.get_or_insert(key, finger, prepare, make));
        if let Some(memory) = taken.take() {
            // SAFETY: nobody but us knows of the place.
            unsafe { direct.give_back(RecordPtr::new(memory)) };
        }
        inserted
    }

    /// Unlinks exactly this record, if it is there: the leaf's times are raised to at least `wts`
    /// and `rts` under the latch. Does not free it. Whether it was there.
    pub fn remove(
        &self,
        key: &[u8],
        record: RecordPtr,
        wts: u64,
        rts: u64,
        limbo: &mut Limbo,
        epochs: &Epochs,
    ) -> bool {
        let unlinked = || {
            let tag = head(key, 0);
            if let Some(direct) = self.direct.as_ref().filter(|direct| direct.reaches(tag)) {
                direct.unlink(tag, record);
                direct.went(tag);
            }
        };
        by_class!(self, tree => tree.remove(key, record, (wts, rts), unlinked, limbo, epochs))
    }

    /// Whether the record's memory is the index's own, which takes it back then. Any other is its maker's.
    ///
    /// # Safety
    /// Nobody refers to the record any more, and the index has forgotten it.
    pub unsafe fn take_back(&self, record: RecordPtr) -> bool {
        // SAFETY: passed on.
        self.direct.as_ref().is_some_and(|direct| unsafe { direct.give_back(record) })
    }

    /// Leaf by leaf, in order or in reverse, all records with keys within the bounds, with the stamp
    /// of each leaf that covers a part of them, until `visit` breaks. What it is given is what the
    /// leaf held at `seen.version`. Bounds of a table of fixed keys must be keys of it.
    pub fn scan(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        reverse: bool,
        visit: impl FnMut(super::NodeSeen, &[RecordPtr]) -> ControlFlow<()>,
    ) {
        by_class!(self, tree => if reverse {
            tree.scan_down(lower, upper, visit)
        } else {
            tree.scan_up(lower, upper, visit)
        });
    }

    /// Leaf by leaf, in order, all that cover a part of the range, whole, until `visit` breaks. Bounds as for
    /// [`OrderedIndex::scan`].
    #[cold]
    pub fn leaves(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        visit: impl FnMut(WholeLeaf) -> ControlFlow<()>,
    ) {
        by_class!(self, tree => tree.leaves(lower, upper, visit));
    }

    /// Visits every record, in order.
    pub fn for_each(&mut self, visit: impl FnMut(RecordPtr)) {
        by_class!(self, tree => tree.for_each(visit));
    }

    /// Visits every record whose memory is not the index's own.
    pub fn for_each_elsewhere(&mut self, mut visit: impl FnMut(RecordPtr)) {
        let is_own = |record| self.direct.as_ref().is_some_and(|direct| direct.has(record));
        by_class!(self, tree => tree.for_each(|record| {
            if !is_own(record) {
                visit(record);
            }
        }));
    }

    /// How many bytes the index takes, without what waits to be freed.
    pub fn memory_bytes(&self) -> usize {
        // Relaxed: a statistic.
        let direct = self.direct.as_ref().map_or(0, DirectTable::bytes);
        direct + by_class!(self, tree => tree.bytes.load(Ordering::Relaxed))
    }
}

/// The leaf that somebody has looked for a key in, or put one into: the next key is often of that leaf too, and then need not
/// go down from the root. Of short keys only, whose fences are compared as words.
///
/// **Invariant**: the leaf was in the tree at some time since who has the finger was pinned.
#[derive(Debug, Default)]
pub(crate) struct Finger {
    /// The address of the tree; none if there is no leaf.
    tree: usize,
    leaf: Option<NonNull<Header>>,
}

// SAFETY: an address; what is done with it is said where it is used.
unsafe impl Send for Finger {}

impl Finger {
    /// Lets go of the leaf: who has the finger will not be pinned any more.
    #[inline(always)]
    pub(crate) fn lift(&mut self) {
        self.tree = 0;
    }
}

/// The tree, for one way to compare keys.
#[derive(Debug)]
struct Tree<C: Compared> {
    /// Replaced only under the latch of the old root, before its version changes.
    root: AtomicPtr<Header>,
    /// Bytes in nodes and fences.
    bytes: AtomicUsize,
    class: PhantomData<C>,
}

impl<C: Compared> Tree<C> {
    fn new() -> Self {
        let root = Node::new_leaf();
        Tree {
            root: AtomicPtr::new(root.address()),
            bytes: AtomicUsize::new(root.memory_bytes()),
            class: PhantomData,
        }
    }

    /// The root and a version at which it was the root; `None` to begin anew.
    #[inline(always)]
    fn begin(&self) -> Option<(Node<'_>, u64)> {
        // Acquire: the node's first contents, stored before its address was, are seen.
        let address = self.root.load(Ordering::Acquire);
        // SAFETY: callers are pinned; roots are retired after they have been replaced.
        let node = unsafe { Node::at(address) }?;
        let version = node.stamp().begin()?;
        // Relaxed: the version was acquired, and a new root is stored before the version of the old
        // one changes.
        (self.root.load(Ordering::Relaxed) == address).then_some((node, version))
    }

    /// Goes down by the place that `choose` picks in each inner node; `None` to begin anew. What
    /// comes back is a leaf, with a version at which it was the right one.
    #[inline(always)]
    fn descend<'a>(&'a self, choose: impl FnMut(Node<'a>, u64) -> Option<usize>) -> Option<(Node<'a>, u64)> {
        let (node, version, child) = self.above_leaf(choose)?;
        enter(node, version, child)
    }

    /// As [`Tree::descend`], as far as the node above the leaf. Returns it with a version at which it
    /// was the right one, and the address of the leaf, yet to be validated; none if the root, which
    /// then is what is returned, is the leaf.
    #[inline(always)]
    fn above_leaf<'a>(
        &'a self,
        mut choose: impl FnMut(Node<'a>, u64) -> Option<usize>,
    ) -> Option<(Node<'a>, u64, Option<*mut Header>)> {
        let (mut node, mut version) = self.begin()?;
        let mut level = node.header().level;
        if level == 0 {
            return Some((node, version, None));
        }
        loop {
            let child = node.inner().child(choose(node, version)?);
            level -= 1;
            if level == 0 {
                prefetch_leaf(child);
                return Some((node, version, Some(child)));
            }
            if level == 1 {
                prefetch_inner(child);
            }
            (node, version) = step(node, version, child)?;
        }
    }

    /// The leaf for a key.
    #[inline(always)]
    fn leaf_for(&self, probe: Probe<'_>) -> Option<(Node<'_>, u64)> {
        self.descend(|node, version| node.inner().rank::<C>(probe, version, true))
    }

    /// The same, if it is the one under the finger; otherwise it is now. And whether it was.
    #[inline(always)]
    fn leaf_near(&self, probe: Probe<'_>, finger: &mut Finger) -> Option<(Node<'_>, u64, bool)> {
        if !C::SHORT {
            return self.leaf_for(probe).map(|(leaf, version)| (leaf, version, false));
        }
        let tree = std::ptr::from_ref(self).addr();
        if finger.tree == tree
            && let Some(leaf) = finger.leaf
        {
            // SAFETY: it was in this tree since the caller was pinned.
            let leaf = unsafe { Node::at(leaf.as_ptr()) }?;
            // One that has left the tree has no such version; and the fences are read at it, or it will not hold.
            if let Some(version) = leaf.stamp().begin_now()
                && leaf.header().is_between_fences(probe.head)
            {
                return Some((leaf, version, true));
            }
        }
        let (leaf, version) = self.leaf_for(probe)?;
        *finger = Finger { tree, leaf: NonNull::new(leaf.address()) };
        Some((leaf, version, false))
    }

    /// Not a part of its callers: they are many, and a call is little beside a descent.
    #[inline(never)]
    fn get(&self, key: &[u8], finger: &mut Finger) -> Lookup {
        let probe = Probe::key::<C>(key);
        loop {
            if let Some((leaf, version, was_near)) = self.leaf_near(probe, finger)
                && let Some(lookup) = Self::look_up(leaf, version, probe, was_near)
            {
                return lookup;
            }
        }
    }

    fn leaf_of(&self, key: &[u8], hash: fn(&[u8]) -> u64) -> u64 {
        let probe = Probe::key::<C>(key);
        loop {
            let Some((leaf, version)) = self.leaf_for(probe) else { continue };
            let lower = leaf.header().lower();
            if !leaf.stamp().is_still(version) {
                continue;
            }
            return match lower {
                Fence::NONE => 0,
                Fence(head) if C::SHORT => hash(&head.to_be_bytes()),
                // SAFETY: the caller is pinned, and the fence was the node's at `version`.
                fence => hash(unsafe { fence.bytes() }),
            };
        }
    }

    /// What the leaf says about a key; `None` if it has changed. `goes_on`: the next key may well be the next in order, so its record is
    /// asked for.
    #[inline(always)]
    fn look_up(leaf: Node<'_>, version: u64, probe: Probe<'_>, goes_on: bool) -> Option<Lookup> {
        match leaf.leaf().search::<C>(probe, version)? {
            (at, Some(record)) => {
                if goes_on {
                    leaf.leaf().prefetch_record(at + 1);
                }
                leaf.stamp().is_still(version).then_some(Lookup::Found(record))
            }
            (_, None) => leaf.stamp().seen(version).map(Lookup::Absent),
        }
    }

    /// Up to [`ABREAST`] keys, all on the way to their leaves before any leaf is looked at.
    fn find_group<'k>(&self, keys: impl Fn(usize) -> &'k [u8], found: &mut [Option<RecordPtr>]) {
        let count = found.len();
        let mut above = [None; ABREAST];
        // The node above the last leaf, if there is one: of neighbours, only the first goes down from the root.
        let mut near: Option<(Node<'_>, u64)> = None;
        for (at, above) in above[..count].iter_mut().enumerate() {
            let probe = Probe::key::<C>(keys(at));
            let choose = |node: Node<'_>, version| node.inner().rank::<C>(probe, version, true);
            *above = match near {
                // The fences, like the child, are believed once the version has been found unchanged.
                Some((node, version)) if C::SHORT && node.header().is_between_fences(probe.head) => {
                    choose(node, version).map(|rank| {
                        let child = node.inner().child(rank);
                        prefetch_leaf(child);
                        (node, version, Some(child))
                    })
                }
                _ => self.above_leaf(choose),
            };
            near = above.and_then(|(node, version, child)| child.map(|_| (node, version)));
        }
        // The leaf of each key; `None` for those that somebody got in the way of.
        let mut leaves = [None; ABREAST];
        for (at, leaf) in leaves[..count].iter_mut().enumerate() {
            *leaf = above[at].and_then(|(node, version, child)| enter(node, version, child));
            if !C::SHORT
                && let Some((leaf, _)) = leaf
            {
                // The records must be read to tell keys apart: ask for them all before any is.
                let guess = leaf.leaf().guess::<C>(Probe::key::<C>(keys(at))).cast::<u8>();
                super::prefetch(guess);
                super::prefetch(guess.wrapping_add(64));
            }
        }
        for (at, (leaf, found)) in leaves[..count].iter().zip(found).enumerate() {
            let probe = Probe::key::<C>(keys(at));
            let lookup = leaf.and_then(|(leaf, version)| Self::look_up(leaf, version, probe, false));
            *found = lookup.unwrap_or_else(|| self.get(keys(at), &mut Finger::default())).record();
        }
    }

    /// Visits every record. Only for who owns the index.
    fn for_each(&self, mut visit: impl FnMut(RecordPtr)) {
        self.for_each_node(|node| {
            if node.header().level == 0 {
                let mut records = Vec::new();
                node.leaf().append_to(&mut records);
                records.into_iter().for_each(&mut visit);
            }
        });
    }

    /// Visits every node, children before the next sibling and after their parent, which may then
    /// be freed. Only for who owns the index.
    fn for_each_node<'a>(&'a self, mut visit: impl FnMut(Node<'a>)) {
        // Relaxed: we are the owner.
        let mut waiting = vec![self.root.load(Ordering::Relaxed)];
        while let Some(address) = waiting.pop() {
            // SAFETY: we own the index, and each node is visited once.
            let Some(node) = (unsafe { Node::at(address) }) else { continue };
            if node.header().level > 0 {
                let from = waiting.len();
                node.inner().append_to(&mut Vec::new(), &mut waiting);
                waiting[from..].reverse();
            }
            visit(node);
        }
    }
}

/// From the node above a leaf, as [`Tree::above_leaf`] says, to the leaf.
#[inline(always)]
fn enter<'a>(node: Node<'a>, version: u64, child: Option<*mut Header>) -> Option<(Node<'a>, u64)> {
    match child {
        None => Some((node, version)),
        Some(child) => step(node, version, child),
    }
}

/// From a node at this version to its child at an address that was read from it; `None` if the node
/// has changed.
#[inline(always)]
fn step<'a>(node: Node<'a>, version: u64, child: *mut Header) -> Option<(Node<'a>, u64)> {
    if !node.stamp().is_still(version) {
        return None;
    }
    // SAFETY: callers are pinned, and the child was linked at `version`.
    let child = unsafe { Node::at(child) }?;
    let child_version = child.stamp().begin()?;
    // Or else the child may have been split or joined before we read its version.
    node.stamp().is_still(version).then_some((child, child_version))
}

impl<C: Compared> Drop for Tree<C> {
    fn drop(&mut self) {
        self.for_each_node(|node| {
            let header = node.header();
            let mut fences = vec![header.lower(), header.upper()];
            if header.level > 0 {
                node.inner().append_to(&mut fences, &mut Vec::new());
            }
            for fence in fences {
                // SAFETY: each place holds a count, and goes now.
                unsafe { fence.release::<C>(1) };
            }
            // SAFETY: visited once, its children's addresses copied; nobody is left.
            unsafe { node.free() };
        });
    }
}

#[cfg(test)]
mod tests;
