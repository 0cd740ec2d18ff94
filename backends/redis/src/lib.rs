//! The Redis backend of Lockwright, for one server, a master behind Sentinels, or a Cluster.
//!
//! ```no_run
//! # async fn example() -> lockwright_core::Result<()> {
//! use lockwright_redis::Redis;
//!
//! let redis = Redis::connect("redis://127.0.0.1/").await?;
//! # drop(redis);
//! # Ok(())
//! # }
//! ```
//!
//! A lock is a string key with exactly the lock's name. It holds a token and expires. Other clients that lock
//! with `SET NX PX` (redis-py, redsync, redlock-js) use the same layout, so all of them exclude each other.
//! Fences and descriptions of holders are in companion keys, which those clients ignore. `HGETALL
//! lockwright:{name}:hold` shows a hold.
//!
//! Requires Redis 6.0 or Valkey: wake-ups arrive over RESP3, on the connection for requests.
//!
//! # Connecting
//!
//! | URL | connects to |
//! |---|---|
//! | `redis://[user][:password]@host[:port][/database]` | one server |
//! | `redis+unix:///path/to/socket[?db=0]` | one server |
//! | `redis+sentinel://[user][:password]@host[:port],host[:port],…/MASTER[/database]` | the master of that name; the hosts are Sentinels (port 26379), the login is for the servers |
//! | `redis+cluster://[user][:password]@host[:port],host[:port],…` | a Cluster, through any of these nodes |
//!
//! `rediss:`, `rediss+sentinel:` and `rediss+cluster:` use TLS, with the feature `tls`. Each scheme may also
//! begin with `valkey`: `valkey:`, `valkeys:`, `valkey+unix:`, and so on.
//!
//! | parameter | meaning |
//! |---|---|
//! | `prefix` | prefix of each lock's key |
//! | `sentinel_user`, `sentinel_password` | the login for the Sentinels |
//! | `ca` | a PEM file of trusted certificate authorities; default: the system's |
//! | `cert`, `key` | PEM files with the client's certificate and key |
//! | `replicas`, `replica_timeout` | how many replicas must acknowledge a grant, and within what time (100 ms): [`Config::replicas`] |
//!
//! The server's certificate and host name are always checked.
//!
//! # Guarantees
//!
//! - Mutual exclusion holds as long as the server keeps its data and its clock doesn't jump ahead. It
//!   survives
//!   clients that crash or are cut off.
//! - It survives a restart only if the server persists every write: `appendonly yes` with `appendfsync
//!   always`,
//!   checked when connecting. On loading its log, Redis drops writes that the *default* user may not make. If that
//!   user is off, it needs `user default off ~* &* +@all`. These settings must be in the configuration file. Settings
//!   made only by `CONFIG SET` are lost in the restart, and the locks with them; no client can detect this.
//! - Fences grow, unless the data are lost **and** the server's clock steps back. Over a failover they grow
//!   unless
//!   the new master's clock is behind the old one's by more than the duration of the failover.
//! - Waiters of all clients are served in order of arrival. A failover, or the move of a slot to a server
//!   whose
//!   clock is far ahead, may lose the queue; the waiters then queue again.
//! - No failover is survived: a replica takes over without the last writes, so a held lock may be free.
//!   `doctor`
//!   reports settings that make this worse.
//!
//! # Sentinel
//!
//! The client asks all Sentinels at once and accepts the latest election that a majority reports. It also
//! subscribes to them and leaves a replaced master, even if that master still answers after a freeze or a
//! partition. A lock granted just before a failover may be free on the new master. The holder's next renewal
//! then reports the loss, and the next fence is larger, unless the new master's clock lags as above. With
//! `replicas=1`, a grant that no replica acknowledged is given back. A lock can still be lost if a different
//! replica takes over. It is not consensus.
//!
//! # Cluster
//!
//! All keys of a lock share one slot, whatever braces its name contains. A dead or frozen node blocks only
//! its own slots, until a replica takes over. Replication is asynchronous, so a failover can lose a lock.
//! Then two clients consider themselves holders, and only the fence distinguishes them; it grows as with
//! Sentinel. While a slot moves, its exclusive holds are renewed and released, and nothing is granted in it.
//! Shared holds and permits are renewed if all their keys are on one node, and released after the move. A
//! Cluster of Redis 6 is untested.
//!
//! # Permissions
//!
//! A dedicated user needs the keys of the locks, the keys under `lockwright:*`, and these commands:
//!
//! ```text
//! ACL SETUSER locks on >PASSWORD ~orders/* ~lockwright:* resetchannels &lockwright:* -@all
//!     +hello +subscribe +publish +eval +evalsha +info +config|get +time +scan
//!     +get +mget +set +del +exists +type +pttl +pexpire +hget +hset +hmget +hdel +hexists
//!     +zadd +zrem +zrange +zrangebyscore +zrank +zscore
//!     +client|tracking +client|caching
//! ```
//!
//! - `+select`: if the URL names a database other than 0.
//! - `+role`: with Sentinel.
//! - `+wait`: with `replicas`.
//! - `+acl|dryrun`: to survive a restart (not needed by the default user).
//! - `+cluster|slots +asking`: in a Cluster. `+cluster|info +cluster|nodes` serve `doctor`, and listings that
//!   are
//!   complete after one pass.
//!
//! The last line of the rule is optional: without it, changes by other clients are noticed later. `+hello` is
//! needed up to Redis 6.2. Redis 6.0 has no channel rules; omit `resetchannels &lockwright:*` there.
//! Sentinels with their own users need `+sentinel|master +subscribe resetchannels &+switch-master`.
//!
//! # Map
//!
//! | file | subject |
//! |---|---|
//! | `config.rs` | settings |
//! | `url.rs` | URL parsing |
//! | `topology.rs` | server addresses |
//! | `tls.rs` | trusted certificates and client certificates |
//! | `servers.rs` | one server, or the nodes of a Cluster |
//! | `cluster/` | routing of requests to nodes |
//! | `sentinel/` | discovery of the master, and of failovers |
//! | `connection/` | connection and reconnection |
//! | `failure.rs` | why there is no connection |
//! | `replicas.rs` | waiting for replicas |
//! | `backend.rs` | the trait |
//! | `keys.rs` | keys of a lock, and their hash slot |
//! | `scripts/*.lua`, `scripts.rs` | Lua scripts that run on the server |
//! | `asking.rs` | acquire |
//! | `renewing.rs` | renewal of several holds |
//! | `answer.rs` | parsing of the scripts' replies |
//! | `node.rs` | one server of a quorum |
//! | `wakeup.rs` | wake-ups: the subscription |
//! | `offers.rs` | handing a lock to the first waiter |
//! | `tracking.rs` | notification of changes by other clients |
//! | `listing.rs` | listing of held names |
//! | `doctor.rs` | diagnosis of a server |
//! | `replay.rs` | whether a log replays the scripts' writes |
//! | `fencing.rs` | rejection of late writes to a Redis |
//! | `errors.rs` | mapping of the client library's errors |
#![forbid(unsafe_code)]

