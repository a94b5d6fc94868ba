//! A coordinator: carries one transaction after another from operation to operation, and through the commit.
//!
//! A state machine. What its client wants goes in, and the answers, and the time; requests come out, and what became of what the
//! client wanted. It has no clock, no randomness and no channel.
//!
//! # The commit
//!
//! From what each participant has said it [stands](Standing) for, the coordinator knows the earliest commit time, `at`, and who must be
//! asked before the transaction can commit then.
//!
//! 1. *Seal*, only if validation may not come before everything is locked everywhere ([`Standing::locks_late`],
//!    [`Standing::only_looks`]), or if somebody would let go of what he has locked to read before a write is locked: the participants with
//!    writes lock them, and say from when on they may be written. What the client has written last goes along with this message, or the next
//!    one; if its participant has not heard of it ([`Coordinator::defer_unannounced`]), or if it changes entries of an index
//!    ([`Coordinator::defer`]), it is locked as late as that.
//! 2. *Prepare*, at `at`: those with writes, those whose reads do not hold until then, those who lock their reads now. One that says
//!    *later* raises `at`, and all who must be asked are asked again: what has been validated at one time says nothing of a later one.
//! 3. *Decide*. If all have said yes, it has committed, and the client is told. Those who are prepared are told, again and again until
//!    they answer; meanwhile the client may go on.
//!
//! Where transactions have ranges of commit times, a participant does not agree to one time, but to a range, which it has frozen. The
//! transaction commits at the earliest that is in all of them, and aborts if there is none [Sundial §5.2]. `at` goes along with the question: so
//! the ranges begin at the time that is known to be possible everywhere, and may be narrow.
//!
//! With the first of these messages goes along whether anything that they ask for could be another's ([`Request::is_past_waiting`]): if not,
//! everybody may wait for how it ends.
//!
//! If there is but one participant that must be asked, and all others hold until `at`, its answer decides: one round. If nobody must be
//! asked, the transaction has committed without a word (a read-only one, all of whose leases last).
//!
//! # Reads out of copies
//!
//! What the client has read out of a [copy](crate::cache) instead of asking for it ([`Coordinator::read_copy`]) binds the commit time as
//! any other read does, and holds until the end of its lease. If the transaction commits later than that, the row's server looks whether the
//! version is current, with the message in which it prepares or commits. Whoever writes a row that was read out of a copy has that looked
//! at first: he would overwrite what he has not seen.
//!
//! # When a message is lost
//!
//! Whatever has not been answered for a while is sent again, each time after a longer while ([`Coordinator::with_resend_after`]). A participant carries each request out once.
//!
//! What it does not do: choose when to retry, or how long to back off; come back after a crash.

use crate::cache::Place;
use crate::message::{
    Answer, Ask, AttemptId, ClientId, Decision, Operation, Outcome, Refusal, Reply, Request, Step,
    StepOutcome, TableLease, Work,
};
use crate::partition::{ServerId, TableId};
use crate::planted::{Bug, Planted};
use noonmark::branch::{Lease, Node, Standing};
use noonmark::{Age, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Unless told otherwise, what has not been answered for so long is sent again.
pub const RESEND_AFTER_DEFAULT_NS: u64 = 20_000_000;

/// What became of what the client wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// What came of each operation, in the order in which they were given.
    Operated(Vec<Outcome>),
    /// The transaction has committed at this time.
    Committed(Timestamp),
    /// It has not, and nothing of it was applied.
    Aborted(Refusal),
}

/// A request, and whom it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Whom.
    pub to: ServerId,
    /// What.
    pub request: Request,
}

/// Column groups of a row, or an index node, that were read out of a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyRead {
    /// Which; of a node, where it begins.
    pub place: Place,
    /// Their versions, and until when they hold for all that is known.
    pub lease: Lease,
    /// The node, if it is one.
    pub node: Option<Arc<Node>>,
}

impl CopyRead {
    /// Of an index node of a server.
    pub fn of_node(server: ServerId, table: TableId, node: Arc<Node>) -> Self {
        let place = Place { server, table, key: node.lower.clone(), groups: 0..0 };
        let lease = Lease { written: vec![node.since], until: node.until };
        CopyRead { place, lease, node: Some(node) }
    }

    /// Whether it cannot be said to hold at this time without a look.
    fn ends_before(&self, at: Timestamp, planted: Planted) -> bool {
        self.lease.until < at && !(self.node.is_some() && planted.is(Bug::NodeUsedPastItsLease))
    }

    /// Whether an operation would change what was read.
    fn is_changed_by(&self, operation: &Operation) -> bool {
        if !operation.writes() || operation.table() != self.place.table {
            return false;
        }
        match (&self.node, operation) {
            (Some(node), Operation::Insert { key, .. }) => node.covers(key),
            (Some(_), _) => false,
            (None, operation) => operation.key() == Some(&self.place.key),
        }
    }
}

