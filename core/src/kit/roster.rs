//! Who has a place in a session of ours, and until when.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::claim::Claim;
use crate::clock::{BootInstant, Clock};
use crate::name::LockName;
use crate::token::Token;

/// A token under a name: the same token under another name is another hold.
type Key = (LockName, Token);

/// For a server that ends whole sessions (the leases of etcd, the sessions of ZooKeeper) where a
/// client wants single holds to end: which claims have a place in a session, held or queued, and
/// until when if nobody renews them.
///
/// The server ends what a session carries when the process dies or is cut off. While the session
/// lives, for the sake of other holds, somebody must end those that are no longer renewed. That is
/// the backend itself: it asks for those that are [overdue](Self::mark_overdue) and removes them
/// from the server. So an end here must never be earlier than the one that the holder was told.
#[derive(Debug)]
pub struct Roster<P> {
    clock: Clock,
    state: Mutex<State<P>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<P> {
    places: HashMap<Key, Place<P>>,
    /// Nobody's place ends before this. Looked up anew only when it passes, as most who end next
    /// are renewed before.
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

impl<P: Clone> Roster<P> {
    /// Nobody yet.
    pub fn new(clock: Clock) -> Self {
        let state = State { places: HashMap::new(), earliest: BootInstant::FAR_FUTURE };
        Self { clock, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Notes the place of a claim. One that has a place gets this one instead.
    pub fn enter(&self, claim: &Claim, place: P, ends: BootInstant) {
        let mut state = self.state();
        state.places.insert(key(claim), Place { place, ends });
        self.ends_at(state, ends);
    }

    /// Notes a place that nobody knew of and that is to be removed, as one that was
    /// [overdue](Self::mark_overdue). False if the claim has a place.
    pub fn enter_overdue(&self, name: &LockName, token: Token, place: P) -> bool {
        match self.state().places.entry((name.clone(), token)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(Place { place, ends: BootInstant::FAR_FUTURE });
                true
            }
        }
    }

    /// The place of a claim.
    pub fn place(&self, claim: &Claim) -> Option<P> {
        self.state().places.get(&key(claim)).map(|found| found.place.clone())
    }

    /// Has a claim whose place is like this keep it until then at least. False if it has none.
    pub fn extend_if(&self, claim: &Claim, ends: BootInstant, is: impl Fn(&P) -> bool) -> bool {
        match self.state().places.get_mut(&key(claim)) {
            Some(found) if is(&found.place) => {
                found.ends = found.ends.max(ends);
                true
            }
            _ => false,
        }
    }

    /// Strikes a claim off.
    pub fn leave(&self, claim: &Claim) -> Option<P> {
        self.state().places.remove(&key(claim)).map(|found| found.place)
    }

    /// Strikes off all whose place `is_gone`, with their session say.
    pub fn leave_all(&self, is_gone: impl Fn(&P) -> bool) -> Vec<(LockName, Token, P)> {
        let mut state = self.state();
        let gone = state.places.extract_if(|_, found| is_gone(&found.place));
        gone.map(|((name, token), found)| (name, token, found.place)).collect()
    }

    /// Those that nobody has renewed in time, each changed by `mark` in the same step. They keep their
    /// place, so that a repeat meanwhile finds it, until they are [struck off](Self::leave_if), and are
    /// not overdue again before somebody enters them anew.
    pub fn mark_overdue(&self, mark: impl Fn(&mut P)) -> Vec<(LockName, Token, P)> {
        let now = self.clock.now();
        let mut state = self.state();
        let overdue = state.places.iter_mut().filter(|(_, found)| found.ends <= now);
        overdue
            .map(|((name, token), found)| {
                mark(&mut found.place);
                found.ends = BootInstant::FAR_FUTURE;
                (name.clone(), *token, found.place.clone())
            })
            .collect()
    }

    /// Strikes off a claim whose place is like this.
    pub fn leave_if(&self, name: &LockName, token: Token, is: impl Fn(&P) -> bool) -> Option<P> {
        match self.state().places.entry((name.clone(), token)) {
            Entry::Occupied(found) if is(&found.get().place) => Some(found.remove().place),
            _ => None,
        }
    }

    /// Has whoever waits for the next end look again, if this one comes before it.
    fn ends_at(&self, mut state: MutexGuard<'_, State<P>>, ends: BootInstant) {
        if ends < state.earliest {
            state.earliest = ends;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Waits until somebody may be overdue.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn until_overdue(&self) {
        loop {
            let next = self.state().earliest;
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
        let mut state = self.state();
        let next = state.places.values().map(|found| found.ends).min();
        state.earliest = next.unwrap_or(BootInstant::FAR_FUTURE);
        state.earliest
    }

    /// Whether any claim's place is like this.
    pub fn any(&self, mut is: impl FnMut(&LockName, Token, &P) -> bool) -> bool {
        self.state().places.iter().any(|((name, token), found)| is(name, *token, &found.place))
    }

    /// The claims whose place is like this, with it.
    pub fn all(&self, is: impl Fn(&LockName, &P) -> bool) -> Vec<(LockName, Token, P)> {
        self.state()
            .places
            .iter()
            .filter(|((name, _), found)| is(name, &found.place))
            .map(|((name, token), found)| (name.clone(), *token, found.place.clone()))
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::claim::Upkeep;
    use crate::identity::Identity;
    use crate::mode::Mode;

    const SECOND: Duration = Duration::from_secs(1);

    fn claim(name: &str) -> Claim {
        Claim {
            name: LockName::new(name).unwrap(),
            mode: Mode::Exclusive,
            token: Token::random(),
            identity: Arc::new(Identity::of_this_process(None)),
            ttl: SECOND,
            fences: 1,
            upkeep: Upkeep::Renewed,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_renewed_stays_and_who_is_not_is_overdue() {
        let clock = Clock::tokio();
        let roster = Roster::new(clock.clone());
        let (renewed, forgotten) = (claim("a"), claim("b"));
        roster.enter(&renewed, 1, clock.now() + SECOND);
        roster.enter(&forgotten, 2, clock.now() + SECOND);
        assert!(roster.extend_if(&renewed, clock.now() + SECOND * 2, |_| true));
        assert!(roster.mark_overdue(|_| ()).is_empty());
        roster.until_overdue().await;
        let overdue = roster.mark_overdue(|_| ());
        assert_eq!(overdue, [(forgotten.name.clone(), forgotten.token, 2)]);
        assert_eq!(roster.place(&renewed), Some(1));
        assert_eq!(roster.leave_if(&forgotten.name, forgotten.token, |_| true), Some(2));
        assert!(!roster.extend_if(&forgotten, clock.now() + SECOND, |_| true), "an end is an end");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_marked_keeps_its_place_until_it_is_struck_off() {
        let clock = Clock::tokio();
        let roster = Roster::new(clock.clone());
        let held = claim("a");
        roster.enter(&held, 1, clock.now() + SECOND);
        assert!(roster.mark_overdue(|place| *place = 2).is_empty());
        tokio::time::sleep(SECOND).await;
        let overdue = roster.mark_overdue(|place| *place = 2);
        assert_eq!(overdue, [(held.name.clone(), held.token, 2)]);
        assert!(roster.mark_overdue(|place| *place = 3).is_empty(), "it is once");
        assert_eq!(roster.place(&held), Some(2));
        assert_eq!(roster.leave_if(&held.name, held.token, |place| *place == 1), None);
        assert_eq!(roster.leave_if(&held.name, held.token, |place| *place == 2), Some(2));
        assert_eq!(roster.place(&held), None);
    }

    #[test]
    fn what_nobody_knew_of_takes_nobodys_place_and_is_not_overdue_twice() {
        let roster = Roster::new(Clock::boot());
        let (known, unknown) = (claim("a"), claim("b"));
        roster.enter(&known, 1, BootInstant::FAR_FUTURE);
        assert!(!roster.enter_overdue(&known.name, known.token, 2));
        assert!(roster.enter_overdue(&unknown.name, unknown.token, 2));
        assert_eq!((roster.place(&known), roster.place(&unknown)), (Some(1), Some(2)));
        assert!(roster.mark_overdue(|_| ()).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_is_never_moved_ahead() {
        let clock = Clock::tokio();
        let roster = Roster::new(clock.clone());
        let held = claim("a");
        roster.enter(&held, (), clock.now() + SECOND * 3);
        assert!(roster.extend_if(&held, clock.now() + SECOND, |_| true));
        tokio::time::sleep(SECOND * 2).await;
        assert!(roster.mark_overdue(|()| ()).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn somebody_who_comes_is_waited_for() {
        let clock = Clock::tokio();
        let roster = Arc::new(Roster::new(clock.clone()));
        let waiting = tokio::spawn({
            let roster = Arc::clone(&roster);
            async move { roster.until_overdue().await }
        });
        tokio::task::yield_now().await;
        let begun = clock.now();
        roster.enter(&claim("a"), (), begun + SECOND);
        waiting.await.unwrap();
        assert!(clock.now() >= begun + SECOND);
        assert_eq!(roster.mark_overdue(|()| ()).len(), 1);
    }
}
