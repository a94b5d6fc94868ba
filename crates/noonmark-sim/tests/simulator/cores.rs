//! Virtual cores, by themselves and under the engine.

use noonmark::{AbortKind, Database, IndexKind, Order, Policy, Protocol, Table, TableOptions};
use noonmark_core::{Access, Host, Line};
use noonmark_sim::{Limit, Limits, Machine, Report, Schedule, SimulationError, VirtualCores};
use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

const COUNTER: Line = Line { space: 0, line: 0 };

/// So many cores add to one word for a while: additions a second.
fn additions_per_s(machine: Machine, cores: usize) -> f64 {
    let host = VirtualCores::new(machine, 7);
    let additions = Cell::new(0_u64);
    let limits = Limits { until_ps: 1_000_000_000, ..Limits::default() };
    let report = host.run(
        limits,
        (0..cores).map(|_| {
            || {
                while !host.is_over() {
                    host.touch(|| COUNTER, Access::ReadModifyWrite);
                    additions.set(additions.get() + 1);
                }
            }
        }),
    );
    assert_eq!(report.unwrap().limit, Some(Limit::Time));
    additions.get() as f64 / 0.001
}

/// The ceiling that the machine was given: "lower than 40 million for 4 or more threads" [SlowClocks §7.1].
#[test]
fn additions_to_one_word_have_a_ceiling() {
    assert!(additions_per_s(Machine::SLOW_CLOCKS, 1) > 100e6, "alone, the line stays where it is");
    for cores in [4, 16, 64] {
        let rate = additions_per_s(Machine::SLOW_CLOCKS, cores);
        assert!((39e6..=40.1e6).contains(&rate), "{cores} cores: {rate}");
    }
    let within = additions_per_s(Machine::GRANULARITY, 24);
    let across = additions_per_s(Machine::GRANULARITY, 192);
    assert!((19e6..=20.1e6).contains(&within), "{within}");
    assert!((6e6..=8e6).contains(&across), "{across}");
}

/// Words that nobody else wants are added to at full speed, whoever runs beside.
#[test]
fn additions_to_words_of_ones_own_have_none() {
    let rate = |cores: usize| {
        let host = VirtualCores::new(Machine::SLOW_CLOCKS, 1);
        let additions = Cell::new(0_u64);
        let additions = &additions;
        let limits = Limits { until_ps: 100_000_000, ..Limits::default() };
        let worker = |word: usize| {
            let host = host.clone();
            move || {
                while !host.is_over() {
                    host.touch(|| Line { space: 1, line: word as u64 }, Access::ReadModifyWrite);
                    additions.set(additions.get() + 1);
                }
            }
        };
        let report = host.run(limits, (0..cores).map(worker)).unwrap();
        assert_eq!((report.lines.memory, report.lines.near), (cores as u64, 0));
        additions.get()
    };
    let (one, many) = (rate(1), rate(64));
    assert!((63 * one..=65 * one).contains(&many), "{one} {many}");
}

/// Workers meet in the order of their clocks: each sleeps for a time of its own, again and again.
#[test]
fn whoever_is_behind_goes_on() {
    let host = VirtualCores::new(Machine::GRANULARITY, 3);
    let times = Mutex::new(Vec::new());
    let worker = |number: u64| {
        let (host, times) = (host.clone(), &times);
        move || {
            for _ in 0..100 {
                host.sleep_ns(10 + 7 * number);
                times.lock().unwrap().push(host.now_ps());
            }
        }
    };
    host.run(Limits::default(), (0..50).map(worker)).unwrap();
    let times = times.into_inner().unwrap();
    assert_eq!(times.len(), 5_000);
    assert!(times.is_sorted());
}

/// Whoever spins and looks goes on at the look, one step a turn; whoever spins for what the host is told nothing of lets others go on all
/// the same, or he would spin for ever.
#[test]
fn whoever_spins_lets_others_on() {
    let steps_until_set = |looks: bool| {
        let host = VirtualCores::new(Machine::GRANULARITY, 5);
        let is_set = Cell::new(false);
        let (host, is_set) = (&host, &is_set);
        let spins = || {
            let mut turn = 0;
            while !is_set.get() {
                host.spin(turn);
                turn += 1;
                if looks {
                    host.touch(|| COUNTER, Access::Read);
                }
            }
        };
        let sets = || {
            host.sleep_ns(2_000);
            is_set.set(true);
        };
        let workers: [&dyn Fn(); 2] = [&spins, &sets];
        host.run(Limits::default(), workers).unwrap().steps
    };
    // A turn takes 4.5 ns, a look 2; two of the steps are the sleeper's, at most.
    let (with_looks, without) = (steps_until_set(true), steps_until_set(false));
    assert!((2_000 * 10 / 65 - 200..=2_000 * 10 / 65 + 200).contains(&with_looks), "{with_looks}");
    assert!((1..=2_000 * 10 / 45 + 200).contains(&without), "{without}");
}

