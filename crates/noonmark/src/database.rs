//! The database: what all sessions share.

use crate::abort::{Abort, AbortKind, TableInfo};
use crate::begin_times::BeginTimes;
use crate::conflicts::{ConflictReport, Conflicts};
use crate::context::Context;
use crate::gate::Gate;
use crate::group::Row;
use crate::key::Key;
use crate::planted::Planted;
use crate::policy::Policy;
use crate::protocol::{Order, Protocol};
use crate::range::{RANGE_ROOM_DEFAULT, Ranges};
use crate::record::{Cells, Layout, RecordPtr};
use crate::session::{Session, nanos};
use crate::splitting::{
    LOOK_EVERY_DEFAULT, SPLIT_AFTER_DEFAULT, SPLIT_AFTER_MAX, Splits, WHOLE_AFTER_DEFAULT,
};
use crate::table::{Granularity, Index, Leases, TableCore, TableOptions, TableRef, TypePair};
use crate::transaction::{ReadTransaction, Transaction};
use crate::typed::Table;
use noonmark_core::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering};
use noonmark_core::{Epochs, Host, SlotId, Slots, Threads, Timestamp, WaitFor, WaitingRoom, room_for};
use std::any::TypeId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How many sessions a database has if it is not told otherwise.
pub const SESSIONS_DEFAULT: usize = 124;
/// The protocol of a table for which nobody has chosen one.
const PROTOCOL_DEFAULT: Protocol = Protocol::Occ;
/// How many sessions a database can have.
pub const SESSIONS_MAX: usize = 1024;

/// How often a rule that answers *busy* is asked again, unless told otherwise. With two or more cores the holder is
/// usually done within tens of turns; if it has lost its core, the turns that yield give it back.
pub const BUSY_TURNS_DEFAULT: u32 = 256;

/// How often somebody who stands in line is passed, unless the builder says otherwise.
pub const PASSES_MAX_DEFAULT: u32 = noonmark_core::room::PASSES_MAX;

/// Under shuttle few transactions run: reclaim often enough to be seen.
const RECLAIM_FROM_DEFAULT: usize = if cfg!(shuttle) { 1 } else { 32 };
const UNSETTLED: u32 = 0;
const MOMENTARY: u32 = 1;
const LOGICAL: u32 = 2;
const BEGINNING: u32 = 3;
const SNAPSHOT: u32 = 4;

/// An order, or none yet, as a number.
fn number(order: Option<Order>) -> u32 {
    match order {
        None => UNSETTLED,
        Some(Order::Momentary) => MOMENTARY,
        Some(Order::Logical) => LOGICAL,
        Some(Order::Beginning) => BEGINNING,
        Some(Order::Snapshot) => SNAPSHOT,
    }
}

fn order_of(number: u32) -> Option<Order> {
    match number {
        MOMENTARY => Some(Order::Momentary),
        LOGICAL => Some(Order::Logical),
        BEGINNING => Some(Order::Beginning),
        SNAPSHOT => Some(Order::Snapshot),
        _ => None,
    }
}

