//! Records: a key and its column groups, in one block of memory.
//!
//! ```text
//! +--------------------+------------------------------------------+-----+-----------+
//! | key at, key length | cell 0                                   | ... | key bytes |
//! | u32         u32    | version word | aux words | groups' words |     | padded    |
//! +--------------------+------------------------------------------+-----+-----------+
//! ```
//!
//! (The key lies before the cells where alignment leaves room for it.)
//!
//! A *cell* is what has timestamps of its own: one column group of a fine-grained table, or all
//! groups of a coarse one. Its version word comes first, then the words that its protocol keeps
//! beside the data, then the values. A group of fixed size up to `INLINE_BYTES_MAX` lies in the
//! cell; any other is one word, the address of an immutable version (see [`boxed_bytes`]).
//!
//! Value words are atomics, read and written relaxed: a reader may meet a writer, and finds out
//! because the version word has changed; what it copied is thrown away before anybody looks at it.
//! That makes a value and its version a pair without a data race as the language defines it.
//!
//! A record is reached by its address, which stays valid while the finder is pinned to an epoch.
//! This is one of the few modules with `unsafe`; each function says what its callers promise.

use crate::group::{GROUPS_MAX, Size, words_of};
use crate::splitting::LastUse;
use noonmark_core::sync::{AtomicU32, AtomicU64, Ordering};
use noonmark_core::{VersionWord, Word};
use std::alloc::{self, Layout as Block};
use std::mem::size_of;
use std::ptr::NonNull;

const HEADER_WORDS: usize = 1;
/// Offset in words of the version word of a whole record that can be split.
pub(crate) const WHOLE_CELL_AT: u32 = HEADER_WORDS as u32;
/// Of the second header word's low half: the record is in some session's queue for reclamation.
const QUEUED: u32 = 1 << 31;
/// And this: there has been a conflict over it, which [can be split](crate::splitting).
const WATCHED: u32 = 1 << 30;

/// Where one group lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLayout {
    /// Its cell.
    pub cell: u32,
    /// Offset in words of the cell's version word; the aux words follow.
    pub cell_at: u32,
    /// Offset in words from the start of the record.
    pub at: u32,
    /// Offset in words from the first word of the cell's values.
    pub in_cell: u32,
    /// Words of it.
    pub words: u32,
    /// Words from the cell's first value to behind its last: others may be between them.
    pub cell_words: u32,
    /// The groups of the cell whose values lie in the record, a bit each.
    pub cell_fixed: u8,
    pub size: Size,
}

/// How the records of a table are laid out.
///
/// A cell that fits into a cache line does not straddle two. The gap that this leaves behind the header
/// takes the key if it fits.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The first `group_count` of them are; the others repeat the first.
    groups: [GroupLayout; GROUPS_MAX],
    group_count: usize,
    /// Offsets in words of the cells' version words: one a group, or one for all.
    cells: Vec<usize>,
    /// Offset in words of the key.
    key_at: usize,
    /// How long every key is, if they are all of one length: there is no room for more.
    key_bytes: Option<usize>,
    /// How many words after a cell's version word the [kept versions](crate::kept) of its table lie, if it has them.
    kept: Option<usize>,
    /// Offsets in words of the cells that a new record has besides and that are no part of it yet: those of its groups, if it
    /// [can be split](crate::splitting).
    idle: Vec<usize>,
    /// Then: offset in words of what was last done with which groups.
    last_use: usize,
    /// Offset in words of the first word after the cells.
    end: usize,
}

/// Words of a cache line.
pub(crate) const LINE_WORDS: usize = 8;

/// What column groups have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cells {
    /// All of them are in one cell.
    One,
    /// Each is in a cell of its own.
    Each,
    /// Nor is any cell on a line on which another is.
    Apart,
}

impl Layout {
    /// For one to eight groups of these sizes in such cells, and `aux_words` a cell.
    /// `key_bytes`: how long every key is, if they are all of one length.
    pub(crate) fn new(sizes: &[Size], cells: Cells, aux_words: usize, key_bytes: Option<usize>) -> Self {
        let mut layout = Self::of_cells(sizes, cells, aux_words, HEADER_WORDS, true);
        layout.place_key(key_bytes, HEADER_WORDS);
        layout
    }

