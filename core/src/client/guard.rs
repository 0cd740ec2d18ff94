//! What a user holds.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::claim::{Ended, RenewalOutcome};
use crate::clock::BootInstant;
use crate::error::{Error, Result};
use crate::event::Reason;
use crate::fencing::Fenced;
use crate::mode::Mode;
use crate::token::{Fence, Token};

use super::answer::at_once;
use super::background::{Job, send_release};
use super::hold::Hold;
use super::keeper::{ask_renewal, note_renewal};
use super::shared::Shared;
use super::signal::{HoldState, Signal};
use super::ticket::Ticket;

/// An exclusive or shared hold. Owned and `'static`: it may move to another task or thread.
///
/// While it lives, the client's keeper renews it. Dropped, it is released in the background, also
/// outside a runtime; [`Guard::release`] waits for the answer.
#[must_use = "dropping the guard releases the lock; keep it for as long as the lock is needed"]
#[derive(Debug)]
pub struct Guard(Held);

/// Permits of a semaphore. As [`Guard`], but with an id where that has a fence.
#[must_use = "dropping the permit gives it back; keep it for as long as it is needed"]
#[derive(Debug)]
pub struct Permit(Held);

/// The lead in an election. As [`Guard`]; when it is lost, another one may lead from then on.
#[must_use = "dropping the leadership resigns; keep it for as long as you lead"]
#[derive(Debug)]
pub struct Leadership(Held);

/// The part that every kind of guard has.
#[derive(Debug)]
pub(crate) struct Held(Option<Arc<Hold>>);

macro_rules! common {
    ($guard:ident, $what:literal) => {
        impl $guard {
            pub(crate) fn new(hold: Arc<Hold>) -> Self {
                Self(Held(Some(hold)))
            }

            /// The name, as it was asked for.
            pub fn name(&self) -> &str {
                self.0.name()
            }

            /// How it is held.
            pub fn mode(&self) -> Mode {
                self.0.hold().claim.mode
            }

            /// The token by which the server knows this hold.
            pub fn token(&self) -> Token {
                self.0.hold().claim.token
            }

            /// For how long yet it is held without a further renewal: until
            /// [`lost_at`](Self::lost_at). Zero when it is lost.
            pub fn remaining(&self) -> Duration {
                let hold = self.0.hold();
                let now = hold.clock().now();
                if hold.state_at(now).is_live() {
                    hold.lost_at().saturating_since(now)
                } else {
                    Duration::ZERO
                }
            }

            /// The instant at which it is given up for lost, unless it is renewed before. From then
            /// until the [`deadline`](Self::deadline) there is time to stop what it protected.
            pub fn lost_at(&self) -> BootInstant {
                self.0.hold().lost_at()
            }

            /// The instant from which on nobody may believe in it, unless it is renewed before.
            pub fn deadline(&self) -> BootInstant {
                self.0.hold().deadline()
            }

            /// Whether it is still held, by a look at the clock and without asking the server.
            /// Exact also after a pause of the process. It costs tens of nanoseconds: call it
            /// before each step that must not be done without the lock.
            ///
            /// # Errors
            /// [`Lost`](crate::ErrorKind::Lost) with the reason; the same for ever after.
            pub fn check(&self) -> Result<()> {
                self.0.check()
            }

            /// A view of the hold for other tasks.
            pub fn signal(&self) -> Signal {
                Signal::new(self.0.hold())
            }

            /// Drives `future` for as long as the hold lives, and drops it at the moment of a loss,
            /// so that it is gone by the deadline. Each poll looks at the clock first.
            ///
            /// A future that doesn't yield can't be stopped, and neither can what it has already
            /// sent elsewhere: for that there is the fence.
            ///
            /// Outside a tokio runtime, `future` is polled inside the client's runtime.
            ///
            /// # Errors
            /// [`Lost`](crate::ErrorKind::Lost) if the hold was lost before the future was done, or
            /// during its last poll: what it did then wasn't all done under the lock.
            /// [`Unavailable`](crate::ErrorKind::Unavailable) if the client's runtime has ended and the
            /// caller is outside a runtime.
            ///
            /// # Cancel safety
            /// Dropping it drops `future`; the guard is unharmed.
            pub async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
                self.0.run(future).await
            }

            /// Renews it now, without waiting for the keeper. This extends a fixed hold too.
            ///
            /// # Errors
            /// [`Lost`](crate::ErrorKind::Lost) if it is, [`Indeterminate`](crate::ErrorKind::Indeterminate)
            /// or [`Unavailable`](crate::ErrorKind::Unavailable) if the server didn't say; the hold
            /// then goes on to its present deadline.
            ///
            /// # Cancel safety
            /// May be dropped; the renewal may then take effect on the server without counting here.
            pub async fn renew(&self) -> Result<()> {
                self.0.renew().await
            }

            /// Asks the server whether the hold is still ours. Changes nothing: a hold that the
            /// server doesn't have is noticed by the next renewal.
            ///
            /// # Errors
            /// Those of reaching the server.
            ///
            /// # Cancel safety
            /// May be dropped.
            pub async fn verify(&self) -> Result<bool> {
                self.0.verify().await
            }

            #[doc = concat!("Gives the ", $what, " back and waits for the server's answer. With reentrancy, only the last guard does.")]
            ///
            /// # Errors
            /// [`Lost`](crate::ErrorKind::Lost) if it was lost before, so that what was done last
            /// may not have been protected. Any other error says that the answer is missing: the
            /// release goes on in the background, and the hold is over for this client.
            ///
            /// # Cancel safety
            /// When dropped, the release goes on in the background.
            pub async fn release(self) -> Result<()> {
                self.0.release().await
            }
        }
    };
}

