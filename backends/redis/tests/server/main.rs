//! The Redis backend against real servers: what is Redis's own, beside the conformance suite.

mod acl;
mod cluster;
mod connecting;
mod doctor;
mod faults;
mod fencing;
mod kit;
mod locking;
mod node;
mod operator;
mod permissions;
mod processes;
mod queueing;
mod replicas;
mod resharding;
mod sentinel;
mod silence;
#[cfg(feature = "tls")]
mod tls;
mod tracking;
mod urls;
mod waking;
