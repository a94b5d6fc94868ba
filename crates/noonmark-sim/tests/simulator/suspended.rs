//! Three transactions, two of which are suspended in the midst of what they do: at every pair of steps. One thread that plays all parts, as in the engine's own tests, can
//! interrupt an operation by others, but they must have ended before it goes on.

use noonmark::{Bug, Builder, Database, Protocol, Session, Table, TableOptions};
use noonmark_core::Host;
use noonmark_sim::{Limits, Schedule, VirtualCores};
use std::cell::RefCell;

type Rows = Table<u64, u64>;

/// More steps than any of the three takes before it ends.
const ALL: u64 = 2_000;

/// How a database is built.
type Build = fn(Builder<VirtualCores>) -> Builder<VirtualCores>;

/// A database under `fixed` whose rows 1 and 2 are 0, on cores that take these turns.
fn database(turns: &str, build: Build) -> (VirtualCores, Database<VirtualCores>, Rows) {
    let cores = VirtualCores::scheduled(Schedule::Turns(turns.parse().unwrap()), 1);
    let db = build(Database::builder().host(cores.clone())).build().unwrap();
    let rows: Rows = db.create_table("rows", TableOptions::new().protocol(Protocol::Fixed)).unwrap();
    db.transact(|tx| (1..=2).try_for_each(|key| tx.insert(&rows, key, 0).map(|_| ()))).unwrap();
    (cores, db, rows)
}

/// A reader (0) finds a row in the hands of somebody later (1), and is suspended after so many steps. That one lets go, and begins anew in his slot. Somebody (2) who has begun before
/// the reader takes the row, and is suspended after so many steps. What the reader reads then, of this row and the other, and whether the earlier one commits.
fn read_beside_an_earlier_writer(reads: u64, writes: u64, build: Build) -> (Option<[u64; 2]>, bool) {
    let turns = format!("1:{},0:{reads},1:{ALL},2:{writes},0:{ALL}", ALL / 2);
    let (cores, db, rows) = database(&turns, build);
    let [mut first, mut second, mut third]: [Session<_>; 3] = std::array::from_fn(|_| db.session().unwrap());
    let (mut earlier, mut reader) = (first.begin(), second.begin());
    let (read, committed) = (RefCell::new(None), RefCell::new(false));
    let (rows, cores, read_to, committed_to) = (&rows, &cores, &read, &committed);
    let workers: [Box<dyn FnOnce()>; 3] = [
        Box::new(move || {
            let both = reader.need(rows, 1).and_then(|one| {
                // The other one when all have ended.
                (0..ALL).for_each(|_| cores.spin(0));
                Ok([one, reader.need(rows, 2)?])
            });
            let both = both.and_then(|both| reader.commit().map(|_| both));
            *read_to.borrow_mut() = both.ok();
        }),
        Box::new(move || {
            let mut later = third.begin();
            later.write(rows, 1, 30).unwrap();
            (0..ALL).for_each(|_| cores.spin(0));
            drop(later);
            let _anew = third.begin();
            (0..ALL).for_each(|_| cores.spin(0));
        }),
        Box::new(move || {
            let written = earlier.write(rows, 1, 10).and_then(|_| earlier.write(rows, 2, 10));
            *committed_to.borrow_mut() = written.and_then(|_| earlier.commit()).is_ok();
        }),
    ];
    let report = cores.run(Limits::default(), workers).unwrap();
    assert_eq!(report.limit, None);
    (read.take(), committed.take())
}

#[test]
fn a_reader_under_an_intent_sees_whoever_began_before() {
    let (mut read_after, mut not_committed, mut missed) = (0, 0, 0);
    for reads in 1..20 {
        for writes in 1..150 {
            let (read, committed) = read_beside_an_earlier_writer(reads, writes, |builder| builder);
            match (read, committed) {
                // He who commits has done so at a time before the reader's.
                (Some(both), true) => {
                    assert_eq!(both, [10, 10], "{reads} steps of the reader, {writes} of the earlier one");
                    read_after += 1;
                }
                (Some(both), false) => assert_eq!(both, [0, 0], "{reads} and {writes} steps"),
                (None, _) => {}
            }
            not_committed += u32::from(!committed);
            let (read, committed) =
                read_beside_an_earlier_writer(reads, writes, |builder| builder.plant(Bug::IntentMistaken));
            missed += u32::from(committed && read.is_some_and(|both| both != [10, 10]));
        }
    }
    // It comes to all of that at some steps, or it would not be the test that it says it is.
    assert!(read_after > 0 && not_committed > 0 && missed > 0, "{read_after}, {not_committed}, {missed}");
}
