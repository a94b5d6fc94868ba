//! What a client is told when a transaction is written, or its cluster made, in a wrong way. Each of these has one clear error,
//! and leaves nothing behind.

use crate::direct::{Made, cluster, cluster_of, run};
use noonmark::{AbortKind, Order};
use noonmark_cluster::client::{ClusterAbort, Table};
use noonmark_cluster::participant::Participant;
use noonmark_cluster::partition::{PartitionMap, Partitioning, ServerId};
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

impl Made {
    /// Once the client has been told to see to it, nothing is held anywhere, and the client can go on.
    fn nothing_is_left(&mut self) {
        run(self.client.settle());
        assert_eq!(self.servers.borrow().iter().map(Participant::holding).sum::<usize>(), 0);
        let table = &self.table;
        let read: Result<_, ClusterAbort> = run(self.client.transact(async |tx| tx.get(table, 1).await));
        assert_eq!(read, Ok(Some(100)));
    }
}

#[test]
fn an_operation_that_no_retry_mends_is_told_to_whoever_wrote_it() {
    let mut made = cluster();
    let table = &made.table;
    let scanned = run(made.client.transact(async |tx| tx.range(table, 0..4, false, 10).await));
    let Err(ClusterAbort::Refused(refusal)) = scanned else { panic!("{scanned:?}") };
    assert_eq!(refusal.kind, AbortKind::NotOrdered);
    made.nothing_is_left();
}

#[test]
fn a_table_that_is_not_there() {
    let mut made = cluster();
    let mut other = PartitionMap::new(1);
    other.add(Partitioning::Replicated).unwrap();
    let stranger: Table<u64, i64> = Table::new(other.add(Partitioning::Replicated).unwrap());
    let read: Result<_, ClusterAbort> = run(made.client.transact(async |tx| tx.get(&stranger, 1).await));
    let Err(ClusterAbort::Refused(refusal)) = read else { panic!("{read:?}") };
    assert_eq!((refusal.kind, refusal.server), (AbortKind::ForeignTable, ServerId::new(0)));
    made.nothing_is_left();
}

#[test]
fn rows_of_another_type() {
    let mut made = cluster();
    let table: Table<u64, [u8; 3]> = Table::new(made.table.id());
    let read: Result<_, ClusterAbort> = run(made.client.transact(async |tx| tx.get(&table, 1).await));
    assert_eq!(read, Err(ClusterAbort::Types));
    made.nothing_is_left();
}

#[test]
fn an_error_of_the_closure_itself() {
    let mut made = cluster();
    let table = &made.table;
    let failed = run(made.client.transact(async |tx| {
        tx.update(table, 1, |balance| *balance += 1).await?;
        tx.update(table, 2, |balance| *balance -= 1).await?;
        Err::<(), _>(ClusterAbort::Types)
    }));
    assert_eq!((failed, made.client.counts().rollbacks), (Err(ClusterAbort::Types), 1));
    made.nothing_is_left();
}

/// What comes of an operation that nobody waits for any more is not taken for what comes of the next one.
#[test]
fn an_operation_that_is_given_up() {
    for goes_on in [false, true] {
        let mut made = cluster();
        let table = &made.table;
        let read = run(made.client.transact(async |tx| {
            {
                let mut given_up = pin!(tx.get(table, 3));
                poll_fn(|context| Poll::Ready(given_up.as_mut().poll(context).is_pending())).await;
            }
            if goes_on { tx.get(table, 1).await } else { Ok(None) }
        }));
        assert_eq!(read, Err(ClusterAbort::Continued), "{goes_on}");
        made.nothing_is_left();
    }
}

/// A whole transaction that is dropped half way is aborted when the client goes on.
#[test]
fn a_transaction_that_is_given_up() {
    let mut made = cluster();
    for polls in 1..12 {
        let table = &made.table;
        {
            let mut given_up = pin!(made.client.transact(async |tx| {
                tx.update(table, 3, |balance| *balance += 1).await?;
                tx.update(table, 4, |balance| *balance -= 1).await?;
                tx.update(table, 5, |balance| *balance -= 1).await
            }));
            for _ in 0..polls {
                let polled: Poll<Result<(), ClusterAbort>> =
                    given_up.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                if polled.is_ready() {
                    break;
                }
            }
        }
        made.nothing_is_left();
        let table = &made.table;
        let sums: Result<_, ClusterAbort> = run(made.client.transact(async |tx| {
            Ok([
                tx.need(table, 3).await? + tx.need(table, 4).await?,
                tx.need(table, 4).await? - tx.need(table, 5).await?,
            ])
        }));
        assert_eq!(sums, Ok([700, -100]), "{polls}");
    }
}

/// A server with room for two branches has clients without number that have only read, and none of them says that it has ended.
#[test]
fn who_keeps_nobody_out_is_forgotten_when_there_is_no_room() {
    let mut made = cluster_of(2, Order::Logical);
    let table = &made.table;
    let (mut one, mut another) = (made.another(1), made.another(2));
    let read = run(one.transact(async |tx| {
        let before: i64 = tx.need(table, 1).await?;
        for _ in 0..3 {
            let read: Result<_, ClusterAbort> = another.transact(async |tx| tx.need(table, 1).await).await;
            assert_eq!(read, Ok(before));
        }
        Ok::<_, ClusterAbort>(before)
    }));
    assert_eq!(read, Ok(100));
    for worker in 3..20 {
        let mut client = made.another(worker);
        let read: Result<_, ClusterAbort> = run(client.transact(async |tx| {
            let balances = [tx.need(table, 1).await?, tx.need(table, 2).await?, tx.need(table, 3).await?];
            Ok(balances)
        }));
        assert_eq!(read, Ok([100, 200, 300]));
    }
    made.nothing_is_left();
}

/// Whoever has been forgotten and wants to go on is told, and comes through when he tries again.
#[test]
fn who_was_forgotten_is_told() {
    let made = cluster_of(1, Order::Logical);
    let table = &made.table;
    let (mut one, mut another) = (made.another(1), made.another(2));
    let mut attempts = 0;
    let moved: Result<_, ClusterAbort> = run(one.transact(async |tx| {
        attempts += 1;
        let before = tx.need(table, 1).await?;
        if attempts == 1 {
            let read: Result<_, ClusterAbort> = another.transact(async |tx| tx.need(table, 1).await).await;
            assert_eq!(read, Ok(100));
        }
        tx.update(table, 1, |balance| *balance = before + 1).await
    }));
    assert_eq!((moved, attempts), (Ok(()), 2));
    let counts = one.counts();
    assert_eq!((counts.commits, counts.aborts), (1, 1));
}
