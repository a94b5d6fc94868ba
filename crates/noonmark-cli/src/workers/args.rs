//! The options of `noonmark bench workers`.

use crate::args::seconds;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `noonmark bench workers`
#[derive(Debug, Args)]
#[command(after_help = HELP, allow_negative_numbers = true)]
pub struct Workers {
    /// Protocols of the table, apart by commas, or all
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "sundial")]
    pub protocol: Vec<String>,

    /// Workers, each a thread with its part of the rows; a run for each number [default: 1 and all cores]
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Vec<u16>,

    /// Clients in all, each of which has one transaction at a time; a run for each number
    #[arg(long, value_name = "N,M", value_delimiter = ',', default_value = "1,16", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub clients: Vec<u16>,

    /// Where they run; a run for each
    #[arg(long, value_enum, value_name = "WHERE", value_delimiter = ',', default_value = "threads,workers")]
    pub at: Vec<At>,

    /// Threads that clients on threads share, beside those of the workers; no more than there are clients are used
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub client_threads: u16,

    /// Per cent of the transactions that change rows of two workers, one half of each; a run for each. With one worker there are none.
    /// One of the two is the worker that the client runs at, if it does
    #[arg(long, value_name = "P,Q", value_delimiter = ',', default_value = "0,100", value_parser = clap::value_parser!(u8).range(..=100))]
    pub across: Vec<u8>,

    /// Rows that a transaction reads, changes and writes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub accesses: u16,

    /// How it asks for them
    #[arg(long, value_enum, default_value_t = Access::Together)]
    pub access: Access,

    /// Rows in all
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(2..=100_000_000))]
    pub rows: u64,

    /// Seconds measured in each run, fractions allowed, without loading and warm-up
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub seconds: f64,

    /// Seed of all random choices
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub seed: u64,

    /// Write the results here as a JSON array, one object a run
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a page of plots here that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Where clients run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum At {
    /// On threads of their own
    Threads,
    /// As tasks on the workers' threads, evenly: a core for each worker does it all
    Workers,
}

/// How a transaction asks for its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Access {
    /// For all of them at once, with one message to each worker
    Together,
    /// With a message for each
    OneByOne,
}

const HELP: &str = "\
Examples:
  noonmark bench workers --workers 1,2 --clients 1,16,64
  noonmark bench workers --at workers --clients 64 --across 0,10,100
  noonmark bench workers --protocol tictoc,two-phase-wait-die --across 10 --client-threads 2 --html workers.html

A cluster in this process: tables are spread over workers that share nothing, and a transaction is messages between its client and the
workers. Beside it, as the baseline, the engine: the same transactions on one database without messages, by as many threads
as there are workers. × engine is thus what is left of its throughput. Clients at the workers need no other threads, so that is core for core; those
on threads of their own do, and their figures say most where the machine has a core for each.

Rows are drawn evenly. In the end their sum must be that of all changes which have committed, or the exit status is 1.";
