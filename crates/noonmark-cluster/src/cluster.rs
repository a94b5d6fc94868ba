//! A cluster within a process: tables spread over [share-nothing workers](crate::workers), and the clients that use them.
//!
//! ```
//! use noonmark::TableOptions;
//! use noonmark_cluster::{Cluster, ClusterAbort, IndexReach, Partitioning, block_on};
//!
//! let cluster = Cluster::builder().workers(2).build()?;
//! let by_key = Partitioning::Hash { prefix_bytes: 8 };
//! let accounts = cluster.create_table::<u64, i64>("accounts", TableOptions::new(), by_key)?;
//!
//! block_on(cluster.transact(async |tx| {
//!     tx.insert(&accounts, 1, 100).await?;
//!     tx.insert(&accounts, 2, 50).await
//! }))?;
//!
//! // Who runs many transactions keeps a client, which may go to a thread of its own.
//! std::thread::scope(|scope| {
//!     for _ in 0..2 {
//!         let mut client = cluster.client()?;
//!         let accounts = &accounts;
//!         scope.spawn(move || {
//!             for _ in 0..10 {
//!                 block_on(client.transact(async |tx| {
//!                     tx.update(accounts, 1, |balance| *balance -= 1).await?;
//!                     tx.update(accounts, 2, |balance| *balance += 1).await
//!                 }))?;
//!             }
//!             Ok::<(), ClusterAbort>(())
//!         });
//!     }
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! let moved = block_on(cluster.transact(async |tx| {
//!     Ok::<_, ClusterAbort>((tx.need(&accounts, 1).await?, tx.need(&accounts, 2).await?))
//! }))?;
//! assert_eq!(moved, (80, 70));
//!
//! // Tables, and their indexes, are made before there are clients.
//! let cluster = Cluster::builder().workers(2).build()?;
//! let by_key = Partitioning::Hash { prefix_bytes: 8 };
//! let people = cluster.create_table::<u64, String>("people", TableOptions::new(), by_key)?;
//! let by_name = cluster.create_index(&people, "by name", IndexReach::Everywhere, |_, name| name.clone())?;
//! let found = block_on(cluster.transact(async |tx| {
//!     for (id, name) in [(1, "Mary"), (2, "Ada"), (3, "Grace")] {
//!         tx.insert(&people, id, name.to_owned()).await?;
//!     }
//!     tx.range_by(&by_name, "B".to_owned()..="M".to_owned(), false, 10).await
//! }))?;
//! assert_eq!(found, [("Grace".to_owned(), 3)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! What the [crate] says: serializable, all or nothing. In [logical order](noonmark::Order::Logical) a client's transactions
//! are in order; so are those that one thread, or one task, runs by [`Cluster::transact`] one after another. In momentary order the
//! cluster is strict.
//!
//! # One order for all servers
//!
//! Tables are made at all servers alike, so all their databases would come to the same order by themselves, but each at its own first
//! transaction. A table that comes in between would suit some of them and not others. So the order is settled everywhere before the first
//! client is there, as [one database](noonmark::order) settles it before its first transaction: logical if all tables keep read
//! times (`tictoc`, `sundial`, `dynamic`, `ranges`), that of beginnings if they keep versions (`fixed`), momentary otherwise, unless
//! [`Builder::order`] has said.
//!
//! # Threads and executors
//!
//! The futures are any executor's, and `Send` if the closure owns what it uses (`async move |tx| …`, with a [`Table`] that is a clone), so
//! that they may go from thread to thread. (Of a closure that borrows, the compiler of today does not see it; such a future
//! stays on its thread.) A thread that has no executor has [`block_on`](crate::executor::block_on).
//!
//! A transaction whose future is dropped (by a timeout, say) while its closure runs is rolled back at once. Dropped once the closure has answered, it may have
//! been committed: the request that commits it may have left, and whether it was refused is not known any more. Whoever would run such a
//! transaction again lets it see whether it has been: by a row that it inserts under a number of the request's own.
//! [`Builder::wait_max`] and [`Policy::attempts_max`](crate::Policy::attempts_max) bound how long it is kept waiting and how
//! often it is tried, without such a doubt.
//!
//! # Panics
//!
//! A closure that changes a row runs where the transaction's closure does. If it panics, the transaction is rolled back, and the panic goes on
//! to whoever polls it. The closure of an [index](Cluster::create_index) runs at the worker that has the row. If it panics, that one transaction is refused
//! ([`AbortKind::Panicked`], with the panic's message), if what it has read at that worker still holds, and tried again if not; the worker goes on.
//!
//! # Limits
//!
//! 65,536 clients at the same time for each worker, and as many tables. While there are clients no table can be made, as they
//! would not know where its rows are. A [`Table`] is a number: one of another cluster is taken for the table of that number here.
//!
//! What it does not do: outlive its process, log, replicate, move rows to other workers, or have indexes of single column groups.

use crate::begin_clock::BeginClock;
use crate::cache::{Cache, CacheCounts, CacheOptions};
use crate::client::{Client, ClusterAbort, Index, Policy, Table, Transaction, View};
use crate::message::Refusal;
use crate::participant::WAIT_MAX_DEFAULT_NS;
use crate::partition::{IndexReach, InvalidPartitioning, PartitionMap, Partitioning, ServerId};
use crate::table_lease::TableLeases;
use crate::tasks::{self, Task};
use crate::workers::{NoLink, WorkerLink, Workers};
use noonmark::branch::{Branch, BranchHost, FROZEN_TICKS, UntypedTable};
use noonmark::{
    AbortKind, Age, BuildError, ConflictReport, Database, Key, Order, Protocol, Row, SESSIONS_DEFAULT,
    SchemaError, SlotId, TableOptions, Timestamp, TooManySessions,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The protocol of a cluster's table for which nobody has chosen one: it makes fewer transactions fail than those that look at one moment,
/// keeps no messages waiting but for writes, and lets clients keep copies of rows.
pub const PROTOCOL_DEFAULT: Protocol = Protocol::Sundial;

/// Under `fixed`, unless told otherwise, whoever comes this late finds all versions.
const LATE_MAX_DEFAULT: Duration = Duration::from_millis(100);

/// How to build a [`Cluster`].
#[derive(Clone, Debug)]
pub struct Builder {
    workers: u16,
    branches_max: usize,
    order: Option<Order>,
    wait_max: Duration,
    policy: Policy,
    cache: Option<CacheOptions>,
    table_leases: Option<TableLeases>,
    frozen_ticks: u64,
    late_max: Duration,
}

/// Why a cluster could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildClusterError {
    /// It would have no workers. Say how many: one at least.
    #[error("a cluster has one worker at least")]
    NoWorkers,
    /// Its databases cannot be built as they were said to be: see [`Builder::branches_max`].
    #[error("the database of a worker cannot be built: {0}")]
    Database(#[from] BuildError),
    /// Transactions in this order cannot span servers. Take another one, or none.
    #[error("transactions in {0} order cannot span servers; take another order, or none")]
    Order(Order),
    /// The system has no thread left for a worker. Build it with fewer.
    #[error("no thread can be had for a worker: {0}")]
    Thread(#[from] std::io::Error),
}

/// Why a table could not be made. It is not there at any server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateTableError {
    /// The servers' databases cannot have it.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Its rows cannot be spread like this.
    #[error("table {0:?}: {1}")]
    Partitioning(String, InvalidPartitioning),
    /// There are clients, who would not know of it. Make all tables first, or drop the clients.
    #[error("table {0:?}: so many clients would not know of it: {1}; make tables before clients")]
    HasClients(String, usize),
}

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There are as many clients as there can be. Drop some.
    #[error("there are as many clients as a cluster can have, 65,536 for each worker; drop some")]
    TooManyClients,
    /// A worker has panicked, and its rows are gone. Build another cluster.
    #[error("a worker has panicked, and the rows that it had are gone; build another cluster")]
    Closed,
    /// The order could not be settled, since a server has no room for a single branch.
    #[error("a worker's database has no room: {0}")]
    Room(#[from] TooManySessions),
    /// There is no such worker: they are numbered from zero.
    #[error("there is no {0}: there are {1}, numbered from 0")]
    NoWorker(ServerId, u16),
}

impl From<ClientError> for ClusterAbort {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Closed => ClusterAbort::Closed,
            ClientError::TooManyClients | ClientError::Room(_) | ClientError::NoWorker(..) => {
                ClusterAbort::Refused(Box::new(Refusal::of(
                    ServerId::new(0),
                    AbortKind::TooManySessions,
                    "",
                    error.to_string(),
                )))
            }
        }
    }
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            workers: 1,
            branches_max: SESSIONS_DEFAULT,
            order: None,
            wait_max: Duration::from_nanos(WAIT_MAX_DEFAULT_NS),
            policy: Policy::default(),
            cache: None,
            table_leases: None,
            frozen_ticks: FROZEN_TICKS,
            late_max: LATE_MAX_DEFAULT,
        }
    }
}

