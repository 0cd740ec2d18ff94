//! The time until which a session certainly lives, given the servers' responses.
//!
//! A follower answers pings and reads without the leader, so these prove nothing: if the follower
//! is cut off, the leader expires the session. On each ping from the leader, every half tick, the
//! follower reports its active sessions.
//!
//! So a proof takes two requests, the second at least a tick after the *response* to the first. By
//! then, the follower has reported the session, so the second response proves that the session
//! lived when the first request was sent. A tick after the *sending* is too early: a suspended
//! follower forwards both requests before it reports sessions.
//!
//! Each request deletes a missing node, which needs a quorum's commit: a replaced leader answers
//! `sync` without one for some ticks.

use std::collections::VecDeque;
use std::time::Duration;

use lockwright_core::BootInstant;

#[derive(Debug)]
pub(crate) struct LifetimeBound {
    pub(crate) tick: Duration,
    /// The servers keep the session for at least its timeout from this time.
    pub(crate) bound: BootInstant,
    unconfirmed: VecDeque<(BootInstant, BootInstant)>,
}

impl LifetimeBound {
    /// Starts the bound at `created`. The leader counts from the session's commit, which is later.
    pub(crate) fn new(created: BootInstant, tick: Duration) -> Self {
        Self { tick, bound: created, unconfirmed: VecDeque::new() }
    }

    pub(crate) fn committed(&mut self, sent: BootInstant, answered: BootInstant) {
        while let Some((first, its_answer)) = self.unconfirmed.front().copied() {
            if its_answer + self.tick > sent {
                break;
            }
            self.bound = self.bound.max(first);
            self.unconfirmed.pop_front();
        }
        // A response to an earlier request, out of order, proves nothing new.
        if self.unconfirmed.back().is_none_or(|(last, _)| *last < sent) {
            self.unconfirmed.push_back((sent, answered));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_request_counts_once_a_later_one_is_answered() {
        let mut bound = LifetimeBound::new(at(100), TICK);
        bound.committed(at(110), at(110));
        assert_eq!(bound.bound, at(100), "the leader may not have received it yet");
        bound.committed(at(111), at(111));
        assert_eq!(bound.bound, at(100), "nor within a tick");
        bound.committed(at(112), at(112));
        assert_eq!(bound.bound, at(110));
        bound.committed(at(120), at(120));
        assert_eq!(bound.bound, at(112));
    }

    #[test]
    fn a_request_counts_from_its_answer() {
        let mut bound = LifetimeBound::new(at(100), TICK);
        bound.committed(at(110), at(120));
        bound.committed(at(113), at(120));
        assert_eq!(bound.bound, at(100), "the leader may have received neither");
        bound.committed(at(121), at(121));
        assert_eq!(bound.bound, at(100), "nor within a tick");
        bound.committed(at(122), at(122));
        assert_eq!(bound.bound, at(113));
    }

    #[test]
    fn an_answer_that_comes_late_moves_nothing_back() {
        let mut bound = LifetimeBound::new(at(100), TICK);
        for sent in [110, 113, 116, 112, 111] {
            bound.committed(at(sent), at(sent));
        }
        assert_eq!(bound.bound, at(113));
        bound.committed(at(118), at(118));
        assert_eq!(bound.bound, at(116));
    }
}
