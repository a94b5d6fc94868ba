//! Ranges of commit times, under `dynamic` and `ranges`: each test fails if the rule that it is named after is broken.
//!
//! As in `rules.rs` one thread plays all parts, and acts in the midst of an operation.

use crate::stage_support::{At, Stage, builder, commit_of, interrupted, sessions, table};
use noonmark::{AbortKind, Database, Order, Policy, Protocol, SchemaError, Session, Table, TableOptions};

const BOTH: [Protocol; 2] = [Protocol::Dynamic, Protocol::Ranges];
const KEEPERS: [Protocol; 3] = [Protocol::TicToc, Protocol::Dynamic, Protocol::Ranges];

type Rows = Table<u64, u64>;

/// A logical database with one table of this protocol, and the rows 1 to 4, all 0.
fn stage(protocol: Protocol) -> (Database<Stage>, Rows) {
    let db = builder().order(Order::Logical).build().unwrap();
    let rows = table(&db, "rows", protocol);
    let mut session = db.session().unwrap();
    session.transact(|tx| (1..=4).try_for_each(|key| tx.insert(&rows, key, 0).map(|_| ()))).unwrap();
    drop(session);
    (db, rows)
}

/// Writes a row so many times.
fn write_often(session: &mut Session<Stage>, rows: &Rows, key: u64, times: u64) {
    for _ in 0..times {
        session.transact(|tx| tx.write(rows, key, 7)).unwrap();
    }
}

/// T1 reads x; T2 writes x and commits; T1 writes y, and still commits: before T2. Whether it did.
fn fits_in_before(protocol: Protocol) -> bool {
    let (db, rows) = stage(protocol);
    let [mut s1, mut s2] = sessions(&db);
    let mut first = s1.begin();
    assert_eq!(first.get(&rows, 1).unwrap(), Some(0));
    let second = commit_of(&mut s2, |tx| assert!(tx.write(&rows, 1, 1).unwrap()));
    first.write(&rows, 2, 1).unwrap();
    first.commit().map(|first| assert!(first.time < second, "{} and {second}", first.time)).is_ok()
}

/// Dynamic §V.A: a transaction is fitted in before one that has replaced what it read, also if nobody has vouched for that
/// time before. `tictoc` does not know of running readers.
#[test]
fn a_running_reader_is_left_times_before_its_writer() {
    assert!(!fits_in_before(Protocol::TicToc));
    for protocol in BOTH {
        assert!(fits_in_before(protocol), "{protocol}");
    }
}

/// Dynamic §VI.A, literally: the upper bound of a running reader is infinite, so that no writer could come after it.
#[test]
fn running_readers_do_not_abort_a_writer() {
    for protocol in BOTH {
        let (db, rows) = stage(protocol);
        let [mut s1, mut s2, mut s3] = sessions(&db);
        let [mut one, mut two] = [s1.begin(), s2.begin()];
        for reader in [&mut one, &mut two] {
            assert_eq!(reader.get(&rows, 1).unwrap(), Some(0));
        }
        for value in 1..4 {
            commit_of(&mut s3, |tx| assert!(tx.write(&rows, 1, value).unwrap()));
        }
        for reader in [one, two] {
            reader.commit().unwrap();
        }
    }
}

/// Dynamic §VI.A, literally: both collapse their ranges at the commit, find the other gone, and one update is lost.
#[test]
fn no_update_is_lost_at_any_step() {
    for protocol in BOTH {
        let mut ended = 0;
        for touch in 0.. {
            let (db, rows) = stage(protocol);
            let [mut s1, mut s2] = sessions(&db);
            let mut committed = 0;
            let mut came = false;
            // One reads, then writes unread; the other reads for update.
            let other = || {
                came = true;
                committed +=
                    u64::from(s2.transact_with(&Policy::once(), |tx| tx.add(&rows, 1, |v| v, 1)).is_ok());
                committed += u64::from(
                    s2.transact_with(&Policy::once(), |tx| tx.update(&rows, 1, |value| *value += 1)).is_ok(),
                );
            };
            let first = interrupted(At::Touch(touch), other, || {
                s1.transact_with(&Policy::once(), |tx| {
                    let value = tx.need(&rows, 1)?;
                    tx.write(&rows, 1, value + 1)
                })
            });
            committed += u64::from(first.is_ok());
            let value = s1.transact(|tx| tx.need(&rows, 1)).unwrap();
            assert_eq!(value, committed, "{protocol}, in touch {touch}");
            ended += committed;
            if !came {
                break;
            }
        }
        assert!(ended > 10, "{protocol}: {ended}");
    }
}

