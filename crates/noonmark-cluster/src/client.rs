//! Transactions as clients write them: async closures over typed tables.
//!
//! ```text
//! client.transact(async |tx| {
//!     let from = tx.need(&accounts, &alice).await?;
//!     tx.update(&accounts, &alice, |account| account.balance -= 5).await?;
//!     tx.update(&accounts, &bob, |account| account.balance += 5).await
//! })
//! ```
//!
//! A [`Client`] drives a [`Coordinator`] over a [`Link`]: it sends what the coordinator asks for, and gives it what comes, until that
//! tells what became of the operation. What a transaction writes after it has read it stays here until the next message to its
//! server, and goes along with that.
//!
//! Clients of a server may share a [cache](crate::cache) of other servers' rows. What a transaction has read is then answered out of what it
//! has seen before, if it asks for it again.
//!
//! A row that is only added to need not be read: see [`Transaction::add`], and `client/updates.rs`.
//!
//! What it does not do: run two operations of one transaction at the same time, unless they are asked for together
//! ([`Transaction::get_many`]).

mod updates;

use crate::begin_clock::BeginClock;
use crate::cache::{Cache, Copy, Look, Place, RangeCopy};
use crate::coordinator::{Coordinator, CopyRead, Event, Outgoing};
use crate::message::{Answer, AttemptId, ClientId, Operation, Outcome, Purpose, Refusal, TableLease};
use crate::partition::{PartitionMap, ServerId, TableId};
use crate::phases::{Phase, PhaseTimes, Stopwatch};
use crate::planted::{Bug, Planted};
use noonmark::branch::{KeptScan, Lease, Node, Values, entry_bounds};
use noonmark::{AbortKind, Age, AsKey, Group, Key, KeyBytes, Row, RowWriter, SlotId, Timestamp};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

/// How a client's messages go.
pub trait Link {
    /// Sends. Whether it arrives is another matter.
    fn send(&mut self, outgoing: Outgoing);

    /// The next answer, if one comes before it is `until_ns`, of this link's time.
    fn receive(&mut self, until_ns: Option<u64>) -> impl Future<Output = Received>;

    /// The time, in nanoseconds since whatever all links of a cluster count from.
    fn now_ns(&self) -> u64;

    /// A random number.
    fn random(&mut self) -> u64;

    /// An attempt has ended, committed or not: for who counts what was sent for it.
    fn ended(&mut self, _attempt: AttemptId, _committed: bool) {}

    /// Whether it may send while its client's futures are dropped, perhaps because somebody panics. If so, a transaction that is given up
    /// like that is rolled back at once; otherwise when the client begins the next one, or is told to [settle](Client::settle).
    fn sends_when_dropped(&self) -> bool {
        false
    }
}

/// What has come over a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// An answer.
    Answer(Answer),
    /// None, until the time that was given.
    Nothing,
    /// None, nor will any.
    Closed,
}

/// A table of a cluster: a handle.
#[derive(Debug)]
pub struct Table<K, R> {
    id: TableId,
    groups: Range<usize>,
    types: PhantomData<fn() -> (K, R)>,
}

impl<K, R> Clone for Table<K, R> {
    fn clone(&self) -> Self {
        Table { id: self.id, groups: self.groups.clone(), types: PhantomData }
    }
}

impl<K: Key, R: Row> Table<K, R> {
    /// The table of this number, which was made with these types at every server.
    pub fn new(id: TableId) -> Self {
        Table { id, groups: 0..R::SIZES.len(), types: PhantomData }
    }

    /// One of its column groups.
    pub fn group<const N: usize>(&self) -> Table<K, R::Group>
    where
        R: noonmark::HasGroup<N>,
    {
        Table { id: self.id, groups: self.groups.start + N..self.groups.start + N + 1, types: PhantomData }
    }

    /// Its number.
    pub fn id(&self) -> TableId {
        self.id
    }
}

/// A secondary index of a table of a cluster: a handle. The servers keep it, each for the rows that it has.
#[derive(Debug)]
pub struct Index<S, K> {
    id: TableId,
    types: PhantomData<fn() -> (S, K)>,
}

impl<S, K> Clone for Index<S, K> {
    fn clone(&self) -> Self {
        Index { id: self.id, types: PhantomData }
    }
}

