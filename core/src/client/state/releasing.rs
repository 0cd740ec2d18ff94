use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::{BootInstant, Error, ErrorKind, Reason, ReleaseOutcome, Result};

use super::background_release::send_release;
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
}

impl Releasing {
    pub(crate) fn begin(hold: Arc<Hold>, now: BootInstant) -> Self {
        let ended = hold.end(now);
        hold.shared.count_ended(ended.is_ok());
        Self { hold: Some(hold), ended }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.hold.as_ref().expect("it has its hold until it is finished")
    }

    pub(crate) async fn send(self) -> Result<()> {
        let hold = self.hold();
        let sending = send_release(&hold.shared, &hold.claim, hold.release_mode);
        let answer = hold.shared.inside(sending).await;
        self.answered(answer)
    }

    pub(crate) fn answered(mut self, answer: Result<ReleaseOutcome>) -> Result<()> {
        let hold = self.hold();
        let is_done = answer.is_ok() && hold.shared.one_answer_reconciles(hold.release_mode);
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
            Shared::in_background(Job::release(Arc::clone(&hold)));
            Shared::let_go(&hold, self.ended);
        }
    }
}
