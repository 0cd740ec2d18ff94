//! Holds that live in a database session: the engine that every server with such locks shares.
//!
//! A hold is a lock that the server keeps for as long as one session lives. So each hold has a
//! connection of its own, which no pool ever sees, and a task that owns it: the caller's future may
//! be dropped at any time, and the task still knows what to undo.
//!
//! | file | subject |
//! |---|---|
//! | `engine` | what the trait's methods come to: which task is asked, or the server |
//! | `task` | one claim's task, until it has the lock |
//! | `holding` | the same, from then on: renewing, ending, being lost |
//! | `withdraw` | giving a claim up in the middle of something |
//! | `shared` | what the tasks of one backend have in common |
//! | `rows` | what is written down, for the fence and for operators |
//! | `queue` | one blocked connection for each name, the others behind it |
//! | `idle` | sessions that hold nothing and can be used again |
//! | `permit` | the permit for one more connection |
//!
//! # The rules
//!
//! - **The server ends it.** The session's idle time-out is the TTL, set together with the lock. Any
//!   statement on the session starts it anew, so nothing but a renewal may send one.
//! - **The fence comes later, and from elsewhere.** It is written by another connection after the
//!   lock was got: a crash of the holder doesn't roll it back, and it isn't read from a snapshot
//!   that is older than the lock.
//! - **The start of a hold that was waited for** is the send of one more statement on its session.
//! - **A wait that nobody wants any more** is cancelled on the server and its connection closed.
//! - **Readers have one fence**, that of the first of them, until a writer comes. Who they are stands
//!   in rows of their own.
//! - **A writer that waits for readers stops new ones**: it closes a gate, which it keeps closed from
//!   one slice of its wait to the next. A server's own queue isn't enough: whoever stands in it behind
//!   the writer gets in when the writer's slice ends.
//! - **Each connection has a permit.** Connections that hold or wait have another share of the limit than
//!   those for requests. So a release never waits for a permit that a hold has.
//! - **The end of the connection is the end of the hold**, and is told at once: the task always
//!   listens.

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

/// The server's own number of a session: a process id, a connection id.
pub(crate) type SessionId = i64;

/// What a try at the lock came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// This session has it.
    Yes,
    /// Another one has it, and this one isn't in a queue for it any more.
    No {
        /// Whether what was written about the name bears the claim's own token: then another
        /// session may hold it for the same claim.
        same_token: bool,
    },
}

/// What a statement that keeps the hold alive came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The session is there, and its time has begun anew.
    Renewed,
    /// It is there, but an operator has broken the hold.
    Broken,
    /// It is there and holds, but it couldn't be asked whether the hold was broken.
    Unsure,
}

/// A connection that carries one hold, or waits for one, or neither.
///
/// An error from any of these means that nobody knows what the session holds: the engine closes it
/// and asks the server to end it.
#[async_trait]
pub(crate) trait Session: Debug + Send + Sync + 'static {
    /// Its number on the server.
    fn id(&self) -> SessionId;

    /// Sets the claim's TTL as the time after which the server ends the session when it is idle,
    /// rounded up, and takes the lock, in an order in which the lock is never had without it or with
    /// a longer one. Marks the session as the claim's, as far as the server can show that.
    ///
    /// With a `slice` it blocks in the server for at most that long; without, it doesn't block. It
    /// is never dropped half-way unless the session is closed then. After a wait in vain comes another
    /// one, unless it was the `last`, or [`leave`](Session::leave).
    ///
    /// A writer that waits for readers keeps new ones out. No two sessions hold for one claim.
    async fn lock(&mut self, claim: &Claim, slice: Option<Duration>, last: bool) -> Result<Locked>;

    /// One cheap statement, which starts the idle time anew.
    async fn keep(&mut self, claim: &Claim) -> Result<Kept>;

    /// Makes the server end the session when it is idle for this long, from now.
    async fn shorten(&mut self, to: Duration) -> Result<()>;

    /// Ends a wait that was in vain, with what a slice may have left for the next one. Afterwards the
    /// session holds nothing and can be used again. Sends nothing when nothing was left.
    async fn leave(&mut self) -> Result<()>;

    /// Lets go of the lock. False if the session didn't have it. Afterwards the session holds
    /// nothing and can be used again.
    async fn unlock(&mut self, claim: &Claim) -> Result<bool>;

    /// Returns when the connection or its session has ended. Sends nothing on it, which would start
    /// the idle time anew. May be dropped and called again at any time.
    async fn ended(&mut self);

    /// Closes the connection, and returns when that is done.
    async fn close(self);
}

/// A database server whose sessions can hold locks. What isn't about one session goes through
/// other, pooled connections.
#[async_trait]
pub(crate) trait Server: Debug + Send + Sync + 'static {
    /// Its connections that carry holds.
    type Session: Session;

    /// The server's SQL dialect.
    type Dialect: Dialect;

    /// By how much the time left that [`inspect`](Server::inspect) shows may be too long.
    const TIME_LEFT_TOO_LONG_BY: Duration = Duration::ZERO;

    /// What it promises.
    fn profile(&self) -> &Profile;

    /// Returns how long the server may take to answer a request that doesn't block.
    fn answer_limit(&self) -> Duration;

    /// Waits until the deadline for a permit for one more connection.
    ///
    /// # Errors
    /// [`Unavailable`](lockwright_core::ErrorKind::Unavailable): all permits are in use.
    async fn permit(&self, deadline: Instant) -> Result<Permit<Self::Dialect>>;

    /// A new connection.
    ///
    /// # Errors
    /// [`Unavailable`](lockwright_core::ErrorKind::Unavailable) and the like: nothing is held.
    async fn connect(&self, permit: Permit<Self::Dialect>) -> Result<Self::Session>;

    /// Writes down that the session holds the claim's name, and commits its fence, which is above
    /// all before. `None` if the session isn't there any more.
    async fn note(&self, claim: &Claim, session: SessionId) -> Result<Option<Fence>>;

    /// Stops the statement that the session is in the middle of.
    async fn cancel(&self, session: SessionId) -> Result<()>;

    /// Ends the session that holds or waits for this claim, whoever's it is, and answers whether
    /// there was one. When it has answered, that session holds nothing.
    async fn end(&self, claim: &Claim) -> Result<bool>;

    /// Why the claim's session was ended, if that was written down: an operator broke the hold, or
    /// somebody released it through another connection.
    async fn why_ended(&self, claim: &Claim) -> Result<Option<Reason>>;

    /// As [`DistributedLock::inspect`](lockwright_core::DistributedLock::inspect).
    async fn inspect(&self, name: &LockName) -> Result<Inspection>;

    /// As [`DistributedLock::list`](lockwright_core::DistributedLock::list).
    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page>;

    /// As [`DistributedLock::break_lock`](lockwright_core::DistributedLock::break_lock), with the
    /// note of who and why.
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
