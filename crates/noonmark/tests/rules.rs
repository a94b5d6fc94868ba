//! Rules of the protocols, one by one: each test fails if its rule is broken.
//!
//! One thread plays all parts, and the host lets it act in the midst of an operation: where a rule is
//! about to touch a cell, or where a transaction has begun to wait. So what takes two threads and a bad
//! moment otherwise is one schedule here, the same at every run.
//!
//! What lies between two touches is for `tests/shuttle.rs`.

mod stage_support;

use noonmark::{
    Abort, AbortKind, Database, IndexKind, Order, Policy, Protocol, Session, Table, TableOptions,
};
use stage_support::{At, Stage, builder, commit_of, interrupted, sessions, table};

/// A session whose next commit is late in logical time, while all others may still commit early.
fn late(db: &Database<Stage>) -> Session<Stage> {
    let clock = table(db, "clock", Protocol::TicToc);
    let mut session = db.session().unwrap();
    session.transact(|tx| tx.insert(&clock, 1, 0)).unwrap();
    for _ in 0..20 {
        session.transact(|tx| tx.write(&clock, 1, 0)).unwrap();
    }
    session
}

// ---------------------------------------------------------------------------------------------------------
// tictoc, and logical order

/// `tictoc`'s validation raises the read time, then looks: whoever locks the cell between the check
/// before and the raise has read the old time, and commits before the reader does.
#[test]
fn tictoc_looks_again_after_it_has_raised_the_read_time() {
    let mut writer_alone = 0;
    for touch in 0.. {
        let db = builder().order(Order::Logical).build().unwrap();
        let [x, y] = ["x", "y"].map(|name| table(&db, name, Protocol::TicToc));
        let [mut s1, mut s2] = sessions(&db);
        s1.transact(|tx| {
            tx.insert(&x, 1, 0)?;
            tx.insert(&y, 1, 0)
        })
        .unwrap();
        // Now y holds for long, and x does not.
        late(&db).transact(|tx| tx.get(&y, 1)).unwrap();

        // Each reads what the other writes.
        let mut writer = s2.begin();
        assert_eq!(writer.get(&y, 1).unwrap(), Some(0));
        writer.write(&x, 1, 1).unwrap();
        let mut reader = s1.begin();
        assert_eq!(reader.get(&x, 1).unwrap(), Some(0));
        reader.write(&y, 1, 1).unwrap();
        let mut writer_came = None;
        let reader =
            interrupted(At::Touch(touch), || writer_came = Some(writer.commit()), || reader.commit());
        let Some(writer) = writer_came else { break };
        assert!(reader.is_err() || writer.is_err(), "write skew, in touch {touch}");
        writer_alone += usize::from(writer.is_ok());
    }
    assert!(writer_alone >= 2, "it can commit before the reader seals, and before it raises");
}

/// A row whose record has left the index is still not absent before its deletion: the node remembers.
#[test]
fn who_no_longer_finds_a_row_comes_after_its_deletion() {
    for index in [IndexKind::Hash, IndexKind::Ordered] {
        let db = builder().order(Order::Logical).build().unwrap();
        let options = || TableOptions::new().protocol(Protocol::TicToc).index(index);
        let rows: Table<u64, u64> = db.create_table("rows", options()).unwrap();
        let other: Table<u64, u64> = db.create_table("other", options()).unwrap();
        let mut deleting = late(&db);
        let [mut filling, mut early] = sessions(&db);
        let empty_bytes = rows.index_bytes();
        // As many as make the index grow, so that it is seen to shrink.
        const ROWS: u64 = 3_000;
        filling.transact(|tx| (0..ROWS).try_for_each(|key| tx.insert(&rows, key, 0).map(|_| ()))).unwrap();
        let deleted = commit_of(&mut deleting, |tx| {
            for key in 0..ROWS {
                assert!(tx.delete(&rows, key).unwrap());
            }
        });
        for key in 0..2_000 {
            deleting.transact(|tx| tx.insert(&other, key, 0)).unwrap();
            deleting.transact(|tx| tx.delete(&other, key)).unwrap();
        }
        if index == IndexKind::Ordered {
            assert_eq!(rows.index_bytes(), empty_bytes, "all records have left");
        }
        for key in [0, ROWS / 2, ROWS - 1] {
            let missed = commit_of(&mut early, |tx| assert_eq!(tx.get(&rows, key).unwrap(), None));
            assert!(missed >= deleted, "{index:?}: {missed}, and deleted at {deleted}");
            early = db.session().unwrap();
        }
        if index == IndexKind::Ordered {
            let [mut early] = sessions(&db);
            let missed = commit_of(&mut early, |tx| assert_eq!(tx.range(&rows, ..).collect().unwrap(), []));
            assert!(missed >= deleted, "a scan at {missed}, and deleted at {deleted}");
        }
    }
}

