//! Two transactions that each read what the other writes, at two servers, with their messages delivered in every order that there is. They wait
//! for each other in a circle in none.

use crate::every_order::Schedule;
use noonmark::branch::{
    BranchHost, FROZEN_TICKS, Lease, NumberUpdate, PlainUpdate, UntypedTable, Values, entry_bounds,
};
use noonmark::{Age, Column, Database, Fold, Order, Protocol, SlotId, TableOptions, Timestamp};
use noonmark_cluster::cache::Place;
use noonmark_cluster::coordinator::{Coordinator, CopyRead, Event, Outgoing};
use noonmark_cluster::message::{ClientId, Operation, Outcome, Purpose};
use noonmark_cluster::participant::Participant;
use noonmark_cluster::partition::{ServerId, TableId};
use noonmark_cluster::planted::{Bug, Planted};

use Reads::{FromACopy, FromItsServer, ThroughAnIndex};
use Writes::{Added, ReadToBeWritten, Unannounced};

/// The one whose row is used at a server: every server has all tables.
fn table(at: usize) -> TableId {
    TableId::new(at as u16)
}

/// Where a transaction reads the row that it does not write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reads {
    FromItsServer,
    FromACopy,
    /// It is not read, but looked for in an index of its table, which has none otherwise.
    ThroughAnIndex,
}

/// What a transaction does with the row that it writes, before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Writes {
    ReadToBeWritten,
    /// Nothing: its server hears of it with the commit.
    Unannounced,
    /// The same, of a row that is added to.
    Added,
}

fn key(of: usize) -> Vec<u8> {
    (of as u64).to_be_bytes().to_vec()
}

fn read(of: usize, purpose: Purpose) -> (ServerId, Operation) {
    (ServerId::new(of as u16), Operation::Read { table: table(of), key: key(of), groups: 0..1, purpose })
}

/// Looks through the entries of rows that are as the one of that server was before.
fn look_through(entries: TableId, of: usize) -> (ServerId, Operation) {
    let (lower, upper) = entry_bounds::<i64, u64>(&(0..=0));
    let (groups, reverse, limit, keep) = (0..0, false, usize::MAX, false);
    let scan = Operation::Scan { table: entries, lower, upper, groups, reverse, limit, keep };
    (ServerId::new(of as u16), scan)
}

/// Adds to a row without reading it.
fn add(to: usize, number: i64) -> Operation {
    let update = NumberUpdate::of(Column::<i64, i64>::whole(), Fold::Add, number).unwrap();
    Operation::Update { table: table(to), key: key(to), group: 0, update: PlainUpdate::Number(update) }
}

/// One transaction, which reads the row of one server and writes that of the other.
struct Runner {
    coordinator: Coordinator,
    case: Case,
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
                    self.read_first = match outcomes.as_slice() {
                        [Outcome::Rows(rows)] => !rows.is_empty(),
                        outcomes => *outcomes == [Outcome::Row(Some(Values::of(&0_i64)))],
                    };
                }
                self.stage += 1;
                self.act(out);
            }
        }
    }

    fn act(&mut self, out: &mut Vec<Outgoing>) {
        let Runner { case, reads, .. } = *self;
        let writes = 1 - reads;
        match self.stage {
            0 => match (self.copy.take(), case.entries(reads)) {
                (Some(lease), _) => {
                    let place = Place {
                        server: ServerId::new(reads as u16),
                        table: table(reads),
                        key: key(reads),
                        groups: 0..1,
                    };
                    self.coordinator.read_copy(CopyRead { place, lease, node: None });
                    (self.stage, self.read_first) = (1, true);
                    self.act(out);
                }
                (None, Some(entries)) => {
                    self.coordinator.operate(0, vec![look_through(entries, reads)], out);
                }
                (None, None) => self.coordinator.operate(0, vec![read(reads, Purpose::Read)], out),
            },
            1 if case.writes[reads] == ReadToBeWritten => {
                self.coordinator.operate(0, vec![read(writes, Purpose::Write)], out);
            }
            _ => {
                let (server, values) = (ServerId::new(writes as u16), Values::of(&1_i64));
                let write = Operation::Write { table: table(writes), key: key(writes), groups: 0..1, values };
                match case.writes[reads] {
                    ReadToBeWritten => {
                        self.coordinator.defer(server, write, case.entries(writes).is_some());
                    }
                    Unannounced => self.coordinator.defer_unannounced(server, write),
                    Added => self.coordinator.defer_unannounced(server, add(writes, 1)),
                }
                let event = self.coordinator.commit(0, out);
                self.go_on(event, out);
            }
        }
    }
}

