//! What a transaction will write: by cell, with an image of what will be in it, in an arena.
//!
//! All protocols buffer their writes; nothing is visible before the commit, and an abort has nothing
//! to undo. A cell is found by a bit mask first (most reads are of cells that are not written), then
//! by a linear scan, and once there are many, by a small hash table.

use crate::group::Size;
use crate::protocol::{Hold, Place};
use crate::record::{GroupLayout, Layout, RecordPtr, as_bytes, as_bytes_mut};
use crate::table::TableRef;
use crate::update::{Apply, Closures};
use noonmark_core::{MaybeWord, Word};

/// No change follows.
pub(crate) const NONE: u32 = u32::MAX;
/// From this many entries on, they are looked up by hash.
const HASHED_FROM: usize = 24;

/// What becomes of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It stays as it is; only locked, or validated by locking.
    Keep,
    /// It stays present, with changes.
    Change,
    /// It becomes present.
    Insert,
    /// It becomes absent.
    Delete,
}

/// One cell that will be written: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct WriteEntry {
    pub record: RecordPtr,
    pub table: TableRef,
    /// The version that was read, if one was: only that one may be locked.
    seen: MaybeWord,
    /// See [`Hold`].
    prev: MaybeWord,
    /// Offset of the version word, in words.
    pub at: u32,
    pub cell: u32,
    /// Where its image begins in the arena: room for all groups' words, laid out as in the record. Of a
    /// group of variable size, the word says where in the arena the bytes are.
    image: u32,
    /// Its commit-time updates: a list through `Change::next`, oldest first. A group's value is known, or it has
    /// updates, not both.
    first_update: u32,
    last_update: u32,
    /// The groups whose value is in the image, a bit each: as it was read at `seen`, or a new one.
    known: u8,
    /// Those with a new value, which may be the same as before.
    valued: u8,
    pub effect: Effect,
    /// The row was taken to exist without being read: it must when the cell is locked.
    pub must_exist: bool,
    /// See [`Hold`].
    intent: bool,
    /// The groups that operations were about, a bit each: what a conflict is told to be over.
    pub asked: u8,
}

const _: () = assert!(size_of::<WriteEntry>() == 64);

impl WriteEntry {
    /// The cell.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place {
        Place { table: self.table, record: self.record, at: self.at }
    }

    /// The layout that its cell is of.
    #[inline(always)]
    pub(crate) fn layout<'a>(&self) -> &'a Layout {
        self.table.get().layout_at(self.at)
    }

    /// An entry with no changes yet, whose image begins at `image` in the arena.
    #[inline(always)]
    pub(crate) fn new(
        Place { table, record, at }: Place,
        cell: u32,
        effect: Effect,
        seen: Option<Word>,
        hold: Hold,
        image: usize,
    ) -> Self {
        WriteEntry {
            record,
            table,
            seen: seen.into(),
            prev: hold.prev.into(),
            at,
            cell,
            image: image as u32,
            first_update: NONE,
            last_update: NONE,
            known: 0,
            valued: 0,
            effect,
            must_exist: false,
            intent: hold.intent,
            asked: 0,
        }
    }

    /// The same with the values of some groups, a bit each, in the image: those in `known` as they were
    /// read at `seen`, those in `valued` new ones.
    #[inline(always)]
    pub(crate) fn with_values(self, known: u8, valued: u8) -> Self {
        WriteEntry { known: known | valued, valued, ..self }
    }

    /// The version that was read, if one was: only that one may be locked.
    #[inline(always)]
    pub(crate) fn seen(&self) -> Option<Word> {
        self.seen.get()
    }

    pub(crate) fn set_seen(&mut self, seen: Word) {
        self.seen = Some(seen).into();
    }

    /// What the transaction holds of the cell.
    #[inline(always)]
    pub(crate) fn hold(&self) -> Hold {
        Hold { prev: self.prev.get(), intent: self.intent }
    }

    #[inline(always)]
    pub(crate) fn set_hold(&mut self, hold: Hold) {
        self.prev = hold.prev.into();
        self.intent = hold.intent;
    }

    /// Whether the row is absent for this transaction.
    pub(crate) fn leaves_absent(&self) -> bool {
        match self.effect {
            Effect::Delete => true,
            Effect::Keep => self.seen().is_some_and(Word::is_absent),
            Effect::Change | Effect::Insert => false,
        }
    }

    /// Whether it has neither values nor updates.
    pub(crate) fn changes_nothing(&self) -> bool {
        self.valued == 0 && self.first_update == NONE
    }

    /// Whether it has the value of a group, new or as it was read.
    #[inline(always)]
    pub(crate) fn knows(&self, group: usize) -> bool {
        self.known & 1 << group != 0
    }

    /// The groups that it has new values for, a bit each.
    pub(crate) fn valued(&self) -> u8 {
        self.valued
    }

    /// The same by their numbers.
    #[inline(always)]
    pub(crate) fn valued_groups(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = u32::from(self.valued);
        std::iter::from_fn(move || {
            let group = left.trailing_zeros() as usize;
            let any = left != 0;
            left &= left.wrapping_sub(1);
            any.then_some(group)
        })
    }
}

