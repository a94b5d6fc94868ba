//! Memory, by counts: what a row costs, that nothing is allocated where nothing need be, and that a table whose
//! size stays the same does not grow.
//!
//! The program's allocator counts. A block counts for its size rounded up to its alignment, which is the least
//! that it can take: blocks of alignment 64 lie in lines of their own. What the system's allocator adds to that
//! (its size classes, its own headers) is not in it.
//!
//! Live bytes are those of the whole program, so the tests run one after another ([`alone`]); the numbers of
//! allocations are those of the thread. The figures that stand here as constants are those of docs/memory.md.

#![cfg(all(not(loom), not(shuttle)))]

use noonmark::{
    Abort, Database, Granularity, IndexKind, Key, Protocol, Row, Session, Table, TableOptions, Threads,
    column_group,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that the program has allocated and not freed.
static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    // Constant and without a destructor: reaching it allocates nothing, at any time of a thread's life.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

impl Counting {
    fn taken(layout: Layout) {
        // Relaxed: a count; who compares two readings has joined the threads between them.
        LIVE_BYTES.fetch_add(Self::bytes(layout), Ordering::Relaxed);
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    }

    fn given_back(layout: Layout) {
        LIVE_BYTES.fetch_sub(Self::bytes(layout), Ordering::Relaxed);
    }

    fn bytes(layout: Layout) -> isize {
        layout.pad_to_align().size() as isize
    }
}

// SAFETY: every call is handed on to the system's allocator unchanged (`realloc` is the trait's own, made of
// the others); counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::taken(layout);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::taken(layout);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        Self::given_back(layout);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live_bytes() -> isize {
    LIVE_BYTES.load(Ordering::Relaxed)
}

/// Keeps other tests of this program from allocating meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // Poisoned by a test that failed: its failure is no other's.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

const GRANULARITIES: [Granularity; 2] = [Granularity::Fine, Granularity::Coarse];

fn options(protocol: Protocol, index: IndexKind, granularity: Granularity) -> TableOptions {
    TableOptions::new().protocol(protocol).index(index).granularity(granularity)
}

/// Numbers that look random and repeat.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

// ---------------------------------------------------------------------------------------------------------
// Flat memory

/// How often live bytes are looked at, in rounds.
const LOOK_EVERY: u64 = 50;
/// Rounds of warming up; ten times as many follow.
const WARM_UP: u64 = 2_000;
/// What may be more in use at any moment after the warm-up than there was in it. What waits for reclamation is
/// bounded by the epochs, not by the length of the run; this is a tenth of what one lost record a round would
/// come to, and less.
const SLACK_BYTES: isize = 48 * 1024;

/// Runs rounds, and demands that the most that is in use during the later ones is what it was in the first ones.
fn flat(what: &str, mut round: impl FnMut(u64)) {
    let mut most = |rounds: std::ops::Range<u64>| {
        let mut most = 0;
        for number in rounds {
            round(number);
            if number % LOOK_EVERY == 0 {
                most = most.max(live_bytes());
            }
        }
        most
    };
    let warm = most(0..WARM_UP);
    let later = most(WARM_UP..11 * WARM_UP);
    println!("{what}: at most {warm} bytes in use while warming up, {later} later");
    assert!(later <= warm + SLACK_BYTES, "{what}: {warm} bytes in use grew to {later}");
}

/// Takes the oldest row of a queue, and adds one at its end.
fn turn<R: Row>(session: &mut Session, queue: &Table<u64, R>, end: u64, row: &dyn Fn() -> R) {
    let taken: Result<u64, Abort> = session.transact(|tx| {
        let mut oldest = None;
        tx.range(queue, ..).limit(1).for_each(|key, _| {
            oldest = Some(key);
            ControlFlow::Break(())
        })?;
        let oldest = oldest.expect("a queue whose length stays the same is never empty");
        assert!(tx.delete(queue, oldest)?);
        Ok(oldest)
    });
    assert!(taken.unwrap() < end);
    assert!(session.transact(|tx| tx.insert(queue, end, row())).unwrap());
}

const WAITING: u64 = 300;

fn filled_queue<R: Row>(db: &Database, options: TableOptions, row: &dyn Fn() -> R) -> Table<u64, R> {
    let queue = db.create_table::<u64, R>("queue", options).unwrap();
    let mut session = db.session().unwrap();
    for key in 0..WAITING {
        session.transact(|tx| tx.insert(&queue, key, row())).unwrap();
    }
    queue
}

