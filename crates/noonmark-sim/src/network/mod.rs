//! A virtual network: servers, the messages between them, and what becomes of those on their way.
//!
//! Each server has its rows in a [`Participant`], and a worker that does nothing but take letters out of the server's box, have
//! the participant answer them, and post the answers. Each client is a worker too. They share no memory (the schedule is
//! [`Schedule::Messages`](crate::pricing::Schedule::Messages)); all that passes between them is letters, and how long each is on its way, whether it arrives, once or twice, is
//! drawn from the seed. So letters overtake each other by themselves.
//!
//! Outside a run a letter is answered at once: tables are filled, and looked at, in no time.
//!
//! Or servers are *workers that share nothing*, as in one process: their clients are elsewhere, at home with none of them, behind one thread that hands
//! each message on ([`Conditions::server_ns`]). Then what clients ask of the worker that they are named after is a letter, too.
//!
//! What it does not do: it looks into no letter, but for its size, and for how much there is to do.

mod abort_buffer;
pub mod disttictoc;
pub mod fuzz;
pub mod latency;
mod ledger;
pub mod store;
pub mod tpcc;
pub mod ycsb;

pub use ledger::PhaseBytes;

use crate::VirtualCores;
use latency::Latency;
use ledger::Ledger;
use noonmark_cluster::client::{Link, Received};
use noonmark_cluster::coordinator::Outgoing;
use noonmark_cluster::message::{Answer, Ask, AttemptId, ClientId, Operation, Request, Step, WireSize};
use noonmark_cluster::participant::Participant;
use noonmark_cluster::partition::ServerId;
use noonmark_core::Host;
use noonmark_workloads::random::Random;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

/// A time during which some servers hear nothing of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// From when on.
    pub from_ns: u64,
    /// Until when.
    pub until_ns: u64,
    /// The servers on one side, a bit each by their number.
    pub side: u64,
}

/// What a network does to messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// How long a message is on its way from one server to another, if it is not held up.
    pub latency: Latency,
    /// How long instead, by the numbers of the server that sends it and of the one that gets it. Where nothing is told of a pair, as `latency`.
    pub pairs: Vec<Vec<Latency>>,
    /// How long one is on its way within a server.
    pub local_ns: u64,
    /// How long an input thread of a server takes for each message that comes from another one.
    pub handling_ns: u64,
    /// How long an output thread takes for each message to another one.
    pub sending_ns: u64,
    /// How many input threads a server has, and how many output threads.
    pub io_threads: usize,
    /// How long an operation takes, and what is seen to of a transaction at each round of its commit: at whichever thread carries it out.
    pub access_ns: u64,
    /// How long each row takes at each round of a commit, where that is told apart: instead of what all of them take together.
    pub row_ns: Option<u64>,
    /// Servers are workers that share nothing, whose clients are elsewhere; the one thread between them takes so long for each message. If it takes no
    /// time, there is none. If this is none, clients run at servers.
    pub server_ns: Option<u64>,
    /// Bytes that one server can send in a microsecond.
    pub bytes_per_us: u64,
    /// The share of messages that are lost.
    pub loss: f64,
    /// The share that arrives twice.
    pub doubled: f64,
    /// The share that is held up, for up to a hundred times the longest latency of its pair.
    pub held_up: f64,
    /// When which servers hear nothing of the others.
    pub cuts: Vec<Cut>,
    /// From here on no message is lost, doubled or held up any more.
    pub heals_at_ns: u64,
}

impl Conditions {
    /// A network within one room, on which nothing goes wrong.
    pub fn quiet() -> Self {
        Conditions {
            latency: Latency::Uniform { min_ns: 40_000, max_ns: 60_000 },
            pairs: Vec::new(),
            local_ns: 500,
            handling_ns: 1_000,
            sending_ns: 1_000,
            io_threads: 1,
            access_ns: 0,
            row_ns: None,
            server_ns: None,
            bytes_per_us: 1_250,
            loss: 0.0,
            doubled: 0.0,
            held_up: 0.0,
            cuts: Vec::new(),
            heals_at_ns: 0,
        }
    }
}

impl Conditions {
    /// How long it takes to carry out a request of a transaction that has so many rows here.
    fn work_ns(&self, request: &Request, rows: u64) -> u64 {
        match &request.ask {
            Ask::Work(operations, Step::Execute) => operations.len() as u64 * self.access_ns,
            Ask::Work(..) | Ask::End(_) => self.row_ns.map_or(self.access_ns, |row_ns| row_ns * rows),
        }
    }

    /// Whether what passes between these is a message from one server to another; where workers share nothing, whatever passes is one.
    fn is_remote(&self, from: ServerId, to: ServerId) -> bool {
        from != to || self.server_ns.is_some()
    }
}

