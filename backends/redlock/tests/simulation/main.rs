//! Whole rounds of Redlock, and the client around it, on simulated nodes: everything that is left to
//! chance comes from one seed.
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
