//! Histories of the engine on real threads, judged by the checker: each protocol alone, with both
//! indexes, and databases that mix protocols.
//!
//! Long ones are `scripts/check-histories`' to make.

use noonmark::{Bug, Builder, Database, Order, Protocol};
use noonmark_workloads::bank::Updates;
use noonmark_workloads::driver::{Length, Measured, Plan, drive};
use noonmark_workloads::engine::EngineStore;
use noonmark_workloads::recorded::{Kind, Recorded, RecordedSpec, RecordedWorker};
use noonmark_workloads::store::{Granularity, IndexKind};
use noonmark_workloads::workload::Condition;

const KINDS: [Kind; 3] = [Kind::Append, Kind::Register, Kind::Scan];

const LAYOUTS: [(IndexKind, Granularity); 4] = [
    (IndexKind::Ordered, Granularity::Fine),
    (IndexKind::Hash, Granularity::Coarse),
    (IndexKind::Ordered, Granularity::Coarse),
    (IndexKind::Hash, Granularity::Fine),
];

fn is_checked(protocols: &[Protocol], kind: Kind, layout: (IndexKind, Granularity), threads: usize) {
    let recorded = RecordedSpec {
        updates: match kind {
            Kind::Append if threads == 8 => Updates::CommitTime,
            _ => Updates::Plain,
        },
        // Where all tables keep read times, transactions commit at logical times, in the order of each session.
        strict: !protocols.iter().all(|protocol| protocol.keeps_read_times()),
        ..RecordedSpec::new(kind)
    };
    let index = if kind == Kind::Scan { IndexKind::Ordered } else { layout.0 };
    let store = EngineStore::new(protocols, threads + 2).unwrap();
    let measured = recorded_on(&store, protocols, recorded, (index, layout.1), plan(threads, 1_500, 1));
    let [condition] = &measured.conditions[..] else { panic!("{:?}", measured.conditions) };
    assert!(condition.holds, "{protocols:?}: {}", condition.words);
    // Enough to meet each other. (Who has lost too often is given up: under the thread sanitizer, on a busy machine, more than half under `two-phase-no-wait`.)
    let least = if cfg!(thread_sanitizer) { 300 } else { 700 };
    assert!(measured.committed > least, "{protocols:?}: {} committed", measured.committed);
}

#[test]
fn recorded_workloads_under_each_protocol() {
    for &protocol in Protocol::ALL {
        for (number, kind) in KINDS.into_iter().enumerate() {
            for layout in LAYOUTS {
                let threads = if layout.1 == Granularity::Fine { 4 } else { 8 };
                is_checked(&[protocol], kind, layout, threads - number % 2);
            }
        }
    }
}

#[test]
fn recorded_workloads_in_databases_that_mix_each_two_protocols_and_all() {
    let all = Protocol::all_that_mix();
    let mut mixes = vec![all.clone()];
    for (number, &first) in all.iter().enumerate() {
        for &second in &all[number + 1..] {
            mixes.push(vec![first, second]);
        }
    }
    for (number, mix) in mixes.iter().enumerate() {
        for (turn, kind) in KINDS.into_iter().enumerate() {
            is_checked(
                mix,
                kind,
                LAYOUTS[(number + turn) % LAYOUTS.len()],
                if number % 2 == 0 { 8 } else { 4 },
            );
        }
    }
}

fn plan(threads: usize, transactions: u64, seed: u64) -> Plan {
    let length = Length::transactions(transactions);
    Plan { threads, length, warm_up_s: 0.0, seed, requests: 1_000, count_allocations: false }
}

/// Runs a recorded workload, with a table for each of the protocols.
fn recorded_on(
    store: &EngineStore,
    protocols: &[Protocol],
    spec: RecordedSpec,
    (index, groups): (IndexKind, Granularity),
    plan: Plan,
) -> Measured<RecordedWorker> {
    let spec = RecordedSpec { tables: protocols.len(), ..spec };
    let workload = Recorded::new(store, spec, index, groups).unwrap();
    drive(store, &workload, &plan, &mut |_| {}).unwrap()
}

/// Runs a recorded workload on a database of its own making; what the checker says of its history.
fn judged(builder: Builder, protocols: &[Protocol], kind: Kind, transactions: u64, seed: u64) -> Condition {
    let store = EngineStore::of(builder.max_sessions(16).build().unwrap(), protocols);
    let spec = RecordedSpec { strict: true, ..RecordedSpec::new(kind) };
    let layout = (IndexKind::Ordered, Granularity::Fine);
    let measured = recorded_on(&store, protocols, spec, layout, plan(8, transactions, seed));
    let [condition] = &measured.conditions[..] else { panic!("{:?}", measured.conditions) };
    condition.clone()
}

#[test]
fn those_who_keep_read_times_are_strict_in_momentary_order() {
    for protocol in [Protocol::TicToc, Protocol::Sundial] {
        for kind in KINDS {
            let builder = Database::builder().order(Order::Momentary);
            let condition = judged(builder, &[protocol], kind, 4_000, 8);
            assert!(condition.holds, "{protocol}: {}", condition.words);
        }
    }
}

/// Whatever is mixed with `tictoc`: were its tables to commit at logical times while the others know only
/// moments, the histories would show it.
#[test]
fn a_naive_mix_of_protocols_is_caught() {
    for other in Protocol::all_that_mix().into_iter().filter(|protocol| !protocol.keeps_read_times()) {
        for kind in KINDS {
            let caught = (1..=10).find_map(|seed| {
                let builder = Database::builder().plant(Bug::NaiveMix);
                let condition = judged(builder, &[Protocol::TicToc, other], kind, 5_000, seed);
                (!condition.holds).then_some(condition.words)
            });
            let words = caught.unwrap_or_else(|| panic!("tictoc and {other}, {kind:?}: not caught"));
            assert!(words.contains("not serializable"), "{words}");
        }
    }
}
