//! Detects ended sessions.
//!
//! Another connection polls the sessions' marks. A session's own connection can't be watched,
//! because sqlx reads it only while a statement runs, and a statement would restart the idle
//! timeout.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use sqlx::mysql::MySqlConnection;
use tokio::sync::watch;
use tokio::time::Instant;

use super::JOINT;
use crate::mysql::dialect::{MySql, fetch_on};
use crate::server::dialect::{Dialect, Row};
use crate::server::pool::Pool;
use crate::server::session_limit::Use;
use crate::server::session_lock::{Ended, Permit, SessionId};

const INTERVAL: Duration = Duration::from_millis(200);

/// A session is polled each fifteenth of its TTL, but at least this often. The interval delays the
/// report of the session's end.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// The watching connection is closed after this number of intervals without a session.
const KEPT: u32 = 25;

const BATCH: usize = 200;

#[derive(Debug)]
pub(super) struct Watch {
    pool: Arc<Pool<MySql>>,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    next: u64,
    sessions: HashMap<u64, Session>,
    asked: bool,
}

#[derive(Debug)]
struct Session {
    /// The SQL that [`joint`] or [`own`] returns.
    query: Arc<str>,
    /// In units of [`INTERVAL`].
    interval: u32,
    ended: watch::Sender<Option<Ended>>,
}

#[derive(Debug)]
pub(super) struct Watching {
    watch: Arc<Watch>,
    number: u64,
    seen: watch::Receiver<Option<Ended>>,
}

enum Asked {
    Answered(Line),
    Unsure,
    /// The server is gone: two attempts to connect failed.
    Gone,
}

#[derive(Debug)]
struct Line {
    connection: MySqlConnection,
    permit: Permit<MySql>,
}

impl Watch {
    pub(super) fn new(pool: &Arc<Pool<MySql>>) -> Self {
        Self { pool: Arc::clone(pool), watched: Mutex::default() }
    }

    pub(super) fn over(self: &Arc<Self>, query: String, ttl: Duration) -> Watching {
        let (ended, seen) = watch::channel(None);
        let interval = (ttl / 15).clamp(INTERVAL, LONGEST_INTERVAL);
        let interval = (interval.as_millis() / INTERVAL.as_millis()) as u32;
        let mut watched = lock(&self.watched);
        let number = watched.next;
        watched.next += 1;
        let session = Session { query: query.into(), interval, ended };
        watched.sessions.insert(number, session);
        if !std::mem::replace(&mut watched.asked, true) {
            tokio::spawn(Arc::clone(self).ask_on());
        }
        Watching { watch: Arc::clone(self), number, seen }
    }

    async fn ask_on(self: Arc<Self>) {
        let mut asking = Asking { watch: Arc::clone(&self), ended: false };
        let mut connection = None;
        let (mut idle, mut intervals) = (0, 0_u32);
        loop {
            tokio::time::sleep(INTERVAL).await;
            intervals = intervals.wrapping_add(1);
            let sessions: Vec<_> = {
                let mut watched = lock(&self.watched);
                if !watched.sessions.is_empty() {
                    idle = 0;
                } else if idle < KEPT {
                    idle += 1;
                } else {
                    watched.asked = false;
                    asking.ended = true;
                    return;
                }
                let due = watched.sessions.iter();
                let due = due.filter(|(_, session)| intervals.is_multiple_of(session.interval));
                due.map(|(number, session)| (*number, Arc::clone(&session.query))).collect()
            };
            for some in sessions.chunks(BATCH) {
                connection = match self.ask(connection.take(), some).await {
                    Asked::Answered(connection) => Some(connection),
                    Asked::Unsure => None,
                    Asked::Gone => {
                        some.iter().for_each(|(number, _)| self.notify(*number, Ended::Session));
                        None
                    }
                };
            }
        }
    }

    async fn ask(&self, line: Option<Line>, sessions: &[(u64, Arc<str>)]) -> Asked {
        let text: Vec<String> = sessions
            .iter()
            .enumerate()
            .map(|(at, (_, query))| format!("SELECT {at}, {query}"))
            .collect();
        let text = text.join(" UNION ALL ");
        let limits = self.pool.limits();
        if let Some(mut line) = line {
            let asking = fetch_on(&mut line.connection, text.clone());
            match tokio::time::timeout(limits.answer, asking).await {
                Ok(Ok(rows)) => {
                    self.answered(sessions, &rows);
                    return Asked::Answered(line);
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the watching connection was lost");
                    if matches!(error, sqlx::Error::Io(_)) {
                        // The server has closed the connection, so its session has ended.
                        line.permit.give_back();
                    }
                }
                Err(_) => return Asked::Unsure,
            }
        }
        let mut refused = false;
        loop {
            // The previous connection keeps its permit until its session has ended.
            let deadline = Instant::now() + limits.connect;
            let Ok(mut permit) = Permit::get(&self.pool, Use::Listen, deadline).await else {
                return Asked::Unsure;
            };
            let connecting = async {
                let (mut connection, session) = self.pool.dialect().open(limits).await?;
                session.into_iter().for_each(|session| permit.is_of(session));
                let rows = fetch_on(&mut connection, text.clone()).await?;
                sqlx::Result::Ok((connection, rows))
            };
            match tokio::time::timeout_at(deadline, connecting).await {
                Ok(Ok((connection, rows))) => {
                    self.answered(sessions, &rows);
                    return Asked::Answered(Line { connection, permit });
                }
                Ok(Err(error)) => {
                    permit.give_back();
                    match error {
                        sqlx::Error::Io(_) if refused => return Asked::Gone,
                        sqlx::Error::Io(_) => refused = true,
                        _ => return Asked::Unsure,
                    }
                }
                Err(_) => return Asked::Unsure,
            }
            tokio::time::sleep(INTERVAL / 4).await;
        }
    }

    fn answered(&self, sessions: &[(u64, Arc<str>)], rows: &[Row]) {
        for row in rows {
            let seen = match (row.bool(1), row.bool(2)) {
                (Ok(false), _) => Ended::Session,
                (_, Ok(true)) => Ended::Asked,
                _ => continue,
            };
            let at = row.int(0).ok().and_then(|at| usize::try_from(at).ok());
            if let Some((number, _)) = at.and_then(|at| sessions.get(at)) {
                self.notify(*number, seen);
            }
        }
    }

    fn notify(&self, number: u64, seen: Ended) {
        if let Some(session) = lock(&self.watched).sessions.get(&number) {
            session.ended.send_replace(Some(seen));
        }
    }
}

struct Asking {
    watch: Arc<Watch>,
    ended: bool,
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.ended {
            lock(&self.watch.watched).asked = false;
        }
    }
}

impl Watching {
    pub(super) async fn ended(&mut self) -> Ended {
        loop {
            // If the watching task fails, the session may still exist, so nothing is reported.
            if self.seen.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(seen) = *self.seen.borrow_and_update() {
                return seen;
            }
        }
    }
}

/// Returns SQL for two columns: whether the session still exists, and whether its client is asked
/// to end a hold.
pub(super) fn own(id: SessionId, mark: &str) -> String {
    format!("IS_USED_LOCK({mark}) <=> {id}, FALSE")
}

pub(super) fn joint(id: SessionId) -> String {
    format!(
        "IS_USED_LOCK(CONCAT({JOINT}, {id})) <=> {id}, \
         IS_USED_LOCK(CONCAT({JOINT}, '{id}/ask')) IS NOT NULL"
    )
}

impl Drop for Watching {
    fn drop(&mut self) {
        lock(&self.watch.watched).sessions.remove(&self.number);
    }
}
