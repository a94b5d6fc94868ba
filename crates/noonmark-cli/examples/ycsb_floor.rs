//! What Granularity's YCSB form waits for memory at least: the loads of its operations, and nothing else.
//!
//! ```sh
//! cargo run --release -p noonmark-cli --example ycsb_floor             # a million rows
//! cargo run --release -p noonmark-cli --example ycsb_floor -- 10000000
//! ```
//!
//! Rows lie as the engine's do, three lines each: one for the row and one for each of its two groups. Keys and groups are drawn as the benchmark
//! draws them. An operation loads its group's line, where a row lies where its key says; or first that of an index, which says where. It begins
//! when the one before has ended, or as soon as the processor sees to it.
//!
//! What it does not do: write, or share anything with another thread. Keys chosen evenly, in tables of several sizes, has `examples/floor.rs` of the engine.

use noonmark_workloads::distribution::Chooser;
use noonmark_workloads::random::Random;
use std::hint::black_box;
use std::time::Instant;

/// The allocator that the program has: what is loaded lies in large pages with it, where the system has them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A line of a cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

const LINES_OF_A_ROW: usize = 3;
const GROUPS: u64 = 2;
/// 19 GB of lines.
const ROWS_MAX: usize = 100_000_000;
const OPERATIONS_OF_A_TRANSACTION: usize = 16;
/// So many that what they load is not what they loaded just before.
const OPERATIONS: usize = 1 << 21;
const PASSES: usize = 5;

/// The median time of an operation, of some passes over all.
fn ns_each(mut pass: impl FnMut() -> u64) -> f64 {
    let mut times: Vec<f64> = (0..PASSES)
        .map(|_| {
            let began = Instant::now();
            black_box(pass());
            began.elapsed().as_nanos() as f64 / OPERATIONS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[PASSES / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: usize = std::env::args().nth(1).map_or(Ok(1_000_000), |rows| rows.parse())?;
    if !(1..=ROWS_MAX).contains(&rows) {
        return Err(format!("from 1 to {ROWS_MAX} rows are wanted, not {rows}").into());
    }
    let mut random = Random::new(1, 0);
    let mut chooser = Chooser::zipfian(rows as u64, 0.9)?;
    // Each value is zero, which nobody knows but who has loaded it: added to where the next lies, it makes that wait.
    let lines = black_box(vec![Line([0; 8]); rows * LINES_OF_A_ROW]);
    // Where the row of a key lies, sixteen bytes a key, as in a hash table.
    let index: Vec<u64> =
        black_box((0..2 * rows as u64).map(|place| place / 2 * LINES_OF_A_ROW as u64).collect());
    let operations: Vec<(u32, u32)> = (0..OPERATIONS)
        .map(|_| {
            let (row, group) = (chooser.draw(&mut random), random.below(GROUPS));
            let line = row * LINES_OF_A_ROW as u64 + 1 + group;
            Ok((u32::try_from(line)?, u32::try_from(2 * row)?))
        })
        .collect::<Result<_, std::num::TryFromIntError>>()?;
    let placed = |wait: bool| {
        let mut seen = 0;
        for (line, _) in &operations {
            let at = *line as usize + if wait { seen as usize } else { 0 };
            seen |= lines[at].0[0];
        }
        seen
    };
    let searched = |wait: bool| {
        let mut seen = 0;
        for (line, place) in &operations {
            let at = *place as usize + if wait { seen as usize } else { 0 };
            let group = *line as usize % LINES_OF_A_ROW;
            seen |= lines[index[at] as usize + group].0[0];
        }
        seen
    };
    println!(
        "{rows} rows, ns an operation, and a transaction of {OPERATIONS_OF_A_TRANSACTION}, the median of {PASSES} passes:"
    );
    let told = |what: &str, ns: f64| {
        println!("{what:<66} {ns:>6.1} {:>8.0}", ns * OPERATIONS_OF_A_TRANSACTION as f64);
    };
    told("the row lies where its key says; each when the one before has ended", ns_each(|| placed(true)));
    told("the same; each as soon as the processor sees to it", ns_each(|| placed(false)));
    told("an index says where; each when the one before has ended", ns_each(|| searched(true)));
    told("the same; each as soon as the processor sees to it", ns_each(|| searched(false)));
    Ok(())
}
