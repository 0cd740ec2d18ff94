use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lock;
use crate::{BootInstant, LockName, NameMap};

const CAPACITY: usize = 1024;

/// A bounded map from names to the instants at which they were last [noted](Self::note). It forgets
/// all names when full, so use it only for optimizations.
#[derive(Debug, Default)]
pub struct RecentNames {
    last: Mutex<NameMap<BootInstant>>,
    /// False until the first name is noted, so that lookups needn't lock the mutex.
    is_used: AtomicBool,
}

impl RecentNames {
    /// Notes `name` at `now`.
    pub fn note(&self, name: &LockName, now: BootInstant) {
        self.is_used.store(true, Ordering::Relaxed);
        let mut names = lock(&self.last);
        if let Some(last) = names.get_mut(name) {
            *last = now;
            return;
        }
        if names.len() >= CAPACITY {
            names.clear();
        }
        names.insert(name.clone(), now);
    }

    /// Removes `name`.
    pub fn forget(&self, name: &LockName) {
        if self.is_used.load(Ordering::Relaxed) {
            lock(&self.last).remove(name);
        }
    }

    /// Returns whether `name` was noted after `instant`.
    pub fn was_noted_after(&self, name: &LockName, instant: BootInstant) -> bool {
        if !self.is_used.load(Ordering::Relaxed) {
            return false;
        }
        lock(&self.last).get(name).is_some_and(|last| *last > instant)
    }
}
