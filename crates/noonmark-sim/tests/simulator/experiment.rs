//! A workload of the benchmarks on virtual cores.

use noonmark::{Database, Policy, Protocol};
use noonmark_sim::experiment::{Measured, Plan, run};
use noonmark_sim::{Limit, Machine, VirtualCores};
use noonmark_workloads::engine::EngineStore;
use noonmark_workloads::store::{Granularity, IndexKind};
use noonmark_workloads::ycsb::{EvenOddRows, TransactionWorkload, TransactionsSpec};
use std::time::Duration;

/// Granularity's form of YCSB on few rows, for 200 virtual microseconds.
fn ycsb(workers: usize, granularity: Granularity, steps_max: u64) -> Measured {
    ycsb_on(10_000, Policy::default(), workers, granularity, steps_max)
}

/// The same on so many rows.
fn ycsb_on(rows: u64, policy: Policy, workers: usize, granularity: Granularity, steps_max: u64) -> Measured {
    let cores = VirtualCores::new(Machine::GRANULARITY, 3);
    let db = Database::builder().host(cores.clone()).max_sessions(workers + 1).build().unwrap();
    let store = EngineStore::of(db, &[Protocol::Occ]).policy(policy);
    let spec = TransactionsSpec { rows, ..TransactionsSpec::granularity() };
    let workload =
        TransactionWorkload::<_, EvenOddRows<_>>::new(&store, spec, IndexKind::Hash, granularity, 3);
    let (warm_up_ps, measured_ps) = (50_000_000, 200_000_000);
    let plan = Plan { workers, warm_up_ps, measured_ps, steps_max, seed: 3, requests: 256 };
    run(&cores, &store, &workload.unwrap(), &plan).unwrap()
}

/// Exact figures: the same again; each transaction has a latency; and rows in two groups conflict less often than whole ones.
#[test]
fn a_run_is_measured_in_virtual_time() {
    let [coarse, again] = [(); 2].map(|()| ycsb(8, Granularity::Coarse, u64::MAX));
    assert_eq!(format!("{coarse:?}"), format!("{again:?}"));
    assert!(coarse.committed > 0 && coarse.limit.is_none());
    assert_eq!(coarse.latencies_ns.len() as u64, coarse.committed + coarse.user_rollbacks);
    assert!(coarse.conditions.iter().all(|condition| condition.holds));
    let fine = ycsb(8, Granularity::Fine, u64::MAX);
    assert!(fine.abort_share() < coarse.abort_share(), "{} {}", fine.abort_share(), coarse.abort_share());
    assert!(ycsb(1, Granularity::Fine, u64::MAX).aborted == 0);
}

/// A run that gets nowhere is given up, and says so.
#[test]
fn a_run_ends_at_its_limit_of_steps() {
    assert_eq!(ycsb(4, Granularity::Fine, 2_000).limit, Some(Limit::Steps));
}

/// Where all want the same few rows, and nobody pauses or is let through, some get nowhere in all of the time, and the figures say how many;
/// where there are more rows and fewer workers nobody does.
#[test]
fn who_gets_nowhere_is_counted() {
    let impatient = Policy {
        escape_after: None,
        backoff_min: Duration::ZERO,
        backoff_max: Duration::ZERO,
        ..Policy::default()
    };
    let measured = ycsb_on(200, impatient, 64, Granularity::Coarse, u64::MAX);
    assert!((1..64).contains(&measured.stuck) && measured.limit.is_none(), "{measured:?}");
    assert_eq!(ycsb(8, Granularity::Coarse, u64::MAX).stuck, 0);
}
