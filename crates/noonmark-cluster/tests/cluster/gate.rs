//! Whoever fails again and again is let through, and others are kept out for no longer than that takes, in whatever order its last messages come.

use noonmark::branch::{BranchHost, UntypedTable, Values};
use noonmark::{Age, Database, Protocol, SlotId, TableOptions};
use noonmark_cluster::coordinator::{Coordinator, Event, Outgoing};
use noonmark_cluster::message::{ClientId, Operation, Reply};
use noonmark_cluster::participant::Participant;
use noonmark_cluster::partition::{ServerId, TableId};

const TABLE: TableId = TableId::new(0);

fn server(number: u16) -> Participant {
    let database = Database::builder().host(BranchHost::new(number.into())).build().unwrap();
    let options = TableOptions::new().protocol(Protocol::TwoPhaseWaitDie);
    let table = database.create_table::<u64, i64>("rows", options).unwrap();
    let mut server = Participant::new(ServerId::new(number), database);
    server.add_table(UntypedTable::of(&table));
    server
}

fn client(worker: u16) -> ClientId {
    ClientId { server: ServerId::new(0), worker }
}

fn age(number: u64) -> Age {
    Age::new(number, SlotId::NOBODY)
}

fn insert(key: u64) -> Operation {
    Operation::Insert {
        table: TABLE,
        key: key.to_be_bytes().to_vec(),
        values: Values::of(&1_i64),
        replace: false,
    }
}

/// Whether somebody who begins now at this server is refused, as another is let through.
fn is_kept_out(server: &mut Participant, worker: u16) -> bool {
    let mut coordinator = Coordinator::new(client(worker));
    let (mut out, mut answers) = (Vec::new(), Vec::new());
    coordinator.begin(0, age(100 + u64::from(worker)), &mut out);
    coordinator.operate(0, vec![(ServerId::new(0), insert(u64::from(worker)))], &mut out);
    coordinator.abort(0, &mut out);
    out.into_iter().for_each(|sent| server.receive(0, sent.request, &mut answers));
    answers.iter().any(|answer| match &answer.reply {
        Reply::Refused(refusal) => refusal.rule == "cluster: gate",
        _ => false,
    })
}

/// A transaction that is let through has begun at both servers and is prepared at the first, when it ends, as one that the second refuses does. What it
/// has sent to the first server last: that the attempt has ended, and that others may be let in.
fn endings_of_one_let_through(servers: &mut [Participant; 2]) -> [Outgoing; 2] {
    let mut coordinator = Coordinator::new(client(1));
    let (mut out, mut answers) = (Vec::new(), Vec::new());
    coordinator.begin(0, age(1), &mut out);
    coordinator.let_through();
    let both = [0, 1].map(|number| (ServerId::new(number), insert(0)));
    coordinator.operate(0, both.into(), &mut out);
    for sent in std::mem::take(&mut out) {
        servers[sent.to.index()].receive(0, sent.request, &mut answers);
    }
    let events = answers.drain(..).filter_map(|answer| coordinator.receive(0, answer, &mut out));
    assert!(matches!(events.collect::<Vec<_>>()[..], [Event::Operated(_)]));
    coordinator.commit(0, &mut out);
    // Of what comes now the second server gets nothing.
    while !out.is_empty() {
        for sent in std::mem::take(&mut out).into_iter().filter(|sent| sent.to.index() == 0) {
            servers[0].receive(0, sent.request, &mut answers);
        }
        for answer in answers.drain(..) {
            assert_eq!(coordinator.receive(0, answer, &mut out), None);
        }
    }
    coordinator.abort(0, &mut out);
    coordinator.let_others_in(0, &mut out);
    out.retain(|sent| sent.to.index() == 0);
    out.try_into().expect("the attempt's end, and the transaction's")
}

#[test]
fn others_are_let_in_in_whatever_order_the_endings_come() {
    for is_reordered in [false, true] {
        let mut servers = [0, 1].map(server);
        let mut endings = endings_of_one_let_through(&mut servers);
        let [first, _] = &mut servers;
        assert_eq!(first.holding(), 1, "what is prepared waits for its decision");
        assert!(is_kept_out(first, 2));
        if is_reordered {
            endings.reverse();
        }
        let mut answers = Vec::new();
        endings.into_iter().for_each(|sent| first.receive(0, sent.request, &mut answers));
        assert_eq!(first.holding(), 0);
        assert!(!is_kept_out(first, 3), "reordered: {is_reordered}");
    }
}

/// An attempt that was let through, and is not the client's last one, ends late: the one that is running since is let through all the same.
#[test]
fn a_late_end_does_not_let_others_in() {
    let mut servers = [0, 1].map(server);
    let [end, _] = endings_of_one_let_through(&mut servers);
    let [first, _] = &mut servers;
    let (mut out, mut answers) = (Vec::new(), Vec::new());
    let mut again = Coordinator::new(client(1));
    // (Its first two have been seen.)
    for _ in 0..3 {
        again.begin(0, age(1), &mut out);
    }
    again.let_through();
    again.operate(0, vec![(ServerId::new(0), insert(7))], &mut out);
    let mut late = end.request;
    late.escapes = false;
    for request in out.into_iter().map(|sent| sent.request).chain([late]) {
        first.receive(0, request, &mut answers);
    }
    assert!(is_kept_out(first, 2));
}