/// What all sessions of a database share.
pub(crate) struct Shared<H: Host> {
    /// Unlike that of any other database of the process, also of those that are gone: a table may
    /// outlive its database, and must not be taken for one of another that has its address.
    pub id: u64,
    pub host: H,
    /// How often a rule that answers *busy* is asked again.
    pub busy_turns_max: u32,
    pub slots: Slots,
    pub room: WaitingRoom,
    /// The ranges of commit times, by slot, for protocols that have them.
    pub ranges: Ranges,
    /// When transactions began, for protocols that keep versions.
    pub begin_times: BeginTimes,
    pub gate: Gate,
    pub conflicts: Conflicts,
    pub planted: Planted,
    /// From this many absent records on, a session tries to advance the epoch for their sake.
    pub reclaim_from: usize,
    /// So many conflicts over nothing but a row's timestamp split the row.
    pub split_after: u32,
    /// Every so many transactions a session looks at a row that is split.
    pub look_every: u64,
    /// A row that nobody has written for so long is made whole.
    pub whole_after_ns: u64,
    /// The rows that are split.
    pub splits: Splits,
    /// Dropped before the tables: what is freed then may be of a table.
    pub epochs: Epochs,
    /// Absent records that sessions left behind when they ended, or had too many of.
    reclaim: Mutex<VecDeque<(u64, TableRef, RecordPtr)>>,
    /// How many those are: changes under their lock, and is read by whoever ends a transaction.
    reclaim_waiting: AtomicUsize,
    catalog: Mutex<Catalog>,
    /// Held by whoever makes a secondary index.
    pub index_making: Mutex<()>,
    /// The order: see [`crate::order`]. Changes once, under the lock of the catalog.
    order: AtomicU32,
    has_ages: AtomicBool,
    /// Whether some table's transactions have [ranges of commit times](crate::range).
    has_ranges: AtomicBool,
    /// Whether the tables keep the versions that are replaced.
    keeps_versions: AtomicBool,
    /// Whether any of these: one look for those who begin.
    has_more_to_begin: AtomicBool,
    has_read_locks: AtomicBool,
    /// Whether there are tables in which the older waits for the younger without making it abort
    /// (wait-die), and others in which the younger waits for the older (wound-wait).
    waits_both_ways: AtomicBool,
    /// In logical order: the last commit time of a transaction that ran in a session of its own. The
    /// next such one is not before it, so that callers without a session have their order too.
    pub passing_floor: AtomicU64,
}

struct Catalog {
    tables: Vec<Arc<TableCore>>,
    /// What the builder asked for.
    order: Option<Order>,
}

