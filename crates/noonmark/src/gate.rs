//! The gate: how a transaction that keeps losing is let through.
//!
//! After [`Policy::escape_after`](crate::Policy) failed attempts a transaction queues up at the gate.
//! While somebody is in line, no other transaction begins an attempt; the first in line waits until
//! those under way have ended, one way or the other, and then runs alone: it cannot meet a conflict,
//! and commits. So its attempts are bounded by `escape_after` and one more, whatever the protocol and
//! whatever the others want, and others wait for each transaction in line once.
//!
//! An attempt *says that it runs, then looks at the gate*, and takes it back if the gate is closed; the
//! one in line *closes the gate, then looks who runs*. Both have a sequentially consistent fence in
//! between (that of the epoch's pin, and one here), so that at least one sees the other.
//!
//! An attempt waits at the gate holding nothing. Two things could make waiting here last for ever, and
//! the bound does not hold for them: a transaction that was begun by hand and is left open, which the
//! one in line waits for no longer than [`OPEN_ENDED_NS`]; and a thread that begins a second
//! transaction in the midst of one, and so holds what the first one holds while it stands outside,
//! which it does for no longer than [`OUTSIDE_NS`].

use noonmark_core::sync::{AtomicBool, Mutex, Ordering, fence};
use noonmark_core::{Host, SlotId, Slots, WaitFor, WaitingRoom};
use std::collections::VecDeque;
use std::task::Poll;

/// How long the one in line waits for a transaction that was begun by hand.
const OPEN_ENDED_NS: u64 = 100_000_000;
/// How long the one in line waits for any other: beyond all reason.
const UNDER_WAY_NS: u64 = 10_000_000_000;
/// How long an attempt waits for the gate to open.
const OUTSIDE_NS: u64 = 1_000_000_000;

#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Whether somebody is in line. Written under the lock of `line`; read without by everybody, so
    /// it is on a line that hardly ever changes.
    closed: AtomicBool,
    line: Mutex<VecDeque<SlotId>>,
}

impl Gate {
    fn line(&self) -> impl std::ops::DerefMut<Target = VecDeque<SlotId>> + '_ {
        self.line.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Queues up, unless in line already.
    pub(crate) fn enter(&self, slot: SlotId) {
        let mut line = self.line();
        if !line.contains(&slot) {
            line.push_back(slot);
            // Relaxed: the fence in `wait_until_alone` orders it.
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    /// Leaves the line, and lets the next one in.
    pub(crate) fn leave(&self, slot: SlotId, room: &WaitingRoom) {
        let mut line = self.line();
        line.retain(|&other| other != slot);
        self.closed.store(!line.is_empty(), Ordering::Relaxed);
        drop(line);
        room.wake(WaitFor::release_of(self));
    }

    /// Whether somebody is in line, so that an attempt that has just begun must perhaps take it back.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: the fence of the pin comes before.
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether this slot is the first in line.
    pub(crate) fn is_first(&self, slot: SlotId) -> bool {
        self.line().front() == Some(&slot)
    }

    /// The first in line waits until everybody else has ended what ran when the gate was closed.
    #[cold]
    pub(crate) fn wait_until_alone<H: Host>(&self, slot: SlotId, host: &H, slots: &Slots) {
        fence(Ordering::SeqCst);
        let began_ns = host.now_ns();
        let others = (0..slots.count()).filter_map(SlotId::new).filter(|&other| other != slot);
        for other in others {
            let Some(running) = slots.running(other) else { continue };
            let open_ended = slots.get(other).is_open_ended();
            let patience_ns = if open_ended { OPEN_ENDED_NS } else { UNDER_WAY_NS };
            let deadline_ns = began_ns.saturating_add(patience_ns);
            let mut turn = 0;
            while slots.running(other) == Some(running) && host.now_ns() < deadline_ns {
                // It holds no lock of ours, so there is nothing it could wake us at.
                if turn < 1_000 {
                    host.spin(turn);
                } else {
                    host.sleep_ns(20_000);
                }
                turn += 1;
            }
        }
    }

    /// Waits until this slot may begin an attempt. Cold: only while somebody is in line.
    #[cold]
    pub(crate) fn pass<H: Host>(&self, slot: SlotId, host: &H, room: &WaitingRoom) {
        let on = WaitFor::release_of(self);
        let deadline_ns = host.now_ns().saturating_add(OUTSIDE_NS);
        let _: Option<()> = host.block_on(Some(deadline_ns), |waker| {
            room.register(on, slot, waker);
            let line = self.line();
            match line.front() {
                Some(&first) if first != slot => Poll::Pending,
                _ => Poll::Ready(()),
            }
        });
        room.leave(on, slot);
    }
}
