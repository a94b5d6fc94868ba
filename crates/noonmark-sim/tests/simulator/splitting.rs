//! A row that is split while others are at it, on virtual cores: what that costs them, exact by seed.

use crate::helpers::{SMALL, named};
use noonmark::Granularity::{self, Coarse, Fine, Splitting};
use noonmark::{Database, Protocol, Table, TableOptions};
use noonmark_sim::repro::{self, Cell as Point, Rules, Size};
use noonmark_sim::{Limits, Machine, VirtualCores};
use std::cell::Cell;

/// Who writes the one half of the row, who the other, and so many who read a third part of it.
const READERS: usize = 6;

/// How often in 300 virtual microseconds two write halves of a row that others never cease to read; whether the row is split in the end.
fn writes_beside_readers(protocol: Protocol, granularity: Granularity) -> (u64, bool) {
    let host = VirtualCores::new(Machine::GRANULARITY, 1);
    let db = Database::builder().host(host.clone()).max_sessions(READERS + 3).build().unwrap();
    let options = TableOptions::new().protocol(protocol).granularity(granularity).expected_rows(8);
    let rows: Table<u64, (u64, u64, u64)> = db.create_table("rows", options).unwrap();
    let fill = |tx: &mut noonmark::Transaction<'_, VirtualCores>| {
        (0..8).try_for_each(|key| tx.insert(&rows, key, (0, 0, 0)).map(|_| ()))
    };
    db.session().unwrap().transact(fill).unwrap();
    let writes = Cell::new(0);
    let until_ps = host.now_ps() + 300_000_000;
    let worker = |number: usize| {
        let (db, rows, host, writes) = (&db, &rows, &host, &writes);
        move || {
            let mut session = db.session().unwrap();
            while host.now_ps() < until_ps {
                let done = session.transact(|tx| match number {
                    0 => tx.update(&rows.group::<0>(), 0, |count| *count += 1),
                    1 => tx.update(&rows.group::<1>(), 0, |count| *count += 1),
                    // The row first, so that it is held for long.
                    _ => (0..8).try_for_each(|key| tx.need(&rows.group::<2>(), key).map(|_| ())),
                });
                done.unwrap();
                writes.set(writes.get() + u64::from(number < 2));
            }
        }
    };
    host.run(Limits::default(), (0..READERS + 2).map(worker)).unwrap();
    let (one, other, _) = db.session().unwrap().transact(|tx| tx.need(&rows, 0)).unwrap();
    assert_eq!(one + other, writes.get(), "{protocol}: an update is lost");
    (writes.get(), db.split_rows() == 1)
}

/// Who waits for the row to be free, in order to split it, is not long in the way of those who want it, and comes to it also where all stand in
/// line for it. (What is in the way of those who look at the version word only, of a row that lies on one line, is that the words lie on
/// several: `occ` and `tictoc`.)
#[test]
fn a_row_that_is_always_read_is_split_soon() {
    let pinned = [
        (Protocol::Occ, [1279, 1229, 1565]),
        (Protocol::TicToc, [1285, 910, 1805]),
        (Protocol::TwoPhaseWaitDie, [99, 1992, 2009]),
        (Protocol::TwoPhaseWoundWait, [135, 142, 2009]),
        (Protocol::TwoPhaseNoWait, [2, 1995, 2009]),
        (Protocol::Swiss, [1007, 1453, 899]),
        (Protocol::Adaptive, [8, 2293, 3186]),
        (Protocol::F1, [1253, 1706, 1569]),
        (Protocol::Sundial, [812, 2174, 2554]),
        (Protocol::Dynamic, [326, 2092, 2665]),
        (Protocol::Ranges, [307, 2007, 3172]),
    ];
    let found: Vec<_> = Protocol::all_that_mix()
        .into_iter()
        .map(|protocol| {
            let counts = [Coarse, Splitting, Fine].map(|groups| writes_beside_readers(protocol, groups));
            // (Under wound-wait all stand in line for it, and nobody aborts: no conflict is seen.)
            let is_split = protocol != Protocol::TwoPhaseWoundWait;
            assert_eq!(counts.map(|(_, is_split)| is_split), [false, is_split, false], "{protocol}");
            (protocol, counts.map(|(writes, _)| writes))
        })
        .collect();
    assert_eq!(found, pinned);
}

/// Under each protocol a row that splits itself is worth it, where conflicts are over nothing but its timestamp: commits on 64 cores with one timestamp a
/// row, with one that splits itself, and with one a group.
#[test]
fn splitting_pays_under_every_protocol() {
    let commits = |name: &str, protocol| {
        [Coarse, Splitting, Fine].map(|granularity| {
            let variant = named(name).variant.clone();
            let size = Size { warm_up_ps: 500_000_000, measured_ps: 500_000_000, ..SMALL };
            let protocol = Rules::Engine(protocol);
            let run = repro::run(&Point { variant, protocol, granularity, cores: 64 }, &size, 1).unwrap();
            assert_ne!(run.consistent, Some(false), "{:?}", run.consistency);
            run.committed
        })
    };
    let found: Vec<_> = Protocol::all_that_mix()
        .into_iter()
        .map(|protocol| (protocol, ["splitting-tpcc", "splitting-ycsb"].map(|name| commits(name, protocol))))
        .collect();
    for (protocol, counts) in &found {
        for [coarse, splitting, _] in counts {
            assert!(splitting > coarse, "{protocol}: {counts:?}");
        }
    }
    let pinned = [
        (Protocol::Occ, [[1805, 4254, 4334], [5223, 10365, 12976]]),
        (Protocol::TicToc, [[2615, 3140, 3427], [2663, 6121, 6499]]),
        (Protocol::TwoPhaseWaitDie, [[982, 3362, 3468], [432, 1450, 1773]]),
        (Protocol::TwoPhaseWoundWait, [[781, 2768, 3118], [349, 863, 1754]]),
        (Protocol::TwoPhaseNoWait, [[760, 2919, 2959], [428, 1467, 1714]]),
        (Protocol::Swiss, [[1318, 2308, 2625], [3648, 6450, 6790]]),
        (Protocol::Adaptive, [[877, 4035, 4263], [205, 12121, 12575]]),
        (Protocol::F1, [[1555, 2783, 2771], [547, 1543, 1722]]),
        (Protocol::Sundial, [[1991, 2624, 2768], [1880, 5540, 6012]]),
        (Protocol::Dynamic, [[2378, 2625, 2646], [583, 1306, 1384]]),
        (Protocol::Ranges, [[2213, 2396, 2466], [548, 1166, 1389]]),
    ];
    assert_eq!(found, pinned);
}
