//! Share-nothing workers: a thread for each partition, and a queue for each thread [DistTicToc §2.3].
//!
//! A worker owns a [`Participant`] and nobody else touches its rows. It takes the requests from its queue, one after another, has the
//! participant answer, and puts each answer into the inbox of the client that it is for. Clients run elsewhere, on any thread and any
//! executor, or as [tasks](crate::tasks) on the thread of a worker: a [`WorkerLink`] is their [`Link`].
//! [`Cluster`](crate::cluster::Cluster) puts it together.
//!
//! ```text
//!   client ──┐ requests ┌───────┐  ┌────────────────────────────┐
//!   client ──┼─────────▶│ queue │─▶│ worker 0: its participant  │──┐ answers   ┌───────┐
//!   client ──┤          └───────┘  └────────────────────────────┘  ├──────────▶│ inbox │─▶ client
//!            │          ┌───────┐  ┌────────────────────────────┐  │           └───────┘
//!            └─────────▶│ queue │─▶│ worker 1: its participant  │──┘           (one for each client)
//!                       └───────┘  └────────────────────────────┘
//! ```
//!
//! A task's messages to its own worker, and those that wake it, go past the queue: they never leave the thread. So one core can be
//! one partition, and transactions that stay in it cost neither a queue nor the waking of a thread.
//!
//! # What holds of these messages
//!
//! - *Everything arrives, once, in the order in which it was sent* by one client to one worker. So nothing is late or sent again, and neither
//!   requests nor answers are kept for that.
//! - *Who ends is known.* When a link is dropped its workers are told, after all that came over it: what its client has left undecided
//!   is rolled back everywhere, and its name is free. (A client that has decided has told so at once: there is no moment in
//!   which it has told some and not others.)
//! - *Nobody waits for ever.* When workers are told to stop, and when one of them panics, all links are closed, and whoever waits is told:
//!   [`Received::Closed`]. The rows of a worker that has panicked are gone, and a cluster that has lost a part of its rows is of no use.
//!   (Closures of the user's that a worker runs do not have it panic: their transactions are refused. A waker that panics does.)
//! - *A worker keeps the time* for the clients that are at home with it: one that wants to be woken by then says so. So a client needs no timers
//!   of its executor.
//!
//! Worker and client both look for a while before they go to sleep ([`executor`]).
//!
//! # DistTicToc's algorithm, and ours
//!
//! | DistTicToc | here |
//! |---|---|
//! | worker node: thread, partition, working queue (§2.3) | a worker |
//! | network server: one thread, a session for each connection, none of which waits for another (§2.3) | clients, on as many threads as there are; [`block_on_all`](crate::executor::block_on_all) has many of them on one; or tasks, which need no such thread |
//! | partition by hash (§2.3) | as the table says: [`Partitioning`](crate::partition::Partitioning) |
//! | lock the working set in the order of keys (§2.4.2, step 1) | [`Step::Prepare`](crate::message::Step) seals the write set, under `tictoc`; `sundial` has locked it while executing |
//! | the commit time is the greatest of the workers' (step 2, and a round of messages) | each answer while executing says from when on the transaction may commit ([`Standing`](noonmark::branch::Standing)), so the coordinator knows the greatest without that round; a worker that knows better by then says *later* |
//! | validate the working set (step 3, and a round) | the same message as sealing; [`Branch::prepare`](noonmark::branch::Branch::prepare) has the reason why it may be |
//! | postponed operations, by the session that holds the lock (§2.4.2) | answers that are held back, behind the transaction that is in the way, unless that could end in a circle ([`participant`](crate::participant)) |
//! | only workers that take part are asked (§2.4.2) | the same; of one that has only read, and whose reads hold until then, nothing is asked |
//!
//! Departures, and why:
//!
//! - *Read and write sets are apart.* The paper combines them, as its transactions write all that they read; so its timestamp is one number.
//!   We take any transaction, and a row that is only read keeps its write time: readers do not meet. What is read to be written is in one
//!   set all the same: it has one entry, and the lock is its validation.
//! - *Who postpones may deadlock.* In the paper each worker locks in the order of its keys, but two workers may have two transactions in two
//!   orders. Here ages say who waits and who aborts ([`participant`](crate::participant)), and nobody is held back for longer than
//!   [`Builder::wait_max`](crate::cluster::Builder::wait_max).
//! - *One round instead of three* where nothing speaks against it, and none for a worker that decides alone: that one commits as it
//!   validates.
//! - *No sockets.* The paper's clients are processes; ours are in this one. What its network server costs is not measured here.
//!
//! What it does not do: pin threads to cores, move rows between workers, replace one that has panicked, or bound its queues: a client
//! has one transaction at a time, and that bounds what is in them.

