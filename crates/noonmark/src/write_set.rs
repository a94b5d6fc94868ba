//! What a transaction will write: by cell, with an image of what will be in it, in an arena.
//!
//! All protocols buffer their writes; nothing is visible before the commit, and an abort has nothing
//! to undo. A cell is found by a bit mask first (most reads are of cells that are not written), then
//! by a linear scan, and once there are many, by a small hash table.

use crate::group::{GROUPS_MAX, Size, words_of};
use crate::protocol::{Hold, Place};
use crate::record::{GroupLayout, RecordPtr, as_bytes, as_bytes_mut, load_words};
use crate::table::TableRef;
use crate::update::{Apply, Closures};
use noonmark_core::Word;
use noonmark_core::sync::AtomicU64;

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

/// One cell that will be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteEntry {
    pub record: RecordPtr,
    pub table: TableRef,
    /// Offset of the version word, in words.
    pub at: u32,
    pub cell: u32,
    /// Where its image begins in the arena: room for all groups' words, laid out as in the record. Of a
    /// group of variable size, the word says where in the arena the bytes are.
    image: u32,
    /// The groups whose value is in the image, a bit each: as it was read at `seen`, or a new one.
    known: u8,
    /// Those with a new value.
    valued: u8,
    pub effect: Effect,
    /// The row was taken to exist without being read: it must when the cell is locked.
    pub must_exist: bool,
    /// The version that was read, if one was: only that one may be locked.
    pub seen: Option<Word>,
    pub hold: Hold,
    /// Its commit-time updates: a list through `Change::next`, oldest first. A group's value is known, or it has
    /// updates, not both.
    first_update: u32,
    last_update: u32,
}