impl<H: Host> Shared<H> {
    fn catalog(&self) -> impl std::ops::DerefMut<Target = Catalog> + '_ {
        self.catalog.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether some table's protocol has ages. Relaxed: a session that uses a new table has got it
    /// from whoever made it, and that came after this was set.
    #[inline(always)]
    pub(crate) fn has_ages(&self) -> bool {
        self.has_ages.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn has_ranges(&self) -> bool {
        self.has_ranges.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn keeps_versions(&self) -> bool {
        self.keeps_versions.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn has_more_to_begin(&self) -> bool {
        self.has_more_to_begin.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn has_read_locks(&self) -> bool {
        self.has_read_locks.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn waits_both_ways(&self) -> bool {
        self.waits_both_ways.load(Ordering::Relaxed)
    }

    /// The order, settled now if it is not yet.
    pub(crate) fn settle_order(&self) -> Order {
        match order_of(self.order.load(Ordering::Acquire)) {
            Some(order) => order,
            None => {
                let catalog = self.catalog();
                let all = |do_so: fn(Protocol) -> bool| {
                    !catalog.tables.is_empty() && catalog.tables.iter().all(|table| do_so(table.protocol))
                };
                let settled = number(Some(match catalog.order {
                    Some(order) => order,
                    None if all(Protocol::keeps_versions) => Order::Beginning,
                    None if all(Protocol::keeps_read_times) => Order::Logical,
                    None => Order::Momentary,
                }));
                // Under the lock, so that no table is made meanwhile; the first one decides.
                let _ = self.order.compare_exchange(UNSETTLED, settled, Ordering::AcqRel, Ordering::Acquire);
                drop(catalog);
                self.settle_order()
            }
        }
    }

    /// Takes a slot, if one is free.
    fn claim_slot(&self) -> Option<SlotId> {
        self.slots.claim(self.host.caller_hint())
    }

    /// Takes a slot; waits until one is free, but not beyond this time of the host's.
    fn wait_for_slot(&self, until_ns: Option<u64>) -> Option<SlotId> {
        if let Some(slot) = self.claim_slot() {
            return Some(slot);
        }
        let on = WaitFor::release_of(&self.slots);
        // Callers that wait for a slot have none; any number tells them apart.
        let ticket = SlotId::new(self.host.seed() as usize % SlotId::LIMIT).unwrap_or(SlotId::NOBODY);
        let mut claimed = None;
        while claimed.is_none() {
            let now_ns = self.host.now_ns();
            if until_ns.is_some_and(|until_ns| now_ns >= until_ns) {
                break;
            }
            // A second net: two callers may draw one ticket.
            let look_again_ns = now_ns.saturating_add(1_000_000);
            let wait_until_ns = until_ns.map_or(look_again_ns, |until_ns| until_ns.min(look_again_ns));
            claimed = self.host.block_on(Some(wait_until_ns), |waker| {
                self.room.register(on, ticket, waker);
                self.claim_slot().map_or(Poll::Pending, Poll::Ready)
            });
        }
        self.room.leave(on, ticket);
        claimed
    }

    pub(crate) fn return_slot(&self, slot: SlotId) {
        self.slots.get(slot).release();
        self.room.wake(WaitFor::release_of(&self.slots));
    }

    /// Whether there are absent records that are everybody's. Relaxed: somebody will see it soon.
    #[inline(always)]
    pub(crate) fn has_reclaim(&self) -> bool {
        self.reclaim_waiting.load(Ordering::Relaxed) > 0
    }

    /// Takes over the absent records of a session that ends, or has many; how many there are now.
    pub(crate) fn adopt_reclaim(&self, queue: &mut VecDeque<(u64, TableRef, RecordPtr)>) -> usize {
        let mut orphans = self.reclaim.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        orphans.append(queue);
        self.reclaim_waiting.store(orphans.len(), Ordering::Relaxed);
        orphans.len()
    }

    /// Gives at most so many of those absent records, the oldest, to another session.
    pub(crate) fn give_reclaim(&self, queue: &mut VecDeque<(u64, TableRef, RecordPtr)>, most: usize) {
        if let Ok(mut orphans) = self.reclaim.try_lock() {
            let count = most.min(orphans.len());
            // Before its own, which are younger: whoever goes through them ends at the first that is too young.
            for record in orphans.drain(..count).rev() {
                queue.push_front(record);
            }
            self.reclaim_waiting.store(orphans.len(), Ordering::Relaxed);
            if orphans.capacity() > room_for(orphans.len()) {
                let left = orphans.len();
                orphans.shrink_to(left);
            }
        }
    }
}

/// A database in memory.
///
/// A handle: clones are of the same database, which goes when its last handle, table and session has
/// gone. `Send` and `Sync`.
///
/// ```
/// use noonmark::{Abort, Database};
///
/// noonmark::column_group! {
///     #[derive(Clone, Debug)]
///     pub struct Account { pub balance: i64 }
/// }
///
/// let db = Database::in_memory();
/// let accounts = db.table::<u64, Account>("accounts")?;
/// db.transact(|tx| {
///     tx.insert(&accounts, 1, Account { balance: 100 })?;
///     tx.insert(&accounts, 2, Account { balance: 0 })
/// })?;
/// db.transact(|tx| {
///     tx.update(&accounts, 1, |a| a.balance -= 30)?;
///     tx.update(&accounts, 2, |a| a.balance += 30)
/// })?;
/// let total = db.transact(|tx| {
///     Ok(tx.need(&accounts, 1)?.balance + tx.need(&accounts, 2)?.balance)
/// })?;
/// assert_eq!(total, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Database<H: Host = Threads> {
    pub(crate) shared: Arc<Shared<H>>,
}

impl<H: Host> Clone for Database<H> {
    fn clone(&self) -> Self {
        Database { shared: self.shared.clone() }
    }
}

/// Why a table could not be made or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// There is a table of this name, with other types, or an index (`table.index`). Open it with those, or take another
    /// name.
    #[error("table {0:?} exists with other key or row types")]
    OtherTypes(String),
    /// There is a table of this name already. Open it with [`Database::table`].
    #[error("table {0:?} exists already")]
    Exists(String),
    /// A row has one to eight column groups.
    #[error("table {0:?} would have {1} column groups; a row has one to eight")]
    GroupCount(String, usize),
    /// The protocol cannot keep the order of the database: a logical one takes protocols that keep read times, one of
    /// beginnings takes `fixed`, and no other takes that. Make all tables before the first transaction, or choose the order
    /// when building the database.
    #[error(
        "table {0:?}: the database commits in {2} order (as its tables had it at the first transaction, or as it \
         was built), which {1} cannot keep"
    )]
    WrongOrder(String, Protocol, Order),
    /// A table whose protocol keeps versions (`fixed`) is in a database with such tables only.
    #[error("table {0:?}: {1} and {2} have no common order, so no database can have tables of both")]
    NoCommonOrder(String, Protocol, Protocol),
    /// Versions that are kept hang on their timestamps: choose fine or coarse ones, or another protocol.
    #[error("table {0:?}: the timestamps of {1} cannot split themselves")]
    NoSplitting(String, Protocol),
    /// A table has at most eight secondary indexes.
    #[error("table {0:?} has eight secondary indexes already")]
    TooManyIndexes(String),
    /// A secondary index must be made before the table has rows, or has had one put in that was rolled back.
    #[error("table {0:?} has rows already; make its indexes first")]
    NotEmpty(String),
    /// The table belongs to another database.
    #[error("table {0:?} belongs to another database")]
    ForeignTable(String),
}

/// Why a database could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Between 1 and [`SESSIONS_MAX`].
    #[error("a database has 1 to {SESSIONS_MAX} sessions, not {0}")]
    Sessions(usize),
}

