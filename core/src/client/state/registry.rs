//! All live holds: a slab of slots, and a heap of due instants. Rescheduling or removing a hold
//! increments its slot's generation, which makes its heap entry stale.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::client::metrics::Totals;
use crate::{BootInstant, Reason};

use super::{DueEntry, Hold, Registry, Slot};

const SWEEP_FROM: usize = 64;

impl Registry {
    /// Returns true if the caller must wake the renewal task.
    pub(crate) fn insert(&mut self, hold: &Arc<Hold>, at: BootInstant, wait_nanos: u64) -> bool {
        self.totals.acquired += 1;
        self.totals.wait_nanos += wait_nanos;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot::default());
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize].hold = Some(Arc::clone(hold));
        hold.slot.store(u64::from(slot), Ordering::Relaxed);
        hold.note_check(at);
        self.schedule(slot, at, || hold.first_slack())
    }

    /// Schedules the end of a warm hold, unless an earlier check is scheduled. Returns true if the
    /// caller must wake the renewal task.
    pub(crate) fn check_warm(&mut self, hold: &Arc<Hold>) -> bool {
        hold.warm_until().is_some_and(|until| until < hold.check_at())
            && self.reschedule([(hold, hold.check_at())])
    }

    pub(crate) fn remove_ended(&mut self, hold: &Hold, ended: Result<u64, Reason>) {
        if let Ok(held_nanos) = ended {
            self.totals.released += 1;
            self.totals.hold_nanos += held_nanos;
        }
        self.remove(hold);
    }

    pub(crate) fn remove(&mut self, hold: &Hold) {
        let slot = hold.slot.load(Ordering::Relaxed);
        if slot == u64::MAX {
            return;
        }
        hold.slot.store(u64::MAX, Ordering::Relaxed);
        let slot = slot as u32;
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.hold = None;
        self.free.push(slot);
        self.count_stale();
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    pub(crate) fn reschedule<'a>(
        &mut self,
        due: impl IntoIterator<Item = (&'a Arc<Hold>, BootInstant)>,
    ) -> bool {
        let mut wakes = false;
        for (hold, at) in due {
            let slot = hold.slot.load(Ordering::Relaxed);
            if slot == u64::MAX {
                continue;
            }
            let at = hold.warm_until().map_or(at, |until| until.min(at));
            hold.note_check(at);
            let entry = &mut self.slots[slot as usize];
            entry.generation = entry.generation.wrapping_add(1);
            self.count_stale();
            // Only a hold's first check may be late, so the slack is zero.
            wakes |= self.schedule(slot as u32, at, || Duration::ZERO);
        }
        wakes
    }

    /// Moves the due holds to `into`, including holds due soon enough to join the batch. The caller
    /// must reschedule or remove each hold.
    pub(crate) fn take_due(&mut self, now: BootInstant, into: &mut Vec<Arc<Hold>>) {
        let mut until = now;
        while let Some(Reverse(entry)) = self.due.peek().copied() {
            let hold = self.live(entry).cloned();
            if hold.is_some() && entry.at > until {
                break;
            }
            self.due.pop();
            // Rescheduling will count a live hold's entry as stale.
            self.stale = self.stale.saturating_sub(1);
            if let Some(hold) = hold {
                until = until.max(now + hold.renew_slack());
                into.push(hold);
            }
        }
    }

    /// Returns when the renewal task wakes up next. Without holds, the planned wake-up stays, so a
    /// hold that is due after it needn't notify the task.
    pub(crate) fn next_due(&mut self, now: BootInstant) -> Option<BootInstant> {
        while let Some(Reverse(entry)) = self.due.peek().copied()
            && self.live(entry).is_none()
        {
            self.due.pop();
            self.stale = self.stale.saturating_sub(1);
        }
        let planned = self.renewer_wakes_at.filter(|planned| *planned > now);
        self.renewer_wakes_at = self.due.peek().map(|Reverse(entry)| entry.at).or(planned);
        self.renewer_wakes_at
    }

    pub(crate) fn find(&self, wanted: impl Fn(&Hold) -> bool) -> Vec<Arc<Hold>> {
        self.slots
            .iter()
            .filter_map(|slot| slot.hold.as_ref())
            .filter(|hold| wanted(hold))
            .cloned()
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn live(&self, entry: DueEntry) -> Option<&Arc<Hold>> {
        let slot = &self.slots[entry.slot as usize];
        slot.hold.as_ref().filter(|_| slot.generation == entry.generation)
    }

    fn schedule(&mut self, slot: u32, at: BootInstant, slack: impl FnOnce() -> Duration) -> bool {
        let generation = self.slots[slot as usize].generation;
        self.due.push(Reverse(DueEntry { at, slot, generation }));
        let soon_enough = self
            .renewer_wakes_at
            .is_some_and(|wakes_at| wakes_at <= at || wakes_at <= at + slack());
        if !soon_enough {
            self.renewer_wakes_at = Some(at);
        }
        !soon_enough
    }

    fn count_stale(&mut self) {
        self.stale += 1;
        if self.stale > SWEEP_FROM && self.stale * 2 > self.due.len() {
            let Self { slots, due, .. } = self;
            due.retain(|Reverse(entry)| {
                let slot = &slots[entry.slot as usize];
                slot.hold.is_some() && slot.generation == entry.generation
            });
            self.stale = 0;
        }
    }
}
