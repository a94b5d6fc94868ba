//! The simulator's tests, in one program: whatever of the engine and of the transactional memory is generic is compiled for each program anew.

mod helpers;
mod on_servers;

mod cluster;
mod cores;
mod disttictoc;
mod experiment;
mod fuzz;
mod hot_row;
mod one_server;
mod phases;
mod replay;
mod repro;
mod repro_cluster_ranges;
mod repro_cluster_tpcc;
mod spanning_options;
mod splitting;
mod suspended;
