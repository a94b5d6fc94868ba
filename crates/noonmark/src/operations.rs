//! The operations of a transaction on one row: untyped, cell by cell.
//!
//! Which groups an operation is about is told as the number of the first one and their sizes. The typed
//! callers know the sizes when the program is compiled, so that copying and decoding become straight
//! code; the few others look them up in the table.

use crate::abort::{Abort, AbortKind};
use crate::context::{Asker, Context, Stop, ask};
use crate::group::{GROUPS_MAX, Group, Row, RowReader, RowWriter, Size, words_of};
use crate::index::{Inserted, Lookup};
use crate::key::{AsKey, KEY_BYTES_MAX};
use crate::protocol::{Conflict, CopyValue, Hold, Place, Rules, What, with_protocol};
use crate::record::{GroupLayout, Layout, RecordPtr, as_bytes_mut, boxed_bytes, load_words};
use crate::table::{TableCore, TableRef};
use crate::typed::Target;
use crate::write_set::{Effect, WriteEntry, WriteSet, group_bits};
use noonmark_core::sync::Ordering;
use noonmark_core::{Host, SlotId, Timestamp, Word};
use std::ops::Range;

/// Copies the words of neighbouring groups, from `first` on, of these sizes, into `row`.
struct CopyGroups<'a> {
    record: RecordPtr,
    layout: &'a Layout,
    first: usize,
    sizes: &'a [Size],
    row: &'a mut [u64],
}

impl CopyValue for CopyGroups<'_> {
    #[inline(always)]
    fn copy(&mut self) {
        let mut at = 0;
        for (index, size) in self.sizes.iter().enumerate() {
            let from = self.layout.group(self.first + index).at;
            // SAFETY: the caller is pinned, and the groups are of the record's layout.
            let words = unsafe { self.record.words(from, size.words()) };
            // Acquire for an address: what it points to was written before it was stored. Relaxed otherwise:
            // the version word, looked at before and after, says whether it belongs together; an address,
            // too, is followed only if it does.
            let ordering = if size.is_boxed() { Ordering::Acquire } else { Ordering::Relaxed };
            for (to, from) in self.row[at..at + size.words()].iter_mut().zip(words) {
                *to = from.load(ordering);
            }
            at += size.words();
        }
    }
}

/// Copies the words of groups of fixed size, and of all others in their cell, into its image.
struct CopyImage<'a> {
    record: RecordPtr,
    /// Offset in words of the cell's first value.
    at: u32,
    /// Words of the groups: known when the program is compiled.
    words: usize,
    image: &'a mut [u64],
}

impl CopyValue for CopyImage<'_> {
    #[inline(always)]
    fn copy(&mut self) {
        // SAFETY: the caller is pinned, and they are the words of a cell of the record's layout.
        let from = unsafe { self.record.words(self.at, self.image.len()) };
        if self.image.len() == self.words {
            for (to, from) in self.image[..self.words].iter_mut().zip(from) {
                // Relaxed: as above.
                *to = from.load(Ordering::Relaxed);
            }
        } else {
            load_words(self.image, from);
        }
    }
}

/// Most rows, or the groups of them that are wanted, have at most so many words.
const SHORT_ROW_WORDS: usize = 8;

/// Whether rows of this type are changed in place in the write set's image, in this table: their groups are of
/// fixed size, and in one cell.
#[inline(always)]
pub(crate) fn is_changed_in_place<R: Row>(table: &TableCore) -> bool {
    !R::SIZES.iter().any(|size| size.is_boxed()) && (R::SIZES.len() == 1 || table.layout.is_one_cell())
}

/// Repeats an operation that met a record on its way out of its index.
#[inline(always)]
pub(crate) fn look_until_found<T>(mut operation: impl FnMut() -> Result<T, Stop>) -> Result<T, Abort> {
    loop {
        match operation() {
            Ok(value) => return Ok(value),
            // Its index forgets it in the same breath: the next look finds another, or none.
            Err(Stop::LookAgain) => {}
            Err(Stop::Abort(abort)) => return Err(abort),
        }
    }
}

impl<H: Host> Context<H> {
    /// The record under a key, if there is one; otherwise the absence is noted.
    #[inline(always)]
    pub(crate) fn find(&mut self, table: TableRef, key: &[u8]) -> Option<RecordPtr> {
        match table.get().index.get(key) {
            Lookup::Found(record) => Some(record),
            Lookup::Absent(node) => {
                self.note_node(table, node, key);
                None
            }
        }
    }

    /// The same, out of the straight way.
    #[cold]
    #[inline(never)]
    fn find_again(&mut self, table: TableRef, key: &[u8]) -> Option<RecordPtr> {
        self.find(table, key)
    }

