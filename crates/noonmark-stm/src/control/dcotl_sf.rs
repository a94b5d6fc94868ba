//! `DCOTL-SF` (§5): as [`Dcotl`](crate::Dcotl), and a transaction that has failed a number of times becomes irrevocable,
//! as under [`DctlSf`](crate::DctlSf). The default.
//!
//! What it does not do: as `DctlSf`.

use super::dcotl;
use super::deferred::Variant;
use super::lock_word::{Limit, LockWord};
use noonmark_core::SlotId;

/// Deferred clock, overwriting at any time, starvation-free: see `control/dcotl_sf.rs`.
#[derive(Clone, Copy, Debug)]
pub struct DcotlSf;

impl Variant for DcotlSf {
    const NAME: &'static str = "DCOTL-SF";
    const IS_IRREVOCABLE: bool = true;
    const WRITES_ADVANCE: bool = false;

    #[inline(always)]
    fn is_read_consistent(word: LockWord, limit: Limit, slot: SlotId) -> bool {
        dcotl::is_read_consistent(word, limit, slot)
    }

    #[inline(always)]
    fn is_write_consistent(word: LockWord, _: Limit, slot: SlotId) -> bool {
        dcotl::is_write_consistent(word, slot)
    }
}
