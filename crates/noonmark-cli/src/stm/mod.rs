//! `noonmark bench stm`: the benchmarks of the transactional memory.
//!
//! | file | what it is for |
//! |---|---|
//! | `args.rs` | its options |
//! | `plan.rs` | from them to the list of runs; refuses impossible mixes |
//! | `who.rs` | contenders: those of `noonmark-workloads`, and, unless the program was built without, those of others |
//!
//! The display, the table and the files are those of the other benchmarks (`bench.rs`).
//!
//! What it does not do: measure.

mod args;
mod plan;
mod who;

pub use args::Stm;

use crate::bench;
use crate::error::Failure;
use crate::output;
use noonmark_workloads::workload::RunError;

/// The command.
pub fn run(args: &Stm) -> Result<(), Failure> {
    let mut runs = plan::runs(args)?;
    if let Some(file) = &args.history {
        output::can_write(file)?;
    }
    bench::run_all(
        &mut runs,
        &mut |run, listen| run.who.run(&run.settings, listen).map_err(failure),
        args.json.as_deref(),
        args.html.as_deref(),
    )
}

/// A setting that makes no sense is the command line's fault; all else is the run's.
fn failure(error: RunError) -> Failure {
    match error {
        RunError::Setting(why) => Failure::Usage(why),
        other => Failure::Run(other.to_string()),
    }
}