/// How many rows each client's transaction has at one server.
#[derive(Default)]
struct Rows(BTreeMap<ClientId, (u64, u64)>);

impl Rows {
    /// With those of this request.
    fn with(&mut self, request: &Request) -> u64 {
        let AttemptId { client, sequence } = request.attempt;
        let (of, rows) = self.0.entry(client).or_default();
        if *of != sequence {
            (*of, *rows) = (sequence, 0);
        }
        if let Ask::Work(operations, _) = &request.ask {
            // (A row is read before it is written.)
            let is_row = |operation: &&Operation| !matches!(operation, Operation::Write { .. });
            *rows += operations.iter().filter(is_row).count() as u64;
        }
        *rows
    }
}

/// What has passed over a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages that were sent.
    pub messages: u64,
    /// Those of them from one server to another.
    pub remote_messages: u64,
    /// The bytes of those.
    pub remote_bytes: u64,
    /// Those that were lost.
    pub lost: u64,
    /// Those that arrived twice.
    pub doubled: u64,
}

/// A letter, when it arrives, and the order in which it was posted.
struct Letter<T> {
    at_ns: u64,
    number: u64,
    body: T,
}

impl<T> PartialEq for Letter<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ns, self.number) == (other.at_ns, other.number)
    }
}
impl<T> Eq for Letter<T> {}
impl<T> PartialOrd for Letter<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Letter<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

/// Where somebody's letters arrive.
struct Inbox<T> {
    letters: BinaryHeap<Reverse<Letter<T>>>,
    /// Who waits for letters, by their number.
    wakers: BTreeMap<usize, Waker>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox { letters: BinaryHeap::new(), wakers: BTreeMap::new() }
    }
}

impl<T> Inbox<T> {
    fn first_at_ns(&self) -> Option<u64> {
        self.letters.peek().map(|letter| letter.0.at_ns)
    }

    fn take(&mut self, now_ns: u64) -> Option<T> {
        if self.first_at_ns()? > now_ns {
            return None;
        }
        self.letters.pop().map(|letter| letter.0.body)
    }

    /// Puts a letter in, and says whom to wake.
    fn put(&mut self, letter: Letter<T>) -> BTreeMap<usize, Waker> {
        self.letters.push(Reverse(letter));
        std::mem::take(&mut self.wakers)
    }
}

struct State {
    random: Random,
    conditions: Conditions,
    to_servers: Vec<Inbox<Request>>,
    to_clients: BTreeMap<ClientId, Inbox<Answer>>,
    /// When each output thread of each server has sent what it is sending.
    sending_until_ns: Vec<Vec<u64>>,
    /// When the thread before workers that share nothing has handed on what it has.
    handing_until_ns: u64,
    posted: u64,
    traffic: Traffic,
    ledger: Ledger,
    /// Clients that have not ended.
    clients_left: usize,
    /// A run is under way.
    runs: bool,
}

