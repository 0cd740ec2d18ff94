//! The Redis backend of Lockwright: one server, a master that Sentinels name, or a Cluster.
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
//! A lock is a string key of exactly the lock's name that holds a token and expires: the layout of
//! redis-py, redsync, redlock-js and whoever else locks with `SET NX PX`, so that all of them
//! exclude each other. What Lockwright needs beyond that (fences, who holds) stands in companion
//! keys that the others never look at. An operator sees a hold with
//! `HGETALL lockwright:{name}:hold`.
//!
//! Redis 6.0 or later is needed, or Valkey: wake-ups arrive over RESP3, on the connection for requests.
//!
//! # Connecting
//!
//! | URL | leads to |
//! |---|---|
//! | `redis://[user][:password]@host[:port][/database]` | one server |
//! | `redis+unix:///path/to/socket[?db=0]` | one server |
//! | `redis+sentinel://[user][:password]@host[:port],host[:port],…/MASTER[/database]` | the master of that name; the hosts are Sentinels (port 26379), the login is the servers' |
//! | `redis+cluster://[user][:password]@host[:port],host[:port],…` | a Cluster, by some of its nodes |
//!
//! `rediss:`, `rediss+sentinel:` and `rediss+cluster:` use TLS, with the feature `tls`. Each scheme
//! may begin with `valkey` instead of `redis`: `valkey:`, `valkeys:`, `valkey+unix:`, and so on.
//!
//! | parameter | says |
//! |---|---|
//! | `prefix` | what stands before each lock's name in its key |
//! | `sentinel_user`, `sentinel_password` | the login of the Sentinels themselves |
//! | `ca` | the file with the certificates of those who may sign a server's, in PEM; else the system's are trusted |
//! | `cert`, `key` | the files with a client's certificate and its key, in PEM |
//! | `replicas`, `replica_timeout` | how many replicas must have a grant before it counts, and within what time (100 ms): [`Config::replicas`] |
//!
//! A server's certificate is always checked, and its host.
//!
//! # What is promised
//!
//! - Mutual exclusion as long as the server keeps its data and its clock doesn't jump ahead. It
//!   survives clients that crash or are cut off, and a restart of the server only if that persists
//!   every write (`appendonly yes` with `appendfsync always`, looked up when connecting) and loads
//!   its log with enough rights: Redis drops from it what the *default* user may not write, so one
//!   that is switched off needs `user default off ~* &* +@all`. All of this must stand in the
//!   server's configuration file: what was only set by `CONFIG SET` is gone at the restart, and the
//!   locks with it, and no client can see that.
//! - Fences that grow for ever, unless the data are lost **and** the server's clock steps back. Over a
//!   failover they grow as long as the new master's clock isn't behind the old one's by more than
//!   the failover took.
//! - Waiters of all clients are served in the order in which they came. A failover may lose the queue;
//!   then they queue again. So may the move of a slot to a server whose clock is far ahead.
//! - A replica takes over without the last writes, and so with the same lock free again: no
//!   failover is survived. `doctor` looks for what makes that worse.
//!
//! # Sentinel
//!
//! All Sentinels are asked at once, and what the latest election among a majority says counts. The
//! client listens to them too: it leaves a master that was replaced, also one that goes on answering
//! because it was frozen or cut off. It comes back by itself once there is a new one. A lock that was
//! granted just before a failover may be free on the new master; its holder is told by its next
//! renewal, and the next fence is larger, unless the new master's clock is behind the old one's by
//! more than the failover took. With `replicas=1` a grant that no replica acknowledged is
//! given back, which narrows that to a replica that acknowledged and isn't the one that takes over.
//! It is not consensus.
//!
//! # A Cluster
//!
//! All keys of a lock are in one slot, whatever braces its name has, and each request goes to the
//! node that serves it. A node that is dead or frozen holds up what hashes to its slots, and nothing
//! else; once a replica has taken over, the client goes on by itself. But replication is
//! asynchronous, so a failover can lose a lock: then two believe that they hold it, and only the
//! fence tells them apart, which grows as far as with Sentinel. While a slot is being moved its exclusive
//! holds are renewed and released, and nothing of it is granted. Readers and permits are renewed as long as
//! their keys are all on one node, and released when the move is done. A Cluster of Redis 6 is untested.
//!
//! # Permissions
//!
//! A user of its own needs the keys of the locks, what is under `lockwright:*`, and these commands:
//!
//! ```text
//! ACL SETUSER locks on >PASSWORD ~orders/* ~lockwright:* resetchannels &lockwright:* -@all
//!     +hello +subscribe +publish +eval +evalsha +info +config|get +time +scan
//!     +get +mget +set +del +exists +type +pttl +pexpire +hget +hset +hmget +hdel +hexists
//!     +zadd +zrem +zrange +zrangebyscore +zrank +zscore
//!     +client|tracking +client|caching
//! ```
//!
//! and `+select` if the URL names another database than 0, `+role` with Sentinel, `+wait` with
//! `replicas`, `+acl|dryrun` if a restart is to be survived (the default user needs none). In a Cluster
//! `+cluster|slots +asking` too, and `+cluster|info +cluster|nodes` for `doctor` and for listings
//! that are sure to be whole after one walk. Without the two of the last line, what others do to our
//! keys is noticed later. `+hello` is needed up to Redis 6.2; Redis 6.0 knows no channels, so
//! leave `resetchannels &lockwright:*` out there. Sentinels with users of their own:
//! `+sentinel|master +subscribe resetchannels &+switch-master`.
//!
//! # Map
//!
//! | file | subject |
//! |---|---|
//! | `config.rs` | settings |
//! | `url.rs` | reading URLs |
//! | `topology.rs` | which servers there are |
//! | `tls.rs` | which certificates are trusted, and which is shown |
//! | `servers.rs` | one server, or the nodes of a Cluster |
//! | `cluster/` | which node a request goes to |
//! | `sentinel/` | which server is the master, and hearing of the next one |
//! | `connection/` | the one connection, and how it comes back |
//! | `failure.rs` | why there is none |
//! | `replicas.rs` | waiting for replicas |
//! | `backend.rs` | the trait |
//! | `keys.rs` | which keys a lock has, and their hash slot |
//! | `scripts/*.lua`, `scripts.rs` | what runs on the server |
//! | `asking.rs` | asking for a lock |
//! | `renewing.rs` | renewing several holds |
//! | `answer.rs` | reading what the scripts answer |
//! | `node.rs` | one of the servers of a quorum |
//! | `wakeup.rs` | waiting: the subscription |
//! | `offers.rs` | handing a lock over to the first who waits |
//! | `tracking.rs` | hearing of what others do to our keys |
//! | `listing.rs` | listing held names |
//! | `doctor.rs` | what is wrong with a server |
//! | `replay.rs` | whether a log gives back what scripts wrote |
//! | `fencing.rs` | refusing late writes to a Redis |
//! | `errors.rs` | what the client library's errors mean for a lock |
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

