//! What all sessions noted, made into one history.
//!
//! While the run goes on a key is a *place* (see `slate.rs`): two bytes that say which column group of which
//! table, or which index, then the key's own bytes, which are in the order of keys. A history wants integers, in
//! the same order, since scans have bounds. So when the run is over all places that matter are sorted, and each
//! becomes its rank; the ends of a scan become the ranks of the first and the last key between them.
//!
//! What matters is what the run read, wrote or found, and of what the load wrote, that and whatever lies within the
//! bounds of a scan: a row that a scan should have found and did not is to be seen. The rest of the load, which
//! may be millions of rows, is left out: nobody asked for it, so it can contradict nothing.
//!
//! ```text
//! places                            keys
//! district.DistrictOrders (1, 3)    0
//! district.DistrictOrders (1, 4)    1
//! order_line.OrderLine (1, 3, 7, 1) 2   scan [(1, 3, 7, 0), (1, 3, 7, 255)] -> [2, 3]
//! order_line.OrderLine (1, 3, 7, 2) 3
//! ```
//!
//! What it does not do: judge the history.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::legend::KeyName;
use super::slate::{Place, Slate};
use crate::history::{Key, MicroOp, Recorder};
use crate::stamp::WriteId;
use crate::store::StoreKey;

/// Where the sessions' notes come together.
pub struct Journal {
    /// The one clock of the run.
    epoch: Instant,
    next_id: AtomicI64,
    next_process: AtomicU64,
    spaces: Mutex<Vec<Space>>,
    ended: Mutex<Vec<Slate>>,
}

/// A column group of a table, or a secondary index.
struct Space {
    table: String,
    /// The number and the name of the column group; none of an index.
    group: Option<(u8, String)>,
    /// A key in words.
    show: fn(&[u8]) -> String,
}

/// How many numbers of writes a session is given at a time, so that sessions do not meet for each.
const IDS_AT_A_TIME: i64 = 1024;

impl Default for Journal {
    fn default() -> Self {
        Journal {
            epoch: Instant::now(),
            next_id: AtomicI64::new(1),
            next_process: AtomicU64::new(0),
            spaces: Mutex::default(),
            ended: Mutex::default(),
        }
    }
}

/// A run as it was recorded.
pub struct Recorded {
    /// What each session ran.
    pub recorders: Vec<Recorder>,
    /// What each key is, in the order of their numbers, from 0.
    pub keys: Vec<KeyName>,
    /// Keys within the bounds of scans, summed up over all scans: the checker takes a scan as a read of each.
    pub scanned: u64,
}

impl Journal {
    pub(super) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    // Relaxed, both: only that no two get the same number matters.

    pub(super) fn new_ids(&self) -> Range<WriteId> {
        let first = self.next_id.fetch_add(IDS_AT_A_TIME, Ordering::Relaxed);
        first..first + IDS_AT_A_TIME
    }

