//! What each operation does, under every protocol, index and granularity.

use noonmark::{
    Abort, AbortKind, Database, Granularity, IndexKind, Order, Policy, Protocol, SchemaError, Table,
    TableOptions, Transaction, column_group,
};

column_group! {
    #[derive(Clone, Debug, PartialEq)]
    struct Name { first: [u8; 12], last: [u8; 12] }

    #[derive(Clone, Debug, PartialEq)]
    struct Balance { cents: i64, changes: u32 }
}

fn name(text: &str) -> Name {
    let mut first = [0; 12];
    first[..text.len()].copy_from_slice(text.as_bytes());
    Name { first, last: [7; 12] }
}

fn balance(cents: i64) -> Balance {
    Balance { cents, changes: 0 }
}

type Accounts = Table<u64, (Name, Balance)>;

/// Runs a check under everything that should make no difference.
fn everywhere(check: impl Fn(&Database, TableOptions)) {
    for &protocol in Protocol::ALL {
        for index in [IndexKind::Hash, IndexKind::Ordered] {
            for granularity in [Granularity::Fine, Granularity::Coarse, Granularity::Splitting] {
                if granularity == Granularity::Splitting && protocol.keeps_versions() {
                    continue;
                }
                let options = TableOptions::new().protocol(protocol).index(index).granularity(granularity);
                check(&Database::in_memory(), options);
            }
        }
    }
}

#[test]
fn rows_come_change_and_go() {
    everywhere(|db, options| {
        let accounts: Accounts = db.create_table("accounts", options).unwrap();
        let balances = accounts.group::<1>();
        let mut session = db.session().unwrap();
        session
            .transact(|tx| {
                assert_eq!(tx.get(&accounts, 1)?, None);
                assert!(tx.insert(&accounts, 1, (name("ann"), balance(10)))?);
                assert!(!tx.insert(&accounts, 1, (name("bob"), balance(11)))?);
                assert_eq!(tx.get(&balances, 1)?, Some(balance(10)));
                tx.update(&balances, 1, |b| b.cents += 5)?;
                assert_eq!(tx.get(&accounts, 1)?, Some((name("ann"), balance(15))));
                assert!(!tx.delete(&accounts, 2)?);
                assert!(!tx.write(&balances, 2, balance(1))?);
                Ok(())
            })
            .unwrap();
        session
            .transact(|tx| {
                let key: &u64 = &1;
                assert_eq!(tx.need(&accounts, key)?, (name("ann"), balance(15)));
                assert!(tx.write(&balances, 1, balance(20))?);
                tx.upsert(&accounts, 2, (name("cid"), balance(30)))?;
                tx.update(&accounts, 2, |(name, balance)| {
                    name.last[0] = 9;
                    balance.cents += 1;
                })?;
                Ok(())
            })
            .unwrap();
        session
            .transact(|tx| {
                assert_eq!(tx.get(&balances, 1)?, Some(balance(20)));
                assert_eq!(tx.need(&accounts, 2)?.0.last[0], 9);
                assert!(tx.delete(&accounts, 1)?);
                assert!(!tx.delete(&accounts, 1)?);
                assert_eq!(tx.get(&accounts, 1)?, None);
                assert!(tx.insert(&accounts, 1, (name("dee"), balance(40)))?);
                assert!(tx.delete(&accounts, 2)?);
                Ok(())
            })
            .unwrap();
        let mut both = Vec::new();
        session
            .transact(|tx| {
                both.clear();
                tx.get_many(&accounts, &[1, 2, 3], |index, row| both.push((index, row)))
            })
            .unwrap();
        assert_eq!(both, [(0, Some((name("dee"), balance(40)))), (1, None), (2, None)]);
        // Many times over, so that what is deleted is reclaimed under way.
        for round in 0..500 {
            session
                .transact(|tx| {
                    tx.upsert(&accounts, round, (name("eve"), balance(1)))?;
                    assert!(tx.delete(&accounts, round)?);
                    Ok(())
                })
                .unwrap();
            session
                .transact(|tx| {
                    assert_eq!(tx.get(&accounts, round)?, None);
                    tx.upsert(&accounts, 1000 + round % 7, (name("fay"), balance(round as i64)))
                })
                .unwrap();
            session.transact(|tx| tx.delete(&accounts, 1000 + round % 7)).unwrap();
        }
        assert_eq!(session.statistics().aborts, 0);
    });
}

