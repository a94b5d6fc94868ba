//! The papers' transactional variants: several operations on integer keys in one transaction.
//!
//! One workload does all of them; they differ in the [`Shape`] of the rows, in which keys are drawn ([`Keys`])
//! and in which operations are writes ([`Mix`]). A write is a read-modify-write of one column, since the rest of
//! its group stays as it is.
//!
//! One by one, the operations run in the order in which they were drawn. With multi-get, which is another run
//! and never to be compared with the first without saying so, a transaction's reads are handed over together,
//! then its writes, group by group.
//!
//! What it does not do: check anything afterwards. Values are overwritten at random, so there is no sum to keep.

use std::hint::black_box;
use std::ops::Range;

use super::properties::InsertOrder;
use crate::distribution::{Chooser, DistributionError, Scattered, fnv1a};
use crate::driver::memory;
use crate::random::Random;
use crate::store::{
    Granularity, IndexKind, Rows, Scope, Session, Store, StoreRow, Table, TableSpec, TxnResult,
};
use crate::workload::{Condition, Ring, RunError, Seat, Share, Workload};

/// Which keys a transaction draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Zipfian over all rows, the hot ones scattered; 0 is uniform.
    Zipfian {
        /// The skew.
        theta: f64,
    },
    /// [Dynamic §VII.A]: so many percent of the transactions stay within so many percent of the rows, the others
    /// without.
    Contention {
        /// The x of x:y.
        transactions_percent: f64,
        /// The y of x:y.
        rows_percent: f64,
        /// Whether each operation draws its side anew, so that x is of the operations: what the program does that the
        /// paper's authors published.
        by_operation: bool,
    },
}

/// Which operations are writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mix {
    /// Each is a read with this probability.
    EachReads {
        /// From 0 to 1.
        share: f64,
    },
    /// A transaction only reads with this probability; otherwise its last operations are writes.
    Whole {
        /// From 0 to 1.
        read_only_share: f64,
        /// Writes of a transaction that writes.
        writes: usize,
    },
}

/// The settings of a transactional variant.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionsSpec {
    /// Rows in the table.
    pub rows: u64,
    /// Operations of a transaction.
    pub operations: usize,
    /// Which keys it draws.
    pub keys: Keys,
    /// How the rows' numbers become keys: as they are, so that keys count up from zero, or by hash, spread over all there are.
    pub insert_order: InsertOrder,
    /// Whether all keys of a transaction are different.
    pub distinct: bool,
    /// Which operations are writes.
    pub mix: Mix,
    /// Whether a transaction goes through its keys upwards, instead of as they were drawn.
    pub ascending: bool,
    /// Whether a write overwrites the whole row without reading it, instead of changing a column.
    pub overwrites: bool,
    /// Whether reads are of even columns only, and writes of odd ones, instead of any.
    pub parts_columns: bool,
    /// Whether transactions that only read are counted, but not run: how [Dynamic §VII.A] measured its own scheme.
    pub skips_read_only: bool,
    /// Whether reads and writes are handed over together.
    pub multi_get: bool,
}

impl TransactionsSpec {
    /// [Granularity §3.3]: with [`EvenOddRows`].
    pub fn granularity() -> Self {
        TransactionsSpec {
            rows: 10_000_000,
            operations: 16,
            keys: Keys::Zipfian { theta: 0.9 },
            insert_order: InsertOrder::Ordered,
            distinct: false,
            mix: Mix::EachReads { share: 0.5 },
            ascending: false,
            overwrites: false,
            parts_columns: false,
            skips_read_only: false,
            multi_get: false,
        }
    }

    /// [Sundial §6.1] on one server: with [`Rows1k`]. The paper's partition of 10 GB is 10 million rows.
    pub fn sundial() -> Self {
        TransactionsSpec { distinct: true, mix: Mix::EachReads { share: 0.9 }, ..Self::granularity() }
    }

    /// [Dynamic §VII.A] at its defaults: with [`DynamicRows`], and 50 threads.
    pub fn dynamic() -> Self {
        TransactionsSpec {
            rows: 100_000,
            operations: 5,
            keys: Keys::Contention { transactions_percent: 50.0, rows_percent: 50.0, by_operation: false },
            insert_order: InsertOrder::Ordered,
            distinct: true,
            mix: Mix::Whole { read_only_share: 0.5, writes: 2 },
            ascending: false,
            overwrites: false,
            parts_columns: false,
            skips_read_only: false,
            multi_get: false,
        }
    }

    /// The key of the row of this number.
    fn key(&self, row: u64) -> u64 {
        match self.insert_order {
            InsertOrder::Ordered => row,
            InsertOrder::Hashed => fnv1a(row),
        }
    }