/// As many sessions are in use as the database may have. End some, or allow more with
/// [`Builder::max_sessions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {0} sessions of the database are in use; end some, or allow more with Builder::max_sessions")]
pub struct TooManySessions(usize);

/// How to build a database.
#[derive(Debug)]
pub struct Builder<H: Host = Threads> {
    host: H,
    max_sessions: usize,
    busy_turns_max: u32,
    passes_max: u32,
    order: Option<Order>,
    planted: Planted,
    reclaim_from: usize,
    split_after: u32,
    look_every: u64,
    whole_after: Duration,
    read_frontier: bool,
    range_room: u64,
}

impl<H: Host> Builder<H> {
    /// Whether transactions that only read ([`Session::view`](crate::Session::view), [`Policy::reads_only`](crate::Policy::reads_only))
    /// spare tables of `dynamic` their marks: they read at the *frontier*, a time below which nothing commits any more, and raise it
    /// where what they have read is younger. Off unless asked for: where most transactions only read, they are faster, and more attempts fail
    /// than with marks. In databases in [logical](Order::Logical) order; elsewhere there are no marks to spare.
    pub fn read_frontier(mut self, has_one: bool) -> Self {
        self.read_frontier = has_one;
        self
    }

    /// Under `ranges` and `dynamic`: so many ticks of logical time are left to a transaction that must come before another, where neither's
    /// range of commit times has an end; the default is [`RANGE_ROOM_DEFAULT`]. The more, the more of what others commit before that it can
    /// still read; the fewer, the more must follow each other who come after. At most 2^32.
    pub fn range_room(mut self, ticks: u64) -> Self {
        self.range_room = ticks.min(1 << 32);
        self
    }

    /// Breaks the database on purpose.
    #[cfg(feature = "planted-bugs")]
    #[doc(hidden)]
    pub fn plant(mut self, bug: crate::planted::Bug) -> Self {
        self.planted = Planted::some(bug);
        self
    }

    /// How many sessions there can be at the same time, 1 to [`SESSIONS_MAX`]; the default is
    /// [`SESSIONS_DEFAULT`]. Each takes about 1 KiB, and 62 of them a word in every cell of tables
    /// whose readers lock.
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// From how many deleted rows on a session tries, between its transactions, to take them out of their indexes; the
    /// default is 32. One makes it happen as often as it can, which tests want.
    pub fn reclaim_from(mut self, rows: usize) -> Self {
        self.reclaim_from = rows.max(1);
        self
    }

    /// In a table with [splitting](Granularity::Splitting) timestamps, a row is split once there have been so many conflicts over it of
    /// transactions that wanted different column groups. From 1 to 500; 4 unless told otherwise.
    pub fn split_after(mut self, conflicts: u32) -> Self {
        self.split_after = conflicts.clamp(1, SPLIT_AFTER_MAX);
        self
    }

