//! How long the checker takes for a history of a given size, and how much it infers.
//!
//! ```text
//! cargo run --release --example check_speed -- 100000
//! ```
//!
//! The histories are of serial runs told as if sixteen clients had overlapped: two pairs of steps
//! a transaction on a few hot keys, retired after some sixty writes each; each pair reads, half
//! of them then write. There are lists, registers, registers with scans of eleven keys, registers
//! written blindly on one key; and lists again with some reads one element too short.

use std::io::Write as _;
use std::time::Instant;

use noonmark_workloads::check::{Options, check};
use noonmark_workloads::history::{
    History, HistoryWriter, Key, MicroOp, Outcome, Process, Recorder, Value, merge_recorders,
};

const CLIENTS: u64 = 16;
const HOT_KEYS: u64 = 8;
const WRITES_PER_KEY: u64 = 60;
const PAIRS: u64 = 2;
/// In the bad history one read in so many is too short.
const READS_PER_SHORT_ONE: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Lists,
    Registers,
    Scans,
    BlindWrites,
    BadLists,
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The lines of a history.
fn recorded(kind: Kind, transactions: u64) -> std::io::Result<Vec<u8>> {
    let mut random = 88_172_645_463_325_252;
    let mut recorders: Vec<Recorder> =
        (0..CLIENTS).map(|client| Recorder::new(Process(client), "txn")).collect();
    let mut versions: Vec<Vec<Value>> = Vec::new();
    let mut writes = 0;
    for number in 0..transactions {
        let recorder = &mut recorders[(number % CLIENTS) as usize];
        // Each client's transactions follow one another; those of others overlap with them.
        let at_ns = 1000 * (number + CLIENTS);
        recorder.begin(at_ns - 500 * (1 + next(&mut random) % (CLIENTS - 1)));
        for _ in 0..PAIRS {
            let place = match kind {
                Kind::BlindWrites => 0,
                _ => (writes / WRITES_PER_KEY + next(&mut random) % HOT_KEYS) as usize,
            };
            versions.resize_with(versions.len().max(place + 11), Vec::new);
            let (key, value) = (Key(place as i64), Value(writes as i64 + 1));
            let writes_too = next(&mut random).is_multiple_of(2);
            let latest = versions[place].last().copied();
            match kind {
                Kind::BlindWrites if writes_too => {}
                Kind::Registers | Kind::BlindWrites => {
                    recorder.op(MicroOp::ReadRegister { key, value: latest });
                }
                Kind::Lists | Kind::BadLists => {
                    let mut list = versions[place].clone();
                    if kind == Kind::BadLists && next(&mut random).is_multiple_of(READS_PER_SHORT_ONE) {
                        list.pop();
                    }
                    recorder.op(MicroOp::ReadList { key, list: Some(list) });
                }
                Kind::Scans => {
                    let found = (place..place + 11)
                        .filter_map(|key| Some((Key(key as i64), *versions[key].last()?)))
                        .collect();
                    let high = Key(place as i64 + 10);
                    recorder.op(MicroOp::Scan { low: key, high, found: Some(found) });
                }
            }
            if writes_too {
                recorder.op(match kind {
                    Kind::Lists | Kind::BadLists => MicroOp::Append { key, value },
                    _ => MicroOp::Write { key, value: Some(value) },
                });
                versions[place].push(value);
                writes += 1;
            }
        }
        recorder.finish(Outcome::Ok, at_ns + 500 * (next(&mut random) % (CLIENTS - 1)));
    }
    merge_recorders(recorders, HistoryWriter::new(Vec::new()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let transactions = match std::env::args().nth(1) {
        Some(count) => count.parse()?,
        None => 100_000,
    };
    let mut out = std::io::stdout().lock();
    for kind in [Kind::Lists, Kind::Registers, Kind::Scans, Kind::BlindWrites, Kind::BadLists] {
        let lines = recorded(kind, transactions)?;
        let began = Instant::now();
        let history = History::read(&lines[..])?;
        let read_s = began.elapsed().as_secs_f64();
        writeln!(out, "{kind:?}: {} MB read in {read_s:.2} s", lines.len() / 1_000_000)?;
        for (name, options) in [
            ("serializable", Options::default()),
            ("session order", Options { session: true, ..Options::default() }),
            ("strict order", Options { session: true, strict: true, ..Options::default() }),
        ] {
            let began = Instant::now();
            let report = check(&history, &options);
            let check_s = began.elapsed().as_secs_f64();
            writeln!(out, "  {name}: {check_s:.2} s, {:?}, {:?}", report.verdict, report.edges)?;
        }
    }
    Ok(())
}
