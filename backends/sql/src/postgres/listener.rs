//! Receives notifications of releases. The client listens while it has waiters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockwright_core::backend_util::{Subscribers, lock};
use lockwright_core::{LockName, Result};
use sqlx::postgres::PgListener;
use sqlx::{Acquire, Executor};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant as Deadline;

use super::POLL;
use super::dialect::{Postgresql, fetch_on};
use crate::server::errors::failed;
use crate::server::lease::ReleaseListener;
use crate::server::session_lock::Permit;
use crate::server::{Dialect, Effect, Pool, Sql, Use, Value};

/// The time limit for a notification that this client sends to itself.
const PROBE: Duration = Duration::from_secs(2);

const POLL_FOR: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_secs(2);

const UNUSED: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Listener {
    shared: Arc<Shared>,
    /// The runtime of the connect call. The listening task runs on it while it exists: a waiter's
    /// runtime may end while others need the task.
    runtime: Handle,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    pool: Arc<Pool<Postgresql>>,
    waiters: Arc<Subscribers>,
    is_active: AtomicBool,
    polls_until: Mutex<Option<Instant>>,
}

impl Listener {
    pub(super) fn new(pool: &Arc<Pool<Postgresql>>, waiters: &Arc<Subscribers>) -> Self {
        let shared = Shared {
            pool: Arc::clone(pool),
            waiters: Arc::clone(waiters),
            is_active: AtomicBool::new(false),
            polls_until: Mutex::default(),
        };
        Self { shared: Arc::new(shared), runtime: Handle::current(), task: Mutex::default() }
    }
}

impl ReleaseListener for Listener {
    fn listen(&self) -> Option<Duration> {
        let polls_until = *lock(&self.shared.polls_until);
        let has_none = self.shared.pool.sessions().share(Use::Listen) == 0;
        if has_none || polls_until.is_some_and(|until| Instant::now() < until) {
            return Some(POLL);
        }
        let mut task = lock(&self.task);
        // The previous task may have ended: without waiters, or with its runtime.
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            let listen_on = |runtime: &Handle| runtime.spawn(listen(Arc::clone(&self.shared)));
            let listening = listen_on(&self.runtime);
            // On an ended runtime, the task finishes at once. Then the caller's runtime runs it.
            let runtime = Handle::try_current().ok().filter(|_| listening.is_finished());
            *task = Some(runtime.map_or(listening, |runtime| listen_on(&runtime)));
        }
        None
    }

    fn is_active(&self) -> bool {
        self.shared.is_active.load(Ordering::SeqCst)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

/// Wakes the waiters when the listening task or its runtime ends. Their retries start another task.
struct Listening(Arc<Shared>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.is_active.store(false, Ordering::SeqCst);
        self.0.waiters.wake_all();
    }
}

