//! Tests that need ZooKeeper servers.
#![forbid(unsafe_code)]

mod common;
mod connecting;
mod dead_connection;
mod doctor;
mod faults;
mod fencing;
mod hold_watch;
mod liveness;
mod login;
mod numbers;
mod queue;
mod replies;
mod sessions;
mod shared;
mod silence;
mod timeout_check;
#[cfg(feature = "tls")]
mod tls;
