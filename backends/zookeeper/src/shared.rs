use std::sync::Arc;

use lockwright_core::backend_util::{ClaimRegistry, EndedClaims, Subscribers};
use lockwright_core::{BootInstant, Claim, Clock, Event, Fence, LockName, Reason, Token};
use zookeeper_client as zk;

use crate::config::Config;
use crate::hold_watch::HoldWatch;
use crate::limits::Limits;
use crate::paths::Paths;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::suspect_sessions::SuspectSessions;
use crate::watches::{SLOW_POLL, Watches};
use crate::zxid_watermark::ZxidWatermark;

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
    /// `None` while a request for the node may be in flight.
    pub(crate) node: Option<Node>,
    pub(crate) is_held: bool,
    pub(crate) is_overdue: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) path: Arc<str>,
    pub(crate) fence: Fence,
    pub(crate) watch: Arc<HoldWatch>,
}

impl Node {
    pub(crate) fn new(path: impl Into<Arc<str>>, fence: Fence) -> Self {
        Self { path: path.into(), fence, watch: Arc::default() }
    }
}

impl Shared {
    pub(crate) fn acls(&self) -> zk::Acls<'static> {
        match self.config.contents.login {
            Some(_) => zk::Acls::creator_all(),
            None => zk::Acls::anyone_all(),
        }
    }

    /// Returns the length of the path with the chroot.
    pub(crate) fn full_length(&self, path: &str) -> usize {
        self.config.contents.chroot.len() + path.len()
    }

    pub(crate) fn end_of_hold(&self, claim: &Claim) -> BootInstant {
        self.clock.now() + claim.ttl
    }

    /// Extends the claim's registration. Returns false if it isn't registered or is overdue.
    pub(crate) fn keep(&self, claim: &Claim, end: BootInstant) -> bool {
        self.registry.extend_if(claim, end, |place| !place.is_overdue)
    }

    pub(crate) fn end_of_wait(&self, claim: &Claim) -> BootInstant {
        self.clock.now() + claim.ttl.max(SLOW_POLL * 2)
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

    /// Gives up the session's claims, and reports lost holds. Returns the claims that weren't held.
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
}
