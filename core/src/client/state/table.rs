//! Turns and holds under one mutex: acquire and release need both, and each mutex would cost much of their time.

use std::sync::{Arc, MutexGuard, PoisonError};

use crate::clock::BootInstant;
use crate::reason::Reason;

use super::{Hold, Shared, Table};

impl Shared {
    /// While locked, never drop, notify or send: each may call back.
    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_in(hold: &Arc<Hold>, first_due: BootInstant, wait_nanos: u64) {
        let shared = &hold.shared;
        let (tell_keeper, joined) = {
            let mut table = shared.table();
            let tell_keeper = table.holds.insert(hold, first_due, wait_nanos);
            (tell_keeper, table.turns.granted(hold))
        };
        if tell_keeper {
            shared.renewer.notify_one();
        }
        if let Some(joined) = joined {
            joined.enter(hold);
        }
    }

    pub(crate) fn let_go(hold: &Hold, ended: Result<u64, Reason>) {
        let shared = &hold.shared;
        let next = {
            let mut table = shared.table();
            table.holds.remove_ended(hold, ended);
            hold.take_turn().then(|| table.turns.next(&hold.claim.name, None))
        };
        if let Some(next) = next.flatten() {
            shared.pass_turn_to(Some(next), &hold.claim.name, None);
        }
        shared.done_in_place(ended.is_ok());
    }
}
