//! Tests that Lockwright and other programs exclude each other: `cargo xtask interop`.
//!
//! | test | the other program | the shared lock |
//! |---|---|---|
//! | `keys` | redis-py, in Python | a key of Redis |
//! | `keys` | redsync, in Go | a key, on one Redis or most of five |
//! | `queues` | `etcdctl lock` | a queue of keys in etcd |
//! | `queues` | etcd's Go client | the same |
//! | `queues` | Curator, in Java | a queue of nodes in ZooKeeper |
//! | `queues` | kazoo, in Python | the same |
//! | `psql` | `psql` | an advisory lock, or a row |
//! | `mariadb` | `mariadb` | a `GET_LOCK`, or a row |
#![forbid(unsafe_code)]

mod peer;
pub mod python;
mod turns;

use std::time::Duration;

pub use peer::Peer;
pub use turns::{Side, Turns};

/// A time limit that is reached only on failure.
pub const LIMIT: Duration = Duration::from_secs(20);
