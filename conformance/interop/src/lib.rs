//! Tests that Lockwright and other programs exclude each other: `cargo xtask interop`.
//!
//! The tests `keys` and `queues` use lock libraries for Redis, etcd and ZooKeeper. `psql` and
//! `mariadb` use SQL clients.
#![forbid(unsafe_code)]

mod peer;
pub mod python;
mod turns;

use std::time::Duration;

pub use peer::Peer;
pub use turns::{Side, Turns};

/// A time limit that only failures reach.
pub const LIMIT: Duration = Duration::from_secs(20);
