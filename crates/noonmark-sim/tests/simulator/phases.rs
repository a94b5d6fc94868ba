//! Of transactions that span servers: what their time goes into, and their bytes, phase by phase [Sundial Figures 7b and 7c].

use noonmark::Protocol;
use noonmark_sim::experiment::{ExperimentError, Plan};
use noonmark_sim::network::store::ClusterSpec;
use noonmark_sim::network::ycsb::{self, ClusterMeasured, YcsbSpec};
use noonmark_workloads::workload::RunError;

fn run(protocol: Protocol) -> ClusterMeasured {
    run_on(ClusterSpec::new(4, protocol), 0)
}

fn run_on(cluster: ClusterSpec, abort_buffer: usize) -> ClusterMeasured {
    run_ahead(cluster, abort_buffer, 200, 0)
}

fn run_ahead(cluster: ClusterSpec, abort_buffer: usize, rows: u64, requests: usize) -> ClusterMeasured {
    try_ahead(cluster, abort_buffer, rows, requests).unwrap()
}

/// Of so many rows a server; each client knows of so many transactions ahead.
fn try_ahead(
    cluster: ClusterSpec,
    abort_buffer: usize,
    rows: u64,
    requests: usize,
) -> Result<ClusterMeasured, ExperimentError> {
    let spec = YcsbSpec {
        rows,
        accesses: 16,
        writes_permille: 100,
        remote_percent: 10,
        reads_theta: 0.9,
        writes_theta: 0.9,
        together: false,
        abort_buffer,
    };
    let plan = Plan {
        workers: 4,
        warm_up_ps: 2_000_000_000,
        measured_ps: 20_000_000_000,
        steps_max: u64::MAX,
        seed: 1,
        requests,
    };
    ycsb::run(cluster, spec, &plan)
}

/// Each nanosecond of a transaction that committed is in one phase, and each byte that was sent, but for those of attempts that were
/// under way when measuring began or ended.
#[test]
fn phases_are_all_of_the_latency_and_of_the_traffic() {
    for protocol in [Protocol::Sundial, Protocol::TwoPhaseWaitDie, Protocol::F1, Protocol::Dynamic] {
        let run = run(protocol);
        let latencies_ns: u64 = run.measured.latencies_ns.iter().sum();
        let commits = run.measured.committed;
        assert!(commits > 300, "{protocol}: {commits}");
        // Each is told in whole nanoseconds.
        let apart_ns = run.times.total_ns().abs_diff(latencies_ns);
        assert!(apart_ns <= 2 * commits, "{protocol}: {:?}, {latencies_ns}", run.times);
        assert!(run.times.failed_ns > 0 && run.times.paused_ns > 0, "{:?}", run.times);
        let apart = run.phase_bytes.total().abs_diff(run.bytes);
        // Sixteen clients, and some kilobytes of an attempt.
        assert!(
            apart < 16 * 5_000 && apart * 50 < run.bytes,
            "{protocol}: {:?}, {}",
            run.phase_bytes,
            run.bytes
        );
        assert!(
            run.phase_bytes.execution > 0 && run.phase_bytes.failed > 0,
            "{protocol}: {:?}",
            run.phase_bytes
        );
    }
}

/// The same where a worker runs others while one pauses.
#[test]
fn phases_are_all_of_the_latency_with_an_abort_buffer() {
    let mut cluster = ClusterSpec::new(4, Protocol::Sundial);
    cluster.policy.backoff_max = std::time::Duration::from_millis(1);
    let without = run_on(cluster.clone(), 0);
    let with = run_on(cluster, 10);
    let latencies_ns: u64 = with.measured.latencies_ns.iter().sum();
    assert!(with.times.total_ns().abs_diff(latencies_ns) <= 2 * with.measured.committed, "{:?}", with.times);
    let attempts = |run: &ClusterMeasured| run.measured.committed + run.measured.aborted;
    assert!(attempts(&with) > attempts(&without), "{} {}", attempts(&with), attempts(&without));
}