impl Builder {
    /// How many workers there are, and so partitions and threads. One unless told otherwise. More than there are cores are of no
    /// use; the clients' threads want some, too.
    pub fn workers(mut self, workers: u16) -> Self {
        self.workers = workers;
        self
    }

    /// How many transactions can have a part at one worker at the same time, 1 to [`SESSIONS_MAX`](noonmark::SESSIONS_MAX);
    /// [`SESSIONS_DEFAULT`] unless told otherwise. There may be more clients: who keeps nobody out is forgotten in favour of who
    /// comes; who finds no room even so is refused, and tries again.
    pub fn branches_max(mut self, branches: usize) -> Self {
        self.branches_max = branches;
        self
    }

    /// The order that all its databases are in, instead of what follows from the tables.
    pub fn order(mut self, order: Order) -> Self {
        self.order = Some(order);
        self
    }

    /// For how long an answer is held back at most, while another transaction has what is wanted; 100 ms unless told otherwise. Then the
    /// attempt is refused, and tried again: so nobody waits for ever for a client that is slow, or does not go on. (Nobody waits in a circle: see
    /// [`participant`](crate::participant).)
    pub fn wait_max(mut self, wait_max: Duration) -> Self {
        self.wait_max = wait_max;
        self
    }

    /// How transactions are tried, unless their client is told otherwise.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Clients keep copies of rows, those that are at home with one worker together: see [`cache`](crate::cache). None unless told
    /// otherwise.
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.cache = Some(options);
        self
    }

    /// Tables that are seldom written have leases as a whole, so that copies of their rows need looking at less often; see
    /// [`table_lease`](crate::table_lease). None unless told otherwise, and none where order is not logical.
    pub fn table_leases(mut self, options: TableLeases) -> Self {
        self.table_leases = Some(options);
        self
    }

    /// Under `dynamic`, how many ticks of a transaction's range are frozen when it is prepared; [`FROZEN_TICKS`] unless told otherwise.
    /// `u64::MAX`: all from the first on, as in MaaT.
    pub fn frozen_ticks(mut self, ticks: u64) -> Self {
        self.frozen_ticks = ticks;
        self
    }

    /// Under `fixed`, how long versions are kept that have been replaced: whoever comes to a server so much later than others who
    /// began when it did is refused, and tried again. 100 ms unless told otherwise.
    pub fn late_max(mut self, late_max: Duration) -> Self {
        self.late_max = late_max;
        self
    }

    /// Builds it: its workers run from here on.
    ///
    /// # Errors
    /// [`BuildClusterError`]; nothing is left running.
    pub fn build(self) -> Result<Cluster, BuildClusterError> {
        if self.workers == 0 {
            return Err(BuildClusterError::NoWorkers);
        }
        if let Some(order) = self.order.filter(|order| *order == Order::Snapshot) {
            return Err(BuildClusterError::Order(order));
        }
        let database = |number| {
            let builder = Database::builder().host(BranchHost::new(number)).max_sessions(self.branches_max);
            match self.order {
                Some(order) => builder.order(order).build(),
                None => builder.build(),
            }
        };
        let databases = (0..u64::from(self.workers)).map(database).collect::<Result<Vec<_>, _>>()?;
        let wait_max_ns = u64::try_from(self.wait_max.as_nanos()).unwrap_or(u64::MAX);
        let late_ns = u64::try_from(self.late_max.as_nanos()).unwrap_or(u64::MAX);
        let late_ticks = BeginClock::new(ServerId::new(0), self.workers, 0).distance(late_ns);
        let workers = Workers::start(&databases, |participant| {
            participant
                .with_wait_max(wait_max_ns)
                .with_table_leases(self.table_leases)
                .with_frozen_ticks(self.frozen_ticks)
                .with_late_ticks(late_ticks)
        })?;
        let cache = |_| Some(Arc::new(Cache::new(self.cache?)));
        let caches = (0..self.workers).filter_map(cache).collect();
        let clock = |number| Arc::new(BeginClock::new(ServerId::new(number), self.workers, 0));
        let clocks = (0..self.workers).map(clock).collect();
        let map = Arc::new(PartitionMap::new(self.workers));
        let (policy, floor) = (self.policy, AtomicU64::new(0));
        let made = Mutex::new(Made { map, names: Vec::new(), is_settled: false });
        let idle = Mutex::default();
        Ok(Cluster(Arc::new(Shared { workers, databases, caches, clocks, made, idle, floor, policy })))
    }
}

