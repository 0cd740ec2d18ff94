//! The Redis backend against real servers: what is Redis's own, beside the conformance suite.

mod connecting;
mod doctor;
mod faults;
mod kit;
mod locking;
mod node;
mod operator;
mod sentinel;
#[cfg(feature = "tls")]
mod tls;
mod waking;
