//! What a transaction does: its operations, in the closure's order.

use super::copies::{RangeScan, Way};
use super::{Client, ClusterAbort, Index, Link, Table};
use crate::cache::Place;
use crate::coordinator::Event;
use crate::message::{Operation, Outcome, Purpose};
use crate::partition::{ServerId, TableId};
use crate::planted::Bug;
use noonmark::branch::{Values, entry_bounds};
use noonmark::{AsKey, Group, Key, KeyBytes, Row, RowWriter};
use std::collections::BTreeMap;
use std::ops::{Bound, Range, RangeBounds};

/// A transaction that runs. See the [module](crate::client).
#[derive(Debug)]
pub struct Transaction<'c, L> {
    pub(super) client: &'c mut Client<L>,
    /// The first thing that went wrong: the attempt has ended with it.
    pub(super) failed: Option<ClusterAbort>,
}

impl<L: Link> Transaction<'_, L> {
    /// Has operations done, each at a server, all at the same time.
    async fn run(&mut self, operations: Vec<(ServerId, Operation)>) -> Result<Vec<Outcome>, ClusterAbort> {
        if self.failed.is_some() {
            return Err(ClusterAbort::Continued);
        }
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        // Until it has ended: whoever drops its future has given up the transaction, as what came of it would be taken for what came
        // of the next one.
        self.failed = Some(ClusterAbort::Continued);
        let (client, mut out) = (&mut *self.client, Vec::new());
        let sent_ns = client.link.now_ns();
        client.coordinator.operate(sent_ns, operations, &mut out);
        client.send(out);
        let came = client.wait(None).await;
        client.learn_round_trip(sent_ns);
        match came {
            Ok(Event::Operated(outcomes)) => {
                self.failed = None;
                Ok(outcomes)
            }
            Ok(Event::Aborted(refusal)) => {
                let abort = self.client.refused(refusal);
                Err(self.fail(abort))
            }
            Ok(Event::Committed(_)) => Err(self.fail(ClusterAbort::Continued)),
            Err(abort) => Err(self.fail(abort)),
        }
    }

    fn fail(&mut self, abort: ClusterAbort) -> ClusterAbort {
        self.failed = Some(abort.clone());
        abort
    }

    fn home(&self) -> ServerId {
        self.client.coordinator.client().server
    }

    /// Reads a row, or a column group of it. `None`: there is none.
    ///
    /// # Errors
    /// A [`ClusterAbort`], which ends the transaction: return it.
    pub async fn get<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
    ) -> Result<Option<R>, ClusterAbort> {
        let place = self.client.place(table.id, KeyBytes::of(&key).as_slice(), &table.groups);
        let outcomes = self.read(vec![(place, false)]).await?;
        self.one_row(outcomes)
    }

    /// Reads a row that must be there.
    ///
    /// # Errors
    /// As [`Transaction::get`]; [`ClusterAbort::Missing`] if it is not.
    pub async fn need<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
    ) -> Result<R, ClusterAbort> {
        let shown = KeyBytes::of(&key);
        match self.get(table, key).await? {
            Some(row) => Ok(row),
            None => Err(missing::<K>(shown.as_slice())),
        }
    }

    /// Reads rows whose keys are known together: with one message to each of their servers. In the order of the keys.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn get_many<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        keys: &[K],
    ) -> Result<Vec<Option<R>>, ClusterAbort> {
        let place = |key| (self.client.place(table.id, KeyBytes::of(key).as_slice(), &table.groups), false);
        let places = keys.iter().map(place).collect();
        let outcomes = self.read(places).await?;
        outcomes.into_iter().map(|outcome| self.one_row(vec![outcome])).collect()
    }

    /// Reads rows that must be there, and whose keys are known together, with one message to each of their servers; gives each to
    /// `each`, in the order of the keys, and writes those that are said to be changed. A key may come again: the row is then as `each`
    /// has left it.
    ///
    /// # Errors
    /// As [`Transaction::need`]; if one of the rows is not there, none has been given to `each`.
    pub async fn access_many<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        keys: &[(K, bool)],
        mut each: impl FnMut(usize, &mut R),
    ) -> Result<(), ClusterAbort> {
        let mut places = Vec::with_capacity(keys.len());
        // How many of the places are of each key.
        let mut counts = Vec::with_capacity(keys.len());
        for (key, is_changed) in keys {
            let key = KeyBytes::of(key);
            let place = self.client.place(table.id, key.as_slice(), &table.groups);
            if *is_changed {
                let servers = self.client.map.writers(table.id, key.as_slice());
                counts.push(servers.len());
                places.extend(servers.into_iter().map(|server| (Place { server, ..place.clone() }, true)));
            } else {
                counts.push(1);
                places.push((place, false));
            }
        }
        let mut outcomes = self.read(places.clone()).await?.into_iter();
        let of_keys: Vec<Vec<Outcome>> =
            counts.iter().map(|count| outcomes.by_ref().take(*count).collect()).collect();
        // Before any of them is changed.
        let is_absent = |of_key: &Vec<Outcome>| matches!(of_key.first(), Some(Outcome::Row(None)));
        if let Some((_, (key, _))) = of_keys.iter().zip(keys).find(|(of_key, _)| is_absent(of_key)) {
            return Err(missing::<K>(KeyBytes::of(key).as_slice()));
        }
        self.enter_closures();
        let mut places = places.into_iter().map(|(place, _)| place);
        let mut changed: BTreeMap<Vec<u8>, Values> = BTreeMap::new();
        for (index, ((key, is_changed), mut of_key)) in keys.iter().zip(of_keys).enumerate() {
            let key = KeyBytes::of(key);
            let count = of_key.len();
            if let Some(values) = changed.get(key.as_slice()) {
                of_key = vec![Outcome::Row(Some(values.clone()))];
            }
            let Some(mut row) = self.one_row::<R>(of_key)? else {
                return Err(self.fail(ClusterAbort::Types));
            };
            let changes_entries =
                self.change_row(table.id, table.groups.start, &mut row, |row| each(index, row));
            let places = places.by_ref().take(count);
            if *is_changed {
                let values = Values::of(&row);
                places.for_each(|place| self.defer(place, values.clone(), changes_entries));
                changed.insert(key.as_slice().to_vec(), values);
            } else {
                places.for_each(drop);
            }
        }
        self.leave_closures();
        Ok(())
    }

    /// From here on the operation runs code of the user's. If that panics the operation has failed: who catches that within the transaction cannot
    /// commit it.
    fn enter_closures(&mut self) {
        self.failed = Some(ClusterAbort::Continued);
    }

    /// It has come back.
    fn leave_closures(&mut self) {
        self.failed = None;
    }

    /// Changes a row that has been read to be written. Says whether its entries in secondary indexes may be others now.
    fn change_row<R: Row>(
        &self,
        table: TableId,
        from: usize,
        row: &mut R,
        change: impl FnOnce(&mut R),
    ) -> bool {
        let indexed = self.client.map.indexed(table);
        if indexed.is_empty() {
            change(row);
            return false;
        }
        let before = Encoded::of(row);
        change(row);
        let after = Encoded::of(row);
        let differs = |group: usize| {
            let at = group.checked_sub(from);
            at.is_some_and(|at| before.0.get(at) != after.0.get(at))
        };
        indexed.iter().any(|groups| groups.clone().any(differs))
    }

    /// Gives a row that the transaction has read a new value, with the next message to its server.
    ///
    /// The row is in the read set, and in the write set beside; [`Transaction::update`] and [`Transaction::access_many`] read it to be
    /// written, into one.
    ///
    /// # Errors
    /// A [`ClusterAbort`], which ends the transaction: return it. That there is no such row may come out only when the transaction
    /// commits, as [`ClusterAbort::Missing`] in either case.
    pub async fn write_later<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
        row: R,
    ) -> Result<(), ClusterAbort> {
        if self.failed.is_some() {
            return Err(ClusterAbort::Continued);
        }
        let key = KeyBytes::of(&key);
        let place = self.client.place(table.id, key.as_slice(), &table.groups);
        let values = Values::of(&row);
        if self.client.looks_first {
            let Place { table, key: written, groups, .. } = place;
            let there = self.change(Operation::Write { table, key: written, groups, values }).await?;
            return if there { Ok(()) } else { Err(missing::<K>(key.as_slice())) };
        }
        for server in self.client.map.writers(table.id, key.as_slice()) {
            let Place { table, key, groups, .. } = place.clone();
            let write = Operation::Write { table, key, groups, values: values.clone() };
            self.client.coordinator.defer_unannounced(server, write);
            self.note_write(Place { server, ..place.clone() }, Some(values.clone()));
        }
        Ok(())
    }

    /// Has a row written that has been read to be written, with the next message to its server.
    fn defer(&mut self, place: Place, values: Values, changes_entries: bool) {
        let Place { server, table, key, groups } = place.clone();
        let write = Operation::Write { table, key, groups, values: values.clone() };
        self.client.coordinator.defer(server, write, changes_entries);
        self.note_write(place, Some(values));
    }

    /// The transaction has written this.
    pub(super) fn note_write(&mut self, place: Place, values: Option<Values>) {
        if self.client.cache.is_some() && place.server != self.home() {
            self.client.remote.write(place, values);
        }
    }

    /// Reads groups of rows, to write them or not; what there are copies of out of those.
    async fn read(&mut self, reads: Vec<(Place, bool)>) -> Result<Vec<Outcome>, ClusterAbort> {
        if self.failed.is_some() {
            return Err(ClusterAbort::Continued);
        }
        let mut operations = Vec::with_capacity(reads.len());
        let ways = reads.into_iter().map(|(place, to_write)| {
            let way = match to_write {
                true => Way::Ask(Purpose::Write, None),
                false => self.client.way(&place),
            };
            match way {
                Way::Have(values) => Ok(values),
                Way::Ask(purpose, copy) => {
                    let Place { server, table, key, groups } = place.clone();
                    operations.push((server, Operation::Read { table, key, groups, purpose }));
                    Err((place, copy))
                }
            }
        });
        let ways: Vec<_> = ways.collect();
        let mut outcomes = self.run(operations).await?.into_iter();
        let tables = self.client.learn_of_tables();
        let answers = ways.into_iter().filter_map(|way| match way {
            Ok(values) => Some(Outcome::Row(values)),
            Err((place, copy)) => Some(self.client.take_read(place, copy, outcomes.next()?, &tables)),
        });
        Ok(answers.collect())
    }

    /// Reads, changes and writes a row that must be there, or a column group of it.
    ///
    /// # Errors
    /// As [`Transaction::need`].
    pub async fn update<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
        change: impl FnOnce(&mut R),
    ) -> Result<(), ClusterAbort> {
        self.update_by_key(table, KeyBytes::of(&key), change).await
    }

    pub(super) async fn update_by_key<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: KeyBytes,
        change: impl FnOnce(&mut R),
    ) -> Result<(), ClusterAbort> {
        let place = self.client.place(table.id, key.as_slice(), &table.groups);
        let servers = self.client.map.writers(table.id, key.as_slice());
        let places = servers.into_iter().map(|server| Place { server, ..place.clone() });
        let reads = places.clone().map(|place| (place, true)).collect();
        let outcomes = self.read(reads).await?;
        self.enter_closures();
        let Some(mut row) = self.one_row::<R>(outcomes)? else {
            self.leave_closures();
            return Err(missing::<K>(key.as_slice()));
        };
        let changes_entries = self.change_row(table.id, table.groups.start, &mut row, change);
        let values = Values::of(&row);
        self.leave_closures();
        places.for_each(|place| self.defer(place, values.clone(), changes_entries));
        Ok(())
    }

    /// Gives a row, or a column group of it, a new value without reading it. False: there is no such row.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn write<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
        row: R,
    ) -> Result<bool, ClusterAbort> {
        let (key, values) = (KeyBytes::of(&key).as_slice().to_vec(), Values::of(&row));
        let (table, groups) = (table.id, table.groups.clone());
        self.change(Operation::Write { table, key, groups, values }).await
    }

    /// Puts a row in. False: there is one already.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn insert<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
        row: R,
    ) -> Result<bool, ClusterAbort> {
        self.put_in(table, key, row, false).await
    }

    /// Puts a row in, in place of one that is there.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn upsert<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
        row: R,
    ) -> Result<(), ClusterAbort> {
        self.put_in(table, key, row, true).await.map(|_| ())
    }

    async fn put_in<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
        row: R,
        replace: bool,
    ) -> Result<bool, ClusterAbort> {
        let (key, values) = (KeyBytes::of(&key).as_slice().to_vec(), Values::of(&row));
        self.change(Operation::Insert { table: table.id, key, values, replace }).await
    }

    /// Takes a row away. False: there is none.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn delete<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
    ) -> Result<bool, ClusterAbort> {
        let key = KeyBytes::of(&key).as_slice().to_vec();
        self.change(Operation::Delete { table: table.id, key }).await
    }

    /// Has something done at all servers that have the row.
    pub(super) async fn change(&mut self, operation: Operation) -> Result<bool, ClusterAbort> {
        let (table, key) = (operation.table(), operation.key().unwrap_or_default().to_vec());
        let servers = self.client.map.writers(table, &key);
        let operations = servers.iter().map(|server| (*server, operation.clone())).collect();
        let outcomes = self.run(operations).await?;
        let (groups, values) = match operation {
            Operation::Write { groups, values, .. } => (groups, Some(values)),
            _ => (0..0, None),
        };
        let values = values.filter(|_| outcomes.first() == Some(&Outcome::Done(true)));
        for server in servers {
            let (groups, key) = (groups.clone(), key.clone());
            self.note_write(Place { server, table, key, groups }, values.clone());
        }
        match outcomes.first() {
            Some(Outcome::Done(done)) => Ok(*done),
            _ => Err(self.fail(ClusterAbort::Types)),
        }
    }

    /// The rows whose keys are in a range, at most so many, in the order of the keys or in reverse.
    ///
    /// A range that lies on several servers is asked of all of them at the same time, and each answers up to the limit.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn range<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        keys: impl RangeBounds<K>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(K, R)>, ClusterAbort> {
        fn bytes<K: Key>(bound: Bound<&K>) -> Bound<Vec<u8>> {
            bound.map(|key| KeyBytes::of(key).as_slice().to_vec())
        }
        let bounds = (bytes(keys.start_bound()), bytes(keys.end_bound()));
        let rows = self.scan(table.id, &table.groups, bounds, reverse, limit).await?;
        let typed = rows.iter().map(|(key, values)| Some((K::read(key)?, values.decode()?)));
        typed.collect::<Option<Vec<_>>>().ok_or_else(|| self.fail(ClusterAbort::Types))
    }

    /// The entries of a secondary index whose secondary keys are in a range, at most so many, in order or in reverse: pairs of a secondary and a
    /// primary key. Entries of one secondary key are in the order of their primary keys.
    ///
    /// Which servers are asked is said when the index is [made](crate::partition::IndexReach).
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn range_by<S: Key, K: Key>(
        &mut self,
        index: &Index<S, K>,
        keys: impl RangeBounds<S>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(S, K)>, ClusterAbort> {
        let bounds = entry_bounds::<S, K>(&keys);
        let entries = self.scan(index.id, &(0..0), bounds, reverse, limit).await?;
        let typed = entries.iter().map(|(entry, _)| <(S, K)>::read(entry));
        typed.collect::<Option<Vec<_>>>().ok_or_else(|| self.fail(ClusterAbort::Types))
    }

    /// What is there between two bounds, as bytes.
    async fn scan(
        &mut self,
        table: TableId,
        groups: &Range<usize>,
        (lower, upper): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Values)>, ClusterAbort> {
        let bounds = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
        let mut servers = self.client.map.covering(table, bounds, self.home());
        if self.client.planted.is(Bug::BorderNotCrossed) {
            servers.truncate(1);
        }
        let is_index = groups.is_empty();
        if self.client.planted.is(Bug::IndexAskedAtHome) && is_index {
            servers = vec![self.home()];
        }
        if self.failed.is_some() {
            return Err(ClusterAbort::Continued);
        }
        let (mut rows, mut asked, mut operations) = (Vec::new(), Vec::new(), Vec::new());
        // Nodes of secondary indexes are not kept.
        let keeps = !is_index && self.client.cache.as_ref().is_some_and(|cache| cache.keeps_nodes());
        for server in servers {
            let scan = RangeScan { server, table, bounds, groups, reverse, limit };
            let keep = keeps && server != self.home();
            if keep && let Some(copied) = self.client.look_range(&scan) {
                rows.extend(copied);
                continue;
            }
            let (lower, upper, groups) = (lower.clone(), upper.clone(), groups.clone());
            let operation = Operation::Scan { table, lower, upper, groups, reverse, limit, keep };
            operations.push((server, operation));
            asked.push(scan);
        }
        for (scan, outcome) in asked.iter().zip(self.run(operations).await?) {
            match self.client.take_range(scan, outcome) {
                Some(some) => rows.extend(some),
                None => return Err(self.fail(ClusterAbort::Types)),
            }
        }
        rows.sort_by(|(one, _), (other, _)| if reverse { other.cmp(one) } else { one.cmp(other) });
        rows.truncate(limit);
        Ok(rows)
    }

    fn one_row<R: Row>(&mut self, outcomes: Vec<Outcome>) -> Result<Option<R>, ClusterAbort> {
        match outcomes.into_iter().next() {
            Some(Outcome::Row(None)) => Ok(None),
            Some(Outcome::Row(Some(values))) => match values.decode() {
                Some(row) => Ok(Some(row)),
                None => Err(self.fail(ClusterAbort::Types)),
            },
            _ => Err(self.fail(ClusterAbort::Types)),
        }
    }
}

/// The column groups of a row, encoded.
struct Encoded(Vec<Vec<u8>>);

impl Encoded {
    fn of<R: Row>(row: &R) -> Self {
        let mut encoded = Encoded(Vec::new());
        row.encode_row(&mut encoded);
        encoded
    }
}

impl RowWriter for Encoded {
    fn group<G: Group>(&mut self, _: usize, value: &G) {
        let mut bytes = vec![0; value.encoded_bytes()];
        value.encode(&mut bytes);
        self.0.push(bytes);
    }
}

pub(super) fn missing<K: Key>(key: &[u8]) -> ClusterAbort {
    ClusterAbort::Missing(K::read(key).map_or_else(|| format!("{key:?}"), |key| format!("{key:?}")))
}
