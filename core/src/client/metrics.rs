//! What a client counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::registry::Totals;

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one client.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) reentered: Counter,
    pub(crate) waited: Counter,
    pub(crate) timed_out: Counter,
    /// Those that didn't make a hold.
    pub(crate) attempts: Counter,
    pub(crate) attempts_failed: Counter,
    pub(crate) grants_too_late: Counter,
    pub(crate) renewals: Counter,
    pub(crate) renewals_failed: Counter,
    pub(crate) at_risk: Counter,
    pub(crate) lost: Counter,
    pub(crate) settled: Counter,
    /// That of lost holds.
    pub(crate) hold_nanos: Counter,
}

/// What a client has counted since it was made, and what it has now. Counters only grow; export
/// them as such.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// Holds that were granted by the server.
    pub acquired: u64,
    /// Guards that were given on a hold of the same owner, without the server.
    pub reentered: u64,
    /// Requests that had to wait for a local turn or for a holder.
    pub waited: u64,
    /// Requests whose limit passed.
    pub timed_out: u64,
    /// Acquires that were sent.
    pub attempts: u64,
    /// Acquires that ended in an error.
    pub attempts_failed: u64,
    /// Grants that arrived when they were no longer of use.
    pub grants_too_late: u64,
    /// Holds that ended because their user was done with them.
    pub released: u64,
    /// Renewals of one hold that succeeded.
    pub renewals: u64,
    /// Renewals of one hold that were left unanswered or failed.
    pub renewals_failed: u64,
    /// How often a hold went at risk.
    pub at_risk: u64,
    /// Holds that were lost.
    pub lost: u64,
    /// Claims with a missing answer that were settled in the background.
    pub settled: u64,
    /// The time that granted requests took, summed up.
    pub wait_time: Duration,
    /// The time that ended holds were held for, summed up.
    pub hold_time: Duration,
    /// Holds that are live now.
    pub held: u64,
    /// Releases that go on in the background now.
    pub releasing: u64,
}

impl Metrics {
    pub(crate) fn snapshot(&self, totals: Totals, held: u64, releasing: u64) -> MetricsSnapshot {
        MetricsSnapshot {
            acquired: totals.acquired,
            reentered: self.reentered.get(),
            waited: self.waited.get(),
            timed_out: self.timed_out.get(),
            attempts: totals.acquired + self.attempts.get(),
            attempts_failed: self.attempts_failed.get(),
            grants_too_late: self.grants_too_late.get(),
            released: totals.released,
            renewals: self.renewals.get(),
            renewals_failed: self.renewals_failed.get(),
            at_risk: self.at_risk.get(),
            lost: self.lost.get(),
            settled: self.settled.get(),
            wait_time: Duration::from_nanos(totals.wait_nanos),
            hold_time: Duration::from_nanos(totals.hold_nanos + self.hold_nanos.get()),
            held,
            releasing,
        }
    }
}
