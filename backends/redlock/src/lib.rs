//! The Redlock backend of Lockwright: a quorum over independent Redis servers.
//!
//! ```no_run
//! # async fn example() -> lockwright_core::Result<()> {
//! use lockwright_redlock::Redlock;
//!
//! let redlock = Redlock::connect("redlock:redis://a,redis://b,redis://c").await?;
//! # drop(redlock);
//! # Ok(())
//! # }
//! ```
//!
//! The backend uses an odd number of servers without replicas. A client holds a lock if more than
//! half of them store its token. The keys are those of [`lockwright_redis`].
//!
//! # Guarantees
//!
//! - Mutual exclusion holds while the nodes' clocks run evenly and at most a minority loses data at
//!   a time. It survives client crashes, partitions, the permanent loss of a minority, and restarts
//!   with or without data. After a possible loss of holds, a node doesn't vote until one [largest
//!   TTL](Options::largest_ttl) has passed: see [`node`].
//! - Fences grow, unless a majority loses its counters **and** the clients' clocks step back. Only
//!   the fence stops a holder that was paused for longer than its TTL.
//! - Waiters are unordered. A release wakes them, and they poll.
//!
//! Not guaranteed:
//!
//! - **Clock jumps.** A node whose clock jumps ahead ends holds early. A hold that only a bare
//!   quorum stores is then lost.
//! - **Failover.** A replica may lack the last writes, so replicas are rejected, and a promoted one
//!   is a new node.
//! - Read locks, semaphores, hand-over: a majority semaphore admits too many holders, and a single
//!   node can't hand over a quorum's hold.
//!
//! New nodes don't vote at first: they could be nodes that lost their data. If all are certainly
//! new, call [`Redlock::admit`].
//!
//! # The algorithm
//!
//! The algorithm is Salvatore Sanfilippo's: ["Distributed Locks with
//! Redis"](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/). Martin
//! Kleppmann [objected](https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html)
//! that it has no fence against paused clients and depends on clocks; the author
//! [replied](http://antirez.com/news/101). This implementation adds model-checked fences
//! (`verification/tests/models`) and enforces the delayed restart, but still depends on clocks.
#![forbid(unsafe_code)]

mod acquire;
mod backend;
mod config;
mod doctor;
mod errors;
mod fleet;
mod membership;
mod names;
mod node_status;
mod node_vote;
mod operator;
mod options;
mod pending_releases;
#[cfg(test)]
mod properties;
mod release;
mod renew;
mod requests;
mod token_states;
mod wakeup;

use std::time::Duration;

use lockwright_core::{Fault, Faults, Fencing, Order, Profile, Scope, WakeUp};

pub use backend::Redlock;
pub use config::Config;
pub use errors::{NodeError, NodeErrors};
pub use lockwright_redis::node;
pub use node_status::NodeStatus;
pub use options::Options;

const PROFILE_NAME: &str = "redlock";

const SHORTEST_TTL: Duration = Duration::from_millis(100);

const SLOW_POLL: Duration = Duration::from_millis(500);

/// Returns the profile of a quorum with these options.
pub fn profile(options: &Options) -> Profile {
    let mut profile = Profile::new(PROFILE_NAME);
    profile.scope = Scope::Network;
    profile.fencing = Fencing::Clocked;
    profile.order = Order::None;
    profile.wake_up = WakeUp::Push;
    profile.survives = Faults::of(&[
        Fault::ClientCrash,
        Fault::Partition,
        Fault::MinorityLoss,
        Fault::ServerRestart,
        Fault::ServerDataLoss,
    ]);
    profile.tombstones = true;
    profile.breakable = true;
    profile.keeps_after_release = true;
    profile.ttl = options.shortest_ttl()..=options.largest_ttl.min(Profile::LONGEST_TTL);
    profile.renew_batch = 100;
    profile.slow_poll = SLOW_POLL;
    profile
}
