use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::clock::nanos;

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

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) handed_over: Counter,
    pub(crate) handed_over_wait_nanos: Counter,
    pub(crate) fences_reserved: Counter,
    pub(crate) recalled: Counter,
    pub(crate) reentered: Counter,
    pub(crate) waited: Counter,
    pub(crate) timed_out: Counter,
    /// Acquire requests without a valid grant.
    pub(crate) attempts: Counter,
    pub(crate) attempts_failed: Counter,
    pub(crate) grants_too_late: Counter,
    pub(crate) renewals: Counter,
    pub(crate) renewals_failed: Counter,
    pub(crate) at_risk: Counter,
    pub(crate) lost: Counter,
    pub(crate) lost_warm: Counter,
    pub(crate) settled: Counter,
    /// The total duration of lost holds; `Totals` has that of released holds.
    pub(crate) hold_nanos: Counter,
}

/// Counters that the table's mutex protects.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) acquired: u64,
    pub(crate) released: u64,
    pub(crate) wait_nanos: u64,
    pub(crate) hold_nanos: u64,
}

/// A snapshot of a client's counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// Granted holds, including those that were handed over.
    pub acquired: u64,
    /// Holds that a request got from an earlier one of this client, without the server.
    pub handed_over: u64,
    /// Fences reserved by holds that could be handed over.
    pub fences_reserved: u64,
    /// Recalled holds.
    pub recalled: u64,
    /// Guards that share an earlier hold of their owner.
    pub reentered: u64,
    /// Requests that waited.
    pub waited: u64,
    /// Requests that reached their wait limit, or used all their tries.
    pub timed_out: u64,
    /// Acquire requests sent.
    pub attempts: u64,
    /// Failed acquire requests.
    pub attempts_failed: u64,
    /// Grants that arrived after the hold counted as lost.
    pub grants_too_late: u64,
    /// Released holds, including those that were handed over.
    pub released: u64,
    /// Successful renewals of a hold.
    pub renewals: u64,
    /// Failed renewals of a hold.
    pub renewals_failed: u64,
    /// How often a hold became [`AtRisk`](crate::HoldState::AtRisk).
    pub at_risk: u64,
    /// Holds that were lost while a guard had them.
    pub lost: u64,
    /// Dropped or unanswered claims that were released in the background.
    pub settled: u64,
    /// The total waiting time of granted requests.
    pub wait_time: Duration,
    /// The total duration of ended holds, including the time in which they were warm.
    pub hold_time: Duration,
    /// Live holds, including warm ones.
    pub held: u64,
    /// Releases in progress.
    pub releasing: u64,
}

impl Metrics {
    pub(crate) fn count_hand_over(&self, waited: Duration) {
        self.handed_over.add(1);
        self.handed_over_wait_nanos.add(nanos(waited));
    }

    pub(crate) fn snapshot(&self, totals: Totals, held: u64, releasing: u64) -> MetricsSnapshot {
        MetricsSnapshot {
            acquired: totals.acquired + self.handed_over.get(),
            handed_over: self.handed_over.get(),
            fences_reserved: self.fences_reserved.get(),
            recalled: self.recalled.get(),
            reentered: self.reentered.get(),
            waited: self.waited.get(),
            timed_out: self.timed_out.get(),
            attempts: totals.acquired + self.attempts.get(),
            attempts_failed: self.attempts_failed.get(),
            grants_too_late: self.grants_too_late.get(),
            released: totals.released + self.handed_over.get() + self.lost_warm.get(),
            renewals: self.renewals.get(),
            renewals_failed: self.renewals_failed.get(),
            at_risk: self.at_risk.get(),
            lost: self.lost.get(),
            settled: self.settled.get(),
            wait_time: Duration::from_nanos(totals.wait_nanos + self.handed_over_wait_nanos.get()),
            hold_time: Duration::from_nanos(totals.hold_nanos + self.hold_nanos.get()),
            held,
            releasing,
        }
    }
}
