//! One request for a hold, and its options.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::Upkeep;
use crate::clock::BootInstant;
use crate::duration;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mode::Mode;
use crate::name::LockName;

use super::acquire::{self, Limit};
use super::guard::{Guard, Leadership, Permit};
use super::hold::Hold;
use super::locks::Locks;
use super::owner::Owner;
use super::shared::Shared;
use super::ticket::Ticket;

/// What a request is answered with: [`Guard`], [`Permit`] or [`Leadership`]. Sealed.
pub trait Handle: sealed::FromHold {}

impl Handle for Guard {}
impl Handle for Permit {}
impl Handle for Leadership {}

pub(crate) mod sealed {
    use std::sync::Arc;

    #[expect(unnameable_types, reason = "this is what seals the trait")]
    pub trait FromHold {
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "this is what seals the trait")]
        fn from_hold(hold: Arc<super::Hold>) -> Self;
    }
}

impl sealed::FromHold for Guard {
    #[expect(private_interfaces, reason = "this is what seals the trait")]
    fn from_hold(hold: Arc<Hold>) -> Self {
        Self::new(hold)
    }
}

impl sealed::FromHold for Leadership {
    #[expect(private_interfaces, reason = "this is what seals the trait")]
    fn from_hold(hold: Arc<Hold>) -> Self {
        Self::new(hold)
    }
}

impl sealed::FromHold for Permit {
    #[expect(private_interfaces, reason = "this is what seals the trait")]
    fn from_hold(hold: Arc<Hold>) -> Self {
        Self::new(hold)
    }
}

/// One request for a hold: made by [`Locks::mutex`](crate::Locks::mutex) and its siblings, refined
/// by its options, sent by [`acquire`](Request::acquire) or [`try_acquire`](Request::try_acquire).
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
#[must_use = "a request does nothing until it is sent by acquire or try_acquire"]
pub struct Request<H> {
    shared: Arc<Shared>,
    pub(super) name: Result<LockName>,
    pub(super) options: Options,
    handle: PhantomData<fn() -> H>,
}

/// What a request can ask for, but for the name.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) upkeep: Upkeep,
    pub(crate) owner: Option<Owner>,
    /// Who asks, where that isn't just the client.
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) max_hold: Option<Duration>,
    wait: Option<Duration>,
    retry: Option<(u32, Duration)>,
}

impl<H: Handle> Request<H> {
    pub(crate) fn new(locks: &Locks, name: &str, mode: Mode) -> Self {
        let shared = Arc::clone(locks.shared());
        Self {
            name: shared.full_name(name),
            options: Options {
                mode,
                ttl: shared.settings.ttl,
                upkeep: Upkeep::Renewed,
                owner: None,
                identity: None,
                max_hold: None,
                wait: shared.settings.wait,
                retry: None,
            },
            shared,
            handle: PhantomData,
        }
    }

    /// How long the server keeps the hold without a renewal: how long the others wait at most
    /// after this process has died. 30 s if not set here or for the client.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// Nobody renews the hold: it ends one TTL after it was granted, whatever its holder does.
    pub fn fixed(mut self) -> Self {
        self.options.upkeep = Upkeep::Fixed;
        self
    }