/// Who is put aside before measuring begins, and is still there when all ends, is told of: none, if pauses are short.
#[test]
fn transactions_that_are_put_aside_for_good_are_given_up() {
    let mut cluster = ClusterSpec::new(4, Protocol::Sundial);
    cluster.policy.backoff_round_trips = None;
    let stuck = |backoff_max_s: u64, abort_buffer: usize| {
        let mut cluster = cluster.clone();
        cluster.policy.backoff_max = std::time::Duration::from_secs(backoff_max_s);
        run_ahead(cluster, abort_buffer, 20, 0).measured.stuck
    };
    // Four workers at each of four servers: one transaction each, or those that its buffer has, too.
    let (one_each, many_each) = (stuck(1_000, 0), stuck(1_000, 10));
    assert!(one_each > 8 && one_each <= 16, "{one_each}");
    assert!(many_each > 2 * one_each && many_each <= 16 * 11, "{many_each}");
    assert_eq!(stuck(0, 10), 0);
}

/// Where a commit ends when all who are prepared have been told, its last phase is a round trip wherever there is somebody to tell: under `f1` for those
/// at whom it has only read, too, under `sundial` and `two-phase` only for those at whom it has written [Sundial §6.3].
#[test]
fn who_waits_until_all_have_been_told_waits_for_a_round_trip() {
    use Protocol::{Dynamic, F1, Sundial, TwoPhaseWaitDie};
    let commit_ns = |protocol, waits_until_told| {
        let run = run_on(ClusterSpec { waits_until_told, ..ClusterSpec::new(4, protocol) }, 0);
        let latencies_ns: u64 = run.measured.latencies_ns.iter().sum();
        assert!(run.times.total_ns().abs_diff(latencies_ns) <= 2 * run.measured.committed, "{:?}", run.times);
        run.times.commit_ns / run.measured.committed
    };
    let waits_ns = |protocol| commit_ns(protocol, true) - commit_ns(protocol, false);
    let [f1, dynamic, sundial, two_phase] = [F1, Dynamic, Sundial, TwoPhaseWaitDie].map(waits_ns);
    println!("{f1} {dynamic} {sundial} {two_phase}");
    // Four of five have read at another server, one of seven has written there.
    assert!(sundial > 0 && two_phase > 0, "{sundial} {two_phase}");
    assert!(f1 > 3 * sundial && f1 > 3 * two_phase, "{f1} {sundial} {two_phase}");
}

/// Where everybody is asked to prepare, two-phase locking asks those, too, at whom it has only read: a round trip more before it is decided, and nothing to
/// be told afterwards, as they have let go with their votes.
#[test]
fn who_is_asked_to_prepare_need_not_be_told_of_locks_for_reading() {
    let figures = |asks_everybody| {
        let cluster = ClusterSpec { asks_everybody, ..ClusterSpec::new(4, Protocol::TwoPhaseWaitDie) };
        let run = run_on(cluster, 0);
        let each = |sum: u64| sum / run.measured.committed;
        (each(run.times.prepare_ns), each(run.phase_bytes.prepare), each(run.phase_bytes.commit))
    };
    let (of_some, of_all) = (figures(false), figures(true));
    assert!(of_all.0 > 2 * of_some.0 && of_all.1 > 2 * of_some.1, "{of_some:?}, {of_all:?}");
    assert!(2 * of_all.2 < of_some.2, "{of_some:?}, {of_all:?}");
}

/// Rows that nobody will ask for need not be there; and whoever has run all that he knows of begins again. (Under `fixed` whoever loads more rows, in no time, has
/// drawn more times from the clock of the servers, which are ahead of it for as long.)
#[test]
fn rows_that_nobody_asks_for_change_nothing() {
    for protocol in Protocol::ALL.iter().copied().filter(|&protocol| protocol != Protocol::Fixed) {
        let figures = |requests| {
            let run = run_ahead(ClusterSpec::new(4, protocol), 10, 10_000, requests);
            // (Bytes may differ a little: times stand in the words of a refusal.)
            assert_eq!(run.began_again > 0, requests == 5, "{protocol}: {}", run.began_again);
            (run.measured.committed, run.measured.aborted, run.messages)
        };
        let (all, asked_for, few) = (figures(0), figures(200), figures(5));
        assert_eq!(all, asked_for, "{protocol}");
        assert!(few.0 > 16 * 5 && few != all, "{protocol}");
    }
}

/// Rows that do not fit into memory are refused before they are listed.
#[test]
fn more_rows_than_fit_are_refused_at_once() {
    let cluster = ClusterSpec::new(4, Protocol::Sundial);
    let refused = try_ahead(cluster, 0, 1 << 50, 0).unwrap_err();
    assert!(matches!(refused, ExperimentError::Run(RunError::Memory { .. })), "{refused}");
}
