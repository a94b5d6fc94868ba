//! Who runs the rules.
//!
//! A host gives the rules what they may not take from the system: time, randomness, and waiting.
//! And the rules tell it what a simulator must know: which logical cache line they are about to
//! touch, and how. [`Threads`], the default, runs transactions on the threads that call them; its
//! [`Host::touch`] is empty and vanishes when compiled (`scripts/host-costs-nothing` compares the
//! instructions).
//!
//! What it does not do: a host knows no protocol and no record, and it decides nothing but *when*. A
//! rule that is asked again by another host answers the same.

use crate::label::{Label, Unlabelled};
use crate::sync::thread;
use std::task::{Poll, Waker};

/// How a line is about to be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loaded.
    Read,
    /// Stored to.
    Write,
    /// Read, modified and written in one atomic step.
    ReadModifyWrite,
    /// Made anew.
    Allocate,
}

/// What is about to be computed, beside the lines that are touched for it: for a simulator, which has a price for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// An attempt begins, and will end.
    Attempt,
    /// A key is looked for in an index.
    Lookup,
    /// Something is read, or got ready to be written.
    Operation,
    /// Something that was read or written is seen to when the transaction commits.
    Commit,
    /// As `Attempt`, in transactional memory, whose steps are shorter.
    MemoryAttempt,
    /// Something is read there by a transaction that only reads.
    MemoryRead,
    /// Something is read there, and logged, and looked at once more when the transaction commits.
    MemoryLoggedRead,
    /// Something is locked there and written, and let go of.
    MemoryWrite,
    /// A node is made there, or freed.
    MemoryNode,
}

/// A logical cache line: never an address, so that a simulated run is the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// Which structure: a table's records, its index, the clock, the gate...
    pub space: u32,
    /// Which of its lines.
    pub line: u64,
}

/// A host of transactions.
pub trait Host: Send + Sync + 'static {
    /// What variables and nodes carry so that this host can be told of their lines: [`Numbered`](crate::Numbered), or nothing.
    type Label: Label;

    /// Whether a transaction that would have to wait, or to look again soon, is told so instead: who runs it asks again, once the
    /// one that was in the way has ended. For a host on which nobody else moves meanwhile.
    const DEFERS: bool = false;

    /// A rule is about to touch a line; `None`: none that a host knows of. Nothing on threads; the line is not even worked out. Another host works it out, and
    /// lets others go on that are to go first; where lines have prices it may do neither for `None`.
    #[inline(always)]
    fn touch<L: Into<Option<Line>>>(&self, line: impl Fn() -> L, access: Access) {
        let _ = (line, access);
    }

    /// Something is about to be computed. Nothing on threads.
    #[inline(always)]
    fn work(&self, work: Work) {
        let _ = work;
    }

    /// Something has happened to whoever runs that a person would want to read who follows the run: in words, which are worked out only by
    /// a host that keeps them. Nothing on threads.
    #[inline(always)]
    fn tell(&self, what: impl FnOnce() -> String) {
        let _ = what;
    }

    /// Nanoseconds since the host began; never goes back.
    fn now_ns(&self) -> u64;

    /// A number to seed a generator with; different at each call.
    fn seed(&self) -> u64;

    /// One turn of a bounded spin, the `turn`th since it began (from 0).
    fn spin(&self, turn: u32);

    /// A turn of a bounded spin that ends before the `end`th, and as many more, if the host knows that whoever spins would look in
    /// vain after each: the turn to which he has come, a later one. He may look, between two turns, at nothing that others change but
    /// what he tells the host of ([`Host::touch`]); who looks at more says `turn + 1`.
    #[inline]
    fn spin_on(&self, turn: u32, end: u32) -> u32 {
        let _ = end;
        self.spin(turn);
        turn + 1
    }

    /// Polls until ready, sleeping in between until the waker given to `poll` is woken. `None` once
    /// `deadline_ns` (in terms of [`Host::now_ns`]) has passed; `poll` has said *pending* since.
    ///
    /// It may poll without having been woken. After `None` the waker may still lie where `poll` left
    /// it: the caller takes it back.
    fn block_on<T>(&self, deadline_ns: Option<u64>, poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T>;

    /// Whether it comes to an end, so that nobody may be left for whom to wait: to whoever waits each deadline has passed. Never, on threads.
    fn is_over(&self) -> bool {
        false
    }

    /// Sleeps for about this long.
    fn sleep_ns(&self, duration_ns: u64);

    /// A small number: the same for the same caller as long as it does not move to another thread, and not
    /// that of another who runs at the same time. To look for a free slot from, and to know whether a
    /// transaction begins in the midst of another of the same caller.
    fn caller_hint(&self) -> usize;
}

