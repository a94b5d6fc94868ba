//! YCSB on a cluster, as Sundial has it [Sundial §6.1]: sixteen accesses to rows of one kilobyte, one of ten a write, one of ten to
//! another server.
//!
//! Each server has as many rows as any other, and a transaction takes each of its rows at home or, by the share of remote ones, from one
//! of the other servers; which of that server's rows is drawn by a power law. All rows of a transaction are different.
//!
//! With an *abort buffer* [Sundial §6] a worker puts a transaction that has failed aside, until its pause is over, and runs another one
//! meanwhile: of those whose pause is over the one that has waited longest, or a new one, if there is room for one more that fails. So as
//! many are at work as there are workers, however many fail.
//!
//! What it does not do: insert, delete and scan.

use super::store::{ClusterSession, ClusterSpec, ClusterStore, now};
use super::{PhaseBytes, Traffic};
use crate::Picoseconds;
use crate::experiment::{self, Done, ExperimentError, Job, Measured, Outcome, Plan};
use noonmark::{Age, SESSIONS_MAX};
use noonmark_cluster::cache::CacheCounts;
use noonmark_cluster::client::{ClusterAbort, Policy, Table};
use noonmark_cluster::partition::Partitioning;
use noonmark_cluster::phases::PhaseTimes;
use noonmark_core::Host;
use noonmark_workloads::distribution::{PowerLaw, Scattered};
use noonmark_workloads::random::Random;
use noonmark_workloads::store::{Conflicts, IndexKind, Session, Store, Table as _, TableSpec};
use noonmark_workloads::workload::RunError;
use std::cell::Cell;
use std::collections::BTreeMap;

noonmark_workloads::column_group! {
    /// Ten columns of a hundred bytes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Fields {
        /// Of which a write changes the first.
        pub fields: [[u8; 100]; 10],
    }
}

/// What transactions do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YcsbSpec {
    /// Rows of each server.
    pub rows: u64,
    /// Accesses of a transaction.
    pub accesses: usize,
    /// How many of a thousand are writes, which read the row that they change.
    pub writes_permille: u16,
    /// How many of a hundred are to another server.
    pub remote_percent: u8,
    /// The exponent of the power law that rows are read by.
    pub reads_theta: f64,
    /// That of the one that they are written by.
    pub writes_theta: f64,
    /// Whether the rows of a transaction are asked for all together, with one message to each server; if not, one by one.
    pub together: bool,
    /// How many transactions that have failed a worker keeps aside, each until its pause is over, while it runs others. None: the worker
    /// pauses with its transaction.
    pub abort_buffer: usize,
}

/// What a run came to, beside what is measured of any.
#[derive(Clone, Debug)]
pub struct ClusterMeasured {
    /// That.
    pub measured: Measured,
    /// Messages between servers.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// What the time went into of the transactions that committed.
    pub times: PhaseTimes,
    /// What the bytes were sent for, of the attempts that ended.
    pub phase_bytes: PhaseBytes,
    /// What caches have counted.
    pub cache: CacheCounts,
}

impl ClusterMeasured {
    /// What has come out of a run, and was counted before and after.
    pub(super) fn of(done: Done<Counted>, times: PhaseTimes, plan: &Plan) -> Self {
        let (before, after) = (done.before, done.after);
        let rules = rules_between(&before.conflicts, &after.conflicts);
        let measured = Measured {
            seconds: plan.measured_ps as f64 / 1e12,
            committed: done.tally.committed,
            user_rollbacks: done.tally.user_rollbacks,
            aborted: rules.values().sum(),
            conflicts: Conflicts { rules, hottest: Vec::new() },
            attempts_max: done.tally.attempts_max,
            clock_increments: None,
            irrevocable: None,
            latencies_ns: done.tally.latencies_ns,
            lines: done.lines,
            steps: done.report.steps,
            limit: done.report.limit,
            stuck: done.tally.stuck,
            conditions: Vec::new(),
        };
        ClusterMeasured {
            measured,
            messages: after.traffic.remote_messages - before.traffic.remote_messages,
            bytes: after.traffic.remote_bytes - before.traffic.remote_bytes,
            times,
            phase_bytes: after.phase_bytes - before.phase_bytes,
            cache: after.cache - before.cache,
        }
    }
}

