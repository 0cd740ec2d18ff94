//! A hold that moves to another process.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::claim::{Claim, Settle, Upkeep};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Reason;
use crate::mode::Mode;
use crate::name::LockName;
use crate::token::{Fence, Token};

use super::acquire;
use super::guard::Guard;
use super::locks::Locks;
use super::request::sealed::FromHold;

/// A hold on its way to another process: made by [`Guard::into_ticket`], taken over by
/// [`Locks::resume`].
///
/// Serialise it, with whatever format, and send it along with the work. Nobody believes in the hold on the
/// way, and nobody renews it: it runs out one TTL after its last renewal. Whoever has the ticket can take
/// the hold over, once, so send it as you would a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    name: LockName,
    mode: Mode,
    token: Token,
    fence: Fence,
    ttl: Duration,
    is_fixed: bool,
    /// Whether an acquire of the token was left unanswered. It may arrive when the hold has run out, and bring
    /// the token a hold that isn't this one.
    #[serde(default)]
    is_open: bool,
}

impl Ticket {
    pub(super) fn new(claim: &Claim, fence: Fence, settle: Settle) -> Self {
        Self {
            name: claim.name.clone(),
            mode: claim.mode,
            token: claim.token,
            fence,
            ttl: claim.ttl,
            is_fixed: claim.upkeep == Upkeep::Fixed,
            is_open: settle == Settle::Unanswered,
        }
    }

    /// The name on the server, with the namespace of the client that held it.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// The fence of the hold that moves. The one who takes it over has a larger one, or, of a reader, the same.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// How long the server keeps the hold without a renewal.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn token(&self) -> Token {
        self.token
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(super) fn upkeep(&self) -> Upkeep {
        if self.is_fixed { Upkeep::Fixed } else { Upkeep::Renewed }
    }
}

impl Locks {
    /// Takes over the hold of a ticket, with a token of its own and a larger fence; a reader's fence, which it
    /// shares with others, stays the same. It is renewed from then on,
    /// unless it was [`fixed`](crate::Request::fixed). A server that can't be reached is asked again for
    /// one TTL. Where an acquire of the hold was left unanswered, the server is asked first whether the token
    /// still has that hold.
    ///
    /// # Errors
    /// - [`Lost`](ErrorKind::Lost) if the hold isn't there any more: it ran out, was broken, or was taken
    ///   over by somebody else; or the answer came when the time of what was taken over was up.
    /// - [`Unsupported`](ErrorKind::Unsupported) where the profile has no `tickets`.
    /// - [`InvalidInput`](ErrorKind::InvalidInput) for a ticket of another namespace, or whose TTL is used up by
    ///   the drift and the margin that this client reckons with. The ticket is as good as before then.
    /// - Those of reaching the server: what may have been taken over is given back in the background.
    ///
    /// # Cancel safety
    /// May be dropped; what may have been taken over is given back in the background.
    pub async fn resume(&self, ticket: &Ticket) -> Result<Guard> {
        let shared = self.shared();
        let name = ticket.name();
        shared.ready().map_err(|error| shared.tell(error, name))?;
        if !shared.backend.profile().tickets {
            let what = "moving a hold to another process";
            return Err(Error::unsupported(what, shared.backend.profile()).with_name(name));
        }
        if !name.as_str().starts_with(&shared.settings.namespace) {
            return Err(Error::invalid_input(format!(
                "this ticket is for {:?}, which isn't in the namespace {:?} of this client",
                name.as_str(),
                shared.settings.namespace
            )));
        }
        let hold =
            shared.unless_closed(Box::pin(acquire::by_ticket(Arc::clone(shared), ticket))).await;
        let hold = hold.map_err(|error| shared.tell(error, name))?;
        Ok(Guard::from_hold(acquire::admitted(hold)?))
    }
}

/// The hold was taken over, and its time was up when the answer came.
pub(super) fn too_late() -> Error {
    Error::new(
        ErrorKind::Lost(Reason::Expired),
        "the hold of this ticket was taken over, but its time was up when the server's answer came; it is \
         given back",
    )
}

/// The hold of a ticket isn't there.
pub(super) fn gone() -> Error {
    Error::new(
        ErrorKind::Lost(Reason::Gone),
        "the hold of this ticket isn't there any more: it ran out, was broken, or was taken over by \
         somebody else",
    )
}
