//! The engine as a store: each operation of the seam is one call of the engine's own.
//!
//! A store is a database whose tables all have one protocol, or one that mixes several: its tables take them in
//! turn, in the order in which they are made. What the seam adds to a transaction is a count of its attempts.
//!
//! What it does not do: choose retry policies, other than limiting attempts where a workload asks for it.

use std::ops::{ControlFlow, Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use noonmark::{
    Abort, ColumnGroup, Database, FoundRows, Host, Leases, Number, Policy, Protocol, SecondaryIndex,
    TableOptions, Threads, Transaction,
};
use noonmark_core::{Access, Line};

use crate::store::{
    Appends, Column, Conflicts, Counts, Failure, Field, Found, Group, Index, Part, Rows, Scan, Scope,
    Sequence, Session, Store, StoreError, StoreKey, StoreRow, Table, TableSpec, TxnResult,
};

/// A database whose tables take one protocol, or several in turn. Cloning it makes another handle.
pub struct EngineStore<H: Host = Threads> {
    db: Database<H>,
    protocols: Arc<[Protocol]>,
    /// Tables made so far: says whose turn it is.
    tables: Arc<AtomicUsize>,
    /// Whether they are told how many rows to expect.
    row_hint: bool,
    /// What they do besides under `sundial`.
    leases: Leases,
    /// How transactions are retried.
    policy: Policy,
    /// When they are given up, in nanoseconds of the host.
    until_ns: Option<u64>,
}

impl<H: Host> Clone for EngineStore<H> {
    fn clone(&self) -> Self {
        EngineStore {
            db: self.db.clone(),
            protocols: self.protocols.clone(),
            tables: self.tables.clone(),
            row_hint: self.row_hint,
            leases: self.leases,
            policy: self.policy.clone(),
            until_ns: self.until_ns,
        }
    }
}

impl EngineStore {
    /// An empty database with room for so many sessions.
    pub fn new(protocols: &[Protocol], sessions: usize) -> Result<Self, StoreError> {
        let db = Database::builder().max_sessions(sessions).build();
        let db = db.map_err(|error| StoreError::Session { reason: error.to_string() })?;
        Ok(EngineStore::of(db, protocols))
    }
}

impl<H: Host> EngineStore<H> {
    /// A database that is there already, on whatever host.
    pub fn of(db: Database<H>, protocols: &[Protocol]) -> Self {
        let policy = Policy::default();
        let leases = Leases::default();
        EngineStore {
            db,
            protocols: protocols.into(),
            tables: Arc::default(),
            row_hint: true,
            leases,
            policy,
            until_ns: None,
        }
    }

    /// The same; whether its tables are told how many rows to expect, as they are unless told otherwise.
    pub fn row_hint(self, row_hint: bool) -> Self {
        EngineStore { row_hint, ..self }
    }

    /// The same; what its tables do besides under `sundial`, which is nothing unless told otherwise.
    pub fn leases(self, leases: Leases) -> Self {
        EngineStore { leases, ..self }
    }

    /// The same; how its transactions are retried, if not by the default.
    pub fn policy(self, policy: Policy) -> Self {
        EngineStore { policy, ..self }
    }

    /// The same; what has not been committed at this time of the host is given up after the attempt that is under way, whatever the
    /// policy says of deadlines.
    pub fn until_ns(self, until_ns: u64) -> Self {
        EngineStore { until_ns: Some(until_ns), ..self }
    }

    /// The database.
    pub fn database(&self) -> &Database<H> {
        &self.db
    }
}

/// The engine needs no telling which tables a transaction touches; but if it is to read only, that is worth knowing.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyTables {
    reads: bool,
    writes: bool,
}

impl AnyTables {
    fn reads_only(self) -> bool {
        self.reads && !self.writes
    }
}

impl<H: Host> Scope<EngineStore<H>> for AnyTables {
    fn reads<K: StoreKey, R: StoreRow>(self, _: &noonmark::Table<K, R>) -> Self {
        AnyTables { reads: true, ..self }
    }

