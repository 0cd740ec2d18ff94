//! Releases a claim on all nodes in parallel, and retries until they answer.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Claim, Error, ErrorKind, ReleaseMode, ReleaseOutcome, Result};
use tokio::time::{Instant, timeout_at};

use crate::errors::NodeErrors;
use crate::fleet::Fleet;
use crate::requests::Requests;

const LONGEST_WAIT: Duration = Duration::from_secs(1);

pub(crate) async fn release(
    fleet: &Arc<Fleet>,
    claim: &Claim,
    release_mode: ReleaseMode,
) -> Result<ReleaseOutcome> {
    let begun = Instant::now();
    let node_timeout = fleet.options.patience(claim.ttl);
    let patience = (claim.ttl / 4).min(LONGEST_WAIT).max(node_timeout);
    let token_state = fleet.token_states.known(claim.token);
    let in_doubt = token_state.map(|token_state| token_state.end()).unwrap_or_default();
    let mut requests = Requests::new(fleet, |at| {
        let release_mode =
            if in_doubt.contains(at) { ReleaseMode::Reconcile } else { release_mode };
        let (fleet, claim) = (Arc::clone(fleet), claim.clone());
        async move {
            let ended = fleet.release_at(at, &claim, release_mode, None).await?;
            fleet.check_membership(at).map(|()| ended)
        }
    });
    let mut count = Count::default();
    // Wait briefly for all nodes, so an exiting process leaves no hold.
    for (limit, waits_for_all) in [(node_timeout / 4, true), (patience, false)] {
        let counting = async {
            while (waits_for_all || !count.is_certain(fleet))
                && let Some((at, answer)) = requests.next().await
            {
                count.add(fleet.address(at), answer);
            }
        };
        let _ = timeout_at(begun + limit, counting).await;
    }
    match count.decided(fleet.quorum) {
        Some(ended) => {
            fleet.token_states.forget(claim.token);
            Ok(ended)
        }
        None => Err(count.into_error(fleet, patience)),
    }
}

#[derive(Default)]
struct Count {
    released: usize,
    not_held: usize,
    errors: NodeErrors,
}

impl Count {
    fn add(&mut self, address: &str, answer: Result<ReleaseOutcome>) {
        match answer {
            Ok(ReleaseOutcome::Released) => self.released += 1,
            Ok(ReleaseOutcome::NotHeld) => self.not_held += 1,
            Err(error) => self.errors.push(address, error),
        }
    }

    fn is_certain(&self, fleet: &Fleet) -> bool {
        let answers = self.released + self.not_held + self.errors.iter().count();
        self.released.max(self.not_held) >= fleet.quorum || answers == fleet.nodes.len()
    }

    fn decided(&self, quorum: usize) -> Option<ReleaseOutcome> {
        // The hold was lost before this release.
        if self.not_held >= quorum {
            Some(ReleaseOutcome::NotHeld)
        } else if self.released + self.not_held >= quorum {
            Some(ReleaseOutcome::Released)
        } else {
            None
        }
    }

    fn into_error(self, fleet: &Fleet, patience: Duration) -> Error {
        let answered = self.released + self.not_held;
        let what = format!(
            "{answered} of {} nodes answered the release within {patience:?}, and {} are \
             required; it is retried in the background",
            fleet.nodes.len(),
            fleet.quorum
        );
        let kind = self.errors.hopeless(fleet.spare() + 1).unwrap_or(ErrorKind::Indeterminate);
        self.errors.into_error(kind, &what)
    }
}
