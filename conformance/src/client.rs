//! The client under test.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    Clock, DistributedLock, Guard, HoldState, LockName, Locks, Result, Signal, async_trait,
};

/// A client under test.
#[async_trait]
pub trait Believer: Send + Sync {
    /// Sends one request.
    async fn try_acquire(&self, name: &LockName, fixed: bool) -> Result<Option<Box<dyn Belief>>>;
}

/// A hold of a client under test.
#[async_trait]
pub trait Belief: Send + Sync {
    /// Returns whether the client considers it valid.
    fn believes(&self) -> bool;

    /// Waits for the hold's end.
    async fn ended(&self);

    /// Releases the hold.
    async fn release(self: Box<Self>) -> Result<()>;
}

pub(crate) struct CoreClient(Locks);

impl CoreClient {
    pub(crate) fn new(
        backend: Arc<dyn DistributedLock>,
        clock: &Clock,
        ttl: Duration,
    ) -> Result<Self> {
        Ok(Self(Locks::builder(backend).clock(clock.clone()).ttl(ttl).build()?))
    }
}

#[async_trait]
impl Believer for CoreClient {
    async fn try_acquire(&self, name: &LockName, fixed: bool) -> Result<Option<Box<dyn Belief>>> {
        let request = self.0.mutex(name);
        let request = if fixed { request.fixed() } else { request };
        let guard = request.try_acquire().await?;
        Ok(guard.map(|guard| Box::new(CoreBelief(guard.signal(), guard)) as _))
    }
}

struct CoreBelief(Signal, Guard);

#[async_trait]
impl Belief for CoreBelief {
    fn believes(&self) -> bool {
        self.1.check().is_ok()
    }

    async fn ended(&self) {
        let _: HoldState = self.0.ended().await;
    }

    async fn release(self: Box<Self>) -> Result<()> {
        self.1.release().await
    }
}
