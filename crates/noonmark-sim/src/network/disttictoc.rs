//! DistTicToc's two workloads, at workers that share nothing [DistTicToc §2.2, §2.3].
//!
//! Each worker has one thread, one partition, by hash, and one queue; clients are sessions elsewhere, each with one transaction at a time.
//!
//! - *Read-only*: a transaction reads one row of ten fields of ten bytes, drawn evenly.
//! - *Transfers*: a transaction reads some accounts, drawn evenly, moves money between them, and writes all of them.
//!
//! # The working set
//!
//! In the paper's transactions all that is read is written, too, so it has one *combined* working set instead of a read set and a write
//! set, and one timestamp for each row instead of two [DistTicToc §2.4.2]. What that comes to here:
//!
//! - *Combined*: each row is read to be written. It has one entry, and the lock that it is sealed with is the check that it still
//!   is the version that was read: nothing is left to validate, and nothing only looks. So sealing and validating are one round,
//!   in any order.
//! - *Apart*: each row is read as one that may only be read, and written beside. It has two entries, and what was read is validated at the
//!   commit time, after all is locked.
//! - Both send as much. In logical order that is the same number of rounds, too, as a read holds for a span of time and needs not be looked at
//!   after everything is sealed everywhere. In momentary order those whose sets are apart need a round more. (The paper has the rounds apart in
//!   either form, and says that its simplification changes no communication.)
//! - Combined it holds *only* for transactions that write all that they read. Whoever only read a row would lock it, and keep out others who
//!   only read it.
//!
//! The paper's single timestamp is not taken over: a row's versions and read times stay apart, as other transactions may read only.
//!
//! What it does not do: run the paper's rivals, which are programs of others.

use super::store::{ClusterSession, ClusterSpec, ClusterStore, now};
use super::ycsb::{ClusterMeasured, Counted};
use crate::Picoseconds;
use crate::experiment::{self, ExperimentError, Job, Left, Outcome, Plan};
use noonmark::SESSIONS_MAX;
use noonmark_cluster::client::{ClusterAbort, Table};
use noonmark_cluster::partition::Partitioning;
use noonmark_cluster::phases::PhaseTimes;
use noonmark_workloads::random::Random;
use noonmark_workloads::store::{IndexKind, Session, Store, Table as _, TableSpec};
use noonmark_workloads::workload::{Condition, RunError};
use std::cell::Cell;

noonmark_workloads::column_group! {
    /// Ten fields of ten bytes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Texts {
        /// All of them.
        pub fields: [[u8; 10]; 10],
    }
}

/// What every account begins with.
const OPENING_BALANCE: i64 = 1_000;

/// Where what is read stands, of transactions that write all that they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkingSet {
    /// With what is written.
    Combined,
    /// In a set of its own.
    Apart,
}

/// What transactions do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistTicTocSpec {
    /// Rows, of all workers together.
    pub rows: u64,
    /// Accounts of a transfer; none: transactions read one row, and write nothing.
    pub accounts: Option<usize>,
    /// Whether a transfer's accounts are asked for all together, with one message to each worker; if not, one by one.
    pub together: bool,
    /// Where what it reads stands.
    pub working_set: WorkingSet,
}

/// Runs it with `plan.workers` clients.
///
/// # Errors
/// [`ExperimentError`].
pub fn run(
    cluster: ClusterSpec,
    spec: DistTicTocSpec,
    plan: &Plan,
) -> Result<ClusterMeasured, ExperimentError> {
    let accounts = spec.accounts.unwrap_or(1);
    if accounts == 0 || accounts as u64 > spec.rows {
        let words = format!("{accounts} different accounts of {} for a transaction", spec.rows);
        return Err(RunError::Setting(words).into());
    }
    let clients = plan.workers;
    let cluster = ClusterSpec {
        partitioning: Partitioning::Hash { prefix_bytes: 8 },
        // A client may leave a branch behind at each worker.
        branches_max: (clients + 2).min(SESSIONS_MAX),
        ..cluster
    };
    noonmark_workloads::driver::memory::check(spec.rows * 300)?;
    let store = ClusterStore::new(cluster, plan.seed).map_err(RunError::from)?;
    let table = |name| TableSpec::new(name).index(IndexKind::Hash).expected_rows(spec.rows);
    let texts: Table<u64, Texts> = store.table(&table("usertable")).map_err(RunError::from)?;
    let balances: Table<u64, i64> = store.table(&table("accounts")).map_err(RunError::from)?;
    let mut loader = store.session().map_err(RunError::from)?;
    for first in (0..spec.rows).step_by(64) {
        let load = loader.run(&store.scope(), |tx| {
            for row in first..spec.rows.min(first + 64) {
                if spec.accounts.is_some() {
                    balances.insert(tx, &row, OPENING_BALANCE)?;
                } else {
                    texts.insert(tx, &row, Texts { fields: [[b'x'; 10]; 10] })?;
                }
            }
            Ok(())
        });
        load.map_err(|failure| RunError::transaction("loading", failure))?;
    }
    let times = Cell::default();
    let job = OfDistTicToc { store: &store, texts, balances: balances.clone(), spec, times: &times };
    let seats = (0..clients).map(|number| Random::new(plan.seed, number as u64 + 1)).collect();
    let done =
        experiment::measure_by(store.cores(), &job, seats, plan, |limits, bodies| store.run(limits, bodies))?;
    let mut found = ClusterMeasured::of(done, times.get(), plan);
    // (A run that was ended early has left transactions behind that have been decided, and not been installed everywhere.)
    if spec.accounts.is_some() && found.measured.limit.is_none() {
        let mut total = 0;
        for first in (0..spec.rows).step_by(64) {
            let some: Vec<u64> = (first..spec.rows.min(first + 64)).collect();
            let read = loader.run(&store.scope(), |tx| Ok(now(tx.get_many(&balances, &some))??));
            let read = read.map_err(|failure| RunError::transaction("looking at the balances", failure))?;
            total += read.into_iter().flatten().sum::<i64>();
        }
        let expected = spec.rows as i64 * OPENING_BALANCE;
        let words = format!("all balances come to {total}, and were {expected} at first");
        found.measured.conditions.push(Condition { words, holds: total == expected });
    }
    Ok(found)
}

