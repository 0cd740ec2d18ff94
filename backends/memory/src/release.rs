use hashbrown::hash_map::EntryRef;
use lockwright_core::{BootInstant, Claim, ReleaseMode, ReleaseOutcome};

use crate::store::{Done, Store};

impl Store {
    pub(crate) fn release(
        &mut self,
        claim: &Claim,
        release_mode: ReleaseMode,
        now: BootInstant,
    ) -> Done<ReleaseOutcome> {
        if release_mode == ReleaseMode::Reconcile {
            self.tombstones.insert(claim.token, now);
        }
        let not_held = Done { answer: ReleaseOutcome::NotHeld, wake: false };
        let EntryRef::Occupied(mut entry) = self.names.entry_ref(&claim.name) else {
            return not_held;
        };
        let row = entry.get_mut();
        let held = row.remove(claim.token).is_some_and(|hold| now < hold.expires);
        row.expire(now);
        let left = row.leave_queue(claim.token);
        let wake = row.lets_next_in();
        if row.is_idle() {
            entry.remove();
        }
        let answer = if held || left { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld };
        Done { answer, wake }
    }
}
