//! Copies of rows of other servers, kept at the server whose clients read them [Sundial §4].
//!
//! A copy is as good as the row for any transaction that commits within its lease, whatever has become of the row meanwhile: that is
//! what the lease says. A transaction that commits later has the row's server look whether the version is current, and that extends
//! the lease. So nobody needs to be told of a write, and no copy needs to be taken back.
//!
//! - *Whether a copy is read*, or its row asked for, is the [policy's](ReusePolicy) to say.
//! - *Who writes a row brings its copy up to date* once he has committed, in one step (Algorithm 3, lines 5 and 6, where it is two): so a
//!   client that has written a row finds what it wrote.
//! - *A copy that is found to be stale is dropped*, so that nobody stumbles over it again.
//! - *A lease of a whole table* extends those of its copies that were made, or found to be current, since the table was last written.
//!
//! A cache has a number of banks, each with a lock of its own, and in each the copies that were used last, up to so many bytes. What is read of
//! a row is copied as it is read: a copy of one column group serves nobody who reads all of them.
//!
//! In a cluster whose databases are not in logical order no lease holds: each copy that was read is looked at when its reader
//! commits. That saves the bytes of the row and the time of the answer, not the message; and order is strict.
//!
//! Index nodes are kept as rows are. A node says which keys of an interval have records, so it answers for a key without a row, and, if there are
//! copies of all its rows, for a range ([`Cache::look_range`]).
//!
//! What it does not do: keep which rows are absent though they have records, until those have been reclaimed: those, and ranges in which
//! they are, are asked for. Leases of whole tables do not extend those of nodes.

use crate::message::TableLease;
use crate::partition::{ServerId, TableId};
use crate::planted::{Bug, Planted};
use noonmark::Timestamp;
use noonmark::branch::{Lease, Node, Values};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, Range, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard};

/// When a copy is read instead of asking for its row [Sundial §4.2].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReusePolicy {
    /// Always.
    Always,
    /// Never: the row is asked for, and its values are sent only if there are newer ones.
    Never,
    /// If so many of the copies of the table that were looked at were current, as a share of all: those of the last while count
    /// most. As long as none has been looked at, never.
    ///
    /// The paper votes for all tables together, and has the quotient of current and stale ones.
    Voted(f64),
}

impl Default for ReusePolicy {
    /// The paper's threshold.
    fn default() -> Self {
        ReusePolicy::Voted(0.8)
    }
}

/// How a cache is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheOptions {
    /// How many bytes it takes at most, its own included.
    pub bytes_max: usize,
    /// Banks, at least one. Each has its share of the bytes.
    pub banks: usize,
    /// When a copy is read.
    pub reuse: ReusePolicy,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions { bytes_max: 64 << 20, banks: 16, reuse: ReusePolicy::default() }
    }
}

/// What a cache has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Reads that were answered by a copy.
    pub reused: u64,
    /// Reads whose row was asked for though there was a copy.
    pub requested: u64,
    /// Reads of what there was no copy of.
    pub missed: u64,
    /// Copies that were found to be current.
    pub current: u64,
    /// Copies that were found to be stale.
    pub stale: u64,
    /// Copies that others took the place of.
    pub evicted: u64,
}

impl std::ops::Add for CacheCounts {
    type Output = CacheCounts;

    fn add(self, other: CacheCounts) -> CacheCounts {
        CacheCounts {
            reused: self.reused + other.reused,
            requested: self.requested + other.requested,
            missed: self.missed + other.missed,
            current: self.current + other.current,
            stale: self.stale + other.stale,
            evicted: self.evicted + other.evicted,
        }
    }
}

impl std::ops::Sub for CacheCounts {
    type Output = CacheCounts;

    /// What has been counted since then.
    fn sub(self, before: CacheCounts) -> CacheCounts {
        CacheCounts {
            reused: self.reused - before.reused,
            requested: self.requested - before.requested,
            missed: self.missed - before.missed,
            current: self.current - before.current,
            stale: self.stale - before.stale,
            evicted: self.evicted - before.evicted,
        }
    }
}

/// A copy of column groups of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// Their values.
    pub values: Values,
    /// Which versions they are, and until when they hold.
    pub lease: Lease,
}

