//! Every workload at a small size, on everything that can run it.

use noonmark_workloads::bank::Updates;
use noonmark_workloads::driver::Length;
use noonmark_workloads::report::RunReport;
use noonmark_workloads::spec::{Access, MIXED, ProtocolChoice, Spec, WorkloadSpec, YCSB_PRESETS, run};
use noonmark_workloads::store::{Granularity, IndexKind};
use noonmark_workloads::tpcc::population::Scale;

fn small(workload: &str, preset: &str) -> WorkloadSpec {
    let mut spec = WorkloadSpec::named(workload, preset).unwrap();
    match &mut spec {
        WorkloadSpec::Counter(_) | WorkloadSpec::Recorded(_) => {}
        WorkloadSpec::Queue(queue) => queue.waiting = 20,
        other => other.set_rows(200).unwrap(),
    }
    spec
}

fn ran(spec: &Spec) -> RunReport {
    let mut phases = 0;
    let report = run(spec, &mut |_| phases += 1).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    assert!(phases > 0);
    assert_ne!(report.consistent, Some(false), "{spec:?}: {:?}", report.consistency);
    let given_up: u64 = report.parameters.get("given up").map_or(0, |count| count.parse().unwrap());
    assert_eq!(report.committed + report.user_rollbacks + given_up, spec.length.transactions.unwrap());
    report
}

fn spec(workload: WorkloadSpec, protocol: ProtocolChoice, transactions: u64) -> Spec {
    Spec {
        threads: 4,
        length: Length::transactions(transactions),
        warm_up_s: 0.0,
        requests: Some(1000),
        ..Spec::new(workload, "test", protocol)
    }
}

#[test]
fn every_ycsb_preset_runs_on_everything() {
    for protocol in ProtocolChoice::all() {
        for preset in YCSB_PRESETS {
            let report = ran(&spec(small("ycsb", preset), protocol.clone(), 1000));
            assert_eq!(report.protocol, protocol.to_string());
            assert!(report.latency_us.max >= report.latency_us.p50);
        }
    }
}

#[test]
fn ycsb_s_rows_can_be_coarse_ordered_and_had_together() {
    for protocol in ProtocolChoice::all() {
        for preset in ["granularity", "sundial", "dynamic", "disttictoc-money"] {
            let spec = Spec {
                groups: Granularity::Coarse,
                index: Some(IndexKind::Ordered),
                access: Access::MultiGet,
                ..spec(small("ycsb", preset), protocol.clone(), 1000)
            };
            let report = ran(&spec);
            assert_eq!((report.groups.as_str(), report.index.as_str()), ("coarse", "ordered"));
            assert_eq!(report.access, "multi-get");
        }
    }
}

#[test]
fn the_small_workloads_keep_their_invariants_on_everything_either_way() {
    for protocol in ProtocolChoice::all() {
        for updates in [Updates::Plain, Updates::CommitTime] {
            for workload in ["bank", "counter", "queue"] {
                if workload == "queue" && updates == Updates::CommitTime {
                    continue;
                }
                let spec = Spec { updates, ..spec(small(workload, "default"), protocol.clone(), 4000) };
                let report = ran(&spec);
                assert_eq!(report.consistent, Some(true), "{:?}", report.consistency);
            }
        }
    }
}

#[test]
fn tpcc_runs_on_everything_either_way() {
    let manners = [
        (Updates::Plain, Access::OneByOne, Granularity::Coarse),
        (Updates::CommitTime, Access::MultiGet, Granularity::Fine),
    ];
    for protocol in ProtocolChoice::all() {
        for (updates, access, groups) in manners {
            let mut workload = WorkloadSpec::named("tpcc", "full").unwrap();
            let WorkloadSpec::Tpcc(tpcc) = &mut workload else { panic!("tpcc was asked for") };
            tpcc.scale = Scale { warehouses: 1, customers: 30, items: 100 };
            let spec = Spec { updates, access, groups, ..spec(workload, protocol.clone(), 1000) };
            let report = ran(&spec);
            assert_eq!(report.consistent, Some(true), "{:?}", report.consistency);
        }
    }
}

