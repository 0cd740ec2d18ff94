//! Renewals: one request per node for the whole batch. A hold that a quorum renewed is repaired on the other nodes.
//! Without a quorum, a repair would revive a lost hold.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    BootInstant, Claim, Error, ErrorKind, Fence, Reason, Renew, Renewal, RenewalOutcome, Result,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::errors::{NodeErrors, error};
use crate::fleet::{Fleet, had_no_effect, silent};
use crate::node::Vote;
use crate::tracks::{Before, Nodes, Track};

type Outcomes = Result<Vec<RenewalOutcome>>;

pub(crate) async fn renew(fleet: &Arc<Fleet>, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
    let Some(shortest) = holds.iter().map(|hold| hold.claim.ttl).min() else {
        return Ok(Vec::new());
    };
    let claims: Vec<Claim> = holds.iter().map(|hold| hold.claim.clone()).collect();
    let (tells, answer) = oneshot::channel();
    let limit = fleet.options.patience(shortest).min(Renew::time_to_answer(holds));
    let count = Count::begin(fleet, claims, limit);
    // Continues after the reply: a late reply may show that a node lacks a hold.
    fleet.runtime.spawn(count.run(tells));
    answer
        .await
        .unwrap_or_else(|_| Err(error(ErrorKind::Indeterminate, "this client's runtime has gone")))
}

struct Count {
    fleet: Arc<Fleet>,
    claims: Arc<Vec<Claim>>,
    tallies: Vec<Tally>,
    errors: NodeErrors,
    reports: mpsc::UnboundedReceiver<(usize, Outcomes)>,
    limit: Duration,
    until: Instant,
    begun: BootInstant,
}

impl Count {
    fn begin(fleet: &Arc<Fleet>, claims: Vec<Claim>, limit: Duration) -> Self {
        let until = Instant::now() + limit;
        let begun = fleet.now();
        let tallies = claims.iter().map(|_| Tally::default()).collect();
        let claims = Arc::new(claims);
        let (tells, reports) = mpsc::unbounded_channel();
        for at in 0..fleet.nodes.len() {
            let (node, claims, tells) = (Arc::clone(fleet), Arc::clone(&claims), tells.clone());
            fleet.runtime.spawn(async move {
                let outcomes = renew_at(&node, at, &claims, until).await;
                let _ = tells.send((at, outcomes));
            });
        }
        Self {
            fleet: Arc::clone(fleet),
            claims,
            tallies,
            errors: NodeErrors::default(),
            reports,
            limit,
            until,
            begun,
        }
    }

    async fn run(mut self, tells: oneshot::Sender<Result<Vec<Renewal>>>) {
        while self.tallies.iter().any(|tally| tally.outcome(&self.fleet).is_none()) {
            match timeout_at(self.until, self.reports.recv()).await {
                Ok(Some((at, outcomes))) => self.hear(at, outcomes),
                Ok(None) | Err(_) => break,
            }
        }
        let tracks: Vec<Option<Arc<Track>>> =
            (0..self.claims.len()).map(|hold| self.renewed(hold)).collect();
        let _ = tells.send(self.answer());
        // Each node's task ends, at the latest by its time-out.
        for at in 0..self.fleet.nodes.len() {
            self.top_up(at, &tracks);
        }
        while let Some((at, outcomes)) = self.reports.recv().await {
            self.hear(at, outcomes);
            self.top_up(at, &tracks);
        }
    }

    /// Repairs holds on a node, in the background.
    fn top_up(&self, at: usize, tracks: &[Option<Arc<Track>>]) {
        let holds = tracks.iter().zip(&self.tallies).zip(self.claims.iter());
        for ((track, tally), claim) in holds {
            let Some(track) = track.as_ref().filter(|_| tally.gone.contains(at)) else { continue };
            let Some(fence) = track.fence() else { continue };
            let top_up = TopUp {
                fleet: Arc::clone(&self.fleet),
                at,
                claim: claim.clone(),
                track: Arc::clone(track),
                fence,
                until: self.begun + claim.ttl,
            };
            self.fleet.runtime.spawn(top_up.run());
        }
    }

