use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;

use tokio::sync::Notify;

use super::lock;
use crate::{BootInstant, Claim, Clock, LockName, Token};

/// The name is part of the key, because one token under two names is two holds.
type Key = (LockName, Token);

/// A registry of claims, for servers that expire only whole sessions (etcd, ZooKeeper). With each
/// claim, the backend stores `P`: its place on the server, such as its session and node.
///
/// The backend must remove [overdue](Self::mark_overdue) claims from the server, which keeps them
/// as long as their session lives. A claim's registered end must never be before its holder's
/// deadline.
#[derive(Debug)]
pub struct ClaimRegistry<P> {
    clock: Clock,
    state: Mutex<State<P>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<P> {
    places: HashMap<Key, Place<P>>,
    /// No claim ends before this instant. Renewals don't raise it; `until_overdue` recomputes it.
    earliest: BootInstant,
}

#[derive(Debug)]
struct Place<P> {
    place: P,
    ends: BootInstant,
}

fn key(claim: &Claim) -> Key {
    (claim.name.clone(), claim.token)
}

impl<P: Clone> ClaimRegistry<P> {
    /// Creates an empty registry.
    pub fn new(clock: Clock) -> Self {
        let state = State { places: HashMap::new(), earliest: BootInstant::FAR_FUTURE };
        Self { clock, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Adds a claim, or replaces its place and end.
    pub fn enter(&self, claim: &Claim, place: P, ends: BootInstant) {
        let mut state = lock(&self.state);
        state.places.insert(key(claim), Place { place, ends });
        if ends < state.earliest {
            state.earliest = ends;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Adds an overdue claim, which the caller will remove and [`mark_overdue`](Self::mark_overdue)
    /// never returns. If the claim is already registered, changes nothing and returns false.
    pub fn enter_overdue(&self, name: &LockName, token: Token, place: P) -> bool {
        match lock(&self.state).places.entry((name.clone(), token)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(Place { place, ends: BootInstant::FAR_FUTURE });
                true
            }
        }
    }

    /// Returns a claim's place.
    pub fn place(&self, claim: &Claim) -> Option<P> {
        lock(&self.state).places.get(&key(claim)).map(|found| found.place.clone())
    }

    /// Extends a claim to at least `ends` if its place satisfies `is`. Otherwise returns false.
    pub fn extend_if(&self, claim: &Claim, ends: BootInstant, is: impl Fn(&P) -> bool) -> bool {
        match lock(&self.state).places.get_mut(&key(claim)) {
            Some(found) if is(&found.place) => {
                found.ends = found.ends.max(ends);
                true
            }
            _ => false,
        }
    }

    /// Removes a claim, and returns its place.
    pub fn leave(&self, claim: &Claim) -> Option<P> {
        lock(&self.state).places.remove(&key(claim)).map(|found| found.place)
    }

    /// Removes and returns all claims whose place `is_gone`.
    pub fn leave_all(&self, is_gone: impl Fn(&P) -> bool) -> Vec<(LockName, Token, P)> {
        let mut state = lock(&self.state);
        let gone = state.places.extract_if(|_, found| is_gone(&found.place));
        gone.map(|((name, token), found)| (name, token, found.place)).collect()
    }

    /// Returns the claims whose end has passed, and in the same step changes their places by
    /// `mark`. Returns each claim once per [`enter`](Self::enter). It stays registered until
    /// [removed](Self::leave_if).
    pub fn mark_overdue(&self, mark: impl Fn(&mut P)) -> Vec<(LockName, Token, P)> {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        let overdue = state.places.iter_mut().filter(|(_, found)| found.ends <= now);
        overdue
            .map(|((name, token), found)| {
                mark(&mut found.place);
                found.ends = BootInstant::FAR_FUTURE;
                (name.clone(), *token, found.place.clone())
            })
            .collect()
    }

    /// Removes the claim if its place satisfies `is`, and returns the place.
    pub fn leave_if(&self, name: &LockName, token: Token, is: impl Fn(&P) -> bool) -> Option<P> {
        match lock(&self.state).places.entry((name.clone(), token)) {
            Entry::Occupied(found) if is(&found.get().place) => Some(found.remove().place),
            _ => None,
        }
    }

    /// Waits until a claim may be [overdue](Self::mark_overdue).
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn until_overdue(&self) {
        loop {
            let next = lock(&self.state).earliest;
            if next == BootInstant::FAR_FUTURE {
                self.changed.notified().await;
            } else if next > self.clock.now() {
                tokio::select! {
                    () = self.changed.notified() => {}
                    () = self.clock.sleep_until(next) => {}
                }
            } else if self.look_for_the_next_end() <= self.clock.now() {
                return;
            }
        }
    }

    fn look_for_the_next_end(&self) -> BootInstant {
        let mut state = lock(&self.state);
        let next = state.places.values().map(|found| found.ends).min();
        state.earliest = next.unwrap_or(BootInstant::FAR_FUTURE);
        state.earliest
    }

    /// Returns whether `is` matches any claim.
    pub fn any(&self, mut is: impl FnMut(&LockName, Token, &P) -> bool) -> bool {
        lock(&self.state).places.iter().any(|((name, token), found)| is(name, *token, &found.place))
    }

    /// Returns the claims that `is` matches.
    pub fn all(&self, is: impl Fn(&LockName, &P) -> bool) -> Vec<(LockName, Token, P)> {
        let state = lock(&self.state);
        let matching = state.places.iter().filter(|((name, _), found)| is(name, &found.place));
        matching.map(|((name, token), found)| (name.clone(), *token, found.place.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::backend_util::tests::claim;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn unrenewed_claim_is_overdue_once_and_keeps_its_place_until_removed() {
        let clock = Clock::tokio();
        let registry = ClaimRegistry::new(clock.clone());
        let (renewed, forgotten) = (claim("a"), claim("b"));
        registry.enter(&renewed, 1, clock.now() + SECOND);
        registry.enter(&forgotten, 2, clock.now() + SECOND);
        // The second extension is shorter, and changes nothing.
        for end in [SECOND * 2, SECOND / 2] {
            assert!(registry.extend_if(&renewed, clock.now() + end, |_| true));
        }
        assert!(registry.mark_overdue(|place| *place = 3).is_empty());
        registry.until_overdue().await;
        let overdue = registry.mark_overdue(|place| *place = 3);
        assert_eq!(overdue, [(forgotten.name.clone(), forgotten.token, 3)]);
        assert!(registry.mark_overdue(|place| *place = 4).is_empty(), "it is once");
        assert_eq!((registry.place(&renewed), registry.place(&forgotten)), (Some(1), Some(3)));
        let leave = |place| registry.leave_if(&forgotten.name, forgotten.token, |is| *is == place);
        assert_eq!((leave(2), leave(3), leave(3)), (None, Some(3), None));
        assert!(!registry.extend_if(&forgotten, clock.now() + SECOND, |_| true), "it has ended");
    }

    #[test]
    fn unknown_waiter_takes_no_place_and_is_not_overdue_twice() {
        let registry = ClaimRegistry::new(Clock::boot());
        let (known, unknown) = (claim("a"), claim("b"));
        registry.enter(&known, 1, BootInstant::FAR_FUTURE);
        assert!(!registry.enter_overdue(&known.name, known.token, 2));
        assert!(registry.enter_overdue(&unknown.name, unknown.token, 2));
        assert_eq!((registry.place(&known), registry.place(&unknown)), (Some(1), Some(2)));
        assert!(registry.mark_overdue(|_| ()).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn somebody_who_comes_is_waited_for() {
        let clock = Clock::tokio();
        let registry = Arc::new(ClaimRegistry::new(clock.clone()));
        let waiting = tokio::spawn({
            let registry = Arc::clone(&registry);
            async move { registry.until_overdue().await }
        });
        tokio::task::yield_now().await;
        let begun = clock.now();
        registry.enter(&claim("a"), (), begun + SECOND);
        waiting.await.unwrap();
        assert!(clock.now() >= begun + SECOND);
        assert_eq!(registry.mark_overdue(|()| ()).len(), 1);
    }
}
