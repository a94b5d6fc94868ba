//! `noonmark bench workers`: share-nothing workers on real threads [DistTicToc §2.3], beside the engine.
//!
//! | file | what it is for |
//! |---|---|
//! | `args.rs` | its options |
//! | `run.rs` | one run: clients of a cluster, or sessions of a database, and a clock over them |
//!
//! Here the options become a list of runs: contests together, and in each the engine first, which the others are measured by. The
//! display, the table and the files are those of the other benchmarks (`bench.rs`).

mod args;
mod run;

pub use args::Workers;

use crate::error::Failure;
use crate::live::Contestant;
use crate::{bench, machine};
use args::{Access, At};
use noonmark::Protocol;
use noonmark_workloads::report::ENGINE;

/// One run.
#[derive(Clone, Debug, PartialEq)]
struct WorkersRun {
    protocol: Protocol,
    /// How many workers there are; of the engine, how many sessions.
    workers: u16,
    /// Of a hundred transactions, those that are of two workers.
    across_percent: u8,
    /// None: on the engine.
    clients: Option<Clients>,
    accesses: usize,
    access: Access,
    rows: u64,
    seconds: f64,
    seed: u64,
}

/// Those of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Clients {
    count: u16,
    /// They share so many of their own; none, if they run at the workers.
    threads: u16,
}

impl WorkersRun {
    /// Rows of each worker.
    fn rows_of_each(&self) -> u64 {
        self.rows / u64::from(self.workers)
    }

    fn who(&self) -> String {
        match self.clients {
            None => ENGINE.into(),
            Some(Clients { count: 1, threads: 0 }) => "1 client at a worker".into(),
            Some(Clients { count, threads: 0 }) => format!("{count} clients at the workers"),
            Some(Clients { count: 1, .. }) => "1 client".into(),
            Some(Clients { count, threads: 1 }) => format!("{count} clients"),
            Some(Clients { count, threads }) => format!("{count} clients on {threads} threads"),
        }
    }

    /// What the runs of a section have in common.
    fn preset(&self) -> String {
        format!("{}, {} % across two", self.protocol, self.across_percent)
    }
}

impl Contestant for WorkersRun {
    fn contest(&self) -> String {
        let workers = if self.workers == 1 { "1 worker".into() } else { format!("{} workers", self.workers) };
        format!("workers, {}, {workers}", self.preset())
    }

    fn name(&self, _: &[&WorkersRun]) -> String {
        self.who()
    }

