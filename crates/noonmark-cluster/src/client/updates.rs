//! Commit-time updates: changes of a row that the transaction has not read, made by the server that has the row.
//!
//! The client sends the *update*, not a value: a number at a place of a column group is added to, or made the least or the greatest, or bytes come
//! at the end of a list ([`PlainUpdate`]). The server keeps it and applies it to what is there once it has the row sealed, before it votes
//! ([`Branch::update`](noonmark::branch::Branch::update)). So two transactions that add to one row and read nothing of it have nothing that must
//! still be so at the commit: whichever comes second adds to what the first has left.
//!
//! No answer is waited for. The update goes along with the next message to its server, which for a row that is only added to is the one in
//! which that prepares, or commits: it costs no message of its own. But nobody has said before from when on the row can be written. If several
//! servers have a say, and one of them says *later* to the time that they are asked about, they are asked once more.
//!
//! # When it is an ordinary update
//!
//! An update that cannot be sent, or that would spare nothing, is [`Transaction::update`], which reads the row, changes it here and sends the new
//! value:
//!
//! - of a number of a type of the user's own ([`Number::plain`]), whose sum no server knows;
//! - of a column group that a secondary index depends on: the entries before and after must be known when the row is locked;
//! - of a row that the transaction has read out of a copy: its server does not know of that, and must look first whether the copy is current.
//!
//! What the transaction has read or written at the server before, the server updates at once, and what it reads later it finds updated: both as
//! in one engine.
//!
//! # When there is no such row
//!
//! That comes out when it is too late to say so: the transaction is about to commit, and perhaps would not if all that it has read were looked
//! at. So the attempt ends as by a conflict, and from then on the client has its updates answered at once, until one of its transactions has
//! ended otherwise: then the row is looked for, found missing, and that is told once it is certain.
//!
//! What it does not do: send closures. Whoever has one gives it to [`Transaction::update`].

use super::transaction::missing;
use super::{Link, Table, Transaction};
use crate::cache::Place;
use crate::client::ClusterAbort;
use crate::message::Operation;
use noonmark::branch::{NumberUpdate, PlainUpdate};
use noonmark::{AsKey, Column, Field, Fold, Group, Key, KeyBytes, Number, Row};

impl<L: Link> Transaction<'_, L> {
    /// Adds to a number when the transaction commits, without reading it; integers wrap around at the end of their range.
    ///
    /// ```
    /// # use noonmark_cluster::client::{ClusterAbort, Link, Table, Transaction};
    /// noonmark::column_group! { pub struct Stock { pub count: i64, pub sold: u64 } }
    ///
    /// # async fn sell<L: Link>(tx: &mut Transaction<'_, L>, stock: &Table<u64, Stock>) -> Result<(), ClusterAbort> {
    /// tx.add(stock, 42, noonmark::columns::<Stock>().sold, 1).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// A [`ClusterAbort`], which ends the transaction: return it. That there is no such row may come out only when the transaction
    /// commits, as [`ClusterAbort::Missing`] in either case.
    pub async fn add<K: Key, G: Group + Row, N: Number + Field>(
        &mut self,
        table: &Table<K, G>,
        key: impl AsKey<K>,
        column: Column<G, N>,
        delta: N,
    ) -> Result<(), ClusterAbort> {
        self.fold(table, KeyBytes::of(&key), column, Fold::Add, delta).await
    }

    /// Makes a number the smaller of itself and another when the transaction commits, without reading it.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub async fn min<K: Key, G: Group + Row, N: Number + Field>(
        &mut self,
        table: &Table<K, G>,
        key: impl AsKey<K>,
        column: Column<G, N>,
        other: N,
    ) -> Result<(), ClusterAbort> {
        self.fold(table, KeyBytes::of(&key), column, Fold::Min, other).await
    }

    /// Makes a number the larger of itself and another when the transaction commits, without reading it.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub async fn max<K: Key, G: Group + Row, N: Number + Field>(
        &mut self,
        table: &Table<K, G>,
        key: impl AsKey<K>,
        column: Column<G, N>,
        other: N,
    ) -> Result<(), ClusterAbort> {
        self.fold(table, KeyBytes::of(&key), column, Fold::Max, other).await
    }

    /// Adds bytes at the end of a value when the transaction commits, without reading it. In what order several transactions' bytes come is the
    /// order of their commits.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub async fn append<K: Key>(
        &mut self,
        table: &Table<K, Vec<u8>>,
        key: impl AsKey<K>,
        bytes: &[u8],
    ) -> Result<(), ClusterAbort> {
        let key = KeyBytes::of(&key);
        if self.can_send(table, key.as_slice()) {
            return self.update_at_commit(table, key, PlainUpdate::Append(bytes.to_vec())).await;
        }
        self.update_by_key(table, key, |list| list.extend_from_slice(bytes)).await
    }

    async fn fold<K: Key, G: Group + Row, N: Number + Field>(
        &mut self,
        table: &Table<K, G>,
        key: KeyBytes,
        column: Column<G, N>,
        fold: Fold,
        other: N,
    ) -> Result<(), ClusterAbort> {
        if let Some(update) = NumberUpdate::of(column, fold, other)
            && self.can_send(table, key.as_slice())
        {
            return self.update_at_commit(table, key, PlainUpdate::Number(update)).await;
        }
        let change = |group: &mut G| {
            let number = column.field()(group);
            *number = fold.of(*number, other);
        };
        self.update_by_key(table, key, change).await
    }

    /// Whether updates of this row can be made at its server, without having been read.
    fn can_send<K: Key, R: Row>(&self, table: &Table<K, R>, key: &[u8]) -> bool {
        let is_indexed = |groups: &std::ops::Range<usize>| {
            groups.start < table.groups.end && table.groups.start < groups.end
        };
        let has_seen =
            self.client.remote.seen.iter().any(|(seen, _)| seen.table == table.id && seen.key == key);
        !has_seen && !self.client.map.indexed(table.id).iter().any(is_indexed)
    }

    async fn update_at_commit<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: KeyBytes,
        update: PlainUpdate,
    ) -> Result<(), ClusterAbort> {
        if self.failed.is_some() {
            return Err(ClusterAbort::Continued);
        }
        let place = self.client.place(table.id, key.as_slice(), &table.groups);
        let operation = Operation::Update {
            table: table.id,
            key: key.as_slice().to_vec(),
            group: table.groups.start,
            update,
        };
        if self.client.looks_first {
            let there = self.change(operation).await?;
            return if there { Ok(()) } else { Err(missing::<K>(key.as_slice())) };
        }
        for server in self.client.map.writers(table.id, key.as_slice()) {
            self.client.coordinator.defer_unannounced(server, operation.clone());
            self.note_write(Place { server, ..place.clone() }, None);
        }
        Ok(())
    }
}
