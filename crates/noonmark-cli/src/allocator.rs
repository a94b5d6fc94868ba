//! The program's allocator, and the one option of it that matters here.
//!
//! The driver touches the memory that a run will take before the clock starts (see `noonmark_workloads::driver`), so that
//! the system need not be asked while it runs. That works if the allocator keeps what it was given back, which by itself
//! it does for a second only.

use noonmark_workloads::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

/// `mi_option_purge_delay`: milliseconds until unused memory goes back to the system. The crate names but some of the
/// options; this one lies between two that it names, 14 and 16.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// Never.
const NEVER: std::ffi::c_long = -1;

/// From now on, memory that is given back stays with the program.
pub fn keep_memory() {
    // SAFETY: any value of this option will do; called before there is a second thread.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, NEVER) };
}
