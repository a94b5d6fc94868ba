//! What a client reads out of copies of rows of other servers: what it may, and nothing else.

use crate::direct::{Direct, Made, cluster, cluster_of, cluster_on, run};
use noonmark::{IndexKind, Order};
use noonmark_cluster::cache::{Cache, CacheOptions, ReusePolicy};
use noonmark_cluster::client::{Client, ClusterAbort, Policy, Table};
use noonmark_cluster::message::ClientId;
use noonmark_cluster::partition::ServerId;
use std::sync::Arc;

fn cache(reuse: ReusePolicy) -> Arc<Cache> {
    Arc::new(Cache::new(CacheOptions { reuse, ..CacheOptions::default() }))
}

fn client_of(made: &Made, worker: u16, cache: &Arc<Cache>) -> Client<Direct> {
    made.another(worker).with_cache(Arc::clone(cache))
}

/// Keys of rows that are at the other server.
fn remote(made: &Made) -> Vec<u64> {
    let home = ServerId::new(0);
    let id = made.table.id();
    (0..8).filter(|key: &u64| made.map.reader(id, &key.to_be_bytes(), home) != home).collect()
}

fn get(client: &mut Client<Direct>, table: &Table<u64, i64>, key: u64) -> Result<Option<i64>, ClusterAbort> {
    run(client.transact(async |tx| tx.get(table, key).await))
}

fn set(client: &mut Client<Direct>, table: &Table<u64, i64>, key: u64, value: i64) {
    let set: Result<(), ClusterAbort> =
        run(client.transact(async |tx| tx.update(table, key, |balance| *balance = value).await));
    set.unwrap();
}

#[test]
fn a_copy_is_read_without_a_message_and_may_be_old_but_never_older_than_what_its_reader_has_done() {
    let made = cluster();
    let (cache, key) = (cache(ReusePolicy::Always), remote(&made)[0]);
    let (mut reader, mut writer) = (client_of(&made, 1, &cache), made.another(2));
    assert_eq!(get(&mut reader, &made.table, key), Ok(Some(key as i64 * 100)));
    set(&mut writer, &made.table, key, 5);
    let before = reader.counts();
    // The lease still holds, so it is as if this had come before.
    assert_eq!(get(&mut reader, &made.table, key), Ok(Some(key as i64 * 100)));
    assert_eq!(reader.counts().messages, before.messages);
    // Who reads the new value anywhere cannot go back.
    let other = remote(&made)[1];
    set(&mut writer, &made.table, other, 6);
    let both: Result<_, ClusterAbort> = run(reader.transact(async |tx| {
        let first = tx.get(&made.table, other).await?;
        Ok((first, tx.get(&made.table, key).await?))
    }));
    let both = both.unwrap();
    assert!(both == (Some(6), Some(5)) || both.0 == Some(other as i64 * 100), "{both:?}");
    // What a client has written it reads.
    set(&mut reader, &made.table, key, 7);
    assert_eq!(get(&mut reader, &made.table, key), Ok(Some(7)));
}

#[test]
fn whoever_writes_what_he_read_from_an_old_copy_is_told_and_tries_again() {
    let made = cluster();
    let (cache, key) = (cache(ReusePolicy::Always), remote(&made)[0]);
    let (mut reader, mut writer) = (client_of(&made, 1, &cache), made.another(2));
    get(&mut reader, &made.table, key).unwrap();
    set(&mut writer, &made.table, key, 5);
    let added: Result<i64, ClusterAbort> = run(reader.transact(async |tx| {
        let balance = tx.need(&made.table, key).await?;
        tx.write(&made.table, key, balance + 1).await?;
        Ok(balance)
    }));
    assert_eq!(added, Ok(5));
    assert_eq!(get(&mut writer, &made.table, key), Ok(Some(6)));
    assert_eq!((reader.counts().aborts, cache.counts().stale), (1, 1));
    // The row was asked for again, and his own write is in the copy now.
    let before = reader.counts().messages;
    assert_eq!(get(&mut reader, &made.table, key), Ok(Some(6)));
    assert_eq!(reader.counts().messages, before);
}

