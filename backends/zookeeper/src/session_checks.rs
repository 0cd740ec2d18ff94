use std::collections::HashMap;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::BootInstant;
use lockwright_core::backend_util::lock;
use tokio::sync::Notify;

use crate::limits::{self, Granted};
use crate::session::Session;
use crate::shared::Shared;

const PAUSE: Duration = Duration::from_millis(100);

const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Reconnected sessions whose new server may grant less than their timeout.
#[derive(Debug, Default)]
pub(crate) struct SuspectSessions {
    state: Mutex<State>,
    pub(crate) another: Notify,
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
            // A server that grants less than requested has reached its limit. Otherwise its limit
            // may be higher.
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
            .retain(|(session, _)| session.timeout_check.is_suspect() && !session.is_over());
        state.is_checking = !state.sessions.is_empty();
        state.is_checking.then(|| state.sessions.clone())
    }
}

/// Returns the time limit of a check: a longer one would notify holders too late.
fn patience(timeout: Duration, response_timeout: Duration) -> Duration {
    response_timeout.saturating_mul(2).min(timeout / 4 * 3).max(timeout / 2)
}

impl Shared {
    pub(crate) fn moved(self: &Arc<Self>, session: &Arc<Session>, is_connected: bool) {
        if is_connected {
            session.reconnect_count.fetch_add(1, Ordering::Relaxed);
        }
        if session.timeout_check.moved(is_connected) {
            let patience = patience(session.timeout(), self.config.response_timeout);
            if self.suspects.enter(Arc::clone(session), self.clock.now() + patience) {
                self.sessions.runtime.spawn(Arc::clone(self).check());
            }
        }
    }

    async fn check(self: Arc<Self>) {
        let mut pause = PAUSE;
        while let Some(doubted) = self.suspects.left() {
            // A server that grants the longest timeout grants all shorter ones.
            let most = doubted.iter().map(|(session, _)| session.timeout()).max();
            // Another session's reconnect restarts the check.
            let granted = tokio::select! {
                granted = limits::granted(&self.config, most.unwrap_or_default()) => granted,
                () = self.suspects.another.notified() => continue,
            };
            self.suspects.learn(&granted);
            let least = granted.iter().map(|granted| granted.timeout).min();
            let mut is_decided = true;
            for (session, until) in doubted {
                let timeout = session.timeout();
                if least.is_some_and(|least| least < timeout) {
                    self.distrust(&session, "a server grants a shorter timeout than before");
                } else if least.is_some() && self.is_enough(&session) {
                    session.timeout_check.trust();
                } else if self.clock.now() >= until {
                    self.distrust(
                        &session,
                        "not all relevant servers could be checked for their session timeout",
                    );
                } else {
                    is_decided = false;
                }
            }
            if is_decided {
                pause = PAUSE;
            } else {
                tokio::select! {
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                    () = self.suspects.another.notified() => {}
                }
            }
        }
    }

    /// Returns whether the servers' answers verify the timeout. If the session was on an unchecked
    /// server, all servers of the URL must grant it. If a server is down, its last grant counts.
    fn is_enough(&self, session: &Session) -> bool {
        !session.timeout_check.missed_a_check()
            || self.suspects.all_grant(&self.config.contents.hosts, session.timeout())
    }

    fn distrust(self: &Arc<Self>, session: &Arc<Session>, why: &str) {
        if session.timeout_check.distrust() {
            self.abandon(session, why);
        }
    }

    fn abandon(self: &Arc<Self>, session: &Arc<Session>, why: &str) {
        tracing::warn!(?session, "{why}: giving up the session and its locks");
        self.remove(self.give_up(session));
        // Closing the session would free locks before their holders have stopped.
        let session = Arc::clone(session);
        self.sessions.runtime.spawn(async move { tokio::time::sleep(session.timeout()).await });
    }
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers::{self, claim_for};
    use lockwright_testbed::{self as testbed, Proxy};

    use super::*;
    use crate::ZooKeeper;

    #[test]
    fn patience_is_half_a_timeout_or_two_tries() {
        let seconds = Duration::from_secs_f64;
        for (timeout, response, expected) in
            [(40.0, 2.0, 20.0), (8.0, 2.0, 4.0), (6.0, 2.0, 4.0), (4.0, 2.0, 3.0), (4.0, 0.5, 2.0)]
        {
            let patience = patience(seconds(timeout), seconds(response));
            assert_eq!(patience, seconds(expected), "{timeout}");
        }
    }

    #[test]
    fn lowered_limit_replaces_the_earlier_one() {
        let seconds = Duration::from_secs;
        let granted = |asked, timeout| {
            let (asked, timeout) = (seconds(asked), seconds(timeout));
            [Granted { host: "a".to_owned(), asked, timeout }]
        };
        let all_grant = |suspects: &SuspectSessions, timeout| {
            suspects.all_grant(&["a".to_owned()], seconds(timeout))
        };
        let suspects = SuspectSessions::knowing(&granted(40, 40));
        suspects.learn(&granted(20, 20));
        assert!(all_grant(&suspects, 40), "the limit wasn't reached");
        suspects.learn(&granted(30, 10));
        assert!(all_grant(&suspects, 10) && !all_grant(&suspects, 11));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn servers_are_checked_once_for_all_sessions_with_backoff_on_zookeeper() {
        let few = testbed::ZooKeeper::options().members(1).set("maxClientCnxns", "6");
        let server = few.start().unwrap();
        let proxy = Proxy::start(server.members[0].address()).unwrap();
        let url = server.url_through([proxy.port()]);
        let zookeeper = ZooKeeper::connect(&url).await.unwrap();
        let shared = &zookeeper.shared;
        let mut sessions = Vec::new();
        for seconds in [37, 38, 39, 40] {
            let claim = claim_for("x", Duration::from_secs(seconds));
            sessions.push(shared.session(&claim).await.unwrap());
        }
        let stranger = test_helpers::eventually(|| async { client(&server).await });
        let stranger = stranger.await;
        test_helpers::eventually(|| async { client(&server).await.is_none().then_some(()) }).await;
        let before = proxy.accepted();
        for session in &sessions {
            shared.moved(session, false);
            shared.moved(session, true);
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(sessions.iter().all(|session| session.timeout_check.is_suspect()));
        let tries = proxy.accepted() - before;
        assert!((2..=14).contains(&tries), "{tries} tries in 4 s");
        drop(stranger);
        for session in &sessions {
            assert!(session.timeout_check.wait(test_helpers::LIMIT).await);
        }
    }

    async fn client(server: &testbed::ZooKeeper) -> Option<zookeeper_client::Client> {
        let client = zookeeper_client::Client::connector().with_fail_eagerly();
        client.connect(&server.members[0].address().to_string()).await.ok()
    }
}
