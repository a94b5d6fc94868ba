//! What a transaction's time goes into, phase by phase, as Sundial has it [Sundial §6.3, Figures 7b and 10c].
//!
//! - *Execution*: from the beginning of the attempt that commits until its client asks for the commit.
//! - *Prepare*: from then until it is decided: sealing, validating and, if it is asked for a later commit time, doing so again. If one
//!   participant decides alone, its commit is in here, too: there is no other phase.
//! - *Commit*: from then until the client goes on. Unless it is told to [wait](crate::Client::with_told_commits) until everybody knows, as the
//!   paper's does, a client goes on once it is decided, and those who are prepared are told meanwhile; so this is what it takes to install
//!   what is at home, and no round trip.
//! - *Failed*: attempts that did not commit, from their beginning until everybody is being told of it.
//! - *Paused*: between attempts.
//!
//! Nothing else happens between the beginning of a transaction and its end: the five are its latency.
//!
//! What it does not do: look at a clock. It is told the time.

use crate::message::{Answer, Ask, Reply, Request, Step, StepOutcome, Work};

/// A phase of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Operations.
    Execution,
    /// Sealing and validating; of a participant that decides alone, installing, too.
    Prepare,
    /// Being told that it has committed.
    Commit,
}

impl Phase {
    /// The one that a request is of, if its attempt commits.
    pub fn of_request(request: &Request) -> Phase {
        match request.ask {
            Ask::Work(_, Step::Execute) => Phase::Execution,
            Ask::Work(..) => Phase::Prepare,
            Ask::End(_) => Phase::Commit,
        }
    }

    /// The one that an answer is of, if its attempt commits. (One that refuses is of none, as its attempt does not.)
    pub fn of_answer(answer: &Answer) -> Phase {
        match answer.reply {
            Reply::Worked(Work { step: StepOutcome::Executed, .. }) | Reply::Refused(_) => Phase::Execution,
            Reply::Worked(_) => Phase::Prepare,
            Reply::Ended => Phase::Commit,
        }
    }
}

/// What the time of transactions went into, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTimes {
    /// Of the attempts that committed, the operations.
    pub execution_ns: u64,
    /// Their sealing and validating.
    pub prepare_ns: u64,
    /// Their end, once it was decided.
    pub commit_ns: u64,
    /// Attempts that did not commit, whatever they were doing.
    pub failed_ns: u64,
    /// Pauses between attempts.
    pub paused_ns: u64,
}

impl PhaseTimes {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.execution_ns + self.prepare_ns + self.commit_ns + self.failed_ns + self.paused_ns
    }
}

impl std::ops::AddAssign for PhaseTimes {
    fn add_assign(&mut self, other: Self) {
        let PhaseTimes { execution_ns, prepare_ns, commit_ns, failed_ns, paused_ns } = other;
        self.execution_ns += execution_ns;
        self.prepare_ns += prepare_ns;
        self.commit_ns += commit_ns;
        self.failed_ns += failed_ns;
        self.paused_ns += paused_ns;
    }
}

/// Takes the times of one client's transactions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stopwatch {
    /// What is under way; none between transactions.
    under_way: Option<UnderWay>,
    since_ns: u64,
    /// Of the attempt that runs.
    attempt: PhaseTimes,
    /// Of what has ended.
    ended: PhaseTimes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnderWay {
    Phase(Phase),
    Pause,
}

impl Stopwatch {
    /// From now on, an attempt is in this phase.
    pub(crate) fn enter(&mut self, now_ns: u64, phase: Phase) {
        self.turn_to(now_ns, Some(UnderWay::Phase(phase)));
    }

    /// The attempt has ended. Either the transaction has with it, or it pauses.
    pub(crate) fn end(&mut self, now_ns: u64, committed: bool, pauses: bool) {
        self.turn_to(now_ns, pauses.then_some(UnderWay::Pause));
        let attempt = std::mem::take(&mut self.attempt);
        match committed {
            true => self.ended += attempt,
            false => self.ended.failed_ns += attempt.total_ns(),
        }
    }

    /// What has ended since this was last asked.
    pub(crate) fn take(&mut self) -> PhaseTimes {
        std::mem::take(&mut self.ended)
    }

    fn turn_to(&mut self, now_ns: u64, next: Option<UnderWay>) {
        let took_ns = now_ns.saturating_sub(self.since_ns);
        match self.under_way {
            None => {}
            Some(UnderWay::Phase(Phase::Execution)) => self.attempt.execution_ns += took_ns,
            Some(UnderWay::Phase(Phase::Prepare)) => self.attempt.prepare_ns += took_ns,
            Some(UnderWay::Phase(Phase::Commit)) => self.attempt.commit_ns += took_ns,
            Some(UnderWay::Pause) => self.ended.paused_ns += took_ns,
        }
        (self.under_way, self.since_ns) = (next, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All time between the first beginning and the commit is in one of the five, and none beside.
    #[test]
    fn the_five_are_the_latency() {
        let mut watch = Stopwatch::default();
        watch.enter(1_000, Phase::Execution);
        watch.enter(1_100, Phase::Prepare);
        watch.end(1_130, false, true);
        watch.enter(1_200, Phase::Execution);
        watch.enter(1_500, Phase::Prepare);
        watch.enter(1_507, Phase::Commit);
        watch.end(1_509, true, false);
        let times =
            PhaseTimes { execution_ns: 300, prepare_ns: 7, commit_ns: 2, failed_ns: 130, paused_ns: 70 };
        assert_eq!(watch.take(), times);
        assert_eq!(times.total_ns(), 509);
        // Nothing runs between transactions.
        watch.enter(9_000, Phase::Execution);
        watch.end(9_001, true, false);
        assert_eq!(watch.take(), PhaseTimes { execution_ns: 1, ..PhaseTimes::default() });
    }
}