/// One of them, to the transaction that runs.
struct Copied {
    read: CopyRead,
    /// The number of the request in which the participant was asked to look whether it is current, if it was. From then on it is a read
    /// of the participant's.
    checked_by: Option<u32>,
    /// What held for the whole table when it was current.
    table: Option<TableLease>,
}

/// A participant, to the transaction that runs.
struct Part {
    /// What it last said that it stands for.
    standing: Option<Standing>,
    /// It has agreed to all commit times from the earliest that it stands for to the latest.
    has_frozen: bool,
    /// The number of the last request to it.
    number: u32,
    /// That it has not answered it.
    unanswered: Option<Unanswered>,
    /// Writes that go along with the next request to it.
    deferred: Vec<Operation>,
    /// Some of those change entries of an index, which are not locked before.
    defers_entries: bool,
    /// The participant has not heard of some of them, and its standing does not say that they are locked late.
    has_unannounced: bool,
    /// How many operations of the last request the client has not asked for: those, and looks at copies.
    went_along: usize,
    /// What was read out of copies of its rows.
    copies: Vec<Copied>,
    /// Has ended.
    is_over: bool,
}

/// When something was sent last.
#[derive(Clone, Copy)]
struct Sent {
    at_ns: u64,
    /// How often it has been sent again.
    again: u32,
}

impl Sent {
    fn first(at_ns: u64) -> Self {
        Sent { at_ns, again: 0 }
    }

    /// When it is to be sent again: each time after twice as long, so that what is only slow is not buried in what is sent again.
    fn late_at_ns(self, resend_after_ns: u64) -> u64 {
        let waits_ns = resend_after_ns.saturating_mul(1 << self.again.min(RESEND_DOUBLINGS_MAX));
        self.at_ns.saturating_add(waits_ns)
    }

    /// Says so, if it is as late as that.
    fn sends_again(&mut self, now_ns: u64, resend_after_ns: u64) -> bool {
        let is_late = self.late_at_ns(resend_after_ns) <= now_ns;
        if is_late {
            *self = Sent { at_ns: now_ns, again: self.again.saturating_add(1) };
        }
        is_late
    }
}

/// How often the time doubles after which something is sent again.
const RESEND_DOUBLINGS_MAX: u32 = 6;

struct Unanswered {
    sent: Sent,
    /// What was asked, unless nothing is ever sent again.
    again: Option<Request>,
}

/// What the transaction that runs is waiting for.
enum Phase {
    /// For its client.
    Idle,
    /// For operations: where in each participant's answer the outcome of each is.
    Operating { places: Vec<(ServerId, usize)>, outcomes: BTreeMap<ServerId, Vec<Outcome>> },
    /// For everything to be sealed.
    Sealing,
    /// For everybody who was asked to agree to this commit time.
    Preparing { at: Timestamp },
}

struct Running {
    id: AttemptId,
    age: Age,
    parts: BTreeMap<ServerId, Part>,
    phase: Phase,
    /// It only wants to know whether it could commit.
    is_rehearsal: bool,
    /// It commits, and no message of its commit asks for anything that another may have.
    is_past_waiting: bool,
    /// It [is let through](Request::escapes).
    escapes: bool,
    /// What is not answered is sent again some time.
    sends_again: bool,
    /// How many were asked whether they agree to the commit time that is being tried, and how many have said yes.
    asked: usize,
    votes: usize,
    planted: Planted,
}

/// A participant that has not said yet that it knows of the end.
struct Ending {
    to: ServerId,
    request: Request,
    /// It has agreed, and has not been told of the end.
    is_prepared: bool,
    sent: Sent,
}

/// Carries one client's transactions.
pub struct Coordinator {
    client: ClientId,
    sequence: u64,
    floor: Timestamp,
    /// There has been an attempt for which no commit time was left, and none has committed since.
    found_no_time: bool,
    /// That of the last attempt.
    last_age: Option<Age>,
    running: Option<Running>,
    /// **Invariant**: at most one for each attempt and participant.
    endings: Vec<Ending>,
    /// Where others are kept out for the transaction whose attempts were run last.
    keep_out: BTreeSet<ServerId>,
    /// What whole tables hold until, as told with the answers since somebody asked.
    tables: Vec<(ServerId, TableId, TableLease)>,
    /// What the last transaction read out of copies, and had looked at.
    renewed: Vec<(CopyRead, Option<TableLease>)>,
    /// How often a rule of its own has refused something, by the rule, since somebody asked.
    refusals: BTreeMap<String, u64>,
    resend_after_ns: u64,
    asks_everybody: bool,
    planted: Planted,
}