use crate::client::{Link, Received};
use crate::coordinator::Outgoing;
use crate::executor::{self, Bell, LOOKS_MAX, look_again};
use crate::message::{Answer, ClientId, Reply, Request};
use crate::participant::Participant;
use crate::partition::ServerId;
use crate::tasks::{Program, Tasks};
use noonmark::branch::{BranchHost, UntypedTable};
use noonmark::{Database, Host, Threads};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A worker sees to its tasks and to what is late after so many letters of others, however many more there are.
const LETTERS_MAX: usize = 64;
/// And to its letters after so many tasks.
const POLLS_MAX: usize = 64;

/// What comes to a worker.
enum Letter {
    /// What a client asks.
    Request(Request),
    /// There is one table more.
    Table(UntypedTable),
    /// There is a client of this name, and answers to it go there.
    Begins(ClientId, Arc<Inbox>),
    /// There is none of this name any more. Nothing of its comes after this.
    Ends(ClientId),
    /// This client wants to be woken at this time.
    Alarm(ClientId, u64),
    /// There is one task more.
    Task(Program),
    /// The task of this number has been woken.
    Woken(usize),
    /// Nothing comes after this.
    Stop,
}

/// Where a client's answers are until it takes them.
#[derive(Default)]
struct Inbox(Mutex<InboxState>);

#[derive(Default)]
struct InboxState {
    answers: VecDeque<Answer>,
    is_closed: bool,
    /// Of who waits.
    waker: Option<Waker>,
}

impl Inbox {
    /// Changes it, and wakes who waits. Not under the lock: a waker runs what it likes.
    fn change(&self, change: impl FnOnce(&mut InboxState)) {
        let mut state = lock(&self.0);
        change(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What has come; if nothing has, whom to wake then.
    fn take(&self, waker: &Waker) -> Option<Received> {
        let mut state = lock(&self.0);
        match state.answers.pop_front() {
            Some(answer) => Some(Received::Answer(answer)),
            None if state.is_closed => Some(Received::Closed),
            None if state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) => None,
            None => {
                let earlier = state.waker.replace(waker.clone());
                drop(state);
                drop(earlier);
                None
            }
        }
    }
}

/// The lock, also if somebody has panicked who had it: nothing is left half done under any of these.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clients that there are.
struct Clients {
    is_closed: bool,
    inboxes: BTreeMap<ClientId, Arc<Inbox>>,
    /// Of each worker, the names of those that are at home with it.
    homes: Vec<Names>,
}

/// The second parts of names.
#[derive(Clone, Default)]
struct Names {
    /// Those below `next` that nobody has.
    free: Vec<u16>,
    next: u32,
}

impl Names {
    /// How many there are that somebody has.
    fn taken(&self) -> usize {
        self.next as usize - self.free.len()
    }

    /// One that nobody has, if there is one.
    fn take(&mut self) -> Option<u16> {
        self.free.pop().or_else(|| {
            let name = u16::try_from(self.next).ok()?;
            self.next += 1;
            Some(name)
        })
    }
}

/// What a worker has counted.
#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    refusals: AtomicU64,
}

/// What workers and links share.
struct Hub {
    host: Threads,
    queues: Vec<Sender<Letter>>,
    counts: Vec<Arc<Counts>>,
    clients: Mutex<Clients>,
}

