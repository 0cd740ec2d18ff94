//! Ends abandoned sessions: those whose connection this client has closed.
//!
//! A server process that waits for a lock or a replica doesn't notice a closed connection. So one
//! task ends these sessions through another connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockwright_core::backend_util::lock;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{Dialect, Limits, SessionPermit, errors};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerSession {
    pub(crate) id: i64,
    /// Identifies the server process. After a failover, the same `id` may belong to another
    /// session.
    pub(crate) server: i64,
    /// A server time in µs at which the session existed. PostgreSQL may reuse `id` later.
    pub(crate) seen: i64,
    /// An instant before the connection was opened. A restarted MySQL reuses `id`.
    pub(crate) opened: Instant,
}

const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

const TRIES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

const LIMIT: Duration = Duration::from_secs(5);

/// The longest time limit for one attempt to connect. Each timeout doubles the limit, so that
/// attempts are few: a frozen server may later open a session for each. After an outage, requests
/// may wait this long.
const LONGEST_CONNECT: Duration = Duration::from_secs(15);

/// The time that the server needs to end the session of a closed connection.
const CLOSING: Duration = Duration::from_millis(200);

const UNUSED: Duration = Duration::from_secs(1);

pub(crate) struct Abandoned<D> {
    dialect: Arc<D>,
    limits: Limits,
    waiting: Mutex<Waiting>,
    refusal: Mutex<Option<String>>,
    closed: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    sessions: Vec<Ending>,
    is_attended: bool,
}

struct Ending {
    /// `None` if the connection was abandoned before it was ready.
    session: Option<ServerSession>,
    since: Instant,
    _permits: Permits,
    ended: oneshot::Sender<()>,
}

pub(crate) type Permits = (Option<SessionPermit>, Option<super::pool::Turn>);

/// A guard that frees the remaining sessions' permits if the task that ends sessions stops early.
struct Attending<D>(Option<Arc<Abandoned<D>>>);

impl<D: Dialect> Attending<D> {
    async fn run(&mut self) {
        if let Some(abandoned) = &self.0
            && abandoned.attend().await
        {
            self.0 = None;
        }
    }
}

impl<D> Drop for Attending<D> {
    fn drop(&mut self) {
        if let Some(abandoned) = self.0.take() {
            let mut waiting = lock(&abandoned.waiting);
            waiting.is_attended = false;
            waiting.sessions.clear();
        }
    }
}

impl<D> Abandoned<D> {
    pub(crate) fn new(dialect: Arc<D>, limits: Limits) -> Self {
        Self {
            dialect,
            limits,
            waiting: Mutex::default(),
            refusal: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn refusal(&self) -> Option<String> {
        lock(&self.refusal).clone()
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn set_refusal(&self, refusal: Option<String>) {
        *lock(&self.refusal) = refusal;
    }
}

impl<D: Dialect> Abandoned<D> {
    /// Ends the session in the background. The receiver resolves when the session has ended.
    pub(crate) fn add(
        self: &Arc<Self>,
        runtime: &Handle,
        session: Option<ServerSession>,
        permits: Permits,
    ) -> oneshot::Receiver<()> {
        let (ended, when_ended) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        let since = Instant::now();
        waiting.sessions.push(Ending { session, since, _permits: permits, ended });
        if !std::mem::replace(&mut waiting.is_attended, true) {
            drop(waiting);
            let mut attending = Attending(Some(Arc::clone(self)));
            runtime.spawn(async move { attending.run().await });
        }
        when_ended
    }

    /// Returns whether all sessions ended before the pool was dropped.
    async fn attend(&self) -> bool {
        let shortest = LIMIT.max(self.limits.connect);
        let (mut pause, mut limit) = (TRIES.0, shortest);
        loop {
            let begun = Instant::now();
            let refusal = match tokio::time::timeout(limit, self.dialect.open(self.limits)).await {
                Ok(Ok((connection, own))) => {
                    (pause, limit) = (TRIES.0, shortest);
                    self.set_refusal(None);
                    let is_done = self.end_all(connection, own, begun).await;
                    tokio::time::sleep(CLOSING).await;
                    let mut waiting = lock(&self.waiting);
                    if waiting.sessions.is_empty() {
                        waiting.is_attended = false;
                        return true;
                    }
                    if is_done && self.closed.load(Ordering::Relaxed) {
                        return false;
                    }
                    continue;
                }
                Ok(Err(cause)) => errors::plain(&cause),
                Err(_) => {
                    limit = (limit * 2).min(LONGEST_CONNECT.max(shortest));
                    "the server doesn't answer".to_owned()
                }
            };
            tracing::debug!(refusal, "abandoned sessions can't be ended");
            self.set_refusal(Some(refusal));
            if self.closed.load(Ordering::Relaxed) {
                return false;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(TRIES.1);
        }
    }

    async fn end_all(
        &self,
        mut connection: D::Connection,
        own: Option<ServerSession>,
        begun: Instant,
    ) -> bool {
        let answered = Instant::now();
        let (mut pause, mut used) = (LOOKS.0, Instant::now());
        loop {
            let known: Vec<ServerSession> =
                lock(&self.waiting).sessions.iter().filter_map(|ending| ending.session).collect();
            let mut still_there = Vec::new();
            if !known.is_empty() {
                let ending = self.dialect.end_sessions(&mut connection, &known);
                match tokio::time::timeout(LIMIT, ending).await {
                    Ok(Ok(found)) => still_there = found,
                    Ok(Err(cause)) if cause.as_database_error().is_some() => {
                        self.set_refusal(Some(errors::plain(&cause)));
                        tokio::time::sleep(TRIES.1).await;
                        return false;
                    }
                    Ok(Err(_)) | Err(_) => {
                        let (ended, _) = oneshot::channel();
                        lock(&self.waiting).sessions.push(Ending {
                            session: own,
                            since: Instant::now(),
                            _permits: (None, None),
                            ended,
                        });
                        return false;
                    }
                }
            }
            let has_ended = |ending: &mut Ending| match ending.session {
                Some(session) => known.contains(&session) && !still_there.contains(&session.id),
                // The session's id is unknown. The session has ended if its connection was closed
                // before this task connected, and the server has had `CLOSING` to notice the close.
                None => ending.since < begun && answered.elapsed() > CLOSING,
            };
            let (gone, is_empty, needs_another) = {
                let mut waiting = lock(&self.waiting);
                let gone: Vec<Ending> = waiting.sessions.extract_if(.., has_ended).collect();
                let later = |ending: &Ending| ending.session.is_none() && ending.since >= begun;
                (gone, waiting.sessions.is_empty(), waiting.sessions.iter().any(later))
            };
            let is_closed = self.closed.load(Ordering::Relaxed);
            if !gone.is_empty() || (!is_empty && !is_closed) {
                used = Instant::now();
            }
            if !gone.is_empty() {
                pause = LOOKS.0;
            }
            for Ending { ended, .. } in gone {
                let _ = ended.send(());
            }
            if needs_another || (is_empty && is_closed) || used.elapsed() > UNUSED {
                return true;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(if is_empty { LOOKS.0 * 4 } else { LOOKS.1 });
        }
    }
}
