//! The command line, and how it complains.
//!
//! Every option stands here with its unit and its default; what the options mean together is `plan.rs`'s
//! business. Complaints are one line: clap's own, which take several, are folded into one.

use crate::stm::Stm;
use crate::workers::Workers;
use clap::{Args, Parser, Subcommand, ValueEnum};
use noonmark_sim::repro::Size;
use noonmark_sim::turns::Turns;
use noonmark_workloads::driver::THREADS_MAX;
use std::path::PathBuf;

/// Transactions on hot rows: measure concurrency-control protocols, and check histories.
#[derive(Debug, Parser)]
#[command(name = "noonmark", version, about, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  noonmark                            the tour: two minutes, a live display, a table, a page of plots
  noonmark bench ycsb --threads 1,2   YCSB with every protocol
  noonmark bench tpcc --protocol occ,tictoc --groups both --html tpcc.html
  noonmark bench stm --preset maps    transactional maps beside maps without transactions, and beside those of others
  noonmark bench workers              a cluster of workers that share nothing, beside the engine
  noonmark repro granularity-fig3a    a paper's experiment on up to 128 virtual cores, beside what the paper says
  noonmark check history.jsonl        is this history serializable?
  noonmark fuzz --seeds 0..10000      does any of these schedules break a protocol?
  noonmark advise tpcc                which protocol and which column groups for each of its tables?

Exit status: 0 done; 1 a run or a check failed, or its result is wrong; 2 the command line is wrong;
3 a history could not be judged.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a workload under several protocols and compare them; without a workload, the tour
    Bench(Box<Bench>),
    /// Say whether a history is serializable, and show why not
    Check(Check),
    /// Run experiments of papers on virtual cores, and show what the papers say beside what comes out
    Repro(Repro),
    /// Run small workloads on virtual cores under many schedules, and check their histories
    Fuzz(Fuzz),
    /// Do a recorded run again under every protocol on virtual cores, and say what to choose for each table
    Advise(Advise),
}

/// The workloads that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// YCSB: points reads and updates, transactions of several of them, or the classic A to F
    Ycsb,
    /// TPC-C: orders and payments
    Tpcc,
    /// Transfers between accounts; the total must stay
    Bank,
    /// Increments of hot counters; no increment may be lost
    Counter,
    /// Put into and take from a queue; each item comes out once
    Queue,
    /// Lists to append to and read, for histories to check
    Append,
    /// Registers to write and read, for histories to check
    Register,
    /// Ranges to scan, insert into and delete from, for histories to check
    Scan,
}

impl Workload {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Ycsb => "ycsb",
            Workload::Tpcc => "tpcc",
            Workload::Bank => "bank",
            Workload::Counter => "counter",
            Workload::Queue => "queue",
            Workload::Append => "append",
            Workload::Register => "register",
            Workload::Scan => "scan",
        }
    }
}

/// Who is asked to prepare, and when a commit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TwoPhaseCommit {
    /// Every server where something is locked is asked to prepare, and a commit ends when all have been told
    AsPrinted,
    /// Those are asked that could object, and nobody waits once it is decided
    Ours,
}

/// What a timestamp covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Groups {
    /// One timestamp per row
    Coarse,
    /// A timestamp per column group
    Fine,
    /// One timestamp per row, which splits itself where conflicts ask for it
    Splitting,
    /// Coarse and fine, each in a run of its own
    Both,
}

