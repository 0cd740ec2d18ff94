//! Holds that live in a database session: the engine that every server with such locks shares.
//!
//! The server keeps such a lock as long as the session lives. So each hold has its own connection,
//! outside of any pool, and a task that owns it. If a caller drops its future, the task undoes what
//! is necessary.
//!
//! | file | subject |
//! |---|---|
//! | `engine` | the backend trait: passes operations to a task or to the server |
//! | `task` | a claim's task until it has the lock |
//! | `holding` | a claim's task while it holds |
//! | `withdraw` | giving up a claim in any state |
//! | `shared` | the state that the tasks of one backend share |
//! | `rows` | the rows of holds, for fences and for operators |
//! | `queue` | the local queue: one blocked connection for each name |
//! | `idle` | idle sessions for reuse |
//! | `permit` | the permit for one more connection |
//!
//! # The rules
//!
//! - **The server ends the hold.** The session's idle timeout is the TTL, set together with the
//!   lock. Any statement on the session restarts it, so only a renewal may send one.
//! - **The fence is written later, by another connection.** So a crash of the holder doesn't roll
//!   it back, and it isn't read from a snapshot older than the lock.
//! - **The start of a hold after a wait** is the send of one more statement on its session.
//! - **An abandoned wait** is cancelled on the server, and its connection is closed.
//! - **Readers share one fence**, that of the first reader, until a writer holds.
//! - **A writer that waits for readers stops new ones**: it closes a gate, also between the slices
//!   of its wait. The server's queue isn't enough: at the end of a slice, the server would grant
//!   the lock to the readers queued behind the writer.
//! - **Each connection has a permit.** Connections that hold or wait have another share of the
//!   limit than those for requests. So a release never waits for a permit that a hold has.
//! - **The end of the connection is the end of the hold**: the task always watches it, and reports
//!   it at once.

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

/// The server's number of a session.
pub(crate) type SessionId = i64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// This session has the lock.
    Yes,
    /// Another session has it, and this one isn't queued any more.
    No {
        /// True if the name's row has the claim's own token, so that another session may hold for
        /// the same claim.
        same_token: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The session lives, and its idle time was restarted.
    Renewed,
    /// The session lives, but an operator has broken the hold.
    Broken,
    /// The session lives and holds, but the check for a break failed.
    Unsure,
}

/// A connection that carries a hold, waits for one, or is idle. After an error from any method, its
/// state is unknown: the engine closes it and asks the server to end it.
#[async_trait]
pub(crate) trait Session: Debug + Send + Sync + 'static {
    fn id(&self) -> SessionId;

    /// Sets the idle timeout to the claim's TTL, rounded up, and takes the lock. A held lock always
    /// has this timeout, or a shorter one. Labels the session with the claim, if the server can.
    ///
    /// With a `slice`, the call blocks in the server for at most that time; without, it doesn't
    /// block. If the future is dropped, the session must be closed. After an unsuccessful wait
    /// comes another wait, unless it was the `last`, or [`leave`](Session::leave).
    ///
    /// A writer that waits for readers blocks new ones. No two sessions hold for one claim.
    async fn lock(&mut self, claim: &Claim, slice: Option<Duration>, last: bool) -> Result<Locked>;

    /// Restarts the idle time with one cheap statement.
    async fn keep(&mut self, claim: &Claim) -> Result<Kept>;

    /// Makes the server end the session after this idle time, from now on.
    async fn shorten(&mut self, to: Duration) -> Result<()>;

    /// Ends an unsuccessful wait, and removes its state. Sends nothing if there is none. Afterwards
    /// the session is reusable.
    async fn leave(&mut self) -> Result<()>;

    /// Releases the lock. Returns false if the session didn't have it. Afterwards the session is
    /// reusable.
    async fn unlock(&mut self, claim: &Claim) -> Result<bool>;

    /// Returns when the connection or its session has ended. Sends nothing, which would restart the
    /// idle time.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    async fn ended(&mut self);

    async fn close(self);
}

/// A database server whose sessions can hold locks. Methods with names of
/// [`DistributedLock`](lockwright_core::DistributedLock) behave as there. Requests about no
/// particular session use pooled connections.
#[async_trait]
pub(crate) trait Server: Debug + Send + Sync + 'static {
    type Session: Session;

    type Dialect: Dialect;

    /// The most by which [`inspect`](Server::inspect) may exaggerate the time left.
    const TIME_LEFT_TOO_LONG_BY: Duration = Duration::ZERO;

    fn profile(&self) -> &Profile;

    /// Returns the time limit of a request that doesn't block.
    fn answer_limit(&self) -> Duration;

    /// Waits until the deadline for a permit for one more connection.
    async fn permit(&self, deadline: Instant) -> Result<Permit<Self::Dialect>>;

    /// Opens a connection.
    ///
    /// # Errors
    /// [`Unavailable`](lockwright_core::ErrorKind::Unavailable) and the like: nothing is held.
    async fn connect(&self, permit: Permit<Self::Dialect>) -> Result<Self::Session>;

    /// Records the session as the holder, and commits its fence, which is above all earlier ones.
    /// `None` if the session has ended.
    async fn note(&self, claim: &Claim, session: SessionId) -> Result<Option<Fence>>;

    /// Stops the session's current statement.
    async fn cancel(&self, session: SessionId) -> Result<()>;

    /// Ends the session that holds or waits for this claim, in any process. Returns whether there
    /// was one, which then holds nothing.
    async fn end(&self, claim: &Claim) -> Result<bool>;

    /// Returns the recorded reason for the end of the claim's session: a break, or a release
    /// through another connection.
    async fn why_ended(&self, claim: &Claim) -> Result<Option<Reason>>;

    async fn inspect(&self, name: &LockName) -> Result<Inspection>;

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page>;

    /// Breaks with the operator's note.
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
