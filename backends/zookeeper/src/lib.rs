//! The ZooKeeper backend of Lockwright.
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
//! A lock is the queue of ephemeral sequential nodes that Curator's `InterProcessMutex` has, so that
//! both exclude each other; kazoo's `Lock` too. An operator sees it with
//! `ls /lockwright/NAME` in ZooKeeper's own client.
//!
//! Readers and those who want permits stand in the same queue, and their nodes say what they are. To programs
//! that don't know these they are holders like any others.
//!
//! ZooKeeper 3.5 or newer is needed: only since then a node's fence comes with the answer that made
//! it, and empty parents go by themselves. Tested with 3.8.0.
//!
//! # Connecting
//!
//! `zookeeper:[user:password@]host[:port],host[:port],…[/chroot]`, with these parameters:
//!
//! | parameter | says |
//! |---|---|
//! | `prefix` | the node below which the locks are, `/lockwright`; with `/` a lock is at the path of its name |
//! | `tick` | the servers' `tickTime`, if `minSessionTimeout` was set to less than two of it: [`Config::tick`] |
//!
//! With the feature `tls` also `zookeeper+tls:` instead of `zookeeper:`. Then each port must be said, and
//! these are for files with PEM:
//!
//! | parameter | says |
//! |---|---|
//! | `ca` | the CAs to trust; must be there, as the system's aren't asked |
//! | `cert`, `key` | a client's certificate and its key, where the servers want one |
//!
//! The chroot must be there. With a login, new nodes are for that login alone.
//!
//! # Map
//!
//! | file | subject |
//! |---|---|
//! | `config.rs` | settings |
//! | `url.rs` | reading URLs |
//! | `tls.rs` | TLS: whom a client trusts, and what it shows |
//! | `limits.rs` | which session timeouts the servers grant |
//! | `backend.rs` | the trait |
//! | `shared.rs` | what its methods and tasks share: who stands where, and housekeeping |
//! | `sessions.rs` | one session for each TTL |
//! | `session.rs` | one session, and proving that it lives |
//! | `proof.rs` | what an answer proves |
//! | `reaching.rs` | why no server gives a session |
//! | `certainty.rs` | whether a session is kept for as long as when it was opened |
//! | `checking.rs` | finding that out, once it has another connection |
//! | `paths.rs` | which nodes a lock has, and who stands in its queue |
//! | `value.rs` | what stands in a node |
//! | `acquiring.rs` | asking for a lock |
//! | `reading.rs` | the fence that readers beside each other share |
//! | `standing.rs` | where a claim stands already, and noting it |
//! | `watching.rs` | waiting: the watch on the one ahead |
//! | `renewing.rs` | renewing several holds |
//! | `ending.rs` | releasing, and settling |
//! | `listing.rs` | who holds what |
//! | `breaking.rs` | an operator's break |
//! | `notes.rs` | notes on broken holds |
//! | `doctor.rs` | what is wrong with an ensemble |
//! | `four_letters.rs` | what a server says of itself |
//! | `seen.rs` | the latest transaction that a client saw |
//! | `fencing.rs` | refusing late writes to a ZooKeeper |
//! | `errors.rs` | what the client library's errors mean for a lock |
#![forbid(unsafe_code)]

mod acquiring;
mod backend;
mod breaking;
mod certainty;
mod checking;
mod config;
mod doctor;
mod ending;
mod errors;
pub mod fencing;
mod four_letters;
mod limits;
mod listing;
mod notes;
mod paths;
mod proof;
#[cfg(test)]
mod properties;
mod reaching;
mod reading;
mod renewing;
mod seen;
mod session;
mod sessions;
mod shared;
mod standing;
mod tls;
mod url;
mod value;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::kit::{Audience, Over, Roster};
use lockwright_core::{
    Clock, ErrorKind, Fault, Faults, Fencing, Modes, Order, Profile, Reach, Result, WakeUp,
};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

pub use config::Config;
pub use zookeeper_client;

use checking::Doubts;
use errors::{BACKEND, error};
use limits::Limits;
use paths::Paths;
use seen::Seen;
use sessions::Sessions;
use shared::Shared;
use watching::Watches;

/// How often a waiter asks when nothing wakes it.
const SLOW_POLL: Duration = Duration::from_millis(1_000);

/// Locks on a ZooKeeper ensemble.
///
/// All clients that share this value share its sessions: one for each TTL in use, and one for looking.
/// Each has a connection of its own, which comes back by itself. When the value is dropped, each is
/// closed as soon as nothing is held in it: what wasn't released ends at the end of its TTL.
#[derive(Debug)]
pub struct ZooKeeper {
    shared: Arc<Shared>,
    profile: Profile,
    housekeeping: AbortHandle,
}

impl ZooKeeper {
    /// Connects to what `url` leads to, with the settings of [`Config::new`].
    ///
    /// # Errors
    /// - [`InvalidConfig`](ErrorKind::InvalidConfig): the URL is malformed, its chroot is not there,
    ///   or there is no tokio runtime.
    /// - [`Unavailable`](ErrorKind::Unavailable): nobody answers there, or there is no quorum.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn connect(url: &str) -> Result<Self> {
        Config::new(url)?.connect().await
    }
}

impl Config {
    /// Connects, and tries out what sessions the servers grant.
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
        let (limits, granted, long) = match limits::try_out(&config, &clock, paths.nobody()).await {
            Ok((limits, granted, long)) => {
                if !config.for_diagnosis {
                    listing::refresh(&long, &config).await?;
                }
                (limits, granted, Some(long))
            }
            // It is to be said why.
            Err(cause) if config.for_diagnosis && cause.kind() == ErrorKind::Unavailable => {
                (Limits::usual(), Vec::new(), None)
            }
            Err(cause) => return Err(cause),
        };
        let roster = Arc::new(Roster::new(clock.clone()));
        let shared = Arc::new(Shared {
            over: Over::new(clock.clone()),
            config,
            clock,
            paths,
            limits,
            sessions: Sessions::new(runtime.clone()),
            doubts: Doubts::knowing(&granted),
            roster: Arc::clone(&roster),
            audience: Audience::new(SLOW_POLL),
            watches: Watches::default(),
            seen: Seen::default(),
        });
        if let Some(long) = long {
            shared.sessions.take_in(&shared, long).await;
        }
        let idle = shared.config.idle_timeout;
        let housekeeping = Shared::keep_house(Arc::downgrade(&shared), roster, idle);
        let housekeeping = runtime.spawn(housekeeping).abort_handle();
        Ok(ZooKeeper { profile: profile_within(&limits), shared, housekeeping })
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        self.housekeeping.abort();
        self.shared.watches.close();
        // From here on a session is closed when nobody has a place in it.
        self.shared.sessions.close();
        if self.shared.roster.any(|_, _, _| true) {
            self.shared.sessions.runtime.spawn(Arc::clone(&self.shared).outlive());
        }
    }
}

/// What it promises on servers that were set up as they come: a tick of 2 s, and sessions of 2 to 20
/// ticks. What others grant, the backend's own profile says.
///
/// It holds if all members grant the same, and none grants less while somebody holds a lock. Members that
/// the URL names are tried after each new connection. Those behind one address for several can't be told
/// apart: there it is the operator's to see to it.
pub fn profile() -> Profile {
    profile_within(&Limits::usual())
}

/// What was shown by fault tests, and nothing else.
fn profile_within(limits: &Limits) -> Profile {
    let mut profile = Profile::new(BACKEND);
    profile.modes = Modes { exclusive: true, shared: true, permits: true };
    profile.reach = Reach::Network;
    profile.fencing = Fencing::Strict;
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
