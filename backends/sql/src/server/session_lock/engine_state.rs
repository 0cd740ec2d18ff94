use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_core::backend_util::{EndedClaims, Subscribers, lock};
use lockwright_core::{
    AcquireOutcome, Claim, Clock, Event, LockName, Reason, ReleaseOutcome, RenewalOutcome, Result,
    Token, Wait,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::{
    Idle, JointSessions, LateRecords, Permit, Queues, RECORD_AFTER, Server, Session, Sessions, idle,
};
use crate::server::Use;

const SESSION_LIMIT: Duration = Duration::from_millis(400);

/// The longest wait of an inspection, a listing or a break for this client's own records.
const RECORD_LIMIT: Duration = Duration::from_secs(2);

/// A request to a claim's task. If the task drops the answer's sender, it didn't carry out the
/// request, which the caller repeats.
pub(super) enum Command {
    Acquire(Wait, oneshot::Sender<Result<AcquireOutcome>>),
    Renew(oneshot::Sender<RenewalOutcome>),
    Release(oneshot::Sender<Result<ReleaseOutcome>>),
}

/// Identifies a hold. The same token with another name is a different hold.
pub(super) type Key = (LockName, Token);

pub(super) fn key(claim: &Claim) -> Key {
    (claim.name.clone(), claim.token)
}

pub(super) struct EngineState<S: Server> {
    pub(super) server: Arc<Sessions<S>>,
    pub(super) clock: Clock,
    pub(super) queues: Queues,
    pub(super) joint_sessions: JointSessions,
    pub(super) late_records: LateRecords,
    idle: Idle<S::Session>,
    tasks: Mutex<HashMap<Key, Registered>>,
    pub(super) over: EndedClaims,
    pub(super) clients: Subscribers,
    tidying: AtomicBool,
}

struct Registered {
    commands: mpsc::UnboundedSender<Command>,
    /// False while the claim has a hold without a record.
    is_recorded: Arc<AtomicBool>,
}

/// A task's entry in `EngineState::tasks`. Dropping it removes the entry.
pub(super) struct Place<S: Server> {
    state: Arc<EngineState<S>>,
    key: Key,
    pub(super) is_recorded: Arc<AtomicBool>,
}

impl<S: Server> EngineState<S> {
    pub(super) fn new(server: Arc<Sessions<S>>, clock: Clock) -> Self {
        Self {
            server,
            queues: Queues::default(),
            joint_sessions: JointSessions::default(),
            late_records: LateRecords::default(),
            idle: Idle::default(),
            tasks: Mutex::default(),
            over: EndedClaims::new(clock.clone()),
            clients: Subscribers::default(),
            clock,
            tidying: AtomicBool::new(false),
        }
    }

    pub(super) fn task_or_place(
        self: &Arc<Self>,
        claim: &Claim,
    ) -> std::result::Result<
        mpsc::UnboundedSender<Command>,
        (Place<S>, mpsc::UnboundedReceiver<Command>),
    > {
        let key = key(claim);
        match lock(&self.tasks).entry(key.clone()) {
            Entry::Occupied(task) => Ok(task.get().commands.clone()),
            Entry::Vacant(free) => {
                let (commands, receiver) = mpsc::unbounded_channel();
                let is_recorded = Arc::new(AtomicBool::new(true));
                free.insert(Registered { commands, is_recorded: Arc::clone(&is_recorded) });
                Err((Place { state: Arc::clone(self), key, is_recorded }, receiver))
            }
        }
    }

    pub(super) fn task(&self, claim: &Claim) -> Option<mpsc::UnboundedSender<Command>> {
        lock(&self.tasks).get(&key(claim)).map(|task| task.commands.clone())
    }

    /// Waits until the records of this client's holds are written, at most [`RECORD_LIMIT`].
    pub(super) async fn until_recorded(&self, is_wanted: impl Fn(&LockName) -> bool) {
        let unrecorded: Vec<_> = lock(&self.tasks)
            .iter()
            .filter(|((name, _), task)| is_wanted(name) && !is_set(&task.is_recorded))
            .map(|(_, task)| Arc::downgrade(&task.is_recorded))
            .collect();
        // Once a hold has ended, its flag no longer exists.
        let is_unrecorded =
            |flag: &Weak<AtomicBool>| flag.upgrade().is_some_and(|flag| !is_set(&flag));
        let recorded = async {
            for flag in unrecorded {
                while is_unrecorded(&flag) {
                    tokio::time::sleep(RECORD_AFTER / 4).await;
                }
            }
        };
        let _ = timeout(RECORD_LIMIT, recorded).await;
    }

    pub(super) fn report(&self, claim: &Claim, reason: Reason) {
        self.over.set(claim, reason);
        self.clients.send(&Event::Lost(claim.token, reason));
    }

    /// Returns whether so many holds have their own session that the next should share one.
    pub(super) fn is_crowded(&self) -> bool {
        let sessions = self.server.pool.sessions();
        let Some(own) = sessions.own() else { return false };
        let open = sessions.open(Use::Hold);
        if open < own || !self.idle.is_empty() {
            return false;
        }
        let joints = self.joint_sessions.count().saturating_sub(sessions.open(Use::Joint));
        open.saturating_sub(joints) >= own
    }

    /// Returns a session, and since when it was idle if it isn't new. If all are in use, waits only
    /// briefly, because the error must precede the client's own timeout.
    pub(super) async fn session(
        &self,
        claim: &Claim,
        of: Use,
    ) -> Result<(S::Session, Option<std::time::Instant>)> {
        let deadline = Instant::now() + claim.patience().min(SESSION_LIMIT);
        loop {
            if let Some((since, session)) = self.idle.take() {
                return Ok((session, Some(since)));
            }
            let pool = &self.server.pool;
            let sessions = pool.sessions();
            // True if a joint session has a `Hold` permit, which its end frees for a wait.
            let has_others = self.joint_sessions.count() > sessions.open(Use::Joint);
            if sessions.open(Use::Hold) == sessions.share(Use::Hold)
                && (of == Use::Joint || has_others)
            {
                self.joint_sessions.retire();
            }
            let permit = tokio::select! {
                biased;
                permit = Permit::get(pool, of, deadline), if of == Use::Joint => permit,
                permit = Permit::get(pool, Use::Hold, deadline) => permit,
                // Another task may take the kept session first.
                () = self.idle.kept.notified() => continue,
            };
            return Ok((S::open_session(&self.server, permit?).await?, None));
        }
    }

    /// Keeps a session without locks for reuse.
    pub(super) async fn put_back(self: &Arc<Self>, session: S::Session) {
        if let Some(one_too_many) = self.idle.keep(session) {
            one_too_many.close().await;
            return;
        }
        if self.tidying.swap(true, Ordering::AcqRel) {
            return;
        }
        let state = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(idle::KEPT / 2).await;
                let Some(state) = state.upgrade() else { return };
                state.close_idle(false).await;
                if state.idle.is_empty() {
                    state.tidying.store(false, Ordering::Release);
                    // A `put_back` that found the flag still set started no task, so this task
                    // continues for its session.
                    if state.idle.is_empty() || state.tidying.swap(true, Ordering::AcqRel) {
                        return;
                    }
                }
            }
        });
    }

    pub(super) async fn close_idle(&self, all: bool) {
        for session in self.idle.remove(all) {
            session.close().await;
        }
    }
}

impl<S: Server> Drop for Place<S> {
    fn drop(&mut self) {
        lock(&self.state.tasks).remove(&self.key);
    }
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}
