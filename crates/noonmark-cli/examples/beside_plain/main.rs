//! What transactions cost: maps beside the same structures without any synchronization.
//!
//! ```text
//! beside_plain <ravl | hash | fixed> <stm | session | plain | roomy | pinned | beside> <lookup | change | churn-PERCENT> <operations> <keys>
//! ```
//!
//! A *lookup* gets the value of a key that is there; a *change* removes such a key and inserts it again, in two transactions. In a
//! *churn* half of the keys are there; so many percent of the operations insert a key unless it is there, or remove it if it is, in
//! turn, and the others look one up, as in `noonmark bench stm`. Keys are random, and drawn before.
//!
//! `stm` runs each by the free functions (`view`, `atomically`), `session` by a session of its own; `plain` is the structure of
//! `plain.rs`, `roomy` the same with room for the locks, and `pinned` that with the fence of each transaction. `beside` has all but the
//! first take turns, and says what the medians are, and those of the ratios to the plain one that had its turn before: where the machine is
//! not quiet, that alone is a comparison. `hash` grows, `fixed` has a bucket for each key from the start.
//!
//! Instructions are counted so, with the difference of two runs, divided by that of their operations:
//!
//! ```text
//! cargo build --release -p noonmark-cli --example beside_plain
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/beside_plain ravl session lookup 100000 10000
//! ```
//!
//! It prints the time as well, which is only as good as the machine is quiet.

mod plain;

use noonmark_stm::{
    DcotlSf, Global, Host, Look, Session, Structure, THashMap, TMap, TRavlMap, Threads, World,
};
use plain::{Pinned, Plain, PlainHash, PlainRavl};
use std::hint::black_box;
use std::process::ExitCode;

/// The allocator that the program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: beside_plain <ravl | hash | fixed> \
    <stm | session | plain | roomy | pinned | beside> <lookup | change | churn-PERCENT> <operations> <keys>";

/// How often each of two takes its turn.
const TURNS: usize = 7;
/// How many requests are drawn, and then made again and again.
const REQUESTS: usize = 1 << 20;

type Here = Global<DcotlSf>;

/// Keys in no order: an odd multiplier makes a permutation of the numbers below a power of two.
fn key(number: u64, keys: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (keys - 1)
}

/// The `number`th random number: SplitMix64.
fn random(number: usize) -> u64 {
    let mut z = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[derive(Clone, Copy)]
enum Kind {
    Lookup,
    Insert,
    Remove,
    /// Removes, and inserts again.
    Change,
}

/// What is to be done, in the two highest bits, and with which key.
#[derive(Clone, Copy)]
struct Request(u32);

const KEY_BITS: u32 = 30;

impl Request {
    fn new(kind: Kind, key: u64) -> Self {
        Request((kind as u32) << KEY_BITS | key as u32)
    }

    #[inline(always)]
    fn key(self) -> u64 {
        u64::from(self.0 & ((1 << KEY_BITS) - 1))
    }

    #[inline(always)]
    fn kind(self) -> Kind {
        match self.0 >> KEY_BITS {
            0 => Kind::Lookup,
            1 => Kind::Insert,
            2 => Kind::Remove,
            _ => Kind::Change,
        }
    }
}

/// What is done with a map.
struct Plan {
    /// The keys that it holds before.
    present: Vec<u64>,
    requests: Vec<Request>,
    operations: usize,
}

impl Plan {
    fn new(operation: &str, operations: usize, keys: u64) -> Option<Self> {
        let updates_percent = match operation.strip_prefix("churn-") {
            Some(percent) => Some(percent.parse().ok().filter(|&percent: &u64| percent <= 100)?),
            None => None,
        };
        let kind = |number| match updates_percent {
            Some(percent) if random(number) % 100 >= percent => Kind::Lookup,
            Some(_) if random(number) % 200 / 100 == 0 => Kind::Insert,
            Some(_) => Kind::Remove,
            None if operation == "change" => Kind::Change,
            None => Kind::Lookup,
        };
        let request = |number| Request::new(kind(number), random(REQUESTS + number) & (keys - 1));
        let present = if updates_percent.is_some() { keys / 2 } else { keys };
        let is_known = updates_percent.is_some() || ["lookup", "change"].contains(&operation);
        is_known.then(|| Plan {
            present: (0..present).map(|number| key(number, keys)).collect(),
            requests: (0..REQUESTS).map(request).collect(),
            operations,
        })
    }
}

/// A map, and how it is used: each operation a transaction of its own.
trait Subject {
    /// Tells whether the key was not there.
    fn insert(&mut self, key: u64) -> bool;
    /// Answers the value. (Asked only whether there is one, the compiler puts the answer into the loop of the plain tree, where it makes
    /// each step take twice as long.)
    fn lookup(&mut self, key: u64) -> Option<u64>;
    fn remove(&mut self, key: u64) -> bool;

    /// Does what is planned; answers how many nanoseconds each operation took.
    fn run(&mut self, plan: &Plan) -> f64 {
        let host = Threads::default();
        let begin_ns = host.now_ns();
        let (mut done, mut left) = (0_u64, plan.operations);
        while left > 0 {
            let requests = &plan.requests[..left.min(REQUESTS)];
            left -= requests.len();
            for request in requests {
                let key = request.key();
                done ^= match request.kind() {
                    Kind::Lookup => self.lookup(key).unwrap_or(0),
                    Kind::Insert => u64::from(self.insert(key)),
                    Kind::Remove => u64::from(self.remove(key)),
                    Kind::Change => u64::from(self.remove(key) && self.insert(key)),
                };
            }
        }
        black_box(done);
        (host.now_ns() - begin_ns) as f64 / plan.operations as f64
    }
}

struct InSession<S>(TMap<S>, Session<Here>);

impl<S: Structure<Key = u64, Value = u64, World = Here> + Look<u64>> Subject for InSession<S> {
    #[inline(never)]
    fn insert(&mut self, key: u64) -> bool {
        self.1.atomically(|tx| self.0.insert_if_absent(tx, key, key)).is_none()
    }
    #[inline(never)]
    fn lookup(&mut self, key: u64) -> Option<u64> {
        self.1.view(|tx| self.0.get(tx, &key))
    }
    #[inline(never)]
    fn remove(&mut self, key: u64) -> bool {
        self.1.atomically(|tx| self.0.remove(tx, &key)).is_some()
    }
}

struct Free<S>(TMap<S>);

impl<S: Structure<Key = u64, Value = u64, World = Here> + Look<u64>> Subject for Free<S> {
    #[inline(never)]
    fn insert(&mut self, key: u64) -> bool {
        Here::atomically(|tx| self.0.insert_if_absent(tx, key, key)).is_none()
    }
    #[inline(never)]
    fn lookup(&mut self, key: u64) -> Option<u64> {
        Here::view(|tx| self.0.get(tx, &key))
    }
    #[inline(never)]
    fn remove(&mut self, key: u64) -> bool {
        Here::atomically(|tx| self.0.remove(tx, &key)).is_some()
    }
}

struct InPlain<P>(P);

impl<P: Plain> Subject for InPlain<P> {
    #[inline(never)]
    fn insert(&mut self, key: u64) -> bool {
        self.0.insert_if_absent(key, key)
    }
    #[inline(never)]
    fn lookup(&mut self, key: u64) -> Option<u64> {
        self.0.get(key)
    }
    #[inline(never)]
    fn remove(&mut self, key: u64) -> bool {
        self.0.remove(key).is_some()
    }
}

/// A plain structure, filled.
fn plain<P: Plain + 'static>(map: P, plan: &Plan) -> Box<dyn Subject> {
    let mut map = InPlain(map);
    plan.present.iter().for_each(|&key| _ = map.insert(key));
    Box::new(map)
}