    pub(super) fn new_process(&self) -> u64 {
        self.next_process.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a space for each of a table's column groups, or one for an index, with keys of one type.
    pub(super) fn add_spaces<K: StoreKey>(
        &self,
        table: &str,
        groups: impl IntoIterator<Item = Option<(u8, String)>>,
    ) -> Range<u16> {
        let mut spaces = self.spaces.lock();
        let first = spaces.len() as u16;
        let show = |bytes: &[u8]| match K::read(bytes) {
            Some(key) => format!("{key:?}"),
            None => format!("{bytes:02x?}"),
        };
        spaces.extend(groups.into_iter().map(|group| Space { table: table.into(), group, show }));
        first..spaces.len() as u16
    }

    /// A session has ended.
    pub(super) fn keep(&self, slate: Slate) {
        self.ended.lock().push(slate);
    }

    /// The run, as the sessions that have ended recorded it. What was taken is gone.
    pub fn take(&self) -> Recorded {
        let slates = std::mem::take(&mut *self.ended.lock());
        let keys = keys_that_matter(&slates);
        let recorders: Vec<Recorder> = slates.into_iter().map(|slate| named(slate, &keys)).collect();
        let width = |op: &MicroOp| match op {
            MicroOp::Scan { low, high, .. } => (high.0 - low.0 + 1) as u64,
            _ => 0,
        };
        let scanned = recorders.iter().flat_map(Recorder::ops).map(width).sum();
        let spaces = self.spaces.lock();
        let in_words = |place: &Place| {
            let (space, key) = place.split_at(2);
            let space = &spaces[usize::from(u16::from_be_bytes([space[0], space[1]]))];
            KeyName { table: space.table.clone(), group: space.group.clone(), key: (space.show)(key) }
        };
        Recorded { recorders, keys: keys.iter().map(in_words).collect(), scanned }
    }
}

/// The places that become keys, in order.
fn keys_that_matter(slates: &[Slate]) -> Vec<Place> {
    let mut keys: Vec<Place> = Vec::new();
    let mut scanned: Vec<(Place, Place)> = Vec::new();
    for slate in slates.iter().filter(|slate| !slate.loads) {
        let place = |key: Key| slate.places[key.0 as usize].clone();
        let mut seen = vec![false; slate.places.len()];
        let mut matters = |key: Key| {
            if !std::mem::replace(&mut seen[key.0 as usize], true) {
                keys.push(place(key));
            }
        };
        for op in slate.recorder.ops() {
            match op {
                MicroOp::ReadRegister { key, .. } | MicroOp::Write { key, .. } => matters(*key),
                MicroOp::Scan { low, high, found } => {
                    found.iter().flatten().for_each(|(key, _)| matters(*key));
                    scanned.push((place(*low), place(*high)));
                }
                MicroOp::Append { .. } | MicroOp::ReadList { .. } => {}
            }
        }
    }
    keys.sort_unstable();
    keys.dedup();
    scanned.sort_unstable();
    // Ranges that overlap become one: then a place is in the last that begins before it, or in none.
    scanned.dedup_by(|next, last| {
        let one = next.0 <= last.1;
        if one && last.1 < next.1 {
            last.1 = next.1.clone();
        }
        one
    });
    let is_scanned = |place: &Place| {
        let at = scanned.partition_point(|(low, _)| low <= place);
        at.checked_sub(1).is_some_and(|at| *place < scanned[at].1)
    };
    for slate in slates.iter().filter(|slate| slate.loads) {
        keys.extend(slate.places.iter().filter(|place| is_scanned(place)).cloned());
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// What a session ran, in terms of the keys.
fn named(slate: Slate, keys: &[Place]) -> Recorder {
    // For each place how many keys come before it, and whether it is one.
    let ranks: Vec<(i64, bool)> = slate
        .places
        .iter()
        .map(|place| {
            let rank = keys.partition_point(|key| key < place);
            (rank as i64, keys.get(rank) == Some(place))
        })
        .collect();
    let key = |key: Key| {
        let (rank, is_key) = ranks[key.0 as usize];
        is_key.then_some(Key(rank))
    };
    slate.recorder.rewritten(!slate.loads, |op| match op {
        MicroOp::ReadRegister { key: place, value } => {
            Some(MicroOp::ReadRegister { key: key(place)?, value })
        }
        MicroOp::Write { key: place, value } => Some(MicroOp::Write { key: key(place)?, value }),
        MicroOp::Scan { low, high, found } => {
            let (low, high) = (ranks[low.0 as usize].0, ranks[high.0 as usize].0 - 1);
            let found = found.map(|found| {
                found.into_iter().filter_map(|(place, value)| Some((key(place)?, value))).collect()
            });
            // Where no key lies there was nothing to find, ever.
            (low <= high).then_some(MicroOp::Scan { low: Key(low), high: Key(high), found })
        }
        MicroOp::Append { .. } | MicroOp::ReadList { .. } => None,
    })
}