#[test]
fn a_queue_stays_as_large_as_its_content() {
    let _alone = alone();
    for &protocol in Protocol::ALL {
        for granularity in GRANULARITIES {
            let options = options(protocol, IndexKind::Ordered, granularity);
            let db = Database::in_memory();
            let row = || ([7u8; 50], [8u8; 50]);
            let queue = filled_queue(&db, options.clone(), &row);
            let mut session = db.session().unwrap();
            // One that does nothing holds nobody up.
            let _idle = db.session().unwrap();
            let what = format!("queue, {protocol} {granularity:?}");
            flat(&what, |round| turn(&mut session, &queue, WAITING + round, &row));
        }
        let db = Database::in_memory();
        let row = || vec![9u8; 100];
        let queue = filled_queue(&db, options(protocol, IndexKind::Ordered, Granularity::Fine), &row);
        let mut session = db.session().unwrap();
        let what = format!("queue of values of variable size, {protocol}");
        flat(&what, |round| turn(&mut session, &queue, WAITING + round, &row));
    }
}

/// Versions that nobody can read any more are given up: beside a reader who stays they pile up; when it has ended, and
/// the rows are written again, they go.
#[test]
fn versions_go_when_nobody_can_read_them() {
    let _alone = alone();
    for granularity in GRANULARITIES {
        let db = Database::in_memory();
        let options = options(Protocol::Fixed, IndexKind::Hash, granularity);
        let table = db.create_table::<u64, (u64, Vec<u8>)>("rows", options).unwrap();
        let [mut writing, mut reading] = [(); 2].map(|()| db.session().unwrap());
        let mut write_all = |times: u64| {
            for number in 0..times * 10 {
                writing.transact(|tx| tx.upsert(&table, number % 10, (number, vec![1; 100]))).unwrap();
            }
            live_bytes()
        };
        let before = write_all(200);
        let mut reader = reading.begin();
        let piled_up = write_all(200) - before;
        // Two thousand versions, or nearly, with their values.
        assert!(piled_up > 1_900 * 100, "{granularity:?}: {piled_up} bytes");
        assert_eq!(reader.get(&table, 3).unwrap(), Some((1993, vec![1; 100])));
        reader.commit().unwrap();
        let left = write_all(200) - before;
        assert!(left < 1_900 * 100 / 10, "{granularity:?}: {left} bytes");
    }
}

#[test]
fn what_a_session_leaves_behind_is_reclaimed_by_others() {
    let _alone = alone();
    for &protocol in Protocol::ALL {
        let db = Database::in_memory();
        let row = || 5u64;
        let queue = filled_queue(&db, options(protocol, IndexKind::Ordered, Granularity::Fine), &row);
        let what = format!("queue, a session for each turn, {protocol}");
        flat(&what, |round| turn(&mut db.session().unwrap(), &queue, WAITING + round, &row));
    }
}

#[test]
fn transactions_in_sessions_of_their_own_leave_nothing() {
    let _alone = alone();
    for &protocol in Protocol::ALL {
        for index in [IndexKind::Hash, IndexKind::Ordered] {
            let db = Database::in_memory();
            let table =
                db.create_table::<u64, Vec<u8>>("rows", options(protocol, index, Granularity::Fine)).unwrap();
            for key in 0..WAITING {
                db.transact(|tx| tx.insert(&table, key, vec![6; 30])).unwrap();
            }
            flat(&format!("sessions of their own, {protocol} {index:?}"), |round| {
                assert!(db.transact(|tx| tx.delete(&table, round)).unwrap());
                assert!(db.transact(|tx| tx.insert(&table, WAITING + round, vec![6; 30])).unwrap());
                db.transact(|tx| tx.update(&table, round + 1, |bytes| bytes.reverse())).unwrap();
            });
        }
    }
}