fn server(number: u16, case: Case) -> Participant {
    let Case { protocols, order, frozen_ticks, planted, .. } = case;
    let host = BranchHost::new(number.into());
    // (Room for many branches takes longer to make than all messages.)
    let database = Database::builder().host(host).order(order).max_sessions(8).build().unwrap();
    let server = Participant::new(ServerId::new(number), database).planted(planted);
    let mut server = server.with_frozen_ticks(frozen_ticks);
    let mut indexes = Vec::new();
    for (at, protocol) in protocols.into_iter().enumerate() {
        let (database, options) = (server.database(), TableOptions::new().protocol(protocol));
        let table = database.create_table::<u64, i64>(&format!("rows {at}"), options).unwrap();
        if case.entries(at).is_some() {
            let index = table.create_index(database, "by value", |_, value| *value).unwrap();
            indexes.push(UntypedTable::of_index(&index));
        }
        server.add_table(UntypedTable::of(&table));
    }
    indexes.into_iter().for_each(|entries| server.add_table(entries));
    server
}

/// Runs a transaction with nobody else about.
fn alone(servers: &mut [Participant], worker: u16, operation: (ServerId, Operation)) -> Vec<Outcome> {
    let mut coordinator = Coordinator::new(ClientId { server: ServerId::new(0), worker });
    coordinator.raise_floor(Timestamp::new(worker.into()));
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

/// What is run.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Of the table whose row is used at each server.
    protocols: [Protocol; 2],
    order: Order,
    /// How each transaction reads the row of a table: the first one that of the first.
    reads: [Reads; 2],
    /// How each writes the row of the other table.
    writes: [Writes; 2],
    frozen_ticks: u64,
    asks_everybody: bool,
    planted: Planted,
}

impl Case {
    /// The entries of a table's index, if it has one.
    fn entries(&self, of: usize) -> Option<TableId> {
        let is_indexed = |of: usize| self.reads[of] == ThroughAnIndex;
        is_indexed(of).then(|| table(2 + (0..of).filter(|before| is_indexed(*before)).count()))
    }
}

