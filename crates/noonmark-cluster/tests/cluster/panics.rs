//! Code of the user's that panics, at a server or at a client: its transaction ends by it, and nobody else's. Nothing stays locked, nothing of
//! it is applied, and whoever comes next commits at the first attempt.

use noonmark::{AbortKind, Column, Field, Key, KeyBytes, Number, Order, Protocol, TableOptions};
use noonmark_cluster::client::{Client, ClusterAbort, Index, Policy, Table, Transaction};
use noonmark_cluster::cluster::Cluster;
use noonmark_cluster::executor::block_on;
use noonmark_cluster::partition::{IndexReach, Partitioning};
use noonmark_cluster::workers::WorkerLink;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

const ACCOUNTS: u64 = 6;
const EACH: i64 = 100;
const ONCE: Policy = Policy {
    attempts_max: Some(1),
    backoff_max: Duration::ZERO,
    backoff_round_trips: None,
    escape_after: None,
};

/// The rows of even keys are with one worker, and those of odd ones with the other.
fn by_key() -> Partitioning {
    Partitioning::Ranges((1..100_u64).map(|key| key.to_be_bytes().to_vec()).collect())
}

/// Of accounts, by what is in them. The closure of the index panics when it comes to the account that it has been told, and forgets that.
struct Made {
    cluster: Cluster,
    accounts: Table<u64, i64>,
    by_balance: Index<i64, u64>,
    panics_at: Arc<AtomicU64>,
}

