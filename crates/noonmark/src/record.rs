//! Records: a key and its column groups, in one block of memory.
//!
//! ```text
//! +--------------------+-----------------------------+-----+------------------+
//! | key offset, length | group 0: word, aux.., value | ... | key bytes        |
//! | u32         u32    | u64 words                   |     | padded to 8      |
//! +--------------------+-----------------------------+-----+------------------+
//! ```
//!
//! A record is reached by its address, which stays valid while the finder is pinned to an epoch.

use std::ptr::NonNull;

/// The address of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordPtr(NonNull<u64>);

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

    /// Its key, which never changes.
    ///
    /// # Safety
    /// The record must not be freed while `'a` lasts: the caller is pinned, or owns the table.
    #[inline]
    pub(crate) unsafe fn key<'a>(self) -> &'a [u8] {
        // SAFETY: a record begins with two u32, written before it was published and never again;
        // they say where its key bytes lie within the same allocation.
        unsafe {
            let header = self.0.as_ptr().cast::<u32>();
            let (offset, len) = (*header as usize, *header.add(1) as usize);
            std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>().add(offset), len)
        }
    }
}
