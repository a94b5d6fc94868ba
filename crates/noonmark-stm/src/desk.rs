//! Desks: where attempts are made, one after another.
//!
//! Each slot of a memory has a desk, and whoever holds the slot works there: he logs what he reads, locks, overwrites,
//! allocates and frees, and when the attempt ends, clears the desk. Buffers stay, so that a transaction allocates nothing
//! once they have grown.
//!
//! Writes are made in place, and what was there before is logged: word by word, and only words that change. To undo is
//! to go through that log backwards. While an attempt runs, others may copy what it has written; they find its
//! lock, and throw the copy away.
//!
//! Memory that an attempt allocates is nobody else's until it commits: if it does not, the memory is freed. Memory that
//! it frees is freed only after it has committed *and* whoever might have found it before has ended: it is
//! retired to the epochs, together with what the next few transactions here free. So neither a transaction that is
//! doomed and does not know it, nor one that reads an older state, ever touches freed memory.
//!
//! What it does not do: it does not decide how an attempt ends, and it knows no lock.

use crate::control::{Conflict, Control};
use crate::lines::{Note, Noted, Object, Spot};
use crate::log::{Lent, Log};
use crate::plain::Plain;
use crate::planted::Bug;
use noonmark_core::sync::{AtomicU64, AtomicUsize, CachePadded, Ordering};
use noonmark_core::{Access, Epochs, Garbage, Host, Label, Limbo, Line, Old, SlotId, Threads};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;

/// How many blocks are retired at a time. (The model checkers are to see it happen.)
const RETIRED_TOGETHER: usize = if cfg!(any(loom, shuttle)) { 1 } else { 32 };

/// What all desks of a memory share.
pub struct Common<C: Control, H: Host = Threads> {
    pub host: H,
    pub shared: CachePadded<C::Shared>,
    /// The locks of objects that have none of their own; see [`crate::place`].
    pub table: Box<[C::Lock]>,
    /// How many objects have been numbered; see [`crate::lines`]. (The standard library's: it orders nothing.)
    numbered: std::sync::atomic::AtomicU64,
    #[cfg(feature = "planted-bugs")]
    pub bug: Option<Bug>,
}

impl<C: Control, H: Host> Common<C, H> {
    /// With a table of so many locks.
    pub fn new(host: H, table: usize) -> Self {
        Common {
            host,
            shared: CachePadded(Default::default()),
            table: (0..table).map(|_| Default::default()).collect(),
            numbered: Default::default(),
            #[cfg(feature = "planted-bugs")]
            bug: None,
        }
    }

    /// Broken on purpose, or not.
    #[cfg(feature = "planted-bugs")]
    pub fn plant(self, bug: Option<Bug>) -> Self {
        Common { bug, ..self }
    }

    /// The number of the object that carries this label: from 1 on.
    pub fn number_of(&self, label: &H::Label) -> u64 {
        label.number(|| self.draw_number())
    }

    fn draw_number(&self) -> u64 {
        self.numbered.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The object that carries this label, and begins with so many bytes and the label.
    pub fn object(&self, label: &H::Label, bytes_before: usize) -> Object {
        Object::new::<H>(label, bytes_before, || self.draw_number())
    }
}

/// Why an attempt will not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It met a conflict.
    Conflict(Conflict),
    /// It waits for a change of what it has read.
    Retry,
}

/// Memory, and how to free it.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pointer: NonNull<u8>,
    /// SAFETY: sound to call with the pointer, once, on any thread, when nobody refers to it.
    free: unsafe fn(*mut u8, usize),
}

impl Block {
    /// A value that was allocated by `Box::new` and given up by `Box::into_raw`.
    pub fn of_box<T: Send + 'static>(pointer: NonNull<T>) -> Self {
        /// # Safety
        /// The pointer is one that `Block::of_box` was given for a `T`; nobody refers to it, nor frees it again.
        unsafe fn free<T>(pointer: *mut u8, _: usize) {
            // SAFETY: made of a box, and freed once: see `Block::into_garbage`.
            drop(unsafe { Box::from_raw(pointer.cast::<T>()) });
        }
        Block { pointer: pointer.cast(), free: free::<T> }
    }

    /// Something to be freed, some day.
    ///
    /// # Safety
    /// It has been unlinked, or was never linked, and nobody else frees it.
    unsafe fn into_garbage(self) -> Garbage {
        // SAFETY: promised by the caller; any thread may free it, as the value is `Send`.
        unsafe { Garbage::new(self.pointer.as_ptr(), 0, self.free) }
    }
}