    /// The two layouts of a table whose records [can be split](crate::splitting), over the same words: whole, as in a coarse table, so
    /// that whoever looks at it looks at the same lines; then a word that says what was last done with which groups, and the version
    /// word and `aux_words` of a cell for each group. These are on lines of their own if a record takes no more lines for it; and also if it does, where
    /// there is something beside the version words, which readers write, and the record is of more than a line.
    pub(crate) fn new_splitting(
        sizes: &[Size],
        aux_words: usize,
        key_bytes: Option<usize>,
    ) -> (Layout, Layout) {
        let [apart, together] =
            [true, false].map(|apart| Self::splitting(sizes, aux_words, key_bytes, apart));
        let lines = |(whole, _): &(Layout, Layout)| {
            whole.record_bytes(key_bytes.unwrap_or(0)).div_ceil(8 * LINE_WORDS)
        };
        let is_apart = lines(&apart) == lines(&together) || aux_words > 0 && lines(&together) > 1;
        if is_apart { apart } else { together }
    }

    /// The same, with the groups' cells on lines of their own or not. If they are, the first has room in front of the values, if these take no more lines for it.
    fn splitting(
        sizes: &[Size],
        aux_words: usize,
        key_bytes: Option<usize>,
        apart: bool,
    ) -> (Layout, Layout) {
        let cell_words = 1 + aux_words;
        let mut whole = Self::of_cells(sizes, Cells::One, aux_words, HEADER_WORDS, false);
        let lines = |words: usize| words.div_ceil(LINE_WORDS);
        let mut cells = Vec::with_capacity(sizes.len());
        if apart && lines(whole.end + cell_words) == lines(whole.end) {
            cells.push(whole.cells[0] + cell_words);
            whole.end += cell_words;
            for group in &mut whole.groups {
                group.at += cell_words as u32;
            }
        }
        whole.last_use = whole.end;
        let mut end = whole.end + 1;
        while cells.len() < sizes.len() {
            let is_taken = cells.last().is_some_and(|at| (at + aux_words) / LINE_WORDS == end / LINE_WORDS);
            let fits = end % LINE_WORDS + cell_words <= LINE_WORDS;
            if apart && (is_taken || !fits) {
                end = end.next_multiple_of(LINE_WORDS);
            }
            cells.push(end);
            end += cell_words;
        }
        let mut split = whole.clone();
        for (cell, (group, at)) in split.groups.iter_mut().zip(&cells).enumerate() {
            (group.cell, group.cell_at) = (cell as u32, *at as u32);
            (group.in_cell, group.cell_words) = (0, group.words);
            group.cell_fixed &= 1 << cell;
        }
        split.cells = cells;
        whole.idle.clone_from(&split.cells);
        for layout in [&mut whole, &mut split] {
            (layout.end, layout.key_at, layout.key_bytes) = (end, end, key_bytes);
        }
        (whole, split)
    }

    /// Cells from this word on, or, if some `may_move`, from where they fit into a line; the key has no place yet.
    fn of_cells(sizes: &[Size], shared: Cells, aux_words: usize, from: usize, may_move: bool) -> Self {
        let mut groups = Vec::with_capacity(sizes.len());
        let mut cells = Vec::new();
        let mut end = from;
        for sizes in sizes.chunks(if shared == Cells::One { sizes.len() } else { 1 }) {
            let words = 1 + aux_words + words_of(sizes);
            let straddles = words <= LINE_WORDS && end % LINE_WORDS + words > LINE_WORDS;
            if may_move && straddles || shared == Cells::Apart && !cells.is_empty() {
                end = end.next_multiple_of(LINE_WORDS);
            }
            let (cell, cell_at) = (cells.len() as u32, end as u32);
            cells.push(end);
            end += 1 + aux_words;
            let values_at = end;
            let numbered = (groups.len()..).zip(sizes);
            let fixed = numbered.filter(|(_, size)| !size.is_boxed());
            let cell_fixed = fixed.fold(0, |fixed, (index, _)| fixed | 1 << index);
            let cell_words = words_of(sizes) as u32;
            for &size in sizes {
                let (at, in_cell, words) = (end as u32, (end - values_at) as u32, size.words() as u32);
                groups.push(GroupLayout { cell, cell_at, at, in_cell, words, cell_words, cell_fixed, size });
                end += size.words();
            }
        }
        let group_count = groups.len();
        let groups = std::array::from_fn(|index| groups[if index < group_count { index } else { 0 }]);
        Layout {
            groups,
            group_count,
            cells,
            key_at: end,
            key_bytes: None,
            kept: None,
            idle: Vec::new(),
            last_use: 0,
            end,
        }
    }

