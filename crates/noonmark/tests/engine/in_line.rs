//! Who waits in line is passed a bounded number of times.

use crate::stage_support::{At, Stage, builder, interrupted, sessions, table};
use noonmark::{AbortKind, Policy, Protocol, Session, Table, Transaction};

/// The protocols under which transactions wait in line.
fn in_line() -> Vec<Protocol> {
    let protocols: Vec<Protocol> = Protocol::ALL.iter().copied().filter(|it| it.waits_in_line()).collect();
    assert!(protocols.len() >= 5, "{protocols:?}");
    protocols
}

fn add_one(tx: &mut Transaction<'_, Stage>, rows: &Table<u64, u64>) -> Result<(), noonmark::Abort> {
    tx.update(rows, 1, |value| *value += 1).map(drop)
}

/// Two transactions, of which the first may wait for the second: the older or, under wound-wait, the younger.
fn begin_both<'a>(
    protocol: Protocol,
    waiting: &'a mut Session<Stage>,
    holding: &'a mut Session<Stage>,
) -> [Transaction<'a, Stage>; 2] {
    if protocol == Protocol::TwoPhaseWoundWait {
        let holding = holding.begin();
        return [waiting.begin(), holding];
    }
    let waiting = waiting.begin();
    [waiting, holding.begin()]
}

/// How many transactions commit until one meets a lock; at most a hundred.
fn commits(session: &mut Session<Stage>, rows: &Table<u64, u64>) -> u64 {
    let commits =
        (0..100).take_while(|_| session.transact_with(&Policy::once(), |tx| add_one(tx, rows)).is_ok());
    commits.count() as u64
}

/// Somebody waits for a row, and has not woken yet when it is free. Others come and go, until it is handed to him.
#[test]
fn what_somebody_waits_for_is_handed_to_him_in_the_end() {
    for protocol in in_line() {
        for passes in [0, 1, 10] {
            let db = builder().passes_max(passes).build().unwrap();
            let rows = table(&db, "rows", protocol);
            let [mut waiting, mut holding, mut others] = sessions(&db);
            waiting.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
            let [mut waiting, mut holding] = begin_both(protocol, &mut waiting, &mut holding);
            add_one(&mut holding, &rows).unwrap();
            let mut count = None;
            let meanwhile = || {
                // Under swiss he has been told to abort.
                let held = u64::from(holding.commit().is_ok());
                count = Some((held, commits(&mut others, &rows)));
            };
            interrupted(At::Wait, meanwhile, || add_one(&mut waiting, &rows)).unwrap();
            waiting.commit().unwrap();
            let (held, passed) = count.expect("it waits");
            assert_eq!(passed, u64::from(passes), "{protocol}");
            let total = others.transact(|tx| tx.need(&rows, 1)).unwrap();
            assert_eq!(total, held + passed + 1, "{protocol}");
            assert_eq!(commits(&mut others, &rows), 100, "{protocol}: nobody is left in line");
        }
    }
}

/// What has been handed to somebody who has run out of time goes on to others.
#[test]
fn who_gives_up_gives_back() {
    for protocol in in_line() {
        let db = builder().passes_max(0).build().unwrap();
        let rows = table(&db, "rows", protocol);
        let [mut waiting, mut holding, mut others] = sessions(&db);
        waiting.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
        let mut outcomes = Vec::new();
        let [mut waiting, mut holding] = begin_both(protocol, &mut waiting, &mut holding);
        add_one(&mut holding, &rows).unwrap();
        let meanwhile = || {
            let held = u64::from(holding.commit().is_ok());
            outcomes.push((held, commits(&mut others, &rows)));
        };
        let abort = interrupted(At::LastWait, meanwhile, || add_one(&mut waiting, &rows)).unwrap_err();
        assert_eq!(abort.kind(), AbortKind::Deadline, "{protocol}: {abort}");
        let [(held, passed)] = outcomes[..] else { panic!("{protocol}: it waits once") };
        assert_eq!(passed, 0, "{protocol}: it was handed over");
        assert_eq!(commits(&mut others, &rows), 100, "{protocol}");
        drop(waiting);
        let total = others.transact(|tx| tx.need(&rows, 1)).unwrap();
        assert_eq!(total, held + 100, "{protocol}");
    }
}

/// Who waits to read is let in to read, and then keeps out those who would write.
#[test]
fn who_waits_to_read_has_read_when_he_lets_go() {
    for protocol in [Protocol::TwoPhaseWaitDie, Protocol::TwoPhaseWoundWait] {
        let db = builder().passes_max(3).build().unwrap();
        let rows = table(&db, "rows", protocol);
        let [mut waiting, mut holding, mut others] = sessions(&db);
        waiting.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
        let [mut waiting, mut holding] = begin_both(protocol, &mut waiting, &mut holding);
        add_one(&mut holding, &rows).unwrap();
        let mut passed = None;
        let meanwhile = || {
            holding.commit().unwrap();
            passed = Some(commits(&mut others, &rows));
        };
        let read = interrupted(At::Wait, meanwhile, || waiting.need(&rows, 1)).unwrap();
        assert_eq!((passed, read), (Some(3), 4), "{protocol}");
        assert_eq!(commits(&mut others, &rows), 0, "{protocol}: he reads it");
        assert_eq!(waiting.need(&rows, 1).unwrap(), 4, "{protocol}");
        waiting.commit().unwrap();
        assert_eq!(commits(&mut others, &rows), 100, "{protocol}");
    }
}