    /// Calls `use_buffer` with room for the words of groups of these sizes: on the stack if they are few.
    #[inline(always)]
    pub(crate) fn with_row<T>(
        &mut self,
        sizes: &[Size],
        use_buffer: impl FnOnce(&mut Self, &mut [u64]) -> T,
    ) -> T {
        match words_of(sizes) {
            words @ 0..=SHORT_ROW_WORDS => use_buffer(self, &mut [0; SHORT_ROW_WORDS][..words]),
            words @ 9..=32 => use_buffer(self, &mut [0; 32][..words]),
            words => {
                let mut row = self.rows.pop().unwrap_or_default();
                row.resize(words.max(row.len()), 0);
                let answer = use_buffer(self, &mut row[..words]);
                self.rows.push(row);
                answer
            }
        }
    }

    /// Reads groups of a row, as many as there are sizes, into `row`. False: the row is absent.
    #[inline(always)]
    pub(crate) fn read_groups(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Stop> {
        with_protocol!(table.get().protocol, P => self.read_groups_by::<P>(table, record, first, sizes, row))
    }

    /// The same under this protocol, which is the table's.
    #[inline(always)]
    fn read_groups_by<P: Rules>(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Stop> {
        if sizes.len() == 1 || table.get().layout.is_one_cell() {
            return self.read_cell::<P>(table, record, first, sizes, row);
        }
        self.for_each_cell(table, record, first, sizes, row, |context, group, sizes, row| {
            context.read_cell::<P>(table, record, group, sizes, row)
        })
    }

    /// Reads groups in order to write them: notes entries in the write set, whose numbers come out in
    /// `entries`, by cell. False: the row is absent.
    fn read_groups_to_write(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
        entries: &mut [u32; GROUPS_MAX],
    ) -> Result<bool, Stop> {
        if sizes.len() == 1 || table.get().layout.is_one_cell() {
            return self.read_cell_to_write(table, record, first, sizes, row, entries);
        }
        self.for_each_cell(table, record, first, sizes, row, |context, group, sizes, row| {
            context.read_cell_to_write(table, record, group, sizes, row, entries)
        })
    }

    /// Reads groups that are in a cell each by `read`.
    #[inline(always)]
    fn for_each_cell(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
        mut read: impl FnMut(&mut Self, usize, &[Size], &mut [u64]) -> Result<bool, Stop>,
    ) -> Result<bool, Stop> {
        let mut present = None;
        let mut at = 0;
        for (index, size) in sizes.iter().enumerate() {
            let to = &mut row[at..at + size.words()];
            let here = read(self, first + index, std::slice::from_ref(size), to)?;
            if present.is_some_and(|before| before != here) {
                // Cells of one row come and go together: this is no committed state.
                let cell = table.get().layout.group(first + index).cell;
                return Err(self.vanished(table, record, cell));
            }
            present = Some(here);
            at += size.words();
        }
        Ok(present.unwrap_or(false))
    }

    /// Reads groups that are in one cell.
    #[inline(always)]
    fn read_cell<P: Rules>(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Stop> {
        let t = table.get();
        let layout = &t.layout;
        let &GroupLayout { cell, cell_at, .. } = layout.group(first);
        if let Some(index) = self.writes.find(record, cell) {
            return self.read_own(index, first, sizes, row);
        }
        let place = Place { table, record, at: cell_at };
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { record.cell(cell_at as usize, t.aux_words) };
        let mut copy = CopyGroups { record, layout, first, sizes, row };
        let seen = ask!(self.asker(), place, |me| P::read(me, view, &mut copy), |refusal| return Err(
            self.explain(refusal, place, cell)
        ));
        self.note_read(place, cell, seen);
        Ok(!seen.word.is_absent())
    }

    /// Reads groups that are in one cell, in order to write them.
    fn read_cell_to_write(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
        entries: &mut [u32; GROUPS_MAX],
    ) -> Result<bool, Stop> {
        let t = table.get();
        let layout = &t.layout;
        let &GroupLayout { cell, cell_at, cell_words, .. } = layout.group(first);
        if let Some(index) = self.writes.find(record, cell) {
            entries[cell as usize % GROUPS_MAX] = index as u32;
            return self.read_own(index, first, sizes, row);
        }
        let place = Place { table, record, at: cell_at };
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { record.cell(cell_at as usize, t.aux_words) };
        let mut hold = Hold::default();
        let mut copy = CopyGroups { record, layout, first, sizes, row };
        let seen = with_protocol!(t.protocol, P => ask!(
            self.asker(),
            place,
            hold,
            |me| P::update(me, view, hold, &mut copy),
            |refusal| {
                self.release_hold(table, record, cell_at, hold);
                return Err(self.explain(refusal, place, cell));
            }
        ));
        self.read_bound = self.read_bound.max(seen.word.time());
        // Validated when it is locked, so it is not in the read set.
        let here = !seen.word.is_absent();
        let effect = if here { Effect::Change } else { Effect::Keep };
        let image = self.writes.make_image(cell_words as usize);
        let entry = WriteEntry::new(place, cell, effect, Some(seen.word), hold, image);
        entries[cell as usize % GROUPS_MAX] = self.writes.push(entry) as u32;
        Ok(here)
    }

    /// Gets groups that are in one cell, and of fixed size, ready to be changed in place: reads them into the
    /// image that the write set has of the cell. Where in the arena they are then; `None`: the row is absent.
    #[inline(always)]
    fn read_into_image<P: Rules>(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
    ) -> Result<Option<usize>, Stop> {
        let t = table.get();
        let &GroupLayout { cell, cell_at, at, in_cell, cell_words, cell_fixed, .. } = t.layout.group(first);
        if let Some(index) = self.writes.find(record, cell) {
            return self.change_own(index, first, sizes);
        }
        let place = Place { table, record, at: cell_at };
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { record.cell(cell_at as usize, t.aux_words) };
        let image = self.writes.make_room(cell_words as usize);
        let mut hold = Hold::default();
        let mut copy = CopyImage {
            record,
            at: at - in_cell,
            words: words_of(sizes),
            image: self.writes.words_mut(image, cell_words as usize),
        };
        // Not by `asker()`: the write set is borrowed.
        macro_rules! asker {
            () => {
                Asker::new(&self.shared, self.txn, self.order, self.deadline_ns)
            };
        }
        let seen = ask!(asker!(), place, hold, |me| P::update(me, view, hold, &mut copy), |refusal| {
            self.release_hold(table, record, cell_at, hold);
            return Err(self.explain(refusal, place, cell));
        });
        self.read_bound = self.read_bound.max(seen.word.time());
        // Validated when it is locked, so it is not in the read set.
        let here = !seen.word.is_absent();
        let (effect, valued) =
            if here { (Effect::Change, group_bits(first, sizes)) } else { (Effect::Keep, 0) };
        let entry = WriteEntry::new(place, cell, effect, Some(seen.word), hold, image);
        self.writes.push(entry.with_values(cell_fixed, valued));
        Ok(here.then_some(image + in_cell as usize))
    }

    /// The same of a cell that this transaction writes already.
    #[inline(never)]
    fn change_own(&mut self, index: usize, first: usize, sizes: &[Size]) -> Result<Option<usize>, Stop> {
        if self.settle_own(index, first, sizes)?.is_none() {
            return Ok(None);
        }
        let at = self.writes.entry(index).table.get().layout.group(first).in_cell as usize;
        Ok(Some(self.writes.will_have_values(index, first, at, sizes)))
    }

    /// Sees to it that the values of these groups, in a cell that this transaction writes, are in its image.
    /// `None`: absent.
    fn settle_own(&mut self, index: usize, first: usize, sizes: &[Size]) -> Result<Option<usize>, Stop> {
        if self.writes.entry(index).leaves_absent() {
            return Ok(None);
        }
        for group in first..first + sizes.len() {
            if !self.writes.entry(index).knows(group) {
                self.settle_group(index, group)?;
            }
        }
        Ok(Some(index))
    }

    /// The row was there, and is not, or the other way round: not a state that can commit.
    #[cold]
    pub(crate) fn vanished(&mut self, table: TableRef, record: RecordPtr, cell: u32) -> Stop {
        // SAFETY: pinned since the record was found.
        let key = unsafe { record.key() };
        let conflict = Conflict { rule: "row: presence", what: What::Reclaimed };
        Stop::Abort(self.abort_at(conflict, AbortKind::Conflict, table, key, cell as usize))
    }

    /// Reads groups of a cell that this transaction writes. False: absent.
    fn read_own(
        &mut self,
        index: usize,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Stop> {
        if self.settle_own(index, first, sizes)?.is_none() {
            return Ok(false);
        }
        let layout = &self.writes.entry(index).table.get().layout;
        let mut at = 0;
        for (number, size) in sizes.iter().enumerate() {
            let group = layout.group(first + number);
            let to = &mut row[at..at + size.words()];
            if size.is_boxed() {
                // A value of variable size is shown through an address, like any other: a version made of
                // this transaction's own, freed after it.
                to[0] = crate::record::allocate_boxed(self.writes.boxed_value(index, group));
                crate::commit::retire_boxed(&mut self.limbo, &self.shared.epochs, to[0]);
            } else {
                to.copy_from_slice(self.writes.image(index, group.in_cell as usize, size.words()));
            }
            at += size.words();
        }
        Ok(true)
    }

    /// Reads a group that this transaction has only updated, or not touched, in a cell that it
    /// writes: from here on it is an ordinary read and update. Its value is in the write set then.
    fn settle_group(&mut self, index: usize, group: usize) -> Result<(), Stop> {
        let size = self.writes.entry(index).table.get().layout.group(group).size;
        self.with_row(&[size], |context, words| {
            let entry = *context.writes.entry(index);
            let t = entry.table.get();
            let place = Place { table: entry.table, record: entry.record, at: entry.at };
            // SAFETY: pinned, and the offset is of this table's layout.
            let view = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let mut hold = entry.hold();
            let (record, layout, sizes) = (entry.record, &t.layout, &[size]);
            let mut copy = CopyGroups { record, layout, first: group, sizes, row: &mut *words };
            let seen = with_protocol!(t.protocol, P => ask!(
                context.asker(),
                place,
                hold,
                |me| P::update(me, view, hold, &mut copy),
                |refusal| {
                    context.writes.entry_mut(index).set_hold(hold);
                    return Err(match context.explain(refusal, place, entry.cell) {
                        // The record was promised to exist by what this transaction has done so far.
                        Stop::LookAgain => context.vanished(entry.table, entry.record, entry.cell),
                        stop => stop,
                    });
                }
            ));
            context.writes.entry_mut(index).set_hold(hold);
            if seen.word.is_absent() || entry.seen().is_some_and(|earlier| earlier != seen.word) {
                return Err(context.vanished(entry.table, entry.record, entry.cell));
            }
            context.read_bound = context.read_bound.max(seen.word.time());
            context.writes.entry_mut(index).set_seen(seen.word);
            let mut value = std::mem::take(&mut context.value);
            value.clear();
            match size {
                Size::Fixed(bytes) if !size.is_boxed() => {
                    value.extend_from_slice(&crate::record::as_bytes(words)[..bytes]);
                }
                // SAFETY: the address belongs to the version that was read, and the transaction is
                // pinned since.
                _ => value.extend_from_slice(unsafe { boxed_bytes(words[0]) }),
            }
            context.writes.apply(index, group, &mut value);
            context.set_value(index, group, &value);
            context.value = value;
            Ok(())
        })
    }

    /// The value under a key in the table, or group of it, that is the target; by the protocol of its table.
    #[inline(never)]
    pub(crate) fn get<P: Rules, T: Target>(
        &mut self,
        target: &T,
        key: impl AsKey<T::Key>,
    ) -> Result<Option<T::Value>, Abort> {
        key.with_key(|key| {
            let found = self.find(TableRef::new(target.core()), key);
            self.get_at::<P, T>(target, key, found)
        })
    }

    /// The same, found already.
    #[inline(never)]
    pub(crate) fn get_found<P: Rules, T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
    ) -> Result<Option<T::Value>, Abort> {
        // An absence that is some operations old is looked at again, and noted: this transaction may have
        // inserted the key since.
        let found = found.or_else(|| self.find_again(TableRef::new(target.core()), key));
        self.get_at::<P, T>(target, key, found)
    }

    #[inline(always)]
    fn get_at<P: Rules, T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
    ) -> Result<Option<T::Value>, Abort> {
        let sizes = T::Value::SIZES;
        let words = words_of(sizes);
        if words > SHORT_ROW_WORDS {
            return self.with_row(sizes, |context, row| {
                let present = context.read_row::<P, T>(target, key, found, row)?;
                Ok(present.then(|| T::Value::decode_row(&RowReader::new(row, sizes))))
            });
        }
        let row = &mut [0; SHORT_ROW_WORDS][..words];
        match self.read_row::<P, T>(target, key, found, row) {
            Ok(true) => Ok(Some(T::Value::decode_row(&RowReader::new(row, sizes)))),
            Ok(false) => Ok(None),
            Err(abort) => Err(abort),
        }
    }

    /// The same, which is to be there.
    #[inline(never)]
    pub(crate) fn need<P: Rules, T: Target>(
        &mut self,
        target: &T,
        key: impl AsKey<T::Key>,
    ) -> Result<T::Value, Abort> {
        let table = TableRef::new(target.core());
        let sizes = T::Value::SIZES;
        let words = words_of(sizes);
        key.with_key(|key| {
            let found = self.find(table, key);
            if words > SHORT_ROW_WORDS {
                return match self.get_found::<P, T>(target, key, found) {
                    Ok(Some(value)) => Ok(value),
                    Ok(None) => Err(self.missing(table, key)),
                    Err(abort) => Err(abort),
                };
            }
            let row = &mut [0; SHORT_ROW_WORDS][..words];
            match self.read_row::<P, T>(target, key, found, row) {
                Ok(true) => Ok(T::Value::decode_row(&RowReader::new(row, sizes))),
                Ok(false) => Err(self.missing(table, key)),
                Err(abort) => Err(abort),
            }
        })
    }

    /// Reads the row, or group of it, that was found under a key. False: it is absent.
    #[inline(always)]
    fn read_row<P: Rules, T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
        row: &mut [u64],
    ) -> Result<bool, Abort> {
        let Some(record) = found else { return Ok(false) };
        let table = TableRef::new(target.core());
        match self.read_groups_by::<P>(table, record, target.groups().start, T::Value::SIZES, row) {
            Ok(present) => Ok(present),
            Err(Stop::Abort(abort)) => Err(abort),
            Err(Stop::LookAgain) => self.read_row_again::<T>(target, key, row),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_row_again<T: Target>(&mut self, target: &T, key: &[u8], row: &mut [u64]) -> Result<bool, Abort> {
        let table = TableRef::new(target.core());
        look_until_found(|| match self.find(table, key) {
            Some(record) => self.read_groups(table, record, target.groups().start, T::Value::SIZES, row),
            None => Ok(false),
        })
    }

    /// That a row is missing is told only if it is so in a state that a serial execution could see.
    #[cold]
    pub(crate) fn missing(&mut self, table: TableRef, key: &[u8]) -> Abort {
        match self.validate_observations() {
            Err(conflict) => conflict,
            Ok(()) => self.fail(AbortKind::Missing, table, key),
        }
    }

    /// Gets the value under a key ready to be changed in place: where it is in the write set's arena. It must
    /// be there, and [be changed in place](is_changed_in_place).
    #[inline(never)]
    pub(crate) fn open<P: Rules, T: Target>(
        &mut self,
        target: &T,
        key: impl AsKey<T::Key>,
    ) -> Result<usize, Abort> {
        key.with_key(|key| {
            let found = self.find(TableRef::new(target.core()), key);
            self.open_at::<P, T>(target, key, found)
        })
    }

    /// The same, found already.
    #[inline(never)]
    pub(crate) fn open_found<P: Rules, T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
    ) -> Result<usize, Abort> {
        let found = found.or_else(|| self.find_again(TableRef::new(target.core()), key));
        self.open_at::<P, T>(target, key, found)
    }

    #[inline(always)]
    fn open_at<P: Rules, T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
    ) -> Result<usize, Abort> {
        let table = TableRef::new(target.core());
        let Some(record) = found else { return Err(self.missing(table, key)) };
        match self.read_into_image::<P>(table, record, target.groups().start, T::Value::SIZES) {
            Ok(Some(at)) => Ok(at),
            Ok(None) => Err(self.missing(table, key)),
            Err(Stop::Abort(abort)) => Err(abort),
            Err(Stop::LookAgain) => self.open_again::<P, T>(target, key),
        }
    }

    #[cold]
    #[inline(never)]
    fn open_again<P: Rules, T: Target>(&mut self, target: &T, key: &[u8]) -> Result<usize, Abort> {
        let table = TableRef::new(target.core());
        let opened = look_until_found(|| match self.find(table, key) {
            Some(record) => self.read_into_image::<P>(table, record, target.groups().start, T::Value::SIZES),
            None => Ok(None),
        });
        opened?.ok_or_else(|| self.missing(table, key))
    }

    /// Changes a value that is at this place in the write set's arena.
    #[inline(always)]
    pub(crate) fn change_in_place<R: Row>(&mut self, at: usize, change: impl FnOnce(&mut R)) {
        let image = self.writes.words_mut(at, words_of(R::SIZES));
        let mut value = R::decode_row(&RowReader::new(image, R::SIZES));
        change(&mut value);
        value.encode_row(&mut ImageWriter { words: image, sizes: R::SIZES });
    }

    /// Reads the value in the groups from `first` on of the row under a key, and writes what `change` makes
    /// of it. False: the row is absent.
    pub(crate) fn update_row<R: Row>(
        &mut self,
        table: TableRef,
        key: &[u8],
        first: usize,
        change: impl FnOnce(&mut R),
    ) -> Result<bool, Abort> {
        let mut found = self.find(table, key);
        self.with_row(R::SIZES, |context, row| {
            let mut entries = [0; GROUPS_MAX];
            loop {
                let Some(record) = found else { return Ok(false) };
                match context.read_groups_to_write(table, record, first, R::SIZES, row, &mut entries) {
                    Ok(true) => break,
                    Ok(false) => return Ok(false),
                    Err(Stop::Abort(abort)) => return Err(abort),
                    Err(Stop::LookAgain) => found = context.find_again(table, key),
                }
            }
            let mut value = R::decode_row(&RowReader::new(row, R::SIZES));
            change(&mut value);
            let mut writer =
                EntryWriter { writes: &mut context.writes, table, entries, first, too_long: false };
            value.encode_row(&mut writer);
            if writer.too_long {
                return Err(context.fail(AbortKind::TooLong, table, key));
            }
            Ok(true)
        })
    }

    /// Gives a group of a cell that will be written these bytes.
    pub(crate) fn set_value(&mut self, index: usize, group: usize, value: &[u8]) {
        let layout = self.writes.entry(index).table.get().layout.group(group);
        self.writes
            .set_value(index, group, layout, layout.size, value.len(), |out| out.copy_from_slice(value));
    }

    /// The entry for a cell that will be written; makes one, asking for the right to write unread.
    #[inline]
    pub(crate) fn write_entry(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        cell: usize,
        must_exist: bool,
        late: bool,
    ) -> Result<usize, Stop> {
        if let Some(index) = self.writes.find(record, cell as u32) {
            return Ok(index);
        }
        let t = table.get();
        let at = t.layout.cells()[cell];
        let mut hold = Hold::default();
        let place = Place { table, record, at: at as u32 };
        if !late {
            // SAFETY: pinned, and the offset is of this table's layout.
            let view = unsafe { record.cell(at, t.aux_words) };
            with_protocol!(t.protocol, P => ask!(
                self.asker(),
                place,
                hold,
                |me| P::write(me, view, hold),
                |refusal| {
                    self.release_hold(table, record, at as u32, hold);
                    return Err(self.explain(refusal, place, cell as u32));
                }
            ));
        }
        // The groups of a cell are numbered from its own number on, or there is one cell.
        let image = self.writes.make_image(t.layout.group(cell).cell_words as usize);
        let mut entry = WriteEntry::new(place, cell as u32, Effect::Change, None, hold, image);
        entry.must_exist = must_exist;
        Ok(self.writes.push(entry))
    }

    /// The record under a key, which is put in, absent, if there is none. Also whether the
    /// transaction has seen, by the node alone, that the key was absent: from here on it is the
    /// record that says so, and others may write it. The caller must read it.
    pub(crate) fn find_or_create(&mut self, table: TableRef, key: &[u8]) -> Result<(RecordPtr, bool), Stop> {
        let t = table.get();
        if key.len() > KEY_BYTES_MAX {
            return Err(Stop::Abort(self.fail(AbortKind::TooLong, table, &key[..64])));
        }
        let epochs = &self.shared.epochs;
        let inserted = t.index.get_or_insert(key, &mut self.limbo, epochs, |stamp| {
            let record = RecordPtr::allocate(&t.layout, key);
            // Read under the latch: whoever relied on the absence has raised it, or will see that
            // the node has changed.
            let read_until = Timestamp::new(stamp.rts.load(Ordering::SeqCst));
            // The key may have had a row before: it is absent since that was deleted, not always.
            // Relaxed: under the latch.
            let since = Timestamp::new(stamp.wts.load(Ordering::Relaxed));
            for cell in t.layout.cells() {
                // SAFETY: just allocated with this layout.
                let view = unsafe { record.cell(*cell, t.aux_words) };
                // Nobody else knows the record yet.
                view.word.unlock_unwatched(Word::version(since, SlotId::NOBODY, true));
                with_protocol!(t.protocol, P => P::init(view, read_until));
            }
            record
        });
        match inserted {
            Inserted::Existing(record) => Ok((record, false)),
            Inserted::New(record, change) => {
                if !t.populated.load(Ordering::Relaxed) {
                    t.populated.store(true, Ordering::Relaxed);
                }
                let seen_absent = self.note_change(&change);
                self.created.push((table, record));
                Ok((record, seen_absent))
            }
        }
    }

    /// Makes a row present with this value. `replace`: also if it is present already; otherwise
    /// answers false then.
    pub(crate) fn insert_row<R: Row>(
        &mut self,
        table: TableRef,
        key: &[u8],
        row: &R,
        replace: bool,
    ) -> Result<bool, Abort> {
        self.keeping_secondaries(table, key, 0..R::SIZES.len(), |context| {
            look_until_found(|| context.try_insert(table, key, row, replace))
        })
    }

    fn try_insert<R: Row>(
        &mut self,
        table: TableRef,
        key: &[u8],
        row: &R,
        replace: bool,
    ) -> Result<bool, Stop> {
        let (record, seen_absent) = self.find_or_create(table, key)?;
        let t = table.get();
        let mut entries = [0; GROUPS_MAX];
        if replace {
            if seen_absent && self.is_present(table, record, 0, R::SIZES)? {
                return Err(self.vanished(table, record, 0));
            }
            for (cell, entry) in entries.iter_mut().enumerate().take(t.layout.cells().len()) {
                *entry = self.write_entry(table, record, cell, false, false)? as u32;
            }
        } else if self.is_present_for_update(table, record, R::SIZES, &mut entries)? {
            if seen_absent {
                return Err(self.vanished(table, record, 0));
            }
            self.keep_only(record, &entries[..t.layout.cells().len()]);
            return Ok(false);
        }
        for &index in &entries[..t.layout.cells().len()] {
            self.writes.entry_mut(index as usize).effect = Effect::Insert;
        }
        let mut writer = EntryWriter { writes: &mut self.writes, table, entries, first: 0, too_long: false };
        row.encode_row(&mut writer);
        if writer.too_long {
            return Err(Stop::Abort(self.fail(AbortKind::TooLong, table, key)));
        }
        Ok(true)
    }

    /// What was read with the intention to write will not be written after all: it is only to be
    /// validated, unless the transaction writes it anyway.
    fn keep_only(&mut self, record: RecordPtr, entries: &[u32]) {
        for &index in entries {
            let index = index as usize;
            let entry = self.writes.entry(index);
            debug_assert_eq!(entry.record, record);
            if entry.effect == Effect::Change && entry.changes_nothing() {
                self.writes.entry_mut(index).effect = Effect::Keep;
            }
        }
    }

    /// Makes a row absent. False: it was.
    pub(crate) fn delete_row(&mut self, table: TableRef, key: &[u8]) -> Result<bool, Abort> {
        let all = 0..table.get().layout.groups().len();
        self.keeping_secondaries(table, key, all, |context| {
            look_until_found(|| context.try_delete(table, key))
        })
    }

    fn try_delete(&mut self, table: TableRef, key: &[u8]) -> Result<bool, Stop> {
        let Some(record) = self.find(table, key) else { return Ok(false) };
        let t = table.get();
        let mut entries = [0; GROUPS_MAX];
        if !self.is_present_for_update(table, record, t.sizes, &mut entries)? {
            return Ok(false);
        }
        for &index in &entries[..t.layout.cells().len()] {
            self.writes.entry_mut(index as usize).effect = Effect::Delete;
            self.writes.drop_changes(index as usize);
        }
        Ok(true)
    }

    /// Gives groups of a row that exists new values, unread. False: it does not exist.
    pub(crate) fn write_groups(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: Range<usize>,
        encode: impl Fn(&mut EntryWriter<'_>),
    ) -> Result<bool, Abort> {
        self.keeping_secondaries(table, key, groups.clone(), |context| {
            look_until_found(|| context.try_write(table, key, groups.clone(), &encode))
        })
    }

    /// Whether a row exists: a read of groups of it, whose values are not wanted.
    fn is_present(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
    ) -> Result<bool, Stop> {
        self.with_row(sizes, |context, row| context.read_groups(table, record, first, sizes, row))
    }

    /// The same of all groups, which will be written.
    fn is_present_for_update(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        sizes: &[Size],
        entries: &mut [u32; GROUPS_MAX],
    ) -> Result<bool, Stop> {
        self.with_row(sizes, |context, row| {
            context.read_groups_to_write(table, record, 0, sizes, row, entries)
        })
    }

    fn try_write(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: Range<usize>,
        encode: &impl Fn(&mut EntryWriter<'_>),
    ) -> Result<bool, Stop> {
        let Some(record) = self.find(table, key) else { return Ok(false) };
        let t = table.get();
        let mut entries = [0; GROUPS_MAX];
        let cells = t.layout.group(groups.start).cell..=t.layout.group(groups.end - 1).cell;
        for cell in cells.map(|cell| cell as usize) {
            if !self.seems_present(table, record, cell)
                && !self.is_present(table, record, groups.start, &t.sizes[groups.clone()])?
            {
                return Ok(false);
            }
            entries[cell] = self.write_entry(table, record, cell, true, false)? as u32;
        }
        let first = groups.start;
        let mut writer = EntryWriter { writes: &mut self.writes, table, entries, first, too_long: false };
        encode(&mut writer);
        if writer.too_long {
            return Err(Stop::Abort(self.fail(AbortKind::TooLong, table, key)));
        }
        Ok(true)
    }

    /// A first guess whether a row exists, without reading it: if so it must when it is locked.
    fn seems_present(&self, table: TableRef, record: RecordPtr, cell: usize) -> bool {
        if let Some(index) = self.writes.find(record, cell as u32) {
            let entry = self.writes.entry(index);
            return match entry.effect {
                Effect::Insert | Effect::Change => true,
                Effect::Delete => false,
                Effect::Keep => entry.seen().is_none_or(|seen| !seen.is_absent()),
            };
        }
        let t = table.get();
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { record.cell(t.layout.cells()[cell], t.aux_words) };
        let word = view.word.load();
        word.is_locked() && !word.is_reclaimed() || !word.is_locked() && !word.is_absent()
    }

    /// Adds a commit-time update of one group. False: the row does not exist.
    pub(crate) fn update_at_commit<U: Copy + Send + 'static>(
        &mut self,
        table: TableRef,
        key: &[u8],
        group: usize,
        update: impl Fn() -> crate::update::Update<U>,
        payload: &[u8],
    ) -> Result<bool, Abort> {
        self.keeping_secondaries(table, key, group..group + 1, |context| {
            look_until_found(|| context.try_update_at_commit(table, key, group, &update, payload))
        })
    }

    fn try_update_at_commit<U: Copy + Send + 'static>(
        &mut self,
        table: TableRef,
        key: &[u8],
        group: usize,
        update: &impl Fn() -> crate::update::Update<U>,
        payload: &[u8],
    ) -> Result<bool, Stop> {
        let Some(record) = self.find(table, key) else { return Ok(false) };
        let t = table.get();
        let cell = t.layout.group(group).cell as usize;
        if !self.seems_present(table, record, cell)
            && !self.is_present(table, record, group, &t.sizes[group..group + 1])?
        {
            return Ok(false);
        }
        let index = self.write_entry(table, record, cell, true, true)?;
        self.writes.will_change(index);
        let entry = self.writes.entry(index);
        let (knows, was_read) = (entry.knows(group), entry.seen().is_some());
        self.writes.add_update(index, group as u32, update(), payload);
        // What has been read or written already is updated at once.
        if knows {
            self.settle_value(index, group);
        } else if was_read {
            self.settle_group(index, group)?;
        }
        Ok(true)
    }

    /// Applies the updates of a group to this transaction's own value of it.
    fn settle_value(&mut self, index: usize, group: usize) {
        let layout = self.writes.entry(index).table.get().layout.group(group);
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        value.extend_from_slice(self.writes.value_bytes(index, layout));
        self.writes.apply(index, group, &mut value);
        self.set_value(index, group, &value);
        self.value = value;
    }
}

/// Receives groups of fixed size and puts them side by side.
struct ImageWriter<'a> {
    words: &'a mut [u64],
    /// Of the groups, in the same order.
    sizes: &'a [Size],
}

