//! The ZooKeeper backend of Lockwright. It needs ZooKeeper 3.5 or newer.
//!
//! ```no_run
//! # async fn example() -> lockwright_core::Result<()> {
//! use lockwright_zookeeper::ZooKeeper;
//!
//! let zookeeper = ZooKeeper::connect("zookeeper:a:2181,b:2181,c:2181").await?;
//! # drop(zookeeper);
//! # Ok(())
//! # }
//! ```
//!
//! A lock is a queue of ephemeral sequential nodes with the layout of Curator's
//! `InterProcessMutex`. Lockwright and Curator exclude each other, as do Lockwright and kazoo's
//! `Lock` with `extra_lock_patterns=["-lock-"]`. To Curator and kazoo, Lockwright's readers and
//! permit holders are exclusive.
//!
//! # Connecting
//!
//! `zookeeper:[user:password@]host[:port],host[:port],…[/chroot]`, with these parameters:
//!
//! - `prefix`: the parent node of the locks; `/lockwright` by default
//! - `tick`: the servers' `tickTime`, if `minSessionTimeout` is less than two ticks (see
//!   [`Config::tick`])
//!
//! With the feature `tls`, also `zookeeper+tls:`. Such a URL must have each server's port, and
//! takes these PEM files:
//!
//! - `ca`: the CAs to trust; required, as the system's aren't used
//! - `cert`, `key`: a client's certificate and its key
//!
//! The chroot must exist. With a login in the URL, only that login may access the nodes that the
//! client creates.
#![forbid(unsafe_code)]

mod acquire;
mod backend;
mod break_lock;
mod claim_removal;
mod config;
mod doctor;
mod errors;
pub mod fencing;
mod four_letter_words;
mod hold_watch;
mod inspect;
mod lifetime_bound;
mod limits;
mod notes;
mod paths;
#[cfg(test)]
mod properties;
mod queue;
mod reachability;
mod registration;
mod release;
mod renew;
mod session;
mod session_checks;
mod session_events;
mod sessions;
mod shared;
mod shared_fence;
mod timeout_check;
mod tls;
mod url;
mod value;
mod wakeup;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use lockwright_core::backend_util::{ClaimRegistry, EndedClaims, Subscribers};
use lockwright_core::{
    Clock, ErrorKind, Fault, Faults, Fencing, Modes, Order, Profile, Result, Scope, WakeUp,
};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

pub use config::Config;
pub use zookeeper_client;

use errors::{BACKEND, error};
use limits::Limits;
use paths::Paths;
use session_checks::SuspectSessions;
use sessions::Sessions;
use shared::Shared;
use wakeup::{SLOW_POLL, Watches};

/// Locks on a ZooKeeper ensemble. After the value is dropped, unreleased holds end with their TTL.
///
/// The value has one session per TTL, and one for reads, each with its own connection.
#[derive(Debug)]
pub struct ZooKeeper {
    shared: Arc<Shared>,
    profile: Profile,
    housekeeping: AbortHandle,
}

impl ZooKeeper {
    /// Connects to the ensemble at `url`.
    ///
    /// # Errors
    /// - [`InvalidConfig`](ErrorKind::InvalidConfig): the URL is malformed, its chroot doesn't
    ///   exist, or there is no tokio runtime.
    /// - [`Unavailable`](ErrorKind::Unavailable): no server answers, or there is no quorum.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn connect(url: &str) -> Result<Self> {
        Config::new(url)?.connect().await
    }
}

impl Config {
    /// Connects, and finds out which session timeouts the servers grant.
    ///
    /// # Errors
    /// As [`ZooKeeper::connect`].
    pub async fn connect(self) -> Result<ZooKeeper> {
        let config = self.checked()?;
        let runtime = Handle::try_current().map_err(|cause| {
            error(ErrorKind::InvalidConfig, "connecting needs a tokio runtime").with_source(cause)
        })?;
        let clock = Clock::boot();
        let paths = Paths::new(&config.contents.prefix);
        let (limits, granted, long) =
            match limits::try_out(&config, &clock, paths.probe_path()).await {
                Ok((limits, granted, long)) => {
                    if !config.for_diagnosis {
                        inspect::refresh(&long, &config).await?;
                    }
                    (limits, granted, Some(long))
                }
                // The doctor needs a connection despite the error.
                Err(cause) if config.for_diagnosis && cause.kind() == ErrorKind::Unavailable => {
                    (Limits::usual(), Vec::new(), None)
                }
                Err(cause) => return Err(cause),
            };
        let registry = Arc::new(ClaimRegistry::new(clock.clone()));
        let shared = Arc::new(Shared {
            ended_claims: EndedClaims::new(clock.clone()),
            config,
            clock,
            paths,
            limits,
            sessions: Sessions::new(runtime.clone()),
            suspects: SuspectSessions::knowing(&granted),
            registry: Arc::clone(&registry),
            subscribers: Subscribers::new(SLOW_POLL),
            watches: Watches::default(),
            highest_zxid: AtomicU64::new(0),
        });
        if let Some(long) = long {
            shared.sessions.insert(&shared, long).await;
        }
        let idle = shared.config.idle_timeout;
        let housekeeping = Shared::run_housekeeping(Arc::downgrade(&shared), registry, idle);
        let housekeeping = runtime.spawn(housekeeping).abort_handle();
        Ok(ZooKeeper { profile: profile_within(&limits), shared, housekeeping })
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        self.housekeeping.abort();
        self.shared.watches.close();
        // This closes each session once the session has no claim.
        self.shared.sessions.close();
        if self.shared.registry.any(|_, _, _| true) {
            self.shared.sessions.runtime.spawn(Arc::clone(&self.shared).outlive());
        }
    }
}

/// Returns the guarantees on servers with default settings: a tick of 2 s, and sessions of 2 to 20
/// ticks. A connected backend's profile has the actual limits.
///
/// The guarantees require that all members grant the same timeouts, and never less while a lock is
/// held. After each reconnect, the client checks the members in the URL. Behind a common address,
/// it can't distinguish members, so there the operator must ensure equal timeouts.
pub fn profile() -> Profile {
    profile_within(&Limits::usual())
}

fn profile_within(limits: &Limits) -> Profile {
    let mut profile = Profile::new(BACKEND);
    profile.modes = Modes { exclusive: true, shared: true, permits: true };
    profile.scope = Scope::Network;
    profile.fencing = Fencing::Strict;
    // An acquire that may wait saves a request: it creates a node without reading the queue.
    profile.queues_at_once = true;
    profile.order = Order::Fifo;
    profile.wake_up = WakeUp::Push;
    profile.survives = Faults::of(&[
        Fault::ClientCrash,
        Fault::Partition,
        Fault::ServerRestart,
        Fault::Failover,
        Fault::MinorityLoss,
        Fault::ServerClockStep,
    ]);
    profile.tombstones = true;
    profile.breakable = true;
    profile.ttl = limits.shortest_ttl()..=limits.longest.max(limits.shortest_ttl());
    profile.renew_batch = 100;
    profile.slow_poll = SLOW_POLL;
    profile
}
