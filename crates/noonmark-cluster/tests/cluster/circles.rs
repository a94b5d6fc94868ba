//! Nobody waits in a circle, be it across servers: transactions that want the same rows in different orders, under every protocol and in databases
//! that mix them, with their messages delivered in every order, or in many. No time passes, so that nobody is refused for having waited for
//! long: once nothing is on its way, all have ended.

use crate::every_order::Schedule;
use noonmark::branch::{BranchHost, UntypedTable, Values};
use noonmark::{Age, Database, Order, Protocol, SlotId, TableOptions, Timestamp};
use noonmark_cluster::coordinator::{Coordinator, Event, Outgoing};
use noonmark_cluster::message::{ClientId, Operation, Purpose};
use noonmark_cluster::participant::Participant;
use noonmark_cluster::partition::{ServerId, TableId};
use noonmark_cluster::planted::{Bug, Planted};
use std::ops::Bound;

/// What a transaction does with the one row that a table has at a server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Read,
    /// Reads it to be written, and writes it with the first message of the commit.
    Update,
    /// Writes it with the first message of the commit, unannounced.
    Later,
    /// Looks through the entries of the table's index there.
    LookThrough,
}
use Act::{Later, LookThrough, Read, Update};

/// To each transaction: what it does at its own server, then at the next one.
const SHAPES: &[[&[Act]; 2]] = &[
    [&[Update], &[Update]],
    [&[Update], &[Read]],
    [&[Update], &[Later]],
    [&[Later], &[Later]],
    [&[Read], &[Read, Later]],
    [&[Read, Update], &[Read, Update]],
    [&[Update], &[LookThrough]],
    [&[LookThrough, Later], &[LookThrough]],
];

/// What is run.
#[derive(Clone, Debug)]
struct Case<'a> {
    /// Of each table.
    protocols: &'a [Protocol],
    order: Order,
    is_indexed: bool,
    shape: [&'a [Act]; 2],
    /// How many servers and transactions.
    count: usize,
    /// Of each transaction.
    ages: &'a [u64],
    planted: Planted,
}

impl Case<'_> {
    /// The table whose rows are used at a server: they take turns.
    fn table(&self, server: usize) -> TableId {
        TableId::new((server % self.protocols.len()) as u16)
    }

    fn server(&self, number: usize) -> Participant {
        let host = BranchHost::new(number as u64);
        let database = Database::builder().host(host).order(self.order).build().unwrap();
        let mut server = Participant::new(ServerId::new(number as u16), database).planted(self.planted);
        let mut indexes = Vec::new();
        for (at, protocol) in self.protocols.iter().enumerate() {
            let options = TableOptions::new().protocol(*protocol);
            let database = server.database();
            let table = database.create_table::<u64, i64>(&format!("rows {at}"), options).unwrap();
            if self.is_indexed {
                let index = table.create_index(database, "by value", |_, value| *value).unwrap();
                indexes.push(UntypedTable::of_index(&index));
            }
            server.add_table(UntypedTable::of(&table));
        }
        indexes.into_iter().for_each(|entries| server.add_table(entries));
        server
    }

    fn operation(&self, act: Act, server: usize) -> Operation {
        let table = self.table(server);
        let (key, groups) = (server.to_be_bytes().to_vec(), 0..1);
        match act {
            Read | Update => {
                let purpose = if act == Read { Purpose::Read } else { Purpose::Write };
                Operation::Read { table, key, groups, purpose }
            }
            LookThrough => Operation::Scan {
                table: TableId::new((table.index() + self.protocols.len()) as u16),
                lower: Bound::Unbounded,
                upper: Bound::Unbounded,
                groups: 0..0,
                reverse: false,
                limit: usize::MAX,
                keep: false,
            },
            Later => unreachable!("it is deferred"),
        }
    }

    /// Has all transactions run: whether each has committed. None: they wait for each other.
    fn run(&self, schedule: &mut Schedule) -> Option<Vec<bool>> {
        let mut servers: Vec<Participant> = (0..self.count).map(|number| self.server(number)).collect();
        for row in 0..self.count {
            self.put_in(&mut servers, row);
        }
        let mut runners: Vec<Runner> = (0..self.count).map(|number| Runner::new(self, number)).collect();
        let mut on_their_way: Vec<Outgoing> = Vec::new();
        for (runner, age) in runners.iter_mut().zip(self.ages) {
            let age = Age::new(*age, SlotId::new(*age as usize).unwrap());
            runner.coordinator.begin(0, age, &mut on_their_way);
            runner.go_on(self, None, &mut on_their_way);
        }
        while !on_their_way.is_empty() {
            let sent = on_their_way.remove(schedule.choose(on_their_way.len()));
            let mut answers = Vec::new();
            servers[sent.to.index()].receive(0, sent.request, &mut answers);
            for answer in answers {
                let runner = &mut runners[usize::from(answer.attempt.client.worker)];
                if let Some(event) = runner.coordinator.receive(0, answer, &mut on_their_way) {
                    runner.go_on(self, Some(event), &mut on_their_way);
                }
            }
        }
        let committed = runners.iter().map(|runner| runner.committed).collect::<Option<Vec<bool>>>()?;
        assert_eq!(servers.iter().map(Participant::holding).sum::<usize>(), 0, "{self:?}");
        Some(committed)
    }

    /// With nobody else about.
    fn put_in(&self, servers: &mut [Participant], row: usize) {
        let mut coordinator = Coordinator::new(client(self.count + row));
        coordinator.raise_floor(Timestamp::new(1 + row as u64));
        let (mut out, mut answers) = (Vec::new(), Vec::new());
        coordinator.begin(0, Age::new(0, SlotId::NOBODY), &mut out);
        let (table, key, values) = (self.table(row), row.to_be_bytes().to_vec(), Values::of(&0_i64));
        let insert = Operation::Insert { table, key, values, replace: false };
        coordinator.operate(0, vec![(ServerId::new(row as u16), insert)], &mut out);
        while !out.is_empty() {
            for sent in std::mem::take(&mut out) {
                servers[sent.to.index()].receive(0, sent.request, &mut answers);
            }
            for answer in answers.drain(..) {
                match coordinator.receive(0, answer, &mut out) {
                    Some(Event::Operated(_)) => assert!(coordinator.commit(0, &mut out).is_none()),
                    Some(Event::Aborted(why)) => panic!("{why}"),
                    Some(Event::Committed(_)) | None => {}
                }
            }
        }
    }
}

