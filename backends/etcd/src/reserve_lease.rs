use std::sync::Arc;
use std::time::Duration;

use etcd_client::LeaseGrantOptions;
use lockwright_core::{Claim, ErrorKind, RenewalMode, Result};
use tokio::time::timeout;

use crate::errors::{self, Effect, error, is_lease_not_found};
use crate::lease_tasks;
use crate::leases::{Lease, LeaseRequest, seconds};
use crate::members::Link;
use crate::shared::Shared;

impl Shared {
    /// Adds the claim to a lease with most of its TTL left. The caller must register it at once: an
    /// unregistered claim is never removed from the lease.
    pub(crate) async fn reserve_lease(self: &Arc<Self>, claim: &Claim) -> Result<Arc<Lease>> {
        let (seconds, limit) = (seconds(claim.ttl), self.members.limit(claim.ttl));
        let add =
            |lease: &Lease| lease.add_claim(&claim.name, claim.token, claim.mode, self.clock.now());
        if claim.renewal_mode == RenewalMode::Off {
            let lease = self.grant_lease(seconds, limit, None).await?;
            add(&lease);
            return Ok(lease);
        }
        loop {
            let find = || self.leases.find(seconds, claim, self.clock.now());
            let Some(lease) = find() else {
                // Limit the wait for `asking`, so that each caller gets an error in time.
                let _one = timeout(limit, self.leases.asking.lock()).await.map_err(|_| {
                    let what = "earlier requests for a lease are still unanswered";
                    error(ErrorKind::Unavailable, format!("no member grants leases: {what}"))
                })?;
                if find().is_some() {
                    continue;
                }
                let request = self.leases.lease_request(seconds, self.clock.now());
                let limit = self.members.limit(Duration::from_secs(seconds));
                let lease = self.grant_lease(seconds, limit, Some(request)).await?;
                add(&lease);
                self.leases.add(seconds, Arc::clone(&lease));
                lease_tasks::start(self, &lease);
                return Ok(lease);
            };
            if self.clock.now() > lease.due() + lease.ttl / 8 {
                match self.confirm(&lease).await {
                    Ok(()) => {}
                    Err(failure) if is_lease_not_found(&failure) => continue,
                    Err(failure) => return Err(failure),
                }
            }
            // Since the search, the lease may have ended, or got another claim with this key.
            if lease.admit(claim, self.clock.now()) {
                return Ok(lease);
            }
        }
    }

    /// Creates a lease for several claims, with the `request`'s id; without a request, for one
    /// fixed claim.
    pub(crate) async fn grant_lease(
        &self,
        seconds: u64,
        limit: Duration,
        request: Option<LeaseRequest>,
    ) -> Result<Arc<Lease>> {
        let asked = i64::try_from(seconds).unwrap_or(i64::MAX);
        let grant = |link: Arc<Link>| async move {
            let sent = self.clock.now();
            let options = request.map(|request| LeaseGrantOptions::new().with_id(request.id));
            match link.client.lease_client().grant(asked, options).await {
                Ok(granted) => Ok((granted.id(), granted.ttl(), sent)),
                Err(cause) => match request.filter(|_| errors::is_granted_already(&cause)) {
                    // An earlier, unanswered request created the lease, at `since` or later.
                    Some(LeaseRequest { id, since }) => Ok((id, asked, since)),
                    None => Err(cause),
                },
            }
        };
        // Counts as a read: if the response is lost, the lease stays empty and expires.
        let (id, ttl, sent) = self.members.ask(Effect::Reads, limit, grant).await?.value;
        let ttl = Duration::from_secs(ttl.unsigned_abs());
        Ok(Arc::new(Lease::new(id, ttl, request.is_none(), sent)))
    }
}
