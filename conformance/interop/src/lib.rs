//! Tests that Lockwright and other programs exclude each other: `cargo xtask interop`.
//!
//! The tests in `keys` and `queues` use lock libraries for Redis, etcd and ZooKeeper. The tests in
//! `psql` and `mariadb` use SQL clients.
#![forbid(unsafe_code)]

mod peer;
pub mod python;
mod turns;

use std::time::Duration;

pub use peer::Peer;
pub use turns::{Side, Turns};

/// A time limit that is reached only on failure.
pub const LIMIT: Duration = Duration::from_secs(20);
