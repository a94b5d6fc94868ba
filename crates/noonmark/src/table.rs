//! Tables, untyped: keys and values as bytes, a protocol, indexes.

use crate::abort::TableInfo;
use crate::group::Size;
use crate::index::{Finger, HashIndex, Inserted, KeyClass, Lookup, NodeStamp, OrderedIndex, RecordShape};
use crate::key::KeyBytes;
use crate::lines;
use crate::protocol::{Place, Protocol};
use crate::record::{Layout, RecordPtr, WHOLE_CELL_AT};
use noonmark_core::sync::AtomicBool;
use noonmark_core::{Epochs, Limbo, Line};
use std::any::TypeId;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// Which index a table's keys are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// For single keys: one step, but no order and no ranges.
    Hash,
    /// For single keys and ranges.
    Ordered,
}

/// What has a timestamp of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// Each column group [Granularity §3.4].
    Fine,
    /// Each row.
    Coarse,
    /// Each row, until conflicts over it turn out to be between transactions that want different column groups of it: then
    /// each column group of that row, for as long as it is written. Nobody names a row or a group [Granularity §5].
    ///
    /// Made for rows of several column groups of which a few are hot, nobody knows which. A record takes a version word, and the
    /// protocol's words beside it, more for each group, and one word. With one group it is coarse. Not for protocols
    /// that keep versions (`fixed`), which is a [`SchemaError`](crate::SchemaError).
    Splitting,
}

/// What `sundial` does besides for a table, so that fewer transactions abort because a lease cannot be renewed [Sundial §5.1]: by
/// default nothing. It has an effect in databases in logical order only, and none under other protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// Leases of what is read are extended at once: to the earliest time at which the transaction may still commit, and by so
    /// many ticks more. Whoever writes the row meanwhile comes after that. A transaction's time is after the lease of what it
    /// writes; so what it reads after it has come to that row is extended far enough, and what it has read before is not. The
    /// ticks more use up logical time, of which there are 2^50 ticks: so many with each write at most.
    pub extended_by: Option<u8>,
    /// Of so many versions before the current one it is known when they were replaced, since it is kept when versions were
    /// written: of no more than [`WRITE_TIMES_MAX`]. A read of one of them holds until then, without a lease. Takes so many
    /// words in each cell, and one more.
    pub write_times: u8,
}

/// The most versions before the current one whose write times can be kept.
pub const WRITE_TIMES_MAX: u8 = 8;

impl Leases {
    /// Words that they take in each cell: the current version's write time is among them, since a lock hides the version.
    pub(crate) fn words(self) -> usize {
        match self.write_times.min(WRITE_TIMES_MAX) {
            0 => 0,
            before => usize::from(before) + 1,
        }
    }
}

/// The index of a table.
pub(crate) enum Index {
    Hash(HashIndex),
    Ordered(OrderedIndex),
}

impl Index {
    /// For keys of this many bytes, if all have as many, and records that are laid out like this.
    pub(crate) fn new(
        kind: IndexKind,
        key_bytes: Option<usize>,
        layout: &Layout,
        expected_rows: usize,
    ) -> Self {
        let class = KeyClass::of(key_bytes);
        let shape = key_bytes.map(|key_bytes| RecordShape { key_bytes, block: layout.block(key_bytes) });
        match kind {
            IndexKind::Hash => Index::Hash(HashIndex::new(class, expected_rows, shape)),
            IndexKind::Ordered => Index::Ordered(OrderedIndex::new(class, expected_rows, shape)),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: &[u8], finger: &mut Finger) -> Lookup {
        match self {
            Index::Hash(index) => index.get(key),
            Index::Ordered(index) => index.get(key, finger),
        }
    }

    #[inline(always)]
    pub(crate) fn find_many<'k>(
        &self,
        keys: impl Fn(usize) -> &'k [u8],
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) {
        match self {
            Index::Hash(index) => index.find_many(keys, found, soon),
            Index::Ordered(index) => index.find_many(keys, found, soon),
        }
    }

