//! When each name was last noted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::clock::BootInstant;
use crate::name::{LockName, NameMap};

/// One more clears the map.
const MOST: usize = 1024;

/// The instants at which names were last noted. It may forget them, so it only chooses between two ways that are both
/// right.
#[derive(Debug, Default)]
pub struct RecentNames {
    last: Mutex<NameMap<BootInstant>>,
    /// Until a name is noted, a lookup doesn't lock the mutex.
    any: AtomicBool,
}

impl RecentNames {
    /// Notes `name` at `now`.
    pub fn note(&self, name: &LockName, now: BootInstant) {
        self.any.store(true, Ordering::Relaxed);
        let mut names = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = names.get_mut(name) {
            *last = now;
            return;
        }
        if names.len() >= MOST {
            names.clear();
        }
        names.insert(name.clone(), now);
    }

    /// Returns whether `name` was noted after `instant`.
    pub fn was_noted_after(&self, name: &LockName, instant: BootInstant) -> bool {
        self.any.load(Ordering::Relaxed)
            && self
                .last
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(name)
                .is_some_and(|last| *last > instant)
    }
}
