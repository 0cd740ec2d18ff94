//! The Redlock backend of Lockwright: a quorum over independent Redis servers.
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
