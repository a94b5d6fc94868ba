//! What an operation does to the cells of a record that it has found: reads them, gets the right to write
//! them, and keeps what this transaction itself makes of them in its write set.
//!
//! Which groups it is about is told as the number of the first one and their sizes. The typed callers know the
//! sizes when the program is compiled, so that copying and decoding become straight code; the few others look
//! them up in the table.
//!
//! A cell that this transaction writes is read from the write set. Of such a cell, what was read before is in
//! the entry's image, and a group that was not is read when it is asked for ([`Context::settle_group`]), at the
//! version that the entry has seen.

use crate::abort::Abort;
use crate::abort::AbortKind;
use crate::context::{Asker, Context, Stop, ask};
use crate::group::{GROUPS_MAX, Groups, Size};
use crate::kept::{Kept, copy_groups};
use crate::protocol::{Conflict, CopyValue, Place, Rules, What, with_protocol};
use crate::record::{GroupLayout, Layout, RecordPtr, WHOLE_CELL_AT, boxed_bytes, load_words};
use crate::table::TableRef;
use crate::write_set::{Effect, WriteEntry, group_bits};
use noonmark_core::sync::Ordering;
use noonmark_core::{Access, Host, Timestamp, Work};

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

    fn copy_kept(&mut self, kept: &Kept) {
        copy_groups(kept, self.layout, self.first, self.sizes, self.row);
    }
}

/// Copies the words of groups of fixed size, and of all others in their cell, into its image.
struct CopyImage<'a> {
    record: RecordPtr,
    /// Offset in words of the cell's first value.
    at: u32,
    /// Words of the groups if that is known when the program is compiled, or else 0.
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

    fn copy_kept(&mut self, kept: &Kept) {
        let words = self.image.len().min(kept.values().len());
        self.image[..words].copy_from_slice(&kept.values()[..words]);
    }
}

/// A record, and how it was laid out when that was looked up, once for an operation.
#[derive(Clone, Copy)]
pub(crate) struct Laid<'a> {
    pub table: TableRef,
    pub record: RecordPtr,
    pub layout: &'a Layout,
}

/// How a cell is to be written that has not been read.
#[derive(Clone, Copy)]
pub(crate) struct Unread {
    /// The row must exist when the cell is locked.
    pub must_exist: bool,
    /// Nothing is asked of the protocol before the commit.
    pub late: bool,
}

impl<H: Host> Context<H> {
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

