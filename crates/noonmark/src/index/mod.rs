//! Indexes: from a key to its record, and the timestamps that keep phantoms out.
//!
//! An index changes *physically* while a transaction executes: an insert first puts a record that is
//! absent (see [`crate::record`]) under the key, which no committed state shows; what makes it
//! present is an ordinary write of the record at commit. So an index need not know of transactions,
//! and two inserts of one key meet at one record.
//!
//! What a record cannot guard is the space between records: a lookup that finds nothing, or a scan,
//! has read that *no other key is here*. Each node (a leaf of the ordered index, a shard of the hash
//! index) therefore carries a [`NodeStamp`], and whoever relies on what a node does not hold notes
//! its version and has it checked at commit, under every protocol. The logical times in it carry
//! what would be lost when records come and go: a record that is put in may be written only after
//! every scan that did not see it (`rts`), and a scan that no longer sees a record comes after its
//! deletion (`wts`).

//!
//! Two indexes, one interface: [`HashIndex`] for points, [`OrderedIndex`] for points and ranges.
//! Both are read without writing shared memory: a reader notes a node's version, reads, and looks at
//! the version again (a *sequence lock* per node); a writer makes it odd, the *latch*, for as long as
//! it moves words about. Every caller is pinned to an epoch for the call and for as long as it uses
//! what came back, so that nothing it can find is freed meanwhile.
//!
//! What indexes do not do: they know of no transaction, free no record, log nothing, and never wait
//! for anything but a latch, under which nobody waits.

mod direct;
mod hash;
mod ordered;

pub(crate) use hash::HashIndex;
pub(crate) use ordered::{Finger, OrderedIndex};

use crate::record::RecordPtr;
pub(crate) use noonmark_core::prefetch;
use noonmark_core::sync::{AtomicU64, Ordering, fence, spin_loop, thread};
use std::ptr::NonNull;

/// What the keys of one table look like. Keys are compared as unsigned bytes, shorter ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyClass {
    /// All keys of the table have one same length, at most 8.
    Fixed8,
    /// All keys of the table have one same length, at most 16.
    Fixed16,
    /// Any length up to 64 KiB.
    Bytes,
}

/// What the records of one table look like, where all have keys of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordShape {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// The memory that a record takes.
    pub block: std::alloc::Layout,
}

/// What a lookup found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lookup {
    /// The record under the key.
    Found(RecordPtr),
    /// No record; this is the node in which it would be.
    Absent(NodeSeen),
}

impl Lookup {
    /// The record, if there is one.
    fn record(self) -> Option<RecordPtr> {
        match self {
            Lookup::Found(record) => Some(record),
            Lookup::Absent(_) => None,
        }
    }
}

/// One change of a node's version that an insertion made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeChange {
    /// The node. Whoever had seen `before` here, and made this change himself, may go on with `after`.
    pub stamp: NonNull<NodeStamp>,
    /// Its version before.
    pub before: u64,
    /// Its version after.
    pub after: u64,
    /// The node that part of the keys moved to: whoever had seen `before` relies on it as well now.
    pub split_off: Option<NodeSeen>,
}

/// What an insertion found or made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inserted {
    /// The key had a record.
    Existing(RecordPtr),
    /// It has one now.
    New(RecordPtr, NodeChange),
}

/// The timestamps of an index node.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct NodeStamp {
    /// The structure version, and the latch: odd while somebody changes the node. Grows with each
    /// change of the set of keys.
    pub version: AtomicU64,
    /// Time of the last deletion whose record has left the node. Changes only under the latch.
    pub wts: AtomicU64,
    /// The latest commit time of a transaction that relied on what the node did not hold. Raised by
    /// `fetch_max`, never lowered; read under the latch when a record is put in.
    pub rts: AtomicU64,
}

/// That a transaction has read what a node does not hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeSeen {
    /// The node's stamp: valid while the transaction is pinned.
    pub stamp: NonNull<NodeStamp>,
    /// Its version, even.
    pub version: u64,
    /// Its `wts` at that version.
    pub wts: u64,
    /// Its `rts` at that version or before: a lower bound.
    pub rts: u64,
}

/// The version of a node that has left its index: odd, so that nobody takes it for a state of the
/// node, and never followed by another.
const GONE: u64 = u64::MAX;

impl NodeStamp {
    /// Begins to read the node: its version, even, once nobody changes it. `None` if the node has
    /// left the index.
    #[inline(always)]
    fn begin(&self) -> Option<u64> {
        // Acquire: what is read next is at least as new as this version.
        let version = self.version.load(Ordering::Acquire);
        if version & 1 == 0 { Some(version) } else { self.begin_again() }
    }

