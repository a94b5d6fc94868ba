//! The index nodes that a transaction relies on for what they do not hold.
//!
//! A node is noted once at each version at which it was seen. When the transaction itself changes a node, the entry of
//! the version before goes on with the version after; there is one at most, and no other of that node is newer. So only the
//! newest entry of a node is ever looked for: from the back while there are few, by a hash table from
//! [`HASHED_FROM`] on. Both steps take constant time, whatever the transaction has looked for before.
//!
//! What it does not do: it does not know whether a node still is as it was seen.

use crate::index::{NodeChange, NodeSeen, NodeStamp};
use crate::table::TableRef;
use std::ptr::NonNull;

/// From this many entries on, they are found by hashing.
const HASHED_FROM: usize = 16;

/// One index node that was relied on for what it does not hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeEntry {
    pub seen: NodeSeen,
    pub table: TableRef,
    /// A key that was looked for, or found, there: for explanations.
    pub near: (u32, u32),
}

// SAFETY: the stamp's fields are atomics, and it is valid while the transaction is pinned, on whichever
// thread that goes on.
unsafe impl Send for NodeEntry {}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct NodeSet {
    entries: Vec<NodeEntry>,
    /// Open addressing, of entry indexes + 1: the newest of each node. In use from `HASHED_FROM` entries on; empty
    /// before. **Invariant**: at most half full, and a power of two.
    hashed: Vec<u32>,
}

impl NodeSet {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline(always)]
    pub(crate) fn entries(&self) -> &[NodeEntry] {
        &self.entries
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.hashed.clear();
    }

    /// Whether a node is noted at this version, so that to note it again would say nothing new.
    #[inline(always)]
    pub(crate) fn has(&self, seen: &NodeSeen) -> bool {
        self.newest(seen.stamp).is_some_and(|index| self.entries[index].seen.version == seen.version)
    }

    /// Notes a node at a version at which it is not noted yet.
    #[inline(always)]
    pub(crate) fn push(&mut self, entry: NodeEntry) {
        self.entries.push(entry);
        if self.entries.len() >= HASHED_FROM {
            self.add_hashed();
        }
    }

    /// The transaction itself has changed a node, perhaps one that it relies on: whether it does.
    pub(crate) fn change(&mut self, change: &NodeChange) -> bool {
        let Some(index) = self.newest(change.stamp) else { return false };
        let entry = &mut self.entries[index];
        if entry.seen.version != change.before {
            return false;
        }
        entry.seen.version = change.after;
        let (table, near) = (entry.table, entry.near);
        if let Some(seen) = change.split_off
            && !self.has(&seen)
        {
            self.push(NodeEntry { seen, table, near });
        }
        true
    }

    /// The newest entry of a node.
    #[inline(always)]
    fn newest(&self, stamp: NonNull<NodeStamp>) -> Option<usize> {
        if self.hashed.is_empty() {
            return self.entries.iter().rposition(|entry| entry.seen.stamp == stamp);
        }
        match self.hashed[self.place(stamp)] {
            0 => None,
            index => Some(index as usize - 1),
        }
    }

    /// Where the newest entry of a node is in the hash table, or would be.
    fn place(&self, stamp: NonNull<NodeStamp>) -> usize {
        let mask = self.hashed.len() - 1;
        // Nodes are aligned, so their low bits say nothing.
        let hash = (stamp.as_ptr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut place = (hash >> 32) as usize & mask;
        loop {
            match self.hashed[place] {
                0 => return place,
                index if self.entries[index as usize - 1].seen.stamp == stamp => return place,
                _ => place = (place + 1) & mask,
            }
        }
    }

    #[cold]
    fn add_hashed(&mut self) {
        let mut from = self.entries.len() - 1;
        if self.hashed.len() < self.entries.len() * 2 {
            let size = (self.entries.len() * 4).next_power_of_two();
            self.hashed.clear();
            self.hashed.resize(size, 0);
            from = 0;
        }
        for index in from..self.entries.len() {
            let place = self.place(self.entries[index].seen.stamp);
            self.hashed[place] = index as u32 + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;
    use crate::{Database, TableOptions};

    /// Against a list that is gone through from one end to the other.
    #[test]
    fn it_agrees_with_a_plain_list() {
        let db = Database::in_memory();
        let table = db.create_table::<u64, u64>("t", TableOptions::new().protocol(Protocol::Occ)).unwrap();
        let table = TableRef::new(crate::typed::Sealed::core(&table));
        let stamps: Vec<NodeStamp> = (0..40).map(|_| NodeStamp::default()).collect();
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..50 {
            let mut set = NodeSet::default();
            let mut plain: Vec<(usize, u64)> = Vec::new();
            let mut versions = [0_u64; 40];
            for _ in 0..draw(200) {
                let node = draw(40) as usize;
                let stamp = NonNull::from(&stamps[node]);
                let at = |stamp, version| NodeSeen { stamp, version, wts: 0, rts: 0 };
                match draw(4) {
                    // Somebody else changes it.
                    0 => versions[node] += 2,
                    1 => {
                        let other = (node + 1 + draw(39) as usize) % 40;
                        let split_off = at(NonNull::from(&stamps[other]), versions[other]);
                        let (before, after) = (versions[node], versions[node] + 2);
                        versions[node] = after;
                        let change = NodeChange { stamp, before, after, split_off: Some(split_off) };
                        let relied = plain.contains(&(node, before));
                        assert_eq!(set.change(&change), relied);
                        plain.iter_mut().filter(|entry| **entry == (node, before)).for_each(|e| e.1 = after);
                        let other = (other, split_off.version);
                        if relied && !set_has(&plain, other) {
                            plain.push(other);
                        }
                    }
                    _ => {
                        let seen = at(stamp, versions[node]);
                        assert_eq!(set.has(&seen), plain.contains(&(node, versions[node])));
                        if !set.has(&seen) {
                            set.push(NodeEntry { seen, table, near: (0, 0) });
                            plain.push((node, versions[node]));
                        }
                    }
                }
                let number = |seen: &NodeSeen| {
                    stamps.iter().position(|stamp| NonNull::from(stamp) == seen.stamp).unwrap()
                };
                let entries: Vec<_> =
                    set.entries().iter().map(|entry| (number(&entry.seen), entry.seen.version)).collect();
                assert_eq!(entries, plain);
            }
        }
    }

    /// As the set sees it: by the newest entry of the node.
    fn set_has(plain: &[(usize, u64)], wanted: (usize, u64)) -> bool {
        plain.iter().rev().find(|entry| entry.0 == wanted.0).is_some_and(|newest| *newest == wanted)
    }
}
