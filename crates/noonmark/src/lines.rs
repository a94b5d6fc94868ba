//! Logical cache lines: what a host is told that a transaction is about to touch.
//!
//! A line has a number that follows from what lies in it, never from where it lies: the key of a record, the least key of
//! a leaf, a slot. So a simulated run is the same on every machine. On threads none of this is worked out.
//!
//! What is left out: the nodes of an ordered index above the leaves, which hardly change, so that every core has them;
//! words of a value that lie on other lines than its version; where a hash index finds a record without waiting for
//! another line first; and the waiting room.

use crate::record::LINE_WORDS;
use crate::table::{Index, TableRef};
use noonmark_core::{Line, SlotId};

/// What has no table.
const SLOTS: u32 = u32::MAX;
const SHARED: u32 = u32::MAX - 1;
/// A table has so many spaces: records, places in its index, and stamps of its index.
const SPACES: u32 = 3;

/// The line of the gate, which everybody reads.
pub(crate) const GATE: Line = Line { space: SHARED, line: 0 };
/// The line of the last commit time of passing sessions.
pub(crate) const PASSING: Line = Line { space: SHARED, line: 1 };

/// The clock of [`crate::begin_times`].
pub(crate) const BEGIN_TIMES: Line = Line { space: SHARED, line: 2 };

/// The read frontier of [`crate::range`].
pub(crate) const FRONTIER: Line = Line { space: SHARED, line: 3 };

/// What a slot says of its transaction.
pub(crate) fn slot(slot: SlotId) -> Line {
    Line { space: SLOTS, line: slot.index() as u64 }
}

/// A part of a record that begins so many words in it.
pub(crate) fn of_record(table: TableRef, key: &[u8], at: u32) -> Line {
    let line = hash(key) ^ ((at as usize / LINE_WORDS) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Line { space: table.get().id * SPACES, line }
}

/// Where the index is looked into for a key; `None`: where the record lies follows from the key, and the line that confirms
/// it is on its way together with the record's.
pub(crate) fn of_place(table: TableRef, key: &[u8]) -> Option<Line> {
    match &table.get().index {
        Index::Hash(index) => {
            index.place_of(key).map(|line| Line { space: table.get().id * SPACES + 1, line })
        }
        Index::Ordered(index) => index.get_direct(key).is_none().then(|| of_stamp(table, key)),
    }
}

/// The stamp of the node in which a key is, or would be.
pub(crate) fn of_stamp(table: TableRef, key: &[u8]) -> Line {
    let line = match &table.get().index {
        Index::Hash(index) => index.shard_of(key),
        Index::Ordered(index) => index.leaf_of(key, hash),
    };
    Line { space: table.get().id * SPACES + 2, line }
}

/// The same on every machine; of keys of eight bytes no two are alike.
fn hash(key: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = key.as_chunks::<8>();
    let hash = words.iter().fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    // Then what is left, behind a one, so that zeros count.
    let last = rest.iter().fold(1, |word, &byte| word << 8 | u64::from(byte));
    mix(hash, last)
}
