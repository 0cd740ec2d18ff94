use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lockwright_core::backend_util::{Subscribers, lock};
use lockwright_core::{LockName, Token};
use tokio::sync::watch;

/// A waiter's polling interval while the watch is active: long, because the watch reports each
/// deletion, and a new watch wakes all waiters.
pub(crate) const SLOW_POLL: Duration = Duration::from_secs(10);

/// The number of remembered deletions: the watch may report a key's deletion before the client has
/// the response that shows the key.
const RECENT: usize = 4_096;

#[derive(Debug)]
pub(crate) struct Wakeups {
    pub(crate) subscribers: Subscribers,
    state: Mutex<State>,
    pub(crate) is_started: AtomicBool,
    pub(crate) is_active: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    waited: HashMap<Vec<u8>, LockName>,
    /// Tokens and creation revisions of held keys. A later hold may have the same key, but has a
    /// higher revision.
    held: HashMap<Vec<u8>, (Token, i64)>,
    recent: VecDeque<(Vec<u8>, i64)>,
    forgotten: usize,
}

impl Default for Wakeups {
    fn default() -> Self {
        Self {
            subscribers: Subscribers::new(SLOW_POLL),
            state: Mutex::default(),
            is_started: AtomicBool::new(false),
            is_active: watch::Sender::new(false),
        }
    }
}

impl Wakeups {
    pub(crate) fn deletion_count(&self) -> usize {
        let state = lock(&self.state);
        state.forgotten + state.recent.len()
    }

    /// Registers the keys whose deletion wakes the waiter. Returns false if one may have been
    /// deleted since the number of deletions was `before`. `keys` has creation revisions, because a
    /// new key may have a deleted one's name.
    pub(crate) fn waits_for(&self, name: &LockName, keys: &[(&[u8], i64)], before: usize) -> bool {
        let State { waited, recent, forgotten, .. } = &mut *lock(&self.state);
        let Some(start) = before.checked_sub(*forgotten) else { return false };
        for (key, created) in keys {
            if recent.range(start..).any(|(gone, at)| at > created && gone == key) {
                return false;
            }
            waited.insert(key.to_vec(), name.clone());
        }
        true
    }

    /// Registers a held key. Returns false if the key is already deleted.
    pub(crate) fn holds(&self, key: &[u8], token: Token, created: i64) -> bool {
        let mut state = lock(&self.state);
        // Revisions rise, so this search ends at the first deletion before the key's creation.
        let mut later = state.recent.iter().rev().take_while(|(_, at)| *at > created);
        if later.any(|(gone, _)| gone == key) {
            return false;
        }
        state.held.insert(key.to_vec(), (token, created));
        true
    }

    pub(crate) fn forget(&self, key: &[u8]) -> Option<Token> {
        lock(&self.state).held.remove(key).map(|(token, _)| token)
    }

    /// Records a deletion. Returns the name whose waiters it wakes, and the token of the hold that
    /// it ends.
    pub(crate) fn record_deletion(&self, key: &[u8], at: i64) -> (Option<LockName>, Option<Token>) {
        let mut state = lock(&self.state);
        let is_it = state.held.get(key).is_some_and(|(_, created)| *created < at);
        let lost = if is_it { state.held.remove(key) } else { None };
        if state.recent.len() == RECENT {
            state.recent.pop_front();
            state.forgotten += 1;
        }
        state.recent.push_back((key.to_vec(), at));
        (state.waited.remove(key), lost.map(|(token, _)| token))
    }

    pub(crate) fn is_active(&self) -> bool {
        *self.is_active.borrow()
    }

    pub(crate) fn wake_after_gap(&self) {
        lock(&self.state).waited.clear();
        self.subscribers.wake_all();
    }

    /// Forgets the deletions, whose revisions mean nothing once the store's has gone back.
    pub(crate) fn forget_deletions(&self) {
        let mut state = lock(&self.state);
        state.forgotten += state.recent.len();
        state.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletion_before_the_answer_of_the_acquire_is_a_loss() {
        let (wakeups, token) = (Wakeups::default(), Token::random());
        assert_eq!(wakeups.record_deletion(b"locks/x", 5), (None, None));
        assert!(!wakeups.holds(b"locks/x", token, 4));
        wakeups.wake_after_gap();
        assert!(!wakeups.holds(b"locks/x", token, 4), "a gap comes after the recorded deletions");
        assert!(wakeups.holds(b"locks/x", token, 6));
        assert_eq!(wakeups.record_deletion(b"locks/x", 7), (None, Some(token)));
        wakeups.forget_deletions();
        assert!(wakeups.holds(b"locks/x", token, 3), "the store's revision has gone back");
    }

    #[test]
    fn deletion_ends_waits_that_began_before_it() {
        let (wakeups, name) = (Wakeups::default(), LockName::new("x").unwrap());
        let before = wakeups.deletion_count();
        wakeups.record_deletion(b"locks/x", 5);
        assert!(!wakeups.waits_for(&name, &[(b"locks/x", 4)], before));
        assert!(wakeups.waits_for(&name, &[(b"locks/x", 6)], before), "a key that was put again");
        let later = wakeups.deletion_count();
        assert!(wakeups.waits_for(&name, &[(b"locks/x", 4)], later));
        assert_eq!(wakeups.record_deletion(b"locks/x", 7), (Some(name.clone()), None));
        (0..RECENT).for_each(|_| drop(wakeups.record_deletion(b"locks/y", 8)));
        assert!(!wakeups.waits_for(&name, &[(b"locks/x", 6)], later), "it is forgotten");
    }
}
