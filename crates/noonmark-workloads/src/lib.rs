//! Workloads for Noonmark: what is run, what drives it, and what is made of the results.
//!
//! In reading order:
//!
//! 1. [`store`]: the traits that every transaction is written against, so that the [`engine`] and the baseline run
//!    the same ones. [`mutex`] is the baseline: a lock round a `BTreeMap` for each table.
//! 2. [`workload`]: what a workload is to the driver. [`driver`]: what loads, runs and measures one.
//! 3. The workloads: [`ycsb`] (the core workloads and the papers' transactional forms), [`tpcc`], [`bank`],
//!    [`counter`], [`queue`]; and [`recorded`], made for histories that find anomalies. [`recording`] keeps the
//!    history of any other, by a [`stamp`] beside each value. [`distribution`] and
//!    [`random`] say which keys they take; the same seed gives the same requests.
//!    [`stm`] stands beside them: the benchmarks of the transactional memory, which knows no tables, with a driver of their own.
//! 4. [`spec`]: one run from its settings to its [`report`](mod@report), for a program. [`alloc`] counts allocations
//!    where asked.
//! 5. [`history`] and [`check`] stand by themselves: they know histories, whoever made them.
//!
//! What the crate does not do: it reads no arguments and prints nothing; the program does.

pub mod alloc;
pub mod bank;
pub mod check;
pub mod counter;
pub mod distribution;
pub mod driver;
pub mod engine;
pub mod history;
pub mod mutex;
pub mod queue;
pub mod random;
pub mod recorded;
pub mod recording;
pub mod report;
#[cfg(all(feature = "by-name", not(test)))]
pub mod spec;
pub mod stamp;
pub mod stm;
pub mod store;
pub mod tpcc;
mod verdict;
pub mod workload;
pub mod ycsb;