    /// That the settings go together.
    pub fn check(&self) -> Result<(), RunError> {
        let wrong = |what: String| Err(RunError::Setting(what));
        if self.rows == 0 {
            return wrong("there must be at least one row".into());
        }
        if self.ascending && self.multi_get {
            return wrong("multi-get has an order of its own: keys cannot be ascending besides".into());
        }
        if self.overwrites && self.multi_get {
            return wrong("multi-get changes columns: rows cannot be overwritten besides".into());
        }
        if self.operations == 0 || self.operations > 4096 {
            return wrong(format!("a transaction has 1 to 4096 operations, not {}", self.operations));
        }
        let share = match self.mix {
            Mix::EachReads { share } => share,
            Mix::Whole { read_only_share, writes } => {
                if writes > self.operations {
                    return wrong(format!(
                        "{writes} writes are more than all {} operations",
                        self.operations
                    ));
                }
                read_only_share
            }
        };
        if !(0.0..=1.0).contains(&share) {
            return wrong(format!("the share of reads must be from 0 to 1, not {share}"));
        }
        let fewest = match self.keys {
            Keys::Zipfian { .. } => self.rows,
            Keys::Contention { transactions_percent, rows_percent, .. } => {
                let percent = |value: f64| value > 0.0 && value < 100.0;
                if !percent(transactions_percent) || !percent(rows_percent) {
                    return wrong(format!(
                        "a contention ratio x:y wants both between 0 and 100, not {transactions_percent}:{rows_percent}"
                    ));
                }
                let hot = hot_rows(self.rows, rows_percent);
                hot.min(self.rows - hot)
            }
        };
        // Drawing until all are different must come to an end, and soon.
        let wanted = if self.distinct { self.operations as u64 * 2 } else { 1 };
        if fewest < wanted {
            return wrong(format!(
                "{fewest} rows to draw from are too few for {} operations",
                self.operations
            ));
        }
        Ok(())
    }
}

fn hot_rows(rows: u64, percent: f64) -> u64 {
    (rows as f64 * percent / 100.0) as u64
}

/// What the rows look like, and how one column of them is read and written.
pub trait Shape<S: Store>: Send + Sync + Sized {
    /// The row.
    type Row: StoreRow;
    /// Columns of a row.
    const COLUMNS: u64;
    /// Bytes of a column.
    const COLUMN_BYTES: usize;
    /// Column groups that columns are in.
    const GROUPS: usize;

    /// The handles for a table.
    fn new(store: &S, table: &S::Table<u64, Self::Row>) -> Self;

    /// Looks up the rows that the transaction will touch.
    fn look_up<'a, 'k>(&self, tx: &mut S::Txn<'a>, keys: &'k [u64]) -> S::Found<'a, 'k, u64>;

    /// The group that a column is in.
    fn group_of(column: u16) -> usize;

    /// A row with these bytes, which are as many as it has.
    fn row(bytes: &[u8]) -> Self::Row;

