//! YCSB: the core workloads as its own property files give them, and the papers' transactional variants.
//!
//! | preset | from | a transaction is |
//! |---|---|---|
//! | `a` to `f` | YCSB's core workloads | one operation on a string key |
//! | `granularity` | [Granularity §3.3] | 16 operations, half of them reads, each of one random column of 10 of 10 bytes; Zipfian 0.9 over 10 million rows; one timestamp a row, or one for the even and one for the odd columns |
//! | `sundial` | [Sundial §6.1], on one server | 16 different rows of 1 KB, 90 % reads; Zipfian 0.9 |
//! | `disttictoc-read` | [DistTicToc §2.2] | one read of ten fields of ten bytes, uniform |
//! | `disttictoc-money` | [DistTicToc §2.2] | reads some accounts, moves money between them, writes all of them; uniform |
//! | `dynamic` | [Dynamic §VII.A] | 5 operations: all reads, or 3 reads and 2 writes; a contention ratio x:y |
//!
//! The files of the core workloads are in `workloads/ycsb` at the top of the repository; any other property
//! file of YCSB's will do as well.
//!
//! Departures: the papers' clusters and replicas are one process here. [Dynamic §VII.A] explains x:y both as x %
//! of the data accessed by y % of the transactions, and (its Fig. 1 and §VII.B) as x % of the transactions
//! accessing y % of the data; the latter is what 99:01 as the *highest* contention means, and what is done here.
//!
//! What it does not do: move between databases with YCSB's own client.

mod core;
pub mod properties;
mod transactions;

pub use self::core::{CoreWorkload, FieldRow};
pub use properties::{CoreSpec, Properties, PropertyError};
pub use transactions::{
    DynamicRows, EvenOddRows, Keys, Mix, Rows1k, Shape, TransactionWorkload, TransactionsSpec, WholeRows,
};

/// The core workloads' property files, by letter.
pub const CORE_FILES: [(char, &str); 6] = [
    ('a', include_str!("../../../../workloads/ycsb/workloada")),
    ('b', include_str!("../../../../workloads/ycsb/workloadb")),
    ('c', include_str!("../../../../workloads/ycsb/workloadc")),
    ('d', include_str!("../../../../workloads/ycsb/workloadd")),
    ('e', include_str!("../../../../workloads/ycsb/workloade")),
    ('f', include_str!("../../../../workloads/ycsb/workloadf")),
];

/// The properties of a core workload, by letter.
pub fn core_properties(letter: char) -> Option<Properties> {
    let (_, text) = CORE_FILES.iter().find(|(known, _)| known.eq_ignore_ascii_case(&letter))?;
    let mut properties = Properties::new();
    properties.read(text).ok()?;
    Some(properties)
}

/// The settings of a core workload, by letter.
pub fn core_spec(letter: char) -> Option<CoreSpec> {
    CoreSpec::from_properties(&core_properties(letter)?).ok().map(|(spec, _)| spec)
}
