//! Where the keys of a recorded workload live.
//!
//! Keys take the tables in turn, so that a few neighbouring keys, which are hot together, are of several tables,
//! and of several protocols in a database that mixes them. Within a table two keys share a row, each in a column
//! group of its own: with fine timestamps they do not meet, with coarse ones they do.
//!
//! ```text
//! two tables:   table 0                table 1
//!               row 0: key 0 | key 2   row 0: key 1 | key 3
//!               row 1: key 4 | key 6   row 1: key 5 | key 7
//! ```
//!
//! A key whose row is there for the other key's sake holds nothing: the empty list, or 0 for a register.
//!
//! What it does not do: record.

use std::ops::{ControlFlow, Range, RangeInclusive};

use crate::store::{
    Appends, Found, Granularity, Index, IndexKind, Rows, Scan, Scope, Store, StoreError, StoreGroup, Table,
    TableSpec,
};

/// The key of a row's entry in the secondary index: the row's own, then what its registers hold.
type EntryKey = (u64, i64, i64);
/// Rows by what they hold.
type RowsByEntry<S, G> = <S as Store>::Index<EntryKey, u64, (G, G)>;
/// What a transaction has looked up together in each table; of none, if it looks up each key when it comes to it.
pub(super) type FoundKeys<'a, 'k, S> = Vec<<S as Store>::Found<'a, 'k, u64>>;

/// A table and its two column groups.
struct Columns<S: Store, G: StoreGroup> {
    /// If there is one.
    by_entry: Option<RowsByEntry<S, G>>,
    rows: S::Table<u64, (G, G)>,
    first: S::Group<u64, (G, G), 0>,
    second: S::Group<u64, (G, G), 1>,
}

/// Calls the same method on the handle of the column group that a key is in.
macro_rules! on_group {
    ($self:ident, $key:expr, ($group:ident, $row:ident) => $call:expr) => {{
        let (columns, $row, second) = $self.place($key);
        if second {
            let $group = &columns.second;
            $call
        } else {
            let $group = &columns.first;
            $call
        }
    }};
}

/// Fewer than a long run has, so that a hash index finds the first where their keys say, and the others otherwise.
const EXPECTED_ROWS: u64 = 1000;

/// The tables that hold the keys; `G` is a list or a register.
pub(super) struct Keys<S: Store, G: StoreGroup> {
    tables: Vec<Columns<S, G>>,
}

impl<S: Store, G: StoreGroup + Default> Keys<S, G> {
    /// Makes so many tables, at least one; also answers the scopes of a transaction on all of them, and of
    /// one that only reads.
    pub(super) fn new(
        store: &S,
        name: &str,
        tables: usize,
        index: IndexKind,
        granularity: Granularity,
    ) -> Result<(Self, [S::Scope; 2]), StoreError> {
        let [mut scope, mut reading] = [store.scope(), store.scope()];
        let mut made = Vec::new();
        for number in 0..tables.max(1) {
            let name = if tables > 1 { format!("{name} {number}") } else { name.to_owned() };
            let spec =
                TableSpec::new(name).index(index).granularity(granularity).expected_rows(EXPECTED_ROWS);
            let rows = store.table::<u64, (G, G)>(&spec)?;
            scope = scope.writes::<u64, (G, G)>(&rows);
            reading = reading.reads::<u64, (G, G)>(&rows);
            let (first, second) = (store.group(&rows), store.group(&rows));
            made.push(Columns { by_entry: None, first, second, rows });
        }
        Ok((Keys { tables: made }, [scope, reading]))
    }

    fn count(&self) -> u64 {
        self.tables.len() as u64
    }

    /// The table and the row of a key, and whether it is in the second group.
    fn place(&self, key: u64) -> (&Columns<S, G>, u64, bool) {
        let within = key / self.count();
        (&self.tables[(key % self.count()) as usize], within / 2, within % 2 == 1)
    }

    /// The key that shares a row with this one.
    pub(super) fn sibling(&self, key: u64) -> u64 {
        if self.place(key).2 { key - self.count() } else { key + self.count() }
    }

    /// The row of a key, with what it holds and what its sibling does.
    fn row(&self, key: u64, own: G, sibling: G) -> (G, G) {
        if self.place(key).2 { (sibling, own) } else { (own, sibling) }
    }

    /// The rows of these keys, each once, by the tables that they are in.
    pub(super) fn rows_of(&self, keys: impl Iterator<Item = u64>, rows: &mut Vec<Vec<u64>>) {
        rows.resize_with(self.tables.len(), Vec::new);
        rows.iter_mut().for_each(Vec::clear);
        for key in keys {
            let of_table = &mut rows[(key % self.count()) as usize];
            let (_, row, _) = self.place(key);
            if !of_table.contains(&row) {
                of_table.push(row);
            }
        }
    }

