//! What a workload is, to the driver.
//!
//! A [`Workload`] has made its tables when the driver gets it. The driver has it loaded by several threads at
//! once, each with a [`Share`] of the rows; asks it for a [`Workload::Worker`] for each thread, which is where
//! requests are drawn ahead of time; calls [`Workload::execute`] over and over while the clock runs; and hands
//! all workers back at the end, so that the workload can check what should hold.
//!
//! Requests stand in a [`Ring`] that a worker goes round. It must be longer than what a cache keeps of it, or
//! the same few rows stay warm and the figures flatter: see [`Seat::requests`].

use crate::random::Random;
use crate::store::{Store, StoreError, TxnResult};

/// Why a run did not come about, or did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A setting that makes no sense, alone or with the others. Change it.
    #[error("{0}")]
    Setting(String),
    /// The rows would not fit. Use fewer rows.
    #[error("loading needs about {} of memory, {} are available: use fewer rows or warehouses", human_bytes(*.needed_bytes), human_bytes(*.available_bytes))]
    Memory {
        /// What the rows are estimated to take.
        needed_bytes: u64,
        /// What the system says is free.
        available_bytes: u64,
    },
    /// The store could not be set up.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A transaction failed in a way that no retry mends.
    #[error("{doing} failed: {reason}")]
    Transaction {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        reason: String,
    },
    /// The history could not be written.
    #[error("history {path}: {source}")]
    History {
        /// The file.
        path: std::path::PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The system would not start so many threads. Use fewer.
    #[error("a thread could not be started: {0}; use fewer threads")]
    Threads(std::io::Error),
    /// A worker thread ended in a panic: a defect here or in the engine.
    #[error("a worker thread panicked")]
    Panic,
}

impl RunError {
    /// A transaction failed for good.
    pub fn transaction(doing: &'static str, reason: impl std::fmt::Display) -> Self {
        RunError::Transaction { doing, reason: reason.to_string() }
    }
}

pub(crate) fn human_bytes(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes < 1024.0 { format!("{mebibytes:.0} MiB") } else { format!("{:.1} GiB", mebibytes / 1024.0) }
}

/// Which of the rows a loading thread loads.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// This share, from 0.
    pub index: u64,
    /// Of so many.
    pub count: u64,
}

impl Share {
    /// The part of `0..total` that is this share's.
    pub fn of(self, total: u64) -> std::ops::Range<u64> {
        let cut = |index: u64| (u128::from(total) * u128::from(index) / u128::from(self.count)) as u64;
        cut(self.index)..cut(self.index + 1)
    }
}

/// A worker's place.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Which worker, from 0.
    pub number: usize,
    /// Of so many.
    pub count: usize,
    /// Its random numbers.
    pub random: Random,
    /// How many requests to draw ahead.
    pub requests: usize,
    /// The one clock of the run: histories tell time since this.
    pub epoch: std::time::Instant,
}

/// One condition that was checked after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether it held.
    pub holds: bool,
    /// In words, with the figures that were compared.
    pub words: String,
}

impl Condition {
    /// That two figures are the same.
    pub fn equal<T: PartialEq + std::fmt::Display>(what: &str, found: T, expected: T) -> Self {
        let holds = found == expected;
        let verb = if holds { "is" } else { "should be" };
        let words = if holds {
            format!("{what} {verb} {expected}")
        } else {
            format!("{what} {verb} {expected} but is {found}")
        };
        Condition { holds, words }
    }

    /// That something holds, in words.
    pub fn that(holds: bool, words: impl Into<String>) -> Self {
        Condition { holds, words: words.into() }
    }
}

/// A workload with its tables on one store.
pub trait Workload<S: Store>: Send + Sync {
    /// What a worker thread keeps: its requests and its tallies.
    type Worker: Send;

    /// How many rows the load writes.
    fn rows(&self) -> u64;

    /// About how many bytes of memory the loaded rows take, keys, headers and index included.
    fn load_bytes(&self) -> u64;

