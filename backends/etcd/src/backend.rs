//! The trait implementation.

use lockwright_core::{
    Attempt, BreakHow, Broken, Claim, Cursor, DistributedLock, Ended, Events, Finding, Inspection,
    LockName, Page, Profile, Renew, Renewal, Result, Seen, Settle, Wait, async_trait,
};

use crate::{Etcd, attempt, breaking, doctor, listing, releasing, renewing};

#[async_trait]
impl DistributedLock for Etcd {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.shared.watching.audience.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<Attempt> {
        let attempt = attempt::acquire(&self.shared, claim, wait).await;
        attempt.map_err(|error| error.with_name(&claim.name))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        renewing::renew(&self.shared, holds).await
    }

    async fn release(&self, claim: &Claim, settle: Settle) -> Result<Ended> {
        let ended = releasing::release(&self.shared, claim, settle).await;
        ended.map_err(|error| error.with_name(&claim.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        listing::inspect(&self.shared, name).await.map_err(|error| error.with_name(name))
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        listing::page(&self.shared, prefix, from).await
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let note = format!("{by}: {reason}");
        let broken = breaking::break_lock(&self.shared, name, seen, how, &note).await;
        broken.map_err(|error| error.with_name(name))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        doctor::examine(&self.shared).await
    }
}