    /// The same of at most [`ABREAST`](crate::index::ABREAST) keys, for those that [`Index::find_many_direct`] has not found.
    #[inline(always)]
    pub(crate) fn find_many_beyond<'k>(
        &self,
        keys: impl Fn(usize) -> &'k [u8],
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) {
        match self {
            Index::Hash(index) => index.find_many_beyond(keys, found, soon),
            Index::Ordered(index) => index.find_many_beyond(keys, found, soon),
        }
    }

    /// The same of at most [`ABREAST`](crate::index::ABREAST) keys by their tags ([`tag_of`](crate::index::tag_of)), where it is known at once: whether all were found.
    #[inline(always)]
    pub(crate) fn find_many_direct(
        &self,
        tags: impl Iterator<Item = u64> + Clone,
        found: &mut [Option<RecordPtr>],
        soon: impl Fn(RecordPtr),
    ) -> bool {
        match self {
            Index::Hash(index) => index.find_many_direct(tags, found, soon),
            Index::Ordered(index) => index.find_many_direct(tags, found, soon),
        }
    }

    pub(crate) fn get_or_insert(
        &self,
        key: &[u8],
        limbo: &mut Limbo,
        epochs: &Epochs,
        finger: &mut Finger,
        prepare: impl FnMut(),
        make: impl FnOnce(&NodeStamp, Option<NonNull<u64>>) -> RecordPtr,
    ) -> Inserted {
        match self {
            Index::Hash(index) => index.get_or_insert(key, limbo, epochs, prepare, make),
            Index::Ordered(index) => index.get_or_insert(key, finger, prepare, make),
        }
    }

    pub(crate) fn remove(
        &self,
        key: &[u8],
        record: RecordPtr,
        wts: u64,
        rts: u64,
        limbo: &mut Limbo,
        epochs: &Epochs,
    ) -> bool {
        match self {
            Index::Hash(index) => index.remove(key, record, wts, rts, limbo, epochs),
            Index::Ordered(index) => index.remove(key, record, wts, rts, limbo, epochs),
        }
    }

    /// Frees the memory of a record that it has forgotten.
    ///
    /// # Safety
    /// As [`RecordPtr::free`], of a record that was made with this layout, in memory that came from here or from
    /// [`RecordPtr::allocate`]; nobody can find it.
    unsafe fn free_record(&self, record: RecordPtr, layout: &Layout) {
        // SAFETY: passed on.
        unsafe {
            record.free_values(layout);
            match self {
                Index::Hash(index) if index.take_back(record) => {}
                Index::Ordered(index) if index.take_back(record) => {}
                _ => record.free(layout),
            }
        }
    }

    /// Frees all records, which it must not be asked for any more.
    ///
    /// # Safety
    /// As [`Index::free_record`], of each of them.
    unsafe fn free_all(&mut self, layout: &Layout) {
        // SAFETY: passed on.
        unsafe {
            match self {
                Index::Hash(index) => {
                    index.for_each(|record| record.free_values(layout));
                    // The memory of the others goes with the index.
                    index.for_each_elsewhere(|record| record.free(layout));
                }
                Index::Ordered(index) => {
                    index.for_each(|record| record.free_values(layout));
                    index.for_each_elsewhere(|record| record.free(layout));
                }
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Index::Hash(index) => index.memory_bytes(),
            Index::Ordered(index) => index.memory_bytes(),
        }
    }
}

/// How to make a table. The default: ordered, fine; in a database `occ`, in a cluster what that says.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// `None`: the default of whoever makes the table.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) index: IndexKind,
    pub(crate) granularity: Granularity,
    pub(crate) apart: bool,
    pub(crate) expected_rows: usize,
    pub(crate) leases: Leases,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            protocol: None,
            index: IndexKind::Ordered,
            granularity: Granularity::Fine,
            apart: false,
            expected_rows: 0,
            leases: Leases::default(),
        }
    }
}

