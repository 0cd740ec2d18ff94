//! Releasing claims.

use std::sync::Arc;

use lockwright_core::{Claim, ErrorKind, Reason, ReleaseMode, ReleaseOutcome, Result, Token};
use zookeeper_client as zk;

use crate::errors::{Effect, Failure, error};
use crate::paths::queue;
use crate::session::Session;
use crate::shared::Shared;

/// Releases a claim, with all its nodes.
pub(crate) async fn release(
    shared: &Arc<Shared>,
    claim: &Claim,
    release_mode: ReleaseMode,
) -> Result<ReleaseOutcome> {
    if release_mode == ReleaseMode::Reconcile {
        // No request for the claim starts from here on.
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
        // Its name contains the token, so it is no other claim's.
        let removal = session.client().delete(&node.path, None);
        if deleted(session.answer(removal).await)? {
            ended = ReleaseOutcome::Released;
        }
    }
    if node.is_none() || release_mode == ReleaseMode::Reconcile {
        // This session's earlier requests are done before that.
        match shared.remove_by_token(&session, &claim.name, claim.token).await {
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

/// Returns whether a removal removed anything.
pub(crate) fn deleted(answer: Result<(), Failure>) -> Result<bool> {
    match answer {
        Ok(()) => Ok(true),
        Err(Failure::Response(zk::Error::NoNode)) => Ok(false),
        Err(failure) => Err(failure.error(Effect::Changes)),
    }
}

/// Removes a token's nodes from a queue. Returns whether there were any.
pub(crate) async fn remove_by_token(
    session: &Arc<Session>,
    queue_path: &str,
    token: Token,
) -> Result<bool> {
    let mut any = false;
    for path in nodes(session, queue_path, token).await? {
        any |= deleted(session.answer(session.client().delete(&path, None)).await)?;
    }
    Ok(any)
}

/// Removes only this session's nodes. The caller may have acquired the same claim in another session.
pub(crate) async fn remove_of_session(
    session: &Arc<Session>,
    queue_path: &str,
    token: Token,
) -> Result<()> {
    for path in nodes(session, queue_path, token).await? {
        let stat = session.read(|| session.client().check_stat(&path)).await;
        let stat = stat.map_err(|failure| failure.error(Effect::Reads))?;
        if stat.is_some_and(|stat| stat.ephemeral_owner == session.id()) {
            deleted(session.answer(session.client().delete(&path, None)).await)?;
        }
    }
    Ok(())
}

/// Returns the nodes of a token in a queue. It includes all effects of this session's earlier requests.
async fn nodes(session: &Arc<Session>, queue_path: &str, token: Token) -> Result<Vec<String>> {
    session.prove().await?;
    let children = match session.read(|| session.client().list_children(queue_path)).await {
        Ok(children) => children,
        Err(Failure::Response(zk::Error::NoNode)) => return Ok(Vec::new()),
        Err(failure) => return Err(failure.error(Effect::Reads)),
    };
    let contenders = queue(children).into_iter().filter(|contender| contender.is_of(token));
    Ok(contenders.map(|contender| format!("{queue_path}/{}", contender.node)).collect())
}
