//! Clusters of share-nothing workers: what holds under every protocol while threads do as they please, and what clients are told when
//! something goes wrong. No test knows how long anything takes, and each ends by itself.

use crate::accounts::{ACCOUNTS, EACH, accounts_of, by_key};
use noonmark::{AbortKind, Column, IndexKind, Order, Protocol, SchemaError, TableOptions};
use noonmark_cluster::cache::{CacheOptions, ReusePolicy};
use noonmark_cluster::client::{Client, ClusterAbort, Policy, Table};
use noonmark_cluster::cluster::{BuildClusterError, Builder, ClientError, Cluster, CreateTableError};
use noonmark_cluster::executor::{block_on, block_on_all};
use noonmark_cluster::partition::{IndexReach, InvalidPartitioning, Partitioning, ServerId};
use noonmark_cluster::table_lease::TableLeases;
use noonmark_cluster::workers::WorkerLink;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

const FOREVER: Duration = Duration::from_secs(1 << 32);

/// All protocols: those that lock early and late, in either order, those that wait and those that do not.
const PROTOCOLS: &[Protocol] = &[
    Protocol::Sundial,
    Protocol::TicToc,
    Protocol::TwoPhaseWaitDie,
    Protocol::TwoPhaseNoWait,
    Protocol::Occ,
    Protocol::F1,
    Protocol::Adaptive,
    Protocol::Dynamic,
    Protocol::Fixed,
    Protocol::TwoPhaseWoundWait,
    Protocol::Swiss,
    Protocol::Ranges,
];

fn hash() -> Partitioning {
    Partitioning::Hash { prefix_bytes: 8 }
}

async fn transfer(
    client: &mut Client<WorkerLink>,
    accounts: &Table<u64, i64>,
    from: u64,
    to: u64,
    amount: i64,
) -> Result<(), ClusterAbort> {
    client
        .transact(async |tx| {
            tx.update(accounts, from, |balance| *balance -= amount).await?;
            tx.update(accounts, to, |balance| *balance += amount).await
        })
        .await
}

async fn total(client: &mut Client<WorkerLink>, accounts: &Table<u64, i64>) -> Result<i64, ClusterAbort> {
    let keys: Vec<u64> = (0..ACCOUNTS).collect();
    client
        .transact(async |tx| {
            let balances = tx.get_many(accounts, &keys).await?;
            Ok(balances.into_iter().flatten().sum())
        })
        .await
}

/// The same, as a range, which is on all servers.
async fn total_of_range(
    client: &mut Client<WorkerLink>,
    accounts: &Table<u64, i64>,
) -> Result<i64, ClusterAbort> {
    client
        .transact(async |tx| {
            let rows = tx.range(accounts, .., false, usize::MAX).await?;
            assert!(rows.is_sorted_by_key(|(account, _)| *account));
            Ok(rows.into_iter().map(|(_, balance)| balance).sum())
        })
        .await
}

