//! Voting status of a node, in this client's view.
//!
//! ```text
//! unknown --look--> voting              its incarnation may vote
//!         --look--> waiting             a new incarnation: it votes once the largest TTL has
//!                                       passed since this client first read it
//!         --look--> failed              a non-transient error; checked again after `LOOK_AGAIN`
//!         --look--> refused             a duplicate server or copied data; never checked again
//! voting  --a request finds another incarnation--> unknown
//! waiting --its wait is over, or a client admits it--> voting
//! ```

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Error, ErrorKind, Result};

use crate::errors::error;
use crate::node::Incarnation;

pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Membership {
    state: Mutex<Inner>,
    pub(crate) looking: tokio::sync::Mutex<()>,
    is_unresponsive: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// The latest non-voting incarnation, and when it was first seen, so outages don't restart the
    /// wait.
    first_seen: Option<(String, BootInstant)>,
}

#[derive(Debug, Default, Clone)]
enum State {
    #[default]
    Unknown,
    Failed {
        kind: ErrorKind,
        why: String,
        at: BootInstant,
    },
    Voting(Arc<Incarnation>),
    Waiting {
        incarnation: Arc<Incarnation>,
        until: BootInstant,
        looked: BootInstant,
    },
    Refused(String),
}

#[derive(Debug)]
pub(crate) enum Next {
    Decided(Result<Arc<Incarnation>>),
    Look,
    Admit(Arc<Incarnation>),
}

impl Membership {
    pub(crate) fn set_responsive(&self, is_responsive: bool) {
        self.is_unresponsive.store(!is_responsive, Ordering::Relaxed);
    }

    pub(crate) fn is_unresponsive(&self) -> bool {
        self.is_unresponsive.load(Ordering::Relaxed)
    }

    pub(crate) fn next(&self, now: BootInstant) -> Next {
        match &lock(&self.state).state {
            State::Unknown => Next::Look,
            State::Failed { kind, why, at } if now < *at + LOOK_AGAIN => {
                Next::Decided(Err(Error::new(*kind, why.clone())))
            }
            State::Failed { .. } => Next::Look,
            State::Voting(incarnation) => Next::Decided(Ok(Arc::clone(incarnation))),
            State::Waiting { incarnation, until, .. } if now >= *until => {
                Next::Admit(Arc::clone(incarnation))
            }
            State::Waiting { looked, .. } if now >= *looked + LOOK_AGAIN => Next::Look,
            State::Waiting { until, .. } => Next::Decided(Err(is_new(until.saturating_since(now)))),
            State::Refused(why) => Next::Decided(Err(error(ErrorKind::InvalidConfig, why.clone()))),
        }
    }

    pub(crate) fn seen(&self, incarnation: Incarnation, now: BootInstant, wait: Duration) {
        let mut inner = lock(&self.state);
        if matches!(inner.state, State::Refused(_)) {
            return;
        }
        if incarnation.votes {
            inner.first_seen = None;
            inner.state = State::Voting(Arc::new(incarnation));
            return;
        }
        let since = match &inner.first_seen {
            Some((text, since)) if *text == incarnation.text => *since,
            _ => {
                inner.first_seen = Some((incarnation.text.clone(), now));
                now
            }
        };
        let incarnation = Arc::new(incarnation);
        inner.state = State::Waiting { incarnation, until: since + wait, looked: now };
    }

    pub(crate) fn failed(&self, error: &Error, now: BootInstant) {
        let mut inner = lock(&self.state);
        if matches!(inner.state, State::Refused(_)) {
            return;
        }
        inner.state = if error.is_transient() {
            State::Unknown
        } else {
            State::Failed { kind: error.kind(), why: error.to_string(), at: now }
        };
    }

    pub(crate) fn wrong_incarnation(&self, sent: &Incarnation) {
        let mut inner = lock(&self.state);
        if matches!(&inner.state, State::Voting(present) if present.text == sent.text) {
            inner.state = State::Unknown;
        }
    }

