//! Any workload can record its history: those that were not made for it, under several protocols, judged by the
//! checker; and with the engine broken on purpose, refused by it.

use std::path::PathBuf;

use noonmark::{Bug, Database, Protocol};
use noonmark_workloads::bank::{Bank, BankSpec, Updates};
use noonmark_workloads::check::{Options, Verdict, check};
use noonmark_workloads::driver::{Length, Measured, Plan, drive};
use noonmark_workloads::engine::EngineStore;
use noonmark_workloads::history::{History, MicroOp};
use noonmark_workloads::recording::{Recording, Watched};
use noonmark_workloads::report::RunReport;
use noonmark_workloads::spec::{self, Access, ProtocolChoice, Spec, WorkloadSpec};
use noonmark_workloads::store::{Granularity, IndexKind};
use noonmark_workloads::tpcc::population::Scale;
use noonmark_workloads::workload::Workload;
use noonmark_workloads::ycsb::{EvenOddRows, TransactionWorkload, TransactionsSpec};

/// A small workload on which transactions meet.
fn small(workload: &str, preset: &str) -> WorkloadSpec {
    let mut spec = WorkloadSpec::named(workload, preset).unwrap();
    match &mut spec {
        WorkloadSpec::Counter(counter) => counter.counters = 2,
        WorkloadSpec::Tpcc(tpcc) => tpcc.scale = Scale { warehouses: 1, customers: 30, items: 100 },
        other => other.set_rows(40).unwrap(),
    }
    spec
}

/// Runs it with a history; the report, and the history as the file has it.
fn recorded(spec: &Spec, name: &str) -> (RunReport, History, String) {
    let path = std::env::temp_dir().join(format!("noonmark-{name}-{}.jsonl", std::process::id()));
    let spec = Spec { history: Some(path.clone()), ..spec.clone() };
    let report = spec::run(&spec, &mut |_| {}).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    let legend = PathBuf::from(format!("{}.keys", path.display()));
    let text = std::fs::read(&path).unwrap();
    let keys = std::fs::read_to_string(&legend).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&legend).unwrap();
    (report, History::read(text.as_slice()).unwrap(), keys)
}

fn is_proved(spec: &Spec, name: &str) {
    let (report, history, _) = recorded(spec, name);
    assert_eq!(report.consistent, Some(true), "{spec:?}: {:?}", report.consistency);
    let proved = report.consistency.iter().any(|words| words.contains("an order was found"));
    assert!(proved, "{spec:?}: {:?}", report.consistency);
    // The program judges the file by itself.
    let verdict =
        check(&history, &Options { session: true, strict: spec.protocol.is_strict(), ..Options::default() })
            .verdict;
    assert_eq!(verdict, Verdict::Proved, "{spec:?}");
    let transactions = history.transactions().len() as u64;
    assert!(transactions >= spec.length.transactions.unwrap(), "{transactions}");
}

const PROTOCOLS: [ProtocolChoice; 4] = [
    ProtocolChoice::Mutex,
    ProtocolChoice::Engine(Protocol::Occ),
    ProtocolChoice::Engine(Protocol::TicToc),
    ProtocolChoice::Engine(Protocol::TwoPhaseWoundWait),
];

fn of(workload: WorkloadSpec, protocol: &ProtocolChoice, transactions: u64) -> Spec {
    Spec {
        threads: 4,
        length: Length::transactions(transactions),
        requests: Some(500),
        ..Spec::new(workload, "test", protocol.clone())
    }
}

#[test]
fn bank_counter_and_queue() {
    for protocol in &PROTOCOLS {
        for updates in [Updates::Plain, Updates::CommitTime] {
            for workload in ["bank", "counter"] {
                is_proved(&Spec { updates, ..of(small(workload, "default"), protocol, 1_500) }, workload);
            }
        }
        is_proved(&of(small("queue", "default"), protocol, 1_500), "queue");
        is_proved(&Spec { access: Access::MultiGet, ..of(small("bank", "default"), protocol, 500) }, "many");
    }
}

#[test]
fn every_preset_of_ycsb() {
    for protocol in &PROTOCOLS {
        for preset in noonmark_workloads::spec::YCSB_PRESETS {
            is_proved(&of(small("ycsb", preset), protocol, 400), preset);
        }
        let granularity = of(small("ycsb", "granularity"), protocol, 400);
        is_proved(&Spec { access: Access::MultiGet, groups: Granularity::Coarse, ..granularity }, "coarse");
    }
}

