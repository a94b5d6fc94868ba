//! The nodes of the ordered index, and the search within one.
//!
//! ```text
//! header (48 bytes)   version wts rts | count, skip, level | lower | upper
//! leaf                heads[21] | records[21]                        384 bytes
//! inner node          heads[63] | children[64] | separators         1088 bytes, and 504 if needed
//! ```
//!
//! A *head* is 8 bytes of a key as a number, so that a node is searched by comparing words. The
//! heads of a node begin after the bytes that all keys between its two *fences* share (`skip`): the
//! fences are fixed when a node is made, split or joined, and any key that the tree leads here lies
//! between them, so the shared bytes need no comparison. The first and last nodes of a level lack a
//! fence: there the heads of an inner node begin after what its separators share, which is compared
//! first; those of a leaf begin with the keys. Equal heads are told apart by the whole keys: a
//! leaf's in its records, an inner node's in its separators.
//!
//! A search within a node has no branch that depends on what it compares: three comparisons at once
//! say which quarter of the heads to go on with, until five are left at most, which are compared one
//! by one: 8 comparisons in a leaf, 9 in an inner node. Leaves are small, since most of them are out of
//! cache and come with all their lines; inner nodes are large, since each level costs some 45
//! instructions. The lowest inner nodes of a large tree are out of the nearer caches too: they also
//! come with all the lines that a search may need, or else it would wait three times, for one line
//! after another.
//!
//! Measured on two cores, whose runs differ by a fifth, as medians of seven, nanoseconds for a
//! whole operation on 50,000 hot rows of a million: leaves of 17 under such nodes 516; with only the
//! right quarter of the children asked for 582; under nodes of 15 611; without asking 686; leaves
//! and nodes of 31, searched by halves, 561. Leaves of 21 take a line more than those of 17, and
//! less memory for the sequences of keys in docs/memory.md.
//!
//! All that is read without a latch is an atomic, loaded relaxed, and believed only once the node's
//! version has been found unchanged; what is a pointer is followed only after that.

use super::super::{GONE, NodeStamp, head, prefetch};
use super::fence::{Compared, Fence, Probe, shared};
use crate::record::RecordPtr;
use noonmark_core::Garbage;
use noonmark_core::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Most records in a leaf: what six lines hold.
pub(super) const LEAF_KEYS: usize = 21;
/// Most separators in an inner node: one less than a power of four, which [`count_below`] likes.
pub(super) const INNER_KEYS: usize = 63;

/// What a head is where there is none: no key's head is greater.
const NO_HEAD: u64 = u64::MAX;

/// What every node begins with.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Header {
    pub(super) stamp: NodeStamp,
    /// How many records or separators, in the low half. Changes under the latch only, like all that
    /// follows. In the high half, where heads begin in keys: behind the bytes that all keys between
    /// the fences share; in an inner node that lacks a fence, behind those that its separators
    /// share. (Keys, and so what they share, are shorter than 64 KiB.)
    shape: AtomicU32,
    /// 0 for leaves. Never changes.
    pub(super) level: u32,
    /// The least key that belongs here; [`Fence::NONE`] in the leftmost node of a level.
    lower: AtomicU64,
    /// The least key that no longer does; [`Fence::NONE`] in the rightmost.
    upper: AtomicU64,
}

impl Header {
    fn new(level: u32) -> Self {
        Header {
            stamp: NodeStamp::default(),
            shape: AtomicU32::new(0),
            level,
            lower: AtomicU64::new(0),
            upper: AtomicU64::new(0),
        }
    }

