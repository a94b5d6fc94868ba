//! Handles of tables and of indexes: their numbers, with their types.

use crate::partition::TableId;
use noonmark::{Key, Row};
use std::marker::PhantomData;
use std::ops::Range;

/// A table of a cluster: a handle.
#[derive(Debug)]
pub struct Table<K, R> {
    pub(super) id: TableId,
    pub(super) groups: Range<usize>,
    types: PhantomData<fn() -> (K, R)>,
}

impl<K, R> Clone for Table<K, R> {
    fn clone(&self) -> Self {
        Table { id: self.id, groups: self.groups.clone(), types: PhantomData }
    }
}

impl<K: Key, R: Row> Table<K, R> {
    /// The table of this number, which was made with these types at every server.
    pub fn new(id: TableId) -> Self {
        Table { id, groups: 0..R::SIZES.len(), types: PhantomData }
    }

    /// One of its column groups.
    pub fn group<const N: usize>(&self) -> Table<K, R::Group>
    where
        R: noonmark::HasGroup<N>,
    {
        Table { id: self.id, groups: self.groups.start + N..self.groups.start + N + 1, types: PhantomData }
    }

    /// Its number.
    pub fn id(&self) -> TableId {
        self.id
    }
}

/// A secondary index of a table of a cluster: a handle. The servers keep it, each for the rows that it has.
#[derive(Debug)]
pub struct Index<S, K> {
    pub(super) id: TableId,
    types: PhantomData<fn() -> (S, K)>,
}

impl<S, K> Clone for Index<S, K> {
    fn clone(&self) -> Self {
        Index { id: self.id, types: PhantomData }
    }
}

impl<S: Key, K: Key> Index<S, K> {
    /// The index whose entries are the table of this number, and was made with these types at every server.
    pub fn new(id: TableId) -> Self {
        Index { id, types: PhantomData }
    }
}