#[test]
fn random_rows_come_and_go_at_constant_memory() {
    let _alone = alone();
    for &protocol in Protocol::ALL {
        for index in [IndexKind::Hash, IndexKind::Ordered] {
            let db = Database::in_memory();
            let options = options(protocol, index, Granularity::Fine);
            let table = db.create_table::<u64, (u64, Vec<u8>)>("rows", options).unwrap();
            let mut session = db.session().unwrap();
            let mut dice = Dice(1);
            // Lengths from 0 to 199 in turn, so that they sum up to the same at any time.
            let value = |number: u64| (number, vec![1u8; (number * 7 % 200) as usize]);
            let mut keys = Vec::new();
            let insert = |session: &mut Session, dice: &mut Dice, number: u64| loop {
                let key = dice.below(1 << 40);
                if session.transact(|tx| tx.insert(&table, key, value(number))).unwrap() {
                    return key;
                }
            };
            for number in 0..400 {
                keys.push(insert(&mut session, &mut dice, number));
            }
            flat(&format!("random rows, {protocol} {index:?}"), |round| {
                let place = (round % 400) as usize;
                let key = keys[place];
                assert!(session.transact(|tx| tx.delete(&table, key)).unwrap());
                keys[place] = insert(&mut session, &mut dice, round);
                // What stays is written too: its old value goes.
                let other = keys[dice.below(400) as usize];
                session.transact(|tx| tx.update(&table, other, |row| row.1.reverse())).unwrap();
            });
        }
    }
}

#[test]
fn the_same_keys_deleted_and_inserted_again_take_no_more() {
    let _alone = alone();
    for &protocol in Protocol::ALL {
        for index in [IndexKind::Hash, IndexKind::Ordered] {
            let db = Database::in_memory();
            let table =
                db.create_table::<u64, Vec<u8>>("rows", options(protocol, index, Granularity::Fine)).unwrap();
            let mut session = db.session().unwrap();
            flat(&format!("few keys, {protocol} {index:?}"), |round| {
                let key = round % 10;
                session.transact(|tx| tx.upsert(&table, key, vec![2; 64])).unwrap();
                assert!(session.transact(|tx| tx.delete(&table, key)).unwrap());
                // One that is rolled back leaves a record that nobody wanted.
                let mut tx = session.begin();
                tx.insert(&table, 1_000_000 + round, vec![3; 64]).unwrap();
                tx.rollback();
            });
        }
    }
}

#[test]
fn threads_that_share_a_queue_keep_it_small() {
    let _alone = alone();
    const THREADS: u64 = 3;
    for &protocol in Protocol::ALL {
        let db = Database::in_memory();
        let row = || vec![4u8; 40];
        let queue = filled_queue(&db, options(protocol, IndexKind::Ordered, Granularity::Fine), &row);
        // All threads are joined after each period: what is compared are moments at which nothing runs.
        let period = |number: u64| {
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (db, queue) = (&db, &queue);
                    scope.spawn(move || {
                        let mut session = db.session().unwrap();
                        for round in 0..300 {
                            let end = WAITING + (number * 300 + round) * THREADS + thread;
                            // Others may be slower: the end that this one takes for the last need not be.
                            session
                                .transact(|tx| {
                                    let oldest = tx.range(queue, ..).limit(1).collect()?[0].0;
                                    tx.delete(queue, oldest).map(drop)
                                })
                                .unwrap();
                            session.transact(|tx| tx.insert(queue, end, vec![4u8; 40])).unwrap();
                        }
                    });
                }
            });
            live_bytes()
        };
        let warm = (0..3).map(period).max().unwrap();
        let later = (3..15).map(period).max().unwrap();
        println!("{protocol}, {THREADS} threads: {warm} bytes in use while warming up, {later} later");
        // Who was put aside in the midst of a transaction held up what the others freed.
        assert!(later <= warm + 4 * SLACK_BYTES, "{protocol}: {warm} bytes in use grew to {later}");
    }
}

// ---------------------------------------------------------------------------------------------------------
// What a row costs

const ROWS: usize = 20_000;

/// Bytes a row of a table with these many, as measured: of its record with its values, and of the index.
fn measured_row<K: Key, R: Row>(
    options: TableOptions,
    key: impl Fn(u64) -> K,
    row: impl Fn() -> R,
) -> (f64, f64) {
    let db = Database::in_memory();
    let table = db.create_table::<K, R>("rows", options).unwrap();
    let mut session = db.session().unwrap();
    let insert = |session: &mut Session, number: usize| {
        assert!(session.transact(|tx| tx.insert(&table, key(number as u64), row())).unwrap());
    };
    // The session's own buffers first, and whatever else is made once.
    (0..1000).for_each(|number| insert(&mut session, number));
    let (live, index) = (live_bytes(), table.index_bytes() as isize);
    (1000..1000 + ROWS).for_each(|number| insert(&mut session, number));
    // What was replaced in the index waits for the epochs, which deletions move on.
    for number in 0..500 {
        let passing = || key(1_000_000 + number);
        assert!(session.transact(|tx| tx.insert(&table, passing(), row())).unwrap());
        assert!(session.transact(|tx| tx.delete(&table, passing())).unwrap());
    }
    let index_grown = table.index_bytes() as isize - index;
    let record = (live_bytes() - live - index_grown) as f64 / ROWS as f64;
    (record, table.index_bytes() as f64 / (1000 + ROWS) as f64)
}

