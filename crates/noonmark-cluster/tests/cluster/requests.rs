//! What one server answers, request by request, where a wrong answer shows in few histories: who is remembered, until when something holds, and
//! what may be said of a whole table.

use noonmark::branch::{BranchHost, Lease, UntypedTable, Values};
use noonmark::{Age, Database, Protocol, SlotId, TableOptions, Timestamp};
use noonmark_cluster::cache::Place;
use noonmark_cluster::coordinator::{Coordinator, CopyRead, Event, Outgoing};
use noonmark_cluster::message::{
    Answer, Ask, AttemptId, ClientId, Decision, Operation, Outcome, Purpose, Reply, Request, Step,
    StepOutcome, Work,
};
use noonmark_cluster::participant::Participant;
use noonmark_cluster::partition::{ServerId, TableId};
use noonmark_cluster::table_lease::TableLeases;

const TABLE: TableId = TableId::new(0);
/// Of the second table, where there is one.
const OTHER: TableId = TableId::new(1);

/// A server, and how many requests each client has sent it: a client has one transaction.
struct Server {
    participant: Participant,
    numbers: [u32; 16],
}

impl Server {
    /// With a table under each of these, and room for so many transactions.
    fn new(number: u16, protocols: &[Protocol], transactions_max: usize, frozen_ticks: u64) -> Self {
        let host = BranchHost::new(number.into());
        let database = Database::builder().host(host).max_sessions(transactions_max).build().unwrap();
        let leases = TableLeases { reads_min: 1, beyond_max: 1 };
        let participant = Participant::new(ServerId::new(number), database)
            .with_frozen_ticks(frozen_ticks)
            .with_table_leases(Some(leases));
        let mut server = Server { participant, numbers: [0; 16] };
        for (number, protocol) in protocols.iter().enumerate() {
            let options = TableOptions::new().protocol(*protocol);
            let name = format!("table {number}");
            let table = server.participant.database().create_table::<u64, i64>(&name, options).unwrap();
            server.participant.add_table(UntypedTable::of(&table));
        }
        // (Whoever fills it is gone before anybody else comes.)
        for (number, table) in [TABLE, OTHER].into_iter().take(protocols.len()).enumerate() {
            let client = 14 + number as u16;
            let rows = (0..3).map(|row| {
                let values = Values::of(&0_i64);
                Operation::Insert { table, key: key(row), values, replace: false }
            });
            server.commits(client, 0, rows.collect(), u64::MAX);
        }
        server
    }

    /// What is answered to anybody once this has come.
    fn receive(&mut self, client: u16, floor: u64, ask: Ask) -> Vec<Answer> {
        let number = &mut self.numbers[usize::from(client)];
        *number += 1;
        let request = Request {
            attempt: AttemptId { client: ClientId { server: ServerId::new(0), worker: client }, sequence: 1 },
            age: Age::new(client.into(), SlotId::new(client.into()).unwrap()),
            floor: Timestamp::new(floor),
            number: *number,
            is_past_waiting: false,
            escapes: false,
            ask,
        };
        let mut answers = Vec::new();
        self.participant.receive(0, request, &mut answers);
        answers
    }

    /// What comes of it, if it is answered at once.
    fn asks(&mut self, client: u16, floor: u64, operations: Vec<Operation>, step: Step) -> Option<Work> {
        let mut answers = self.receive(client, floor, Ask::Work(operations, step));
        match answers.pop() {
            Some(Answer { reply: Reply::Worked(work), .. }) => Some(work),
            Some(Answer { reply, .. }) => panic!("{reply:?}"),
            None => None,
        }
    }

    fn executes(&mut self, client: u16, floor: u64, operation: Operation) -> Option<Work> {
        self.asks(client, floor, vec![operation], Step::Execute)
    }

