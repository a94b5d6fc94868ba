//! Where lock words live: in the object that they guard, or in a table by its address.
//!
//! [`Own`]: each variable and each node begins with a lock word. It comes into the cache with what it guards, and
//! two objects never share one; it takes eight bytes.
//!
//! [`InTable`]: objects have no lock; a hash of the address picks one of a table of a million. Variables are as small as
//! their values, and each access goes to a second cache line; objects that share a lock conflict though they have
//! nothing to do with each other.
//!
//! A [`World`](crate::World) chooses. Which is better is measured: see `docs/decisions/`.

use crate::control::Control;

/// Where lock words live. Sealed: [`Own`] or [`InTable`].
pub trait Place: sealed::Sealed + Send + Sync + 'static {
    /// What an object begins with.
    #[doc(hidden)]
    type Header<C: Control>: Default + Send + Sync + 'static;

    /// How many locks the table has: none, or a power of two.
    #[doc(hidden)]
    const TABLE: usize;

    /// The lock of the object that begins with this header.
    #[doc(hidden)]
    fn lock<'a, C: Control>(header: &'a Self::Header<C>, table: &'a [C::Lock]) -> &'a C::Lock;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Own {}
    impl Sealed for super::InTable {}
}

/// Each object has its own lock.
#[derive(Clone, Copy, Debug)]
pub struct Own;

impl Place for Own {
    type Header<C: Control> = C::Lock;
    const TABLE: usize = 0;

    #[inline(always)]
    fn lock<'a, C: Control>(header: &'a C::Lock, _: &'a [C::Lock]) -> &'a C::Lock {
        header
    }
}

/// Objects share the locks of a table.
#[derive(Clone, Copy, Debug)]
pub struct InTable;

impl Place for InTable {
    type Header<C: Control> = ();
    /// Few under the model checkers, so that locks are shared there.
    const TABLE: usize = if cfg!(any(loom, shuttle)) { 4 } else { 1 << 20 };

    #[inline(always)]
    fn lock<'a, C: Control>(header: &'a (), table: &'a [C::Lock]) -> &'a C::Lock {
        // The header takes no room, but has a place: where the object begins. Fibonacci hashing, as neighbours
        // differ in a few low bits only.
        let hash = (std::ptr::from_ref(header) as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &table[(hash >> 32) as usize & (table.len() - 1)]
    }
}
