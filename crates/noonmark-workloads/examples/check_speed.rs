//! How long the checker takes for a history of a given size, and how much it infers.
//!
//! ```text
//! cargo run --release --example check_speed -- 100000
//! ```
//!
//! The histories are of serial runs told as if sixteen clients had overlapped: four steps a
//! transaction on a few hot keys, retired after some sixty writes each, reads before writes;
//! lists, registers, and registers with scans. For the last lines one read is changed.

use std::io::Write as _;
use std::time::Instant;

use noonmark_workloads::check::{Options, check};
use noonmark_workloads::history::{
    History, HistoryWriter, Key, MicroOp, Outcome, Process, Recorder, Value, merge_recorders,
};

const CLIENTS: u64 = 16;
const HOT_KEYS: u64 = 8;
const WRITES_PER_KEY: u64 = 60;
const STEPS: u64 = 4;

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The lines of a history.
fn recorded(kind: &str, transactions: u64) -> std::io::Result<Vec<u8>> {
    let mut random = 88_172_645_463_325_252;
    let mut recorders: Vec<Recorder> = (0..CLIENTS)
        .map(|client| Recorder::new(Process(client), "txn"))
        .collect();
    let mut lists: Vec<Vec<Value>> = Vec::new();
    let mut writes = 0;
    for number in 0..transactions {
        let recorder = &mut recorders[(number % CLIENTS) as usize];
        // Each client's transactions follow one another; those of others overlap with them.
        let at_ns = 1000 * (number + CLIENTS);
        recorder.begin(at_ns - 500 * (1 + next(&mut random) % (CLIENTS - 1)));
        for _ in 0..STEPS / 2 {
            // Half of the steps in pairs only read.
            let writes_too = next(&mut random) % 2 == 0;
            let place = (writes / WRITES_PER_KEY + next(&mut random) % HOT_KEYS) as usize;
            lists.resize_with(lists.len().max(place + 12), Vec::new);
            let (key, value) = (Key(place as i64), Value(writes as i64 + 1));
            let list = &mut lists[place];
            match kind {
                "lists" => {
                    recorder.op(MicroOp::ReadList {
                        key,
                        list: Some(list.clone()),
                    });
                    recorder.op(MicroOp::Append { key, value });
                }
                "registers" => {
                    recorder.op(MicroOp::ReadRegister {
                        key,
                        value: list.last().copied(),
                    });
                    recorder.op(MicroOp::Write {
                        key,
                        value: Some(value),
                    });
                }
                _ => {
                    let high = place + 10;
                    let found = (place..=high)
                        .filter_map(|key| Some((Key(key as i64), *lists[key].last()?)))
                        .collect();
                    let high = Key(high as i64);
                    recorder.op(MicroOp::Scan {
                        low: key,
                        high,
                        found: Some(found),
                    });
                    recorder.op(MicroOp::Write {
                        key,
                        value: Some(value),
                    });
                }
            }
            lists[place].push(value);
            writes += 1;
        }
        recorder.finish(
            Outcome::Ok,
            at_ns + 500 * (next(&mut random) % (CLIENTS - 1)),
        );
    }
    merge_recorders(recorders, HistoryWriter::new(Vec::new()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let transactions = match std::env::args().nth(1) {
        Some(count) => count.parse()?,
        None => 100_000,
    };
    let mut out = std::io::stdout().lock();
    for kind in ["lists", "registers", "scans"] {
        let lines = recorded(kind, transactions)?;
        let began = Instant::now();
        let history = History::read(&lines[..])?;
        let read_s = began.elapsed().as_secs_f64();
        writeln!(
            out,
            "{kind}: {} MB read in {read_s:.2} s",
            lines.len() / 1_000_000
        )?;
        for (name, options) in [
            ("serializable", Options::default()),
            (
                "session order",
                Options {
                    session: true,
                    strict: false,
                },
            ),
            (
                "strict order",
                Options {
                    session: true,
                    strict: true,
                },
            ),
        ] {
            let began = Instant::now();
            let report = check(&history, &options);
            let check_s = began.elapsed().as_secs_f64();
            writeln!(
                out,
                "  {name}: {check_s:.2} s, {:?}, {:?}",
                report.verdict, report.edges
            )?;
        }
    }
    Ok(())
}
