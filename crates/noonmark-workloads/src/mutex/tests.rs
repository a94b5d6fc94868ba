use std::ops::{Bound, ControlFlow};

use super::*;
use crate::store::{Column, Group, Index, Scan, Table};

crate::column_group! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Person {
        name: [u8; 3],
        age: u32,
    }
}

type People = MutexTable<u64, (Person, i64)>;

fn people(store: &MutexStore) -> (People, MutexScope) {
    let table: People = store.table(&TableSpec::new("people")).unwrap();
    let scope = store.scope().writes::<u64, (Person, i64)>(&table);
    (table, scope)
}

fn all(table: &People, session: &mut MutexSession, scope: &MutexScope) -> Vec<(u64, (Person, i64))> {
    let rows = session.run(scope, |tx| {
        let mut rows = Vec::new();
        table.range(tx, .., Scan::ALL, |key, row| {
            rows.push((key, row));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    });
    rows.unwrap()
}

const ANN: Person = Person { name: *b"ann", age: 30 };
const BOB: Person = Person { name: *b"bob", age: 40 };

#[test]
fn a_rollback_undoes_every_kind_of_change_and_the_indexes() {
    let store = MutexStore::new();
    let (table, scope) = people(&store);
    let by_name = store.index(&table, "by_name", |_, row: &(Person, i64)| row.0.name).unwrap();
    let money = store.group::<_, _, 1>(&table);
    let mut session = store.session().unwrap();
    let names = |session: &mut MutexSession| {
        let found = session.run(&scope, |tx| {
            let mut found = Vec::new();
            by_name.range(tx, .., Scan::ALL, |name, key| {
                found.push((name, key));
                ControlFlow::Continue(())
            })?;
            Ok(found)
        });
        found.unwrap()
    };
    session
        .run(&scope, |tx| {
            assert!(table.insert(tx, &1, (ANN, 5))?);
            assert!(table.insert(tx, &2, (BOB, 7))?);
            assert!(!table.insert(tx, &2, (ANN, 9))?);
            Ok(())
        })
        .unwrap();
    let before = all(&table, &mut session, &scope);
    assert_eq!(before, vec![(1, (ANN, 5)), (2, (BOB, 7))]);
    assert_eq!(names(&mut session), vec![(*b"ann", 1), (*b"bob", 2)]);
    let ended = session.run(&scope, |tx| {
        table.update(tx, &1, |row| row.0.name = *b"zoe")?;
        money.add(tx, &1, Column::whole(), 100)?;
        table.delete(tx, &2)?;
        table.insert(tx, &2, (ANN, 0))?;
        table.upsert(tx, &3, (BOB, 1))?;
        assert_eq!(money.need(tx, &1)?, 105);
        Err::<(), _>(Failure::Rollback)
    });
    assert_eq!(ended, Err(Failure::Rollback));
    assert_eq!(all(&table, &mut session, &scope), before);
    assert_eq!(names(&mut session), vec![(*b"ann", 1), (*b"bob", 2)]);
    session.run(&scope, |tx| Ok(table.update(tx, &2, |row| row.0.name = *b"ann")?)).unwrap();
    assert_eq!(names(&mut session), vec![(*b"ann", 1), (*b"ann", 2)]);
    assert_eq!(session.counts().user_rollbacks, 1);
}

#[test]
fn a_panic_undoes_and_unlocks() {
    let store = MutexStore::new();
    let (table, scope) = people(&store);
    let mut session = store.session().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = session.run(&scope, |tx| {
            table.insert(tx, &1, (ANN, 5))?;
            if table.get(tx, &1)?.is_some() {
                panic!("on purpose");
            }
            Ok(())
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(all(&table, &mut session, &scope), vec![]);
}

#[test]
fn what_the_scope_does_not_name_is_refused() {
    let store = MutexStore::new();
    let (table, _) = people(&store);
    let mut session = store.session().unwrap();
    let none = store.scope();
    let read = session.run(&none, |tx| Ok(table.get(tx, &1)?));
    assert!(matches!(read, Err(Failure::Abort(MutexAbort::OutOfScope { access: "reading", .. }))));
    let reads = store.scope().reads::<u64, (Person, i64)>(&table);
    let write = session.run(&reads, |tx| Ok(table.delete(tx, &1)?));
    assert!(matches!(write, Err(Failure::Abort(MutexAbort::OutOfScope { access: "changing", .. }))));
    let both = reads.writes::<u64, (Person, i64)>(&table).reads::<u64, (Person, i64)>(&table);
    assert_eq!(session.run(&both, |tx| Ok(table.delete(tx, &1)?)), Ok(false));
    let missing = session.run(&both, |tx| Ok(table.need(tx, &1)?)).unwrap_err();
    assert_eq!(missing.to_string(), "table people has no row 1");
}

#[test]
fn ranges_take_any_bounds_either_way() {
    let store = MutexStore::new();
    let table: MutexTable<u64, u64> = store.table(&TableSpec::new("numbers")).unwrap();
    let scope = store.scope().writes::<u64, u64>(&table);
    let mut session = store.session().unwrap();
    let mut keys = |bounds: (Bound<u64>, Bound<u64>), scan: Scan| {
        let keys = session.run(&scope, |tx| {
            for key in [1, 2, 3, 5, 8] {
                table.upsert(tx, &key, key)?;
            }
            let mut keys = Vec::new();
            table.range(tx, bounds, scan, |key, _| {
                keys.push(key);
                ControlFlow::Continue(())
            })?;
            Ok(keys)
        });
        keys.unwrap()
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(keys((Included(2), Excluded(8)), Scan::ALL), [2, 3, 5]);
    assert_eq!(keys((Unbounded, Included(5)), Scan::last(2)), [5, 3]);
    assert_eq!(keys((Excluded(2), Unbounded), Scan::first(1)), [3]);
    assert_eq!(keys((Included(5), Included(2)), Scan::ALL), [0; 0]);
    assert_eq!(keys((Excluded(5), Excluded(5)), Scan::ALL), [0; 0]);
    assert_eq!(keys((Unbounded, Unbounded), Scan::first(0)), [0; 0]);
}

#[test]
fn transfers_of_four_threads_between_two_tables_keep_the_total() {
    let store = MutexStore::new();
    let from: MutexTable<u64, i64> = store.table(&TableSpec::new("from")).unwrap();
    let to: MutexTable<u64, i64> = store.table(&TableSpec::new("to")).unwrap();
    // Named in different orders on purpose: the locks are taken in one order all the same.
    let there = store.scope().writes::<u64, i64>(&from).writes::<u64, i64>(&to);
    let back = store.scope().writes::<u64, i64>(&to).writes::<u64, i64>(&from);
    let mut session = store.session().unwrap();
    session
        .run(&there, |tx| {
            from.insert(tx, &0, 1000)?;
            to.insert(tx, &0, 0)?;
            Ok(())
        })
        .unwrap();
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (from, to, store) = (&from, &to, &store);
            let (scope, step) = if thread % 2 == 0 { (&there, 1) } else { (&back, -1) };
            threads.spawn(move || {
                let mut session = store.session().unwrap();
                for turn in 0..500 {
                    let ended = session.run(scope, |tx| {
                        from.update(tx, &0, |balance| *balance -= step)?;
                        if turn % 5 == 0 {
                            return Err(Failure::Rollback);
                        }
                        to.update(tx, &0, |balance| *balance += step)?;
                        Ok(())
                    });
                    assert_eq!(ended.is_err(), turn % 5 == 0);
                }
            });
        }
    });
    let sums = session.run(&there, |tx| Ok((from.need(tx, &0)?, to.need(tx, &0)?)));
    assert_eq!(sums.unwrap(), (1000, 0));
}
