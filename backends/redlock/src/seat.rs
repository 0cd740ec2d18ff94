//! Whether a node may vote, as far as this client knows.
//!
//! ```text
//! unknown --look--> voting              its certificate says so
//!         --look--> waiting             a new incarnation: it votes one largest TTL after this
//!                                       client first saw this very certificate
//!         --look--> refused             for good: a duplicate, or of another fleet
//! voting  --its certificate isn't there any more--> unknown
//! waiting --admitted, by whomever--> voting
//! ```

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_core::{BootInstant, Error, ErrorKind};

use crate::errors::error;
use crate::node::Certificate;

/// How often a node that doesn't vote is looked at, at most.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// One node's seat.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    state: Mutex<Inner>,
    /// Held by whoever looks at the node.
    pub(crate) looking: tokio::sync::Mutex<()>,
    /// Whether a round waited for it in vain, and it has said nothing since.
    is_silent: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// The certificate that didn't vote when it was seen last, and when it was seen first. Kept
    /// while the node can't be reached: it is the same incarnation as long as the text is.
    first_seen: Option<(String, BootInstant)>,
}

#[derive(Debug, Default, Clone)]
enum State {
    #[default]
    Unknown,
    /// A look failed with what won't be otherwise soon.
    Failed {
        kind: ErrorKind,
        why: String,
        at: BootInstant,
    },
    Voting(Certificate),
    Waiting {
        certificate: Certificate,
        until: BootInstant,
        looked: BootInstant,
    },
    Refused(String),
}

/// What is to be done for a vote of a node.
#[derive(Debug)]
pub(crate) enum Next {
    /// Ask for it.
    Ask(Certificate),
    /// Look at the node first.
    Look,
    /// Let it vote: its time is over.
    Admit(Certificate),
    /// Nothing: it doesn't vote.
    Leave(Error),
}

impl Seat {
    /// A round waited for it in vain. The next one asks it too, but doesn't wait for it: so a node
    /// that hangs costs its time-out once, and not in front of each refusal.
    pub(crate) fn fell_silent(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }

