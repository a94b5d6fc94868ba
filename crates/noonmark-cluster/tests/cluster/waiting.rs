//! The younger of two writers, and the older one at each of his steps: refused while the older one executes, and held back once he has prepared,
//! until it is decided. But not where the protocol refuses, or the server is told to. And what is held back may come twice.

use noonmark::branch::{BranchHost, NumberUpdate, PlainUpdate, UntypedTable, Values};
use noonmark::{Age, Column, Database, Fold, Protocol, SlotId, TableOptions};
use noonmark_cluster::coordinator::{Coordinator, Event, Outgoing};
use noonmark_cluster::message::{Answer, ClientId, Operation, Outcome, Purpose};
use noonmark_cluster::participant::Participant;
use noonmark_cluster::partition::{ServerId, TableId};

const TABLE: TableId = TableId::new(0);
const KEY: [u8; 8] = [0; 8];

/// What becomes of the younger one's request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Younger {
    IsRefused,
    IsHeldBack,
}

fn server(number: u16, protocol: Protocol, refuses_younger: bool) -> Participant {
    let database = Database::builder().host(BranchHost::new(number.into())).build().unwrap();
    let table = database.create_table::<u64, i64>("rows", TableOptions::new().protocol(protocol)).unwrap();
    let server = Participant::new(ServerId::new(number), database);
    let mut server = server.with_younger_refused(refuses_younger);
    server.add_table(UntypedTable::of(&table));
    server
}

fn transaction(number: u16) -> (Coordinator, Vec<Outgoing>) {
    let mut coordinator = Coordinator::new(ClientId { server: ServerId::new(0), worker: number });
    let mut out = Vec::new();
    coordinator.begin(0, Age::new(number.into(), SlotId::new(number.into()).unwrap()), &mut out);
    (coordinator, out)
}

/// Delivers messages to and from these servers until there are none: what the transaction has come to, and what is for other servers.
fn deliver(
    servers: &mut [Participant],
    to: &[usize],
    coordinator: &mut Coordinator,
    mut out: Vec<Outgoing>,
) -> (Option<Event>, Vec<Outgoing>) {
    let (mut last, mut others) = (None, Vec::new());
    while !out.is_empty() {
        let mut answers: Vec<Answer> = Vec::new();
        for sent in std::mem::take(&mut out) {
            match to.contains(&sent.to.index()) {
                true => servers[sent.to.index()].receive(0, sent.request, &mut answers),
                false => others.push(sent),
            }
        }
        for answer in answers {
            assert_eq!(answer.attempt.client, coordinator.client(), "an answer for the other one");
            last = coordinator.receive(0, answer, &mut out).or(last);
        }
    }
    (last, others)
}

fn row(server: u16) -> (ServerId, Operation) {
    let read = Operation::Read { table: TABLE, key: KEY.to_vec(), groups: 0..1, purpose: Purpose::Write };
    (ServerId::new(server), read)
}

fn write(server: u16, to: i64) -> (ServerId, Operation) {
    let values = Values::of(&to);
    (ServerId::new(server), Operation::Write { table: TABLE, key: KEY.to_vec(), groups: 0..1, values })
}

/// The younger one wants to write the row of the first server while the older one, who writes both servers', has it: executing, or prepared
/// there and not yet at the second one.
fn younger_meets(protocol: Protocol, refuses_younger: bool, is_prepared: bool) -> Younger {
    let mut servers: Vec<_> = (0..2).map(|number| server(number, protocol, refuses_younger)).collect();
    let (mut first, out) = transaction(0);
    deliver(&mut servers, &[0, 1], &mut first, out);
    let insert = |server| {
        let (table, key, values) = (TABLE, KEY.to_vec(), Values::of(&1_i64));
        (ServerId::new(server), Operation::Insert { table, key, values, replace: false })
    };
    let mut out = Vec::new();
    first.operate(0, vec![insert(0), insert(1)], &mut out);
    deliver(&mut servers, &[0, 1], &mut first, out);
    let mut out = Vec::new();
    first.commit(0, &mut out);
    let (committed, _) = deliver(&mut servers, &[0, 1], &mut first, out);
    assert!(matches!(committed, Some(Event::Committed(_))), "{committed:?}");

    let (mut older, mut out) = transaction(1);
    older.operate(0, vec![row(0), row(1)], &mut out);
    let (read, _) = deliver(&mut servers, &[0, 1], &mut older, out);
    assert!(matches!(read, Some(Event::Operated(_))), "{protocol}: {read:?}");
    for (server, write) in [write(0, 2), write(1, 2)] {
        older.defer(server, write, false);
    }
    let mut to_second = Vec::new();
    if is_prepared {
        let mut out = Vec::new();
        assert_eq!(older.commit(0, &mut out), None);
        let (none, others) = deliver(&mut servers, &[0], &mut older, out);
        assert_eq!(none, None);
        to_second = others;
    }

    let (mut younger, mut out) = transaction(2);
    younger.operate(0, vec![row(0)], &mut out);
    let (told, _) = deliver(&mut servers, &[0, 1], &mut younger, out);
    match told {
        Some(Event::Aborted(refusal)) => {
            assert_eq!(refusal.other.unwrap().client, older.client(), "{refusal:?}");
            return Younger::IsRefused;
        }
        other => assert_eq!(other, None, "{protocol}"),
    }
    // Nobody has told the younger one anything. With the end of the older one he reads what that one has written.
    let mut answers = Vec::new();
    for sent in to_second {
        servers[sent.to.index()].receive(0, sent.request, &mut answers);
    }
    let (mut out, mut committed) = (Vec::new(), None);
    for answer in answers {
        committed = older.receive(0, answer, &mut out).or(committed);
    }
    assert!(matches!(committed, Some(Event::Committed(_))), "{protocol}: {committed:?}");
    let mut answers = Vec::new();
    for sent in out {
        servers[sent.to.index()].receive(0, sent.request, &mut answers);
    }
    let to_younger = answers.into_iter().find(|answer| answer.attempt.client == younger.client()).unwrap();
    let read = younger.receive(0, to_younger, &mut Vec::new());
    assert_eq!(read, Some(Event::Operated(vec![Outcome::Row(Some(Values::of(&2_i64)))])), "{protocol}");
    Younger::IsHeldBack
}

