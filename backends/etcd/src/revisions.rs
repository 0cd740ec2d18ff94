//! Detection of a snapshot restored without `--bump-revision`: the store's revision falls, and
//! fences repeat. Only a client that saw a higher revision detects this: all cluster data come from
//! the snapshot.

use std::sync::Mutex;

use lockwright_core::backend_util::lock;

#[derive(Debug, Default)]
pub(crate) struct Revisions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    highest: i64,
    fell: Option<Fall>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fall {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Revisions {
    pub(crate) fn highest(&self) -> i64 {
        lock(&self.0).highest
    }

    /// Records a response's revision. A revision lower than `before`, the highest when the request
    /// was sent, shows a restore. Don't compare with `highest`, which another response may have
    /// raised since.
    pub(crate) fn saw(&self, revision: i64, before: i64) {
        let mut state = lock(&self.0);
        if revision < before {
            state.highest = revision;
            let from = state.fell.map_or(before, |fall| fall.from.max(before));
            state.fell = Some(Fall { from, to: revision });
        } else {
            state.highest = state.highest.max(revision);
        }
    }

    pub(crate) fn fell(&self) -> Option<Fall> {
        lock(&self.0).fell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordered_responses_are_no_fall_and_a_restored_snapshot_is() {
        let revisions = Revisions::default();
        let before = revisions.highest();
        revisions.saw(10, before);
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