/// What has been made of a cluster so far.
struct Made {
    map: Arc<PartitionMap>,
    /// The name of each table; of the entries of an index, that.
    names: Vec<String>,
    /// The order is, at all servers.
    is_settled: bool,
}

struct Shared {
    workers: Workers,
    databases: Vec<Database<BranchHost>>,
    /// Of the clients at home with each worker, if they have any.
    caches: Vec<Arc<Cache>>,
    /// Of the clients at home with each worker.
    clocks: Vec<Arc<BeginClock>>,
    /// **Invariant**: no table is made and no client begins but under this lock.
    made: Mutex<Made>,
    /// Clients of [`Cluster::transact`] that have nothing to do.
    idle: Mutex<Vec<Client<WorkerLink>>>,
    /// The last commit time of a transaction that was run by [`Cluster::transact`].
    floor: AtomicU64,
    policy: Policy,
}

/// Tables on several workers. See the [module](self).
///
/// A handle: clones are of the same cluster. When the last one is dropped the workers end, which is waited for; clients that are still
/// there are told that their link is [closed](ClusterAbort::Closed). `Send` and `Sync`.
#[derive(Clone)]
pub struct Cluster(Arc<Shared>);

/// What has happened at one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatistics {
    /// Which.
    pub server: ServerId,
    /// The conflicts among its rows: see [`Database::conflicts`].
    pub conflicts: ConflictReport,
    /// Requests that came to it.
    pub requests: u64,
    /// Attempts that it has ended, for whatever reason: conflicts, and whoever has been held back for too long, found no room, or asked
    /// for what cannot be done.
    pub refusals: u64,
}

