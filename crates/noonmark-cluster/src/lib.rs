//! Transactions that span partitions: the engine's rules, applied at servers that own the rows, on behalf of transactions that are
//! carried from elsewhere.
//!
//! Read in this order:
//!
//! 1. [`partition`]: which server owns which rows.
//! 2. [`message`]: what servers say to each other, with its size on the wire, and what must be stable before it leaves.
//! 3. [`participant`]: one server's rows, and the branches of the transactions that touch them.
//! 4. [`coordinator`]: carries a transaction from operation to operation, and through the commit.
//! 5. [`cache`]: copies of rows of other servers; and [`table_lease`], what holds for whole tables.
//! 6. [`client`]: transactions as clients write them, over whatever brings messages to servers and back; and [`phases`], what their time
//!    goes into.
//! 7. [`workers`]: servers as threads of this process, one partition each, which run [`tasks`] beside their rows; [`cluster`] puts them and their
//!    tables together, and [`executor`] runs a client's futures where there is no other one.
//!
//! Participants and coordinators are state machines: messages and the time go in, messages come out. No rule of a protocol is
//! written here: a participant has the engine apply them, through [`noonmark::branch`]. What brings the messages is a
//! [`Link`](client::Link): queues between threads here, and in `noonmark-sim` a virtual network with all its troubles.
//!
//! # What is guaranteed
//!
//! As on one engine: serializable, in the order of each session; strictly so in a cluster whose tables' databases are in momentary
//! order. A transaction is all or nothing, across servers too, whatever the network does to messages, as long as no server
//! forgets what it knows: nothing is logged yet.
//!
//! # One transaction by hand
//!
//! ```
//! use noonmark::branch::{BranchHost, UntypedTable, Values};
//! use noonmark::{Age, Database, Order, SlotId, TableOptions, Protocol};
//! use noonmark_cluster::coordinator::{Coordinator, Event};
//! use noonmark_cluster::message::{ClientId, Operation};
//! use noonmark_cluster::participant::Participant;
//! use noonmark_cluster::partition::{ServerId, TableId};
//!
//! // Two servers, each with its part of a table.
//! let mut servers = Vec::new();
//! for number in 0..2 {
//!     let database = Database::builder().host(BranchHost::new(number)).order(Order::Logical).build()?;
//!     let table = database.create_table::<u64, i64>("accounts", TableOptions::new().protocol(Protocol::Sundial))?;
//!     let mut server = Participant::new(ServerId::new(number as u16), database);
//!     server.add_table(UntypedTable::of(&table));
//!     servers.push(server);
//! }
//!
//! // One row goes to each of them, in one transaction.
//! let client = ClientId { server: ServerId::new(0), worker: 0 };
//! let mut coordinator = Coordinator::new(client);
//! let insert = |key: u64, balance: i64| Operation::Insert {
//!     table: TableId::new(0),
//!     key: key.to_be_bytes().to_vec(),
//!     values: Values::of(&balance),
//!     replace: false,
//! };
//! let (mut requests, mut answers) = (Vec::new(), Vec::new());
//! coordinator.begin(0, Age::new(0, SlotId::NOBODY), &mut requests);
//! coordinator.operate(0, vec![(ServerId::new(0), insert(1, 100)), (ServerId::new(1), insert(2, 50))], &mut requests);
//! let mut committed = None;
//! while committed.is_none() {
//!     for sent in requests.drain(..) {
//!         servers[sent.to.index()].receive(0, sent.request, &mut answers);
//!     }
//!     for answer in answers.drain(..) {
//!         match coordinator.receive(0, answer, &mut requests) {
//!             Some(Event::Operated(_)) => committed = coordinator.commit(0, &mut requests),
//!             Some(Event::Committed(at)) => committed = Some(Event::Committed(at)),
//!             Some(Event::Aborted(why)) => panic!("nobody is in the way: {why}"),
//!             None => {}
//!         }
//!     }
//! }
//! // The client is told; the servers hear of it with the messages that are still to go.
//! assert_eq!(servers.iter().map(Participant::holding).sum::<usize>(), 2);
//! for sent in requests {
//!     servers[sent.to.index()].receive(0, sent.request, &mut answers);
//! }
//! assert_eq!(servers.iter().map(Participant::holding).sum::<usize>(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do yet: log, come back after a crash, and replicate.

pub mod begin_clock;
pub mod cache;
pub mod client;
pub mod cluster;
pub mod coordinator;
pub mod executor;
pub mod message;
pub mod participant;
pub mod partition;
pub mod phases;
#[doc(hidden)]
pub mod planted;
pub mod table_lease;
pub mod tasks;
pub mod workers;

pub use client::{Client, ClusterAbort, Policy, Table, Transaction, View};
pub use cluster::{Cluster, PROTOCOL_DEFAULT};
pub use executor::block_on;
pub use partition::{IndexReach, Partitioning, ServerId};
