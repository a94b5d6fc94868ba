//! `TinySTM` (Felber, Fetzer and Riegel, PPoPP 2008; Felber et al., TPDS 2010): the lazy snapshot algorithm, writing in place.
//!
//! A transaction that meets a newer value looks whether anything that it has read has changed. If not, it could as well have
//! begun now: it moves its time on, and goes on. A transaction that only reads logs nothing, and must restart.
//!
//! Every writing commit adds one to the clock. What was undone is left with a time that is one later than before, in place
//! of TinySTM's *incarnation number*, which has bits of its own in the word: a reader finds that the word has changed,
//! and the clock is advanced only if it shows less.
//!
//! `ORec` (Zardoshti et al., TACO 2019) in its eager form is the same algorithm, down to what an undoing leaves; so it has no
//! file of its own (`docs/decisions/0021`).
//!
//! What it does not do: see [`super::versioned`], which has the rest.

use super::clock::Clock;
use super::versioned::{Rival, Versioned};
use noonmark_core::Host;

/// See `control/tinystm.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Lsa;

/// `TinySTM`: the clock is advanced when a transaction commits, and a transaction's time can be moved on.
pub type TinyStm = Versioned<Lsa>;

impl Rival for Lsa {
    const NAME: &'static str = "TinySTM";
    const LOOKS_FIRST: bool = true;
    const EXTENDS: bool = true;

    #[inline]
    fn commit_time(clock: &Clock, host: &impl Host, began: u64) -> (u64, bool) {
        let time = clock.advance(host);
        // Nobody has committed since it began.
        (time, time != began + 1)
    }

    #[inline]
    fn undo_time(clock: &Clock, host: &impl Host, newest: u64) -> Option<u64> {
        clock.advance_past(host, newest);
        None
    }

    fn met(_: &Clock, _: &impl Host, _: u64) {}
}
