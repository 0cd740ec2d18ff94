//! The shared holds with an owner, for reentrant requests: shared requests skip the local queue.

use std::sync::Arc;

use crate::{BootInstant, LockName, Owner};

use super::{Hold, SharedHolders};

impl SharedHolders {
    pub(super) fn of(
        &self,
        name: &LockName,
        owner: &Owner,
        now: BootInstant,
    ) -> Option<&Arc<Hold>> {
        let holds = self.0.get(name)?;
        holds.iter().find(|hold| hold.owner.as_ref() == Some(owner) && hold.looks_live(now))
    }

    pub(super) fn add(&mut self, hold: &Arc<Hold>) {
        self.0.entry_ref(&hold.claim.name).or_default().push(Arc::clone(hold));
    }

    pub(super) fn remove(&mut self, hold: &Hold) {
        let name = &hold.claim.name;
        let Some(holds) = self.0.get_mut(name) else { return };
        holds.retain(|known| !std::ptr::eq(&**known, hold));
        if holds.is_empty() {
            self.0.remove(name);
        }
    }
}