mod answer;
mod asking;
mod backend;
mod cluster;
mod config;
mod connection;
mod doctor;
mod errors;
mod failure;
pub mod fencing;
mod keys;
mod listing;
pub mod node;
mod offers;
#[cfg(test)]
mod properties;
mod renewing;
mod replay;
mod replicas;
mod scripts;
mod sentinel;
mod servers;
mod tls;
mod topology;
mod tracking;
mod url;
mod wakeup;

use std::time::Duration;

use lockwright_core::{Fault, Faults, Fencing, Modes, Order, Profile, Reach, Result, WakeUp};

pub use config::Config;
pub use redis;

use replicas::GivenUp;
use servers::Servers;
use topology::Topology;

/// How often a waiter polls without a wake-up. It is queued and is offered the lock, so this can be rare.
const SLOW_POLL: Duration = Duration::from_secs(10);

/// How long a waiter stays queued without sending a request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lifetime of an offer; the scripts use the same value.
const OFFER: Duration = Duration::from_secs(2);

/// How often a waiter polls a lock held by a foreign client, which sends no wake-up, if tracking isn't
/// available.
const FOREIGN_POLL: Duration = Duration::from_millis(100);

/// Locks on one Redis server, on the master that Sentinels name, or in a Cluster.
///
/// All clients that share this value share its connections: one to each server in use, another for requests
/// that wait for replicas, and one to each Sentinel for failovers. They reconnect by themselves, and close
/// when the value is dropped.
#[derive(Debug)]
pub struct Redis {
    servers: Servers,
    profile: Profile,
    given_up: GivenUp,
}

