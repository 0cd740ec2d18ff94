//! Registration of the keys whose deletion wakes a waiter or ends a hold.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
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
    deletions: HashMap<LockName, Deletions>,
    /// Tokens and creation revisions of held keys. A later hold may have the same key, but has a
    /// higher revision.
    held: HashMap<Vec<u8>, (Token, i64)>,
    recent: VecDeque<(Vec<u8>, i64)>,
}

/// A name's deletions since the start of its oldest recorder.
#[derive(Debug, Default)]
struct Deletions {
    /// Keys and deletion revisions.
    gone: VecDeque<(Vec<u8>, i64)>,
    /// The number of deletions that were removed from `gone`.
    removed: usize,
    /// The recorders: how many started after how many deletions.
    starts: BTreeMap<usize, usize>,
}

pub(crate) struct DeletionRecorder<'a> {
    wakeups: &'a Wakeups,
    name: LockName,
    start: usize,
}

impl DeletionRecorder<'_> {
    /// Registers the keys whose deletion wakes the waiter. Returns false if a key is already
    /// deleted. The revisions are the keys' creation revisions: a new key may have the same name as
    /// a deleted one.
    pub(crate) fn waits_for(&self, keys: &[(&[u8], i64)]) -> bool {
        let mut state = lock(&self.wakeups.state);
        let State { deletions, waited, .. } = &mut *state;
        let Some(Deletions { gone, removed, .. }) = deletions.get(&self.name) else { return false };
        for (key, created) in keys {
            let mut since = gone.range(self.start - removed..);
            if since.any(|(gone, at)| gone == key && at > created) {
                return false;
            }
            waited.insert(key.to_vec(), self.name.clone());
        }
        true
    }
}

impl Drop for DeletionRecorder<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.wakeups.state);
        let Entry::Occupied(mut entry) = state.deletions.entry(self.name.clone()) else { return };
        let Deletions { gone, removed, starts } = entry.get_mut();
        if let Some(count) = starts.get_mut(&self.start) {
            *count -= 1;
            if *count == 0 {
                starts.remove(&self.start);
            }
        }
        match starts.first_key_value() {
            None => drop(entry.remove()),
            Some((oldest, _)) => {
                gone.drain(..oldest - *removed);
                *removed = *oldest;
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
        let mut state = lock(&self.state);
        let deletions = state.deletions.entry(name.clone()).or_default();
        let start = deletions.removed + deletions.gone.len();
        *deletions.starts.entry(start).or_default() += 1;
        DeletionRecorder { wakeups: self, name: name.clone(), start }
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
        if let Some(deletions) = state.deletions.get_mut(name) {
            deletions.gone.push_back((key.to_vec(), at));
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

    #[test]
    fn deletion_of_an_earlier_key_ends_no_wait() {
        let (wakeups, name) = (Wakeups::default(), LockName::new("x").unwrap());
        let [first, second] = [(); 2].map(|()| wakeups.record_deletions(&name));
        wakeups.record_deletion(&name, b"locks/x", 5);
        assert!(!second.waits_for(&[(b"locks/x", 4)]));
        assert!(second.waits_for(&[(b"locks/x", 6)]), "a key that was put again");
        drop(first);
        let third = wakeups.record_deletions(&name);
        assert!(third.waits_for(&[(b"locks/x", 6)]));
        wakeups.record_deletion(&name, b"locks/x", 7);
        for recorder in [&second, &third] {
            assert!(!recorder.waits_for(&[(b"locks/x", 6)]));
        }
        drop((second, third));
        assert!(lock(&wakeups.state).deletions.is_empty());
    }

    #[test]
    fn deletions_are_forgotten_while_recorders_overlap() {
        let (wakeups, name) = (Wakeups::default(), LockName::new("x").unwrap());
        let mut recorders = VecDeque::from([wakeups.record_deletions(&name)]);
        for at in 0..10_000 {
            recorders.push_back(wakeups.record_deletions(&name));
            wakeups.record_deletion(&name, b"locks/x", at);
            if recorders.len() > 3 {
                recorders.pop_front();
            }
            let kept = lock(&wakeups.state).deletions[&name].gone.len();
            assert!(kept <= 3, "{kept}");
        }
    }
}