fn client(number: usize) -> ClientId {
    ClientId { server: ServerId::new(0), worker: number as u16 }
}

/// One transaction.
struct Runner {
    coordinator: Coordinator,
    number: usize,
    /// What is left to be done, the last first.
    left: Vec<(Act, usize)>,
    committed: Option<bool>,
}

impl Runner {
    fn new(case: &Case<'_>, number: usize) -> Self {
        let mut coordinator = Coordinator::new(client(number));
        coordinator.raise_floor(Timestamp::new(20 + number as u64));
        let next = (number + 1) % case.count;
        let [own, other] = case.shape;
        let all = own.iter().map(|act| (*act, number)).chain(other.iter().map(|act| (*act, next)));
        Runner { coordinator, number, left: all.rev().collect(), committed: None }
    }

    fn go_on(&mut self, case: &Case<'_>, event: Option<Event>, out: &mut Vec<Outgoing>) {
        match event {
            Some(Event::Aborted(why)) => {
                assert!(!why.words.is_empty() && !why.words.contains("ask again"), "{}", why.words);
                self.committed = Some(false);
                return;
            }
            Some(Event::Committed(_)) => {
                self.committed = Some(true);
                return;
            }
            Some(Event::Operated(_)) | None => {}
        }
        while let Some((act, server)) = self.left.pop() {
            let to = ServerId::new(server as u16);
            let write = Operation::Write {
                table: case.table(server),
                key: server.to_be_bytes().to_vec(),
                groups: 0..1,
                values: Values::of(&(10 + self.number as i64)),
            };
            if act == Later {
                self.coordinator.defer_unannounced(to, write);
                continue;
            }
            self.coordinator.operate(0, vec![(to, case.operation(act, server))], out);
            if act == Update {
                self.coordinator.defer(to, write, case.is_indexed);
            }
            return;
        }
        let event = self.coordinator.commit(0, out);
        if event.is_some() {
            self.go_on(case, event, out);
        }
    }
}

/// The orders in which a database of these tables can be.
fn orders(protocols: &[Protocol]) -> Vec<Order> {
    match () {
        () if protocols.iter().all(|protocol| protocol.keeps_versions()) => vec![Order::Beginning],
        () if protocols.iter().all(|protocol| protocol.keeps_read_times()) => {
            vec![Order::Logical, Order::Momentary]
        }
        () => vec![Order::Momentary],
    }
}

