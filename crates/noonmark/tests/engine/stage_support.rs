//! A host for one thread that plays all parts, and can act in the midst of an operation: where a rule is about to touch
//! a cell, or where a transaction has begun to wait.

use noonmark::{Builder, Database, Host, Protocol, Session, Table, TableOptions, Timestamp, Transaction};
use noonmark_core::{Access, Line};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Wake, Waker};

/// Where an operation is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// After so many touches of cells, before the next.
    Touch(usize),
    /// In the first wait.
    Wait,
    /// The same, and then it is too late to wait any longer.
    LastWait,
}

/// What is done there.
type Interruption = (At, Box<dyn FnOnce()>);

thread_local! {
    static INTERRUPTION: RefCell<Option<Interruption>> = const { RefCell::new(None) };
    static SWAPS: Cell<u64> = const { Cell::new(0) };
}

/// How often a rule of this thread has been about to read, modify and write.
pub fn swaps() -> u64 {
    SWAPS.get()
}

/// Runs `operation`, and `other` in the midst of it; if it does not come to that place, not at all.
pub fn interrupted<T>(at: At, other: impl FnOnce(), operation: impl FnOnce() -> T) -> T {
    /// Leaves nothing behind, also if a test fails.
    struct Disarm;
    impl Drop for Disarm {
        fn drop(&mut self) {
            INTERRUPTION.take();
        }
    }
    let other: Box<dyn FnOnce() + '_> = Box::new(other);
    // SAFETY: dropped, at the latest, when `disarm` is, and that is before what it borrows.
    let other: Box<dyn FnOnce()> = unsafe { std::mem::transmute(other) };
    let _disarm = Disarm;
    INTERRUPTION.set(Some((at, other)));
    operation()
}

/// Runs what was to be run here, once.
fn interrupt(here: impl FnOnce(&mut At) -> bool) -> bool {
    let other = INTERRUPTION.with_borrow_mut(|armed| {
        let is_here = armed.as_mut().is_some_and(|(at, _)| here(at));
        if is_here { armed.take() } else { None }
    });
    other.map(|(_, other)| other()).is_some()
}

/// A host for one thread that plays all parts. Whoever waits, and has not been woken by what was done
/// meanwhile, gives up: it would have slept for ever.
#[derive(Debug, Default)]
pub struct Stage(AtomicU64);

struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Host for Stage {
    type Label = noonmark_core::Unlabelled;

    fn touch<L: Into<Option<Line>>>(&self, _: impl Fn() -> L, access: Access) {
        SWAPS.set(SWAPS.get() + u64::from(access == Access::ReadModifyWrite));
        interrupt(|at| match at {
            At::Touch(0) => true,
            At::Touch(left) => {
                *left -= 1;
                false
            }
            At::Wait | At::LastWait => false,
        });
    }
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
    fn seed(&self) -> u64 {
        self.now_ns() | 1
    }
    fn spin(&self, _: u32) {}
    fn block_on<T>(&self, _: Option<u64>, mut poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
        let bell = Arc::new(Bell(AtomicBool::new(false)));
        let waker = Waker::from(bell.clone());
        loop {
            if let Poll::Ready(value) = poll(&waker) {
                return Some(value);
            }
            interrupt(|at| *at == At::Wait);
            let is_late = interrupt(|at| *at == At::LastWait);
            if is_late || !bell.0.swap(false, Ordering::SeqCst) {
                return None;
            }
        }
    }
    fn sleep_ns(&self, _: u64) {}
    fn caller_hint(&self) -> usize {
        0
    }
}

pub fn builder() -> Builder<Stage> {
    Database::builder().max_sessions(8).host(Stage::default())
}

pub fn sessions<const N: usize>(db: &Database<Stage>) -> [Session<Stage>; N] {
    std::array::from_fn(|_| db.session().unwrap())
}

pub fn table(db: &Database<Stage>, name: &str, protocol: Protocol) -> Table<u64, u64> {
    db.create_table(name, TableOptions::new().protocol(protocol)).unwrap()
}

pub fn commit_of(session: &mut Session<Stage>, write: impl FnOnce(&mut Transaction<'_, Stage>)) -> Timestamp {
    let mut tx = session.begin();
    write(&mut tx);
    tx.commit().unwrap().time
}
