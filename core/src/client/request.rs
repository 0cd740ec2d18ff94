use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::{Held, LockName, Mode, Owner, Permit, RenewalMode, Result};

use super::acquire;
#[cfg(feature = "metrics")]
use super::export::Waiting;
use super::{Limit, Options, Shared, span};

/// A request for a hold.
///
/// ```no_run
/// # async fn example(locks: lockwright_core::Locks) -> lockwright_core::Result<()> {
/// use std::time::Duration;
///
/// let guard = locks
///     .mutex("orders/42")
///     .ttl(Duration::from_secs(10))
///     .wait_for(Duration::from_secs(2))
///     .acquire()
///     .await?;
/// # guard.release().await
/// # }
/// ```
#[must_use = "a request does nothing until acquire, try_acquire or with sends it"]
#[derive(Debug)]
pub struct Request<H> {
    shared: Arc<Shared>,
    pub(super) name: Result<LockName>,
    pub(super) options: Options,
    handle: PhantomData<fn() -> H>,
}

impl<H: Held> Request<H> {
    pub(crate) fn new(shared: &Arc<Shared>, name: &str, mode: Mode) -> Self {
        Self {
            name: shared.full_name(name),
            options: Options::new(shared, name, mode),
            shared: Arc::clone(shared),
            handle: PhantomData,
        }
    }

    /// Sets the TTL. The default is that of the name's [prefix](crate::Builder::prefix), or the
    /// client's.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// Disables renewal: the hold ends one TTL after its grant.
    pub fn fixed(mut self) -> Self {
        self.options.renewal_mode = RenewalMode::Off;
        self
    }

