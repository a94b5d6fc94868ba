//! The gate: how a transaction that keeps losing is let through.
//!
//! After [`Policy::escape_after`](crate::Policy) failed attempts a transaction queues up at the gate.
//! While somebody is in line, no other transaction begins an attempt; the first in line waits until
//! those under way have ended, one way or the other, and then runs alone: it cannot meet a conflict,
//! and commits. So its attempts are bounded by `escape_after` and one more, whatever the protocol and
//! whatever the others want; and between its joining the line and its commit each other session commits
//! at most once, either what it had under way or because it was in line before.
//!
//! An attempt *says that it runs, then looks at the gate*, and takes it back if the gate is closed; the
//! one in line *closes the gate, then looks who runs*. Both have a sequentially consistent fence in
//! between (that of the epoch's pin, and one here), so that at least one sees the other. Whoever has
//! waited outside begins in the same way, and looks again: somebody else may have closed the gate since.
//!
//! An attempt waits outside holding nothing, for as long as it takes: the one inside is alone, so nobody
//! keeps it from ending. Three things would make that wait last for ever, or too long:
//!
//! - A thread begins a second transaction in the midst of the one that is inside. It is let through,
//!   which is known by the caller ([`Host::caller_hint`]).
//! - A transaction that was begun by hand is left open. The first in line waits [`OPEN_ENDED_NS`] for it.
//! - A thread begins a second transaction in the midst of one that is under way, and so holds what that
//!   one holds while it stands outside. The first in line waits [`UNDER_WAY_NS`] for it: no body of a
//!   transaction that ends by itself should take so long.
//!
//! In the last two cases the first in line goes inside though it is not alone ([`SHARED`]): it may lose
//! again, and then waits anew. Those outside may be what holds up whoever is in there with it, so they wait
//! no longer than [`OUTSIDE_NS`]. The bound does not hold for as long as this lasts.

use noonmark_core::sync::{AtomicU32, Mutex, Ordering, fence};
use noonmark_core::{Host, SlotId, Slots, WaitFor, WaitingRoom};
use std::collections::VecDeque;
use std::task::Poll;

/// How long the first in line waits for a transaction that was begun by hand.
const OPEN_ENDED_NS: u64 = 100_000_000;
/// How long the first in line waits for any other: beyond all reason.
const UNDER_WAY_NS: u64 = 10_000_000_000;
/// How long an attempt waits outside while the first in line is not alone.
const OUTSIDE_NS: u64 = 1_000_000_000;

/// Nobody is in line.
const OPEN: u32 = 0;
/// Somebody is in line, and is alone or waits until it is: nobody else begins.
const CLOSED: u32 = 1;
/// The first in line runs, and not alone.
const SHARED: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Written under the lock of `line`; read without by everybody, so it is on a line that hardly
    /// ever changes.
    state: AtomicU32,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    slots: VecDeque<SlotId>,
    /// Who asked for what the first in line runs; `None` while it waits.
    inside: Option<usize>,
}

/// How an attempt may go on that found the gate closed.
pub(crate) enum Passed {
    /// It begins.
    Through,
    /// It begins, and takes it back unless the gate still [lets in](Gate::lets_in) those who have waited
    /// like this.
    Outside { patient: bool },
    /// Not at all: its deadline is over.
    Late,
}

impl Gate {
    fn line(&self) -> impl std::ops::DerefMut<Target = Line> + '_ {
        self.line.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Queues up, unless in line already.
    pub(crate) fn enter(&self, slot: SlotId) {
        let mut line = self.line();
        if !line.slots.contains(&slot) {
            line.slots.push_back(slot);
            if line.slots.len() == 1 {
                // Relaxed: the fence in `is_alone` orders it.
                self.state.store(CLOSED, Ordering::Relaxed);
            }
        }
    }

    /// Leaves the line, and lets the next one in.
    pub(crate) fn leave(&self, slot: SlotId, slots: &Slots, room: &WaitingRoom) {
        let mut line = self.line();
        let was_first = line.slots.front() == Some(&slot);
        line.slots.retain(|&other| other != slot);
        if was_first {
            line.inside = None;
            let state = if line.slots.is_empty() { OPEN } else { CLOSED };
            // Relaxed: as in `enter`; and who sees it open need see nothing else.
            self.state.store(state, Ordering::Relaxed);
        }
        let next = line.slots.front().copied();
        drop(line);
        // Only who can go on now: with many outside, waking them all each time would keep the one who
        // is next from its core.
        match next {
            Some(next) if was_first => room.wake(WaitFor::release_of(slots.get(next))),
            Some(_) => {}
            None => room.wake(WaitFor::release_of(self)),
        }
    }

