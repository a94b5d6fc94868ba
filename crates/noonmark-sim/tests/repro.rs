//! Reproductions: that they repeat, and what they come to at a small size.
//!
//! All figures are exact: a function of the seed, the same on every machine, and however the tests were compiled. Whoever changes
//! what a transaction does, in the engine or in a workload, changes them, and writes down the new ones when he has understood why.

use noonmark::Protocol::{self, Adaptive, Occ, Swiss, TicToc, TwoPhaseNoWait};
use noonmark_sim::repro::{self, Cell, Experiment, Plan, Size};
use noonmark_workloads::report::{RunReport, Verdict, reproductions_json};
use noonmark_workloads::store::Granularity::{self, Coarse, Fine};

const SMALL: Size =
    Size { rows: 20_000, customers: 30, items: 1_000, warm_up_ps: 20_000_000, measured_ps: 100_000_000 };

fn named(name: &str) -> &'static Experiment {
    repro::named(name).unwrap()
}

fn run(name: &str, protocol: Protocol, granularity: Granularity, cores: usize) -> RunReport {
    let variant = named(name).variant.clone();
    let run = repro::run(&Cell { variant, protocol, granularity, cores }, &SMALL, 1).unwrap();
    assert_ne!(run.consistent, Some(false), "{:?}", run.consistency);
    run
}

/// Commits, and attempts that failed.
fn counts(run: &RunReport) -> (u64, u64) {
    (run.committed, run.aborted())
}

fn json(seed: u64) -> String {
    let plan = Plan {
        experiments: vec![named("granularity-fig2a"), named("granularity-fig3b")],
        cores: vec![4],
        size: Size { rows: 1_000, customers: 10, items: 100, ..SMALL },
        seed,
        ablates: false,
    };
    let runs: Vec<(Cell, RunReport)> = plan
        .cells()
        .into_iter()
        .map(|cell| (cell.clone(), repro::run(&cell, &plan.size, seed).unwrap()))
        .collect();
    let all: Vec<_> =
        plan.experiments.iter().map(|experiment| repro::conclude(&plan, experiment, &runs)).collect();
    reproductions_json(&all).unwrap()
}

/// Two runs of one seed are the same to the last byte, beside other runs or not; another seed's are not.
#[test]
fn one_seed_gives_the_same_bytes() {
    let (one, beside) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| json(3));
        (json(3), beside.join().unwrap())
    });
    assert_eq!(one, beside);
    assert_ne!(one, json(4));
}

/// The five protocols, coarse and fine: commits, and attempts that failed.
fn all(name: &str, cores: usize) -> Vec<(&'static str, [(u64, u64); 2])> {
    let both = |protocol| [Coarse, Fine].map(|groups| counts(&run(name, protocol, groups, cores)));
    [Occ, TicToc, TwoPhaseNoWait, Swiss, Adaptive].into_iter().map(|one| (one.name(), both(one))).collect()
}

/// [Granularity §4.2, Figure 2].
#[test]
fn ycsb_comes_to_the_same_everywhere() {
    let pinned: [(&str, [(u64, u64); 2]); 5] = [
        ("occ", [(57, 309), (102, 368)]),
        ("tictoc", [(62, 292), (84, 329)]),
        ("two-phase-no-wait", [(42, 275), (48, 258)]),
        ("swiss", [(35, 289), (42, 283)]),
        ("adaptive", [(52, 329), (68, 316)]),
    ];
    assert_eq!(all("granularity-fig2a", 32), pinned);
}

/// [Granularity §4.3, Figure 3].
#[test]
fn tpcc_comes_to_the_same_everywhere() {
    let pinned: [(&str, [(u64, u64); 2]); 5] = [
        ("occ", [(683, 612), (756, 573)]),
        ("tictoc", [(595, 602), (644, 560)]),
        ("two-phase-no-wait", [(448, 809), (537, 573)]),
        ("swiss", [(432, 732), (513, 758)]),
        ("adaptive", [(649, 632), (733, 581)]),
    ];
    assert_eq!(all("granularity-fig3a", 64), pinned);
}

/// A claim about runs that were not made is neither right nor wrong; and each run that some experiments share is made once.
#[test]
fn what_was_not_run_is_not_judged() {
    let cores = vec![2];
    let (size, experiments) = (SMALL, repro::ALL.iter().collect());
    let plan = Plan { experiments, cores, size, seed: 1, ablates: true };
    for experiment in &plan.experiments {
        let nothing = repro::conclude(&plan, experiment, &[]);
        assert!(nothing.findings.iter().all(|finding| finding.verdict == Verdict::NotRun));
        assert!(nothing.findings.iter().all(|finding| finding.ours.starts_with("not run on")));
        assert!(nothing.runs.is_empty() && nothing.changes.is_empty());
        assert!(repro::ALL.iter().filter(|other| other.name == experiment.name).count() == 1);
    }
    let cells = plan.cells();
    for (at, cell) in cells.iter().enumerate() {
        assert!(!cells[..at].contains(cell), "{cell:?}");
    }
}
