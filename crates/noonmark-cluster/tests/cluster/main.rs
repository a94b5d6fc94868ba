//! The tests of clusters, in one program: whatever of the engine is generic is compiled for each program anew, and takes longer than these take.

mod accounts;
mod direct;
mod every_order;

mod alone;
mod backoff;
mod cache;
mod circles;
mod client;
mod copies;
mod gate;
mod panics;
mod requests;
mod schedules;
mod tasks;
mod updates;
mod waiting;
mod workers;
