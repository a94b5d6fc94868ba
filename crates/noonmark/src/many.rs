//! Keys that are known together, looked up together.

use crate::index::Lookup;
use crate::key::{Key, KeyBytes};
use crate::table::TableCore;

/// How many keys are looked up at once: enough to keep the memory busy, few enough to stay in the first
/// level cache until they are used.
pub(crate) const BATCH: usize = 16;

/// Keys and what was found under them.
pub(crate) struct Found {
    keys: [KeyBytes; BATCH],
    lookups: Vec<Lookup>,
}

impl Found {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&KeyBytes, &Lookup)> {
        self.keys.iter().zip(&self.lookups)
    }
}

/// Looks up at most [`BATCH`] keys, stage by stage, and prefetches what was found.
pub(crate) fn look_up<K: Key>(table: &TableCore, keys: &[K]) -> Found {
    let keys_bytes: [KeyBytes; BATCH] =
        std::array::from_fn(|index| keys.get(index).map_or_else(KeyBytes::new, |key| KeyBytes::of::<K>(key)));
    let mut lookups = Vec::with_capacity(BATCH);
    table.index.get_many(|index| keys_bytes[index].as_slice(), keys.len(), &mut lookups);
    Found { keys: keys_bytes, lookups }
}
