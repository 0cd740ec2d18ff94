//! The servers of each backend. All servers except Redis sync writes to disk before they answer.

mod etcd;
mod redis;
mod sql;
mod zookeeper;

use std::collections::BTreeMap;
use std::fmt::Debug;

use lockwright_testbed::descendants;

pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

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

pub fn names() -> impl Iterator<Item = &'static str> {
    BACKENDS.iter().map(|(name, _)| *name)
}

#[derive(Debug)]
pub struct Servers {
    pub url: String,
    pub addresses: Vec<String>,
    pub version: (String, String),
    pub(crate) counts: Box<dyn Counts>,
    roots: Vec<u32>,
    per_look: u64,
}

pub(crate) trait Counts: Debug {
    /// Returns the number of commands so far, including those in scripts, if the server counts
    /// them.
    fn served(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns each connection's number of keep-alives so far, included in [`Self::served`], if the
    /// server counts them.
    fn keep_alives(&self) -> Result<BTreeMap<String, u64>> {
        Ok(BTreeMap::new())
    }
}

impl Servers {
    fn new(
        url: String,
        addresses: Vec<String>,
        (server, version): (&str, String),
        counts: impl Counts + 'static,
    ) -> Self {
        let version = (server.to_owned(), version);
        let counts = Box::new(counts);
        Self { url, addresses, version, counts, roots: Vec::new(), per_look: 0 }
    }

    /// All child processes that start during the call count as servers.
    pub fn start(backend: &str) -> Result<Self> {
        let us = std::process::id();
        let before = descendants::of(us);
        let (_, start) =
            BACKENDS.iter().find(|(name, _)| *name == backend).expect("a backend of the list");
        let mut this = start()?;
        this.roots = descendants::of(us);
        this.roots.retain(|process| !before.contains(process));
        // `served` itself sends commands. Their number is the smallest of several differences,
        // because a cluster's internal commands increase some.
        let served = || Ok(this.counts.served()?.unwrap_or(0));
        let counts: Vec<u64> = (0..4).map(|_| served()).collect::<Result<_>>()?;
        let differences = counts.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        this.per_look = differences.min().unwrap_or(0);
        Ok(this)
    }

    pub fn served_since(&self, before: Option<u64>) -> Result<Option<u64>> {
        let served = self.counts.served()?.zip(before);
        Ok(served.map(|(now, before)| now.saturating_sub(before + self.per_look)))
    }

    /// Returns the number of keep-alives since `before`, on connections open at both times, if
    /// counted.
    pub fn keep_alives_since(&self, before: &BTreeMap<String, u64>) -> Result<Option<u64>> {
        let now = self.counts.keep_alives()?;
        let of_connection = |(connection, count): (&String, &u64)| {
            before.get(connection).map(|before| count.saturating_sub(*before))
        };
        Ok((!now.is_empty()).then(|| now.iter().filter_map(of_connection).sum()))
    }

    pub fn processes(&self) -> Vec<u32> {
        let children = self.roots.iter().flat_map(|root| descendants::of(*root));
        let mut all: Vec<u32> = children.chain(self.roots.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn memory() -> Result<Servers> {
    let version = ("memory", "in the process itself".to_owned());
    Ok(Servers::new("memory:".to_owned(), Vec::new(), version, ()))
}

impl Counts for () {}