/// What to do for a read.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// Read this.
    Reuse(Copy),
    /// Ask for the row, but for its values only if they are not these.
    Request(Copy),
    /// Ask for the row.
    Miss,
}

/// A range, as copies have it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeCopy {
    /// Index nodes that cover it.
    pub nodes: Vec<Arc<Node>>,
    /// Its rows, in the order that was asked for.
    pub rows: Vec<(Place, Copy)>,
}

/// What a copy is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Rows of this server.
    pub server: ServerId,
    /// And of this table.
    pub table: TableId,
    /// Under this key.
    pub key: Vec<u8>,
    /// These groups.
    pub groups: Range<usize>,
}

struct Entry {
    groups: Range<usize>,
    copy: Copy,
    /// How many writers of the table had been installed when it was last known to be current, if that is known.
    as_of: Option<u64>,
    /// When it was last used, in uses of the bank.
    turn: u64,
}

/// Bytes that a copy takes beside its key and its values, about.
const ENTRY_BYTES: usize = 128;

impl Entry {
    fn bytes(&self, key: &RowKey) -> usize {
        ENTRY_BYTES + 2 * key.1.len() + self.copy.values.len_bytes() + 8 * self.copy.lease.written.len()
    }
}

type RowKey = (TableId, Vec<u8>);

/// Where a node begins.
type NodeKey = (ServerId, TableId, Vec<u8>);

struct NodeEntry {
    node: Arc<Node>,
    turn: u64,
}

impl NodeEntry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + 2 * self.node.lower.len() + self.node.len_bytes()
    }
}

/// What has been used.
#[derive(Clone, Debug)]
enum Used {
    Row(RowKey),
    Node(NodeKey),
}

#[derive(Default)]
struct Bank {
    rows: HashMap<RowKey, Vec<Entry>>,
    /// **Invariant**: those of one table of one server do not overlap.
    nodes: BTreeMap<NodeKey, NodeEntry>,
    /// Which row, or node, has been used when, the longest ago first.
    ///
    /// **Invariant**: one for each entry, under its turn.
    turns: BTreeMap<u64, Used>,
    turn: u64,
    bytes: usize,
}

impl Bank {
    /// Takes a copy out.
    fn remove(&mut self, key: &RowKey, groups: &Range<usize>) -> Option<Entry> {
        let entries = self.rows.get_mut(key)?;
        let at = entries.iter().position(|entry| entry.groups == *groups)?;
        let entry = entries.swap_remove(at);
        if entries.is_empty() {
            self.rows.remove(key);
        }
        self.turns.remove(&entry.turn);
        self.bytes -= entry.bytes(key);
        Some(entry)
    }

    /// Puts a copy in that is not there, as the one used last.
    fn insert(&mut self, key: RowKey, mut entry: Entry) {
        self.turn += 1;
        entry.turn = self.turn;
        self.bytes += entry.bytes(&key);
        self.turns.insert(self.turn, Used::Row(key.clone()));
        self.rows.entry(key).or_default().push(entry);
    }

    /// Takes a node out.
    fn remove_node(&mut self, key: &NodeKey) -> Option<NodeEntry> {
        let entry = self.nodes.remove(key)?;
        self.turns.remove(&entry.turn);
        self.bytes -= entry.bytes();
        Some(entry)
    }

    /// Puts a node in that overlaps none, as the one used last.
    fn insert_node(&mut self, server: ServerId, table: TableId, node: Arc<Node>) {
        self.turn += 1;
        let (key, entry) = ((server, table, node.lower.clone()), NodeEntry { node, turn: self.turn });
        self.bytes += entry.bytes();
        self.turns.insert(self.turn, Used::Node(key.clone()));
        self.nodes.insert(key, entry);
    }

    /// The node that begins last of those that begin where a key is, or before.
    fn node_before(&self, key: NodeKey) -> Option<&Arc<Node>> {
        let (server, table, _) = key;
        let first = (server, table, Vec::new());
        self.nodes.range(first..=key).next_back().map(|(_, entry)| &entry.node)
    }

