//! Locks inside one process: the executable specification of every Lockwright backend.
//!
//! Use it where one process is all there is, and in tests of what uses locks. Clones of a
//! [`Memory`] are one store, as if they were connections to one server; two stores know nothing of
//! each other. On a [`Clock`](lockwright_core::Clock) that a test moves it is deterministic.
//!
//! | file | subject |
//! |---|---|
//! | `lib.rs` | the map, and the [profile] |
//! | `backend.rs` | [`Memory`], the trait implementation |
//! | `store.rs` | the names, without any locking of their own |
//! | `tombstones.rs` | the tokens that are never granted again |
//! | `row.rs` | one name: its holds and its queue |
//!
//! Waiting clients queue in the order in which they came, and are woken when a hold is released. A
//! writer that waits stops new readers, and a claim of many permits new ones of few.
//! Nothing can be wrong with it from outside, so its `doctor` finds nothing.
#![forbid(unsafe_code)]

mod backend;
mod row;
mod store;
mod tombstones;

use std::time::Duration;

use lockwright_core::{Fault, Faults, Fencing, Modes, Order, Profile, Reach, WakeUp};

pub use backend::Memory;

/// What it promises. It survives whatever its process survives.
pub fn profile() -> Profile {
    let mut profile = Profile::new("memory");
    profile.modes = Modes { exclusive: true, shared: true, permits: true };
    profile.reach = Reach::Process;
    profile.fencing = Fencing::Strict;
    profile.order = Order::Fifo;
    profile.wake_up = WakeUp::Push;
    profile.survives = Faults::of(&[Fault::ClientCrash, Fault::Partition, Fault::ServerClockStep]);
    profile.tombstones = true;
    profile.breakable = true;
    profile.tickets = true;
    profile.ttl = Duration::from_millis(10)..=Profile::LONGEST_TTL;
    profile.renew_batch = 1_000;
    profile.slow_poll = Duration::from_secs(1);
    profile
}
