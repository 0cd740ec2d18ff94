//! The computation of deadlines, in the client only.
//!
//! A deadline is `start + min(requested TTL, TTL in effect) − drift`. The client takes `start` just
//! before it sends the request, so the deadline is before the server's expiry. The drift covers
//! different clock rates (Redlock: "Distributed Locks with Redis"). `docs/src/guarantees.md` has a
//! diagram.

use std::time::Duration;

use crate::clock::nanos;
use crate::{BootInstant, Error, Result};

/// The settings for deadlines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The drift as a fraction of the TTL: 0.01 is 1 %.
    pub drift_rate: f64,
    /// A constant added to the drift, for inexact timers.
    pub drift_floor: Duration,
    /// The [margin](Self::margin) as a fraction of the TTL.
    pub margin_rate: f64,
    /// The largest margin.
    pub margin_limit: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            drift_rate: 0.01,
            drift_floor: Duration::from_millis(2),
            margin_rate: 0.1,
            margin_limit: Duration::from_secs(1),
        }
    }
}

impl Rules {
    /// Returns how long a hold is valid: the TTL without the drift.
    pub fn validity(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(part(ttl, self.drift_rate) + self.drift_floor)
    }

    /// Returns the time between the reported loss and the deadline.
    pub fn margin(&self, ttl: Duration) -> Duration {
        part(ttl, self.margin_rate).min(self.margin_limit)
    }

    /// Checks that a renewal and one retry fit before the loss.
    pub(crate) fn check(&self, ttl: Duration) -> Result<()> {
        let lengths = self.lengths(ttl);
        if lengths.lost >= lengths.renew + nanos(ttl) / 20 {
            return Ok(());
        }
        Err(Error::invalid_input(format!(
            "a hold with a TTL of {ttl:?} is lost before its renewal after {:?}, because of the drift \
             ({:?}) and the margin ({:?}); use a longer TTL, or a smaller drift or margin",
            Duration::from_nanos(lengths.renew),
            ttl.saturating_sub(self.validity(ttl)),
            self.margin(ttl),
        )))
    }

    /// Returns the term of a request sent at `start`. `in_effect` is the server's TTL, if it
    /// differs from `asked`.
    pub fn term(&self, start: BootInstant, asked: Duration, in_effect: Option<Duration>) -> Term {
        let ttl = in_effect.map_or(asked, |in_effect| in_effect.min(asked));
        self.lengths(ttl).from(start)
    }

    pub(crate) fn lengths(&self, ttl: Duration) -> Lengths {
        let (validity, margin) = (nanos(self.validity(ttl)), nanos(self.margin(ttl)));
        Lengths {
            renew: nanos(ttl) / 3,
            at_risk: validity / 2,
            lost: validity.saturating_sub(margin),
            deadline: validity,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    renew: u64,
    at_risk: u64,
    lost: u64,
    deadline: u64,
}

impl Lengths {
    pub(crate) fn from(self, start: BootInstant) -> Term {
        let after = |time: u64| BootInstant::from_nanos(start.as_nanos().saturating_add(time));
        Term {
            renew_at: after(self.renew),
            at_risk_at: after(self.at_risk),
            lost_at: after(self.lost),
            deadline: after(self.deadline),
        }
    }
}

fn part(time: Duration, rate: f64) -> Duration {
    Duration::from_nanos((nanos(time) as f64 * rate) as u64)
}

/// The instants of a confirmed hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// When the client renews the hold.
    pub renew_at: BootInstant,
    /// When the hold is at risk, because its renewal is overdue.
    pub at_risk_at: BootInstant,
    /// When the hold counts as lost, before the deadline.
    pub lost_at: BootInstant,
    /// When the holder must stop relying on the hold.
    pub deadline: BootInstant,
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootInstant = BootInstant::from_nanos(1_000_000_000);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_deadline_is_the_ttl_less_the_drift_after_the_start() {
        let term = Rules::default().term(START, ms(30_000), None);
        assert_eq!(term.deadline, START + ms(30_000 - 300 - 2));
        assert_eq!(term.lost_at, term.deadline - ms(1_000));
        assert_eq!(term.renew_at, START + ms(10_000));
        assert_eq!(term.at_risk_at, START + ms(29_698) / 2);
    }

    #[test]
    fn rules_leave_time_for_a_renewal_or_are_rejected() {
        let rules = |drift_rate, margin_rate, margin_limit| Rules {
            drift_rate,
            drift_floor: ms(0),
            margin_rate,
            margin_limit: ms(margin_limit),
        };
        assert!(rules(0.45, 0.45, 60_000).check(ms(3_000)).is_err());
        assert!(rules(0.0, 0.499, 60_000).check(ms(3_000)).is_ok());
        assert!(rules(0.499, 0.0, 60_000).check(ms(3_000)).is_ok());
        // A renewal after 1/3 of the TTL and a retry 1/20 later leave 0.6166 for drift and margin.
        assert!(rules(0.3, 0.316, 60_000).check(ms(6_000)).is_ok());
        assert!(rules(0.3, 0.317, 60_000).check(ms(6_000)).is_err());
        assert!(rules(0.45, 0.45, 1_000).check(ms(5_900)).is_err());
        assert!(rules(0.45, 0.45, 1_000).check(ms(6_100)).is_ok());
        let floor = Rules { drift_floor: ms(40), ..rules(0.0, 0.1, 1_000) };
        assert!(floor.check(ms(77)).is_err());
        assert!(floor.check(ms(78)).is_ok());
        for millis in [10, 50, 1_000, 30_000, 86_400_000] {
            let (term, room) = (Rules::default().term(START, ms(millis), None), ms(millis) / 20);
            assert!(Rules::default().check(ms(millis)).is_ok(), "{millis}");
            assert!(term.lost_at >= term.renew_at + room, "{millis}: {term:?}");
        }
    }

    #[test]
    fn instants_are_in_order_for_every_ttl() {
        let rules = Rules::default();
        for millis in [0, 1, 2, 3, 10, 50, 1_000, 86_400_000, u64::from(u32::MAX)] {
            let term = rules.term(START, ms(millis), None);
            assert!(START <= term.lost_at && term.lost_at <= term.deadline.max(START));
            assert!(term.deadline <= START + ms(millis), "{millis}: {term:?}");
        }
    }
}