impl Cluster {
    /// To build one.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// How many workers it has.
    pub fn workers(&self) -> u16 {
        self.made().map.servers()
    }

    /// The order in which its transactions are serialized; `None` before the first client has come, unless the builder has said.
    pub fn order(&self) -> Option<Order> {
        self.0.databases.first().and_then(Database::order)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.0.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client<WorkerLink>>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a table, whose rows are spread like this; under [`PROTOCOL_DEFAULT`], unless a protocol has been chosen.
    ///
    /// # Errors
    /// [`CreateTableError`]; there is no such table then.
    pub fn create_table<K: Key, R: Row>(
        &self,
        name: &str,
        options: TableOptions,
        partitioning: Partitioning,
    ) -> Result<Table<K, R>, CreateTableError> {
        let options = options.protocol_or(PROTOCOL_DEFAULT);
        let mut made = self.made();
        self.has_no_clients(name)?;
        let mut map = PartitionMap::clone(&made.map);
        let id = map
            .add(partitioning)
            .map_err(|invalid| CreateTableError::Partitioning(name.to_owned(), invalid))?;
        // All have the same tables and the same order: what the first one takes they all take.
        let parts = self.0.databases.iter().map(|database| {
            database.create_table::<K, R>(name, options.clone()).map(|table| UntypedTable::of(&table))
        });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        self.0.workers.add_table(parts);
        made.map = Arc::new(map);
        made.names.push(name.to_owned());
        Ok(Table::new(id))
    }

    /// Makes a secondary index of a table that has no rows yet, by a key that is worked out from a row; many rows may have the same. Each
    /// server keeps it for the rows that it has. If `key_of` panics there, the transaction that wants to change the row is refused, of kind
    /// [`AbortKind::Panicked`].
    ///
    /// # Errors
    /// [`CreateTableError`]; nobody can look through such an index then. (If only some servers have rows of the table already, the others keep
    /// it up for nobody, and its name is taken.)
    pub fn create_index<S: Key, K: Key, R: Row>(
        &self,
        table: &Table<K, R>,
        name: &str,
        reach: IndexReach,
        key_of: impl Fn(&K, &R) -> S + Send + Sync + 'static,
    ) -> Result<Index<S, K>, CreateTableError> {
        let mut made = self.made();
        self.has_no_clients(name)?;
        let mut map = PartitionMap::clone(&made.map);
        let invalid = |invalid| CreateTableError::Partitioning(name.to_owned(), invalid);
        let id = map.add_index(table.id(), 0..R::SIZES.len(), reach).map_err(invalid)?;
        let of = made.names.get(table.id().index()).ok_or_else(|| invalid(InvalidPartitioning::NoTable))?;
        let key_of = Arc::new(key_of);
        let parts = self.0.databases.iter().map(|database| {
            let key_of = Arc::clone(&key_of);
            let index =
                database.table::<K, R>(of)?.create_index(database, name, move |key, row| key_of(key, row))?;
            Ok(UntypedTable::of_index(&index))
        });
        let parts = parts.collect::<Result<Vec<_>, SchemaError>>()?;
        self.0.workers.add_table(parts);
        made.map = Arc::new(map);
        made.names.push(name.to_owned());
        Ok(Index::new(id))
    }

    /// Whoever makes a table called this must be before all clients. (Those of [`Cluster::transact`] that have nothing to do do not count:
    /// whoever takes one next gets one that knows.)
    fn has_no_clients(&self, name: &str) -> Result<(), CreateTableError> {
        self.idle().clear();
        match self.0.workers.links() {
            0 => Ok(()),
            clients => Err(CreateTableError::HasClients(name.to_owned(), clients)),
        }
    }

    /// A client: for a thread, or a task, that runs many transactions.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn client(&self) -> Result<Client<WorkerLink>, ClientError> {
        self.client_over(None)
    }