    pub(crate) fn refuse(&self, why: impl Display) {
        lock(&self.state).state = State::Refused(why.to_string());
    }

    pub(crate) fn incarnation(&self) -> Option<Arc<Incarnation>> {
        match &lock(&self.state).state {
            State::Voting(incarnation) | State::Waiting { incarnation, .. } => {
                Some(Arc::clone(incarnation))
            }
            State::Unknown | State::Failed { .. } | State::Refused(_) => None,
        }
    }

    /// Returns why the node doesn't vote, if an operator must fix the cause.
    pub(crate) fn refused(&self) -> Option<String> {
        match &lock(&self.state).state {
            State::Refused(why) => Some(why.clone()),
            State::Failed {
                kind: ErrorKind::InvalidConfig | ErrorKind::Unsupported, why, ..
            } => Some(why.clone()),
            _ => None,
        }
    }

    pub(crate) fn votes(&self) -> bool {
        matches!(lock(&self.state).state, State::Voting(_))
    }

    pub(crate) fn waits(&self, now: BootInstant) -> Option<Duration> {
        match &lock(&self.state).state {
            State::Waiting { until, .. } => Some(until.saturating_since(now)),
            _ => None,
        }
    }
}

fn is_new(left: Duration) -> Error {
    let seconds = left.as_millis().div_ceil(1_000);
    Error::unavailable(format!(
        "it is new: it votes in {seconds} s, one largest TTL after it was first seen; if no lock \
         was held on it, `lockwright admit --yes` lets it vote now"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootInstant = BootInstant::from_nanos(1_000_000_000_000);
    const WAIT: Duration = Duration::from_secs(60);

    fn incarnation(text: &str, votes: bool) -> Incarnation {
        Incarnation {
            run: "run".to_owned(),
            data: "data".to_owned(),
            text: text.to_owned(),
            votes,
            largest_ttl: Duration::from_secs(60),
        }
    }

    fn is_skipped(next: &Next) -> bool {
        matches!(next, Next::Decided(Err(_)))
    }

    #[test]
    fn new_node_waits_from_its_first_check() {
        let membership = Membership::default();
        assert!(matches!(membership.next(START), Next::Look));
        membership.seen(incarnation("a", false), START, WAIT);
        assert!(is_skipped(&membership.next(START)));
        assert!(matches!(membership.next(START + LOOK_AGAIN), Next::Look));
        membership.seen(incarnation("a", false), START + WAIT / 2, WAIT);
        membership.failed(&Error::unavailable("down"), START + WAIT / 2);
        membership.seen(incarnation("a", false), START + WAIT * 3 / 4, WAIT);
        assert!(!matches!(membership.next(START + WAIT - Duration::from_nanos(1)), Next::Admit(_)));
        assert!(matches!(membership.next(START + WAIT), Next::Admit(_)));
    }

    #[test]
    fn new_incarnation_restarts_the_wait() {
        let membership = Membership::default();
        membership.seen(incarnation("a", false), START, WAIT);
        membership.seen(incarnation("b", false), START + WAIT / 2, WAIT);
        assert!(!matches!(membership.next(START + WAIT), Next::Admit(_)));
        assert!(matches!(membership.next(START + WAIT * 3 / 2), Next::Admit(_)));
        membership.seen(incarnation("a", false), START + WAIT, WAIT);
        assert!(!matches!(membership.next(START + WAIT * 3 / 2), Next::Admit(_)));
    }

    #[test]
    fn only_the_sent_incarnation_is_removed() {
        let membership = Membership::default();
        membership.seen(incarnation("b", true), START, WAIT);
        membership.wrong_incarnation(&incarnation("a", true));
        assert!(membership.votes());
        membership.wrong_incarnation(&incarnation("b", true));
        assert!(!membership.votes());
    }

    #[test]
    fn refused_node_stays_refused() {
        let membership = Membership::default();
        membership.refuse("a duplicate");
        membership.seen(incarnation("a", true), START, WAIT);
        assert!(!membership.votes());
        assert!(is_skipped(&membership.next(START + WAIT)));
    }
}
