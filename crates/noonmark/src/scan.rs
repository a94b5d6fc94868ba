//! Range scans: leaf by leaf, each leaf a read of what it holds and of what it does not.
//!
//! For each leaf that covers a part of the range the scan notes the leaf's version, and reads the
//! records in it by the table's protocol, absent ones too: that a deleted or not yet inserted row is
//! absent is part of what the scan has seen. A row that comes later changes either a record that
//! was read, or the set of keys of a leaf, and so fails the validation of one of them. A scan that
//! stops early relies only on the leaves that it came to.

use crate::abort::{Abort, AbortKind};
use crate::context::{Context, Stop};
use crate::group::{Row, RowReader, Size};
use crate::key::{Key, KeyBytes};
use crate::lines;
use crate::many::prefetch_groups;
use crate::protocol::{Conflict, What};
use crate::table::{Index, TableRef};
use crate::transaction::Transaction;
use crate::typed::{SecondaryIndex, Target};
use noonmark_core::{Access, Host, Work};
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, RangeBounds};

/// How many records ahead a scan asks for what it will read.
const AHEAD: usize = 4;

/// How a scan goes through its range.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub reverse: bool,
    pub limit: usize,
}

pub(crate) type Bounds = (Bound<KeyBytes>, Bound<KeyBytes>);

/// The sizes of what a scan reads. A type, so that what copies the groups can be compiled for those of a row.
pub(crate) trait Sizes: Copy {
    fn get(self) -> &'static [Size];
}

/// Those of a row.
struct SizesOf<R>(PhantomData<fn() -> R>);

impl<R> Clone for SizesOf<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for SizesOf<R> {}

impl<R: Row> Sizes for SizesOf<R> {
    #[inline(always)]
    fn get(self) -> &'static [Size] {
        R::SIZES
    }
}

impl Sizes for &'static [Size] {
    fn get(self) -> &'static [Size] {
        self
    }
}

