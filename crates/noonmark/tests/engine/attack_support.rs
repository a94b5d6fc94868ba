//! Small transactions, what each of their steps saw, and whether any serial order explains it.
//!
//! The oracle is a model that runs the committed transactions one after another on a map. A history
//! is serializable if there is an order in which every step gives the same answer as it did, and
//! which ends in the same state; all orders are tried. That judges everything a step answers (what was
//! read, whether an insert found a row, what an index held), not only reads and writes.
//!
//! Every write leaves its own tag at the end of what was there before, so that a lost or doubled
//! write shows in whatever is read later, and in the state at the end.

#![allow(dead_code, reason = "each test program uses a part of it")]

use noonmark::{
    Abort, AbortKind, Builder, Database, Granularity, Host, IndexKind, Leases, Order, Protocol,
    SecondaryIndex, Session, Table, TableOptions, Timestamp, Transaction,
};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// Bits that one write leaves in a value.
const TAG_BITS: u32 = 10;

/// Which column groups of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    A,
    B,
    Row,
}

/// A step; the first number is the table, the second the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Get(u8, u8, Part),
    GetMany(u8, Vec<u8>),
    Insert(u8, u8),
    Upsert(u8, u8),
    /// A write without a read.
    Write(u8, u8, Part),
    /// A read and a write.
    Update(u8, u8, Part),
    /// A commit-time update of one group: it must be `A` or `B`.
    Apply(u8, u8, Part),
    Delete(u8, u8),
    /// Keys from one to another, both included.
    Scan(u8, u8, u8),
    /// The last so many rows up to a key, from the largest down.
    ScanDown(u8, u8, u8),
    /// The whole secondary index.
    ScanBy(u8),
}

/// What a step saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saw {
    Value(Option<(u64, u64)>),
    Values(Vec<Option<(u64, u64)>>),
    Was(bool),
    Missing,
    Rows(Vec<(u8, u64, u64)>),
    Entries(Vec<(u16, u8)>),
    Nothing,
}

type Row = (u64, u64);

/// What a row is in the engine: one group inside the record, and one of variable size behind a pointer.
type Stored = (u64, Vec<u8>);

fn bytes_of(b: u64) -> Vec<u8> {
    let mut bytes = b.to_le_bytes().to_vec();
    bytes.truncate(8 - b.leading_zeros() as usize / 8);
    bytes
}

fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn stored(a: u64, b: u64) -> Stored {
    (a, bytes_of(b))
}

fn shown_row((k, row): (u64, Stored)) -> (u8, u64, u64) {
    let (a, b) = read(row);
    (k as u8, a, b)
}

fn read(row: Stored) -> Row {
    (row.0, number_of(&row.1))
}

/// The state of all tables.
pub type Model = BTreeMap<(u8, u8), Row>;

/// A transaction that ended with an outcome which must be explained.
#[derive(Clone, Debug)]
pub struct Txn {
    pub session: usize,
    pub steps: Vec<(Op, u64, Saw)>,
    /// Whether it committed; otherwise it only observed (it found a row missing, or called itself off).
    pub committed: bool,
    /// Its commit time, where that is its place in the serial order.
    pub time: Option<Timestamp>,
    /// When it began and ended, on one clock.
    pub began: u64,
    pub ended: u64,
}

fn tagged(value: u64, tag: u64) -> u64 {
    value << TAG_BITS | tag
}

fn entry_of(row: Row) -> u16 {
    (row.1 & ((1 << TAG_BITS) - 1)) as u16
}

fn change(row: &mut Row, part: Part, f: impl Fn(u64) -> u64) {
    if part != Part::B {
        row.0 = f(row.0);
    }
    if part != Part::A {
        row.1 = f(row.1);
    }
}

fn shown(row: Row, part: Part) -> Row {
    match part {
        Part::A => (row.0, 0),
        Part::B => (0, row.1),
        Part::Row => row,
    }
}

