//! Tables of fixed structure, under every control, opaque or not; and what the clocks come to.

use noonmark_stm::{
    Control, Dcotl, DcotlSf, Dctl, DctlSf, NoSuchPlace, Settings, Statistics, TFixed, Threads, TicToc,
    TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls a function with each control.
macro_rules! with_each_control {
    ($function:ident) => {{
        $function::<Dctl>();
        $function::<Dcotl>();
        $function::<DctlSf>();
        $function::<DcotlSf>();
        $function::<Tl2Gv4>();
        $function::<Tl2Gv5>();
        $function::<TinyStm>();
        $function::<TwoPlSf>();
        $function::<TicToc>();
    }};
}

fn on_threads(count: usize, run: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..count).map(|index| scope.spawn(move || run(index))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn one_after_the_other() {
    fn run<C: Control>() {
        let table: TFixed<(u64, bool), C> = TFixed::new((0..5).map(|i| (i, false)));
        assert_eq!((table.len(), table.is_empty()), (5, false));
        let after = table.update([1, 3], |[(a, _), (b, _)]| [(b, true), (a, true)]);
        assert_eq!(after, Ok([(3, true), (1, true)]));
        assert_eq!(table.read([0, 1, 3]), Ok([(0, false), (3, true), (1, true)]));
        // Named twice.
        assert_eq!(
            table.update([2, 2], |[a, b]| [(a.0 + 1, true), (b.0 + 2, true)]),
            Ok([(3, true), (4, true)])
        );
        assert_eq!(table.read([2]), Ok([(4, true)]));
        // Nothing happens where a place is missing.
        let missing = NoSuchPlace { place: 5, len: 5 };
        assert_eq!(table.update([0, 5], |_| panic!("not called")), Err(missing));
        assert_eq!(missing.to_string(), "there is no place 5 in a table of 5");
        let panicked = catch_unwind(AssertUnwindSafe(|| table.update([0], |_| panic!("in the function"))));
        assert!(panicked.is_err());
        assert_eq!(table.update([0], |[value]| [(value.0 + 7, true)]), Ok([(7, true)]), "all was let go");
        assert_eq!(table.read([]), Ok([]));
        assert_eq!(table.statistics().commits, 6);
    }
    with_each_control!(run);
}

/// Pairs that always come to the same: no function is shown others, nor anybody who reads.
#[test]
fn no_function_is_shown_what_never_was() {
    fn run<C: Control>() {
        const PAIRS: usize = 3;
        let table: TFixed<i64, C> = TFixed::new([0; 2 * PAIRS]);
        on_threads(4, |thread| {
            for round in 0..5_000 {
                let pair = (round * 7 + thread) % PAIRS * 2;
                let places = [pair, pair + 1, (pair + 2) % (2 * PAIRS), (pair + 3) % (2 * PAIRS)];
                if thread == 0 {
                    let [a, b, c, d] = table.read(places).unwrap();
                    assert_eq!((a, c), (-b, -d));
                } else {
                    table
                        .update(places, |[a, b, c, d]| {
                            assert_eq!((a, c), (-b, -d), "{}", C::NAME);
                            [a + 1, b - 1, c - 1, d + 1]
                        })
                        .unwrap();
                }
            }
        });
        let values = table.read([0, 1, 2, 3, 4, 5]).unwrap();
        assert_eq!(values[0] + values[2] + values[4], 0, "no update is lost: {values:?}");
    }
    with_each_control!(run);
}

/// Each is added to as often as transactions say that they have.
#[test]
fn no_update_is_lost() {
    fn run<C: Control>() {
        let settings = Settings::default().slots(4);
        let table: TFixed<u64, C> = TFixed::with(settings, Threads::default(), [0; 4]);
        let total = AtomicU64::new(0);
        on_threads(6, |thread| {
            for round in 0..2_000 {
                let (a, b) = ((round + thread) % 4, (round * 3 + 1) % 4);
                let places = if a == b { [a, (a + 1) % 4] } else { [a, b] };
                table.update(places, |values| values.map(|value| value + 1)).unwrap();
                total.fetch_add(2, Ordering::Relaxed);
            }
        });
        let values: [u64; 4] = table.read([0, 1, 2, 3]).unwrap();
        assert_eq!(values.iter().sum::<u64>(), total.into_inner(), "{}", C::NAME);
    }
    with_each_control!(run);
}

/// Each thread adds to records of its own, one after the other, and to a counter of its own, each time: disjoint, as
/// long as one looks at threads. How often the clock was advanced.
fn disjoint<C: Control>(threads: usize) -> (Statistics, u64) {
    const RECORDS: usize = 64;
    const ROUNDS: usize = 5_000;
    let table: TFixed<u64, C> = TFixed::new(vec![0; threads * RECORDS]);
    on_threads(threads, |thread| {
        for round in 0..ROUNDS {
            let first = thread * RECORDS;
            table.update([first + 1 + round % (RECORDS - 1), first], |values| values.map(|v| v + 1)).unwrap();
        }
    });
    let statistics = table.statistics();
    assert_eq!(statistics.commits, (threads * ROUNDS) as u64, "{}", C::NAME);
    (statistics, statistics.clock - 1)
}

/// §3.1 and Figures 6 and 7: who advances the clock, counted.
#[test]
fn disjoint_transactions_advance_the_clock_only_under_the_rivals() {
    for threads in [1, 3] {
        for (statistics, advances) in [
            disjoint::<Dctl>(threads),
            disjoint::<Dcotl>(threads),
            disjoint::<DctlSf>(threads),
            disjoint::<DcotlSf>(threads),
            disjoint::<TwoPlSf>(threads),
            disjoint::<TicToc>(threads),
        ] {
            assert_eq!((advances, statistics.conflicts), (0, 0), "{threads} threads");
        }
        // TL2 with GV4 shares what many advance at once, and GV5 restarts at each value of one's own.
        for (statistics, advances) in
            [disjoint::<Tl2Gv4>(threads), disjoint::<Tl2Gv5>(threads), disjoint::<TinyStm>(threads)]
        {
            let commits = statistics.commits;
            assert!(advances >= commits / 10, "{advances} advances in {commits} commits");
        }
        assert_eq!(disjoint::<TinyStm>(threads).1, disjoint::<TinyStm>(threads).0.commits);
    }
}

/// Figure 6: each transaction adds to one record of a million, at random. How often the clock was advanced.
fn at_random<C: Control>() -> (u64, u64) {
    const RECORDS: u64 = 1_000_000;
    let table: TFixed<u64, C> = TFixed::new(std::iter::repeat_n(0, RECORDS as usize));
    on_threads(3, |thread| {
        let mut state = 0x9e37_79b9 + thread as u64;
        for _ in 0..5_000 {
            // Xorshift; never 0.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            table.update([(state % RECORDS) as usize], |[value]| [value + 1]).unwrap();
        }
    });
    (table.statistics().clock - 1, table.statistics().commits)
}

/// The 15,000 transactions meet a hundred times or so; who advances the clock then, and only then, advances it less by
/// orders of magnitude.
#[test]
fn mostly_disjoint_transactions_hardly_advance_the_clock() {
    let (by_commits, commits) = at_random::<TinyStm>();
    assert_eq!(by_commits, commits);
    assert!(at_random::<Tl2Gv4>().0 >= commits / 10);
    for deferred in [at_random::<Dctl>(), at_random::<Dcotl>(), at_random::<DctlSf>(), at_random::<DcotlSf>()]
    {
        assert!(deferred.0 * 20 <= by_commits, "{} advances in {commits} commits", deferred.0);
    }
}
