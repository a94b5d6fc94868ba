//! One order for the whole database.
//!
//! # The trap
//!
//! Protocols serialize transactions in two ways. Under `occ`, `two-phase`, `swiss`, `adaptive` and `f1` a
//! transaction takes place at a *moment*: when it has all its write locks and all that it read is
//! current. Under `tictoc`, `sundial`, `dynamic` and `ranges` it takes place at a *logical time*, and what it read may have been
//! replaced since: it travels back. Each way is an order. A transaction that uses tables of both
//! kinds and passes the rules of each is in both orders, but nobody has made sure that they agree.
//! Granularity §3.2 says that the intersection of what the protocols admit is serializable. It is
//! not, and two transactions suffice (`t` is a `tictoc` table, `o` an `occ` table):
//!
//! ```text
//! T1: reads t (old)                                    reads o (new)   commits at time 0
//! T2:                writes t and o, commits at time 1
//! ```
//!
//! `tictoc` places T1 before T2, as of time 0; `occ` after, as it read what T2 wrote. Both rules pass.
//!
//! Nor is it enough that each transaction that uses both kinds is careful, by checking that all it
//! read is current: a third one, within `tictoc` alone, still travels between them.
//!
//! ```text
//! T3: reads t (old)                                                            writes u, commits at time 1
//! T2:                writes t and o, commits
//! T1:                                         reads o (new) and u (old), commits
//! ```
//!
//! T3 before T2 (it read the old `t`), T2 before T1 (which read its `o`), T1 before T3 (it read the
//! old `u`). T1 and T2 are careful; T3 touches only `tictoc` tables.
//!
//! # What holds here
//!
//! The whole database is in one [`Order`](crate::Order), and every transaction keeps it:
//!
//! - **Momentary**: take all write locks, then check that everything read is current and not locked by
//!   others. Under this order nobody travels, `tictoc` and `sundial` tables included: their validation is
//!   that of `occ`. Each transaction takes place between its last lock and its first check. *Argument*: let T1
//!   depend on nothing of T2 and T2 on something of T1. If T2 read or overwrote what T1 wrote, T1's
//!   lock on it was released before T2's check or lock of it, and T1's moment was before that. If T2
//!   overwrote what T1 read, T1's check found it current and unlocked, so T2's lock came after T1's
//!   check. Either way T1's moment is before T2's, and moments do not go round in circles. Locked
//!   reads are current all the time from the read to the end, so they are at the moment. As a
//!   transaction's moment is between its begin and its end, the order is strict.
//! - **Logical**: every version has a time at which it was written and a time until which it holds; the
//!   transaction commits at one time that lies within those of all it read, and after those of all
//!   that it overwrites. The order is that of commit times, ties broken by who read what from whom.
//!   Only protocols that keep read times take part, in any mix: what each of them asks of *one* cell is the
//!   same. (1) Who reads a version commits at or after its time. (2) Who replaces it commits after its time, and after
//!   everybody who read it and commits. How (2) is seen to is the protocol's own affair: `tictoc` and `sundial` have readers raise the
//!   cell's read time and look for the writer; under `dynamic` and `ranges` a writer pushes the readers that are marked, or
//!   finds the read time that they left. A transaction that uses cells of several protocols has *one* commit time
//!   (`timing.rs` chooses it before any cell is validated), and a range in which all that pushes it pushes, so (1) and
//!   (2) hold for each of its cells. *Argument*: take two transactions with a dependency. By (1) a reader's time is not
//!   before that of whom it read from; by (2) an overwriter's is after that of the overwritten and of his readers. So times
//!   never fall along dependencies, and a circle would be one of equal times, in which everybody reads from the one
//!   before: but a transaction reads before it installs, and what it reads has been installed by then. Index nodes keep
//!   (1) and (2) as cells do. It is not strict; a session's transactions are in
//!   order, since each starts from the commit time of the one before.
//!
//! - **Beginning**: a transaction takes place at the time at which it began, drawn from one clock. Only `fixed` does, and it
//!   goes with no other protocol: a moment at commit, or a time worked out from the data, is not when it began. *Argument*: times
//!   are unique. Who reads gets the version of its time, and sees to it that none comes between that and
//!   itself: of a cell by the read time that it leaves, or since it meets whoever is about to write earlier; of a key that has
//!   no record by the read time of the index node, which a new record takes over. So everybody reads what a serial
//!   execution in the order of times would show. It is strict, as times of the clock follow real time.
//!   ([`Order::Snapshot`](crate::Order::Snapshot) gives up that writes take place at that time: snapshot isolation.)
//!
//! Which of them is settled when the database's first transaction begins: beginning if all tables keep
//! versions, logical if all keep read times, momentary otherwise, unless [`Builder::order`](crate::Builder::order) says.
//! Tables that are made later must fit: any protocol but `fixed` fits a momentary database.
//!
//! The other way out would be to carry read times in every table and to have all transactions of a mixed
//! database commit at logical times. It costs every protocol a word in every cell and an atomic
//! write for every read, and it loses strictness; momentary costs `tictoc` tables their travelling,
//! only in databases that mix. `tests/engine/mixing.rs` runs both scenarios above.