/// Runs a step on the model.
pub fn on_model(model: &mut Model, op: &Op, tag: u64) -> Saw {
    let rows = |model: &Model, table: u8, low: u8, high: u8| -> Vec<(u8, u64, u64)> {
        model.range((table, low)..=(table, high)).map(|(&(_, k), &(a, b))| (k, a, b)).collect()
    };
    match *op {
        Op::Get(t, k, part) => Saw::Value(model.get(&(t, k)).map(|&row| shown(row, part))),
        Op::GetMany(t, ref keys) => Saw::Values(keys.iter().map(|&k| model.get(&(t, k)).copied()).collect()),
        Op::Insert(t, k) => {
            let was = model.contains_key(&(t, k));
            if !was {
                model.insert((t, k), (tag, tag));
            }
            Saw::Was(!was)
        }
        Op::Upsert(t, k) => {
            model.insert((t, k), (tag, tag));
            Saw::Nothing
        }
        Op::Write(t, k, part) => match model.get_mut(&(t, k)) {
            None => Saw::Was(false),
            Some(row) => {
                change(row, part, |_| tag);
                Saw::Was(true)
            }
        },
        Op::Update(t, k, part) | Op::Apply(t, k, part) => match model.get_mut(&(t, k)) {
            None => Saw::Missing,
            Some(row) => {
                change(row, part, |value| tagged(value, tag));
                Saw::Nothing
            }
        },
        Op::Delete(t, k) => Saw::Was(model.remove(&(t, k)).is_some()),
        Op::Scan(t, low, high) => Saw::Rows(rows(model, t, low, high)),
        Op::ScanDown(t, high, limit) => {
            let mut rows = rows(model, t, 0, high);
            rows.reverse();
            rows.truncate(limit.into());
            Saw::Rows(rows)
        }
        Op::ScanBy(t) => {
            let mut entries: Vec<(u16, u8)> =
                model.range((t, 0)..=(t, u8::MAX)).map(|(&(_, k), &row)| (entry_of(row), k)).collect();
            entries.sort_unstable();
            Saw::Entries(entries)
        }
    }
}

/// One table under attack.
#[derive(Clone)]
pub struct Target {
    pub table: Table<u64, Stored>,
    pub by: Option<SecondaryIndex<u16, u64>>,
}

/// Runs a step on the engine.
pub fn on_engine<H: Host>(
    tx: &mut Transaction<'_, H>,
    tables: &[Target],
    op: &Op,
    tag: u64,
) -> Result<Saw, Abort> {
    let table = |t: u8| &tables[usize::from(t)].table;
    let answer = match *op {
        Op::Get(t, k, Part::A) => {
            Ok(Saw::Value(tx.get(&table(t).group::<0>(), u64::from(k))?.map(|a| (a, 0))))
        }
        Op::Get(t, k, Part::B) => {
            Ok(Saw::Value(tx.get(&table(t).group::<1>(), u64::from(k))?.map(|b| (0, number_of(&b)))))
        }
        Op::Get(t, k, Part::Row) => Ok(Saw::Value(tx.get(table(t), u64::from(k))?.map(read))),
        Op::GetMany(t, ref keys) => {
            let keys: Vec<u64> = keys.iter().map(|&k| k.into()).collect();
            let mut values = Vec::new();
            let mut keep = |_, value: Option<Stored>| values.push(value.map(read));
            if tag.is_multiple_of(2) {
                tx.get_many(table(t), &keys, keep)?;
            } else {
                let rows = tx.look_up(table(t), &keys);
                let half = keys.len() / 2;
                tx.get_many(table(t), rows.slice(0..half), &mut keep)?;
                tx.get_many(table(t), rows.slice(half..keys.len()), &mut keep)?;
            }
            Ok(Saw::Values(values))
        }
        Op::Insert(t, k) => Ok(Saw::Was(tx.insert(table(t), u64::from(k), stored(tag, tag))?)),
        Op::Upsert(t, k) => tx.upsert(table(t), u64::from(k), stored(tag, tag)).map(|()| Saw::Nothing),
        Op::Write(t, k, Part::A) => Ok(Saw::Was(tx.write(&table(t).group::<0>(), u64::from(k), tag)?)),
        Op::Write(t, k, Part::B) => {
            Ok(Saw::Was(tx.write(&table(t).group::<1>(), u64::from(k), bytes_of(tag))?))
        }
        Op::Write(t, k, Part::Row) => Ok(Saw::Was(tx.write(table(t), u64::from(k), stored(tag, tag))?)),
        Op::Update(t, k, Part::A) => {
            tx.update(&table(t).group::<0>(), u64::from(k), |a| *a = tagged(*a, tag)).map(|()| Saw::Nothing)
        }
        Op::Update(t, k, Part::B) => tx
            .update(&table(t).group::<1>(), u64::from(k), |b| *b = bytes_of(tagged(number_of(b), tag)))
            .map(|()| Saw::Nothing),
        Op::Update(t, k, Part::Row) => tx
            .update(table(t), u64::from(k), |row| {
                *row = stored(tagged(row.0, tag), tagged(number_of(&row.1), tag))
            })
            .map(|()| Saw::Nothing),
        Op::Apply(t, k, Part::B) => tx
            .apply(&table(t).group::<1>(), u64::from(k), move |b| *b = bytes_of(tagged(number_of(b), tag)))
            .map(|()| Saw::Nothing),
        Op::Apply(t, k, _) => tx
            .apply(&table(t).group::<0>(), u64::from(k), move |a| *a = tagged(*a, tag))
            .map(|()| Saw::Nothing),
        Op::Delete(t, k) => Ok(Saw::Was(tx.delete(table(t), u64::from(k))?)),
        Op::Scan(t, low, high) => {
            let rows = tx.range(table(t), u64::from(low)..=u64::from(high)).collect()?;
            Ok(Saw::Rows(rows.into_iter().map(shown_row).collect()))
        }
        Op::ScanDown(t, high, limit) => {
            let scan = tx.range(table(t), ..=u64::from(high)).reverse().limit(limit.into());
            Ok(Saw::Rows(scan.collect()?.into_iter().map(shown_row).collect()))
        }
        Op::ScanBy(t) => match &tables[usize::from(t)].by {
            None => Ok(Saw::Nothing),
            Some(by) => {
                let mut entries = Vec::new();
                tx.range_by(by, ..).for_each(|secondary, primary| {
                    entries.push((secondary, primary as u8));
                    ControlFlow::Continue(())
                })?;
                Ok(Saw::Entries(entries))
            }
        },
    };
    match answer {
        Err(abort) if abort.kind() == AbortKind::Missing => Ok(Saw::Missing),
        answer => answer,
    }
}