impl TableOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The table's concurrency control.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// The table's concurrency control, if none has been chosen: the default of whoever hands these options on to a database.
    pub fn protocol_or(mut self, protocol: Protocol) -> Self {
        self.protocol.get_or_insert(protocol);
        self
    }

    /// Which index its keys are in.
    pub fn index(mut self, index: IndexKind) -> Self {
        self.index = index;
        self
    }

    /// What has a timestamp of its own.
    pub fn granularity(mut self, granularity: Granularity) -> Self {
        self.granularity = granularity;
        self
    }

    /// Whether each column group begins on a cache line of its own, where each has a timestamp of its own ([`Granularity::Fine`]): who reads one does not
    /// wait for the line then on which another is written. The first group shares the line of the record's header; the key lies there too if there is room
    /// before that group, and otherwise behind the last one, where it is looked at if keys are longer than 8 bytes: let what is written most be in
    /// between then. For few rows that many write; a record takes up to a line more for each group after the first.
    ///
    /// ```
    /// # use noonmark::{column_group, Database, TableOptions};
    /// column_group! { #[derive(Debug)] pub struct Address { pub city: [u8; 20] } }
    /// column_group! { #[derive(Debug)] pub struct Takings { pub cents: i64 } }
    ///
    /// let db = Database::in_memory();
    /// let shops = db.create_table::<u16, (Address, Takings)>("shops", TableOptions::new().apart(true))?;
    /// # let _ = shops;
    /// # Ok::<(), noonmark::SchemaError>(())
    /// ```
    pub fn apart(mut self, apart: bool) -> Self {
        self.apart = apart;
        self
    }

    /// About how many rows there will be (0, as without: nobody knows). A hint, and never wrong, only more or less of use.
    ///
    /// If keys have one length of at most 8 bytes (numbers up to `u64`, short tuples of them), and rows one shape, a row may lie in a *place* that
    /// follows from its key: it is found with one wait for memory instead of two, or than a way down a tree. (Scans, and
    /// looking for keys that are not there, go by the tree.) A place takes 8 bytes beside the record that it is for.
    ///
    /// - *Without the hint* places grow with the rows, to at most 8/3 as many as there have been at once. Numbers that count up from about zero,
    ///   with a sign or without, all have one; of numbers that are as dense but come in any order, three in four. Others have none: scattered
    ///   ones, pairs, and those that go on counting up while the rows before them are deleted.
    /// - *With it* so many places are set aside at once, twice as many at most, of which those that are never used take no memory as far as whole
    ///   pages go, and no others are made later. Keys that count up all have one, from wherever they begin, also when the rows before
    ///   them are deleted; so have, mostly, pairs whose last part counts up; of as many scattered keys as places 63 in a hundred. Where there is
    ///   not so much memory, there are no places. If it is far too small, most rows have none: no hint is better.
    pub fn expected_rows(mut self, rows: usize) -> Self {
        self.expected_rows = rows;
        self
    }

    /// What the table does besides under `sundial`; nothing under other protocols.
    pub fn leases(mut self, leases: Leases) -> Self {
        self.leases = leases;
        self
    }
}

/// Which key types and row types a table was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypePair {
    pub key: TypeId,
    pub row: TypeId,
}

/// A table.
pub(crate) struct TableCore {
    /// Its number in the database.
    pub id: u32,
    /// Which database it is of.
    pub database: u64,
    pub info: Arc<TableInfo>,
    pub types: TypePair,
    pub protocol: Protocol,
    pub kind: IndexKind,
    pub granularity: Granularity,
    /// Of its column groups.
    pub sizes: &'static [Size],
    /// Of a record, or, if it [can be split](crate::splitting), of one that is whole, as all are at first.
    pub layout: Layout,
    /// Of a record that is split, over the same words, if records can be.
    pub split: Option<Box<Layout>>,
    /// `protocol.aux_words(..)` of this database, and those of the leases.
    pub aux_words: usize,
    /// Nothing unless the protocol has leases.
    pub leases: Leases,
    pub index: Index,
    /// Its secondary indexes, in the order in which they were made; never taken away.
    pub secondaries: [OnceLock<Secondary>; SECONDARIES_MAX],
    /// Whether there has ever been a record: then it is too late for another secondary index. Set before the first one
    /// can be found. So whoever has found a record sees all indexes that there will ever be; before that, he may
    /// see too few.
    pub populated: AtomicBool,
}

/// The most secondary indexes that a table can have.
pub const SECONDARIES_MAX: usize = 8;