    // The loads and stores below are relaxed: loads are believed by the version only, or done under
    // the latch, as all stores are.

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        (self.shape.load(Ordering::Relaxed) & 0xffff) as usize
    }
    #[inline(always)]
    fn skip(&self) -> usize {
        (self.shape.load(Ordering::Relaxed) >> 16) as usize
    }
    pub(super) fn lower(&self) -> Fence {
        Fence(self.lower.load(Ordering::Relaxed))
    }
    pub(super) fn upper(&self) -> Fence {
        Fence(self.upper.load(Ordering::Relaxed))
    }
    /// Whether the short key with this head belongs here; believed by the version only.
    #[inline(always)]
    pub(super) fn is_between_fences(&self, head: u64) -> bool {
        self.lower().0 <= head && (self.upper().is_none() || head < self.upper().0)
    }
    fn set_count(&self, count: usize) {
        self.set_shape(count, self.skip());
    }
    fn set_shape(&self, count: usize, skip: usize) {
        debug_assert!(count < 1 << 16 && skip < 1 << 16);
        self.shape.store(count as u32 | (skip as u32) << 16, Ordering::Relaxed);
    }
    pub(super) fn set_fences(&self, lower: Fence, upper: Fence) {
        self.lower.store(lower.0, Ordering::Relaxed);
        self.upper.store(upper.0, Ordering::Relaxed);
    }
    /// Whether the node is the first or last of its level.
    #[inline(always)]
    fn at_edge(&self) -> bool {
        self.lower().is_none() || self.upper().is_none()
    }
}

/// The lowest nodes: they hold the records.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Leaf {
    pub(super) header: Header,
    heads: [AtomicU64; LEAF_KEYS],
    records: [AtomicPtr<u64>; LEAF_KEYS],
}

/// All others. Child `i` holds the keys from separator `i - 1` on and below separator `i`.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Inner {
    pub(super) header: Header,
    heads: [AtomicU64; INNER_KEYS],
    children: [AtomicPtr<Header>; INNER_KEYS + 1],
    /// One for each head, but none if keys are short: then heads are separators.
    separators: Box<[AtomicU64]>,
}

/// How many heads are below this one (or, if `or_equal`, not above it), without a branch that
/// depends on them. Places without a head count as above, except for the greatest head there is.
///
/// The heads that end the first three quarters say which quarter to go on with; few heads are
/// compared one by one.
#[inline(always)]
pub(super) fn count_below<const N: usize>(heads: &[AtomicU64; N], probe: u64, or_equal: bool) -> usize {
    let counts = |at: usize| {
        // SAFETY: within `below..below + len`, which see. Relaxed: see `Header`.
        let there = unsafe { heads.get_unchecked(at) }.load(Ordering::Relaxed);
        usize::from(if or_equal { there <= probe } else { there < probe })
    };
    // All before `below` count, none from `below + len` on, which is at most N.
    let (mut below, mut len) = (0, N);
    while len > 5 {
        // So that without their ends none is longer than `quarter - 1`.
        let quarter = (len + 1).div_ceil(4);
        let ends = [below + quarter - 1, below + 2 * quarter - 1, below + 3 * quarter - 1];
        let quarters = counts(ends[0]) + counts(ends[1]) + counts(ends[2]);
        // If the last quarter is shorter, what is looked at begins before it, where all count.
        below += (quarters * quarter).min(len - (quarter - 1));
        len = quarter - 1;
    }
    below + (0..len).map(|at| counts(below + at)).sum::<usize>()
}

/// Within the places `from..count` that have this head: how many of all places compare below, asking
/// `is_below` for the whole keys. `None` if it does not know.
#[cold]
fn among_equals<const N: usize>(
    heads: &[AtomicU64; N],
    probe: u64,
    from: usize,
    count: usize,
    mut is_below: impl FnMut(usize) -> Option<bool>,
) -> Option<usize> {
    // Relaxed: see `Header`.
    let equal = heads[from..count].iter().take_while(|head| head.load(Ordering::Relaxed) == probe).count();
    let (mut low, mut high) = (from, from + equal);
    while low < high {
        let middle = low.midpoint(high);
        if is_below(middle)? { low = middle + 1 } else { high = middle }
    }
    Some(low)
}

impl Leaf {
    #[inline(always)]
    fn count(&self) -> usize {
        // Never more, except in the eyes of the compiler.
        self.header.count().min(LEAF_KEYS)
    }

    #[inline(always)]
    fn word(&self, at: usize) -> *mut u64 {
        // Relaxed: see `Header`.
        self.records[at].load(Ordering::Relaxed)
    }

