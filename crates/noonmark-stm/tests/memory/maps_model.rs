//! Maps of one thread against a `BTreeMap`: whatever is done, in transactions that commit and in such that are called off.

use crate::support::numbers::Numbers;
use noonmark_stm::{
    Boxed, Dcotl, Global, Interrupted, Look, Ordered, Structure, THashMap, TMap, TRavlMap, TRbMap, TSkipMap,
    TZipMap, TwoPlSf, World,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

type Model = BTreeMap<u64, u64>;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert(u64, u64),
    Remove(u64),
    /// Adds one, or enters the number, or (every third value) removes.
    Update(u64, u64),
    Get(u64),
    Len,
}

/// What only maps in order know.
#[derive(Clone, Copy, Debug)]
enum InOrder {
    Range(u64, u64),
    From(u64),
    UpTo(u64),
    Ends,
    PopFirst,
    PopLast,
}

#[derive(Clone, Debug)]
struct Transaction<Op> {
    operations: Vec<Op>,
    is_called_off: bool,
}

fn operations(keys: u64) -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..keys, 0..1000u64).prop_map(|(key, value)| Operation::Insert(key, value)),
        3 => (0..keys).prop_map(Operation::Remove),
        2 => (0..keys, 0..1000u64).prop_map(|(key, value)| Operation::Update(key, value)),
        2 => (0..keys).prop_map(Operation::Get),
        1 => Just(Operation::Len),
    ]
}

fn operations_in_order(keys: u64) -> impl Strategy<Value = InOrder> {
    prop_oneof![
        3 => (0..keys, 0..keys).prop_map(|(one, other)| InOrder::Range(one.min(other), one.max(other))),
        1 => (0..keys).prop_map(InOrder::From),
        1 => (0..keys).prop_map(InOrder::UpTo),
        2 => Just(InOrder::Ends),
        1 => Just(InOrder::PopFirst),
        1 => Just(InOrder::PopLast),
    ]
}

fn transactions<Op: std::fmt::Debug + Clone>(
    operations: impl Strategy<Value = Op>,
) -> impl Strategy<Value = Vec<Transaction<Op>>> {
    let transaction = (vec(operations, 1..12), proptest::bool::weighted(0.2))
        .prop_map(|(operations, is_called_off)| Transaction { operations, is_called_off });
    vec(transaction, 1..60)
}

/// Few keys, so that they are met again; and more, so that structures get deep.
fn unordered() -> impl Strategy<Value = Vec<Transaction<Operation>>> {
    (prop_oneof![Just(6u64), Just(60), Just(600)]).prop_flat_map(|keys| transactions(operations(keys)))
}

#[derive(Clone, Copy, Debug)]
enum Either {
    Any(Operation),
    InOrder(InOrder),
}

fn ordered() -> impl Strategy<Value = Vec<Transaction<Either>>> {
    (prop_oneof![Just(6u64), Just(60), Just(600)]).prop_flat_map(|keys| {
        transactions(prop_oneof![
            3 => operations(keys).prop_map(Either::Any),
            2 => operations_in_order(keys).prop_map(Either::InOrder),
        ])
    })
}

/// What an operation answers, as a list.
type Answer = Vec<(u64, u64)>;

fn some(key: u64, value: Option<u64>) -> Answer {
    value.map(|value| (key, value)).into_iter().collect()
}

fn change(value: Option<u64>, number: u64) -> Option<u64> {
    match value {
        None => Some(number),
        Some(value) if value % 3 == 0 => None,
        Some(value) => Some(value + 1),
    }
}

fn on_model(model: &mut Model, operation: Operation) -> Answer {
    match operation {
        Operation::Insert(key, value) => some(key, model.insert(key, value)),
        Operation::Remove(key) => some(key, model.remove(&key)),
        Operation::Update(key, number) => {
            let before = model.get(&key).copied();
            match change(before, number) {
                Some(after) => model.insert(key, after),
                None => model.remove(&key),
            };
            some(key, before)
        }
        Operation::Get(key) => some(u64::from(model.contains_key(&key)), model.get(&key).copied()),
        Operation::Len => vec![(model.len() as u64, u64::from(model.is_empty()))],
    }
}

