//! What transactions wait for memory at least: the loads of their operations, and nothing else.
//!
//! ```sh
//! cargo run --release -p noonmark-cli --example memory_floor                    # both
//! cargo run --release -p noonmark-cli --example memory_floor -- ycsb 10000000   # Granularity's YCSB form, this many rows
//! cargo run --release -p noonmark-cli --example memory_floor -- new-order       # items and stocks of TPC-C's New-Order
//! ```
//!
//! Rows lie as the engine's do. YCSB: three lines each, one for the row and one for each of its two groups; an operation loads its group's line,
//! where a row lies where its key says, or first that of an index, which says where. New-Order: two lines an item and six a stock, which lie where
//! their keys say; an order line loads all of one of each. Keys and groups are drawn as the benchmarks draw them. A load begins when the one before has ended,
//! or as soon as the processor sees to it.
//!
//! What it does not do: write, or share anything with another thread. Keys chosen evenly, in tables of several sizes, has `examples/floor.rs` of the engine.

use noonmark_workloads::distribution::Chooser;
use noonmark_workloads::random::Random;
use noonmark_workloads::tpcc::dice::{Constants, Dice};
use std::hint::black_box;
use std::time::Instant;

/// The allocator that the program has: what is loaded lies in large pages with it, where the system has them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A line of a cache. Its first word is zero, which nobody knows but who has loaded it: added to where the next lies, it makes that wait.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

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

/// Prints a row of the table; a transaction has so many operations.
fn told(what: &str, operations: usize, ns: f64) {
    println!("{what:<72} {ns:>6.1} {:>8.0}", ns * operations as f64);
}

/// Lines of rows that nobody has seen yet.
fn rows(count: usize, lines: usize) -> Vec<Line> {
    black_box(vec![Line([0; 8]); count * lines])
}

/// What there is to see in these lines.
fn seen(lines: &[Line]) -> u64 {
    lines.iter().fold(0, |seen, line| seen | line.0[0])
}

fn ycsb(count: usize) -> Result<(), Box<dyn std::error::Error>> {
    const LINES_OF_A_ROW: usize = 3;
    const GROUPS: u64 = 2;
    /// 19 GB of lines.
    const ROWS_MAX: usize = 100_000_000;
    const OPERATIONS_OF_A_TRANSACTION: usize = 16;

    if !(1..=ROWS_MAX).contains(&count) {
        return Err(format!("from 1 to {ROWS_MAX} rows are wanted, not {count}").into());
    }
    let mut random = Random::new(1, 0);
    let mut chooser = Chooser::zipfian(count as u64, 0.9)?;
    let lines = rows(count, LINES_OF_A_ROW);
    // Where the row of a key lies, sixteen bytes a key, as in a hash table.
    let index: Vec<u64> =
        black_box((0..2 * count as u64).map(|place| place / 2 * LINES_OF_A_ROW as u64).collect());
    let operations: Vec<(u32, u32)> = (0..OPERATIONS)
        .map(|_| {
            let (row, group) = (chooser.draw(&mut random), random.below(GROUPS));
            let line = row * LINES_OF_A_ROW as u64 + 1 + group;
            Ok((u32::try_from(line)?, u32::try_from(2 * row)?))
        })
        .collect::<Result<_, std::num::TryFromIntError>>()?;
    let placed = |wait: bool| {
        operations.iter().fold(0, |before, (line, _)| {
            let at = *line as usize + if wait { before as usize } else { 0 };
            before | lines[at].0[0]
        })
    };
    let searched = |wait: bool| {
        operations.iter().fold(0, |before, (line, place)| {
            let at = *place as usize + if wait { before as usize } else { 0 };
            let group = *line as usize % LINES_OF_A_ROW;
            before | lines[index[at] as usize + group].0[0]
        })
    };
    println!(
        "ycsb, {count} rows: ns an operation, and a transaction of {OPERATIONS_OF_A_TRANSACTION}, the median of {PASSES} passes"
    );
    for (what, ns) in [
        ("the row lies where its key says; each when the one before has ended", ns_each(|| placed(true))),
        ("the same; each as soon as the processor sees to it", ns_each(|| placed(false))),
        ("an index says where; each when the one before has ended", ns_each(|| searched(true))),
        ("the same; each as soon as the processor sees to it", ns_each(|| searched(false))),
    ] {
        told(what, OPERATIONS_OF_A_TRANSACTION, ns);
    }
    Ok(())
}

/// What an order line waits for.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    /// The one before, and its stock for its item.
    ForAll,
    /// The one before.
    ForTheLineBefore,
    Never,
}

fn new_order() {
    const ITEMS: u32 = 100_000;
    const LINES_OF_AN_ITEM: usize = 2;
    const LINES_OF_A_STOCK: usize = 6;
    /// Of an order, on average.
    const ORDER_LINES: usize = 10;

    let (items, stocks) = (rows(ITEMS as usize, LINES_OF_AN_ITEM), rows(ITEMS as usize, LINES_OF_A_STOCK));
    let constants = Constants::of(1);
    let mut dice = Dice::at(1, 0, 0);
    let drawn: Vec<u32> =
        (0..OPERATIONS).map(|_| dice.non_uniform(8191, constants.item, 1, ITEMS) - 1).collect();
    let order_lines = |waits: Waits| {
        drawn.iter().fold(0, |before, item| {
            let at = *item as usize + if waits == Waits::Never { 0 } else { before as usize };
            let item = seen(&items[at * LINES_OF_AN_ITEM..][..LINES_OF_AN_ITEM]);
            let at = at + if waits == Waits::ForAll { item as usize } else { 0 };
            before | item | seen(&stocks[at * LINES_OF_A_STOCK..][..LINES_OF_A_STOCK])
        })
    };
    println!("new-order: ns an order line, and an order of {ORDER_LINES}, the median of {PASSES} passes");
    for (what, waits) in [
        ("an item, then its stock, then the next item", Waits::ForAll),
        ("an item and its stock at once, then the next item", Waits::ForTheLineBefore),
        ("all as soon as the processor sees to it", Waits::Never),
    ] {
        told(what, ORDER_LINES, ns_each(|| order_lines(waits)));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => {
            ycsb(1_000_000)?;
            new_order();
        }
        ["ycsb", count] => ycsb(count.parse()?)?,
        ["new-order"] => new_order(),
        _ => return Err("what is wanted is nothing, `ycsb ROWS` or `new-order`".into()),
    }
    Ok(())
}
