//! Acquires a lock in one round: the client asks all nodes in parallel, and a quorum decides. A
//! call doesn't repeat a failed round, because the hold's deadline counts from the call's start.
//!
//! # The fence
//!
//! A node votes with the number `max(its counter + 1, the fence that the client proposes)`. If a
//! quorum sends the same number, this is the fence. Any two quorums share a node, so the next fence
//! is larger. If the numbers differ, the nodes that still store the token record the highest, which
//! is the fence once a quorum has recorded it. If a quorum replies that the token already held the
//! lock, only these nodes' numbers decide the fence.

mod refusal;
mod tally;

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{AcquireOutcome, Claim, Error, ErrorKind, Fence, Granted, Result};
use tokio::time::{Instant, timeout_at};

use crate::errors::{NodeErrors, error};
use crate::fleet::Fleet;
use crate::node::{No, Vote};
use crate::node_vote::{Answer, NodeVote, Report, Verdict, VoteRequest};
use crate::requests::Requests;
use crate::token_states::Nodes;
use tally::Votes;

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
        Some(fence) => Ok(AcquireOutcome::Granted(round.granted(fence).await)),
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

struct Round {
    request: Arc<VoteRequest>,
    node_votes: Requests<Report>,
    begun: Instant,
    limit: Duration,
    /// By node. A vote's fence is the last that the node has recorded.
    answers: Vec<Option<Answer>>,
    afterwards: NodeErrors,
    /// Nodes on which the vote's release was tried; those in `given_back` confirmed it.
    release_tried: Nodes,
    given_back: Nodes,
    timed_out: bool,
    silent: Nodes,
}

impl Drop for Round {
    fn drop(&mut self) {
        let mut verdict = lock(&self.request.verdict);
        if matches!(*verdict, Verdict::Open | Verdict::Note(_)) {
            *verdict = Verdict::Abandoned;
        }
    }
}

impl Round {
    fn begin(fleet: &Arc<Fleet>, claim: &Claim, candidate: Fence, waits: bool) -> Self {
        let begun = Instant::now();
        let limit = fleet.options.patience(claim.ttl);
        let nodes = fleet.nodes.len();
        let request = Arc::new(VoteRequest {
            fleet: Arc::clone(fleet),
            claim: claim.clone(),
            token_state: fleet.token_states.of(claim.token),
            candidate,
            waits,
            until: begun + limit,
            verdict: Mutex::new(Verdict::Open),
        });
        let node_votes = Requests::reporting(fleet, |at, reports| {
            let request = Arc::clone(&request);
            NodeVote { request, at, reports, raise_is_unanswered: false }.run()
        });
        Self {
            node_votes,
            request,
            begun,
            limit,
            answers: (0..nodes).map(|_| None).collect(),
            afterwards: NodeErrors::default(),
            release_tried: Nodes::default(),
            given_back: Nodes::default(),
            timed_out: false,
            silent: not_waited_for(fleet),
        }
    }

    async fn votes(&mut self) -> Votes {
        let until = self.begun + self.limit;
        let deciding = async { while self.decided().is_none() && self.on_reply().await {} };
        let _ = timeout_at(until, deciding).await;
        if let Some(votes) = self.decided() {
            return votes;
        }
        self.timed_out = true;
        self.awaited().for_each(|at| self.request.fleet.memberships[at].set_responsive(false));
        self.decided().unwrap_or(Votes::TooFew)
    }

    async fn on_reply(&mut self) -> bool {
        let report = self.node_votes.next().await;
        report.map(|(at, report)| self.note(at, report)).is_some()
    }

    async fn decide(&mut self, verdict: Verdict) {
        *lock(&self.request.verdict) = verdict;
        poll_fn(|cx| {
            self.node_votes.poll(cx);
            Poll::Ready(())
        })
        .await;
    }

    fn note(&mut self, at: usize, report: Report) {
        match report {
            Report::Answer(answer) => {
                if let Answer::Vote(Vote::No(No { holder: Some(holder), .. })) = &answer
                    && let Some(fence) = holder.fence
                {
                    self.request.fleet.names.record_fence(&self.request.claim.name, fence);
                }
                self.answers[at] = Some(answer);
            }
            Report::Noted(result) => {
                let Some(Answer::Vote(Vote::Yes(yes))) = &mut self.answers[at] else { return };
                let Verdict::Note(fence) = *lock(&self.request.verdict) else { return };
                match result {
                    Ok(true) => yes.fence = fence,
                    Ok(false) => self.afterwards.push(
                        self.request.fleet.address(at),
                        Error::unavailable("it lost the claim before it had noted its fence"),
                    ),
                    Err(error) => self.afterwards.push(self.request.fleet.address(at), error),
                }
            }
            Report::GivenBack(taken) => {
                self.release_tried.add(at);
                if taken {
                    self.given_back.add(at);
                }
            }
        }
    }

    /// Makes the voting nodes record the highest fence. Returns it if a quorum does.
    async fn write_back(&mut self) -> Option<Fence> {
        let quorum = self.request.fleet.quorum;
        let repeats = self.yes().filter(|(_, yes)| yes.repeated).count();
        let counted = self.yes().filter(|(_, yes)| yes.repeated || repeats < quorum);
        let highest = counted.map(|(_, yes)| yes.fence).max()?;
        self.decide(Verdict::Note(highest)).await;
        let until = Instant::now() + self.limit;
        let noted = |round: &Self| round.yes().filter(|(_, yes)| yes.fence == highest).count();
        let noting = async { while noted(self) < quorum && self.on_reply().await {} };
        let _ = timeout_at(until, noting).await;
        (noted(self) >= quorum).then_some(highest)
    }

    async fn granted(mut self, fence: Fence) -> Granted {
        let VoteRequest { fleet, claim, token_state, .. } = &*self.request;
        fleet.names.decided(&claim.name, Some(fence));
        fleet.token_states.keep(claim.token, token_state, Some(fence), fleet.now(), claim.ttl);
        let mut granted = Granted::new(fence);
        granted.valid = self.yes().filter_map(|(_, yes)| yes.valid).min();
        self.decide(Verdict::Granted(fence)).await;
        granted
    }

    fn is_a_repeat(&self) -> bool {
        self.request.token_state.fence().is_some()
    }

    async fn give_back(&mut self) {
        if self.is_a_repeat() {
            return self.decide(Verdict::Abandoned).await;
        }
        self.left_behind().iter().for_each(|at| self.request.token_state.leave_at(at));
        self.decide(Verdict::Failed).await;
        let until = Instant::now() + self.limit;
        let moment = Instant::now() + self.limit / 4;
        loop {
            let has_unreleased_vote = self.yes().any(|(at, _)| !self.release_tried.contains(at));
            let may_be_a_quorum = self.left_behind().count() >= self.request.fleet.quorum;
            let until = if has_unreleased_vote || may_be_a_quorum {
                until
            } else if self.awaited().count() > 0 && !self.timed_out {
                moment
            } else {
                return;
            };
            if !matches!(timeout_at(until, self.on_reply()).await, Ok(true)) {
                return;
            }
        }
    }

    /// Returns the nodes on which the claim may hold the lock now or later.
    fn left_behind(&self) -> Nodes {
        let mut nodes = self.request.token_state.in_doubt();
        self.yes().for_each(|(at, _)| nodes.add(at));
        self.given_back.iter().for_each(|at| nodes.remove(at));
        nodes
    }
}
