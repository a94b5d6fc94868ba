//! Versions that were replaced, kept for those that began before.
//!
//! Under a protocol that keeps versions ([`crate::protocol::Rules::KEEPS_VERSIONS`]) the last word beside a cell's version word is the
//! head of a list, of what was in the cell before, the latest first:
//!
//! ```text
//! cell: | version word | aux .. head | values |      now
//!                               │
//!                               ▼
//!                        | next | version | values |      before
//!                            ▼
//!                        | next | version | values |      before that
//! ```
//!
//! # Invariants
//!
//! 1. Only the holder of the cell's write lock changes the list. He puts the version that he replaces in front of it
//!    before he writes the first word of the new one, so that a reader who finds, after he has copied, the head that
//!    he found before, has copied no word of the new one.
//! 2. What is in the list never changes but for its last link: the end of the list is cut off when
//!    nobody will read it any more ([`crate::begin_times`]), and freed when nobody can be reading it.
//! 3. Before the oldest that is in the list, for all who may still look, the row was absent.
//! 4. A kept version owns its values: long ones are copies. (The cell's own are replaced and freed as under
//!    any other protocol.)
//!
//! This is one of the few modules with `unsafe`. A [`Cell`] can be had only of a record that will not be freed while the
//! cell is used, by a caller who is pinned; so what is found through it is there, too.

use crate::group::Size;
use crate::record::{Cell, GroupLayout, Layout, RecordPtr, allocate_boxed, boxed_bytes, free_boxed};
use crate::table::{TableCore, TableRef};
use noonmark_core::sync::{AtomicU64, Ordering, fence};
use noonmark_core::{Garbage, Timestamp, Word};

/// A version that was replaced.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The address of the one before, or 0.
    next: AtomicU64,
    pub version: Word,
    /// The cell, for its layout.
    cell: u32,
    /// Those of the cell, laid out as in the record; none if the row was absent.
    values: Box<[u64]>,
}

impl Kept {
    /// Its values, laid out as in the record; none if the row was absent.
    #[inline]
    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }

    fn next<'a>(&self) -> Option<&'a Kept> {
        // SAFETY: what is linked here is freed only when nobody who is pinned can have found it.
        unsafe { at(self.next.load(Ordering::Acquire)) }
    }
}

/// The kept version at this address.
///
/// # Safety
/// It is 0, or of one that is not freed while `'a` lasts.
unsafe fn at<'a>(address: u64) -> Option<&'a Kept> {
    // SAFETY: promised by the caller.
    unsafe { std::ptr::with_exposed_provenance::<Kept>(address as usize).as_ref() }
}

impl<'a> Cell<'a> {
    /// The head of the list.
    fn head(self) -> &'a AtomicU64 {
        &self.aux[self.aux.len() - 1]
    }

    /// The version that was replaced last.
    #[inline]
    pub(crate) fn newest_kept(self) -> Option<&'a Kept> {
        // SAFETY: see the module's page.
        unsafe { at(self.head().load(Ordering::Acquire)) }
    }

    /// Whether this still is the one that was replaced last. For a look after a copy and an acquire fence.
    #[inline]
    pub(crate) fn is_newest_kept(self, newest: Option<&Kept>) -> bool {
        let address = newest.map_or(0, |kept| std::ptr::from_ref(kept).addr() as u64);
        self.head().load(Ordering::Relaxed) == address
    }

    /// The version of this time, among those that were replaced; `None`: there was none yet.
    pub(crate) fn kept_at(self, time: Timestamp) -> Option<&'a Kept> {
        let mut kept = self.newest_kept();
        while let Some(Kept { version, .. }) = kept
            && version.time() > time
        {
            kept = kept.and_then(Kept::next);
        }
        kept
    }
}

