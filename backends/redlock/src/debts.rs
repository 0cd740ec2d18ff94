//! Pending releases, retried until the node answers or the possible hold has expired. So failed and cancelled rounds
//! leave nothing on a node that returns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_core::{BootInstant, Claim, Error, ReleaseMode, ReleaseOutcome, Result, Token};
use tokio::time::{sleep, timeout};

use crate::fleet::{Fleet, silent};
use crate::tracks::Track;

/// Maximum per node. Beyond it, the oldest holds expire by themselves.
const MOST: usize = 10_000;

/// The shortest and the longest pause.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

#[derive(Debug)]
pub(crate) struct Debts(Vec<Mutex<Owed>>);

#[derive(Debug, Default)]
struct Owed {
    releases: HashMap<Token, Debt>,
    /// Set while a task retries them.
    is_paid: bool,
}

#[derive(Debug, Clone)]
struct Debt {
    claim: Arc<Claim>,
    release_mode: ReleaseMode,
    until: BootInstant,
    /// Keeps the token's lane closed: the release would revoke a new vote.
    track: Option<Arc<Track>>,
}

impl Debts {
    pub(crate) fn new(nodes: usize) -> Self {
        Self((0..nodes).map(|_| Mutex::default()).collect())
    }

    fn of(&self, at: usize) -> MutexGuard<'_, Owed> {
        self.0[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owed {
    fn add(&mut self, debt: Debt) {
        if let Some(old) = self.releases.get_mut(&debt.claim.token) {
            old.until = old.until.max(debt.until);
            if debt.release_mode == ReleaseMode::Reconcile {
                old.release_mode = debt.release_mode;
            }
            old.track = debt.track.or(old.track.take());
            return;
        }
        if self.releases.len() >= MOST
            && let Some(oldest) = self.next()
        {
            self.releases.remove(&oldest.claim.token);
        }
        self.releases.insert(debt.claim.token, debt);
    }

    fn next(&self) -> Option<Debt> {
        self.releases.values().min_by_key(|debt| (debt.until, debt.claim.token)).cloned()
    }
}

impl Fleet {
    /// Ends a hold at one node. Without a reply, the release becomes pending.
    pub(crate) async fn release_at(
        self: &Arc<Self>,
        at: usize,
        claim: &Arc<Claim>,
        release_mode: ReleaseMode,
    ) -> Result<ReleaseOutcome> {
        let answer = self.send_release(at, claim, release_mode).await;
        if answer.as_ref().is_err_and(Error::is_transient) {
            self.owe(at, claim, release_mode, None);
        }
        answer
    }

    /// Ends a claim that may be requested again. A late release could end a newer hold of the token, so a pending one
    /// leaves a tombstone.
    pub(crate) async fn give_back_at(
        self: &Arc<Self>,
        at: usize,
        claim: &Arc<Claim>,
        release_mode: ReleaseMode,
        track: &Arc<Track>,
    ) -> Result<ReleaseOutcome> {
        let answer = self.send_release(at, claim, release_mode).await;
        if answer.as_ref().is_err_and(Error::is_transient) {
            self.owe(at, claim, ReleaseMode::Reconcile, Some(Arc::clone(track)));
        }
        answer
    }

    fn owe(
        self: &Arc<Self>,
        at: usize,
        claim: &Arc<Claim>,
        release_mode: ReleaseMode,
        track: Option<Arc<Track>>,
    ) {
        let longest = match release_mode {
            ReleaseMode::Plain => claim.ttl,
            // The hold may not have begun yet.
            ReleaseMode::Reconcile => self.options.largest_ttl,
        };
        let until = self.now() + longest;
        let mut owed = self.debts.of(at);
        owed.add(Debt { claim: Arc::clone(claim), release_mode, until, track });
        if !std::mem::replace(&mut owed.is_paid, true) {
            self.runtime.spawn(pay(Arc::clone(self), at));
        }
    }

    /// Extends a pending tombstone when its token is requested again: an earlier request may take effect at any time.
    pub(crate) fn is_still_wanted(&self, at: usize, token: Token) {
        let until = self.now() + self.options.largest_ttl;
        if let Some(debt) = self.debts.of(at).releases.get_mut(&token) {
            debt.until = debt.until.max(until);
        }
    }

    async fn send_release(
        &self,
        at: usize,
        claim: &Claim,
        release_mode: ReleaseMode,
    ) -> Result<ReleaseOutcome> {
        let limit = Self::longest_wait(claim.ttl);
        let answer = timeout(limit, self.nodes[at].release(claim, release_mode)).await;
        answer.unwrap_or_else(|_| Err(silent(limit)))
    }
}

async fn pay(fleet: Arc<Fleet>, at: usize) {
    let mut pause = TRY_AGAIN.0;
    loop {
        sleep(pause).await;
        loop {
            let debt = {
                let mut owed = fleet.debts.of(at);
                let now = fleet.now();
                owed.releases.retain(|_, debt| debt.until > now);
                match owed.next() {
                    Some(debt) => debt,
                    None => {
                        owed.is_paid = false;
                        return;
                    }
                }
            };
            if let Err(error) = fleet.send_release(at, &debt.claim, debt.release_mode).await {
                let address = fleet.address(at);
                if error.is_transient() {
                    tracing::debug!(node = address, %error, "a release is still owed");
                    break;
                }
                tracing::warn!(node = address, %error, "a release was given up");
            }
            pause = TRY_AGAIN.0;
            fleet.debts.of(at).releases.remove(&debt.claim.token);
        }
        pause = (pause * 2).min(TRY_AGAIN.1);
    }
}
