//! Attacks on the engine, one scenario each: schedules, panics and misuse that once broke something,
//! or were suspected to.

use crate::attack_support::Alone;
use noonmark::{
    AbortKind, Database, IndexKind, Order, Policy, Protocol, Session, Table, TableOptions, Transaction,
};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::time::Duration;

fn alone(sessions: usize) -> noonmark::Builder<Alone> {
    Database::builder().max_sessions(sessions).host(Alone::default())
}

/// Deletes rows of its own until the epoch has advanced and old absent records have been reclaimed.
fn churn(session: &mut Session<Alone>, table: &Table<u64, u64>, keys: std::ops::Range<u64>) {
    for key in keys {
        session.transact(|tx| tx.insert(table, key, 0)).unwrap();
        session.transact(|tx| tx.delete(table, key)).unwrap();
    }
}

/// A row that is deleted, reclaimed and put in again (absent yet) is absent since the deletion, not since
/// the beginning of time. Four transactions and two epochs are needed to go round in a circle.
#[test]
fn a_reclaimed_row_is_not_absent_before_its_deletion() {
    let db = alone(8).order(Order::Logical).build().unwrap();
    let options = || TableOptions::new().protocol(Protocol::TicToc).index(IndexKind::Ordered);
    let k: Table<u64, u64> = db.create_table("k", options()).unwrap();
    let [u, v, w] = ["u", "v", "w"].map(|n| db.create_table::<u64, u64>(n, options()).unwrap());
    let other: Table<u64, u64> = db.create_table("other", options()).unwrap();
    let [mut s1, mut s2, mut s3, mut s4, mut s5, mut s6, mut s7] =
        std::array::from_fn(|_| db.session().unwrap());
    s1.transact(|tx| {
        tx.insert(&k, 1, 0)?;
        tx.insert(&u, 1, 0)?;
        tx.insert(&v, 1, 0)?;
        tx.insert(&w, 1, 0)
    })
    .unwrap();
    // `v` holds until time 2, `u` for longer, and the deletion comes late in logical time.
    s6.transact(|tx| tx.insert(&other, 1000, 0)).unwrap();
    s6.transact(|tx| tx.write(&other, 1000, 0)).unwrap();
    s6.transact(|tx| tx.get(&v, 1)).unwrap();
    for _ in 0..50 {
        s1.transact(|tx| tx.write(&k, 1, 1)).unwrap();
    }
    s1.transact(|tx| tx.get(&u, 1)).unwrap();

    let mut a2 = s2.begin();
    assert_eq!(a2.get(&u, 1).unwrap(), Some(0));
    s1.transact(|tx| {
        tx.delete(&k, 1)?;
        tx.write(&u, 1, 9)
    })
    .unwrap();
    churn(&mut s4, &other, 0..40);
    let mut a1 = s3.begin();
    assert_eq!(a1.get(&v, 1).unwrap(), Some(0));
    a2.write(&v, 1, 9).unwrap();
    let a2 = a2.commit();
    churn(&mut s4, &other, 40..200);
    // Sessions reclaim after their transactions.
    for _ in 0..10 {
        s1.transact(|tx| tx.get(&k, 7)).unwrap();
    }
    // Puts a record in again, and leaves it at that.
    let mut inserting = s5.begin();
    inserting.upsert(&k, 1, 3).unwrap();
    let mut r = s7.begin();
    let gone = r.get(&k, 1).unwrap();
    r.write(&w, 1, 9).unwrap();
    let r = r.commit();
    let seen = a1.get(&w, 1).unwrap();
    let a1 = a1.commit();
    drop(inserting);
    assert_eq!(gone, None);
    // a1 -> a2 by v, a2 -> the deletion by u, the deletion -> r by k, r -> a1 by w.
    let circle = seen == Some(9) && a1.is_ok() && a2.is_ok() && r.is_ok();
    assert!(!circle, "{a1:?} {a2:?} {r:?}");
}