    fn writes<K: StoreKey, R: StoreRow>(self, _: &noonmark::Table<K, R>) -> Self {
        AnyTables { writes: true, ..self }
    }
}

/// The space of lines in which workloads' sequences lie: none of the engine's own, which count up from 0 for tables and down
/// from the greatest for what they share.
const SEQUENCES: u32 = u32::MAX / 2;

/// A session that counts attempts.
pub struct EngineSession<H: Host = Threads> {
    db: Database<H>,
    session: noonmark::Session<H>,
    attempts_max: u64,
    policy: Policy,
    until_ns: Option<u64>,
}

impl<H: Host> EngineSession<H> {
    #[inline]
    fn counted<T>(
        &mut self,
        mut body: impl FnMut(&mut Transaction<'_, H>) -> TxnResult<EngineStore<H>, T>,
    ) -> TxnResult<EngineStore<H>, T> {
        if let Some(until_ns) = self.until_ns {
            let left_ns = until_ns.saturating_sub(self.db.host().now_ns());
            self.policy.deadline = Some(Duration::from_nanos(left_ns));
        }
        let mut attempts = 0;
        let result = self.session.try_transact_with::<T, Failure<Abort>>(&self.policy, |tx| {
            attempts += 1;
            body(tx)
        });
        self.attempts_max = self.attempts_max.max(attempts);
        result
    }
}

impl<H: Host> Session<EngineStore<H>> for EngineSession<H> {
    #[inline]
    fn run<T>(
        &mut self,
        scope: &AnyTables,
        body: impl FnMut(&mut Transaction<'_, H>) -> TxnResult<EngineStore<H>, T>,
    ) -> TxnResult<EngineStore<H>, T> {
        self.policy.reads_only = scope.reads_only();
        self.counted(body)
    }

    fn run_up_to<T>(
        &mut self,
        attempts_max: u32,
        scope: &AnyTables,
        body: impl FnMut(&mut Transaction<'_, H>) -> TxnResult<EngineStore<H>, T>,
    ) -> TxnResult<EngineStore<H>, T> {
        self.policy.reads_only = scope.reads_only();
        let before = self.policy.attempts_max.replace(attempts_max);
        let result = self.counted(body);
        self.policy.attempts_max = before;
        result
    }

    fn draw(&mut self, sequence: &Sequence) -> u64 {
        let line = || Line { space: SEQUENCES, line: sequence.number() };
        self.db.host().touch(line, Access::ReadModifyWrite);
        sequence.draw()
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

impl<H: Host> Store for EngineStore<H> {
    type Table<K: StoreKey, R: StoreRow> = noonmark::Table<K, R>;
    type Group<K: StoreKey, R: Part<I>, const I: usize> = ColumnGroup<K, R::Group>;
    type Index<X: StoreKey, K: StoreKey, R: StoreRow> = SecondaryIndex<X, K>;
    type Scope = AnyTables;
    type Session = EngineSession<H>;
    type Txn<'a> = Transaction<'a, H>;
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
            .apart(spec.apart)
            .leases(self.leases)
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
        AnyTables::default()
    }

    fn session(&self) -> Result<EngineSession<H>, StoreError> {
        let session = self.db.session();
        let session = session.map_err(|error| StoreError::Session { reason: error.to_string() })?;
        Ok(EngineSession {
            db: self.db.clone(),
            session,
            attempts_max: 0,
            policy: self.policy.clone(),
            until_ns: self.until_ns,
        })
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

impl<H: Host> Appends for EngineStore<H> {
    #[inline]
    fn append<K: StoreKey, R: Part<I, Group = Vec<u8>>, const I: usize>(
        tx: &mut Transaction<'_, H>,
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
        impl<H: Host, $key: StoreKey, $value: $bound> Rows<EngineStore<H>> for $handle<$key, $value> {
            type Key = $key;
            type Value = $value;

            #[inline(always)]
            fn get(&self, tx: &mut Transaction<'_, H>, key: &$key) -> Result<Option<$value>, Abort> {
                tx.get(self, key)
            }

            #[inline(always)]
            fn need(&self, tx: &mut Transaction<'_, H>, key: &$key) -> Result<$value, Abort> {
                tx.need(self, key)
            }

            #[inline(always)]
            fn update(
                &self,
                tx: &mut Transaction<'_, H>,
                key: &$key,
                change: impl FnOnce(&mut $value),
            ) -> Result<(), Abort> {
                tx.update(self, key, change)
            }

            #[inline(always)]
            fn write(&self, tx: &mut Transaction<'_, H>, key: &$key, value: $value) -> Result<bool, Abort> {
                tx.write(self, key, value)
            }

            #[inline(always)]
            fn look_up<'a, 'k>(
                &self,
                tx: &mut <EngineStore<H> as Store>::Txn<'a>,
                keys: &'k [$key],
            ) -> FoundRows<'a, 'k, $key> {
                tx.look_up(self, keys)
            }

            #[inline(always)]
            fn get_found(
                &self,
                tx: &mut Transaction<'_, H>,
                found: &FoundRows<'_, '_, $key>,
                some: Range<usize>,
                each: impl FnMut(usize, Option<$value>),
            ) -> Result<(), Abort> {
                tx.get_many(self, found.slice(some), each)
            }

            #[inline(always)]
            fn update_found(
                &self,
                tx: &mut Transaction<'_, H>,
                found: &FoundRows<'_, '_, $key>,
                some: Range<usize>,
                each: impl FnMut(usize, &mut $value),
            ) -> Result<(), Abort> {
                tx.update_many(self, found.slice(some), each)
            }

            #[inline(always)]
            fn get_many(
                &self,
                tx: &mut Transaction<'_, H>,
                keys: &[$key],
                each: impl FnMut(usize, Option<$value>),
            ) -> Result<(), Abort> {
                tx.get_many(self, keys, each)
            }

            #[inline(always)]
            fn update_many(
                &self,
                tx: &mut Transaction<'_, H>,
                keys: &[$key],
                each: impl FnMut(usize, &mut $value),
            ) -> Result<(), Abort> {
                tx.update_many(self, keys, each)
            }

            #[inline(always)]
            fn range(
                &self,
                tx: &mut Transaction<'_, H>,
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

impl<H: Host, K: StoreKey, R: StoreRow> Table<EngineStore<H>> for EngineTable<K, R> {
    #[inline(always)]
    fn insert(&self, tx: &mut Transaction<'_, H>, key: &K, row: R) -> Result<bool, Abort> {
        tx.insert(self, key, row)
    }

    #[inline(always)]
    fn upsert(&self, tx: &mut Transaction<'_, H>, key: &K, row: R) -> Result<(), Abort> {
        tx.upsert(self, key, row)
    }

    #[inline(always)]
    fn delete(&self, tx: &mut Transaction<'_, H>, key: &K) -> Result<bool, Abort> {
        tx.delete(self, key)
    }
}

impl<H: Host, K: StoreKey, G: crate::store::StoreGroup> Group<EngineStore<H>> for ColumnGroup<K, G> {
    #[inline(always)]
    fn add<N: Number + Field>(
        &self,
        tx: &mut Transaction<'_, H>,
        key: &K,
        column: Column<G, N>,
        delta: N,
    ) -> Result<(), Abort> {
        tx.add(self, key, column.field(), delta)
    }

    #[inline(always)]
    fn apply(
        &self,
        tx: &mut Transaction<'_, H>,
        key: &K,
        change: impl Fn(&mut G) + Copy + Send + 'static,
    ) -> Result<(), Abort> {
        tx.apply(self, key, change)
    }
}

impl<H: Host, X: StoreKey, K: StoreKey> Index<EngineStore<H>> for SecondaryIndex<X, K> {
    type Secondary = X;
    type Primary = K;

    #[inline]
    fn range(
        &self,
        tx: &mut Transaction<'_, H>,
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
