//! Programs that run on a worker's own thread, beside its rows: see [`Cluster::spawn_at`](crate::cluster::Cluster::spawn_at).
//!
//! A worker polls its tasks between letters, each when it has been woken. Futures are made, polled and dropped by that thread alone, so they
//! need not be `Send`; what starts them and what comes of them goes from thread to thread, and so must be.
//!
//! A task that panics ends by it: its client is dropped, and so what it had begun is rolled back. The worker goes on, whatever of the user's panics:
//! the program, what it leaves behind when it is dropped, the value that nobody waits for, or the panic itself.

use crate::executor::TaskWaker;
use crate::workers::Doorbell;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a task comes to: a future that may be awaited on any executor, or [blocked on](crate::executor::block_on). The task goes on if this is
/// dropped.
///
/// It answers once; whoever polls it after that is told that it was [dropped](TaskError::Dropped).
#[must_use = "what the task comes to, its panic included, is told here only"]
pub struct Task<T>(Arc<Mutex<Ending<T>>>);

/// Why a task has come to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// It has panicked, with these words. What it had begun is rolled back, and its worker goes on.
    #[error("the task has panicked: {0}")]
    Panicked(String),
    /// The cluster was dropped, or a worker has panicked, before the task had ended. What it had begun is rolled back, unless its commit was on
    /// its way.
    #[error("the cluster ended before the task had")]
    Dropped,
}

/// How far a task has come, for who waits for it.
struct Ending<T> {
    /// None: it runs, or the answer has been taken.
    done: Option<Result<T, TaskError>>,
    /// Nothing will be told any more but what is in `done`.
    is_told: bool,
    waker: Option<Waker>,
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut ending = lock(&self.0);
        match ending.done.take() {
            Some(done) => Poll::Ready(done),
            None if ending.is_told => Poll::Ready(Err(TaskError::Dropped)),
            None => {
                let earlier = ending.waker.replace(context.waker().clone());
                drop(ending);
                drop(earlier);
                Poll::Pending
            }
        }
    }
}

impl<T> std::fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("has_ended", &lock(&self.0).is_told).finish()
    }
}

fn lock<T>(ending: &Mutex<Ending<T>>) -> MutexGuard<'_, Ending<T>> {
    ending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who tells how the task has ended: that it was dropped, if nothing else was told.
struct Teller<T>(Arc<Mutex<Ending<T>>>);

impl<T> Teller<T> {
    fn tell(self, done: Result<T, TaskError>) {
        lock(&self.0).done = Some(done);
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        let mut ending = lock(&self.0);
        ending.is_told = true;
        let waker = ending.waker.take();
        drop(ending);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// Makes a task's future, on the thread that will run it.
pub(crate) type Program = Box<dyn FnOnce() -> LocalFuture<()> + Send>;

/// What a worker is given, and what whoever has given it keeps.
pub(crate) fn program<T, F>(start: impl FnOnce() -> F + Send + 'static) -> (Program, Task<T>)
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let ending = Arc::new(Mutex::new(Ending { done: None, is_told: false, waker: None }));
    let teller = Teller(ending.clone());
    let program: Program = Box::new(move || {
        Box::pin(async move {
            let done = Caught(Some(Box::pin(async move { start().await }))).await;
            teller.tell(done.map_err(|panic| TaskError::Panicked(words_of(panic))));
        })
    });
    (program, Task(ending))
}

/// A future whose panic is an answer. It has been dropped before it answers.
struct Caught<T>(Option<LocalFuture<T>>);

impl<T> Future for Caught<T> {
    type Output = Result<T, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.0;
        // Unwind safe: what has panicked is dropped, and never polled again.
        let polled = catch_unwind(AssertUnwindSafe(|| match future {
            Some(running) => running.as_mut().poll(context),
            None => Poll::Pending,
        }));
        let done = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(panic) => Err(panic),
        };
        let ended = future.take();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(ended)));
        Poll::Ready(match (done, dropped) {
            (done, Ok(())) => done,
            (Ok(value), Err(panic)) => {
                drop_quietly(value);
                Err(panic)
            }
            (Err(first), Err(second)) => {
                drop_quietly(second);
                Err(first)
            }
        })
    }
}

/// What a panic says.
fn words_of(panic: Box<dyn Any + Send>) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without words").to_owned();
    drop_quietly(panic);
    words
}

/// Drops what is the user's, and may panic.
fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // Not dropped: it may panic again, and what that panics with, too.
        std::mem::forget(panic);
    }
}

struct Running {
    future: LocalFuture<()>,
    waking: Arc<TaskWaker<Doorbell>>,
    waker: Waker,
}

/// A worker's tasks.
pub(crate) struct Tasks {
    doorbell: Doorbell,
    running: Vec<Option<Running>>,
    /// Where there is none.
    free: Vec<usize>,
}

impl Tasks {
    /// None yet; when one is woken, that bell rings.
    pub(crate) fn new(doorbell: Doorbell) -> Self {
        Tasks { doorbell, running: Vec::new(), free: Vec::new() }
    }

    /// One more. It is to be polled: the bell has rung.
    pub(crate) fn start(&mut self, program: Program) {
        let index = self.free.pop().unwrap_or(self.running.len());
        let waking = TaskWaker::new(index, self.doorbell.clone());
        let waker = Waker::from(waking.clone());
        waker.wake_by_ref();
        let running = Some(Running { future: program(), waking, waker });
        match self.running.get_mut(index) {
            Some(place) => *place = running,
            None => self.running.push(running),
        }
    }

    /// Polls one for which the bell has rung. (If that was for one that has had this number before, for nothing.)
    pub(crate) fn poll(&mut self, index: usize) {
        let Some(Some(running)) = self.running.get_mut(index) else { return };
        running.waking.begin_poll();
        // A program's own panic is caught within. Here it is what is dropped with the answer, as nobody waits for it, or who is woken by it.
        let mut context = Context::from_waker(&running.waker);
        let polled = catch_unwind(AssertUnwindSafe(|| running.future.as_mut().poll(&mut context).is_ready()));
        if polled.unwrap_or_else(|panic| {
            std::mem::forget(panic);
            true
        }) {
            drop_quietly(self.running[index].take());
            self.free.push(index);
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.running.drain(..).for_each(drop_quietly);
    }
}
