//! Taking claims out of their queues.

use std::sync::Arc;

use lockwright_core::{Claim, Ended, ErrorKind, Reason, Result, Settle, Token};
use zookeeper_client as zk;

use crate::errors::{Effect, Failure, error};
use crate::paths::queue;
use crate::session::Session;
use crate::shared::Shared;

/// Ends whatever there is of a claim.
pub(crate) async fn end(shared: &Arc<Shared>, claim: &Claim, settle: Settle) -> Result<Ended> {
    if settle == Settle::Unanswered {
        // From here on no request for it is begun any more.
        shared.over.set(claim, Reason::Gone);
    }
    let place = shared.roster.place(claim);
    let session = match place.as_ref().filter(|place| !place.session.is_over()) {
        Some(place) => Arc::clone(&place.session),
        None => shared.session(claim).await?,
    };
    let mut ended = Ended::NotHeld;
    let node = place.and_then(|place| place.node);
    if let Some(node) = &node {
        // Its token stands in its name, so this is nobody else's.
        let removal = session.client().delete(&node.path, None);
        if deleted(session.answer(removal).await)? {
            ended = Ended::Released;
        }
    }
    if node.is_none() || settle == Settle::Unanswered {
        // Whatever this session was asked for before is done by then.
        match shared.remove_by_token(&session, &claim.name, claim.token).await {
            Ok(true) => ended = Ended::Released,
            Ok(false) => {}
            Err(cause) if ended == Ended::NotHeld => return Err(cause),
            Err(cause) => {
                let half_done = "it was released, and whether anything is left isn't known";
                return Err(error(ErrorKind::Indeterminate, half_done).with_source(cause));
            }
        }
    }
    shared.roster.leave(claim);
    Ok(ended)
}

/// Whether a removal removed something.
pub(crate) fn deleted(answer: Result<(), Failure>) -> Result<bool> {
    match answer {
        Ok(()) => Ok(true),
        Err(Failure::Said(zk::Error::NoNode)) => Ok(false),
        Err(failure) => Err(failure.error(Effect::Changes)),
    }
}

/// Removes the nodes of a token from a queue, and says whether there were any.
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

/// Removes those that end with this session. Whoever has the claim may ask for it anew, and be granted it
/// in another, once this one is given up.
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

/// The nodes of a token in a queue. Whatever this session was asked for before is among them or was
/// refused.
async fn nodes(session: &Arc<Session>, queue_path: &str, token: Token) -> Result<Vec<String>> {
    session.prove().await?;
    let children = match session.read(|| session.client().list_children(queue_path)).await {
        Ok(children) => children,
        Err(Failure::Said(zk::Error::NoNode)) => return Ok(Vec::new()),
        Err(failure) => return Err(failure.error(Effect::Reads)),
    };
    let contenders = queue(children).into_iter().filter(|contender| contender.is_of(token));
    Ok(contenders.map(|contender| format!("{queue_path}/{}", contender.node)).collect())
}
