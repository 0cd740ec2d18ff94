//! Redlock and the core client on simulated nodes, with all randomness from one seed.
#![forbid(unsafe_code)]

mod chance;
mod checks;
mod client;
mod network;
mod node;
mod plan;
mod schedule;
mod schedules;
mod server;
mod trace;
