//! One node's part in a round: a task that carries out the verdict, even if the round was dropped.

use std::sync::Arc;

use lockwright_core::{Claim, Error, Fence, ReleaseMode};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::fleet::{Fleet, had_no_effect, silent};
use crate::node::{Incarnation, Vote, Yes};
use crate::token_states::{EarlierRequest, NodeLock, TokenState};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Open,
    /// Nodes with a different fence must record this one.
    Note(Fence),
    Granted(Fence),
    Failed,
    /// The caller has gone. A release or a further acquire decides.
    Abandoned,
}

#[derive(Debug)]
pub(crate) enum Report {
    Answered(Vote),
    Unasked,
    /// After an indeterminate error there may be a vote.
    Failed(Error),
    /// `false`: the token no longer holds there.
    Noted(Result<bool, Error>),
    /// `false`: the release is pending.
    GivenBack(bool),
}

#[derive(Debug)]
pub(crate) struct Ballot {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) at: usize,
    pub(crate) claim: Arc<Claim>,
    pub(crate) token_state: Arc<TokenState>,
    pub(crate) candidate: Fence,
    pub(crate) waits: bool,
    pub(crate) until: Instant,
    pub(crate) verdict: watch::Receiver<Verdict>,
    pub(crate) reports: mpsc::UnboundedSender<(usize, Report)>,
    pub(crate) note_is_on_its_way: bool,
}

enum Asked {
    Answered(Incarnation, Vote),
    Unasked,
    /// It certainly had no effect.
    Nothing(Error),
    /// It may have an effect, now or later.
    Silent(Error),
    GivenBack,
}

impl Ballot {
    pub(crate) async fn run(mut self) {
        let token_state = Arc::clone(&self.token_state);
        let Ok(mut node_lock) = timeout_at(self.until, token_state.node_lock(self.at).lock()).await
        else {
            let busy = "it has not yet answered this client's last request";
            return self.report(Report::Failed(Error::unavailable(busy)));
        };
        if node_lock.is_closed {
            self.fleet.extend_pending_release(self.at, self.claim.token);
            return self.report(Report::Answered(Vote::Ended));
        }
        self.cast(&mut node_lock).await;
        if !node_lock.is_closed {
            token_state.may_stay(self.at);
        }
    }

    async fn cast(&mut self, node_lock: &mut NodeLock) {
        match self.ask().await {
            Asked::Answered(incarnation, vote) => {
                let yes = match &vote {
                    Vote::Yes(yes) => Some(*yes),
                    _ => None,
                };
                self.report(Report::Answered(vote));
                if let Some(yes) = yes {
                    let released = self.after_yes(&incarnation, yes).await;
                    node_lock.is_closed = released == Some(false);
                    if self.note_is_on_its_way && self.token_state.fence().is_none() {
                        node_lock.is_closed = true;
                        self.remember();
                    }
                }
            }
            Asked::Unasked => self.report(Report::Unasked),
            Asked::Nothing(error) => self.report(Report::Failed(error)),
            Asked::Silent(error) => {
                self.report(Report::Failed(error));
                match self.decided().await {
                    Verdict::Failed => {
                        node_lock.is_closed = true;
                        self.give_back().await;
                    }
                    Verdict::Abandoned => {
                        // The request may take effect after the token's next one, so this node has no part in that.
                        node_lock.is_closed = true;
                        self.remember();
                        if self.token_state.fence().is_none() {
                            self.token_state.leave_at(self.at);
                            self.give_back().await;
                        }
                    }
                    _ => {}
                }
            }
            Asked::GivenBack => node_lock.is_closed = true,
        }
    }

    fn report(&self, report: Report) {
        let _ = self.reports.send((self.at, report));
    }

    fn remember(&self) {
        let (fleet, claim) = (&self.fleet, &self.claim);
        fleet.token_states.keep(claim.token, &self.token_state, None, fleet.now(), claim.ttl);
    }

    async fn ask(&mut self) -> Asked {
        // Retry once: a new incarnation may vote nevertheless.
        for _ in 0..2 {
            let incarnation = match self.fleet.incarnation(self.at, self.until).await {
                Ok(incarnation) => incarnation,
                Err(error) => return Asked::Nothing(error),
            };
            if Instant::now() >= self.until {
                let late = "the time for this round ended before the request was sent";
                return Asked::Nothing(Error::unavailable(late));
            }
            let Some(before) = self.begin() else { return Asked::Unasked };
            match self.send(&incarnation).await {
                Asked::Answered(sent, Vote::WrongIncarnation) => {
                    self.token_state.answered(self.at, before);
                    self.fleet.memberships[self.at].wrong_incarnation(&sent);
                }
                asked @ (Asked::Answered(..) | Asked::Nothing(_)) => {
                    self.token_state.answered(self.at, before);
                    return asked;
                }
                asked => return asked,
            }
        }
        Asked::Nothing(Error::unavailable("it was just restarted or emptied"))
    }

