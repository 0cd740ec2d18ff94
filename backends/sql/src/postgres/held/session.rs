//! A connection that carries a hold.
//!
//! sqlx reads a connection only while a statement runs. A [`PgListener`], here without a channel,
//! is also read in between, which reveals the connection's end. Its `try_recv` is cancel-safe.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{Claim, Error, ErrorKind, Result, async_trait};
use sqlx::Acquire;
use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use tokio::time::timeout_at;

use super::Kind;
use super::statements::Statements;
use crate::postgres::dialect::{Postgresql, fetch_on};
use crate::server::dialect::{Dialect, Row};
use crate::server::errors::{self, Effect};
use crate::server::held::{Kept, Locked, Permit, Session, SessionId};
use crate::server::pool::Pool;
use crate::server::sessions::Use;
use crate::server::sql::{Arguments, Value};

const CLOSE_LIMIT: Duration = Duration::from_secs(2);

const LET_GO: &str = "SELECT set_config('application_name', 'lockwright/idle', false), \
                      set_config('idle_session_timeout', '60s', false), \
                      set_config('idle_in_transaction_session_timeout', '60s', false), \
                      pg_advisory_unlock_all()::text";

pub(crate) struct PgSession {
    listener: PgListener,
    /// A pool whose only connection the listener uses.
    pool: PgPool,
    statements: Arc<Statements>,
    id: SessionId,
    prepared: Vec<Arc<str>>,
    /// Set when the connection has failed. The listener would reconnect, without the hold.
    over: bool,
    /// True after a wait, which may leave the barrier and the mark behind.
    has_waited: bool,
    is_last: bool,
    checks_clients: bool,
    /// Dropped after the connection.
    permit: Permit<Postgresql>,
}

/// [Error codes](https://www.postgresql.org/docs/current/errcodes-appendix.html).
mod code {
    pub(super) const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub(super) const QUERY_CANCELED: &str = "57014";
    pub(super) const UNDEFINED_OBJECT: &str = "42704";
    pub(super) const DEADLOCK: &str = "40P01";
}

impl PgSession {
    pub(super) async fn connect(
        statements: &Arc<Statements>,
        requests: &Arc<Pool<Postgresql>>,
        permit: Permit<Postgresql>,
        check_clients: bool,
    ) -> Result<Self> {
        let (dialect, limit) = (&statements.dialect, requests.limits().connect);
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(limit)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .after_release(|_, _| Box::pin(async { Ok(false) }))
            .connect_lazy_with(dialect.server.clone());
        let opened = Instant::now();
        let connected = tokio::select! {
            biased;
            listener = PgListener::connect_with(&pool) => listener,
            error = refusal(requests) => Err(error),
        };
        let mut listener = match connected {
            Ok(listener) => listener,
            // The session may exist on the server, so the permit isn't given back at once.
            Err(error @ sqlx::Error::PoolTimedOut) => {
                return Err(errors::not_connected(error, dialect).error);
            }
            Err(error) => {
                permit.give_back();
                return Err(errors::not_connected(error, dialect).error);
            }
        };
        listener.eager_reconnect(false);
        listener.ignore_pool_close_event(true);
        let mut session = Self {
            listener,
            pool,
            statements: Arc::clone(statements),
            id: 0,
            prepared: Vec::new(),
            over: false,
            has_waited: false,
            is_last: false,
            checks_clients: check_clients,
            permit,
        };
        // One limit covers connecting and `set_up`, because the connection may become silent in
        // between.
        match timeout_at((opened + limit).into(), session.set_up(opened)).await {
            Ok(result) => result.map(|()| session),
            Err(_) => Err(errors::not_connected_in(limit, dialect.backend()).error),
        }
    }