    /// About how many bytes of memory more a committed transaction leaves behind, on average.
    fn growth_bytes(&self) -> u64 {
        0
    }

    /// Writes a share of the rows, and says now and then how many more are there.
    fn load(&self, session: &mut S::Session, share: Share, loaded: &dyn Fn(u64)) -> Result<(), RunError>;

    /// Makes a worker and draws its requests. This is not timed.
    fn worker(&self, seat: Seat) -> Result<Self::Worker, RunError>;

    /// Runs one transaction: `Ok` when it committed, [`Failure::Rollback`](crate::store::Failure::Rollback)
    /// when it ended as a user rollback should. Any other failure ends the run.
    fn execute(&self, session: &mut S::Session, worker: &mut Self::Worker) -> TxnResult<S, ()>;

    /// Checks what should hold after the run. Nothing else runs by then.
    fn check(
        &self,
        session: &mut S::Session,
        workers: &mut Vec<Self::Worker>,
    ) -> Result<Vec<Condition>, RunError>;
}

/// Requests drawn ahead, gone round and round.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    items: Vec<T>,
    /// Items of one request.
    stride: usize,
    next: usize,
}

impl<T> Ring<T> {
    /// So many requests of `stride` items each, at least one of at least one.
    pub fn of(requests: usize, stride: usize, mut draw: impl FnMut() -> T) -> Self {
        let stride = stride.max(1);
        let items = (0..requests.max(1) * stride).map(|_| draw()).collect();
        Ring { items, stride, next: 0 }
    }

    /// The ring of these items, `stride` a request; what is left over at the end is cut off. `None` when
    /// that leaves nothing.
    pub fn from_items(mut items: Vec<T>, stride: usize) -> Option<Self> {
        let stride = stride.max(1);
        items.truncate(items.len() / stride * stride);
        (!items.is_empty()).then_some(Ring { items, stride, next: 0 })
    }

    /// The next request.
    #[inline]
    pub fn take(&mut self) -> &[T] {
        let start = self.next;
        let end = start + self.stride;
        self.next = if end >= self.items.len() { 0 } else { end };
        // A request that comes to a server is in its cache. One that was drawn ahead is to be there, too, when its turn comes.
        let next = self.items[self.next..].as_ptr().cast::<u8>();
        for line in (0..self.stride * size_of::<T>()).step_by(64) {
            noonmark_core::prefetch(next.wrapping_add(line));
        }
        &self.items[start..end]
    }

    /// The next request of a ring of single items.
    #[inline]
    pub fn take_one(&mut self) -> &T {
        &self.take()[0]
    }

    /// Bytes that the ring itself takes, without what its items point to.
    pub fn bytes(&self) -> usize {
        self.items.len() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_everything_once() {
        for total in [0, 1, 7, 1000, u64::MAX] {
            let mut next = 0;
            for index in 0..3 {
                let range = Share { index, count: 3 }.of(total);
                assert_eq!(range.start, next);
                next = range.end;
            }
            assert_eq!(next, total);
        }
    }

    #[test]
    fn a_ring_goes_round() {
        let mut drawn = 0;
        let mut ring = Ring::of(2, 3, || {
            drawn += 1;
            drawn
        });
        assert_eq!(ring.take(), [1, 2, 3]);
        assert_eq!(ring.take(), [4, 5, 6]);
        assert_eq!(ring.take(), [1, 2, 3]);
        assert_eq!(ring.bytes(), 24);
        assert!(Ring::<u8>::from_items(vec![1, 2], 3).is_none());
    }

    #[test]
    fn conditions_say_what_was_compared() {
        assert_eq!(Condition::equal("the sum", 3, 3).words, "the sum is 3");
        let failed = Condition::equal("the sum", 4, 3);
        assert!(!failed.holds);
        assert_eq!(failed.words, "the sum should be 3 but is 4");
    }
}
