//! The operations of a transaction on one row, found by its key.
//!
//! What they do to the row's cells is in [`crate::cells`]. Those that most transactions are made of (a read, and an
//! update of values of fixed size) are compiled for each protocol by itself, so that the rules become a part of
//! them; the others ask for the protocol cell by cell.

use crate::abort::{Abort, AbortKind};
use crate::cells::Unread;
use crate::context::{Context, Stop};
use crate::group::{GROUPS_MAX, Group, Groups, Row, RowReader, RowWriter, Size, change_plain, words_of};
use crate::index::{Inserted, Lookup, NodeStamp, prefetch};
use crate::lines;
use crate::planted::Bug;
use crate::protocol::{Rules, with_protocol};
use crate::record::{GroupLayout, LINE_WORDS, Layout, RecordPtr, as_bytes_mut};
use crate::table::{TableCore, TableRef};
use crate::typed::Target;
use crate::write_set::{Effect, WriteSet};
use noonmark_core::sync::Ordering;
use noonmark_core::{Access, Host, SlotId, Timestamp, Word, Work};
use std::cell::Cell;
use std::ops::Range;

/// Most rows, or the groups of them that are wanted, have at most so many words: two cache lines.
const SHORT_ROW_WORDS: usize = 2 * LINE_WORDS;

/// Whether these are few: then the operations that most transactions are made of are compiled for the type, and copying its words becomes
/// straight code. Of long ones it is for each protocol only. To be asked in a constant: then the other way is not compiled.
const fn is_short<R: Row>() -> bool {
    words_of(R::SIZES) <= SHORT_ROW_WORDS
}

/// What there is under a key for a row to be put in.
struct Room {
    record: RecordPtr,
    /// The record was made for it.
    is_new: bool,
    /// If so: the transaction had seen, by the node alone, that the key was absent. From here on it is the record that says
    /// so, and others may write it.
    relies_on_absence: bool,
}

/// Whether rows of this type are changed in place in the write set's image, in this table: their groups are of
/// fixed size, and in one cell.
#[inline(always)]
pub(crate) fn is_changed_in_place<R: Row>(table: &TableCore) -> bool {
    !R::SIZES.iter().any(|size| size.is_boxed())
        && (R::SIZES.len() == 1 || table.layout.is_one_cell() && table.split.is_none())
}

