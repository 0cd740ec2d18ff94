//! The etcd backend of Lockwright.
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
//! A lock is a queue of keys that begin with the lock's name, and the key that was created first
//! holds: the layout of Go's `clientv3/concurrency` and of `etcdctl lock`, so that all of them exclude
//! each other. The key's revision is the fence.
//!
//! Readers and those who want permits stand in the same queue, and their keys say what they are. To programs
//! that don't know these they are holders like any others.
//!
//! etcd 3.4 or newer is needed.
//!
//! # Connecting
//!
//! `etcd:` and the members, each with `http://` or `https://` (with the feature `tls`) and port 2379
//! unless it has another: `etcd:http://user:password@a,http://b,http://c?prefix=shop/`. Special
//! characters of a user, a password or a parameter are percent-encoded. One member is enough; with
//! more, the next is asked when one fails.
//!
//! | parameter | says |
//! |---|---|
//! | `prefix` | what all keys begin with; `lockwright/` by default |
//! | `names=raw` | names go into the keys as they are, and their slashes aren't percent-encoded |
//! | `ca` | the file with the certificates of those who may sign a server's, in PEM; else the system's are trusted |
//! | `cert`, `key` | the files with a client's certificate and its key, in PEM |
//!
//! # What is promised
//!
//! - Mutual exclusion as long as the cluster keeps its data: through crashes of clients, partitions,
//!   restarts, clock steps, and the loss of fewer than half of the members.
//! - Through the death of the leader, and through its being cut off. Not through its standing still
//!   for longer than a TTL: when it goes on it may revoke leases that are alive
//!   ([etcd issue 15247](https://github.com/etcd-io/etcd/issues/15247)), and no client can keep it
//!   from that. Where only its disk stood still, 3.4.31, 3.5.13 and newer don't; where all of it did,
//!   as a virtual machine does that is moved, 3.6.16 does too. So the profile doesn't say that
//!   a failover is survived.
//! - Fences that grow for ever, as long as no snapshot is restored without `--bump-revision`.
//! - First come, first served, among all who wait. Who is next is woken.
//!
//! # Map
//!
//! | file | subject |
//! |---|---|
//! | `config.rs` | settings |
//! | `url.rs` | reading URLs |
//! | `tls.rs` | which certificates are trusted, and which is shown |
//! | `runtime.rs` | where all runs that nobody waits for |
//! | `members.rs` | the member that is asked, and going on to the next |
//! | `keys.rs` | which keys a lock has |
//! | `value.rs` | what stands under them |
//! | `backend.rs` | the trait |
//! | `shared.rs` | what its methods and tasks share |
//! | `queue.rs` | reading queues |
//! | `leases.rs` | leases, and for how long they are certainly good |
//! | `attempt.rs` | asking for a lock |
//! | `putting.rs` | … putting its key |
//! | `beside.rs` | the same as a reader, or for permits |
//! | `renewing.rs` | renewing holds |
//! | `releasing.rs` | ending them |
//! | `keeping.rs` | keeping leases alive, and ending what nobody renews |
//! | `guarding.rs` | removing what is on a lease of ours and nobody knows of |
//! | `watching.rs` | waiting: the one watch |
//! | `breaking.rs` | an operator's forced release |
//! | `listing.rs` | listing held names |
//! | `doctor.rs` | what is wrong with a cluster |
//! | `revisions.rs` | which revisions were seen, and whether they went back |
//! | `version.rs` | which versions have a bug |
//! | `fencing.rs` | refusing late writes to an etcd |
//! | `errors.rs` | what the client library's errors mean for a lock |
#![forbid(unsafe_code)]

mod attempt;
mod backend;
mod beside;
mod breaking;
mod config;
mod doctor;
mod errors;
pub mod fencing;
mod guarding;
mod keeping;
mod keys;
mod leases;
mod listing;
mod members;
#[cfg(test)]
mod properties;
mod putting;
mod queue;
mod releasing;
mod renewing;
mod revisions;
mod runtime;
mod shared;
mod tls;
mod url;
mod value;
mod version;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::kit::{Over, Roster};
use lockwright_core::{
    Clock, Error, Fault, Faults, Fencing, Modes, Order, Profile, Reach, Result, WakeUp,
};
use tokio::sync::watch;

pub use config::Config;
pub use etcd_client;

use leases::Pool;
use members::Members;
use revisions::Revisions;
use runtime::Runtime;
use shared::Shared;
use watching::Watching;

/// How often a waiter asks when nothing wakes it.
const SLOW_POLL: Duration = Duration::from_secs(1);

/// Locks on an etcd cluster.
///
/// All clients that share this value share its connection, its leases and its watch. They come back by
/// themselves, and end when the value is dropped. They live on the tokio runtime that it was connected
/// on, wherever it is used: when that one ends, all that is asked fails and says so.
#[derive(Debug)]
pub struct Etcd {
    shared: Arc<Shared>,
    profile: Profile,
    /// Its tasks end when this is dropped.
    _alive: watch::Sender<()>,
}

impl Etcd {
    /// Connects to the cluster that `url` leads to, with the settings of [`Config::new`], and looks at
    /// it.
    ///
    /// # Errors
    /// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the URL is malformed, or a
    ///   certificate isn't trusted, or there is no tokio runtime.
    /// - [`Denied`](lockwright_core::ErrorKind::Denied): the cluster wants a user, or refuses this
    ///   one, or that lacks a permission.
    /// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): no member answers that reaches a
    ///   majority.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn connect(url: &str) -> Result<Self> {
        Config::new(url)?.connect().await
    }
}

impl Config {
    /// Connects, and looks at the cluster.
    ///
    /// # Errors
    /// As [`Etcd::connect`].
    pub async fn connect(self) -> Result<Etcd> {
        let config = self.checked()?;
        let Some(runtime) = Runtime::present() else {
            let message = "there is no tokio runtime; connect from within one";
            return Err(Error::invalid_config(message).with_backend("etcd"));
        };
        let members = Arc::new(Members::new(config, runtime));
        members.link().await.map_err(|no_link| no_link.error)?;
        let clock = Clock::boot();
        let (sender, alive) = watch::channel(());
        let shared = Arc::new(Shared {
            members,
            roster: Roster::new(clock.clone()),
            over: Over::new(clock.clone()),
            clock,
            leases: Pool::default(),
            watching: Watching::default(),
            revisions: Revisions::default(),
            alive,
        });
        keeping::end_what_is_overdue(&shared);
        Ok(Etcd { shared, profile: profile(), _alive: sender })
    }
}

/// What it promises: what was shown by fault tests, and nothing else.
///
/// [`Fault::Failover`] isn't among it, though the death of a leader is survived. One that was frozen
/// for longer than the TTL, and thawed, revoked leases that were alive: 3.6.16 in 2 of 5 tries with
/// this backend, and in 2 of 8 where nothing but `etcdctl` kept the lease alive. It asks a majority whether
/// it is still the leader only if it hasn't ticked for three heartbeats, and after a thaw it ticks at
/// once. Debian's 3.4.23 doesn't ask at all: with the leader's `fdatasync` held up for 10 s (and all
/// else going on) 4 of 4 holds were lost.
pub fn profile() -> Profile {
    let mut profile = Profile::new("etcd");
    profile.modes = Modes { exclusive: true, shared: true, permits: true };
    profile.reach = Reach::Network;
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
    // The least that etcd grants with its default election timeout.
    profile.ttl = Duration::from_secs(2)..=Profile::LONGEST_TTL;
    profile.renew_batch = 500;
    profile.slow_poll = SLOW_POLL;
    profile
}
