//! `DCOTL` (§3.2, Algorithm 4): as [`Dctl`](crate::Dctl), but who writes what he has not read need not care when it
//! was last written.
//!
//! A write takes the lock whenever it is free, as under two-phase locking; only reads need the clock. So
//! transactions that overwrite the same variables one after the other advance nothing.
//!
//! The price is a bit in the word: what was locked without a look at its time may be newer than the transaction. If the
//! write replaces only a part of what the lock guards (one field of a node, or one of several variables that
//! share a lock), the rest must not be read; and if the transaction had read it *before*, it must not commit, as
//! somebody may have written in between. So the word remembers, while it is locked, whether its holder
//! could have read it when he took the lock. (The paper calls the executions that this prevents serializable but
//! not opaque. Those of the second kind are not even serializable: an update is lost.)
//!
//! A variable that was overwritten as a whole and is then read back could be read in any case; the word does
//! not know, and the attempt restarts.
//!
//! What it does not do: as `Dctl`, it lets transactions starve. See [`DcotlSf`](crate::DcotlSf).

use super::deferred::Variant;
use super::lock_word::{Limit, LockWord};
use noonmark_core::SlotId;

/// Deferred clock, and overwriting at any time: see `control/dcotl.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Dcotl;

/// `isReadConsistent` of Algorithm 4.
#[inline(always)]
pub(super) fn is_read_consistent(word: LockWord, limit: Limit, slot: SlotId) -> bool {
    word.is_older_than(limit) || word.is_left_by(slot) || (word.is_written_by(slot) && word.is_consistent())
}

/// `isWriteConsistent` of Algorithm 4.
#[inline(always)]
pub(super) fn is_write_consistent(word: LockWord, slot: SlotId) -> bool {
    !word.is_written() || word.is_written_by(slot)
}

impl Variant for Dcotl {
    const NAME: &'static str = "DCOTL";
    const IS_IRREVOCABLE: bool = false;
    const WRITES_ADVANCE: bool = false;

    #[inline(always)]
    fn is_read_consistent(word: LockWord, limit: Limit, slot: SlotId) -> bool {
        is_read_consistent(word, limit, slot)
    }

    #[inline(always)]
    fn is_write_consistent(word: LockWord, _: Limit, slot: SlotId) -> bool {
        is_write_consistent(word, slot)
    }
}
