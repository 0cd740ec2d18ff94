use std::sync::Arc;
use std::time::Duration;

use crate::client::renewer::renew_once;
use crate::client::{Pending, answer, ignore_panic};
use crate::{BootInstant, Claim, Error, ReleaseMode, ReleaseOutcome, Renew, Result};

use super::releasing::Retention;
use super::{Hold, Job, Shared};

const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

pub(crate) const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

impl Job {
    pub(crate) fn release(hold: Arc<Hold>, retention: Option<Retention>) -> Self {
        let shared = Arc::clone(&hold.shared);
        let release_mode = hold.release_mode;
        let has_turn = {
            let _table = shared.table();
            hold.take_turn()
        };
        let last_sent = match retention {
            Some(retention) => retention.last_sent,
            None => (release_mode == ReleaseMode::Reconcile).then(|| hold.granted_at),
        };
        let (claim, retain_until) =
            (hold.claim.clone(), retention.map(|retention| retention.until));
        Self { shared, claim, release_mode, has_turn, last_sent, retain_until }
    }

    pub(crate) fn reconcile(shared: Arc<Shared>, pending: Pending, has_turn: bool) -> Self {
        let Pending { claim, release_mode, last_sent, .. } = pending;
        let last_sent = Some(last_sent);
        Self { shared, claim, release_mode, has_turn, last_sent, retain_until: None }
    }

    /// Passes the turn to the next local request, although the release is unanswered. If the server
    /// stays silent, that request fails at its own limit. Exclusion is safe: the server
    /// distinguishes claims by token.
    fn pass_turn(&mut self, since: BootInstant, error: &Error) {
        if std::mem::take(&mut self.has_turn) {
            let name = &self.claim.name;
            self.shared.note_trouble(name, since, error);
            self.shared.pass_turn(name, None);
        }
    }

    /// If this future is dropped unfinished, the next local request gets the turn.
    pub(crate) async fn run(mut self) {
        let (shared, ttl) = (Arc::clone(&self.shared), self.claim.ttl);
        let begun = shared.clock.now();
        let mut pause = TRY_AGAIN.0;
        loop {
            let sent = shared.clock.now();
            let (claim, mode) = (&self.claim, self.release_mode);
            let answer = release_or_retain(&shared, claim, mode, self.retain_until).await;
            let now = shared.clock.now();
            if answer.is_ok() && self.has_turn {
                shared.table().turns.note_answer(&self.claim.name);
            }
            match answer {
                Ok(ended) if self.is_reconciled(ended, sent, now) => break,
                // Without a tombstone, the server may still grant a late acquire. So the release is
                // repeated until one TTL after the last acquire.
                Ok(_) => {}
                Err(error) => {
                    ignore_panic(
                        || tracing::debug!(name = %self.claim.name, %error, "a release has to be tried again"),
                    );
                    if !error.is_transient() || self.may_give_up(begun, now) {
                        ignore_panic(
                            || tracing::warn!(name = %self.claim.name, %error, "a release was given up"),
                        );
                        break;
                    }
                    self.pass_turn(sent, &error);
                }
            }
            if shared.is_closed() && now > begun + ttl {
                break;
            }
            shared.clock.sleep_until(self.next_try(now, shared.spread(pause))).await;
            pause = (pause * 2).min(TRY_AGAIN.1).min(ttl.max(TRY_AGAIN.0));
        }
        if self.last_sent.is_some() {
            shared.metrics.settled.add(1);
        }
    }

    /// An unanswered renewal may set the hold to one TTL, so a last renewal is repeated before that
    /// time. The release follows at the end of the kept time.
    fn next_try(&self, now: BootInstant, pause: Duration) -> BootInstant {
        match self.retain_until {
            Some(until) if now < until => (now + pause.min(self.claim.ttl / 4)).min(until),
            _ => now + pause,
        }
    }

    fn is_reconciled(&self, ended: ReleaseOutcome, sent: BootInstant, now: BootInstant) -> bool {
        let ttl = self.claim.ttl;
        let long_ago = |at| self.last_sent.is_none_or(|last| at > last + ttl);
        if self.retain_until.is_some_and(|until| sent < until) {
            // After `close`, the lock may expire one TTL after an unanswered renewal.
            let is_gone =
                ended == ReleaseOutcome::NotHeld && self.release_mode == ReleaseMode::Plain;
            return is_gone || self.shared.is_closed() || long_ago(sent);
        }
        self.shared.one_answer_reconciles(self.release_mode)
            || (ended == ReleaseOutcome::NotHeld && long_ago(now))
    }

    /// Returns whether the release may be given up: after two TTLs, but never for an unanswered
    /// claim, which the server may still grant.
    fn may_give_up(&self, begun: BootInstant, now: BootInstant) -> bool {
        self.release_mode == ReleaseMode::Plain && now > begun + self.claim.ttl * 2
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.has_turn {
            self.shared.pass_turn(&self.claim.name, None);
        }
        self.shared.done_in_background();
    }
}

/// Before `retain_until`, renews the hold for the remaining time, so that it expires then on the
/// server. Later, releases it.
pub(crate) async fn release_or_retain(
    shared: &Shared,
    claim: &Claim,
    release_mode: ReleaseMode,
    retain_until: Option<BootInstant>,
) -> Result<ReleaseOutcome> {
    let left = retain_until.map(|until| until.saturating_since(shared.clock.now()));
    let Some(left) = left.filter(|left| !left.is_zero()) else {
        return send_release(shared, claim, release_mode).await;
    };
    let (ttl, patience) = (left.max(*shared.backend.profile().ttl.start()), patience(claim));
    let retained = Claim { ttl, ..claim.clone() };
    match renew_once(shared, Renew { claim: &retained, patience }, "the last renewal").await? {
        None => Ok(ReleaseOutcome::Released),
        Some(_) => {
            // A broken hold can't be renewed, and only its release frees the lock at once.
            send_release(shared, claim, release_mode).await?;
            Ok(ReleaseOutcome::NotHeld)
        }
    }
}

fn patience(claim: &Claim) -> Duration {
    (claim.ttl / 2).clamp(Duration::from_millis(100), RELEASE_PATIENCE)
}

pub(crate) async fn send_release(
    shared: &Shared,
    claim: &Claim,
    release_mode: ReleaseMode,
) -> Result<ReleaseOutcome> {
    let send = || shared.backend.release(claim, release_mode);
    answer(shared, send, shared.clock.now() + patience(claim), "the release").await
}