/// Who saw a key absent comes before whoever inserts it, also if there never was a record under it.
#[test]
fn a_row_is_inserted_after_those_who_saw_no_record() {
    for index in [IndexKind::Hash, IndexKind::Ordered] {
        let db = builder().order(Order::Logical).build().unwrap();
        let options = TableOptions::new().protocol(Protocol::TicToc).index(index);
        let rows: Table<u64, u64> = db.create_table("rows", options).unwrap();
        let missed = commit_of(&mut late(&db), |tx| assert_eq!(tx.get(&rows, 1).unwrap(), None));
        let [mut early] = sessions(&db);
        let inserted = commit_of(&mut early, |tx| assert!(tx.insert(&rows, 1, 1).unwrap()));
        assert!(inserted > missed, "{index:?}: {inserted} after {missed}");
    }
}

/// A session's later transaction comes after its earlier one, also if they have nothing in common.
#[test]
fn a_session_does_not_go_back_in_logical_time() {
    let db = builder().order(Order::Logical).build().unwrap();
    let rows = table(&db, "rows", Protocol::TicToc);
    let mut session = late(&db);
    let [mut early] = sessions(&db);
    let written = commit_of(&mut session, |tx| assert!(tx.insert(&rows, 1, 0).unwrap()));
    let read = commit_of(&mut session, |tx| assert_eq!(tx.get(&rows, 2).unwrap(), None));
    assert!(read >= written);
    let other = commit_of(&mut early, |tx| assert_eq!(tx.get(&rows, 1000).unwrap(), None));
    assert!(other < read, "it is the session that has come this far, not the database");
}

// ---------------------------------------------------------------------------------------------------------
// Rows that are written unread

/// A row that is written unread must exist when it is locked: somebody may have deleted it since it was
/// found.
#[test]
fn a_row_that_is_deleted_under_way_is_not_written() {
    for &protocol in Protocol::ALL {
        let db = builder().build().unwrap();
        let rows = table(&db, "rows", protocol);
        let [mut s1, mut s2] = sessions(&db);
        for at_commit in [false, true] {
            s1.transact(|tx| tx.upsert(&rows, 1, 0)).unwrap();
            let mut writing = s1.begin();
            if at_commit {
                writing.apply(&rows, 1, |value| *value += 1).unwrap();
            } else {
                assert!(writing.write(&rows, 1, 1).unwrap());
            }
            let deleted = s2.transact_with(&Policy::once(), |tx| tx.delete(&rows, 1));
            let wrote = writing.commit();
            assert!(deleted.is_err() || wrote.is_err(), "{protocol}, at commit: {at_commit}");
            assert!(!at_commit || deleted.is_ok(), "{protocol}: an update at commit locks late");
            let left = s1.transact(|tx| tx.get(&rows, 1)).unwrap();
            assert_eq!(left.is_some(), deleted.is_err(), "{protocol}, at commit: {at_commit}");
        }
    }
}

// ---------------------------------------------------------------------------------------------------------
// Locks

const TWO_PHASE: [Protocol; 3] =
    [Protocol::TwoPhaseNoWait, Protocol::TwoPhaseWaitDie, Protocol::TwoPhaseWoundWait];

/// A writer leaves readers alone, be they older or younger, until they have ended.
#[test]
fn a_writer_looks_at_readers() {
    for protocol in TWO_PHASE {
        for reader_is_older in [true, false] {
            let db = builder().build().unwrap();
            let rows = table(&db, "rows", protocol);
            let [mut s1, mut s2] = sessions(&db);
            s1.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
            let [mut reader, mut writer];
            if reader_is_older {
                reader = s1.begin();
                writer = s2.begin();
            } else {
                writer = s2.begin();
                reader = s1.begin();
            }
            assert_eq!(reader.get(&rows, 1).unwrap(), Some(0));
            let refused = writer.write(&rows, 1, 1).expect_err("there is a reader");
            assert!(refused.is_retryable(), "{protocol}: {refused}");
            drop(writer);
            assert_eq!(reader.get(&rows, 1).unwrap(), Some(0));
        }
    }
}

/// What one transaction holds that another waits for.
#[derive(Clone, Copy, Debug)]
enum Held {
    Read,
    Write,
}

/// How it ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Commit,
    RollBack,
}

