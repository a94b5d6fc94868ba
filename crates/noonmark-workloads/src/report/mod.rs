//! What a run leaves behind, and how it is shown.
//!
//! The driver fills one [`RunReport`] a run and, while the run goes on, tells a listener how it is
//! getting along with [`Progress`]. Everything a person or a script sees afterwards is made from run
//! reports alone.
//!
//! | file | what it is for |
//! |---|---|
//! | `compare.rs` | which runs may be compared at all, who won, and by how much |
//! | `json.rs` | the JSON array, one object a run |
//! | `table.rs` | the table on the terminal |
//! | `plots.rs` | one plot, as inline SVG |
//! | `page.rs` | the HTML page: plots, the full table, the JSON |
//! | `reproduction/` | experiments of papers: what the paper says beside what came out, as text and as a page |
//! | `number.rs` | figures as people read them |
//!
//! The field names of [`RunReport`] are the names in the JSON file: scripts read them, so renaming a field
//! is a breaking change. Units stand at the end of names.
//!
//! What this module does not do: it measures nothing, and it judges nothing. Whether a run was consistent
//! is found out by the workload, and comes in as a value.

mod advice;
mod compare;
mod json;
mod number;
mod page;
mod plots;
mod reproduction;
mod table;

pub use advice::{Advice, AdvisedOutcome, AdvisedTable, AdvisedTrial, Otherwise, advice_json, advice_text};
pub(crate) use compare::OWN_LINES;
pub use compare::{Contest, ENGINE, Section, sections};
pub use json::to_json;
pub use number::{count, latency, rate, share, times};
pub use page::{PageHead, page};
pub use reproduction::{
    Change, Failures, Finding, GIVEN_UP, Reproduction, Verdict, reproductions_json, reproductions_page,
    reproductions_text,
};
pub use table::table;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The result of one run: one object of the JSON array.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The workload: `ycsb`, `tpcc`, `bank`, `counter`, `queue`, `append`, `stm`, `workers`, ...
    pub workload: String,
    /// The workload's preset: `granularity`, `sundial`, `a` to `f`, `full`, ...
    pub preset: String,
    /// The protocol as `Protocol` displays it, or `mutex` for the baseline; of `stm` the control; of `workers` who runs them, as `16 clients`, or `engine`.
    pub protocol: String,
    /// `coarse` (a timestamp per row) or `fine` (one per column group).
    pub groups: String,
    /// `hash`, `ordered`, or `hash and ordered` where tables of both kinds take part.
    pub index: String,
    /// `plain` (read, then write) or `commit-time`.
    pub updates: String,
    /// `one-by-one` or `multi-get`.
    pub access: String,
    /// Worker threads.
    pub threads: usize,
    /// Seconds measured, without the warm-up.
    pub seconds: f64,
    /// Transactions committed in those seconds.
    pub committed: u64,
    /// `committed` over `seconds`.
    pub committed_per_s: f64,
    /// Transactions that the workload itself rolled back.
    pub user_rollbacks: u64,
    /// Attempts that ended in a conflict: the rule that failed, and how often it did.
    pub aborts: BTreeMap<String, u64>,
    /// All conflicts over `committed`.
    pub retries_per_commit: f64,
    /// Time from a transaction's first attempt to its commit, in microseconds.
    pub latency_us: Latency,
    /// The most attempts that one transaction needed.
    pub attempts_max: u64,
    /// How often the clock of the concurrency control was advanced, where it has one and counts that.
    pub clock_increments: Option<u64>,
    /// Transactions that were made irrevocable because they kept failing, where the concurrency control knows that.
    pub irrevocable: Option<u64>,
    /// Messages to workers, where a cluster in this process was run. There are as many answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Whether the workload's consistency conditions held after the run; none where nothing can be checked.
    pub consistent: Option<bool>,
    /// The consistency conditions in words, one each, failed ones first.
    pub consistency: Vec<String>,
    /// Heap allocations for each commit, where they were counted.
    pub allocations_per_commit: Option<f64>,
    /// Heap bytes for each commit, where they were counted.
    pub bytes_per_commit: Option<f64>,
    /// What else defines the run: `theta`, `rows`, `warehouses`, `seed`, ...
    pub parameters: BTreeMap<String, String>,
    /// The hottest keys, in words, hottest first.
    pub hottest: Vec<String>,
    /// What became of the cache lines in the time that was measured, where cores are virtual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Lines>,
    /// What passed between servers in the time that was measured, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// What a commit took, phase by phase, where there are several servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Phases>,
}

/// What a commit took, phase by phase [Sundial §6.3]: means over all commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Microseconds. With those of pauses they are the mean latency.
    pub time_us: ByPhase,
    /// Microseconds of pauses between attempts.
    pub paused_us: f64,
    /// Bytes between servers, of attempts that ended in the time that was measured.
    pub bytes: ByPhase,
}

/// A figure for each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByPhase {
    /// Operations of the attempt that committed.
    pub execution: f64,
    /// Its sealing and validating; where one server decided alone, installing, too.
    pub prepare: f64,
    /// Telling that it has committed.
    pub commit: f64,
    /// Attempts that failed before it.
    pub failed: f64,
}

impl ByPhase {
    /// All phases together.
    pub fn total(&self) -> f64 {
        self.execution + self.prepare + self.commit + self.failed
    }

    /// Each, in the order in which they are shown.
    pub(crate) fn each(&self) -> [f64; 4] {
        [self.execution, self.prepare, self.commit, self.failed]
    }
}

impl Phases {
    /// Microseconds from a transaction's first attempt to its commit, on the average.
    pub fn latency_us(&self) -> f64 {
        self.time_us.total() + self.paused_us
    }
}

/// What passed between servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Messages from one server to another.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What became of the cache lines of virtual cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lines {
    /// Accesses to what was in the core's own cache.
    pub hits: u64,
    /// Lines that came from within the socket.
    pub near: u64,
    /// Lines that came from another socket.
    pub far: u64,
    /// Lines that came from memory.
    pub memory: u64,
    /// Microseconds that cores stood in line for a line, all together.
    pub queued_us: f64,
}

impl RunReport {
    /// All attempts that ended in a conflict, whatever the rule.
    pub fn aborted(&self) -> u64 {
        self.aborts.values().sum()
    }

    /// So many in the time that was measured are so many a second.
    pub fn per_s(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// The share of attempts that ended in a conflict: 0 when nothing was attempted.
    pub fn abort_share(&self) -> f64 {
        let attempts = self.committed.saturating_add(self.aborted());
        if attempts == 0 { 0.0 } else { self.aborted() as f64 / attempts as f64 }
    }
}

/// Latency of transactions in microseconds, all attempts included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the transactions were at least as fast.
    pub p50: f64,
    /// 99 of 100 were.
    pub p99: f64,
    /// 999 of 1000 were.
    pub p999: f64,
    /// The slowest one.
    pub max: f64,
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Filling the tables.
    Loading {
        /// Rows written so far.
        done: u64,
        /// Rows to write in all.
        total: u64,
    },
    /// Running, not yet measured.
    WarmUp,
    /// Running and measured.
    Running,
}

/// How a run is getting along: sent 5 to 10 times a second from the coordinating thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Seconds since the phase began.
    pub elapsed_s: f64,
    /// Seconds that the phase will take; 0 while loading, when nobody knows.
    pub total_s: f64,
    /// Transactions committed since the measurement began.
    pub committed: u64,
    /// Attempts that ended in a conflict since the measurement began.
    pub aborted: u64,
    /// Commits a second since the last report.
    pub recent_per_s: f64,
}