    /// The record at a place below the count, read under the latch or yet to be validated.
    #[inline(always)]
    pub(super) fn record(&self, at: usize) -> Option<RecordPtr> {
        NonNull::new(self.word(at)).map(RecordPtr::new)
    }

    /// Asks for the record at a place, if there is one. It need not be one.
    #[inline(always)]
    pub(super) fn prefetch_record(&self, at: usize) {
        prefetch(self.word(at.min(LEAF_KEYS - 1)).cast());
    }

    /// The key of the record at a place, if the leaf is still at `version`.
    #[inline(always)]
    fn key(&self, at: usize, version: u64) -> Option<&[u8]> {
        let record = self.record(at)?;
        if !self.header.stamp.is_still(version) {
            return None;
        }
        // SAFETY: the caller is pinned, and the record was linked here at `version`.
        Some(unsafe { record.key() })
    }

    /// The place at which a key is or would be, and its record. `None` if the leaf has changed. What
    /// is returned is still to be validated.
    #[inline(always)]
    pub(super) fn search<C: Compared>(
        &self,
        probe: Probe<'_>,
        version: u64,
    ) -> Option<(usize, Option<RecordPtr>)> {
        let skip = if C::SHORT { 0 } else { self.header.skip() };
        let head = if C::SHORT { probe.head } else { head(probe.key, skip) };
        let at = count_below(&self.heads, head, false);
        // Where there is no head there is no record either, and there are at most so many below.
        // Relaxed: see `Header`.
        if at >= LEAF_KEYS || self.heads[at].load(Ordering::Relaxed) != head {
            return Some((at, None));
        }
        if C::SHORT || C::head_decides(skip, probe.key.len()) {
            return Some((at, self.record(at)));
        }
        let count = self.count();
        // Mostly there is one record with this head.
        // Relaxed: see `Header`.
        let at = if at + 1 >= count || self.heads[at + 1].load(Ordering::Relaxed) != head {
            at
        } else {
            among_equals(&self.heads, head, at, count, |at| Some(self.key(at, version)? < probe.key))?
        };
        if at >= count {
            return Some((count, None));
        }
        Some(match self.key(at, version)?.cmp(probe.key) {
            Order::Less => (at + 1, None),
            Order::Equal => (at, self.record(at)),
            Order::Greater => (at, None),
        })
    }

    /// If keys are short, and one is put in behind all others: the fence at which its [group](Fence::ends_group)
    /// ends, if the leaf goes on behind it. Still to be validated.
    #[inline(always)]
    pub(super) fn ends_group<C: Compared>(&self, at: usize, probe: Probe<'_>) -> Option<Fence> {
        if !C::SHORT || at == 0 || at != self.count() {
            return None;
        }
        // Relaxed: see `Header`.
        Fence::ends_group(self.heads[at - 1].load(Ordering::Relaxed), probe.head, self.header.upper())
    }

    /// If keys are short: the fence between what a latched leaf holds, at least one record, and a key behind it.
    pub(super) fn fence_behind<C: Compared>(&self, count: usize, key: &[u8]) -> Fence {
        debug_assert!(C::SHORT && count > 0);
        // Relaxed: see `Header`.
        Fence::between_heads(self.heads[count - 1].load(Ordering::Relaxed), head(key, 0))
    }

    /// How many records have keys below the probe (or, if `or_equal`, not above it). `None` if the
    /// leaf has changed; still to be validated.
    pub(super) fn rank<C: Compared>(&self, probe: Probe<'_>, version: u64, or_equal: bool) -> Option<usize> {
        let head = if C::SHORT { probe.head } else { head(probe.key, self.header.skip()) };
        let count = self.count();
        if C::SHORT {
            return Some(count_below(&self.heads, head, or_equal).min(count));
        }
        let from = count_below(&self.heads, head, false).min(count);
        among_equals(&self.heads, head, from, count, |at| {
            let order = self.key(at, version)?.cmp(probe.key);
            Some(order == Order::Less || or_equal && order == Order::Equal)
        })
    }

