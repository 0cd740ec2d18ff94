//! Tests that need an etcd server.
#![forbid(unsafe_code)]

mod break_lock;
mod common;
mod dead_connection;
mod doctor;
mod faults;
mod fencing;
mod full;
mod large;
mod late;
mod leases;
mod liveness;
mod locking;
mod login;
mod members;
mod names;
mod orphans;
mod queue;
mod runtimes;
mod shared;
mod sharing;
mod silence;
#[cfg(feature = "tls")]
mod tls;
mod wakeup;
