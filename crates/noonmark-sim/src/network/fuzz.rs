//! Small workloads on clusters, under networks that lose, double and hold up messages, and what their histories show.
//!
//! Everything about a case is drawn from its seed, as in [`crate::fuzz`]: the protocols, how rows are spread, how many servers and clients
//! there are, and what the network does to messages, until it heals. A case holds if every transaction ends, no lock is left
//! then, whoever is alone afterwards gets on, and the checker finds a serial order of the history: in the order of each session, and in real
//! time where the protocols promise it. One case in eight moves money instead, and holds if none is lost or made. Half of the cases that append to lists, or move money, do so by
//! commit-time updates. Where every message arrives in its time, nobody may wait for as long as anybody is kept waiting: whoever did so waited in
//! a circle.

use super::latency::Latency;
use super::store::{ClusterSpec, ClusterStore};
use super::{Conditions, Cut};
use crate::cores::{Limits, SimulationError};
use crate::experiment::make_workers;
use crate::fuzz::{Fault, Seeded, Verdict, caught};
use noonmark::branch::{BranchHost, FROZEN_TICKS};
use noonmark::{Leases, Order, Protocol, RANGE_ROOM_DEFAULT, Timestamp};
use noonmark_cluster::cache::{CacheOptions, ReusePolicy};
use noonmark_cluster::client::{Begun, Policy};
use noonmark_cluster::partition::{IndexReach, Partitioning};
use noonmark_cluster::planted::Planted;
use noonmark_cluster::table_lease::TableLeases;
use noonmark_workloads::bank::{Bank, BankSpec, Updates};
use noonmark_workloads::random::Random;
use noonmark_workloads::recorded::{Kind, Recorded, RecordedSpec};
use noonmark_workloads::store::{Failure, Granularity, IndexKind, Store};
use noonmark_workloads::workload::{RunError, Share, Workload};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Many times as long as all transactions of a case together.
const WAITS_FOR_EVER_NS: u64 = 2_000_000_000;

/// One case.
#[derive(Clone, Debug)]
pub struct ClusterCase {
    /// What it was drawn from.
    pub seed: u64,
    /// The cluster.
    pub cluster: ClusterSpec,
    /// Which workload, unless it moves money.
    pub kind: Kind,
    /// The bank, if it does.
    pub bank: Option<BankSpec>,
    /// How lists are appended to, or money is moved.
    pub updates: Updates,
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
    /// Whether scans go by a secondary index.
    pub by_index: bool,
    /// Whether a transaction asks for all of its keys together.
    pub together: bool,
    /// Whether clients try each transaction once, and those that follow one that has failed as that one, of its age.
    pub puts_aside: bool,
    /// Whether the history must be serializable in real time. As drawn, if the cluster promises it.
    pub asks_for_strict: bool,
}

/// Neighbouring rows, two keys to a row, on different servers: from the row after this one on.
fn neighbours_apart(first: u64, pick: &mut impl FnMut(u64) -> u64) -> Partitioning {
    let bounds = (1..64_u64).scan(first, |bound, _| {
        *bound += 1 + pick(2);
        Some(bound.to_be_bytes().to_vec())
    });
    Partitioning::Ranges(bounds.collect())
}