/// Both transactions, under one schedule: whether each committed, and whether those that did could have run one after the other.
fn run(case: Case, schedule: &mut Schedule) -> ([bool; 2], bool) {
    let Case { order, reads, asks_everybody, planted, .. } = case;
    let mut servers: Vec<_> = (0..2).map(|number| server(number, case)).collect();
    for row in 0..2 {
        // (In the order of beginnings, each has a time of its own.)
        let insert = Operation::Insert {
            table: table(row),
            key: key(row),
            values: Values::of(&0_i64),
            replace: false,
        };
        alone(&mut servers, 6 + row as u16, (ServerId::new(row as u16), insert));
    }
    let mut runners: Vec<Runner> = (0..2)
        .map(|number| {
            let copy = (reads[number] == FromACopy).then(|| {
                match alone(&mut servers, 8 + number as u16, read(number, Purpose::Keep)).pop() {
                    Some(Outcome::Copy(_, Some(lease))) => lease,
                    other => panic!("{other:?}"),
                }
            });
            let coordinator =
                Coordinator::new(ClientId { server: ServerId::new(number as u16), worker: number as u16 });
            let coordinator = coordinator.with_everybody_asked(asks_everybody).planted(planted);
            Runner { coordinator, case, reads: number, copy, stage: 0, read_first: false, committed: None }
        })
        .collect();
    let mut on_their_way: Vec<Outgoing> = Vec::new();
    for (number, runner) in runners.iter_mut().enumerate() {
        let mut out = Vec::new();
        if order == Order::Beginning {
            let begins = if reads[number] == FromACopy { 20 - number } else { 20 + number };
            runner.coordinator.raise_floor(Timestamp::new(begins as u64));
        }
        runner.coordinator.begin(0, Age::new(number as u64, SlotId::new(number).unwrap()), &mut out);
        runner.act(&mut out);
        on_their_way.extend(out);
    }
    loop {
        let mut answers = Vec::new();
        if on_their_way.is_empty() {
            assert!(
                runners.iter().all(|runner| runner.committed.is_some()),
                "nothing is on its way: they wait for each other: {case:?}, {:?}",
                schedule.choices
            );
            break;
        }
        let sent = on_their_way.remove(schedule.choose(on_their_way.len()));
        servers[sent.to.index()].receive(0, sent.request, &mut answers);
        for answer in answers {
            let runner = &mut runners[usize::from(answer.attempt.client.worker)];
            let event = runner.coordinator.receive(0, answer, &mut on_their_way);
            runner.go_on(event, &mut on_their_way);
        }
    }
    assert_eq!(servers.iter().map(Participant::holding).sum::<usize>(), 0);
    let committed = [0, 1].map(|number| runners[number].committed == Some(true));
    // Who comes first reads what was there before, and nobody else does.
    let read_first = |runner: &&Runner| runner.committed == Some(true) && runner.read_first;
    let first = runners.iter().filter(read_first).count();
    (committed, first == usize::from(committed != [false; 2]))
}

/// Under all schedules: how many there are, and how many commits; or the first under which those that commit could not have run one after the other.
fn try_all(case: Case) -> Result<(u32, u32), String> {
    let (mut schedule, mut schedules, mut commits) = (Schedule::default(), 0_u32, 0_u32);
    loop {
        let (committed, is_serial) = run(case, &mut schedule);
        if !is_serial {
            return Err(format!("{case:?}: {:?}", schedule.choices));
        }
        commits += committed.iter().filter(|committed| **committed).count() as u32;
        schedules += 1;
        if !schedule.next() {
            return Ok((schedules, commits));
        }
    }
}

fn one_aborts(case: Case) {
    let (schedules, commits) = try_all(case).unwrap();
    println!("{case:?}: {schedules} schedules, {commits} commits");
    assert!(commits > 0 && schedules > 1, "{case:?}");
}

/// The orders in which a database of these tables can be.
fn orders(protocols: [Protocol; 2]) -> impl Iterator<Item = Order> {
    [Order::Logical, Order::Momentary, Order::Beginning].into_iter().filter(move |order| match order {
        Order::Logical => protocols.iter().all(|protocol| protocol.keeps_read_times()),
        order => protocols.iter().all(|protocol| protocol.keeps_versions() == (*order == Order::Beginning)),
    })
}

/// Whether everybody who keeps others out is asked to prepare: either way, where it changes what becomes of locks for reading.
fn asking(protocols: [Protocol; 2]) -> &'static [bool] {
    let locks_reads = protocols.iter().any(|protocol| protocol.name().starts_with("two-phase"));
    if locks_reads { &[false, true] } else { &[false] }
}

#[test]
fn of_two_that_each_read_what_the_other_writes_one_aborts() {
    for protocol in Protocol::ALL.iter().copied() {
        for order in orders([protocol; 2]) {
            for reads in [FromItsServer, FromACopy] {
                let ticks: &[u64] = match (protocol, order) {
                    (Protocol::Dynamic | Protocol::Ranges, Order::Logical) => &[0, FROZEN_TICKS, u64::MAX],
                    _ => &[FROZEN_TICKS],
                };
                for &frozen_ticks in ticks {
                    for writes in [ReadToBeWritten, Unannounced, Added] {
                        for &asks_everybody in asking([protocol; 2]) {
                            let (protocols, planted) = ([protocol; 2], Planted::NONE);
                            one_aborts(Case {
                                protocols,
                                order,
                                reads: [reads; 2],
                                writes: [writes; 2],
                                frozen_ticks,
                                asks_everybody,
                                planted,
                            });
                        }
                    }
                }
            }
        }
    }
}

