//! State that the methods and the tasks of a backend share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockwright_core::backend_util::{ClaimRegistry, EndedClaims, Subscribers};
use lockwright_core::{
    BootInstant, Claim, Clock, Event, Fence, LockName, Reason, RenewalMode, Result, Token,
};
use zookeeper_client as zk;

use crate::config::Config;
use crate::limits::Limits;
use crate::paths::Paths;
use crate::session::Session;
use crate::sessions::{Kind, Sessions};
use crate::suspect_sessions::SuspectSessions;
use crate::wakeup::Watches;
use crate::zxid_watermark::ZxidWatermark;
use crate::{SLOW_POLL, release};

/// The longest interval between searches for unused sessions.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(10);

/// The pause before a failed removal is retried.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The interval of checks for remaining claims after the backend was dropped.
const LINGER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) paths: Paths,
    pub(crate) limits: Limits,
    pub(crate) sessions: Sessions,
    pub(crate) suspects: SuspectSessions,
    pub(crate) registry: Arc<ClaimRegistry<Place>>,
    pub(crate) ended_claims: EndedClaims,
    pub(crate) subscribers: Subscribers,
    pub(crate) watches: Watches,
    pub(crate) zxid_watermark: ZxidWatermark,
}

#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) session: Arc<Session>,
    /// Its node, once known. Until then a request for it may be in flight.
    pub(crate) node: Option<Node>,
    pub(crate) is_held: bool,
    /// The claim is overdue, and its node still to be removed.
    pub(crate) is_overdue: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) path: Arc<str>,
    pub(crate) fence: Fence,
}

impl Shared {
    /// Returns the permissions of new nodes: with a login, only for that login.
    pub(crate) fn acls(&self) -> zk::Acls<'static> {
        match self.config.contents.login {
            Some(_) => zk::Acls::creator_all(),
            None => zk::Acls::anyone_all(),
        }
    }

    pub(crate) async fn session(self: &Arc<Self>, claim: &Claim) -> Result<Arc<Session>> {
        let fixed = claim.renewal_mode == RenewalMode::Off;
        self.sessions.get(self, Kind::of(claim.ttl, fixed, &self.limits)).await
    }

    pub(crate) fn end_of_hold(&self, claim: &Claim) -> BootInstant {
        self.clock.now() + claim.ttl
    }

    /// Returns false if the claim has no place, or is overdue.
    pub(crate) fn keep(&self, claim: &Claim, end: BootInstant) -> bool {
        self.registry.extend_if(claim, end, |place| !place.is_overdue)
    }

    /// Returns when a waiting claim that isn't repeated leaves the queue.
    pub(crate) fn end_of_wait(&self, claim: &Claim) -> BootInstant {
        self.clock.now() + claim.ttl.max(SLOW_POLL * 5)
    }

    pub(crate) fn session_is(&self, session: &Arc<Session>, state: zk::SessionState) {
        if state.is_terminated() {
            tracing::debug!(?session, "a session ended");
            self.give_up(session);
        } else if state == zk::SessionState::Disconnected {
            let is_held = |place: &Place| Arc::ptr_eq(&place.session, session) && place.is_held;
            for (_, token, _) in self.registry.all(|_, place| is_held(place)) {
                self.subscribers.send(&Event::AtRisk(token));
            }
        }
    }

    /// Removes all claims of this session from the registry. Returns those that held nothing.
    pub(crate) fn give_up(&self, session: &Arc<Session>) -> Vec<(LockName, Token, Place)> {
        self.sessions.forget(session);
        let places = self.registry.leave_all(|place| Arc::ptr_eq(&place.session, session));
        let is_held = |(_, _, place): &(_, _, Place)| place.is_held && !place.is_overdue;
        let (held, others): (Vec<_>, Vec<_>) = places.into_iter().partition(is_held);
        for (_, token, _) in held {
            self.subscribers.send(&Event::Lost(token, Reason::SessionEnded));
        }
        for (name, _, _) in &others {
            self.subscribers.wake(name);
        }
        others
    }

    /// Removes overdue claims and closes unused sessions, as long as the backend lives.
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

    /// Keeps holds until they are overdue, after the backend was dropped. A hold ends by release or TTL only.
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

    /// Removes overdue claims. Each stays registered until its node is gone, so that a repeated acquire is rejected
    /// instead of granted.
    fn remove_overdue(self: &Arc<Self>) {
        self.remove(self.registry.mark_overdue(|place| place.is_overdue = true));
    }

    /// Removes each session's claims in parallel to other sessions'.
    pub(crate) fn remove(self: &Arc<Self>, overdue: Vec<(LockName, Token, Place)>) {
        let mut sessions: HashMap<i64, Vec<_>> = HashMap::new();
        for (name, token, place) in overdue {
            sessions.entry(place.session.id()).or_default().push((name, token, place));
        }
        for places in sessions.into_values() {
            self.sessions.runtime.spawn(Arc::clone(self).remove_all(places));
        }
    }

    /// Removes the nodes of claims, with retries until the nodes or their session are gone.
    async fn remove_all(self: Arc<Self>, mut overdue: Vec<(LockName, Token, Place)>) {
        while !overdue.is_empty() {
            // All requests are sent before the first response is awaited.
            let removing: Vec<_> = overdue
                .into_iter()
                .map(|(name, token, place)| {
                    let client = place.session.client();
                    let removal = place.node.as_ref().map(|node| client.delete(&node.path, None));
                    (name, token, place, removal)
                })
                .collect();
            let mut left = Vec::new();
            for (name, token, place, removal) in removing {
                let gone = match removal {
                    Some(removal) => release::deleted(place.session.answer(removal).await).is_ok(),
                    None => {
                        let queue = self.paths.queue(&name);
                        release::remove_of_session(&place.session, &queue, token).await.is_ok()
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

    pub(crate) async fn remove_by_token(
        &self,
        session: &Arc<Session>,
        name: &LockName,
        token: Token,
    ) -> Result<bool> {
        release::remove_by_token(session, &self.paths.queue(name), token).await
    }
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers::{self, claim};
    use lockwright_core::{DistributedLock, Renew, RenewalOutcome};
    use lockwright_testbed as testbed;

    use super::*;
    use crate::ZooKeeper;

    /// The session was given up with a request unanswered, and the claim was acquired again in between.
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
        let place = Place { session: first, node: None, is_held: false, is_overdue: false };
        Arc::clone(shared).remove_all(vec![(claim.name.clone(), claim.token, place)]).await;
        let renewed = zookeeper.renew(&[Renew::of(&claim)]).await.unwrap();
        assert!(matches!(renewed[0].outcome, RenewalOutcome::Renewed { .. }), "{renewed:?}");

        // The claim's own node is removed.
        let place = Place { session, node: None, is_held: false, is_overdue: false };
        Arc::clone(shared).remove_all(vec![(claim.name.clone(), claim.token, place)]).await;
        assert!(zookeeper.inspect(&claim.name).await.unwrap().holders.is_empty());
    }
}
