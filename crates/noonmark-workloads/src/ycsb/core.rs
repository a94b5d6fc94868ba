//! The core workload: one operation a transaction, on string keys.
//!
//! Keys and rows are YCSB's: `user` and a number, by default the FNV-1a hash of the row's; ten fields of a
//! hundred bytes. All but the keys that depend on how far the inserts have come (those of inserts, and of the
//! `latest` and `exponential` distributions) are made ahead.
//!
//! Departures: a row is one value of all its fields, so updating one field reads the row, and reading one field
//! reads all; the Zipfian ranks are drawn over the rows of the load, where YCSB adds the inserts that it expects;
//! how far back `latest` reaches is drawn over the rows of the load too.
//!
//! Invariant: every row below [`Inserted::limit`] is in the table, so a key that is drawn is always found; the
//! check after the run says so.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::properties::{CoreSpec, InsertOrder, Operation, RequestDistribution, ScanLengths};
use crate::distribution::{Chooser, DistributionError, Zipfian, fnv1a};
use crate::random::Random;
use crate::store::{IndexKind, Rows, Scan, Scope, Session, Store, StoreGroup, Table, TableSpec, TxnResult};
use crate::workload::{Condition, Ring, RunError, Seat, Share, Workload};

/// A row as its bytes, all fields one after another.
pub trait FieldRow: StoreGroup {
    /// The row with these bytes, if it can have so many.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
    /// Its bytes, to be changed.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl<const N: usize> FieldRow for [u8; N] {
    #[inline]
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl FieldRow for Vec<u8> {
    #[inline]
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// Bytes of random text that values are cut from.
const POOL_BYTES: usize = 1 << 14;

/// Which rows have been inserted.
#[derive(Debug)]
struct Inserted {
    /// The next row's number.
    next: AtomicU64,
    /// All rows below it are in the table.
    limit: AtomicU64,
    /// Rows in the table at or above `limit`.
    early: Mutex<std::collections::BTreeSet<u64>>,
}

impl Inserted {
    fn new(rows: u64) -> Self {
        Inserted { next: rows.into(), limit: rows.into(), early: Mutex::default() }
    }

    fn acknowledge(&self, row: u64) {
        let mut early = self.early.lock();
        early.insert(row);
        // Relaxed load: only changed under the lock.
        let mut limit = self.limit.load(Ordering::Relaxed);
        while early.remove(&limit) {
            limit += 1;
        }
        // Release: whoever sees the new limit sees that the rows have been committed.
        self.limit.store(limit, Ordering::Release);
    }
}

/// Which key a request is about.
enum KeyChoice {
    /// This one.
    Ready(String),
    /// That of the row so far back from the newest.
    Back(u64),
    /// That of a new row.
    New,
}

struct Request {
    key: KeyChoice,
    operation: Operation,
    /// Rows of a scan.
    length: u32,
    /// Which field, where it is one.
    field: u32,
    /// Where in the pool the new value begins.
    value_at: u32,
}

/// What a worker of the core workload keeps.
pub struct CoreWorker {
    requests: Ring<Request>,
    pool: Vec<u8>,
    key: String,
    /// Rows that should have been there and were not.
    missed: u64,
}

/// The core workload on a store.
pub struct CoreWorkload<S: Store, R: FieldRow> {
    spec: CoreSpec,
    table: S::Table<String, R>,
    reads: S::Scope,
    writes: S::Scope,
    inserted: Inserted,
    seed: u64,
}

impl<S: Store, R: FieldRow> CoreWorkload<S, R> {
    /// Makes its table. Scans want an ordered index.
    pub fn new(store: &S, spec: CoreSpec, index: IndexKind, seed: u64) -> Result<Self, RunError> {
        spec.check().map_err(|error| RunError::Setting(error.to_string()))?;
        if spec.scan > 0.0 && index == IndexKind::Hash {
            return Err(RunError::Setting("a hash index has no order to scan: take an ordered one".into()));
        }
        let table = TableSpec::new("usertable").index(index).expected_rows(spec.record_count);
        let table = store.table::<String, R>(&table)?;
        let reads = store.scope().reads::<String, R>(&table);
        let writes = store.scope().writes::<String, R>(&table);
        let inserted = Inserted::new(spec.record_count);
        Ok(CoreWorkload { spec, table, reads, writes, inserted, seed })
    }

    fn row_bytes(&self) -> usize {
        self.spec.field_count * self.spec.field_bytes
    }

    fn pool(&self, random: &mut Random) -> Vec<u8> {
        let mut pool = vec![0; POOL_BYTES + self.row_bytes()];
        random.fill_printable(&mut pool);
        pool
    }

    fn new_row(&self, pool: &[u8], at: usize) -> Result<R, RunError> {
        R::from_bytes(&pool[at..at + self.row_bytes()])
            .ok_or_else(|| RunError::Setting(format!("rows of {} bytes do not fit", self.row_bytes())))
    }

    /// The chooser of rows, or of how far back to go.
    fn chooser(&self) -> Result<Chooser, DistributionError> {
        let spec = &self.spec;
        let items = spec.record_count;
        match spec.request_distribution {
            RequestDistribution::Uniform => Ok(Chooser::uniform(items)),
            RequestDistribution::Zipfian => Chooser::scrambled(items, spec.theta),
            RequestDistribution::Latest => Chooser::latest(items, spec.theta),
            RequestDistribution::Hotspot => {
                Chooser::hotspot(items, spec.hotspot_data, spec.hotspot_operations)
            }
            RequestDistribution::Sequential => Ok(Chooser::sequential(items)),
            RequestDistribution::Exponential => {
                Chooser::exponential(items, spec.exponential_percentile, spec.exponential_share)
            }
        }
    }
}

/// Writes the key of a row.
fn write_key(key: &mut String, spec: &CoreSpec, row: u64) {
    use std::fmt::Write as _;
    let number = match spec.insert_order {
        InsertOrder::Hashed => fnv1a(row),
        InsertOrder::Ordered => row,
    };
    key.clear();
    // Writing to a string does not fail.
    let _ = write!(key, "user{number:0width$}", width = spec.zero_padding);
}

impl<S: Store, R: FieldRow> Workload<S> for CoreWorkload<S, R> {
    type Worker = CoreWorker;

    fn rows(&self) -> u64 {
        self.spec.record_count
    }

    fn load_bytes(&self) -> u64 {
        // The key's text and header, the record's header, and its share of an index.
        self.spec.record_count.saturating_mul(self.row_bytes() as u64 + 120)
    }

    fn load(&self, session: &mut S::Session, share: Share, loaded: &dyn Fn(u64)) -> Result<(), RunError> {
        let mut random = Random::new(self.seed, u64::MAX - share.index);
        let pool = self.pool(&mut random);
        let mut key = String::new();
        for row in share.of(self.spec.record_count) {
            write_key(&mut key, &self.spec, row);
            let value = self.new_row(&pool, random.below(POOL_BYTES as u64) as usize)?;
            let inserted = session.run(&self.writes, |tx| Ok(self.table.insert(tx, &key, value.clone())?));
            match inserted {
                Ok(true) => {}
                Ok(false) => return Err(RunError::transaction("loading", format!("{key} is there twice"))),
                Err(failure) => return Err(RunError::transaction("loading", failure)),
            }
            if row % 1024 == 1023 {
                loaded(1024);
            }
        }
        Ok(())
    }

    fn worker(&self, seat: Seat) -> Result<CoreWorker, RunError> {
        let mut random = seat.random;
        let pool = self.pool(&mut random);
        let setting = |error: DistributionError| RunError::Setting(error.to_string());
        let mut chooser = self.chooser().map_err(setting)?;
        let spec = &self.spec;
        let operations = spec.operations();
        let weights: f64 = operations.iter().map(|(weight, _)| weight).sum();
        let lengths =
            Zipfian::new(spec.scan_length_max - spec.scan_length_min + 1, spec.theta).map_err(setting)?;
        let back_from_newest = matches!(
            spec.request_distribution,
            RequestDistribution::Latest | RequestDistribution::Exponential
        );
        let requests = Ring::of(seat.requests, 1, || {
            let mut ticket = random.unit() * weights;
            let mut operation = Operation::Read;
            for (weight, kind) in operations.iter().filter(|(weight, _)| *weight > 0.0) {
                operation = *kind;
                ticket -= weight;
                if ticket < 0.0 {
                    break;
                }
            }
            let row = chooser.draw(&mut random);
            let key = if operation == Operation::Insert {
                KeyChoice::New
            } else if back_from_newest {
                KeyChoice::Back(spec.record_count - 1 - row)
            } else {
                let mut key = String::new();
                write_key(&mut key, spec, row);
                KeyChoice::Ready(key)
            };
            let length = match spec.scan_lengths {
                ScanLengths::Uniform => random.between(spec.scan_length_min, spec.scan_length_max),
                ScanLengths::Zipfian => spec.scan_length_min + lengths.draw(&mut random),
            };
            Request {
                key,
                operation,
                length: u32::try_from(length).unwrap_or(u32::MAX),
                field: random.below(spec.field_count as u64) as u32,
                value_at: random.below(POOL_BYTES as u64) as u32,
            }
        });
        Ok(CoreWorker { requests, pool, key: String::new(), missed: 0 })
    }

    #[inline]
    fn execute(&self, session: &mut S::Session, worker: &mut CoreWorker) -> TxnResult<S, ()> {
        let CoreWorker { requests, pool, key: made, missed } = worker;
        let request = requests.take_one();
        let mut new_row = 0;
        let key: &String = match &request.key {
            KeyChoice::Ready(key) => key,
            KeyChoice::Back(back) => {
                // Acquire: rows below the limit have been committed.
                let limit = self.inserted.limit.load(Ordering::Acquire);
                write_key(made, &self.spec, limit.saturating_sub(1 + back));
                made
            }
            KeyChoice::New => {
                // Relaxed: only uniqueness is asked of it.
                new_row = self.inserted.next.fetch_add(1, Ordering::Relaxed);
                write_key(made, &self.spec, new_row);
                made
            }
        };
        let field_bytes = self.spec.field_bytes;
        let field = request.field as usize * field_bytes;
        let at = request.value_at as usize;
        let value = &pool[at..at + self.row_bytes()];
        let overwrite = |row: &mut R| {
            let bytes = row.bytes_mut();
            if self.spec.write_all_fields {
                bytes.copy_from_slice(value);
            } else {
                bytes[field..field + field_bytes].copy_from_slice(&value[..field_bytes]);
            }
        };
        let read = |row: &mut R| {
            if self.spec.read_all_fields {
                black_box(row.bytes_mut());
            } else {
                black_box(&row.bytes_mut()[field..field + field_bytes]);
            }
        };
        match request.operation {
            Operation::Read => {
                let row = session.run(&self.reads, |tx| Ok(self.table.get(tx, key)?))?;
                match row {
                    Some(mut row) => read(&mut row),
                    None => *missed += 1,
                }
                Ok(())
            }
            Operation::Update if self.spec.write_all_fields => {
                let row = R::from_bytes(value);
                let found = session.run(&self.writes, |tx| match &row {
                    Some(row) => Ok(self.table.write(tx, key, row.clone())?),
                    None => Ok(false),
                })?;
                *missed += u64::from(!found);
                Ok(())
            }
            Operation::Update => session.run(&self.writes, |tx| Ok(self.table.update(tx, key, overwrite)?)),
            Operation::ReadModifyWrite => {
                let found = session.run(&self.writes, |tx| {
                    let Some(mut row) = self.table.get(tx, key)? else { return Ok(false) };
                    read(&mut row);
                    overwrite(&mut row);
                    Ok(self.table.write(tx, key, row)?)
                })?;
                *missed += u64::from(!found);
                Ok(())
            }
            Operation::Insert => {
                let row = R::from_bytes(value);
                session.run(&self.writes, |tx| match &row {
                    Some(row) => Ok(self.table.insert(tx, key, row.clone())?),
                    None => Ok(false),
                })?;
                self.inserted.acknowledge(new_row);
                Ok(())
            }
            Operation::Scan => session.run(&self.reads, |tx| {
                let bounds = (Bound::Included(key), Bound::Unbounded);
                let scan = Scan::first(request.length as usize);
                Ok(self.table.range(tx, bounds, scan, |key, mut row| {
                    black_box(key);
                    read(&mut row);
                    ControlFlow::Continue(())
                })?)
            }),
        }
    }

    fn check(
        &self,
        _session: &mut S::Session,
        workers: &mut Vec<CoreWorker>,
    ) -> Result<Vec<Condition>, RunError> {
        let missed: u64 = workers.iter().map(|worker| worker.missed).sum();
        Ok(vec![Condition::equal("the number of rows looked for and not found", missed, 0)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Length, Plan, drive};
    use crate::mutex::MutexStore;
    use crate::ycsb::core_spec;

    fn plan(threads: usize, transactions: u64) -> Plan {
        Plan {
            threads,
            length: Length::transactions(transactions),
            warm_up_s: 0.0,
            seed: 1,
            requests: 2000,
            count_allocations: false,
        }
    }

    #[test]
    fn keys_are_ycsb_s() {
        let mut key = String::new();
        let mut spec = CoreSpec::default();
        write_key(&mut key, &spec, 0);
        assert_eq!(key, format!("user{}", fnv1a(0)));
        spec.insert_order = InsertOrder::Ordered;
        spec.zero_padding = 5;
        write_key(&mut key, &spec, 42);
        assert_eq!(key, "user00042");
        write_key(&mut key, &spec, 1_234_567);
        assert_eq!(key, "user1234567");
    }

    #[test]
    fn the_limit_waits_for_the_slowest_insert() {
        let inserted = Inserted::new(10);
        inserted.acknowledge(12);
        inserted.acknowledge(11);
        assert_eq!(inserted.limit.load(Ordering::Relaxed), 10);
        inserted.acknowledge(10);
        assert_eq!(inserted.limit.load(Ordering::Relaxed), 13);
    }

    #[test]
    fn every_core_workload_runs_on_four_threads_and_finds_its_rows() {
        for letter in 'a'..='f' {
            let store = MutexStore::new();
            let mut spec = core_spec(letter).unwrap();
            spec.record_count = 500;
            let workload: CoreWorkload<_, [u8; 1000]> =
                CoreWorkload::new(&store, spec, IndexKind::Ordered, 7).unwrap();
            let measured = drive(&store, &workload, &plan(4, 4000), &mut |_| {}).unwrap();
            assert_eq!(measured.committed, 4000, "{letter}");
            assert!(measured.conditions.iter().all(|condition| condition.holds), "{letter}");
            assert_eq!(measured.latency_ns.len(), 4000);
            let mut session = store.session().unwrap();
            let rows = session.run(&workload.reads, |tx| {
                let mut rows = 0;
                workload.table.range(tx, .., Scan::ALL, |_, _| {
                    rows += 1;
                    ControlFlow::Continue(())
                })?;
                Ok(rows)
            });
            assert_eq!(rows.unwrap(), workload.inserted.limit.load(Ordering::Relaxed), "{letter}");
        }
    }

    #[test]
    fn the_mix_is_as_the_proportions_say() {
        let store = MutexStore::new();
        let spec = CoreSpec {
            record_count: 100,
            field_count: 1,
            field_bytes: 7,
            read: 0.4,
            update: 0.3,
            insert: 0.15,
            scan: 0.1,
            read_modify_write: 0.05,
            ..CoreSpec::default()
        };
        let operations = spec.operations();
        let workload: CoreWorkload<_, Vec<u8>> =
            CoreWorkload::new(&store, spec, IndexKind::Ordered, 7).unwrap();
        let seat = Seat {
            number: 0,
            count: 1,
            random: Random::new(3, 3),
            requests: 40_000,
            epoch: std::time::Instant::now(),
        };
        let mut worker = workload.worker(seat).unwrap();
        let drawn: Vec<Operation> = (0..40_000).map(|_| worker.requests.take_one().operation).collect();
        for (share, operation) in operations {
            let count = drawn.iter().filter(|drawn| **drawn == operation).count() as f64;
            let deviation = (40_000.0 * share * (1.0 - share)).sqrt();
            assert!((count - 40_000.0 * share).abs() < 5.0 * deviation, "{operation:?}: {count}");
        }
    }

    #[test]
    fn a_hash_index_refuses_scans() {
        let store = MutexStore::new();
        let spec = core_spec('e').unwrap();
        let error = CoreWorkload::<_, Vec<u8>>::new(&store, spec, IndexKind::Hash, 1).err().unwrap();
        assert!(error.to_string().contains("ordered"), "{error}");
    }
}