impl Coordinator {
    /// That of a client which has not run anything yet.
    pub fn new(client: ClientId) -> Self {
        Coordinator {
            client,
            sequence: 0,
            floor: Timestamp::ZERO,
            found_no_time: false,
            last_age: None,
            running: None,
            endings: Vec::new(),
            keep_out: BTreeSet::new(),
            tables: Vec::new(),
            renewed: Vec::new(),
            refusals: BTreeMap::new(),
            resend_after_ns: RESEND_AFTER_DEFAULT_NS,
            asks_everybody: false,
            planted: Planted::default(),
        }
    }

    /// The same, perhaps broken on purpose.
    #[doc(hidden)]
    pub fn planted(self, planted: Planted) -> Self {
        Coordinator { planted, ..self }
    }

    /// The same; after how long a request is sent again, which is twice as long each time after the first, up to 64 times as long. Never, if that is
    /// `u64::MAX`.
    pub fn with_resend_after(self, resend_after_ns: u64) -> Self {
        Coordinator { resend_after_ns, ..self }
    }

    /// The same; whether every participant that keeps others out is asked to prepare, though it could have no objection, as two-phase commit has it in print
    /// [Sundial §3.3]. It costs a round trip, and nothing is gained by it but that locks for reading are let go of with the vote. (One that keeps
    /// nobody out is asked in print, too, only if what was read there may not hold: under `sundial`, if a lease ends before the commit time
    /// [Sundial §3.3.2].)
    pub fn with_everybody_asked(self, asks_everybody: bool) -> Self {
        Coordinator { asks_everybody, ..self }
    }

    /// Whose it is.
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// The client's last commit time: it will not be shown anything from before.
    pub fn floor(&self) -> Timestamp {
        self.floor
    }

    /// From here on, the client is not shown anything from before this time either, which is another client's floor, and not made up: see
    /// [`Client::raise_floor`](crate::Client::raise_floor).
    pub fn raise_floor(&mut self, floor: Timestamp) {
        self.floor = self.floor.max(floor);
    }

    /// Whether a participant has still to be told how some transaction has ended.
    pub fn has_endings(&self) -> bool {
        !self.endings.is_empty()
    }

    /// Whether a participant that is prepared has still to say that it knows how this attempt has ended. (One that was never asked whether it agrees
    /// has only something to let go of.)
    pub fn is_in_doubt(&self, attempt: AttemptId) -> bool {
        self.endings.iter().any(|ending| ending.is_prepared && ending.request.attempt == attempt)
    }

    /// Begins an attempt of a transaction of this age. One that runs is aborted.
    ///
    /// In the order of [beginnings](noonmark::Order::Beginning), it takes place at the [floor](Coordinator::raise_floor): that must have been
    /// raised to a time that no other attempt of any client has.
    pub fn begin(&mut self, now_ns: u64, age: Age, out: &mut Vec<Outgoing>) -> AttemptId {
        self.abort(now_ns, out);
        let is_again = self.planted.is(Bug::SameId) && self.last_age == Some(age);
        self.sequence += u64::from(!is_again);
        self.last_age = Some(age);
        let id = AttemptId { client: self.client, sequence: self.sequence };
        let (parts, phase) = (BTreeMap::new(), Phase::Idle);
        let sends_again = self.resend_after_ns < u64::MAX;
        let (is_rehearsal, is_past_waiting, escapes) = (false, false, false);
        let (asked, votes, planted) = (0, 0, self.planted);
        self.running = Some(Running {
            id,
            age,
            parts,
            phase,
            is_rehearsal,
            is_past_waiting,
            escapes,
            sends_again,
            asked,
            votes,
            planted,
        });
        (self.tables, self.renewed) = (Vec::new(), Vec::new());
        id
    }

    /// The attempt that runs [is let through](Request::escapes).
    pub fn let_through(&mut self) {
        if let Some(running) = &mut self.running {
            running.escapes = true;
        }
    }

    /// The transaction is over that was let through, if one was: tells the servers that have kept others out for it.
    pub fn let_others_in(&mut self, now_ns: u64, out: &mut Vec<Outgoing>) {
        let keep_out = std::mem::take(&mut self.keep_out);
        let Some(age) = self.last_age.filter(|_| !keep_out.is_empty()) else { return };
        // As the end of an attempt that has not been there: so each hears of it, whatever became of the attempts before.
        self.sequence += 1;
        let attempt = AttemptId { client: self.client, sequence: self.sequence };
        for to in keep_out {
            let request = Request {
                attempt,
                age,
                floor: self.floor,
                number: 1,
                is_past_waiting: true,
                escapes: false,
                ask: Ask::End(Decision::Abort),
            };
            out.push(Outgoing { to, request: request.clone() });
            self.endings.push(Ending { to, request, is_prepared: false, sent: Sent::first(now_ns) });
        }
    }

