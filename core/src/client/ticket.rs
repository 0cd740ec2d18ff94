//! Tickets: transfers of a hold to another process.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::claim::{Claim, ReleaseMode, RenewalMode};
use crate::error::{Error, ErrorKind, Result};
use crate::mode::Mode;
use crate::name::LockName;
use crate::reason::Reason;
use crate::token::{Fence, Token};

use super::acquire;
use super::guard::Guard;
use super::locks::Locks;
use super::request::sealed::FromHold;

/// A hold in transfer, from [`Guard::into_ticket`] to [`Locks::resume`].
///
/// Serialise it in any format, and send it with the work. In transfer the hold isn't renewed: it expires one TTL
/// after its last renewal. A ticket is a credential: its bearer can resume the hold, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    name: LockName,
    mode: Mode,
    token: Token,
    fence: Fence,
    ttl: Duration,
    is_fixed: bool,
    /// An unanswered acquire of the token may arrive after the hold has expired, and create a different hold.
    #[serde(default)]
    is_open: bool,
}

impl Ticket {
    pub(super) fn new(claim: &Claim, fence: Fence, release_mode: ReleaseMode) -> Self {
        Self {
            name: claim.name.clone(),
            mode: claim.mode,
            token: claim.token,
            fence,
            ttl: claim.ttl,
            is_fixed: claim.renewal_mode == RenewalMode::Off,
            is_open: release_mode == ReleaseMode::Reconcile,
        }
    }

    /// Returns the full name, with the old client's namespace.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the fence of the transferred hold. The resumed hold has a larger one; a reader's stays the same.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Returns how long the server keeps the hold without a renewal.
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

    pub(super) fn renewal_mode(&self) -> RenewalMode {
        if self.is_fixed { RenewalMode::Off } else { RenewalMode::Auto }
    }
}

impl Locks {
    /// Resumes a ticket's hold, with a new token and a larger fence; a reader keeps its shared fence. The client
    /// then renews it, unless it was [`fixed`](crate::Request::fixed).
    ///
    /// While the server can't be reached, the client retries for one TTL. After an unanswered acquire, the client
    /// first checks that the token still has that hold.
    ///
    /// # Errors
    /// - [`Lost`](ErrorKind::Lost) if the hold expired, was broken or was resumed before, or the answer came after
    ///   its term.
    /// - [`Unsupported`](ErrorKind::Unsupported) if the profile has no `tickets`.
    /// - [`InvalidInput`](ErrorKind::InvalidInput) for a ticket of another namespace, or if this client's drift and
    ///   margin use up its TTL. The ticket remains valid.
    /// - Those of reaching the server: a hold that may have been resumed is released in the background.
    ///
    /// # Cancel safety
    /// May be dropped; a hold that may have been resumed is released in the background.
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

pub(super) fn too_late() -> Error {
    Error::new(
        ErrorKind::Lost(Reason::Expired),
        "the ticket's hold was resumed, but it expired before the server's answer arrived; it is released",
    )
}

pub(super) fn gone() -> Error {
    Error::new(
        ErrorKind::Lost(Reason::Gone),
        "the ticket's hold no longer exists: it expired, was broken, or was resumed by another client",
    )
}
