//! The highest fence and the number of split votes per lock name.

use std::collections::HashMap;
use std::sync::Mutex;

use lockwright_core::backend_util::lock;
use lockwright_core::{Fence, LockName};

/// Beyond this number, all names are dropped. A candidate fence may then be too low, which costs a
/// second request.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<HashMap<LockName, Memory>>);

#[derive(Debug, Default, Clone, Copy)]
struct Memory {
    highest: u64,
    split_votes: u32,
}

impl Names {
    /// Returns a fence that usually exceeds all nodes' counters, so all reply with it.
    pub(crate) fn candidate(&self, name: &LockName, micros: u64) -> Fence {
        let highest = lock(&self.0).get(name).map_or(0, |memory| memory.highest);
        Fence::new(micros.max(highest.saturating_add(1)))
    }

    pub(crate) fn record_fence(&self, name: &LockName, fence: Fence) {
        self.with(name, |memory| memory.highest = memory.highest.max(fence.get()));
    }

    pub(crate) fn split(&self, name: &LockName) -> u32 {
        self.with(name, |memory| {
            memory.split_votes = memory.split_votes.saturating_add(1);
            memory.split_votes
        })
    }

    pub(crate) fn decided(&self, name: &LockName, fence: Option<Fence>) {
        self.with(name, |memory| {
            memory.highest = memory.highest.max(fence.map_or(0, Fence::get));
            memory.split_votes = 0;
        });
    }

    fn with<T>(&self, name: &LockName, change: impl FnOnce(&mut Memory) -> T) -> T {
        let mut names = lock(&self.0);
        if let Some(memory) = names.get_mut(name) {
            return change(memory);
        }
        if names.len() >= REMEMBERED {
            names.clear();
        }
        change(names.entry(name.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidate_exceeds_recorded_fences() {
        let names = Names::default();
        let name = LockName::new("x").unwrap();
        assert_eq!(names.candidate(&name, 100).get(), 100);
        names.record_fence(&name, Fence::new(200));
        names.record_fence(&name, Fence::new(150));
        assert_eq!(names.candidate(&name, 100).get(), 201);
        assert_eq!(names.candidate(&name, 300).get(), 300);
    }

    #[test]
    fn split_votes_are_counted_until_one_is_decided() {
        let names = Names::default();
        let name = LockName::new("x").unwrap();
        assert_eq!(names.split(&name), 1);
        assert_eq!(names.split(&name), 2);
        names.decided(&name, None);
        assert_eq!(names.split(&name), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let names = Names::default();
        for number in 0..3 * REMEMBERED {
            names.record_fence(&LockName::new(number.to_string()).unwrap(), Fence::new(1));
        }
        assert!(lock(&names.0).len() <= REMEMBERED);
    }
}