impl Redis {
    fn new(servers: Servers, profile: Profile) -> Self {
        Self { servers, profile, given_up: GivenUp::default() }
    }

    /// Connects to the server at `url` with the settings of [`Config::new`], and checks it.
    ///
    /// # Errors
    /// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the URL is malformed, the server isn't
    ///   a Redis of
    ///   the kind that the URL names, its certificate isn't trusted, the database doesn't exist, the Sentinels don't have
    ///   that master, or there is no tokio runtime.
    /// - [`Denied`](lockwright_core::ErrorKind::Denied): the server requires a password or a certificate or
    ///   rejects this
    ///   one, or the user lacks a permission.
    /// - [`Unsupported`](lockwright_core::ErrorKind::Unsupported): the server is a replica, or too old.
    /// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): no server answers, or it is still loading
    ///   its data.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn connect(url: &str) -> Result<Self> {
        Config::new(url)?.connect().await
    }
}

impl Config {
    /// Connects, and checks the server.
    ///
    /// # Errors
    /// As [`Redis::connect`].
    pub async fn connect(self) -> Result<Redis> {
        let config = self.checked()?;
        let backend = config.topology.backend();
        self::connect(config).await.map_err(|error| error.with_backend(backend))
    }
}

async fn connect(config: Config) -> Result<Redis> {
    let (topology, for_diagnosis) = (config.topology.clone(), config.for_diagnosis);
    let servers = Servers::connect(config).await?;
    tracking::start(&servers);
    let Servers::One(link) = &servers else {
        return Ok(Redis::new(servers, cluster_profile()));
    };
    let server = doctor::Server::look(link).await?;
    if !for_diagnosis {
        server.can_lock()?;
    }
    // A master that restarts may become a replica of a server that lacks the last writes.
    let keeps = matches!(topology, Topology::One(_)) && server.keeps_every_write();
    Ok(Redis::new(servers, profile_of(topology.backend(), keeps)))
}

/// Returns the guarantees on a server that persists every acknowledged write. On any other,
/// [`Fault::ServerRestart`] isn't survived, as the backend's own profile reports.
pub fn profile() -> Profile {
    profile_of("redis", true)
}

/// Returns the guarantees with Sentinel.
pub fn sentinel_profile() -> Profile {
    profile_of("redis-sentinel", false)
}

/// Returns the guarantees on a Cluster.
pub fn cluster_profile() -> Profile {
    profile_of("redis-cluster", false)
}

/// Lists only guarantees that fault tests have shown.
fn profile_of(backend: &'static str, keeps_every_write: bool) -> Profile {
    let mut profile = Profile::new(backend);
    profile.reach = Reach::Network;
    profile.fencing = Fencing::Clocked;
    profile.modes = Modes { exclusive: true, shared: true, permits: true };
    profile.order = Order::Fifo;
    profile.wake_up = WakeUp::Push;
    profile.survives = if keeps_every_write {
        Faults::of(&[Fault::ClientCrash, Fault::Partition, Fault::ServerRestart])
    } else {
        Faults::of(&[Fault::ClientCrash, Fault::Partition])
    };
    profile.tombstones = true;
    profile.breakable = true;
    profile.tickets = true;
    profile.ttl = Duration::from_millis(100)..=Profile::LONGEST_TTL;
    profile.renew_batch = 100;
    profile.slow_poll = SLOW_POLL;
    profile
}
