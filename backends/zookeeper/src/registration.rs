use lockwright_core::{Claim, Error, ErrorKind, Reason, Result};

use crate::errors::error;
use crate::notes;
use crate::session::Session;
use crate::shared::{Place, Shared};

/// Makes a registered claim's error indeterminate, because the claim may have a node.
pub(crate) fn maybe_indeterminate(shared: &Shared, claim: &Claim, cause: Error) -> Error {
    let is_explicit = matches!(cause.kind(), ErrorKind::Indeterminate | ErrorKind::Lost(_));
    if is_explicit || shared.registry.place(claim).is_none() {
        return cause;
    }
    let what = format!("{}; a node of the claim may be in the queue", cause.message());
    error(ErrorKind::Indeterminate, what).with_source(cause)
}

/// Returns the claim's place. If the session is over, only a waiting claim still has one.
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

pub(crate) async fn refuse_broken(shared: &Shared, session: &Session, claim: &Claim) -> Result<()> {
    let reason = notes::why_gone(shared, session, &claim.name, claim.token).await?;
    if reason != Reason::Broken {
        return Ok(());
    }
    shared.ended_claims.set(claim, reason);
    shared.registry.leave(claim);
    Err(lost(reason))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use lockwright_conformance::test_helpers::claim;
    use lockwright_core::{Fence, Wait};
    use lockwright_testbed as testbed;

    use super::*;
    use crate::ZooKeeper;
    use crate::acquire::Acquire;
    use crate::shared::Node;

    #[tokio::test]
    async fn overdue_claim_is_not_registered_on_zookeeper() {
        let server = testbed::ZooKeeper::options().members(1).start().unwrap();
        let zookeeper = ZooKeeper::connect(&server.url()).await.unwrap();
        let shared = &zookeeper.shared;
        let session = shared.sessions.for_reads(shared).await.unwrap();
        let own = Node::new("/lockwright/x/_c_-lock-0000000000", Fence::new(7));
        let (begun, wait) = (shared.clock.now(), Wait::No);
        for is_removed in [false, true] {
            for is_held in [false, true] {
                let claim = &claim("x");
                if !is_removed {
                    let place = Place { is_overdue: true, ..Place::new(&session) };
                    shared.registry.enter(claim, place, begun + Duration::from_secs(60));
                }
                let (session, queue_path) = (Arc::clone(&session), String::new());
                let acquire = Acquire { shared, claim, wait, begun, session, queue_path };
                let error = acquire.note(&own, is_held).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Lost(Reason::Expired), "{error}");
                let place = shared.registry.place(claim);
                assert!(place.is_none_or(|place| place.is_overdue && !place.is_held));
                let again = registered_place(shared, claim).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::Lost(Reason::Expired), "{again}");
            }
        }
    }
}
