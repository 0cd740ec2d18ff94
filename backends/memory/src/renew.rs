use lockwright_core::{BootInstant, Reason, Renew, Renewal, RenewalOutcome};

use crate::store::Store;

impl Store {
    pub(crate) fn renew(&mut self, renew: &Renew<'_>, now: BootInstant) -> Renewal {
        let claim = renew.claim;
        let Some(row) = self.names.get_mut(&claim.name) else {
            return Renewal::not_held(Reason::Gone);
        };
        let waiters = row.is_waited_for();
        let outcome = match row.held_by(claim.token) {
            None => RenewalOutcome::NotHeld(Reason::Gone),
            Some(hold) if now >= hold.expires => RenewalOutcome::NotHeld(Reason::Expired),
            Some(hold) if hold.broken.is_some() => RenewalOutcome::NotHeld(Reason::Broken),
            Some(hold) => {
                hold.expires = now + claim.ttl;
                RenewalOutcome::Renewed { valid: None }
            }
        };
        Renewal { outcome, waiters }
    }
}
