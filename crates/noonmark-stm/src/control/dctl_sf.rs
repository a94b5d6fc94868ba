//! `DCTL-SF` (§5): as [`Dctl`](crate::Dctl), and a transaction that has failed a number of times becomes irrevocable.
//!
//! One transaction at a time is irrevocable; the others queue up for the ticket, in order. It locks what it reads, too,
//! by a bit that keeps speculative transactions from taking the write lock, but not from reading. Where it finds a
//! writer it waits, and nobody else can get in between: so it waits at most once for each thing that it reads or
//! writes, and at most for one transaction in each case (§5.1). It commits, whatever the others do: after
//! `K` failed attempts, with the next one.
//!
//! That others commit meanwhile is no contradiction: whatever does not write what it reads, and reads nothing that it
//! writes, goes on.
//!
//! The price: letting go of a lock takes an atomic step, as the bit may be set at any moment.
//!
//! What it does not do: it makes no promise about a transaction whose closure does not return, or that is
//! called off and begun anew from outside.

use super::dctl;
use super::deferred::Variant;
use super::lock_word::{Limit, LockWord};
use noonmark_core::SlotId;

/// Deferred clock, starvation-free: see `control/dctl_sf.rs`.
#[derive(Clone, Copy, Debug)]
pub struct DctlSf;

impl Variant for DctlSf {
    const NAME: &'static str = "DCTL-SF";
    const IS_IRREVOCABLE: bool = true;
    const WRITES_ADVANCE: bool = true;

    #[inline(always)]
    fn is_read_consistent(word: LockWord, limit: Limit, slot: SlotId) -> bool {
        dctl::is_consistent(word, limit, slot)
    }

    #[inline(always)]
    fn is_write_consistent(word: LockWord, limit: Limit, slot: SlotId) -> bool {
        dctl::is_consistent(word, limit, slot)
    }
}
