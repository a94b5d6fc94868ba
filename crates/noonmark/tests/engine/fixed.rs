//! Multiversion timestamp ordering, under `fixed`: each test fails if the rule that it is named after is broken.
//!
//! As in `rules.rs` one thread plays all parts; transactions that were begun by hand begin in the order in which
//! they stand here.

use crate::stage_support::{At, Stage, builder, interrupted, sessions, table};
use noonmark::{
    AbortKind, Bug, Builder, Database, IndexKind, Order, Protocol, SchemaError, Session, Table, TableOptions,
};
use std::ops::ControlFlow;

type Rows = Table<u64, u64>;

/// A database with one table, and the rows 1 to 4, all 0.
fn stage_on(builder: Builder<Stage>) -> (Database<Stage>, Rows) {
    let db = builder.build().unwrap();
    let rows = table(&db, "rows", Protocol::Fixed);
    let mut session = db.session().unwrap();
    session.transact(|tx| (1..=4).try_for_each(|key| tx.insert(&rows, key, 0).map(|_| ()))).unwrap();
    (db, rows)
}

fn stage() -> (Database<Stage>, Rows) {
    stage_on(builder())
}

fn write(session: &mut Session<Stage>, rows: &Rows, key: u64, value: u64) {
    session.transact(|tx| tx.write(rows, key, value).map(|there| assert!(there))).unwrap();
}

