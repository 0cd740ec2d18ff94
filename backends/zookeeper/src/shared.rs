//! What the methods of a backend and its tasks share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockwright_core::kit::{Audience, Over, Roster};
use lockwright_core::{
    BootInstant, Claim, Clock, Event, Fence, LockName, Reason, Result, Token, Upkeep,
};
use zookeeper_client as zk;

use crate::checking::Doubts;
use crate::config::Config;
use crate::limits::Limits;
use crate::paths::Paths;
use crate::seen::Seen;
use crate::session::Session;
use crate::sessions::{Kind, Sessions};
use crate::watching::Watches;
use crate::{SLOW_POLL, ending};

/// How often the housekeeping looks for sessions that nobody uses, at least.
const LOOK_AROUND: Duration = Duration::from_secs(10);

/// What cannot be removed from the servers now is tried again after this time.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// How often is looked whether anything is left, once the backend has gone.
const LINGER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) paths: Paths,
    pub(crate) limits: Limits,
    pub(crate) sessions: Sessions,
    pub(crate) doubts: Doubts,
    pub(crate) roster: Arc<Roster<Place>>,
    pub(crate) over: Over,
    pub(crate) audience: Audience,
    pub(crate) watches: Watches,
    pub(crate) seen: Seen,
}

/// Where a claim stands.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) session: Arc<Session>,
    /// Its node, once that is known: until then a request for it may be on its way.
    pub(crate) node: Option<Node>,
    /// Whether it was granted.
    pub(crate) held: bool,
    /// Whether its time is over. Its node is still to be removed.
    pub(crate) over: bool,
}

/// The node of a claim.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) path: Arc<str>,
    pub(crate) fence: Fence,
}

