//! Runs transactions of sixteen operations on rows that all fit into the cache, and nothing else: for
//! `scripts/instructions-per-operation`, which counts what one operation takes.
//!
//!     operations read|update|mixed|get-many|update-many TRANSACTIONS ROWS PROTOCOL hash|ordered fine|coarse|splitting

use noonmark::{Database, Granularity, IndexKind, Protocol, TableOptions};
use std::hint::black_box;

/// Half of the columns of Granularity's form of YCSB.
type Half = [[u8; 10]; 5];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, transactions, rows, protocol, index, granularity] = arguments.as_slice() else {
        return Err("give: read|update|mixed|get-many|update-many TRANSACTIONS ROWS PROTOCOL hash|ordered \
                    fine|coarse|splitting"
            .into());
    };
    let (transactions, rows): (usize, u64) = (transactions.parse()?, rows.parse()?);
    let protocol: Protocol = protocol.parse()?;
    let index = match index.as_str() {
        "hash" => IndexKind::Hash,
        "ordered" => IndexKind::Ordered,
        other => return Err(format!("there is no index {other:?}").into()),
    };
    let granularity = match granularity.as_str() {
        "fine" => Granularity::Fine,
        "coarse" => Granularity::Coarse,
        "splitting" => Granularity::Splitting,
        other => return Err(format!("timestamps are not {other:?}").into()),
    };
    if rows == 0 {
        return Err("there must be at least one row".into());
    }

    let db = Database::in_memory();
    // Of an ordered table, the way down the tree is what is counted: no row has a place that follows from so large a key.
    let (expected, first) = match index {
        IndexKind::Hash => (usize::try_from(rows)?, 0),
        IndexKind::Ordered => (0, 1 << 40),
    };
    let options =
        TableOptions::new().protocol(protocol).index(index).granularity(granularity).expected_rows(expected);
    let table = db.create_table::<u64, (Half, Half)>("rows", options)?;
    let (even, odd) = (table.group::<0>(), table.group::<1>());
    let mut session = db.session()?;
    for key in first..first + rows {
        session.transact(|tx| tx.insert(&table, key, ([[1; 10]; 5], [[2; 10]; 5])))?;
    }

    // Drawn ahead: key, whether the operation writes, and the column.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let operations: Vec<(u64, bool, u8)> = (0..1 << 16)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (first + state % rows, state >> 40 & 1 == 0, (state >> 50) as u8 % 10)
        })
        .collect();
    let keys: Vec<u64> = operations.iter().map(|operation| operation.0).collect();
    for number in 0..transactions {
        let from = number * 16 % operations.len();
        let (operations, keys) = (&operations[from..from + 16], &keys[from..from + 16]);
        session.transact(|tx| match what.as_str() {
            "get-many" => tx.get_many(&even, keys, |_, half| {
                black_box(half.map(|half| half[1]));
            }),
            "update-many" => tx.update_many(&even, keys, |_, half| half[1] = [7; 10]),
            _ => operations.iter().try_for_each(|&(key, write, column)| {
                let half = if column % 2 == 0 { &even } else { &odd };
                let column = usize::from(column / 2);
                if what == "update" || what == "mixed" && write {
                    return tx.update(half, key, |half| half[column] = [7; 10]);
                }
                black_box(tx.need(half, key)?[column]);
                Ok(())
            }),
        })?;
    }
    Ok(())
}
