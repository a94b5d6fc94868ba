//! (being built)

pub mod history;
