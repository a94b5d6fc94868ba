//! YCSB on servers of a cluster: what is left open, and one run.
//!
//! What it does not do: say what a paper says; see [`cluster`](super::cluster).

use super::cell::{Cell, Size, plan_of, unfit};
use super::cluster::MOST;
use super::{Axis, Rules, Servers, Workload};
use crate::experiment::ExperimentError;
use crate::network;
use crate::network::ycsb::YcsbSpec;
use noonmark_workloads::report::RunReport;
use std::collections::BTreeMap;

/// About what a copy of a row takes.
const ROW_BYTES: u64 = 1_150;

/// Transactions of sixteen operations, each of them a read nine times out of ten and at home nine times out of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spanning {
    /// On which servers.
    pub servers: Servers,
    /// How many times fewer rows each has than where there are few servers.
    pub fewer_rows: u32,
    /// So many instead, whatever the [size](Size) is.
    pub rows: Option<u32>,
    /// How many of a thousand accesses are writes.
    pub writes_permille: u16,
    /// How many of a hundred are to another server.
    pub remote_percent: u8,
    /// The exponent of the power law that rows are read by, in hundredths.
    pub reads_skew: u16,
    /// That of the one that they are written by.
    pub writes_skew: u16,
    /// Where servers keep copies: how many thousandths of one server's rows they may come to.
    pub cache_permille: u16,
    /// Which repetition it is, from 0 on: each has a seed of its own.
    pub repetition: u8,
}

/// How many rows a transaction accesses.
const ACCESSES: usize = 16;

impl Spanning {
    /// How many transactions a client is asked for in a run, about: in each it makes all accesses, and a round trip for those that are remote, together or one by one.
    /// (Where copies spare those it may be asked for more, and begins again: reports say so.)
    fn requests(&self, size: &Size) -> usize {
        let run_ns = self.servers.longer_ps(size.warm_up_ps + size.measured_ps) / 1_000;
        let (accesses, round_trip_ns) = (ACCESSES as u64, self.servers.round_trip_ns());
        let remote_ns = match (self.servers.count, self.servers.together) {
            (..=1, _) => 0,
            (_, true) => round_trip_ns,
            (_, false) => accesses * u64::from(self.remote_percent) * round_trip_ns / 100,
        };
        let least_ns = accesses * u64::from(self.servers.access_ns) + remote_ns;
        usize::try_from(run_ns / least_ns.max(1)).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// How many different rows are asked for at the most, about.
    pub(super) fn asked_for_about(&self, size: &Size) -> u64 {
        let clients = u64::from(self.servers.count) * MOST as u64;
        let all = (clients * ACCESSES as u64).saturating_mul(self.requests(size) as u64);
        // (Of five accesses by a power law of 0.9 two are to rows that somebody else accesses, too.)
        if self.reads_skew < 50 { all } else { all / 5 * 3 }
    }

    pub(super) fn in_words(&self) -> Vec<(&'static str, String)> {
        let Spanning {
            servers,
            fewer_rows: _,
            rows: _,
            writes_permille,
            remote_percent,
            reads_skew,
            writes_skew,
            cache_permille,
            repetition: _,
        } = *self;
        let share = |permille: u16| format!("{} %", f64::from(permille) / 10.0);
        let skew = |skew: u16| format!("{}", f64::from(skew) / 100.0);
        let mut words = servers.in_words();
        words.extend([
            (Axis::WRITES, share(writes_permille)),
            ("accesses to other servers", format!("{remote_percent} %")),
            (Axis::SKEW, skew(reads_skew)),
            (Axis::WRITES_SKEW, skew(writes_skew)),
            (Axis::CACHE, share(cache_permille)),
        ]);
        words
    }
}

/// Runs it, so many workers on each server as the cell has cores.
pub(super) fn run(
    cell: &Cell,
    spanning: &Spanning,
    size: &Size,
    seed: u64,
) -> Result<RunReport, ExperimentError> {
    let (servers, protocol, reuse) = match (cell.protocol, spanning.servers.under(cell.protocol)) {
        // (TPC-C's items are nowhere in it.)
        (Rules::Items(_), _) | (_, None) => return Err(unfit(cell)),
        (_, Some(under)) => under,
    };
    let cell = &cell.with(Workload::Spanning(Spanning { servers, ..*spanning }));
    let rows = size.spanning_rows(spanning);
    let copies_bytes = rows * ROW_BYTES * u64::from(spanning.cache_permille) / 1_000;
    let spec = YcsbSpec {
        rows,
        accesses: ACCESSES,
        writes_permille: spanning.writes_permille,
        remote_percent: spanning.remote_percent,
        reads_theta: f64::from(spanning.reads_skew) / 100.0,
        writes_theta: f64::from(spanning.writes_skew) / 100.0,
        together: servers.together,
        abort_buffer: servers.abort_buffer.into(),
    };
    let seed = seed.wrapping_add(spanning.repetition.into());
    let plan = servers.longer(plan_of(cell, size, seed, spanning.requests(size)));
    let found = network::ycsb::run(servers.spec(protocol, reuse, copies_bytes), spec, &plan)?;
    let mut parameters = BTreeMap::from([("rows".to_owned(), rows.to_string())]);
    if found.began_again > 0 {
        let what = "times that a client had run all that it knew of, and began again";
        parameters.insert(what.to_owned(), found.began_again.to_string());
    }
    Ok(servers.report(cell, "ycsb", seed, parameters, found))
}
