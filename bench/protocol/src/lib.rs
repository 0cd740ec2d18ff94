//! The contestants' side of the benchmarks' protocol, for those that are written in Rust: a contestant
//! implements [`Contestant`], and its `main` calls [`serve`]. The protocol itself is in `bench/README.md`.
//!
//! Everything runs on one thread: a contestant is pinned to one core anyway, and all are alike in this.
#![forbid(unsafe_code)]

mod serve;
mod turns;

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

pub use serve::serve;

/// What goes wrong is read by a person: a sentence is enough.
pub type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// What a contestant says of itself, as its first line.
#[derive(Debug, Clone, Serialize)]
pub struct Greeting {
    /// What the tables call it.
    pub name: &'static str,
    /// The library and its version.
    pub library: &'static str,
    /// The language's version, where it matters.
    pub runtime: &'static str,
    /// The backends that it can be measured on, as the driver calls them.
    pub backends: &'static [&'static str],
    /// What a reader of the report must know.
    pub notes: &'static [&'static str],
}

/// A lock library at work, with one connection as its users would have it.
#[allow(async_fn_in_trait)] // nothing is sent to another thread
pub trait Contestant: Sized + 'static {
    /// A lock that is held.
    type Hold: 'static;

    /// Connects.
    async fn open(backend: &str, urls: &[String]) -> Result<Self>;

    /// Acquires a name that nobody else wants. Only a floor does this otherwise than [`Self::lock`].
    async fn lock_alone(&self, name: &str, ttl: Duration) -> Result<Self::Hold> {
        self.lock(name, ttl).await
    }

    /// Acquires a name, and waits for it as the library does.
    async fn lock(&self, name: &str, ttl: Duration) -> Result<Self::Hold>;

    /// Releases it.
    async fn unlock(&self, hold: Self::Hold) -> Result<()>;

    /// Acquires a name that is to be kept alive until it is released.
    async fn keep(&self, name: &str, ttl: Duration) -> Result<Self::Hold> {
        self.lock_alone(name, ttl).await
    }

    /// Keeps alive what is held, for ever. For libraries that don't do it by themselves; the holds are
    /// those of one `hold` command, all with this TTL.
    async fn keep_alive(&self, holds: &[Self::Hold], ttl: Duration) -> Result<()> {
        let _ = (holds, ttl);
        std::future::pending().await
    }
}

/// The library has no such thing.
#[derive(Debug)]
pub struct Cannot(pub String);

impl std::fmt::Display for Cannot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for Cannot {}

/// The present, in nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