    /// Has a row written that has been read to be written. It goes along with the next request to its server. The row is locked already, if
    /// its protocol locks early. Not so the entries that the row has in secondary indexes: `changes_entries` says whether it will have others.
    pub fn defer(&mut self, server: ServerId, write: Operation, changes_entries: bool) {
        if let Some(part) = self.running.as_mut().and_then(|running| running.parts.get_mut(&server)) {
            part.deferred.push(write);
            part.defers_entries |= changes_entries;
        }
    }

    /// Has a row written, or updated, that has not been read to be written, if it has been read. It goes along with the next request to its
    /// server, which does not know of it before.
    pub fn defer_unannounced(&mut self, server: ServerId, write: Operation) {
        if let Some(running) = &mut self.running {
            let part = running.part(server);
            part.deferred.push(write);
            part.has_unannounced = !self.planted.is(Bug::UnannouncedTakenForLocked);
        }
    }

    /// Notes that the transaction has read something out of a copy.
    pub fn read_copy(&mut self, read: CopyRead) {
        if let Some(running) = &mut self.running {
            running.part(read.place.server).copies.push(Copied { read, checked_by: None, table: None });
        }
    }

    /// What whole tables of servers hold until, as the answers have told since this was last asked.
    pub fn take_tables(&mut self) -> Vec<(ServerId, TableId, TableLease)> {
        std::mem::take(&mut self.tables)
    }

    /// What the last transaction, which has committed, had read out of copies, and had looked at: it holds until its commit time. With
    /// what held for the whole table when it was looked at.
    pub fn take_renewed(&mut self) -> Vec<(CopyRead, Option<TableLease>)> {
        std::mem::take(&mut self.renewed)
    }