impl ClusterCase {
    /// Draws a case of these protocols.
    pub fn draw(seed: u64, protocols: &[Protocol]) -> Self {
        let mut random = Random::new(seed, 7);
        let mut pick = |below: u64| random.below(below);
        let some = protocols.len() as u64;
        let tables = if some < 2 { 1 } else { [1, 1, 1, 1, 2, 3][pick(6) as usize] };
        let mut protocols: Vec<Protocol> = (0..tables).map(|_| protocols[pick(some) as usize]).collect();
        // Those that keep versions are in no database with others.
        let keeps_versions = protocols[0].keeps_versions();
        protocols.retain(|protocol| protocol.keeps_versions() == keeps_versions);
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
            _ => neighbours_apart(0, &mut pick),
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
            latency: Latency::Uniform {
                min_ns: latency_min_ns,
                max_ns: latency_min_ns + [1, 20_000, 200_000][pick(3) as usize],
            },
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
            otherwise: BTreeMap::new(),
            index_reach: IndexReach::default(),
            leases,
            is_strict: false,
            cache: None,
            reads_prepared: false,
            refuses_younger: false,
            lends: true,
            frozen_ticks: FROZEN_TICKS,
            meets_frozen_at_once: false,
            range_room: RANGE_ROOM_DEFAULT,
            begins_by_clock: false,
            clock_skew_ns: 0,
            late_max_ns: 100_000_000,
            table_leases: None,
            branches_max: 64,
            wait_max_ns: 1_000_000 + pick(20_000_000),
            resend_after_ns: 300_000 + pick(3_000_000),
            policy: Policy {
                attempts_max: None,
                backoff_max: Duration::from_micros(pick(500)),
                backoff_round_trips: (seed % 7 == 6).then_some(4),
                // (Not drawn: what else a seed stands for stays what it is.)
                escape_after: (seed % 5 == 4).then_some(2),
            },
            new_ages: false,
            asks_everybody: false,
            waits_until_told: false,
            reclaim_from: [1, 32][pick(2) as usize],
            conditions,
            planted: Planted::default(),
        };
        let mut case = ClusterCase {
            seed,
            cluster,
            kind,
            bank: None,
            updates: Updates::Plain,
            index,
            granularity,
            clients,
            transactions,
            steps_max: [3, 5, 12][pick(3) as usize],
            hot_keys,
            writes_per_key: [1, 3, 20, 60][pick(4) as usize],
            by_index: false,
            together: false,
            puts_aside: false,
            asks_for_strict: false,
        };
        // Now and then servers must forget who keeps nobody out.
        if pick(4) == 0 {
            case.cluster.branches_max = 2 + pick(3) as usize;
        }
        if case.nothing_is_late() {
            case.cluster.wait_max_ns = WAITS_FOR_EVER_NS;
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
        case.cluster.clock_skew_ns = [0, 10_000, 300_000, 5_000_000][pick(4) as usize];
        case.cluster.late_max_ns = [100_000, 2_000_000, 100_000_000][pick(3) as usize];
        case.by_index = pick(3) == 0 && case.kind == Kind::Scan;
        case.cluster.index_reach = [IndexReach::AsRows, IndexReach::Everywhere][pick(2) as usize];
        // From numbers of its own, so that all else is drawn as it was without it.
        let mut random = Random::new(seed, 8);
        if random.below(8) == 0 {
            let touched = 2 + random.below(3) as usize;
            let accounts = 2 * touched as u64 + random.below(6);
            let (theta, overdraft) = (random.below(2) as f64 * 0.9, random.below(2) == 0);
            let spec = BankSpec { accounts, touched, theta, overdraft, ..BankSpec::classic() };
            case.bank = Some(BankSpec { multi_get: random.below(2) == 0, ..spec });
            // As many as recorded transactions have: where all messages take the same time, two that do not wait may meet for ever.
            case.cluster.policy.attempts_max = Some(20);
        }
        let mut random = Random::new(seed, 10);
        if let (Some(bank), 0) = (&mut case.bank, random.below(2)) {
            bank.unopened = 1 + random.below(3);
        }
        let mut random = Random::new(seed, 9);
        case.cluster.range_room = [0, 1, RANGE_ROOM_DEFAULT, 1 << 16][random.below(4) as usize];
        case.cluster.begins_by_clock = random.below(4) == 0;
        let updates = [Updates::Plain, Updates::CommitTime][random.below(2) as usize];
        match &mut case.bank {
            Some(bank) if updates == Updates::CommitTime => {
                (bank.updates, bank.overdraft, bank.multi_get) = (updates, true, false);
                case.updates = updates;
            }
            None if case.kind == Kind::Append => case.updates = updates,
            _ => {}
        }
        let mut random = Random::new(seed, 11);
        case.together = random.below(4) == 0;
        case.cluster.conditions.io_threads = [1, 1, 1, 2][random.below(4) as usize];
        if random.below(8) == 0 {
            case.cluster.partitioning = Partitioning::Replicated;
        }
        let mut random = Random::new(seed, 12);
        if random.below(8) == 0 {
            case.cluster.conditions.latency = long_tailed(latency_min_ns);
        }
        // From numbers of its own again: many servers, or all rows at one of them.
        let mut others = Random::new(seed, 14);
        match others.below(16) {
            0 | 1 => {
                let servers = servers + 3 + others.below(6) as u16;
                case.cluster.servers = servers;
                case.cluster.conditions.cuts.iter_mut().for_each(|cut| cut.side = others.below(1 << servers));
            }
            2 if matches!(case.cluster.partitioning, Partitioning::Hash { .. }) => {
                case.cluster.partitioning = Partitioning::Hash { prefix_bytes: others.below(8) as usize };
            }
            _ => {}
        }
        let servers = case.cluster.servers;
        if random.below(8) == 0 {
            let mut to_one = || case.cluster.conditions.latency.clone().and_ns(random.below(500_000));
            let mut to_each = || (0..servers).map(|_| to_one()).collect();
            let pairs = (0..servers).map(|_| to_each()).collect();
            case.cluster.conditions.pairs = pairs;
        }
        let mut random = Random::new(seed, 13);
        case.cluster.refuses_younger = random.below(8) == 0;
        case.cluster.lends = random.below(8) != 0;
        let mut random = Random::new(seed, 15);
        case.cluster.waits_until_told = random.below(8) == 0;
        case.cluster.asks_everybody = random.below(8) == 0;
        case.cluster.meets_frozen_at_once = Random::new(seed, 17).below(4) == 0;
        case.puts_aside = Random::new(seed, 18).below(6) == 0;
        // Rows of several tables that are hot together are mostly at one server, where all tables are spread alike.
        let mut random = Random::new(seed, 16);
        let mut pick = |below: u64| random.below(below);
        let tables = case.cluster.protocols.len();
        if tables > 1 && case.bank.is_none() && pick(2) == 0 {
            for number in 0..tables {
                let partitioning = neighbours_apart(pick(2), &mut pick);
                case.cluster.otherwise.insert(format!("{} {number}", case.kind.name()), partitioning);
            }
        }
        case.asks_for_strict = case.cluster.order() == Order::Momentary;
        case
    }

