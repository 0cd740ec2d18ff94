use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use lockwright_core::{Claim, Clock, Error, ErrorKind, LockName, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::{CLOSED, Joined, JointSession, MARGIN, MOST, Member, Order, statement_limit};
use crate::server::session_lock::{Ended, Kept, Locked, Session, SessionId};
use crate::server::{Effect, errors};

/// How often a busy task checks for the session's end and other clients' requests.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a session without holds stays open, at most half its TTL. The server ends it after the
/// TTL.
pub(super) const KEPT: Duration = Duration::from_secs(5);

/// The most holds that one statement renews.
const BATCH: usize = 100;

struct Task<S> {
    /// Dropped first, so that losses are reported before the session ends.
    members: Members,
    id: SessionId,
    session: S,
    ttl: Duration,
    clock: Clock,
    backend: &'static str,
    orders: mpsc::WeakUnboundedSender<Order>,
    inbox: mpsc::UnboundedReceiver<Order>,
    slots: Arc<Semaphore>,
    waiting: Waiting,
    looked: Instant,
}

/// The holds. If the task is dropped, as at the runtime's end, they are reported as lost.
struct Members {
    /// Locks are re-entrant within a session, so a name stays here until the server has confirmed
    /// its release.
    all: HashMap<LockName, (Claim, watch::Sender<bool>)>,
    lost: Box<dyn Fn(&Claim) + Send>,
}

impl Drop for Members {
    fn drop(&mut self) {
        self.all.values().for_each(|(claim, _)| (self.lost)(claim));
    }
}

/// Received orders. Renewals go first, because they have a deadline.
#[derive(Default)]
struct Waiting {
    keeps: VecDeque<(Claim, oneshot::Sender<Result<Kept>>)>,
    unlocks: VecDeque<(Claim, oneshot::Sender<Result<bool>>)>,
    locks: VecDeque<(Claim, OwnedSemaphorePermit, oneshot::Sender<Result<Joined>>)>,
    retire: bool,
}

impl Waiting {
    fn add(&mut self, order: Order) {
        match order {
            Order::Keep(claim, answer) => self.keeps.push_back((claim, answer)),
            Order::Unlock(claim, answer) => self.unlocks.push_back((claim, answer)),
            Order::Lock(claim, slot, answer) => self.locks.push_back((claim, slot, answer)),
            Order::Retire => self.retire = true,
        }
    }
}

pub(super) fn start<S: Session>(
    session: S,
    ttl: Duration,
    clock: Clock,
    backend: &'static str,
    lost: Box<dyn Fn(&Claim) + Send>,
) -> JointSession {
    let (orders, inbox) = mpsc::unbounded_channel();
    let slots = Arc::new(Semaphore::new(MOST));
    let task = Task {
        members: Members { all: HashMap::new(), lost },
        id: session.id(),
        session,
        ttl,
        clock,
        backend,
        orders: orders.downgrade(),
        inbox,
        slots: Arc::clone(&slots),
        waiting: Waiting::default(),
        looked: Instant::now(),
    };
    tokio::spawn(task.run());
    JointSession { ttl, orders, slots }
}

impl<S: Session> Task<S> {
    /// Serves orders until the session ends, fails, or has had no hold for [`KEPT`].
    async fn run(mut self) {
        loop {
            match self.serve().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::debug!(%error, session = self.id, "a joint session has failed");
                    break;
                }
            }
        }
        let Self { session, ttl, inbox, waiting, slots, mut members, .. } = self;
        // Each hold's task finds the reason of the loss and reports it, so `members` reports no
        // loss.
        members.all.clear();
        drop((inbox, waiting, members));
        // Closing the session frees the locks, so the task first waits until all losses are
        // reported.
        let all = u32::try_from(MOST).unwrap_or(u32::MAX);
        let _ = timeout(ttl, slots.acquire_many(all)).await;
        session.close().await;
    }

    /// Returns false when the session has ended or isn't needed any more.
    async fn serve(&mut self) -> Result<bool> {
        while let Ok(order) = self.inbox.try_recv() {
            self.waiting.add(order);
        }
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            match self.session.ended().now_or_never() {
                Some(Ended::Session) => return Ok(false),
                Some(Ended::Asked) => self.look().await?,
                None => {}
            }
        }
        let retire = std::mem::take(&mut self.waiting.retire);
        if !self.waiting.keeps.is_empty() {
            self.renew().await?;
        } else if let Some((claim, answer)) = self.waiting.unlocks.pop_front() {
            self.unlock(&claim, answer).await?;
        } else if let Some((claim, slot, answer)) = self.waiting.locks.pop_front() {
            self.lock(claim, slot, answer).await?;
        } else if retire && self.members.all.is_empty() {
            return Ok(false);
        } else {
            tokio::select! {
                biased;
                order = self.inbox.recv() => match order {
                    Some(order) => self.waiting.add(order),
                    None => return Ok(false),
                },
                ended = self.session.ended() => match ended {
                    Ended::Session => return Ok(false),
                    Ended::Asked => self.look().await?,
                },
                () = tokio::time::sleep(KEPT.min(self.ttl / 2)), if self.members.all.is_empty() => {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    async fn lock(
        &mut self,
        claim: Claim,
        slot: OwnedSemaphorePermit,
        answer: oneshot::Sender<Result<Joined>>,
    ) -> Result<()> {
        if self.members.all.contains_key(&claim.name) {
            let _ = answer.send(Ok(Joined::Busy));
            return Ok(());
        }
        let sent = self.clock.now();
        let locked = limited(self.ttl, self.backend, self.session.lock(&claim, None, true)).await;
        let joined = match locked {
            Ok(Locked::Yes(grant)) => {
                let orders = self.orders.upgrade().ok_or_else(|| Error::unavailable(CLOSED))?;
                let (sender, ended) = watch::channel(false);
                self.members.all.insert(claim.name.clone(), (claim.clone(), sender));
                let (id, is_released) = (self.id, false);
                let member = Member { id, claim, orders, ended, is_released, _slot: slot };
                Ok(Joined::Locked(member, grant, sent))
            }
            Ok(Locked::No { same_token: true }) => Ok(Joined::SameToken),
            Ok(Locked::No { same_token: false }) => Ok(Joined::Busy),
            Err(error) if error.kind() == ErrorKind::Indeterminate => {
                let _ = answer.send(Err(error));
                return Err(Error::unavailable(CLOSED));
            }
            Err(error) => {
                // The failed statement may have acquired the lock.
                let unlocking = self.session.unlock(&claim);
                limited(self.ttl, self.backend, unlocking).await?;
                Err(error)
            }
        };
        // If the caller is gone, the member's drop releases the lock.
        let _ = answer.send(joined);
        Ok(())
    }

    async fn unlock(&mut self, claim: &Claim, answer: oneshot::Sender<Result<bool>>) -> Result<()> {
        let mut was_locked = false;
        if self.is_member(claim) {
            was_locked = limited(self.ttl, self.backend, self.session.unlock(claim)).await?;
            self.members.all.remove(&claim.name);
        }
        let _ = answer.send(Ok(was_locked));
        Ok(())
    }

    async fn renew(&mut self) -> Result<()> {
        let count = self.waiting.keeps.len().min(BATCH);
        let (claims, answers): (Vec<_>, Vec<_>) = self.waiting.keeps.drain(..count).unzip();
        let kept = limited(self.ttl, self.backend, self.session.keep(&claims)).await?;
        for ((claim, answer), kept) in claims.iter().zip(answers).zip(kept) {
            let kept = if self.is_member(claim) { Ok(kept) } else { Ok(Kept::Ended) };
            let _ = answer.send(kept);
        }
        Ok(())
    }

    /// Reads the records of all holds, and reports those that another client has ended.
    async fn look(&mut self) -> Result<()> {
        let claims: Vec<_> = self.members.all.values().map(|(claim, _)| claim.clone()).collect();
        for some in claims.chunks(BATCH) {
            let kept = limited(self.ttl, self.backend, self.session.keep(some)).await?;
            for (claim, kept) in some.iter().zip(kept) {
                if kept == Kept::Ended
                    && let Some((_, ended)) = self.members.all.get(&claim.name)
                {
                    ended.send_replace(true);
                }
            }
        }
        Ok(())
    }

    fn is_member(&self, claim: &Claim) -> bool {
        self.members.all.get(&claim.name).is_some_and(|(member, _)| member.token == claim.token)
    }
}

/// Limits a request's time. After a timeout, the session must be closed, because its answer may
/// still arrive.
pub(super) async fn limited<T>(
    ttl: Duration,
    backend: &'static str,
    request: impl Future<Output = Result<T>>,
) -> Result<T> {
    // MySQL counts the limit in whole seconds.
    let server = statement_limit(ttl).as_nanos().div_ceil(1_000_000_000) as u64;
    let limit = Duration::from_secs(server) + MARGIN;
    timeout(limit, request)
        .await
        .unwrap_or_else(|_| Err(errors::timed_out(Effect::Changes, limit, backend)))
}
