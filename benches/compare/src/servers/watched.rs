use std::collections::BTreeMap;

use lockwright_testbed::descendants;

use super::interface::{Result, Servers};
use super::start;

/// A backend's running servers.
#[derive(Debug)]
pub struct Watched {
    /// The servers.
    pub servers: Servers,
    /// The servers' first processes, which may start others.
    roots: Vec<u32>,
    per_look: u64,
}

impl Watched {
    /// Starts a backend's servers. All children that start in this time count as servers.
    ///
    /// # Panics
    /// If there is no such backend.
    pub fn start(backend: &str) -> Result<Self> {
        let us = std::process::id();
        let before = descendants::of(us);
        let servers = start(backend)?;
        let roots =
            descendants::of(us).into_iter().filter(|process| !before.contains(process)).collect();
        // `served` itself sends commands. Their number is the smallest of several differences,
        // because a cluster's members send commands to each other too.
        let mut per_look = u64::MAX;
        let mut before = servers.counts.served()?;
        for _ in 0..3 {
            let now = servers.counts.served()?;
            per_look = per_look.min(now.unwrap_or(0).saturating_sub(before.unwrap_or(0)));
            before = now;
        }
        Ok(Self { servers, roots, per_look })
    }

    /// Returns the number of commands since `before`.
    pub fn served_since(&self, before: Option<u64>) -> Result<Option<u64>> {
        let served = self.servers.counts.served()?.zip(before);
        Ok(served.map(|(now, before)| now.saturating_sub(before + self.per_look)))
    }

    /// Returns the number of keep-alives since `before`, on connections open at both times, or
    /// `None` if the servers don't count keep-alives.
    pub fn keep_alives_since(&self, before: &BTreeMap<String, u64>) -> Result<Option<u64>> {
        let now = self.servers.counts.keep_alives()?;
        let of_connection = |(connection, count): (&String, &u64)| {
            before.get(connection).map(|before| count.saturating_sub(*before))
        };
        Ok((!now.is_empty()).then(|| now.iter().filter_map(of_connection).sum()))
    }

    /// Returns the servers' process ids.
    pub fn processes(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self
            .roots
            .iter()
            .flat_map(|root| descendants::of(*root))
            .chain(self.roots.clone())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