    fn has_long_tail(&self) -> bool {
        matches!(self.cluster.conditions.latency, Latency::Quantiles(_))
    }

    fn is_replicated(&self) -> bool {
        self.cluster.partitioning == Partitioning::Replicated
    }

    /// Whether every message arrives, and in its time.
    fn nothing_is_late(&self) -> bool {
        let Conditions { loss, held_up, cuts, .. } = &self.cluster.conditions;
        *loss == 0.0 && *held_up == 0.0 && cuts.is_empty()
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
        caught(|| self.run_within(build))
    }

    fn run_within(
        &self,
        build: impl Fn(noonmark::Builder<BranchHost>) -> noonmark::Builder<BranchHost>,
    ) -> Result<Verdict, RunError> {
        let store = ClusterStore::built(self.cluster.clone(), self.seed, build)?;
        if let Some(bank) = &self.bank {
            let bank: Bank<_, u64> = Bank::new(&store, bank.clone(), self.index, self.granularity)?;
            return self.run_workload(&store, &bank);
        }
        let spec = RecordedSpec {
            tables: self.cluster.protocols.len(),
            hot_keys: self.hot_keys,
            writes_per_key: self.writes_per_key,
            by_index: self.by_index,
            updates: self.updates,
            steps_max: self.steps_max,
            yield_share: 0.0,
            together: self.together,
            strict: self.asks_for_strict,
            ..RecordedSpec::new(self.kind)
        };
        self.run_workload(&store, &Recorded::new(&store, spec, self.index, self.granularity)?)
    }

