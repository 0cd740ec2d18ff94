//! Idle sessions without locks, for reuse, because connecting costs many times as much as locking.

use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use lockwright_core::backend_util::lock;
use tokio::sync::Notify;

const MOST: usize = 8;

pub(super) const KEPT: Duration = Duration::from_secs(5);

/// A release doesn't reset an idle timeout in this range: the client closes idle sessions earlier.
pub(crate) const KEPT_TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_secs(10)..=Duration::from_secs(60);

pub(super) struct Idle<S> {
    sessions: Mutex<Vec<(Instant, S)>>,
    pub(super) kept: Notify,
}

impl<S> Default for Idle<S> {
    fn default() -> Self {
        Self { sessions: Mutex::default(), kept: Notify::new() }
    }
}

impl<S> Idle<S> {
    pub(super) fn take(&self) -> Option<(Instant, S)> {
        lock(&self.sessions).pop()
    }

    pub(super) fn keep(&self, session: S) -> Option<S> {
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= MOST {
            return Some(session);
        }
        sessions.push((Instant::now(), session));
        self.kept.notify_one();
        None
    }

    pub(super) fn remove(&self, all: bool) -> Vec<S> {
        let mut sessions = lock(&self.sessions);
        let old = match sessions.iter().position(|(since, _)| since.elapsed() < KEPT) {
            Some(first_young) if !all => first_young,
            _ => sessions.len(),
        };
        sessions.drain(..old).map(|(_, session)| session).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.sessions).is_empty()
    }
}
