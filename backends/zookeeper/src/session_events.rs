use std::sync::Arc;

use lockwright_core::{Event, LockName, Reason, Token};
use zookeeper_client as zk;

use crate::session::Session;
use crate::shared::{Place, Shared};

impl Shared {
    pub(crate) fn watch(self: &Arc<Self>, session: &Arc<Session>, has_claims: bool) {
        let (owner, this) = (Arc::downgrade(self), Arc::downgrade(session));
        let mut states = session.client.state_watcher();
        self.sessions.runtime.spawn(async move {
            loop {
                let state = states.changed().await;
                let (Some(owner), Some(session)) = (owner.upgrade(), this.upgrade()) else {
                    return;
                };
                owner.session_is(&session, state);
                if state.is_terminated() {
                    return;
                }
                if has_claims {
                    owner.moved(&session, state == zk::SessionState::SyncConnected);
                }
            }
        });
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
    /// If the session is over, these stay registered, so that a repeated acquire can report a
    /// break.
    pub(crate) fn give_up(&self, session: &Arc<Session>) -> Vec<(LockName, Token, Place)> {
        self.sessions.forget(session);
        let is_over = session.is_over();
        let is_left = |place: &Place| Arc::ptr_eq(&place.session, session);
        let is_held = |place: &Place| place.is_held && !place.is_overdue;
        // In two steps, a claim granted in between would count as waiting.
        let gone = self.registry.leave_all(|place| is_left(place) && (!is_over || is_held(place)));
        let (held, mut others): (Vec<_>, Vec<_>) =
            gone.into_iter().partition(|(_, _, place)| is_held(place));
        if is_over {
            others = self.registry.all(|_, place| is_left(place));
        }
        for (_, token, _) in held {
            self.subscribers.send(&Event::Lost(token, Reason::SessionEnded));
        }
        for (name, _, _) in &others {
            self.subscribers.wake(name);
        }
        others
    }
}
