//! What the tests share.

use std::time::Duration;

use lockwright_core::{Clock, Locks};
use lockwright_memory::Memory;

pub(crate) const TTL: Duration = Duration::from_secs(10);

/// A client on a store of its own, on tokio's paused clock.
pub(crate) fn client() -> (Locks, Memory, Clock) {
    let clock = Clock::tokio();
    let memory = Memory::with_clock(clock.clone());
    (another_client(&memory, &clock), memory, clock)
}

/// Another client on the same store.
pub(crate) fn another_client(memory: &Memory, clock: &Clock) -> Locks {
    Locks::builder(memory.clone()).ttl(TTL).clock(clock.clone()).build().unwrap()
}