    /// It answered something.
    pub(crate) fn spoke(&self) {
        self.is_silent.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    pub(crate) fn next(&self, now: BootInstant) -> Next {
        match &self.inner().state {
            State::Unknown => Next::Look,
            State::Failed { kind, why, at } if now < *at + LOOK_AGAIN => {
                Next::Leave(Error::new(*kind, why.clone()))
            }
            State::Failed { .. } => Next::Look,
            State::Voting(certificate) => Next::Ask(certificate.clone()),
            State::Waiting { certificate, until, .. } if now >= *until => {
                Next::Admit(certificate.clone())
            }
            State::Waiting { looked, .. } if now >= *looked + LOOK_AGAIN => Next::Look,
            State::Waiting { until, .. } => Next::Leave(is_new(until.saturating_since(now))),
            State::Refused(why) => Next::Leave(error(ErrorKind::InvalidConfig, why.clone())),
        }
    }

    /// The node answered this certificate; `wait` is for how long a new one doesn't vote.
    pub(crate) fn seen(&self, certificate: Certificate, now: BootInstant, wait: Duration) {
        let mut inner = self.inner();
        if matches!(inner.state, State::Refused(_)) {
            return;
        }
        if certificate.votes {
            inner.first_seen = None;
            inner.state = State::Voting(certificate);
            return;
        }
        let since = match &inner.first_seen {
            Some((text, since)) if *text == certificate.text => *since,
            _ => {
                inner.first_seen = Some((certificate.text.clone(), now));
                now
            }
        };
        inner.state = State::Waiting { certificate, until: since + wait, looked: now };
    }

    /// A look failed. One that can be mended by nothing but a change isn't repeated at once.
    pub(crate) fn failed(&self, error: &Error, now: BootInstant) {
        let mut inner = self.inner();
        if matches!(inner.state, State::Refused(_)) {
            return;
        }
        inner.state = if error.is_transient() {
            State::Unknown
        } else {
            State::Failed { kind: error.kind(), why: error.to_string(), at: now }
        };
    }

    /// The certificate that was sent isn't there any more.
    pub(crate) fn stranger(&self, sent: &Certificate) {
        let mut inner = self.inner();
        if matches!(&inner.state, State::Voting(present) if present.text == sent.text) {
            inner.state = State::Unknown;
        }
    }

    /// It gets no vote, ever.
    pub(crate) fn refuse(&self, why: impl Display) {
        self.inner().state = State::Refused(why.to_string());
    }

    /// The certificate that is there, as far as is known.
    pub(crate) fn certificate(&self) -> Option<Certificate> {
        match &self.inner().state {
            State::Voting(certificate) | State::Waiting { certificate, .. } => {
                Some(certificate.clone())
            }
            State::Unknown | State::Failed { .. } | State::Refused(_) => None,
        }
    }

    /// Why it gets no vote, if that is for good, or until somebody sets it up otherwise.
    pub(crate) fn refused(&self) -> Option<String> {
        match &self.inner().state {
            State::Refused(why) => Some(why.clone()),
            State::Failed {
                kind: ErrorKind::InvalidConfig | ErrorKind::Unsupported, why, ..
            } => Some(why.clone()),
            _ => None,
        }
    }

    pub(crate) fn votes(&self) -> bool {
        matches!(self.inner().state, State::Voting(_))
    }

    /// How long a node that waits has yet to.
    pub(crate) fn waits(&self, now: BootInstant) -> Option<Duration> {
        match &self.inner().state {
            State::Waiting { until, .. } => Some(until.saturating_since(now)),
            _ => None,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_new(left: Duration) -> Error {
    let seconds = left.as_millis().div_ceil(1_000);
    Error::unavailable(format!(
        "it is new here: it votes in {seconds} s, one largest TTL after it was first seen; if no \
         lock was held on it, `lockwright admit --yes` lets it vote now"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootInstant = BootInstant::from_nanos(1_000_000_000_000);
    const WAIT: Duration = Duration::from_secs(60);

    fn certificate(text: &str, votes: bool) -> Certificate {
        Certificate {
            run: "run".to_owned(),
            data: "data".to_owned(),
            text: text.to_owned(),
            votes,
            largest_ttl: Duration::from_secs(60),
        }
    }

    fn leaves(next: &Next) -> bool {
        matches!(next, Next::Leave(_))
    }

    #[test]
    fn a_new_node_waits_from_when_it_was_first_seen() {
        let seat = Seat::default();
        assert!(matches!(seat.next(START), Next::Look));
        seat.seen(certificate("a", false), START, WAIT);
        assert!(leaves(&seat.next(START)));
        // It is looked at now and then, which doesn't begin the wait anew; nor does its absence.
        assert!(matches!(seat.next(START + LOOK_AGAIN), Next::Look));
        seat.seen(certificate("a", false), START + WAIT / 2, WAIT);
        seat.failed(&Error::unavailable("down"), START + WAIT / 2);
        seat.seen(certificate("a", false), START + WAIT * 3 / 4, WAIT);
        assert!(!matches!(seat.next(START + WAIT - Duration::from_nanos(1)), Next::Admit(_)));
        assert!(matches!(seat.next(START + WAIT), Next::Admit(_)));
    }

    #[test]
    fn another_certificate_begins_the_wait_anew() {
        let seat = Seat::default();
        seat.seen(certificate("a", false), START, WAIT);
        seat.seen(certificate("b", false), START + WAIT / 2, WAIT);
        assert!(!matches!(seat.next(START + WAIT), Next::Admit(_)));
        assert!(matches!(seat.next(START + WAIT * 3 / 2), Next::Admit(_)));
        // Also the first one, if it comes back: another may have been voting in between.
        seat.seen(certificate("a", false), START + WAIT, WAIT);
        assert!(!matches!(seat.next(START + WAIT * 3 / 2), Next::Admit(_)));
    }

    #[test]
    fn only_the_certificate_that_was_sent_is_forgotten() {
        let seat = Seat::default();
        seat.seen(certificate("b", true), START, WAIT);
        seat.stranger(&certificate("a", true));
        assert!(seat.votes());
        seat.stranger(&certificate("b", true));
        assert!(!seat.votes());
    }

    #[test]
    fn the_refused_stay_refused() {
        let seat = Seat::default();
        seat.refuse("a duplicate");
        seat.seen(certificate("a", true), START, WAIT);
        assert!(!seat.votes());
        assert!(leaves(&seat.next(START + WAIT)));
    }

    #[test]
    fn a_wait_says_how_long_it_is() {
        let seat = Seat::default();
        seat.seen(certificate("a", false), START, WAIT);
        let Next::Leave(error) = seat.next(START + Duration::from_millis(500)) else { panic!() };
        assert!(error.to_string().contains("votes in 60 s"), "{error}");
    }
}
