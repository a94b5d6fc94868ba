//! Runs a test in many schedules, each with a memory of its own.

use noonmark_stm::{Memory, Opaque, Own, Settings, Threads, World};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::marker::PhantomData;
use std::sync::Arc;

/// A world whose memory is that of the schedule under way on this thread of the system, which runs all threads of
/// the schedule.
pub struct Fresh<C>(PhantomData<C>);

std::thread_local! {
    static MEMORY: std::cell::Cell<*const ()> = const { std::cell::Cell::new(std::ptr::null()) };
}

// SAFETY: set before a schedule begins, and kept to its end, when no variable is left: `on_schedules` sees to it. Each test is
// a thread of the system, and uses one world.
unsafe impl<C: Opaque> World for Fresh<C> {
    type Control = C;
    type Host = Threads;
    type Place = Own;

    fn memory() -> &'static Memory<Self> {
        // SAFETY: as above.
        unsafe { &*MEMORY.get().cast::<Memory<Self>>() }
    }
}

/// Runs it on so many schedules at random, and as many with a few preemptions in unlikely places.
pub fn on_schedules<C: Opaque>(schedules: usize, test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let test = test.clone();
        Runner::new(scheduler, Config::new()).run(move || {
            let settings = Settings::default().slots(5).attempts_max(3);
            let memory: *mut Memory<Fresh<C>> =
                Box::into_raw(Box::new(Memory::new(settings, Threads::default())));
            MEMORY.set(memory.cast_const().cast());
            test();
            // SAFETY: all threads have been joined, and the variables were theirs and the test's. (After a failure it
            // is leaked.)
            drop(unsafe { Box::from_raw(memory) });
        });
    };
    run(Box::new(RandomScheduler::new(schedules)));
    run(Box::new(PctScheduler::new(3, schedules)));
}

/// Runs each of these on a thread of the schedule.
pub fn together(runs: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = runs.into_iter().map(|run| shuttle::thread::spawn(run)).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
