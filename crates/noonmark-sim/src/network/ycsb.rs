//! YCSB on a cluster, as Sundial has it [Sundial §6.1]: sixteen accesses to rows of one kilobyte, one of ten a write, one of ten to
//! another server.
//!
//! Each server has as many rows as any other, and a transaction takes each of its rows at home or, by the share of remote ones, from one
//! of the other servers; which of that server's rows is drawn by a power law. All rows of a transaction are different.
//!
//! What a client asks for hangs on nothing but the seed. So it can be drawn ahead, and only the rows that somebody will ask for need be there:
//! ten million a server, of a kilobyte each, take no more memory than those of them do.
//!
//! What it does not do: insert, delete and scan.

use super::abort_buffer::{AbortBuffer, Driver};
use super::store::{ClusterSession, ClusterSpec, ClusterStore};
use super::{PhaseBytes, Traffic};
use crate::Picoseconds;
use crate::experiment::{self, Done, ExperimentError, Job, Left, Measured, Outcome, Plan};
use noonmark::SESSIONS_MAX;
use noonmark_cluster::cache::CacheCounts;
use noonmark_cluster::client::{ClusterAbort, Table};
use noonmark_cluster::partition::{Partitioning, ServerId};
use noonmark_cluster::phases::PhaseTimes;
use noonmark_workloads::distribution::{PowerLaw, Scattered};
use noonmark_workloads::random::Random;
use noonmark_workloads::store::{Conflicts, IndexKind, Session, Store, Table as _, TableSpec, TxnResult};
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

/// What a row takes of memory, all in all.
const ROW_BYTES: u64 = 1_150;

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
    /// How many transactions that have failed a worker has room for in its abort buffer [Sundial §6], each until its pause is over, while it runs
    /// others. None: the worker pauses with its transaction.
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
    /// How often a client had run all transactions that it knew of, and began again with the first.
    pub began_again: u64,
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
            began_again: 0,
        }
    }
}

/// Runs it: `plan.workers` clients on each server. If each draws transactions ahead (`plan.requests`), only the rows are there that those are about, and who has
/// run all of his begins again with the first.
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
    let fits = |rows: u64| noonmark_workloads::driver::memory::check(rows.saturating_mul(ROW_BYTES));
    if plan.requests == 0 {
        // All rows will be there, and need not be listed to be counted.
        fits(spec.rows.saturating_mul(servers.into()))?;
    }
    let drawing = &Drawing::new(spec, servers)?;
    let seats: Vec<Requests<'_>> = (0..clients)
        .map(|number| {
            // (Another one loads the rows, and is the first at the first server.)
            let home = ((number + 1) % usize::from(servers)) as u16;
            Requests::new(drawing, home, Random::new(plan.seed, number as u64 + 1), plan.requests)
        })
        .collect();
    let rows = drawing.asked_for(&seats);
    fits(rows.len() as u64)?;
    let store = ClusterStore::new(cluster, plan.seed).map_err(RunError::from)?;
    let rows_a_server = rows.len() as u64 / u64::from(servers);
    let table_spec = TableSpec::new("usertable").index(IndexKind::Hash).expected_rows(rows_a_server);
    let table: Table<(u16, u64), Fields> = store.table(&table_spec).map_err(RunError::from)?;
    let mut loader = store.session().map_err(RunError::from)?;
    for some in rows.chunks(64) {
        let load = loader.run(&store.scope(), |tx| {
            for row in some {
                table.insert(tx, row, Fields { fields: [[b'x'; 100]; 10] })?;
            }
            Ok(())
        });
        load.map_err(|failure| RunError::transaction("loading", failure))?;
    }
    drop(rows);
    let times = Cell::default();
    let job = OfYcsb { store: &store, table, spec, times: &times };
    let done =
        experiment::measure_by(store.cores(), &job, seats, plan, |limits, bodies| store.run(limits, bodies))?;
    let began_again = drawing.began_again.get();
    Ok(ClusterMeasured { began_again, ..ClusterMeasured::of(done, times.get(), plan) })
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
    /// Of the transactions that have ended within the measured time.
    times: &'a Cell<PhaseTimes>,
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

/// By which laws rows are drawn.
struct Drawing {
    spec: YcsbSpec,
    servers: u16,
    reads: PowerLaw,
    writes: PowerLaw,
    scattered: Scattered,
    /// How often a client had to begin again.
    began_again: Cell<u64>,
}

impl Drawing {
    fn new(spec: YcsbSpec, servers: u16) -> Result<Self, RunError> {
        let law =
            |theta| PowerLaw::new(spec.rows, theta).map_err(|error| RunError::Setting(error.to_string()));
        let (reads, writes) = (law(spec.reads_theta)?, law(spec.writes_theta)?);
        let (scattered, began_again) = (Scattered::new(spec.rows), Cell::new(0));
        Ok(Drawing { spec, servers, reads, writes, scattered, began_again })
    }

