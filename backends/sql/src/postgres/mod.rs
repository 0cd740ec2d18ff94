//! Locks on a PostgreSQL server.
//!
//! The URL's parameter `mode` selects the [mode](Mode):
//!
//! | mode | a hold is | for |
//! |---|---|---|
//! | `lease`, the default | a row that expires by itself | everything; behind a transaction pooler too |
//! | `session` | an advisory lock | exclusion of programs with `pg_advisory_lock` |
//! | `row` | a locked row in an open transaction | exclusion of programs with `SELECT … FOR UPDATE` |
//!
//! Holds of different modes don't exclude each other. All modes support readers, but only `lease`
//! supports permits. [`Mode::Lease`] lists its limits.

mod borrowed;
mod config;
mod dialect;
mod doctor;
mod listener;
mod pooler;
mod session_lock;
pub mod transaction;

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::backend_util::Subscribers;
use lockwright_core::{Clock, DistributedLock, ErrorKind, Profile, Result, WakeUp};

pub use crate::server::Mode;
pub use config::Config;
pub use transaction::{InTransaction, check_fence, lock_in_transaction};

use crate::server::lease::{LeaseBackend, ReleaseListener};
use crate::server::session_lock::{Engine, Server as _, Sessions};
use crate::server::{Pool, lease, schema};
use dialect::Postgresql;
use listener::Listener;
use pooler::Server;

/// The polling interval with notifications. A lost listening connection wakes all waiters.
const SLOW_POLL: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(100);

/// Locks on a PostgreSQL server.
///
/// All clients of one `Postgres` share a few connections, which close when the `Postgres` is
/// dropped.
#[derive(Debug)]
pub struct Postgres(Arc<dyn DistributedLock>);

impl Postgres {
    /// Connects by a URL, such as `postgres://me:secret@db/shop`. The errors are those of
    /// [`Config::new`] and [`Config::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Config::new(url)?.connect().await
    }
}

impl Config {
    /// Connects, checks the server, and creates missing tables.
    ///
    /// # Cancel safety
    /// May be dropped at any time; new tables may then remain.
    ///
    /// # Errors
    /// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): no such database or schema,
    ///   tables of another version, an unusable setting.
    /// - [`Denied`](lockwright_core::ErrorKind::Denied): the server rejects the password, or the
    ///   user may not create or use the tables.
    /// - [`Unsupported`](lockwright_core::ErrorKind::Unsupported): the server is a replica or too
    ///   old, or a pooler is in front of it and the mode needs a direct connection.
    /// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): the server can't be reached.
    pub async fn connect(self) -> Result<Postgres> {
        let kind = self.common.mode.kind();
        // One session is reserved: in the lease mode for a listener, unless a pooler prevents
        // notifications, in the other modes for connections without holds.
        let (pool, look) = self.look(kind.is_some()).await?;
        let is_direct = look.is_direct;
        if !self.common.for_diagnosis {
            look.can_lock(self.backend())?;
            schema::make_sure(&pool).await?;
        }
        if let Some(kind) = kind {
            let sessions = Sessions::new(kind, &pool);
            if !self.common.for_diagnosis {
                session_lock::check(&sessions).await?;
            }
            return Ok(Postgres(Arc::new(Engine::new(sessions, Clock::boot()))));
        }
        let waiters = Arc::new(Subscribers::new(SLOW_POLL));
        let listener = is_direct
            .then(|| -> Box<dyn ReleaseListener> { Box::new(Listener::new(&pool, &waiters)) });
        if !is_direct {
            tracing::info!(
                "a pooler, or the program's own pool, delivers no notifications, so waiters poll, at \
                 least every {POLL:?}"
            );
        }
        let backend = LeaseBackend::new(pool, profile_of(is_direct), waiters, listener, is_direct);
        Ok(Postgres(Arc::new(backend)))
    }

    fn lease_profile(&self) -> Profile {
        profile_of(self.pool.is_none())
    }

    async fn look(&self, listens_by_pooler: bool) -> Result<(Arc<Pool<Postgresql>>, Server)> {
        let (limits, dialect) = (self.common.limits(), Postgresql::new(self));
        if let Some(pool) = &self.pool {
            let sessions = self.common.borrowed_sessions(pool);
            let sessions = sessions.map_err(|error| error.with_backend(self.backend()))?;
            let first = Pool::new(dialect.clone(), limits, sessions.clone());
            let look = Server::look(&first).await?;
            let dialect = dialect.within(look.schema.clone())?;
            return Ok((Arc::new(Pool::new(dialect, limits, sessions)), look));
        }
        let sessions = self.common.sessions(true)?;
        let marked = Arc::new(Pool::new(dialect.clone().marked(), limits, sessions));
        match Server::look(&marked).await {
            Ok(look) => Ok((marked, look)),
            // A pooler may have rejected the mark (see pooler.rs). If not, this retry fails too.
            Err(error) if error.kind() == ErrorKind::InvalidConfig => {
                let sessions = self.common.sessions(listens_by_pooler)?;
                let pool = Arc::new(Pool::new(dialect, limits, sessions));
                let look = Server::look(&pool).await?;
                Ok((pool, look))
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the mode's profile, or `None` for the lease mode.
pub fn session_lock_profile(mode: Mode) -> Option<Profile> {
    mode.kind().map(Postgresql::profile)
}

/// Returns the profile of the lease mode without a pooler.
pub fn profile() -> Profile {
    profile_of(true)
}

fn profile_of(is_direct: bool) -> Profile {
    let (wake_up, slow_poll) =
        if is_direct { (WakeUp::Push, SLOW_POLL) } else { (WakeUp::Poll, POLL) };
    lease::profile(LEASE, wake_up, slow_poll)
}

const LEASE: &str = "postgres-lease";

impl DistributedLock for Postgres {
    lockwright_core::delegate!(|this| this.0);
}
