//! Whole protocols under random schedules: every atomic access is a place where another thread may run.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p noonmark --release --test shuttle`
//!
//! Each run is a few threads with a few small transactions on a few keys, retried until they end, and
//! must be explained by a serial order (see `attack_support`). That nobody waits for ever shuttle
//! sees to itself. Records leave their indexes and memory is freed within the run: the constants that say
//! when are small here.

#![cfg(shuttle)]

mod attack_support;

use attack_support::{Menu, Numbers, Op, Saw, Setup, Txn, is_explained, on_engine, state_of, tag_of, told};
use noonmark::{Abort, Bug, Database, Granularity, IndexKind, Order, Policy, Protocol};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How a transaction ends otherwise than by its commit.
enum Ended {
    /// It found a row missing, or called itself off.
    Observed,
    Abort,
}

impl From<Abort> for Ended {
    fn from(_: Abort) -> Self {
        Ended::Abort
    }
}

/// One run: what each thread does, transaction by transaction.
#[derive(Clone)]
struct Play {
    setup: Setup,
    menu: Menu,
    threads: Vec<Vec<Vec<Op>>>,
    escape_after: Option<u32>,
    bug: Option<Bug>,
}

impl Play {
    fn draw(setup: &Setup, menu: Menu, shape: &[usize], numbers: &mut Numbers) -> Self {
        let threads = shape
            .iter()
            .map(|&count| {
                (0..count)
                    .map(|_| {
                        let steps = 1 + numbers.below(3);
                        menu.draw(numbers, steps)
                    })
                    .collect()
            })
            .collect();
        let escape_after = [None, Some(1), Some(2)][numbers.below(3)];
        Play { setup: setup.clone(), menu, threads, escape_after, bug: None }
    }

