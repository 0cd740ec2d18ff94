//! The ZooKeeper backend against real ensembles: what is ZooKeeper's own, beside the conformance
//! suite.
#![forbid(unsafe_code)]

mod beside;
mod connecting;
mod doctor;
mod faults;
mod fencing;
mod kit;
mod login;
mod moving;
mod numbers;
mod queueing;
mod replies;
mod sessions;
#[cfg(feature = "tls")]
mod tls;