    /// A record that may well be the one with this key: an address to ask for.
    #[inline(always)]
    pub(super) fn guess<C: Compared>(&self, probe: Probe<'_>) -> *mut u64 {
        let head = if C::SHORT { probe.head } else { head(probe.key, self.header.skip()) };
        self.word(count_below(&self.heads, head, false).min(LEAF_KEYS - 1))
    }

    fn set(&self, at: usize, head: u64, record: *mut u64) {
        // Relaxed: see `Header`.
        self.heads[at].store(head, Ordering::Relaxed);
        self.records[at].store(record, Ordering::Relaxed);
    }

    /// Puts a record at a place of a leaf that is latched and not full.
    pub(super) fn insert<C: Compared>(&self, at: usize, key: &[u8], record: RecordPtr) {
        let count = self.count();
        for from in (at..count).rev() {
            // Relaxed: see `Header`.
            self.set(from + 1, self.heads[from].load(Ordering::Relaxed), self.word(from));
        }
        self.set(at, head(key, if C::SHORT { 0 } else { self.header.skip() }), record.as_ptr());
        self.header.set_count(count + 1);
    }

    /// Takes the record at a place out of a latched leaf.
    pub(super) fn remove(&self, at: usize) {
        let count = self.count();
        for from in at + 1..count {
            // Relaxed: see `Header`.
            self.set(from - 1, self.heads[from].load(Ordering::Relaxed), self.word(from));
        }
        self.set(count - 1, NO_HEAD, std::ptr::null_mut());
        self.header.set_count(count - 1);
    }

    /// Appends what a latched leaf holds.
    pub(super) fn append_to(&self, records: &mut Vec<RecordPtr>) {
        records.extend((0..self.count()).filter_map(|at| self.record(at)));
    }

    /// Lays out a latched leaf anew.
    pub(super) fn fill<C: Compared>(&self, lower: Fence, upper: Fence, records: &[RecordPtr]) {
        self.header.set_fences(lower, upper);
        let skip = shared::<C>(lower, upper);
        for at in 0..LEAF_KEYS {
            match records.get(at) {
                // SAFETY: linked, or about to be: it cannot be freed before the latch is let go.
                Some(record) => self.set(at, head(unsafe { record.key() }, skip), record.as_ptr()),
                None => self.set(at, NO_HEAD, std::ptr::null_mut()),
            }
        }
        self.header.set_shape(records.len(), skip);
    }
}

impl Inner {
    #[inline(always)]
    fn count(&self) -> usize {
        // Never more, except in the eyes of the compiler.
        self.header.count().min(INNER_KEYS)
    }

    fn separator(&self, at: usize) -> Fence {
        // Relaxed: see `Header`.
        Fence(self.separators.get(at).unwrap_or(&self.heads[at]).load(Ordering::Relaxed))
    }

    fn set_separator(&self, at: usize, head: u64, separator: Fence) {
        // Relaxed: see `Header`.
        self.heads[at].store(head, Ordering::Relaxed);
        if let Some(place) = self.separators.get(at) {
            place.store(separator.0, Ordering::Relaxed);
        }
    }

    /// The child at a place up to the count. Validate before use.
    #[inline(always)]
    pub(super) fn child(&self, at: usize) -> *mut Header {
        // Relaxed: see `Header`.
        self.children[at.min(INNER_KEYS)].load(Ordering::Relaxed)
    }