/// A row of 8 bytes, one of 100 in one group, one of 100 in two groups with timestamps of their own, and the
/// same with one for both: bytes of a record with a key of 8 bytes, in a database of the usual number of
/// sessions. As in docs/memory.md. One that is not stated there takes no more than the largest.
const RECORD_BYTES: &[(Protocol, [usize; 4])] = &[
    (Protocol::Occ, [32, 128, 192, 136]),
    (Protocol::TicToc, [40, 136, 160, 144]),
    (Protocol::Swiss, [40, 136, 160, 144]),
    (Protocol::TwoPhaseNoWait, [48, 144, 176, 152]),
    (Protocol::TwoPhaseWaitDie, [48, 144, 176, 152]),
    (Protocol::TwoPhaseWoundWait, [48, 144, 176, 152]),
    (Protocol::Adaptive, [56, 152, 192, 160]),
    (Protocol::F1, [48, 144, 176, 152]),
    (Protocol::Sundial, [48, 144, 176, 152]),
    (Protocol::Dynamic, [56, 152, 192, 160]),
    (Protocol::Ranges, [64, 160, 208, 168]),
    (Protocol::Fixed, [56, 152, 192, 160]),
];

/// What is said of the bytes of a record.
#[derive(Clone, Copy)]
enum Stated {
    Exactly(usize),
    AtMost(usize),
}

fn stated(protocol: Protocol) -> [Stated; 4] {
    match RECORD_BYTES.iter().find(|(stated, _)| *stated == protocol) {
        Some((_, bytes)) => bytes.map(Stated::Exactly),
        None => std::array::from_fn(|row| {
            Stated::AtMost(RECORD_BYTES.iter().map(|(_, bytes)| bytes[row]).max().unwrap())
        }),
    }
}

/// What a record of so many bytes takes: larger ones begin on a cache line of their own.
fn block_bytes(record: usize) -> usize {
    record.next_multiple_of(if record > 32 { 64 } else { 16 })
}

/// Demands that a row takes what its record is documented to take, and its values beside it.
fn assert_row<R: Row>(what: &str, options: TableOptions, stated: Stated, beside: usize, row: impl Fn() -> R) {
    let db = Database::in_memory();
    let table = db.create_table::<u64, R>("rows", options.clone()).unwrap();
    let record = table.record_bytes(8);
    match stated {
        Stated::Exactly(bytes) => assert_eq!(record, bytes, "{what}"),
        Stated::AtMost(bytes) => assert!(record <= bytes, "{what}: {record} bytes, at most {bytes} stated"),
    }
    let documented = (block_bytes(record) + beside) as f64;
    let (measured, _) = measured_row(options, scattered, row);
    println!("{what}: {measured:.2} bytes a row, {documented} documented");
    // (Deleted rows that wait for the epochs count, and what is kept of them.)
    assert!((measured - documented).abs() < 2.0, "{what}: {measured:.2} bytes a row instead of {documented}");
}

#[test]
fn a_record_takes_what_is_documented() {
    let _alone = alone();
    for &protocol in Protocol::ALL {
        let [small, single, fine, coarse] = stated(protocol);
        for index in [IndexKind::Hash, IndexKind::Ordered] {
            let with = |granularity| options(protocol, index, granularity);
            for granularity in GRANULARITIES {
                let what = |row: &str| format!("{row}, {protocol} {index:?} {granularity:?}");
                assert_row(&what("8 bytes"), with(granularity), small, 0, || 1u64);
                assert_row(&what("100 bytes"), with(granularity), single, 0, || [1u8; 100]);
                // One word of the record, and a block: a word for the length, and the bytes.
                assert_row(&what("100 bytes beside it"), with(granularity), small, 8 + 104, || {
                    vec![1u8; 100]
                });
            }
            let halves = || ([1u8; 50], [2u8; 50]);
            let what = |kind: &str| format!("two groups of 50 bytes, {protocol} {index:?} {kind}");
            assert_row(&what("fine"), with(Granularity::Fine), fine, 0, halves);
            assert_row(&what("coarse"), with(Granularity::Coarse), coarse, 0, halves);
        }
    }
}

