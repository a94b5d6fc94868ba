//! Who owns what: which server has the rows of a table under which keys.
//!
//! Keys are bytes that compare as the typed keys do, so a range of keys is a range of bytes, and the first columns of a tuple are the
//! first bytes. A table is spread by a hash of the first bytes of its keys, or by ranges of them, or each server has all of it.
//!
//! The entries of a secondary index are where their rows are: so whoever changes a row changes its entries at the same server. Where
//! entries are looked for depends on what their keys have to do with those of the rows ([`IndexReach`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

/// One of the servers of a cluster, which count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(u16);

impl ServerId {
    /// The server of this number.
    pub const fn new(number: u16) -> Self {
        ServerId(number)
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The same as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for ServerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "server {}", self.0)
    }
}

/// One of the tables of a cluster, in the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(u16);

impl TableId {
    /// The table of this number.
    pub const fn new(number: u16) -> Self {
        TableId(number)
    }

    /// Its number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How the rows of one table are spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// By a hash of the first bytes of the key, or of the whole key where it is shorter.
    Hash {
        /// How many bytes.
        prefix_bytes: usize,
    },
    /// By ranges: the keys below the first bound are the first server's, those from it on and below the second one are the second server's,
    /// and so on, beginning with the first server again when there are more ranges than servers. In ascending order.
    Ranges(Vec<Vec<u8>>),
    /// Each server has all rows. It reads its own; who writes one writes them all.
    Replicated,
}

/// Where the entries of a secondary index between two bounds are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexReach {
    /// Anywhere: every server is asked that has rows of the table.
    #[default]
    Everywhere,
    /// Where rows under such keys would be, as each secondary key begins with those bytes of the row's own key by which the table is spread:
    /// a warehouse's customers by their names, where rows are spread by warehouses. It is up to whoever makes the index that this is so: the
    /// entries of a row for which it is not are not always found.
    AsRows,
}

/// A table cannot be spread like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPartitioning {
    /// The bounds of its ranges are not in ascending order: this one, counted from 0, is not above the one before it.
    #[error(
        "the bounds of a table's ranges must ascend, and bound number {0} is not above the one before it"
    )]
    NotAscending(usize),
    /// There are 65,536 tables.
    #[error("a cluster has room for 65,536 tables")]
    TooManyTables,
    /// There is no table that the index would be of.
    #[error("there is no table that the index would be of")]
    NoTable,
}

/// How the rows of all tables are spread over the servers.
#[derive(Clone, Debug)]
pub struct PartitionMap {
    servers: u16,
    tables: Vec<Partitioning>,
    /// Tables that are the entries of an index which may be at any server that has rows.
    everywhere: BTreeSet<TableId>,
    /// The column groups that the entries of an index are worked out of, by the table that it is of.
    indexed: BTreeMap<TableId, Vec<Range<usize>>>,
}

impl PartitionMap {
    /// No tables yet, on so many servers, at least one.
    pub fn new(servers: u16) -> Self {
        PartitionMap {
            servers: servers.max(1),
            tables: Vec::new(),
            everywhere: BTreeSet::new(),
            indexed: BTreeMap::new(),
        }
    }

    /// How many servers there are.
    pub fn servers(&self) -> u16 {
        self.servers
    }

    /// Adds a table.
    ///
    /// # Errors
    /// [`InvalidPartitioning`]; the map is as it was.
    pub fn add(&mut self, partitioning: Partitioning) -> Result<TableId, InvalidPartitioning> {
        if let Partitioning::Ranges(bounds) = &partitioning
            && let Some(at) = bounds.windows(2).position(|pair| pair[0] >= pair[1])
        {
            return Err(InvalidPartitioning::NotAscending(at + 1));
        }
        let id = u16::try_from(self.tables.len()).map_err(|_| InvalidPartitioning::TooManyTables)?;
        self.tables.push(partitioning);
        Ok(TableId(id))
    }

