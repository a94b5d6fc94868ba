//! A worker's *abort buffer* [Sundial §6]: it puts a transaction that has failed aside, until its pause is over, and runs another one meanwhile: of those
//! whose pause is over the one that has waited longest, or a new one, if there is room for one more that fails. So as many are at work as there are
//! workers, however many fail.
//!
//! With no room, a worker pauses with its transaction, as the programs of a [`Client`](noonmark_cluster::client::Client) do.
//!
//! What it does not do: know what transactions do.

use super::store::{ClusterSession, ClusterStore, now};
use crate::Picoseconds;
use crate::experiment::{Left, Outcome};
use noonmark_cluster::client::{Begun, ClusterAbort};
use noonmark_cluster::phases::PhaseTimes;
use noonmark_core::Host;
use noonmark_workloads::store::{Failure, Session, TxnResult};
use noonmark_workloads::workload::RunError;
use std::cell::Cell;

/// Of transactions that are each asked for by an `R`.
pub(super) struct AbortBuffer<R> {
    room: usize,
    /// Invariant: no more than there is room for, but one.
    aside: Vec<Aside<R>>,
    /// What is to be told of the transaction that has just ended.
    ended: Option<Ended>,
}

/// A transaction that has failed, or is new.
struct Aside<R> {
    request: R,
    begun: Begun,
    began_ns: u64,
    /// When its pause is over.
    due_ns: u64,
    times: PhaseTimes,
}

/// Of a transaction that has ended.
struct Ended {
    /// When it began, if others have been run since.
    began_ps: Option<Picoseconds>,
    /// What its time went into.
    times: PhaseTimes,
}

/// Who has a worker's transactions drawn and run.
pub(super) trait Driver<R> {
    /// Draws the next.
    fn draw(&mut self) -> R;

    /// Runs one, by the policy of the session.
    fn run(&mut self, session: &mut ClusterSession, request: &R) -> TxnResult<ClusterStore, ()>;
}

impl<R> AbortBuffer<R> {
    /// One with room for so many, and none in it.
    pub(super) fn new(room: usize) -> Self {
        AbortBuffer { room, aside: Vec::new(), ended: None }
    }

    /// Runs transactions, those that have failed before among them, until one has ended, or no more is to be run.
    ///
    /// # Errors
    /// [`RunError`] if one fails in a way that no retry mends.
    pub(super) fn execute(
        &mut self,
        store: &ClusterStore,
        session: &mut ClusterSession,
        driver: &mut impl Driver<R>,
    ) -> Result<Outcome, RunError> {
        if self.room == 0 {
            let request = driver.draw();
            let ended = driver.run(session, &request);
            self.ended = Some(Ended { began_ps: None, times: session.client().take_times() });
            return Ok(outcome_of(ended)?.unwrap_or(Outcome::Failed));
        }
        let cores = store.cores();
        while !cores.is_over() {
            let mut one = self.next(cores.now_ns(), session, driver);
            // (If there is room for no more.)
            let ended = match now(session.client().pause_until(one.due_ns)) {
                Ok(()) => session.try_once(&mut one.begun, |session| driver.run(session, &one.request)),
                Err(abort) => Err(Failure::Abort(abort)),
            };
            one.times += session.client().take_times();
            let ended_ns = cores.now_ns();
            match outcome_of(ended)? {
                Some(Outcome::Failed) => {
                    self.aside.push(one);
                    break;
                }
                Some(outcome) => {
                    one.times.paused_ns = (ended_ns - one.began_ns).saturating_sub(one.times.total_ns());
                    self.ended = Some(Ended { began_ps: Some(one.began_ns * 1_000), times: one.times });
                    return Ok(outcome);
                }
                None => {
                    one.due_ns = ended_ns.saturating_add(session.client().draw_pause_ns());
                    self.aside.push(one);
                }
            }
        }
        // (What is left aside is told of by `end`.)
        self.ended = Some(Ended { began_ps: Some(cores.now_ps()), times: PhaseTimes::default() });
        Ok(Outcome::Failed)
    }

    /// Adds what the time of the transaction that has just ended went into, if it counts; says when it began, if others have been run since.
    pub(super) fn note_end(&mut self, counts: bool, all: &Cell<PhaseTimes>) -> Option<Picoseconds> {
        let Ended { began_ps, times } = self.ended.take()?;
        if counts {
            let mut sum = all.get();
            sum += times;
            all.set(sum);
        }
        began_ps
    }

    /// Its worker leaves.
    pub(super) fn end(self, session: &mut ClusterSession) -> Left {
        session.settle();
        let aside_since_ps = self.aside.iter().map(|one| one.began_ns * 1_000).collect();
        Left { attempts_max: session.take_attempts_max(), aside_since_ps }
    }

    fn next(&mut self, now_ns: u64, session: &mut ClusterSession, driver: &mut impl Driver<R>) -> Aside<R> {
        let first = (0..self.aside.len()).min_by_key(|&at| self.aside[at].due_ns);
        let is_full = self.aside.len() >= self.room;
        match first.filter(|&at| is_full || self.aside[at].due_ns <= now_ns) {
            Some(at) => self.aside.swap_remove(at),
            None => Aside {
                request: driver.draw(),
                begun: session.client().new_transaction(),
                began_ns: now_ns,
                due_ns: now_ns,
                times: PhaseTimes::default(),
            },
        }
    }
}

/// How a transaction has ended; none: in a conflict.
fn outcome_of(ended: TxnResult<ClusterStore, ()>) -> Result<Option<Outcome>, RunError> {
    match ended {
        Ok(()) => Ok(Some(Outcome::Committed)),
        Err(Failure::Rollback) => Ok(Some(Outcome::CalledOff)),
        // The run is over.
        Err(Failure::Abort(ClusterAbort::Closed)) => Ok(Some(Outcome::Failed)),
        Err(Failure::Abort(abort)) if abort.is_retryable() => Ok(None),
        Err(Failure::Abort(abort)) => Err(RunError::transaction("a transaction", abort)),
    }
}