/// Who saw a key absent at some time comes before whoever inserts it, also if its record leaves the index
/// in between: the node remembers.
#[test]
fn a_reclaimed_row_is_inserted_after_those_who_saw_it_absent() {
    for index in [IndexKind::Hash, IndexKind::Ordered] {
        let db = alone(4).order(Order::Logical).build().unwrap();
        let options = || TableOptions::new().protocol(Protocol::TicToc).index(index);
        let table: Table<u64, u64> = db.create_table("table", options()).unwrap();
        let other: Table<u64, u64> = db.create_table("other", options()).unwrap();
        let [mut early, mut late, mut reclaiming] = std::array::from_fn(|_| db.session().unwrap());
        reclaiming.transact(|tx| tx.insert(&table, 1, 0)).unwrap();
        reclaiming.transact(|tx| tx.delete(&table, 1)).unwrap();
        late.transact(|tx| tx.insert(&other, 1, 0)).unwrap();
        for _ in 0..50 {
            late.transact(|tx| tx.write(&other, 1, 0)).unwrap();
        }
        let mut reading = late.begin();
        assert_eq!(reading.get(&table, 1).unwrap(), None);
        let seen_absent = reading.commit().unwrap().time;
        // The record goes, and with it what it knew.
        let other: Table<u64, u64> = db.create_table("more", options()).unwrap();
        churn(&mut reclaiming, &other, 0..200);
        let mut inserting = early.begin();
        assert!(inserting.insert(&table, 1, 1).unwrap());
        let inserted = inserting.commit().unwrap().time;
        assert!(inserted > seen_absent, "{index:?}: {inserted} after {seen_absent}");
    }
}

/// What a transaction has put in itself is there for it, also if the absent record that it was to fill has been
/// reclaimed meanwhile: an error of its own that says otherwise is none that it may end with. (In logical order all
/// that it has read holds at the time of the absent record.)
#[test]
fn what_one_has_put_in_is_not_lost_with_its_record() {
    #[derive(Debug)]
    enum Own {
        Lost,
        Abort(#[expect(dead_code, reason = "for its Debug")] noonmark::Abort),
    }
    impl From<noonmark::Abort> for Own {
        fn from(abort: noonmark::Abort) -> Self {
            Own::Abort(abort)
        }
    }
    let mut reclaimed = 0;
    for &protocol in Protocol::ALL {
        for (index, rows) in [(IndexKind::Ordered, 0), (IndexKind::Hash, 0), (IndexKind::Hash, 1000)] {
            for unread in [false, true] {
                let db = alone(4).build().unwrap();
                let options = TableOptions::new().protocol(protocol).index(index).expected_rows(rows);
                let table: Table<u64, u64> = db.create_table("rows", options).unwrap();
                let [mut mine, mut others] = std::array::from_fn(|_| db.session().unwrap());
                for round in 0..1000 {
                    others.transact(|tx| tx.insert(&table, round, 0)).unwrap();
                    others.transact(|tx| tx.delete(&table, round)).unwrap();
                    // So that in some rounds the epoch is one short of what reclaiming it takes.
                    for step in 0..round % 97 {
                        let key = 1000 + step / 2;
                        if step % 2 == 0 {
                            others.transact(|tx| tx.insert(&table, key, 0)).unwrap();
                        } else {
                            others.transact(|tx| tx.delete(&table, key)).unwrap();
                        }
                    }
                    let mut attempts = 0;
                    let answer = mine.try_transact(|tx| {
                        attempts += 1;
                        if unread {
                            tx.upsert(&table, round, 7)?;
                        } else {
                            tx.insert(&table, round, 7)?;
                        }
                        if attempts == 1 {
                            churn(&mut others, &table, 2000..2100);
                        }
                        tx.get(&table, round)?.ok_or(Own::Lost)
                    });
                    assert_eq!(answer.unwrap(), 7, "{protocol} {index:?} {rows} {unread}");
                    reclaimed += u32::from(attempts > 1);
                    mine.transact(|tx| tx.delete(&table, round)).unwrap();
                }
            }
        }
    }
    assert!(reclaimed > 0, "no record was reclaimed in the midst of a transaction: this tests nothing");
}

fn table_of(db: &Database<Alone>, protocol: Protocol) -> Table<u64, u64> {
    db.create_table(protocol.name(), TableOptions::new().protocol(protocol)).unwrap()
}

/// A commit-time update is the user's code, and may panic: before anything is visible, or half of a
/// transaction would be.
#[test]
fn a_panic_in_a_commit_time_update_leaves_nothing() {
    for &protocol in Protocol::ALL {
        let db = alone(2).build().unwrap();
        let table = table_of(&db, protocol);
        let [mut session, mut other] = std::array::from_fn(|_| db.session().unwrap());
        session
            .transact(|tx| {
                tx.insert(&table, 1, 10)?;
                tx.insert(&table, 2, 20)
            })
            .unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            session.transact(|tx| {
                tx.write(&table, 1, 11)?;
                tx.insert(&table, 3, 31)?;
                tx.apply(&table, 2, |value| assert_eq!(*value, 0, "as planned"))
            })
        }));
        assert!(panicked.is_err());
        for session in [&mut session, &mut other] {
            let rows = session.transact(|tx| tx.range(&table, ..).collect()).unwrap();
            assert_eq!(rows, [(1, 10), (2, 20)], "{protocol}");
            session.transact_with(&Policy::once(), |tx| tx.update(&table, 2, |_| ())).unwrap();
            session.transact_with(&Policy::once(), |tx| tx.write(&table, 1, 10)).unwrap();
        }
    }
}

