use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use lockwright_core::backend_util::{Clients, lock};
use lockwright_core::{
    AcquireOutcome, BootInstant, Claim, Clock, Event, Profile, ReleaseMode, ReleaseOutcome, Result,
    Wait,
};

use crate::store::{Done, Store};

/// A waiter that misses this many slow polls leaves the queue.
const PATIENCE: u32 = 5;

/// A store of locks, which clones share.
#[derive(Clone)]
pub struct Memory(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) profile: Profile,
    pub(crate) clock: Clock,
    store: Mutex<Store>,
    /// An event's receiver may call the store, so no event is sent while the store is locked.
    pub(crate) clients: Clients,
}

impl Memory {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::with_clock(Clock::boot())
    }

    /// Returns this process's store of this name. It exists while a value or a client uses it.
    pub fn named(name: &str) -> Self {
        static STORES: Mutex<BTreeMap<String, Weak<Inner>>> = Mutex::new(BTreeMap::new());
        let mut stores = lock(&STORES);
        if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
            return Self(store);
        }
        stores.retain(|_, store| store.strong_count() > 0);
        let store = Self::new();
        stores.insert(name.to_owned(), Arc::downgrade(&store.0));
        store
    }

    /// Creates an empty store on a test's clock. The store's clients must use the same clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self(Arc::new(Inner {
            profile: crate::profile(),
            clock,
            store: Mutex::default(),
            clients: Clients::default(),
        }))
    }

    /// Returns the number of names in use.
    pub fn len(&self) -> usize {
        self.store().names.len()
    }

    /// Returns whether no name is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.0.store)
    }

    /// Locks the store for one step. Returns the later of `now` and the previous step's instant, so
    /// that time never goes back.
    pub(crate) fn step(&self, now: BootInstant) -> (MutexGuard<'_, Store>, BootInstant) {
        let mut store = self.store();
        store.last_step = store.last_step.max(now);
        let now = store.last_step;
        (store, now)
    }

    pub(crate) fn answer_acquire(
        &self,
        claim: &Claim,
        wait: Wait,
        now: BootInstant,
    ) -> Result<AcquireOutcome> {
        let queue_for: Option<Duration> = match wait {
            Wait::No => None,
            Wait::Until(_) => Some(self.0.profile.slow_poll * PATIENCE),
        };
        let done = {
            let (mut store, now) = self.step(now);
            store.acquire(claim, queue_for, now)?
        };
        Ok(self.wake_after(done, claim))
    }

    pub(crate) fn answer_release(
        &self,
        claim: &Claim,
        release_mode: ReleaseMode,
        now: BootInstant,
    ) -> ReleaseOutcome {
        let done = {
            let (mut store, now) = self.step(now);
            store.release(claim, release_mode, now)
        };
        self.wake_after(done, claim)
    }

    fn wake_after<T>(&self, done: Done<T>, claim: &Claim) -> T {
        if done.wake {
            self.0.clients.send(&Event::Wake(claim.name.clone()));
        }
        if let Some(token) = done.recalled {
            self.0.clients.send(&Event::Recall(token));
        }
        done.answer
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}
