//! One node's part of a round: requests its vote and carries out the round's verdict, in a task if
//! the round was dropped.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use lockwright_core::backend_util::lock;
use lockwright_core::{Claim, Error, Fence, ReleaseMode};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::fleet::{Fleet, had_no_effect, within};
use crate::node::{Incarnation, Vote, Yes};
use crate::requests::Replies;
use crate::token_states::TokenState;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Open,
    /// The votes differ: nodes with another fence must record this one.
    Note(Fence),
    Granted(Fence),
    Failed,
    /// The round was dropped, or failed although the token holds the lock. The token's next release
    /// or acquire settles the votes.
    Abandoned,
}

#[derive(Debug)]
pub(crate) enum Answer {
    Vote(Vote),
    Unasked,
    /// After an indeterminate error, the node may have voted.
    Failed(Error),
}

#[derive(Debug)]
pub(crate) enum Report {
    Answer(Answer),
    /// `true`: the fence was recorded. `false`: the token no longer holds the lock there.
    Noted(Result<bool, Error>),
    /// `true`: the vote was released. `false`: its release is pending.
    GivenBack(bool),
}

#[derive(Debug)]
pub(crate) struct VoteRequest {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) claim: Claim,
    pub(crate) token_state: Arc<TokenState>,
    pub(crate) candidate: Fence,
    pub(crate) waits: bool,
    pub(crate) until: Instant,
    pub(crate) verdict: Mutex<Verdict>,
}

#[derive(Debug)]
pub(crate) struct NodeVote {
    pub(crate) request: Arc<VoteRequest>,
    pub(crate) at: usize,
    pub(crate) reports: Arc<Replies<Report>>,
    pub(crate) raise_is_unanswered: bool,
}

enum Asked {
    Answered(Arc<Incarnation>, Vote),
    Unasked,
    /// The request may still take effect.
    Silent(Error),
    GivenBack,
}

impl NodeVote {
    pub(crate) async fn run(mut self) {
        let request = Arc::clone(&self.request);
        let VoteRequest { fleet, claim, token_state, until, .. } = &*request;
        let Ok(mut node_lock) = timeout_at(*until, token_state.node_lock(self.at).lock()).await
        else {
            let busy = "it has not yet answered this client's last request";
            return self.answer(Answer::Failed(Error::unavailable(busy)));
        };
        if node_lock.is_closed {
            fleet.extend_pending_release(self.at, claim.token);
            return self.answer(Answer::Vote(Vote::Ended));
        }
        node_lock.is_closed = self.cast().await;
        if !node_lock.is_closed {
            token_state.may_stay(self.at);
        }
    }

    /// Returns the new `NodeLock::is_closed`.
    async fn cast(&mut self) -> bool {
        let asked = self.ask().await.unwrap_or_else(|error| {
            self.answer(Answer::Failed(error));
            Asked::Unasked
        });
        match asked {
            Asked::Answered(incarnation, vote) => {
                let yes = if let Vote::Yes(yes) = &vote { Some(*yes) } else { None };
                self.answer(Answer::Vote(vote));
                let Some(yes) = yes else { return false };
                let is_pending = self.after_yes(&incarnation, yes).await;
                let may_be_noted = self.raise_is_unanswered && !self.is_held();
                if may_be_noted {
                    self.remember();
                }
                is_pending || may_be_noted
            }
            Asked::Unasked => false,
            Asked::Silent(error) => {
                self.answer(Answer::Failed(error));
                match self.decided().await {
                    Verdict::Failed => {
                        self.give_back().await;
                        true
                    }
                    Verdict::Abandoned => {
                        // The request may take effect after the token's next one, so the node isn't
                        // asked again.
                        self.remember();
                        if !self.is_held() {
                            self.request.token_state.leave_at(self.at);
                            self.give_back().await;
                        }
                        true
                    }
                    _ => false,
                }
            }
            Asked::GivenBack => true,
        }
    }

    fn answer(&self, answer: Answer) {
        self.report(Report::Answer(answer));
    }

    fn report(&self, report: Report) {
        self.reports.add(self.at, report);
    }

    fn is_held(&self) -> bool {
        self.request.token_state.fence().is_some()
    }

    fn remember(&self) {
        let VoteRequest { fleet, claim, token_state, .. } = &*self.request;
        fleet.token_states.keep(claim.token, token_state, None, fleet.now(), claim.ttl);
    }

