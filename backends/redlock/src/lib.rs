//! The Redlock backend of Lockwright: a quorum over independent Redis servers.
#![forbid(unsafe_code)]

pub mod node;
mod options;

pub use options::Options;
