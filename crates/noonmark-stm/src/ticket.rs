//! The ticket lock: who may be irrevocable, one at a time and in the order in which they came (§5, `gTicketLock`).
//!
//! Whoever wants it draws a number and sleeps until it is called. It is starvation-free: before each come only those who
//! drew before.
//!
//! The order that loses no wake-up: whoever waits *draws, leaves a waker in the room, and looks at the number that is
//! called*; whoever lets go *calls the next number, and looks whether anybody has drawn it*, and if so wakes. All
//! four steps on the two numbers are sequentially consistent: if the one who lets go does not see the drawing,
//! then the one who waits sees the call. If he does, the room's mutex decides: either he finds the waker, or the
//! waker comes later, and then its owner looks after the call.
//!
//! What it does not do: nobody can give up waiting; whoever has drawn is called.

use crate::lines::Space;
use noonmark_core::sync::{AtomicU64, CachePadded, Ordering};
use noonmark_core::{Access, Host, SlotId, WaitFor, WaitingRoom};
use std::task::Poll;

/// See the module's page.
#[derive(Debug)]
pub struct TicketLock {
    /// The number that the next one draws.
    drawn: CachePadded<AtomicU64>,
    /// The number whose turn it is.
    called: CachePadded<AtomicU64>,
}

impl Default for TicketLock {
    fn default() -> Self {
        TicketLock { drawn: CachePadded(AtomicU64::new(0)), called: CachePadded(AtomicU64::new(0)) }
    }
}

/// The right to be irrevocable, until it is dropped.
pub struct Ticket<'a, H: Host> {
    lock: &'a TicketLock,
    host: &'a H,
    room: &'a WaitingRoom,
    number: u64,
}

/// A number is about to be looked at or changed: the one that is drawn, or the one that is called.
fn touch_drawn(host: &impl Host, access: Access) {
    host.touch(|| Space::Ticket.line(0), access);
}

fn touch_called(host: &impl Host, access: Access) {
    host.touch(|| Space::Ticket.line(1), access);
}

impl TicketLock {
    /// Draws a number, and waits until it is called.
    pub fn take<'a, H: Host>(&'a self, host: &'a H, room: &'a WaitingRoom, slot: SlotId) -> Ticket<'a, H> {
        touch_drawn(host, Access::ReadModifyWrite);
        let number = self.drawn.fetch_add(1, Ordering::SeqCst);
        let ticket = Ticket { lock: self, host, room, number };
        touch_called(host, Access::Read);
        if self.called.load(Ordering::SeqCst) != number {
            let on = WaitFor::release_of(self);
            host.block_on(None, |waker| {
                room.register(on, slot, waker);
                touch_called(host, Access::Read);
                if self.called.load(Ordering::SeqCst) == number { Poll::Ready(()) } else { Poll::Pending }
            });
            room.leave(on, slot);
        }
        ticket
    }
}

impl<H: Host> Drop for Ticket<'_, H> {
    fn drop(&mut self) {
        let next = self.number + 1;
        touch_called(self.host, Access::Write);
        // Also a release of all that was done under it: whoever is called acquires.
        self.lock.called.store(next, Ordering::SeqCst);
        touch_drawn(self.host, Access::Read);
        if self.lock.drawn.load(Ordering::SeqCst) > next {
            // All who wait look; one of them finds its number.
            self.room.wake(WaitFor::release_of(self.lock));
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use noonmark_core::Threads;
    use std::sync::atomic::AtomicU64 as Plain;

    #[test]
    fn one_at_a_time_holds_it_and_all_get_it() {
        let (lock, room, host) = (TicketLock::default(), WaitingRoom::new(), Threads::default());
        let (inside, total) = (Plain::new(0), Plain::new(0));
        std::thread::scope(|scope| {
            let begin = |index| {
                let (lock, room, host, inside, total) = (&lock, &room, &host, &inside, &total);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let ticket = lock.take(host, room, SlotId::new(index).unwrap());
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        total.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(inside.fetch_sub(1, Ordering::Relaxed), 1);
                        drop(ticket);
                    }
                })
            };
            let threads = [0, 1, 2, 3].map(begin);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert_eq!((total.into_inner(), room.count()), (2000, 0));
    }
}