/// Transactions run on the threads that call them.
#[derive(Debug)]
pub struct Threads {
    #[cfg(not(shuttle))]
    began: std::time::Instant,
    /// How often somebody has looked at the clock.
    #[cfg(shuttle)]
    looks: std::sync::atomic::AtomicU64,
    seeds: std::sync::atomic::AtomicU64,
}

impl Default for Threads {
    fn default() -> Self {
        Self::with_seed(0x6e6f_6f6e_6d61_726b)
    }
}

impl Threads {
    /// Seeds are derived from this one. Which thread draws which is up to the system.
    #[expect(clippy::disallowed_methods, reason = "this is the host that is made of the system")]
    pub fn with_seed(seed: u64) -> Self {
        Threads {
            #[cfg(not(shuttle))]
            began: std::time::Instant::now(),
            #[cfg(shuttle)]
            looks: std::sync::atomic::AtomicU64::new(0),
            seeds: std::sync::atomic::AtomicU64::new(seed),
        }
    }
}

/// Wakes a thread that parks.
struct ThreadWaker(thread::Thread);

impl std::task::Wake for ThreadWaker {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the host that is made of the system")]
impl Host for Threads {
    type Label = Unlabelled;

    #[cfg(not(shuttle))]
    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Shuttle knows no time, and a schedule must repeat: each look takes a microsecond.
    #[cfg(shuttle)]
    fn now_ns(&self) -> u64 {
        self.looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) * 1_000
    }