    /// Reads a column.
    fn read(&self, tx: &mut S::Txn<'_>, key: u64, column: u16) -> Result<(), S::Abort>;

    /// Overwrites a column.
    fn write(&self, tx: &mut S::Txn<'_>, key: u64, column: u16, value: &[u8]) -> Result<(), S::Abort>;

    /// Reads columns of one group, of some of the rows that were looked up.
    fn read_many(
        &self,
        tx: &mut S::Txn<'_>,
        group: usize,
        rows: &S::Found<'_, '_, u64>,
        some: Range<usize>,
        columns: &[u16],
    ) -> Result<(), S::Abort>;

    /// Overwrites columns of one group, likewise; values begin every [`Shape::COLUMN_BYTES`].
    fn write_many(
        &self,
        tx: &mut S::Txn<'_>,
        group: usize,
        rows: &S::Found<'_, '_, u64>,
        some: Range<usize>,
        columns: &[u16],
        values: &[u8],
    ) -> Result<(), S::Abort>;
}

/// Copies a value into a column that is as long.
#[inline(always)]
fn put<const N: usize>(column: &mut [u8; N], value: &[u8]) {
    column.copy_from_slice(&value[..N]);
}

/// Five columns of ten bytes.
pub type HalfRow = [[u8; 10]; 5];

/// [Granularity §3.3, §3.4]: ten columns of ten bytes; the even ones are one group, the odd ones another.
pub struct EvenOddRows<S: Store> {
    rows: S::Table<u64, (HalfRow, HalfRow)>,
    even: S::Group<u64, (HalfRow, HalfRow), 0>,
    odd: S::Group<u64, (HalfRow, HalfRow), 1>,
}

/// Calls the same method on the handle of either half.
macro_rules! on_half {
    ($self:ident, $group:expr, $half:ident => $call:expr) => {
        if $group == 0 {
            let $half = &$self.even;
            $call
        } else {
            let $half = &$self.odd;
            $call
        }
    };
}

impl<S: Store> Shape<S> for EvenOddRows<S> {
    type Row = (HalfRow, HalfRow);
    const COLUMNS: u64 = 10;
    const COLUMN_BYTES: usize = 10;
    const GROUPS: usize = 2;

    fn new(store: &S, table: &S::Table<u64, Self::Row>) -> Self {
        EvenOddRows { rows: table.clone(), even: store.group(table), odd: store.group(table) }
    }

    #[inline]
    fn look_up<'a, 'k>(&self, tx: &mut S::Txn<'a>, keys: &'k [u64]) -> S::Found<'a, 'k, u64> {
        self.rows.look_up(tx, keys)
    }

    #[inline(always)]
    fn group_of(column: u16) -> usize {
        usize::from(column % 2)
    }

    fn row(bytes: &[u8]) -> Self::Row {
        let column = |column: usize| std::array::from_fn(|at| bytes[column * 10 + at]);
        (std::array::from_fn(|half| column(2 * half)), std::array::from_fn(|half| column(2 * half + 1)))
    }

    #[inline]
    fn read(&self, tx: &mut S::Txn<'_>, key: u64, column: u16) -> Result<(), S::Abort> {
        let half = on_half!(self, column % 2, half => half.need(tx, &key))?;
        black_box(half[usize::from(column / 2)]);
        Ok(())
    }

    #[inline]
    fn write(&self, tx: &mut S::Txn<'_>, key: u64, column: u16, value: &[u8]) -> Result<(), S::Abort> {
        let write = |columns: &mut HalfRow| put(&mut columns[usize::from(column / 2)], value);
        on_half!(self, column % 2, half => half.update(tx, &key, write))
    }

    #[inline]
    fn read_many(
        &self,
        tx: &mut S::Txn<'_>,
        group: usize,
        rows: &S::Found<'_, '_, u64>,
        some: Range<usize>,
        columns: &[u16],
    ) -> Result<(), S::Abort> {
        let see = |at: usize, found: Option<HalfRow>| {
            black_box(found.map(|half| half[usize::from(columns[at] / 2)]));
        };
        on_half!(self, group, half => half.get_found(tx, rows, some, see))
    }

    #[inline]
    fn write_many(
        &self,
        tx: &mut S::Txn<'_>,
        group: usize,
        rows: &S::Found<'_, '_, u64>,
        some: Range<usize>,
        columns: &[u16],
        values: &[u8],
    ) -> Result<(), S::Abort> {
        let write = |at: usize, half: &mut HalfRow| {
            put(&mut half[usize::from(columns[at] / 2)], &values[at * Self::COLUMN_BYTES..]);
        };
        on_half!(self, group, half => half.update_found(tx, rows, some, write))
    }
}

/// So many columns of so many bytes, in one group and read whole.
pub struct WholeRows<S: Store, const COLUMNS: usize, const BYTES: usize> {
    rows: S::Table<u64, [[u8; BYTES]; COLUMNS]>,
}

/// [Sundial §6.1]: 1 KB in ten columns.
pub type Rows1k<S> = WholeRows<S, 10, 100>;
/// [Dynamic §VII.A]: a key and a value of eight bytes.
pub type DynamicRows<S> = WholeRows<S, 1, 8>;

impl<S: Store, const COLUMNS: usize, const BYTES: usize> Shape<S> for WholeRows<S, COLUMNS, BYTES> {
    type Row = [[u8; BYTES]; COLUMNS];
    const COLUMNS: u64 = COLUMNS as u64;
    const COLUMN_BYTES: usize = BYTES;
    const GROUPS: usize = 1;

    fn new(_: &S, table: &S::Table<u64, Self::Row>) -> Self {
        WholeRows { rows: table.clone() }
    }

    #[inline(always)]
    fn group_of(_: u16) -> usize {
        0
    }

    fn row(bytes: &[u8]) -> Self::Row {
        std::array::from_fn(|column| std::array::from_fn(|at| bytes[column * BYTES + at]))
    }

    #[inline]
    fn read(&self, tx: &mut S::Txn<'_>, key: u64, _: u16) -> Result<(), S::Abort> {
        black_box(&self.rows.need(tx, &key)?);
        Ok(())
    }

    #[inline]
    fn write(&self, tx: &mut S::Txn<'_>, key: u64, column: u16, value: &[u8]) -> Result<(), S::Abort> {
        self.rows.update(tx, &key, |row| put(&mut row[usize::from(column)], value))
    }

    #[inline]
    fn look_up<'a, 'k>(&self, tx: &mut S::Txn<'a>, keys: &'k [u64]) -> S::Found<'a, 'k, u64> {
        self.rows.look_up(tx, keys)
    }

    #[inline]
    fn read_many(
        &self,
        tx: &mut S::Txn<'_>,
        _: usize,
        rows: &S::Found<'_, '_, u64>,
        some: Range<usize>,
        _: &[u16],
    ) -> Result<(), S::Abort> {
        self.rows.get_found(tx, rows, some, |_, row| {
            black_box(&row);
        })
    }

    #[inline]
    fn write_many(
        &self,
        tx: &mut S::Txn<'_>,
        _: usize,
        rows: &S::Found<'_, '_, u64>,
        some: Range<usize>,
        columns: &[u16],
        values: &[u8],
    ) -> Result<(), S::Abort> {
        self.rows.update_found(tx, rows, some, |at, row| {
            put(&mut row[usize::from(columns[at])], &values[at * Self::COLUMN_BYTES..]);
        })
    }
}

/// Bytes of random text that values are cut from.
const POOL_BYTES: usize = 1 << 14;

#[derive(Clone, Copy)]
struct Op {
    key: u64,
    value_at: u32,
    column: u16,
    write: bool,
}

/// Requests, as one by one or multi-get wants them. All rings go round together.
enum Requests {
    OneByOne(Ring<Op>),
    MultiGet {
        keys: Ring<u64>,
        columns: Ring<u16>,
        /// For each request, where its parts end: the reads of each group, then the writes of each group.
        ends: Ring<u16>,
        /// Where its values begin.
        value_at: Ring<u32>,
    },
}

/// What a worker of a transactional variant keeps.
pub struct TransactionWorker {
    requests: Requests,
    pool: Vec<u8>,
}

/// A transactional variant on a store.
pub struct TransactionWorkload<S: Store, H: Shape<S>> {
    spec: TransactionsSpec,
    table: S::Table<u64, H::Row>,
    shape: H,
    reads: S::Scope,
    writes: S::Scope,
    /// Made once: its sum over all rows takes a while.
    chooser: Chooser,
    seed: u64,
}

impl<S: Store, H: Shape<S>> TransactionWorkload<S, H> {
    /// Makes its table.
    pub fn new(
        store: &S,
        spec: TransactionsSpec,
        index: IndexKind,
        granularity: Granularity,
        seed: u64,
    ) -> Result<Self, RunError> {
        spec.check()?;
        // Before the chooser, whose sum over all rows would take for ever where there are too many.
        memory::check(Self::bytes_of(spec.rows))?;
        let setting = |error: DistributionError| RunError::Setting(error.to_string());
        let chooser = match spec.keys {
            Keys::Zipfian { theta } => Chooser::zipfian(spec.rows, theta).map_err(setting)?,
            Keys::Contention { .. } => Chooser::uniform(spec.rows),
        };
        let table =
            TableSpec::new("usertable").index(index).granularity(granularity).expected_rows(spec.rows);
        let table = store.table::<u64, H::Row>(&table)?;
        let reads = store.scope().reads::<u64, H::Row>(&table);
        let writes = store.scope().writes::<u64, H::Row>(&table);
        let shape = H::new(store, &table);
        Ok(TransactionWorkload { spec, table, shape, reads, writes, chooser, seed })
    }

    fn row_bytes() -> usize {
        H::COLUMN_BYTES * H::COLUMNS as usize
    }

    /// About what so many rows take.
    fn bytes_of(rows: u64) -> u64 {
        // Key, header, words of each group, and its share of an index.
        rows.saturating_mul(Self::row_bytes() as u64 + 80)
    }

    /// One transaction's operations.
    fn draw(&self, chooser: &mut Chooser, scattered: Scattered, random: &mut Random, ops: &mut Vec<Op>) {
        let spec = &self.spec;
        ops.clear();
        let read_only = match spec.mix {
            Mix::EachReads { .. } => false,
            Mix::Whole { read_only_share, .. } => random.happens(read_only_share),
        };
        // Of a contention ratio: where the keys of this side begin, and how many there are.
        let side = |random: &mut Random| match spec.keys {
            Keys::Zipfian { .. } => (0, spec.rows),
            Keys::Contention { transactions_percent, rows_percent, .. } => {
                let hot = hot_rows(spec.rows, rows_percent);
                if random.happens(transactions_percent / 100.0) { (0, hot) } else { (hot, spec.rows - hot) }
            }
        };
        let (mut first, mut count) = side(random);
        while ops.len() < spec.operations {
            let row = match spec.keys {
                Keys::Zipfian { .. } => chooser.draw(random),
                Keys::Contention { by_operation, .. } => {
                    if by_operation && !ops.is_empty() {
                        (first, count) = side(random);
                    }
                    scattered.place(first + random.below(count))
                }
            };
            let key = spec.key(row);
            if spec.distinct && ops.iter().any(|op| op.key == key) {
                continue;
            }
            let write = match spec.mix {
                Mix::EachReads { share } => !random.happens(share),
                Mix::Whole { writes, .. } => !read_only && ops.len() + writes >= spec.operations,
            };
            ops.push(Op {
                key,
                value_at: random.below((POOL_BYTES - H::COLUMN_BYTES) as u64) as u32,
                column: match random.below(H::COLUMNS) as u16 {
                    column if self.spec.parts_columns => column & !1 | u16::from(write),
                    column => column,
                },
                write,
            });
        }
    }
}

impl<S: Store, H: Shape<S>> Workload<S> for TransactionWorkload<S, H> {
    type Worker = TransactionWorker;

    fn rows(&self) -> u64 {
        self.spec.rows
    }

    fn load_bytes(&self) -> u64 {
        Self::bytes_of(self.spec.rows)
    }

    fn load(&self, session: &mut S::Session, share: Share, loaded: &dyn Fn(u64)) -> Result<(), RunError> {
        const BATCH: u64 = 64;
        let mut random = Random::new(self.seed, u64::MAX - share.index);
        let mut pool = vec![0; POOL_BYTES];
        random.fill_printable(&mut pool);
        let range = share.of(self.spec.rows);
        let mut first = range.start;
        while first < range.end {
            let end = range.end.min(first + BATCH);
            let at = random.below((POOL_BYTES - Self::row_bytes()) as u64) as usize;
            let inserted = session.run(&self.writes, |tx| {
                let mut all = true;
                for row in first..end {
                    // Another stretch of the pool for each row of the batch.
                    let at = (at + (row - first) as usize * 997) % (POOL_BYTES - Self::row_bytes());
                    all &= self.table.insert(tx, &self.spec.key(row), H::row(&pool[at..]))?;
                }
                Ok(all)
            });
            match inserted {
                Ok(true) => {}
                Ok(false) => return Err(RunError::transaction("loading", "a key is there twice")),
                Err(failure) => return Err(RunError::transaction("loading", failure)),
            }
            loaded(end - first);
            first = end;
        }
        Ok(())
    }

    fn worker(&self, seat: Seat) -> Result<TransactionWorker, RunError> {
        let mut random = seat.random;
        let spec = &self.spec;
        // As many bytes more as a transaction's values take, or a row, so that nobody need look for the end.
        let mut pool = vec![0; POOL_BYTES + (spec.operations * H::COLUMN_BYTES).max(Self::row_bytes())];
        random.fill_printable(&mut pool);
        let mut chooser = self.chooser.clone();
        let scattered = Scattered::new(spec.rows);
        let mut ops = Vec::with_capacity(spec.operations);
        let empty = || RunError::Setting("at least one request must be drawn ahead".into());
        if !spec.multi_get {
            let mut all = Vec::with_capacity(seat.requests * spec.operations);
            for _ in 0..seat.requests {
                self.draw(&mut chooser, scattered, &mut random, &mut ops);
                if spec.ascending {
                    ops.sort_by_key(|op| op.key);
                }
                all.extend_from_slice(&ops);
            }
            let ring = Ring::from_items(all, spec.operations).ok_or_else(empty)?;
            return Ok(TransactionWorker { requests: Requests::OneByOne(ring), pool });
        }
        let (mut keys, mut columns, mut ends, mut value_at) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..seat.requests {
            self.draw(&mut chooser, scattered, &mut random, &mut ops);
            ops.sort_by_key(|op| (op.write, H::group_of(op.column)));
            for part in 0..2 * H::GROUPS {
                let end = ops
                    .partition_point(|op| usize::from(op.write) * H::GROUPS + H::group_of(op.column) <= part);
                ends.push(end as u16);
            }
            keys.extend(ops.iter().map(|op| op.key));
            columns.extend(ops.iter().map(|op| op.column));
            value_at.push(ops[0].value_at);
        }
        let requests = Requests::MultiGet {
            keys: Ring::from_items(keys, spec.operations).ok_or_else(empty)?,
            columns: Ring::from_items(columns, spec.operations).ok_or_else(empty)?,
            ends: Ring::from_items(ends, 2 * H::GROUPS).ok_or_else(empty)?,
            value_at: Ring::from_items(value_at, 1).ok_or_else(empty)?,
        };
        Ok(TransactionWorker { requests, pool })
    }

    #[inline]
    fn execute(&self, session: &mut S::Session, worker: &mut TransactionWorker) -> TxnResult<S, ()> {
        let pool = &worker.pool;
        match &mut worker.requests {
            Requests::OneByOne(ring) => {
                let ops = ring.take();
                let writes = ops.iter().any(|op| op.write);
                if !writes && self.spec.skips_read_only {
                    return Ok(());
                }
                let scope = if writes { &self.writes } else { &self.reads };
                session.run(scope, |tx| {
                    for op in ops {
                        if op.write {
                            let value = &pool[op.value_at as usize..];
                            if self.spec.overwrites {
                                self.table.write(tx, &op.key, H::row(value))?;
                            } else {
                                self.shape.write(tx, op.key, op.column, value)?;
                            }
                        } else {
                            self.shape.read(tx, op.key, op.column)?;
                        }
                    }
                    Ok(())
                })
            }
            Requests::MultiGet { keys, columns, ends, value_at } => {
                let (keys, columns, ends) = (keys.take(), columns.take(), ends.take());
                let values = &pool[*value_at.take_one() as usize..];
                let writes = usize::from(ends[H::GROUPS - 1]) < keys.len();
                if !writes && self.spec.skips_read_only {
                    return Ok(());
                }
                let scope = if writes { &self.writes } else { &self.reads };
                session.run(scope, |tx| {
                    let rows = self.shape.look_up(tx, keys);
                    let mut start = 0;
                    for (part, end) in ends.iter().enumerate() {
                        let some = start..usize::from(*end);
                        start = some.end;
                        if some.is_empty() {
                            continue;
                        }
                        let columns = &columns[some.clone()];
                        if part < H::GROUPS {
                            self.shape.read_many(tx, part, &rows, some, columns)?;
                        } else {
                            self.shape.write_many(tx, part - H::GROUPS, &rows, some, columns, values)?;
                        }
                    }
                    Ok(())
                })
            }
        }
    }

    fn check(
        &self,
        _session: &mut S::Session,
        _workers: &mut Vec<TransactionWorker>,
    ) -> Result<Vec<Condition>, RunError> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Length, Plan, drive};
    use crate::mutex::MutexStore;

    type On<H> = TransactionWorkload<MutexStore, H>;

    fn seat(requests: usize) -> Seat {
        let random = Random::new(5, 5);
        Seat { number: 0, count: 1, random, requests, epoch: std::time::Instant::now() }
    }

    fn made<H: Shape<MutexStore>>(spec: TransactionsSpec) -> On<H> {
        On::new(&MutexStore::new(), spec, IndexKind::Hash, Granularity::Fine, 1).unwrap()
    }

    #[test]
    fn more_rows_than_there_is_memory_for_are_refused_at_once() {
        if memory::available_bytes().is_some() {
            let spec = TransactionsSpec { rows: u64::MAX, ..TransactionsSpec::granularity() };
            let store = MutexStore::new();
            let made =
                On::<EvenOddRows<MutexStore>>::new(&store, spec, IndexKind::Hash, Granularity::Fine, 1);
            assert!(matches!(made.map(|_| ()), Err(RunError::Memory { .. })));
        }
    }

    fn drawn<H: Shape<MutexStore>>(spec: TransactionsSpec, transactions: usize) -> Vec<Vec<Op>> {
        let operations = spec.operations;
        let workload = made::<H>(spec);
        let Requests::OneByOne(ring) = workload.worker(seat(transactions)).unwrap().requests else {
            panic!("one by one was asked for")
        };
        let mut ring = ring;
        (0..transactions)
            .map(|_| ring.take().to_vec())
            .inspect(|ops| assert_eq!(ops.len(), operations))
            .collect()
    }

    #[test]
    fn every_preset_runs_on_four_threads_both_ways() {
        fn run<H: Shape<MutexStore>>(spec: TransactionsSpec) {
            for multi_get in [false, true] {
                let store = MutexStore::new();
                let spec = TransactionsSpec { rows: 1000, multi_get, ..spec.clone() };
                let workload: On<H> = On::new(&store, spec, IndexKind::Hash, Granularity::Coarse, 1).unwrap();
                let plan = Plan {
                    threads: 4,
                    length: Length::transactions(2000),
                    warm_up_s: 0.0,
                    seed: 1,
                    requests: 100,
                    count_allocations: false,
                };
                let measured = drive(&store, &workload, &plan, &mut |_| {}).unwrap();
                assert_eq!(measured.committed, 2000);
                assert_eq!(measured.attempts_max, 1);
            }
        }
        run::<EvenOddRows<MutexStore>>(TransactionsSpec::granularity());
        run::<Rows1k<MutexStore>>(TransactionsSpec::sundial());
        run::<DynamicRows<MutexStore>>(TransactionsSpec::dynamic());
    }

    #[test]
    fn multi_get_writes_what_one_by_one_writes() {
        // The last value of every column must be the same where the requests are the same and write each
        // column at most once: one transaction of different keys.
        let mut found = Vec::new();
        for multi_get in [false, true] {
            let store = MutexStore::new();
            let spec = TransactionsSpec {
                rows: 64,
                distinct: true,
                multi_get,
                keys: Keys::Zipfian { theta: 0.0 },
                ..TransactionsSpec::granularity()
            };
            let workload: On<EvenOddRows<MutexStore>> =
                On::new(&store, spec, IndexKind::Ordered, Granularity::Fine, 1).unwrap();
            let mut session = store.session().unwrap();
            workload.load(&mut session, Share { index: 0, count: 1 }, &|_| {}).unwrap();
            let rows = |session: &mut <MutexStore as Store>::Session| {
                let rows = session.run(&workload.reads, |tx| {
                    let mut rows = Vec::new();
                    workload.table.range(tx, .., crate::store::Scan::ALL, |key, row| {
                        rows.push((key, row));
                        std::ops::ControlFlow::Continue(())
                    })?;
                    Ok(rows)
                });
                rows.unwrap()
            };
            let before = rows(&mut session);
            let mut worker = workload.worker(seat(1)).unwrap();
            workload.execute(&mut session, &mut worker).unwrap();
            let changed: Vec<(u64, Vec<usize>)> = before
                .iter()
                .zip(rows(&mut session))
                .filter(|(before, after)| *before != after)
                .map(|(before, after)| {
                    let halves = [(before.1.0, after.1.0), (before.1.1, after.1.1)];
                    let columns = (0..10).filter(|&column| {
                        let (before, after) = halves[column % 2];
                        before[column / 2] != after[column / 2]
                    });
                    (before.0, columns.collect())
                })
                .collect();
            assert!(!changed.is_empty());
            found.push(changed);
        }
        assert_eq!(found[0], found[1]);
    }

    #[test]
    fn hashed_keys_are_those_that_are_loaded() {
        let spec = TransactionsSpec { rows: 1000, ..TransactionsSpec::granularity() };
        let hashed = TransactionsSpec { insert_order: InsertOrder::Hashed, ..spec.clone() };
        let (store, plain) = (MutexStore::new(), drawn::<EvenOddRows<MutexStore>>(spec, 100).concat());
        let ops = drawn::<EvenOddRows<MutexStore>>(hashed.clone(), 100).concat();
        assert!(ops.iter().zip(&plain).all(|(op, plain)| op.key == fnv1a(plain.key)));
        let workload: On<EvenOddRows<MutexStore>> =
            On::new(&store, hashed, IndexKind::Ordered, Granularity::Fine, 1).unwrap();
        let mut session = store.session().unwrap();
        workload.load(&mut session, Share { index: 0, count: 1 }, &|_| ()).unwrap();
        // Whoever finds no row says so.
        let read = session.run(&workload.reads, |tx| {
            for op in &ops {
                workload.table.need(tx, &op.key)?;
            }
            Ok(())
        });
        assert!(read.is_ok(), "{read:?}");
    }

    #[test]
    fn granularity_s_operations_are_half_reads_over_all_columns_and_scattered_keys() {
        let spec = TransactionsSpec { rows: 100_000, ..TransactionsSpec::granularity() };
        let all: Vec<Op> = drawn::<EvenOddRows<MutexStore>>(spec, 5000).concat();
        let total = all.len() as f64;
        let writes = all.iter().filter(|op| op.write).count() as f64;
        assert!((writes / total - 0.5).abs() < 0.01, "{writes}");
        for column in 0..10 {
            let count = all.iter().filter(|op| op.column == column).count() as f64;
            assert!((count / total - 0.1).abs() < 0.01, "{column}: {count}");
        }
        // Rank 0 stays at 0; rank 1 lands beyond the middle.
        let share = |key| all.iter().filter(|op| op.key == key).count() as f64 / total;
        let zeta = crate::distribution::zeta(100_000, 0.9, 0, 0.0);
        assert!((share(0) * zeta - 1.0).abs() < 0.1, "{}", share(0));
        let second = Scattered::new(100_000).place(1);
        assert!(second > 50_000);
        assert!((share(second) * zeta * 2_f64.powf(0.9) - 1.0).abs() < 0.1, "{}", share(second));
    }

    fn ninety_to_ten(by_operation: bool) -> Keys {
        Keys::Contention { transactions_percent: 90.0, rows_percent: 10.0, by_operation }
    }

    #[test]
    fn dynamic_s_operations_may_each_have_a_side() {
        let spec =
            TransactionsSpec { rows: 10_000, keys: ninety_to_ten(true), ..TransactionsSpec::dynamic() };
        let scattered = Scattered::new(10_000);
        let mut hot: Vec<u64> = (0..1000).map(|rank| scattered.place(rank)).collect();
        hot.sort_unstable();
        let drawn = drawn::<DynamicRows<MutexStore>>(spec, 10_000);
        let within = |ops: &[Op]| ops.iter().filter(|op| hot.binary_search(&op.key).is_ok()).count();
        let hot_operations: usize = drawn.iter().map(|ops| within(ops)).sum();
        assert!(hot_operations.abs_diff(45_000) < 400, "{hot_operations}");
        // All five on one side: 0.9 to the fifth, and next to nothing.
        let whole = drawn.iter().filter(|ops| matches!(within(ops), 0 | 5)).count();
        assert!(whole.abs_diff(5905) < 200, "{whole}");
    }

    #[test]
    fn read_only_transactions_may_be_left_out_and_rows_overwritten() {
        let spec = TransactionsSpec {
            rows: 100,
            mix: Mix::Whole { read_only_share: 1.0, writes: 2 },
            skips_read_only: true,
            overwrites: true,
            ..TransactionsSpec::dynamic()
        };
        let made = |store: &MutexStore, spec| {
            On::<Rows1k<MutexStore>>::new(store, spec, IndexKind::Hash, Granularity::Coarse, 1).unwrap()
        };
        let store = MutexStore::new();
        let reads = made(&store, spec.clone());
        let mut session = store.session().unwrap();
        // No row was loaded: whoever reads one fails.
        reads.execute(&mut session, &mut reads.worker(seat(1)).unwrap()).unwrap();
        let store = MutexStore::new();
        let mix = Mix::Whole { read_only_share: 0.0, writes: 5 };
        let writes = made(&store, TransactionsSpec { mix, ..spec });
        let mut session = store.session().unwrap();
        writes.load(&mut session, Share { index: 0, count: 1 }, &|_| {}).unwrap();
        let mut worker = writes.worker(seat(1)).unwrap();
        let Requests::OneByOne(ring) = &mut worker.requests else { panic!("one by one was asked for") };
        let ops = ring.take().to_vec();
        writes.execute(&mut session, &mut worker).unwrap();
        for op in ops {
            let row = session.run(&writes.reads, |tx| Ok(writes.table.need(tx, &op.key)?)).unwrap();
            let value = &worker.pool[op.value_at as usize..];
            assert_eq!(row, <Rows1k<MutexStore> as Shape<MutexStore>>::row(value));
        }
    }

    #[test]
    fn dynamic_s_transactions_keep_to_their_side_of_the_ratio() {
        let spec = TransactionsSpec {
            rows: 10_000,
            keys: ninety_to_ten(false),
            mix: Mix::Whole { read_only_share: 0.8, writes: 2 },
            ..TransactionsSpec::dynamic()
        };
        let scattered = Scattered::new(10_000);
        let mut hot: Vec<u64> = (0..1000).map(|rank| scattered.place(rank)).collect();
        hot.sort_unstable();
        let drawn = drawn::<DynamicRows<MutexStore>>(spec, 10_000);
        let (mut hot_transactions, mut read_only) = (0, 0);
        for ops in &drawn {
            let within = ops.iter().filter(|op| hot.binary_search(&op.key).is_ok()).count();
            assert!(within == 0 || within == 5, "a transaction crosses the sides");
            hot_transactions += usize::from(within == 5);
            let writes: Vec<bool> = ops.iter().map(|op| op.write).collect();
            assert!(writes == [false; 5] || writes == [false, false, false, true, true]);
            read_only += usize::from(!writes[4]);
            let mut keys: Vec<u64> = ops.iter().map(|op| op.key).collect();
            keys.sort_unstable();
            assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "keys are not different");
        }
        assert!(hot_transactions.abs_diff(9000) < 150, "{hot_transactions}");
        assert!(read_only.abs_diff(8000) < 200, "{read_only}");
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        let refused = |spec: TransactionsSpec| spec.check().unwrap_err().to_string();
        let base = TransactionsSpec::dynamic();
        assert!(refused(TransactionsSpec { rows: 0, ..base.clone() }).contains("at least one row"));
        assert!(refused(TransactionsSpec { rows: 8, ..base.clone() }).contains("too few"));
        assert!(refused(TransactionsSpec { operations: 0, ..base.clone() }).contains("1 to 4096"));
        let keys = Keys::Contention { transactions_percent: 100.0, rows_percent: 0.0, by_operation: false };
        assert!(refused(TransactionsSpec { keys, ..base.clone() }).contains("not 100:0"));
        let mix = Mix::EachReads { share: f64::NAN };
        assert!(refused(TransactionsSpec { mix, ..base.clone() }).contains("from 0 to 1"));
        let mix = Mix::Whole { read_only_share: 0.5, writes: 6 };
        assert!(refused(TransactionsSpec { mix, ..base.clone() }).contains("more than all"));
        let both = TransactionsSpec { overwrites: true, multi_get: true, ..base };
        assert!(refused(both).contains("overwritten"));
    }
}
