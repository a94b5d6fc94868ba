//! What a cache keeps, change by change: a copy is of the version that it says, holds for no longer than was said of that version, and nodes leave no
//! gap between them.

use noonmark::Timestamp;
use noonmark::branch::{Lease, Node, Values};
use noonmark_cluster::cache::{Cache, CacheOptions, Copy, Look, Place, ReusePolicy};
use noonmark_cluster::message::TableLease;
use noonmark_cluster::partition::{ServerId, TableId};
use std::ops::{Bound, Range};

const SERVER: ServerId = ServerId::new(1);
const TABLE: TableId = TableId::new(0);

fn cache() -> Cache {
    Cache::new(CacheOptions { reuse: ReusePolicy::Always, ..CacheOptions::default() })
}

fn place(key: u8, groups: Range<usize>) -> Place {
    Place { server: SERVER, table: TABLE, key: vec![key], groups }
}

/// Of one group, written then, which holds until then.
fn copy(value: i64, written: u64, until: u64) -> Copy {
    let (written, until) = (vec![Timestamp::new(written)], Timestamp::new(until));
    Copy { values: Values::of(&value), lease: Lease { written, until } }
}

fn until(cache: &Cache, place: &Place) -> (i64, u64) {
    match cache.look(place) {
        Look::Reuse(copy) => (copy.values.decode().unwrap(), copy.lease.until.ticks()),
        other => panic!("{other:?}"),
    }
}

fn lease(writes: u64, until: u64) -> TableLease {
    TableLease { writes, until: Timestamp::new(until) }
}

fn node(lower: &[u8], upper: Option<u8>, keys: &[u8], since: u64, until: u64) -> Node {
    Node {
        lower: lower.to_vec(),
        upper: upper.map(|upper| vec![upper]),
        keys: keys.iter().map(|key| vec![*key]).collect(),
        since: Timestamp::new(since),
        until: Timestamp::new(until),
    }
}

/// Answers overtake each other, and clients of one server share its copies.
#[test]
fn what_comes_late_replaces_nothing_newer_and_says_nothing_of_it() {
    let (cache, row) = (cache(), place(1, 0..1));
    cache.keep(&row, copy(2, 30, 35), None, None);
    cache.keep(&row, copy(1, 10, 90), None, None);
    assert_eq!(until(&cache, &row), (2, 35), "the older version has come later");
    cache.keep(&row, copy(2, 30, 33), None, None);
    assert_eq!(until(&cache, &row), (2, 35), "as has an earlier end of this one");
    cache.renew(&row, &[Timestamp::new(10)], Timestamp::new(80), None);
    assert_eq!(until(&cache, &row), (2, 35), "the older version was current until then");
    cache.renew(&row, &[Timestamp::new(30)], Timestamp::new(40), None);
    assert_eq!(until(&cache, &row), (2, 40));
}

#[test]
fn a_table_lease_is_the_latest_and_of_copies_from_after_the_last_write() {
    let (cache, [old, new]) = (cache(), [place(1, 0..1), place(2, 0..1)]);
    cache.keep(&old, copy(1, 10, 10), Some(lease(1, 10)), None);
    cache.keep(&new, copy(2, 20, 20), Some(lease(2, 20)), None);
    cache.extend_table(SERVER, TABLE, lease(2, 40));
    assert_eq!((until(&cache, &old), until(&cache, &new)), ((1, 10), (2, 40)));
    for late in [lease(1, 90), lease(2, 30)] {
        cache.extend_table(SERVER, TABLE, late);
        assert_eq!((until(&cache, &old), until(&cache, &new)), ((1, 10), (2, 40)), "{late:?} has come late");
    }
    cache.renew(&old, &[Timestamp::new(10)], Timestamp::new(15), Some(lease(2, 40)));
    assert_eq!(until(&cache, &old), (1, 40), "it was current after the last write");
}

#[test]
fn what_is_written_takes_the_place_of_its_copy_and_of_those_of_some_of_it() {
    let cache = cache();
    let [whole, first, second] = [0..2, 0..1, 1..2].map(|groups| place(1, groups));
    let pair = Copy {
        values: Values::of(&(1_i64, 2_i64)),
        lease: Lease { written: vec![Timestamp::new(10); 2], until: Timestamp::new(10) },
    };
    cache.keep(&whole, pair, None, None);
    cache.keep(&first, copy(1, 10, 10), None, None);
    cache.keep(&second, copy(2, 10, 10), None, None);
    cache.write(&first, Values::of(&7_i64), Timestamp::new(30));
    assert_eq!(until(&cache, &first), (7, 30));
    assert_eq!(until(&cache, &second), (2, 10), "nobody has written this");
    assert_eq!(cache.look(&whole), Look::Miss, "half of it was another");
}

#[test]
fn a_node_is_renewed_as_it_was_looked_at_only() {
    let (cache, absent) = (cache(), place(5, 0..1));
    let until = |cache: &Cache| cache.look_absent(&absent).map(|node| node.until.ticks());
    cache.keep_node(SERVER, TABLE, node(&[], None, &[1], 10, 20));
    let before = node(&[], None, &[1, 5], 10, 20);
    cache.renew_node(SERVER, TABLE, &before, Timestamp::new(40));
    assert_eq!(until(&cache), Some(20), "with another key in it, it says nothing of this one");
    cache.renew_node(SERVER, TABLE, &node(&[], None, &[1], 10, 12), Timestamp::new(30));
    assert_eq!(until(&cache), Some(30));
}

/// Of keys between two nodes nothing is known, in either direction.
#[test]
fn a_range_is_of_nodes_that_end_where_the_next_one_begins() {
    let range = |cache: &Cache, reverse: bool| {
        let found =
            cache.look_range((SERVER, TABLE), (Bound::Unbounded, Bound::Unbounded), &(0..1), reverse, 9);
        found.map(|range| range.rows.iter().map(|(place, _)| place.key[0]).collect::<Vec<_>>())
    };
    for (end, keys) in [(4, Some(vec![2, 6])), (3, None)] {
        let cache = cache();
        cache.keep_node(SERVER, TABLE, node(&[], Some(end), &[2], 10, 20));
        cache.keep_node(SERVER, TABLE, node(&[4], None, &[6], 10, 20));
        for key in [2, 6] {
            cache.keep(&place(key, 0..1), copy(key.into(), 10, 20), None, None);
        }
        assert_eq!(range(&cache, false), keys, "the first ends at {end}");
        let backwards = keys.map(|keys| keys.into_iter().rev().collect());
        assert_eq!(range(&cache, true), backwards, "the first ends at {end}");
    }
}
