//! Maps: sequential code, made concurrent by the transaction.
//!
//! Each is written as it would be for one thread. All of them compose: a transaction may move an entry from one map to
//! another, or look something up in one to decide about another.
//!
//! What they do not do: none counts its entries as it goes, since a counter would make every two insertions conflict.

pub mod ravl;
