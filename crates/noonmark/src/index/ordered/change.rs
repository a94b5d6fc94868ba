//! What changes the tree: insertions and removals, splits and joins.
//!
//! Insertions first try the leaf alone. One that is full is split by a second descent, which also
//! splits each full inner node that it meets, so that a parent always has room for one more child;
//! removals that leave few records behind shrink the tree by a second descent likewise.
//!
//! Keys that begin alike are a *group*: the orders of a district, say. Groups grow at their ends and are scanned from
//! their beginnings, so the beginning of one should not lie in the leaf in which the one before it grows.
//! Therefore a leaf is split where a group begins, if it can be, and where a group grows at the end of a leaf that reaches
//! into the next one (short keys only), what is behind it becomes a leaf, without a record.

use super::super::{Inserted, Latch, NodeChange, NodeSeen, NodeStamp};
use super::fence::{Compared, EARLIER_BITS, Fence, Probe, shared_bits};
use super::node::{Header, INNER_KEYS, LEAF_KEYS, Node};
use super::{Finger, RecordPtr, Tree};
use noonmark_core::sync::Ordering;
use noonmark_core::{Epochs, Limbo};
use std::ptr::NonNull;

/// Nodes with this many keys or fewer look for a neighbour to be joined to...
const fn few(level: u32) -> usize {
    (if level == 0 { LEAF_KEYS } else { INNER_KEYS }) / 4
}

/// ...and are, if that leaves this many at most: some room, lest the next insertion split them.
const fn roomy(level: u32) -> usize {
    (if level == 0 { LEAF_KEYS } else { INNER_KEYS }) * 3 / 4
}

/// A child's place: its parent, the parent's version, and which child it is.
type Place<'a> = (Node<'a>, u64, usize);

/// A leaf that is to be split, and its place, both latched.
struct LatchedLeaf<'a> {
    place: Option<Place<'a>>,
    leaf: Node<'a>,
    /// Where the new key goes.
    at: usize,
    above: Option<Latch<'a>>,
    own: Latch<'a>,
}

impl<C: Compared> Tree<C> {
    #[inline(always)]
    pub(super) fn get_or_insert(
        &self,
        key: &[u8],
        finger: &mut Finger,
        mut prepare: impl FnMut(),
        make: impl FnOnce(&NodeStamp) -> RecordPtr,
    ) -> Inserted {
        let probe = Probe::key::<C>(key);
        loop {
            let Some((node, version, _)) = self.leaf_near(probe, finger) else { continue };
            let leaf = node.leaf();
            let at = match leaf.search::<C>(probe, version) {
                None => continue,
                Some((at, None)) => at,
                Some((_, Some(record))) if leaf.header.stamp.is_still(version) => {
                    return Inserted::Existing(record);
                }
                Some(_) => continue,
            };
            prepare();
            if leaf.header.count() >= LEAF_KEYS || leaf.ends_group::<C>(at, probe).is_some() {
                // Believed if the latches can be taken.
                let Some(leaf) = self.latch_to_split(probe) else { continue };
                return self.insert_splitting(leaf, key, make);
            }
            // At the version at which the place was found: it still is the place.
            let Some(latch) = leaf.header.stamp.try_latch(version) else { continue };
            // Should `make` panic, the latch is dropped and nothing has changed.
            let record = make(&leaf.header.stamp);
            leaf.insert::<C>(at, key, record);
            let stamp = NonNull::from(&leaf.header.stamp);
            let change = NodeChange { stamp, before: latch.before, after: latch.changed(), split_off: None };
            return Inserted::New(record, change);
        }
    }

