//! (being built)

pub mod check;
pub mod history;
