//! How long a cache line takes from one core to another.
//!
//! Two threads hand a number to and fro on a line of its own. It is a property of the machine, and of where the system has put the two: cores were seen
//! some 50 ns apart, and 180 to 270, and where the processors are virtual, which of the two it is may change
//! from one minute to the next. Runs of several threads that write the same rows differ by half for it, so it is told beside them.
//!
//! What it does not do: pin threads, or say which cores they are.

use super::spawn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The parameter of a run that says it.
pub(crate) const HOP: &str = "a line from core to core";

/// Hops there and back in one batch.
const ROUNDS: u32 = 1_000;
/// The fastest batch counts: others were interrupted.
const BATCHES: u32 = 8;
/// Two threads on one core would be answered a time slice later each time; but it may take a few until they are moved apart.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often to look, until the clock is looked at.
const LOOKS: u32 = 10_000;

/// What nobody answers any more.
const OVER: u32 = u32::MAX;

/// Odd: the other thread's turn. Two lines, as processors fetch them in pairs.
#[repr(align(128))]
struct Ball(AtomicU32);

impl Ball {
    /// Hands it on as `number`; whether it comes back, as one more, before the deadline.
    fn comes_back(&self, number: u32, deadline: Instant) -> bool {
        // Release, and acquire: as what they hand on is handed on elsewhere.
        self.0.store(number, Ordering::Release);
        while (0..LOOKS).all(|_| self.0.load(Ordering::Acquire) != number + 1) {
            if Instant::now() > deadline {
                return false;
            }
        }
        true
    }

    fn answer(&self) {
        loop {
            match self.0.load(Ordering::Acquire) {
                OVER => return,
                number if number % 2 == 1 => {
                    // Not a plain store: it might be of a number that has been given up, and put back what is over.
                    let _ = self.0.compare_exchange(number, number + 1, Ordering::Release, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    }
}

/// Nanoseconds that a line takes from core to core, one way: the fastest of a few batches. `None` on a machine of one core, or where the two threads
/// were given only one.
pub(crate) fn hop_ns() -> Option<f64> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let ball = Ball(AtomicU32::new(0));
    std::thread::scope(|scope| {
        let other = spawn(scope, || ball.answer()).ok()?;
        let deadline = Instant::now() + PATIENCE;
        let fastest = (0..BATCHES)
            .map_while(|batch| {
                let start = Instant::now();
                let mut numbers = (0..ROUNDS).map(|round| (batch * ROUNDS + round) * 2 + 1);
                numbers.all(|number| ball.comes_back(number, deadline)).then(|| start.elapsed())
            })
            .min();
        ball.0.store(OVER, Ordering::Release);
        // By hand: what the scope does to wait for it is not seen by the thread sanitizer.
        other.join().ok()?;
        Some(fastest?.as_nanos() as f64 / f64::from(2 * ROUNDS))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ball_that_nobody_answers_is_given_up() {
        let ball = Ball(AtomicU32::new(0));
        assert!(!ball.comes_back(1, Instant::now()));
        std::thread::scope(|scope| {
            scope.spawn(|| ball.answer());
            assert!(ball.comes_back(3, Instant::now() + Duration::from_secs(60)));
            ball.0.store(OVER, Ordering::Release);
        });
    }

    #[test]
    fn what_is_given_up_while_it_is_answered_is_over() {
        for _ in 0..2_000 {
            let ball = Ball(AtomicU32::new(0));
            // The scope ends when the other thread does.
            std::thread::scope(|scope| {
                scope.spawn(|| ball.answer());
                while !ball.comes_back(1, Instant::now()) {}
                ball.0.store(3, Ordering::Release);
                ball.0.store(OVER, Ordering::Release);
            });
        }
    }

    #[test]
    fn a_hop_takes_some_time_where_there_are_two_cores() {
        // Of how long it takes nothing is asserted.
        assert!(hop_ns().is_none_or(|ns| ns > 0.0));
    }
}
