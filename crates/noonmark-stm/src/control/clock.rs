//! The central clock.
//!
//! A counter on cache lines of its own, which every transaction looks at when it begins. Who advances it, and when, is
//! what the [controls](crate::control) differ in.
//!
//! It begins at 1, so that what nobody has written (time 0) is older than every transaction. It ends at
//! [`TIME_MAX`], which at forty million advances a second, as many as the paper's machine can do (§7.1), is
//! after 325 days; the memory is then used up, and says so by a panic rather than by a wrong value.
//!
//! What it does not do: it does not tell the time of day.

use super::lock_word::TIME_MAX;
use crate::lines::Space;
use noonmark_core::sync::{AtomicU64, CachePadded, Ordering};
use noonmark_core::{Access, Host};

/// See the module's page.
#[derive(Debug)]
pub struct Clock(CachePadded<AtomicU64>);

impl Default for Clock {
    fn default() -> Self {
        Clock(CachePadded(AtomicU64::new(1)))
    }
}

/// It is about to be touched.
#[inline(always)]
fn touch(host: &impl Host, access: Access) {
    host.touch(|| Space::Clock.line(0), access);
}

impl Clock {
    /// What it shows, to one who asks from outside of any transaction.
    pub fn time(&self) -> u64 {
        // Acquire: as in `now`.
        self.0.load(Ordering::Acquire)
    }

    /// What it shows. *Acquire*: with a time comes all that was done before somebody advanced the clock to it.
    #[inline(always)]
    pub fn now(&self, host: &impl Host) -> u64 {
        touch(host, Access::Read);
        self.0.load(Ordering::Acquire)
    }

    /// What it shows, to one who has just passed a sequentially consistent fence.
    #[inline(always)]
    pub fn now_after_fence(&self, host: &impl Host) -> u64 {
        touch(host, Access::Read);
        // Relaxed: see `crate::control::deferred` on the two fences.
        self.0.load(Ordering::Relaxed)
    }

    /// Sees to it that it shows more than `time`; tells whether it did not before.
    #[inline]
    pub fn advance_past(&self, host: &impl Host, time: u64) -> bool {
        touch(host, Access::Read);
        let mut now = self.0.load(Ordering::Relaxed);
        while now <= time {
            touch(host, Access::ReadModifyWrite);
            // Release: what the caller did comes before what is done at the new time. Acquire: so does what
            // others did before an earlier time. (A later one that is found goes to whoever begins then.)
            match self.0.compare_exchange(now, Self::within(time + 1), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// Advances it by one, and answers the new time.
    #[inline]
    pub fn advance(&self, host: &impl Host) -> u64 {
        touch(host, Access::ReadModifyWrite);
        // Sequentially consistent, which on the machines we know costs no more: the locks that were taken come
        // before, and what is validated after.
        Self::within(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Advances it by one from what the caller has seen, after a fence and with all its locks; answers the new time, and
    /// whether it was the caller who made it. If others were faster, their time does as well.
    #[inline]
    pub fn advance_or_adopt(&self, host: &impl Host, seen: u64) -> (u64, bool) {
        let next = Self::within(seen + 1);
        touch(host, Access::ReadModifyWrite);
        // Acquire and release as in `advance_past`.
        match self.0.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => (next, true),
            Err(now) => (now, false),
        }
    }

    #[inline(always)]
    fn within(time: u64) -> u64 {
        assert!(time < TIME_MAX, "the clock of this transactional memory has come to its end");
        time
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use noonmark_core::Threads;

    #[test]
    fn it_is_advanced_as_far_as_it_takes_and_no_further() {
        let (clock, host) = (Clock::default(), &Threads::default());
        assert_eq!(clock.now(host), 1);
        assert!(!clock.advance_past(host, 0) && clock.now(host) == 1);
        assert!(clock.advance_past(host, 1) && clock.now(host) == 2);
        assert!(clock.advance_past(host, 7) && clock.now(host) == 8);
        assert!(!clock.advance_past(host, 5) && clock.now(host) == 8);
        assert_eq!((clock.advance(host), clock.now(host)), (9, 9));
        let twice = [0; 2].map(|_| clock.advance_or_adopt(host, 9));
        assert_eq!(twice, [(10, true), (10, false)]);
    }

    #[test]
    #[should_panic(expected = "has come to its end")]
    fn it_ends_with_a_clear_word() {
        let clock = Clock::default();
        clock.advance_past(&Threads::default(), TIME_MAX - 1);
    }
}
