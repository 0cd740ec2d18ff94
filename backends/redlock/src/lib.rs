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
//! Three, five or another odd number of Redis servers that know nothing of each other, and no
//! replicas. A lock is held by whoever more than half of them have it for, with the keys that
//! [`lockwright_redis`] makes on one. So it outlives the loss of a minority, which no single server
//! and no replica of one does.
//!
//! # What is promised
//!
//! - Mutual exclusion as long as each node's clock runs evenly, and no more than a minority loses its
//!   data at a time. It survives clients that crash or are cut off, the loss of a minority for good,
//!   and restarts with or without data: a node that may have forgotten holds doesn't vote for one
//!   [largest TTL](Options::largest_ttl), until all of them are over. The nodes' *certificates*
//!   tell such a node; see [`node`].
//! - Fences that grow for ever, unless a majority loses its counters **and** the clients' clocks step
//!   back. Write them beside what the lock protects: it is the fence that stops a holder that was
//!   paused for longer than its TTL, here as with every lease.
//! - No order among waiters. A release wakes them; they poll too. Votes that are split end by random
//!   pauses.
//!
//! Not promised:
//!
//! - **A clock that jumps.** One node's that is set ahead ends its vote early, and a hold that had a
//!   bare quorum has none then.
//! - **Failover.** A replica that takes a node's place has forgotten the last writes. Replicas are
//!   refused, and a promoted one is a new node.
//! - Read locks, semaphores, hand-over: a semaphore by majority lets in too many, and no single node
//!   can hand over what a quorum holds.
//!
//! A fleet that was just set up grants nothing for one largest TTL, as nobody can tell it from one
//! that lost everything; [`Redlock::admit`] is for whoever can.
//!
//! # The argument about Redlock
//!
//! The algorithm is Salvatore Sanfilippo's: ["Distributed Locks with
//! Redis"](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/). Martin Kleppmann
//! objected in ["How to do distributed
//! locking"](https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html) that it has
//! no fence, so that a paused client writes after the next one, and that it stands on clocks; to which
//! the author replied in ["Is Redlock safe?"](http://antirez.com/news/101). Here it has a fence, by a
//! protocol of its own that is checked as a model (`tests/model`), belief ends ahead of the TTL on a
//! clock that runs on while the machine sleeps, the delayed restart of the original is enforced and
//! not left to operators, and what still stands on clocks is said above and in the profile.
//!
//! # How it works
//!
//! ```text
//! acquire   one round: all nodes at once, each with its own short time-out   round.rs, ballot.rs
//! renew     a quorum that still has it; what lacks it is topped up           renewal.rs
//! release   everywhere; who doesn't answer is owed it                        ending.rs, debts.rs
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `config.rs`, `options.rs` | URLs and settings |
//! | `backend.rs` | the trait |
//! | `node.rs` | what is asked of one node |
//! | `redis_node.rs` | a Redis server as a node |
//! | `fleet.rs` | the nodes, and what their clients share |
//! | `seat.rs`, `seating.rs` | which nodes vote |
//! | `round.rs` | a round, its votes and its fence |
//! | `round/refusal.rs` | what it answers without a quorum |
//! | `ballot.rs` | one node's part in a round |
//! | `tracks.rs` | what is known of tokens under way |
//! | `names.rs` | what is remembered of names |
//! | `renewal.rs` | renewing and topping up |
//! | `ending.rs`, `debts.rs` | releases, and those that are owed |
//! | `wakeup.rs` | what nodes tell unasked |
//! | `operator.rs`, `doctor.rs` | looking, breaking, and what is wrong |
//! | `errors.rs` | errors that keep those of the nodes |
//! | `random.rs` | jitter |
#![forbid(unsafe_code)]

mod backend;
mod ballot;
mod config;
mod debts;
mod doctor;
mod ending;
mod errors;
mod fleet;
mod names;
pub mod node;
mod operator;
mod options;
#[cfg(test)]
mod properties;
mod random;
mod redis_node;
mod renewal;
mod round;
mod seat;
mod seating;
mod tracks;
mod wakeup;

use std::time::Duration;

use lockwright_core::{Fault, Faults, Fencing, Order, Profile, Reach, WakeUp};

pub use backend::Redlock;
pub use config::Config;
pub use errors::{NodeError, NodeErrors};
pub use options::Options;
pub use redis_node::RedisNode;
pub use seating::Standing;

const PROFILE_NAME: &str = "redlock";

/// The shortest TTL that can be asked for.
const SHORTEST_TTL: Duration = Duration::from_millis(100);

/// How often a waiter asks when nothing wakes it.
const SLOW_POLL: Duration = Duration::from_millis(500);

/// What it promises with these options: what was shown by fault tests, and nothing else.
pub fn profile(options: &Options) -> Profile {
    let mut profile = Profile::new(PROFILE_NAME);
    profile.reach = Reach::Network;
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
    profile.ttl = options.shortest_ttl()..=options.largest_ttl.min(Profile::LONGEST_TTL);
    profile.renew_batch = 100;
    profile.slow_poll = SLOW_POLL;
    profile
}
