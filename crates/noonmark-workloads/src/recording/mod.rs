//! Any run with its history: a store that keeps, for each transaction, what it read and what it wrote.
//!
//! [`Recording`] stands between a workload and the store that it runs on, behind the same seam
//! ([`crate::store`]), so that every workload is recorded by the same code and none knows of it. The
//! transactions are the same, under the same protocol, with the same operations in the same order. What is
//! different: each column group carries eight bytes more, the [number of its write](crate::stamp), and each
//! step is noted down. So a recorded run is slower, and its timings are not to be compared with those of others.
//!
//! What is told, in the terms of [`crate::history`]:
//!
//! | what the transaction did | what the history says |
//! |---|---|
//! | read a column group, or found no row | `["r", k, write]`, `["r", k, null]` |
//! | wrote it without reading (`write`, `upsert`) | `["w", k, write]` |
//! | updated it | the read, then the write |
//! | updated it at commit time | the same: it read what it was applied to |
//! | inserted a row; found one already | for each group read as `null`, then written; read |
//! | deleted a row; found none | for each group `["w", k, null]`; `["r", k, null]` |
//! | read a range of rows | for each group `["scan", [low, high], …]`, as far as it went |
//! | read a range of a secondary index | the same, of the index's entries |
//!
//! - *Keys*: one for each column group of each row, and one for each entry of a secondary index. A history knows
//!   keys as integers, so they are numbered in their order when the run is over; a second file, named after the
//!   history with `.keys` added, says which number is which. See [`journal`] and [`legend`].
//! - *Values*: the number of the write, whatever was written. Of an entry, that it is there: 1.
//! - *The load* is told as the transactions that it was, as far as somebody read, wrote or scanned what it made.
//! - *The checks after the run* are not told. What they say, they say as without a recording.
//!
//! A commit-time update runs when its transaction is sealed, on what is there then. It notes down what that is, so
//! an update that was lost shows as an anomaly; see `slate.rs`.
//!
//! What it does not do: see values (a workload's own conditions do: sums, orders, counts), or tell a write that
//! found a row there (`write`, `delete`) from one that knew which: that would be more than the transaction knew.

mod index;
pub mod journal;
pub mod legend;
mod rows;
mod slate;
mod watch;

use std::ops::Range;
use std::sync::Arc;

use crate::store::{
    Conflicts, Counts, Failure, Part, Scope, Session, Store, StoreError, StoreKey, StoreRow, TableSpec,
    TxnResult,
};
use journal::Journal;
use slate::Slate;

pub use index::RecordingIndex;
pub use rows::RecordingRows;
pub use watch::Watched;

/// A store that records what is done to the one within. Cloning it makes another handle.
#[derive(Clone)]
pub struct Recording<S> {
    store: S,
    journal: Arc<Journal>,
}

impl<S: Store> Recording<S> {
    /// A recording of a store that has no tables yet.
    pub fn new(store: S) -> Self {
        Recording { store, journal: Arc::default() }
    }

    /// What was recorded by the sessions that have ended.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }
}

/// The scope of the store within.
#[derive(Clone)]
pub struct RecordingScope<S: Store>(S::Scope);

impl<S: Store> Scope<Recording<S>> for RecordingScope<S> {
    fn reads<K: StoreKey, R: StoreRow>(self, table: &<Recording<S> as Store>::Table<K, R>) -> Self {
        RecordingScope(self.0.reads::<K, R::Stamped>(&table.rows))
    }

    fn writes<K: StoreKey, R: StoreRow>(self, table: &<Recording<S> as Store>::Table<K, R>) -> Self {
        RecordingScope(self.0.writes::<K, R::Stamped>(&table.rows))
    }
}

/// A session that notes down its transactions. What it noted goes to the journal when it ends.
pub struct RecordingSession<S: Store> {
    session: S::Session,
    journal: Arc<Journal>,
    /// `None` while a transaction runs, which has it then, and once nothing is to be recorded any more.
    slate: Option<Box<Slate>>,
}

impl<S: Store> RecordingSession<S> {
    /// What follows is the load.
    pub fn loads(&mut self) {
        if let Some(slate) = &mut self.slate {
            slate.loads = true;
        }
    }

    /// What follows is not recorded.
    pub fn stop(&mut self) {
        if let Some(slate) = self.slate.take() {
            self.journal.keep(*slate);
        }
    }

    /// Runs a transaction and notes it down. The closure is not told apart from others, so that all of the store
    /// within that runs a transaction is compiled once: a recorded run need not be fast.
    fn recorded(
        &mut self,
        attempts_max: Option<u32>,
        scope: &RecordingScope<S>,
        body: &mut dyn FnMut(&mut S::Txn<'_>) -> TxnResult<S, ()>,
    ) -> TxnResult<S, ()> {
        let is_recorded = self.slate.is_some();
        if let Some(slate) = self.slate.take() {
            slate::put(slate);
        }
        let attempt = |tx: &mut S::Txn<'_>| {
            slate::with(Slate::restart);
            body(tx)
        };
        let ended = match attempts_max {
            None => self.session.run(&scope.0, attempt),
            Some(attempts_max) => self.session.run_up_to(attempts_max, &scope.0, attempt),
        };
        if is_recorded {
            self.slate = slate::take(ended.is_ok());
        }
        ended
    }