    /// Puts the key into the gap between the words before `from` and the first cell, if it fits, or behind everything.
    fn place_key(&mut self, key_bytes: Option<usize>, from: usize) {
        let gap = self.cells[0] - from;
        self.key_bytes = key_bytes;
        self.key_at = match key_bytes {
            Some(bytes) if bytes.div_ceil(8) <= gap => from,
            _ => self.end,
        };
    }

    /// The same of a table that keeps the versions that are replaced: the last of a cell's `aux_words` leads to them.
    pub(crate) fn keeping_versions(self, aux_words: usize) -> Self {
        Layout { kept: Some(aux_words), ..self }
    }

    /// Where group number `index` lies, which must be one of the table's.
    #[inline(always)]
    pub(crate) fn group(&self, index: usize) -> &GroupLayout {
        debug_assert!(index < self.group_count);
        &self.groups[index % GROUPS_MAX]
    }

    /// Whether a record of this table has room for the key.
    #[inline(always)]
    pub(crate) fn fits_key(&self, key: &[u8]) -> bool {
        key.len() <= crate::key::KEY_BYTES_MAX && self.key_bytes.is_none_or(|bytes| key.len() == bytes)
    }

    pub(crate) fn groups(&self) -> &[GroupLayout] {
        &self.groups[..self.group_count]
    }

    /// Offsets in words of the cells' version words.
    #[inline(always)]
    pub(crate) fn cells(&self) -> &[usize] {
        &self.cells
    }

    /// Whether all groups are in one cell.
    #[inline(always)]
    pub(crate) fn is_one_cell(&self) -> bool {
        self.cells.len() == 1
    }

    /// Offset in words of what was last done with which groups of a record that can be split.
    pub(crate) fn last_use_at(&self) -> u32 {
        self.last_use as u32
    }

    /// The bytes of a record with a key of this length.
    pub(crate) fn record_bytes(&self, key_bytes: usize) -> usize {
        self.end.max(self.key_at + key_bytes.div_ceil(8)) * 8
    }

    /// The memory that it takes: cache lines of its own, unless it is so small that several share one.
    pub(crate) fn block(&self, key_bytes: usize) -> Block {
        let bytes = self.record_bytes(key_bytes);
        let (bytes, align) =
            if bytes > 32 { (bytes.next_multiple_of(64), 64) } else { (bytes.next_multiple_of(16), 16) };
        Block::from_size_align(bytes, align).unwrap_or_else(|_| Block::new::<u128>())
    }
}

/// The address of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordPtr(NonNull<u64>);

// SAFETY: an address; what may be done with it is said where it is used.
unsafe impl Send for RecordPtr {}

/// The part of a cell that protocols see: the version word and the words beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<'a> {
    /// Version and write lock.
    pub word: &'a VersionWord,
    /// As many words as the protocol asked for; all zero in a new record.
    pub aux: &'a [AtomicU64],
}

impl RecordPtr {
    /// The record at this address.
    pub(crate) fn new(address: NonNull<u64>) -> Self {
        RecordPtr(address)
    }

