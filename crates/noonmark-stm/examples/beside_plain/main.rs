//! What transactions cost: maps beside the same structures without any synchronization.
//!
//! ```text
//! beside_plain <ravl | hash | fixed> <stm | session | plain> <lookup | change> <operations> <keys>
//! ```
//!
//! A *lookup* gets the value of a key that is there; a *change* removes such a key and inserts it again, in two transactions. `stm`
//! runs each by the free functions (`view`, `atomically`), `session` by a session of its own; `plain` is the structure of
//! `plain.rs`. `hash` grows, `fixed` has a bucket for each key from the start.
//!
//! Instructions are counted so, with the difference of two runs, divided by that of their operations:
//!
//! ```text
//! cargo build --release -p noonmark-stm --example beside_plain
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/beside_plain ravl session lookup 100000 10000
//! ```
//!
//! It prints the time as well, which is only as good as the machine is quiet.

mod plain;

use noonmark_stm::{
    DcotlSf, Global, Host, Look, Session, Structure, THashMap, TMap, TRavlMap, Threads, World,
};
use plain::{Plain, PlainHash, PlainRavl};
use std::hint::black_box;
use std::process::ExitCode;

/// The allocator that the program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str =
    "usage: beside_plain <ravl | hash | fixed> <stm | session | plain> <lookup | change> <operations> <keys>";

type Here = Global<DcotlSf>;

/// Keys in no order: an odd multiplier makes a permutation of the numbers below a power of two.
fn key(number: u64, keys: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (keys - 1)
}

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Lookup,
    Change,
}

/// All keys of a map.
fn all(keys: u64) -> impl Iterator<Item = u64> {
    (0..keys).map(move |number| key(number, keys))
}

/// Does the operations on a map that has been filled; answers how many nanoseconds each took.
trait Subject {
    fn insert(&mut self, key: u64);
    fn lookup(&mut self, key: u64) -> bool;
    fn remove(&mut self, key: u64) -> bool;

    fn run(&mut self, operation: Operation, operations: u64, keys: u64) -> f64 {
        let host = Threads::default();
        let begin_ns = host.now_ns();
        let mut found = 0;
        for number in 0..operations {
            let key = key(number.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20, keys);
            found += u64::from(match operation {
                Operation::Lookup => self.lookup(key),
                Operation::Change => {
                    let removed = self.remove(key);
                    self.insert(key);
                    removed
                }
            });
        }
        assert_eq!(black_box(found), operations, "all keys are there");
        (host.now_ns() - begin_ns) as f64 / operations as f64
    }
}

struct InSession<'a, S>(&'a TMap<S>, Session<Here>);

impl<S: Structure<Key = u64, Value = u64, World = Here> + Look<u64>> Subject for InSession<'_, S> {
    #[inline(never)]
    fn insert(&mut self, key: u64) {
        self.1.atomically(|tx| self.0.insert(tx, key, key));
    }
    #[inline(never)]
    fn lookup(&mut self, key: u64) -> bool {
        self.1.view(|tx| self.0.get(tx, &key)).is_some()
    }
    #[inline(never)]
    fn remove(&mut self, key: u64) -> bool {
        self.1.atomically(|tx| self.0.remove(tx, &key)).is_some()
    }
}

struct Free<'a, S>(&'a TMap<S>);

impl<S: Structure<Key = u64, Value = u64, World = Here> + Look<u64>> Subject for Free<'_, S> {
    #[inline(never)]
    fn insert(&mut self, key: u64) {
        Here::atomically(|tx| self.0.insert(tx, key, key));
    }
    #[inline(never)]
    fn lookup(&mut self, key: u64) -> bool {
        Here::view(|tx| self.0.get(tx, &key)).is_some()
    }
    #[inline(never)]
    fn remove(&mut self, key: u64) -> bool {
        Here::atomically(|tx| self.0.remove(tx, &key)).is_some()
    }
}

struct InPlain<P>(P);

impl<P: Plain> InPlain<P> {
    fn filled(mut map: P, keys: u64) -> Self {
        all(keys).for_each(|key| _ = map.insert(key, key));
        InPlain(map)
    }
}

impl<P: Plain> Subject for InPlain<P> {
    #[inline(never)]
    fn insert(&mut self, key: u64) {
        self.0.insert(key, key);
    }
    #[inline(never)]
    fn lookup(&mut self, key: u64) -> bool {
        self.0.get(key).is_some()
    }
    #[inline(never)]
    fn remove(&mut self, key: u64) -> bool {
        self.0.remove(key).is_some()
    }
}

fn on_map<S>(map: TMap<S>, how: &str, operation: Operation, operations: u64, keys: u64) -> Option<f64>
where
    S: Structure<Key = u64, Value = u64, World = Here> + Look<u64>,
{
    // By somebody else, who has another slot: what one's own has written last is read in another way than what is old.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut filling = Here::session();
            all(keys).for_each(|key| _ = filling.atomically(|tx| map.insert(tx, key, key)));
        });
    });
    match how {
        "stm" => Some(Free(&map).run(operation, operations, keys)),
        "session" => Some(InSession(&map, Here::session()).run(operation, operations, keys)),
        _ => None,
    }
}

fn run(arguments: &[String]) -> Option<f64> {
    let [structure, how, operation, operations, keys] = arguments else { return None };
    let operation = match operation.as_str() {
        "lookup" => Operation::Lookup,
        "change" => Operation::Change,
        _ => return None,
    };
    let operations = operations.parse().ok().filter(|&operations: &u64| operations > 0)?;
    let keys: u64 = keys.parse().ok().filter(|&keys: &u64| (1..=1 << 40).contains(&keys))?;
    let keys = keys.next_power_of_two();
    match (structure.as_str(), how.as_str()) {
        ("ravl", "plain") => {
            Some(InPlain::filled(PlainRavl::default(), keys).run(operation, operations, keys))
        }
        ("hash" | "fixed", "plain") => {
            Some(InPlain::filled(PlainHash::new(keys as usize), keys).run(operation, operations, keys))
        }
        ("ravl", _) => on_map(TRavlMap::new_in(), how, operation, operations, keys),
        ("hash", _) => on_map(THashMap::<_, _, Here>::new_in(), how, operation, operations, keys),
        ("fixed", _) => {
            on_map(THashMap::<_, _, Here>::with_buckets_in(keys as usize), how, operation, operations, keys)
        }
        _ => None,
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Some(each_ns) => {
            println!("{}: {each_ns:.0} ns each", arguments.join(" "));
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}
