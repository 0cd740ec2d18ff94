use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{AcquireOutcome, Busy, Claim, Error, ErrorKind, Reason, Result};

use crate::errors::error;
use crate::notes;
use crate::session::Session;
use crate::shared::{Node, Place, Shared};

/// Makes the error of a registered claim indeterminate, because the claim may have a node.
pub(crate) fn maybe_indeterminate(shared: &Shared, claim: &Claim, cause: Error) -> Error {
    let is_explicit = matches!(cause.kind(), ErrorKind::Indeterminate | ErrorKind::Lost(_));
    if is_explicit || shared.registry.place(claim).is_none() {
        return cause;
    }
    let what = format!("{}; a node of the claim may be in the queue", cause.message());
    error(ErrorKind::Indeterminate, what).with_source(cause)
}

/// Returns the claim's place. The session of a waiting claim may be over.
pub(crate) fn registered_place(shared: &Shared, claim: &Claim) -> Result<Option<Place>> {
    if let Some(reason) = shared.ended_claims.reason(claim) {
        return Err(lost(reason));
    }
    let Some(place) = shared.registry.place(claim) else { return Ok(None) };
    if place.is_overdue {
        return Err(expired(shared, claim));
    }
    if !place.is_held && !shared.keep(claim, shared.end_of_wait(claim)) {
        return Err(expired(shared, claim));
    }
    if place.is_held && place.session.is_over() {
        shared.registry.leave(claim);
        return Err(lost(Reason::SessionEnded));
    }
    Ok(Some(place))
}

pub(crate) fn expired(shared: &Shared, claim: &Claim) -> Error {
    shared.ended_claims.set(claim, Reason::Expired);
    lost(Reason::Expired)
}

pub(crate) fn lost(reason: Reason) -> Error {
    error(ErrorKind::Lost(reason), format!("{reason}; acquire the lock again"))
}

/// Ends the claim, whose node is gone, if an operator freed it at once.
pub(crate) async fn refuse_broken(shared: &Shared, session: &Session, claim: &Claim) -> Result<()> {
    let reason = notes::why_gone(shared, session, &claim.name, claim.token).await?;
    if reason != Reason::Broken {
        return Ok(());
    }
    shared.ended_claims.set(claim, reason);
    shared.registry.leave(claim);
    Err(lost(reason))
}

pub(crate) async fn vanished(
    shared: &Shared,
    session: &Session,
    claim: &Claim,
    is_held: bool,
) -> Result<AcquireOutcome> {
    refuse_broken(shared, session, claim).await?;
    if shared.registry.place(claim).is_some_and(|place| place.is_overdue) {
        return Err(expired(shared, claim));
    }
    shared.registry.leave(claim);
    match is_held {
        true => Err(lost(Reason::Gone)),
        false => {
            Ok(AcquireOutcome::Busy(Busy { retry_after: Some(Duration::ZERO), ..Busy::default() }))
        }
    }
}

/// Registers the claim's node. Returns an error if the claim became overdue during the request.
pub(crate) fn note(
    shared: &Shared,
    claim: &Claim,
    session: &Arc<Session>,
    own: &Node,
    is_held: bool,
) -> Result<()> {
    shared.zxid_watermark.note(own.fence);
    let end = if is_held { shared.end_of_hold(claim) } else { shared.end_of_wait(claim) };
    match shared.registry.leave(claim) {
        Some(place) if !place.is_overdue => {
            let place =
                Place { node: Some(own.clone()), is_held: place.is_held || is_held, ..place };
            shared.registry.enter(claim, place, end);
            Ok(())
        }
        None if session.is_over() => Err(lost(Reason::SessionEnded)),
        // An earlier removal may have missed this node, so remove it now.
        _ => {
            let (session, node) = (Arc::clone(session), Some(own.clone()));
            let place = Place { session, node, is_held: false, is_overdue: true };
            shared.registry.enter(claim, place, shared.clock.now());
            Err(expired(shared, claim))
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers::claim;
    use lockwright_core::Fence;
    use lockwright_testbed as testbed;

    use super::*;
    use crate::ZooKeeper;

    #[tokio::test]
    async fn overdue_claim_is_not_registered_on_zookeeper() {
        let server = testbed::ZooKeeper::options().members(1).start().unwrap();
        let zookeeper = ZooKeeper::connect(&server.url()).await.unwrap();
        let shared = &*zookeeper.shared;
        let session = zookeeper.shared.sessions.for_reads(&zookeeper.shared).await.unwrap();
        let own = Node::new("/lockwright/x/_c_-lock-0000000000", Fence::new(7));
        let end = shared.clock.now() + Duration::from_secs(60);
        for is_removed in [false, true] {
            for is_held in [false, true] {
                let claim = claim("x");
                let place = Place {
                    session: Arc::clone(&session),
                    node: None,
                    is_held: false,
                    is_overdue: true,
                };
                if !is_removed {
                    shared.registry.enter(&claim, place, end);
                }
                let error = note(shared, &claim, &session, &own, is_held).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Lost(Reason::Expired), "{error}");
                assert!(
                    shared
                        .registry
                        .place(&claim)
                        .is_none_or(|place| place.is_overdue && !place.is_held)
                );
                let again = registered_place(shared, &claim).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::Lost(Reason::Expired), "{again}");
            }
        }
    }
}