impl Groups {
    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Groups::Coarse => "coarse",
            Groups::Fine | Groups::Both => "fine",
            Groups::Splitting => "splitting",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Index {
    /// Points only
    Hash,
    /// Points and ranges
    Ordered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Updates {
    /// Read, then write
    Plain,
    /// Changed when the write is installed, without a read
    CommitTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Access {
    /// Each key by itself
    OneByOne,
    /// Keys known together, prefetched together
    MultiGet,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RowHint {
    /// As a program that knows its tables would
    #[default]
    Yes,
    /// They grow from nothing
    No,
}

/// What is run by options of its own.
#[derive(Debug, Subcommand)]
pub enum Special {
    /// Transactional memory: the experiments of its paper, and maps of others beside its own
    Stm(Stm),
    /// A cluster of share-nothing workers, beside the same transactions on one engine
    Workers(Workers),
}

/// `noonmark bench`
#[derive(Debug, Default, Args)]
#[command(after_help = BENCH_HELP, allow_negative_numbers = true, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Bench {
    #[command(subcommand)]
    pub special: Option<Special>,

    /// What to run; without it the tour: YCSB, TPC-C and a hot counter, at most two minutes in all
    #[arg(value_enum)]
    pub workload: Option<Workload>,

    /// The workload's preset, e.g. granularity, sundial or a to f for ycsb [default: the workload's own]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,

    /// Protocols, apart by commas, or all; mutex is the baseline of a lock round each table; A+B is one
    /// database whose tables take A and B in turn, and mixed is one with all of the engine's [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub protocol: Vec<String>,

    /// What a timestamp or lock covers: the row, or a column group [default: fine]
    #[arg(long, value_enum)]
    pub groups: Option<Groups>,

    /// Index of the tables [default: hash for workloads of points, ordered for those with scans]
    #[arg(long, value_enum)]
    pub index: Option<Index>,

    /// How hot counters are changed [default: plain]
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    pub updates: Vec<Updates>,

    /// How keys that are known together are reached [default: one-by-one]
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    pub access: Vec<Access>,

    /// Whether tables are told how many rows to expect, so that room for them is there from the start
    #[arg(long, value_enum, value_name = "YES|NO", default_value_t = RowHint::Yes)]
    pub row_hint: RowHint,

    /// Worker threads; a run for each count [default: all cores]
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX as i64))]
    pub threads: Vec<u16>,

    /// Seconds measured in each run, fractions allowed, without loading and warm-up [default: 2]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,

    /// Transactions in each run, all threads together; without --seconds a run ends only after them; a recorded
    /// run ends after 100000 (queue: 10000) unless told otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: Option<u64>,

    /// Seed of all random choices that the workload makes
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub seed: u64,

    /// Rows to load; wins over recordcount in a file of properties [default: the workload's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: Option<u64>,

    /// Skew of the Zipfian choice of keys, 0 (even) up to below 1; a run for each [default: the preset's]
    #[arg(long, value_name = "T,U", value_delimiter = ',', value_parser = theta)]
    pub theta: Vec<f64>,

    /// Warehouses of TPC-C; a run for each count [default: 1]
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    pub warehouses: Vec<u16>,

    /// A property of the workload under YCSB's names, e.g. -p readproportion=0.95; may be repeated. The papers'
    /// presets of several operations take -p insertorder=hashed: keys spread over all numbers, not counted from 0
    #[arg(short = 'p', value_name = "KEY=VALUE", value_parser = property)]
    pub property: Vec<(String, String)>,

    /// A file of such properties, one a line, # for comments; -p wins over it
    #[arg(short = 'P', value_name = "FILE")]
    pub properties: Option<PathBuf>,

    /// Count heap allocations per commit; costs a little speed
    #[arg(long)]
    pub allocations: bool,

    /// Record a single run, check its history, and write it here, one JSON object a line, as Elle reads them;
    /// a recorded run is slower, and its timings are not to be compared with those of others
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,

    /// Write the results here as a JSON array, one object a run
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a page of plots here that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Tour only: do not write noonmark-bench.html and noonmark-bench.json
    #[arg(long)]
    pub no_page: bool,
}

const BENCH_HELP: &str = "\
Examples:
  noonmark bench
      the tour; writes noonmark-bench.html and noonmark-bench.json into the current directory
  noonmark bench ycsb --theta 0.5,0.7,0.9,0.99 --threads 1,2 --groups both --html ycsb.html
      contention from mild to fierce
  noonmark bench ycsb --preset a --rows 1000000 -p readproportion=0.9 -p updateproportion=0.1
  noonmark bench counter --updates plain,commit-time
      what commit-time updates do for a hot counter
  noonmark bench append --protocol tictoc --seconds 1 --history h.jsonl && noonmark check h.jsonl
  noonmark bench stm --help
      the transactional memory has options of its own
  noonmark bench tpcc --protocol occ+tictoc --threads 4 --history h.jsonl
      one database with tables of two protocols; what its history's keys are is written to h.jsonl.keys

