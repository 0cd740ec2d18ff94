use std::sync::Arc;

use lockwright_core::{Event, LockName, Reason, Token};
use zookeeper_client as zk;

use crate::session::Session;
use crate::shared::{Place, Shared};

impl Shared {
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
    /// After the session's end, these stay registered until they ask again, because an operator may
    /// have broken them.
    pub(crate) fn give_up(&self, session: &Arc<Session>) -> Vec<(LockName, Token, Place)> {
        self.sessions.forget(session);
        let is_left = |place: &Place| Arc::ptr_eq(&place.session, session);
        let is_held = |place: &Place| is_left(place) && place.is_held && !place.is_overdue;
        for (_, token, _) in self.registry.leave_all(is_held) {
            self.subscribers.send(&Event::Lost(token, Reason::SessionEnded));
        }
        let others = match session.is_over() {
            true => self.registry.all(|_, place| is_left(place)),
            false => self.registry.leave_all(is_left),
        };
        for (name, _, _) in &others {
            self.subscribers.wake(name);
        }
        others
    }
}
