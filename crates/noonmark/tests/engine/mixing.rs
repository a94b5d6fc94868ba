//! One order for the whole database: the scenarios of `noonmark::order`, step by step.
//!
//! Each has its counterpart in a database of `tictoc` or `sundial` tables alone, where the same travelling is
//! allowed: were either to become `occ` unnoticed, or a mixed database to become logical, a test here fails.

use crate::attack_support::Alone;
use noonmark::{Abort, Commit, Database, Order, Protocol, SchemaError, Session, Table, TableOptions};

struct Stage {
    db: Database<Alone>,
    tables: Vec<Table<u64, u64>>,
}

/// A database with one table for each protocol and one row, 0, in each. The rows of the tables given
/// in `held` hold until time 20: somebody who committed then has read them.
fn stage(protocols: &[Protocol], order: Option<Order>, held: &[usize]) -> Stage {
    let builder = Database::builder().max_sessions(8).host(Alone::default());
    let db = match order {
        Some(order) => builder.order(order),
        None => builder,
    }
    .build()
    .unwrap();
    let tables: Vec<Table<u64, u64>> = protocols
        .iter()
        .enumerate()
        .map(|(number, &protocol)| {
            db.create_table(&format!("t{number}"), TableOptions::new().protocol(protocol)).unwrap()
        })
        .collect();
    let clock: Table<u64, u64> =
        db.create_table("clock", TableOptions::new().protocol(protocols[0])).unwrap();
    let mut session = db.session().unwrap();
    session
        .transact(|tx| {
            for table in &tables {
                tx.insert(table, 1, 0)?;
            }
            tx.insert(&clock, 1, 0)
        })
        .unwrap();
    for _ in 0..19 {
        session.transact(|tx| tx.write(&clock, 1, 0)).unwrap();
    }
    for &table in held {
        session.transact(|tx| tx.get(&tables[table], 1)).unwrap();
    }
    drop(session);
    Stage { db, tables }
}

fn sessions<const N: usize>(stage: &Stage) -> [Session<Alone>; N] {
    std::array::from_fn(|_| stage.db.session().unwrap())
}

fn write(session: &mut Session<Alone>, tables: &[&Table<u64, u64>]) -> Commit {
    let mut tx = session.begin();
    for table in tables {
        tx.write(*table, 1, 1).unwrap();
    }
    tx.commit().unwrap()
}

use Protocol::{Occ, Sundial, TicToc};

/// The protocols that keep read times, alone and mixed.
const LEASED: [[Protocol; 2]; 4] =
    [[TicToc, TicToc], [Sundial, Sundial], [TicToc, Sundial], [Sundial, TicToc]];

/// T1 reads t (old); T2 writes t and o; T1 reads o (new). Whether T1 may commit.
fn skew(protocols: [Protocol; 2], order: Option<Order>) -> bool {
    let stage = stage(&protocols, order, &[0]);
    let [t, o] = [&stage.tables[0], &stage.tables[1]];
    let [mut s1, mut s2] = sessions(&stage);
    let mut t1 = s1.begin();
    assert_eq!(t1.get(t, 1).unwrap(), Some(0));
    write(&mut s2, &[t, o]);
    match t1.get(o, 1) {
        Err(_) => false,
        Ok(new) => {
            assert_eq!(new, Some(1));
            t1.commit().is_ok()
        }
    }
}

#[test]
fn the_skew_of_two_transactions_is_caught_under_every_order_and_mix() {
    for other in Protocol::all_that_mix().into_iter().filter(|p| !p.keeps_read_times()) {
        for leased in [TicToc, Sundial] {
            assert!(!skew([leased, other], None), "{leased} and {other}");
        }
    }
    assert!(!skew([Occ, TicToc], None));
    let keepers: Vec<Protocol> = Protocol::ALL.iter().copied().filter(|p| p.keeps_read_times()).collect();
    for order in [Order::Logical, Order::Momentary] {
        for (&first, &second) in
            keepers.iter().flat_map(|first| keepers.iter().map(move |second| (first, second)))
        {
            assert!(!skew([first, second], Some(order)), "{first} and {second}, {order:?}");
        }
    }
}

/// T3 reads t (old); T2 writes t and o; T1 reads o (new) and u (old); T3 writes u. Who may commit:
/// T1, and T3.
fn circle([t, u]: [Protocol; 2], o: Protocol) -> (bool, bool) {
    let stage = stage(&[t, u, o], None, &[0]);
    let [t, u, o] = [0, 1, 2].map(|n| &stage.tables[n]);
    let [mut s1, mut s2, mut s3] = sessions(&stage);
    let mut t3 = s3.begin();
    assert_eq!(t3.get(t, 1).unwrap(), Some(0));
    write(&mut s2, &[t, o]);
    let mut t1 = s1.begin();
    assert_eq!(t1.get(o, 1).unwrap(), Some(1));
    assert_eq!(t1.get(u, 1).unwrap(), Some(0));
    let first = t1.commit().is_ok();
    t3.write(u, 1, 1).unwrap();
    (first, t3.commit().is_ok())
}

