use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::fencing::Fenced;
use crate::{
    BootInstant, Error, Fence, HoldState, Mode, RenewalOutcome, Result, Signal, Ticket, Token,
};

use super::loss_signal::run;
use super::renewer::{ask_renewal, note_renewal, unclear_renewal};
use super::state::releasing::{Releasing, Use, end_for_ticket, end_in_background, lost};
use super::{Hold, Shared, at_once, span};

/// An exclusive or shared hold, renewed while the guard lives. Dropping the guard releases the hold
/// in the background, even outside a runtime.
#[must_use = "dropping the guard releases the lock; keep it for as long as the lock is needed"]
#[derive(Debug)]
pub struct Guard(Inner);

/// Permits of a semaphore. They behave like a [`Guard`], with an id instead of a fence.
#[must_use = "dropping the permit gives it back; keep it for as long as it is needed"]
#[derive(Debug)]
pub struct Permit(Inner);

/// The leadership of an election. It behaves like a [`Guard`].
#[must_use = "dropping the leadership resigns; keep it for as long as you lead"]
#[derive(Debug)]
pub struct Leadership(Inner);

#[derive(Debug)]
pub(crate) struct Inner(Option<Arc<Hold>>, span::Span);

macro_rules! common {
    ($guard:ident, $what:literal) => {
        impl $guard {
            pub(crate) fn new(hold: Arc<Hold>) -> Self {
                let span = span::hold(&hold);
                Self(Inner(Some(hold), span))
            }

            /// Returns the name without the client's namespace.
            pub fn name(&self) -> &str {
                let hold = self.0.hold();
                let name = hold.claim.name.as_str();
                name.strip_prefix(&*hold.shared.settings.namespace).unwrap_or_default()
            }

            /// Returns the mode.
            pub fn mode(&self) -> Mode {
                self.0.hold().claim.mode
            }

            /// Returns the hold's token, which stays if the hold is handed over.
            pub fn token(&self) -> Token {
                self.0.hold().claim.token
            }

            /// Returns the time until [`lost_at`](Self::lost_at); zero after a loss.
            pub fn remaining(&self) -> Duration {
                let hold = self.0.hold();
                let now = hold.clock().now();
                let is_live = hold.state_at(now).is_live();
                if is_live { hold.lost_at().saturating_since(now) } else { Duration::ZERO }
            }

            /// Returns when the hold counts as lost, unless renewed: one margin before the
            /// [`deadline`](Self::deadline).
            pub fn lost_at(&self) -> BootInstant {
                self.0.hold().lost_at()
            }

            /// Returns when the holder must stop relying on the hold, unless renewed.
            pub fn deadline(&self) -> BootInstant {
                self.0.hold().deadline()
            }

            /// Checks by the clock that the lock is held. Call it before each step of the work. It
            /// takes tens of nanoseconds, and is exact even after a pause of the process.
            ///
            /// # Errors
            /// [`Lost`](crate::ErrorKind::Lost), on this and every later call.
            pub fn check(&self) -> Result<()> {
                check(self.0.hold())
            }

            /// Returns a signal, by which other tasks can observe the hold.
            pub fn signal(&self) -> Signal {
                Signal::new(self.0.hold())
            }

            /// Polls `future`, and drops it when the hold is lost, before the deadline. Checks the
            /// clock before each poll.
            ///
            /// A poll in progress can't be stopped, even if it was paused past the deadline. Its
            /// writes, and requests already sent, are stopped only by the fence. Outside a runtime,
            /// `future` is polled inside the client's runtime.
            ///
            /// # Errors
            /// - [`Lost`](crate::ErrorKind::Lost) if the hold was lost before the future completed,
            ///   or during its last poll.
            /// - [`Unavailable`](crate::ErrorKind::Unavailable) outside a runtime, if the client's
            ///   runtime has ended.
            ///
            /// # Cancel safety
            /// Dropping the returned future drops `future`, not the guard.
            pub async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
                run(self.signal(), || self.check(), future).await
            }

            /// Renews the hold, even a [`fixed`](crate::Request::fixed) one.
            ///
            /// # Errors
            /// [`Lost`](crate::ErrorKind::Lost) after a loss. Without an answer,
            /// [`Indeterminate`](crate::ErrorKind::Indeterminate) or
            /// [`Unavailable`](crate::ErrorKind::Unavailable); the deadline is unchanged.
            ///
            /// # Cancel safety
            /// May be dropped. The server may still renew the hold, but the deadline is unchanged.
            pub async fn renew(&self) -> Result<()> {
                self.0.renew().await
            }

            /// Asks the server whether this client has the hold.
            ///
            /// # Cancel safety
            /// May be dropped.
            pub async fn verify(&self) -> Result<bool> {
                self.0.verify().await
            }

            #[doc = concat!("Gives the ", $what, " back and waits for the server's answer. With reentrancy, only the last guard does.")]
            ///
            /// Doesn't ask the server if the client [hands the hold over](crate::Builder::local_turns)
            /// or [keeps it warm](crate::Request::keep_warm). An unnoticed loss isn't reported then.
            ///
            /// # Errors
            /// [`Lost`](crate::ErrorKind::Lost) if the hold was already lost, so the last work may
            /// have been unprotected. After any other error, the release continues in the
            /// background.
            ///
            /// # Cancel safety
            /// The release continues in the background.
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
    /// Returns the fence, to send with each write. The resource must reject a fence below the
    /// highest accepted one. Concurrent readers share a fence.
    pub fn fence(&self) -> Fence {
        self.0.hold().fence()
    }

    pub(super) fn hold(&self) -> &Arc<Hold> {
        self.0.hold()
    }

    pub(super) fn client(&self) -> &Arc<Shared> {
        &self.0.hold().shared
    }

    pub(super) fn ready(&self) -> Result<()> {
        if self.client().is_closed() { Err(self.closed()) } else { Ok(()) }
    }

    pub(super) fn closed(&self) -> Error {
        self.hold().error(Error::closed())
    }

    /// Returns the fence, and the name with the namespace.
    pub fn fenced(&self) -> Fenced {
        self.0.fenced()
    }

    /// Ends the hold in this client, and returns a ticket for
    /// [`Locks::resume`](crate::Locks::resume). The ticket has no [`Owner`](crate::Owner),
    /// [`max_hold`](crate::Request::max_hold), [`at_least`](crate::Request::at_least) or
    /// [`once_per`](crate::Request::once_per). Until resumed, no client renews the hold: it ends
    /// after its [remaining time](Self::remaining), unless extended to a whole TTL by
    /// [`Locks::renew_ticket`](crate::Locks::renew_ticket). After a wait on Redis, that may be 2 s:
    /// [renew](Self::renew) first.
    ///
    /// # Errors
    /// Each error returns the guard:
    ///
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) without `tickets` in the profile.
    /// - [`Conflict`](crate::ErrorKind::Conflict) while the owner has another guard on the hold.
    /// - [`Lost`](crate::ErrorKind::Lost) if the hold was already lost.
    pub fn into_ticket(mut self) -> Result<Ticket, TicketError> {
        match end_for_ticket(self.hold()) {
            Ok(()) => {
                let hold = self.0.0.take().expect("a guard has its hold until it is consumed");
                Ok(Ticket::new(&hold.claim, hold.fence(), hold.release_mode))
            }
            Err(error) => Err(TicketError { guard: self, error }),
        }
    }
}