/// A panic in what an operation was given leaves something half done. Who catches it within the body, and goes on,
/// cannot commit; and the next transaction finds everything as it was.
#[test]
fn a_panic_that_is_caught_in_the_body_is_not_committed() {
    type Part = fn(&mut Transaction<'_, Alone>, &Table<u64, u64>) -> Result<(), noonmark::Abort>;
    fn halfway(value: &mut u64) {
        *value = 777;
        panic!("as planned");
    }
    let parts: [(&str, Part); 5] = [
        ("update", |tx, table| tx.update(table, 1, halfway)),
        ("update_many", |tx, table| tx.update_many(table, &[2, 1], |_, value| halfway(value))),
        ("apply to what was updated", |tx, table| {
            tx.update(table, 1, |value| *value += 1)?;
            tx.apply(table, 1, halfway)
        }),
        ("apply to what was written", |tx, table| {
            tx.write(table, 1, 11)?;
            tx.apply(table, 1, halfway)
        }),
        ("index", |tx, table| tx.update(table, 1, |value| *value = 13)),
    ];
    for &protocol in Protocol::ALL {
        for (name, part) in parts {
            let db = alone(2).build().unwrap();
            let table = table_of(&db, protocol);
            if name == "index" {
                table.create_index(&db, "by_value", |_, value| 100 / (13 - *value)).unwrap();
            }
            let mut session = db.session().unwrap();
            let rows = [(1, 10), (2, 20)];
            session
                .transact(|tx| rows.iter().try_for_each(|&(key, value)| tx.upsert(&table, key, value % 13)))
                .unwrap();
            let before = session.transact(|tx| tx.range(&table, ..).collect()).unwrap();
            for by_hand in [false, true] {
                let caught = |tx: &mut Transaction<'_, Alone>| {
                    catch_unwind(AssertUnwindSafe(|| part(tx, &table))).expect_err(name);
                };
                let refused = if by_hand {
                    let mut tx = session.begin();
                    caught(&mut tx);
                    assert_eq!(
                        tx.get(&table, 2).unwrap_err().kind(),
                        AbortKind::Continued,
                        "{protocol} {name}"
                    );
                    tx.commit().map(|_| ())
                } else {
                    session.transact(|tx| {
                        caught(tx);
                        Ok(())
                    })
                };
                assert_eq!(refused.unwrap_err().kind(), AbortKind::Continued, "{protocol} {name}");
                let after = session.transact(|tx| tx.range(&table, ..).collect()).unwrap();
                assert_eq!(after, before, "{protocol} {name}");
            }
        }
    }
}

/// A panic that was caught may rest on what no committed state had together: the transaction is then tried again.
#[test]
fn a_panic_that_is_caught_in_a_doomed_attempt_is_a_conflict() {
    for protocol in [
        Protocol::Occ,
        Protocol::TicToc,
        Protocol::Swiss,
        Protocol::Adaptive,
        Protocol::F1,
        Protocol::Sundial,
    ] {
        let db = alone(2).build().unwrap();
        let table = table_of(&db, protocol);
        let [mut session, mut other] = std::array::from_fn(|_| db.session().unwrap());
        session.transact(|tx| [1, 2].iter().try_for_each(|&key| tx.upsert(&table, key, 10))).unwrap();
        let mut attempts = 0;
        session
            .transact(|tx| {
                attempts += 1;
                let first = tx.need(&table, 1)?;
                if attempts == 1 {
                    let both = |tx: &mut Transaction<'_, Alone>| {
                        [1, 2].iter().try_for_each(|&key| tx.update(&table, key, |value| *value = 20))
                    };
                    other.transact_with(&Policy::once(), both).unwrap();
                }
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    tx.update(&table, 2, |second| assert_eq!(*second, first, "as planned"))
                }));
                caught.unwrap_or(Ok(()))
            })
            .unwrap();
        assert_eq!(attempts, 2, "{protocol}");
    }
}