/// Runs it: `plan.workers` clients on each server.
///
/// # Errors
/// [`ExperimentError`].
pub fn run(cluster: ClusterSpec, spec: YcsbSpec, plan: &Plan) -> Result<ClusterMeasured, ExperimentError> {
    let servers = cluster.servers;
    // As a server's rows begin with its number.
    let bounds = (1..servers).map(|server| server.to_be_bytes().to_vec()).collect();
    let clients = usize::from(servers) * plan.workers;
    let (policy, new_ages) = (cluster.policy.clone(), cluster.new_ages);
    let cluster = ClusterSpec {
        partitioning: Partitioning::Ranges(bounds),
        // A client may leave a branch behind at each server; beyond that, the oldest are forgotten.
        branches_max: (clients + 2).min(SESSIONS_MAX),
        ..cluster
    };
    noonmark_workloads::driver::memory::check(spec.rows * u64::from(servers) * 1_150)?;
    let store = ClusterStore::new(cluster, plan.seed).map_err(RunError::from)?;
    let table_spec = TableSpec::new("usertable").index(IndexKind::Hash).expected_rows(spec.rows);
    let table: Table<(u16, u64), Fields> = store.table(&table_spec).map_err(RunError::from)?;
    let mut loader = store.session().map_err(RunError::from)?;
    for server in 0..servers {
        for first in (0..spec.rows).step_by(64) {
            let load = loader.run(&store.scope(), |tx| {
                for row in first..spec.rows.min(first + 64) {
                    table.insert(tx, &(server, row), Fields { fields: [[b'x'; 100]; 10] })?;
                }
                Ok(())
            });
            load.map_err(|failure| RunError::transaction("loading", failure))?;
        }
    }
    let law = |theta| PowerLaw::new(spec.rows, theta).map_err(|error| RunError::Setting(error.to_string()));
    let (reads, writes) = (law(spec.reads_theta)?, law(spec.writes_theta)?);
    let scattered = Scattered::new(spec.rows);
    let times = Cell::default();
    let job = OfYcsb {
        store: &store,
        table,
        spec,
        servers,
        reads,
        writes,
        scattered,
        times: &times,
        policy,
        new_ages,
    };
    let seats = (0..clients).map(|number| Random::new(plan.seed, number as u64 + 1)).collect();
    let done =
        experiment::measure_by(store.cores(), &job, seats, plan, |limits, bodies| store.run(limits, bodies))?;
    Ok(ClusterMeasured::of(done, times.get(), plan))
}

fn rules_between(before: &Conflicts, after: &Conflicts) -> BTreeMap<String, u64> {
    let since = |(rule, count): (&String, &u64)| {
        let count = count - before.rules.get(rule).copied().unwrap_or(0);
        (count > 0).then(|| (rule.clone(), count))
    };
    after.rules.iter().filter_map(since).collect()
}

struct OfYcsb<'a> {
    store: &'a ClusterStore,
    table: Table<(u16, u64), Fields>,
    spec: YcsbSpec,
    servers: u16,
    reads: PowerLaw,
    writes: PowerLaw,
    scattered: Scattered,
    /// Of the transactions that have ended within the measured time.
    times: &'a Cell<PhaseTimes>,
    policy: Policy,
    new_ages: bool,
}

/// What has been counted up to some time.
#[derive(Clone)]
pub(super) struct Counted {
    conflicts: Conflicts,
    traffic: Traffic,
    phase_bytes: PhaseBytes,
    cache: CacheCounts,
}

impl Counted {
    /// On this cluster, up to now.
    pub(super) fn on(store: &ClusterStore) -> Self {
        Counted {
            conflicts: store.conflicts(),
            traffic: store.network().traffic(),
            phase_bytes: store.network().phase_bytes(),
            cache: store.cache_counts(),
        }
    }
}

/// A row, by its server and its number there, and whether it is written.
type Access = ((u16, u64), bool);

struct Seated {
    session: ClusterSession,
    home: u16,
    random: Random,
    rows: Vec<Access>,
    /// What has failed, and is to be run again.
    waiting: Vec<Waiting>,
    /// When the transaction that has just ended began, and what its time went into, if others have been run meanwhile.
    ended: Option<(u64, PhaseTimes)>,
}

/// A transaction that has failed.
struct Waiting {
    rows: Vec<Access>,
    age: Age,
    began_ns: u64,
    /// When its pause is over.
    due_ns: u64,
    times: PhaseTimes,
}

