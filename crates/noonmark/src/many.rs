//! Keys that are known together, looked up together.

use crate::index::prefetch;
use crate::key::{Key, KeyBytes};
use crate::record::{LINE_WORDS, Layout, RecordPtr};
use crate::table::TableCore;
use std::ops::Range;

/// How many keys are looked up at once: enough to keep the memory busy, few enough to stay in the first
/// level cache until they are used.
pub(crate) const BATCH: usize = 16;

/// Keys of a fixed size up to this many bytes are put side by side, without a [`KeyBytes`] each.
const SHORT_BYTES: usize = 16;

/// Looks up at most [`BATCH`] keys, stage by stage, and prefetches the cells of these groups in the
/// records that are found. `None` where there is none, which is not noted.
#[inline]
pub(crate) fn look_up<K: Key>(
    table: &TableCore,
    keys: &[K],
    groups: Range<usize>,
) -> [Option<RecordPtr>; BATCH] {
    let mut found = [None; BATCH];
    let soon = |record| prefetch_groups(record, &table.layout, &groups);
    let wanted = &mut found[..keys.len().min(BATCH)];
    match K::FIXED_BYTES {
        Some(bytes) if bytes <= SHORT_BYTES => {
            let mut short = [[0; SHORT_BYTES]; BATCH];
            for (to, key) in short.iter_mut().zip(keys) {
                key.with_bytes(|key| to[..bytes].copy_from_slice(key));
            }
            table.index.find_many(|index| &short[index % BATCH][..bytes], wanted, soon);
        }
        _ => {
            let long: [KeyBytes; BATCH] =
                std::array::from_fn(|index| keys.get(index).map_or_else(KeyBytes::new, KeyBytes::of::<K>));
            table.index.find_many(|index| long[index % BATCH].as_slice(), wanted, soon);
        }
    }
    found
}

/// Begins to bring the cells of these groups into the cache.
#[inline(always)]
pub(crate) fn prefetch_groups(record: RecordPtr, layout: &Layout, groups: &Range<usize>) {
    let last = layout.group(groups.end - 1);
    let begin = layout.group(groups.start).cell_at as usize;
    let end = last.at as usize + last.size.words();
    for line in begin / LINE_WORDS..end.div_ceil(LINE_WORDS) {
        // Records larger than half a line begin on one, so these are the lines of the cells.
        prefetch(record.as_ptr().wrapping_add(line * LINE_WORDS).cast());
    }
}
