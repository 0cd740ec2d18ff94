//! What a client remembers of tokens while something of theirs is on its way.
//!
//! A token may be asked for more than once: a waiter keeps its own until it is granted. Its
//! requests to one node must not overtake each other there: a release of one round that came after
//! the vote of the next would take away what the next counted. So each token has a *lane* to each
//! node, which a round's business with that node keeps until it is over.
//!
//! A request whose answer is missing leaves its node *in doubt*: it may still be carried out there,
//! so the release goes there with a tombstone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lockwright_core::{BootInstant, Fence, Token};
use tokio::sync::Mutex as AsyncMutex;

/// Some nodes of a fleet, by their places.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Nodes(u64);

impl Nodes {
    /// As many as there can be in a fleet.
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

/// One token's way through the fleet.
#[derive(Debug)]
pub(crate) struct Track {
    state: Mutex<State>,
    lanes: Vec<AsyncMutex<Lane>>,
}

#[derive(Debug, Default)]
struct State {
    fence: Option<Fence>,
    in_doubt: Nodes,
    /// Those that a failed round gave back, or has yet to, for all that is known here.
    leaving: Nodes,
    ended: bool,
}

/// The way of a token to a node.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// A release with a tombstone went there, or is owed: the token is of no more use there.
    pub(crate) is_closed: bool,
}

/// What a request finds that is about to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// All earlier ones were answered.
    Clear,
    /// An earlier one wasn't.
    InDoubt,
    /// The token was released.
    Ended,
}

impl Track {
    fn new(nodes: usize) -> Self {
        Self { state: Mutex::default(), lanes: (0..nodes).map(|_| AsyncMutex::default()).collect() }
    }

    pub(crate) fn lane(&self, at: usize) -> &AsyncMutex<Lane> {
        &self.lanes[at]
    }

    /// A request that may make a hold is about to be sent. Not for a token that was released: its
    /// release has already chosen where it leaves tombstones.
    pub(crate) fn send(&self, at: usize) -> Before {
        let mut state = self.state();
        if state.ended {
            return Before::Ended;
        }
        let before = if state.in_doubt.contains(at) { Before::InDoubt } else { Before::Clear };
        state.in_doubt.add(at);
        before
    }

    /// It was answered, or certainly had no effect.
    pub(crate) fn answered(&self, at: usize, before: Before) {
        if before == Before::Clear {
            self.state().in_doubt.remove(at);
        }
    }

    /// The nodes at which a request may still be carried out.
    pub(crate) fn in_doubt(&self) -> Nodes {
        self.state().in_doubt
    }

    /// A round failed: what it may have at these nodes goes.
    pub(crate) fn leave(&self, nodes: Nodes) {
        nodes.iter().for_each(|at| self.leave_at(at));
    }

    /// The same of one node.
    pub(crate) fn leave_at(&self, at: usize) {
        self.state().leaving.add(at);
    }

    /// All business with a node is over, and no release is left on its way there.
    pub(crate) fn may_stay(&self, at: usize) {
        self.state().leaving.remove(at);
    }

    /// Whether what the token has at a node will be taken away: it doesn't count, even if a later
    /// round of the same token was granted by others.
    pub(crate) fn is_leaving(&self, at: usize) -> bool {
        self.state().leaving.contains(at)
    }

    /// Ends it, and answers where tombstones are due.
    pub(crate) fn end(&self) -> Nodes {
        let mut state = self.state();
        state.ended = true;
        state.in_doubt
    }

    fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// The fence of a hold.
    pub(crate) fn fence(&self) -> Option<Fence> {
        self.state().fence
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tokens that something is known of: those of live holds, and those that requests are on
/// their way for.
#[derive(Debug)]
pub(crate) struct Tracks {
    nodes: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    known: HashMap<Token, Weak<Track>>,
    held: HashMap<Token, Held>,
    /// At how many those that are over are looked for.
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

    /// The track of a token that is about to be asked for.
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

    /// What is known of a token.
    pub(crate) fn known(&self, token: Token) -> Option<Arc<Track>> {
        let inner = self.inner();
        match inner.held.get(&token) {
            Some(held) => Some(Arc::clone(&held.track)),
            None => inner.known.get(&token).and_then(Weak::upgrade),
        }
    }

    /// It was granted or renewed, or a request wasn't answered that nobody gives back: it is kept
    /// until it is released, or must have been over for long.
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

    /// It was released.
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
        // Those whose holder never releases them are forgotten when they have been over for long.
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
