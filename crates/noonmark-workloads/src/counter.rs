//! A hot counter: every transaction adds one to it.
//!
//! The smallest workload on which every two transactions conflict, unless they add at commit time. With more
//! counters than one, a transaction picks one of them uniformly.
//!
//! Invariant, checked after every run: the counters add up to the transactions that committed, those of the
//! warm-up included.

use crate::bank::Updates;
use crate::store::{Column, Group, IndexKind, Rows, Scope, Session, Store, Table, TableSpec, TxnResult};
use crate::workload::{Condition, Ring, RunError, Seat, Share, Workload};

/// The settings of the counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSpec {
    /// Counters there are.
    pub counters: u64,
    /// How they are changed.
    pub updates: Updates,
}

impl CounterSpec {
    /// That the settings go together.
    pub fn check(&self) -> Result<(), RunError> {
        if self.counters == 0 {
            return Err(RunError::Setting("there must be at least one counter".into()));
        }
        Ok(())
    }
}

impl Default for CounterSpec {
    fn default() -> Self {
        CounterSpec { counters: 1, updates: Updates::Plain }
    }
}

/// What a worker keeps.
pub struct CounterWorker {
    requests: Ring<u64>,
    /// Its transactions that committed, in all.
    committed: u64,
}

/// The counter on a store.
pub struct Counter<S: Store> {
    spec: CounterSpec,
    table: S::Table<u64, u64>,
    value: S::Group<u64, u64, 0>,
    scope: S::Scope,
}

impl<S: Store> Counter<S> {
    /// Makes its table.
    pub fn new(store: &S, spec: CounterSpec, index: IndexKind) -> Result<Self, RunError> {
        spec.check()?;
        let table = TableSpec::new("counters").index(index).expected_rows(spec.counters);
        let table = store.table::<u64, u64>(&table)?;
        let value = store.group(&table);
        let scope = store.scope().writes::<u64, u64>(&table);
        Ok(Counter { spec, table, value, scope })
    }
}

impl<S: Store> Workload<S> for Counter<S> {
    type Worker = CounterWorker;

    fn rows(&self) -> u64 {
        self.spec.counters
    }

    fn load_bytes(&self) -> u64 {
        self.spec.counters.saturating_mul(128)
    }

    fn load(&self, session: &mut S::Session, share: Share, loaded: &dyn Fn(u64)) -> Result<(), RunError> {
        for counter in share.of(self.spec.counters) {
            let made = session.run(&self.scope, |tx| Ok(self.table.insert(tx, &counter, 0)?));
            made.map_err(|failure| RunError::transaction("making counters", failure))?;
            loaded(1);
        }
        Ok(())
    }

    fn worker(&self, seat: Seat) -> Result<CounterWorker, RunError> {
        let Seat { mut random, requests, .. } = seat;
        let requests = Ring::of(requests, 1, || random.below(self.spec.counters));
        Ok(CounterWorker { requests, committed: 0 })
    }

    #[inline]
    fn execute(&self, session: &mut S::Session, worker: &mut CounterWorker) -> TxnResult<S, ()> {
        let counter = worker.requests.take_one();
        session.run(&self.scope, |tx| {
            match self.spec.updates {
                Updates::Plain => self.value.update(tx, counter, |value| *value = value.wrapping_add(1))?,
                Updates::CommitTime => self.value.add(tx, counter, Column::whole(), 1)?,
            }
            Ok(())
        })?;
        worker.committed += 1;
        Ok(())
    }

    fn check(
        &self,
        session: &mut S::Session,
        workers: &mut Vec<CounterWorker>,
    ) -> Result<Vec<Condition>, RunError> {
        let mut sum = 0_u64;
        for counter in 0..self.spec.counters {
            let value = session.run(&self.scope, |tx| Ok(self.value.need(tx, &counter)?));
            sum += value.map_err(|failure| RunError::transaction("adding up the counters", failure))?;
        }
        let committed = workers.iter().map(|worker| worker.committed).sum();
        Ok(vec![Condition::equal("the sum of the counters, and so the number of commits,", sum, committed)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Length, Plan, drive};
    use crate::mutex::MutexStore;

    #[test]
    fn commits_are_counted_either_way_warm_up_included() {
        for updates in [Updates::Plain, Updates::CommitTime] {
            for counters in [1, 3] {
                let store = MutexStore::new();
                let spec = CounterSpec { counters, updates };
                let counter = Counter::new(&store, spec, IndexKind::Hash).unwrap();
                let plan = Plan {
                    threads: 4,
                    length: Length::transactions(4000),
                    warm_up_s: 0.02,
                    seed: 1,
                    requests: 100,
                    count_allocations: false,
                };
                let mut measured = drive(&store, &counter, &plan, &mut |_| {}).unwrap();
                assert_eq!(measured.committed, 4000);
                assert!(measured.conditions[0].holds, "{}", measured.conditions[0].words);
                // And the check does look: one commit more than were counted fails it.
                measured.workers[0].committed += 1;
                let mut session = store.session().unwrap();
                let conditions = counter.check(&mut session, &mut measured.workers).unwrap();
                assert!(!conditions[0].holds);
            }
        }
    }
}