/// Transfers of one client, and totals now and then.
async fn bank(client: &mut Client<WorkerLink>, accounts: &Table<u64, i64>, seed: u64, transfers: u64) {
    for turn in 0..transfers {
        let mixed = (seed * 1_000 + turn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let (from, to) = (mixed % ACCOUNTS, (mixed >> 8) % ACCOUNTS);
        if from == to {
            assert_eq!(total(client, accounts).await, Ok(ACCOUNTS as i64 * EACH));
            assert_eq!(total_of_range(client, accounts).await, Ok(ACCOUNTS as i64 * EACH));
        } else {
            assert_eq!(transfer(client, accounts, from, to, (mixed % 7) as i64).await, Ok(()));
        }
    }
}

#[test]
fn money_is_conserved_by_clients_on_threads_of_their_own() {
    for &protocol in PROTOCOLS {
        let (cluster, accounts) = accounts_of(Cluster::builder().workers(3), protocol, hash());
        thread::scope(|scope| {
            for seed in 0..4 {
                let mut client = cluster.client().unwrap();
                let accounts = &accounts;
                scope.spawn(move || block_on(bank(&mut client, accounts, seed, 100)));
            }
        });
        let mut client = cluster.client().unwrap();
        assert_eq!(block_on(total(&mut client, &accounts)), Ok(ACCOUNTS as i64 * EACH), "{protocol}");
        let statistics = cluster.statistics();
        assert_eq!(statistics.len(), 3);
        assert!(statistics.iter().all(|server| server.requests > 0), "{statistics:?}");
    }
}

#[test]
fn money_is_conserved_by_clients_that_share_a_thread() {
    for &protocol in PROTOCOLS {
        let (cluster, accounts) = accounts_of(Cluster::builder().workers(2), protocol, hash());
        let mut clients: Vec<_> = (0..12).map(|_| cluster.client().unwrap()).collect();
        block_on_all(clients.iter_mut().zip(0..).map(|(client, seed)| bank(client, &accounts, seed, 30)));
        assert_eq!(block_on(total(&mut clients[0], &accounts)), Ok(ACCOUNTS as i64 * EACH), "{protocol}");
    }
}

#[test]
fn more_clients_than_branches_all_come_to_their_turn() {
    for protocol in [Protocol::Sundial, Protocol::TicToc, Protocol::TwoPhaseWaitDie, Protocol::Occ] {
        let builder = Cluster::builder().workers(2).branches_max(2);
        let (cluster, accounts) = accounts_of(builder, protocol, hash());
        let mut clients: Vec<_> = (0..8).map(|_| cluster.client().unwrap()).collect();
        block_on_all(clients.iter_mut().zip(0..).map(|(client, seed)| bank(client, &accounts, seed, 10)));
        assert_eq!(block_on(total(&mut clients[0], &accounts)), Ok(ACCOUNTS as i64 * EACH), "{protocol}");
    }
}

/// Two rows of two workers, of which at most one may be on at a time: who turns his on has read that the other one is off. Two who do so at
/// the same time each write what the other one reads.
///
/// (Whether what was read is validated at all shows here. That it is validated after everything is sealed does not: between queues of one
/// process messages cross too seldom. The virtual network has them cross.)
#[test]
fn two_that_each_write_what_the_other_reads_do_not_both_commit() {
    for &protocol in PROTOCOLS {
        let (cluster, switches) = accounts_of(Cluster::builder().workers(2), protocol, by_key(ACCOUNTS));
        let off: Result<(), ClusterAbort> = block_on(cluster.transact(async |tx| {
            tx.write(&switches, 0, 0).await?;
            tx.write(&switches, 1, 0).await.map(|_| ())
        }));
        assert_eq!(off, Ok(()));
        thread::scope(|scope| {
            for number in 0..3_u64 {
                let mut client = cluster.client().unwrap();
                let (own, switches) = (number % 2, &switches);
                scope.spawn(move || {
                    for _ in 0..300 {
                        let seen = block_on(client.transact(async |tx| {
                            let seen = tx.get_many(switches, &[0, 1]).await?;
                            let both = [seen[0].unwrap_or(0), seen[1].unwrap_or(0)];
                            if both[own as usize] == 1 {
                                tx.write(switches, own, 0).await?;
                            } else if both == [0, 0] {
                                tx.write(switches, own, 1).await?;
                            }
                            Ok::<_, ClusterAbort>(both)
                        }));
                        // (What has committed has seen a state that there was.)
                        assert_ne!(seen, Ok([1, 1]), "{protocol}");
                        assert!(seen.is_ok(), "{protocol}: {seen:?}");
                    }
                });
            }
        });
    }
}

/// Each client reads at its home, and who writes writes everywhere.
#[test]
fn a_replicated_table_is_the_same_everywhere() {
    for protocol in [Protocol::Sundial, Protocol::TwoPhaseWaitDie, Protocol::Occ] {
        let builder = Cluster::builder().workers(3);
        let (cluster, rates) = accounts_of(builder, protocol, Partitioning::Replicated);
        let mut clients: Vec<_> = (0..6).map(|_| cluster.client().unwrap()).collect();
        for home in 0..3 {
            let at_home = clients.iter().filter(|client| client.id().server.number() == home);
            assert_eq!(at_home.count(), 2);
        }
        block_on_all(clients.iter_mut().map(|client| {
            let rates = &rates;
            async move {
                for _ in 0..20 {
                    let changed: Result<(), ClusterAbort> =
                        client.transact(async |tx| tx.update(rates, 5, |rate| *rate += 1).await).await;
                    assert_eq!(changed, Ok(()));
                }
            }
        }));
        // (In logical order a client may read what was there before, unless it has changed it itself.)
        for client in &mut clients {
            let rate = block_on(client.transact(async |tx| {
                tx.update(&rates, 5, |_| ()).await?;
                tx.need(&rates, 5).await
            }));
            assert_eq!(rate, Ok::<i64, ClusterAbort>(EACH + 120), "{protocol}, {}", client.id());
        }
    }
}

/// Counters that only go up never go down before one client's eyes, nor behind its own changes, though leases let others see older ones.
#[test]
fn a_clients_transactions_are_in_order() {
    for protocol in [Protocol::Sundial, Protocol::TicToc, Protocol::Occ] {
        let (cluster, counters) = accounts_of(Cluster::builder().workers(2), protocol, by_key(ACCOUNTS));
        thread::scope(|scope| {
            for own in 0..3_u64 {
                let mut client = cluster.client().unwrap();
                let counters = &counters;
                scope.spawn(move || {
                    let mut seen = [EACH; 3];
                    for _ in 0..100 {
                        let now = block_on(client.transact(async |tx| {
                            let mut now = [0; 3];
                            for (key, now) in (0..).zip(&mut now) {
                                *now = tx.need(counters, key).await?;
                            }
                            Ok::<_, ClusterAbort>(now)
                        }))
                        .unwrap();
                        assert!(
                            now.iter().zip(seen).all(|(now, seen)| *now >= seen),
                            "{seen:?}, then {now:?}"
                        );
                        seen = now;
                        let bumped = block_on(
                            client.transact(async |tx| tx.update(counters, own, |count| *count += 1).await),
                        );
                        assert_eq!(bumped, Ok::<(), ClusterAbort>(()));
                        seen[own as usize] += 1;
                    }
                });
            }
        });
    }
}

/// Whoever runs transactions without keeping a client sees what it has done before.
#[test]
fn transactions_of_no_client_are_in_order() {
    let (cluster, counters) = accounts_of(Cluster::builder().workers(2), Protocol::Sundial, by_key(ACCOUNTS));
    thread::scope(|scope| {
        for own in 0..3_u64 {
            let (cluster, counters) = (cluster.clone(), &counters);
            scope.spawn(move || {
                for turn in 0..50 {
                    let count = block_on(cluster.transact(async |tx| {
                        let count = tx.need(counters, own).await?;
                        tx.need(counters, (own + 1) % 3).await?;
                        tx.update(counters, own, |count| *count += 1).await?;
                        Ok::<_, ClusterAbort>(count)
                    }));
                    assert_eq!(count, Ok(EACH + turn));
                }
            });
        }
    });
}

#[test]
fn futures_of_a_client_may_go_to_another_thread() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let (cluster, accounts) = accounts_of(Cluster::builder().workers(2), Protocol::Sundial, hash());
    let mut client = cluster.client().unwrap();
    let future = is_send(async move {
        let read: Result<_, ClusterAbort> =
            client.transact(async move |tx| tx.need(&accounts, 1).await).await;
        read
    });
    let read = thread::spawn(move || block_on(future)).join();
    assert_eq!(read.unwrap(), Ok(EACH));

    let (cluster, accounts) = accounts_of(Cluster::builder().workers(2), Protocol::Sundial, hash());
    let shared = cluster.clone();
    let future = is_send(async move {
        let mut client = shared.client()?;
        let of_client = accounts.clone();
        let one: i64 = client.view(async move |tx| tx.need(&of_client, 1).await).await?;
        let of_view = accounts.clone();
        let other: i64 = shared.view(async move |tx| tx.need(&of_view, 2).await).await?;
        let third: i64 = shared.transact(async move |tx| tx.need(&accounts, 3).await).await?;
        Ok::<_, ClusterAbort>(one + other + third)
    });
    let read = thread::spawn(move || block_on(future)).join();
    assert_eq!(read.unwrap(), Ok(3 * EACH));
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    is_shared(&cluster);
}

