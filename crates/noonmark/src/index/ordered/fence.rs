//! How keys are compared in the ordered index: its classes of keys, the fences between nodes, and
//! what is looked for.
//!
//! A fence says as little as parts its two sides: of short keys the bits of the right one up to the first in which
//! it differs from the left one, of others as few bytes. So it is no key, mostly, but lies where a range that many keys
//! begin with begins itself: whoever scans that range from its beginning need not look at the leaf before.
//!
//! A fence is one word in each place that holds it. Of short keys it is that word itself; of others
//! the address of a byte string that the places share and count.
//! Readers follow that address once the node that they had it from has been found unchanged, so the
//! counts of places that are overwritten are let go a grace period later.
//!
//! What it does not do: it knows nothing of nodes.

use super::super::head;
use noonmark_core::Garbage;
use std::cmp::Ordering as Order;
use std::sync::Arc;

/// How the keys of a class are compared.
pub(super) trait Compared {
    /// Whether all keys are equally long and at most 8 bytes, so that a head is a whole key.
    const SHORT: bool;
    /// Whether a key of this length has no bytes behind a head that begins after `skip`, and nor
    /// has any other key of the table.
    fn head_decides(skip: usize, len: usize) -> bool;
}

/// Keys of one length, at most 8.
#[derive(Debug)]
pub(super) struct Short;
/// Keys of one length.
#[derive(Debug)]
pub(super) struct Fixed;
/// Keys of any length.
#[derive(Debug)]
pub(super) struct Free;

impl Compared for Short {
    const SHORT: bool = true;
    #[inline(always)]
    fn head_decides(_: usize, _: usize) -> bool {
        true
    }
}
impl Compared for Fixed {
    const SHORT: bool = false;
    #[inline(always)]
    fn head_decides(skip: usize, len: usize) -> bool {
        skip + 8 >= len
    }
}
impl Compared for Free {
    const SHORT: bool = false;
    #[inline(always)]
    fn head_decides(_: usize, _: usize) -> bool {
        false
    }
}

/// The border between two nodes: the keys from it on belong to the right one. In one word: some
/// bits of a head for short keys, for others the address of a counted byte string. Zero is none: the end of the
/// key space, which no border between keys can be, since it is greater than some key.
///
/// Each place in a node that holds a fence has its own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence(pub u64);

/// What fences of long keys point to.
type FenceKey = Box<[u8]>;

impl Fence {
    pub(super) const NONE: Fence = Fence(0);

    /// A fence, counted once, that parts `left` from `right`, which is greater.
    pub(super) fn between<C: Compared>(left: &[u8], right: &[u8]) -> Fence {
        if C::SHORT {
            return Fence::between_heads(head(left, 0), head(right, 0));
        }
        let shared = common(left, right);
        let key: FenceKey = right[..right.len().min(shared + 1)].into();
        Fence(Arc::into_raw(Arc::new(key)).expose_provenance() as u64)
    }

    /// A fence that parts the heads of short keys, of which the right one is greater.
    pub(super) fn between_heads(left: u64, right: u64) -> Fence {
        // The first bit in which they differ is set in the greater one.
        Fence(right & (u64::MAX << (left ^ right).ilog2()))
    }

