use std::sync::{Arc, Weak};
use std::time::Duration;

use lockwright_core::backend_util::ClaimRegistry;
use lockwright_core::{LockName, Result, Token};

use crate::errors::{Effect, Failure, if_present};
use crate::queue::queue;
use crate::session::Session;
use crate::shared::{Place, Shared};

const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(10);

const RETRY_PAUSE: Duration = Duration::from_millis(200);

const LINGER: Duration = Duration::from_secs(1);

impl Shared {
    pub(crate) async fn run_housekeeping(
        this: Weak<Self>,
        registry: Arc<ClaimRegistry<Place>>,
        idle: Duration,
    ) {
        loop {
            tokio::select! {
                () = registry.until_overdue() => {}
                () = tokio::time::sleep(idle.clamp(RETRY_PAUSE, HOUSEKEEPING_INTERVAL)) => {}
            }
            let Some(this) = this.upgrade() else { return };
            this.remove_overdue();
            this.sessions.close_idle(idle, |session| {
                registry.any(|_, _, place| Arc::ptr_eq(&place.session, session))
            });
        }
    }

    /// Removes claims after the backend was dropped: waiting ones at once, and holds after their
    /// TTL.
    pub(crate) async fn outlive(self: Arc<Self>) {
        self.remove(self.registry.leave_all(|place| !place.is_held));
        while self.registry.any(|_, _, _| true) {
            tokio::select! {
                () = self.registry.until_overdue() => {}
                // A claim that is being removed has no deadline.
                () = tokio::time::sleep(LINGER) => {}
            }
            self.remove_overdue();
        }
    }

    /// Removes overdue claims. They stay registered until their nodes are gone, so that a repeated
    /// acquire is rejected instead of granted.
    fn remove_overdue(self: &Arc<Self>) {
        self.remove(self.registry.mark_overdue(|place| place.is_overdue = true));
    }

    /// Removes the claims' nodes, in one task per claim, so that none delays another.
    pub(crate) fn remove(self: &Arc<Self>, overdue: Vec<(LockName, Token, Place)>) {
        for (name, token, place) in overdue {
            self.sessions.runtime.spawn(Arc::clone(self).remove_claim(name, token, place));
        }
    }

    async fn remove_claim(self: Arc<Self>, name: LockName, token: Token, place: Place) {
        let session = &place.session;
        while !session.is_over() {
            let removed = match &place.node {
                Some(node) => {
                    // No time limit: after an outage, the client library still sends each request,
                    // so a retry would only add a second deletion.
                    let removal = session.client.delete(&node.path, None).await;
                    deleted(removal.map_err(Failure::Response)).map(drop)
                }
                None => remove_of_session(session, &self.paths.queue(&name), token).await,
            };
            if removed.is_ok() {
                break;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        self.registry.leave_if(&name, token, |place| place.is_overdue);
    }
}

pub(crate) fn deleted(answer: Result<(), Failure>) -> Result<bool> {
    Ok(if_present(answer, Effect::Changes)?.is_some())
}

pub(crate) async fn remove_by_token(
    session: &Arc<Session>,
    queue_path: &str,
    token: Token,
) -> Result<bool> {
    let mut any = false;
    for path in nodes(session, queue_path, token).await? {
        any |= deleted(session.answer(session.client.delete(&path, None)).await)?;
    }
    Ok(any)
}

/// Removes an overdue claim's nodes of this session. Others stay: the caller may have acquired the
/// claim again in another session.
async fn remove_of_session(session: &Arc<Session>, queue_path: &str, token: Token) -> Result<()> {
    for path in nodes(session, queue_path, token).await? {
        let stat = session.read(|| session.client.check_stat(&path)).await;
        let stat = stat.map_err(|failure| failure.error(Effect::Reads))?;
        if stat.is_some_and(|stat| stat.ephemeral_owner == session.id()) {
            deleted(session.answer(session.client.delete(&path, None)).await)?;
        }
    }
    Ok(())
}

/// Returns the token's nodes, after this session's earlier requests have taken effect.
async fn nodes(session: &Arc<Session>, queue_path: &str, token: Token) -> Result<Vec<String>> {
    session.prove().await?;
    let children = session.read(|| session.client.list_children(queue_path)).await;
    let children = if_present(children, Effect::Reads)?.unwrap_or_default();
    let contenders = queue(children).into_iter().filter(|contender| contender.is_of(token));
    Ok(contenders.map(|contender| format!("{queue_path}/{}", contender.node)).collect())
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers::{self, claim};
    use lockwright_core::{DistributedLock, Renew, RenewalOutcome};
    use lockwright_testbed as testbed;

    use super::*;
    use crate::ZooKeeper;

    #[tokio::test(flavor = "multi_thread")]
    async fn removal_in_one_session_keeps_holds_of_another_on_zookeeper() {
        let server = testbed::ZooKeeper::options().members(1).start().unwrap();
        let zookeeper = ZooKeeper::connect(&server.url()).await.unwrap();
        let shared = &zookeeper.shared;
        let claim = claim("x");
        let first = shared.session(&claim).await.unwrap();
        shared.sessions.forget(&first);
        test_helpers::grant(&zookeeper, &claim).await;
        let session = shared.registry.place(&claim).unwrap().session;
        assert_ne!(session.id(), first.id());
        let place = Place::new(&first);
        Arc::clone(shared).remove_claim(claim.name.clone(), claim.token, place).await;
        let renewed = zookeeper.renew(&[Renew::of(&claim)]).await.unwrap();
        assert!(matches!(renewed[0].outcome, RenewalOutcome::Renewed { .. }), "{renewed:?}");

        let place = Place::new(&session);
        Arc::clone(shared).remove_claim(claim.name.clone(), claim.token, place).await;
        assert!(zookeeper.inspect(&claim.name).await.unwrap().holders.is_empty());
    }
}
