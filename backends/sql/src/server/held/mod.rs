//! Holds that live in a database session: the engine that every server with such locks shares.
//!
//! The server keeps such a lock as long as the session lives. So each hold has its own connection,
//! outside of any pool, and a task that owns it. A caller may drop its future at any time; the task
//! still undoes what is necessary.
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
//! - **The fence is written later, by another connection**, after the lock was acquired. So a crash
//!   of the holder doesn't roll it back, and it isn't read from a snapshot older than the lock.
//! - **The start of a hold after a wait** is the send of one more statement on its session.
//! - **An abandoned wait** is cancelled on the server, and its connection is closed.
//! - **Readers share one fence**, the fence of the first reader, until a writer holds. Each reader
//!   has a row.
//! - **A writer that waits for readers stops new ones**: it closes a gate, and keeps it closed
//!   between the slices of its wait. The server's own queue isn't enough: when the writer's slice
//!   ends, the server grants the lock to the readers queued behind it.
//! - **Each connection has a permit.** Connections that hold or wait have another share of the
//!   limit than those for requests. So a release never waits for a permit that a hold has.
//! - **The end of the connection is the end of the hold**, and is reported at once: the task always
//!   watches it.

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
    BreakHow, Broken, Claim, Cursor, Fence, Finding, Inspection, LockName, Page, Profile, Reason,
    Result, Seen, Swept, async_trait,
};

use tokio::time::Instant;

use crate::server::dialect::Dialect;

pub(crate) use engine::Engine;
pub(crate) use permit::Permit;

/// The server's number of a session: a process id or a connection id.
pub(crate) type SessionId = i64;

/// The result of an attempt to lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// This session has the lock.
    Yes,
    /// Another session has the lock, and this one isn't in the server's queue any more.
    No {
        /// Whether the name's row has the claim's own token. Then another session may hold it for
        /// the same claim.
        same_token: bool,
    },
}

/// The result of a statement that keeps the hold alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The session lives, and its idle time was restarted.
    Renewed,
    /// The session lives, but an operator has broken the hold.
    Broken,
    /// The session lives and holds, but a break couldn't be checked for.
    Unsure,
}

/// A connection that carries a hold, waits for one, or is idle.
///
/// After an error from any method, the session's state is unknown. The engine then closes the
/// session and asks the server to end it.
#[async_trait]
pub(crate) trait Session: Debug + Send + Sync + 'static {
    /// Returns the session's number on the server.
    fn id(&self) -> SessionId;

    /// Sets the idle timeout to the claim's TTL, rounded up, and takes the lock. The order of the
    /// two guarantees that a held lock never has no timeout or a longer one. Also labels the
    /// session with the claim, if the server supports that.
    ///
    /// With a `slice`, the call blocks in the server for at most that time; without, it doesn't
    /// block. If the future is dropped, the session must be closed. After a wait without success,
    /// another wait follows, unless it was the `last`, or [`leave`](Session::leave).
    ///
    /// A writer that waits for readers blocks new ones. No two sessions hold for one claim.
    async fn lock(&mut self, claim: &Claim, slice: Option<Duration>, last: bool) -> Result<Locked>;

    /// Restarts the idle time with one cheap statement.
    async fn keep(&mut self, claim: &Claim) -> Result<Kept>;

    /// Makes the server end the session after this idle time, from now on.
    async fn shorten(&mut self, to: Duration) -> Result<()>;

    /// Ends an unsuccessful wait, and removes state that a slice may have left for the next.
    /// Afterwards the session holds nothing and is reusable. Sends nothing if there is no such
    /// state.
    async fn leave(&mut self) -> Result<()>;

    /// Releases the lock. Returns false if the session didn't have it. Afterwards the session holds
    /// nothing and is reusable.
    async fn unlock(&mut self, claim: &Claim) -> Result<bool>;

    /// Returns when the connection or its session has ended. Sends nothing, which would restart the
    /// idle time.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    async fn ended(&mut self);

    /// Closes the connection, and returns when that is done.
    async fn close(self);
}

/// A database server whose sessions can hold locks. Requests that don't concern a particular
/// session use pooled connections.
#[async_trait]
pub(crate) trait Server: Debug + Send + Sync + 'static {
    /// A connection that carries holds.
    type Session: Session;

    /// The server's SQL dialect.
    type Dialect: Dialect;

    /// The largest excess of the time left as [`inspect`](Server::inspect) shows it.
    const TIME_LEFT_TOO_LONG_BY: Duration = Duration::ZERO;

    /// Returns the profile.
    fn profile(&self) -> &Profile;

    /// Returns how long the server may take to answer a request that doesn't block.
    fn answer_limit(&self) -> Duration;

    /// Waits until the deadline for a permit for one more connection.
    ///
    /// # Errors
    /// [`Unavailable`](lockwright_core::ErrorKind::Unavailable): all permits are in use.
    async fn permit(&self, deadline: Instant) -> Result<Permit<Self::Dialect>>;

    /// Opens a connection.
    ///
    /// # Errors
    /// [`Unavailable`](lockwright_core::ErrorKind::Unavailable) and the like: nothing is held.
    async fn connect(&self, permit: Permit<Self::Dialect>) -> Result<Self::Session>;

    /// Records that the session holds the claim's name, and commits its fence, which is above all
    /// earlier ones. Returns `None` if the session has ended.
    async fn note(&self, claim: &Claim, session: SessionId) -> Result<Option<Fence>>;

    /// Stops the session's current statement.
    async fn cancel(&self, session: SessionId) -> Result<()>;

    /// Ends the session that holds or waits for this claim, in any process. Returns whether there
    /// was one. Afterwards, that session holds nothing.
    async fn end(&self, claim: &Claim) -> Result<bool>;

    /// Returns why the claim's session was ended, if recorded: an operator broke the hold, or it
    /// was released through another connection.
    async fn why_ended(&self, claim: &Claim) -> Result<Option<Reason>>;

    /// As [`DistributedLock::inspect`](lockwright_core::DistributedLock::inspect).
    async fn inspect(&self, name: &LockName) -> Result<Inspection>;

    /// As [`DistributedLock::list`](lockwright_core::DistributedLock::list).
    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page>;

    /// As [`DistributedLock::break_lock`](lockwright_core::DistributedLock::break_lock), with the
    /// operator's note.
    async fn break_lock(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        note: &str,
    ) -> Result<Broken>;

    /// As [`DistributedLock::sweep`](lockwright_core::DistributedLock::sweep).
    async fn sweep(&self, idle: Duration) -> Result<Swept>;

    /// As [`DistributedLock::doctor`](lockwright_core::DistributedLock::doctor).
    async fn doctor(&self) -> Result<Vec<Finding>>;
}
