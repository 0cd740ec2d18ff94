use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{AcquireOutcome, BootInstant, Busy, Claim, Error, Mode, Result};

use crate::row::Held;
use crate::store::{Done, Store, next_fence};

impl Store {
    pub(crate) fn acquire(
        &mut self,
        claim: &Claim,
        queue_for: Option<Duration>,
        now: BootInstant,
    ) -> Result<Done<AcquireOutcome>> {
        self.tombstones.refuse(claim.token, now)?;
        self.tidy(now);
        let row = self.names.entry_ref(&claim.name).or_default();
        row.expire(now);
        let waiters = row.is_waited_for();
        if let Some(hold) = row.held_by(claim.token) {
            let mut granted = hold.repeated(claim.ttl, now);
            granted.waiters = waiters;
            return Ok(Done { answer: AcquireOutcome::Granted(granted), wake: false });
        }
        if let Some(present) = row.other_kind(claim.mode) {
            return Err(Error::other_kind(present, claim.mode));
        }
        if row.admits(claim.token, claim.mode) {
            let (fence, fences) = match row.epoch(claim.mode) {
                Some(epoch) => (epoch, 1),
                None => {
                    let fences =
                        if claim.mode == Mode::Exclusive { claim.fences.max(1) } else { 1 };
                    (next_fence(&mut self.last_fence, fences)?, fences)
                }
            };
            let has_waited = row.leave_queue(claim.token);
            let hold = Held {
                token: claim.token,
                identity: Arc::clone(&claim.identity),
                mode: claim.mode,
                fence,
                fences,
                expires: now + claim.ttl,
                broken: None,
            };
            let mut granted = hold.granted();
            granted.waiters = row.is_waited_for();
            row.add(hold);
            // The next waiter, such as another reader, may be admitted too.
            let wake = has_waited && row.lets_next_in();
            return Ok(Done { answer: AcquireOutcome::Granted(granted), wake });
        }
        let queued = queue_for.is_some();
        if let Some(patience) = queue_for {
            row.queue_up(claim.token, claim.mode, now + patience);
        }
        // The store sends no wake-up when a hold expires, so the client retries then, or after the
        // claim's TTL if only waiters are ahead.
        let free_in = row.free_at(claim.mode).map_or(claim.ttl, |at| at.saturating_since(now));
        let busy = Busy {
            retry_after: Some(free_in),
            holder: row.holds().next().map(|hold| Box::new(hold.shown(now))),
            queued,
        };
        Ok(Done { answer: AcquireOutcome::Busy(busy), wake: false })
    }
}