    /// The nodes that overlap this one.
    fn overlapping(&self, server: ServerId, table: TableId, node: &Node) -> Vec<NodeKey> {
        let before = self.node_before((server, table, node.lower.clone())).map(|before| before.lower.clone());
        let from = (server, table, before.unwrap_or_else(|| node.lower.clone()));
        let of_table = self.nodes.range(from..).take_while(|(key, _)| (key.0, key.1) == (server, table));
        let is_before = |one: &Node, other: &Node| one.upper.as_ref().is_some_and(|end| *end <= other.lower);
        let overlaps = |other: &Node| !is_before(other, node) && !is_before(node, other);
        of_table.filter(|(_, entry)| overlaps(&entry.node)).map(|(key, _)| key.clone()).collect()
    }

    fn find(&mut self, key: &RowKey, groups: &Range<usize>) -> Option<&mut Entry> {
        self.rows.get_mut(key)?.iter_mut().find(|entry| entry.groups == *groups)
    }

    /// It has been used now.
    fn touch(&mut self, key: &RowKey, groups: &Range<usize>) {
        self.turn += 1;
        let turn = self.turn;
        let Some(entry) = self.find(key, groups) else { return };
        let before = std::mem::replace(&mut entry.turn, turn);
        self.move_turn(before);
    }

    /// The same of a node.
    fn touch_node(&mut self, key: &NodeKey) {
        self.turn += 1;
        let turn = self.turn;
        let Some(entry) = self.nodes.get_mut(key) else { return };
        let before = std::mem::replace(&mut entry.turn, turn);
        self.move_turn(before);
    }

    fn move_turn(&mut self, before: u64) {
        if let Some(used) = self.turns.remove(&before) {
            self.turns.insert(self.turn, used);
        }
    }

    /// Drops what has not been used for longest until there is no more than so much: how many.
    fn shrink(&mut self, bytes_max: usize) -> u64 {
        let mut dropped = 0;
        while self.bytes > bytes_max
            && let Some((turn, used)) = self.turns.first_key_value()
        {
            let turn = *turn;
            match used.clone() {
                Used::Node(key) => self.remove_node(&key).map_or((), drop),
                Used::Row(key) => {
                    let groups = self.rows.get(&key).and_then(|entries| {
                        entries.iter().find(|entry| entry.turn == turn).map(|entry| entry.groups.clone())
                    });
                    if let Some(groups) = groups {
                        self.remove(&key, &groups);
                    }
                }
            }
            // (It is gone with what was used then.)
            self.turns.remove(&turn);
            dropped += 1;
        }
        dropped
    }
}

/// How many copies of a table that were looked at were current, and how many stale. Both are halved now and then.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    current: u32,
    stale: u32,
}

/// From so many votes on they are halved.
const VOTES_MAX: u32 = 1 << 10;

impl Votes {
    fn count(&mut self, is_current: bool) {
        match is_current {
            true => self.current += 1,
            false => self.stale += 1,
        }
        if self.current + self.stale >= VOTES_MAX {
            (self.current, self.stale) = (self.current / 2, self.stale / 2);
        }
    }

    fn share(self) -> f64 {
        f64::from(self.current) / f64::from((self.current + self.stale).max(1))
    }
}

/// What is known of tables.
#[derive(Default)]
struct Tables {
    leases: BTreeMap<(ServerId, TableId), TableLease>,
    votes: BTreeMap<TableId, Votes>,
    counts: CacheCounts,
}

