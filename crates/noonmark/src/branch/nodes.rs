//! Index nodes, as whoever keeps copies of them is told of them [Sundial §3.4, §4.1].
//!
//! A [`Node`] says of an interval of keys which of them there are records for, and for how long no others come. So it answers for a key
//! that has no row, and, together with the rows' own copies, for a range: it is read as a row is, holds for as long as its lease does, and
//! after that if it [is found to be current](Branch::is_node_current).
//!
//! - *The beginning* is when a row was last taken out of the node's records, *the end* its read time. A record that is put in can be
//!   written only after that ([`crate::index`]), whatever leaf it comes to: one that is split passes its times on.
//! - *Records, not rows*: a record may be absent, put in by somebody who has not committed, or left by a row that was deleted. What is in the
//!   list, its own copy answers for, or nobody.
//! - *A node is current if all of it is as it was*: fences, keys and beginning. The keys alone would not do for a lease that goes on: a
//!   row may have come and gone.
//!
//! A hash index has nodes of many keys, of which none is next to another. What is told of it is of the one key that was looked for.
//!
//! What it does not do: tell of a secondary index.

use super::{Branch, Lease, UntypedTable, Values, key_bytes, lease_of_reads};
use crate::abort::Abort;
use crate::index::{Lookup, NodeSeen};
use crate::protocol::Order;
use crate::table::{Index, TableRef};
use noonmark_core::{Host, Timestamp};
use std::ops::{Bound, ControlFlow, Range};

/// An index node, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Keys that are less are not its own; of the first one, nothing.
    pub lower: Vec<u8>,
    /// Nor are those that are not less than this, if there is an end.
    pub upper: Option<Vec<u8>>,
    /// Its keys that there are records for, in ascending order. Of the others it says that there is no row.
    pub keys: Vec<Vec<u8>>,
    /// Whoever relies on it can commit no earlier.
    pub since: Timestamp,
    /// No other row comes at this time or an earlier one. Before [`Node::since`], if that cannot be said.
    pub until: Timestamp,
}

impl Node {
    /// Whether a key is its own.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.lower.as_slice() <= key && self.upper.as_ref().is_none_or(|upper| key < upper.as_slice())
    }

    /// Whether there is no record for a key, if that is its own.
    pub fn lacks(&self, key: &[u8]) -> bool {
        self.keys.binary_search_by(|other| other.as_slice().cmp(key)).is_err()
    }

    /// Whether it says that there is no row under a key.
    pub fn excludes(&self, key: &[u8]) -> bool {
        self.covers(key) && self.lacks(key)
    }

    /// Whether the other one is the same, though its lease may end at another time.
    pub fn is_same(&self, other: &Node) -> bool {
        (self.since, &self.lower, &self.upper, &self.keys)
            == (other.since, &other.lower, &other.upper, &other.keys)
    }

    /// How many bytes it takes, but for the times.
    pub fn len_bytes(&self) -> usize {
        let keys = self.keys.iter().map(|key| 2 + key.len()).sum::<usize>();
        6 + self.lower.len() + self.upper.as_ref().map_or(0, Vec::len) + keys
    }
}

/// Rows of a range that are to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptScan {
    /// Their keys and values, in the order that was asked for; and their leases, but of those that the transaction itself has written.
    pub rows: Vec<(Vec<u8>, Values, Option<Lease>)>,
    /// The nodes that cover what was gone through, in ascending order.
    pub nodes: Vec<Node>,
}

impl<H: Host> Branch<H> {
    /// As [`Branch::scan`]; and tells the leases of the rows, and the nodes that they were in.
    ///
    /// # Errors
    /// As [`Branch::scan`].
    pub fn scan_leased(
        &mut self,
        table: &UntypedTable,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        groups: Range<usize>,
        reverse: bool,
        limit: usize,
    ) -> Result<KeptScan, Abort> {
        let from = self.context.reads.len();
        let rows = self.scan(table, (lower, upper), groups.clone(), reverse, limit)?;
        let mut reads = &self.context.reads[from..];
        let mut kept = Vec::with_capacity(rows.len());
        for (key, values) in rows {
            // SAFETY: pinned since the records were found.
            let is_of_row = |entry: &super::ReadEntry| unsafe { entry.record.key() } == key.as_slice();
            // Its reads are together, in the order of the rows; absent records were read between.
            let of_row = reads.iter().position(is_of_row).map_or(&[][..], |first| &reads[first..]);
            let count = of_row.iter().take_while(|entry| is_of_row(entry)).count();
            let lease = lease_of_reads(self.context.order, &of_row[..count], &groups);
            if count > 0 {
                reads = &of_row[count..];
            }
            kept.push((key, values, lease));
        }
        let last =
            kept.last().filter(|_| kept.len() == limit).map(|(key, ..)| Bound::Included(key.as_slice()));
        let bounds = match (last, reverse) {
            (Some(last), false) => (lower, last),
            (Some(last), true) => (last, upper),
            (None, _) => (lower, upper),
        };
        let nodes = if limit == 0 { Vec::new() } else { self.leaves(TableRef::new(&table.0), bounds) };
        Ok(KeptScan { rows: kept, nodes })
    }

