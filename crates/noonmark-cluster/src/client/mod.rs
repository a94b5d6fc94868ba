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

mod attempts;
mod copies;
mod table;
mod transaction;
mod updates;
mod view;

pub use attempts::Begun;
pub use table::{Index, Table};
pub use transaction::Transaction;
pub use view::View;

use crate::begin_clock::BeginClock;
use crate::cache::Cache;
use crate::coordinator::{Coordinator, Event, Outgoing};
use crate::message::{Answer, AttemptId, ClientId, Refusal};
use crate::partition::PartitionMap;
use crate::phases::{Phase, PhaseTimes, Stopwatch};
use crate::planted::Planted;
use attempts::Tries;
use copies::Remote;
use noonmark::{AbortKind, Timestamp};
use std::collections::BTreeMap;
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
    /// And below so many round trips, as it has found them lately: from sending to its last answer, with what that was held back for. `None`:
    /// whatever messages take.
    pub backoff_round_trips: Option<u32>,
    /// After so many failed attempts the transaction is let through: each server that it comes to keeps out whoever begins something there
    /// later, until it has committed, or has been silent for as long as [anybody may be kept waiting](crate::cluster::Builder::wait_max). What has
    /// been begun there goes on, and may make it fail once more. Of several the oldest goes first. `None`: no escape; under protocols that lock
    /// late, and `sundial` for what is only read, a long transaction may then lose to short ones for ever.
    pub escape_after: Option<u32>,
}

/// Unless told otherwise, after a conflict a client waits for less than so many round trips. Measured with 16 clients of two workers that read one
/// and change one of ten rows: with none, `occ` has 3.9 attempts fail for each commit, with one round trip 1.5, with two 1.2, with four 1.0, with
/// eight 0.7 (`sundial` 2.0, 1.3, 1.0, 0.8, 0.6), and all commit as many as with any pause.
const BACKOFF_ROUND_TRIPS: u32 = 4;

impl Default for Policy {
    fn default() -> Self {
        Policy {
            attempts_max: None,
            backoff_max: Duration::from_millis(100),
            backoff_round_trips: Some(BACKOFF_ROUND_TRIPS),
            escape_after: Some(64),
        }
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
    /// What a round trip takes: of the last ones, the later the more. None has been made yet if it is zero.
    round_trip_ns: u64,
    watch: Stopwatch,
    /// Whether each attempt has an age of its own.
    new_ages: bool,
    /// Whether a commit ends when every server that is prepared knows of it.
    waits_until_told: bool,
    /// Commit-time updates are answered at once: of the last ones the row was not there.
    looks_first: bool,
    /// How many attempts of the transaction have failed as what they had read from copies was not current.
    misled: u32,
    planted: Planted,
}

/// A transaction of which so many attempts were misled by copies reads none from then on. What an attempt puts into an index, and takes back as it
/// fails, makes copies of the nodes there stale. So whoever always reuses copies might have made those stale, each time, that the next attempt
/// reads, and never get on, though nobody else is there. (Others seldom come to so many, as copies are dropped that are found to be stale: where all are
/// reused, and a tenth of the accesses to hot rows are writes, it costs a hundredth of the commits; where reuse is voted on, none.)
const MISLED_MAX: u32 = 8;

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
            round_trip_ns: 0,
            watch: Stopwatch::default(),
            new_ages: false,
            waits_until_told: false,
            looks_first: false,
            misled: 0,
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

    /// The same; whether every participant that keeps others out is [asked](Coordinator::with_everybody_asked) to prepare.
    pub fn with_everybody_asked(self, asks_everybody: bool) -> Self {
        Client { coordinator: self.coordinator.with_everybody_asked(asks_everybody), ..self }
    }

