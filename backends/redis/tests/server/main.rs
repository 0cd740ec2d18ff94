//! Tests of the Redis backend on real servers, in addition to the conformance suite.

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