/// A commit-time update of one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub group: u32,
    /// Where its payload is in the arena.
    payload: Bytes,
    apply: Apply,
    next: u32,
}

/// Bytes in the arena: the word from which on, and how many.
type Bytes = (u32, u32);

/// Words of the wide mask.
const WIDE_WORDS: usize = 8;

/// As much of the arena as is kept after a transaction that used more: 1 MiB.
const ARENA_KEPT_WORDS: usize = 1 << 17;

#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    entries: Vec<WriteEntry>,
    updates: Vec<Change>,
    /// Images and other bytes: what is in use is its first `used` words. It keeps its length from one transaction to
    /// the next, up to [`ARENA_KEPT_WORDS`].
    arena: Vec<u64>,
    used: usize,
    closures: Closures,
    /// A bit for each entry's record: a clear bit says that none of a record's cells is here.
    mask: u64,
    /// The same in a line of bits, which say something of a hundred records, too.
    wide_mask: [u64; WIDE_WORDS],
    /// Open addressing, of entry indexes + 1: of the first `hashed_entries`. In use once a cell is looked for among
    /// `HASHED_FROM` entries or more, which many transactions never do that put in many rows.
    hashed: Vec<u32>,
    hashed_entries: usize,
}

/// Its high bits are the most even.
#[inline(always)]
fn hash(record: RecordPtr) -> u64 {
    (record.as_ptr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The bit of a record in the mask.
#[inline(always)]
fn bit(record: RecordPtr) -> u64 {
    1 << (hash(record) >> 58)
}

/// In which word of the wide mask the bit of a record is that the mask has, too.
#[inline(always)]
fn wide_word(record: RecordPtr) -> usize {
    (hash(record) >> 52) as usize % WIDE_WORDS
}

/// Where the search for a cell begins, in a hash table of so many places less one.
fn home(record: RecordPtr, at: u32, mask: usize) -> usize {
    ((hash(record) >> 32) as usize + at as usize) & mask
}

/// The bits of neighbouring groups, as many as there are sizes.
#[inline(always)]
pub(crate) fn group_bits(first: usize, sizes: &[Size]) -> u8 {
    (((1u32 << sizes.len()) - 1) << first) as u8
}

impl WriteSet {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.updates.clear();
        if self.used > ARENA_KEPT_WORDS {
            self.arena.truncate(ARENA_KEPT_WORDS);
            self.arena.shrink_to_fit();
        }
        self.used = 0;
        self.closures.clear();
        self.mask = 0;
        self.wide_mask = [0; WIDE_WORDS];
        self.hashed.clear();
        self.hashed_entries = 0;
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline(always)]
    pub(crate) fn entry(&self, index: usize) -> &WriteEntry {
        &self.entries[index]
    }

    pub(crate) fn entries(&self) -> &[WriteEntry] {
        &self.entries
    }

    #[inline(always)]
    pub(crate) fn entries_mut(&mut self) -> &mut [WriteEntry] {
        &mut self.entries
    }

    #[inline(always)]
    pub(crate) fn entry_mut(&mut self, index: usize) -> &mut WriteEntry {
        &mut self.entries[index]
    }

    /// The entry of the cell of a record at this offset.
    #[inline(always)]
    pub(crate) fn find(&mut self, record: RecordPtr, at: u32) -> Option<usize> {
        if self.mask & bit(record) == 0 { None } else { self.find_slow(record, at) }
    }

    #[inline(never)]
    fn find_slow(&mut self, record: RecordPtr, at: u32) -> Option<usize> {
        if self.wide_mask[wide_word(record)] & bit(record) == 0 {
            return None;
        }
        if self.entries.len() < HASHED_FROM {
            return self.entries.iter().position(|e| e.record == record && e.at == at);
        }
        if self.hashed_entries < self.entries.len() {
            self.hash_entries();
        }
        let mask = self.hashed.len() - 1;
        let mut place = home(record, at, mask);
        loop {
            match self.hashed[place] {
                0 => return None,
                index => {
                    let entry = &self.entries[index as usize - 1];
                    if entry.record == record && entry.at == at {
                        return Some(index as usize - 1);
                    }
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// Room for so many words at the end of the arena, with anything in them: where it begins.
    #[inline(always)]
    pub(crate) fn make_room(&mut self, words: usize) -> usize {
        let at = self.used;
        self.used += words;
        if self.used > self.arena.len() {
            self.grow();
        }
        at
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        // Places in it are numbers of 32 bits.
        assert!(self.used <= u32::MAX as usize, "a transaction would write more than 32 GiB");
        self.arena.resize((self.used * 2).max(64), 0);
    }

    /// Words of the arena.
    #[inline(always)]
    pub(crate) fn words_mut(&mut self, at: usize, words: usize) -> &mut [u64] {
        &mut self.arena[at..at + words]
    }

    /// Adds an entry for a cell that has none. Its number.
    #[inline(always)]
    pub(crate) fn push(&mut self, entry: WriteEntry) -> usize {
        self.mask |= bit(entry.record);
        self.wide_mask[wide_word(entry.record)] |= bit(entry.record);
        let index = self.entries.len();
        self.entries.push(entry);
        index
    }

    /// Puts those entries into the hash table that are not in it.
    #[cold]
    fn hash_entries(&mut self) {
        let entries = self.entries.len();
        if self.hashed.len() < entries * 2 {
            let size = (entries * 4).next_power_of_two();
            self.hashed.clear();
            self.hashed.resize(size, 0);
            self.hashed_entries = 0;
        }
        for index in self.hashed_entries..entries {
            self.put_hashed(index);
        }
        self.hashed_entries = entries;
    }

    fn put_hashed(&mut self, index: usize) {
        let entry = &self.entries[index];
        let mask = self.hashed.len() - 1;
        let mut place = home(entry.record, entry.at, mask);
        while self.hashed[place] != 0 {
            place = (place + 1) & mask;
        }
        self.hashed[place] = index as u32 + 1;
    }

    /// An entry that was only to be validated is written after all.
    #[inline(always)]
    pub(crate) fn will_change(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        if entry.effect == Effect::Keep {
            entry.effect = Effect::Change;
        }
    }

    /// Forgets the changes of an entry: the row goes.
    pub(crate) fn drop_changes(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        entry.known = 0;
        entry.valued = 0;
        entry.first_update = NONE;
        entry.last_update = NONE;
    }

    /// Some words of the image of an entry.
    #[inline(always)]
    pub(crate) fn image(&self, index: usize, at: usize, words: usize) -> &[u64] {
        self.image_of(&self.entries[index], at, words)
    }

    /// The same of an entry that is one of its own.
    #[inline(always)]
    pub(crate) fn image_of(&self, entry: &WriteEntry, at: usize, words: usize) -> &[u64] {
        let from = entry.image as usize + at;
        &self.arena[from..from + words]
    }

    /// Neighbouring groups of fixed sizes, the first of which is `at` in the image, may get new values in place of
    /// the changes to them before, all of which are in the image: where in the arena they are to be put. Groups that were only to
    /// be validated are written after all.
    pub(crate) fn will_have_values(
        &mut self,
        index: usize,
        first: usize,
        at: usize,
        sizes: &[Size],
    ) -> usize {
        let entry = &mut self.entries[index];
        let groups = group_bits(first, sizes);
        entry.asked |= groups;
        entry.known |= groups;
        entry.valued |= groups;
        let from = entry.image as usize + at;
        self.will_change(index);
        for group in first..first + sizes.len() {
            self.unlink(index, group as u32);
        }
        from
    }

    /// Sets the value of a group, in place of the changes to it before. `group` is its number, `layout` where
    /// it lies. False, and nothing is set: it is longer than 4 GiB.
    #[must_use]
    #[inline(always)]
    pub(crate) fn set_value(
        &mut self,
        index: usize,
        group: usize,
        layout: &GroupLayout,
        size: Size,
        bytes: usize,
        encode: impl FnOnce(&mut [u8]),
    ) -> bool {
        if bytes > u32::MAX as usize {
            return false;
        }
        let entry = &mut self.entries[index];
        let had_value = entry.valued & 1 << group != 0;
        entry.known |= 1 << group;
        entry.valued |= 1 << group;
        let has_updates = entry.first_update != NONE;
        let at = entry.image as usize + layout.in_cell as usize;
        if size.is_boxed() {
            let from = self.room_for_value(had_value.then_some(self.arena[at]), bytes.div_ceil(8));
            encode(&mut as_bytes_mut(&mut self.arena[from..])[..bytes]);
            self.arena[at] = (from as u64) << 32 | bytes as u64;
        } else {
            encode(&mut as_bytes_mut(&mut self.arena[at..at + size.words()])[..bytes]);
        }
        if has_updates {
            self.unlink(index, group as u32);
        }
        true
    }

    /// Where in the arena a value of variable size goes, of so many words: where the one before it is, if there is room.
    /// (The word before it says how much.) One that is changed again and again gets more each time, so that all its places
    /// together are a few times the longest.
    fn room_for_value(&mut self, before: Option<u64>, words: usize) -> usize {
        let mut room = words;
        if let Some(before) = before {
            let from = (before >> 32) as usize;
            if self.arena[from - 1] as usize >= words {
                return from;
            }
            room = words * 2;
        }
        let at = self.make_room(1 + room);
        self.arena[at] = room as u64;
        at + 1
    }

    /// Adds a commit-time update of a group.
    pub(crate) fn add_update<U: Copy + Send + 'static>(
        &mut self,
        index: usize,
        group: u32,
        update: crate::update::Update<U>,
        payload: &[u8],
    ) {
        let apply = self.closures.keep(update);
        let payload = self.keep_bytes(payload);
        let id = self.updates.len() as u32;
        self.updates.push(Change { group, payload, apply, next: NONE });
        let entry = &mut self.entries[index];
        if entry.first_update == NONE {
            entry.first_update = id;
        } else {
            self.updates[entry.last_update as usize].next = id;
        }
        entry.last_update = id;
    }

    /// Whether there may be commit-time updates.
    #[inline(always)]
    pub(crate) fn has_updates(&self) -> bool {
        !self.closures.is_empty()
    }

    /// Applies the updates of a group to the bytes of a value.
    pub(crate) fn apply(&self, index: usize, group: usize, value: &mut Vec<u8>) {
        for update in self.updates(index).filter(|update| update.group as usize == group) {
            self.closures.call(update.apply, self.kept_bytes(update.payload), value);
        }
    }

    /// Whether there are updates of a group.
    pub(crate) fn has_updates_of(&self, index: usize, group: usize) -> bool {
        self.updates(index).any(|update| update.group as usize == group)
    }

    /// The updates of an entry, oldest first.
    fn updates(&self, index: usize) -> impl Iterator<Item = &Change> {
        let mut id = self.entries[index].first_update;
        std::iter::from_fn(move || {
            let update = self.updates.get(id as usize)?;
            id = update.next;
            Some(update)
        })
    }

    /// Takes all updates of a group out of the list.
    fn unlink(&mut self, index: usize, group: u32) {
        let mut kept = NONE;
        let mut id = self.entries[index].first_update;
        if id == NONE {
            return;
        }
        self.entries[index].first_update = NONE;
        self.entries[index].last_update = NONE;
        while id != NONE {
            let next = self.updates[id as usize].next;
            if self.updates[id as usize].group != group {
                self.updates[id as usize].next = NONE;
                if kept == NONE {
                    self.entries[index].first_update = id;
                } else {
                    self.updates[kept as usize].next = id;
                }
                kept = id;
                self.entries[index].last_update = id;
            }
            id = next;
        }
    }

    /// The bytes of a value of variable size, which the entry must have.
    pub(crate) fn boxed_value(&self, index: usize, layout: &GroupLayout) -> &[u8] {
        let word = self.image(index, layout.in_cell as usize, 1)[0];
        self.kept_bytes(((word >> 32) as u32, word as u32))
    }

    /// The bytes of a value, which the entry must have.
    pub(crate) fn value_bytes(&self, index: usize, layout: &GroupLayout) -> &[u8] {
        match layout.size {
            Size::Fixed(bytes) if !layout.size.is_boxed() => {
                &as_bytes(self.image(index, layout.in_cell as usize, layout.size.words()))[..bytes]
            }
            _ => self.boxed_value(index, layout),
        }
    }

    /// Keeps bytes for an explanation; says where.
    pub(crate) fn keep_bytes(&mut self, bytes: &[u8]) -> Bytes {
        let at = self.make_room(bytes.len().div_ceil(8));
        as_bytes_mut(&mut self.arena[at..])[..bytes.len()].copy_from_slice(bytes);
        (at as u32, bytes.len() as u32)
    }

    /// Bytes that were kept.
    pub(crate) fn kept_bytes(&self, (at, len): Bytes) -> &[u8] {
        &as_bytes(&self.arena[at as usize..])[..len as usize]
    }
}