fn made(protocol: Protocol) -> Made {
    let cluster = Cluster::builder().workers(2).build().unwrap();
    let options = TableOptions::new().protocol(protocol);
    let accounts = cluster.create_table::<u64, i64>("accounts", options, by_key()).unwrap();
    let panics_at = Arc::new(AtomicU64::new(u64::MAX));
    let told = panics_at.clone();
    let key_of = move |account: &u64, balance: &i64| {
        let is_told = told.compare_exchange(*account, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        assert!(!is_told, "no entry for account {account}");
        *balance
    };
    let by_balance = cluster.create_index(&accounts, "by balance", IndexReach::Everywhere, key_of).unwrap();
    let filled: Result<(), ClusterAbort> = block_on(cluster.transact(async |tx| {
        for account in 0..ACCOUNTS {
            tx.insert(&accounts, account, EACH).await?;
        }
        Ok(())
    }));
    assert_eq!(filled, Ok(()));
    Made { cluster, accounts, by_balance, panics_at }
}

impl Made {
    /// At the first attempt: a transfer between any two of the accounts, after which all of the money is there, once in the table and once in
    /// the index.
    fn all_is_well(&self, what: &str) {
        let mut client = self.cluster.client().unwrap().with_policy(ONCE);
        for (from, to) in (0..ACCOUNTS).map(|from| (from, (from + 1) % ACCOUNTS)) {
            let moved: Result<(), ClusterAbort> = block_on(client.transact(async |tx| {
                tx.update(&self.accounts, from, |balance| *balance -= 1).await?;
                tx.update(&self.accounts, to, |balance| *balance += 1).await
            }));
            assert_eq!(moved, Ok(()), "{what}");
        }
        let read: Result<_, ClusterAbort> = block_on(client.transact(async |tx| {
            Ok((
                tx.range(&self.accounts, .., false, 100).await?,
                tx.range_by(&self.by_balance, .., false, 100).await?,
            ))
        }));
        let (rows, mut entries) = read.unwrap();
        let all: Vec<(u64, i64)> = (0..ACCOUNTS).map(|account| (account, EACH)).collect();
        assert_eq!(rows, all, "{what}");
        entries.sort_unstable_by_key(|(_, account)| *account);
        let of_entries: Vec<(u64, i64)> =
            entries.into_iter().map(|(balance, account)| (account, balance)).collect();
        assert_eq!(of_entries, all, "{what}");
    }
}

/// What has the closure of an index work out entries of account 3, or of a new one.
#[derive(Clone, Copy, Debug)]
enum Change {
    Update,
    Write,
    WriteLater,
    Add,
    Upsert,
    Delete,
    Insert,
}

const CHANGES: [Change; 7] = [
    Change::Update,
    Change::Write,
    Change::WriteLater,
    Change::Add,
    Change::Upsert,
    Change::Delete,
    Change::Insert,
];

async fn change(
    tx: &mut Transaction<'_, WorkerLink>,
    accounts: &Table<u64, i64>,
    change: Change,
) -> Result<(), ClusterAbort> {
    match change {
        Change::Update => tx.update(accounts, 3, |balance| *balance += 7).await,
        Change::Write => tx.write(accounts, 3, 7).await.map(drop),
        Change::WriteLater => tx.write_later(accounts, 3, 7).await,
        Change::Add => tx.add(accounts, 3, Column::whole(), 7).await,
        Change::Upsert => tx.upsert(accounts, 3, 7).await,
        Change::Delete => tx.delete(accounts, 3).await.map(drop),
        Change::Insert => tx.insert(accounts, 33, 7).await.map(drop),
    }
}

#[test]
fn a_closure_of_an_index_that_panics_at_a_server_refuses_its_transaction_alone() {
    for &protocol in Protocol::ALL {
        let made = made(protocol);
        let mut client = made.cluster.client().unwrap();
        for how in CHANGES {
            let at = if let Change::Insert = how { 33 } else { 3 };
            made.panics_at.store(at, Ordering::Relaxed);
            let mut attempts = 0;
            let done: Result<(), ClusterAbort> = block_on(client.transact(async |tx| {
                attempts += 1;
                // At both servers, before and after.
                tx.update(&made.accounts, 0, |balance| *balance -= 7).await?;
                tx.update(&made.accounts, 1, |balance| *balance -= 7).await?;
                change(tx, &made.accounts, how).await?;
                tx.update(&made.accounts, 2, |balance| *balance += 7).await
            }));
            let what = format!("{protocol}, {how:?}: {done:?}");
            let Err(ClusterAbort::Refused(refusal)) = &done else { panic!("{what}") };
            assert_eq!((refusal.kind, attempts), (AbortKind::Panicked, 1), "{what}");
            assert!(done.as_ref().is_err_and(|abort| !abort.is_retryable()), "{what}");
            let words = "index accounts.by balance has panicked (no entry for account ";
            assert!(refusal.words.starts_with(&format!("accounts[{at}]: ")), "{what}");
            assert!(refusal.words.contains(words), "{what}");
            made.all_is_well(&what);
        }
    }
}

/// The same, as the last thing that a transaction does, told when it commits.
#[test]
fn a_closure_of_an_index_that_panics_at_the_commit() {
    let made = made(Protocol::Sundial);
    for others in [false, true] {
        made.panics_at.store(3, Ordering::Relaxed);
        let done: Result<(), ClusterAbort> = block_on(made.cluster.transact(async |tx| {
            if others {
                tx.update(&made.accounts, 2, |balance| *balance -= 7).await?;
            }
            tx.write_later(&made.accounts, 3, 7).await
        }));
        let Err(ClusterAbort::Refused(refusal)) = &done else { panic!("{done:?}") };
        assert_eq!(refusal.kind, AbortKind::Panicked);
        made.all_is_well("at the commit");
    }
}

/// A number that cannot be added to.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Fixed(i64);

impl Number for Fixed {
    fn plus(self, _: Self) -> Self {
        panic!("a sum that panics, as this test wants it");
    }
}

impl Field for Fixed {
    const BYTES: usize = 8;
    fn put(&self, out: &mut [u8]) {
        self.0.put(out);
    }
    fn take(bytes: &[u8]) -> Self {
        Fixed(i64::take(bytes))
    }
}

noonmark::column_group! {
    struct Account { balance: Fixed }
}

/// How a closure that is given to an operation comes to panic at the client.
#[derive(Clone, Copy, Debug)]
enum AtClient {
    Update,
    AccessMany,
    Sum,
    Between,
}

const AT_CLIENT: [AtClient; 4] = [AtClient::Update, AtClient::AccessMany, AtClient::Sum, AtClient::Between];

async fn panic_at_client(
    tx: &mut Transaction<'_, WorkerLink>,
    accounts: &Table<u64, i64>,
    how: AtClient,
) -> Result<(), ClusterAbort> {
    match how {
        AtClient::Update => tx.update(accounts, 3, |_| panic!("as this test wants it")).await,
        AtClient::AccessMany => {
            let keys: Vec<(u64, bool)> = (2..5).map(|account| (account, true)).collect();
            let each = |at: usize, balance: &mut i64| {
                *balance += 7;
                assert!(at != 1, "as this test wants it");
            };
            tx.access_many(accounts, &keys, each).await
        }
        AtClient::Sum => {
            let accounts: Table<u64, Account> = Table::new(accounts.id());
            tx.add(&accounts, 3, noonmark::columns::<Account>().balance, Fixed(1)).await
        }
        AtClient::Between => panic!("as this test wants it"),
    }
}

/// The client lives on, but begins nothing more: and yet nothing stays locked.
#[test]
fn a_closure_that_panics_at_a_client_leaves_nothing_locked() {
    for &protocol in Protocol::ALL {
        let made = made(protocol);
        let mut client = made.cluster.client().unwrap();
        for how in AT_CLIENT {
            let run = |client: &mut Client<WorkerLink>| -> Result<(), ClusterAbort> {
                block_on(client.transact(async |tx| {
                    tx.update(&made.accounts, 0, |balance| *balance -= 7).await?;
                    tx.update(&made.accounts, 1, |balance| *balance += 7).await?;
                    panic_at_client(tx, &made.accounts, how).await
                }))
            };
            let what = format!("{protocol}, {how:?}");
            assert!(catch_unwind(AssertUnwindSafe(|| run(&mut client))).is_err(), "{what}");
            made.all_is_well(&what);
            // And who runs one without a client of his own.
            let ended = catch_unwind(AssertUnwindSafe(|| -> Result<(), ClusterAbort> {
                block_on(made.cluster.transact(async |tx| panic_at_client(tx, &made.accounts, how).await))
            }));
            assert!(ended.is_err(), "{what}");
            made.all_is_well(&what);
        }
    }
}

/// Whoever catches the panic of an operation's closure within the transaction cannot commit what is half done.
#[test]
fn an_operation_whose_closure_has_panicked_has_failed() {
    let made = made(Protocol::Sundial);
    let mut client = made.cluster.client().unwrap();
    for how in [AtClient::Update, AtClient::AccessMany, AtClient::Sum] {
        let done: Result<(), ClusterAbort> = block_on(client.transact(async |tx| {
            let has_panicked = {
                let mut operation = pin!(panic_at_client(tx, &made.accounts, how));
                poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| operation.as_mut().poll(context))) {
                    Ok(polled) => polled.map(|_| false),
                    Err(_) => Poll::Ready(true),
                })
                .await
            };
            assert!(has_panicked, "{how:?}");
            Ok(())
        }));
        assert_eq!(done, Err(ClusterAbort::Continued), "{how:?}");
        made.all_is_well(&format!("{how:?}"));
    }
}