/// Whoever has begun sees what was there then, whatever others do meanwhile, and commits.
#[test]
fn a_reader_sees_what_was_there_when_it_began() {
    let (db, rows) = stage();
    assert_eq!(db.order(), Some(Order::Beginning));
    let [mut s1, mut s2] = sessions(&db);
    let mut reader = s1.begin();
    for round in 1..=200 {
        write(&mut s2, &rows, 1, round);
        s2.transact(|tx| tx.update(&rows, 2, |value| *value += 1)).unwrap();
        s2.transact(|tx| tx.add(&rows, 3, |value| value, 1)).unwrap();
    }
    s2.transact(|tx| tx.delete(&rows, 4)).unwrap();
    s2.transact(|tx| tx.insert(&rows, 5, 1)).unwrap();
    assert_eq!(reader.range(&rows, ..).collect().unwrap(), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    assert_eq!(reader.get(&rows, 4).unwrap(), Some(0));
    assert_eq!(reader.get(&rows, 5).unwrap(), None);
    let mut seen = Vec::new();
    reader.get_many(&rows, &[1, 2, 3, 4, 5, 6], |_, value| seen.push(value)).unwrap();
    assert_eq!(seen, [Some(0), Some(0), Some(0), Some(0), None, None]);
    reader.commit().unwrap();
    let now = s1.transact(|tx| tx.range(&rows, ..).collect()).unwrap();
    assert_eq!(now, [(1, 200), (2, 200), (3, 200), (5, 1)]);
}

/// Whoever reads what is under the intent of somebody who is later is seen by those who are earlier, also when that intent is gone.
#[test]
fn a_read_under_an_intent_is_seen_by_who_began_before() {
    for bug in [None, Some(Bug::ReadUnderIntentUnseen)] {
        let builder = builder();
        let (db, rows) = stage_on(match bug {
            Some(bug) => builder.plant(bug),
            None => builder,
        });
        let [mut s1, mut s2, mut s3] = sessions(&db);
        let (mut earlier, mut reader, mut later) = (s1.begin(), s2.begin(), s3.begin());
        later.write(&rows, 1, 30).unwrap();
        assert_eq!(reader.need(&rows, 1).unwrap(), 0);
        drop(later);
        let written = earlier.write(&rows, 1, 10).and_then(|_| earlier.write(&rows, 2, 10));
        let committed = written.and_then(|_| earlier.commit()).is_ok();
        assert_eq!(committed, bug.is_some());
        // Else the reader would have seen one of both as it was before, and the other as it was after.
        assert_eq!(reader.need(&rows, 2).unwrap(), if committed { 10 } else { 0 });
        reader.commit().unwrap();
    }
}

/// Each of several readers its own version, also of long values and of rows that come and go.
#[test]
fn each_reader_sees_its_own_version() {
    for index in [IndexKind::Hash, IndexKind::Ordered] {
        let db = builder().build().unwrap();
        let options = TableOptions::new().protocol(Protocol::Fixed).index(index);
        let rows: Table<u64, (u64, Vec<u8>)> = db.create_table("rows", options).unwrap();
        let [mut writer, s1, s2, s3, s4] = sessions(&db);
        let mut sessions = [s1, s2, s3, s4];
        let row = |n: u64| (n, vec![n as u8; 300 + n as usize]);
        let mut readers = Vec::new();
        for (n, session) in (0..).zip(&mut sessions) {
            readers.push(session.begin());
            writer.transact(|tx| tx.upsert(&rows, 1, row(n))).unwrap();
            writer.transact(|tx| tx.delete(&rows, 1).map(|there| assert!(there))).unwrap();
            writer.transact(|tx| tx.upsert(&rows, 1, row(100 + n))).unwrap();
        }
        for (n, mut reader) in (0..).zip(readers) {
            let expected = (n > 0).then(|| row(100 + n - 1));
            assert_eq!(reader.get(&rows, 1).unwrap(), expected, "{index:?}");
            reader.commit().unwrap();
        }
    }
}

/// Whoever would write before somebody has read, or before another version, aborts, and is told so.
#[test]
fn a_writer_who_comes_too_late_aborts() {
    let (db, rows) = stage();
    let [mut s1, mut s2] = sessions(&db);
    let mut early = s1.begin();
    assert_eq!(s2.transact(|tx| tx.need(&rows, 1)).unwrap(), 0);
    let abort = early.write(&rows, 1, 1).unwrap_err();
    assert_eq!((abort.kind(), abort.rule()), (AbortKind::Conflict, "fixed: write"));
    let text = abort.to_string();
    assert!(text.contains("rows[1]") && text.contains("somebody has read at"), "{text}");
    drop(early);

    let mut early = s1.begin();
    write(&mut s2, &rows, 1, 1);
    let text = early.write(&rows, 1, 2).unwrap_err().to_string();
    assert!(text.contains("has written at") && text.contains("transaction 1/"), "{text}");
    drop(early);

    // A commit-time update is not asked before the commit, and then so.
    let mut early = s1.begin();
    early.add(&rows, 1, |value| value, 1).unwrap();
    assert_eq!(s2.transact(|tx| tx.need(&rows, 1)).unwrap(), 1);
    assert_eq!(early.commit().unwrap_err().rule(), "fixed: write");
    // What was only read by who came before is no hindrance.
    let mut early = s1.begin();
    let mut late = s2.begin();
    assert_eq!(early.need(&rows, 1).unwrap(), 1);
    late.write(&rows, 1, 3).unwrap();
    late.commit().unwrap();
    early.commit().unwrap();
}

/// What was locked to be written, and then was not, was read.
#[test]
fn what_was_locked_and_kept_was_read() {
    let (db, rows) = stage();
    let [mut s1, mut s2] = sessions(&db);
    let mut early = s1.begin();
    assert!(!s2.transact(|tx| tx.insert(&rows, 1, 5)).unwrap());
    early.write(&rows, 1, 1).unwrap_err();
}

/// An intent is no hindrance for who reads at an earlier time; but what is read under it was read.
#[test]
fn who_began_before_an_intent_reads_what_is_under_it() {
    let (db, rows) = stage();
    let [mut s1, mut s2, mut s3] = sessions(&db);
    let mut first = s1.begin();
    let mut second = s2.begin();
    let mut third = s3.begin();
    third.write(&rows, 1, 3).unwrap();
    assert_eq!(second.need(&rows, 1).unwrap(), 0);
    drop(third);
    // Who read under it has raised the read time, though the intent is gone.
    first.write(&rows, 1, 1).unwrap_err();
    drop(first);
    assert_eq!(second.need(&rows, 1).unwrap(), 0);
    second.commit().unwrap();
}

/// An intent is in the way of who reads later, and of who writes: the younger aborts, and the older makes it abort.
#[test]
fn of_two_at_an_intent_the_younger_aborts() {
    let (db, rows) = stage();
    let [mut s1, mut s2] = sessions(&db);
    let mut older = s1.begin();
    let mut younger = s2.begin();
    older.write(&rows, 1, 1).unwrap();
    let abort = younger.get(&rows, 1).unwrap_err();
    assert_eq!(abort.rule(), "fixed: read");
    assert!(abort.to_string().contains("locked by transaction 0/"), "{abort}");
    drop(younger);
    older.commit().unwrap();

    let mut older = s1.begin();
    let mut younger = s2.begin();
    younger.write(&rows, 1, 2).unwrap();
    let rows = &rows;
    let wounded = move || {
        let abort = younger.commit().unwrap_err();
        assert!(abort.to_string().contains("which is older"), "{abort}");
    };
    assert!(interrupted(At::Wait, wounded, || older.write(rows, 1, 3)).unwrap());
    older.commit().unwrap();
    assert_eq!(s2.transact(|tx| tx.need(rows, 1)).unwrap(), 3);
}

/// A range that was looked at stays as it is for that time: who would put a row in before it aborts, who puts one in
/// later is not seen.
#[test]
fn a_range_stays_as_it_was_seen() {
    for bug in [None, Some(Bug::SkipLeafCheck)] {
        let (db, rows) = stage_on(match bug {
            Some(bug) => builder().plant(bug),
            None => builder(),
        });
        let [mut s1, mut s2, mut s3] = sessions(&db);
        let mut early = s1.begin();
        let mut scanning = s2.begin();
        assert_eq!(scanning.range(&rows, 5..).collect().unwrap(), []);
        assert_eq!(scanning.get(&rows, 8).unwrap(), None);
        s3.transact(|tx| tx.insert(&rows, 6, 6)).unwrap();
        let refused = early.insert(&rows, 7, 7).and_then(|_| early.commit());
        assert_eq!(refused.is_err(), bug.is_none());
        if bug.is_none() {
            assert_eq!(scanning.range(&rows, 5..).collect().unwrap(), []);
            scanning.commit().unwrap();
        }
    }
}

/// T1 reads x and writes y, T2 reads y and writes x: not both, but in snapshot order. And no update is lost in either.
#[test]
fn snapshots_lose_no_update_but_skew() {
    for (order, both) in [(Order::Beginning, false), (Order::Snapshot, true)] {
        let (db, rows) = stage_on(builder().order(order));
        let [mut s1, mut s2] = sessions(&db);
        let mut first = s1.begin();
        let mut second = s2.begin();
        assert_eq!(first.need(&rows, 1).unwrap() + second.need(&rows, 2).unwrap(), 0);
        let refused = first.write(&rows, 2, 1).is_err();
        assert_eq!(refused, !both, "{order}");
        if refused {
            drop(first);
        } else {
            first.commit().unwrap();
        }
        second.write(&rows, 1, 1).unwrap();
        second.commit().unwrap();

        let mut first = s1.begin();
        let mut second = s2.begin();
        assert_eq!(first.need(&rows, 3).unwrap(), 0);
        assert_eq!(second.need(&rows, 3).unwrap(), 0);
        second.write(&rows, 3, 2).unwrap();
        second.commit().unwrap();
        first.write(&rows, 3, 1).unwrap_err();
    }
}

/// In snapshot order who writes later than it began is not seen by who began in between.
#[test]
fn a_snapshot_does_not_change() {
    let (db, rows) = stage_on(builder().order(Order::Snapshot));
    let [mut s1, mut s2] = sessions(&db);
    let mut writing = s1.begin();
    let mut reading = s2.begin();
    assert_eq!(reading.need(&rows, 1).unwrap(), 0);
    writing.write(&rows, 1, 1).unwrap();
    let time = writing.commit().unwrap().time;
    assert_eq!(reading.need(&rows, 1).unwrap(), 0);
    assert_eq!(reading.range(&rows, ..=2).collect().unwrap(), [(1, 0), (2, 0)]);
    assert!(reading.commit().unwrap().time < time);
}

/// Who has begun before there was a table has begun all the same.
#[test]
fn who_begins_before_there_is_a_table_has_its_time() {
    let db = builder().order(Order::Beginning).build().unwrap();
    let [mut s1, mut s2] = sessions(&db);
    let mut early = s1.begin();
    let rows = table(&db, "rows", Protocol::Fixed);
    s2.transact(|tx| tx.insert(&rows, 1, 1)).unwrap();
    assert_eq!(early.get(&rows, 1).unwrap(), None);
    early.commit().unwrap();
    // It has not read at the end of time, which nobody could write after.
    write(&mut s2, &rows, 1, 2);
    assert_eq!(s1.transact(|tx| tx.get(&rows, 1)).unwrap(), Some(2));
}

/// Such tables go with no others.
#[test]
fn it_goes_with_no_other_protocol() {
    for &other in Protocol::ALL.iter().filter(|other| **other != Protocol::Fixed) {
        let db = Database::in_memory();
        let with = |protocol| TableOptions::new().protocol(protocol);
        db.create_table::<u64, u64>("first", with(other)).unwrap();
        let refused = db.create_table::<u64, u64>("second", with(Protocol::Fixed)).unwrap_err();
        assert_eq!(refused, SchemaError::NoCommonOrder("second".into(), Protocol::Fixed, other));
        let db = Database::builder().order(Order::Beginning).build().unwrap();
        let refused = db.create_table::<u64, u64>("first", with(other)).unwrap_err();
        assert_eq!(refused, SchemaError::WrongOrder("first".into(), other, Order::Beginning));
    }
    let db = Database::in_memory();
    db.transact(|_| Ok(())).unwrap();
    let late = db.create_table::<u64, u64>("late", TableOptions::new().protocol(Protocol::Fixed));
    assert!(
        late.unwrap_err().to_string().contains("commits in momentary order"),
        "settled by the first transaction"
    );
}

/// A long scan beside threads that write, insert and delete: it always sees one state, and is never in anybody's way
/// for ever. The total is the same in every state.
#[test]
fn long_readers_see_one_state_beside_writers() {
    let db = Database::in_memory();
    let options = TableOptions::new().protocol(Protocol::Fixed);
    let rows: Rows = db.create_table("rows", options).unwrap();
    db.transact(|tx| (0..200).try_for_each(|key| tx.insert(&rows, key, 10).map(|_| ()))).unwrap();
    std::thread::scope(|scope| {
        let begin = |thread| {
            let (db, rows) = (&db, &rows);
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                for round in 0..3_000_u64 {
                    let (from, to) = ((round * 7 + thread) % 200, (round * 13 + 5 * thread + 1) % 200);
                    if from == to {
                        continue;
                    }
                    session
                        .transact(|tx| {
                            let Some(value) = tx.get(rows, from)? else { return Ok(()) };
                            tx.delete(rows, from)?;
                            match tx.get(rows, to)? {
                                Some(there) => tx.write(rows, to, there + value).map(drop),
                                None => tx.insert(rows, to, value).map(drop),
                            }?;
                            // And half of it back, if there is anything to halve.
                            if value > 1 {
                                tx.insert(rows, from, value / 2)?;
                                tx.update(rows, to, |there| *there -= value / 2)?;
                            }
                            Ok(())
                        })
                        .unwrap();
                }
            })
        };
        let threads = [0, 1].map(begin);
        for _ in 0..200 {
            let mut total = 0;
            db.view(|tx| {
                total = 0;
                tx.range(&rows, ..).for_each(|_, value| {
                    total += value;
                    ControlFlow::Continue(())
                })
            })
            .unwrap();
            assert_eq!(total, 2_000);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