    /// Adds the entries of a secondary index of a table, which are worked out of these column groups of its rows.
    ///
    /// # Errors
    /// [`InvalidPartitioning`]; the map is as it was.
    pub fn add_index(
        &mut self,
        of: TableId,
        groups: Range<usize>,
        reach: IndexReach,
    ) -> Result<TableId, InvalidPartitioning> {
        let as_rows = self.tables.get(of.index()).ok_or(InvalidPartitioning::NoTable)?.clone();
        let is_split = as_rows != Partitioning::Replicated;
        let id = self.add(as_rows)?;
        if is_split && reach == IndexReach::Everywhere {
            self.everywhere.insert(id);
        }
        self.indexed.entry(of).or_default().push(groups);
        Ok(id)
    }

    /// The column groups that the entries of each index of a table are worked out of.
    pub fn indexed(&self, table: TableId) -> &[Range<usize>] {
        self.indexed.get(&table).map_or(&[], Vec::as_slice)
    }

    fn all(&self) -> impl Iterator<Item = ServerId> + use<> {
        (0..self.servers).map(ServerId)
    }

    /// Which server somebody at `home` asks for a row.
    pub fn reader(&self, table: TableId, key: &[u8], home: ServerId) -> ServerId {
        match self.tables.get(table.index()) {
            Some(Partitioning::Hash { prefix_bytes }) => self.of_hash(key, *prefix_bytes),
            Some(Partitioning::Ranges(bounds)) => {
                self.of_range(bounds.partition_point(|bound| bound.as_slice() <= key))
            }
            Some(Partitioning::Replicated) | None => self.at_home(home),
        }
    }

    /// Which servers have the row, and so must be told of a new value.
    pub fn writers(&self, table: TableId, key: &[u8]) -> Vec<ServerId> {
        match self.tables.get(table.index()) {
            Some(Partitioning::Replicated) => self.all().collect(),
            _ => vec![self.reader(table, key, ServerId(0))],
        }
    }

