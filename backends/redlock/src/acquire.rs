//! One round of an acquire: all nodes are asked in parallel, and a quorum decides.
//!
//! An acquire has only one round, because its deadline counts from the round's start. A failed round leaves tombstones
//! on nodes without a reply, because the request may still take effect.
//!
//! # The fence
//!
//! A node replies with `max(its counter + 1, candidate)`. If a quorum has the same number, the next quorum shares a
//! node with it and gets a larger one. Otherwise nodes with smaller numbers record the highest one, if the token still
//! holds there; the fence is valid only when a quorum has it. If a quorum replies that the token held already, its
//! number counts.

mod refusal;

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{AcquireOutcome, Claim, Error, ErrorKind, Fence, Granted, Result};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use crate::ballot::{Ballot, Report, Verdict};
use crate::errors::{NodeErrors, error};
use crate::fleet::Fleet;
use crate::node::{No, Vote, Yes};
use crate::token_states::{Nodes, TokenState};

pub(crate) async fn acquire(
    fleet: &Arc<Fleet>,
    claim: &Claim,
    waits: bool,
) -> Result<AcquireOutcome> {
    let candidate = fleet.names.candidate(&claim.name, fleet.options.wall_clock.micros());
    if candidate > Fence::MAX {
        return Err(exhausted());
    }
    let mut round = Round::begin(fleet, claim, candidate, waits);
    let votes = round.votes().await;
    let granted = match votes {
        Votes::Agree(fence) => Some(fence),
        Votes::Differ => round.write_back().await,
        Votes::TooFew => None,
    };
    match granted {
        Some(fence) if fence > Fence::MAX => {
            round.give_back().await;
            Err(exhausted())
        }
        Some(fence) => Ok(AcquireOutcome::Granted(round.granted(fence))),
        None => {
            round.give_back().await;
            round.failed()
        }
    }
}

fn not_waited_for(fleet: &Fleet) -> Nodes {
    let mut silent = Nodes::default();
    let all = 0..fleet.nodes.len();
    all.filter(|at| fleet.memberships[*at].is_unresponsive()).for_each(|at| silent.add(at));
    if silent.count() > fleet.spare() { Nodes::default() } else { silent }
}