/// How the tables are made.
#[derive(Clone, Debug)]
pub struct Setup {
    /// One table each.
    pub protocols: Vec<Protocol>,
    pub index: IndexKind,
    pub granularity: Granularity,
    pub leases: Leases,
    pub order: Option<Order>,
    pub secondary: bool,
    /// Rows there are at first, of each table.
    pub rows: Vec<u8>,
    /// Row `k` is updated `k * bumps` times before, so that rows have different times.
    pub bumps: u8,
}

impl Setup {
    pub fn of(protocols: &[Protocol]) -> Self {
        Setup {
            protocols: protocols.to_vec(),
            index: IndexKind::Ordered,
            granularity: Granularity::Fine,
            leases: Leases::default(),
            order: None,
            secondary: false,
            rows: vec![1, 2],
            bumps: 0,
        }
    }

    /// Whether transactions keep to real time.
    pub fn is_strict(&self) -> bool {
        self.order == Some(Order::Momentary) || !self.protocols.iter().all(|p| p.keeps_read_times())
    }

    pub fn build<H: Host>(&self, builder: Builder<H>) -> (Database<H>, Vec<Target>, Model) {
        let builder = match self.order {
            Some(order) => builder.order(order),
            None => builder,
        };
        let db = builder.build().unwrap();
        let tables: Vec<Target> = self
            .protocols
            .iter()
            .enumerate()
            .map(|(number, &protocol)| {
                let options = TableOptions::new()
                    .protocol(protocol)
                    .index(self.index)
                    .granularity(self.granularity)
                    .leases(self.leases)
                    .expected_rows(1);
                let table: Table<u64, Stored> = db.create_table(&format!("t{number}"), options).unwrap();
                let by = self.secondary.then(|| {
                    table.create_index(&db, "by", |_, row| entry_of((0, number_of(&row.1)))).unwrap()
                });
                Target { table, by }
            })
            .collect();
        let mut session = db.session().unwrap();
        let mut model = Model::new();
        for t in 0..tables.len() as u8 {
            for &k in &self.rows {
                let first = Op::Insert(t, k);
                session.transact(|tx| on_engine(tx, &tables, &first, 1)).unwrap();
                on_model(&mut model, &first, 1);
                for _ in 0..k * self.bumps {
                    let next = Op::Write(t, k, Part::Row);
                    session.transact(|tx| on_engine(tx, &tables, &next, 2)).unwrap();
                    on_model(&mut model, &next, 2);
                }
            }
        }
        drop(session);
        (db, tables, model)
    }
}