impl Hub {
    /// Nobody waits any more, and nobody comes.
    fn close(&self) {
        let mut clients = lock(&self.clients);
        clients.is_closed = true;
        let inboxes: Vec<_> = clients.inboxes.values().cloned().collect();
        drop(clients);
        for inbox in inboxes {
            inbox.change(|state| state.is_closed = true);
        }
    }

    /// Puts a letter into a worker's queue. If it has stopped or panicked the letter is lost; but then all links are closed, or will be.
    fn post(&self, worker: usize, letter: Letter) {
        if let Some(queue) = self.queues.get(worker) {
            let _ = queue.send(letter);
        }
    }

    fn post_to_all(&self, letter: impl Fn() -> Letter) {
        (0..self.queues.len()).for_each(|worker| self.post(worker, letter()));
    }

    /// Where a worker keeps this client's inbox.
    fn number(&self, client: ClientId) -> usize {
        usize::from(client.worker) * self.queues.len() + client.server.index()
    }
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// What a worker's thread has sent to itself.
///
/// **Invariant**: all of `letters` is handled before the queue is looked at. So what one link has sent past the queue comes before what it sends
/// through it later; and it never goes back (`WorkerLink::goes_past`).
struct Here {
    hub: Arc<Hub>,
    worker: usize,
    letters: VecDeque<Letter>,
    /// Tasks that are to be polled, by number.
    woken: VecDeque<usize>,
}

impl Here {
    /// What comes of this, if the calling thread is this worker's.
    fn at<T>(hub: &Arc<Hub>, worker: usize, change: impl FnOnce(&mut Here) -> T) -> Option<T> {
        // (A thread that ends has none any more.)
        let changed = HERE.try_with(|here| match &mut *here.borrow_mut() {
            Some(here) if here.worker == worker && Arc::ptr_eq(&here.hub, hub) => Some(change(here)),
            _ => None,
        });
        changed.ok().flatten()
    }

    /// The same, on a worker's thread.
    fn of_this_thread<T>(change: impl FnOnce(&mut Here) -> T) -> Option<T> {
        HERE.with(|here| here.borrow_mut().as_mut().map(change))
    }
}

/// Has a worker poll one of its tasks.
#[derive(Clone)]
pub(crate) struct Doorbell {
    hub: Arc<Hub>,
    worker: usize,
}

impl Bell for Doorbell {
    fn ring(&self, task: usize) {
        if Here::at(&self.hub, self.worker, |here| here.woken.push_back(task)).is_none() {
            self.hub.post(self.worker, Letter::Woken(task));
        }
    }
}

/// Closes the links when its worker ends, in whatever way.
struct CloseAtEnd(Arc<Hub>);

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        self.0.close();
        // What is left there is for nobody. (Dropped when the cell is free again: it may be the user's.)
        let _here = HERE.take();
    }
}

/// One of the threads.
struct Worker {
    participant: Participant,
    queue: Receiver<Letter>,
    hub: Arc<Hub>,
    counts: Arc<Counts>,
    /// By the number of their client.
    inboxes: Vec<Option<Arc<Inbox>>>,
    /// Who wants to be woken when, those who do not want it any more included.
    alarms: BTreeSet<(u64, ClientId)>,
    answers: Vec<Answer>,
    tasks: Tasks,
}

impl Worker {
    /// Until it is told to stop.
    fn run(&mut self) {
        loop {
            // The time is read once for all that is there.
            let (mut now_ns, mut left) = (None, LETTERS_MAX);
            loop {
                // (All of its own: there are as many as its tasks have sent when they were polled, and no more come of handling them.)
                let here = Here::of_this_thread(|here| here.letters.pop_front()).flatten();
                let letter = here.or_else(|| {
                    left = left.checked_sub(1)?;
                    self.queue.try_recv().ok()
                });
                let Some(letter) = letter else { break };
                let now_ns = *now_ns.get_or_insert_with(|| self.hub.host.now_ns());
                if !self.handle(now_ns, letter) {
                    return;
                }
            }
            for _ in 0..POLLS_MAX {
                let woken = Here::of_this_thread(|here| here.woken.pop_front()).flatten();
                let Some(task) = woken else { break };
                self.tasks.poll(task);
            }
            let due_ns = self.see_to_what_is_late();
            if Here::of_this_thread(|here| !here.letters.is_empty() || !here.woken.is_empty()) == Some(true) {
                continue;
            }
            match self.wait(due_ns) {
                Ok(Some(letter)) => {
                    let now_ns = self.hub.host.now_ns();
                    if !self.handle(now_ns, letter) {
                        return;
                    }
                }
                Ok(None) => {}
                Err(AllGone) => return,
            }
        }
    }

