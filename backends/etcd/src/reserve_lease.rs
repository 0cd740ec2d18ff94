use std::sync::Arc;
use std::time::Duration;

use etcd_client::LeaseGrantOptions;
use lockwright_core::{Claim, Clock, ErrorKind, RenewalMode, Result};
use tokio::time::timeout;

use crate::errors::{self, Effect, error};
use crate::lease_tasks;
use crate::leases::{Lease, LeaseRequest, seconds};
use crate::members::{Link, RequestError};
use crate::shared::Shared;

pub(crate) struct LeaseReservation<'a> {
    lease: Arc<Lease>,
    claim: &'a Claim,
    clock: Clock,
    is_taken: bool,
}

impl LeaseReservation<'_> {
    /// Returns the lease. The caller must register the claim at once, because nothing else removes
    /// the claim from the lease.
    pub(crate) fn into_lease(mut self) -> Arc<Lease> {
        self.is_taken = true;
        Arc::clone(&self.lease)
    }
}

impl Drop for LeaseReservation<'_> {
    fn drop(&mut self) {
        if !self.is_taken {
            self.lease.drop_claim(&self.claim.name, self.claim.token, self.clock.now());
        }
    }
}

impl Shared {
    pub(crate) async fn reserve_lease<'a>(
        self: &Arc<Self>,
        claim: &'a Claim,
    ) -> Result<LeaseReservation<'a>> {
        let reservation =
            |lease| LeaseReservation { lease, claim, clock: self.clock.clone(), is_taken: false };
        let (seconds, is_fixed) = (seconds(claim.ttl), claim.renewal_mode == RenewalMode::Off);
        if is_fixed {
            let limit = self.members.limit(claim.ttl);
            let lease = self.ask_for_lease(seconds, limit).await?;
            lease.add_only_claim(claim);
            return Ok(reservation(lease));
        }
        loop {
            let found = || self.leases.add_claim(seconds, claim, self.clock.now());
            let reservation = match found() {
                Some(lease) => reservation(lease),
                None => {
                    // Limit the wait for `asking`, so that each caller gets an error in time.
                    let limit = self.members.limit(claim.ttl);
                    let _one = timeout(limit, self.leases.asking.lock()).await.map_err(|_| {
                        let what = "earlier requests for a lease are still unanswered";
                        error(ErrorKind::Unavailable, format!("no member grants leases: {what}"))
                    })?;
                    match found() {
                        Some(lease) => reservation(lease),
                        None => {
                            let lease = self.ask_for_shared_lease(seconds).await?;
                            lease.add_claim(claim, self.clock.now());
                            self.leases.add(seconds, Arc::clone(&lease));
                            lease_tasks::start(self, &lease);
                            return Ok(reservation(lease));
                        }
                    }
                }
            };
            if self.clock.now() <= reservation.lease.due() + reservation.lease.ttl / 8 {
                return Ok(reservation);
            }
            match self.confirm(&reservation.lease).await {
                Ok(()) => return Ok(reservation),
                Err(RequestError::NoLease) => {}
                Err(RequestError::Failed(failure)) => return Err(failure),
            }
        }
    }

    pub(crate) async fn ask_for_lease(&self, seconds: u64, limit: Duration) -> Result<Arc<Lease>> {
        let asked = i64::try_from(seconds).unwrap_or(i64::MAX);
        let request = |link: Arc<Link>| async move {
            let sent = self.clock.now();
            Ok((sent, link.client.lease_client().grant(asked, None).await?))
        };
        // If the response is lost, the lease stays empty and expires. So `Effect::Reads` is right.
        let answer = self.members.ask(Effect::Reads, limit, request).await;
        let (sent, granted) = answer.map_err(RequestError::error)?.value;
        let ttl = Duration::from_secs(granted.ttl().unsigned_abs());
        Ok(Arc::new(Lease::new(granted.id(), ttl, true, sent)))
    }

    async fn ask_for_shared_lease(&self, seconds: u64) -> Result<Arc<Lease>> {
        let asked = i64::try_from(seconds).unwrap_or(i64::MAX);
        let LeaseRequest { id, since } = self.leases.lease_request(seconds, self.clock.now());
        let request = |link: Arc<Link>| async move {
            let sent = self.clock.now();
            let options = LeaseGrantOptions::new().with_id(id);
            match link.client.lease_client().grant(asked, Some(options)).await {
                Ok(granted) => Ok((sent, granted.ttl())),
                // An earlier, unanswered request created the lease, at `since` or later.
                Err(error) if errors::is_granted_already(&error) => Ok((since, asked)),
                Err(error) => Err(error),
            }
        };
        let limit = self.members.limit(Duration::from_secs(seconds));
        let answer = self.members.ask(Effect::Reads, limit, request).await;
        let (sent, ttl) = answer.map_err(RequestError::error)?.value;
        Ok(Arc::new(Lease::new(id, Duration::from_secs(ttl.unsigned_abs()), false, sent)))
    }
}