    /// Limits the hold's duration. After this time, the hold counts as lost, even if renewed.
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.options.hold_times_mut().max_hold = Some(time);
        self
    }

    /// Keeps the lock for up to `time` after its release, at most for one TTL after its grant. This
    /// client's next request then gets it without the server, with a larger fence. If another
    /// client requests the lock, even by a single try, this client releases it. It doesn't keep a
    /// lock that another client had or requested within the last TTL.
    ///
    /// - [`release`](Held::release) returns before the lock is free for other clients. Another
    ///   client's first single try fails, but recalls the lock.
    /// - Another client's semaphore request for this name fails with
    ///   [`Conflict`](crate::ErrorKind::Conflict), and doesn't recall the lock. A semaphore
    ///   request of this client first releases the lock.
    /// - While this process is stopped or cut off, other clients wait for the lock: at most one
    ///   TTL.
    /// - The setting has no effect on a shared, fixed, owned or campaign request, or with `max_hold`,
    ///   `at_least` or `once_per`.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) without `recalls` in the profile;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a zero `time`.
    pub fn keep_warm(mut self, time: Duration) -> Self {
        self.options.keep_warm = Some(time);
        self
    }

    /// Keeps the lock held for at least `time` after its grant, so that a short job doesn't run
    /// again on a machine whose clock is late. A [`release`](Held::release) or a drop of the guard
    /// doesn't wait for this time: the client renews the hold for the rest of it, and the server
    /// then frees the lock, even if this process has ended.
    ///
    /// - After an unanswered request, or if the process ends without a release, the hold may end one
    ///   TTL after its last renewal. A lost hold isn't kept.
    /// - A waiter gets the lock when it expires, or up to [`slow_poll`](crate::Profile::slow_poll)
    ///   later.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) without `keeps_after_release` in the profile;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a shared lock, a semaphore, or a `time`
    /// that isn't a valid TTL.
    pub fn at_least(mut self, time: Duration) -> Self {
        self.options.hold_times_mut().at_least = Some(time);
        self
    }

    /// Keeps the lock held for `time` after a [`release`](Held::release), or after the work of
    /// [`with`](Request::with) has completed, **even if the work returns an error**. So a job runs
    /// once per period. To let a failed job run again, drop the guard instead of releasing it.
    /// Restrictions and errors: see [`at_least`](Request::at_least).
    pub fn once_per(mut self, time: Duration) -> Self {
        self.options.hold_times_mut().once_per = Some(time);
        self
    }

    /// Limits how long [`acquire`](Request::acquire) waits. With zero, the client tries once and
    /// waits for the answer.
    pub fn wait_for(mut self, limit: Duration) -> Self {
        self.options.wait = Some(limit);
        self
    }

    /// Removes the client's wait limit from [`acquire`](Request::acquire).
    pub fn no_limit(mut self) -> Self {
        self.options.wait = None;
        self
    }

    /// Makes [`acquire`](Request::acquire) try at most `tries` times, with a `pause` (± 25 %)
    /// between tries, instead of queueing. [`wait_for`](Request::wait_for) is fairer.
    pub fn retry(mut self, tries: u32, pause: Duration) -> Self {
        self.options.retry = Some(Box::new((tries, pause)));
        self
    }

    /// Lets requests with the same owner share one hold, fence and TTL. The hold ends with its last
    /// guard.
    ///
    /// A re-entry fails with [`Conflict`](crate::ErrorKind::Conflict) if it is
    /// [`fixed`](Request::fixed) but the client renews the hold, or if the hold may exceed the
    /// re-entry's [`max_hold`](Request::max_hold). The first request's
    /// [`at_least`](Request::at_least) and [`once_per`](Request::once_per) apply.
    pub fn reentrant(mut self, owner: &Owner) -> Self {
        self.options.owner = Some(owner.clone());
        self
    }

    /// Sets the label `group` of this request's metrics, which is empty by default. Use few groups,
    /// such as `orders`, not names of locks: each group is a time series.
    #[cfg(feature = "metrics")]
    pub fn group(mut self, group: &'static str) -> Self {
        self.options.group = group;
        self
    }

    /// Waits for the hold. If the server doesn't answer, the client retries until the wait limit;
    /// without a limit, for one TTL.
    ///
    /// Outside a tokio runtime, the request runs in the client's runtime.
    ///
    /// # Errors
    /// - [`TimedOut`](crate::ErrorKind::TimedOut) with the [`Step`](crate::Step) that the request
    ///   waited for.
    /// - [`Unavailable`](crate::ErrorKind::Unavailable) or
    ///   [`Indeterminate`](crate::ErrorKind::Indeterminate) without an answer.
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) for an invalid name or TTL,
    ///   [`Unsupported`](crate::ErrorKind::Unsupported) for a mode that the backend lacks,
    ///   [`Conflict`](crate::ErrorKind::Conflict), [`Denied`](crate::ErrorKind::Denied),
    ///   [`Closed`](crate::ErrorKind::Closed).
    /// - [`Unavailable`](crate::ErrorKind::Unavailable) outside a runtime, if the client's runtime
    ///   has ended.
    ///
    /// # Cancel safety
    /// May be dropped. A claim that may be on the server passes to the next local request, or is
    /// released in the background.
    pub async fn acquire(self) -> Result<H> {
        let (shared, options) = (self.shared, &self.options);
        // This call yields at times: requests that never wait would starve other tasks.
        tokio::task::consume_budget().await;
        let name = checked(&shared, self.name, options)?;
        #[cfg(feature = "metrics")]
        let waiting = Waiting::new(&shared, options.group);
        let one_try = || (options.wait == Some(Duration::ZERO)).then_some(ONE_TRY);
        let tries = options.retry.as_deref().copied().or_else(one_try);
        let span = span::acquire(&shared, &name, options.mode);
        let hold = match (tries, options.wait) {
            (Some((tries, pause)), _) => {
                let trying = acquire::by_tries(shared, name, options, tries, pause);
                Box::pin(span::instrument(trying, &span)).await.map(Some)
            }
            (None, wait) => {
                let limit = match wait {
                    Some(wait) => Limit::At(shared.clock.now() + wait),
                    None => Limit::None,
                };
                span.in_scope(|| acquire::acquire(shared, name, options, limit)).await
            }
        };
        span::record_outcome(&span, &hold);
        let hold = hold?.expect("only one attempt ends without a hold and without an error");
        #[cfg(feature = "metrics")]
        waiting.granted(&hold);
        Ok(H::from_hold(hold))
    }

    /// Tries once. Returns `None` if the lock is held, or in use by another task of this client.
    ///
    /// # Errors
    /// As [`acquire`](Request::acquire). Also an error if another task's request for the lock is
    /// unanswered.
    ///
    /// # Cancel safety
    /// As [`acquire`](Request::acquire).
    pub async fn try_acquire(self) -> Result<Option<H>> {
        let (shared, options) = (self.shared, &self.options);
        tokio::task::consume_budget().await;
        let name = checked(&shared, self.name, options)?;
        #[cfg(feature = "metrics")]
        let waiting = Waiting::new(&shared, options.group);
        let span = span::acquire(&shared, &name, options.mode);
        let hold = span.in_scope(|| acquire::acquire(shared, name, options, Limit::Once)).await;
        span::record_outcome(&span, &hold);
        let hold = hold?;
        #[cfg(feature = "metrics")]
        if let Some(hold) = &hold {
            waiting.granted(hold);
        }
        Ok(hold.map(H::from_hold))
    }
}

const ONE_TRY: (u32, Duration) = (1, Duration::ZERO);

fn checked(shared: &Arc<Shared>, name: Result<LockName>, options: &Options) -> Result<LockName> {
    let name = name?;
    match shared.ready().and_then(|()| options.check(shared)) {
        Ok(()) => Ok(name),
        Err(error) => Err(shared.with_context(error, &name)),
    }
}

impl Request<Permit> {
    /// Sets the number of permits. The default is 1.
    pub fn permits(mut self, count: u32) -> Self {
        if let Mode::Permits { of, .. } = self.options.mode {
            self.options.mode = Mode::Permits { count, of };
        }
        self
    }
}
