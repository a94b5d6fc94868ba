//! When memory that was unlinked may be freed: epochs.
//!
//! A transaction *pins* its slot to the current epoch while it may hold pointers to records, nodes
//! or versions. What is unlinked is *retired* with the epoch of that moment, and freed once the
//! global epoch is two ahead: the epoch only advances when every pinned slot has seen the current
//! one, so by then no transaction is left that could have found it.
//!
//! Why two, and why that is enough. Say a reader is pinned, and finds something that is retired at
//! epoch `e`. Its fence then comes before the retirer's, or it would have seen that the thing was
//! unlinked. An attempt to advance that did not see the pin had its own fence before the reader's,
//! hence before the retirer's, so that it began at most at `e`: it may bring the epoch to `e + 1`. An
//! attempt that did see the pin goes through only at the epoch of the pin, which the reader read
//! before its fence, so at most `e`: again `e + 1`. The epoch does not reach `e + 2` until the reader
//! lets go. (The pin may be stale: the epoch can move on between the pin's two steps. That only keeps
//! the epoch from moving further.)
//!
//! Slots, not threads, are pinned: a session may move between threads, and simulated workers share
//! one. A transaction that stays open keeps everything that was retired since; that is the price of
//! reading without locks.
//!
//! Pinning and unpinning costs one full barrier, 7 ns where a memory access in cache costs 1 (x86-64;
//! a swap instead of store and fence costs the same, and orders less on other machines). A commit
//! takes a hundred times that.
//!
//! What it does not do: it does not find out by itself that something is unlinked, it counts no
//! references, and it does not bound what a transaction that stays open holds back.

use crate::sync::{AtomicU64, CachePadded, Mutex, Ordering, fence};
use crate::time::SlotId;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;

/// Not pinned.
const FREE: u64 = 0;
/// How many retirements lie between two attempts to advance the epoch and free.
#[cfg(not(shuttle))]
const COLLECT_EVERY: usize = 64;
/// Under shuttle few transactions run: free often enough to be seen.
#[cfg(shuttle)]
const COLLECT_EVERY: usize = 2;

/// Something unlinked, and how to free it.
#[derive(Debug)]
pub struct Garbage {
    pointer: *mut u8,
    argument: usize,
    /// SAFETY: sound to call with the two above, once, on any thread, when nobody refers to what is freed: see
    /// [`Garbage::new`].
    free: unsafe fn(*mut u8, usize),
}

// SAFETY: whoever makes garbage promises (see `Garbage::new`) that any thread may free it.
unsafe impl Send for Garbage {}

impl Garbage {
    /// Garbage that `free(pointer, argument)` frees.
    ///
    /// # Safety
    /// The call must be sound once, on any thread, when nobody refers to `pointer` any more. Whoever
    /// hands it to [`Limbo::retire`] must have unlinked what it frees before, so that it cannot be
    /// found any more, and hand it to a limbo that goes with the epochs that its readers pin.
    pub unsafe fn new(pointer: *mut u8, argument: usize, free: unsafe fn(*mut u8, usize)) -> Self {
        Garbage { pointer, argument, free }
    }

    fn free(self) {
        // SAFETY: promised at `new`; called once as `self` is consumed, and only after the grace
        // period or when the collector itself is dropped.
        unsafe { (self.free)(self.pointer, self.argument) }
    }
}

/// The epochs of one database.
#[derive(Debug)]
pub struct Epochs {
    global: CachePadded<AtomicU64>,
    /// The epoch that each slot is pinned to, or [`FREE`].
    pinned: Box<[CachePadded<AtomicU64>]>,
    orphans: Mutex<Orphans>,
}

/// What sessions that ended left behind.
#[derive(Debug, Default)]
struct Orphans {
    /// With the epochs in which it was retired, in no order.
    garbage: Vec<(u64, Garbage)>,
    /// The last epoch in which it was looked through: before the next one, not again.
    looked_in: u64,
    /// What was left since somebody who left tried to advance the epoch.
    since_advance: usize,
}

