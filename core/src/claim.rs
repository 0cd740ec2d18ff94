use std::sync::Arc;
use std::time::Duration;

use crate::clock::BootInstant;
use crate::identity::Identity;
use crate::loss_reason::Reason;
use crate::mode::Mode;
use crate::name::LockName;
use crate::operator::Holder;
use crate::token::{Fence, Token};

/// The renewal of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RenewalMode {
    /// Renewed until it is released or lost.
    Auto,
    /// Not renewed: the hold ends one TTL after its grant.
    Off,
}

/// A request for a hold.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The lock's name.
    pub name: LockName,
    /// The lock's mode.
    pub mode: Mode,
    /// The hold's identity.
    pub token: Token,
    /// The requester.
    pub identity: Arc<Identity>,
    /// The TTL, in the profile's range.
    pub ttl: Duration,
    /// The number of fences to reserve: the claim's own, and those for local hand-overs.
    pub fences: u32,
    /// The hold's renewal, for backends that keep several holds in one lease.
    pub renewal_mode: RenewalMode,
}

impl Claim {
    /// Returns the time limit for one request: half of the TTL.
    pub fn patience(&self) -> Duration {
        self.ttl / 2
    }
}

/// How long a backend may keep a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// One atomic attempt. A claim that isn't granted leaves no trace.
    No,
    /// The server may block until this instant. A server that can't block queues the claim and answers
    /// [`AcquireOutcome::Busy`].
    Until(BootInstant),
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// Granted.
    Granted(Granted),
    /// The lock is held.
    Busy(Busy),
}

/// A grant. Only the client computes deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Granted {
    /// The first fence. A repeat returns the same one.
    pub fence: Fence,
    /// The number of reserved fences, at least 1.
    pub fences: u32,
    /// The start of the hold, not later than the server's grant. The default is the send.
    pub start: Option<BootInstant>,
    /// The hold's duration, if it isn't the requested TTL.
    pub valid: Option<Duration>,
    /// True if other clients' claims are queued.
    pub waiters: bool,
}

impl Granted {
    /// Creates a grant of one fence for the TTL, from the send.
    pub const fn new(fence: Fence) -> Self {
        Self { fence, fences: 1, start: None, valid: None, waiters: false }
    }
}

/// The answer for a held lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Busy {
    /// The time until the present hold expires.
    pub retry_after: Option<Duration>,
    /// The holder, if known without another request.
    pub holder: Option<Box<Holder>>,
    /// True if the server has queued the claim, until it is granted, released, or not repeated for long.
    pub queued: bool,
}

/// One hold to renew.
#[derive(Debug, Clone, Copy)]
pub struct Renew<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// Additional fences to reserve.
    pub fences: u32,
    /// The client's time limit. By then a backend with several servers returns its results.
    pub patience: Duration,
}

impl<'a> Renew<'a> {
    /// Creates a renewal without fences. The patience is a quarter of the TTL.
    pub fn of(claim: &'a Claim) -> Self {
        Self { claim, fences: 0, patience: claim.ttl / 4 }
    }

    /// Returns the time limit for a batch.
    pub fn time_to_answer(batch: &[Self]) -> Duration {
        batch.iter().map(|one| one.patience).min().unwrap_or_default() * 4 / 5
    }
}

/// One hold's result.
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
        /// The time from the send, if not the TTL.
        valid: Option<Duration>,
    },
    /// The hold has ended, for this reason if the server has a record.
    NotHeld(Reason),
    /// The outcome is unknown. The client retries until the deadline.
    Indeterminate,
}

impl Renewal {
    /// Re-armed for the TTL.
    pub const RENEWED: Self =
        Self { outcome: RenewalOutcome::Renewed { valid: None }, waiters: false };

    /// Indeterminate.
    pub const INDETERMINATE: Self = Self { outcome: RenewalOutcome::Indeterminate, waiters: false };

    /// Returns the result of an ended hold.
    pub const fn not_held(reason: Reason) -> Self {
        Self { outcome: RenewalOutcome::NotHeld(reason), waiters: false }
    }
}

/// The mode of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseMode {
    /// Every acquire of this token was answered.
    Plain,
    /// An acquire may still arrive. A tombstone keeps it from recreating the hold.
    Reconcile,
}

/// The result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The token was held, queued or offered.
    Released,
    /// The server doesn't have the token.
    NotHeld,
}
