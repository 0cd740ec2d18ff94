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
//! A lock is a string key that expires: the lock's name after an optional prefix. Its value
//! contains the token and identity of an exclusive holder. Clients that use `SET NX PX` on this key
//! (redis-py, redsync, redlock-js) are excluded too. Requires Redis 6.0.6 or Valkey.
//!
//! # Connecting
//!
//! - `redis://[user][:password]@host[:port][/database]` or `redis+unix:///path/to/socket[?db=0]`:
//!   one server
//! - `redis+sentinel://[user][:password]@host[:port],host[:port],…/MASTER[/database]`: the master
//!   of that name. The hosts are Sentinels (default port 26379), the login is for the servers.
//! - `redis+cluster://[user][:password]@host[:port],host[:port],…`: a Cluster, through any of these
//!   nodes
//!
//! `rediss:`, `rediss+sentinel:` and `rediss+cluster:` use TLS, with the feature `tls`, and always
//! check the server's certificate and host name. Each scheme may begin with `valkey` instead of
//! `redis`.
//!
//! Parameters:
//!
//! - `prefix`: starts each lock's key
//! - `sentinel_user`, `sentinel_password`: the login for the Sentinels
//! - `ca`: a PEM file of trusted authorities; default: the system's
//! - `cert`, `key`: the client's PEM files
//! - `replicas`, `replica_timeout` (default 100 ms): see [`Config::replicas`]
//!
//! # Guarantees
//!
//! - Mutual exclusion survives client crashes and partitions, while the server keeps its data and
//!   the server's clock doesn't jump ahead.
//! - Locks survive a restart only if the server persists every write: `appendonly yes` with
//!   `appendfsync always`, checked when connecting. A *default* user that is off needs
//!   `user default off ~* &* +@all`, because Redis loads its log with that user's permissions. Put
//!   all this into the configuration file: a restart loses settings made only by `CONFIG SET`, and
//!   with them the locks, which no client can detect.
//! - Fences grow, unless the data are lost **and** the server's clock steps back. After a failover,
//!   they grow unless the new master's clock is behind the old one's by more than the failover
//!   took. While clients are connected, don't replace a server's data with a copy from the last
//!   second (`SWAPDB`, `REPLICAOF`): fences may repeat.
//! - Waiters are served in order of arrival. A failover, or a slot's move to a server whose clock
//!   is far ahead, may lose the queue. The waiters then queue again.
//! - A failover may lose the last grants, even with `replicas=1`. Two clients may then hold one
//!   lock, and only the fence distinguishes them.
//!
//! # Sentinel
//!
//! A client disconnects from a replaced master, even if the old master still answers. If a failover
//! loses a lock, the holder's next renewal reports the loss.
//!
//! # Cluster
//!
//! A dead or frozen node blocks only its own slots. While a slot moves, nothing is granted, but
//! exclusive holds can be renewed and released. Shared holds and permits can be renewed while all
//! their keys are on one node, and released after the move. Clusters of Redis 6 are untested.
//!
//! # Permissions
//!
//! A dedicated user needs these permissions:
//!
//! ```text
//! ACL SETUSER locks on >PASSWORD ~orders/* ~lockwright:* resetchannels &lockwright:* -@all
//!     +hello +subscribe +publish +eval +evalsha +info +config|get +time +scan
//!     +get +getrange +mget +set +del +exists +type +pttl +pexpire +pexpireat +hget +hmget +hset
//!     +hdel +hexists +zadd +zrem +zrange +zrangebyscore +zscore +rpush +lpop +lpos +lrange +lrem
//!     +client|tracking +client|caching
//! ```
//!
//! `~orders/*` are the locks' keys. Some users need more:
//!
//! - `+incr`: for fewer commands on uncontended locks. Without it, the server regularly logs
//!   denials.
//! - `+select`: for a database other than 0.
//! - `+role`: with Sentinel.
//! - `+wait`: with `replicas`.
//! - `+acl|dryrun`: to check that locks survive a restart (unless the user is `default`).
//! - `+cluster|slots +asking`: in a Cluster; `+cluster|info +cluster|nodes` for `doctor` and
//!   complete listings.
//!
//! Without the rule's last line, the client detects changes by other clients later. `+hello` is
//! needed up to Redis 6.2. Redis 6.0 has no channel rules, so omit `resetchannels &lockwright:*`.
//! The user for the Sentinels needs `+sentinel|master +subscribe resetchannels &+switch-master`.
#![forbid(unsafe_code)]