/// Whoever waits is woken when the other lets go: never more than one of the two is refused.
#[test]
fn who_waits_for_a_lock_is_woken_when_it_is_let_go() {
    use Protocol::{Swiss, TwoPhaseWaitDie, TwoPhaseWoundWait};
    for (protocol, holder_is_older) in [
        (TwoPhaseWaitDie, false),
        (TwoPhaseWoundWait, true),
        // Wounds the holder, then waits until it is gone.
        (TwoPhaseWoundWait, false),
        (Swiss, false),
    ] {
        for held in [Held::Read, Held::Write] {
            for wants in [Held::Read, Held::Write] {
                // Nobody waits for a reader to read; and under swiss readers neither wait nor are waited for.
                let waits = match (held, wants) {
                    (Held::Read, Held::Read) => false,
                    (Held::Write, Held::Write) => true,
                    _ => protocol != Swiss,
                };
                if !waits {
                    continue;
                }
                for end in [End::Commit, End::RollBack] {
                    let what = format!(
                        "{protocol}: {held:?}, {end:?}; wanted: {wants:?}, older: {}",
                        !holder_is_older
                    );
                    let db = builder().build().unwrap();
                    let rows = table(&db, "rows", protocol);
                    let [mut s1, mut s2] = sessions(&db);
                    s1.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
                    let [mut holder, mut waiter];
                    if holder_is_older {
                        holder = s1.begin();
                        waiter = s2.begin();
                    } else {
                        waiter = s2.begin();
                        holder = s1.begin();
                    }
                    match held {
                        Held::Read => assert_eq!(holder.get(&rows, 1).unwrap(), Some(0)),
                        Held::Write => assert!(holder.write(&rows, 1, 1).unwrap()),
                    }
                    let mut waited = false;
                    let let_go = || {
                        waited = true;
                        match end {
                            // It may have been wounded; that lets go as well.
                            End::Commit => drop(holder.commit()),
                            End::RollBack => holder.rollback(),
                        }
                    };
                    let granted = interrupted(At::Wait, let_go, || match wants {
                        Held::Read => waiter.get(&rows, 1).map(|value| value.is_some()),
                        Held::Write => waiter.write(&rows, 1, 2),
                    });
                    assert!(granted.unwrap_or_else(|abort| panic!("{what}: {abort}")), "{what}");
                    assert!(waited, "{what}");
                    waiter.commit().unwrap();
                }
            }
        }
    }
}

/// Whoever waits is woken when it is wounded, though what it waits for is not let go.
#[test]
fn who_waits_is_woken_by_a_wound() {
    let db = builder().build().unwrap();
    let rows = table(&db, "rows", Protocol::TwoPhaseWoundWait);
    let [mut s1, mut s2, mut s3] = sessions(&db);
    s1.transact(|tx| {
        tx.insert(&rows, 1, 0)?;
        tx.insert(&rows, 2, 0)
    })
    .unwrap();
    let [mut oldest, mut older, mut waiter] = [s1.begin(), s2.begin(), s3.begin()];
    older.write(&rows, 1, 1).unwrap();
    waiter.write(&rows, 2, 1).unwrap();
    let wants = || {
        oldest.write(&rows, 2, 2).expect_err("the waiter has not let go yet");
    };
    let told: Abort = interrupted(At::Wait, wants, || waiter.write(&rows, 1, 2)).unwrap_err();
    assert_eq!(told.kind(), AbortKind::Conflict, "woken, not asleep until its deadline: {told}");
    assert!(told.to_string().contains("older transaction wanted"), "{told}");
    older.commit().unwrap();
}

/// A transaction that was wounded does not commit, though it holds all that it wants.
#[test]
fn who_is_wounded_does_not_pass_its_commit_point() {
    for protocol in [Protocol::TwoPhaseWoundWait, Protocol::Swiss] {
        let db = builder().build().unwrap();
        let rows = table(&db, "rows", protocol);
        let [mut s1, mut s2] = sessions(&db);
        s1.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
        let [mut older, mut younger] = [s1.begin(), s2.begin()];
        younger.write(&rows, 1, 1).unwrap();
        let late = older.write(&rows, 1, 2).expect_err("it would wait until the younger has let go");
        assert_eq!(late.kind(), AbortKind::Deadline, "{protocol}: {late}");
        let wounded = younger.commit().expect_err("it was wounded");
        assert!(wounded.to_string().contains("older transaction wanted"), "{protocol}: {wounded}");
        drop(older);
        assert_eq!(s1.transact(|tx| tx.get(&rows, 1)).unwrap(), Some(0), "{protocol}");
    }
}

/// Past its commit point a transaction is not wounded: the older waits, and comes after it.
#[test]
fn who_has_passed_its_commit_point_is_not_wounded() {
    for protocol in [Protocol::TwoPhaseWoundWait, Protocol::Swiss] {
        let (mut before, mut after) = (0, 0);
        for touch in 0.. {
            let db = builder().build().unwrap();
            let rows = table(&db, "rows", protocol);
            let [mut s1, mut s2] = sessions(&db);
            s1.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
            let [mut older, mut younger] = [s1.begin(), s2.begin()];
            younger.write(&rows, 1, 1).unwrap();
            let mut tried = None;
            let wants = || tried = Some(older.write(&rows, 1, 2).is_err());
            let younger = interrupted(At::Touch(touch), wants, || younger.commit());
            let Some(had_to_wait) = tried else { break };
            // Unless the younger has let go already: it touches its slot after that.
            assert!(had_to_wait || younger.is_ok(), "{protocol}, touch {touch}");
            drop(older);
            let value = s1.transact(|tx| tx.get(&rows, 1)).unwrap();
            assert_eq!(value, Some(u64::from(younger.is_ok())), "{protocol}, touch {touch}");
            *if younger.is_ok() { &mut after } else { &mut before } += 1;
        }
        assert!(after > 0, "{protocol}: {before} before the commit point, {after} after it");
    }
}
