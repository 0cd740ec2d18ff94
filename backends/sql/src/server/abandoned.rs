//! Ends sessions whose connection this client closed or stopped opening. A server process that
//! waits for a lock or a replica doesn't notice that, so a task ends its session through another
//! connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockwright_core::backend_util::lock;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::{Dialect, Limits, SessionPermit, errors};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerSession {
    pub(crate) id: i64,
    /// Identifies the server, because another one may use the same `id` after a failover.
    pub(crate) server: i64,
    /// A server time in µs at which the session existed. On PostgreSQL, a later session may have
    /// the same `id`.
    pub(crate) seen: i64,
    /// An instant before the connection was opened. After a restart, MySQL reuses ids.
    pub(crate) opened: Instant,
}

pub(crate) enum Session {
    Open(ServerSession),
    /// One task, which ends if the set is dropped.
    Opening(JoinSet<Option<ServerSession>>),
}

pub(crate) type Opened<C> = (C, Option<ServerSession>);

/// Opens a connection in a task, even if the caller drops the receiver: the server may still open a
/// session, whose id only the task receives.
pub(crate) fn open<C: Send + 'static>(
    runtime: &Handle,
    opening: impl Future<Output = sqlx::Result<Opened<C>>> + Send + 'static,
) -> (Session, oneshot::Receiver<sqlx::Result<Opened<C>>>) {
    let (sender, receiver) = oneshot::channel();
    let opening = async move {
        let opened = opening.await;
        let session = opened.as_ref().ok().and_then(|(_, session)| *session);
        drop(sender.send(opened));
        session
    };
    let mut task = JoinSet::new();
    task.spawn_on(opening, runtime);
    (Session::Opening(task), receiver)
}

const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

const TRIES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The time limit of a request that ends sessions.
const LIMIT: Duration = Duration::from_secs(5);

/// An abandoned opening counts as failed once a connection that was begun over [`LIMIT`] later has
/// worked this long.
const OVERDUE: Duration = Duration::from_secs(1);

/// The longest time limit for an attempt to connect, and so the longest wait of a request after an
/// outage. Each timeout doubles the limit, so a frozen server later opens few sessions.
const LONGEST_CONNECT: Duration = Duration::from_secs(15);

/// The time that the server needs to end a closed connection's session.
pub(crate) const CLOSING: Duration = Duration::from_millis(200);

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
    session: Session,
    since: Instant,
    _permits: Permits,
    ended: oneshot::Sender<()>,
}

impl Ending {
    fn new(session: Session, permits: Permits) -> (Self, oneshot::Receiver<()>) {
        let (ended, when_ended) = oneshot::channel();
        (Self { session, since: Instant::now(), _permits: permits, ended }, when_ended)
    }

    fn server_session(&self) -> Option<ServerSession> {
        match self.session {
            Session::Open(session) => Some(session),
            Session::Opening(_) => None,
        }
    }

    fn poll_opening(&mut self) -> bool {
        let Session::Opening(opening) = &mut self.session else { return false };
        match opening.try_join_next() {
            Some(Ok(Some(session))) => {
                self.session = Session::Open(session);
                false
            }
            Some(Ok(None) | Err(_)) => true,
            None => false,
        }
    }

    fn abandoned_long_before(&self, begun: Instant) -> bool {
        self.since + LIMIT < begun
    }
}

pub(crate) type Permits = (Option<SessionPermit>, Option<super::pool::Turn>);

/// A guard that frees the remaining sessions' permits if the task stops early.
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
    /// Ends the session in the background, and then resolves the receiver.
    pub(crate) fn add(
        self: &Arc<Self>,
        runtime: &Handle,
        session: Session,
        permits: Permits,
    ) -> oneshot::Receiver<()> {
        let (ending, when_ended) = Ending::new(session, permits);
        let mut waiting = lock(&self.waiting);
        waiting.sessions.push(ending);
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
                Ok(Err(cause)) => {
                    self.remove_if(Ending::poll_opening);
                    errors::plain(&cause)
                }
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
            let mut any_ended = self.remove_if(Ending::poll_opening);
            let (known, is_empty) = {
                let waiting = lock(&self.waiting);
                let known: Vec<_> =
                    waiting.sessions.iter().filter_map(Ending::server_session).collect();
                (known, waiting.sessions.is_empty())
            };
            if !is_empty {
                let may_be_overdue = answered.elapsed() > OVERDUE;
                let ending = self.end(&mut connection, &known);
                match tokio::time::timeout(LIMIT, ending).await {
                    Ok(Ok(still_there)) => {
                        any_ended |= self.remove_if(|ending| match ending.server_session() {
                            Some(session) => {
                                known.contains(&session) && !still_there.contains(&session.id)
                            }
                            None => may_be_overdue && ending.abandoned_long_before(begun),
                        });
                    }
                    Ok(Err(cause)) if cause.as_database_error().is_some() => {
                        self.set_refusal(Some(errors::plain(&cause)));
                        tokio::time::sleep(TRIES.1).await;
                        return false;
                    }
                    Ok(Err(_)) | Err(_) => {
                        let own = own.map(|own| Ending::new(Session::Open(own), (None, None)).0);
                        lock(&self.waiting).sessions.extend(own);
                        return false;
                    }
                }
            }
            let (is_empty, needs_new_connection) = {
                let waiting = lock(&self.waiting);
                let may_have_failed = |ending: &Ending| {
                    ending.server_session().is_none()
                        && !ending.abandoned_long_before(begun)
                        && ending.abandoned_long_before(Instant::now())
                };
                (waiting.sessions.is_empty(), waiting.sessions.iter().any(may_have_failed))
            };
            let is_closed = self.closed.load(Ordering::Relaxed);
            if any_ended || (!is_empty && !is_closed) {
                used = Instant::now();
            }
            if any_ended {
                pause = LOOKS.0;
            }
            if needs_new_connection || (is_empty && is_closed) || used.elapsed() > UNUSED {
                return true;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(if is_empty { LOOKS.0 * 4 } else { LOOKS.1 });
        }
    }

    async fn end(
        &self,
        connection: &mut D::Connection,
        sessions: &[ServerSession],
    ) -> sqlx::Result<Vec<i64>> {
        if sessions.is_empty() {
            return self.dialect.fetch(connection, "SELECT 1".to_owned()).await.map(|_| Vec::new());
        }
        self.dialect.end_sessions(connection, sessions).await
    }

    fn remove_if(&self, has_ended: impl FnMut(&mut Ending) -> bool) -> bool {
        let gone: Vec<Ending> = lock(&self.waiting).sessions.extract_if(.., has_ended).collect();
        let any = !gone.is_empty();
        for Ending { ended, .. } in gone {
            let _ = ended.send(());
        }
        any
    }
}