/// What was looked up is a hint where a row is, no more: each turn, the rows change between the look and the use.
#[test]
fn rows_that_were_looked_up_may_come_and_go() {
    everywhere(|db, options| {
        let table = db.create_table::<u64, (u64, [u8; 9])>("table", options.clone()).unwrap();
        let other = db.create_table::<u64, (u64, [u8; 9])>("other", options).unwrap();
        let (number, bytes) = (table.group::<0>(), table.group::<1>());
        // One batch, and more than one.
        for keys in [(0..8).collect::<Vec<u64>>(), (0..40).collect()] {
            let count = keys.len();
            db.transact(|tx| keys.iter().try_for_each(|&key| tx.upsert(&table, key, (key, [1; 9])))).unwrap();
            db.transact(|tx| {
                let rows = tx.look_up(&table, &keys);
                assert_eq!(rows.keys(), keys);
                // By this transaction: one goes, one goes and comes back, one is new.
                assert!(tx.delete(&table, 1)?);
                assert!(tx.delete(&table, 2)?);
                assert!(tx.insert(&table, 2, (70, [7; 9]))?);
                let mut seen = Vec::new();
                tx.get_many(&number, rows.slice(0..count), |_, value| seen.push(value))?;
                let expected =
                    keys.iter().map(|&key| (key != 1).then_some(if key == 2 { 70 } else { key })).collect();
                assert_eq!(seen, Vec::<Option<u64>>::from_iter::<Vec<_>>(expected));
                tx.update_many(&bytes, rows.slice(2..count), |at, bytes| bytes[0] = at as u8)?;
                tx.update_many(&table, rows.slice(2..4), |_, row| row.0 += 1)?;
                Ok(())
            })
            .unwrap();
            let missing = db.transact(|tx| {
                let rows = tx.look_up(&table, &keys);
                tx.update_many(&number, rows.slice(0..2), |_, _| ())
            });
            assert_eq!(missing.unwrap_err().kind(), AbortKind::Missing);
            db.transact(|tx| {
                // Of another table, they stand for their keys alone.
                let rows = tx.look_up(&table, &keys);
                let mut seen = 0;
                tx.get_many(&other, rows.slice(0..count), |_, value| seen += usize::from(value.is_some()))?;
                assert_eq!(seen, 0);
                Ok(())
            })
            .unwrap();
        }
    });
}

/// The same between transactions, where one can go on while another has written.
#[test]
fn rows_that_were_looked_up_may_come_and_go_by_others() {
    for protocol in [Protocol::Occ, Protocol::TicToc] {
        for index in [IndexKind::Hash, IndexKind::Ordered] {
            let db = Database::in_memory();
            let options = TableOptions::new().protocol(protocol).index(index);
            let table = db.create_table::<u64, u64>("table", options).unwrap();
            db.transact(|tx| (0..8).try_for_each(|key| tx.upsert(&table, key, key))).unwrap();
            let mut first = db.session().unwrap();
            let seen = first
                .transact(|tx| {
                    let rows = tx.look_up(&table, &[1, 2, 3, 1000, 1001]);
                    // Another deletes one, so often with others that its record is taken out, and puts one in.
                    db.transact(|tx| tx.delete(&table, 2))?;
                    for key in 2000..2200 {
                        db.transact(|tx| tx.upsert(&table, key, 0))?;
                        db.transact(|tx| tx.delete(&table, key))?;
                    }
                    db.transact(|tx| tx.upsert(&table, 1000, 7))?;
                    let mut seen = Vec::new();
                    tx.get_many(&table, rows.slice(0..5), |_, value| seen.push(value))?;
                    // In another's transaction they stand for their keys alone.
                    let others = db.transact(|tx| {
                        let mut others = Vec::new();
                        tx.get_many(&table, rows.slice(1..4), |_, value| others.push(value))?;
                        Ok(others)
                    })?;
                    assert_eq!(others, [None, Some(3), Some(7)]);
                    Ok(seen)
                })
                .unwrap();
            assert_eq!(seen, [Some(1), None, Some(3), Some(7), None]);
            assert_eq!(first.statistics().aborts, 0);
        }
    }
}

#[test]
fn transactions_begun_by_hand_are_counted_however_they_end() {
    let db = Database::in_memory();
    let options = TableOptions::new().protocol(Protocol::TwoPhaseNoWait);
    let rows: Table<u64, u64> = db.create_table("rows", options).unwrap();
    db.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
    let [mut holder, mut other] = [db.session().unwrap(), db.session().unwrap()];
    let mut holds = holder.begin();
    holds.write(&rows, 1, 1).unwrap();
    let mut meets = other.begin();
    assert_eq!(meets.write(&rows, 1, 2).unwrap_err().kind(), AbortKind::Conflict);
    drop(meets);
    drop(other.begin());
    other.begin().rollback();
    holds.commit().unwrap();
    other.begin().commit().unwrap();
    let counted = other.statistics();
    assert_eq!((counted.aborts, counted.user_rollbacks, counted.commits), (1, 2, 1));
    let counted = holder.statistics();
    assert_eq!((counted.aborts, counted.user_rollbacks, counted.commits), (0, 0, 1));
}