    /// Draws the rows of a transaction of a client at this server.
    fn draw(&self, home: u16, random: &mut Random) -> Vec<Access> {
        let mut rows: Vec<Access> = Vec::with_capacity(self.spec.accesses);
        while rows.len() < self.spec.accesses {
            let is_remote = self.servers > 1 && random.below(100) < u64::from(self.spec.remote_percent);
            let server = match is_remote {
                true => {
                    ((u64::from(home) + 1 + random.below(u64::from(self.servers) - 1))
                        % u64::from(self.servers)) as u16
                }
                false => home,
            };
            let is_write = random.below(1_000) < u64::from(self.spec.writes_permille);
            let law = if is_write { &self.writes } else { &self.reads };
            let row = self.scattered.place(law.draw(random));
            if rows.iter().all(|(key, _)| *key != (server, row)) {
                rows.push(((server, row), is_write));
            }
        }
        rows
    }

    /// The rows that these clients will ask for, in order: all, if they do not know yet.
    fn asked_for(&self, clients: &[Requests<'_>]) -> Vec<(u16, u64)> {
        if clients.iter().any(|client| client.ahead == 0) {
            return (0..self.servers)
                .flat_map(|server| (0..self.spec.rows).map(move |row| (server, row)))
                .collect();
        }
        let mut rows = Vec::new();
        for client in clients {
            let mut random = client.first.clone();
            for _ in 0..client.ahead {
                rows.extend(self.draw(client.home, &mut random).into_iter().map(|(row, _)| row));
            }
            // (Most are asked for again and again.)
            if rows.len() > 1 << 20 {
                rows.sort_unstable();
                rows.dedup();
            }
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

/// What one client asks for.
struct Requests<'a> {
    drawing: &'a Drawing,
    home: u16,
    first: Random,
    /// How many transactions are known of. None: as many as there will be.
    ahead: usize,
    /// For the next.
    random: Random,
    /// How many of those have been drawn.
    drawn: usize,
}

impl<'a> Requests<'a> {
    fn new(drawing: &'a Drawing, home: u16, random: Random, ahead: usize) -> Self {
        Requests { drawing, home, first: random.clone(), ahead, random, drawn: 0 }
    }

    fn draw(&mut self) -> Vec<Access> {
        if self.ahead > 0 && self.drawn == self.ahead {
            (self.random, self.drawn) = (self.first.clone(), 0);
            self.drawing.began_again.set(self.drawing.began_again.get() + 1);
        }
        self.drawn += 1;
        self.drawing.draw(self.home, &mut self.random)
    }
}

struct Seated<'a> {
    session: ClusterSession,
    requests: Requests<'a>,
    buffer: AbortBuffer<Vec<Access>>,
}

impl OfYcsb<'_> {
    /// Runs the transaction that has these rows.
    fn transact(&self, session: &mut ClusterSession, rows: &[Access]) -> Result<(), ClusterAbort> {
        let (table, together) = (&self.table, self.spec.together);
        let ended = session.transact(async |tx| {
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
        });
        ended.and_then(|ended| ended)
    }
}

/// One worker's.
struct Asking<'a, 'r> {
    job: &'a OfYcsb<'a>,
    requests: &'a mut Requests<'r>,
}

impl Driver<Vec<Access>> for Asking<'_, '_> {
    fn draw(&mut self) -> Vec<Access> {
        self.requests.draw()
    }

    fn run(&mut self, session: &mut ClusterSession, rows: &Vec<Access>) -> TxnResult<ClusterStore, ()> {
        Ok(self.job.transact(session, rows)?)
    }
}

impl<'r> Job for OfYcsb<'r> {
    type Worker = Requests<'r>;
    type Seated = Seated<'r>;
    type Counts = Counted;

    fn begin(&self, requests: Requests<'r>) -> Result<Seated<'r>, RunError> {
        let session = self.store.session_at(Some(ServerId::new(requests.home)))?;
        Ok(Seated { session, requests, buffer: AbortBuffer::new(self.spec.abort_buffer) })
    }

    fn execute(&self, seated: &mut Seated<'r>) -> Result<Outcome, RunError> {
        let Seated { session, requests, buffer } = seated;
        buffer.execute(self.store, session, &mut Asking { job: self, requests })
    }

    fn note_end(&self, seated: &mut Seated<'r>, counts: bool) -> Option<Picoseconds> {
        seated.buffer.note_end(counts, self.times)
    }

    fn end(&self, Seated { mut session, buffer, .. }: Seated<'r>) -> Left {
        buffer.end(&mut session)
    }

    fn counts(&self) -> Counted {
        Counted::on(self.store)
    }
}
