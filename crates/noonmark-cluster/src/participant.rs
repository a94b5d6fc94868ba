//! A participant: one server's rows, and the branches of the transactions that touch them.
//!
//! A state machine. A [request](Request) or the time goes in, answers come out. It has no clock, no randomness and no channel; it
//! applies the engine's rules through [`Branch`], and knows none.
//!
//! - *One seat an attempt.* A seat holds the attempt's branch, and what was answered last. A request is carried out if its number is
//!   greater than the last one's; the last one doubled is answered again; an older one is dropped.
//! - *Waiting holds an answer back.* What another branch is in the way of is kept, with what has been done of it, until that branch
//!   ends; then it goes on where it was. Nothing that a branch holds is let go of before it ends, so no other event can help. Who may not wait
//!   for whom he has met is refused at once: see below.
//! - *Who votes yes is prepared*: from then on only its coordinator ends it.
//! - *Who is wounded ends here at once*: a transaction that an older one makes abort lets go of what it has at this server, and is
//!   told when it asks for more, or to prepare.
//! - *A later attempt of the same client* tells that the earlier ones ask for nothing more. Those that are not prepared are rolled back:
//!   so nobody needs to be told of the end of a transaction that has only read, and left nothing behind.
//! - *Who keeps nobody out may be forgotten*: when there is no room for one more branch, those of them that have been silent for longest
//!   are rolled back. Most of them are over; whoever is not is told when he asks for more.
//! - *Who panics ends alone.* What works out the keys of an index, and what shows a key in an explanation, is the user's, and runs here. Its panics are
//!   caught, and the transaction is refused.
//! - *Copies are looked at like rows.* What a transaction has read out of a copy, and must know to hold for longer, is read here if the
//!   version still is the one that was copied, and from then on is like anything else that it has read.
//!
//! # Nobody waits in a circle
//!
//! Not every rule that has somebody wait says for whom. What `occ`, `tictoc`, `f1` and others call *busy*, as it is locked during commits only,
//! lasts for a moment on threads, where one asks again a bounded number of times. Here it lasts for as long as messages take, and two
//! that commit at two servers could each be behind the other. So who may wait for whom is said here, for all protocols
//! alike, whatever their rules have said before:
//!
//! | who asks | behind one who is not past waiting | behind one who is |
//! |---|---|---|
//! | is not past waiting | if he is the older one | waits |
//! | is past waiting | is refused | if he is the older one |
//!
//! *Past waiting* is [who commits](Request::is_past_waiting) and asks for nothing more that others may have: he has at each server what he needs
//! there, or will find in one message that it is too late. (He may have to look whether a copy is current; and where write times are kept, he looks
//! again for what becomes of a version, the older of two only, as the rule has it.) If no table has an index, or is of a protocol that takes the
//! right to write a row before it seals it, that is everybody who commits. So most of those who meet a row that is about to be replaced wait for
//! it, whatever their ages, as it is decided soon. (But for what a rule refuses at once: under `two-phase-wait-die` and `swiss` the younger
//! aborts, as these are printed. `sundial` and `ranges` leave it to this table, which makes a tenth to a quarter fewer of the attempts fail under `sundial` (decision 50).)
//!
//! Nobody who is past waiting ever is not again, nor waits for one who is not. So all of a circle would be on one side of that line; and there each is
//! older than whom he waits for. Ages are those of first attempts, brought along by each message and the same at all servers, and of two that
//! are equal the client's number decides; so this is an order of all transactions, and one of those in the circle would be older than himself.
//!
//! If the [younger waits](UntypedTable::younger_waits) in some table of the database, *older* is *younger* in all of this: there the older, whom a rule has wait,
//! makes the younger abort (in tables of other protocols, too, as on one engine: decision 2), and waits only for those who are past waiting. All
//! servers have tables of the same protocols, so that they agree on the direction.
//!
//! Whoever is refused keeps his age, so that he is the oldest one day: who waits for rows that he locks as he meets them gets them then.
//!
//! *What is left for [`Participant::with_wait_max`]*: somebody who holds what is wanted, and neither asks for more nor is told how he ends, since his
//! client is slow, is gone, or cannot be heard. And tables that are made while transactions run: the first one in which the younger waits turns the
//! direction about.
//!
//! # Nobody loses for ever
//!
//! What is read without a lock may be overwritten each time before a long transaction commits. So one that has failed
//! [so often](crate::client::Policy::escape_after) is *let through*: from the first message on that says so, a server refuses whoever begins
//! anything there, but for an older one that is let through as well. Nobody is kept waiting for that, so there is no circle to be had. What has
//! been begun at the server goes on; it ends, or comes to a server that refuses it. So when the transaction has been everywhere
//! once, it fails at most for what was begun before it came, and is alone then: of servers that it comes to for the first time there are at
//! most as many as there are. Its client tells all of them when it is over; who does not is waited for as long as anybody may be kept waiting.
//!
//! What it does not do: log, or come back after a crash.

