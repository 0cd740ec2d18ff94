//! The ZooKeeper backend against real ensembles: what is ZooKeeper's own, beside the conformance
//! suite.
#![forbid(unsafe_code)]

mod beside;
mod connecting;
mod doctor;
mod faults;
mod fencing;
mod kit;
mod liveness;
mod login;
mod moving;
mod numbers;
mod queueing;
mod replies;
mod sessions;
mod silence;
#[cfg(feature = "tls")]
mod tls;