/// Two validators see each other: each reads what the other writes, and one commits in the midst of the other's
/// commit, at every step of it, under every mix.
#[test]
fn two_validators_see_each_other() {
    for (one, two) in KEEPERS.into_iter().flat_map(|one| KEEPERS.map(|two| (one, two))) {
        let mut alone = [0, 0];
        for touch in 0.. {
            let db = builder().order(Order::Logical).build().unwrap();
            let [x, y] = [table(&db, "x", one), table(&db, "y", two)];
            let [mut s1, mut s2] = sessions(&db);
            s1.transact(|tx| {
                tx.insert(&x, 1, 0)?;
                tx.insert(&y, 1, 0)
            })
            .unwrap();
            let (mut first, mut second) = (s1.begin(), s2.begin());
            // Who waits has to be the older; whoever is refused has lost, and the other may go on.
            let began = first.get(&x, 1).is_ok() && second.get(&y, 1).is_ok();
            assert!(began);
            let may = [first.write(&y, 1, 1).is_ok(), second.write(&x, 1, 1).is_ok()];
            let mut came = None;
            let first = interrupted(
                At::Touch(touch),
                || came = Some(second.commit().is_ok()),
                || first.commit().is_ok(),
            );
            let Some(second) = came else { break };
            assert!(!(first && second), "write skew of {one} and {two}, in touch {touch}");
            assert!(may[0] || !first);
            assert!(may[1] || !second);
            alone[0] += usize::from(first);
            alone[1] += usize::from(second);
        }
        assert!(alone[0] + alone[1] > 0, "{one} and {two}: {alone:?}");
    }
}

/// A reader sees all that a writer wrote, or nothing of it, and its time says which: the writer comes in the midst of it, at
/// every step.
#[test]
fn a_reader_is_on_one_side_of_a_writer_at_any_step() {
    for (one, two) in KEEPERS.into_iter().flat_map(|one| KEEPERS.map(|two| (one, two))) {
        let (mut before, mut after) = (0, 0);
        for touch in 0.. {
            let db = builder().order(Order::Logical).build().unwrap();
            let [x, y] = [table(&db, "x", one), table(&db, "y", two)];
            let [mut s1, mut s2] = sessions(&db);
            s1.transact(|tx| {
                tx.insert(&x, 1, 0)?;
                tx.insert(&y, 1, 0)
            })
            .unwrap();
            let mut wrote = None;
            let writer = || {
                let mut tx = s2.begin();
                let written = tx.write(&x, 1, 1).is_ok() && tx.write(&y, 1, 1).is_ok();
                wrote = Some(if written { tx.commit().ok() } else { None });
            };
            let read = interrupted(At::Touch(touch), writer, || {
                let mut tx = s1.begin();
                let values = (tx.get(&x, 1)?, tx.get(&y, 1)?);
                tx.commit().map(|commit| (values, commit.time))
            });
            let Some(wrote) = wrote else { break };
            let (Ok(((x, y), read)), Some(wrote)) = (read, wrote) else { continue };
            assert_eq!(x, y, "{one} and {two}, in touch {touch}");
            if x == Some(0) {
                assert!(read < wrote.time, "{one} and {two}, in touch {touch}");
                before += 1;
            } else {
                assert!(read >= wrote.time, "{one} and {two}, in touch {touch}");
                after += 1;
            }
        }
        assert!(before > 0 && after > 0, "{one} and {two}: {before} and {after}");
    }
}

/// A reader that is pushed is left a little room, and no more than that: what it reads then may be from before its writer, and
/// not from after.
#[test]
fn a_pushed_reader_commits_within_its_range_and_not_beyond() {
    for protocol in BOTH {
        for (later_writes, fits) in [(0, true), (3, true), (200, false)] {
            let (db, rows) = stage(protocol);
            let [mut s1, mut s2, mut s3] = sessions(&db);
            let mut reader = s1.begin();
            assert_eq!(reader.get(&rows, 1).unwrap(), Some(0));
            commit_of(&mut s2, |tx| assert!(tx.write(&rows, 1, 1).unwrap()));
            write_often(&mut s3, &rows, 2, later_writes);
            match reader.get(&rows, 2) {
                Ok(_) => assert_eq!(reader.commit().is_ok(), fits, "{protocol}, {later_writes}"),
                Err(abort) => {
                    assert!(!fits, "{protocol}, {later_writes}: {abort}");
                    assert!(abort.to_string().contains("no commit time"), "{abort}");
                    assert_eq!(
                        (abort.kind(), abort.rule()),
                        (AbortKind::Conflict, &*format!("{protocol}: read"))
                    );
                }
            }
        }
    }
}