Load is closed loop: every thread runs one transaction after the other. After each run the workload's
consistency conditions are checked; if one fails, the exit status is 1.
Progress goes to standard error, the table to standard output. NO_COLOR is respected.";

/// `noonmark check`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  noonmark check history.jsonl            is there a serial order?
  noonmark check history.jsonl --session  one that keeps the order of each process?
  noonmark check history.jsonl --strict   one that keeps real time?
  noonmark check history.jsonl --opaque   and did aborted attempts (type fail), too, see what there was at one moment?

The file holds one JSON object a line, as Jepsen's Elle reads them: index, type, process, time, f, value.")]
pub struct Check {
    /// The history
    pub file: PathBuf,

    /// Also demand that each process sees its own earlier transactions
    #[arg(long)]
    pub session: bool,

    /// Also demand that a transaction which began after another had ended comes after it
    #[arg(long)]
    pub strict: bool,

    /// Also demand this, and that what each aborted attempt has read (type fail, with its reads filled in) was there at one moment of its time
    #[arg(long)]
    pub opaque: bool,
}

/// `noonmark repro`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  noonmark repro --list
  noonmark repro granularity-fig3a granularity-fig3b --html tpcc.html
  noonmark repro dynamic-fig3 --quick                   aborts over contention: fixed timestamps beside dynamic ones
  noonmark repro sundial-fig10 --message-us 0.2,2,10 --workers 4,28     does what it says hang on what messages take, or on how many are at work?
  noonmark repro --all --quick                          smaller tables, a virtual millisecond: a look, not the paper's sizes
  noonmark repro --all --cores 1,8,64,128 --seed 2 --json repro.json --html repro.html

The engine's own transactions run on a simulated machine of 8 sockets of 24 cores, in virtual time. A seed gives the same figures, to the
byte, on every machine. Nothing is tuned to agree with a paper: what does not come out is said, with the reason as far as it is
known, and does not count as a failure. Runs beside each other take one to four gigabytes each at full size.
Progress goes to standard error, results to standard output.")]
pub struct Repro {
    /// Which experiments, by name
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    /// Show what there is
    #[arg(long, conflicts_with_all = ["names", "all"])]
    pub list: bool,

    /// All of them
    #[arg(long, conflicts_with = "names")]
    pub all: bool,

    /// Virtual cores, where their number is what varies; a run for each number [default: the paper's; with --quick some of them]
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=192))]
    pub cores: Vec<u16>,

    /// Workers of each server of a cluster: a run for each number, where it is what varies; where something else does, all of the experiment for
    /// each [default: the paper's]
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=128))]
    pub workers: Vec<u16>,

    /// What a message takes of a thread at either end, in microseconds: all of each experiment on a cluster for each of these [default: the
    /// experiment's own]
    #[arg(long, value_name = "T,U", value_delimiter = ',', value_parser = message_us)]
    pub message_us: Vec<f64>,

    /// Rows of each server of a cluster under YCSB, a kilobyte each: all of each experiment for each of these [default: the paper's
    /// 10000000, or fewer where there are up to 256 servers]
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(100..=100_000_000))]
    pub rows: Vec<u32>,

    /// Two-phase commit across servers in all of these experiments [default: the experiment's own: as printed, but where it goes past the papers]
    #[arg(long, value_name = "WHICH")]
    pub two_phase_commit: Option<TwoPhaseCommit>,

    /// Seed of all random choices: keys, schedules, ties
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub seed: u64,

    /// With so many seeds, from --seed on: plots and figures are of the first, and beside each statement of a paper stands what it comes to with
    /// the others
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub seeds: u16,

    /// Fewer runs, smaller tables and less virtual time: more contention than in the paper
    #[arg(long)]
    pub quick: bool,

    /// Do not change the choices that a paper leaves open, one at a time
    #[arg(long)]
    pub no_ablation: bool,

    /// Write the results here as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a page here that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Repro {
    /// How large runs are.
    pub fn size(&self) -> Size {
        if self.quick { Size::QUICK } else { Size::FULL }
    }
}

