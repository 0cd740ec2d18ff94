//! The quorum's interface to one independent node.
//!
//! This narrow trait allows the same protocol code for real and simulated servers, and keeps candidates and
//! certificates out of the general trait.
//!
//! # Incarnations and certificates
//!
//! A node that lost its data must not vote until all lost holds have ended: for one largest TTL. An
//! incarnation of a node's data is identified by its *certificate*. It is a value on the node, with its own
//! key, so it is lost with the data. It contains
//!
//! - the run id of the server, which changes at each restart;
//! - a random number, new whenever the certificate was lost or couldn't be carried over;
//! - the largest TTL, a constant of the fleet;
//! - whether the server persisted every write when the certificate was written;
//! - whether the node may vote yet ([`Certificate::votes`]).
//!
//! Every request that counts towards a quorum carries the certificate that the client read. The node compares
//! it in the same atomic step. A node that was flushed, or restarted behind an automatic reconnect, replies
//! [`Vote::Stranger`].

use std::fmt::Debug;
use std::time::Duration;

use lockwright_core::{
    BreakHow, Broken, Claim, Cursor, Ended, Events, Fence, Finding, Holder, Inspection, LockName,
    Page, Renew, RenewalOutcome, Result, Seen, Settle, async_trait,
};

pub use lockwright_redis::node::Certificate;

/// A node's reply to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote {
    /// The claim's token holds, for the full TTL.
    Yes(Yes),
    /// Another token holds.
    No(No),
    /// The claim's token was released or broken before, and can't hold again.
    Ended,
    /// The certificate sent isn't the node's. Nothing was done.
    Stranger,
}

/// A vote for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Yes {
    /// `max(counter + 1, candidate)`, the new counter; for a repeat, the recorded fence of this hold.
    pub fence: Fence,
    /// Set if the token held already.
    pub repeated: bool,
    /// Time left of the hold, if it isn't the requested TTL: for a broken hold.
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
/// As with [`DistributedLock`](lockwright_core::DistributedLock), every future may be dropped at any await
/// point, and the request may then still take effect. `Unavailable` means that the request certainly has no
/// effect, now or later; all other failures are indeterminate. A node has no time limit of its own: the
/// quorum applies one per node.
#[async_trait]
pub trait Node: Debug + Send + Sync + 'static {
    /// Returns the address for display, without secrets.
    fn address(&self) -> &str;

    /// Attaches a channel for wake-ups and breaks.
    fn attach(&self, events: Events);

    /// Checks the current server and returns its certificate. If the certificate is missing or can't be
    /// carried over, the node gets a new one, which doesn't vote.
    ///
    /// A voting certificate is carried over a restart only if the server persisted every write before and
    /// does so now, and wasn't a replica in between.
    async fn look(&self) -> Result<Certificate>;

    /// Lets the node vote if its certificate is `seen`. Returns the certificate that is there afterwards.
    async fn admit(&self, seen: &Certificate) -> Result<Certificate>;

    /// Requests a vote in one atomic step, idempotent per token. `waits` marks the current hold, so that its
    /// release sends a wake-up.
    async fn attempt(
        &self,
        certificate: &Certificate,
        claim: &Claim,
        candidate: Fence,
        waits: bool,
    ) -> Result<Vote>;

    /// If the token still holds, records `fence` as the hold's own and raises the counter to it. Returns
    /// whether it did.
    async fn raise(&self, certificate: &Certificate, claim: &Claim, fence: Fence) -> Result<bool>;

    /// Renews each hold that its token still has, for its full TTL. Returns one outcome each, or `None` if
    /// the certificate isn't the node's.
    async fn renew(
        &self,
        certificate: &Certificate,
        holds: &[Renew<'_>],
    ) -> Result<Option<Vec<RenewalOutcome>>>;

    /// Ends a hold, or an attempt without a reply, regardless of certificates.
    async fn release(&self, claim: &Claim, settle: Settle) -> Result<Ended>;

    /// Returns the holder of `name` on this node.
    async fn inspect(&self, name: &LockName) -> Result<Inspection>;

    /// Lists the names held on this node, in pages, in byte order.
    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page>;

    /// Releases a lock by force, on this node.
    async fn break_lock(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        by: &str,
        reason: &str,
    ) -> Result<Broken>;

    /// Diagnoses this node.
    async fn doctor(&self) -> Result<Vec<Finding>>;
}
