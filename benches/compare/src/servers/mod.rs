//! The servers of each backend. All but Redis sync writes to disk before they answer.

mod etcd;
mod interface;
mod redis;
mod sql;
mod watched;
mod zookeeper;

use interface::Counts;
pub use interface::{Result, Servers};
pub use watched::Watched;

type Start = fn() -> Result<Servers>;

const BACKENDS: &[(&str, Start)] = &[
    ("memory", memory),
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

/// Returns all backends' names.
pub fn names() -> impl Iterator<Item = &'static str> {
    BACKENDS.iter().map(|(name, _)| *name)
}

fn start(name: &str) -> Result<Servers> {
    let (_, start) =
        BACKENDS.iter().find(|(known, _)| *known == name).expect("a backend of the list");
    start()
}

fn memory() -> Result<Servers> {
    let version = ("memory", "in the process itself".to_owned());
    Ok(Servers::new("memory:".to_owned(), Vec::new(), version, ()))
}

impl Counts for () {}
