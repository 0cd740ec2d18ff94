//! Locks inside one process: the executable specification of every Lockwright backend.
//!
//! It is for single-process programs, and for tests of code that uses locks. Clones of a [`Memory`] share one store,
//! like connections to one server. Separate stores are independent. With a [`Clock`](lockwright_core::Clock) that a
//! test moves, it is deterministic.
//!
//! | file | subject |
//! |---|---|
//! | `lib.rs` | the map, and the [profile] |
//! | `memory.rs` | [`Memory`]: the shared store, and notifications |
//! | `backend.rs` | the trait implementation |
//! | `store.rs` | all names, without locking |
//! | `acquire.rs` | acquiring a lock |
//! | `renew.rs` | renewing a hold |
//! | `release.rs` | releasing a claim |
//! | `transfer.rs` | transferring a hold to another token |
//! | `inspect.rs` | inspecting and listing locks |
//! | `break_lock.rs` | an operator's forced release |
//! | `tombstones.rs` | tokens that are never granted again |
//! | `row.rs` | the holds and the queue of one name |
//!
//! Waiting clients queue in order of arrival, and a release wakes them. A waiting writer blocks new readers, and a
//! waiting claim of many permits blocks new ones of few. `doctor` finds nothing, as nothing external can fail.
#![forbid(unsafe_code)]

mod acquire;
mod backend;
mod break_lock;
mod inspect;
mod memory;
mod release;
mod renew;
mod row;
mod store;
mod tombstones;
mod transfer;

use std::time::Duration;

use lockwright_core::{Fault, Faults, Fencing, Modes, Order, Profile, Scope, WakeUp};

pub use memory::Memory;

/// Returns the guarantees. The store survives as long as its process.
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
    profile.tickets = true;
    profile.ttl = Duration::from_millis(10)..=Profile::LONGEST_TTL;
    profile.renew_batch = 1_000;
    profile.slow_poll = Duration::from_secs(1);
    profile
}