    /// The next letter, unless none comes until something is due.
    fn wait(&self, due_ns: Option<u64>) -> Result<Option<Letter>, AllGone> {
        for turn in 0..LOOKS_MAX {
            match self.queue.try_recv() {
                Ok(letter) => return Ok(Some(letter)),
                Err(TryRecvError::Empty) => look_again(turn),
                Err(TryRecvError::Disconnected) => return Err(AllGone),
            }
        }
        let Some(due_ns) = due_ns else { return self.queue.recv().map(Some).map_err(|_| AllGone) };
        let left_ns = due_ns.saturating_sub(self.hub.host.now_ns());
        match self.queue.recv_timeout(Duration::from_nanos(left_ns)) {
            Ok(letter) => Ok(Some(letter)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(AllGone),
        }
    }

    /// False: it is to stop.
    fn handle(&mut self, now_ns: u64, letter: Letter) -> bool {
        match letter {
            Letter::Request(request) => {
                // Relaxed: counts, and only this thread changes them.
                self.counts.requests.fetch_add(1, Ordering::Relaxed);
                self.participant.receive(now_ns, request, &mut self.answers);
            }
            Letter::Table(table) => self.participant.add_table(table),
            Letter::Begins(client, inbox) => {
                let number = self.hub.number(client);
                if self.inboxes.len() <= number {
                    self.inboxes.resize(number + 1, None);
                }
                self.inboxes[number] = Some(inbox);
            }
            Letter::Ends(client) => {
                if let Some(inbox) = self.inboxes.get_mut(self.hub.number(client)) {
                    *inbox = None;
                }
                self.participant.forget(client, &mut self.answers);
            }
            Letter::Alarm(client, at_ns) => {
                self.alarms.insert((at_ns, client));
            }
            Letter::Task(program) => self.tasks.start(program),
            Letter::Woken(task) => self.tasks.poll(task),
            Letter::Stop => return false,
        }
        self.deliver();
        true
    }

    fn deliver(&mut self) {
        for answer in self.answers.drain(..) {
            if let Reply::Refused(_) = answer.reply {
                self.counts.refusals.fetch_add(1, Ordering::Relaxed);
            }
            let number = self.hub.number(answer.attempt.client);
            if let Some(Some(inbox)) = self.inboxes.get(number) {
                inbox.change(|state| state.answers.push_back(answer));
            }
        }
    }

    /// Wakes whose time has come, and refuses what has been held back for too long: when there is more to see to.
    fn see_to_what_is_late(&mut self) -> Option<u64> {
        let mut due_ns = self.next_due_ns()?;
        let now_ns = self.hub.host.now_ns();
        if due_ns <= now_ns {
            self.participant.tick(now_ns, &mut self.answers);
            self.deliver();
            while let Some((_, client)) = self.alarms.first().copied().filter(|(at_ns, _)| *at_ns <= now_ns) {
                self.alarms.pop_first();
                if let Some(Some(inbox)) = self.inboxes.get(self.hub.number(client)) {
                    inbox.change(|_| {});
                }
            }
            due_ns = self.next_due_ns()?;
        }
        Some(due_ns)
    }

    fn next_due_ns(&self) -> Option<u64> {
        let alarm_ns = self.alarms.first().map(|(at_ns, _)| *at_ns);
        alarm_ns.into_iter().chain(self.participant.wants_time_at_ns()).min()
    }
}

/// Nobody is left who could send anything.
struct AllGone;

/// The threads of a cluster. They end when this is dropped, which waits for that.
pub(crate) struct Workers {
    hub: Arc<Hub>,
    threads: Vec<JoinHandle<()>>,
}

/// No link can be had.
pub(crate) enum NoLink {
    /// A worker has panicked.
    Closed,
    /// There are as many clients as there are names.
    TooMany,
}

impl Workers {
    /// A thread for each of these databases, which are the servers' in their order, with a participant that is set up like this.
    pub(crate) fn start(
        databases: &[Database<BranchHost>],
        set_up: impl Fn(Participant) -> Participant,
    ) -> std::io::Result<Self> {
        let (queues, receivers): (Vec<_>, Vec<_>) = databases.iter().map(|_| channel()).unzip();
        let counts: Vec<Arc<Counts>> = databases.iter().map(|_| Arc::default()).collect();
        let homes = vec![Names::default(); databases.len()];
        let clients = Mutex::new(Clients { is_closed: false, inboxes: BTreeMap::new(), homes });
        let hub = Arc::new(Hub { host: Threads::default(), queues, counts, clients });
        // Dropped if a thread cannot be had: those that run end.
        let mut workers = Workers { hub: hub.clone(), threads: Vec::new() };
        for ((number, database), queue) in (0..).zip(databases).zip(receivers) {
            let participant = Participant::new(ServerId::new(number), database.clone());
            let participant = set_up(participant).without_doubled_requests();
            let (hub, worker) = (hub.clone(), usize::from(number));
            let run = move || {
                executor::never_wait_here();
                let (letters, woken) = (VecDeque::new(), VecDeque::new());
                HERE.set(Some(Here { hub: hub.clone(), worker, letters, woken }));
                let _close = CloseAtEnd(hub.clone());
                let mut worker = Worker {
                    participant,
                    queue,
                    counts: hub.counts[worker].clone(),
                    inboxes: Vec::new(),
                    alarms: BTreeSet::new(),
                    answers: Vec::new(),
                    tasks: Tasks::new(Doorbell { hub: hub.clone(), worker }),
                    hub,
                };
                worker.run();
            };
            workers
                .threads
                .push(thread::Builder::new().name(format!("noonmark worker {number}")).spawn(run)?);
        }
        Ok(workers)
    }

