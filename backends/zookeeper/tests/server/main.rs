//! Tests that need ZooKeeper servers.
#![forbid(unsafe_code)]

#[path = "../../../../tests/clusters/mod.rs"]
mod clusters;
mod common;
mod connecting;
mod doctor;
mod faults;
mod fencing;
mod hold_watch;
mod login;
mod numbers;
mod queue;
mod replies;
mod sessions;
mod timeout_check;
#[cfg(feature = "tls")]
mod tls;
