//! A cluster on a virtual network as a store, so that workloads run on it as they are.
//!
//! Operations of the seam are blocking calls; those of a cluster's client are futures. Here a worker that waits for a letter is
//! suspended as a whole, so that each future is ready when it is first polled.
//!
//! Secondary indexes are kept by the servers, each for its own rows; their ranges are asked of as many servers as [`ClusterSpec::index_reach`]
//! says.
//!
//! What it does not do: commit-time updates by closures. Those are ordinary updates here, as closures do not go over a wire.

use super::{Conditions, Network, VirtualLink};
use crate::VirtualCores;
use crate::cores::{Limits, Report, SimulationError};
use noonmark::branch::{BranchHost, FROZEN_TICKS, UntypedTable};
use noonmark::{
    Column, Database, Field, Leases, Number, Order, Protocol, RANGE_ROOM_DEFAULT, SchemaError,
    SecondaryIndex, TableOptions,
};
use noonmark_cluster::begin_clock::BeginClock;
use noonmark_cluster::cache::{Cache, CacheCounts, CacheOptions};
use noonmark_cluster::client::{
    Begun, Client, ClusterAbort, Index as ClusterIndex, Policy, Table as ClusterTable, Transaction,
};
use noonmark_cluster::message::ClientId;
use noonmark_cluster::participant::Participant;
use noonmark_cluster::partition::{IndexReach, PartitionMap, Partitioning, ServerId, TableId};
use noonmark_cluster::planted::Planted;
use noonmark_cluster::table_lease::TableLeases;
use noonmark_workloads::store::{
    Appends, Conflicts, Counts, Failure, Found, Group, Index, Part, Rows, Scan, Scope, Session, Store,
    StoreError, StoreGroup, StoreKey, StoreRow, Table, TableSpec, TxnResult,
};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range, RangeBounds};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// How a cluster is made.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// How many servers.
    pub servers: u16,
    /// The protocols of its tables, in turn.
    pub protocols: Vec<Protocol>,
    /// How their rows are spread.
    pub partitioning: Partitioning,
    /// How those of some tables are spread otherwise, by the table's name.
    pub otherwise: BTreeMap<String, Partitioning>,
    /// Where the entries of secondary indexes are looked for.
    pub index_reach: IndexReach,
    /// What they do besides under `sundial`.
    pub leases: Leases,
    /// Whether transactions are in the order of real time, though their protocols could do with logical time.
    pub is_strict: bool,
    /// The copies that each server keeps of rows of others, if it does.
    pub cache: Option<CacheOptions>,
    /// Whether what is prepared is read in any case, under `sundial`.
    pub reads_prepared: bool,
    /// Whether the younger of two is refused though the other has prepared.
    pub refuses_younger: bool,
    /// Whether leases of what somebody is going to write can be renewed for as long as that is safe, under `sundial`.
    pub lends: bool,
    /// Where transactions have ranges of commit times, how many ticks of them are frozen when they are prepared.
    pub frozen_ticks: u64,
    /// Whether who asks to write what somebody has read who has frozen all times without end aborts at once.
    pub meets_frozen_at_once: bool,
    /// There, how many ticks of room are left to one that must come before another.
    pub range_room: u64,
    /// Whether transactions begin at the time of their server's clock, and no earlier, where they need not.
    pub begins_by_clock: bool,
    /// Where transactions go by clocks: how far the clocks of the servers are apart. The first is the last, and the others are ahead of it
    /// evenly.
    pub clock_skew_ns: u64,
    /// Where they take place when they begin, by how much one may be late.
    pub late_max_ns: u64,
    /// How whole tables have leases, if they do.
    pub table_leases: Option<TableLeases>,
    /// How many branches a server has room for.
    pub branches_max: usize,
    /// How long an answer may be held back.
    pub wait_max_ns: u64,
    /// After how long a message is sent again.
    pub resend_after_ns: u64,
    /// How transactions are tried.
    pub policy: Policy,
    /// Whether each attempt has an age of its own.
    pub new_ages: bool,
    /// Whether every participant that keeps others out is asked to prepare, though it could have no objection.
    pub asks_everybody: bool,
    /// Whether a commit ends when every server that is prepared knows of it.
    pub waits_until_told: bool,
    /// From how many deleted rows on servers try to reclaim them.
    pub reclaim_from: usize,
    /// What the network does to messages.
    pub conditions: Conditions,
    /// What is broken on purpose.
    #[doc(hidden)]
    pub planted: Planted,
}