    /// Gives each worker its part of a table.
    pub(crate) fn add_table(&self, parts: Vec<UntypedTable>) {
        for (worker, part) in parts.into_iter().enumerate() {
            self.hub.post(worker, Letter::Table(part));
        }
    }

    /// How many links there are.
    pub(crate) fn links(&self) -> usize {
        lock(&self.hub.clients).inboxes.len()
    }

    /// A link for one more client, whose name goes with it: of a task at that worker, which there is; otherwise at home with the one
    /// that has fewest.
    pub(crate) fn link(&self, task_at: Option<ServerId>) -> Result<WorkerLink, NoLink> {
        let hub = self.hub.clone();
        let mut clients = lock(&hub.clients);
        if clients.is_closed {
            return Err(NoLink::Closed);
        }
        let fewest = || (0..).zip(&clients.homes).min_by_key(|(_, names)| names.taken());
        let server = task_at.or_else(|| fewest().map(|(number, _)| ServerId::new(number)));
        let server = server.ok_or(NoLink::TooMany)?;
        let worker = clients.homes[server.index()].take().ok_or(NoLink::TooMany)?;
        let client = ClientId { server, worker };
        let inbox = Arc::new(Inbox::default());
        clients.inboxes.insert(client, inbox.clone());
        drop(clients);
        // Whoever had this name before has told the workers of its end: it was free only then.
        hub.post_to_all(|| Letter::Begins(client, inbox.clone()));
        Ok(WorkerLink { client, inbox, hub, goes_past: task_at.is_some() })
    }

    /// Has a worker run this.
    pub(crate) fn start_at(&self, worker: ServerId, program: Program) {
        self.hub.post(worker.index(), Letter::Task(program));
    }

