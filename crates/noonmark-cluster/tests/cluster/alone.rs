//! Whoever is alone gets through, whatever tables and options come together in what he does.

use noonmark::{Column, Leases, Protocol, TableOptions};
use noonmark_cluster::{Cluster, ClusterAbort, Partitioning, Policy, block_on};
use std::time::Duration;

const KEYS: [u64; 6] = [1, 2, 3, 101, 102, 103];

/// What one transaction does: operations by kind, key and table.
fn drawn(seed: &mut u64) -> Vec<(u64, u64, usize)> {
    let mut below = |bound: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % bound
    };
    (0..2 + below(4)).map(|_| (below(4), KEYS[below(6) as usize], below(2) as usize)).collect()
}

/// Under ranges of commit times each server freezes some, and what a transaction has a lease on it replaces after that lease: if fewer ticks are frozen
/// than leases are extended by, the one would be over before the other begins, in every attempt.
#[test]
fn leases_that_are_extended_go_with_ranges_that_are_frozen() {
    for (frozen, extended_by) in [0, 3, 256]
        .into_iter()
        .flat_map(|frozen| [None, Some(0), Some(3), Some(255)].map(|extended_by| (frozen, extended_by)))
    {
        for protocol in [Protocol::Dynamic, Protocol::Ranges] {
            let cluster = Cluster::builder().workers(2).frozen_ticks(frozen).build().unwrap();
            let leases = Leases { extended_by, write_times: 0 };
            let tables = [("leased", Protocol::Sundial), ("ranged", protocol)].map(|(name, protocol)| {
                let by = Partitioning::Ranges(vec![100_u64.to_be_bytes().to_vec()]);
                let options = TableOptions::new().protocol(protocol).leases(leases);
                cluster.create_table::<u64, i64>(name, options, by).unwrap()
            });
            let mut client = cluster.client().unwrap();
            client.set_policy(Policy {
                attempts_max: Some(20),
                backoff_max: Duration::ZERO,
                ..Policy::default()
            });
            for key in KEYS {
                let put: Result<_, ClusterAbort> = block_on(client.transact(async |tx| {
                    tx.insert(&tables[0], key, 0).await?;
                    tx.insert(&tables[1], key, 0).await
                }));
                assert_eq!(put, Ok(true));
            }
            let mut seed = 1;
            for round in 0..100 {
                let operations = drawn(&mut seed);
                let done: Result<_, ClusterAbort> = block_on(client.transact(async |tx| {
                    for &(kind, key, table) in &operations {
                        match kind {
                            0 | 1 => drop(tx.get(&tables[table], key).await?),
                            2 => tx.add(&tables[table], key, Column::whole(), 1).await?,
                            _ => tx.update(&tables[table], key, |value| *value += 1).await?,
                        }
                    }
                    Ok(())
                }));
                assert_eq!(done, Ok(()), "{frozen}, {extended_by:?}, {protocol}: {round}: {operations:?}");
            }
        }
    }
}