/// `noonmark advise`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  noonmark advise tpcc                                  which protocol, which column groups for each of its tables?
  noonmark advise ycsb --theta 0.99 --cores 128
  noonmark bench tpcc --protocol occ --warehouses 4 --threads 4 --transactions 20000 --history h.jsonl
  noonmark advise h.jsonl                               of four warehouses: each thread of a recording is at home in one
  noonmark advise history.jsonl --protocol occ,tictoc --json advice.json

A workload is recorded first, on one thread. Every committed transaction of the history is then done again on virtual cores, in
the recorded order, by whichever core is free: with each protocol, each grouping of columns, and then table by table. What
a history's keys are is read from the file beside it that has .keys added; without one all keys are rows of one table. A schedule
depends on its seed, so what is close is run with three. Rows that no transaction touched are not there, so leaves of
ordered indexes are fuller of hot rows than they were.")]
pub struct Advise {
    /// A workload (ycsb, tpcc, bank, counter, queue, append, register, scan), or a file with a history
    #[arg(value_name = "WORKLOAD|HISTORY")]
    pub what: std::ffi::OsString,

    /// The workload's preset [default: the workload's own]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,

    /// Transactions of the workload to record [default: 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: Option<u64>,

    /// Rows of the workload [default: the workload's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: Option<u64>,

    /// Skew of the workload's choice of keys, 0 (even) up to below 1 [default: the preset's]
    #[arg(long, value_name = "T", value_parser = theta)]
    pub theta: Option<f64>,

    /// Protocols to choose among, the one to prefer where they are level first [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub protocol: Vec<String>,

    /// Virtual cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=192), default_value_t = 32)]
    pub cores: u16,

    /// Seed of the workload, and the first of those of the schedules
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub seed: u64,

    /// Write the results here as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  noonmark fuzz                                         a thousand schedules of all protocols and mixes of them
  noonmark fuzz --protocol tictoc,occ --seeds 0..50000
  noonmark fuzz --seeds 4711..4712                      one of them again
  noonmark fuzz --seeds 7..8 --size 2,2 --turns 0:30,1:20   smaller, in a schedule of your own, told turn by turn
  noonmark fuzz --cluster --protocol sundial            on clusters, whose network loses messages

A seed decides everything: tables, protocols, transactions, and which of the workers goes on at each step. The workers are coroutines
on one thread, so a seed gives the same run on every machine. A broken case is made as small, and its schedule as short, as it still fails;
what is printed is what happens in each turn, the checker's report, and the command that does just that again.

Everything that is promised of clusters, checked on 100000 transactions of each protocol (some minutes each):
noonmark fuzz --cluster --transactions 100000")]
pub struct Fuzz {
    /// Protocols, commas between; tables take one of them, or several are mixed [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub protocol: Vec<String>,

    /// Which seeds, the last one not included
    #[arg(long, value_name = "A..B", value_parser = seeds, default_value = "0..1000")]
    pub seeds: std::ops::Range<u64>,

    /// On clusters of one to four servers, over a network that loses, doubles and holds up messages and is cut in two
    #[arg(long)]
    pub cluster: bool,

    /// Each protocol by itself, and then all of them mixed: as many seeds, from the first of --seeds on, as it takes until so many transactions
    /// have committed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: Option<u64>,

    /// The one seed with so many workers, or clients, and so many transactions of each of them, instead of what is drawn
    #[arg(long, value_name = "WORKERS,TRANSACTIONS", value_parser = size)]
    pub size: Option<(usize, usize)>,