/// All there is in the tables, read in one transaction of its own.
pub fn state_of<H: Host>(session: &mut Session<H>, tables: &[Target], keys: u8) -> Model {
    session
        .transact(|tx| {
            let mut model = Model::new();
            for (t, target) in tables.iter().enumerate() {
                for k in 0..=keys {
                    if let Some(row) = tx.get(&target.table, u64::from(k))? {
                        model.insert((t as u8, k), read(row));
                    }
                }
                if target.by.is_some() {
                    let held = on_engine(tx, tables, &Op::ScanBy(t as u8), 0)?;
                    let expected = on_model(&mut model, &Op::ScanBy(t as u8), 0);
                    if held != expected {
                        // No order of transactions leads here.
                        eprintln!("the secondary index holds {held:x?}, and by the rows {expected:x?}");
                        model.insert((u8::MAX, t as u8), (0, 0));
                    }
                }
            }
            Ok(model)
        })
        .unwrap()
}

/// Whether some serial order explains all that was seen, and the state at the end: in the order of each
/// session, of commit times where they are known, and of real time if `strict`.
pub fn is_explained(before: &Model, txns: &[Txn], after: &Model, strict: bool) -> bool {
    fn search(
        txns: &[Txn],
        after: &Model,
        strict: bool,
        done: u64,
        state: &Model,
        failed: &mut HashSet<(u64, Model)>,
    ) -> bool {
        if done == (1 << txns.len()) - 1 {
            return state == after;
        }
        if failed.contains(&(done, state.clone())) {
            return false;
        }
        'next: for (number, txn) in txns.iter().enumerate() {
            if done & 1 << number != 0 {
                continue;
            }
            for (other, earlier) in txns.iter().enumerate() {
                let before = earlier.ended < txn.began && (strict || earlier.session == txn.session)
                    || earlier.time.zip(txn.time).is_some_and(|(earlier, this)| earlier < this);
                if before && done & 1 << other == 0 {
                    continue 'next;
                }
            }
            let mut next = state.clone();
            if txn.steps.iter().all(|(op, tag, saw)| on_model(&mut next, op, *tag) == *saw) {
                let next = if txn.committed { &next } else { state };
                if search(txns, after, strict, done | 1 << number, next, failed) {
                    return true;
                }
            }
        }
        failed.insert((done, state.clone()));
        false
    }
    assert!(txns.len() < 64);
    search(txns, after, strict, 0, before, &mut HashSet::new())
}

/// What a failure is shown as.
pub fn told(setup: &Setup, before: &Model, txns: &[Txn], after: &Model) -> String {
    let mut text = format!("no serial order explains this, of {setup:?}:\n  before {before:x?}\n");
    for txn in txns {
        text += &format!(
            "  session {} from {} to {}{}\n",
            txn.session,
            txn.began,
            txn.ended,
            if txn.committed { "" } else { ", rolled back" }
        );
        for (op, tag, saw) in &txn.steps {
            text += &format!("    {op:?} (tag {tag:x}) saw {saw:x?}\n");
        }
    }
    text + &format!("  after {after:x?}")
}

/// A host for one thread that plays all parts: whoever must wait gives up instead.
#[derive(Debug, Default)]
pub struct Alone(AtomicU64);

