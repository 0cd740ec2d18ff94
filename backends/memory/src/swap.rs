use std::sync::Arc;

use lockwright_core::{AcquireOutcome, BootInstant, Busy, Claim, Mode, Result, Token};

use crate::store::{Store, next_fence};

impl Store {
    pub(crate) fn swap(
        &mut self,
        from: Token,
        to: &Claim,
        now: BootInstant,
    ) -> Result<AcquireOutcome> {
        self.tombstones.refuse(to.token, now)?;
        let not_held = Ok(AcquireOutcome::Busy(Busy::default()));
        let Some(row) = self.names.get_mut(&to.name) else { return not_held };
        row.expire(now);
        // If this swap repeats an unanswered one, the hold already has the new token.
        if let Some(hold) = row.held_by(to.token) {
            return Ok(AcquireOutcome::Granted(hold.repeated(to.ttl, now)));
        }
        let Some(hold) = row.held_by(from) else { return not_held };
        if hold.broken.is_some() || hold.mode != to.mode {
            return not_held;
        }
        // A reader keeps its fence, because concurrent readers share one.
        if hold.mode != Mode::Shared {
            hold.fence = next_fence(&mut self.last_fence, 1)?;
        }
        hold.fences = 1;
        hold.token = to.token;
        hold.identity = Arc::clone(&to.identity);
        hold.expires = now + to.ttl;
        let granted = hold.granted();
        // The tombstone rejects a late duplicate of the old token's acquire.
        self.tombstones.insert(from, now);
        Ok(AcquireOutcome::Granted(granted))
    }
}