/// Keeps the version that the caller is about to replace, whose lock he holds.
pub(crate) fn keep(table: TableRef, record: RecordPtr, cell: u32, version: Word) {
    let layout = &table.get().layout;
    let groups = || layout.groups().iter().filter(move |group| group.cell == cell);
    let Some(&GroupLayout { at, in_cell, cell_words, cell_at, .. }) = groups().next() else { return };
    // SAFETY: the caller is pinned, and the offset is of this table's layout.
    let head = unsafe { record.cell(cell_at as usize, table.get().aux_words) }.head();
    if version.is_absent() && head.load(Ordering::Relaxed) == 0 {
        // Before all that is kept there was nothing.
        return;
    }
    let mut values = Box::<[u64]>::default();
    if !version.is_absent() {
        // SAFETY: the caller is pinned, and they are the words of a cell of the record's layout.
        let words = unsafe { record.words(at - in_cell, cell_words as usize) };
        // Relaxed: under the lock, whose last holder's stores its taking has acquired.
        values = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        for group in groups().filter(|group| group.size.is_boxed()) {
            let value = &mut values[group.in_cell as usize];
            // SAFETY: only the holder of the lock replaces what it points to.
            *value = allocate_boxed(unsafe { boxed_bytes(*value) });
        }
    }
    let next = AtomicU64::new(head.load(Ordering::Relaxed));
    let kept = Box::new(Kept { next, version, cell, values });
    // Release: it is whole for whoever finds it.
    head.store(Box::into_raw(kept).expose_provenance() as u64, Ordering::Release);
    // And it is found by whoever copies a word that is stored from here on, and looks then.
    fence(Ordering::Release);
}

/// Cuts off what nobody reads any more who began, or will, at the frontier or later. The caller holds the lock of the
/// cell, and replaces its version at the time `replaced`.
pub(crate) fn cut(
    table: TableRef,
    record: RecordPtr,
    at: u32,
    replaced: Timestamp,
    frontier: Timestamp,
) -> Option<Garbage> {
    // SAFETY: the caller is pinned, and the offset is of this table's layout.
    let cell = unsafe { record.cell(at as usize, table.get().aux_words) };
    let mut link = cell.head();
    let mut replaced = replaced;
    while replaced > frontier {
        // SAFETY: only the holder of the lock cuts.
        let kept = unsafe { self::at(link.load(Ordering::Relaxed)) }?;
        (link, replaced) = (&kept.next, kept.version.time());
    }
    // Relaxed: what it led to is no business of whoever finds the end here.
    let rest = link.swap(0, Ordering::Relaxed);
    if rest == 0 {
        return None;
    }
    let rest = std::ptr::with_exposed_provenance_mut::<u8>(rest as usize);
    // SAFETY: it came from `keep`, and is not found any more; the table lasts as long as the database, whose epochs
    // are emptied before it goes.
    Some(unsafe { Garbage::new(rest, table.as_ptr().expose_provenance(), free_cut) })
}

/// Frees what was cut off: the argument is the address of its table.
///
/// # Safety
/// It came from [`cut`], nobody refers to it any more, and the table still exists.
unsafe fn free_cut(kept: *mut u8, table: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        let table = &*std::ptr::with_exposed_provenance::<TableCore>(table);
        free_all(kept.expose_provenance() as u64, &table.layout);
    }
}

/// Frees a list.
///
/// # Safety
/// The address is 0 or came from [`keep`], for this layout, and nobody else refers to what is there any more.
pub(crate) unsafe fn free_all(mut address: u64, layout: &Layout) {
    while address != 0 {
        // SAFETY: promised by the caller.
        let kept = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Kept>(address as usize)) };
        address = kept.next.load(Ordering::Relaxed);
        if kept.values.is_empty() {
            continue;
        }
        for group in layout.groups().iter().filter(|group| group.cell == kept.cell && group.size.is_boxed()) {
            // SAFETY: its own copy.
            unsafe { free_boxed(kept.values[group.in_cell as usize]) };
        }
    }
}

/// Words of values kept, as they would have been read from the record: of neighbouring groups, from `first` on.
pub(crate) fn copy_groups(kept: &Kept, layout: &Layout, first: usize, sizes: &[Size], row: &mut [u64]) {
    let mut at = 0;
    for (index, size) in sizes.iter().enumerate() {
        let from = layout.group(first + index).in_cell as usize;
        // (None if the row was absent: then nobody looks at what was copied.)
        if let Some(words) = kept.values().get(from..from + size.words()) {
            row[at..at + size.words()].copy_from_slice(words);
        }
        at += size.words();
    }
}