/// Copies of rows of other servers. Shared by the clients of a server.
pub struct Cache {
    banks: Box<[Mutex<Bank>]>,
    tables: Mutex<Tables>,
    options: CacheOptions,
    planted: Planted,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Cache {
    /// Without any copy.
    pub fn new(options: CacheOptions) -> Self {
        let banks = (0..options.banks.max(1)).map(|_| Mutex::default()).collect();
        Cache { banks, tables: Mutex::default(), options, planted: Planted::default() }
    }

    /// The same, perhaps broken on purpose.
    #[doc(hidden)]
    pub fn planted(self, planted: Planted) -> Self {
        Cache { planted, ..self }
    }

    /// What it has counted.
    pub fn counts(&self) -> CacheCounts {
        lock(&self.tables).counts
    }

    /// How many bytes its copies take.
    pub fn bytes(&self) -> usize {
        self.banks.iter().map(|bank| lock(bank).bytes).sum()
    }

    /// What to do for a read.
    pub fn look(&self, place: &Place) -> Look {
        let found = self.find(place);
        let mut tables = lock(&self.tables);
        let Some(copy) = found else {
            tables.counts.missed += 1;
            return Look::Miss;
        };
        if tables.reuses(place.table, self.options.reuse) {
            tables.counts.reused += 1;
            Look::Reuse(copy)
        } else {
            tables.counts.requested += 1;
            Look::Request(copy)
        }
    }

    /// The copy of a row, if there is one.
    fn find(&self, place: &Place) -> Option<Copy> {
        let key = row_key(place);
        let (mut copy, as_of) = {
            let mut bank = lock(self.bank(&key));
            bank.touch(&key, &place.groups);
            bank.find(&key, &place.groups).map(|entry| (entry.copy.clone(), entry.as_of))?
        };
        if let Some(lease) = lock(&self.tables).leases.get(&(place.server, place.table)) {
            let holds = as_of == Some(lease.writes) || self.planted.is(Bug::TableLeaseOfOldCopies);
            if holds {
                copy.lease.until = copy.lease.until.max(lease.until);
            }
        }
        Some(copy)
    }

    /// Whether nodes are of any use.
    pub fn keeps_nodes(&self) -> bool {
        self.options.reuse != ReusePolicy::Never
    }

    /// An index node that says that there is no row at a place, if there is a copy of it that should be read.
    pub fn look_absent(&self, place: &Place) -> Option<Arc<Node>> {
        let node = match self.planted.is(Bug::NodeUsedBeyondItsFence) {
            false => self.node_at(place.server, place.table, &place.key),
            true => {
                let bank = lock(self.bank_of_nodes(place.server, place.table));
                bank.node_before((place.server, place.table, place.key.clone())).cloned()
            }
        };
        let node = node.filter(|node| node.lacks(&place.key))?;
        let mut tables = lock(&self.tables);
        tables.reuses(place.table, self.options.reuse).then(|| {
            tables.counts.reused += 1;
            node
        })
    }

    /// Column groups of the rows of a range at one server, if there are copies of all of it that should be read: as many as `limit` at
    /// most, in the order of the keys or in reverse.
    pub fn look_range(
        &self,
        (server, table): (ServerId, TableId),
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        groups: &Range<usize>,
        reverse: bool,
        limit: usize,
    ) -> Option<RangeCopy> {
        let bytes = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.to_vec()),
            Bound::Unbounded => None,
        };
        let (first, last) = (bytes(lower), bytes(upper));
        let is_empty = first.as_ref().zip(last.as_ref()).is_some_and(|(first, last)| first > last);
        if is_empty || limit == 0 || !lock(&self.tables).reuses(table, self.options.reuse) {
            return None;
        }
        let mut range = RangeCopy::default();
        let mut node = match (reverse, &first, &last) {
            (false, first, _) => self.node_at(server, table, first.as_deref().unwrap_or_default())?,
            (true, _, Some(last)) => self.node_at(server, table, last)?,
            (true, _, None) => self.last_node(server, table)?,
        };
        'nodes: loop {
            range.nodes.push(Arc::clone(&node));
            let mut keys: Vec<&Vec<u8>> =
                node.keys.iter().filter(|key| (lower, upper).contains(&key.as_slice())).collect();
            if reverse {
                keys.reverse();
            }
            for key in keys {
                let place = Place { server, table, key: key.clone(), groups: groups.clone() };
                let copy = self.find(&place)?;
                range.rows.push((place, copy));
                if range.rows.len() == limit {
                    break 'nodes;
                }
            }
            let next = match reverse {
                false => match &node.upper {
                    Some(end) if last.as_ref().is_none_or(|last| end <= last) => {
                        self.node_at(server, table, end)
                    }
                    _ => break,
                },
                true if node.lower.is_empty() || first.as_ref().is_some_and(|first| node.lower <= *first) => {
                    break;
                }
                true => self.node_up_to(server, table, &node.lower),
            };
            node = next?;
        }
        lock(&self.tables).counts.reused += range.rows.len().max(1) as u64;
        Some(range)
    }

    /// The node that a key is of.
    fn node_at(&self, server: ServerId, table: TableId, key: &[u8]) -> Option<Arc<Node>> {
        let mut bank = lock(self.bank_of_nodes(server, table));
        let node = Arc::clone(bank.node_before((server, table, key.to_vec()))?);
        bank.touch_node(&(server, table, node.lower.clone()));
        node.covers(key).then_some(node)
    }

    /// The one without an end.
    fn last_node(&self, server: ServerId, table: TableId) -> Option<Arc<Node>> {
        let bank = lock(self.bank_of_nodes(server, table));
        let of_table = bank.nodes.range((server, table, Vec::new())..);
        let of_table = of_table.take_while(|(key, _)| (key.0, key.1) == (server, table));
        of_table.map(|(_, entry)| &entry.node).find(|node| node.upper.is_none()).cloned()
    }

    /// The one that ends here.
    fn node_up_to(&self, server: ServerId, table: TableId, end: &[u8]) -> Option<Arc<Node>> {
        let bank = lock(self.bank_of_nodes(server, table));
        let before = bank.nodes.range((server, table, Vec::new())..(server, table, end.to_vec())).next_back();
        before.map(|(_, entry)| &entry.node).filter(|node| node.upper.as_deref() == Some(end)).cloned()
    }

    /// An index node has been asked for, and this is what it is.
    pub fn keep_node(&self, server: ServerId, table: TableId, node: Node) {
        let evicted = {
            let mut bank = lock(self.bank_of_nodes(server, table));
            // Another client of this server may have been quicker, and seen a newer version, or a later end of this one.
            let overlapping = bank.overlapping(server, table, &node);
            let is_newer = |key: &NodeKey| {
                let of = &bank.nodes[key].node;
                (of.since, of.until) > (node.since, node.until)
            };
            if overlapping.iter().any(is_newer) {
                return;
            }
            for key in overlapping {
                bank.remove_node(&key);
            }
            bank.insert_node(server, table, Arc::new(node));
            bank.shrink(self.options.bytes_max / self.banks.len())
        };
        lock(&self.tables).counts.evicted += evicted;
    }

    /// A copy of this node was current, and holds until then.
    pub fn renew_node(&self, server: ServerId, table: TableId, node: &Node, until: Timestamp) {
        let key = (server, table, node.lower.clone());
        if let Some(entry) = lock(self.bank_of_nodes(server, table)).nodes.get_mut(&key)
            && entry.node.is_same(node)
            && entry.node.until >= entry.node.since
            && entry.node.until < until
        {
            Arc::make_mut(&mut entry.node).until = until;
        }
        lock(&self.tables).vote(table, true);
    }

    /// Drops the node that says that there is no row under a key, or that begins there.
    pub fn remove_node(&self, server: ServerId, table: TableId, key: &[u8]) {
        let mut bank = lock(self.bank_of_nodes(server, table));
        let node = bank.node_before((server, table, key.to_vec()));
        let node = node.filter(|node| node.excludes(key) || node.lower == key).map(|node| node.lower.clone());
        if let Some(lower) = node {
            bank.remove_node(&(server, table, lower));
        }
    }

    /// The row has been asked for, and this is what it is. `had`: there was a copy, which turns out to be current or not.
    pub fn keep(&self, place: &Place, copy: Copy, table: Option<TableLease>, had: Option<bool>) {
        let key = row_key(place);
        let evicted = {
            let mut bank = lock(self.bank(&key));
            let before = bank.remove(&key, &place.groups);
            let as_of = table.map(|table| table.writes);
            let mut entry = Entry { groups: place.groups.clone(), copy, as_of, turn: 0 };
            // Another client of this server may have been quicker, and seen a newer version, or a later end of this one.
            if let Some(before) = before
                && is_newer(&before.copy.lease, &entry.copy.lease)
            {
                entry = before;
            }
            bank.insert(key, entry);
            bank.shrink(self.options.bytes_max / self.banks.len())
        };
        let mut tables = lock(&self.tables);
        tables.counts.evicted += evicted;
        if let Some(was_current) = had {
            tables.vote(place.table, was_current);
        }
    }

    /// A copy of these versions was current, and holds until then.
    pub fn renew(&self, place: &Place, written: &[Timestamp], until: Timestamp, table: Option<TableLease>) {
        let key = row_key(place);
        if let Some(entry) = lock(self.bank(&key)).find(&key, &place.groups)
            && entry.copy.lease.written == written
        {
            if entry.copy.lease.until >= entry.copy.lease.begins() {
                entry.copy.lease.until = entry.copy.lease.until.max(until);
            }
            entry.as_of = table.map(|table| table.writes).max(entry.as_of);
        }
        lock(&self.tables).vote(place.table, true);
    }

    /// Copies of this row are not current, or that of the node that begins there.
    pub fn drop_stale(&self, server: ServerId, table: TableId, key: &[u8]) {
        self.remove(table, key);
        self.remove_node(server, table, key);
        lock(&self.tables).vote(table, false);
    }

    /// Drops all copies of a row.
    pub fn remove(&self, table: TableId, key: &[u8]) {
        let key = (table, key.to_vec());
        let mut bank = lock(self.bank(&key));
        let all: Vec<_> =
            bank.rows.get(&key).iter().flat_map(|list| list.iter()).map(|e| e.groups.clone()).collect();
        for groups in all {
            bank.remove(&key, &groups);
        }
    }

    /// A client of this server has written these groups of a row, at this commit time.
    ///
    /// Copies of other groups of the row are dropped if any is among these.
    pub fn write(&self, place: &Place, values: Values, at: Timestamp) {
        let key = row_key(place);
        let mut bank = lock(self.bank(&key));
        let overlaps =
            |groups: &Range<usize>| groups.start < place.groups.end && place.groups.start < groups.end;
        let Some(entries) = bank.rows.get(&key) else { return };
        let touched: Vec<_> = entries.iter().map(|e| e.groups.clone()).filter(overlaps).collect();
        for groups in touched {
            let Some(mut entry) = bank.remove(&key, &groups) else { continue };
            if entry.copy.lease.begins() >= at {
                bank.insert(key.clone(), entry);
            } else if groups == place.groups {
                let holds = entry.copy.lease.until >= entry.copy.lease.begins();
                let written = vec![at; groups.len()];
                let until = if holds { at } else { Timestamp::ZERO };
                entry.copy = Copy { values: values.clone(), lease: Lease { written, until } };
                entry.as_of = None;
                bank.insert(key.clone(), entry);
            }
        }
    }

    /// What holds for a whole table of a server.
    pub fn extend_table(&self, server: ServerId, table: TableId, lease: TableLease) {
        let mut tables = lock(&self.tables);
        let known = tables.leases.entry((server, table)).or_insert(lease);
        if (lease.writes, lease.until) > (known.writes, known.until) {
            *known = lease;
        }
    }

    /// That of the nodes of a table of a server: all in one, so that neighbours are found.
    fn bank_of_nodes(&self, server: ServerId, table: TableId) -> &Mutex<Bank> {
        self.bank(&(table, server.number().to_be_bytes().to_vec()))
    }

    fn bank(&self, key: &RowKey) -> &Mutex<Bank> {
        // FNV-1a.
        let seed = 0xcbf2_9ce4_8422_2325_u64 ^ key.0.index() as u64;
        let hash =
            key.1.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        &self.banks[((hash ^ hash >> 32) % self.banks.len() as u64) as usize]
    }
}

impl Tables {
    /// Whether a copy is read that there is.
    fn reuses(&self, table: TableId, policy: ReusePolicy) -> bool {
        let votes = self.votes.get(&table).copied().unwrap_or_default();
        match policy {
            ReusePolicy::Always => true,
            ReusePolicy::Never => false,
            ReusePolicy::Voted(share) => votes.current + votes.stale > 0 && votes.share() >= share,
        }
    }

    fn vote(&mut self, table: TableId, is_current: bool) {
        self.votes.entry(table).or_default().count(is_current);
        match is_current {
            true => self.counts.current += 1,
            false => self.counts.stale += 1,
        }
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("options", &self.options).field("counts", &self.counts()).finish()
    }
}

fn row_key(place: &Place) -> RowKey {
    (place.table, place.key.clone())
}

/// Whether the first lease is of newer versions than the second, or of the same and for longer.
fn is_newer(one: &Lease, other: &Lease) -> bool {
    (&one.written, one.until) > (&other.written, other.until)
        && one.written.iter().zip(&other.written).all(|(one, other)| one >= other)
}