/// Runs all shapes under many schedules each. Says in which transactions wait for each other, and under which schedule first.
fn circles(protocols: &[Protocol], count: usize, ages: &[u64], schedules: Schedules) -> Vec<String> {
    let mut found = Vec::new();
    for order in orders(protocols) {
        for is_indexed in [false, true] {
            for shape in SHAPES.iter().copied() {
                if !is_indexed && shape.concat().contains(&LookThrough) {
                    continue;
                }
                let planted = schedules.planted;
                let case = Case { protocols, order, is_indexed, shape, count, ages, planted };
                let mut circle = None;
                let mut look = |schedule: &mut Schedule| {
                    if circle.is_none() && case.run(schedule).is_none() {
                        circle = Some(format!("{case:?}: {:?}", schedule.choices));
                    }
                };
                let mut schedule = Schedule::default();
                for _ in 0..schedules.in_turn {
                    look(&mut schedule);
                    if !schedule.next() {
                        break;
                    }
                }
                (0..schedules.drawn).for_each(|seed| look(&mut Schedule::drawn(seed)));
                found.extend(circle);
            }
        }
    }
    found
}

/// How many are tried of each kind.
#[derive(Clone, Copy)]
struct Schedules {
    /// One after another: so those that begin alike, where there are more.
    in_turn: usize,
    drawn: u64,
    planted: Planted,
}

impl Schedules {
    fn new(in_turn: usize, drawn: u64) -> Self {
        Schedules { in_turn, drawn, planted: Planted::default() }
    }
}

fn assert_none(circles: impl IntoIterator<Item = String>) {
    let circles: Vec<String> = circles.into_iter().collect();
    assert!(circles.is_empty(), "they wait for each other in {} cases: {circles:#?}", circles.len());
}

#[test]
fn two_do_not_wait_for_each_other_whatever_the_order_of_their_messages() {
    let schedules = Schedules::new(1_000, 100);
    let of = |protocol| [[0, 1], [1, 0]].map(|ages| circles(&[protocol], 2, &ages, schedules)).concat();
    assert_none(Protocol::ALL.iter().flat_map(|protocol| of(*protocol)));
}

/// As they would, were it for their rules alone.
#[test]
fn without_ages_they_do() {
    let schedules = Schedules { planted: Planted::some(Bug::AgesIgnored), ..Schedules::new(0, 100) };
    use Protocol::{Adaptive, Dynamic, Fixed, Occ, Ranges, Sundial, Swiss, TicToc, TwoPhaseWoundWait};
    for protocol in [Occ, TicToc, TwoPhaseWoundWait, Swiss, Adaptive, Sundial, Fixed, Dynamic, Ranges] {
        assert!(!circles(&[protocol], 2, &[0, 1], schedules).is_empty(), "{protocol}");
    }
}

#[test]
fn nor_do_three() {
    let schedules = Schedules::new(0, 50);
    let ages = [[0, 1, 2], [2, 1, 0], [1, 2, 0]];
    let of = |protocol| ages.map(|ages| circles(&[protocol], 3, &ages, schedules)).concat();
    assert_none(Protocol::ALL.iter().flat_map(|protocol| of(*protocol)));
}

#[test]
fn nor_do_those_that_meet_in_tables_of_several_protocols() {
    let schedules = Schedules::new(0, 10);
    let all = Protocol::ALL.iter().copied();
    let pairs = all.clone().flat_map(|first| all.clone().map(move |second| [first, second]));
    let pairs = pairs.filter(|[first, second]| first != second && first.mixes_with(*second));
    assert_none(
        pairs.flat_map(|pair| [[0, 1], [1, 0]].map(|ages| circles(&pair, 2, &ages, schedules)).concat()),
    );
}

/// Where rows are locked as they are met, age is all that counts.
#[test]
fn the_older_of_two_that_want_the_same_rows_commits() {
    use Protocol::{Sundial, Swiss, TwoPhaseWaitDie, TwoPhaseWoundWait};
    for protocol in [Sundial, Swiss, TwoPhaseWaitDie, TwoPhaseWoundWait] {
        for ages in [[0, 1], [1, 0]] {
            let (protocols, shape) = (&[protocol], [&[Update][..]; 2]);
            let order = orders(protocols)[0];
            let (count, planted) = (2, Planted::default());
            let case = Case { protocols, order, is_indexed: false, shape, count, ages: &ages, planted };
            let mut schedule = Schedule::default();
            loop {
                let committed = case.run(&mut schedule);
                let of_older = committed.map(|committed| committed[usize::from(ages[0] > 0)]);
                assert_eq!(of_older, Some(true), "{case:?}: {:?}", schedule.choices);
                if !schedule.next() {
                    break;
                }
            }
        }
    }
}