/// Whoever lets the host pass over looks in vain sees what others write when he would have seen it looking each turn, and his looks are
/// counted; but he is not asked. Where more than one line is looked at, or more than read, each turn is his own.
#[test]
fn looks_in_vain_are_passed_over() {
    const OTHER: Line = Line { space: 0, line: 1 };
    const END: u32 = 900;
    type Look = fn(&VirtualCores, &Cell<u32>) -> u32;
    let reads: Look = |host, word| {
        host.touch(|| COUNTER, Access::Read);
        word.get()
    };
    let reads_two: Look = |host, word| {
        host.touch(|| OTHER, Access::Read);
        let seen = word.get();
        host.touch(|| COUNTER, Access::Read);
        seen
    };
    let swaps: Look = |host, word| {
        host.touch(|| COUNTER, Access::ReadModifyWrite);
        word.get()
    };
    // Who saw what, at which turn and when; and what it came to.
    let run = |look: Look, written: Line, passes_over: bool| {
        let host = VirtualCores::new(Machine::GRANULARITY, 5);
        let word = Cell::new(0);
        let seen = std::cell::RefCell::new(Vec::new());
        let (host, word, seen) = (&host, &word, &seen);
        let spinner = |number: u32| {
            move || {
                let (mut turn, mut last) = (0, 0);
                loop {
                    let now = look(host, word);
                    if now != last || turn == END {
                        seen.borrow_mut().push((number, now, turn, host.now_ps()));
                    }
                    if turn == END {
                        return;
                    }
                    last = now;
                    let end = END - number;
                    turn = match passes_over && turn < end {
                        true => host.spin_on(turn, end),
                        false => {
                            host.spin(turn);
                            turn + 1
                        }
                    };
                }
            }
        };
        let writer = || {
            for pause_ns in [1_500, 20, 700] {
                host.sleep_ns(pause_ns);
                host.touch(|| written, Access::Write);
                word.set(word.get() + 1);
            }
        };
        let spinners: Vec<_> = (0..2).map(spinner).collect();
        let mut workers: Vec<&dyn Fn()> = spinners.iter().map(|spinner| spinner as &dyn Fn()).collect();
        workers.push(&writer);
        let report = host.run(Limits::default(), workers).unwrap();
        (seen.take(), report)
    };
    for (look, written, are_passed_over) in [
        (reads, COUNTER, true),
        (reads_two, COUNTER, false),
        (reads_two, OTHER, false),
        (swaps, COUNTER, false),
    ] {
        let (seen, each) = run(look, written, false);
        let (seen_too, passed_over) = run(look, written, true);
        assert_eq!(seen.len(), 8, "{seen:?}");
        assert_eq!(seen, seen_too);
        assert_eq!(
            (each.lines, each.steps, each.ended_ps),
            (passed_over.lines, passed_over.steps, passed_over.ended_ps)
        );
        match are_passed_over {
            true => assert!(
                passed_over.switches * 20 < each.switches,
                "{} {}",
                passed_over.switches,
                each.switches
            ),
            false => assert_eq!(passed_over.switches, each.switches),
        }
    }
}

/// What is no line of the model is no step, where lines have prices; in schedules that are made to find bugs it is one, like any touch.
#[test]
fn what_is_no_line_is_a_step_for_bugs_only() {
    let steps = |schedule| {
        let host = VirtualCores::scheduled(schedule, 5);
        let touches = || {
            for _ in 0..10 {
                host.touch(|| None, Access::Read);
            }
        };
        host.run(Limits::default(), [touches]).unwrap().steps
    };
    assert_eq!(steps(Schedule::Machine(Machine::GRANULARITY)), 0);
    assert_eq!(steps(Schedule::Random), 10);
    assert_eq!(steps(Schedule::Priorities { changes: 2, steps: 10 }), 10);
}

