//! Workloads for Noonmark: what is run, what drives it, and what is made of the results.
//!
//! Reading order: [`store`] (the seam that every transaction is written against), [`workload`] (what a
//! workload is), [`driver`] (what runs one and measures it), then any workload. [`spec`] puts them together
//! for a program: one [`spec::Spec`] in, one [`report::RunReport`] out.

pub mod alloc;
pub mod distribution;
pub mod driver;
pub mod mutex;
pub mod random;
pub mod report;
pub mod store;
pub mod tpcc;
pub mod workload;
pub mod ycsb;
