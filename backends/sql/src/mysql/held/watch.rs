//! Detects ended sessions.
//!
//! Another connection polls the sessions' marks. The session itself can't be watched, because sqlx
//! reads a connection only while a statement runs, which would restart the idle timeout.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::mysql::MySqlConnection;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::mysql::dialect::{MySql, fetch_on};
use crate::server::dialect::{Dialect, Row};
use crate::server::held::{Permit, SessionId};
use crate::server::pool::Pool;
use crate::server::sessions::Use;

/// A session's end is reported at most this late.
const INTERVAL: Duration = Duration::from_millis(200);

/// The number of idle intervals after which the connection is closed.
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
    sessions: HashMap<u64, (SessionId, Arc<str>, watch::Sender<bool>)>,
    asked: bool,
}

#[derive(Debug)]
pub(super) struct Watching {
    watch: Arc<Watch>,
    number: u64,
    ended: watch::Receiver<bool>,
}

enum Asked {
    Answered(Line),
    Unsure,
    /// Two attempts to connect failed.
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

    pub(super) fn over(self: &Arc<Self>, session: SessionId, mark: String) -> Watching {
        let (sender, ended) = watch::channel(false);
        let mut watched = self.watched();
        let number = watched.next;
        watched.next += 1;
        watched.sessions.insert(number, (session, mark.into(), sender));
        if !std::mem::replace(&mut watched.asked, true) {
            tokio::spawn(Arc::clone(self).ask_on());
        }
        Watching { watch: Arc::clone(self), number, ended }
    }

    async fn ask_on(self: Arc<Self>) {
        let mut asking = Asking { watch: Arc::clone(&self), ended: false };
        let mut connection = None;
        let mut idle = 0;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let sessions: Vec<_> = {
                let mut watched = self.watched();
                if watched.sessions.is_empty() && idle >= KEPT {
                    watched.asked = false;
                    asking.ended = true;
                    return;
                }
                let each = watched.sessions.iter();
                each.map(|(number, (session, mark, _))| (*number, *session, Arc::clone(mark)))
                    .collect()
            };
            idle = if sessions.is_empty() { idle + 1 } else { 0 };
            for some in sessions.chunks(BATCH) {
                connection = match self.ask(connection.take(), some).await {
                    Asked::Answered(connection) => Some(connection),
                    Asked::Unsure => None,
                    Asked::Gone => {
                        some.iter().for_each(|(number, ..)| self.notify(*number));
                        None
                    }
                };
            }
        }
    }

    async fn ask(&self, line: Option<Line>, sessions: &[(u64, SessionId, Arc<str>)]) -> Asked {
        let text: Vec<String> = sessions
            .iter()
            .enumerate()
            .map(|(at, (_, session, mark))| {
                format!("SELECT {at}, IS_USED_LOCK({mark}) <=> {session}")
            })
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

    fn answered(&self, sessions: &[(u64, SessionId, Arc<str>)], rows: &[Row]) {
        for row in rows {
            let (Ok(at), Ok(false)) = (row.int(0), row.bool(1)) else { continue };
            let session = usize::try_from(at).ok().and_then(|at| sessions.get(at));
            if let Some((number, ..)) = session {
                self.notify(*number);
            }
        }
    }

    fn notify(&self, number: u64) {
        if let Some((.., ended)) = self.watched().sessions.remove(&number) {
            ended.send_replace(true);
        }
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Asking {
    watch: Arc<Watch>,
    ended: bool,
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.ended {
            self.watch.watched().asked = false;
        }
    }
}

impl Watching {
    pub(super) async fn ended(&mut self) {
        // If the watch fails, the session may still exist, so nothing is reported.
        if self.ended.wait_for(|ended| *ended).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.watch.watched().sessions.remove(&self.number);
    }
}
