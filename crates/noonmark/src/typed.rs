//! Tables, column groups and secondary indexes as applications see them.

use crate::abort::TableInfo;
use crate::database::{Database, SchemaError, show_key};
use crate::group::{HasGroup, Row};
use crate::key::{Key, KeyBytes};
use crate::protocol::Protocol;
use crate::table::{Granularity, IndexKind, Secondary, TableCore, TableOptions, TypePair};
use noonmark_core::Host;
use noonmark_core::sync::Ordering;
use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// A table: a handle, cheap to clone, `Send` and `Sync`.
pub struct Table<K, R> {
    core: Arc<TableCore>,
    types: PhantomData<fn() -> (K, R)>,
}

/// One column group of a table: a handle, cheap to clone, `Send` and `Sync`.
pub struct ColumnGroup<K, G> {
    core: Arc<TableCore>,
    group: usize,
    types: PhantomData<fn() -> (K, G)>,
}

/// An ordered secondary index, kept up by the transactions that change its table.
pub struct SecondaryIndex<S, K> {
    pub(crate) core: Arc<TableCore>,
    types: PhantomData<fn() -> (S, K)>,
}

impl<K, R> Clone for Table<K, R> {
    fn clone(&self) -> Self {
        Table { core: self.core.clone(), types: PhantomData }
    }
}

impl<K, G> Clone for ColumnGroup<K, G> {
    fn clone(&self) -> Self {
        ColumnGroup { core: self.core.clone(), group: self.group, types: PhantomData }
    }
}

impl<S, K> Clone for SecondaryIndex<S, K> {
    fn clone(&self) -> Self {
        SecondaryIndex { core: self.core.clone(), types: PhantomData }
    }
}

impl<K: Key, R: Row> Table<K, R> {
    pub(crate) fn new(core: Arc<TableCore>) -> Self {
        Table { core, types: PhantomData }
    }

    pub(crate) fn core_arc(&self) -> Arc<TableCore> {
        self.core.clone()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.core.info.name
    }

    /// Its protocol.
    pub fn protocol(&self) -> Protocol {
        self.core.protocol
    }

    /// What has a timestamp of its own in it.
    pub fn granularity(&self) -> Granularity {
        self.core.granularity
    }

    /// What kind of index its keys are in.
    pub fn index_kind(&self) -> IndexKind {
        self.core.kind
    }

    /// Bytes that a record with a key of this many bytes takes, without the allocator's own: header,
    /// timestamps, values of fixed size and the key. Values of variable size take 8 bytes and their
    /// own, rounded up to 8, besides.
    pub fn record_bytes(&self, key_bytes: usize) -> usize {
        self.core.layout.record_bytes(key_bytes)
    }

    /// Bytes that the index takes now.
    pub fn index_bytes(&self) -> usize {
        self.core.index.memory_bytes()
    }

    /// One of its column groups, to read and write by itself.
    pub fn group<const N: usize>(&self) -> ColumnGroup<K, R::Group>
    where
        R: HasGroup<N>,
    {
        // What lies in the record is read as what the group's type says, so they must agree.
        const {
            assert!(N < R::SIZES.len(), "the row has no such column group");
            let [size] = <R::Group as Row>::SIZES else { panic!("a column group is a row of one group") };
            assert!(size.is(R::SIZES[N]), "the column group is not of the size that the row says");
        }
        ColumnGroup { core: self.core.clone(), group: N, types: PhantomData }
    }

    /// Makes an ordered secondary index by a key that is worked out from a row. Different rows may
    /// have the same: entries are ordered by it and then by primary key.
    ///
    /// An index on a [column group](ColumnGroup::create_index) costs less: writes of other groups pass
    /// it by.
    ///
    /// If `key_of` panics, the operation that changes the row has failed: whoever catches the panic inside the
    /// transaction cannot commit it.
    ///
    /// # Errors
    /// [`SchemaError`] if there are rows, or eight such indexes, already.
    pub fn create_index<S: Key, H: Host>(
        &self,
        db: &Database<H>,
        name: &str,
        key_of: impl Fn(&K, &R) -> S + Send + Sync + 'static,
    ) -> Result<SecondaryIndex<S, K>, SchemaError> {
        create_index(&self.core, 0..R::SIZES.len(), db, name, key_of)
    }
}

impl<K: Key, G: Row> ColumnGroup<K, G> {
    /// Makes an ordered secondary index by a key that is worked out from this column group.
    ///
    /// # Errors
    /// As [`Table::create_index`].
    pub fn create_index<S: Key, H: Host>(
        &self,
        db: &Database<H>,
        name: &str,
        key_of: impl Fn(&K, &G) -> S + Send + Sync + 'static,
    ) -> Result<SecondaryIndex<S, K>, SchemaError> {
        create_index(&self.core, self.group..self.group + 1, db, name, key_of)
    }
}

