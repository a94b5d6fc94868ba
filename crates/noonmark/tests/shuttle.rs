//! Whole protocols under random schedules: every atomic access is a place where another thread may run.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p noonmark --release --test shuttle`
//!
//! Each run is a few threads with a few small transactions on a few keys, retried until they end, and
//! must be explained by a serial order (see `attack_support`). That nobody waits for ever shuttle
//! sees to itself. Records leave their indexes and memory is freed within the run: the constants that say
//! when are small here.

#![cfg(shuttle)]

#[path = "engine/attack_support.rs"]
mod attack_support;

use attack_support::{
    Menu, Numbers, Op, Part, Saw, Setup, Txn, is_explained, on_engine, state_of, tag_of, told,
};
use noonmark::{
    Abort, AbortKind, Bug, Database, Granularity, IndexKind, Leases, Order, PASSES_MAX_DEFAULT, Policy,
    Protocol, Table, TableOptions, Transaction,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
    /// Where rows can split: every so many transactions a session looks whether one can be made whole.
    look_at_splits_every: u64,
    passes_max: u32,
}

/// How many rows of all runs were split when the run was over.
static LEFT_SPLIT: AtomicU64 = AtomicU64::new(0);

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
        // Rarely, or soon. Never would be a livelock in some schedules: two that always undo each other.
        let escape_after = Some([50, 1, 2][numbers.below(3)]);
        // At once, or not within the run.
        let look_at_splits_every = [1, 1_000][numbers.below(2)];
        let passes_max = [0, 1, PASSES_MAX_DEFAULT][numbers.below(3)];
        Play {
            setup: setup.clone(),
            menu,
            threads,
            escape_after,
            bug: None,
            look_at_splits_every,
            passes_max,
        }
    }

    /// Runs it once, under whatever schedule; whether a serial order explains it, and the tale.
    fn run(&self) -> (bool, String) {
        let mut builder = Database::builder()
            .max_sessions(self.threads.len() + 1)
            .split_after(1)
            .look_at_splits_every(self.look_at_splits_every)
            .passes_max(self.passes_max)
            .whole_after(Duration::ZERO);
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
                    // Whoever comes to the gate is alone behind it.
                    let most = policy.escape_after.map_or(u64::MAX, |after| u64::from(after) + 1);
                    let attempts = session.statistics().attempts_max;
                    assert!(attempts <= most, "{attempts} attempts");
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        LEFT_SPLIT.fetch_add(db.split_rows() as u64, Ordering::Relaxed);
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

/// In so many tests are the protocols attacked, which run beside each other.
const PARTS: usize = 4;

/// Every protocol that there is, one that comes tomorrow too, is in one of the parts.
fn attack_part(part: usize) {
    for &protocol in Protocol::ALL.iter().skip(part).step_by(PARTS) {
        println!("{protocol}");
        attack_protocol(protocol);
    }
}

#[test]
fn every_protocol_part_1() {
    attack_part(0);
}

#[test]
fn every_protocol_part_2() {
    attack_part(1);
}

#[test]
fn every_protocol_part_3() {
    attack_part(2);
}

#[test]
fn every_protocol_part_4() {
    attack_part(PARTS - 1);
}

/// Leases that are extended while executing, and write times that are kept.
#[test]
fn sundial_with_options() {
    for (extended_by, write_times) in [(Some(0), 0), (None, 1), (Some(0), 3)] {
        let leases = Leases { extended_by, write_times };
        for setup in setups(&[Protocol::Sundial]) {
            let setup = Setup { leases, ..setup };
            attack(&setup, &[3, 3], 20, 40);
            attack(&setup, &[2, 2, 2], 20, 40);
        }
    }
}

#[test]
fn logical_protocols_in_momentary_order() {
    for protocol in [Protocol::TicToc, Protocol::Sundial] {
        for setup in setups(&[protocol]) {
            attack(&Setup { order: Some(Order::Momentary), ..setup }, &[2, 2, 2], 4, 10);
        }
    }
}

#[test]
fn mixes_of_two() {
    let all = Protocol::all_that_mix();
    for (number, &first) in all.iter().enumerate() {
        for &second in &all[number + 1..] {
            attack(&setups(&[first, second])[number % 3], &[2, 2, 2], 2, 8);
        }
    }
}

#[test]
fn a_mix_of_all() {
    attack(&setups(&Protocol::all_that_mix())[0], &[2, 2, 2], 6, 10);
}

/// Rows are split and made whole while others read, write, delete and put them in.
#[test]
fn timestamps_that_split_themselves() {
    for &protocol in Protocol::ALL {
        if protocol == Protocol::Fixed {
            continue; // Its versions hang on cells.
        }
        for setup in setups(&[protocol]) {
            let setup = Setup { granularity: Granularity::Splitting, ..setup };
            attack(&setup, &[3, 3], 8, 20);
            attack(&setup, &[2, 2, 2], 8, 20);
        }
    }
    assert!(LEFT_SPLIT.load(Ordering::Relaxed) > 0, "none has ever been split");
}

/// A group is read whole, in an attempt that will fail, too: while another transaction installs, word by
/// word, nobody is shown half of what it writes.
#[test]
fn a_group_is_never_read_by_halves() {
    for &protocol in Protocol::ALL {
        for (hot, updates) in [(false, false), (false, true), (true, false), (true, true)] {
            if hot && protocol != Protocol::Adaptive {
                continue;
            }
            let play = move || {
                let db = Database::builder().max_sessions(3).build().unwrap();
                let options = TableOptions::new().protocol(protocol).expected_rows(1);
                let rows: Table<u64, [u64; 4]> = db.create_table("rows", options).unwrap();
                let mut session = db.session().unwrap();
                session.transact(|tx| tx.insert(&rows, 1, [0; 4])).unwrap();
                if hot {
                    let mut reading = db.session().unwrap();
                    for _ in 0..8 {
                        let mut tx = reading.begin();
                        tx.get(&rows, 1).unwrap();
                        // Refused once it is hot: then the read is locked.
                        let _ = session.transact_with(&Policy::once(), |tx| tx.write(&rows, 1, [0; 4]));
                        let _ = tx.commit();
                    }
                }
                drop(session);
                let writing = db.clone();
                let written = rows.clone();
                let writer = shuttle::thread::spawn(move || {
                    let mut session = writing.session().unwrap();
                    for round in 1..3 {
                        session.transact(|tx| tx.write(&written, 1, [round; 4])).unwrap();
                    }
                });
                let mut session = db.session().unwrap();
                let is_whole = |row: &[u64; 4]| {
                    assert!(row.iter().all(|word| *word == row[0]), "{protocol}, hot: {hot}: {row:?}");
                };
                for _ in 0..2 {
                    session
                        .transact(|tx| {
                            if updates {
                                tx.update(&rows, 1, |row| is_whole(row))
                            } else {
                                tx.need(&rows, 1).map(|row| is_whole(&row))
                            }
                        })
                        .unwrap();
                }
                writer.join().unwrap();
            };
            let mut config = Config::new();
            config.stack_size = 1 << 18;
            config.silence_warnings = true;
            Runner::new(RandomScheduler::new_from_seed(1, 200), config.clone()).run(play);
            Runner::new(PctScheduler::new_from_seed(1, 3, 200), config).run(play);
        }
    }
}

/// A row is put in where its key says (decisions 14 and 46) while another transaction looks for it: after its look
/// there, and before its look into the shard's table or the leaf, at whose version the row would be absent for good.
#[test]
fn a_row_that_is_put_in_between_two_looks_is_not_missed() {
    let both = |protocol| [IndexKind::Hash, IndexKind::Ordered].map(|index| (protocol, index));
    for (protocol, index) in [Protocol::Occ, Protocol::TicToc].into_iter().flat_map(both) {
        let play = move || {
            let db = Database::builder().max_sessions(2).build().unwrap();
            let options = TableOptions::new().protocol(protocol).index(index).expected_rows(4);
            let rows: Table<u64, u64> = db.create_table("rows", options).unwrap();
            db.session().unwrap().transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
            let (writing, written) = (db.clone(), rows.clone());
            let writer = shuttle::thread::spawn(move || {
                let mut session = writing.session().unwrap();
                session
                    .transact(|tx| {
                        tx.insert(&written, 2, 1)?;
                        tx.update(&written, 1, |row| *row = 1)
                    })
                    .unwrap();
            });
            let mut session = db.session().unwrap();
            let (second, first) = session.transact(|tx| Ok((tx.get(&rows, 2)?, tx.need(&rows, 1)?))).unwrap();
            assert_eq!(second.is_some(), first == 1, "{protocol}: both rows are written by one transaction");
            writer.join().unwrap();
        };
        let mut config = Config::new();
        config.stack_size = 1 << 18;
        config.silence_warnings = true;
        Runner::new(RandomScheduler::new_from_seed(1, 2_000), config.clone()).run(play);
        Runner::new(PctScheduler::new_from_seed(1, 3, 2_000), config).run(play);
    }
}

/// Two indexes are made while the table's first row is put in, and changed: each is refused, or has the row, and
/// nothing else. One may find the record that another has made, and be done before that one is; and one may have begun
/// before there was an index, and find the row that another has put in with its entry.
#[test]
fn an_index_that_is_made_beside_the_first_row_has_it() {
    type Write = fn(&mut Transaction<'_>, &Table<u64, u64>) -> Result<(), Abort>;
    let others: [Write; 4] = [
        |tx, rows| tx.upsert(rows, 1, 20),
        |tx, rows| match tx.update(rows, 1, |value| *value = 20) {
            Err(missing) if missing.kind() == AbortKind::Missing => Ok(()),
            updated => updated,
        },
        |tx, rows| tx.write(rows, 1, 20).map(|_| ()),
        |tx, rows| tx.delete(rows, 1).map(|_| ()),
    ];
    for kind in [IndexKind::Hash, IndexKind::Ordered] {
        for other in others {
            let play = move || {
                let db = Database::builder().max_sessions(3).build().unwrap();
                let rows: Table<u64, u64> = db.create_table("rows", TableOptions::new().index(kind)).unwrap();
                let first: Write = |tx, rows| tx.upsert(rows, 1, 10);
                let writers = [first, other].map(|write| {
                    let (db, rows) = (db.clone(), rows.clone());
                    shuttle::thread::spawn(move || {
                        let mut session = db.session().unwrap();
                        let written = session.transact(|tx| write(tx, &rows));
                        // A transaction that has found a row missing does not commit.
                        assert!(written.is_ok() || written.unwrap_err().kind() == AbortKind::Continued);
                    })
                });
                let indexes = ["one", "two"].map(|name| rows.create_index(&db, name, |_, value| *value));
                for writer in writers {
                    writer.join().unwrap();
                }
                let mut session = db.session().unwrap();
                let row = session.transact(|tx| tx.get(&rows, 1)).unwrap();
                let expected: Vec<_> = row.map(|value| (value, 1)).into_iter().collect();
                for index in indexes.into_iter().flatten() {
                    let entries = session.transact(|tx| tx.range_by(&index, ..).collect()).unwrap();
                    assert_eq!(entries, expected, "{kind:?}");
                }
            };
            let mut config = Config::new();
            config.stack_size = 1 << 18;
            config.silence_warnings = true;
            Runner::new(RandomScheduler::new_from_seed(1, 2_000), config.clone()).run(play);
            Runner::new(PctScheduler::new_from_seed(1, 3, 2_000), config).run(play);
        }
    }
}

/// Two write skews, in logical order: each transaction reads what the other writes, or inserts. What the
/// second reads and the first overwrites holds for longer than what the first reads; so the first must
/// raise a time, of a cell or a node, and the second need not. In between the two looks of the one that
/// raises, the other may lock and read the time as it was.
#[test]
fn times_are_raised_before_the_last_look() {
    let [tictoc, sundial] = [Protocol::TicToc, Protocol::Sundial];
    let [none, all] = [Leases::default(), Leases { extended_by: Some(0), write_times: 1 }];
    for (index, protocols, leases) in [
        (IndexKind::Ordered, [tictoc, tictoc], none),
        (IndexKind::Hash, [tictoc, tictoc], none),
        (IndexKind::Ordered, [sundial, sundial], none),
        (IndexKind::Ordered, [sundial, sundial], all),
        (IndexKind::Hash, [sundial, tictoc], none),
    ] {
        let setup = Setup { index, leases, bumps: 4, order: Some(Order::Logical), ..Setup::of(&protocols) };
        let menu = Menu { tables: 2, keys: 3, scans: false, secondary: false };
        let row = |table| Op::Get(table, 2, Part::Row);
        let skews = [
            // The first row of the first table is the oldest of all.
            [
                vec![Op::Get(0, 1, Part::Row), Op::Write(1, 2, Part::Row)],
                vec![row(1), Op::Write(0, 1, Part::Row)],
            ],
            [vec![Op::Get(0, 3, Part::Row), Op::Write(1, 2, Part::Row)], vec![row(1), Op::Upsert(0, 3)]],
        ];
        for [first, second] in skews {
            let threads = vec![vec![first], vec![second]];
            let play = Play {
                setup: setup.clone(),
                menu,
                threads,
                escape_after: None,
                bug: None,
                look_at_splits_every: 1,
                passes_max: PASSES_MAX_DEFAULT,
            };
            let judge = |explained: bool, tale: String| assert!(explained, "{tale}");
            under(RandomScheduler::new_from_seed(1, 2_000), &play, judge);
            under(PctScheduler::new_from_seed(1, 3, 2_000), &play, judge);
        }
    }
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
    assert!(is_found(Protocol::F1, Bug::SealWritesOnly));
    for bug in [Bug::RenewBlindly, Bug::RenewSealed, Bug::InstalledInSight] {
        assert!(is_found(Protocol::Sundial, bug), "{bug:?}");
    }
}