    /// All of a transaction that takes place here alone, in one message: it commits.
    fn commits(&mut self, client: u16, at: u64, operations: Vec<Operation>, until: u64) -> Work {
        let (at, until) = (Timestamp::new(at), Timestamp::new(until));
        let work = self.asks(client, at.ticks(), operations, Step::Commit { at, until }).unwrap();
        assert!(matches!(work.step, StepOutcome::Committed(_)), "{work:?}");
        work
    }

    /// Why this is refused.
    fn refuses(&mut self, client: u16, operations: Vec<Operation>, step: Step) -> String {
        match self.receive(client, 0, Ask::Work(operations, step)).pop() {
            Some(Answer { reply: Reply::Refused(refusal), .. }) => refusal.rule,
            other => panic!("{other:?}"),
        }
    }
}

fn key(row: u64) -> Vec<u8> {
    row.to_be_bytes().to_vec()
}

fn read(table: TableId, row: u64, purpose: Purpose) -> Operation {
    Operation::Read { table, key: key(row), groups: 0..1, purpose }
}

fn write(table: TableId, row: u64, value: i64) -> Operation {
    Operation::Write { table, key: key(row), groups: 0..1, values: Values::of(&value) }
}

fn prepare(at: u64) -> Step {
    Step::Prepare { at: Timestamp::new(at) }
}

/// Were leases of the whole table extended while he waits to be told his commit time, it would be too early when he is, each time.
#[test]
fn who_is_sealed_finds_the_lease_of_the_table_where_it_was() {
    for asks_first in [Step::Seal, prepare(1)] {
        let mut server = Server::new(0, &[Protocol::Sundial], 16, 0);
        let keep = |row| read(TABLE, row, Purpose::Keep);
        server.commits(1, 10, vec![keep(1)], u64::MAX);
        server.executes(2, 0, read(TABLE, 0, Purpose::Write)).unwrap();
        let work = server.asks(2, 0, vec![write(TABLE, 0, 1)], asks_first).unwrap();
        let (StepOutcome::Sealed(bound) | StepOutcome::Later(bound)) = work.step else { panic!("{work:?}") };
        assert!(bound > Timestamp::new(10), "after the lease of the whole table: {bound:?}");
        server.commits(3, 100, vec![keep(2)], u64::MAX);
        let work = server.asks(2, 0, Vec::new(), Step::Prepare { at: bound }).unwrap();
        assert_eq!(work.step, StepOutcome::Yes);
    }
}

/// A reader who has frozen a range has agreed to commit in it, though it keeps nobody out: whoever came before it there would change what it
/// has read.
#[test]
fn who_is_prepared_is_remembered_when_there_is_no_room() {
    for protocol in [Protocol::Ranges, Protocol::Dynamic] {
        let mut server = Server::new(0, &[protocol], 2, u64::MAX);
        let get = || read(TABLE, 0, Purpose::Read);
        let prepared = server.asks(1, 5, vec![get()], prepare(5)).unwrap();
        assert!(matches!(prepared.step, StepOutcome::Range(_, Timestamp::MAX)), "{prepared:?}");
        assert!(!prepared.standing.holds_locks);
        server.executes(2, 0, get()).unwrap();
        let (at, until) = (Timestamp::ZERO, Timestamp::MAX);
        let rule = server.refuses(3, vec![write(TABLE, 0, 1)], Step::Commit { at, until });
        assert!(["range: frozen", "ranges: part"].contains(&&*rule), "{protocol}: {rule}");
        let told = server.refuses(2, vec![get()], Step::Execute);
        assert_eq!(told, "cluster: room", "who has only read is who makes room");
    }
}