/// A key that nobody can name without panicking.
#[derive(Clone)]
struct Fragile(u64);

impl std::fmt::Debug for Fragile {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("a key that panics when it is shown, as this test wants it");
    }
}

impl Key for Fragile {
    const FIXED_BYTES: Option<usize> = u64::FIXED_BYTES;

    fn write(&self, out: &mut KeyBytes) {
        self.0.write(out);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        u64::read(bytes).map(Fragile)
    }
}

/// A server explains why it refuses, and the key that it would name is of a type that panics.
#[test]
fn a_key_that_cannot_be_shown_is_not_shown() {
    let cluster = Cluster::builder().workers(2).order(Order::Momentary).build().unwrap();
    let options = TableOptions::new().protocol(Protocol::TwoPhaseNoWait);
    let accounts = cluster.create_table::<Fragile, i64>("accounts", options, by_key()).unwrap();
    let put: Result<_, ClusterAbort> =
        block_on(cluster.transact(async |tx| tx.insert(&accounts, Fragile(1), 1).await));
    assert_eq!(put, Ok(true));
    let (mut holder, mut refused) = (cluster.client().unwrap(), cluster.client().unwrap().with_policy(ONCE));
    let held: Result<(), ClusterAbort> = block_on(holder.transact(async |tx| {
        tx.update(&accounts, Fragile(1), |balance| *balance += 1).await?;
        let updated: Result<(), ClusterAbort> = refused
            .transact(async |tx| tx.update(&accounts, Fragile(1), |balance| *balance += 1).await)
            .await;
        let Err(ClusterAbort::Attempts(refusal, 1)) = &updated else { panic!("{updated:?}") };
        assert_eq!(refusal.kind, AbortKind::Conflict);
        assert!(refusal.words.starts_with("accounts: refused (two-phase-no-wait"), "{updated:?}");
        Ok(())
    }));
    assert_eq!(held, Ok(()));
    let read: Result<_, ClusterAbort> =
        block_on(cluster.transact(async |tx| tx.get(&accounts, Fragile(1)).await));
    assert_eq!(read, Ok(Some(2)));
}
