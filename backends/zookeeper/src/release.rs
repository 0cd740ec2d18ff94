use std::sync::Arc;

use lockwright_core::{Claim, ErrorKind, Reason, ReleaseMode, ReleaseOutcome, Result};

use crate::claim_removal::{deleted, remove_by_token};
use crate::errors::error;
use crate::shared::Shared;

pub(crate) async fn release(
    shared: &Arc<Shared>,
    claim: &Claim,
    release_mode: ReleaseMode,
) -> Result<ReleaseOutcome> {
    if release_mode == ReleaseMode::Reconcile {
        shared.ended_claims.set(claim, Reason::Gone);
    }
    let place = shared.registry.place(claim);
    let session = match place.as_ref().filter(|place| !place.session.is_over()) {
        Some(place) => Arc::clone(&place.session),
        None => shared.session(claim).await?,
    };
    let mut ended = ReleaseOutcome::NotHeld;
    let node = place.and_then(|place| place.node);
    if let Some(node) = &node {
        // The node's name contains the token, so the node belongs to no other claim.
        let removal = session.client.delete(&node.path, None);
        if deleted(session.answer(removal).await)? {
            ended = ReleaseOutcome::Released;
        }
    }
    if node.is_none() || release_mode == ReleaseMode::Reconcile {
        // `remove_by_token` first awaits the session's earlier requests, which may create a node.
        match remove_by_token(&session, &shared.paths.queue(&claim.name), claim.token).await {
            Ok(true) => ended = ReleaseOutcome::Released,
            Ok(false) => {}
            Err(cause) if ended == ReleaseOutcome::NotHeld => return Err(cause),
            Err(cause) => {
                let half_done =
                    "the lock was released, but removing other nodes of the claim failed";
                return Err(error(ErrorKind::Indeterminate, half_done).with_source(cause));
            }
        }
    }
    shared.registry.leave(claim);
    Ok(ended)
}