/// Whoever has committed has left its time on what it read: a writer comes after it, also if it finds no mark.
#[test]
fn a_writer_comes_after_readers_that_are_gone() {
    for protocol in BOTH {
        let (db, rows) = stage(protocol);
        let [mut s1, mut s2, mut s3] = sessions(&db);
        write_often(&mut s1, &rows, 2, 30);
        let read = commit_of(&mut s2, |tx| {
            assert_eq!((tx.get(&rows, 1).unwrap(), tx.get(&rows, 2).unwrap()), (Some(0), Some(7)));
        });
        for at_commit in [false, true] {
            let wrote = commit_of(&mut s3, |tx| match at_commit {
                true => tx.add(&rows, 1, |value| value, 1).unwrap(),
                false => assert!(tx.write(&rows, 1, 1).unwrap()),
            });
            assert!(wrote > read, "{protocol}: {wrote} after {read}");
        }
    }
}

/// A mark keeps an absent record in its index: the record that a later insertion would make knows of no reader.
#[test]
fn who_saw_a_deleted_row_comes_before_its_next_life() {
    for protocol in BOTH {
        let (db, rows) = stage(protocol);
        let [mut s1, mut s2, mut s3] = sessions(&db);
        assert!(s2.transact(|tx| tx.delete(&rows, 1)).unwrap());
        let mut reader = s1.begin();
        assert_eq!(reader.get(&rows, 1).unwrap(), None);
        // (Nothing is reclaimed that the reader may have found; this has others try.)
        for key in 100..300 {
            s3.transact(|tx| tx.insert(&rows, key, 0)).unwrap();
            s3.transact(|tx| tx.delete(&rows, key)).unwrap();
        }
        let inserted = commit_of(&mut s2, |tx| {
            assert!(tx.insert(&rows, 1, 5).unwrap());
            assert!(tx.write(&rows, 2, 5).unwrap());
        });
        // The reader sees what the insertion's transaction wrote beside it: then it would have had to see the row.
        match reader.get(&rows, 2) {
            Ok(value) => {
                assert_eq!(value, Some(5));
                reader.commit().unwrap_err();
            }
            Err(abort) => assert!(abort.is_retryable(), "{protocol}: {abort}, inserted at {inserted}"),
        }
    }
}

/// An error that rests on what was read is told at a time that is settled, as a commit is: whoever replaces what was
/// read comes after it, and so does the session.
#[test]
fn what_is_told_of_a_missing_row_is_in_its_place() {
    for protocol in BOTH {
        let (db, rows) = stage(protocol);
        let [mut s1, mut s2] = sessions(&db);
        write_often(&mut s2, &rows, 2, 30);
        let told = s1.transact_with(&Policy::once(), |tx| {
            assert_eq!(tx.get(&rows, 2)?, Some(7));
            tx.update(&rows, 1, |value| *value += 1)?;
            tx.need(&rows, 99)
        });
        assert_eq!(told.unwrap_err().kind(), AbortKind::Missing);
        let floor = s1.begin().commit().unwrap().time;
        let [mut early] = sessions(&db);
        let wrote = commit_of(&mut early, |tx| assert!(tx.write(&rows, 1, 1).unwrap()));
        let inserted = commit_of(&mut early, |tx| assert!(tx.insert(&rows, 99, 1).unwrap()));
        assert!(
            floor.ticks() >= 30 && wrote > floor && inserted > floor,
            "{protocol}: {wrote}, {inserted}, {floor}"
        );
    }
}

// ---------------------------------------------------------------------------------------------------------
// ranges

/// Sundial §2.1: whoever comes to the conflict shrinks both ranges. The reader comes first in time, whichever of the two
/// came to the cell first, and whichever commits first.
#[test]
fn ranges_are_parted_where_two_meet() {
    for writer_comes_first in [true, false] {
        for writer_commits_first in [true, false] {
            let (db, rows) = stage(Protocol::Ranges);
            let [mut s1, mut s2] = sessions(&db);
            let (mut reader, mut writer) = (s1.begin(), s2.begin());
            if writer_comes_first {
                assert!(writer.write(&rows, 1, 1).unwrap());
            }
            assert_eq!(reader.get(&rows, 1).unwrap(), Some(0));
            if !writer_comes_first {
                assert!(writer.write(&rows, 1, 1).unwrap());
            }
            let (read, wrote) = if writer_commits_first {
                let wrote = writer.commit().unwrap();
                (reader.commit().unwrap(), wrote)
            } else {
                (reader.commit().unwrap(), writer.commit().unwrap())
            };
            assert!(read.time < wrote.time, "{} and {}", read.time, wrote.time);
        }
    }
}

