//! What a rule may answer.
//!
//! A rule never waits, sleeps, spins or retries: it looks at one record and says what it found. The
//! host decides what becomes of it.

/// The answer of a rule.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<T, C> {
    /// Granted.
    Ready(T),
    /// Another transaction is in a short critical section here: ask again soon, a bounded number of
    /// times; the conflict is what to abort with when patience ends.
    Busy(C),
    /// Another transaction must finish first: leave a waker in the waiting room and ask again when
    /// woken.
    Wait(WaitFor, C),
    /// An older transaction is in the way, and the younger does not wait for it [wait-die]: this one cannot go on. A host that
    /// knows that the other waits for nobody any more may ask again once that one is over.
    Die(C),
    /// This transaction cannot go on.
    Abort(C),
}

impl<T, C> Step<T, C> {
    /// The same answer, with what was granted turned into something else.
    #[inline(always)]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Step<U, C> {
        match self.granted() {
            Ok(value) => Step::Ready(f(value)),
            Err(other) => other,
        }
    }

    /// The same answer, with another question in place of what was granted.
    #[inline(always)]
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Step<U, C>) -> Step<U, C> {
        match self.granted() {
            Ok(value) => f(value),
            Err(other) => other,
        }
    }

    /// What was granted, or the answer as that to another question. What is granted is the common case, and so comes first in
    /// the code: one comparison instead of a choice among all answers.
    #[inline(always)]
    fn granted<U>(self) -> Result<T, Step<U, C>> {
        match self {
            Step::Ready(value) => Ok(value),
            other => {
                std::hint::cold_path();
                Err(match other {
                    Step::Ready(value) => return Ok(value),
                    Step::Busy(conflict) => Step::Busy(conflict),
                    Step::Wait(on, conflict) => Step::Wait(on, conflict),
                    Step::Die(conflict) => Step::Die(conflict),
                    Step::Abort(conflict) => Step::Abort(conflict),
                })
            }
        }
    }
}

/// What a transaction waits for: a place in memory whose holder will wake those who wait for it; and how it does.
///
/// Only a key into the [waiting room](crate::room); never dereferenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitFor(usize);

impl WaitFor {
    /// Places are aligned, so that their lowest bit is free.
    const SHARES: usize = 1;

    /// The release of whatever is guarded at this place.
    #[inline]
    pub fn release_of<T>(place: &T) -> Self {
        const { assert!(align_of::<T>() > Self::SHARES) }
        WaitFor(std::ptr::from_ref(place) as usize)
    }

    /// By one who will not keep others out that want no more than he does: they can be let in together.
    #[inline]
    pub fn to_share(self) -> Self {
        WaitFor(self.0 | Self::SHARES)
    }

    #[inline]
    pub(crate) fn shares(self) -> bool {
        self.0 & Self::SHARES != 0
    }

    /// What is waited for, however that is done.
    #[inline]
    pub(crate) fn place(self) -> usize {
        self.0 & !Self::SHARES
    }

    #[inline]
    pub(crate) fn from_key(key: usize) -> Self {
        WaitFor(key)
    }

    /// A number for hashing and comparing.
    #[inline]
    pub fn key(self) -> usize {
        self.0
    }
}
