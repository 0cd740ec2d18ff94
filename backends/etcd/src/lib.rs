//! The etcd backend of Lockwright. It needs etcd 3.4 or newer.
//!
//! ```no_run
//! # async fn example() -> lockwright_core::Result<()> {
//! use lockwright_etcd::Etcd;
//!
//! let etcd = Etcd::connect("etcd:http://a:2379,http://b:2379,http://c:2379").await?;
//! # drop(etcd);
//! # Ok(())
//! # }
//! ```
//!
//! A lock is a queue of keys that begin with the lock's name. The oldest key holds the lock, and
//! its creation revision is the fence. Go's `clientv3/concurrency` and `etcdctl lock` have the same
//! layout, so they and Lockwright exclude each other. For them, Lockwright's readers and permit
//! holders are exclusive.
//!
//! # Connecting
//!
//! A URL is `etcd:` and the members, each with `http://` or `https://` (feature `tls`) and port
//! 2379 by default: `etcd:http://user:password@a,http://b,http://c?prefix=shop/`. Special
//! characters are percent-encoded.
//!
//! - `prefix`: the prefix of all keys; `lockwright/` by default
//! - `names=raw`: slashes in names aren't percent-encoded
//! - `ca`: a PEM file with the CAs to trust; the system's by default
//! - `cert`, `key`: PEM files with a client's certificate and its key
//!
//! # Guarantees
//!
//! - Mutual exclusion as long as the cluster keeps its data: through client crashes, partitions,
//!   restarts, clock steps, the loss of a minority of the members, and the leader's death or
//!   isolation. A leader that is paused for longer than a TTL may break it, by revoking live leases
//!   ([etcd issue 15247](https://github.com/etcd-io/etcd/issues/15247)).
//! - Increasing fences, as long as no snapshot is restored without `--bump-revision`.
//! - First come, first served, among all waiters. A release wakes the next waiter.
#![forbid(unsafe_code)]

mod acquire;
mod acquire_shared;
mod backend;
mod break_lock;
mod config;
mod doctor;
mod errors;
pub mod fencing;
mod inspect;
mod keys;
mod lease_tasks;
mod leases;
mod members;
mod orphans;
#[cfg(test)]
mod properties;
mod put_key;
mod queue;
mod release;
mod renew;
mod reserve_lease;
mod revisions;
mod runtime;
mod shared;
mod tls;
mod url;
mod value;
mod wakeup;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::backend_util::{ClaimRegistry, EndedClaims};
use lockwright_core::{
    Clock, Error, Fault, Faults, Fencing, Modes, Order, Profile, Result, Scope, WakeUp,
};
use tokio::sync::watch;

pub use config::Config;
pub use etcd_client;

use leases::Pool;
use members::Members;
use revisions::Revisions;
use runtime::Runtime;
use shared::Shared;
use watched::{SLOW_POLL, Wakeups};

/// Locks on an etcd cluster.
///
/// This value owns a connection, leases and a watch. Their tasks run on the tokio runtime of the
/// connect call, and stop when the value is dropped. After the runtime's end, all requests fail.
#[derive(Debug)]
pub struct Etcd {
    shared: Arc<Shared>,
    profile: Profile,
    _alive: watch::Sender<()>,
}

impl Etcd {
    /// Connects to the cluster at `url` and checks that it answers.
    ///
    /// # Errors
    /// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the URL is malformed, a
    ///   certificate isn't trusted, or there is no tokio runtime.
    /// - [`Denied`](lockwright_core::ErrorKind::Denied): the URL lacks a required login, the login
    ///   is wrong, or the user lacks a permission.
    /// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): no member that reaches a
    ///   majority answers.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn connect(url: &str) -> Result<Self> {
        Config::new(url)?.connect().await
    }
}

impl Config {
    /// Connects to the cluster and checks that it answers.
    ///
    /// # Errors
    /// The same errors as [`Etcd::connect`].
    pub async fn connect(self) -> Result<Etcd> {
        let config = self.checked()?;
        let Some(runtime) = Runtime::present() else {
            let message = "there is no tokio runtime; connect from within one";
            return Err(Error::invalid_config(message).with_backend("etcd"));
        };
        let members = Arc::new(Members::new(config, runtime));
        members.link().await.map_err(|link_error| link_error.error)?;
        let clock = Clock::boot();
        let (sender, alive) = watch::channel(());
        let shared = Arc::new(Shared {
            members,
            registry: ClaimRegistry::new(clock.clone()),
            ended_claims: EndedClaims::new(clock.clone()),
            clock,
            leases: Pool::default(),
            wakeups: Wakeups::default(),
            revisions: Revisions::default(),
            alive,
        });
        lease_tasks::remove_overdue(&shared);
        Ok(Etcd { shared, profile: profile(), _alive: sender })
    }
}

/// Returns the backend's guarantees: only those that fault tests have shown. [`Fault::Failover`] is
/// missing, because a resumed leader may revoke live leases.
pub fn profile() -> Profile {
    let mut profile = Profile::new("etcd");
    profile.modes = Modes { exclusive: true, shared: true, permits: true };
    profile.scope = Scope::Network;
    profile.fencing = Fencing::Strict;
    profile.order = Order::Fifo;
    profile.wake_up = WakeUp::Push;
    profile.survives = Faults::of(&[
        Fault::ClientCrash,
        Fault::Partition,
        Fault::ServerRestart,
        Fault::MinorityLoss,
        Fault::ServerClockStep,
    ]);
    profile.tombstones = true;
    profile.breakable = true;
    // The shortest TTL that etcd grants with its default election timeout.
    profile.ttl = Duration::from_secs(2)..=Profile::LONGEST_TTL;
    profile.renew_batch = 500;
    profile.slow_poll = SLOW_POLL;
    profile
}