    /// Runs a program on a worker's own thread, as a task beside its rows, with a client that is at home there: what the client asks of that
    /// worker never leaves the thread. With a program or more at each worker, and transactions begun where most of their rows are, one core
    /// does for its partition all that there is to do, and a transaction within it needs no other thread. (`noonmark bench workers` measures
    /// both: clients on threads of their own, and at the workers.)
    ///
    /// ```
    /// # use noonmark::TableOptions;
    /// # use noonmark_cluster::{Cluster, ClusterAbort, Partitioning, ServerId, block_on};
    /// let cluster = Cluster::builder().workers(2).build()?;
    /// // Keys below 1,000 are with the first worker, the others with the second.
    /// let by_key = Partitioning::Ranges(vec![1_000_u64.to_be_bytes().to_vec()]);
    /// let hits = cluster.create_table::<u64, i64>("hits", TableOptions::new(), by_key)?;
    /// let mut tasks = Vec::new();
    /// for (worker, key) in [(0, 7), (1, 1_007)] {
    ///     let hits = hits.clone();
    ///     tasks.push(cluster.spawn_at(ServerId::new(worker), move |mut client| async move {
    ///         client.transact(async |tx| tx.insert(&hits, key, 0).await).await?;
    ///         for _ in 0..100 {
    ///             client.transact(async |tx| tx.update(&hits, key, |hits| *hits += 1).await).await?;
    ///         }
    ///         client.view(async |tx| tx.need(&hits, key).await).await
    ///     })?);
    /// }
    /// for task in tasks {
    ///     let hits: Result<i64, ClusterAbort> = block_on(task)?;
    ///     assert_eq!(hits?, 100);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The future may await anything, and need not be `Send`: that thread makes it, polls it, and drops it. It must not *block*, or compute for
    /// long without awaiting: the worker's rows wait meanwhile ([`block_on`](crate::executor::block_on) refuses to, by a panic). If the
    /// [`Task`] is dropped the program goes on; if the cluster is, programs that have not ended are dropped, and
    /// what they have begun is rolled back. A program that owns a handle of its cluster keeps it.
    ///
    /// # Errors
    /// [`ClientError`]; nothing runs then. What becomes of the program: [`TaskError`](crate::tasks::TaskError).
    pub fn spawn_at<T, F>(
        &self,
        worker: ServerId,
        program: impl FnOnce(Client<WorkerLink>) -> F + Send + 'static,
    ) -> Result<Task<T>, ClientError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let workers = self.workers();
        if worker.number() >= workers {
            return Err(ClientError::NoWorker(worker, workers));
        }
        let client = self.client_over(Some(worker))?;
        let (program, task) = tasks::program(move || program(client));
        self.0.workers.start_at(worker, program);
        Ok(task)
    }

    /// A client, of a task at that worker if one is given.
    fn client_over(&self, task_at: Option<ServerId>) -> Result<Client<WorkerLink>, ClientError> {
        let mut made = self.made();
        if !made.is_settled {
            self.settle_order()?;
            made.is_settled = true;
        }
        let link = self.0.workers.link(task_at).map_err(|none| match none {
            NoLink::Closed => ClientError::Closed,
            NoLink::TooMany => ClientError::TooManyClients,
        })?;
        let cache = self.0.caches.get(link.client().server.index()).cloned();
        let client = Client::new(link.client(), made.map.clone(), link);
        let client = match cache {
            Some(cache) => client.with_cache(cache),
            None => client,
        };
        let client = match self.0.clocks.get(client.id().server.index()) {
            Some(clock) if self.order() == Some(Order::Beginning) => client.with_clock(clock.clone()),
            _ => client,
        };
        // Nothing is lost on its way, so nothing is sent again.
        Ok(client.with_resend_after(u64::MAX).with_policy(self.0.policy.clone()))
    }

    /// A database settles its order when the first transaction begins: one begins everywhere, and ends.
    fn settle_order(&self) -> Result<(), TooManySessions> {
        for database in &self.0.databases {
            let mut branch = Branch::new(database)?;
            // (Nobody has been there, so it is not too late for it.)
            let _ = branch.begin(Age::new(0, SlotId::NOBODY), Timestamp::ZERO);
            branch.roll_back();
        }
        Ok(())
    }

    /// Runs a transaction until it commits, by a client that is not kept; see [`Client::transact`].
    ///
    /// It comes after all transactions that have been run like this, and had committed before it began.
    ///
    /// # Errors
    /// As [`Client::transact`]; of kind [`TooManySessions`](AbortKind::TooManySessions) if there are as many clients as there can be.
    pub fn transact<T, E: From<ClusterAbort>, B>(
        &self,
        body: B,
    ) -> impl Future<Output = Result<T, E>> + use<T, E, B>
    where
        B: AsyncFnMut(&mut Transaction<'_, WorkerLink>) -> Result<T, E>,
    {
        let cluster = self.clone();
        async move {
            let mut client = cluster.take_client()?;
            let done = client.transact(body).await;
            cluster.put_back(client);
            done
        }
    }

    /// Runs a transaction that only reads; see [`Client::view`], and [`Cluster::transact`] for the rest.
    ///
    /// # Errors
    /// As [`Cluster::transact`].
    pub fn view<T, E: From<ClusterAbort>, B>(
        &self,
        body: B,
    ) -> impl Future<Output = Result<T, E>> + use<T, E, B>
    where
        B: AsyncFnMut(&mut View<'_, WorkerLink>) -> Result<T, E>,
    {
        let cluster = self.clone();
        async move {
            let mut client = cluster.take_client()?;
            let done = client.view(body).await;
            cluster.put_back(client);
            done
        }
    }

    /// One that has nothing to do. If the future that has it is dropped, so is the client, and what it has begun is rolled back, if its commit was not on its way.
    fn take_client(&self) -> Result<Client<WorkerLink>, ClusterAbort> {
        let idle = self.idle().pop();
        let mut client = match idle {
            Some(client) => client,
            None => self.client()?,
        };
        // Acquire: whoever has committed before this begins is ordered before it.
        client.raise_floor(Timestamp::new(self.0.floor.load(Ordering::Acquire)));
        Ok(client)
    }

    fn put_back(&self, client: Client<WorkerLink>) {
        self.0.floor.fetch_max(client.floor().ticks(), Ordering::AcqRel);
        self.idle().push(client);
    }

    /// What the caches have counted, all together.
    pub fn cache_counts(&self) -> CacheCounts {
        self.0.caches.iter().fold(CacheCounts::default(), |sum, cache| sum + cache.counts())
    }

    /// What has happened at each server, in their order.
    pub fn statistics(&self) -> Vec<ServerStatistics> {
        let of_server = |(number, database): (u16, &Database<BranchHost>)| {
            let (requests, refusals) = self.0.workers.counts(usize::from(number));
            ServerStatistics {
                server: ServerId::new(number),
                conflicts: database.conflicts(),
                requests,
                refusals,
            }
        };
        (0..).zip(&self.0.databases).map(of_server).collect()
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("workers", &self.workers()).field("order", &self.order()).finish()
    }
}