/// A word, and what was in it.
struct Overwritten<H: Host> {
    cell: Lent<AtomicU64>,
    before: u64,
    line: Note<H, Line>,
}

impl<H: Host> Clone for Overwritten<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Host> Copy for Overwritten<H> {}

/// How far the logs had come at some point of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    overwritten: usize,
    allocated: usize,
    freed: usize,
}

/// Counts that only the holder of the desk changes, and anybody may look at.
#[derive(Debug, Default)]
pub struct Counts {
    pub commits: Count,
    pub conflicts: [Count; Conflict::KINDS],
    pub cancels: Count,
    pub sleeps: Count,
    pub irrevocable: Count,
    /// The most attempts that one transaction took, of those that took more than one.
    pub attempts_max: Count,
}

/// One of them.
#[derive(Debug)]
pub struct Count(AtomicU64);

impl Default for Count {
    fn default() -> Self {
        Count(AtomicU64::new(0))
    }
}

impl Count {
    /// Adds one. Only the holder of the desk does, so two plain steps are enough.
    #[inline(always)]
    pub fn add_one(&self) {
        // Release: whoever reads what it is now finds who holds the desk ([`Desk::is_worked_by`]), or who did later.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Raises it to at least this.
    #[inline(always)]
    pub fn raise(&self, to: u64) {
        if self.get() < to {
            self.0.store(to, Ordering::Relaxed);
        }
    }

    /// What it is.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        // Acquire: see `add_one`.
        self.0.load(Ordering::Acquire)
    }

    /// Begins again at 0, whoever asks.
    pub fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// See the module's page.
pub struct Desk<C: Control, H: Host = Threads> {
    pub slot: SlotId,
    pub common: Arc<Common<C, H>>,
    /// What the control keeps of the attempt.
    pub local: C::Local,
    /// What it has read. Cleared between attempts, as all logs are.
    pub reads: Log<Noted<C::Read, H>>,
    /// What it has locked.
    pub held: Log<Noted<C::Held, H>>,
    /// Who works here, or was the last to: the host's hint, and 1; 0: nobody yet. Others look at it.
    worked_by: AtomicUsize,
    /// Whether the attempt under way is irrevocable. **Invariant**: between attempts it is not.
    is_irrevocable: Cell<bool>,
    /// Whether whoever works here sleeps if the next answer is *wait*, so that he must be woken.
    goes_to_sleep: Cell<bool>,
    /// Why the attempt under way will not commit, if that is known. **Invariant**: between attempts there is none.
    cause: Cell<Option<Cause>>,
    overwritten: Log<Overwritten<H>>,
    /// What the attempt has allocated: freed if it does not commit.
    allocated: Log<Block>,
    /// What a branch has allocated that was undone: freed, but not before the attempt ends, as the closure may still refer to
    /// it; unless it links it after all ([`Desk::keep`]).
    discarded: Log<Block>,
    /// What is to be freed: by transactions that have committed, and, if it commits, by the attempt under way. To retire something takes
    /// a fence, so it is done for some of them together.
    freed: Log<Block>,
    /// How many of those are there for good. **Invariant**: between attempts all are.
    freed_for_good: Cell<usize>,
    limbo: RefCell<Limbo>,
    /// What nobody refers to any more. It is freed when the transaction is over and has let go of all ([`Desk::take_due`]): to free it
    /// runs code of the users' (their `Drop`), which may run transactions, at other desks, and waits for whatever they need.
    due: Cell<Old>,
    /// How much that is.
    due_count: Cell<usize>,
    /// How often something has been put into a map or taken out here, or that has been undone.
    reshapings: Cell<u64>,
    /// Where the numbers that are drawn here have come to.
    random: Cell<u64>,
    pub counts: Counts,
}

// SAFETY: a desk is worked at by whoever holds its slot, who may move between threads. Blocks and garbage may be
// freed by any thread; the addresses in the other logs are used by whoever works here, during one attempt, which a
// handle that is not `Send` keeps on one thread.
unsafe impl<C: Control, H: Host> Send for Desk<C, H> {}

impl<C: Control, H: Host> Desk<C, H> {
    pub fn new(slot: SlotId, common: Arc<Common<C, H>>) -> Self {
        Desk {
            slot,
            common,
            local: C::local(slot),
            reads: Log::default(),
            held: Log::default(),
            worked_by: AtomicUsize::new(0),
            is_irrevocable: Cell::new(false),
            goes_to_sleep: Cell::new(false),
            cause: Cell::new(None),
            overwritten: Log::default(),
            allocated: Log::default(),
            discarded: Log::default(),
            freed: Log::default(),
            freed_for_good: Cell::new(0),
            limbo: RefCell::new(Limbo::new()),
            due: Cell::default(),
            due_count: Cell::new(0),
            reshapings: Cell::new(0),
            random: Cell::new(slot.index() as u64),
            counts: Counts::default(),
        }
    }

