//! The fast path: scripts with two keys acquire and release an exclusive lock without waiters.
//!
//! Requests that wait, and all with `replicas`, use the full scripts. The fast scripts return -1 if the counter has a
//! mark (`exclusive.lua`). Then the client sends the full request, and sends only full requests for that name for ten
//! seconds.
//!
//! # Fences
//!
//! A fast acquire increments the counter, and usually doesn't read the server's clock. After a failover that lost
//! writes, that could repeat a fence. So each request carries a lower bound in seconds: the server's time at the last
//! connection or change of the Cluster's map, or one second ago if that is later. The script sets a counter below the
//! bound to the server's time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_core::backend_util::RecentNames;
use lockwright_core::{BootInstant, Clock, Identity, LockName};

use crate::answer;

/// How long the client sends full requests for a name after a fast one was refused, or after it queued.
const CONTENTION_PERIOD: Duration = Duration::from_secs(10);

/// An older counter is set to the server's time.
const MAX_COUNTER_AGE: Duration = Duration::from_secs(1);

/// The client's state for fast requests.
#[derive(Debug)]
pub(crate) struct FastPath {
    clock: Clock,
    contended: RecentNames,
    server_time: Mutex<Option<ServerTime>>,
    identity: Mutex<Option<(Arc<Identity>, Arc<str>)>>,
}

#[derive(Debug, Clone, Copy)]
struct ServerTime {
    /// The server's time at `read`, since 1970.
    time: Duration,
    read: BootInstant,
    /// A failover may have lost writes before this instant.
    unbroken_since: BootInstant,
}

impl Default for FastPath {
    fn default() -> Self {
        Self {
            clock: Clock::boot(),
            contended: RecentNames::default(),
            server_time: Mutex::default(),
            identity: Mutex::default(),
        }
    }
}

impl FastPath {
    pub(crate) fn note_contention(&self, name: &LockName) {
        self.contended.note(name, self.clock.now());
    }

    pub(crate) fn is_contended(&self, name: &LockName) -> bool {
        self.contended.was_noted_after(name, self.clock.now() - CONTENTION_PERIOD)
    }

    /// Records the server's time on a new connection: `None` if the user may not read it.
    pub(crate) fn connected(&self, time: Option<Duration>) {
        let now = self.clock.now();
        *self.server_time() = time.map(|time| ServerTime { time, read: now, unbroken_since: now });
    }

    pub(crate) fn map_changed(&self) {
        if let Some(known) = &mut *self.server_time() {
            known.unbroken_since = self.clock.now();
        }
    }

    /// Returns the lower bound for a counter, in seconds since 1970.
    pub(crate) fn counter_bound_secs(&self) -> u64 {
        // Above each counter, so that the script reads the clock.
        const UNKNOWN: u64 = 9_999_999_999;

        let now = self.clock.now();
        self.server_time().map_or(UNKNOWN, |known| {
            let since = known.unbroken_since.max(now - MAX_COUNTER_AGE);
            // Rounded up.
            (known.time + since.saturating_since(known.read)).as_secs() + 1
        })
    }

    /// Returns the formatted identity. The last one is cached: most claims share it.
    pub(crate) fn identity_text(&self, identity: &Arc<Identity>) -> Arc<str> {
        let mut last = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, text)) if Arc::ptr_eq(known, identity) => Arc::clone(text),
            _ => {
                let text: Arc<str> = answer::identity_text(identity).into();
                *last = Some((Arc::clone(identity), Arc::clone(&text)));
                text
            }
        }
    }

    fn server_time(&self) -> MutexGuard<'_, Option<ServerTime>> {
        self.server_time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_bound_follows_connections_and_map_changes() {
        let fast = FastPath::default();
        assert!(fast.counter_bound_secs() > 4_000_000_000, "the bound is above each counter");
        fast.connected(Some(Duration::from_millis(1_000_500)));
        assert_eq!(fast.counter_bound_secs(), 1001);
        let hour = Duration::from_secs(3600);
        let age = |fast: &FastPath| {
            let mut known = fast.server_time();
            let known = known.as_mut().unwrap();
            known.read = known.read - hour;
            known.unbroken_since = known.unbroken_since - hour;
        };
        age(&fast);
        assert_eq!(fast.counter_bound_secs(), 1001 + 3600 - 1);
        fast.map_changed();
        assert_eq!(fast.counter_bound_secs(), 1001 + 3600);
        fast.connected(None);
        assert!(fast.counter_bound_secs() > 4_000_000_000);
    }
}
