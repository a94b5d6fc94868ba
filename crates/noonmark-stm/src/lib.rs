//! Transactional memory: variables in plain memory, changed by many threads in one transaction.
//!
//! ```
//! use noonmark_stm::{TVar, atomically};
//!
//! let (a, b) = (TVar::new(10), TVar::new(0));
//! atomically(|tx| {
//!     let x = a.get(tx)?;
//!     a.set(tx, x - 1)?;
//!     b.set(tx, b.get(tx)? + 1)
//! });
//! assert_eq!((a.load(), b.load()), (9, 1));
//! ```
//!
//! A transaction happens at one moment, as far as others can tell, or not at all. While it runs it sees a state that
//! there was: never two values that no committed state had together, not even in an attempt that will come to nothing
//! (*opacity*). So code inside a transaction is sequential code.
//!
//! It follows *Scaling Up Transactions with Slower Clocks* (Correia and Ramalhete, PPoPP 2024), "the paper" in these pages,
//! all but the durable part (§6).
//!
//! # Reading order
//!
//! The examples before all: `philosophers`, `bank_audit` and `ordered_index`, in `examples/`. Then
//!
//! 1. [`atomically`] and its kin, and what may be done inside (`world.rs`, which also says what a [`World`] is).
//! 2. `plain.rs`, `var.rs`: values as words, and the variable that holds them.
//! 3. `transaction.rs`: handles and lifetimes; `retry` and `or_else`.
//! 4. `run.rs`: the path of an attempt, from its beginning to its end; waiting for a change.
//! 5. `desk.rs`: what an attempt logs, and how it is undone; memory that it allocates and frees.
//! 6. `control/`: the concurrency controls. `lock_word.rs` and `deferred.rs` first: they are the paper's algorithms.
//! 7. `cell.rs`, `node.rs`: values and structures on the heap.
//! 8. `map/`: maps. `mod.rs` has their vocabulary, said once; then `tree.rs` and `ravl.rs`, the tree to begin with, and `hash.rs`.
//!    `rb.rs` and `zip.rs` are other ways of keeping that tree flat, `skip.rs` is a list; `value.rs` says how values lie in nodes.
//! 9. `queue.rs`; `owned.rs` and `counter.rs`: data of which each thread writes its own part (§6).
//! 10. `fixed.rs`: a table for transactions that know ahead what they touch.
//! 11. `place.rs`, `lines.rs`, `memory.rs`, `ticket.rs`, `log.rs`: what the others stand on.
//!
//! # How it fits together
//!
//! *A value* lies in its variable as atomic words, beside (or, by choice of the world, away from) a lock word. A reader
//! copies the words and then looks at the lock word; what it makes of that is the control's affair. It is free of data races
//! as the language defines them, since each word is an atomic, and free of torn values, since a copy becomes a
//! value only after the look. There is no `unsafe` on this way.
//!
//! *Opacity* comes from the clock: what is read was committed before the attempt began, and not replaced until it was read.
//! `control/deferred.rs` gives the argument, down to the two fences that carry it. (Under two-phase locking it comes from the
//! locks. A control without it, [`TicToc`], is kept off by the types from whatever needs it: [`Opaque`], [`TFixed`].)
//!
//! *Writes are made in place*, under a lock, and undone from a log. What a doomed reader may copy is thus anything; it is
//! never looked at. An undone value leaves its lock with a new time, since somebody may have copied what was undone.
//!
//! *Memory* that a transaction frees is retired to the epochs of the base crate when the transaction has committed.
//! Every attempt is pinned from before its first read to after its last step. So whatever address a reader has
//! found by a read that stood is good until its attempt ends, whoever frees it meanwhile, and whether or not its attempt is
//! doomed. Addresses that it has found by a copy that did not stand it never follows; therefore what an attempt has
//! allocated can be freed at once when it is undone.
//!
//! *Irrevocable transactions* (§5) lock what they read, one at a time. They pin, log and undo as all others do: that
//! they are never interrupted does not mean that their user may not call them off. They look at the clock only when they
//! commit.
//!
//! *Waiting, time and chance come from the [`Host`]*, a parameter of the [`World`]. Controls answer *busy* and do not wait; the
//! driver spins, or sleeps in the waiting room of the base crate, by way of the host. And hosts that want to know are told which
//! lines are about to be touched (`lines.rs`); on threads nothing is left of that.
//!
//! # What it does not do
//!
//! It is not durable (§6); `run.rs` says where that would go. It knows nothing of tables, and nothing of the engine.
//! Transactions do not nest: one of another world that runs inside is a transaction of its own, which stays whatever comes of the outer
//! one. (Where some thread has one of world *A* inside one of world *B*, and another one the other way round, the two may wait for each
//! other for ever: keep to one order.)

mod cell;
mod control;
mod counter;
mod desk;
mod fixed;
mod lines;
mod log;
mod map;
mod memory;
mod node;
mod owned;
mod place;
mod plain;
mod planted;
mod queue;
mod run;
mod ticket;
mod transaction;
mod var;
mod world;

pub use cell::{TBox, TCell};
pub use control::dcotl::Dcotl;
pub use control::dcotl_sf::DcotlSf;
pub use control::dctl::Dctl;
pub use control::dctl_sf::DctlSf;
pub use control::tictoc::TicToc;
pub use control::tinystm::TinyStm;
pub use control::tl2::{Tl2Gv4, Tl2Gv5};
pub use control::two_pl_sf::TwoPlSf;
pub use control::{Conflict, Control, Opaque};
pub use counter::TCounter;
pub use fixed::{NoSuchPlace, TFixed};
pub use lines::{LINE_BYTES, Space};
pub use map::hash::{Buckets, Folding, THashMap};
pub use map::ravl::{Ravl, TRavlMap};
pub use map::rb::{RedBlack, TRbMap};
pub use map::skip::{SkipList, TSkipMap};
pub use map::tree::{Balance, Tree};
pub use map::value::{Boxed, Value};
pub use map::zip::{TZipMap, Zip};
pub use map::{Iter, Key, Look, Ordered, Range, Structure, TMap};
pub use memory::{Memory, Settings, Statistics};
pub use node::{TField, TLink, TRef, TRoot};
pub use noonmark_core::{Host, Threads};
pub use owned::TOwned;
pub use place::{InTable, Own, Place};
pub use plain::{OneWord, Plain, PlainBy};
#[doc(hidden)]
#[cfg(feature = "planted-bugs")]
pub use planted::Bug;
pub use queue::TQueue;
pub use run::Session;
pub use transaction::{Interrupted, Irrevocable, Reads, Snapshot, Tx, Writes};
pub use var::TVar;
pub use world::{Global, StarvationFree, World, atomically, irrevocably, try_atomically, view};