/// One row each of tables of two protocols.
const MIXED: Case = Case {
    protocols: [Protocol::Occ; 2],
    order: Order::Momentary,
    reads: [FromItsServer; 2],
    writes: [ReadToBeWritten; 2],
    frozen_ticks: FROZEN_TICKS,
    asks_everybody: false,
    planted: Planted::NONE,
};

/// Tables of any two protocols that mix.
fn mixed() -> impl Iterator<Item = Case> {
    let all = Protocol::ALL.iter().copied();
    let pairs = all.clone().flat_map(move |first| all.clone().map(move |second| [first, second]));
    let pairs = pairs.filter(|[first, second]| first != second && first.mixes_with(*second));
    let in_orders =
        pairs.flat_map(|protocols| orders(protocols).map(move |order| Case { protocols, order, ..MIXED }));
    in_orders.flat_map(|case| {
        asking(case.protocols).iter().map(move |&asks_everybody| Case { asks_everybody, ..case })
    })
}

/// Those of them that differ in what is locked when. Outside of logical order, `tictoc` and `dynamic` lock as `occ` does, and so does `adaptive`
/// until there have been conflicts; and `ranges` as `sundial` does.
fn mixed_that_lock_otherwise() -> impl Iterator<Item = Case> {
    use Protocol::{F1, Occ, Sundial, Swiss, TwoPhaseNoWait, TwoPhaseWaitDie, TwoPhaseWoundWait};
    let stands_for_others = |protocol: &Protocol| {
        matches!(protocol, Occ | F1 | Sundial | Swiss | TwoPhaseNoWait | TwoPhaseWaitDie | TwoPhaseWoundWait)
    };
    mixed().filter(move |case| case.order == Order::Logical || case.protocols.iter().all(stands_for_others))
}

/// The same, of tables of two protocols. Writes of two kinds are tried in pairs that differ in what is locked when.
#[test]
fn nor_do_both_commit_in_tables_of_two_protocols() {
    for case in mixed() {
        for writes in [ReadToBeWritten, Unannounced, Added] {
            one_aborts(Case { writes: [writes; 2], ..case });
        }
    }
    for case in mixed_that_lock_otherwise() {
        for writes in [[ReadToBeWritten, Unannounced], [Unannounced, ReadToBeWritten]] {
            one_aborts(Case { writes, ..case });
        }
    }
}

/// The same, if one of them, or both, read from a copy; in pairs that differ in what is locked when. (Before it commits, no server knows
/// of a read from a copy.)
#[test]
fn nor_do_both_commit_that_read_from_copies_in_tables_of_two_protocols() {
    for case in mixed_that_lock_otherwise() {
        for reads in [[FromACopy, FromItsServer], [FromItsServer, FromACopy], [FromACopy; 2]] {
            for writes in
                [[ReadToBeWritten; 2], [Unannounced; 2], [ReadToBeWritten, Added], [Added, ReadToBeWritten]]
            {
                one_aborts(Case { reads, writes, ..case });
            }
        }
    }
}

/// The same, if one of them does not read the row that the other writes, but looks through entries that change with it; in pairs that differ
/// in what is locked when. (The entries are locked with a message of the commit, under whatever protocol.)
#[test]
fn nor_do_both_commit_that_look_through_indexes_in_tables_of_two_protocols() {
    for case in mixed_that_lock_otherwise() {
        for written in [ReadToBeWritten, Unannounced] {
            let reads = [ThroughAnIndex, FromItsServer];
            one_aborts(Case { reads, writes: [ReadToBeWritten, written], ..case });
            let reads = [FromItsServer, ThroughAnIndex];
            one_aborts(Case { reads, writes: [written, ReadToBeWritten], ..case });
        }
    }
}

