//! Maps that threads share, key by key and as a whole: histories with the times at which each transaction was begun and had ended are
//! linearizable. And few attempts come to nothing, also under controls that let transactions starve.
//!
//! Some keys are recorded. Between them lie others, which come and go, so that trees are balanced and buckets doubled under the recorded
//! ones. A transaction changes two recorded keys, or looks at all of them.

use crate::support::for_each_control;
use crate::support::numbers::Numbers;
use crate::support::run::{Run, RunHere, on_threads};
use noonmark_core::sync::Mutex;
use noonmark_stm::{
    Host, Interrupted, Look, Ordered, Structure, THashMap, TMap, TRavlMap, TRbMap, TSkipMap, TZipMap,
    Threads, Tx, World,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: usize = 4;
const TRANSACTIONS: u64 = 800;
/// How many keys are recorded: the multiples of this number, from 0.
const RECORDED: usize = 6;
const APART: u64 = 40;
/// Fewer attempts than so many times the transactions come to nothing, all in all.
const ATTEMPTS: u64 = 4;

/// The values of the recorded keys.
type State = [Option<u64>; RECORDED];

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64),
    InsertIfAbsent(u64),
    Remove,
    /// By a closure: what there is goes, and where there is nothing this comes.
    Update(u64),
}

#[derive(Clone, Debug)]
enum Transaction {
    /// What two keys were before they were changed.
    Changes([(usize, Step, Option<u64>); 2]),
    /// What all of them were.
    Look(State),
}

impl Transaction {
    /// What becomes of a state, if this is what was found there.
    fn apply(&self, mut state: State) -> Option<State> {
        match self {
            Transaction::Look(seen) => (*seen == state).then_some(state),
            Transaction::Changes(changes) => {
                for (key, step, before) in changes {
                    let value = &mut state[*key];
                    if value != before {
                        return None;
                    }
                    *value = match (*step, *before) {
                        (Step::Insert(new), _) | (Step::InsertIfAbsent(new) | Step::Update(new), None) => {
                            Some(new)
                        }
                        (Step::InsertIfAbsent(_), before) => before,
                        (Step::Remove | Step::Update(_), _) => None,
                    };
                }
                Some(state)
            }
        }
    }
}

/// By whom, from when to when.
#[derive(Clone, Debug)]
struct Done {
    thread: usize,
    begin: u64,
    end: u64,
    transaction: Transaction,
}

/// Whether there is an order of the transactions that keeps to their times, and in which each finds what it found. Goes from one
/// beginning or end to the next, and keeps whatever states there can be then, each with the threads whose transaction has happened.
fn is_linearizable(history: &[Done]) -> bool {
    let mut events: Vec<(u64, bool, &Done)> =
        history.iter().flat_map(|done| [(done.begin, false, done), (done.end, true, done)]).collect();
    events.sort_unstable_by_key(|(time, ..)| *time);
    let mut pending: [Option<&Done>; THREADS] = [None; THREADS];
    let mut possible = HashSet::from([([None; RECORDED], [false; THREADS])]);
    for (_, is_end, done) in events {
        if !is_end {
            pending[done.thread] = Some(done);
            continue;
        }
        let mut open: Vec<_> = possible.iter().copied().collect();
        while let Some((state, happened)) = open.pop() {
            for next in pending.iter().flatten().filter(|next| !happened[next.thread]) {
                let Some(state) = next.transaction.apply(state) else { continue };
                let mut happened = happened;
                happened[next.thread] = true;
                if possible.insert((state, happened)) {
                    open.push((state, happened));
                }
            }
        }
        possible.retain(|(_, happened)| happened[done.thread]);
        possible = possible
            .into_iter()
            .map(|(state, mut happened)| {
                happened[done.thread] = false;
                (state, happened)
            })
            .collect();
        pending[done.thread] = None;
    }
    !possible.is_empty()
}

fn recorded<S>(
    map: &TMap<S>,
    look: impl for<'tx> Fn(Tx<'tx, '_, S::World>, &'tx TMap<S>) -> Result<State, Interrupted> + Sync,
) -> Vec<Done>
where
    S: Structure<Key = u64, Value = u64> + Look<u64>,
{
    let (time, history) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    // Sequentially consistent, so that the numbers keep to real time.
    let tick = || time.fetch_add(1, Ordering::SeqCst);
    on_threads(THREADS as u64, &|thread| {
        let (mut numbers, host) = (Numbers(thread), Threads::default());
        let mut session = S::World::session();
        for number in 0..TRANSACTIONS {
            let value = number * THREADS as u64 + thread;
            let mut draw = |value| {
                let step = match numbers.below(4) {
                    0 => Step::Insert(value),
                    1 => Step::InsertIfAbsent(value),
                    2 => Step::Remove,
                    _ => Step::Update(value),
                };
                (numbers.below(RECORDED as u64) as usize, step)
            };
            let steps = [draw(2 * value), draw(2 * value + 1)];
            let (kind, other) = (numbers.below(4), numbers.below(APART * RECORDED as u64) | 1);
            let begin = tick();
            let transaction = session.run(&mut |tx| {
                if kind == 0 {
                    return Ok(Transaction::Look(look(tx, map)?));
                }
                // Somebody else's turn, now and then.
                map.contains_key(tx, &(steps[1].0 as u64 * APART))?;
                host.spin(if number % 3 == 0 { 63 } else { 0 });
                let mut before = [None; 2];
                for ((key, step), before) in steps.into_iter().zip(&mut before) {
                    let key = key as u64 * APART;
                    *before = match step {
                        Step::Insert(value) => map.insert(tx, key, value)?,
                        Step::InsertIfAbsent(value) => map.insert_if_absent(tx, key, value)?,
                        Step::Remove => map.remove(tx, &key)?,
                        Step::Update(value) => {
                            map.update(tx, key, |there| if there.is_some() { None } else { Some(value) })?
                        }
                    };
                }
                if map.insert_if_absent(tx, other, 0)?.is_some() {
                    map.remove(tx, &other)?;
                }
                let [first, second] = steps;
                Ok(Transaction::Changes([(first.0, first.1, before[0]), (second.0, second.1, before[1])]))
            });
            let done = Done { thread: thread as usize, begin, end: tick(), transaction };
            history.lock().unwrap().push(done);
        }
    });
    history.into_inner().unwrap()
}

