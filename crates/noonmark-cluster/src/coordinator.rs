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
//!    [`Standing::only_looks`]): the participants with writes lock them, and say from when on they may be written.
//! 2. *Prepare*, at `at`: those with writes, those whose reads do not hold until then, those who lock their reads now. One that says
//!    *later* raises `at`, and all who must be asked are asked again: what has been validated at one time says nothing of a later one.
//! 3. *Decide*. If all have said yes, it has committed, and the client is told. Those who are prepared are told, again and again until
//!    they answer; meanwhile the client may go on.
//!
//! If there is but one participant that must be asked, and all others hold until `at`, its answer decides: one round. If nobody must be
//! asked, the transaction has committed without a word (a read-only one, all of whose leases last).
//!
//! # When a message is lost
//!
//! Whatever has not been answered for a while is sent again ([`Coordinator::with_resend_after`]). A participant carries each request out once.
//!
//! What it does not do: choose when to retry, or how long to back off; come back after a crash.

use crate::message::{
    Answer, Ask, AttemptId, ClientId, Decision, Operation, Outcome, Refusal, Reply, Request, Step,
    StepOutcome,
};
use crate::partition::ServerId;
use crate::planted::{Bug, Planted};
use noonmark::branch::Standing;
use noonmark::{Age, Timestamp};
use std::collections::BTreeMap;

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

/// A participant, to the transaction that runs.
struct Part {
    /// What it last said that it stands for.
    standing: Option<Standing>,
    /// The number of the last request to it.
    number: u32,
    /// That it has not answered it.
    unanswered: Option<Unanswered>,
    /// Writes that go along with the next request to it.
    deferred: Vec<Operation>,
    /// How many went along with the last one.
    went_along: usize,
    /// Has ended.
    is_over: bool,
}

struct Unanswered {
    sent_ns: u64,
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
    /// What is not answered is sent again some time.
    sends_again: bool,
    /// How many were asked whether they agree to the commit time that is being tried, and how many have said yes.
    asked: usize,
    votes: usize,
}

/// A participant that has not said yet that it knows of the end.
struct Ending {
    to: ServerId,
    request: Request,
    sent_ns: u64,
}

/// Carries one client's transactions.
pub struct Coordinator {
    client: ClientId,
    sequence: u64,
    floor: Timestamp,
    /// That of the last attempt.
    last_age: Option<Age>,
    running: Option<Running>,
    /// **Invariant**: at most one for each attempt and participant.
    endings: Vec<Ending>,
    resend_after_ns: u64,
    planted: Planted,
}

impl Coordinator {
    /// That of a client which has not run anything yet.
    pub fn new(client: ClientId) -> Self {
        Coordinator {
            client,
            sequence: 0,
            floor: Timestamp::ZERO,
            last_age: None,
            running: None,
            endings: Vec::new(),
            resend_after_ns: RESEND_AFTER_DEFAULT_NS,
            planted: Planted::default(),
        }
    }

    /// The same, perhaps broken on purpose.
    #[doc(hidden)]
    pub fn planted(self, planted: Planted) -> Self {
        Coordinator { planted, ..self }
    }

    /// The same; after how long a request is sent again. Never, if that is `u64::MAX`.
    pub fn with_resend_after(self, resend_after_ns: u64) -> Self {
        Coordinator { resend_after_ns, ..self }
    }

    /// Whose it is.
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// The client's last commit time: it will not be shown anything from before.
    pub fn floor(&self) -> Timestamp {
        self.floor
    }

    /// From here on, the client is not shown anything from before this time either.
    pub fn raise_floor(&mut self, floor: Timestamp) {
        self.floor = self.floor.max(floor);
    }

    /// Whether a participant has still to be told how some transaction has ended.
    pub fn has_endings(&self) -> bool {
        !self.endings.is_empty()
    }