/// As they would, were locks let go of too early, or were something taken to be locked, or to hold, that is not.
#[test]
fn they_do_where_a_bug_is_planted() {
    use Protocol::{Dynamic, F1, Occ, Ranges, Sundial, Swiss, TicToc};
    use Protocol::{TwoPhaseNoWait, TwoPhaseWaitDie, TwoPhaseWoundWait};
    let of = |protocols| Case { protocols, ..MIXED };
    let logical = |protocols| Case { protocols, order: Order::Logical, ..MIXED };
    let (first_copies, second_copies) = ([FromACopy, FromItsServer], [FromItsServer, FromACopy]);
    let (first_looks, second_looks) = ([ThroughAnIndex, FromItsServer], [FromItsServer, ThroughAnIndex]);
    for (bug, case) in [
        (Bug::LetGoBeforeLateLocks, of([Occ, TwoPhaseWoundWait])),
        (Bug::LetGoBeforeLateLocks, Case { asks_everybody: true, ..of([Occ, TwoPhaseWaitDie]) }),
        (Bug::LetGoBeforeLateLocks, Case { reads: first_copies, ..of([Occ, TwoPhaseWoundWait]) }),
        (Bug::LetGoBeforeEntries, Case { reads: second_looks, ..of([TwoPhaseWoundWait, TwoPhaseWaitDie]) }),
        (Bug::EntriesTakenForLocked, Case { reads: first_looks, ..of([TwoPhaseWaitDie, Swiss]) }),
        (Bug::UnannouncedTakenForLocked, Case { writes: [Added; 2], ..of([Occ, Sundial]) }),
        (Bug::UnannouncedTakenForLocked, Case { writes: [ReadToBeWritten, Unannounced], ..of([Occ, Swiss]) }),
        (
            Bug::UnannouncedTakenForLocked,
            Case { reads: second_copies, writes: [ReadToBeWritten, Added], ..of([Occ, TwoPhaseNoWait]) },
        ),
        (Bug::ReadsLetGo, Case { reads: second_looks, ..of([F1, Sundial]) }),
        (Bug::CopyUsedPastItsLease, Case { reads: [FromACopy; 2], ..logical([TicToc, Sundial]) }),
        (Bug::LaterIgnored, Case { reads: first_looks, ..logical([TicToc, Sundial]) }),
        (Bug::RangeNotLeftBehind, Case { reads: second_looks, ..logical([Dynamic, Ranges]) }),
    ] {
        assert!(try_all(case).is_ok());
        let planted = Planted::some(bug);
        assert!(try_all(Case { planted, ..case }).is_err(), "{bug:?}, {case:?}");
    }
}

/// And they would wait for each other, were they to do so whatever their ages.
#[test]
#[should_panic(expected = "they wait for each other")]
fn they_wait_in_a_circle_where_a_bug_is_planted() {
    let (reads, writes, planted) = ([FromACopy; 2], [Unannounced; 2], Planted::some(Bug::AgesIgnored));
    let _ = try_all(Case { protocols: [Protocol::Occ, Protocol::Sundial], reads, writes, planted, ..MIXED });
}

