//! The transactional memory's controls on real threads: histories of lists and registers in variables, with all attempts and
//! what each of them read, are opaque.
//!
//! Some transactions only read, some are called off by their user; a few keys are hot, and new ones come as lists
//! fill up. Between two steps a thread may give its core away, so that attempts overlap on few cores, too. Times are
//! numbers drawn from one counter.

mod check_support;

use check_support::{Numbers, OPAQUE, PLAIN, Txn, history};
use noonmark_stm::{
    Bug, Dcotl, DcotlSf, Dctl, DctlSf, Host, InTable, Interrupted, Memory, Opaque, Own, Plain, Settings,
    TFixed, TVar, Threads, TicToc, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf, World, Writes, world,
};
use noonmark_workloads::check::{Options, Report, Verdict, check};
use noonmark_workloads::history::{Key, MicroOp, Model, Outcome, Value};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const THREADS: u64 = 3;
const TRANSACTIONS: u64 = 400;
const KEYS: usize = 400;
/// How many keys are hot at a time.
const HOT: u64 = 4;
/// As many elements as fit into a list. It begins with their number.
const LENGTH: usize = 15;
type List = [i64; LENGTH + 1];
/// How many values lie in a fixed table.
const PLACES: usize = 12;

/// The attempts of one thread.
struct Attempts<'a> {
    process: u64,
    time: &'a AtomicU64,
    done: Vec<Txn>,
    under_way: Option<Txn>,
}

impl Attempts<'_> {
    fn tick(&self) -> u64 {
        // Sequentially consistent, so that the numbers keep to real time.
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    /// An attempt begins: if there was one under way, nothing has come of it.
    fn begin(&mut self) {
        self.done.extend(self.under_way.take().filter(|attempt| !attempt.ops.is_empty()));
        let (process, start_ns) = (self.process, self.tick());
        let outcome = Outcome::Fail;
        self.under_way = Some(Txn { process, start_ns, finish_ns: start_ns, outcome, ops: Vec::new() });
    }

    fn did(&mut self, op: MicroOp) {
        let finish_ns = self.tick();
        let attempt = self.under_way.as_mut().expect("begun");
        attempt.finish_ns = finish_ns;
        attempt.ops.push(op);
    }

    fn end(&mut self, outcome: Outcome) {
        let finish_ns = self.tick();
        let attempt = self.under_way.take().expect("begun");
        self.done.push(Txn { finish_ns, outcome, ..attempt });
    }
}

/// One step of a transaction, before it is run.
#[derive(Clone, Copy)]
enum Step {
    Read(usize),
    /// Reads, and then puts something new there.
    Change(usize),
    /// Puts something new there.
    Overwrite(usize),
}

struct CalledOff;

impl From<Interrupted> for CalledOff {
    fn from(_: Interrupted) -> Self {
        CalledOff
    }
}

fn elements(list: &List) -> Vec<Value> {
    list[1..=list[0] as usize].iter().copied().map(Value).collect()
}

/// With a new element, if there is room.
fn longer(mut list: List, value: i64) -> Option<List> {
    let len = list[0] as usize;
    *list.get_mut(len + 1)? = value;
    list[0] += 1;
    Some(list)
}

/// What the transactions of one history work on.
struct Board<W: World> {
    lists: Vec<TVar<List, W>>,
    registers: Vec<TVar<i64, W>>,
    next_value: AtomicI64,
    host: Threads,
}

impl<W: World> Board<W> {
    fn new_value(&self) -> i64 {
        self.next_value.fetch_add(1, Ordering::Relaxed)
    }

    fn read<'tx, X: noonmark_stm::Reads<'tx, W>>(
        &'tx self,
        tx: X,
        model: Model,
        at: usize,
    ) -> Result<MicroOp, Interrupted> {
        let key = Key(at as i64);
        Ok(match model {
            Model::Lists => MicroOp::ReadList { key, list: Some(elements(&self.lists[at].get(tx)?)) },
            Model::Registers => {
                MicroOp::ReadRegister { key, value: Some(Value(self.registers[at].get(tx)?)) }
            }
        })
    }

