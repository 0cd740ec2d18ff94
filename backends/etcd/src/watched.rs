//! Registration of the keys whose deletion wakes a waiter or ends a hold.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lockwright_core::backend_util::{Subscribers, lock};
use lockwright_core::{LockName, Token};
use tokio::sync::watch;

/// The polling interval of a waiter. It is long, because the watch reports each deletion, and a new
/// watch wakes all waiters.
pub(crate) const SLOW_POLL: Duration = Duration::from_secs(10);

/// The number of remembered deletions. They are needed because the watch may report a key's
/// deletion before the client has the response to the acquire that put the key.
const RECENT: usize = 256;

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
    recorders: HashMap<LockName, (usize, Vec<Vec<u8>>)>,
    /// Tokens and creation revisions of held keys. A later hold may have the same key, but has a
    /// higher revision.
    held: HashMap<Vec<u8>, (Token, i64)>,
    recent: VecDeque<(Vec<u8>, i64)>,
}

pub(crate) struct DeletionRecorder<'a> {
    wakeups: &'a Wakeups,
    name: LockName,
}

impl DeletionRecorder<'_> {
    /// Registers the keys whose deletion wakes the waiter. Returns false if a key is already
    /// deleted.
    pub(crate) fn waits_for(&self, keys: &[&Vec<u8>]) -> bool {
        let mut state = lock(&self.wakeups.state);
        for key in keys {
            let gone = state.recorders.get(&self.name);
            if gone.is_some_and(|(_, gone)| gone.contains(key)) {
                return false;
            }
            state.waited.insert(key.to_vec(), self.name.clone());
        }
        true
    }
}

impl Drop for DeletionRecorder<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.wakeups.state);
        if let Some((count, _)) = state.recorders.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                state.recorders.remove(&self.name);
            }
        }
    }
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
    pub(crate) fn record_deletions(&self, name: &LockName) -> DeletionRecorder<'_> {
        lock(&self.state).recorders.entry(name.clone()).or_default().0 += 1;
        DeletionRecorder { wakeups: self, name: name.clone() }
    }

    /// Registers a held key. Returns false if the key is already deleted.
    pub(crate) fn holds(&self, key: &[u8], token: Token, created: i64) -> bool {
        let mut state = lock(&self.state);
        if state.recent.iter().any(|(gone, at)| gone == key && *at > created) {
            return false;
        }
        state.held.insert(key.to_vec(), (token, created));
        true
    }

    pub(crate) fn forget(&self, key: &[u8]) -> Option<Token> {
        lock(&self.state).held.remove(key).map(|(token, _)| token)
    }

    pub(crate) fn record_deletion(
        &self,
        name: &LockName,
        key: &[u8],
        at: i64,
    ) -> (Option<LockName>, Option<Token>) {
        let mut state = lock(&self.state);
        if let Some((_, gone)) = state.recorders.get_mut(name) {
            gone.push(key.to_vec());
        }
        let is_it = state.held.get(key).is_some_and(|(_, created)| *created < at);
        let lost = if is_it { state.held.remove(key) } else { None };
        if state.recent.len() == RECENT {
            state.recent.pop_front();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletion_before_the_answer_of_the_acquire_is_a_loss() {
        let (wakeups, token) = (Wakeups::default(), Token::random());
        let name = LockName::new("x").unwrap();
        assert_eq!(wakeups.record_deletion(&name, b"locks/x", 5), (None, None));
        assert!(!wakeups.holds(b"locks/x", token, 4));
        assert!(wakeups.holds(b"locks/x", token, 6));
        assert_eq!(wakeups.record_deletion(&name, b"locks/x", 7), (None, Some(token)));
    }
}
