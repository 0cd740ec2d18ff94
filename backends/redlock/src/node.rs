//! The quorum's interface to one independent node, real or simulated.
//!
//! # Incarnations
//!
//! After a loss of its data, a node must not vote until all lost holds have expired: for one
//! largest TTL. Each node therefore stores an [`Incarnation`], which is lost with its data.
//!
//! Requests for votes and renewals carry the incarnation that the client read. The node compares
//! that with its own in the same atomic step. After a loss or restart, the node replies
//! [`Vote::WrongIncarnation`].

use std::fmt::Debug;
use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, Cursor, Events, Fence, Finding, Holder, Inspection,
    LockName, Page, ReleaseMode, ReleaseOutcome, Renew, RenewalOutcome, Result, async_trait,
};

pub use lockwright_redis::node::Incarnation;

/// A node's reply to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote {
    /// The claim's token holds the lock, for the full TTL.
    Yes(Yes),
    /// Another token holds the lock.
    No(No),
    /// The claim's token was released or broken.
    Ended,
    /// The node has another incarnation, and did nothing.
    WrongIncarnation,
}

/// A vote for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Yes {
    /// The node's new counter: `max(counter + 1, candidate)`. A repeated claim gets the fence of
    /// its hold.
    pub fence: Fence,
    /// Set if the token already held the lock.
    pub repeated: bool,
    /// The time left, if the hold was broken and can't be extended.
    pub valid: Option<Duration>,
}

/// A vote against a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct No {
    /// Time until the present hold expires; `None` if never.
    pub left: Option<Duration>,
    /// The present holder.
    pub holder: Option<Box<Holder>>,
}

/// One of the independent nodes.
///
/// A request may still take effect after its future is dropped, or after an `Indeterminate` error.
/// After any other error, it has no effect.
#[async_trait]
pub trait Node: Debug + Send + Sync + 'static {
    /// Returns the address for display, without secrets.
    fn address(&self) -> &str;

    /// Attaches a channel for wake-ups and breaks.
    fn attach(&self, events: Events);

    /// Returns the node's incarnation. If it is missing or isn't kept after a restart, the node
    /// gets a new one, which doesn't vote.
    ///
    /// A restart keeps the incarnation only if the server persists every write, both before and
    /// after the restart, and wasn't a replica in the meantime.
    async fn look(&self) -> Result<Incarnation>;

    /// Lets the node vote if its incarnation is `seen`. Returns the resulting incarnation.
    async fn admit(&self, seen: &Incarnation) -> Result<Incarnation>;

    /// Requests a vote, atomically and idempotent per token. If `waits` is set, the present hold's
    /// release sends a wake-up.
    async fn attempt(
        &self,
        incarnation: &Incarnation,
        claim: &Claim,
        candidate: Fence,
        waits: bool,
    ) -> Result<Vote>;

    /// Records `fence` for the hold and raises the counter to it, if the token still holds the
    /// lock. Returns whether it does.
    async fn raise(&self, incarnation: &Incarnation, claim: &Claim, fence: Fence) -> Result<bool>;

    /// Renews holds for their full TTL. Returns one outcome per hold, or `None` if the incarnation
    /// differs.
    async fn renew(
        &self,
        incarnation: &Incarnation,
        holds: &[Renew<'_>],
    ) -> Result<Option<Vec<RenewalOutcome>>>;

    /// Releases a claim, also an unanswered one, whatever the node's incarnation.
    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome>;

    /// Returns the holder of `name` on this node.
    async fn inspect(&self, name: &LockName) -> Result<Inspection>;

    /// Lists the names held on this node, in byte order.
    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page>;

    /// Breaks a hold on this node.
    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken>;

    /// Diagnoses this node.
    async fn doctor(&self) -> Result<Vec<Finding>>;
}
