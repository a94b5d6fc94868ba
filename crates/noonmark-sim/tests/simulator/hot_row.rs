//! One row that all cores want to change: what more and more cores get of it, exact by seed.

use noonmark::{Database, Protocol, Table, TableOptions};
use noonmark_sim::{Limits, Machine, VirtualCores};
use std::cell::Cell;

/// So many cores add to one row for 300 virtual microseconds, with pauses after failed attempts: commits, and failed attempts.
fn on_one_row(protocol: Protocol, cores: usize) -> (u64, u64) {
    let host = VirtualCores::new(Machine::GRANULARITY, 1);
    let db = Database::builder().host(host.clone()).max_sessions(cores + 1).build().unwrap();
    let options = TableOptions::new().protocol(protocol).expected_rows(1);
    let rows: Table<u64, u64> = db.create_table("rows", options).unwrap();
    db.session().unwrap().transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
    let (commits, attempts) = (Cell::new(0), Cell::new(0));
    let until_ps = host.now_ps() + 300_000_000;
    let worker = |_| {
        || {
            let mut session = db.session().unwrap();
            while host.now_ps() < until_ps {
                let added = session.transact(|tx| {
                    attempts.set(attempts.get() + 1);
                    tx.update(&rows, 1, |value| *value += 1)
                });
                added.unwrap();
                commits.set(commits.get() + 1);
            }
        }
    };
    host.run(Limits::default(), (0..cores).map(worker)).unwrap();
    let value = db.session().unwrap().transact(|tx| tx.need(&rows, 1)).unwrap();
    assert_eq!(value, commits.get(), "{protocol}: an update is lost");
    (commits.get(), attempts.get() - commits.get())
}

/// Where all who wait are woken at each release, two-phase-wound-wait commits a hundredth on 32 cores of what it does on two: whoever
/// comes first is made to abort by whoever comes second and is older. Commits, and failed attempts, on 2, 8 and 32 cores.
#[test]
fn a_hot_row_is_not_lost_to_many_cores() {
    let pinned = [
        (Protocol::TwoPhaseWoundWait, [(1730, 0), (635, 94), (303, 55)]),
        (Protocol::TwoPhaseWaitDie, [(1446, 379), (778, 1494), (247, 871)]),
        (Protocol::Swiss, [(1149, 402), (533, 1220), (149, 754)]),
        (Protocol::Sundial, [(1100, 361), (585, 1388), (289, 914)]),
    ];
    let found = pinned.map(|(protocol, _)| (protocol, [2, 8, 32].map(|cores| on_one_row(protocol, cores))));
    assert_eq!(found, pinned);
}