/// A transaction that is tried by several calls, too, each of which somebody makes stale what it reads.
#[test]
fn whoever_was_misled_eight_times_reads_no_copies() {
    let made = cluster();
    let (cache, key) = (cache(ReusePolicy::Always), remote(&made)[0]);
    let (mut client, mut other, mut writer) =
        (client_of(&made, 1, &cache), client_of(&made, 2, &cache), made.another(3));
    client.set_policy(Policy { attempts_max: Some(1), ..Policy::default() });
    let mut begun = client.new_transaction();
    let mut ended: Result<i64, ClusterAbort> = Err(ClusterAbort::Continued);
    for value in 1..=9 {
        get(&mut other, &made.table, key).unwrap();
        set(&mut writer, &made.table, key, value);
        ended = run(client.transact_on(&mut begun, async |tx| {
            let balance = tx.need(&made.table, key).await?;
            tx.write(&made.table, key, balance + 1).await?;
            Ok(balance)
        }));
        assert_eq!(ended.is_ok(), value == 9, "{value}: {ended:?}");
    }
    assert_eq!((ended, begun.attempts(), client.counts().aborts), (Ok(9), 9, 8));
}

#[test]
fn a_transaction_reads_what_it_has_written_itself() {
    for reuse in [ReusePolicy::Always, ReusePolicy::Never, ReusePolicy::default()] {
        let made = cluster();
        let (cache, key) = (cache(reuse), remote(&made)[0]);
        let mut client = client_of(&made, 1, &cache);
        get(&mut client, &made.table, key).unwrap();
        let read: Result<_, ClusterAbort> = run(client.transact(async |tx| {
            tx.update(&made.table, key, |balance| *balance = 1).await?;
            let first = tx.get(&made.table, key).await?;
            tx.update(&made.table, key, |balance| *balance = 2).await?;
            Ok((first, tx.get(&made.table, key).await?))
        }));
        assert_eq!(read, Ok((Some(1), Some(2))));
        assert_eq!(get(&mut client, &made.table, key), Ok(Some(2)));
        let gone: Result<bool, ClusterAbort> =
            run(client.transact(async |tx| tx.delete(&made.table, key).await));
        assert_eq!((gone, get(&mut client, &made.table, key)), (Ok(true), Ok(None)));
        assert_eq!(client.counts().aborts, 0);
    }
}

/// A row that is read out of a copy, and gets a new value with the commit: the copy is looked at before the transaction's own write is there, so that it
/// is current if nobody else has written; and if somebody has, the transaction is told. Where another row of that server is asked for after it, the write
/// goes along with that.
#[test]
fn a_row_that_was_read_out_of_a_copy_may_be_written_later() {
    for asks_between in [false, true] {
        let made = cluster();
        let caches = [cache(ReusePolicy::Always), cache(ReusePolicy::Always)];
        let (key, other) = (remote(&made)[0], remote(&made)[1]);
        let mut clients = [client_of(&made, 1, &caches[0]), client_of(&made, 2, &caches[1])];
        let add = |client: &mut Client<Direct>| {
            let added: Result<(), ClusterAbort> = run(client.transact(async |tx| {
                let before = tx.need(&made.table, key).await?;
                tx.write_later(&made.table, key, before + 1).await?;
                if asks_between {
                    tx.update(&made.table, other, |row| *row += 1).await?;
                }
                Ok(())
            }));
            added.unwrap();
        };
        let first = get(&mut clients[0], &made.table, key).unwrap().unwrap();
        for _ in 0..10 {
            add(&mut clients[0]);
        }
        assert_eq!(clients[0].counts().aborts, 0, "nobody else has written");
        for _ in 0..10 {
            add(&mut clients[1]);
            add(&mut clients[0]);
        }
        assert!(clients[0].counts().aborts >= 9, "another has: {:?}", clients[0].counts());
        let mut client = made.another(3);
        assert_eq!(get(&mut client, &made.table, key).unwrap(), Some(first + 30));
    }
}

#[test]
fn in_the_order_of_real_time_each_copy_is_looked_at() {
    let made = cluster_of(64, Order::Momentary);
    let (cache, key) = (cache(ReusePolicy::Always), remote(&made)[0]);
    let (mut reader, mut writer) = (client_of(&made, 1, &cache), made.another(2));
    get(&mut reader, &made.table, key).unwrap();
    assert_eq!(get(&mut reader, &made.table, key), Ok(Some(key as i64 * 100)));
    assert_eq!((cache.counts().reused, cache.counts().current), (1, 1));
    set(&mut writer, &made.table, key, 5);
    assert_eq!(get(&mut reader, &made.table, key), Ok(Some(5)));
    assert_eq!(reader.counts().aborts, 1);
}