    /// How often a rule of the coordinator's own has refused something, by the rule, since this was last asked. What participants have refused,
    /// they count themselves.
    pub fn take_refusals(&mut self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.refusals)
    }

    /// Has operations done, each at a server; those of one server in one message. Then comes an [`Event`]. Nothing is done if no
    /// transaction runs that waits for its client.
    pub fn operate(&mut self, now_ns: u64, operations: Vec<(ServerId, Operation)>, out: &mut Vec<Outgoing>) {
        let Some(running) = self.running.as_mut().filter(|running| matches!(running.phase, Phase::Idle))
        else {
            return;
        };
        let mut batches: BTreeMap<ServerId, Vec<Operation>> = BTreeMap::new();
        let mut places = Vec::with_capacity(operations.len());
        for (server, operation) in operations {
            let batch = batches.entry(server).or_default();
            places.push((server, batch.len()));
            batch.push(operation);
        }
        running.phase = Phase::Operating { places, outcomes: BTreeMap::new() };
        let floor = running.earliest(self.floor);
        for (server, batch) in batches {
            running.ask(now_ns, floor, server, Ask::Work(batch, Step::Execute), out);
        }
    }

    /// Finds out whether the transaction could commit, and aborts it. Then comes an [`Event`], as for a commit.
    pub fn rehearse(&mut self, now_ns: u64, out: &mut Vec<Outgoing>) -> Option<Event> {
        self.running.as_mut()?.is_rehearsal = true;
        self.commit(now_ns, out)
    }

    /// Commits. Then comes an [`Event`], at once if nobody must be asked.
    pub fn commit(&mut self, now_ns: u64, out: &mut Vec<Outgoing>) -> Option<Event> {
        let running = self.running.as_mut().filter(|running| matches!(running.phase, Phase::Idle))?;
        let standings = || running.parts.values().filter_map(|part| part.standing);
        let unannounced = running.parts.values().any(|part| part.has_unannounced);
        let entries_are_late = running.parts.values().any(|part| part.defers_entries)
            && !self.planted.is(Bug::EntriesTakenForLocked);
        let is_late = unannounced || entries_are_late;
        let at = running.earliest(self.floor);
        let asks_everybody = self.asks_everybody;
        let is_asked = |part: &&Part| part.is_asked(at, asks_everybody, self.planted);
        let asked = running.parts.values().filter(is_asked).count();
        // Who is asked, and has only locks for reading, lets go of them with his vote: everything must be locked everywhere by then.
        let entries_count = !self.planted.is(Bug::LetGoBeforeEntries);
        let late_count = !self.planted.is(Bug::LetGoBeforeLateLocks);
        let locks_late = standings().any(|s| s.locks_late);
        let has_read_locks = |part: &Part| {
            let of_reads = |s: Standing| s.holds_locks && !s.has_writes && !s.keeps_reads;
            part.deferred.is_empty() && part.standing.is_some_and(of_reads)
        };
        let lets_go = (unannounced || entries_are_late && entries_count || locks_late && late_count)
            && running.parts.values().filter(is_asked).any(has_read_locks);
        let must_seal = lets_go
            || (is_late || locks_late)
                && (standings().any(|s| s.only_looks)
                    || running.parts.values().any(Part::only_looks_at_copies))
                && !self.planted.is(Bug::RoundsMerged);
        if must_seal && asked > 1 {
            running.pass_waiting(asked);
            running.phase = Phase::Sealing;
            let has_writes =
                |part: &Part| part.has_unannounced || part.standing.is_some_and(|s| s.has_writes);
            let sealers = running.servers(has_writes);
            for server in sealers {
                running.ask(now_ns, self.floor, server, Ask::Work(Vec::new(), Step::Seal), out);
            }
            return None;
        }
        self.prepare(now_ns, at, out)
    }

    /// Asks everybody who must be asked whether the transaction can commit at this time.
    fn prepare(&mut self, now_ns: u64, at: Timestamp, out: &mut Vec<Outgoing>) -> Option<Event> {
        let running = self.running.as_mut()?;
        let asked = running.servers(|part| part.is_asked(at, self.asks_everybody, self.planted));
        (running.asked, running.votes) = (asked.len(), 0);
        running.pass_waiting(asked.len());
        let others_agreed = running.parts.values().any(|part| part.has_frozen);
        let alone = asked.len() == 1 && !running.is_rehearsal && !others_agreed;
        running.phase = Phase::Preparing { at };
        for server in &asked {
            let step = match alone {
                true => Step::Commit { at, until: running.hold_until(*server, at) },
                false => Step::Prepare { at },
            };
            running.ask(now_ns, self.floor, *server, Ask::Work(Vec::new(), step), out);
        }
        asked.is_empty().then(|| self.decide(now_ns, at, out)).flatten()
    }

    /// Everybody has agreed: the transaction has committed.
    fn decide(&mut self, now_ns: u64, at: Timestamp, out: &mut Vec<Outgoing>) -> Option<Event> {
        let mut running = self.running.take()?;
        let copies = running.parts.values_mut().flat_map(|part| part.copies.drain(..));
        let checked = copies.filter(|copy| copy.checked_by.is_some());
        self.renewed = checked.map(|copy| (copy.read, copy.table)).collect();
        let decision = if running.is_rehearsal { Decision::Abort } else { Decision::Commit(at) };
        self.end_parts(now_ns, running, decision, out);
        self.floor = self.floor.max(at);
        self.found_no_time = false;
        Some(Event::Committed(at))
    }

    /// Aborts the transaction that runs, if one does.
    pub fn abort(&mut self, now_ns: u64, out: &mut Vec<Outgoing>) {
        if let Some(running) = self.running.take() {
            self.end_parts(now_ns, running, Decision::Abort, out);
        }
    }

    /// Aborts the transaction that runs, by a rule of the coordinator's own.
    fn refuse(&mut self, now_ns: u64, refusal: Refusal, out: &mut Vec<Outgoing>) -> Event {
        self.abort(now_ns, out);
        *self.refusals.entry(refusal.rule.clone()).or_default() += 1;
        Event::Aborted(refusal)
    }

    /// Aborts the transaction that runs, if there is no time left at which it can commit.
    ///
    /// If that was so the last time, too, the client's next attempt is from the time on that would have been the earliest. If it began where this one did, it
    /// would have ranges that end where these have ended, and whoever has left read times behind beyond them would be in its way for ever: nobody else
    /// need be there to move them. (Where somebody is, the next attempt mostly finds what it needs, and every time raised is one that others have to come after.)
    fn refuse_without_time(&mut self, now_ns: u64, out: &mut Vec<Outgoing>) -> Option<Event> {
        let running = self.running.as_ref()?;
        let refusal = running.has_no_time(self.floor)?;
        let at = running.earliest(self.floor);
        // (What is frozen without end is so until its owner's end is known: there is no use in coming after it.)
        if self.found_no_time && at < Timestamp::MAX {
            self.raise_floor(at);
        }
        self.found_no_time = true;
        Some(self.refuse(now_ns, refusal, out))
    }

    /// Tells those who must know.
    fn end_parts(&mut self, now_ns: u64, running: Running, decision: Decision, out: &mut Vec<Outgoing>) {
        let Running { id, age, parts, escapes, .. } = running;
        if escapes {
            self.keep_out.extend(parts.keys());
        }
        for (to, part) in parts {
            // One that has not answered may hold anything.
            let knows_nothing_else =
                part.unanswered.is_some() || part.standing.is_some_and(|s| s.holds_locks || s.has_marks);
            if part.is_over || !knows_nothing_else {
                continue;
            }
            let request = Request {
                attempt: id,
                age,
                floor: self.floor,
                number: part.number + 1,
                is_past_waiting: true,
                escapes,
                ask: Ask::End(decision),
            };
            out.push(Outgoing { to, request: request.clone() });
            // (Whoever has something to install, or keeps what it has read until the end, had to be asked.)
            let is_prepared = matches!(decision, Decision::Commit(_))
                && part.standing.is_some_and(|s| s.has_writes || s.keeps_reads);
            self.endings.push(Ending { to, request, is_prepared, sent: Sent::first(now_ns) });
        }
    }

    /// An answer has come.
    pub fn receive(&mut self, now_ns: u64, answer: Answer, out: &mut Vec<Outgoing>) -> Option<Event> {
        let Answer { attempt, from, number, reply } = answer;
        let Some(running) = self.running.as_mut().filter(|running| running.id == attempt) else {
            let is_this = |ending: &Ending| {
                ending.to == from && ending.request.attempt == attempt && ending.request.number == number
            };
            self.endings.retain(|ending| !is_this(ending));
            return None;
        };
        let part = running.parts.get_mut(&from)?;
        if part.unanswered.is_none() || part.number != number {
            // An earlier one, doubled.
            if self.planted.is(Bug::VoteCountedTwice)
                && let (Phase::Preparing { at }, Reply::Worked(Work { step: StepOutcome::Yes, .. })) =
                    (&running.phase, reply)
                && let at = *at
                && running.counts_as_agreed()
            {
                return self.decide(now_ns, at, out);
            }
            return None;
        }
        part.unanswered = None;
        let (outcomes, came) = match reply {
            Reply::Worked(Work { mut outcomes, step, standing, tables }) => {
                part.standing = Some(standing);
                for copy in part.copies.iter_mut().filter(|copy| copy.checked_by == Some(number)) {
                    copy.table =
                        tables.iter().find(|(id, _)| *id == copy.read.place.table).map(|(_, lease)| *lease);
                }
                self.tables.extend(tables.into_iter().map(|(table, lease)| (from, table, lease)));
                let written = outcomes.drain(..part.went_along.min(outcomes.len()));
                if written.into_iter().any(|outcome| outcome != Outcome::Done(true)) {
                    return Some(self.refuse(now_ns, Refusal::lost_row(from), out));
                }
                (outcomes, step)
            }
            Reply::Refused(refusal) => {
                part.is_over = true;
                self.abort(now_ns, out);
                return Some(Event::Aborted(refusal));
            }
            Reply::Ended => return None,
        };
        if !matches!(came, StepOutcome::Committed(_))
            && let Some(event) = self.refuse_without_time(now_ns, out)
        {
            return Some(event);
        }
        let running = self.running.as_mut()?;
        let part = running.parts.get_mut(&from)?;
        let all_answered = |running: &Running| running.parts.values().all(|part| part.unanswered.is_none());
        match (&mut running.phase, came) {
            (Phase::Operating { outcomes: so_far, .. }, StepOutcome::Executed) => {
                so_far.insert(from, outcomes);
                if !all_answered(running) {
                    return None;
                }
                match std::mem::replace(&mut running.phase, Phase::Idle) {
                    Phase::Operating { places, outcomes } => {
                        Some(Event::Operated(in_order(&places, outcomes)))
                    }
                    _ => None,
                }
            }
            (Phase::Sealing, StepOutcome::Sealed(bound)) => {
                if let Some(standing) = &mut part.standing {
                    standing.bound = standing.bound.max(bound);
                }
                if !all_answered(running) {
                    return None;
                }
                let at = running.earliest(self.floor);
                self.prepare(now_ns, at, out)
            }
            (Phase::Preparing { .. }, StepOutcome::Committed(at)) => {
                part.is_over = true;
                self.decide(now_ns, at, out)
            }
            (Phase::Preparing { at }, StepOutcome::Yes) => {
                let at = *at;
                // What was locked for reading only is let go of with that.
                part.is_over |=
                    part.standing.is_some_and(|s| s.holds_locks && !s.has_writes && !s.keeps_reads);
                running.votes += 1;
                if !all_answered(running) && !self.planted.is(Bug::DecidedEarly) {
                    return None;
                }
                self.agreed_or_later(now_ns, at, out)
            }
            (Phase::Preparing { at }, StepOutcome::Range(from, until)) => {
                let at = *at;
                part.has_frozen = true;
                if let Some(standing) = &mut part.standing {
                    standing.bound = standing.bound.max(from);
                    standing.latest = standing.latest.min(until);
                    part.is_over |= came.is_left_behind(standing);
                }
                if !all_answered(running) {
                    return None;
                }
                self.agreed_or_later(now_ns, at, out)
            }
            (Phase::Preparing { at }, StepOutcome::Later(_)) if self.planted.is(Bug::LaterIgnored) => {
                let at = *at;
                if !all_answered(running) {
                    return None;
                }
                self.decide(now_ns, at, out)
            }
            (Phase::Preparing { at }, StepOutcome::Later(bound)) => {
                let at = *at;
                if let Some(standing) = &mut part.standing {
                    standing.bound = standing.bound.max(bound);
                }
                if !all_answered(running) {
                    return None;
                }
                self.agreed_or_later(now_ns, at, out)
            }
            _ => None,
        }
    }

    /// All who were asked have answered: it is decided, or they are asked for a later time.
    fn agreed_or_later(&mut self, now_ns: u64, at: Timestamp, out: &mut Vec<Outgoing>) -> Option<Event> {
        if let Some(event) = self.refuse_without_time(now_ns, out) {
            return Some(event);
        }
        let running = self.running.as_ref()?;
        let later = running.earliest(self.floor);
        if later > at { self.prepare(now_ns, later, out) } else { self.decide(now_ns, at, out) }
    }

    /// When it wants to be told the time.
    pub fn wants_time_at_ns(&self) -> Option<u64> {
        let unanswered = self.running.iter().flat_map(|running| running.parts.values());
        let unanswered = unanswered.filter_map(|part| Some(part.unanswered.as_ref()?.sent));
        let sent = unanswered.chain(self.endings.iter().map(|ending| ending.sent));
        sent.map(|sent| sent.late_at_ns(self.resend_after_ns)).min()
    }

    /// It is this late: sends again what has not been answered.
    pub fn tick(&mut self, now_ns: u64, out: &mut Vec<Outgoing>) {
        for (to, part) in self.running.iter_mut().flat_map(|running| &mut running.parts) {
            if let Some(Unanswered { sent, again: Some(request) }) = &mut part.unanswered
                && sent.sends_again(now_ns, self.resend_after_ns)
            {
                out.push(Outgoing { to: *to, request: request.clone() });
            }
        }
        for Ending { to, request, sent, .. } in &mut self.endings {
            if sent.sends_again(now_ns, self.resend_after_ns) {
                out.push(Outgoing { to: *to, request: request.clone() });
            }
        }
    }
}

