use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend_util::lock;
use crate::client::options::HoldSchedule;
use crate::client::{Options, Pending, ignore_panic};
use crate::validity::Term;
use crate::{BootInstant, Claim, Clock, Error, Fence, HoldState, Reason, ReleaseMode, RenewalMode};

use super::hand_over::HandOver;
use super::{Hold, Shared};

const LONGEST_SLACK: Duration = Duration::from_millis(250);

/// The shortest pause after a renewal that didn't extend the hold.
const LEAST_PAUSE: Duration = Duration::from_millis(5);

/// The lowest byte of `Hold::phase`. The next byte has the reason of a loss.
mod phase {
    pub(super) const HELD: u32 = 0;
    pub(super) const AT_RISK: u32 = 1;
    pub(super) const RELEASED: u32 = 2;
    pub(super) const LOST: u32 = 3;
}

/// All reasons, in the order of their discriminants.
const REASONS: [Reason; 7] = [
    Reason::Expired,
    Reason::Broken,
    Reason::Unreachable,
    Reason::Gone,
    Reason::SessionEnded,
    Reason::HeldTooLong,
    Reason::Superseded,
];

fn encode(reason: Reason) -> u32 {
    phase::LOST | (reason as u32) << 8
}

fn decode(phase: u32) -> HoldState {
    match phase & 0xff {
        phase::HELD => HoldState::Held,
        phase::AT_RISK => HoldState::AtRisk,
        phase::RELEASED => HoldState::Released,
        _ => HoldState::Lost(REASONS[(phase >> 8) as usize % REASONS.len()]),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) renew: bool,
    /// True once the deadline of a lost hold has passed.
    pub(crate) over: bool,
    /// True if the hold is warm and must be released.
    pub(crate) is_warm_over: bool,
    pub(crate) next: BootInstant,
}

impl Due {
    fn look_at(next: BootInstant) -> Self {
        Self { renew: false, over: false, is_warm_over: false, next }
    }
}

pub(crate) struct Grant {
    pub(crate) fence: Fence,
    pub(crate) fences: u32,
    pub(crate) waiters: bool,
    pub(crate) now: BootInstant,
    pub(crate) start: BootInstant,
    pub(crate) term: Term,
}

impl Hold {
    #[inline]
    pub(crate) fn new(
        shared: Arc<Shared>,
        pending: Pending,
        options: &Options,
        grant: Grant,
        has_turn: bool,
    ) -> Self {
        let fences = pending.claim.fences.min(grant.fences);
        let Claim { name, ttl, .. } = &pending.claim;
        // With the next claim, this client then joins the other clients' queue.
        if grant.waiters {
            shared.note_busy(name);
        }
        let hand_over = (fences > 1).then(|| {
            shared.metrics.fences_reserved.add(fences.into());
            HandOver::new(fences, shared.was_busy(name, grant.now, *ttl))
        });
        let hold = Self {
            shared,
            claim: pending.claim,
            first_fence: grant.fence,
            owner: options.owner.clone(),
            release_mode: pending.release_mode,
            granted_at: grant.now,
            schedule: options.schedule(grant.start),
            hand_over,
            term_changes: Mutex::new(()),
            renew_at: AtomicU64::new(0),
            at_risk_at: AtomicU64::new(0),
            lost_at: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            phase: AtomicU32::new(phase::HELD),
            version: AtomicU32::new(0),
            changed: OnceLock::new(),
            watched: AtomicBool::new(false),
            guards: AtomicU32::new(1),
            turn: AtomicBool::new(has_turn),
            slot: AtomicU64::new(u64::MAX),
            renewing: AtomicBool::new(false),
            renewal_failed: AtomicBool::new(false),
            #[cfg(feature = "metrics")]
            uses: Default::default(),
        };
        hold.set_term(grant.term);
        if hold.hand_over.is_some() {
            hold.set_keep_warm(options.keep_warm());
        }
        hold
    }

    fn set_term(&self, term: Term) {
        let lost_at = term.lost_at.min(self.max_hold_end());
        let margin = term.deadline.saturating_since(term.lost_at);
        let deadline = term.deadline.min(lost_at + margin);
        // The token's random first byte spreads the renewals of holds granted together.
        let window = term.at_risk_at.as_nanos().saturating_sub(term.renew_at.as_nanos()) / 8;
        let early = window / 255 * u64::from(self.claim.token.as_bytes()[0]);
        self.renew_at.store(term.renew_at.as_nanos() - early, Ordering::Release);
        self.at_risk_at.store(term.at_risk_at.as_nanos(), Ordering::Release);
        self.deadline.store(deadline.as_nanos(), Ordering::Release);
        self.lost_at.store(lost_at.as_nanos(), Ordering::Release);
    }

