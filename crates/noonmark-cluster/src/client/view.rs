//! Transactions that only read.

use super::{ClusterAbort, Index, Link, Table, Transaction};
use noonmark::{AsKey, Key, Row};
use std::ops::RangeBounds;

/// A transaction that only reads: see [`Client::view`](super::Client::view).
///
/// ```
/// use noonmark::TableOptions;
/// use noonmark_cluster::{Cluster, ClusterAbort, Partitioning, block_on};
///
/// let cluster = Cluster::builder().workers(2).build()?;
/// let by_key = Partitioning::Hash { prefix_bytes: 8 };
/// let stock = cluster.create_table::<u64, i64>("stock", TableOptions::new(), by_key)?;
/// block_on(cluster.transact(async |tx| {
///     tx.insert(&stock, 1, 3).await?;
///     tx.insert(&stock, 2, 4).await
/// }))?;
/// let both = block_on(cluster.view(async |tx| {
///     Ok::<_, ClusterAbort>(tx.get_many(&stock, &[1, 2]).await?.into_iter().flatten().sum::<i64>())
/// }))?;
/// assert_eq!(both, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct View<'c, L>(pub(super) Transaction<'c, L>);

impl<L: Link> View<'_, L> {
    /// As [`Transaction::get`].
    ///
    /// # Errors
    /// As there.
    pub async fn get<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
    ) -> Result<Option<R>, ClusterAbort> {
        self.0.get(table, key).await
    }

    /// As [`Transaction::need`].
    ///
    /// # Errors
    /// As there.
    pub async fn need<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
    ) -> Result<R, ClusterAbort> {
        self.0.need(table, key).await
    }

    /// As [`Transaction::get_many`].
    ///
    /// # Errors
    /// As there.
    pub async fn get_many<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        keys: &[K],
    ) -> Result<Vec<Option<R>>, ClusterAbort> {
        self.0.get_many(table, keys).await
    }

    /// As [`Transaction::range`].
    ///
    /// # Errors
    /// As there.
    pub async fn range<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        keys: impl RangeBounds<K>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(K, R)>, ClusterAbort> {
        self.0.range(table, keys, reverse, limit).await
    }

    /// As [`Transaction::range_by`].
    ///
    /// # Errors
    /// As there.
    pub async fn range_by<S: Key, K: Key>(
        &mut self,
        index: &Index<S, K>,
        keys: impl RangeBounds<S>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(S, K)>, ClusterAbort> {
        self.0.range_by(index, keys, reverse, limit).await
    }
}