#[test]
fn tpcc_with_its_scans_deletes_and_indexes_either_way() {
    let mixed: ProtocolChoice = "occ+tictoc+two-phase".parse().unwrap();
    for protocol in PROTOCOLS.iter().chain([&mixed]) {
        is_proved(&of(small("tpcc", "full"), protocol, 500), "tpcc");
        let otherwise = Spec {
            updates: Updates::CommitTime,
            access: Access::MultiGet,
            groups: Granularity::Coarse,
            ..of(small("tpcc", "full"), protocol, 500)
        };
        is_proved(&otherwise, "tpcc-otherwise");
    }
}

#[test]
fn the_history_of_tpcc_is_of_all_that_it_did_and_says_what_its_keys_are() {
    let (_, history, keys) = recorded(&of(small("tpcc", "full"), &PROTOCOLS[1], 1_000), "tpcc-keys");
    let named = |name: &str| {
        keys.lines()
            .filter(|line| {
                let mut parts = line.split('\t').skip(1);
                let table = parts.next().unwrap();
                let group = parts.next().unwrap().split(' ').nth(1);
                group.map_or(table.to_owned(), |group| format!("{table}.{group}")) == name
            })
            .count()
    };
    for name in [
        "warehouse.WarehouseYtd",
        "district.DistrictOrders",
        "customer.CustomerAccount",
        "customer_by_name",
        "new_order.NewOrder",
        "order.OrderCarrier",
        "order_by_customer",
        "order_line.OrderLine",
        "stock.StockLevel",
    ] {
        assert!(named(name) > 0, "{name}");
    }
    assert_eq!(named("warehouse.WarehouseYtd"), 1);
    assert_eq!(named("district.DistrictOrders"), 10);
    for (number, line) in keys.lines().enumerate() {
        assert!(line.starts_with(&format!("{number}\t")), "{line}");
    }
    let ops = || history.transactions().iter().flat_map(|transaction| &transaction.ops);
    assert!(ops().any(|op| matches!(op, MicroOp::Write { value: None, .. })), "deletes");
    assert!(ops().any(|op| matches!(op, MicroOp::Scan { found: Some(found), .. } if found.len() > 5)));
}

#[test]
fn a_commit_time_update_is_told_with_what_it_was_applied_to() {
    let spec = Spec {
        updates: Updates::CommitTime,
        threads: 1,
        ..of(small("counter", "default"), &PROTOCOLS[2], 50)
    };
    let (_, history, _) = recorded(&spec, "applied");
    let mut last = std::collections::BTreeMap::new();
    for transaction in history.transactions() {
        for op in &transaction.ops {
            match op {
                MicroOp::ReadRegister { key, value } => assert_eq!(last.get(key).copied(), *value),
                MicroOp::Write { key, value } => drop(last.insert(*key, value.unwrap())),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(last.len(), 2, "both counters");
}

/// Runs a recorded workload on an engine that is broken on purpose, until its history shows it.
fn is_caught<W: Workload<Recording<EngineStore>>>(bug: Bug, make: impl Fn(&Recording<EngineStore>) -> W) {
    let caught = (1..=40).find_map(|seed| {
        let db = Database::builder().max_sessions(16).plant(bug).build().unwrap();
        let store = Recording::new(EngineStore::of(db, &[Protocol::Occ]));
        let workload = make(&store);
        let plan = Plan {
            threads: 8,
            length: Length::transactions(5_000),
            warm_up_s: 0.0,
            seed,
            requests: 500,
            count_allocations: false,
        };
        let watched = Watched { workload: &workload, store: &store, history: None, strict: true };
        let measured: Measured<_> = drive(&store, &watched, &plan, &mut |_| {}).unwrap();
        let violated = |words: &&String| words.contains("not serializable");
        measured.conditions.iter().filter(|c| !c.holds).map(|c| &c.words).find(violated).cloned()
    });
    assert!(caught.is_some(), "{bug:?} is not caught");
}

#[test]
fn planted_bugs_show_in_the_histories_of_workloads_not_made_for_it() {
    // Rows that are read and not written: nobody looks at them again.
    is_caught(Bug::SkipValidation, |store| {
        let spec = TransactionsSpec { rows: 40, ..TransactionsSpec::granularity() };
        TransactionWorkload::<_, EvenOddRows<_>>::new(store, spec, IndexKind::Hash, Granularity::Fine, 1)
            .unwrap()
    });
    // Balances that are seen before it is certain that they will stand.
    is_caught(Bug::InstallBeforeLock, |store| {
        let spec = BankSpec { accounts: 8, touched: 4, ..BankSpec::classic() };
        Bank::<_, u64>::new(store, spec, IndexKind::Hash, Granularity::Fine).unwrap()
    });
}