    /// The place of the child that holds the probe or, unless `or_equal`, what is just below it.
    /// `None` if the node has changed; still to be validated.
    #[inline(always)]
    pub(super) fn rank<C: Compared>(&self, probe: Probe<'_>, version: u64, or_equal: bool) -> Option<usize> {
        let head = if C::SHORT { probe.head } else { head(probe.key, self.header.skip()) };
        if C::SHORT {
            // No separator is above the greatest head there is, but then places without one count too.
            let all = or_equal && head == NO_HEAD;
            return Some(if all { self.count() } else { count_below(&self.heads, head, or_equal) });
        }
        let count = self.count();
        if self.header.at_edge() && self.header.skip() > 0 {
            // What is skipped is not what all keys share that come here: compare it first.
            let first = self.separator(0);
            if !self.header.stamp.is_still(version) || first.is_none() {
                return None;
            }
            // SAFETY: validated; callers are pinned.
            let skipped = unsafe { first.bytes() }.get(..self.header.skip())?;
            match probe.key[..probe.key.len().min(skipped.len())].cmp(skipped) {
                Order::Less => return Some(0),
                Order::Equal => {}
                Order::Greater => return Some(count),
            }
        }
        let from = count_below(&self.heads, head, false).min(count);
        // Relaxed: see `Header`.
        if from == count || self.heads[from].load(Ordering::Relaxed) != head {
            return Some(from);
        }
        among_equals(&self.heads, head, from, count, |at| {
            let separator = self.separator(at);
            if !self.header.stamp.is_still(version) || separator.is_none() {
                return None;
            }
            // SAFETY: validated; callers are pinned.
            let order = unsafe { separator.bytes() }.cmp(probe.key);
            Some(order == Order::Less || or_equal && order == Order::Equal)
        })
    }

    /// Appends what a latched inner node holds.
    pub(super) fn append_to(&self, separators: &mut Vec<Fence>, children: &mut Vec<*mut Header>) {
        separators.extend((0..self.count()).map(|at| self.separator(at)));
        children.extend((0..=self.count()).map(|at| self.child(at)));
    }

    /// Puts a separator, and the child to the right of it, into a latched node that has room.
    pub(super) fn insert<C: Compared>(&self, at: usize, separator: Fence, child: *mut Header) {
        let count = self.count();
        let outermost = at == 0 || at == count;
        if !C::SHORT && self.header.at_edge() && outermost {
            // What all separators share may have become less.
            let (mut separators, mut children) = (Vec::new(), Vec::new());
            self.append_to(&mut separators, &mut children);
            separators.insert(at, separator);
            children.insert(at + 1, child);
            return self.fill::<C>(self.header.lower(), self.header.upper(), &separators, &children);
        }
        // Relaxed, all: see `Header`.
        for from in (at..count).rev() {
            let head = self.heads[from].load(Ordering::Relaxed);
            self.set_separator(from + 1, head, self.separator(from));
            self.children[from + 2].store(self.child(from + 1), Ordering::Relaxed);
        }
        let head = if C::SHORT {
            separator.0
        } else {
            // SAFETY: we hold the latch of the node that is to have it.
            head(unsafe { separator.bytes() }, self.header.skip())
        };
        self.set_separator(at, head, separator);
        self.children[at + 1].store(child, Ordering::Relaxed);
        self.header.set_count(count + 1);
    }

    /// Lays out a latched inner node anew.
    pub(super) fn fill<C: Compared>(
        &self,
        lower: Fence,
        upper: Fence,
        separators: &[Fence],
        children: &[*mut Header],
    ) {
        debug_assert_eq!(separators.len() + 1, children.len());
        self.header.set_fences(lower, upper);
        let skip = match separators {
            [first, .., last] if self.header.at_edge() => shared::<C>(*first, *last),
            _ => shared::<C>(lower, upper),
        };
        for at in 0..INNER_KEYS {
            let (fence, head) = match separators.get(at) {
                None => (Fence::NONE, NO_HEAD),
                Some(fence) if C::SHORT => (*fence, fence.0),
                // SAFETY: we hold the latch of the node that has it.
                Some(fence) => (*fence, head(unsafe { fence.bytes() }, skip)),
            };
            self.set_separator(at, head, fence);
        }
        for at in 0..=INNER_KEYS {
            // Relaxed: see `Header`.
            let child = children.get(at).copied().unwrap_or(std::ptr::null_mut());
            self.children[at].store(child, Ordering::Relaxed);
        }
        self.header.set_shape(separators.len(), skip);
    }
}

/// A node that is not freed during `'a`: the holder is pinned, or owns the index.
#[derive(Clone, Copy)]
pub(super) struct Node<'a>(NonNull<Header>, PhantomData<&'a Header>);

