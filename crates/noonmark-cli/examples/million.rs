//! How long it takes to simulate a million committed transactions of Granularity's YCSB on 128 virtual cores.
//!
//! ```sh
//! cargo run --release -p noonmark-cli --example million              # with pauses after failed attempts
//! cargo run --release -p noonmark-cli --example million -- none      # without
//! cargo run --release -p noonmark-cli --example million -- none 4    # of 4 virtual milliseconds, and not more
//! ```
//!
//! Runs one experiment's cell for different lengths of virtual time: what the last run takes longer is for what it commits more, so
//! that loading ten million rows is not in it.

use noonmark_sim::repro::{Cell, Size, named, run};
use noonmark_workloads::store::Granularity;
use std::time::Instant;

/// The allocator that the program has: what is loaded lies in large pages with it, where the system has them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let backs_off = args.first().is_none_or(|word| word != "none");
    let ms: u64 = args.get(1).map_or(Ok(20), |ms| ms.parse())?;
    let experiment = named("granularity-fig2a").ok_or("there is no such experiment")?;
    let mut variant = experiment.variant.clone();
    variant.backs_off = backs_off;
    let cell =
        Cell { variant, protocol: experiment.protocols[0], granularity: Granularity::Coarse, cores: 128 };
    let mut took = Vec::new();
    // The first is for the memory, which the others find there.
    for ms in [1, 1, 1 + ms] {
        let size = Size { measured_ps: ms * 1_000_000_000, ..Size::FULL };
        let began = Instant::now();
        let report = run(&cell, &size, 1)?;
        took.push((began.elapsed().as_secs_f64(), report.committed));
    }
    let (seconds, commits) = (took[2].0 - took[1].0, took[2].1.saturating_sub(took[1].1));
    if seconds <= 0.0 {
        return Err(
            format!("{ms} virtual ms take less than what loading the rows varies by: give more").into()
        );
    }
    println!(
        "{}, {}: {commits} commits in {ms} virtual ms took {seconds:.1} s: {:.0} s a million",
        cell.protocol.name(),
        if backs_off { "with pauses" } else { "without pauses" },
        seconds * 1e6 / commits.max(1) as f64
    );
    Ok(())
}