impl<S: Key, K: Key> Index<S, K> {
    /// The index whose entries are the table of this number, and was made with these types at every server.
    pub fn new(id: TableId) -> Self {
        Index { id, types: PhantomData }
    }
}

/// Why a transaction, or an operation of one, failed. Nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterAbort {
    /// A server ended it.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The row that was to be read or changed is not there.
    #[error("there is no such row ({0}); nothing was applied")]
    Missing(String),
    /// What came of an operation is not what was asked for: the tables of the cluster are not of the types that the client takes
    /// them to be.
    #[error("a row is not of the type that its table was opened with; nothing was applied")]
    Types,
    /// The transaction went on after one of its operations had failed, or had been given up: its future was dropped before it had ended, or a
    /// closure that it was given has panicked.
    #[error(
        "the transaction went on after one of its operations had failed or been given up; nothing was applied"
    )]
    Continued,
    /// There is no way to the servers any more. Whether a transaction that was about to commit has, is not known.
    #[error("the link to the servers is closed; if the transaction was committing, its outcome is not known")]
    Closed,
    /// All attempts that the policy allows have met conflicts; the last one is told.
    #[error("{0}; no attempts are left ({1} were made)")]
    Attempts(Box<Refusal>, u32),
}

impl ClusterAbort {
    /// Whether the same transaction may succeed if it is tried again as it is.
    pub fn is_retryable(&self) -> bool {
        match self {
            ClusterAbort::Refused(refusal) => {
                matches!(refusal.kind, AbortKind::Conflict | AbortKind::TooManySessions | AbortKind::Deadline)
            }
            ClusterAbort::Attempts(..) => true,
            _ => false,
        }
    }

    /// What a server has refused, if one has, in its parts: which server, what kind of abort, table, key, column group, rule and
    /// the other side.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            ClusterAbort::Refused(refusal) | ClusterAbort::Attempts(refusal, _) => Some(refusal),
            _ => None,
        }
    }

    /// The rule that refused; empty if it was no conflict.
    pub fn rule(&self) -> &str {
        self.refusal().map_or("", |refusal| &refusal.rule)
    }
}

/// How often a transaction is tried.
#[derive(Clone, Debug)]
pub struct Policy {
    /// So many attempts at most; no limit if none.
    pub attempts_max: Option<u32>,
    /// After a conflict the client waits for a random time below this.
    pub backoff_max: Duration,
    /// After so many failed attempts the transaction is let through: each server that it comes to keeps out whoever begins something there
    /// later, until it has committed, or has been silent for as long as [anybody may be kept waiting](crate::cluster::Builder::wait_max). What has
    /// been begun there goes on, and may make it fail once more. Of several the oldest goes first. `None`: no escape; under protocols that lock
    /// late, and `sundial` for what is only read, a long transaction may then lose to short ones for ever.
    pub escape_after: Option<u32>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { attempts_max: None, backoff_max: Duration::from_micros(500), escape_after: Some(64) }
    }
}

/// What a client has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that committed.
    pub commits: u64,
    /// Attempts that ended in a conflict.
    pub aborts: u64,
    /// Transactions that ended in an error of their own.
    pub rollbacks: u64,
    /// Messages sent, those that were sent again included.
    pub messages: u64,
}

/// Runs transactions, one after another.
pub struct Client<L> {
    coordinator: Coordinator,
    map: Arc<PartitionMap>,
    link: L,
    policy: Policy,
    counts: Counts,
    cache: Option<Arc<Cache>>,
    clock: Option<Arc<BeginClock>>,
    /// What the transaction that runs has read and written of other servers' rows, if there is a cache.
    remote: Remote,
    /// The attempt that runs, or was the last one.
    attempt: AttemptId,
    watch: Stopwatch,
    /// Whether each attempt has an age of its own.
    new_ages: bool,
    /// Commit-time updates are answered at once: of the last ones the row was not there.
    looks_first: bool,
    planted: Planted,
}

/// What a transaction has done with other servers' rows.
#[derive(Default)]
struct Remote {
    /// Read, and not written since.
    seen: Vec<(Place, Values)>,
    /// Written; with the new values, if the row is there and they are known. Each row is there once: of one that was written group by
    /// group, no values are known.
    written: Vec<(Place, Option<Values>)>,
}

impl Remote {
    fn has_written(&self, place: &Place) -> bool {
        self.written.iter().any(|(written, _)| written.table == place.table && written.key == place.key)
    }