/// A copy that is asked about each time saves the bytes of its values.
#[test]
fn what_is_asked_for_is_not_sent_if_it_is_known() {
    let made = cluster();
    let (cache, key) = (cache(ReusePolicy::Never), remote(&made)[0]);
    let (mut reader, mut writer) = (client_of(&made, 1, &cache), made.another(2));
    for _ in 0..3 {
        get(&mut reader, &made.table, key).unwrap();
    }
    set(&mut writer, &made.table, key, 5);
    assert_eq!(get(&mut reader, &made.table, key), Ok(Some(5)));
    let counts = cache.counts();
    assert_eq!((counts.missed, counts.requested, counts.current, counts.stale), (1, 3, 2, 1));
}

/// Copies are reused as long as most of those that are looked at are current.
#[test]
fn votes_say_whether_copies_are_reused() {
    let made = cluster();
    let (cache, key) = (cache(ReusePolicy::Voted(0.5)), remote(&made)[0]);
    let (mut reader, mut writer) = (client_of(&made, 1, &cache), made.another(2));
    get(&mut reader, &made.table, key).unwrap();
    get(&mut reader, &made.table, key).unwrap();
    assert_eq!((cache.counts().requested, cache.counts().reused), (1, 0));
    get(&mut reader, &made.table, key).unwrap();
    assert_eq!((cache.counts().requested, cache.counts().reused), (1, 1));
    for value in 0..2 {
        set(&mut writer, &made.table, key, value);
        set(&mut reader, &made.table, remote(&made)[1], value);
        let added: Result<_, ClusterAbort> = run(reader.transact(async |tx| {
            let balance = tx.need(&made.table, key).await?;
            tx.write(&made.table, key, balance).await
        }));
        added.unwrap();
    }
    let before = cache.counts();
    get(&mut reader, &made.table, key).unwrap();
    assert_eq!(cache.counts().requested, before.requested + 1);
}

/// Commit times go up with each write of a hot row. Rows of a table that nobody writes are read with them nevertheless, and seldom looked at.
#[test]
fn a_table_lease_spares_looking_at_each_row() {
    let made = cluster();
    let (cache, keys) = (cache(ReusePolicy::Always), remote(&made));
    let home = (0..8).find(|key| !keys.contains(key)).unwrap();
    let mut client = client_of(&made, 1, &cache);
    let round = |client: &mut Client<Direct>| {
        for key in &keys {
            let read: Result<_, ClusterAbort> = run(client.transact(async |tx| {
                tx.update(&made.table, home, |balance| *balance += 1).await?;
                tx.get(&made.table, *key).await
            }));
            assert_eq!(read, Ok(Some(*key as i64 * 100)));
        }
        let counts = cache.counts();
        (counts.reused, counts.current)
    };
    for _ in 0..4 {
        round(&mut client);
    }
    let before = round(&mut client);
    let after = (0..20).map(|_| round(&mut client)).last().unwrap();
    let (reused, looked_at) = (after.0 - before.0, after.1 - before.1);
    assert_eq!(reused, 20 * keys.len() as u64);
    assert!(looked_at <= reused / 4, "{looked_at} of {reused}");
    // Once somebody writes one of them, nobody takes the lease for that of its copy.
    set(&mut made.another(2), &made.table, keys[0], 1);
    set(&mut client, &made.table, keys[1], 1);
    let both: Result<_, ClusterAbort> = run(client.transact(async |tx| {
        tx.update(&made.table, keys[0], |balance| *balance += 1).await?;
        tx.get(&made.table, keys[0]).await
    }));
    assert_eq!(both, Ok(Some(2)));
}

#[test]
fn what_was_used_longest_ago_makes_room() {
    let made = cluster();
    let keys = remote(&made);
    let options = CacheOptions { bytes_max: 360, banks: 1, reuse: ReusePolicy::Always };
    let cache = Arc::new(Cache::new(options));
    let mut client = made.another(1).with_cache(Arc::clone(&cache));
    // Two copies have room.
    for key in [keys[0], keys[1], keys[0], keys[2]] {
        get(&mut client, &made.table, key).unwrap();
    }
    assert!(cache.bytes() <= 360);
    assert_eq!((cache.counts().evicted, cache.counts().missed), (1, 3));
    get(&mut client, &made.table, keys[0]).unwrap();
    assert_eq!(cache.counts().missed, 3, "it was used after the other");
    get(&mut client, &made.table, keys[1]).unwrap();
    assert_eq!(cache.counts().missed, 4);
}