    /// Its address.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut u64 {
        self.0.as_ptr()
    }

    /// Zeroed memory for a record with a key of this length.
    pub(crate) fn allocate(layout: &Layout, key_bytes: usize) -> NonNull<u64> {
        let block = layout.block(key_bytes);
        // SAFETY: the block is not empty: it has a header.
        let address = unsafe { alloc::alloc_zeroed(block) }.cast::<u64>();
        NonNull::new(address).unwrap_or_else(|| alloc::handle_alloc_error(block))
    }

    /// Gives memory back that no record was made in.
    ///
    /// # Safety
    /// It comes from [`RecordPtr::allocate`] for this length, and nobody refers to it.
    pub(crate) unsafe fn deallocate(memory: NonNull<u64>, layout: &Layout, key_bytes: usize) {
        // SAFETY: promised by the caller; the block is computed as at allocation.
        unsafe { alloc::dealloc(memory.as_ptr().cast(), layout.block(key_bytes)) };
    }

    /// A new record, absent at time zero; nobody else knows it yet. All words are zero but for the
    /// version words.
    ///
    /// # Safety
    /// The memory is a zeroed [block](Layout::block) for a key of this length that nobody else refers to.
    pub(crate) unsafe fn make_at(address: NonNull<u64>, layout: &Layout, key: &[u8]) -> Self {
        // SAFETY: within the block, which nobody else knows; the key's
        // offset and length fit (offsets are small, keys are at most 64 KiB).
        unsafe {
            let header = address.as_ptr().cast::<u32>();
            header.write((layout.key_at * 8) as u32);
            header.add(1).write(key.len() as u32);
            let bytes = address.as_ptr().add(layout.key_at).cast::<u8>();
            std::ptr::copy_nonoverlapping(key.as_ptr(), bytes, key.len());
            for cell in &layout.cells {
                let word = address.as_ptr().add(*cell).cast::<VersionWord>();
                word.write(VersionWord::new(Word::version(
                    noonmark_core::Timestamp::ZERO,
                    noonmark_core::SlotId::NOBODY,
                    true,
                )));
            }
            for cell in &layout.idle {
                let word = address.as_ptr().add(*cell).cast::<VersionWord>();
                word.write(VersionWord::new(Word::RECLAIMED));
            }
        }
        RecordPtr(address)
    }

    /// Frees the versions that its groups point to, and those that are kept.
    ///
    /// # Safety
    /// `layout` is the one that it was made with, and nobody else refers to it any more.
    pub(crate) unsafe fn free_values(self, layout: &Layout) {
        for group in layout.groups().iter().filter(|g| g.size.is_boxed()) {
            // SAFETY: promised by the caller.
            unsafe { free_boxed(self.words(group.at, 1)[0].load(Ordering::Relaxed)) };
        }
        let Some(kept) = layout.kept else { return };
        for cell in &layout.cells {
            // SAFETY: promised by the caller; the word is one of the cell's.
            unsafe {
                let head = self.words((cell + kept) as u32, 1)[0].load(Ordering::Relaxed);
                crate::kept::free_all(head, layout);
            }
        }
    }

    /// Frees the memory of a record without values.
    ///
    /// # Safety
    /// As [`RecordPtr::free_values`]; it comes from [`RecordPtr::allocate`].
    pub(crate) unsafe fn free(self, layout: &Layout) {
        // SAFETY: promised by the caller.
        unsafe { Self::deallocate(self.0, layout, self.key().len()) };
    }

    /// Its key, which never changes.
    ///
    /// # Safety
    /// The record must not be freed while `'a` lasts: the caller is pinned, or owns the table.
    #[inline]
    pub(crate) unsafe fn key<'a>(self) -> &'a [u8] {
        // SAFETY: a record begins with two u32, written before it was published; the second one's
        // top bit is a flag and the rest never changes. They say where the key bytes lie within
        // the same allocation.
        unsafe {
            let header = self.0.as_ptr().cast::<u32>();
            let len = (*header.add(1).cast::<AtomicU32>()).load(Ordering::Relaxed) & !(QUEUED | WATCHED);
            std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>().add(*header as usize), len as usize)
        }
    }

    /// Marks the record as queued for reclamation; false if it was already.
    ///
    /// # Safety
    /// As for [`RecordPtr::key`].
    pub(crate) unsafe fn try_mark_queued(self) -> bool {
        // SAFETY: as in `key`. AcqRel: the one who unmarks comes before the next who marks.
        unsafe {
            let flags = &*self.0.as_ptr().cast::<u32>().add(1).cast::<AtomicU32>();
            flags.fetch_or(QUEUED, Ordering::AcqRel) & QUEUED == 0
        }
    }

    /// Takes the mark back.
    ///
    /// # Safety
    /// As for [`RecordPtr::key`].
    pub(crate) unsafe fn unmark_queued(self) {
        // SAFETY: as in `key`.
        unsafe {
            let flags = &*self.0.as_ptr().cast::<u32>().add(1).cast::<AtomicU32>();
            flags.fetch_and(!QUEUED, Ordering::AcqRel);
        }
    }

    /// What protocols see of the cell whose version word is at this offset.
    ///
    /// # Safety
    /// The record was allocated with a layout that has such a cell with `aux_words` words beside
    /// it, and is not freed while `'a` lasts.
    #[inline(always)]
    pub(crate) unsafe fn cell<'a>(self, at: usize, aux_words: usize) -> Cell<'a> {
        // SAFETY: promised by the caller; all words of a cell are atomics, properly aligned.
        unsafe {
            let word = self.0.as_ptr().add(at);
            Cell {
                word: &*word.cast::<VersionWord>(),
                aux: std::slice::from_raw_parts(word.add(1).cast::<AtomicU64>(), aux_words),
            }
        }
    }

    /// What was last done with which groups; see [`LastUse`](crate::splitting::LastUse).
    ///
    /// # Safety
    /// The layout is that of its table, which splits, and it is not freed while `'a` lasts.
    #[inline]
    pub(crate) unsafe fn last_use<'a>(self, layout: &Layout) -> &'a LastUse {
        // SAFETY: promised by the caller; the word comes after the values.
        unsafe { &*self.0.as_ptr().add(layout.last_use).cast::<LastUse>() }
    }

    /// Whether there has been a conflict over it, so that whoever uses it is to say what of it. A hint.
    ///
    /// # Safety
    /// As for [`RecordPtr::key`].
    #[inline(always)]
    pub(crate) unsafe fn is_watched(self) -> bool {
        // SAFETY: as in `key`. Relaxed: a hint.
        unsafe { (*self.0.as_ptr().cast::<AtomicU32>().add(1)).load(Ordering::Relaxed) & WATCHED != 0 }
    }

    /// From now on it is.
    ///
    /// # Safety
    /// As for [`RecordPtr::key`].
    pub(crate) unsafe fn watch(self) {
        // SAFETY: as in `key`. Relaxed: a hint.
        unsafe { (*self.0.as_ptr().cast::<AtomicU32>().add(1)).fetch_or(WATCHED, Ordering::Relaxed) };
    }

    /// So many words from the one at this offset on.
    ///
    /// # Safety
    /// They are those of a group of the layout that the record was allocated with, and the record is not
    /// freed while `'a` lasts.
    #[inline(always)]
    pub(crate) unsafe fn words<'a>(self, at: u32, words: usize) -> &'a [AtomicU64] {
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at as usize).cast::<AtomicU64>(), words) }
    }
}