#[test]
fn the_circle_of_three_transactions_is_caught() {
    for other in Protocol::all_that_mix() {
        for tables in LEASED {
            let (first, third) = circle(tables, other);
            assert!(first, "{tables:?}, {other}: nothing stands in its way");
            assert!(!third, "{tables:?}, {other}: who only uses those tables must not travel either");
        }
    }
}

/// T3 reads t (old); T2 writes t; T3 writes u. Whether T3 may commit, before T2.
fn travel(tables: [Protocol; 2], order: Option<Order>, other: Option<Protocol>) -> bool {
    let mut protocols = tables.to_vec();
    protocols.extend(other);
    let stage = stage(&protocols, order, &[0]);
    let [t, u] = [&stage.tables[0], &stage.tables[1]];
    let [mut s2, mut s3] = sessions(&stage);
    let mut t3 = s3.begin();
    assert_eq!(t3.get(t, 1).unwrap(), Some(0));
    let second = write(&mut s2, &[t]);
    t3.write(u, 1, 1).unwrap();
    let third = t3.commit();
    if let Ok(third) = &third {
        assert!(third.time < second.time);
    }
    third.is_ok()
}

#[test]
fn they_travel_only_where_all_tables_do() {
    for tables in LEASED {
        assert!(travel(tables, None, None), "a database of {tables:?} is in logical order");
        assert!(travel(tables, Some(Order::Logical), None), "{tables:?}");
        assert!(!travel(tables, Some(Order::Momentary), None), "{tables:?}");
        for other in Protocol::all_that_mix().into_iter().filter(|p| !p.keeps_read_times()) {
            assert!(!travel(tables, None, Some(other)), "{tables:?}, {other}");
        }
    }
}

/// T1 reads x (old); T2 writes x and ends; only then T3 begins, and writes y; T1 reads y (new). With
/// whoever read x before, four transactions: T1 comes after T3 and before T2, which ended before T3 began.
fn late_reader(tables: [Protocol; 2], order: Order) -> Result<Commit, Abort> {
    let stage = stage(&tables, Some(order), &[0]);
    let [x, y] = [&stage.tables[0], &stage.tables[1]];
    let [mut s1, mut s2, mut s3] = sessions(&stage);
    let mut t1 = s1.begin();
    assert_eq!(t1.get(x, 1)?, Some(0));
    write(&mut s2, &[x]);
    write(&mut s3, &[y]);
    assert_eq!(t1.get(y, 1)?, Some(1));
    t1.commit()
}

#[test]
fn logical_order_is_not_strict_and_momentary_order_is() {
    for tables in LEASED {
        late_reader(tables, Order::Logical).unwrap();
        late_reader(tables, Order::Momentary).unwrap_err();
    }
}

/// The same, but T2 and T3 run in one session: its transactions are in order.
#[test]
fn a_session_is_in_order_though_the_database_is_not_strict() {
    let stage = stage(&[TicToc, TicToc], Some(Order::Logical), &[0]);
    let [x, y] = [&stage.tables[0], &stage.tables[1]];
    let [mut s1, mut s2] = sessions(&stage);
    let mut t1 = s1.begin();
    assert_eq!(t1.get(x, 1).unwrap(), Some(0));
    write(&mut s2, &[x]);
    write(&mut s2, &[y]);
    assert_eq!(t1.get(y, 1).unwrap(), Some(1));
    t1.commit().unwrap_err();
}

/// And so is a session that has been told something without a commit.
#[test]
fn a_session_is_not_before_what_its_own_error_rested_on() {
    let stage = stage(&[TicToc, TicToc], Some(Order::Logical), &[0]);
    let [x, y] = [&stage.tables[0], &stage.tables[1]];
    let [mut s1, mut s2, mut s3] = sessions(&stage);
    let mut t1 = s1.begin();
    assert_eq!(t1.get(x, 1).unwrap(), Some(0));
    write(&mut s2, &[x]);
    // The third session sees what the second wrote, and calls itself off because of it.
    let told: Result<(), Box<dyn std::error::Error>> = s3.try_transact(|tx| {
        assert_eq!(tx.get(x, 1)?, Some(1));
        Err("enough".into())
    });
    assert_eq!(told.unwrap_err().to_string(), "enough");
    write(&mut s3, &[y]);
    assert_eq!(t1.get(y, 1).unwrap(), Some(1));
    t1.commit().unwrap_err();
}

#[test]
fn the_order_is_what_the_tables_and_the_builder_say() {
    for (protocols, order, expected) in [
        (&[TicToc][..], None, Order::Logical),
        (&[TicToc, Sundial], None, Order::Logical),
        (&[TicToc, Occ], None, Order::Momentary),
        (&[Sundial, Protocol::F1], None, Order::Momentary),
        (&[TicToc], Some(Order::Momentary), Order::Momentary),
    ] {
        let stage = stage(protocols, order, &[]);
        assert_eq!(stage.db.order(), Some(expected));
        let late = stage.db.create_table::<u64, u64>("late", TableOptions::new().protocol(Occ));
        match expected {
            Order::Logical => assert!(matches!(late, Err(SchemaError::WrongOrder(..)))),
            Order::Momentary => assert!(late.is_ok()),
            Order::Beginning | Order::Snapshot => unreachable!("not asked for"),
        }
    }
}
