//! Insertions, removals and lookups in a map: Figures 7 to 13.
//!
//! Half of the range of keys is there before. Each operation is a transaction of its own, with a random key: an update inserts
//! it unless it is there, or removes it if it is, in turn, so that about half of them find nothing to do and the size stays; anything else looks
//! it up.
//!
//! Invariants, checked after every run: the map holds as many entries as were inserted and not removed, their keys
//! have the sum that follows from what each thread did, and the structure's own invariants hold.
//!
//! What it does not do: ranges, iteration, or transactions of several operations.

use std::sync::atomic::{AtomicU64, Ordering};

use super::spec::Settings;
use super::stage::{self, Counted, Play, Work};
use crate::driver::memory;
use crate::random::Random;
use crate::report::{Progress, RunReport};
use crate::workload::{Condition, Ring, RunError, Seat};

/// A map of words that many threads use at once.
pub trait Map: Sync {
    /// What a thread uses it by.
    type Session<'a>: MapSession
    where
        Self: 'a;

    /// About how many bytes an entry takes.
    const ENTRY_BYTES: u64 = 64;

    /// A session for the calling thread.
    fn session(&self) -> Self::Session<'_>;

    /// What is in it. Nothing else runs.
    fn audit(&self) -> Audit;

    /// What its control has counted so far.
    fn counted(&self) -> Counted {
        Counted::default()
    }

    /// A run is about to be measured.
    fn begin(&self) {}
}

/// How a thread uses a map.
pub trait MapSession {
    /// The value of a key.
    fn get(&mut self, key: u64) -> Option<u64>;

    /// Gives a key a value, unless it has one; tells whether it had none. No value is ever given twice in a run.
    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool;

    /// Removes a key; tells whether it was there.
    fn remove(&mut self, key: u64) -> bool;
}

/// What is in a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// How many entries.
    pub entries: u64,
    /// The sum of their keys, which wraps around.
    pub key_sum: u64,
    /// What is wrong with its structure; none where that is not looked at, or nothing is.
    pub fault: Option<String>,
}

impl Audit {
    /// Of these keys.
    pub fn of(keys: impl IntoIterator<Item = u64>) -> Self {
        let mut audit = Audit::default();
        for key in keys {
            audit.entries += 1;
            audit.key_sum = audit.key_sum.wrapping_add(key);
        }
        audit
    }
}

/// What a thread has done to a map.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    inserted: u64,
    removed: u64,
    /// Of the keys that were inserted, less that of those that were removed.
    key_sum: u64,
}

/// One operation, in a word: what to do in the two highest bits, and with which key.
#[derive(Clone, Copy)]
struct Request(u32);

/// Bits of a key.
pub(super) const KEY_BITS: u32 = 30;

#[derive(Clone, Copy)]
enum Kind {
    Lookup,
    Insert,
    Remove,
}

impl Request {
    fn new(kind: Kind, key: u64) -> Self {
        Request((kind as u32) << KEY_BITS | key as u32)
    }

    #[inline(always)]
    fn key(self) -> u64 {
        u64::from(self.0 & ((1 << KEY_BITS) - 1))
    }

    #[inline(always)]
    fn kind(self) -> Kind {
        match self.0 >> KEY_BITS {
            0 => Kind::Lookup,
            1 => Kind::Insert,
            _ => Kind::Remove,
        }
    }
}

/// A thread's part in it.
pub struct Worker<S> {
    session: S,
    requests: Ring<Request>,
    /// A key that was there when it began.
    present: u64,
    /// The value that is given next, and by how much they rise.
    value: u64,
    values_step: u64,
    found: u64,
    tally: Tally,
}

impl<S: MapSession> Worker<S> {
    fn new(session: S, seat: Seat, of: Choices, present: u64) -> Self {
        let Seat { number, count, mut random, requests, .. } = seat;
        let share = f64::from(of.updates_percent) / 100.0;
        let mut inserts = number % 2 == 0;
        let requests = Ring::of(requests, 1, || {
            let key = random.below(of.keys);
            if !random.happens(share) {
                return Request::new(Kind::Lookup, key);
            }
            inserts = !inserts;
            Request::new(if inserts { Kind::Insert } else { Kind::Remove }, key)
        });
        // What was loaded has the values below the number of keys.
        let value = of.keys + number as u64;
        Worker {
            session,
            requests,
            present,
            value,
            values_step: count as u64,
            found: 0,
            tally: Tally::default(),
        }
    }
}

impl<S: MapSession> Work for Worker<S> {
    type Tally = Tally;

    fn settle(&mut self) {
        self.found += u64::from(self.session.get(self.present).is_some());
    }

    #[inline]
    fn execute(&mut self) {
        let request = *self.requests.take_one();
        let key = request.key();
        match request.kind() {
            Kind::Lookup => self.found += u64::from(self.session.get(key).is_some()),
            Kind::Insert => {
                self.value += self.values_step;
                if self.session.insert_if_absent(key, self.value) {
                    self.tally.inserted += 1;
                    self.tally.key_sum = self.tally.key_sum.wrapping_add(key);
                }
            }
            Kind::Remove => {
                if self.session.remove(key) {
                    self.tally.removed += 1;
                    self.tally.key_sum = self.tally.key_sum.wrapping_sub(key);
                }
            }
        }
    }

