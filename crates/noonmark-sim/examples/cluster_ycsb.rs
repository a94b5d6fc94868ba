//! YCSB on four servers, in virtual time: throughput and failed attempts by protocol and workers a server.
//!
//!     cluster_ycsb ROWS MILLISECONDS one-by-one|together PROTOCOL[:TICKS],... WORKERS,... [BUFFER]
//!
//! BUFFER: how many transactions that have failed a worker keeps aside while it runs others; 0 unless it is given.
//!
//! TICKS: how much of their ranges of commit times transactions under `dynamic` freeze; `open` for all from the first on. Or `printed`: `sundial` without
//! what is ours.

use noonmark::Protocol;
use noonmark::branch::FROZEN_TICKS;
use noonmark_sim::experiment::Plan;
use noonmark_sim::network::Conditions;
use noonmark_sim::network::latency::Latency;
use noonmark_sim::network::store::ClusterSpec;
use noonmark_sim::network::ycsb::{YcsbSpec, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, milliseconds, access, protocols, workers, buffer @ ..] = arguments.as_slice() else {
        return Err(
            "give: ROWS MILLISECONDS one-by-one|together PROTOCOL[:TICKS],... WORKERS,... [BUFFER]".into()
        );
    };
    let spec = YcsbSpec {
        rows: rows.parse()?,
        accesses: 16,
        writes_permille: 100,
        remote_percent: 10,
        reads_theta: 0.9,
        writes_theta: 0.9,
        together: access == "together",
        abort_buffer: buffer.first().map_or(Ok(0), |most| most.parse())?,
    };
    let measured_ps = milliseconds.parse::<u64>()? * 1_000_000_000;
    for protocol in protocols.split(',') {
        let (protocol, ticks) = protocol.split_once(':').unwrap_or((protocol, ""));
        let frozen_ticks = match ticks {
            "" | "printed" => FROZEN_TICKS,
            "open" => u64::MAX,
            ticks => ticks.parse()?,
        };
        let protocol: Protocol = protocol.parse()?;
        for workers in workers.split(',') {
            let workers: usize = workers.parse()?;
            let mut cluster = ClusterSpec::new(4, protocol);
            cluster.frozen_ticks = frozen_ticks;
            if ticks == "printed" {
                (cluster.reads_prepared, cluster.refuses_younger, cluster.lends) = (true, true, false);
            }
            cluster.policy.escape_after = None;
            cluster.policy.backoff_max = std::time::Duration::from_millis(1);
            cluster.conditions = Conditions {
                latency: Latency::Uniform { min_ns: 25_000, max_ns: 35_000 },
                handling_ns: 2_000,
                sending_ns: 2_000,
                access_ns: 1_000,
                ..Conditions::quiet()
            };
            let plan = Plan {
                workers,
                warm_up_ps: measured_ps / 4,
                measured_ps,
                steps_max: u64::MAX,
                seed: 1,
                requests: 0,
            };
            let began = std::time::Instant::now();
            let found = run(cluster, spec, &plan)?;
            let measured = &found.measured;
            println!(
                "{protocol:20} {ticks:4} {workers:3}: {:9.0}/s, {:5.2} % fail, p50 {:4} us, p99 {:5} us, {:5.1} messages and {:6.0} bytes a commit, {:?} in {:.1} s\n    {:?}",
                measured.per_s(),
                100.0 * measured.abort_share(),
                measured.latencies_ns.get(measured.latencies_ns.len() / 2).unwrap_or(&0) / 1000,
                measured.latencies_ns.get(measured.latencies_ns.len() * 99 / 100).unwrap_or(&0) / 1000,
                found.messages as f64 / measured.committed.max(1) as f64,
                found.bytes as f64 / measured.committed.max(1) as f64,
                measured.limit,
                began.elapsed().as_secs_f64(),
                measured.conflicts.rules,
            );
        }
    }
    Ok(())
}