fn exhausted() -> Error {
    error(
        ErrorKind::Conflict,
        "the fence counters of the nodes are damaged or have no fences left; delete them once \
         the lock is free and none of its fences is in use",
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Votes {
    Agree(Fence),
    Differ,
    TooFew,
}

#[derive(Debug)]
enum Answer {
    Yes { yes: Yes, noted: Fence, given_back: bool },
    No(No),
    Ended,
    Unasked,
    Failed(Error),
}

struct Round<'f> {
    fleet: &'f Arc<Fleet>,
    claim: Arc<Claim>,
    token_state: Arc<TokenState>,
    verdict: watch::Sender<Verdict>,
    reports: mpsc::UnboundedReceiver<(usize, Report)>,
    begun: Instant,
    limit: Duration,
    answers: Vec<Option<Answer>>,
    afterwards: NodeErrors,
    given_back: Nodes,
    timed_out: bool,
    silent: Nodes,
}

impl<'f> Round<'f> {
    fn begin(fleet: &'f Arc<Fleet>, claim: &Claim, candidate: Fence, waits: bool) -> Self {
        let begun = Instant::now();
        let limit = fleet.options.patience(claim.ttl);
        let claim = Arc::new(claim.clone());
        let token_state = fleet.token_states.of(claim.token);
        let (verdict, hears_verdict) = watch::channel(Verdict::Open);
        let (sender, reports) = mpsc::unbounded_channel();
        for at in 0..fleet.nodes.len() {
            let ballot = Ballot {
                fleet: Arc::clone(fleet),
                at,
                claim: Arc::clone(&claim),
                token_state: Arc::clone(&token_state),
                candidate,
                waits,
                until: begun + limit,
                verdict: hears_verdict.clone(),
                reports: sender.clone(),
                note_is_on_its_way: false,
            };
            fleet.runtime.spawn(ballot.run());
        }
        Self {
            fleet,
            claim,
            token_state,
            verdict,
            reports,
            begun,
            limit,
            answers: (0..fleet.nodes.len()).map(|_| None).collect(),
            afterwards: NodeErrors::default(),
            given_back: Nodes::default(),
            timed_out: false,
            silent: not_waited_for(fleet),
        }
    }

    async fn votes(&mut self) -> Votes {
        let until = self.begun + self.limit;
        loop {
            if let Some(votes) = self.decided() {
                return votes;
            }
            self.timed_out = !self.on_reply(until).await;
            if self.timed_out {
                self.awaited().for_each(|at| self.fleet.memberships[at].mark_unresponsive());
            }
        }
    }

    async fn on_reply(&mut self, until: Instant) -> bool {
        match timeout_at(until, self.reports.recv()).await {
            Ok(Some((at, report))) => {
                self.note(at, report);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    fn note(&mut self, at: usize, report: Report) {
        match report {
            Report::Answered(vote) => {
                let answer = match vote {
                    Vote::Yes(yes) => Answer::Yes { yes, noted: yes.fence, given_back: false },
                    Vote::No(no) => {
                        if let Some(fence) = no.holder.as_ref().and_then(|holder| holder.fence) {
                            self.fleet.names.saw(&self.claim.name, fence);
                        }
                        Answer::No(no)
                    }
                    Vote::Ended => Answer::Ended,
                    Vote::WrongIncarnation => {
                        Answer::Failed(Error::unavailable("it is another than it was"))
                    }
                };
                self.answers[at] = Some(answer);
            }
            Report::Unasked => self.answers[at] = Some(Answer::Unasked),
            Report::Failed(error) => self.answers[at] = Some(Answer::Failed(error)),
            Report::Noted(result) => {
                let Some(Answer::Yes { noted, .. }) = &mut self.answers[at] else { return };
                let Verdict::Note(fence) = *self.verdict.borrow() else { return };
                match result {
                    Ok(true) => *noted = fence,
                    Ok(false) => self.afterwards.push(
                        self.fleet.address(at),
                        Error::unavailable("it lost the claim before it had noted its fence"),
                    ),
                    Err(error) => self.afterwards.push(self.fleet.address(at), error),
                }
            }
            Report::GivenBack(taken) => {
                if let Some(Answer::Yes { given_back, .. }) = &mut self.answers[at] {
                    *given_back = true;
                }
                if taken {
                    self.given_back.add(at);
                }
            }
        }
    }

    fn answered(&self) -> impl Iterator<Item = (usize, &Answer)> {
        self.answers.iter().enumerate().filter_map(|(at, answer)| Some((at, answer.as_ref()?)))
    }

    fn yes(&self) -> impl Iterator<Item = (usize, &Yes, Fence)> {
        self.answered().filter_map(|(at, answer)| match answer {
            Answer::Yes { yes, noted, .. } => Some((at, yes, *noted)),
            _ => None,
        })
    }

    fn no(&self) -> impl Iterator<Item = &No> {
        self.answered().filter_map(|(_, answer)| match answer {
            Answer::No(no) => Some(no),
            _ => None,
        })
    }

    fn awaited(&self) -> impl Iterator<Item = usize> {
        let unanswered = self.answers.iter().enumerate().filter(|(_, answer)| answer.is_none());
        unanswered.map(|(at, _)| at).filter(|at| !self.silent.contains(*at))
    }

    fn most_noted(&self) -> (usize, Option<Fence>) {
        let mut numbers: Vec<Fence> = self.yes().map(|(_, _, noted)| noted).collect();
        numbers.sort_unstable();
        let runs = numbers.chunk_by(|one, next| one == next);
        runs.map(|run| (run.len(), run.first().copied())).max().unwrap_or_default()
    }

    fn decided(&self) -> Option<Votes> {
        let quorum = self.fleet.quorum;
        let to_come = if self.timed_out { 0 } else { self.awaited().count() };
        let yes = self.yes().count();
        match self.most_noted() {
            (most, Some(fence)) if most >= quorum => Some(Votes::Agree(fence)),
            _ if yes + to_come < quorum => Some(Votes::TooFew),
            // Without a write-back, no number can get a quorum.
            (most, _) if yes >= quorum && most + to_come < quorum => Some(Votes::Differ),
            _ => None,
        }
    }

    /// Returns the highest fence once a quorum has it.
    async fn write_back(&mut self) -> Option<Fence> {
        let quorum = self.fleet.quorum;
        let repeated = || self.yes().filter(|(_, yes, _)| yes.repeated);
        let highest = if repeated().count() >= quorum {
            repeated().map(|(_, _, noted)| noted).max()
        } else {
            self.yes().map(|(_, _, noted)| noted).max()
        }?;
        self.verdict.send_replace(Verdict::Note(highest));
        let until = Instant::now() + self.limit;
        let mut in_time = true;
        loop {
            let have = self.yes().filter(|(_, _, noted)| *noted == highest).count();
            if have >= quorum {
                return Some(highest);
            }
            if !in_time {
                return None;
            }
            in_time = self.on_reply(until).await;
        }
    }

    fn granted(self, fence: Fence) -> Granted {
        self.verdict.send_replace(Verdict::Granted(fence));
        let Self { fleet, claim, token_state, .. } = &self;
        fleet.names.saw(&claim.name, fence);
        fleet.names.decided(&claim.name);
        fleet.token_states.keep(claim.token, token_state, Some(fence), fleet.now(), claim.ttl);
        let mut granted = Granted::new(fence);
        granted.valid = self.yes().filter_map(|(_, yes, _)| yes.valid).min();
        granted
    }

    fn is_a_repeat(&self) -> bool {
        self.token_state.fence().is_some()
    }

    async fn give_back(&mut self) {
        if self.is_a_repeat() {
            self.verdict.send_replace(Verdict::Abandoned);
            return;
        }
        self.token_state.leave(self.left_behind());
        self.verdict.send_replace(Verdict::Failed);
        let until = Instant::now() + self.limit;
        let moment = Instant::now() + self.limit / 4;
        loop {
            let owing = self
                .answered()
                .any(|(_, answer)| matches!(answer, Answer::Yes { given_back: false, .. }));
            let may_be_a_quorum = self.left_behind().count() >= self.fleet.quorum;
            let until = if owing || may_be_a_quorum {
                until
            } else if self.awaited().count() > 0 && !self.timed_out {
                moment
            } else {
                return;
            };
            if !self.on_reply(until).await {
                return;
            }
        }
    }

    /// Nodes at which the claim may hold now or later.
    fn left_behind(&self) -> Nodes {
        let mut nodes = self.token_state.in_doubt();
        self.yes().for_each(|(at, ..)| nodes.add(at));
        self.given_back.iter().for_each(|at| nodes.remove(at));
        nodes
    }
}