    /// The one seed by this schedule: who goes on, and for how many steps; then each in turn until it ends or waits. Each turn is told, also where nothing is broken
    #[arg(long, value_name = "WORKER:STEPS,..", conflicts_with = "cluster")]
    pub turns: Option<Turns>,
}

fn size(text: &str) -> Result<(usize, usize), String> {
    let parts =
        text.split_once(',').and_then(|(workers, each)| Some((workers.parse().ok()?, each.parse().ok()?)));
    match parts {
        Some((workers @ 1..=64, transactions @ 1..=10_000)) => Ok((workers, transactions)),
        _ => Err("must be 1 to 64 workers and 1 to 10000 transactions, as in 3,2".into()),
    }
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let parts = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match parts {
        Some((from, to)) if from < to => Ok(from..to),
        _ => Err("must be two whole numbers, the smaller first, as in 0..1000".into()),
    }
}

pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= 86_400.0 => Ok(s),
        _ => Err("must be a number of seconds above 0, at most 86400".into()),
    }
}

fn theta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(theta) if (0.0..1.0).contains(&theta) => Ok(theta),
        _ => Err("must be a number from 0 up to, not including, 1".into()),
    }
}

fn message_us(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(us) if (0.0..=1_000.0).contains(&us) => Ok(us),
        _ => Err("must be a number of microseconds from 0 to 1000".into()),
    }
}

fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().into(), value.trim().into())),
        _ => Err("must look like key=value".into()),
    }
}

/// Clap's complaint in one line, without its label and its usage.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut words: Vec<&str> = Vec::new();
    for line in text.lines() {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        words.extend(line.split_whitespace());
    }
    let line = words.join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    match line.strip_suffix(']') {
        // Clap does not know that a command stands where a workload could.
        Some(line) if line.contains("'[WORKLOAD]'") => {
            format!("{line}; or stm, before all options] (see --help)")
        }
        _ => format!("{line} (see --help)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn complaints_take_one_line_and_name_the_culprit() {
        for (args, culprit) in [
            (vec!["bench", "ycsb", "--groups", "medium"], "medium"),
            (vec!["bench", "nonsense"], "nonsense"),
            (vec!["bench", "nonsense"], "or stm"),
            (vec!["bench", "workers", "--workers", "0"], "1..=256"),
            (vec!["bench", "workers", "--access", "never"], "never"),
            (vec!["bench", "--threads", "0"], "1..=1000"),
            (vec!["bench", "--seconds", "-1"], "above 0"),
            (vec!["bench", "stm", "--threads", "121"], "1..=120"),
            (vec!["bench", "--threads", "-1"], "1..=1000"),
            (vec!["bench", "--theta", "1.5"], "1.5"),
            (vec!["bench", "-p", "novalue"], "novalue"),
            (vec!["bench", "--frobnicate"], "--frobnicate"),
            (vec!["bench", "stm", "--threads", "none"], "none"),
            (vec!["bench", "stm", "--protocol", "occ"], "--protocol"),
            (vec!["bench", "--theta", "0.5", "stm"], "stm"),
            (vec!["check"], "<FILE>"),
            (vec!["repro", "--cores", "193"], "1..=192"),
            (vec!["repro", "--workers", "0"], "1..=128"),
            (vec!["repro", "--message-us", "-1"], "-1"),
            (vec!["repro", "--message-us", "NaN"], "from 0 to 1000"),
            (vec!["repro", "--all", "granularity-fig2a"], "--all"),
            (vec!["advise"], "WORKLOAD|HISTORY"),
            (vec!["advise", "tpcc", "--cores", "193"], "1..=192"),
            (vec!["fuzz", "--seeds", "7"], "0..1000"),
            (vec!["fuzz", "--seeds", "9..7"], "9..7"),
        ] {
            let error = Cli::try_parse_from([vec!["noonmark"], args].concat()).unwrap_err();
            let line = one_line(&error);
            assert!(line.contains(culprit) && !line.contains('\n'), "{line}");
            assert!(!line.starts_with("error"), "{line}");
        }
    }
}
