//! Histories of the engine on real threads, judged by the checker: each protocol alone, with both
//! indexes, and databases that mix protocols.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use noonmark::{
    Abort, Builder, Database, Granularity, IndexKind, Order, Policy, Protocol, Table, TableOptions,
};
use noonmark_workloads::bank::Updates;
use noonmark_workloads::check::{Options, Verdict, check};
use noonmark_workloads::driver::Length;
use noonmark_workloads::history::{
    History, HistoryWriter, Key, MicroOp, Outcome, Process, Recorder, Value, merge_recorders,
};
use noonmark_workloads::random::Random;
use noonmark_workloads::recorded::{Kind, RecordedSpec};
use noonmark_workloads::spec::{self, ProtocolChoice, Spec, WorkloadSpec};
use noonmark_workloads::store;

/// Lists in two column groups.
type Lists = Table<u64, (Vec<u8>, Vec<u8>)>;

#[test]
fn recorded_workloads_under_each_protocol() {
    for &protocol in Protocol::ALL {
        for kind in [Kind::Append, Kind::Register, Kind::Scan] {
            for index in [store::IndexKind::Ordered, store::IndexKind::Hash] {
                if kind == Kind::Scan && index == store::IndexKind::Hash {
                    continue;
                }
                for (threads, updates) in [(4, Updates::Plain), (8, Updates::CommitTime)] {
                    let updates = if kind == Kind::Append { updates } else { Updates::Plain };
                    let recorded = RecordedSpec::new(kind);
                    let choice = ProtocolChoice::Engine(protocol);
                    let spec = Spec {
                        threads,
                        index: Some(index),
                        updates,
                        length: Length::transactions(2_000),
                        requests: Some(1_000),
                        ..Spec::new(WorkloadSpec::Recorded(recorded), "test", choice)
                    };
                    let report = spec::run(&spec, &mut |_| {}).unwrap();
                    assert_eq!(report.consistent, Some(true), "{protocol}: {:?}", report.consistency);
                    assert!(report.committed > 1_000, "{protocol}: {} committed", report.committed);
                }
            }
        }
    }
}

const GROUPS: u64 = 2;

/// A database with tables of several protocols, and lists in them: list `n` is a column group of a row of one
/// of the tables.
struct Mix {
    db: Database,
    lists: Vec<Lists>,
    /// Rows that come and go, so that records are reclaimed meanwhile.
    passing: Vec<Table<u64, u64>>,
}

impl Mix {
    fn new(protocols: &[Protocol], index: IndexKind, granularity: Granularity, builder: Builder) -> Self {
        let db = builder.max_sessions(16).build().unwrap();
        let options = |protocol| TableOptions::new().protocol(protocol).index(index).granularity(granularity);
        let named = |what: &str, number: usize| format!("{what} {number}");
        let lists = (0..protocols.len())
            .map(|n| db.create_table(&named("lists", n), options(protocols[n])).unwrap())
            .collect();
        let passing = (0..protocols.len())
            .map(|n| db.create_table(&named("passing", n), options(protocols[n])).unwrap())
            .collect();
        Mix { db, lists, passing }
    }

    /// The table and the row of a list, and whether it is the second group.
    fn place(&self, list: u64) -> (&Lists, u64, bool) {
        let row = list / GROUPS;
        (&self.lists[(row % self.lists.len() as u64) as usize], row, list % GROUPS == 1)
    }

    fn read(&self, tx: &mut noonmark::Transaction<'_>, list: u64) -> Result<Vec<Value>, Abort> {
        let (table, row, second) = self.place(list);
        let bytes =
            if second { tx.get(&table.group::<1>(), row)? } else { tx.get(&table.group::<0>(), row)? };
        let bytes = bytes.unwrap_or_default();
        Ok(bytes.chunks_exact(8).map(|b| Value(i64::from_le_bytes(b.try_into().unwrap()))).collect())
    }

    fn append(
        &self,
        tx: &mut noonmark::Transaction<'_>,
        list: u64,
        value: i64,
        at_commit: bool,
    ) -> Result<(), Abort> {
        let (table, row, second) = self.place(list);
        let bytes = value.to_le_bytes();
        if !at_commit {
            tx.insert(table, row, (Vec::new(), Vec::new()))?;
        }
        match (second, at_commit) {
            (false, false) => tx.update(&table.group::<0>(), row, |list| list.extend_from_slice(&bytes)),
            (true, false) => tx.update(&table.group::<1>(), row, |list| list.extend_from_slice(&bytes)),
            (false, true) => tx.append(&table.group::<0>(), row, &bytes),
            (true, true) => tx.append(&table.group::<1>(), row, &bytes),
        }
    }

