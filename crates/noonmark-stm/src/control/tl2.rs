//! `TL2` (Dice, Shalev and Shavit, DISC 2006), with two ways of getting the time of a commit.
//!
//! *GV4*: the clock is advanced by a compare-and-swap, and whoever fails takes the time that another has just made: he
//! held his locks before that. So of many who commit at once few write the clock's line.
//!
//! *GV5*: the time is the clock's next one, and the clock is not advanced; whoever meets a time that is after his own advances
//! it (§2). Unlike under [`Dctl`](crate::Dctl) this happens also to the thread that wrote it: transactions of one thread
//! that write the same again and again restart every time, which is why GV5 is no good for allocators (§3.1, Figure 7).
//!
//! What it does not do: see [`super::versioned`], which has the rest.

use super::clock::Clock;
use super::versioned::{Rival, Versioned};
use noonmark_core::Host;

/// See `control/tl2.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Gv4;

/// See `control/tl2.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Gv5;

/// `TL2-GV4`: the clock is advanced when a transaction commits.
pub type Tl2Gv4 = Versioned<Gv4>;

/// `TL2-GV5`: the clock is advanced by whoever meets a value of its next time.
pub type Tl2Gv5 = Versioned<Gv5>;

impl Rival for Gv4 {
    const NAME: &'static str = "TL2-GV4";
    const LOOKS_FIRST: bool = false;
    const EXTENDS: bool = false;

    #[inline]
    fn commit_time(clock: &Clock, host: &impl Host, began: u64) -> (u64, bool) {
        let now = clock.now_after_fence(host);
        let (time, is_mine) = clock.advance_or_adopt(host, now);
        // Nobody has committed since it began, or none whose locks it could have missed.
        (time, !(is_mine && now == began))
    }

    #[inline]
    fn undo_time(clock: &Clock, host: &impl Host, _: u64) -> Option<u64> {
        let now = clock.now_after_fence(host);
        Some(clock.advance_or_adopt(host, now).0)
    }

    fn met(_: &Clock, _: &impl Host, _: u64) {}
}

impl Rival for Gv5 {
    const NAME: &'static str = "TL2-GV5";
    const LOOKS_FIRST: bool = false;
    const EXTENDS: bool = false;

    #[inline]
    fn commit_time(clock: &Clock, host: &impl Host, _: u64) -> (u64, bool) {
        (clock.now_after_fence(host) + 1, true)
    }

    #[inline]
    fn undo_time(clock: &Clock, host: &impl Host, _: u64) -> Option<u64> {
        Some(clock.now_after_fence(host) + 1)
    }

    fn met(clock: &Clock, host: &impl Host, time: u64) {
        clock.advance_past(host, time - 1);
    }
}
