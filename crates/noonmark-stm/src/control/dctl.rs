//! `DCTL` (§3.1, Algorithm 3): what is written carries the clock's time, and who meets it too early advances the clock.
//!
//! A transaction may read, and write, what nobody holds and what was last written before it began, or by its own
//! slot. Each restart advances the clock.
//!
//! The slot stays in the word when the lock is released. That makes one thread's transactions, however often they
//! write the same, advance nothing at all; and those who write data of their own again and again (per-thread
//! counters, an allocator's lists), which is where TL2 with GV5 restarts all the time.
//!
//! What it does not do: two transactions can make each other restart again and again (§4.2, case 8). See
//! [`DctlSf`](crate::DctlSf).

use super::deferred::Variant;
use super::lock_word::{Limit, LockWord};
use noonmark_core::SlotId;

/// Deferred clock: see `control/dctl.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Dctl;

/// `isReadConsistent` of Algorithm 3 (line 70 in §3.1's count), and `isWriteConsistent` (line 73): the same.
#[inline(always)]
pub(super) fn is_consistent(word: LockWord, limit: Limit, slot: SlotId) -> bool {
    word.is_older_than(limit) || word.is_left_by(slot) || word.is_written_by(slot)
}

impl Variant for Dctl {
    const NAME: &'static str = "DCTL";
    const IS_IRREVOCABLE: bool = false;
    const WRITES_ADVANCE: bool = true;

    #[inline(always)]
    fn is_read_consistent(word: LockWord, limit: Limit, slot: SlotId) -> bool {
        is_consistent(word, limit, slot)
    }

    #[inline(always)]
    fn is_write_consistent(word: LockWord, limit: Limit, slot: SlotId) -> bool {
        is_consistent(word, limit, slot)
    }
}