/// Of a cell there is one current writer: an older second one waits for it, a younger one aborts.
#[test]
fn there_is_one_current_writer() {
    for first_is_older in [true, false] {
        let (db, rows) = stage(Protocol::Ranges);
        let [mut s1, mut s2] = sessions(&db);
        let [mut holder, mut comer];
        if first_is_older {
            holder = s1.begin();
            comer = s2.begin();
        } else {
            comer = s2.begin();
            holder = s1.begin();
        }
        assert!(holder.write(&rows, 1, 1).unwrap());
        let mut waited = false;
        let let_go = || {
            waited = true;
            holder.commit().unwrap();
        };
        let granted = interrupted(At::Wait, let_go, || comer.update(&rows, 1, |value| *value += 1).is_ok());
        assert_eq!((granted, waited), (!first_is_older, !first_is_older));
        if granted {
            comer.commit().unwrap();
            assert_eq!(s1.transact(|tx| tx.need(&rows, 1)).unwrap(), 2);
        }
    }
}

/// A reader whose range begins after the writer's ends cannot come before it: it waits, and reads what the writer leaves.
#[test]
fn a_reader_that_cannot_come_before_a_writer_waits_for_it() {
    let (db, rows) = stage(Protocol::Ranges);
    let [mut s1, mut s2, mut s3] = sessions(&db);
    let mut reader = s1.begin();
    // The writer has read what is replaced, so its range ends soon.
    let mut writer = s2.begin();
    assert_eq!(writer.get(&rows, 2).unwrap(), Some(0));
    assert!(writer.write(&rows, 1, 1).unwrap());
    write_often(&mut s3, &rows, 2, 1);
    // The reader's begins late.
    write_often(&mut s3, &rows, 3, 200);
    assert_eq!(reader.get(&rows, 3).unwrap(), Some(7));
    let mut wrote = None;
    let read = interrupted(At::Wait, || wrote = Some(writer.commit().unwrap().time), || reader.get(&rows, 1));
    assert_eq!(read.unwrap(), Some(1));
    assert!(reader.commit().unwrap().time >= wrote.unwrap());
}

/// A writer whose range ends before that of a current reader begins cannot come after it.
#[test]
fn a_writer_that_cannot_come_after_a_reader_aborts() {
    let (db, rows) = stage(Protocol::Ranges);
    let [mut s1, mut s2, mut s3] = sessions(&db);
    let (mut reader, mut writer) = (s1.begin(), s2.begin());
    assert_eq!(writer.get(&rows, 2).unwrap(), Some(0));
    write_often(&mut s3, &rows, 2, 1);
    write_often(&mut s3, &rows, 3, 200);
    assert_eq!((reader.get(&rows, 3).unwrap(), reader.get(&rows, 1).unwrap()), (Some(7), Some(0)));
    let refused = writer.write(&rows, 1, 1).unwrap_err();
    assert_eq!((refused.kind(), refused.rule()), (AbortKind::Conflict, "ranges: part"));
    drop(writer);
    reader.commit().unwrap();
}

/// Whoever keeps no read times is refused beside them, and any protocol goes with them in momentary order, where they
/// do not travel.
#[test]
fn they_go_with_what_keeps_read_times_or_do_not_travel() {
    for protocol in BOTH {
        let (db, _) = stage(protocol);
        for &other in Protocol::ALL {
            let options = TableOptions::new().protocol(other);
            let made = db.create_table::<u64, u64>(&format!("beside {other}"), options);
            match other.keeps_read_times() {
                true => drop(made.unwrap()),
                false => {
                    assert_eq!(
                        made.unwrap_err(),
                        SchemaError::WrongOrder(format!("beside {other}"), other, Order::Logical)
                    )
                }
            }
        }
        let db = builder().order(Order::Momentary).build().unwrap();
        let rows = table(&db, "rows", protocol);
        let [mut s1, mut s2] = sessions(&db);
        s1.transact(|tx| (1..=2).try_for_each(|key| tx.insert(&rows, key, 0).map(|_| ()))).unwrap();
        let mut first = s1.begin();
        assert_eq!(first.get(&rows, 1).unwrap(), Some(0));
        commit_of(&mut s2, |tx| assert!(tx.write(&rows, 1, 1).unwrap()));
        first.write(&rows, 2, 1).unwrap();
        first.commit().unwrap_err();
    }
}
