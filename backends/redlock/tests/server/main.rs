//! Redlock against five real servers: what is its own, beside the conformance suite.
#![forbid(unsafe_code)]

mod connecting;
mod contention;
mod faults;
mod forgetting;
mod kit;
mod leaving;
mod renewing;
mod silence;
mod vouching;