    /// Begins an attempt of a transaction of this age. One that runs is aborted.
    pub fn begin(&mut self, now_ns: u64, age: Age, out: &mut Vec<Outgoing>) -> AttemptId {
        self.abort(now_ns, out);
        let is_again = self.planted.is(Bug::SameId) && self.last_age == Some(age);
        self.sequence += u64::from(!is_again);
        self.last_age = Some(age);
        let id = AttemptId { client: self.client, sequence: self.sequence };
        let (parts, phase) = (BTreeMap::new(), Phase::Idle);
        let sends_again = self.resend_after_ns < u64::MAX;
        let (is_rehearsal, asked, votes) = (false, 0, 0);
        self.running = Some(Running { id, age, parts, phase, is_rehearsal, sends_again, asked, votes });
        id
    }

    /// Has a row written that has been read to be written. It goes along with the next request to its server.
    pub fn defer(&mut self, server: ServerId, write: Operation) {
        if let Some(part) = self.running.as_mut().and_then(|running| running.parts.get_mut(&server)) {
            part.deferred.push(write);
        }
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
        for (server, batch) in batches {
            running.ask(now_ns, self.floor, server, Ask::Work(batch, Step::Execute), out);
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
        let must_seal = standings().any(|s| s.locks_late)
            && standings().any(|s| s.only_looks)
            && !self.planted.is(Bug::RoundsMerged);
        let at = running.earliest(self.floor);
        let asked = running.parts.values().filter(|part| part.must_be_asked(at, self.planted)).count();
        if must_seal && asked > 1 {
            running.phase = Phase::Sealing;
            let sealers = running.servers(|part| part.standing.is_some_and(|s| s.has_writes));
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
        let asked = running.servers(|part| part.must_be_asked(at, self.planted));
        (running.asked, running.votes) = (asked.len(), 0);
        let alone = asked.len() == 1 && !running.is_rehearsal;
        running.phase = Phase::Preparing { at };
        // If others hold until this very time, it may not be a later one.
        let or_later = running.parts.len() == 1;
        for server in &asked {
            let step = if alone { Step::Commit { at, or_later } } else { Step::Prepare { at } };
            running.ask(now_ns, self.floor, *server, Ask::Work(Vec::new(), step), out);
        }
        asked.is_empty().then(|| self.decide(now_ns, at, out)).flatten()
    }

    /// Everybody has agreed: the transaction has committed.
    fn decide(&mut self, now_ns: u64, at: Timestamp, out: &mut Vec<Outgoing>) -> Option<Event> {
        let running = self.running.take()?;
        let decision = if running.is_rehearsal { Decision::Abort } else { Decision::Commit(at) };
        self.end_parts(now_ns, running, decision, out);
        self.floor = self.floor.max(at);
        Some(Event::Committed(at))
    }

    /// Aborts the transaction that runs, if one does.
    pub fn abort(&mut self, now_ns: u64, out: &mut Vec<Outgoing>) {
        if let Some(running) = self.running.take() {
            self.end_parts(now_ns, running, Decision::Abort, out);
        }
    }

    /// Tells those who must know.
    fn end_parts(&mut self, now_ns: u64, running: Running, decision: Decision, out: &mut Vec<Outgoing>) {
        let Running { id, age, parts, .. } = running;
        for (to, part) in parts {
            // One that has not answered may hold anything.
            let knows_nothing_else =
                part.unanswered.is_some() || part.standing.is_some_and(|s| s.holds_locks);
            if part.is_over || !knows_nothing_else {
                continue;
            }
            let request = Request {
                attempt: id,
                age,
                floor: self.floor,
                number: part.number + 1,
                ask: Ask::End(decision),
            };
            out.push(Outgoing { to, request: request.clone() });
            self.endings.push(Ending { to, request, sent_ns: now_ns });
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
                && let (Phase::Preparing { at }, Reply::Worked(_, StepOutcome::Yes, _)) =
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
            Reply::Worked(outcomes, came, standing) => {
                part.standing = Some(standing);
                let mut outcomes = outcomes;
                let written = outcomes.drain(..part.went_along.min(outcomes.len()));
                if written.into_iter().any(|outcome| outcome != Outcome::Done(true)) {
                    self.abort(now_ns, out);
                    return Some(Event::Aborted(Refusal::lost_row(from)));
                }
                (outcomes, came)
            }
            Reply::Refused(refusal) => {
                part.is_over = true;
                self.abort(now_ns, out);
                return Some(Event::Aborted(refusal));
            }
            Reply::Ended => return None,
        };
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
        let running = self.running.as_ref()?;
        let later = running.earliest(self.floor);
        if later > at { self.prepare(now_ns, later, out) } else { self.decide(now_ns, at, out) }
    }

    /// When it wants to be told the time.
    pub fn wants_time_at_ns(&self) -> Option<u64> {
        let unanswered = self.running.iter().flat_map(|running| running.parts.values());
        let unanswered = unanswered.filter_map(|part| Some(part.unanswered.as_ref()?.sent_ns));
        let endings = self.endings.iter().map(|ending| ending.sent_ns);
        Some(unanswered.chain(endings).min()?.saturating_add(self.resend_after_ns))
    }

    /// It is this late: sends again what has not been answered.
    pub fn tick(&mut self, now_ns: u64, out: &mut Vec<Outgoing>) {
        let is_late = |sent_ns: u64| sent_ns.saturating_add(self.resend_after_ns) <= now_ns;
        for (to, part) in self.running.iter_mut().flat_map(|running| &mut running.parts) {
            if let Some(Unanswered { sent_ns, again: Some(request) }) = &mut part.unanswered
                && is_late(*sent_ns)
            {
                *sent_ns = now_ns;
                out.push(Outgoing { to: *to, request: request.clone() });
            }
        }
        for ending in self.endings.iter_mut().filter(|ending| is_late(ending.sent_ns)) {
            ending.sent_ns = now_ns;
            out.push(Outgoing { to: ending.to, request: ending.request.clone() });
        }
    }
}

impl Part {
    /// Whether the transaction can commit at this time only if this one says so.
    fn must_be_asked(&self, at: Timestamp, planted: Planted) -> bool {
        let reads = |s: Standing| s.has_reads && !planted.is(Bug::ReaderSkipped);
        let asked = |s: Standing| s.has_writes || s.keeps_reads || reads(s) && s.holds_until < at;
        !self.is_over && (self.standing.is_some_and(asked) || !self.deferred.is_empty())
    }
}

impl Running {
    /// The earliest time at which it can commit, for all that is known.
    fn earliest(&self, floor: Timestamp) -> Timestamp {
        let bounds = self.parts.values().filter_map(|part| Some(part.standing?.bound));
        bounds.fold(floor, Timestamp::max)
    }

    /// One more vote: whether they are as many as were asked.
    fn counts_as_agreed(&mut self) -> bool {
        self.votes += 1;
        self.votes >= self.asked
    }

    fn servers(&self, which: impl Fn(&Part) -> bool) -> Vec<ServerId> {
        self.parts.iter().filter(|(_, part)| which(part)).map(|(server, _)| *server).collect()
    }

    fn ask(&mut self, now_ns: u64, floor: Timestamp, to: ServerId, ask: Ask, out: &mut Vec<Outgoing>) {
        let part = self.parts.entry(to).or_insert(Part {
            standing: None,
            number: 0,
            unanswered: None,
            deferred: Vec::new(),
            went_along: 0,
            is_over: false,
        });
        part.number += 1;
        let mut ask = ask;
        if let Ask::Work(operations, _) = &mut ask {
            part.went_along = part.deferred.len();
            part.deferred.append(operations);
            *operations = std::mem::take(&mut part.deferred);
        }
        let request = Request { attempt: self.id, age: self.age, floor, number: part.number, ask };
        let again = self.sends_again.then(|| request.clone());
        part.unanswered = Some(Unanswered { sent_ns: now_ns, again });
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
