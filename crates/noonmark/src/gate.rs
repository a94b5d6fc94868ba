//! The gate: how a transaction that keeps losing is let through.
//!
//! After [`Policy::escape_after`](crate::Policy) failed attempts a transaction queues up at the gate.
//! While its first in line tries, no other transaction begins an attempt; those under way end, one
//! way or the other, and wait before they try again. So the one inside meets each other session at
//! most once more, and its attempts are bounded by `escape_after` and the number of sessions,
//! whatever the protocol and whatever the others want.
//!
//! An attempt waits at the gate only before it has begun, when it holds nothing. A thread that begins
//! a second transaction in the midst of one, however, holds what the first one holds; so that it
//! cannot block the one inside for ever, waiting at the gate ends after [`PATIENCE_NS`].

use noonmark_core::sync::{AtomicBool, Mutex, Ordering};
use noonmark_core::{Host, SlotId, WaitFor, WaitingRoom};
use std::collections::VecDeque;
use std::task::Poll;

/// How long an attempt waits for the gate to open at most.
const PATIENCE_NS: u64 = 100_000_000;

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
            // Relaxed: who misses it begins one attempt more, which the bound allows for.
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

    /// Waits until this slot may begin an attempt.
    #[inline(always)]
    pub(crate) fn pass<H: Host>(&self, slot: SlotId, host: &H, room: &WaitingRoom) {
        if self.closed.load(Ordering::Relaxed) {
            self.pass_slowly(slot, host, room);
        }
    }

    #[cold]
    fn pass_slowly<H: Host>(&self, slot: SlotId, host: &H, room: &WaitingRoom) {
        let on = WaitFor::release_of(self);
        let deadline_ns = host.now_ns().saturating_add(PATIENCE_NS);
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
