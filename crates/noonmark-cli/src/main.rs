//! The `noonmark` program: measures concurrency-control protocols against each other, and checks histories.
//!
//! | file | what it is for |
//! |---|---|
//! | `args.rs` | the command line, every option with its unit and default |
//! | `plan.rs` | from the command line to the list of runs; refuses impossible mixes |
//! | `tour.rs` | the runs of the tour, and how they fit into two minutes |
//! | `bench.rs` | `noonmark bench`: performs the runs, shows the results |
//! | `stm/` | `noonmark bench stm`: its options, its runs, and who is ours and who is not |
//! | `single.rs` | one run, in the words of `noonmark-workloads` |
//! | `live.rs` | the display while runs go on |
//! | `check.rs` | `noonmark check` |
//! | `repro.rs` | `noonmark repro` |
//! | `fuzz.rs` | `noonmark fuzz` |
//! | `advise.rs` | `noonmark advise` |
//! | `allocator.rs` | the allocator, told to keep the memory that it has |
//! | `machine.rs`, `output.rs`, `error.rs` | the machine in words; files; failures and exit statuses |
//!
//! What it measures, and how, is in `noonmark-workloads`; nothing here knows how a transaction runs.
//!
//! Whatever a user types, the program ends with one clear line and an exit status, never with a panic: 0 done,
//! 1 a run failed or its result is wrong, 2 the command line is wrong, 3 a history could not be judged.

mod advise;
mod allocator;
mod args;
mod bench;
mod check;
mod error;
mod fuzz;
mod live;
mod machine;
mod output;
mod plan;
mod repro;
mod single;
mod stm;
mod tour;
mod workers;

use args::{Bench, Cli, Command};
use clap::Parser;
use clap::error::ErrorKind;
use error::Failure;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    allocator::keep_memory();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "noonmark: {failure}");
            ExitCode::from(failure.status())
        }
    }
}

fn run() -> Result<(), Failure> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return output::print(&e.to_string());
        }
        Err(e) => return Err(Failure::usage(args::one_line(&e))),
    };
    match cli.command.unwrap_or_else(|| Command::Bench(Box::new(Bench { seed: 1, ..Bench::default() }))) {
        Command::Bench(args) => bench::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Repro(args) => repro::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Advise(args) => advise::run(&args),
    }
}
