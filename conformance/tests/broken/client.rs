//! A flawed client: only its renewal task notices a loss. Its holds have a deadline only with the
//! flaw `AcceptsLateGrants`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright_conformance::client::{TestedClient, TestedHold};
use lockwright_conformance::test_helpers::claim_for;
use lockwright_core::{
    AcquireOutcome, BootInstant, Claim, Clock, DistributedLock, LockName, ReleaseMode, Renew,
    RenewalOutcome, Result, async_trait,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::fixtures::flaws::ClientFlaw;

#[derive(Clone)]
pub(crate) struct SmallClient {
    pub(crate) flaw: ClientFlaw,
    pub(crate) backend: Arc<dyn DistributedLock>,
    pub(crate) clock: Clock,
    pub(crate) ttl: Duration,
}

struct Held {
    client: SmallClient,
    claim: Claim,
    deadline: Option<BootInstant>,
    is_lost: Arc<AtomicBool>,
    keeper: JoinHandle<()>,
}

#[async_trait]
impl TestedClient for SmallClient {
    async fn try_acquire(&self, name: &LockName, _: bool) -> Result<Option<Box<dyn TestedHold>>> {
        let (client, claim) = (self.clone(), claim_for(name.as_str(), self.ttl));
        let due = self.clock.now() + self.ttl;
        let AcquireOutcome::Granted(_) = self.backend.try_acquire(&claim).await? else {
            return Ok(None);
        };
        let deadline = due.max(self.clock.now() + self.ttl / 4);
        let deadline = (self.flaw == ClientFlaw::AcceptsLateGrants).then_some(deadline);
        let is_lost = Arc::<AtomicBool>::default();
        let keeper = tokio::spawn(client.clone().keep(claim.clone(), Arc::clone(&is_lost)));
        Ok(Some(Box::new(Held { client, claim, deadline, is_lost, keeper })))
    }
}

impl SmallClient {
    async fn keep(self, claim: Claim, is_lost: Arc<AtomicBool>) {
        loop {
            self.clock.sleep(claim.ttl / 3).await;
            let (backend, renewed) = (Arc::clone(&self.backend), claim.clone());
            let renewal = async move { backend.renew(&[Renew::of(&renewed)]).await };
            let answer = match self.flaw {
                ClientFlaw::KeeperDiesOfAPanic => timeout(claim.ttl / 10, renewal).await.ok(),
                _ => tokio::spawn(renewal).await.ok(),
            };
            let answer = answer.and_then(|answer| answer.ok()?.pop());
            let outcome = answer.map(|answer| answer.outcome);
            if !matches!(outcome, Some(RenewalOutcome::Renewed { .. })) {
                return is_lost.store(true, Ordering::SeqCst);
            }
        }
    }
}

#[async_trait]
impl TestedHold for Held {
    fn is_valid(&self) -> bool {
        let is_over = self.deadline.is_some_and(|deadline| self.client.clock.now() >= deadline);
        !self.is_lost.load(Ordering::SeqCst) && !is_over
    }

    async fn ended(&self) {
        while self.is_valid() {
            self.client.clock.sleep(Duration::from_millis(10)).await;
        }
    }

    async fn release(self: Box<Self>) -> Result<()> {
        self.keeper.abort();
        self.client.backend.release(&self.claim, ReleaseMode::Plain).await.map(drop)
    }
}
