#![allow(clippy::disallowed_methods, reason = "tests run on threads of their own")]
//! A bad fate is bounded: nobody tries more often than its policy's escape allows, and whoever escapes
//! waits for at most one transaction of each other session.

use noonmark::{
    AbortKind, Database, Host, IndexKind, Policy, Protocol, Session, Table, TableOptions, Transaction,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

const THREADS: usize = 8;

/// The threads' host, which also tells when one of them has come to the gate: that is when it asks for the
/// time after its last attempt has failed.
#[derive(Debug, Default)]
struct Watched(noonmark::Threads);

type Hook = Box<dyn FnOnce()>;

thread_local! {
    static AT_THE_GATE: RefCell<Option<Hook>> = const { RefCell::new(None) };
    /// When this thread begins to wait, and when it has been let go on and has not gone on yet.
    static WAITS: RefCell<Option<[Hook; 2]>> = const { RefCell::new(None) };
}

impl Host for Watched {
    type Label = noonmark_core::Unlabelled;

    fn now_ns(&self) -> u64 {
        if let Some(note) = AT_THE_GATE.take() {
            note();
        }
        self.0.now_ns()
    }
    fn seed(&self) -> u64 {
        self.0.seed()
    }
    fn spin(&self, turn: u32) {
        self.0.spin(turn);
    }
    fn block_on<T>(&self, deadline_ns: Option<u64>, poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
        let Some([begins, ends]) = WAITS.take() else { return self.0.block_on(deadline_ns, poll) };
        begins();
        let answer = self.0.block_on(deadline_ns, poll);
        ends();
        answer
    }
    fn sleep_ns(&self, duration_ns: u64) {
        self.0.sleep_ns(duration_ns);
    }
    fn caller_hint(&self) -> usize {
        self.0.caller_hint()
    }
}

type Counters = Table<u64, u64>;

fn stage<H: Host>(host: H, protocol: Protocol) -> (Database<H>, Counters) {
    let db = Database::builder().host(host).build().unwrap();
    let options = TableOptions::new().protocol(protocol).index(IndexKind::Hash);
    let counters = db.create_table::<u64, u64>("counters", options).unwrap();
    db.transact(|tx| tx.insert(&counters, 1, 0)).unwrap();
    (db, counters)
}

/// How often each thread has committed: written by that thread, between its commit and its next attempt.
#[derive(Default)]
struct Commits([AtomicU64; THREADS]);

impl Commits {
    fn count(&self, thread: usize) {
        self.0[thread].fetch_add(1, Ordering::SeqCst);
    }

    fn now(&self) -> [u64; THREADS] {
        std::array::from_fn(|thread| self.0[thread].load(Ordering::SeqCst))
    }
}

/// Adds one to the hot row, slowly enough that transactions overlap also where there are few cores.
fn add_one<H: Host>(
    tx: &mut noonmark::Transaction<'_, H>,
    counters: &Counters,
) -> Result<(), noonmark::Abort> {
    let count = tx.need(counters, 1)?;
    std::thread::yield_now();
    tx.write(counters, 1, count + 1)?;
    Ok(())
}

/// Eight threads on one hot row, under each protocol.
#[test]
fn attempts_are_bounded_by_the_escape() {
    const EACH: u64 = 400;
    for &protocol in Protocol::ALL {
        for escape_after in [1, 5] {
            let (db, counters) = stage(noonmark::Threads::default(), protocol);
            // The deadline is for a wake-up that is lost: a failure, and not a test that never ends.
            let deadline = Some(Duration::from_secs(10));
            let policy = Policy { escape_after: Some(escape_after), deadline, ..Policy::default() };
            let most = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..THREADS)
                    .map(|_| {
                        scope.spawn(|| {
                            let mut session = db.session().unwrap();
                            for _ in 0..EACH {
                                session.transact_with(&policy, |tx| add_one(tx, &counters)).unwrap();
                            }
                            session.statistics().attempts_max
                        })
                    })
                    .collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).max().unwrap()
            });
            let total = db.view(|tx| tx.get(&counters, 1)).unwrap();
            assert_eq!(total, Some(THREADS as u64 * EACH), "{protocol}");
            assert!(most <= u64::from(escape_after) + 1, "{protocol}: {most} attempts");
        }
    }
}