    pub(crate) fn error(&self, error: Error) -> Error {
        self.shared.with_context(error, &self.claim.name)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Enables notifications of changes, and returns their `Notify`.
    pub(crate) fn changed(&self) -> &Notify {
        let changed = self.changed.get_or_init(Box::default);
        // `SeqCst` orders this store with each change of `phase`: either the changing thread
        // notifies, or the caller reads the new phase.
        self.watched.store(true, Ordering::SeqCst);
        changed
    }

    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn lost_at(&self) -> BootInstant {
        BootInstant::from_nanos(self.lost_at.load(Ordering::Acquire))
    }

    pub(crate) fn deadline(&self) -> BootInstant {
        BootInstant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    pub(super) fn notify_changed(&self) {
        if !self.watched.load(Ordering::SeqCst) {
            return;
        }
        if let Some(changed) = self.changed.get() {
            self.version.fetch_add(1, Ordering::Release);
            ignore_panic(|| changed.notify_waiters());
        }
    }

    pub(crate) fn state(&self) -> HoldState {
        let state = decode(self.phase.load(Ordering::SeqCst));
        if state.is_live() { self.state_at(self.clock().now()) } else { state }
    }

    /// Returns whether the hold is valid. Unlike [`state_at`](Self::state_at), never locks the
    /// table or reports a loss, so the table may be locked.
    pub(crate) fn looks_live(&self, now: BootInstant) -> bool {
        decode(self.phase.load(Ordering::SeqCst)).is_live() && now < self.lost_at()
    }

    /// Handles the backend's events, marks an expired hold as lost, and returns the hold's state.
    pub(crate) fn state_at(&self, now: BootInstant) -> HoldState {
        self.shared.take_hold_events();
        if now >= self.lost_at() && decode(self.phase.load(Ordering::SeqCst)).is_live() {
            let _changes = lock(&self.term_changes);
            if now >= self.lost_at() {
                self.lose_locked(self.why_run_out());
            }
        }
        decode(self.phase.load(Ordering::SeqCst))
    }

    fn why_run_out(&self) -> Reason {
        if self.lost_at() >= self.max_hold_end() {
            Reason::HeldTooLong
        } else if self.renewal_failed.load(Ordering::Acquire) {
            Reason::Unreachable
        } else {
            Reason::Expired
        }
    }

    pub(crate) fn lose(&self, reason: Reason) -> bool {
        let _changes = lock(&self.term_changes);
        self.lose_locked(reason)
    }

    fn lose_locked(&self, reason: Reason) -> bool {
        let lost = self
            .phase
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |phase| {
                decode(phase).is_live().then(|| encode(reason))
            })
            .is_ok();
        if lost {
            self.shared.metrics.hold_nanos.add(self.held_nanos(self.clock().now()));
            if self.warm_until().is_some() || !self.is_taken() {
                // Its last guard has released it.
                self.shared.metrics.lost_warm.add(1);
            } else {
                self.shared.metrics.lost.add(1);
                #[cfg(feature = "metrics")]
                crate::client::export::lost(self, reason);
                ignore_panic(
                    || tracing::warn!(name = %self.claim.name, fence = %self.fence(), %reason, "lock lost"),
                );
            }
            #[cfg(feature = "metrics")]
            self.uses.end(self);
            self.notify_changed();
        }
        lost
    }

    /// Extends the hold, never shortens it. A hold that had expired by `now`, or was reported lost,
    /// stays lost.
    pub(crate) fn confirm(&self, term: Term, now: BootInstant) {
        let _changes = lock(&self.term_changes);
        if !decode(self.phase.load(Ordering::SeqCst)).is_live() {
            return;
        }
        if now >= self.lost_at() {
            self.lose_locked(self.why_run_out());
            return;
        }
        self.renewal_failed.store(false, Ordering::Release);
        if term.deadline <= self.deadline() {
            // The server didn't extend the hold, so an immediate renewal wouldn't either.
            let left = self.lost_at().saturating_since(now);
            self.renew_again_at(now + (left / 3).max(LEAST_PAUSE));
            return;
        }
        self.set_term(term);
        self.change_phase(phase::AT_RISK, phase::HELD);
        self.notify_changed();
    }

    fn change_phase(&self, from: u32, to: u32) -> bool {
        self.phase.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(crate) fn note_failed_renewal(&self) {
        self.renewal_failed.store(true, Ordering::Release);
    }

    pub(crate) fn put_at_risk(&self) {
        if self.change_phase(phase::HELD, phase::AT_RISK) {
            self.shared.metrics.at_risk.add(1);
            ignore_panic(
                || tracing::warn!(name = %self.claim.name, fence = %self.fence(), "lock at risk"),
            );
            self.notify_changed();
        }
    }

    /// Ends the hold. Returns its duration in nanoseconds, or the reason of an earlier loss.
    pub(crate) fn end(&self, now: BootInstant) -> Result<u64, Reason> {
        if let HoldState::Lost(reason) = self.state_at(now) {
            return Err(reason);
        }
        let ended = self.phase.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |phase| {
            decode(phase).is_live().then_some(phase::RELEASED)
        });
        match ended {
            Ok(_) => {
                #[cfg(feature = "metrics")]
                self.uses.end(self);
                self.notify_changed();
                Ok(self.held_nanos(now))
            }
            Err(phase) => match decode(phase) {
                HoldState::Lost(reason) => Err(reason),
                _ => Ok(0),
            },
        }
    }

    /// Counts a renewal of a hold that may be kept after its release. Returns whether it may be sent.
    pub(crate) fn begin_renewal(&self) -> bool {
        let Some(schedule) = &self.schedule else { return true };
        schedule.unanswered.fetch_add(1, Ordering::SeqCst);
        // A release changes the phase, and then reads the count. So either this renewal isn't sent,
        // or the release counts it as unanswered.
        decode(self.phase.load(Ordering::SeqCst)).is_live()
    }

    pub(crate) fn note_answer(&self) {
        if let Some(schedule) = &self.schedule {
            schedule.unanswered.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns whether a sent request may still change the hold's TTL on the server.
    pub(super) fn is_unanswered(&self) -> bool {
        let of_renewals = |schedule: &HoldSchedule| schedule.unanswered.load(Ordering::SeqCst) > 0;
        self.release_mode == ReleaseMode::Reconcile
            || self.schedule.as_deref().is_some_and(of_renewals)
    }

    pub(super) fn max_hold_end(&self) -> BootInstant {
        self.schedule.as_ref().map_or(BootInstant::FAR_FUTURE, |schedule| schedule.max_hold_end)
    }

    fn held_nanos(&self, now: BootInstant) -> u64 {
        now.as_nanos().saturating_sub(self.granted_at.as_nanos())
    }

    /// The caller must lock the table.
    pub(super) fn has_turn(&self) -> bool {
        self.turn.load(Ordering::Relaxed)
    }

    /// Takes the turn from the hold, if it has one. The caller must lock the table, which makes the
    /// load and the store atomic.
    pub(crate) fn take_turn(&self) -> bool {
        let has_turn = self.has_turn();
        self.turn.store(false, Ordering::Relaxed);
        has_turn
    }

    /// Returns how early a renewal may start to join a batch. If the slack exceeded an offer's
    /// term, or the pause after a failed renewal, the next renewal would start at once.
    pub(crate) fn renew_slack(&self) -> Duration {
        let renew_at = BootInstant::from_nanos(self.renew_at.load(Ordering::Acquire));
        let left = self.lost_at().saturating_since(renew_at);
        (self.claim.ttl / 30).min(left / 8).min(LONGEST_SLACK)
    }

    /// Returns how late the renewal task's first check of the hold may be; zero if no renewal is
    /// due before `lost_at`.
    pub(crate) fn first_slack(&self) -> Duration {
        let renews = self.claim.renewal_mode == RenewalMode::Auto
            && self.renew_at.load(Ordering::Acquire) < self.lost_at.load(Ordering::Acquire);
        if renews { self.renew_slack() } else { Duration::ZERO }
    }

    pub(crate) fn due(&self, now: BootInstant) -> Due {
        let warm_until = self.warm_until();
        let due = self.due_by_term(now);
        let Some(warm_until) = warm_until else { return due };
        let is_warm_over = now >= warm_until || !self.state_at(now).is_live();
        Due { is_warm_over, next: due.next.min(warm_until), ..due }
    }

    fn due_by_term(&self, now: BootInstant) -> Due {
        let state = self.state_at(now);
        if state == HoldState::Released {
            return Due::look_at(BootInstant::FAR_FUTURE);
        }
        if !state.is_live() {
            let deadline = self.deadline();
            return Due { over: now >= deadline, ..Due::look_at(deadline) };
        }
        let lost_at = self.lost_at();
        if self.claim.renewal_mode == RenewalMode::Off {
            return Due::look_at(lost_at);
        }
        let at_risk_at = BootInstant::from_nanos(self.at_risk_at.load(Ordering::Acquire));
        if now >= at_risk_at {
            self.put_at_risk();
        }
        let is_reported = now >= at_risk_at;
        let next = if is_reported { lost_at } else { at_risk_at.min(lost_at) };
        let renew_at = BootInstant::from_nanos(self.renew_at.load(Ordering::Acquire));
        if !self.is_taken() {
            return Due::look_at(next.min(now + self.claim.ttl / 20));
        }
        if self.renewing.load(Ordering::Acquire) {
            return Due::look_at(next);
        }
        if now + self.renew_slack() >= renew_at {
            self.renewing.store(true, Ordering::Release);
            return Due { renew: true, ..Due::look_at(next) };
        }
        Due::look_at(next.min(renew_at))
    }

    /// Returns when the renewal task must check the hold next, if no renewal is unanswered.
    pub(crate) fn first_due(&self) -> BootInstant {
        match self.claim.renewal_mode {
            RenewalMode::Off => self.lost_at(),
            RenewalMode::Auto => {
                self.lost_at().min(BootInstant::from_nanos(self.renew_at.load(Ordering::Acquire)))
            }
        }
    }

    pub(crate) fn renew_again_at(&self, instant: BootInstant) {
        self.renew_at.store(instant.as_nanos(), Ordering::Release);
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("name", &self.claim.name)
            .field("mode", &self.claim.mode)
            .field("fence", &self.fence())
            .field("state", &decode(self.phase.load(Ordering::SeqCst)))
            .finish_non_exhaustive()
    }
}