#[test]
fn what_is_rolled_back_leaves_nothing() {
    everywhere(|db, options| {
        let accounts: Accounts = db.create_table("accounts", options).unwrap();
        let mut session = db.session().unwrap();
        session.transact(|tx| tx.insert(&accounts, 1, (name("ann"), balance(10)))).unwrap();
        let mut tx = session.begin();
        tx.update(&accounts, 1, |row| row.1.cents = 99).unwrap();
        tx.insert(&accounts, 2, (name("bob"), balance(1))).unwrap();
        tx.delete(&accounts, 1).unwrap();
        tx.add(&accounts.group::<1>(), 1, |b| &mut b.cents, 4).unwrap_err();
        drop(tx);
        let mut tx = session.begin();
        tx.add(&accounts.group::<1>(), 1, |b| &mut b.cents, 4).unwrap();
        tx.rollback();
        let mut tx = session.begin();
        assert_eq!(tx.get(&accounts, 1).unwrap(), Some((name("ann"), balance(10))));
        assert_eq!(tx.get(&accounts, 2).unwrap(), None);
        tx.commit().unwrap();

        #[derive(Debug)]
        enum Own {
            No,
            Abort(Abort),
        }
        impl From<Abort> for Own {
            fn from(abort: Abort) -> Self {
                Own::Abort(abort)
            }
        }
        let answer: Result<(), Own> = session.try_transact(|tx| {
            tx.update(&accounts, 1, |row| row.1.cents = 99)?;
            Err(Own::No)
        });
        assert!(matches!(answer, Err(Own::No)));
        let answer: Result<(), Own> = session.try_transact(|tx| Ok(tx.update(&accounts, 5, |_| ())?));
        let Err(Own::Abort(abort)) = answer else { panic!("{answer:?}") };
        assert_eq!(abort.kind(), AbortKind::Missing);
        assert!(!abort.is_retryable());
        assert!(abort.to_string().contains("accounts[5]"), "{abort}");
        assert_eq!(session.transact(|tx| tx.need(&accounts, 1)).unwrap().1, balance(10));
    });
}

#[test]
fn updates_at_commit_are_seen_by_their_own_transaction() {
    everywhere(|db, options| {
        let accounts: Accounts = db.create_table("accounts", options.clone()).unwrap();
        let balances = accounts.group::<1>();
        let texts: Table<u64, Vec<u8>> = db.create_table("texts", options).unwrap();
        let mut session = db.session().unwrap();
        session
            .transact(|tx| {
                tx.insert(&accounts, 1, (name("ann"), balance(10)))?;
                tx.add(&balances, 1, |b| &mut b.cents, 5)?;
                assert_eq!(tx.need(&balances, 1)?.cents, 15);
                tx.upsert(&texts, 1, b"ab".to_vec())
            })
            .unwrap();
        session
            .transact(|tx| {
                tx.add(&balances, 1, |b| &mut b.cents, 5)?;
                tx.max(&balances, 1, |b| &mut b.changes, 9)?;
                tx.min(&balances, 1, |b| &mut b.changes, 4)?;
                tx.apply(&balances, 1, |b| b.cents *= 2)?;
                tx.append(&texts, 1, b"cde")?;
                tx.append(&texts, 1, b"")
            })
            .unwrap();
        session
            .transact(|tx| {
                assert_eq!(tx.need(&balances, 1)?, Balance { cents: 40, changes: 4 });
                tx.add(&balances, 1, |b| &mut b.cents, 1)?;
                assert_eq!(tx.need(&accounts, 1)?.1.cents, 41);
                tx.add(&balances, 1, |b| &mut b.cents, 1)?;
                tx.append(&texts, 1, b"fgh")?;
                assert_eq!(tx.need(&texts, 1)?, b"abcdefgh");
                tx.append(&texts, 1, b"!")
            })
            .unwrap();
        session
            .transact(|tx| {
                assert_eq!(tx.need(&balances, 1)?.cents, 42);
                assert_eq!(tx.need(&texts, 1)?, b"abcdefgh!");
                tx.delete(&texts, 1)?;
                Ok(())
            })
            .unwrap();
        let missing = session.transact(|tx| tx.append(&texts, 1, b"x")).unwrap_err();
        assert_eq!(missing.kind(), AbortKind::Missing);
    });
}

/// User code that panics, wherever it does, leaves nothing behind and nothing locked.
#[test]
fn groups_beside_one_that_is_written_are_what_they_were() {
    everywhere(|db, options| {
        // The last one lies behind a pointer, beside the others in a coarse row.
        type Row = (u64, [u16; 20], Vec<u8>);
        let rows: Table<u32, Row> = db.create_table("rows", options).unwrap();
        let (count, list, text) = (rows.group::<0>(), rows.group::<1>(), rows.group::<2>());
        let mut session = db.session().unwrap();
        let first = (1, [2; 20], b"three".to_vec());
        session.transact(|tx| tx.insert(&rows, 1, first.clone())).unwrap();
        session
            .transact(|tx| {
                tx.update(&count, 1, |count| *count += 10)?;
                assert_eq!(tx.get(&list, 1)?, Some([2; 20]));
                assert_eq!(tx.get(&text, 1)?.as_deref(), Some(&b"three"[..]));
                // Read already, with the row or just now: changed at once.
                tx.apply(&list, 1, |list| list[7] = 70)?;
                tx.append(&text, 1, b" and more")?;
                assert_eq!(tx.get(&rows, 1)?.map(|row| (row.0, row.1[7], row.2.len())), Some((11, 70, 14)));
                tx.update(&list, 1, |list| list[0] += list[7])
            })
            .unwrap();
        let mut list_then = [2; 20];
        (list_then[0], list_then[7]) = (72, 70);
        let then = (11, list_then, b"three and more".to_vec());
        assert_eq!(session.transact(|tx| tx.get(&rows, 1)).unwrap(), Some(then.clone()));
        // Deleted and put back, the row has nothing left of what was known of it.
        session
            .transact(|tx| {
                tx.update(&count, 1, |count| *count = 5)?;
                assert!(tx.delete(&rows, 1)?);
                assert_eq!(tx.get(&list, 1)?, None);
                tx.upsert(&rows, 1, (6, [6; 20], vec![6]))?;
                tx.update(&count, 1, |count| *count += 1)
            })
            .unwrap();
        assert_eq!(session.transact(|tx| tx.get(&rows, 1)).unwrap(), Some((7, [6; 20], vec![6])));
    });
}