impl Orphans {
    /// Takes out what may be freed in this epoch.
    fn take_old(&mut self, now: u64) -> Vec<(u64, Garbage)> {
        if now <= self.looked_in {
            return Vec::new();
        }
        self.looked_in = now;
        let old = self.garbage.extract_if(.., |(epoch, _)| *epoch + 2 <= now).collect();
        if self.garbage.capacity() > room_for(self.garbage.len()) {
            self.garbage.shrink_to(self.garbage.len());
        }
        old
    }
}

/// The most room that a buffer of so many entries keeps: what waits to be freed is now and then much, when somebody
/// who is pinned is put aside, and should not take memory for ever.
pub const fn room_for(entries: usize) -> usize {
    entries * 8 + 1024
}

impl Epochs {
    /// For this many slots.
    pub fn new(slots: usize) -> Self {
        Epochs {
            global: CachePadded(AtomicU64::new(1)),
            pinned: (0..slots).map(|_| CachePadded(AtomicU64::new(FREE))).collect(),
            orphans: Mutex::new(Orphans::default()),
        }
    }

    /// Pins the slot: what it finds from now on stays readable until [`Epochs::unpin`].
    ///
    /// Not for a slot that is pinned: what it found before would no longer be protected.
    #[inline]
    pub fn pin(&self, slot: SlotId) {
        self.peg(slot).pin();
    }

    /// Where a slot is pinned, for whoever does it again and again.
    #[inline]
    pub fn peg(&self, slot: SlotId) -> Peg<'_> {
        Peg { global: &self.global, pinned: &self.pinned[slot.index()] }
    }

    /// Whether the slot is pinned.
    pub fn is_pinned(&self, slot: SlotId) -> bool {
        self.pinned[slot.index()].load(Ordering::Relaxed) != FREE
    }

    /// Lets go. *Release*: all reads under the pin come before.
    #[inline]
    pub fn unpin(&self, slot: SlotId) {
        self.peg(slot).unpin();
    }

    /// The current epoch.
    pub fn current(&self) -> u64 {
        self.global.load(Ordering::Relaxed)
    }

    /// Advances the epoch if every pinned slot has seen the current one.
    fn try_advance(&self) -> u64 {
        // Acquire: what allowed the epoch to come this far comes before what we free on the strength
        // of it, even if we advance it no further ourselves.
        let epoch = self.global.load(Ordering::Acquire);
        // Pairs with the fence in `pin`: a pin that we do not see below loads its pointers after
        // everything that was unlinked before this.
        fence(Ordering::SeqCst);
        for slot in &self.pinned {
            // Acquire: reads under a pin that has ended come before what we free.
            let pinned = slot.load(Ordering::Acquire);
            if pinned != FREE && pinned != epoch {
                return epoch;
            }
        }
        // Release, and acquire on failure: an epoch seen implies what allowed it.
        match self.global.compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => epoch + 1,
            Err(now) => now,
        }
    }
}

/// Where one slot is pinned: what [`Epochs::pin`] and [`Epochs::unpin`] do, without looking for the slot each time.
#[derive(Clone, Copy, Debug)]
pub struct Peg<'a> {
    global: &'a AtomicU64,
    pinned: &'a AtomicU64,
}

