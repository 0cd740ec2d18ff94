//! Spreads the requests of waiters. A release wakes all waiters, but only one can get the lock.
//!
//! After a grant, a client's next claim of the name sends no request before most of its usual wait
//! has passed, so the longest waiting client usually sends the first. A client that releases a lock
//! for which others wait pauses before its next claim. A wrong pause costs only time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use lockwright_core::backend_util::lock;
use lockwright_core::{Claim, LockName, Token};

/// The longest remembered wait, so that the pause is short once other waiters have left.
const LONGEST: Duration = Duration::from_millis(64);

/// The shortest pause for which a timer is worthwhile.
const SHORTEST: Duration = Duration::from_millis(1);

/// The least pause before a client reclaims a lock that it released while others waited.
const YIELD: Duration = Duration::from_millis(2);

const REMEMBERED: Duration = Duration::from_secs(1);

const CAPACITY: usize = 1024;

#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<LockName, Turn>>);

struct Turn {
    token: Token,
    began: Instant,
    asked: Instant,
    was_busy: bool,
    usual_wait: Duration,
    yields: bool,
}

impl Turns {
    pub(super) fn pause(&self, claim: &Claim, now: Instant) -> Option<Duration> {
        let mut turns = lock(&self.0);
        let known = turns.get_mut(&claim.name).filter(|turn| turn.asked + REMEMBERED > now);
        let Some(turn) = known else {
            if turns.len() >= CAPACITY {
                turns.clear();
            }
            turns.insert(claim.name.clone(), Turn::new(claim.token, now));
            return None;
        };
        turn.was_busy = turn.token == claim.token;
        if !turn.was_busy {
            (turn.token, turn.began) = (claim.token, now);
        }
        turn.asked = now;
        let least = if turn.yields { YIELD } else { Duration::ZERO };
        let due = turn.began + (turn.usual_wait * 7 / 8).max(least);
        Some(due.saturating_duration_since(now)).filter(|pause| *pause >= SHORTEST)
    }

    pub(super) fn granted(&self, claim: &Claim, now: Instant) {
        if let Some(turn) = lock(&self.0).get_mut(&claim.name)
            && turn.token == claim.token
        {
            // Without a rejection, the pause was probably too long, so half the wait counts.
            let waited = (now - turn.began) / if turn.was_busy { 1 } else { 2 };
            turn.usual_wait = (turn.usual_wait * 3 + waited.min(LONGEST)) / 4;
        }
    }

    pub(super) fn released(&self, claim: &Claim, others_wait: bool) {
        if let Some(turn) = lock(&self.0).get_mut(&claim.name) {
            turn.yields = others_wait;
        }
    }
}

impl Turn {
    fn new(token: Token, now: Instant) -> Self {
        let usual_wait = Duration::ZERO;
        Self { token, began: now, asked: now, was_busy: false, usual_wait, yields: false }
    }
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers::claim;

    use super::*;

    fn contend(turns: &Turns, count: u32, wait: Duration, mut now: Instant) -> Instant {
        for _ in 0..count {
            let claim = claim("x");
            turns.pause(&claim, now);
            now += wait;
            turns.pause(&claim, now);
            turns.granted(&claim, now);
            turns.released(&claim, true);
        }
        now
    }

    #[test]
    fn claim_asks_when_most_of_the_usual_wait_has_passed() {
        let turns = Turns::default();
        let wait = Duration::from_millis(40);
        let now = contend(&turns, 40, wait, Instant::now());
        let next = claim("x");
        let pause = turns.pause(&next, now).unwrap();
        assert!(pause > wait / 2 && pause < wait, "{pause:?}");
        let left = turns.pause(&next, now + wait / 2).unwrap();
        assert!(left < pause / 2, "{left:?} of {pause:?}");
        assert_eq!(turns.pause(&next, now + wait), None);
        assert_eq!(turns.pause(&claim("another"), now), None);
        assert_eq!(turns.pause(&claim("x"), now + wait + REMEMBERED), None);
    }

    #[test]
    fn pauses_of_a_client_that_is_alone_again_end() {
        let turns = Turns::default();
        let mut now = contend(&turns, 40, LONGEST * 10, Instant::now());
        let mut sum = Duration::ZERO;
        for _ in 0..100 {
            let claim = claim("x");
            let pause = turns.pause(&claim, now).unwrap_or_default();
            assert!(pause < LONGEST, "{pause:?}");
            (sum, now) = (sum + pause, now + pause);
            turns.granted(&claim, now);
            turns.released(&claim, false);
        }
        assert_eq!(turns.pause(&claim("x"), now), None, "after pauses of {sum:?}");
        assert!(sum < LONGEST * 8, "{sum:?}");
    }

    #[test]
    fn client_lets_others_ask_after_its_release() {
        let turns = Turns::default();
        let now = contend(&turns, 1, Duration::ZERO, Instant::now());
        assert_eq!(turns.pause(&claim("x"), now), Some(YIELD));
    }
}
