//! Requests to a backend, and its answers.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::BootInstant;
use crate::event::Reason;
use crate::identity::Identity;
use crate::mode::Mode;
use crate::name::LockName;
use crate::operator::Holder;
use crate::token::{Fence, Token};

/// The renewal mode of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Upkeep {
    /// The client renews the hold until it is released or lost.
    Renewed,
    /// The hold isn't renewed: it ends one TTL after its grant.
    Fixed,
}

/// A request for a hold.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The lock's name.
    pub name: LockName,
    /// The lock's mode.
    pub mode: Mode,
    /// The identity of the hold. However often it is sent, the same token is the same hold.
    pub token: Token,
    /// The requester, for operators.
    pub identity: Arc<Identity>,
    /// How long the server keeps the hold without a renewal. Within the profile's range.
    pub ttl: Duration,
    /// The number of fences to reserve. The first is the hold's own; the rest are for local hand-overs in the
    /// client.
    pub fences: u32,
    /// The renewal mode. Backends with one lease for several holds need it.
    pub upkeep: Upkeep,
}

impl Claim {
    /// Returns how long a backend may take to answer one acquire, swap or release of this claim: half of its
    /// TTL.
    ///
    /// After a dead connection, the request can then be repeated on a new one in time. Backends also have
    /// their own limit, which may be shorter.
    pub fn patience(&self) -> Duration {
        self.ttl / 2
    }
}

/// How long a backend may keep a claim that can't be granted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// One atomic attempt. A claim that isn't granted leaves no trace.
    No,
    /// A server that can block may block, in slices, until this instant. Others queue the claim and answer
    /// [`Attempt::Busy`] at once. [`BootInstant::FAR_FUTURE`] means no limit.
    Until(BootInstant),
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// The hold was granted.
    Granted(Granted),
    /// The lock is held.
    Busy(Busy),
}

/// A grant. It has no deadline: only the client computes those.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Granted {
    /// The first fence. A repeat with the same token returns the same one.
    pub fence: Fence,
    /// The number of reserved fences, including the first; at least 1.
    pub fences: u32,
    /// The start of the hold if it isn't the send: after a hand-over or a blocking acquire. It must not be
    /// later than the server's own grant.
    pub start: Option<BootInstant>,
    /// How long the server keeps the hold from the start, if that isn't the requested TTL: a negotiated TTL,
    /// or a repeat that didn't re-arm it.
    pub valid: Option<Duration>,
    /// True if claims of other clients are queued on the server for this name.
    pub waiters: bool,
}

impl Granted {
    /// A grant of one fence, valid from the send for the requested TTL.
    pub const fn new(fence: Fence) -> Self {
        Self { fence, fences: 1, start: None, valid: None, waiters: false }
    }
}

/// The answer for a lock that is held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Busy {
    /// The time until the present hold expires if it isn't renewed. The client then polls.
    pub retry_after: Option<Duration>,
    /// The holder, if the server returns it without another round trip.
    pub holder: Option<Box<Holder>>,
    /// True if the claim is in the server's queue now. It stays there until it is granted, released, or not
    /// repeated for long.
    pub queued: bool,
}

/// One hold to renew.
#[derive(Debug, Clone, Copy)]
pub struct Renew<'a> {
    /// The claim of the hold.
    pub claim: &'a Claim,
    /// The number of additional fences to reserve.
    pub fences: u32,
    /// How long the client waits for the answer. Then the whole request counts as unanswered. A backend with
    /// several servers returns its results by then, and the rest as indeterminate.
    pub patience: Duration,
}

impl<'a> Renew<'a> {
    /// A renewal without additional fences, with the usual patience of a quarter of the TTL.
    pub fn of(claim: &'a Claim) -> Self {
        Self { claim, fences: 0, patience: claim.ttl / 4 }
    }

    /// How long a backend may take for a batch, so that its answer arrives within every hold's patience.
    pub fn time_to_answer(batch: &[Self]) -> Duration {
        batch.iter().map(|one| one.patience).min().unwrap_or_default() * 4 / 5
    }
}

/// The result for one hold of a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The outcome.
    pub outcome: RenewalOutcome,
    /// True if claims of other clients are queued on the server for this name.
    pub waiters: bool,
}

/// The outcome of a renewal for one hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RenewalOutcome {
    /// Re-armed: the server keeps the hold for another TTL, or for `valid`.
    Renewed {
        /// The time from the send of the renewal, if it isn't the claim's TTL.
        valid: Option<Duration>,
    },
    /// The server doesn't have this hold; the reason is as far as the server has it. The hold is lost.
    NotHeld(Reason),
    /// The result is unknown. The client retries until the deadline.
    Indeterminate,
}

impl Renewal {
    /// Re-armed for the claim's TTL, without waiters.
    pub const RENEWED: Self =
        Self { outcome: RenewalOutcome::Renewed { valid: None }, waiters: false };

    /// Indeterminate, without known waiters.
    pub const INDETERMINATE: Self = Self { outcome: RenewalOutcome::Indeterminate, waiters: false };

    /// Not held, with this reason.
    pub const fn not_held(reason: Reason) -> Self {
        Self { outcome: RenewalOutcome::NotHeld(reason), waiters: false }
    }
}

/// The state of the acquire requests of a released hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// Every acquire of this token was answered.
    Answered,
    /// An answer is missing, and an acquire may still arrive. A tombstone keeps that late duplicate from
    /// recreating the hold.
    Unanswered,
}

/// The result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The token held, was queued or was offered the lock, and no longer is.
    Released,
    /// The server had no record of the token.
    NotHeld,
}
