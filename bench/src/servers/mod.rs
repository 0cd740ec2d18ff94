//! The servers of each backend: started anew, asked how many commands they have served.
//!
//! They are as a careful user has them: what they are told to keep is on the disk before they answer,
//! and nothing is tuned but how many connections they take.

mod etcd;
mod redis;
mod sql;
mod watched;
mod zookeeper;

use std::fmt::Debug;

pub use watched::Watched;

/// What goes wrong is read by a person.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The servers of one backend. Dropping them ends them.
pub trait Servers: Debug + Send {
    /// What `open` is told: Lockwright's URL, which the floor understands as well.
    fn url(&self) -> String;

    /// What `open` is told to the peers.
    fn addresses(&self) -> Vec<String>;

    /// How many commands, statements or requests they have served by now, those inside scripts too;
    /// none where there is nobody who counts.
    ///
    /// # Errors
    /// When they don't answer.
    fn served(&self) -> Result<Option<u64>>;

    /// Whether nobody in another process can have these locks.
    fn are_in_one_process(&self) -> bool {
        false
    }

    /// What they are, and of which version.
    ///
    /// # Errors
    /// When they don't answer.
    fn version(&self) -> Result<(String, String)>;
}

type Start = fn() -> Result<Box<dyn Servers>>;

/// All backends, in the report's order.
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

/// The names of all backends, in the report's order.
pub fn names() -> impl Iterator<Item = &'static str> {
    BACKENDS.iter().map(|(name, _)| *name)
}

/// Starts the servers of one.
///
/// # Errors
/// When they aren't installed or don't answer.
///
/// # Panics
/// When there's no such backend: [`names`] has them all.
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
