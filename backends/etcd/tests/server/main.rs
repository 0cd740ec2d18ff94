//! Tests that need an etcd server.
#![forbid(unsafe_code)]

mod break_lock;
#[path = "../../../../tests/clusters/mod.rs"]
mod clusters;
mod common;
mod doctor;
mod faults;
mod fencing;
mod full;
mod large;
mod late;
mod leases;
mod locking;
mod login;
mod members;
mod names;
mod orphans;
mod queue;
mod runtimes;
mod shared;
mod sharing;
#[cfg(feature = "tls")]
mod tls;
mod wakeup;
