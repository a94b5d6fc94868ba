//! Servers in the same thread as their clients, for tests that need no network.

use noonmark::branch::{BranchHost, UntypedTable};
use noonmark::{Database, IndexKind, Order, Protocol, TableOptions};
use noonmark_cluster::client::{Client, ClusterAbort, Link, Received, Table};
use noonmark_cluster::coordinator::Outgoing;
use noonmark_cluster::message::{Answer, ClientId};
use noonmark_cluster::participant::Participant;
use noonmark_cluster::partition::{PartitionMap, Partitioning, ServerId};
use noonmark_cluster::table_lease::TableLeases;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

pub type Servers = Rc<RefCell<Vec<Participant>>>;

/// Servers in the same thread. Each answer is there when it is asked for a second time.
pub struct Direct {
    servers: Servers,
    answers: VecDeque<Answer>,
}

impl Link for Direct {
    fn send(&mut self, outgoing: Outgoing) {
        let mut answers = Vec::new();
        self.servers.borrow_mut()[outgoing.to.index()].receive(0, outgoing.request, &mut answers);
        self.answers.extend(answers);
    }

    async fn receive(&mut self, _until_ns: Option<u64>) -> Received {
        let mut has_waited = false;
        poll_fn(|_| if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
        // Whoever waits for what nobody will send is told so.
        self.answers.pop_front().map_or(Received::Closed, Received::Answer)
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn random(&mut self) -> u64 {
        0
    }
}

pub struct Made {
    pub servers: Servers,
    pub map: Arc<PartitionMap>,
    pub client: Client<Direct>,
    pub table: Table<u64, i64>,
}

/// Two servers with a table by hash, whose index is a hash index.
pub fn cluster() -> Made {
    cluster_of(64, Order::Logical)
}

/// The same, with room for so many branches at each server.
pub fn cluster_of(branches_max: usize, order: Order) -> Made {
    cluster_on(IndexKind::Hash, branches_max, order)
}

/// The same, on another index.
pub fn cluster_on(index: IndexKind, branches_max: usize, order: Order) -> Made {
    cluster_by(Protocol::Sundial, index, branches_max, order)
}

/// The same, under another protocol.
pub fn cluster_by(protocol: Protocol, index: IndexKind, branches_max: usize, order: Order) -> Made {
    let mut map = PartitionMap::new(2);
    let id = map.add(Partitioning::Hash { prefix_bytes: 8 }).unwrap();
    let server = |number: u16| {
        let host = BranchHost::new(number.into());
        let database =
            Database::builder().host(host).order(order).max_sessions(branches_max).build().unwrap();
        let options = TableOptions::new().protocol(protocol).index(index);
        let table = database.create_table::<u64, i64>("accounts", options).unwrap();
        let leases = TableLeases { reads_min: 4, beyond_max: 8 };
        let mut server = Participant::new(ServerId::new(number), database).with_table_leases(Some(leases));
        server.add_table(UntypedTable::of(&table));
        server
    };
    let servers: Servers = Rc::new(RefCell::new((0..2).map(server).collect()));
    let link = Direct { servers: servers.clone(), answers: VecDeque::new() };
    let map = Arc::new(map);
    let client = Client::new(ClientId { server: ServerId::new(0), worker: 0 }, map.clone(), link);
    let mut made = Made { servers, map, client, table: Table::new(id) };
    let table = &made.table;
    let filled: Result<(), ClusterAbort> = run(made.client.transact(async |tx| {
        for key in 0..8 {
            tx.insert(table, key, key as i64 * 100).await?;
        }
        Ok(())
    }));
    assert_eq!(filled, Ok(()));
    made
}

impl Made {
    /// One more client.
    pub fn another(&self, worker: u16) -> Client<Direct> {
        let link = Direct { servers: self.servers.clone(), answers: VecDeque::new() };
        Client::new(ClientId { server: ServerId::new(0), worker }, self.map.clone(), link)
    }
}

/// Polls it until it is ready.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}