/// Two transactions that each add to the rows of both servers, under one schedule: whether each committed. They read nothing, or else what is in copies, to which
/// they add. What is in the rows is what those have added that did.
fn add_to_both(protocol: Protocol, order: Order, from_copies: bool, schedule: &mut Schedule) -> [bool; 2] {
    let case = Case { protocols: [protocol; 2], order, ..MIXED };
    let mut servers: Vec<_> = (0..2).map(|number| server(number, case)).collect();
    for row in 0..2 {
        let insert = Operation::Insert {
            table: table(row),
            key: key(row),
            values: Values::of(&0_i64),
            replace: false,
        };
        alone(&mut servers, 6 + row as u16, (ServerId::new(row as u16), insert));
    }
    let leases = from_copies.then(|| {
        [0, 1].map(|row| match alone(&mut servers, 8 + row as u16, read(row, Purpose::Keep)).pop() {
            Some(Outcome::Copy(_, Some(lease))) => lease,
            other => panic!("{other:?}"),
        })
    });
    let adds = [1, 10];
    let mut committed = [None; 2];
    let mut on_their_way: Vec<Outgoing> = Vec::new();
    let mut coordinators = [0, 1].map(|number: u16| {
        let mut coordinator = Coordinator::new(ClientId { server: ServerId::new(number), worker: number });
        if order == Order::Beginning {
            coordinator.raise_floor(Timestamp::new(20 + u64::from(number)));
        }
        let age = Age::new(number.into(), SlotId::new(number.into()).unwrap());
        coordinator.begin(0, age, &mut on_their_way);
        for row in 0..2 {
            let (server, number) = (ServerId::new(row as u16), adds[usize::from(number)]);
            let added = match &leases {
                None => add(row, number),
                Some(leases) => {
                    let place = Place { server, table: table(row), key: key(row), groups: 0..1 };
                    coordinator.read_copy(CopyRead { place, lease: leases[row].clone(), node: None });
                    let values = Values::of(&number);
                    Operation::Write { table: table(row), key: key(row), groups: 0..1, values }
                }
            };
            coordinator.defer_unannounced(server, added);
        }
        assert_eq!(coordinator.commit(0, &mut on_their_way), None);
        coordinator
    });
    loop {
        let mut answers = Vec::new();
        if on_their_way.is_empty() {
            let have_ended = committed.iter().all(Option::is_some);
            assert!(have_ended, "they wait for each other: {protocol}, {order:?}, {:?}", schedule.choices);
            break;
        }
        let sent = on_their_way.remove(schedule.choose(on_their_way.len()));
        // Each request comes twice.
        servers[sent.to.index()].receive(0, sent.request.clone(), &mut answers);
        servers[sent.to.index()].receive(0, sent.request, &mut answers);
        for answer in answers {
            let number = usize::from(answer.attempt.client.worker);
            match coordinators[number].receive(0, answer, &mut on_their_way) {
                Some(Event::Committed(_)) => committed[number] = Some(true),
                Some(Event::Aborted(_)) => committed[number] = Some(false),
                Some(Event::Operated(_)) | None => {}
            }
        }
    }
    assert_eq!(servers.iter().map(Participant::holding).sum::<usize>(), 0);
    let committed = committed.map(|committed| committed == Some(true));
    let added: i64 = (0..2).filter(|&number| committed[number]).map(|number| adds[number]).sum();
    for row in 0..2 {
        let found = alone(&mut servers, 30 + row as u16, read(row, Purpose::Read));
        assert_eq!(found, [Outcome::Row(Some(Values::of(&added)))], "{protocol}, {:?}", schedule.choices);
    }
    committed
}

/// How many schedules there are in which none, one, and both of two commit that add to the same rows.
fn adding_to_both(protocol: Protocol, order: Order, from_copies: bool) -> [u32; 3] {
    let (mut schedule, mut schedules) = (Schedule::default(), [0; 3]);
    loop {
        let committed = add_to_both(protocol, order, from_copies, &mut schedule);
        schedules[committed.iter().filter(|committed| **committed).count()] += 1;
        if !schedule.next() {
            println!("{protocol}, {order:?}: none, one or both of two commit in {schedules:?} schedules");
            return schedules;
        }
    }
}

/// Whoever only adds fails only if the other one is prepared, or about to be, and then at one server at least the other does not.
#[test]
fn of_two_that_add_to_the_same_rows_all_is_added_that_commits() {
    for protocol in Protocol::ALL.iter().copied() {
        for order in orders([protocol; 2]) {
            let schedules = adding_to_both(protocol, order, false);
            assert!(schedules[2] > 0, "{protocol}, {order:?}: {schedules:?}");
        }
    }
}

/// Whoever adds to what he has read out of a copy overwrites nobody whom he has not seen. Of the same copies, one commits at most.
#[test]
fn of_two_that_add_to_the_same_copies_one_commits_at_most() {
    for protocol in Protocol::ALL.iter().copied() {
        for order in orders([protocol; 2]) {
            let schedules = adding_to_both(protocol, order, true);
            assert!(schedules[1] > 0 && schedules[2] == 0, "{protocol}, {order:?}: {schedules:?}");
        }
    }
}