/// Polls it once.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Locks a row, tells so, and does not go on until it is told to.
async fn hold(
    client: &mut Client<WorkerLink>,
    accounts: &Table<u64, i64>,
    account: u64,
    tell: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
) -> Result<(), ClusterAbort> {
    client
        .transact(async |tx| {
            tx.update(accounts, account, |balance| *balance += 1).await?;
            tell.send(()).unwrap();
            let _ = go_on.recv();
            Ok(())
        })
        .await
}

#[test]
fn who_waits_is_told_when_the_cluster_goes() {
    let builder = Cluster::builder().workers(2).wait_max(FOREVER);
    let (cluster, accounts) = accounts_of(builder, Protocol::TwoPhaseWaitDie, by_key(ACCOUNTS));
    let (mut older, mut younger) = (cluster.client().unwrap(), cluster.client().unwrap());
    thread::scope(|scope| {
        let accounts = &accounts;
        let (tell, told) = mpsc::channel();
        let (release, go_on) = mpsc::channel();
        let (is_waiting, waits) = mpsc::channel();
        let first = scope.spawn(move || {
            block_on(older.transact(async |tx| {
                // It begins first, and so it is the one who waits.
                tx.need(accounts, 0).await?;
                is_waiting.send(()).unwrap();
                told.recv().unwrap();
                is_waiting.send(()).unwrap();
                tx.update(accounts, 1, |balance| *balance -= 1).await
            }))
        });
        waits.recv().unwrap();
        let second = scope.spawn(move || block_on(hold(&mut younger, accounts, 1, tell, go_on)));
        waits.recv().unwrap();
        drop(cluster);
        assert_eq!(first.join().unwrap(), Err::<(), _>(ClusterAbort::Closed));
        release.send(()).unwrap();
        assert_eq!(second.join().unwrap(), Err(ClusterAbort::Closed));
    });
}

/// A worker may be the one who drops the cluster: who waits leaves a waker with it, and that may own whatever it likes.
#[test]
fn the_cluster_may_go_by_the_hand_of_a_worker() {
    struct Owner {
        _cluster: Cluster,
        /// Goes after the cluster.
        _gone: mpsc::Sender<()>,
    }
    impl Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }
    let builder = Cluster::builder().workers(2).wait_max(FOREVER);
    let (cluster, accounts) = accounts_of(builder, Protocol::TwoPhaseWaitDie, by_key(ACCOUNTS));
    let (mut waiting, mut holding) = (cluster.client().unwrap(), cluster.client().unwrap());
    let (tell, told) = mpsc::channel();
    let (release, go_on) = mpsc::channel();
    let (gone, is_gone) = mpsc::channel();
    let (begun, has_begun) = mpsc::channel();
    thread::scope(|scope| {
        let accounts = &accounts;
        let mut waiting = pin!(waiting.transact(async |tx| {
            // Older than the other one, by whom it is kept waiting.
            begun.send(()).unwrap();
            told.recv().unwrap();
            tx.update(accounts, 1, |balance| *balance -= 1).await?;
            tx.need(accounts, 2).await
        }));
        let held = scope.spawn(move || {
            has_begun.recv().unwrap();
            block_on(hold(&mut holding, accounts, 1, tell, go_on))
        });
        let waker = Waker::from(Arc::new(Owner { _cluster: cluster, _gone: gone }));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        // The holder commits, or is told that the cluster goes, as its own worker may find the time to answer or not.
        release.send(()).unwrap();
        assert!(matches!(held.join().unwrap(), Ok(()) | Err(ClusterAbort::Closed)));
        assert!(is_gone.recv().is_err());
        assert_eq!(block_on(waiting), Err::<i64, _>(ClusterAbort::Closed));
    });
}

/// A waker that panics the first time that somebody is to be woken by it.
#[derive(Default)]
struct Bomb(AtomicBool);

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        assert!(self.0.swap(true, Ordering::Relaxed), "a waker that panics, as this test wants it");
    }
}

/// Polls it until that is so.
fn poll_until<F: Future>(mut future: Pin<&mut F>, is_so: &Cell<bool>) {
    while !is_so.get() {
        assert!(poll_once(future.as_mut()).is_pending());
        thread::yield_now();
    }
}