    async fn set_up(&mut self, opened: Instant) -> Result<()> {
        // A session without a hold also times out, because this process may be suspended. At `read
        // committed`, a hold's transaction sees later commits, such as a break.
        let mut text = "SET application_name = 'lockwright/idle'; SET statement_timeout = 0; \
                        SET lock_timeout = 0; SET idle_session_timeout = '60s'; \
                        SET idle_in_transaction_session_timeout = '60s'; \
                        SET default_transaction_isolation = 'read committed';"
            .to_owned();
        if self.server_version().await? >= 170_000 {
            text.push_str(" SET transaction_timeout = 0;");
        }
        text.push_str(" SELECT ");
        text.push_str(&self.statements.dialect.identity());
        let rows = match self.run(text).await {
            Ok(rows) => rows,
            Err(error) if code_of(&error) == Some(code::UNDEFINED_OBJECT) => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "this mode needs PostgreSQL 14 or later, which can end idle sessions; use the \
                     mode lease",
                )
                .with_backend(self.backend()));
            }
            Err(error) => return Err(self.failed(error)),
        };
        if let Some(row) = rows.last() {
            self.id = row.int(0).unwrap_or_default();
            let session = Postgresql::session(row, opened).ok().flatten();
            session.into_iter().for_each(|session| self.permit.is_of(session));
        }
        if self.checks_clients {
            // Without this setting, a killed client's session stays in the queue.
            let set = "SET client_connection_check_interval = '1s'".to_owned();
            self.checks_clients = match self.run(set).await {
                Ok(_) => true,
                Err(sqlx::Error::Database(_)) => false,
                Err(error) => return Err(self.failed(error)),
            };
        }
        Ok(())
    }

    pub(super) fn checks_clients(&self) -> bool {
        self.checks_clients
    }

    async fn server_version(&mut self) -> Result<u32> {
        match (&mut self.listener).acquire().await {
            Ok(connection) => Ok(connection.server_version_num().unwrap_or_default()),
            Err(error) => Err(self.failed(error)),
        }
    }

    pub(super) async fn run(&mut self, text: String) -> sqlx::Result<Vec<Row>> {
        if self.over {
            return Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into()));
        }
        let Self { listener, .. } = self;
        let result = async {
            let connection = (&mut *listener).acquire().await?;
            fetch_on(connection, text).await
        }
        .await;
        let ended = match &result {
            Ok(_) => false,
            Err(sqlx::Error::Database(error)) => is_the_end(error.code().as_deref()),
            Err(_) => true,
        };
        self.over |= ended;
        result
    }

    async fn about(
        &mut self,
        which: Which,
        claim: &Claim,
        more: Arguments<'_>,
    ) -> sqlx::Result<Vec<Row>> {
        let (text, plan) = {
            let statements = &self.statements;
            let locking = statements.of(claim);
            let sql = match which {
                Which::Try => &locking.try_lock,
                Which::Wait => &locking.wait,
                Which::Missed => &locking.missed,
                Which::Make => &statements.make,
                Which::Unlock => &locking.unlock,
                Which::Keep => &locking.keep,
            };
            let token = claim.token.to_string();
            let mut arguments =
                vec![("name", Value::Text(claim.name.as_str())), ("token", Value::Text(&token))];
            arguments.extend_from_slice(more);
            match sql.hot_name() {
                Some(name) => {
                    let plan = statements.dialect.plans.of(name, sql, &arguments);
                    let execute = plan.execute(&arguments);
                    if self.prepared.contains(&plan.name) {
                        (execute, None)
                    } else {
                        (execute, Some(plan))
                    }
                }
                None => (sql.render(&arguments, Postgresql::literal), None),
            }
        };
        let mut all = String::new();
        let in_transaction = self.statements.kind == Kind::Row;
        if which == Which::Keep {
            // Other sessions may have locked the table that a renewal reads. Without a limit, a
            // release would wait for the renewal.
            let savepoint = if in_transaction { "SAVEPOINT lockwright; " } else { "" };
            let limit = millis(claim.ttl / 4);
            all.push_str(&format!(
                "{savepoint}SELECT set_config('statement_timeout', '{limit}', true); "
            ));
        }
        if let Some(plan) = &plan {
            all.push_str(&plan.prepare);
            all.push_str("; ");
        }
        if which == Which::Try && in_transaction {
            all.push_str("BEGIN; ");
        }
        all.push_str(&text);
        if which == Which::Keep && in_transaction {
            all.push_str("; RELEASE SAVEPOINT lockwright");
        }
        if which == Which::Missed && self.is_last {
            all.push_str("; ");
            all.push_str(LET_GO);
        }
        let rows = self.run(all).await?;
        self.prepared.extend(plan.map(|plan| Arc::clone(&plan.name)));
        Ok(rows)
    }

    /// Rolls back a failed attempt.
    async fn lock_row(
        &mut self,
        claim: &Claim,
        which: Which,
        times: Arguments<'_>,
    ) -> sqlx::Result<Locked> {
        const TRIES: u32 = 5;
        // A wait's earlier statements return four rows, so a fifth row shows that the row was
        // locked.
        let before = if which == Which::Wait { 4 } else { 0 };
        for _ in 0..TRIES {
            match self.about(which, claim, times).await {
                Ok(rows) if rows.len() > before => return Ok(Locked::Yes),
                Ok(_) => {}
                Err(error) if is_in_vain(&error) => {}
                Err(error) => return Err(error),
            }
            let rows = self.about(Which::Missed, claim, &[]).await?;
            let flag = |at| rows.first().and_then(|row| row.bool(at).ok()).unwrap_or(false);
            let (exists, same_token) = (flag(0), flag(1));
            if exists {
                return Ok(Locked::No { same_token });
            }
            self.about(Which::Make, claim, &[]).await?;
        }
        Ok(Locked::No { same_token: false })
    }

    async fn lock_key(
        &mut self,
        claim: &Claim,
        which: Which,
        times: Arguments<'_>,
    ) -> sqlx::Result<Locked> {
        match self.about(which, claim, times).await {
            Ok(_) if which == Which::Wait => Ok(Locked::Yes),
            Ok(rows) => {
                let row = rows.last().ok_or(sqlx::Error::RowNotFound)?;
                let flag = |at| row.bool(at).unwrap_or(false);
                Ok(if flag(0) { Locked::Yes } else { Locked::No { same_token: flag(1) } })
            }
            Err(error) if is_in_vain(&error) => {
                // The statement may time out between the grant and its answer, without a release of
                // the lock.
                let rows = self.about(Which::Missed, claim, &[]).await?;
                let same_token = rows.first().and_then(|row| row.bool(0).ok()).unwrap_or(false);
                Ok(Locked::No { same_token })
            }
            Err(error) => Err(error),
        }
    }

    fn failed(&self, error: sqlx::Error) -> Error {
        errors::failed(error, Effect::Changes, &self.statements.dialect).error
    }

    fn backend(&self) -> &'static str {
        self.statements.dialect.backend()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Try,
    Wait,
    Missed,
    Make,
    Unlock,
    Keep,
}

