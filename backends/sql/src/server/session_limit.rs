use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Request,
    Hold,
    /// A joint session, which several holds share. A claim that waits can't use this permit.
    Joint,
    Listen,
}

/// The limits on one backend's server sessions, by use. One session is reserved for ending
/// abandoned sessions.
///
/// A connection keeps its permit until the server has ended its session. A session that may outlive
/// its connection goes to `Pool::abandon`, with the permit.
#[derive(Debug, Clone)]
pub(crate) struct SessionLimit {
    shares: [(usize, Arc<Semaphore>); 4],
}

pub(crate) type SessionPermit = OwnedSemaphorePermit;

impl SessionLimit {
    pub(crate) const LEASE: usize = 8;
    pub(crate) const HELD: usize = 32;
    const OWN: usize = 4;
    pub(crate) const LEAST: usize = 2;
    pub(crate) const LEAST_HELD: usize = 4;

    pub(crate) fn lease(total: usize, listens: bool) -> Self {
        let listen = usize::from(listens && total > Self::LEAST);
        Self::of([total.saturating_sub(1 + listen), 0, 0, listen])
    }

    /// All are for requests, because Lockwright ends no session of a program's pool.
    pub(crate) fn borrowed(total: usize) -> Self {
        Self::of([total, 0, 0, 0])
    }

    pub(crate) fn held(total: usize, listens: bool, can_share: bool) -> Self {
        let (request, listen) = ((total / 4).clamp(1, 4), usize::from(listens));
        let rest = total.saturating_sub(1 + listen + request);
        let joint = usize::from(can_share && rest > 1);
        Self::of([request, rest - joint, joint, listen])
    }

    fn of(counts: [usize; 4]) -> Self {
        Self { shares: counts.map(|count| (count, Arc::new(Semaphore::new(count)))) }
    }

    pub(crate) fn share(&self, of: Use) -> usize {
        self.shares[of as usize].0
    }

    pub(crate) fn open(&self, of: Use) -> usize {
        let (count, semaphore) = &self.shares[of as usize];
        count.saturating_sub(semaphore.available_permits())
    }

    /// Returns how many holds get their own session before others share one, or `None` if none
    /// share.
    pub(crate) fn own(&self) -> Option<usize> {
        (self.share(Use::Joint) > 0).then(|| (self.share(Use::Hold) / 2).min(Self::OWN))
    }

    pub(crate) async fn permit(&self, of: Use, deadline: Instant) -> Option<SessionPermit> {
        let semaphore = Arc::clone(&self.shares[of as usize].1);
        timeout_at(deadline, semaphore.acquire_owned()).await.ok()?.ok()
    }

    pub(crate) fn try_permit(&self, of: Use) -> Option<SessionPermit> {
        Arc::clone(&self.shares[of as usize].1).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_limit() {
        let sum =
            |limit: &SessionLimit| limit.shares.iter().map(|(count, _)| count).sum::<usize>() + 1;
        for total in 2..100 {
            for listens in [false, true] {
                let limit = SessionLimit::lease(total, listens);
                assert_eq!(sum(&limit), total);
                assert!(limit.share(Use::Request) > 0);
            }
        }
        for total in SessionLimit::LEAST_HELD..100 {
            for (listens, can_share) in [(false, true), (true, false), (true, true)] {
                let limit = SessionLimit::held(total, listens, can_share);
                assert_eq!(sum(&limit), total);
                assert!(limit.share(Use::Request) > 0 && limit.share(Use::Hold) > 0);
            }
        }
    }
}
