//! Locks inside one process: the executable specification of every Lockwright backend.
//!
//! Clones of a [`Memory`] share one store, which is deterministic with a test's
//! [`Clock`](lockwright_core::Clock). A waiting writer blocks new readers, and a waiting claim for
//! many permits blocks later claims for few.
#![forbid(unsafe_code)]

mod backend;
mod memory;
mod row;
mod store;
mod tombstones;

use std::time::Duration;

use lockwright_core::{Fault, Faults, Fencing, Modes, Order, Profile, Scope, WakeUp};

pub use memory::Memory;

/// Returns the backend's properties.
pub fn profile() -> Profile {
    let mut profile = Profile::new("memory");
    profile.modes = Modes { exclusive: true, shared: true, permits: true };
    profile.scope = Scope::Process;
    profile.fencing = Fencing::Strict;
    profile.order = Order::Fifo;
    profile.wake_up = WakeUp::Push;
    profile.survives = Faults::of(&[Fault::ClientCrash, Fault::Partition, Fault::ServerClockStep]);
    profile.tombstones = true;
    profile.breakable = true;
    profile.recalls = true;
    profile.tickets = true;
    profile.keeps_after_release = true;
    profile.ttl = Duration::from_millis(10)..=Profile::LONGEST_TTL;
    profile.renew_batch = 1_000;
    profile.slow_poll = Duration::from_secs(1);
    profile
}