impl Host for Alone {
    type Label = noonmark_core::Unlabelled;

    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
    fn seed(&self) -> u64 {
        self.now_ns().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
    }
    fn spin(&self, _turn: u32) {}
    fn block_on<T>(&self, _deadline_ns: Option<u64>, mut poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
        match poll(Waker::noop()) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
    fn sleep_ns(&self, _duration_ns: u64) {}
    fn caller_hint(&self) -> usize {
        0
    }
}

/// Calls `visit` with every order of steps in which transaction `i` has `lengths[i]` of them.
pub fn interleavings(lengths: &[usize], visit: &mut impl FnMut(&[u8])) {
    fn go(left: &mut [usize], schedule: &mut Vec<u8>, visit: &mut impl FnMut(&[u8])) {
        if left.iter().all(|&n| n == 0) {
            return visit(schedule);
        }
        for txn in 0..left.len() {
            if left[txn] > 0 {
                left[txn] -= 1;
                schedule.push(txn as u8);
                go(left, schedule, visit);
                schedule.pop();
                left[txn] += 1;
            }
        }
    }
    go(&mut lengths.to_vec(), &mut Vec::new(), visit);
}

/// The tag of a transaction's step.
pub fn tag_of(txn: usize, step: usize) -> u64 {
    (txn as u64 + 1) << 4 | step as u64
}

/// Runs the programs, one transaction each, step by step in this order; a transaction's last step
/// is its commit. Gives what the transactions saw that came to an end, and the state after.
pub fn run_schedule<H: Host>(
    db: &Database<H>,
    tables: &[Target],
    programs: &[Vec<Op>],
    schedule: &[u8],
    keys: u8,
) -> (Vec<Txn>, Model) {
    let mut sessions: Vec<Session<H>> = programs.iter().map(|_| db.session().unwrap()).collect();
    let mut idle: Vec<Option<&mut Session<H>>> = sessions.iter_mut().map(Some).collect();
    let mut open: Vec<Option<Transaction<'_, H>>> = programs.iter().map(|_| None).collect();
    let mut txns: Vec<Txn> = (0..programs.len())
        .map(|session| Txn { session, steps: Vec::new(), committed: false, time: None, began: 0, ended: 0 })
        .collect();
    let mut next = vec![0; programs.len()];
    let mut ended = vec![false; programs.len()];
    for (now, &who) in schedule.iter().enumerate() {
        let who = usize::from(who);
        let step = next[who];
        next[who] += 1;
        if step == 0 {
            txns[who].began = now as u64;
            open[who] = idle[who].take().map(Session::begin);
        }
        let Some(tx) = open[who].as_mut() else { continue };
        if let Some(op) = programs[who].get(step) {
            let tag = tag_of(who, step);
            match on_engine(tx, tables, op, tag) {
                Ok(saw) => {
                    let missing = saw == Saw::Missing;
                    txns[who].steps.push((op.clone(), tag, saw));
                    if missing {
                        // The transaction is over, and this is its outcome.
                        ended[who] = true;
                        txns[who].ended = now as u64;
                        open[who] = None;
                    }
                }
                Err(_) => open[who] = None,
            }
        } else if let Some(Ok(commit)) = open[who].take().map(Transaction::commit) {
            ended[who] = true;
            txns[who].committed = true;
            txns[who].time = (db.order() == Some(Order::Logical)).then_some(commit.time);
            txns[who].ended = now as u64;
        }
    }
    drop(open);
    let mut ended = ended.into_iter();
    txns.retain(|_| ended.next() == Some(true));
    let after = state_of(&mut sessions[0], tables, keys);
    (txns, after)
}

/// SplitMix64.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// What programs are drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Menu {
    pub tables: usize,
    pub keys: u8,
    pub scans: bool,
    pub secondary: bool,
}

impl Menu {
    pub fn draw_op(&self, numbers: &mut Numbers) -> Op {
        let t = numbers.below(self.tables) as u8;
        let k = 1 + numbers.below(self.keys.into()) as u8;
        let part = [Part::A, Part::B, Part::Row][numbers.below(3)];
        match numbers.below(20) {
            0..=4 => Op::Get(t, k, part),
            5 => Op::GetMany(t, (1..=self.keys).collect()),
            6 | 7 => Op::Insert(t, k),
            8 => Op::Upsert(t, k),
            9 | 10 => Op::Write(t, k, part),
            11..=13 => Op::Update(t, k, part),
            14 | 15 => Op::Apply(t, k, [Part::A, Part::B][numbers.below(2)]),
            16 | 17 => Op::Delete(t, k),
            18 if self.secondary => Op::ScanBy(t),
            19 if self.scans => Op::ScanDown(t, k, 1),
            _ if self.scans => Op::Scan(t, 0, self.keys),
            _ => Op::Get(t, k, Part::Row),
        }
    }

    pub fn draw(&self, numbers: &mut Numbers, steps: usize) -> Vec<Op> {
        (0..steps).map(|_| self.draw_op(numbers)).collect()
    }
}
