//! The operations of a transaction on one row: untyped, cell by cell.
//!
//! Which groups an operation is about is told as the number of the first one and their sizes. The typed
//! callers know the sizes when the program is compiled, so that copying and decoding become straight
//! code; the few others look them up in the table.

use crate::abort::{Abort, AbortKind};
use crate::context::{Asker, Context, Stop, ask};
use crate::group::{GROUPS_MAX, Group, Row, RowReader, RowWriter, Size, words_of};
use crate::index::{Inserted, Lookup};
use crate::key::KEY_BYTES_MAX;
use crate::protocol::{Conflict, Hold, Place, Rules, What, with_protocol};
use crate::record::{GroupLayout, Layout, RecordPtr, as_bytes_mut, boxed_bytes};
use crate::table::TableRef;
use crate::write_set::{Effect, WriteSet};
use noonmark_core::sync::Ordering;
use noonmark_core::{Host, SlotId, Timestamp, Word};
use std::ops::Range;

/// Copies the words of neighbouring groups, from `first` on, of these sizes.
#[inline(always)]
fn copy_groups(record: RecordPtr, layout: &Layout, first: usize, sizes: &[Size], to: &mut [u64]) {
    let mut at = 0;
    for (index, size) in sizes.iter().enumerate() {
        // SAFETY: the caller is pinned, and the groups are of the record's layout.
        let words = unsafe { record.words(layout.group(first + index).at, size.words()) };
        // Acquire for an address: what it points to was written before it was stored. Relaxed otherwise:
        // the version word, looked at before and after, says whether it belongs together; an address,
        // too, is followed only if it does.
        let ordering = if size.is_boxed() { Ordering::Acquire } else { Ordering::Relaxed };
        for (to, from) in to[at..at + size.words()].iter_mut().zip(words) {
            *to = from.load(ordering);
        }
        at += size.words();
    }
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

    /// The same, out of the straight way. After an operation has met a record on its way out of its index,
    /// which forgets it in the same breath, it finds another, or none.
    #[cold]
    #[inline(never)]
    fn find_again(&mut self, table: TableRef, key: &[u8]) -> Option<RecordPtr> {
        self.find(table, key)
    }

    /// What the last joint look-up found for its key number `index`.
    #[inline(always)]
    pub(crate) fn found(&mut self, table: TableRef, key: &[u8], index: usize) -> Option<RecordPtr> {
        match self.lookups[index] {
            Lookup::Found(record) => Some(record),
            // An absence that is some operations old is looked at again: this transaction may have inserted
            // the key since.
            Lookup::Absent(_) => self.find_again(table, key),
        }
    }

    /// Calls `use_buffer` with room for the words of groups of these sizes: on the stack if they are few.
    #[inline(always)]
    pub(crate) fn with_row<T>(
        &mut self,
        sizes: &[Size],
        use_buffer: impl FnOnce(&mut Self, &mut [u64]) -> T,
    ) -> T {
        match words_of(sizes) {
            words @ 0..=8 => use_buffer(self, &mut [0; 8][..words]),
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
    ///
    /// With `entries`, reads them in order to write them: notes entries in the write set, whose numbers
    /// come out there by cell.
    #[inline(always)]
    pub(crate) fn read_groups(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
        entries: Option<&mut [u32; GROUPS_MAX]>,
    ) -> Result<bool, Stop> {
        if sizes.len() == 1 || table.get().layout.is_one_cell() {
            self.read_cell(table, record, first, sizes, row, entries)
        } else {
            self.read_cells(table, record, first, sizes, row, entries)
        }
    }

    /// Groups that are in a cell each.
    fn read_cells(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
        mut entries: Option<&mut [u32; GROUPS_MAX]>,
    ) -> Result<bool, Stop> {
        let mut present = None;
        let mut at = 0;
        for (index, size) in sizes.iter().enumerate() {
            let to = &mut row[at..at + size.words()];
            let entries = entries.as_deref_mut();
            let here =
                self.read_cell(table, record, first + index, std::slice::from_ref(size), to, entries)?;
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

    /// Groups that are in one cell.
    #[inline(always)]
    fn read_cell(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
        entries: Option<&mut [u32; GROUPS_MAX]>,
    ) -> Result<bool, Stop> {
        let t = table.get();
        let layout = &t.layout;
        let &GroupLayout { cell, cell_at, .. } = layout.group(first);
        if let Some(index) = self.writes.find(record, cell) {
            if let Some(entries) = entries {
                entries[cell as usize % GROUPS_MAX] = index as u32;
            }
            return self.read_own(index, first, sizes, row);
        }
        let place = Place { table, record, at: cell_at };
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { record.cell(cell_at as usize, t.aux_words) };
        let Some(entries) = entries else {
            return with_protocol!(t.protocol, P => {
                match ask!(self.asker(), place, |me| {
                    P::read(me, view, || copy_groups(record, layout, first, sizes, row))
                }) {
                    Ok((seen, ())) => {
                        self.note_read(place, cell, seen);
                        Ok(!seen.word.is_absent())
                    }
                    Err(refusal) => Err(self.explain(refusal, place, cell)),
                }
            });
        };
        let mut hold = Hold::default();
        let held = &mut hold;
        let answer = with_protocol!(t.protocol, P => ask!(self.asker(), place, |me| {
            P::update(me, view, held, || copy_groups(record, layout, first, sizes, row))
        }));
        match answer {
            Ok((seen, ())) => {
                self.read_bound = self.read_bound.max(seen.word.time());
                // Validated when it is locked, so it is not in the read set.
                let here = !seen.word.is_absent();
                let effect = if here { Effect::Change } else { Effect::Keep };
                let words = layout.value_words(first);
                let entry = self.writes.push(place, cell, effect, Some(seen.word), hold, words);
                entries[cell as usize % GROUPS_MAX] = entry as u32;
                Ok(here)
            }
            Err(refusal) => {
                self.release_hold(table, record, cell_at, hold);
                Err(self.explain(refusal, place, cell))
            }
        }
    }

    /// Reads groups that are in one cell, and of fixed size, in order to write them: into the image that the
    /// write set has of the cell. Its entry there; `None`: the row is absent.
    #[inline(always)]
    fn read_into_image(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        first: usize,
        sizes: &[Size],
    ) -> Result<Option<usize>, Stop> {
        let t = table.get();
        let layout = &t.layout;
        let &GroupLayout { cell, cell_at, at, in_cell, .. } = layout.group(first);
        if let Some(index) = self.writes.find(record, cell) {
            return self.settle_own(index, first, sizes);
        }
        let place = Place { table, record, at: cell_at };
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { record.cell(cell_at as usize, t.aux_words) };
        // A cell that has other groups, too, has room for them in its image.
        let alone = sizes.len() == 1 && !layout.is_one_cell();
        let cell_words = layout.value_words(first);
        let image = self.writes.arena_end();
        let mut hold = Hold::default();
        let (held, writes) = (&mut hold, &mut self.writes);
        // Not by `asker()`: the write set is borrowed.
        macro_rules! asker {
            () => {
                Asker::new(&self.shared, self.txn, self.order, self.deadline_ns)
            };
        }
        let answer = with_protocol!(t.protocol, P => ask!(asker!(), place, |me| {
            P::update(me, view, held, || {
                // SAFETY: pinned, and they are the words of the group, or of all groups of the cell.
                unsafe {
                    if alone {
                        writes.draft(image, record.words(at, sizes[0].words()));
                    } else {
                        writes.draft(image, record.words(at - in_cell, cell_words));
                    }
                }
            })
        }));
        match answer {
            Ok((seen, ())) => {
                self.read_bound = self.read_bound.max(seen.word.time());
                // Validated when it is locked, so it is not in the read set.
                let here = !seen.word.is_absent();
                let effect = if here { Effect::Change } else { Effect::Keep };
                let known = if alone { 1 << first } else { layout.fixed_groups() };
                let seen = Some(seen.word);
                let entry = self.writes.push_with_image(place, cell, effect, seen, hold, image, known);
                Ok(here.then_some(entry))
            }
            Err(refusal) => {
                self.release_hold(table, record, cell_at, hold);
                Err(self.explain(refusal, place, cell))
            }
        }
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
            let mut hold = entry.hold;
            let (held, to) = (&mut hold, &mut *words);
            let answer = with_protocol!(t.protocol, P => ask!(context.asker(), place, |me| {
                P::update(me, view, held, || copy_groups(entry.record, &t.layout, group, &[size], to))
            }));
            context.writes.entry_mut(index).hold = hold;
            let seen = match answer {
                Ok((seen, ())) => seen,
                Err(refusal) => {
                    return Err(match context.explain(refusal, place, entry.cell) {
                        // The record was promised to exist by what this transaction has done so far.
                        Stop::LookAgain => context.vanished(entry.table, entry.record, entry.cell),
                        stop => stop,
                    });
                }
            };
            if seen.word.is_absent() || entry.seen.is_some_and(|earlier| earlier != seen.word) {
                return Err(context.vanished(entry.table, entry.record, entry.cell));
            }
            context.read_bound = context.read_bound.max(seen.word.time());
            context.writes.entry_mut(index).seen = Some(seen.word);
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

    /// Reads groups, as many as there are sizes, of the row under a key, which was found at `found`, into
    /// `row`. False: there is no row.
    #[inline(always)]
    pub(crate) fn read_at(
        &mut self,
        table: TableRef,
        key: &[u8],
        mut found: Option<RecordPtr>,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Abort> {
        while let Some(record) = found {
            match self.read_groups(table, record, first, sizes, row, None) {
                Ok(present) => return Ok(present),
                Err(Stop::Abort(abort)) => return Err(abort),
                Err(Stop::LookAgain) => found = self.find_again(table, key),
            }
        }
        Ok(false)
    }

    /// Reads the value in the groups from `first` on of the record that was found under a key, and writes
    /// what `change` makes of it. False: the row is absent.
    #[inline(always)]
    pub(crate) fn update_at<R: Row>(
        &mut self,
        table: TableRef,
        key: &[u8],
        mut found: Option<RecordPtr>,
        first: usize,
        change: impl FnOnce(&mut R),
    ) -> Result<bool, Abort> {
        let layout = &table.get().layout;
        let in_one_cell = R::SIZES.len() == 1 || layout.is_one_cell();
        if in_one_cell && !R::SIZES.iter().any(|size| size.is_boxed()) {
            let entry = loop {
                let Some(record) = found else { return Ok(false) };
                match self.read_into_image(table, record, first, R::SIZES) {
                    Ok(Some(entry)) => break entry,
                    Ok(None) => return Ok(false),
                    Err(Stop::Abort(abort)) => return Err(abort),
                    Err(Stop::LookAgain) => found = self.find_again(table, key),
                }
            };
            let at = layout.group(first).in_cell as usize;
            let image = self.writes.image(entry, at, words_of(R::SIZES));
            let mut value = R::decode_row(&RowReader::new(image, R::SIZES));
            change(&mut value);
            let words = self.writes.new_values(entry, first, at, R::SIZES);
            value.encode_row(&mut ImageWriter { words, sizes: R::SIZES });
            return Ok(true);
        }
        self.with_row(R::SIZES, |context, row| {
            let mut entries = [0; GROUPS_MAX];
            loop {
                let Some(record) = found else { return Ok(false) };
                match context.read_groups(table, record, first, R::SIZES, row, Some(&mut entries)) {
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
            let held = &mut hold;
            let answer =
                with_protocol!(t.protocol, P => ask!(self.asker(), place, |me| P::write(me, view, held)));
            if let Err(refusal) = answer {
                self.release_hold(table, record, at as u32, hold);
                return Err(self.explain(refusal, place, cell as u32));
            }
        }
        let words = t.layout.value_words(cell);
        let index = self.writes.push(place, cell as u32, Effect::Change, None, hold, words);
        self.writes.entry_mut(index).must_exist = must_exist;
        Ok(index)
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
        } else if self.is_present_for_update(table, record, &mut entries)? {
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
        if !self.is_present_for_update(table, record, &mut entries)? {
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
        self.with_row(sizes, |context, row| context.read_groups(table, record, first, sizes, row, None))
    }

    /// The same of all groups, which will be written: cell by cell, without a look at the values.
    fn is_present_for_update(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        entries: &mut [u32; GROUPS_MAX],
    ) -> Result<bool, Stop> {
        let layout = &table.get().layout;
        let mut present = self.read_cell(table, record, 0, &[], &mut [], Some(&mut *entries))?;
        if !layout.is_one_cell() {
            for first in 1..layout.groups().len() {
                let here = self.read_cell(table, record, first, &[], &mut [], Some(&mut *entries))?;
                if here != present {
                    // Cells of one row come and go together: this is no committed state.
                    return Err(self.vanished(table, record, layout.group(first).cell));
                }
                present = here;
            }
        }
        Ok(present)
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
                Effect::Keep => entry.seen.is_none_or(|seen| !seen.is_absent()),
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
        let (knows, was_read) = (entry.knows(group), entry.seen.is_some());
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