    fn hear(&mut self, at: usize, outcomes: Outcomes) {
        match outcomes {
            Ok(outcomes) => {
                let holds = self.claims.iter().zip(&mut self.tallies);
                for ((claim, tally), outcome) in holds.zip(outcomes) {
                    let track = self.fleet.tracks.known(claim.token);
                    if track.is_some_and(|track| track.is_leaving(at)) {
                        // A late vote of a failed round, before its release.
                        tally.add(at, RenewalOutcome::NotHeld(Reason::Gone));
                    } else {
                        tally.add(at, outcome);
                    }
                }
            }
            Err(error) => self.errors.push(self.fleet.address(at), error),
        }
    }

    /// Keeps the track of a renewed hold.
    fn renewed(&self, hold: usize) -> Option<Arc<Track>> {
        let (fleet, claim) = (&self.fleet, &self.claims[hold]);
        let outcome = self.tallies[hold].outcome(fleet)?;
        if !matches!(outcome, RenewalOutcome::Renewed { .. }) {
            return None;
        }
        let track = fleet.tracks.known(claim.token)?;
        fleet.tracks.keep(claim.token, &track, None, fleet.now(), claim.ttl);
        Some(track)
    }

    fn answer(&mut self) -> Result<Vec<Renewal>> {
        let outcomes: Vec<_> =
            self.tallies.iter().map(|tally| tally.outcome(&self.fleet)).collect();
        if outcomes.iter().all(Option::is_none) {
            let what = format!(
                "fewer than {} of {} nodes answered the renewal within {:?}",
                self.fleet.quorum,
                self.fleet.nodes.len(),
                self.limit
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

    /// Returns the hold's outcome once it is final.
    fn outcome(&self, fleet: &Fleet) -> Option<RenewalOutcome> {
        if self.renewed.count() >= fleet.quorum {
            return Some(RenewalOutcome::Renewed { valid: self.valid });
        }
        let (broken, gone) = (self.broken.count(), self.gone.count());
        (broken + gone > fleet.spare()).then(|| {
            // The other nodes may have had it on few more than those that broke it.
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
        let certificate = fleet.certificate(at, until).await?;
        if Instant::now() >= until {
            break;
        }
        let renewed = timeout(limit, fleet.nodes[at].renew(&certificate, &holds)).await;
        match renewed.unwrap_or_else(|_| Err(silent(limit)))? {
            Some(outcomes) => return Ok(outcomes),
            None => fleet.seats[at].stranger(&certificate),
        }
    }
    Err(Error::unavailable("it could not be asked in time"))
}

struct TopUp {
    fleet: Arc<Fleet>,
    at: usize,
    claim: Claim,
    track: Arc<Track>,
    fence: Fence,
    /// The end of the renewed hold. Later it would be a new hold.
    until: BootInstant,
}

impl TopUp {
    async fn run(self) {
        let Ok(lane) = self.track.lane(self.at).try_lock() else { return };
        if lane.is_closed {
            return;
        }
        match self.attempt().await {
            Ok(Vote::Yes(_)) => {
                tracing::debug!(
                    node = self.fleet.address(self.at), name = %self.claim.name,
                    "a hold was topped up"
                );
            }
            Ok(_) => {}
            Err(error) => {
                let node = self.fleet.address(self.at);
                tracing::debug!(node, name = %self.claim.name, %error, "a top-up failed");
            }
        }
    }

    async fn attempt(&self) -> Result<Vote> {
        let (track, fence) = (&self.track, self.fence);
        let until = Instant::now() + self.fleet.options.patience(self.claim.ttl);
        let certificate = self.fleet.certificate(self.at, until).await?;
        if self.fleet.now() >= self.until {
            return Ok(Vote::Ended);
        }
        // A release doesn't cover later requests.
        let before = track.send(self.at);
        if before == Before::Ended {
            return Ok(Vote::Ended);
        }
        let node = &self.fleet.nodes[self.at];
        let limit = Fleet::longest_wait(self.claim.ttl);
        let vote = timeout(limit, node.attempt(&certificate, &self.claim, fence, false)).await;
        let vote = vote.unwrap_or_else(|_| Err(silent(limit)));
        if vote.as_ref().map_or_else(had_no_effect, |_| true) {
            track.answered(self.at, before);
        }
        if let Ok(Vote::Yes(yes)) = &vote
            && yes.fence != fence
        {
            let noted = node.raise(&certificate, &self.claim, fence);
            timeout(limit, noted).await.unwrap_or_else(|_| Err(silent(limit)))?;
        }
        vote
    }
}