/// Calls the macro for a length that few groups exceed, so that copying them is straight code.
macro_rules! straight {
    ($len:expr, $copy:ident, $copy_any:expr) => {
        match $len {
            1 => $copy!(1),
            2 => $copy!(2),
            3 => $copy!(3),
            4 => $copy!(4),
            5 => $copy!(5),
            6 => $copy!(6),
            7 => $copy!(7),
            8 => $copy!(8),
            _ => $copy_any,
        }
    };
}

/// Stores words into those of a cell that the caller has locked, as many as `to` has.
#[inline(always)]
pub(crate) fn store_words(to: &[AtomicU64], from: &[u64]) {
    // Relaxed: readers look at the version word before and after.
    let store = |to: &[AtomicU64], from: &[u64]| {
        to.iter().zip(from).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
    };
    macro_rules! store {
        ($count:literal) => {
            if let (Some(to), Some(from)) = (to.first_chunk::<$count>(), from.first_chunk::<$count>()) {
                store(to, from);
            }
        };
    }
    straight!(to.len(), store, store(to, from));
}

/// The same where they are not what is there already, in pieces of so many as a line has: what stays as it is need not be written back to memory.
#[inline(never)]
pub(crate) fn store_changed_words(to: &[AtomicU64], from: &[u64]) {
    // Relaxed: nobody else stores.
    let differs = |(to, from): (&AtomicU64, &u64)| to.load(Ordering::Relaxed) ^ from;
    let store = |to: &[AtomicU64], from: &[u64]| {
        if to.iter().zip(from).map(differs).fold(0, |any, differs| any | differs) != 0 {
            store_words(to, from);
        }
    };
    let ((lines, rest), (new_lines, new_rest)) =
        (to.as_chunks::<LINE_WORDS>(), from.as_chunks::<LINE_WORDS>());
    lines.iter().zip(new_lines).for_each(|(to, from)| store(to, from));
    store(rest, new_rest);
}

/// Copies as many words of a cell as `to` has.
#[inline(always)]
pub(crate) fn load_words(to: &mut [u64], from: &[AtomicU64]) {
    // Relaxed: the reader looks at the version word before and after.
    let load = |to: &mut [u64], from: &[AtomicU64]| {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    };
    macro_rules! load {
        ($count:literal) => {
            if let (Some(to), Some(from)) = (to.first_chunk_mut::<$count>(), from.first_chunk::<$count>()) {
                load(to, from);
            }
        };
    }
    straight!(to.len(), load, load(to, from));
}