    fn begin(&self) -> Option<EarlierRequest> {
        // Locked, because the round decides on releases by the requests sent before it.
        let verdict = self.verdict.borrow();
        if *verdict != Verdict::Open {
            return None;
        }
        match self.token_state.send(self.at) {
            EarlierRequest::Ended => None,
            before => Some(before),
        }
    }

    async fn send(&mut self, incarnation: &Incarnation) -> Asked {
        let (fleet, at, claim) = (Arc::clone(&self.fleet), self.at, Arc::clone(&self.claim));
        let limit = Fleet::longest_wait(claim.ttl);
        let attempt = fleet.nodes[at].attempt(incarnation, &claim, self.candidate, self.waits);
        let attempt = timeout(limit, attempt);
        tokio::pin!(attempt);
        let answer = tokio::select! {
            biased;
            answer = &mut attempt => answer,
            () = self.failed_and_overdue() => {
                // The request continues: the node's own time-out needs its end.
                let given_back = self.give_back();
                let (answer, _) = tokio::join!(attempt, given_back);
                if matches!(answer, Ok(Ok(_))) {
                    fleet.memberships[at].mark_alive();
                }
                return Asked::GivenBack;
            }
        };
        match answer {
            Ok(Ok(vote)) => {
                fleet.memberships[at].mark_alive();
                Asked::Answered(incarnation.clone(), vote)
            }
            Ok(Err(error)) if had_no_effect(&error) => Asked::Nothing(error),
            Ok(Err(error)) => Asked::Silent(error),
            Err(_) => Asked::Silent(silent(limit)),
        }
    }

    /// Many replies arrive shortly after a round's end.
    async fn failed_and_overdue(&self) {
        let mut ballot_box = self.verdict.clone();
        if decided(&mut ballot_box).await != Verdict::Failed {
            return std::future::pending().await;
        }
        sleep_until(self.until).await;
    }

    /// Returns whether a vote was given back, if it had to be.
    async fn after_yes(&mut self, incarnation: &Incarnation, yes: Yes) -> Option<bool> {
        let mut noted = yes.fence;
        let mut verdict = Verdict::Open;
        loop {
            verdict = next(&mut self.verdict, verdict).await;
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
                    return None;
                }
                Verdict::Failed => {
                    return Some(self.give_back().await);
                }
                Verdict::Open | Verdict::Abandoned => return None,
            }
        }
    }

    async fn note(&mut self, incarnation: &Incarnation, fence: Fence) -> Result<bool, Error> {
        let limit = Fleet::longest_wait(self.claim.ttl);
        let raised = self.fleet.nodes[self.at].raise(incarnation, &self.claim, fence);
        let noted = timeout(limit, raised).await.unwrap_or_else(|_| Err(silent(limit)));
        // Otherwise a later round of the token could use an old fence.
        self.note_is_on_its_way |= noted.as_ref().is_err_and(|error| !had_no_effect(error));
        noted
    }

    async fn give_back(&self) -> bool {
        // This or an earlier request may still take effect.
        let in_doubt = self.note_is_on_its_way || self.token_state.in_doubt().contains(self.at);
        let release_mode = if in_doubt { ReleaseMode::Reconcile } else { ReleaseMode::Plain };
        let ended =
            self.fleet.give_back_at(self.at, &self.claim, release_mode, &self.token_state).await;
        self.report(Report::GivenBack(ended.is_ok()));
        ended.is_ok()
    }

    async fn decided(&mut self) -> Verdict {
        decided(&mut self.verdict).await
    }
}

async fn next(verdict: &mut watch::Receiver<Verdict>, last: Verdict) -> Verdict {
    loop {
        let present = *verdict.borrow_and_update();
        if present != last {
            return present;
        }
        if verdict.changed().await.is_err() {
            return Verdict::Abandoned;
        }
    }
}

async fn decided(verdict: &mut watch::Receiver<Verdict>) -> Verdict {
    let mut last = Verdict::Open;
    loop {
        last = next(verdict, last).await;
        if !matches!(last, Verdict::Open | Verdict::Note(_)) {
            return last;
        }
    }
}
