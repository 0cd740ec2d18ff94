//! A client with one chosen flaw, for the cases about validity.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockwright_conformance::client::{TestedClient, TestedHold};
use lockwright_conformance::test_helpers::claim_for;
use lockwright_core::{
    AcquireOutcome, BootInstant, Claim, Clock, DistributedLock, Error, LockName, ReleaseMode,
    Renew, RenewalMode, RenewalOutcome, Result, Wait, async_trait,
};
use tokio::sync::watch;

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
    granted: tokio::time::Instant,
    /// The hold's deadline, or a time in the past if the hold has ended.
    deadline: watch::Receiver<BootInstant>,
    keeper: tokio::task::JoinHandle<()>,
}

#[async_trait]
impl TestedClient for SmallClient {
    async fn try_acquire(
        &self,
        name: &LockName,
        fixed: bool,
    ) -> Result<Option<Box<dyn TestedHold>>> {
        let renewal_mode = if fixed { RenewalMode::Off } else { RenewalMode::Auto };
        let claim = Claim { renewal_mode, ..claim_for(name.as_str(), self.ttl) };
        let sent = self.clock.now();
        let AcquireOutcome::Granted(_) = self.backend.acquire(&claim, Wait::No).await? else {
            return Ok(None);
        };
        let anchor = match self.flaw {
            ClientFlaw::AnchorsAtTheReply => self.clock.now(),
            _ => sent,
        };
        let mut deadline = anchor + self.ttl * 98 / 100;
        if self.clock.now() >= deadline {
            if self.flaw != ClientFlaw::AcceptsLateGrants {
                self.backend.release(&claim, ReleaseMode::Plain).await?;
                return Ok(None);
            }
            deadline = self.clock.now() + self.ttl / 4;
        }
        let (told, watched) = watch::channel(deadline);
        let keeper = Keeper { client: self.clone(), claim: claim.clone(), deadline, told };
        Ok(Some(Box::new(Held {
            client: self.clone(),
            claim,
            granted: tokio::time::Instant::now(),
            deadline: watched,
            keeper: tokio::spawn(keeper.keep()),
        })))
    }
}

struct Keeper {
    client: SmallClient,
    claim: Claim,
    deadline: BootInstant,
    told: watch::Sender<BootInstant>,
}

impl Keeper {
    async fn keep(mut self) {
        let clock = self.client.clock.clone();
        while clock.now() < self.deadline {
            let renew_at = (clock.now() + self.claim.ttl / 3).min(self.deadline);
            clock.sleep_until(renew_at).await;
            if self.claim.renewal_mode == RenewalMode::Off || clock.now() >= self.deadline {
                continue;
            }
            let sent = clock.now();
            let renewed = if self.client.flaw == ClientFlaw::WaitsForTheRenewal {
                self.renew().await
            } else {
                let patience = self.claim.ttl / 10;
                tokio::time::timeout(patience, self.renew()).await.unwrap_or(false)
            };
            if renewed {
                self.deadline = sent + self.claim.ttl * 98 / 100;
                self.told.send_replace(self.deadline);
            }
        }
        self.told.send_replace(BootInstant::from_nanos(0));
    }

    async fn renew(&self) -> bool {
        let holds = [Renew::of(&self.claim)];
        let mut renewing = pin!(self.client.backend.renew(&holds));
        let answer = std::future::poll_fn(|cx| {
            let mut poll = || renewing.as_mut().poll(cx);
            if self.client.flaw == ClientFlaw::KeeperDiesOfAPanic {
                return poll();
            }
            std::panic::catch_unwind(AssertUnwindSafe(poll))
                .unwrap_or_else(|_| Poll::Ready(Err(Error::indeterminate("it panicked"))))
        })
        .await;
        answer.is_ok_and(|answers| {
            matches!(answers.first().map(|a| &a.outcome), Some(RenewalOutcome::Renewed { .. }))
        })
    }
}

#[async_trait]
impl TestedHold for Held {
    fn is_valid(&self) -> bool {
        match self.client.flaw {
            // Clients with these flaws check no clock, and rely on the renewal task.
            ClientFlaw::KeeperDiesOfAPanic | ClientFlaw::WaitsForTheRenewal => {
                *self.deadline.borrow() != BootInstant::from_nanos(0)
            }
            // Tokio's clock stops while the machine sleeps.
            ClientFlaw::MonotonicClock => self.granted.elapsed() < self.claim.ttl * 98 / 100,
            _ => self.client.clock.now() < *self.deadline.borrow(),
        }
    }

    async fn ended(&self) {
        while self.is_valid() {
            self.client.clock.sleep(Duration::from_millis(10)).await;
            if self.keeper.is_finished() && self.client.flaw == ClientFlaw::None {
                return;
            }
        }
    }

    async fn release(self: Box<Self>) -> Result<()> {
        self.keeper.abort();
        self.client.backend.release(&self.claim, ReleaseMode::Plain).await.map(drop)
    }
}