impl Shared {
    /// Who may do what with new nodes: with a login only who has the same one.
    pub(crate) fn acls(&self) -> zk::Acls<'static> {
        match self.config.contents.login {
            Some(_) => zk::Acls::creator_all(),
            None => zk::Acls::anyone_all(),
        }
    }

    /// The session for a claim.
    pub(crate) async fn session(self: &Arc<Self>, claim: &Claim) -> Result<Arc<Session>> {
        let fixed = claim.upkeep == Upkeep::Fixed;
        self.sessions.get(self, Kind::of(claim.ttl, fixed, &self.limits)).await
    }

    /// When the servers are asked to forget a hold of this claim whose request was just answered.
    pub(crate) fn end_of_hold(&self, claim: &Claim) -> BootInstant {
        self.clock.now() + claim.ttl
    }

    /// Has a claim keep its place until then at least. False if it has none, or its time is over.
    pub(crate) fn keep(&self, claim: &Claim, end: BootInstant) -> bool {
        self.roster.extend_if(claim, end, |place| !place.over)
    }

    /// When a claim that waits, and isn't heard of any more, is taken out of the queue.
    pub(crate) fn end_of_wait(&self, claim: &Claim) -> BootInstant {
        self.clock.now() + claim.ttl.max(SLOW_POLL * 5)
    }

    /// The state of a session has changed.
    pub(crate) fn session_is(&self, session: &Arc<Session>, state: zk::SessionState) {
        if state.is_terminated() {
            tracing::debug!(?session, "a session ended");
            self.give_up(session);
        } else if state == zk::SessionState::Disconnected {
            let is_held = |place: &Place| Arc::ptr_eq(&place.session, session) && place.held;
            for (_, token, _) in self.roster.all(|_, place| is_held(place)) {
                self.audience.send(&Event::AtRisk(token));
            }
        }
    }

    /// Nobody has a place in this session any more. Answers who had one and held nothing.
    pub(crate) fn give_up(&self, session: &Arc<Session>) -> Vec<(LockName, Token, Place)> {
        self.sessions.forget(session);
        let places = self.roster.leave_all(|place| Arc::ptr_eq(&place.session, session));
        let is_held = |(_, _, place): &(_, _, Place)| place.held && !place.over;
        let (held, others): (Vec<_>, Vec<_>) = places.into_iter().partition(is_held);
        for (_, token, _) in held {
            self.audience.send(&Event::Lost(token, Reason::SessionEnded));
        }
        for (name, _, _) in &others {
            self.audience.wake(name);
        }
        others
    }

    /// Removes what nobody renews, and closes sessions that nobody uses, for as long as the backend
    /// lives.
    pub(crate) async fn keep_house(this: Weak<Self>, roster: Arc<Roster<Place>>, idle: Duration) {
        loop {
            tokio::select! {
                () = roster.until_overdue() => {}
                () = tokio::time::sleep(idle.clamp(TRY_AGAIN, LOOK_AROUND)) => {}
            }
            let Some(this) = this.upgrade() else { return };
            this.remove_overdue();
            this.sessions.close_idle(idle, |session| {
                roster.any(|_, _, place| Arc::ptr_eq(&place.session, session))
            });
        }
    }

    /// Keeps what is held until its time is over, though the backend has gone. A hold ends by its
    /// release or its TTL, and not because a value was dropped.
    pub(crate) async fn outlive(self: Arc<Self>) {
        self.remove(self.roster.leave_all(|place| !place.held));
        while self.roster.any(|_, _, _| true) {
            tokio::select! {
                () = self.roster.until_overdue() => {}
                // What is being removed has no end.
                () = tokio::time::sleep(LINGER) => {}
            }
            self.remove_overdue();
        }
    }

    /// Whose time is over has no hold from here on, and keeps its place until its node is gone: who
    /// asks for it again meanwhile is told so, and isn't granted what is about to be removed.
    fn remove_overdue(self: &Arc<Self>) {
        self.remove(self.roster.mark_overdue(|place| place.over = true));
    }

    /// Removes them, those of one session without waiting for another's.
    pub(crate) fn remove(self: &Arc<Self>, overdue: Vec<(LockName, Token, Place)>) {
        let mut sessions: HashMap<i64, Vec<_>> = HashMap::new();
        for (name, token, place) in overdue {
            sessions.entry(place.session.id()).or_default().push((name, token, place));
        }
        for places in sessions.into_values() {
            self.sessions.runtime.spawn(Arc::clone(self).remove_all(places));
        }
    }

    /// Removes the nodes of these, and tries again until they are gone or their session is.
    async fn remove_all(self: Arc<Self>, mut overdue: Vec<(LockName, Token, Place)>) {
        while !overdue.is_empty() {
            // All are asked for before the first answer is waited for.
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
                    Some(removal) => ending::deleted(place.session.answer(removal).await).is_ok(),
                    None => {
                        let queue = self.paths.queue(&name);
                        ending::remove_of_session(&place.session, &queue, token).await.is_ok()
                    }
                };
                if gone || place.session.is_over() {
                    self.roster.leave_if(&name, token, |place| place.over);
                } else {
                    left.push((name, token, place));
                }
            }
            overdue = left;
            if !overdue.is_empty() {
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
    }

    /// Removes whatever stands in the queue of `name` for `token`, and says whether anything did.
    pub(crate) async fn remove_by_token(
        &self,
        session: &Arc<Session>,
        name: &LockName,
        token: Token,
    ) -> Result<bool> {
        ending::remove_by_token(session, &self.paths.queue(name), token).await
    }
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::kit::{self, claim};
    use lockwright_core::{DistributedLock, Renew, RenewalOutcome};
    use lockwright_testbed as testbed;

    use super::*;
    use crate::ZooKeeper;

    /// Its first request was unanswered when its session was given up, and it asked again meanwhile.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_removed_of_a_session_is_not_what_another_holds_on_zookeeper() {
        let server = testbed::ZooKeeper::options().members(1).start().unwrap();
        let zookeeper = ZooKeeper::connect(&server.url()).await.unwrap();
        let shared = &zookeeper.shared;
        let claim = claim("x");
        let first = shared.session(&claim).await.unwrap();
        shared.sessions.forget(&first);
        kit::grant(&zookeeper, &claim).await;
        let session = shared.roster.place(&claim).unwrap().session;
        assert_ne!(session.id(), first.id());
        let place = Place { session: first, node: None, held: false, over: false };
        Arc::clone(shared).remove_all(vec![(claim.name.clone(), claim.token, place)]).await;
        let renewed = zookeeper.renew(&[Renew::of(&claim)]).await.unwrap();
        assert!(matches!(renewed[0].outcome, RenewalOutcome::Renewed { .. }), "{renewed:?}");

        // Its own goes.
        let place = Place { session, node: None, held: false, over: false };
        Arc::clone(shared).remove_all(vec![(claim.name.clone(), claim.token, place)]).await;
        assert!(zookeeper.inspect(&claim.name).await.unwrap().holders.is_empty());
    }
}