mod acquire;
mod answer;
mod aof_replay;
mod backend;
mod cluster;
mod config;
mod connection;
mod doctor;
mod errors;
mod failure;
mod fast_path;
pub mod fencing;
mod keys;
mod list;
pub mod node;
mod offers;
#[cfg(test)]
mod properties;
mod renew;
mod replicas;
mod scripts;
mod sentinel;
mod servers;
mod tls;
mod topology;
mod tracking;
mod url;
mod wakeup;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::{
    Fault, Faults, Fencing, Modes, Order, Profile, Result, Scope, Token, WakeUp,
};

pub use config::Config;
pub use redis;

use servers::Servers;
use topology::Topology;

/// A queued waiter's poll interval, long because the server sends offers.
const SLOW_POLL: Duration = Duration::from_secs(10);

/// How long a waiter stays queued without sending a request.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest lifetime of an offer, as in `waiters.lua`.
const OFFER: Duration = Duration::from_secs(2);

/// The poll interval while another library, which sends no wake-up, holds the lock, without client
/// tracking.
const FOREIGN_POLL: Duration = Duration::from_millis(100);

/// Locks on one Redis server, on the master that Sentinels name, or in a Cluster.
///
/// The client has one connection to each server in use, another for requests that wait for
/// replicas, and one to each Sentinel. Dropping the value closes them.
#[derive(Debug)]
pub struct Redis {
    servers: Arc<Servers>,
    profile: Profile,
    /// Tokens of grants with too few acknowledgements, until their release is confirmed.
    given_up: Mutex<HashSet<Token>>,
}

impl Redis {
    fn new(servers: Arc<Servers>, mut profile: Profile) -> Self {
        let config = servers.config();
        profile.answer_limit =
            config.replicas.is_none().then(|| config.connect_timeout + config.response_timeout);
        Self { servers, profile, given_up: Mutex::default() }
    }

    /// Connects to the server at `url` with the settings of [`Config::new`], and checks it.
    ///
    /// # Errors
    /// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the URL is malformed or
    ///   names the wrong kind of server, an unknown database or an unknown master; the certificate
    ///   isn't trusted; or there is no tokio runtime.
    /// - [`Denied`](lockwright_core::ErrorKind::Denied): a password, certificate or permission is
    ///   missing or wrong.
    /// - [`Unsupported`](lockwright_core::ErrorKind::Unsupported): the server is a replica, or too
    ///   old.
    /// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): no server answers, or it is
    ///   still loading its data.
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
    let servers = Arc::new(Servers::connect(config).await?);
    tracking::start(&servers);
    let Servers::One(link) = &*servers else {
        return Ok(Redis::new(servers, cluster_profile()));
    };
    let server = doctor::Server::look(link, &link.live().await?).await?;
    if !for_diagnosis {
        server.can_lock()?;
    }
    // With Sentinel, a restarted master may become a replica of a server without its last writes.
    let keeps = matches!(topology, Topology::One(_)) && server.keeps_every_write();
    Ok(Redis::new(servers, profile_of(topology.backend(), keeps)))
}

/// Returns the profile of a server that persists every write. Other servers' locks don't survive
/// [`Fault::ServerRestart`].
pub fn profile() -> Profile {
    profile_of("redis", true)
}

/// Returns the profile of a master behind Sentinels.
pub fn sentinel_profile() -> Profile {
    profile_of("redis-sentinel", false)
}

/// Returns the profile of a Cluster.
pub fn cluster_profile() -> Profile {
    profile_of("redis-cluster", false)
}

fn profile_of(backend: &'static str, keeps_every_write: bool) -> Profile {
    let mut profile = Profile::new(backend);
    profile.scope = Scope::Network;
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
    profile.recalls = true;
    profile.tickets = true;
    profile.keeps_after_release = true;
    profile.ttl = Duration::from_millis(100)..=Profile::LONGEST_TTL;
    profile.renew_batch = 100;
    profile.slow_poll = SLOW_POLL;
    profile
}
