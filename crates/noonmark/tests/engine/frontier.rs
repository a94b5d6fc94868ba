//! The read frontier of `dynamic`: transactions that only read, and leave no marks, beside a writer, at every step of either.
//!
//! As in `ranges.rs` one thread plays all parts, and acts in the midst of an operation.

use crate::stage_support::{At, Stage, builder, interrupted, sessions, table};
use noonmark::{Abort, Bug, Database, Order, Policy, Protocol, Session, Table, Timestamp};

type Rows = Table<u64, u64>;

/// A logical database with a read frontier, and two tables with row 1, both 0, and row 2.
fn stage(bug: Option<Bug>, other: Protocol) -> (Database<Stage>, [Rows; 2]) {
    let builder = builder().order(Order::Logical).read_frontier(true);
    let db = match bug {
        Some(bug) => builder.plant(bug),
        None => builder,
    };
    let db = db.build().unwrap();
    let tables = [table(&db, "x", Protocol::Dynamic), table(&db, "y", other)];
    let mut session = db.session().unwrap();
    session
        .transact(|tx| {
            tables.iter().try_for_each(|rows| (1..3).try_for_each(|key| tx.insert(rows, key, 0).map(|_| ())))
        })
        .unwrap();
    drop(session);
    (db, tables)
}

fn once() -> Policy {
    Policy { reads_only: true, ..Policy::once() }
}

/// Both rows as one transaction reads them that leaves no marks, and when it took place.
fn view(session: &mut Session<Stage>, [x, y]: &[Rows; 2]) -> Result<([u64; 2], Timestamp), Abort> {
    let values = session.transact_with(&once(), |tx| Ok([tx.need(x, 1)?, tx.need(y, 1)?]))?;
    // A session's next transaction is not before its last one, and this one has no other reason to be late.
    Ok((values, session.begin().commit().unwrap().time))
}

/// Writes a row of the first table, and has somebody read it: the frontier is at or after that then.
fn raise(db: &Database<Stage>, [x, _]: &[Rows; 2], writes: u64) {
    let [mut s1, mut s2] = sessions(db);
    for _ in 0..writes {
        s1.transact(|tx| tx.write(x, 2, 7)).unwrap();
    }
    s2.transact_with(&once(), |tx| tx.need(x, 2)).unwrap();
}

fn write(session: &mut Session<Stage>, tables: &[Rows; 2]) -> Option<Timestamp> {
    let mut tx = session.begin();
    let written = tables.iter().all(|rows| tx.write(rows, 1, 1).is_ok());
    if written { tx.commit().ok().map(|commit| commit.time) } else { None }
}

/// Whether what a view saw is what was there at its time, and which side of the writer that is on.
fn is_right(([x, y], read): ([u64; 2], Timestamp), wrote: Timestamp) -> bool {
    x == y && if x == 0 { read < wrote } else { read >= wrote }
}

/// A writer in the midst of a view, at every step: how many views were before it, how many after, and how many wrong.
fn writer_within_a_view(bug: Option<Bug>, raised: u64, other: Protocol) -> [usize; 3] {
    let mut counts = [0; 3];
    for touch in 0.. {
        let (db, tables) = stage(bug, other);
        if raised > 0 {
            raise(&db, &tables, raised);
        }
        let [mut s1, mut s2] = sessions(&db);
        let mut wrote = None;
        let seen = interrupted(
            At::Touch(touch),
            || wrote = Some(write(&mut s2, &tables)),
            || view(&mut s1, &tables),
        );
        let Some(wrote) = wrote else { break };
        let (Ok(seen), Some(wrote)) = (seen, wrote) else { continue };
        counts[if !is_right(seen, wrote) { 2 } else { usize::from(seen.0[0] == 1) }] += 1;
    }
    counts
}

/// A view in the midst of a writer, at every step; before the view somebody raises the frontier far above all times so far.
fn view_within_a_writer(bug: Option<Bug>, other: Protocol) -> [usize; 3] {
    let mut counts = [0; 3];
    for touch in 0.. {
        let (db, tables) = stage(bug, other);
        let [mut s1, mut s2] = sessions(&db);
        let mut seen = None;
        let other = || {
            raise(&db, &tables, 30);
            seen = Some(view(&mut s1, &tables));
        };
        let wrote = interrupted(At::Touch(touch), other, || write(&mut s2, &tables));
        let Some(seen) = seen else { break };
        let (Ok(seen), Some(wrote)) = (seen, wrote) else { continue };
        counts[if !is_right(seen, wrote) { 2 } else { usize::from(seen.0[0] == 1) }] += 1;
    }
    counts
}

