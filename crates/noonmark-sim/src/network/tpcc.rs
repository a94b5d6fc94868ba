//! TPC-C on a cluster, as Sundial has it [Sundial §6.1]: the very transactions that one engine runs, spread by warehouses.
//!
//! Each server has the rows of its warehouses, the entries of the indexes of its customers and orders, and the payments that its
//! terminals have taken; a terminal is a client at the server of its warehouse. ITEM, which nobody writes, is at every server, or spread by a hash of
//! its key. So New-Order goes to another server for a line in a hundred, Payment for fifteen customers in a hundred, and all others stay
//! at home.
//!
//! After a run the standard's consistency conditions are checked, across all servers, and that nobody holds anything any more.
//!
//! What it does not do: choose protocols.

use super::store::{ClusterSession, ClusterSpec, ClusterStore};
use super::ycsb::{ClusterMeasured, Counted};
use crate::Picoseconds;
use crate::experiment::{self, ExperimentError, Job, Outcome, Plan};
use noonmark::SESSIONS_MAX;
use noonmark_cluster::client::ClusterAbort;
use noonmark_cluster::partition::{IndexReach, Partitioning, ServerId};
use noonmark_cluster::phases::PhaseTimes;
use noonmark_workloads::store::{Failure, Session, Store};
use noonmark_workloads::tpcc::{Options, Tpcc, Worker};
use noonmark_workloads::workload::{Condition, RunError, Share, Workload};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Where the rows of ITEM are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemsAt {
    /// Each server has all.
    EachServer,
    /// Spread by a hash of their key.
    Hashed,
}

/// Runs it: `plan.workers` clients on each server. There must be as many warehouses on each server as on any other.
///
/// # Errors
/// [`ExperimentError`].
pub fn run(
    cluster: ClusterSpec,
    options: Options,
    items: ItemsAt,
    plan: &Plan,
) -> Result<ClusterMeasured, ExperimentError> {
    let (servers, warehouses) = (cluster.servers, options.scale.warehouses);
    if servers == 0 || warehouses % servers != 0 {
        let what = format!("{warehouses} warehouses cannot be spread evenly over {servers} servers");
        return Err(RunError::Setting(what).into());
    }
    let clients = usize::from(servers) * plan.workers;
    // Numbers of warehouses are the first column of all keys but those of HISTORY, which begin with the number of the terminal; both count from
    // one, and a terminal's is at home in the warehouse that comes to it in turn. So both are dealt round alike.
    let most = usize::from(warehouses).max(clients).min(usize::from(u16::MAX)) as u16;
    let bounds = (2..=most).map(|number| number.to_be_bytes().to_vec()).collect();
    let of_items = match items {
        ItemsAt::EachServer => Partitioning::Replicated,
        ItemsAt::Hashed => Partitioning::Hash { prefix_bytes: size_of::<u32>() },
    };
    let cluster = ClusterSpec {
        partitioning: Partitioning::Ranges(bounds),
        otherwise: BTreeMap::from([("item".to_owned(), of_items)]),
        // Names and orders of customers begin with their warehouse, too.
        index_reach: IndexReach::AsRows,
        // A client may leave a branch behind at each server; beyond that, the oldest are forgotten.
        branches_max: (clients + 2).min(SESSIONS_MAX),
        ..cluster
    };
    let store = ClusterStore::new(cluster, plan.seed).map_err(RunError::from)?;
    let workload = Tpcc::create(&store, options)?;
    noonmark_workloads::driver::memory::check(Workload::<ClusterStore>::load_bytes(&workload))?;
    let mut loader = store.session().map_err(RunError::from)?;
    workload.load(&mut loader, Share { index: 0, count: 1 }, &|_| ())?;
    let workers = experiment::make_workers(&workload, clients, plan.seed, plan.requests)?;
    let times = Cell::default();
    let job = OfTpcc { store: &store, workload: &workload, finished: RefCell::default(), times: &times };
    let done = experiment::measure_by(store.cores(), &job, workers, plan, |limits, bodies| {
        store.run(limits, bodies)
    })?;
    let was_cut_off = done.report.limit.is_some();
    let mut found = ClusterMeasured::of(done, times.get(), plan);
    // Whoever was cut off in the midst of a commit does not know whether he has.
    if !was_cut_off {
        let holding: usize = (0..store.network().servers())
            .filter_map(|server| store.network().with_server(server, |participant| participant.holding()))
            .sum();
        let mut conditions =
            vec![Condition::equal("transactions that hold something when all have ended", holding, 0)];
        if holding == 0 {
            conditions.extend(workload.check(&mut loader, &mut job.finished.into_inner())?);
        }
        found.measured.conditions = conditions;
    }
    Ok(found)
}

struct OfTpcc<'a> {
    store: &'a ClusterStore,
    workload: &'a Tpcc<ClusterStore>,
    /// The workers that have left.
    finished: RefCell<Vec<Worker>>,
    /// Of the transactions that have ended within the measured time, those that called themselves off included.
    times: &'a Cell<PhaseTimes>,
}

impl Job for OfTpcc<'_> {
    type Worker = Worker;
    type Seated = (ClusterSession, Worker);
    type Counts = Counted;

    fn begin(&self, worker: Worker) -> Result<Self::Seated, RunError> {
        let servers = self.store.network().servers() as u16;
        let home = ServerId::new((worker.home() - 1) % servers);
        Ok((self.store.session_at(Some(home))?, worker))
    }

    fn execute(&self, (session, worker): &mut Self::Seated) -> Result<Outcome, RunError> {
        match self.workload.execute(session, worker) {
            Ok(()) => Ok(Outcome::Committed),
            Err(Failure::Rollback) => Ok(Outcome::CalledOff),
            // The run is over, or it was given up.
            Err(Failure::Abort(ClusterAbort::Closed)) => Ok(Outcome::Failed),
            Err(Failure::Abort(abort)) if abort.is_retryable() => Ok(Outcome::Failed),
            Err(Failure::Abort(abort)) => Err(RunError::transaction("a transaction of TPC-C", abort)),
        }
    }

    fn note_end(&self, (session, _): &mut Self::Seated, counts: bool) -> Option<Picoseconds> {
        let of_one = session.client().take_times();
        if counts {
            let mut times = self.times.get();
            times += of_one;
            self.times.set(times);
        }
        None
    }

    fn end(&self, (mut session, worker): Self::Seated) -> u64 {
        session.settle();
        self.finished.borrow_mut().push(worker);
        session.take_attempts_max()
    }

    fn counts(&self) -> Counted {
        Counted::on(self.store)
    }
}