/// The most bytes an entry, as in docs/memory.md. The hash index doubles a shard's table when it is three quarters
/// full, so that an entry takes from 21 to 43 bytes; an ordered one takes least if keys come in order.
const HASH_ENTRY_BYTES: f64 = 48.0;
const ORDERED_ENTRY_BYTES_IN_ORDER: f64 = 20.0;
const ORDERED_ENTRY_BYTES_AT_RANDOM: f64 = 32.0;
const ORDERED_ENTRY_BYTES_DESCENDING: f64 = 40.0;
const ORDERED_ENTRY_BYTES_IN_GROUPS: f64 = 56.0;

/// A different number for each number, in no order.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn an_index_entry_takes_what_is_documented() {
    let _alone = alone();
    let with = |index| options(Protocol::Occ, index, Granularity::Fine);
    let check = |what: &str, bytes: f64, most: f64| {
        println!("{what}: {bytes:.1} bytes an entry");
        assert!(
            bytes <= most && bytes >= 16.0,
            "{what}: {bytes:.1} bytes an entry, at most {most} documented"
        );
    };
    // What is measured is what is counted (or the record would come out wrong), so the index's own count will do.
    let (_, bytes) = measured_row(with(IndexKind::Hash), scattered, || 1u64);
    check("hash", bytes, HASH_ENTRY_BYTES);
    // Numbers so large that their rows have no places.
    let (_, bytes) = measured_row(with(IndexKind::Ordered), |number| number + (1 << 40), || 1u64);
    check("ordered, keys in order", bytes, ORDERED_ENTRY_BYTES_IN_ORDER);
    let (_, bytes) = measured_row(with(IndexKind::Ordered), scattered, || 1u64);
    check("ordered, keys at random", bytes, ORDERED_ENTRY_BYTES_AT_RANDOM);
    let (_, bytes) = measured_row(with(IndexKind::Ordered), |number| u64::MAX - number, || 1u64);
    check("ordered, keys in descending order", bytes, ORDERED_ENTRY_BYTES_DESCENDING);
    // Where groups begin, leaves end: many small groups, in orders that leave leaves emptier than any other tried.
    for size in [2, 3, 5, 8, 9, 10, 22] {
        let descending = |number: u64| ((u64::from(u32::MAX) - number / size) << 32) | (number % size);
        let (_, bytes) = measured_row(with(IndexKind::Ordered), descending, || 1u64);
        check(&format!("ordered, groups of {size}, the last first"), bytes, ORDERED_ENTRY_BYTES_IN_GROUPS);
        let turned = |number: u64| ((number / size) << 32) | (size - number % size);
        let (_, bytes) = measured_row(with(IndexKind::Ordered), turned, || 1u64);
        check(&format!("ordered, groups of {size}, each from its end"), bytes, ORDERED_ENTRY_BYTES_IN_GROUPS);
        let at_random = |number: u64| (scattered(number / size) << 32) | (number % size);
        let (_, bytes) = measured_row(with(IndexKind::Ordered), at_random, || 1u64);
        check(&format!("ordered, groups of {size} at random"), bytes, ORDERED_ENTRY_BYTES_IN_GROUPS);
    }
    let long = |number| scattered(number).to_be_bytes().map(|byte| [byte; 5]).concat();
    let (_, bytes) = measured_row(with(IndexKind::Hash), long, || 1u64);
    check("hash, keys of 40 bytes", bytes, HASH_ENTRY_BYTES);
    let (_, bytes) = measured_row(with(IndexKind::Ordered), long, || 1u64);
    check("ordered, keys of 40 bytes at random", bytes, ORDERED_ENTRY_BYTES_AT_RANDOM + 8.0);
}

// ---------------------------------------------------------------------------------------------------------
// Allocations

column_group! {
    #[derive(Clone, Debug, PartialEq)]
    struct Balance { cents: u64, changes: u32 }
}

/// How many times this thread allocates in some rounds, after it has done the same for a while.
fn allocations_of(mut round: impl FnMut(u64)) -> u64 {
    (0..300).for_each(&mut round);
    let before = ALLOCATIONS.get();
    (300..1300).for_each(&mut round);
    ALLOCATIONS.get() - before
}