use crate::message::{
    Answer, Ask, AttemptId, ClientId, Decision, Operation, Outcome, Purpose, Refusal, Reply, Request, Step,
    StepOutcome, TableLease, Work,
};
use crate::partition::{ServerId, TableId};
use crate::planted::{Bug, Planted};
use crate::table_lease::{TableLeases, TableState};
use noonmark::branch::{Branch, BranchHost, FROZEN_TICKS, LATE_TICKS, Leased, UntypedTable, Vote};
use noonmark::{Abort, AbortKind, Age, Database, Order, Timestamp, TooManySessions, TxnId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Unless told otherwise, nothing is held back for longer.
pub const WAIT_MAX_DEFAULT_NS: u64 = 100_000_000;

/// One attempt, here.
struct Seat {
    /// None once it has ended. (Seats move about in their map, and a branch is large.)
    branch: Option<Box<Branch<BranchHost>>>,
    age: Age,
    /// [As it has said](Request::is_past_waiting), or is known.
    is_past_waiting: bool,
    /// Only its coordinator ends it.
    is_prepared: bool,
    /// Tables that know that it is sealed, and has written them.
    barred: BTreeSet<TableId>,
    /// Tables that it has written.
    written: BTreeSet<TableId>,
    /// Tables of which somebody keeps what it has read.
    kept: BTreeSet<TableId>,
    /// The number of the last request.
    number: u32,
    /// When that came, counted in requests.
    turn: u64,
    /// What was answered to it; none while it is held back.
    answer: Option<Reply>,
    held: Option<Held>,
    /// Why its branch was taken away, if it has not been told.
    taken: Option<Refusal>,
}

/// A request that is held back.
struct Held {
    operations: Vec<Operation>,
    step: Step,
    /// What came of the first operations.
    outcomes: Vec<Outcome>,
    since_ns: u64,
    /// What it is behind, as the database knows it.
    behind: TxnId,
}

/// A transaction that is let through.
#[derive(Clone, Copy)]
struct Gate {
    client: ClientId,
    age: Age,
    /// Unless it is heard of again by then, nobody is kept out any more.
    until_ns: u64,
}

/// A server's rows, and what is going on there.
pub struct Participant {
    server: ServerId,
    database: Database<BranchHost>,
    /// Each, and what holds for all of it.
    tables: Vec<(UntypedTable, TableState)>,
    table_leases: Option<TableLeases>,
    /// In some table the younger of two transactions waits.
    younger_waits: bool,
    /// Whatever is written with the messages of a commit can be at once: so it is in [all tables](UntypedTable::writes_late).
    writes_late: bool,
    seats: BTreeMap<AttemptId, Seat>,
    /// The attempt that each transaction of the database is of, while it runs.
    attempts: BTreeMap<TxnId, AttemptId>,
    /// Attempts whose answers are, or were, held back, by whom they are behind: a transaction that has not ended.
    waiting: BTreeMap<TxnId, Vec<AttemptId>>,
    /// The greatest number of each client's attempts.
    latest: BTreeMap<ClientId, u64>,
    /// For whom others are kept out, if for anybody.
    gate: Option<Gate>,
    /// Branches that are free.
    #[expect(clippy::vec_box, reason = "they go into seats as they are, and come back")]
    free: Vec<Box<Branch<BranchHost>>>,
    /// Transactions of the database that have ended since somebody looked who was behind them.
    ended: Vec<TxnId>,
    wait_max_ns: u64,
    keeps_answers: bool,
    reads_prepared: bool,
    refuses_younger: bool,
    lends: bool,
    frozen_ticks: u64,
    meets_frozen_at_once: bool,
    /// At least so many: a transaction that writes what it has extended a lease on comes after that lease, and must find time for it wherever it has
    /// frozen some.
    frozen_ticks_min: u64,
    late_ticks: u64,
    now_ns: u64,
    /// How many requests have been carried out.
    turns: u64,
    /// How often a rule of the cluster has refused something, by the rule. Those of protocols, the database counts.
    refusals: BTreeMap<String, u64>,
    planted: Planted,
}

impl Participant {
    /// A server whose rows are in this database.
    pub fn new(server: ServerId, database: Database<BranchHost>) -> Self {
        Participant {
            server,
            database,
            tables: Vec::new(),
            table_leases: None,
            younger_waits: false,
            writes_late: true,
            seats: BTreeMap::new(),
            attempts: BTreeMap::new(),
            waiting: BTreeMap::new(),
            latest: BTreeMap::new(),
            gate: None,
            free: Vec::new(),
            ended: Vec::new(),
            wait_max_ns: WAIT_MAX_DEFAULT_NS,
            keeps_answers: true,
            reads_prepared: false,
            refuses_younger: false,
            lends: true,
            frozen_ticks: FROZEN_TICKS,
            meets_frozen_at_once: false,
            frozen_ticks_min: 0,
            late_ticks: LATE_TICKS,
            now_ns: 0,
            turns: 0,
            refusals: BTreeMap::new(),
            planted: Planted::default(),
        }
    }

    /// The same, perhaps broken on purpose.
    #[doc(hidden)]
    pub fn planted(self, planted: Planted) -> Self {
        Participant { planted, ..self }
    }

    /// The same; how long an answer may be held back.
    pub fn with_wait_max(self, wait_max_ns: u64) -> Self {
        Participant { wait_max_ns, ..self }
    }

    /// The same; tables that are seldom written have leases as a whole, if its database is in logical order.
    pub fn with_table_leases(self, table_leases: Option<TableLeases>) -> Self {
        Participant { table_leases, ..self }
    }

    /// The same; under `sundial`, whether what is prepared is [read in any case](Branch::read_prepared).
    pub fn with_prepared_read(self, reads_prepared: bool) -> Self {
        Participant { reads_prepared, ..self }
    }

    /// The same; whether the younger of two is refused even if the other is past waiting, as wait-die has it in print. It costs attempts, and
    /// nothing else: who is past waiting is over soon.
    pub fn with_younger_refused(self, refuses_younger: bool) -> Self {
        Participant { refuses_younger, ..self }
    }

    /// The same; under `sundial`, whether leases of what somebody is going to write [can be renewed](Branch::lend) for as long as that is safe.
    pub fn with_lending(self, lends: bool) -> Self {
        Participant { lends, ..self }
    }

    /// The same; where transactions have ranges of commit times, how much of them is [frozen](Branch::freeze): more than by which leases of its
    /// tables are extended in any case.
    pub fn with_frozen_ticks(self, frozen_ticks: u64) -> Self {
        Participant { frozen_ticks, ..self }
    }

    /// Whether transactions abort as soon as they ask to write what somebody has read who has frozen all times without end, as the text has it of
    /// MaaT [Sundial §6.5]. Unless told so, they find out when they are prepared themselves.
    pub fn with_frozen_met_at_once(self, meets_frozen_at_once: bool) -> Self {
        Participant { meets_frozen_at_once, ..self }
    }

    /// The same; where transactions take place when they begin, by how many ticks one may be [late](Branch::keep_for).
    pub fn with_late_ticks(self, late_ticks: u64) -> Self {
        Participant { late_ticks, ..self }
    }

    /// How often a rule of the cluster, not of a protocol, has refused something, by the rule. What protocols have refused, the database
    /// [knows](Database::conflicts).
    pub fn refusals(&self) -> &BTreeMap<String, u64> {
        &self.refusals
    }

    /// The same, for requests that come once each: answers are not kept for those that are doubled.
    pub fn without_doubled_requests(self) -> Self {
        Participant { keeps_answers: false, ..self }
    }

    /// Its rows.
    pub fn database(&self) -> &Database<BranchHost> {
        &self.database
    }

    /// Adds a table of its database, or the entries of an index of one: its number in messages is how many there were before.
    pub fn add_table(&mut self, table: UntypedTable) {
        self.younger_waits |= table.younger_waits();
        self.writes_late &= table.writes_late();
        let lease_ticks = table.extends_leases_by().map_or(0, |by| u64::from(by) + 1);
        self.frozen_ticks_min = self.frozen_ticks_min.max(lease_ticks);
        self.tables.push((table, TableState::new()));
    }

    /// How many attempts have something open here: locks, or things read.
    pub fn open(&self) -> usize {
        self.seats.values().filter(|seat| seat.branch.is_some()).count()
    }

    /// Those of them that keep others out.
    pub fn holding(&self) -> usize {
        let holds = |seat: &&Seat| seat.branch.as_ref().is_some_and(|branch| branch.standing().holds_locks);
        self.seats.values().filter(holds).count()
    }

    /// When it wants to be told the time.
    pub fn wants_time_at_ns(&self) -> Option<u64> {
        if self.waiting.is_empty() {
            return None;
        }
        let since = self.seats.values().filter_map(|seat| Some(seat.held.as_ref()?.since_ns)).min()?;
        Some(since.saturating_add(self.wait_max_ns))
    }

    /// It is this late.
    pub fn tick(&mut self, now_ns: u64, out: &mut Vec<Answer>) {
        self.set_time(now_ns);
        let late: Vec<AttemptId> = self
            .seats
            .iter()
            .filter(|(_, seat)| {
                let held = seat.held.as_ref();
                held.is_some_and(|held| held.since_ns.saturating_add(self.wait_max_ns) <= now_ns)
            })
            .map(|(attempt, _)| *attempt)
            .collect();
        for attempt in late {
            let Some(held) = self.seats.get_mut(&attempt).and_then(|seat| seat.held.take()) else { continue };
            let words = "what it wanted was held by another for longer than anybody is kept waiting; nothing was applied, retry is safe";
            let other = self.attempts.get(&held.behind).copied();
            let refusal = Refusal { other, ..self.own_refusal("cluster: wait", words) };
            self.end(attempt);
            self.refuse(attempt, refusal, out);
        }
        self.go_on(out);
    }

    /// A request has come.
    pub fn receive(&mut self, now_ns: u64, request: Request, out: &mut Vec<Answer>) {
        self.set_time(now_ns);
        let Request { attempt, age, floor, number, is_past_waiting, escapes, ask } = request;
        if !self.take_seat(attempt, age, number, &ask, out) {
            return;
        }
        self.see_to_the_gate(attempt, age, escapes);
        if number == 1
            && let Ask::Work(..) = ask
            && let Some(refusal) = self.kept_out(attempt)
        {
            self.refuse(attempt, refusal, out);
            return self.go_on(out);
        }
        if let Some(seat) = self.seats.get_mut(&attempt) {
            let commits = matches!(ask, Ask::Work(_, Step::Seal | Step::Prepare { .. }));
            seat.is_past_waiting |= is_past_waiting || commits && self.writes_late;
        }
        match ask {
            Ask::End(decision) => self.decide(attempt, decision, out),
            Ask::Work(operations, step) => {
                if let Some(stranger) = operations.iter().find(|o| o.table().index() >= self.tables.len()) {
                    let words = format!("there is no table number {}", stranger.table().index());
                    let refusal = Refusal::of(self.server, AbortKind::ForeignTable, "", words);
                    self.end(attempt);
                    self.refuse(attempt, refusal, out);
                    return self.go_on(out);
                }
                let branch = match self.seats.get(&attempt) {
                    Some(Seat { branch: None, .. }) => match number {
                        1 => self.room().map(Some).map_err(|full| self.refusal(&Abort::from(full))),
                        // It has had one.
                        _ => Err(self.taken(attempt)),
                    },
                    _ => Ok(None),
                };
                match branch {
                    Ok(Some(mut branch)) => {
                        branch.read_prepared(self.reads_prepared);
                        branch.lend(self.lends);
                        branch.freeze(self.frozen_ticks.max(self.frozen_ticks_min));
                        branch.meet_frozen_at_once(self.meets_frozen_at_once);
                        branch.keep_for(self.late_ticks);
                        let Some(id) = branch.begin(age, floor) else {
                            self.free.push(branch);
                            let words = "it takes place before what is still kept of its rows; nothing was applied, retry is safe";
                            let refusal = self.own_refusal("cluster: late", words);
                            self.refuse(attempt, refusal, out);
                            return self.go_on(out);
                        };
                        self.attempts.insert(id, attempt);
                        if let Some(seat) = self.seats.get_mut(&attempt) {
                            seat.branch = Some(branch);
                        }
                    }
                    Ok(None) => {
                        if let Some(Seat { branch: Some(branch), .. }) = self.seats.get_mut(&attempt) {
                            branch.raise_floor(floor);
                        }
                    }
                    Err(refusal) => {
                        self.refuse(attempt, refusal, out);
                        return self.go_on(out);
                    }
                }
                self.work(attempt, operations, step, Vec::new(), now_ns, out);
            }
        }
        self.go_on(out);
    }

    /// A message of this attempt has come: it may be let through, or not any more. (An attempt that is not the client's last one has been
    /// prepared here, and is told late how it has ended. What has become of its transaction since is known already.)
    fn see_to_the_gate(&mut self, attempt: AttemptId, age: Age, escapes: bool) {
        if self.latest.get(&attempt.client) != Some(&attempt.sequence) {
            return;
        }
        let goes_first = self.gate.is_none_or(|gate| {
            let is_over = gate.until_ns <= self.now_ns;
            is_over || (age, attempt.client) <= (gate.age, gate.client)
        });
        if escapes && goes_first {
            let until_ns = self.now_ns.saturating_add(self.wait_max_ns);
            self.gate = Some(Gate { client: attempt.client, age, until_ns });
        } else if !escapes {
            self.open_the_gate(attempt.client);
        }
    }

    /// This client's transaction is over here.
    fn open_the_gate(&mut self, client: ClientId) {
        self.gate = self.gate.filter(|gate| gate.client != client);
    }

    /// Why this attempt, which is new here, does not begin, if it does not.
    fn kept_out(&self, attempt: AttemptId) -> Option<Refusal> {
        let gate = self.gate.filter(|gate| gate.client != attempt.client && gate.until_ns > self.now_ns)?;
        let words = format!(
            "a transaction of client {} has failed so often that it is let through first; nothing was applied, retry is safe",
            gate.client
        );
        Some(self.own_refusal("cluster: gate", &words))
    }

    /// A client is gone: everything that it has sent has come, and nothing more will. What it has not decided is rolled back, even if
    /// it was prepared; and a client of the same name may begin from anew. Only for transports that bring everything in the order in
    /// which it was sent, and tell the end of each client after that.
    pub fn forget(&mut self, client: ClientId, out: &mut Vec<Answer>) {
        let all = AttemptId { client, sequence: 0 }..=AttemptId { client, sequence: u64::MAX };
        let attempts: Vec<AttemptId> = self.seats.range(all).map(|(attempt, _)| *attempt).collect();
        for attempt in attempts {
            self.end(attempt);
            self.seats.remove(&attempt);
        }
        self.latest.remove(&client);
        self.open_the_gate(client);
        self.go_on(out);
    }

    /// A branch that is free. If there is none, those who have been silent for longest are forgotten, half of all who may be: so it is
    /// seldom that all seats must be looked at.
    fn room(&mut self) -> Result<Box<Branch<BranchHost>>, TooManySessions> {
        if let Some(branch) = self.free.pop() {
            return Ok(branch);
        }
        Branch::new(&self.database).map(Box::new).or_else(|full| {
            let keeps_nobody_out = |(attempt, seat): (&AttemptId, &Seat)| {
                let branch = seat.branch.as_ref()?;
                let is_idle = !seat.is_prepared && seat.held.is_none() && !branch.standing().holds_locks;
                is_idle.then_some((seat.turn, *attempt))
            };
            let mut idle: Vec<(u64, AttemptId)> = self.seats.iter().filter_map(keeps_nobody_out).collect();
            idle.sort_unstable();
            for (_, attempt) in idle.iter().take(idle.len().div_ceil(2)) {
                self.end(*attempt);
            }
            self.free.pop().ok_or(full)
        })
    }

    /// Of an attempt that has no branch any more: why.
    fn taken(&mut self, attempt: AttemptId) -> Refusal {
        let taken = self.seats.get_mut(&attempt).and_then(|seat| seat.taken.take());
        taken.unwrap_or_else(|| {
            let words = "it kept nobody out here, and was forgotten when there was no room for another; nothing was applied, retry is \
                         safe";
            self.own_refusal("cluster: room", words)
        })
    }

    /// By a rule that no protocol has.
    fn own_refusal(&self, rule: &str, words: &str) -> Refusal {
        Refusal::of(self.server, AbortKind::Conflict, rule, words)
    }

    /// Of a transaction that an older one has made abort: takes its branch away, and tells it as soon as it asks for something. (Nothing
    /// that it was agreed to can be taken back, so it is not prepared.)
    fn end_wounded(&mut self, id: TxnId, out: &mut Vec<Answer>) {
        let Some(attempt) = self.attempts.get(&id).copied() else { return };
        let Some(abort) = self.branch(attempt).and_then(Branch::wounded) else { return };
        let refusal = self.refusal(&abort);
        let Some(seat) = self.seats.get_mut(&attempt) else { return };
        let is_asking = seat.held.is_some();
        seat.taken = (!is_asking).then(|| refusal.clone());
        self.end(attempt);
        if is_asking {
            self.refuse(attempt, refusal, out);
        }
    }

    fn set_time(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        self.database.host().set_now_ns(self.now_ns);
    }

    /// Whether this request is the attempt's next one. If it is the last one, doubled, it is answered again.
    fn take_seat(
        &mut self,
        attempt: AttemptId,
        age: Age,
        number: u32,
        ask: &Ask,
        out: &mut Vec<Answer>,
    ) -> bool {
        let latest = self.latest.get(&attempt.client).copied().unwrap_or(0);
        if attempt.sequence > latest {
            self.latest.insert(attempt.client, attempt.sequence);
            self.end_earlier(attempt);
        } else if !self.seats.contains_key(&attempt) && !self.planted.is(Bug::LateCarriedOut) {
            // Long over. Who asks for its end has not heard that it has come; anything else was late on its way.
            if let Ask::End(_) = ask {
                out.push(Answer { attempt, from: self.server, number, reply: Reply::Ended });
            }
            return false;
        }
        let seat = self.seats.entry(attempt).or_insert(Seat {
            branch: None,
            age,
            is_past_waiting: false,
            is_prepared: false,
            barred: BTreeSet::new(),
            written: BTreeSet::new(),
            kept: BTreeSet::new(),
            number: 0,
            turn: 0,
            answer: None,
            held: None,
            taken: None,
        });
        if number == seat.number && self.planted.is(Bug::DoubledUpdateCarriedOut) && ask.updates() {
            return true;
        }
        if number == seat.number
            && let Some(reply) = seat.answer.clone()
        {
            out.push(Answer { attempt, from: self.server, number, reply });
        }
        if number <= seat.number {
            return false;
        }
        // (Whoever asks for more has heard the answer before, or, if it is to end, need not.)
        self.turns += 1;
        (seat.number, seat.turn) = (number, self.turns);
        seat.answer = None;
        seat.held = None;
        true
    }

    /// A client has begun a later attempt.
    fn end_earlier(&mut self, attempt: AttemptId) {
        let first = AttemptId { sequence: 0, ..attempt };
        let earlier: Vec<AttemptId> = self.seats.range(first..attempt).map(|(attempt, _)| *attempt).collect();
        for earlier in earlier {
            let is_prepared =
                self.seats.get(&earlier).is_some_and(|seat| seat.is_prepared && seat.branch.is_some());
            if !is_prepared {
                self.end(earlier);
                self.seats.remove(&earlier);
            }
        }
    }

    fn branch(&mut self, attempt: AttemptId) -> Option<&mut Branch<BranchHost>> {
        self.seats.get_mut(&attempt)?.branch.as_deref_mut()
    }

    /// Takes an attempt's branch away, and takes back what it has done.
    fn end(&mut self, attempt: AttemptId) {
        let Some(seat) = self.seats.get_mut(&attempt) else { return };
        seat.is_prepared = false;
        for table in std::mem::take(&mut seat.barred) {
            self.tables[table.index()].1.unbar();
        }
        seat.held = None;
        let Some(mut branch) = seat.branch.take() else { return };
        let id = branch.id();
        branch.roll_back();
        self.attempts.remove(&id);
        self.ended.push(id);
        self.free.push(branch);
    }

    /// The coordinator has decided.
    fn decide(&mut self, attempt: AttemptId, decision: Decision, out: &mut Vec<Answer>) {
        if let Decision::Commit(at) = decision
            && let Some(branch) = self.branch(attempt)
        {
            // Of one that was not asked to prepare there is nothing to install.
            if branch.install(at).is_ok() {
                self.installed(attempt);
            }
        }
        if !(decision == Decision::Abort && self.planted.is(Bug::LostUnlock)) {
            self.end(attempt);
        }
        self.reply(attempt, Reply::Ended, out);
        if self.latest.get(&attempt.client).is_some_and(|latest| *latest > attempt.sequence) {
            self.seats.remove(&attempt);
        }
    }

    fn reply(&mut self, attempt: AttemptId, reply: Reply, out: &mut Vec<Answer>) {
        let Some(seat) = self.seats.get_mut(&attempt) else { return };
        seat.answer = self.keeps_answers.then(|| reply.clone());
        out.push(Answer { attempt, from: self.server, number: seat.number, reply });
    }

    fn refuse(&mut self, attempt: AttemptId, refusal: Refusal, out: &mut Vec<Answer>) {
        if refusal.rule.starts_with(OWN_RULES) {
            *self.refusals.entry(refusal.rule.clone()).or_default() += 1;
        }
        self.reply(attempt, Reply::Refused(refusal), out);
    }

    /// What the attempt has written can be seen now.
    fn installed(&mut self, attempt: AttemptId) {
        for table in self.seats.get(&attempt).iter().flat_map(|seat| &seat.written) {
            self.tables[table.index()].1.install();
        }
    }

    /// The attempt is sealed: until it ends, no lease of a table that it has written is extended. (It may have no time yet. But if leases were
    /// extended until it has, readers could put it off for ever.)
    fn bar_leases(&mut self, attempt: AttemptId) {
        let Some(seat) = self.seats.get_mut(&attempt) else { return };
        for table in &seat.written {
            if seat.barred.insert(*table) {
                self.tables[table.index()].1.bar();
            }
        }
    }

    /// How whole tables have leases, if they do. In an order other than the logical one no lease holds.
    fn table_leases(&self) -> Option<TableLeases> {
        self.table_leases.filter(|_| self.database.order() == Some(Order::Logical))
    }

    /// What the attempt has read is to hold until then.
    fn extend_tables(&mut self, attempt: AttemptId, at: Timestamp) {
        let (Some(options), Some(seat)) = (self.table_leases(), self.seats.get(&attempt)) else { return };
        for table in &seat.kept {
            self.tables[table.index()].1.extend(options, at, self.planted);
        }
    }

    /// What holds for the tables of which somebody keeps something that the attempt has read.
    fn leases(&self, attempt: AttemptId) -> Vec<(TableId, TableLease)> {
        let (Some(options), Some(seat)) = (self.table_leases(), self.seats.get(&attempt)) else {
            return Vec::new();
        };
        let lease = |table: &TableId| {
            let state = &self.tables[table.index()].1;
            state.is_seldom_written(options).then(|| (*table, state.lease()))
        };
        seat.kept.iter().filter_map(lease).collect()
    }

    /// What was held back behind those that have ended goes on, the oldest first.
    fn go_on(&mut self, out: &mut Vec<Answer>) {
        while let Some(id) = self.ended.pop() {
            let Some(attempts) = self.waiting.remove(&id) else { continue };
            let behind = |attempt: AttemptId| {
                let held = self.seats.get(&attempt)?.held.as_ref().filter(|held| held.behind == id)?;
                Some((held.since_ns, attempt))
            };
            let mut waiting: Vec<(u64, AttemptId)> = attempts.into_iter().filter_map(behind).collect();
            waiting.sort_unstable();
            // (It may have been refused, and have come back.)
            waiting.dedup();
            for (_, attempt) in waiting {
                let Some(held) = self.seats.get_mut(&attempt).and_then(|seat| seat.held.take()) else {
                    continue;
                };
                let Held { operations, step, outcomes, since_ns, .. } = held;
                self.work(attempt, operations, step, outcomes, since_ns, out);
            }
        }
    }

    /// Carries out a request, from where it was held back on.
    fn work(
        &mut self,
        attempt: AttemptId,
        operations: Vec<Operation>,
        step: Step,
        mut outcomes: Vec<Outcome>,
        since_ns: u64,
        out: &mut Vec<Answer>,
    ) {
        let planted = self.planted;
        // (What was read before it was held back may be from before somebody wrote the table.)
        let is_read_now = outcomes.is_empty();
        let Some(Seat { branch: Some(branch), written, kept, .. }) = self.seats.get_mut(&attempt) else {
            return;
        };
        for operation in &operations[outcomes.len()..] {
            let table = operation.table();
            if operation.writes() {
                written.insert(table);
            } else if matches!(
                operation,
                Operation::Check { .. }
                    | Operation::Read { purpose: Purpose::Keep | Purpose::Confirm(_), .. }
            ) {
                kept.insert(table);
                self.tables[table.index()].1.read();
            }
        }
        let bounds = written.iter().map(|table| self.tables[table.index()].1.write_bound());
        let written_from = bounds.fold(Timestamp::ZERO, Timestamp::max);
        let tables = &self.tables;
        let mut carry_out = || {
            for operation in &operations[outcomes.len()..] {
                outcomes.push(operate(branch, tables, operation)?);
            }
            let is_lost = step != Step::Execute
                && loses_row(&operations, &outcomes)
                && !planted.is(Bug::LostRowPassedOver);
            if is_lost || stale(&operations, &outcomes).next().is_some() {
                return Ok(None);
            }
            let came = take_step(branch, step, written_from)?;
            let mut standing = branch.standing();
            standing.bound = standing.bound.max(written_from);
            Ok::<_, Abort>(Some((came, standing)))
        };
        match carry_out() {
            Ok(Some((came, standing))) => {
                // What was locked for reading is not needed any more once everything is locked everywhere.
                let ends_at_vote = match came {
                    StepOutcome::Yes => {
                        standing.holds_locks
                            && !standing.has_writes
                            && (!standing.keeps_reads || planted.is(Bug::ReadsLetGo))
                    }
                    came => came.is_left_behind(&standing),
                };
                if let (StepOutcome::Range(_, until), true) = (came, ends_at_vote)
                    && !planted.is(Bug::RangeNotLeftBehind)
                    && let Some(branch) = self.branch(attempt)
                {
                    branch.leave_range(until);
                }
                match (came, step) {
                    (StepOutcome::Committed(at), _) => {
                        self.installed(attempt);
                        self.extend_tables(attempt, at);
                    }
                    (StepOutcome::Yes, Step::Prepare { at }) | (StepOutcome::Range(at, _), _) => {
                        self.bar_leases(attempt);
                        // (Who has only read, and locked nothing, needs not be told how it ended.)
                        if let Some(seat) = self.seats.get_mut(&attempt) {
                            seat.is_prepared = !ends_at_vote && (standing.has_writes || standing.keeps_reads);
                        }
                        self.extend_tables(attempt, at);
                    }
                    (StepOutcome::Sealed(_) | StepOutcome::Later(_), _) => self.bar_leases(attempt),
                    _ => {}
                }
                if ends_at_vote || matches!(came, StepOutcome::Committed(_)) {
                    self.end(attempt);
                }
                let tables = if is_read_now { self.leases(attempt) } else { Vec::new() };
                self.reply(attempt, Reply::Worked(Work { outcomes, step: came, standing, tables }), out);
            }
            Ok(None) => {
                let words = "what it read from a copy has been replaced, and its lease is over; nothing was applied, retry is safe";
                let stale: Vec<_> = stale(&operations, &outcomes).collect();
                let refusal = match stale.is_empty() {
                    true => Refusal::lost_row(self.server),
                    false => Refusal { stale, ..self.own_refusal("cluster: copy", words) },
                };
                self.end(attempt);
                self.refuse(attempt, refusal, out);
            }
            Err(abort) => {
                let held = abort.other().filter(|_| abort.kind() == AbortKind::Held);
                match held.filter(|behind| self.may_wait(attempt, *behind)) {
                    Some(behind) => {
                        if let Some(seat) = self.seats.get_mut(&attempt) {
                            seat.held = Some(Held { operations, step, outcomes, since_ns, behind });
                            self.waiting.entry(behind).or_default().push(attempt);
                        }
                        self.end_wounded(behind, out);
                    }
                    None => {
                        let abort = match (abort.kind(), self.branch(attempt)) {
                            (AbortKind::Held, Some(branch)) => branch.give_up(abort),
                            _ => abort,
                        };
                        let refusal = self.refusal(&abort);
                        self.end(attempt);
                        self.refuse(attempt, refusal, out);
                    }
                }
            }
        }
    }

    /// Whether an attempt may wait for the end of a transaction of the database. See the [module](self).
    fn may_wait(&mut self, attempt: AttemptId, behind: TxnId) -> bool {
        let Some(other) = self.attempts.get(&behind).copied().filter(|other| *other != attempt) else {
            return false;
        };
        if self.branch(other).is_some_and(|branch| branch.is_wounded()) || self.planted.is(Bug::AgesIgnored) {
            return true;
        }
        let (Some(mine), Some(theirs)) = (self.seats.get(&attempt), self.seats.get(&other)) else {
            return false;
        };
        let is_older = (mine.age, attempt.client) < (theirs.age, other.client);
        match (mine.is_past_waiting, theirs.is_past_waiting) {
            (false, true) if !self.refuses_younger => true,
            (true, false) => false,
            _ => is_older != self.younger_waits,
        }
    }

    fn refusal(&self, abort: &Abort) -> Refusal {
        let (key, words) = explain(abort);
        Refusal {
            table: abort.table().map(str::to_owned),
            key,
            column_group: abort.column_group().map(str::to_owned),
            other: abort.other().and_then(|other| self.attempts.get(&other).copied()),
            ..Refusal::of(self.server, abort.kind(), abort.rule(), words)
        }
    }
}

/// The key that an abort is about, if it is about one, and all that it says. A key is shown as its type does it, which is the user's, and may
/// panic.
fn explain(abort: &Abort) -> (Option<String>, String) {
    catch_unwind(AssertUnwindSafe(|| (abort.key(), abort.to_string()))).unwrap_or_else(|_| {
        let table = abort.table().unwrap_or_default();
        let rule = abort.rule();
        let words = format!(
            "{table}: refused ({rule}), and its key has panicked when it was to be shown; nothing was applied"
        );
        (None, words)
    })
}

/// What the names of the rules begin with that no protocol has.
const OWN_RULES: &str = "cluster: ";

/// The rows of which copies were looked at that are not current.
fn stale<'a>(
    operations: &'a [Operation],
    outcomes: &'a [Outcome],
) -> impl Iterator<Item = (TableId, Vec<u8>)> + 'a {
    operations.iter().zip(outcomes).filter_map(|pair| match pair {
        (Operation::Check { table, key, .. }, Outcome::Done(false)) => Some((*table, key.clone())),
        (Operation::CheckNode { table, node }, Outcome::Done(false)) => Some((*table, node.lower.clone())),
        _ => None,
    })
}

