//! What transactions cost under each control, side by side, and under the default one with its locks in a table.
//!
//! ```text
//! beside_rivals <ravl | fixed | variables> <updates in percent> <keys> <threads> [milliseconds each turn]
//! beside_rivals <ravl | fixed | variables> <updates in percent> <keys> of <control> <transactions>
//! ```
//!
//! In `ravl`, a tree, and `fixed`, a hash map with a bucket for each key, half of the keys are there; so many percent of the transactions insert
//! a key unless it is there, or remove it if it is, in turn, and the others look one up, as in `noonmark bench stm`. In `variables` each
//! transaction reads sixteen of as many variables as there are keys, and so many percent of them add one to the last one: with sixteen keys,
//! all threads read the same.
//!
//! The controls take turns, seven each, and it says what the medians are, in thousand transactions a second of all threads together, and those of the ratios to
//! the default control, which had its turn just before or after. Where the machine is not quiet, that alone is a comparison.
//!
//! With `of` it runs so many transactions under one control, on one thread, and says what became of them. Two runs under valgrind that differ in
//! their number tell what one takes:
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/beside_rivals ravl 10 65536 of TL2-GV5 100000
//! ```

use noonmark_stm::{
    Dcotl, DcotlSf, Dctl, DctlSf, Global, Host, InTable, Look, Memory, Session, Settings, Statistics,
    Structure, THashMap, TMap, TRavlMap, TVar, Threads, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf, World,
};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};

/// The allocator that the program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: beside_rivals <ravl | fixed | variables> <updates in percent> <keys> <threads> \
    [milliseconds each turn]
       beside_rivals <ravl | fixed | variables> <updates in percent> <keys> of <control> <transactions>";
const TURNS: usize = 7;
const READS: usize = 16;

/// Random numbers: SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `end`, which is less than 2^32.
    fn below(&mut self, end: u64) -> u64 {
        ((self.next() >> 32) * end) >> 32
    }
}

noonmark_stm::world! {
    /// The default control, with the locks in a table.
    struct Tabled: DcotlSf, Threads, InTable = Memory::new(Settings::default(), Threads::default());
}

#[derive(Clone, Copy)]
struct Plan {
    updates_percent: u64,
    keys: u64,
    threads: usize,
    turn_ms: u64,
}

/// Something on which transactions are run, and how they are counted.
trait Subject: Sync {
    /// Runs transactions on this thread, sixty-four at a time, until it has done enough; how many.
    fn run(&self, thread: usize, plan: Plan, numbers: Numbers, is_enough: &dyn Fn(u64) -> bool) -> u64;

    /// What has become of them so far.
    fn statistics(&self) -> Statistics;

    /// Runs them on all threads; thousand transactions a second.
    fn turn(&self, plan: Plan, seed: u64) -> f64 {
        let (host, stop, begin) =
            (Threads::default(), AtomicBool::new(false), Barrier::new(plan.threads + 1));
        let done = AtomicU64::new(0);
        let mut begun_ns = 0;
        std::thread::scope(|scope| {
            for thread in 0..plan.threads {
                let (stop, begin, done) = (&stop, &begin, &done);
                scope.spawn(move || {
                    begin.wait();
                    let numbers = Numbers(seed << 32 | (thread as u64) << 48);
                    let is_enough = |_| stop.load(Ordering::Relaxed);
                    done.fetch_add(self.run(thread, plan, numbers, &is_enough), Ordering::Relaxed);
                });
            }
            begin.wait();
            begun_ns = host.now_ns();
            host.sleep_ns(plan.turn_ms * 1_000_000);
            stop.store(true, Ordering::Relaxed);
        });
        done.into_inner() as f64 * 1e6 / (host.now_ns() - begun_ns) as f64
    }
}

/// A structure, and a session for each thread, which it keeps from turn to turn.
struct Shared<T, W: World>(T, Vec<Mutex<Session<W>>>);

impl<T, W: World> Shared<T, W> {
    fn new(structure: T, plan: Plan) -> Self {
        Shared(structure, (0..plan.threads).map(|_| Mutex::new(W::session())).collect())
    }

    fn until(
        &self,
        thread: usize,
        is_enough: &dyn Fn(u64) -> bool,
        mut once: impl FnMut(&mut Session<W>),
    ) -> u64 {
        // What a turn has left half done, if one panicked, is of no interest.
        let mut session = self.1[thread].lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while !is_enough(done) {
            for _ in 0..64 {
                once(&mut session);
            }
            done += 64;
        }
        done
    }
}

impl<S> Subject for Shared<TMap<S>, S::World>
where
    S: Structure<Key = u64, Value = u64> + Look<u64>,
    TMap<S>: Sync,
{
    fn run(&self, thread: usize, plan: Plan, mut numbers: Numbers, is_enough: &dyn Fn(u64) -> bool) -> u64 {
        let mut inserts = false;
        self.until(thread, is_enough, |session| {
            let key = numbers.below(plan.keys);
            if numbers.below(100) >= plan.updates_percent {
                session.view(|tx| self.0.get(tx, &key));
            } else if inserts {
                session.atomically(|tx| self.0.insert_if_absent(tx, key, key));
                inserts = false;
            } else {
                session.atomically(|tx| self.0.remove(tx, &key));
                inserts = true;
            }
        })
    }

    fn statistics(&self) -> Statistics {
        S::World::memory().statistics()
    }
}

