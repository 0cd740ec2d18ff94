//! Servers that run, and which processes they are.

use lockwright_testbed::family::descendants;

use super::{Result, Servers, start};

/// Servers that run, and which processes they are. Dropping it ends them.
#[derive(Debug)]
pub struct Watched {
    servers: Box<dyn Servers>,
    /// Those that were started; they may start others, as PostgreSQL does for each connection.
    roots: Vec<u32>,
    /// What asking for the count adds to it.
    per_look: u64,
}

impl Watched {
    /// Starts those of one backend. What others start meanwhile counts as theirs, and is moved to their core:
    /// where it matters nobody does.
    ///
    /// # Errors
    /// When they aren't installed or don't answer.
    ///
    /// # Panics
    /// When there's no such backend.
    pub fn start(backend: &str) -> Result<Self> {
        let us = std::process::id();
        let before = descendants(us);
        let servers = start(backend)?;
        let roots =
            descendants(us).into_iter().filter(|process| !before.contains(process)).collect();
        // The least of some: who keeps them together may ask something in between.
        let mut per_look = u64::MAX;
        let mut before = servers.served()?;
        for _ in 0..3 {
            let now = servers.served()?;
            per_look = per_look.min(now.unwrap_or(0).saturating_sub(before.unwrap_or(0)));
            before = now;
        }
        Ok(Self { servers, roots, per_look })
    }

    /// How many commands they have served since a look that counted `before`, this look not counted.
    /// None where there is nobody who counts.
    ///
    /// # Errors
    /// When they don't answer.
    pub fn served_since(&self, before: Option<u64>) -> Result<Option<u64>> {
        let served = self.servers.served()?.zip(before);
        Ok(served.map(|(now, before)| now.saturating_sub(before + self.per_look)))
    }

    /// The servers themselves.
    #[must_use]
    pub fn servers(&self) -> &dyn Servers {
        &*self.servers
    }

    /// The ids of all their processes.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self
            .roots
            .iter()
            .flat_map(|root| descendants(*root))
            .chain(self.roots.clone())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
