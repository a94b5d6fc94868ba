//! Transactions and threads of which the closures are borrowed as `dyn`.
//!
//! What runs a transaction is compiled for each closure, twice, as its first attempt is straight code; and much of the standard library
//! is for each closure that a thread is spawned with. In tests of many types under each control that took longer than all else. Here
//! it is compiled once for each world and type of answer.
//!
//! What it does not do: it tests no transaction as users write it. `basics.rs` and `threads.rs` do.

use noonmark_stm::{Interrupted, Session, Snapshot, Tx, World};

/// Transactions of closures of which the driver is to know nothing but what they answer.
pub(crate) trait Run: World {
    /// As [`World::atomically`].
    fn run<'env, T>(body: &mut dyn for<'tx> FnMut(Tx<'tx, 'env, Self>) -> Result<T, Interrupted>) -> T {
        Self::atomically(body)
    }

    /// As [`World::try_atomically`].
    ///
    /// # Errors
    /// The closure's own.
    fn try_run<'env, T, E: From<Interrupted>>(
        body: &mut dyn for<'tx> FnMut(Tx<'tx, 'env, Self>) -> Result<T, E>,
    ) -> Result<T, E> {
        Self::try_atomically(body)
    }

    /// As [`World::view`].
    fn look<'env, T>(
        body: &mut dyn for<'tx> FnMut(Snapshot<'tx, 'env, Self>) -> Result<T, Interrupted>,
    ) -> T {
        Self::view(body)
    }
}

impl<W: World> Run for W {}

/// The same at a desk of one's own.
pub(crate) trait RunHere<W: World> {
    /// As [`Session::atomically`].
    fn run<'env, T>(
        &mut self,
        body: &mut dyn for<'tx> FnMut(Tx<'tx, 'env, W>) -> Result<T, Interrupted>,
    ) -> T;

    /// As [`Session::view`].
    fn look<'env, T>(
        &mut self,
        body: &mut dyn for<'tx> FnMut(Snapshot<'tx, 'env, W>) -> Result<T, Interrupted>,
    ) -> T;
}

impl<W: World> RunHere<W> for Session<W> {
    fn run<'env, T>(
        &mut self,
        body: &mut dyn for<'tx> FnMut(Tx<'tx, 'env, W>) -> Result<T, Interrupted>,
    ) -> T {
        self.atomically(body)
    }

    fn look<'env, T>(
        &mut self,
        body: &mut dyn for<'tx> FnMut(Snapshot<'tx, 'env, W>) -> Result<T, Interrupted>,
    ) -> T {
        self.view(body)
    }
}

/// Runs on so many threads, which are numbered.
pub(crate) fn on_threads(count: u64, run: &(dyn Fn(u64) + Sync)) {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