/// How often a waiter asks when nothing wakes it: seldom, as it stands in a queue and is offered the
/// lock when it is its turn.
const SLOW_POLL: Duration = Duration::from_secs(10);

/// For how long a waiter that isn't heard of is taken to live on.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long an offer lives, as in the scripts.
const OFFER: Duration = Duration::from_secs(2);

/// How often a waiter asks about a holder that isn't one of ours, which tells nobody when it goes,
/// where the server doesn't tell either.
const FOREIGN_POLL: Duration = Duration::from_millis(100);

/// Locks on one Redis server, on the master that Sentinels name, or in a Cluster.
///
/// All clients that share this value share its connections: one to each server in use, another for
/// what waits for replicas, and one to each Sentinel to hear of a failover. They come back by
/// themselves, and close when the value is dropped.
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

    /// Connects to what `url` leads to, with the settings of [`Config::new`], and looks at it.
    ///
    /// # Errors
    /// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the URL is malformed, what
    ///   answers there isn't a Redis, or not the kind that the URL says, or its certificate isn't
    ///   trusted, or it has no such database; the Sentinels know no such master; or there is no tokio
    ///   runtime.
    /// - [`Denied`](lockwright_core::ErrorKind::Denied): it wants a password or a certificate, or
    ///   refuses this one, or the user lacks a permission.
    /// - [`Unsupported`](lockwright_core::ErrorKind::Unsupported): it is a replica, or too old.
    /// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): nobody answers there, or it is
    ///   still loading its data.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn connect(url: &str) -> Result<Self> {
        Config::new(url)?.connect().await
    }
}

impl Config {
    /// Connects, and looks at the server.
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
    // A master that restarts may find itself a replica of another, which lacks the last writes.
    let keeps = matches!(topology, Topology::One(_)) && server.keeps_every_write();
    Ok(Redis::new(servers, profile_of(topology.backend(), keeps)))
}

/// What it promises on a server that keeps every write it acknowledged. On any other,
/// [`Fault::ServerRestart`] isn't survived, and the backend's own profile says so.
pub fn profile() -> Profile {
    profile_of("redis", true)
}

/// What it promises where Sentinels choose the master.
pub fn sentinel_profile() -> Profile {
    profile_of("redis-sentinel", false)
}

/// What it promises on a Cluster.
pub fn cluster_profile() -> Profile {
    profile_of("redis-cluster", false)
}

/// What was shown by fault tests, and nothing else.
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
