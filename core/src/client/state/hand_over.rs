//! Hands a hold over to the client's next request for the name, without a request to the server.
//!
//! Each local turn has its own fence, out of the block that the hold's claim reserved, and the
//! hold's token and deadline.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::backend_util::lock;
use crate::client::Options;
use crate::client::answer::send;
use crate::{BootInstant, Claim, Fence, HoldState, ReleaseMode, RenewalMode};

use super::{Entered, Hold, Passed, Queued, Settings, Shared, Taken, Turns};

/// The most turns of a hold once its client has noticed another client.
pub(crate) const TURNS_IF_CONTENDED: u32 = 8;

/// How many fences a claim reserves per request in the local queue. A request that is repeated in a
/// loop needs several.
const FENCES_PER_REQUEST: u32 = 8;

pub(super) struct HandOver {
    /// The number of fences that the server reserved; each turn uses one.
    fences: u32,
    /// The number of the present turn, from 0.
    turn: AtomicU32,
    is_contended: AtomicBool,
    is_taken: AtomicBool,
    /// In nanoseconds: how long the hold is kept warm, or 0.
    pub(super) keep_warm: AtomicU64,
    /// Until when the hold is kept warm, or 0 if a guard has it.
    pub(super) warm_until: AtomicU64,
    /// When the renewal task checks the hold next.
    pub(super) check_at: AtomicU64,
}

impl HandOver {
    #[cold]
    pub(super) fn new(fences: u32, is_contended: bool) -> Box<Self> {
        Box::new(Self {
            fences,
            turn: AtomicU32::new(0),
            is_contended: AtomicBool::new(is_contended),
            is_taken: AtomicBool::new(true),
            keep_warm: AtomicU64::new(0),
            warm_until: AtomicU64::new(0),
            check_at: AtomicU64::new(0),
        })
    }
}

impl Hold {
    pub(crate) fn fence(&self) -> Fence {
        Fence::new(self.first_fence.get() + u64::from(self.turn_number()))
    }

    pub(crate) fn turn_number(&self) -> u32 {
        self.hand_over.as_ref().map_or(0, |it| it.turn.load(Ordering::SeqCst))
    }

    pub(super) fn note_recall(&self) {
        self.shared.metrics.recalled.add(1);
        self.note_contention();
    }

    pub(crate) fn note_contention(&self) {
        if let Some(it) = &self.hand_over {
            it.is_contended.store(true, Ordering::SeqCst);
        }
    }

    pub(super) fn is_contended(&self) -> bool {
        self.hand_over.as_ref().is_some_and(|it| it.is_contended.load(Ordering::SeqCst))
    }

    /// Returns whether the hold may get another turn, which needs its own fence.
    fn may_be_handed_over(&self, now: BootInstant) -> bool {
        let Some(it) = &self.hand_over else { return false };
        let next = self.turn_number() + 1;
        next < it.fences
            && (next < TURNS_IF_CONTENDED || !self.is_contended())
            && self.may_continue(now)
    }

    /// Returns whether a request may get the hold: more than half of the TTL must remain, and at most
    /// one TTL may have passed since the grant.
    ///
    /// A claim with several fences may have passed to a request with an owner, `max_hold`, `at_least`
    /// or `once_per`, whose hold isn't handed over.
    pub(super) fn may_continue(&self, now: BootInstant) -> bool {
        self.owner.is_none()
            && self.schedule.is_none()
            && now < self.granted_at + self.claim.ttl
            && self.deadline().saturating_since(now) > self.claim.ttl / 2
            && self.is_answered()
            && self.state_at(now) == HoldState::Held
    }

    fn is_answered(&self) -> bool {
        self.release_mode == ReleaseMode::Plain && !self.renewal_failed.load(Ordering::Acquire)
    }

    /// Begins the next turn, which ends the present one. Returns false if another thread has lost
    /// the hold since: the present turn's signals may have reported it.
    pub(super) fn begin_turn(&self, now: BootInstant) -> bool {
        {
            let _changes = lock(&self.term_changes);
            if !self.looks_live(now) {
                return false;
            }
            let Some(it) = &self.hand_over else { return false };
            it.turn.fetch_add(1, Ordering::SeqCst);
        }
        #[cfg(feature = "metrics")]
        self.uses.end(self);
        self.notify_changed();
        true
    }

    /// Marks the hold as sent to a request, or as taken by it. A sent hold isn't renewed, because
    /// the request may never be polled.
    pub(crate) fn set_taken(&self, is_taken: bool) {
        if let Some(it) = &self.hand_over {
            it.is_taken.store(is_taken, Ordering::SeqCst);
        }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.hand_over.as_ref().is_none_or(|it| it.is_taken.load(Ordering::SeqCst))
    }
}

impl Options {
    /// Returns whether this exclusive request may hand a hold over, or get one.
    pub(super) fn may_hand_over(&self) -> bool {
        self.renewal_mode == RenewalMode::Auto
            && self.owner.is_none()
            && self.hold_times.is_none()
            && self.identity.is_none()
    }
}

impl Queued {
    #[inline]
    pub(super) fn reserve(&mut self, waiting: usize, settings: &Settings) {
        if waiting > 0 && self.wanted.may_hand_over() {
            let requests = u32::try_from(waiting).unwrap_or(u32::MAX).saturating_add(1);
            let fences = requests.saturating_mul(FENCES_PER_REQUEST);
            self.fences = fences.min(settings.local_turns);
        }
    }
}

impl Turns {
    /// Takes the first queued request if the hold of `claim` may be handed over to it.
    fn next_holder(&mut self, claim: &Claim) -> Option<Queued> {
        let taken = self.taken.get_mut(&claim.name)?;
        taken.pop_if(|next| next.wanted.may_hand_over() && next.wanted.takes_over(claim))
    }

    /// Puts the request back. Returns true if the caller must pass it the turn.
    fn put_back(&mut self, claim: &Claim, queued: Queued) -> bool {
        if let Some(taken) = self.taken.get_mut(&claim.name) {
            taken.queue.get_or_insert_default().push_front(queued);
            return false;
        }
        let queue = Some(Box::new(VecDeque::from([queued])));
        self.taken.insert(claim.name.clone(), Taken { queue, ..Taken::default() });
        true
    }
}

impl Shared {
    /// Ends the turn of the hold's guard, and hands the hold over or keeps it warm. Returns false
    /// if the hold must be released.
    #[inline]
    pub(crate) fn hand_over(hold: &Arc<Hold>, now: BootInstant) -> bool {
        hold.hand_over.is_some() && Self::pass_hold(hold, now)
    }

    #[cold]
    fn pass_hold(hold: &Arc<Hold>, now: BootInstant) -> bool {
        while hold.may_be_handed_over(now) {
            let shared = &hold.shared;
            let Some(next) = shared.table().turns.next_holder(&hold.claim) else {
                return Self::try_keep_warm(hold, now);
            };
            if !hold.begin_turn(now) {
                if shared.table().turns.put_back(&hold.claim, next) {
                    shared.pass_turn(&hold.claim.name, None);
                }
                return false;
            }
            hold.set_keep_warm(next.wanted.keep_warm());
            hold.set_taken(false);
            let share = Entered::handed_over(hold);
            match send(next.sender, Passed::HandedOver(share)) {
                Ok(()) => return true,
                // The request was dropped. `into_hold` keeps the share's drop from ending the hold.
                Err(Passed::HandedOver(share)) => drop(share.into_hold()),
                Err(_) => unreachable!("a hold was sent"),
            }
        }
        false
    }
}
