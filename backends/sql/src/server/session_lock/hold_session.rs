use std::time::Duration;

use lockwright_core::{Claim, Result};

use super::{Ended, Kept, Member, Server, Session, SessionId};

pub(super) enum HoldSession<S: Server> {
    Own(S::Session),
    Joint(Member),
}

impl<S: Server> HoldSession<S> {
    pub(super) fn id(&self) -> SessionId {
        match self {
            Self::Own(session) => session.id(),
            Self::Joint(member) => member.id(),
        }
    }

    pub(super) async fn keep(&mut self, claim: &Claim) -> Result<Kept> {
        match self {
            Self::Own(session) => {
                let kept = session.keep(std::slice::from_ref(claim)).await?;
                Ok(kept.first().copied().unwrap_or(Kept::Unsure))
            }
            Self::Joint(member) => member.keep().await,
        }
    }

    /// Shortens the idle timeout of a hold's own session. From a joint session, the hold's task
    /// releases the lock in time.
    pub(super) async fn shorten(&mut self, to: Duration) -> Result<()> {
        match self {
            Self::Own(session) => session.shorten(to).await,
            Self::Joint(_) => Ok(()),
        }
    }

    pub(super) async fn unlock(&mut self, claim: &Claim) -> Result<bool> {
        match self {
            Self::Own(session) => session.unlock(claim).await,
            Self::Joint(member) => member.unlock().await,
        }
    }

    pub(super) async fn ended(&mut self) {
        match self {
            Self::Own(session) => while session.ended().await != Ended::Session {},
            Self::Joint(member) => member.ended().await,
        }
    }

    pub(super) async fn close(self) {
        match self {
            Self::Own(session) => session.close().await,
            Self::Joint(member) => drop(member),
        }
    }
}
