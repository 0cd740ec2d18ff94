//! Keeps a released hold for the client's next request, until another client requests the name.
//!
//! A warm hold has no guard, but the client renews it, and its name stays taken in the local queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::client::Options;
use crate::clock::nanos;
use crate::{BootInstant, LockName, Mode};

use super::releasing::{Releasing, Use};
use super::{Hold, Shared, Turns};

impl Options {
    pub(crate) fn needs_recall(&self) -> bool {
        self.keep_warm().is_some() && self.mode == Mode::Exclusive && self.may_hand_over()
    }
}

impl Hold {
    fn keep_warm(&self) -> Option<Duration> {
        let nanos = self.hand_over.as_ref()?.keep_warm.load(Ordering::Relaxed);
        (nanos > 0 && self.claim.recall).then(|| Duration::from_nanos(nanos))
    }

    pub(super) fn set_keep_warm(&self, time: Option<Duration>) {
        if let Some(it) = &self.hand_over {
            it.keep_warm.store(time.map_or(0, nanos), Ordering::Relaxed);
        }
    }

    pub(super) fn warm_until(&self) -> Option<BootInstant> {
        let until = self.hand_over.as_ref()?.warm_until.load(Ordering::SeqCst);
        (until > 0).then(|| BootInstant::from_nanos(until))
    }

    /// A hold has a time only while it is in the map of warm holds, or just left it. Otherwise,
    /// each check would find its time over, and the renewal task would repeat the check at once.
    fn set_warm_until(&self, until: Option<BootInstant>) {
        if let Some(it) = &self.hand_over {
            it.warm_until.store(until.map_or(0, BootInstant::as_nanos), Ordering::SeqCst);
        }
    }

    /// Notes when the renewal task checks the hold next. The caller must lock the table.
    pub(super) fn note_check(&self, at: BootInstant) {
        if let Some(it) = &self.hand_over {
            it.check_at.store(at.as_nanos(), Ordering::Relaxed);
        }
    }

    pub(super) fn check_at(&self) -> BootInstant {
        let at = self.hand_over.as_ref().map_or(0, |it| it.check_at.load(Ordering::Relaxed));
        BootInstant::from_nanos(at)
    }

    /// Returns whether the request may use the hold, which is no longer warm.
    pub(crate) fn give_to(&self, wanted: &Options, now: BootInstant) -> bool {
        let may_take = wanted.may_hand_over()
            && wanted.takes_over(&self.claim)
            && self.may_continue(now)
            && !self.is_contended();
        if may_take {
            self.set_keep_warm(wanted.keep_warm());
        }
        self.set_warm_until(None);
        may_take
    }
}

impl Turns {
    /// Returns false if a request waits, or if `is_contended`, `is_closed` or `renewer_ended` is
    /// set. Code that sets one of these then locks the table to end warm holds. A lost hold may
    /// have no turn.
    fn keep_warm(&mut self, hold: &Arc<Hold>, until: BootInstant) -> bool {
        let shared = &hold.shared;
        let can_keep = !hold.is_contended()
            && !shared.is_closed()
            && !shared.renewer_ended.load(Ordering::SeqCst);
        let name = &hold.claim.name;
        let is_kept = can_keep
            && hold.has_turn()
            && self.taken.get(name).is_some_and(|taken| taken.queue.is_none());
        if is_kept {
            hold.set_warm_until(Some(until));
            self.warm.insert(name.clone(), Arc::clone(hold));
        }
        is_kept
    }

    fn take_warm(&mut self, hold: &Hold) -> Option<Arc<Hold>> {
        let name = &hold.claim.name;
        self.warm.get(name).filter(|warm| std::ptr::eq(&***warm, hold))?;
        self.take_warm_of(name)
    }

    /// Removes the warm hold of `name`, which a shared request must release.
    pub(super) fn take_warm_of(&mut self, name: &LockName) -> Option<Arc<Hold>> {
        if self.warm.is_empty() {
            return None;
        }
        let hold = self.warm.remove(name)?;
        hold.set_warm_until(None);
        Some(hold)
    }

    fn take_all_warm(&mut self) -> Vec<Arc<Hold>> {
        let all: Vec<_> = std::mem::take(&mut self.warm).into_values().collect();
        all.iter().for_each(|hold| hold.set_warm_until(None));
        all
    }
}

impl Shared {
    /// Keeps a hold warm that may be handed over, if its request asked for this. Returns false if
    /// the hold must be released.
    pub(super) fn try_keep_warm(hold: &Arc<Hold>, now: BootInstant) -> bool {
        let Some(time) = hold.keep_warm() else { return false };
        // The next turn begins now, so the guard's signals report the release.
        if !hold.begin_turn(now) {
            return false;
        }
        // Renews the hold again, even if a dropped request didn't take it.
        hold.set_taken(true);
        let until = (now + time).min(hold.granted_at + hold.claim.ttl);
        let (is_kept, wakes_renewer) = {
            let mut table = hold.shared.table();
            let is_kept = table.turns.keep_warm(hold, until);
            (is_kept, is_kept && table.holds.check_warm(hold))
        };
        if wakes_renewer {
            hold.shared.renewer.notify_one();
        }
        is_kept
    }

    /// Releases a warm hold. Returns false if it isn't warm.
    pub(crate) fn end_warm(hold: &Hold, now: BootInstant) -> bool {
        let warm = hold.shared.table().turns.take_warm(hold);
        let was_warm = warm.is_some();
        warm.into_iter().for_each(|hold| drop(Releasing::begin(hold, now, Use::None)));
        was_warm
    }

    pub(crate) fn end_all_warm(&self) {
        let warm = self.table().turns.take_all_warm();
        let now = self.clock.now();
        warm.into_iter().for_each(|hold| drop(Releasing::begin(hold, now, Use::None)));
    }
}
