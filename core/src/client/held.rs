use std::sync::Arc;
use std::time::Duration;

use crate::{BootInstant, Guard, Leadership, MultiGuard, Permit, Result, Signal};

use super::Hold;

/// The common methods of all guards. The trait is sealed.
///
/// ```
/// use lockwright_core::{Held, Result};
///
/// async fn rebuild(lock: &impl Held) -> Result<()> {
///     for part in 0..10 {
///         lock.check()?;
///         // … rebuild `part`
///     }
///     lock.renew().await
/// }
/// ```
pub trait Held: sealed::FromHold + Send + Sync + Sized {
    /// Checks that the lock is held: see [`Guard::check`].
    fn check(&self) -> Result<()>;

    /// Returns the time until `lost_at`: see [`Guard::remaining`].
    fn remaining(&self) -> Duration;

    /// Returns when the hold counts as lost: see [`Guard::lost_at`].
    fn lost_at(&self) -> BootInstant;

    /// Returns the deadline: see [`Guard::deadline`].
    fn deadline(&self) -> BootInstant;

    /// Returns a signal of the hold: see [`Guard::signal`].
    fn signal(&self) -> Signal;

    /// Polls `future` until a loss: see [`Guard::run`].
    fn run<F>(&self, future: F) -> impl Future<Output = Result<F::Output>> + Send
    where
        F: Future<Output: Send> + Send;

    /// Renews the hold: see [`Guard::renew`].
    fn renew(&self) -> impl Future<Output = Result<()>> + Send;

    /// Releases the hold: see [`Guard::release`].
    fn release(self) -> impl Future<Output = Result<()>> + Send;
}

mod sealed {
    use std::sync::Arc;

    #[expect(unnameable_types, reason = "this is what seals the trait")]
    pub trait FromHold {
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "this is what seals the trait")]
        fn from_hold(hold: Arc<super::Hold>) -> Self;
    }
}

macro_rules! held {
    ($($guard:ident)*) => {$(
        impl sealed::FromHold for $guard {
            #[expect(private_interfaces, reason = "this is what seals the trait")]
            fn from_hold(hold: Arc<Hold>) -> Self {
                Self::new(hold)
            }
        }

        impl Held for $guard {
            fn check(&self) -> Result<()> {
                $guard::check(self)
            }

            fn remaining(&self) -> Duration {
                $guard::remaining(self)
            }

            fn lost_at(&self) -> BootInstant {
                $guard::lost_at(self)
            }

            fn deadline(&self) -> BootInstant {
                $guard::deadline(self)
            }

            fn signal(&self) -> Signal {
                $guard::signal(self)
            }

            async fn run<F>(&self, future: F) -> Result<F::Output>
            where
                F: Future<Output: Send> + Send,
            {
                $guard::run(self, future).await
            }

            async fn renew(&self) -> Result<()> {
                $guard::renew(self).await
            }

            async fn release(self) -> Result<()> {
                $guard::release(self).await
            }
        }
    )*};
}

held!(Guard Permit Leadership MultiGuard);
