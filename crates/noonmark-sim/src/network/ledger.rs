//! Whose bytes were sent: those of each attempt, phase by phase, and of attempts that failed [Sundial §6.3, Figures 7c, 10b and 15b].
//!
//! What an attempt sends while it runs is set aside until it has ended: then it is of the phases that its messages were of, or of what
//! has failed, as the case may be. What is sent later, to tell the end and to answer that, is told apart by how the attempt has ended.
//!
//! **Invariant**: each byte is counted once, when its message is sent or when its attempt ends, whichever is later. So over a span of time
//! the sum is that of what was sent, but for attempts that are under way at its ends.
//!
//! What it does not do: count messages that stay at one server.

use noonmark_cluster::message::{Answer, Ask, AttemptId, ClientId, Decision, Request};
use noonmark_cluster::phases::Phase;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes, by what they were sent for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseBytes {
    /// Operations of attempts that committed.
    pub execution: u64,
    /// Sealing and validating of those, and installing where one server decided alone.
    pub prepare: u64,
    /// Telling that they have committed.
    pub commit: u64,
    /// Whatever was sent for attempts that did not commit.
    pub failed: u64,
}

impl PhaseBytes {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.execution + self.prepare + self.commit + self.failed
    }

    fn of(&mut self, phase: Phase) -> &mut u64 {
        match phase {
            Phase::Execution => &mut self.execution,
            Phase::Prepare => &mut self.prepare,
            Phase::Commit => &mut self.commit,
        }
    }
}

impl std::ops::AddAssign for PhaseBytes {
    fn add_assign(&mut self, other: Self) {
        let PhaseBytes { execution, prepare, commit, failed } = other;
        self.execution += execution;
        self.prepare += prepare;
        self.commit += commit;
        self.failed += failed;
    }
}

impl std::ops::Sub for PhaseBytes {
    type Output = PhaseBytes;

    fn sub(self, before: Self) -> Self {
        PhaseBytes {
            execution: self.execution - before.execution,
            prepare: self.prepare - before.prepare,
            commit: self.commit - before.commit,
            failed: self.failed - before.failed,
        }
    }
}

/// The bytes of all clients' attempts.
#[derive(Default)]
pub(super) struct Ledger {
    /// Of each client's attempt that runs: its number, and what it has sent.
    running: BTreeMap<ClientId, (u64, PhaseBytes)>,
    committed: BTreeSet<AttemptId>,
    ended: PhaseBytes,
}

impl Ledger {
    /// Those of all attempts that have ended.
    pub(super) fn ended(&self) -> PhaseBytes {
        self.ended
    }

    pub(super) fn request(&mut self, request: &Request, bytes: usize) {
        if let Ask::End(decision) = request.ask {
            if let Decision::Commit(_) = decision {
                // (Before its client says so, which may have more to send first.)
                self.committed.insert(request.attempt);
            }
            return self.add_ended(request.attempt, Phase::Commit, bytes as u64);
        }
        self.add(request.attempt, Phase::of_request(request), bytes as u64);
    }

    pub(super) fn answer(&mut self, answer: &Answer, bytes: usize) {
        match Phase::of_answer(answer) {
            Phase::Commit => self.add_ended(answer.attempt, Phase::Commit, bytes as u64),
            phase => self.add(answer.attempt, phase, bytes as u64),
        }
    }

    pub(super) fn end(&mut self, attempt: AttemptId, committed: bool) {
        if committed {
            self.committed.insert(attempt);
        }
        let (sequence, _) = self.running.get(&attempt.client).copied().unwrap_or_default();
        if sequence <= attempt.sequence {
            self.close(attempt.client);
            self.running.insert(attempt.client, (attempt.sequence + 1, PhaseBytes::default()));
        }
    }

    /// Sent for an attempt that may be running.
    fn add(&mut self, attempt: AttemptId, phase: Phase, bytes: u64) {
        let (sequence, _) = self.running.get(&attempt.client).copied().unwrap_or_default();
        if attempt.sequence < sequence {
            return self.add_ended(attempt, phase, bytes);
        }
        if attempt.sequence > sequence {
            self.close(attempt.client);
        }
        let (sequence, sent) = self.running.entry(attempt.client).or_default();
        *sequence = attempt.sequence;
        *sent.of(phase) += bytes;
    }

    /// Sent for an attempt that has ended.
    fn add_ended(&mut self, attempt: AttemptId, phase: Phase, bytes: u64) {
        match self.committed.contains(&attempt) {
            true => *self.ended.of(phase) += bytes,
            false => self.ended.failed += bytes,
        }
    }

    /// Nothing more is sent for a client's attempt while it runs.
    fn close(&mut self, client: ClientId) {
        let Some((sequence, sent)) = self.running.remove(&client) else { return };
        match self.committed.contains(&AttemptId { client, sequence }) {
            true => self.ended += sent,
            false => self.ended.failed += sent.total(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noonmark::{Age, SlotId, Timestamp};
    use noonmark_cluster::message::{Reply, Step};
    use noonmark_cluster::partition::ServerId;

    /// What an attempt has sent is of its phases if it commits, and else is lost; what comes late is told apart, too.
    #[test]
    fn bytes_are_of_what_became_of_their_attempt() {
        let client = ClientId { server: ServerId::new(0), worker: 0 };
        let attempt = |sequence| AttemptId { client, sequence };
        let request = |sequence, ask| Request {
            attempt: attempt(sequence),
            age: Age::new(0, SlotId::NOBODY),
            floor: Timestamp::ZERO,
            number: 1,
            is_past_waiting: false,
            escapes: false,
            ask,
        };
        let execute = |sequence| request(sequence, Ask::Work(Vec::new(), Step::Execute));
        let prepare = |sequence| request(sequence, Ask::Work(Vec::new(), Step::Seal));
        let ended = |sequence| Answer {
            attempt: attempt(sequence),
            from: ServerId::new(1),
            number: 3,
            reply: Reply::Ended,
        };
        let mut ledger = Ledger::default();
        ledger.request(&execute(1), 1);
        ledger.request(&prepare(1), 2);
        assert_eq!(ledger.ended(), PhaseBytes::default());
        ledger.request(&request(1, Ask::End(Decision::Abort)), 4);
        ledger.end(attempt(1), false);
        assert_eq!(ledger.ended(), PhaseBytes { failed: 7, ..PhaseBytes::default() });
        ledger.request(&execute(2), 10);
        ledger.request(&prepare(2), 20);
        ledger.request(&request(2, Ask::End(Decision::Commit(Timestamp::ZERO))), 40);
        ledger.end(attempt(2), true);
        ledger.request(&execute(3), 100);
        // Late ones.
        ledger.answer(&ended(1), 1_000);
        ledger.answer(&ended(2), 2_000);
        ledger.request(&prepare(2), 4_000);
        ledger.request(&execute(1), 8_000);
        let sums = PhaseBytes { execution: 10, prepare: 4_020, commit: 2_040, failed: 9_007 };
        assert_eq!(ledger.ended(), sums);
        // One that was given up without a word.
        ledger.request(&execute(4), 1);
        assert_eq!(ledger.ended(), PhaseBytes { failed: 9_107, ..sums });
    }
}
