//! What tests of reproductions have in common.

use noonmark_sim::repro::{self, Cell, Experiment, Plan, Setting, Size};
use noonmark_workloads::report::{Reproduction, RunReport};

/// A size for tests.
pub const SMALL: Size = Size {
    rows: 20_000,
    rows_a_server: 1_000,
    contended_rows: 20_000,
    customers: 30,
    items: 1_000,
    memory_keys: 2_000,
    warm_up_ps: 20_000_000,
    measured_ps: 100_000_000,
};

/// The experiment of this name.
pub fn named(name: &str) -> &'static Experiment {
    repro::named(name).unwrap()
}

/// An experiment at few points, with seed 1: all runs, and what comes of its claims.
pub fn reproduced(name: &str, size: Size) -> Reproduction {
    let experiments = vec![named(name)];
    concluded(&Plan { experiments, size, ..LOOK })
}

/// A plan of nothing yet: few points, seed 1, no choice made otherwise.
pub const LOOK: Plan = Plan {
    experiments: Vec::new(),
    cores: Vec::new(),
    workers: Vec::new(),
    setting: Setting { workers: None, message_ns: None, rows: None, two_phase_commit: None },
    size: SMALL,
    seed: 1,
    few: true,
    ablates: false,
};

/// Runs all of it, and concludes of the first experiment.
pub fn concluded(plan: &Plan) -> Reproduction {
    let runs: Vec<(Cell, RunReport)> = plan
        .cells()
        .into_iter()
        .map(|cell| (cell.clone(), repro::run(&cell, &plan.size, plan.seed).unwrap()))
        .collect();
    repro::conclude(plan, plan.experiments[0], &runs)
}