impl ClusterSpec {
    /// So many servers, one protocol, nothing going wrong.
    pub fn new(servers: u16, protocol: Protocol) -> Self {
        ClusterSpec {
            servers,
            protocols: vec![protocol],
            partitioning: Partitioning::Hash { prefix_bytes: 8 },
            otherwise: BTreeMap::new(),
            index_reach: IndexReach::default(),
            leases: Leases::default(),
            is_strict: false,
            cache: None,
            reads_prepared: false,
            refuses_younger: false,
            lends: true,
            frozen_ticks: FROZEN_TICKS,
            meets_frozen_at_once: false,
            range_room: RANGE_ROOM_DEFAULT,
            begins_by_clock: false,
            clock_skew_ns: 0,
            late_max_ns: 100_000_000,
            table_leases: None,
            branches_max: 256,
            wait_max_ns: noonmark_cluster::participant::WAIT_MAX_DEFAULT_NS,
            resend_after_ns: noonmark_cluster::coordinator::RESEND_AFTER_DEFAULT_NS,
            policy: Policy {
                attempts_max: None,
                backoff_max: std::time::Duration::from_micros(500),
                backoff_round_trips: None,
                escape_after: None,
            },
            new_ages: false,
            asks_everybody: false,
            waits_until_told: false,
            reclaim_from: 32,
            conditions: Conditions::quiet(),
            planted: Planted::default(),
        }
    }

    /// The order that all its databases are in.
    pub fn order(&self) -> Order {
        match () {
            () if self.protocols.iter().all(|protocol| protocol.keeps_versions()) => Order::Beginning,
            () if !self.is_strict && self.protocols.iter().all(|protocol| protocol.keeps_read_times()) => {
                Order::Logical
            }
            () => Order::Momentary,
        }
    }

    /// The clock of a server.
    fn clock(&self, server: u16) -> BeginClock {
        let ahead_ns = self.clock_skew_ns * u64::from(server) / u64::from(self.servers.max(2) - 1);
        BeginClock::new(ServerId::new(server), self.servers, ahead_ns)
    }
}

struct Shared {
    network: Network,
    cores: VirtualCores,
    spec: ClusterSpec,
    /// Of each server, if they have any.
    caches: Vec<Arc<Cache>>,
    /// Of each server, where transactions go by clocks.
    clocks: Vec<Arc<BeginClock>>,
    /// How often clients' own rules have refused something.
    refusals: Mutex<BTreeMap<String, u64>>,
    made: Mutex<Made>,
}

/// What has been made of a cluster so far.
struct Made {
    map: PartitionMap,
    /// The name of each table; of the entries of an index, that.
    names: Vec<String>,
    /// How many clients there have been at each server.
    clients: Vec<u16>,
}

/// A cluster. Cloning it makes another handle.
#[derive(Clone)]
pub struct ClusterStore(Arc<Shared>);

impl ClusterStore {
    /// A cluster without tables.
    ///
    /// # Errors
    /// [`StoreError`] if a server cannot be made.
    pub fn new(spec: ClusterSpec, seed: u64) -> Result<Self, StoreError> {
        Self::built(spec, seed, |builder| builder)
    }