#[test]
fn a_worker_that_panics_closes_the_links() {
    let builder = Cluster::builder().workers(2).wait_max(FOREVER);
    let (cluster, accounts) = accounts_of(builder, Protocol::TwoPhaseWaitDie, by_key(ACCOUNTS));
    let mut waiting = cluster.client().unwrap();
    let (mut breaking, mut holding) = (cluster.client().unwrap(), cluster.client().unwrap());
    // One waits for another at one worker. That one waits at the other worker, whom its waker has panic when it is answered.
    thread::scope(|scope| {
        let accounts = &accounts;
        let (begun, has_begun) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let waiter = scope.spawn(move || {
            block_on(waiting.transact(async |tx| {
                tx.get(accounts, 2).await?;
                begun.send(()).unwrap();
                told.recv().unwrap();
                tx.update(accounts, 0, |balance| *balance += 1).await
            }))
        });
        has_begun.recv().unwrap();
        let (has_first, goes_on, is_held) = (Cell::new(false), Cell::new(false), Cell::new(false));
        let mut broken = pin!(breaking.transact(async |tx| {
            tx.update(accounts, 0, |balance| *balance += 1).await?;
            has_first.set(true);
            poll_fn(|_| if goes_on.get() { Poll::Ready(()) } else { Poll::Pending }).await;
            tx.update(accounts, 1, |balance| *balance += 1).await
        }));
        poll_until(broken.as_mut(), &has_first);
        let bomb = Arc::new(Bomb::default());
        {
            let mut held = pin!(holding.transact(async |tx| {
                tx.update(accounts, 1, |balance| *balance += 1).await?;
                is_held.set(true);
                std::future::pending::<Result<(), ClusterAbort>>().await
            }));
            poll_until(held.as_mut(), &is_held);
            goes_on.set(true);
            let waker = Waker::from(bomb.clone());
            assert!(broken.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            tell.send(()).unwrap();
        }
        // (Whoever polls before has put another waker in its place.)
        while !bomb.0.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let broken: Result<(), ClusterAbort> = loop {
            match poll_once(broken.as_mut()) {
                Poll::Ready(ended) => break ended,
                Poll::Pending => thread::yield_now(),
            }
        };
        assert_eq!(broken, Err(ClusterAbort::Closed));
        assert_eq!(waiter.join().unwrap(), Err(ClusterAbort::Closed));
    });
    assert_eq!(cluster.client().err(), Some(ClientError::Closed));
    let late: Result<_, ClusterAbort> = block_on(cluster.transact(async |tx| tx.get(&accounts, 2).await));
    assert_eq!(late, Err(ClusterAbort::Closed));
}

#[test]
fn an_abort_tells_at_which_server() {
    let (cluster, accounts) =
        accounts_of(Cluster::builder().workers(2), Protocol::TwoPhaseNoWait, by_key(ACCOUNTS));
    let mut holder = cluster.client().unwrap();
    let once = Policy { attempts_max: Some(1), ..Policy::default() };
    let mut refused = cluster.client().unwrap().with_policy(once);
    for (account, server) in [(4, ServerId::new(0)), (7, ServerId::new(1))] {
        let before = cluster.statistics();
        let (tell, told) = mpsc::channel();
        let (release, go_on) = mpsc::channel();
        let abort = thread::scope(|scope| {
            let held = scope.spawn(|| block_on(hold(&mut holder, &accounts, account, tell, go_on)));
            told.recv().unwrap();
            let updated =
                block_on(refused.transact(async |tx| tx.update(&accounts, account, |b| *b -= 1).await));
            release.send(()).unwrap();
            assert_eq!(held.join().unwrap(), Ok(()));
            updated.unwrap_err()
        });
        let ClusterAbort::Attempts(refusal, 1) = &abort else { panic!("{abort:?}") };
        assert_eq!((refusal.server, refusal.kind), (server, AbortKind::Conflict));
        assert!(abort.rule().starts_with("two-phase-no-wait"), "{}", abort.rule());
        let words = abort.to_string();
        assert!(words.starts_with(&format!("at {server}: ")), "{words}");
        assert!(words.contains(&format!("accounts[{account}]")), "{words}");
        for (before, after) in before.iter().zip(cluster.statistics()) {
            let more = u64::from(after.server == server);
            assert_eq!(after.refusals, before.refusals + more, "{}", after.server);
            assert_eq!(after.conflicts.total, before.conflicts.total + more, "{}", after.server);
        }
        assert_eq!(cluster.statistics()[server.index()].conflicts.by_rule[0].rule, abort.rule());
    }
}

#[test]
fn who_is_held_back_for_too_long_is_refused() {
    let builder = Cluster::builder().workers(2).wait_max(Duration::from_millis(1));
    let (cluster, accounts) = accounts_of(builder, Protocol::TwoPhaseWaitDie, by_key(ACCOUNTS));
    let mut younger = cluster.client().unwrap();
    let once = Policy { attempts_max: Some(1), ..Policy::default() };
    let mut older = cluster.client().unwrap().with_policy(once);
    let (tell, told) = mpsc::channel();
    let (release, go_on) = mpsc::channel();
    let (begun, has_begun) = mpsc::channel();
    thread::scope(|scope| {
        let accounts = &accounts;
        let waiter = scope.spawn(move || {
            block_on(older.transact(async |tx| {
                tx.need(accounts, 0).await?;
                begun.send(()).unwrap();
                told.recv().unwrap();
                tx.update(accounts, 1, |balance| *balance -= 1).await
            }))
        });
        has_begun.recv().unwrap();
        let held = scope.spawn(move || block_on(hold(&mut younger, accounts, 1, tell, go_on)));
        // It ends by nothing but its worker's clock.
        let abort = waiter.join().unwrap().unwrap_err();
        assert_eq!(abort.rule(), "cluster: wait");
        release.send(()).unwrap();
        assert_eq!(held.join().unwrap(), Ok(()));
    });
    assert_eq!(cluster.statistics()[1].refusals, 1);
}

/// Dropped at any of its awaits, with its client or without, a transaction leaves nothing locked.
#[test]
fn what_a_dropped_client_has_left_is_rolled_back() {
    for protocol in [Protocol::Sundial, Protocol::TwoPhaseWaitDie, Protocol::Occ] {
        // Nobody is refused for having waited, and the younger tries again.
        let builder = Cluster::builder().workers(2).wait_max(FOREVER);
        let (cluster, accounts) = accounts_of(builder, protocol, by_key(ACCOUNTS));
        let mut last = cluster.client().unwrap();
        for polls in 1..12 {
            for keeps_client in [false, true] {
                let mut dropped = cluster.client().unwrap();
                {
                    let mut future = pin!(transfer(&mut dropped, &accounts, 2, 3, 1));
                    for _ in 0..polls {
                        if poll_once(future.as_mut()).is_ready() {
                            break;
                        }
                        // Whatever is on its way arrives.
                        thread::yield_now();
                    }
                }
                if keeps_client {
                    let moved = block_on(transfer(&mut dropped, &accounts, 3, 2, 1));
                    assert_eq!(moved, Ok(()), "{protocol} after {polls} polls");
                } else {
                    drop(dropped);
                }
                let moved = block_on(transfer(&mut last, &accounts, 2, 3, 1));
                assert_eq!(moved, Ok(()), "{protocol} after {polls} polls");
                assert_eq!(block_on(total(&mut last, &accounts)), Ok(ACCOUNTS as i64 * EACH));
            }
        }
    }
}

#[test]
fn names_of_clients_that_are_gone_are_given_again() {
    let (cluster, accounts) = accounts_of(Cluster::builder(), Protocol::Sundial, hash());
    let mut earlier = None;
    for _ in 0..100 {
        let mut client = cluster.client().unwrap();
        assert!(earlier.is_none_or(|earlier| earlier == client.id()));
        earlier = Some(client.id());
        // Its first attempt has the number of the first attempt of who had this name before.
        assert_eq!(block_on(transfer(&mut client, &accounts, 0, 1, 1)), Ok(()));
    }
    let mut client = cluster.client().unwrap();
    let moved = block_on(client.transact(async |tx| tx.need(&accounts, 1).await));
    assert_eq!(moved, Ok::<i64, ClusterAbort>(EACH + 100));
}

#[test]
fn there_are_only_so_many_names() {
    let cluster = Cluster::builder().build().unwrap();
    let mut clients: Vec<_> = (0..1 << 16).map(|_| cluster.client().unwrap()).collect();
    assert_eq!(cluster.client().err(), Some(ClientError::TooManyClients));
    let none: Result<(), ClusterAbort> = block_on(cluster.transact(async |_| Ok(())));
    let Err(ClusterAbort::Refused(refusal)) = none else { panic!("{none:?}") };
    assert_eq!(refusal.kind, AbortKind::TooManySessions);
    clients.pop();
    assert!(cluster.client().is_ok());
}

#[test]
fn tables_that_cannot_be_made() {
    let cluster = Cluster::builder().workers(2).build().unwrap();
    let make = |name: &str, protocol: Protocol, spread: Partitioning| {
        cluster.create_table::<u64, i64>(name, TableOptions::new().protocol(protocol), spread)
    };
    let backwards = Partitioning::Ranges(vec![vec![2], vec![1]]);
    let refused = make("a", Protocol::Sundial, backwards).unwrap_err();
    assert_eq!(refused, CreateTableError::Partitioning("a".into(), InvalidPartitioning::NotAscending(1)));
    // Nothing of these is left.
    assert!(make("a", Protocol::Sundial, hash()).is_ok());
    let twice = make("a", Protocol::Sundial, hash()).unwrap_err();
    assert_eq!(twice, CreateTableError::Schema(SchemaError::Exists("a".into())));

    let client = cluster.client().unwrap();
    assert_eq!(cluster.order(), Some(Order::Logical));
    let late = make("b", Protocol::Sundial, hash()).unwrap_err();
    assert_eq!(late, CreateTableError::HasClients("b".into(), 1));
    drop(client);
    // (Those of transactions without a client do not count.)
    let none: Result<(), ClusterAbort> = block_on(cluster.transact(async |_| Ok(())));
    assert_eq!(none, Ok(()));
    assert!(make("b", Protocol::Sundial, hash()).is_ok());
    let other = make("c", Protocol::Occ, hash()).unwrap_err();
    assert!(matches!(other, CreateTableError::Schema(SchemaError::WrongOrder(..))), "{other}");
}

/// What there is in accounts, and which.
type Entries = Vec<((u64, i64), u64)>;

/// Entries of an index are with the workers of their rows, and change with them: whoever reads all of them sees each account once, and
/// all of the money.
#[test]
fn money_is_conserved_in_an_index_too() {
    for &protocol in PROTOCOLS {
        for (reach, by_account) in [(IndexReach::Everywhere, false), (IndexReach::AsRows, true)] {
            let cluster = Cluster::builder().workers(2).build().unwrap();
            let options = TableOptions::new().protocol(protocol);
            let accounts = cluster.create_table::<u64, i64>("accounts", options, hash()).unwrap();
            // By what there is in them; or by themselves first, so that each is looked for where it is.
            let key_of =
                move |account: &u64, balance: &i64| (if by_account { *account } else { 0 }, *balance);
            let index = cluster.create_index(&accounts, "by balance", reach, key_of).unwrap();
            let filled: Result<(), ClusterAbort> = block_on(cluster.transact(async |tx| {
                for account in 0..ACCOUNTS {
                    tx.insert(&accounts, account, EACH).await?;
                }
                Ok(())
            }));
            assert_eq!(filled, Ok(()));
            thread::scope(|scope| {
                for worker in 0..2 {
                    let (mut client, accounts) = (cluster.client().unwrap(), &accounts);
                    scope.spawn(move || {
                        for round in 0..40_u64 {
                            let [from, to] =
                                [round * 5 + worker, round * 7 + worker + 1].map(|a| a % ACCOUNTS);
                            let moved: Result<(), ClusterAbort> = block_on(client.transact(async |tx| {
                                tx.update(accounts, from, |balance| *balance -= 3).await?;
                                tx.update(accounts, to, |balance| *balance += 3).await
                            }));
                            assert_eq!(moved, Ok(()), "{protocol}");
                        }
                    });
                }
                let (mut client, index) = (cluster.client().unwrap(), &index);
                scope.spawn(move || {
                    for round in 0..40 {
                        let all: Result<Entries, ClusterAbort> =
                            block_on(client.transact(async |tx| {
                                tx.range_by(index, .., round % 2 == 1, usize::MAX).await
                            }));
                        let all = all.unwrap();
                        assert!(all.is_sorted() || round % 2 == 1, "{all:?}");
                        assert_eq!(all.len() as u64, ACCOUNTS, "{protocol}: {all:?}");
                        let sum: i64 = all.iter().map(|((_, balance), _)| balance).sum();
                        assert_eq!(sum, EACH * ACCOUNTS as i64, "{protocol}: {all:?}");
                    }
                });
            });
        }
    }
}

/// Whoever works out the keys of an index may panic: then that transaction is refused, whose rows are free again, and all goes on.
#[test]
fn a_panic_of_an_index_refuses_its_transaction() {
    for protocol in
        [Protocol::Sundial, Protocol::TwoPhaseWaitDie, Protocol::Occ, Protocol::Dynamic, Protocol::Fixed]
    {
        let cluster = Cluster::builder().workers(2).build().unwrap();
        let options = || TableOptions::new().protocol(protocol);
        let accounts = cluster.create_table::<u64, i64>("accounts", options(), hash()).unwrap();
        let key_of = |_: &u64, balance: &i64| {
            assert!(*balance != 13, "thirteen is no key");
            *balance
        };
        let by_balance =
            cluster.create_index(&accounts, "by balance", IndexReach::Everywhere, key_of).unwrap();
        block_on(cluster.transact(async |tx| {
            for key in 0..8 {
                tx.insert(&accounts, key, 100).await?;
            }
            Ok::<_, ClusterAbort>(())
        }))
        .unwrap();
        let refused = |abort: ClusterAbort| {
            assert!(!abort.is_retryable(), "{protocol}: {abort}");
            let refusal = abort.refusal().expect("a server has refused it");
            assert_eq!(refusal.kind, AbortKind::Panicked, "{protocol}");
            assert!(refusal.words.contains("thirteen is no key"), "{protocol}: {refusal}");
        };
        // By each operation that changes rows, when another row has been changed at every server before; at once, or at the commit.
        for operation in 0..6 {
            let answer = block_on(cluster.transact(async |tx| {
                for key in 0..8 {
                    tx.update(&accounts, key, |balance| *balance += 1).await?;
                }
                match operation {
                    0 => tx.update(&accounts, 3, |balance| *balance = 13).await,
                    1 => tx.write(&accounts, 3, 13).await.map(drop),
                    2 => tx.insert(&accounts, 20, 13).await.map(drop),
                    3 => tx.upsert(&accounts, 3, 13).await.map(drop),
                    4 => tx.write_later(&accounts, 3, 13).await,
                    _ => tx.add(&accounts, 3, Column::whole(), 13 - 101).await,
                }
            }));
            refused(answer.expect_err("nothing has such a key"));
        }
        // A row that is changed for its last time: its entry was made before.
        let all = block_on(cluster.transact(async |tx| {
            for key in 0..8 {
                tx.update(&accounts, key, |balance| *balance += i64::try_from(key).unwrap()).await?;
            }
            Ok::<_, ClusterAbort>((
                tx.range(&accounts, .., false, 100).await?,
                tx.range_by(&by_balance, .., false, 100).await?,
            ))
        }));
        let (rows, entries) = all.unwrap_or_else(|abort| panic!("{protocol}: {abort}"));
        let expected: Vec<_> = (0..8u64).map(|key| (key, 100 + i64::try_from(key).unwrap())).collect();
        assert_eq!(rows, expected, "{protocol}");
        assert_eq!(entries.iter().map(|(balance, key)| (*key, *balance)).collect::<Vec<_>>(), expected);
    }
}

/// What a server has refused says where, what and who, so that a program can tell.
#[test]
fn a_refusal_has_its_parts() {
    let cluster = Cluster::builder().workers(3).build().unwrap();
    let options = TableOptions::new().protocol(Protocol::TwoPhaseNoWait);
    let accounts = cluster.create_table::<u64, (i64, i64)>("accounts", options, hash()).unwrap();
    block_on(cluster.transact(async |tx| tx.insert(&accounts, 42, (1, 2)).await)).unwrap();
    let (mut first, mut second) = (cluster.client().unwrap(), cluster.client().unwrap());
    second.set_policy(Policy { attempts_max: Some(1), ..Policy::default() });
    let abort = block_on(first.transact(async |tx| {
        tx.update(&accounts.group::<1>(), 42, |money| *money += 1).await?;
        Ok::<_, ClusterAbort>(second.transact(async |tx| tx.get(&accounts.group::<1>(), 42).await).await)
    }));
    let abort = abort.unwrap().expect_err("it is locked");
    let refusal = abort.refusal().unwrap();
    assert_eq!((refusal.table.as_deref(), refusal.key.as_deref()), (Some("accounts"), Some("42")));
    assert!(refusal.column_group.is_some() && abort.is_retryable());
    assert_eq!((refusal.kind, abort.rule()), (AbortKind::Conflict, refusal.rule.as_str()));
    assert!(refusal.rule.starts_with("two-phase-no-wait: "), "{}", refusal.rule);
    assert_eq!(refusal.other.map(|other| other.client), Some(first.id()));
    // All of which stand in the explanation.
    let place = format!("accounts[42].{}", refusal.column_group.as_deref().unwrap());
    for part in [place.as_str(), &refusal.rule, &format!("server {}", refusal.server.number())] {
        assert!(abort.to_string().contains(part), "{part}: {abort}");
    }
    // Of a row of another type, too.
    let other: Table<u64, String> = Table::new(accounts.id());
    let written = block_on(second.transact(async |tx| tx.write(&other, 42, "1".to_owned()).await));
    let abort = written.unwrap_err();
    let refusal = abort.refusal().unwrap();
    assert_eq!((refusal.kind, refusal.table.as_deref()), (AbortKind::TooLong, Some("accounts")));
    assert!(abort.to_string().contains("not one of the table's types"), "{abort}");
    // Of a row that is not there nobody has refused anything.
    let missing = block_on(second.view(async |tx| tx.need(&accounts, 7).await)).unwrap_err();
    assert!(matches!(missing, ClusterAbort::Missing(_)) && missing.refusal().is_none());
}

/// What is read together belongs together, whoever writes meanwhile, and costs no more than reading does.
#[test]
fn who_only_reads_sees_one_state() {
    for protocol in [Protocol::Sundial, Protocol::TicToc, Protocol::Dynamic, Protocol::TwoPhaseWaitDie] {
        let cluster = Cluster::builder().workers(3).build().unwrap();
        let options = TableOptions::new().protocol(protocol);
        let accounts = cluster.create_table::<u64, i64>("accounts", options, hash()).unwrap();
        block_on(cluster.transact(async |tx| {
            for key in 0..12 {
                tx.insert(&accounts, key, 100).await?;
            }
            Ok::<_, ClusterAbort>(())
        }))
        .unwrap();
        std::thread::scope(|scope| {
            for writer in 0..2u64 {
                let (cluster, accounts) = (&cluster, &accounts);
                scope.spawn(move || {
                    for round in 0..200u64 {
                        let (from, to) = ((round * 7 + writer) % 12, (round * 5 + 3 * writer + 1) % 12);
                        block_on(cluster.transact(async |tx| {
                            tx.update(accounts, from, |balance| *balance -= 1).await?;
                            tx.update(accounts, to, |balance| *balance += 1).await
                        }))
                        .unwrap();
                    }
                });
            }
            for _ in 0..200 {
                let (some, all) = block_on(cluster.view(async |tx| {
                    let keys: Vec<u64> = (0..12).collect();
                    let some: i64 = tx.get_many(&accounts, &keys).await?.into_iter().flatten().sum();
                    let all = tx.range(&accounts, .., false, 100).await?;
                    Ok::<_, ClusterAbort>((some, all.into_iter().map(|(_, balance)| balance).sum::<i64>()))
                }))
                .unwrap();
                assert_eq!((some, all), (1_200, 1_200), "{protocol}");
            }
        });
    }
}

/// A long transaction that loses to short ones, each time that it looks, is let through after so many attempts.
#[test]
fn nobody_loses_for_ever() {
    const ROWS: u64 = 60;
    // (Where the younger waits the short one would, for the long one in whose midst it is.)
    for protocol in PROTOCOLS.iter().filter(|protocol| **protocol != Protocol::TwoPhaseWoundWait) {
        // Nobody is taken for gone who is only slow.
        let cluster = Cluster::builder().workers(2).wait_max(Duration::from_secs(60)).build().unwrap();
        let options = TableOptions::new().protocol(*protocol);
        let accounts = cluster.create_table::<u64, i64>("accounts", options, hash()).unwrap();
        block_on(cluster.transact(async |tx| {
            for key in 0..ROWS {
                tx.insert(&accounts, key, 100).await?;
            }
            Ok::<_, ClusterAbort>(())
        }))
        .unwrap();
        let (mut long, mut short) = (cluster.client().unwrap(), cluster.client().unwrap());
        let once = Policy { attempts_max: Some(1), ..Policy::default() };
        short.set_policy(Policy { backoff_max: Duration::ZERO, ..once });
        let mut attempts = |escape_after| {
            const ENOUGH: u32 = 12;
            let policy = Policy {
                attempts_max: Some(ENOUGH),
                backoff_max: Duration::ZERO,
                backoff_round_trips: None,
                escape_after,
            };
            long.set_policy(policy);
            let (mut attempts, mut refused) = (0, 0);
            let done = block_on(long.transact(async |tx| {
                attempts += 1;
                for key in 0..ROWS {
                    tx.get(&accounts, key).await?;
                    // One that another has read, and one that it has yet to read.
                    if key == ROWS / 2 {
                        let interferes = short.transact(async |tx| {
                            tx.update(&accounts, key / 2, |balance| *balance -= 1).await?;
                            tx.update(&accounts, key + 2, |balance| *balance += 1).await
                        });
                        let interferes: Result<(), ClusterAbort> = interferes.await;
                        refused += u32::from(interferes.is_err_and(|abort| abort.rule() == "cluster: gate"));
                    }
                }
                tx.update(&accounts, ROWS - 1, |balance| *balance += 1).await
            }));
            assert_eq!(done.is_ok(), attempts < ENOUGH || refused > 0, "{protocol}: {attempts} {done:?}");
            (attempts, refused)
        };
        let (without, with) = (attempts(None), attempts(Some(5)));
        assert_eq!(without.1, 0, "{protocol}");
        assert!(with.0 <= 6, "{protocol}: {with:?}");
        // Whoever loses without it loses as often with it, and then commits at once; and nobody is kept out afterwards. (Adaptive tables
        // lock what is read, once that has been lost so often.)
        let expected = if without.0 < 5 || *protocol == Protocol::Adaptive { (1, 0) } else { (6, 1) };
        assert_eq!(with, expected, "{protocol}: {without:?}");
        let after: Result<(), ClusterAbort> =
            block_on(short.transact(async |tx| tx.update(&accounts, 0, |balance| *balance += 1).await));
        assert_eq!(after, Ok(()), "{protocol}");
        let conservative = [Protocol::Occ, Protocol::TicToc, Protocol::Sundial, Protocol::Dynamic];
        assert!(without.0 == 12 || !conservative.contains(protocol), "{protocol}: it does not lose");
    }
}

#[test]
fn indexes_that_cannot_be_made() {
    let cluster = Cluster::builder().workers(2).build().unwrap();
    let table = |name| cluster.create_table::<u64, (i64, i64)>(name, TableOptions::new(), hash()).unwrap();
    let (one, other) = (table("one"), table("other"));
    let make = |name: &str| cluster.create_index(&one, name, IndexReach::AsRows, |key, _| *key);
    assert!(make("a").is_ok());
    let refused = make("a").unwrap_err();
    assert_eq!(refused, CreateTableError::Schema(SchemaError::Exists("one.a".into())));
    // Of a column group there is none.
    let group = cluster.create_index(&one.group::<0>(), "b", IndexReach::AsRows, |key, _| *key).unwrap_err();
    assert!(matches!(group, CreateTableError::Schema(SchemaError::OtherTypes(_))), "{group:?}");
    let put = block_on(cluster.transact(async |tx| tx.insert(&other, 1, (1, 1)).await));
    assert_eq!(put, Ok::<_, ClusterAbort>(true));
    let client = cluster.client().unwrap();
    assert_eq!(make("c").unwrap_err(), CreateTableError::HasClients("c".into(), 1));
    drop(client);
    let late = cluster.create_index(&other, "d", IndexReach::AsRows, |key, _| *key);
    assert_eq!(late.unwrap_err(), CreateTableError::Schema(SchemaError::NotEmpty("other".into())));
}

#[test]
fn clusters_that_cannot_be_built() {
    assert!(matches!(Cluster::builder().workers(0).build(), Err(BuildClusterError::NoWorkers)));
    assert!(matches!(Cluster::builder().branches_max(0).build(), Err(BuildClusterError::Database(_))));
    let built = Cluster::builder().order(Order::Snapshot).build();
    assert!(matches!(built, Err(BuildClusterError::Order(Order::Snapshot))));
}

/// Under whatever order its tables ask for, or the builder.
#[test]
fn the_order_follows_from_the_tables() {
    let order_of = |builder: Builder, protocols: &[Protocol]| {
        let cluster = builder.workers(2).build().unwrap();
        for protocol in protocols {
            let options = TableOptions::new().protocol(*protocol).index(IndexKind::Hash);
            cluster.create_table::<u64, i64>(protocol.name(), options, hash()).unwrap();
        }
        cluster.client().unwrap();
        cluster.order()
    };
    let logical = [Protocol::TicToc, Protocol::Sundial];
    assert_eq!(order_of(Cluster::builder(), &logical), Some(Order::Logical));
    assert_eq!(order_of(Cluster::builder(), &[Protocol::Sundial, Protocol::Occ]), Some(Order::Momentary));
    assert_eq!(order_of(Cluster::builder().order(Order::Momentary), &logical), Some(Order::Momentary));
    assert_eq!(order_of(Cluster::builder(), &[Protocol::Fixed]), Some(Order::Beginning));
}

/// A transaction of the user's own executor that waits for nothing of the cluster's goes on, too.
#[test]
fn a_transaction_may_await_anything() {
    let (cluster, accounts) = accounts_of(Cluster::builder().workers(2), Protocol::Sundial, hash());
    let mut client = cluster.client().unwrap();
    let mut has_yielded = false;
    let read: Result<i64, ClusterAbort> = block_on(client.transact(async |tx| {
        let one = tx.need(&accounts, 1).await?;
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if std::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok(one + tx.need(&accounts, 2).await?)
    }));
    assert_eq!(read, Ok(2 * EACH));
}

/// Of a range on several servers as many rows come as were asked for, those that are first in either order; out of copied nodes, too.
#[test]
fn limits_hold_across_servers() {
    let cache = CacheOptions { bytes_max: 1 << 16, banks: 1, reuse: ReusePolicy::Always };
    for spread in [hash(), by_key(ACCOUNTS), Partitioning::Replicated] {
        for caches in [false, true] {
            let builder = Cluster::builder().workers(3);
            let builder = if caches { builder.cache(cache) } else { builder };
            let (cluster, accounts) = accounts_of(builder, Protocol::Sundial, spread.clone());
            let mut client = cluster.client().unwrap();
            for (lower, upper) in [(0, ACCOUNTS), (3, 9), (4, 5), (7, 7)] {
                for (limit, reverse) in (0..14).flat_map(|limit| [(limit, false), (limit, true)]) {
                    let mut expected: Vec<_> = (lower..upper).map(|account| (account, EACH)).collect();
                    if reverse {
                        expected.reverse();
                    }
                    expected.truncate(limit);
                    let read = block_on(
                        client.transact(async |tx| tx.range(&accounts, lower..upper, reverse, limit).await),
                    );
                    let what = format!("{spread:?}, {caches}, {lower}..{upper}, {reverse}, {limit}");
                    assert_eq!(read, Ok::<_, ClusterAbort>(expected), "{what}");
                }
            }
            let counts = cluster.cache_counts();
            assert_eq!(
                counts.reused > 0,
                caches && spread != Partitioning::Replicated,
                "{spread:?}: {counts:?}"
            );
        }
    }
}

/// Copies are read by several threads at a time, and money that goes round while they are is conserved for whoever adds it up.
#[test]
fn what_is_read_out_of_copies_adds_up() {
    for reuse in [ReusePolicy::Always, ReusePolicy::Never, ReusePolicy::default()] {
        for order in [Order::Logical, Order::Momentary] {
            let cache = CacheOptions { bytes_max: 1 << 14, banks: 2, reuse };
            let builder = Cluster::builder().workers(2).order(order).cache(cache);
            let builder = builder.table_leases(TableLeases { reads_min: 4, beyond_max: 8 });
            let (cluster, accounts) = accounts_of(builder, Protocol::Sundial, by_key(ACCOUNTS));
            thread::scope(|scope| {
                for thread in 0..4 {
                    let (mut client, accounts) = (cluster.client().unwrap(), &accounts);
                    scope.spawn(move || {
                        for round in 0..100 {
                            if thread % 2 == 0 {
                                let (from, to) =
                                    ((thread + round) % ACCOUNTS, (thread + 3 * round + 1) % ACCOUNTS);
                                block_on(transfer(&mut client, accounts, from, to, 1)).unwrap();
                            } else {
                                let sum = block_on(total(&mut client, accounts)).unwrap();
                                assert_eq!(sum, ACCOUNTS as i64 * EACH, "{reuse:?}, {order:?}");
                            }
                        }
                    });
                }
            });
            let counts = cluster.cache_counts();
            assert!(counts.reused + counts.requested > 0, "{reuse:?}, {order:?}: {counts:?}");
        }
    }
}
