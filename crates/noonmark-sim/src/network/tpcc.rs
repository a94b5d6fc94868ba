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

use super::abort_buffer::{AbortBuffer, Driver};
use super::store::{ClusterSession, ClusterSpec, ClusterStore};
use super::ycsb::{ClusterMeasured, Counted};
use crate::Picoseconds;
use crate::experiment::{self, ExperimentError, Job, Left, Outcome, Plan};
use noonmark::SESSIONS_MAX;
use noonmark_cluster::partition::{IndexReach, Partitioning, ServerId};
use noonmark_cluster::phases::PhaseTimes;
use noonmark_workloads::store::{Store, TxnResult};
use noonmark_workloads::tpcc::{Options, RequestId, Tpcc, Worker};
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

/// What is run.
#[derive(Clone, Debug)]
pub struct TpccSpec {
    /// The transactions, and their rows.
    pub options: Options,
    /// Where the rows of ITEM are.
    pub items: ItemsAt,
    /// How many transactions that have failed a worker has room for in its abort buffer [Sundial §6], each until its pause is over, while it runs
    /// others. None: the worker pauses with its transaction.
    pub abort_buffer: usize,
}

/// Runs it: `plan.workers` clients on each server. There must be as many warehouses on each server as on any other.
///
/// # Errors
/// [`ExperimentError`].
pub fn run(cluster: ClusterSpec, spec: TpccSpec, plan: &Plan) -> Result<ClusterMeasured, ExperimentError> {
    let TpccSpec { options, items, abort_buffer } = spec;
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
    let finished = RefCell::default();
    let job = OfTpcc { store: &store, workload: &workload, abort_buffer, finished, times: &times };
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
    abort_buffer: usize,
    /// The workers that have left.
    finished: RefCell<Vec<Worker>>,
    /// Of the transactions that have ended within the measured time, those that called themselves off included.
    times: &'a Cell<PhaseTimes>,
}

struct Seated {
    session: ClusterSession,
    worker: Worker,
    buffer: AbortBuffer<RequestId>,
}

/// One worker's.
struct Terminal<'a> {
    workload: &'a Tpcc<ClusterStore>,
    worker: &'a mut Worker,
}

impl Driver<RequestId> for Terminal<'_> {
    fn draw(&mut self) -> RequestId {
        self.worker.next_request()
    }

    fn run(&mut self, session: &mut ClusterSession, request: &RequestId) -> TxnResult<ClusterStore, ()> {
        self.workload.execute_request(session, self.worker, *request)
    }
}

impl Job for OfTpcc<'_> {
    type Worker = Worker;
    type Seated = Seated;
    type Counts = Counted;

    fn begin(&self, worker: Worker) -> Result<Self::Seated, RunError> {
        let servers = self.store.network().servers() as u16;
        let home = ServerId::new((worker.home() - 1) % servers);
        let session = self.store.session_at(Some(home))?;
        Ok(Seated { session, worker, buffer: AbortBuffer::new(self.abort_buffer) })
    }

    fn execute(&self, Seated { session, worker, buffer }: &mut Self::Seated) -> Result<Outcome, RunError> {
        buffer.execute(self.store, session, &mut Terminal { workload: self.workload, worker })
    }

    fn note_end(&self, seated: &mut Self::Seated, counts: bool) -> Option<Picoseconds> {
        seated.buffer.note_end(counts, self.times)
    }

    fn end(&self, Seated { mut session, worker, buffer }: Self::Seated) -> Left {
        self.finished.borrow_mut().push(worker);
        buffer.end(&mut session)
    }

    fn counts(&self) -> Counted {
        Counted::on(self.store)
    }
}