    /// Every so many transactions a session looks at one of the rows that are split, and makes it whole if nobody has
    /// written it [for a while](Builder::whole_after). At least 1; 1024 unless told otherwise.
    pub fn look_at_splits_every(mut self, transactions: u64) -> Self {
        self.look_every = transactions.max(1);
        self
    }

    /// A row that is split is made whole once nobody has written it for so long, as far as a [look](Builder::look_at_splits_every) tells:
    /// 100 milliseconds unless told otherwise.
    pub fn whole_after(mut self, unwritten: Duration) -> Self {
        self.whole_after = unwritten;
        self
    }

    /// How often an attempt that finds another in the midst of its commit looks again before it gives up; the default is
    /// [`BUSY_TURNS_DEFAULT`]. Where threads are many and back off anyway, fewer turns may waste less time.
    pub fn busy_turns_max(mut self, turns: u32) -> Self {
        self.busy_turns_max = turns;
        self
    }

    /// How often what a transaction stands in line for may be taken by others who come in before it has woken; from then on it is handed
    /// to whoever is oldest in line, and lies idle until he has woken. The default is [`PASSES_MAX_DEFAULT`]. Fewer bound the tail, where threads are more
    /// than cores, at the cost of throughput; with 0 what is let go is always handed over.
    ///
    /// It is of the protocols under which transactions wait: two-phase locking but for no-wait, `swiss`, `sundial` and `ranges`.
    pub fn passes_max(mut self, passes: u32) -> Self {
        self.passes_max = passes;
        self
    }

    /// The order, instead of what follows from the tables (see [`crate::order`]). A database that is told
    /// to be in logical order takes only tables whose protocols keep read times.
    pub fn order(mut self, order: Order) -> Self {
        self.order = Some(order);
        self
    }

    /// Another host.
    pub fn host<G: Host>(self, host: G) -> Builder<G> {
        Builder {
            host,
            max_sessions: self.max_sessions,
            busy_turns_max: self.busy_turns_max,
            passes_max: self.passes_max,
            order: self.order,
            planted: self.planted,
            reclaim_from: self.reclaim_from,
            split_after: self.split_after,
            look_every: self.look_every,
            whole_after: self.whole_after,
            read_frontier: self.read_frontier,
            range_room: self.range_room,
        }
    }

    /// Builds it.
    ///
    /// # Errors
    /// [`BuildError::Sessions`] if the number of sessions is out of range.
    pub fn build(self) -> Result<Database<H>, BuildError> {
        if !(1..=SESSIONS_MAX).contains(&self.max_sessions) {
            return Err(BuildError::Sessions(self.max_sessions));
        }
        let slots = self.max_sessions;
        // Also for who begins before there is a table.
        let keeps_versions = matches!(self.order, Some(Order::Beginning | Order::Snapshot));
        Ok(Database {
            shared: Arc::new(Shared {
                id: next_id(),
                planted: self.planted,
                reclaim_from: self.reclaim_from,
                split_after: self.split_after,
                look_every: self.look_every,
                whole_after_ns: u64::try_from(self.whole_after.as_nanos()).unwrap_or(u64::MAX),
                splits: Splits::default(),
                host: self.host,
                busy_turns_max: self.busy_turns_max,
                slots: Slots::new(slots),
                room: WaitingRoom::with_passes_max(self.passes_max),
                ranges: Ranges::new(slots, self.read_frontier, self.range_room),
                begin_times: BeginTimes::new(slots),
                gate: Gate::default(),
                conflicts: Conflicts::new(slots),
                epochs: Epochs::new(slots),
                reclaim: Mutex::new(VecDeque::new()),
                reclaim_waiting: AtomicUsize::new(0),
                index_making: Mutex::new(()),
                catalog: Mutex::new(Catalog { tables: Vec::new(), order: self.order }),
                order: AtomicU32::new(number(self.order)),
                has_ages: AtomicBool::new(false),
                has_ranges: AtomicBool::new(false),
                keeps_versions: AtomicBool::new(keeps_versions),
                has_more_to_begin: AtomicBool::new(keeps_versions),
                has_read_locks: AtomicBool::new(false),
                waits_both_ways: AtomicBool::new(false),
                passing_floor: AtomicU64::new(0),
            }),
        })
    }
}

