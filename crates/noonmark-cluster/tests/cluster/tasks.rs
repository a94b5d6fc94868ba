//! Programs that run on the workers' own threads: beside clients elsewhere money is conserved; a client may leave its task and come to another; who
//! panics or blocks ends nobody else; and nothing outlives the cluster.

use crate::accounts::{ACCOUNTS, EACH, accounts_of, by_key};
use noonmark::Protocol;
use noonmark_cluster::client::{Client, ClusterAbort, Table};
use noonmark_cluster::cluster::{ClientError, Cluster};
use noonmark_cluster::executor::block_on;
use noonmark_cluster::partition::ServerId;
use noonmark_cluster::tasks::{Task, TaskError};
use noonmark_cluster::workers::WorkerLink;
use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Those of even keys are with the first worker, those of odd ones with the second. Nobody is refused for having waited.
fn workers(count: u16, protocol: Protocol) -> (Cluster, Table<u64, i64>) {
    let builder = Cluster::builder().workers(count).wait_max(Duration::from_secs(3_600));
    accounts_of(builder, protocol, by_key(ACCOUNTS))
}

fn at(worker: u16) -> ServerId {
    ServerId::new(worker)
}

async fn transfer(
    client: &mut Client<WorkerLink>,
    accounts: &Table<u64, i64>,
    from: u64,
    to: u64,
) -> Result<(), ClusterAbort> {
    client
        .transact(async |tx| {
            tx.update(accounts, from, |balance| *balance -= 1).await?;
            tx.update(accounts, to, |balance| *balance += 1).await
        })
        .await
}

async fn balances(client: &mut Client<WorkerLink>, accounts: &Table<u64, i64>) -> Vec<i64> {
    let keys: Vec<u64> = (0..ACCOUNTS).collect();
    let read: Result<_, ClusterAbort> = client.view(async |tx| tx.get_many(accounts, &keys).await).await;
    read.unwrap().into_iter().flatten().collect()
}

fn all_is_there(cluster: &Cluster, accounts: &Table<u64, i64>, what: &str) {
    let mut client = cluster.client().unwrap();
    for account in 0..ACCOUNTS {
        let moved = block_on(transfer(&mut client, accounts, account, (account + 1) % ACCOUNTS));
        assert_eq!(moved, Ok(()), "{what}");
    }
    let read = block_on(balances(&mut client, accounts));
    assert_eq!(read.iter().sum::<i64>(), ACCOUNTS as i64 * EACH, "{what}: {read:?}");
}