impl Part {
    /// Whether it is asked to prepare at this time: if it must be, or if everybody is who keeps others out, and has not agreed.
    fn is_asked(&self, at: Timestamp, asks_everybody: bool, planted: Planted) -> bool {
        let keeps_out = !self.is_over && !self.has_frozen && self.standing.is_some_and(|s| s.holds_locks);
        self.must_be_asked(at, planted) || asks_everybody && keeps_out
    }

    /// Whether the transaction can commit at this time only if this one says so.
    fn must_be_asked(&self, at: Timestamp, planted: Planted) -> bool {
        let reads = |s: Standing| s.has_reads && !planted.is(Bug::ReaderSkipped);
        let asked = |s: Standing| s.has_writes || s.keeps_reads || reads(s) && s.holds_until < at;
        let ends_before = |copy: &Copied| copy.checked_by.is_none() && copy.read.ends_before(at, planted);
        let copies_end = self.copies.iter().any(ends_before) && !planted.is(Bug::CopyUsedPastItsLease);
        !self.is_over
            && (!self.has_frozen && self.standing.is_some_and(asked)
                || !self.deferred.is_empty()
                || copies_end)
    }

    /// The latest commit time that it has left: that of what was read out of copies, too, if it is gone.
    fn latest(&self) -> Timestamp {
        let unchecked = self.copies.iter().filter(|copy| self.is_over && copy.checked_by.is_none());
        let latest = unchecked.map(|copy| copy.read.lease.until).min().unwrap_or(Timestamp::MAX);
        latest.min(self.standing.map_or(Timestamp::MAX, |standing| standing.latest))
    }