/// Words as the bytes they were made of.
#[inline(always)]
pub(crate) fn as_bytes(words: &[u64]) -> &[u8] {
    // SAFETY: any u64 is eight bytes, and u8 has no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Words as bytes to fill.
#[inline(always)]
pub(crate) fn as_bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: as above; any bytes are a u64.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// Makes an immutable version of a value, and gives its address.
///
/// ```text
/// address ──▶ | length in bytes: u64 | bytes, padded to 8 |
/// ```
pub(crate) fn allocate_boxed(bytes: &[u8]) -> u64 {
    let mut words = vec![0u64; 1 + bytes.len().div_ceil(8)].into_boxed_slice();
    words[0] = bytes.len() as u64;
    as_bytes_mut(&mut words[1..])[..bytes.len()].copy_from_slice(bytes);
    Box::into_raw(words).cast::<u64>().expose_provenance() as u64
}

/// The bytes of a version; none at address 0.
///
/// # Safety
/// The address came from [`allocate_boxed`] and the version is not freed while `'a` lasts.
#[inline]
pub(crate) unsafe fn boxed_bytes<'a>(address: u64) -> &'a [u8] {
    if address == 0 {
        return &[];
    }
    // SAFETY: promised by the caller; the first word says how many bytes follow.
    unsafe {
        let words = std::ptr::with_exposed_provenance::<u64>(address as usize);
        std::slice::from_raw_parts(words.add(1).cast::<u8>(), *words as usize)
    }
}

/// Frees a version; nothing at address 0.
///
/// # Safety
/// The address came from [`allocate_boxed`], and nobody else refers to it any more.
pub(crate) unsafe fn free_boxed(address: u64) {
    if address != 0 {
        // SAFETY: promised by the caller; the length is that of the slice that was boxed.
        unsafe {
            let words = std::ptr::with_exposed_provenance_mut::<u64>(address as usize);
            let len = 1 + (*words as usize).div_ceil(8);
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(words, len)));
        }
    }
}