#[test]
fn transactions_on_rows_of_fixed_size_allocate_nothing() {
    let _alone = alone();
    const KEYS: u64 = 500;
    for &protocol in Protocol::ALL {
        for index in [IndexKind::Hash, IndexKind::Ordered] {
            for granularity in GRANULARITIES {
                let db = Database::in_memory();
                let options = options(protocol, index, granularity);
                let table = db.create_table::<u64, (Balance, [u8; 50])>("rows", options).unwrap();
                let balance = table.group::<0>();
                let name = table.group::<1>();
                let mut session = db.session().unwrap();
                for key in 0..KEYS {
                    let row = (Balance { cents: 0, changes: 0 }, [1; 50]);
                    session.transact(|tx| tx.insert(&table, key, row.clone())).unwrap();
                }
                let mut sum = 0;
                let mut none = |what: &str, body: &mut Body<'_>| {
                    let mut dice = Dice(3);
                    let count = allocations_of(|_| {
                        let keys: [u64; 20] = std::array::from_fn(|_| dice.below(KEYS));
                        session.transact(|tx| body(tx, &keys)).unwrap();
                    });
                    let where_ = format!("{what}, {protocol} {index:?} {granularity:?}");
                    // What is replaced is kept there, with its values: two blocks a cell.
                    let most = if protocol.keeps_versions() && !what.starts_with("get") { 80_000 } else { 0 };
                    assert!(
                        count <= most,
                        "{where_}: {count} allocations in 1000 transactions of 20 operations"
                    );
                };
                none("get", &mut |tx, keys| {
                    keys.iter().try_for_each(|key| tx.need(&table, key).map(|row| sum += row.0.cents))
                });
                none("get of a group", &mut |tx, keys| {
                    keys.iter().try_for_each(|key| tx.get(&balance, key).map(drop))
                });
                none("get of what is not there", &mut |tx, keys| {
                    keys.iter().try_for_each(|key| tx.get(&table, key + KEYS).map(drop))
                });
                none("update", &mut |tx, keys| {
                    keys.iter().try_for_each(|key| tx.update(&balance, key, |b| b.cents += 1))
                });
                none("update of rows", &mut |tx, keys| {
                    keys.iter().try_for_each(|key| tx.update(&table, key, |row| row.1[3] += 1))
                });
                none("write", &mut |tx, keys| {
                    keys.iter().try_for_each(|key| tx.write(&name, key, [2; 50]).map(drop))
                });
                none("add at commit", &mut |tx, keys| {
                    keys.iter().try_for_each(|key| tx.add(&balance, key, |b| &mut b.cents, 1))
                });
                none("get together", &mut |tx, keys| {
                    tx.get_many(&table, keys, |_, row| assert!(row.is_some()))
                });
                none("update together", &mut |tx, keys| {
                    tx.update_many(&balance, keys, |_, b| b.changes += 1)
                });
                none("short scans", &mut |tx, keys| {
                    if index == IndexKind::Hash {
                        return Ok(());
                    }
                    keys.iter().take(3).try_for_each(|key| {
                        tx.range(&balance, *key..).limit(10).for_each(|_, b| {
                            std::hint::black_box(b.cents);
                            ControlFlow::Continue(())
                        })
                    })
                });
            }
        }
    }
}

/// What a transaction does with some keys.
type Body<'b> = dyn FnMut(&mut noonmark::Transaction<'_, Threads>, &[u64]) -> Result<(), Abort> + 'b;

/// A row of variable size that one transaction changes again and again takes a few times its length meanwhile, not the sum
/// of all that it has been.
#[test]
fn changes_of_one_long_value_share_their_room() {
    let _alone = alone();
    let db = Database::in_memory();
    let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
    db.transact(|tx| tx.insert(&rows, 1, Vec::new())).unwrap();
    let before = live_bytes();
    let most = db
        .transact(|tx| {
            for _ in 0..4_000 {
                tx.update(&rows, 1, |value| value.extend([7; 8]))?;
            }
            let grown = live_bytes() - before;
            // But for what the harness allocates meanwhile to begin another test, which then waits.
            let is_as_it_was = || (live_bytes() - before - grown).abs() < 16_000;
            for _ in 0..4_000 {
                tx.update(&rows, 1, |value| value[0] ^= 1)?;
            }
            assert!(is_as_it_was());
            // Shorter, and as long again: there is room.
            tx.write(&rows, 1, vec![1])?;
            tx.write(&rows, 1, vec![2; 32_000])?;
            assert!(is_as_it_was());
            Ok::<_, Abort>(grown)
        })
        .unwrap();
    assert!(most < 8 * 32_000, "{most} bytes for 32000");
    assert_eq!(db.view(|tx| tx.need(&rows, 1)).unwrap(), vec![2; 32_000]);
}
