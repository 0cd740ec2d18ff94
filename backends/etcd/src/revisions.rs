//! Which revisions of the store this backend has seen, and whether they ever went back.
//!
//! They do when a snapshot is restored without `--bump-revision`, and then fences repeat. The
//! cluster can't be asked about it: all that it could remember is restored too, and its id is made of
//! its members' addresses and its token, which may be the same as before. So only who has seen the
//! later revision knows.

use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Revisions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    highest: i64,
    fell: Option<Fall>,
}

/// They went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fall {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Revisions {
    /// The highest so far. What is asked for afterwards can't be answered from before it.
    pub(crate) fn highest(&self) -> i64 {
        self.state().highest
    }

    /// Takes note of an answer that took a majority. `before` was the highest when it was asked for:
    /// answers may overtake each other.
    pub(crate) fn saw(&self, revision: i64, before: i64) {
        let mut state = self.state();
        if revision < before {
            // What comes from here on is compared with the store as it is now.
            state.highest = revision;
            let from = state.fell.map_or(before, |fall| fall.from.max(before));
            state.fell = Some(Fall { from, to: revision });
        } else {
            state.highest = state.highest.max(revision);
        }
    }

    /// Whether they ever went back.
    pub(crate) fn fell(&self) -> Option<Fall> {
        self.state().fell
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_overtake_each_other_are_no_fall_and_a_restored_snapshot_is() {
        let revisions = Revisions::default();
        let before = revisions.highest();
        revisions.saw(10, before);
        // Both were asked for at 10.
        let before = revisions.highest();
        revisions.saw(12, before);
        revisions.saw(11, before);
        assert_eq!(revisions.fell(), None);
        let before = revisions.highest();
        revisions.saw(5, before);
        let fall = Some(Fall { from: 12, to: 5 });
        assert_eq!(revisions.fell(), fall);
        let before = revisions.highest();
        revisions.saw(20, before);
        assert_eq!(revisions.fell(), fall, "fences between the two may have been given twice");
    }
}
