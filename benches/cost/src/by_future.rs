//! A memory backend that answers through a future, like backends with a server.

use lockwright_core::{
    AcquireOutcome, Claim, Clock, Cursor, DistributedLock, Events, Finding, Inspection, LockName,
    Page, Profile, ReleaseMode, ReleaseOutcome, Renew, Renewal, Result, Wait, async_trait,
};
use lockwright_memory::Memory;

#[derive(Debug, Default)]
pub(crate) struct ByFuture(Memory);

#[async_trait]
impl DistributedLock for ByFuture {
    fn profile(&self) -> &Profile {
        self.0.profile()
    }

    fn attach(&self, events: Events) {
        self.0.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        // Unlike `acquire`, `acquire_at_once` doesn't box a second future.
        match wait {
            Wait::No => {
                self.0.acquire_at_once(claim, Clock::boot().now()).expect("memory answers at once")
            }
            Wait::Until(_) => self.0.acquire(claim, wait).await,
        }
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        self.0.renew(holds).await
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        self.0
            .release_at_once(claim, release_mode, Clock::boot().now())
            .expect("memory answers at once")
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.0.inspect(name).await
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        self.0.list(prefix, from).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.0.doctor().await
    }
}
