use std::sync::Arc;
use std::time::Duration;

use crate::{BootInstant, Fence, Holder, Identity, LockName, Mode, Reason, Token};

/// Determines whether the client renews a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RenewalMode {
    /// The client renews the hold until it is released or lost.
    Auto,
    /// The hold isn't renewed, so it ends one TTL after its grant.
    Off,
}

/// A request for a hold, as a backend receives it.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The lock's name.
    pub name: LockName,
    /// The lock's mode.
    pub mode: Mode,
    /// The hold's token.
    pub token: Token,
    /// The client's identity.
    pub identity: Arc<Identity>,
    /// The TTL, in the profile's range.
    pub ttl: Duration,
    /// The number of fences to reserve: one for this request, the rest for the client's next
    /// requests, to which it may [hand over](crate::Builder::local_turns) the hold. A backend may
    /// grant fewer.
    pub fences: u32,
    /// The renewal mode. A renewal of another hold must not extend a hold with
    /// [`RenewalMode::Off`].
    pub renewal_mode: RenewalMode,
    /// True if the backend must send [`Event::Recall`](crate::Event::Recall) for this hold when
    /// another client requests the name.
    pub recall: bool,
}

impl Claim {
    /// Returns the time limit for one request: half the TTL.
    pub fn patience(&self) -> Duration {
        self.ttl / 2
    }
}

/// How long an acquire may wait in the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// One atomic attempt. If the server doesn't grant the claim, it keeps no record.
    No,
    /// The server may block until this instant. A server that can't block answers
    /// [`AcquireOutcome::Busy`], and queues the claim if it has a queue.
    Until(BootInstant),
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The claim is granted.
    Granted(Granted),
    /// The claim isn't granted.
    Busy(Busy),
}

/// The answer to a granted claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Granted {
    /// The first reserved fence.
    pub fence: Fence,
    /// The number of reserved fences, at least 1.
    pub fences: u32,
    /// The instant from which the hold's duration counts, at or before the grant; `None` for the
    /// request's start.
    pub start: Option<BootInstant>,
    /// The hold's duration, if it differs from the requested TTL.
    pub valid: Option<Duration>,
    /// True if other clients' claims are queued.
    pub waiters: bool,
}

impl Granted {
    /// Creates a grant of one fence, for the requested TTL.
    pub const fn new(fence: Fence) -> Self {
        Self { fence, fences: 1, start: None, valid: None, waiters: false }
    }
}

/// The answer to a claim that isn't granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Busy {
    /// The time until the present hold expires, if known.
    pub retry_after: Option<Duration>,
    /// The holder, if known without another request.
    pub holder: Option<Box<Holder>>,
    /// True if the server has queued the claim. A grant, a release, or the end of the client's
    /// polling removes it from the queue.
    pub queued: bool,
}

/// A request to renew one hold.
#[derive(Debug, Clone, Copy)]
pub struct Renew<'a> {
    /// The hold's claim.
    pub claim: &'a Claim,
    /// The client's time limit for the answer.
    pub patience: Duration,
}

impl<'a> Renew<'a> {
    /// Creates a renewal with a quarter of the TTL as its patience.
    pub fn of(claim: &'a Claim) -> Self {
        Self { claim, patience: claim.ttl / 4 }
    }

    /// Returns a backend's time limit for a batch: 4/5 of the smallest patience, to answer before
    /// the client's limit.
    pub fn time_to_answer(batch: &[Self]) -> Duration {
        batch.iter().map(|one| one.patience).min().unwrap_or_default() * 4 / 5
    }
}

/// The result of renewing one hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The outcome.
    pub outcome: RenewalOutcome,
    /// True if other clients' claims are queued.
    pub waiters: bool,
}

/// The outcome of a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RenewalOutcome {
    /// The hold lasts for another TTL, or for `valid`.
    Renewed {
        /// The hold's duration since the renewal was sent, if it differs from the TTL.
        valid: Option<Duration>,
    },
    /// The hold has ended. The reason is [`Reason::Gone`] if the server recorded none.
    NotHeld(Reason),
    /// The outcome is unknown. The client retries until the loss.
    Indeterminate,
}

impl Renewal {
    /// The hold lasts for another TTL.
    pub const RENEWED: Self =
        Self { outcome: RenewalOutcome::Renewed { valid: None }, waiters: false };

    /// The outcome is unknown.
    pub const INDETERMINATE: Self = Self { outcome: RenewalOutcome::Indeterminate, waiters: false };

    /// Returns the result for an ended hold.
    pub const fn not_held(reason: Reason) -> Self {
        Self { outcome: RenewalOutcome::NotHeld(reason), waiters: false }
    }
}

/// Determines whether a release leaves a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseMode {
    /// Leaves no tombstone, for a token whose acquires were all answered.
    Plain,
    /// Leaves a tombstone, so that an acquire that arrives later isn't granted.
    Reconcile,
}

/// The result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The token was held or queued, and is removed.
    Released,
    /// The server doesn't have the token.
    NotHeld,
}
