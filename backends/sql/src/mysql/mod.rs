//! Locks on a MySQL or MariaDB server.
//!
//! Tested with MariaDB 10.11 and 11, and with MySQL 8.4 or later.
//!
//! The URL's parameter `mode` selects the [mode](Mode):
//!
//! | mode | a hold is | for |
//! |---|---|---|
//! | `lease`, the default | a row that expires by itself | everything; behind a proxy too |
//! | `session` | a `GET_LOCK` | exclusion of programs with `GET_LOCK` |
//! | `row` | a locked row in an open transaction | exclusion of programs with `SELECT … FOR UPDATE` |
//!
//! Holds of different modes don't exclude each other. `lease` and `row` support readers, but only
//! `lease` supports permits. [`Mode::Lease`] lists its limits. In this mode, waiters poll: the
//! server has no notifications.

mod borrowed;
mod config;
mod dialect;
mod doctor;
mod facts;
mod proxy;
mod session_lock;
pub mod transaction;

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Clock, DistributedLock, Error, Profile, Result, WakeUp};

pub use crate::server::Mode;
pub use config::Config;
pub use transaction::{InTransaction, check_fence, lock_in_transaction};

use crate::server::lease::LeaseBackend;
use crate::server::session_lock::{Engine, Server as _, Sessions};
use crate::server::{Dialect as _, Pool, lease, schema};
use dialect::MySql;
use facts::Facts;

const POLL: Duration = Duration::from_millis(50);

/// Locks on a MySQL or MariaDB server.
///
/// All clients of one `Mysql` share a few connections, which close when the `Mysql` is dropped.
#[derive(Debug)]
pub struct Mysql(Arc<dyn DistributedLock>);

impl Mysql {
    /// Connects by a URL, such as `mysql://me:secret@db/shop`. The errors are those of
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
    /// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): no such database, tables of
    ///   another version, an unusable setting.
    /// - [`Denied`](lockwright_core::ErrorKind::Denied): the server rejects the password, or the
    ///   user may not create or use the tables.
    /// - [`Unsupported`](lockwright_core::ErrorKind::Unsupported): the server is a replica or too
    ///   old. For the modes `session` and `row`: a proxy shares sessions, or the cluster has
    ///   several primaries.
    /// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): the server can't be reached.
    pub async fn connect(self) -> Result<Mysql> {
        let kind = self.common.mode.kind();
        let pool = Arc::new(self.pool(kind.is_some())?);
        let Some(kind) = kind else {
            if !self.common.for_diagnosis {
                // The probe needs connections of its own.
                let borrows = pool.dialect().borrows();
                if !borrows && proxy::shares_sessions(&pool).await? == Some(false) {
                    pool.dialect().set_direct();
                }
                Facts::look(&pool).await?.can_lock(self.backend())?;
                schema::make_sure(&pool).await?;
            }
            let is_direct = pool.dialect().is_direct();
            let backend = LeaseBackend::new(pool, profile(), Arc::default(), None, is_direct);
            return Ok(Mysql(Arc::new(backend)));
        };
        let sessions = Sessions::new(kind, &pool);
        if !self.common.for_diagnosis {
            session_lock::check(&sessions).await?;
            let facts = Facts::look(&pool).await?;
            facts.can_lock(self.backend())?;
            facts.can_hold(self.backend())?;
            schema::make_sure(&pool).await?;
        }
        Ok(Mysql(Arc::new(Engine::new(sessions, Clock::boot()))))
    }

    fn lease_profile(&self) -> Profile {
        profile()
    }

    fn pool(&self, listens: bool) -> Result<Pool<MySql>> {
        let (dialect, limits) = (MySql::new(self), self.common.limits());
        let Some(pool) = &self.pool else {
            return Ok(Pool::new(dialect, limits, self.common.sessions(listens)?));
        };
        let sessions = self.common.borrowed_sessions(pool);
        let sessions = sessions.map_err(|error| error.with_backend(self.backend()))?;
        let server = pool.connect_options();
        let database = server.get_database().ok_or_else(|| {
            let what = "the pool's options have no database; set one";
            Error::invalid_config(what).with_backend(self.backend())
        })?;
        Ok(Pool::new(dialect.with_default_database(database)?, limits, sessions))
    }
}

/// Returns the mode's profile, or `None` for the lease mode.
pub fn session_lock_profile(mode: Mode) -> Option<Profile> {
    mode.kind().map(MySql::profile)
}

/// Returns the profile of the lease mode.
pub fn profile() -> Profile {
    lease::profile(LEASE, WakeUp::Poll, POLL)
}

const LEASE: &str = "mysql-lease";

impl DistributedLock for Mysql {
    lockwright_core::delegate!(|this| this.0);
}
