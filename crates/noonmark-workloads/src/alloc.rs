//! Counting allocations, where a run asks for it.
//!
//! A program wraps its global allocator in [`Counting`]; the driver switches the counting on with
//! [`set_counting`] for the runs that ask for it, and reads each worker's own counters with [`on_this_thread`].
//! Switched off, it costs one relaxed load and a branch that is never taken.
//!
//! ```
//! use noonmark_workloads::alloc::{Counting, on_this_thread, set_counting};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting<std::alloc::System> = Counting(std::alloc::System);
//!
//! set_counting(true);
//! let before = on_this_thread();
//! drop(std::hint::black_box(vec![0_u8; 100]));
//! let spent = on_this_thread() - before;
//! assert_eq!((spent.allocations, spent.bytes), (1, 100));
//! ```
//!
//! What it does not do: tell what is still allocated, or where from. Frees are not counted.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ops::{AddAssign, Sub};
use std::sync::atomic::{AtomicBool, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static INSTALLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    // Constant and without a destructor: reaching them allocates nothing, at any time of a thread's life.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// What has been allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// How many times; growing in place is one of them.
    pub allocations: u64,
    /// How many bytes were asked for; of a growth, what it added.
    pub bytes: u64,
}

impl Sub for Allocated {
    type Output = Allocated;
    fn sub(self, before: Allocated) -> Allocated {
        Allocated {
            allocations: self.allocations.wrapping_sub(before.allocations),
            bytes: self.bytes.wrapping_sub(before.bytes),
        }
    }
}

impl AddAssign for Allocated {
    fn add_assign(&mut self, other: Allocated) {
        self.allocations = self.allocations.wrapping_add(other.allocations);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

/// Switches counting on or off, for all threads.
pub fn set_counting(on: bool) {
    // Relaxed: the counters are each thread's own; the switch orders nothing.
    COUNTING.store(on, Ordering::Relaxed);
}

/// Whether the program's allocator is wrapped in [`Counting`], so that there is something to read.
pub fn is_installed() -> bool {
    let was = COUNTING.swap(true, Ordering::Relaxed);
    drop(std::hint::black_box(Box::new(0_u8)));
    COUNTING.store(was, Ordering::Relaxed);
    INSTALLED.load(Ordering::Relaxed)
}

/// What the calling thread has allocated while counting was on, since it began.
pub fn on_this_thread() -> Allocated {
    Allocated { allocations: ALLOCATIONS.get(), bytes: BYTES.get() }
}

/// An allocator that counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting<A>(
    /// The allocator that does the work.
    pub A,
);

#[cold]
fn count(bytes: usize) {
    INSTALLED.store(true, Ordering::Relaxed);
    // A thread that is past its end has no counters, and nobody to read them.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get().wrapping_add(1)));
    let _ = BYTES.try_with(|counted| counted.set(counted.get().wrapping_add(bytes as u64)));
}

#[inline(always)]
fn count_if_on(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        count(bytes);
    }
}

// SAFETY: every call is handed on to an allocator unchanged; counting neither allocates nor panics.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_if_on(layout.size());
        // SAFETY: as promised by the caller.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { self.0.dealloc(address, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_if_on(layout.size());
        // SAFETY: as promised by the caller.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count_if_on(new_size.saturating_sub(layout.size()));
        // SAFETY: as promised by the caller.
        unsafe { self.0.realloc(address, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_sums_are_by_field() {
        let mut sum = Allocated { allocations: 5, bytes: 100 } - Allocated { allocations: 2, bytes: 30 };
        sum += Allocated { allocations: 1, bytes: 1 };
        assert_eq!(sum, Allocated { allocations: 4, bytes: 71 });
    }
}