/// The threads' host, which also counts how many transactions commit while somebody sleeps.
#[derive(Clone, Debug, Default)]
struct Counting(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    threads: noonmark::Threads,
    commits: AtomicU64,
    passed_most: AtomicU64,
    sleeps: AtomicU64,
}

impl Host for Counting {
    type Label = noonmark_core::Unlabelled;

    fn now_ns(&self) -> u64 {
        self.0.threads.now_ns()
    }
    fn seed(&self) -> u64 {
        self.0.threads.seed()
    }
    fn spin(&self, turn: u32) {
        self.0.threads.spin(turn);
    }
    fn block_on<T>(&self, deadline_ns: Option<u64>, mut poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
        let mut before = None;
        self.0.threads.block_on(deadline_ns, |waker| {
            let now = self.0.commits.load(Ordering::SeqCst);
            if let Some(before) = before.take() {
                self.0.passed_most.fetch_max(now - before, Ordering::SeqCst);
                self.0.sleeps.fetch_add(1, Ordering::SeqCst);
            }
            let answer = poll(waker);
            if answer.is_pending() {
                before = Some(self.0.commits.load(Ordering::SeqCst));
            }
            answer
        })
    }
    fn sleep_ns(&self, duration_ns: u64) {
        self.0.threads.sleep_ns(duration_ns);
    }
    fn caller_hint(&self) -> usize {
        self.0.threads.caller_hint()
    }
}

