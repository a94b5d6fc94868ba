//! The engine as a store: each operation of the seam is one call of the engine's own.
//!
//! A store is a database whose tables all have one protocol, or one that mixes several: its tables take them in
//! turn, in the order in which they are made. What the seam adds to a transaction is a count of its attempts.
//!
//! What it does not do: choose retry policies, other than limiting attempts where a workload asks for it.

use std::ops::{ControlFlow, Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use noonmark::{
    Abort, ColumnGroup, Database, FoundRows, Number, Policy, Protocol, SecondaryIndex, TableOptions,
    Transaction,
};

use crate::store::{
    Appends, Conflicts, Counts, Failure, Found, Group, Index, Part, Rows, Scan, Scope, Session, Store,
    StoreError, StoreKey, StoreRow, Table, TableSpec, TxnResult,
};

/// A database whose tables take one protocol, or several in turn. Cloning it makes another handle.
#[derive(Clone)]
pub struct EngineStore {
    db: Database,
    protocols: Arc<[Protocol]>,
    /// Tables made so far: says whose turn it is.
    tables: Arc<AtomicUsize>,
    /// Whether they are told how many rows to expect.
    row_hint: bool,
}

impl EngineStore {
    /// An empty database with room for so many sessions.
    pub fn new(protocols: &[Protocol], sessions: usize) -> Result<Self, StoreError> {
        let db = Database::builder().max_sessions(sessions).build();
        let db = db.map_err(|error| StoreError::Session { reason: error.to_string() })?;
        Ok(EngineStore::of(db, protocols))
    }

    /// A database that is there already.
    pub fn of(db: Database, protocols: &[Protocol]) -> Self {
        EngineStore { db, protocols: protocols.into(), tables: Arc::default(), row_hint: true }
    }

    /// The same; whether its tables are told how many rows to expect, as they are unless told otherwise.
    pub fn row_hint(self, row_hint: bool) -> Self {
        EngineStore { row_hint, ..self }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }
}

/// The engine needs no telling which tables a transaction touches.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyTables;

impl Scope<EngineStore> for AnyTables {
    fn reads<K: StoreKey, R: StoreRow>(self, _: &noonmark::Table<K, R>) -> Self {
        self
    }

    fn writes<K: StoreKey, R: StoreRow>(self, _: &noonmark::Table<K, R>) -> Self {
        self
    }
}

/// A session that counts attempts.
pub struct EngineSession {
    session: noonmark::Session,
    attempts_max: u64,
    policy: Policy,
}

impl EngineSession {
    #[inline]
    fn counted<T>(
        &mut self,
        mut body: impl FnMut(&mut Transaction<'_>) -> TxnResult<EngineStore, T>,
    ) -> TxnResult<EngineStore, T> {
        let mut attempts = 0;
        let result = self.session.try_transact_with::<T, Failure<Abort>>(&self.policy, |tx| {
            attempts += 1;
            body(tx)
        });
        self.attempts_max = self.attempts_max.max(attempts);
        result
    }
}

impl Session<EngineStore> for EngineSession {
    #[inline]
    fn run<T>(
        &mut self,
        _: &AnyTables,
        body: impl FnMut(&mut Transaction<'_>) -> TxnResult<EngineStore, T>,
    ) -> TxnResult<EngineStore, T> {
        self.counted(body)
    }

    fn run_up_to<T>(
        &mut self,
        attempts_max: u32,
        _: &AnyTables,
        body: impl FnMut(&mut Transaction<'_>) -> TxnResult<EngineStore, T>,
    ) -> TxnResult<EngineStore, T> {
        self.policy.attempts_max = Some(attempts_max);
        let result = self.counted(body);
        self.policy.attempts_max = None;
        result
    }

    #[inline]
    fn counts(&self) -> Counts {
        let statistics = self.session.statistics();
        Counts {
            commits: statistics.commits,
            user_rollbacks: statistics.user_rollbacks,
            aborts: statistics.aborts,
        }
    }

    fn take_attempts_max(&mut self) -> u64 {
        std::mem::take(&mut self.attempts_max)
    }
}

fn table_error(name: &str, error: &noonmark::SchemaError) -> StoreError {
    StoreError::Table { name: name.into(), reason: error.to_string() }
}

impl<K: StoreKey> Found<K> for FoundRows<'_, '_, K> {
    fn keys(&self) -> &[K] {
        FoundRows::keys(self)
    }
}

impl Store for EngineStore {
    type Table<K: StoreKey, R: StoreRow> = noonmark::Table<K, R>;
    type Group<K: StoreKey, R: Part<I>, const I: usize> = ColumnGroup<K, R::Group>;
    type Index<X: StoreKey, K: StoreKey, R: StoreRow> = SecondaryIndex<X, K>;
    type Scope = AnyTables;
    type Session = EngineSession;
    type Txn<'a> = Transaction<'a>;
    type Found<'a, 'k, K: StoreKey> = FoundRows<'a, 'k, K>;
    type Abort = Abort;

    fn table<K: StoreKey, R: StoreRow>(&self, spec: &TableSpec) -> Result<noonmark::Table<K, R>, StoreError> {
        // Relaxed: only that each table has a turn of its own matters.
        let turn = self.tables.fetch_add(1, Ordering::Relaxed) % self.protocols.len().max(1);
        let Some(&protocol) = self.protocols.get(turn) else {
            return Err(StoreError::Table { name: spec.name.clone(), reason: "it has no protocol".into() });
        };
        let expected_rows = if self.row_hint { spec.expected_rows } else { 0 };
        let options = TableOptions::new()
            .protocol(protocol)
            .index(spec.index)
            .granularity(spec.granularity)
            .expected_rows(usize::try_from(expected_rows).unwrap_or(usize::MAX));
        let table = self.db.create_table(&spec.name, options);
        table.map_err(|error| table_error(&spec.name, &error))
    }

    fn group<K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &noonmark::Table<K, R>,
    ) -> ColumnGroup<K, R::Group> {
        table.group::<I>()
    }

    fn index<X: StoreKey, K: StoreKey, R: StoreRow>(
        &self,
        table: &noonmark::Table<K, R>,
        name: &str,
        extract: impl Fn(&K, &R) -> X + Send + Sync + 'static,
    ) -> Result<SecondaryIndex<X, K>, StoreError> {
        table.create_index(&self.db, name, extract).map_err(|error| table_error(table.name(), &error))
    }

    fn group_index<X: StoreKey, K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &noonmark::Table<K, R>,
        name: &str,
        extract: impl Fn(&K, &R::Group) -> X + Send + Sync + 'static,
    ) -> Result<SecondaryIndex<X, K>, StoreError> {
        let index = table.group::<I>().create_index(&self.db, name, extract);
        index.map_err(|error| table_error(table.name(), &error))
    }

    fn scope(&self) -> AnyTables {
        AnyTables
    }

    fn session(&self) -> Result<EngineSession, StoreError> {
        let session = self.db.session();
        let session = session.map_err(|error| StoreError::Session { reason: error.to_string() })?;
        Ok(EngineSession { session, attempts_max: 0, policy: Policy::default() })
    }

    fn conflicts(&self) -> Conflicts {
        let report = self.db.conflicts();
        let mut conflicts = Conflicts::default();
        for rule in &report.by_rule {
            *conflicts.rules.entry(rule.rule.into()).or_default() += rule.count;
        }
        conflicts.hottest =
            report.hottest.iter().map(|(place, count)| format!("{place}: about {count}")).collect();
        conflicts
    }

    fn is_conflict(abort: &Abort) -> bool {
        abort.is_retryable()
    }
}

impl Appends for EngineStore {
    #[inline]
    fn append<K: StoreKey, R: Part<I, Group = Vec<u8>>, const I: usize>(
        tx: &mut Transaction<'_>,
        group: &ColumnGroup<K, Vec<u8>>,
        key: &K,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        tx.append(group, key, bytes)
    }
}

/// The operations on existing rows, which tables and column groups have alike.
macro_rules! rows {
    ($handle:ident<$key:ident, $value:ident: $bound:path>) => {
        impl<$key: StoreKey, $value: $bound> Rows<EngineStore> for $handle<$key, $value> {
            type Key = $key;
            type Value = $value;

            #[inline(always)]
            fn get(&self, tx: &mut Transaction<'_>, key: &$key) -> Result<Option<$value>, Abort> {
                tx.get(self, key)
            }

            #[inline(always)]
            fn need(&self, tx: &mut Transaction<'_>, key: &$key) -> Result<$value, Abort> {
                tx.need(self, key)
            }

            #[inline(always)]
            fn update(
                &self,
                tx: &mut Transaction<'_>,
                key: &$key,
                change: impl FnOnce(&mut $value),
            ) -> Result<(), Abort> {
                tx.update(self, key, change)
            }

            #[inline(always)]
            fn write(&self, tx: &mut Transaction<'_>, key: &$key, value: $value) -> Result<bool, Abort> {
                tx.write(self, key, value)
            }

            #[inline(always)]
            fn look_up<'a, 'k>(
                &self,
                tx: &mut <EngineStore as Store>::Txn<'a>,
                keys: &'k [$key],
            ) -> FoundRows<'a, 'k, $key> {
                tx.look_up(self, keys)
            }

            #[inline(always)]
            fn get_found(
                &self,
                tx: &mut Transaction<'_>,
                found: &FoundRows<'_, '_, $key>,
                some: Range<usize>,
                each: impl FnMut(usize, Option<$value>),
            ) -> Result<(), Abort> {
                tx.get_many(self, found.slice(some), each)
            }

            #[inline(always)]
            fn update_found(
                &self,
                tx: &mut Transaction<'_>,
                found: &FoundRows<'_, '_, $key>,
                some: Range<usize>,
                each: impl FnMut(usize, &mut $value),
            ) -> Result<(), Abort> {
                tx.update_many(self, found.slice(some), each)
            }

            #[inline(always)]
            fn get_many(
                &self,
                tx: &mut Transaction<'_>,
                keys: &[$key],
                each: impl FnMut(usize, Option<$value>),
            ) -> Result<(), Abort> {
                tx.get_many(self, keys, each)
            }

            #[inline(always)]
            fn update_many(
                &self,
                tx: &mut Transaction<'_>,
                keys: &[$key],
                each: impl FnMut(usize, &mut $value),
            ) -> Result<(), Abort> {
                tx.update_many(self, keys, each)
            }

            #[inline(always)]
            fn range(
                &self,
                tx: &mut Transaction<'_>,
                bounds: impl RangeBounds<$key>,
                scan: Scan,
                each: impl FnMut($key, $value) -> ControlFlow<()>,
            ) -> Result<(), Abort> {
                let mut range = tx.range(self, bounds);
                if scan.reverse {
                    range = range.reverse();
                }
                if let Some(limit) = scan.limit {
                    range = range.limit(limit);
                }
                range.for_each(each)
            }
        }
    };
}

use noonmark::Table as EngineTable;
rows!(EngineTable<K, R: StoreRow>);
rows!(ColumnGroup<K, G: crate::store::StoreGroup>);

impl<K: StoreKey, R: StoreRow> Table<EngineStore> for EngineTable<K, R> {
    #[inline(always)]
    fn insert(&self, tx: &mut Transaction<'_>, key: &K, row: R) -> Result<bool, Abort> {
        tx.insert(self, key, row)
    }

    #[inline(always)]
    fn upsert(&self, tx: &mut Transaction<'_>, key: &K, row: R) -> Result<(), Abort> {
        tx.upsert(self, key, row)
    }

    #[inline(always)]
    fn delete(&self, tx: &mut Transaction<'_>, key: &K) -> Result<bool, Abort> {
        tx.delete(self, key)
    }
}

impl<K: StoreKey, G: crate::store::StoreGroup> Group<EngineStore> for ColumnGroup<K, G> {
    #[inline(always)]
    fn add<N: Number>(
        &self,
        tx: &mut Transaction<'_>,
        key: &K,
        field: fn(&mut G) -> &mut N,
        delta: N,
    ) -> Result<(), Abort> {
        tx.add(self, key, field, delta)
    }

    #[inline(always)]
    fn apply(
        &self,
        tx: &mut Transaction<'_>,
        key: &K,
        change: impl Fn(&mut G) + Copy + Send + 'static,
    ) -> Result<(), Abort> {
        tx.apply(self, key, change)
    }
}

impl<X: StoreKey, K: StoreKey> Index<EngineStore> for SecondaryIndex<X, K> {
    type Secondary = X;
    type Primary = K;

    #[inline]
    fn range(
        &self,
        tx: &mut Transaction<'_>,
        bounds: impl RangeBounds<X>,
        scan: Scan,
        each: impl FnMut(X, K) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let mut range = tx.range_by(self, bounds);
        if scan.reverse {
            range = range.reverse();
        }
        if let Some(limit) = scan.limit {
            range = range.limit(limit);
        }
        range.for_each(each)
    }
}
