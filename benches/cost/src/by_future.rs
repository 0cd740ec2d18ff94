//! A memory backend that answers through a future, like backends with a server.

use lockwright_core::{
    AcquireOutcome, Claim, Clock, DistributedLock, ReleaseMode, ReleaseOutcome, Renew, Renewal,
    Result, Wait, async_trait, delegate,
};
use lockwright_memory::Memory;

#[derive(Debug, Default)]
pub(crate) struct ByFuture(Memory);

#[async_trait]
impl DistributedLock for ByFuture {
    delegate!(|this| this.0; profile, attach, inspect, list, doctor);

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        // `acquire_at_once`, because `acquire` would box a second future.
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
}