    /// The same, of databases that are built in a special way.
    ///
    /// # Errors
    /// As [`ClusterStore::new`].
    pub fn built(
        spec: ClusterSpec,
        seed: u64,
        build: impl Fn(noonmark::Builder<BranchHost>) -> noonmark::Builder<BranchHost>,
    ) -> Result<Self, StoreError> {
        let session = |reason: String| StoreError::Session { reason };
        let cores = VirtualCores::scheduled(crate::pricing::Schedule::Messages, seed);
        let servers = (0..spec.servers).map(|number| {
            let builder = Database::builder()
                .host(BranchHost::new(seed ^ u64::from(number) << 32))
                .max_sessions(spec.branches_max)
                .reclaim_from(spec.reclaim_from)
                .range_room(spec.range_room)
                .order(spec.order());
            let database = build(builder).build().map_err(|error| session(error.to_string()))?;
            let participant = Participant::new(ServerId::new(number), database);
            let participant = participant.with_wait_max(spec.wait_max_ns).planted(spec.planted);
            let participant = participant.with_table_leases(spec.table_leases);
            let participant = participant.with_late_ticks(spec.clock(number).distance(spec.late_max_ns));
            let participant = participant.with_prepared_read(spec.reads_prepared).with_lending(spec.lends);
            let participant = participant.with_younger_refused(spec.refuses_younger);
            Ok(participant
                .with_frozen_ticks(spec.frozen_ticks)
                .with_frozen_met_at_once(spec.meets_frozen_at_once))
        });
        let servers = servers.collect::<Result<Vec<_>, StoreError>>()?;
        let network = Network::new(cores.clone(), servers, spec.conditions.clone(), seed);
        let clients = vec![0; usize::from(spec.servers)];
        let made = Mutex::new(Made { map: PartitionMap::new(spec.servers), names: Vec::new(), clients });
        let cache = |_| Some(Arc::new(Cache::new(spec.cache?).planted(spec.planted)));
        let caches = (0..spec.servers).filter_map(cache).collect();
        let clocks = match spec.begins_by_clock || spec.order() == Order::Beginning {
            true => (0..spec.servers).map(|server| Arc::new(spec.clock(server))).collect(),
            false => Vec::new(),
        };
        Ok(ClusterStore(Arc::new(Shared {
            network,
            cores,
            spec,
            caches,
            clocks,
            refusals: Mutex::default(),
            made,
        })))
    }

    /// Its network.
    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// What the caches of all servers have counted.
    pub fn cache_counts(&self) -> CacheCounts {
        self.0.caches.iter().fold(CacheCounts::default(), |sum, cache| sum + cache.counts())
    }

    /// What its clients and servers run on.
    pub fn cores(&self) -> &VirtualCores {
        &self.0.cores
    }

    /// Runs clients, each as a worker, until they and their servers have ended.
    ///
    /// # Errors
    /// [`SimulationError`] if they wait for nobody.
    pub fn run<F: FnOnce()>(
        &self,
        limits: Limits,
        clients: impl IntoIterator<Item = F>,
    ) -> Result<Report, SimulationError> {
        enum Body<'a, F> {
            Client(&'a Network, F),
            /// An input thread of a server.
            Server(&'a Network, usize, usize),
        }
        let network = &self.0.network;
        let mut bodies: Vec<Body<'_, F>> =
            clients.into_iter().map(|body| Body::Client(network, body)).collect();
        // What was done before took no time.
        if let Some(loaded) = self.0.clocks.iter().map(|clock| clock.latest()).max() {
            self.0.clocks.iter().for_each(|clock| clock.count_from(loaded));
        }
        network.begin(bodies.len());
        for thread in 0..self.0.spec.conditions.io_threads.max(1) {
            bodies.extend((0..network.servers()).map(|server| Body::Server(network, server, thread)));
        }
        let run = bodies.into_iter().map(|body| {
            move || match body {
                Body::Client(network, body) => {
                    body();
                    network.client_ends();
                }
                Body::Server(network, server, thread) => network.serve(server, thread),
            }
        });
        let report = self.0.cores.run(limits, run);
        network.end();
        report
    }
}

/// The answer of a future that waits by suspending whoever polls it.
pub(super) fn now<T>(future: impl Future<Output = T>) -> Result<T, ClusterAbort> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        // No link of a virtual network leaves its future waiting.
        Poll::Pending => Err(ClusterAbort::Closed),
    }
}

/// One client.
pub struct ClusterSession {
    shared: Arc<Shared>,
    client: Client<VirtualLink>,
    policy: Policy,
    /// The transaction that is to be tried once, if it is one that may be put aside.
    tried: Option<Begun>,
    rollbacks: u64,
    attempts_max: u64,
}

impl ClusterSession {
    /// Who runs its transactions.
    pub fn client(&mut self) -> &mut Client<VirtualLink> {
        &mut self.client
    }

