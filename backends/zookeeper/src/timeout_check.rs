//! Detection of servers that shorten the timeout of a session that moves to them, which the client
//! library doesn't report. So after each reconnect, the client opens other sessions to find out the
//! servers' limits. If the connection breaks during this check, all servers must be checked: any
//! may have shortened the timeout.

use std::time::Duration;

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    Verified,
    Disconnected,
    Suspect,
    /// A server shortened the timeout, or the check took too long.
    Invalid,
}

#[derive(Debug, Clone, Copy)]
struct State {
    session: SessionState,
    /// True if the session was on an unchecked server since its last verification.
    missed_a_check: bool,
}

#[derive(Debug)]
pub(crate) struct TimeoutCheck(watch::Sender<State>);

impl TimeoutCheck {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(State { session: SessionState::Verified, missed_a_check: false }))
    }

    pub(crate) fn moved(&self, is_connected: bool) -> bool {
        let mut is_doubted = false;
        self.0.send_modify(|state| {
            state.missed_a_check |= match state.session {
                SessionState::Suspect => true,
                SessionState::Disconnected => !is_connected,
                SessionState::Verified | SessionState::Invalid => false,
            };
            if state.session != SessionState::Invalid {
                state.session =
                    if is_connected { SessionState::Suspect } else { SessionState::Disconnected };
                is_doubted = is_connected;
            }
        });
        is_doubted
    }

    pub(crate) fn missed_a_check(&self) -> bool {
        self.0.borrow().missed_a_check
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.0.borrow().session == SessionState::Suspect
    }

    pub(crate) fn is_invalid(&self) -> bool {
        self.0.borrow().session == SessionState::Invalid
    }

    pub(crate) fn trust(&self) -> bool {
        self.decide(SessionState::Verified)
    }

    pub(crate) fn distrust(&self) -> bool {
        self.decide(SessionState::Invalid)
    }

    fn decide(&self, decided: SessionState) -> bool {
        self.0.send_if_modified(|state| {
            let was_in_doubt = state.session == SessionState::Suspect;
            if was_in_doubt {
                *state = State { session: decided, missed_a_check: false };
            }
            was_in_doubt
        })
    }

    pub(crate) async fn wait(&self, limit: Duration) -> bool {
        let mut state = self.0.subscribe();
        let decided = state.wait_for(|state| {
            matches!(state.session, SessionState::Verified | SessionState::Invalid)
        });
        let decided = tokio::time::timeout(limit, decided).await;
        matches!(decided, Ok(Ok(state)) if state.session == SessionState::Verified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_is_suspect_until_trusted() {
        let timeout_check = TimeoutCheck::new();
        for _ in 0..3 {
            assert!(!timeout_check.moved(false));
            assert!(timeout_check.moved(true));
            assert!(!timeout_check.missed_a_check());
            assert!(timeout_check.is_suspect() && timeout_check.trust());
            assert!(!timeout_check.is_suspect() && !timeout_check.is_invalid());
        }
        assert!(timeout_check.moved(true) && !timeout_check.missed_a_check());
        assert!(timeout_check.distrust() && timeout_check.is_invalid());
        assert!(
            !timeout_check.moved(true) && !timeout_check.trust(),
            "an invalid session stays invalid"
        );
    }

    #[test]
    fn unchecked_connection_is_recorded() {
        for (between, then) in [(true, false), (true, true), (false, false)] {
            let timeout_check = TimeoutCheck::new();
            timeout_check.moved(between);
            assert_eq!(timeout_check.moved(then), then, "{between} {then}");
            assert!(
                timeout_check.moved(true) && timeout_check.missed_a_check(),
                "{between} {then}"
            );
            assert!(timeout_check.trust() && !timeout_check.missed_a_check());
            timeout_check.moved(false);
            assert!(
                timeout_check.moved(true) && !timeout_check.missed_a_check(),
                "it was certain between"
            );
        }
    }

    #[tokio::test]
    async fn wait_returns_for_both_outcomes() {
        let limit = Duration::from_secs(3_600);
        let timeout_check = TimeoutCheck::new();
        assert!(timeout_check.wait(limit).await);
        timeout_check.moved(true);
        assert!(!timeout_check.wait(Duration::from_millis(10)).await);
        let ends = async { assert!(timeout_check.trust()) };
        assert!(tokio::join!(timeout_check.wait(limit), ends).0);
        timeout_check.moved(false);
        timeout_check.moved(true);
        let ends = async { assert!(timeout_check.distrust()) };
        assert!(!tokio::join!(timeout_check.wait(limit), ends).0);
    }
}
