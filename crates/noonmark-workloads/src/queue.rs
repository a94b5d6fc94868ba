//! A queue of orders: some transactions add one at the end, the others look for the oldest and take it away.
//!
//! Inserts, deletes and the scan for the first row meet at the two ends of one ordered index: the smallest
//! workload that has phantoms. An order's key is a sequence number of its producer and the producer's own
//! number, so that no counter outside the store brings producers into step.
//!
//! Invariants, checked after every run:
//!
//! - what was added is what was taken and what is left, in number and in the sum of the keys;
//! - no consumer was ever given an order of some producer older than one that it had been given before. An order
//!   that is taken is the oldest there is; so all older ones of its producer, whose transactions committed before
//!   in the producer's own order, have been taken. (This is first in, first out as a serial order has it.)

use std::ops::ControlFlow;

use crate::store::{IndexKind, Rows, Scan, Scope, Session, Store, Table, TableSpec, TxnResult};
use crate::workload::{Condition, Ring, RunError, Seat, Share, Workload};

/// The settings of the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    /// Orders that wait from the beginning.
    pub waiting: u64,
    /// The probability that a transaction adds an order rather than takes one.
    pub adds_share: f64,
}

impl QueueSpec {
    /// That the settings go together.
    pub fn check(&self) -> Result<(), RunError> {
        if !(0.0..=1.0).contains(&self.adds_share) {
            let what = format!("the share of added orders must be from 0 to 1, not {}", self.adds_share);
            return Err(RunError::Setting(what));
        }
        Ok(())
    }
}

impl Default for QueueSpec {
    fn default() -> Self {
        QueueSpec { waiting: 1000, adds_share: 0.5 }
    }
}

/// What an order is of.
type Order = [u8; 32];

/// What a worker keeps.
pub struct QueueWorker {
    requests: Ring<bool>,
    number: u64,
    /// The sequence number of its next order.
    next: u64,
    added: u64,
    added_sum: u128,
    taken: u64,
    taken_sum: u128,
    /// The last order that it was given of each producer.
    last_taken: Vec<Option<u64>>,
    out_of_order: u64,
    empty: u64,
}

/// The queue on a store.
pub struct Queue<S: Store> {
    spec: QueueSpec,
    table: S::Table<u64, Order>,
    scope: S::Scope,
}

/// Producers that a key has room for; the load is the last of them.
const PRODUCERS: u64 = 1 << 16;
const LOADER: u64 = PRODUCERS - 1;

fn key(sequence: u64, producer: u64) -> u64 {
    sequence * PRODUCERS + producer
}

impl<S: Store> Queue<S> {
    /// Makes its table, which must be ordered.
    pub fn new(store: &S, spec: QueueSpec, index: IndexKind) -> Result<Self, RunError> {
        if index == IndexKind::Hash {
            return Err(RunError::Setting(
                "a hash index does not know the oldest: take an ordered one".into(),
            ));
        }
        spec.check()?;
        let table = TableSpec::new("orders").index(index).expected_rows(spec.waiting);
        let table = store.table::<u64, Order>(&table)?;
        let scope = store.scope().writes::<u64, Order>(&table);
        Ok(Queue { spec, table, scope })
    }

    /// Takes the oldest order.
    #[inline]
    fn take(&self, session: &mut S::Session) -> TxnResult<S, Option<u64>> {
        session.run(&self.scope, |tx| {
            let mut oldest = None;
            self.table.range(tx, .., Scan::first(1), |key, order| {
                oldest = Some((key, order));
                ControlFlow::Break(())
            })?;
            let Some((key, order)) = oldest else { return Ok(None) };
            std::hint::black_box(order);
            self.table.delete(tx, &key)?;
            Ok(Some(key))
        })
    }
}

impl<S: Store> Workload<S> for Queue<S> {
    type Worker = QueueWorker;

    fn rows(&self) -> u64 {
        self.spec.waiting
    }

    fn load_bytes(&self) -> u64 {
        self.spec.waiting.saturating_mul(160)
    }

    fn load(&self, session: &mut S::Session, share: Share, loaded: &dyn Fn(u64)) -> Result<(), RunError> {
        for sequence in share.of(self.spec.waiting) {
            let key = key(sequence, LOADER);
            let made = session.run(&self.scope, |tx| Ok(self.table.insert(tx, &key, [0; 32])?));
            made.map_err(|failure| RunError::transaction("adding orders", failure))?;
            loaded(1);
        }
        Ok(())
    }

    fn worker(&self, seat: Seat) -> Result<QueueWorker, RunError> {
        let Seat { mut random, requests, number, count, .. } = seat;
        // In random order, but as many of each as the share says: requests are gone round again and again, and so would be a surplus, until the queue
        // was long or empty.
        let mut left = requests.max(1) as u64;
        let mut adds = (self.spec.adds_share * left as f64).round() as u64;
        let requests = Ring::of(requests, 1, || {
            let add = random.below(left) < adds;
            left -= 1;
            adds -= u64::from(add);
            add
        });
        Ok(QueueWorker {
            requests,
            number: number as u64,
            next: self.spec.waiting,
            added: 0,
            added_sum: 0,
            taken: 0,
            taken_sum: 0,
            // One place for each worker, and one for the load.
            last_taken: vec![None; count + 1],
            out_of_order: 0,
            empty: 0,
        })
    }

