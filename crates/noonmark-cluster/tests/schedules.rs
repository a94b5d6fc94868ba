//! Two transactions that each read what the other writes, at two servers, with their messages delivered in every order that there is.

use noonmark::branch::{Branch, BranchHost, FROZEN_TICKS, Lease, UntypedTable, Values};
use noonmark::{Age, Database, Order, Protocol, SlotId, TableOptions};
use noonmark_cluster::cache::Place;
use noonmark_cluster::coordinator::{Coordinator, CopyRead, Event, Outgoing};
use noonmark_cluster::message::{ClientId, Operation, Outcome, Purpose};
use noonmark_cluster::participant::{Participant, WAIT_MAX_DEFAULT_NS};
use noonmark_cluster::partition::{ServerId, TableId};

const TABLE: TableId = TableId::new(0);

/// Where a transaction reads the row that it does not write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reads {
    FromItsServer,
    FromACopy,
}

fn key(of: usize) -> Vec<u8> {
    (of as u64).to_be_bytes().to_vec()
}

fn read(of: usize, purpose: Purpose) -> (ServerId, Operation) {
    (ServerId::new(of as u16), Operation::Read { table: TABLE, key: key(of), groups: 0..1, purpose })
}

/// One transaction, which reads the row of one server and writes that of the other.
struct Runner {
    coordinator: Coordinator,
    reads: usize,
    copy: Option<Lease>,
    /// How far it is.
    stage: usize,
    /// Has read what was there before either of them wrote.
    read_first: bool,
    committed: Option<bool>,
}

impl Runner {
    fn go_on(&mut self, event: Option<Event>, out: &mut Vec<Outgoing>) {
        match event {
            None => {}
            Some(Event::Aborted(_)) => self.committed = Some(false),
            Some(Event::Committed(_)) => self.committed = Some(true),
            Some(Event::Operated(outcomes)) => {
                if self.stage == 0 {
                    self.read_first = outcomes == [Outcome::Row(Some(Values::of(&0_i64)))];
                }
                self.stage += 1;
                self.act(out);
            }
        }
    }

    fn act(&mut self, out: &mut Vec<Outgoing>) {
        let writes = 1 - self.reads;
        match self.stage {
            0 => match self.copy.take() {
                Some(lease) => {
                    let server = ServerId::new(self.reads as u16);
                    let place = Place { server, table: TABLE, key: key(self.reads), groups: 0..1 };
                    self.coordinator.read_copy(CopyRead { place, lease });
                    (self.stage, self.read_first) = (1, true);
                    self.act(out);
                }
                None => self.coordinator.operate(0, vec![read(self.reads, Purpose::Read)], out),
            },
            1 => self.coordinator.operate(0, vec![read(writes, Purpose::Write)], out),
            _ => {
                let values = Values::of(&1_i64);
                let write = Operation::Write { table: TABLE, key: key(writes), groups: 0..1, values };
                self.coordinator.defer(ServerId::new(writes as u16), write);
                let event = self.coordinator.commit(0, out);
                self.go_on(event, out);
            }
        }
    }
}

/// The order in which requests are delivered: at each step which one of those on their way, and of how many. (Answers arrive at once: a
/// coordinator that hears late is one whose next request is late.)
#[derive(Default)]
struct Schedule {
    choices: Vec<(usize, usize)>,
    step: usize,
}

impl Schedule {
    fn choose(&mut self, among: usize) -> usize {
        if self.step == self.choices.len() {
            self.choices.push((0, among));
        }
        self.step += 1;
        self.choices[self.step - 1].0
    }

    /// The next one: false if there is none.
    fn next(&mut self) -> bool {
        self.step = 0;
        while let Some((choice, among)) = self.choices.pop() {
            if choice + 1 < among {
                self.choices.push((choice + 1, among));
                return true;
            }
        }
        false
    }
}

fn server(number: u16, protocol: Protocol, order: Order, frozen_ticks: u64) -> Participant {
    let database = Database::builder().host(BranchHost::new(number.into())).order(order).build().unwrap();
    let table = database.create_table::<u64, i64>("rows", TableOptions::new().protocol(protocol)).unwrap();
    let mut server = Participant::new(ServerId::new(number), database).with_frozen_ticks(frozen_ticks);
    server.add_table(UntypedTable::of(&table));
    server
}