impl OfYcsb<'_> {
    /// Draws the rows of a transaction.
    fn draw(&self, seated: &mut Seated) {
        let Seated { home, random, rows, .. } = seated;
        rows.clear();
        while rows.len() < self.spec.accesses {
            let is_remote = self.servers > 1 && random.below(100) < u64::from(self.spec.remote_percent);
            let server = match is_remote {
                true => {
                    ((u64::from(*home) + 1 + random.below(u64::from(self.servers) - 1))
                        % u64::from(self.servers)) as u16
                }
                false => *home,
            };
            let is_write = random.below(1_000) < u64::from(self.spec.writes_permille);
            let law = if is_write { &self.writes } else { &self.reads };
            let row = self.scattered.place(law.draw(random));
            if rows.iter().all(|(key, _)| *key != (server, row)) {
                rows.push(((server, row), is_write));
            }
        }
    }

    /// Runs the transaction that has been drawn.
    fn transact(&self, seated: &mut Seated, age: Age) -> Result<(), ClusterAbort> {
        let Seated { session, rows, .. } = seated;
        let (table, together) = (&self.table, self.spec.together);
        let ended = now(session.client().transact_aged(age, async |tx| {
            let change = |at: usize, row: &mut Fields| {
                if rows[at].1 {
                    row.fields[0][0] = row.fields[0][0].wrapping_add(1);
                }
            };
            if together {
                return tx.access_many(table, rows, change).await;
            }
            for (at, (key, is_write)) in rows.iter().enumerate() {
                if *is_write {
                    tx.update(table, key, |row| change(at, row)).await?;
                } else {
                    tx.need(table, key).await?;
                }
            }
            Ok(())
        }));
        session.count_refusals();
        ended.and_then(|ended| ended)
    }

    /// Runs transactions, those that have failed before among them, until one commits.
    fn execute_some(&self, seated: &mut Seated) -> Result<Outcome, RunError> {
        let cores = self.store.cores();
        while !cores.is_over() {
            let now_ns = cores.now_ns();
            let first = (0..seated.waiting.len()).min_by_key(|&at| seated.waiting[at].due_ns);
            let is_full = seated.waiting.len() >= self.spec.abort_buffer;
            let mut one = match first.filter(|&at| is_full || seated.waiting[at].due_ns <= now_ns) {
                Some(at) => seated.waiting.swap_remove(at),
                None => {
                    self.draw(seated);
                    let rows = std::mem::take(&mut seated.rows);
                    let age = seated.session.client().new_age();
                    Waiting { rows, age, began_ns: now_ns, due_ns: now_ns, times: PhaseTimes::default() }
                }
            };
            // (If there is room for no more.)
            let paused = now(seated.session.client().pause_until(one.due_ns));
            std::mem::swap(&mut seated.rows, &mut one.rows);
            let ended = paused.and_then(|()| self.transact(seated, one.age));
            std::mem::swap(&mut seated.rows, &mut one.rows);
            one.times += seated.session.client().take_times();
            let ended_ns = cores.now_ns();
            match ended {
                Ok(()) => {
                    one.times.paused_ns = (ended_ns - one.began_ns).saturating_sub(one.times.total_ns());
                    seated.ended = Some((one.began_ns, one.times));
                    return Ok(Outcome::Committed);
                }
                Err(ClusterAbort::Closed) => break,
                Err(abort) if abort.is_retryable() => {
                    let longest_ns = u64::try_from(self.policy.backoff_max.as_nanos()).unwrap_or(u64::MAX);
                    one.due_ns = ended_ns + seated.random.below(longest_ns.max(1));
                    if self.new_ages {
                        one.age = seated.session.client().new_age();
                    }
                    seated.waiting.push(one);
                }
                Err(abort) => return Err(RunError::transaction("a transaction", abort)),
            }
        }
        Ok(Outcome::Failed)
    }
}

impl Job for OfYcsb<'_> {
    type Worker = Random;
    type Seated = Seated;
    type Counts = Counted;

    fn begin(&self, random: Random) -> Result<Seated, RunError> {
        let mut session = self.store.session()?;
        let home = session.client().id().server.number();
        if self.spec.abort_buffer > 0 {
            session.client().set_policy(Policy { attempts_max: Some(1), ..self.policy.clone() });
        }
        Ok(Seated { session, home, random, rows: Vec::new(), waiting: Vec::new(), ended: None })
    }

    fn execute(&self, seated: &mut Seated) -> Result<Outcome, RunError> {
        if self.spec.abort_buffer > 0 {
            return self.execute_some(seated);
        }
        self.draw(seated);
        let age = seated.session.client().new_age();
        match self.transact(seated, age) {
            Ok(()) => Ok(Outcome::Committed),
            // The run is over.
            Err(ClusterAbort::Closed) => Ok(Outcome::Failed),
            Err(abort) if abort.is_retryable() => Ok(Outcome::Failed),
            Err(abort) => Err(RunError::transaction("a transaction", abort)),
        }
    }

    fn note_end(&self, seated: &mut Seated, counts: bool) -> Option<Picoseconds> {
        let (began_ns, of_one) = match seated.ended.take() {
            Some((began_ns, times)) => (Some(began_ns), times),
            None => (None, seated.session.client().take_times()),
        };
        if counts {
            let mut times = self.times.get();
            times += of_one;
            self.times.set(times);
        }
        began_ns.map(|began_ns| began_ns * 1_000)
    }

    fn end(&self, mut seated: Seated) -> u64 {
        seated.session.settle();
        seated.session.take_attempts_max()
    }

    fn counts(&self) -> Counted {
        Counted::on(self.store)
    }
}
