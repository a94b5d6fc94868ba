//! Commit-time updates across servers: what they are for, what they become, and what is told of those that cannot be.

use crate::direct::{Made, cluster, cluster_by, run};
use noonmark::{Column, IndexKind, Number, Order, Protocol, TableOptions, Timestamp};
use noonmark_cluster::cache::{Cache, CacheOptions, ReusePolicy};
use noonmark_cluster::client::{ClusterAbort, Policy, Table};
use noonmark_cluster::cluster::Cluster;
use noonmark_cluster::executor::block_on;
use noonmark_cluster::partition::{IndexReach, Partitioning};
use std::sync::Arc;
use std::thread;

/// All protocols, each in the orders that it can be in; but for the order of beginnings, in which clients have clocks.
fn all() -> impl Iterator<Item = (Protocol, Order)> {
    let orders = |protocol: &Protocol| match (protocol.keeps_versions(), protocol.keeps_read_times()) {
        (true, _) => vec![],
        (_, true) => vec![(*protocol, Order::Logical), (*protocol, Order::Momentary)],
        (_, false) => vec![(*protocol, Order::Momentary)],
    };
    Protocol::ALL.iter().flat_map(orders)
}

fn balances(made: &mut Made, keys: [u64; 2]) -> [i64; 2] {
    let table = &made.table;
    let read: Result<_, ClusterAbort> = run(made
        .client
        .transact(async |tx| Ok([tx.need(table, keys[0]).await?, tx.need(table, keys[1]).await?])));
    read.unwrap()
}

/// Whatever others do to a row meanwhile, whoever adds to it without reading it commits at once. Who reads it does not.
#[test]
fn two_add_to_one_row_and_neither_is_in_the_others_way() {
    for (protocol, order) in all() {
        let mut made = cluster_by(protocol, IndexKind::Hash, 64, order);
        let (mut one, mut another) = (made.another(1), made.another(2));
        let table = &made.table;
        for reads in [false, true] {
            let mut attempts = 0;
            let one_adds: Result<_, ClusterAbort> = run(one.transact(async |tx| {
                attempts += 1;
                for key in [1, 2] {
                    match reads {
                        true => tx.update(table, key, |balance| *balance += 5).await?,
                        false => tx.add(table, key, Column::whole(), 5).await?,
                    }
                }
                if attempts == 1 && !reads {
                    let other_adds: Result<_, ClusterAbort> = another
                        .transact(async |tx| {
                            tx.add(table, 1, Column::whole(), 3).await?;
                            tx.add(table, 2, Column::whole(), 3).await
                        })
                        .await;
                    assert_eq!(other_adds, Ok(()));
                }
                Ok(())
            }));
            assert_eq!((one_adds, attempts), (Ok(()), 1), "{protocol}, {order:?}");
        }
        run(another.settle());
        run(one.settle());
        assert_eq!((one.counts().aborts, another.counts().aborts), (0, 0), "{protocol}, {order:?}");
        assert_eq!(balances(&mut made, [1, 2]), [113, 213], "{protocol}, {order:?}");
    }
}

/// Least, greatest, and what comes of several updates of one row.
#[test]
fn updates_are_made_one_after_another() {
    let mut made = cluster();
    let table = &made.table;
    let column = Column::whole();
    let done: Result<_, ClusterAbort> = run(made.client.transact(async |tx| {
        tx.add(table, 3, column, 7).await?;
        tx.min(table, 3, column, 305).await?;
        tx.add(table, 3, column, 1).await?;
        tx.max(table, 4, column, 1_000).await?;
        tx.max(table, 5, column, 1).await
    }));
    assert_eq!(done, Ok(()));
    assert_eq!(balances(&mut made, [3, 4]), [306, 1_000]);
    assert_eq!(balances(&mut made, [5, 6]), [500, 600]);
}

/// What a transaction has updated it finds updated, and it is updated once; as is what it has read, or written, before.
#[test]
fn what_is_read_before_or_after_is_an_ordinary_update() {
    for (protocol, order) in all() {
        let mut made = cluster_by(protocol, IndexKind::Hash, 64, order);
        let table = &made.table;
        let column = Column::whole();
        let done: Result<_, ClusterAbort> = run(made.client.transact(async |tx| {
            tx.add(table, 1, column, 1).await?;
            assert_eq!(tx.get(table, 1).await?, Some(101));
            tx.add(table, 1, column, 1).await?;
            assert_eq!(tx.get(table, 2).await?, Some(200));
            tx.add(table, 2, column, 2).await?;
            tx.update(table, 2, |balance| *balance *= 10).await?;
            tx.add(table, 2, column, 3).await?;
            assert!(tx.write(table, 3, 30).await?);
            tx.add(table, 3, column, 1).await?;
            tx.add(table, 4, column, 1).await?;
            assert!(tx.delete(table, 4).await?);
            tx.add(table, 5, column, 1).await?;
            tx.write_later(table, 5, 50).await
        }));
        assert_eq!(done, Ok(()), "{protocol}, {order:?}");
        assert_eq!(balances(&mut made, [1, 2]), [102, 2_023], "{protocol}, {order:?}");
        assert_eq!(balances(&mut made, [3, 5]), [31, 50], "{protocol}, {order:?}");
        let table = &made.table;
        let gone: Result<_, ClusterAbort> = run(made.client.transact(async |tx| tx.get(table, 4).await));
        assert_eq!(gone, Ok(None));
    }
}

