use std::collections::HashMap;
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
                // A claim that is being removed has no deadline, so check again later.
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

    /// Removes the claims' nodes, in one task per session, so that no session delays another.
    pub(crate) fn remove(self: &Arc<Self>, overdue: Vec<(LockName, Token, Place)>) {
        let mut sessions: HashMap<i64, Vec<_>> = HashMap::new();
        for (name, token, place) in overdue {
            sessions.entry(place.session.id()).or_default().push((name, token, place));
        }
        for places in sessions.into_values() {
            self.sessions.runtime.spawn(Arc::clone(self).remove_all(places));
        }
    }

    async fn remove_all(self: Arc<Self>, mut overdue: Vec<(LockName, Token, Place)>) {
        while !overdue.is_empty() {
            let removing: Vec<_> = overdue
                .into_iter()
                .map(|(name, token, place)| {
                    let client = &place.session.client;
                    let removal = place.node.as_ref().map(|node| client.delete(&node.path, None));
                    (name, token, place, removal)
                })
                .collect();
            let mut left = Vec::new();
            for (name, token, place, removal) in removing {
                let gone = match removal {
                    Some(removal) => deleted(place.session.answer(removal).await).is_ok(),
                    None => {
                        let queue = self.paths.queue(&name);
                        remove_of_session(&place.session, &queue, token).await.is_ok()
                    }
                };
                if gone || place.session.is_over() {
                    self.registry.leave_if(&name, token, |place| place.is_overdue);
                } else {
                    left.push((name, token, place));
                }
            }
            overdue = left;
            if !overdue.is_empty() {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
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

/// Removes an overdue claim's nodes of this session. Nodes of other sessions stay, because the
/// caller may have acquired the claim again in another session.
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
        Arc::clone(shared).remove_all(vec![(claim.name.clone(), claim.token, place)]).await;
        let renewed = zookeeper.renew(&[Renew::of(&claim)]).await.unwrap();
        assert!(matches!(renewed[0].outcome, RenewalOutcome::Renewed { .. }), "{renewed:?}");

        let place = Place::new(&session);
        Arc::clone(shared).remove_all(vec![(claim.name.clone(), claim.token, place)]).await;
        assert!(zookeeper.inspect(&claim.name).await.unwrap().holders.is_empty());
    }
}