    fn seed(&self) -> u64 {
        // SplitMix64's step and finish. Relaxed: only distinctness matters.
        let mut z = self
            .seeds
            .fetch_add(0x9e37_79b9_7f4a_7c15, std::sync::atomic::Ordering::Relaxed)
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    #[inline]
    fn spin(&self, turn: u32) {
        // The holder may have lost its core: give ours away now and then, or on few cores nothing
        // moves until the next preemption.
        if turn % 64 == 63 {
            thread::yield_now();
        } else {
            crate::sync::spin_loop();
        }
    }

    fn block_on<T>(&self, deadline_ns: Option<u64>, mut poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
        let waker = Waker::from(std::sync::Arc::new(ThreadWaker(thread::current())));
        #[cfg(shuttle)]
        let mut has_parked = false;
        loop {
            // Before the poll, so that the last poll comes after the deadline.
            let now_ns = deadline_ns.map(|_| self.now_ns());
            if let Poll::Ready(value) = poll(&waker) {
                return Some(value);
            }
            // Shuttle has threads return from parking though nobody has unparked them, one of them again and again if it comes
            // before all others: those could be whom it waits for.
            #[cfg(shuttle)]
            if std::mem::replace(&mut has_parked, true) {
                thread::yield_now();
            }
            // An unparking that came since the poll makes the parking return at once, and so may one
            // that was meant for an earlier wait of this thread.
            match (deadline_ns, now_ns) {
                (Some(deadline), Some(now)) if now >= deadline => return None,
                (Some(deadline), Some(now)) => park_for(deadline - now),
                _ => thread::park(),
            }
        }
    }

    fn sleep_ns(&self, duration_ns: u64) {
        if duration_ns < 2_000 {
            // Shorter than a system call: spin it out.
            let end = self.now_ns().saturating_add(duration_ns);
            while self.now_ns() < end {
                crate::sync::spin_loop();
            }
        } else {
            sleep_for(duration_ns);
        }
    }

    /// All threads of a schedule are one thread of the system.
    #[cfg(shuttle)]
    fn caller_hint(&self) -> usize {
        thread::current().id().into()
    }

    #[cfg(not(shuttle))]
    #[inline]
    fn caller_hint(&self) -> usize {
        // The standard library's: no part of what a model checker looks at.
        use std::cell::Cell;
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        // One more than the hint; 0: it has none yet. (A constant, so that to find it is one step. Loom knows none.)
        #[cfg(not(loom))]
        crate::sync::thread_local! { static HINT: Cell<usize> = const { Cell::new(0) }; }
        #[cfg(loom)]
        crate::sync::thread_local! { static HINT: Cell<usize> = Cell::new(0); }
        #[cold]
        fn draw(mine: &Cell<usize>) -> usize {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
            mine.get()
        }
        let mine = HINT.try_with(|mine| if mine.get() == 0 { draw(mine) } else { mine.get() });
        mine.map_or(0, |mine| mine - 1)
    }
}

#[cfg(not(any(loom, shuttle)))]
#[expect(clippy::disallowed_methods, reason = "this is the host that is made of the system")]
fn park_for(duration_ns: u64) {
    thread::park_timeout(std::time::Duration::from_nanos(duration_ns));
}

/// Model checkers know no time: a wait with a deadline looks again at once.
#[cfg(any(loom, shuttle))]
fn park_for(_: u64) {
    thread::yield_now();
}

#[cfg(not(any(loom, shuttle)))]
#[expect(clippy::disallowed_methods, reason = "this is the host that is made of the system")]
fn sleep_for(duration_ns: u64) {
    thread::sleep(std::time::Duration::from_nanos(duration_ns));
}

#[cfg(any(loom, shuttle))]
fn sleep_for(_: u64) {
    thread::yield_now();
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::sync::Mutex;
    use std::sync::Arc;

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_before() {
        let host = Threads::default();
        let deadline_ns = host.now_ns() + 2_000_000;
        let mut polls = 0;
        let outcome: Option<()> = host.block_on(Some(deadline_ns), |_| {
            polls += 1;
            Poll::Pending
        });
        assert_eq!(outcome, None);
        assert!(host.now_ns() >= deadline_ns);
        assert!(polls >= 2, "asked once more at the end");
    }

    #[test]
    fn what_is_ready_is_taken_though_the_deadline_has_passed() {
        let host = Threads::default();
        assert_eq!(host.block_on(Some(0), |_| Poll::Ready(3)), Some(3));
        assert_eq!(host.block_on(Some(0), |_| Poll::<()>::Pending), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the other thread is no transaction")]
    fn a_waiting_thread_is_woken_by_another() {
        let host = Threads::default();
        // Whether it is time, and who asked to be told.
        let shared = Arc::new(Mutex::new((false, None::<Waker>)));
        let other = shared.clone();
        let waking = std::thread::spawn(move || {
            loop {
                let mut state = other.lock().unwrap();
                if let Some(waker) = state.1.take() {
                    state.0 = true;
                    drop(state);
                    waker.wake_by_ref();
                    return;
                }
                drop(state);
                std::thread::yield_now();
            }
        });
        let woken = host.block_on(None, |waker| {
            let mut state = shared.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(waker.clone());
            Poll::Pending
        });
        assert_eq!(woken, Some(()));
        waking.join().unwrap();
    }

    #[test]
    fn seeds_differ_from_call_to_call_and_repeat_from_host_to_host() {
        let draw = |host: &Threads| (0..1000).map(|_| host.seed()).collect::<Vec<_>>();
        let host = Threads::with_seed(1);
        let (first, more) = (draw(&host), draw(&host));
        assert_eq!(first, draw(&Threads::with_seed(1)));
        let distinct: std::collections::HashSet<_> = first.iter().chain(&more).collect();
        assert_eq!(distinct.len(), 2000);
    }

    #[test]
    fn time_never_goes_back_and_sleeps_last() {
        let host = Threads::default();
        for duration_ns in [0, 1_000, 100_000] {
            let before = host.now_ns();
            host.sleep_ns(duration_ns);
            assert!(host.now_ns() >= before + duration_ns);
        }
    }

    #[test]
    fn a_caller_keeps_its_hint() {
        let host = Threads::default();
        let mine = host.caller_hint();
        assert_eq!(mine, Threads::default().caller_hint());
        let theirs = std::thread::spawn(move || host.caller_hint()).join().unwrap();
        assert_ne!(mine, theirs);
    }
}