    /// Puts something new there; what it did.
    fn write<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        model: Model,
        at: usize,
    ) -> Result<Option<MicroOp>, Interrupted> {
        let (key, value) = (Key(at as i64), self.new_value());
        match model {
            Model::Lists => {
                let Some(list) = longer(self.lists[at].get(tx)?, value) else { return Ok(None) };
                self.lists[at].set(tx, list)?;
                Ok(Some(MicroOp::Append { key, value: Value(value) }))
            }
            Model::Registers => {
                self.registers[at].set(tx, value)?;
                Ok(Some(MicroOp::Write { key, value: Some(Value(value)) }))
            }
        }
    }

    fn run<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        model: Model,
        steps: &[Step],
        attempts: &mut Attempts<'_>,
    ) -> Result<(), Interrupted> {
        for &step in steps {
            let (Step::Read(at) | Step::Change(at) | Step::Overwrite(at)) = step;
            if !matches!(step, Step::Overwrite(_)) {
                attempts.did(self.read(tx, model, at)?);
            }
            self.give_way(at);
            if !matches!(step, Step::Read(_)) {
                let op = self.write(tx, model, at)?;
                op.into_iter().for_each(|op| attempts.did(op));
            }
        }
        Ok(())
    }

    /// Gives the core away, now and then.
    fn give_way(&self, at: usize) {
        if (self.next_value.load(Ordering::Relaxed) as usize + at).is_multiple_of(5) {
            self.host.spin(63);
        }
    }

    /// The transactions of one thread.
    fn play(&self, model: Model, overwrites: bool, process: u64, seed: u64, time: &AtomicU64) -> Vec<Txn> {
        let mut numbers = Numbers(seed * 1_000 + process);
        let mut attempts = Attempts { process, time, done: Vec::new(), under_way: None };
        for number in 0..TRANSACTIONS {
            let first = number / 10;
            let steps: Vec<Step> = (0..2 + numbers.below(3))
                .map(|_| {
                    let at = (first + numbers.below(HOT)) as usize % KEYS;
                    match numbers.below(4) {
                        0 | 1 => Step::Read(at),
                        2 if overwrites => Step::Overwrite(at),
                        _ => Step::Change(at),
                    }
                })
                .collect();
            match numbers.below(8) {
                0 | 1 => {
                    W::view(|tx| {
                        attempts.begin();
                        for &(Step::Read(at) | Step::Change(at) | Step::Overwrite(at)) in &steps {
                            attempts.did(self.read(tx, model, at)?);
                            self.give_way(at);
                        }
                        Ok(())
                    });
                    attempts.end(Outcome::Ok);
                }
                2 => {
                    let _: Result<(), CalledOff> = W::try_atomically(|tx| {
                        attempts.begin();
                        self.run(tx, model, &steps, &mut attempts)?;
                        Err(CalledOff)
                    });
                    attempts.end(Outcome::Fail);
                }
                _ => {
                    W::atomically(|tx| {
                        attempts.begin();
                        self.run(tx, model, &steps, &mut attempts)
                    });
                    attempts.end(Outcome::Ok);
                }
            }
        }
        attempts.done
    }
}

/// What registers begin with, each its key, is somebody's, too.
fn first_writes(keys: usize) -> Txn {
    let write = |key: i64| MicroOp::Write { key: Key(key), value: Some(Value(key)) };
    let ops = (0..keys as i64).map(write).collect();
    Txn { process: THREADS, start_ns: 1, finish_ns: 2, outcome: Outcome::Ok, ops }
}

/// Plays on some threads, and asks the checker.
fn judged<W: World>(model: Model, overwrites: bool, seed: u64) -> Report {
    let board = Board::<W> {
        lists: (0..KEYS).map(|_| TVar::new_in([0; LENGTH + 1])).collect(),
        registers: (0..KEYS).map(|key| TVar::new_in(key as i64)).collect(),
        next_value: AtomicI64::new(KEYS as i64),
        host: Threads::default(),
    };
    let time = AtomicU64::new(10);
    let mut txns = Vec::new();
    if model == Model::Registers {
        txns.push(first_writes(KEYS));
    }
    std::thread::scope(|scope| {
        let playing: Vec<_> = (0..THREADS)
            .map(|process| {
                let (board, time) = (&board, &time);
                scope.spawn(move || board.play(model, overwrites, process, seed, time))
            })
            .collect();
        playing.into_iter().for_each(|player| txns.extend(player.join().expect("played to its end")));
    });
    check(&history(&txns), &OPAQUE)
}

/// Lists, registers that are read before they are written, and such as are not, of which the order is not always known.
fn is_opaque<W: World>() {
    let mut aborted = 0;
    for seed in 1..=3 {
        for (model, overwrites) in
            [(Model::Lists, false), (Model::Registers, false), (Model::Registers, true)]
        {
            let report = judged::<W>(model, overwrites, seed);
            assert_ne!(report.verdict, Verdict::Violated, "{report}");
            assert!(overwrites || report.verdict == Verdict::Proved, "{report}");
            assert!(report.ok > 500, "{report}");
            aborted += report.fail;
        }
    }
    assert!(aborted > 300, "{aborted} attempts came to nothing: too few to show anything");
}

macro_rules! histories {
    ($($name:ident: $control:ident, $place:ident;)*) => { $(
        #[test]
        fn $name() {
            world! {
                struct Here: $control, Threads, $place =
                    Memory::new(Settings::default().slots(8).attempts_max(3), Threads::default());
            }
            is_opaque::<Here>();
        }
    )* };
}