fn create_index<S: Key, K: Key, V: Row, H: Host>(
    core: &Arc<TableCore>,
    groups: Range<usize>,
    db: &Database<H>,
    name: &str,
    key_of: impl Fn(&K, &V) -> S + Send + Sync + 'static,
) -> Result<SecondaryIndex<S, K>, SchemaError> {
    if core.database != db.shared.id {
        return Err(SchemaError::ForeignTable(core.info.name.clone()));
    }
    // One at a time: from the look for a place to its taking.
    let _making = db.shared.index_making.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if core.populated.load(Ordering::Relaxed) {
        return Err(SchemaError::NotEmpty(core.info.name.clone()));
    }
    let Some(place) = core.secondaries.iter().find(|s| s.get().is_none()) else {
        return Err(SchemaError::TooManyIndexes(core.info.name.clone()));
    };
    let info = TableInfo {
        name: format!("{}.{name}", core.info.name),
        groups: vec!["entry"],
        coarse: false,
        show_key: show_key::<(S, K)>,
    };
    // A type that nobody else can name, so that nobody opens it as a table of his own and writes what no row has.
    struct Entry;
    let types = TypePair { key: TypeId::of::<(S, K)>(), row: TypeId::of::<Entry>() };
    let options = TableOptions::new().protocol(core.protocol).index(IndexKind::Ordered);
    let entries = db.add_table(info, types, <() as Row>::SIZES, <(S, K)>::FIXED_BYTES, &options)?;
    let extract = Box::new(move |key: &[u8], row: &crate::group::RowReader<'_>| {
        let mut bytes = KeyBytes::new();
        // The bytes are those of a key of this type: they were made from one.
        if let Some(key) = K::read(key) {
            key_of(&key, &V::decode_row(row)).write_delimited(&mut bytes);
            key.write_delimited(&mut bytes);
        }
        bytes
    });
    let secondary = Secondary { entries: entries.clone(), groups, extract };
    if place.set(secondary).is_err() {
        return Err(SchemaError::Exists(core.info.name.clone()));
    }
    // Again, in one step, now that it is there: who puts in the first row either sees it, or is seen here. (It is
    // kept up then, but nobody can read it.)
    if core.populated.fetch_or(false, Ordering::AcqRel) {
        return Err(SchemaError::NotEmpty(core.info.name.clone()));
    }
    Ok(SecondaryIndex { core: entries, types: PhantomData })
}

mod sealed {
    /// The untyped side, which is the crate's own.
    #[allow(private_interfaces, reason = "the trait cannot be named outside the crate")]
    pub trait Sealed {
        fn core(&self) -> &crate::table::TableCore;
        fn groups(&self) -> std::ops::Range<usize>;
    }
}
pub(crate) use sealed::Sealed;

/// What a transaction reads and writes: a [`Table`], whose values are whole rows, or a
/// [`ColumnGroup`], whose values are that group of each row.
pub trait Target: Sealed {
    /// The type of its keys.
    type Key: Key;
    /// The type of its values.
    type Value: Row;
}

#[allow(private_interfaces, reason = "the trait cannot be named outside the crate")]
impl<K: Key, R: Row> Sealed for Table<K, R> {
    #[inline(always)]
    fn core(&self) -> &TableCore {
        &self.core
    }
    #[inline(always)]
    fn groups(&self) -> Range<usize> {
        0..R::SIZES.len()
    }
}

impl<K: Key, R: Row> Target for Table<K, R> {
    type Key = K;
    type Value = R;
}

#[allow(private_interfaces, reason = "the trait cannot be named outside the crate")]
impl<K: Key, G: Row> Sealed for ColumnGroup<K, G> {
    #[inline(always)]
    fn core(&self) -> &TableCore {
        &self.core
    }
    #[inline(always)]
    fn groups(&self) -> Range<usize> {
        self.group..self.group + 1
    }
}

impl<K: Key, G: Row> Target for ColumnGroup<K, G> {
    type Key = K;
    type Value = G;
}

/// A target whose values are one column group: a column group, or a table that has but one.
pub trait GroupTarget: Target<Value: crate::group::Group> {}

impl<K: Key, G: Row + crate::group::Group> GroupTarget for Table<K, G> {}
impl<K: Key, G: Row + crate::group::Group> GroupTarget for ColumnGroup<K, G> {}

impl<K, R> std::fmt::Debug for Table<K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({:?}, {})", self.core.info.name, self.core.protocol)
    }
}

impl<K, G> std::fmt::Debug for ColumnGroup<K, G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = self.core.info.groups.get(self.group).unwrap_or(&"?");
        write!(f, "ColumnGroup({:?}.{group})", self.core.info.name)
    }
}

impl<S, K> std::fmt::Debug for SecondaryIndex<S, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecondaryIndex({:?})", self.core.info.name)
    }
}