/// Whoever has all sessions himself can wait for one with a deadline.
#[test]
fn the_wait_for_a_session_has_a_deadline() {
    let db = Database::builder().max_sessions(1).build().unwrap();
    let table = db.table::<u64, u64>("rows").unwrap();
    let session = db.session().unwrap();
    let policy = Policy { deadline: Some(Duration::from_millis(5)), ..Policy::default() };
    let refused = db.transact_with(&policy, |tx| tx.insert(&table, 1, 10)).unwrap_err();
    assert_eq!(refused.kind(), AbortKind::TooManySessions);
    assert_eq!(refused.to_string(), "all sessions of the database are in use; nothing was applied");
    let refused = db.try_transact_with(&policy, |tx| tx.insert(&table, 1, 10)).unwrap_err();
    assert_eq!(refused.kind(), AbortKind::TooManySessions);
    drop(session);
    let policy = Policy { deadline: Some(Duration::from_secs(60)), ..Policy::default() };
    assert!(db.transact_with(&policy, |tx| tx.insert(&table, 1, 10)).unwrap());
    assert_eq!(db.transact(|tx| tx.get(&table, 1)).unwrap(), Some(10));
}

/// A transaction that puts in rows where it has looked before, or that an index is kept for, notes each index node once:
/// its cost grows with what it does, and not with the square or the cube of that.
#[test]
fn a_long_transaction_notes_each_node_once() {
    for kind in [IndexKind::Hash, IndexKind::Ordered] {
        let db = alone(1).build().unwrap();
        let table: Table<u64, u64> = db.create_table("rows", TableOptions::new().index(kind)).unwrap();
        let by_value = table.create_index(&db, "by_value", |_, value| *value).unwrap();
        let mut session = db.session().unwrap();
        session
            .transact(|tx| {
                for key in 0..20_000 {
                    assert_eq!(tx.get(&table, key)?, None);
                    tx.insert(&table, key, key)?;
                }
                Ok(())
            })
            .unwrap();
        let last = session.transact(|tx| tx.range_by(&by_value, ..).reverse().limit(1).collect()).unwrap();
        assert_eq!(last, [(19_999, 19_999)]);
    }
}