    /// Looks up the rows of each table together.
    pub(super) fn look_up<'a, 'k>(&self, tx: &mut S::Txn<'a>, rows: &'k [Vec<u64>]) -> FoundKeys<'a, 'k, S> {
        self.tables.iter().zip(rows).map(|(columns, rows)| columns.rows.look_up(tx, rows)).collect()
    }

    /// What was looked up in a key's table, and which of it is the key's row.
    fn among<'f, 'a, 'k>(
        &self,
        found: &'f FoundKeys<'a, 'k, S>,
        key: u64,
    ) -> Option<(&'f S::Found<'a, 'k, u64>, Range<usize>)> {
        let (_, row, _) = self.place(key);
        let found = found.get((key % self.count()) as usize)?;
        let at = found.keys().iter().position(|looked_up| *looked_up == row)?;
        Some((found, at..at + 1))
    }

    /// What a key holds; `None` if it has no row.
    pub(super) fn get(
        &self,
        tx: &mut S::Txn<'_>,
        found: &FoundKeys<'_, '_, S>,
        key: u64,
    ) -> Result<Option<G>, S::Abort> {
        on_group!(self, key, (group, row) => match self.among(found, key) {
            None => group.get(tx, &row),
            Some((found, at)) => {
                let mut held = None;
                group.get_found(tx, found, at, |_, value| held = value)?;
                Ok(held)
            }
        })
    }

    /// Overwrites what a key holds, without reading; `false` if it has no row.
    pub(super) fn write(&self, tx: &mut S::Txn<'_>, key: u64, value: G) -> Result<bool, S::Abort> {
        on_group!(self, key, (group, row) => group.write(tx, &row, value))
    }

    /// Reads and changes what a key holds, which must have a row.
    pub(super) fn update(
        &self,
        tx: &mut S::Txn<'_>,
        found: &FoundKeys<'_, '_, S>,
        key: u64,
        mut change: impl FnMut(&mut G),
    ) -> Result<(), S::Abort> {
        on_group!(self, key, (group, row) => match self.among(found, key) {
            None => group.update(tx, &row, change),
            Some((found, at)) => group.update_found(tx, found, at, |_, value| change(value)),
        })
    }

    /// Makes the row of a key, its sibling holding nothing; `false` if there is one.
    pub(super) fn insert(&self, tx: &mut S::Txn<'_>, key: u64, value: G) -> Result<bool, S::Abort> {
        let (columns, row, _) = self.place(key);
        columns.rows.insert(tx, &row, self.row(key, value, G::default()))
    }

    /// Makes or overwrites the row of a key.
    pub(super) fn upsert(&self, tx: &mut S::Txn<'_>, key: u64, value: G, sibling: G) -> Result<(), S::Abort> {
        let (columns, row, _) = self.place(key);
        columns.rows.upsert(tx, &row, self.row(key, value, sibling))
    }

    /// Deletes the row of a key, and with it what its sibling holds.
    pub(super) fn delete(&self, tx: &mut S::Txn<'_>, key: u64) -> Result<bool, S::Abort> {
        let (columns, row, _) = self.place(key);
        columns.rows.delete(tx, &row)
    }

    /// Reads the keys from `low` to `high` that have a row, table by table, in each of them upwards or from the end down, so many rows at most.
    /// Answers from which key to which one it has seen all that there are.
    pub(super) fn scan(
        &self,
        tx: &mut S::Txn<'_>,
        (low, high): (u64, u64),
        scan: Scan,
        mut each: impl FnMut(u64, G),
    ) -> Result<(u64, u64), S::Abort> {
        let mut seen = Seen::new((low, high), scan);
        for (number, columns) in (0..).zip(&self.tables) {
            let Some(rows) = self.rows_within(number, (low, high)) else { break };
            columns.rows.range(tx, rows, scan, |row, (first, second)| {
                self.keys_of(number, row, [first, second], &mut seen, &mut each);
                ControlFlow::Continue(())
            })?;
            seen.next_table();
        }
        Ok(seen.range)
    }

    /// The rows of a table that keys from `low` to `high` are in; none if even the first one is beyond.
    fn rows_within(&self, number: u64, (low, high): (u64, u64)) -> Option<RangeInclusive<u64>> {
        let last = high.checked_sub(number)?;
        let first = low.saturating_sub(number).div_ceil(self.count());
        Some(first / 2..=last / self.count() / 2)
    }

    /// Tells both keys of a row of a table, if they are within what is scanned.
    fn keys_of(&self, number: u64, row: u64, values: [G; 2], seen: &mut Seen, each: &mut impl FnMut(u64, G)) {
        let keys = [2 * row, 2 * row + 1].map(|within| within * self.count() + number);
        seen.row(keys);
        for (key, value) in keys.into_iter().zip(values) {
            if (seen.low..=seen.high).contains(&key) {
                each(key, value);
            }
        }
    }
}

