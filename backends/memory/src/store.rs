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
    tidy_at: usize,
}

impl Store {
    /// Removes names whose holds have expired, if the number of names has doubled since last time.
    pub(crate) fn tidy(&mut self, now: BootInstant) {
        if self.names.len() <= self.tidy_at {
            return;
        }
        self.names.retain(|_, row| {
            row.expire(now);
            !row.is_idle()
        });
        self.tidy_at = 2 * self.names.len() + 64;
    }
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