/// Of a row that is changed whole, all that the transaction has made of its groups before must be written, in whatever order, also of those that
/// stay what they are.
#[test]
fn groups_that_stay_what_they_are_keep_what_was_made_of_them_before() {
    everywhere(|db, options| {
        let accounts: Accounts = db.create_table("accounts", options).unwrap();
        let (names, balances) = (accounts.group::<0>(), accounts.group::<1>());
        db.transact(|tx| tx.insert(&accounts, 1, (name("ann"), balance(10)))).unwrap();
        let row = || db.transact(|tx| tx.need(&accounts, 1)).unwrap();

        // Nothing at all.
        db.transact(|tx| tx.update(&accounts, 1, |_| ())).unwrap();
        assert_eq!(row(), (name("ann"), balance(10)));
        // One after the other.
        db.transact(|tx| {
            tx.update(&accounts, 1, |(_, balance)| balance.cents += 1)?;
            tx.update(&accounts, 1, |(n, _)| *n = name("bob"))
        })
        .unwrap();
        assert_eq!(row(), (name("bob"), balance(11)));
        // There and back: what was there at first is written again, over what was to be written meanwhile.
        db.transact(|tx| {
            tx.update(&accounts, 1, |(_, balance)| balance.cents = 0)?;
            tx.update(&accounts, 1, |(_, balance)| balance.cents = 11)?;
            assert_eq!(tx.need(&accounts, 1)?, (name("bob"), balance(11)));
            Ok(())
        })
        .unwrap();
        assert_eq!(row(), (name("bob"), balance(11)));
        // Written and added to before, left alone then.
        db.transact(|tx| {
            tx.write(&names, 1, name("cid"))?;
            tx.add(&balances, 1, |balance| &mut balance.cents, 5)?;
            tx.update(&accounts, 1, |_| ())
        })
        .unwrap();
        assert_eq!(row(), (name("cid"), balance(16)));
        // Put in by itself.
        db.transact(|tx| {
            tx.insert(&accounts, 2, (name("dan"), balance(1)))?;
            tx.update(&accounts, 2, |(n, _)| *n = name("eve"))
        })
        .unwrap();
        assert_eq!(db.transact(|tx| tx.get(&accounts, 2)).unwrap(), Some((name("eve"), balance(1))));
    });
}

column_group! {
    #[derive(Clone, Debug, PartialEq)]
    struct Level { quantity: i32, counts: [u16; 2] }

    #[derive(Clone, Debug, PartialEq)]
    struct Texts { texts: [[u8; 24]; 10], data: [u8; 49] }
}

/// Long rows whose values lie in memory as in a record are changed where they lie, and of long groups what stays as it is is not stored again: wherever
/// something changes, and whatever the transaction has done before.
#[test]
fn long_rows_are_changed_where_they_lie() {
    type Stock = (Level, Texts);
    everywhere(|db, options| {
        let stocks: Table<u32, Stock> = db.create_table("stocks", options).unwrap();
        let texts = stocks.group::<1>();
        let mut then: Stock = (
            Level { quantity: 1, counts: [2, 3] },
            Texts { texts: std::array::from_fn(|text| [text as u8; 24]), data: [77; 49] },
        );
        db.transact(|tx| tx.insert(&stocks, 1, then.clone())).unwrap();
        let row = || db.transact(|tx| tx.need(&stocks, 1)).unwrap();
        let changes: [fn(&mut Stock); 6] = [
            |(level, _)| level.quantity -= 5,
            |(_, texts)| texts.data[48] = 1,
            |(_, texts)| texts.texts[3][7] ^= 255,
            |(level, texts)| (level.counts[1], texts.texts[0][0]) = (9, 8),
            |_| (),
            |row| {
                *row = (Level { quantity: 6, counts: [6; 2] }, Texts { texts: [[6; 24]; 10], data: [7; 49] })
            },
        ];
        for change in changes {
            db.transact(|tx| tx.update(&stocks, 1, change)).unwrap();
            change(&mut then);
            assert_eq!(row(), then);
        }
        // Each again, one after another, with what a transaction sees of its own; then there and back.
        db.transact(|tx| {
            for change in changes {
                tx.update_many(&stocks, &[1], |_, row| change(row))?;
            }
            tx.update(&texts, 1, |texts| texts.data[48] += 1)?;
            let seen = tx.need(&stocks, 1)?;
            tx.update(&stocks, 1, |(_, texts)| texts.texts = [[0; 24]; 10])?;
            tx.update(&stocks, 1, |(_, texts)| texts.texts = seen.1.texts)
        })
        .unwrap();
        changes.iter().for_each(|change| change(&mut then));
        then.1.data[48] += 1;
        assert_eq!(row(), then);
        // Put in by itself, and put in again.
        db.transact(|tx| {
            tx.delete(&stocks, 1)?;
            tx.insert(&stocks, 1, then.clone())?;
            tx.update(&stocks, 1, changes[2])?;
            tx.insert(&stocks, 2, then.clone())?;
            tx.update(&stocks, 2, changes[1])
        })
        .unwrap();
        let mut second = then.clone();
        changes[2](&mut then);
        changes[1](&mut second);
        assert_eq!((row(), db.transact(|tx| tx.need(&stocks, 2)).unwrap()), (then, second));
    });
}