    #[inline]
    fn execute(&self, session: &mut S::Session, worker: &mut QueueWorker) -> TxnResult<S, ()> {
        if *worker.requests.take_one() {
            let key = key(worker.next, worker.number);
            let order = [worker.number as u8; 32];
            let added = session.run(&self.scope, |tx| Ok(self.table.insert(tx, &key, order)?))?;
            worker.next += 1;
            worker.added += u64::from(added);
            worker.added_sum += u128::from(key) * u128::from(added);
            return Ok(());
        }
        match self.take(session)? {
            Some(key) => {
                worker.taken += 1;
                worker.taken_sum += u128::from(key);
                let loader = worker.last_taken.len() - 1;
                let producer = (key % PRODUCERS) as usize;
                let last = &mut worker.last_taken[producer.min(loader)];
                worker.out_of_order += u64::from(last.is_some_and(|last| last >= key));
                *last = Some(key);
            }
            None => worker.empty += 1,
        }
        Ok(())
    }

    fn check(
        &self,
        session: &mut S::Session,
        workers: &mut Vec<QueueWorker>,
    ) -> Result<Vec<Condition>, RunError> {
        let left = session.run(&self.scope, |tx| {
            let (mut left, mut left_sum) = (0_u64, 0_u128);
            self.table.range(tx, .., Scan::ALL, |key, _| {
                left += 1;
                left_sum += u128::from(key);
                ControlFlow::Continue(())
            })?;
            Ok((left, left_sum))
        });
        let (left, left_sum) = left.map_err(|failure| RunError::transaction("counting orders", failure))?;
        let loaded_sum: u128 = (0..self.spec.waiting).map(|sequence| u128::from(key(sequence, LOADER))).sum();
        let sum = |of: fn(&QueueWorker) -> u128| workers.iter().map(of).sum::<u128>();
        let added = u128::from(self.spec.waiting) + sum(|worker| worker.added.into());
        let taken = sum(|worker| worker.taken.into());
        let added_sum = loaded_sum + sum(|worker| worker.added_sum);
        let taken_sum = sum(|worker| worker.taken_sum);
        let out_of_order = sum(|worker| worker.out_of_order.into());
        Ok(vec![
            Condition::equal("the number of orders taken and left", taken + u128::from(left), added),
            Condition::equal("the sum of their keys", taken_sum + left_sum, added_sum),
            Condition::equal("the number of orders given out of order", out_of_order, 0),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Length, Plan, drive};
    use crate::mutex::MutexStore;

    fn run(
        spec: QueueSpec,
        threads: usize,
    ) -> (MutexStore, Queue<MutexStore>, Vec<QueueWorker>, Vec<Condition>) {
        let store = MutexStore::new();
        let queue = Queue::new(&store, spec, IndexKind::Ordered).unwrap();
        let plan = Plan {
            threads,
            length: Length::transactions(8000),
            warm_up_s: 0.0,
            seed: 1,
            requests: 1000,
            count_allocations: false,
        };
        let measured = drive(&store, &queue, &plan, &mut |_| {}).unwrap();
        assert_eq!(measured.committed, 8000);
        (store, queue, measured.workers, measured.conditions)
    }

    #[test]
    fn four_threads_lose_nothing_and_keep_the_order() {
        let (store, queue, mut workers, conditions) = run(QueueSpec { waiting: 50, adds_share: 0.5 }, 4);
        assert!(conditions.iter().all(|condition| condition.holds), "{conditions:?}");
        assert!(workers.iter().all(|worker| worker.taken > 0 && worker.added > 0));
        // And the check does look: an order that nobody took is missed.
        let mut session = store.session().unwrap();
        while queue.take(&mut session).unwrap().is_some() {}
        let conditions = queue.check(&mut session, &mut workers).unwrap();
        let taken_away = workers.iter().map(|worker| worker.added).sum::<u64>() + 50
            != workers.iter().map(|worker| worker.taken).sum::<u64>();
        assert_eq!(conditions[0].holds, !taken_away);
    }

    #[test]
    fn a_queue_is_as_long_after_each_round_of_the_requests() {
        let (_, _, workers, _) = run(QueueSpec { waiting: 200, adds_share: 0.5 }, 1);
        let worker = &workers[0];
        assert_eq!((worker.added, worker.taken, worker.empty), (4000, 4000, 0));
    }

    #[test]
    fn an_empty_queue_gives_nothing() {
        let (_, _, workers, conditions) = run(QueueSpec { waiting: 3, adds_share: 0.0 }, 4);
        assert_eq!(workers.iter().map(|worker| worker.taken).sum::<u64>(), 3);
        assert_eq!(workers.iter().map(|worker| worker.empty).sum::<u64>(), 7997);
        assert!(conditions.iter().all(|condition| condition.holds));
    }
}