impl Database {
    /// An empty database with the defaults.
    pub fn in_memory() -> Self {
        match Self::builder().build() {
            Ok(database) => database,
            Err(_) => unreachable!("the defaults are in range"),
        }
    }

    /// To build one with other settings.
    pub fn builder() -> Builder {
        Builder {
            host: Threads::default(),
            max_sessions: SESSIONS_DEFAULT,
            busy_turns_max: BUSY_TURNS_DEFAULT,
            passes_max: PASSES_MAX_DEFAULT,
            order: None,
            planted: Planted::default(),
            reclaim_from: RECLAIM_FROM_DEFAULT,
            split_after: SPLIT_AFTER_DEFAULT,
            look_every: LOOK_EVERY_DEFAULT,
            whole_after: WHOLE_AFTER_DEFAULT,
            read_frontier: false,
            range_room: RANGE_ROOM_DEFAULT,
        }
    }
}

impl<H: Host> Database<H> {
    /// Opens a table, or makes it with the default options.
    ///
    /// # Errors
    /// [`SchemaError`] if it exists with other types, or cannot be made.
    pub fn table<K: Key, R: Row>(&self, name: &str) -> Result<Table<K, R>, SchemaError> {
        let types = TypePair { key: TypeId::of::<K>(), row: TypeId::of::<R>() };
        let found = self.shared.catalog().tables.iter().find(|t| t.info.name == name).cloned();
        match found {
            Some(core) if core.types == types => Ok(Table::new(core)),
            Some(_) => Err(SchemaError::OtherTypes(name.to_owned())),
            None => match self.create_table(name, TableOptions::default()) {
                // Somebody was faster.
                Err(SchemaError::Exists(_)) => self.table(name),
                made => made,
            },
        }
    }

    /// Makes a table.
    ///
    /// # Errors
    /// [`SchemaError`] if there is one of this name, or if it cannot be made.
    pub fn create_table<K: Key, R: Row>(
        &self,
        name: &str,
        options: TableOptions,
    ) -> Result<Table<K, R>, SchemaError> {
        let info = TableInfo {
            name: name.to_owned(),
            groups: R::names(),
            coarse: options.granularity == Granularity::Coarse,
            show_key: show_key::<K>,
        };
        let types = TypePair { key: TypeId::of::<K>(), row: TypeId::of::<R>() };
        self.add_table(info, types, R::SIZES, K::FIXED_BYTES, &options).map(Table::new)
    }

