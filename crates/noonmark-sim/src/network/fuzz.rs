//! Small workloads on clusters, under networks that lose, double and hold up messages, and what their histories show.
//!
//! Everything about a case is drawn from its seed, as in [`crate::fuzz`]: the protocols, how rows are spread, how many servers and clients
//! there are, and what the network does to messages, until it heals. A case holds if every transaction ends, no lock is left
//! then, and the checker finds a serial order of the history: in the order of each session, and in real time where the protocols promise
//! it.

use super::store::{ClusterSpec, ClusterStore};
use super::{Conditions, Cut};
use crate::cores::{Limits, SimulationError};
use crate::experiment::make_workers;
use crate::fuzz::{Seeded, Verdict, fewer};
use noonmark::branch::{Branch, BranchHost, FROZEN_TICKS};
use noonmark::{Leases, Order, Protocol};
use noonmark_cluster::cache::{CacheOptions, ReusePolicy};
use noonmark_cluster::client::Policy;
use noonmark_cluster::partition::Partitioning;
use noonmark_cluster::planted::Planted;
use noonmark_cluster::table_lease::TableLeases;
use noonmark_workloads::random::Random;
use noonmark_workloads::recorded::{Kind, Recorded, RecordedSpec};
use noonmark_workloads::store::{Failure, Granularity, IndexKind, Store};
use noonmark_workloads::workload::{RunError, Share, Workload};
use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

/// One case.
#[derive(Clone, Debug)]
pub struct ClusterCase {
    /// What it was drawn from.
    pub seed: u64,
    /// The cluster.
    pub cluster: ClusterSpec,
    /// Which workload.
    pub kind: Kind,
    /// The index of its tables.
    pub index: IndexKind,
    /// Their granularity.
    pub granularity: Granularity,
    /// How many clients.
    pub clients: usize,
    /// How many transactions each of them runs.
    pub transactions: usize,
    /// Of how many steps at most.
    pub steps_max: u64,
    /// Keys in use at a time.
    pub hot_keys: u64,
    /// Writes after which a key is retired.
    pub writes_per_key: u64,
}

impl ClusterCase {
    /// The protocols that span servers.
    pub fn protocols() -> Vec<Protocol> {
        Protocol::ALL.iter().copied().filter(|protocol| Branch::<BranchHost>::supports(*protocol)).collect()
    }

