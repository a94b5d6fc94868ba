#![allow(clippy::disallowed_methods, reason = "figures are taken with the system's clock")]
//! Figures: nanoseconds a lookup. `cargo test --release -p noonmark index::figures -- --ignored
//! --nocapture --test-threads 1`

use super::test_records::*;
use super::*;
use noonmark_core::{Epochs, Limbo};
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::time::Instant;

const KEYS: u64 = 1_000_000;
const LOOKUPS: u64 = 2_000_000;

fn mixed(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// An index of either kind, as far as it is measured.
trait Measured: Sync {
    fn made(class: KeyClass) -> Self;
    fn get(&self, key: &[u8]) -> Lookup;
    fn find_many<'k>(&self, keys: impl Fn(usize) -> &'k [u8], found: &mut [Option<RecordPtr>]);
    fn add(&self, key: &[u8], limbo: &mut Limbo, epochs: &Epochs) -> RecordPtr;
    fn drop_one(&self, key: &[u8], record: RecordPtr, limbo: &mut Limbo, epochs: &Epochs) -> bool;
    fn each(&mut self, visit: impl FnMut(RecordPtr));
    fn bytes(&self) -> usize;
}

macro_rules! measured {
    (@call $self:ident, $key:ident, ($($with:expr),*), $prepare:expr, $make:expr) => {
        $self.get_or_insert($key, $($with),*, $prepare, $make)
    };
    ($index:ident, $class:ident => $new:expr, get($($finger:expr)?), |$limbo:ident, $epochs:ident| $with:tt, |$($told:tt),*| $(, $soon:expr)?) => {
        impl Measured for $index {
            fn made($class: KeyClass) -> Self {
                $new
            }
            #[inline(always)]
            fn get(&self, key: &[u8]) -> Lookup {
                $index::get(self, key $(, $finger)?)
            }
            fn find_many<'k>(&self, keys: impl Fn(usize) -> &'k [u8], found: &mut [Option<RecordPtr>]) {
                $index::find_many(self, keys, found $(, $soon)?);
            }
            fn add(&self, key: &[u8], $limbo: &mut Limbo, $epochs: &Epochs) -> RecordPtr {
                match measured!(@call self, key, $with, || {}, |$($told),*| make_record(key)) {
                    Inserted::Existing(record) | Inserted::New(record, _) => record,
                }
            }
            fn drop_one(&self, key: &[u8], record: RecordPtr, limbo: &mut Limbo, epochs: &Epochs) -> bool {
                self.remove(key, record, 0, 0, limbo, epochs)
            }
            fn each(&mut self, visit: impl FnMut(RecordPtr)) {
                self.for_each(visit);
            }
            fn bytes(&self) -> usize {
                self.memory_bytes()
            }
        }
    };
}
// Without records of its own: what is measured is the way through a table.
measured!(HashIndex, class => HashIndex::new(class, KEYS as usize, None), get(), |limbo, epochs| (limbo, epochs), |_, _|, |_| {});
measured!(OrderedIndex, class => OrderedIndex::new(class, 0, None), get(&mut Finger::default()), |_limbo, _epochs| (&mut Finger::default()), |_, _|, |_| {});

/// Time that the calling thread has had a core, where the system tells (the cores may be shared
/// with others); time that has passed elsewhere.
#[derive(Clone, Copy)]
struct Clock {
    began: Instant,
    began_ns: Option<u64>,
}

impl Clock {
    fn start() -> Self {
        Clock { began: Instant::now(), began_ns: Self::running_ns() }
    }
    fn running_ns() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split(' ').next()?.parse().ok()
    }
    fn per(&self, what: u64) -> f64 {
        let elapsed_ns = match (self.began_ns, Self::running_ns()) {
            (Some(from), Some(to)) => to - from,
            _ => self.began.elapsed().as_nanos() as u64,
        };
        elapsed_ns as f64 / what as f64
    }
}

fn per(what: u64, began: Clock) -> f64 {
    began.per(what)
}

/// Nanoseconds a lookup on each of `threads`: the mean of them, the best of three runs.
fn on_threads(threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    (0..3).map(|_| once_on_threads(threads, &work)).fold(f64::MAX, f64::min)
}

fn once_on_threads(threads: usize, work: &(impl Fn(usize) + Sync)) -> f64 {
    let total: f64 = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let began = Clock::start();
                    work(thread);
                    per(LOOKUPS, began)
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("failed")).sum()
    });
    total / threads as f64
}

