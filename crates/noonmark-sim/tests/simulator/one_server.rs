//! What each of the papers' experiments on one server comes to, at a small size: a line a run in `one_server.txt`. Whoever changes what
//! transactions do changes these figures, and writes the new ones down when he has understood why (the run that writes them fails still: it
//! compares with those that it was compiled with):
//!
//! ```sh
//! WRITE_FIGURES=1 cargo test -p noonmark-sim --test simulator -- one_server
//! ```

use crate::helpers::{LOOK, SMALL};
use noonmark_sim::repro::{self, Cell, Experiment, Plan, Rules, Workload};
use std::fmt::Write;

const PINNED: &str = include_str!("one_server.txt");

/// [Granularity §4, Figures 2 and 3], [Dynamic §VII.B, Figures 1 and 3 to 6] and [SlowClocks §7, Figures 6 to 12], and timestamps that split themselves: under each rule,
/// at each granularity of the plot, on 32 cores, or, where their number is what is given, at the plot's ends and middle.
#[test]
fn each_experiment_comes_to_the_same_everywhere() {
    let families = ["granularity-", "dynamic-", "slowclocks-", "splitting-"];
    let of_one_server = |it: &&Experiment| families.iter().any(|family| it.name.starts_with(family));
    let mut figures = String::new();
    for experiment in repro::all().filter(of_one_server) {
        let plan = Plan { experiments: vec![experiment], cores: vec![32], ..LOOK };
        for cell in plan.cells() {
            writeln!(figures, "{}{}", experiment.name, figures_of(&cell)).unwrap();
        }
    }
    if std::env::var_os("WRITE_FIGURES").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/simulator/one_server.txt"), &figures)
            .unwrap();
    }
    let others: Vec<_> = figures.lines().zip(PINNED.lines()).filter(|(now, pinned)| now != pinned).collect();
    assert!(
        figures == PINNED,
        "{} lines, then {}; these differ: {others:#?}",
        figures.lines().count(),
        PINNED.lines().count()
    );
}

/// Which run of the experiment, and what it came to.
fn figures_of(cell: &Cell) -> String {
    let run = repro::run(cell, &SMALL, 1).unwrap();
    let mut line = String::new();
    if let Workload::Contended(of) = &cell.variant.workload {
        write!(line, ", contention {} %, {} % read-only", of.contention_percent, of.read_only_percent)
            .unwrap();
    }
    let (granularity, cores, committed, aborted) =
        (cell.granularity, cell.cores, run.committed, run.aborted());
    write!(
        line,
        ", {}, {granularity:?}, {cores} cores: {committed} commits, {aborted} failed",
        cell.protocol.name()
    )
    .unwrap();
    if let Some(increments) = run.clock_increments {
        write!(line, ", clock advanced {increments} times").unwrap();
    }
    assert_ne!(run.consistent, Some(false), "{line}: {:?}", run.consistency);
    assert!(run.consistent.is_some() || !matches!(cell.protocol, Rules::Memory(_)), "{line}: not checked");
    line
}
