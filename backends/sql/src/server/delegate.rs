use std::pin::Pin;

use lockwright_core::Result;

pub(crate) type Answer<'f, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'f>>;

/// Implements `DistributedLock` by calls of the backend in field 0.
macro_rules! delegate {
    ($backend:ty) => {
        const _: () = {
            use std::time::Duration;

            use lockwright_core::{
                AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, Cursor, DistributedLock,
                Events, Finding, Inspection, LockName, Page, Profile, ReleaseMode, ReleaseOutcome,
                Renew, Renewal, Result, SweepReport, Token, Wait, async_trait,
            };

            use $crate::server::delegate::Answer;

            #[async_trait]
            impl DistributedLock for $backend {
                fn profile(&self) -> &Profile {
                    self.0.profile()
                }

                fn attach(&self, events: Events) {
                    self.0.attach(events);
                }

                // The next three methods return the inner backend's boxed future. An `async fn`
                // would box it again.

                fn acquire<'s, 'c, 'f>(
                    &'s self,
                    claim: &'c Claim,
                    wait: Wait,
                ) -> Answer<'f, AcquireOutcome>
                where
                    's: 'f,
                    'c: 'f,
                    Self: 'f,
                {
                    self.0.acquire(claim, wait)
                }

                fn renew<'s, 'h, 'r, 'f>(
                    &'s self,
                    holds: &'h [Renew<'r>],
                ) -> Answer<'f, Vec<Renewal>>
                where
                    's: 'f,
                    'h: 'f,
                    'r: 'f,
                    Self: 'f,
                {
                    self.0.renew(holds)
                }

                fn release<'s, 'c, 'f>(
                    &'s self,
                    claim: &'c Claim,
                    release_mode: ReleaseMode,
                ) -> Answer<'f, ReleaseOutcome>
                where
                    's: 'f,
                    'c: 'f,
                    Self: 'f,
                {
                    self.0.release(claim, release_mode)
                }

                async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
                    self.0.swap(from, to).await
                }

                async fn inspect(&self, name: &LockName) -> Result<Inspection> {
                    self.0.inspect(name).await
                }

                async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
                    self.0.list(prefix, from).await
                }

                async fn break_lock(
                    &self,
                    name: &LockName,
                    seen: BreakTarget,
                    how: BreakMode,
                    by: &str,
                    reason: &str,
                ) -> Result<Broken> {
                    self.0.break_lock(name, seen, how, by, reason).await
                }

                async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
                    self.0.sweep(idle).await
                }

                async fn doctor(&self) -> Result<Vec<Finding>> {
                    self.0.doctor().await
                }
            }
        };
    };
}

pub(crate) use delegate;