/// Who is asked alone commits at a time of his own choice, but for this: what was read elsewhere holds until then only.
#[test]
fn who_is_asked_alone_commits_no_later_than_what_was_read_elsewhere_holds() {
    for protocol in [Protocol::Ranges, Protocol::Dynamic] {
        let mut server = Server::new(0, &[protocol], 16, 8);
        let both = vec![read(TABLE, 0, Purpose::Read), write(TABLE, 2, 1)];
        let prepared = server.asks(1, 0, both, prepare(50)).unwrap();
        let StepOutcome::Range(_, frozen_until) = prepared.step else { panic!("{protocol}: {prepared:?}") };
        let step = Step::Commit { at: Timestamp::new(1), until: Timestamp::new(10) };
        let work = server.asks(2, 0, vec![write(TABLE, 0, 1)], step).unwrap();
        let StepOutcome::Range(from, _) = work.step else { panic!("{protocol}: {work:?}") };
        assert!(from > frozen_until, "after the one who has read it: {from:?}");
    }
}

/// A row whose writer is prepared is read as it was only by those who can still commit before it is replaced: what has turned out elsewhere counts.
#[test]
fn what_has_turned_out_elsewhere_counts_when_a_row_is_read() {
    for (floor, is_answered) in [(0, true), (50, false)] {
        let mut server = Server::new(0, &[Protocol::Sundial], 16, 0);
        let get = |row| read(TABLE, row, Purpose::Read);
        server.executes(1, 0, get(1)).unwrap();
        server.executes(2, 20, read(TABLE, 0, Purpose::Write)).unwrap();
        let prepared = server.asks(2, 20, vec![write(TABLE, 0, 1)], prepare(20)).unwrap();
        assert_eq!(prepared.step, StepOutcome::Yes);
        assert_eq!(server.executes(1, floor, get(0)).is_some(), is_answered, "from {floor} on");
        let answers = server.receive(2, 20, Ask::End(Decision::Commit(Timestamp::new(20))));
        assert_eq!(answers.len(), if is_answered { 1 } else { 2 }, "{answers:?}");
    }
}

/// Of a table that was written while its reader was held back, the lease as it is now says nothing of what was read before.
#[test]
fn no_lease_of_a_table_is_told_with_what_was_read_before_somebody_wrote_it() {
    let mut server = Server::new(0, &[Protocol::Sundial], 16, 0);
    let keep = |row| read(TABLE, row, Purpose::Keep);
    assert_eq!(server.commits(1, 10, vec![keep(0), keep(1)], u64::MAX).tables.len(), 1);
    server.executes(3, 20, read(TABLE, 1, Purpose::Write)).unwrap();
    let prepared = server.asks(3, 20, vec![write(TABLE, 1, 1)], prepare(20)).unwrap();
    assert_eq!(prepared.step, StepOutcome::Yes);
    // It has the first row, and waits for the second one; meanwhile the first one is replaced.
    assert_eq!(server.asks(2, 50, vec![keep(0), keep(1)], Step::Execute), None);
    server.commits(4, 30, vec![write(TABLE, 0, 1)], u64::MAX);
    let mut answers = server.receive(3, 20, Ask::End(Decision::Commit(Timestamp::new(20))));
    answers.retain(|answer| answer.attempt.client.worker == 2);
    let [Answer { reply: Reply::Worked(work), .. }] = &answers[..] else { panic!("{answers:?}") };
    let values = work.outcomes.iter().map(|outcome| match outcome {
        Outcome::Copy(values, _) => values.decode::<i64>().unwrap(),
        other => panic!("{other:?}"),
    });
    assert_eq!(values.collect::<Vec<_>>(), [0, 1], "of the first row, what was there before");
    assert_eq!(work.tables, []);
    // Two reads since then, and there is one again, which is told.
    let after = server.commits(5, 60, vec![keep(0), keep(1)], u64::MAX);
    assert_eq!(after.tables.iter().map(|(_, lease)| lease.writes).collect::<Vec<_>>(), [3]);
}

