//! The operations of a transaction on one row: untyped, cell by cell.

use crate::abort::{Abort, AbortKind};
use crate::context::{Context, Stop};
use crate::group::{Group, Row, RowReader, RowWriter};
use crate::index::{Inserted, Lookup};
use crate::key::KEY_BYTES_MAX;
use crate::protocol::{Conflict, Hold, Place, Rules, Seen, What, with_protocol};
use crate::record::{GroupLayout, RecordPtr, boxed_bytes};
use crate::table::TableRef;
use crate::write_set::{Effect, WriteSet};
use noonmark_core::sync::{AtomicU64, Ordering};
use noonmark_core::{Host, SlotId, Timestamp, Word};
use std::ops::Range;

/// Copies the words of neighbouring groups of one cell into their places in a row that begins with
/// the group at `row_base`.
#[inline(always)]
fn copy_groups(record: RecordPtr, groups: &[GroupLayout], row_base: usize, row: &mut [u64]) {
    for group in groups {
        // SAFETY: the caller is pinned, and the groups are of the record's layout.
        let words = unsafe { record.words(group) };
        let at = group.at_in_row - row_base;
        for (to, from) in row[at..at + group.words].iter_mut().zip(words) {
            // Relaxed: the version word, looked at before and after, says whether it belongs
            // together. An address is followed only if it does, see `load_word`.
            *to = load_word(from, group.boxed);
        }
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

#[inline(always)]
fn load_word(word: &AtomicU64, boxed: bool) -> u64 {
    // Acquire for an address: what it points to was written before it was stored.
    word.load(if boxed { Ordering::Acquire } else { Ordering::Relaxed })
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

    #[inline(always)]
    fn make_room(&mut self, table: TableRef) {
        let words = table.get().layout.row_words();
        if self.row.len() < words {
            self.row.resize(words, 0);
        }
    }

    /// Reads groups of a row into `self.row`. False: the row is absent.
    #[inline(always)]
    pub(crate) fn read_groups(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        groups: Range<usize>,
    ) -> Result<bool, Stop> {
        self.make_room(table);
        let t = table.get();
        let layout = &t.layout;
        let row_base = layout.groups()[groups.start].at_in_row;
        let mut group = groups.start;
        let mut present = None;
        while group < groups.end {
            let cell = layout.groups()[group].cell;
            let cell_layout = &layout.cells()[cell];
            let end = cell_layout.groups.end.min(groups.end);
            let here = if let Some(index) = self.writes.find(record, cell as u32) {
                self.read_own(index, group..end, row_base)?
            } else {
                let place = Place { table, record, at: cell_layout.at as u32 };
                // SAFETY: pinned, and the offset is of this table's layout.
                let view = unsafe { record.cell(cell_layout.at, t.aux_words) };
                let row = &mut self.row;
                let asker = crate::context::Asker {
                    shared: &self.shared,
                    txn: self.txn,
                    order: self.order,
                    deadline_ns: self.deadline_ns,
                };
                let answer = with_protocol!(t.protocol, P => asker.ask(place, |me| {
                    P::read(me, view, || copy_groups(record, &layout.groups()[group..end], row_base, row))
                }));
                match answer {
                    Ok((seen, ())) => {
                        self.note_read(place, cell as u32, seen);
                        !seen.word.is_absent()
                    }
                    Err(refusal) => return Err(self.explain(refusal, place, cell as u32)),
                }
            };
            if present.is_some_and(|before| before != here) {
                // Cells of one row come and go together: this is no committed state.
                return Err(self.vanished(table, record, cell as u32));
            }
            present = Some(here);
            group = end;
        }
        Ok(present.unwrap_or(false))
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
    fn read_own(&mut self, index: usize, groups: Range<usize>, row_base: usize) -> Result<bool, Stop> {
        let entry = *self.writes.entry(index);
        match entry.effect {
            Effect::Delete => return Ok(false),
            Effect::Keep if entry.seen.is_some_and(|seen| seen.is_absent()) => return Ok(false),
            _ => {}
        }
        let layout = &entry.table.get().layout;
        for group in groups {
            if self.writes.value_of(index, group as u32).is_none() {
                self.settle_group(index, group)?;
            }
            let group_layout = &layout.groups()[group];
            let at = group_layout.at_in_row - row_base;
            match self.writes.value_of(index, group as u32) {
                Some(change) if group_layout.boxed => {
                    // A value of variable size is shown through an address, like any other. It is
                    // this transaction's own copy, freed when it ends.
                    let address = self.boxed_copy(index, change);
                    self.row[at] = address;
                }
                Some(change) => {
                    let words = self.writes.words(&change);
                    self.row[at..at + words.len()].copy_from_slice(words);
                }
                None => {}
            }
        }
        Ok(true)
    }

    /// A version made of one of this transaction's own values, freed after the transaction.
    fn boxed_copy(&mut self, _index: usize, change: crate::write_set::Change) -> u64 {
        let address = crate::record::allocate_boxed(self.writes.value_bytes(&change));
        self.retire_boxed(address);
        address
    }

    /// Reads a group that this transaction has only updated, or not touched, in a cell that it
    /// writes: from here on it is an ordinary read and update. Its value is in the write set then.
    fn settle_group(&mut self, index: usize, group: usize) -> Result<(), Stop> {
        let entry = *self.writes.entry(index);
        let table = entry.table;
        let t = table.get();
        let layout = &t.layout;
        let group_layout = &layout.groups()[group];
        let place = Place { table, record: entry.record, at: entry.at };
        // SAFETY: pinned, and the offset is of this table's layout.
        let view = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
        let mut words = std::mem::take(&mut self.words);
        words.resize(words.len().max(group_layout.words), 0);
        let mut hold = entry.hold;
        let answer = with_protocol!(t.protocol, P => self.asker().ask(place, |me| {
            P::update(me, view, &mut hold, || {
                let one = std::slice::from_ref(group_layout);
                copy_groups(entry.record, one, group_layout.at_in_row, &mut words);
            })
        }));
        self.writes.entry_mut(index).hold = hold;
        let seen = match answer {
            Ok((seen, ())) => seen,
            Err(refusal) => {
                return Err(match self.explain(refusal, place, entry.cell) {
                    // The record was promised to exist by what this transaction has done so far.
                    Stop::LookAgain => self.vanished(table, entry.record, entry.cell),
                    stop => stop,
                });
            }
        };
        if seen.word.is_absent() || entry.seen.is_some_and(|earlier| earlier != seen.word) {
            return Err(self.vanished(table, entry.record, entry.cell));
        }
        self.read_bound = self.read_bound.max(seen.word.time());
        self.writes.entry_mut(index).seen = Some(seen.word);
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        if group_layout.boxed {
            // SAFETY: the address belongs to the version that was read, and the transaction is
            // pinned since.
            value.extend_from_slice(unsafe { boxed_bytes(words[0]) });
        } else {
            value.extend_from_slice(&crate::record::as_bytes(&words)[..group_layout.bytes]);
        }
        self.words = words;
        for change in self.writes.changes(index).filter(|c| c.group == group as u32) {
            self.writes.apply(change, &mut value);
        }
        self.writes.set_value(index, group as u32, value.len(), |out| out.copy_from_slice(&value));
        self.value = value;
        Ok(())
    }

    /// What is in `self.row` after [`Context::read_groups`] of groups from `first` on.
    #[inline(always)]
    pub(crate) fn row_reader(&self, table: TableRef, first: usize) -> RowReader<'_> {
        RowReader::new(&self.row, &table.get().layout, first)
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
        let at = t.layout.cells()[cell].at;
        let mut hold = Hold::default();
        let place = Place { table, record, at: at as u32 };
        if !late {
            // SAFETY: pinned, and the offset is of this table's layout.
            let view = unsafe { record.cell(at, t.aux_words) };
            let answer = {
                let asker = self.asker();
                with_protocol!(t.protocol, P => asker.ask(place, |me| P::write(me, view, &mut hold)))
            };
            if let Err(refusal) = answer {
                self.release_hold(table, record, at as u32, hold);
                return Err(self.explain(refusal, place, cell as u32));
            }
        }
        let index = self.writes.push(place, cell as u32, Effect::Change, None, hold);
        self.writes.entry_mut(index).must_exist = must_exist;
        Ok(index)
    }

    /// Reads the cells of these groups in order to write them, into `self.row`. False: the row is
    /// absent, which is noted as any read. The entries' indexes come out by cell.
    #[inline(always)]
    pub(crate) fn read_for_update(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        groups: Range<usize>,
        entries: &mut [u32; 8],
    ) -> Result<bool, Stop> {
        self.make_room(table);
        let t = table.get();
        let layout = &t.layout;
        let row_base = layout.groups()[groups.start].at_in_row;
        let mut group = groups.start;
        let mut present = None;
        while group < groups.end {
            let cell = layout.groups()[group].cell;
            let cell_layout = &layout.cells()[cell];
            let end = cell_layout.groups.end.min(groups.end);
            let here = if let Some(index) = self.writes.find(record, cell as u32) {
                entries[cell] = index as u32;
                self.read_own(index, group..end, row_base)?
            } else {
                let at = cell_layout.at as u32;
                let place = Place { table, record, at };
                // SAFETY: pinned, and the offset is of this table's layout.
                let view = unsafe { record.cell(cell_layout.at, t.aux_words) };
                let mut hold = Hold::default();
                let row = &mut self.row;
                let asker = crate::context::Asker {
                    shared: &self.shared,
                    txn: self.txn,
                    order: self.order,
                    deadline_ns: self.deadline_ns,
                };
                let answer = with_protocol!(t.protocol, P => asker.ask(place, |me| {
                    P::update(me, view, &mut hold, || {
                        copy_groups(record, &layout.groups()[group..end], row_base, row)
                    })
                }));
                match answer {
                    Ok((seen, ())) => {
                        let here = !seen.word.is_absent();
                        entries[cell] = self.note_update(place, cell, seen, hold, here);
                        here
                    }
                    Err(refusal) => {
                        self.release_hold(table, record, at, hold);
                        return Err(self.explain(refusal, place, cell as u32));
                    }
                }
            };
            if present.is_some_and(|before| before != here) {
                return Err(self.vanished(table, record, cell as u32));
            }
            present = Some(here);
            group = end;
        }
        Ok(present.unwrap_or(false))
    }

    #[inline(always)]
    fn note_update(&mut self, place: Place, cell: usize, seen: Seen, hold: Hold, present: bool) -> u32 {
        self.read_bound = self.read_bound.max(seen.word.time());
        // Validated when it is locked, so it is not in the read set.
        let effect = if present { Effect::Change } else { Effect::Keep };
        self.writes.push(place, cell as u32, effect, Some(seen.word), hold) as u32
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
                let view = unsafe { record.cell(cell.at, t.aux_words) };
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
        let all = 0..R::SIZES.len();
        self.keeping_secondaries(table, key, all.clone(), |context| {
            look_until_found(|| context.try_insert(table, key, row, replace, all.clone()))
        })
    }

    fn try_insert<R: Row>(
        &mut self,
        table: TableRef,
        key: &[u8],
        row: &R,
        replace: bool,
        all: Range<usize>,
    ) -> Result<bool, Stop> {
        let (record, seen_absent) = self.find_or_create(table, key)?;
        let t = table.get();
        let mut entries = [0; 8];
        if replace {
            if seen_absent && self.read_groups(table, record, all)? {
                return Err(self.vanished(table, record, 0));
            }
            for (cell, entry) in entries.iter_mut().enumerate().take(t.layout.cells().len()) {
                *entry = self.write_entry(table, record, cell, false, false)? as u32;
            }
        } else if self.read_for_update(table, record, all, &mut entries)? {
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
            if entry.effect == Effect::Change && self.writes.changes(index).next().is_none() {
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
        let mut entries = [0; 8];
        let all = 0..t.layout.groups().len();
        if !self.read_for_update(table, record, all, &mut entries)? {
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

    fn try_write(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: Range<usize>,
        encode: &impl Fn(&mut EntryWriter<'_>),
    ) -> Result<bool, Stop> {
        let Some(record) = self.find(table, key) else { return Ok(false) };
        let t = table.get();
        let mut entries = [0; 8];
        let cells = t.layout.groups()[groups.start].cell..t.layout.groups()[groups.end - 1].cell + 1;
        for cell in cells {
            if !self.seems_present(table, record, cell) && !self.read_groups(table, record, groups.clone())? {
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
        let view = unsafe { record.cell(t.layout.cells()[cell].at, t.aux_words) };
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
        let cell = t.layout.groups()[group].cell;
        if !self.seems_present(table, record, cell) && !self.read_groups(table, record, group..group + 1)? {
            return Ok(false);
        }
        let index = self.write_entry(table, record, cell, true, true)?;
        self.writes.will_change(index);
        let has_value = self.writes.value_of(index, group as u32).is_some();
        self.writes.add_update(index, group as u32, update(), payload);
        // What has been read or written already is updated at once.
        if has_value || self.writes.entry(index).seen.is_some() {
            self.settle_group_value(index, group)?;
        }
        Ok(true)
    }

    /// Applies the updates of a group to its value: this transaction's own, or the one in the record.
    fn settle_group_value(&mut self, index: usize, group: usize) -> Result<(), Stop> {
        let Some(base) = self.writes.value_of(index, group as u32) else {
            return self.settle_group(index, group);
        };
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        value.extend_from_slice(self.writes.value_bytes(&base));
        for change in self.writes.changes(index).filter(|c| c.group == group as u32) {
            self.writes.apply(change, &mut value);
        }
        self.writes.unlink(index, group as u32);
        self.writes.set_value(index, group as u32, value.len(), |out| out.copy_from_slice(&value));
        self.value = value;
        Ok(())
    }
}

/// Receives the groups of a row and puts them into the write set.
pub(crate) struct EntryWriter<'a> {
    pub writes: &'a mut WriteSet,
    pub table: TableRef,
    /// The entries, by cell.
    pub entries: [u32; 8],
    /// The first group that is written; indexes count from it.
    pub first: usize,
    /// A value was longer than 4 GiB.
    pub too_long: bool,
}

impl RowWriter for EntryWriter<'_> {
    #[inline(always)]
    fn group<G: Group>(&mut self, index: usize, value: &G) {
        let group = self.first + index;
        let layout = &self.table.get().layout.groups()[group];
        let entry = self.entries[layout.cell] as usize;
        // What was only to be validated is written after all.
        self.writes.will_change(entry);
        let bytes = value.encoded_bytes();
        if bytes > u32::MAX as usize {
            self.too_long = true;
            return;
        }
        self.writes.set_value(entry, group as u32, bytes, |out| value.encode(out));
    }
}