impl<H: Host> Context<H> {
    /// Gives each row of a range to `visit`, with its key and groups of these sizes, from `first` on,
    /// until it breaks.
    #[inline(always)]
    pub(crate) fn scan<S: Sizes>(
        &mut self,
        table: TableRef,
        bounds: &Bounds,
        (first, sizes): (usize, S),
        shape: Shape,
        visit: impl FnMut(&[u8], &RowReader<'_>) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        self.with_row(sizes.get(), |context, row| {
            context.scan_with(table, bounds, (first, sizes), shape, row, visit)
        })
    }

    #[inline(always)]
    fn scan_with<S: Sizes>(
        &mut self,
        table: TableRef,
        bounds: &Bounds,
        (first, sizes): (usize, S),
        shape: Shape,
        row: &mut [u64],
        mut visit: impl FnMut(&[u8], &RowReader<'_>) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let Index::Ordered(index) = &table.get().index else {
            return Err(self.fail(AbortKind::NotOrdered, table, None));
        };
        if shape.limit == 0 || is_empty(bounds) {
            return Ok(());
        }
        let mut left = shape.limit;
        let mut failed = None;
        let lower = bounds.0.as_ref().map(KeyBytes::as_slice);
        let upper = bounds.1.as_ref().map(KeyBytes::as_slice);
        index.scan(lower, upper, shape.reverse, |node, records| {
            let sizes = sizes.get();
            let near: &[u8] = match (records.first(), lower) {
                // SAFETY: pinned, and the record was found just now.
                (Some(first), _) => unsafe { first.key() },
                (None, Bound::Included(key) | Bound::Excluded(key)) => key,
                (None, Bound::Unbounded) => &[],
            };
            self.shared.host.work(Work::Lookup);
            self.shared.host.touch(|| lines::of_stamp(table, near), Access::Read);
            self.note_node(table, node, near);
            let groups = first..first + sizes.len();
            for &record in records.iter().take(AHEAD) {
                prefetch_groups(record, &table.get().layout, &groups);
            }
            for (number, &record) in records.iter().enumerate() {
                if let Some(&later) = records.get(number + AHEAD) {
                    prefetch_groups(later, &table.get().layout, &groups);
                }
                let mut read = self.read_groups(table, record, first, sizes, row);
                while matches!(read, Err(Stop::LookAgain)) && table.get().is_still_there(record) {
                    // It has been given other cells.
                    read = self.read_groups_again(table, record, first, sizes, row);
                }
                match read {
                    Ok(false) => {}
                    Ok(true) => {
                        // SAFETY: as above.
                        let key = unsafe { record.key() };
                        if visit(key, &RowReader::new(row, sizes)).is_break() {
                            return ControlFlow::Break(());
                        }
                        left -= 1;
                        if left == 0 {
                            return ControlFlow::Break(());
                        }
                    }
                    Err(stop) => {
                        failed = Some(match stop {
                            Stop::Abort(abort) => abort,
                            // It has left the leaf since: the leaf's version is another now.
                            Stop::LookAgain => {
                                let conflict = Conflict { rule: "index: scan", what: What::NodeChanged };
                                self.abort_at(conflict, AbortKind::Conflict, table, near, 0)
                            }
                        });
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        failed.map_or(Ok(()), Err)
    }
}

/// A range of a table, to be gone through; see [`Transaction::range`].
#[must_use = "a scan does nothing until it is collected or gone through"]
pub struct Scan<'x, 's, H: Host, T> {
    tx: &'x mut Transaction<'s, H>,
    target: &'x T,
    bounds: Bounds,
    shape: Shape,
}

impl<'x, 's, H: Host, T: Target> Scan<'x, 's, H, T> {
    pub(crate) fn new(
        tx: &'x mut Transaction<'s, H>,
        target: &'x T,
        keys: &impl RangeBounds<T::Key>,
    ) -> Self {
        let bounds =
            (keys.start_bound().map(KeyBytes::of::<T::Key>), keys.end_bound().map(KeyBytes::of::<T::Key>));
        Scan { tx, target, bounds, shape: Shape { reverse: false, limit: usize::MAX } }
    }

    /// From the largest key to the smallest.
    pub fn reverse(mut self) -> Self {
        self.shape.reverse = true;
        self
    }

    /// At most so many rows; leaves that are not needed for them are not read.
    pub fn limit(mut self, rows: usize) -> Self {
        self.shape.limit = rows;
        self
    }

    /// Gives each row to `visit`, until it breaks.
    ///
    /// # Errors
    /// An [`Abort`] that explains itself; of kind [`NotOrdered`](AbortKind::NotOrdered) if the table's
    /// index is not ordered.
    pub fn for_each(self, mut visit: impl FnMut(T::Key, T::Value) -> ControlFlow<()>) -> Result<(), Abort> {
        let context = self.tx.context();
        context.check(self.target.core())?;
        let table = TableRef::new(self.target.core());
        let groups = (self.target.groups().start, SizesOf::<T::Value>(PhantomData));
        context.scan(table, &self.bounds, groups, self.shape, |key, row| {
            match T::Key::read(key) {
                Some(key) => visit(key, T::Value::decode_row(row)),
                // Keys are only ever written by this type, so this cannot be.
                None => ControlFlow::Continue(()),
            }
        })
    }

    /// All of them.
    ///
    /// # Errors
    /// As [`Scan::for_each`].
    #[allow(clippy::type_complexity, reason = "a list of pairs is plain enough")]
    pub fn collect(self) -> Result<Vec<(T::Key, T::Value)>, Abort> {
        let mut rows = Vec::new();
        self.for_each(|key, value| {
            rows.push((key, value));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }
}

/// A range of a secondary index, to be gone through; see [`Transaction::range_by`].
#[must_use = "a scan does nothing until it is collected or gone through"]
pub struct SecondaryScan<'x, 's, H: Host, S, K> {
    tx: &'x mut Transaction<'s, H>,
    index: &'x SecondaryIndex<S, K>,
    bounds: Bounds,
    shape: Shape,
    types: PhantomData<fn() -> (S, K)>,
}

impl<'x, 's, H: Host, S: Key, K: Key> SecondaryScan<'x, 's, H, S, K> {
    pub(crate) fn new(
        tx: &'x mut Transaction<'s, H>,
        index: &'x SecondaryIndex<S, K>,
        keys: &impl RangeBounds<S>,
    ) -> Self {
        let bounds = entry_bounds::<S, K>(keys);
        let shape = Shape { reverse: false, limit: usize::MAX };
        SecondaryScan { tx, index, bounds, shape, types: PhantomData }
    }

    /// From the largest key to the smallest.
    pub fn reverse(mut self) -> Self {
        self.shape.reverse = true;
        self
    }

    /// At most so many entries.
    pub fn limit(mut self, entries: usize) -> Self {
        self.shape.limit = entries;
        self
    }

    /// Gives each entry, its secondary and its primary key, to `visit`, until it breaks.
    ///
    /// # Errors
    /// An [`Abort`] that explains itself.
    pub fn for_each(self, mut visit: impl FnMut(S, K) -> ControlFlow<()>) -> Result<(), Abort> {
        let context = self.tx.context();
        context.check(&self.index.core)?;
        let table = TableRef::new(&self.index.core);
        if is_empty(&self.bounds) {
            return Ok(());
        }
        context.scan(table, &self.bounds, (0, SizesOf::<()>(PhantomData)), self.shape, |entry, _| {
            match <(S, K)>::read(entry) {
                Some((secondary, primary)) => visit(secondary, primary),
                // Entries are only ever written as such pairs, so this cannot be.
                None => ControlFlow::Continue(()),
            }
        })
    }

    /// All of them.
    ///
    /// # Errors
    /// As [`SecondaryScan::for_each`].
    pub fn collect(self) -> Result<Vec<(S, K)>, Abort> {
        let mut entries = Vec::new();
        self.for_each(|secondary, primary| {
            entries.push((secondary, primary));
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }
}

/// The bounds of the entries whose secondary keys are in a range: an entry is its secondary key, then its primary one.
pub(crate) fn entry_bounds<S: Key, K: Key>(keys: &impl RangeBounds<S>) -> Bounds {
    let whole = <(S, K)>::FIXED_BYTES;
    let begins = |key: &S| {
        let mut bytes = KeyBytes::new();
        key.write_delimited(&mut bytes);
        bytes
    };
    // An entry begins with its secondary key: a bound is before or after all entries that do.
    let lower = match keys.start_bound() {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(padded(begins(key), whole)),
        Bound::Excluded(key) => match after(begins(key)) {
            Some(bytes) => Bound::Included(padded(bytes, whole)),
            // Nothing comes after: an empty range.
            None => Bound::Excluded(KeyBytes::new()),
        },
    };
    let nothing = matches!((&lower, keys.start_bound()), (Bound::Excluded(_), Bound::Excluded(_)));
    let upper = match keys.end_bound() {
        _ if nothing => Bound::Excluded(KeyBytes::new()),
        Bound::Unbounded => Bound::Unbounded,
        Bound::Excluded(key) => Bound::Excluded(padded(begins(key), whole)),
        Bound::Included(key) => {
            after(begins(key)).map_or(Bound::Unbounded, |bytes| Bound::Excluded(padded(bytes, whole)))
        }
    };
    (lower, upper)
}

/// Keys of one length are compared at that length: zeros do not change where a bound lies.
fn padded(mut bytes: KeyBytes, length: Option<usize>) -> KeyBytes {
    while length.is_some_and(|length| bytes.as_slice().len() < length) {
        bytes.push(&[0]);
    }
    bytes
}

/// The first bytes after all those that begin with these; `None` if there are none.
fn after(bytes: KeyBytes) -> Option<KeyBytes> {
    let bytes = bytes.as_slice();
    let last = bytes.iter().rposition(|&byte| byte != 255)?;
    let mut next = KeyBytes::new();
    next.push(&bytes[..last]);
    next.push(&[bytes[last] + 1]);
    Some(next)
}

/// Whether no key can lie between the bounds.
fn is_empty(bounds: &Bounds) -> bool {
    match bounds {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low.as_slice() > high.as_slice(),
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            low.as_slice() >= high.as_slice()
        }
    }
}
