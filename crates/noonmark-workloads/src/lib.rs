//! Workloads for Noonmark: what is run, what drives it, and what is made of the results.

pub mod mutex;
pub mod store;
pub mod tpcc;