    /// Runs it once, under whatever schedule; whether a serial order explains it, and the tale.
    fn run(&self) -> (bool, String) {
        let mut builder = Database::builder().max_sessions(self.threads.len() + 1);
        if let Some(bug) = self.bug {
            builder = builder.plant(bug);
        }
        let (db, tables, before) = self.setup.build(builder);
        // A pause is where a schedule lets others run; without any, PCT would let none.
        let policy = Policy { escape_after: self.escape_after, ..Policy::default() };
        // The standard library's: what the test notes down must not be a place to switch.
        let (clock, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
        let now = |clock: &AtomicU64| clock.fetch_add(1, Ordering::Relaxed);
        let threads: Vec<_> = self
            .threads
            .iter()
            .enumerate()
            .map(|(thread, programs)| {
                let (db, tables, programs, policy) =
                    (db.clone(), tables.clone(), programs.clone(), policy.clone());
                let (clock, ended) = (clock.clone(), ended.clone());
                shuttle::thread::spawn(move || {
                    let mut session = db.session().unwrap();
                    for (number, program) in programs.iter().enumerate() {
                        let began = now(&clock);
                        let mut steps = Vec::new();
                        let outcome = session.try_transact_with(&policy, |tx| {
                            steps.clear();
                            for (step, op) in program.iter().enumerate() {
                                let tag = tag_of(thread * 4 + number, step);
                                let saw = on_engine(tx, &tables, op, tag)?;
                                let missing = saw == Saw::Missing;
                                steps.push((op.clone(), tag, saw));
                                if missing {
                                    return Err(Ended::Observed);
                                }
                            }
                            // One in so many calls itself off.
                            if (thread + number + program.len()) % 7 == 0 {
                                return Err(Ended::Observed);
                            }
                            Ok(())
                        });
                        let committed = outcome.is_ok();
                        assert!(!matches!(outcome, Err(Ended::Abort)), "nothing makes it give up");
                        let txn =
                            Txn { session: thread, steps, committed, time: None, began, ended: now(&clock) };
                        ended.lock().unwrap().push(txn);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let after = state_of(&mut db.session().unwrap(), &tables, self.menu.keys);
        let txns = ended.lock().unwrap();
        let explained = is_explained(&before, &txns, &after, self.setup.is_strict());
        (explained, if explained { String::new() } else { told(&self.setup, &before, &txns, &after) })
    }
}

fn under(
    scheduler: impl Scheduler + 'static,
    play: &Play,
    judge: impl Fn(bool, String) + Send + Sync + 'static,
) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    let play = play.clone();
    Runner::new(scheduler, config).run(move || {
        let (explained, tale) = play.run();
        judge(explained, tale);
    });
}

fn attack(setup: &Setup, shape: &[usize], draws: u64, schedules: usize) {
    let ordered = setup.index == IndexKind::Ordered;
    let menu = Menu { tables: setup.protocols.len(), keys: 3, scans: ordered, secondary: setup.secondary };
    for seed in 0..draws {
        let mut numbers = Numbers(seed * 31 + shape.len() as u64);
        let play = Play::draw(setup, menu, shape, &mut numbers);
        let judge = |explained: bool, tale: String| assert!(explained, "{tale}");
        under(RandomScheduler::new_from_seed(seed, schedules), &play, judge);
        under(PctScheduler::new_from_seed(seed, 3, schedules), &play, judge);
    }
}

/// The setups that a protocol is tried in.
fn setups(protocols: &[Protocol]) -> [Setup; 3] {
    let setup = Setup { rows: vec![1], bumps: 1, ..Setup::of(protocols) };
    [
        setup.clone(),
        Setup { index: IndexKind::Hash, granularity: Granularity::Coarse, ..setup.clone() },
        Setup { secondary: true, ..setup },
    ]
}

fn attack_protocol(protocol: Protocol) {
    for setup in setups(&[protocol]) {
        attack(&setup, &[3, 3], 30, 40);
        attack(&setup, &[2, 2, 2], 30, 40);
    }
}

macro_rules! protocols {
    ($($name:ident => $protocol:ident,)*) => {$(
        #[test]
        fn $name() {
            attack_protocol(Protocol::$protocol);
        }
    )*};
}

protocols! {
    occ => Occ,
    tictoc => TicToc,
    two_phase_no_wait => TwoPhaseNoWait,
    two_phase_wait_die => TwoPhaseWaitDie,
    two_phase_wound_wait => TwoPhaseWoundWait,
    swiss => Swiss,
    adaptive => Adaptive,
}

#[test]
fn tictoc_in_momentary_order() {
    for setup in setups(&[Protocol::TicToc]) {
        attack(&Setup { order: Some(Order::Momentary), ..setup }, &[2, 2, 2], 4, 10);
    }
}

#[test]
fn mixes_of_two() {
    for (number, &first) in Protocol::ALL.iter().enumerate() {
        for &second in &Protocol::ALL[number + 1..] {
            attack(&setups(&[first, second])[number % 3], &[2, 2, 2], 2, 8);
        }
    }
}

#[test]
fn a_mix_of_all() {
    attack(&setups(Protocol::ALL)[0], &[2, 2, 2], 6, 10);
}

/// The same runs with a planted bug: some schedule of some run shows it.
fn is_found(protocol: Protocol, bug: Bug) -> bool {
    let setup = &setups(&[protocol])[0];
    let menu = Menu { tables: 1, keys: 3, scans: true, secondary: false };
    (0..200).any(|seed| {
        let play = Play::draw(setup, menu, &[2, 2], &mut Numbers(seed));
        let found = Arc::new(AtomicU64::new(0));
        let noted = found.clone();
        under(
            RandomScheduler::new_from_seed(seed, 20),
            &Play { bug: Some(bug), ..play },
            move |explained, _| {
                noted.fetch_add(u64::from(!explained), Ordering::Relaxed);
            },
        );
        found.load(Ordering::Relaxed) > 0
    })
}

#[test]
fn planted_bugs_are_found() {
    for protocol in [Protocol::Occ, Protocol::TicToc] {
        for bug in [Bug::SkipValidation, Bug::SkipLeafCheck, Bug::InstallBeforeLock] {
            assert!(is_found(protocol, bug), "{protocol}: {bug:?}");
        }
    }
}