common!(Guard, "lock");
common!(Permit, "permits");
common!(Leadership, "lead");

impl Guard {
    /// The fence of this hold: send it with each write to what the lock protects, and have a write
    /// refused there whose fence is below the highest seen. Concurrent readers share one.
    pub fn fence(&self) -> Fence {
        self.0.hold().fence
    }

    pub(super) fn client(&self) -> &Arc<Shared> {
        &self.0.hold().shared
    }

    /// Returns an error if the client was closed after the grant.
    pub(super) fn ready(&self) -> Result<()> {
        if self.client().is_closed() { Err(self.closed()) } else { Ok(()) }
    }

    /// Returns the error for a multi-lock request that has this hold when the client is closed.
    pub(super) fn closed(&self) -> Error {
        self.client().tell(Error::closed(), &self.0.hold().claim.name)
    }

    /// What goes with all that is sent under this lock.
    pub fn fenced(&self) -> Fenced {
        self.0.fenced()
    }

    /// Gives the hold to whoever has the ticket: [`Locks::resume`](crate::Locks::resume) takes it over, in
    /// this process or another one. The belief in it ends here, before there is a ticket. An
    /// [`Owner`](crate::Owner) and a [`max_hold`](crate::Request::max_hold) don't move along.
    ///
    /// Nobody renews it until it is resumed: the ticket is good for as long as the hold has
    /// [left](Self::remaining), which may be a moment only where a lock was just handed over. To have the
    /// whole TTL for the way, [renew](Self::renew) it first.
    ///
    /// # Errors
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) where the profile has no `tickets`.
    /// - [`Conflict`](crate::ErrorKind::Conflict) while the same owner has another guard on it.
    /// - [`Lost`](crate::ErrorKind::Lost) if it was lost before.
    ///
    /// In each of these cases the guard is dropped, as it is without a ticket.
    pub fn into_ticket(mut self) -> Result<Ticket> {
        let profile = self.0.hold().shared.backend.profile();
        if !profile.tickets {
            return Err(Error::unsupported("moving a hold to another process", profile));
        }
        let hold = self.0.0.take().expect("a guard has its hold until it is consumed");
        if !hold.shared.leave(&hold) {
            let message = "its owner has another guard on this hold; release that first";
            let error = Error::new(crate::error::ErrorKind::Conflict, message);
            return Err(hold.shared.tell(error, &hold.claim.name));
        }
        let releasing = Releasing::begin(hold);
        let hold = Arc::clone(releasing.hold());
        match releasing.ended {
            Err(reason) => Err(lost(&hold, reason)),
            Ok(_) => {
                // Without a release: it stays on the server for whoever resumes it.
                releasing.finish();
                Ok(Ticket::new(&hold.claim, hold.fence, hold.settle()))
            }
        }
    }
}

impl Leadership {
    /// The fence of this leader: send it with what it writes or tells others to do, and have that
    /// refused by whoever has seen a higher one.
    pub fn fence(&self) -> Fence {
        self.0.hold().fence
    }

    /// What goes with all that this leader sends.
    pub fn fenced(&self) -> Fenced {
        self.0.fenced()
    }

    /// What the others see of this leader.
    pub fn value(&self) -> &str {
        self.0.hold().claim.identity.value.as_deref().unwrap_or_default()
    }

    /// Gives the lead back, and waits for the server's answer: the same as
    /// [`release`](Self::release).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn resign(self) -> Result<()> {
        self.0.release().await
    }
}

impl Permit {
    /// An id that no other hold of the name ever has. Not a fence: a larger one isn't a later one.
    pub fn id(&self) -> u64 {
        self.0.hold().fence.get()
    }
}

impl Held {
    fn hold(&self) -> &Arc<Hold> {
        self.0.as_ref().expect("a guard has its hold until it is consumed")
    }

    fn name(&self) -> &str {
        let hold = self.hold();
        hold.claim.name.as_str().strip_prefix(&*hold.shared.settings.namespace).unwrap_or_default()
    }

    /// With the name that the lock has for everybody: clients of another namespace have the same lock by
    /// another name, and clients of several namespaces other locks by the same one.
    fn fenced(&self) -> Fenced {
        let hold = self.hold();
        Fenced { name: hold.claim.name.clone(), fence: hold.fence }
    }

    fn check(&self) -> Result<()> {
        check(self.hold())
    }

