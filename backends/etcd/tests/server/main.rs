//! Tests that need an etcd server.
#![forbid(unsafe_code)]

mod break_lock;
#[path = "../../../../tests/clusters/mod.rs"]
mod clusters;
mod common;
#[path = "../../../../tests/clusters/dead_connection.rs"]
mod dead_connection;
mod doctor;
mod faults;
mod fencing;
#[path = "../../../../tests/clusters/freed.rs"]
mod freed;
mod full;
mod large;
mod late;
mod leases;
#[path = "../../../../tests/clusters/liveness.rs"]
mod liveness;
mod login;
mod members;
mod names;
mod orphans;
mod queue;
mod runtimes;
mod sharing;
#[path = "../../../../tests/clusters/silence.rs"]
mod silence;
#[cfg(feature = "tls")]
mod tls;
mod wakeup;