async fn listen(shared: Arc<Shared>) {
    let guard = Listening(shared);
    let shared = &guard.0;
    let Shared { waiters, is_active, polls_until, .. } = &**shared;
    while waiters.anybody() {
        let is_notified = shared.listen_once().await;
        is_active.store(false, Ordering::SeqCst);
        match is_notified {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(
                    "notifications don't arrive, most likely because of a pooler, so waiters poll \
                     every {POLL:?}"
                );
                *lock(polls_until) = Some(Instant::now() + POLL_FOR);
                return;
            }
            Err(error) => {
                tracing::debug!(%error, "the listening connection was lost");
                waiters.wake_all();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

impl Shared {
    fn wake(&self, name: &str) {
        // Any client can write to the channel, so the name may be invalid.
        if let Ok(name) = LockName::new(name) {
            self.waiters.wake(&name);
        }
    }

    /// Listens until no waiter is left for [`UNUSED`]. Returns false if notifications don't arrive.
    async fn listen_once(&self) -> sqlx::Result<bool> {
        let limits = self.pool.limits();
        let deadline = Deadline::now() + limits.connect;
        let permit = Permit::get(&self.pool, Use::Listen, deadline).await;
        let permit = permit.map_err(|_| sqlx::Error::PoolTimedOut)?;
        let Some(mut line) = line(&self.pool, permit).await? else { return Ok(false) };
        let (listener, _) = &mut line;
        if !is_notified(&self.pool, listener, |name| self.wake(name)).await? {
            return Ok(false);
        }
        self.is_active.store(true, Ordering::SeqCst);
        self.waiters.wake_all();
        let mut used = Instant::now();
        loop {
            match tokio::time::timeout(LOOK, listener.try_recv()).await {
                Ok(note) => self.wake(note?.ok_or(sqlx::Error::WorkerCrashed)?.payload()),
                Err(_) => {
                    // A dead connection is as silent as an idle one, so send a query.
                    within(limits.answer, listener.execute("SELECT 1")).await?;
                }
            }
            if self.waiters.anybody() {
                used = Instant::now();
            } else if used.elapsed() > UNUSED {
                return Ok(true);
            }
        }
    }
}

/// Returns whether a new connection receives notifications. Without a free permit, returns true:
/// the active listener has it, and has tested its connection.
pub(super) async fn is_notified_at_all(pool: &Arc<Pool<Postgresql>>) -> Result<bool> {
    let Some(permit) = Permit::try_get(pool, Use::Listen) else { return Ok(true) };
    let trying = async {
        match &mut line(pool, permit).await? {
            Some((listener, _)) => is_notified(pool, listener, |_| ()).await,
            None => Ok(false),
        }
    };
    trying.await.map_err(|cause| failed(cause, Effect::Reads, pool.dialect()).error)
}

/// The permit is last, to be dropped after the connection.
type Line = (PgListener, Permit<Postgresql>);

/// Returns `None` behind a pooler.
async fn line(pool: &Pool<Postgresql>, permit: Permit<Postgresql>) -> sqlx::Result<Option<Line>> {
    let limits = pool.limits();
    let dialect = pool.dialect();
    let (begun, shared) = (Instant::now(), pool.shared_dialect());
    let identity = format!("SELECT {}", dialect.identity());
    let opening = async move {
        let only_one = shared.single_connection_pool(limits.connect).await?;
        let mut listener = PgListener::connect_with(&only_one).await?;
        // An eager reconnect would hide missed notifications.
        listener.eager_reconnect(false);
        let rows = fetch_on(listener.acquire().await?, identity).await?;
        let session = rows.first().and_then(|row| Postgresql::session(row, begun).ok().flatten());
        Ok((listener, session))
    };
    let limit = limits.connect + limits.answer;
    let (mut listener, session, permit) = within(limit, permit.open_unlimited(opening)).await?;
    if session.is_none() {
        return Ok(None);
    }
    within(limits.answer, listener.listen(dialect.channel())).await?;
    Ok(Some((listener, permit)))
}

async fn is_notified(
    pool: &Pool<Postgresql>,
    listener: &mut PgListener,
    other: impl Fn(&str),
) -> sqlx::Result<bool> {
    // No lock name begins with a space, so the probe wakes no waiter.
    let probe = format!(" {}", lockwright_core::Token::random());
    let notify = Sql::new("SELECT pg_notify(:channel, :probe)");
    let channel = ("channel", Value::Text(pool.dialect().channel()));
    let arguments = [channel, ("probe", Value::Text(&probe))];
    let sent = pool.fetch_so(&notify, &arguments, Effect::Reads, pool.slowly()).await;
    sent.map_err(|error| sqlx::Error::Protocol(error.to_string()))?;
    let arriving = async {
        while let Some(note) = listener.try_recv().await? {
            if note.payload() == probe {
                return Ok(true);
            }
            other(note.payload());
        }
        Err(sqlx::Error::WorkerCrashed)
    };
    tokio::time::timeout(PROBE, arriving).await.unwrap_or(Ok(false))
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