/// Two indexes of one table that are made at once are both made; and what is in an index is no table of anybody's.
#[test]
fn indexes_are_made_one_at_a_time_and_are_no_tables() {
    for round in 0..200 {
        let db = Database::in_memory();
        let table = db.table::<u64, u8>("people").unwrap();
        let barrier = Barrier::new(2);
        let (table, db, barrier) = (&table, &db, &barrier);
        std::thread::scope(|scope| {
            let threads = ["by_age", "by_rest"].map(|name| {
                scope.spawn(move || {
                    barrier.wait();
                    let made = table.create_index(db, name, |_, age| *age);
                    assert!(made.is_ok(), "round {round}: {:?}", made.err());
                })
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let opened = db.table::<(u8, u64), ()>("people.by_age");
        assert!(matches!(opened, Err(noonmark::SchemaError::OtherTypes(_))), "{:?}", opened.is_ok());
    }
}

/// A key of one length that is longer than any may be is refused like any other; and one that is not as long as its
/// type says does not keep others from being found with it.
#[test]
fn keys_of_one_length_have_a_limit_too() {
    #[derive(Clone, Debug)]
    struct Long(u8);
    impl noonmark::Key for Long {
        const FIXED_BYTES: Option<usize> = Some(70_000);
        fn write(&self, out: &mut noonmark::KeyBytes) {
            out.push(&[self.0; 70_000]);
        }
        fn read(bytes: &[u8]) -> Option<Self> {
            bytes.first().copied().map(Long)
        }
    }
    #[derive(Clone, Debug)]
    struct Liar(usize);
    impl noonmark::Key for Liar {
        const FIXED_BYTES: Option<usize> = Some(8);
        fn write(&self, out: &mut noonmark::KeyBytes) {
            out.push(&vec![0; self.0]);
        }
        fn read(bytes: &[u8]) -> Option<Self> {
            Some(Liar(bytes.len()))
        }
    }
    for kind in [IndexKind::Hash, IndexKind::Ordered] {
        let db = Database::in_memory();
        let table: Table<Long, u64> = db.create_table("long", TableOptions::new().index(kind)).unwrap();
        let refused = db.transact(|tx| tx.insert(&table, Long(1), 1)).unwrap_err();
        assert_eq!(refused.kind(), AbortKind::TooLong);
        let table: Table<Liar, u64> = db.create_table("liars", TableOptions::new().index(kind)).unwrap();
        assert!(db.transact(|tx| tx.insert(&table, Liar(8), 1)).unwrap());
        // The short one may be taken for the other.
        let keys = [Liar(3), Liar(8)];
        let mut found = [None; 2];
        db.transact(|tx| tx.get_many(&table, &keys, |at, value| found[at] = value)).unwrap();
        assert_eq!(found[1], Some(1), "{kind:?}");
    }
}

/// A row that hands over other groups than its type says is refused before anything is applied.
#[test]
fn a_row_that_is_not_as_it_says_is_refused() {
    #[derive(Clone)]
    struct Odd;
    impl noonmark::Row for Odd {
        const SIZES: &'static [noonmark::Size] = &[noonmark::Size::Variable];
        fn names() -> Vec<&'static str> {
            vec!["odd"]
        }
        fn decode_row(_: &noonmark::RowReader<'_>) -> Self {
            Odd
        }
        fn encode_row(&self, row: &mut impl noonmark::RowWriter) {
            row.group(0, &7_u64);
        }
    }
    /// One group, it says, and hands over a second.
    #[derive(Clone)]
    struct More;
    impl noonmark::Row for More {
        const SIZES: &'static [noonmark::Size] = &[noonmark::Size::Fixed(8)];
        fn names() -> Vec<&'static str> {
            vec!["more"]
        }
        fn decode_row(_: &noonmark::RowReader<'_>) -> Self {
            More
        }
        fn encode_row(&self, row: &mut impl noonmark::RowWriter) {
            row.group(0, &7_u64);
            row.group(1, &1000_u64);
        }
    }
    for &protocol in Protocol::ALL {
        let db = alone(2).build().unwrap();
        let table = table_of(&db, protocol);
        let more: Table<u64, More> = db.create_table("more", TableOptions::new().protocol(protocol)).unwrap();
        let refused = db.transact(|tx| {
            tx.insert(&table, 1, 77)?;
            tx.insert(&more, 1, More)
        });
        assert_eq!(refused.unwrap_err().kind(), AbortKind::TooLong, "{protocol}");
        let odd: Table<u64, Odd> = db.create_table("odd", TableOptions::new().protocol(protocol)).unwrap();
        let refused = db.transact(|tx| {
            tx.insert(&table, 1, 77)?;
            tx.insert(&odd, 1, Odd)
        });
        assert_eq!(refused.unwrap_err().kind(), AbortKind::TooLong, "{protocol}");
        assert_eq!(db.transact(|tx| tx.get(&table, 1)).unwrap(), None, "{protocol}");
    }
}

/// A session that has deleted much and then does nothing holds back little: others take its rows out of the index.
#[test]
fn an_idle_session_holds_back_little() {
    let db = alone(2).build().unwrap();
    let table = table_of(&db, Protocol::Occ);
    let [mut idle, mut other] = std::array::from_fn(|_| db.session().unwrap());
    let empty_bytes = table.index_bytes();
    // Numbers so large that no places grow with their rows.
    let keys = || (1 << 40)..(1 << 40) + 20_000;
    idle.transact(|tx| keys().try_for_each(|key| tx.insert(&table, key, key).map(|_| ()))).unwrap();
    idle.transact(|tx| keys().try_for_each(|key| tx.delete(&table, key).map(|_| ()))).unwrap();
    let full_bytes = table.index_bytes();
    for _ in 0..2_000 {
        other.transact(|tx| tx.get(&table, 1)).unwrap();
    }
    let bytes = table.index_bytes();
    assert!(bytes < empty_bytes + full_bytes / 10, "{empty_bytes}, {full_bytes}, {bytes}");
}

/// However many rows come and go in one transaction, those that have gone do not become more and more.
#[test]
fn large_transactions_leave_no_more_behind_than_small_ones() {
    for kind in [IndexKind::Hash, IndexKind::Ordered] {
        let db = alone(1).build().unwrap();
        let table: Table<u64, u64> = db.create_table("rows", TableOptions::new().index(kind)).unwrap();
        let by_value = table.create_index(&db, "by_value", |_, value| *value).unwrap();
        let mut session = db.session().unwrap();
        let size = 10_000;
        session.transact(|tx| (0..size).try_for_each(|key| tx.insert(&table, key, key).map(|_| ()))).unwrap();
        let mut bytes_at = [0; 2];
        for round in 0..200 {
            session
                .transact(|tx| {
                    for key in round * 1_000..(round + 1) * 1_000 {
                        tx.delete(&table, key)?;
                        tx.insert(&table, key + size, key + size)?;
                    }
                    Ok(())
                })
                .unwrap();
            bytes_at[round as usize / 100] = table.index_bytes();
        }
        assert!(bytes_at[1] < bytes_at[0] * 5 / 4, "{kind:?}: {bytes_at:?}");
        let found = session.transact(|tx| tx.range_by(&by_value, ..).collect()).unwrap();
        assert_eq!(found.len() as u64, size);
    }
}

/// A deadline ends the pause between two attempts, too.
#[test]
fn a_pause_ends_at_the_deadline() {
    let db = alone(2).build().unwrap();
    let table = table_of(&db, Protocol::Occ);
    let [mut session, mut other] = std::array::from_fn(|_| db.session().unwrap());
    session.transact(|tx| tx.insert(&table, 1, 0)).unwrap();
    let hour = Duration::from_secs(3600);
    let policy = Policy {
        deadline: Some(Duration::from_millis(2)),
        backoff_min: hour,
        backoff_max: hour,
        ..Policy::default()
    };
    let late = session.transact_with(&policy, |tx| {
        let value = tx.need(&table, 1)?;
        other.transact(|tx| tx.update(&table, 1, |value| *value += 1))?;
        tx.write(&table, 1, value)
    });
    assert_eq!(late.unwrap_err().kind(), AbortKind::Deadline);
}

/// A panic in the body lets go of everything, whatever the protocol has locked by then.
#[test]
fn a_panic_in_the_body_lets_go() {
    for &protocol in Protocol::ALL {
        let db = alone(2).build().unwrap();
        let table = table_of(&db, protocol);
        let [mut session, mut other] = std::array::from_fn(|_| db.session().unwrap());
        session.transact(|tx| tx.insert(&table, 1, 10)).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            session.transact(|tx| {
                tx.get(&table, 1)?;
                tx.write(&table, 1, 11)?;
                tx.update(&table, 1, |_| panic!("as planned"))
            })
        }));
        assert!(panicked.is_err());
        for session in [&mut other, &mut session] {
            session.transact_with(&Policy::once(), |tx| tx.update(&table, 1, |value| *value += 1)).unwrap();
        }
        assert_eq!(other.transact(|tx| tx.get(&table, 1)).unwrap(), Some(12));
    }
}

