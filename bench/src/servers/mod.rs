//! The servers of each backend, and their counts of commands.
//!
//! They are configured for production: writes are on disk before the answer. Only limits of
//! connections are tuned.

mod etcd;
mod redis;
mod sql;
mod watched;
mod zookeeper;

use std::fmt::Debug;

pub use watched::Watched;

/// The result of an operation. Its error is for a reader.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The servers of one backend. Dropping them stops them.
pub trait Servers: Debug + Send {
    /// Returns Lockwright's URL, which the baseline also accepts.
    fn url(&self) -> String;

    /// Returns the peers' addresses.
    fn addresses(&self) -> Vec<String>;

    /// Returns the number of executed commands, statements or requests, also in scripts, or `None`
    /// without a counter.
    ///
    /// # Errors
    /// If they don't answer.
    fn served(&self) -> Result<Option<u64>>;

    /// Returns whether the locks exist only within one process.
    fn are_in_one_process(&self) -> bool {
        false
    }

    /// Returns their name and version.
    ///
    /// # Errors
    /// If they don't answer.
    fn version(&self) -> Result<(String, String)>;
}

type Start = fn() -> Result<Box<dyn Servers>>;

const BACKENDS: &[(&str, Start)] = &[
    ("memory", || Ok(Box::new(Nobody))),
    ("sqlite", sql::sqlite),
    ("postgres-lease", || sql::postgres("lease")),
    ("postgres-session", || sql::postgres("session")),
    ("postgres-row", || sql::postgres("row")),
    ("mysql-lease", || sql::mysql("lease")),
    ("mysql-session", || sql::mysql("session")),
    ("mysql-row", || sql::mysql("row")),
    ("redis", redis::one),
    ("redis-sentinel", redis::sentinel),
    ("redis-cluster", redis::cluster),
    ("redlock-5", redis::five),
    ("etcd", etcd::three),
    ("zookeeper", zookeeper::three),
];

/// Returns the names of all backends, in the report's order.
pub fn names() -> impl Iterator<Item = &'static str> {
    BACKENDS.iter().map(|(name, _)| *name)
}

/// Starts the servers of a backend, which must be one of [`names`].
fn start(name: &str) -> Result<Box<dyn Servers>> {
    let (_, start) =
        BACKENDS.iter().find(|(known, _)| *known == name).expect("a backend of the list");
    start()
}

/// Locks in one process need no server.
#[derive(Debug)]
struct Nobody;

impl Servers for Nobody {
    fn url(&self) -> String {
        "memory:".to_owned()
    }

    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    fn served(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn are_in_one_process(&self) -> bool {
        true
    }

    fn version(&self) -> Result<(String, String)> {
        Ok(("memory".to_owned(), "in the process itself".to_owned()))
    }
}
