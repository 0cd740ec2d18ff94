//! The fast path: scripts with two keys (lock and fence counter) acquire and release an exclusive
//! lock without waiters.
//!
//! Requests that wait, and all requests with `replicas`, use the full scripts.
//!
//! # Fences
//!
//! A fast acquire increments the counter, usually without reading the server's clock. After a
//! restart that lost writes, the result could repeat a fence. So each request carries a lower
//! bound, the later of two server times: when the connection was opened, and one second ago. The
//! script sets a counter below the bound to the server's time. With Sentinel and in a Cluster,
//! where two masters may grant concurrently, each request sets the counter to that time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::{RecentNames, lock};
use lockwright_core::{BootInstant, Claim, Clock, Identity, LockName, Mode};

use crate::answer;

/// How long a name needs the full scripts after a failed fast script, a queued claim or an offer.
const CONTENTION_PERIOD: Duration = Duration::from_secs(10);

const MAX_COUNTER_AGE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct FastPath {
    clock: Clock,
    contended: RecentNames,
    identity: Mutex<Option<(Arc<Identity>, String)>>,
}

#[derive(Debug)]
pub(crate) struct CounterBound {
    clock: Clock,
    /// The server's time since 1970, and when the client read it.
    opened: Option<(Duration, BootInstant)>,
}

impl CounterBound {
    pub(crate) fn new(time: Option<Duration>) -> Self {
        let clock = Clock::boot();
        let now = clock.now();
        Self { clock, opened: time.map(|time| (time, now)) }
    }

    /// Returns the bound, in ms since 1970.
    pub(crate) fn millis(&self) -> u64 {
        // Above all counters, so the script sets them to the server's time.
        const EACH: u64 = 9_999_999_999_999;

        self.opened.map_or(EACH, |(time, opened)| {
            let age = self.clock.now().saturating_since(opened);
            let bound = time + age.saturating_sub(MAX_COUNTER_AGE);
            bound.as_secs() * 1000 + u64::from(bound.subsec_millis()) + 1
        })
    }
}

impl FastPath {
    pub(crate) fn note_contention(&self, name: &LockName) {
        self.contended.note(name, self.clock.now());
    }

    pub(crate) fn is_contended(&self, name: &LockName) -> bool {
        self.contended.was_noted_after(name, self.clock.now() - CONTENTION_PERIOD)
    }

    /// Returns the lock's value during the hold (`value.lua`). Most claims share the identity,
    /// whose last text is cached.
    pub(crate) fn hold_value(&self, claim: &Claim, client: &str) -> String {
        let mut last = lock(&self.identity);
        drop(last.take_if(|(known, _)| !Arc::ptr_eq(known, &claim.identity)));
        let (_, identity) = last.get_or_insert_with(|| {
            (Arc::clone(&claim.identity), answer::identity_text(&claim.identity))
        });
        let fences = if claim.mode == Mode::Exclusive { claim.fences.max(1) } else { 1 };
        let (token, fences) = (claim.token.to_string(), fences.to_string());
        let mut value = ["lw1", &token, &fences, identity].join(":");
        if claim.recall {
            value.push(answer::RECALL);
            value.push_str(client);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_bound_is_the_opening_or_a_second_ago() {
        assert!(CounterBound::new(None).millis() > 4_000_000_000_000, "not above each counter");
        let clock = Clock::tokio();
        let opened = Some((Duration::from_micros(1_000_500), clock.now()));
        let bound = CounterBound { clock, opened };
        assert_eq!(bound.millis(), 1001);
        bound.clock.jump(Duration::from_secs(3600));
        assert_eq!(bound.millis() / 1000, 1 + 3600 - 1);
    }
}
