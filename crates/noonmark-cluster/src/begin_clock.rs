//! The times at which transactions begin, where that is when they take place.
//!
//! Under `fixed` ([beginnings](noonmark::Order::Beginning)) a transaction brings its time to every server that it touches. Each server
//! has a clock of its own for the clients that are at home there, and these need not agree: what they disagree by makes transactions
//! abort, and never a wrong order.
//!
//! # Invariants
//!
//! 1. No two clocks of a cluster give the same time: each has its own remainder modulo the number of servers.
//! 2. No clock gives a time twice, or one that is earlier than one it gave before: so whoever begins at a server after another of its clients
//!    has committed comes after that one.

use crate::partition::ServerId;
use noonmark::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering};

/// A tick of the clocks, before they are made different from each other.
const TICK_NS: u64 = 1_000;

/// A server's clock, for all clients that are at home there. `Send` and `Sync`.
///
/// With `n` servers, times last for 2^50 / `n` microseconds from when the host's time began: nine years with four servers, seven weeks with
/// 256. After that nobody can write any more.
#[derive(Debug)]
pub struct BeginClock {
    server: u64,
    servers: u64,
    ahead_ns: u64,
    /// In ticks: what it shows when it is told that no time has passed.
    zero: AtomicU64,
    /// In ticks: the last that it gave.
    last: AtomicU64,
}

impl BeginClock {
    /// That of one of so many servers, ahead of the time that it is told by so much.
    pub fn new(server: ServerId, servers: u16, ahead_ns: u64) -> Self {
        let servers = u64::from(servers.max(1));
        let server = server.index() as u64 % servers;
        BeginClock { server, servers, ahead_ns, zero: AtomicU64::new(0), last: AtomicU64::new(0) }
    }

    /// The latest time that it has given, or one that is a little later.
    pub fn latest(&self) -> Timestamp {
        let next = (self.last.load(Ordering::Relaxed) + 1).saturating_mul(self.servers);
        Timestamp::new(next.min(Timestamp::MAX.ticks()))
    }

    /// From here on, the time that it is told counts from this one on: for a cluster that had rows before its time began.
    pub fn count_from(&self, time: Timestamp) {
        self.zero.store(time.ticks() / self.servers + 1, Ordering::Relaxed);
    }

    /// How far times are apart that were given so much one after another.
    pub fn distance(&self, ns: u64) -> u64 {
        (ns / TICK_NS).saturating_mul(self.servers)
    }

    /// A time after this one, and after all that it has given before: that which it is, if that is so.
    pub fn draw(&self, now_ns: u64, after: Timestamp) -> Timestamp {
        let zero = self.zero.load(Ordering::Relaxed);
        let now = zero.saturating_add(now_ns.saturating_add(self.ahead_ns) / TICK_NS);
        let earliest = now.max(after.ticks() / self.servers + 1);
        // Relaxed: all that matters is that no two get the same.
        let last =
            self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(earliest.max(last + 1)));
        let (Ok(last) | Err(last)) = last;
        let time = earliest.max(last + 1).saturating_mul(self.servers).saturating_add(self.server);
        Timestamp::new(time.min(Timestamp::MAX.ticks()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_give_times_of_their_own() {
        let clock = |server, ahead_ns| BeginClock::new(ServerId::new(server), 3, ahead_ns);
        let (first, second, ahead) = (clock(0, 0), clock(1, 0), clock(2, 2_000));
        let zero = Timestamp::ZERO;
        let drawn = |clock: &BeginClock, now_ns, after| clock.draw(now_ns, after).ticks();
        assert_eq!(drawn(&first, 5_000, zero), 15);
        assert_eq!(drawn(&second, 5_999, zero), 16, "the same tick, and yet another time");
        assert_eq!(drawn(&ahead, 5_000, zero), 23);
        assert_eq!(drawn(&first, 5_000, zero), 18, "never the same twice");
        assert_eq!(drawn(&first, 5_000, Timestamp::new(23)), 24, "after what its client knows of");
        assert_eq!(drawn(&second, 5_000, Timestamp::new(16)), 19);
        assert_eq!(drawn(&first, 4_000, zero), 27, "nor an earlier one");
        assert_eq!((first.distance(4_000), first.distance(999)), (12, 0));
        let loaded = first.latest().max(ahead.latest());
        second.count_from(loaded);
        assert_eq!((loaded.ticks(), drawn(&second, 0, zero), drawn(&second, 5_000, zero)), (30, 34, 49));
        assert_eq!(first.draw(u64::MAX, zero), Timestamp::MAX);
    }
}
