//! Accounts, which all hold the same to begin with.

use noonmark::{Protocol, TableOptions};
use noonmark_cluster::client::{ClusterAbort, Table};
use noonmark_cluster::cluster::{Builder, Cluster};
use noonmark_cluster::executor::block_on;
use noonmark_cluster::partition::Partitioning;

pub const ACCOUNTS: u64 = 12;
pub const EACH: i64 = 100;

/// The rows of even keys are with one worker, and those of odd ones with the other, if there are two.
pub fn by_key(rows: u64) -> Partitioning {
    Partitioning::Ranges((1..rows).map(|key| key.to_be_bytes().to_vec()).collect())
}

pub fn accounts_of(builder: Builder, protocol: Protocol, spread: Partitioning) -> (Cluster, Table<u64, i64>) {
    let cluster = builder.build().unwrap();
    let options = TableOptions::new().protocol(protocol);
    let accounts = cluster.create_table::<u64, i64>("accounts", options, spread).unwrap();
    let filled: Result<(), ClusterAbort> = block_on(cluster.transact(async |tx| {
        for account in 0..ACCOUNTS {
            tx.insert(&accounts, account, EACH).await?;
        }
        Ok(())
    }));
    assert_eq!(filled, Ok(()));
    (cluster, accounts)
}
