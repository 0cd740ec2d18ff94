//! Renews holds with one request per node and batch. A node that lacks a hold gets it again (a
//! *repair*) only after a quorum renewed the hold: an earlier repair could revive a lost hold.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    BootInstant, Claim, Error, ErrorKind, Fence, Reason, Renew, Renewal, RenewalOutcome, Result,
};
use tokio::time::{Instant, timeout_at};

use crate::errors::NodeErrors;
use crate::fleet::{Fleet, had_no_effect, within};
use crate::node::Vote;
use crate::requests::Requests;
use crate::token_states::{Nodes, TokenState};

type Outcomes = Result<Vec<RenewalOutcome>>;

pub(crate) async fn renew(fleet: &Arc<Fleet>, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
    let Some(shortest) = holds.iter().map(|hold| hold.claim.ttl).min() else {
        return Ok(Vec::new());
    };
    let limit = fleet.options.patience(shortest).min(Renew::time_to_answer(holds));
    let until = Instant::now() + limit;
    let claims: Arc<Vec<Claim>> = Arc::new(holds.iter().map(|hold| hold.claim.clone()).collect());
    let mut count = Count {
        fleet: Arc::clone(fleet),
        tallies: holds.iter().map(|_| Tally::default()).collect(),
        errors: NodeErrors::default(),
        begun: fleet.now(),
        requests: Requests::new(fleet, |at| {
            let (fleet, claims) = (Arc::clone(fleet), Arc::clone(&claims));
            async move { renew_at(&fleet, at, &claims, until).await }
        }),
        claims,
    };
    let counting = async {
        while count.tallies.iter().any(|tally| tally.outcome(fleet).is_none())
            && count.on_reply().await.is_some()
        {}
    };
    let _ = timeout_at(until, counting).await;
    let token_states = (0..holds.len()).map(|hold| count.renewed(hold)).collect();
    let answer = count.answer(limit);
    fleet.runtime.spawn(count.repair_all(token_states));
    answer
}

struct Count {
    fleet: Arc<Fleet>,
    claims: Arc<Vec<Claim>>,
    tallies: Vec<Tally>,
    errors: NodeErrors,
    requests: Requests<Outcomes>,
    begun: BootInstant,
}

impl Count {
    async fn repair_all(mut self, token_states: Vec<Option<Arc<TokenState>>>) {
        for at in 0..self.fleet.nodes.len() {
            self.repair(at, &token_states);
        }
        while let Some(at) = self.on_reply().await {
            self.repair(at, &token_states);
        }
    }

    fn repair(&self, at: usize, token_states: &[Option<Arc<TokenState>>]) {
        let holds = token_states.iter().zip(&self.tallies).zip(self.claims.iter());
        for ((token_state, tally), claim) in holds {
            let Some(token_state) = token_state.as_ref().filter(|_| tally.gone.contains(at)) else {
                continue;
            };
            let Some(fence) = token_state.fence() else { continue };
            let repair = Repair {
                fleet: Arc::clone(&self.fleet),
                at,
                claim: claim.clone(),
                token_state: Arc::clone(token_state),
                fence,
                until: self.begun + claim.ttl,
            };
            self.fleet.runtime.spawn(repair.run());
        }
    }

    async fn on_reply(&mut self) -> Option<usize> {
        let (at, outcomes) = self.requests.next().await?;
        match outcomes {
            Ok(outcomes) => {
                let holds = self.claims.iter().zip(&mut self.tallies);
                for ((claim, tally), outcome) in holds.zip(outcomes) {
                    let token_state = self.fleet.token_states.known(claim.token);
                    if token_state.is_some_and(|token_state| token_state.is_leaving(at)) {
                        // A failed round's late vote, which is being released, doesn't count.
                        tally.add(at, RenewalOutcome::NotHeld(Reason::Gone));
                    } else {
                        tally.add(at, outcome);
                    }
                }
            }
            Err(error) => self.errors.push(self.fleet.address(at), error),
        }
        Some(at)
    }

    fn renewed(&self, hold: usize) -> Option<Arc<TokenState>> {
        let (fleet, claim) = (&self.fleet, &self.claims[hold]);
        let outcome = self.tallies[hold].outcome(fleet)?;
        if !matches!(outcome, RenewalOutcome::Renewed { .. }) {
            return None;
        }
        let token_state = fleet.token_states.known(claim.token)?;
        fleet.token_states.keep(claim.token, &token_state, None, fleet.now(), claim.ttl);
        Some(token_state)
    }

