//! Detects ended sessions by polling their marks on another connection. sqlx reads a session's own
//! connection only while a statement runs, which would restart the idle timeout.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::JOINT;
use crate::mysql::dialect::{Connection, MySql};
use crate::server::session_lock::{Ended, Permit, SessionId};
use crate::server::{Dialect as _, Pool, Row, Use};

const INTERVAL: Duration = Duration::from_millis(200);

/// A session is polled every fifteenth of its TTL, but at least this often.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// The connection is closed after this many [`INTERVAL`]s without a session.
const KEPT: u32 = 25;

const BATCH: usize = 200;

pub(super) struct Watch {
    pool: Arc<Pool<MySql>>,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    sessions: Vec<Arc<Session>>,
    task: Option<JoinHandle<()>>,
}

struct Session {
    query: String,
    /// In units of [`INTERVAL`].
    interval: u32,
    seen: watch::Sender<Option<Ended>>,
}

pub(super) struct Watching(watch::Receiver<Option<Ended>>);

/// The permit is last, to be dropped after the connection.
type Line = (Connection, Permit<MySql>);

impl Watch {
    pub(super) fn new(pool: &Arc<Pool<MySql>>) -> Self {
        Self { pool: Arc::clone(pool), watched: Mutex::default() }
    }

    pub(super) fn over(self: &Arc<Self>, query: String, ttl: Duration) -> Watching {
        let (sender, seen) = watch::channel(None);
        let interval = (ttl / 15).clamp(INTERVAL, LONGEST_INTERVAL);
        let interval = (interval.as_millis() / INTERVAL.as_millis()) as u32;
        let mut watched = lock(&self.watched);
        watched.sessions.push(Arc::new(Session { query, interval, seen: sender }));
        if watched.task.as_ref().is_none_or(JoinHandle::is_finished) {
            watched.task = Some(tokio::spawn(Arc::clone(self).ask_on()));
        }
        Watching(seen)
    }

    async fn ask_on(self: Arc<Self>) {
        let mut line = None;
        let (mut idle, mut intervals) = (0, 0_u32);
        loop {
            tokio::time::sleep(INTERVAL).await;
            intervals = intervals.wrapping_add(1);
            let due: Vec<_> = {
                let mut watched = lock(&self.watched);
                watched.sessions.retain(|session| !session.seen.is_closed());
                if !watched.sessions.is_empty() {
                    idle = 0;
                } else if idle < KEPT {
                    idle += 1;
                } else {
                    watched.task = None;
                    return;
                }
                let is_due = |session: &&Arc<Session>| intervals.is_multiple_of(session.interval);
                watched.sessions.iter().filter(is_due).cloned().collect()
            };
            for some in due.chunks(BATCH) {
                if self.ask(&mut line, some).await.is_break() {
                    for session in some {
                        session.seen.send_replace(Some(Ended::Session));
                    }
                }
            }
        }
    }

    /// Returns `Break` if the server is gone: two attempts to connect failed.
    async fn ask(&self, line: &mut Option<Line>, sessions: &[Arc<Session>]) -> ControlFlow<()> {
        let select = |(at, session): (_, &Arc<Session>)| format!("SELECT {at}, {}", session.query);
        let text = sessions.iter().enumerate().map(select).collect::<Vec<_>>().join(" UNION ALL ");
        let limits = self.pool.limits();
        let mut refused = 0;
        while refused < 2 {
            let was_open = line.is_some();
            let limit = if was_open { limits.answer } else { limits.connect };
            let asking = async {
                let (connection, _) = match &mut *line {
                    Some(line) => line,
                    closed => closed.insert(self.open(limit).await?),
                };
                self.pool.dialect().fetch(connection, text.clone()).await
            };
            match timeout(limit, asking).await {
                Ok(Ok(rows)) => {
                    answered(sessions, &rows);
                    return ControlFlow::Continue(());
                }
                Ok(Err(error @ sqlx::Error::Io(_))) => {
                    tracing::debug!(%error, "the watching connection was lost");
                    // The server has closed the connection, and so its session.
                    if let Some((_, permit)) = line.take() {
                        permit.give_back();
                    }
                    refused += u32::from(!was_open);
                }
                // The dropped connection keeps its permit until its session has ended.
                Ok(Err(_)) | Err(_) => {
                    *line = None;
                    return ControlFlow::Continue(());
                }
            }
            tokio::time::sleep(INTERVAL / 4).await;
        }
        ControlFlow::Break(())
    }

    async fn open(&self, limit: Duration) -> sqlx::Result<Line> {
        let permit = Permit::get(&self.pool, Use::Listen, Instant::now() + limit).await;
        permit.map_err(|_| sqlx::Error::PoolTimedOut)?.connect().await
    }
}

fn answered(sessions: &[Arc<Session>], rows: &[Row]) {
    for row in rows {
        let seen = match (row.bool(1), row.bool(2)) {
            (Ok(false), _) => Ended::Session,
            (_, Ok(true)) => Ended::Asked,
            _ => continue,
        };
        let at = row.int(0).ok().and_then(|at| usize::try_from(at).ok());
        if let Some(session) = at.and_then(|at| sessions.get(at)) {
            session.seen.send_replace(Some(seen));
        }
    }
}

impl Watching {
    pub(super) async fn ended(&mut self) -> Ended {
        loop {
            // If the watching task fails, the session may still exist.
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(seen) = *self.0.borrow_and_update() {
                return seen;
            }
        }
    }
}

/// Returns SQL for whether the session still exists, and whether its client is asked to end a hold.
pub(super) fn own(id: SessionId, mark: &str) -> String {
    format!("IS_USED_LOCK({mark}) <=> {id}, FALSE")
}

pub(super) fn joint(id: SessionId) -> String {
    format!(
        "IS_USED_LOCK(CONCAT({JOINT}, {id})) <=> {id}, \
         IS_USED_LOCK(CONCAT({JOINT}, '{id}/ask')) IS NOT NULL"
    )
}