/// A ball that two throw to each other: who waits is woken; a wait with a deadline ends at it.
#[test]
fn sleepers_are_woken_and_deadlines_kept() {
    let host = VirtualCores::new(Machine::GRANULARITY, 3);
    // Whose turn it is, and who waits for his.
    let ball = Mutex::new((0_usize, None::<Waker>));
    let player = |me: usize| {
        let (host, ball) = (host.clone(), &ball);
        move || {
            for _ in 0..1_000 {
                let caught = host.block_on(None, |waker| {
                    let mut ball = ball.lock().unwrap();
                    if ball.0 % 2 == me {
                        return Poll::Ready(());
                    }
                    ball.1 = Some(waker.clone());
                    Poll::Pending
                });
                assert_eq!(caught, Some(()));
                let waiting = {
                    let mut ball = ball.lock().unwrap();
                    ball.0 += 1;
                    ball.1.take()
                };
                if let Some(waker) = waiting {
                    waker.wake();
                }
            }
            let began_ns = host.now_ns();
            let late: Option<()> = host.block_on(Some(began_ns + 5_000), |_| Poll::Pending);
            assert_eq!(late, None);
            assert_eq!(host.now_ns(), began_ns + 5_000);
        }
    };
    let report = host.run(Limits::default(), (0..2).map(player)).unwrap();
    // The last wait, and a transfer for each throw.
    let expected_ps = 5_000_000 + 1_999 * Machine::GRANULARITY.near_ps;
    assert!((expected_ps..expected_ps + 2_000_000).contains(&report.ended_ps), "{report:?}");
}

/// A wake-up that is lost is not waited for: the run says who did, and everybody comes to an end.
#[test]
fn whoever_waits_for_nobody_is_named() {
    let host = VirtualCores::new(Machine::GRANULARITY, 3);
    let ended = Cell::new(0);
    let (host_, ended_) = (&host, &ended);
    let stranded = host.run(
        Limits::default(),
        (0..3).map(|worker| {
            move || {
                host_.sleep_ns(100);
                if worker != 1 {
                    assert_eq!(host_.block_on(None, |_| Poll::<()>::Pending), None);
                }
                ended_.set(ended_.get() + 1);
            }
        }),
    );
    assert_eq!(stranded, Err(SimulationError::NobodyLeft(vec![0, 2])));
    assert_eq!(ended.get(), 3);
    // The cores are as good as before.
    host.run(Limits::default(), [|| host_.sleep_ns(1)]).unwrap();
}

/// A run that has come to its limit lets go of those that wait.
#[test]
fn a_limit_ends_waits() {
    for (limits, limit) in [
        (Limits { until_ps: 1_000_000, ..Limits::default() }, Limit::Time),
        (Limits { steps: 1_000, ..Limits::default() }, Limit::Steps),
    ] {
        let host = VirtualCores::new(Machine::GRANULARITY, 3);
        let report = host.run(
            limits,
            (0..2).map(|worker| {
                let host = host.clone();
                move || {
                    if worker == 0 {
                        assert_eq!(host.block_on(None, |_| Poll::<()>::Pending), None);
                        assert!(host.is_over());
                    } else {
                        while !host.is_over() {
                            host.spin(0);
                        }
                    }
                }
            }),
        );
        assert_eq!(report.unwrap().limit, Some(limit));
    }
}

/// A panic goes on to whoever started the run; what the others had is dropped.
#[test]
fn a_panic_goes_on() {
    let host = VirtualCores::new(Machine::GRANULARITY, 3);
    let held = Arc::new(());
    let workers = (0..10).map(|worker| {
        let (host, held) = (host.clone(), held.clone());
        move || {
            for turn in 0..100 {
                host.sleep_ns(50);
                assert!(worker != 3 || turn < 50, "as planned");
            }
            drop(held);
        }
    });
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| host.run(Limits::default(), workers)));
    assert!(panicked.is_err());
    assert_eq!(Arc::strong_count(&held), 1);
    host.run(Limits::default(), [|| host.sleep_ns(1)]).unwrap();
}