/// Eight threads on one hot row: while somebody sleeps who waits for it, no more commit than may pass him, those that are older than he, and those that had it
/// already and are not counted yet.
#[test]
fn who_sleeps_in_line_is_passed_a_bounded_number_of_times() {
    const EACH: u64 = 1_000;
    const PASSES: u32 = 20;
    for protocol in Protocol::ALL.iter().copied().filter(|protocol| protocol.waits_in_line()) {
        let host = Counting::default();
        let db = Database::builder().host(host.clone()).passes_max(PASSES).build().unwrap();
        let options = TableOptions::new().protocol(protocol).index(IndexKind::Hash);
        let counters = db.create_table::<u64, u64>("counters", options).unwrap();
        db.transact(|tx| tx.insert(&counters, 1, 0)).unwrap();
        std::thread::scope(|scope| {
            let begin = |_| {
                scope.spawn(|| {
                    let mut session = db.session().unwrap();
                    let policy = Policy { escape_after: None, ..Policy::default() };
                    for number in 0..EACH {
                        let add = |tx: &mut Transaction<'_, _>| {
                            let row = tx.update(&counters, 1, |count| *count += 1);
                            // Others come now and then while it is held.
                            if number % 16 == 0 {
                                std::thread::yield_now();
                            }
                            row.map(drop)
                        };
                        session.transact_with(&policy, add).unwrap();
                        host.0.commits.fetch_add(1, Ordering::SeqCst);
                    }
                })
            };
            let threads: Vec<_> = (0..THREADS).map(begin).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert_eq!(db.view(|tx| tx.need(&counters, 1)).unwrap(), THREADS as u64 * EACH, "{protocol}");
        let passed_most = host.0.passed_most.load(Ordering::SeqCst);
        let most = u64::from(PASSES) + 2 * THREADS as u64;
        assert!(passed_most <= most, "{protocol}: passed {passed_most} times");
        assert!(host.0.sleeps.load(Ordering::SeqCst) > 0, "{protocol}: nobody waited");
    }
}

/// A transaction that loses until its escape commits with the next attempt; from its joining the line on,
/// no other session commits more than once: what it had under way.
#[test]
fn who_escapes_waits_for_one_transaction_of_each_other_session() {
    const ESCAPES: u64 = 60;
    const ESCAPE_AFTER: u32 = 3;
    for &protocol in Protocol::ALL {
        let (db, counters) = stage(Watched::default(), protocol);
        let (commits, over) = (Arc::new(Commits::default()), AtomicBool::new(false));
        let others = Policy { escape_after: None, ..Policy::default() };
        let loser = Policy { escape_after: Some(ESCAPE_AFTER), ..Policy::default() };
        std::thread::scope(|scope| {
            let begin = |thread| {
                let (db, counters, others, over, commits) = (&db, &counters, &others, &over, &commits);
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    while !over.load(Ordering::Relaxed) {
                        session.transact_with(others, |tx| add_one(tx, counters)).unwrap();
                        commits.count(thread);
                    }
                })
            };
            let threads: Vec<_> = (1..THREADS).map(begin).collect();
            let stop = StopAtEnd(&over);
            let [mut session, mut spoiling] = [0, 1].map(|_| db.session().unwrap());
            for escape in 0..ESCAPES {
                let (mut attempts, mut after) = (0, [0; THREADS]);
                let before = Rc::new(Cell::new(None));
                session
                    .transact_with(&loser, |tx| {
                        attempts += 1;
                        if attempts <= ESCAPE_AFTER {
                            // Looks for a row and finds none; then somebody puts it there: no protocol
                            // lets that commit.
                            let key = 1000 + escape * 10 + u64::from(attempts);
                            assert_eq!(tx.get(&counters, key)?, None);
                            let spoil = |tx: &mut Transaction<'_, _>| match protocol.keeps_versions() {
                                // But one that reads as of its begin: that one comes too late to write.
                                true => add_one(tx, &counters),
                                false => tx.insert(&counters, key, 0).map(drop),
                            };
                            spoiling.transact_with(&others, spoil).unwrap();
                        }
                        if attempts == ESCAPE_AFTER {
                            let (before, commits) = (before.clone(), commits.clone());
                            AT_THE_GATE.set(Some(Box::new(move || before.set(Some(commits.now())))));
                        }
                        add_one(tx, &counters)?;
                        // When it has committed it has left, and the others go on.
                        after = commits.now();
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(attempts, ESCAPE_AFTER + 1, "{protocol}");
                let before = before.get().expect("it came to the gate");
                for thread in 1..THREADS {
                    let waited_for = after[thread] - before[thread];
                    assert!(waited_for <= 1, "{protocol}: session {thread} committed {waited_for} times");
                }
            }
            assert_eq!(session.statistics().escapes, ESCAPES);
            drop(stop);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Loses its first attempt, whatever the protocol; then calls `inside` in the one that the gate lets through.
fn escape<T, H: Host>(
    session: &mut Session<H>,
    spoiling: &mut Session<H>,
    rows: &Counters,
    key: u64,
    mut inside: impl FnMut(&mut noonmark::Transaction<'_, H>) -> Result<T, noonmark::Abort>,
) -> Result<T, noonmark::Abort> {
    let policy = Policy { escape_after: Some(1), ..Policy::default() };
    let mut attempts = 0;
    let done = session.transact_with(&policy, |tx| {
        attempts += 1;
        if attempts > 1 {
            return inside(tx).map(Some);
        }
        assert_eq!(tx.get(rows, key)?, None);
        spoiling.transact(|tx| tx.insert(rows, key, 0))?;
        Ok(None)
    });
    done.map(|done| done.expect("the first attempt is lost"))
}

/// Between being let go on and saying that it runs, a transaction is seen by nobody: it must look at the gate
/// again, since somebody may have gone in.
#[test]
fn who_has_waited_outside_looks_at_the_gate_again() {
    let (db, rows) = stage(Watched::default(), Protocol::Occ);
    let [mut session, mut spoiling, mut waiting] = [0, 1, 2].map(|_| db.session().unwrap());
    let (wait, inside) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (begins, ends, goes_on) = (wait.clone(), wait.clone(), inside.clone());
    let (came, what_came) = mpsc::channel();
    let waits_again = came.clone();
    std::thread::scope(|scope| {
        let mut outside = Some(|| {
            WAITS.set(Some([
                Box::new(move || {
                    begins.wait();
                }),
                Box::new(move || {
                    ends.wait();
                    goes_on.wait();
                    let waits_again = Box::new(move || waits_again.send("it waits again").unwrap());
                    WAITS.set(Some([waits_again, Box::new(|| ())]));
                }),
            ]));
            waiting.transact(|tx| {
                came.send("it came in").unwrap();
                tx.get(&rows, 1)
            })
        });
        let mut outside = escape(&mut session, &mut spoiling, &rows, 100, |_| {
            let outside = outside.take().map(|outside| scope.spawn(outside));
            wait.wait();
            Ok(outside)
        })
        .unwrap();
        // It has been let go on, now that the gate is open; and goes on when somebody else is inside.
        wait.wait();
        escape(&mut session, &mut spoiling, &rows, 101, |_| {
            inside.wait();
            assert_eq!(what_came.recv(), Ok("it waits again"), "beside the one inside");
            Ok(())
        })
        .unwrap();
        assert_eq!(outside.take().unwrap().join().unwrap().unwrap(), Some(0));
    });
}

/// However long the one inside takes, nobody comes in before it is through: longer than any time that the
/// gate knows of for those outside.
#[test]
fn a_long_transaction_is_let_through() {
    let (db, rows) = stage(noonmark::Threads::default(), Protocol::Occ);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = || {
            let mut session = db.session().unwrap();
            while !over.load(Ordering::Relaxed) {
                session.transact(|tx| tx.update(&rows, 1, |count| *count += 1)).unwrap();
            }
        };
        let threads = [0; 2].map(|_| scope.spawn(writer));
        let stop = StopAtEnd(&over);
        let [mut session, mut spoiling] = [0, 1].map(|_| db.session().unwrap());
        let mut times = 0;
        let (first, last) = escape(&mut session, &mut spoiling, &rows, 100, |tx| {
            times += 1;
            let first = tx.need(&rows, 1)?;
            std::thread::sleep(Duration::from_millis(1_300));
            Ok((first, tx.need(&rows, 1)?))
        })
        .unwrap();
        assert_eq!((first, times), (last, 1));
        drop(stop);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Who stands outside gives up at its deadline, although the one inside does not end before.
#[test]
fn a_deadline_holds_outside_the_gate() {
    let (db, rows) = stage(noonmark::Threads::default(), Protocol::Occ);
    let [mut session, mut spoiling] = [0, 1].map(|_| db.session().unwrap());
    escape(&mut session, &mut spoiling, &rows, 100, |_| {
        let policy = Policy { deadline: Some(Duration::from_millis(5)), ..Policy::default() };
        std::thread::scope(|scope| {
            let late = scope.spawn(|| db.session().unwrap().transact_with(&policy, |tx| tx.get(&rows, 1)));
            let late = late.join().unwrap().expect_err("the one inside waits for it");
            assert_eq!((late.kind(), late.attempts()), (AbortKind::Deadline, 0));
            assert_eq!(late.to_string(), "the deadline has passed, nothing was applied");
        });
        Ok(())
    })
    .unwrap();
}

/// Whoever is inside may run another transaction in the midst: it does not wait for itself.
#[test]
fn who_is_inside_does_not_stand_outside() {
    let (db, rows) = stage(noonmark::Threads::default(), Protocol::Occ);
    let [mut session, mut spoiling] = [0, 1].map(|_| db.session().unwrap());
    let row = escape(&mut session, &mut spoiling, &rows, 100, |_| db.view(|tx| tx.get(&rows, 1))).unwrap();
    assert_eq!(row, Some(0));
}

/// A transaction that was begun by hand and is left open does not keep the one in line waiting for ever; nor,
/// if it holds what that one wants, does it wait for itself by standing outside.
#[test]
fn what_is_left_open_does_not_close_the_gate_for_ever() {
    for protocol in [Protocol::Occ, Protocol::TwoPhaseNoWait] {
        let (db, rows) = stage(noonmark::Threads::default(), protocol);
        let [mut session, mut spoiling, mut idle] = [0, 1, 2].map(|_| db.session().unwrap());
        let mut open = idle.begin();
        open.update(&rows, 1, |count| *count += 1).unwrap();
        std::thread::scope(|scope| {
            let loser = scope.spawn(|| {
                escape(&mut session, &mut spoiling, &rows, 100, |tx| tx.update(&rows, 1, |count| *count += 1))
            });
            // In the midst of the one that is open: when the gate is closed, unless this thread sleeps for
            // long just now.
            let began = Instant::now();
            while db.conflicts().total == 0 && began.elapsed() < Duration::from_secs(5) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(db.view(|tx| tx.get(&rows, 100)).unwrap(), Some(0));
            drop(open);
            loser.join().unwrap().unwrap();
        });
        assert_eq!(db.view(|tx| tx.get(&rows, 1)).unwrap(), Some(1), "{protocol}");
    }
}
