use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Claim, Error, ErrorKind, Fence, LockName, Mode, Reason, ReleaseMode, RenewalMode, Token,
};

/// A hold in transfer, from [`Guard::into_ticket`](crate::Guard::into_ticket) to
/// [`Locks::resume`](crate::Locks::resume).
///
/// A ticket is a credential: its bearer can resume the hold, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    name: LockName,
    pub(super) mode: Mode,
    pub(super) token: Token,
    fence: Fence,
    ttl: Duration,
    is_fixed: bool,
    /// True if an unanswered acquire may arrive after the hold's expiry, and create another hold
    /// with this token.
    #[serde(default)]
    pub(super) is_open: bool,
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

    /// Returns the name with the namespace.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the fence.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Returns the hold's TTL.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn renewal_mode(&self) -> RenewalMode {
        if self.is_fixed { RenewalMode::Off } else { RenewalMode::Auto }
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