/// A server that has agreed to a range with an end, and has nothing to write, is done with its vote. If the commit time must be a later one then, nobody
/// can look there any more whether a copy still is what the row is.
#[test]
fn a_copy_that_nobody_can_look_at_any_more_ends_with_its_lease() {
    for lease_until in [60, 15] {
        let protocols = [Protocol::Sundial, Protocol::Ranges];
        let mut servers =
            [(0, 100), (1, 10)].map(|(number, frozen)| Server::new(number, &protocols, 16, frozen));
        let mut coordinator = Coordinator::new(ClientId { server: ServerId::new(0), worker: 1 });
        let mut out: Vec<Outgoing> = Vec::new();
        coordinator.begin(0, Age::new(1, SlotId::new(1).unwrap()), &mut out);
        let place = Place { server: ServerId::new(0), table: TABLE, key: key(0), groups: 0..1 };
        let lease = Lease { written: vec![Timestamp::new(1)], until: Timestamp::new(lease_until) };
        coordinator.read_copy(CopyRead { place, lease, node: None });
        let reads = [(0, read(OTHER, 0, Purpose::Read)), (1, read(TABLE, 1, Purpose::Write))];
        let reads = reads.map(|(server, operation)| (ServerId::new(server), operation));
        coordinator.operate(0, reads.into(), &mut out);
        assert!(matches!(deliver(&mut servers, &mut coordinator, &mut out), Some(Event::Operated(_))));
        // The row that it is going to write is read, at a later time than it would be replaced.
        servers[1].commits(3, 40, vec![read(TABLE, 1, Purpose::Read)], u64::MAX);
        coordinator.defer(ServerId::new(1), write(TABLE, 1, 1), false);
        assert_eq!(coordinator.commit(0, &mut out), None);
        match (lease_until, deliver(&mut servers, &mut coordinator, &mut out)) {
            (60, Some(Event::Committed(at))) => assert!(at > Timestamp::new(40), "{at:?}"),
            (15, Some(Event::Aborted(why))) => assert_eq!(why.rule, "cluster: ranges"),
            (_, other) => panic!("{lease_until}: {other:?}"),
        }
        assert_eq!(servers.map(|server| server.participant.holding()), [0, 0]);
    }
}

/// Until nothing is on its way.
fn deliver(
    servers: &mut [Server; 2],
    coordinator: &mut Coordinator,
    out: &mut Vec<Outgoing>,
) -> Option<Event> {
    let mut last = None;
    while !out.is_empty() {
        let mut answers = Vec::new();
        for sent in std::mem::take(out) {
            servers[sent.to.index()].participant.receive(0, sent.request, &mut answers);
        }
        for answer in answers {
            last = coordinator.receive(0, answer, out).or(last);
        }
    }
    last
}

/// Whoever is past waiting makes others wait whatever their ages, and is refused himself where he would have to: that is for those only who ask for nothing
/// more that another may have.
#[test]
fn who_still_asks_for_rows_is_not_past_waiting() {
    for asks_for_more in [false, true] {
        let mut servers = [0, 1].map(|number| Server::new(number, &[Protocol::Sundial], 16, 0));
        let mut coordinator = Coordinator::new(ClientId { server: ServerId::new(0), worker: 1 });
        let mut out: Vec<Outgoing> = Vec::new();
        coordinator.begin(0, Age::new(1, SlotId::new(1).unwrap()), &mut out);
        let rows = [0, 1].map(|server| (ServerId::new(server), read(TABLE, 0, Purpose::Write)));
        coordinator.operate(0, rows.into(), &mut out);
        assert!(matches!(deliver(&mut servers, &mut coordinator, &mut out), Some(Event::Operated(_))));
        for server in [0, 1] {
            coordinator.defer(ServerId::new(server), write(TABLE, 0, 1), false);
        }
        if asks_for_more {
            coordinator.defer_unannounced(ServerId::new(1), write(TABLE, 1, 1));
        }
        assert_eq!(coordinator.commit(0, &mut out), None);
        let said: Vec<bool> = out.iter().map(|sent| sent.request.is_past_waiting).collect();
        assert_eq!(said, [!asks_for_more; 2]);
    }
}
