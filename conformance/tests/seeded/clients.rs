//! Flawed clients: a wrapper changes the requests and answers of a correct client.

use std::sync::Arc;

use lockwright_conformance::Faulty;
use lockwright_core::{
    AcquireOutcome, Claim, Clock, DistributedLock, Fence, Renew, Renewal, Result, Wait,
    async_trait, delegate,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientFlaw {
    /// The deadline counts from the answer, not from the request.
    AnchorsAtTheReply,
    /// A successful ping of the client's session counts as a renewal of its holds.
    PingsInsteadOfRenewing,
    /// Half of the requests reserve a block of fences and use its last fence. A correct backend
    /// allows this.
    UsesItsBlock,
}

const BLOCK: u32 = 8;

#[derive(Debug)]
pub(crate) struct FlawedClient {
    flaw: ClientFlaw,
    backend: Arc<dyn DistributedLock>,
    clock: Clock,
}

impl FlawedClient {
    pub(crate) fn around(
        flaw: ClientFlaw,
        backend: Faulty,
        clock: &Clock,
    ) -> Arc<dyn DistributedLock> {
        Arc::new(Self { flaw, backend: Arc::new(backend), clock: clock.clone() })
    }
}

#[async_trait]
impl DistributedLock for FlawedClient {
    delegate!(|this| this.backend;
        profile, attach, swap, release, inspect, list, break_lock, doctor);

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let mut claim = claim.clone();
        if self.flaw == ClientFlaw::UsesItsBlock && claim.token.as_bytes()[0].is_multiple_of(2) {
            claim.fences = BLOCK;
        }
        let mut attempt = self.backend.acquire(&claim, wait).await?;
        if let AcquireOutcome::Granted(granted) = &mut attempt {
            match self.flaw {
                ClientFlaw::AnchorsAtTheReply => granted.start = Some(self.clock.now()),
                ClientFlaw::UsesItsBlock => {
                    let last = granted.fence.get() + u64::from(granted.fences) - 1;
                    granted.fence = Fence::new(last);
                    granted.fences = 1;
                }
                ClientFlaw::PingsInsteadOfRenewing => {}
            }
        }
        Ok(attempt)
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        if self.flaw == ClientFlaw::PingsInsteadOfRenewing {
            return Ok(vec![Renewal::RENEWED; holds.len()]);
        }
        self.backend.renew(holds).await
    }
}
