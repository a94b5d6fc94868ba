//! Disjoint writes that overwrite: Figure 6 with words that nobody reads before he writes them.
//!
//! As [`super::records`], but for one thing: what a transaction writes does not hang on what was there. Some controls treat that
//! otherwise: under `DCOTL` a write that meets what is newer than its transaction goes on, where a read would not.
//!
//! Invariant, checked after every run: a word has a value that somebody has given to this word, or, if nobody has
//! written it, none.
//!
//! What it does not do: see that no value is lost; the last one stays, whichever that is.

use std::collections::HashMap;

use noonmark_stm::{Session, World};

use super::records::{Records, WORDS};
use super::stage::{Counted, Play, Work};
use super::worlds::Found;
use crate::workload::{Condition, Ring, Seat};

/// The workload on records of keys from 0.
pub struct Overwriting<W: World> {
    /// The records.
    pub records: Found<W>,
    /// How many there are.
    pub keys: u64,
}

/// A thread's part in it.
pub struct Worker<'a, W: World> {
    records: &'a Found<W>,
    session: Session<W>,
    requests: Ring<(u32, u32)>,
    tally: Tally,
}

/// What a thread has written, one value after another, which lead back to this.
#[derive(Clone, Debug)]
pub struct Tally {
    number: usize,
    written: Vec<(u32, u32)>,
}

/// Bits of the number of a thread's write in a value; above them is the thread's own.
const WRITE_BITS: u32 = 40;

impl Tally {
    /// The value of its next write.
    fn next(&self) -> u64 {
        (self.number as u64) << WRITE_BITS | (self.written.len() as u64 + 1)
    }
}

impl<W: World> Work for Worker<'_, W> {
    type Tally = Tally;

    fn settle(&mut self) {
        self.execute();
    }

    #[inline]
    fn execute(&mut self) {
        let (key, word) = *self.requests.take_one();
        let value = self.tally.next();
        self.session.atomically(|tx| self.records.overwrite(tx, u64::from(key), word as usize, value));
        self.tally.written.push((key, word));
    }

    fn tally(self) -> Tally {
        self.tally
    }
}

impl<W: World> Play for Overwriting<W> {
    type Worker<'a> = Worker<'a, W>;
    type Tally = Tally;

    fn worker(&self, seat: Seat) -> Worker<'_, W> {
        let Seat { mut random, requests, number, .. } = seat;
        let draw = || (random.below(self.keys) as u32, random.below(WORDS as u64) as u32);
        Worker {
            records: &self.records,
            session: W::session(),
            requests: Ring::of(requests, 1, draw),
            tally: Tally { number, written: Vec::new() },
        }
    }

    fn counted(&self) -> Counted {
        self.records.counted()
    }

    fn begin(&self) {
        self.records.begin();
    }

    fn check(&self, tallies: &[Tally]) -> Vec<Condition> {
        let by_number: HashMap<u64, &Tally> =
            tallies.iter().map(|tally| (tally.number as u64, tally)).collect();
        let given = |key: u64, word: usize, value: u64| {
            let nth = (value & ((1 << WRITE_BITS) - 1)).checked_sub(1)?;
            let tally = by_number.get(&(value >> WRITE_BITS))?;
            let &(to_key, to_word) = tally.written.get(nth as usize)?;
            Some((u64::from(to_key), to_word as usize) == (key, word))
        };
        let mut distinct: Vec<(u32, u32)> =
            tallies.iter().flat_map(|tally| tally.written.iter().copied()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let (mut set, mut strange) = (0, 0);
        let mut session = W::session();
        for key in 0..self.keys {
            let words = session.view(|tx| self.records.words_of(tx, key));
            for (word, value) in words.into_iter().enumerate().filter(|(_, value)| *value != 0) {
                set += 1;
                strange += usize::from(given(key, word, value) != Some(true));
            }
        }
        vec![
            Condition::equal("the number of words that have been written", set, distinct.len()),
            Condition::equal("the number of words with values that nobody has given them", strange, 0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use noonmark_stm::{Dcotl, Global};
    use std::sync::atomic::AtomicU64;

    #[test]
    fn what_nobody_wrote_is_found() {
        let (keys, done) = ([2, 0, 1], AtomicU64::new(0));
        let records = Found::<Global<Dcotl>>::new(&keys, &done);
        let overwriting = Overwriting { records, keys: 3 };
        let tallies: Vec<Tally> = (0..2)
            .map(|number| {
                let random = Random::new(1, number as u64);
                let epoch = std::time::Instant::now();
                let mut worker = overwriting.worker(Seat { number, count: 2, random, requests: 20, epoch });
                (0..30).for_each(|_| worker.execute());
                worker.tally()
            })
            .collect();
        let failed = |tallies: &[Tally]| {
            overwriting.check(tallies).iter().filter(|condition| !condition.holds).count()
        };
        assert_eq!(failed(&tallies), 0);
        assert_eq!(failed(&tallies[..1]), 2, "words more than those of the one, with values of the other");
        let mut other = tallies.clone();
        other[1].written.iter_mut().for_each(|(key, _)| *key = (*key + 1) % 3);
        assert!(failed(&other) > 0, "values on other words");
    }
}