struct OfDistTicToc<'a> {
    store: &'a ClusterStore,
    texts: Table<u64, Texts>,
    balances: Table<u64, i64>,
    spec: DistTicTocSpec,
    /// Of the transactions that have ended within the measured time.
    times: &'a Cell<PhaseTimes>,
}

struct Seated {
    session: ClusterSession,
    random: Random,
    /// Different accounts, and whether each is read to be written.
    accounts: Vec<(u64, bool)>,
    /// What each is given.
    parts: Vec<i64>,
}

impl OfDistTicToc<'_> {
    /// Draws the accounts of a transfer, and what each is given: nothing in all.
    fn draw(&self, seated: &mut Seated, count: usize) {
        let Seated { random, accounts, parts, .. } = seated;
        accounts.clear();
        parts.clear();
        while accounts.len() < count {
            let row = random.below(self.spec.rows);
            if accounts.iter().all(|(account, _)| *account != row) {
                accounts.push((row, self.spec.working_set == WorkingSet::Combined));
                parts.push(random.below(100) as i64 - 50);
            }
        }
        let others: i64 = parts.iter().skip(1).sum();
        parts[0] = -others;
    }
}

impl Job for OfDistTicToc<'_> {
    type Worker = Random;
    type Seated = Seated;
    type Counts = Counted;

    fn begin(&self, random: Random) -> Result<Seated, RunError> {
        Ok(Seated { session: self.store.session()?, random, accounts: Vec::new(), parts: Vec::new() })
    }

    fn execute(&self, seated: &mut Seated) -> Result<Outcome, RunError> {
        let ended = match self.spec.accounts {
            None => {
                let row = seated.random.below(self.spec.rows);
                let texts = &self.texts;
                now(seated.session.client().transact(async |tx| {
                    tx.need(texts, &row).await?;
                    Ok(())
                }))
            }
            Some(count) => {
                self.draw(seated, count);
                let Seated { session, accounts, parts, .. } = seated;
                let (balances, spec) = (&self.balances, self.spec);
                now(session.client().transact(async |tx| {
                    let give = |at: usize, balance: &mut i64| *balance += parts[at];
                    match (spec.working_set, spec.together) {
                        (WorkingSet::Combined, true) => tx.access_many(balances, accounts, give).await?,
                        (WorkingSet::Combined, false) => {
                            for (at, (row, _)) in accounts.iter().enumerate() {
                                tx.update(balances, row, |balance| give(at, balance)).await?;
                            }
                        }
                        (WorkingSet::Apart, true) => {
                            let mut read = Vec::new();
                            let keep = |_: usize, balance: &mut i64| read.push(*balance);
                            tx.access_many(balances, accounts, keep).await?;
                            for (at, ((row, _), mut balance)) in accounts.iter().zip(read).enumerate() {
                                give(at, &mut balance);
                                tx.write_later(balances, row, balance).await?;
                            }
                        }
                        (WorkingSet::Apart, false) => {
                            for (at, (row, _)) in accounts.iter().enumerate() {
                                let mut balance = tx.need(balances, row).await?;
                                give(at, &mut balance);
                                tx.write_later(balances, row, balance).await?;
                            }
                        }
                    }
                    Ok(())
                }))
            }
        };
        seated.session.count_refusals();
        match ended.and_then(|ended| ended) {
            Ok(()) => Ok(Outcome::Committed),
            // The run is over.
            Err(ClusterAbort::Closed) => Ok(Outcome::Failed),
            Err(abort) if abort.is_retryable() => Ok(Outcome::Failed),
            Err(abort) => Err(RunError::transaction("a transaction", abort)),
        }
    }

    fn note_end(&self, seated: &mut Seated, counts: bool) -> Option<Picoseconds> {
        let of_one = seated.session.client().take_times();
        if counts {
            let mut times = self.times.get();
            times += of_one;
            self.times.set(times);
        }
        None
    }

    fn end(&self, mut seated: Seated) -> Left {
        seated.session.settle();
        Left::nothing(seated.session.take_attempts_max())
    }

    fn counts(&self) -> Counted {
        Counted::on(self.store)
    }
}
