//! Scans: leaf by leaf, up or down.
//!
//! From each leaf a scan takes what lies within its bounds, and the fence at which it goes on. If
//! the next leaf was joined with the last one meanwhile, it begins before that fence: what lies
//! before is passed over, so a scan is sorted and sees each key once. That the last leaf has changed
//! is for the validation of its stamp to find.

use super::super::NodeSeen;
use super::fence::{Compared, Fence, Probe};
use super::node::{LEAF_KEYS, Node, prefetch_leaf};
use super::{RecordPtr, Tree};
use std::cmp::Ordering as Order;
use std::mem::MaybeUninit;
use std::ops::{Bound, ControlFlow};

/// Where a scan goes on.
#[derive(Clone, Copy)]
enum Edge<'a> {
    /// At the end of the key space.
    Open,
    /// At a bound: with the key itself, or without it.
    Key(&'a [u8], bool),
    /// At a fence: upwards with the key that it is, downwards without.
    Fence(Fence),
}

impl<'a> Edge<'a> {
    fn of(bound: Bound<&'a [u8]>) -> Self {
        match bound {
            Bound::Unbounded => Edge::Open,
            Bound::Included(key) => Edge::Key(key, true),
            Bound::Excluded(key) => Edge::Key(key, false),
        }
    }

    /// What to look for.
    ///
    /// # Safety
    /// A fence has been validated, and the caller is pinned.
    unsafe fn probe<C: Compared>(self) -> Option<Probe<'a>> {
        match self {
            Edge::Open => None,
            Edge::Key(key, _) => Some(Probe::key::<C>(key)),
            // SAFETY: passed on.
            Edge::Fence(fence) => Some(unsafe { Probe::fence::<C>(fence) }),
        }
    }
}

/// Whether no key can lie within the bounds.
fn is_empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) => lower >= upper,
    }
}

/// A leaf as a whole.
pub(crate) struct WholeLeaf {
    /// Its stamp.
    pub seen: NodeSeen,
    /// Keys that are less than this are not of it; of the first leaf, none.
    pub lower: Vec<u8>,
    /// Nor are those that are not less than this, if there is an end.
    pub upper: Option<Vec<u8>>,
    /// All its records, in the order of their keys.
    pub records: Vec<RecordPtr>,
}

/// What a leaf holds of a range.
struct Batch {
    seen: NodeSeen,
    records: [MaybeUninit<RecordPtr>; LEAF_KEYS],
    count: usize,
    /// Where to go on, or [`Fence::NONE`].
    next: Fence,
}

impl Batch {
    fn records(&self) -> &[RecordPtr] {
        // SAFETY: the first `count` were written.
        unsafe { std::slice::from_raw_parts(self.records.as_ptr().cast(), self.count) }
    }
}

impl<C: Compared> Tree<C> {
    pub(super) fn scan_up(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        mut visit: impl FnMut(NodeSeen, &[RecordPtr]) -> ControlFlow<()>,
    ) {
        if is_empty(lower, upper) {
            return;
        }
        let mut edge = Edge::of(lower);
        loop {
            let Some(batch) = self.batch_up(edge, upper) else { continue };
            if visit(batch.seen, batch.records()).is_break() || batch.next.is_none() {
                return;
            }
            edge = Edge::Fence(batch.next);
        }
    }

    pub(super) fn scan_down(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        mut visit: impl FnMut(NodeSeen, &[RecordPtr]) -> ControlFlow<()>,
    ) {
        if is_empty(lower, upper) {
            return;
        }
        let mut edge = Edge::of(upper);
        loop {
            let Some(batch) = self.batch_down(edge, lower) else { continue };
            if visit(batch.seen, batch.records()).is_break() || batch.next.is_none() {
                return;
            }
            edge = Edge::Fence(batch.next);
        }
    }

    /// Leaf by leaf, in order, all that cover a part of the range, as they are, until `visit` breaks.
    pub(super) fn leaves(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        mut visit: impl FnMut(WholeLeaf) -> ControlFlow<()>,
    ) {
        if is_empty(lower, upper) {
            return;
        }
        let mut edge = Edge::of(lower);
        loop {
            let Some((leaf, next)) = self.whole_leaf(edge, upper) else { continue };
            if visit(leaf).is_break() || next.is_none() {
                return;
            }
            edge = Edge::Fence(next);
        }
    }

    /// The leaf that the edge is in, and where to go on; `None` to begin anew.
    fn whole_leaf(&self, edge: Edge<'_>, upper: Bound<&[u8]>) -> Option<(WholeLeaf, Fence)> {
        // SAFETY: callers are pinned; fences come from leaves that were found unchanged.
        let probe = unsafe { edge.probe::<C>() };
        let (leaf, version) = self.descend(|node, version| match probe {
            None => Some(0),
            Some(probe) => node.inner().rank::<C>(probe, version, true),
        })?;
        let (below, above) = fences(leaf, version)?;
        let is_last = match (above, upper) {
            (Fence::NONE, _) => true,
            (_, Bound::Unbounded) => false,
            (fence, Bound::Included(key) | Bound::Excluded(key)) => {
                // SAFETY: validated in `fences`; callers are pinned.
                match unsafe { fence.compare::<C>(key) } {
                    Order::Greater => true,
                    Order::Equal => matches!(upper, Bound::Excluded(_)),
                    Order::Less => false,
                }
            }
        };
        let batch = batch(leaf, version, 0..leaf.header().count(), false, Fence::NONE)?;
        // SAFETY: as above.
        let (lower, end) = unsafe { (below.to_bytes::<C>(), above.to_bytes::<C>()) };
        let upper = (!above.is_none()).then_some(end);
        let whole = WholeLeaf { seen: batch.seen, lower, upper, records: batch.records().to_vec() };
        Some((whole, if is_last { Fence::NONE } else { above }))
    }

