//! What memory alone takes: reads of lines at random, in as many bytes as a table's records have.
//!
//! ```text
//! cargo run --release -p noonmark --example floor [BYTES_A_ROW]
//! ```
//!
//! Prints, for tables of 10 thousand to 10 million rows, the nanoseconds of a read whose address is known ahead (the
//! processor asks for many at once) and of one whose address was in the line read before. No index can be
//! faster than the first, and one that follows pointers is as slow as the second for each that it follows out of the caches.

#![allow(clippy::disallowed_methods, reason = "what memory takes is measured by the system's clock")]

use std::hint::black_box;
use std::time::Instant;

const READS: u64 = 2_000_000;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

/// A number that looks random, for each number.
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Nanoseconds a read; `chained`: each needs what the one before has read.
fn nanoseconds(lines: &[Line], chained: bool) -> f64 {
    let begin = Instant::now();
    let (mut last, mut sum) = (0, 0);
    for number in 0..READS {
        let at = mix(number ^ if chained { last } else { 0 }) % lines.len() as u64;
        last = lines[at as usize].0[0];
        sum ^= last;
    }
    black_box(sum);
    begin.elapsed().as_nanos() as f64 / READS as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes_per_row: usize = match std::env::args().nth(1) {
        Some(bytes) => bytes.parse()?,
        None => 192,
    };
    println!("      rows        MiB   known ahead ns   chained ns");
    for rows in [10_000, 100_000, 1_000_000, 10_000_000] {
        let count = (rows * bytes_per_row).div_ceil(size_of::<Line>()).max(1);
        let lines: Vec<Line> = (0..count as u64).map(|at| Line([mix(at); 8])).collect();
        let mebibytes = (count * size_of::<Line>()) >> 20;
        let (ahead, chained) = (nanoseconds(&lines, false), nanoseconds(&lines, true));
        println!("{rows:>10} {mebibytes:>10} {ahead:>16.1} {chained:>12.1}");
    }
    Ok(())
}
