//! Workers that share nothing: what is left open, and one run.
//!
//! What it does not do: say what a paper says; see [`disttictoc`](super::disttictoc).

use super::cell::{Cell, Size, phases, plan_of, report, unfit};
use super::{Axis, Rules, Site};
use crate::Picoseconds;
use crate::experiment::{self, ExperimentError};
use crate::network::disttictoc::{DistTicTocSpec, WorkingSet};
use crate::network::store::ClusterSpec;
use crate::network::{self, Conditions};
use noonmark::Protocol;
use noonmark_cluster::client::Policy;
use noonmark_workloads::report::{Reproduction, RunReport, Traffic};
use std::collections::BTreeMap;
use std::time::Duration;

/// Transactions at workers that share nothing: reads of one row, or transfers between accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// How many workers.
    pub workers: u16,
    /// Accounts of a transfer; 0: transactions read one row.
    pub accounts: u16,
    /// How many times fewer rows there are than usually.
    pub fewer_rows: u32,
    /// Whether a transfer's accounts are asked for all together.
    pub together: bool,
    /// Whoever has failed pauses for a random time below this.
    pub backoff_max_us: u32,
    /// How long a message is on its way, about.
    pub latency_ns: u32,
    /// How long a worker takes for each message.
    pub handling_ns: u32,
    /// How long the network server takes for each, if there is one.
    pub server_ns: Option<u32>,
    /// How long an access takes, and each row at each round of the commit.
    pub access_ns: u32,
    /// How long somebody may be kept waiting for another.
    pub wait_max_us: u32,
}

impl Sharing {
    /// How many times longer a run is than one on virtual cores: a transaction takes so much longer.
    pub(super) const SLOWER: Picoseconds = 10;

    pub(super) fn in_words(&self) -> Vec<(&'static str, String)> {
        let Sharing {
            workers, accounts, together, backoff_max_us, latency_ns, server_ns, wait_max_us, ..
        } = *self;
        let us = |ns: u32| f64::from(ns) / 1_000.0;
        let together = match together {
            true => "asked for all together, with one message to each worker",
            false => "asked for one by one",
        };
        vec![
            (Axis::NODES, workers.to_string()),
            (
                "a transaction",
                match accounts {
                    0 => "reads one row of ten fields of ten bytes".into(),
                    count => {
                        format!("moves money between {count} accounts, {together}, and writes all of them")
                    }
                },
            ),
            ("rows", "drawn evenly".into()),
            (
                "whoever has failed",
                match backoff_max_us {
                    0 => "is run again at once, with its age".into(),
                    most => format!(
                        "pauses for a random time below {most} µs, and keeps its age; its client pauses with it"
                    ),
                },
            ),
            ("a waiter waits", format!("for {wait_max_us} µs at most")),
            ("a message is on its way", format!("for {} µs, a sixth more or less", us(latency_ns))),
            (Axis::MESSAGES, format!("{} µs of the worker", us(self.handling_ns))),
            (
                "the network server",
                match server_ns {
                    None => "is none: clients put messages into the queues of workers".into(),
                    Some(ns) => format!("is one thread, and takes {} µs for each message", us(ns)),
                },
            ),
            (
                "an access takes",
                format!(
                    "{} µs of the worker, and each row as much at each round of the commit",
                    us(self.access_ns)
                ),
            ),
        ]
    }
}

/// At workers that share nothing, which are before as many clients as the cell has cores.
pub(super) fn run(
    cell: &Cell,
    sharing: &Sharing,
    size: &Size,
    seed: u64,
) -> Result<RunReport, ExperimentError> {
    let (working_set, protocol, workers) = match cell.protocol {
        Rules::Sets(set, workers) => (set, Protocol::TicToc, workers.count(sharing.workers)),
        Rules::Engine(protocol) => (WorkingSet::Combined, protocol, sharing.workers),
        _ => return Err(unfit(cell)),
    };
    let access_ns = u64::from(sharing.access_ns);
    let cluster = ClusterSpec {
        policy: Policy {
            attempts_max: None,
            backoff_max: Duration::from_micros(sharing.backoff_max_us.into()),
            backoff_round_trips: None,
            escape_after: None,
        },
        conditions: Conditions {
            latency: Site::Room.latency(sharing.latency_ns.into()),
            handling_ns: sharing.handling_ns.into(),
            access_ns,
            row_ns: Some(access_ns),
            server_ns: Some(sharing.server_ns.unwrap_or(0).into()),
            // (Memory's.)
            bytes_per_us: 10_000,
            ..Conditions::quiet()
        },
        wait_max_ns: u64::from(sharing.wait_max_us) * 1_000,
        ..ClusterSpec::new(workers, protocol)
    };
    let spec = DistTicTocSpec {
        rows: size.sharing_rows(sharing),
        accounts: (sharing.accounts > 0).then_some(sharing.accounts.into()),
        together: sharing.together,
        working_set,
    };
    let plan = plan_of(cell, size, seed, 0);
    let plan = experiment::Plan {
        warm_up_ps: plan.warm_up_ps * Sharing::SLOWER,
        measured_ps: plan.measured_ps * Sharing::SLOWER,
        ..plan
    };
    let found = network::disttictoc::run(cluster, spec, &plan)?;
    let phases = phases(&found);
    let traffic = Traffic { messages: found.messages, bytes: found.bytes };
    let workload = if sharing.accounts > 0 { "bank" } else { "ycsb" };
    let parameters = BTreeMap::from([(Reproduction::CLIENTS.to_owned(), cell.cores.to_string())]);
    let mut report = report(cell, workload, seed, parameters, found.measured);
    // (The protocol may have said how many.)
    report.parameters.insert(Reproduction::NODES.to_owned(), workers.to_string());
    report.parameters.insert("rows".to_owned(), format!("{}, drawn evenly", spec.rows));
    Ok(RunReport { lines: None, traffic: Some(traffic), phases: Some(phases), ..report })
}