    /// Whether a row has been written that an index node has no record for.
    fn has_put_into(&self, server: ServerId, table: TableId, node: &Node) -> bool {
        let is_put_in = |written: &Place| {
            (written.server, written.table) == (server, table) && node.excludes(&written.key)
        };
        self.written.iter().any(|(written, _)| is_put_in(written))
    }

    fn write(&mut self, place: Place, values: Option<Values>) {
        self.seen.retain(|(seen, _)| (seen.table, &seen.key) != (place.table, &place.key));
        let same_row =
            |(written, _): &&mut (Place, _)| (written.table, &written.key) == (place.table, &place.key);
        match self.written.iter_mut().find(same_row) {
            Some((written, before)) => *before = values.filter(|_| written.groups == place.groups),
            None => self.written.push((place, values)),
        }
    }
}

/// A scan of one server's rows.
struct RangeScan<'a> {
    server: ServerId,
    table: TableId,
    bounds: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    groups: &'a Range<usize>,
    reverse: bool,
    limit: usize,
}

/// How to come by what is to be read.
enum Way {
    /// Here it is, or it is known that there is none.
    Have(Option<Values>),
    /// By asking for it.
    Ask(Purpose, Option<Copy>),
}

impl<L: Link> Client<L> {
    /// A client that has run nothing yet.
    pub fn new(id: ClientId, map: Arc<PartitionMap>, link: L) -> Self {
        Client {
            coordinator: Coordinator::new(id),
            map,
            link,
            policy: Policy::default(),
            counts: Counts::default(),
            cache: None,
            clock: None,
            remote: Remote::default(),
            attempt: AttemptId { client: id, sequence: 0 },
            watch: Stopwatch::default(),
            new_ages: false,
            looks_first: false,
            planted: Planted::default(),
        }
    }

    /// The same; how its transactions are tried.
    pub fn with_policy(self, policy: Policy) -> Self {
        Client { policy, ..self }
    }

    /// The same; with copies of other servers' rows, which the clients of one server share.
    pub fn with_cache(self, cache: Arc<Cache>) -> Self {
        Client { cache: Some(cache), ..self }
    }

    /// The same; its transactions begin by this clock, which all clients of one server share: they take place no earlier, or, in the
    /// [order of beginnings](noonmark::Order::Beginning), where every client must have one, exactly then.
    pub fn with_clock(self, clock: Arc<BeginClock>) -> Self {
        Client { clock: Some(clock), ..self }
    }

    /// The same; after how long a message is sent again that has not been answered.
    pub fn with_resend_after(self, resend_after_ns: u64) -> Self {
        Client { coordinator: self.coordinator.with_resend_after(resend_after_ns), ..self }
    }

    /// The same; whether each attempt of a transaction has an age of its own. Unless told so, all have the first one's: whoever fails again and
    /// again is some time the oldest.
    pub fn with_new_ages(self, new_ages: bool) -> Self {
        Client { new_ages, ..self }
    }

    /// The same, perhaps broken on purpose.
    #[doc(hidden)]
    pub fn planted(self, planted: Planted) -> Self {
        Client { coordinator: self.coordinator.planted(planted), planted, ..self }
    }

    /// From here on, its transactions are tried like this.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Its name.
    pub fn id(&self) -> ClientId {
        self.coordinator.client()
    }

    /// How often a rule of its own coordinator has refused something, by the rule, since this was last asked.
    pub fn take_refusals(&mut self) -> BTreeMap<String, u64> {
        self.coordinator.take_refusals()
    }