    /// Whether somebody is in line, so that an attempt that has just begun must perhaps take it back.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: the fence of the pin comes before.
        self.state.load(Ordering::Relaxed) != OPEN
    }

    /// Whether an attempt that has waited outside, and has just begun, may go on.
    pub(crate) fn lets_in(&self, patient: bool) -> bool {
        // Relaxed: as above.
        match self.state.load(Ordering::Relaxed) {
            OPEN => true,
            SHARED => patient,
            _ => false,
        }
    }

    /// Waits until this slot may begin an attempt, or until the deadline. Cold: only while somebody is in
    /// line.
    #[cold]
    pub(crate) fn pass<H: Host>(
        &self,
        slot: SlotId,
        host: &H,
        slots: &Slots,
        room: &WaitingRoom,
        deadline_ns: Option<u64>,
    ) -> Passed {
        let caller = host.caller_hint();
        let (on, in_line) = {
            let line = self.line();
            if line.inside == Some(caller) && line.slots.front() != Some(&slot) {
                return Passed::Through;
            }
            let in_line = line.slots.contains(&slot);
            (if in_line { WaitFor::release_of(slots.get(slot)) } else { WaitFor::release_of(self) }, in_line)
        };
        let passed = loop {
            let patience_ns = host.now_ns().saturating_add(OUTSIDE_NS);
            let until_ns = deadline_ns.map_or(patience_ns, |deadline| deadline.min(patience_ns));
            let turn = host.block_on(Some(until_ns), |waker| {
                room.register(on, slot, waker);
                let first = self.line().slots.front().copied();
                let goes_on = if in_line { first == Some(slot) } else { first.is_none() };
                if goes_on { Poll::Ready(()) } else { Poll::Pending }
            });
            if turn.is_some() && in_line {
                break self.go_inside(slot, caller, host, slots, deadline_ns);
            } else if turn.is_some() {
                break Passed::Outside { patient: false };
            } else if deadline_ns.is_some_and(|deadline| host.now_ns() >= deadline) || host.is_over() {
                break Passed::Late;
            } else if self.lets_in(true) {
                break Passed::Outside { patient: true };
            }
        };
        room.leave(on, slot);
        passed
    }

    /// The first in line waits until it is alone, if it can be.
    fn go_inside<H: Host>(
        &self,
        slot: SlotId,
        caller: usize,
        host: &H,
        slots: &Slots,
        deadline_ns: Option<u64>,
    ) -> Passed {
        self.line().inside = None;
        let mut alone = self.is_alone(slot, host, slots, deadline_ns);
        // Relaxed: only who is first in line changes it now.
        if alone && self.state.load(Ordering::Relaxed) == SHARED {
            // An attempt of ours was not alone, and some of those outside may have come in since.
            self.close(CLOSED);
            alone = self.is_alone(slot, host, slots, deadline_ns);
        }
        if deadline_ns.is_some_and(|deadline| !alone && host.now_ns() >= deadline) {
            return Passed::Late;
        }
        if !alone {
            self.close(SHARED);
        }
        self.line().inside = Some(caller);
        Passed::Through
    }

    /// For the first in line.
    fn close(&self, state: u32) {
        let _line = self.line();
        // Relaxed: the fence in `is_alone` orders it where that matters.
        self.state.store(state, Ordering::Relaxed);
    }

    /// Waits until everybody else has ended what ran when the gate was closed; false if somebody has
    /// not, for too long.
    fn is_alone<H: Host>(&self, slot: SlotId, host: &H, slots: &Slots, deadline_ns: Option<u64>) -> bool {
        fence(Ordering::SeqCst);
        let began_ns = host.now_ns();
        let mut alone = true;
        let others = (0..slots.count()).filter_map(SlotId::new).filter(|&other| other != slot);
        for other in others {
            let Some(running) = slots.running(other) else { continue };
            let open_ended = slots.get(other).is_open_ended();
            let patience_ns = began_ns.saturating_add(if open_ended { OPEN_ENDED_NS } else { UNDER_WAY_NS });
            let until_ns = deadline_ns.map_or(patience_ns, |deadline| deadline.min(patience_ns));
            let mut turn = 0;
            while slots.running(other) == Some(running) {
                if host.now_ns() >= until_ns {
                    alone = false;
                    break;
                }
                // It holds no lock of ours, so there is nothing it could wake us at.
                if turn < 1_000 {
                    host.spin(turn);
                } else {
                    host.sleep_ns(20_000);
                }
                turn += 1;
            }
        }
        alone
    }
}
