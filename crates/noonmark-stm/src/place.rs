//! Where lock words live: in the object that they guard, or in a table by its address.
//!
//! [`Own`]: each variable and each node begins with a lock word. It comes into the cache with what it guards, and
//! two objects never share one; it takes eight bytes.
//!
//! [`InTable`]: objects have no lock; a hash of the address (of its number, where it has one: [`crate::lines`]) picks one of a table of a million. Variables are as small as
//! their values, and each access goes to a second cache line; objects that share a lock conflict though they have
//! nothing to do with each other.
//!
//! A [`World`](crate::World) chooses. Which is better is measured: `docs/decisions/0020-transactional-memory.md` has the figures.

use crate::control::Control;
use crate::desk::Common;
use crate::lines::Spot;
use noonmark_core::{Host, Label};

/// Where lock words live. Sealed: [`Own`] or [`InTable`].
pub trait Place: sealed::Sealed + Send + Sync + 'static {
    /// What an object begins with.
    #[doc(hidden)]
    type Header<C: Control, H: Host>: Default + Send + Sync + 'static;

    /// How many locks the table has: none, or a power of two.
    #[doc(hidden)]
    const TABLE: usize;

    /// The lock of the object that begins with this header.
    #[doc(hidden)]
    fn lock<'a, C: Control, H: Host>(
        header: &'a Self::Header<C, H>,
        common: &'a Common<C, H>,
    ) -> Spot<'a, C::Lock, H>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Own {}
    impl Sealed for super::InTable {}
}

/// Each object has its own lock.
#[derive(Clone, Copy, Debug)]
pub struct Own;

/// What an object with a lock of its own begins with.
#[doc(hidden)]
#[repr(C)]
pub struct OwnHeader<C: Control, H: Host> {
    lock: C::Lock,
    /// After the lock, so that the lock is where it is without it. It takes no room on threads.
    label: H::Label,
}

impl<C: Control, H: Host> Default for OwnHeader<C, H> {
    fn default() -> Self {
        OwnHeader { lock: C::Lock::default(), label: H::Label::default() }
    }
}

impl Place for Own {
    type Header<C: Control, H: Host> = OwnHeader<C, H>;
    const TABLE: usize = 0;

    #[inline(always)]
    fn lock<'a, C: Control, H: Host>(
        header: &'a OwnHeader<C, H>,
        common: &'a Common<C, H>,
    ) -> Spot<'a, C::Lock, H> {
        Spot::of_own(&header.lock, &header.label, common)
    }
}

/// Objects share the locks of a table.
#[derive(Clone, Copy, Debug)]
pub struct InTable;

impl Place for InTable {
    type Header<C: Control, H: Host> = H::Label;
    /// Few under the model checkers, so that locks are shared there.
    const TABLE: usize = if cfg!(any(loom, shuttle)) { 4 } else { 1 << 20 };

    #[inline(always)]
    fn lock<'a, C: Control, H: Host>(header: &'a H::Label, common: &'a Common<C, H>) -> Spot<'a, C::Lock, H> {
        // The header takes no room, but has a place: where the object begins. If it does take room, then it has a number, which
        // is the same in each run.
        let number = H::Label::look(H::Label::note(|| common.number_of(header)));
        let which = number.unwrap_or(std::ptr::from_ref(header) as u64 >> 3);
        // Fibonacci hashing, as neighbours differ in a few low bits only.
        let hash = which.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let table = &common.table;
        Spot::of_table(&table[(hash >> 32) as usize & (table.len() - 1)], header, common)
    }
}