    /// Gives the hold up for lost after this time, however well its renewals go.
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.options.max_hold = Some(time);
        self
    }

    /// How long [`acquire`](Request::acquire) waits at most.
    ///
    /// Zero means one try, which waits for its answer like [`try_acquire`](Request::try_acquire). If the
    /// lock is held, the error is [`TimedOut`](crate::ErrorKind::TimedOut). Any other limit applies even
    /// if it is too short for the server's answer.
    pub fn wait_for(mut self, limit: Duration) -> Self {
        self.options.wait = Some(limit);
        self
    }

    /// Has [`acquire`](Request::acquire) wait without limit, where the client was set to another.
    pub fn no_limit(mut self) -> Self {
        self.options.wait = None;
        self
    }

    /// Has [`acquire`](Request::acquire) try so many times, with this pause (give or take a
    /// quarter) in between, and stand in no queue. For those who think in tries; a limit by
    /// [`wait_for`](Request::wait_for) is fairer and wakes up sooner.
    pub fn retry(mut self, tries: u32, pause: Duration) -> Self {
        self.options.retry = Some((tries, pause));
        self
    }

    /// Lets requests with the same owner share one hold: they get another guard on it at once,
    /// with the same fence, the same TTL and no trip to the server. It ends with the last guard.
    ///
    /// A re-entry fails with [`Conflict`](crate::ErrorKind::Conflict) if it is [`fixed`](Request::fixed)
    /// while the hold is renewed, or if the hold may exceed its [`max_hold`](Request::max_hold).
    pub fn reentrant(mut self, owner: &Owner) -> Self {
        self.options.owner = Some(owner.clone());
        self
    }

    /// Waits for the hold.
    ///
    /// A server that can't be reached is asked again until the limit; without a limit, for one TTL.
    /// The same applies while an earlier request of this client for the same lock has no answer.
    ///
    /// Outside a tokio runtime, the request runs in the client's runtime.
    ///
    /// # Errors
    /// - [`TimedOut`](crate::ErrorKind::TimedOut) with the step it was at: nothing is held, and
    ///   what may stand on the server is settled in the background.
    /// - [`Unavailable`](crate::ErrorKind::Unavailable) or
    ///   [`Indeterminate`](crate::ErrorKind::Indeterminate): the server couldn't be reached, or
    ///   didn't answer; settled as before.
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) for a bad name or TTL,
    ///   [`Unsupported`](crate::ErrorKind::Unsupported) for a mode that the backend doesn't do,
    ///   [`Conflict`](crate::ErrorKind::Conflict) for a name that is in use as something else,
    ///   [`Denied`](crate::ErrorKind::Denied), [`Closed`](crate::ErrorKind::Closed).
    /// - [`Unavailable`](crate::ErrorKind::Unavailable) too if the client's runtime has ended and the caller
    ///   is outside a runtime, because the hold would not be renewed.
    ///
    /// # Cancel safety
    /// May be dropped at any await point. Its place goes to the next local request; a claim that
    /// may stand on the server is taken over by that one, or settled in the background.
    pub async fn acquire(self) -> Result<H> {
        // Its options stay where they are: they would be a third of what is moved.
        let (shared, options) = (self.shared, &self.options);
        // Where nothing has to be waited for, a loop of requests would let nobody else of its
        // thread go on.
        tokio::task::consume_budget().await;
        let name = checked(&shared, self.name, options)?;
        let tries = options.retry.or((options.wait == Some(Duration::ZERO)).then_some(ONE_TRY));
        let hold = match (tries, options.wait) {
            (Some((tries, pause)), _) => {
                Box::pin(acquire::by_tries(shared, name, options, tries, pause)).await?
            }
            (None, wait) => {
                let limit = match wait {
                    Some(wait) => Limit::At(shared.clock.now() + wait),
                    None => Limit::None,
                };
                let hold = acquire::acquire(shared, name, options, limit).await?;
                hold.expect("only one attempt ends without a hold and without an error")
            }
        };
        Ok(H::from_hold(hold))
    }

    /// Asks once. Returns `None` if the lock is held, or if another task of this client is acquiring or
    /// releasing it. Returns an error if the server doesn't answer that task's request.
    ///
    /// # Errors
    /// As [`acquire`](Request::acquire), but for the limit: an error of the server comes at once.
    ///
    /// # Cancel safety
    /// May be dropped; a claim that may stand on the server is settled in the background.
    pub async fn try_acquire(self) -> Result<Option<H>> {
        let (shared, options) = (self.shared, &self.options);
        tokio::task::consume_budget().await;
        let name = checked(&shared, self.name, options)?;
        Ok(acquire::acquire(shared, name, options, Limit::Once).await?.map(H::from_hold))
    }
}

/// The retry setting for a limit of zero: one try.
const ONE_TRY: (u32, Duration) = (1, Duration::ZERO);

/// The name, if it and the options are such as the backend takes.
fn checked(shared: &Arc<Shared>, name: Result<LockName>, options: &Options) -> Result<LockName> {
    let name = name?;
    match shared.ready().and_then(|()| options.check(shared)) {
        Ok(()) => Ok(name),
        Err(error) => Err(shared.tell(error, &name)),
    }
}

impl Request<Permit> {
    /// How many permits; 1 if not set.
    pub fn permits(mut self, count: u32) -> Self {
        if let Mode::Permits { of, .. } = self.options.mode {
            self.options.mode = Mode::Permits { count, of };
        }
        self
    }
}

impl Options {
    /// Those with which a hold was asked for that moves.
    pub(super) fn of_ticket(ticket: &Ticket) -> Self {
        Self {
            mode: ticket.mode(),
            ttl: ticket.ttl(),
            upkeep: ticket.upkeep(),
            owner: None,
            identity: None,
            max_hold: None,
            wait: None,
            retry: None,
        }
    }

    /// Whether they are such as the backend takes, and this client can keep to.
    pub(super) fn check(&self, shared: &Shared) -> Result<()> {
        let profile = shared.backend.profile();
        if !profile.modes.contains(self.mode) {
            let what = match self.mode {
                Mode::Exclusive => "exclusive locks",
                Mode::Shared => "shared (read) locks",
                Mode::Permits { .. } => "semaphores",
            };
            return Err(Error::unsupported(what, profile));
        }
        if let Mode::Permits { count, of } = self.mode
            && (count == 0 || count > of)
        {
            return Err(Error::invalid_input(format!(
                "{count} of {of} permits can't be had; ask for 1 to {of}"
            )));
        }
        // The client's own was checked when it was made.
        if self.ttl != shared.settings.ttl {
            let range = profile.ttl_range();
            if !range.contains(&self.ttl) {
                return Err(Error::invalid_input(format!(
                    "a TTL of {} is out of range; this backend takes {} to {}",
                    duration::shown(self.ttl),
                    duration::shown(*range.start()),
                    duration::shown(*range.end())
                )));
            }
            shared.settings.rules.check(self.ttl)?;
        }
        if self.retry.is_some_and(|(tries, _)| tries == 0) {
            return Err(Error::invalid_input("retry needs at least 1 try"));
        }
        Ok(())
    }

    /// Until when a hold may be held that was granted by a request sent at `start`.
    pub(crate) fn keep_until(&self, start: BootInstant) -> BootInstant {
        self.max_hold.map_or(BootInstant::FAR_FUTURE, |time| start + time)
    }
}

impl<H> fmt::Debug for Request<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