/// Transfers, most of them between two workers, and totals now and then.
async fn bank(client: &mut Client<WorkerLink>, accounts: &Table<u64, i64>, seed: u64, transfers: u64) {
    for turn in 0..transfers {
        let mixed = (seed * 1_000 + turn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let (from, to) = (mixed % ACCOUNTS, (mixed >> 8) % ACCOUNTS);
        if from == to {
            let read = balances(client, accounts).await;
            assert_eq!(read.iter().sum::<i64>(), ACCOUNTS as i64 * EACH, "{read:?}");
        } else {
            assert_eq!(transfer(client, accounts, from, to).await, Ok(()));
        }
    }
}

#[test]
fn tasks_and_clients_elsewhere_conserve_money() {
    for protocol in [Protocol::Sundial, Protocol::TwoPhaseWaitDie, Protocol::TicToc, Protocol::Dynamic] {
        let (cluster, accounts) = workers(2, protocol);
        let mut tasks: Vec<Task<()>> = Vec::new();
        for seed in 0..6 {
            let of_task = accounts.clone();
            let program = move |mut client: Client<WorkerLink>| async move {
                let name = format!("noonmark worker {}", seed % 2);
                assert_eq!(thread::current().name(), Some(name.as_str()));
                assert_eq!(client.id().server, at(seed % 2));
                bank(&mut client, &of_task, seed.into(), 100).await;
            };
            tasks.push(cluster.spawn_at(at(seed % 2), program).unwrap());
        }
        thread::scope(|scope| {
            for seed in 6..8 {
                let mut client = cluster.client().unwrap();
                let accounts = &accounts;
                scope.spawn(move || block_on(bank(&mut client, accounts, seed, 100)));
            }
        });
        for task in tasks {
            assert_eq!(block_on(task), Ok(()), "{protocol}");
        }
        all_is_there(&cluster, &accounts, protocol.name());
    }
}

/// A client begins transactions in one task, which are dropped on their way, goes elsewhere, and comes to another task: what it has sent past the
/// queue and through it arrives in the order in which it was sent, or it would meet its own locks, or lose one of its transfers.
#[test]
fn a_client_may_leave_its_task_and_come_to_another() {
    let (cluster, accounts) = workers(2, Protocol::Sundial);
    let poll_some = |client: &mut Client<WorkerLink>, accounts: &Table<u64, i64>, polls: u32| {
        let mut future = pin!(transfer(client, accounts, 0, 1));
        let mut context = Context::from_waker(Waker::noop());
        let _ = (0..polls).any(|_| future.as_mut().poll(&mut context).is_ready());
    };
    for turn in 0..200 {
        let of_task = accounts.clone();
        let task = cluster.spawn_at(at(0), move |mut client| async move {
            poll_some(&mut client, &of_task, turn % 5);
            assert_eq!(transfer(&mut client, &of_task, 0, 2).await, Ok(()));
            poll_some(&mut client, &of_task, turn % 7);
            client
        });
        let mut client = block_on(task.unwrap()).unwrap();
        assert_eq!(block_on(transfer(&mut client, &accounts, 2, 4)), Ok(()));
        poll_some(&mut client, &accounts, turn % 3);
        let of_task = accounts.clone();
        let task = cluster.spawn_at(at(u16::from(turn % 2 == 1)), move |_| async move {
            assert_eq!(transfer(&mut client, &of_task, 4, 6).await, Ok(()));
            assert_eq!(transfer(&mut client, &of_task, 6, 0).await, Ok(()));
        });
        assert_eq!(block_on(task.unwrap()), Ok(()));
    }
    let read = block_on(balances(&mut cluster.client().unwrap(), &accounts));
    assert_eq!(read.iter().sum::<i64>(), ACCOUNTS as i64 * EACH);
    // Of those between 0 and 1, which were dropped, any may have been committed.
    assert_eq!([read[2], read[4], read[6]], [EACH; 3]);
}

/// One that has been elsewhere, and comes back to its worker's thread before what it has sent there has been looked at, is not overtaken by its
/// own end: what it has left would be there for ever. (Broken, this hangs: who gets the name next is not heard.)
#[test]
fn a_client_that_comes_back_sends_through_the_queue() {
    let (cluster, accounts) = workers(1, Protocol::TwoPhaseWaitDie);
    for polls in [1, 2, 3].repeat(20) {
        let lent = cluster.spawn_at(at(0), |client| async { client });
        let mut client = block_on(lent.unwrap()).unwrap();
        let (ask, asked) = mpsc::channel();
        let (give, given) = mpsc::channel::<Client<WorkerLink>>();
        let drops = cluster.spawn_at(at(0), move |_| async move {
            ask.send(()).unwrap();
            // No task should wait like this. It makes sure that the worker does not look at its queue meanwhile.
            drop(given.recv());
        });
        asked.recv().unwrap();
        let mut future = Box::pin(transfer(&mut client, &accounts, 0, 1));
        let mut context = Context::from_waker(Waker::noop());
        let _ = (0..polls).any(|_| future.as_mut().poll(&mut context).is_ready());
        // So that nothing is rolled back but by the client's end.
        std::mem::forget(future);
        give.send(client).unwrap();
        assert_eq!(block_on(drops.unwrap()), Ok(()));
        let moved = block_on(transfer(&mut cluster.client().unwrap(), &accounts, 0, 1));
        assert_eq!(moved, Ok(()), "after {polls} polls");
    }
    all_is_there(&cluster, &accounts, "after all that");
}

#[test]
fn a_task_is_woken_from_any_thread() {
    let (cluster, accounts) = workers(1, Protocol::Sundial);
    let shared: Arc<Mutex<(Vec<u64>, Option<Waker>)>> = Arc::default();
    let of_task = shared.clone();
    let task = cluster.spawn_at(at(0), move |mut client| async move {
        for account in 1..ACCOUNTS {
            let next = poll_fn(|context| {
                let mut shared = of_task.lock().unwrap();
                shared.1 = Some(context.waker().clone());
                shared.0.pop().map_or(Poll::Pending, Poll::Ready)
            });
            assert_eq!(next.await, account);
            assert_eq!(transfer(&mut client, &accounts, 0, account).await, Ok(()));
        }
        balances(&mut client, &accounts).await
    });
    let task = task.unwrap();
    for account in 1..ACCOUNTS {
        while !shared.lock().unwrap().0.is_empty() {
            thread::yield_now();
        }
        let waker = {
            let mut shared = shared.lock().unwrap();
            shared.0.push(account);
            shared.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
    assert_eq!(block_on(task).unwrap()[1..], [EACH + 1; ACCOUNTS as usize - 1]);
}

/// A lone worker, each of whose tasks is always ready, goes on with the letters of others.
#[test]
fn busy_tasks_keep_nobody_from_his_answers() {
    let (cluster, accounts) = workers(1, Protocol::Sundial);
    let (tell, told) = mpsc::channel::<()>();
    let busy = move |_| async move {
        poll_fn(|context| match told.try_recv() {
            Err(mpsc::TryRecvError::Empty) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Ready(()),
        })
        .await;
    };
    let task = cluster.spawn_at(at(0), busy).unwrap();
    all_is_there(&cluster, &accounts, "beside a busy task");
    drop(tell);
    assert_eq!(block_on(task), Ok(()));
}

/// However many tasks keep a worker at work with rows of its own, whoever is elsewhere comes to his turn.
#[test]
fn tasks_that_stay_at_their_worker_keep_nobody_else_out() {
    /// Tasks that have run so many transactions without being told to stop have had their worker to themselves.
    const ENOUGH: u64 = 1_000_000;
    for count in [1, 63, 64, 65, 200] {
        let (cluster, accounts) = workers(2, Protocol::Sundial);
        let is_over = Arc::new(AtomicBool::new(false));
        let of_own_worker = |number: u64| {
            let (accounts, is_over) = (accounts.clone(), is_over.clone());
            // (It is with the last of the workers.)
            let key = 1_000 + number;
            let program = move |mut client: Client<WorkerLink>| async move {
                let put: Result<bool, ClusterAbort> =
                    client.transact(async |tx| tx.insert(&accounts, key, 0).await).await;
                assert_eq!(put, Ok(true));
                for _ in 0..ENOUGH / count {
                    let done: Result<(), ClusterAbort> = client
                        .transact(async |tx| tx.update(&accounts, key, |balance| *balance += 1).await)
                        .await;
                    assert_eq!(done, Ok(()));
                    if is_over.load(Ordering::Relaxed) {
                        return true;
                    }
                }
                false
            };
            cluster.spawn_at(at(1), program).unwrap()
        };
        let tasks: Vec<Task<bool>> = (0..count).map(of_own_worker).collect();
        // From a thread, and from a task at the other worker.
        all_is_there(&cluster, &accounts, "beside tasks");
        let of_task = accounts.clone();
        let elsewhere = cluster
            .spawn_at(at(0), move |mut client| async move { transfer(&mut client, &of_task, 0, 1).await });
        assert_eq!(block_on(elsewhere.unwrap()), Ok(Ok(())));
        is_over.store(true, Ordering::Relaxed);
        for task in tasks {
            assert_eq!(block_on(task), Ok(true), "{count} tasks have kept the others out");
        }
    }
}

/// A task that panics, or would block its worker, is told of, and what it had begun is rolled back.
#[test]
fn who_panics_or_blocks_ends_nobody_else() {
    let (cluster, accounts) = workers(2, Protocol::TwoPhaseWaitDie);
    let of_task = accounts.clone();
    let panics = cluster.spawn_at(at(0), move |mut client| async move {
        let done: Result<(), ClusterAbort> = client
            .transact(async |tx| {
                tx.update(&of_task, 0, |balance| *balance += 1).await?;
                tx.update(&of_task, 1, |balance| *balance += 1).await?;
                tx.need(&of_task, 0).await?;
                panic!("of {}", "no use")
            })
            .await;
        done
    });
    assert_eq!(block_on(panics.unwrap()), Err(TaskError::Panicked("of no use".to_owned())));
    all_is_there(&cluster, &accounts, "after a panic");

    let blocks = |_: Client<WorkerLink>| async { block_on(pending::<()>()) };
    let Err(TaskError::Panicked(words)) = block_on(cluster.spawn_at(at(1), blocks).unwrap()) else {
        panic!("it has blocked its worker")
    };
    assert!(words.contains("await the future instead"), "{words}");
    // What is there at once need not be waited for.
    let ready = cluster.spawn_at(at(1), |_| async { block_on(async { 3 }) });
    assert_eq!(block_on(ready.unwrap()), Ok(3));

    // So does one that panics when it is made, or dropped.
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    fn starts_badly(_: Client<WorkerLink>) -> std::future::Ready<()> {
        panic!("at the start")
    }
    let at_the_start = cluster.spawn_at(at(0), starts_badly).unwrap();
    assert_eq!(block_on(at_the_start), Err(TaskError::Panicked("at the start".to_owned())));
    let at_the_end = cluster.spawn_at(at(0), |_| {
        let held = PanicsWhenDropped;
        poll_fn(move |_| {
            let _ = &held;
            Poll::Ready(())
        })
    });
    assert_eq!(block_on(at_the_end.unwrap()), Err(TaskError::Panicked("dropped".to_owned())));
    all_is_there(&cluster, &accounts, "after more of them");

    // A value that nobody waits for, a panic that panics, and a waker of another's: each when the worker drops or wakes it.
    let (go_on, may_go_on) = mpsc::channel::<()>();
    drop(cluster.spawn_at(at(0), move |_| async move {
        let _ = may_go_on.recv();
        PanicsWhenDropped
    }));
    go_on.send(()).unwrap();
    let thrown = cluster.spawn_at(at(0), |_| async { std::panic::panic_any(PanicsWhenDropped) });
    let thrown: Result<(), TaskError> = block_on(thrown.unwrap());
    assert_eq!(thrown, Err(TaskError::Panicked("without words".to_owned())));
    struct PanicsWhenWoken;
    impl Wake for PanicsWhenWoken {
        fn wake(self: Arc<Self>) {
            panic!("woken");
        }
    }
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let mut waits = pin!(
        cluster
            .spawn_at(at(0), move |_| async move {
                let _ = may_go_on.recv();
                7
            })
            .unwrap()
    );
    let waker = Waker::from(Arc::new(PanicsWhenWoken));
    assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    go_on.send(()).unwrap();
    assert_eq!(block_on(waits), Ok(7));
    all_is_there(&cluster, &accounts, "after all of them");
}

/// Its future need not be `Send`, and goes where it has run: when the cluster does, at the latest.
#[test]
fn nothing_outlives_the_cluster() {
    struct Gone(mpsc::Sender<Option<String>>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.send(thread::current().name().map(str::to_owned)).unwrap();
        }
    }
    let (cluster, accounts) = workers(2, Protocol::Sundial);
    let (tell, told) = mpsc::channel();
    let (begun, has_begun) = mpsc::channel();
    let waits = cluster.spawn_at(at(1), move |mut client| async move {
        let (_gone, turns) = (Gone(tell), Rc::new(Cell::new(0)));
        let done: Result<(), ClusterAbort> = client
            .transact(async |tx| {
                tx.update(&accounts, 0, |balance| *balance += 1).await?;
                turns.set(turns.get() + 1);
                begun.send(turns.get()).unwrap();
                pending().await
            })
            .await;
        done
    });
    assert_eq!(has_begun.recv(), Ok(1));
    drop(cluster);
    assert_eq!(told.recv(), Ok(Some("noonmark worker 1".to_owned())));
    assert_eq!(block_on(waits.unwrap()), Err(TaskError::Dropped));

    // One that keeps its cluster ends it, on the worker's own thread.
    let (cluster, accounts) = workers(2, Protocol::Sundial);
    let own = cluster.clone();
    let last = cluster.spawn_at(at(0), move |mut client| async move {
        let moved = transfer(&mut client, &accounts, 0, 1).await;
        drop((client, own));
        moved
    });
    drop(cluster);
    assert_eq!(block_on(last.unwrap()), Ok(Ok(())));
}

#[test]
fn tasks_that_cannot_be() {
    let (cluster, _) = workers(2, Protocol::Sundial);
    let error = cluster.spawn_at(at(2), |_| async {}).err().unwrap();
    assert_eq!(error, ClientError::NoWorker(at(2), 2));
    assert_eq!(error.to_string(), "there is no server 2: there are 2, numbered from 0");
    // Names are each worker's own.
    let park = |client: Client<WorkerLink>| async move {
        let _client = client;
        pending().await
    };
    let parked: Vec<Task<()>> = (0..1 << 16).map(|_| cluster.spawn_at(at(1), park).unwrap()).collect();
    assert_eq!(cluster.spawn_at(at(1), |_| async {}).err(), Some(ClientError::TooManyClients));
    assert_eq!(block_on(cluster.spawn_at(at(0), |_| async { 5 }).unwrap()), Ok(5));
    drop(parked);
}