    /// Has it draw other numbers.
    pub fn with_seed(self, seed: u64) -> Self {
        self.random.set(seed);
        self
    }

    /// A random number, for structures that are balanced by chance and for whoever steps back. An attempt that is undone has drawn
    /// all the same.
    #[inline]
    pub fn random(&self) -> u64 {
        // SplitMix64.
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// What all transactions share, as the control wants it.
    #[inline(always)]
    pub fn shared(&self) -> &C::Shared {
        &self.common.shared.0
    }

    /// Who runs the attempts.
    #[inline(always)]
    pub fn host(&self) -> &H {
        &self.common.host
    }

    /// A line is about to be touched.
    #[inline(always)]
    pub fn touch(&self, line: Note<H, Line>, access: Access) {
        if let Some(line) = H::Label::look(line) {
            self.host().touch(|| line, access);
        }
    }

    /// The lines of a part of an object are about to be touched.
    #[inline(always)]
    pub fn touch_part<T>(&self, object: Note<H, Object>, part: &T, access: Access) {
        if let Some(object) = H::Label::look(object) {
            object.lines_of(part).for_each(|line| self.host().touch(|| line, access));
        }
    }

    /// An object has been made, of which this is the last part.
    #[inline(always)]
    pub fn touch_new<T>(&self, object: Note<H, Object>, last: &T) {
        if let Some(object) = H::Label::look(object) {
            object.lines_to(last).for_each(|line| self.host().touch(|| line, Access::Allocate));
        }
    }

    /// What a word of an object leads to is about to be touched.
    #[inline(always)]
    pub fn touch_behind<T>(&self, object: Note<H, Object>, word: &T, access: Access) {
        self.touch(H::Label::map(object, |object| object.line_behind(word)), access);
    }

    /// Logs a read.
    #[inline(always)]
    pub fn log_read(&self, lock: Spot<'_, C::Lock, H>, entry: C::Read) {
        self.reads.push(Noted { entry, line: lock.line() });
    }

    /// Logs a lock that was taken.
    #[inline(always)]
    pub fn log_held(&self, lock: Spot<'_, C::Lock, H>, entry: C::Held) {
        self.held.push(Noted { entry, line: lock.line() });
    }

    /// Whether this bug is planted.
    #[cfg(feature = "planted-bugs")]
    #[inline(always)]
    pub fn has_planted(&self, bug: Bug) -> bool {
        self.common.bug == Some(bug)
    }

    /// No bug is planted here.
    #[cfg(not(feature = "planted-bugs"))]
    #[inline(always)]
    pub fn has_planted(&self, _: Bug) -> bool {
        false
    }

    #[inline(always)]
    pub fn is_irrevocable(&self) -> bool {
        self.is_irrevocable.get()
    }

    /// Whether a rule that answers *wait* must see to it that the caller is woken.
    #[inline(always)]
    pub fn goes_to_sleep(&self) -> bool {
        self.goes_to_sleep.get()
    }

    /// Sets that for the rules that are asked from now on.
    pub fn set_goes_to_sleep(&self, goes_to_sleep: bool) {
        self.goes_to_sleep.set(goes_to_sleep);
    }

    /// An attempt begins.
    #[inline(always)]
    pub fn begin(&self, is_irrevocable: bool, caller: usize) {
        debug_assert!(self.reads.is_empty() && self.held.is_empty() && self.overwritten.is_empty());
        debug_assert!(!self.is_irrevocable.get() && self.cause.get().is_none());
        // Relaxed: who looks for itself is the one who wrote it.
        self.worked_by.store(caller + 1, Ordering::Relaxed);
        if is_irrevocable {
            self.is_irrevocable.set(true);
        }
    }

    /// An attempt ends that has logged nothing, and was not called off.
    #[inline(always)]
    pub fn leave(&self) {
        debug_assert!(self.reads.is_empty() && self.held.is_empty() && self.overwritten.is_empty());
        debug_assert!(self.allocated.is_empty() && self.discarded.is_empty());
        debug_assert!(self.freed.len() == self.freed_for_good.get());
        debug_assert!(!self.is_irrevocable.get() && self.cause.get().is_none());
    }

    /// Whether this caller is in the midst of an attempt here, if anybody is.
    pub fn is_worked_by(&self, caller: usize) -> bool {
        self.worked_by.load(Ordering::Relaxed) == caller + 1
    }

    /// The attempt under way will not commit. The first cause stays.
    #[cold]
    pub fn interrupt(&self, cause: Cause) {
        if self.cause.get().is_none() {
            self.cause.set(Some(cause));
        }
    }

    #[inline(always)]
    pub fn cause(&self) -> Option<Cause> {
        self.cause.get()
    }

    /// The attempt goes on after all: another branch is tried.
    pub fn resume(&self) {
        self.cause.set(None);
    }

    /// Writes a value in place, under a lock that the attempt holds.
    #[inline(always)]
    pub fn store<T: Plain>(&self, lock: Spot<'_, C::Lock, H>, cells: &T::Cells, words: T::Words) {
        T::store(cells, words, &mut |cell, word| {
            // Relaxed: under the lock; readers look at the word of the lock after they have copied.
            let before = cell.load(Ordering::Relaxed);
            if before != word {
                // SAFETY: whoever writes holds the cells for the lifetime of the attempt (`'tx`, see
                // `crate::transaction`), and this log is cleared before that ends.
                let cell_lent = unsafe { Lent::new(cell) };
                let line = H::Label::map(lock.object(), |object| object.line_of(cell));
                self.overwritten.push(Overwritten { cell: cell_lent, before, line });
                self.touch(line, Access::Write);
                cell.store(word, Ordering::Relaxed);
            }
        });
    }

    /// Something that was allocated and is nobody else's yet.
    pub fn allocated(&self, block: Block) {
        self.allocated.push(block);
    }

    /// Something is to be freed if the attempt commits.
    ///
    /// # Safety
    /// If the attempt commits, then nobody whose transaction begins later finds it, and nobody else frees it.
    pub unsafe fn freed(&self, block: Block) {
        self.freed.push(block);
    }

    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            overwritten: self.overwritten.len(),
            allocated: self.allocated.len(),
            freed: self.freed.len(),
        }
    }