    /// Of a leaf of short keys with this upper fence, whose last two keys have these heads: the fence at which the
    /// last one's group ends, if the leaf goes on behind it.
    pub(super) fn ends_group(before: u64, last: u64, upper: Fence) -> Option<Fence> {
        let is_another = !upper.is_none()
            && (last ^ upper.0).leading_zeros() + EARLIER_BITS <= (before ^ last).leading_zeros();
        let fence = is_another.then(|| Fence::between_heads(last, upper.0))?;
        (fence != upper).then_some(fence)
    }

    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }

    fn address(self) -> *const FenceKey {
        std::ptr::with_exposed_provenance(self.0 as usize)
    }

    /// The bytes of a fence of long keys.
    ///
    /// # Safety
    /// Not none; of a class that is not short; loaded and then validated by somebody who is pinned
    /// for `'a`, or holds the latch, or owns the index.
    pub(super) unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: `between` made it; its counts are let go a grace period after it is unlinked.
        unsafe { &*self.address() }
    }

    /// Bytes that compare with keys as the fence does: those of the keys from it on are not less. Of none, none, which no key is less
    /// than.
    ///
    /// # Safety
    /// As for [`Fence::bytes`], if keys are not short.
    pub(super) unsafe fn to_bytes<C: Compared>(self) -> Vec<u8> {
        match self {
            Fence::NONE => Vec::new(),
            // All keys are equally long, so zeros at the end say nothing, and a key may be shorter than eight bytes.
            Fence(head) if C::SHORT => {
                let bytes = head.to_be_bytes();
                let zeros = head.trailing_zeros() as usize / 8;
                bytes[..bytes.len() - zeros].to_vec()
            }
            // SAFETY: passed on.
            fence => unsafe { fence.bytes() }.to_vec(),
        }
    }

    /// What this fence costs, roughly: the string, its box and its counts.
    pub(super) fn memory_bytes<C: Compared>(self) -> usize {
        if C::SHORT || self.is_none() {
            return 0;
        }
        // SAFETY: only called by whoever made it or is about to retire it.
        32 + unsafe { self.bytes() }.len()
    }

    /// Counts another place that holds it.
    pub(super) fn retain<C: Compared>(self) -> Fence {
        if !C::SHORT && !self.is_none() {
            // SAFETY: the place that it was taken from holds a count.
            unsafe { Arc::increment_strong_count(self.address()) };
        }
        self
    }

    /// Lets go of so many counts.
    ///
    /// # Safety
    /// They are held, and nobody reads the fence through the places that held them.
    pub(super) unsafe fn release<C: Compared>(self, counts: usize) {
        if !C::SHORT && !self.is_none() {
            // SAFETY: passed on.
            unsafe { release(self.address().cast_mut().cast(), counts) };
        }
    }

    /// Letting go of so many counts, later; `None` if there is nothing to let go of.
    pub(super) fn garbage<C: Compared>(self, counts: usize) -> Option<Garbage> {
        (!C::SHORT && !self.is_none())
            // SAFETY: the places are overwritten; byte strings may be freed on any thread.
            .then(|| unsafe { Garbage::new(self.address().cast_mut().cast(), counts, release) })
    }

    /// How the fence compares with a key: with its head alone if keys are short.
    ///
    /// # Safety
    /// As for [`Fence::bytes`], if keys are not short.
    pub(super) unsafe fn compare<C: Compared>(self, key: &[u8]) -> Order {
        if C::SHORT {
            self.0.cmp(&head(key, 0))
        } else {
            // SAFETY: passed on.
            unsafe { self.bytes() }.cmp(key)
        }
    }
}

/// Lets go of counts of the fence at this address.
unsafe fn release(address: *mut u8, counts: usize) {
    for _ in 0..counts {
        // SAFETY: the counts were held by places that are gone.
        unsafe { Arc::decrement_strong_count(address.cast::<FenceKey>()) };
    }
}

/// How much earlier than its neighbours a key must differ from the next to be the last of a group: more than
/// single columns that count up or are drawn at random do within a leaf, so that only another part of the key tells.
pub(super) const EARLIER_BITS: u32 = 16;

/// How many bits two keys share from the start, at least.
pub(super) fn shared_bits(left: &[u8], right: &[u8]) -> u32 {
    let bytes = common(left, right);
    let differ = left.get(bytes).copied().unwrap_or(0) ^ right.get(bytes).copied().unwrap_or(0);
    8 * bytes as u32 + differ.leading_zeros()
}

/// How many bytes two keys share from the start.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// How many bytes all keys between two fences share.
pub(super) fn shared<C: Compared>(lower: Fence, upper: Fence) -> usize {
    if C::SHORT || lower.is_none() || upper.is_none() {
        return 0;
    }
    // SAFETY: called under the latch of the node whose fences these are.
    unsafe { common(lower.bytes(), upper.bytes()) }
}

/// What is looked for: a key, or a fence.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    /// The head of the whole key, for short keys.
    pub head: u64,
    /// The key, for others.
    pub key: &'a [u8],
}

impl<'a> Probe<'a> {
    #[inline(always)]
    pub(super) fn key<C: Compared>(key: &'a [u8]) -> Self {
        Probe { head: if C::SHORT { head(key, 0) } else { 0 }, key }
    }

    /// # Safety
    /// As for [`Fence::bytes`], if keys are not short.
    pub(super) unsafe fn fence<C: Compared>(fence: Fence) -> Self {
        // SAFETY: passed on.
        Probe { head: fence.0, key: if C::SHORT { &[] } else { unsafe { fence.bytes() } } }
    }
}