    /// The index node that says that there is no row under a key. `None` if there is none that does.
    ///
    /// # Errors
    /// As [`Branch::read`].
    pub fn node_without(&mut self, table: &UntypedTable, key: &[u8]) -> Result<Option<Node>, Abort> {
        let (table, _) = self.use_groups(table, key, &(0..table.groups()))?;
        let node = match &table.get().index {
            Index::Ordered(_) => self.leaves(table, (Bound::Included(key), Bound::Included(key))).pop(),
            Index::Hash(index) => match index.get(key) {
                Lookup::Found(_) => None,
                Lookup::Absent(seen) => {
                    self.context.note_node(table, seen, key);
                    let upper = [key, &[0]].concat();
                    Some(self.node(&seen, key.to_vec(), Some(upper), Vec::new()))
                }
            },
        };
        Ok(node.filter(|node| node.excludes(key)))
    }

    /// Whether an index node of which somebody has kept a copy is as it was. The transaction relies on it from here on.
    ///
    /// # Errors
    /// As [`Branch::read`].
    pub fn is_node_current(&mut self, table: &UntypedTable, node: &Node) -> Result<bool, Abort> {
        let (core, _) = self.use_groups(table, &node.lower, &(0..table.groups()))?;
        if let Index::Hash(_) = &core.get().index {
            return Ok(self.node_without(table, &node.lower)?.is_some_and(|now| now.is_same(node)));
        }
        // (A fence need be no key of the table, so that it cannot be looked for.)
        let near = match (node.keys.first(), node.lower.as_slice()) {
            (Some(key), _) => Bound::Included(key.as_slice()),
            (None, []) => Bound::Unbounded,
            (None, _) => return Ok(false),
        };
        let upper = match near {
            Bound::Included(_) => near,
            _ => Bound::Unbounded,
        };
        let mut now = None;
        self.for_each_leaf(core, (near, upper), |leaf| {
            now = Some(leaf);
            ControlFlow::Break(())
        });
        Ok(now.is_some_and(|now| now.is_same(node)))
    }

