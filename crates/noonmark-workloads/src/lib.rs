//! (being built)
pub mod report;