impl WriteEntry {
    /// Whether the row is absent for this transaction.
    pub(crate) fn leaves_absent(&self) -> bool {
        match self.effect {
            Effect::Delete => true,
            Effect::Keep => self.seen.is_some_and(Word::is_absent),
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

    /// The groups that it has new values for.
    #[inline(always)]
    pub(crate) fn valued_groups(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.valued;
        std::iter::from_fn(move || {
            let group = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (group < GROUPS_MAX).then_some(group)
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

#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    entries: Vec<WriteEntry>,
    updates: Vec<Change>,
    arena: Vec<u64>,
    closures: Closures,
    /// A bit for each entry's hash: a clear bit says that a cell is not here.
    mask: u64,
    /// Open addressing, of entry indexes + 1; in use from `HASHED_FROM` entries on.
    hashed: Vec<u32>,
}

#[inline(always)]
fn hash(record: RecordPtr, cell: u32) -> u64 {
    (record.as_ptr() as u64 >> 4 ^ u64::from(cell) << 50).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl WriteSet {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.updates.clear();
        self.arena.clear();
        self.closures.clear();
        self.mask = 0;
        self.hashed.clear();
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

    #[inline(always)]
    pub(crate) fn entries_mut(&mut self) -> &mut [WriteEntry] {
        &mut self.entries
    }

    #[inline(always)]
    pub(crate) fn entry_mut(&mut self, index: usize) -> &mut WriteEntry {
        &mut self.entries[index]
    }

    /// The entry of a cell.
    #[inline(always)]
    pub(crate) fn find(&self, record: RecordPtr, cell: u32) -> Option<usize> {
        let hash = hash(record, cell);
        if self.mask & 1 << (hash >> 58) == 0 { None } else { self.find_slow(record, cell, hash) }
    }

    fn find_slow(&self, record: RecordPtr, cell: u32, hash: u64) -> Option<usize> {
        if self.hashed.is_empty() {
            return self.entries.iter().position(|e| e.record == record && e.cell == cell);
        }
        let mask = self.hashed.len() - 1;
        let mut place = hash as usize >> 8 & mask;
        loop {
            match self.hashed[place] {
                0 => return None,
                index => {
                    let entry = &self.entries[index as usize - 1];
                    if entry.record == record && entry.cell == cell {
                        return Some(index as usize - 1);
                    }
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// Adds an entry for a cell that has none, with no changes yet and room for an image of so many words.
    #[inline]
    pub(crate) fn push(
        &mut self,
        place: Place,
        cell: u32,
        effect: Effect,
        seen: Option<Word>,
        hold: Hold,
        image_words: usize,
    ) -> usize {
        let image = self.arena.len();
        self.arena.resize(image + image_words, 0);
        self.push_with_image(place, cell, effect, seen, hold, image, 0)
    }

    /// The same with an image that is at `image` in the arena already; `known` are the groups, a bit each,
    /// whose values at `seen` are in it.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "they are the fields of an entry")]
    pub(crate) fn push_with_image(
        &mut self,
        place: Place,
        cell: u32,
        effect: Effect,
        seen: Option<Word>,
        hold: Hold,
        image: usize,
        known: u8,
    ) -> usize {
        let Place { table, record, at } = place;
        self.mask |= 1 << (hash(record, cell) >> 58);
        let index = self.entries.len();
        self.entries.push(WriteEntry {
            record,
            table,
            at,
            cell,
            image: image as u32,
            known,
            valued: 0,
            effect,
            must_exist: false,
            seen,
            hold,
            first_update: NONE,
            last_update: NONE,
        });
        if index + 1 >= HASHED_FROM {
            self.add_hashed(index);
        }
        index
    }

    #[cold]
    fn add_hashed(&mut self, index: usize) {
        if self.hashed.len() < (index + 1) * 2 {
            let size = ((index + 1) * 4).next_power_of_two();
            self.hashed.clear();
            self.hashed.resize(size, 0);
            for earlier in 0..index {
                self.put_hashed(earlier);
            }
        }
        self.put_hashed(index);
    }

    fn put_hashed(&mut self, index: usize) {
        let entry = &self.entries[index];
        let mask = self.hashed.len() - 1;
        let mut place = hash(entry.record, entry.cell) as usize >> 8 & mask;
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

    /// Where the arena ends: the next image may be put there by [`WriteSet::draft`].
    #[inline(always)]
    pub(crate) fn arena_end(&self) -> usize {
        self.arena.len()
    }

    /// Copies words of a record to `at` in the arena, in place of all that was from there on.
    #[inline(always)]
    pub(crate) fn draft(&mut self, at: usize, words: &[AtomicU64]) {
        self.arena.truncate(at);
        load_words(&mut self.arena, words);
    }

    /// Some words of the image of an entry.
    #[inline(always)]
    pub(crate) fn image(&self, index: usize, at: usize, words: usize) -> &[u64] {
        let from = self.entries[index].image as usize + at;
        &self.arena[from..from + words]
    }

    /// Gives neighbouring groups of fixed sizes new values, in place of the changes to them before: the words
    /// of the image, `at` where the first of them is in it, to be filled in. Groups that were only to be
    /// validated are written after all.
    #[inline(always)]
    pub(crate) fn new_values(&mut self, index: usize, first: usize, at: usize, sizes: &[Size]) -> &mut [u64] {
        let entry = &mut self.entries[index];
        let groups = (((1u32 << sizes.len()) - 1) << first) as u8;
        entry.known |= groups;
        entry.valued |= groups;
        if entry.effect == Effect::Keep {
            entry.effect = Effect::Change;
        }
        let from = entry.image as usize + at;
        if entry.first_update != NONE {
            for group in first..first + sizes.len() {
                self.unlink(index, group as u32);
            }
        }
        &mut self.arena[from..from + words_of(sizes)]
    }

    /// Sets the value of a group, in place of the changes to it before. `group` is its number, `layout` where
    /// it lies.
    #[inline(always)]
    pub(crate) fn set_value(
        &mut self,
        index: usize,
        group: usize,
        layout: &GroupLayout,
        size: Size,
        bytes: usize,
        encode: impl FnOnce(&mut [u8]),
    ) {
        let entry = &mut self.entries[index];
        entry.known |= 1 << group;
        entry.valued |= 1 << group;
        let has_updates = entry.first_update != NONE;
        let at = entry.image as usize + layout.in_cell as usize;
        if size.is_boxed() {
            let from = self.arena.len();
            self.arena.resize(from + bytes.div_ceil(8), 0);
            encode(&mut as_bytes_mut(&mut self.arena[from..])[..bytes]);
            self.arena[at] = (from as u64) << 32 | bytes as u64;
        } else {
            encode(&mut as_bytes_mut(&mut self.arena[at..at + size.words()])[..bytes]);
        }
        if has_updates {
            self.unlink(index, group as u32);
        }
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
        let at = self.arena.len();
        self.arena.resize(at + bytes.len().div_ceil(8), 0);
        as_bytes_mut(&mut self.arena[at..])[..bytes.len()].copy_from_slice(bytes);
        (at as u32, bytes.len() as u32)
    }

    /// Bytes that were kept.
    pub(crate) fn kept_bytes(&self, (at, len): Bytes) -> &[u8] {
        &as_bytes(&self.arena[at as usize..])[..len as usize]
    }
}