/// Whether a row is not there that was to be written with a message of the commit, which nobody has been told of: the client has not
/// asked for what becomes of it.
fn loses_row(operations: &[Operation], outcomes: &[Outcome]) -> bool {
    operations.iter().zip(outcomes).any(|pair| {
        matches!(pair, (Operation::Write { .. } | Operation::Update { .. }, Outcome::Done(false)))
    })
}

/// `written_from`: what it writes may be written from then on, for all that holds for whole tables.
fn take_step(
    branch: &mut Branch<BranchHost>,
    step: Step,
    written_from: Timestamp,
) -> Result<StepOutcome, Abort> {
    Ok(match step {
        Step::Execute => StepOutcome::Executed,
        Step::Seal => StepOutcome::Sealed(branch.seal()?.max(written_from)),
        Step::Prepare { at } => match branch.seal()?.max(written_from) {
            bound if bound > at && !branch.has_range() => StepOutcome::Later(bound),
            bound => match branch.prepare(bound.max(at))? {
                Vote::Yes => StepOutcome::Yes,
                Vote::Range(from, until) => StepOutcome::Range(from, until),
                Vote::Later(bound) => StepOutcome::Later(bound),
            },
        },
        Step::Commit { at, until } => {
            // Sealed by now, so that the bound is what it is.
            let bound = branch.seal()?.max(written_from).max(at);
            if bound > at && bound > until {
                return Ok(StepOutcome::Later(bound));
            }
            match branch.prepare(bound)? {
                Vote::Yes => {
                    branch.install(bound)?;
                    StepOutcome::Committed(bound)
                }
                Vote::Range(from, _) if from == at || from <= until => {
                    branch.install(from)?;
                    StepOutcome::Committed(from)
                }
                Vote::Range(from, until) => StepOutcome::Range(from, until),
                Vote::Later(later) => StepOutcome::Later(later),
            }
        }
    })
}

