//! Tests of the Redis backend on real servers.

mod acl;
mod acquire;
mod clients;
mod cluster;
mod common;
mod connect;
mod credentials;
mod doctor;
mod faults;
mod fencing;
mod node;
mod operator;
mod permissions;
mod queue;
mod replicas;
mod resharding;
mod sentinel;
mod shared;
mod silence;
#[cfg(feature = "tls")]
mod tls;
mod tracking;
mod urls;
mod wakeup;
