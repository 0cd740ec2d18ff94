//! The interface of the tested client.

use lockwright_core::{Guard, LockName, Locks, Result, async_trait};

/// A client that the cases test.
#[async_trait]
pub trait TestedClient: Send + Sync {
    /// Sends one request. Returns `None` if the lock is held. A `fixed` hold isn't renewed.
    async fn try_acquire(
        &self,
        name: &LockName,
        fixed: bool,
    ) -> Result<Option<Box<dyn TestedHold>>>;
}

/// A hold of a tested client.
#[async_trait]
pub trait TestedHold: Send + Sync {
    /// Returns whether the client considers the hold valid.
    fn is_valid(&self) -> bool;

    /// Waits until the client reports the hold's end.
    async fn ended(&self);

    /// Releases the hold.
    async fn release(self: Box<Self>) -> Result<()>;
}

#[async_trait]
impl TestedClient for Locks {
    async fn try_acquire(
        &self,
        name: &LockName,
        fixed: bool,
    ) -> Result<Option<Box<dyn TestedHold>>> {
        let request = self.mutex(name);
        let request = if fixed { request.fixed() } else { request };
        Ok(request.try_acquire().await?.map(|guard| Box::new(guard) as _))
    }
}

#[async_trait]
impl TestedHold for Guard {
    fn is_valid(&self) -> bool {
        self.check().is_ok()
    }

    async fn ended(&self) {
        self.signal().ended().await;
    }

    async fn release(self: Box<Self>) -> Result<()> {
        Guard::release(*self).await
    }
}
