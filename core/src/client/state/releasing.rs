use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::{BootInstant, Error, ErrorKind, Reason, ReleaseOutcome, Result};

use super::background_release::end_on_server;
use super::{Hold, Job, Shared};

pub(crate) fn end_in_background(hold: Arc<Hold>) {
    if hold.shared.leave(&hold) {
        let now = hold.clock().now();
        if !Shared::hand_over(&hold, now) {
            drop(Releasing::begin(hold, now, false));
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
    keep: Option<Keep>,
}

/// A last renewal instead of the release.
#[derive(Clone, Copy)]
pub(crate) struct Keep {
    /// When the lock must be free.
    pub(super) until: BootInstant,
    /// When the release began, if a request about the hold was unanswered then. That request may
    /// still change the TTL.
    pub(super) last_sent: Option<BootInstant>,
}

impl Hold {
    fn keep(&self, now: BootInstant, is_completed: bool) -> Option<Keep> {
        let bounds = self.bounds.as_ref()?;
        let once_per = if is_completed { bounds.once_per } else { Duration::ZERO };
        let until = (self.granted_at + bounds.at_least).max(now + once_per);
        let last_sent = self.is_unanswered().then_some(now);
        (until > now).then_some(Keep { until, last_sent })
    }
}

impl Releasing {
    /// The time of `once_per` counts if the holder has completed its work.
    pub(crate) fn begin(hold: Arc<Hold>, now: BootInstant, is_completed: bool) -> Self {
        let ended = hold.end(now);
        hold.shared.count_ended(ended.is_ok());
        let keep = if ended.is_ok() { hold.keep(now, is_completed) } else { None };
        Self { hold: Some(hold), ended, keep }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.keep.is_some()
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.hold.as_ref().expect("it has its hold until it is finished")
    }

    pub(crate) async fn send(self) -> Result<()> {
        let hold = self.hold();
        let keep_until = self.keep.map(|keep| keep.until);
        let sending = end_on_server(&hold.shared, &hold.claim, hold.release_mode, keep_until);
        let answer = hold.shared.inside(sending).await;
        self.answered(answer)
    }

    pub(crate) fn answered(mut self, answer: Result<ReleaseOutcome>) -> Result<()> {
        let hold = self.hold();
        let is_reconciled = match self.keep {
            Some(keep) => keep.last_sent.is_none(),
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
            // The job has taken the turn, so `let_go` passes no turn on.
            Shared::in_background(Job::release(Arc::clone(&hold), self.keep));
            Shared::let_go(&hold, self.ended);
        }
    }
}
