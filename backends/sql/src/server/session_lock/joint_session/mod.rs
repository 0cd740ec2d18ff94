//! Joint sessions have several holds, because a server limits its connections. All holds of a
//! session have one TTL. A hold's deadline counts from its own last answered statement.
//!
//! Each session has a task, which sends one statement at a time.

mod task;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Claim, Error, Reason, Result};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::timeout;

use super::task::live_session;
use super::{EngineState, Kept, Locked, Server, Session, SessionId};
use crate::server::{Use, errors};

use task::{limited, start};

/// The most holds of one session, all of which end with it.
const MOST: usize = 500;

/// A short TTL would give a slow server too little time.
const LEAST_LIMIT: Duration = Duration::from_millis(250);

const MOST_LIMIT: Duration = Duration::from_secs(2);

const CLOSED: &str = "the session was closed";

/// The client adds this to the server's time limit.
const MARGIN: Duration = Duration::from_secs(1);

/// Returns the server's time limit for a joint session's statement. A renewal, which has at most a
/// fifth of the TTL, may first wait for another hold's statement.
pub(crate) fn statement_limit(ttl: Duration) -> Duration {
    (ttl / 8).clamp(LEAST_LIMIT, MOST_LIMIT)
}

#[derive(Default)]
pub(super) struct JointSessions {
    list: Mutex<Vec<JointSession>>,
    opening: tokio::sync::Mutex<()>,
}

struct JointSession {
    ttl: Duration,
    orders: Orders,
    slots: Arc<Semaphore>,
}

/// If the task drops an answer's sender, the session has ended or will end.
#[derive(Debug, Clone)]
struct Orders {
    id: SessionId,
    keeps: UnboundedSender<(Claim, Answer<Kept>)>,
    unlocks: UnboundedSender<(Claim, Answer<bool>)>,
    locks: UnboundedSender<LockOrder>,
}

type Answer<T> = oneshot::Sender<Result<T>>;

type LockOrder = (Claim, Answer<(Locked, BootInstant)>, watch::Sender<bool>);

/// A hold in a joint session, or an attempt to acquire it. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct Member {
    claim: Claim,
    orders: Orders,
    /// True once another client has ended the hold. Closed when the session ends.
    ended: watch::Receiver<bool>,
    is_released: bool,
    _slot: OwnedSemaphorePermit,
}

impl JointSessions {
    pub(super) fn count(&self) -> usize {
        let mut list = lock(&self.list);
        list.retain(|joint| !joint.orders.locks.is_closed());
        list.len()
    }

    fn slot(&self, ttl: Duration) -> Option<Slot> {
        let list = lock(&self.list);
        list.iter()
            .filter(|joint| joint.ttl == ttl && !joint.orders.locks.is_closed())
            .find_map(JointSession::slot)
    }

    pub(super) fn retire(&self) {
        lock(&self.list).retain(|joint| joint.slots.available_permits() < MOST);
    }
}

pub(super) struct Slot {
    orders: Orders,
    permit: OwnedSemaphorePermit,
}

pub(super) async fn slot<S: Server>(state: &Arc<EngineState<S>>, claim: &Claim) -> Result<Slot> {
    if let Some(found) = state.joint_sessions.slot(claim.ttl) {
        return Ok(found);
    }
    let pool = &state.server.pool;
    let backend = pool.dialect().backend();
    // Only one request at a time opens a session. The others wait, for less than the client's
    // limit.
    let limit = pool.limits().connect.min(claim.patience() / 2);
    let Ok(_opening) = timeout(limit, state.joint_sessions.opening.lock()).await else {
        return Err(errors::no_session_in(limit, pool.refusal(), backend));
    };
    if let Some(found) = state.joint_sessions.slot(claim.ttl) {
        return Ok(found);
    }
    let (mut session, _) = live_session(state, claim, Use::Joint).await?;
    limited(claim.ttl, backend, session.join(claim.ttl)).await?;
    let lost = {
        let state = Arc::clone(state);
        move |claim: &Claim| state.report(claim, Reason::SessionEnded)
    };
    let joint = start(session, claim.ttl, state.clock.clone(), backend, Box::new(lost));
    let slot = joint.slot().ok_or_else(|| Error::unavailable(CLOSED))?;
    lock(&state.joint_sessions.list).push(joint);
    Ok(slot)
}

impl JointSession {
    fn slot(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        Some(Slot { orders: self.orders.clone(), permit })
    }
}

impl Slot {
    /// Tries the lock. Returns `None` if the session ended before. If the future is dropped, the
    /// session's task releases the lock later.
    pub(super) async fn lock(self, claim: &Claim) -> Option<Result<(Locked, BootInstant, Member)>> {
        let Self { orders, permit } = self;
        let ((answer, answered), (sender, ended)) = (oneshot::channel(), watch::channel(false));
        let _ = orders.locks.send((claim.clone(), answer, sender));
        let claim = claim.clone();
        let mut member = Member { claim, orders, ended, is_released: false, _slot: permit };
        let locked = answered.await.ok()?;
        // Unless the answer is `Yes`, there is no lock to release, and a late release could end the
        // same claim's next hold.
        member.is_released = !matches!(locked, Ok((Locked::Yes(_), _)));
        Some(locked.map(|(locked, sent)| (locked, sent, member)))
    }
}

impl Member {
    pub(super) fn id(&self) -> SessionId {
        self.orders.id
    }

    pub(super) async fn keep(&self) -> Result<Kept> {
        self.order(&self.orders.keeps).await
    }

    pub(super) async fn unlock(&mut self) -> Result<bool> {
        let unlocked = self.order(&self.orders.unlocks).await;
        self.is_released = unlocked.is_ok();
        unlocked
    }

    pub(super) async fn ended(&mut self) {
        let _ = self.ended.wait_for(|ended| *ended).await;
    }

    async fn order<T>(&self, orders: &UnboundedSender<(Claim, Answer<T>)>) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let _ = orders.send((self.claim.clone(), answer));
        answered.await.unwrap_or_else(|_| Err(Error::unavailable("the hold's session has ended")))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.is_released {
            let _ = self.orders.unlocks.send((self.claim.clone(), oneshot::channel().0));
        }
    }
}