fn on_model_in_order(model: &mut Model, operation: InOrder) -> Answer {
    fn own<'a>(entries: impl Iterator<Item = (&'a u64, &'a u64)>) -> Answer {
        entries.map(|(key, value)| (*key, *value)).collect()
    }
    match operation {
        InOrder::Range(from, to) => own(model.range(from..to)),
        InOrder::From(from) => {
            own(model.range((std::ops::Bound::Excluded(from), std::ops::Bound::Unbounded)))
        }
        InOrder::UpTo(to) => own(model.range(..=to)),
        InOrder::Ends => own(model.first_key_value().into_iter().chain(model.last_key_value())),
        InOrder::PopFirst => model.pop_first().into_iter().collect(),
        InOrder::PopLast => model.pop_last().into_iter().collect(),
    }
}

/// A handle of a transaction of this world.
type Tx<'tx, 'env, S> = noonmark_stm::Tx<'tx, 'env, <S as Structure>::World>;

fn on_map<'tx, S>(tx: Tx<'tx, '_, S>, map: &'tx TMap<S>, operation: Operation) -> Result<Answer, Interrupted>
where
    S: Structure<Key = u64, Value = u64> + Look<u64>,
{
    Ok(match operation {
        Operation::Insert(key, value) => some(key, map.insert(tx, key, value)?),
        Operation::Remove(key) => some(key, map.remove(tx, &key)?),
        Operation::Update(key, number) => some(key, map.update(tx, key, |value| change(value, number))?),
        Operation::Get(key) => some(u64::from(map.contains_key(tx, &key)?), map.get(tx, &key)?),
        Operation::Len => vec![(map.len(tx)? as u64, u64::from(map.is_empty(tx)?))],
    })
}

fn on_map_in_order<'tx, S>(
    tx: Tx<'tx, '_, S>,
    map: &'tx TMap<S>,
    operation: InOrder,
) -> Result<Answer, Interrupted>
where
    S: Structure<Key = u64, Value = u64> + Look<u64> + Ordered,
{
    fn own<'a>(
        entries: impl Iterator<Item = Result<(&'a u64, u64), Interrupted>>,
    ) -> Result<Answer, Interrupted> {
        entries.map(|entry| entry.map(|(key, value)| (*key, value))).collect()
    }
    Ok(match operation {
        InOrder::Range(from, to) => own(map.range(tx, from..to))?,
        InOrder::From(from) => {
            own(map.range(tx, (std::ops::Bound::Excluded(from), std::ops::Bound::Unbounded)))?
        }
        InOrder::UpTo(to) => own(map.range(tx, ..=to))?,
        InOrder::Ends => {
            let ends = [map.first_key_value(tx)?, map.last_key_value(tx)?];
            own(ends.into_iter().flatten().map(Ok))?
        }
        InOrder::PopFirst => map.pop_first(tx)?.into_iter().collect(),
        InOrder::PopLast => map.pop_last(tx)?.into_iter().collect(),
    })
}

#[derive(Debug, PartialEq)]
struct CalledOff(Vec<Answer>);

impl From<Interrupted> for CalledOff {
    fn from(_: Interrupted) -> Self {
        CalledOff(Vec::new())
    }
}

/// Runs the transactions on a map and on a model, and compares what each answers, and what is there in the end.
fn compare<S, Op: Copy>(
    map: &TMap<S>,
    transactions: &[Transaction<Op>],
    on_model: impl Fn(&mut Model, Op) -> Answer,
    on_map: impl for<'tx> Fn(Tx<'tx, '_, S>, &'tx TMap<S>, Op) -> Result<Answer, Interrupted>,
) where
    S: Structure<Key = u64, Value = u64> + Look<u64>,
{
    let mut model = Model::new();
    let mut session = S::World::session();
    for transaction in transactions {
        let mut next = model.clone();
        let expected: Vec<_> = transaction.operations.iter().map(|&op| on_model(&mut next, op)).collect();
        let answered = session.try_atomically(|tx| {
            let answers = transaction.operations.iter().map(|&op| on_map(tx, map, op));
            let answers = answers.collect::<Result<Vec<_>, _>>()?;
            if transaction.is_called_off { Err(CalledOff(answers)) } else { Ok(answers) }
        });
        if transaction.is_called_off {
            assert_eq!(answered, Err(CalledOff(expected)));
        } else {
            assert_eq!(answered, Ok(expected));
            model = next;
        }
        let (count, longest) = session.view(|tx| map.check(tx));
        assert_eq!(count, model.len());
        assert!(longest <= 64, "{longest} links to an entry, of {count}");
    }
    let mut entries = session.view(|tx| {
        map.iter(tx).map(|entry| entry.map(|(key, value)| (*key, value))).collect::<Result<Vec<_>, _>>()
    });
    entries.sort_unstable();
    assert_eq!(entries, model.into_iter().collect::<Vec<_>>());
}

