//! The benchmarks' protocol in Rust: see `benches/compare/README.md`. A subject's `main` calls
//! [`serve`] for its [`Library`]. A subject has one thread: the driver pins it to one core.
#![forbid(unsafe_code)]
#![allow(missing_docs)] // the names express the rest

mod serve;
mod turns;

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

pub use serve::{Commands, serve, serve_by_backend};

pub const BACKENDS: &[&str] = &[
    "memory",
    "sqlite",
    "postgres-lease",
    "postgres-session",
    "postgres-row",
    "mysql-lease",
    "mysql-session",
    "mysql-row",
    "redis",
    "redis-sentinel",
    "redis-cluster",
    "redlock-5",
    "etcd",
    "zookeeper",
];

/// For libraries that set the TTL per connection in [`Library::open`].
pub const TTL: Duration = Duration::from_secs(15);

pub type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

#[derive(Debug, Clone, Serialize)]
pub struct Handshake {
    pub name: &'static str,
    pub library: &'static str,
    /// The language's version or the async runtime.
    pub runtime: &'static str,
    pub backends: &'static [&'static str],
    pub notes: &'static [&'static str],
}

#[allow(async_fn_in_trait)] // the futures stay in one thread
pub trait Library: Sized + 'static {
    type Hold: 'static;

    async fn open(backend: &str, urls: &[String]) -> Result<Self>;

    /// Acquires an uncontended name.
    async fn lock_alone(&self, name: &str, ttl: Duration) -> Result<Self::Hold> {
        self.lock(name, ttl).await
    }

    /// Waits in the library's own way.
    async fn lock(&self, name: &str, ttl: Duration) -> Result<Self::Hold>;

    async fn unlock(&self, hold: Self::Hold) -> Result<()>;

    /// Acquires an uncontended name, with the library's automatic renewal, if any.
    async fn keep(&self, name: &str, ttl: Duration) -> Result<Self::Hold> {
        self.lock_alone(name, ttl).await
    }

    /// For libraries without automatic renewal.
    async fn renew(&self, holds: &[Self::Hold], ttl: Duration) -> Result<()> {
        let _ = (holds, ttl);
        Ok(())
    }
}

/// For a function that the library lacks.
#[derive(Debug)]
pub struct Cannot(pub String);

impl std::fmt::Display for Cannot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for Cannot {}

pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
