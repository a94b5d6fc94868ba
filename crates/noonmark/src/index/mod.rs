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

use noonmark_core::sync::AtomicU64;
use std::ptr::NonNull;

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