    #[cold]
    #[expect(
        clippy::disallowed_methods,
        reason = "a latch is held for some memory work, never across a wait"
    )]
    fn begin_again(&self) -> Option<u64> {
        let mut turn = 0u32;
        loop {
            // Acquire: as above.
            let version = self.version.load(Ordering::Acquire);
            if version & 1 == 0 {
                return Some(version);
            }
            if version == GONE {
                return None;
            }
            // Whoever holds the latch may have lost its core: give ours away now and then.
            if turn % 64 == 63 {
                thread::yield_now();
            } else {
                spin_loop();
            }
            turn = turn.wrapping_add(1);
        }
    }

    /// The version, if nobody changes the node just now.
    #[inline(always)]
    fn begin_now(&self) -> Option<u64> {
        // Acquire: as above.
        let version = self.version.load(Ordering::Acquire);
        (version & 1 == 0).then_some(version)
    }

    /// Whether all that was read since [`NodeStamp::begin`] is of that version.
    #[inline(always)]
    fn is_still(&self, version: u64) -> bool {
        // Acquire, after the reads: if one of them saw a store made under a latch, that latch (see
        // the release fence in `try_latch`) is seen by the load below.
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    /// What a transaction notes that relies on the node at `version`, if it is still so.
    #[inline(always)]
    fn seen(&self, version: u64) -> Option<NodeSeen> {
        // Relaxed: the second look vouches for `wts`, which only changes under the latch.
        let wts = self.wts.load(Ordering::Relaxed);
        // `rts` may be an older one by its contract, but not one that somebody raised too late for
        // an insertion to heed: he found its latch, and so must we. Sequentially consistent, both:
        // the insertion latches, reads `rts` (before it was raised), and we read it (after), then
        // the version. On x86 as cheap as relaxed.
        let rts = self.rts.load(Ordering::SeqCst);
        // Acquire: as in `is_still`.
        fence(Ordering::Acquire);
        let still = self.version.load(Ordering::SeqCst) == version;
        still.then_some(NodeSeen { stamp: NonNull::from(self), version, wts, rts })
    }

    /// Takes the latch if the node is still at `version`.
    #[inline]
    fn try_latch(&self, version: u64) -> Option<Latch<'_>> {
        debug_assert_eq!(version & 1, 0);
        // Sequentially consistent, before `rts` is read: a validator raises `rts` and then loads
        // the version, so that either we see its time or it sees our latch. Acquire is in it: what
        // earlier holders did comes before. Relaxed on failure: nothing was read.
        self.version.compare_exchange(version, version | 1, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        // Release, before our stores: a reader that sees one of them sees the latch too.
        fence(Ordering::Release);
        Some(Latch { stamp: self, before: version })
    }

    /// Takes the latch; `None` if the node has left the index.
    fn latch(&self) -> Option<Latch<'_>> {
        loop {
            let version = self.begin()?;
            if let Some(latch) = self.try_latch(version) {
                return Some(latch);
            }
        }
    }
}

/// A node's latch. Dropped, it leaves the version as it was: then nothing may have been changed.
#[derive(Debug)]
struct Latch<'a> {
    stamp: &'a NodeStamp,
    before: u64,
}

impl Latch<'_> {
    /// Lets go of a node that was changed; returns its new version.
    fn changed(self) -> u64 {
        let after = self.before + 2;
        // Release: our stores come before the version that they belong to.
        self.stamp.version.store(after, Ordering::Release);
        std::mem::forget(self);
        after
    }

    /// Lets go of a node that has left the index.
    fn gone(self) {
        // Release: as above.
        self.stamp.version.store(GONE, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Latch<'_> {
    fn drop(&mut self) {
        // Release: only to keep versions on one chain; there is nothing to publish.
        self.stamp.version.store(self.before, Ordering::Release);
    }
}

/// How many keys that are known together go through an index abreast.
pub(crate) const ABREAST: usize = 16;

/// Asks for the first two lines of a record.
#[inline(always)]
fn prefetch_record(record: RecordPtr) {
    prefetch(record.as_ptr().cast());
    prefetch(record.as_ptr().cast::<u8>().wrapping_add(64));
}

/// The record in an atomic word, zero being none.
#[inline(always)]
fn record_of(word: u64) -> Option<RecordPtr> {
    NonNull::new(std::ptr::with_exposed_provenance_mut::<u64>(word as usize)).map(RecordPtr::new)
}

/// A record as an atomic word.
#[inline(always)]
fn word_of(record: RecordPtr) -> u64 {
    record.as_ptr().expose_provenance() as u64
}

/// Whether two keys are equal: in words while there are some, without a call.
#[inline(always)]
fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let (Some(last), Some(last_of_b)) = (a.last_chunk::<8>(), b.last_chunk::<8>()) else {
        return a == b;
    };
    // Equal from the end, the words may overlap.
    let (words, _) = a.as_chunks::<8>();
    let (words_of_b, _) = b.as_chunks::<8>();
    last == last_of_b && words.iter().zip(words_of_b).all(|(a, b)| a == b)
}

/// What an index knows a short key by.
#[inline(always)]
pub(crate) fn tag_of(key: &[u8]) -> u64 {
    head(key, 0)
}

/// The first 8 bytes of a key from `skip` on, padded with zeros: ordered as the keys are, as far as
/// they go.
#[inline(always)]
fn head(key: &[u8], skip: usize) -> u64 {
    let Some(last) = key.len().checked_sub(8) else {
        return short_head(key.get(skip..).unwrap_or(&[]));
    };
    // Eight bytes that are there, shifted by those that are not: no branch on how many.
    let from = skip.min(last);
    let missing = skip - from;
    // SAFETY: `from + 8` is at most the key's length.
    let word = u64::from_be_bytes(unsafe { key.as_ptr().add(from).cast::<[u8; 8]>().read_unaligned() });
    if missing < 8 { word << (8 * missing) } else { 0 }
}

#[inline]
fn short_head(rest: &[u8]) -> u64 {
    if let Some(first) = rest.first_chunk::<4>() {
        let high = u64::from(u32::from_be_bytes(*first)) << 32;
        return match rest[4..] {
            [] => high,
            [a] => high | u64::from(a) << 24,
            [a, b] => high | u64::from(a) << 24 | u64::from(b) << 16,
            [a, b, c, ..] => high | u64::from(a) << 24 | u64::from(b) << 16 | u64::from(c) << 8,
        };
    }
    rest.iter().zip([56, 48, 40]).fold(0, |word, (byte, shift)| word | u64::from(*byte) << shift)
}

#[cfg(test)]
mod figures;
#[cfg(test)]
mod test_records;
