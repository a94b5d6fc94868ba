//! How often and how long a transaction is tried.

use std::time::Duration;

/// How a transaction is retried after conflicts.
///
/// The default: until it commits, with short random pauses between attempts, and with the
/// [escape](Policy::escape_after) after 64 failed ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Give up after this many attempts; `None`: never.
    pub attempts_max: Option<u32>,
    /// Give up when this much time has passed since the first attempt began, waits included; `None`:
    /// never.
    pub deadline: Option<Duration>,
    /// The pause before the second attempt is a random time up to this; each further one up to twice
    /// the one before. Zero: no pauses.
    pub backoff_min: Duration,
    /// No pause is longer than this.
    pub backoff_max: Duration,
    /// After this many failed attempts no other transaction begins a new attempt until this one has
    /// committed: it waits for those under way to end, and then runs alone, so that it commits with the
    /// next attempt. (A transaction that was begun by hand and is kept open for more than 0.1 s is not
    /// waited for, nor is any other for more than 10 s.) `None`: no escape.
    pub escape_after: Option<u32>,
    /// It is expected to write nothing, as in [`Session::view`](crate::Session::view). With a
    /// [read frontier](crate::Builder::read_frontier) its first attempt leaves no marks then. A transaction that writes after all is as
    /// right as any; it may have to be run again where it would not have been otherwise.
    pub reads_only: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            attempts_max: None,
            deadline: None,
            backoff_min: Duration::from_nanos(500),
            backoff_max: Duration::from_micros(50),
            escape_after: Some(64),
            reads_only: false,
        }
    }
}

impl Policy {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Try once; a conflict is the caller's.
    pub fn once() -> Self {
        Policy { attempts_max: Some(1), ..Self::default() }
    }
}
