//! The tour: what `noonmark` does when it is told nothing.
//!
//! One protocol of each of five families and the baseline compete in three contests that hurt: YCSB with a
//! steep Zipfian choice of rows, TPC-C with a single warehouse, and a hot counter; each with one thread and
//! with all cores. Rows have a timestamp of their own, or one per column group; the counter, which is one
//! column, is changed plainly or at commit time instead.
//!
//! The whole takes at most two minutes, loading included, on any machine: the seconds a run are what is left
//! of the time over what is left of the runs, less what loading has cost so far. They are set anew for each
//! contest and equal within it. On a very slow machine the measurements get short, never the list of runs.

use crate::args::{Access, Bench, Groups, RowHint, Updates, Workload};
use crate::error::Failure;
use crate::machine;
use crate::plan::{self, RunSpec};
use noonmark::Protocol;
use std::time::Duration;

/// All runs with their loading; ten seconds are left for the checks after the last run and for the page.
const TOUR_MAX: Duration = Duration::from_secs(110);
/// No run is measured for longer or shorter than this.
const SECONDS_MAX: f64 = 2.0;
const SECONDS_MIN: f64 = 0.2;
/// Warming up.
const WARM_UP_S: f64 = 0.1;
/// Loading, warm-up and checks of one run, before any has been timed.
const OVERHEAD_GUESS_S: f64 = 0.5;
/// More threads than this make no better tour.
const THREADS_MAX: usize = 8;
/// Enough rows not to fit into a core's own cache, few enough to load in a moment.
const YCSB_ROWS: u64 = 100_000;

/// Where the tour leaves its page and its results.
pub const PAGE: &str = "noonmark-bench.html";
/// See [`PAGE`].
pub const RESULTS: &str = "noonmark-bench.json";

/// As many families as there is time for: the first, which are Granularity's.
const FAMILIES: usize = 5;

/// The baseline, and the protocol that stands for each of those families.
fn contestants() -> Vec<String> {
    let mut families: Vec<&str> = Vec::new();
    let firsts = Protocol::ALL.iter().filter(|protocol| {
        let is_first = !families.contains(&protocol.family());
        families.push(protocol.family());
        is_first
    });
    let firsts = firsts.take(FAMILIES);
    std::iter::once(plan::BASELINE).chain(firsts.map(|protocol| protocol.name())).map(String::from).collect()
}

/// The runs of the tour.
pub fn runs(args: &Bench) -> Result<Vec<RunSpec>, Failure> {
    refuse_what_needs_a_workload(args)?;
    let threads: Vec<usize> = if args.threads.is_empty() {
        let all = machine::cores().min(THREADS_MAX);
        if all > 1 { vec![1, all] } else { vec![1] }
    } else {
        args.threads.iter().map(|n| usize::from(*n)).collect()
    };
    let protocol = if args.protocol.is_empty() { contestants() } else { args.protocol.clone() };
    let base = RunSpec {
        workload: Workload::Ycsb,
        preset: None,
        protocol: String::new(),
        groups: Groups::Fine,
        index: None,
        updates: Updates::Plain,
        access: Access::OneByOne,
        row_hint: true,
        threads: 1,
        seconds: args.seconds.unwrap_or(SECONDS_MAX),
        timed: true,
        transactions: None,
        warm_up_s: WARM_UP_S,
        seed: args.seed,
        rows: None,
        theta: None,
        warehouses: None,
        properties: None,
        allocations: false,
        history: None,
    };
    let works = [
        RunSpec {
            preset: Some("granularity".into()),
            rows: Some(YCSB_ROWS),
            theta: Some(0.9),
            ..base.clone()
        },
        RunSpec { workload: Workload::Tpcc, warehouses: Some(1), ..base.clone() },
        RunSpec { workload: Workload::Counter, ..base },
    ];
    let mut runs = Vec::new();
    for work in works {
        let counter = work.workload == Workload::Counter;
        let choice = Bench {
            protocol: Vec::clone(&protocol),
            groups: if counter { Some(Groups::Fine) } else { args.groups.or(Some(Groups::Both)) },
            updates: if counter { vec![Updates::Plain, Updates::CommitTime] } else { Vec::new() },
            ..Bench::default()
        };
        for threads in &threads {
            plan::contestants(&RunSpec { threads: *threads, ..work.clone() }, &choice, &mut runs)?;
        }
    }
    Ok(runs)
}

/// Seconds to measure each of the next runs, so that all of them end in time.
pub fn seconds_each(elapsed: Duration, seconds_measured: f64, runs_done: usize, runs_left: usize) -> f64 {
    let elapsed_s = elapsed.as_secs_f64();
    let overhead_s = match runs_done {
        0 => OVERHEAD_GUESS_S,
        done => (elapsed_s - seconds_measured).max(0.0) / done as f64,
    };
    let left_s = TOUR_MAX.as_secs_f64() - elapsed_s;
    (left_s / runs_left.max(1) as f64 - overhead_s).clamp(SECONDS_MIN, SECONDS_MAX)
}

fn refuse_what_needs_a_workload(args: &Bench) -> Result<(), Failure> {
    let given = [
        ("--preset", args.preset.is_some()),
        ("--index", args.index.is_some()),
        ("--updates", !args.updates.is_empty()),
        ("--access", !args.access.is_empty()),
        ("--row-hint", args.row_hint == RowHint::No),
        ("--rows", args.rows.is_some()),
        ("--theta", !args.theta.is_empty()),
        ("--warehouses", !args.warehouses.is_empty()),
        ("-p", !args.property.is_empty()),
        ("-P", args.properties.is_some()),
        ("--allocations", args.allocations),
        ("--transactions", args.transactions.is_some()),
        ("--history", args.history.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            Err(Failure::usage(format!("{option} needs a workload, as in: noonmark bench ycsb {option} ...")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tour_ends_in_time_whatever_loading_costs() {
        let runs = runs(&Bench::default()).unwrap().len();
        for overhead_s in [0.01, 0.3, 1.0] {
            let (mut elapsed_s, mut measured_s) = (0.0, 0.0);
            for done in 0..runs {
                let seconds = seconds_each(Duration::from_secs_f64(elapsed_s), measured_s, done, runs - done);
                measured_s += seconds;
                elapsed_s += seconds + overhead_s;
            }
            assert!(elapsed_s <= 120.0, "{elapsed_s} s with {overhead_s} s of loading each");
        }
    }

    #[test]
    fn the_baseline_and_each_family_run_in_every_contest() {
        let expected = ["mutex", "occ", "tictoc", "two-phase-wait-die", "swiss", "adaptive"];
        assert_eq!(contestants(), expected);
        let runs = runs(&Bench { threads: vec![1, 4], ..Bench::default() }).unwrap();
        for workload in [Workload::Ycsb, Workload::Tpcc, Workload::Counter] {
            for threads in [1, 4] {
                for protocol in contestants() {
                    let mine = |run: &&RunSpec| {
                        run.workload == workload && run.threads == threads && run.protocol == protocol
                    };
                    let expected = if protocol == plan::BASELINE { 1 } else { 2 };
                    assert_eq!(
                        runs.iter().filter(mine).count(),
                        expected,
                        "{workload:?} {threads} {protocol}"
                    );
                }
            }
        }
    }

    #[test]
    fn options_of_a_workload_are_refused() {
        assert!(runs(&Bench { rows: Some(1), ..Bench::default() }).is_err());
    }
}
