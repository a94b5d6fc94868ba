//! What a commit of a cluster takes, phase by phase, as claims compare it.
//!
//! Phases are told apart in [`noonmark_cluster::phases`].
//!
//! What it does not do: know any figure of a paper.

use noonmark_workloads::report::{ByPhase, RunReport, latency};

/// A part of what a commit takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Operations.
    Execution,
    /// Sealing and validating.
    Prepare,
    /// Telling that it has committed.
    Commit,
    /// Attempts that failed before it.
    Failed,
    /// All of these.
    Working,
    /// These, and pauses between attempts.
    All,
}

/// What a commit takes, on the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Time.
    Time(Part),
    /// Bytes between servers.
    Bytes(Part),
    /// Messages between servers.
    Messages,
    /// Of a hundred transactions the slowest: time. (Of several runs, on the average.)
    Tail,
}

impl Cost {
    /// That of a run; none if nothing of it was counted.
    pub(super) fn of(self, run: &RunReport) -> Option<f64> {
        let part = |by_phase: ByPhase, part| match part {
            Part::Execution => by_phase.execution,
            Part::Prepare => by_phase.prepare,
            Part::Commit => by_phase.commit,
            Part::Failed => by_phase.failed,
            Part::Working | Part::All => by_phase.total(),
        };
        match self {
            Cost::Time(Part::All) => Some(run.phases?.latency_us()),
            Cost::Time(of) => Some(part(run.phases?.time_us, of)),
            Cost::Bytes(of) => Some(part(run.phases?.bytes, of)),
            Cost::Messages => Some(run.traffic?.messages as f64 / run.committed.max(1) as f64),
            Cost::Tail => Some(run.latency_us.p99),
        }
    }

    /// In words.
    pub(super) fn show(self) -> fn(f64) -> String {
        match self {
            Cost::Time(_) | Cost::Tail => latency,
            Cost::Bytes(_) => |count| format!("{count:.0} bytes"),
            Cost::Messages => |count| format!("{count:.2} messages"),
        }
    }
}