#[test]
fn a_panic_leaves_nothing_behind() {
    everywhere(|db, options| {
        let table: Table<u64, u64> = db.create_table("t", options).unwrap();
        let mut session = db.session().unwrap();
        session
            .transact(|tx| {
                tx.insert(&table, 1, 10)?;
                tx.insert(&table, 2, 20)
            })
            .unwrap();
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        for panics_in_body in [false, true] {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                session.transact(|tx| {
                    tx.write(&table, 1, 777)?;
                    tx.update(&table, 2, |v| *v += 1)?;
                    assert!(!panics_in_body);
                    tx.write(&table, 2, 5)?;
                    tx.insert(&table, 3, 1)?;
                    let mut other = db.session().unwrap();
                    drop(other.begin());
                    Ok(())
                })?;
                session.transact(|tx| {
                    tx.write(&table, 1, 778)?;
                    tx.apply(&table, 2, |_| panic!("an update that panics"))
                })
            }));
            assert!(caught.is_err());
            let rows = session.transact(|tx| Ok((tx.get(&table, 1)?, tx.get(&table, 2)?))).unwrap();
            assert_eq!(rows, (Some(777), Some(5)));
        }
        std::panic::set_hook(hook);
        db.transact(|tx| tx.update(&table, 2, |v| *v += 1)).unwrap();
    });
}