    /// Runs transactions on so many threads and checks their history; what was found, if anything.
    fn run(self, threads: u64, transactions: u64, seed: u64) -> Result<usize, String> {
        let (epoch, appended) = (Instant::now(), AtomicU64::new(0));
        let now_ns = || epoch.elapsed().as_nanos() as u64;
        let play = |thread: u64| {
            let mut session = self.db.session().unwrap();
            let mut random = Random::new(seed, thread);
            let mut recorder = Recorder::new(Process(thread), "txn");
            let policy = Policy { escape_after: Some(8), ..Policy::default() };
            for _ in 0..transactions / threads {
                let done = appended.load(Ordering::Relaxed);
                let steps: Vec<(u64, u64)> = (0..random.between(1, 4))
                    // Twelve lists at a time; fresh ones after some hundred appends, so that they stay short.
                    .map(|_| (done / 400 * 12 + random.below(12), random.below(10)))
                    .collect();
                let passing = (random.below(self.passing.len() as u64) as usize, random.below(50));
                recorder.begin(now_ns());
                let ended = session.transact_with(&policy, |tx| {
                    recorder.restart();
                    for &(list, kind) in &steps {
                        let key = Key(list as i64);
                        if kind < 5 {
                            let list = Some(self.read(tx, list)?);
                            recorder.op(MicroOp::ReadList { key, list });
                        } else {
                            let value = appended.fetch_add(1, Ordering::Relaxed) as i64 + 1;
                            recorder.op(MicroOp::Append { key, value: Value(value) });
                            self.append(tx, list, value, false)?;
                            if kind == 9 {
                                // To a list that is there now: without reading it.
                                let value = appended.fetch_add(1, Ordering::Relaxed) as i64 + 1;
                                recorder.op(MicroOp::Append { key, value: Value(value) });
                                self.append(tx, list, value, true)?;
                            }
                        }
                        std::thread::yield_now();
                    }
                    let table = &self.passing[passing.0];
                    if !tx.insert(table, passing.1, 1)? {
                        tx.delete(table, passing.1)?;
                    }
                    Ok(())
                });
                let outcome = if ended.is_ok() { Outcome::Ok } else { Outcome::Fail };
                recorder.finish(outcome, now_ns());
                ended.unwrap();
            }
            recorder
        };
        let recorders: Vec<Recorder> = std::thread::scope(|scope| {
            let play = &play;
            let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || play(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let text = merge_recorders(recorders, HistoryWriter::new(Vec::new())).unwrap();
        let history = History::read(text.as_slice()).unwrap();
        let strict = self.db.order() == Some(Order::Momentary);
        let report = check(&history, &Options { session: true, strict });
        if report.verdict == Verdict::Proved { Ok(report.ok) } else { Err(report.to_string()) }
    }
}

#[test]
fn mixed_databases() {
    let layouts = [
        (IndexKind::Ordered, Granularity::Fine),
        (IndexKind::Hash, Granularity::Coarse),
        (IndexKind::Ordered, Granularity::Coarse),
        (IndexKind::Hash, Granularity::Fine),
    ];
    for (number, &first) in Protocol::ALL.iter().enumerate() {
        for &second in &Protocol::ALL[number..] {
            let (index, granularity) = layouts[(number + second as usize) % layouts.len()];
            for threads in [4, 8] {
                let mix = Mix::new(&[first, second], index, granularity, Database::builder());
                let ok =
                    mix.run(threads, 1_200, threads).unwrap_or_else(|e| panic!("{first}, {second}: {e}"));
                assert_eq!(ok, 1_200);
            }
        }
    }
    for (index, granularity) in layouts {
        for threads in [4, 8] {
            let mix = Mix::new(Protocol::ALL, index, granularity, Database::builder());
            mix.run(threads, 4_000, 7).unwrap_or_else(|e| panic!("all: {e}"));
        }
        let tictoc = [Protocol::TicToc; 2];
        let mix = Mix::new(&tictoc, index, granularity, Database::builder().order(Order::Momentary));
        mix.run(8, 4_000, 8).unwrap_or_else(|e| panic!("tictoc in momentary order: {e}"));
    }
}