    /// Draws a case of these protocols, which span servers.
    pub fn draw(seed: u64, protocols: &[Protocol]) -> Self {
        let mut random = Random::new(seed, 7);
        let mut pick = |below: u64| random.below(below);
        let some = protocols.len() as u64;
        let tables = if some < 2 { 1 } else { [1, 1, 1, 1, 2, 3][pick(6) as usize] };
        let protocols: Vec<Protocol> = (0..tables).map(|_| protocols[pick(some) as usize]).collect();
        let kind = [Kind::Append, Kind::Register, Kind::Scan, Kind::Scan][pick(4) as usize];
        let index = match kind {
            Kind::Scan => IndexKind::Ordered,
            _ => [IndexKind::Hash, IndexKind::Ordered][pick(2) as usize],
        };
        let granularity = [Granularity::Fine, Granularity::Coarse][pick(2) as usize];
        let servers = 1 + pick(4) as u16;
        let hot_keys = 2 + pick(4);
        let partitioning = match pick(2) {
            0 => Partitioning::Hash { prefix_bytes: 8 },
            // Neighbouring rows, two keys to a row, on different servers.
            _ => Partitioning::Ranges(
                (1..64_u64)
                    .scan(0, |bound, _| {
                        *bound += 1 + pick(2);
                        Some(bound.to_be_bytes().to_vec())
                    })
                    .collect(),
            ),
        };
        let leases = Leases {
            extended_by: [None, Some(0), Some(3)][pick(3) as usize],
            write_times: [0, 1, 3][pick(3) as usize],
        };
        let clients = 2 + pick(5) as usize;
        let transactions = 4 + pick(28) as usize;
        let trouble = pick(3);
        let latency_min_ns = 1_000 + pick(50_000);
        let conditions = Conditions {
            latency_min_ns,
            latency_max_ns: latency_min_ns + [1, 20_000, 200_000][pick(3) as usize],
            loss: [0.0, 0.02, 0.1][trouble as usize],
            doubled: [0.0, 0.05, 0.2][pick(3) as usize],
            held_up: [0.0, 0.02, 0.1][pick(3) as usize],
            cuts: match trouble {
                2 => (0..1 + pick(3))
                    .map(|_| {
                        let from_ns = pick(20_000_000);
                        Cut { from_ns, until_ns: from_ns + pick(10_000_000), side: pick(1 << servers) }
                    })
                    .collect(),
                _ => Vec::new(),
            },
            heals_at_ns: 40_000_000,
            ..Conditions::quiet()
        };
        let cluster = ClusterSpec {
            servers,
            protocols,
            partitioning,
            leases,
            is_strict: false,
            cache: None,
            reads_prepared: false,
            frozen_ticks: FROZEN_TICKS,
            table_leases: None,
            branches_max: 64,
            wait_max_ns: 1_000_000 + pick(20_000_000),
            resend_after_ns: 300_000 + pick(3_000_000),
            policy: Policy { attempts_max: None, backoff_max: Duration::from_micros(pick(500)) },
            reclaim_from: [1, 32][pick(2) as usize],
            conditions,
            planted: Planted::default(),
        };
        let mut case = ClusterCase {
            seed,
            cluster,
            kind,
            index,
            granularity,
            clients,
            transactions,
            steps_max: [3, 5, 12][pick(3) as usize],
            hot_keys,
            writes_per_key: [1, 3, 20, 60][pick(4) as usize],
        };
        // Now and then servers must forget who keeps nobody out.
        if pick(4) == 0 {
            case.cluster.branches_max = 2 + pick(3) as usize;
        }
        case.cluster.is_strict = pick(4) == 0;
        case.cluster.reads_prepared = pick(4) == 0;
        if pick(2) == 0 {
            let reuse = [ReusePolicy::Always, ReusePolicy::Never, ReusePolicy::default()][pick(3) as usize];
            let bytes_max = [1_000, 4_000, 1 << 20][pick(3) as usize];
            case.cluster.cache = Some(CacheOptions { bytes_max, banks: 1 + pick(3) as usize, reuse });
        }
        if pick(2) == 0 {
            case.cluster.table_leases =
                Some(TableLeases { reads_min: 1 + pick(4) as u32, beyond_max: 1 << pick(6) });
        }
        case.cluster.frozen_ticks = [0, 3, FROZEN_TICKS, u64::MAX][pick(4) as usize];
        case
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`RunError`] if it could not be run at all.
    pub fn run(&self) -> Result<Verdict, RunError> {
        self.run_on(|builder| builder)
    }

