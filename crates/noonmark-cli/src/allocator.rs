//! The program's allocator, and the one option of it that matters here.
//!
//! The driver touches the memory that a run will take before the clock starts (see `noonmark_workloads::driver`), so that
//! the system need not be asked while it runs. That works if the allocator keeps what it was given back, which by itself
//! it does for a second only.
//!
//! Where there is no more memory the program ends, with one line. What it will take is reckoned before a run begins, but how much a run adds is
//! known only then.

use noonmark_workloads::alloc::Counting;
use std::alloc::{GlobalAlloc, Layout};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

#[global_allocator]
static ALLOCATOR: Counting<OrEnd<mimalloc::MiMalloc>> = Counting(OrEnd(mimalloc::MiMalloc));

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

/// An allocator that gives memory, or ends the program.
struct OrEnd<A>(A);

impl<A> OrEnd<A> {
    #[inline]
    fn given(address: *mut u8) -> *mut u8 {
        if address.is_null() {
            out_of_memory();
        }
        address
    }
}

/// Ends the program: whoever comes first says so. Allocates nothing, and takes no lock that somebody may hold who has come here, too.
#[cold]
#[inline(never)]
fn out_of_memory() -> ! {
    static SAID: AtomicBool = AtomicBool::new(false);
    const WORDS: &[u8] = b"noonmark: out of memory: give it less to do (fewer rows, threads, seconds, cores), or more memory\n";
    // Relaxed: whoever comes first is one, in any order.
    if SAID.swap(true, Ordering::Relaxed) {
        loop {
            std::thread::yield_now();
        }
    }
    #[cfg(unix)]
    {
        use std::os::fd::FromRawFd;
        // SAFETY: standard error is open as long as the program runs, and is not closed here either.
        let mut error = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(2) });
        let _ = error.write_all(WORDS);
    }
    #[cfg(not(unix))]
    let _ = std::io::stderr().write_all(WORDS);
    std::process::exit(1)
}

// SAFETY: every call is handed on to an allocator unchanged, and what it answers is, too; who is told that there is no memory does not return.
unsafe impl<A: GlobalAlloc> GlobalAlloc for OrEnd<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        Self::given(unsafe { self.0.alloc(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { self.0.dealloc(address, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        Self::given(unsafe { self.0.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as promised by the caller.
        Self::given(unsafe { self.0.realloc(address, layout, new_size) })
    }
}
