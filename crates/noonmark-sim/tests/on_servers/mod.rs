//! What tests of reproductions across servers have in common.

use crate::helpers::{named, reproduced};
use noonmark_sim::repro::Size;
use noonmark_workloads::report::{RunReport, Verdict};

/// A protocol, on so many servers: commits, and attempts that failed.
pub type OnServers = (&'static str, u16, u64, u64);

/// All runs of an experiment at few points, and what is found of its claims.
pub fn experiment(name: &str, size: Size) -> (Vec<OnServers>, Vec<Verdict>) {
    let done = reproduced(name, size);
    let servers = |run: &RunReport| run.parameters["servers"].parse().unwrap();
    let rules = named(name).protocols;
    let protocol = |run: &RunReport| rules.iter().find(|rules| rules.name() == run.protocol);
    let figures = done
        .runs
        .iter()
        .map(|run| (protocol(run).unwrap().name(), servers(run), run.committed, run.aborted()));
    (figures.collect(), done.findings.iter().map(|finding| finding.verdict).collect())
}
