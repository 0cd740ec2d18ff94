use std::sync::atomic::Ordering;

use crate::backend_util::lock;
use crate::{Event, Token};

use super::{HoldEvents, Shared};

impl Shared {
    /// Records a backend's event and notifies waiting tasks. Any thread may call this method.
    pub(crate) fn on_event(&self, event: Event) {
        match event {
            Event::Wake(name) => self.waiters.wake(&name),
            Event::Handed(token, granted) => self.waiters.hand(token, granted),
            Event::AtRisk(token) => self.note(token, |events| events.at_risk = true),
            Event::Lost(token, reason) => {
                self.note(token, |events| events.lost = events.lost.or(Some(reason)));
            }
            Event::Recall(token) => self.note(token, |events| events.recalled = true),
        }
    }

    fn note(&self, token: Token, note: impl FnOnce(&mut HoldEvents)) {
        let mut events = lock(&self.hold_events);
        note(events.entry(token).or_default());
        self.has_hold_events.store(true, Ordering::Release);
        drop(events);
        if self.renewer_ended.load(Ordering::Acquire) {
            self.take_hold_events();
        } else {
            self.renewer.notify_one();
        }
    }

    /// Handles all events in one pass over the holds, because a session's end may end many. Each
    /// check of a hold calls this method, so that a late or ended renewal task hides no loss.
    #[inline]
    pub(crate) fn take_hold_events(&self) {
        if self.has_hold_events.load(Ordering::Acquire) {
            self.handle_hold_events();
        }
    }

    #[cold]
    pub(super) fn handle_hold_events(&self) {
        let events = {
            let mut events = lock(&self.hold_events);
            self.has_hold_events.store(false, Ordering::Release);
            std::mem::take(&mut *events)
        };
        let now = self.clock.now();
        let holds = self.table().concerned(&events);
        for hold in &holds {
            let HoldEvents { at_risk, recalled, lost } = events[&hold.claim.token];
            if let Some(reason) = lost {
                hold.lose(reason);
            } else if at_risk {
                hold.renew_again_at(now);
                hold.put_at_risk();
            }
            if recalled {
                hold.note_recall();
                Self::end_warm(hold, now);
            }
        }
        if self.table().holds.reschedule(holds.iter().map(|hold| (hold, now))) {
            self.renewer.notify_one();
        }
    }
}
