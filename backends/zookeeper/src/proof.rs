//! Until when a session certainly lives on the servers, by what they answered.
//!
//! A follower answers pings and reads alone, so that they answer proves nothing: it may have been cut
//! off from the leader, which ends the session when its time is over. A follower tells the leader
//! which sessions it heard of, each time that the leader pings it: each half tick. So a request proves
//! that the session lived on from its send only once a later one, sent at least a tick after the
//! first was *answered*, was answered *through* the leader: by then the leader had heard of the first.
//! A tick after its *sending* says less: a follower that stood still has both at once when it goes on,
//! and forwards them before it tells of anything.
//!
//! "Through the leader" must mean: by its quorum. A leader that was cut off from its followers, or
//! frozen until another was elected, goes on for some ticks believing that it leads, and answers
//! `sync` alone. It can't commit anything any more. So the proof is a request which the quorum commits
//! and that leaves nothing behind: deleting a node that isn't there. The leader proposes it like any
//! other, and its commit says that there was no such node.

use std::collections::VecDeque;
use std::time::Duration;

use lockwright_core::BootInstant;

/// The answered requests of one session, as far as they say something.
#[derive(Debug)]
pub(crate) struct Anchor {
    tick: Duration,
    /// The servers keep the session for its timeout from here at least.
    anchor: BootInstant,
    /// When later requests were sent and answered, that no still later one has confirmed.
    unconfirmed: VecDeque<(BootInstant, BootInstant)>,
}

impl Anchor {
    /// A session whose creation was sent then. That is committed by the quorum, and the leader
    /// counts from it.
    pub(crate) fn new(created: BootInstant, tick: Duration) -> Self {
        Self { tick, anchor: created, unconfirmed: VecDeque::new() }
    }

    pub(crate) fn tick(&self) -> Duration {
        self.tick
    }

    pub(crate) fn set_tick(&mut self, tick: Duration) {
        self.tick = tick;
    }

    /// A request that was sent then was committed, as the answer says that came then.
    pub(crate) fn committed(&mut self, sent: BootInstant, answered: BootInstant) {
        while let Some((first, its_answer)) = self.unconfirmed.front().copied() {
            if its_answer + self.tick > sent {
                break;
            }
            self.anchor = self.anchor.max(first);
            self.unconfirmed.pop_front();
        }
        // Answers may come out of order; a later send says no less.
        if self.unconfirmed.back().is_none_or(|(last, _)| *last < sent) {
            self.unconfirmed.push_back((sent, answered));
        }
    }

    pub(crate) fn get(&self) -> BootInstant {
        self.anchor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_request_counts_once_a_later_one_is_answered() {
        let mut anchor = Anchor::new(at(100), TICK);
        anchor.committed(at(110), at(110));
        assert_eq!(anchor.get(), at(100), "the leader may not have heard of it yet");
        anchor.committed(at(111), at(111));
        assert_eq!(anchor.get(), at(100), "nor within a tick");
        anchor.committed(at(112), at(112));
        assert_eq!(anchor.get(), at(110));
        anchor.committed(at(120), at(120));
        assert_eq!(anchor.get(), at(112));
    }

    #[test]
    fn a_request_counts_from_its_answer() {
        let mut anchor = Anchor::new(at(100), TICK);
        // A follower stood still, and forwarded both at once when it went on.
        anchor.committed(at(110), at(120));
        anchor.committed(at(113), at(120));
        assert_eq!(anchor.get(), at(100), "the leader may have heard of neither");
        anchor.committed(at(121), at(121));
        assert_eq!(anchor.get(), at(100), "nor within a tick");
        anchor.committed(at(122), at(122));
        assert_eq!(anchor.get(), at(113));
    }

    #[test]
    fn an_answer_that_comes_late_moves_nothing_back() {
        let mut anchor = Anchor::new(at(100), TICK);
        for sent in [110, 113, 116, 112, 111] {
            anchor.committed(at(sent), at(sent));
        }
        assert_eq!(anchor.get(), at(113));
        anchor.committed(at(118), at(118));
        assert_eq!(anchor.get(), at(116));
    }
}
