//! Redlock and the core client on simulated nodes, with all randomness from one seed.
#![forbid(unsafe_code)]

mod chance;
mod client;
mod network;
mod node;
mod plan;
mod quorum;
mod schedule;
mod schedules;
mod server;
mod trace;