    /// How many requests a worker has carried out, and how many attempts it has refused.
    pub(crate) fn counts(&self, worker: usize) -> (u64, u64) {
        let counts = &self.hub.counts[worker];
        (counts.requests.load(Ordering::Relaxed), counts.refusals.load(Ordering::Relaxed))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.hub.close();
        self.hub.post_to_all(|| Letter::Stop);
        for thread in self.threads.drain(..) {
            // A waker may have been the last to know of the future that owned the cluster, and it was a worker who woke it. That one
            // ends with its next letter.
            if thread.thread().id() != thread::current().id() {
                // (If it has panicked that has been told, and the links are closed.)
                let _ = thread.join();
            }
        }
    }
}

/// A client's way to the workers. Its future may be awaited on any executor, or [blocked on](crate::executor::block_on).
///
/// When it is dropped, whatever its client has left undecided is rolled back.
pub struct WorkerLink {
    client: ClientId,
    inbox: Arc<Inbox>,
    hub: Arc<Hub>,
    /// What it sends to the worker that it is at home with goes past the queue, as it has always been sent from that thread.
    goes_past: bool,
}

impl WorkerLink {
    /// Whose it is. No other client has this name while it lives.
    pub fn client(&self) -> ClientId {
        self.client
    }

    fn post(&mut self, worker: usize, letter: Letter) {
        if !self.goes_past || worker != self.client.server.index() {
            return self.hub.post(worker, letter);
        }
        let mut letter = Some(letter);
        Here::at(&self.hub, worker, |here| here.letters.extend(letter.take()));
        if let Some(letter) = letter {
            // It has left its task.
            self.goes_past = false;
            self.hub.post(worker, letter);
        }
    }
}

impl Link for WorkerLink {
    fn send(&mut self, outgoing: Outgoing) {
        self.post(outgoing.to.index(), Letter::Request(outgoing.request));
    }

    fn receive(&mut self, until_ns: Option<u64>) -> impl Future<Output = Received> {
        // Who never sends anything again waits until the end of time.
        let until_ns = until_ns.filter(|until_ns| *until_ns < u64::MAX);
        Receive { link: self, until_ns, is_alarm_set: false, is_waiting: false }
    }

    fn now_ns(&self) -> u64 {
        self.hub.host.now_ns()
    }

    fn random(&mut self) -> u64 {
        self.hub.host.seed()
    }

    fn sends_when_dropped(&self) -> bool {
        true
    }
}

/// The next answer.
struct Receive<'l> {
    link: &'l WorkerLink,
    until_ns: Option<u64>,
    is_alarm_set: bool,
    /// Its waker may be in the inbox.
    is_waiting: bool,
}

impl Future for Receive<'_> {
    type Output = Received;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Received> {
        let link = self.link;
        if let Some(received) = link.inbox.take(context.waker()) {
            self.is_waiting = false;
            return Poll::Ready(received);
        }
        self.is_waiting = true;
        match self.until_ns {
            Some(until_ns) if link.hub.host.now_ns() >= until_ns => Poll::Ready(Received::Nothing),
            Some(until_ns) if !self.is_alarm_set => {
                self.is_alarm_set = true;
                // After the waker has been left there: whoever rings finds it.
                link.hub.post(link.client.server.index(), Letter::Alarm(link.client, until_ns));
                Poll::Pending
            }
            _ => Poll::Pending,
        }
    }
}

impl Drop for Receive<'_> {
    fn drop(&mut self) {
        if self.is_waiting {
            // It may keep alive the very task that has the inbox. (Dropped when the lock has been let go of.)
            let _waker = lock(&self.link.inbox.0).waker.take();
        }
    }
}

impl Drop for WorkerLink {
    fn drop(&mut self) {
        let ClientId { server, worker } = self.client;
        for number in 0..self.hub.queues.len() {
            self.post(number, Letter::Ends(self.client));
        }
        let mut clients = lock(&self.hub.clients);
        clients.inboxes.remove(&self.client);
        // Only now: see `Workers::link`.
        clients.homes[server.index()].free.push(worker);
    }
}

impl std::fmt::Debug for WorkerLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerLink").field("client", &self.client).finish()
    }
}
