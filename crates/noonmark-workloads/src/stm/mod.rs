//! Benchmarks of the transactional memory: the experiments of [SlowClocks §7].
//!
//! A [`Preset`] is an experiment, by the number of its figure; it has [`Structure`]s, shares of updates, and [`Contender`]s:
//! the controls of `noonmark-stm`, and `plain`, the same structure for one thread without any synchronization, by which the
//! price of transactions is read off. What others have made competes through the same traits ([`churn::Map`],
//! [`records::Records`], [`reads::Variables`]); those contenders are in a crate of their own, so that nobody else pays for
//! building them.
//!
//! | file | what it is for |
//! |---|---|
//! | `names.rs` | presets, structures and contenders, by the names of the paper and of a command line |
//! | `spec.rs` | a run: its settings, what is refused, and its report |
//! | `run.rs` | runs on threads: which memory, and what is run in it. That takes minutes to compile; so `tests/stm_presets.rs` has its tests, and unit tests are without it |
//! | `stage.rs` | what a workload is, apart from who runs it; and what runs workers on threads and measures them |
//! | `churn.rs` | insertions, removals and lookups in a map (Figures 7 to 13) |
//! | `records.rs` | disjoint writes of single words (Figure 6) |
//! | `overwriting.rs` | the same, of words that are not read before (on virtual cores only) |
//! | `reads.rs` | transactions that read sixteen variables |
//! | `recorded.rs` | histories, aborted attempts included, that are checked to be opaque |
//! | `worlds.rs` | the transactional memories that are run |
//! | `plain.rs`, `plain_hash.rs` | the structures without any synchronization |
//!
//! # As the paper does it, and not
//!
//! Half of the range of keys is inserted before, in random order, by a thread of its own. An update inserts a random key, if it
//! is not there, or removes one, if it is; a thread does the one and the other in turn, so that the size stays. Shares of
//! updates are 100, 10 and 0 per cent, the range is a million keys (§7, §7.2).
//!
//! In Figure 6 a record is found in a tree and has twelve words, each with a lock of its own, of which one is written. TicToc is not opaque
//! and is kept off trees by the types; it runs over a fixed table of words, as do all others (`--structure fixed`).
//!
//! # What it does not do
//!
//! It does not repeat a run, and takes no mean. Without the feature `stm` nothing is run on threads; without `stm-workloads` there are names only,
//! for reports.

#[cfg(feature = "stm-workloads")]
pub mod churn;
mod names;
#[cfg(feature = "stm-workloads")]
pub mod overwriting;
#[cfg(feature = "stm")]
#[cfg_attr(test, expect(dead_code, reason = "what runs it is compiled without unit tests"))]
mod plain;
#[cfg(feature = "stm")]
mod plain_hash;
#[cfg(feature = "stm-workloads")]
pub mod reads;
#[cfg(feature = "stm-workloads")]
pub mod recorded;
#[cfg(feature = "stm-workloads")]
pub mod records;
#[cfg(all(feature = "stm", not(test)))]
mod run;
#[cfg(feature = "stm-workloads")]
mod spec;
#[cfg(feature = "stm-workloads")]
pub mod stage;
#[cfg(feature = "stm-workloads")]
pub mod worlds;

pub use names::{Contender, Preset, RIVALS, Structure};
#[cfg(all(feature = "stm", not(test)))]
pub use run::run;
#[cfg(feature = "stm-workloads")]
pub use spec::{KEYS_MAX, Settings, THREADS_MAX, fits};
