#![allow(clippy::disallowed_methods, reason = "tests run on threads of their own")]
//! A bad fate is bounded: nobody tries more often than its policy's escape allows.

use noonmark::{Database, IndexKind, Policy, Protocol, TableOptions};
use std::time::Duration;

/// Eight threads on one hot row, under each protocol.
#[test]
fn attempts_are_bounded_by_the_escape() {
    const THREADS: u64 = 8;
    const EACH: u64 = 400;
    const ESCAPE_AFTER: u32 = 5;
    for &protocol in Protocol::ALL {
        let db = Database::in_memory();
        let options = TableOptions::new().protocol(protocol).index(IndexKind::Hash);
        let counters = db.create_table::<u64, u64>("counters", options).unwrap();
        db.transact(|tx| tx.insert(&counters, 1, 0)).unwrap();
        // The deadline is for a wake-up that is lost: a failure, and not a test that never ends.
        let deadline = Some(Duration::from_secs(10));
        let policy = Policy { escape_after: Some(ESCAPE_AFTER), deadline, ..Policy::default() };
        let most = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut session = db.session().unwrap();
                        for _ in 0..EACH {
                            session
                                .transact_with(&policy, |tx| {
                                    let count = tx.need(&counters, 1)?;
                                    // So that transactions overlap also where there are few cores.
                                    std::thread::yield_now();
                                    tx.write(&counters, 1, count + 1)
                                })
                                .unwrap();
                        }
                        session.statistics().attempts_max
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).max().unwrap()
        });
        assert_eq!(db.view(|tx| tx.get(&counters, 1)).unwrap(), Some(THREADS * EACH), "{protocol}");
        assert!(most <= u64::from(ESCAPE_AFTER) + 1, "{protocol}: {most} attempts");
    }
}
