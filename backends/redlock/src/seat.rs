//! Voting status of a node, in this client's view.
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

/// Minimum interval between checks of a non-voting node.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Seat {
    state: Mutex<Inner>,
    pub(crate) looking: tokio::sync::Mutex<()>,
    /// A round timed out on it, and it hasn't replied since.
    is_silent: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// The latest non-voting certificate, and when it was first seen. Kept while the node is unreachable: an equal text
    /// is the same incarnation.
    first_seen: Option<(String, BootInstant)>,
}

#[derive(Debug, Default, Clone)]
enum State {
    #[default]
    Unknown,
    /// The error won't disappear soon.
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

#[derive(Debug)]
pub(crate) enum Next {
    Ask(Certificate),
    Look,
    Admit(Certificate),
    Leave(Error),
}

impl Seat {
    /// Records a time-out. The next round doesn't wait for the node, so that it costs one time-out, not one per
    /// refusal.
    pub(crate) fn fell_silent(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }

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

    /// Records a certificate. `wait` is how long a new one doesn't vote.
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

    /// Records a failed check. Permanent errors delay the next one.
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

    /// Records that this certificate isn't the node's any more.
    pub(crate) fn stranger(&self, sent: &Certificate) {
        let mut inner = self.inner();
        if matches!(&inner.state, State::Voting(present) if present.text == sent.text) {
            inner.state = State::Unknown;
        }
    }

    pub(crate) fn refuse(&self, why: impl Display) {
        self.inner().state = State::Refused(why.to_string());
    }

    pub(crate) fn certificate(&self) -> Option<Certificate> {
        match &self.inner().state {
            State::Voting(certificate) | State::Waiting { certificate, .. } => {
                Some(certificate.clone())
            }
            State::Unknown | State::Failed { .. } | State::Refused(_) => None,
        }
    }

    /// Returns why the node doesn't vote, if the operator must change that.
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

    /// Returns a waiting node's remaining wait.
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
        // Neither checks nor unavailability restart the wait.
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
        // Another incarnation may have voted in between.
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
