//! The hash map with fixed buckets, without any synchronization: see `plain.rs`.
//!
//! What it does not do: grow.

use std::hash::{BuildHasher, BuildHasherDefault};

use noonmark_stm::Folding;

use super::churn::Audit;
use super::plain::PlainMap;

struct Node {
    key: u64,
    value: u64,
    next: Option<Box<Node>>,
}

/// Chains in buckets.
pub(super) struct PlainHash {
    /// **Invariant**: as many as a power of two.
    buckets: Vec<Option<Box<Node>>>,
}

impl PlainHash {
    /// At least so many buckets.
    pub fn with_buckets(buckets: usize) -> Self {
        PlainHash { buckets: (0..buckets.next_power_of_two()).map(|_| None).collect() }
    }

    /// By the hash of the transactional map.
    #[inline]
    fn bucket(&self, key: u64) -> usize {
        BuildHasherDefault::<Folding>::new().hash_one(key) as usize & (self.buckets.len() - 1)
    }
}

impl PlainMap for PlainHash {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        let mut at = &self.buckets[self.bucket(key)];
        while let Some(node) = at {
            if node.key == key {
                return Some(node.value);
            }
            at = &node.next;
        }
        None
    }

    #[inline]
    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool {
        if self.get(key).is_some() {
            return false;
        }
        let bucket = self.bucket(key);
        let first = &mut self.buckets[bucket];
        let next = first.take();
        *first = Some(Box::new(Node { key, value, next }));
        true
    }

    #[inline]
    fn remove(&mut self, key: u64) -> bool {
        let bucket = self.bucket(key);
        let mut at = &mut self.buckets[bucket];
        while at.as_ref().is_some_and(|node| node.key != key) {
            let Some(node) = at else { return false };
            at = &mut node.next;
        }
        let Some(node) = at.take() else { return false };
        *at = node.next;
        true
    }

    fn audit(&self) -> Audit {
        let mut keys = Vec::new();
        let mut fault = None;
        for (number, first) in self.buckets.iter().enumerate() {
            let mut at = first;
            while let Some(node) = at {
                if self.bucket(node.key) != number {
                    fault = Some(format!("key {} is in bucket {number}", node.key));
                }
                keys.push(node.key);
                at = &node.next;
            }
        }
        Audit { fault, ..Audit::of(keys) }
    }
}