    /// Something is put into a map, or taken out.
    #[inline(always)]
    pub fn reshapes(&self) {
        self.reshapings.set(self.reshapings.get() + 1);
    }

    /// As long as this stays the same, no map has another shape than before, for the attempt under way.
    #[inline(always)]
    pub fn reshapings(&self) -> u64 {
        self.reshapings.get()
    }

    /// Something that was allocated in a branch that was undone is about to be linked or freed all the same: it is as what has
    /// been allocated in this one.
    #[inline(always)]
    pub fn keep<T>(&self, what: NonNull<T>) {
        if !self.discarded.is_empty() {
            self.take_back(what.cast());
        }
    }

    #[cold]
    #[inline(never)]
    fn take_back(&self, pointer: NonNull<u8>) {
        let discarded: Vec<Block> = self.discarded.iter().collect();
        self.discarded.clear();
        for block in discarded {
            let log = if block.pointer == pointer { &self.allocated } else { &self.discarded };
            log.push(block);
        }
    }

    /// Undoes all since then; what was locked stays locked, and what was read stays read.
    pub fn undo_to(&self, savepoint: Savepoint) {
        self.reshapes();
        while self.overwritten.len() > savepoint.overwritten {
            let Some(Overwritten { cell, before, line }) = self.overwritten.pop() else { break };
            self.touch(line, Access::Write);
            cell.store(before, Ordering::Relaxed);
        }
        while self.allocated.len() > savepoint.allocated {
            let Some(block) = self.allocated.pop() else { break };
            self.discarded.push(block);
        }
        self.freed.truncate(savepoint.freed);
    }