    /// The same of a row that could not be read at first.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_groups_again(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Stop> {
        self.read_groups(table, record, first, sizes, row)
    }

    /// The same as [`Context::read_groups`] under this protocol, which is the table's.
    #[inline(always)]
    pub(crate) fn read_groups_by<P: Rules>(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Stop> {
        let laid = self.laid(table, record);
        if sizes.len() == 1 || laid.layout.is_one_cell() {
            return self.read_cell::<P>(laid, first, sizes, row);
        }
        self.for_each_cell(laid, first, sizes, row, |context, group, sizes, row| {
            context.read_cell::<P>(laid, group, sizes, row)
        })
    }

    /// A record, with [its layout](Context::layout_of).
    #[inline(always)]
    pub(crate) fn laid<'a>(&self, table: TableRef, record: RecordPtr) -> Laid<'a> {
        Laid { table, record, layout: self.layout_of(table, record) }
    }

    /// How a record is laid out now; see [`TableCore::layout_of`](crate::table::TableCore::layout_of).
    #[inline(always)]
    pub(crate) fn layout_of<'a>(&self, table: TableRef, record: RecordPtr) -> &'a Layout {
        let t = table.get();
        let layout = t.layout_of(record);
        if t.split.is_some() && !std::ptr::eq(layout, &raw const t.layout) {
            self.touch_whole(table, record);
        }
        layout
    }

    /// That a record is split stands where its version was.
    #[cold]
    #[inline(never)]
    fn touch_whole(&self, table: TableRef, record: RecordPtr) {
        let whole = Place { table, record, at: WHOLE_CELL_AT };
        self.shared.host.touch(|| whole.line(), Access::Read);
    }

    /// Reads groups in order to write them: notes entries in the write set, whose numbers come out in
    /// `entries`, by cell. False: the row is absent.
    pub(crate) fn read_groups_to_write(
        &mut self,
        laid: Laid<'_>,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
        entries: &mut [u32; GROUPS_MAX],
    ) -> Result<bool, Stop> {
        if sizes.len() == 1 || laid.layout.is_one_cell() {
            return self.read_cell_to_write(laid, first, sizes, row, entries);
        }
        self.for_each_cell(laid, first, sizes, row, |context, group, sizes, row| {
            context.read_cell_to_write(laid, group, sizes, row, entries)
        })
    }

    /// Reads groups that are in a cell each by `read`.
    #[inline(always)]
    fn for_each_cell(
        &mut self,
        laid: Laid<'_>,
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
                let at = laid.layout.group(first + index).cell_at;
                return Err(self.vanished(laid.table, laid.record, at));
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
        laid: Laid<'_>,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Stop> {
        let Laid { table, record, layout } = laid;
        let t = table.get();
        let cell_at = layout.group(first).cell_at;
        if let Some(index) = self.writes.find(record, cell_at) {
            return self.read_own(index, first, sizes, row);
        }
        let place = Place { table, record, at: cell_at };
        if H::DEFERS {
            self.drop_hold_on(place);
        }
        let groups = Groups::new(first, sizes);
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { record.cell(cell_at as usize, t.aux_words) };
        let mut copy = CopyGroups { record, layout, first, sizes, row };
        self.shared.host.work(Work::Operation);
        let earliest = || if self.reads_prepared { Timestamp::ZERO } else { self.earliest() };
        let seen = ask!(
            self.asker(),
            place,
            // (Straight where there are none: particulars that are handed on are copied.)
            |me| match P::HAS_LEASES {
                true => P::read_from(me, view, earliest, &mut copy),
                false => P::read(me, view, &mut copy),
            },
            |refusal| return Err(self.explain(refusal, place, groups.bits()))
        );
        let seen = if P::HAS_LEASES { self.extend_lease::<P>(place, view, seen) } else { seen };
        self.note_read(place, groups, seen);
        if P::LOCKS_READS && t.is_whole(cell_at) {
            // SAFETY: pinned since the record was found, whose table splits.
            if unsafe { record.is_watched() && record.last_use(&t.layout).note_read(groups.bits()) } {
                let place = Place { at: t.layout.last_use_at(), ..place };
                self.shared.host.touch(|| place.line(), Access::Write);
            }
        }
        Ok(!seen.word.is_absent())
    }

    /// Reads groups that are in one cell, in order to write them.
    fn read_cell_to_write(
        &mut self,
        laid: Laid<'_>,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
        entries: &mut [u32; GROUPS_MAX],
    ) -> Result<bool, Stop> {
        let Laid { table, record, layout } = laid;
        let t = table.get();
        let &GroupLayout { cell, cell_at, .. } = layout.group(first);
        if let Some(index) = self.writes.find(record, cell_at) {
            entries[cell as usize % GROUPS_MAX] = index as u32;
            return self.read_own(index, first, sizes, row);
        }
        let mut copy = CopyGroups { record, layout, first, sizes, row };
        let read = with_protocol!(t.protocol, P => {
            self.add_entry_as_read::<P>(table, record, layout.group(first), group_bits(first, sizes), &mut copy)
        });
        let (index, here) = read?;
        entries[cell as usize % GROUPS_MAX] = index as u32;
        Ok(here)
    }

    /// Reads a cell, one of whose groups lies so and which has no entry in the write set, in order to write it, and adds
    /// the entry: its number, and whether the row is there. `asked`: see [`WriteEntry::asked`].
    #[inline(always)]
    fn add_entry_as_read<P: Rules>(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        group: &GroupLayout,
        asked: u8,
        copy: &mut impl CopyValue,
    ) -> Result<(usize, bool), Stop> {
        let t = table.get();
        let &GroupLayout { cell, cell_at, cell_words, .. } = group;
        let place = Place { table, record, at: cell_at };
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { record.cell(cell_at as usize, t.aux_words) };
        let mut hold = self.hold_before(place);
        self.shared.host.work(Work::Operation);
        let seen = ask!(self.asker(), place, hold, |me| P::update(me, view, hold, copy), |refusal| {
            self.let_go_unless_held(&refusal, place, hold);
            return Err(self.explain(refusal, place, asked));
        });
        self.note_update::<P>(t, seen);
        let here = !seen.word.is_absent();
        let effect = if here { Effect::Change } else { Effect::Keep };
        let image = self.writes.make_room(cell_words as usize);
        let mut entry = WriteEntry::new(place, cell, effect, Some(seen.word), hold, image);
        entry.asked = asked;
        Ok((self.writes.push(entry), here))
    }

    /// Gets groups that are in one cell, and of fixed size, ready to be changed in place: reads them into the
    /// image that the write set has of the cell. `words`: how many they are, if that is known when the program is compiled, or
    /// else 0. Says where in the write set's arena the first of them is; `None`: the row is absent.
    #[inline(always)]
    pub(crate) fn read_into_image<P: Rules>(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        words: usize,
    ) -> Result<Option<usize>, Stop> {
        let t = table.get();
        let layout = self.layout_of(table, record);
        let &GroupLayout { cell, cell_at, at, in_cell, cell_words, cell_fixed, .. } = layout.group(first);
        if let Some(index) = self.writes.find(record, cell_at) {
            return self.change_own(index, first, sizes);
        }
        let place = Place { table, record, at: cell_at };
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { record.cell(cell_at as usize, t.aux_words) };
        let mut hold = self.hold_before(place);
        let image = self.writes.make_room(cell_words as usize);
        let mut copy = CopyImage {
            record,
            at: at - in_cell,
            words,
            image: self.writes.words_mut(image, cell_words as usize),
        };
        // Not by `asker()`: the write set is borrowed.
        macro_rules! asker {
            () => {
                Asker::new(&self.shared, self.txn, self.order, self.deadline_ns)
            };
        }
        self.shared.host.work(Work::Operation);
        let seen = ask!(asker!(), place, hold, |me| P::update(me, view, hold, &mut copy), |refusal| {
            self.let_go_unless_held(&refusal, place, hold);
            return Err(self.explain(refusal, place, group_bits(first, sizes)));
        });
        self.note_update::<P>(t, seen);
        let here = !seen.word.is_absent();
        let effect = if here { Effect::Change } else { Effect::Keep };
        let asked = group_bits(first, sizes);
        let mut entry = WriteEntry::new(place, cell, effect, Some(seen.word), hold, image);
        entry.asked = asked;
        self.writes.push(entry.with_values(cell_fixed, if here { asked } else { 0 }));
        Ok(here.then_some(image + in_cell as usize))
    }

    /// The same of a cell that this transaction writes already.
    #[inline(never)]
    fn change_own(&mut self, index: usize, first: usize, sizes: &[Size]) -> Result<Option<usize>, Stop> {
        if self.settle_own(index, first, sizes)?.is_none() {
            return Ok(None);
        }
        let at = self.writes.entry(index).layout().group(first).in_cell as usize;
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
        self.writes.entry_mut(index).asked |= group_bits(first, sizes);
        let layout = self.writes.entry(index).layout();
        let mut at = 0;
        for (number, size) in sizes.iter().enumerate() {
            let group = layout.group(first + number);
            let to = &mut row[at..at + size.words()];
            if size.is_boxed() {
                // A value of variable size is shown through an address, like any other: a version made of
                // this transaction's own.
                to[0] = crate::record::allocate_boxed(self.writes.boxed_value(index, group));
                self.own_copies.push(to[0]);
            } else {
                to.copy_from_slice(self.writes.image(index, group.in_cell as usize, size.words()));
            }
            at += size.words();
        }
        Ok(true)
    }

    /// Reads a group that this transaction has only updated, or not touched, in a cell that it
    /// writes: from here on it is an ordinary read and update. Its value is in the write set then.
    pub(crate) fn settle_group(&mut self, index: usize, group: usize) -> Result<(), Stop> {
        let size = self.writes.entry(index).layout().group(group).size;
        self.with_row(&[size], |context, words| {
            let entry = *context.writes.entry(index);
            let t = entry.table.get();
            let place = entry.place();
            // SAFETY: pinned, and the offset is of this table's layout.
            let view = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let mut hold = entry.hold();
            let (record, layout, sizes) = (entry.record, entry.layout(), &[size]);
            let mut copy = CopyGroups { record, layout, first: group, sizes, row: &mut *words };
            let seen = with_protocol!(t.protocol, P => ask!(
                context.asker(),
                place,
                hold,
                |me| P::update(me, view, hold, &mut copy),
                |refusal| {
                    context.writes.entry_mut(index).set_hold(hold);
                    return Err(match context.explain(refusal, place, entry.asked) {
                        // The record was promised to exist by what this transaction has done so far.
                        Stop::LookAgain => context.vanished(entry.table, entry.record, entry.at),
                        stop => stop,
                    });
                }
            ));
            context.writes.entry_mut(index).set_hold(hold);
            if seen.word.is_absent() || entry.seen().is_some_and(|earlier| earlier != seen.word) {
                return Err(context.vanished(entry.table, entry.record, entry.at));
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
            context.set_value(index, group, &value)?;
            context.value = value;
            Ok(())
        })
    }

    /// Applies the updates of a group to this transaction's own value of it.
    pub(crate) fn settle_value(&mut self, index: usize, group: usize) -> Result<(), Abort> {
        let layout = self.writes.entry(index).layout().group(group);
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        value.extend_from_slice(self.writes.value_bytes(index, layout));
        self.writes.apply(index, group, &mut value);
        self.set_value(index, group, &value)?;
        self.value = value;
        Ok(())
    }

    /// Gives a group of a cell that will be written these bytes: what commit-time updates have made of it, which
    /// may have become longer than any value that is given whole.
    pub(crate) fn set_value(&mut self, index: usize, group: usize, value: &[u8]) -> Result<(), Abort> {
        let entry = self.writes.entry(index);
        let (table, record) = (entry.table, entry.record);
        let layout = entry.layout().group(group);
        let copy = |out: &mut [u8]| out.copy_from_slice(value);
        if self.writes.set_value(index, group, layout, layout.size, value.len(), copy) {
            return Ok(());
        }
        // SAFETY: pinned since the record was found.
        Err(self.too_long(table, unsafe { record.key() }))
    }

    /// The entry for a cell that will be written; makes one, asking for the right to write unread. `asked`: see
    /// [`WriteEntry::asked`].
    #[inline]
    pub(crate) fn write_entry(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        layout: &Layout,
        cell: usize,
        asked: u8,
        Unread { must_exist, late }: Unread,
    ) -> Result<usize, Stop> {
        let t = table.get();
        let at = layout.cells()[cell];
        if let Some(index) = self.writes.find(record, at as u32) {
            self.writes.entry_mut(index).asked |= asked;
            return Ok(index);
        }
        let place = Place { table, record, at: at as u32 };
        let mut hold = self.hold_before(place);
        if !late {
            // SAFETY: pinned, and the offset is of this table's layout.
            let view = unsafe { record.cell(at, t.aux_words) };
            self.shared.host.work(Work::Operation);
            with_protocol!(t.protocol, P => ask!(
                self.asker(),
                place,
                hold,
                |me| P::write(me, view, hold),
                |refusal| {
                    self.let_go_unless_held(&refusal, place, hold);
                    return Err(self.explain(refusal, place, asked));
                }
            ));
        }
        // The groups of a cell are numbered from its own number on, or there is one cell.
        let image = self.writes.make_room(layout.group(cell).cell_words as usize);
        let mut entry = WriteEntry::new(place, cell as u32, Effect::Change, None, hold, image);
        entry.must_exist = must_exist;
        entry.asked = asked;
        Ok(self.writes.push(entry))
    }

    /// The row was there, and is not, or the other way round, as far as its cell at `at` says: not a state that can commit.
    #[cold]
    pub(crate) fn vanished(&mut self, table: TableRef, record: RecordPtr, at: u32) -> Stop {
        // SAFETY: pinned since the record was found.
        let key = unsafe { record.key() };
        let what = match table.get().has_been_regrouped(record, at) {
            true => What::Regrouped,
            false => What::Reclaimed,
        };
        let conflict = Conflict { rule: "row: presence", what };
        let place = Place { table, record, at };
        Stop::Abort(self.abort_at(conflict, AbortKind::Conflict, table, key, place.cell()))
    }

    /// Whether a row exists: a read of groups of it, whose values are not wanted.
    pub(crate) fn is_present(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
    ) -> Result<bool, Stop> {
        self.with_row(sizes, |context, row| context.read_groups(table, record, first, sizes, row))
    }

    /// The same of all groups, which will be written: cell by cell, without a look at the values. `is_new`: this transaction
    /// has just put the record in, so that it cannot have entries for it.
    pub(crate) fn is_present_for_update(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        layout: &Layout,
        is_new: bool,
        entries: &mut [u32; GROUPS_MAX],
    ) -> Result<bool, Stop> {
        with_protocol!(table.get().protocol, P => {
            self.is_present_for_update_by::<P>(table, record, layout, is_new, entries)
        })
    }

    #[inline(always)]
    fn is_present_for_update_by<P: Rules>(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        layout: &Layout,
        is_new: bool,
        entries: &mut [u32; GROUPS_MAX],
    ) -> Result<bool, Stop> {
        let mut present = None;
        // The groups of a cell are numbered from its own number on, or there is one cell.
        let asked = |cell: usize| if layout.is_one_cell() { u8::MAX } else { 1 << cell };
        for (cell, number) in entries.iter_mut().enumerate().take(layout.cells().len()) {
            let group = layout.group(cell);
            let own = if is_new { None } else { self.writes.find(record, group.cell_at) };
            let (index, here) = match own {
                Some(index) => (index, !self.writes.entry(index).leaves_absent()),
                None => self.add_entry_as_read::<P>(table, record, group, asked(cell), &mut ())?,
            };
            *number = index as u32;
            if present.is_some_and(|before| before != here) {
                // Cells of one row come and go together: this is no committed state.
                return Err(self.vanished(table, record, group.cell_at));
            }
            present = Some(here);
        }
        Ok(present.unwrap_or(false))
    }

    /// A first guess whether a row exists, without reading it: if so it must when it is locked.
    pub(crate) fn seems_present(&mut self, table: TableRef, record: RecordPtr, at: u32) -> bool {
        if let Some(index) = self.writes.find(record, at) {
            let entry = self.writes.entry(index);
            return match entry.effect {
                Effect::Insert | Effect::Change => true,
                Effect::Delete => false,
                Effect::Keep => entry.seen().is_none_or(|seen| !seen.is_absent()),
            };
        }
        let t = table.get();
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { record.cell(at as usize, t.aux_words) };
        let word = view.word.load();
        word.is_locked() && !word.is_reclaimed() || !word.is_locked() && !word.is_absent()
    }
}
