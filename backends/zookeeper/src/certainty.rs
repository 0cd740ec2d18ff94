//! Whether the servers keep a session for as long as when it was opened.
//!
//! Each server that a session moves to sets its timeout anew, to what it grants of what it is asked
//! for. The client library asks for what it was granted last, so that one server that grants less
//! leaves less at all others too, and it doesn't tell. So after each new connection what the servers
//! grant is tried with other sessions. If that connection is over before it was, it isn't enough that
//! one of them grants as much as before: none may be unknown, as any may have been the one.

use std::time::Duration;

use tokio::sync::watch;

/// What is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It is kept for as long as when it was opened.
    Kept,
    /// Nothing new, and there is no connection.
    Apart,
    /// The server that it has moved to may have changed that.
    Doubtful,
    /// It is kept for less, or nobody can find out.
    Unfit,
}

#[derive(Debug, Clone, Copy)]
struct State {
    known: Known,
    /// Whether it was on a server, since it was last certain, that nobody could look at meanwhile.
    moved_on: bool,
}

/// What is known of the timeout of one session.
#[derive(Debug)]
pub(crate) struct Certainty(watch::Sender<State>);

impl Certainty {
    /// Of a session that was just opened: with it came what was granted.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(State { known: Known::Kept, moved_on: false }))
    }

    /// It has a connection again, or has none any more. Each change is to be told, and it is seen
    /// when one was missed between two others. Says whether it is in doubt by this.
    pub(crate) fn moved(&self, is_connected: bool) -> bool {
        let mut is_doubted = false;
        self.0.send_modify(|state| {
            // There was a connection that nobody looked at.
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

    /// Whether all servers have to be known for it to be certain again.
    pub(crate) fn has_moved_on(&self) -> bool {
        self.0.borrow().moved_on
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.0.borrow().known == Known::Doubtful
    }

    pub(crate) fn is_unfit(&self) -> bool {
        self.0.borrow().known == Known::Unfit
    }

    /// The servers grant as much as before. Says whether it was in doubt.
    pub(crate) fn trust(&self) -> bool {
        self.decide(Known::Kept)
    }

    /// They don't, or can't be asked. Says whether it was in doubt.
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

    /// Waits for this long until it is certain, and says whether it is.
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
        // That it was without one was missed.
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
        // Far longer than it takes.
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