/// What an operation on these groups wants of one of the cells, a bit for each group.
#[inline(always)]
fn asked_of(layout: &Layout, cell: usize, groups: &Range<usize>) -> u8 {
    if layout.is_one_cell() { Groups::of(groups).bits() } else { 1 << cell }
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
        self.about_to_look(table, key, Access::Read);
        match table.get().index.get(key, &mut self.finger) {
            Lookup::Found(record) => Some(record),
            Lookup::Absent(node) => {
                self.note_node(table, node, key);
                None
            }
        }
    }

    /// The same of a row that is about to be read, or the groups of it that are the target: their lines are asked for at once.
    ///
    /// Some 60 to 90 instructions come before they are read, and a processor looks some three hundred ahead. So where it still waits for
    /// the row before, it begins to wait for this one, too (docs/cost-of-a-transaction.md).
    #[inline(always)]
    pub(crate) fn find_to_read<T: Target>(&mut self, target: &T, key: &[u8]) -> Option<RecordPtr> {
        let core = target.core();
        let found = self.find(TableRef::new(core), key)?;
        let cell_at = core.layout.group(target.groups().start).cell_at as usize;
        // A version word, and the values behind it.
        for word in (0..1 + words_of(T::Value::SIZES)).step_by(LINE_WORDS) {
            prefetch(found.as_ptr().wrapping_add(cell_at + word).cast());
        }
        Some(found)
    }

    /// The index is about to be looked into for a key, or changed at it.
    #[inline(always)]
    pub(crate) fn about_to_look(&self, table: TableRef, key: &[u8], access: Access) {
        let host = &self.shared.host;
        host.work(Work::Lookup);
        host.touch(|| lines::of_place(table, key), access);
    }

    /// The same, out of the straight way: for a key that was looked up with others, some operations ago, and not
    /// found. This transaction may have inserted it since.
    #[cold]
    #[inline(never)]
    pub(crate) fn find_again(&mut self, table: TableRef, key: &[u8]) -> Option<RecordPtr> {
        if self.shared.planted.is(Bug::AbsenceUnnoted) {
            return None;
        }
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
            words @ 0..=LINE_WORDS => use_buffer(self, &mut [0; LINE_WORDS][..words]),
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

    /// The value under a key in the table, or group of it, that is the target, where its record was found.
    #[inline(always)]
    pub(crate) fn get_found<T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
    ) -> Result<Option<T::Value>, Abort> {
        self.see_found(target, key, found, |value| value)
    }

    /// What `see` makes of it. Where it is decoded there it is looked at: a value that is handed on through results is copied for each, and mostly less of it is
    /// wanted.
    #[inline(always)]
    pub(crate) fn see_found<T: Target, A>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
        see: impl FnOnce(Option<T::Value>) -> A,
    ) -> Result<A, Abort> {
        if const { !is_short::<T::Value>() } {
            self.get_long(target, key, found).map(see)
        } else if const { words_of(T::Value::SIZES) <= LINE_WORDS } {
            self.see_short(target, key, found, &mut [0; LINE_WORDS], see)
        } else {
            self.see_short(target, key, found, &mut [0; SHORT_ROW_WORDS], see)
        }
    }

    /// The same of a short row, by way of `row`, which has room for it.
    #[inline(always)]
    fn see_short<T: Target, A>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
        row: &mut [u64],
        see: impl FnOnce(Option<T::Value>) -> A,
    ) -> Result<A, Abort> {
        let row = &mut row[..words_of(T::Value::SIZES)];
        match with_protocol!(target.core().protocol, P => self.read_short::<P, T>(target, key, found, row)) {
            Ok(true) => Ok(see(Some(self.decode(row)))),
            Ok(false) => Ok(see(None)),
            Err(abort) => Err(abort),
        }
    }

    /// The value, which is to be there.
    #[inline(always)]
    pub(crate) fn need_found<T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
    ) -> Result<T::Value, Abort> {
        match self.get_found(target, key, found) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(self.missing(TableRef::new(target.core()), key)),
            Err(abort) => Err(abort),
        }
    }

    #[inline(never)]
    fn read_short<P: Rules, T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
        row: &mut [u64],
    ) -> Result<bool, Abort> {
        let sizes = T::Value::SIZES;
        let row = &mut row[..words_of(sizes)];
        self.read_row::<P>(TableRef::new(target.core()), key, found, target.groups().start, sizes, row)
    }

    #[inline(never)]
    fn get_long<T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
    ) -> Result<Option<T::Value>, Abort> {
        let sizes = T::Value::SIZES;
        let table = TableRef::new(target.core());
        let first = target.groups().start;
        self.with_row(sizes, |context, row| {
            let present = with_protocol!(table.get().protocol, P => {
                context.read_long_row::<P>(table, key, found, first, sizes, row)
            })?;
            Ok(present.then(|| context.decode(row)))
        })
    }

    /// The same as [`Context::read_row`], of whatever size.
    #[inline(never)]
    fn read_long_row<P: Rules>(
        &mut self,
        table: TableRef,
        key: &[u8],
        found: Option<RecordPtr>,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Abort> {
        self.read_row::<P>(table, key, found, first, sizes, row)
    }

    /// Reads the row, or groups of it, that was found under a key. False: it is absent.
    #[inline(always)]
    fn read_row<P: Rules>(
        &mut self,
        table: TableRef,
        key: &[u8],
        found: Option<RecordPtr>,
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Abort> {
        let Some(record) = found else { return Ok(false) };
        match self.read_groups_by::<P>(table, record, first, sizes, row) {
            Ok(present) => Ok(present),
            Err(Stop::Abort(abort)) => Err(abort),
            Err(Stop::LookAgain) => self.read_row_again(table, key, first, sizes, row),
        }
    }

    /// Not compiled for each type of row, as are most that are seldom called.
    #[cold]
    #[inline(never)]
    fn read_row_again(
        &mut self,
        table: TableRef,
        key: &[u8],
        first: usize,
        sizes: &[Size],
        row: &mut [u64],
    ) -> Result<bool, Abort> {
        look_until_found(|| match self.find(table, key) {
            Some(record) => self.read_groups_again(table, record, first, sizes, row),
            None => Ok(false),
        })
    }

    /// An error that rests on what has been read is told only if that is so in a state that a serial execution could
    /// see.
    #[cold]
    pub(crate) fn fail_if_it_holds(&mut self, kind: AbortKind, table: TableRef, key: &[u8]) -> Abort {
        match self.validate_observations() {
            Err(conflict) => conflict,
            Ok(()) => self.fail(kind, table, Some(key)),
        }
    }

    /// A row is missing.
    #[cold]
    pub(crate) fn missing(&mut self, table: TableRef, key: &[u8]) -> Abort {
        self.fail_if_it_holds(AbortKind::Missing, table, key)
    }

    /// What is to be written is too long.
    #[cold]
    pub(crate) fn too_long(&mut self, table: TableRef, key: &[u8]) -> Abort {
        self.fail_if_it_holds(AbortKind::TooLong, table, key)
    }

    /// Gets the value under a key ready to be changed in place, where its record was found: says where in the write set's arena. It must be there, and
    /// [be changed in place](is_changed_in_place).
    #[inline(always)]
    pub(crate) fn open_found<T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
    ) -> Result<usize, Abort> {
        let table = TableRef::new(target.core());
        with_protocol!(table.get().protocol, P => if const { is_short::<T::Value>() } {
            self.open_short::<P, T>(target, key, found)
        } else {
            self.open_long::<P>(table, key, found, target.groups().start, T::Value::SIZES)
        })
    }

    #[inline(never)]
    fn open_short<P: Rules, T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        found: Option<RecordPtr>,
    ) -> Result<usize, Abort> {
        let table = TableRef::new(target.core());
        let words = words_of(T::Value::SIZES);
        self.open_row::<P>(table, key, found, target.groups().start, T::Value::SIZES, words)
    }

    #[inline(never)]
    fn open_long<P: Rules>(
        &mut self,
        table: TableRef,
        key: &[u8],
        found: Option<RecordPtr>,
        first: usize,
        sizes: &[Size],
    ) -> Result<usize, Abort> {
        self.open_row::<P>(table, key, found, first, sizes, 0)
    }

    #[inline(always)]
    fn open_row<P: Rules>(
        &mut self,
        table: TableRef,
        key: &[u8],
        found: Option<RecordPtr>,
        first: usize,
        sizes: &[Size],
        words: usize,
    ) -> Result<usize, Abort> {
        let Some(record) = found else { return Err(self.missing(table, key)) };
        match self.read_into_image::<P>(table, record, first, sizes, words) {
            Ok(Some(at)) => Ok(at),
            Ok(None) => Err(self.missing(table, key)),
            Err(Stop::Abort(abort)) => Err(abort),
            Err(Stop::LookAgain) => self.open_again(table, key, first, sizes),
        }
    }

    #[cold]
    #[inline(never)]
    fn open_again(
        &mut self,
        table: TableRef,
        key: &[u8],
        first: usize,
        sizes: &[Size],
    ) -> Result<usize, Abort> {
        let at = look_until_found(|| match self.find(table, key) {
            Some(record) => {
                with_protocol!(table.get().protocol, P => self.read_into_image::<P>(table, record, first, sizes, 0))
            }
            None => Ok(None),
        });
        at?.ok_or_else(|| self.missing(table, key))
    }

    /// Changes a value where it is in the write set's arena.
    #[inline(always)]
    pub(crate) fn change_in_place<R: Row>(&mut self, at: usize, change: impl FnOnce(&mut R)) {
        self.fail_by_panic(|context| {
            let image = context.writes.words_mut(at, words_of(R::SIZES));
            if const { R::PLAIN.lies_in_words() } {
                return change_plain(image, change);
            }
            let mut value = R::decode_row(&RowReader::new(image, R::SIZES));
            change(&mut value);
            value.encode_row(&mut ImageWriter { words: image, sizes: R::SIZES });
        });
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
            let mut layout;
            loop {
                let Some(record) = found else { return Ok(false) };
                let laid = context.laid(table, record);
                layout = laid.layout;
                match context.read_groups_to_write(laid, first, R::SIZES, row, &mut entries) {
                    Ok(true) => break,
                    Ok(false) => return Ok(false),
                    Err(Stop::Abort(abort)) => return Err(abort),
                    Err(Stop::LookAgain) => found = context.find_again(table, key),
                }
            }
            let mut value: R = context.decode(row);
            change(&mut value);
            let groups = first..first + R::SIZES.len();
            let mut writer =
                EntryWriter { writes: &mut context.writes, layout, entries, groups, too_long: false };
            value.encode_row(&mut writer);
            if writer.too_long {
                return Err(context.too_long(table, key));
            }
            Ok(true)
        })
    }

    /// The record under a key, which is put in, absent, if there is none. The caller must read it.
    fn find_or_create(&mut self, table: TableRef, key: &[u8]) -> Result<Room, Stop> {
        let t = table.get();
        if !t.layout.fits_key(key) {
            return Err(Stop::Abort(self.too_long(table, &key[..key.len().min(64)])));
        }
        // Before anybody can find the record. Whoever makes an index looks here after it is there, in one step; and
        // who puts in rows looks for indexes after this. Acquire: who finds it set sees the indexes that were there
        // before it was.
        if !t.populated.load(Ordering::Acquire) {
            t.populated.swap(true, Ordering::AcqRel);
        }
        // (If the key has a record the latch is not taken; whoever puts in mostly finds none.)
        self.about_to_look(table, key, Access::ReadModifyWrite);
        let epochs = &self.shared.epochs;
        // Allocated before a latch is taken: the system may take its time.
        let own = Cell::new(None);
        let prepare = || own.set(own.get().or_else(|| Some(RecordPtr::allocate(&t.layout, key.len()))));
        let make = |stamp: &NodeStamp, memory: Option<_>| {
            let memory = memory.or_else(|| own.take());
            let memory = memory.unwrap_or_else(|| RecordPtr::allocate(&t.layout, key.len()));
            // SAFETY: the index was told of this layout, and its memory is as good as our own, which nobody else
            // refers to.
            let record = unsafe { RecordPtr::make_at(memory, &t.layout, key) };
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
        };
        let inserted = t.index.get_or_insert(key, &mut self.limbo, epochs, &mut self.finger, prepare, make);
        if let Some(memory) = own.take() {
            // SAFETY: allocated above, for this length, and not used.
            unsafe { RecordPtr::deallocate(memory, &t.layout, key.len()) };
        }
        match inserted {
            Inserted::Existing(record) => Ok(Room { record, is_new: false, relies_on_absence: false }),
            Inserted::New(record, mut change) => {
                if self.shared.planted.is(Bug::SplitNotNoted) {
                    change.split_off = None;
                }
                let relies_on_absence = self.nodes.change(&change);
                self.created.push((table, record));
                Ok(Room { record, is_new: true, relies_on_absence })
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
        self.insert_encoded(table, key, R::SIZES, replace, |writer| row.encode_row(writer))
    }

    /// The same of a row that `encode` writes, all groups of it, which have these sizes.
    #[inline(always)]
    pub(crate) fn insert_encoded(
        &mut self,
        table: TableRef,
        key: &[u8],
        sizes: &[Size],
        replace: bool,
        encode: impl Fn(&mut EntryWriter<'_>),
    ) -> Result<bool, Abort> {
        let operation = |context: &mut Self| {
            let mut seen_absent = false;
            look_until_found(|| context.try_insert(table, key, sizes, replace, &encode, &mut seen_absent))
        };
        let groups = 0..sizes.len();
        match replace {
            true => self.keeping_secondaries(table, key, groups, operation),
            false => self.adding_secondaries(table, key, groups, operation),
        }
    }

    /// `seen_absent`: whether the transaction relies on there being no such row. It still does when it has put in a record, could not read it because it has
    /// been split meanwhile, and comes again: what it finds then is no new record.
    #[inline(always)]
    fn try_insert(
        &mut self,
        table: TableRef,
        key: &[u8],
        sizes: &[Size],
        replace: bool,
        encode: &impl Fn(&mut EntryWriter<'_>),
        seen_absent: &mut bool,
    ) -> Result<bool, Stop> {
        let Room { record, is_new, relies_on_absence } = self.find_or_create(table, key)?;
        *seen_absent |= relies_on_absence;
        let seen_absent = *seen_absent;
        let layout = self.layout_of(table, record);
        let mut entries = [0; GROUPS_MAX];
        if replace {
            if seen_absent && self.is_present(table, record, 0, sizes)? {
                return Err(self.vanished(table, record, layout.cells()[0] as u32));
            }
            for (cell, entry) in entries.iter_mut().enumerate().take(layout.cells().len()) {
                let unread = Unread { must_exist: false, late: false };
                let asked = asked_of(layout, cell, &(0..sizes.len()));
                *entry = self.write_entry(table, record, layout, cell, asked, unread)? as u32;
            }
        } else if self.is_present_for_update(table, record, layout, is_new, &mut entries)? {
            if seen_absent {
                return Err(self.vanished(table, record, layout.cells()[0] as u32));
            }
            self.keep_only(record, &entries[..layout.cells().len()]);
            return Ok(false);
        }
        for &index in &entries[..layout.cells().len()] {
            self.writes.entry_mut(index as usize).effect = Effect::Insert;
        }
        let groups = 0..sizes.len();
        let mut writer = EntryWriter { writes: &mut self.writes, layout, entries, groups, too_long: false };
        encode(&mut writer);
        if writer.too_long {
            return Err(Stop::Abort(self.too_long(table, key)));
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
        let layout = self.layout_of(table, record);
        let mut entries = [0; GROUPS_MAX];
        if !self.is_present_for_update(table, record, layout, false, &mut entries)? {
            return Ok(false);
        }
        for &index in &entries[..layout.cells().len()] {
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
        let layout = self.layout_of(table, record);
        let mut entries = [0; GROUPS_MAX];
        let cells = layout.group(groups.start).cell..=layout.group(groups.end - 1).cell;
        for cell in cells.map(|cell| cell as usize) {
            if !self.seems_present(table, record, layout.cells()[cell] as u32)
                && !self.is_present(table, record, groups.start, &t.sizes[groups.clone()])?
            {
                return Ok(false);
            }
            let unread = Unread { must_exist: true, late: false };
            let asked = asked_of(layout, cell, &groups);
            entries[cell] = self.write_entry(table, record, layout, cell, asked, unread)? as u32;
        }
        let mut writer = EntryWriter { writes: &mut self.writes, layout, entries, groups, too_long: false };
        encode(&mut writer);
        if writer.too_long {
            return Err(Stop::Abort(self.too_long(table, key)));
        }
        Ok(true)
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
        let layout = self.layout_of(table, record);
        let &GroupLayout { cell, cell_at, .. } = layout.group(group);
        if !self.seems_present(table, record, cell_at)
            && !self.is_present(table, record, group, &t.sizes[group..group + 1])?
        {
            return Ok(false);
        }
        let unread = Unread { must_exist: true, late: true };
        let index = self.write_entry(table, record, layout, cell as usize, 1 << group, unread)?;
        self.writes.will_change(index);
        // What has been read or written already is updated at once. (It is read first: that may be deferred, and then all of this is
        // asked for again, which must not update twice.)
        let entry = self.writes.entry(index);
        let is_known = entry.knows(group) || entry.seen().is_some();
        if !entry.knows(group) && is_known {
            self.settle_group(index, group)?;
        }
        self.writes.add_update(index, group as u32, update(), payload);
        if is_known {
            self.settle_value(index, group)?;
        }
        Ok(true)
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
    /// That of the entries.
    pub layout: &'a Layout,
    /// The entries, by cell.
    pub entries: [u32; GROUPS_MAX],
    /// The groups that are written; indexes count from the first of them.
    pub groups: Range<usize>,
    /// A value was longer than 4 GiB, or not as its row says.
    pub too_long: bool,
}

impl RowWriter for EntryWriter<'_> {
    #[inline(always)]
    fn group<G: Group>(&mut self, index: usize, value: &G) {
        self.put(index, G::SIZE, value.encoded_bytes(), |out| value.encode(out));
    }
}

impl EntryWriter<'_> {
    /// Group number `index` of those that are written: a value of this size, in so many bytes, which `encode` writes.
    #[inline(always)]
    pub(crate) fn put(&mut self, index: usize, size: Size, bytes: usize, encode: impl FnOnce(&mut [u8])) {
        let group = self.groups.start + index;
        // (A row that hands over other groups than it says is not to be trusted with where they lie.)
        if group >= self.groups.end {
            self.too_long = true;
            return;
        }
        let layout = self.layout.group(group);
        let entry = self.entries[layout.cell as usize % GROUPS_MAX] as usize;
        // What was only to be validated is written after all.
        self.writes.will_change(entry);
        let is_set = size == layout.size && self.writes.set_value(entry, group, layout, size, bytes, encode);
        self.too_long |= !is_set;
    }
}
