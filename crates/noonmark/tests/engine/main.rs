//! The engine's tests, in one program: whatever of the engine is generic is compiled for each program anew, and takes longer than all of these take.
//!
//! Not among them: `steady`, whose allocator counts, and `shuttle`, which runs on atomics of its own.

mod attack_support;
mod stage_support;

mod attacks;
mod branches;
mod busy;
mod fairness;
mod fixed;
mod frontier;
mod in_line;
mod interleavings;
mod mixing;
mod operations;
mod ranges;
mod rules;
mod splitting;
