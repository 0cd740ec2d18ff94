//! Locks on a MySQL or MariaDB server.
//!
//! Tested with MariaDB 10.11 and 11, and with MySQL 8.4 or later.
//!
//! Three [modes](Mode), by the URL's parameter `mode`:
//!
//! | mode | a hold is | for |
//! |---|---|---|
//! | `lease`, the default | a row that runs out by itself | everything; behind a proxy too |
//! | `session` | a `GET_LOCK` of a connection of its own | whoever must exclude `GET_LOCK` in other programs |
//! | `row` | a row locked in a transaction that is kept open | whoever must exclude `SELECT … FOR UPDATE` in other programs |
//!
//! Holds of one mode don't exclude those of another. The mode `row` has readers (`LOCK IN SHARE MODE`), the mode
//! `session` hasn't: `GET_LOCK` can't be shared. Permits are the lease mode's alone.
//!
//! | file | subject |
//! |---|---|
//! | `options` | URL and settings |
//! | `dialect` | what MySQL has of its own: connections, literals, error numbers |
//! | `queries/*.sql` | what goes to the server |
//! | `facts` | what a server says of itself, and whether locks can live on it |
//! | `proxy` | whether a proxy shares out sessions of the server |
//! | `doctor` | what is looked at on a live server |
//! | `tls` | whether anybody on the way can listen |
//! | `held` | the modes `session` and `row` |
//! | [`transaction`] | locks and fences in a transaction of the user's own |
//!
//! # What to know of the lease mode
//!
//! - The server's clock decides when a hold runs out. One that steps ahead ends holds early, and
//!   then two may believe that they hold: the profile doesn't promise [`Fault::ServerClockStep`].
//! - Fences are the larger of the name's last one plus one and the server's clock in microseconds,
//!   so they grow unless data are lost **and** the clock steps back.
//! - A replica that takes over without the last commits may have the same lock free again: no
//!   failover is survived.
//! - Nobody is told of a release, as the server has no way to do so: who waits asks again and again.
//! - Rows of names that aren't locked any more stay, for their fences, until
//!   [`sweep`](lockwright_core::DistributedLock::sweep) clears them away.

mod dialect;
mod doctor;
mod facts;
mod held;
mod options;
mod proxy;
mod tls;
pub mod transaction;

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    Clock, DistributedLock, Fault, Faults, Fencing, Modes, Order, Profile, Reach, Result, WakeUp,
};

pub use crate::server::Mode;
pub use options::Options;
pub use transaction::{InTransaction, check_fence, lock_in_transaction};

use crate::server::held::Engine;
use crate::server::lease::LeaseBackend;
use crate::server::pool::Pool;
use crate::server::schema;
use dialect::MySql;
use facts::Facts;

/// How often a waiter asks.
const POLL: Duration = Duration::from_millis(50);

/// Locks on a MySQL or MariaDB server.
///
/// All clients that share this value share its connections: a few, opened when they are needed.
/// They are closed when the value is dropped.
///
/// ```no_run
/// # async fn example() -> lockwright_core::Result<()> {
/// use lockwright_sql::Mysql;
///
/// let backend = Mysql::connect("mysql://me:secret@db/shop").await?;
/// # drop(backend);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Mysql(Arc<dyn DistributedLock>);

impl Mysql {
    /// Connects to the server that a URL names; [`Options::from_url`] says how such a URL looks.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) when it isn't such a URL;
    /// otherwise as [`Options::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Options::from_url(url)?.connect().await
    }
}

impl Options {
    /// Connects, looks at the server, and makes the tables if they aren't there.
    ///
    /// # Cancel safety
    /// May be dropped at any time; new tables may then stay behind.
    ///
    /// # Errors
    /// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): no such database, tables of
    ///   another version, a setting that can't be used.
    /// - [`Denied`](lockwright_core::ErrorKind::Denied): the server refuses the password, or the
    ///   user may not make the tables or use them.
    /// - [`Unsupported`](lockwright_core::ErrorKind::Unsupported): the server is a replica, or too
    ///   old; or the mode needs a connection of its own, and a proxy stands before it, or it is one
    ///   of several primaries.
    /// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): nobody answers there.
    pub async fn connect(self) -> Result<Mysql> {
        match self.common.mode {
            Mode::Lease => self.lease().await.map(Mysql),
            Mode::Session => self.held(held::Kind::Session).await.map(Mysql),
            Mode::Row => self.held(held::Kind::Row).await.map(Mysql),
        }
    }

    async fn lease(self) -> Result<Arc<dyn DistributedLock>> {
        let sessions = self.common.sessions(self.common.mode != Mode::Lease)?;
        let pool = Arc::new(Pool::new(MySql::new(&self), self.common.limits(), sessions));
        if !self.common.for_diagnosis {
            // A proxy with one session to share out doesn't answer the second connection.
            if matches!(proxy::shares_sessions(&pool).await, Ok(false)) {
                pool.dialect().set_direct();
            }
            Facts::look(&pool).await?.can_lock(self.backend())?;
            schema::make_sure(&pool).await?;
        }
        Ok(Arc::new(LeaseBackend::new(pool, profile(), Arc::default(), None)))
    }

    async fn held(self, kind: held::Kind) -> Result<Arc<dyn DistributedLock>> {
        let sessions = self.common.sessions(self.common.mode != Mode::Lease)?;
        let pool = Arc::new(Pool::new(MySql::new(&self), self.common.limits(), sessions));
        let sessions = held::Sessions::new(kind, Arc::clone(&pool));
        if !self.common.for_diagnosis {
            sessions.check().await?;
            let facts = Facts::look(&pool).await?;
            facts.can_lock(self.backend())?;
            facts.can_hold(self.backend())?;
            schema::make_sure(&pool).await?;
        }
        Ok(Arc::new(Engine::new(sessions, Clock::boot())))
    }
}

/// What the modes `session` and `row` promise; `None` for the lease mode.
pub fn held_profile(mode: Mode) -> Option<Profile> {
    match mode {
        Mode::Lease => None,
        Mode::Session => Some(held::Kind::Session.profile().clone()),
        Mode::Row => Some(held::Kind::Row.profile().clone()),
    }
}

/// What the lease mode promises.
pub fn profile() -> Profile {
    let mut profile = Profile::new(LEASE);
    profile.reach = Reach::Network;
    profile.fencing = Fencing::Clocked;
    profile.order = Order::None;
    profile.modes = Modes { exclusive: true, shared: true, permits: true };
    profile.wake_up = WakeUp::Poll;
    profile.survives = Faults::of(&[Fault::ClientCrash, Fault::Partition, Fault::ServerRestart]);
    profile.tombstones = true;
    profile.breakable = true;
    profile.tickets = true;
    profile.ttl = Duration::from_millis(100)..=Profile::LONGEST_TTL;
    profile.renew_batch = 500;
    profile.slow_poll = POLL;
    profile
}

const LEASE: &str = "mysql-lease";

crate::server::pass_on::pass_on!(Mysql);