impl RowWriter for ImageWriter<'_> {
    #[inline(always)]
    fn group<G: Group>(&mut self, index: usize, value: &G) {
        let at = words_of(&self.sizes[..index]);
        let words = &mut self.words[at..at + G::SIZE.words()];
        value.encode(&mut as_bytes_mut(words)[..value.encoded_bytes()]);
    }
}

/// Receives the groups of a row and puts them into the write set.
pub(crate) struct EntryWriter<'a> {
    pub writes: &'a mut WriteSet,
    pub table: TableRef,
    /// The entries, by cell.
    pub entries: [u32; GROUPS_MAX],
    /// The first group that is written; indexes count from it.
    pub first: usize,
    /// A value was longer than 4 GiB.
    pub too_long: bool,
}

impl RowWriter for EntryWriter<'_> {
    #[inline(always)]
    fn group<G: Group>(&mut self, index: usize, value: &G) {
        let group = self.first + index;
        let layout = self.table.get().layout.group(group);
        let entry = self.entries[layout.cell as usize % GROUPS_MAX] as usize;
        // What was only to be validated is written after all.
        self.writes.will_change(entry);
        let bytes = value.encoded_bytes();
        if bytes > u32::MAX as usize {
            self.too_long = true;
            return;
        }
        self.writes.set_value(entry, group, layout, G::SIZE, bytes, |out| value.encode(out));
    }
}