const _: () = assert!(size_of::<u64>() == 8);

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn layout_puts_cells_side_by_side() {
        let sizes = [Size::Fixed(50), Size::Fixed(50), Size::Variable, Size::Fixed(2000)];
        let fine = Layout::new(&sizes, Cells::Each, 1, None);
        assert_eq!(fine.cells().len(), 4);
        assert_eq!(fine.group(1).at, 1 + (2 + 7) + 2);
        let coarse = Layout::new(&sizes, Cells::One, 0, Some(3));
        assert_eq!(coarse.cells().len(), 1);
        assert!(coarse.groups().iter().all(|group| group.cell == 0 && group.cell_at == 1));
        assert_eq!(coarse.record_bytes(3), 8 * (1 + 1 + 7 + 7 + 1 + 1 + 1));
        assert!(coarse.group(3).size.is_boxed() && coarse.group(2).size.is_boxed());
    }

    #[test]
    fn a_cell_that_fits_a_line_lies_in_one() {
        let sizes = [Size::Fixed(50), Size::Fixed(50)];
        let two = Layout::new(&sizes, Cells::Each, 0, Some(8));
        assert_eq!(two.cells(), [8, 16]);
        assert_eq!(two.record_bytes(8), 192, "header and key lie before the cells");
        assert_eq!(Layout::new(&sizes, Cells::One, 0, Some(8)).record_bytes(8), 136);
        assert_eq!(Layout::new(&[Size::Fixed(8)], Cells::Each, 0, Some(8)).record_bytes(8), 32);
        // What is long, then two that would be on the line on which it ends.
        let sizes = [Size::Fixed(85), Size::Fixed(8), Size::Fixed(8)];
        assert_eq!(Layout::new(&sizes, Cells::Each, 0, Some(8)).cells(), [1, 13, 16]);
        assert_eq!(Layout::new(&sizes, Cells::Apart, 0, Some(8)).cells(), [1, 16, 24]);
        assert_eq!(Layout::new(&sizes, Cells::Apart, 9, Some(8)).cells(), [1, 24, 40]);
    }

    /// The lines from the first of these words to the last.
    fn lines(words: std::ops::Range<usize>) -> std::ops::Range<usize> {
        words.start / LINE_WORDS..words.end.div_ceil(LINE_WORDS)
    }

    #[test]
    fn a_record_that_can_be_split_takes_no_more_lines_than_a_coarse_one() {
        for (bytes, aux_words) in [(50, 0), (50, 1), (8, 0)] {
            let sizes = [Size::Fixed(bytes); 2];
            let (whole, split) = Layout::new_splitting(&sizes, aux_words, Some(8));
            let coarse = Layout::new(&sizes, Cells::One, aux_words, Some(8));
            assert_eq!(whole.cells(), coarse.cells());
            assert_eq!(lines(0..whole.block(8).size() / 8), lines(0..coarse.block(8).size() / 8));
            assert_eq!((split.block(8), split.cells()), (whole.block(8), whole.idle.as_slice()));
            for (of_whole, of_coarse) in whole.groups().iter().zip(coarse.groups()) {
                let own_lines = |of: &GroupLayout| lines(of.at as usize..(of.at + of.words) as usize);
                assert_eq!(own_lines(of_whole), own_lines(of_coarse), "{bytes}, {aux_words}");
            }
        }
    }

    #[test]
    fn words_of_groups_lie_apart_where_that_takes_no_more_lines() {
        let cells = |bytes| Layout::new_splitting(&[Size::Fixed(bytes); 2], 0, Some(8)).1.cells;
        assert_eq!((cells(70), cells(50)), (vec![2, 22], vec![17, 18]));
    }

    #[test]
    fn what_readers_of_different_groups_write_shares_no_line() {
        for groups in 2..=GROUPS_MAX {
            for (bytes, aux_words) in [(8, 0), (8, 1), (24, 0), (24, 1), (50, 1), (50, 2), (50, 9)] {
                for key_bytes in [None, Some(8), Some(40)] {
                    let sizes = vec![Size::Fixed(bytes); groups];
                    let (whole, split) = Layout::new_splitting(&sizes, aux_words, key_bytes);
                    let cell = |at: &usize| *at..at + 1 + aux_words;
                    let on = split.cells().iter().map(cell).map(lines);
                    let apart = on.clone().zip(on.skip(1)).all(|(one, next)| one.end <= next.start);
                    assert!(
                        apart || aux_words == 0 || whole.end <= LINE_WORDS,
                        "{groups} of {bytes}, {aux_words}: {:?}",
                        split.cells()
                    );
                    // Nothing lies on anything else.
                    let values = split.groups().iter().map(|of| of.at as usize..(of.at + of.words) as usize);
                    let key_bytes = key_bytes.unwrap_or(16);
                    let key = whole.key_at..whole.key_at + key_bytes.div_ceil(8);
                    let mut parts = vec![0..HEADER_WORDS, whole.last_use..whole.last_use + 1, key];
                    parts.extend(split.cells().iter().chain(whole.cells()).map(cell).chain(values));
                    parts.sort_by_key(|part| part.start);
                    assert!(parts.windows(2).all(|two| two[0].end <= two[1].start), "{parts:?}");
                    assert!(
                        parts.iter().all(|part| part.end * 8 <= whole.record_bytes(key_bytes)),
                        "{parts:?}"
                    );
                    for (of_whole, of_split) in whole.groups().iter().zip(split.groups()) {
                        assert_eq!((of_whole.at, of_split.in_cell), (of_split.at, 0));
                        assert_eq!(of_whole.at, whole.groups()[0].at + of_whole.in_cell);
                    }
                }
            }
        }
    }

    #[test]
    fn a_record_keeps_its_key_and_frees_its_versions() {
        let layout = Layout::new(&[Size::Variable, Size::Fixed(9)], Cells::Each, 2, None);
        let memory = RecordPtr::allocate(&layout, 8);
        // SAFETY: the record is this test's own until it is freed.
        unsafe {
            let record = RecordPtr::make_at(memory, &layout, b"some key");
            assert_eq!(record.key(), b"some key");
            assert!(record.try_mark_queued() && !record.try_mark_queued());
            assert_eq!(record.key(), b"some key");
            record.unmark_queued();
            assert!(record.try_mark_queued());
            let cell = record.cell(layout.cells()[1], 2);
            assert!(cell.word.load().is_absent() && cell.aux.len() == 2);
            let address = allocate_boxed(b"0123456789");
            record.words(layout.group(0).at, 1)[0].store(address, Ordering::Relaxed);
            assert_eq!(boxed_bytes(address), b"0123456789");
            record.free_values(&layout);
            record.free(&layout);
        }
    }
}
