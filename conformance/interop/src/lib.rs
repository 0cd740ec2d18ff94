//! Tests that Lockwright and other programs exclude each other: `cargo xtask interop`.
//!
//! | test | the other program | the shared lock |
//! |---|---|---|
//! | `keys` | the lock of redis-py, the Python client | a key of Redis |
//! | `keys` | redsync, in Go | a key, on one Redis or on most of five |
//! | `queues` | `etcdctl lock` | a queue of keys in etcd |
//! | `queues` | the mutex of etcd's own Go client | the same |
//! | `queues` | Curator's `InterProcessMutex`, in Java | a queue of nodes in ZooKeeper |
//! | `queues` | the lock of kazoo, in Python | the same |
//! | `psql` | PostgreSQL's own command line | an advisory lock, or a row |
//! | `mariadb` | MariaDB's own command line | a `GET_LOCK`, or a row |
#![forbid(unsafe_code)]

mod peer;
pub mod python;
mod turns;

use std::time::Duration;

pub use peer::Peer;
pub use turns::{Side, Turns};

/// A time limit that is reached only on failure.
pub const LIMIT: Duration = Duration::from_secs(20);