    /// The leaf that holds what comes at and after the edge; `None` to begin anew.
    fn batch_up(&self, edge: Edge<'_>, upper: Bound<&[u8]>) -> Option<Batch> {
        // SAFETY: callers are pinned; fences come from validated batches.
        let probe = unsafe { edge.probe::<C>() };
        let (leaf, version) = self.descend(|node, version| {
            let at = match probe {
                None => 0,
                Some(probe) => node.inner().rank::<C>(probe, version, true)?,
            };
            if node.header().level == 1 {
                // The next leaf, on the way while this one is visited.
                prefetch_leaf(node.inner().child(at + 1));
            }
            Some(at)
        })?;
        let (_, fence) = fences(leaf, version)?;
        let first = match (edge, probe) {
            (Edge::Key(_, included), Some(probe)) => leaf.leaf().rank::<C>(probe, version, !included)?,
            (_, Some(probe)) => leaf.leaf().rank::<C>(probe, version, false)?,
            (_, None) => 0,
        };
        let (end, next) = match upper {
            Bound::Unbounded => (leaf.header().count(), fence),
            Bound::Included(key) | Bound::Excluded(key) => {
                let included = matches!(upper, Bound::Included(_));
                let beyond = match fence {
                    Fence::NONE => Order::Greater,
                    // SAFETY: validated in `fences`; callers are pinned.
                    fence => unsafe { fence.compare::<C>(key) },
                };
                let end = match beyond {
                    Order::Greater => leaf.leaf().rank::<C>(Probe::key::<C>(key), version, included)?,
                    _ => leaf.header().count(),
                };
                let last = beyond == Order::Greater || beyond == Order::Equal && !included;
                (end, if last { Fence::NONE } else { fence })
            }
        };
        batch(leaf, version, first..end, false, next)
    }

    /// The leaf that holds what comes at and before the edge; `None` to begin anew.
    fn batch_down(&self, edge: Edge<'_>, lower: Bound<&[u8]>) -> Option<Batch> {
        // SAFETY: callers are pinned; fences come from validated batches.
        let probe = unsafe { edge.probe::<C>() };
        let with_edge = matches!(edge, Edge::Key(_, true));
        let (leaf, version) = self.descend(|node, version| {
            let at = match probe {
                None => node.header().count(),
                Some(probe) => node.inner().rank::<C>(probe, version, with_edge)?,
            };
            if node.header().level == 1 {
                // The next leaf, on the way while this one is visited.
                prefetch_leaf(node.inner().child(at.saturating_sub(1)));
            }
            Some(at)
        })?;
        let (fence, _) = fences(leaf, version)?;
        let end = match probe {
            Some(probe) => leaf.leaf().rank::<C>(probe, version, with_edge)?,
            None => leaf.header().count(),
        };
        let (first, next) = match lower {
            Bound::Unbounded => (0, fence),
            Bound::Included(key) | Bound::Excluded(key) => {
                let excluded = matches!(lower, Bound::Excluded(_));
                let beyond = match fence {
                    Fence::NONE => Order::Less,
                    // SAFETY: validated in `fences`; callers are pinned.
                    fence => unsafe { fence.compare::<C>(key) },
                };
                match beyond {
                    Order::Greater => (0, fence),
                    _ => (leaf.leaf().rank::<C>(Probe::key::<C>(key), version, excluded)?, Fence::NONE),
                }
            }
        };
        batch(leaf, version, first..end, true, next)
    }
}

/// The fences of a leaf; `None` if it has changed.
fn fences(leaf: Node<'_>, version: u64) -> Option<(Fence, Fence)> {
    let fences = (leaf.header().lower(), leaf.header().upper());
    leaf.stamp().is_still(version).then_some(fences)
}

/// Copies records out of a leaf; `None` if it has changed.
fn batch(
    leaf: Node<'_>,
    version: u64,
    places: std::ops::Range<usize>,
    reverse: bool,
    next: Fence,
) -> Option<Batch> {
    let mut records = [const { MaybeUninit::uninit() }; LEAF_KEYS];
    let places = places.start..places.end.min(LEAF_KEYS);
    let count = places.len();
    for (nth, at) in places.enumerate() {
        let to = if reverse { count - 1 - nth } else { nth };
        let record = leaf.leaf().record(at)?;
        // The visitor will want it.
        super::super::prefetch(record.as_ptr().cast());
        records[to].write(record);
    }
    Some(Batch { seen: leaf.stamp().seen(version)?, records, count, next })
}