    /// What the time of its transactions went into that have ended since this was last asked.
    pub fn take_times(&mut self) -> PhaseTimes {
        self.watch.take()
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Its last commit time: it is not shown anything from before.
    pub fn floor(&self) -> Timestamp {
        self.coordinator.floor()
    }

    /// From here on, it is not shown anything from before this time either.
    pub fn raise_floor(&mut self, floor: Timestamp) {
        self.coordinator.raise_floor(floor);
    }

    /// Its way to the servers.
    pub fn link(&mut self) -> &mut L {
        &mut self.link
    }

    /// Runs a transaction until it commits, again after each conflict. The closure's errors end it, and undo it. They are
    /// answered once it is certain that what was read could have been committed; at once if an operation has failed for good, or was given
    /// up. A panic in the closure, or in one that an operation was given, undoes it, too, and goes on to whoever has polled.
    ///
    /// In an attempt that will not commit the closure may see values that no committed state had together, as on one
    /// engine.
    ///
    /// # Errors
    /// What the closure answers; or a [`ClusterAbort`] that no retry mends, or once the policy allows no more attempts.
    pub async fn transact<T, E: From<ClusterAbort>>(
        &mut self,
        body: impl AsyncFnMut(&mut Transaction<'_, L>) -> Result<T, E>,
    ) -> Result<T, E> {
        let age = self.new_age();
        self.transact_aged(age, body).await
    }

    /// Runs a transaction that only reads, as [`Client::transact`] does: it is serializable with those that write, and may be run again.
    /// Servers at which a transaction has only read take part in its commit as far as the protocol needs it.
    ///
    /// # Errors
    /// As [`Client::transact`].
    pub async fn view<T, E: From<ClusterAbort>>(
        &mut self,
        mut body: impl AsyncFnMut(&mut View<'_, L>) -> Result<T, E>,
    ) -> Result<T, E> {
        let age = self.new_age();
        let mut tries = Tries::of(self, age);
        loop {
            let mut view = View(tries.begin());
            let answer = body(&mut view).await;
            let failed = view.0.failed.take();
            if let Some(answer) = tries.conclude(answer, failed).await {
                return answer;
            }
        }
    }

    /// The age of a transaction that begins now.
    pub fn new_age(&self) -> Age {
        let client = self.coordinator.client();
        let number = usize::from(client.server.number()) * 64 + usize::from(client.worker);
        // (Two may be of one age. To rules neither is the older one then; to servers, who say who waits, the client's number counts.)
        let slot = SlotId::new(number % SlotId::LIMIT).unwrap_or(SlotId::NOBODY);
        Age::new(self.link.now_ns(), slot)
    }

    /// The same as [`Client::transact`], of a transaction that has begun before: it has been given up since
    /// ([`Policy::attempts_max`]), to be run again when others have been.
    ///
    /// # Errors
    /// As [`Client::transact`].
    pub async fn transact_aged<T, E: From<ClusterAbort>>(
        &mut self,
        age: Age,
        mut body: impl AsyncFnMut(&mut Transaction<'_, L>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut tries = Tries::of(self, age);
        loop {
            let mut tx = tries.begin();
            let answer = body(&mut tx).await;
            let failed = tx.failed.take();
            if let Some(answer) = tries.conclude(answer, failed).await {
                return answer;
            }
        }
    }

    /// Commits what has succeeded, and answers what the closure has; or tells what the attempt has failed by.
    async fn end_attempt<T, E>(
        &mut self,
        answer: Result<T, E>,
        failed: Option<ClusterAbort>,
    ) -> Result<Result<T, E>, ClusterAbort> {
        match (answer, failed) {
            (Ok(value), None) => {
                let at = self.finish(Coordinator::commit).await?;
                self.write_copies(at);
                self.attempt_ends(true, false);
                self.looks_first = false;
                self.counts.commits += 1;
                Ok(Ok(value))
            }
            // What went wrong first is what counts, if it was a conflict.
            (_, Some(abort)) if abort.is_retryable() => Err(abort),
            (Ok(_), Some(abort)) => Err(abort),
            // Nothing is left that could be validated.
            (Err(error), Some(_)) => {
                self.abort();
                self.attempt_ends(false, false);
                Ok(Err(error))
            }
            // It may rest on what was read: so it is told only if that could have been committed.
            (Err(error), None) => {
                self.finish(Coordinator::rehearse).await?;
                self.attempt_ends(false, false);
                self.looks_first = false;
                self.counts.rollbacks += 1;
                Ok(Err(error))
            }
        }
    }

    fn begin(&mut self, age: Age) -> Transaction<'_, L> {
        let mut out = Vec::new();
        let now_ns = self.link.now_ns();
        if let Some(clock) = &self.clock {
            self.coordinator.raise_floor(clock.draw(now_ns, self.coordinator.floor()));
        }
        self.attempt = self.coordinator.begin(now_ns, age, &mut out);
        self.watch.enter(now_ns, Phase::Execution);
        self.send(out);
        self.remote = Remote::default();
        Transaction { client: self, failed: None }
    }

    fn attempt_ends(&mut self, committed: bool, pauses: bool) {
        self.watch.end(self.link.now_ns(), committed, pauses);
        self.link.ended(self.attempt, committed);
    }

    async fn back_off(&mut self) {
        let longest_ns = u64::try_from(self.policy.backoff_max.as_nanos()).unwrap_or(u64::MAX);
        if longest_ns > 0 {
            let until_ns = self.link.now_ns().saturating_add(self.link.random() % longest_ns);
            self.pause_until(until_ns).await;
        }
    }

    /// Pauses until then, seeing to what comes meanwhile.
    pub async fn pause_until(&mut self, until_ns: u64) {
        while self.link.now_ns() < until_ns {
            let received = self.link.receive(Some(until_ns)).await;
            if received == Received::Closed {
                return;
            }
            self.take(received);
        }
    }

    /// Sees to it that every server knows how this client's transactions have ended.
    pub async fn settle(&mut self) {
        self.abort();
        self.let_others_in();
        while self.coordinator.has_endings() && self.step().await != Err(ClusterAbort::Closed) {}
    }

    fn send(&mut self, out: Vec<Outgoing>) {
        self.counts.messages += out.len() as u64;
        out.into_iter().for_each(|outgoing| self.link.send(outgoing));
    }

    fn let_others_in(&mut self) {
        let mut out = Vec::new();
        self.coordinator.let_others_in(self.link.now_ns(), &mut out);
        self.send(out);
    }

    fn abort(&mut self) {
        let mut out = Vec::new();
        self.coordinator.abort(self.link.now_ns(), &mut out);
        self.send(out);
    }

    /// Gives the coordinator what has come, or the time.
    fn take(&mut self, received: Received) -> Option<Event> {
        let (now_ns, mut out) = (self.link.now_ns(), Vec::new());
        let event = match received {
            Received::Answer(answer) => self.coordinator.receive(now_ns, answer, &mut out),
            Received::Nothing | Received::Closed => None,
        };
        if let Some(Event::Committed(_)) = event {
            self.watch.enter(now_ns, Phase::Commit);
        }
        if self.coordinator.wants_time_at_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.coordinator.tick(now_ns, &mut out);
        }
        self.send(out);
        event
    }

    /// Waits for the next answer, or until something must be sent again.
    async fn step(&mut self) -> Result<Option<Event>, ClusterAbort> {
        let until_ns = self.coordinator.wants_time_at_ns();
        match self.link.receive(until_ns).await {
            Received::Closed => Err(ClusterAbort::Closed),
            received => Ok(self.take(received)),
        }
    }

    async fn wait(&mut self, mut event: Option<Event>) -> Result<Event, ClusterAbort> {
        loop {
            match event {
                Some(event) => return Ok(event),
                None => event = self.step().await?,
            }
        }
    }

    /// Commits, or rehearses it.
    async fn finish(
        &mut self,
        finish: fn(&mut Coordinator, u64, &mut Vec<Outgoing>) -> Option<Event>,
    ) -> Result<Timestamp, ClusterAbort> {
        let (now_ns, mut out) = (self.link.now_ns(), Vec::new());
        let event = finish(&mut self.coordinator, now_ns, &mut out);
        self.watch.enter(now_ns, if event.is_some() { Phase::Commit } else { Phase::Prepare });
        self.send(out);
        match self.wait(event).await? {
            Event::Committed(at) => {
                self.learn_from_commit(at);
                Ok(at)
            }
            Event::Aborted(refusal) => Err(self.refused(refusal)),
            Event::Operated(_) => Err(ClusterAbort::Continued),
        }
    }

    fn refused(&mut self, refusal: Refusal) -> ClusterAbort {
        self.looks_first |= refusal.is_lost_row();
        if let Some(cache) = &self.cache {
            refusal.stale.iter().for_each(|(table, key)| cache.drop_stale(refusal.server, *table, key));
        }
        ClusterAbort::Refused(Box::new(refusal))
    }

    /// What has been said of whole tables: for those of the last answers.
    fn learn_of_tables(&mut self) -> Vec<(ServerId, TableId, TableLease)> {
        let tables = self.coordinator.take_tables();
        if let Some(cache) = &self.cache {
            tables.iter().for_each(|(server, table, lease)| cache.extend_table(*server, *table, *lease));
        }
        tables
    }

    /// Copies that were looked at hold until the commit time. (What the transaction has written itself held until before it, and what it
    /// has written takes its place.)
    fn learn_from_commit(&mut self, at: Timestamp) {
        self.learn_of_tables();
        let renewed = self.coordinator.take_renewed();
        let Some(cache) = &self.cache else { return };
        for (CopyRead { place, lease, node }, table) in renewed {
            match node {
                Some(node) if !self.remote.has_put_into(place.server, place.table, &node) => {
                    cache.renew_node(place.server, place.table, &node, at);
                }
                None if !self.remote.has_written(&place) => cache.renew(&place, &lease.written, at, table),
                _ => {}
            }
        }
    }

    /// What the transaction, which has committed, has written is in the copies, too.
    fn write_copies(&mut self, at: Timestamp) {
        let Some(cache) = &self.cache else { return };
        for (place, values) in self.remote.written.drain(..) {
            match values {
                Some(values) => cache.write(&place, values, at),
                None => {
                    cache.remove(place.table, &place.key);
                    cache.remove_node(place.server, place.table, &place.key);
                }
            }
        }
    }

    /// Where a row is asked for.
    fn place(&self, table: TableId, key: &[u8], groups: &Range<usize>) -> Place {
        let server = self.map.reader(table, key, self.coordinator.client().server);
        Place { server, table, key: key.to_vec(), groups: groups.clone() }
    }

    /// How to come by what is there.
    fn way(&mut self, place: &Place) -> Way {
        let Some(cache) = self.cache.as_ref().filter(|_| place.server != self.coordinator.client().server)
        else {
            return Way::Ask(Purpose::Read, None);
        };
        if let Some((_, values)) = self.remote.seen.iter().find(|(seen, _)| seen == place) {
            return Way::Have(Some(values.clone()));
        }
        if self.remote.has_written(place) {
            return Way::Ask(Purpose::Read, None);
        }
        match cache.look(place) {
            Look::Reuse(Copy { values, lease }) => {
                self.read_copy(place, &values, lease);
                Way::Have(Some(values))
            }
            Look::Request(copy) => Way::Ask(Purpose::Confirm(copy.lease.written.clone()), Some(copy)),
            Look::Miss => match cache.look_absent(place) {
                Some(node) if !self.remote.has_put_into(place.server, place.table, &node) => {
                    self.coordinator.read_copy(CopyRead::of_node(place.server, place.table, node));
                    Way::Have(None)
                }
                _ => Way::Ask(Purpose::Keep, None),
            },
        }
    }

    /// A row is read out of a copy.
    fn read_copy(&mut self, place: &Place, values: &Values, lease: Lease) {
        self.coordinator.read_copy(CopyRead { place: place.clone(), lease, node: None });
        self.remote.seen.push((place.clone(), values.clone()));
    }

    /// The rows of a range at another server, out of copies, if there are copies of all of it.
    fn look_range(&mut self, scan: &RangeScan<'_>) -> Option<Vec<(Vec<u8>, Values)>> {
        let RangeScan { server, table, bounds, groups, reverse, limit } = *scan;
        let cache = self.cache.as_ref()?;
        // What the transaction itself has written, its server knows.
        let has_written =
            self.remote.written.iter().any(|(place, _)| (place.server, place.table) == (server, table));
        if has_written {
            return None;
        }
        let RangeCopy { nodes, rows } = cache.look_range((server, table), bounds, groups, reverse, limit)?;
        for node in nodes {
            self.coordinator.read_copy(CopyRead::of_node(server, table, node));
        }
        let read = |(place, Copy { values, lease }): (Place, Copy)| {
            let seen =
                self.remote.seen.iter().find(|(seen, _)| *seen == place).map(|(_, values)| values.clone());
            let values = seen.unwrap_or_else(|| {
                self.read_copy(&place, &values, lease);
                values
            });
            (place.key, values)
        };
        Some(rows.into_iter().map(read).collect())
    }

    /// The rows of a range, as its server has told them, perhaps to be kept.
    fn take_range(&mut self, scan: &RangeScan<'_>, outcome: Outcome) -> Option<Vec<(Vec<u8>, Values)>> {
        let KeptScan { rows, nodes } = match outcome {
            Outcome::Rows(rows) => return Some(rows),
            Outcome::Kept(kept) => kept,
            _ => return None,
        };
        let (server, table) = (scan.server, scan.table);
        let cache = self.cache.clone();
        if let Some(cache) = &cache {
            nodes.into_iter().for_each(|node| cache.keep_node(server, table, node));
        }
        let keep = |(key, values, lease): (Vec<u8>, Values, Option<Lease>)| {
            if let (Some(cache), Some(lease)) = (&cache, lease) {
                let place = Place { server, table, key: key.clone(), groups: scan.groups.clone() };
                cache.keep(&place, Copy { values: values.clone(), lease }, None, None);
            }
            (key, values)
        };
        Some(rows.into_iter().map(keep).collect())
    }

    /// What was read, whether it was told or is as in the copy.
    fn take_read(
        &mut self,
        place: Place,
        had: Option<Copy>,
        outcome: Outcome,
        tables: &[(ServerId, TableId, TableLease)],
    ) -> Outcome {
        let (values, lease, had) = match (outcome, had) {
            (Outcome::Copy(values, lease), had) => (values, lease, had.map(|_| false)),
            (Outcome::Current(lease), Some(had)) => (had.values, Some(lease), Some(true)),
            (Outcome::Absent(node), had) => {
                if let Some(cache) = &self.cache {
                    if had.is_some() {
                        cache.drop_stale(place.server, place.table, &place.key);
                    }
                    cache.keep_node(place.server, place.table, node);
                }
                return Outcome::Row(None);
            }
            (Outcome::Row(None), Some(_)) => {
                if let Some(cache) = &self.cache {
                    cache.drop_stale(place.server, place.table, &place.key);
                }
                return Outcome::Row(None);
            }
            (outcome, _) => return outcome,
        };
        if let (Some(cache), Some(lease)) = (&self.cache, lease) {
            let of_table = |(server, table, _): &&(ServerId, TableId, TableLease)| {
                (*server, *table) == (place.server, place.table)
            };
            let table = tables.iter().find(of_table).map(|(.., lease)| *lease);
            cache.keep(&place, Copy { values: values.clone(), lease }, table, had);
            self.remote.seen.push((place, values.clone()));
        }
        Outcome::Row(Some(values))
    }
}

impl<L> std::fmt::Debug for Client<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.coordinator.client())
            .field("counts", &self.counts)
            .finish()
    }
}