    /// Goes down to a leaf that lacks the key and is to be split for it; makes room in all nodes on the way.
    /// Returns the leaf and its place, latched both; `None` to begin anew.
    fn latch_to_split(&self, probe: Probe<'_>) -> Option<LatchedLeaf<'_>> {
        let (mut node, mut version) = self.begin()?;
        let mut place = None;
        for _ in 0..node.header().level {
            let inner = node.inner();
            let at = inner.rank::<C>(probe, version, true)?;
            if inner.header.count() >= INNER_KEYS {
                self.split_inner(place, node, version, at)?;
                return None;
            }
            let address = inner.child(at);
            if !node.stamp().is_still(version) {
                return None;
            }
            // SAFETY: callers are pinned, and the child was linked at `version`.
            let child = unsafe { Node::at(address) }?;
            let child_version = child.stamp().begin()?;
            if !node.stamp().is_still(version) {
                return None;
            }
            place = Some((node, version, at));
            (node, version) = (child, child_version);
        }
        let (at, found) = node.leaf().search::<C>(probe, version)?;
        let is_full = node.header().count() >= LEAF_KEYS;
        if found.is_some() || !is_full && node.leaf().ends_group::<C>(at, probe).is_none() {
            return None;
        }
        let above = latch_place(place)?;
        let own = node.stamp().try_latch(version)?;
        Some(LatchedLeaf { place, leaf: node, at, above, own })
    }

    /// Inserts into a leaf that is split: both it and its parent are latched.
    fn insert_splitting(
        &self,
        LatchedLeaf { place, leaf: node, at, above, own }: LatchedLeaf<'_>,
        key: &[u8],
        make: impl FnOnce(&NodeStamp) -> RecordPtr,
    ) -> Inserted {
        // Should `make` panic, the latches are dropped and nothing has changed.
        let record = make(node.stamp());
        let new = Node::new_leaf();
        let fence = if C::SHORT && at == node.header().count() {
            Self::cut_behind(node, new, key, record)
        } else {
            Self::divide(node, new, at, key, record)
        };
        // Sequentially consistent, after the latch: as for `make`.
        let rts = node.stamp().rts.load(Ordering::SeqCst);
        let wts = node.stamp().wts.load(Ordering::Relaxed);
        new.stamp().rts.store(rts, Ordering::Relaxed);
        new.stamp().wts.store(wts, Ordering::Relaxed);
        // Relaxed: a statistic.
        self.bytes.fetch_add(new.memory_bytes() + fence.memory_bytes::<C>(), Ordering::Relaxed);
        self.adopt(place, node, fence.retain::<C>(), new);
        let split_off = NodeSeen { stamp: NonNull::from(new.stamp()), version: 0, wts, rts };
        if let Some(above) = above {
            above.changed();
        }
        let before = own.before;
        let change = NodeChange {
            stamp: NonNull::from(node.stamp()),
            before,
            after: own.changed(),
            split_off: Some(split_off),
        };
        Inserted::New(record, change)
    }

    /// Divides a full leaf and one record more, which goes to the place `at`, between it and a new one. The fence between
    /// them, counted once.
    fn divide(node: Node<'_>, new: Node<'_>, at: usize, key: &[u8], record: RecordPtr) -> Fence {
        let mut records = Vec::with_capacity(LEAF_KEYS + 1);
        node.leaf().append_to(&mut records);
        records.insert(at, record);
        // SAFETY: linked in a latched leaf, or just made.
        let key_of = |record: RecordPtr| unsafe { record.key() };
        let middle = if at == LEAF_KEYS { LEAF_KEYS } else { split_at(&records, key_of) };
        let right = if middle == at { key } else { key_of(records[middle]) };
        let fence = Fence::between::<C>(key_of(records[middle - 1]), right);
        let (lower, upper) = (node.header().lower(), node.header().upper());
        // The new leaf takes over our count of `upper`; `fence` is counted once so far.
        new.leaf().fill::<C>(fence, upper, &records[middle..]);
        node.leaf().fill::<C>(lower, fence.retain::<C>(), &records[..middle]);
        fence
    }

    /// The same of short keys where the record goes behind all others: those stay as they are. So does the record, and the
    /// new leaf is empty, if it [ends a group](Leaf::ends_group) and there is room.
    fn cut_behind(node: Node<'_>, new: Node<'_>, key: &[u8], record: RecordPtr) -> Fence {
        let (leaf, at) = (node.leaf(), node.header().count());
        let (lower, upper) = (node.header().lower(), node.header().upper());
        let fence = match leaf.ends_group::<C>(at, Probe::key::<C>(key)) {
            Some(fence) if at < LEAF_KEYS => {
                leaf.insert::<C>(at, key, record);
                new.leaf().fill::<C>(fence, upper, &[]);
                fence
            }
            _ => {
                let fence = leaf.fence_behind::<C>(at, key);
                new.leaf().fill::<C>(fence, upper, &[record]);
                fence
            }
        };
        node.header().set_fences(lower, fence);
        fence
    }

    /// Links `new`, which was split off from `node` at `fence` (counted for this), to the right of
    /// it: in its parent, or in a new root if `node` is the root. All are latched, and the parent has
    /// room.
    fn adopt(&self, place: Option<Place<'_>>, node: Node<'_>, fence: Fence, new: Node<'_>) {
        if let Some((parent, _, at)) = place {
            parent.inner().insert::<C>(at, fence, new.address());
        } else {
            let root = Node::new_inner::<C>(node.header().level + 1);
            root.inner().fill::<C>(Fence::NONE, Fence::NONE, &[fence], &[node.address(), new.address()]);
            // Relaxed: a statistic.
            self.bytes.fetch_add(root.memory_bytes(), Ordering::Relaxed);
            // Release: whoever finds the root finds what is in it.
            self.root.store(root.address(), Ordering::Release);
        }
    }

    /// Splits a full inner node; `None` if somebody got in the way. `at` is the child that is on the
    /// way.
    fn split_inner(&self, place: Option<Place<'_>>, node: Node<'_>, version: u64, at: usize) -> Option<()> {
        let above = latch_place(place)?;
        let own = node.stamp().try_latch(version)?;
        let (fences, children) = contents(node);
        // Behind all others: the left one stays nearly full.
        let middle = if at == INNER_KEYS { INNER_KEYS - 2 } else { INNER_KEYS / 2 };
        let fence = fences[middle];
        let new = Node::new_inner::<C>(node.header().level);
        let (lower, upper) = (node.header().lower(), node.header().upper());
        // The fence's count as a separator moves up with it; `upper`'s moves to the new node.
        new.inner().fill::<C>(fence.retain::<C>(), upper, &fences[middle + 1..], &children[middle + 1..]);
        node.inner().fill::<C>(lower, fence.retain::<C>(), &fences[..middle], &children[..=middle]);
        // Relaxed: a statistic.
        self.bytes.fetch_add(new.memory_bytes(), Ordering::Relaxed);
        self.adopt(place, node, fence, new);
        if let Some(above) = above {
            above.changed();
        }
        own.changed();
        Some(())
    }

    pub(super) fn remove(
        &self,
        key: &[u8],
        record: RecordPtr,
        (wts, rts): (u64, u64),
        unlinked: impl FnOnce(),
        limbo: &mut Limbo,
        epochs: &Epochs,
    ) -> bool {
        let probe = Probe::key::<C>(key);
        let left = loop {
            let Some((node, version)) = self.leaf_for(probe) else { continue };
            let Some((at, found)) = node.leaf().search::<C>(probe, version) else { continue };
            if found != Some(record) {
                if node.stamp().is_still(version) {
                    return false;
                }
                continue;
            }
            let Some(latch) = node.stamp().try_latch(version) else { continue };
            // A validator raises `rts` without the latch.
            node.stamp().rts.fetch_max(rts, Ordering::SeqCst);
            node.stamp().wts.fetch_max(wts, Ordering::Relaxed);
            node.leaf().remove(at);
            unlinked();
            let left = node.header().count();
            latch.changed();
            break left;
        };
        if left <= few(0) {
            while self.shrink(probe, limbo, epochs) {}
        }
        true
    }

    /// Joins the first node on the way to a key that is better joined to a neighbour. Whether to
    /// look again: something was joined, or somebody got in the way.
    fn shrink(&self, probe: Probe<'_>, limbo: &mut Limbo, epochs: &Epochs) -> bool {
        self.try_shrink(probe, limbo, epochs).unwrap_or(true)
    }

    fn try_shrink(&self, probe: Probe<'_>, limbo: &mut Limbo, epochs: &Epochs) -> Option<bool> {
        let (mut node, mut version) = self.begin()?;
        if node.header().level > 0 && node.header().count() == 0 {
            self.lower_root(node, version, limbo, epochs)?;
            return Some(true);
        }
        for level in (0..node.header().level).rev() {
            let at = node.inner().rank::<C>(probe, version, true)?;
            let child = child_of(node, version, at)?;
            let child_version = child.stamp().begin()?;
            let children = node.header().count();
            if !node.stamp().is_still(version) {
                return None;
            }
            if child.header().count() <= few(level) && children > 0 {
                let left_at = if at < children { at } else { at - 1 };
                let (left, right) =
                    (child_of(node, version, left_at)?, child_of(node, version, left_at + 1)?);
                if self.join((node, version, left_at), left, right, level, limbo, epochs)? {
                    return Some(true);
                }
            }
            (node, version) = (child, child_version);
        }
        Some(false)
    }

    /// Makes the only child of the root the root.
    fn lower_root(&self, root: Node<'_>, version: u64, limbo: &mut Limbo, epochs: &Epochs) -> Option<()> {
        let latch = root.stamp().try_latch(version)?;
        // Release: as in `adopt`.
        self.root.store(root.inner().child(0), Ordering::Release);
        latch.gone();
        self.retire(root, limbo, epochs);
        Some(())
    }

    /// Joins two neighbours if that is worth it, or evens them out if that is needed; whether it
    /// did. `None` if somebody got in the way.
    fn join(
        &self,
        (parent, parent_version, at): Place<'_>,
        left: Node<'_>,
        right: Node<'_>,
        level: u32,
        limbo: &mut Limbo,
        epochs: &Epochs,
    ) -> Option<bool> {
        // A guess, to leave the latches alone if there is nothing to do.
        let worth = || {
            let (in_left, in_right) = (left.header().count(), right.header().count());
            in_left == 0 || in_right == 0 || in_left + in_right + usize::from(level > 0) <= roomy(level)
        };
        if !worth() {
            return Some(false);
        }
        let above = parent.stamp().try_latch(parent_version)?;
        let left_latch = left.stamp().try_latch(left.stamp().begin_now()?)?;
        let right_latch = right.stamp().try_latch(right.stamp().begin_now()?)?;
        if !worth() {
            return Some(false);
        }
        let (lower, upper) = (left.header().lower(), right.header().upper());
        let (mut fences, mut children) = contents(parent);
        let fence = fences[at];
        let dead;
        if level == 0 {
            let mut records = Vec::with_capacity(LEAF_KEYS);
            left.leaf().append_to(&mut records);
            right.leaf().append_to(&mut records);
            left.leaf().fill::<C>(lower, upper, &records);
            // The right one's times and keys go to the left one. Sequentially consistent, after the
            // latch: a validator on the right either raised `rts` before, or fails.
            let rts = right.stamp().rts.load(Ordering::SeqCst);
            left.stamp().rts.fetch_max(rts, Ordering::SeqCst);
            // Relaxed: under both latches.
            left.stamp().wts.fetch_max(right.stamp().wts.load(Ordering::Relaxed), Ordering::Relaxed);
            fences.remove(at);
            children.remove(at + 1);
            // Relaxed: a statistic.
            self.bytes.fetch_sub(fence.memory_bytes::<C>(), Ordering::Relaxed);
            // Above, and on either side.
            dead = fence.garbage::<C>(3);
        } else {
            let (mut below, mut nodes) = contents(left);
            below.push(fence);
            right.inner().append_to(&mut below, &mut nodes);
            if below.len() <= INNER_KEYS {
                left.inner().fill::<C>(lower, upper, &below, &nodes);
                fences.remove(at);
                children.remove(at + 1);
                // On either side; as a separator it has moved down.
                dead = fence.garbage::<C>(2);
            } else {
                // The one in the middle moves up for it.
                let middle = below.len() / 2;
                let up = below[middle];
                left.inner().fill::<C>(lower, up.retain::<C>(), &below[..middle], &nodes[..=middle]);
                right.inner().fill::<C>(up.retain::<C>(), upper, &below[middle + 1..], &nodes[middle + 1..]);
                fences[at] = up;
                dead = fence.garbage::<C>(2);
            }
        }
        let joined = children.len() == fences.len() + 1 && !children.contains(&right.address());
        let header = parent.header();
        parent.inner().fill::<C>(header.lower(), header.upper(), &fences, &children);
        above.changed();
        left_latch.changed();
        if joined {
            right_latch.gone();
            self.retire(right, limbo, epochs);
        } else {
            right_latch.changed();
        }
        if let Some(dead) = dead {
            limbo.retire(epochs, dead);
        }
        Some(true)
    }

    /// Retires a node that has left the tree.
    fn retire(&self, node: Node<'_>, limbo: &mut Limbo, epochs: &Epochs) {
        // Relaxed: a statistic.
        self.bytes.fetch_sub(node.memory_bytes(), Ordering::Relaxed);
        limbo.retire(epochs, node.garbage());
    }
}

/// Where to split what a leaf held and one record more: in the middle, or at the next place to it where keys
/// differ [much earlier](EARLIER_BITS). There the fence is the beginning of a range of its own, so that
/// whoever looks for the first row of a group does not read the leaf in which the group before grows.
fn split_at<'k>(records: &[RecordPtr], key_of: impl Fn(RecordPtr) -> &'k [u8]) -> usize {
    let shared = |at: usize| shared_bits(key_of(records[at - 1]), key_of(records[at]));
    let middle = records.len() / 2;
    let much_earlier = |at: &usize| shared(*at) + EARLIER_BITS <= shared(middle);
    let from_the_middle = (1..middle).flat_map(|away| [middle + away, middle - away]);
    from_the_middle.filter(|at| *at < records.len()).find(much_earlier).unwrap_or(middle)
}

/// Latches the parent, if there is one, at the version at which it was seen.
fn latch_place(place: Option<Place<'_>>) -> Option<Option<Latch<'_>>> {
    match place {
        None => Some(None),
        Some((parent, version, _)) => parent.stamp().try_latch(version).map(Some),
    }
}

/// A child of a node that is still at `version`.
fn child_of<'a>(node: Node<'a>, version: u64, at: usize) -> Option<Node<'a>> {
    let address = node.inner().child(at);
    if !node.stamp().is_still(version) {
        return None;
    }
    // SAFETY: callers are pinned, and the child was linked at `version`.
    unsafe { Node::at(address) }
}

/// What a latched inner node holds: separators and children.
fn contents(node: Node<'_>) -> (Vec<Fence>, Vec<*mut Header>) {
    let mut fences = Vec::with_capacity(INNER_KEYS * 2 + 1);
    let mut children = Vec::with_capacity(INNER_KEYS * 2 + 2);
    node.inner().append_to(&mut fences, &mut children);
    (fences, children)
}
