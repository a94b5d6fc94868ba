//! `noonmark advise`: a recorded run once more, under every protocol and grouping, on virtual cores; and what to choose.
//!
//! A workload is recorded first, on one thread, so that its transactions are the same each time. What is found is a function
//! of the history, the options and the seed.

use crate::args::{Advise, Bench, Groups, Workload};
use crate::error::Failure;
use crate::{fuzz, machine, output, plan, single};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use noonmark::Protocol;
use noonmark_sim::Machine;
use noonmark_sim::advice::{self, Trial};
use noonmark_sim::replay::{Figures, Setting, replay};
use noonmark_sim::trace::Trace;
use noonmark_workloads::history::History;
use noonmark_workloads::recording::legend::read_legend;
use noonmark_workloads::report::{Advice, advice_json, advice_text};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// Transactions recorded, unless told otherwise.
const TRANSACTIONS: u64 = 5_000;

/// The command.
pub fn run(args: &Advise) -> Result<(), Failure> {
    let protocols = fuzz::protocols(&args.protocol)?;
    let read = workload(args).is_none().then_some(Path::new(&args.what));
    output::can_write_all(args.json.iter(), read)?;
    let (of, trace) = match workload(args) {
        Some(workload) => recorded(args, workload)?,
        None => {
            refuse_what_is_a_workloads(args)?;
            let file = Path::new(&args.what);
            (file.display().to_string(), traced(file)?)
        }
    };
    let seeds: [u64; advice::SEEDS] = std::array::from_fn(|nth| args.seed.wrapping_add(nth as u64));
    let cores = usize::from(args.cores);
    let machine = Machine::GRANULARITY;
    let style = ProgressStyle::with_template("{spinner} {pos} runs, {elapsed}");
    // (It shows itself on a terminal only.)
    let bar = ProgressBar::new_spinner();
    let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
    bar.enable_steady_tick(Duration::from_millis(200));
    let found = advice::advise(&trace, &protocols, &seeds, |trials| {
        perform(trials, &bar, |(choices, seed)| {
            replay(&trace, choices, &Setting { machine, cores, seed: *seed })
                .map_err(|error| Failure::run(error.to_string()))
        })
    });
    bar.finish_and_clear();
    let advice = Advice { of, machine: machine.name.into(), cores, seeds: seeds.to_vec(), ..found? };
    output::print(&advice_text(&advice, output::columns()))?;
    if let Some(file) = &args.json {
        let json = advice_json(&advice)
            .map_err(|e| Failure::run(format!("cannot make the results into text: {e}")))?;
        output::write(file, &json)?;
    }
    Ok(())
}

/// The workload that is named, unless a file is.
fn workload(args: &Advise) -> Option<Workload> {
    Workload::from_str(args.what.to_str()?, false).ok()
}

fn refuse_what_is_a_workloads(args: &Advise) -> Result<(), Failure> {
    let given = [
        ("--preset", args.preset.is_some()),
        ("--rows", args.rows.is_some()),
        ("--theta", args.theta.is_some()),
        ("--transactions", args.transactions.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::usage(format!(
            "{option} is for workloads, and {} is a file: there are ycsb, tpcc, bank and others (see --help)",
            args.what.display()
        ))),
        None => Ok(()),
    }
}

/// Records a workload; what it is called, and what it did.
fn recorded(args: &Advise, workload: Workload) -> Result<(String, Trace), Failure> {
    let files = Temporary::new();
    let bench = Bench {
        preset: args.preset.clone(),
        protocol: vec![Protocol::Occ.name().into()],
        // A history that knows all column groups.
        groups: Some(Groups::Fine),
        threads: vec![1],
        transactions: Some(args.transactions.unwrap_or(TRANSACTIONS)),
        seed: args.seed,
        rows: args.rows,
        theta: args.theta.into_iter().collect(),
        history: Some(files.history.clone()),
        ..Bench::default()
    };
    let runs = plan::runs(workload, &bench)?;
    let Some(spec) = runs.first() else { return Err(Failure::usage("there is nothing to run")) };
    single::check(spec)?;
    let report = single::run(spec, &mut |_| {})?;
    let mut of = report.workload.clone();
    if report.preset != "default" {
        of = format!("{of} {}", report.preset);
    }
    Ok((of, traced(&files.history)?))
}

/// What a history did. What its keys are stands beside it, if it is one of ours.
fn traced(file: &Path) -> Result<Trace, Failure> {
    let cannot = |file: &Path, why: &dyn std::fmt::Display| {
        Failure::run(format!("cannot read the history in {}: {why}", file.display()))
    };
    let opened = File::open(file).map_err(|error| {
        let known = Workload::value_variants().iter().map(|workload| workload.name());
        match error.kind() {
            ErrorKind::NotFound => Failure::usage(format!(
                "{} is neither a file nor a workload: workloads are {}",
                file.display(),
                known.collect::<Vec<_>>().join(", ")
            )),
            _ => cannot(file, &error),
        }
    })?;
    if opened.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(cannot(file, &"it is a directory"));
    }
    let history = History::read(BufReader::new(opened)).map_err(|error| cannot(file, &error))?;
    let legend = legend_of(file);
    let keys = match File::open(&legend) {
        Ok(opened) => Some(read_legend(BufReader::new(opened)).map_err(|error| cannot(&legend, &error))?),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(cannot(&legend, &error)),
    };
    Trace::of(&history, keys.as_deref()).map_err(|error| cannot(file, &error))
}

fn legend_of(history: &Path) -> PathBuf {
    let mut name = history.as_os_str().to_owned();
    name.push(OsStr::new(".keys"));
    PathBuf::from(name)
}

/// A history that is gone when it has been read.
struct Temporary {
    history: PathBuf,
}

impl Temporary {
    fn new() -> Self {
        let name = format!("noonmark-advise-{}.jsonl", std::process::id());
        Temporary { history: std::env::temp_dir().join(name) }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        for file in [&self.history, &legend_of(&self.history)] {
            // If there is none, or it cannot be taken away, nobody is worse off than before.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Runs trials beside each other, as many as there are cores. The first that fails ends it.
fn perform(
    trials: &[Trial],
    bar: &ProgressBar,
    run: impl Fn(&Trial) -> Result<Figures, Failure> + Sync,
) -> Result<Vec<Figures>, Failure> {
    let done: Mutex<(usize, BTreeMap<usize, Figures>, Option<Failure>)> = Mutex::default();
    let state = || done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let next = || {
        let mut state = state();
        let at = state.0;
        state.0 += 1;
        (at < trials.len() && state.2.is_none()).then_some(at)
    };
    std::thread::scope(|scope| {
        for _ in 0..machine::cores().min(trials.len()) {
            scope.spawn(|| {
                while let Some(at) = next() {
                    let figures = run(&trials[at]);
                    let mut state = state();
                    match figures {
                        Ok(figures) => drop(state.1.insert(at, figures)),
                        Err(failure) => drop(state.2.get_or_insert(failure)),
                    }
                    bar.inc(1);
                }
            });
        }
    });
    let (_, figures, failure) = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    match failure {
        Some(failure) => Err(failure),
        None => Ok(figures.into_values().collect()),
    }
}