/// A virtual network with its servers. A handle: clones are of the same network.
#[derive(Clone)]
pub struct Network {
    cores: VirtualCores,
    servers: Arc<Vec<Mutex<Participant>>>,
    state: Arc<Mutex<State>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Network {
    /// A network of these servers, in the order of their numbers, whose workers run on these cores.
    pub fn new(cores: VirtualCores, servers: Vec<Participant>, conditions: Conditions, seed: u64) -> Self {
        let (count, io_threads) = (servers.len(), conditions.io_threads.max(1));
        let state = State {
            random: Random::new(seed, u64::MAX - 1),
            conditions,
            to_servers: (0..count).map(|_| Inbox::default()).collect(),
            to_clients: BTreeMap::new(),
            sending_until_ns: vec![vec![0; io_threads]; count],
            handing_until_ns: 0,
            posted: 0,
            traffic: Traffic::default(),
            ledger: Ledger::default(),
            clients_left: 0,
            runs: false,
        };
        Network {
            cores,
            servers: Arc::new(servers.into_iter().map(Mutex::new).collect()),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// How many servers it has.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Does something with a server's rows, or looks at them.
    pub fn with_server<T>(&self, server: usize, f: impl FnOnce(&mut Participant) -> T) -> Option<T> {
        self.servers.get(server).map(|server| f(&mut lock(server)))
    }

    /// What has passed over it.
    pub fn traffic(&self) -> Traffic {
        lock(&self.state).traffic
    }

    /// The bytes between servers of all attempts that have ended, by what they were sent for.
    pub fn phase_bytes(&self) -> PhaseBytes {
        lock(&self.state).ledger.ended()
    }

    /// A run of so many clients begins.
    pub(crate) fn begin(&self, clients: usize) {
        let mut state = lock(&self.state);
        (state.clients_left, state.runs) = (clients, true);
    }

    /// The run has ended.
    pub(crate) fn end(&self) {
        lock(&self.state).runs = false;
    }

    /// A client has ended. The servers end with the last one.
    pub(crate) fn client_ends(&self) {
        let mut state = lock(&self.state);
        state.clients_left = state.clients_left.saturating_sub(1);
        let wakers = state.to_servers.iter_mut().map(|inbox| std::mem::take(&mut inbox.wakers));
        let wakers: Vec<_> = wakers.collect();
        drop(state);
        wakers.iter().flat_map(BTreeMap::values).for_each(Waker::wake_by_ref);
    }

    /// What a server's input thread of this number does, until no client is left.
    pub(crate) fn serve(&self, server: usize, thread: usize) {
        let mut rows = Rows::default();
        loop {
            if self.cores.is_over() || lock(&self.state).clients_left == 0 {
                return;
            }
            let now_ns = self.cores.now_ns();
            let request = lock(&self.state).to_servers[server].take(now_ns);
            let mut answers = Vec::new();
            match request {
                Some(request) => {
                    let cost_ns = {
                        let conditions = &lock(&self.state).conditions;
                        conditions.handling_ns + conditions.work_ns(&request, rows.with(&request))
                    };
                    self.cores.sleep_ns(cost_ns);
                    let mut participant = lock(&self.servers[server]);
                    participant.receive(self.cores.now_ns(), request, &mut answers);
                }
                None => {
                    let wants_at_ns = lock(&self.servers[server]).wants_time_at_ns();
                    if wants_at_ns.is_some_and(|at_ns| at_ns <= now_ns) {
                        lock(&self.servers[server]).tick(now_ns, &mut answers);
                    } else {
                        let first_ns = lock(&self.state).to_servers[server].first_at_ns();
                        let until_ns = [wants_at_ns, first_ns].into_iter().flatten().min();
                        self.cores.block_on(until_ns, |waker| {
                            let mut state = lock(&self.state);
                            let first_now_ns = state.to_servers[server].first_at_ns();
                            let wants_now_ns = lock(&self.servers[server]).wants_time_at_ns();
                            if state.clients_left == 0
                                || first_now_ns != first_ns
                                || wants_now_ns != wants_at_ns
                            {
                                return Poll::Ready(());
                            }
                            state.to_servers[server].wakers.insert(thread, waker.clone());
                            Poll::Pending
                        });
                    }
                }
            }
            for answer in answers {
                self.post_answer(answer);
            }
        }
    }

    fn post_answer(&self, answer: Answer) {
        let (from, to, bytes) = (answer.from, answer.attempt.client, answer.wire_bytes());
        let times = self.journeys(from, to.server, bytes);
        let mut state = lock(&self.state);
        if state.conditions.is_remote(from, to.server) {
            state.ledger.answer(&answer, bytes);
        }
        let mut wakers = BTreeMap::new();
        for at_ns in times {
            state.posted += 1;
            let letter = Letter { at_ns, number: state.posted, body: answer.clone() };
            wakers.append(&mut state.to_clients.entry(to).or_default().put(letter));
        }
        drop(state);
        wakers.values().for_each(Waker::wake_by_ref);
    }

    fn post_request(&self, from: ServerId, Outgoing { to, request }: Outgoing) {
        if !lock(&self.state).runs {
            return self.answer_at_once(to, request);
        }
        if !lock(&self.state).conditions.is_remote(from, to) {
            return self.work_at_home(to, request);
        }
        let bytes = request.wire_bytes();
        let times = self.journeys(from, to, bytes);
        let mut state = lock(&self.state);
        state.ledger.request(&request, bytes);
        let mut wakers = BTreeMap::new();
        for at_ns in times {
            state.posted += 1;
            let letter = Letter { at_ns, number: state.posted, body: request.clone() };
            let Some(inbox) = state.to_servers.get_mut(to.index()) else { continue };
            wakers.append(&mut inbox.put(letter));
        }
        drop(state);
        wakers.values().for_each(Waker::wake_by_ref);
    }

    /// A client works on the rows of its own server by itself.
    fn work_at_home(&self, server: ServerId, request: Request) {
        let cost_ns = {
            let mut state = lock(&self.state);
            state.traffic.messages += 1;
            state.conditions.work_ns(&request, 0)
        };
        self.cores.sleep_ns(cost_ns);
        let mut answers = Vec::new();
        self.with_server(server.index(), |server| server.receive(self.cores.now_ns(), request, &mut answers));
        for answer in answers {
            self.post_answer(answer);
        }
        // What is held back now may have a time at which the server wants to look.
        let wakers = std::mem::take(&mut lock(&self.state).to_servers[server.index()].wakers);
        wakers.values().for_each(Waker::wake_by_ref);
    }

    fn answer_at_once(&self, to: ServerId, request: Request) {
        let mut answers = Vec::new();
        self.with_server(to.index(), |server| server.receive(self.cores.now_ns(), request, &mut answers));
        let mut state = lock(&self.state);
        for body in answers {
            state.posted += 1;
            let letter = Letter { at_ns: 0, number: state.posted, body };
            let client = letter.body.attempt.client;
            state.to_clients.entry(client).or_default().letters.push(Reverse(letter));
        }
    }

    /// When a message arrives that is sent now: never, once, or twice.
    fn journeys(&self, from: ServerId, to: ServerId, bytes: usize) -> Vec<u64> {
        let now_ns = self.cores.now_ns();
        let mut state = lock(&self.state);
        let State { random, conditions, traffic, sending_until_ns, handing_until_ns, .. } = &mut *state;
        traffic.messages += 1;
        if !conditions.is_remote(from, to) {
            return vec![now_ns + conditions.local_ns];
        }
        traffic.remote_messages += 1;
        traffic.remote_bytes += bytes as u64;
        let side = |cut: &Cut, server: ServerId| cut.side >> (server.number() % 64) & 1;
        let is_cut =
            |cut: &Cut| (cut.from_ns..cut.until_ns).contains(&now_ns) && side(cut, from) != side(cut, to);
        let heals = now_ns >= conditions.heals_at_ns;
        if conditions.cuts.iter().any(is_cut) || !heals && random.happens(conditions.loss) {
            traffic.lost += 1;
            return Vec::new();
        }
        // One after another.
        let mut at_once_ns = now_ns;
        let output = sending_until_ns[from.index()].iter_mut().min();
        let (sending, takes_ns) = match (conditions.server_ns, output) {
            (None, Some(output)) => (output, conditions.sending_ns),
            (None | Some(0), _) => (&mut at_once_ns, 0),
            (Some(server_ns), _) => (handing_until_ns, server_ns),
        };
        *sending = (*sending).max(now_ns) + takes_ns + bytes as u64 * 1_000 / conditions.bytes_per_us.max(1);
        let to_all = conditions.pairs.get(from.index());
        let latency = to_all.and_then(|to_all| to_all.get(to.index())).unwrap_or(&conditions.latency);
        let copies = 1 + u64::from(!heals && random.happens(conditions.doubled));
        traffic.doubled += copies - 1;
        let arrives = |_| {
            let mut way_ns = latency.draw_ns(random);
            if !heals && random.happens(conditions.held_up) {
                let more_ns = random.below(latency.max_ns().saturating_mul(100).saturating_add(1));
                way_ns = way_ns.saturating_add(more_ns);
            }
            sending.saturating_add(way_ns)
        };
        (0..copies).map(arrives).collect()
    }

    /// A client's way to the servers.
    pub fn link(&self, client: ClientId) -> VirtualLink {
        let random = Random::new(self.cores.seed(), client.worker.into());
        VirtualLink { network: self.clone(), client, random }
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}

/// A client's way to the servers of a virtual network.
#[derive(Debug)]
pub struct VirtualLink {
    network: Network,
    client: ClientId,
    random: Random,
}

impl Link for VirtualLink {
    fn send(&mut self, outgoing: Outgoing) {
        self.network.post_request(self.client.server, outgoing);
    }

    async fn receive(&mut self, until_ns: Option<u64>) -> Received {
        let network = &self.network;
        loop {
            let now_ns = network.cores.now_ns();
            let (answer, first_ns, runs) = {
                let mut state = lock(&network.state);
                let runs = state.runs;
                let inbox = state.to_clients.entry(self.client).or_default();
                let answer = inbox.take(now_ns);
                (answer, inbox.first_at_ns(), runs)
            };
            if let Some(answer) = answer {
                return Received::Answer(answer);
            }
            if !runs || network.cores.is_over() {
                return Received::Closed;
            }
            if until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
                return Received::Nothing;
            }
            let until_ns = [until_ns, first_ns].into_iter().flatten().min();
            // (This suspends the client's worker, not its future: who polls it gets an answer.)
            network.cores.block_on(until_ns, |waker| {
                let mut state = lock(&network.state);
                let inbox = state.to_clients.entry(self.client).or_default();
                if inbox.first_at_ns() != first_ns {
                    return Poll::Ready(());
                }
                inbox.wakers.insert(0, waker.clone());
                Poll::Pending
            });
        }
    }

    fn now_ns(&self) -> u64 {
        self.network.cores.now_ns()
    }

    fn random(&mut self) -> u64 {
        self.random.bits()
    }

    fn ended(&mut self, attempt: AttemptId, committed: bool) {
        lock(&self.network.state).ledger.end(attempt, committed);
    }
}
