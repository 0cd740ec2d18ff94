//! Tests that need an etcd server.
#![forbid(unsafe_code)]

mod beside;
mod breaking;
mod doctor;
mod faults;
mod fencing;
mod full;
mod guarding;
mod kit;
mod large;
mod late;
mod leases;
mod liveness;
mod locking;
mod login;
mod members;
mod names;
mod queue;
mod runtimes;
mod sharing;
mod silence;
#[cfg(feature = "tls")]
mod tls;
mod watching;
