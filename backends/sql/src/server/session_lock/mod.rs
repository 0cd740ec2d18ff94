//! The engine of the modes `session` and `row`, whose holds live in database sessions.
//!
//! A hold has a task, and its own connection outside of any pool. If a caller drops its future, the
//! task undoes the request. In the mode `session`, a client's exclusive holds after the first few
//! share [joint sessions](joint_session), unless their claims waited.
//!
//! - **The server ends the hold.** The session's idle timeout is the TTL, set before the lock or
//!   with it. Any statement restarts the timeout, so during a hold, the client sends only renewals.
//! - **The fence is issued once the lock is held.** Another connection records the hold before the
//!   grant, or after [`RECORD_AFTER`] if the fence doesn't depend on the record.
//! - **After a wait for the lock, the TTL doesn't start with the answer**, which may be late. If
//!   the server measured the wait, the TTL starts that long after the request. Otherwise it starts
//!   at the request after a short wait, and at the first renewal after a longer one.
//! - **A writer that waits for readers closes a barrier**, a lock that keeps new readers out.
//!   Otherwise, they would get the lock between two statements of the wait.
//! - **Holds and requests have separate permits**, so a release never waits for a hold's permit.

mod engine;
mod engine_state;
mod hold_session;
mod holding;
mod idle;
pub(crate) mod joint_session;
mod late_records;
mod local_queue;
pub(crate) mod permit;
mod records;
mod sessions;
mod task;
mod withdraw;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    Claim, Fault, Faults, Fence, Fencing, Finding, Modes, Profile, Result, Scope, WakeUp,
    async_trait,
};

use crate::server::{Dialect, Pool};

pub(crate) use engine::Engine;
use engine_state::{Command, EngineState, Place};
use hold_session::HoldSession;
use holding::{Hold, Holding, Live};
use idle::Idle;
pub(crate) use idle::KEPT_TIMEOUTS;
use joint_session::{JointSessions, Member};
use late_records::{Unrecorded, record_late};
use local_queue::{Queues, Turn};
pub(crate) use permit::Permit;
pub(crate) use sessions::{Kind, Sessions};
use task::{Inbox, Task};

pub(crate) type SessionId = i64;

pub(crate) const RECORD_AFTER: Duration = Duration::from_millis(20);

pub(crate) fn profile(
    backend: &'static str,
    shared: bool,
    survives: &[Fault],
    ttl: RangeInclusive<Duration>,
) -> Profile {
    let mut profile = Profile::new(backend);
    profile.scope = Scope::Network;
    profile.fencing = Fencing::Strict;
    profile.modes = Modes { exclusive: true, shared, permits: false };
    profile.wake_up = WakeUp::Push;
    profile.survives = Faults::of(survives);
    profile.tombstones = true;
    profile.breakable = true;
    profile.blocks = true;
    profile.ttl = ttl;
    // A stuck connection must delay no other hold.
    profile.renew_batch = 1;
    profile.slow_poll = Duration::from_secs(1);
    profile
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    Yes(Grant),
    /// Another session has the lock, and this session isn't queued for it.
    No {
        /// True if another session may hold the lock for this claim.
        same_token: bool,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) fence: Option<Fence>,
    /// True if the hold needs no record before [`RECORD_AFTER`]. Then `fence` is set.
    pub(crate) is_recorded_later: bool,
    /// The server's measurement of its wait for the lock. The grant is at least this long after the
    /// request.
    pub(crate) waited: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Renewed,
    Broken,
    /// The lock is gone, or another client has recorded the hold's release.
    Ended,
    /// The session is alive, but couldn't read the hold's record.
    Unsure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Session,
    /// Another client asks to end a hold of this joint session.
    Asked,
}

/// A connection that carries a hold, waits for one, or is idle. After an error, the engine closes
/// it and has the server end the session.
#[async_trait]
pub(crate) trait Session: Send + Sync + 'static {
    fn id(&self) -> SessionId;

    /// Sets the idle timeout to the TTL, rounded up, and acquires the lock. While the lock is held,
    /// the timeout is never longer.
    ///
    /// Waits in the server for about `slice`, if any. After an unsuccessful wait, the caller waits
    /// again or calls [`leave`](Session::leave). If `last`, no wait follows, so this call may do
    /// the work of `leave`. At most one session holds the lock for a claim.
    ///
    /// # Cancel safety
    /// If the future is dropped, the session must be closed.
    async fn lock(&mut self, claim: &Claim, slice: Option<Duration>, last: bool) -> Result<Locked>;

    /// Makes the session joint: it may get several locks of this TTL, without a slice.
    async fn join(&mut self, ttl: Duration) -> Result<()>;

    /// Renews all holds of the session, and reads the records of `claims`.
    async fn keep(&mut self, claims: &[Claim]) -> Result<Vec<Kept>>;

    async fn shorten(&mut self, to: Duration) -> Result<()>;

    /// After an unsuccessful wait, releases the barrier and the lock that identifies the claim.
    /// Then the session is reusable.
    async fn leave(&mut self) -> Result<()>;

    /// Releases the lock, after which the session is reusable. Returns false if it lacks the lock.
    async fn unlock(&mut self, claim: &Claim) -> Result<bool>;

    /// Waits for the session's end, or for another client's request, without a statement.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    async fn ended(&mut self) -> Ended;

    async fn close(self);
}

#[async_trait]
pub(crate) trait Server: Dialect {
    type Session: Session;

    /// State that a client's sessions share.
    type Own: Send + Sync + 'static;

    /// The queries of both modes. Their `{held}` is the table of exclusive holds or of readers.
    const QUERIES: &'static str;

    /// The word for software that shares sessions: pooler or proxy.
    const BETWEEN: &'static str;

    /// How much longer than the true remaining time the result of `inspect` may be.
    const TIME_LEFT_TOO_LONG_BY: Duration = Duration::ZERO;

    /// True if, in the mode `row`, `inspect` returns only recorded holds.
    const HIDES_YOUNG_ROWS: bool = false;

    fn profile(kind: Kind) -> Profile;

    fn expand_for(&self, kind: Kind, text: &str) -> String;

    fn own(pool: &Arc<Pool<Self>>) -> Self::Own;

    async fn open_session(
        sessions: &Arc<Sessions<Self>>,
        permit: Permit<Self>,
    ) -> Result<Self::Session>;

    async fn doctor(sessions: &Arc<Sessions<Self>>) -> Result<Vec<Finding>>;
}
