//! Virtual cores: Noonmark's own transactions on a simulated machine.
//!
//! Each worker is a coroutine with a clock of its own. All of them run on one thread, one at a time; whose clock is
//! behind runs next. What they run is the engine, or the transactional memory, as it is: [`VirtualCores`] is a [host](noonmark_core::Host) like any
//! other, and learns from their rules which lines they are about to touch. A model of a cache-coherent machine says
//! how long that takes, and the worker's clock is put forward by it.
//!
//! So 128 cores are simulated on one, and exactly: a run is a function of its seed. Two runs of one seed are the same to
//! the last line that went from one cache to another, on every machine, and however the program was compiled.
//!
//! Read in this order:
//!
//! 1. [`machine`]: the machines, with all constants and their sources.
//! 2. [`lines`]: cache lines: who has them, and what it costs to get at them.
//! 3. [`cores`]: workers as coroutines, and who of them runs next.
//! 4. [`pricing`]: what steps cost, on a machine, or in schedules that are made to find bugs; [`turns`]: schedules as lists, and how they are made shorter.
//! 5. [`host`]: what the engine sees of it.
//! 6. [`experiment`]: a workload on them, measured in virtual time.
//! 7. [`memory`]: the transactional memory on them, measured in the same way.
//! 8. [`repro`]: the papers' experiments on them, and what the papers say of them.
//! 9. [`fuzz`]: small workloads under many schedules, their histories checked.
//! 10. [`trace`], [`mod@replay`] and [`advice`]: what a history did, done again under other protocols and groupings, and which of them to take.
//! 11. [`network`]: servers and the messages between them, and small workloads on clusters, their histories checked.
//!
//! ```
//! use noonmark::Database;
//! use noonmark_sim::{Limits, Machine, VirtualCores};
//!
//! let cores = VirtualCores::new(Machine::GRANULARITY, 1);
//! let db = Database::builder().host(cores.clone()).build()?;
//! let counters = db.table::<u64, u64>("counters")?;
//! db.transact(|tx| tx.insert(&counters, 1, 0))?;
//! let report = cores.run(Limits::default(), (0..64).map(|_| {
//!     let (db, counters) = (db.clone(), counters.clone());
//!     move || {
//!         for _ in 0..10 {
//!             db.transact(|tx| tx.update(&counters, 1, |count| *count += 1)).expect("no limit is set");
//!         }
//!     }
//! }))?;
//! assert_eq!(db.transact(|tx| tx.need(&counters, 1))?, 640);
//! assert!(report.ended_ps > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it charges no more than it is told of. A rule that touches memory without saying so touches it for
//! nothing, and nobody else runs in between.

pub mod advice;
pub mod cores;
pub mod experiment;
pub mod fuzz;
pub mod host;
pub mod lines;
pub mod machine;
pub mod memory;
pub mod network;
pub mod pricing;
pub mod replay;
pub mod repro;
pub mod trace;
pub mod turns;

pub use cores::{Limit, Limits, Report, SimulationError};
pub use host::{Placement, VirtualCores};
pub use lines::LineCounts;
pub use machine::{Machine, Picoseconds};
pub use pricing::Schedule;
