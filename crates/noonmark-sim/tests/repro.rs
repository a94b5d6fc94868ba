//! Reproductions: that they repeat, and what they come to at a small size.
//!
//! All figures are exact: a function of the seed, the same on every machine, and however the tests were compiled. Whoever changes
//! what a transaction does, in the engine or in a workload, changes them, and writes down the new ones when he has understood why.

use noonmark::Protocol::{self, Adaptive, Occ, Swiss, TicToc, TwoPhaseNoWait};
use noonmark_sim::repro::{self, Cell, Experiment, Plan, Size};
use noonmark_workloads::report::{RunReport, Verdict, reproductions_json};
use noonmark_workloads::store::Granularity::{self, Coarse, Fine, Splitting};

const SMALL: Size = Size {
    rows: 20_000,
    contended_rows: 20_000,
    customers: 30,
    items: 1_000,
    warm_up_ps: 20_000_000,
    measured_ps: 100_000_000,
};

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
        experiments: vec![named("granularity-fig2a"), named("granularity-fig3b"), named("dynamic-fig6")],
        cores: vec![4],
        size: Size { rows: 1_000, customers: 10, items: 100, ..SMALL },
        seed,
        few: true,
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
        ("occ", [(66, 307), (107, 317)]),
        ("tictoc", [(52, 287), (98, 343)]),
        ("two-phase-no-wait", [(38, 241), (57, 267)]),
        ("swiss", [(31, 276), (42, 320)]),
        ("adaptive", [(42, 263), (65, 298)]),
    ];
    assert_eq!(all("granularity-fig2a", 32), pinned);
}

/// [Granularity §4.3, Figure 3].
#[test]
fn tpcc_comes_to_the_same_everywhere() {
    let pinned: [(&str, [(u64, u64); 2]); 5] = [
        ("occ", [(732, 631), (825, 553)]),
        ("tictoc", [(608, 571), (654, 534)]),
        ("two-phase-no-wait", [(506, 758), (603, 562)]),
        ("swiss", [(386, 699), (482, 745)]),
        ("adaptive", [(726, 652), (817, 561)]),
    ];
    assert_eq!(all("granularity-fig3a", 64), pinned);
}

/// Timestamps that split themselves, beside one a row and one a group: on one core, where nothing splits, to the commit what one
/// a row is; on 64, after a while, more.
#[test]
fn splitting_comes_to_the_same_everywhere() {
    let counts = |protocol, granularity, cores| {
        let variant = named("splitting-tpcc").variant.clone();
        let size = Size { warm_up_ps: 500_000_000, measured_ps: 500_000_000, ..SMALL };
        counts(&repro::run(&Cell { variant, protocol, granularity, cores }, &size, 1).unwrap())
    };
    let at = |cores| {
        [Occ, TicToc, TwoPhaseNoWait]
            .map(|protocol| [Splitting, Coarse, Fine].map(|groups| counts(protocol, groups, cores)))
    };
    assert!(at(1).iter().all(|[splitting, coarse, _]| splitting == coarse));
    let pinned = [
        [(3700, 3089), (1756, 2637), (4366, 2914)],
        [(3027, 2873), (2626, 3140), (3388, 2842)],
        [(2937, 3045), (733, 1618), (2976, 2712)],
    ];
    assert_eq!(at(64), pinned);
}

/// Commits and failed attempts of each protocol at a point of a plot.
type Point = Vec<(u64, u64)>;

/// [Dynamic §I, §VII.B, Figures 1, 3, 4, 5 and 6] at a few points: of each protocol, commits and attempts that failed.
#[test]
fn contention_comes_to_the_same_everywhere() {
    let points = |name: &str| {
        let plan = Plan {
            experiments: vec![named(name)],
            cores: Vec::new(),
            few: true,
            size: SMALL,
            seed: 1,
            ablates: false,
        };
        let mut points: Vec<Point> = Vec::new();
        for cells in plan.cells().chunks(plan.experiments[0].protocols.len()) {
            let counts_of = |cell| counts(&repro::run(cell, &SMALL, 1).unwrap());
            points.push(cells.iter().map(counts_of).collect());
        }
        points.reverse();
        points
    };
    let pinned: [(&str, Vec<Point>); 5] = [
        ("dynamic-fig1", vec![vec![(876, 1)], vec![(911, 11)], vec![(809, 141)]]),
        (
            "dynamic-fig3",
            vec![vec![(918, 0), (2892, 1)], vec![(921, 4), (2696, 2)], vec![(871, 67), (1512, 54)]],
        ),
        (
            "dynamic-fig4",
            vec![vec![(876, 1), (2895, 1)], vec![(911, 11), (2680, 12)], vec![(809, 141), (1263, 189)]],
        ),
        (
            "dynamic-fig5",
            vec![vec![(905, 26), (813, 3)], vec![(871, 67), (1512, 54)], vec![(727, 34), (1750, 195)]],
        ),
        (
            "dynamic-fig6",
            vec![vec![(891, 1), (2709, 0)], vec![(911, 11), (2680, 12)], vec![(888, 17), (2637, 25)]],
        ),
    ];
    assert_eq!(pinned.each_ref().map(|(name, _)| (*name, points(name))), pinned);
}

/// A claim about runs that were not made is neither right nor wrong; and each run that some experiments share is made once.
#[test]
fn what_was_not_run_is_not_judged() {
    let cores = vec![2];
    let (size, experiments) = (SMALL, repro::all().collect());
    let plan = Plan { experiments, cores, few: true, size, seed: 1, ablates: true };
    for experiment in &plan.experiments {
        let nothing = repro::conclude(&plan, experiment, &[]);
        assert!(nothing.findings.iter().all(|finding| finding.verdict == Verdict::NotRun));
        assert!(nothing.findings.iter().all(|finding| finding.ours.starts_with("not run ")));
        assert!(nothing.runs.is_empty() && nothing.changes.is_empty());
        assert!(repro::all().filter(|other| other.name == experiment.name).count() == 1);
    }
    let cells = plan.cells();
    for (at, cell) in cells.iter().enumerate() {
        assert!(!cells[..at].contains(cell), "{cell:?}");
    }
}