    /// The same; whether a transaction that has committed goes on to be under way until every server that is prepared has answered that it knows, as the
    /// paper's does [Sundial §3.3, Figure 3]. It costs a round trip for all but those who write at one server only, and nothing is gained by it: what
    /// is decided, and not installed yet, others wait for either way.
    pub fn with_told_commits(self, waits_until_told: bool) -> Self {
        Client { waits_until_told, ..self }
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

    /// From here on, it is not shown anything from before this time either: a time that [`Client::floor`] has answered to another client of this
    /// cluster, so that what that one has seen or done is seen here.
    ///
    /// Not one that is made up. What is read at a time may be written after it only, so a read in a far future keeps all writers from that row
    /// until they have come as far; and no time comes after [`Timestamp::MAX`].
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
        let mut begun = self.new_transaction();
        self.transact_on(&mut begun, body).await
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
        let mut begun = self.new_transaction();
        let mut tries = Tries::of(self, &mut begun);
        loop {
            let mut view = View(tries.begin());
            let answer = body(&mut view).await;
            let failed = view.0.failed.take();
            if let Some(answer) = tries.conclude(answer, failed).await {
                return answer;
            }
        }
    }

    /// The same as [`Client::transact`], of a transaction that may have been tried before: it was given up then
    /// ([`Policy::attempts_max`], which counts the attempts of one call), to be run again when others have been. It keeps its age, and what it has learnt of copies.
    ///
    /// # Errors
    /// As [`Client::transact`].
    ///
    /// ```
    /// # use noonmark::TableOptions;
    /// # use noonmark_cluster::{Cluster, ClusterAbort, Partitioning, Policy, block_on};
    /// let cluster = Cluster::builder().workers(2).build()?;
    /// let by_key = Partitioning::Hash { prefix_bytes: 8 };
    /// let accounts = cluster.create_table::<u64, i64>("accounts", TableOptions::new(), by_key)?;
    /// let mut client = cluster.client()?;
    /// client.set_policy(Policy { attempts_max: Some(1), ..Policy::default() });
    /// let mut opening = client.new_transaction();
    /// loop {
    ///     match block_on(client.transact_on(&mut opening, async |tx| tx.insert(&accounts, 1, 100).await)) {
    ///         // Others may be run meanwhile.
    ///         Err(abort @ ClusterAbort::Attempts(..)) if abort.is_retryable() => {}
    ///         ended => break assert!(ended?),
    ///     }
    /// }
    /// assert!(opening.attempts() >= 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn transact_on<T, E: From<ClusterAbort>>(
        &mut self,
        begun: &mut Begun,
        mut body: impl AsyncFnMut(&mut Transaction<'_, L>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut tries = Tries::of(self, begun);
        loop {
            let mut tx = tries.begin();
            let answer = body(&mut tx).await;
            let failed = tx.failed.take();
            if let Some(answer) = tries.conclude(answer, failed).await {
                return answer;
            }
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

    /// Waits until every server that is prepared knows how this attempt has ended; or nothing more will come, which changes nothing of that.
    async fn wait_until_told(&mut self, attempt: AttemptId) {
        while self.coordinator.is_in_doubt(attempt) && self.step().await != Err(ClusterAbort::Closed) {}
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

    /// What was sent then has been answered.
    fn learn_round_trip(&mut self, sent_ns: u64) {
        let took_ns = self.link.now_ns().saturating_sub(sent_ns);
        self.round_trip_ns = match self.round_trip_ns {
            0 => took_ns,
            before_ns => before_ns - before_ns / 8 + took_ns / 8,
        };
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
        let came = self.wait(event).await?;
        if self.round_trip_ns == 0 {
            // A commit may take several; but nothing better is known of who has only written.
            self.learn_round_trip(now_ns);
        }
        match came {
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
        self.misled = self.misled.saturating_add(u32::from(!refusal.stale.is_empty()));
        if let Some(cache) = &self.cache {
            refusal.stale.iter().for_each(|(table, key)| cache.drop_stale(refusal.server, *table, key));
        }
        ClusterAbort::Refused(Box::new(refusal))
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