    fn is_baseline(&self) -> bool {
        self.clients.is_none()
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn set_seconds(&mut self, seconds: f64) {
        self.seconds = seconds;
    }
}

/// The command.
pub fn run(args: &Workers) -> Result<(), Failure> {
    let mut runs = runs(args)?;
    bench::run_all(
        &mut runs,
        &mut |run, listen| run::run(run, listen),
        args.json.as_deref(),
        args.html.as_deref(),
    )
}

/// The runs that the options ask for.
fn runs(args: &Workers) -> Result<Vec<WorkersRun>, Failure> {
    let protocols = protocols(&args.protocol)?;
    let cores = u16::try_from(machine::cores()).unwrap_or(u16::MAX).min(256);
    let workers = once(if args.workers.is_empty() { vec![1, cores] } else { args.workers.clone() });
    let most = workers.iter().copied().max().unwrap_or(1);
    if args.rows / u64::from(most) < 2 * u64::from(args.accesses) {
        return Err(Failure::usage(format!(
            "--rows: each of {most} workers wants twice as many rows as a transaction has ({}), and there are {}",
            args.accesses, args.rows
        )));
    }
    let mut contestants: Vec<Option<Clients>> = vec![None];
    for at in once(args.at.clone()) {
        contestants.extend(once(args.clients.clone()).into_iter().map(|count| {
            let threads = if at == At::Threads { args.client_threads.min(count) } else { 0 };
            Some(Clients { count, threads })
        }));
    }
    let mut runs = Vec::new();
    for &protocol in &protocols {
        for across_percent in once(args.across.clone()) {
            // One worker has nobody to share with: its only contest is that of 0 %, or of the least if that was not asked for.
            let is_least = args.across.iter().all(|&other| across_percent <= other);
            for &workers in workers.iter().filter(|&&workers| workers > 1 || is_least) {
                runs.extend(contestants.iter().map(|&clients| WorkersRun {
                    protocol,
                    workers,
                    across_percent: if workers > 1 { across_percent } else { 0 },
                    clients,
                    accesses: args.accesses.into(),
                    access: args.access,
                    rows: args.rows,
                    seconds: args.seconds,
                    seed: args.seed,
                }));
            }
        }
    }
    Ok(runs)
}

fn protocols(names: &[String]) -> Result<Vec<Protocol>, Failure> {
    if names.iter().any(|name| name.trim() == "all") {
        return Ok(Protocol::ALL.to_vec());
    }
    let named: Result<Vec<Protocol>, _> = names.iter().map(|name| name.trim().parse()).collect();
    named.map(once).map_err(|error| Failure::usage(format!("--protocol: {error}")))
}

/// Each of them once, in the order in which they come.
fn once<T: PartialEq>(some: Vec<T>) -> Vec<T> {
    let mut once = Vec::new();
    for value in some {
        if !once.contains(&value) {
            once.push(value);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command, Special};
    use clap::Parser;

    fn planned(options: &str) -> Result<Vec<WorkersRun>, Failure> {
        let line = format!("noonmark bench workers {options}");
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Some(Command::Bench(args)) => match args.special {
                Some(Special::Workers(args)) => runs(&args),
                _ => panic!("not workers"),
            },
            _ => panic!("not a bench"),
        }
    }

    #[test]
    fn contests_stay_together_and_the_engine_comes_first() {
        let runs = planned("--workers 2,1,2 --clients 1,16 --across 0,100 --at workers,threads").unwrap();
        let told: Vec<(String, String)> = runs.iter().map(|run| (run.contest(), run.who())).collect();
        let all = ["engine", "1 client at a worker", "16 clients at the workers", "1 client", "16 clients"];
        let contest = |words: &str| all.map(|who| (words.to_owned(), who.to_owned()));
        let contests = [
            contest("workers, sundial, 0 % across two, 2 workers"),
            contest("workers, sundial, 0 % across two, 1 worker"),
            contest("workers, sundial, 100 % across two, 2 workers"),
        ];
        assert_eq!(told, contests.concat());
        // One worker has its contest whatever share is asked for, and one client one thread.
        let one = planned("--workers 1 --across 50,20 --clients 1 --client-threads 8 --at threads").unwrap();
        assert_eq!(one.len(), 2);
        assert_eq!((one[1].across_percent, one[1].clients), (0, Some(Clients { count: 1, threads: 1 })));
        assert_eq!(planned("--workers 1 --clients 1 --protocol all").unwrap().len(), 3 * Protocol::ALL.len());
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_loaded() {
        for (options, word) in
            [("--protocol none", "none"), ("--rows 100 --workers 2 --accesses 26", "--rows")]
        {
            match planned(options) {
                Err(Failure::Usage(why)) => {
                    assert!(why.contains(word) && !why.contains('\n'), "{options}: {why}")
                }
                other => panic!("{options}: {other:?}"),
            }
        }
    }

    #[test]
    fn cluster_and_engine_do_the_same_and_the_sum_says_so() {
        for options in ["--access together", "--access one-by-one --client-threads 2"] {
            let line = format!("--workers 2 --clients 3 --across 50 --rows 64 --seconds 0.05 {options}");
            for spec in planned(&line).unwrap() {
                let mut told = 0;
                let report = run::run(&spec, &mut |_| told += 1).unwrap();
                assert_eq!(report.consistent, Some(true), "{:?}", report.consistency);
                assert!(report.committed > 0 && told > 0, "{report:?}");
                assert_eq!((report.protocol.as_str(), report.threads), (spec.who().as_str(), 2));
                assert_eq!(report.requests.is_some(), spec.clients.is_some());
                let aborted: u64 = report.aborts.values().sum();
                assert!((report.retries_per_commit - aborted as f64 / report.committed as f64).abs() < 1e-9);
            }
        }
    }
}
