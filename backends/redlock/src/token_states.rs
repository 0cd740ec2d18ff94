//! State of each token's unfinished requests.
//!
//! A late release of one round could revoke the next round's vote. So a round holds the token's
//! [`NodeLock`] of each node until all its requests to that node have ended.
//!
//! A request without a reply leaves its node *in doubt*: the request may still take effect. A
//! release on this node leaves a tombstone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Fence, Token};
use tokio::sync::Mutex as AsyncMutex;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Nodes(u64);

impl Nodes {
    pub(crate) const MOST: usize = 63;

    pub(crate) fn add(&mut self, at: usize) {
        self.0 |= 1 << at;
    }

    pub(crate) fn remove(&mut self, at: usize) {
        self.0 &= !(1 << at);
    }

    pub(crate) fn contains(self, at: usize) -> bool {
        self.0 & 1 << at != 0
    }

    pub(crate) fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..Self::MOST).filter(move |at| self.contains(*at))
    }
}

#[derive(Debug)]
pub(crate) struct TokenState {
    requests: Mutex<Requests>,
    node_locks: Vec<AsyncMutex<NodeLock>>,
}

#[derive(Debug, Default)]
struct Requests {
    fence: Option<Fence>,
    in_doubt: Nodes,
    leaving: Nodes,
    ended: bool,
}

#[derive(Debug, Default)]
pub(crate) struct NodeLock {
    /// Set if a tombstone was sent or is pending: the token gets no further vote on the node.
    pub(crate) is_closed: bool,
}

impl TokenState {
    fn new(nodes: usize) -> Self {
        Self {
            requests: Mutex::default(),
            node_locks: (0..nodes).map(|_| AsyncMutex::default()).collect(),
        }
    }

    pub(crate) fn node_lock(&self, at: usize) -> &AsyncMutex<NodeLock> {
        &self.node_locks[at]
    }

    /// Records a request. Returns whether the node was already in doubt, or `None` after the
    /// token's release.
    pub(crate) fn record_request(&self, at: usize) -> Option<bool> {
        let mut requests = lock(&self.requests);
        if requests.ended {
            return None;
        }
        let was_in_doubt = requests.in_doubt.contains(at);
        requests.in_doubt.add(at);
        Some(was_in_doubt)
    }

    /// Records that a request was answered, or certainly had no effect.
    pub(crate) fn record_answer(&self, at: usize, was_in_doubt: bool) {
        if !was_in_doubt {
            lock(&self.requests).in_doubt.remove(at);
        }
    }

    pub(crate) fn in_doubt(&self) -> Nodes {
        lock(&self.requests).in_doubt
    }

    pub(crate) fn leave_at(&self, at: usize) {
        lock(&self.requests).leaving.add(at);
    }

    pub(crate) fn may_stay(&self, at: usize) {
        lock(&self.requests).leaving.remove(at);
    }

    /// Returns whether a failed round's vote on the node is being released. It doesn't count, even
    /// if a later round is granted.
    pub(crate) fn is_leaving(&self, at: usize) -> bool {
        lock(&self.requests).leaving.contains(at)
    }

    /// Returns the nodes that need tombstones.
    pub(crate) fn end(&self) -> Nodes {
        let mut requests = lock(&self.requests);
        requests.ended = true;
        requests.in_doubt
    }

    pub(crate) fn fence(&self) -> Option<Fence> {
        lock(&self.requests).fence
    }
}

#[derive(Debug)]
pub(crate) struct TokenStates {
    nodes: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    known: HashMap<Token, Weak<TokenState>>,
    held: HashMap<Token, Held>,
    sweep_known_at: usize,
    sweep_held_at: usize,
}

#[derive(Debug)]
struct Held {
    token_state: Arc<TokenState>,
    until: BootInstant,
}

const SWEEP_FROM: usize = 64;

impl TokenStates {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, inner: Mutex::default() }
    }

    pub(crate) fn of(&self, token: Token) -> Arc<TokenState> {
        let mut inner = lock(&self.inner);
        let known = inner.known.get(&token).and_then(Weak::upgrade);
        if let Some(token_state) = known.filter(|token_state| !lock(&token_state.requests).ended) {
            return token_state;
        }
        if inner.known.len() >= inner.sweep_known_at {
            inner.known.retain(|_, token_state| token_state.strong_count() > 0);
            inner.sweep_known_at = 2 * inner.known.len() + SWEEP_FROM;
        }
        let token_state = Arc::new(TokenState::new(self.nodes));
        inner.known.insert(token, Arc::downgrade(&token_state));
        token_state
    }

    pub(crate) fn known(&self, token: Token) -> Option<Arc<TokenState>> {
        let inner = lock(&self.inner);
        match inner.held.get(&token) {
            Some(held) => Some(Arc::clone(&held.token_state)),
            None => inner.known.get(&token).and_then(Weak::upgrade),
        }
    }

    /// Keeps the state until the token's release. Without one, keeps it for at least two TTLs.
    pub(crate) fn keep(
        &self,
        token: Token,
        token_state: &Arc<TokenState>,
        fence: Option<Fence>,
        now: BootInstant,
        ttl: Duration,
    ) {
        {
            let mut requests = lock(&token_state.requests);
            if requests.ended {
                return;
            }
            requests.fence = fence.or(requests.fence);
        }
        let mut inner = lock(&self.inner);
        if inner.held.len() >= inner.sweep_held_at {
            inner.held.retain(|_, held| held.until > now);
            inner.sweep_held_at = 2 * inner.held.len() + SWEEP_FROM;
        }
        let until = now + ttl * 2;
        inner.held.insert(token, Held { token_state: Arc::clone(token_state), until });
    }

    pub(crate) fn forget(&self, token: Token) {
        let mut inner = lock(&self.inner);
        inner.held.remove(&token);
        inner.known.remove(&token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BootInstant = BootInstant::from_nanos(1_000_000_000_000);
    const TTL: Duration = Duration::from_secs(1);

    #[test]
    fn an_old_doubt_is_not_cleared_by_a_new_answer() {
        let token_state = TokenState::new(3);
        assert_eq!(token_state.record_request(1), Some(false));
        assert_eq!(token_state.record_request(1), Some(true), "the first was never answered");
        token_state.record_answer(1, true);
        assert!(token_state.in_doubt().contains(1));
        assert_eq!(token_state.record_request(2), Some(false));
        token_state.record_answer(2, false);
        assert!(!token_state.in_doubt().contains(2));
    }

    #[test]
    fn memory_is_bounded_by_what_is_live() {
        let token_states = TokenStates::new(3);
        for _ in 0..10_000 {
            drop(token_states.of(Token::random()));
            let token = Token::random();
            let token_state = token_states.of(token);
            token_states.keep(token, &token_state, Some(Fence::new(1)), NOW, TTL);
            token_states.forget(token);
        }
        assert!(lock(&token_states.inner).known.len() < 1_000);
        assert!(lock(&token_states.inner).held.is_empty());
        let mut now = NOW;
        for _ in 0..10_000 {
            let token = Token::random();
            token_states.keep(token, &token_states.of(token), Some(Fence::new(1)), now, TTL);
            now = now + TTL;
        }
        assert!(lock(&token_states.inner).held.len() < 1_000);
    }
}