#[test]
fn recorded_histories_are_serializable_on_everything() {
    for protocol in ProtocolChoice::all() {
        for workload in ["append", "register", "scan"] {
            for index in [IndexKind::Ordered, IndexKind::Hash] {
                if workload == "scan" && index == IndexKind::Hash {
                    continue;
                }
                for access in [Access::OneByOne, Access::MultiGet] {
                    let workload = small(workload, "default");
                    let spec = Spec { index: Some(index), access, ..spec(workload, protocol.clone(), 4000) };
                    let report = ran(&spec);
                    assert_eq!(report.consistent, Some(true), "{:?}", report.consistency);
                }
            }
        }
        let spec = Spec { updates: Updates::CommitTime, ..spec(small("append", "default"), protocol, 4000) };
        assert_eq!(ran(&spec).consistent, Some(true));
    }
}

#[test]
fn databases_that_mix_protocols_run_what_has_tables_for_them() {
    for mix in [MIXED, "occ+tictoc", "two-phase+two-phase-wound-wait"] {
        let mix: ProtocolChoice = mix.parse().unwrap();
        for workload in ["append", "register", "scan"] {
            for groups in [Granularity::Coarse, Granularity::Fine] {
                let workload = small(workload, "default");
                let report = ran(&Spec { groups, ..spec(workload, mix.clone(), 3000) });
                assert_eq!(report.consistent, Some(true), "{mix}: {:?}", report.consistency);
                assert_eq!(report.protocol, mix.to_string());
            }
        }
        let mut workload = WorkloadSpec::named("tpcc", "full").unwrap();
        let WorkloadSpec::Tpcc(tpcc) = &mut workload else { panic!("tpcc was asked for") };
        tpcc.scale = Scale { warehouses: 1, customers: 30, items: 100 };
        assert_eq!(ran(&spec(workload, mix.clone(), 1000)).consistent, Some(true));
        let one_table = spec(small("bank", "default"), mix.clone(), 10).check().unwrap_err();
        assert!(one_table.to_string().contains("one table"), "{one_table}");
    }
}

#[test]
fn settings_without_a_use_are_refused() {
    let refused = |change: fn(&mut Spec)| {
        let mut spec = spec(small("ycsb", "a"), ProtocolChoice::Mutex, 10);
        assert!(spec.check().is_ok());
        change(&mut spec);
        run(&spec, &mut |_| {}).unwrap_err().to_string()
    };
    assert!(refused(|spec| spec.updates = Updates::CommitTime).contains("no form with commit-time"));
    assert!(refused(|spec| spec.access = Access::MultiGet).contains("multi-get"));
    assert!(refused(|spec| spec.threads = 0).contains("threads"));
    assert!(refused(|spec| spec.length = Length::seconds(f64::NAN)).contains("seconds"));
    assert!(refused(|spec| spec.length = Length::transactions(0)).contains("at least one"));
    let too_long = |spec: &mut Spec| {
        spec.workload = small("append", "default");
        spec.length = Length::transactions(1 << 60);
    };
    assert!(refused(too_long).contains("record fewer"));
    assert!(refused(|spec| spec.workload.set_rows(u64::MAX / 2000).unwrap()).contains("memory"));
    assert!(
        refused(|spec| {
            spec.workload = small("ycsb", "e");
            spec.index = Some(IndexKind::Hash);
        })
        .contains("ordered")
    );
    assert!(WorkloadSpec::named("ycsb", "z").unwrap_err().to_string().contains("granularity"));
    assert!(WorkloadSpec::named("tpc", "x").unwrap_err().to_string().contains("one of ycsb"));
    assert!("occc".parse::<ProtocolChoice>().unwrap_err().to_string().contains("tictoc"));
}

#[test]
fn the_same_seed_gives_the_same_transactions_on_one_thread() {
    let report = |protocol| {
        let spec = Spec { threads: 1, ..spec(small("bank", "default"), protocol, 5000) };
        let report = ran(&spec);
        (report.committed, report.user_rollbacks)
    };
    let mutex = report(ProtocolChoice::Mutex);
    assert!(mutex.1 > 0);
    for protocol in ProtocolChoice::all() {
        assert_eq!(report(protocol.clone()), mutex, "{protocol}");
    }
}
