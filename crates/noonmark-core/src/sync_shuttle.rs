//! The standard library's atomics, with a scheduling point of shuttle's before each access.
//!
//! Shuttle's own atomics are larger than the words that they stand for. The engine lays words out in raw
//! memory, so its atomics must have the size of what they hold. Shuttle runs all threads of a
//! test on one thread of the system and takes each access for sequentially consistent in any case: so a
//! plain access after a scheduling point shows the same interleavings.

use std::sync::atomic;
pub use std::sync::atomic::Ordering;

/// Where another thread may be run.
fn step() {
    // Shuttle knows no time, and sleeping is a switch and nothing else. Yielding is not: a scheduler
    // takes it for a hint that this thread waits for others.
    shuttle::thread::sleep(std::time::Duration::ZERO);
}

/// As in the standard library.
pub fn fence(_: Ordering) {
    step();
}

macro_rules! atomic {
    ($name:ident $(<$generic:ident>)?, $value:ty, [$($update:ident),*]) => {
        /// As in the standard library.
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name$(<$generic>)?(atomic::$name$(<$generic>)?);

        impl$(<$generic>)? Default for $name$(<$generic>)? {
            fn default() -> Self {
                Self(Default::default())
            }
        }

        #[allow(missing_docs, reason = "as in the standard library")]
        impl$(<$generic>)? $name$(<$generic>)? {
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub fn load(&self, _: Ordering) -> $value {
                step();
                self.0.load(Ordering::SeqCst)
            }

            pub fn store(&self, value: $value, _: Ordering) {
                step();
                self.0.store(value, Ordering::SeqCst);
            }

            pub fn swap(&self, value: $value, _: Ordering) -> $value {
                step();
                self.0.swap(value, Ordering::SeqCst)
            }

            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                step();
                self.0.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
            }

            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            $(pub fn $update(&self, value: $value, _: Ordering) -> $value {
                step();
                self.0.$update(value, Ordering::SeqCst)
            })*
        }
    };
}

atomic!(AtomicU64, u64, [fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max, fetch_min]);
atomic!(AtomicU32, u32, [fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max, fetch_min]);
atomic!(AtomicU8, u8, [fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max, fetch_min]);
atomic!(AtomicUsize, usize, [fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max, fetch_min]);
atomic!(AtomicBool, bool, [fetch_and, fetch_or, fetch_xor]);
atomic!(AtomicPtr<T>, *mut T, []);