    fn leaves(&mut self, table: TableRef, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Vec<Node> {
        let mut nodes = Vec::new();
        self.for_each_leaf(table, bounds, |node| {
            nodes.push(node);
            ControlFlow::Continue(())
        });
        nodes
    }

    /// The leaves of an ordered index that cover a part of a range: the transaction relies on them.
    fn for_each_leaf(
        &mut self,
        table: TableRef,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        mut visit: impl FnMut(Node) -> ControlFlow<()>,
    ) {
        let Index::Ordered(index) = &table.get().index else { return };
        let (lower, upper) = (lower.map(key_bytes), upper.map(key_bytes));
        let (lower, upper) = (lower.as_ref().map(|b| b.as_slice()), upper.as_ref().map(|b| b.as_slice()));
        index.leaves(lower, upper, |leaf| {
            // SAFETY: pinned, and the records were found just now.
            let keys: Vec<_> = leaf.records.iter().map(|record| unsafe { record.key() }.to_vec()).collect();
            self.context.note_node(table, leaf.seen, keys.first().unwrap_or(&leaf.lower));
            visit(self.node(&leaf.seen, leaf.lower, leaf.upper, keys))
        });
    }

    fn node(&self, seen: &NodeSeen, lower: Vec<u8>, upper: Option<Vec<u8>>, keys: Vec<Vec<u8>>) -> Node {
        let (since, until) = match self.context.order {
            Some(Order::Logical) => (Timestamp::new(seen.wts), Timestamp::new(seen.rts)),
            // No lease holds, not even one of a single time.
            _ => (Timestamp::new(seen.wts.max(1)), Timestamp::ZERO),
        };
        Node { lower, upper, keys, since, until }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BranchHost;
    use super::*;
    use crate::{Age, Database, Key, Protocol, SlotId, TableOptions};

    /// Nodes of tables with keys of all classes, after leaves have been split: each begins where the one before ends, the first has no
    /// beginning and the last no end, and what they list is what there is.
    fn they_tile<K: Key + Clone>(keys: &[K]) {
        let db = Database::builder().host(BranchHost::new(1)).order(Order::Logical).build().unwrap();
        let options = TableOptions::new().protocol(Protocol::Sundial);
        let table = UntypedTable::of(&db.create_table::<K, i64>("t", options).unwrap());
        let mut branch = Branch::new(&db).unwrap();
        let bytes = |key: &K| crate::KeyBytes::of::<K>(key).as_slice().to_vec();
        for (number, key) in keys.iter().enumerate() {
            branch.begin(Age::new(number as u64, SlotId::NOBODY), Timestamp::ZERO).unwrap();
            assert!(branch.insert(&table, &bytes(key), &Values::of(&1_i64), false).unwrap());
            let at = branch.standing().bound;
            branch.prepare(at).unwrap();
            branch.install(at).unwrap();
        }
        let mut all: Vec<Vec<u8>> = keys.iter().map(bytes).collect();
        all.sort();
        branch.begin(Age::new(1000, SlotId::NOBODY), Timestamp::new(100)).unwrap();
        let every = (Bound::Unbounded, Bound::Unbounded);
        let KeptScan { rows, nodes } = branch.scan_leased(&table, every, 0..1, false, usize::MAX).unwrap();
        assert!(rows.iter().all(|(.., lease)| lease.is_some()));
        assert_eq!(rows.iter().map(|(key, ..)| key.clone()).collect::<Vec<_>>(), all);
        assert!(nodes.len() > 3, "{} nodes", nodes.len());
        assert!(nodes[0].lower.is_empty() && nodes[nodes.len() - 1].upper.is_none());
        assert!(nodes.windows(2).all(|pair| pair[0].upper.as_ref() == Some(&pair[1].lower)), "{nodes:?}");
        assert_eq!(nodes.iter().flat_map(|node| node.keys.clone()).collect::<Vec<_>>(), all);
        for node in &nodes {
            assert!(node.keys.iter().all(|key| node.covers(key) && !node.lacks(key)), "{node:?}");
            assert!(branch.is_node_current(&table, node).unwrap(), "{node:?}");
            let key = &node.keys[0];
            assert_eq!(branch.node_without(&table, key).unwrap(), None);
            let alone = (Bound::Included(key.as_slice()), Bound::Included(key.as_slice()));
            let KeptScan { nodes: found, .. } =
                branch.scan_leased(&table, alone, 0..1, true, usize::MAX).unwrap();
            assert!(matches!(found.as_slice(), [found] if found == node), "{found:?}");
            let other = Node { since: node.since.next(), ..node.clone() };
            assert!(!branch.is_node_current(&table, &other).unwrap());
        }
        branch.roll_back();
    }

    #[test]
    fn nodes_tile_the_space_of_keys_whatever_those_are() {
        let numbers = (0..200_u64).map(|n| n * 37 % 211);
        they_tile::<u64>(&numbers.clone().map(|n| (n << 20) + n % 3).collect::<Vec<_>>());
        they_tile::<u32>(&numbers.clone().map(|n| (n as u32) << 8).collect::<Vec<_>>());
        they_tile::<(u64, u64)>(&numbers.clone().map(|n| (n / 20, n << 8)).collect::<Vec<_>>());
        they_tile::<String>(
            &numbers.map(|n| "ab".repeat(n as usize % 7) + &n.to_string()).collect::<Vec<_>>(),
        );
    }

    #[test]
    fn of_a_hash_index_a_node_is_one_key() {
        let db = Database::builder().host(BranchHost::new(1)).order(Order::Logical).build().unwrap();
        let options = TableOptions::new().protocol(Protocol::Sundial).index(crate::IndexKind::Hash);
        let table = UntypedTable::of(&db.create_table::<u64, i64>("t", options).unwrap());
        let mut branch = Branch::new(&db).unwrap();
        branch.begin(Age::new(1, SlotId::NOBODY), Timestamp::ZERO).unwrap();
        let key = 7_u64.to_be_bytes();
        let node = branch.node_without(&table, &key).unwrap().unwrap();
        assert!(
            node.excludes(&key) && !node.covers(&8_u64.to_be_bytes()) && !node.covers(&6_u64.to_be_bytes())
        );
        assert!(branch.is_node_current(&table, &node).unwrap());
        assert!(branch.insert(&table, &key, &Values::of(&1_i64), false).unwrap());
        assert_eq!(branch.node_without(&table, &key).unwrap(), None);
        assert!(!branch.is_node_current(&table, &node).unwrap());
        branch.roll_back();
    }
}
