use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use super::lock;
use crate::{BootInstant, Claim, Clock, LockName, Reason, Token};

const REMEMBERED: Duration = Duration::from_secs(60 * 60);

const MANY: usize = 1_000;

/// The tombstones of ended claims, so that a late repeat of an acquire isn't handled as a new
/// claim. A tombstone is kept for at least an hour or the claim's TTL, whichever is longer.
#[derive(Debug)]
pub struct EndedClaims {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    claims: HashMap<(LockName, Token), (Reason, BootInstant)>,
    tidy_at: usize,
}

impl EndedClaims {
    /// Creates an empty set.
    pub fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::new(State { claims: HashMap::new(), tidy_at: MANY }) }
    }

    /// Adds a tombstone, unless the claim has one.
    pub fn set(&self, claim: &Claim, reason: Reason) {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        if state.claims.len() >= state.tidy_at {
            state.claims.retain(|_, (_, until)| *until > now);
            state.tidy_at = (state.claims.len() * 2).max(MANY);
        }
        let until = now + claim.ttl.max(REMEMBERED);
        state.claims.entry((claim.name.clone(), claim.token)).or_insert((reason, until));
    }

    /// Returns why a claim ended, if it has a tombstone.
    pub fn reason(&self, claim: &Claim) -> Option<Reason> {
        let key = (claim.name.clone(), claim.token);
        lock(&self.state).claims.get(&key).map(|(reason, _)| *reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend_util::tests::claim;

    #[test]
    fn ended_hold_is_remembered_with_its_first_reason() {
        let over = EndedClaims::new(Clock::boot());
        let (one, mut other) = (claim("a"), claim("b"));
        over.set(&one, Reason::Broken);
        over.set(&one, Reason::Gone);
        other.token = one.token;
        assert_eq!(over.reason(&one), Some(Reason::Broken));
        assert_eq!((over.reason(&other), over.reason(&claim("a"))), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn old_ones_are_forgotten_when_there_are_many() {
        let clock = Clock::tokio();
        let over = EndedClaims::new(clock.clone());
        let first = claim("first");
        over.set(&first, Reason::Gone);
        tokio::time::sleep(REMEMBERED + Duration::from_secs(1)).await;
        assert_eq!(over.reason(&first), Some(Reason::Gone), "there is room");
        (0..MANY).for_each(|_| over.set(&claim("more"), Reason::Gone));
        assert_eq!(over.reason(&first), None);
    }
}
