//! The engine of the modes `session` and `row`, whose holds live in database sessions.
//!
//! Each hold has its own connection, outside of any pool, and a task that owns the connection. If a
//! caller drops its future, the task undoes the request.
//!
//! # The rules
//!
//! - **The server ends the hold.** The session's idle timeout is the TTL, set together with the
//!   lock. Any statement restarts the timeout, so only a renewal may send one.
//! - **Another connection writes the fence, once the lock is held.** So a crash of the holder
//!   doesn't roll the fence back, and the fence isn't read from a snapshot older than the lock.
//! - **After a wait for the lock, the TTL counts** from the sending of a first renewal.
//! - **A writer that waits for readers closes a barrier to new readers**, also between two
//!   statements of its wait, when the server would admit readers queued behind the writer.
//! - **Holds and requests have separate permits**, so a release never waits for a hold's permit.
//! - **A hold ends with its connection**, and the task reports that at once.

mod engine;
mod holding;
mod idle;
pub(crate) mod permit;
mod queue;
pub(crate) mod rows;
mod shared;
mod task;
mod withdraw;

use std::fmt::Debug;
use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, Cursor, Fence, Finding, Inspection, LockName, Page,
    Profile, Reason, Result, SweepReport, async_trait,
};

use tokio::time::Instant;

use crate::server::dialect::Dialect;

pub(crate) use engine::Engine;
pub(crate) use permit::Permit;

pub(crate) type SessionId = i64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    Yes,
    /// Another session has the lock, and this session isn't queued for it.
    No {
        /// True if the recorded token is the claim's own. Then another session may hold the lock
        /// for this claim.
        same_token: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Renewed,
    Broken,
    /// The hold lives, but the check for a break failed.
    Unsure,
}

/// A connection that carries a hold, waits for one, or is idle. After an error, the engine closes
/// it and asks the server to end its session.
#[async_trait]
pub(crate) trait Session: Debug + Send + Sync + 'static {
    fn id(&self) -> SessionId;

    /// Sets the idle timeout to the TTL, rounded up, and acquires the lock. While a lock is held,
    /// the timeout is never longer than that.
    ///
    /// With a `slice`, the call blocks in the server for at most that time. After an unsuccessful
    /// wait, the caller waits again or calls [`leave`](Session::leave), unless the wait was the
    /// `last`. No two sessions hold the lock for one claim.
    ///
    /// # Cancel safety
    /// After a drop of the future, the session must be closed.
    async fn lock(&mut self, claim: &Claim, slice: Option<Duration>, last: bool) -> Result<Locked>;

    async fn keep(&mut self, claim: &Claim) -> Result<Kept>;

    async fn shorten(&mut self, to: Duration) -> Result<()>;

    /// Removes what an unsuccessful wait left behind. Afterwards the session is reusable.
    async fn leave(&mut self) -> Result<()>;

    /// Releases the lock. Returns false if the session doesn't have it. Afterwards the session is
    /// reusable.
    async fn unlock(&mut self, claim: &Claim) -> Result<bool>;

    /// Waits for the session's end without a statement.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    async fn ended(&mut self);

    async fn close(self);
}

/// A database server whose sessions can hold locks. Methods of
/// [`DistributedLock`](lockwright_core::DistributedLock) behave as described there. Requests other
/// than a session's own use pooled connections.
#[async_trait]
pub(crate) trait Server: Debug + Send + Sync + 'static {
    type Session: Session;

    type Dialect: Dialect;

    /// The most by which the remaining time from [`inspect`](Server::inspect) may be too long.
    const TIME_LEFT_TOO_LONG_BY: Duration = Duration::ZERO;

    fn profile(&self) -> &Profile;

    fn answer_limit(&self) -> Duration;

    async fn permit(&self, deadline: Instant) -> Result<Permit<Self::Dialect>>;

    /// An error like [`Unavailable`](lockwright_core::ErrorKind::Unavailable) means that nothing is
    /// held.
    async fn connect(&self, permit: Permit<Self::Dialect>) -> Result<Self::Session>;

    /// Records the session as the holder with a fence above all earlier ones, and commits. Returns
    /// `None` if the session has ended.
    async fn note(&self, claim: &Claim, session: SessionId) -> Result<Option<Fence>>;

    async fn cancel(&self, session: SessionId) -> Result<()>;

    /// Ends the session that holds or waits for this claim, in any process. Returns whether there
    /// was one.
    async fn end(&self, claim: &Claim) -> Result<bool>;

    /// Returns the recorded reason: a break, or a release through another connection.
    async fn why_ended(&self, claim: &Claim) -> Result<Option<Reason>>;

    async fn inspect(&self, name: &LockName) -> Result<Inspection>;

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page>;

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        note: &str,
    ) -> Result<Broken>;

    async fn sweep(&self, idle: Duration) -> Result<SweepReport>;

    async fn doctor(&self) -> Result<Vec<Finding>>;
}
