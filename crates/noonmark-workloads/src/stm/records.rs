//! Disjoint writes of single words: Figure 6.
//!
//! Each transaction finds a random record and adds one to a random word of it. With a million records hardly two meet, so what differs is
//! what a control does to its clock.
//!
//! Invariant, checked after every run: all words add up to the transactions that were run, the warm-up included.
//!
//! What it does not do: read a record without writing it.

use std::sync::atomic::AtomicU64;

use super::spec::Settings;
use super::stage::{self, Counted, Play, Work};
use crate::driver::memory;
use crate::random::Random;
use crate::report::{Progress, RunReport};
use crate::workload::{Condition, Ring, RunError, Seat};

/// Words of a record (§7.1).
pub const WORDS: usize = 12;

/// Records with keys from 0.
pub trait Records: Sync {
    /// What a thread uses them by.
    type Session<'a>: RecordsSession
    where
        Self: 'a;

    /// About how many bytes a record takes.
    const RECORD_BYTES: u64 = 64 + 16 * WORDS as u64;

    /// A session for the calling thread.
    fn session(&self) -> Self::Session<'_>;

    /// The sum of all words. Nothing else runs.
    fn audit(&self) -> u64;

    /// What its control has counted so far.
    fn counted(&self) -> Counted {
        Counted::default()
    }

    /// A run is about to be measured.
    fn begin(&self) {}
}

/// How a thread uses records.
pub trait RecordsSession {
    /// Adds one to a word of a record that is there.
    fn add(&mut self, key: u64, word: usize);
}

/// A thread's part in it.
pub struct Worker<S> {
    session: S,
    requests: Ring<(u32, u32)>,
    done: u64,
}

impl<S: RecordsSession> Work for Worker<S> {
    type Tally = u64;

    fn settle(&mut self) {
        self.execute();
    }

    #[inline]
    fn execute(&mut self) {
        let (key, word) = *self.requests.take_one();
        self.session.add(u64::from(key), word as usize);
        self.done += 1;
    }

    fn tally(self) -> u64 {
        self.done
    }
}

/// All keys below a number, in random order.
pub fn shuffled(keys: u64, random: &mut Random) -> Vec<u32> {
    let mut all: Vec<u32> = (0..keys as u32).collect();
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
    all
}

/// The workload on records of these keys.
pub struct Disjoint<R> {
    /// The records.
    pub records: R,
    /// How many there are.
    pub keys: u64,
}

impl<R: Records> Play for Disjoint<R> {
    type Worker<'a>
        = Worker<R::Session<'a>>
    where
        R: 'a;
    type Tally = u64;

    fn worker(&self, seat: Seat) -> Worker<R::Session<'_>> {
        let Seat { mut random, requests, .. } = seat;
        let draw = || (random.below(self.keys) as u32, random.below(WORDS as u64) as u32);
        Worker { session: self.records.session(), requests: Ring::of(requests, 1, draw), done: 0 }
    }

    fn counted(&self) -> Counted {
        self.records.counted()
    }

    fn begin(&self) {
        self.records.begin();
    }

    fn check(&self, tallies: &[u64]) -> Vec<Condition> {
        vec![Condition::equal("the sum of all words", self.records.audit(), tallies.iter().sum())]
    }
}

/// Runs it on records that are made of their keys, in the order in which they are to be made; the number of those that have been made is
/// told as it rises.
pub fn run<R: Records + Send>(
    settings: &Settings,
    name: &str,
    make: impl FnOnce(&[u32], &AtomicU64) -> R + Send,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    memory::check(settings.keys.saturating_mul(R::RECORD_BYTES))?;
    let mut random = Random::new(settings.seed, 0);
    let keys = shuffled(settings.keys, &mut random);
    let records = stage::load(settings.keys, progress, |done| make(&keys, done))?;
    drop(keys);
    let disjoint = Disjoint { records, keys: settings.keys };
    let measured = stage::measure_play(&settings.plan(), settings.pace, &disjoint, progress)?;
    let conditions = disjoint.check(&measured.tallies);
    Ok(settings.report(name, &measured, conditions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_comes_once_and_not_in_order() {
        let mut all = shuffled(1000, &mut Random::new(1, 0));
        assert!(all.windows(2).filter(|pair| pair[0] > pair[1]).count() > 300);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1000));
    }
}
