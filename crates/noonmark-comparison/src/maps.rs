//! Concurrent maps that others have made.
//!
//! All of them are shared by reference, so one wrapper does for all: [`Shared`] is what an operation is under each one's name.
//!
//! What it does not do: keep a guard from one operation to the next. Each operation stands for itself, as a transaction does.

use std::hash::BuildHasherDefault;

use congee::Congee;
use crossbeam_skiplist::SkipMap;
use dashmap::DashMap;
use noonmark_stm::Folding;
use noonmark_workloads::stm::churn::{Audit, Map, MapSession};

/// The hash function of our own map.
type Hasher = BuildHasherDefault<Folding>;

/// A map that is used by reference.
pub trait Shared: Sync {
    fn value(&self, key: u64) -> Option<u64>;
    fn put_if_absent(&self, key: u64, value: u64) -> bool;
    fn take(&self, key: u64) -> bool;
    fn audit(&self) -> Audit;
}

/// One of them, as a contender.
pub struct Rival<M>(M);

impl<M: Shared> Map for Rival<M> {
    type Session<'a>
        = InMap<'a, M>
    where
        M: 'a;

    fn session(&self) -> InMap<'_, M> {
        InMap(&self.0)
    }

    fn audit(&self) -> Audit {
        self.0.audit()
    }
}

/// A thread at one of them.
pub struct InMap<'a, M>(&'a M);

impl<M: Shared> MapSession for InMap<'_, M> {
    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        self.0.value(key)
    }

    #[inline]
    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool {
        self.0.put_if_absent(key, value)
    }

    #[inline]
    fn remove(&mut self, key: u64) -> bool {
        self.0.take(key)
    }
}

pub fn skiplist() -> Rival<SkipMap<u64, u64>> {
    Rival(SkipMap::new())
}

/// Version 0.1.3 does not answer for what it does when several threads put in and remove the same key: with 4 threads
/// at 20 keys, each answer counted apart from any code of ours, what was told of a key and whether it is there
/// differed for half of all keys. With many keys it is rare. The audit after a run tells it like any other.
impl Shared for SkipMap<u64, u64> {
    fn value(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|entry| *entry.value())
    }

    fn put_if_absent(&self, key: u64, value: u64) -> bool {
        // No value is given twice, so one's own tells that it was put in.
        *self.get_or_insert(key, value).value() == value
    }

    fn take(&self, key: u64) -> bool {
        self.remove(&key).is_some()
    }

    fn audit(&self) -> Audit {
        Audit::of(self.iter().map(|entry| *entry.key()))
    }
}

pub fn scc_tree() -> Rival<scc::TreeIndex<u64, u64>> {
    Rival(scc::TreeIndex::new())
}

impl Shared for scc::TreeIndex<u64, u64> {
    fn value(&self, key: u64) -> Option<u64> {
        self.peek_with(&key, |_, value| *value)
    }

    fn put_if_absent(&self, key: u64, value: u64) -> bool {
        self.insert_sync(key, value).is_ok()
    }

    fn take(&self, key: u64) -> bool {
        self.remove_sync(&key)
    }

    fn audit(&self) -> Audit {
        let guard = scc::Guard::new();
        Audit::of(self.iter(&guard).map(|(key, _)| *key))
    }
}

pub fn scc_hash(room: usize) -> Rival<scc::HashMap<u64, u64, Hasher>> {
    Rival(scc::HashMap::with_capacity_and_hasher(room, Hasher::new()))
}

impl Shared for scc::HashMap<u64, u64, Hasher> {
    fn value(&self, key: u64) -> Option<u64> {
        self.read_sync(&key, |_, value| *value)
    }

    fn put_if_absent(&self, key: u64, value: u64) -> bool {
        self.insert_sync(key, value).is_ok()
    }

    fn take(&self, key: u64) -> bool {
        self.remove_sync(&key).is_some()
    }

    fn audit(&self) -> Audit {
        let mut keys = Vec::new();
        self.iter_sync(|key, _| {
            keys.push(*key);
            true
        });
        Audit::of(keys)
    }
}

pub fn scc_index(room: usize) -> Rival<scc::HashIndex<u64, u64, Hasher>> {
    Rival(scc::HashIndex::with_capacity_and_hasher(room, Hasher::new()))
}

impl Shared for scc::HashIndex<u64, u64, Hasher> {
    fn value(&self, key: u64) -> Option<u64> {
        self.peek_with(&key, |_, value| *value)
    }

    fn put_if_absent(&self, key: u64, value: u64) -> bool {
        self.insert_sync(key, value).is_ok()
    }

    fn take(&self, key: u64) -> bool {
        self.remove_sync(&key)
    }

    fn audit(&self) -> Audit {
        let mut keys = Vec::new();
        self.iter_sync(|key, _| {
            keys.push(*key);
            true
        });
        Audit::of(keys)
    }
}

pub fn congee() -> Rival<Congee<usize, usize>> {
    Rival(Congee::default())
}

impl Shared for Congee<usize, usize> {
    fn value(&self, key: u64) -> Option<u64> {
        self.get(&(key as usize), &self.pin()).map(|value| value as u64)
    }

    fn put_if_absent(&self, key: u64, value: u64) -> bool {
        let keep = |old: Option<usize>| old.unwrap_or(value as usize);
        matches!(self.compute_or_insert(key as usize, keep, &self.pin()), Ok(None))
    }

    fn take(&self, key: u64) -> bool {
        self.remove(&(key as usize), &self.pin()).is_some()
    }

    fn audit(&self) -> Audit {
        const SOME: usize = 1024;
        let (guard, mut found) = (self.pin(), vec![(0, 0); SOME]);
        let (mut keys, mut from) = (Vec::new(), 0);
        loop {
            let count = self.range(&from, &usize::MAX, &mut found, &guard);
            keys.extend(found[..count].iter().map(|(key, _)| *key as u64));
            match found[..count].last() {
                Some((last, _)) if count == SOME => from = last + 1,
                _ => return Audit::of(keys),
            }
        }
    }
}

pub fn dashmap(room: usize) -> Rival<DashMap<u64, u64, Hasher>> {
    Rival(DashMap::with_capacity_and_hasher(room, Hasher::new()))
}

impl Shared for DashMap<u64, u64, Hasher> {
    fn value(&self, key: u64) -> Option<u64> {
        self.view(&key, |_, value| *value)
    }

    fn put_if_absent(&self, key: u64, value: u64) -> bool {
        let dashmap::Entry::Vacant(vacant) = self.entry(key) else { return false };
        vacant.insert(value);
        true
    }

    fn take(&self, key: u64) -> bool {
        self.remove(&key).is_some()
    }

    fn audit(&self) -> Audit {
        Audit::of(self.iter().map(|entry| *entry.key()))
    }
}

pub fn papaya(room: usize) -> Rival<papaya::HashMap<u64, u64, Hasher>> {
    Rival(papaya::HashMap::with_capacity_and_hasher(room, Hasher::new()))
}

impl Shared for papaya::HashMap<u64, u64, Hasher> {
    fn value(&self, key: u64) -> Option<u64> {
        self.pin().get(&key).copied()
    }

    fn put_if_absent(&self, key: u64, value: u64) -> bool {
        self.pin().try_insert(key, value).is_ok()
    }

    fn take(&self, key: u64) -> bool {
        self.pin().remove(&key).is_some()
    }

    fn audit(&self) -> Audit {
        Audit::of(self.pin().keys().copied())
    }
}