histories! {
    dctl: Dctl, Own;
    dcotl: Dcotl, Own;
    dctl_sf: DctlSf, Own;
    dcotl_sf: DcotlSf, Own;
    tl2_gv4: Tl2Gv4, Own;
    tl2_gv5: Tl2Gv5, Own;
    tinystm: TinyStm, Own;
    two_pl_sf: TwoPlSf, Own;
    dcotl_in_table: Dcotl, InTable;
    tinystm_in_table: TinyStm, InTable;
    two_pl_sf_in_table: TwoPlSf, InTable;
}

/// A test that cannot fail proves nothing: broken controls are found out, sooner or later.
fn is_found_out<W: World>(model: Model)
where
    W::Control: Opaque,
{
    let found = (1..=100).any(|seed| judged::<W>(model, false, seed).verdict == Verdict::Violated);
    assert!(found, "a hundred histories of a broken control are opaque");
}

macro_rules! broken {
    ($($name:ident: $control:ident, $bug:ident, $model:ident;)*) => { $(
        #[test]
        fn $name() {
            world! {
                struct Broken: $control, Threads, Own =
                    Memory::new(Settings::default().slots(8).plant(Bug::$bug), Threads::default());
            }
            is_found_out::<Broken>(Model::$model);
        }
    )* };
}

broken! {
    dctl_without_validation: Dctl, SkipValidation, Registers;
    dcotl_sf_without_post_validation: DcotlSf, SkipPostValidation, Lists;
    tinystm_that_commits_at_the_old_time: TinyStm, CommitKeepsTime, Registers;
    two_pl_sf_that_does_not_look_for_readers: TwoPlSf, SkipReaders, Lists;
    two_pl_sf_that_reads_what_is_locked: TwoPlSf, SkipPostValidation, Registers;
}

/// TicToc, where the structure is fixed, plays on what these values are, and asks the checker.
fn judged_tictoc<T: Plain + Send + Sync>(
    begins: impl Fn(i64) -> T,
    began: Option<Txn>,
    seed: u64,
    read: impl Fn(Key, &T) -> MicroOp + Sync,
    change: impl Fn(Key, &mut T, i64) -> Option<MicroOp> + Sync,
) -> Report {
    let table: TFixed<T, TicToc> = TFixed::new((0..PLACES as i64).map(begins));
    let (time, next_value) = (AtomicU64::new(10), AtomicI64::new(PLACES as i64));
    let mut txns = Vec::from_iter(began);
    let play = |process: u64| {
        let mut numbers = Numbers(seed * 1_000 + process);
        let mut attempts = Attempts { process, time: &time, done: Vec::new(), under_way: None };
        for _ in 0..TRANSACTIONS / 4 {
            let at = numbers.below(PLACES as u64) as usize;
            let places = [at, (at + 1) % PLACES, (at + 5) % PLACES];
            let keys = places.map(|place| Key(place as i64));
            let writes = !numbers.one_in(3);
            let begun = table.update(places, |mut values| {
                attempts.begin();
                for (key, value) in keys.iter().zip(&values) {
                    attempts.did(read(*key, value));
                }
                Threads::default().spin(63);
                let value = next_value.fetch_add(1, Ordering::Relaxed);
                if writes && let Some(op) = change(keys[0], &mut values[0], value) {
                    attempts.did(op);
                }
                values
            });
            assert!(begun.is_ok());
            attempts.end(Outcome::Ok);
        }
        attempts.done
    };
    std::thread::scope(|scope| {
        let play = &play;
        let playing: Vec<_> = (0..THREADS).map(|process| scope.spawn(move || play(process))).collect();
        playing.into_iter().for_each(|player| txns.extend(player.join().expect("played to its end")));
    });
    check(&history(&txns), &Options { ..PLAIN })
}

/// What commits is serializable. (It is not strict, and what its attempts read shows only when it has been confirmed.)
#[test]
fn tictoc_is_serializable() {
    for seed in 1..=3 {
        let report = judged_tictoc(
            |_| [0; LENGTH + 1],
            None,
            seed,
            |key, list| MicroOp::ReadList { key, list: Some(elements(list)) },
            |key, list, value| {
                *list = longer(*list, value)?;
                Some(MicroOp::Append { key, value: Value(value) })
            },
        );
        assert_eq!(report.verdict, Verdict::Proved, "{report}");
        let report = judged_tictoc(
            |key| key,
            Some(first_writes(PLACES)),
            seed,
            |key, register| MicroOp::ReadRegister { key, value: Some(Value(*register)) },
            |key, register, value| {
                *register = value;
                Some(MicroOp::Write { key, value: Some(Value(value)) })
            },
        );
        assert_eq!(report.verdict, Verdict::Proved, "{report}");
    }
}