#[test]
fn more_workers_than_cores_and_a_run_within_a_run_are_refused() {
    let host = VirtualCores::new(Machine::SLOW_CLOCKS, 3);
    let refused = host.run(Limits::default(), (0..65).map(|_| || ()));
    assert_eq!(refused, Err(SimulationError::TooManyWorkers { workers: 65, cores: 64 }));
    let within = Cell::new(None);
    host.run(Limits::default(), [|| within.set(Some(host.run(Limits::default(), [|| ()])))]).unwrap();
    assert_eq!(within.take(), Some(Err(SimulationError::UnderWay)));
}

/// Transfers between two of 20 accounts under a protocol: the report, and the balances.
fn transfers(protocol: Protocol, seed: u64, workers: usize) -> (Report, Vec<(u64, i64)>, u64) {
    let host = VirtualCores::new(Machine::GRANULARITY, seed);
    let db = Database::builder().max_sessions(200).host(host.clone()).build().unwrap();
    let options = TableOptions::new().protocol(protocol).index(IndexKind::Ordered);
    let accounts: Table<u64, i64> = db.create_table("accounts", options).unwrap();
    db.transact(|tx| (0..20).try_for_each(|account| tx.insert(&accounts, account, 100).map(|_| ()))).unwrap();
    let aborts = Cell::new(0);
    let report = host.run(
        Limits::default(),
        (0..workers).map(|worker| {
            let (db, accounts, aborts) = (&db, &accounts, &aborts);
            move || {
                let mut session = db.session().unwrap();
                let mut state = worker as u64 + 1;
                for _ in 0..50 {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1_442_695_040_888_963_407);
                    let (from, to) = ((state >> 33) % 20, (state >> 40) % 20);
                    session
                        .transact(|tx| {
                            tx.update(accounts, from, |balance| *balance -= 1)?;
                            tx.update(accounts, to, |balance| *balance += 1)
                        })
                        .unwrap();
                }
                aborts.set(aborts.get() + session.statistics().aborts);
            }
        }),
    );
    let balances = db.transact(|tx| tx.range(&accounts, ..).collect()).unwrap();
    (report.unwrap(), balances, aborts.get())
}

/// The same seed, the same run, to the last line that moved; another seed, another run. Under every protocol, with
/// waits and wounds. And no money is made.
#[test]
fn a_run_is_its_seed() {
    for &protocol in Protocol::ALL {
        let first = transfers(protocol, 1, 40);
        assert_eq!(first, transfers(protocol, 1, 40), "{protocol}");
        assert_ne!(first.0, transfers(protocol, 2, 40).0, "{protocol}");
        assert_eq!(first.1.iter().map(|(_, balance)| balance).sum::<i64>(), 2_000, "{protocol}");
        assert!(first.2 > 0, "{protocol}: they met");
    }
}

/// A deadline is one of virtual time, also for whoever waits for a lock.
#[test]
fn a_deadline_is_virtual() {
    let host = VirtualCores::new(Machine::GRANULARITY, 5);
    let db = Database::builder().host(host.clone()).order(Order::Momentary).build().unwrap();
    let options = TableOptions::new().protocol(Protocol::TwoPhaseWaitDie);
    let rows: Table<u64, u64> = db.create_table("rows", options).unwrap();
    db.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
    let refused = Cell::new(0);
    let (host_, db, rows, refused_) = (&host, &db, &rows, &refused);
    let report = host.run(
        Limits::default(),
        (0..2).map(|worker| {
            move || {
                if worker == 1 {
                    // Younger, and has the lock first.
                    host_.sleep_ns(10_000);
                    db.transact(|tx| {
                        tx.update(rows, 1, |row| *row += 1)?;
                        host_.sleep_ns(1_000_000);
                        Ok(())
                    })
                    .unwrap();
                    return;
                }
                let policy =
                    Policy { deadline: Some(std::time::Duration::from_micros(500)), ..Policy::default() };
                let late = db.transact_with(&policy, |tx| {
                    host_.sleep_ns(50_000);
                    tx.update(rows, 1, |row| *row += 1)
                });
                assert_eq!(late.unwrap_err().kind(), AbortKind::Deadline);
                assert!((500_000..600_000).contains(&host_.now_ns()), "{}", host_.now_ns());
                refused_.set(refused_.get() + 1);
            }
        }),
    );
    assert!(report.unwrap().ended_ps > 1_000_000_000);
    assert_eq!(refused.get(), 1);
}