/// How a test writes a row that is not there.
#[derive(Clone, Copy, Debug)]
enum Late {
    Add,
    WriteLater,
}

/// That a row is not there comes out late, and is told for certain, however often the transaction may be tried; and nothing is written beside, whether
/// that is at the same server, where one message commits, or at another one.
#[test]
fn a_row_that_is_not_there_is_missing() {
    for (protocol, order) in all() {
        for (absent, late) in
            [90, 91, 92, 93].into_iter().flat_map(|key| [(key, Late::Add), (key, Late::WriteLater)])
        {
            for attempts_max in [None, Some(1), Some(3)] {
                let what = format!("{protocol}, {order:?}, {absent}, {late:?}, {attempts_max:?}");
                let mut made = cluster_by(protocol, IndexKind::Hash, 64, order);
                let table = &made.table;
                made.client.set_policy(Policy { attempts_max, ..Policy::default() });
                let mut writes = || -> Result<(), ClusterAbort> {
                    run(made.client.transact(async |tx| {
                        tx.add(table, 1, Column::whole(), 1).await?;
                        match late {
                            Late::Add => tx.add(table, absent, Column::whole(), 1).await,
                            Late::WriteLater => tx.write_later(table, absent, 5).await,
                        }
                    }))
                };
                let mut written = writes();
                if attempts_max == Some(1) {
                    assert!(written.as_ref().is_err_and(ClusterAbort::is_retryable), "{what}: {written:?}");
                    written = writes();
                }
                assert_eq!(written, Err(ClusterAbort::Missing(absent.to_string())), "{what}");
                run(made.client.settle());
                assert_eq!(balances(&mut made, [1, 2]), [100, 200], "{what}");
            }
        }
    }
}

/// As many attempts as somebody may need with whom nobody interferes: what he has left behind himself may be in his way once.
const ALONE: Policy = Policy {
    attempts_max: Some(3),
    backoff_max: std::time::Duration::ZERO,
    backoff_round_trips: None,
    escape_after: None,
};

/// Somebody who is alone gets on, wherever the rows are that he has read and written before, and however late it is told what he writes.
#[test]
fn whoever_is_alone_gets_on() {
    for (protocol, order) in all() {
        let mut made = cluster_by(protocol, IndexKind::Hash, 64, order);
        let table = &made.table;
        made.client.set_policy(ALONE);
        // What one has read the next one writes.
        let pairs = (1..=6).flat_map(|read| (1..=6).map(move |written| (read, written)));
        for (one, other) in pairs {
            for (read, written, late) in
                [(one, other, None), (other, one, Some(Late::Add)), (one, other, Some(Late::WriteLater))]
            {
                let done: Result<_, ClusterAbort> = run(made.client.transact(async |tx| {
                    let seen = tx.need(table, read).await?;
                    match late {
                        None => tx.update(table, written, |balance| *balance += 1).await,
                        Some(Late::Add) => tx.add(table, written, Column::whole(), 1).await,
                        Some(Late::WriteLater) => tx.write_later(table, written, seen).await,
                    }
                }));
                assert_eq!(done, Ok(()), "{protocol}, {order:?}: {read}, {written}, {late:?}");
            }
        }
    }
}

