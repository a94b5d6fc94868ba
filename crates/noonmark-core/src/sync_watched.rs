//! The mutex for a thread sanitizer (`--cfg thread_sanitizer`) that does not see into the standard library.
//!
//! Where the library is not built with the sanitizer, it sees the standard mutex taken only where that is done by code that is
//! compiled with ours: at the first try. Whoever waits takes it by the library's own code, unseen, and what he then does would be
//! reported as a race with what was done before. So here nobody waits in the library: he tries again.

use std::sync::{LockResult, MutexGuard, TryLockError};

/// A standard mutex that is tried until it is had.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A mutex that nobody holds.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Takes it.
    ///
    /// # Errors
    /// As the standard one does, if somebody panicked while he held it.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.0.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
    }

    /// Takes it, if nobody holds it.
    ///
    /// # Errors
    /// As the standard one does.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError<MutexGuard<'_, T>>> {
        self.0.try_lock()
    }

    /// What is in it.
    ///
    /// # Errors
    /// As [`Mutex::lock`].
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    /// What was in it.
    ///
    /// # Errors
    /// As [`Mutex::lock`].
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}
