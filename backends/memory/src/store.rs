//! All holds, queues and tombstones. Every method is one atomic step at the caller's instant.

use lockwright_core::{BootInstant, Error, Fence, NameMap, Result};

use crate::row::Row;
use crate::tombstones::Tombstones;

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) names: NameMap<Row>,
    /// The last fence granted for any name. A counter per name would have to outlive the name's
    /// holds.
    pub(crate) last_fence: u64,
    pub(crate) tombstones: Tombstones,
    pub(crate) last_step: BootInstant,
}

pub(crate) struct Done<T> {
    pub(crate) answer: T,
    pub(crate) wake: bool,
}

pub(crate) fn next_fence(last: &mut u64, count: u32) -> Result<u64> {
    let reserved = *last + u64::from(count);
    if reserved > Fence::MAX.get() {
        return Err(Error::unavailable("all fences are used up; create a new store"));
    }
    Ok(std::mem::replace(last, reserved) + 1)
}
