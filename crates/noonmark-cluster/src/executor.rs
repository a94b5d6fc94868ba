//! Futures, run by the thread that has them: for clients who have no executor of their own.
//!
//! [`block_on`] runs one, [`block_on_all`] several in turn, whichever can go on. A thread that has nothing to do looks for a while
//! whether something has come, gives its core away now and then meanwhile, and goes to sleep only then: an answer is mostly there before a
//! sleeping thread would have been woken.
//!
//! What it does not do: timers, tasks that are added later ([workers](crate::tasks) have them), or several threads. Any executor will do in its place: nothing here
//! is known to the futures of a [`Client`](crate::client::Client).

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// How often a thread looks before it goes to sleep: for some tens of microseconds. Measured with `noonmark bench workers` on two cores: with
/// 64 a lone client takes twenty times as long for a transaction, as it and its worker wake each other for each message; with 8,192 the
/// threads, if there are more of them than cores, keep each other from working.
pub(crate) const LOOKS_MAX: u32 = 1_024;

/// One turn of looking. Whoever is to make what is looked for may want this core.
pub(crate) fn look_again(turn: u32) {
    if turn % 64 == 63 { thread::yield_now() } else { std::hint::spin_loop() }
}

thread_local! {
    static NEVER_WAITS: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread is a worker's: who has it wait has it wait for itself.
pub(crate) fn never_wait_here() {
    NEVER_WAITS.set(true);
}

const AWAKE: u8 = 0;
const WOKEN: u8 = 1;
const ASLEEP: u8 = 2;

/// Where one thread waits to be woken.
///
/// `AWAKE` → `WOKEN` by who wakes; `AWAKE` → `ASLEEP` → `WOKEN` if the thread has gone to sleep before; `WOKEN` → `AWAKE` by the
/// thread, before it looks at what it was woken for: so who comes after that look wakes it once more.
struct Bed {
    thread: Thread,
    state: AtomicU8,
}

impl Bed {
    /// The calling thread's.
    fn new() -> Self {
        Bed { thread: thread::current(), state: AtomicU8::new(AWAKE) }
    }

    /// Wakes the thread, now or as soon as it waits.
    fn wake(&self) {
        // Release: it sees what was done before.
        if self.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            self.thread.unpark();
        }
    }

    /// Waits until somebody has woken the thread. Called by that thread only.
    ///
    /// # Panics
    /// On a worker's thread.
    fn wait(&self) {
        assert!(
            !NEVER_WAITS.get(),
            "block_on waits on the thread of a worker, which may never go on then: await the future instead"
        );
        let is_woken = || self.state.load(Ordering::Relaxed) == WOKEN;
        if !(0..LOOKS_MAX).any(|turn| {
            look_again(turn);
            is_woken()
        }) && self.state.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            // (A thread may return from parking though nobody has woken it.)
            while !is_woken() {
                thread::park();
            }
        }
        // Acquire: see `wake`.
        self.state.swap(AWAKE, Ordering::Acquire);
    }
}

impl Wake for Bed {
    fn wake(self: Arc<Self>) {
        Bed::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Bed::wake(self);
    }
}

/// Runs a future to its end. Not in a [task](crate::tasks), or in a closure that a worker runs.
///
/// # Panics
/// If it has to wait on a worker's thread: its rows would be kept waiting, those that it waits for perhaps among them. (A task that
/// panics is [told of](crate::tasks::TaskError::Panicked), and ends nobody else.)
///
/// ```
/// assert_eq!(noonmark_cluster::executor::block_on(async { 3 }), 3);
/// ```
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let bed = Arc::new(Bed::new());
    let waker = Waker::from(bed.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        bed.wait();
    }
}

/// What is rung when a task has been woken.
pub(crate) trait Bell: Send + Sync + 'static {
    /// That task is to be polled.
    fn ring(&self, index: usize);
}

/// The waker of one of several tasks.
pub(crate) struct TaskWaker<B> {
    index: usize,
    /// Whether it is to be polled, and the bell has rung for that.
    is_ready: AtomicBool,
    bell: B,
}

impl<B: Bell> TaskWaker<B> {
    pub(crate) fn new(index: usize, bell: B) -> Arc<Self> {
        Arc::new(TaskWaker { index, is_ready: AtomicBool::new(false), bell })
    }