    /// An error means that the request certainly had no effect.
    async fn ask(&self) -> Result<Asked, Error> {
        let VoteRequest { fleet, token_state, until, .. } = &*self.request;
        // Retry once, because the node's new incarnation may already vote.
        for _ in 0..2 {
            let incarnation = fleet.incarnation(self.at, *until).await?;
            if Instant::now() >= *until {
                let late = "the time for this round ended before the request was sent";
                return Err(Error::unavailable(late));
            }
            // Send nothing after the verdict, because the round wouldn't release this vote.
            let is_open = *lock(&self.request.verdict) == Verdict::Open;
            let Some(before) = is_open.then(|| token_state.record_request(self.at)).flatten()
            else {
                self.answer(Answer::Unasked);
                return Ok(Asked::Unasked);
            };
            let asked = self.send(&incarnation).await;
            if matches!(asked, Ok(Asked::Answered(..)) | Err(_)) {
                token_state.record_answer(self.at, before);
            }
            let Ok(Asked::Answered(sent, Vote::WrongIncarnation)) = &asked else { return asked };
            fleet.memberships[self.at].wrong_incarnation(sent);
        }
        Err(Error::unavailable("it was just restarted or emptied"))
    }

    async fn send(&self, incarnation: &Arc<Incarnation>) -> Result<Asked, Error> {
        let VoteRequest { fleet, claim, candidate, waits, .. } = &*self.request;
        let attempt = fleet.nodes[self.at].attempt(incarnation, claim, *candidate, *waits);
        let attempt = within(Fleet::longest_wait(claim.ttl), attempt);
        tokio::pin!(attempt);
        let answer = tokio::select! {
            biased;
            answer = &mut attempt => answer,
            () = self.failed_and_overdue() => {
                // Don't drop the request: its time-out detects a silent connection.
                let (answer, _) = tokio::join!(attempt, self.give_back());
                if answer.is_ok() {
                    fleet.memberships[self.at].set_responsive(true);
                }
                return Ok(Asked::GivenBack);
            }
        };
        match answer {
            Ok(vote) => {
                fleet.memberships[self.at].set_responsive(true);
                Ok(Asked::Answered(Arc::clone(incarnation), vote))
            }
            Err(error) if had_no_effect(&error) => Err(error),
            Err(error) => Ok(Asked::Silent(error)),
        }
    }

    /// Waits until the round has failed and its time limit has passed. After an earlier reply, the
    /// release needs no tombstone.
    async fn failed_and_overdue(&self) {
        if self.decided().await != Verdict::Failed {
            return std::future::pending().await;
        }
        sleep_until(self.request.until).await;
    }

    /// Carries out the verdicts. Returns whether the vote's release is pending.
    async fn after_yes(&mut self, incarnation: &Incarnation, yes: Yes) -> bool {
        let mut noted = yes.fence;
        let mut verdict = Verdict::Open;
        loop {
            verdict = self.verdict_after(verdict).await;
            match verdict {
                Verdict::Note(fence) => {
                    if noted != fence {
                        let answer = self.note(incarnation, fence).await;
                        if matches!(answer, Ok(true)) {
                            noted = fence;
                        }
                        self.report(Report::Noted(answer));
                    }
                }
                Verdict::Granted(fence) => {
                    if noted != fence {
                        let _ = self.note(incarnation, fence).await;
                    }
                    return false;
                }
                Verdict::Failed => return !self.give_back().await,
                Verdict::Open | Verdict::Abandoned => return false,
            }
        }
    }

    async fn note(&mut self, incarnation: &Incarnation, fence: Fence) -> Result<bool, Error> {
        let VoteRequest { fleet, claim, .. } = &*self.request;
        let raised = fleet.nodes[self.at].raise(incarnation, claim, fence);
        let noted = within(Fleet::longest_wait(claim.ttl), raised).await;
        // If unanswered, `raise` may take effect late, and give a later round of the token this old
        // fence.
        self.raise_is_unanswered |= noted.as_ref().is_err_and(|error| !had_no_effect(error));
        noted
    }

    async fn give_back(&self) -> bool {
        let VoteRequest { fleet, claim, token_state, .. } = &*self.request;
        // If a request may still take effect, the release leaves a tombstone.
        let in_doubt = self.raise_is_unanswered || token_state.in_doubt().contains(self.at);
        let release_mode = if in_doubt { ReleaseMode::Reconcile } else { ReleaseMode::Plain };
        let ended = fleet.release_at(self.at, claim, release_mode, Some(token_state)).await;
        self.report(Report::GivenBack(ended.is_ok()));
        ended.is_ok()
    }

    async fn decided(&self) -> Verdict {
        let mut last = Verdict::Open;
        while matches!(last, Verdict::Open | Verdict::Note(_)) {
            last = self.verdict_after(last).await;
        }
        last
    }

    /// Needs no waker, because the round polls all [`NodeVote`]s after each change.
    async fn verdict_after(&self, last: Verdict) -> Verdict {
        poll_fn(|_| {
            let verdict = *lock(&self.request.verdict);
            if verdict == last { Poll::Pending } else { Poll::Ready(verdict) }
        })
        .await
    }
}
