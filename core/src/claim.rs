//! What goes to a backend, and what comes back.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::BootInstant;
use crate::event::Reason;
use crate::identity::Identity;
use crate::mode::Mode;
use crate::name::LockName;
use crate::operator::Holder;
use crate::token::{Fence, Token};

/// Whether a hold is renewed until it is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Upkeep {
    /// The client's keeper renews it: the hold lasts until it is released or lost.
    Renewed,
    /// Nobody renews it: it ends one TTL after it was granted.
    Fixed,
}

/// A request for a hold.
#[derive(Debug, Clone)]
pub struct Claim {
    /// What is to be locked.
    pub name: LockName,
    /// How.
    pub mode: Mode,
    /// The name of the hold. The same token is the same hold, however often it is sent.
    pub token: Token,
    /// Who asks, for people.
    pub identity: Arc<Identity>,
    /// How long the server keeps the hold without a renewal. Within the profile's range.
    pub ttl: Duration,
    /// How many fences are wanted: the first is the hold's own, the rest are for turns that the
    /// client hands on by itself.
    pub fences: u32,
    /// Whether the hold will be renewed. Backends with leases of several holds need to know.
    pub upkeep: Upkeep,
}

impl Claim {
    /// Returns how long a backend may take to answer one acquire, swap or release of this claim: half of
    /// its TTL. A request on a connection that turns out to be dead can then be repeated on a new one while
    /// its answer is still of use. Backends also have a limit of their own, which may be shorter.
    pub fn patience(&self) -> Duration {
        self.ttl / 2
    }
}

/// How long a backend may hold on to a claim that can't be granted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// One atomic attempt. A claim that isn't granted leaves nothing behind.
    No,
    /// A server that can block may block, in slices, until then; the others queue the claim and
    /// answer [`Attempt::Busy`] at once. [`BootInstant::FAR_FUTURE`] means without limit.
    Until(BootInstant),
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// Yes.
    Granted(Granted),
    /// Not now.
    Busy(Busy),
}

/// A backend's "yes". It has no deadline: only the client computes those.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Granted {
    /// The first fence. A repeat with the same token answers the same one.
    pub fence: Fence,
    /// How many fences were reserved from the first on; at least 1.
    pub fences: u32,
    /// The start of the hold where it isn't the send: for a hold that was handed over, or that the
    /// server blocked for. It must certainly not be later than the server's own grant.
    pub start: Option<BootInstant>,
    /// For how long from the start the server keeps the hold, where that isn't the TTL asked for:
    /// a negotiated TTL, or a repeat that didn't re-arm it.
    pub valid: Option<Duration>,
    /// Whether claims of other clients queue on the server for this name.
    pub waiters: bool,
}

impl Granted {
    /// A grant of one fence, valid from the send for the TTL asked for.
    pub const fn new(fence: Fence) -> Self {
        Self { fence, fences: 1, start: None, valid: None, waiters: false }
    }
}

/// A backend's "not now".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Busy {
    /// When the present hold runs out if nobody renews it. The client polls then.
    pub retry_after: Option<Duration>,
    /// Who holds, where the server says so without a further trip.
    pub holder: Option<Box<Holder>>,
    /// Whether the claim stands in the server's queue now. If so, it stays there until it is
    /// granted, released, or not repeated for long.
    pub queued: bool,
}

/// One hold to renew.
#[derive(Debug, Clone, Copy)]
pub struct Renew<'a> {
    /// The claim that made it.
    pub claim: &'a Claim,
    /// How many fences are wanted beyond those that the hold has.
    pub fences: u32,
    /// For how long its answer is waited for. After that all of the request is taken for unanswered: so a
    /// backend that asks several servers says by then what it knows, and that the rest is indeterminate.
    pub patience: Duration,
}

impl<'a> Renew<'a> {
    /// A renewal of a hold that has no more fences than it needs, and whose time isn't short: its answer is
    /// waited for a quarter of its TTL.
    pub fn of(claim: &'a Claim) -> Self {
        Self { claim, fences: 0, patience: claim.ttl / 4 }
    }

    /// How long a backend may take for its answer to a batch, so that it comes before anybody has lost
    /// patience.
    pub fn time_to_answer(batch: &[Self]) -> Duration {
        batch.iter().map(|one| one.patience).min().unwrap_or_default() * 4 / 5
    }
}

/// The answer for one hold of a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// What became of it.
    pub outcome: RenewalOutcome,
    /// Whether claims of other clients queue on the server for this name.
    pub waiters: bool,
}

/// What became of one hold of a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RenewalOutcome {
    /// Re-armed: the server keeps it for another TTL, or for this long if that is something else.
    Renewed {
        /// For how long from the send of the renewal, if not the TTL of the claim.
        valid: Option<Duration>,
    },
    /// The server doesn't have this hold, and why as far as it knows. The hold is lost.
    NotHeld(Reason),
    /// Nobody knows. The keeper asks again until the deadline.
    Indeterminate,
}

impl Renewal {
    /// Re-armed for the claim's TTL, nobody waiting.
    pub const RENEWED: Self =
        Self { outcome: RenewalOutcome::Renewed { valid: None }, waiters: false };

    /// Nobody knows, and nobody waiting as far as that is known.
    pub const INDETERMINATE: Self = Self { outcome: RenewalOutcome::Indeterminate, waiters: false };

    /// Not held, for this reason.
    pub const fn not_held(reason: Reason) -> Self {
        Self { outcome: RenewalOutcome::NotHeld(reason), waiters: false }
    }
}

/// Whether each request for the hold that is released was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// Every acquire of this token was answered.
    Answered,
    /// An answer is missing, so that an acquire may still be on its way: worth a tombstone, which
    /// keeps a late duplicate from bringing the hold back.
    Unanswered,
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The token held, was queued or was offered the lock, and isn't any more.
    Released,
    /// The server knew nothing of the token.
    NotHeld,
}