/// Forgetting a transaction is safe code. Its session's next one has nothing to do with it.
#[test]
fn a_forgotten_transaction_ends_when_the_next_begins() {
    for &protocol in Protocol::ALL {
        let db = alone(2).build().unwrap();
        let table = table_of(&db, protocol);
        let [mut session, mut other] = std::array::from_fn(|_| db.session().unwrap());
        session.transact(|tx| tx.insert(&table, 1, 10)).unwrap();
        let mut tx = session.begin();
        tx.write(&table, 1, 11).unwrap();
        std::mem::forget(tx);
        session.transact_with(&Policy::once(), |tx| tx.get(&table, 2)).unwrap();
        other.transact_with(&Policy::once(), |tx| tx.update(&table, 1, |value| *value += 5)).unwrap();
        assert_eq!(session.transact(|tx| tx.get(&table, 1)).unwrap(), Some(15), "{protocol}");
    }
}

/// A table that outlives its database belongs to no other, wherever in memory that one is made.
#[test]
fn a_table_of_a_database_that_is_gone_is_refused() {
    let mut kept = Vec::new();
    for round in 0..50 {
        let db = alone(1).build().unwrap();
        let table: Table<u64, u64> = db.table("table").unwrap();
        db.transact(|tx| tx.insert(&table, 1, 1)).unwrap();
        kept.push(table);
        drop(db);
        let db = alone(1).build().unwrap();
        for table in &kept {
            let refused = db.transact(|tx| tx.get(table, 1)).unwrap_err();
            assert_eq!(refused.kind(), AbortKind::ForeignTable, "round {round}");
            table.create_index::<u64, _>(&db, "index", |_, value| *value).unwrap_err();
        }
    }
}

