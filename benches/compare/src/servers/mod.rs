//! The servers of each backend. All but Redis have writes on disk before they answer.

mod etcd;
mod interface;
mod redis;
mod sql;
mod watched;
mod zookeeper;

pub use interface::{Result, Servers};
pub use watched::Watched;

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

/// Returns all backends' names.
pub fn names() -> impl Iterator<Item = &'static str> {
    BACKENDS.iter().map(|(name, _)| *name)
}

fn start(name: &str) -> Result<Box<dyn Servers>> {
    let (_, start) =
        BACKENDS.iter().find(|(known, _)| *known == name).expect("a backend of the list");
    start()
}

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
