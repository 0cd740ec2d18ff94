//! One of the independent nodes, as the quorum sees it.
//!
//! A narrow trait of its own, so that the protocol is one piece of code for real servers and for
//! simulated ones. It keeps the general trait free of candidates and certificates.
//!
//! # Incarnations and certificates
//!
//! A node that lost its data must not vote before every hold that it forgot has ended: one largest
//! TTL. What tells an incarnation of a node's data from the next one is the *certificate*: a value
//! that stands on the node, under a key of its own, so that it goes when the data go. It names
//!
//! - the run id of the server, which changes at each restart;
//! - a random number, new whenever the certificate had gone or couldn't be carried over;
//! - the largest TTL, which is a constant of the fleet;
//! - whether the server kept every write when it was written;
//! - whether the node may vote yet ([`Certificate::votes`]).
//!
//! Every request that counts towards a quorum carries the certificate that its sender saw, and the
//! node compares it in the same atomic step: a node that was flushed, or restarted behind a
//! connection that came back, answers [`Vote::Stranger`] and not a vote.

use std::fmt::Debug;
use std::time::Duration;

use lockwright_core::{
    BreakHow, Broken, Claim, Cursor, Ended, Events, Fence, Finding, Holder, Inspection, LockName,
    Page, Renew, RenewalOutcome, Result, Seen, Settle, async_trait,
};

pub use lockwright_redis::node::Certificate;

/// What a node says to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote {
    /// The node holds the claim's token now, armed for the full TTL.
    Yes(Yes),
    /// Another token holds.
    No(No),
    /// The claim's token was released or broken before, and doesn't come back.
    Ended,
    /// The node's certificate isn't the one that was sent. Nothing was done.
    Stranger,
}

/// A vote for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Yes {
    /// `max(counter + 1, candidate)`, which is the counter now; or, for a repeat, what the node has
    /// noted as this hold's fence.
    pub fence: Fence,
    /// Whether the node held the token already.
    pub repeated: bool,
    /// For how long the node keeps the hold, where that isn't the TTL asked for: for a broken one.
    pub valid: Option<Duration>,
}

/// A vote against a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct No {
    /// When the present hold runs out if nobody renews it; `None` if never.
    pub left: Option<Duration>,
    /// Who holds.
    pub holder: Option<Box<Holder>>,
}

/// One of the independent nodes.
///
/// As with [`DistributedLock`](lockwright_core::DistributedLock), every future may be dropped at
/// any await point and the request may then still take effect; `Unavailable` means that it
/// certainly had no effect and never will, and everything else is indeterminate. A node may take
/// its own time to answer: the per-node time-out is the quorum's business.
#[async_trait]
pub trait Node: Debug + Send + Sync + 'static {
    /// Its address, for people, without secrets.
    fn address(&self) -> &str;

    /// Takes a channel for wake-ups and for breaks.
    fn attach(&self, events: Events);

    /// Looks at the server that is there now, and answers its certificate. One that has none, or
    /// one that can't be carried over, gets a new one, which doesn't vote.
    ///
    /// A certificate that votes is carried over a restart, and keeps voting, only if the server kept every write before and does so
    /// now, and wasn't a replica in between.
    async fn look(&self) -> Result<Certificate>;

    /// Lets a node vote whose certificate is `seen`, and answers the certificate that is there
    /// afterwards: if it wasn't `seen` any more, nothing was done.
    async fn admit(&self, seen: &Certificate) -> Result<Certificate>;

    /// Asks for a vote: one atomic step, idempotent by token. `waits` leaves a mark with the holder
    /// that somebody is to be told when it goes.
    async fn attempt(
        &self,
        certificate: &Certificate,
        claim: &Claim,
        candidate: Fence,
        waits: bool,
    ) -> Result<Vote>;

    /// Where the token still holds, and only there: notes `fence` as the hold's own, and raises the
    /// counter to it. Answers whether it did.
    async fn raise(&self, certificate: &Certificate, claim: &Claim, fence: Fence) -> Result<bool>;

    /// Re-arms holds to their full TTL, each one that its token still has: one outcome for each, or
    /// `None` if the certificate isn't the one that was sent.
    async fn renew(
        &self,
        certificate: &Certificate,
        holds: &[Renew<'_>],
    ) -> Result<Option<Vec<RenewalOutcome>>>;

    /// Ends a hold, or an attempt that was never answered. Certificates don't matter here.
    async fn release(&self, claim: &Claim, settle: Settle) -> Result<Ended>;

    /// Who holds `name` here.
    async fn inspect(&self, name: &LockName) -> Result<Inspection>;

    /// The names that are held here, page by page, in the order of their bytes.
    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page>;

    /// An operator's forced release here.
    async fn break_lock(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        by: &str,
        reason: &str,
    ) -> Result<Broken>;

    /// What is wrong with this node.
    async fn doctor(&self) -> Result<Vec<Finding>>;
}