    /// Before the task is polled: who wakes it from here on has it polled once more.
    pub(crate) fn begin_poll(&self) {
        self.is_ready.swap(false, Ordering::AcqRel);
    }
}

impl<B: Bell> Wake for TaskWaker<B> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release and Acquire: whoever finds it ready already has had its say seen by the poll that is still to come.
        if !self.is_ready.swap(true, Ordering::AcqRel) {
            self.bell.ring(self.index);
        }
    }
}

/// The futures that can go on.
struct Ready {
    indices: Mutex<Vec<usize>>,
    bed: Bed,
}

impl Bell for Arc<Ready> {
    fn ring(&self, index: usize) {
        self.indices.lock().unwrap_or_else(PoisonError::into_inner).push(index);
        self.bed.wake();
    }
}

/// Runs futures to their ends, each whenever it can go on, all on this thread: their values, in the order in which they were given.
///
/// # Panics
/// As [`block_on`].
///
/// ```
/// let squares = noonmark_cluster::executor::block_on_all((1..4).map(|number| async move { number * number }));
/// assert_eq!(squares, [1, 4, 9]);
/// ```
pub fn block_on_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<Option<Pin<Box<F>>>> =
        futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let mut values: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    let ready = Arc::new(Ready { indices: Mutex::new(Vec::new()), bed: Bed::new() });
    let tasks: Vec<_> = (0..futures.len()).map(|index| TaskWaker::new(index, ready.clone())).collect();
    let wakers: Vec<Waker> = tasks.iter().map(|task| Waker::from(task.clone())).collect();
    wakers.iter().for_each(Waker::wake_by_ref);
    let mut left = futures.len();
    let mut batch = Vec::new();
    while left > 0 {
        std::mem::swap(&mut batch, &mut *ready.indices.lock().unwrap_or_else(PoisonError::into_inner));
        if batch.is_empty() {
            ready.bed.wait();
        }
        for index in batch.drain(..) {
            tasks[index].begin_poll();
            let Some(future) = &mut futures[index] else { continue };
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&wakers[index])) {
                values[index] = Some(value);
                futures[index] = None;
                left -= 1;
            }
        }
    }
    values.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::mpsc;

    /// Passes a number on to the next one of a ring, until it is zero.
    #[test]
    fn futures_that_wake_each_other_all_end() {
        type Inbox = Mutex<(Option<u32>, Option<Waker>)>;
        let inboxes: Vec<Inbox> =
            (0..5).map(|index| Mutex::new(((index == 0).then_some(100), None))).collect();
        let inboxes = Arc::new(inboxes);
        let ended = block_on_all((0..5).map(|index| {
            let inboxes = inboxes.clone();
            async move {
                loop {
                    let number = poll_fn(|context| {
                        let mut inbox = inboxes[index].lock().unwrap();
                        inbox.1 = Some(context.waker().clone());
                        inbox.0.take().map_or(Poll::Pending, Poll::Ready)
                    })
                    .await;
                    let waker = {
                        let mut next = inboxes[(index + 1) % 5].lock().unwrap();
                        next.0 = Some(number.saturating_sub(1));
                        next.1.take()
                    };
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                    if number < 5 {
                        return index;
                    }
                }
            }
        }));
        assert_eq!(ended, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_thread_is_woken_by_another_however_late() {
        let (waker_sender, wakers) = mpsc::channel::<Waker>();
        let (sender, numbers) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                for (number, waker) in wakers.iter().enumerate() {
                    // Some wakes come at once, some when the other one sleeps.
                    for _ in 0..number % 3 * 40_000 {
                        std::hint::spin_loop();
                    }
                    if sender.send(number).is_err() {
                        return;
                    }
                    waker.wake();
                }
            });
            let got = block_on(async {
                let mut got = Vec::new();
                for _ in 0..100 {
                    let mut is_asked = false;
                    got.push(
                        poll_fn(|context| {
                            if !std::mem::replace(&mut is_asked, true) {
                                waker_sender.send(context.waker().clone()).unwrap();
                            }
                            numbers.try_recv().map_or(Poll::Pending, Poll::Ready)
                        })
                        .await,
                    );
                }
                got
            });
            drop(waker_sender);
            assert_eq!(got, (0..100).collect::<Vec<_>>());
        });
    }
}