impl fmt::Debug for PgSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The other fields contain the password.
        f.debug_struct("PgSession")
            .field("id", &self.id)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Session for PgSession {
    fn id(&self) -> SessionId {
        self.id
    }

    async fn lock(&mut self, claim: &Claim, slice: Option<Duration>, last: bool) -> Result<Locked> {
        let ttl_ms = ("ttl_ms", Value::Int(millis(claim.ttl)));
        let slice_ms = ("slice_ms", Value::Int(millis(slice.unwrap_or_default()).max(1)));
        let times = [ttl_ms, slice_ms];
        let which = if slice.is_some() { Which::Wait } else { Which::Try };
        self.has_waited |= slice.is_some();
        self.is_last = last;
        let locked = match self.statements.kind {
            Kind::Session => self.lock_key(claim, which, &times).await,
            Kind::Row => self.lock_row(claim, which, &times).await,
        };
        if last && matches!(locked, Ok(Locked::No { .. })) {
            self.has_waited = false;
        }
        locked.map_err(|error| self.failed(error))
    }

    async fn keep(&mut self, claim: &Claim) -> Result<Kept> {
        let rows = match self.about(Which::Keep, claim, &[]).await {
            Ok(rows) => rows,
            Err(sqlx::Error::Database(error)) if !is_the_end(error.code().as_deref()) => {
                // Locks from before the savepoint survive a rollback to it.
                let undo = match self.statements.kind {
                    Kind::Session => "",
                    Kind::Row => "ROLLBACK TO SAVEPOINT lockwright; RELEASE SAVEPOINT lockwright; ",
                };
                self.prepared.clear();
                let undone = self.run(format!("{undo}DEALLOCATE ALL")).await;
                return undone.map(|_| Kept::Unsure).map_err(|error| self.failed(error));
            }
            Err(error) => return Err(self.failed(error)),
        };
        let row = rows.last();
        if row.and_then(|row| row.int(0).ok()) != Some(self.id) {
            self.over = true;
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                "another session answered instead of the one with the lock: a pooler is in \
                 between; connect to the server itself, or use the mode lease",
            )
            .with_backend(self.backend()));
        }
        let broken = row.and_then(|row| row.bool(1).ok()).unwrap_or(false);
        Ok(if broken { Kept::Broken } else { Kept::Renewed })
    }

    async fn shorten(&mut self, to: Duration) -> Result<()> {
        // Zero would disable the timeout.
        let ttl_ms = [("ttl_ms", Value::Int(millis(to).max(1)))];
        let text = self.statements.shorten.render(&ttl_ms, Postgresql::literal);
        self.run(text).await.map(drop).map_err(|error| self.failed(error))
    }

    async fn leave(&mut self) -> Result<()> {
        if std::mem::take(&mut self.has_waited) {
            self.run(LET_GO.to_owned()).await.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    async fn unlock(&mut self, claim: &Claim) -> Result<bool> {
        self.has_waited = false;
        let rows = self.about(Which::Unlock, claim, &[]).await.map_err(|e| self.failed(e))?;
        Ok(rows.last().and_then(|row| row.bool(0).ok()).unwrap_or(false))
    }

    async fn ended(&mut self) {
        while !self.over {
            self.over = !matches!(self.listener.try_recv().await, Ok(Some(_)));
        }
    }

    async fn close(self) {
        let Self { listener, pool, permit, .. } = self;
        // Dropping the listener returns the connection to the pool, which closes it.
        drop(listener);
        let _ = tokio::time::timeout(CLOSE_LIMIT, pool.close()).await;
        drop(permit);
    }
}

/// Returns why connecting fails. sqlx's pool retries silently while no server answers or the server
/// has too many clients.
async fn refusal(requests: &Arc<Pool<Postgresql>>) -> sqlx::Error {
    const PAUSE: Duration = Duration::from_millis(200);

    loop {
        tokio::time::sleep(PAUSE).await;
        // The modes `session` and `row` have no listener, so its permit is free.
        let Some(mut permit) = Permit::try_get(requests, Use::Listen) else { continue };
        match requests.dialect().open(requests.limits()).await {
            Ok((connection, session)) => {
                session.into_iter().for_each(|session| permit.is_of(session));
                drop(connection);
            }
            Err(error) => {
                permit.give_back();
                return error;
            }
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX)
}

fn code_of(error: &sqlx::Error) -> Option<&'static str> {
    let code = error.as_database_error()?.code()?;
    [code::LOCK_NOT_AVAILABLE, code::QUERY_CANCELED, code::UNDEFINED_OBJECT, code::DEADLOCK]
        .into_iter()
        .find(|known| *known == code)
}

fn is_in_vain(error: &sqlx::Error) -> bool {
    matches!(code_of(error), Some(code::LOCK_NOT_AVAILABLE | code::QUERY_CANCELED | code::DEADLOCK))
}

/// Returns whether the session has ended: class 57P (an operator, an idle timeout, a shutdown),
/// class 08 (the connection), and the idle timeouts inside a transaction.
fn is_the_end(code: Option<&str>) -> bool {
    code.is_none_or(|code| {
        code.starts_with("57P")
            || code.starts_with("08")
            || matches!(code, "25P03" | "25P04" | "XX000")
    })
}
