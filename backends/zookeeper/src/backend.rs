use std::error::Error as _;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, Cursor, DistributedLock, ErrorKind,
    Events, Finding, Inspection, LockName, Page, Profile, ReleaseMode, ReleaseOutcome, Renew,
    Renewal, Result, Wait, async_trait,
};

use crate::errors::BACKEND;
use crate::{ZooKeeper, acquire, break_lock, doctor, inspect, reachability, release, renew};

#[async_trait]
impl DistributedLock for ZooKeeper {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.shared.subscribers.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let error = match acquire::acquire(&self.shared, claim, wait).await {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error.with_name(&claim.name),
        };
        if error.kind() != ErrorKind::Indeterminate || error.source().is_some() {
            return Err(error);
        }
        Err(match reachability::refusal(&self.shared.config).await {
            Some(refusal) => error.with_source(refusal),
            None => error,
        })
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        renew::renew(&self.shared, holds).await
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let ended = release::release(&self.shared, claim, release_mode).await;
        ended.map_err(|error| error.with_name(&claim.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        inspect::inspect(&self.shared, name).await.map_err(|error| error.with_name(name))
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        inspect::page(&self.shared, prefix, from).await
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let note = format!("{by}: {reason}");
        let broken = break_lock::break_lock(&self.shared, name, seen, how, &note).await;
        broken.map_err(|error| error.with_backend(BACKEND).with_name(name))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        doctor::examine(&self.shared).await
    }
}