    pub(crate) fn add_table(
        &self,
        info: TableInfo,
        types: TypePair,
        sizes: &'static [crate::group::Size],
        key_bytes: Option<usize>,
        options: &TableOptions,
    ) -> Result<Arc<TableCore>, SchemaError> {
        let cells = match options.granularity {
            Granularity::Coarse => Cells::One,
            Granularity::Fine if options.apart => Cells::Apart,
            Granularity::Fine | Granularity::Splitting => Cells::Each,
        };
        let splitting = options.granularity == Granularity::Splitting && sizes.len() > 1;
        let name = info.name.clone();
        if !(1..=crate::group::GROUPS_MAX).contains(&sizes.len()) {
            return Err(SchemaError::GroupCount(name, sizes.len()));
        }
        let shared = &*self.shared;
        let mut catalog = shared.catalog();
        if catalog.tables.iter().any(|t| t.info.name == name) {
            return Err(SchemaError::Exists(name));
        }
        let protocol = options.protocol.unwrap_or(PROTOCOL_DEFAULT);
        if protocol.keeps_versions() && options.granularity == Granularity::Splitting {
            return Err(SchemaError::NoSplitting(name, protocol));
        }
        let fits = |order| match order {
            Order::Momentary => !protocol.keeps_versions(),
            Order::Logical => protocol.keeps_read_times(),
            Order::Beginning | Order::Snapshot => protocol.keeps_versions(),
        };
        if let Some(order) = order_of(shared.order.load(Ordering::Relaxed))
            && !fits(order)
        {
            return Err(SchemaError::WrongOrder(name, protocol, order));
        }
        if let Some(other) =
            catalog.tables.iter().find(|table| table.protocol.keeps_versions() != protocol.keeps_versions())
        {
            return Err(SchemaError::NoCommonOrder(name, protocol, other.protocol));
        }
        if protocol.has_ages() {
            shared.has_ages.store(true, Ordering::Relaxed);
        }
        if protocol.has_ranges() {
            shared.has_ranges.store(true, Ordering::Relaxed);
        }
        if protocol.keeps_versions() {
            shared.keeps_versions.store(true, Ordering::Relaxed);
        }
        if protocol.has_ages() || protocol.has_ranges() || protocol.keeps_versions() {
            shared.has_more_to_begin.store(true, Ordering::Relaxed);
        }
        if protocol.locks_reads() {
            shared.has_read_locks.store(true, Ordering::Relaxed);
        }
        let some = |does: fn(Protocol) -> bool| {
            does(protocol) || catalog.tables.iter().any(|table| does(table.protocol))
        };
        shared.room.call_the_oldest_first(some(Protocol::younger_waits) || !some(Protocol::older_waits));
        if some(Protocol::older_waits) && some(Protocol::younger_waits) {
            shared.waits_both_ways.store(true, Ordering::Relaxed);
        }
        let leases = if protocol.has_leases() { options.leases } else { Leases::default() };
        let aux_words = protocol.aux_words(shared.slots.count()) + leases.words();
        let (mut layout, split) = match splitting {
            true => {
                let (whole, split) = Layout::new_splitting(sizes, aux_words, key_bytes);
                (whole, Some(Box::new(split)))
            }
            false => (Layout::new(sizes, cells, aux_words, key_bytes), None),
        };
        if protocol.keeps_versions() {
            layout = layout.keeping_versions(aux_words);
        }
        let core = Arc::new(TableCore {
            id: u32::try_from(catalog.tables.len()).unwrap_or(u32::MAX),
            database: self.shared.id,
            info: Arc::new(info),
            types,
            protocol,
            kind: options.index,
            granularity: options.granularity,
            sizes,
            index: Index::new(options.index, key_bytes, &layout, options.expected_rows),
            layout,
            split,
            aux_words,
            leases,
            secondaries: Default::default(),
            populated: AtomicBool::new(false),
        });
        catalog.tables.push(core.clone());
        Ok(core)
    }

    /// A session: for a thread, or a client, that runs many transactions.
    ///
    /// # Errors
    /// [`TooManySessions`] if as many are in use as the database may have.
    pub fn session(&self) -> Result<Session<H>, TooManySessions> {
        match self.shared.claim_slot() {
            Some(slot) => Ok(Session::new(Context::new(self.shared.clone(), slot))),
            None => Err(TooManySessions(self.shared.slots.count())),
        }
    }