/// Nor are entries of an index in his way, which are written with the messages of the commit; also if rows are at all servers.
#[test]
fn whoever_is_alone_gets_on_where_there_is_an_index() {
    for protocol in Protocol::ALL {
        for partitioning in [Partitioning::Replicated, Partitioning::Hash { prefix_bytes: 8 }] {
            let cluster = Cluster::builder().workers(2).policy(ALONE).build().unwrap();
            let options = TableOptions::new().protocol(*protocol);
            let table = cluster.create_table::<u64, i64>("counts", options, partitioning.clone()).unwrap();
            let index = cluster
                .create_index(&table, "by count", IndexReach::Everywhere, |_, count: &i64| *count)
                .unwrap();
            let mut clients = [cluster.client().unwrap(), cluster.client().unwrap()];
            let made: Result<_, ClusterAbort> = block_on(clients[0].transact(async |tx| {
                for key in 0..4 {
                    tx.insert(&table, key, 100).await?;
                }
                Ok(())
            }));
            assert_eq!(made, Ok(()));
            for nth in 0..150 {
                // One after the other, and each knows of what the other has done.
                let floor = clients[0].floor().max(clients[1].floor());
                let client = &mut clients[nth as usize * 7 / 3 % 2];
                client.raise_floor(floor);
                let done: Result<_, ClusterAbort> = block_on(client.transact(async |tx| {
                    match nth % 3 {
                        0 => drop(tx.get(&table, nth * 5 % 4).await?),
                        1 => drop(tx.range_by(&index, .., false, 9).await?),
                        _ => {}
                    }
                    tx.update(&table, nth * 3 % 4, |count| *count += 1).await
                }));
                assert_eq!(done, Ok(()), "{protocol}, {partitioning:?}, transaction {nth}");
            }
        }
    }
}

/// A row that is accessed together with others, and twice, is the second time what it was made the first.
#[test]
fn a_key_that_comes_again_is_as_it_was_left() {
    let mut made = cluster();
    let table = &made.table;
    let keys = [(1, false), (1, true), (2, true), (1, true), (2, false), (1, false)];
    let mut seen = Vec::new();
    let done: Result<_, ClusterAbort> = run(made.client.transact(async |tx| {
        seen.clear();
        let add = |_: usize, balance: &mut i64| {
            seen.push(*balance);
            *balance += 1;
        };
        tx.access_many(table, &keys, add).await
    }));
    assert_eq!(done, Ok(()));
    assert_eq!(seen, [100, 100, 200, 101, 201, 102]);
    assert_eq!(balances(&mut made, [1, 2]), [102, 201]);
}

/// Whoever goes on although one of the rows is not there has changed none of them.
#[test]
fn where_one_row_is_not_there_none_is_changed() {
    let mut made = cluster();
    let table = &made.table;
    let keys = [(1, true), (2, false), (77, true), (2, true)];
    let done: Result<_, ClusterAbort> = run(made.client.transact(async |tx| {
        let change = |_: usize, balance: &mut i64| *balance += 1;
        let missing = tx.access_many(table, &keys, change).await;
        assert_eq!(missing, Err(ClusterAbort::Missing(77.to_string())));
        tx.update(table, 2, |balance| *balance += 5).await
    }));
    assert_eq!(done, Ok(()));
    assert_eq!(balances(&mut made, [1, 2]), [100, 205]);
}

/// A number that only its user can add.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Cents(i64);

impl Number for Cents {
    fn plus(self, other: Self) -> Self {
        Cents(self.0 + other.0)
    }
}

impl noonmark::Field for Cents {
    const BYTES: usize = 8;
    fn put(&self, out: &mut [u8]) {
        self.0.put(out);
    }
    fn take(bytes: &[u8]) -> Self {
        Cents(i64::take(bytes))
    }
}

noonmark::column_group! {
    struct Price { cents: Cents }
}

/// A sum that no server knows how to work out is worked out here.
#[test]
fn a_number_of_the_users_own_is_read_and_written() {
    let mut made = cluster();
    let prices: Table<u64, Price> = Table::new(made.table.id());
    let cents = noonmark::columns::<Price>().cents;
    let done: Result<_, ClusterAbort> =
        run(made.client.transact(async |tx| tx.add(&prices, 1, cents, Cents(11)).await));
    assert_eq!(done, Ok(()));
    assert_eq!(balances(&mut made, [1, 2]), [111, 200]);
}

/// What is not of the type that the table was made with is refused, and nothing is changed.
#[test]
fn an_update_that_does_not_fit_is_refused() {
    let mut made = cluster();
    let lists: Table<u64, Vec<u8>> = Table::new(made.table.id());
    let done: Result<(), ClusterAbort> =
        run(made.client.transact(async |tx| tx.append(&lists, 1, b"some").await));
    let Err(ClusterAbort::Refused(refusal)) = done else { panic!("{done:?}") };
    assert_eq!(refusal.kind, noonmark::AbortKind::TooLong);
    let wide: Table<u64, i128> = Table::new(made.table.id());
    let done: Result<(), ClusterAbort> =
        run(made.client.transact(async |tx| tx.add(&wide, 1, Column::whole(), 1).await));
    assert!(matches!(done, Err(ClusterAbort::Refused(_))), "{done:?}");
    run(made.client.settle());
    assert_eq!(balances(&mut made, [1, 2]), [100, 200]);
}

