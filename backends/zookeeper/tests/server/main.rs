//! Tests that need real ensembles, beyond the conformance suite.
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