    /// Which servers somebody at `home` asks for the rows between two bounds. For ranges, in the order of their keys.
    pub fn covering(
        &self,
        table: TableId,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        home: ServerId,
    ) -> Vec<ServerId> {
        let bytes = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.to_vec()),
            Bound::Unbounded => None,
        };
        if self.everywhere.contains(&table) {
            return self.all().collect();
        }
        let (lower, upper) = (bytes(lower), bytes(upper));
        match self.tables.get(table.index()) {
            Some(Partitioning::Hash { prefix_bytes }) => {
                let prefix = |key: &Option<Vec<u8>>| key.as_ref()?.get(..*prefix_bytes).map(<[u8]>::to_vec);
                match (prefix(&lower), prefix(&upper)) {
                    (Some(low), Some(high)) if low == high => vec![self.of_hash(&low, *prefix_bytes)],
                    _ => self.all().collect(),
                }
            }
            Some(Partitioning::Ranges(bounds)) => {
                let range = |key: &[u8]| bounds.partition_point(|bound| bound.as_slice() <= key);
                let first = lower.as_deref().map_or(0, range);
                let last = upper.as_deref().map_or(bounds.len(), range);
                let mut servers = Vec::new();
                for index in first..=last {
                    let server = self.of_range(index);
                    if !servers.contains(&server) {
                        servers.push(server);
                    }
                }
                servers
            }
            Some(Partitioning::Replicated) | None => vec![self.at_home(home)],
        }
    }

    /// Where a client is that says it is there: somewhere, though there be fewer servers.
    fn at_home(&self, home: ServerId) -> ServerId {
        self.of_range(home.index())
    }

    fn of_range(&self, index: usize) -> ServerId {
        ServerId((index % usize::from(self.servers)) as u16)
    }

    /// FNV-1a, whose high bits are the most even once they are mixed.
    fn of_hash(&self, key: &[u8], prefix_bytes: usize) -> ServerId {
        let prefix = &key[..prefix_bytes.min(key.len())];
        let hash = prefix.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ServerId(((u128::from(mixed) * u128::from(self.servers)) >> 64) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_owner_and_prefixes_stay_together() {
        let mut map = PartitionMap::new(4);
        let table = map.add(Partitioning::Hash { prefix_bytes: 2 }).unwrap();
        let mut counts = [0; 4];
        for number in 0..4000_u16 {
            let mut key = number.to_be_bytes().to_vec();
            let owner = map.reader(table, &key, ServerId(0));
            counts[owner.index()] += 1;
            key.push(7);
            assert_eq!(map.reader(table, &key, ServerId(3)), owner);
            let bounds = (Bound::Included(&key[..2]), Bound::Included(&key[..]));
            assert_eq!(map.covering(table, bounds, ServerId(1)), [owner]);
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
        assert_eq!(map.covering(table, (Bound::Unbounded, Bound::Unbounded), ServerId(1)).len(), 4);
    }

    #[test]
    fn ranges_begin_at_their_bounds() {
        let mut map = PartitionMap::new(3);
        let table = map.add(Partitioning::Ranges(vec![vec![10], vec![20], vec![30]])).unwrap();
        let owner = |key: u8| map.reader(table, &[key], ServerId(0)).number();
        assert_eq!(
            [owner(0), owner(9), owner(10), owner(19), owner(20), owner(29), owner(30), owner(255)],
            [0, 0, 1, 1, 2, 2, 0, 0]
        );
        let covering = |low: u8, high: u8| {
            let bounds = (Bound::Included(&[low][..]), Bound::Excluded(&[high][..]));
            map.covering(table, bounds, ServerId(0)).iter().map(|server| server.number()).collect::<Vec<_>>()
        };
        assert_eq!(covering(0, 5), [0]);
        assert_eq!(covering(12, 25), [1, 2]);
        assert_eq!(covering(12, 40), [1, 2, 0]);
    }

    #[test]
    fn who_has_all_rows_reads_its_own_and_writes_them_all() {
        let mut map = PartitionMap::new(3);
        let table = map.add(Partitioning::Replicated).unwrap();
        assert_eq!(map.reader(table, &[1], ServerId(2)), ServerId(2));
        assert_eq!(map.writers(table, &[1]).len(), 3);
    }

    #[test]
    fn entries_are_where_their_rows_are() {
        let mut map = PartitionMap::new(3);
        let table = map.add(Partitioning::Ranges(vec![vec![10], vec![20]])).unwrap();
        let copied = map.add(Partitioning::Replicated).unwrap();
        let [by_row, by_any] = [IndexReach::AsRows, IndexReach::Everywhere]
            .map(|reach| map.add_index(table, 0..1, reach).unwrap());
        let of_copied = map.add_index(copied, 1..2, IndexReach::Everywhere).unwrap();
        let covering = |index| {
            let bounds = (Bound::Included(&[12, 1][..]), Bound::Excluded(&[12, 9][..]));
            map.covering(index, bounds, ServerId(2)).iter().map(|server| server.number()).collect::<Vec<_>>()
        };
        assert_eq!(covering(by_row), [1]);
        assert_eq!(covering(by_any), [0, 1, 2]);
        // Each server has all rows, and all entries.
        assert_eq!(covering(of_copied), [2]);
        assert_eq!((map.indexed(table), map.indexed(by_row)), (&[0..1, 0..1][..], &[][..]));
        assert_eq!(map.add_index(TableId(9), 0..1, IndexReach::AsRows), Err(InvalidPartitioning::NoTable));
    }

    #[test]
    fn bounds_ascend() {
        let mut map = PartitionMap::new(3);
        let refused = map.add(Partitioning::Ranges(vec![vec![10], vec![30], vec![20]])).unwrap_err();
        assert_eq!(refused, InvalidPartitioning::NotAscending(2));
        assert!(map.add(Partitioning::Ranges(vec![vec![10], vec![10]])).is_err());
        assert_eq!(map.add(Partitioning::Replicated).map(TableId::index), Ok(0));
    }

    #[test]
    fn a_client_from_nowhere_reads_somewhere() {
        let mut map = PartitionMap::new(3);
        let table = map.add(Partitioning::Replicated).unwrap();
        assert_eq!(map.reader(table, &[1], ServerId(7)), ServerId(1));
    }
}
