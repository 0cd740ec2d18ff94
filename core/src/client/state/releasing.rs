use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::{BootInstant, Error, ErrorKind, Reason, ReleaseOutcome, Result};

use super::background_release::end_on_server;
use super::{Hold, Job, Shared};

pub(crate) fn end_in_background(hold: Arc<Hold>) {
    if hold.shared.leave(&hold) {
        let now = hold.clock().now();
        if !Shared::hand_over(&hold, now) {
            drop(Releasing::begin(hold, now));
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
    begun: BootInstant,
    /// Until then, a renewal for the remaining time replaces the release.
    free_at: BootInstant,
    is_unanswered: bool,
}

impl Releasing {
    pub(crate) fn begin(hold: Arc<Hold>, now: BootInstant) -> Self {
        let ended = hold.end(now);
        hold.shared.count_ended(ended.is_ok());
        let free_at = if ended.is_ok() { hold.free_at() } else { now };
        let is_unanswered = hold.retention.is_some() && hold.is_unanswered();
        Self { hold: Some(hold), ended, begun: now, free_at, is_unanswered }
    }

    /// Keeps the lock for the time of `once_per`, because the holder has completed its work.
    pub(crate) fn completed(mut self) -> Self {
        if let (Some(it), Ok(_)) = (&self.hold().retention, self.ended) {
            self.free_at = self.free_at.max(self.begun + it.once_per);
        }
        self
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.free_at > self.begun
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.hold.as_ref().expect("it has its hold until it is finished")
    }

    pub(crate) async fn send(self) -> Result<()> {
        let hold = self.hold();
        let sending = end_on_server(&hold.shared, &hold.claim, hold.release_mode, self.free_at);
        let answer = hold.shared.inside(sending).await;
        self.answered(answer)
    }

    pub(crate) fn answered(mut self, answer: Result<ReleaseOutcome>) -> Result<()> {
        let hold = self.hold();
        let is_reconciled = match self.is_kept() {
            true => !self.is_unanswered,
            false => hold.shared.one_answer_reconciles(hold.release_mode),
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
            let mut job = Job::release(Arc::clone(&hold));
            if self.is_kept() {
                job.keep_until(self.free_at, self.is_unanswered.then_some(self.begun));
            }
            Shared::in_background(job);
            Shared::let_go(&hold, self.ended);
        }
    }
}
