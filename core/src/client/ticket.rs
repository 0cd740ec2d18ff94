use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    BootInstant, Claim, Error, ErrorKind, Fence, Holder, LockName, Mode, Reason, ReleaseMode,
    ReleaseOutcome, Renew, RenewalMode, Result, Token,
};

use super::acquire::{Answer, TRY_AGAIN, into_hold, take_answer};
use super::renewer::renew_once;
use super::state::Turn;
use super::state::background_release::send_release;
use super::{Hold, Options, Pending, Shared, answer};

/// A hold without a guard, from [`Guard::into_ticket`](crate::Guard::into_ticket) to
/// [`Locks::resume`](crate::Locks::resume) or
/// [`Locks::release_ticket`](crate::Locks::release_ticket).
///
/// A ticket is a credential: its bearer can renew and release the hold, and resume it once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    name: LockName,
    mode: Mode,
    token: Token,
    fence: Fence,
    ttl: Duration,
    is_fixed: bool,
    /// True if an unanswered acquire may arrive after the hold's expiry, and create another hold
    /// with this token.
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

    fn options(&self, shared: &Shared) -> Result<Options> {
        let mut options = Options::new(shared, shared.user_name(&self.name).as_str(), self.mode);
        options.ttl = self.ttl;
        if self.is_fixed {
            options.renewal_mode = RenewalMode::Off;
        }
        options.check(shared)?;
        Ok(options)
    }

    fn claim(&self, shared: &Shared, now: BootInstant) -> Result<Claim> {
        let options = self.options(shared)?;
        Ok(Pending::new(shared, self.name.clone(), self.token, &options, 1, now).claim)
    }
}

pub(super) async fn renew(shared: &Shared, ticket: &Ticket) -> Result<()> {
    let now = shared.clock.now();
    let claim = ticket.claim(shared, now)?;
    let renew = Renew::of(&claim);
    let until = now + renew.patience;
    match renew_once(shared, renew, "the renewal").await? {
        None => {}
        Some(Reason::Gone) => return Err(gone()),
        Some(reason) => return Err(Error::lost(reason, ticket.name())),
    }
    // After the renewal: if the hold still has the ticket's fence, that hold was renewed.
    if !ticket.is_open || is_there(shared, ticket, None, shared.clock.now(), until).await? {
        return Ok(());
    }
    // A late duplicate of the acquire has created another hold, which no client would release.
    let _ = send_release(shared, &claim, ReleaseMode::Reconcile).await;
    Err(gone())
}

pub(super) async fn release(shared: &Shared, ticket: &Ticket) -> Result<()> {
    let now = shared.clock.now();
    let claim = ticket.claim(shared, now)?;
    let (release_mode, was_there) = if ticket.is_open {
        let was_there = is_there(shared, ticket, None, now, now + claim.ttl).await?;
        (ReleaseMode::Reconcile, was_there)
    } else {
        (ReleaseMode::Plain, true)
    };
    match send_release(shared, &claim, release_mode).await? {
        ReleaseOutcome::Released if was_there => Ok(()),
        _ => Err(gone()),
    }
}

/// Retries for one TTL: then the ticket's hold, which isn't renewed, has expired.
pub(super) async fn resume(shared: Arc<Shared>, ticket: &Ticket) -> Result<Arc<Hold>> {
    // Invalid options must not consume the ticket.
    let options = ticket.options(&shared)?;
    let mut turn = Turn::placeholder(Arc::clone(&shared), ticket.name().clone());
    let begun = shared.clock.now();
    let give_up_at = begun + options.ttl;
    let mut pause = TRY_AGAIN.0;
    // False if a newer hold may have the ticket's token (see `Ticket::is_open`), which a swap would
    // take.
    let mut is_the_same = !ticket.is_open;
    loop {
        let sent = shared.clock.now();
        let failure = if is_the_same {
            let (shared, pending) = turn.claim(&options, sent);
            let before = pending.send(sent);
            let claim = &pending.claim;
            let useless = shared.term(sent, claim.ttl, None).lost_at.min(give_up_at);
            let send = || shared.backend.swap(ticket.token, claim);
            let answer = answer(shared, send, useless, "the resumption").await;
            match take_answer(shared, pending, before, answer, sent) {
                Answer::Granted(grant) => return Ok(into_hold(&mut turn, &options, grant, begun)),
                Answer::Busy(_) => return Err(gone()),
                Answer::TooLate => return Err(too_late()),
                Answer::Failed(failure) => {
                    is_the_same = !ticket.is_open;
                    failure
                }
            }
        } else {
            let swapped = turn.pending.as_ref().map(|pending| pending.claim.token);
            match is_there(&shared, ticket, swapped, sent, give_up_at).await {
                Ok(true) => {
                    is_the_same = true;
                    continue;
                }
                Ok(false) => return Err(gone()),
                Err(failure) => failure,
            }
        };
        let now = shared.clock.now();
        if !failure.is_transient() || now >= give_up_at {
            return Err(turn.doubted(failure));
        }
        shared.clock.sleep_until((now + shared.spread(pause)).min(give_up_at)).await;
        pause = (pause * 2).min(TRY_AGAIN.1);
    }
}

/// Returns whether the server has the ticket's hold, under the ticket's token or `swapped`, the new
/// token of an earlier swap.
async fn is_there(
    shared: &Shared,
    ticket: &Ticket,
    swapped: Option<Token>,
    now: BootInstant,
    give_up_at: BootInstant,
) -> Result<bool> {
    let useless = shared.term(now, ticket.ttl(), None).lost_at.min(give_up_at);
    let look = || shared.backend.inspect(ticket.name());
    let seen = answer(shared, look, useless, "the check of the ticket's hold").await?;
    let is_it = |holder: &Holder| match holder.token {
        Some(token) if Some(token) == swapped => true,
        token => {
            token == Some(ticket.token) && holder.fence.is_none_or(|fence| fence == ticket.fence())
        }
    };
    Ok(seen.holders.iter().any(is_it))
}

fn too_late() -> Error {
    Error::new(
        ErrorKind::Lost(Reason::Expired),
        "the ticket's hold was resumed, but it expired before the server's answer arrived; it is released",
    )
}

fn gone() -> Error {
    Error::new(
        ErrorKind::Lost(Reason::Gone),
        "the ticket's hold no longer exists: it expired, was broken or released, or was resumed by another client",
    )
}
