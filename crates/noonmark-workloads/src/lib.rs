//! (being built)
pub mod check;
pub mod history;
pub mod report;