#[test]
fn own_rows_are_not_copied() {
    let made = cluster();
    let cache = cache(ReusePolicy::Always);
    let keys = remote(&made);
    let home = (0..8).find(|key| !keys.contains(key)).unwrap();
    let mut client = client_of(&made, 1, &cache);
    assert_eq!(client.id(), ClientId { server: ServerId::new(0), worker: 1 });
    get(&mut client, &made.table, home).unwrap();
    assert_eq!(cache.bytes(), 0);
}

fn put(client: &mut Client<Direct>, table: &Table<u64, i64>, key: u64) {
    let put: Result<bool, ClusterAbort> = run(client.transact(async |tx| tx.insert(table, key, 1).await));
    assert_eq!(put, Ok(true));
}

#[test]
fn a_copied_node_answers_for_keys_without_a_row_until_its_lease_is_over() {
    let made = cluster_on(IndexKind::Ordered, 64, Order::Logical);
    let (home, id) = (ServerId::new(0), made.table.id());
    let is_remote = |key: &u64| made.map.reader(id, &key.to_be_bytes(), home) != home;
    let absent: Vec<u64> = (100..200).filter(is_remote).take(2).collect();
    let cache = cache(ReusePolicy::Always);
    let (mut reader, mut writer) = (client_of(&made, 1, &cache), made.another(2));
    assert_eq!(get(&mut reader, &made.table, absent[0]), Ok(None));
    let before = reader.counts();
    // It is of the same leaf.
    assert_eq!(get(&mut reader, &made.table, absent[1]), Ok(None));
    put(&mut writer, &made.table, absent[0]);
    // It is as if this had come before.
    assert_eq!(get(&mut reader, &made.table, absent[0]), Ok(None));
    assert_eq!(reader.counts().messages, before.messages);
    reader.raise_floor(writer.floor());
    assert_eq!(get(&mut reader, &made.table, absent[0]), Ok(Some(1)));
    assert_eq!((reader.counts().aborts, cache.counts().stale), (1, 1));
    // What a client has put in it finds.
    assert_eq!(get(&mut reader, &made.table, absent[1]), Ok(None));
    put(&mut reader, &made.table, absent[1]);
    assert_eq!(get(&mut reader, &made.table, absent[1]), Ok(Some(1)));
    assert_eq!(reader.counts().aborts, 1);
}

/// Whoever has put a row in does not rely on a copy of what its node was before, which he has made stale himself.
#[test]
fn whoever_has_put_a_row_in_asks_for_the_others_of_its_node() {
    let made = cluster_on(IndexKind::Ordered, 64, Order::Logical);
    let (home, id) = (ServerId::new(0), made.table.id());
    let is_remote = |key: &u64| made.map.reader(id, &key.to_be_bytes(), home) != home;
    let absent: Vec<u64> = (100..200).filter(is_remote).take(6).collect();
    let cache = cache(ReusePolicy::Always);
    let mut client = client_of(&made, 1, &cache);
    for key in &absent[..5] {
        // The node is copied, until he puts something in.
        assert_eq!(get(&mut client, &made.table, absent[5]), Ok(None));
        let put: Result<_, ClusterAbort> = run(client.transact(async |tx| {
            Ok((tx.insert(&made.table, *key, 1).await?, tx.get(&made.table, absent[5]).await?))
        }));
        assert_eq!(put, Ok((true, None)));
    }
    assert_eq!((client.counts().aborts, cache.counts().stale), (0, 0));
}

#[test]
fn a_range_is_read_out_of_copies_until_a_row_of_it_is_written() {
    let made = cluster_on(IndexKind::Ordered, 64, Order::Logical);
    let (cache, key) = (cache(ReusePolicy::Always), remote(&made)[0]);
    let (mut reader, mut writer) = (client_of(&made, 1, &cache), made.another(2));
    let scan = |client: &mut Client<Direct>, reverse: bool| {
        let rows: Result<_, ClusterAbort> =
            run(client.transact(async |tx| tx.range(&made.table, key..=key, reverse, 10).await));
        rows.unwrap()
    };
    // Asked for; and looked at, as the node was never relied on at that time.
    for _ in 0..2 {
        assert_eq!(scan(&mut reader, false), [(key, key as i64 * 100)]);
    }
    let before = reader.counts();
    for reverse in [false, true] {
        assert_eq!(scan(&mut reader, reverse), [(key, key as i64 * 100)]);
    }
    assert_eq!(reader.counts().messages, before.messages);
    set(&mut writer, &made.table, key, 5);
    reader.raise_floor(writer.floor());
    assert_eq!(scan(&mut reader, false), [(key, 5)]);
    assert_eq!(reader.counts().aborts, 1);
}
