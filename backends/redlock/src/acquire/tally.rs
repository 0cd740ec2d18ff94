//! Counts the votes of a round. A grant needs a quorum of votes with the same fence.

use lockwright_core::Fence;

use super::{Answer, Round};
use crate::node::{No, Vote, Yes};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Votes {
    Agree(Fence),
    Differ,
    TooFew,
}

impl Round {
    pub(super) fn answered(&self) -> impl Iterator<Item = (usize, &Answer)> {
        self.answers.iter().enumerate().filter_map(|(at, answer)| Some((at, answer.as_ref()?)))
    }

    pub(super) fn yes(&self) -> impl Iterator<Item = (usize, &Yes)> {
        self.answered().filter_map(|(at, answer)| match answer {
            Answer::Vote(Vote::Yes(yes)) => Some((at, yes)),
            _ => None,
        })
    }

    pub(super) fn no(&self) -> impl Iterator<Item = &No> {
        self.answered().filter_map(|(_, answer)| match answer {
            Answer::Vote(Vote::No(no)) => Some(no),
            _ => None,
        })
    }

    pub(super) fn awaited(&self) -> impl Iterator<Item = usize> {
        let unanswered = self.answers.iter().enumerate().filter(|(_, answer)| answer.is_none());
        unanswered.map(|(at, _)| at).filter(|at| !self.silent.contains(*at))
    }

    fn most_noted(&self) -> (usize, Option<Fence>) {
        let votes_for = |fence| self.yes().filter(|(_, yes)| yes.fence == fence).count();
        let counted = self.yes().map(|(_, yes)| (votes_for(yes.fence), Some(yes.fence)));
        counted.max().unwrap_or_default()
    }

    pub(super) fn decided(&self) -> Option<Votes> {
        let quorum = self.request.fleet.quorum;
        let to_come = if self.timed_out { 0 } else { self.awaited().count() };
        let yes = self.yes().count();
        match self.most_noted() {
            (most, Some(fence)) if most >= quorum => Some(Votes::Agree(fence)),
            _ if yes + to_come < quorum => Some(Votes::TooFew),
            // Even with the awaited replies, no fence can get a quorum.
            (most, _) if yes >= quorum && most + to_come < quorum => Some(Votes::Differ),
            _ => None,
        }
    }
}
