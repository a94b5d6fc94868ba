//! Runs a fixed number of TPC-C transactions on one thread, and nothing else that is random: for
//! `scripts/instructions-per-tpcc-transaction`, which counts what they take by their kind. Says, for each kind, how
//! many there were and how long they took, which is worth less.
//!
//!     tpcc TRANSACTIONS CUSTOMERS ITEMS PROTOCOL one-by-one|multi-get

use noonmark::Protocol;
use noonmark_workloads::engine::EngineStore;
use noonmark_workloads::random::Random;
use noonmark_workloads::store::{Failure, Store};
use noonmark_workloads::tpcc::{Access, Options, Tpcc, Worker, population::Scale, request::Kind};
use noonmark_workloads::workload::{RunError, Seat, Share, Workload};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [transactions, customers, items, protocol, access] = arguments.as_slice() else {
        return Err("give: TRANSACTIONS CUSTOMERS ITEMS PROTOCOL one-by-one|multi-get".into());
    };
    let transactions: usize = transactions.parse()?;
    let scale = Scale { warehouses: 1, customers: customers.parse()?, items: items.parse()? };
    let protocol: Protocol = protocol.parse()?;
    let access = match access.as_str() {
        "one-by-one" => Access::OneByOne,
        "multi-get" => Access::MultiGet,
        other => return Err(format!("there is no access {other:?}").into()),
    };

    let store = EngineStore::new(&[protocol], 4)?;
    let tpcc = Tpcc::create(&store, Options { scale, access, apart: true, ..Options::default() })?;
    let mut session = store.session()?;
    tpcc.load(&mut session, Share { index: 0, count: 1 }, &|_| ())?;
    let random = Random::new(1, 1);
    let mut worker = Workload::<EngineStore>::worker(
        &tpcc,
        Seat { number: 0, count: 1, random, requests: transactions.max(1), epoch: Instant::now() },
    )?;
    let mut took = [Duration::ZERO; 5];
    measured(&tpcc, &mut session, &mut worker, transactions, &mut took)?;
    let tally = worker.tally();
    for kind in Kind::ALL {
        let mut number = tally.committed[kind as usize];
        if kind == Kind::NewOrder {
            number += tally.rolled_back;
        }
        println!("{kind:?} {number} {:.0} ns", took[kind as usize].as_nanos() as f64 / number.max(1) as f64);
    }
    let conditions = tpcc.check(&mut session, &mut vec![worker])?;
    match conditions.iter().find(|condition| !condition.holds) {
        Some(broken) => Err(broken.words.clone().into()),
        None => Ok(()),
    }
}

/// What is counted: not a part of its caller, so that it can be told apart.
#[inline(never)]
fn measured<S: Store>(
    tpcc: &Tpcc<S>,
    session: &mut S::Session,
    worker: &mut Worker,
    transactions: usize,
    took: &mut [Duration; 5],
) -> Result<(), RunError> {
    for _ in 0..transactions {
        let (before, start) = (worker.tally(), Instant::now());
        match tpcc.execute(session, worker) {
            Ok(()) | Err(Failure::Rollback) => {}
            Err(Failure::Abort(abort)) => return Err(RunError::transaction("a transaction", abort)),
        }
        let (elapsed, after) = (start.elapsed(), worker.tally());
        // Only New-Order rolls itself back.
        let kind = (0..5).find(|&kind| after.committed[kind] > before.committed[kind]).unwrap_or(0);
        took[kind] += elapsed;
    }
    Ok(())
}