/// A transaction that is tried until it has ended. If this is dropped before, by a panic or with the future that has it, whatever the transaction
/// has locked is let go of at once, if the link [sends then](Link::sends_when_dropped).
struct Tries<'c, L: Link> {
    client: &'c mut Client<L>,
    age: Age,
    /// Attempts so far.
    count: u32,
}

impl<'c, L: Link> Tries<'c, L> {
    fn of(client: &'c mut Client<L>, age: Age) -> Self {
        // (If the future of the one before was dropped, that may have been let through to its end.)
        client.let_others_in();
        Tries { client, age, count: 0 }
    }

    /// The next attempt begins.
    fn begin(&mut self) -> Transaction<'_, L> {
        self.count = self.count.saturating_add(1);
        let has_age_of_its_own = self.client.new_ages && self.count > 1;
        let age = if has_age_of_its_own { self.client.new_age() } else { self.age };
        let escapes = self.client.policy.escape_after.is_some_and(|after| self.count > after);
        let tx = self.client.begin(age);
        if escapes {
            tx.client.coordinator.let_through();
        }
        tx
    }

    /// What became of the transaction with this attempt, whose closure has answered this, and of whose operations this was the first to
    /// fail; none if it is to be tried again.
    async fn conclude<T, E: From<ClusterAbort>>(
        &mut self,
        answer: Result<T, E>,
        failed: Option<ClusterAbort>,
    ) -> Option<Result<T, E>> {
        let ended = match self.client.end_attempt(answer, failed).await {
            Ok(answer) => Some(answer),
            Err(error) => self.fail(error).map(|error| Err(error.into())),
        };
        match ended {
            Some(_) => self.client.let_others_in(),
            None => self.client.back_off().await,
        }
        ended
    }

    /// The attempt has failed by this. What the transaction fails by, unless it is to be tried again.
    fn fail(&mut self, error: ClusterAbort) -> Option<ClusterAbort> {
        let is_last = self.client.policy.attempts_max.is_some_and(|max| self.count >= max);
        self.client.abort();
        self.client.attempt_ends(false, error.is_retryable() && !is_last);
        if !error.is_retryable() {
            return Some(error);
        }
        self.client.counts.aborts += 1;
        match error {
            ClusterAbort::Refused(refusal) if is_last => Some(ClusterAbort::Attempts(refusal, self.count)),
            error => is_last.then_some(error),
        }
    }
}