/// Under `adaptive` a hot row that was read in order to be written is let go like any other.
#[test]
fn a_hot_row_is_let_go_after_an_update() {
    let db = alone(3).build().unwrap();
    let table = table_of(&db, Protocol::Adaptive);
    let [mut a, mut b, mut c] = std::array::from_fn(|_| db.session().unwrap());
    a.transact(|tx| tx.insert(&table, 1, 0)).unwrap();
    for _ in 0..20 {
        let mut reading = a.begin();
        reading.get(&table, 1).unwrap();
        let wrote = b.transact_with(&Policy::once(), |tx| tx.write(&table, 1, 0));
        assert_eq!(reading.commit().is_ok(), wrote.is_err(), "either the reader fails or the writer");
    }
    let mut pessimistic = a.begin();
    pessimistic.get(&table, 1).unwrap();
    b.transact_with(&Policy::once(), |tx| tx.write(&table, 1, 0)).expect_err("the row is hot and read");
    drop(pessimistic);
    for session in [&mut a, &mut b, &mut c] {
        session.transact_with(&Policy::once(), |tx| tx.update(&table, 1, |value| *value += 1)).unwrap();
        let mut idle = session.begin();
        idle.update(&table, 1, |value| *value += 100).unwrap();
        idle.rollback();
    }
    assert_eq!(a.transact(|tx| tx.get(&table, 1)).unwrap(), Some(3));
}

/// Under wait-die the older waits, under wound-wait the younger: together, each could wait for the other.
#[test]
fn protocols_that_wait_in_opposite_directions_do_not_deadlock() {
    for (first, second) in [
        (Protocol::TwoPhaseWaitDie, Protocol::TwoPhaseWoundWait),
        (Protocol::TwoPhaseWaitDie, Protocol::Swiss),
        (Protocol::TwoPhaseWoundWait, Protocol::Swiss),
        (Protocol::TwoPhaseWoundWait, Protocol::Sundial),
        (Protocol::TwoPhaseWaitDie, Protocol::Sundial),
        (Protocol::Swiss, Protocol::Sundial),
    ] {
        for reads in [false, true] {
            for swap in [false, true] {
                let db = Database::in_memory();
                let tables: Vec<Table<u64, u64>> = [first, second]
                    .map(|p| db.create_table(p.name(), TableOptions::new().protocol(p)).unwrap())
                    .into();
                for table in &tables {
                    db.transact(|tx| tx.insert(table, 1, 0)).unwrap();
                }
                let [older_holds, both_hold] = [(); 2].map(|()| Barrier::new(2));
                let run = |mine: usize, is_older: bool| {
                    let mut session = db.session().unwrap();
                    let mut first_attempt = true;
                    let policy = Policy { deadline: Some(Duration::from_secs(10)), ..Policy::default() };
                    if !is_older {
                        older_holds.wait();
                    }
                    session.transact_with(&policy, |tx| {
                        if reads {
                            tx.get(&tables[mine], 1)?;
                        } else {
                            tx.write(&tables[mine], 1, 1)?;
                        }
                        if std::mem::take(&mut first_attempt) {
                            if is_older {
                                older_holds.wait();
                            }
                            both_hold.wait();
                        }
                        tx.write(&tables[1 - mine], 1, 2).map(|_| ())
                    })
                };
                std::thread::scope(|scope| {
                    let other = scope.spawn(|| run(1, swap));
                    run(0, !swap).unwrap();
                    other.join().unwrap().unwrap();
                });
            }
        }
    }
}

thread_local! {
    static OPEN: RefCell<Option<Transaction<'static, Alone>>> = const { RefCell::new(None) };
}

/// Two transactions meet at the record of a key that neither commits: it leaves the index in the end,
/// whichever of them rolls back while the other has it locked.
#[test]
fn a_row_that_two_failed_to_insert_leaves_its_index() {
    let db = alone(4).build().unwrap();
    let table = table_of(&db, Protocol::Occ);
    let lever = db.create_table::<u64, u64>("lever", TableOptions::new()).unwrap();
    let [mut b, mut c] = std::array::from_fn(|_| db.session().unwrap());
    c.transact(|tx| tx.insert(&lever, 1, 0)).unwrap();
    let empty_bytes = table.index_bytes();
    // Numbers so large that no places grow with their rows.
    for key in (1 << 40)..(1 << 40) + 2_000 {
        // Lives as long as the program: the closure below must be `'static`.
        let a: &'static mut Session<Alone> = Box::leak(Box::new(db.session().unwrap()));
        let a_again: *mut Session<Alone> = a;
        let mut first = a.begin();
        assert!(first.insert(&table, key, 1).unwrap());
        OPEN.set(Some(first));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            b.transact(|tx| {
                tx.insert(&table, key, 2)?;
                // Runs while the new record is locked: the one who made it rolls back now.
                tx.apply(&lever, 1, |_| {
                    OPEN.take();
                    panic!("as planned");
                })
            })
        }));
        assert!(panicked.is_err());
        // SAFETY: the box that was leaked above; its transaction is gone.
        drop(unsafe { Box::from_raw(a_again) });
    }
    let other = db.create_table::<u64, u64>("other", TableOptions::new()).unwrap();
    churn(&mut c, &other, 0..5_000);
    churn(&mut b, &other, 0..5_000);
    assert_eq!(table.index_bytes(), empty_bytes);
}

