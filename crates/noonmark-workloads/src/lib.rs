//! Workloads for Noonmark: what is run, what drives it, and what is made of the results.
//!
//! Reading order: [`store`] (the seam that every transaction is written against), [`workload`] (what a
//! workload is), [`driver`] (what runs one and measures it), then any workload. [`spec`] puts them together
//! for a program: one [`spec::Spec`] in, one [`report::RunReport`] out. [`history`] and [`check`] stand by
//! themselves: they know histories, whoever made them.

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
pub mod report;
pub mod spec;
pub mod store;
pub mod tpcc;
pub mod workload;
pub mod ycsb;