fn compare_in_order<S>(map: &TMap<S>, transactions: &[Transaction<Either>])
where
    S: Structure<Key = u64, Value = u64> + Look<u64> + Ordered,
{
    compare(
        map,
        transactions,
        |model, either| match either {
            Either::Any(operation) => on_model(model, operation),
            Either::InOrder(operation) => on_model_in_order(model, operation),
        },
        |tx, map, either| match either {
            Either::Any(operation) => on_map(tx, map, operation),
            Either::InOrder(operation) => on_map_in_order(tx, map, operation),
        },
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_ravl_map_does_what_a_btree_map_does(transactions in ordered()) {
        compare_in_order(&TRavlMap::new(), &transactions);
    }

    #[test]
    fn a_red_black_map_does_what_a_btree_map_does(transactions in ordered()) {
        compare_in_order(&TRbMap::new(), &transactions);
    }

    #[test]
    fn a_zip_map_does_what_a_btree_map_does(transactions in ordered()) {
        compare_in_order(&TZipMap::new(), &transactions);
    }

    #[test]
    fn a_skip_map_does_what_a_btree_map_does(transactions in ordered()) {
        compare_in_order(&TSkipMap::new(), &transactions);
    }

    #[test]
    fn a_hash_map_that_grows_does_what_a_btree_map_does(transactions in unordered()) {
        compare(&THashMap::<_, _>::new(), &transactions, on_model, on_map);
    }

    #[test]
    fn a_hash_map_with_long_chains_does_what_a_btree_map_does(transactions in unordered()) {
        compare(&THashMap::<_, _>::with_buckets(8), &transactions, on_model, on_map);
    }
}

/// In order, and from both ends: what makes a tree without balance a list.
fn longest_way<S>(map: &TMap<S>) -> usize
where
    S: Structure<Key = u64, Value = u64, World = Global> + Look<u64> + Ordered,
{
    let mut session = <Global as World>::session();
    for key in 0..2_000 {
        session.atomically(|tx| {
            map.insert(tx, 10_000 + key, key)?;
            map.insert(tx, 10_000 - key, key)
        });
    }
    let (count, longest) = session.view(|tx| map.check(tx));
    assert_eq!(count, 3_999);
    longest
}

#[test]
fn a_ravl_map_is_flat() {
    let height = longest_way(&TRavlMap::new());
    assert!(height <= 18, "{height}: more than 1.44 times the logarithm of the insertions");
}

#[test]
fn a_red_black_map_is_flat() {
    let height = longest_way(&TRbMap::new());
    assert!(height <= 24, "{height}: more than twice the logarithm of the entries");
}

#[test]
fn a_zip_map_and_a_skip_map_are_flat_by_chance() {
    let height = longest_way(&TZipMap::new());
    assert!(height <= 60, "{height}: five times the logarithm of the entries");
    let steps = longest_way(&TSkipMap::new());
    assert!(steps <= 80, "{steps}: twelve for each level");
}

/// Storms of insertions and removals, more of the one and then of the other.
fn stays_whole<S>(map: &TMap<S>, height_max: usize)
where
    S: Structure<Key = u64, Value = u64, World = Global> + Look<u64>,
{
    let (mut numbers, mut model) = (Numbers(3), Model::new());
    let mut session = <Global as World>::session();
    for phase in 0..6 {
        for step in 0..4_000 {
            let key = numbers.below(3_000);
            let is_insertion = numbers.below(10) < if phase % 2 == 0 { 8 } else { 1 };
            if is_insertion {
                assert_eq!(session.atomically(|tx| map.insert(tx, key, step)), model.insert(key, step));
            } else {
                assert_eq!(session.atomically(|tx| map.remove(tx, &key)), model.remove(&key));
            }
            if step % 500 == 0 {
                session.view(|tx| map.check(tx));
            }
        }
        let (count, height) = session.view(|tx| map.check(tx));
        assert_eq!(count, model.len());
        assert!(height <= height_max, "{height} links to an entry, of {count}");
    }
}

#[test]
fn structures_stay_whole_in_storms() {
    // 1.44 times the logarithm of the insertions; twice that of the entries; and by chance.
    stays_whole(&TRavlMap::new(), 21);
    stays_whole(&TRbMap::new(), 24);
    stays_whole(&TZipMap::new(), 60);
    stays_whole(&TSkipMap::new(), 80);
    stays_whole(&THashMap::<_, _>::new(), 14);
}

/// Whoever iterates changes the map as he goes: what he neither puts in nor takes out he comes by once.
fn iterates_through_changes<S>(make: impl Fn() -> TMap<S>)
where
    S: Structure<Key = u64, Value = u64, World = Global> + Look<u64>,
{
    for seed in 0..60 {
        let (map, mut numbers) = (make(), Numbers(seed));
        let mut session = <Global as World>::session();
        // Some stay, the others may go.
        let stays = |key: u64| key % 10 < 5;
        let keys: Vec<u64> = (0..200).map(|_| numbers.below(1_000)).collect();
        session.atomically(|tx| keys.iter().try_for_each(|key| map.insert(tx, *key, 0).map(drop)));
        let mut met = session.atomically(|tx| {
            let mut met = Vec::new();
            for entry in map.iter(tx) {
                let (key, value) = entry?;
                if stays(*key) && value == 0 {
                    met.push(*key);
                }
                for _ in 0..numbers.below(4) {
                    let other = numbers.below(1_000);
                    if stays(other) {
                        map.insert_if_absent(tx, other + seed % 2 * 1_000, 1)?;
                    } else {
                        map.remove(tx, &other)?;
                    }
                }
            }
            Ok(met)
        });
        met.sort_unstable();
        let mut expected: Vec<u64> = keys.into_iter().filter(|key| stays(*key)).collect();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(met, expected, "{map:?}, seed {seed}");
        session.view(|tx| map.check(tx));
    }
}

#[test]
fn an_iteration_comes_by_what_is_not_changed_meanwhile() {
    iterates_through_changes(TRavlMap::<u64, u64>::new);
    iterates_through_changes(TRbMap::<u64, u64>::new);
    iterates_through_changes(TZipMap::<u64, u64>::new);
    iterates_through_changes(TSkipMap::<u64, u64>::new);
    iterates_through_changes(THashMap::<u64, u64>::new);
    iterates_through_changes(|| THashMap::<u64, u64>::with_buckets(16));
}

/// An iteration that goes on through a branch that is undone: what is neither put in nor taken out it comes by once, there or
/// afterwards.
fn iterates_through_what_is_undone<S>(make: impl Fn() -> TMap<S>)
where
    S: Structure<Key = u64, Value = u64, World = Global> + Look<u64>,
{
    for seed in 0..100 {
        let (map, mut numbers) = (make(), Numbers(seed));
        let mut session = <Global as World>::session();
        let keys: Vec<u64> = (0..10 + seed).map(|number| number * 10).collect();
        session.atomically(|tx| keys.iter().try_for_each(|key| map.insert(tx, *key, *key).map(drop)));
        let (before, within) = (numbers.below(10), numbers.below(5));
        let met = session.atomically(|tx| {
            let (entries, met) = (RefCell::new(map.iter(tx)), RefCell::new(Vec::new()));
            let come_by = |count: u64| {
                for entry in entries.borrow_mut().by_ref().take(count as usize) {
                    met.borrow_mut().push(*entry?.0);
                }
                Ok(())
            };
            come_by(before)?;
            tx.or_else(
                |tx| {
                    // Next to all that is there, and enough of it that hash maps grow.
                    for key in 0..1_500 {
                        if key % 10 > 0 {
                            map.insert(tx, key, 0)?;
                        }
                        if key % 500 == 0 {
                            come_by(within)?;
                        }
                    }
                    tx.retry()
                },
                |_| come_by(u64::MAX),
            )?;
            Ok(met.take())
        });
        let mut met: Vec<u64> = met.into_iter().filter(|key| key % 10 == 0).collect();
        met.sort_unstable();
        assert_eq!(met, keys, "{map:?}, seed {seed}");
        assert_eq!(session.view(|tx| map.check(tx)).0, keys.len());
    }
}

#[test]
fn an_iteration_goes_on_through_what_is_undone() {
    iterates_through_what_is_undone(TRavlMap::<u64, u64>::new);
    iterates_through_what_is_undone(TRbMap::<u64, u64>::new);
    iterates_through_what_is_undone(TZipMap::<u64, u64>::new);
    iterates_through_what_is_undone(TSkipMap::<u64, u64>::new);
    iterates_through_what_is_undone(THashMap::<u64, u64>::new);
    iterates_through_what_is_undone(|| THashMap::<u64, u64>::with_buckets(16));
}

/// What the docs say, for a key and a value of eight bytes each.
#[test]
fn an_entry_takes_as_many_bytes_as_the_docs_say() {
    assert_eq!(TRavlMap::<u64, u64>::ENTRY_BYTES, 48);
    assert_eq!(TRbMap::<u64, u64>::ENTRY_BYTES, 48);
    assert_eq!(TZipMap::<u64, u64>::ENTRY_BYTES, 48);
    assert_eq!(TSkipMap::<u64, u64>::ENTRY_BYTES, 48);
    assert_eq!(THashMap::<u64, u64>::ENTRY_BYTES, 32);
    // A lock is a word under every control.
    assert_eq!(TRavlMap::<u64, u64, Global<Dcotl>>::ENTRY_BYTES, 48);
    assert_eq!(TRavlMap::<u64, u64, Global<TwoPlSf>>::ENTRY_BYTES, 48);
    assert_eq!(THashMap::<u64, u64, Global<TwoPlSf>>::ENTRY_BYTES, 32);
    // A value of more words lies in place, a boxed one behind a pointer.
    assert_eq!(TRavlMap::<u64, (u64, bool, u8)>::ENTRY_BYTES, 64);
    assert_eq!(THashMap::<u64, Boxed<[u64; 100]>>::ENTRY_BYTES, 32);
}

/// 16 bytes each: one or two for an entry, whether keys are numbers in a row, their multiples, or spread by chance.
#[test]
fn a_map_has_about_as_many_buckets_as_entries() {
    for multiple in [1, 8, 0x9e37_79b9_7f4a_7c15, 0] {
        let map = THashMap::<u64, u64>::new();
        let mut session = <Global as World>::session();
        let mut numbers = Numbers(7);
        for entries in 1..=100_000u64 {
            let key = if multiple == 0 { numbers.below(u64::MAX) } else { entries.wrapping_mul(multiple) };
            session.atomically(|tx| map.insert(tx, key, 0));
            if entries >= 1_000 && (entries % 10_000 == 0 || entries.is_power_of_two()) {
                let buckets = session.view(|tx| map.buckets(tx)) as f64 / entries as f64;
                assert!((0.8..=2.2).contains(&buckets), "{buckets} buckets an entry, of {entries}");
            }
        }
        let (_, longest) = session.view(|tx| map.check(tx));
        assert!(longest <= 14, "{longest} in one bucket");
    }
}

#[test]
fn an_empty_map_takes_little() {
    assert_eq!(size_of::<TRavlMap<u64, u64>>(), 16);
    assert_eq!(size_of::<TRbMap<u64, u64>>(), 16);
    assert_eq!(size_of::<TZipMap<u64, u64>>(), 16);
    assert_eq!(size_of::<TSkipMap<u64, u64>>(), 328);
    assert_eq!(size_of::<THashMap<u64, u64>>(), 24);
}

#[test]
fn values_that_are_not_plain_are_lent() {
    let map = THashMap::<String, Boxed<Vec<u32>>>::new();
    let mut session = <Global as World>::session();
    for number in 0..100u32 {
        session.atomically(|tx| {
            map.update(tx, format!("{}", number % 7), |before| {
                let mut numbers = before.cloned().unwrap_or_default();
                numbers.push(number);
                (numbers.len() < 15).then_some(numbers)
            })
            .map(drop)
        });
    }
    let (sixes, removed) = session.atomically(|tx| {
        let sixes = map.get(tx, "6")?.cloned();
        // What was taken out can be looked at as long as the transaction lasts.
        let removed = map.remove(tx, "6")?;
        assert_eq!(map.insert(tx, "6".to_string(), vec![])?, None);
        Ok((sixes, removed.map(Vec::len)))
    });
    assert_eq!(sixes, Some((0..14).map(|index| 6 + 7 * index).collect()));
    assert_eq!((removed, session.view(|tx| map.check(tx)).0), (Some(14), 5));
}