#[test]
fn the_younger_waits_for_whoever_has_prepared() {
    use Protocol::{Ranges, Sundial, Swiss, TwoPhaseWaitDie};
    use Younger::{IsHeldBack, IsRefused};
    for (protocol, then) in
        [(Sundial, IsHeldBack), (Ranges, IsHeldBack), (TwoPhaseWaitDie, IsRefused), (Swiss, IsRefused)]
    {
        assert_eq!(younger_meets(protocol, false, false), IsRefused, "{protocol}, executing");
        assert_eq!(younger_meets(protocol, false, true), then, "{protocol}, prepared");
        assert_eq!(younger_meets(protocol, true, true), IsRefused, "{protocol}, told to refuse");
    }
}

/// A request may come again while it is held back, in the midst of what it asks for: what has been done of it already is not done again.
#[test]
fn a_request_that_comes_again_while_it_is_held_back_is_carried_out_once() {
    for protocol in [Protocol::TwoPhaseWaitDie, Protocol::Sundial] {
        let mut servers = [server(0, protocol, false)];
        let (first, second) = (0_u64.to_be_bytes().to_vec(), 1_u64.to_be_bytes().to_vec());
        let insert = |key: &Vec<u8>| {
            let (table, key, values) = (TABLE, key.clone(), Values::of(&1_i64));
            (ServerId::new(0), Operation::Insert { table, key, values, replace: false })
        };
        let read = |key: &Vec<u8>, purpose| {
            let (table, key) = (TABLE, key.clone());
            (ServerId::new(0), Operation::Read { table, key, groups: 0..1, purpose })
        };
        let (mut loader, mut out) = transaction(0);
        loader.operate(0, vec![insert(&first), insert(&second)], &mut out);
        deliver(&mut servers, &[0], &mut loader, out);
        let mut out = Vec::new();
        loader.commit(0, &mut out);
        deliver(&mut servers, &[0], &mut loader, out);

        // The younger one has the second row, for which the older one waits when it has added to the first.
        let (mut younger, mut out) = transaction(2);
        younger.operate(0, vec![read(&second, Purpose::Write)], &mut out);
        deliver(&mut servers, &[0], &mut younger, out);
        let (mut older, mut out) = transaction(1);
        let update = NumberUpdate::of(Column::<i64, i64>::whole(), Fold::Add, 10).unwrap();
        let update = PlainUpdate::Number(update);
        let add = Operation::Update { table: TABLE, key: first.clone(), group: 0, update };
        older.operate(0, vec![(ServerId::new(0), add), read(&second, Purpose::Write)], &mut out);
        let mut answers = Vec::new();
        for sent in &out {
            for _ in 0..3 {
                servers[0].receive(0, sent.request.clone(), &mut answers);
            }
        }
        assert!(answers.is_empty(), "{protocol}: {answers:?}");
        let mut out = Vec::new();
        younger.abort(0, &mut out);
        for sent in out {
            servers[0].receive(0, sent.request, &mut answers);
        }
        let (mut out, mut told) = (Vec::new(), None);
        let to_older = older.client();
        for answer in answers.into_iter().filter(|answer| answer.attempt.client == to_older) {
            told = older.receive(0, answer, &mut out).or(told);
        }
        assert!(matches!(told, Some(Event::Operated(_))), "{protocol}: {told:?}");
        older.commit(0, &mut out);
        let (committed, _) = deliver(&mut servers, &[0], &mut older, out);
        assert!(matches!(committed, Some(Event::Committed(_))), "{protocol}: {committed:?}");

        let (mut reader, mut out) = transaction(3);
        reader.operate(0, vec![read(&first, Purpose::Read)], &mut out);
        let (found, _) = deliver(&mut servers, &[0], &mut reader, out);
        assert_eq!(found, Some(Event::Operated(vec![Outcome::Row(Some(Values::of(&11_i64)))])), "{protocol}");
    }
}