    fn recorded_for<T>(
        &mut self,
        attempts_max: Option<u32>,
        scope: &RecordingScope<S>,
        mut body: impl FnMut(&mut S::Txn<'_>) -> TxnResult<S, T>,
    ) -> TxnResult<S, T> {
        let mut answer = None;
        self.recorded(attempts_max, scope, &mut |tx| {
            answer = Some(body(tx)?);
            Ok(())
        })?;
        // It has committed, so it has answered.
        answer.ok_or(Failure::Rollback)
    }
}

impl<S: Store> Drop for RecordingSession<S> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<S: Store> Session<Recording<S>> for RecordingSession<S> {
    fn run<T>(
        &mut self,
        scope: &RecordingScope<S>,
        body: impl FnMut(&mut S::Txn<'_>) -> TxnResult<Recording<S>, T>,
    ) -> TxnResult<Recording<S>, T> {
        self.recorded_for(None, scope, body)
    }

    fn run_up_to<T>(
        &mut self,
        attempts_max: u32,
        scope: &RecordingScope<S>,
        body: impl FnMut(&mut S::Txn<'_>) -> TxnResult<Recording<S>, T>,
    ) -> TxnResult<Recording<S>, T> {
        self.recorded_for(Some(attempts_max), scope, body)
    }

    fn counts(&self) -> Counts {
        self.session.counts()
    }

    fn take_attempts_max(&mut self) -> u64 {
        self.session.take_attempts_max()
    }
}

impl<S: Store> Store for Recording<S> {
    type Table<K: StoreKey, R: StoreRow> = RecordingRows<S, R, S::Table<K, R::Stamped>>;
    type Group<K: StoreKey, R: Part<I>, const I: usize> =
        RecordingRows<S, R::Group, S::Group<K, R::StampedRow, I>>;
    type Index<X: StoreKey, K: StoreKey, R: StoreRow> = RecordingIndex<S::Index<X, K, R::Stamped>>;
    type Scope = RecordingScope<S>;
    type Session = RecordingSession<S>;
    type Txn<'a> = S::Txn<'a>;
    type Found<'a, 'k, K: StoreKey> = S::Found<'a, 'k, K>;
    type Abort = S::Abort;

    fn table<K: StoreKey, R: StoreRow>(&self, spec: &TableSpec) -> Result<Self::Table<K, R>, StoreError> {
        let rows = self.store.table::<K, R::Stamped>(spec)?;
        let groups = (0..).zip(R::names()).map(|(number, group)| Some((number, group.to_owned())));
        let spaces = self.journal.add_spaces::<K>(&spec.name, groups);
        Ok(RecordingRows::new(rows, spaces, Arc::default()))
    }

    fn group<K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &Self::Table<K, R>,
    ) -> Self::Group<K, R, I> {
        let rows = self.store.group::<K, R::StampedRow, I>(&table.rows);
        RecordingRows::new(rows, within(&table.spaces, I), table.kept.clone())
    }

    fn index<X: StoreKey, K: StoreKey, R: StoreRow>(
        &self,
        table: &Self::Table<K, R>,
        name: &str,
        extract: impl Fn(&K, &R) -> X + Send + Sync + 'static,
    ) -> Result<Self::Index<X, K, R>, StoreError> {
        let extract = Arc::new(extract);
        let kept = extract.clone();
        let index = self.store.index(&table.rows, name, move |key: &K, row: &R::Stamped| {
            extract(key, &R::unstamped(row.clone()).0)
        })?;
        let key_of = move |key: &K, row: R::Stamped| kept(key, &R::unstamped(row).0);
        Ok(self.keep(index, table, &table.rows, table.spaces.clone(), name, key_of))
    }

    fn group_index<X: StoreKey, K: StoreKey, R: Part<I>, const I: usize>(
        &self,
        table: &Self::Table<K, R>,
        name: &str,
        extract: impl Fn(&K, &R::Group) -> X + Send + Sync + 'static,
    ) -> Result<Self::Index<X, K, R>, StoreError> {
        let extract = Arc::new(extract);
        let kept = extract.clone();
        let index =
            self.store.group_index::<X, K, R::StampedRow, I>(&table.rows, name, move |key, group| {
                extract(key, &group.value)
            })?;
        let group = self.store.group::<K, R::StampedRow, I>(&table.rows);
        let key_of = move |key: &K, group: crate::stamp::Stamped<R::Group>| kept(key, &group.value);
        Ok(self.keep(index, table, &group, within(&table.spaces, I), name, key_of))
    }

    fn scope(&self) -> RecordingScope<S> {
        RecordingScope(self.store.scope())
    }

    fn session(&self) -> Result<RecordingSession<S>, StoreError> {
        let (session, journal) = (self.store.session()?, self.journal.clone());
        let slate = Some(Box::new(Slate::new(journal.clone())));
        Ok(RecordingSession { session, journal, slate })
    }

    fn conflicts(&self) -> Conflicts {
        self.store.conflicts()
    }

    fn is_conflict(abort: &S::Abort) -> bool {
        S::is_conflict(abort)
    }
}

/// The space of column group `number` of a row.
fn within(spaces: &Range<u16>, number: usize) -> Range<u16> {
    let space = spaces.start + number as u16;
    space..space + 1
}
