use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::BootInstant;
use lockwright_core::backend_util::lock;
use tokio::sync::Notify;

use crate::limits::Granted;
use crate::session::Session;

/// Reconnected sessions whose timeouts aren't verified yet. One task checks the servers for all
/// these sessions.
#[derive(Debug, Default)]
pub(crate) struct SuspectSessions {
    state: Mutex<State>,
    pub(crate) another: Notify,
    /// The timeout that each server grants at least.
    longest: Mutex<HashMap<String, Duration>>,
}

#[derive(Debug, Default)]
struct State {
    sessions: Vec<(Arc<Session>, BootInstant)>,
    is_checking: bool,
}

impl SuspectSessions {
    pub(crate) fn knowing(granted: &[Granted]) -> Self {
        let this = Self::default();
        this.learn(granted);
        this
    }

    pub(crate) fn learn(&self, granted: &[Granted]) {
        let mut longest = lock(&self.longest);
        for Granted { host, asked, timeout } in granted {
            let known = longest.entry(host.clone()).or_insert(*timeout);
            // A server that grants less than requested has reached its limit. Otherwise the server
            // may grant more.
            *known = if timeout < asked { *timeout } else { (*known).max(*timeout) };
        }
    }

    pub(crate) fn all_grant(&self, hosts: &[String], timeout: Duration) -> bool {
        let longest = lock(&self.longest);
        hosts.iter().all(|host| longest.get(host).is_some_and(|longest| *longest >= timeout))
    }

    pub(crate) fn enter(&self, session: Arc<Session>, until: BootInstant) -> bool {
        let mut state = lock(&self.state);
        state.sessions.retain(|(known, _)| !Arc::ptr_eq(known, &session));
        state.sessions.push((session, until));
        let is_first = !mem::replace(&mut state.is_checking, true);
        if !is_first {
            self.another.notify_one();
        }
        is_first
    }

    pub(crate) fn left(&self) -> Option<Vec<(Arc<Session>, BootInstant)>> {
        let mut state = lock(&self.state);
        state
            .sessions
            .retain(|(session, _)| session.timeout_check().is_suspect() && !session.is_over());
        state.is_checking = !state.sessions.is_empty();
        state.is_checking.then(|| state.sessions.clone())
    }
}
