//! The options of `noonmark bench stm`.

use crate::args::seconds;
use clap::Args;
use noonmark_workloads::stm::THREADS_MAX;
use std::path::PathBuf;

/// `noonmark bench stm`
#[derive(Debug, Args)]
#[command(after_help = HELP, allow_negative_numbers = true)]
pub struct Stm {
    /// The experiment: disjoint, ravl-alloc, k-sweep, hash, trees, maps or sixteen-reads; or, for the checker, append or register; see
    /// below
    #[arg(long, value_name = "NAME", default_value = "ravl-alloc")]
    pub preset: String,

    /// Concurrency controls, apart by commas: dctl, dcotl, dctl-sf, dcotl-sf, tl2-gv4, tl2-gv5, tinystm (which is orec, too), 2plsf,
    /// tictoc; plain, which has none and takes one thread; dctl-sf-k1, -k10, -k100 and dcotl-sf-k1, -k10, -k100; those
    /// of others, see below; or all [default: the preset's]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub control: Vec<String>,

    /// Structures, apart by commas: ravl, zip, skip, rb, hash, hash-growing; records or fixed for disjoint; variables or fixed for
    /// sixteen-reads [default: the preset's]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub structure: Vec<String>,

    /// Per cent of operations that change something; a run for each [default: the preset's]
    #[arg(long, value_name = "P,Q", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(..=100))]
    pub updates: Vec<u8>,

    /// Keys to choose from, half of which are there at the beginning; or records, or variables
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub keys: u64,

    /// Worker threads; a run for each count [default: 1 and all cores]
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX as i64))]
    pub threads: Vec<u16>,

    /// Seconds measured in each run, fractions allowed, without loading and warm-up [default: 1]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,

    /// Transactions in each run, all threads together; without --seconds a run ends only after them, and is not warmed up, so that what is
    /// counted is exact
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: Option<u64>,

    /// Let each operation of a thread begin when the one before has ended: what one costs by itself. Otherwise they overlap, as far as the
    /// processor can, which it can do best with what has no synchronization
    #[arg(long)]
    pub serial: bool,

    /// Seed of all random choices
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub seed: u64,

    /// Write the history of a single run here, aborted attempts included, one JSON object a line: of append or register, for
    /// noonmark check --opaque
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,

    /// Write the results here as a JSON array, one object a run
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a page of plots here that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

const HELP: &str = "\
Presets, with the figures of the paper (Scaling Up Transactions with Slower Clocks, PPoPP 2024):
  disjoint       Figure 6: one word of one of a million records; how often the clock is advanced
  ravl-alloc     Figure 7: insertions and removals in a relaxed AVL tree
  k-sweep        Figure 8: irrevocable after 1, 10 or 100 failed attempts
  hash           Figure 9: a hash map with a bucket for each key; 100, 10 and 0 % updates
  trees          Figures 10 to 12: ravl, zip, skip and rb; 100, 10 and 0 % updates
  maps           Figure 13: ravl, and hash, beside the same without synchronization and the maps of others
  sixteen-reads  transactions that read sixteen variables, beside the crates stm and fast-stm
  append         lists in variables, or a fixed table; all attempts are recorded, and checked to be opaque
  register       the same of registers; --transactions, 100000 unless told otherwise, and not --seconds

Of others, by default in maps and sixteen-reads, elsewhere by --control:
  mutex, rwlock                     a lock round a map of the standard library, or round records or variables
  crossbeam-skiplist, scc, congee   ordered maps
  scc, scc-index, dashmap, papaya   hash maps
  stm, fast-stm                     transactional memories, for sixteen-reads

Examples:
  noonmark bench stm --preset maps --threads 1
      what transactions cost: the column × plain; by themselves, not overlapping with the next one: add --serial
  noonmark bench stm --preset trees --structure rb --updates 100 --control dctl,tl2-gv4,tinystm --threads 2
  noonmark bench stm --preset disjoint --structure records --transactions 1000000 --threads 1
      exact counts of the clock
  noonmark bench stm --preset append --structure variables --control dctl --threads 4 --history h.jsonl
      then: noonmark check h.jsonl --opaque

Each operation is a transaction. An update inserts a random key, if it is not there, or removes one, if it is, in
turn. After each run the structure's invariants are checked, and its size and sums against what was done; if
something is wrong, the exit status is 1. (With several threads and few keys crossbeam-skiplist 0.1.3 miscounts at
times, and that is told, too.)";
