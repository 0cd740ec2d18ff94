use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::{BootInstant, Error, ErrorKind, Reason, ReleaseOutcome, Result};

use super::background_release::release_or_retain;
use super::{Hold, Job, Shared};

/// How a hold was used until its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// No guard had the hold, or its request failed.
    None,
    /// Its guard was dropped.
    Dropped,
    /// Its guard was released, so its work is complete.
    Released,
}

pub(crate) fn end_in_background(hold: Arc<Hold>, usage: Use) {
    if hold.shared.leave(&hold) {
        let now = hold.clock().now();
        if !Shared::hand_over(&hold, now) {
            drop(Releasing::begin(hold, now, usage));
        }
    }
}

/// Ends the hold in this client, but not on the server. After an error, the guard keeps the hold.
pub(crate) fn end_for_ticket(hold: &Arc<Hold>) -> Result<()> {
    let profile = hold.shared.backend.profile();
    if !profile.tickets {
        return Err(Error::unsupported("moving a hold to another process", profile));
    }
    if !hold.shared.leave_if_last(hold) {
        let message = "its owner has another guard on this hold; release that first";
        return Err(hold.error(Error::new(ErrorKind::Conflict, message)));
    }
    match hold.end(hold.clock().now()) {
        Ok(nanos) => {
            hold.shared.count_ended(true);
            Shared::let_go(hold, Ok(nanos));
            Ok(())
        }
        Err(reason) => {
            hold.guards.store(1, Ordering::Release);
            Err(lost(hold, reason))
        }
    }
}

pub(crate) fn lost(hold: &Hold, reason: Reason) -> Error {
    hold.error(Error::lost(reason, &hold.claim.name))
}

/// A release in progress. If dropped unfinished, it continues in the background.
pub(crate) struct Releasing {
    hold: Option<Arc<Hold>>,
    pub(crate) ended: Result<u64, Reason>,
    retention: Option<Retention>,
}

/// A last renewal, sent instead of the release.
#[derive(Clone, Copy)]
pub(crate) struct Retention {
    /// When the lock expires on the server.
    pub(super) until: BootInstant,
    /// When the release began, if another request about the hold may still change the TTL. The last
    /// renewal is then repeated for one TTL.
    pub(super) last_sent: Option<BootInstant>,
}

impl Hold {
    fn retention(&self, now: BootInstant, usage: Use) -> Option<Retention> {
        let schedule = self.schedule.as_ref().filter(|_| usage != Use::None)?;
        let once_per = if usage == Use::Released { schedule.once_per } else { Duration::ZERO };
        let until = (self.granted_at + schedule.at_least).max(now + once_per);
        let last_sent = self.is_unanswered().then_some(now);
        (until > now).then_some(Retention { until, last_sent })
    }
}

impl Releasing {
    pub(crate) fn begin(hold: Arc<Hold>, now: BootInstant, usage: Use) -> Self {
        let ended = hold.end(now);
        hold.shared.count_ended(ended.is_ok());
        let retention = if ended.is_ok() { hold.retention(now, usage) } else { None };
        Self { hold: Some(hold), ended, retention }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.retention.is_some()
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.hold.as_ref().expect("it has its hold until it is finished")
    }

    pub(crate) async fn send(self) -> Result<()> {
        let hold = self.hold();
        let retain_until = self.retention.map(|retention| retention.until);
        let sending = release_or_retain(&hold.shared, &hold.claim, hold.release_mode, retain_until);
        let answer = hold.shared.inside(sending).await;
        self.answered(answer)
    }

    pub(crate) fn answered(mut self, answer: Result<ReleaseOutcome>) -> Result<()> {
        let hold = self.hold();
        let is_reconciled = match self.retention {
            Some(retention) => retention.last_sent.is_none(),
            None => hold.shared.one_answer_reconciles(hold.release_mode),
        };
        let is_done = answer.is_ok() && is_reconciled;
        let result = match (answer, self.ended) {
            (_, Err(reason)) => Err(lost(hold, reason)),
            (Ok(ReleaseOutcome::Released), Ok(_)) => Ok(()),
            (Ok(ReleaseOutcome::NotHeld), Ok(_)) => Err(lost(hold, Reason::Gone)),
            (Err(error), Ok(_)) => Err(hold.error(error)),
        };
        if is_done && let Some(hold) = self.hold.take() {
            Shared::let_go(&hold, self.ended);
        }
        result
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            // The job has taken the turn, so `let_go` passes none on.
            Shared::in_background(Job::release(Arc::clone(&hold), self.retention));
            Shared::let_go(&hold, self.ended);
        }
    }
}
