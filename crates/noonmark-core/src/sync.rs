//! The atomics façade: the standard library's, or those of a model checker.
//!
//! Everything that is shared between threads goes through this module, so that the same code runs
//! under loom (`--cfg loom`: every interleaving of small tests, with the stale values that weak
//! memory permits) and under shuttle (`--cfg shuttle`: random schedules of larger ones).
//!
//! Loom knows sequentially consistent fences, but treats sequentially consistent *accesses* as
//! acquire and release, and so raises false alarms on every Dekker pattern. Under loom such an
//! access is therefore made of a fence and a weaker access, in one of the two ways in which
//! compilers do that for machines without such accesses: the fence before, or the fence after
//! (`SeqCstAs`). Each way is a legal implementation, so what fails under either is wrong; each is
//! stronger than the language promises in one direction (a fence before also orders what came
//! earlier, a fence after what comes later), so the tests run under both. An outcome that the language
//! permits and neither way shows stays unseen.
//!
//! With `--cfg thread_sanitizer` only the mutex is another one (`sync_watched.rs`).

#[cfg(not(any(loom, shuttle)))]
mod chosen {
    #[cfg(thread_sanitizer)]
    pub use crate::sync_watched::Mutex;
    pub use std::hint::spin_loop;
    #[cfg(not(thread_sanitizer))]
    pub use std::sync::Mutex;
    pub use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use std::thread;
    pub use std::thread_local;
}

#[cfg(loom)]
mod chosen {
    pub use crate::sync_loom::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, SeqCstAs, check_both_ways,
        check_every_order,
    };
    pub use loom::hint::spin_loop;
    pub use loom::sync::Mutex;
    pub use loom::sync::atomic::{Ordering, fence};
    pub use loom::thread;
    pub use loom::thread_local;
}

#[cfg(all(shuttle, not(loom)))]
mod chosen {
    pub use crate::sync_shuttle::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::Mutex;
    pub use shuttle::thread;
    pub use shuttle::thread_local;
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
