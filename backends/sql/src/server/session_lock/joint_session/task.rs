use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use lockwright_core::{Claim, Clock, Error, ErrorKind, LockName, Result};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::{Answer, CLOSED, JointSession, LockOrder, MARGIN, MOST, Orders, statement_limit};
use crate::server::session_lock::{Ended, Kept, Locked, Session};
use crate::server::{Effect, errors};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a session without holds stays open; at most half of its TTL, after which the server
/// ends an idle session.
pub(super) const KEPT: Duration = Duration::from_secs(5);

const BATCH: usize = 100;

struct Task<S> {
    /// Dropped first, to report losses before the session ends.
    members: Members,
    session: S,
    ttl: Duration,
    clock: Clock,
    backend: &'static str,
    keeps: UnboundedReceiver<(Claim, Answer<Kept>)>,
    unlocks: UnboundedReceiver<(Claim, Answer<bool>)>,
    locks: UnboundedReceiver<LockOrder>,
    slots: Arc<Semaphore>,
    looked: Instant,
}

/// Reports the holds as lost if the task is dropped, as at the runtime's end.
struct Members {
    /// A name stays until the server has confirmed its release. Before, the session could acquire
    /// its own lock again.
    all: HashMap<LockName, (Claim, watch::Sender<bool>)>,
    lost: Box<dyn Fn(&Claim) + Send>,
}

impl Drop for Members {
    fn drop(&mut self) {
        self.all.values().for_each(|(claim, _)| (self.lost)(claim));
    }
}

pub(super) fn start<S: Session>(
    session: S,
    ttl: Duration,
    clock: Clock,
    backend: &'static str,
    lost: Box<dyn Fn(&Claim) + Send>,
) -> JointSession {
    let (keep, keeps) = unbounded_channel();
    let (unlock, unlocks) = unbounded_channel();
    let (lock, locks) = unbounded_channel();
    let slots = Arc::new(Semaphore::new(MOST));
    let orders = Orders { id: session.id(), keeps: keep, unlocks: unlock, locks: lock };
    let joint = JointSession { ttl, orders, slots: Arc::clone(&slots) };
    let (members, looked) = (Members { all: HashMap::new(), lost }, Instant::now());
    let task = Task { members, session, ttl, clock, backend, keeps, unlocks, locks, slots, looked };
    tokio::spawn(task.run());
    joint
}

impl<S: Session> Task<S> {
    async fn run(mut self) {
        loop {
            match self.serve().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    let session = self.session.id();
                    tracing::debug!(%error, session, "a joint session has failed");
                    break;
                }
            }
        }
        let Self { session, ttl, keeps, unlocks, locks, slots, mut members, .. } = self;
        // Each hold's task reports the loss with its reason.
        members.all.clear();
        drop(members);
        tokio::join!(refuse(keeps), refuse(unlocks), refuse(locks));
        // Closing the session frees the locks, so the task first waits for all reports.
        let all = u32::try_from(MOST).unwrap_or(u32::MAX);
        let _ = timeout(ttl, slots.acquire_many(all)).await;
        session.close().await;
    }

    /// Serves the next orders. Renewals go first, because they have a deadline. Returns false if
    /// the session has ended or isn't needed.
    async fn serve(&mut self) -> Result<bool> {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            if let Some(ended) = self.session.ended().now_or_never() {
                return self.ended(ended).await;
            }
        }
        let mut keeps = Vec::new();
        tokio::select! {
            biased;
            count = self.keeps.recv_many(&mut keeps, BATCH) => match count {
                0 => return Ok(false),
                _ => self.renew(keeps).await?,
            },
            Some((claim, answer)) = self.unlocks.recv() => {
                let _ = answer.send(Ok(self.unlock(&claim).await?));
            }
            Some(order) = self.locks.recv() => self.lock(order).await?,
            ended = self.session.ended() => return self.ended(ended).await,
            () = tokio::time::sleep(KEPT.min(self.ttl / 2)), if self.members.all.is_empty() => {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn lock(&mut self, (claim, answer, ended): LockOrder) -> Result<()> {
        let sent = self.clock.now();
        if self.members.all.contains_key(&claim.name) {
            let _ = answer.send(Ok((Locked::No { same_token: false }, sent)));
            return Ok(());
        }
        match limited(self.ttl, self.backend, self.session.lock(&claim, None, true)).await {
            Ok(locked) => {
                if matches!(locked, Locked::Yes(_)) {
                    self.members.all.insert(claim.name.clone(), (claim.clone(), ended));
                }
                if answer.send(Ok((locked, sent))).is_err() {
                    self.unlock(&claim).await?;
                }
            }
            Err(error) => {
                let is_silent = error.kind() == ErrorKind::Indeterminate;
                if !is_silent {
                    // The failed statement may have acquired the lock.
                    let unlocking = self.session.unlock(&claim);
                    limited(self.ttl, self.backend, unlocking).await?;
                }
                let _ = answer.send(Err(error));
                if is_silent {
                    return Err(Error::unavailable(CLOSED));
                }
            }
        }
        Ok(())
    }

    async fn unlock(&mut self, claim: &Claim) -> Result<bool> {
        let mut was_locked = false;
        if self.is_member(claim) {
            was_locked = limited(self.ttl, self.backend, self.session.unlock(claim)).await?;
            self.members.all.remove(&claim.name);
        }
        Ok(was_locked)
    }

    async fn renew(&mut self, orders: Vec<(Claim, Answer<Kept>)>) -> Result<()> {
        let (claims, answers): (Vec<_>, Vec<_>) = orders.into_iter().unzip();
        let kept = limited(self.ttl, self.backend, self.session.keep(&claims)).await?;
        for ((claim, answer), kept) in claims.iter().zip(answers).zip(kept) {
            let _ = answer.send(Ok(if self.is_member(claim) { kept } else { Kept::Ended }));
        }
        Ok(())
    }

    /// Returns false if the session has ended. Otherwise reads all records, and reports the holds
    /// that another client has ended.
    async fn ended(&mut self, ended: Ended) -> Result<bool> {
        if ended == Ended::Session {
            return Ok(false);
        }
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
        Ok(true)
    }

    fn is_member(&self, claim: &Claim) -> bool {
        self.members.all.get(&claim.name).is_some_and(|(member, _)| member.token == claim.token)
    }
}

/// Drops all orders, also those being sent, which a dropped receiver would leave in its channel.
async fn refuse<T>(mut orders: UnboundedReceiver<T>) {
    orders.close();
    while orders.recv().await.is_some() {}
}

/// Limits a request's time. After a timeout, the caller must close the session, because the answer
/// may still arrive.
pub(super) async fn limited<T>(
    ttl: Duration,
    backend: &'static str,
    request: impl Future<Output = Result<T>>,
) -> Result<T> {
    // Rounded up, because MySQL counts the limit in whole seconds.
    let server = statement_limit(ttl).as_nanos().div_ceil(1_000_000_000) as u64;
    let limit = Duration::from_secs(server) + MARGIN;
    timeout(limit, request)
        .await
        .unwrap_or_else(|_| Err(errors::timed_out(Effect::Changes, limit, backend)))
}
