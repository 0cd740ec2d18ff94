//! Pending releases, retried until the node answers or the possible hold has expired.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Claim, Error, ReleaseMode, ReleaseOutcome, Result, Token};
use tokio::time::sleep;

use crate::fleet::{Fleet, within};
use crate::token_states::TokenState;

/// Maximum number per node. Beyond it, the oldest are dropped, and their holds expire.
const MOST: usize = 10_000;

const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

#[derive(Debug)]
pub(crate) struct PendingReleases(Vec<Mutex<NodeReleases>>);

#[derive(Debug, Default)]
struct NodeReleases {
    releases: HashMap<Token, PendingRelease>,
    is_retrying: bool,
}

#[derive(Debug, Clone)]
struct PendingRelease {
    claim: Claim,
    release_mode: ReleaseMode,
    until: BootInstant,
    /// Keeps `NodeLock::is_closed` set: the release would revoke any new vote.
    token_state: Option<Arc<TokenState>>,
}

impl PendingReleases {
    pub(crate) fn new(nodes: usize) -> Self {
        Self((0..nodes).map(|_| Mutex::default()).collect())
    }
}

impl NodeReleases {
    fn add(&mut self, pending: PendingRelease) {
        if let Some(old) = self.releases.get_mut(&pending.claim.token) {
            old.until = old.until.max(pending.until);
            if pending.release_mode == ReleaseMode::Reconcile {
                old.release_mode = pending.release_mode;
            }
            old.token_state = pending.token_state.or(old.token_state.take());
            return;
        }
        if self.releases.len() >= MOST
            && let Some(oldest) = self.next()
        {
            self.releases.remove(&oldest.claim.token);
        }
        self.releases.insert(pending.claim.token, pending);
    }

    fn next(&self) -> Option<PendingRelease> {
        self.releases.values().min_by_key(|pending| (pending.until, pending.claim.token)).cloned()
    }
}

impl Fleet {
    /// Releases a claim on one node. Without a reply, the release becomes pending. With a
    /// `token_state`, the claim may be requested again, so the pending release leaves a tombstone:
    /// otherwise, it could end the newer hold.
    pub(crate) async fn release_at(
        self: &Arc<Self>,
        at: usize,
        claim: &Claim,
        release_mode: ReleaseMode,
        token_state: Option<&Arc<TokenState>>,
    ) -> Result<ReleaseOutcome> {
        let answer = self.send_release(at, claim, release_mode).await;
        if answer.as_ref().is_err_and(Error::is_transient) {
            let release_mode = token_state.map_or(release_mode, |_| ReleaseMode::Reconcile);
            let longest = match release_mode {
                ReleaseMode::Plain => claim.ttl,
                // An earlier request may still be granted and start a new TTL.
                ReleaseMode::Reconcile => self.options.largest_ttl,
            };
            let (claim, until) = (claim.clone(), self.now() + longest);
            let token_state = token_state.cloned();
            let mut releases_of_node = lock(&self.pending_releases.0[at]);
            releases_of_node.add(PendingRelease { claim, release_mode, until, token_state });
            if !std::mem::replace(&mut releases_of_node.is_retrying, true) {
                self.runtime.spawn(retry(Arc::clone(self), at));
            }
        }
        answer
    }

    /// Retries for a largest TTL from now, because an earlier request may still take effect.
    pub(crate) fn extend_pending_release(&self, at: usize, token: Token) {
        let until = self.now() + self.options.largest_ttl;
        if let Some(pending) = lock(&self.pending_releases.0[at]).releases.get_mut(&token) {
            pending.until = pending.until.max(until);
        }
    }

    async fn send_release(
        &self,
        at: usize,
        claim: &Claim,
        release_mode: ReleaseMode,
    ) -> Result<ReleaseOutcome> {
        within(Self::longest_wait(claim.ttl), self.nodes[at].release(claim, release_mode)).await
    }
}

async fn retry(fleet: Arc<Fleet>, at: usize) {
    let mut pause = TRY_AGAIN.0;
    loop {
        sleep(pause).await;
        loop {
            let pending = {
                let mut releases_of_node = lock(&fleet.pending_releases.0[at]);
                let now = fleet.now();
                releases_of_node.releases.retain(|_, pending| pending.until > now);
                match releases_of_node.next() {
                    Some(pending) => pending,
                    None => {
                        releases_of_node.is_retrying = false;
                        return;
                    }
                }
            };
            if let Err(error) = fleet.send_release(at, &pending.claim, pending.release_mode).await {
                let address = fleet.address(at);
                if error.is_transient() {
                    tracing::debug!(node = address, %error, "a release is still pending");
                    break;
                }
                tracing::warn!(node = address, %error, "a release was given up");
            }
            pause = TRY_AGAIN.0;
            lock(&fleet.pending_releases.0[at]).releases.remove(&pending.claim.token);
        }
        pause = (pause * 2).min(TRY_AGAIN.1);
    }
}