/// A key of somebody's own type that is not as long as it says does no harm: a record has room for what was said.
#[test]
fn a_key_that_is_not_as_long_as_it_says_is_refused() {
    #[derive(Clone, Debug)]
    struct Liar(usize);
    impl noonmark::Key for Liar {
        const FIXED_BYTES: Option<usize> = Some(8);
        fn write(&self, out: &mut noonmark::KeyBytes) {
            out.push(&vec![7; self.0]);
        }
        fn read(bytes: &[u8]) -> Option<Self> {
            Some(Liar(bytes.len()))
        }
    }
    for index in [IndexKind::Hash, IndexKind::Ordered] {
        for rows in [0, 1000] {
            let db = Database::in_memory();
            let options = TableOptions::new().index(index).expected_rows(rows);
            let table: Table<Liar, u64> = db.create_table("liars", options).unwrap();
            assert!(db.transact(|tx| tx.insert(&table, Liar(8), 1)).unwrap());
            for bytes in [0, 7, 9, 4008] {
                for replace in [false, true] {
                    let refused = db.transact(|tx| match replace {
                        true => tx.upsert(&table, Liar(bytes), 2).map(|_| ()),
                        false => tx.insert(&table, Liar(bytes), 2).map(|_| ()),
                    });
                    assert_eq!(refused.unwrap_err().kind(), AbortKind::TooLong, "{bytes}");
                }
            }
            assert_eq!(db.transact(|tx| tx.get(&table, Liar(8))).unwrap(), Some(1));
        }
    }
}

/// What a commit tells of itself is what it was, though it may have reclaimed rows of others at its end.
#[test]
fn a_commit_has_the_id_of_its_transaction() {
    let db = Database::in_memory();
    let table: Table<u64, u64> = db.table("rows").unwrap();
    let mut session = db.session().unwrap();
    for key in 0..500 {
        for put in [true, false] {
            let mut tx = session.begin();
            let id = tx.id();
            if put {
                tx.insert(&table, key, 0).unwrap()
            } else {
                tx.delete(&table, key).unwrap()
            };
            assert_eq!(tx.commit().unwrap().txn, id);
        }
    }
}

/// `db.transact` comes after what `db.try_transact` has told before, also where that was told by an error.
#[test]
fn an_error_of_ones_own_is_not_forgotten_by_what_follows() {
    #[derive(Debug)]
    enum Own {
        Seen(u64),
        Abort(#[expect(dead_code, reason = "for its Debug")] noonmark::Abort),
    }
    impl From<noonmark::Abort> for Own {
        fn from(abort: noonmark::Abort) -> Self {
            Own::Abort(abort)
        }
    }
    let db = Database::builder().order(Order::Logical).build().unwrap();
    let options = TableOptions::new().protocol(Protocol::TicToc);
    let table: Table<u64, u64> = db.create_table("rows", options).unwrap();
    let [mut one, mut other] = std::array::from_fn(|_| db.session().unwrap());
    one.transact(|tx| tx.insert(&table, 1, 0)).unwrap();
    other.transact(|tx| tx.insert(&table, 2, 0)).unwrap();
    for value in 1..=50 {
        one.transact(|tx| tx.write(&table, 1, value)).unwrap();
    }
    let told = db.try_transact(|tx| Err::<(), _>(Own::Seen(tx.need(&table, 1)?)));
    assert!(matches!(told, Err(Own::Seen(50))), "{told:?}");
    // This comes after it, so the row that it reads is not replaced before.
    assert_eq!(db.transact(|tx| tx.get(&table, 2)).unwrap(), Some(0));
    let mut tx = other.begin();
    tx.write(&table, 2, 1).unwrap();
    let replaced_at = tx.commit().unwrap().time.ticks();
    assert!(replaced_at > 50, "replaced at {replaced_at}");
}
