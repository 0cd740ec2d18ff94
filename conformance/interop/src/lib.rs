//! Tests that Lockwright and other programs exclude each other: `cargo xtask interop`.
//!
//! The tests `keys` and `queues` use lock libraries for Redis, etcd and ZooKeeper. `psql` and
//! `mariadb` use SQL clients.
#![forbid(unsafe_code)]

mod peer;
pub mod programs;
mod turns;

use std::time::Duration;

use lockwright::{Guard, Locks};
use tokio::task::JoinHandle;

pub use peer::Peer;
pub use turns::{Side, take_turns};

/// A time limit that only failures reach.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A client that is silent for this long counts as waiting.
pub const SILENCE: Duration = Duration::from_millis(300);

/// Starts a waiter of a held lock.
pub async fn waiting(locks: &Locks, name: &str) -> JoinHandle<Guard> {
    let acquiring = locks.mutex(name).wait_for(LIMIT).acquire();
    let waiter = tokio::spawn(async move { acquiring.await.unwrap() });
    tokio::time::sleep(SILENCE).await;
    assert!(!waiter.is_finished());
    waiter
}
