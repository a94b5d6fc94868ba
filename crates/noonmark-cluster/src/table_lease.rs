//! Leases of whole tables, for those that are seldom written [Sundial §4.3].
//!
//! Whoever reads many rows of a table that nobody writes, out of copies, would have to have each of their leases extended, again and
//! again, as commit times go up. So a server extends the lease of all rows of the table at once, and by more each time.
//!
//! - *Nobody writes before its end.* A transaction that has written rows of the table commits after the lease as it is when
//!   the transaction is prepared.
//! - *It is not extended while somebody is sealed who writes the table*: once he has voted, the time at which he will commit is settled, and
//!   nobody asks him again; before, he would have to find another one, and readers could put him off for ever. (The paper has this of single
//!   rows, whose locks are looked at; here it must be said of the table.)
//! - *It holds for copies that were made since the table was last written*: so it goes with the number of writers installed so far.
//!   An extension says nothing of a copy from before one of them, which may be of what he has replaced.

use crate::message::TableLease;
use crate::planted::{Bug, Planted};
use noonmark::Timestamp;

/// When a table is taken to be one that is seldom written, and how far its lease is extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLeases {
    /// There must have been so many reads, of those that are to be kept, since the last write.
    pub reads_min: u32,
    /// The most that a lease is extended by beyond what is asked for. Each extension since the last write doubles it, from nothing on.
    pub beyond_max: u64,
}

impl Default for TableLeases {
    fn default() -> Self {
        TableLeases { reads_min: 64, beyond_max: 1 << 12 }
    }
}

/// One table of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableState {
    lease: TableLease,
    /// Transactions that are sealed, and write it.
    sealed: u32,
    /// Reads since it was last written.
    reads: u32,
    /// How far beyond what was asked for it was last extended.
    beyond: u64,
}

impl TableState {
    pub(crate) fn new() -> Self {
        TableState { lease: TableLease { writes: 0, until: Timestamp::ZERO }, sealed: 0, reads: 0, beyond: 0 }
    }

    pub(crate) fn lease(&self) -> TableLease {
        self.lease
    }

    /// Whoever writes it can commit no earlier.
    pub(crate) fn write_bound(&self) -> Timestamp {
        self.lease.until.next()
    }

    /// Something is read from it, to be kept.
    pub(crate) fn read(&mut self) {
        self.reads = self.reads.saturating_add(1);
    }

    /// A transaction that writes it is sealed.
    pub(crate) fn bar(&mut self) {
        self.sealed += 1;
    }

    /// A transaction that writes it, and was sealed, has ended.
    pub(crate) fn unbar(&mut self) {
        self.sealed = self.sealed.saturating_sub(1);
    }

    /// A transaction that writes it is installed.
    pub(crate) fn install(&mut self) {
        self.lease.writes += 1;
        (self.reads, self.beyond) = (0, 0);
    }

    /// Whether it is taken to be one that is seldom written.
    pub(crate) fn is_seldom_written(&self, options: TableLeases) -> bool {
        self.reads >= options.reads_min
    }

    /// Somebody needs it to hold until then.
    pub(crate) fn extend(&mut self, options: TableLeases, at: Timestamp, planted: Planted) {
        let is_written = self.sealed > 0 && !planted.is(Bug::TableExtendedWhileSealed);
        if is_written || !self.is_seldom_written(options) || self.lease.until >= at {
            return;
        }
        self.lease.until = Timestamp::new(at.ticks().saturating_add(self.beyond));
        self.beyond = (self.beyond * 2).max(1).min(options.beyond_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: TableLeases = TableLeases { reads_min: 1, beyond_max: 4 };

    #[test]
    fn a_lease_grows_by_more_each_time_until_the_table_is_written() {
        let mut state = TableState::new();
        let extend = |state: &mut TableState, at: u64| {
            state.extend(AT_ONCE, Timestamp::new(at), Planted::default());
            state.lease().until.ticks()
        };
        assert_eq!(extend(&mut state, 10), 0, "nobody has read it");
        state.read();
        let ends: Vec<u64> = [10, 11, 13, 16, 21, 26].map(|at| extend(&mut state, at)).into();
        assert_eq!(ends, [10, 12, 15, 20, 25, 30]);
        assert_eq!(extend(&mut state, 30), 30, "it holds until then");
        assert_eq!(state.write_bound(), Timestamp::new(31));
        state.install();
        state.read();
        assert_eq!(extend(&mut state, 40), 40);
        assert_eq!(state.lease().writes, 1);
    }

    #[test]
    fn a_lease_stays_while_a_writer_is_sealed() {
        let mut state = TableState::new();
        state.read();
        state.bar();
        state.extend(AT_ONCE, Timestamp::new(10), Planted::default());
        assert_eq!(state.lease().until, Timestamp::ZERO);
        state.unbar();
        state.extend(AT_ONCE, Timestamp::new(10), Planted::default());
        assert_eq!(state.lease().until, Timestamp::new(10));
    }
}
