//! Keys that are known together, looked up together.

use crate::index::{Lookup, prefetch};
use crate::key::{Key, KeyBytes};
use crate::record::LINE_WORDS;
use crate::table::TableCore;
use std::ops::Range;

/// How many keys are looked up at once: enough to keep the memory busy, few enough to stay in the first
/// level cache until they are used.
pub(crate) const BATCH: usize = 16;

/// Keys and what was found under them.
pub(crate) struct Found {
    keys: [KeyBytes; BATCH],
    /// Taken from, and given back to, the session.
    pub lookups: Vec<Lookup>,
}

impl Found {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&KeyBytes, &Lookup)> {
        self.keys.iter().zip(&self.lookups)
    }
}

/// Looks up at most [`BATCH`] keys, stage by stage, and prefetches the cells of these groups in the
/// records that were found. `lookups` is a buffer to use.
pub(crate) fn look_up<K: Key>(
    table: &TableCore,
    keys: &[K],
    groups: Range<usize>,
    mut lookups: Vec<Lookup>,
) -> Found {
    let bytes: [KeyBytes; BATCH] =
        std::array::from_fn(|index| keys.get(index).map_or_else(KeyBytes::new, |key| KeyBytes::of::<K>(key)));
    lookups.clear();
    table.index.get_many(|index| bytes[index].as_slice(), keys.len(), &mut lookups);
    let layout = &table.layout;
    let last = layout.group(groups.end - 1);
    let begin = layout.group(groups.start).cell_at as usize;
    let end = last.at as usize + last.size.words();
    for lookup in &lookups {
        if let Lookup::Found(record) = lookup {
            for line in begin / LINE_WORDS..end.div_ceil(LINE_WORDS) {
                // Records larger than half a line begin on one, so these are the lines of the cells.
                prefetch(record.as_ptr().wrapping_add(line * LINE_WORDS).cast());
            }
        }
    }
    Found { keys: bytes, lookups }
}
