//! A lock round what the standard library has.
//!
//! The lock is that of `parking_lot`, as in the baseline of the other workloads. A map with a mutex and one with a lock that readers share are the same
//! code: [`Lock`] says how to get in.
//!
//! What it does not do: divide anything into parts with a lock each (`dashmap` does that).

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::hash_map::{self, HashMap};
use std::hash::BuildHasherDefault;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use noonmark_stm::Folding;
use noonmark_workloads::stm::churn::{self, Audit, MapSession};
use noonmark_workloads::stm::reads::{START, Variables, VariablesSession, Which};
use noonmark_workloads::stm::records::{self, RecordsSession, WORDS};
pub use parking_lot::{Mutex, RwLock};

/// A lock round something.
pub trait Lock: Sync {
    type Inside;

    fn read(&self) -> impl Deref<Target = Self::Inside>;
    fn write(&self) -> impl DerefMut<Target = Self::Inside>;
}

impl<T: Send> Lock for Mutex<T> {
    type Inside = T;

    fn read(&self) -> impl Deref<Target = T> {
        self.lock()
    }

    fn write(&self) -> impl DerefMut<Target = T> {
        self.lock()
    }
}

impl<T: Send + Sync> Lock for RwLock<T> {
    type Inside = T;

    fn read(&self) -> impl Deref<Target = T> {
        RwLock::read(self)
    }

    fn write(&self) -> impl DerefMut<Target = T> {
        RwLock::write(self)
    }
}

pub type Ordered = BTreeMap<u64, u64>;
pub type Hashed = HashMap<u64, u64, BuildHasherDefault<Folding>>;

/// What a map of the standard library can do, under either name.
pub trait StdMap: Send {
    fn value(&self, key: u64) -> Option<u64>;
    fn put_if_absent(&mut self, key: u64, value: u64) -> bool;
    fn take(&mut self, key: u64) -> bool;
    fn audit(&self) -> Audit;
}

impl StdMap for Ordered {
    fn value(&self, key: u64) -> Option<u64> {
        self.get(&key).copied()
    }

    fn put_if_absent(&mut self, key: u64, value: u64) -> bool {
        let Entry::Vacant(vacant) = self.entry(key) else { return false };
        vacant.insert(value);
        true
    }

    fn take(&mut self, key: u64) -> bool {
        self.remove(&key).is_some()
    }

    fn audit(&self) -> Audit {
        Audit::of(self.keys().copied())
    }
}

impl StdMap for Hashed {
    fn value(&self, key: u64) -> Option<u64> {
        self.get(&key).copied()
    }

    fn put_if_absent(&mut self, key: u64, value: u64) -> bool {
        let hash_map::Entry::Vacant(vacant) = self.entry(key) else { return false };
        vacant.insert(value);
        true
    }

    fn take(&mut self, key: u64) -> bool {
        self.remove(&key).is_some()
    }

    fn audit(&self) -> Audit {
        Audit::of(self.keys().copied())
    }
}

/// A map behind a lock.
#[derive(Default)]
pub struct Map<L>(L);

impl Map<Mutex<Hashed>> {
    /// With room for so many.
    pub fn hashed(room: usize) -> Self {
        Map(Mutex::new(Hashed::with_capacity_and_hasher(room, BuildHasherDefault::new())))
    }
}

impl Map<RwLock<Hashed>> {
    /// With room for so many.
    pub fn hashed(room: usize) -> Self {
        Map(RwLock::new(Hashed::with_capacity_and_hasher(room, BuildHasherDefault::new())))
    }
}

impl<L: Lock<Inside: StdMap>> churn::Map for Map<L> {
    type Session<'a>
        = InMap<'a, L>
    where
        L: 'a;

    fn session(&self) -> InMap<'_, L> {
        InMap(&self.0)
    }

    fn audit(&self) -> Audit {
        self.0.read().audit()
    }
}

/// A thread at a map behind a lock.
pub struct InMap<'a, L>(&'a L);

impl<L: Lock<Inside: StdMap>> MapSession for InMap<'_, L> {
    fn get(&mut self, key: u64) -> Option<u64> {
        self.0.read().value(key)
    }

    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool {
        self.0.write().put_if_absent(key, value)
    }

    fn remove(&mut self, key: u64) -> bool {
        self.0.write().take(key)
    }
}

/// Records in a tree behind a mutex.
pub struct Records(Mutex<BTreeMap<u64, [u64; WORDS]>>);

impl Records {
    pub fn new(keys: &[u32], done: &AtomicU64) -> Self {
        let mut all = BTreeMap::new();
        for key in keys {
            all.insert(u64::from(*key), [0; WORDS]);
            done.store(all.len() as u64, Ordering::Relaxed);
        }
        Records(Mutex::new(all))
    }
}

impl records::Records for Records {
    type Session<'a> = &'a Records;
    const RECORD_BYTES: u64 = 160;

    fn session(&self) -> &Records {
        self
    }

    fn audit(&self) -> u64 {
        self.0.lock().values().flatten().sum()
    }
}

impl RecordsSession for &Records {
    fn add(&mut self, key: u64, word: usize) {
        if let Some(record) = self.0.lock().get_mut(&key) {
            record[word] += 1;
        }
    }
}

/// Words behind a lock.
pub struct Vars<L>(L);

impl Vars<Mutex<Vec<u64>>> {
    pub fn new(count: usize) -> Self {
        Vars(Mutex::new(vec![START; count]))
    }
}

impl Vars<RwLock<Vec<u64>>> {
    pub fn new(count: usize) -> Self {
        Vars(RwLock::new(vec![START; count]))
    }
}

impl<L: Lock<Inside = Vec<u64>>> Variables for Vars<L> {
    type Session<'a>
        = AtVars<'a, L>
    where
        L: 'a;
    const VARIABLE_BYTES: u64 = 8;

    fn session(&self) -> AtVars<'_, L> {
        AtVars(&self.0)
    }

    fn audit(&self) -> u64 {
        self.0.read().iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

/// A thread at words behind a lock.
pub struct AtVars<'a, L>(&'a L);

fn sum(words: &[u64], of: &Which) -> u64 {
    of.iter().fold(0, |sum, number| sum.wrapping_add(words[*number as usize]))
}

impl<L: Lock<Inside = Vec<u64>>> VariablesSession for AtVars<'_, L> {
    fn sum(&mut self, of: &Which) -> u64 {
        sum(&self.0.read(), of)
    }

    fn sum_and_move(&mut self, of: &Which) -> u64 {
        let mut words = self.0.write();
        let before = sum(&words, of);
        let [from, to, ..] = of.map(|number| number as usize);
        words[from] = words[from].wrapping_sub(1);
        words[to] = words[to].wrapping_add(1);
        before
    }
}
