//! The registered place of a claim.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{AcquireOutcome, Busy, Claim, Error, ErrorKind, Reason, Result};

use crate::errors::error;
use crate::session::Session;
use crate::shared::{Node, Place, Shared};

/// Makes an error indeterminate if the claim still has a place, and so possibly a node.
pub(crate) fn unsettled(shared: &Shared, claim: &Claim, cause: Error) -> Error {
    let says_so = matches!(cause.kind(), ErrorKind::Indeterminate | ErrorKind::Lost(_));
    if says_so || shared.roster.place(claim).is_none() {
        return cause;
    }
    let what = format!("{}; a node of it may stand in the queue", cause.message());
    error(ErrorKind::Indeterminate, what).with_source(cause)
}

pub(crate) fn standing(shared: &Shared, claim: &Claim) -> Result<Option<Place>> {
    if let Some(reason) = shared.over.reason(claim) {
        return Err(lost(reason));
    }
    let Some(place) = shared.roster.place(claim) else { return Ok(None) };
    if place.over {
        return Err(expired(shared, claim));
    }
    if !place.session.is_over() {
        // A repeated acquire extends the time in the queue.
        if !place.held && !shared.keep(claim, shared.end_of_wait(claim)) {
            return Err(expired(shared, claim));
        }
        return Ok(Some(place));
    }
    shared.roster.leave(claim);
    if place.held { Err(lost(Reason::SessionEnded)) } else { Ok(None) }
}

/// Returns the error for an overdue claim, now and for later calls.
pub(crate) fn expired(shared: &Shared, claim: &Claim) -> Error {
    shared.over.set(claim, Reason::Expired);
    lost(Reason::Expired)
}

pub(crate) fn lost(reason: Reason) -> Error {
    error(
        ErrorKind::Lost(reason),
        format!("{reason}, and its token is not granted again; ask with a new token"),
    )
}

/// Handles the removal of a claim's node by another client.
pub(crate) fn vanished(shared: &Shared, claim: &Claim, held: bool) -> Result<AcquireOutcome> {
    if shared.roster.place(claim).is_some_and(|place| place.over) {
        return Err(expired(shared, claim));
    }
    shared.roster.leave(claim);
    match held {
        true => Err(lost(Reason::Gone)),
        // It queues again at the end.
        false => {
            Ok(AcquireOutcome::Busy(Busy { retry_after: Some(Duration::ZERO), ..Busy::default() }))
        }
    }
}

/// Registers the node of a claim. If the claim became overdue during the request, its node is being removed, and the
/// result is an error.
pub(crate) fn note(
    shared: &Shared,
    claim: &Claim,
    session: &Arc<Session>,
    own: &Node,
    held: bool,
) -> Result<()> {
    shared.seen.note(own.fence);
    let end = match held {
        true => shared.end_of_hold(claim),
        false => shared.end_of_wait(claim),
    };
    let place = shared.roster.leave(claim);
    match place {
        Some(place) if !place.over => {
            let place = Place { node: Some(own.clone()), held: place.held || held, ..place };
            shared.roster.enter(claim, place, end);
            Ok(())
        }
        None if session.is_over() => Err(lost(Reason::SessionEnded)),
        // An earlier removal may have missed this node: remove it at once.
        _ => {
            let (session, node) = (Arc::clone(session), Some(own.clone()));
            let place = Place { session, node, held: false, over: true };
            shared.roster.enter(claim, place, shared.clock.now());
            Err(expired(shared, claim))
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::kit::claim;
    use lockwright_core::Fence;
    use lockwright_testbed as testbed;

    use super::*;
    use crate::ZooKeeper;

    /// The claim became overdue during the request. Its removal is in progress or done.
    #[tokio::test]
    async fn nothing_is_noted_of_what_is_over_on_zookeeper() {
        let server = testbed::ZooKeeper::options().members(1).start().unwrap();
        let zookeeper = ZooKeeper::connect(&server.url()).await.unwrap();
        let shared = &*zookeeper.shared;
        let session = zookeeper.shared.sessions.for_looks(&zookeeper.shared).await.unwrap();
        let own = Node { path: "/lockwright/x/_c_-lock-0000000000".into(), fence: Fence::new(7) };
        let end = shared.clock.now() + Duration::from_secs(60);
        for is_removed in [false, true] {
            for held in [false, true] {
                let claim = claim("x");
                let place =
                    Place { session: Arc::clone(&session), node: None, held: false, over: true };
                if !is_removed {
                    shared.roster.enter(&claim, place, end);
                }
                let told = note(shared, &claim, &session, &own, held).unwrap_err();
                assert_eq!(told.kind(), ErrorKind::Lost(Reason::Expired), "{told}");
                assert!(shared.roster.place(&claim).is_none_or(|place| place.over && !place.held));
                let again = standing(shared, &claim).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::Lost(Reason::Expired), "{again}");
            }
        }
    }
}
