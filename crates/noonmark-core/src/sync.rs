//! The atomics façade: the standard library's, or those of a model checker.
//!
//! Everything that is shared between threads goes through this module, so that the same code runs
//! under loom (`--cfg loom`: every interleaving and every permitted weak-memory outcome of small
//! tests) and under shuttle (`--cfg shuttle`: random schedules of larger ones).

#[cfg(not(any(loom, shuttle)))]
mod chosen {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use std::sync::{Condvar, Mutex};
    pub use std::thread;
}

#[cfg(loom)]
mod chosen {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Condvar, Mutex};
    pub use loom::thread;
}

#[cfg(all(shuttle, not(loom)))]
mod chosen {
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use shuttle::sync::{Condvar, Mutex};
    pub use shuttle::thread;
}

pub use chosen::*;

/// A value on cache lines of its own: 128 bytes, since adjacent-line prefetchers fetch in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> std::ops::Deref for CachePadded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
