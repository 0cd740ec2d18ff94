//! Turns and holds under one mutex, because acquire and release need both.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use crate::backend_util::lock;
use crate::client::answer::send;
use crate::{Mode, Reason, Token};

use super::{Hold, HoldEvents, Shared, Table};

/// Early losses and recalls need limits: those of ended and foreign holds stay listed.
const MOST_EARLY_LOSSES: usize = 1024;
const MOST_EARLY_RECALLS: usize = 64;

impl Table {
    /// Returns the holds of these events. A loss or recall without a hold is stored, because the
    /// acquire's answer may arrive later.
    pub(crate) fn concerned(&mut self, events: &HashMap<Token, HoldEvents>) -> Vec<Arc<Hold>> {
        let holds = self.holds.find(|hold| events.contains_key(&hold.claim.token));
        if holds.len() < events.len() {
            let mut early = events.clone();
            for hold in &holds {
                early.remove(&hold.claim.token);
            }
            for (token, HoldEvents { recalled, lost, .. }) in early {
                self.early_losses.extend(lost.map(|reason| (token, reason)));
                self.early_recalls.extend(recalled.then_some(token));
            }
            let excess = self.early_losses.len().saturating_sub(MOST_EARLY_LOSSES);
            self.early_losses.drain(..excess);
            let excess = self.early_recalls.len().saturating_sub(MOST_EARLY_RECALLS);
            self.early_recalls.drain(..excess);
        }
        holds
    }

    fn take_early_events(&mut self, token: Token) -> HoldEvents {
        let place = self.early_losses.iter().position(|(lost, _)| *lost == token);
        let lost = place.and_then(|place| self.early_losses.remove(place));
        let recalled = self.early_recalls.contains(&token);
        HoldEvents { lost: lost.map(|(_, reason)| reason), recalled, ..HoldEvents::default() }
    }
}

impl Shared {
    /// While the table is locked, never drop a hold, notify or send: each may call this client, and
    /// deadlock.
    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    pub(crate) fn take_in(hold: &Arc<Hold>, wait_nanos: u64) {
        let (shared, first_due) = (&hold.shared, hold.first_due());
        let (wakes_renewer, joined, HoldEvents { recalled, lost, .. }) = {
            let mut table = shared.table();
            let wakes_renewer = table.holds.insert(hold, first_due, wait_nanos);
            (wakes_renewer, table.turns.granted(hold), table.take_early_events(hold.claim.token))
        };
        if recalled {
            hold.note_recall();
        }
        if let Some(reason) = lost {
            hold.lose(reason);
        }
        if wakes_renewer {
            shared.renewer.notify_one();
        }
        for (sender, passed) in joined {
            // If the receiver is gone, the drop of the returned share gives the hold back.
            let _ = send(sender, passed);
        }
        if hold.owner.is_some() && hold.claim.mode != Mode::Exclusive {
            shared.waiters.wake(&hold.claim.name);
        }
    }

    pub(crate) fn let_go(hold: &Hold, ended: Result<u64, Reason>) {
        let shared = &hold.shared;
        let next = {
            let mut table = shared.table();
            table.holds.remove_ended(hold, ended);
            hold.take_turn().then(|| table.turns.next(&hold.claim.name, None, &shared.settings))
        };
        if let Some(next) = next.flatten() {
            shared.pass_turn_to(Some(next), &hold.claim.name, None);
        }
        shared.done_in_place(ended.is_ok());
    }
}