    /// Sees to it that all servers know how its transactions have ended.
    pub fn settle(&mut self) {
        let _ = now(self.client.settle());
    }

    /// Counts what its client's own rules have refused since this was last done, among the store's conflicts.
    pub fn count_refusals(&mut self) {
        for (rule, count) in self.client.take_refusals() {
            let mut refusals = self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            *refusals.entry(rule).or_default() += count;
        }
    }

    /// Has the transaction that this runs be tried once, as the next attempt of one that may have been tried before.
    pub(super) fn try_once<T>(&mut self, begun: &mut Begun, run: impl FnOnce(&mut Self) -> T) -> T {
        let other = self.client.new_transaction();
        self.tried = Some(std::mem::replace(begun, other));
        let ended = run(self);
        if let Some(tried) = self.tried.take() {
            *begun = tried;
        }
        ended
    }

    /// Runs a transaction by the policy of the session.
    ///
    /// # Errors
    /// As [`Client::transact`]; the outer one if this session is not to be run any more.
    pub(super) fn transact<T, E: From<ClusterAbort>>(
        &mut self,
        body: impl AsyncFnMut(&mut Transaction<'_, VirtualLink>) -> Result<T, E>,
    ) -> Result<Result<T, E>, ClusterAbort> {
        self.transact_by(self.policy.clone(), body)
    }

    fn transact_by<T, E: From<ClusterAbort>>(
        &mut self,
        policy: Policy,
        body: impl AsyncFnMut(&mut Transaction<'_, VirtualLink>) -> Result<T, E>,
    ) -> Result<Result<T, E>, ClusterAbort> {
        let attempts_max = if self.tried.is_some() { Some(1) } else { policy.attempts_max };
        self.client.set_policy(Policy { attempts_max, ..policy });
        let mut own = self.client.new_transaction();
        let begun = self.tried.as_mut().unwrap_or(&mut own);
        let ended = now(self.client.transact_on(begun, body));
        self.attempts_max = self.attempts_max.max(begun.attempts().into());
        self.count_refusals();
        ended
    }

    fn counted<T>(
        &mut self,
        policy: Policy,
        mut body: impl FnMut(&mut Transaction<'_, VirtualLink>) -> TxnResult<ClusterStore, T>,
    ) -> TxnResult<ClusterStore, T> {
        let ended = self.transact_by(policy, async |tx| body(tx))?;
        self.rollbacks += u64::from(matches!(ended, Err(Failure::Rollback)));
        ended
    }
}

impl Session<ClusterStore> for ClusterSession {
    fn run<T>(
        &mut self,
        _: &AnyServers,
        body: impl FnMut(&mut Transaction<'_, VirtualLink>) -> TxnResult<ClusterStore, T>,
    ) -> TxnResult<ClusterStore, T> {
        self.counted(self.policy.clone(), body)
    }

    fn run_up_to<T>(
        &mut self,
        attempts_max: u32,
        _: &AnyServers,
        body: impl FnMut(&mut Transaction<'_, VirtualLink>) -> TxnResult<ClusterStore, T>,
    ) -> TxnResult<ClusterStore, T> {
        self.counted(Policy { attempts_max: Some(attempts_max), ..self.policy.clone() }, body)
    }

    fn counts(&self) -> Counts {
        let counts = self.client.counts();
        Counts { commits: counts.commits, user_rollbacks: self.rollbacks, aborts: counts.aborts }
    }

    fn take_attempts_max(&mut self) -> u64 {
        std::mem::take(&mut self.attempts_max)
    }
}

/// A cluster needs no telling which tables a transaction touches.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyServers;

impl Scope<ClusterStore> for AnyServers {
    fn reads<K: StoreKey, R: StoreRow>(self, _: &ClusterTable<K, R>) -> Self {
        self
    }

    fn writes<K: StoreKey, R: StoreRow>(self, _: &ClusterTable<K, R>) -> Self {
        self
    }
}

/// The keys of rows that will be asked for together.
#[derive(Clone, Copy, Debug)]
pub struct Named<'k, K>(&'k [K]);

impl<K> Found<K> for Named<'_, K> {
    fn keys(&self) -> &[K] {
        self.0
    }
}

impl<X: StoreKey, K: StoreKey> Index<ClusterStore> for ClusterIndex<X, K> {
    type Secondary = X;
    type Primary = K;

    fn range(
        &self,
        tx: &mut Transaction<'_, VirtualLink>,
        bounds: impl RangeBounds<X>,
        scan: Scan,
        mut each: impl FnMut(X, K) -> ControlFlow<()>,
    ) -> Result<(), ClusterAbort> {
        let limit = scan.limit.unwrap_or(usize::MAX);
        for (secondary, primary) in now(tx.range_by(self, bounds, scan.reverse, limit))?? {
            if each(secondary, primary).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl ClusterStore {
    /// Makes a secondary index of the table of this number: `make` does at each server, of the database and the table's name there.
    fn make_index<X: StoreKey, K: StoreKey>(
        &self,
        table: TableId,
        groups: Range<usize>,
        name: &str,
        make: impl Fn(&Database<BranchHost>, &str) -> Result<SecondaryIndex<X, K>, SchemaError>,
    ) -> Result<ClusterIndex<X, K>, StoreError> {
        let Shared { network, spec, made, .. } = &*self.0;
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |reason: String| StoreError::Table { name: name.into(), reason };
        let added = made.map.add_index(table, groups, spec.index_reach);
        let id = added.map_err(|error| failed(error.to_string()))?;
        for server in 0..network.servers() {
            let index = network.with_server(server, |participant| {
                let index = make(participant.database(), &made.names[table.index()]);
                index.map(|index| participant.add_table(UntypedTable::of_index(&index)))
            });
            if let Some(Err(error)) = index {
                return Err(failed(error.to_string()));
            }
        }
        made.names.push(name.to_owned());
        Ok(ClusterIndex::new(id))
    }

    /// Opens a session of a client at this server; of one at each in turn, if none is said.
    ///
    /// # Errors
    /// [`StoreError`] if there are too many.
    pub fn session_at(&self, server: Option<ServerId>) -> Result<ClusterSession, StoreError> {
        let Shared { network, spec, made, caches, clocks, .. } = &*self.0;
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        let Made { map, clients, .. } = &mut *made;
        let before: usize = clients.iter().copied().map(usize::from).sum();
        let server = server.map_or(before % clients.len(), ServerId::index);
        let full = || StoreError::Session { reason: format!("server {server} has no room for a client") };
        let worker = clients.get_mut(server).filter(|clients| **clients < u16::MAX).ok_or_else(full)?;
        let id = ClientId { server: ServerId::new(server as u16), worker: *worker };
        *worker += 1;
        let client = Client::new(id, Arc::new(map.clone()), network.link(id));
        let client = client.with_resend_after(spec.resend_after_ns).planted(spec.planted);
        let client = client.with_policy(spec.policy.clone()).with_new_ages(spec.new_ages);
        let client =
            client.with_told_commits(spec.waits_until_told).with_everybody_asked(spec.asks_everybody);
        let client = match caches.get(server) {
            Some(cache) => client.with_cache(Arc::clone(cache)),
            None => client,
        };
        let client = match clocks.get(server) {
            Some(clock) => client.with_clock(Arc::clone(clock)),
            None => client,
        };
        let shared = Arc::clone(&self.0);
        Ok(ClusterSession {
            shared,
            client,
            policy: spec.policy.clone(),
            tried: None,
            rollbacks: 0,
            attempts_max: 0,
        })
    }
}

impl Store for ClusterStore {
    type Table<K: StoreKey, R: StoreRow> = ClusterTable<K, R>;
    type Group<K: StoreKey, R: Part<I>, const I: usize> = ClusterTable<K, R::Group>;
    type Index<X: StoreKey, K: StoreKey, R: StoreRow> = ClusterIndex<X, K>;
    type Scope = AnyServers;
    type Session = ClusterSession;
    type Txn<'a> = Transaction<'a, VirtualLink>;
    type Found<'a, 'k, K: StoreKey> = Named<'k, K>;
    type Abort = ClusterAbort;

    fn table<K: StoreKey, R: StoreRow>(&self, spec: &TableSpec) -> Result<ClusterTable<K, R>, StoreError> {
        let Shared { network, spec: cluster, made, .. } = &*self.0;
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |reason: String| StoreError::Table { name: spec.name.clone(), reason };
        let partitioning = cluster.otherwise.get(&spec.name).unwrap_or(&cluster.partitioning).clone();
        let id = made.map.add(partitioning).map_err(|error| failed(error.to_string()))?;
        let Some(&protocol) = cluster.protocols.get(id.index() % cluster.protocols.len().max(1)) else {
            return Err(failed("it has no protocol".into()));
        };
        let options = TableOptions::new()
            .protocol(protocol)
            .index(spec.index)
            .granularity(spec.granularity)
            .leases(cluster.leases);
        for server in 0..network.servers() {
            let table = network.with_server(server, |participant| {
                let table = participant.database().create_table::<K, R>(&spec.name, options.clone());
                table.map(|table| participant.add_table(UntypedTable::of(&table)))
            });
            if let Some(Err(error)) = table {
                return Err(failed(error.to_string()));
            }
        }
        made.names.push(spec.name.clone());
        Ok(ClusterTable::new(id))
    }

    fn group<K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &ClusterTable<K, R>,
    ) -> ClusterTable<K, R::Group> {
        table.group::<I>()
    }

    fn index<X: StoreKey, K: StoreKey, R: StoreRow>(
        &self,
        table: &ClusterTable<K, R>,
        name: &str,
        extract: impl Fn(&K, &R) -> X + Send + Sync + 'static,
    ) -> Result<ClusterIndex<X, K>, StoreError> {
        let extract = Arc::new(extract);
        self.make_index(table.id(), 0..R::SIZES.len(), name, move |database, of| {
            let extract = Arc::clone(&extract);
            database.table::<K, R>(of)?.create_index(database, name, move |key, row| extract(key, row))
        })
    }

    fn group_index<X: StoreKey, K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &ClusterTable<K, R>,
        name: &str,
        extract: impl Fn(&K, &R::Group) -> X + Send + Sync + 'static,
    ) -> Result<ClusterIndex<X, K>, StoreError> {
        let extract = Arc::new(extract);
        self.make_index(table.id(), I..I + 1, name, move |database, of| {
            let extract = Arc::clone(&extract);
            let group = database.table::<K, R>(of)?.group::<I>();
            group.create_index(database, name, move |key, group| extract(key, group))
        })
    }

    fn scope(&self) -> AnyServers {
        AnyServers
    }

    fn session(&self) -> Result<ClusterSession, StoreError> {
        self.session_at(None)
    }

    fn conflicts(&self) -> Conflicts {
        let mut conflicts = Conflicts::default();
        for server in 0..self.0.network.servers() {
            let report = self.0.network.with_server(server, |participant| participant.database().conflicts());
            for rule in report.iter().flat_map(|report| &report.by_rule) {
                *conflicts.rules.entry(rule.rule.into()).or_default() += rule.count;
            }
            let own = self.0.network.with_server(server, |participant| participant.refusals().clone());
            for (rule, count) in own.into_iter().flatten() {
                *conflicts.rules.entry(rule).or_default() += count;
            }
        }
        for (rule, count) in self.0.refusals.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            *conflicts.rules.entry(rule.clone()).or_default() += count;
        }
        conflicts
    }

    fn is_conflict(abort: &ClusterAbort) -> bool {
        abort.is_retryable()
    }
}

impl Appends for ClusterStore {
    fn append<K: StoreKey, R: Part<I, Group = Vec<u8>>, const I: usize>(
        tx: &mut Transaction<'_, VirtualLink>,
        group: &ClusterTable<K, Vec<u8>>,
        key: &K,
        bytes: &[u8],
    ) -> Result<(), ClusterAbort> {
        now(tx.append(group, key, bytes))?
    }
}

impl<K: StoreKey, V: noonmark::Row + Clone + Send + Sync> Rows<ClusterStore> for ClusterTable<K, V> {
    type Key = K;
    type Value = V;

    fn get(&self, tx: &mut Transaction<'_, VirtualLink>, key: &K) -> Result<Option<V>, ClusterAbort> {
        now(tx.get(self, key))?
    }

    fn need(&self, tx: &mut Transaction<'_, VirtualLink>, key: &K) -> Result<V, ClusterAbort> {
        now(tx.need(self, key))?
    }

    fn update(
        &self,
        tx: &mut Transaction<'_, VirtualLink>,
        key: &K,
        change: impl FnOnce(&mut V),
    ) -> Result<(), ClusterAbort> {
        now(tx.update(self, key, change))?
    }

    fn write(&self, tx: &mut Transaction<'_, VirtualLink>, key: &K, value: V) -> Result<bool, ClusterAbort> {
        now(tx.write(self, key, value))?
    }

    fn look_up<'a, 'k>(
        &self,
        _: &mut <ClusterStore as Store>::Txn<'a>,
        keys: &'k [K],
    ) -> <ClusterStore as Store>::Found<'a, 'k, K> {
        Named(keys)
    }

    fn get_found(
        &self,
        tx: &mut Transaction<'_, VirtualLink>,
        found: &Named<'_, K>,
        some: Range<usize>,
        each: impl FnMut(usize, Option<V>),
    ) -> Result<(), ClusterAbort> {
        self.get_many(tx, &found.0[some], each)
    }

    fn update_found(
        &self,
        tx: &mut Transaction<'_, VirtualLink>,
        found: &Named<'_, K>,
        some: Range<usize>,
        each: impl FnMut(usize, &mut V),
    ) -> Result<(), ClusterAbort> {
        self.update_many(tx, &found.0[some], each)
    }

    fn get_many(
        &self,
        tx: &mut Transaction<'_, VirtualLink>,
        keys: &[K],
        mut each: impl FnMut(usize, Option<V>),
    ) -> Result<(), ClusterAbort> {
        let rows = now(tx.get_many(self, keys))??;
        rows.into_iter().enumerate().for_each(|(index, row)| each(index, row));
        Ok(())
    }

    fn update_many(
        &self,
        tx: &mut Transaction<'_, VirtualLink>,
        keys: &[K],
        mut each: impl FnMut(usize, &mut V),
    ) -> Result<(), ClusterAbort> {
        for (index, key) in keys.iter().enumerate() {
            now(tx.update(self, key, |value| each(index, value)))??;
        }
        Ok(())
    }

    fn range(
        &self,
        tx: &mut Transaction<'_, VirtualLink>,
        bounds: impl RangeBounds<K>,
        scan: Scan,
        mut each: impl FnMut(K, V) -> ControlFlow<()>,
    ) -> Result<(), ClusterAbort> {
        let limit = scan.limit.unwrap_or(usize::MAX);
        for (key, value) in now(tx.range(self, bounds, scan.reverse, limit))?? {
            if each(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl<K: StoreKey, R: StoreRow> Table<ClusterStore> for ClusterTable<K, R> {
    fn insert(&self, tx: &mut Transaction<'_, VirtualLink>, key: &K, row: R) -> Result<bool, ClusterAbort> {
        now(tx.insert(self, key, row))?
    }

    fn upsert(&self, tx: &mut Transaction<'_, VirtualLink>, key: &K, row: R) -> Result<(), ClusterAbort> {
        now(tx.upsert(self, key, row))?
    }

    fn delete(&self, tx: &mut Transaction<'_, VirtualLink>, key: &K) -> Result<bool, ClusterAbort> {
        now(tx.delete(self, key))?
    }
}

impl<K: StoreKey, G: StoreGroup> Group<ClusterStore> for ClusterTable<K, G> {
    fn add<N: Number + Field>(
        &self,
        tx: &mut Transaction<'_, VirtualLink>,
        key: &K,
        column: Column<G, N>,
        delta: N,
    ) -> Result<(), ClusterAbort> {
        now(tx.add(self, key, column, delta))?
    }

    fn apply(
        &self,
        tx: &mut Transaction<'_, VirtualLink>,
        key: &K,
        change: impl Fn(&mut G) + Copy + Send + 'static,
    ) -> Result<(), ClusterAbort> {
        self.update(tx, key, change)
    }
}
