//! The light requests: scripts with two keys that acquire and release a lock for which no client waits.
//!
//! They leave everything else to `acquire.lua` and `release.lua`: a fence counter with a mark (`exclusive.lua`) makes
//! them answer -1. Then the client sends the full request, and doesn't send light ones for that name for a while.
//!
//! # Fences
//!
//! A light acquire counts on from the counter, without the server's clock. After a failover that lost writes, a counter
//! could repeat fences. So each request names the least counter to count on from: the server's time when the client
//! connected, or when the Cluster's map last changed, and at least the time one second ago. The script raises an older
//! counter to the server's clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_core::backend_util::RecentNames;
use lockwright_core::{BootInstant, Clock, Identity, LockName};

use crate::answer;

/// How long full requests are sent after a client had to wait.
const CONTENDED: Duration = Duration::from_secs(10);

const OLDEST_COUNTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Light {
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
    /// Writes before it may be lost.
    unbroken_since: BootInstant,
}

impl Default for Light {
    fn default() -> Self {
        Self {
            clock: Clock::boot(),
            contended: RecentNames::default(),
            server_time: Mutex::default(),
            identity: Mutex::default(),
        }
    }
}

impl Light {
    pub(crate) fn note_contention(&self, name: &LockName) {
        self.contended.note(name, self.clock.now());
    }

    pub(crate) fn is_contended(&self, name: &LockName) -> bool {
        self.contended.was_noted_after(name, self.clock.now() - CONTENDED)
    }

    /// A new connection. `None` if the user may not read the server's time.
    pub(crate) fn connected(&self, time: Option<Duration>) {
        let now = self.clock.now();
        *self.server_time() = time.map(|time| ServerTime { time, read: now, unbroken_since: now });
    }

    pub(crate) fn map_changed(&self) {
        if let Some(known) = &mut *self.server_time() {
            known.unbroken_since = self.clock.now();
        }
    }

    /// In seconds.
    pub(crate) fn least_counter(&self) -> u64 {
        // Raises each counter.
        const UNKNOWN: u64 = 9_999_999_999;

        let now = self.clock.now();
        self.server_time().map_or(UNKNOWN, |known| {
            let since = known.unbroken_since.max(now - OLDEST_COUNTER);
            // Rounded up.
            (known.time + since.saturating_since(known.read)).as_secs() + 1
        })
    }

    /// Formatted only once for the identity that most claims share.
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
    fn counters_before_a_connection_or_a_new_map_are_raised() {
        let light = Light::default();
        assert!(light.least_counter() > 4_000_000_000, "each counter is older");
        light.connected(Some(Duration::from_millis(1_000_500)));
        assert_eq!(light.least_counter(), 1001);
        let hour = Duration::from_secs(3600);
        let age = |light: &Light| {
            let mut known = light.server_time();
            let known = known.as_mut().unwrap();
            known.read = known.read - hour;
            known.unbroken_since = known.unbroken_since - hour;
        };
        age(&light);
        assert_eq!(light.least_counter(), 1001 + 3600 - 1);
        light.map_changed();
        assert_eq!(light.least_counter(), 1001 + 3600);
        light.connected(None);
        assert!(light.least_counter() > 4_000_000_000);
    }
}