    fn answer(&mut self, limit: Duration) -> Result<Vec<Renewal>> {
        let outcomes: Vec<_> =
            self.tallies.iter().map(|tally| tally.outcome(&self.fleet)).collect();
        if outcomes.iter().all(Option::is_none) {
            let what = format!(
                "fewer than {} of {} nodes answered the renewal within {limit:?}",
                self.fleet.quorum,
                self.fleet.nodes.len()
            );
            let errors = std::mem::take(&mut self.errors);
            return Err(errors.into_error(ErrorKind::Indeterminate, &what));
        }
        let renewal = |outcome: Option<RenewalOutcome>| Renewal {
            outcome: outcome.unwrap_or(RenewalOutcome::Indeterminate),
            waiters: false,
        };
        Ok(outcomes.into_iter().map(renewal).collect())
    }
}

#[derive(Debug, Default)]
struct Tally {
    renewed: Nodes,
    valid: Option<Duration>,
    broken: Nodes,
    gone: Nodes,
}

impl Tally {
    fn add(&mut self, at: usize, outcome: RenewalOutcome) {
        match outcome {
            RenewalOutcome::Renewed { valid } => {
                self.renewed.add(at);
                self.valid = [self.valid, valid].into_iter().flatten().min();
            }
            RenewalOutcome::NotHeld(Reason::Broken) => self.broken.add(at),
            RenewalOutcome::NotHeld(_) => self.gone.add(at),
            _ => {}
        }
    }

    fn outcome(&self, fleet: &Fleet) -> Option<RenewalOutcome> {
        if self.renewed.count() >= fleet.quorum {
            return Some(RenewalOutcome::Renewed { valid: self.valid });
        }
        let (broken, gone) = (self.broken.count(), self.gone.count());
        (broken + gone > fleet.spare()).then(|| {
            let reason = if broken > 0 { Reason::Broken } else { Reason::Gone };
            RenewalOutcome::NotHeld(reason)
        })
    }
}

async fn renew_at(fleet: &Fleet, at: usize, claims: &[Claim], until: Instant) -> Outcomes {
    let holds: Vec<Renew<'_>> = claims.iter().map(Renew::of).collect();
    let longest = claims.iter().map(|claim| claim.ttl).max().unwrap_or_default();
    let limit = Fleet::longest_wait(longest);
    for _ in 0..2 {
        let incarnation = fleet.incarnation(at, until).await?;
        if Instant::now() >= until {
            break;
        }
        match within(limit, fleet.nodes[at].renew(&incarnation, &holds)).await? {
            Some(outcomes) => return Ok(outcomes),
            None => fleet.memberships[at].wrong_incarnation(&incarnation),
        }
    }
    Err(Error::unavailable("the renewal could not be sent to it in time"))
}

struct Repair {
    fleet: Arc<Fleet>,
    at: usize,
    claim: Claim,
    token_state: Arc<TokenState>,
    fence: Fence,
    /// When the renewed hold ends. A later repair would create a new hold.
    until: BootInstant,
}

impl Repair {
    async fn run(self) {
        let Ok(node_lock) = self.token_state.node_lock(self.at).try_lock() else { return };
        if node_lock.is_closed {
            return;
        }
        match self.attempt().await {
            Ok(Vote::Yes(_)) => {
                tracing::debug!(
                    node = self.fleet.address(self.at), name = %self.claim.name,
                    "a hold was repaired"
                );
            }
            Ok(_) => {}
            Err(error) => {
                let node = self.fleet.address(self.at);
                tracing::debug!(node, name = %self.claim.name, %error, "a repair failed");
            }
        }
    }

    async fn attempt(&self) -> Result<Vote> {
        let (token_state, fence) = (&self.token_state, self.fence);
        let until = Instant::now() + self.fleet.options.patience(self.claim.ttl);
        let incarnation = self.fleet.incarnation(self.at, until).await?;
        if self.fleet.now() >= self.until {
            return Ok(Vote::Ended);
        }
        // After a release, no further one would end the repaired hold.
        let Some(before) = token_state.record_request(self.at) else { return Ok(Vote::Ended) };
        let node = &self.fleet.nodes[self.at];
        let limit = Fleet::longest_wait(self.claim.ttl);
        let vote = within(limit, node.attempt(&incarnation, &self.claim, fence, false)).await;
        if vote.as_ref().map_or_else(had_no_effect, |_| true) {
            token_state.record_answer(self.at, before);
        }
        if let Ok(Vote::Yes(yes)) = &vote
            && yes.fence != fence
        {
            within(limit, node.raise(&incarnation, &self.claim, fence)).await?;
        }
        vote
    }
}