    fn run_workload<W: Workload<ClusterStore>>(
        &self,
        store: &ClusterStore,
        workload: &W,
    ) -> Result<Verdict, RunError> {
        let mut loader = store.session()?;
        workload.load(&mut loader, Share { index: 0, count: 1 }, &|_| ())?;
        let workers = make_workers(workload, self.clients, self.seed, self.transactions)?;
        let limits = Limits { until_ps: 10_000_000_000_000, steps: u64::MAX };
        let ended =
            RefCell::new(Ended { workers: Vec::new(), committed: 0, error: None, latest: Timestamp::ZERO });
        let report = store.run(
            limits,
            workers.into_iter().map(|mut worker| {
                let ended = &ended;
                move || {
                    let mut session = match store.session() {
                        Ok(session) => session,
                        Err(error) => return ended.borrow_mut().error = Some(error.to_string()),
                    };
                    // What has failed, and is to be tried again when others have been.
                    let mut aside: Vec<Begun> = Vec::new();
                    for at in 0..self.transactions {
                        if store.cores().is_over() {
                            break;
                        }
                        let ended_so = if self.puts_aside {
                            // (As old as the first of them every other time. To a client what it is asked for is no matter.)
                            let first = (at % 2 == 0 && !aside.is_empty()).then(|| aside.remove(0));
                            let mut begun = first.unwrap_or_else(|| session.client().new_transaction());
                            let ended_so = session
                                .try_once(&mut begun, |session| workload.execute(session, &mut worker));
                            if ended_so.is_err() {
                                aside.push(begun);
                            }
                            ended_so
                        } else {
                            workload.execute(&mut session, &mut worker)
                        };
                        match ended_so {
                            Ok(()) => ended.borrow_mut().committed += 1,
                            Err(Failure::Rollback) => {}
                            Err(Failure::Abort(abort)) if abort.is_retryable() => {}
                            Err(Failure::Abort(abort)) => {
                                ended.borrow_mut().error.get_or_insert(abort.to_string());
                            }
                        }
                    }
                    session.settle();
                    let mut ended = ended.borrow_mut();
                    ended.latest = ended.latest.max(session.client().floor());
                    ended.workers.push(worker);
                }
            }),
        );
        let report = match report {
            Ok(report) => report,
            Err(SimulationError::NobodyLeft(workers)) => {
                let words = format!("workers {workers:?} waited, and nobody was left to wake them");
                return Ok(Verdict::Broken(Fault::Stranded, words));
            }
            Err(error) => return Err(RunError::Setting(error.to_string())),
        };
        let Ended { mut workers, committed, error, latest } = ended.into_inner();
        if let Some(limit) = report.limit {
            let refused = store.conflicts().rules;
            let words = format!(
                "the run came to its limit ({limit:?}) after {committed} commits; refused by {refused:?}"
            );
            return Ok(Verdict::Broken(Fault::Endless, words));
        }
        if let Some(error) = error {
            let words = format!("a transaction failed for good: {error}");
            return Ok(Verdict::Broken(Fault::Failed, words));
        }
        if self.nothing_is_late()
            && let Some(count) = store.conflicts().rules.get("cluster: wait")
        {
            let words = format!("{count} waited in a circle, as nothing was late on its way");
            return Ok(Verdict::Broken(Fault::Stranded, words));
        }
        let holding: usize = (0..store.network().servers())
            .filter_map(|server| store.network().with_server(server, |participant| participant.holding()))
            .sum();
        if holding > 0 {
            let words = format!("all clients have ended, and {holding} of their transactions hold locks");
            return Ok(Verdict::Broken(Fault::Outcome, words));
        }
        // Each session has an order of its own: who wants to see what all others have left must be told how late it is.
        loader.client().raise_floor(latest);
        // Whoever is alone gets on: nothing that was left behind is in his way for ever.
        for worker in &mut workers {
            if let Err(Failure::Abort(abort)) = workload.execute(&mut loader, worker) {
                let words = format!("nobody else was left, and a transaction failed all the same: {abort}");
                return Ok(Verdict::Broken(Fault::Failed, words));
            }
        }
        let conditions = workload.check(&mut loader, &mut workers)?;
        Ok(match conditions.into_iter().find(|condition| !condition.holds) {
            Some(condition) => Verdict::Broken(Fault::Outcome, condition.words),
            None => Verdict::Holds { committed, steps: report.steps },
        })
    }
}

