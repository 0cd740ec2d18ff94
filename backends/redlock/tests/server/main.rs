//! Tests of Redlock on five real servers, in addition to the conformance suite.
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
