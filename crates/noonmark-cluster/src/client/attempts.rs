//! A transaction is tried until it has ended, or may be tried no more.

use super::copies::Remote;
use super::{Client, ClusterAbort, Link, Transaction};
use crate::coordinator::Coordinator;
use crate::phases::Phase;
use noonmark::Age;

/// A transaction that is tried until it has ended. If this is dropped before, by a panic or with the future that has it, whatever the transaction
/// has locked is let go of at once, if the link [sends then](Link::sends_when_dropped).
pub(super) struct Tries<'c, L: Link> {
    client: &'c mut Client<L>,
    age: Age,
    /// Attempts so far.
    count: u32,
}

impl<'c, L: Link> Tries<'c, L> {
    pub(super) fn of(client: &'c mut Client<L>, age: Age) -> Self {
        // (If the future of the one before was dropped, that may have been let through to its end.)
        client.let_others_in();
        client.misled = 0;
        Tries { client, age, count: 0 }
    }

    /// The next attempt begins.
    pub(super) fn begin(&mut self) -> Transaction<'_, L> {
        self.count = self.count.saturating_add(1);
        let has_age_of_its_own = self.client.new_ages && self.count > 1;
        let age = if has_age_of_its_own { self.client.new_age() } else { self.age };
        let escapes = self.client.policy.escape_after.is_some_and(|after| self.count > after);
        let tx = self.client.begin(age);
        if escapes {
            tx.client.coordinator.let_through();
        }
        tx
    }

    /// What became of the transaction with this attempt, whose closure has answered this, and of whose operations this was the first to
    /// fail; none if it is to be tried again.
    pub(super) async fn conclude<T, E: From<ClusterAbort>>(
        &mut self,
        answer: Result<T, E>,
        failed: Option<ClusterAbort>,
    ) -> Option<Result<T, E>> {
        let ended = match self.client.end_attempt(answer, failed).await {
            Ok(answer) => Some(answer),
            Err(error) => self.fail(error).map(|error| Err(error.into())),
        };
        match ended {
            Some(_) => self.client.let_others_in(),
            None => self.client.back_off().await,
        }
        ended
    }

    /// The attempt has failed by this. What the transaction fails by, unless it is to be tried again.
    fn fail(&mut self, error: ClusterAbort) -> Option<ClusterAbort> {
        let is_last = self.client.policy.attempts_max.is_some_and(|max| self.count >= max);
        self.client.abort();
        self.client.attempt_ends(false, error.is_retryable() && !is_last);
        if !error.is_retryable() {
            return Some(error);
        }
        self.client.counts.aborts += 1;
        match error {
            ClusterAbort::Refused(refusal) if is_last => Some(ClusterAbort::Attempts(refusal, self.count)),
            error => is_last.then_some(error),
        }
    }
}

impl<L: Link> Drop for Tries<'_, L> {
    fn drop(&mut self) {
        if self.client.link.sends_when_dropped() {
            self.client.abort();
            self.client.let_others_in();
        }
    }
}

impl<L: Link> Client<L> {
    /// Commits what has succeeded, and answers what the closure has; or tells what the attempt has failed by.
    async fn end_attempt<T, E>(
        &mut self,
        answer: Result<T, E>,
        failed: Option<ClusterAbort>,
    ) -> Result<Result<T, E>, ClusterAbort> {
        match (answer, failed) {
            (Ok(value), None) => {
                let at = self.finish(Coordinator::commit).await?;
                self.write_copies(at);
                if self.waits_until_told {
                    self.wait_until_told(self.attempt).await;
                }
                self.attempt_ends(true, false);
                self.looks_first = false;
                self.counts.commits += 1;
                Ok(Ok(value))
            }
            // What went wrong first is what counts, if it was a conflict.
            (_, Some(abort)) if abort.is_retryable() => Err(abort),
            (Ok(_), Some(abort)) => Err(abort),
            // Nothing is left that could be validated.
            (Err(error), Some(_)) => {
                self.abort();
                self.attempt_ends(false, false);
                Ok(Err(error))
            }
            // It may rest on what was read: so it is told only if that could have been committed.
            (Err(error), None) => {
                self.finish(Coordinator::rehearse).await?;
                self.attempt_ends(false, false);
                self.looks_first = false;
                self.counts.rollbacks += 1;
                Ok(Err(error))
            }
        }
    }

    fn begin(&mut self, age: Age) -> Transaction<'_, L> {
        let mut out = Vec::new();
        let now_ns = self.link.now_ns();
        if let Some(clock) = &self.clock {
            self.coordinator.raise_floor(clock.draw(now_ns, self.coordinator.floor()));
        }
        self.attempt = self.coordinator.begin(now_ns, age, &mut out);
        self.watch.enter(now_ns, Phase::Execution);
        self.send(out);
        self.remote = Remote::default();
        Transaction { client: self, failed: None }
    }

    fn attempt_ends(&mut self, committed: bool, pauses: bool) {
        self.watch.end(self.link.now_ns(), committed, pauses);
        self.link.ended(self.attempt, committed);
    }

    async fn back_off(&mut self) {
        let longest_ns = u64::try_from(self.policy.backoff_max.as_nanos()).unwrap_or(u64::MAX);
        let longest_ns = match self.policy.backoff_round_trips {
            Some(trips) => longest_ns.min(self.round_trip_ns.saturating_mul(trips.into())),
            None => longest_ns,
        };
        if longest_ns > 0 {
            let until_ns = self.link.now_ns().saturating_add(self.link.random() % longest_ns);
            self.pause_until(until_ns).await;
        }
    }
}
