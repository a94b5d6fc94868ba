//! `noonmark check`: reads a history and prints the checker's report.

use crate::args::Check;
use crate::error::Failure;
use crate::output;
use noonmark_workloads::check::{Options, Verdict, check};
use noonmark_workloads::driver::memory;
use noonmark_workloads::history::History;
use std::fs::File;
use std::io::BufReader;

/// Checks the history; a failure if it is none, or if no serial order explains it.
pub fn run(args: &Check) -> Result<(), Failure> {
    let name = args.file.display();
    let cannot =
        |why: &dyn std::fmt::Display| Failure::run(format!("cannot read the history in {name}: {why}"));
    let file = File::open(&args.file).map_err(|e| cannot(&e))?;
    if let Ok(metadata) = file.metadata() {
        if metadata.is_dir() {
            return Err(cannot(&"it is a directory"));
        }
        memory::check_history_file(metadata.len(), args.strict || args.opaque).map_err(|e| cannot(&e))?;
    }
    let history = History::read(BufReader::new(file)).map_err(|e| cannot(&e))?;
    if history.transactions().is_empty() {
        return Err(cannot(&"it holds no transactions"));
    }
    let report =
        check(&history, &Options { session: args.session, strict: args.strict, opaque: args.opaque });
    output::print(&format!("{report}\n"))?;
    let asked = match args {
        Check { opaque: true, .. } => "opaque",
        Check { strict: true, .. } => "strictly serializable",
        Check { session: true, .. } => "serializable in session order",
        Check { .. } => "serializable",
    };
    match report.verdict {
        Verdict::Proved => Ok(()),
        Verdict::Violated => {
            let anomalies: usize = report.totals.values().sum();
            let s = if anomalies == 1 { "anomaly" } else { "anomalies" };
            Err(Failure::run(format!("the history in {name} is not {asked}: {anomalies} {s}")))
        }
        Verdict::Undecided => Err(Failure::Undecided(format!(
            "the history in {name} shows no anomaly, but is not proved {asked}"
        ))),
    }
}