/// How far a scan has come that is over some rows before the end of its range: in one table, and in all.
struct Seen {
    low: u64,
    high: u64,
    scan: Scan,
    rows: usize,
    /// In the tables so far.
    range: (u64, u64),
    /// In the one that is being scanned, if it goes no further.
    limited: Option<[u64; 2]>,
}

impl Seen {
    fn new((low, high): (u64, u64), scan: Scan) -> Self {
        Seen { low, high, scan, rows: 0, range: (low, high), limited: None }
    }

    fn row(&mut self, keys: [u64; 2]) {
        self.rows += 1;
        self.limited = (Some(self.rows) == self.scan.limit).then_some(keys);
    }

    fn next_table(&mut self) {
        if let Some([first, second]) = self.limited.take() {
            match self.scan.reverse {
                true => self.range.0 = self.range.0.max(first),
                false => self.range.1 = self.range.1.min(second),
            }
        }
        self.rows = 0;
    }
}

impl<S: Store> Keys<S, i64> {
    /// Makes the secondary index of each table, which has no rows yet.
    pub(super) fn index(&mut self, store: &S) -> Result<(), StoreError> {
        for columns in &mut self.tables {
            let index = store.index(&columns.rows, "by entry", |row: &u64, (first, second): &(i64, i64)| {
                (*row, *first, *second)
            });
            columns.by_entry = Some(index?);
        }
        Ok(())
    }

    /// As [`Keys::scan`], but by the secondary index where there is one.
    pub(super) fn look_through(
        &self,
        tx: &mut S::Txn<'_>,
        (low, high): (u64, u64),
        scan: Scan,
        mut each: impl FnMut(u64, i64),
    ) -> Result<(u64, u64), S::Abort> {
        let mut seen = Seen::new((low, high), scan);
        for (number, columns) in (0..).zip(&self.tables) {
            let Some(index) = &columns.by_entry else { return self.scan(tx, (low, high), scan, each) };
            let Some(rows) = self.rows_within(number, (low, high)) else { break };
            let entries = (*rows.start(), i64::MIN, i64::MIN)..=(*rows.end(), i64::MAX, i64::MAX);
            index.range(tx, entries, scan, |(row, first, second), _| {
                self.keys_of(number, row, [first, second], &mut seen, &mut each);
                ControlFlow::Continue(())
            })?;
            seen.next_table();
        }
        Ok(seen.range)
    }
}

impl<S: Appends> Keys<S, Vec<u8>> {
    /// Adds bytes to what a key holds at commit time, without reading it; it must have a row.
    pub(super) fn append(&self, tx: &mut S::Txn<'_>, key: u64, bytes: &[u8]) -> Result<(), S::Abort> {
        let (columns, row, second) = self.place(key);
        if second {
            S::append(tx, &columns.second, &row, bytes)
        } else {
            S::append(tx, &columns.first, &row, bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::MutexStore;
    use crate::store::Session;

    #[test]
    fn every_key_has_a_place_of_its_own_and_scans_find_it() {
        for tables in [1_u64, 2, 3, 7] {
            let store = MutexStore::new();
            let made =
                Keys::<_, i64>::new(&store, "keys", tables as usize, IndexKind::Ordered, Granularity::Fine);
            let (keys, [scope, _]) = made.unwrap();
            let mut session = store.session().unwrap();
            session
                .run(&scope, |tx| {
                    for key in 0..50 {
                        assert_eq!(keys.sibling(keys.sibling(key)), key);
                        if !keys.write(tx, key, key as i64 + 1)? {
                            assert!(keys.insert(tx, key, key as i64 + 1)?);
                        }
                    }
                    for (low, high) in [(0, 49), (3, 3), (7, 20), (0, 0), (48, 60)] {
                        for limit in [None, Some(1), Some(2), Some(1000)] {
                            let mut found = Vec::new();
                            let scan = Scan { reverse: low % 2 == 1, limit };
                            let (from, to) =
                                keys.scan(tx, (low, high), scan, |key, value| found.push((key, value)))?;
                            let case = format!("{tables} tables, {low} to {high}, {limit:?}: {from} to {to}");
                            assert!(low <= from && to <= high && from <= to, "{case}");
                            assert!(
                                limit.is_some_and(|rows| rows < 3) || (low, high) == (from, to),
                                "{case}"
                            );
                            assert!(limit != Some(1) || to - from < 2 * tables, "{case}");
                            found.retain(|(key, value)| *value != 0 && (from..=to).contains(key));
                            found.sort_unstable();
                            let expected: Vec<(u64, i64)> =
                                (from..=to.min(49)).map(|key| (key, key as i64 + 1)).collect();
                            assert_eq!(found, expected, "{case}");
                        }
                    }
                    assert!(keys.delete(tx, 9)?);
                    let none = Vec::new();
                    assert_eq!(keys.get(tx, &none, 9)?, None);
                    assert_eq!(keys.get(tx, &none, keys.sibling(9))?, None);
                    Ok(())
                })
                .unwrap();
        }
    }
}