    /// The same, on servers whose databases are built in a special way.
    ///
    /// # Errors
    /// As [`ClusterCase::run`].
    pub fn run_on(
        &self,
        build: impl Fn(noonmark::Builder<BranchHost>) -> noonmark::Builder<BranchHost>,
    ) -> Result<Verdict, RunError> {
        let store = ClusterStore::built(self.cluster.clone(), self.seed, build)?;
        let strict = self.cluster.order() == Order::Momentary;
        let spec = RecordedSpec {
            tables: self.cluster.protocols.len(),
            hot_keys: self.hot_keys,
            writes_per_key: self.writes_per_key,
            steps_max: self.steps_max,
            yield_share: 0.0,
            strict,
            ..RecordedSpec::new(self.kind)
        };
        let workload = Recorded::new(&store, spec, self.index, self.granularity)?;
        let mut loader = store.session()?;
        workload.load(&mut loader, Share { index: 0, count: 1 }, &|_| ())?;
        let workers = make_workers(&workload, self.clients, self.seed, self.transactions)?;
        let limits = Limits { until_ps: 10_000_000_000_000, steps: u64::MAX };
        let ended = RefCell::new((Vec::new(), 0, None));
        let report = store.run(
            limits,
            workers.into_iter().map(|mut worker| {
                let (store, workload, ended) = (&store, &workload, &ended);
                move || {
                    let mut session = match store.session() {
                        Ok(session) => session,
                        Err(error) => return ended.borrow_mut().2 = Some(error.to_string()),
                    };
                    for _ in 0..self.transactions {
                        if store.cores().is_over() {
                            break;
                        }
                        match workload.execute(&mut session, &mut worker) {
                            Ok(()) => ended.borrow_mut().1 += 1,
                            Err(Failure::Rollback) => {}
                            Err(Failure::Abort(abort)) if abort.is_retryable() => {}
                            Err(Failure::Abort(abort)) => {
                                ended.borrow_mut().2.get_or_insert(abort.to_string());
                            }
                        }
                    }
                    session.settle();
                    ended.borrow_mut().0.push(worker);
                }
            }),
        );
        let report = match report {
            Ok(report) => report,
            Err(SimulationError::NobodyLeft(workers)) => {
                return Ok(Verdict::Broken(format!(
                    "workers {workers:?} waited, and nobody was left to wake them"
                )));
            }
            Err(error) => return Err(RunError::Setting(error.to_string())),
        };
        let (mut workers, committed, error) = ended.into_inner();
        if let Some(error) = error {
            return Ok(Verdict::Broken(format!("a transaction failed for good: {error}")));
        }
        if let Some(limit) = report.limit {
            return Ok(Verdict::Broken(format!(
                "the run came to its limit ({limit:?}): nobody gets anywhere"
            )));
        }
        let holding: usize = (0..store.network().servers())
            .filter_map(|server| store.network().with_server(server, |participant| participant.holding()))
            .sum();
        if holding > 0 {
            return Ok(Verdict::Broken(format!(
                "all clients have ended, and {holding} of their transactions hold locks"
            )));
        }
        let conditions = workload.check(&mut loader, &mut workers)?;
        Ok(match conditions.into_iter().find(|condition| !condition.holds) {
            Some(condition) => Verdict::Broken(condition.words),
            None => Verdict::Holds { committed, steps: report.steps },
        })
    }
}

impl Seeded for ClusterCase {
    fn draw(seed: u64, protocols: &[Protocol]) -> Self {
        ClusterCase::draw(seed, protocols)
    }

    fn run(&self) -> Result<Verdict, RunError> {
        ClusterCase::run(self)
    }

    fn smaller(&self) -> Vec<Self> {
        let clients = fewer(self.clients).map(|clients| ClusterCase { clients, ..self.clone() });
        let transactions =
            fewer(self.transactions).map(|transactions| ClusterCase { transactions, ..self.clone() });
        clients.chain(transactions).collect()
    }
}

impl fmt::Display for ClusterCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocols: Vec<&str> = self.cluster.protocols.iter().map(|protocol| protocol.name()).collect();
        write!(
            f,
            "seed {}: {}, {} servers, {} clients of {} transactions, under {} ({:?}, {:?}{}{}{})",
            self.seed,
            self.kind.name(),
            self.cluster.servers,
            self.clients,
            self.transactions,
            protocols.join("+"),
            self.index,
            self.granularity,
            if self.cluster.is_strict { ", strict" } else { "" },
            match self.cluster.cache {
                Some(CacheOptions { reuse: ReusePolicy::Always, .. }) => ", copies always reused",
                Some(CacheOptions { reuse: ReusePolicy::Never, .. }) => ", copies always asked for",
                Some(CacheOptions { reuse: ReusePolicy::Voted(_), .. }) => ", copies reused by votes",
                None => "",
            },
            if self.cluster.table_leases.is_some() { ", table leases" } else { "" },
        )
    }
}