impl<L: Link> Drop for Tries<'_, L> {
    fn drop(&mut self) {
        if self.client.link.sends_when_dropped() {
            self.client.abort();
            self.client.let_others_in();
        }
    }
}

/// A transaction that runs. See the [module](self).
#[derive(Debug)]
pub struct Transaction<'c, L> {
    client: &'c mut Client<L>,
    /// The first thing that went wrong: the attempt has ended with it.
    failed: Option<ClusterAbort>,
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
        client.coordinator.operate(client.link.now_ns(), operations, &mut out);
        client.send(out);
        match client.wait(None).await {
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
    /// As [`Transaction::need`].
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
        self.enter_closures();
        let mut places = places.into_iter().map(|(place, _)| place);
        let mut changed: BTreeMap<Vec<u8>, Values> = BTreeMap::new();
        for (index, ((key, is_changed), count)) in keys.iter().zip(counts).enumerate() {
            let key = KeyBytes::of(key);
            let mut of_key: Vec<Outcome> = outcomes.by_ref().take(count).collect();
            if let Some(values) = changed.get(key.as_slice()) {
                of_key = vec![Outcome::Row(Some(values.clone()))];
            }
            let Some(mut row) = self.one_row::<R>(of_key)? else {
                self.leave_closures();
                return Err(missing::<K>(key.as_slice()));
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
    fn note_write(&mut self, place: Place, values: Option<Values>) {
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

    async fn update_by_key<K: Key, R: Row>(
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
    async fn change(&mut self, operation: Operation) -> Result<bool, ClusterAbort> {
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

/// A transaction that only reads: see [`Client::view`].
///
/// ```
/// use noonmark::TableOptions;
/// use noonmark_cluster::{Cluster, ClusterAbort, Partitioning, block_on};
///
/// let cluster = Cluster::builder().workers(2).build()?;
/// let by_key = Partitioning::Hash { prefix_bytes: 8 };
/// let stock = cluster.create_table::<u64, i64>("stock", TableOptions::new(), by_key)?;
/// block_on(cluster.transact(async |tx| {
///     tx.insert(&stock, 1, 3).await?;
///     tx.insert(&stock, 2, 4).await
/// }))?;
/// let both = block_on(cluster.view(async |tx| {
///     Ok::<_, ClusterAbort>(tx.get_many(&stock, &[1, 2]).await?.into_iter().flatten().sum::<i64>())
/// }))?;
/// assert_eq!(both, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct View<'c, L>(Transaction<'c, L>);

impl<L: Link> View<'_, L> {
    /// As [`Transaction::get`].
    ///
    /// # Errors
    /// As there.
    pub async fn get<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
    ) -> Result<Option<R>, ClusterAbort> {
        self.0.get(table, key).await
    }

    /// As [`Transaction::need`].
    ///
    /// # Errors
    /// As there.
    pub async fn need<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
    ) -> Result<R, ClusterAbort> {
        self.0.need(table, key).await
    }

    /// As [`Transaction::get_many`].
    ///
    /// # Errors
    /// As there.
    pub async fn get_many<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        keys: &[K],
    ) -> Result<Vec<Option<R>>, ClusterAbort> {
        self.0.get_many(table, keys).await
    }

    /// As [`Transaction::range`].
    ///
    /// # Errors
    /// As there.
    pub async fn range<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        keys: impl RangeBounds<K>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(K, R)>, ClusterAbort> {
        self.0.range(table, keys, reverse, limit).await
    }

    /// As [`Transaction::range_by`].
    ///
    /// # Errors
    /// As there.
    pub async fn range_by<S: Key, K: Key>(
        &mut self,
        index: &Index<S, K>,
        keys: impl RangeBounds<S>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(S, K)>, ClusterAbort> {
        self.0.range_by(index, keys, reverse, limit).await
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

fn missing<K: Key>(key: &[u8]) -> ClusterAbort {
    ClusterAbort::Missing(K::read(key).map_or_else(|| format!("{key:?}"), |key| format!("{key:?}")))
}