#[test]
fn values_of_any_size() {
    everywhere(|db, options| {
        let texts: Table<u32, String> = db.create_table("texts", options.clone()).unwrap();
        let pages: Table<u32, [u8; 3000]> = db.create_table("pages", options).unwrap();
        let mut session = db.session().unwrap();
        for size in [0usize, 1, 7, 8, 9, 1000, 100_000] {
            let text = "x".repeat(size);
            session
                .transact(|tx| {
                    tx.upsert(&texts, 3, text.clone())?;
                    assert_eq!(tx.need(&texts, 3)?, text);
                    tx.upsert(&pages, 3, [size as u8; 3000])
                })
                .unwrap();
            session
                .transact(|tx| {
                    assert_eq!(tx.need(&texts, 3)?, text);
                    assert_eq!(tx.need(&pages, 3)?, [size as u8; 3000]);
                    tx.update(&texts, 3, |t| t.push('y'))?;
                    assert_eq!(tx.need(&texts, 3)?.len(), size + 1);
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn ranges_in_both_directions() {
    let backwards = std::ops::Range { start: 400, end: 300 };
    for &protocol in Protocol::ALL {
        let db = Database::in_memory();
        let table: Table<i32, u64> = db.create_table("t", TableOptions::new().protocol(protocol)).unwrap();
        let mut session = db.session().unwrap();
        session
            .transact(|tx| {
                for key in -500..500 {
                    tx.insert(&table, key, key as u64)?;
                }
                Ok(())
            })
            .unwrap();
        session
            .transact(|tx| {
                let keys = |rows: Vec<(i32, u64)>| rows.into_iter().map(|(k, _)| k).collect::<Vec<_>>();
                assert_eq!(keys(tx.range(&table, ..).collect()?), (-500..500).collect::<Vec<_>>());
                assert_eq!(keys(tx.range(&table, -3..=3).collect()?), (-3..=3).collect::<Vec<_>>());
                assert_eq!(keys(tx.range(&table, ..-498).reverse().collect()?), [-499, -500]);
                assert_eq!(keys(tx.range(&table, 490..).limit(2).collect()?), [490, 491]);
                assert_eq!(keys(tx.range(&table, backwards.clone()).collect()?), [0; 0]);
                assert_eq!(keys(tx.range(&table, 400..400).collect()?), [0; 0]);
                assert_eq!(keys(tx.range(&table, 5..9).limit(0).collect()?), [0; 0]);
                tx.delete(&table, 101)?;
                tx.insert(&table, 1000, 0)?;
                assert_eq!(keys(tx.range(&table, 100..103).collect()?), [100, 102]);
                assert_eq!(keys(tx.range(&table, ..).reverse().limit(1).collect()?), [1000]);
                Ok(())
            })
            .unwrap();
        assert_eq!(session.statistics().aborts, 0);
    }
    let db = Database::in_memory();
    let hashed: Table<i32, u64> = db.create_table("h", TableOptions::new().index(IndexKind::Hash)).unwrap();
    let abort = db.transact(|tx| tx.range(&hashed, ..).collect()).unwrap_err();
    assert_eq!(abort.kind(), AbortKind::NotOrdered);
    // Not that there is nothing in it.
    #[allow(clippy::reversed_empty_ranges, reason = "a range of the user's may be one")]
    let abort = db.transact(|tx| tx.range(&hashed, 2..1).collect()).unwrap_err();
    assert_eq!((abort.kind(), abort.key()), (AbortKind::NotOrdered, None));
}

#[test]
fn secondary_indexes_follow_their_rows() {
    everywhere(|db, options| {
        let accounts: Accounts = db.create_table("accounts", options).unwrap();
        let by_balance =
            accounts.group::<1>().create_index(db, "by_balance", |_, b: &Balance| b.cents).unwrap();
        let by_name = accounts
            .create_index(db, "by_name", |_, (name, _): &(Name, Balance)| {
                String::from_utf8_lossy(&name.first).trim_end_matches('\0').to_owned()
            })
            .unwrap();
        let mut session = db.session().unwrap();
        session
            .transact(|tx| {
                for (key, who, cents) in [(1, "ann", 5), (2, "bob", -5), (3, "an", 5), (4, "cid", 0)] {
                    tx.insert(&accounts, key, (name(who), balance(cents)))?;
                }
                Ok(())
            })
            .unwrap();
        let all = |session: &mut noonmark::Session| {
            session
                .transact(|tx| {
                    let balances = tx.range_by(&by_balance, ..).collect()?;
                    Ok((balances, tx.range_by(&by_name, "an".to_owned()..="bob".to_owned()).collect()?))
                })
                .unwrap()
        };
        let named =
            |list: &[(&str, u64)]| list.iter().map(|(n, k)| ((*n).to_owned(), *k)).collect::<Vec<_>>();
        assert_eq!(
            all(&mut session),
            (vec![(-5, 2), (0, 4), (5, 1), (5, 3)], named(&[("an", 3), ("ann", 1), ("bob", 2)]))
        );
        session
            .transact(|tx| {
                tx.update(&accounts.group::<1>(), 2, |b| b.cents = 7)?;
                tx.add(&accounts.group::<1>(), 4, |b| &mut b.cents, 1)?;
                assert_eq!(tx.range_by(&by_balance, 1..=1).collect()?, [(1, 4)]);
                tx.delete(&accounts, 1)?;
                tx.write(&accounts.group::<0>(), 3, name("ao"))?;
                tx.upsert(&accounts, 3, (name("b"), balance(6)))
            })
            .unwrap();
        assert_eq!(all(&mut session), (vec![(1, 4), (6, 3), (7, 2)], named(&[("b", 3), ("bob", 2)])));
        session
            .transact(|tx| {
                assert_eq!(tx.range_by(&by_balance, ..6).collect()?, [(1, 4)]);
                assert_eq!(tx.range_by(&by_balance, 6..).reverse().limit(1).collect()?, [(7, 2)]);
                use std::ops::Bound::{Excluded, Unbounded};
                assert_eq!(tx.range_by(&by_balance, (Excluded(6), Unbounded)).collect()?, [(7, 2)]);
                assert_eq!(tx.range_by(&by_balance, (Excluded(i64::MAX), Unbounded)).collect()?, []);
                Ok(())
            })
            .unwrap();
        let late = accounts.create_index(db, "late", |_, _| 0u8).unwrap_err();
        assert!(matches!(late, SchemaError::NotEmpty(_)));
    });
}

#[test]
fn tables_are_what_they_were_made_as() {
    let db = Database::in_memory();
    let made = db.table::<u64, u64>("t").unwrap();
    let again = db.table::<u64, u64>("t").unwrap();
    db.transact(|tx| tx.insert(&made, 1, 2)).unwrap();
    assert_eq!(db.view(|tx| tx.get(&again, 1)).unwrap(), Some(2));
    assert!(matches!(db.table::<u64, i64>("t"), Err(SchemaError::OtherTypes(_))));
    assert!(matches!(db.create_table::<u64, u64>("t", TableOptions::new()), Err(SchemaError::Exists(_))));
    let other = Database::in_memory();
    let foreign = other.transact(|tx| tx.get(&made, 1)).unwrap_err();
    assert_eq!(foreign.kind(), AbortKind::ForeignTable);
    let texts = db.table::<String, u64>("texts").unwrap();
    let foreign = other.transact(|tx| tx.get(&texts, "b")).unwrap_err();
    assert_eq!(foreign.key(), None);
    assert!(foreign.to_string().starts_with("texts: "), "{foreign}");
    assert!(Database::builder().max_sessions(0).build().is_err());
    let logical = Database::builder().order(Order::Logical).build().unwrap();
    assert!(matches!(
        logical.create_table::<u64, u64>("t", TableOptions::new().protocol(Protocol::Occ)),
        Err(SchemaError::WrongOrder(..))
    ));
}

#[test]
fn sessions_are_counted() {
    let db = Database::builder().max_sessions(2).build().unwrap();
    let first = db.session().unwrap();
    let _second = db.session().unwrap();
    assert!(db.session().unwrap_err().to_string().contains("2 sessions"));
    drop(first);
    assert!(db.session().is_ok());
}

#[test]
fn long_keys_are_refused() {
    let db = Database::in_memory();
    let table = db.table::<Vec<u8>, u64>("t").unwrap();
    let longest = vec![1u8; noonmark::KEY_BYTES_MAX];
    db.transact(|tx| tx.insert(&table, &longest, 1)).unwrap();
    let too_long = vec![1u8; noonmark::KEY_BYTES_MAX + 1];
    let abort = db.transact(|tx| tx.insert(&table, &too_long, 1)).unwrap_err();
    assert_eq!(abort.kind(), AbortKind::TooLong);
    assert_eq!(db.transact(|tx| tx.get(&table, &too_long)).unwrap(), None);
}

/// Whatever number of rows was expected, and whatever the keys are: values of fixed and of variable size, rows that
/// come, go and come again, and more of them than places.
#[test]
fn the_number_of_rows_that_was_expected_is_only_a_hint() {
    let hints = [0, 1, 7, 300, 1 << 40, usize::MAX];
    let both = [IndexKind::Hash, IndexKind::Ordered].map(|index| hints.map(|rows| (index, rows)));
    for (index, rows) in both.into_iter().flatten() {
        let db = Database::in_memory();
        let options = TableOptions::new().index(index).expected_rows(rows);
        let numbers = db.create_table::<u64, u64>("numbers", options.clone()).unwrap();
        let texts = db.create_table::<(u16, u32), String>("texts", options.clone()).unwrap();
        let names = db.create_table::<String, u64>("names", options).unwrap();
        for turn in 0..3 {
            for n in 0..1000u64 {
                let scattered = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let pair = ((n / 100) as u16, (n % 100) as u32);
                db.transact(|tx| {
                    assert!(tx.insert(&numbers, n, n + turn)?);
                    tx.upsert(&numbers, scattered, n + turn)?;
                    assert!(tx.insert(&texts, pair, format!("{n} {turn}"))?);
                    assert!(tx.insert(&names, n.to_string(), n)?);
                    assert!(!tx.insert(&names, n.to_string(), n)?);
                    Ok(())
                })
                .unwrap();
            }
            let all: Vec<u64> = (0..1000).collect();
            db.transact(|tx| {
                tx.get_many(&numbers, &all, |at, value| assert_eq!(value, Some(at as u64 + turn)))?;
                for n in 0..1000u64 {
                    let pair = ((n / 100) as u16, (n % 100) as u32);
                    assert_eq!(tx.get(&texts, pair)?, Some(format!("{n} {turn}")));
                    assert_eq!(tx.get(&names, n.to_string())?, Some(n));
                    assert_eq!(tx.get(&numbers, n.wrapping_mul(0x9e37_79b9_7f4a_7c15))?, Some(n + turn));
                    assert_eq!(tx.get(&numbers, n + 1000)?, None);
                }
                Ok(())
            })
            .unwrap();
            for n in 0..1000u64 {
                db.transact(|tx| {
                    assert!(tx.delete(&numbers, n)?);
                    assert!(tx.delete(&texts, ((n / 100) as u16, (n % 100) as u32))?);
                    assert!(tx.delete(&names, n.to_string())?);
                    Ok(())
                })
                .unwrap();
            }
        }
    }
}

#[test]
fn a_failed_operation_ends_the_transaction() {
    let db = Database::in_memory();
    let table = db.table::<u64, u64>("t").unwrap();
    let mut session = db.session().unwrap();
    let mut tx = session.begin();
    tx.insert(&table, 1, 1).unwrap();
    tx.need(&table, 2).unwrap_err();
    assert_eq!(tx.get(&table, 1).unwrap_err().kind(), AbortKind::Continued);
    assert_eq!(tx.commit().unwrap_err().kind(), AbortKind::Continued);
    assert_eq!(session.transact(|tx| tx.get(&table, 1)).unwrap(), None);
}

/// Aborts say what they collided with.
#[test]
fn aborts_explain_themselves() {
    for protocol in [Protocol::Occ, Protocol::TicToc] {
        let db = Database::in_memory();
        let accounts: Accounts = db.create_table("accounts", TableOptions::new().protocol(protocol)).unwrap();
        let balances = accounts.group::<1>();
        let mut ann = db.session().unwrap();
        let mut bob = db.session().unwrap();
        ann.transact(|tx| {
            tx.insert(&accounts, 42, (name("ann"), balance(10)))?;
            tx.insert(&accounts, 43, (name("bob"), balance(10)))
        })
        .unwrap();
        let mut tx = ann.begin();
        tx.get(&balances, 42).unwrap();
        bob.transact(|tx| tx.update(&balances, 42, |b| b.cents += 1)).unwrap();
        bob.transact(|tx| tx.update(&balances, 43, |b| b.cents += 1)).unwrap();
        tx.update(&balances, 43, |b| b.cents += 1).unwrap();
        let abort = tx.commit().unwrap_err();
        let text = abort.to_string();
        let other = abort.other().unwrap();
        let begins =
            format!("accounts[42].Balance: read at time 1, replaced at 2 by transaction {other} before");
        assert!(text.starts_with(&begins), "{text}");
        assert!(
            text.ends_with(&format!("({protocol}: validate); nothing was applied, retry is safe")),
            "{text}"
        );
        assert!(abort.is_retryable());
        assert_eq!(abort.rule(), format!("{protocol}: validate"));
        assert_eq!(abort.table(), Some("accounts"));
        assert_eq!(abort.key().as_deref(), Some("42"));
        assert_eq!(abort.column_group(), Some("Balance"));
        let report = db.conflicts();
        assert_eq!((report.total, report.by_rule.len(), report.by_rule[0].count), (1, 1, 1));
        let by_rule = &report.by_rule[0];
        assert_eq!((by_rule.table.as_str(), by_rule.group.as_deref()), ("accounts", Some("Balance")));
        assert_eq!(by_rule.rule, format!("{protocol}: validate"));
        assert_eq!(report.hottest, [("accounts[42]".to_owned(), 1)]);
        // The same in the closure form, when the policy gives up.
        let given_up = ann
            .transact_with(&Policy::once(), |tx| {
                tx.get(&balances, 42)?;
                bob.transact(|tx| tx.update(&balances, 42, |b| b.cents += 1))?;
                bob.transact(|tx| tx.update(&balances, 43, |b| b.cents += 1))?;
                tx.update(&balances, 43, |b| b.cents += 1)
            })
            .unwrap_err();
        assert_eq!(given_up.kind(), AbortKind::Attempts);
        assert!(given_up.is_retryable());
    }
}

fn ordered(protocol: Protocol) -> TableOptions {
    TableOptions::new().protocol(protocol).index(IndexKind::Ordered)
}

/// What a scan would have found cannot be put in behind its back, in whatever direction it went, and however far.
#[test]
fn no_phantom_comes_behind_a_scan() {
    for &protocol in Protocol::ALL {
        for (reverse, limit) in [(false, None), (true, None), (false, Some(3)), (true, Some(3))] {
            let db = Database::in_memory();
            let rows: Table<u64, (u64, u64)> = db.create_table("rows", ordered(protocol)).unwrap();
            db.transact(|tx| (0..10).try_for_each(|key| tx.insert(&rows, key * 10, (0, 0)).map(drop)))
                .unwrap();
            let (mut one, mut other) = (db.session().unwrap(), db.session().unwrap());
            let mut tx = one.begin();
            let mut scan = tx.range(&rows, 15..=75);
            if reverse {
                scan = scan.reverse();
            }
            if let Some(limit) = limit {
                scan = scan.limit(limit);
            }
            let found = scan.collect().unwrap();
            assert_eq!(found.len(), limit.unwrap_or(6));
            // A row within what was found, and one that is read only after that.
            let inserted = if reverse { 65 } else { 25 };
            other
                .transact_with(&Policy::once(), |tx| {
                    assert!(tx.insert(&rows, inserted, (1, 1))?);
                    tx.write(&rows.group::<0>(), 90, 7)
                })
                .unwrap();
            let ended = tx.get(&rows.group::<0>(), 90).and_then(|value| {
                tx.update(&rows.group::<1>(), 0, |value| *value += 1)?;
                tx.commit()?;
                Ok(value)
            });
            match ended {
                // As it was before the other came: there are versions.
                Ok(value) => assert_eq!(value, Some(0), "{protocol}, reverse {reverse}, limit {limit:?}"),
                Err(abort) => {
                    assert_eq!(abort.kind(), AbortKind::Conflict, "{abort}");
                    let is_phantom = abort.to_string().contains("keys came or went");
                    assert!(!is_phantom || abort.column_group().is_none(), "{abort}");
                }
            }
        }
    }
}

/// A scan that has all that it may have relies on no more leaves than it needed: whatever does not end one who has looked for an absent key where
/// the scan looked does not end it either.
#[test]
fn a_limited_scan_relies_on_the_leaves_that_it_needed() {
    const KEYS: u64 = 200;
    /// Whether somebody commits who has looked, and then another has put in a key.
    fn commits(
        protocol: Protocol,
        inserted: u64,
        look: impl Fn(&mut Transaction<'_>, &Table<u64, u64>) -> Result<(), Abort>,
    ) -> bool {
        let db = Database::in_memory();
        let rows: Table<u64, u64> = db.create_table("rows", ordered(protocol)).unwrap();
        db.transact(|tx| (1..=KEYS).try_for_each(|key| tx.insert(&rows, key * 2, 0).map(drop))).unwrap();
        let (mut one, mut other) = (db.session().unwrap(), db.session().unwrap());
        let mut tx = one.begin();
        look(&mut tx, &rows).unwrap();
        other
            .transact(|tx| {
                tx.insert(&rows, inserted, 0)?;
                tx.update(&rows, KEYS, |value| *value += 1)
            })
            .unwrap();
        tx.update(&rows, KEYS, |value| *value += 1).is_ok() && tx.commit().is_ok()
    }
    for protocol in [Protocol::Occ, Protocol::TicToc, Protocol::TwoPhaseNoWait] {
        let mut ended = [0, 0];
        for inserted in (1..=2 * KEYS + 1).step_by(2) {
            let first = |tx: &mut Transaction<'_>, rows: &_| tx.range(rows, ..).limit(1).collect().map(drop);
            let last = |tx: &mut Transaction<'_>, rows: &_| {
                tx.range(rows, ..).reverse().limit(1).collect().map(drop)
            };
            let below = commits(protocol, inserted, |tx, rows| tx.get(rows, 1).map(drop));
            let above = commits(protocol, inserted, |tx, rows| tx.get(rows, 2 * KEYS + 1).map(drop));
            assert_eq!(
                commits(protocol, inserted, first),
                below,
                "{protocol}: from the first, and {inserted}"
            );
            assert_eq!(commits(protocol, inserted, last), above, "{protocol}: from the last, and {inserted}");
            ended[0] += u64::from(!below);
            ended[1] += u64::from(!above);
        }
        // Some, and not all: there are several leaves.
        assert!(ended.iter().all(|ended| (1..=KEYS / 2).contains(ended)), "{protocol}: {ended:?}");
    }
}