const OTHERS: [Protocol; 4] = [Protocol::Dynamic, Protocol::TicToc, Protocol::Sundial, Protocol::Ranges];

/// Dynamic §VII.A: nothing commits any more below the time at which such a transaction reads.
#[test]
fn a_view_is_on_one_side_of_a_writer_at_any_step() {
    for other in OTHERS {
        for raised in [0, 30] {
            let [before, after, wrong] = writer_within_a_view(None, raised, other);
            assert!(before > 0 && after > 0 && wrong == 0, "{other}, {raised}: {before}, {after}, {wrong}");
        }
    }
}

/// Who chose his time before the frontier was raised above it has all that he replaces locked.
#[test]
fn a_writer_is_after_the_views_that_missed_it_at_any_step() {
    for other in OTHERS {
        let [before, after, wrong] = view_within_a_writer(None, other);
        assert!(before > 0 && wrong == 0, "{other}: {before}, {after}, {wrong}");
    }
}

/// Both tests can fail.
#[test]
fn a_frontier_seen_early_or_raised_blindly_is_found() {
    let [.., wrong] = view_within_a_writer(Some(Bug::FrontierSeenEarly), Protocol::Dynamic);
    assert!(wrong > 0);
    let [.., wrong] = writer_within_a_view(Some(Bug::FrontierRaisedBlindly), 0, Protocol::Dynamic);
    assert!(wrong > 0);
}

/// A view is not in a writer's way, nor has it to look again, if all that it reads is older than the frontier.
#[test]
fn what_is_older_than_the_frontier_is_read_once() {
    let (db, tables) = stage(None, Protocol::Dynamic);
    raise(&db, &tables, 30);
    let [mut s1, mut s2] = sessions(&db);
    let mut wrote = None;
    let values = s1
        .transact_with(&once(), |tx| {
            let x = tx.need(&tables[0], 1)?;
            if wrote.is_none() {
                wrote = write(&mut s2, &tables);
            }
            // What was written meanwhile is younger.
            Ok([x, tx.need(&tables[0], 2)?])
        })
        .unwrap();
    assert_eq!(values, [0, 7]);
    assert!(s1.begin().commit().unwrap().time < wrote.unwrap());
}

/// What is read for nothing is read again with marks, which keep its place however often it is replaced.
#[test]
fn the_second_attempt_leaves_marks() {
    let (db, tables) = stage(None, Protocol::Dynamic);
    let [mut s1, mut s2] = sessions(&db);
    let mut attempts = 0;
    let policy = Policy { reads_only: true, ..Policy::default() };
    let values = s1
        .transact_with(&policy, |tx| {
            attempts += 1;
            let x = tx.need(&tables[0], 1)?;
            write(&mut s2, &tables).unwrap();
            Ok([x, tx.need(&tables[0], 2)?])
        })
        .unwrap();
    assert_eq!((attempts, values), (2, [1, 0]));
}

/// A transaction that was expected to read, and writes, is as right as any.
#[test]
fn a_hint_that_is_wrong_does_no_harm() {
    let mut committed = 0;
    for touch in 0.. {
        let (db, [x, y]) = stage(None, Protocol::Dynamic);
        let [mut s1, mut s2] = sessions(&db);
        let mut other = None;
        // Each reads what the other writes: not both may commit.
        let one = interrupted(
            At::Touch(touch),
            || {
                other = Some(
                    s2.transact_with(&once(), |tx| tx.need(&y, 1).and_then(|y| tx.write(&x, 1, y + 1)))
                        .is_ok(),
                )
            },
            || s1.transact_with(&once(), |tx| tx.need(&x, 1).and_then(|x| tx.write(&y, 1, x + 1))),
        );
        let Some(other) = other else { break };
        let mut session = db.session().unwrap();
        let values = session.transact(|tx| Ok((tx.need(&x, 1)?, tx.need(&y, 1)?))).unwrap();
        match (one.is_ok(), other) {
            (true, true) => assert!(values == (1, 2) || values == (2, 1), "{values:?} in touch {touch}"),
            (true, false) => assert_eq!(values, (0, 1)),
            (false, true) => assert_eq!(values, (1, 0)),
            (false, false) => assert_eq!(values, (0, 0)),
        }
        committed += usize::from(one.is_ok()) + usize::from(other);
    }
    assert!(committed > 0);
}