fn figures_of<I: Measured>(name: &str, class: KeyClass, key: impl Fn(u64) -> Vec<u8> + Sync) {
    let (epochs, mut limbo) = (Epochs::new(1), Limbo::new());
    let mut index = I::made(class);
    let keys: Vec<Vec<u8>> = (0..KEYS).map(&key).collect();
    let mut order: Vec<u32> = (0..KEYS as u32).collect();
    let mut dice = Dice(1);
    for at in (1..order.len()).rev() {
        order.swap(at, dice.below(at as u64 + 1) as usize);
    }
    let began = Clock::start();
    for at in &order {
        index.add(&keys[*at as usize], &mut limbo, &epochs);
    }
    let insert = per(KEYS, began);
    // The keys to look up, side by side, so that only the index misses the cache.
    let width = keys[0].len();
    let wanted: Vec<u8> =
        (0..LOOKUPS).flat_map(|_| keys[dice.below(KEYS) as usize].iter().copied()).collect();
    let wanted = |n: usize| &wanted[n * width..][..width];
    print!("{name:28} insert {insert:5.0}  {:4.1} B/key ", index.bytes() as f64 / KEYS as f64);
    for threads in [1, 2] {
        let get = on_threads(threads, |thread| {
            for n in 0..LOOKUPS as usize {
                let n = (n + thread * 1_000_003) % LOOKUPS as usize;
                black_box(index.get(wanted(n)));
            }
        });
        // Each lookup waits for the one before: the latency, not the throughput.
        let chained = on_threads(threads, |thread| {
            let mut after = thread;
            for n in 0..LOOKUPS as usize {
                let n = (n + after) % LOOKUPS as usize;
                if let Lookup::Found(record) = index.get(wanted(n)) {
                    after = black_box((record.as_ptr() as usize & 1) + thread);
                }
            }
        });
        let many = on_threads(threads, |thread| {
            let mut found = [None; 16];
            for first in (0..LOOKUPS as usize).step_by(16) {
                let first = (first + thread * 1_000_000) % (LOOKUPS as usize - 16);
                index.find_many(|at| wanted(first + at), &mut found);
                black_box(&found);
            }
        });
        print!(" | {threads}: get {get:4.0}, chained {chained:4.0}, many {many:4.0}");
    }
    println!();
    let began = Clock::start();
    for at in order.iter().take(KEYS as usize / 2) {
        let key = &keys[*at as usize];
        if let Lookup::Found(record) = index.get(key) {
            index.drop_one(key, record, &mut limbo, &epochs);
            free_record(record);
        }
    }
    println!("{:28} remove {:5.0}", "", per(KEYS / 2, began));
    index.each(free_record);
    limbo.abandon(&epochs);
}

#[test]
#[ignore = "figures"]
fn hash() {
    figures_of::<HashIndex>("hash, u64 scattered", KeyClass::Fixed8, |n| mixed(n).to_be_bytes().to_vec());
    figures_of::<HashIndex>("hash, u64 dense", KeyClass::Fixed8, |n| n.to_be_bytes().to_vec());
    figures_of::<HashIndex>("hash, names", KeyClass::Bytes, |n| format!("user:{n:012}").into_bytes());
}

#[test]
#[ignore = "figures"]
fn ordered() {
    figures_of::<OrderedIndex>("tree, u64 scattered", KeyClass::Fixed8, |n| mixed(n).to_be_bytes().to_vec());
    figures_of::<OrderedIndex>("tree, u64 dense", KeyClass::Fixed8, |n| n.to_be_bytes().to_vec());
    figures_of::<OrderedIndex>("tree, pairs", KeyClass::Fixed16, |n| {
        [(n % 100).to_be_bytes(), (n / 100).to_be_bytes()].concat()
    });
    figures_of::<OrderedIndex>("tree, names", KeyClass::Bytes, |n| format!("user:{n:012}").into_bytes());
}

#[test]
#[ignore = "figures"]
fn scans() {
    for append in [true, false] {
        let (epochs, mut limbo) = (Epochs::new(1), Limbo::new());
        let mut index = OrderedIndex::new(KeyClass::Fixed8, 0, None);
        let began = Clock::start();
        for n in 0..KEYS {
            let key = if append { n } else { mixed(n) }.to_be_bytes();
            index.add(&key, &mut limbo, &epochs);
        }
        let insert = per(KEYS, began);
        let bytes = index.bytes() as f64 / KEYS as f64;
        let began = Clock::start();
        let (mut records, mut leaves) = (0u64, 0u64);
        for n in 0..20_000u64 {
            let from = if append { mixed(n) % KEYS } else { mixed(n * 7919) };
            let mut left = 100usize;
            index.scan(Bound::Included(&from.to_be_bytes()), Bound::Unbounded, n % 2 == 0, |_, batch| {
                leaves += 1;
                let taken = batch.len().min(left);
                // Each record is looked at, as a transaction would.
                for record in &batch[..taken] {
                    black_box(key_of(*record));
                }
                records += taken as u64;
                left -= taken;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        }
        println!(
            "scans, {}: insert {insert:.0}, {bytes:.1} B/key; {:.1} ns/record, {:.0} ns/leaf of {:.1} taken",
            if append { "appended" } else { "scattered" },
            per(records, began),
            per(leaves, began),
            records as f64 / leaves as f64,
        );
        index.each(free_record);
        limbo.abandon(&epochs);
    }
}