    /// Whether it has read something out of a copy that cannot be said to hold at any time.
    fn only_looks_at_copies(&self) -> bool {
        let lasts =
            |copy: &Copied| copy.checked_by.is_some() || copy.read.lease.until >= copy.read.lease.begins();
        !self.copies.iter().all(lasts)
    }

    /// Has those copies looked at that are not yet, and are among these.
    fn check_copies(&mut self, which: impl Fn(&CopyRead) -> bool) -> Vec<Operation> {
        let unchecked = self.copies.iter_mut().filter(|copy| copy.checked_by.is_none() && which(&copy.read));
        let number = self.number;
        let check = |copy: &mut Copied| {
            copy.checked_by = Some(number);
            let CopyRead { place: Place { table, key, groups, .. }, lease, node } = copy.read.clone();
            match node {
                Some(node) => Operation::CheckNode { table, node },
                None => Operation::Check { table, key, groups, written: lease.written },
            }
        };
        unchecked.map(check).collect()
    }
}

impl Running {
    /// The earliest time at which it can commit, for all that is known.
    fn earliest(&self, floor: Timestamp) -> Timestamp {
        let bounds = self.parts.values().filter_map(|part| Some(part.standing?.bound));
        let copies = self.parts.values().flat_map(|part| &part.copies).map(|copy| copy.read.lease.begins());
        bounds.chain(copies).fold(floor, Timestamp::max)
    }