/// Works out the key of a secondary index's entry from a key and the row's
/// groups, from the first that the index depends on.
pub(crate) type Extract = Box<dyn Fn(&[u8], &crate::group::RowReader<'_>) -> KeyBytes + Send + Sync>;

/// A secondary index: an ordered table without values, keyed by the extracted key and the primary.
pub(crate) struct Secondary {
    pub entries: Arc<TableCore>,
    /// The groups that its keys are worked out from.
    pub groups: std::ops::Range<usize>,
    pub extract: Extract,
}

impl Secondary {
    /// Whether an entry may change when these groups do.
    pub(crate) fn depends_on(&self, groups: &std::ops::Range<usize>) -> bool {
        self.groups.start < groups.end && groups.start < self.groups.end
    }
}

impl TableCore {
    /// How this record is laid out now: by the time that its caller uses that, it may be split, or whole again. Then
    /// the cells of this layout are as if the record had left its index, and the caller looks again.
    ///
    /// The caller is pinned since it found the record, which is one of this table's.
    #[inline(always)]
    pub(crate) fn layout_of(&self, record: RecordPtr) -> &Layout {
        match &self.split {
            // SAFETY: the caller is pinned, and in a table that splits each record has such a cell.
            Some(split) if unsafe { record.cell(WHOLE_CELL_AT as usize, 0) }.word.load().is_reclaimed() => {
                split
            }
            _ => &self.layout,
        }
    }

    /// The layout that has a cell at this offset.
    #[inline(always)]
    pub(crate) fn layout_at(&self, at: u32) -> &Layout {
        match &self.split {
            Some(split) if !self.is_whole(at) => split,
            _ => &self.layout,
        }
    }

    /// Whether the record has been split since it had a cell at this offset, or is whole again.
    ///
    /// As [`TableCore::layout_of`].
    #[cold]
    pub(crate) fn has_been_regrouped(&self, record: RecordPtr, at: u32) -> bool {
        // SAFETY: the caller is pinned, and the cell is of this table's layouts.
        let word = unsafe { record.cell(at as usize, 0) }.word.load();
        word.is_reclaimed() && self.is_still_there(record)
    }

    /// Of a table that splits: whether the record has cells at all, and so is in its index.
    ///
    /// As [`TableCore::layout_of`].
    #[cold]
    pub(crate) fn is_still_there(&self, record: RecordPtr) -> bool {
        // SAFETY: the caller is pinned, and the cell is of this table's layouts.
        let word = unsafe { record.cell(self.layout_of(record).cells()[0], 0) }.word.load();
        self.split.is_some() && !word.is_reclaimed()
    }

    /// Whether the cell at this offset is that of a whole record in a table that splits.
    #[inline(always)]
    pub(crate) fn is_whole(&self, at: u32) -> bool {
        self.split.is_some() && at == WHOLE_CELL_AT
    }

    /// Its secondary indexes.
    #[inline(always)]
    pub(crate) fn secondaries(&self) -> impl Iterator<Item = &Secondary> {
        self.secondaries.iter().map_while(OnceLock::get)
    }

    #[inline(always)]
    pub(crate) fn has_secondaries(&self) -> bool {
        self.secondaries[0].get().is_some()
    }

    /// Whether a secondary index has entries that may change when these groups do.
    #[inline(always)]
    pub(crate) fn keeps_entries_of(&self, groups: &std::ops::Range<usize>) -> bool {
        self.has_secondaries() && self.secondaries().any(|s| s.depends_on(groups))
    }
}

impl Drop for TableCore {
    fn drop(&mut self) {
        let layout = &self.layout;
        // SAFETY: nobody else refers to the table, so no transaction is left that could refer to
        // its records; each is in the index once, and those that have left it are not freed here.
        unsafe { self.index.free_all(layout) };
    }
}

/// A table, for as long as its database lasts.
///
/// Tables are never dropped before their database, and whoever has a `TableRef` belongs to a session,
/// which keeps the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableRef(std::ptr::NonNull<TableCore>);

// SAFETY: like a shared reference to a `TableCore`, which is `Sync`.
unsafe impl Send for TableRef {}
// SAFETY: as above.
unsafe impl Sync for TableRef {}

impl TableRef {
    /// A reference to one of the tables of the caller's database.
    #[inline(always)]
    pub(crate) fn new(table: &TableCore) -> Self {
        TableRef(std::ptr::NonNull::from(table))
    }

    /// The table.
    #[inline(always)]
    pub(crate) fn get<'a>(self) -> &'a TableCore {
        // SAFETY: see the type: the table outlives every session, and so every use of this.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn as_ptr(self) -> *const TableCore {
        self.0.as_ptr()
    }
}

impl Place {
    /// The number of the cell among those of its record; none of a whole record in a table that splits.
    #[cold]
    pub(crate) fn cell(&self) -> usize {
        let t = self.table.get();
        if t.is_whole(self.at) {
            return usize::MAX;
        }
        t.layout_at(self.at).cells().iter().position(|at| *at == self.at as usize).unwrap_or(usize::MAX)
    }

    /// The cell's logical line.
    pub(crate) fn line(&self) -> Line {
        // SAFETY: the rule is asked by a transaction that is pinned.
        lines::of_record(self.table, unsafe { self.record.key() }, self.at)
    }
}

/// Frees a record that left its index: the argument is the address of its table.
///
/// # Safety
/// As [`RecordPtr::free`]; the table still exists.
pub(crate) unsafe fn free_record(record: *mut u8, table: usize) {
    let Some(record) = std::ptr::NonNull::new(record.cast::<u64>()) else { return };
    // SAFETY: promised by the caller.
    unsafe {
        let table = &*std::ptr::with_exposed_provenance::<TableCore>(table);
        table.index.free_record(RecordPtr::new(record), &table.layout);
    }
}
