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
use tokio::time::{Instant, sleep};

use super::{
    Idle, JointSessions, Permit, Queues, RECORD_AFTER, Server, Session, Sessions, Unrecorded, idle,
    record_late,
};
use crate::server::Use;

const SESSION_LIMIT: Duration = Duration::from_millis(400);

const RECORD_LIMIT: Duration = Duration::from_secs(2);

/// A request to a claim's task. If the task drops the answer's sender, the request had no effect,
/// and the caller repeats it.
pub(super) enum Command {
    Acquire(Wait, oneshot::Sender<Result<AcquireOutcome>>),
    Renew(oneshot::Sender<RenewalOutcome>),
    Release(oneshot::Sender<Result<ReleaseOutcome>>),
}

/// The same token with another name is a different hold.
pub(super) type Key = (LockName, Token);

pub(super) fn key(claim: &Claim) -> Key {
    (claim.name.clone(), claim.token)
}

pub(super) struct EngineState<S: Server> {
    pub(super) server: Arc<Sessions<S>>,
    pub(super) clock: Clock,
    pub(super) queues: Queues,
    pub(super) joint_sessions: JointSessions,
    pub(super) late_records: mpsc::UnboundedSender<(Instant, Unrecorded)>,
    idle: Idle<S::Session>,
    tasks: Mutex<HashMap<Key, Registered>>,
    pub(super) over: EndedClaims,
    pub(super) clients: Subscribers,
    may_be_idle: mpsc::Sender<()>,
}

struct Registered {
    commands: mpsc::UnboundedSender<Command>,
    is_recorded: Arc<AtomicBool>,
}

pub(super) struct Place<S: Server> {
    state: Arc<EngineState<S>>,
    key: Key,
    pub(super) is_recorded: Arc<AtomicBool>,
}

impl<S: Server> EngineState<S> {
    pub(super) fn start(server: Arc<Sessions<S>>, clock: Clock) -> Arc<Self> {
        let (late_records, unrecorded) = mpsc::unbounded_channel();
        tokio::spawn(record_late(Arc::clone(&server), unrecorded));
        let (may_be_idle, signals) = mpsc::channel(1);
        let state = Arc::new(Self {
            server,
            queues: Queues::default(),
            joint_sessions: JointSessions::default(),
            late_records,
            idle: Idle::default(),
            tasks: Mutex::default(),
            over: EndedClaims::new(clock.clone()),
            clients: Subscribers::default(),
            clock,
            may_be_idle,
        });
        tokio::spawn(close_idle(Arc::downgrade(&state), signals));
        state
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

    pub(super) async fn until_recorded(&self, is_wanted: impl Fn(&LockName) -> bool) {
        let mut unrecorded: Vec<_> = lock(&self.tasks)
            .iter()
            .filter(|((name, _), _)| is_wanted(name))
            .map(|(_, task)| Arc::downgrade(&task.is_recorded))
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < RECORD_LIMIT {
            // An ended hold has no flag, and needs no record.
            unrecorded.retain(|flag| flag.upgrade().is_some_and(|it| !it.load(Ordering::Relaxed)));
            if unrecorded.is_empty() {
                return;
            }
            sleep(RECORD_AFTER / 4).await;
        }
    }

    pub(super) fn report(&self, claim: &Claim, reason: Reason) {
        self.over.set(claim, reason);
        self.clients.send(&Event::Lost(claim.token, reason));
    }

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

    /// Returns a session and, if it was idle, since when. Waits only briefly: an error must precede
    /// the client's own timeout.
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
            // A joint session has a `Hold` permit, which a waiting claim can have once that session
            // ends.
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
                // A session is idle, but another task may take it first.
                () = self.idle.kept.notified() => continue,
            };
            return Ok((S::open_session(&self.server, permit?).await?, None));
        }
    }

    pub(super) async fn put_back(&self, session: S::Session) {
        match self.idle.keep(session) {
            Some(one_too_many) => one_too_many.close().await,
            None => drop(self.may_be_idle.try_send(())),
        }
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

async fn close_idle<S: Server>(state: Weak<EngineState<S>>, mut signals: mpsc::Receiver<()>) {
    while signals.recv().await.is_some() {
        sleep(idle::KEPT / 2).await;
        let Some(state) = state.upgrade() else { return };
        state.close_idle(false).await;
        if !state.idle.is_empty() {
            let _ = state.may_be_idle.try_send(());
        }
    }
}
