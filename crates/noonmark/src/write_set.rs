//! What a transaction will write: by cell, with the changes of each group in an arena.
//!
//! All protocols buffer their writes; nothing is visible before the commit, and an abort has nothing
//! to undo. A cell is found by a bit mask first (most reads are of cells that are not written), then
//! by a linear scan, and once there are many, by a small hash table.

use crate::protocol::{Hold, Place};
use crate::record::{RecordPtr, as_bytes, as_bytes_mut};
use crate::table::TableRef;
use crate::update::{Apply, Closures};
use noonmark_core::Word;

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
    pub effect: Effect,
    /// The row was taken to exist without being read: it must when the cell is locked.
    pub must_exist: bool,
    /// The version that was read, if one was: only that one may be locked.
    pub seen: Option<Word>,
    pub hold: Hold,
    /// Its changes: a list through `Change::next`, oldest first.
    first_change: u32,
    last_change: u32,
}

/// A change of one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub group: u32,
    /// Its words in the arena: the value, or the payload of an update.
    at: u32,
    words: u32,
    /// Length of the value or payload in bytes.
    pub bytes: u32,
    /// A commit-time update; `None`: a value, to be installed as it is.
    pub apply: Option<Apply>,
    next: u32,
}

#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    entries: Vec<WriteEntry>,
    changes: Vec<Change>,
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
        self.changes.clear();
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

    /// Adds an entry for a cell that has none, with no changes yet.
    #[inline]
    pub(crate) fn push(
        &mut self,
        place: Place,
        cell: u32,
        effect: Effect,
        seen: Option<Word>,
        hold: Hold,
    ) -> usize {
        let Place { table, record, at } = place;
        let hash = hash(record, cell);
        self.mask |= 1 << (hash >> 58);
        let index = self.entries.len();
        self.entries.push(WriteEntry {
            record,
            table,
            at,
            cell,
            effect,
            must_exist: false,
            seen,
            hold,
            first_change: NONE,
            last_change: NONE,
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
        entry.first_change = NONE;
        entry.last_change = NONE;
    }

    /// Sets the value of a group, in place of the changes to it before; if there is a value already, no
    /// update may have come after it.
    #[inline]
    pub(crate) fn set_value(
        &mut self,
        index: usize,
        group: u32,
        bytes: usize,
        encode: impl FnOnce(&mut [u8]),
    ) {
        let words = bytes.div_ceil(8);
        if let Some(change) = self.value_of(index, group)
            && change.words as usize == words
        {
            let at = change.at as usize;
            let id = self.change_id(index, group);
            self.changes[id as usize].bytes = bytes as u32;
            encode(&mut as_bytes_mut(&mut self.arena[at..at + words])[..bytes]);
            return;
        }
        let at = self.arena.len();
        self.arena.resize(at + words, 0);
        encode(&mut as_bytes_mut(&mut self.arena[at..])[..bytes]);
        if self.entries[index].first_change != NONE {
            self.unlink(index, group);
        }
        self.link(
            index,
            Change {
                group,
                at: at as u32,
                words: words as u32,
                bytes: bytes as u32,
                apply: None,
                next: NONE,
            },
        );
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
        let (at, bytes) = self.keep_bytes(payload);
        let words = bytes.div_ceil(8);
        self.link(index, Change { group, at, words, bytes, apply: Some(apply), next: NONE });
    }

    /// Whether there may be commit-time updates among the changes.
    #[inline(always)]
    pub(crate) fn has_updates(&self) -> bool {
        !self.closures.is_empty()
    }

    /// Applies a commit-time update to the bytes of a value.
    pub(crate) fn apply(&self, change: &Change, value: &mut Vec<u8>) {
        if let Some(apply) = change.apply {
            self.closures.call(apply, self.value_bytes(change), value);
        }
    }

    #[inline(always)]
    fn link(&mut self, index: usize, change: Change) {
        let id = self.changes.len() as u32;
        self.changes.push(change);
        let entry = &mut self.entries[index];
        if entry.first_change == NONE {
            entry.first_change = id;
        } else {
            self.changes[entry.last_change as usize].next = id;
        }
        entry.last_change = id;
    }

    /// Takes all changes of a group out of the list.
    pub(crate) fn unlink(&mut self, index: usize, group: u32) {
        let mut kept = NONE;
        let mut id = self.entries[index].first_change;
        self.entries[index].first_change = NONE;
        self.entries[index].last_change = NONE;
        while id != NONE {
            let next = self.changes[id as usize].next;
            if self.changes[id as usize].group != group {
                self.changes[id as usize].next = NONE;
                if kept == NONE {
                    self.entries[index].first_change = id;
                } else {
                    self.changes[kept as usize].next = id;
                }
                kept = id;
                self.entries[index].last_change = id;
            }
            id = next;
        }
    }

    /// The changes of an entry, oldest first.
    #[inline(always)]
    pub(crate) fn changes(&self, index: usize) -> impl Iterator<Item = &Change> {
        let mut id = self.entries[index].first_change;
        std::iter::from_fn(move || {
            let change = self.changes.get(id as usize)?;
            id = change.next;
            Some(change)
        })
    }

    fn change_id(&self, index: usize, group: u32) -> u32 {
        let mut id = self.entries[index].first_change;
        while id != NONE && self.changes[id as usize].group != group {
            id = self.changes[id as usize].next;
        }
        id
    }

    /// The value that this transaction has given a group, if it has and no update came after.
    #[inline]
    pub(crate) fn value_of(&self, index: usize, group: u32) -> Option<Change> {
        let mut changes = self.changes(index).filter(|c| c.group == group);
        changes.next().copied().filter(|c| c.apply.is_none())
    }

    /// The words of a change.
    #[inline(always)]
    pub(crate) fn words(&self, change: &Change) -> &[u64] {
        &self.arena[change.at as usize..(change.at + change.words) as usize]
    }

    /// The bytes of a value or payload.
    #[inline(always)]
    pub(crate) fn value_bytes(&self, change: &Change) -> &[u8] {
        &as_bytes(self.words(change))[..change.bytes as usize]
    }

    /// Keeps bytes for an explanation; says where.
    pub(crate) fn keep_bytes(&mut self, bytes: &[u8]) -> (u32, u32) {
        let at = self.arena.len();
        self.arena.resize(at + bytes.len().div_ceil(8), 0);
        as_bytes_mut(&mut self.arena[at..])[..bytes.len()].copy_from_slice(bytes);
        (at as u32, bytes.len() as u32)
    }

    /// Bytes that were kept.
    pub(crate) fn kept_bytes(&self, (at, len): (u32, u32)) -> &[u8] {
        &as_bytes(&self.arena[at as usize..])[..len as usize]
    }
}
