//! YCSB on a cluster, as Sundial has it [Sundial §6.1]: sixteen accesses to rows of one kilobyte, one of ten a write, one of ten to
//! another server.
//!
//! Each server has as many rows as any other, and a transaction takes each of its rows at home or, by the share of remote ones, from one
//! of the other servers; which of that server's rows is drawn by a power law. All rows of a transaction are different.
//!
//! What it does not do: insert, delete and scan.

use super::Traffic;
use super::store::{ClusterSession, ClusterSpec, ClusterStore, now};
use crate::experiment::{self, ExperimentError, Job, Measured, Outcome, Plan};
use noonmark::SESSIONS_MAX;
use noonmark_cluster::cache::CacheCounts;
use noonmark_cluster::client::{ClusterAbort, Table};
use noonmark_cluster::partition::Partitioning;
use noonmark_workloads::distribution::{PowerLaw, Scattered};
use noonmark_workloads::random::Random;
use noonmark_workloads::store::{Conflicts, IndexKind, Session, Store, Table as _, TableSpec};
use noonmark_workloads::workload::RunError;
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
    /// What caches have counted.
    pub cache: CacheCounts,
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
    let job = OfYcsb { store: &store, table, spec, servers, reads, writes, scattered };
    let seats = (0..clients).map(|number| Random::new(plan.seed, number as u64 + 1)).collect();
    let done =
        experiment::measure_by(store.cores(), &job, seats, plan, |limits, bodies| store.run(limits, bodies))?;
    let (before, after) = (done.before, done.after);
    let rules = rules_between(&before.conflicts, &after.conflicts);
    let measured = Measured {
        seconds: plan.measured_ps as f64 / 1e12,
        committed: done.tally.committed,
        user_rollbacks: 0,
        aborted: rules.values().sum(),
        conflicts: Conflicts { rules, hottest: Vec::new() },
        attempts_max: done.tally.attempts_max,
        clock_increments: None,
        irrevocable: None,
        latencies_ns: done.tally.latencies_ns,
        lines: done.lines,
        steps: done.report.steps,
        limit: done.report.limit,
        conditions: Vec::new(),
    };
    Ok(ClusterMeasured {
        measured,
        messages: after.traffic.remote_messages - before.traffic.remote_messages,
        bytes: after.traffic.remote_bytes - before.traffic.remote_bytes,
        cache: after.cache - before.cache,
    })
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
}

/// What has been counted up to some time.
#[derive(Clone)]
struct Counted {
    conflicts: Conflicts,
    traffic: Traffic,
    cache: CacheCounts,
}

struct Seated {
    session: ClusterSession,
    home: u16,
    random: Random,
    rows: Vec<((u16, u64), bool)>,
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
}

impl Job for OfYcsb<'_> {
    type Worker = Random;
    type Seated = Seated;
    type Counts = Counted;

    fn begin(&self, random: Random) -> Result<Seated, RunError> {
        let mut session = self.store.session()?;
        let home = session.client().id().server.number();
        Ok(Seated { session, home, random, rows: Vec::new() })
    }

    fn execute(&self, seated: &mut Seated) -> Result<Outcome, RunError> {
        self.draw(seated);
        let (table, rows, together) = (&self.table, &seated.rows, self.spec.together);
        let ended = now(seated.session.client().transact(async |tx| {
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
        seated.session.count_refusals();
        match ended.and_then(|ended| ended) {
            Ok(()) => Ok(Outcome::Committed),
            // The run is over.
            Err(ClusterAbort::Closed) => Ok(Outcome::Failed),
            Err(abort) if abort.is_retryable() => Ok(Outcome::Failed),
            Err(abort) => Err(RunError::transaction("a transaction", abort)),
        }
    }

    fn end(&self, mut seated: Seated) -> u64 {
        seated.session.settle();
        seated.session.take_attempts_max()
    }

    fn counts(&self) -> Counted {
        Counted {
            conflicts: self.store.conflicts(),
            traffic: self.store.network().traffic(),
            cache: self.store.cache_counts(),
        }
    }
}
