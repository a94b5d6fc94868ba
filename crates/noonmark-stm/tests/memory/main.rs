//! The tests of transactional memory, in one program: whatever of it is generic is compiled for each program and each control anew, and takes longer
//! than most of these take.
//!
//! Not among them: `no_leak`, whose allocator counts, and `shuttle` and `shuttle_maps`, which run on atomics of their own.
#![cfg(not(any(loom, shuttle)))]

mod support;

mod basics;
mod collections;
mod fixed;
mod maps;
mod maps_linearizable;
mod maps_model;
mod misuse;
mod reclamation;
mod threads;
mod touched;