impl<W: World> Subject for Shared<Vec<TVar<u64, W>>, W> {
    fn run(&self, thread: usize, plan: Plan, mut numbers: Numbers, is_enough: &dyn Fn(u64) -> bool) -> u64 {
        self.until(thread, is_enough, |session| {
            let first = numbers.below(plan.keys) as usize;
            let variable = |nth: usize| &self.0[(first + nth) % self.0.len()];
            if numbers.below(100) >= plan.updates_percent {
                session.view(|tx| (0..READS).try_fold(0, |sum, nth| Ok(sum ^ variable(nth).get(tx)?)));
            } else {
                session.atomically(|tx| {
                    let mut all = 0;
                    for nth in 0..READS - 1 {
                        all ^= variable(nth).get(tx)?;
                    }
                    variable(READS - 1).update(tx, |last| last + 1)?;
                    Ok(all)
                });
            }
        })
    }

    fn statistics(&self) -> Statistics {
        W::memory().statistics()
    }
}

/// A map, filled in no order, by somebody who has another slot.
fn filled<S>(map: TMap<S>, plan: Plan) -> Box<dyn Subject>
where
    S: Structure<Key = u64, Value = u64> + Look<u64> + 'static,
    TMap<S>: Sync,
{
    let mut session = S::World::session();
    let mut numbers = Numbers(plan.keys);
    for _ in 0..plan.keys / 2 {
        while session
            .atomically(|tx| {
                let key = numbers.below(plan.keys);
                map.insert_if_absent(tx, key, key)
            })
            .is_some()
        {}
    }
    Box::new(Shared::new(map, plan))
}

fn subject<W: World>(structure: &str, plan: Plan) -> Option<Box<dyn Subject>> {
    match structure {
        "ravl" => Some(filled(TRavlMap::<_, _, W>::new_in(), plan)),
        "fixed" => Some(filled(THashMap::<_, _, W>::with_buckets_in(plan.keys as usize), plan)),
        "variables" => {
            let variables: Vec<_> = (0..plan.keys).map(|_| TVar::<_, W>::new_in(0)).collect();
            Some(Box::new(Shared::new(variables, plan)))
        }
        _ => None,
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn number<T: std::str::FromStr + PartialOrd>(argument: &str, least: T, most: T) -> Option<T> {
    argument.parse().ok().filter(|number| (least..=most).contains(number))
}

/// By the names of their controls, the default one first.
type Make = fn(&str, Plan) -> Option<Box<dyn Subject>>;
const SUBJECTS: [(&str, Make); 9] = [
    ("DCOTL-SF", subject::<Global<DcotlSf>>),
    ("in a table", subject::<Tabled>),
    ("DCTL-SF", subject::<Global<DctlSf>>),
    ("DCOTL", subject::<Global<Dcotl>>),
    ("DCTL", subject::<Global<Dctl>>),
    ("TL2-GV4", subject::<Global<Tl2Gv4>>),
    ("TL2-GV5", subject::<Global<Tl2Gv5>>),
    ("TinySTM", subject::<Global<TinyStm>>),
    ("2PLSF", subject::<Global<TwoPlSf>>),
];

/// What is to be said of these arguments, if they can be understood.
fn run(arguments: &[String]) -> Option<String> {
    let [structure, updates, keys, how @ ..] = arguments else { return None };
    let plan = Plan {
        updates_percent: number(updates, 0, 100)?,
        keys: number(keys, READS as u64, 1 << 28)?,
        threads: 1,
        turn_ms: 200,
    };
    match how {
        [of, control, transactions] if of == "of" => {
            count(structure, plan, control, number(transactions, 1, u64::MAX)?)
        }
        [threads] => compare(structure, Plan { threads: number(threads, 1, 64)?, ..plan }),
        [threads, turn] => compare(
            structure,
            Plan { threads: number(threads, 1, 64)?, turn_ms: number(turn, 1, 60_000)?, ..plan },
        ),
        _ => None,
    }
}

/// Runs so many transactions under one control.
fn count(structure: &str, plan: Plan, control: &str, transactions: u64) -> Option<String> {
    let (_, make) = SUBJECTS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(control))?;
    let subject = make(structure, plan)?;
    let before = subject.statistics();
    let done = subject.run(0, plan, Numbers(1 << 32), &|done| done >= transactions);
    let after = subject.statistics();
    let conflicts = after.conflicts - before.conflicts;
    Some(format!(
        "{done} transactions, {conflicts} attempts failed, the clock went {} further\n",
        after.clock - before.clock
    ))
}

/// Has all controls take turns.
fn compare(structure: &str, plan: Plan) -> Option<String> {
    let subjects: Vec<_> = SUBJECTS
        .into_iter()
        .map(|(name, make)| Some((name, make(structure, plan)?)))
        .collect::<Option<_>>()?;
    let turns: Vec<Vec<f64>> = (1..=TURNS as u64)
        .map(|seed| subjects.iter().map(|(_, subject)| subject.turn(plan, seed)).collect())
        .collect();
    let said = subjects.iter().enumerate().map(|(nth, (name, _))| {
        let thousands = median(turns.iter().map(|turn| turn[nth]).collect());
        let times = median(turns.iter().map(|turn| turn[nth] / turn[0]).collect());
        format!("  {name:<10} {thousands:>9.0}  {times:.2}\n")
    });
    Some(format!("thousand a second, of the default\n{}", said.collect::<String>()))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Some(answer) => {
            print!("{}: {answer}", arguments.join(" "));
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}
