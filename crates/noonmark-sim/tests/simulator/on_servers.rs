//! What tests of reproductions across servers have in common.

use crate::helpers::{named, reproduced};
use noonmark_sim::repro::Size;
use noonmark_workloads::report::{Reproduction, RunReport, Verdict};

/// A protocol, on so many servers: commits, and attempts that failed.
pub type OnServers = (&'static str, u16, u64, u64);

/// All runs of an experiment at few points, and what is found of its claims.
pub fn experiment(name: &str, size: Size) -> (Vec<OnServers>, Vec<Verdict>) {
    let done = reproduced(name, size);
    (on_servers(&done), done.findings.iter().map(|finding| finding.verdict).collect())
}

/// All runs of an experiment.
pub fn on_servers(done: &Reproduction) -> Vec<OnServers> {
    let servers = |run: &RunReport| run.parameters["servers"].parse().unwrap();
    let rules = named(&done.name).protocols;
    let protocol = |run: &RunReport| rules.iter().find(|rules| rules.name() == run.protocol);
    let figures =
        |run: &RunReport| (protocol(run).unwrap().name(), servers(run), run.committed, run.aborted());
    done.runs.iter().map(figures).collect()
}
