use crate::{Held, Request, Result};

use super::loss_signal::run;

impl<H: Held> Request<H> {
    /// Acquires the lock, polls `work` until it completes or the hold is lost, and releases the
    /// lock.
    ///
    /// The returned future is `Send` if `work` and its future are.
    ///
    /// ```
    /// # use lockwright_core::{Locks, Result};
    /// # async fn example(locks: Locks) -> Result<()> {
    /// let fence = locks.mutex("orders/42").with(async |guard| guard.fence()).await?;
    /// # drop(fence);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - Those of [`acquire`](Request::acquire), before `work` is called.
    /// - [`Lost`](crate::ErrorKind::Lost) if the hold was lost before `work` completed. The client
    ///   then drops `work` before the deadline: see [`Guard::run`](crate::Guard::run).
    /// - [`Lost`](crate::ErrorKind::Lost) without the output if `work` completed, but the server
    ///   reports at the release that the hold had ended, so another holder may have worked at the
    ///   same time.
    ///
    /// After any other error of the release, the client releases the hold in the background, and
    /// the output is returned.
    ///
    /// # Cancel safety
    /// Dropping the returned future drops `work`, and releases the lock in the background.
    pub async fn with<T>(self, work: impl AsyncFnOnce(&H) -> T) -> Result<T> {
        let hold = self.acquire().await?;
        let output = run(hold.signal(), || hold.check(), work(&hold)).await?;
        release_after(hold, output).await
    }
}

pub(super) async fn release_after<T>(hold: impl Held, output: T) -> Result<T> {
    match hold.release().await {
        Err(error) if error.lost_reason().is_some() => Err(error),
        _ => Ok(output),
    }
}
