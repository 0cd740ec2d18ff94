use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, Cursor, Events, Fence, Finding, Inspection, LockName,
    Page, ReleaseMode, ReleaseOutcome, Renew, RenewalOutcome, Result, async_trait,
};
use lockwright_redis::node as redis;

use crate::node::{Incarnation, No, Node, Vote, Yes};

/// One Redis server of a quorum.
#[derive(Debug)]
pub struct RedisNode {
    node: redis::Node,
    address: String,
}

impl RedisNode {
    /// Creates the node at `config`. It connects in the background; an unreachable node is no error.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): invalid settings, or no tokio
    /// runtime.
    pub fn new(config: lockwright_redis::Config, largest_ttl: Duration) -> Result<Self> {
        let node = redis::Node::new(config, largest_ttl)?;
        let address = short(node.address());
        Ok(Self { node, address })
    }
}

/// Returns the host and port. The database is omitted, because a server has one vote.
fn short(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    if scheme.contains("unix") {
        return rest.split('?').next().unwrap_or(rest).to_owned();
    }
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    rest[..end].to_owned()
}

#[async_trait]
impl Node for RedisNode {
    fn address(&self) -> &str {
        &self.address
    }

    fn attach(&self, events: Events) {
        self.node.attach(events);
    }

    async fn look(&self) -> Result<Incarnation> {
        self.node.look().await
    }

    async fn admit(&self, seen: &Incarnation) -> Result<Incarnation> {
        self.node.admit(seen).await
    }

    async fn attempt(
        &self,
        incarnation: &Incarnation,
        claim: &Claim,
        candidate: Fence,
        waits: bool,
    ) -> Result<Vote> {
        let vote = self.node.attempt(incarnation, claim, candidate, waits).await?;
        Ok(match vote {
            redis::Vote::Yes { granted, repeated } => {
                Vote::Yes(Yes { fence: granted.fence, repeated, valid: granted.valid })
            }
            redis::Vote::No(busy) => Vote::No(No { left: busy.retry_after, holder: busy.holder }),
            redis::Vote::Ended => Vote::Ended,
            redis::Vote::WrongIncarnation => Vote::WrongIncarnation,
        })
    }

    async fn raise(&self, incarnation: &Incarnation, claim: &Claim, fence: Fence) -> Result<bool> {
        self.node.raise(incarnation, claim, fence).await
    }

    async fn renew(
        &self,
        incarnation: &Incarnation,
        holds: &[Renew<'_>],
    ) -> Result<Option<Vec<RenewalOutcome>>> {
        self.node.renew(incarnation, holds).await
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        self.node.release(claim, release_mode).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.node.inspect(name).await
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        self.node.list(prefix, from).await
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        self.node.break_lock(name, seen, how, by, reason).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.node.doctor().await
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_node_is_reported_by_host_and_port() {
        for (url, address) in [
            ("redis://127.0.0.1:7001", "127.0.0.1:7001"),
            ("redis://me:***@db:7001/3?prefix=p:", "db:7001"),
            ("rediss://[::1]:7001/", "[::1]:7001"),
            ("redis+unix:///run/redis.sock?db=1", "/run/redis.sock"),
        ] {
            assert_eq!(short(url), address);
        }
    }
}