/// Copies of what was added to are given up; what was read out of a copy is looked at before it is added to.
#[test]
fn copies_and_updates() {
    let mut made = cluster();
    let options = CacheOptions { bytes_max: 1 << 20, banks: 1, reuse: ReusePolicy::Always };
    let cache = Arc::new(Cache::new(options));
    let (one, mut other) = (made.another(1), made.another(2));
    let mut one = one.with_cache(cache);
    let table = &made.table;
    for round in 1..4 {
        for key in 0..8_u64 {
            let seen: Result<_, ClusterAbort> = run(one.transact(async |tx| {
                let before = tx.need(table, key).await?;
                tx.add(table, key, Column::whole(), 1).await?;
                assert_eq!(tx.need(table, key).await?, before + 1);
                Ok(before)
            }));
            assert_eq!(seen, Ok(100 * key as i64 + 3 * (round - 1)));
            let added: Result<_, ClusterAbort> =
                run(one.transact(async |tx| tx.add(table, key, Column::whole(), 1).await));
            assert_eq!(added, Ok(()));
            let added: Result<_, ClusterAbort> =
                run(other.transact(async |tx| tx.add(table, key, Column::whole(), 1).await));
            assert_eq!(added, Ok(()));
            other.raise_floor(one.floor());
            one.raise_floor(other.floor());
        }
    }
    run(one.settle());
    run(other.settle());
    assert_eq!(balances(&mut made, [6, 7]), [609, 709]);
}

/// An update goes along with the commit: it costs no message of its own, and no round.
#[test]
fn an_update_costs_no_message_of_its_own() {
    let mut made = cluster();
    let table = &made.table;
    let (map, home) = (made.map.clone(), made.client.id().server);
    let server_of = |key: u64| map.reader(table.id(), &key.to_be_bytes(), home);
    let other = (1..8).find(|key| server_of(*key) != server_of(0)).unwrap();
    let mut messages = |at_commit: bool, keys: &[u64], ahead_ticks: u64| {
        let floor = made.client.floor().ticks() + ahead_ticks;
        made.client.raise_floor(Timestamp::new(floor));
        let before = made.client.counts().messages;
        let done: Result<(), ClusterAbort> = run(made.client.transact(async |tx| {
            for key in keys {
                match at_commit {
                    true => tx.add(table, key, Column::whole(), 1).await?,
                    false => tx.update(table, key, |balance| *balance += 1).await?,
                }
            }
            Ok(())
        }));
        assert_eq!(done, Ok(()));
        let committed = made.client.counts().messages - before;
        run(made.client.settle());
        committed
    };
    // The last of an ordinary update's messages is its commit; of two servers each is told of the end besides.
    assert_eq!([false, true].map(|at_commit| messages(at_commit, &[0], 0)), [2, 1]);
    assert_eq!([false, true].map(|at_commit| messages(at_commit, &[0, other], 100)), [6, 4]);
    // Nobody has told from when on the rows can be written: here, only after the client's last commit.
    assert_eq!([false, true].map(|at_commit| messages(at_commit, &[0, other], 0)), [6, 6]);
}

/// What clients on threads of their own have added to two hot rows, each at a worker of its own, is there in the end, once.
#[test]
fn what_threads_have_added_is_there() {
    const CLIENTS: i64 = 4;
    const TIMES: i64 = 50;
    for &protocol in Protocol::ALL {
        let cluster = Cluster::builder().workers(2).build().unwrap();
        let spread = Partitioning::Ranges(vec![1_u64.to_be_bytes().to_vec()]);
        let options = TableOptions::new().protocol(protocol);
        let rows = cluster.create_table::<u64, i64>("rows", options, spread).unwrap();
        let filled: Result<(), ClusterAbort> = block_on(cluster.transact(async |tx| {
            for key in 0..2_u64 {
                tx.insert(&rows, key, 0).await?;
            }
            Ok(())
        }));
        assert_eq!(filled, Ok(()));
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let mut client = cluster.client().unwrap();
                let rows = &rows;
                scope.spawn(move || {
                    block_on(async {
                        for _ in 0..TIMES {
                            let added: Result<(), ClusterAbort> = client
                                .transact(async |tx| {
                                    tx.add(rows, 0_u64, Column::whole(), number).await?;
                                    tx.add(rows, 1_u64, Column::whole(), 1).await
                                })
                                .await;
                            assert_eq!(added, Ok(()));
                        }
                    });
                });
            }
        });
        let read: Result<_, ClusterAbort> = block_on(
            cluster.transact(async |tx| Ok([tx.need(&rows, 0_u64).await?, tx.need(&rows, 1_u64).await?])),
        );
        let all = (0..CLIENTS).sum::<i64>() * TIMES;
        assert_eq!(read, Ok([all, CLIENTS * TIMES]), "{protocol}");
    }
}