/// Most messages are on their way for little longer than the least time, and a few for a hundred times that.
fn long_tailed(least_ns: u64) -> Latency {
    let points = [(0.0, least_ns), (0.5, least_ns * 5 / 4), (0.9, least_ns * 3), (1.0, least_ns * 100)];
    Latency::quantiles(&points).unwrap_or(Latency::Uniform { min_ns: least_ns, max_ns: least_ns * 100 })
}

/// What clients leave behind.
struct Ended<W> {
    workers: Vec<W>,
    committed: u64,
    /// Why a transaction failed for good.
    error: Option<String>,
    /// The latest commit time.
    latest: Timestamp,
}

impl Seeded for ClusterCase {
    const ON_CLUSTERS: bool = true;

    fn draw(seed: u64, protocols: &[Protocol]) -> Self {
        ClusterCase::draw(seed, protocols)
    }

    fn run(&self) -> Result<Verdict, RunError> {
        ClusterCase::run(self)
    }

    fn size(&self) -> (usize, usize) {
        (self.clients, self.transactions)
    }

    fn sized(&self, (clients, transactions): (usize, usize)) -> Self {
        ClusterCase { clients, transactions, ..self.clone() }
    }

    fn kinds(&self) -> Vec<&'static str> {
        let ClusterSpec { servers, cache, conditions, .. } = &self.cluster;
        let mut kinds = vec![if self.bank.is_some() { "bank" } else { self.kind.name() }];
        kinds.extend(cache.map(|cache| match cache.reuse {
            ReusePolicy::Always => "copies always reused",
            ReusePolicy::Never => "copies always asked for",
            ReusePolicy::Voted(_) => "copies reused by votes",
        }));
        let is = |kind: &'static str, is: bool| is.then_some(kind);
        kinds.extend(is("commit-time updates", self.updates == Updates::CommitTime));
        let has_unopened = self.bank.as_ref().is_some_and(|bank| bank.unopened > 0);
        kinds.extend(is("rows that are not there", has_unopened));
        kinds.extend(is("latencies with a long tail", self.has_long_tail()));
        kinds.extend(is("servers far apart", *servers > 1 && !conditions.pairs.is_empty()));
        kinds.extend(is("messages lost", conditions.loss > 0.0));
        kinds.extend(is("doubled", conditions.doubled > 0.0));
        kinds.extend(is("held up", conditions.held_up > 0.0));
        kinds.extend(is("cut in two", *servers > 1 && !conditions.cuts.is_empty()));
        kinds.extend(is("strict", self.asks_for_strict));
        kinds.extend(is("transactions put aside", self.puts_aside));
        kinds.extend(is("keys asked for together", self.together && self.bank.is_none()));
        kinds.extend(is("copied whole to each server", self.is_replicated()));
        kinds
    }
}

impl fmt::Display for ClusterCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocols: Vec<&str> = self.cluster.protocols.iter().map(|protocol| protocol.name()).collect();
        write!(
            f,
            "seed {}: {}{}{}{}, {} servers{}, {} clients of {} transactions, under {} ({:?}, {:?}{}{}{})",
            self.seed,
            if self.bank.is_some() { "bank" } else { self.kind.name() },
            if self.by_index && self.bank.is_none() { " by a secondary index" } else { "" },
            if self.updates == Updates::CommitTime { " by commit-time updates" } else { "" },
            if self.together && self.bank.is_none() { " of keys asked for together" } else { "" },
            self.cluster.servers,
            if self.is_replicated() { " with all rows each" } else { "" },
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
