//! DistTicToc's figures, at virtual workers that share nothing: that they repeat, and that no money is lost.

use crate::helpers::{SMALL, reproduced};
use noonmark::Protocol;
use noonmark_sim::experiment::Plan;
use noonmark_sim::network::Conditions;
use noonmark_sim::network::disttictoc::{DistTicTocSpec, WorkingSet, run};
use noonmark_sim::network::store::ClusterSpec;
use noonmark_sim::repro::Size;
use noonmark_workloads::report::Verdict::{self, Agrees, Differs, NotRun};

/// Of a protocol, with so many clients or at so many workers: commits, and attempts that failed.
type Point = (String, String, u64, u64);

fn points(name: &str, axis: &str) -> (Vec<Point>, Vec<Verdict>) {
    // So many that what is said of the paper is what it is at the experiments' own size (`docs/reproductions`).
    let done = reproduced(name, Size { rows: 4_000_000, ..SMALL });
    assert!(done.runs.iter().all(|run| run.consistent != Some(false)), "{name}");
    // Money is looked at wherever it is moved.
    assert!(done.runs.iter().all(|run| (run.workload == "bank") == run.consistent.is_some()), "{name}");
    let point = |run: &noonmark_workloads::report::RunReport| {
        (run.protocol.clone(), run.parameters[axis].clone(), run.committed, run.aborted())
    };
    (done.runs.iter().map(point).collect(), done.findings.iter().map(|finding| finding.verdict).collect())
}

fn pinned(points: &[(&str, &str, u64, u64)]) -> Vec<Point> {
    let own = |&(protocol, at, commits, failed): &(&str, &str, u64, u64)| {
        (protocol.to_owned(), at.to_owned(), commits, failed)
    };
    points.iter().map(own).collect()
}

/// [DistTicToc §3.2, Figures 6b and 6c].
#[test]
fn figure_6_transfers_by_clients() {
    let (runs, verdicts) = points("disttictoc-fig6", "clients");
    let expected = pinned(&[
        ("tictoc, 1 worker", "8", 80, 0),
        ("tictoc, 2 workers", "8", 121, 0),
        ("tictoc, 3 workers", "8", 168, 0),
        ("tictoc, 1 worker", "64", 64, 0),
        ("tictoc, 2 workers", "64", 135, 0),
        ("tictoc, 3 workers", "64", 187, 0),
    ]);
    assert_eq!((runs, verdicts), (expected, vec![Agrees, Differs, Agrees, Agrees, Agrees]));
}

/// [DistTicToc §3.1, Figure 6a].
#[test]
fn figure_6_reads_by_clients() {
    let (runs, verdicts) = points("disttictoc-fig6a", "clients");
    let expected = pinned(&[
        ("tictoc, 1 worker", "8", 833, 0),
        ("tictoc, 2 workers", "8", 1476, 0),
        ("tictoc, 3 workers", "8", 1745, 0),
        ("tictoc, 1 worker", "64", 834, 0),
        ("tictoc, 2 workers", "64", 1640, 0),
        ("tictoc, 3 workers", "64", 2347, 0),
    ]);
    assert_eq!((runs, verdicts), (expected, vec![Differs]));
}

/// [DistTicToc §3.2, Figure 7b].
#[test]
fn figure_7_transfers_by_workers() {
    let (runs, verdicts) = points("disttictoc-fig7", "workers");
    let expected = pinned(&[
        ("tictoc, one set", "1", 64, 0),
        ("tictoc, two sets", "1", 64, 0),
        ("tictoc, one set", "2", 135, 0),
        ("tictoc, two sets", "2", 135, 0),
        ("tictoc, one set", "3", 187, 0),
        ("tictoc, two sets", "3", 187, 0),
    ]);
    assert_eq!((runs, verdicts), (expected, vec![Agrees, Agrees, NotRun, Agrees]));
}

/// [DistTicToc §3.1, Figure 7a].
#[test]
fn figure_7_reads_by_workers() {
    let (runs, verdicts) = points("disttictoc-fig7a", "workers");
    let expected = pinned(&[
        ("tictoc, one set", "1", 834, 0),
        ("tictoc, one set", "2", 1640, 0),
        ("tictoc, one set", "3", 2347, 0),
    ]);
    assert_eq!((runs, verdicts), (expected, vec![Agrees, Agrees, Agrees, NotRun]));
}

/// [DistTicToc §3.2, Figure 8].
#[test]
fn figure_8_failed_attempts() {
    let (runs, verdicts) = points("disttictoc-fig8", "workers");
    let expected = pinned(&[
        ("tictoc, one set", "1", 59, 5),
        ("tictoc, two sets", "1", 59, 5),
        ("fixed", "1", 59, 8),
        ("tictoc, one set", "3", 182, 26),
        ("tictoc, two sets", "3", 164, 24),
        ("fixed", "3", 191, 30),
    ]);
    assert_eq!((runs, verdicts), (expected, vec![Agrees, Agrees]));
}

/// Messages of a hundred commits, where hardly anybody meets another.
fn messages(working_set: WorkingSet, is_strict: bool, together: bool) -> u64 {
    let conditions = Conditions { server_ns: Some(0), ..Conditions::quiet() };
    let cluster = ClusterSpec { is_strict, conditions, ..ClusterSpec::new(3, Protocol::TicToc) };
    let spec = DistTicTocSpec { rows: 20_000, accounts: Some(4), together, working_set };
    let plan = Plan {
        workers: 3,
        warm_up_ps: 1_000_000_000,
        measured_ps: 100_000_000_000,
        steps_max: u64::MAX,
        seed: 1,
        requests: 0,
    };
    let found = run(cluster, spec, &plan).unwrap();
    assert!(found.measured.committed > 100, "{}", found.measured.committed);
    assert!(
        found.measured.conditions.iter().all(|condition| condition.holds),
        "{:?}",
        found.measured.conditions
    );
    100 * found.messages / found.measured.committed
}

/// [DistTicToc §2.4.2]: one working set or two is as much communication, where reads hold for a span of time. Where they hold for a
/// moment only, nothing may be validated before all is sealed, which one set spares, as it has nothing to validate.
#[test]
fn one_working_set_spares_a_round_in_momentary_order_only() {
    use WorkingSet::{Apart, Combined};
    for together in [false, true] {
        let [logical, momentary] = [false, true]
            .map(|is_strict| [Combined, Apart].map(|working_set| messages(working_set, is_strict, together)));
        assert!(logical[0].abs_diff(logical[1]) * 50 < logical[0], "{logical:?}");
        assert!(momentary[0].abs_diff(logical[0]) * 50 < logical[0], "{momentary:?}, {logical:?}");
        // A message to each of two or three workers, and its answer.
        assert!((350..=650).contains(&(momentary[1] - momentary[0])), "{momentary:?}");
    }
}
