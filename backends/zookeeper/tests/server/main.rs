//! Tests that need ZooKeeper servers.
#![forbid(unsafe_code)]

#[path = "../../../../tests/clusters/mod.rs"]
mod clusters;
mod common;
mod connecting;
#[path = "../../../../tests/clusters/dead_connection.rs"]
mod dead_connection;
mod doctor;
mod faults;
mod fencing;
#[path = "../../../../tests/clusters/freed.rs"]
mod freed;
mod hold_watch;
#[path = "../../../../tests/clusters/liveness.rs"]
mod liveness;
mod login;
mod numbers;
mod queue;
mod replies;
mod sessions;
#[path = "../../../../tests/clusters/silence.rs"]
mod silence;
mod timeout_check;
#[cfg(feature = "tls")]
mod tls;
