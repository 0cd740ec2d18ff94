use std::time::Duration;

use lockwright::operator::{Holder, Inspection};
use lockwright::{Fence, LockName, Locks, Token};
use tokio::time::sleep;

use crate::run::elect::longer;
use crate::{Failure, args, exit};

/// The token; for another library's hold, which has none, the fence.
pub(super) type HoldKey = (LockName, Option<Token>, Option<Fence>);

pub(super) fn holds(names: &[Inspection]) -> impl Iterator<Item = (HoldKey, &Inspection, &Holder)> {
    names.iter().flat_map(|seen| {
        seen.holders.iter().map(move |holder| {
            let fence = holder.fence.filter(|_| holder.token.is_none());
            ((seen.name.clone(), holder.token, fence), seen, holder)
        })
    })
}

pub(super) struct Poller<'l> {
    locks: &'l Locks,
    what: &'l args::PollOptions,
    pause: Duration,
}

impl<'l> Poller<'l> {
    pub(super) fn new(locks: &'l Locks, what: &'l args::PollOptions) -> Self {
        Self { locks, what, pause: Duration::ZERO }
    }

    /// A failure of the server or the network is the inner error, and makes the next pause longer.
    pub(super) async fn next(&mut self) -> Result<Result<Vec<Inspection>, Failure>, Failure> {
        sleep(self.pause).await;
        match self.locks.list(&self.what.prefix).await.map_err(Failure::from) {
            Ok(names) => {
                self.pause = self.what.every;
                Ok(Ok(names))
            }
            Err(failure) if failure.code == exit::UNAVAILABLE => {
                self.pause = longer(self.pause).max(self.what.every);
                Ok(Err(failure))
            }
            Err(failure) => Err(failure),
        }
    }
}