/// A map, filled, to be used in this way.
fn shared<S>(map: TMap<S>, how: &str, plan: &Plan) -> Option<Box<dyn Subject>>
where
    S: Structure<Key = u64, Value = u64, World = Here> + Look<u64>,
{
    // By somebody else, who has another slot: what one's own has written last is read in another way than what is old.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut filling = Here::session();
            plan.present.iter().for_each(|&key| _ = filling.atomically(|tx| map.insert(tx, key, key)));
        });
    });
    match how {
        "stm" => Some(Box::new(Free(map))),
        "session" => Some(Box::new(InSession(map, Here::session()))),
        _ => None,
    }
}

/// A map of this kind, filled, to be used in this way.
fn subject(structure: &str, how: &str, plan: &Plan, keys: usize) -> Option<Box<dyn Subject>> {
    match (structure, how) {
        ("ravl", "plain") => Some(plain(PlainRavl::<()>::default(), plan)),
        ("ravl", "roomy") => Some(plain(PlainRavl::<u64>::default(), plan)),
        ("ravl", "pinned") => Some(plain(Pinned::new(PlainRavl::<u64>::default()), plan)),
        ("hash" | "fixed", "plain") => Some(plain(PlainHash::<()>::new(keys), plan)),
        ("hash" | "fixed", "roomy") => Some(plain(PlainHash::<u64>::new(keys), plan)),
        ("hash" | "fixed", "pinned") => Some(plain(Pinned::new(PlainHash::<u64>::new(keys)), plan)),
        ("ravl", _) => shared(TRavlMap::new_in(), how, plan),
        ("hash", _) => shared(THashMap::<_, _, Here>::new_in(), how, plan),
        ("fixed", _) => shared(THashMap::<_, _, Here>::with_buckets_in(keys), how, plan),
        _ => None,
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// What is to be said of these arguments, if they can be understood.
fn run(arguments: &[String]) -> Option<String> {
    let [structure, how, operation, operations, keys] = arguments else { return None };
    let operations = operations.parse().ok().filter(|&operations: &usize| operations > 0)?;
    let keys: u64 = keys.parse().ok().filter(|&keys: &u64| (1..=1 << KEY_BITS).contains(&keys))?;
    let keys = keys.next_power_of_two();
    let plan = Plan::new(operation, operations, keys)?;
    let subject = |how| subject(structure, how, &plan, keys as usize);
    if how != "beside" {
        return Some(format!("{:.1} ns each", subject(how)?.run(&plan)));
    }
    let names = ["plain", "roomy", "pinned", "session"];
    let mut subjects = names.iter().map(|how| subject(how)).collect::<Option<Vec<_>>>()?;
    let turns: Vec<Vec<f64>> =
        (0..TURNS).map(|_| subjects.iter_mut().map(|subject| subject.run(&plan)).collect()).collect();
    let said = names.iter().enumerate().map(|(number, name)| {
        let each_ns = median(turns.iter().map(|turn| turn[number]).collect());
        let times = median(turns.iter().map(|turn| turn[number] / turn[0]).collect());
        format!("{name} {each_ns:.1} ns ({times:.2})")
    });
    Some(said.collect::<Vec<_>>().join(", "))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Some(answer) => {
            println!("{}: {answer}", arguments.join(" "));
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}