impl Peg<'_> {
    /// See [`Epochs::pin`].
    #[inline(always)]
    pub fn pin(self) {
        debug_assert!(
            self.pinned.load(Ordering::Relaxed) == FREE,
            "a pinned slot must be unpinned before it is pinned anew"
        );
        let epoch = self.global.load(Ordering::Relaxed);
        // Release: who sees this pin sees that reads under an earlier pin of the slot are over, as if
        // it had seen the unpinning. The pin must be visible to whoever advances the epoch before
        // any pointer is loaded: that is the fence.
        self.pinned.store(epoch, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// See [`Epochs::unpin`].
    #[inline(always)]
    pub fn unpin(self) {
        self.pinned.store(FREE, Ordering::Release);
    }
}

impl Drop for Epochs {
    fn drop(&mut self) {
        let orphans = self.orphans.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (_, garbage) in orphans.garbage.drain(..) {
            garbage.free();
        }
    }
}

/// What one session has retired and not yet freed.
#[derive(Debug, Default)]
pub struct Limbo {
    /// Oldest first; epochs never decrease, and none is earlier than that in which its garbage was
    /// unlinked.
    retired: VecDeque<(u64, Garbage)>,
    since_collect: usize,
}

impl Limbo {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much waits to be freed.
    pub fn len(&self) -> usize {
        self.retired.len()
    }

    /// Whether nothing waits to be freed.
    pub fn is_empty(&self) -> bool {
        self.retired.is_empty()
    }

    /// Retires something that has just been unlinked: no transaction that pins from now on can find
    /// it. Now and then frees what is old enough.
    pub fn retire(&mut self, epochs: &Epochs, garbage: Garbage) {
        self.retire_all(epochs, std::iter::once(garbage));
    }

    /// As [`Limbo::retire`], of all that has just been unlinked.
    #[inline]
    pub fn retire_all(&mut self, epochs: &Epochs, garbage: impl Iterator<Item = Garbage>) {
        if self.put_in(epochs, garbage) {
            self.collect(epochs);
        }
    }

    /// As [`Limbo::retire_all`], and frees nothing: now and then leaves what is old enough with what is to be freed.
    pub fn retire_for_later(
        &mut self,
        epochs: &Epochs,
        garbage: impl Iterator<Item = Garbage>,
        old: &mut Old,
    ) {
        if self.put_in(epochs, garbage) {
            self.collect_for_later(epochs, old);
        }
    }

    /// Whether it is time to collect.
    #[inline]
    fn put_in(&mut self, epochs: &Epochs, garbage: impl Iterator<Item = Garbage>) -> bool {
        // The unlinking comes before the epoch is read, also for other threads.
        fence(Ordering::SeqCst);
        let epoch = epochs.global.load(Ordering::Relaxed);
        let before = self.retired.len();
        self.retired.extend(garbage.map(|garbage| (epoch, garbage)));
        self.since_collect += self.retired.len() - before;
        self.since_collect >= COLLECT_EVERY
    }

    /// Frees what is old enough, also of what ended sessions left.
    pub fn collect(&mut self, epochs: &Epochs) {
        self.take_out_old(epochs, Garbage::free);
    }

    /// As [`Limbo::collect`], and frees nothing: leaves it with what is to be freed.
    pub fn collect_for_later(&mut self, epochs: &Epochs, old: &mut Old) {
        self.take_out_old(epochs, |garbage| old.0.push(garbage));
    }

    fn take_out_old(&mut self, epochs: &Epochs, mut then: impl FnMut(Garbage)) {
        self.since_collect = 0;
        let now = epochs.try_advance();
        // What was left keeps the epochs in which it was retired: a younger one would hold it up, for ever
        // if sessions end as fast as the epoch moves. The lock orders its retirement before this.
        let old = match epochs.orphans.try_lock() {
            Ok(mut orphans) => orphans.take_old(now),
            Err(_) => Vec::new(),
        };
        for (_, garbage) in old {
            then(garbage);
        }
        while self.retired.front().is_some_and(|(epoch, _)| epoch + 2 <= now) {
            if let Some((_, garbage)) = self.retired.pop_front() {
                then(garbage);
            }
        }
        if self.retired.capacity() > room_for(self.retired.len()) {
            self.retired.shrink_to(self.retired.len());
        }
    }

    /// Leaves everything to other sessions, or to the end of the database. Now and then frees what others have
    /// left: there may be no session that lasts for long.
    pub fn abandon(&mut self, epochs: &Epochs) {
        if self.retired.is_empty() {
            return;
        }
        let mut orphans = epochs.orphans.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        orphans.since_advance += self.retired.len();
        orphans.garbage.extend(self.retired.drain(..));
        if orphans.since_advance >= COLLECT_EVERY {
            orphans.since_advance = 0;
            let old = orphans.take_old(epochs.try_advance());
            drop(orphans);
            for (_, garbage) in old {
                garbage.free();
            }
        }
    }
}

/// What nobody refers to any more, and is still to be freed, by whoever has nothing that it might want: to free it may run code of
/// the users' (their `Drop`). Dropping it frees it: all, also if freeing some of it panics, with the first of these panics.
#[derive(Debug, Default)]
pub struct Old(Vec<Garbage>);

impl Old {
    /// How much there is.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds something.
    ///
    /// # Safety
    /// Nobody refers to it any more.
    pub unsafe fn push(&mut self, garbage: Garbage) {
        self.0.push(garbage);
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        let mut panicked = None;
        for garbage in self.0.drain(..) {
            // Nothing of this one's is left half done by a panic.
            if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| garbage.free())) {
                panicked.get_or_insert(panic);
            }
        }
        if let Some(panic) = panicked
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Limbo {
    fn drop(&mut self) {
        debug_assert!(
            self.retired.is_empty() || std::thread::panicking(),
            "a limbo must be abandoned to its epochs before it is dropped"
        );
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    /// Garbage that counts when it is freed.
    fn counted(freed: &Arc<AtomicUsize>) -> Garbage {
        // SAFETY: to be called once, with what `Garbage::new` is given below.
        unsafe fn free(pointer: *mut u8, argument: usize) {
            // SAFETY: the pointer was made of an `Arc` below, and this is called once.
            let freed = unsafe { Arc::from_raw(pointer.cast_const().cast::<AtomicUsize>()) };
            freed.fetch_add(argument, Ordering::Relaxed);
        }
        let pointer = Arc::into_raw(freed.clone()).cast_mut().cast();
        // SAFETY: the pointer owns a count of the `Arc`, which any thread may drop.
        unsafe { Garbage::new(pointer, 1, free) }
    }

    fn slot(index: usize) -> SlotId {
        SlotId::new(index).unwrap()
    }

    #[test]
    fn garbage_waits_for_two_epochs_and_for_pins() {
        let freed = Arc::new(AtomicUsize::new(0));
        let count = || freed.load(Ordering::Relaxed);
        let (epochs, mut limbo) = (Epochs::new(2), Limbo::new());
        epochs.pin(slot(1));
        assert!(epochs.is_pinned(slot(1)) && !epochs.is_pinned(slot(0)));
        limbo.retire(&epochs, counted(&freed));
        for _ in 0..5 {
            limbo.collect(&epochs);
        }
        assert_eq!((epochs.current(), limbo.len(), count()), (2, 1, 0), "one step ahead of the pin");
        epochs.unpin(slot(1));
        epochs.pin(slot(1));
        limbo.collect(&epochs);
        assert_eq!((epochs.current(), limbo.is_empty(), count()), (3, true, 1), "a later pin saw no more");
        epochs.unpin(slot(1));
    }

    #[test]
    fn what_is_retired_together_waits_together() {
        let freed = Arc::new(AtomicUsize::new(0));
        let count = || freed.load(Ordering::Relaxed);
        let (epochs, mut limbo) = (Epochs::new(2), Limbo::new());
        let peg = epochs.peg(slot(1));
        peg.pin();
        assert!(epochs.is_pinned(slot(1)));
        limbo.retire_all(&epochs, (0..3).map(|_| counted(&freed)));
        limbo.retire_all(&epochs, std::iter::empty());
        (0..5).for_each(|_| limbo.collect(&epochs));
        assert_eq!((limbo.len(), count()), (3, 0));
        peg.unpin();
        (0..2).for_each(|_| limbo.collect(&epochs));
        assert_eq!((limbo.len(), count()), (0, 3));
        // Many at a time are as many times one.
        let mut most = 0;
        for _ in 0..20 {
            limbo.retire_all(&epochs, (0..COLLECT_EVERY).map(|_| counted(&freed)));
            most = most.max(limbo.len());
        }
        assert!(most <= 3 * COLLECT_EVERY, "{most} wait to be freed");
        (0..2).for_each(|_| limbo.collect(&epochs));
        assert_eq!(count(), 3 + 20 * COLLECT_EVERY);
    }

    #[test]
    fn what_was_once_much_gives_its_room_back() {
        let freed = Arc::new(AtomicUsize::new(0));
        let (epochs, mut limbo, mut other) = (Epochs::new(2), Limbo::new(), Limbo::new());
        let much = 20_000;
        epochs.pin(slot(1));
        for _ in 0..much {
            limbo.retire(&epochs, counted(&freed));
            other.retire(&epochs, counted(&freed));
        }
        other.abandon(&epochs);
        let room =
            |limbo: &Limbo| (limbo.retired.capacity(), epochs.orphans.lock().unwrap().garbage.capacity());
        assert!(room(&limbo).0 >= much && room(&limbo).1 >= much);
        epochs.unpin(slot(1));
        (0..3).for_each(|_| limbo.collect(&epochs));
        assert_eq!(freed.load(Ordering::Relaxed), 2 * much);
        assert!(room(&limbo).0 <= room_for(0) && room(&limbo).1 <= room_for(0), "{:?}", room(&limbo));
    }

    #[test]
    fn retiring_frees_as_it_goes() {
        let freed = Arc::new(AtomicUsize::new(0));
        let (epochs, mut limbo) = (Epochs::new(4), Limbo::new());
        for i in 0..100 * COLLECT_EVERY {
            epochs.pin(slot(i % 4));
            limbo.retire(&epochs, counted(&freed));
            epochs.unpin(slot(i % 4));
            assert!(limbo.len() <= 4 * COLLECT_EVERY);
        }
        limbo.abandon(&epochs);
        assert!(limbo.is_empty());
        drop(epochs);
        assert_eq!(freed.load(Ordering::Relaxed), 100 * COLLECT_EVERY, "each once");
        assert_eq!(Arc::strong_count(&freed), 1);
    }

    #[test]
    fn orphans_are_taken_over() {
        let freed = Arc::new(AtomicUsize::new(0));
        let (epochs, mut ended, mut limbo) = (Epochs::new(1), Limbo::new(), Limbo::new());
        ended.retire(&epochs, counted(&freed));
        ended.abandon(&epochs);
        limbo.collect(&epochs);
        assert_eq!(freed.load(Ordering::Relaxed), 0);
        limbo.collect(&epochs);
        assert_eq!(freed.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn those_who_leave_free_what_others_left() {
        let freed = Arc::new(AtomicUsize::new(0));
        let epochs = Epochs::new(1);
        const LEFT: usize = 100 * COLLECT_EVERY;
        let leave = || {
            let mut limbo = Limbo::new();
            limbo.retire(&epochs, counted(&freed));
            limbo.abandon(&epochs);
        };
        (0..LEFT).for_each(|_| leave());
        let held = LEFT - freed.load(Ordering::Relaxed);
        assert!(held <= 4 * COLLECT_EVERY, "{held} wait to be freed");
        // What cannot be freed is kept.
        epochs.pin(slot(0));
        let before = freed.load(Ordering::Relaxed);
        (0..LEFT).for_each(|_| leave());
        assert!(freed.load(Ordering::Relaxed) - before <= 4 * COLLECT_EVERY);
        epochs.unpin(slot(0));
        (0..3 * LEFT).for_each(|_| leave());
        let held = 5 * LEFT - freed.load(Ordering::Relaxed);
        assert!(held <= 4 * COLLECT_EVERY, "{held} wait to be freed");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "must be unpinned")]
    fn a_pin_does_not_replace_a_pin() {
        let epochs = Epochs::new(1);
        epochs.pin(slot(0));
        epochs.pin(slot(0));
    }
}