/// A failed [`Guard::into_ticket`]: the guard and the error.
#[derive(Debug)]
pub struct TicketError {
    guard: Guard,
    error: Error,
}

impl TicketError {
    /// Returns the error.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Returns the guard.
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    /// Returns the error, and drops the guard.
    pub fn into_error(self) -> Error {
        self.error
    }
}

impl fmt::Display for TicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for TicketError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl Leadership {
    /// Returns the fence: see [`Guard::fence`].
    pub fn fence(&self) -> Fence {
        self.0.hold().fence()
    }

    /// Returns the fence, and the name with the namespace.
    pub fn fenced(&self) -> Fenced {
        self.0.fenced()
    }

    /// Returns the leader's public value.
    pub fn value(&self) -> &str {
        self.0.hold().claim.identity.value.as_deref().unwrap_or_default()
    }

    /// Same as [`release`](Self::release).
    pub async fn resign(self) -> Result<()> {
        self.0.release().await
    }
}

impl Permit {
    /// Returns an id, unique among the name's holds. Don't use it as a fence.
    pub fn id(&self) -> u64 {
        self.0.hold().fence().get()
    }
}

impl Inner {
    fn hold(&self) -> &Arc<Hold> {
        self.0.as_ref().expect("a guard has its hold until it is consumed")
    }

    fn fenced(&self) -> Fenced {
        let hold = self.hold();
        Fenced { name: hold.claim.name.clone(), fence: hold.fence() }
    }

    async fn renew(&self) -> Result<()> {
        let hold = self.hold();
        check(hold)?;
        let start = hold.clock().now();
        hold.begin_renewal();
        let asking = ask_renewal(&hold.shared, std::slice::from_ref(hold));
        let answer = match hold.shared.inside(asking).await {
            Ok(mut answers) => answers.pop(),
            Err(error) => {
                hold.note_failed_renewal();
                return Err(hold.error(error));
            }
        };
        let is_known =
            answer.as_ref().is_some_and(|it| it.outcome != RenewalOutcome::Indeterminate);
        let look_again = note_renewal(hold, answer, start, hold.clock().now());
        if hold.shared.table().holds.reschedule([(hold, look_again)]) {
            hold.shared.renewer.notify_one();
        }
        check(hold)?;
        if is_known {
            return Ok(());
        }
        Err(hold.error(unclear_renewal()))
    }

    async fn verify(&self) -> Result<bool> {
        let hold = self.hold();
        let inspecting = hold.shared.backend.inspect(&hold.claim.name);
        let seen = hold.shared.inside(inspecting).await.map_err(|error| hold.error(error))?;
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
        let now = hold.clock().now();
        if Shared::hand_over(&hold, now) {
            return Ok(());
        }
        let releasing = Releasing::begin(hold, now, Use::Released);
        let hold = releasing.hold();
        let span = span::release(&self.1);
        let answer = match releasing.is_kept() {
            true => None,
            false => {
                at_once(|| hold.shared.backend.release_at_once(&hold.claim, hold.release_mode, now))
            }
        };
        let released = match answer {
            Some(answer) => releasing.answered(answer),
            None => span::instrument(releasing.send(), &span).await,
        };
        span::record_error(&span, &released);
        released
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take() {
            end_in_background(hold, Use::Dropped);
        }
    }
}

fn check(hold: &Hold) -> Result<()> {
    match hold.state() {
        HoldState::Lost(reason) => Err(lost(hold, reason)),
        _ => Ok(()),
    }
}
