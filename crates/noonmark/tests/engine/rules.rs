//! Rules of the protocols, one by one: each test fails if its rule is broken.
//!
//! One thread plays all parts, and the host lets it act in the midst of an operation: where a rule is
//! about to touch a cell, or where a transaction has begun to wait. So what takes two threads and a bad
//! moment otherwise is one schedule here, the same at every run.
//!
//! What lies between two touches is for `tests/shuttle.rs`.

use crate::stage_support::{At, Stage, builder, commit_of, interrupted, sessions, table};
use noonmark::{
    Abort, AbortKind, Bug, Database, IndexKind, Leases, Order, Policy, Protocol, Session, Table,
    TableOptions, Timestamp, Transaction,
};

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

/// The protocols that keep read times, and mixes of them: [`skews`] needs two tables.
const LEASED: [[Protocol; 2]; 4] = [
    [Protocol::TicToc, Protocol::TicToc],
    [Protocol::Sundial, Protocol::Sundial],
    [Protocol::TicToc, Protocol::Sundial],
    [Protocol::Sundial, Protocol::TicToc],
];

/// Validation raises the read time, then looks: whoever locks the cell between the check before and the
/// raise has read the old time, and commits before the reader does. In any mix of tables that keep read times
/// [Sundial §3.3.2, Algorithm 2: renewing a lease is one atomic step].
#[test]
fn a_read_time_is_raised_before_the_last_look() {
    for [first, second] in LEASED {
        let outcomes = skews(first, second, Some(Order::Logical), None);
        assert!(!outcomes.contains(&[true; 2]), "{first} and {second}: write skew: {outcomes:?}");
        let other_alone = outcomes.iter().filter(|outcome| **outcome == [false, true]).count();
        assert!(other_alone >= 2, "it can commit before the first one seals, and before it raises");
    }
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
        // Numbers so large that no places grow with their rows.
        let keys = || (1 << 40)..(1 << 40) + ROWS;
        filling.transact(|tx| keys().try_for_each(|key| tx.insert(&rows, key, 0).map(|_| ()))).unwrap();
        let deleted = commit_of(&mut deleting, |tx| {
            for key in keys() {
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
        for key in [0, ROWS / 2, ROWS - 1].map(|number| (1 << 40) + number) {
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

/// Who has the lock for writing may not write while somebody reads: a writer waits for every reader, also if it comes to the row only when it commits, and
/// asks once more when one of them has left.
#[test]
fn a_writer_waits_for_every_reader() {
    for (protocol, writer_is_older) in
        [(Protocol::TwoPhaseWaitDie, true), (Protocol::TwoPhaseWoundWait, false)]
    {
        for writes_at_commit in [false, true] {
            for one_stays in [false, true] {
                let db = builder().build().unwrap();
                let rows = table(&db, "rows", protocol);
                let [mut s1, mut s2, mut s3] = sessions(&db);
                s1.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
                // (Whoever begins first is older.)
                let (mut writer, mut readers);
                if writer_is_older {
                    writer = s3.begin();
                    readers = [s1.begin(), s2.begin()].map(Some);
                } else {
                    readers = [s1.begin(), s2.begin()].map(Some);
                    writer = s3.begin();
                }
                for reader in readers.iter_mut().flatten() {
                    assert_eq!(reader.get(&rows, 1).unwrap(), Some(0));
                }
                if writes_at_commit {
                    writer.add(&rows, 1, |value| value, 1).unwrap();
                }
                let leave = || {
                    let leaving = if one_stays { 1 } else { 2 };
                    readers[..leaving].iter_mut().for_each(|reader| drop(reader.take()));
                };
                let written = interrupted(At::Wait, leave, || match writes_at_commit {
                    true => writer.commit().map(|_| ()),
                    false => writer.write(&rows, 1, 1).map(|_| drop(writer)),
                });
                assert_eq!(
                    written.is_ok(),
                    !one_stays,
                    "{protocol}, at commit: {writes_at_commit}: {written:?}"
                );
                assert!(readers[0].is_none(), "{protocol}: nobody waited");
            }
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
    use Protocol::{Sundial, Swiss, TwoPhaseWaitDie, TwoPhaseWoundWait};
    for (protocol, holder_is_older) in [
        (TwoPhaseWaitDie, false),
        (TwoPhaseWoundWait, true),
        // Wounds the holder, then waits until it is gone.
        (TwoPhaseWoundWait, false),
        (Swiss, false),
        (Sundial, false),
    ] {
        for held in [Held::Read, Held::Write] {
            for wants in [Held::Read, Held::Write] {
                // Nobody waits for a reader to read; and under swiss and sundial readers neither wait nor are waited for.
                let waits = match (held, wants) {
                    (Held::Read, Held::Read) => false,
                    (Held::Write, Held::Write) => true,
                    _ => ![Swiss, Sundial].contains(&protocol),
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
    // What it held, not what it was about to take.
    let said = (told.table(), told.key().unwrap(), told.other());
    assert_eq!(said, (Some("rows"), "2".to_owned(), Some(oldest.id())), "{told}");
    older.commit().unwrap();
}

/// A transaction that was wounded does not commit, though it holds all that it wants.
#[test]
fn who_is_wounded_does_not_pass_its_commit_point() {
    for protocol in [Protocol::TwoPhaseWoundWait, Protocol::Swiss] {
        let db = builder().build().unwrap();
        let rows = table(&db, "rows", protocol);
        let [mut s1, mut s2] = sessions(&db);
        s1.transact(|tx| {
            tx.insert(&rows, 7, 0)?;
            tx.insert(&rows, 1, 0)
        })
        .unwrap();
        let [mut older, mut younger] = [s1.begin(), s2.begin()];
        younger.write(&rows, 7, 1).unwrap();
        younger.write(&rows, 1, 1).unwrap();
        let late = older.write(&rows, 1, 2).expect_err("it would wait until the younger has let go");
        assert_eq!(late.kind(), AbortKind::Deadline, "{protocol}: {late}");
        let wounded = younger.commit().expect_err("it was wounded");
        let said = (wounded.key().unwrap(), wounded.other());
        assert_eq!(said, ("1".to_owned(), Some(older.id())), "{protocol}: {wounded}");
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

// ---------------------------------------------------------------------------------------------------------
// adaptive

/// Two hot rows of an `adaptive` table: readers that were overtaken have made them so.
fn hot_rows(db: &Database<Stage>) -> Table<u64, u64> {
    let rows = table(db, "rows", Protocol::Adaptive);
    let [mut reading, mut writing] = sessions(db);
    for key in [1, 2] {
        reading.transact(|tx| tx.insert(&rows, key, 0)).unwrap();
        // From when on a row is hot is the protocol's affair: then its readers keep writers out.
        let is_hot = (0..100).any(|_| {
            let mut overtaken = reading.begin();
            overtaken.get(&rows, key).unwrap();
            let written = writing.transact_with(&Policy::once(), |tx| tx.write(&rows, key, 0));
            assert_eq!(overtaken.commit().is_err(), written.is_ok());
            written.is_err()
        });
        assert!(is_hot);
    }
    rows
}

/// Who meets another at a hot row gives up at once, whichever of the two reads or writes: asking again, two that each
/// hold what the other wants would ask in vain. [Granularity §3.2: a strict lock, for which nobody waits].
#[test]
fn adaptive_gives_up_where_it_meets_another_at_a_hot_row() {
    type Step = fn(&mut Transaction<'_, Stage>, &Table<u64, u64>) -> Result<(), Abort>;
    let read: Step = |tx, rows| tx.get(rows, 1).map(drop);
    let update: Step = |tx, rows| tx.update(rows, 1, |value| *value += 1).map(drop);
    let write: Step = |tx, rows| tx.write(rows, 1, 7).map(drop);
    let read_to_write: Step = |tx, rows| {
        tx.get(rows, 1)?;
        tx.update(rows, 1, |value| *value += 1).map(drop)
    };
    for (holds, meets, rule) in [
        (read, update, "adaptive: seal"),
        (read, read_to_write, "adaptive: seal"),
        (read, write, "adaptive: seal"),
        (update, read, "adaptive: read"),
        (update, update, "adaptive: seal"),
        (update, write, "adaptive: seal"),
    ] {
        let db = builder().build().unwrap();
        let rows = hot_rows(&db);
        let [mut s1, mut s2] = sessions(&db);
        let mut holder = s1.begin();
        holds(&mut holder, &rows).unwrap();
        let mut other = s2.begin();
        // Few touches: the row's, and none again.
        let met = interrupted(
            At::Touch(20),
            || panic!("it asks again and again"),
            || meets(&mut other, &rows).and_then(|()| other.commit()),
        );
        let abort = met.expect_err("the row is held");
        assert_eq!(abort.rule(), rule, "{abort}");
        holder.commit().expect("who was there first is not disturbed");
    }
}

/// Two that have read two hot rows, and write one each: the first to ask gives up at once, and the second commits.
#[test]
fn of_two_who_have_read_what_the_other_writes_adaptive_lets_one_through() {
    for update in [false, true] {
        let db = builder().build().unwrap();
        let rows = hot_rows(&db);
        let [mut s1, mut s2] = sessions(&db);
        let [mut one, mut other] = [s1.begin(), s2.begin()];
        for tx in [&mut one, &mut other] {
            for key in [1, 2] {
                assert_eq!(tx.get(&rows, key).unwrap(), Some(0));
            }
        }
        let write = |mut tx: Transaction<'_, Stage>, key| {
            match update {
                true => tx.update(&rows, key, |value| *value += 1).map(drop)?,
                false => tx.write(&rows, key, 1).map(drop)?,
            }
            tx.commit()
        };
        interrupted(At::Touch(20), || panic!("it asks again and again"), || write(one, 1))
            .expect_err("the other has read it");
        write(other, 2).expect("nobody is left who has read it");
    }
}

// ---------------------------------------------------------------------------------------------------------
// f1

/// Two transactions, each of which reads what the other writes: how many of them commit if the second comes to its
/// commit in the midst of that of the first, before each of its touches in turn.
fn skews(first: Protocol, second: Protocol, order: Option<Order>, bug: Option<Bug>) -> Vec<[bool; 2]> {
    let mut outcomes = Vec::new();
    for touch in 0.. {
        let builder = match order {
            Some(order) => builder().order(order),
            None => builder(),
        };
        let builder = match bug {
            Some(bug) => builder.plant(bug),
            None => builder,
        };
        let db = builder.build().unwrap();
        let [x, y] = [table(&db, "x", first), table(&db, "y", second)];
        let [mut s1, mut s2] = sessions(&db);
        s1.transact(|tx| {
            tx.insert(&x, 1, 0)?;
            tx.insert(&y, 1, 0)
        })
        .unwrap();
        if order == Some(Order::Logical) {
            // Now y holds for long, and x does not.
            late(&db).transact(|tx| tx.get(&y, 1)).unwrap();
        }
        let mut other = s2.begin();
        assert_eq!(other.get(&y, 1).unwrap(), Some(0));
        other.write(&x, 1, 1).unwrap();
        let mut one = s1.begin();
        assert_eq!(one.get(&x, 1).unwrap(), Some(0));
        one.write(&y, 1, 1).unwrap();
        let mut other_came = None;
        let one = interrupted(At::Touch(touch), || other_came = Some(other.commit()), || one.commit());
        let Some(other) = other_came else { break };
        outcomes.push([one.is_ok(), other.is_ok()]);
    }
    outcomes
}

/// [Sundial §6.2]: what was read is locked when it is looked at. If it were not, a look before the last write lock
/// would not do: then each of two can look before the other locks.
#[test]
fn f1_locks_what_it_looks_at() {
    let outcomes = skews(Protocol::F1, Protocol::F1, None, None);
    assert!(!outcomes.contains(&[true; 2]), "write skew: {outcomes:?}");
    assert!(outcomes.contains(&[true, false]), "who looks first can commit: {outcomes:?}");
    assert!(outcomes.contains(&[false, true]), "and who comes before the look: {outcomes:?}");
    let broken = skews(Protocol::F1, Protocol::F1, None, Some(Bug::SealWritesOnly));
    assert!(broken.contains(&[true; 2]), "{broken:?}");
}

/// [Sundial §6.2] in a database that mixes: the locks on what was read last until the others' tables have been
/// validated.
#[test]
fn f1_holds_what_it_has_read_while_others_are_validated() {
    // Not with those whose readers keep writers out while they execute.
    for other in [Protocol::Occ, Protocol::TicToc, Protocol::Swiss, Protocol::Adaptive] {
        for [first, second] in [[Protocol::F1, other], [other, Protocol::F1]] {
            let outcomes = skews(first, second, None, None);
            assert!(!outcomes.contains(&[true; 2]), "{first} and {second}: {outcomes:?}");
        }
    }
}

/// [Sundial §6.2]: a transaction that only reads locks as well, and a writer gives up if it meets that lock; what the
/// reader looks at after that is its own affair.
#[test]
fn f1_gives_up_where_somebody_is_locking_what_he_has_read() {
    let (mut refused, mut passed) = (0, 0);
    for touch in 0.. {
        let db = builder().build().unwrap();
        let [x, y] = ["x", "y"].map(|name| table(&db, name, Protocol::F1));
        let [mut s1, mut s2] = sessions(&db);
        s1.transact(|tx| {
            tx.insert(&x, 1, 0)?;
            tx.insert(&y, 1, 0)
        })
        .unwrap();
        let mut reader = s1.begin();
        for rows in [&x, &y] {
            assert_eq!(reader.get(rows, 1).unwrap(), Some(0));
        }
        let mut writer = s2.begin();
        writer.write(&x, 1, 1).unwrap();
        let mut writer_came = None;
        let reader =
            interrupted(At::Touch(touch), || writer_came = Some(writer.commit()), || reader.commit());
        let Some(writer) = writer_came else { break };
        match writer {
            Ok(_) => passed += 1,
            Err(abort) => {
                refused += 1;
                assert_eq!(abort.rule(), "f1: lock write", "touch {touch}: {abort}");
                assert!(abort.to_string().contains("being read"), "touch {touch}: {abort}");
                assert!(reader.is_ok(), "touch {touch}: who refuses others commits itself");
            }
        }
    }
    assert!(refused > 0 && passed > 0, "{refused} refused, {passed} passed");
}

/// Whoever has read a row and writes it is not kept from its write lock by another who is about to do the same.
#[test]
fn f1_does_not_lock_for_reading_what_it_writes() {
    let mut outcomes = Vec::new();
    for touch in 0.. {
        let db = builder().build().unwrap();
        let rows = table(&db, "rows", Protocol::F1);
        let [mut s1, mut s2] = sessions(&db);
        s1.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
        let [mut one, mut other] = [s1.begin(), s2.begin()];
        for tx in [&mut one, &mut other] {
            let count = tx.need(&rows, 1).unwrap();
            tx.write(&rows, 1, count + 1).unwrap();
        }
        let mut other_came = None;
        let one = interrupted(At::Touch(touch), || other_came = Some(other.commit()), || one.commit());
        let Some(other) = other_came else { break };
        assert!(one.is_ok() != other.is_ok(), "one of two, in touch {touch}: {one:?}, {other:?}");
        assert_eq!(s1.transact(|tx| tx.get(&rows, 1)).unwrap(), Some(1));
        outcomes.push(one.is_ok());
    }
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
}

/// Whoever calls itself off, or finds a row missing, has what it has seen looked at first; of that, too, nothing stays
/// locked.
#[test]
fn f1_leaves_no_lock_behind() {
    let db = builder().build().unwrap();
    let rows = table(&db, "rows", Protocol::F1);
    let [mut s1, mut s2] = sessions(&db);
    s1.transact(|tx| (1..=2).try_for_each(|key| tx.insert(&rows, key, 0).map(|_| ()))).unwrap();
    for missing in [false, true] {
        let ended: Result<(), Box<dyn std::error::Error>> = s1.try_transact(|tx| {
            tx.get(&rows, 1)?;
            tx.update(&rows, 2, |value| *value += 1)?;
            if missing {
                tx.need(&rows, 3)?;
            }
            Err("enough".into())
        });
        ended.unwrap_err();
        let both =
            |tx: &mut Transaction<'_, Stage>| (1..=2).try_for_each(|key| tx.update(&rows, key, |_| ()));
        s2.transact_with(&Policy::once(), both).unwrap();
    }
}

// ---------------------------------------------------------------------------------------------------------
// sundial

/// One row, 0, in each of two tables, of which the first holds for long.
fn leased(order: Order) -> (Database<Stage>, [Table<u64, u64>; 2]) {
    leased_with(order, Leases::default())
}

/// The same, of tables with these options.
fn leased_with(order: Order, leases: Leases) -> (Database<Stage>, [Table<u64, u64>; 2]) {
    let db = builder().order(order).build().unwrap();
    let options = || TableOptions::new().protocol(Protocol::Sundial).leases(leases);
    let tables = ["x", "y"].map(|name| db.create_table(name, options()).unwrap());
    db.transact(|tx| tables.iter().try_for_each(|rows| tx.insert(rows, 1, 0).map(|_| ()))).unwrap();
    late(&db).transact(|tx| tx.get(&tables[0], 1)).unwrap();
    (db, tables)
}

/// [Sundial §3.3.1]: a reader does not wait for whoever is going to write, and is not in its way; whichever of
/// them commits first, the reader comes before.
#[test]
fn sundial_reads_beside_a_writer() {
    for writer_first in [false, true] {
        let (db, [x, _]) = leased(Order::Logical);
        let [mut s1, mut s2] = sessions(&db);
        let mut writer = s1.begin();
        writer.write(&x, 1, 1).unwrap();
        let mut reader = s2.begin();
        assert_eq!(reader.get(&x, 1).unwrap(), Some(0));
        let (read, written) = if writer_first {
            let written = writer.commit().unwrap();
            (reader.commit().unwrap(), written)
        } else {
            (reader.commit().unwrap(), writer.commit().unwrap())
        };
        assert!(read.time < written.time, "{read:?}, {written:?}; the writer first: {writer_first}");
    }
}

/// [Sundial §3.1, Figure 2]: a lease that is over when the transaction must commit is renewed; not if the version has
/// been replaced (§5.1, case (b)).
#[test]
fn sundial_renews_the_lease_of_the_current_version_only() {
    for replaced in [false, true] {
        let (db, [x, y]) = leased(Order::Logical);
        let [mut s1, mut s2] = sessions(&db);
        let mut tx = s1.begin();
        assert_eq!(tx.get(&y, 1).unwrap(), Some(0));
        if replaced {
            s2.transact(|tx| tx.write(&y, 1, 1)).unwrap();
        }
        // After the lease of x, which lasts longer than that of y.
        tx.write(&x, 1, 1).unwrap();
        let committed = tx.commit();
        assert_eq!(committed.is_ok(), !replaced, "{committed:?}");
        if let Err(abort) = committed {
            assert_eq!(abort.rule(), "sundial: renew, replaced before");
            continue;
        }
        let time = committed.unwrap().time;
        let later = commit_of(&mut s2, |tx| assert!(tx.write(&y, 1, 1).unwrap()));
        assert!(later > time, "the lease of y lasts until {time}, and it is written at {later}");
    }
}

/// Case (c) of [Sundial §5.1] is an abort in the paper: a lease is renewed although somebody has the right to
/// write the row. Here he looks at the lease when he seals, and commits after it.
#[test]
fn sundial_renews_a_lease_over_the_head_of_a_writer_that_executes() {
    let (db, [x, y]) = leased(Order::Logical);
    let [mut s1, mut s2] = sessions(&db);
    let mut writer = s1.begin();
    writer.update(&y, 1, |value| *value += 1).unwrap();
    let renewed = commit_of(&mut s2, |tx| {
        assert_eq!(tx.get(&y, 1).unwrap(), Some(0));
        tx.write(&x, 1, 1).unwrap();
    });
    let written = writer.commit().unwrap().time;
    assert!(written > renewed, "{written} after {renewed}");
}

/// [Sundial §3.3.1]: what somebody is about to replace can be read up to the end of its lease, also while he commits. Who cannot commit by
/// then waits for what comes after it, and nobody extends the lease any more.
#[test]
fn sundial_reads_what_is_sealed_up_to_the_end_of_its_lease() {
    let [early, late] = [false, true].map(|is_late| {
        let mut outcomes = Vec::new();
        for touch in 0.. {
            let (db, [x, y]) = leased(Order::Logical);
            let [mut s1, mut s2] = sessions(&db);
            if is_late {
                // Later than the lease of y ends, and within that of x.
                let other = table(&db, "other", Protocol::TicToc);
                assert!(s2.transact(|tx| tx.insert(&other, 0, 0)).unwrap());
                (0..10).for_each(|_| assert!(s2.transact(|tx| tx.write(&other, 0, 0)).unwrap()));
            }
            let mut writer = s1.begin();
            writer.update(&x, 1, |value| *value += 1).unwrap();
            writer.update(&y, 1, |value| *value += 1).unwrap();
            let mut read = None;
            let look = || {
                let mut reader = s2.begin();
                let y = reader.get(&y, 1);
                read = Some(y.and_then(|y| Ok((y, reader.get(&x, 1)?, reader.commit()?.time))));
            };
            let written = interrupted(At::Touch(touch), look, || writer.commit()).unwrap().time;
            let Some(read) = read else { break };
            outcomes.push(match read {
                Ok((y, x, time)) => {
                    assert_eq!(y, x, "touch {touch}");
                    assert_eq!(
                        y == Some(1),
                        time >= written,
                        "{y:?} at {time}, written at {written}, touch {touch}"
                    );
                    if y == Some(1) { "the new" } else { "the old" }
                }
                Err(abort) => abort.rule(),
            });
        }
        outcomes
    });
    let is_sealed = |(early, late): (&&str, &&str)| *early == "the old" && *late == "sundial: read";
    assert!(early.iter().zip(&late).any(is_sealed), "{early:?}, {late:?}");
    assert!(
        [&early, &late].iter().all(|outcomes| outcomes.last() == Some(&"the new")),
        "{early:?}, {late:?}"
    );
}

/// What [Sundial §5.1] proposes against cases (b) and (c): a lease that is extended when the row is read, to the time after that of
/// what the transaction will write. Whoever replaces the version comes later, by the ticks more, too.
#[test]
fn sundial_extends_a_lease_while_executing() {
    for (extended_by, order) in [
        (None, Order::Logical),
        (Some(0), Order::Logical),
        (Some(7), Order::Logical),
        (Some(7), Order::Momentary),
    ] {
        let (db, [x, y]) = leased_with(order, Leases { extended_by, write_times: 0 });
        let [mut s1, mut s2] = sessions(&db);
        let mut tx = s1.begin();
        // After the lease of x, which lasts longer than that of y.
        tx.update(&x, 1, |value| *value += 1).unwrap();
        assert_eq!(tx.get(&y, 1).unwrap(), Some(0));
        let replaced = commit_of(&mut s2, |tx| assert!(tx.write(&y, 1, 1).unwrap()));
        let committed = tx.commit();
        let extended_by = extended_by.filter(|_| order == Order::Logical);
        assert_eq!(committed.is_ok(), extended_by.is_some(), "{committed:?}");
        if let (Ok(commit), Some(by)) = (committed, extended_by) {
            assert_eq!(replaced.ticks(), commit.time.ticks() + u64::from(by) + 1);
        }
    }
}

/// Only the lease of a version that is still there is extended: somebody may replace it between the read and the look.
#[test]
fn sundial_extends_the_lease_of_the_current_version_only() {
    let leases = Leases { extended_by: Some(0), write_times: 0 };
    let mut outcomes = Vec::new();
    for touch in 0.. {
        let (db, [x, y]) = leased_with(Order::Logical, leases);
        let [mut s1, mut s2] = sessions(&db);
        let mut tx = s1.begin();
        tx.update(&x, 1, |value| *value += 1).unwrap();
        let mut replaced = None;
        let replace = || replaced = Some(commit_of(&mut s2, |tx| assert!(tx.write(&y, 1, 1).unwrap())));
        let read = interrupted(At::Touch(touch), replace, || tx.get(&y, 1)).unwrap();
        let Some(replaced) = replaced else { break };
        let committed = tx.commit().map(|commit| commit.time);
        match (read, &committed) {
            (Some(0), Ok(time)) => assert!(*time < replaced, "{time}, replaced at {replaced}, touch {touch}"),
            (Some(0), Err(abort)) => assert!(abort.rule().starts_with("sundial: renew, replaced"), "{abort}"),
            (_, Ok(time)) => assert!(*time >= replaced, "{time}, replaced at {replaced}, touch {touch}"),
            (_, Err(abort)) => panic!("{abort}, touch {touch}"),
        }
        outcomes.push((read, committed.is_ok()));
    }
    for outcome in [(Some(1), true), (Some(0), false)] {
        assert!(outcomes.contains(&outcome), "{outcome:?} in {outcomes:?}");
    }
}

/// Case (a) of [Sundial §5.1]: what was read was replaced after the commit time, which is known where write times are kept, as far
/// back as they are. It still does not hold if it was replaced before, be it by another version than the current one.
#[test]
fn sundial_knows_when_versions_were_replaced() {
    for (write_times, replacements, order) in [
        (0, 1, Order::Logical),
        (1, 1, Order::Logical),
        (1, 2, Order::Logical),
        (2, 2, Order::Logical),
        (3, 3, Order::Logical),
        (3, 1, Order::Momentary),
    ] {
        for early in [false, true] {
            let (db, [x, y]) = leased_with(order, Leases { extended_by: None, write_times });
            let [mut s1, mut s2] = sessions(&db);
            let mut tx = s1.begin();
            assert_eq!(tx.get(&y, 1).unwrap(), Some(0));
            let mut replaced = Vec::new();
            if early {
                replaced.push(commit_of(&mut s2, |tx| assert!(tx.write(&y, 1, 1).unwrap())));
            }
            // After the lease of x, and so does all that he commits from here on.
            let clock = db.table::<u64, u64>("clock").unwrap();
            for _ in 0..4 {
                s2.transact(|tx| tx.write(&clock, 1, 0)).unwrap();
            }
            while replaced.len() < replacements {
                replaced.push(commit_of(&mut s2, |tx| assert!(tx.write(&y, 1, 1).unwrap())));
            }
            tx.write(&x, 1, 1).unwrap();
            let committed = tx.commit();
            let is_known = order == Order::Logical && replacements <= usize::from(write_times);
            assert_eq!(committed.is_ok(), is_known && !early, "{write_times}, {replaced:?}: {committed:?}");
            match committed {
                Ok(commit) => assert!(commit.time < replaced[0], "{commit:?}, {replaced:?}"),
                Err(abort) if order == Order::Logical => {
                    let rule = if early && replacements == 1 { "before" } else { "later" };
                    assert_eq!(abort.rule(), format!("sundial: renew, replaced {rule}"));
                }
                Err(_) => (),
            }
        }
    }
}

/// [Sundial §3.3.1]: of two writers the younger aborts at once, before it has done its work.
#[test]
fn sundial_lets_the_younger_writer_die() {
    for order in [Order::Logical, Order::Momentary] {
        let (db, [x, _]) = leased(order);
        let [mut s1, mut s2] = sessions(&db);
        let [mut older, mut younger] = [s1.begin(), s2.begin()];
        older.write(&x, 1, 1).unwrap();
        let died = younger.update(&x, 1, |value| *value += 1).expect_err("there is an older one");
        assert_eq!((died.kind(), died.rule()), (AbortKind::Conflict, "sundial: write"));
        drop(younger);
        older.commit().unwrap();
    }
}

/// [Sundial §3.3.1, Algorithm 1, line 21], and its mend: a write that finds another version than was read fails, and
/// leaves nothing behind that keeps the next attempt, or anybody, from it.
#[test]
fn sundial_lets_go_of_what_it_cannot_write() {
    for order in [Order::Logical, Order::Momentary] {
        let (db, [x, _]) = leased(order);
        let [mut s1, mut s2] = sessions(&db);
        let mut tx = s1.begin();
        assert_eq!(tx.get(&x, 1).unwrap(), Some(0));
        s2.transact(|tx| tx.update(&x, 1, |value| *value += 1)).unwrap();
        let failed = tx.update(&x, 1, |value| *value += 1).and_then(|()| tx.commit());
        assert_eq!(failed.unwrap_err().kind(), AbortKind::Conflict);
        for session in [&mut s1, &mut s2] {
            let add = |tx: &mut Transaction<'_, Stage>| {
                tx.get(&x, 1)?;
                tx.update(&x, 1, |value| *value += 1)
            };
            session.transact_with(&Policy::once(), add).unwrap();
        }
        assert_eq!(s1.transact(|tx| tx.get(&x, 1)).unwrap(), Some(3));
    }
}

/// [Sundial §3.4]: who has scanned a leaf, and who inserts into it, both commit if the scan can come first; and the
/// second scan of one transaction does not see another leaf than the first.
#[test]
fn sundial_scans_beside_an_insertion() {
    let db = builder().order(Order::Logical).build().unwrap();
    let options = TableOptions::new().protocol(Protocol::Sundial).index(IndexKind::Ordered);
    let rows: Table<u64, u64> = db.create_table("rows", options).unwrap();
    let [mut s1, mut s2] = sessions(&db);
    s1.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
    // The leaf, and its row, hold for long.
    late(&db).transact(|tx| tx.range(&rows, ..).collect()).unwrap();
    for again in [false, true] {
        let key = 2 + u64::from(again);
        let mut scan = s1.begin();
        let rows_before = scan.range(&rows, ..).collect().unwrap().len();
        let inserted = commit_of(&mut s2, |tx| assert!(tx.insert(&rows, key, 0).unwrap()));
        if again {
            let rows_now = scan.range(&rows, ..).collect().map(|rows| rows.len());
            assert!(rows_now.is_err() || rows_now.unwrap() == rows_before || scan.commit().is_err());
        } else {
            assert!(scan.commit().unwrap().time < inserted);
        }
        // The leaf holds until then again.
        late_again(&db, &rows, inserted);
    }
}

/// Reads all rows at a time after this one.
fn late_again(db: &Database<Stage>, rows: &Table<u64, u64>, time: Timestamp) {
    let [mut session] = sessions(db);
    let clock = db.table::<u64, u64>("clock").unwrap();
    while commit_of(&mut session, |tx| assert!(tx.write(&clock, 1, 0).unwrap())) <= time {}
    for _ in 0..20 {
        session.transact(|tx| tx.write(&clock, 1, 0)).unwrap();
    }
    session.transact(|tx| tx.range(rows, ..).collect()).unwrap();
}
