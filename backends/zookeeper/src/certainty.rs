//! Detection of servers that shorten a session's timeout.
//!
//! A server to which a session moves resets the timeout to its own grant for the requested one. The client library
//! requests the last granted timeout, and doesn't report it. So one server that grants less shortens the session on all
//! servers.
//!
//! After each reconnect the client opens other sessions to see the servers' grants. If the connection ended before that
//! check, any server may have shortened the timeout. Then all servers must be checked.

use std::time::Duration;

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The timeout is the original one.
    Kept,
    /// There is no connection, and no news.
    Apart,
    /// The new server may have shortened the timeout.
    Doubtful,
    /// The timeout is shorter, or could not be checked.
    Unfit,
}

#[derive(Debug, Clone, Copy)]
struct State {
    known: Known,
    /// The session was on an unchecked server since it was last certain.
    moved_on: bool,
}

#[derive(Debug)]
pub(crate) struct Certainty(watch::Sender<State>);

impl Certainty {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(State { known: Known::Kept, moved_on: false }))
    }

    /// Records a change of the connection, and detects a missed one in between. Returns whether the timeout is now in
    /// doubt.
    pub(crate) fn moved(&self, is_connected: bool) -> bool {
        let mut is_doubted = false;
        self.0.send_modify(|state| {
            // There was an unchecked connection.
            state.moved_on |= match state.known {
                Known::Doubtful => true,
                Known::Apart => !is_connected,
                Known::Kept | Known::Unfit => false,
            };
            if state.known != Known::Unfit {
                state.known = if is_connected { Known::Doubtful } else { Known::Apart };
                is_doubted = is_connected;
            }
        });
        is_doubted
    }

    pub(crate) fn has_moved_on(&self) -> bool {
        self.0.borrow().moved_on
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.0.borrow().known == Known::Doubtful
    }

    pub(crate) fn is_unfit(&self) -> bool {
        self.0.borrow().known == Known::Unfit
    }

    /// Returns whether it was in doubt.
    pub(crate) fn trust(&self) -> bool {
        self.decide(Known::Kept)
    }

    /// Returns whether it was in doubt.
    pub(crate) fn distrust(&self) -> bool {
        self.decide(Known::Unfit)
    }

    fn decide(&self, decided: Known) -> bool {
        self.0.send_if_modified(|state| {
            let was_in_doubt = state.known == Known::Doubtful;
            if was_in_doubt {
                *state = State { known: decided, moved_on: false };
            }
            was_in_doubt
        })
    }

    /// Waits up to `limit` for a decision. Returns whether the timeout is certain.
    pub(crate) async fn wait(&self, limit: Duration) -> bool {
        let mut state = self.0.subscribe();
        let decided = state.wait_for(|state| matches!(state.known, Known::Kept | Known::Unfit));
        let decided = tokio::time::timeout(limit, decided).await;
        matches!(decided, Ok(Ok(state)) if state.known == Known::Kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_doubted_until_it_is_trusted() {
        let certainty = Certainty::new();
        for _ in 0..3 {
            assert!(!certainty.moved(false));
            assert!(certainty.moved(true));
            assert!(!certainty.has_moved_on());
            assert!(certainty.is_doubtful() && certainty.trust());
            assert!(!certainty.is_doubtful() && !certainty.is_unfit());
        }
        // The disconnect was missed.
        assert!(certainty.moved(true) && !certainty.has_moved_on());
        assert!(certainty.distrust() && certainty.is_unfit());
        assert!(!certainty.moved(true) && !certainty.trust(), "for ever");
    }

    #[test]
    fn a_connection_that_is_over_before_it_is_trusted_is_remembered() {
        for (between, then) in [(true, false), (true, true), (false, false)] {
            let certainty = Certainty::new();
            certainty.moved(between);
            assert_eq!(certainty.moved(then), then, "{between} {then}");
            assert!(certainty.moved(true) && certainty.has_moved_on(), "{between} {then}");
            assert!(certainty.trust() && !certainty.has_moved_on());
            certainty.moved(false);
            assert!(certainty.moved(true) && !certainty.has_moved_on(), "it was certain between");
        }
    }

    #[tokio::test]
    async fn who_waits_hears_of_both_ends_of_a_doubt() {
        // Far longer than needed.
        let limit = Duration::from_secs(3_600);
        let certainty = Certainty::new();
        assert!(certainty.wait(limit).await);
        certainty.moved(true);
        assert!(!certainty.wait(Duration::from_millis(10)).await);
        let ends = async { assert!(certainty.trust()) };
        assert!(tokio::join!(certainty.wait(limit), ends).0);
        certainty.moved(false);
        certainty.moved(true);
        let ends = async { assert!(certainty.distrust()) };
        assert!(!tokio::join!(certainty.wait(limit), ends).0);
    }
}
