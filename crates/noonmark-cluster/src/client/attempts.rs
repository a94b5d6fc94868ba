//! A transaction is tried until it has ended, or may be tried no more.

use super::copies::Remote;
use super::{Client, ClusterAbort, Link, Transaction};
use crate::coordinator::Coordinator;
use crate::phases::Phase;
use noonmark::{Age, SlotId};

/// A transaction that several calls try in turn: what goes on from one to the next. See [`Client::transact_on`].
#[derive(Debug)]
pub struct Begun {
    age: Age,
    /// Attempts so far.
    attempts: u32,
    /// How many of them failed as what they had read from copies was not current.
    misled: u32,
}

impl Begun {
    /// How often it has been tried.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

/// A transaction that is tried until it has ended. If this is dropped before, by a panic or with the future that has it, whatever the transaction
/// has locked is let go of at once, if the link [sends then](Link::sends_when_dropped).
pub(super) struct Tries<'c, L: Link> {
    client: &'c mut Client<L>,
    begun: &'c mut Begun,
    /// How many attempts there were before.
    before: u32,
}

impl<'c, L: Link> Tries<'c, L> {
    pub(super) fn of(client: &'c mut Client<L>, begun: &'c mut Begun) -> Self {
        // (If the future of the one before was dropped, that may have been let through to its end.)
        client.let_others_in();
        client.misled = begun.misled;
        let before = begun.attempts;
        Tries { client, begun, before }
    }

    /// The next attempt begins.
    pub(super) fn begin(&mut self) -> Transaction<'_, L> {
        self.begun.attempts = self.begun.attempts.saturating_add(1);
        if self.client.new_ages && self.begun.attempts > 1 {
            self.begun.age = self.client.new_age();
        }
        let escapes = self.client.policy.escape_after.is_some_and(|after| self.begun.attempts > after);
        let tx = self.client.begin(self.begun.age);
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
        let attempts = self.begun.attempts;
        let is_last = self.client.policy.attempts_max.is_some_and(|max| attempts - self.before >= max);
        self.begun.misled = self.client.misled;
        self.client.abort();
        self.client.attempt_ends(false, error.is_retryable() && !is_last);
        if !error.is_retryable() {
            return Some(error);
        }
        self.client.counts.aborts += 1;
        match error {
            ClusterAbort::Refused(refusal) if is_last => Some(ClusterAbort::Attempts(refusal, attempts)),
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

    /// A transaction that begins now, of the age that goes with that, for [`Client::transact_on`] to try.
    pub fn new_transaction(&self) -> Begun {
        Begun { age: self.new_age(), attempts: 0, misled: 0 }
    }

    /// The age of a transaction that begins now.
    fn new_age(&self) -> Age {
        let client = self.coordinator.client();
        let number = usize::from(client.server.number()) * 64 + usize::from(client.worker);
        // (Two may be of one age. To rules neither is the older one then; to servers, who say who waits, the client's number counts.)
        let slot = SlotId::new(number % SlotId::LIMIT).unwrap_or(SlotId::NOBODY);
        Age::new(self.link.now_ns(), slot)
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

    /// How long to pause before a transaction that has failed is tried again, by the [policy](super::Policy): a random time, in nanoseconds.
    pub fn draw_pause_ns(&mut self) -> u64 {
        let longest_ns = u64::try_from(self.policy.backoff_max.as_nanos()).unwrap_or(u64::MAX);
        let longest_ns = match self.policy.backoff_round_trips {
            Some(trips) => longest_ns.min(self.round_trip_ns.saturating_mul(trips.into())),
            None => longest_ns,
        };
        if longest_ns > 0 { self.link.random() % longest_ns } else { 0 }
    }

    async fn back_off(&mut self) {
        let until_ns = self.link.now_ns().saturating_add(self.draw_pause_ns());
        self.pause_until(until_ns).await;
    }
}
