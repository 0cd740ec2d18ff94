//! State of each token's requests in flight.
//!
//! A waiter may request a token several times. Its requests to one node must not overtake each other: a late release of
//! one round would revoke the next round's vote. So each token has a *lane* (a lock) per node, which a round holds
//! until it is done with that node.
//!
//! A request without a reply leaves its node *in doubt*: it may still take effect, so the release has a tombstone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lockwright_core::{BootInstant, Fence, Token};
use tokio::sync::Mutex as AsyncMutex;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Nodes(u64);

impl Nodes {
    /// Maximum number of nodes in a fleet.
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
pub(crate) struct Track {
    state: Mutex<State>,
    lanes: Vec<AsyncMutex<Lane>>,
}

#[derive(Debug, Default)]
struct State {
    fence: Option<Fence>,
    in_doubt: Nodes,
    /// Nodes with a due release of a failed round.
    leaving: Nodes,
    ended: bool,
}

/// A token's state on one node.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Set after a release with a tombstone, sent or pending.
    pub(crate) is_closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    Clear,
    InDoubt,
    Ended,
}

impl Track {
    fn new(nodes: usize) -> Self {
        Self { state: Mutex::default(), lanes: (0..nodes).map(|_| AsyncMutex::default()).collect() }
    }

    pub(crate) fn lane(&self, at: usize) -> &AsyncMutex<Lane> {
        &self.lanes[at]
    }

    /// Registers a request that may create a hold. Rejects a released token: its release has decided where to leave
    /// tombstones.
    pub(crate) fn send(&self, at: usize) -> Before {
        let mut state = self.state();
        if state.ended {
            return Before::Ended;
        }
        let before = if state.in_doubt.contains(at) { Before::InDoubt } else { Before::Clear };
        state.in_doubt.add(at);
        before
    }

    /// Records a reply, or that there certainly was no effect.
    pub(crate) fn answered(&self, at: usize, before: Before) {
        if before == Before::Clear {
            self.state().in_doubt.remove(at);
        }
    }

    /// Nodes at which a request may still take effect.
    pub(crate) fn in_doubt(&self) -> Nodes {
        self.state().in_doubt
    }

    pub(crate) fn leave(&self, nodes: Nodes) {
        nodes.iter().for_each(|at| self.leave_at(at));
    }

    pub(crate) fn leave_at(&self, at: usize) {
        self.state().leaving.add(at);
    }

    /// Records that nothing to the node is in flight.
    pub(crate) fn may_stay(&self, at: usize) {
        self.state().leaving.remove(at);
    }

    /// Returns whether a release is due at a node. A vote there doesn't count, even for a later granted round.
    pub(crate) fn is_leaving(&self, at: usize) -> bool {
        self.state().leaving.contains(at)
    }

    /// Ends the token. Returns the nodes that need tombstones.
    pub(crate) fn end(&self) -> Nodes {
        let mut state = self.state();
        state.ended = true;
        state.in_doubt
    }

    fn has_ended(&self) -> bool {
        self.state().ended
    }

    pub(crate) fn fence(&self) -> Option<Fence> {
        self.state().fence
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tokens of live holds and of requests in flight.
#[derive(Debug)]
pub(crate) struct Tracks {
    nodes: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    known: HashMap<Token, Weak<Track>>,
    held: HashMap<Token, Held>,
    /// Sizes at which obsolete entries are removed.
    sweep_known_at: usize,
    sweep_held_at: usize,
}

#[derive(Debug)]
struct Held {
    track: Arc<Track>,
    until: BootInstant,
}

const SWEEP_FROM: usize = 64;

impl Tracks {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, inner: Mutex::default() }
    }

    pub(crate) fn of(&self, token: Token) -> Arc<Track> {
        let mut inner = self.inner();
        let known = inner.known.get(&token).and_then(Weak::upgrade);
        if let Some(track) = known.filter(|track| !track.has_ended()) {
            return track;
        }
        if inner.known.len() >= inner.sweep_known_at {
            inner.known.retain(|_, track| track.strong_count() > 0);
            inner.sweep_known_at = 2 * inner.known.len() + SWEEP_FROM;
        }
        let track = Arc::new(Track::new(self.nodes));
        inner.known.insert(token, Arc::downgrade(&track));
        track
    }

    pub(crate) fn known(&self, token: Token) -> Option<Arc<Track>> {
        let inner = self.inner();
        match inner.held.get(&token) {
            Some(held) => Some(Arc::clone(&held.track)),
            None => inner.known.get(&token).and_then(Weak::upgrade),
        }
    }

    /// Keeps a track after a grant, a renewal or an unanswered request, until its release or long after its end.
    pub(crate) fn keep(
        &self,
        token: Token,
        track: &Arc<Track>,
        fence: Option<Fence>,
        now: BootInstant,
        ttl: Duration,
    ) {
        {
            let mut state = track.state();
            if state.ended {
                return;
            }
            state.fence = fence.or(state.fence);
        }
        let mut inner = self.inner();
        if inner.held.len() >= inner.sweep_held_at {
            inner.held.retain(|_, held| held.until > now);
            inner.sweep_held_at = 2 * inner.held.len() + SWEEP_FROM;
        }
        let until = now + ttl * 2;
        inner.held.insert(token, Held { track: Arc::clone(track), until });
    }

    pub(crate) fn forget(&self, token: Token) {
        let mut inner = self.inner();
        inner.held.remove(&token);
        inner.known.remove(&token);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BootInstant = BootInstant::from_nanos(1_000_000_000_000);
    const TTL: Duration = Duration::from_secs(1);

    #[test]
    fn an_old_doubt_is_not_cleared_by_a_new_answer() {
        let track = Track::new(3);
        assert_eq!(track.send(1), Before::Clear);
        assert_eq!(track.send(1), Before::InDoubt, "the first was never answered");
        track.answered(1, Before::InDoubt);
        assert!(track.in_doubt().contains(1));
        assert_eq!(track.send(2), Before::Clear);
        track.answered(2, Before::Clear);
        assert!(!track.in_doubt().contains(2));
    }

    #[test]
    fn nothing_is_sent_for_a_released_token() {
        let track = Track::new(3);
        track.send(0);
        assert_eq!(track.end().iter().collect::<Vec<_>>(), [0]);
        assert_eq!(track.send(1), Before::Ended);
        assert!(!track.in_doubt().contains(1));
    }

    #[test]
    fn memory_is_bounded_by_what_is_live() {
        let tracks = Tracks::new(3);
        for _ in 0..10_000 {
            drop(tracks.of(Token::random()));
            let token = Token::random();
            let track = tracks.of(token);
            tracks.keep(token, &track, Some(Fence::new(1)), NOW, TTL);
            tracks.forget(token);
        }
        assert!(tracks.inner().known.len() < 1_000);
        assert!(tracks.inner().held.is_empty());
        // Without a release, entries are removed long after their end.
        let mut now = NOW;
        for _ in 0..10_000 {
            let token = Token::random();
            tracks.keep(token, &tracks.of(token), Some(Fence::new(1)), now, TTL);
            now = now + TTL;
        }
        assert!(tracks.inner().held.len() < 1_000);
    }

    #[test]
    fn a_hold_is_remembered_with_its_fence() {
        let tracks = Tracks::new(3);
        let token = Token::random();
        tracks.keep(token, &tracks.of(token), Some(Fence::new(7)), NOW, TTL);
        let track = tracks.known(token).unwrap();
        tracks.keep(token, &track, None, NOW, TTL);
        assert_eq!(tracks.known(token).unwrap().fence(), Some(Fence::new(7)));
    }
}