    fn tally(self) -> Tally {
        // What is found must be looked for.
        std::hint::black_box(self.found);
        self.tally
    }
}

/// What there is to choose in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// How many keys there are to choose from.
    pub keys: u64,
    /// How many of a hundred operations change something.
    pub updates_percent: u8,
}

/// What a map has been filled with.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    done: Tally,
    /// A key that is there.
    present: u64,
}

impl Filling {
    /// Inserts half of the keys into a map that is empty, in random order, and says how many it has inserted as it goes on.
    pub fn of<M: Map>(map: &M, keys: u64, seed: u64, done: &AtomicU64) -> Filling {
        let mut session = map.session();
        // No worker has this stream.
        let mut random = Random::new(seed, 0);
        let (mut tally, mut present) = (Tally::default(), 0);
        while tally.inserted < keys.div_ceil(2) {
            let key = random.below(keys);
            if session.insert_if_absent(key, tally.inserted) {
                tally.inserted += 1;
                tally.key_sum = tally.key_sum.wrapping_add(key);
                present = key;
                done.store(tally.inserted, Ordering::Relaxed);
            }
        }
        Filling { done: tally, present }
    }
}

/// The workload on a map that has been filled.
pub struct Churn<M> {
    /// The map.
    pub map: M,
    /// What is done to it.
    pub choices: Choices,
    /// With what it has been filled.
    pub filling: Filling,
}

impl<M: Map> Play for Churn<M> {
    type Worker<'a>
        = Worker<M::Session<'a>>
    where
        M: 'a;
    type Tally = Tally;

    fn worker(&self, seat: Seat) -> Worker<M::Session<'_>> {
        Worker::new(self.map.session(), seat, self.choices, self.filling.present)
    }

    fn counted(&self) -> Counted {
        self.map.counted()
    }

    fn begin(&self) {
        self.map.begin();
    }

    fn check(&self, tallies: &[Tally]) -> Vec<Condition> {
        check(&self.map.audit(), self.filling.done, tallies)
    }
}

/// Runs it on a map that is empty, under this name.
pub fn run<M: Map>(
    settings: &Settings,
    name: &str,
    map: impl FnOnce() -> M,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    let half = settings.keys.div_ceil(2);
    let bytes = half.saturating_mul(M::ENTRY_BYTES) + settings.keys.saturating_mul(16);
    memory::check(bytes)?;
    // Entries come and go, and those that are gone are freed somewhat later.
    memory::touch(bytes / 2 + (32 << 20));
    let map = map();
    let filling = stage::load(half, progress, |done| Filling::of(&map, settings.keys, settings.seed, done))?;
    let choices = Choices { keys: settings.keys, updates_percent: settings.updates_percent };
    let churn = Churn { map, choices, filling };
    let measured = stage::measure_play(&settings.plan(), settings.pace, &churn, progress)?;
    let conditions = churn.check(&measured.tallies);
    Ok(settings.report(name, &measured, conditions))
}

fn check(audit: &Audit, before: Tally, tallies: &[Tally]) -> Vec<Condition> {
    let all = || tallies.iter().chain([&before]);
    let inserted: u64 = all().map(|tally| tally.inserted).sum();
    let removed: u64 = all().map(|tally| tally.removed).sum();
    let key_sum = all().fold(0_u64, |sum, tally| sum.wrapping_add(tally.key_sum));
    vec![
        match &audit.fault {
            None => Condition::that(true, "the structure is as it should be"),
            Some(fault) => Condition::that(false, format!("the structure is broken: {fault}")),
        },
        Condition::equal("the number of entries", audit.entries, inserted.wrapping_sub(removed)),
        Condition::equal("the sum of the keys", audit.key_sum, key_sum),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_it_was_made_of() {
        let key = (1 << KEY_BITS) - 1;
        assert!(matches!(Request::new(Kind::Lookup, key).kind(), Kind::Lookup));
        assert!(matches!(Request::new(Kind::Insert, 0).kind(), Kind::Insert));
        assert!(matches!(Request::new(Kind::Remove, key).kind(), Kind::Remove));
        assert_eq!(Request::new(Kind::Remove, key).key(), key);
    }

    #[test]
    fn what_is_lost_or_broken_is_found() {
        let before = Tally { inserted: 3, removed: 0, key_sum: 6 };
        let mut tallies = [Tally { inserted: 0, removed: 1, key_sum: 0_u64.wrapping_sub(2) }];
        let failed = |audit: &Audit, tallies: &[Tally]| {
            check(audit, before, tallies).iter().filter(|condition| !condition.holds).count()
        };
        let right = Audit::of([1, 3]);
        assert_eq!(failed(&right, &tallies), 0);
        assert_eq!(failed(&Audit::of([1, 2]), &tallies), 1, "another key");
        assert_eq!(failed(&Audit::of([4]), &tallies), 1, "another number");
        assert_eq!(failed(&Audit { fault: Some("a ring".into()), ..right.clone() }, &tallies), 1);
        tallies[0].removed = 0;
        assert_eq!(failed(&right, &tallies), 1);
    }
}
