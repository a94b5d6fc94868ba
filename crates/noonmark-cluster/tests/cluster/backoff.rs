//! How long a client waits after a conflict, by what its messages take; and how long it is until it sends one again.

use noonmark::branch::{BranchHost, UntypedTable, Values};
use noonmark::{AbortKind, Age, Database, Protocol, SlotId, TableOptions};
use noonmark_cluster::client::{Client, ClusterAbort, Link, Policy, Received, Table};
use noonmark_cluster::coordinator::{Coordinator, Outgoing};
use noonmark_cluster::message::{Answer, ClientId, Operation};
use noonmark_cluster::participant::Participant;
use noonmark_cluster::partition::{PartitionMap, Partitioning, ServerId};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A way to one server. Each answer takes the same time, and all else none.
struct Slow {
    server: Participant,
    answers: VecDeque<Answer>,
    now_ns: u64,
    round_trip_ns: u64,
    /// For how long somebody has waited for nothing but time, each time.
    pauses_ns: Vec<u64>,
    paused_until_ns: u64,
}

impl Link for Slow {
    fn send(&mut self, outgoing: Outgoing) {
        let mut answers = Vec::new();
        self.server.receive(self.now_ns, outgoing.request, &mut answers);
        self.answers.extend(answers);
    }

    async fn receive(&mut self, until_ns: Option<u64>) -> Received {
        // (Nothing is sent again: that would be at the end of time.)
        let until_ns = until_ns.filter(|until_ns| *until_ns < u64::MAX);
        if let Some(until_ns) = until_ns.filter(|until_ns| *until_ns != self.paused_until_ns) {
            self.pauses_ns.push(until_ns - self.now_ns);
            self.paused_until_ns = until_ns;
        }
        match (self.answers.pop_front(), until_ns) {
            (Some(answer), _) => {
                self.now_ns += self.round_trip_ns;
                Received::Answer(answer)
            }
            (None, Some(until_ns)) => {
                self.now_ns = self.now_ns.max(until_ns);
                Received::Nothing
            }
            (None, None) => panic!("it waits for an answer that will not come"),
        }
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn random(&mut self) -> u64 {
        u64::MAX
    }
}

fn client(worker: u16) -> ClientId {
    ClientId { server: ServerId::new(0), worker }
}

/// Somebody tries three times to put in a row that another is putting in, and pauses twice.
fn pauses_ns(round_trip_ns: u64, policy: Policy) -> Vec<u64> {
    let mut map = PartitionMap::new(1);
    let id = map.add(Partitioning::Hash { prefix_bytes: 8 }).unwrap();
    let database = Database::builder().host(BranchHost::new(0)).build().unwrap();
    let options = TableOptions::new().protocol(Protocol::TwoPhaseNoWait);
    let rows = database.create_table::<u64, i64>("rows", options).unwrap();
    let mut server = Participant::new(ServerId::new(0), database);
    server.add_table(UntypedTable::of(&rows));
    let table: Table<u64, i64> = Table::new(id);

    let mut holder = Coordinator::new(client(1));
    let (mut out, mut answers) = (Vec::new(), Vec::new());
    holder.begin(0, Age::new(0, SlotId::NOBODY), &mut out);
    let key = 1_u64.to_be_bytes().to_vec();
    let insert = Operation::Insert { table: id, key, values: Values::of(&1_i64), replace: false };
    holder.operate(0, vec![(ServerId::new(0), insert)], &mut out);
    out.into_iter().for_each(|sent| server.receive(0, sent.request, &mut answers));

    let (answers, pauses_ns) = (VecDeque::new(), Vec::new());
    let link = Slow { server, answers, now_ns: 0, round_trip_ns, pauses_ns, paused_until_ns: 0 };
    let mut tries = Client::new(client(2), Arc::new(map), link)
        .with_resend_after(u64::MAX)
        .with_policy(Policy { attempts_max: Some(3), ..policy });
    {
        let mut tried = pin!(tries.transact(async |tx| tx.insert(&table, 1, 1).await));
        let Poll::Ready(tried) = tried.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it waits for nobody")
        };
        let Err(ClusterAbort::Attempts(refusal, 3)) = tried else { panic!("{tried:?}") };
        assert_eq!(refusal.kind, AbortKind::Conflict);
    }
    std::mem::take(&mut tries.link().pauses_ns)
}

#[test]
fn a_client_waits_for_as_long_as_its_messages_take() {
    for round_trip_ns in [1_000, 1_000_000] {
        let policy = Policy { backoff_round_trips: Some(4), ..Policy::default() };
        assert_eq!(pauses_ns(round_trip_ns, policy), [u64::MAX % (4 * round_trip_ns); 2]);
        // And unless told otherwise.
        assert_eq!(pauses_ns(round_trip_ns, Policy::default()), [u64::MAX % (4 * round_trip_ns); 2]);
    }
}

#[test]
fn but_for_no_longer_than_it_may() {
    let backoff_max = Duration::from_micros(300);
    for backoff_round_trips in [Some(4), None] {
        let policy = Policy { backoff_max, backoff_round_trips, ..Policy::default() };
        assert_eq!(pauses_ns(1_000_000, policy), [u64::MAX % 300_000; 2]);
    }
    let policy = Policy { backoff_max: Duration::ZERO, ..Policy::default() };
    assert_eq!(pauses_ns(1_000_000, policy), []);
}

/// What nobody answers is sent again, ever more seldom: the request, and in the end what has become of the transaction.
#[test]
fn what_is_not_answered_is_sent_again_after_twice_as_long() {
    let mut coordinator = Coordinator::new(client(1)).with_resend_after(1_000);
    let again_after_us = |coordinator: &mut Coordinator, mut sent_ns: u64| {
        let mut out = Vec::new();
        let mut next = || {
            let late_ns = coordinator.wants_time_at_ns().unwrap();
            coordinator.tick(late_ns - 1, &mut out);
            assert!(out.is_empty(), "not before its time");
            coordinator.tick(late_ns, &mut out);
            assert_eq!(out.drain(..).count(), 1);
            let waited_ns = late_ns - sent_ns;
            sent_ns = late_ns;
            waited_ns / 1_000
        };
        [(); 9].map(|()| next())
    };
    let doubled = [1, 2, 4, 8, 16, 32, 64, 64, 64];
    let mut out = Vec::new();
    coordinator.begin(0, Age::new(0, SlotId::NOBODY), &mut out);
    let mut map = PartitionMap::new(1);
    let table = map.add(Partitioning::Hash { prefix_bytes: 8 }).unwrap();
    let insert = Operation::Insert { table, key: vec![0; 8], values: Values::of(&1_i64), replace: false };
    coordinator.operate(5_000, vec![(ServerId::new(0), insert)], &mut out);
    assert_eq!(again_after_us(&mut coordinator, 5_000), doubled);
    coordinator.abort(1_000_000, &mut out);
    assert_eq!(again_after_us(&mut coordinator, 1_000_000), doubled);
}