    async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        self.hold().shared.has_runtime()?;
        let signal = Signal::new(self.hold());
        let mut ended = pin!(signal.ended());
        let mut future = pin!(future);
        let run = std::future::poll_fn(|cx| {
            self.check()?;
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(self.check().map(|()| output));
            }
            match ended.as_mut().poll(cx) {
                Poll::Ready(_) => Poll::Ready(Err(self
                    .check()
                    .err()
                    .unwrap_or_else(|| lost(self.hold(), Reason::Expired)))),
                Poll::Pending => Poll::Pending,
            }
        });
        self.hold().shared.inside(run).await
    }

    async fn renew(&self) -> Result<()> {
        self.check()?;
        let hold = self.hold();
        let start = hold.clock().now();
        let asking = ask_renewal(&hold.shared, std::slice::from_ref(hold));
        let mut answers = hold
            .shared
            .inside(asking)
            .await
            .map_err(|error| hold.shared.tell(error, &hold.claim.name))?;
        let answer = answers.pop();
        let is_known =
            answer.as_ref().is_some_and(|it| it.outcome != RenewalOutcome::Indeterminate);
        let look_again = note_renewal(hold, answer, start, hold.clock().now());
        if hold.shared.table().holds.reschedule([(hold, look_again)]) {
            hold.shared.keeper.notify_one();
        }
        self.check()?;
        if is_known {
            return Ok(());
        }
        let error = Error::indeterminate("the server did not say whether the lock was renewed");
        Err(hold.shared.tell(error, &hold.claim.name))
    }

    async fn verify(&self) -> Result<bool> {
        let hold = self.hold();
        let shared = &hold.shared;
        let seen = shared
            .inside(shared.backend.inspect(&hold.claim.name))
            .await
            .map_err(|error| hold.shared.tell(error, &hold.claim.name))?;
        Ok(seen
            .holders
            .iter()
            .any(|holder| holder.token == Some(hold.claim.token) && holder.broken.is_none()))
    }

    async fn release(mut self) -> Result<()> {
        let Some(hold) = self.0.take() else { return Ok(()) };
        if !hold.shared.leave(&hold) {
            return check(&hold);
        }
        let releasing = Releasing::begin(hold);
        let hold = releasing.hold();
        let backend = &hold.shared.backend;
        match at_once(|| backend.release_at_once(&hold.claim, hold.settle())) {
            Some(answer) => releasing.answered(answer),
            // Boxed, so that the common part isn't slowed down by its size.
            None => Box::pin(releasing.send()).await,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take() {
            end_in_background(hold);
        }
    }
}

/// One guard fewer; the last one ends the hold.
pub(crate) fn end_in_background(hold: Arc<Hold>) {
    if hold.shared.leave(&hold) {
        drop(Releasing::begin(hold));
    }
}

fn lost(hold: &Hold, reason: Reason) -> Error {
    hold.shared.tell(Error::lost(reason, &hold.claim.name), &hold.claim.name)
}

fn check(hold: &Hold) -> Result<()> {
    match hold.state() {
        HoldState::Lost(reason) => Err(lost(hold, reason)),
        _ => Ok(()),
    }
}

/// A release in place; dropped before it is finished, it goes on in the background.
struct Releasing {
    hold: Option<Arc<Hold>>,
    /// How the hold ended: after this time, or it was lost before.
    ended: Result<u64, Reason>,
}

impl Releasing {
    fn begin(hold: Arc<Hold>) -> Self {
        let ended = hold.end();
        hold.shared.count_ended(ended.is_ok());
        Self { hold: Some(hold), ended }
    }

    fn hold(&self) -> &Arc<Hold> {
        self.hold.as_ref().expect("it has its hold until it is finished")
    }

    async fn send(self) -> Result<()> {
        let hold = self.hold();
        let sending = send_release(&hold.shared, &hold.claim, hold.settle());
        let answer = hold.shared.inside(sending).await;
        self.answered(answer)
    }

    fn answered(self, answer: Result<Ended>) -> Result<()> {
        let hold = self.hold();
        match (answer, self.ended) {
            (Err(_), Err(reason)) => Err(lost(hold, reason)),
            // The answer is missing: dropped unfinished, the release goes on in the background.
            (Err(error), Ok(_)) => Err(hold.shared.tell(error, &hold.claim.name)),
            (Ok(answer), ended) => {
                let result = match (answer, ended) {
                    (_, Err(reason)) => Err(lost(hold, reason)),
                    (Ended::Released, Ok(_)) => Ok(()),
                    (Ended::NotHeld, Ok(_)) => Err(lost(hold, Reason::Gone)),
                };
                if hold.shared.one_answer_settles(hold.settle()) {
                    self.finish();
                }
                result
            }
        }
    }

    fn finish(mut self) {
        if let Some(hold) = self.hold.take() {
            Shared::let_go(&hold, self.ended);
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            // With its turn, which is then not passed on here.
            Shared::in_background(Job::release(Arc::clone(&hold)));
            Shared::let_go(&hold, self.ended);
        }
    }
}