fn operate(
    branch: &mut Branch<BranchHost>,
    tables: &[(UntypedTable, TableState)],
    operation: &Operation,
) -> Result<Outcome, Abort> {
    // It was looked at when the request came.
    let find = |table: &TableId| &tables[table.index()].0;
    Ok(match operation {
        Operation::Read { table, key, groups, purpose } => {
            let (table, groups) = (find(table), groups.clone());
            match purpose {
                Purpose::Read => Outcome::Row(branch.read(table, key, groups)?),
                Purpose::Write => Outcome::Row(branch.read_to_write(table, key, groups)?),
                Purpose::Keep | Purpose::Confirm(_) => {
                    let known = match purpose {
                        Purpose::Confirm(written) => Some(written.as_slice()),
                        _ => None,
                    };
                    match copied(branch.read_leased(table, key, groups, known)?) {
                        Outcome::Row(None) => {
                            branch.node_without(table, key)?.map_or(Outcome::Row(None), Outcome::Absent)
                        }
                        outcome => outcome,
                    }
                }
            }
        }
        Operation::CheckNode { table, node } => Outcome::Done(branch.is_node_current(find(table), node)?),
        Operation::Check { table, key, groups, written } => {
            Outcome::Done(branch.is_current(find(table), key, groups.clone(), written)?)
        }
        Operation::Write { table, key, groups, values } => {
            Outcome::Done(branch.write(find(table), key, groups.clone(), values)?)
        }
        Operation::Update { table, key, group, update } => {
            Outcome::Done(branch.update(find(table), key, *group, update)?)
        }
        Operation::Insert { table, key, values, replace } => {
            Outcome::Done(branch.insert(find(table), key, values, *replace)?)
        }
        Operation::Delete { table, key } => Outcome::Done(branch.delete(find(table), key)?),
        Operation::Scan { table, lower, upper, groups, reverse, limit, keep } => {
            fn bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
                bound.as_ref().map(Vec::as_slice)
            }
            let bounds = (bytes(lower), bytes(upper));
            let (table, groups) = (find(table), groups.clone());
            match keep {
                true => Outcome::Kept(branch.scan_leased(table, bounds, groups, *reverse, *limit)?),
                false => Outcome::Rows(branch.scan(table, bounds, groups, *reverse, *limit)?),
            }
        }
    })
}

fn copied(read: Option<Leased>) -> Outcome {
    match read {
        None => Outcome::Row(None),
        Some(Leased::Values(values, lease)) => Outcome::Copy(values, lease),
        Some(Leased::Known(lease)) => Outcome::Current(lease),
    }
}