impl<'a> Node<'a> {
    /// # Safety
    /// The address was read from the tree by somebody who is pinned for `'a` or owns it, and has
    /// been validated.
    #[inline(always)]
    pub(super) unsafe fn at(address: *mut Header) -> Option<Node<'a>> {
        NonNull::new(address).map(|address| Node(address, PhantomData))
    }

    pub(super) fn new_leaf() -> Node<'a> {
        let leaf = Leaf {
            header: Header::new(0),
            heads: std::array::from_fn(|_| AtomicU64::new(NO_HEAD)),
            records: std::array::from_fn(|_| AtomicPtr::default()),
        };
        Node(NonNull::from(Box::leak(Box::new(leaf))).cast(), PhantomData)
    }

    pub(super) fn new_inner<C: Compared>(level: u32) -> Node<'a> {
        debug_assert!(level > 0);
        let inner = Inner {
            header: Header::new(level),
            heads: std::array::from_fn(|_| AtomicU64::new(NO_HEAD)),
            children: std::array::from_fn(|_| AtomicPtr::default()),
            separators: (0..if C::SHORT { 0 } else { INNER_KEYS }).map(|_| AtomicU64::new(0)).collect(),
        };
        Node(NonNull::from(Box::leak(Box::new(inner))).cast(), PhantomData)
    }

    #[inline(always)]
    pub(super) fn address(self) -> *mut Header {
        self.0.as_ptr()
    }
    #[inline(always)]
    pub(super) fn header(self) -> &'a Header {
        // SAFETY: not freed during `'a`; all that changes in it is atomic.
        unsafe { &*self.0.as_ptr() }
    }
    #[inline(always)]
    pub(super) fn stamp(self) -> &'a NodeStamp {
        &self.header().stamp
    }
    #[inline(always)]
    pub(super) fn leaf(self) -> &'a Leaf {
        debug_assert_eq!(self.header().level, 0);
        // SAFETY: as above; at level 0, which never changes, the address is that of a leaf.
        unsafe { &*self.0.as_ptr().cast() }
    }
    #[inline(always)]
    pub(super) fn inner(self) -> &'a Inner {
        debug_assert!(self.header().level > 0);
        // SAFETY: as above.
        unsafe { &*self.0.as_ptr().cast() }
    }

    pub(super) fn memory_bytes(self) -> usize {
        if self.header().level == 0 {
            size_of::<Leaf>()
        } else {
            size_of::<Inner>() + size_of_val(&*self.inner().separators)
        }
    }

    /// Freeing the node, later. The fences in it are not let go.
    pub(super) fn garbage(self) -> Garbage {
        debug_assert_eq!(self.stamp().version.load(Ordering::Relaxed), GONE);
        let level = self.header().level as usize;
        // SAFETY: it has left the tree; atomics may be dropped on any thread.
        unsafe { Garbage::new(self.address().cast(), level, free_node) }
    }

    /// Frees the node now.
    ///
    /// # Safety
    /// Nobody refers to it, nor will.
    pub(super) unsafe fn free(self) {
        // SAFETY: passed on.
        unsafe { free_node(self.address().cast(), self.header().level as usize) }
    }
}

/// Frees the node at an address, of this level.
unsafe fn free_node(address: *mut u8, level: usize) {
    // SAFETY: it was leaked by `new_leaf` or `new_inner`, as its level says, and nobody is left.
    unsafe {
        if level == 0 {
            drop(Box::from_raw(address.cast::<Leaf>()));
        } else {
            drop(Box::from_raw(address.cast::<Inner>()));
        }
    }
}

/// Asks for all lines of a leaf that may be about to be searched. Any address will do.
#[inline(always)]
pub(super) fn prefetch_leaf(address: *mut Header) {
    for line in (0..size_of::<Leaf>()).step_by(64) {
        prefetch(address.cast::<u8>().wrapping_add(line));
    }
}

/// Asks for all lines of an inner node that a search may need: not the separators, which are seldom
/// looked at. Any address will do.
#[inline(always)]
pub(super) fn prefetch_inner(address: *mut Header) {
    for line in (0..std::mem::offset_of!(Inner, separators)).step_by(64) {
        prefetch(address.cast::<u8>().wrapping_add(line));
    }
}