    /// Why there is no time left at which it can commit, if there is none.
    fn has_no_time(&self, floor: Timestamp) -> Option<Refusal> {
        let at = self.earliest(floor);
        let (server, part) = self.parts.iter().find(|(_, part)| part.latest() < at)?;
        let ignored = self.planted.is(Bug::RangesNotIntersected);
        (!ignored).then(|| Refusal::no_common_time(*server, part.latest(), at))
    }

    /// Until when everything holds that this one is not asked about when it is asked to commit at that time. All others hold until then.
    fn hold_until(&self, asked: ServerId, at: Timestamp) -> Timestamp {
        let others = self.parts.iter().filter(|(server, _)| **server != asked);
        let reads = others.filter_map(|(_, part)| part.standing.filter(|s| s.has_reads));
        let copies = self.parts.iter().flat_map(|(server, part)| {
            let not_asked = move |copy: &&Copied| {
                copy.checked_by.is_none() && (*server != asked || copy.read.lease.until >= at)
            };
            part.copies.iter().filter(not_asked).map(|copy| copy.read.lease.until)
        });
        reads.map(|s| s.holds_until).chain(copies).fold(Timestamp::MAX, Timestamp::min)
    }

    /// One more vote: whether they are as many as were asked.
    fn counts_as_agreed(&mut self) -> bool {
        self.votes += 1;
        self.votes >= self.asked
    }

    /// So many are about to be asked to seal or to prepare: whether the transaction [is past waiting](Request::is_past_waiting) from here on. If
    /// it is but one, the transaction has nothing sealed before it has committed, and may as well wait.
    fn pass_waiting(&mut self, asked: usize) {
        let asks_for_locks = self.parts.values().any(|part| part.has_unannounced || part.defers_entries);
        self.is_past_waiting |= !asks_for_locks && asked > 1;
    }

    fn servers(&self, which: impl Fn(&Part) -> bool) -> Vec<ServerId> {
        self.parts.iter().filter(|(_, part)| which(part)).map(|(server, _)| *server).collect()
    }

    fn part(&mut self, server: ServerId) -> &mut Part {
        self.parts.entry(server).or_insert(Part {
            standing: None,
            has_frozen: false,
            number: 0,
            unanswered: None,
            deferred: Vec::new(),
            defers_entries: false,
            has_unannounced: false,
            went_along: 0,
            copies: Vec::new(),
            is_over: false,
        })
    }

    fn ask(&mut self, now_ns: u64, floor: Timestamp, to: ServerId, ask: Ask, out: &mut Vec<Outgoing>) {
        let (id, age, is_past_waiting, escapes) = (self.id, self.age, self.is_past_waiting, self.escapes);
        let (planted, sends_again) = (self.planted, self.sends_again);
        let part = self.part(to);
        part.number += 1;
        let mut ask = ask;
        if let Ask::Work(operations, step) = &mut ask {
            let deferred = std::mem::take(&mut part.deferred);
            let changes =
                |copy: &CopyRead| deferred.iter().chain(&*operations).any(|it| copy.is_changed_by(it));
            let mut all = match step {
                Step::Execute | Step::Seal => part.check_copies(changes),
                Step::Prepare { at } | Step::Commit { at, .. } => {
                    part.check_copies(|copy| changes(copy) || copy.ends_before(*at, planted))
                }
            };
            if planted.is(Bug::CopyOverwritten) && *step == Step::Execute {
                all.clear();
            }
            // Looks come first: what has been read is what was there before the transaction's own writes.
            all.extend(deferred);
            part.went_along = all.len();
            all.append(operations);
            *operations = all;
            part.defers_entries = false;
            part.has_unannounced = false;
        }
        let request = Request { attempt: id, age, floor, number: part.number, is_past_waiting, escapes, ask };
        let again = sends_again.then(|| request.clone());
        part.unanswered = Some(Unanswered { sent: Sent::first(now_ns), again });
        out.push(Outgoing { to, request });
    }
}

/// The outcomes in the order in which the operations were given.
fn in_order(places: &[(ServerId, usize)], mut outcomes: BTreeMap<ServerId, Vec<Outcome>>) -> Vec<Outcome> {
    if outcomes.len() == 1 {
        return outcomes.pop_first().map(|(_, list)| list).unwrap_or_default();
    }
    let mut outcomes: BTreeMap<ServerId, Vec<Option<Outcome>>> =
        outcomes.into_iter().map(|(server, list)| (server, list.into_iter().map(Some).collect())).collect();
    let taken = places.iter().filter_map(|(server, at)| outcomes.get_mut(server)?.get_mut(*at)?.take());
    taken.collect()
}