    /// Undoes all that the attempt has done.
    pub fn undo(&self) {
        self.undo_to(Savepoint { overwritten: 0, allocated: 0, freed: self.freed_for_good.get() });
    }

    /// The attempt has let go of its locks: clears the desk. The slot is unpinned, and the closure is over.
    #[inline(always)]
    pub fn settle(&self, is_committed: bool, epochs: &Epochs) {
        self.is_irrevocable.set(false);
        self.reads.clear();
        self.held.clear();
        self.overwritten.clear();
        if is_committed {
            debug_assert!(self.cause.get().is_none(), "what has been interrupted does not commit");
            self.allocated.clear();
        } else {
            self.cause.set(None);
        }
        debug_assert!(self.allocated.is_empty(), "what is undone is discarded");
        if !self.discarded.is_empty() {
            self.discard();
        }
        // (If it was undone, what it has freed is not.)
        self.freed_for_good.set(self.freed.len());
        if self.freed.len() >= RETIRED_TOGETHER {
            self.retire(epochs);
        }
    }

    /// What an attempt has allocated that was undone is due: the closure is over.
    #[cold]
    #[inline(never)]
    fn discard(&self) {
        let mut due = self.due.take();
        while let Some(block) = self.discarded.pop() {
            // SAFETY: allocated by this attempt and never committed: others may have copied its address, but not
            // followed it, as the copy did not stand. The closure, which could, is over.
            unsafe { due.push(block.into_garbage()) };
        }
        self.put_off(due);
    }

    /// Retires what has been freed for good: no attempt is under way.
    #[cold]
    #[inline(never)]
    fn retire(&self, epochs: &Epochs) {
        let mut due = self.due.take();
        self.freed_for_good.set(0);
        self.limbo.borrow_mut().retire_for_later(
            epochs,
            std::iter::from_fn(|| {
                let block = self.freed.pop()?;
                // SAFETY: promised at `freed`; the transaction has committed and let go: what others freed is not in the log.
                Some(unsafe { block.into_garbage() })
            }),
            &mut due,
        );
        self.put_off(due);
    }

    /// What is old enough is due.
    pub fn collect(&self, epochs: &Epochs) {
        self.retire(epochs);
        let mut due = self.due.take();
        self.limbo.borrow_mut().collect_for_later(epochs, &mut due);
        self.put_off(due);
    }

    fn put_off(&self, due: Old) {
        self.due_count.set(due.len());
        self.due.set(due);
    }

    /// How much is to be freed when the transaction is over.
    #[inline(always)]
    pub fn due_count(&self) -> usize {
        self.due_count.get()
    }

    /// What is to be freed, by whoever holds nothing any more.
    pub fn take_due(&self) -> Old {
        self.due_count.set(0);
        self.due.take()
    }

    /// How much waits to be freed.
    pub fn garbage(&self) -> usize {
        self.limbo.borrow().len() + self.freed_for_good.get()
    }

    /// Leaves what waits to be freed to others.
    pub fn abandon(&self, epochs: &Epochs) {
        self.retire(epochs);
        self.limbo.borrow_mut().abandon(epochs);
    }
}