    /// Runs a transaction until it commits, in a session of its own; see [`Session::transact`].
    ///
    /// Waits while as many sessions are in use as the database may have: for ever, if all of them are the caller's
    /// own. Taking a session for each transaction costs some 100 ns and forgets the buffers: keep a [`Session`] where
    /// that matters.
    ///
    /// # Errors
    /// As [`Session::transact`].
    pub fn transact<T>(
        &self,
        body: impl FnMut(&mut Transaction<'_, H>) -> Result<T, Abort>,
    ) -> Result<T, Abort> {
        self.transact_with(&Policy::default(), body)
    }

    /// As [`Database::transact`], with a policy. Its deadline holds for the wait for a session, too.
    ///
    /// # Errors
    /// As [`Session::transact_with`]; and an [`Abort`] of kind [`TooManySessions`](AbortKind::TooManySessions) if the
    /// deadline has passed before a session was free.
    pub fn transact_with<T>(
        &self,
        policy: &Policy,
        body: impl FnMut(&mut Transaction<'_, H>) -> Result<T, Abort>,
    ) -> Result<T, Abort> {
        let (mut session, policy) = self.passing_session(policy)?;
        session.transact_with(&policy, body)
    }

    /// Runs a transaction whose body has errors of its own; see [`Session::try_transact`].
    ///
    /// # Errors
    /// As [`Session::try_transact`].
    pub fn try_transact<T, E: From<Abort>>(
        &self,
        body: impl FnMut(&mut Transaction<'_, H>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.try_transact_with(&Policy::default(), body)
    }

    /// As [`Database::try_transact`], with a policy; see [`Database::transact_with`].
    ///
    /// # Errors
    /// As [`Session::try_transact_with`] and [`Database::transact_with`].
    pub fn try_transact_with<T, E: From<Abort>>(
        &self,
        policy: &Policy,
        body: impl FnMut(&mut Transaction<'_, H>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (mut session, policy) = self.passing_session(policy)?;
        session.try_transact_with(&policy, body)
    }

    /// Runs a transaction that only reads; see [`Session::view`].
    ///
    /// # Errors
    /// As [`Session::transact`].
    pub fn view<T>(
        &self,
        mut body: impl FnMut(&mut ReadTransaction<'_, '_, H>) -> Result<T, Abort>,
    ) -> Result<T, Abort> {
        self.transact(|tx| body(&mut ReadTransaction::new(tx)))
    }

    /// A session for one transaction, and what the wait for it has left of the policy.
    fn passing_session(&self, policy: &Policy) -> Result<(Session<H>, Policy), Abort> {
        let shared = &self.shared;
        let deadline_ns =
            policy.deadline.map(|deadline| shared.host.now_ns().saturating_add(nanos(deadline)));
        let slot = shared.wait_for_slot(deadline_ns).ok_or(TooManySessions(shared.slots.count()))?;
        let mut context = Context::new(shared.clone(), slot);
        // Acquire: whoever finishes before this begins is ordered before it.
        context.floor = Timestamp::new(shared.passing_floor.load(Ordering::Acquire));
        let deadline =
            deadline_ns.map(|at_ns| Duration::from_nanos(at_ns.saturating_sub(shared.host.now_ns())));
        Ok((Session::passing(context), Policy { deadline, ..policy.clone() }))
    }

    /// The order in which the database's transactions are serialized; `None` before the first one
    /// begins, unless the builder has said.
    pub fn order(&self) -> Option<Order> {
        order_of(self.shared.order.load(Ordering::Acquire))
    }

    /// The conflicts since the database was made.
    pub fn conflicts(&self) -> ConflictReport {
        self.shared.conflicts.report()
    }

    /// How many rows of tables with [splitting](Granularity::Splitting) timestamps are split, about.
    pub fn split_rows(&self) -> usize {
        self.shared.splits.count()
    }

    /// The host that it runs on.
    pub fn host(&self) -> &H {
        &self.shared.host
    }
}

impl<H: Host> std::fmt::Debug for Database<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tables: Vec<String> = self.shared.catalog().tables.iter().map(|t| t.info.name.clone()).collect();
        f.debug_struct("Database").field("tables", &tables).field("order", &self.order()).finish()
    }
}

/// A number for a database. The standard library's atomic: no transaction has a part in it.
fn next_id() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // Relaxed: only distinctness matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A key as its type shows it.
pub(crate) fn show_key<K: Key>(bytes: &[u8]) -> String {
    match K::read(bytes) {
        Some(key) => format!("{key:?}"),
        // A scan from the beginning that found nothing has no key to name.
        None if bytes.is_empty() => String::new(),
        None => format!("{bytes:02x?}"),
    }
}

impl From<TooManySessions> for Abort {
    fn from(_: TooManySessions) -> Self {
        Abort::plain(AbortKind::TooManySessions)
    }
}