/// Runs a transaction with nobody else about.
fn alone(servers: &mut [Participant], worker: u16, operation: (ServerId, Operation)) -> Vec<Outcome> {
    let mut coordinator = Coordinator::new(ClientId { server: ServerId::new(0), worker });
    let (mut out, mut answers, mut came) = (Vec::new(), Vec::new(), Vec::new());
    coordinator.begin(0, Age::new(0, SlotId::NOBODY), &mut out);
    coordinator.operate(0, vec![operation], &mut out);
    while !out.is_empty() {
        for sent in std::mem::take(&mut out) {
            servers[sent.to.index()].receive(0, sent.request, &mut answers);
        }
        for answer in answers.drain(..) {
            match coordinator.receive(0, answer, &mut out) {
                Some(Event::Operated(outcomes)) => {
                    came = outcomes;
                    coordinator.commit(0, &mut out);
                }
                Some(Event::Aborted(why)) => panic!("{why}"),
                _ => {}
            }
        }
    }
    came
}

/// Both transactions, under one schedule: whether each committed, and whether both read what was there before.
fn run(
    protocol: Protocol,
    order: Order,
    reads: Reads,
    frozen_ticks: u64,
    schedule: &mut Schedule,
) -> ([bool; 2], bool) {
    let mut servers: Vec<_> = (0..2).map(|number| server(number, protocol, order, frozen_ticks)).collect();
    for row in 0..2 {
        let insert =
            Operation::Insert { table: TABLE, key: key(row), values: Values::of(&0_i64), replace: false };
        alone(&mut servers, 7, (ServerId::new(row as u16), insert));
    }
    let mut runners: Vec<Runner> = (0..2)
        .map(|number| {
            let copy = (reads == Reads::FromACopy).then(|| {
                match alone(&mut servers, 8 + number as u16, read(number, Purpose::Keep)).pop() {
                    Some(Outcome::Copy(_, Some(lease))) => lease,
                    other => panic!("{other:?}"),
                }
            });
            let coordinator =
                Coordinator::new(ClientId { server: ServerId::new(number as u16), worker: number as u16 });
            Runner { coordinator, reads: number, copy, stage: 0, read_first: false, committed: None }
        })
        .collect();
    let mut now_ns = 0;
    let mut on_their_way: Vec<Outgoing> = Vec::new();
    for (number, runner) in runners.iter_mut().enumerate() {
        let mut out = Vec::new();
        runner.coordinator.begin(0, Age::new(number as u64, SlotId::new(number).unwrap()), &mut out);
        runner.act(&mut out);
        on_their_way.extend(out);
    }
    loop {
        let mut answers = Vec::new();
        if on_their_way.is_empty() {
            if runners.iter().all(|runner| runner.committed.is_some()) {
                break;
            }
            // Each waits for the other: until one of them has waited for too long.
            now_ns += WAIT_MAX_DEFAULT_NS;
            servers.iter_mut().for_each(|server| server.tick(now_ns, &mut answers));
            assert!(!answers.is_empty(), "nothing is on its way, and nobody waits");
        } else {
            let sent = on_their_way.remove(schedule.choose(on_their_way.len()));
            servers[sent.to.index()].receive(now_ns, sent.request, &mut answers);
        }
        for answer in answers {
            let runner = &mut runners[usize::from(answer.attempt.client.worker)];
            let event = runner.coordinator.receive(now_ns, answer, &mut on_their_way);
            runner.go_on(event, &mut on_their_way);
        }
    }
    assert_eq!(servers.iter().map(Participant::holding).sum::<usize>(), 0);
    let committed = [0, 1].map(|number| runners[number].committed == Some(true));
    (committed, runners.iter().all(|runner| runner.read_first))
}

fn try_all(protocol: Protocol, order: Order, reads: Reads, frozen_ticks: u64) {
    let case = format!("{protocol}, {order:?}, {reads:?}, {frozen_ticks} ticks frozen");
    let (mut schedule, mut schedules, mut commits) = (Schedule::default(), 0_u32, 0_u32);
    loop {
        let (committed, read_first) = run(protocol, order, reads, frozen_ticks, &mut schedule);
        assert!(committed != [true; 2] || !read_first, "{case}: {:?}", schedule.choices);
        commits += committed.iter().filter(|committed| **committed).count() as u32;
        schedules += 1;
        if !schedule.next() {
            break;
        }
    }
    println!("{case}: {schedules} schedules, {commits} commits");
    assert!(commits > 0 && schedules > 1, "{case}");
}

#[test]
fn of_two_that_each_read_what_the_other_writes_one_aborts() {
    for protocol in Protocol::ALL.iter().copied().filter(|p| Branch::<BranchHost>::supports(*p)) {
        for order in [Order::Logical, Order::Momentary] {
            if order == Order::Logical && !protocol.keeps_read_times() {
                continue;
            }
            for reads in [Reads::FromItsServer, Reads::FromACopy] {
                let ticks: &[u64] = match (protocol, order) {
                    (Protocol::Dynamic, Order::Logical) => &[0, FROZEN_TICKS, u64::MAX],
                    _ => &[FROZEN_TICKS],
                };
                for ticks in ticks {
                    try_all(protocol, order, reads, *ticks);
                }
            }
        }
    }
}