fn by_iteration<'tx, S>(tx: Tx<'tx, '_, S::World>, map: &'tx TMap<S>) -> Result<State, Interrupted>
where
    S: Structure<Key = u64, Value = u64>,
{
    let mut state = State::default();
    for entry in map.iter(tx) {
        let (key, value) = entry?;
        if key % APART == 0 {
            state[(key / APART) as usize] = Some(value);
        }
    }
    Ok(state)
}

/// From both ends inwards: the first, the last, and what lies between.
fn in_order<'tx, S>(tx: Tx<'tx, '_, S::World>, map: &'tx TMap<S>) -> Result<State, Interrupted>
where
    S: Ordered<Key = u64, Value = u64>,
{
    let mut state = State::default();
    let mut note = |(key, value): (&u64, u64)| {
        if key % APART == 0 {
            state[(key / APART) as usize] = Some(value);
        }
    };
    let (first, last) = (map.first_key_value(tx)?, map.last_key_value(tx)?);
    if let (Some(first), Some(last)) = (first, last) {
        note(first);
        note(last);
        for entry in map.range(tx, first.0 + 1..*last.0) {
            note(entry?);
        }
    }
    Ok(state)
}

macro_rules! on_each_map {
    ($($name:ident: $make:expr, $look:expr;)*) => { $(
        fn $name<W: World>() {
            let map = $make;
            let before = W::memory().statistics();
            assert!(is_linearizable(&recorded(&map, |tx, map| $look(tx, map))));
            let after = W::memory().statistics();
            let (commits, conflicts) = (after.commits - before.commits, after.conflicts - before.conflicts);
            assert_eq!(commits, THREADS as u64 * TRANSACTIONS);
            assert!(conflicts < ATTEMPTS * commits, "{conflicts} attempts came to nothing, {commits} did not");
            W::look(&mut |tx| map.check(tx));
        }
    )* };
}

on_each_map! {
    a_ravl_map: TRavlMap::<u64, u64, W>::new_in(), in_order;
    a_red_black_map: TRbMap::<u64, u64, W>::new_in(), in_order;
    a_zip_map: TZipMap::<u64, u64, W>::new_in(), in_order;
    a_skip_map: TSkipMap::<u64, u64, W>::new_in(), in_order;
    a_hash_map_that_grows: THashMap::<u64, u64, W>::new_in(), by_iteration;
    a_hash_map_with_long_chains: THashMap::<u64, u64, W>::with_buckets_in(4), by_iteration;
}

for_each_control! {
    [dctl, dcotl, dctl_sf, dcotl_sf, tl2_gv4, tl2_gv5, tinystm, two_pl_sf] in table [dcotl, dcotl_sf]:
    a_ravl_map,
    a_red_black_map,
    a_zip_map,
    a_skip_map,
    a_hash_map_that_grows,
    a_hash_map_with_long_chains,
}

/// What there is to be found is found: a history that is spoiled at one place.
#[test]
fn a_history_with_a_wrong_answer_is_refused() {
    let map = TRavlMap::<u64, u64>::new();
    let history = recorded(&map, in_order);
    assert!(is_linearizable(&history));
    let (mut answers, mut orders) = (0, 0);
    for at in (0..history.len()).step_by(97) {
        // An answer that is another's.
        let mut spoiled = history.clone();
        match &mut spoiled[at].transaction {
            Transaction::Look(seen) => seen[at % RECORDED] = Some(u64::MAX),
            Transaction::Changes([(_, _, before), _]) => *before = Some(u64::MAX),
        }
        assert!(!is_linearizable(&spoiled));
        answers += 1;
    }
    for at in (0..history.len()).step_by(17) {
        // One that comes too late: what its thread has done before, done after all others.
        let mut spoiled = history.clone();
        let end = u64::MAX - 1;
        let done = &mut spoiled[at];
        if let Transaction::Changes([(_, Step::Insert(_), Some(_)), _]) = done.transaction {
            (done.begin, done.end) = (end, end + 1);
            orders += usize::from(!is_linearizable(&spoiled));
        }
    }
    assert!(answers > 20 && orders > 0, "{answers} answers, {orders} orders");
}
