//! Attacks on the engine, one scenario each: schedules, panics and misuse that once broke something,
//! or were suspected to.

mod attack_support;

use attack_support::{Alone, Op, Part, Saw, Setup, on_engine};
use noonmark::{
    Abort, AbortKind, Database, Granularity, IndexKind, Order, Policy, Protocol, Session, Table, TableOptions,
};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
