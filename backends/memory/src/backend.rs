//! The trait implementation.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, Clock, Cursor, DistributedLock, Event,
    Events, Finding, Inspection, LockName, Page, Profile, Reason, ReleaseMode, ReleaseOutcome,
    Renew, Renewal, Result, Token, Wait, async_trait,
};

use crate::store::Store;

/// After how many slow polls a silent waiter leaves the queue.
const PATIENCE: u32 = 5;

/// A store of locks in this process. Clones share the store.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    profile: Profile,
    clock: Clock,
    store: Mutex<Store>,
    clients: Mutex<Vec<(u64, Events)>>,
    next_client: AtomicU64,
}

impl Memory {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::with_clock(Clock::boot())
    }

    /// Creates an empty store on a test's clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self(Arc::new(Inner {
            profile: crate::profile(),
            clock,
            store: Mutex::default(),
            clients: Mutex::default(),
            next_client: AtomicU64::new(0),
        }))
    }

    /// Returns the number of names in use. Other names are forgotten.
    pub fn len(&self) -> usize {
        self.store().len()
    }

    /// Returns whether no name is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer_acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let queue_for: Option<Duration> = match wait {
            Wait::No => None,
            Wait::Until(_) => Some(self.0.profile.slow_poll * PATIENCE),
        };
        let done = {
            let mut store = self.store();
            // Read under the lock, so that instants are in the order of the steps.
            store.acquire(claim, queue_for, self.0.clock.now())?
        };
        if done.wake {
            self.tell(&[Event::Wake(claim.name.clone())]);
        }
        Ok(done.answer)
    }

    fn answer_release(&self, claim: &Claim, release_mode: ReleaseMode) -> ReleaseOutcome {
        let done = {
            let mut store = self.store();
            store.release(claim, release_mode, self.0.clock.now())
        };
        if done.wake {
            self.tell(&[Event::Wake(claim.name.clone())]);
        }
        done.answer
    }

    /// Sends events to all clients, and drops disconnected ones. Not under the store's lock, as clients may call back.
    fn tell(&self, events: &[Event]) {
        let clients = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut gone = Vec::new();
        for (id, client) in &clients {
            let listens = events.iter().all(|event| client.send(event.clone()));
            gone.extend((!listens).then_some(*id));
        }
        if !gone.is_empty() {
            let mut clients = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner);
            clients.retain(|(id, _)| !gone.contains(id));
        }
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

#[async_trait]
impl DistributedLock for Memory {
    fn profile(&self) -> &Profile {
        &self.0.profile
    }

    fn attach(&self, events: Events) {
        let id = self.0.next_client.fetch_add(1, Ordering::Relaxed);
        self.0.clients.lock().unwrap_or_else(PoisonError::into_inner).push((id, events));
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        self.answer_acquire(claim, wait)
    }

    fn acquire_at_once(&self, claim: &Claim) -> Option<Result<AcquireOutcome>> {
        Some(self.answer_acquire(claim, Wait::No))
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        let mut store = self.store();
        store.swap(from, to, self.0.clock.now())
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let mut store = self.store();
        let now = self.0.clock.now();
        Ok(holds.iter().map(|hold| store.renew(hold, now)).collect())
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        Ok(self.answer_release(claim, release_mode))
    }

    fn release_at_once(
        &self,
        claim: &Claim,
        release_mode: ReleaseMode,
    ) -> Option<Result<ReleaseOutcome>> {
        Some(Ok(self.answer_release(claim, release_mode)))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        Ok(self.store().inspect(name, self.0.clock.now()))
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        let after = from.as_ref().map(|cursor| cursor.0.as_str());
        Ok(self.store().list(prefix, after, self.0.clock.now()))
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let note = format!("{by}: {reason}");
        let done = self.store().break_lock(name, seen, how, &note, self.0.clock.now());
        let (broken, tokens) = done.answer;
        let told = tokens.into_iter().map(|token| Event::Lost(token, Reason::Broken));
        let mut events: Vec<Event> = told.collect();
        events.extend(done.wake.then(|| Event::Wake(name.clone())));
        self.tell(&events);
        Ok(broken)
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}
